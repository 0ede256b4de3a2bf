// cse. One walk in order over each computation; an instruction with the same key (operation, shape,
// attributes, operands) as an earlier one is replaced by it:
//
//   a = add(x, y); b = add(x, y); m = multiply(a, b)     becomes     m = multiply(a, a)
//
// So are sorts, scatters, factors, transforms and what else only computes. Left alone: parameters,
// side effects, random numbers that are taken in order, collectives and asynchronous pairs, calls
// of any kind, copies, tokens, and instructions ordered by control predecessors. Fusions are: they
// are kernels already.
#include "passes/cse.h"

#include "absl/container/flat_hash_map.h"
#include "passes/attr_key.h"
#include "src/ir/elided.h"
#include "src/ir/op_table.h"

namespace tpuc {
namespace {

// Of those in no class of their own: the result follows from operands and attributes.
bool ComputesOnly(Op op) {
  switch (op) {
    case Op::kScatter:
    case Op::kSelectAndScatter:
    case Op::kSort:
    case Op::kTopk:
    case Op::kScan:
    case Op::kCholesky:
    case Op::kTriangularSolve:
    case Op::kFft:
    case Op::kBatchNormTraining:
    case Op::kBatchNormInference:
    case Op::kBatchNormGrad:
    case Op::kRngBitGenerator:
    case Op::kGetDimensionSize:
    case Op::kSetDimensionSize:
      return true;
    default:
      return false;
  }
}

bool MayShare(const Instruction& i) {
  if (i.Has(AttrId::kControlPredecessors)) return false;
  if (i.op == Op::kConstant) return !HasElided(*i.literal);
  if (i.op == Op::kIota) return true;
  switch (InfoOf(i.op).op_class) {
    case OpClass::kElementwise:
    case OpClass::kTuple:
    case OpClass::kContract:
    case OpClass::kReduce:
      return true;
    case OpClass::kMove:
      return i.op != Op::kCopy;
    case OpClass::kOther:
      return ComputesOnly(i.op);
    default:
      return false;
  }
}

std::string KeyOf(const Instruction& i, const absl::flat_hash_map<const Instruction*, int>& ids) {
  std::string key = absl::StrCat(OpName(i.op), " ", ToString(i.shape), " ");
  for (const Instruction* operand : i.operands) absl::StrAppend(&key, ids.at(operand), ",");
  if (i.op == Op::kConstant && i.shape.IsArray()) {
    key.append(reinterpret_cast<const char*>(i.literal->bytes()), i.literal->byte_size());
  }
  return absl::StrCat(key, " ", ValueAttrsKey(i));
}

int ShareIn(Computation* computation) {
  absl::flat_hash_map<const Instruction*, int> ids;
  absl::flat_hash_map<std::string, Instruction*> first;
  absl::flat_hash_map<Instruction*, Instruction*> map;
  for (const auto& instruction : computation->instructions) {
    Instruction* i = instruction.get();
    for (Instruction*& operand : i->operands) {
      auto it = map.find(operand);
      if (it != map.end()) operand = it->second;
    }
    ids[i] = static_cast<int>(ids.size());
    if (!MayShare(*i)) continue;
    auto [it, inserted] = first.try_emplace(KeyOf(*i, ids), i);
    if (!inserted) map[i] = it->second;
  }
  if (map.empty()) return 0;
  auto it = map.find(computation->root);
  if (it != map.end()) computation->root = it->second;
  return computation->RemoveDead();
}

}  // namespace

bool Cse::Run(Module* module, PassContext* context) {
  int removed = 0;
  for (const auto& computation : module->computations) {
    // The two parameters of a reduction body and the like are not worth a walk.
    if (computation->instructions.size() > 3) removed += ShareIn(computation.get());
  }
  if (removed) context->Remark("shared: ", removed, " instructions removed");
  return removed > 0;
}

}  // namespace tpuc
