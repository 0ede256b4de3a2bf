// Printer of syntax trees: canonical .tk text, two blanks of indentation, as few parentheses as the
// grammar allows.
#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "grammar/kernel/lexer.h"
#include "grammar/kernel/syntax.h"

namespace tpuc::kernel_text {
namespace {

constexpr int kUnaryLevel = 9, kPostfixLevel = 10, kPrimaryLevel = 11, kRelationLevel = 6;

int LevelOf(const Expr& e) {
  switch (e.kind) {
    case Expr::Kind::kBinary:
      if (e.text == "||") return 1;
      if (e.text == "&&") return 2;
      if (e.text == "|") return 3;
      if (e.text == "^") return 4;
      if (e.text == "&") return 5;
      if (e.text == "+" || e.text == "-") return 7;
      if (e.text == "*" || e.text == "/" || e.text == "%") return 8;
      return kRelationLevel;
    case Expr::Kind::kUnary:
      return kUnaryLevel;
    case Expr::Kind::kIndex:
    case Expr::Kind::kTranspose:
      return kPostfixLevel;
    default:
      return kPrimaryLevel;
  }
}

class Printer {
 public:
  std::string text;

  void PrintAll(const std::vector<Expr>& args, size_t first = 0) {
    for (size_t i = first; i < args.size(); ++i) {
      if (i > first) absl::StrAppend(&text, ", ");
      Print(args[i], 0);
    }
  }
  void Print(const Expr& e, int least_level);
  void Print(const Array& a);
  void Print(const Operand& o);
  void Print(const std::vector<Axis>& axes);
  void Print(const std::vector<Statement>& block, int indent);
  void Print(const Statement& s, int indent);
  void Print(const Kernel& k);
  void Print(const Item& item);
  void Print(const LiteralText& literal);
  void Print(const Program& p);

 private:
  void PrintRange(const Expr& e);
  std::string Id(const std::string& name) { return IsName(name) ? name : Quote(name); }
};

void Printer::PrintRange(const Expr& e) {
  Print(e.args[0], 0);
  if (e.text == ":+") {
    absl::StrAppend(&text, ":+");
    Print(e.args[1], 0);
    if (e.args.size() > 2) {
      absl::StrAppend(&text, ":");
      Print(e.args[2], 0);
    }
    return;
  }
  absl::StrAppend(&text, ":");
  Print(e.args[1], 0);
  if (e.args[2].kind != Expr::Kind::kEmpty) {
    absl::StrAppend(&text, ":");
    Print(e.args[2], 0);
  }
}

void Printer::Print(const Expr& e, int least_level) {
  const int level = LevelOf(e);
  const bool parens = level < least_level;
  if (parens) absl::StrAppend(&text, "(");
  switch (e.kind) {
    case Expr::Kind::kEmpty:
      break;
    case Expr::Kind::kInteger:
    case Expr::Kind::kNumber:
    case Expr::Kind::kName:
      absl::StrAppend(&text, e.text);
      break;
    case Expr::Kind::kString:
      absl::StrAppend(&text, Quote(e.text));
      break;
    case Expr::Kind::kUnary:
      absl::StrAppend(&text, e.text);
      Print(e.args[0], kPostfixLevel);
      break;
    case Expr::Kind::kBinary:
      Print(e.args[0], level == kRelationLevel ? level + 1 : level);
      absl::StrAppend(&text, " ", e.text, " ");
      Print(e.args[1], level + 1);
      break;
    case Expr::Kind::kCall:
      absl::StrAppend(&text, e.text, "(");
      PrintAll(e.args);
      absl::StrAppend(&text, ")");
      break;
    case Expr::Kind::kNamed:
      absl::StrAppend(&text, e.text, "=");
      Print(e.args[0], 0);
      break;
    case Expr::Kind::kIndex:
      Print(e.args[0], kPostfixLevel);
      absl::StrAppend(&text, "[");
      PrintAll(e.args, 1);
      absl::StrAppend(&text, "]");
      break;
    case Expr::Kind::kTranspose:
      Print(e.args[0], kPostfixLevel);
      absl::StrAppend(&text, "^T");
      break;
    case Expr::Kind::kRange:
      PrintRange(e);
      break;
    case Expr::Kind::kList:
      absl::StrAppend(&text, "[");
      PrintAll(e.args);
      absl::StrAppend(&text, "]");
      break;
    case Expr::Kind::kSet:
      absl::StrAppend(&text, "{");
      PrintAll(e.args);
      absl::StrAppend(&text, "}");
      break;
  }
  if (parens) absl::StrAppend(&text, ")");
}

void Printer::Print(const Array& a) {
  absl::StrAppend(&text, a.type, "[");
  for (size_t d = 0; d < a.dims.size(); ++d) {
    if (d > 0) absl::StrAppend(&text, ",");
    Print(a.dims[d], 0);
  }
  absl::StrAppend(&text, "]", a.layout);
}

void Printer::Print(const Operand& o) {
  absl::StrAppend(&text, "  ", o.role, " ", o.name);
  if (!o.of.empty()) {
    absl::StrAppend(&text, " of ", o.of);
  } else if (o.table.empty()) {
    absl::StrAppend(&text, ": ");
    Print(o.array);
  } else {
    absl::StrAppend(&text, " = ", o.table);
  }
  if (!o.space.empty()) absl::StrAppend(&text, " ", o.space);
  if (o.has_block) {
    absl::StrAppend(&text, " block [");
    PrintAll(o.block);
    absl::StrAppend(&text, "]");
  }
  if (o.has_at) {
    absl::StrAppend(&text, o.element ? " at element (" : " at (");
    for (size_t d = 0; d < o.at.size(); ++d) {
      if (d > 0) absl::StrAppend(&text, ", ");
      Print(o.at[d], 0);
      if (d >= o.pads.size() || o.pads[d].kind == Expr::Kind::kEmpty) continue;
      absl::StrAppend(&text, " pad ");
      Print(o.pads[d], 0);
    }
    absl::StrAppend(&text, ")");
  }
  if (!o.buffers.empty()) absl::StrAppend(&text, " buffers ", o.buffers);
  if (!o.alias.empty()) absl::StrAppend(&text, " alias ", o.alias);
  if (!o.present.empty()) {
    absl::StrAppend(&text, " when ");
    Print(o.present[0], 0);
  }
  absl::StrAppend(&text, ";\n");
}

void Printer::Print(const std::vector<Statement>& block, int indent) {
  absl::StrAppend(&text, "{\n");
  for (const Statement& s : block) Print(s, indent + 2);
  absl::StrAppend(&text, std::string(indent, ' '), "}");
}

void Printer::Print(const Statement& s, int indent) {
  absl::StrAppend(&text, std::string(indent, ' '));
  switch (s.kind) {
    case Statement::Kind::kAssign:
      absl::StrAppend(&text, s.name, " = ");
      Print(s.value, 0);
      absl::StrAppend(&text, ";");
      break;
    case Statement::Kind::kStore:
      Print(s.target, 0);
      absl::StrAppend(&text, " ", s.op, " ");
      Print(s.value, 0);
      if (!s.where.empty()) {
        absl::StrAppend(&text, " where ");
        Print(s.where[0], 0);
      }
      absl::StrAppend(&text, ";");
      break;
    case Statement::Kind::kWhen:
      absl::StrAppend(&text, "when ");
      Print(s.value, 0);
      absl::StrAppend(&text, " ");
      Print(s.blocks[0], indent);
      if (s.blocks.size() > 1) {
        absl::StrAppend(&text, " else ");
        Print(s.blocks[1], indent);
      }
      break;
    case Statement::Kind::kFor:
      absl::StrAppend(&text, "for ", s.name, " in ");
      Print(s.value, 0);
      absl::StrAppend(&text, "..");
      Print(s.limit, 0);
      if (!s.unroll.empty()) absl::StrAppend(&text, " unroll");
      if (s.unroll != "0" && !s.unroll.empty()) absl::StrAppend(&text, " ", s.unroll);
      absl::StrAppend(&text, " ");
      Print(s.blocks[0], indent);
      break;
    case Statement::Kind::kCopy:
    case Statement::Kind::kWaitCopy:
      absl::StrAppend(&text, s.kind == Statement::Kind::kCopy ? "copy " : "wait copy ");
      Print(s.views[0], 0);
      absl::StrAppend(&text, " -> ");
      Print(s.views[1], 0);
      absl::StrAppend(&text, " on ");
      Print(s.views[2], 0);
      absl::StrAppend(&text, ";");
      break;
    case Statement::Kind::kSignal:
    case Statement::Kind::kWait:
      absl::StrAppend(&text, s.kind == Statement::Kind::kSignal ? "signal " : "wait ");
      Print(s.views[0], 0);
      absl::StrAppend(&text, ", ");
      Print(s.value, 0);
      absl::StrAppend(&text, ";");
      break;
    case Statement::Kind::kWhile:
      absl::StrAppend(&text, "while ");
      Print(s.value, 0);
      absl::StrAppend(&text, " ");
      Print(s.blocks[0], indent);
      break;
    case Statement::Kind::kPipeline:
      absl::StrAppend(&text, "pipeline");
      Print(s.axes);
      absl::StrAppend(&text, " {\n");
      for (const Operand& o : s.windows) {
        absl::StrAppend(&text, std::string(indent, ' '));
        Print(o);
      }
      for (const Statement& inner : s.blocks[0]) Print(inner, indent + 2);
      absl::StrAppend(&text, std::string(indent, ' '), "}");
      break;
    case Statement::Kind::kCall:
      Print(s.value, 0);
      absl::StrAppend(&text, ";");
      break;
    case Statement::Kind::kAssert:
      absl::StrAppend(&text, "assert ");
      Print(s.value, 0);
      absl::StrAppend(&text, " ", Quote(s.message), ";");
      break;
  }
  if (!s.comment.empty()) absl::StrAppend(&text, "  # ", s.comment);
  absl::StrAppend(&text, "\n");
}

void Printer::Print(const std::vector<Axis>& axes) {
  for (size_t a = 0; a < axes.size(); ++a) {
    absl::StrAppend(&text, a == 0 ? " " : ", ", axes[a].name, ": ");
    Print(axes[a].size, 0);
    if (!axes[a].most.empty()) {
      absl::StrAppend(&text, " most ");
      Print(axes[a].most[0], 0);
    }
    if (axes[a].parallel) absl::StrAppend(&text, " parallel");
  }
}

void Printer::Print(const Kernel& k) {
  absl::StrAppend(&text, "kernel ", Id(k.name), " {\n");
  for (size_t p = 0; p < k.parameters.size(); ++p) {
    absl::StrAppend(&text, p == 0 ? "  param " : ", ", k.parameters[p].name, " = ");
    Print(k.parameters[p].value, 0);
  }
  if (!k.parameters.empty()) absl::StrAppend(&text, ";\n");
  for (const ArrayDecl& a : k.arrays) {
    absl::StrAppend(&text, "  array ", a.name, ": ");
    Print(a.array);
    absl::StrAppend(&text, " = ");
    if (a.file.empty()) {
      Print(a.literal);
    } else {
      absl::StrAppend(&text, Quote(a.file));
    }
    absl::StrAppend(&text, ";\n");
  }
  for (const MaskDecl& m : k.masks) {
    absl::StrAppend(&text, "  mask ", m.name, "(", m.row, ", ", m.col, ") over [");
    PrintAll(m.extents);
    absl::StrAppend(&text, "] = ");
    Print(m.value, 0);
    absl::StrAppend(&text, ";\n");
  }
  for (const BlocksDecl& b : k.blocks) {
    absl::StrAppend(&text, "  blocks ", b.name, " of ", b.mask, " by (");
    PrintAll(b.sizes);
    absl::StrAppend(&text, ");\n");
  }
  if (!k.grid.empty()) {
    absl::StrAppend(&text, "  grid");
    Print(k.grid);
    absl::StrAppend(&text, ";\n");
  }
  for (const Operand& o : k.operands) Print(o);
  for (const Function& f : k.functions) {
    absl::StrAppend(&text, "  def ", f.name, "(");
    for (size_t i = 0; i < f.parameters.size(); ++i) {
      absl::StrAppend(&text, i > 0 ? ", " : "", f.parameters[i]);
    }
    if (f.has_block) {
      absl::StrAppend(&text, ") ");
      Print(f.block, 2);
      absl::StrAppend(&text, "\n");
      continue;
    }
    absl::StrAppend(&text, ") = ");
    Print(f.value, 0);
    absl::StrAppend(&text, ";\n");
  }
  if (!k.setup.empty()) {
    absl::StrAppend(&text, "  setup ");
    Print(k.setup, 2);
    absl::StrAppend(&text, "\n");
  }
  for (const Statement& s : k.statements) Print(s, 2);
  absl::StrAppend(&text, "}\n");
}

void Printer::Print(const LiteralText& literal) {
  switch (literal.kind) {
    case LiteralText::Kind::kNone:
      return;
    case LiteralText::Kind::kElided:
      absl::StrAppend(&text, "elided");
      return;
    case LiteralText::Kind::kSplat:
      absl::StrAppend(&text, "splat ");
      [[fallthrough]];
    case LiteralText::Kind::kScalar:
      absl::StrAppend(&text, literal.values[0]);
      return;
    case LiteralText::Kind::kRows:
      break;
  }
  size_t value = 0;
  bool comma = false;
  for (char c : literal.shape) {
    if (c != '}' && comma) absl::StrAppend(&text, ", ");
    if (c == '.') {
      absl::StrAppend(&text, literal.values[value++]);
    } else {
      text += c;
    }
    comma = c != '{';
  }
}

void Printer::Print(const Item& item) {
  static constexpr absl::string_view kWords[] = {"buffer",     "input",     "output",
                                                 "copy_start", "copy_done", "call"};
  absl::StrAppend(&text, "  ", kWords[static_cast<int>(item.kind)], " ", Id(item.name));
  if (item.has_array) {
    absl::StrAppend(&text, ": ");
    Print(item.array);
  }
  if (!item.offset.empty()) absl::StrAppend(&text, " offset ", item.offset);
  if (!item.bytes.empty()) absl::StrAppend(&text, " bytes ", item.bytes);
  if (!item.from.empty()) absl::StrAppend(&text, " live ", item.from, "..", item.to);
  if (item.literal.kind != LiteralText::Kind::kNone) {
    absl::StrAppend(&text, " = ");
    Print(item.literal);
  }
  if (!item.in.empty()) absl::StrAppend(&text, " in ", Id(item.in));
  if (item.none) absl::StrAppend(&text, " none");
  switch (item.kind) {
    case Item::Kind::kCopyStart:
      absl::StrAppend(&text, ": ", Id(item.operands[0]), " -> ", Id(item.operands[1]));
      break;
    case Item::Kind::kCopyDone:
      absl::StrAppend(&text, ": ", Id(item.operands[0]));
      break;
    case Item::Kind::kCall:
      absl::StrAppend(&text, "(");
      for (size_t i = 0; i < item.operands.size(); ++i) {
        absl::StrAppend(&text, i > 0 ? ", " : "", Id(item.operands[i]));
      }
      absl::StrAppend(&text, ")");
      break;
    default:
      break;
  }
  if (item.cross_program) absl::StrAppend(&text, " cross_program");
  if (!item.as.empty()) absl::StrAppend(&text, " as ", Id(item.as));
  absl::StrAppend(&text, ";\n");
}

void Printer::Print(const Program& p) {
  absl::StrAppend(&text, "program ", Id(p.name), " {\n");
  for (const Item& item : p.items) Print(item);
  absl::StrAppend(&text, "}\n");
}

}  // namespace

std::string PrintSyntax(const File& file) {
  Printer p;
  for (const Kernel& k : file.kernels) {
    if (!p.text.empty()) absl::StrAppend(&p.text, "\n");
    p.Print(k);
  }
  for (const Program& program : file.programs) {
    if (!p.text.empty()) absl::StrAppend(&p.text, "\n");
    p.Print(program);
  }
  return p.text;
}

std::string PrintSyntax(const Kernel& kernel) {
  Printer p;
  p.Print(kernel);
  return p.text;
}

std::string PrintSyntax(const Expr& e) {
  Printer p;
  p.Print(e, 0);
  return p.text;
}

}  // namespace tpuc::kernel_text
