// Names of operations (op_names.h).
#include "grammar/kernel/op_names.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_replace.h"

namespace tpuc::kernel_text {
namespace {

struct Alias {
  absl::string_view name;
  Op op;
};
// The first of an operation is printed.
constexpr Alias kAliases[] = {
    {"exp", Op::kExponential},    {"expm1", Op::kExponentialMinusOne},
    {"log1p", Op::kLogPlusOne},   {"sin", Op::kSine},
    {"cos", Op::kCosine},         {"max", Op::kMaximum},
    {"min", Op::kMinimum},        {"pow", Op::kPower},
    {"concat", Op::kConcatenate}, {"round", Op::kRoundNearestEven},
    {"sigmoid", Op::kLogistic},   {"where", Op::kSelect},
};

struct Infix {
  absl::string_view text;
  Op op;
};
constexpr Infix kInfixes[] = {
    {"+", Op::kAdd},       {"-", Op::kSubtract}, {"*", Op::kMultiply}, {"/", Op::kDivide},
    {"%", Op::kRemainder}, {"&", Op::kAnd},      {"|", Op::kOr},       {"^", Op::kXor},
};

struct Relation {
  absl::string_view text, direction;
};
constexpr Relation kRelations[] = {{"==", "EQ"}, {"!=", "NE"}, {"<", "LT"},
                                   {"<=", "LE"}, {">", "GT"},  {">=", "GE"}};

struct Reduction {
  absl::string_view name;
  Op reducer;
};
constexpr Reduction kReductions[] = {{"sum", Op::kAdd},     {"prod", Op::kMultiply},
                                     {"max", Op::kMaximum}, {"min", Op::kMinimum},
                                     {"all", Op::kAnd},     {"any", Op::kOr}};

using IntegerKind = kernel::Expr::Kind;
constexpr std::pair<absl::string_view, IntegerKind> kIntegerOperators[] = {
    {"+", IntegerKind::kAdd}, {"-", IntegerKind::kSub}, {"*", IntegerKind::kMul},
    {"/", IntegerKind::kDiv}, {"%", IntegerKind::kMod}, {"==", IntegerKind::kEq},
    {"!=", IntegerKind::kNe}, {"<", IntegerKind::kLt},  {"<=", IntegerKind::kLe},
    {">", IntegerKind::kGt},  {">=", IntegerKind::kGe}, {"&&", IntegerKind::kAnd},
    {"&", IntegerKind::kAnd}, {"||", IntegerKind::kOr}, {"|", IntegerKind::kOr}};
constexpr std::pair<absl::string_view, IntegerKind> kIntegerFunctions[] = {
    {"cdiv", IntegerKind::kCdiv}, {"min", IntegerKind::kMin}, {"max", IntegerKind::kMax}};

template <size_t n>
std::optional<IntegerKind> KindOf(const std::pair<absl::string_view, IntegerKind> (&rows)[n],
                                  absl::string_view text) {
  for (const auto& [name, kind] : rows) {
    if (name == text) return kind;
  }
  return std::nullopt;
}

}  // namespace

std::optional<kernel::Expr::Kind> IntegerOperator(absl::string_view text) {
  return KindOf(kIntegerOperators, text);
}

std::optional<kernel::Expr::Kind> IntegerFunction(absl::string_view callee) {
  return KindOf(kIntegerFunctions, callee);
}

bool OpOfCall(absl::string_view callee, Op* op) {
  for (const Alias& a : kAliases) {
    if (a.name == callee) {
      *op = a.op;
      return true;
    }
  }
  return OpFromName(absl::StrReplaceAll(callee, {{"_", "-"}}), op);
}

std::string CallName(Op op) {
  for (const Alias& a : kAliases) {
    if (a.op == op && op != Op::kLogistic && op != Op::kSelect) return std::string(a.name);
  }
  return absl::StrReplaceAll(OpName(op), {{"-", "_"}});
}

absl::string_view InfixOf(Op op) {
  for (const Infix& i : kInfixes) {
    if (i.op == op) return i.text;
  }
  return "";
}

bool OpOfInfix(absl::string_view op_text, Op* op) {
  for (const Infix& i : kInfixes) {
    if (i.text == op_text) {
      *op = i.op;
      return true;
    }
  }
  return false;
}

absl::string_view DirectionOf(absl::string_view relation) {
  for (const Relation& r : kRelations) {
    if (r.text == relation) return r.direction;
  }
  return "";
}

absl::string_view RelationOf(absl::string_view direction) {
  for (const Relation& r : kRelations) {
    if (r.direction == direction) return r.text;
  }
  return "";
}

absl::string_view ReductionName(Op reducer, Type type) {
  if ((reducer == Op::kAnd || reducer == Op::kOr) && type != Type::kPred) return "";
  for (const Reduction& r : kReductions) {
    if (r.reducer == reducer) return r.name;
  }
  return "";
}

bool ReducerOf(absl::string_view callee, Op* reducer) {
  for (const Reduction& r : kReductions) {
    if (r.name == callee) {
      *reducer = r.reducer;
      return true;
    }
  }
  return false;
}

}  // namespace tpuc::kernel_text
