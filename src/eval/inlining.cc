// Which producers are inlined (inlining.h). Readers stand after what they read: whether all of an
// instruction's readers take it in is known when one looks at it from the end.
#include "src/eval/inlining.h"

#include <algorithm>
#include <set>
#include <utility>

#include "src/eval/fusion.h"
#include "src/ir/native.h"
#include "src/ir/op_table.h"

namespace tpuc {
namespace {

constexpr size_t kMostProducers = 16;  // of one reader: their blocks share a cache
constexpr size_t kMostReaders = 4;     // that compute it again, each

// A few cycles for a vector of elements.
bool IsCheap(Op op) {
  switch (op) {
    case Op::kAbs:
    case Op::kAdd:
    case Op::kAnd:
    case Op::kClamp:
    case Op::kCompare:
    case Op::kMaximum:
    case Op::kMinimum:
    case Op::kMultiply:
    case Op::kNegate:
    case Op::kNot:
    case Op::kOr:
    case Op::kSelect:
    case Op::kSubtract:
      return true;
    default:
      return false;
  }
}

class Inliner {
 public:
  Inliner(const Computation& computation, Plan* plan)
      : computation_(computation), plan_(*plan), readers_(plan->operands.size()) {}

  void Run() {
    const int n = static_cast<int>(plan_.operands.size());
    plan_.statistics_only.assign(n, false);
    for (int i = 0; i < n; ++i) {
      if (IsCandidate(i)) candidates_.push_back(i);
    }
    if (candidates_.empty()) return;
    inline_.assign(n, false);
    for (int i : candidates_) inline_[i] = true;
    for (int i = 0; i < n; ++i) {
      if (!plan_.needed[i]) continue;
      for (int operand : plan_.operands[i]) readers_[operand].push_back(i);
    }
    // What is not inlined takes nothing in, either: until nothing changes.
    constexpr int kMostPasses = 8;
    for (int pass = 0; Reject(); ++pass) {
      if (pass == kMostPasses) return;
    }
    Apply();
  }

 private:
  using Set = std::set<int>;

  const Instruction& At(int i) const { return *computation_.instructions[i]; }

  // The normalised result of a batch-norm-training, or element-wise.
  bool IsCandidate(int i) const {
    if (!plan_.needed[i] || plan_.random[i] || i == plan_.root || plan_.splat[i]) return false;
    if (IsNormalised(i)) return true;
    const auto native = [&](int j) {
      return IsNative(At(j).shape.type) || At(j).shape.type == Type::kPred;
    };
    return IsCheap(At(i).op) && IsLoop(computation_, plan_, i) && native(i) &&
           std::all_of(plan_.operands[i].begin(), plan_.operands[i].end(), native);
  }
  bool IsNormalised(int i) const {
    if (At(i).op != Op::kGetTupleElement || At(i).IntAttr(AttrId::kIndex) != 0) return false;
    const int norm = plan_.operands[i][0];
    return At(norm).op == Op::kBatchNormTraining && norm != plan_.root && !plan_.dynamic[norm] &&
           IsLarge(At(i).shape) && At(i).shape.type == At(plan_.operands[norm][0]).shape.type &&
           IsNative(At(i).shape.type);
  }

  // The reader computes i as it reads it.
  bool TakesIn(int reader, int i) const {
    if (inline_[reader]) return true;
    if (plan_.dynamic[reader]) return false;
    const std::vector<int>& operands = plan_.operands[reader];
    const int64_t reads = std::count(operands.begin(), operands.end(), i);
    const Type type = At(i).shape.type;
    const auto same = [&](int j) { return At(j).shape.type == type; };
    if (At(reader).op == Op::kConvolution) {
      return reads == 1 && operands[0] == i && same(operands[1]) && same(reader) && IsFloat(type);
    }
    return At(reader).op == Op::kBatchNormGrad && reads == 1 && operands[4] == i &&
           same(operands[0]) && At(reader).shape.elements[0].type == type;
  }

  // Takes back what cannot be inlined or does not pay. Whether there was such.
  bool Reject() {
    bool rejected = false;
    for (auto it = candidates_.rbegin(); it != candidates_.rend(); ++it) {
      const int i = *it;
      if (!inline_[i]) continue;
      const auto takes_in = [&](int reader) { return TakesIn(reader, i); };
      bool all = std::all_of(readers_[i].begin(), readers_[i].end(), takes_in);
      if (all && IsNormalised(i)) all = NormIsInlined(plan_.operands[i][0]);
      if (all && Pays(i)) continue;
      inline_[i] = false;
      rejected = true;
    }
    return rejected;
  }
  // Its first element is inlined wherever it is taken, and nobody reads the tuple.
  bool NormIsInlined(int norm) const {
    return std::all_of(readers_[norm].begin(), readers_[norm].end(), [&](int reader) {
      return At(reader).op == Op::kGetTupleElement &&
             (inline_[reader] || At(reader).IntAttr(AttrId::kIndex) != 0);
    });
  }

  // Instructions inlined where i is computed, i last. No more than are too many.
  void AddProducers(int i, Set* producers) const {
    if (producers->size() > kMostProducers) return;
    if (!producers->insert(i).second || IsNormalised(i)) return;
    for (int operand : plan_.operands[i]) {
      if (inline_[operand]) AddProducers(operand, producers);
    }
  }
  // What computing them reads.
  Set LeavesOf(const Set& producers) const {
    Set leaves;
    for (int i : producers) {
      for (int operand : plan_.operands[i]) {
        if (!producers.contains(operand)) leaves.insert(operand);
      }
      if (IsNormalised(i)) leaves.insert(plan_.operands[plan_.operands[i][0]][0]);
    }
    return leaves;
  }
  // What reads i or what is inlined between. No more than are too many.
  void AddReaders(int i, Set* seen) const {
    for (int reader : readers_[i]) {
      if (seen->size() > kMostProducers || !seen->insert(reader).second) continue;
      if (inline_[reader]) AddReaders(reader, seen);
    }
  }
  // Memory holds no more than if it were an array: it is made of one array of no larger elements,
  // or of such as its only reader reads anyway but for one.
  bool Pays(int i) const {
    Set producers, readers;
    AddProducers(i, &producers);
    AddReaders(i, &readers);
    if (producers.size() > kMostProducers || readers.size() > kMostProducers) return false;
    std::erase_if(readers, [&](int reader) { return inline_[reader]; });
    if (readers.empty() || readers.size() > kMostReaders) return false;
    const auto more = [&](int reader) {  // bytes of arrays that the reader reads for it
      int64_t bytes = 0;
      for (int leaf : LeavesOf(producers)) {
        const std::vector<int>& operands = plan_.operands[reader];
        const bool anyway = std::count(operands.begin(), operands.end(), leaf) > 0;
        const bool array = IsLarge(At(leaf).shape) && !plan_.splat[leaf];
        if (array && !anyway) bytes += At(leaf).shape.LiteralBytes();
      }
      return bytes;
    };
    const auto no_more = [&](int reader) { return more(reader) <= At(i).shape.LiteralBytes(); };
    return std::all_of(readers.begin(), readers.end(), no_more);
  }

  void Apply() {
    for (int i : candidates_) {
      if (!inline_[i]) continue;
      for (int reader : readers_[i]) {
        if (!inline_[reader]) Inline(reader);
      }
      plan_.needed[i] = false;
      if (IsNormalised(i)) plan_.statistics_only[plan_.operands[i][0]] = true;
    }
  }
  void Inline(int reader) {
    Inlined& inlined = plan_.inlined[reader];
    if (!inlined.producers.empty()) return;
    std::vector<int>& operands = plan_.operands[reader];
    Set producers;
    for (int operand : operands) {
      if (inline_[operand]) AddProducers(operand, &producers);
    }
    Set reads = LeavesOf(producers);
    for (int operand : operands) {
      if (!inline_[operand]) reads.insert(operand);
    }
    inlined.producers.assign(producers.begin(), producers.end());
    inlined.operands = std::exchange(operands, std::vector<int>(reads.begin(), reads.end()));
  }

  const Computation& computation_;
  Plan& plan_;
  std::vector<std::vector<int>> readers_;
  std::vector<int> candidates_;  // ascending
  std::vector<bool> inline_;
};

}  // namespace

void InlineProducers(const Computation& computation, Plan* plan) {
  Inliner(computation, plan).Run();
}

}  // namespace tpuc
