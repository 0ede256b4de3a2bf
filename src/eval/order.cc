// Orders by simulation (order.h): a list of steps is walked as it would run, adding up what lives.
// Each change of the order is kept only if the most that lives at once becomes less.
#include "src/eval/order.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "src/eval/work.h"
#include "src/ir/op_table.h"

namespace tpuc {
namespace {

using Steps = std::vector<int>;

constexpr int64_t kLarge = int64_t{1} << 20;     // bytes; less is not worth a thought
constexpr int64_t kWorthIt = int64_t{64} << 20;  // of a computation: less fits anywhere
constexpr int64_t kMost = int64_t{1} << 60;      // sums stay within 64 bits

// Result bytes of the instructions. A tuple is no array of its own: its elements count where they
// are taken out. Constants are the module's, broadcast scalars stand for arrays.
std::vector<int64_t> BytesOf(const Computation& computation, const Plan& plan) {
  std::vector<int64_t> bytes(computation.instructions.size(), 0);
  for (size_t i = 0; i < bytes.size(); ++i) {
    const Instruction& in = *computation.instructions[i];
    if (!plan.needed[i] || plan.splat[i] || !in.shape.IsArray() || in.op == Op::kConstant) continue;
    if (in.op == Op::kGetTupleElement) {
      const Op op = in.operands[0]->op;
      if (op == Op::kTuple || op == Op::kParameter || op == Op::kGetTupleElement) continue;
    }
    bytes[i] = in.shape.LiteralBytes();
  }
  return bytes;
}

// What lives while steps run. Steps that make and that read each large result, ascending.
struct Life {
  int64_t peak = 0;
  int at = 0;  // the step of the peak
  std::vector<std::vector<int>> makes, reads;

  // The first of the list at or after a step; `none` where there is none.
  static int Next(const std::vector<int>& list, int step, int none) {
    const auto it = std::lower_bound(list.begin(), list.end(), step);
    return it == list.end() ? none : *it;
  }
  // Somebody after the step reads what was made before it.
  bool Lives(int i, int step) const {
    constexpr int kNever = std::numeric_limits<int>::max();
    const int read = Next(reads[i], step, kNever);
    return read < kNever && read <= Next(makes[i], step, kNever);
  }
};

class Orderer {
 public:
  Orderer(const Computation& computation, const Plan& plan)
      : computation_(computation), plan_(plan), bytes_(BytesOf(computation, plan)) {
    for (size_t i = 0; i < bytes_.size(); ++i) {
      total_ += std::min(bytes_[i], kMost - total_);
      if (At(i).op == Op::kParameter) parameters_ += std::min(bytes_[i], kMost - parameters_);
    }
  }

  // There is something to gain, and sums can hold it.
  bool Matters() const { return total_ >= kWorthIt && total_ < kMost; }

  Steps AsWritten() const {
    Steps steps;
    for (size_t i = 0; i < plan_.needed.size(); ++i) {
      if (plan_.needed[i] && At(i).op != Op::kParameter) steps.push_back(static_cast<int>(i));
    }
    return steps;
  }

  Life Simulate(const Steps& steps) const {
    const int count = static_cast<int>(steps.size());
    Life life;
    life.makes.resize(bytes_.size());
    life.reads.resize(bytes_.size());
    std::vector<bool> read_later(bytes_.size(), false);
    read_later[plan_.root] = true;
    std::vector<std::pair<int, int>> ends;  // step and instruction, the last first
    for (int s = count - 1; s >= 0; --s) {
      const int i = steps[s];
      if (!read_later[i]) ends.push_back({s, i});
      read_later[i] = i == plan_.root;
      for (int operand : plan_.operands[i]) {
        if (!read_later[operand] && bytes_[operand] > 0) ends.push_back({s, operand});
        read_later[operand] = true;
      }
    }
    int64_t live = parameters_;
    for (int s = 0; s < count; ++s) {
      const int i = steps[s];
      if (bytes_[i] >= kLarge) life.makes[i].push_back(s);
      for (int operand : plan_.operands[i]) {
        if (bytes_[operand] >= kLarge) life.reads[operand].push_back(s);
      }
      int64_t ending = 0, replaced = 0;
      for (; !ends.empty() && ends.back().first == s; ends.pop_back()) {
        const int ended = ends.back().second;
        ending += bytes_[ended];
        if (ended != i && bytes_[ended] == bytes_[i] && IsInPlace(i)) replaced = bytes_[i];
      }
      live += bytes_[i];
      if (live - replaced > life.peak) {
        life.peak = live - replaced;
        life.at = s;
      }
      live -= ending;
    }
    return life;
  }

  // As written, but what shrinks large operands follows at once.
  Steps Hoisted() const {
    const size_t n = bytes_.size();
    std::vector<std::vector<int>> readers(n);
    std::vector<int> missing(n, 0);  // operands not there yet
    for (size_t i = 0; i < n; ++i) {
      if (!plan_.needed[i]) continue;
      for (int operand : plan_.operands[i]) readers[operand].push_back(static_cast<int>(i));
      missing[i] = static_cast<int>(plan_.operands[i].size());
    }
    std::vector<bool> done(n, false);
    Steps steps, work;
    const auto emit = [&](int first) {
      work.assign(1, first);
      while (!work.empty()) {
        const int i = work.back();
        work.pop_back();
        if (done[i]) continue;
        done[i] = true;
        if (At(i).op != Op::kParameter) steps.push_back(i);
        const size_t from = work.size();
        for (int reader : readers[i]) {
          if (--missing[reader] == 0 && Shrinks(reader)) work.push_back(reader);
        }
        std::reverse(work.begin() + static_cast<int64_t>(from), work.end());
      }
    };
    for (size_t i = 0; i < n; ++i) {  // what takes no memory is there for all
      const Op op = At(i).op;
      const bool there = op == Op::kParameter || op == Op::kConstant ||
                         (plan_.splat[i] && done[plan_.operands[i][0]]);
      if (plan_.needed[i] && there) emit(static_cast<int>(i));
    }
    for (size_t i = 0; i < n; ++i) {
      if (plan_.needed[i] && !done[i]) emit(static_cast<int>(i));
    }
    return steps;
  }

  // Drops values that live across the peak and are cheap to compute again, as long as that lowers
  // it. The last ones first: what they are computed from then lives that long. What has become
  // superfluous, as the peak lies elsewhere at last, is taken back.
  Steps Recomputed(Steps steps) const {
    std::vector<Steps> recipes;
    std::vector<int> origin(steps.size(), -1);  // of each step: its recipe, or -1
    constexpr int64_t kMostSteps = 5000000;
    const int64_t most_tries =
        std::min<int64_t>(500, kMostSteps / static_cast<int64_t>(bytes_.size()));
    constexpr int64_t kPart = 1000;  // of the peak: smaller values do not matter
    Life life = Simulate(steps);
    int tries = 0;
    for (bool lower = true; lower && tries < most_tries;) {
      lower = false;
      for (int i = static_cast<int>(bytes_.size()); i-- > 0 && tries < most_tries;) {
        if (bytes_[i] < life.peak / kPart || life.makes[i].size() != 1) continue;
        const int made = life.makes[i][0];
        const int next = Life::Next(life.reads[i], life.at, 0);
        if (made >= life.at || next <= life.at || !life.Lives(i, life.at)) continue;
        Steps recipe;
        if (!Recipe(i, next, life, &recipe)) continue;
        ++tries;
        Steps changed = steps;
        changed.insert(changed.begin() + next, recipe.begin(), recipe.end());
        Life other = Simulate(changed);
        if (other.peak >= life.peak) continue;
        lower = true;
        origin.insert(origin.begin() + next, recipe.size(), static_cast<int>(recipes.size()));
        recipes.push_back(std::move(recipe));
        steps = std::move(changed);
        life = std::move(other);
      }
    }
    TakeBack(life.peak, recipes, &origin, &steps);
    return steps;
  }

 private:
  const Instruction& At(size_t i) const { return *computation_.instructions[i]; }
  bool IsInPlace(int i) const { return plan_.operands[i].empty() ? false : WorksInPlace(At(i), 0); }

  // Runs at any time and leaves less than it reads.
  bool Shrinks(int i) const {
    const Instruction& in = At(i);
    if (in.op == Op::kGetTupleElement) return bytes_[i] > 0;
    const OpClass op_class = InfoOf(in.op).op_class;
    const bool free = op_class == OpClass::kElementwise || op_class == OpClass::kMove ||
                      op_class == OpClass::kContract || op_class == OpClass::kReduce;
    if (!free || HasSideEffect(in) || plan_.random[i] || !in.shape.IsArray()) return false;
    int64_t read = 0;
    for (int operand : plan_.operands[i]) read += std::min(bytes_[operand], kMost - read);
    return read >= kLarge && bytes_[i] < read;
  }

  // Takes no longer than the first use of the memory that keeping the result would need.
  static bool IsCheap(const Instruction& in) {
    switch (in.op) {
      case Op::kGetTupleElement:
      case Op::kBroadcast:
      case Op::kBatchNormTraining:
      case Op::kBatchNormInference:
        return true;
      case Op::kConvolution: {
        constexpr int64_t kFew = 32;  // multiplications an element
        const Shape& kernel = in.operands[1]->shape;
        const std::string& labels = std::get<DimLabels>(*in.Find(AttrId::kDimLabels)).rhs;
        return kernel.ElementCount() <= kFew * kernel.dims[labels.find('o')];
      }
      default:
        return InfoOf(in.op).op_class == OpClass::kElementwise && in.op != Op::kMap;
    }
  }

  // Removes recipes without which the peak is no higher, the longest for the bytes saved first.
  void TakeBack(int64_t peak, const std::vector<Steps>& recipes, std::vector<int>* origin,
                Steps* steps) const {
    const auto work = [&](const Steps& recipe) {  // a byte
      double sum = 0;
      for (int i : recipe) sum += static_cast<double>(WorkOf(At(i)));
      return sum / static_cast<double>(std::max<int64_t>(1, bytes_[recipe.back()]));
    };
    std::vector<std::pair<double, int>> longest;
    for (size_t r = 0; r < recipes.size(); ++r) {
      longest.push_back({work(recipes[r]), static_cast<int>(r)});
    }
    std::sort(longest.rbegin(), longest.rend());
    for (const auto& [unused, recipe] : longest) {
      Steps without;
      std::vector<int> origins;
      for (size_t s = 0; s < steps->size(); ++s) {
        if ((*origin)[s] == recipe) continue;
        without.push_back((*steps)[s]);
        origins.push_back((*origin)[s]);
      }
      if (Simulate(without).peak > peak) continue;
      *steps = std::move(without);
      *origin = std::move(origins);
    }
  }

  // The steps that compute i again for the one at `reader`, from what lives until then.
  bool Recipe(int i, int reader, const Life& life, Steps* recipe) const {
    constexpr size_t kLongest = 4;
    if (!IsCheap(At(i))) return false;
    for (int operand : plan_.operands[i]) {
      const bool there = bytes_[operand] < kLarge || life.Lives(operand, reader);
      if (there && (!At(operand).shape.IsTuple() || plan_.statistics_only[operand])) continue;
      if (std::find(recipe->begin(), recipe->end(), operand) != recipe->end()) continue;
      if (!Recipe(operand, reader, life, recipe)) return false;
    }
    recipe->push_back(i);
    return recipe->size() <= kLongest;
  }

  const Computation& computation_;
  const Plan& plan_;
  const std::vector<int64_t> bytes_;
  int64_t total_ = 0, parameters_ = 0;  // bytes of all, of parameters
};

}  // namespace

bool WorksInPlace(const Instruction& in, size_t i) {
  switch (in.op) {
    case Op::kCopy:
    case Op::kReshape:
    case Op::kDynamicUpdateSlice:
      return i == 0;
    case Op::kScatter:
      return i < in.operands.size() / 2;
    case Op::kBatchNormTraining:
    case Op::kBatchNormGrad:
      return i == 0 || i == 4;
    case Op::kMap:
    case Op::kConvert:
    case Op::kBitcastConvert:
    case Op::kStochasticConvert:
      return false;
    default:
      return InfoOf(in.op).op_class == OpClass::kElementwise;
  }
}

void FindSteps(const Computation& computation, Plan* plan) {
  const Orderer orderer(computation, *plan);
  Steps steps = orderer.AsWritten();
  if (orderer.Matters()) {
    Steps hoisted = orderer.Hoisted();
    const int64_t written = orderer.Simulate(steps).peak, peak = orderer.Simulate(hoisted).peak;
    if (peak < written) steps = std::move(hoisted);
    steps = orderer.Recomputed(std::move(steps));
    const Life life = orderer.Simulate(steps);
    plan->peak = life.peak;
    plan->at_peak = steps.empty() ? plan->root : steps[life.at];
  }
  plan->steps = std::move(steps);
}

}  // namespace tpuc
