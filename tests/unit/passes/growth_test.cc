// How the work of the passes that search (fusion, multi-output-fusion, memory) grows with the
// program: counted in steps, not in time. And first fit against a plain search.
#include <gtest/gtest.h>

#include <random>

#include "absl/strings/str_cat.h"
#include "passes/address_space.h"
#include "passes/multi_output_fusion.h"
#include "tests/unit/passes/programs.h"

namespace tpuc {
namespace {

// n instructions that read the one before (`chain`) or any of the last 64, and any of the last 64:
// of ten four add, three multiply, two are dots and one is a tanh.
std::string Generated(int n, bool chain) {
  const std::string shape = "f32[128,128]{1,0}";
  std::mt19937 random(1);
  std::string text = absl::StrCat("HloModule generated\nENTRY e {\n  v0 = ", shape,
                                  " parameter(0)\n  v1 = ", shape, " parameter(1)\n");
  for (int i = 2; i < n; ++i) {
    auto recent = [&] { return i - 1 - static_cast<int>(random() % std::min(i, 64)); };
    const int a = chain ? i - 1 : recent(), b = recent();
    const unsigned kind = random() % 10;
    absl::StrAppend(&text, i + 1 == n ? "  ROOT v" : "  v", i, " = ", shape, " ");
    if (kind < 4) {
      absl::StrAppend(&text, "add(v", a, ", v", b, ")\n");
    } else if (kind < 7) {
      absl::StrAppend(&text, "multiply(v", a, ", v", b, ")\n");
    } else if (kind < 9) {
      absl::StrAppend(&text, "dot(v", a, ", v", b,
                      "), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n");
    } else {
      absl::StrAppend(&text, "tanh(v", a, ")\n");
    }
  }
  return text + "}\n";
}

// Steps an instruction of the entry, counted where fusion begins.
double StepsOf(int n, bool chain) {
  DiagSink diags;
  std::unique_ptr<Module> module = ParseText(Generated(n, chain), &diags);
  EXPECT_TRUE(module);
  int64_t steps = 0;
  double instructions = 0;
  PipelineOptions options;
  options.steps = &steps;
  auto observer = [&](absl::string_view pass, const Module& m, bool, absl::string_view) {
    if (pass == "layout") instructions = static_cast<double>(m.entry->instructions.size());
  };
  BufferAssignment buffers;
  EXPECT_TRUE(RunPipeline(module.get(), *BuiltinChip("v6e"), options, observer, &buffers, &diags));
  return static_cast<double>(steps) / instructions;
}

// 4^0.1 = 1.149: issue 4's bar for the growth of compiling is an exponent of 1.1.
TEST(Growth, StepsOfGeneratedPrograms) {
  for (bool chain : {true, false}) {
    const double small = StepsOf(2000, chain), large = StepsOf(8000, chain);
    EXPECT_GT(small, 1);
    EXPECT_LE(large, 1.149 * small) << (chain ? "chain" : "dag");
  }
}

struct Box {
  int64_t offset, bytes, from, to;
};

// The lowest multiple of the granule at which nothing is in the way, by trying.
int64_t LowestFree(const std::vector<Box>& boxes, int64_t capacity, int64_t bytes, int64_t from,
                   int64_t to) {
  for (int64_t at = 0; at + bytes <= capacity; ++at) {
    bool free = true;
    for (const Box& b : boxes) {
      const bool same_time = b.from <= to && b.to >= from;
      free &= !(same_time && b.offset < at + bytes && b.offset + b.bytes > at);
    }
    if (free) return at;
  }
  return -1;
}

TEST(AddressSpace, IsFirstFit) {
  std::mt19937 random(7);
  for (int round = 0; round < 40; ++round) {
    const int64_t capacity = 60, length = round % 2 ? 400 : 12;
    AddressSpace space(capacity, 1);
    std::vector<Box> boxes;
    for (int n = 0; n < 120; ++n) {
      const int64_t bytes = 1 + random() % 9, from = random() % length;
      const int64_t to = std::min<int64_t>(length - 1, from + random() % (round % 3 ? 20 : length));
      const int64_t want = LowestFree(boxes, capacity, bytes, from, to);
      ASSERT_EQ(space.Find(bytes, from, to), want);
      ASSERT_EQ(space.Place(bytes, from, to), want);
      if (want >= 0) boxes.push_back({want, bytes, from, to});
    }
  }
}

// A hundred thousand buffers of which sixty are alive at a time: a few looks each.
TEST(AddressSpace, LooksAtWhatIsAlive) {
  AddressSpace space(int64_t{1} << 40, 512);
  const int64_t count = 100000;
  for (int64_t n = 0; n < count; ++n) ASSERT_GE(space.Place(4096, n, n + 59), 0);
  EXPECT_EQ(space.extent(), 60 * 4096);
  EXPECT_LE(space.steps(), 80 * count);
}

// e reads d and waits for m, which reads d: merging e into d would close a circle through the
// control edge.
TEST(MultiOutputFusion, ControlPredecessorsAreWays) {
  const std::string text =
      "HloModule m\nENTRY e {\n"
      "  p = f32[64,128]{1,0:T(8,128)} parameter(0)\n"
      "  d = f32[64,128]{1,0:T(8,128)} tanh(p)\n"
      "  m = f32[64,128]{1,0:T(8,128)} negate(d)\n"
      "  q = f32[64,128]{1,0:T(8,128)} abs(p), control-predecessors={m}\n"
      "  e = f32[64,128]{1,0:T(8,128)} add(d, q)\n"
      "  ROOT t = (f32[64,128]{1,0:T(8,128)}, f32[64,128]{1,0:T(8,128)}) tuple(m, e)\n}\n";
  DiagSink diags;
  std::unique_ptr<Module> module = ParseText(text, &diags);
  ASSERT_TRUE(module) << diags.errors();
  const std::optional<Literal> before = RunSeeded(*module, &diags);
  PassContext context;
  std::string remarks;
  context.chip = BuiltinChip("v6e");
  context.diags = &diags;
  context.remarks = &remarks;
  MultiOutputFusion().Run(module.get(), &context);
  EXPECT_TRUE(VerifyHlo(*module, &diags));
  EXPECT_NE(remarks.find("waits for it by another way"), std::string::npos) << remarks;
  const std::optional<Literal> after = RunSeeded(*module, &diags);
  ASSERT_TRUE(before && after);
  EXPECT_EQ(Compare(*before, *after), "");
}

// A reader 300 instructions behind is out of reach; one that stands next is taken in.
TEST(MultiOutputFusion, Reach) {
  const std::string shape = "f32[64,128]{1,0:T(8,128)}";
  std::string text =
      absl::StrCat("HloModule m\nENTRY e {\n  p = ", shape, " parameter(0)\n  d = ", shape,
                   " tanh(p)\n  near = ", shape, " negate(d)\n  x0 = ", shape, " abs(p)\n");
  for (int i = 1; i <= 300; ++i) {
    absl::StrAppend(&text, "  x", i, " = ", shape, " custom-call(x", i - 1,
                    "), custom_call_target=\"f\"\n");
  }
  absl::StrAppend(&text, "  far = ", shape, " exponential(d)\n  ROOT t = (", shape, ", ", shape,
                  ", ", shape, ") tuple(near, far, x300)\n}\n");
  DiagSink diags;
  std::unique_ptr<Module> module = ParseText(text, &diags);
  ASSERT_TRUE(module);
  PassContext context;
  std::string remarks;
  context.chip = BuiltinChip("v6e");
  context.diags = &diags;
  context.remarks = &remarks;
  EXPECT_TRUE(MultiOutputFusion().Run(module.get(), &context));
  EXPECT_TRUE(VerifyHlo(*module, &diags));
  EXPECT_NE(remarks.find("near into d: saves"), std::string::npos) << remarks;
  EXPECT_NE(remarks.find("far into d: refused, is out of reach"), std::string::npos) << remarks;
}

}  // namespace
}  // namespace tpuc
