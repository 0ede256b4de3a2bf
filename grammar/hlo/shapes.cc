// Shapes and layouts (hlo-text.md sections 8 and 9), read from the token stream.
//
//   f32[16,<=64]{1,0:T(8,128)S(1)}   (f32[2], s32[])   b(f32[8]{0})
#include <algorithm>
#include <limits>

#include "absl/strings/ascii.h"
#include "grammar/hlo/reader.h"

namespace tpuc::hlo {

bool Reader::AtShape() const {
  const Token& token = lexer_.token();
  return token.kind == Tok::kType || lexer_.IsPunct('(') ||
         (token.kind == Tok::kIdent && token.text == "b" && lexer_.PeekChar() == '(');
}

bool Reader::ReadShape(Shape* shape) {
  if (!lexer_.IsPunct('(')) return ReadShapeBody(shape);
  return Deeper([&] { return ReadShapeBody(shape); });
}

bool Reader::ReadShapeBody(Shape* shape) {
  Loc loc = lexer_.token().loc;
  if (lexer_.IsPunct('(')) {
    lexer_.Next();
    shape->type = Type::kTuple;
    if (Accept(')')) return true;
    do {
      shape->elements.emplace_back();
      if (!ReadShape(&shape->elements.back())) return false;
    } while (Accept(','));
    return Expect(')', "or ',' in the tuple shape");
  }
  if (lexer_.token().kind == Tok::kIdent && lexer_.token().text == "b" &&
      lexer_.PeekChar() == '(') {
    lexer_.Next();
    lexer_.Next();
    if (!ReadArrayShape(shape)) return false;
    if (!shape->IsArray()) {
      return Fail(DiagCode::kBadShape, loc, "a buffer b(...) holds one array");
    }
    shape->is_buffer = true;
    return Expect(')', "after the buffer's array");
  }
  return ReadArrayShape(shape);
}

bool Reader::ReadArrayShape(Shape* shape) {
  const Token& token = lexer_.token();
  Loc loc = token.loc;
  if (token.kind != Tok::kType) {
    if (token.kind != Tok::kIdent || lexer_.PeekChar() != '[') return Expected("a shape");
    std::string near = absl::AsciiStrToLower(token.text);
    if (!TypeFromName(near)) {
      std::vector<std::string> known;
#define TYPE(id, text, cls, bits) known.push_back(text);
#include "src/ir/types.def"
#undef TYPE
      near = Nearest(token.text, known);
    }
    return Fail(DiagCode::kBadShape, loc, absl::StrCat("unknown element type ", Describe(token)),
                near.empty() ? "" : absl::StrCat("did you mean '", near, "'?"));
  }
  shape->type = token.type;
  lexer_.Next();
  if (!Expect('[', "after the element type")) return false;
  if (!lexer_.IsPunct(']')) {
    do {
      if (!ReadDim(shape)) return false;
    } while (Accept(','));
  }
  if (!Expect(']', "or ',' in the dimensions")) return false;
  if (!shape->IsArray() && shape->rank() > 0) {
    return Fail(DiagCode::kBadShape, loc,
                absl::StrCat(TypeName(shape->type), " has no dimensions"));
  }
  if (shape->LiteralBytes() == std::numeric_limits<int64_t>::max()) {
    return Fail(DiagCode::kTooLarge, loc,
                absl::StrCat("the size of ", ToString(*shape), " in bytes does not fit 64 bits"));
  }
  if (lexer_.IsPunct('{')) {
    // "{" begins a layout only before a number or ':'.
    char next = lexer_.PeekChar();
    if ((next >= '0' && next <= '9') || next == '-' || next == ':') return ReadLayout(shape);
  }
  return true;
}

bool Reader::ReadDim(Shape* shape) {
  DimKind kind = DimKind::kStatic;
  int64_t size = 0;
  if (lexer_.IsPunct('?')) {
    kind = DimKind::kUnbounded;
    lexer_.Next();
  } else {
    if (lexer_.token().kind == Tok::kLeq) {
      kind = DimKind::kBounded;
      lexer_.Next();
    }
    const Token& token = lexer_.token();
    if (token.kind != Tok::kInt) return Expected("a dimension size");
    size = token.integer;
    if (size < 0) {
      return Fail(DiagCode::kBadShape, token.loc,
                  absl::StrCat("dimension size ", token.text, " is not from 0 to 2^63-1"));
    }
    lexer_.Next();
  }
  if (kind != DimKind::kStatic || !shape->dim_kinds.empty()) {
    shape->dim_kinds.resize(shape->dims.size(), DimKind::kStatic);
    shape->dim_kinds.push_back(kind);
  }
  shape->dims.push_back(size);
  return true;
}

bool Reader::ReadLayout(Shape* shape) {
  Loc loc = lexer_.token().loc;
  lexer_.Next();
  Layout& layout = shape->layout.emplace();
  if (lexer_.token().kind == Tok::kInt) {
    while (true) {
      if (lexer_.token().kind != Tok::kInt) return Expected("a dimension number");
      layout.minor_to_major.push_back(lexer_.token().integer);
      lexer_.Next();
      if (!Accept(',')) break;
    }
  }
  if (Accept(':') && !ReadLayoutParts(&layout)) return false;
  if (!lexer_.IsPunct('}')) {
    if (lexer_.token().kind == Tok::kIdent) {
      return Fail(DiagCode::kBadLayout, lexer_.token().loc,
                  absl::StrCat("unexpected ", Describe(lexer_.token()), " in the layout"),
                  "the parts of a layout stand in the order D T L # * E S SC P M");
    }
    return Expected("'}' at the end of the layout");
  }
  lexer_.Next();
  if (!shape->IsArray()) {
    return Fail(DiagCode::kBadLayout, loc, absl::StrCat(TypeName(shape->type), " has no layout"));
  }
  if (static_cast<int>(layout.minor_to_major.size()) != shape->rank()) {
    return Fail(DiagCode::kBadLayout, loc,
                absl::StrCat("the layout orders ", layout.minor_to_major.size(),
                             " dimensions, the shape has ", shape->rank()));
  }
  return true;
}

bool Reader::ReadLayoutInt(int64_t* value, int64_t least) {
  lexer_.Next();
  if (!Expect('(', "in the layout")) return false;
  const Token& token = lexer_.token();
  if (token.kind != Tok::kInt) return Expected("an integer in the layout");
  if (token.integer < least) {
    return Fail(DiagCode::kBadLayout, token.loc,
                absl::StrCat(token.integer, " is too small here; at least ", least));
  }
  *value = token.integer;
  lexer_.Next();
  return Expect(')', "in the layout");
}

bool Reader::ReadLayoutType(std::optional<Type>* type) {
  lexer_.Next();
  if (!Expect('(', "in the layout")) return false;
  const Token& token = lexer_.token();
  if (token.kind != Tok::kType || ClassOf(token.type) != TypeClass::kUnsigned) {
    return Fail(DiagCode::kBadLayout, token.loc,
                absl::StrCat("expected an unsigned integer type, found ", Describe(token)));
  }
  *type = token.type;
  lexer_.Next();
  return Expect(')', "in the layout");
}

bool Reader::ReadLayoutParts(Layout* layout) {
  auto at = [&](absl::string_view word) {
    return lexer_.token().kind == Tok::kIdent && lexer_.token().text == word &&
           lexer_.PeekChar() == '(';
  };
  if (at("D") && !ReadLevels(layout)) return false;
  if (at("T")) {
    lexer_.Next();
    while (lexer_.IsPunct('(')) {
      if (!ReadTile(&layout->tiles.emplace_back())) return false;
    }
  }
  if (at("L") && !ReadLayoutInt(&layout->tail_padding, 1)) return false;
  if (lexer_.IsPunct('#') && !ReadLayoutType(&layout->index_type)) return false;
  if (lexer_.IsPunct('*') && !ReadLayoutType(&layout->pointer_type)) return false;
  if (at("E") && !ReadLayoutInt(&layout->element_bits, 0)) return false;
  if (at("S") && !ReadLayoutInt(&layout->memory_space, 0)) return false;
  if (at("SC") && !ReadSplits(layout)) return false;
  if (at("P")) {
    return Fail(DiagCode::kBadLayout, lexer_.token().loc,
                "a physical shape P(...) belongs to sparse arrays, which are not supported");
  }
  return !at("M") || ReadLayoutInt(&layout->metadata_prefix_bytes, 0);
}

bool Reader::ReadTile(Tile* tile) {
  lexer_.Next();
  if (!lexer_.IsPunct(')')) {
    do {
      const Token& token = lexer_.token();
      if (lexer_.IsPunct('*')) {
        tile->dims.push_back(Tile::kCombine);
      } else if (token.kind != Tok::kInt) {
        return Expected("a tile size or '*'");
      } else if (token.integer <= 0) {
        return Fail(DiagCode::kBadLayout, token.loc,
                    absl::StrCat("tile size ", token.text, " is not positive"));
      } else {
        tile->dims.push_back(token.integer);
      }
      lexer_.Next();
    } while (Accept(','));
  }
  return Expect(')', "or ',' in the tile");
}

bool Reader::ReadSplits(Layout* layout) {
  lexer_.Next();
  while (Accept('(')) {
    SplitConfig split;
    if (!ReadInt(&split.dimension, "a dimension number")) return false;
    if (!Expect(':', "after the split dimension")) return false;
    do {
      if (!ReadInt(&split.indices.emplace_back(), "a split index")) return false;
    } while (Accept(','));
    if (!Expect(')', "or ',' in the split")) return false;
    layout->splits.push_back(std::move(split));
  }
  return true;
}

// D(D,C+,H~): sparsity of each dimension. Kept as text; all dense means nothing.
bool Reader::ReadLevels(Layout* layout) {
  lexer_.Next();
  lexer_.Next();
  std::string levels;
  bool dense = true;
  do {
    const Token& token = lexer_.token();
    bool known = token.kind == Tok::kIdent && token.text.size() == 1 &&
                 absl::string_view("DCSH").find(token.text[0]) != absl::string_view::npos;
    if (!known) {
      return Fail(DiagCode::kBadLayout, token.loc,
                  absl::StrCat("unknown dimension level ", Describe(token), "; D, C, S or H"));
    }
    absl::StrAppend(&levels, levels.empty() ? "" : ",", token.text);
    dense &= token.text == "D";
    lexer_.Next();
    if (Accept('+')) levels += '+', dense = false;
    if (Accept('~')) levels += '~', dense = false;
  } while (Accept(','));
  if (!dense) layout->level_types = levels;
  return Expect(')', "or ',' in the dimension levels");
}

bool Reader::ReadShapeIndex(Ints* index) {
  if (!Expect('{', "before the shape index")) return false;
  while (lexer_.token().kind == Tok::kInt) {
    index->push_back(lexer_.token().integer);
    lexer_.Next();
    if (!Accept(',')) break;
  }
  return Expect('}', "at the end of the shape index");
}

}  // namespace tpuc::hlo
