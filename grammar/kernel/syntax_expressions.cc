// Expressions of .tk text: operators by looseness, calls, ranges, arrays (syntax_parser.h).
#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "grammar/kernel/syntax_parser.h"

namespace tpuc::kernel_text {

Expr Parser::Make(Expr::Kind kind, Loc loc, std::string text, std::vector<Expr> args) {
  Expr e;
  e.kind = kind;
  e.loc = loc;
  e.text = std::move(text);
  for (const Expr& a : args) e.depth = std::max(e.depth, a.depth + 1);
  if (e.depth > Expr::kMaxDepth) {
    Fail("expression nested too deeply: give parts of it names");
    return Expr();
  }
  e.args = std::move(args);
  return e;
}

// Binary operators by falling looseness; the relations do not chain.
namespace {
struct Level {
  std::vector<absl::string_view> ops;
  bool chains;
};
const std::vector<Level>& Levels() {
  static const auto* levels = new std::vector<Level>{
      {{"||"}, true},     {{"&&"}, true},          {{"|"}, true},
      {{"^"}, true},      {{"&"}, true},           {{"==", "!=", "<", "<=", ">", ">="}, false},
      {{"+", "-"}, true}, {{"*", "/", "%"}, true},
  };
  return *levels;
}
}  // namespace

Expr Parser::Chain(int level) {
  if (level == static_cast<int>(Levels().size())) return Unary();
  Expr left = Chain(level + 1);
  while (!failed_ && Peek().kind == Kind::kPunct) {
    const std::string op = Peek().text;
    const auto& ops = Levels()[level].ops;
    if (std::find(ops.begin(), ops.end(), op) == ops.end()) break;
    const Loc loc = Next().loc;
    Expr right = Chain(level + 1);
    std::vector<Expr> args;
    args.push_back(std::move(left));
    args.push_back(std::move(right));
    left = Make(Expr::Kind::kBinary, loc, op, std::move(args));
    if (!Levels()[level].chains) break;
  }
  return left;
}

Expr Parser::Unary() {
  if (Is("-") || Is("!")) {
    const Token op = Next();
    std::vector<Expr> args;
    args.push_back(Postfix());
    return Make(Expr::Kind::kUnary, op.loc, op.text, std::move(args));
  }
  return Postfix();
}

Expr Parser::Postfix() {
  Expr e = Primary();
  while (!failed_) {
    const Loc loc = Peek().loc;
    std::vector<Expr> args;
    if (Take("^T")) {
      args.push_back(std::move(e));
      e = Make(Expr::Kind::kTranspose, loc, "", std::move(args));
    } else if (Take("[")) {
      args.push_back(std::move(e));
      Ranges("]", &args);
      if (args.size() == 1) Fail("expected a range such as ':' between brackets");
      const Loc base = args[0].loc;
      e = Make(Expr::Kind::kIndex, base, "", std::move(args));
    } else {
      break;
    }
  }
  return e;
}

Expr Parser::Primary() {
  if (failed_) return Expr();
  const Token t = Peek();
  switch (t.kind) {
    case Kind::kInteger:
      Next();
      return Make(Expr::Kind::kInteger, t.loc, t.text, {});
    case Kind::kNumber:
      Next();
      return Make(Expr::Kind::kNumber, t.loc, t.text, {});
    case Kind::kName:
      Next();
      if (Is("(")) return Call(t);
      return Make(Expr::Kind::kName, t.loc, t.text, {});
    default:
      break;
  }
  if (Take("(")) {
    if (++depth_ > kMaxNesting) Fail("parentheses nested too deeply");
    Expr e = Or();
    --depth_;
    Expect(")");
    return e;
  }
  Fail(absl::StrCat("expected a value, found ", Found()));
  return Expr();
}

Expr Parser::Call(Token callee) {
  Next();  // (
  if (++depth_ > kMaxNesting) Fail("calls nested too deeply");
  std::vector<Expr> args;
  while (!failed_ && !Is(")")) {
    if (!args.empty() && !Expect(",")) break;
    if (Peek().kind == Kind::kName && Peek(1).kind == Kind::kPunct && Peek(1).text == "=") {
      const Token name = Next();
      Next();
      std::vector<Expr> value;
      value.push_back(Value());
      args.push_back(Make(Expr::Kind::kNamed, name.loc, name.text, std::move(value)));
    } else {
      args.push_back(Value());
    }
  }
  --depth_;
  Expect(")");
  return Make(Expr::Kind::kCall, callee.loc, callee.text, std::move(args));
}

Expr Parser::Value() {
  const Token t = Peek();
  if (t.kind == Kind::kString) {
    Next();
    return Make(Expr::Kind::kString, t.loc, t.text, {});
  }
  std::vector<Expr> args;
  if (Take("[")) {
    Ranges("]", &args);
    return Make(Expr::Kind::kList, t.loc, "", std::move(args));
  }
  if (Take("{")) {
    while (!failed_ && !Is("}")) {
      if (!args.empty() && !Expect(",")) break;
      args.push_back(Or());
    }
    Expect("}");
    return Make(Expr::Kind::kSet, t.loc, "", std::move(args));
  }
  return Or();
}

Expr Parser::Range() {
  const Loc loc = Peek().loc;
  std::vector<Expr> parts;
  if (!Is(":")) {
    parts.push_back(Or());
    if (!Is(":")) return std::move(parts[0]);
  } else {
    parts.emplace_back();
  }
  Next();  // :
  if (parts[0].kind != Expr::Kind::kEmpty && Take("+")) {
    parts.push_back(Or());
    if (Take(":")) parts.push_back(Or());
    return Make(Expr::Kind::kRange, loc, ":+", std::move(parts));
  }
  const auto ends = [&] { return Is(",") || Is("]") || Is(":"); };
  parts.push_back(ends() ? Expr() : Or());
  parts.push_back(Take(":") ? Or() : Expr());
  return Make(Expr::Kind::kRange, loc, ":", std::move(parts));
}

// Reads up to `close`, which is taken.
void Parser::Ranges(absl::string_view close, std::vector<Expr>* out) {
  if (++depth_ > kMaxNesting) Fail("brackets nested too deeply");
  for (bool first = true; !failed_ && !Is(close); first = false) {
    if (!first && !Expect(",")) break;
    out->push_back(Range());
  }
  --depth_;
  Expect(close);
}

Array Parser::ParseArray() {
  Array a;
  a.loc = Peek().loc;
  a.type = Name("an element type");
  if (!Expect("[")) return a;
  while (!failed_ && !Is("]")) {
    if (!a.dims.empty() && !Expect(",")) break;
    a.dims.push_back(Or());
  }
  Expect("]");
  if (failed_ || !Is("{")) return a;
  // The layout is kept as text: blanks are dropped.
  while (Peek().kind != Kind::kEnd) {
    const bool last = Is("}");
    a.layout += Next().text;
    if (last) return a;
  }
  Fail("layout without an end");
  return a;
}

}  // namespace tpuc::kernel_text
