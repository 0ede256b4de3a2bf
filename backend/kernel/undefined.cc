// See undefined.h.
#include "backend/kernel/undefined.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "backend/kernel/scalar.h"
#include "src/ir/op_table.h"

namespace tpuc::kernel {
namespace {

Shape PredOf(const Shape& s) { return Shape::Array(Type::kPred, s.dims); }

Literal Clean(const Shape& s) {
  Literal l(PredOf(s));
  std::fill_n(l.bytes(), l.byte_size(), uint8_t{0});
  return l;
}

Literal AllMarked(const Shape& s) {
  Literal l(PredOf(s));
  std::fill_n(l.bytes(), l.byte_size(), uint8_t{1});
  return l;
}

// Byte i of a literal of pred, or its only one.
uint8_t At(const Literal& l, int64_t i) { return l.bytes()[l.size() == 1 ? 0 : i]; }

class Follower {
 public:
  Follower(const Node& n, absl::Span<const Literal* const> operands,
           absl::Span<const UndefinedPtr> marks, const EvalOptions& options)
      : n_(n), operands_(operands), options_(options) {
    for (size_t i = 0; i < operands.size(); ++i) {
      marks_.push_back(marks[i] != nullptr ? marks[i]->marks : Clean(operands[i]->shape()));
    }
  }

  Literal Run() {
    switch (n_.op) {
      case Op::kBroadcast:
      case Op::kReshape:
      case Op::kBitcast:
      case Op::kTranspose:
      case Op::kSlice:
      case Op::kReverse:
      case Op::kConcatenate:
      case Op::kPad:
      case Op::kCopy:
        return Moved(operands_.size());
      case Op::kDynamicSlice:
      case Op::kGather:
        return Moved(1);
      case Op::kDynamicUpdateSlice:
        return Moved(2);
      case Op::kReduce:
        return Reduced();
      case Op::kDot:
        return Product();
      case Op::kSelect:
        return Selected();
      case Op::kAnd:
      case Op::kOr:
        if (n_.shape.type == Type::kPred) return Logical();
        break;
      default:
        break;
    }
    if (InfoOf(n_.op).op_class == OpClass::kElementwise && n_.op != Op::kBitcastConvert) {
      return Elementwise();
    }
    return AllMarked(n_.shape);
  }

 private:
  // The operation itself, on marks in place of the first `moved` operands.
  Literal Moved(size_t moved) {
    std::vector<const Literal*> operands;
    for (size_t i = 0; i < operands_.size(); ++i) {
      operands.push_back(i < moved ? &marks_[i] : operands_[i]);
    }
    std::string error;
    auto result = EvaluateOp(n_.op == Op::kBitcast ? Op::kReshape : n_.op, PredOf(n_.shape),
                             operands, n_.attrs, options_, &error);
    return result ? *std::move(result) : AllMarked(n_.shape);
  }

  Literal Reduced() {
    const Literal init = ScalarOf(Type::kPred, int64_t{0});
    std::string error;
    auto result = EvaluateReduce(Op::kOr, PredOf(n_.shape), marks_[0], init,
                                 n_.IntsAttr(AttrId::kDimensions), &error);
    return result ? *std::move(result) : AllMarked(n_.shape);
  }

  // Rows of the left and columns of the right operand that hold a mark anywhere.
  Literal Product() {
    Literal out = Clean(n_.shape);
    for (int side = 0; side < 2; ++side) {
      if (!AnyMarked(marks_[side])) continue;
      Literal sides[2] = {Floats(marks_[0], side == 0), Floats(marks_[1], side == 1)};
      const Literal* operands[2] = {&sides[0], &sides[1]};
      std::string error;
      auto sums = EvaluateOp(Op::kDot, Shape::Array(Type::kF32, n_.shape.dims), operands,
                             WithoutPrecision(), options_, &error);
      if (!sums) return AllMarked(n_.shape);
      for (int64_t i = 0; i < out.size(); ++i) {
        out.bytes()[i] |= sums->data<float>()[i] != 0 ? 1 : 0;
      }
    }
    return out;
  }
  std::vector<Attr> WithoutPrecision() const {
    std::vector<Attr> attrs;
    for (const Attr& a : n_.attrs) {
      if (a.id != AttrId::kOperandPrecision && a.id != AttrId::kAlgorithm) attrs.push_back(a);
    }
    return attrs;
  }
  // 1 where marked, or everywhere.
  static Literal Floats(const Literal& marks, bool as_marked) {
    Literal l(Shape::Array(Type::kF32, marks.shape().dims));
    for (int64_t i = 0; i < l.size(); ++i) {
      l.data<float>()[i] = !as_marked || marks.bytes()[i] != 0 ? 1.0f : 0.0f;
    }
    return l;
  }

  Literal Selected() {
    Literal out = Clean(n_.shape);
    for (int64_t i = 0; i < out.size(); ++i) {
      const int taken = At(*operands_[0], i) != 0 ? 1 : 2;
      out.bytes()[i] = At(marks_[0], i) | At(marks_[taken], i);
    }
    return out;
  }

  // A defined false (of and; true of or) decides.
  Literal Logical() {
    const uint8_t decides = n_.op == Op::kOr ? 1 : 0;
    Literal out = Clean(n_.shape);
    for (int64_t i = 0; i < out.size(); ++i) {
      const bool a = At(marks_[0], i) == 0 && (At(*operands_[0], i) != 0) == (decides != 0);
      const bool b = At(marks_[1], i) == 0 && (At(*operands_[1], i) != 0) == (decides != 0);
      out.bytes()[i] = a || b ? 0 : At(marks_[0], i) | At(marks_[1], i);
    }
    return out;
  }

  Literal Elementwise() {
    Literal out = Clean(n_.shape);
    for (const Literal& m : marks_) {
      if (m.size() != out.size() && m.size() != 1) return AllMarked(n_.shape);
      for (int64_t i = 0; i < out.size(); ++i) out.bytes()[i] |= At(m, i);
    }
    return out;
  }

  const Node& n_;
  absl::Span<const Literal* const> operands_;
  const EvalOptions& options_;
  std::vector<Literal> marks_;
};

}  // namespace

bool AnyMarked(const Literal& marks) {
  return marks.byte_size() > 0 && std::memchr(marks.bytes(), 1, marks.byte_size()) != nullptr;
}

std::string Onward(const std::string& way, const std::string& step) {
  constexpr size_t kLongest = 400;
  if (absl::StrContains(way, step) || way.size() > kLongest) return way;
  return absl::StrCat(way, " -> ", step);
}

UndefinedPtr ResultOf(const Node& node, absl::Span<const Literal* const> operands,
                      absl::Span<const UndefinedPtr> marks, const EvalOptions& options) {
  const UndefinedPtr* first = nullptr;
  for (const UndefinedPtr& m : marks) {
    if (m != nullptr && first == nullptr) first = &m;
  }
  if (first == nullptr || node.shape.ElementCount() == 0) return nullptr;
  Undefined result;
  result.marks = Follower(node, operands, marks, options).Run();
  if (!AnyMarked(result.marks)) return nullptr;
  result.way = (*first)->way;
  return std::make_shared<const Undefined>(std::move(result));
}

}  // namespace tpuc::kernel
