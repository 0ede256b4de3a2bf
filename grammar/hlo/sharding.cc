// Shardings and replica groups (hlo-text.md sections 13 and 14): checked, and kept as canonical
// text; tpuc compiles for one chip and does not interpret them.
//
//   {devices=[2,1,4]<=[4,2]T(1,0) last_tile_dim_replicate}   {mesh['a'=2], [{'a'}, {}]}
//   [2,4]<=[4,2]T(1,0)   {{0,1},{2,3}}
#include <algorithm>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "grammar/hlo/reader.h"

namespace tpuc::hlo {
namespace {

// Saturates; -1 for a size that is not positive.
int64_t Product(const Ints& dims) {
  int64_t product = 1;
  for (int64_t dim : dims) {
    if (dim <= 0) return -1;
    if (__builtin_mul_overflow(product, dim, &product)) {
      return std::numeric_limits<int64_t>::max();
    }
  }
  return product;
}

std::string SingleQuoted(absl::string_view text) {
  std::string quoted = Quoted(text);
  quoted.front() = quoted.back() = '\'';
  return quoted;
}

}  // namespace

bool Reader::ReadBracketInts(Ints* values) {
  if (!Expect('[', "before the dimensions")) return false;
  if (Accept(']')) return true;
  do {
    if (!ReadInt(&values->emplace_back())) return false;
  } while (Accept(','));
  return Expect(']', "or ',' in the dimensions");
}

// <=[4,2]T(1,0): device ids 0..n-1 reshaped, transposed, then reshaped to `dims`.
bool Reader::ReadIota(const Ints& dims, std::string* text) {
  Loc loc = lexer_.token().loc;
  lexer_.Next();
  Ints reshape, transpose;
  if (!ReadBracketInts(&reshape)) return false;
  if (Product(reshape) != Product(dims) || Product(dims) < 1) {
    return Fail(
        DiagCode::kBadSharding, loc,
        absl::StrCat("[", absl::StrJoin(reshape, ","), "] does not hold as many devices as [",
                     absl::StrJoin(dims, ","), "]"));
  }
  absl::StrAppend(text, "<=[", absl::StrJoin(reshape, ","), "]");
  bool has_transpose = lexer_.token().kind == Tok::kIdent && lexer_.token().text == "T";
  if (has_transpose != (reshape.size() > 1)) {
    return Fail(DiagCode::kBadSharding, lexer_.token().loc,
                has_transpose ? "T(...) after <= needs two or more dimensions"
                              : "two or more dimensions after <= need T(...)");
  }
  if (!has_transpose) return true;
  lexer_.Next();
  if (!Expect('(', "after T")) return false;
  Loc order_loc = lexer_.token().loc;
  do {
    if (!ReadInt(&transpose.emplace_back())) return false;
  } while (Accept(','));
  if (!Expect(')', "or ',' after T(")) return false;
  Ints sorted = transpose;
  std::sort(sorted.begin(), sorted.end());
  bool permutes = sorted.size() == reshape.size();
  for (size_t i = 0; permutes && i < sorted.size(); ++i)
    permutes = sorted[i] == static_cast<int64_t>(i);
  if (!permutes) {
    return Fail(DiagCode::kBadSharding, order_loc,
                absl::StrCat("T(", absl::StrJoin(transpose, ","), ") does not order the ",
                             reshape.size(), " dimensions after <="));
  }
  absl::StrAppend(text, "T(", absl::StrJoin(transpose, ","), ")");
  return true;
}

bool Reader::ReadSharding(std::string* text) {
  if (!lexer_.IsPunct('{')) return Expected("'{' before the sharding");
  char next = lexer_.PeekChar();
  if (next != '{' && next != '}') return ReadSingleSharding(text);
  lexer_.Next();
  *text = "{";
  for (int64_t i = 0; !lexer_.IsPunct('}'); ++i) {
    if (i) {
      if (!Expect(',', "or '}' between the shardings of a tuple")) return false;
      *text += ", ";
      if (i % 5 == 0) absl::StrAppend(text, "/*index=", i, "*/");
    }
    std::string single;
    if (!ReadSingleSharding(&single)) return false;
    *text += single;
  }
  lexer_.Next();
  *text += "}";
  return true;
}

bool Reader::ReadSingleSharding(std::string* text) {
  if (!Expect('{', "before the sharding")) return false;
  const Token& token = lexer_.token();
  bool named = token.kind == Tok::kIdent && (token.text == "mesh" || token.text == "maximal_mesh");
  std::string body;
  if (named ? !ReadNamedSharding(&body) : !ReadTileSharding(&body)) return false;
  *text = absl::StrCat("{", body, "}");
  return Expect('}', "at the end of the sharding");
}

// One {op metadata}, or a list of them in braces, as text.
bool Reader::ReadMetadataText(std::string* text) {
  if (!lexer_.IsPunct('{')) return Expected("'{' before the metadata");
  return ReadBraced(text);
}

bool Reader::ReadTileSharding(std::string* text) {
  Loc loc = lexer_.token().loc;
  std::string kind, devices, last, group, metadata;
  Ints dims;
  int64_t maximal_device = -1, ids = 0;
  while (!lexer_.IsPunct('}')) {
    const Token token = lexer_.token();
    switch (token.keyword) {
      case Keyword::kReplicated:
      case Keyword::kManual:
      case Keyword::kUnknown:
      case Keyword::kUnreduced:
      case Keyword::kMaximal:
        if (!kind.empty()) {
          return Fail(DiagCode::kBadSharding, token.loc,
                      absl::StrCat("a sharding is not both ", kind, " and ", token.text));
        }
        kind = std::string(token.text);
        lexer_.Next();
        continue;
      case Keyword::kLastTileDimReplicate:
        last = " last_tile_dim_replicate";
        lexer_.Next();
        continue;
      case Keyword::kShardAs:
      case Keyword::kShardLike: {
        lexer_.Next();
        int64_t number = 0;
        if (!ReadInt(&number, "a shard group number")) return false;
        group = absl::StrCat(" ", token.text, " ", number);
        continue;
      }
      default:
        break;
    }
    if (token.kind != Tok::kAttrName) return Expected("a part of a sharding (parted by spaces)");
    lexer_.Next();
    if (token.text == "device") {
      if (!ReadInt(&maximal_device, "a device number")) return false;
    } else if (token.text == "devices") {
      if (!ReadBracketInts(&dims)) return false;
      devices = absl::StrCat("devices=[", absl::StrJoin(dims, ","), "]");
      if (lexer_.token().kind == Tok::kLeq) {
        if (!ReadIota(dims, &devices)) return false;
        ids = Product(dims);
      } else {
        do {
          int64_t id = 0;
          if (!ReadInt(&id, "a device number or '<='")) return false;
          absl::StrAppend(&devices, ids++ ? "," : "", id);
        } while (Accept(','));
      }
    } else if (token.text == "last_tile_dims") {
      if (!Expect('{', "before the subgroup kinds")) return false;
      last = " last_tile_dims={";
      do {
        Keyword word = lexer_.token().keyword;
        if (word != Keyword::kMaximal && word != Keyword::kReplicated && word != Keyword::kManual &&
            word != Keyword::kUnreduced) {
          return Expected("maximal, replicated, manual or unreduced");
        }
        absl::StrAppend(&last, last.back() == '{' ? "" : ", ", lexer_.token().text);
        lexer_.Next();
      } while (Accept(','));
      last += "}";
      if (!Expect('}', "or ',' in the subgroup kinds")) return false;
    } else if (token.text == "metadata") {
      std::string raw;
      if (!ReadMetadataText(&raw)) return false;
      metadata = absl::StrCat(" metadata=", raw);
    } else {
      return Fail(DiagCode::kBadSharding, token.loc,
                  absl::StrCat("a sharding has no part '", token.text, "='"));
    }
  }
  auto fail = [&](std::string message) {
    return Fail(DiagCode::kBadSharding, loc, std::move(message));
  };
  if (kind == "maximal") {
    // "devices=[...]N" of one device is an old spelling.
    if (maximal_device < 0 || !devices.empty())
      return fail("a maximal sharding is maximal device=N");
    absl::StrAppend(text, "maximal device=", maximal_device);
  } else if (!kind.empty()) {
    if (!devices.empty() || maximal_device >= 0) {
      return fail(absl::StrCat("a sharding that is ", kind, " takes no devices"));
    }
    *text += kind;
  } else {
    if (devices.empty()) return fail("a sharding needs devices=[...] or a word such as replicated");
    if (Product(dims) != ids) {
      return fail(absl::StrCat("the tiles of [", absl::StrJoin(dims, ","), "] are ", Product(dims),
                               ", the devices ", ids));
    }
    if (ids < 2) return fail("a tiled sharding needs more than one device");
    *text += devices;
  }
  absl::StrAppend(text, last, group, metadata);
  return true;
}

// mesh['a'=2,'b'=4] or maximal_mesh[device_id=1], then device ids if given.
bool Reader::ReadMesh(std::string* text, std::vector<std::pair<std::string, int64_t>>* axes) {
  bool maximal = lexer_.token().text == "maximal_mesh";
  lexer_.Next();
  if (!Expect('[', "before the mesh")) return false;
  if (maximal) {
    if (lexer_.token().kind != Tok::kAttrName || lexer_.token().text != "device_id") {
      return Expected("device_id=N");
    }
    lexer_.Next();
    int64_t device = 0;
    if (!ReadInt(&device, "a device number")) return false;
    absl::StrAppend(text, "maximal_mesh[device_id=", device, "]");
    return Expect(']', "after the device");
  }
  *text += "mesh[";
  while (!lexer_.IsPunct(']')) {
    if (!axes->empty() && !Expect(',', "or ']' in the mesh")) return false;
    std::string name;
    int64_t size = 0;
    if (!ReadString(&name) || !Expect('=', "after the axis name") ||
        !ReadInt(&size, "an axis size")) {
      return false;
    }
    absl::StrAppend(text, axes->empty() ? "" : ",", SingleQuoted(name), "=", size);
    axes->push_back({std::move(name), size});
  }
  lexer_.Next();
  *text += "]";
  return true;
}

// {'a', 'b':(1)2} with an open "?" at the end if allowed.
bool Reader::ReadAxes(const std::vector<std::pair<std::string, int64_t>>& axes, bool open,
                      std::string* text) {
  if (!Expect('{', "before the axes")) return false;
  *text += "{";
  for (bool first = true; !lexer_.IsPunct('}'); first = false) {
    if (!first) {
      if (!Expect(',', "or '}' in the axes")) return false;
      *text += ", ";
    }
    if (open && Accept('?')) {
      *text += "?";
      break;
    }
    Loc loc = lexer_.token().loc;
    std::string name;
    if (!ReadString(&name)) return false;
    int64_t index = -1;
    bool known =
        std::any_of(axes.begin(), axes.end(), [&](const auto& a) { return a.first == name; });
    if (!known && (!absl::SimpleAtoi(name, &index) || index < 0 ||
                   index >= static_cast<int64_t>(axes.size()))) {
      return Fail(DiagCode::kBadSharding, loc, absl::StrCat("the mesh has no axis '", name, "'"));
    }
    *text += SingleQuoted(name);
    if (!Accept(':')) continue;
    int64_t before = 0, size = 0;
    if (!Expect('(', "before the sub-axis") || !ReadInt(&before) ||
        !Expect(')', "in the sub-axis") || !ReadInt(&size)) {
      return false;
    }
    absl::StrAppend(text, ":(", before, ")", size);
  }
  *text += "}";
  return Expect('}', "after the axes");
}

// (3,1,0,2) or ([2,2]T(1,0))
bool Reader::ReadDeviceIds(std::string* text) {
  if (!Expect('(', "before the device ids")) return false;
  Ints ids, order;
  if (lexer_.IsPunct('[')) {
    if (!ReadBracketInts(&ids)) return false;
    absl::StrAppend(text, "([", absl::StrJoin(ids, ","), "]");
    if (lexer_.token().kind == Tok::kIdent && lexer_.token().text == "T") {
      lexer_.Next();
      if (!Expect('(', "after T")) return false;
      do {
        if (!ReadInt(&order.emplace_back())) return false;
      } while (Accept(','));
      if (!Expect(')', "or ',' after T(")) return false;
      absl::StrAppend(text, "T(", absl::StrJoin(order, ","), ")");
    }
  } else {
    while (!lexer_.IsPunct(')')) {
      if (!ids.empty() && !Expect(',', "or ')' in the device ids")) return false;
      if (!ReadInt(&ids.emplace_back(), "a device number")) return false;
    }
    absl::StrAppend(text, "(", absl::StrJoin(ids, ","));
  }
  *text += ")";
  return Expect(')', "after the device ids");
}

bool Reader::ReadNamedSharding(std::string* text) {
  std::vector<std::pair<std::string, int64_t>> axes;
  bool maximal = lexer_.token().text == "maximal_mesh";
  if (!ReadMesh(text, &axes)) return false;
  bool dims_seen = false;
  while (!lexer_.IsPunct('}')) {
    bool comma = Accept(',');
    const Token token = lexer_.token();
    if (token.keyword == Keyword::kReplicated || token.keyword == Keyword::kManual ||
        token.keyword == Keyword::kUnreduced) {
      absl::StrAppend(text, ", ", token.text);
      lexer_.Next();
      continue;
    }
    if (!comma) return Expect(',', "or '}' in the sharding");
    if (lexer_.IsPunct('[') && !dims_seen && !maximal) {
      dims_seen = true;
      lexer_.Next();
      *text += ", [";
      for (bool first = true; !lexer_.IsPunct(']'); first = false) {
        if (!first) {
          if (!Expect(',', "or ']' between the dimensions")) return false;
          *text += ", ";
        }
        if (!ReadAxes(axes, true, text)) return false;
      }
      lexer_.Next();
      *text += "]";
      continue;
    }
    if (token.kind != Tok::kAttrName) return Expected("a part of a named sharding");
    lexer_.Next();
    absl::StrAppend(text, ", ", token.text, "=");
    bool ok = true;
    if (token.text == "replicated" || token.text == "manual" || token.text == "unreduced") {
      if (token.text == "unreduced" && lexer_.token().kind == Tok::kIdent) {
        absl::string_view op = lexer_.token().text;
        if (op != "sum" && op != "max" && op != "min") return Expected("sum, max or min");
        absl::StrAppend(text, op);
        lexer_.Next();
        if (!lexer_.IsPunct('{')) continue;
      }
      ok = ReadAxes(axes, false, text);
    } else if (token.text == "metadata") {
      std::string metadata;
      ok = ReadMetadataText(&metadata);
      *text += metadata;
    } else if (token.text == "device_ids" && !dims_seen) {
      ok = ReadDeviceIds(text);
    } else {
      return Fail(DiagCode::kBadSharding, token.loc,
                  absl::StrCat("a named sharding has no part '", token.text, "='"));
    }
    if (!ok) return false;
  }
  return true;
}

bool Reader::ReadReplicaGroups(std::string* text) {
  const Token& token = lexer_.token();
  if (lexer_.IsPunct('[')) {
    Ints dims;
    Loc loc = token.loc;
    if (!ReadBracketInts(&dims)) return false;
    if (dims.size() != 2) {
      return Fail(DiagCode::kBadSharding, loc, "replica groups are [GROUPS,SIZE]<=[...]");
    }
    absl::StrAppend(text, "[", absl::StrJoin(dims, ","), "]");
    if (lexer_.token().kind != Tok::kLeq) return Expected("'<=' after the group dimensions");
    return ReadIota(dims, text);
  }
  if (token.kind == Tok::kIdent && (token.text == "mesh" || token.text == "maximal_mesh")) {
    std::vector<std::pair<std::string, int64_t>> axes;
    if (!ReadMesh(text, &axes)) return false;
    if (Accept(',')) {
      if (lexer_.token().kind != Tok::kAttrName || lexer_.token().text != "device_ids") {
        return Expected("device_ids=(...)");
      }
      lexer_.Next();
      *text += ", device_ids=";
      if (!ReadDeviceIds(text)) return false;
    }
    *text += " ";
    return ReadAxes(axes, false, text);
  }
  std::vector<Ints> groups;
  if (!ReadIntLists(&groups)) return false;
  *text = "{";
  for (size_t i = 0; i < groups.size(); ++i) {
    absl::StrAppend(text, i ? "," : "", "{", absl::StrJoin(groups[i], ","), "}");
  }
  *text += "}";
  return true;
}

}  // namespace tpuc::hlo
