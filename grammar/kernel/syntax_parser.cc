// Parser of .tk text to syntax trees: recursive descent over kernel.ebnf, one function a rule. Here
// are files, kernels, their declarations and statements.
#include "grammar/kernel/syntax_parser.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tpuc::kernel_text {

void Parser::ParamDecl(Kernel* k) {
  do {
    Parameter p;
    p.loc = Peek().loc;
    p.name = Definition("a parameter");
    Expect("=");
    p.value = Or();
    k->parameters.push_back(std::move(p));
  } while (!failed_ && Take(","));
  Expect(";");
}

void Parser::Axes(std::vector<Axis>* axes) {
  do {
    Axis a;
    a.loc = Peek().loc;
    a.name = Definition("a grid axis");
    Expect(":");
    a.size = Or();
    if (!failed_ && Take("most")) a.most.push_back(Or());
    if (Take("parallel")) {
      a.parallel = true;
    } else {
      Take("arbitrary");
    }
    axes->push_back(std::move(a));
  } while (!failed_ && Take(","));
}

void Parser::GridDecl(Kernel* k) {
  Axes(&k->grid);
  Expect(";");
}

void Parser::Pair(absl::string_view open, absl::string_view close, std::vector<Expr>* out) {
  Expect(open);
  out->push_back(Or());
  Expect(",");
  out->push_back(Or());
  Expect(close);
}

void Parser::ArrayLine(Kernel* k) {
  Next();
  ArrayDecl a;
  a.loc = Peek().loc;
  a.name = Definition("an array");
  Expect(":");
  a.array = ParseArray();
  if (!Expect("=")) return;
  if (Peek().kind == Kind::kString) {
    a.file = Next().text;
  } else {
    ParseLiteral(&a.literal);
  }
  Expect(";");
  k->arrays.push_back(std::move(a));
}

void Parser::MaskLine(Kernel* k) {
  Next();
  MaskDecl m;
  m.loc = Peek().loc;
  m.name = Definition("a mask");
  Expect("(");
  m.row = Definition("a row");
  Expect(",");
  m.col = Definition("a column");
  Expect(")");
  Expect("over");
  Pair("[", "]", &m.extents);
  Expect("=");
  m.value = Or();
  Expect(";");
  k->masks.push_back(std::move(m));
}

void Parser::BlocksLine(Kernel* k) {
  Next();
  BlocksDecl b;
  b.loc = Peek().loc;
  b.name = Definition("blocks");
  Expect("of");
  b.mask = Name("a mask");
  Expect("by");
  Pair("(", ")", &b.sizes);
  Expect(";");
  k->blocks.push_back(std::move(b));
}

// Behind the name: a type and dimensions, or the table that the operand is.
void Parser::Contents(Operand* o) {
  if (!failed_ && Take("=")) {
    o->table = Name("a table such as B.row");
    return;
  }
  Expect(":");
  o->array = ParseArray();
}

void Parser::Present(Operand* o) {
  if (!failed_ && Take("when")) o->present.push_back(Or());
}

void Parser::PrefetchDecl(Kernel* k) {
  Next();
  do {
    Operand o;
    o.role = "prefetch";
    o.loc = Peek().loc;
    o.name = Definition("an operand");
    Contents(&o);
    Present(&o);
    k->operands.push_back(std::move(o));
  } while (!failed_ && Take(","));
  Expect(";");
}

void Parser::OperandDecl(Kernel* k) {
  Operand o;
  o.role = Next().text;
  o.loc = Peek().loc;
  o.name = Definition("an operand");
  Contents(&o);
  if (!failed_ && Take("hbm")) o.space = "hbm";
  Moves(&o);
  if (!failed_ && Take("alias")) o.alias = Name("an input");
  Present(&o);
  Expect(";");
  k->operands.push_back(std::move(o));
}

// block [..] at (..) buffers n
void Parser::Moves(Operand* operand) {
  Operand& o = *operand;
  if (!failed_ && Take("block")) {
    o.has_block = true;
    if (Expect("[")) {
      while (!failed_ && !Is("]")) {
        if (!o.block.empty() && !Expect(",")) break;
        o.block.push_back(Or());
      }
      Expect("]");
    }
  }
  if (!failed_ && Take("at")) {
    o.has_at = true;
    o.element = Take("element");
    if (Expect("(")) {
      while (!failed_ && !Is(")")) {
        if (!o.at.empty() && !Expect(",")) break;
        o.at.push_back(Or());
        o.pads.push_back(!failed_ && Take("pad") ? Or() : Expr());
      }
      Expect(")");
    }
  }
  if (!failed_ && Take("buffers")) o.buffers = Integer();
}

// pipeline k: 4, .. { in a of x block [..] at (..); .. statements }
void Parser::PipelineStatement(Statement* s) {
  Next();
  s->kind = Statement::Kind::kPipeline;
  Axes(&s->axes);
  s->blocks.emplace_back();
  if (!Expect("{")) return;
  if (++depth_ > kMaxNesting) Fail("blocks nested too deeply");
  while (!failed_ && (Is("in") || Is("out"))) {
    Operand o;
    o.role = Next().text;
    o.loc = Peek().loc;
    o.name = Definition("a window");
    Expect("of");
    o.of = Name("an array in HBM");
    Moves(&o);
    Expect(";");
    s->windows.push_back(std::move(o));
  }
  Statements(&s->blocks.back());
}

void Parser::ScratchDecl(Kernel* k) {
  Next();
  do {
    Operand o;
    o.role = "scratch";
    o.loc = Peek().loc;
    o.name = Definition("a scratch buffer");
    Expect(":");
    o.array = ParseArray();
    if (!failed_ && Take("smem")) o.space = "smem";
    if (!failed_ && o.space.empty() && Take("hbm")) o.space = "hbm";
    Present(&o);
    k->operands.push_back(std::move(o));
  } while (!failed_ && Take(","));
  Expect(";");
}

void Parser::ParseBlock(std::vector<Statement>* out) {
  if (!Expect("{")) return;
  if (++depth_ > kMaxNesting) Fail("blocks nested too deeply");
  Statements(out);
}

// The rest of a block.
void Parser::Statements(std::vector<Statement>* out) {
  while (!failed_ && !Is("}") && Peek().kind != Kind::kEnd) {
    ParseStatement(out);
    if (failed_ && depth_ <= kMaxNesting) Recover();
  }
  --depth_;
  Expect("}");
}

Expr Parser::View() {
  const Token name = Peek();
  std::vector<Expr> args;
  args.push_back(Make(Expr::Kind::kName, name.loc, Name("an operand or scratch buffer"), {}));
  if (failed_ || !Take("[")) return std::move(args[0]);
  Ranges("]", &args);
  if (args.size() == 1) Fail("expected a range such as ':' between brackets");
  return Make(Expr::Kind::kIndex, name.loc, "", std::move(args));
}

// copy a -> b on s; wait copy a -> b on s; signal s, n; wait s, n
void Parser::CopyStatement(Statement* s) {
  using StatementKind = Statement::Kind;
  const bool waits = Is("wait");
  s->kind = Is("copy") ? StatementKind::kCopy
            : waits    ? StatementKind::kWait
                       : StatementKind::kSignal;
  Next();
  if (waits && Is("copy") && Peek(1).kind == Kind::kName) {
    Next();
    s->kind = StatementKind::kWaitCopy;
  }
  s->views.push_back(View());
  if (s->kind == StatementKind::kCopy || s->kind == StatementKind::kWaitCopy) {
    Expect("->");
    s->views.push_back(View());
    Expect("on");
    s->views.push_back(View());
  } else {
    Expect(",");
    s->value = Or();
  }
  Expect(";");
}

void Parser::ParseStatement(std::vector<Statement>* out) {
  Statement s;
  s.loc = Peek().loc;
  if (Take("when")) {
    s.kind = Statement::Kind::kWhen;
    s.value = Or();
    s.blocks.emplace_back();
    ParseBlock(&s.blocks.back());
    if (!failed_ && Take("else")) {
      s.blocks.emplace_back();
      ParseBlock(&s.blocks.back());
    }
  } else if (Take("for")) {
    s.kind = Statement::Kind::kFor;
    s.name = Definition("a loop counter");
    Expect("in");
    s.value = Or();
    Expect("..");
    s.limit = Or();
    if (!failed_ && Take("unroll")) s.unroll = Peek().kind == Kind::kInteger ? Integer() : "0";
    s.blocks.emplace_back();
    ParseBlock(&s.blocks.back());
  } else if (Starts("while")) {
    Next();
    s.kind = Statement::Kind::kWhile;
    s.value = Or();
    s.blocks.emplace_back();
    ParseBlock(&s.blocks.back());
  } else if (Starts("pipeline")) {
    PipelineStatement(&s);
  } else if (Starts("copy") || Starts("signal") || Starts("wait")) {
    CopyStatement(&s);
  } else if (Take("assert")) {
    s.kind = Statement::Kind::kAssert;
    s.value = Or();
    if (!failed_ && Peek().kind != Kind::kString) {
      Fail(absl::StrCat("expected a message in quotes, found ", Found()));
    } else if (!failed_) {
      s.message = Next().text;
    }
    Expect(";");
  } else {
    const Token name = Peek();
    s.name = Definition("a value");
    if (failed_) return;
    if (Is("[")) {
      s.kind = Statement::Kind::kStore;
      std::vector<Expr> args;
      args.push_back(Make(Expr::Kind::kName, name.loc, name.text, {}));
      Next();
      Ranges("]", &args);
      if (args.size() == 1) Fail("expected a range such as ':' between brackets");
      s.target = Make(Expr::Kind::kIndex, name.loc, "", std::move(args));
      for (const char* op : {"=", "+=", "-=", "*=", "/="}) {
        if (Is(op)) s.op = op;
      }
      Expect(s.op);
    } else if (Is("(")) {
      s.kind = Statement::Kind::kCall;
      s.value = Call(name);
    } else if (!Expect("=")) {
      return;
    }
    if (s.kind != Statement::Kind::kCall) s.value = Or();
    if (!failed_ && s.kind == Statement::Kind::kStore && Take("where")) s.where.push_back(Or());
    Expect(";");
  }
  if (!failed_) out->push_back(std::move(s));
}

// These words name values too: what they declare has a name behind them.
bool Parser::Declares(absl::string_view word) const {
  return Is(word) && Peek(1).kind == Kind::kName;
}

void Parser::HeadDecl(Kernel* k) {
  if (Take("param")) return ParamDecl(k);
  if (Take("grid")) return GridDecl(k);
  if (Is("array")) return ArrayLine(k);
  if (Is("mask")) return MaskLine(k);
  BlocksLine(k);
}

void Parser::FunctionDecl(Kernel* k) {
  Next();
  Function f;
  f.loc = Peek().loc;
  f.name = Definition("a function");
  if (Expect("(")) {
    while (!failed_ && !Is(")")) {
      if (!f.parameters.empty() && !Expect(",")) break;
      f.parameters.push_back(Definition("a function's parameter"));
    }
    Expect(")");
  }
  if (Is("{")) {
    f.has_block = true;
    ParseBlock(&f.block);
  } else {
    Expect("=");
    f.value = Or();
    Expect(";");
  }
  if (!failed_) k->functions.push_back(std::move(f));
}

void Parser::OperandLine(Kernel* k) {
  if (Declares("def")) return FunctionDecl(k);
  if (Is("scratch")) return ScratchDecl(k);
  if (Is("prefetch")) return PrefetchDecl(k);
  OperandDecl(k);
}

void Parser::KernelDecl(File* file) {
  Next();
  Kernel k;
  k.loc = Peek().loc;
  k.name = Id("the kernel's name");
  if (!Expect("{")) return;
  // Declarations stand before statements: parameters and grid, operands, body.
  int stage = 0;
  while (!Is("}") && Peek().kind != Kind::kEnd) {
    const bool head =
        Is("param") || Is("grid") || Declares("array") || Declares("mask") || Declares("blocks");
    const bool operand =
        Is("in") || Is("out") || Is("scratch") || Declares("prefetch") || Declares("def");
    if ((head && stage > 0) || (operand && stage > 1)) {
      Fail(absl::StrCat(Found(), head ? " must stand before operands and statements"
                                      : " must stand before statements"));
    } else if (head) {
      HeadDecl(&k);
    } else if (operand) {
      stage = 1;
      OperandLine(&k);
    } else if (Is("setup") && Peek(1).kind == Kind::kPunct && Peek(1).text == "{") {
      if (stage == 2 || !k.setup.empty()) Fail("setup stands once, before statements");
      stage = 2;
      Next();
      ParseBlock(&k.setup);
    } else {
      if (!Is("assert")) stage = 2;
      ParseStatement(&k.statements);
    }
    if (failed_) Recover();
  }
  Expect("}");
  file->kernels.push_back(std::move(k));
}

std::unique_ptr<File> Parser::ParseFile() {
  auto file = std::make_unique<File>();
  while (Peek().kind != Kind::kEnd) {
    if (Is("kernel")) {
      KernelDecl(file.get());
    } else if (Is("program")) {
      ProgramDecl(file.get());
    } else {
      Fail(absl::StrCat("expected 'kernel' or 'program', found ", Found()));
    }
    if (failed_) {
      failed_ = false;
      any_failed_ = true;
      while (Peek().kind != Kind::kEnd && !Is("kernel") && !Is("program")) Next();
    }
  }
  if (any_failed_ || diags_->errors() > errors_before_) return nullptr;
  return file;
}

std::optional<Expr> Parser::ParseOneExpression() {
  Expr e = Or();
  if (!failed_ && Peek().kind != Kind::kEnd)
    Fail(absl::StrCat("expected the end, found ", Found()));
  if (failed_ || diags_->errors() > errors_before_) return std::nullopt;
  return e;
}

std::optional<Expr> ParseExpression(std::shared_ptr<const Source> source, DiagSink* diags) {
  return Parser(std::move(source), diags).ParseOneExpression();
}

std::unique_ptr<File> ParseSyntax(std::shared_ptr<const Source> source, DiagSink* diags) {
  return Parser(std::move(source), diags).ParseFile();
}

}  // namespace tpuc::kernel_text
