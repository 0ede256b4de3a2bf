// The parser of .tk text (syntax_parser.cc): its tokens, its place among them, one function a rule
// of kernel.ebnf. Internal to grammar/kernel.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "grammar/kernel/lexer.h"
#include "grammar/kernel/syntax.h"

namespace tpuc::kernel_text {

inline constexpr int kMaxNesting = 100;  // of blocks, parentheses and brackets

class Parser {
 public:
  Parser(std::shared_ptr<const Source> source, DiagSink* diags)
      : source_(source),
        diags_(diags),
        errors_before_(diags->errors()),
        tokens_(Tokenize(source, diags)) {}

  std::unique_ptr<File> ParseFile();
  std::optional<Expr> ParseOneExpression();

 private:
  using Kind = Token::Kind;

  const Token& Peek(size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  const Token& Next() {
    const Token& t = Peek();
    if (at_ + 1 < tokens_.size()) ++at_;
    return t;
  }
  bool Is(absl::string_view punct_or_word) const {
    const Token& t = Peek();
    return (t.kind == Kind::kPunct || t.kind == Kind::kName) && t.text == punct_or_word;
  }
  bool Take(absl::string_view text) {
    if (!Is(text)) return false;
    Next();
    return true;
  }
  // Words that begin a statement but may name values too (HLO instructions are called so): a value
  // is assigned or indexed.
  bool Starts(absl::string_view word) const {
    const Token& after = Peek(1);
    const bool value = after.kind == Kind::kPunct && (after.text == "=" || after.text == "[");
    return Peek().kind == Kind::kName && Peek().text == word && !value;
  }
  void Fail(std::string message) {
    if (!failed_) diags_->Add(DiagCode::kSyntax, source_, Peek().loc, std::move(message));
    failed_ = true;
  }
  std::string Found() const {
    const Token& t = Peek();
    if (t.kind == Kind::kEnd) return "the end of the file";
    return t.kind == Kind::kString ? Quote(t.text) : absl::StrCat("'", t.text, "'");
  }
  bool Expect(absl::string_view text) {
    if (failed_) return false;
    if (Take(text)) return true;
    Fail(absl::StrCat("expected '", text, "', found ", Found()));
    return false;
  }
  std::string Name(absl::string_view what) {
    if (failed_) return "";
    if (Peek().kind != Kind::kName) {
      Fail(absl::StrCat("expected ", what, ", found ", Found()));
      return "";
    }
    return Next().text;
  }
  std::string Definition(absl::string_view what) {  // a name that is not a word of the language
    if (IsReserved(Peek().text) && Peek().kind == Kind::kName) {
      Fail(absl::StrCat("'", Peek().text, "' is a word of the language and cannot name ", what));
      return "";
    }
    return Name(what);
  }
  std::string Id(absl::string_view what) {
    if (!failed_ && Peek().kind == Kind::kString) return Next().text;
    return Name(what);
  }
  std::string Integer() {
    if (failed_) return "";
    if (Peek().kind != Kind::kInteger) {
      Fail(absl::StrCat("expected an integer, found ", Found()));
      return "";
    }
    return Next().text;
  }
  // After an error: behind the next ';', or at a brace, so that the next statement is read.
  void Recover() {
    failed_ = false;
    any_failed_ = true;
    while (Peek().kind != Kind::kEnd && !Is("}") && !Is("{")) {
      if (Take(";")) return;
      Next();
    }
    if (Is("{")) SkipBraces();
  }
  void SkipBraces() {
    int depth = 0;
    do {
      if (Is("{")) ++depth;
      if (Is("}")) --depth;
      Next();
    } while (depth > 0 && Peek().kind != Kind::kEnd);
  }

  Expr Make(Expr::Kind kind, Loc loc, std::string text, std::vector<Expr> args);
  Expr Or() { return Chain(0); }
  Expr Chain(int level);
  Expr Unary();
  Expr Postfix();
  Expr Primary();
  Expr Call(Token callee);
  Expr Value();
  Expr Range();
  void Ranges(absl::string_view close, std::vector<Expr>* out);
  Array ParseArray();

  void KernelDecl(File* file);
  bool Declares(absl::string_view word) const;
  void HeadDecl(Kernel* k);
  void OperandLine(Kernel* k);
  void FunctionDecl(Kernel* k);
  void Pair(absl::string_view open, absl::string_view close, std::vector<Expr>* out);
  void ArrayLine(Kernel* k);
  void MaskLine(Kernel* k);
  void BlocksLine(Kernel* k);
  void PrefetchDecl(Kernel* k);
  void Contents(Operand* o);
  void Present(Operand* o);
  void ParamDecl(Kernel* k);
  void Axes(std::vector<Axis>* axes);
  void GridDecl(Kernel* k);
  void Moves(Operand* operand);
  void OperandDecl(Kernel* k);
  void ScratchDecl(Kernel* k);
  void ParseStatement(std::vector<Statement>* out);
  void ParseBlock(std::vector<Statement>* out);
  void Statements(std::vector<Statement>* out);
  void PipelineStatement(Statement* s);
  Expr View();
  void CopyStatement(Statement* s);
  void ProgramDecl(File* file);
  void ParseItem(Program* p);
  void ParseBuffer(Item* item);
  void ParseLiteral(LiteralText* literal);
  void ParseRows(LiteralText* literal);
  std::string Scalar();

  std::shared_ptr<const Source> source_;
  DiagSink* diags_;
  int errors_before_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
  bool failed_ = false, any_failed_ = false;
};

}  // namespace tpuc::kernel_text
