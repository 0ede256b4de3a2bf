// Each rule of the LLO verifier: a function that keeps it, and one that breaks it.
#include "backend/llo/verifier.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/unit/schedule/llo_text.h"

namespace tpuc {
namespace {

std::string Problem(const llo::Function& f) {
  DiagSink diags;
  bool ok = VerifyLlo(f, &diags);
  EXPECT_EQ(ok, diags.diags().empty());
  if (ok) return "";
  const Diag& d = diags.diags()[0];
  return std::string(InfoOf(d.code).code) + ": " + d.message;
}

TEST(VerifyLlo, Table) {
  struct Row {
    const char *body, *problem;  // problem: part of the message; "" for none
  };
  const std::vector<Row> rows = {
      {"%v0 = vld [vmem:%s0] buf:0\nvst [vmem:%s0], %v0\n", ""},
      {"vst [vmem:%s0], %v0\n", "E0681"},
      {"%v0 = vadd.f32 %v0, 1f\n", "reads register v0"},
      {"%p0 = scmp.lt.s32 %s0, 1\n(%p0) %v0 = vmov 1f\nvst [vmem:%s0], %v0\n", ""},
      {"%v0 = vld [vmem:%s0] buf:7\n", "names buffer 7 of 1"},
      {"%t0 = vpow2.f32 1f\n%v0 = vpop.eup %t0\n", ""},
      {"%t0 = vpow2.f32 1f\n", "E0682: "},
      {"%t0 = vpow2.f32 1f\n%v0 = vpop.xlane %t0\n", "cannot take a result of"},
      {"%t0 = vpow2.f32 1f\n%v0 = vpop.eup %t0\n%v0 = vpop.eup %t0\n", "has no results left"},
      {"%t0 = vxpose.b32.start 1f\n", "the transpose has no end"},
      {"%v0 = vpop.eup %t0\n", "is not pushed before"},
      {"%p0 = scmp.lt.s32 %s0, 1\n(%p0) sbr.rel ->0\n%s1 = smov 1\n", "is not the last"},
  };
  for (const Row& row : rows) {
    std::string problem =
        Problem(LloFromText("block 0 \"entry\" trips=1 grid=0\n" + std::string(row.body), 1));
    if (row.problem[0] == 0) {
      EXPECT_EQ(problem, "") << row.body;
    } else {
      EXPECT_NE(problem.find(row.problem), std::string::npos) << row.body << "\ngot: " << problem;
    }
  }
}

TEST(VerifyLlo, EveryPathMustWrite) {
  constexpr char kOnePath[] = R"(
block 0 "entry" trips=1 grid=0
%p0 = scmp.lt.s32 %s0, 1
(%p0) sbr.rel ->2
block 1 "then" trips=1 grid=0
%v0 = vmov 1f
block 2 "join" trips=1 grid=0
vst [vmem:%s0], %v0
)";
  EXPECT_NE(Problem(LloFromText(kOnePath, 1)).find("E0681"), std::string::npos);
  std::string both(kOnePath);
  both.replace(both.find("%p0 ="), 0, "%v0 = vmov 2f\n");
  EXPECT_EQ(Problem(LloFromText(both, 1)), "");
}

TEST(VerifyLlo, MalformedOperands) {
  llo::Function f = LloFromText("block 0 \"entry\" trips=1 grid=0\n%v0 = vmov 1f\n", 0);
  llo::Function wrong_count = f;
  wrong_count.blocks[0].insts[0].src.clear();
  EXPECT_NE(Problem(wrong_count).find("E0680"), std::string::npos);
  llo::Function wrong_class = f;
  wrong_class.blocks[0].insts[0].dest = isa::M(0);
  EXPECT_NE(Problem(wrong_class).find("of class m"), std::string::npos);
  llo::Function wrong_number = f;
  wrong_number.blocks[0].insts[0].dest = isa::V(99);
  EXPECT_NE(Problem(wrong_number).find("register 99"), std::string::npos);
  llo::Function branch = f;
  branch.blocks[0].insts.push_back({});
  branch.blocks[0].insts.back().op = isa::Opcode::kSbr;
  branch.blocks[0].insts.back().target = 9;
  EXPECT_NE(Problem(branch).find("goes to block 9 of 1"), std::string::npos);
  llo::Function loop = f;
  loop.loops.push_back({0, 0, 2, false});
  EXPECT_NE(Problem(loop).find("does not branch back"), std::string::npos);
}

}  // namespace
}  // namespace tpuc
