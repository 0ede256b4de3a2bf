// Every diagnostic of the kernel verifier from an input that provokes it, and inputs that pass.
#include "backend/kernel/verifier.h"

#include "backend/kernel/windows.h"
#include "tests/unit/kernel/testing.h"

namespace tpuc {
namespace {

std::string Verify(const kernel::Program& p) {
  DiagSink diags;
  const bool ok = VerifyKernels(p, SmallChip(), &diags);
  EXPECT_EQ(ok, !diags.has_errors());
  return diags.Render();
}

std::string VerifyText(const std::string& text, const Sets& set = {}) {
  auto p = Kernels(text, set);
  return p == nullptr ? "parse error" : Verify(*p);
}

#define EXPECT_HAS(text, part) \
  EXPECT_NE((text).find(part), std::string::npos) << "missing: " << (part) << "\n" << (text)

TEST(Verifier, GoodKernelsPass) {
  EXPECT_EQ(VerifyText(R"(kernel k {
    grid i: 4, j: 2;
    in x: f32[32,256] block [8, 128] at (i, j);
    in v: f32[4096] block [1024] at (i);
    out o: f32[32,128] block [8, 128] at (i, 0);
    when j == 0 { o[:] = 0; }
    for r in 0..1 { o[r * 8 :+ 8, :] += x[:]; }
  })"),
            "");
}

TEST(Verifier, BlockShapes) {
  const std::string minor = VerifyText(R"(kernel k {
    grid j: 3;
    in x: f32[32,300] block [8, 100] at (0, j);
    out o: f32[8,128];
    o[:] = 0;
  })");
  EXPECT_HAS(minor, "E2002");
  EXPECT_HAS(minor, "block dimension 1 is 100: it must be a multiple of 128 or the array's 300");
  EXPECT_HAS(minor, "nearest allowed: 128, 300");
  EXPECT_HAS(minor, "t.tk:3:8");
  const std::string second = VerifyText(R"(kernel k {
    grid i: 3;
    in x: f32[36,128] block [12, 128] at (i, 0);
    out o: f32[8,128];
    o[:] = 0;
  })");
  EXPECT_HAS(second, "block dimension 0 is 12: it must be a multiple of 8 or the array's 36");
  EXPECT_HAS(second, "nearest allowed: 8, 16, 36");
  // In a column-major array the other dimension is the tiled one.
  EXPECT_HAS(VerifyText(R"(kernel k {
    grid i: 4;
    in x: f32[32,128]{0,1:T(8,128)} block [8, 128] at (i, 0);
    out o: f32[8,128];
    o[:] = 0;
  })"),
             "block dimension 0 is 8: it must be a multiple of 128");
}

TEST(Verifier, OneDimensionalBlocks) {
  const auto with = [](int64_t size, int64_t block) {
    return VerifyText(absl::StrCat("kernel k { grid i: ", (size + block - 1) / block,
                                   "; in x: bf16[", size, "] block [", block,
                                   "] at (i); out o: f32[8,128]; o[:] = 0; }"));
  };
  EXPECT_EQ(with(16, 16), "");
  EXPECT_EQ(with(1 << 14, 3 * 1024), "");
  EXPECT_EQ(with(1 << 14, 256), "");  // bf16: 128 * 32 / 16
  const std::string bad = with(1000, 128);
  EXPECT_HAS(bad, "E2002");
  EXPECT_HAS(bad, "a power of two of at least 256");
  EXPECT_HAS(bad, "nearest allowed: 256, 1000");
}

TEST(Verifier, IndexMaps) {
  const std::string out = VerifyText(R"(kernel k {
    grid i: 4;
    in x: f32[32,128] block [8, 128] at (i * 8, 0);
    out o: f32[8,128];
    o[:] = 0;
  })");
  EXPECT_HAS(out, "E0504");
  EXPECT_HAS(out, "block 8 of dimension 0 at i=1: the array of 32 elements has blocks 0 to 3 of 8");
  EXPECT_HAS(VerifyText(R"(kernel k {
    grid i: 2;
    in x: f32[32,128] block [8, 128] at (4 / i, 0);
    out o: f32[8,128];
    o[:] = 0;
  })"),
             "the index map has no value at i=0");
}

TEST(Verifier, LargeGridsAreCheckedAtTheirCorners) {
  EXPECT_HAS(VerifyText(R"(kernel k {
    grid i: 4096, j: 4096;
    in x: f32[32768,128] block [8, 128] at (i + j, 0);
    out o: f32[8,128];
    o[:] = 0;
  })"),
             "E0504");
}

TEST(Verifier, OutputsWrittenOnceInOneRun) {
  EXPECT_HAS(
      VerifyText(
          "kernel k { in x: f32[8,128]; out o: f32[8,128]; scratch s: f32[8,128]; s[:] = x[:]; }"),
      "E0505");
  const std::string partly = VerifyText(R"(kernel k {
    grid i: 3;
    out o: f32[32,128] block [8, 128] at (i, 0);
    o[:] = 0;
  })");
  EXPECT_HAS(partly, "the grid visits 3 of its 4 blocks");
  const std::string again = VerifyText(R"(kernel k {
    grid k: 2, i: 4;
    out o: f32[32,128] block [8, 128] at (i, 0);
    o[:] = 0;
  })");
  EXPECT_HAS(again, "E0506");
  EXPECT_HAS(again, "block (0, 0) is visited again at k=1, i=0");
}

TEST(Verifier, DynamicStartsMustBeSeenToBeAligned) {
  const auto with = [](const std::string& start) {
    return VerifyText(absl::StrCat(R"(kernel k {
      param B = 8;
      grid i: 4;
      in x: f32[32,512];
      out o: f32[8,128];
      o[:] = )",
                                   start, "; }"));
  };
  EXPECT_EQ(with("x[i * B :+ 8, 0:128]"), "");
  EXPECT_EQ(with("x[0:8, i * 128 :+ 128]"), "");
  const std::string odd = with("x[i * 4 :+ 8, 0:128]");
  EXPECT_HAS(odd, "E2003");
  EXPECT_HAS(odd, "start in dimension 0 of x is a multiple of 8: it is known to be one of 4");
  EXPECT_HAS(with("x[0:8, i * 64 :+ 128]"), "is a multiple of 128");
  const std::string outside = with("x[i * 16 :+ 8, 0:128]");
  EXPECT_HAS(outside, "E0509");
  EXPECT_HAS(outside, "starts from 0 to 48, 8 elements, leave the block of 32");
}

TEST(Verifier, VmemBudget) {
  const std::string text = R"(kernel k {
    param bm = 1024;
    grid i: cdiv(4096, bm);
    in x: f32[4096,256] block [bm, 256] at (i, 0);
    out o: f32[4096,256] block [bm, 256] at (i, 0);
    scratch s: f32[8,128];
    o[:] = x[:];
  })";
  const std::string errors = VerifyText(text);
  EXPECT_HAS(errors, "E1001");
  // Two buffers each of 1 MiB for x and o, 4 KiB of scratch; the chip has 1 MiB.
  EXPECT_HAS(errors, "take 4198400 bytes of VMEM, the limit of one kernel is 1048576");
  EXPECT_HAS(errors, "x: 2097152 bytes = 2 x 1048576");
  EXPECT_HAS(errors, "s: 4096 bytes = 1 x 4096");
  EXPECT_HAS(errors, "--set bm=248");
  EXPECT_EQ(VerifyText(text, {{"bm", 248}}), "");
  EXPECT_HAS(VerifyText(text, {{"bm", 256}}), "E1001");
}

TEST(Windows, BytesAreWholeTilesTwiceOnAGrid) {
  auto p = Kernels(R"(kernel k {
    grid i: 2;
    in a: f32[20,200] block [16, 200] at (i, 0);
    in b: bf16[20,200];
    in c: f32[16,128]{1,0:T(8,128)S(1)};
    in d: f32[100];
    out o: f32[32,128] block [16, 128] at (i, 0) buffers 1;
    o[:] = 0;
  })");
  const auto w = kernel::WindowsOf(p->kernels[0]);
  EXPECT_EQ(w[0].Total(), 2 * 16 * 256 * 4);
  EXPECT_EQ(w[1].Total(), 24 * 256 * 2);  // never moves: one buffer; 20 rows are 3 tiles of 8
  EXPECT_EQ(w[2].Total(), 0);             // a view
  EXPECT_EQ(w[3].Total(), 512);
  EXPECT_EQ(w[4].Total(), 16 * 128 * 4);
}

// ---- programs and bodies that no text gives, as a pass with a bug might.

const char* const kTwoStep = R"(
kernel k { in a: f32[8,128]; out o: f32[8,128]; t = a[:] + 1; o[:] = t; }
program p {
  buffer x: f32[8,128];
  buffer xv: f32[8,128]{1,0:T(8,128)S(1)};
  buffer r: f32[8,128];
  input x;
  output r;
  copy_start s: x -> xv;
  call k(x, r);
  copy_done d: s;
})";

TEST(Verifier, Programs) {
  auto p = Kernels(kTwoStep);
  EXPECT_EQ(Verify(*p), "");
  {
    auto q = *p;
    q.steps.pop_back();
    EXPECT_HAS(Verify(q), "copy s is never waited for");
  }
  {
    auto q = *p;
    q.steps.erase(q.steps.begin());
    EXPECT_HAS(Verify(q), "copy-done d of a copy that is not under way");
  }
  {
    auto q = *p;
    q.steps[1].operands[0] = 1;  // in VMEM
    EXPECT_HAS(Verify(q), "E0508");
  }
  {
    auto q = *p;
    q.steps[1].operands.pop_back();
    EXPECT_HAS(Verify(q), "no buffer for o");
  }
  {
    auto q = *p;
    q.buffers[2].offset = q.buffers[0].offset;
    EXPECT_HAS(Verify(q), "buffers x and r overlap in HBM at 0");
  }
  {
    auto q = *p;
    q.buffers[1].offset = SmallChip().vmem_bytes - 512;
    EXPECT_HAS(Verify(q), "buffer xv ends at");
  }
  {
    auto q = *p;
    q.outputs[0].buffer = -1;
    EXPECT_HAS(Verify(q), "output r has no buffer");
  }
}

TEST(Verifier, Bodies) {
  auto p = Kernels(kTwoStep);
  kernel::Kernel& k = p->kernels[0];
  // load, constant, broadcast, add, store
  ASSERT_EQ(k.nodes.size(), 5u);
  const kernel::Kernel good = k;
  k.nodes[3].shape.dims = {8, 64};
  EXPECT_HAS(Verify(*p), "E0502");
  k = good;
  std::swap(k.body.nodes[2], k.body.nodes[3]);
  EXPECT_HAS(Verify(*p), "is used where it is not computed yet");
  k = good;
  k.nodes[0].slices[0].start = 1;
  EXPECT_HAS(Verify(*p), "E0509");
  k = good;
  k.nodes[4].ref = 0;
  EXPECT_HAS(Verify(*p), "inputs are read only");
  k = good;
  k.nodes[4].ref = 7;
  EXPECT_HAS(Verify(*p), "E0511");
}

}  // namespace
}  // namespace tpuc
