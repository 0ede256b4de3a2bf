// What rules ask about an instruction (match.h).
#include "passes/simplify/match.h"

#include <cmath>

#include "src/ir/native.h"

namespace tpuc::simplify {

const Literal* SplatOf(const Instruction* x) {
  if (x->op == Op::kBroadcast) x = x->operands[0];
  if (x->op != Op::kConstant || !x->literal || x->literal->elided()) return nullptr;
  if (!x->shape.IsArray() || x->shape.ElementCount() != 1) return nullptr;
  return x->literal.get();
}

std::optional<double> SplatValue(const Instruction* x) {
  const Literal* literal = SplatOf(x);
  if (!literal) return std::nullopt;
  Type type = literal->shape().type;
  if (ComputeOf(type) == Compute::kNone) return std::nullopt;
  if (IsFloat(type)) return ElementAsDouble(type, literal->bytes(), 0);
  return static_cast<double>(ElementAsInt(type, literal->bytes(), 0));
}

bool IsSplat(const Instruction* x, double value) {
  std::optional<double> v = SplatValue(x);
  return v && *v == value;
}

bool IsPositiveZero(const Instruction* x) {
  std::optional<double> v = SplatValue(x);
  return v && *v == 0 && !std::signbit(*v);
}

bool IsNegativeZero(const Instruction* x) {
  std::optional<double> v = SplatValue(x);
  return v && *v == 0 && std::signbit(*v);
}

bool IsAllOnes(const Instruction* x) {
  if (x->shape.type == Type::kPred) return IsSplat(x, 1);
  if (!IsIntegerArray(x)) return false;
  const Literal* literal = SplatOf(x);
  if (!literal) return false;
  int bits = BitsOf(literal->shape().type);
  uint64_t mask = bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  uint64_t value = ElementAsInt(literal->shape().type, literal->bytes(), 0);
  return (value & mask) == mask;
}

bool IsExactReciprocal(const Instruction* x) {
  std::optional<double> v = SplatValue(x);
  if (!v || !IsFloatArray(x) || *v == 0 || !std::isfinite(*v)) return false;
  int exponent;
  if (std::fabs(std::frexp(*v, &exponent)) != 0.5) return false;
  exponent -= 1;  // v = +-2^exponent
  switch (x->shape.type) {
    case Type::kF64:
    case Type::kF32:
    case Type::kBF16:
      return std::abs(exponent) <= 126;
    case Type::kF16:
      return std::abs(exponent) <= 14;
    default:
      return false;
  }
}

bool IsIdentityOf(Op reducer, const Instruction* x) {
  std::optional<double> v = SplatValue(x);
  if (!v) return false;
  const double inf = std::numeric_limits<double>::infinity();
  Type type = x->shape.type;
  switch (reducer) {
    case Op::kAdd:
    case Op::kXor:
      return *v == 0;
    case Op::kMultiply:
      return *v == 1;
    case Op::kMaximum:
      return IsFloat(type) ? *v == -inf : type == Type::kPred && *v == 0;
    case Op::kMinimum:
      return IsFloat(type) ? *v == inf : type == Type::kPred && *v == 1;
    case Op::kAnd:
      return IsAllOnes(x);
    case Op::kOr:
      return *v == 0;
    default:
      return false;
  }
}

std::optional<DegenerateMap> MatchDegenerate(const Dims& from, const Dims& to) {
  DegenerateMap out;
  size_t t = 0;
  for (size_t f = 0; f < from.size(); ++f) {
    if (from[f] == 1) {
      // Keeps a size-1 dimension where one stands at the same place; else it is dropped.
      if (t < to.size() && to[t] == 1) {
        out.map.push_back(t++);
      } else {
        out.map.push_back(-1);
      }
      continue;
    }
    while (t < to.size() && to[t] == 1) out.added.push_back(t++);
    if (t == to.size() || to[t] != from[f]) return std::nullopt;
    out.map.push_back(t++);
  }
  while (t < to.size() && to[t] == 1) out.added.push_back(t++);
  if (t != to.size()) return std::nullopt;
  return out;
}

Dims Pick(const Dims& dims, const Ints& order) {
  Dims out;
  for (int64_t d : order) out.push_back(dims[d]);
  return out;
}

bool IsIota(absl::Span<const int64_t> v) {
  for (size_t n = 0; n < v.size(); ++n) {
    if (v[n] != static_cast<int64_t>(n)) return false;
  }
  return true;
}

}  // namespace tpuc::simplify
