// Text of bundles and LLO: what each instruction looks like, round trips, and messages.
#include <gtest/gtest.h>

#include "backend/isa/isa.h"
#include "grammar/bundle/inst_text.h"
#include "grammar/bundle/parser.h"
#include "grammar/bundle/printer.h"

namespace tpuc::bundle {
namespace {

std::shared_ptr<const Source> Text(std::string text) {
  return std::make_shared<Source>(Source{"test.txt", std::move(text)});
}

// One instruction of every row of isa.def, with registers 1, 2, 3 ... as operands.
isa::Inst Sample(isa::Opcode op, RegisterForm form) {
  const isa::OpInfo& info = isa::Info(op);
  isa::Inst inst;
  inst.op = op;
  if (info.unit == isa::Unit::kMxu || info.unit == isa::Unit::kXlu) inst.unit = 1;
  auto reg = [&](char c, int id) -> isa::Reg {
    switch (c) {
      case 'v': return isa::V(id);
      case 'm': return isa::M(id);
      case 's': return isa::S(id);
      case 'p': return isa::P(id);
      default: return isa::T(id);
    }
  };
  bool tokens = form == RegisterForm::kVirtual;
  if (info.dest != isa::RegClass::kNone && (tokens || info.dest != isa::RegClass::kToken)) {
    inst.dest = {info.dest, 7};
  }
  int id = 1;
  for (char c : info.sources) {
    if (c == 't' && !tokens) continue;
    inst.src.push_back(reg(c, id++));
  }
  if (info.has_memory) {
    inst.mem.base = isa::S(9);
    inst.mem.offset = 5;
  }
  if (op == isa::Opcode::kSbr || op == isa::Opcode::kCall) inst.target = 0;
  return inst;
}

TEST(BundleText, EveryInstructionRoundTrips) {
  for (RegisterForm form : {RegisterForm::kVirtual, RegisterForm::kPhysical}) {
    for (int i = 0; i < isa::kOpcodeCount; ++i) {
      isa::Inst inst = Sample(static_cast<isa::Opcode>(i), form);
      std::string text = PrintInst(inst, form);
      DiagSink diags;
      Lexer lexer(Text(text));
      isa::Inst back;
      ASSERT_TRUE(ParseInst(&lexer, form, &back, &diags)) << text << "\n" << diags.Render();
      EXPECT_EQ(lexer.Peek().kind, TokenKind::kEnd) << text;
      EXPECT_EQ(PrintInst(back, form), text);
      EXPECT_EQ(back.op, inst.op) << text;
    }
  }
}

TEST(BundleText, Forms) {
  struct Row {
    const char* text;
  } rows[] = {
      {"(!p2) v7 = vadd.f32 v3, 1.5f @4"},
      {"v1 = vld [vmem:s4+8] ss:0 sm:0x0f"},
      {"vst [vmem:12], v1"},
      {"v9 = vpop.f32.mrf.mxu1"},
      {"(p1) sbr.rel ->17"},
      {"v2 = vsel vm3, v4, 0"},
      {"v2 = vmul.f32 v4, 0x80000000"},
      {"vmatmul.mubr.msk.f32.vlgmr.msra.gmra.mxu0 vm1, v3"},
      {"dma.hbm_to_vmem 64, 512, s3, 1"},
      {"dma.hbm_to_vmem 64, 512, s3, 1, 128, 64, 16"},
      {"inlined_call 192, s4 ->3 @1"},
      {"s1 = sld [smem:s2+3]"},
  };
  for (const Row& row : rows) {
    DiagSink diags;
    Lexer lexer(Text(row.text));
    isa::Inst inst;
    ASSERT_TRUE(ParseInst(&lexer, RegisterForm::kPhysical, &inst, &diags)) << diags.Render();
    EXPECT_EQ(PrintInst(inst, RegisterForm::kPhysical), row.text);
  }
}

const char kProgram[] = R"(tpuc.bundles 1
module "m"
options "-O2"
chip "tiny" {{{
name = 1  assumed  "x"
}}}
buffer "x" hbm at=0 bytes=512 shape="f32[8]{0:T(128)}" from=0 to=1
input "x" "f32[8]{0:T(128)}" buffer=0
output "y" "f32[8]{0:T(128)}" buffer=0 alias=0
constant buffer=0 splat 0x3f800000
constant buffer=0 data {
AAECAwQFBgc=
}
copy "copy-start" bytes=512 cross_program=1 start=0 done=1
source 0 "a" "jit(f)/add" "f.py:3"
kernel 0 "k\"1" args=2 {
  op_names "jit(f)/add"
  ops "add"
  info grid_steps=1 schedule_cycles=25 spills=0 fills=0 temp_loads=0 temp_stores=0 max_live_vregs=3 vmem_bytes=4096 flops=8
  loop first=0 last=1 trips=4 mii=1 ii=2 stages=1
  dot source=0 m=8 k=192 n=128 k_padded=256 n_padded=256
  0: { v0 = vld [vmem:s0] @0 ;; s1 = sadd.s32 s0, 1 }
  1: { }
}
tlp "tlp" args=0 {
  op_names
  ops
  info grid_steps=1 schedule_cycles=0 spills=0 fills=0 temp_loads=0 temp_stores=0 max_live_vregs=0 vmem_bytes=0 flops=0
  0: { inlined_call 0, 1 ->0 }
}
)";

TEST(BundleText, ProgramRoundTrips) {
  DiagSink diags;
  auto program = ParseBundles(Text(kProgram), &diags);
  ASSERT_TRUE(program) << diags.Render();
  EXPECT_EQ(PrintBundles(*program), kProgram);
  EXPECT_EQ(program->kernels[0].name, "k\"1");
  EXPECT_EQ(program->constants[1].data, (std::vector<uint8_t>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(LloText, FunctionRoundTrips) {
  const char text[] = R"(tpuc.llo 1
module ""
options ""
chip "" {{{
}}}
llo "k" args=1 steps=1 {
  op_names
  ops
  info grid_steps=1 schedule_cycles=0 spills=0 fills=0 temp_loads=0 temp_stores=0 max_live_vregs=0 vmem_bytes=0 flops=0
  allocation "acc" vmem at=8 size=16
  blocks first=1 last=1 trips=4 grid=0 latch=1
  block 0 "entry" trips=1 grid=0
    %s1 = smov 0
  block 1 "body" trips=4 grid=0
    %v0 = vld [vmem:%s0] buf:0
    %t0 = vpow2.f32 %v0
    %v1 = vpop.eup %t0
    %p0 = scmp.lt.s32 %s1, 4
    (%p0) sbr.rel ->1
}
)";
  DiagSink diags;
  auto program = ParseLlo(Text(text), &diags);
  ASSERT_TRUE(program) << diags.Render();
  EXPECT_EQ(PrintLlo(*program), text);
  EXPECT_EQ(program->tlp.registers[static_cast<int>(isa::RegClass::kVector)], 2);
}

TEST(BundleText, Messages) {
  struct Row {
    const char *from, *to, *message;
  } rows[] = {
      {"vld [vmem:s0]", "vlld [vmem:s0]",
       "test.txt:22:13: error: unknown instruction 'vlld' [E0601]"},
      {"sadd.s32 s0, 1", "sadd.s32 s0", "expected 2 operands, found 1 [E0600]"},
      {"  1: { }", "  2: { }", "expected bundle 1; bundles are numbered in order [E0600]"},
      {"tpuc.bundles 1", "tpuc.bundles 2", "version 2 is not known here [E0600]"},
      {"AAECAwQFBgc=", "AAE*", "this is not base64 [E0600]"},
      {"kernel 0", "kernel 1", "kernels are numbered 0, 1, 2 ... in order [E0600]"},
      {"args=2", "args=99999999999", "number out of range [E0600]"},
      {"->0", "", "expected a target, such as ->3 [E0600]"},
      {"v0 = vld", "vld", "expected a result of class v [E0600]"},
      {"}}}\n", "", "expected the chip's text and a line '}}}' [E0600]"},
  };
  for (const Row& row : rows) {
    std::string text = kProgram;
    size_t at = text.find(row.from);
    ASSERT_NE(at, std::string::npos) << row.from;
    text.replace(at, std::string(row.from).size(), row.to);
    DiagSink diags;
    EXPECT_FALSE(ParseBundles(Text(text), &diags)) << row.to;
    EXPECT_NE(diags.Render().find(row.message), std::string::npos)
        << row.to << "\n" << diags.Render();
  }
}

TEST(BundleText, TruncationIsAnErrorNeverACrash) {
  std::string text = kProgram;
  for (size_t n = 0; n < text.size(); ++n) {
    DiagSink diags;
    auto program = ParseBundles(Text(text.substr(0, n)), &diags);
    EXPECT_EQ(program == nullptr, diags.has_errors()) << n;
  }
}

}  // namespace
}  // namespace tpuc::bundle
