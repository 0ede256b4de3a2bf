// Values of the units with queues: MXU against a scalar product in the order that interp.h states,
// XLU against isa.def's text, EUP against the scalar functions of src/num; same bytes on every SIMD
// target.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "harness.h"
#include "src/num/eup.h"

namespace tpuc::interp::testing {
namespace {

float Bf16(float f) {  // to nearest even, for finite normal values
  uint32_t bits = Bits(f);
  uint32_t low = bits & 0xffff, kept = bits & 0xffff0000u;
  if (low > 0x8000 || (low == 0x8000 && (bits >> 16 & 1) != 0)) kept += 0x10000;
  return Float(kept);
}

struct Matrix {
  int rows, columns;
  Words data;  // f32 bits, row major
  float at(int r, int c) const { return Float(data[r * columns + c]); }
  // The 8 x 128 tile at (row, column).
  Words Tile(int row, int column) const {
    Words t(kTile);
    for (int i = 0; i < kTile; ++i) t[i] = data[(row + i / 128) * columns + column + i % 128];
    return t;
  }
};
Matrix Random(int rows, int columns, uint64_t seed) {
  return {rows, columns, RandomFloats(static_cast<size_t>(rows) * columns, seed)};
}

float Dot(const std::function<float(int)>& a, const std::function<float(int)>& b, int n) {
  float sum = 0;
  for (int k = 0; k < n; ++k) sum = std::fmaf(Bf16(a(k)), Bf16(b(k)), sum);
  return sum;
}

// A program that keeps its tiles in VMEM, 8 rows apiece.
struct Program : Harness {
  int Put(const Words& tile) {
    Vmem(next, tile);
    next += 8;
    return next - 8;
  }
  void LoadTo(int v, const Words& tile) { Bundle({Load(v, Put(tile))}); }
  void Push(Opcode op, const Words& tile, const Words* staged) {
    if (staged != nullptr) {
      LoadTo(1, *staged);
      Bundle({Do(Opcode::kVmatprepSubr, {V(1)}, 0)});
    }
    LoadTo(2, tile);
    Bundle({Do(op, {V(2)}, 0)});
  }
  void PopTo(int row) {
    Bundle({Do(Opcode::kVpopMrf, V(3), {}, 0)});
    Bundle({Store(3, row)});
    Bundle({Do(Opcode::kVpopMrf, V(4), {}, 0)});
    Bundle({Store(4, row + 8)});
  }
  // Results of all SIMD targets, which must be the same bytes.
  Words Results(int row, int tiles) {
    Words first;
    for (const std::string& simd : SimdTargets()) {
      options.simd = simd;
      Words out = ReadBack(row, tiles);
      EXPECT_FALSE(out.empty()) << result.fault.message;
      if (first.empty()) first = out;
      EXPECT_EQ(out, first) << simd;
    }
    return first;
  }
  int next = 0;
};

TEST(MxuTest, PlainPushesFull256) {
  Matrix a = Random(8, 256, 1), w = Random(256, 256, 2);
  Program p;
  for (int half = 0; half < 2; ++half) {
    for (int g = 15; g >= 0; --g) {  // last group first
      int k = 128 * half + 8 * g;
      Words high = w.Tile(k, 128);
      p.Push(half == 0 ? Opcode::kVmatpush1 : Opcode::kVmatpush2, w.Tile(k, 0), &high);
    }
  }
  p.LoadTo(1, a.Tile(0, 128));
  p.Bundle({Do(Opcode::kVmatprepMubr, {V(1)}, 0)});
  p.LoadTo(2, a.Tile(0, 0));
  p.Bundle({Do(Opcode::kVmatmulLatch, {V(2)}, 0)});
  p.PopTo(2048);
  Words out = p.Results(2048, 2);
  ASSERT_EQ(out.size(), 2u * kTile);
  for (int r = 0; r < 8; ++r) {
    for (int n = 0; n < 256; ++n) {
      float expected =
          Dot([&](int k) { return a.at(r, k); }, [&](int k) { return w.at(k, n); }, 256);
      ASSERT_EQ(Float(out[n / 128 * kTile + r * 128 + n % 128]), expected) << r << " " << n;
    }
  }
}

TEST(MxuTest, TransposedPushesFull256) {
  Matrix a = Random(8, 256, 3), wt = Random(256, 256, 4);  // wt[n][k]
  Program p;
  for (int half = 0; half < 2; ++half) {
    for (int g = 15; g >= 0; --g) {
      int n = 128 * half + 8 * g;
      Words high = wt.Tile(n, 128);
      p.Push(half == 0 ? Opcode::kVmatpush1Xpose : Opcode::kVmatpush2Xpose, wt.Tile(n, 0), &high);
    }
  }
  p.LoadTo(1, a.Tile(0, 128));
  p.Bundle({Do(Opcode::kVmatprepMubr, {V(1)}, 0)});
  p.LoadTo(2, a.Tile(0, 0));
  p.Bundle({Do(Opcode::kVmatmulLatch, {V(2)}, 0)});
  p.PopTo(2048);
  Words out = p.Results(2048, 2);
  ASSERT_EQ(out.size(), 2u * kTile);
  for (int r = 0; r < 8; ++r) {
    for (int n = 0; n < 256; ++n) {
      float expected =
          Dot([&](int k) { return a.at(r, k); }, [&](int k) { return wt.at(n, k); }, 256);
      ASSERT_EQ(Float(out[n / 128 * kTile + r * 128 + n % 128]), expected) << r << " " << n;
    }
  }
}

// push3: the first pop is the matmul operand times the pushed block, the second mubr's times
// subr's.
TEST(MxuTest, BlockDiagonalServesTwoRowGroups) {
  for (bool transposed : {false, true}) {
    Matrix a = Random(16, 128, 5), w = Random(128, 128, 6);
    Program p;
    for (int g = 15; g >= 0; --g) {
      Words tile = w.Tile(8 * g, 0);
      p.Push(transposed ? Opcode::kVmatpush3Xpose : Opcode::kVmatpush3, tile, &tile);
    }
    p.LoadTo(1, a.Tile(8, 0));
    p.Bundle({Do(Opcode::kVmatprepMubr, {V(1)}, 0)});
    p.LoadTo(2, a.Tile(0, 0));
    p.Bundle({Do(Opcode::kVmatmulLatch, {V(2)}, 0)});
    p.PopTo(2048);
    Words out = p.Results(2048, 2);
    ASSERT_EQ(out.size(), 2u * kTile);
    for (int r = 0; r < 16; ++r) {
      for (int n = 0; n < 128; ++n) {
        float expected = Dot([&](int k) { return a.at(r, k); },
                             [&](int k) { return transposed ? w.at(n, k) : w.at(k, n); }, 128);
        ASSERT_EQ(Float(out[r / 8 * kTile + r % 8 * 128 + n]), expected) << r << " " << n;
      }
    }
  }
}

TEST(MxuTest, PartialRowsWithMaskedLhsAndReuse) {
  Matrix a = Random(8, 128, 7), w = Random(64, 128, 8);
  Program p;
  p.Bundle({Do(Opcode::kVcmask, M(1), {Imm(0 | 8 << 4 | 0 << 8 | 64 << 16)})});
  for (int g = 7; g >= 0; --g) p.Push(Opcode::kVmatpush1, w.Tile(8 * g, 0), nullptr);
  p.LoadTo(2, a.Tile(0, 0));
  p.Bundle({Do(Opcode::kVmatmulLatchMsk, {M(1), V(2)}, 0)});
  p.Bundle({Do(Opcode::kVmatmulMsk, {M(1), V(2)}, 0)});  // the weights stay
  p.PopTo(2048);
  p.PopTo(2064);
  Words out = p.Results(2048, 4);
  ASSERT_EQ(out.size(), 4u * kTile);
  for (int r = 0; r < 8; ++r) {
    for (int n = 0; n < 128; ++n) {
      float expected =
          Dot([&](int k) { return a.at(r, k); }, [&](int k) { return w.at(k, n); }, 64);
      ASSERT_EQ(Float(out[r * 128 + n]), expected);
      ASSERT_EQ(Float(out[2 * kTile + r * 128 + n]), expected);
    }
  }
}

TEST(MxuTest, MaskedPushZerosLanes) {
  Matrix a = Random(8, 128, 9), w = Random(128, 128, 10);  // w[n][k], k < 40 counts
  Program p;
  p.Bundle({Do(Opcode::kVcmask, M(1), {Imm(0 | 8 << 4 | 0 << 8 | 40 << 16)})});
  for (int g = 15; g >= 0; --g) {
    p.LoadTo(1, w.Tile(8 * g, 0));
    p.Bundle({Do(Opcode::kVmatprepSubrMsk, {M(1), V(1)}, 0)});
    p.Bundle({Do(Opcode::kVmatpush3XposeMsk, {M(1), V(1)}, 0)});
  }
  p.LoadTo(2, a.Tile(0, 0));
  p.Bundle({Do(Opcode::kVmatprepMubrMsk, {M(1), V(2)}, 0)});
  p.Bundle({Do(Opcode::kVmatmulLatch, {V(2)}, 0)});
  p.PopTo(2048);
  Words out = p.Results(2048, 2);
  for (int r = 0; r < 8; ++r) {
    for (int n = 0; n < 128; ++n) {
      float expected =
          Dot([&](int k) { return a.at(r, k); }, [&](int k) { return w.at(n, k); }, 40);
      ASSERT_EQ(Float(out[r * 128 + n]), expected);
      ASSERT_EQ(Float(out[kTile + r * 128 + n]), expected);
    }
  }
}

TEST(MxuTest, NextSetIsStagedWhileMatmulsRun) {
  Matrix a = Random(8, 128, 11), w1 = Random(128, 128, 12), w2 = Random(128, 128, 13);
  Program p;
  for (int g = 15; g >= 0; --g) p.Push(Opcode::kVmatpush1, w1.Tile(8 * g, 0), nullptr);
  p.LoadTo(5, a.Tile(0, 0));
  p.Bundle({Do(Opcode::kVmatmulLatch, {V(5)}, 0)});
  for (int g = 15; g >= 0; --g) p.Push(Opcode::kVmatpush1, w2.Tile(8 * g, 0), nullptr);
  p.Bundle({Do(Opcode::kVmatmul, {V(5)}, 0)});
  p.Bundle({Do(Opcode::kVmatmulLatch, {V(5)}, 0)});
  for (int i = 0; i < 3; ++i) p.PopTo(2048 + 16 * i);
  Words out = p.Results(2048, 6);
  for (int i = 0; i < 3; ++i) {
    const Matrix& w = i < 2 ? w1 : w2;
    for (int n = 0; n < 128; ++n) {
      float expected =
          Dot([&](int k) { return a.at(3, k); }, [&](int k) { return w.at(k, n); }, 128);
      ASSERT_EQ(Float(out[2 * i * kTile + 3 * 128 + n]), expected) << i;
    }
  }
}

TEST(XluTest, LaneSumsAndExtremes) {
  Words a = RandomFloats(kTile, 14);
  a[5 * 128 + 17] = Bits(NAN);
  Program p;
  p.LoadTo(1, a);
  p.Bundle({Do(Opcode::kVaddXlane, {V(1)}, 0)});
  p.Bundle({Do(Opcode::kVmaxXlane, {V(1)}, 0), Do(Opcode::kVminXlane, {V(1)}, 1)});
  p.Bundle({Do(Opcode::kVpopXlane, V(2), {}, 0)});
  p.Bundle({Do(Opcode::kVpopXlane, V(3), {}, 0), Do(Opcode::kVpopXlane, V(4), {}, 1)});
  for (int i = 0; i < 3; ++i) p.Bundle({Store(2 + i, 2048 + 8 * i)});
  Words out = p.Results(2048, 3);
  ASSERT_EQ(out.size(), 3u * kTile);
  for (int r = 0; r < 8; ++r) {
    double sum = 0, max = -INFINITY, min = INFINITY;
    for (int l = 0; l < 128; ++l) {
      double x = Float(a[r * 128 + l]);
      sum += x;
      max = std::fmax(max, x);
      min = std::fmin(min, x);
    }
    for (int l = 0; l < 128; ++l) {
      float s = Float(out[r * 128 + l]);
      if (r == 5) {
        EXPECT_EQ(out[r * 128 + l], 0x7fc00000u);
        EXPECT_TRUE(std::isnan(Float(out[kTile + r * 128 + l])));
        EXPECT_TRUE(std::isnan(Float(out[2 * kTile + r * 128 + l])));
        continue;
      }
      EXPECT_NEAR(s, sum, 1e-5);
      EXPECT_EQ(Float(out[kTile + r * 128 + l]), max);
      EXPECT_EQ(Float(out[2 * kTile + r * 128 + l]), min);
    }
  }
}

TEST(XluTest, BroadcastsAndRotates) {
  Words a = RandomWords(kTile, 15);
  Program p;
  p.LoadTo(1, a);
  p.Bundle({Do(Opcode::kVbcastLane, {V(1), Imm(77)}, 0),
            Do(Opcode::kVbcastLane, {V(1), Imm(256 + 8)}, 1)});
  p.Bundle({Do(Opcode::kVrotLane, {V(1), Imm(3)}, 0), Do(Opcode::kVrotLane, {V(1), Imm(-1)}, 1)});
  p.Bundle({Do(Opcode::kVpopPermute, V(2), {}, 0), Do(Opcode::kVpopPermute, V(3), {}, 1)});
  p.Bundle({Do(Opcode::kVpopPermute, V(4), {}, 0), Do(Opcode::kVpopPermute, V(5), {}, 1)});
  for (int i = 0; i < 4; ++i) p.Bundle({Store(2 + i, 2048 + 8 * i)});
  Words out = p.Results(2048, 4);
  ASSERT_EQ(out.size(), 4u * kTile);
  for (int r = 0; r < 8; ++r) {
    for (int l = 0; l < 128; ++l) {
      EXPECT_EQ(out[r * 128 + l], a[r * 128 + 77]);
      EXPECT_EQ(out[kTile + r * 128 + l], a[r * 128 + 8 + r]);
      EXPECT_EQ(out[2 * kTile + r * 128 + (l + 3) % 128], a[r * 128 + l]);
      EXPECT_EQ(out[3 * kTile + r * 128 + (l + 127) % 128], a[r * 128 + l]);
    }
  }
}

TEST(XluTest, TransposesOfNRegisters) {
  for (int n : {1, 2, 16}) {
    Program p;
    std::vector<Words> in;
    for (int i = 0; i < n; ++i) {
      in.push_back(RandomWords(kTile, 100 + i));
      p.LoadTo(1, in.back());
      Opcode op = n == 1       ? Opcode::kVxposeStartEnd
                  : i == 0     ? Opcode::kVxposeStart
                  : i == n - 1 ? Opcode::kVxposeEnd
                               : Opcode::kVxposeCont;
      p.Bundle({Do(op, {V(1)}, 1)});
    }
    for (int j = 0; j < 16; ++j) {
      p.Bundle({Do(Opcode::kVpopTrf, V(2), {}, 1)});
      p.Bundle({Store(2, 2048 + 8 * j)});
    }
    Words out = p.Results(2048, 16);
    ASSERT_EQ(out.size(), 16u * kTile);
    for (int j = 0; j < 16; ++j) {
      for (int r = 0; r < 8; ++r) {
        for (int c = 0; c < 128; ++c) {
          uint32_t expected = c < 8 * n ? in[c / 8][c % 8 * 128 + 8 * j + r] : 0u;
          ASSERT_EQ(out[j * kTile + r * 128 + c], expected)
              << n << " " << j << " " << r << " " << c;
        }
      }
    }
  }
}

TEST(EupTest, MatchesTheScalarFunctions) {
  Words a = RandomFloats(kTile, 16);
  for (uint32_t& w : a) w = Bits(Float(w) * 20.0f);
  struct Row {
    Opcode op;
    float (*f)(float);
  };
  for (const Row& row : {Row{Opcode::kVpow2, num::vpow2}, Row{Opcode::kVlog2, num::vlog2},
                         Row{Opcode::kVrcp, num::vrcp}, Row{Opcode::kVrsqrt, num::vrsqrt},
                         Row{Opcode::kVtanh, num::vtanh}}) {
    Program p;
    p.LoadTo(1, a);
    p.Bundle({Do(row.op, {V(1)})});
    p.Bundle({Do(Opcode::kVpopEup, V(2), {})});
    p.Bundle({Store(2, 2048)});
    Words out = p.Results(2048, 1);
    ASSERT_EQ(out.size(), size_t{kTile});
    for (int i = 0; i < kTile; ++i) EXPECT_EQ(out[i], Bits(row.f(Float(a[i])))) << Float(a[i]);
  }
}

}  // namespace
}  // namespace tpuc::interp::testing
