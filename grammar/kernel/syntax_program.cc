// Programs of .tk text: buffers, literals, calls and copies in order (syntax_parser.h).
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "grammar/kernel/syntax_parser.h"

namespace tpuc::kernel_text {

std::string Parser::Scalar() {
  const absl::string_view sign = Take("-") ? "-" : "";
  const Token& t = Peek();
  const bool word = t.kind == Kind::kName &&
                    (t.text == "inf" || t.text == "nan" || t.text == "true" || t.text == "false");
  if (t.kind != Kind::kInteger && t.kind != Kind::kNumber && !word) {
    Fail(absl::StrCat("expected a number, found ", Found()));
    return "";
  }
  return absl::StrCat(sign, Next().text);
}

void Parser::ParseRows(LiteralText* literal) {
  if (!Expect("{")) return;
  if (++depth_ > kMaxNesting) Fail("rows nested too deeply");
  literal->shape += '{';
  for (bool first = true; !failed_ && !Is("}"); first = false) {
    if (!first && !Expect(",")) break;
    if (Is("{")) {
      ParseRows(literal);
    } else {
      literal->shape += '.';
      literal->values.push_back(Scalar());
    }
  }
  literal->shape += '}';
  --depth_;
  Expect("}");
}

void Parser::ParseLiteral(LiteralText* literal) {
  if (Take("elided")) {
    literal->kind = LiteralText::Kind::kElided;
  } else if (Is("{")) {
    literal->kind = LiteralText::Kind::kRows;
    ParseRows(literal);
  } else {
    literal->kind = Take("splat") ? LiteralText::Kind::kSplat : LiteralText::Kind::kScalar;
    literal->values.push_back(Scalar());
  }
}

void Parser::ParseBuffer(Item* item) {
  item->name = Id("a buffer");
  Expect(":");
  item->has_array = true;
  item->array = ParseArray();
  if (!failed_ && Take("offset")) item->offset = Integer();
  if (!failed_ && Take("bytes")) item->bytes = Integer();
  if (!failed_ && Take("live")) {
    item->from = Integer();
    Expect("..");
    item->to = Integer();
  }
  if (!failed_ && Take("=")) ParseLiteral(&item->literal);
}

void Parser::ParseItem(Program* p) {
  Item item;
  item.loc = Peek().loc;
  if (Take("buffer")) {
    ParseBuffer(&item);
  } else if (Is("input") || Is("output")) {
    item.kind = Next().text == "input" ? Item::Kind::kInput : Item::Kind::kOutput;
    item.name = Id("a port");
    if (!failed_ && Take(":")) {
      item.has_array = true;
      item.array = ParseArray();
    }
    if (!failed_ && Take("in")) {
      item.in = Id("a buffer");
    } else if (!failed_ && Take("none")) {
      item.none = true;
    }
  } else if (Take("copy_start")) {
    item.kind = Item::Kind::kCopyStart;
    item.name = Id("a copy");
    Expect(":");
    item.operands.push_back(Id("a buffer"));
    Expect("->");
    item.operands.push_back(Id("a buffer"));
    item.cross_program = !failed_ && Take("cross_program");
  } else if (Take("copy_done")) {
    item.kind = Item::Kind::kCopyDone;
    item.name = Id("a copy");
    Expect(":");
    item.operands.push_back(Id("a copy-start"));
  } else if (Take("call")) {
    item.kind = Item::Kind::kCall;
    item.name = Id("a kernel");
    Expect("(");
    while (!failed_ && !Is(")")) {
      if (!item.operands.empty() && !Expect(",")) break;
      item.operands.push_back(Id("a buffer"));
    }
    Expect(")");
    if (!failed_ && Take("as")) item.as = Id("the call's name");
  } else {
    Fail(absl::StrCat("expected buffer, input, output, copy_start, copy_done or call, found ",
                      Found()));
  }
  Expect(";");
  if (!failed_) p->items.push_back(std::move(item));
}

void Parser::ProgramDecl(File* file) {
  Next();
  Program p;
  p.loc = Peek().loc;
  p.name = Id("the program's name");
  if (!Expect("{")) return;
  while (!Is("}") && Peek().kind != Kind::kEnd) {
    ParseItem(&p);
    if (failed_) Recover();
  }
  Expect("}");
  file->programs.push_back(std::move(p));
}

}  // namespace tpuc::kernel_text
