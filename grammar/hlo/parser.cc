// The text as a whole: module, bare computations or a single instruction; computations; errors and
// recovery (parser.h, reader.h).
#include "grammar/hlo/parser.h"

#include <pthread.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/ascii.h"
#include "grammar/hlo/reader.h"
#include "src/diag/check.h"
#include "src/ir/tiling.h"

namespace tpuc {

std::unique_ptr<Module> ParseHlo(std::shared_ptr<const Source> source, DiagSink* diags) {
  return hlo::Reader(std::move(source), diags).ReadText();
}

bool ParseShapeText(absl::string_view text, Shape* shape) {
  DiagSink diags;
  hlo::Reader reader(std::make_shared<Source>(Source{"", std::string(text)}), &diags);
  return reader.ReadShape(shape) && reader.lexer().token().kind == hlo::Tok::kEof &&
         LayoutProblem(*shape).empty();
}

std::vector<std::shared_ptr<const Source>> SplitModules(std::shared_ptr<const Source> source) {
  constexpr absl::string_view kMarker = "// -----";
  std::vector<std::shared_ptr<const Source>> parts;
  absl::string_view text = source->text;
  size_t begin = 0, lines = 0, part_lines = 0;
  auto add = [&](size_t end) {
    absl::string_view part = text.substr(begin, end - begin);
    // A part of comments and space alone is none.
    hlo::Lexer lexer(part);
    if (lexer.token().kind == hlo::Tok::kEof) return;
    parts.push_back(std::make_shared<Source>(
        Source{source->name, std::string(part_lines, '\n') + std::string(part)}));
  };
  for (size_t at = 0; at < text.size(); ++lines) {
    size_t newline = text.find('\n', at);
    size_t next = newline == absl::string_view::npos ? text.size() : newline + 1;
    absl::string_view line = absl::StripTrailingAsciiWhitespace(text.substr(at, next - at));
    if (line == kMarker) {
      add(at);
      begin = next;
      part_lines = lines + 1;
    }
    at = next;
  }
  if (begin == 0) return {source};
  add(text.size());
  return parts;
}

namespace hlo {

std::string Describe(const Token& token) {
  // Words and strings may be long.
  auto cut = [](absl::string_view text) {
    return text.size() <= 40 ? std::string(text) : absl::StrCat(text.substr(0, 37), "...");
  };
  switch (token.kind) {
    case Tok::kEof:
      return "the end of the text";
    case Tok::kError:
      return std::string(token.text);
    case Tok::kAttrName:
      return absl::StrCat("'", cut(token.text), "='");
    case Tok::kString:
      return absl::StrCat("string \"", cut(token.text), "\"");
    case Tok::kPunct:
      return absl::StrCat("'", absl::string_view(&token.punct, 1), "'");
    default:
      return absl::StrCat("'", cut(token.text), "'");
  }
}

std::string Nearest(absl::string_view word, const std::vector<std::string>& known) {
  return word.size() < 3 ? "" : NearestName(word, known);
}

Reader::Reader(std::shared_ptr<const Source> source, DiagSink* diags)
    : source_(std::move(source)),
      diags_(diags),
      errors_before_(diags->errors()),
      lexer_(source_->text) {
  module_ = std::make_unique<Module>();
  module_->source = source_;
}

bool Reader::Fail(DiagCode code, Loc loc, std::string message, std::string hint) {
  failed_ = true;
  Diag& diag = diags_->Add(code, source_, loc, std::move(message));
  diag.hint = std::move(hint);
  last_ = &diag;
  return false;
}

bool Reader::Note(Loc loc, std::string message) {
  last_->notes.push_back({loc, std::move(message)});
  return false;
}

bool Reader::Expected(absl::string_view what) {
  const Token& token = lexer_.token();
  if (token.kind == Tok::kError) return Fail(DiagCode::kSyntax, token.loc, std::string(token.text));
  return Fail(DiagCode::kSyntax, token.loc,
              absl::StrCat("expected ", what, ", found ", Describe(token)));
}

bool Reader::Accept(char punct) {
  if (!lexer_.IsPunct(punct)) return false;
  lexer_.Next();
  return true;
}

bool Reader::Expect(char punct, absl::string_view where) {
  if (Accept(punct)) return true;
  return Expected(absl::StrCat("'", absl::string_view(&punct, 1), "' ", where));
}

bool Reader::Deeper(absl::FunctionRef<bool()> read) {
  if (depth_ >= kMaxDepth) {
    return Fail(DiagCode::kTooDeep, lexer_.token().loc,
                absl::StrCat("nested deeper than ", kMaxDepth, " levels"));
  }
  ++depth_;
  bool ok = false;
  // Every 128 levels go on a fresh stack, so that the depth is bounded by kMaxDepth alone.
  if (depth_ % 128 != 0) {
    ok = read();
  } else {
    struct Call {
      absl::FunctionRef<bool()> read;
      bool ok = false;
    } call{read};
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 8 << 20);
    int error = pthread_create(
        &thread, &attributes,
        [](void* p) -> void* {
          Call* c = static_cast<Call*>(p);
          c->ok = c->read();
          return nullptr;
        },
        &call);
    pthread_attr_destroy(&attributes);
    if (error) return Fail(DiagCode::kTooDeep, lexer_.token().loc, "no memory for a deeper stack");
    pthread_join(thread, nullptr);
    ok = call.ok;
  }
  --depth_;
  return ok;
}

bool Reader::LooksLikeMlir() const {
  absl::string_view text = lexer_.Rest();
  for (absl::string_view start :
       {"#loc", "#map", "#sdy", "module", "func.func", "stablehlo", "mhlo", "builtin.module",
        "sdy.", "\"builtin.module\"", "ML\xefR"}) {
    if (text.substr(0, start.size()) != start) continue;
    if (start != "module") return true;
    // "module {", "module @jit_f attributes ..."; "module = f32[] ..." is an instruction.
    text.remove_prefix(start.size());
    while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
    return absl::string_view(text).substr(0, 1) == "@" || text.find("func.func") < 4096 ||
           text.substr(0, 10) == "attributes";
  }
  return false;
}

std::unique_ptr<Module> Reader::ReadText() {
  if (LooksLikeMlir()) {
    Fail(DiagCode::kNotHlo, lexer_.token().loc, "this is MLIR (StableHLO), not HLO text",
         "jax.jit(f).lower(x).as_text(dialect=\"hlo\") prints HLO");
    return nullptr;
  }
  absl::string_view text = source_->text;
  if (memchr(text.data(), 0, std::min<size_t>(text.size(), 4096))) {
    Fail(DiagCode::kNotHlo, lexer_.token().loc, "this is a binary file, not HLO text",
         "HLO text begins with 'HloModule'; a serialized HloModuleProto cannot be read");
    return nullptr;
  }
  const Token& first = lexer_.token();
  bool ok;
  if (first.kind == Tok::kEof) {
    ok = Fail(DiagCode::kSyntax, first.loc, "expected a module, found nothing: the text is empty");
  } else if (first.keyword == Keyword::kHloModule || first.keyword == Keyword::kEntry ||
             lexer_.PeekChar() == '{') {
    ok = ReadModule();
  } else {
    ok = ReadSingleInstruction();
  }
  if (!ok || failed_) return nullptr;
  NameInlineComputations();
  return std::move(module_);
}

bool Reader::ReadModule() {
  module_->has_header = lexer_.token().keyword == Keyword::kHloModule;
  if (module_->has_header && !ReadHeader()) return false;
  if (lexer_.token().keyword == Keyword::kFileNames && !ReadFrameTables()) return false;
  do {
    if (!ReadComputation()) return false;
    if (TooManyErrors()) return false;
  } while (lexer_.token().kind != Tok::kEof);
  if (failed_) return false;
  if (!module_->entry) module_->entry = module_->computations.back().get();
  if (!module_->has_header) module_->name = absl::StrCat("module_", module_->entry->name);
  return true;
}

bool Reader::ReadSingleInstruction() {
  auto computation = std::make_unique<Computation>();
  computation->module = module_.get();
  computation->name = "entry";
  computation->loc = lexer_.token().loc;
  Scope scope;
  scope.computation = computation.get();
  scope.implicit_parameters = true;
  module_->has_header = false;
  if (AtShape()) {
    Loc loc = lexer_.token().loc;
    scope.root = ReadRhs(&scope, "root", loc, false);
    if (!scope.root) return false;
  } else if (!ReadInstruction(&scope)) {
    return false;
  }
  if (lexer_.token().kind != Tok::kEof) {
    const Token& token = lexer_.token();
    if (token.kind == Tok::kError) return Expected("");
    return Fail(
        DiagCode::kSyntax, token.loc,
        absl::StrCat("expected nothing after a single instruction, found ", Describe(token)),
        "a text of several instructions needs 'HloModule NAME' and 'ENTRY NAME { ... }'");
  }
  if (!FinishComputation(&scope, computation->loc)) return false;
  module_->name = absl::StrCat("module_", scope.root->name);
  module_->entry = computation.get();
  module_->computations.push_back(std::move(computation));
  return true;
}

bool Reader::ReadSignature(Shape* result) {
  if (!Expect('(', "before the parameters")) return false;
  // Parameters are for people: the `parameter` instructions are what counts.
  while (!lexer_.IsPunct(')')) {
    Tok kind = lexer_.token().kind;
    if (kind != Tok::kName && kind != Tok::kIdent) return Expected("a parameter name");
    lexer_.Next();
    Shape ignored;
    if (!ReadShape(&ignored)) return false;
    if (!Accept(',')) break;
    if (lexer_.IsPunct(')')) return Expected("a parameter name");
  }
  if (!Expect(')', "after the parameters")) return false;
  if (lexer_.token().kind != Tok::kArrow) return Expected("'->' and the result shape");
  lexer_.Next();
  return ReadShape(result);
}

bool Reader::ReadComputation() {
  bool is_entry = lexer_.token().keyword == Keyword::kEntry;
  Loc entry_loc = lexer_.token().loc;
  if (is_entry) lexer_.Next();
  const Token name_token = lexer_.token();
  if (name_token.kind != Tok::kName && name_token.kind != Tok::kIdent) {
    return Expected(is_entry || module_->computations.empty() ? "a computation name"
                                                              : "'ENTRY' or a computation name");
  }
  if (is_entry && module_->entry) {
    Fail(DiagCode::kRootOrEntry, entry_loc, "second ENTRY computation; a module has one");
    Note(module_->entry->loc, absl::StrCat("the first is '", module_->entry->name, "'"));
    return false;
  }
  lexer_.Next();
  auto computation = std::make_unique<Computation>();
  computation->name = std::string(name_token.text);
  computation->module = module_.get();
  computation->loc = name_token.loc;
  Shape result;
  bool has_signature = lexer_.IsPunct('(');
  Loc result_loc = lexer_.token().loc;
  if (has_signature && !ReadSignature(&result)) return false;
  Scope scope;
  scope.computation = computation.get();
  bool ok = ReadBody(&scope);
  if (!ok && lexer_.token().kind == Tok::kEof) return false;
  auto [at, fresh] = computations_.try_emplace(name_token.text, ok ? computation.get() : nullptr);
  if (!fresh) {
    Fail(DiagCode::kDuplicateName, name_token.loc,
         absl::StrCat("computation '", name_token.text, "' is already defined"));
    if (at->second) Note(at->second->loc, "it was defined here");
    ok = false;
  }
  while (Accept(',')) {
    if (lexer_.token().kind != Tok::kAttrName || lexer_.token().text != "execution_thread") {
      return Expected("execution_thread=\"NAME\" after the computation");
    }
    lexer_.Next();
    if (!ReadString(&computation->execution_thread)) return false;
    if (computation->execution_thread == "main") computation->execution_thread.clear();
  }
  if (ok && has_signature && !Compatible(result, scope.root->shape)) {
    Fail(DiagCode::kRootOrEntry, result_loc,
         absl::StrCat("computation '", computation->name, "' says it yields ",
                      ToString(result, false), ", but its root '", scope.root->name, "' is ",
                      ToString(scope.root->shape, false)));
  }
  if (is_entry) module_->entry = computation.get();
  module_->computations.push_back(std::move(computation));
  return true;
}

// Makes room for as many instructions as the computation has lines, so that the names in use are
// not hashed again (each a cache miss) as their table grows.
void Reader::ReserveLines(Scope* scope) {
  const char* begin = lexer_.token().begin;
  if (begin < lines_counted_) return;  // within a body that is counted: the scans stay linear
  const absl::string_view rest = lexer_.Rest();
  size_t lines = 1, at = 0;
  while ((at = rest.find('\n', at)) != absl::string_view::npos) {
    if (++at < rest.size() && rest[at] == '}') break;
    ++lines;
  }
  lines_counted_ = begin + std::min(at, rest.size());
  constexpr size_t kLeastBytes = 16;  // of a line with an instruction
  lines = std::min(lines, static_cast<size_t>(lines_counted_ - begin) / kLeastBytes);
  scope->names.Reserve(lines);
  scope->computation->instructions.reserve(lines);
}

bool Reader::ReadBody(Scope* scope) {
  Loc loc = lexer_.token().loc;
  if (!Expect('{', "before the instructions")) return false;
  bool ok = true;
  if (lexer_.IsPunct('}')) {
    Expected("an instruction");
    lexer_.Next();
    return false;
  }
  ReserveLines(scope);
  while (!lexer_.IsPunct('}')) {
    if (lexer_.token().kind == Tok::kEof) {
      Fail(DiagCode::kSyntax, lexer_.token().loc,
           absl::StrCat("the text ends inside computation '", scope->computation->name, "'"));
      return Note(loc, "it begins here");
    }
    const char* begin = lexer_.token().begin;
    if (ReadInstruction(scope)) continue;
    ok = false;
    if (TooManyErrors()) return false;
    Recover(begin);
    if (lexer_.token().kind == Tok::kEof) return false;
  }
  lexer_.Next();
  return ok && FinishComputation(scope, loc);
}

bool Reader::FinishComputation(Scope* scope, Loc loc) {
  Computation* computation = scope->computation;
  if (!scope->root) scope->root = computation->instructions.back().get();
  computation->root = scope->root;
  return CheckParameters(*scope, loc);
}

bool Reader::CheckParameters(const Scope& scope, Loc loc) {
  if (scope.parameters == 0) return true;
  std::vector<const Instruction*> by_number(scope.parameters);
  for (const auto& instruction : scope.computation->instructions) {
    if (instruction->op != Op::kParameter) continue;
    int64_t number = instruction->parameter_number;
    if (number >= scope.parameters) {
      return Fail(DiagCode::kBadParameter, instruction->loc,
                  absl::StrCat("parameter ", number, " of ", scope.parameters,
                               ": numbers run from 0 without gaps"));
    }
    if (by_number[number]) {
      return Fail(
          DiagCode::kBadParameter, instruction->loc,
          absl::StrCat("parameter ", number, " is already '", by_number[number]->name, "'"));
    }
    by_number[number] = instruction.get();
  }
  return true;
}

void Reader::NameInlineComputations() {
  if (made_.empty()) return;
  NameTable names;
  absl::flat_hash_map<const Computation*, bool> made;
  for (Computation* computation : made_) made[computation] = true;
  for (const auto& computation : module_->computations) {
    if (!made.contains(computation.get())) names.Take(computation->name);
  }
  for (Computation* computation : made_) computation->name = names.Unique(computation->name);
}

void Reader::Recover(const char* failed) {
  const char* text = source_->text.data();
  const char* end = text + source_->text.size();
  // Text nested too deeply has no next instruction worth looking for.
  if (diags_->diags().back().code == DiagCode::kTooDeep) return lexer_.SkipTo(end);
  auto blank = [&](const char* q) {
    while (q < end && (*q == ' ' || *q == '\t')) ++q;
    return q;
  };
  auto word = [&](const char* q) {
    while (q < end && (isalnum(static_cast<unsigned char>(*q)) || (*q && strchr("_.-%", *q)))) ++q;
    return q;
  };
  auto begins_instruction = [&](const char* line) {
    const char* q = blank(line);
    if (q < end && *q == '}') return true;
    const char* e = word(q);
    if (absl::string_view(q, static_cast<size_t>(e - q)) == "ROOT") e = word(q = blank(e));
    if (e == q) return false;
    e = blank(e);
    return e < end && *e == '=';
  };
  // The token that did not fit is often the first of the next instruction.
  const char* p = lexer_.token().begin;
  const char* line = p;
  while (line > text && (line[-1] == ' ' || line[-1] == '\t')) --line;
  if (p > failed && line > text && line[-1] == '\n' && begins_instruction(line)) {
    return lexer_.SkipTo(p);
  }
  do {
    p = static_cast<const char*>(memchr(p, '\n', static_cast<size_t>(end - p)));
    if (!p) return lexer_.SkipTo(end);
  } while (!begins_instruction(++p));
  lexer_.SkipTo(p);
}

}  // namespace hlo
}  // namespace tpuc
