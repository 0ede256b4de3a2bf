// Constants (hlo-text.md section 10): element values stream straight into dense bytes.
//
//   f32[2,3] constant({ { 1, 2.5, -inf }, { nan, 1e-3, 7 } })   f32[1000] constant({...})
//
// Memory grows with the text, never with the shape alone.
#include <cmath>
#include <cstring>
#include <limits>

#include "grammar/hlo/float_text.h"
#include "grammar/hlo/reader.h"

namespace tpuc::hlo {
namespace {

// A scalar literal for an array ("s8[10] constant(1)") makes zeros of the shape's size.
constexpr int64_t kScalarForArrayLimit = int64_t{64} << 20;

template <typename T>
void Append(T value, Bytes* data) {
  size_t at = data->size();
  data->resize(at + sizeof(T));
  memcpy(data->data() + at, &value, sizeof(T));
}

// The low `bytes` bytes, little end first.
void AppendBits(uint64_t bits, int64_t bytes, Bytes* data) {
  switch (bytes) {
    case 1:
      return data->push_back(static_cast<uint8_t>(bits));
    case 2:
      return Append(static_cast<uint16_t>(bits), data);
    case 4:
      return Append(static_cast<uint32_t>(bits), data);
    default:
      return Append(bits, data);
  }
}

}  // namespace

bool Reader::ReadLiteral(const Shape& shape, Literal* literal) {
  if (!shape.IsTuple()) return ReadLiteralBody(shape, literal);
  return Deeper([&] { return ReadLiteralBody(shape, literal); });
}

bool Reader::ReadLiteralBody(const Shape& shape, Literal* literal) {
  Loc loc = lexer_.token().loc;
  if (!shape.IsTuple()) {
    if (!shape.IsArray()) {
      return Fail(DiagCode::kBadLiteral, loc,
                  absl::StrCat("there are no constants of type ", TypeName(shape.type)));
    }
    return ReadArrayLiteral(shape, literal);
  }
  if (lexer_.IsPunct('{') && lexer_.PeekChar() == '.') {
    return Fail(DiagCode::kBadLiteral, loc, "a tuple constant cannot be elided",
                "print the program with its large constants");
  }
  if (!Expect('(', "before the elements of the tuple")) return false;
  std::vector<Literal> elements;
  for (size_t i = 0; i < shape.elements.size(); ++i) {
    if (i && !lexer_.IsPunct(',')) {
      return Fail(
          DiagCode::kBadLiteral, lexer_.token().loc,
          absl::StrCat("the tuple has ", shape.elements.size(), " elements, the literal ", i));
    }
    if (i) lexer_.Next();
    if (!ReadLiteral(shape.elements[i], &elements.emplace_back())) return false;
  }
  *literal = Literal(shape, std::move(elements));
  if (lexer_.IsPunct(',')) {
    return Fail(
        DiagCode::kBadLiteral, lexer_.token().loc,
        absl::StrCat("the tuple has ", shape.elements.size(), " elements, the literal more"));
  }
  return Expect(')', "after the elements of the tuple");
}

bool Reader::ReadArrayLiteral(const Shape& shape, Literal* literal) {
  int rank = shape.rank();
  Bytes data;
  if (rank == 0) {
    if (lexer_.IsPunct('{')) {
      return Fail(DiagCode::kBadLiteral, lexer_.token().loc, "a scalar constant has no braces");
    }
    if (!AppendScalar(shape.type, &data)) return false;
    *literal = Literal(shape, std::move(data));
    return true;
  }
  if (!lexer_.IsPunct('{')) return ReadScalarForArray(shape, literal);
  Ints count(rank, 0);  // elements seen so far, by level
  int level = 0;
  bool elided = false;
  auto full = [&](int at) { return count[at] == shape.dims[at]; };
  auto too_many = [&](int at) {
    return Fail(DiagCode::kBadLiteral, lexer_.token().loc,
                absl::StrCat("more than ", shape.dims[at], " elements in dimension ", at, " of ",
                             ToString(shape, false)));
  };
  while (true) {
    const Token& token = lexer_.token();
    if (lexer_.IsPunct('{')) {
      if (level == rank) {
        return Fail(DiagCode::kBadLiteral, token.loc,
                    absl::StrCat("braces nest deeper than the rank of ", ToString(shape, false)));
      }
      if (level > 0 && full(level - 1)) return too_many(level - 1);
      count[level++] = 0;
      lexer_.Next();
    } else if (lexer_.IsPunct('}')) {
      if (!full(level - 1)) {
        return Fail(
            DiagCode::kBadLiteral, token.loc,
            absl::StrCat("expected ", shape.dims[level - 1], " elements in dimension ", level - 1,
                         " of ", ToString(shape, false), ", found ", count[level - 1]));
      }
      lexer_.Next();
      if (--level == 0) break;
      ++count[level - 1];
    } else if (lexer_.IsPunct(',')) {
      lexer_.Next();
    } else if (token.kind == Tok::kDots) {  // of all elements, those before it included
      if (level > 1) {
        return Fail(DiagCode::kBadLiteral, token.loc, "'...' stands for the whole constant: {...}");
      }
      elided = true;
      count[0] = shape.dims[0];
      lexer_.Next();
    } else {
      if (level < rank && token.kind != Tok::kError && token.kind != Tok::kEof) {
        return Fail(DiagCode::kBadLiteral, token.loc,
                    absl::StrCat("expected '{': a constant of ", ToString(shape, false), " has ",
                                 rank, " levels of braces, found ", Describe(token)));
      }
      if (full(rank - 1)) return too_many(rank - 1);
      if (!AppendScalar(shape.type, &data)) return false;
      ++count[rank - 1];
    }
  }
  *literal = elided ? Literal(shape, Literal::Elided{}) : Literal(shape, std::move(data));
  return true;
}

bool Reader::ReadScalarForArray(const Shape& shape, Literal* literal) {
  Loc loc = lexer_.token().loc;
  Bytes data;
  if (!AppendScalar(shape.type, &data)) return false;
  if (shape.LiteralBytes() > kScalarForArrayLimit) {
    return Fail(DiagCode::kTooLarge, loc,
                absl::StrCat("a scalar stands for an array of ", shape.LiteralBytes(),
                             " bytes; at most ", kScalarForArrayLimit));
  }
  diags_->Add(DiagCode::kScalarForArray, source_, loc,
              absl::StrCat("a scalar for a constant of ", ToString(shape, false),
                           ": the first element is set, all others are 0"));
  data.resize(shape.LiteralBytes(), 0);
  *literal = Literal(shape, std::move(data));
  return true;
}

bool Reader::AppendScalar(Type type, Bytes* data) {
  const Token& token = lexer_.token();
  switch (ClassOf(type)) {
    case TypeClass::kBool: {
      bool value;
      if (token.keyword == Keyword::kTrue || token.keyword == Keyword::kFalse) {
        value = token.keyword == Keyword::kTrue;
      } else if (token.kind == Tok::kInt) {
        value = token.integer != 0;
      } else {
        return Expected("true, false, 0 or 1");
      }
      data->push_back(value);
      lexer_.Next();
      return true;
    }
    case TypeClass::kSigned:
    case TypeClass::kUnsigned:
      return AppendInteger(type, data);
    case TypeClass::kComplex:
      return AppendComplex(type, data);
    default:
      return AppendFloat(type, data);
  }
}

bool Reader::AppendInteger(Type type, Bytes* data) {
  const Token& token = lexer_.token();
  if (token.kind != Tok::kInt) {
    if (token.kind == Tok::kDecimal || token.kind == Tok::kNegInf ||
        token.keyword == Keyword::kInf) {
      return Fail(
          DiagCode::kBadLiteral, token.loc,
          absl::StrCat("'", token.text, "' is no integer, which ", TypeName(type), " needs"));
    }
    return Expected(absl::StrCat("a value of ", TypeName(type)));
  }
  int bits = BitsOf(type);
  bool fits = true;
  if (bits < 64) {
    bool is_signed = ClassOf(type) == TypeClass::kSigned;
    int64_t low = is_signed ? -(int64_t{1} << (bits - 1)) : 0;
    int64_t high = (int64_t{1} << (is_signed ? bits - 1 : bits)) - 1;
    // A value over int64 has wrapped to a negative one.
    bool wrapped = token.integer < 0 && token.text.front() != '-';
    fits = !wrapped && token.integer >= low && token.integer <= high;
    if (!fits) {
      return Fail(DiagCode::kBadLiteral, token.loc,
                  absl::StrCat(token.text, " is out of range of ", TypeName(type), ", which is ",
                               low, " to ", high));
    }
  }
  AppendBits(static_cast<uint64_t>(token.integer), LiteralBytesOf(type), data);
  lexer_.Next();
  return true;
}

bool Reader::AppendNan(Type type, Bytes* data) {
  const Token& token = lexer_.token();
  uint64_t bits;
  if (!NanBits(type, token.negative, token.payload, &bits)) {
    return Fail(DiagCode::kBadLiteral, token.loc,
                token.payload == 0 ? absl::StrCat(TypeName(type), " has no NaN")
                                   : absl::StrCat("the payload of '", token.text, "' does not fit ",
                                                  TypeName(type)));
  }
  AppendBits(bits, LiteralBytesOf(type), data);
  lexer_.Next();
  return true;
}

bool Reader::AppendFloat(Type type, Bytes* data) {
  const Token& token = lexer_.token();
  bool infinite = token.kind == Tok::kNegInf || token.keyword == Keyword::kInf;
  if (token.kind != Tok::kInt && token.kind != Tok::kDecimal && !infinite) {
    return Expected(absl::StrCat("a value of ", TypeName(type)));
  }
  if (token.kind == Tok::kDecimal && token.is_nan) return AppendNan(type, data);
  double value = NumberOf(token);
  if (type == Type::kF32 && !infinite) {  // the common case
    float narrow = static_cast<float>(value);
    if (!std::isinf(narrow)) {
      Append(narrow, data);
      lexer_.Next();
      return true;
    }
  }
  uint64_t bits;
  if ((!infinite && std::isinf(value)) || !FloatBits(type, value, &bits)) {
    return Fail(DiagCode::kBadLiteral, token.loc,
                infinite ? absl::StrCat(TypeName(type), " has no infinity")
                         : absl::StrCat(token.text, " is out of range of ", TypeName(type)));
  }
  AppendBits(bits, LiteralBytesOf(type), data);
  lexer_.Next();
  return true;
}

bool Reader::AppendComplex(Type type, Bytes* data) {
  Type part = type == Type::kC64 ? Type::kF32 : Type::kF64;
  if (!lexer_.IsPunct('(')) return Expected("a complex value (re, im)");
  lexer_.Next();
  if (!AppendFloat(part, data)) return false;
  if (!Expect(',', "in the complex value")) return false;
  if (!AppendFloat(part, data)) return false;
  return Expect(')', "after the complex value");
}

// s32[2]{0} {1, 2}   ( f32[] 1, pred[] true ): the shape stands before the value.
bool Reader::ReadUntypedLiteral(Literal* literal) {
  if (!lexer_.IsPunct('(')) {
    Shape shape;
    return ReadShape(&shape) && ReadLiteral(shape, literal);
  }
  return Deeper([&] {
    lexer_.Next();
    std::vector<Literal> elements;
    Shape shape = Shape::Tuple({});
    while (!lexer_.IsPunct(')')) {
      if (!elements.empty() && !Expect(',', "or ')' in the tuple")) return false;
      if (!ReadUntypedLiteral(&elements.emplace_back())) return false;
      shape.elements.push_back(elements.back().shape());
    }
    lexer_.Next();
    *literal = Literal(std::move(shape), std::move(elements));
    return true;
  });
}

}  // namespace tpuc::hlo
