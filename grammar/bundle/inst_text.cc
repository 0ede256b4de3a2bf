#include "grammar/bundle/inst_text.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tpuc::bundle {
namespace {

using isa::Inst;
using isa::Operand;
using isa::Reg;
using isa::RegClass;

const char* ClassName(RegClass cls) {
  switch (cls) {
    case RegClass::kVector:
      return "v";
    case RegClass::kMask:
      return "vm";
    case RegClass::kScalar:
      return "s";
    case RegClass::kPredicate:
      return "p";
    case RegClass::kToken:
      return "t";
    case RegClass::kNone:
      break;
  }
  return "?";
}

std::string RegText(Reg r, RegisterForm form) {
  return absl::StrCat(form == RegisterForm::kVirtual ? "%" : "", ClassName(r.cls), r.id);
}

bool TakesFloat(const isa::OpInfo& info) {
  return info.mnemonic.find("f32") != absl::string_view::npos &&
         info.mnemonic.find("f32.s32") == absl::string_view::npos &&
         info.mnemonic.find("f32.u32") == absl::string_view::npos;
}

std::string ImmText(int32_t bits, bool as_float) {
  if (as_float) {
    float f;
    std::memcpy(&f, &bits, 4);
    if (std::isfinite(f) && !(f == 0 && std::signbit(f))) {
      return absl::StrCat(absl::StrFormat("%.9g", f), "f");
    }
    return absl::StrFormat("0x%08x", static_cast<uint32_t>(bits));
  }
  return absl::StrCat(bits);
}

bool ParseReg(absl::string_view text, RegisterForm form, Reg* reg) {
  if (form == RegisterForm::kVirtual) {
    if (text.empty() || text[0] != '%') return false;
    text.remove_prefix(1);
  }
  size_t digits = 0;
  while (digits < text.size() && !(text[digits] >= '0' && text[digits] <= '9')) ++digits;
  absl::string_view cls = text.substr(0, digits);
  int32_t id;
  if (digits == text.size() || !absl::SimpleAtoi(text.substr(digits), &id) || id < 0 ||
      id > 100'000'000) {
    return false;
  }
  if (cls == "v")
    reg->cls = RegClass::kVector;
  else if (cls == "vm")
    reg->cls = RegClass::kMask;
  else if (cls == "s")
    reg->cls = RegClass::kScalar;
  else if (cls == "p")
    reg->cls = RegClass::kPredicate;
  else if (cls == "t" && form == RegisterForm::kVirtual)
    reg->cls = RegClass::kToken;
  else
    return false;
  reg->id = id;
  return true;
}

// "123", "-5", "0x3f800000" or "1.5f".
bool ParseImm(absl::string_view text, int32_t* bits) {
  bool hex = text.size() > 1 && (text[1] == 'x' || text[1] == 'X');
  if (!hex && !text.empty() && text.back() == 'f') {
    float f;
    if (!absl::SimpleAtof(text.substr(0, text.size() - 1), &f) || !std::isfinite(f)) return false;
    std::memcpy(bits, &f, 4);
    return true;
  }
  int64_t value;
  if (!ParseInt(text, &value) || value < std::numeric_limits<int32_t>::min() ||
      value > std::numeric_limits<uint32_t>::max()) {
    return false;
  }
  *bits = static_cast<int32_t>(static_cast<uint32_t>(value));
  return true;
}

class InstParser {
 public:
  InstParser(Lexer* lexer, RegisterForm form, Inst* inst, DiagSink* diags)
      : lexer_(*lexer), form_(form), inst_(*inst), diags_(diags) {}
  bool Parse();

 private:
  bool Fail(const Token& at, std::string message) {
    diags_->Add(DiagCode::kBundleSyntax, lexer_.source(), at.loc, std::move(message));
    return false;
  }
  bool IsPunct(char c) const {
    return lexer_.Peek().kind == TokenKind::kPunct && lexer_.Peek().text[0] == c;
  }
  bool Expect(char c) {
    if (!IsPunct(c)) {
      return Fail(lexer_.Peek(), absl::StrCat("expected '", std::string(1, c), "'"));
    }
    lexer_.Next();
    return true;
  }
  bool Predicate();
  bool Mnemonic(const Token& word);
  bool Memory();
  bool Sources();
  bool Suffixes();
  bool Int(int64_t low, int64_t high, int64_t* value);

  Lexer& lexer_;
  RegisterForm form_;
  Inst& inst_;
  DiagSink* diags_;
  const isa::OpInfo* info_ = nullptr;
};

bool InstParser::Int(int64_t low, int64_t high, int64_t* value) {
  Token t = lexer_.Next();
  if (t.kind != TokenKind::kNumber || !ParseInt(t.text, value) || *value < low || *value > high) {
    return Fail(t, absl::StrCat("expected a number from ", low, " to ", high));
  }
  return true;
}

bool InstParser::Predicate() {
  lexer_.Next();  // (
  if (IsPunct('!')) {
    lexer_.Next();
    inst_.pred_negated = true;
  }
  Token t = lexer_.Next();
  if (t.kind != TokenKind::kWord || !ParseReg(t.text, form_, &inst_.pred) ||
      inst_.pred.cls != RegClass::kPredicate) {
    return Fail(t, "expected a predicate register");
  }
  return Expect(')');
}

bool InstParser::Mnemonic(const Token& word) {
  absl::string_view name = word.text;
  int unit = -1;
  for (const char* suffix : {".mxu", ".xlu"}) {
    size_t at = name.rfind(suffix);
    int number;
    if (at != absl::string_view::npos && absl::SimpleAtoi(name.substr(at + 4), &number) &&
        number >= 0 && number < 16) {
      unit = number;
      name = name.substr(0, at);
      break;
    }
  }
  auto op = isa::FromMnemonic(name);
  if (!op) {
    Diag& d = diags_->Add(DiagCode::kUnknownInstruction, lexer_.source(), word.loc,
                          absl::StrCat("unknown instruction '", std::string(word.text), "'"));
    std::vector<std::string> known;
    for (int i = 0; i < isa::kOpcodeCount; ++i) {
      known.emplace_back(isa::Info(static_cast<isa::Opcode>(i)).mnemonic);
    }
    std::string near = NearestName(name, known);
    d.hint = near.empty() ? "`tpuc list isa` shows all" : absl::StrCat("did you mean ", near, "?");
    return false;
  }
  inst_.op = *op;
  info_ = &isa::Info(*op);
  bool has_unit = info_->unit == isa::Unit::kMxu || info_->unit == isa::Unit::kXlu;
  if (unit >= 0 && !has_unit) return Fail(word, "this instruction has no unit number");
  if (unit < 0 && has_unit && form_ == RegisterForm::kPhysical) {
    return Fail(word, "expected a unit number, such as .mxu0 or .xlu1");
  }
  inst_.unit = static_cast<int8_t>(unit);
  return true;
}

bool InstParser::Memory() {
  if (!Expect('[')) return false;
  Token space = lexer_.Next();
  if (space.kind != TokenKind::kWord || (space.text != "vmem" && space.text != "smem")) {
    return Fail(space, "expected vmem or smem");
  }
  if (!Expect(':')) return false;
  bool base = false;
  if (lexer_.Peek().kind == TokenKind::kWord) {
    Token t = lexer_.Next();
    Reg r;
    if (!ParseReg(t.text, form_, &r) || r.cls != RegClass::kScalar) {
      return Fail(t, "expected a scalar register");
    }
    inst_.mem.base = r;
    base = true;
    if (IsPunct('+'))
      lexer_.Next();
    else if (IsPunct(']'))
      return Expect(']');
  }
  int64_t offset = 0;
  if (!Int(base ? -(1 << 30) : 0, 1 << 30, &offset)) return false;
  inst_.mem.offset = static_cast<int32_t>(offset);
  return Expect(']');
}

bool InstParser::Sources() {
  bool first = true;
  auto separator = [&] {
    if (first) {
      first = false;
      return true;
    }
    return Expect(',');
  };
  if (info_->has_memory) {
    if (!separator() || !Memory()) return false;
  }
  auto at_operand = [&] {
    return lexer_.Peek().kind == TokenKind::kWord || lexer_.Peek().kind == TokenKind::kNumber;
  };
  size_t index = 0;
  std::string letters;
  for (char c : info_->sources) {
    if (c != 't' || form_ == RegisterForm::kVirtual) letters += c;
  }
  bool any = inst_.op == isa::Opcode::kCall;
  while (any || index < letters.size()) {
    bool more = first ? at_operand() : IsPunct(',');
    if (!more) break;
    if (!separator()) return false;
    Token t = lexer_.Next();
    char want = any ? 's' : letters[index];
    Operand operand;
    if (t.kind == TokenKind::kWord) {
      Reg r;
      if (!ParseReg(t.text, form_, &r) || isa::ClassLetter(r.cls) != want) {
        return Fail(t, absl::StrCat("expected a register of class ", std::string(1, want)));
      }
      operand = Operand(r);
    } else if (t.kind != TokenKind::kNumber || (want != 'v' && want != 's') ||
               !ParseImm(t.text, &operand.imm)) {
      return Fail(t, absl::StrCat("expected an operand of class ", std::string(1, want)));
    }
    inst_.src.push_back(operand);
    ++index;
    if (index > 64) return Fail(t, "too many operands");
  }
  bool strided = letters == "sssssss" && index == 4;  // dma without its strides
  if (!any && index != letters.size() && !strided) {
    return Fail(lexer_.Peek(),
                absl::StrCat("expected ", letters.size(), " operands, found ", index));
  }
  return true;
}

bool InstParser::Suffixes() {
  int64_t value;
  while (true) {
    const Token& t = lexer_.Peek();
    if (t.kind == TokenKind::kWord && (t.text == "ss" || t.text == "sm" || t.text == "buf")) {
      std::string what(t.text);
      lexer_.Next();
      if (!Expect(':')) return false;
      if (what == "ss") {
        if (!Int(0, 1 << 20, &value)) return false;
        inst_.mem.sublane_stride = static_cast<int32_t>(value);
      } else if (what == "sm") {
        if (!Int(0, 255, &value)) return false;
        inst_.mem.sublane_mask = static_cast<uint8_t>(value);
      } else {
        if (!Int(0, 1 << 30, &value)) return false;
        inst_.mem.buffer = static_cast<int32_t>(value);
      }
    } else if (IsPunct('@')) {
      lexer_.Next();
      if (!Int(0, 1 << 30, &value)) return false;
      inst_.source = static_cast<int32_t>(value);
    } else if (IsPunct('-')) {
      lexer_.Next();
      if (!Expect('>') || !Int(0, 1 << 30, &value)) return false;
      inst_.target = static_cast<int32_t>(value);
    } else {
      return true;
    }
  }
}

bool InstParser::Parse() {
  if (IsPunct('(') && !Predicate()) return false;
  Token word = lexer_.Next();
  if (word.kind != TokenKind::kWord) return Fail(word, "expected an instruction");
  if (IsPunct('=')) {
    if (!ParseReg(word.text, form_, &inst_.dest)) return Fail(word, "expected a register");
    lexer_.Next();
    Token mnemonic = lexer_.Next();
    if (mnemonic.kind != TokenKind::kWord) return Fail(mnemonic, "expected an instruction");
    if (!Mnemonic(mnemonic)) return false;
  } else if (!Mnemonic(word)) {
    return false;
  }
  RegClass want = info_->dest;
  if (want == RegClass::kToken && form_ == RegisterForm::kPhysical) want = RegClass::kNone;
  if (inst_.dest.cls != want) {
    return Fail(word, want == RegClass::kNone
                          ? std::string("this instruction has no result")
                          : absl::StrCat("expected a result of class ",
                                         std::string(1, isa::ClassLetter(want))));
  }
  if (!Sources() || !Suffixes()) return false;
  bool targeted = inst_.op == isa::Opcode::kSbr || inst_.op == isa::Opcode::kCall;
  if (targeted != (inst_.target >= 0)) {
    return Fail(word, targeted ? "expected a target, such as ->3" : "unexpected target");
  }
  return true;
}

}  // namespace

bool ParseInt(absl::string_view text, int64_t* value) {
  bool negative = !text.empty() && text[0] == '-';
  absl::string_view digits = negative ? text.substr(1) : text;
  if (digits.size() > 2 && digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X')) {
    uint64_t magnitude = 0;
    if (digits.size() > 18) return false;
    for (char c : digits.substr(2)) {
      int d = c >= '0' && c <= '9'   ? c - '0'
              : c >= 'a' && c <= 'f' ? c - 'a' + 10
              : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                     : -1;
      if (d < 0) return false;
      magnitude = magnitude * 16 + d;
    }
    if (magnitude > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return false;
    *value = negative ? -static_cast<int64_t>(magnitude) : static_cast<int64_t>(magnitude);
    return true;
  }
  return absl::SimpleAtoi(text, value);
}

bool ParseInst(Lexer* lexer, RegisterForm form, Inst* inst, DiagSink* diags) {
  return InstParser(lexer, form, inst, diags).Parse();
}

std::string PrintInst(const Inst& inst, RegisterForm form) {
  const isa::OpInfo& info = isa::Info(inst.op);
  std::string out;
  if (inst.pred.valid()) {
    absl::StrAppend(&out, "(", inst.pred_negated ? "!" : "", RegText(inst.pred, form), ") ");
  }
  bool physical = form == RegisterForm::kPhysical;
  if (inst.dest.valid() && !(physical && inst.dest.cls == RegClass::kToken)) {
    absl::StrAppend(&out, RegText(inst.dest, form), " = ");
  }
  absl::StrAppend(&out, info.mnemonic);
  if (inst.unit >= 0 && info.unit == isa::Unit::kMxu) absl::StrAppend(&out, ".mxu", inst.unit);
  if (inst.unit >= 0 && info.unit == isa::Unit::kXlu) absl::StrAppend(&out, ".xlu", inst.unit);
  const char* separator = " ";
  if (info.has_memory) {
    bool smem = inst.op == isa::Opcode::kSld || inst.op == isa::Opcode::kSst;
    absl::StrAppend(&out, separator, smem ? "[smem:" : "[vmem:");
    if (inst.mem.base.is_imm()) {
      absl::StrAppend(&out, inst.mem.base.imm + inst.mem.offset);
    } else {
      absl::StrAppend(&out, RegText(inst.mem.base.reg, form));
      if (inst.mem.offset != 0) absl::StrAppend(&out, "+", inst.mem.offset);
    }
    out += "]";
    separator = ", ";
  }
  bool as_float = TakesFloat(info);
  for (const Operand& operand : inst.src) {
    if (!operand.is_imm() && operand.reg.cls == RegClass::kToken && physical) continue;
    absl::StrAppend(&out, separator,
                    operand.is_imm() ? ImmText(operand.imm, as_float) : RegText(operand.reg, form));
    separator = ", ";
  }
  if (info.has_memory) {
    if (inst.mem.sublane_stride != 1) absl::StrAppend(&out, " ss:", inst.mem.sublane_stride);
    if (inst.mem.sublane_mask != 0xff) {
      absl::StrAppend(&out, absl::StrFormat(" sm:0x%02x", inst.mem.sublane_mask));
    }
    if (inst.mem.buffer >= 0 && !physical) absl::StrAppend(&out, " buf:", inst.mem.buffer);
  }
  if (inst.target >= 0) absl::StrAppend(&out, " ->", inst.target);
  if (inst.source >= 0) absl::StrAppend(&out, " @", inst.source);
  return out;
}

}  // namespace tpuc::bundle
