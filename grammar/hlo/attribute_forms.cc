// How the values of attributes read, one method a form (AttrForm, op_table.h; hlo-text.md 11).
#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "grammar/hlo/float_text.h"
#include "grammar/hlo/reader.h"

namespace tpuc::hlo {

bool Reader::ReadBool(bool* value) {
  Keyword keyword = lexer_.token().keyword;
  if (keyword != Keyword::kTrue && keyword != Keyword::kFalse) return Expected("true or false");
  *value = keyword == Keyword::kTrue;
  lexer_.Next();
  return true;
}

bool Reader::ReadInt(int64_t* value, absl::string_view what) {
  if (lexer_.token().kind != Tok::kInt) return Expected(what);
  *value = lexer_.token().integer;
  lexer_.Next();
  return true;
}

bool Reader::ReadInt32(int32_t* value) {
  Loc loc = lexer_.token().loc;
  int64_t wide = 0;
  if (!ReadInt(&wide)) return false;
  if (wide != static_cast<int32_t>(wide)) {
    return Fail(DiagCode::kBadAttribute, loc, absl::StrCat(wide, " does not fit 32 bits"));
  }
  *value = static_cast<int32_t>(wide);
  return true;
}

bool Reader::ReadFloat(double* value) {
  const Token& token = lexer_.token();
  bool is_nan = token.kind == Tok::kDecimal && token.is_nan;
  bool infinite = token.kind == Tok::kNegInf || token.keyword == Keyword::kInf;
  if (token.kind != Tok::kInt && token.kind != Tok::kDecimal && !infinite) {
    return Expected("a number");
  }
  *value = is_nan ? std::numeric_limits<double>::quiet_NaN() : NumberOf(token);
  if (!is_nan && !infinite && std::fabs(*value) > std::numeric_limits<float>::max()) {
    return Fail(DiagCode::kBadAttribute, token.loc,
                absl::StrCat(token.text, " is out of range of f32"));
  }
  lexer_.Next();
  return true;
}

bool Reader::ReadString(std::string* value) {
  const Token& token = lexer_.token();
  if (token.kind != Tok::kString) return Expected("a string in quotes");
  if (!token.escaped) {
    value->assign(token.text.data(), token.text.size());
  } else {
    std::string error;
    if (!Unescape(token.text, value, &error)) {
      return Fail(DiagCode::kSyntax, token.loc, std::move(error));
    }
  }
  lexer_.Next();
  return true;
}

bool Reader::ReadStringOrJson(std::string* value) {
  if (!lexer_.IsPunct('{')) {
    if (lexer_.token().kind != Tok::kString) return Expected("a string or a dict {...}");
    return ReadString(value);
  }
  absl::string_view text;
  Loc loc = lexer_.token().loc;
  if (!lexer_.TakeBraced(&text)) {
    return Fail(DiagCode::kSyntax, loc, "this '{' has no matching '}'");
  }
  *value = std::string(text);
  return true;
}

WordSet WordsOf(AttrId id) {
  switch (id) {
    case AttrId::kDirection:
      return {{"EQ", "NE", "GE", "GT", "LE", "LT"}};
    case AttrId::kCompareType:
      return {{"FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"}};
    case AttrId::kKind:
      return {{"kLoop", "kInput", "kOutput", "kCustom"}};
    case AttrId::kFftType:
      return {{"FFT", "IFFT", "RFFT", "IRFFT"}};
    case AttrId::kConvolutionKind:
      return {{"fprop", "wgrad", "dgrad", "unset"}};
    case AttrId::kTransposeA:
      return {{"NO_TRANSPOSE", "TRANSPOSE", "ADJOINT", "TRANSPOSE_INVALID"}};
    case AttrId::kPaddingType:
      return {{"PADDING_VALID", "PADDING_SAME", "PADDING_INVALID"}};
    case AttrId::kMode:
      return {{"cross_replica", "cross_partition", "cross_replica_and_partition", "flattened_id"}};
    case AttrId::kOperandPrecision:
      return {{"default", "high", "highest"}, true};
    case AttrId::kAlgorithm:
      return {{"dot_any_f8_any_f8_f32", "dot_any_f8_any_f8_f32_fast_accum", "dot_f16_f16_f16",
               "dot_f16_f16_f32", "dot_bf16_bf16_bf16", "dot_bf16_bf16_f32", "dot_bf16_bf16_f32_x3",
               "dot_bf16_bf16_f32_x6", "dot_bf16_bf16_f32_x9", "dot_tf32_tf32_f32",
               "dot_tf32_tf32_f32_x3", "dot_f32_f32_f32", "dot_f64_f64_f64", "unset"},
              true};
    case AttrId::kDistribution:
      return {{"rng_uniform", "rng_normal", "rng_invalid"}, true};
    case AttrId::kRngAlgorithm:
      return {{"rng_default", "rng_three_fry", "rng_philox"}, true};
    case AttrId::kSchedule:
      return {{"SCHEDULE_NONE", "SCHEDULE_LATEST", "SCHEDULE_EARLIEST"}, true};
    case AttrId::kApiVersion:
      return {{"API_VERSION_ORIGINAL", "API_VERSION_STATUS_RETURNING",
               "API_VERSION_STATUS_RETURNING_UNIFIED", "API_VERSION_TYPED_FFI"},
              true};
    default:
      return {};
  }
}

bool Reader::ReadWord(AttrId id, std::string* value) {
  const Token& token = lexer_.token();
  static const auto* sets = [] {
    auto* table = new std::vector<WordSet>;
    for (const AttrInfo& row : AttrTable()) table->push_back(WordsOf(row.id));
    return table;
  }();
  const WordSet& set = (*sets)[static_cast<size_t>(id)];
  if (token.kind != Tok::kIdent) {
    return Expected(absl::StrCat("one of ", absl::StrJoin(set.words, " ")));
  }
  for (absl::string_view word : set.words) {
    bool same =
        token.text.size() == word.size() &&
        std::equal(word.begin(), word.end(), token.text.begin(), [&](char a, char b) {
          return a == b || (set.any_case && absl::ascii_tolower(a) == absl::ascii_tolower(b));
        });
    if (!same) continue;
    *value = std::string(word);
    lexer_.Next();
    return true;
  }
  return Fail(DiagCode::kBadAttribute, token.loc,
              absl::StrCat(Describe(token), " is no value of ", AttrName(id)),
              absl::StrCat("one of ", absl::StrJoin(set.words, " ")));
}

bool Reader::ReadWords(AttrId id, std::vector<std::string>* values) {
  if (!Expect('{', "before the list of words")) return false;
  do {
    if (!ReadWord(id, &values->emplace_back())) return false;
  } while (Accept(','));
  return Expect('}', "or ',' in the list of words");
}

bool Reader::ReadInts(Ints* values) {
  if (!Expect('{', "before the list of integers")) return false;
  if (Accept('}')) return true;
  do {
    if (!ReadInt(&values->emplace_back())) return false;
  } while (Accept(','));
  return Expect('}', "or ',' in the list of integers");
}

bool Reader::ReadIntLists(std::vector<Ints>* values) {
  if (!Expect('{', "before the lists of integers")) return false;
  if (Accept('}')) return true;
  do {
    if (!ReadInts(&values->emplace_back())) return false;
  } while (Accept(','));
  return Expect('}', "or ',' between the lists");
}

bool Reader::ReadBools(Ints* values) {
  if (!Expect('{', "before the list of true and false")) return false;
  if (Accept('}')) return true;
  do {
    bool value = false;
    if (!ReadBool(&value)) return false;
    values->push_back(value);
  } while (Accept(','));
  return Expect('}', "or ',' in the list of true and false");
}

bool Reader::ReadWindow(Window* window) {
  Loc loc = lexer_.token().loc;
  if (!Expect('{', "before the window")) return false;
  constexpr absl::string_view kFields[] = {"size",       "stride",     "pad",
                                           "lhs_dilate", "rhs_dilate", "rhs_reversal"};
  std::vector<Ints> values[6];  // by field; an entry a dimension
  bool given[6] = {};
  while (lexer_.token().kind == Tok::kAttrName) {
    const Token field_token = lexer_.token();
    size_t field = std::find(std::begin(kFields), std::end(kFields), field_token.text) - kFields;
    if (field == 6) {
      return Fail(DiagCode::kUnknownAttribute, field_token.loc,
                  absl::StrCat("a window has no field '", field_token.text, "'"),
                  absl::StrCat("one of ", absl::StrJoin(kFields, " ")));
    }
    if (given[field]) {
      return Fail(DiagCode::kDuplicateAttribute, field_token.loc,
                  absl::StrCat("window field '", field_token.text, "' is given twice"));
    }
    given[field] = true;
    lexer_.Next();
    const Token& token = lexer_.token();
    bool is_pad = field == 2;
    bool ok = is_pad ? token.kind == Tok::kPad : token.kind == Tok::kInt || token.kind == Tok::kDxD;
    if (!ok) return Expected(is_pad ? "LOW_HIGH, joined with x" : "numbers joined with x");
    if (!ParseNumbers(token.text, &values[field])) {
      return Fail(DiagCode::kBadAttribute, token.loc, "number does not fit 64 bits");
    }
    for (const Ints& entry : values[field]) {
      if (is_pad && entry.size() != 2) {
        return Fail(DiagCode::kBadAttribute, token.loc, "the pad of a window is LOW_HIGH");
      }
    }
    lexer_.Next();
  }
  if (!Expect('}', "or a field NAME=VALUE (no commas) in the window")) return false;
  size_t rank = values[0].size();
  for (size_t field = 0; field < 6; ++field) {
    if (!given[field]) continue;
    if (values[field].size() != rank) {
      return Fail(DiagCode::kBadAttribute, loc,
                  absl::StrCat("window field '", kFields[field], "' has ", values[field].size(),
                               " dimensions, 'size' has ", rank));
    }
  }
  window->dims.resize(rank);
  for (size_t i = 0; i < rank; ++i) {
    WindowDim& dim = window->dims[i];
    dim.size = values[0][i][0];
    if (given[1]) dim.stride = values[1][i][0];
    if (given[2]) dim.pad_low = values[2][i][0], dim.pad_high = values[2][i][1];
    if (given[3]) dim.base_dilation = values[3][i][0];
    if (given[4]) dim.window_dilation = values[4][i][0];
    if (given[5]) dim.reversed = values[5][i][0] != 0;
    if (dim.size < 0 || dim.stride < 1 || dim.base_dilation < 1 || dim.window_dilation < 1) {
      return Fail(DiagCode::kBadAttribute, loc,
                  absl::StrCat("window dimension ", i,
                               ": strides and dilations are at least 1, sizes at least 0"));
    }
  }
  return true;
}

bool Reader::ReadDimLabels(DimLabels* labels) {
  const Token& token = lexer_.token();
  if (token.kind != Tok::kDimLabels) return Expected("dimension labels such as b01f_01io->b01f");
  absl::string_view text = token.text;
  size_t under = text.find('_'), arrow = text.find("->");
  labels->lhs = std::string(text.substr(0, under));
  labels->rhs = std::string(text.substr(under + 1, arrow - under - 1));
  labels->output = std::string(text.substr(arrow + 2));
  auto check = [&](const std::string& part, absl::string_view letters) -> std::string {
    size_t spatial = 0;
    std::string digits;
    for (char c : part) {
      bool digit = c >= '0' && c <= '9';
      if (c == '?') continue;
      if (std::count(part.begin(), part.end(), c) > 1) {
        return absl::StrCat("'", std::string(1, c), "' stands twice in '", part, "'");
      }
      if (!digit && letters.find(c) == absl::string_view::npos) {
        return absl::StrCat("'", std::string(1, c), "' does not belong in '", part, "'");
      }
      spatial += digit;
      if (digit) digits += c;
    }
    for (char letter : letters) {
      if (part.find(letter) == std::string::npos) {
        return absl::StrCat("'", part, "' lacks '", std::string(1, letter), "'");
      }
    }
    for (char c : digits) {
      if (static_cast<size_t>(c - '0') >= spatial) {
        return absl::StrCat("the spatial dimensions of '", part, "' are not 0 to ", spatial - 1);
      }
    }
    return "";
  };
  std::string error = check(labels->lhs, "bf");
  if (error.empty()) error = check(labels->rhs, "io");
  if (error.empty()) error = check(labels->output, "bf");
  if (error.empty() &&
      (labels->lhs.size() != labels->rhs.size() || labels->lhs.size() != labels->output.size())) {
    error = "the three parts have different ranks";
  }
  if (!error.empty()) {
    return Fail(DiagCode::kBadAttribute, token.loc, absl::StrCat("dimension labels: ", error));
  }
  lexer_.Next();
  return true;
}

bool Reader::ReadPadConfig(std::vector<PadDim>* dims) {
  const Token& token = lexer_.token();
  if (token.kind == Tok::kString && token.text.empty()) {  // a scalar's
    lexer_.Next();
    return true;
  }
  if (token.kind != Tok::kPad)
    return Expected("padding LOW_HIGH or LOW_HIGH_INTERIOR, joined with x");
  std::vector<Ints> parts;
  if (!ParseNumbers(token.text, &parts)) {
    return Fail(DiagCode::kBadAttribute, token.loc, "number does not fit 64 bits");
  }
  for (const Ints& part : parts) {
    dims->push_back({part[0], part[1], part.size() > 2 ? part[2] : 0});
  }
  lexer_.Next();
  return true;
}

bool Reader::ReadSlices(std::vector<SliceDim>* dims) {
  if (!Expect('{', "before the ranges")) return false;
  if (Accept('}')) return true;
  do {
    if (!Expect('[', "before a range [start:limit:stride]")) return false;
    SliceDim dim;
    if (!ReadInt(&dim.start, "the start of a range")) return false;
    if (!Expect(':', "after the start of a range")) return false;
    if (!ReadInt(&dim.limit, "the limit of a range")) return false;
    if (Accept(':') && !ReadInt(&dim.stride, "the stride of a range")) return false;
    if (!Expect(']', "at the end of the range")) return false;
    dims->push_back(dim);
  } while (Accept(','));
  return Expect('}', "or ',' between the ranges");
}

bool Reader::ReadShapes(std::vector<Shape>* shapes) {
  if (!Expect('{', "before the shapes")) return false;
  if (Accept('}')) return true;
  do {
    if (!ReadShape(&shapes->emplace_back())) return false;
  } while (Accept(','));
  return Expect('}', "or ',' between the shapes");
}

bool Reader::ReadComputationRef(absl::string_view made_name, Computation** computation) {
  const Token& token = lexer_.token();
  if (lexer_.IsPunct('{')) {
    auto made = std::make_unique<Computation>();
    made->name = std::string(made_name);
    made->module = module_.get();
    made->loc = token.loc;
    Scope scope;
    scope.computation = made.get();
    if (!Deeper([&] { return ReadBody(&scope); })) return false;
    *computation = made.get();
    made_.push_back(made.get());
    module_->computations.push_back(std::move(made));
    return true;
  }
  if (token.kind != Tok::kName && token.kind != Tok::kIdent) {
    return Expected("a computation name or '{'");
  }
  auto found = computations_.find(token.text);
  if (found == computations_.end()) {
    std::vector<std::string> known;
    for (const auto& row : module_->computations) known.push_back(row->name);
    std::string near = Nearest(token.text, known);
    bool later =
        lexer_.Rest().find(absl::StrCat("\n%", token.text, " ")) != absl::string_view::npos ||
        lexer_.Rest().find(absl::StrCat("\n", token.text, " ")) != absl::string_view::npos;
    return Fail(DiagCode::kUndefinedName, token.loc,
                absl::StrCat("computation '", token.text, "' is not defined"),
                later ? "it is defined further down; a computation must stand before its uses"
                : near.empty() ? ""
                               : absl::StrCat("did you mean '", near, "'?"));
  }
  *computation = found->second;
  lexer_.Next();
  return *computation != nullptr;  // its own errors are reported
}

bool Reader::ReadComputations(absl::string_view made_name,
                              std::vector<Computation*>* computations) {
  if (!Expect('{', "before the computations")) return false;
  if (Accept('}')) return true;
  do {
    Computation* computation = nullptr;
    if (!ReadComputationRef(made_name, &computation)) return false;
    computations->push_back(computation);
  } while (Accept(','));
  return Expect('}', "or ',' between the computations");
}

bool Reader::ReadPredecessors(Scope* scope, std::vector<Instruction*>* instructions) {
  if (!Expect('{', "before the control predecessors")) return false;
  do {
    const Token& token = lexer_.token();
    if (token.kind != Tok::kName && token.kind != Tok::kIdent) {
      return Expected("an instruction name");
    }
    Instruction* const* found = scope->names.Find(token.text);
    if (!found) return UndefinedName(*scope, token.text, token.loc);
    if (!*found) return false;
    instructions->push_back(*found);
    lexer_.Next();
  } while (Accept(','));
  return Expect('}', "or ',' between the control predecessors");
}

bool Reader::ReadFrontendAttributes(std::vector<std::pair<std::string, std::string>>* attributes) {
  if (!Expect('{', "before the frontend attributes")) return false;
  if (Accept('}')) return true;
  do {
    const Token& token = lexer_.token();
    if (token.kind != Tok::kAttrName) return Expected("a frontend attribute NAME=\"VALUE\"");
    std::string key(token.text), value;
    lexer_.Next();
    if (!ReadStringOrJson(&value)) return false;
    attributes->push_back({std::move(key), std::move(value)});
  } while (Accept(','));
  // Sorted by key; of a repeated key the last counts.
  std::stable_sort(attributes->begin(), attributes->end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  auto keep = attributes->begin();
  for (auto it = attributes->begin(); it != attributes->end(); ++it) {
    if (it + 1 != attributes->end() && (it + 1)->first == it->first) continue;
    if (keep != it) *keep = std::move(*it);
    ++keep;
  }
  attributes->erase(keep, attributes->end());
  return Expect('}', "or ',' between the frontend attributes");
}

bool Reader::ReadResultAccuracy(std::string* text) {
  if (!Expect('{', "before the accuracy")) return false;
  const Token token = lexer_.token();
  if (token.kind != Tok::kAttrName || (token.text != "mode" && token.text != "tolerance")) {
    return Expected("mode=... or tolerance={...}");
  }
  lexer_.Next();
  if (token.text == "mode") {
    std::string mode = absl::AsciiStrToLower(lexer_.token().text);
    if (lexer_.token().kind != Tok::kIdent || (mode != "default" && mode != "highest")) {
      return Fail(DiagCode::kBadAttribute, lexer_.token().loc,
                  absl::StrCat(Describe(lexer_.token()), " is no accuracy mode"),
                  "one of default highest");
    }
    lexer_.Next();
    *text = absl::StrCat("{mode=", mode, "}");
    return Expect('}', "after the accuracy mode");
  }
  if (!Expect('{', "before the tolerances")) return false;
  *text = "{tolerance={";
  bool first = true;
  while (lexer_.token().kind == Tok::kAttrName) {
    absl::string_view field = lexer_.token().text;
    if (field != "atol" && field != "rtol" && field != "ulps") {
      return Fail(DiagCode::kUnknownAttribute, lexer_.token().loc,
                  absl::StrCat("a tolerance has no field '", field, "'"), "one of atol rtol ulps");
    }
    lexer_.Next();
    double value;
    if (!ReadFloat(&value)) return false;
    absl::StrAppend(text, first ? "" : ",", field, "=", DoubleText(value));
    first = false;
    Accept(',');
  }
  *text += "}}";
  return Expect('}', "after the tolerances") && Expect('}', "after the accuracy");
}

bool Reader::ReadDomain(std::string* text) {
  if (!Expect('{', "before the domain")) return false;
  std::string kind, entry, exit;
  while (true) {
    while (Accept(',')) continue;
    if (lexer_.IsPunct('}')) break;
    const Token token = lexer_.token();
    if (token.kind != Tok::kAttrName) return Expected("kind=, entry= or exit=");
    lexer_.Next();
    bool ok = token.text == "kind"    ? ReadString(&kind)
              : token.text == "entry" ? ReadSharding(&entry)
              : token.text == "exit"
                  ? ReadSharding(&exit)
                  : Fail(DiagCode::kUnknownAttribute, token.loc,
                         absl::StrCat("a domain has no field '", token.text, "'"),
                         "one of kind entry exit");
    if (!ok) return false;
  }
  if (kind != "sharding" || entry.empty() || exit.empty()) {
    return Fail(DiagCode::kBadAttribute, lexer_.token().loc,
                "a domain is {kind=\"sharding\", entry={...}, exit={...}}");
  }
  lexer_.Next();
  *text = absl::StrCat("{kind=\"sharding\", entry=", entry, ", exit=", exit, "}");
  return true;
}

// {{0}: (1, {}), {1}: (0, {2})}
bool Reader::ReadAliasing(std::string* text) {
  if (!Expect('{', "before the aliases")) return false;
  *text = "{";
  while (!lexer_.IsPunct('}')) {
    if (text->size() > 1) {
      if (!Expect(',', "or '}' in the aliases")) return false;
      *text += ", ";
    }
    Ints output, input;
    int64_t operand = 0;
    if (!ReadShapeIndex(&output) || !Expect(':', "after the output index") ||
        !Expect('(', "before the operand") || !ReadInt(&operand, "an operand number") ||
        !Expect(',', "after the operand number") || !ReadShapeIndex(&input) ||
        !Expect(')', "after the operand index")) {
      return false;
    }
    absl::StrAppend(text, "{", absl::StrJoin(output, ","), "}: (", operand, ", {",
                    absl::StrJoin(input, ","), "})");
  }
  lexer_.Next();
  *text += "}";
  return true;
}

bool Reader::ReadBraced(std::string* text) {
  Loc loc = lexer_.token().loc;
  if (!lexer_.IsPunct('{')) return Expected("'{'");
  int64_t depth = 0;
  const char* last_end = nullptr;
  do {
    const Token& token = lexer_.token();
    if (token.kind == Tok::kError) return Expected("");
    if (token.kind == Tok::kEof) {
      return Fail(DiagCode::kSyntax, loc, "this '{' has no matching '}'");
    }
    if (lexer_.IsPunct('{')) ++depth;
    if (lexer_.IsPunct('}')) --depth;
    // One space where the source has any.
    if (last_end && token.begin > last_end) *text += ' ';
    size_t length = token.text.size();
    if (token.kind == Tok::kString) {
      std::string decoded, error;
      if (!Unescape(token.text, &decoded, &error)) {
        return Fail(DiagCode::kSyntax, token.loc, std::move(error));
      }
      *text += Quoted(decoded);
      length += 2;
    } else {
      if (*token.begin == '%') *text += '%', ++length;
      text->append(token.text.data(), token.text.size());
      if (token.kind == Tok::kAttrName) *text += '=', ++length;
      if (token.kind == Tok::kName && *token.begin != '%') *text += ':', ++length;
    }
    last_end = token.begin + length;
    lexer_.Next();
  } while (depth > 0);
  return true;
}

// sparsity=L.1@2:4 (dumps up to 2024): a word with characters that start no token.
bool Reader::ReadRaw(std::string* text) {
  absl::string_view rest = lexer_.Rest();
  size_t end = 0;
  while (end < rest.size() &&
         (absl::ascii_isalnum(rest[end]) ||
          absl::string_view("_.@:").find(rest[end]) != absl::string_view::npos)) {
    ++end;
  }
  if (end == 0) return Expected("a sparsity descriptor such as L.1@2:4");
  *text = std::string(rest.substr(0, end));
  lexer_.SkipTo(rest.data() + end);
  return true;
}

}  // namespace tpuc::hlo
