// Balance of queues and of the MXU's and XLU's staging over all paths (verifier.h).
//
// The contents of every queue are followed as lists of result kinds: a push appends, a pop must
// find its kind at the head, no list outgrows the chip's depth, paths that join bring the same
// lists, and at the function's end all are empty. Entries carry the predicate of their push; the
// pop must carry the same.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backend/isa/verifier.h"

namespace tpuc::isa {
namespace {

constexpr int kMaxErrors = 10;
constexpr int kTransposePushes = 16;
constexpr int kTransposePops = 16;

struct Entry {
  Opcode pop;
  int pred = -1;  // register * 2 + negated
  bool operator==(const Entry& o) const { return pop == o.pop && pred == o.pred; }
};

struct State {
  std::vector<std::vector<Entry>> queues;
  std::vector<int> transpose;           // pushes of the open transpose, by XLU
  std::vector<int> subr, mubr, pushes;  // by MXU
  std::vector<bool> latched;            // weights were latched on every path
};

class QueueChecker {
 public:
  QueueChecker(const Function& f, const Chip& chip, DiagSink* diags)
      : f_(f), chip_(chip), diags_(diags), blocks_(BlocksOf(f, chip)) {}

  int Run() {
    if (blocks_.empty()) return 0;
    in_.resize(blocks_.size());
    State entry;
    entry.queues.resize(2 + chip_.xlus + chip_.mxus);
    entry.transpose.assign(chip_.xlus, 0);
    entry.subr = entry.mubr = entry.pushes = std::vector<int>(chip_.mxus, 0);
    entry.latched.assign(chip_.mxus, false);
    Arrive(0, entry, 0);
    while (!work_.empty() && errors_ < kMaxErrors) {
      int b = work_.back();
      work_.pop_back();
      Through(b);
    }
    return errors_;
  }

 private:
  struct In {
    bool known = false;
    State state;
  };

  void Arrive(int block, const State& state, int from_bundle) {
    In& in = in_[block];
    if (!in.known) {
      in.known = true;
      in.state = state;
      work_.push_back(block);
      return;
    }
    bool weaker = false;
    for (size_t i = 0; i < state.latched.size(); ++i) {
      if (in.state.latched[i] && !state.latched[i]) {
        in.state.latched[i] = false;
        weaker = true;
      }
    }
    if (weaker) work_.push_back(block);
    for (size_t q = 0; q < state.queues.size(); ++q) {
      if (state.queues[q] == in.state.queues[q]) continue;
      Error(from_bundle, nullptr,
            absl::StrCat("arrives at bundle ", blocks_[block].first, " with ",
                         state.queues[q].size(), " results in ", QueueName(static_cast<int>(q)),
                         "; another path has ", in.state.queues[q].size()));
      return;
    }
    if (state.transpose != in.state.transpose || state.subr != in.state.subr ||
        state.mubr != in.state.mubr || state.pushes != in.state.pushes) {
      Error(from_bundle, nullptr,
            absl::StrCat("arrives at bundle ", blocks_[block].first,
                         " with other weights or rows staged than another path"));
    }
  }

  void Through(int b) {
    State s = in_[b].state;
    for (int i = blocks_[b].first; i <= blocks_[b].last && errors_ < kMaxErrors; ++i) {
      // Pops take what was there before the bundle.
      for (const Inst& inst : f_.bundles[i].insts) {
        if (IsPop(inst)) Pop(i, inst, &s);
      }
      for (const Inst& inst : f_.bundles[i].insts) {
        if (!IsPop(inst)) Push(i, inst, &s);
      }
    }
    if (errors_ >= kMaxErrors) return;
    if (blocks_[b].ends) AtEnd(blocks_[b].last, s);
    for (int next : blocks_[b].next) Arrive(next, s, blocks_[b].last);
  }

  static bool IsPop(const Inst& inst) {
    return Info(inst.op).slot == Slot::kPop || inst.op == Opcode::kSpop;
  }
  static int PredOf(const Inst& inst) {
    return inst.pred.valid() ? inst.pred.id * 2 + (inst.pred_negated ? 1 : 0) : -1;
  }
  int QueueOf(const Inst& inst) const {
    switch (Info(inst.op).unit) {
      case Unit::kEup:
        return 0;
      case Unit::kV2s:
        return 1;
      case Unit::kXlu:
        return 2 + inst.unit;
      case Unit::kMxu:
        return 2 + chip_.xlus + inst.unit;
      case Unit::kNone:
        break;
    }
    return -1;
  }
  int Depth(int q) const {
    if (q == 0) return chip_.eup_depth;
    if (q == 1) return chip_.v2s_depth;
    return q < 2 + chip_.xlus ? chip_.xlu_depth : chip_.mrf_depth;
  }
  std::string QueueName(int q) const {
    if (q == 0) return "the EUP queue";
    if (q == 1) return "the V2S queue";
    if (q < 2 + chip_.xlus) return absl::StrCat("the queue of xlu", q - 2);
    return absl::StrCat("the result queue of mxu", q - 2 - chip_.xlus);
  }

  void Pop(int bundle, const Inst& inst, State* s) {
    int q = QueueOf(inst);
    std::vector<Entry>& queue = s->queues[q];
    if (queue.empty()) return Error(bundle, &inst, absl::StrCat(QueueName(q), " is empty"));
    Entry head = queue.front();
    queue.erase(queue.begin());
    if (head.pop != inst.op) {
      Error(bundle, &inst,
            absl::StrCat("the head of ", QueueName(q), " is for ", Info(head.pop).mnemonic));
    } else if (head.pred != PredOf(inst)) {
      Error(bundle, &inst, "the push has another predicate than this pop");
    }
  }

  void Append(int bundle, const Inst& inst, Opcode pop, int count, State* s) {
    int q = QueueOf(inst);
    std::vector<Entry>& queue = s->queues[q];
    queue.insert(queue.end(), count, Entry{pop, PredOf(inst)});
    if (static_cast<int>(queue.size()) <= Depth(q)) return;
    Error(bundle, &inst,
          absl::StrCat(QueueName(q), " holds ", queue.size(), " results, at most ", Depth(q)));
  }

  void Push(int bundle, const Inst& inst, State* s) {
    switch (Info(inst.op).unit) {
      case Unit::kEup:
        return Append(bundle, inst, Opcode::kVpopEup, 1, s);
      case Unit::kV2s:
        return Append(bundle, inst, Opcode::kSpop, 1, s);
      case Unit::kXlu:
        return Xlu(bundle, inst, s);
      case Unit::kMxu:
        return Mxu(bundle, inst, s);
      case Unit::kNone:
        return;
    }
  }

  void Xlu(int bundle, const Inst& inst, State* s) {
    int& open = s->transpose[inst.unit];
    bool continues = inst.op == Opcode::kVxposeCont || inst.op == Opcode::kVxposeEnd;
    if (continues && open == 0) return Error(bundle, &inst, "no transpose was started on its unit");
    if (!continues && open > 0) {
      return Error(bundle, &inst, "between the start and the end of a transpose on its unit");
    }
    switch (inst.op) {
      case Opcode::kVxposeStart:
        open = 1;
        return;
      case Opcode::kVxposeCont:
      case Opcode::kVxposeEnd:
        if (++open > kTransposePushes)
          Error(bundle, &inst, "more than 16 registers in one transpose");
        if (inst.op == Opcode::kVxposeCont) return;
        [[fallthrough]];
      case Opcode::kVxposeStartEnd:
        open = 0;
        return Append(bundle, inst, Opcode::kVpopTrf, kTransposePops, s);
      case Opcode::kVbcastLane:
      case Opcode::kVrotLane:
        return Append(bundle, inst, Opcode::kVpopPermute, 1, s);
      default:
        return Append(bundle, inst, Opcode::kVpopXlane, 1, s);
    }
  }

  void Mxu(int bundle, const Inst& inst, State* s) {
    int u = inst.unit;
    switch (inst.op) {
      case Opcode::kVmatprepSubr:
      case Opcode::kVmatprepSubrMsk:
        s->subr[u] = 1;
        return;
      case Opcode::kVmatprepMubr:
      case Opcode::kVmatprepMubrMsk:
        s->mubr[u] = 1;
        return;
      case Opcode::kVmatmul:
      case Opcode::kVmatmulMsk:
        if (!s->latched[u]) Error(bundle, &inst, "no weights were latched on every path to it");
        break;
      case Opcode::kVmatmulLatch:
      case Opcode::kVmatmulLatchMsk:
        if (s->pushes[u] == 0) Error(bundle, &inst, "latches, but no weights were pushed");
        if (s->subr[u] != 0) Error(bundle, &inst, "latches, but a subr still waits for its push");
        s->pushes[u] = 0;
        s->latched[u] = true;
        break;
      default:
        s->subr[u] = 0;
        s->pushes[u] = 1;  // a loop may push a part in each trip
        return;
    }
    s->mubr[u] = 0;
    Append(bundle, inst, Opcode::kVpopMrf, chip_.mxu_tiles(), s);
  }

  void AtEnd(int bundle, const State& s) {
    for (size_t q = 0; q < s.queues.size(); ++q) {
      if (s.queues[q].empty()) continue;
      Error(bundle, nullptr,
            absl::StrCat("the function ends with ", s.queues[q].size(), " results in ",
                         QueueName(static_cast<int>(q))));
    }
    auto any = [](const std::vector<int>& v) {
      return std::any_of(v.begin(), v.end(), [](int n) { return n != 0; });
    };
    if (any(s.transpose)) Error(bundle, nullptr, "the function ends inside a transpose");
    if (any(s.subr) || any(s.mubr) || any(s.pushes)) {
      Error(bundle, nullptr, "the function ends with weights or rows staged that no matmul took");
    }
  }

  void Error(int bundle, const Inst* inst, const std::string& what) {
    if (++errors_ > kMaxErrors) return;
    diags_->Add(DiagCode::kBundleQueue, absl::StrCat(Describe({&f_, bundle, inst}), ": ", what));
  }

  const Function& f_;
  const Chip& chip_;
  DiagSink* diags_;
  std::vector<BundleBlock> blocks_;
  std::vector<In> in_;
  std::vector<int> work_;
  int errors_ = 0;
};

}  // namespace

int VerifyQueues(const Function& f, const Chip& chip, DiagSink* diags) {
  return QueueChecker(f, chip, diags).Run();
}

}  // namespace tpuc::isa
