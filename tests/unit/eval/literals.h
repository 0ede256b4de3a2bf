// Literals and operations for the evaluator's tests.
#pragma once

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "src/eval/evaluator.h"
#include "src/num/convert.h"

namespace tpuc {

// A literal from values in the stored form (bf16 and f16 as bits).
template <typename T>
Literal Make(Type type, Dims dims, const std::vector<T>& values) {
  Literal literal(Shape::Array(type, std::move(dims)));
  EXPECT_EQ(literal.byte_size(), static_cast<int64_t>(values.size() * sizeof(T)));
  for (size_t i = 0; i < values.size(); ++i) literal.data<T>()[i] = values[i];
  return literal;
}

inline Literal F32(Dims dims, const std::vector<float>& values) {
  return Make<float>(Type::kF32, std::move(dims), values);
}
inline Literal Iota(Type type, Dims dims) {
  Literal literal(Shape::Array(type, std::move(dims)));
  for (int64_t i = 0; i < literal.size(); ++i) literal.data<int32_t>()[i] = static_cast<int32_t>(i);
  return literal;
}

template <typename T>
std::vector<T> ValuesOf(const Literal& literal) {
  return std::vector<T>(literal.data<T>(), literal.data<T>() + literal.size());
}

// The operation must succeed.
inline Literal Eval(Op op, Type type, Dims dims, const std::vector<Literal>& operands,
                    const std::vector<Attr>& attrs = {}, const EvalOptions& options = {}) {
  std::vector<const Literal*> pointers;
  for (const Literal& operand : operands) pointers.push_back(&operand);
  std::string error;
  auto result =
      EvaluateOp(op, Shape::Array(type, std::move(dims)), pointers, attrs, options, &error);
  EXPECT_TRUE(result.has_value()) << OpName(op) << ": " << error;
  return result ? *std::move(result) : Literal(Shape::Array(type, {0}));
}

}  // namespace tpuc
