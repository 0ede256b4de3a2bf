// Value numbering of scalar arithmetic with constants kept apart.
#include "backend/schedule/scalar_values.h"

#include <utility>

namespace tpuc::schedule {

using isa::Inst;
using isa::Opcode;

ScalarValue ScalarValues::Of(const isa::Operand& operand) {
  if (operand.is_imm()) return {0, operand.imm};
  auto it = registers_.find(operand.reg.id);
  if (it != registers_.end()) return it->second;
  return registers_[operand.reg.id] = Fresh();
}

namespace {

// Of two constants; false: not an operation that is folded.
bool Fold(Opcode op, int64_t x, int64_t y, int64_t* result) {
  uint32_t a = static_cast<uint32_t>(x), b = static_cast<uint32_t>(y), r = 0;
  switch (op) {
    case Opcode::kSmul:
      r = a * b;
      break;
    case Opcode::kSand:
      r = a & b;
      break;
    case Opcode::kSor:
      r = a | b;
      break;
    case Opcode::kSxor:
      r = a ^ b;
      break;
    case Opcode::kSshll:
      if (b >= 32) return false;
      r = a << b;
      break;
    case Opcode::kSshrl:
      if (b >= 32) return false;
      r = a >> b;
      break;
    default:
      return false;
  }
  *result = static_cast<int32_t>(r);
  return true;
}

}  // namespace

ScalarValue ScalarValues::Evaluate(const Inst& inst) {
  if (inst.pred.valid() || inst.src.empty()) return Fresh();
  ScalarValue a = Of(inst.src[0]);
  ScalarValue b = inst.src.size() > 1 ? Of(inst.src[1]) : ScalarValue{};
  switch (inst.op) {
    case Opcode::kSmov:
      return a;
    case Opcode::kSadd:
      if (a.root == 0 || b.root == 0) return {a.root + b.root, a.offset + b.offset};
      if (a.root > b.root) std::swap(a, b);
      break;
    case Opcode::kSsub:
      if (b.root == 0) return {a.root, a.offset - b.offset};
      if (a.root == b.root) return {0, a.offset - b.offset};
      break;
    case Opcode::kSmul:
    case Opcode::kSand:
    case Opcode::kSor:
    case Opcode::kSxor:
    case Opcode::kSshll:
    case Opcode::kSshrl:
    case Opcode::kSshra:
      if (int64_t folded;
          a.root == 0 && b.root == 0 && Fold(inst.op, a.offset, b.offset, &folded)) {
        return {0, folded};
      }
      break;
    default:
      return Fresh();
  }
  bool linear = inst.op == Opcode::kSadd;
  auto key =
      linear ? std::make_tuple(static_cast<int>(inst.op), a.root, int64_t{0}, b.root, int64_t{0})
             : std::make_tuple(static_cast<int>(inst.op), a.root, a.offset, b.root, b.offset);
  auto [it, is_new] = expressions_.emplace(key, next_root_);
  if (is_new) ++next_root_;
  return {it->second, linear ? a.offset + b.offset : 0};
}

void ScalarValues::Define(const Inst& inst) {
  if (inst.dest.cls != isa::RegClass::kScalar) return;
  ScalarValue value = Evaluate(inst);
  registers_[inst.dest.id] = value;
}

}  // namespace tpuc::schedule
