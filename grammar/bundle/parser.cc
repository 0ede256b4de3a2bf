// One statement a line; a table of statements for what bundles and LLO share, then functions.
#include "grammar/bundle/parser.h"

#include <algorithm>
#include <limits>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "grammar/bundle/inst_text.h"
#include "grammar/bundle/lexer.h"

namespace tpuc::bundle {
namespace {

constexpr int64_t kMaxInt = int64_t{1} << 48;

class ProgramParser {
 public:
  ProgramParser(std::shared_ptr<const Source> source, DiagSink* diags)
      : lexer_(std::move(source)), diags_(diags) {}

  bool ParseBundleProgram(isa::Program* program);
  bool ParseLloProgram(llo::Program* program);

 private:
  bool Fail(const Token& at, std::string message) {
    diags_->Add(DiagCode::kBundleSyntax, lexer_.source(), at.loc, std::move(message));
    return false;
  }
  bool IsWord(absl::string_view word) const {
    return lexer_.Peek().kind == TokenKind::kWord && lexer_.Peek().text == word;
  }
  bool IsPunct(char c) const {
    return lexer_.Peek().kind == TokenKind::kPunct && lexer_.Peek().text[0] == c;
  }
  void SkipLineEnds() {
    while (lexer_.Peek().kind == TokenKind::kLineEnd) lexer_.Next();
  }
  bool LineEnd() {
    if (lexer_.Peek().kind == TokenKind::kEnd) return true;
    Token t = lexer_.Next();
    return t.kind == TokenKind::kLineEnd || Fail(t, "expected the end of the line");
  }
  bool Punct(char c) {
    Token t = lexer_.Next();
    return (t.kind == TokenKind::kPunct && t.text[0] == c) ||
           Fail(t, absl::StrCat("expected '", std::string(1, c), "'"));
  }
  bool String(std::string* text) {
    Token t = lexer_.Next();
    return (t.kind == TokenKind::kString && Unquote(t.text, text)) || Fail(t, "expected a string");
  }
  bool Number(int64_t* value) {
    Token t = lexer_.Next();
    return (t.kind == TokenKind::kNumber && ParseInt(t.text, value) && *value >= -kMaxInt &&
            *value <= kMaxInt) ||
           Fail(t, "expected a number");
  }
  // `name=NUMBER`; T is narrowed with a range check.
  template <typename T>
  bool Field(absl::string_view name, T* value) {
    Token t = lexer_.Next();
    if (t.kind != TokenKind::kWord || t.text != name) {
      return Fail(t, absl::StrCat("expected ", std::string(name), "="));
    }
    int64_t n;
    Token at = t;
    if (!Punct('=') || !Number(&n)) return false;
    if (n < static_cast<int64_t>(std::numeric_limits<T>::min()) ||
        n > static_cast<int64_t>(std::numeric_limits<T>::max())) {
      return Fail(at, "number out of range");
    }
    *value = static_cast<T>(n);
    return true;
  }
  bool Flag(absl::string_view name, bool* value) {
    int32_t n;
    if (!Field(name, &n)) return false;
    *value = n != 0;
    return true;
  }
  bool MemoryName(isa::Memory* memory);
  bool Header(absl::string_view magic);
  bool ShellStatement(isa::Program* program, bool* known);
  bool ParsePort(isa::Port* port);
  bool ParseConstant(isa::Constant* constant);
  bool ParseChip(isa::Program* program);
  bool InfoStatement(isa::KernelInfo* info, bool* known);
  bool ParseBundleFunction(isa::Function* function);
  bool ParseBundle(isa::Bundle* bundle, size_t number);
  bool ParseLloFunction(llo::Function* function);
  bool LloStatement(llo::Function* function);

  Lexer lexer_;
  DiagSink* diags_;
};

bool ProgramParser::MemoryName(isa::Memory* memory) {
  Token t = lexer_.Next();
  if (t.text == "hbm")
    *memory = isa::Memory::kHbm;
  else if (t.text == "vmem")
    *memory = isa::Memory::kVmem;
  else if (t.text == "smem")
    *memory = isa::Memory::kSmem;
  else if (t.text == "sync")
    *memory = isa::Memory::kSync;
  else
    return Fail(t, "expected hbm, vmem, smem or sync");
  return true;
}

bool ProgramParser::Header(absl::string_view magic) {
  SkipLineEnds();
  Token t = lexer_.Next();
  if (t.text != magic) return Fail(t, absl::StrCat("expected ", std::string(magic)));
  int64_t version;
  if (!Number(&version)) return false;
  if (version != 1) return Fail(t, absl::StrCat("version ", version, " is not known here"));
  return LineEnd();
}

bool ProgramParser::ParsePort(isa::Port* port) {
  if (!String(&port->name) || !String(&port->shape) || !Field("buffer", &port->buffer))
    return false;
  return !IsWord("alias") || Field("alias", &port->alias);
}

bool ProgramParser::ParseConstant(isa::Constant* c) {
  if (!Field("buffer", &c->buffer)) return false;
  Token kind = lexer_.Next();
  if (kind.text == "splat" || kind.text == "iota") {
    c->kind = kind.text == "splat" ? isa::Constant::Kind::kSplat : isa::Constant::Kind::kIota;
    int64_t n;
    if (!Number(&n)) return false;
    c->splat = static_cast<uint32_t>(n);
    return true;
  }
  if (kind.text != "data") return Fail(kind, "expected splat, iota or data");
  c->kind = isa::Constant::Kind::kData;
  Token open = lexer_.Peek();
  std::string raw, bytes;
  if (!IsPunct('{')) return Fail(open, "expected '{'");
  lexer_.Next();
  if (lexer_.Peek().kind != TokenKind::kLineEnd || !lexer_.RawBlock("}", &raw)) {
    return Fail(open, "expected base64 lines and a line '}'");
  }
  absl::StrReplaceAll({{"\n", ""}, {"\r", ""}}, &raw);
  if (!absl::Base64Unescape(raw, &bytes)) return Fail(open, "this is not base64");
  c->data.assign(bytes.begin(), bytes.end());
  return true;
}

bool ProgramParser::ParseChip(isa::Program* program) {
  if (!String(&program->chip_name)) return false;
  Token open = lexer_.Peek();
  for (int i = 0; i < 3; ++i) {
    if (!IsPunct('{')) return Fail(lexer_.Peek(), "expected '{{{'");
    lexer_.Next();
  }
  if (lexer_.Peek().kind != TokenKind::kLineEnd || !lexer_.RawBlock("}}}", &program->chip_text)) {
    return Fail(open, "expected the chip's text and a line '}}}'");
  }
  return true;
}

bool ProgramParser::ShellStatement(isa::Program* p, bool* known) {
  *known = true;
  Token word = lexer_.Peek();
  auto is = [&](absl::string_view w) {
    if (!IsWord(w)) return false;
    lexer_.Next();
    return true;
  };
  if (is("module")) return String(&p->module) && LineEnd();
  if (is("options")) return String(&p->options) && LineEnd();
  if (is("chip")) return ParseChip(p) && LineEnd();
  if (is("buffer")) {
    isa::Buffer b;
    if (!String(&b.name) || !MemoryName(&b.memory) || !Field("at", &b.offset) ||
        !Field("bytes", &b.bytes)) {
      return false;
    }
    Token t = lexer_.Next();
    if (t.text != "shape") return Fail(t, "expected shape=");
    if (!Punct('=') || !String(&b.shape) || !Field("from", &b.from) || !Field("to", &b.to)) {
      return false;
    }
    p->buffers.push_back(std::move(b));
    return LineEnd();
  }
  if (is("input")) return ParsePort(&p->inputs.emplace_back()) && LineEnd();
  if (is("output")) return ParsePort(&p->outputs.emplace_back()) && LineEnd();
  if (is("constant")) return ParseConstant(&p->constants.emplace_back()) && LineEnd();
  if (is("copy")) {
    isa::Copy& c = p->copies.emplace_back();
    return String(&c.name) && Field("bytes", &c.bytes) && Flag("cross_program", &c.cross_program) &&
           Field("start", &c.start) && Field("done", &c.done) && LineEnd();
  }
  if (is("source")) {
    int64_t number;
    isa::SourceEntry& s = p->sources.emplace_back();
    if (!Number(&number)) return false;
    if (number != static_cast<int64_t>(p->sources.size()) - 1) {
      return Fail(word, "source rows are numbered 0, 1, 2 ... in order");
    }
    return String(&s.hlo) && String(&s.op_name) && String(&s.place) && LineEnd();
  }
  *known = false;
  return true;
}

bool ProgramParser::InfoStatement(isa::KernelInfo* i, bool* known) {
  *known = true;
  auto strings = [&](std::vector<std::string>* list) {
    while (lexer_.Peek().kind == TokenKind::kString) {
      if (!String(&list->emplace_back())) return false;
    }
    return LineEnd();
  };
  if (IsWord("op_names")) {
    lexer_.Next();
    return strings(&i->op_names);
  }
  if (IsWord("ops")) {
    lexer_.Next();
    return strings(&i->ops);
  }
  if (IsWord("info")) {
    lexer_.Next();
    return Field("grid_steps", &i->grid_steps) && Field("schedule_cycles", &i->schedule_cycles) &&
           Field("spills", &i->spills) && Field("fills", &i->fills) &&
           Field("temp_loads", &i->temp_loads) && Field("temp_stores", &i->temp_stores) &&
           Field("max_live_vregs", &i->max_live_vregs) && Field("vmem_bytes", &i->vmem_bytes) &&
           Field("flops", &i->flops) &&
           (!IsWord("hbm_read_bytes") || (Field("hbm_read_bytes", &i->hbm_read_bytes) &&
                                          Field("hbm_written_bytes", &i->hbm_written_bytes))) &&
           LineEnd();
  }
  if (IsWord("loop")) {
    lexer_.Next();
    isa::LoopInfo& l = i->loops.emplace_back();
    if (!Field("first", &l.first_bundle) || !Field("last", &l.last_bundle) ||
        !Field("trips", &l.trips) || !Field("mii", &l.mii) || !Field("ii", &l.ii) ||
        !Field("stages", &l.stages)) {
      return false;
    }
    if (IsWord("bound")) {
      lexer_.Next();
      if (!String(&l.bound)) return false;
    }
    return LineEnd();
  }
  if (IsWord("dot")) {
    lexer_.Next();
    isa::DotInfo& d = i->dots.emplace_back();
    return Field("source", &d.source) && Field("m", &d.m) && Field("k", &d.k) && Field("n", &d.n) &&
           Field("k_padded", &d.k_padded) && Field("n_padded", &d.n_padded) && LineEnd();
  }
  if (IsWord("grid")) {
    lexer_.Next();
    if (!Field("at", &i->grid.first_bundle)) return false;
    i->grid.axes.clear();
    i->grid.extents.clear();
    while (lexer_.Peek().kind == TokenKind::kString) {
      i->grid.extents.emplace_back();
      if (!String(&i->grid.axes.emplace_back()) || !Field("extent", &i->grid.extents.back())) {
        return false;
      }
    }
    return LineEnd();
  }
  if (IsWord("local")) {
    lexer_.Next();
    isa::Local& l = i->locals.emplace_back();
    return String(&l.name) && MemoryName(&l.memory) && Field("at", &l.offset) &&
           Field("size", &l.size) && Flag("semaphore", &l.semaphore) && LineEnd();
  }
  *known = false;
  return true;
}

bool ProgramParser::ParseBundle(isa::Bundle* bundle, size_t number) {
  int64_t n;
  Token at = lexer_.Peek();
  if (!Number(&n)) return false;
  if (n != static_cast<int64_t>(number)) {
    return Fail(at, absl::StrCat("expected bundle ", number, "; bundles are numbered in order"));
  }
  if (!Punct(':') || !Punct('{')) return false;
  while (!IsPunct('}')) {
    isa::Inst inst;
    if (!ParseInst(&lexer_, RegisterForm::kPhysical, &inst, diags_)) return false;
    bundle->insts.push_back(std::move(inst));
    if (IsPunct(';')) {
      lexer_.Next();
      if (!Punct(';')) return false;
    } else if (!IsPunct('}')) {
      return Fail(lexer_.Peek(), "expected ';;' or '}'");
    }
  }
  lexer_.Next();
  return LineEnd();
}

bool ProgramParser::ParseBundleFunction(isa::Function* f) {
  if (!String(&f->name) || !Field("args", &f->args) || !Punct('{') || !LineEnd()) return false;
  while (true) {
    SkipLineEnds();
    if (IsPunct('}')) break;
    bool known;
    if (!InfoStatement(&f->info, &known)) return false;
    if (known) continue;
    size_t number = f->bundles.size();
    if (!ParseBundle(&f->bundles.emplace_back(), number)) return false;
  }
  lexer_.Next();
  return LineEnd();
}

bool ProgramParser::LloStatement(llo::Function* f) {
  Token word = lexer_.Peek();
  if (IsWord("allocation")) {
    lexer_.Next();
    llo::Allocation& a = f->allocations.emplace_back();
    return String(&a.name) && MemoryName(&a.memory) && Field("at", &a.offset) &&
           Field("size", &a.size) && LineEnd();
  }
  if (IsWord("blocks")) {
    lexer_.Next();
    llo::Loop& l = f->loops.emplace_back();
    return Field("first", &l.first) && Field("last", &l.last) && Field("trips", &l.trips) &&
           Flag("grid", &l.is_grid) && (!IsWord("latch") || Flag("latch", &l.latch)) && LineEnd();
  }
  if (IsWord("block")) {
    lexer_.Next();
    int64_t number;
    llo::Block& b = f->blocks.emplace_back();
    if (!Number(&number)) return false;
    if (number != static_cast<int64_t>(f->blocks.size()) - 1) {
      return Fail(word, "blocks are numbered 0, 1, 2 ... in order");
    }
    return String(&b.label) && Field("trips", &b.trips) && Flag("grid", &b.in_grid_loop) &&
           LineEnd();
  }
  if (f->blocks.empty()) return Fail(word, "expected a block");
  isa::Inst inst;
  if (!ParseInst(&lexer_, RegisterForm::kVirtual, &inst, diags_)) return false;
  auto count = [&](isa::Reg r) {
    if (r.valid()) {
      int& next = f->registers[static_cast<int>(r.cls)];
      next = std::max(next, r.id + 1);
    }
  };
  count(inst.dest);
  count(inst.pred);
  count(inst.mem.base.reg);
  for (const isa::Operand& o : inst.src) count(o.reg);
  f->blocks.back().insts.push_back(std::move(inst));
  return LineEnd();
}

bool ProgramParser::ParseLloFunction(llo::Function* f) {
  if (!String(&f->name) || !Field("args", &f->args) || !Field("steps", &f->grid_steps) ||
      !Punct('{') || !LineEnd()) {
    return false;
  }
  if (f->args < 0 || f->args > 1'000'000) return Fail(lexer_.Peek(), "args out of range");
  f->registers[static_cast<int>(isa::RegClass::kScalar)] = f->args;
  while (true) {
    SkipLineEnds();
    if (IsPunct('}')) break;
    if (lexer_.Peek().kind == TokenKind::kEnd) return Fail(lexer_.Peek(), "expected '}'");
    bool known;
    if (!InfoStatement(&f->info, &known)) return false;
    if (!known && !LloStatement(f)) return false;
  }
  lexer_.Next();
  int blocks = static_cast<int>(f->blocks.size());
  for (const llo::Block& b : f->blocks) {
    for (const isa::Inst& i : b.insts) {
      if (i.op == isa::Opcode::kSbr && i.target >= blocks) {
        return Fail(lexer_.Peek(), absl::StrCat("branch to block ", i.target, " of ", blocks));
      }
    }
  }
  for (const llo::Loop& l : f->loops) {
    if (l.first < 0 || l.last < l.first || l.last >= blocks) {
      return Fail(lexer_.Peek(), "loop names blocks that are not there");
    }
  }
  return LineEnd();
}

bool ProgramParser::ParseBundleProgram(isa::Program* program) {
  if (!Header("tpuc.bundles")) return false;
  bool has_tlp = false;
  while (true) {
    SkipLineEnds();
    Token word = lexer_.Peek();
    if (word.kind == TokenKind::kEnd) break;
    bool known;
    if (!ShellStatement(program, &known)) return false;
    if (known) continue;
    if (IsWord("kernel")) {
      lexer_.Next();
      int64_t number;
      if (!Number(&number)) return false;
      if (number != static_cast<int64_t>(program->kernels.size())) {
        return Fail(word, "kernels are numbered 0, 1, 2 ... in order");
      }
      if (!ParseBundleFunction(&program->kernels.emplace_back())) return false;
    } else if (IsWord("tlp") && !has_tlp) {
      lexer_.Next();
      has_tlp = true;
      if (!ParseBundleFunction(&program->tlp)) return false;
    } else {
      return Fail(word,
                  "expected a statement: module, options, chip, buffer, input, output, "
                  "constant, copy, source, kernel or tlp");
    }
  }
  return has_tlp || Fail(lexer_.Peek(), "the program has no tlp");
}

bool ProgramParser::ParseLloProgram(llo::Program* program) {
  if (!Header("tpuc.llo")) return false;
  std::vector<llo::Function> functions;
  while (true) {
    SkipLineEnds();
    Token word = lexer_.Peek();
    if (word.kind == TokenKind::kEnd) break;
    bool known;
    if (!ShellStatement(&program->shell, &known)) return false;
    if (known) continue;
    if (!IsWord("llo")) return Fail(word, "expected a statement or an llo function");
    lexer_.Next();
    if (!ParseLloFunction(&functions.emplace_back())) return false;
  }
  if (functions.empty()) return Fail(lexer_.Peek(), "the program has no function");
  program->tlp = std::move(functions.back());
  functions.pop_back();
  program->kernels = std::move(functions);
  return true;
}

}  // namespace

bool LooksLikeBundles(absl::string_view text) { return absl::StartsWith(text, "tpuc.bundles"); }
bool LooksLikeLlo(absl::string_view text) { return absl::StartsWith(text, "tpuc.llo"); }

std::unique_ptr<isa::Program> ParseBundles(std::shared_ptr<const Source> source, DiagSink* diags) {
  auto program = std::make_unique<isa::Program>();
  if (!ProgramParser(std::move(source), diags).ParseBundleProgram(program.get())) return nullptr;
  return program;
}

std::unique_ptr<llo::Program> ParseLlo(std::shared_ptr<const Source> source, DiagSink* diags) {
  auto program = std::make_unique<llo::Program>();
  if (!ProgramParser(std::move(source), diags).ParseLloProgram(program.get())) return nullptr;
  return program;
}

}  // namespace tpuc::bundle
