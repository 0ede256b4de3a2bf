// An MXU of 128 x 128 (v5e): values against sums in double, which are exact here since all numbers
// are small whole ones; times against the figures of v5e.chip; what such an MXU does not have.
#include <gtest/gtest.h>

#include <functional>

#include "harness.h"

namespace tpuc::interp::testing {
namespace {

struct V5e : Harness {
  V5e() {
    chip = BuiltinChip("v5e");
    program.chip_name = "v5e";
  }
  // An 8 x 128 tile of f(row, lane) into vector register v.
  void Put(int v, const std::function<int(int, int)>& f) {
    Words tile(kTile);
    for (int i = 0; i < kTile; ++i) tile[i] = Bits(static_cast<float>(f(i / 128, i % 128)));
    Vmem(next_, tile);
    Bundle({Load(v, next_)});
    next_ += 8;
  }

 private:
  int next_ = 0;
};

int A(int r, int k) { return (7 * r + k) % 13 - 6; }
int W(int unit, int k, int n) { return (3 * k + 5 * n + unit) % 17 - 8; }

// x[8,128] . w[128,128] on each of four units, with other weights on each.
TEST(Mxu128Test, EachUnitMultipliesByItsOwnWeights) {
  for (bool transposed : {false, true}) {
    V5e h;
    h.Put(1, A);
    for (int unit = 0; unit < 4; ++unit) {
      for (int g = 15; g >= 0; --g) {  // the last group first
        h.Put(2, [&](int i, int lane) {
          return transposed ? W(unit, lane, 8 * g + i) : W(unit, 8 * g + i, lane);
        });
        h.Bundle({Do(transposed ? Opcode::kVmatpush1Xpose : Opcode::kVmatpush1, {V(2)}, unit)});
      }
    }
    for (int unit = 0; unit < 4; ++unit) h.Bundle({Do(Opcode::kVmatmulLatch, {V(1)}, unit)});
    for (int unit = 0; unit < 4; ++unit) {
      h.Bundle({Do(Opcode::kVpopMrf, V(3), {}, unit)});  // one result a matmul
      h.Bundle({Store(3, 4096 + 8 * unit)});
    }
    for (const std::string& simd : SimdTargets()) {
      h.options.simd = simd;
      Words out = h.ReadBack(4096, 4);
      ASSERT_EQ(out.size(), 4u * kTile) << h.result.fault.message;
      for (int unit = 0; unit < 4; ++unit) {
        for (int r = 0; r < 8; ++r) {
          for (int n = 0; n < 128; ++n) {
            double sum = 0;
            for (int k = 0; k < 128; ++k) sum += static_cast<double>(A(r, k)) * W(unit, k, n);
            ASSERT_EQ(Float(out[unit * kTile + r * 128 + n]), sum) << simd << " mxu" << unit;
          }
        }
      }
    }
  }
}

// Three groups of weights, K 0..23; the lanes of the left operand beyond them are masked off. The
// weights stay for the second matmul.
TEST(Mxu128Test, FewRowsOfWeights) {
  V5e h;
  h.Put(1, A);
  h.Put(4, [](int r, int k) { return A(r + 8, k); });
  h.Bundle({Do(Opcode::kVcmask, M(1), {Imm(0 | 8 << 4 | 0 << 8 | 24 << 16)})});
  for (int g = 2; g >= 0; --g) {
    h.Put(2, [&](int i, int lane) { return W(0, 8 * g + i, lane); });
    h.Bundle({Do(Opcode::kVmatpush1, {V(2)}, 3)});
  }
  h.Bundle({Do(Opcode::kVmatmulLatchMsk, {M(1), V(1)}, 3)});
  h.Bundle({Do(Opcode::kVmatmulMsk, {M(1), V(4)}, 3)});
  for (int i = 0; i < 2; ++i) {
    h.Bundle({Do(Opcode::kVpopMrf, V(3), {}, 3)});
    h.Bundle({Store(3, 4096 + 8 * i)});
  }
  Words out = h.ReadBack(4096, 2);
  ASSERT_EQ(out.size(), 2u * kTile) << h.result.fault.message;
  for (int r = 0; r < 16; ++r) {
    for (int n = 0; n < 128; ++n) {
      double sum = 0;
      for (int k = 0; k < 24; ++k) sum += static_cast<double>(A(r, k)) * W(0, k, n);
      ASSERT_EQ(Float(out[r * 128 + n]), sum) << r << " " << n;
    }
  }
}

TEST(Mxu128Test, OneRowACycle) {
  V5e h;
  h.Bundle({Do(Opcode::kVmatpush1, {F(1.0f)}, 2)});              // 0
  h.Bundle({Do(Opcode::kVmatpush1, {F(1.0f)}, 2)});              // 4: push to push 4
  h.Bundle({Do(Opcode::kVmatmulLatchMsk, {M(0), F(1.0f)}, 2)});  // 7: matpush 3
  h.Bundle({Do(Opcode::kVmatmul, {F(0.0f)}, 2)});                // 15: matmul 8
  h.Bundle({Do(Opcode::kVpopMrf, V(1), {}, 2)});                 // 151: matmul 144
  h.Bundle({Do(Opcode::kVpopMrf, V(2), {}, 2)});                 // 159: pop to pop 8
  for (bool timing_only : {false, true}) {
    h.options.timing_only = timing_only;
    RunResult r = h.Go();
    ASSERT_TRUE(r.ok) << r.fault.message;
    EXPECT_EQ(r.cycles, 160);
    EXPECT_EQ(r.tlp.slots.mxu, 16);
  }
}

TEST(Mxu128Test, HasNoSecondHalf) {
  for (Opcode op : {Opcode::kVmatprepSubr, Opcode::kVmatprepMubr, Opcode::kVmatpush2,
                    Opcode::kVmatpush3, Opcode::kVmatpush2Xpose, Opcode::kVmatpush3Xpose}) {
    V5e h;
    h.Bundle({Do(op, {F(1.0f)}, 0)});
    EXPECT_EQ(h.FaultOf(), "E0258") << isa::Info(op).mnemonic;
  }
  V5e unit;
  unit.Bundle({Do(Opcode::kVmatpush1, {F(1.0f)}, 4)});
  EXPECT_EQ(unit.FaultOf(), "E0258");
}

}  // namespace
}  // namespace tpuc::interp::testing
