// The fusion plan. Values are of three kinds:
//
//   heroes   dot, reduce, and moves that change the place of elements: computed once, stored
//   cheap    element-wise operations, broadcast, iota: stored, or computed in every kernel that
//            uses them, whichever costs fewer cycles
//   others   parameters, tuples, unknown operations: in memory already, never touched
//
// A dot first takes the element-wise operations that follow it and through which alone its result
// leaves (output fusion). Then, from results to parameters, each cheap value is weighed:
//   stored:    write it once, read it in each of k kernels, one more kernel call; packing of narrow
//              types, and unpacking wherever it is used
//   computed:  its operations and the reads of its inputs k-1 times more; behind a broadcast at the
//              size of the broadcast, since a loop over the larger array evaluates it there
// Bytes count at HBM's rate: where a value will live is decided later.
#include "passes/fusion_plan.h"

#include <algorithm>
#include <set>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_format.h"
#include "passes/op_cost.h"
#include "src/ir/op_table.h"

namespace tpuc {
namespace {

constexpr size_t kMaxKernels = 16;   // that compute a value anew
constexpr size_t kMaxMembers = 256;  // of one kernel
constexpr size_t kMaxCone = 64;      // operations looked at for a value's cost

bool IsScalarConstant(const Instruction& i) {
  return i.op == Op::kConstant && i.shape.IsScalar() && !i.literal->elided();
}

bool IsCheap(const Instruction& i) {
  if (!i.shape.IsArray() || i.Has(AttrId::kControlPredecessors)) return false;
  if (i.op == Op::kIota || i.op == Op::kBroadcast) return true;
  return InfoOf(i.op).op_class == OpClass::kElementwise && i.op != Op::kMap;
}

bool IsReduceHero(const Instruction& i) {
  Op op;
  return i.op == Op::kReduce && i.operands.size() == 2 && i.shape.IsArray() &&
         SimpleReducer(*i.ComputationAttr(AttrId::kToApply), &op);
}

bool IsMoveHero(const Instruction& i) {
  switch (i.op) {
    case Op::kReshape:
    case Op::kTranspose:
    case Op::kReverse:
    case Op::kSlice:
    case Op::kConcatenate:
    case Op::kPad:
    case Op::kCopy:
      return i.shape.IsArray() && !i.Has(AttrId::kControlPredecessors);
    default:
      return false;
  }
}

bool IsHero(const Instruction& i) {
  if (i.Has(AttrId::kControlPredecessors)) return false;
  return i.op == Op::kDot || IsReduceHero(i) || IsMoveHero(i);
}

// Weights are pushed again for every block of rows: only a widening that the load does anyway is
// worth repeating.
bool IsWidening(const Instruction& i) {
  return i.op == Op::kConvert && i.shape.type == Type::kF32 &&
         i.operands[0]->shape.type == Type::kBF16;
}

// `user` may compute some of its operands itself.
bool AbsorbsAny(const Instruction& user) {
  return IsCheap(user) || user.op == Op::kDot || IsReduceHero(user);
}

// `user` may compute its operand number n itself.
bool Absorbs(const Instruction& user, size_t n) {
  if (IsCheap(user)) return true;
  if (user.op == Op::kDot) return n == 0 || IsWidening(*user.operands[n]);
  return IsReduceHero(user) && n == 0;
}

class Planner {
 public:
  Planner(const Module& module, const PassContext& context)
      : entry_(*module.entry), context_(context), chip_(*context.chip), users_(Users(entry_)) {
    for (const auto& i : entry_.instructions) number_[i.get()] = static_cast<int>(number_.size());
  }
  std::vector<FusedKernel> Plan();

 private:
  // Kernel root -> registers of the value evaluated there.
  using Places = std::vector<std::pair<const Instruction*, double>>;

  void GrowOutputs();
  void GrowOutput(Instruction* dot);
  void Decide(Instruction* i);
  bool MustStore(const Instruction* i) const;
  Places PlacesOf(const Instruction* i) const;
  struct Cone {
    double cycles_per_register = 0;
    double input_bytes = 0;
  };
  Cone ConeOf(const Instruction* i) const;
  FusedKernel Collect(Instruction* root);
  bool InMemory(const Instruction* i) const { return stored_.contains(i) || !IsCheap(*i); }

  const Computation& entry_;
  const PassContext& context_;
  const Chip& chip_;
  UserMap users_;
  absl::flat_hash_map<const Instruction*, int> number_;
  absl::flat_hash_set<const Instruction*> stored_;
  absl::flat_hash_map<const Instruction*, Places> places_;  // of values computed where used
  // Dots computed inside the kernel of a following element-wise root, and all operations between.
  absl::flat_hash_map<const Instruction*, const Instruction*> output_root_;
};

bool Planner::MustStore(const Instruction* i) const {
  if (i == entry_.root) return true;
  for (const Instruction* user : users_.at(i)) {
    if (!AbsorbsAny(*user)) return true;
    for (size_t n = 0; n < user->operands.size(); ++n) {
      if (user->operands[n] == i && !Absorbs(*user, n)) return true;
    }
  }
  return false;
}

// Follows a dot through element-wise operations of its shape. Whenever a single value is all that
// leaves the region, that value could be the kernel's root; the last such one is.
void Planner::GrowOutput(Instruction* dot) {
  // Of each member: users outside, and whether it must be stored whoever uses it.
  struct Uses {
    size_t outside = 0;
    bool stored = false;
    bool Leave() const { return stored || outside > 0; }
  };
  absl::flat_hash_map<const Instruction*, Uses> region;
  int leaving = 0;
  // Numbers of users outside the region, lowest first: operands come before users.
  std::set<int> open;
  auto enter = [&](const Instruction* i) {
    absl::flat_hash_set<const Instruction*> used;
    for (const Instruction* operand : i->operands) {
      auto it = region.find(operand);
      if (it == region.end() || !used.insert(operand).second) continue;
      --it->second.outside;
      if (!it->second.Leave()) --leaving;
    }
    // Users come behind, and members enter in order: all of them are outside.
    Uses uses = {users_.at(i).size(), MustStore(i)};
    for (const Instruction* user : users_.at(i)) open.insert(number_.at(user));
    region[i] = uses;
    if (uses.Leave()) ++leaving;
    context_.CountSteps(static_cast<int64_t>(i->operands.size() + uses.outside));
  };
  enter(dot);
  const Instruction* root = nullptr;
  std::vector<const Instruction*> inside;
  while (!open.empty() && region.size() < kMaxMembers) {
    Instruction* next = entry_.instructions[*open.begin()].get();
    bool fits = IsCheap(*next) && next->shape.dims == dot->shape.dims &&
                !output_root_.contains(next) && !region.at(dot).stored;
    if (!fits) break;
    open.erase(open.begin());
    enter(next);
    inside.push_back(next);
    if (leaving == 1 && region.at(next).Leave() &&
        DeviceBytes(next->shape) <= DeviceBytes(dot->shape)) {
      root = next;
    }
    if (region.at(next).stored) {
      if (root == next) break;
    }
  }
  if (!root) {
    context_.Remark("output of ", dot->name, ": stored, its uses do not meet in one value");
    return;
  }
  output_root_[dot] = root;
  for (const Instruction* i : inside) {
    output_root_[i] = root;
    if (i == root) break;
  }
  stored_.insert(root);
  context_.Remark("output of ", dot->name, ": fused up to ", root->name, ", saves ",
                  2 * DeviceBytes(dot->shape), " bytes");
}

void Planner::GrowOutputs() {
  for (const auto& i : entry_.instructions) {
    if (IsHero(*i)) stored_.insert(i.get());
  }
  for (const auto& i : entry_.instructions) {
    if (i->op == Op::kDot && IsHero(*i)) GrowOutput(i.get());
  }
  for (const auto& [i, root] : output_root_) {
    if (i != root) stored_.erase(i);
  }
}

// Where a value that is not stored is computed.
Planner::Places Planner::PlacesOf(const Instruction* i) const {
  Places out;
  absl::flat_hash_map<const Instruction*, size_t> known;  // in out
  auto add = [&](const Instruction* kernel, double registers) {
    auto [it, is_new] = known.emplace(kernel, out.size());
    if (is_new) {
      out.push_back({kernel, registers});
    } else {
      out[it->second].second = std::max(out[it->second].second, registers);
    }
  };
  double own = VectorRegisters(i->shape, chip_);
  for (const Instruction* user : users_.at(i)) {
    // A broadcast repeats its operand at its own size.
    bool larger = user->op == Op::kBroadcast;
    if (stored_.contains(user)) {
      add(user, larger ? VectorRegisters(user->shape, chip_) : own);
      continue;
    }
    auto it = places_.find(user);
    if (it == places_.end()) continue;
    for (const auto& [kernel, registers] : it->second) {
      add(kernel, std::max(own, registers));
    }
  }
  return out;
}

// What computing i once costs: its operations and those of cheap values above it, up to values in
// memory and to operands of broadcasts (which are decided on their own).
Planner::Cone Planner::ConeOf(const Instruction* i) const {
  Cone cone;
  std::vector<const Instruction*> work = {i};
  absl::flat_hash_set<const Instruction*> seen = {i};
  while (!work.empty() && seen.size() < kMaxCone) {
    const Instruction* at = work.back();
    work.pop_back();
    cone.cycles_per_register += CyclesPerRegister(at->op, chip_);
    for (const Instruction* operand : at->operands) {
      if (IsScalarConstant(*operand) || !seen.insert(operand).second) continue;
      bool read = InMemory(operand) || at->op == Op::kBroadcast;
      if (read) {
        cone.input_bytes += static_cast<double>(DeviceBytes(operand->shape));
      } else {
        work.push_back(operand);
      }
    }
  }
  return cone;
}

void Planner::Decide(Instruction* i) {
  auto region = output_root_.find(i);
  if (region != output_root_.end()) {
    if (region->second != i) places_[i] = {{region->second, VectorRegisters(i->shape, chip_)}};
    return;
  }
  if (!IsCheap(*i)) return;
  if (MustStore(i)) {
    stored_.insert(i);
    context_.Remark(i->name, ": stored, used where it cannot be computed");
    return;
  }
  if (i->op == Op::kBroadcast && IsScalarConstant(*i->operands[0])) {
    places_[i] = {};  // an immediate: never worth a byte
    return;
  }
  Places places = PlacesOf(i);
  if (places.empty()) return;  // dead
  Cone cone = ConeOf(i);
  context_.CountSteps(static_cast<int64_t>(places.size()));
  double k = static_cast<double>(places.size());
  double registers = VectorRegisters(i->shape, chip_), evaluated = 0;
  for (const auto& [kernel, r] : places) evaluated += r;
  int64_t bytes = DeviceBytes(i->shape);
  double stored = HbmCycles(bytes, chip_) * (1 + k) + CallCycles(chip_) +
                  cone.cycles_per_register * registers + HbmCycles(cone.input_bytes, chip_) +
                  PackingCycles(i->shape.type, chip_) * (registers + evaluated);
  double computed = cone.cycles_per_register * evaluated + k * HbmCycles(cone.input_bytes, chip_);
  bool trivial = i->op == Op::kBroadcast || i->op == Op::kIota;
  bool store = (places.size() > kMaxKernels && !trivial) || stored < computed;
  context_.Remark(
      absl::StrFormat("%s: %s; stored %.1f cycles (%d bytes, written once, read %d "
                      "times), computed in %d kernels %.1f cycles",
                      i->name, store ? "stored" : "computed where used", stored, bytes,
                      places.size(), places.size(), computed));
  if (store) {
    stored_.insert(i);
  } else {
    places_[i] = std::move(places);
  }
}

// The root and everything that is computed in its kernel.
FusedKernel Planner::Collect(Instruction* root) {
  FusedKernel kernel;
  kernel.root = root;
  absl::flat_hash_set<Instruction*> seen = {root};
  std::vector<Instruction*> work = {root};
  while (!work.empty()) {
    Instruction* at = work.back();
    work.pop_back();
    kernel.members.push_back(at);
    for (size_t n = 0; n < at->operands.size(); ++n) {
      Instruction* operand = at->operands[n];
      auto region = output_root_.find(operand);
      bool in_region = region != output_root_.end() && region->second == root && operand != root;
      bool inside = IsScalarConstant(*operand) || in_region ||
                    (Absorbs(*at, n) && !InMemory(operand) && places_.contains(operand));
      if (!inside || !seen.insert(operand).second) continue;
      work.push_back(operand);
      auto places = places_.find(operand);
      bool trivial =
          operand->op == Op::kBroadcast || operand->op == Op::kConstant || operand->op == Op::kIota;
      kernel.has_copies |= !trivial && places != places_.end() && places->second.size() > 1;
    }
  }
  std::sort(kernel.members.begin(), kernel.members.end(),
            [&](Instruction* a, Instruction* b) { return number_.at(a) < number_.at(b); });
  return kernel;
}

std::vector<FusedKernel> Planner::Plan() {
  GrowOutputs();
  for (auto it = entry_.instructions.rbegin(); it != entry_.instructions.rend(); ++it) {
    Decide(it->get());
  }
  std::vector<FusedKernel> kernels;
  for (const auto& i : entry_.instructions) {
    if (stored_.contains(i.get())) kernels.push_back(Collect(i.get()));
  }
  return kernels;
}

}  // namespace

std::vector<FusedKernel> PlanFusion(const Module& module, const PassContext& context) {
  return Planner(module, context).Plan();
}

}  // namespace tpuc
