// The bar of the pipeline: on x@w1, RMS norm, softmax, @w2, at three sizes, the kernels, the places
// and the copies are those of the real compiler (reference/tpu-v6e-compiler.md (a)).
#include <gtest/gtest.h>

#include <set>

#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "passes/kernel_time.h"
#include "passes/live_ranges.h"
#include "src/ir/op_table.h"
#include "tests/unit/passes/programs.h"

namespace tpuc {
namespace {

// The program with x[m,k], w1[k,n], w2[n,o].
std::string MiniAttention(int m, int k, int n, int o) {
  std::string text = ReadText(OracleDir() + "model/mini_attention.hlo");
  // x is told from h, which has the same shape, by where it stands.
  text = absl::StrReplaceAll(text, {{"{(f32[16,64]{1,0}", "{(f32[X]{1,0}"},
                                    {"a_0_.1: f32[16,64]", "a_0_.1: f32[X]"},
                                    {"a_0_.1 = f32[16,64]", "a_0_.1 = f32[X]"},
                                    {"constant(64)", absl::StrCat("constant(", n, ")")}});
  return absl::StrReplaceAll(text, {{"[X]", absl::StrCat("[", m, ",", k, "]")},
                                    {"[64,64]", absl::StrCat("[", k, ",", n, "]")},
                                    {"[64,32]", absl::StrCat("[", n, ",", o, "]")},
                                    {"[16,64]", absl::StrCat("[", m, ",", n, "]")},
                                    {"[16,32]", absl::StrCat("[", m, ",", o, "]")},
                                    {"[16,1]", absl::StrCat("[", m, ",1]")},
                                    {"[16]", absl::StrCat("[", m, "]")}});
}

// Operations of a kernel but for broadcasts, constants and the tuple, sorted.
std::string OpsOf(const Instruction& kernel) {
  std::multiset<std::string> ops;
  for (const auto& i : kernel.ComputationAttr(AttrId::kCalls)->instructions) {
    if (i->op == Op::kParameter || i->op == Op::kConstant || i->op == Op::kBroadcast ||
        i->op == Op::kTuple) {
      continue;
    }
    Op reducer;
    if (i->op == Op::kReduce && SimpleReducer(*i->ComputationAttr(AttrId::kToApply), &reducer)) {
      ops.insert(absl::StrCat("reduce-", OpName(reducer)));
    } else {
      ops.insert(std::string(OpName(i->op)));
    }
  }
  return absl::StrJoin(ops, " ");
}

struct Compiled {
  std::unique_ptr<Module> module;
  BufferAssignment buffers;
  DiagSink diags;
};

void Compile(const std::string& text, Compiled* out) {
  out->module = ParseText(text, &out->diags);
  ASSERT_TRUE(out->module) << out->diags.Render();
  ASSERT_TRUE(RunPipeline(out->module.get(), *BuiltinChip("v6e"), PipelineOptions{}, nullptr,
                          &out->buffers, &out->diags))
      << out->diags.Render();
}

int64_t Space(const Instruction& i) { return i.shape.layout->memory_space; }

class MiniAttentionTest : public testing::TestWithParam<std::array<int, 4>> {
 protected:
  void SetUp() override {
    if (ReadText(OracleDir() + "model/mini_attention.hlo").empty()) GTEST_SKIP() << "no oracle";
  }
};

TEST_P(MiniAttentionTest, HasTheRealCompilersShape) {
  auto [m, k, n, o] = GetParam();
  Compiled c;
  Compile(MiniAttention(m, k, n, o), &c);
  if (HasFatalFailure()) return;
  const Computation& entry = *c.module->entry;
  EXPECT_TRUE(c.module->is_scheduled);

  std::vector<std::string> kernels, order;
  for (const auto& i : entry.instructions) {
    if (i->op == Op::kFusion) {
      kernels.push_back(OpsOf(*i));
      order.push_back("fusion");
    } else {
      EXPECT_FALSE(IsKernel(*i)) << i->name;
      if (i->op == Op::kCopyStart || i->op == Op::kCopyDone) {
        const Instruction* p =
            i->op == Op::kCopyStart ? i->operands[0] : i->operands[0]->operands[0];
        order.push_back(absl::StrCat(OpName(i->op), " ", p->parameter_number));
      }
    }
  }
  EXPECT_EQ(kernels, (std::vector<std::string>{"dot multiply reduce-add", "add multiply sqrt",
                                               "divide reduce-maximum",
                                               "divide exponential reduce-add subtract",
                                               "divide divide dot exponential subtract"}));
  EXPECT_EQ(absl::StrJoin(order, "; "),
            "copy-start 1; copy-done 1; fusion; copy-start 2; fusion; fusion; fusion; copy-done 2; "
            "fusion");
  EXPECT_EQ(entry.instructions[0]->parameter_number, 1);
  EXPECT_EQ(entry.instructions[1]->op, Op::kCopyStart);
  EXPECT_EQ(entry.instructions[1]->IntAttr(AttrId::kCrossProgramPrefetchIndex, -1), 0);

  // x and the result in HBM, everything else that kernels read in VMEM.
  for (const auto& i : entry.instructions) {
    if (i->op != Op::kFusion) continue;
    for (const Instruction* operand : i->operands) {
      EXPECT_EQ(Space(*operand), operand->op == Op::kParameter ? 0 : 1) << operand->name;
      if (operand->op == Op::kParameter) {
        EXPECT_EQ(operand->parameter_number, 0);
      }
    }
  }
  EXPECT_EQ(Space(*entry.root), 0);
  for (const auto& i : entry.instructions) {
    if (i->op != Op::kFusion || !i->shape.IsTuple()) continue;
    EXPECT_EQ(i->name, "multiply_reduce_fusion");
    ASSERT_EQ(i->shape.elements.size(), 2);
    EXPECT_EQ(i->shape.elements[0].dims, (Dims{m}));
    EXPECT_EQ(i->shape.elements[1].dims, (Dims{m, n}));
    EXPECT_EQ(i->StringAttr(AttrId::kKind), "kOutput");
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, MiniAttentionTest,
                         testing::Values(std::array<int, 4>{16, 64, 64, 32},
                                         std::array<int, 4>{32, 128, 128, 64},
                                         std::array<int, 4>{24, 200, 72, 40},
                                         std::array<int, 4>{8, 64, 64, 32},
                                         std::array<int, 4>{256, 512, 512, 256}));

// Offsets of the real compiler: w1 0, h 32768, sqrt 40960, sum of squares and maximum 45056, sum
// 49152, w2 53248; 69,632 bytes in all.
TEST(MiniAttentionPlaces, AreTheRealCompilers) {
  std::string text = ReadText(OracleDir() + "model/mini_attention.hlo");
  if (text.empty()) GTEST_SKIP() << "no oracle";
  Compiled c;
  Compile(text, &c);
  if (testing::Test::HasFatalFailure()) return;
  std::vector<int64_t> offsets;
  for (const AssignedBuffer& b : c.buffers.buffers) {
    if (b.memory_space == 1) offsets.push_back(b.offset);
  }
  // In schedule order: w1, sum of squares, h, w2, sqrt, maximum, sum.
  EXPECT_EQ(offsets, (std::vector<int64_t>{0, 45056, 32768, 53248, 40960, 45056, 49152}));
  EXPECT_EQ(c.buffers.vmem_bytes, 69632);
  const Instruction* w2 = c.module->entry->Parameters()[2];
  EXPECT_EQ(ToString(w2->shape), "f32[64,32]{0,1:T(8,128)}");
  for (const auto& i : c.module->entry->instructions) {
    if (i->op == Op::kCopyStart && i->operands[0] == w2) {
      EXPECT_EQ(ToString(i->shape),
                "(f32[64,32]{0,1:T(8,128)S(1)}, f32[64,32]{0,1:T(8,128)}, u32[]{:S(2)})");
    }
  }
}

}  // namespace
}  // namespace tpuc
