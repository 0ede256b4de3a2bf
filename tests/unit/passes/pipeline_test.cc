// The loop over the passes, the diagnostics of passes, buffer assignment and its checker.
#include <gtest/gtest.h>

#include "passes/memory_checker.h"
#include "passes/tiling_rule.h"
#include "tests/unit/passes/programs.h"

namespace tpuc {
namespace {

constexpr char kChain[] = R"(HloModule chain
ENTRY e {
  x = f32[64,128] parameter(0)
  w = f32[128,128] parameter(1)
  a = f32[64,128] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b = f32[64,128] dot(a, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  c = f32[64,128] dot(b, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT d = f32[64,128] dot(c, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})";

std::unique_ptr<Module> Parse(const char* text) {
  DiagSink diags;
  auto module = ParseText(text, &diags);
  EXPECT_TRUE(module) << diags.Render();
  return module;
}

// The chip with other sizes of memory.
Chip SmallChip(int64_t hbm, int64_t vmem, int64_t scoped) {
  Chip chip = *BuiltinChip("v6e");
  chip.hbm_bytes = hbm;
  chip.vmem_bytes = vmem;
  chip.scoped_vmem_bytes = scoped;
  return chip;
}

TEST(Pipeline, UnknownPassIsADiagnostic) {
  auto module = Parse(kChain);
  DiagSink diags;
  BufferAssignment buffers;
  PipelineOptions options;
  options.all = false;
  options.passes = {"fusoin"};
  EXPECT_FALSE(RunPipeline(module.get(), *BuiltinChip("v6e"), options, nullptr, &buffers, &diags));
  std::string text = diags.Render();
  EXPECT_NE(text.find("E1002"), std::string::npos) << text;
  EXPECT_NE(text.find("did you mean 'fusion'?"), std::string::npos) << text;
}

TEST(Pipeline, NamedSkippedAndStopped) {
  auto passes_run = [](PipelineOptions options) {
    auto module = Parse(kChain);
    DiagSink diags;
    BufferAssignment buffers;
    std::vector<std::string> names;
    EXPECT_TRUE(RunPipeline(
        module.get(), *BuiltinChip("v6e"), options,
        [&](absl::string_view pass, const Module&, bool, absl::string_view) {
          names.emplace_back(pass);
        },
        &buffers, &diags))
        << diags.Render();
    return names;
  };
  PipelineOptions none;
  none.all = false;
  EXPECT_TRUE(passes_run(none).empty());
  PipelineOptions two = none;
  two.passes = {"dce", "cse"};
  EXPECT_EQ(passes_run(two), (std::vector<std::string>{"dce", "cse"}));
  PipelineOptions stop;
  stop.stop_after = "layout";
  EXPECT_EQ(passes_run(stop).back(), "layout");
  PipelineOptions skip;
  skip.disabled = {"simplify"};
  for (const std::string& name : passes_run(skip)) EXPECT_NE(name, "simplify");
  EXPECT_EQ(passes_run(PipelineOptions{}).size(), PassTable().size());
}

// Any pass may be left out: the value stays and the module verifies.
TEST(Pipeline, EachPassLeftOut) {
  for (const PassRow& row : PassTable()) {
    for (const char* name : {"model/mini_attention", "model/swiglu", "move/zero_sized"}) {
      std::string text = ReadText(OracleDir() + name + ".hlo");
      if (text.empty()) GTEST_SKIP() << "no oracle";
      SCOPED_TRACE(absl::StrCat(name, " without ", row.name));
      DiagSink diags;
      auto module = ParseText(text, &diags);
      ASSERT_TRUE(module);
      std::optional<Literal> expected = RunSeeded(*module, &diags);
      PipelineOptions options;
      options.disabled = {std::string(row.name)};
      BufferAssignment buffers;
      ASSERT_TRUE(
          RunPipeline(module.get(), *BuiltinChip("v6e"), options, nullptr, &buffers, &diags))
          << diags.Render();
      ASSERT_TRUE(VerifyHlo(*module, &diags)) << diags.Render();
      std::optional<Literal> actual = RunSeeded(*module, &diags);
      ASSERT_TRUE(expected && actual) << diags.Render();
      EXPECT_EQ(Compare(*expected, *actual), "");
    }
  }
}

TEST(Pipeline, VerifyEachStops) {
  auto module = Parse(kChain);
  DiagSink diags;
  BufferAssignment buffers;
  std::vector<std::string> seen;
  PipelineOptions options;
  options.verify_each = [&](absl::string_view pass, const Module&) {
    seen.emplace_back(pass);
    return pass != "layout";
  };
  EXPECT_FALSE(RunPipeline(module.get(), *BuiltinChip("v6e"), options, nullptr, &buffers, &diags));
  EXPECT_EQ(seen, (std::vector<std::string>{"", "layout"}));
}

TEST(Pipeline, EveryRowSaysWhatItIsFor) {
  for (const PassRow& row : PassTable()) {
    EXPECT_EQ(row.make()->name(), row.name);
    EXPECT_FALSE(row.purpose.empty());
  }
}

TEST(Memory, FullHbmNamesTheBuffers) {
  auto module = Parse(kChain);
  DiagSink diags;
  BufferAssignment buffers;
  EXPECT_FALSE(RunPipeline(module.get(), SmallChip(100000, 1 << 27, 1 << 25), PipelineOptions{},
                           nullptr, &buffers, &diags));
  std::string text = diags.Render();
  EXPECT_NE(text.find("E1000"), std::string::npos) << text;
  EXPECT_NE(text.find("the chip has 100000"), std::string::npos) << text;
  EXPECT_NE(text.find("65536 bytes, parameter"), std::string::npos) << text;
}

TEST(Memory, AskedForVmemThatIsNotThere) {
  auto module = Parse(R"(HloModule big, is_scheduled=true
ENTRY e {
  x = f32[8192,4096]{1,0:T(8,128)} parameter(0)
  ROOT r = f32[8192,4096]{1,0:T(8,128)S(1)} negate(x)
})");
  DiagSink diags;
  BufferAssignment buffers;
  EXPECT_FALSE(
      RunPipeline(module.get(), *BuiltinChip("v6e"), PipelineOptions{}, nullptr, &buffers, &diags));
  std::string text = diags.Render();
  EXPECT_NE(text.find("E1001"), std::string::npos) << text;
  EXPECT_NE(text.find("134217728 bytes asked, 100663296 of 100663296 available"), std::string::npos)
      << text;
}

// Room for one 64 KiB weight and one 32 KiB value: the chain still compiles, with the rest in HBM,
// and the checker proves it (the pass runs it).
TEST(Memory, LittleVmem) {
  for (int64_t vmem : {0, 4096, 40960, 65536, 100000, 140000, 200000, 1 << 20}) {
    auto module = Parse(kChain);
    DiagSink diags;
    std::optional<Literal> expected = RunSeeded(*module, &diags);
    BufferAssignment buffers;
    ASSERT_TRUE(RunPipeline(module.get(), SmallChip(1 << 30, vmem, 0), PipelineOptions{}, nullptr,
                            &buffers, &diags))
        << diags.Render();
    EXPECT_LE(buffers.vmem_bytes, vmem);
    ASSERT_TRUE(VerifyHlo(*module, &diags)) << diags.Render() << PrintHlo(*module);
    std::optional<Literal> actual = RunSeeded(*module, &diags);
    ASSERT_TRUE(expected && actual) << diags.Render();
    EXPECT_EQ(Compare(*expected, *actual), "");
  }
}

// a is read at once and again at the end; between them the larger b, c have more use of the room.
TEST(Memory, EvictsWhatWaitsLongest) {
  std::string text = R"(HloModule evict
ENTRY e {
  x = f32[512,512] parameter(0)
  a = f32[512,512] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  a1 = f32[512,512] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
)";
  for (int n = 1; n < 12; ++n) {
    absl::StrAppend(&text, "  a", n + 1, " = f32[512,512] dot(a", n, ", a", n,
                    "), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n");
  }
  text +=
      "  ROOT r = f32[512,512] dot(a12, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}";
  DiagSink diags;
  auto module = ParseText(text, &diags);
  ASSERT_TRUE(module) << diags.Render();
  std::optional<Literal> expected = RunSeeded(*module, &diags);
  BufferAssignment buffers;
  std::string remarks;
  PipelineOptions options;
  options.want_remarks = true;
  options.disabled = {};
  ASSERT_TRUE(RunPipeline(
      module.get(), SmallChip(1 << 30, 5 << 19, 0), options,
      [&](absl::string_view pass, const Module&, bool, absl::string_view r) {
        if (pass == "memory") remarks = std::string(r);
      },
      &buffers, &diags))
      << diags.Render();
  std::optional<Literal> actual = RunSeeded(*module, &diags);
  ASSERT_TRUE(expected && actual) << diags.Render();
  EXPECT_EQ(Compare(*expected, *actual), "") << PrintHlo(*module);
  EXPECT_LE(buffers.vmem_bytes, 5 << 19);
  ASSERT_TRUE(VerifyHlo(*module, &diags)) << diags.Render();
}

TEST(Checker, FindsWhatIsWrong) {
  auto module = Parse(kChain);
  DiagSink diags;
  BufferAssignment buffers;
  const Chip& chip = *BuiltinChip("v6e");
  ASSERT_TRUE(RunPipeline(module.get(), chip, PipelineOptions{}, nullptr, &buffers, &diags));
  EXPECT_TRUE(CheckBuffers(*module, buffers, chip).empty());
  auto wrong_after = [&](auto change) {
    BufferAssignment changed = buffers;
    change(&changed);
    return !CheckBuffers(*module, changed, chip).empty();
  };
  ASSERT_GE(buffers.buffers.size(), 4);
  // Each buffer moved onto each other of its memory that lives at the same time.
  int clashes = 0;
  for (size_t a = 0; a < buffers.buffers.size(); ++a) {
    for (size_t b = 0; b < buffers.buffers.size(); ++b) {
      const AssignedBuffer &x = buffers.buffers[a], &y = buffers.buffers[b];
      if (a == b || x.memory_space != y.memory_space || x.to < y.from || y.to < x.from) continue;
      ++clashes;
      EXPECT_TRUE(wrong_after([&](BufferAssignment* c) { c->buffers[a].offset = y.offset; }))
          << x.instruction->name << " on " << y.instruction->name;
    }
  }
  EXPECT_GT(clashes, 2);
  EXPECT_TRUE(wrong_after([](BufferAssignment* c) { c->buffers[0].offset += 8; }));
  EXPECT_TRUE(wrong_after([](BufferAssignment* c) { c->buffers[0].bytes = 512; }));
  EXPECT_TRUE(wrong_after([&](BufferAssignment* c) { c->buffers[0].offset = chip.hbm_bytes; }));
  EXPECT_TRUE(wrong_after([](BufferAssignment* c) { c->buffers[0].memory_space ^= 1; }));
}

// reference/tpu-v6e-compiler.md (a) and (h).
TEST(Tiling, Rules) {
  auto text = [](Type type, Dims dims) {
    Shape s = Shape::Array(type, dims);
    s.layout = TiledLayout(type, dims, SmallerOrder(type, dims));
    return ToString(s);
  };
  EXPECT_EQ(text(Type::kF32, {64, 32}), "f32[64,32]{0,1:T(8,128)}");
  EXPECT_EQ(text(Type::kF32, {64, 64}), "f32[64,64]{1,0:T(8,128)}");
  EXPECT_EQ(text(Type::kF32, {16, 64}), "f32[16,64]{1,0:T(8,128)}");
  EXPECT_EQ(text(Type::kF32, {16, 32}), "f32[16,32]{1,0:T(8,128)}");
  EXPECT_EQ(text(Type::kF32, {16}), "f32[16]{0:T(128)}");
  EXPECT_EQ(text(Type::kF32, {1, 300}), "f32[1,300]{1,0:T(1,128)}");
  EXPECT_EQ(text(Type::kF32, {2, 300}), "f32[2,300]{1,0:T(2,128)}");
  EXPECT_EQ(text(Type::kF32, {3, 300}), "f32[3,300]{1,0:T(4,128)}");
  EXPECT_EQ(text(Type::kBF16, {8, 2048, 128}), "bf16[8,2048,128]{2,1,0:T(8,128)(2,1)}");
  EXPECT_EQ(text(Type::kS8, {64, 256}), "s8[64,256]{1,0:T(8,128)(4,1)}");
  EXPECT_EQ(text(Type::kPred, {3, 256}), "pred[3,256]{1,0:T(4,128)(4,1)}");
}

TEST(Tiling, FreeReshapes) {
  auto shape = [](Dims dims) {
    Shape s = Shape::Array(Type::kF32, dims);
    s.layout = TiledLayout(Type::kF32, dims, RowMajor(static_cast<int>(dims.size())));
    return s;
  };
  EXPECT_TRUE(ReshapeIsBitcast(shape({64, 16}), shape({1, 64, 1, 16})));
  EXPECT_TRUE(ReshapeIsBitcast(shape({2, 64, 200}), shape({128, 200})));
  EXPECT_FALSE(ReshapeIsBitcast(shape({2, 60, 200}), shape({120, 200})));
  EXPECT_FALSE(ReshapeIsBitcast(shape({16, 1}), shape({16})));
  EXPECT_FALSE(ReshapeIsBitcast(shape({7, 1, 130}), shape({7, 130})));
  EXPECT_TRUE(ReshapeIsBitcast(shape({1024}), shape({8, 128})));
}

}  // namespace
}  // namespace tpuc
