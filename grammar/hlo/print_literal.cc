// Constants as text (print_literal.h), spaced as XLA spaces them.
#include "grammar/hlo/print_literal.h"

#include <charconv>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "grammar/hlo/float_text.h"

namespace tpuc::hlo {
namespace {

uint64_t BitsAt(const uint8_t* p, int64_t bytes) {
  uint64_t bits = 0;
  memcpy(&bits, p, static_cast<size_t>(bytes));
  return bits;
}

void AppendElement(Type type, const uint8_t* p, bool scalar, std::string* out) {
  int64_t bytes = LiteralBytesOf(type);
  switch (ClassOf(type)) {
    case TypeClass::kBool:
      if (scalar) {
        *out += *p ? "true" : "false";
      } else {
        *out += *p ? '1' : '0';
      }
      return;
    case TypeClass::kUnsigned:
      absl::StrAppend(out, BitsAt(p, bytes));
      return;
    case TypeClass::kSigned: {
      // Sign-extend from the storage width.
      int shift = static_cast<int>(64 - 8 * bytes);
      absl::StrAppend(out, static_cast<int64_t>(BitsAt(p, bytes) << shift) >> shift);
      return;
    }
    case TypeClass::kComplex: {
      Type part = type == Type::kC64 ? Type::kF32 : Type::kF64;
      *out += '(';
      AppendFloatText(part, BitsAt(p, bytes / 2), out);
      *out += ", ";
      AppendFloatText(part, BitsAt(p + bytes / 2, bytes / 2), out);
      *out += ')';
      return;
    }
    default:
      AppendFloatText(type, BitsAt(p, bytes), out);
  }
}

// Dimension `d` on; moves *p over what it prints.
void AppendRows(const Shape& shape, int d, const uint8_t** p, std::string* out) {
  int rank = shape.rank();
  int64_t size = shape.dims[d];
  bool spaced = rank > 1 && (d + 1 < rank || size > 1);
  *out += spaced ? "{ " : "{";
  for (int64_t i = 0; i < size; ++i) {
    if (i) *out += ", ";
    if (rank > 3 && d + 2 < rank) absl::StrAppend(out, "/*i", d, "=", i, "*/ ");
    if (d + 1 < rank) {
      AppendRows(shape, d + 1, p, out);
    } else {
      AppendElement(shape.type, *p, false, out);
      *p += LiteralBytesOf(shape.type);
    }
  }
  *out += spaced ? " }" : "}";
}

// Types whose zero-sized or elided literal has no data are never indexed.
void AppendArray(const Literal& literal, std::string* out) {
  const Shape& shape = literal.shape();
  const uint8_t* p = literal.bytes();
  if (shape.rank() == 0) return AppendElement(shape.type, p, true, out);
  if (shape.ElementCount() == 0 && shape.dims[0] > 1 << 20) {
    // Millions of empty rows: still what the text form needs.
    out->reserve(out->size() + static_cast<size_t>(shape.dims[0]) * 4);
  }
  AppendRows(shape, 0, &p, out);
}

}  // namespace

void AppendLiteral(const Literal& literal, std::string* out) {
  if (literal.elided()) {
    *out += "{...}";
  } else if (literal.shape().IsTuple()) {
    *out += '(';
    for (size_t i = 0; i < literal.elements().size(); ++i) {
      if (i) *out += ", ";
      AppendLiteral(literal.elements()[i], out);
    }
    *out += ')';
  } else {
    AppendArray(literal, out);
  }
}

void AppendUntypedLiteral(const Literal& literal, std::string* out) {
  const Shape& shape = literal.shape();
  if (shape.IsTuple()) {
    *out += "( ";
    for (size_t i = 0; i < literal.elements().size(); ++i) {
      if (i) *out += ", ";
      AppendUntypedLiteral(literal.elements()[i], out);
    }
    *out += " )";
    return;
  }
  AppendTo(shape, true, out);
  // Without a layout the braces of the value would be read as one.
  if (!shape.layout && shape.rank() > 0) *out += ToString(DefaultLayout(shape.rank()));
  *out += ' ';
  AppendLiteral(literal, out);
}

}  // namespace tpuc::hlo
