// Kernels of the real compiler, rebuilt from their published instruction mixes, against their
// published schedule lengths (tpu-v6e-compiler.md (c)).
#include <string>

#include "absl/strings/str_cat.h"
#include "backend/llo/verifier.h"
#include "backend/regalloc/assemble.h"
#include "gtest/gtest.h"
#include "tests/unit/schedule/llo_text.h"

namespace tpuc {
namespace {

isa::Function Assembled(const std::string& body, int args) {
  llo::Function f = LloFromText("block 0 \"entry\" trips=1 grid=0\n" + body, args);
  DiagSink diags;
  EXPECT_TRUE(VerifyLlo(f, &diags)) << diags.Render();
  isa::Function out;
  AssembleOptions options;
  options.spill_row = 4096;
  EXPECT_TRUE(Assemble(f, V6e(), options, &out, nullptr, &diags)) << diags.Render();
  return out;
}

// The lane-major f32[16] at `arg`, spread over the rows of two registers %v<to>, %v<to+1>.
std::string Broadcast(int arg, int to) {
  return absl::StrCat("%v", to + 2, " = vld [vmem:%s", arg, "] ss:0 buf:", arg, "\n%t", to,
                      " = vbcast.lane.b32 %v", to + 2, ", 256\n%t", to + 1, " = vbcast.lane.b32 %v",
                      to + 2, ", 264\n%v", to, " = vpop.permute %t", to, "\n%v", to + 1,
                      " = vpop.permute %t", to + 1, "\n");
}

std::string Eup(const std::string& op, int from, int to) {
  return absl::StrCat("%t", to, " = ", op, " %v", from, "\n%v", to, " = vpop.eup %t", to, "\n");
}

std::string Op(const std::string& op, int to, const std::string& sources) {
  return absl::StrCat("%v", to, " = ", op, " ", sources, "\n");
}

// Lanes 64.. masked, two registers transposed on one XLU, 16 results combined, then rotated by 4,
// 2, 1; stored to scratch (buf 3), loaded again and stored to the result (buf 2), as the emitter
// does.
std::string ReduceLanes(const std::string& op, const std::string& neutral, int a, int b) {
  std::string s = "%vm0 = vcmask 4194432\n";  // sublanes 0-7, lanes 0-63
  absl::StrAppend(&s, Op("vsel", 100, absl::StrCat("%vm0, %v", a, ", ", neutral)),
                  Op("vsel", 101, absl::StrCat("%vm0, %v", b, ", ", neutral)),
                  "%t100 = vxpose.b32.start %v100\nvxpose.b32.end %t100, %v101\n");
  for (int i = 0; i < 16; ++i) absl::StrAppend(&s, "%v", 110 + i, " = vpop.trf %t100\n");
  absl::StrAppend(&s, Op(op, 130, "%v110, %v111"));
  for (int i = 2; i < 16; ++i) {
    absl::StrAppend(&s, Op(op, 129 + i, absl::StrCat("%v", 128 + i, ", %v", 110 + i)));
  }
  int last = 144;
  for (int n : {4, 2, 1}) {
    absl::StrAppend(&s, Op("vrot.slane", last + 1, absl::StrCat("%v", last, ", ", n)),
                    Op(op, last + 2, absl::StrCat("%v", last, ", %v", last + 1)));
    last += 2;
  }
  absl::StrAppend(&s, "vst [vmem:0], %v", last, " sm:0x01 buf:4\n",
                  "%v151 = vld [vmem:0] sm:0x01 buf:4\nvst [vmem:%s2], %v151 sm:0x01 buf:2\n");
  return s;
}

// fusion.5, row maximum of h / sqrt: 342. vld 1, vbcast 2, pop 116, vrcp 117, pop 130, vmul 131,
// vsel 133, transpose 134 and 138, pops 258 .. 318, vmax 319, three rotations and maxima 321 ..
// 331, vst 333, vld 340, vst 341.
TEST(Published, RowMaximumTakes342Cycles) {
  std::string s = "%v0 = vld [vmem:%s0] buf:0\n%v1 = vld [vmem:%s0+8] buf:0\n";
  s += Broadcast(1, 10) + Eup("vrcp.f32", 10, 20) + Eup("vrcp.f32", 11, 21);
  s += Op("vmul.f32", 30, "%v20, %v0") + Op("vmul.f32", 31, "%v21, %v1");
  s += ReduceLanes("vmax.f32", "4286578688", 30, 31);  // -inf
  std::string allocation = "allocation \"scratch\" vmem at=0 size=8\n";
  llo::Function f = LloFromText("allocation \"pad\" vmem at=64 size=8\n" + allocation +
                                    "block 0 \"entry\" trips=1 grid=0\n" + s,
                                3);
  isa::Function k;
  DiagSink diags;
  ASSERT_TRUE(VerifyLlo(f, &diags)) << diags.Render();
  ASSERT_TRUE(Assemble(f, V6e(), AssembleOptions(), &k, nullptr, &diags));
  EXPECT_EQ(k.info.schedule_cycles, 342);
}

// fusion.2, row sum of exp(h / sqrt - max): 360. As above with the maximum's broadcast (behind the
// first on the XLUs), vsub 133, vmul 135, vpow2 137, pop 150, vsel 151.
TEST(Published, RowSumOfExpTakes360Cycles) {
  std::string s = "%v0 = vld [vmem:%s0] buf:0\n%v1 = vld [vmem:%s0+8] buf:0\n";
  s += Broadcast(1, 10) + Broadcast(3, 13);
  s += Eup("vrcp.f32", 10, 20) + Eup("vrcp.f32", 11, 21);
  s += Op("vmul.f32", 30, "%v20, %v0") + Op("vmul.f32", 31, "%v21, %v1");
  s += Op("vsub.f32", 32, "%v30, %v13") + Op("vsub.f32", 33, "%v31, %v14");
  s += Op("vmul.f32", 34, "%v32, 1.442695f") + Op("vmul.f32", 35, "%v33, 1.442695f");
  s += Eup("vpow2.f32", 34, 36) + Eup("vpow2.f32", 35, 37);
  s += ReduceLanes("vadd.f32", "0f", 36, 37);
  llo::Function f = LloFromText(
      "allocation \"scratch\" vmem at=0 size=8\nblock 0 \"entry\" trips=1 grid=0\n" + s, 4);
  isa::Function k;
  DiagSink diags;
  ASSERT_TRUE(VerifyLlo(f, &diags)) << diags.Render();
  ASSERT_TRUE(Assemble(f, V6e(), AssembleOptions(), &k, nullptr, &diags));
  EXPECT_EQ(k.info.schedule_cycles, 360);
}

// "sum + normalise in one kernel, un-normalised p into the MXU while the XLU sums": 224 with
// replicated statistics (schedule-targets.md section 2). Weights are N = 32 as 4 transposed pushes.
TEST(Published, SoftmaxAndMatmulInOneKernelTakes224Cycles) {
  std::string s;
  for (int i = 3; i >= 0; --i) {
    absl::StrAppend(&s, "%v", 60 + i, " = vld [vmem:%s4+", 8 * i, "] buf:4\n");
    absl::StrAppend(&s, "vmatprep.subr.mxu0 %v", 60 + i, "\nvmatpush3.xpose.msra.mxu0 %v", 60 + i,
                    "\n");
  }
  s += "%vm0 = vcmask 4194432\n";
  for (int r = 0; r < 2; ++r) {
    int o = 8 * r;
    std::string a = absl::StrCat("+", o);
    if (r == 0) a = "";
    absl::StrAppend(&s, "%v", r, " = vld [vmem:%s0", a, "] buf:0\n");
    absl::StrAppend(&s, "%v", 2 + r, " = vld [vmem:%s1", a, "] buf:1\n");  // 1 / rms
    absl::StrAppend(&s, "%v", 4 + r, " = vld [vmem:%s2", a, "] buf:2\n");  // max
    s += Op("vmul.f32", 6 + r, absl::StrCat("%v", r, ", %v", 2 + r));
    s += Op("vsub.f32", 8 + r, absl::StrCat("%v", 6 + r, ", %v", 4 + r));
    s += Op("vmul.f32", 10 + r, absl::StrCat("%v", 8 + r, ", 1.442695f"));
    s += Eup("vpow2.f32", 10 + r, 12 + r);
    s += Op("vsel", 14 + r, absl::StrCat("%vm0, %v", 12 + r, ", 0f"));
    absl::StrAppend(&s, "%t", 14 + r, " = vadd.xlane.f32 %v", 14 + r, "\n%v", 16 + r,
                    " = vpop.xlane %t", 14 + r, "\n");
    s += Eup("vrcp.f32", 16 + r, 18 + r);
  }
  s += "vmatprep.mubr.msk.f32.mxu0 %vm0, %v13\n";
  s += "%t40 = vmatmul.mubr.msk.f32.vlgmr.msra.gmra.mxu0 %vm0, %v12\n";
  for (int r = 0; r < 2; ++r) {
    absl::StrAppend(&s, "%v", 40 + r, " = vpop.f32.mrf.mxu0 %t40\n");
    s += Op("vmul.f32", 42 + r, absl::StrCat("%v", 40 + r, ", %v", 18 + r));
    absl::StrAppend(&s, "vst [vmem:%s3+", 8 * r, "], %v", 42 + r, " buf:3\n");
  }
  isa::Function k = Assembled(s, 5);
  // vld 1, vmul 2, vsub 4, vmul 6, vpow2 8, pop 21; rows 8-15 one later: mubr 23, matmul 24 (the
  // last of the pushes, 4 apart from 3 on, is at 15). Pops 216 and 218, vmul 219, vst 221.
  EXPECT_LE(k.info.schedule_cycles, 224);
}

}  // namespace
}  // namespace tpuc
