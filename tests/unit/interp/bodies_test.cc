// Every row of isa.def has exactly one body; each elementwise instruction's values against plain
// C++ on one word; packing, sublane and lane movement against the text of isa.def.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "harness.h"

namespace tpuc::interp::testing {
namespace {

TEST(BodiesTest, EveryRowOfTheTableHasABody) {
  for (int i = 0; i < isa::kOpcodeCount; ++i) {
    auto op = static_cast<Opcode>(i);
    EXPECT_TRUE(HasBody(op)) << isa::Info(op).mnemonic;
  }
}

constexpr float kInf = std::numeric_limits<float>::infinity();

// Random words mixed with awkward ones, paired in all ways.
void Operands(Words* a, Words* b) {
  const Words special = {0x00000000u, 0x80000000u, 0x00000001u, 0x807fffffu, 0x00800000u,
                         0x7f800000u, 0xff800000u, 0x7fc00000u, 0xffc12345u, 0x3f800000u,
                         0xbf800000u, 0x7f7fffffu, 0x4f000000u, 0xcf000000u, 0x4f800000u,
                         0x3f000000u, 0x3fc00000u, 0x40200000u, 31u,         32u,
                         33u,         5u,          0xffffffffu, 0x00ffffffu};
  *a = RandomWords(kTile, 1);
  *b = RandomWords(kTile, 2);
  size_t at = 0;
  for (uint32_t x : special) {
    for (uint32_t y : special) {
      if (at < kTile) (*a)[at] = x, (*b)[at] = y, ++at;
    }
  }
  // Ordinary magnitudes in the last third.
  for (size_t i = 700; i < kTile; ++i) {
    (*a)[i] = Bits(static_cast<float>(static_cast<int32_t>((*a)[i])) * 0x1p-28f);
    (*b)[i] = Bits(static_cast<float>(static_cast<int32_t>((*b)[i])) * 0x1p-28f);
  }
}

uint32_t Clean(float f) {
  if (std::isnan(f)) return 0x7fc00000u;
  if (std::fpclassify(f) == FP_SUBNORMAL) return Bits(std::copysign(0.0f, f));
  return Bits(f);
}
float Read(uint32_t w) {
  float f = Float(w);
  return std::fpclassify(f) == FP_SUBNORMAL ? std::copysign(0.0f, f) : f;
}

using Fn = std::function<uint32_t(uint32_t, uint32_t)>;
Fn OnFloats(std::function<float(float, float)> f) {
  return [f](uint32_t a, uint32_t b) { return Clean(f(Read(a), Read(b))); };
}
Fn Mask(std::function<bool(uint32_t, uint32_t)> f) {
  return [f](uint32_t a, uint32_t b) { return f(a, b) ? 1u : 0u; };
}
Fn MaskF(std::function<bool(float, float)> f) {
  return Mask([f](uint32_t a, uint32_t b) { return f(Read(a), Read(b)); });
}
Fn MaskS(std::function<bool(int32_t, int32_t)> f) {
  return Mask(
      [f](uint32_t a, uint32_t b) { return f(static_cast<int32_t>(a), static_cast<int32_t>(b)); });
}

struct Case {
  Opcode op;
  Fn expected;
};

float Maximum(float a, float b) { return std::isnan(a) || std::isnan(b) ? NAN : (a > b ? a : b); }
float Minimum(float a, float b) { return std::isnan(a) || std::isnan(b) ? NAN : (a < b ? a : b); }

std::vector<Case> Cases() {
  auto s = [](uint32_t x) { return static_cast<int32_t>(x); };
  return {
      {Opcode::kVaddF32, OnFloats([](float a, float b) { return a + b; })},
      {Opcode::kVsubF32, OnFloats([](float a, float b) { return a - b; })},
      {Opcode::kVmulF32, OnFloats([](float a, float b) { return a * b; })},
      {Opcode::kVmaxF32, OnFloats(Maximum)},
      {Opcode::kVminF32, OnFloats(Minimum)},
      {Opcode::kVaddS32, [](uint32_t a, uint32_t b) { return a + b; }},
      {Opcode::kVsubS32, [](uint32_t a, uint32_t b) { return a - b; }},
      {Opcode::kVmulU32, [](uint32_t a, uint32_t b) { return a * b; }},
      {Opcode::kVmulhU32, [](uint32_t a, uint32_t b) { return uint32_t((uint64_t{a} * b) >> 32); }},
      {Opcode::kVmaxS32, [s](uint32_t a, uint32_t b) { return s(a) > s(b) ? a : b; }},
      {Opcode::kVminS32, [s](uint32_t a, uint32_t b) { return s(a) < s(b) ? a : b; }},
      {Opcode::kVmaxU32, [](uint32_t a, uint32_t b) { return a > b ? a : b; }},
      {Opcode::kVminU32, [](uint32_t a, uint32_t b) { return a < b ? a : b; }},
      {Opcode::kVand, [](uint32_t a, uint32_t b) { return a & b; }},
      {Opcode::kVor, [](uint32_t a, uint32_t b) { return a | b; }},
      {Opcode::kVxor, [](uint32_t a, uint32_t b) { return a ^ b; }},
      {Opcode::kVshll, [](uint32_t a, uint32_t b) { return b > 31 ? 0 : a << b; }},
      {Opcode::kVshrl, [](uint32_t a, uint32_t b) { return b > 31 ? 0 : a >> b; }},
      {Opcode::kVshra, [s](uint32_t a, uint32_t b) { return uint32_t(s(a) >> (b > 31 ? 31 : b)); }},
      {Opcode::kVclz,
       [](uint32_t a, uint32_t) { return a == 0 ? 32u : uint32_t(__builtin_clz(a)); }},
      {Opcode::kVpcnt, [](uint32_t a, uint32_t) { return uint32_t(__builtin_popcount(a)); }},
      {Opcode::kVfloorF32, OnFloats([](float a, float) { return std::floor(a); })},
      {Opcode::kVceilF32, OnFloats([](float a, float) { return std::ceil(a); })},
      {Opcode::kVroundF32, OnFloats([](float a, float) { return std::nearbyint(a); })},
      {Opcode::kVcvtS32F32, [s](uint32_t a, uint32_t) { return Bits(float(s(a))); }},
      {Opcode::kVcvtU32F32, [](uint32_t a, uint32_t) { return Bits(float(a)); }},
      {Opcode::kVcvtF32S32,
       [](uint32_t a, uint32_t) {
         double f = Float(a);
         if (std::isnan(f)) return 0u;
         return uint32_t(int32_t(std::trunc(std::fmax(-2147483648.0, std::fmin(2147483647.0, f)))));
       }},
      {Opcode::kVcvtF32U32,
       [](uint32_t a, uint32_t) {
         double f = Float(a);
         if (std::isnan(f)) return 0u;
         return uint32_t(std::trunc(std::fmax(0.0, std::fmin(4294967295.0, f))));
       }},
      {Opcode::kVmov, [](uint32_t a, uint32_t) { return a; }},
      {Opcode::kVcmpEqF32, MaskF([](float a, float b) { return a == b; })},
      {Opcode::kVcmpNeF32, MaskF([](float a, float b) { return !(a == b); })},
      {Opcode::kVcmpLtF32, MaskF([](float a, float b) { return a < b; })},
      {Opcode::kVcmpLeF32, MaskF([](float a, float b) { return a <= b; })},
      {Opcode::kVcmpGtF32, MaskF([](float a, float b) { return a > b; })},
      {Opcode::kVcmpGeF32, MaskF([](float a, float b) { return a >= b; })},
      {Opcode::kVcmpEqS32, MaskS([](int32_t a, int32_t b) { return a == b; })},
      {Opcode::kVcmpNeS32, MaskS([](int32_t a, int32_t b) { return a != b; })},
      {Opcode::kVcmpLtS32, MaskS([](int32_t a, int32_t b) { return a < b; })},
      {Opcode::kVcmpLeS32, MaskS([](int32_t a, int32_t b) { return a <= b; })},
      {Opcode::kVcmpGtS32, MaskS([](int32_t a, int32_t b) { return a > b; })},
      {Opcode::kVcmpGeS32, MaskS([](int32_t a, int32_t b) { return a >= b; })},
      {Opcode::kVcmpLtU32, Mask([](uint32_t a, uint32_t b) { return a < b; })},
      {Opcode::kVcmpLeU32, Mask([](uint32_t a, uint32_t b) { return a <= b; })},
  };
}

TEST(BodiesTest, ElementwiseValuesOnEveryTarget) {
  Words a, b;
  Operands(&a, &b);
  for (const std::string& simd : SimdTargets()) {
    for (const Case& c : Cases()) {
      const isa::OpInfo& info = isa::Info(c.op);
      Harness h;
      h.options.simd = simd;
      h.Vmem(0, a);
      h.Vmem(8, b);
      h.Bundle({Load(1, 0), Load(2, 8)});
      bool mask = info.dest == isa::RegClass::kMask;
      Inst i = Do(c.op, mask ? M(1) : V(3), {V(1)});
      if (info.sources.size() == 2) i.src.push_back(V(2));
      h.Bundle({i});
      if (mask) h.Bundle({Do(Opcode::kVsel, V(3), {M(1), Imm(1), Imm(0)})});
      h.Bundle({Store(3, 16)});
      Words out = h.ReadBack(16, 1);
      ASSERT_EQ(out.size(), size_t{kTile}) << info.mnemonic << ": " << h.result.fault.message;
      for (int j = 0; j < kTile; ++j) {
        ASSERT_EQ(out[j], c.expected(a[j], b[j]))
            << simd << " " << info.mnemonic << std::hex << " a=" << a[j] << " b=" << b[j];
      }
    }
  }
}

TEST(BodiesTest, ImmediatesStandForSplats) {
  Words a = RandomFloats(kTile, 3);
  for (const std::string& simd : SimdTargets()) {
    Harness h;
    h.options.simd = simd;
    h.Vmem(0, a);
    h.Bundle({Load(1, 0)});
    h.Bundle(
        {Do(Opcode::kVmulF32, V(2), {V(1), F(3.0f)}), Do(Opcode::kVsubF32, V(3), {F(1.0f), V(1)})});
    h.Bundle({Store(2, 8), Store(Operand(V(3)), 16)});
    h.Bundle({Store(F(7.0f), 24)});
    Words out = h.ReadBack(8, 3);
    ASSERT_EQ(out.size(), 3u * kTile);
    for (int j = 0; j < kTile; ++j) {
      EXPECT_EQ(Float(out[j]), Float(a[j]) * 3.0f);
      EXPECT_EQ(Float(out[kTile + j]), 1.0f - Float(a[j]));
      EXPECT_EQ(Float(out[2 * kTile + j]), 7.0f);
    }
  }
}

// One instruction from v1 (and v2) to v3 on random words.
Words One(Inst inst, const Words& a, const Words& b = Words(kTile, 0)) {
  Harness h;
  h.Vmem(0, a);
  h.Vmem(8, b);
  h.Bundle({Load(1, 0), Load(2, 8)});
  h.Bundle({inst});
  h.Bundle({Store(3, 16)});
  return h.ReadBack(16, 1);
}

TEST(BodiesTest, SublaneRotateGoesUp) {
  Words a = RandomWords(kTile, 4);
  for (int n : {0, 1, 5, 7, -1}) {
    Words out = One(Do(Opcode::kVrotSlane, V(3), {V(1), Imm(n)}), a);
    ASSERT_EQ(out.size(), size_t{kTile});
    for (int i = 0; i < 8; ++i) {
      for (int l = 0; l < 128; ++l) EXPECT_EQ(out[(i + n + 8) % 8 * 128 + l], a[i * 128 + l]);
    }
  }
}

TEST(BodiesTest, RotateInPlace) {
  Words a = RandomWords(kTile, 5);
  Harness h;
  h.Vmem(0, a);
  h.Bundle({Load(1, 0)});
  h.Bundle({Do(Opcode::kVrotSlane, V(1), {V(1), Imm(3)})});
  h.Bundle({Store(1, 8)});
  Words out = h.ReadBack(8, 1);
  for (int l = 0; l < 128; ++l) EXPECT_EQ(out[3 * 128 + l], a[l]);
}

TEST(BodiesTest, LaneSequenceSplatAndRectangleMask) {
  Words seq = One(Do(Opcode::kVlaneseq, V(3), {}), Words(kTile, 0));
  for (uint32_t i = 0; i < kTile; ++i) EXPECT_EQ(seq[i], i);
  Words splat = One(Do(Opcode::kVstv, V(3), {Imm(-7)}), Words(kTile, 0));
  EXPECT_EQ(splat, Words(kTile, static_cast<uint32_t>(-7)));
  Harness h;
  h.Bundle({Do(Opcode::kVcmask, M(2), {Imm(2 | 8 << 4 | 3 << 8 | 128 << 16)})});
  h.Bundle({Do(Opcode::kVsel, V(3), {M(2), Imm(1), Imm(0)})});
  h.Bundle({Store(3, 16)});
  Words out = h.ReadBack(16, 1);
  for (int i = 0; i < 8; ++i) {
    for (int l = 0; l < 128; ++l) EXPECT_EQ(out[i * 128 + l], i >= 2 && l >= 3 ? 1u : 0u);
  }
}

TEST(BodiesTest, MaskLogic) {
  Words a = RandomWords(kTile, 6), b = RandomWords(kTile, 7);
  Harness h;
  h.Vmem(0, a);
  h.Vmem(8, b);
  h.Bundle({Load(1, 0), Load(2, 8)});
  h.Bundle(
      {Do(Opcode::kVcmpLtS32, M(0), {V(1), Imm(0)}), Do(Opcode::kVcmpLtS32, M(1), {V(2), Imm(0)})});
  h.Bundle({Do(Opcode::kVmand, M(2), {M(0), M(1)}), Do(Opcode::kVmor, M(3), {M(0), M(1)}),
            Do(Opcode::kVmxor, M(4), {M(0), M(1)}), Do(Opcode::kVmneg, M(5), {M(0)})});
  h.Bundle({Do(Opcode::kVmmov, M(6), {M(5)})});
  int row = 16;
  for (int m : {2, 3, 4, 6}) {
    h.Bundle({Do(Opcode::kVsel, V(3), {M(m), Imm(1), Imm(0)})});
    h.Bundle({Store(3, row)});
    row += 8;
  }
  Words out = h.ReadBack(16, 4);
  ASSERT_EQ(out.size(), 4u * kTile);
  for (int j = 0; j < kTile; ++j) {
    uint32_t x = a[j] >> 31, y = b[j] >> 31;
    EXPECT_EQ(out[j], x & y);
    EXPECT_EQ(out[kTile + j], x | y);
    EXPECT_EQ(out[2 * kTile + j], x ^ y);
    EXPECT_EQ(out[3 * kTile + j], 1 - x);
  }
}

// The packed register of isa.def: word (i, lane) holds rows 2i and 2i + 1, or 4i .. 4i + 3.
uint32_t Half(const Words& w, int row, int lane) {
  return w[row / 2 * 128 + lane] >> row % 2 * 16 & 0xffff;
}
uint32_t Byte(const Words& w, int row, int lane) {
  return w[row / 4 * 128 + lane] >> row % 4 * 8 & 0xff;
}

TEST(BodiesTest, PackAndUnpackBf16) {
  Words high = RandomFloats(kTile, 8), low = RandomFloats(kTile, 9);
  low[0] = Bits(1.00390625f);  // tie, to even: 1.0
  low[1] = Bits(1.01171875f);  // tie, to even: 1.015625
  low[2] = Bits(kInf);
  low[3] = Bits(NAN);
  low[4] = Bits(3.4e38f);  // rounds to infinity
  low[5] = 0x80000001u;    // subnormal
  Words out = One(Do(Opcode::kVpackBf16, V(3), {V(1), V(2)}), high, low);
  EXPECT_EQ(Half(out, 0, 0), 0x3f80u);
  EXPECT_EQ(Half(out, 0, 1), 0x3f82u);
  EXPECT_EQ(Half(out, 0, 2), 0x7f80u);
  EXPECT_EQ(Half(out, 0, 3), 0x7fc0u);
  EXPECT_EQ(Half(out, 0, 4), 0x7f80u);
  EXPECT_EQ(Half(out, 0, 5), 0x8000u);
  for (int row = 0; row < 16; ++row) {
    for (int lane = 6; lane < 128; ++lane) {
      float from = Float(row < 8 ? low[row * 128 + lane] : high[(row - 8) * 128 + lane]);
      float to = Float(Half(out, row, lane) << 16);
      EXPECT_LE(std::fabs(to - from), std::fabs(from) * 0x1p-8f);
    }
  }
  Words packed = RandomWords(kTile, 10);
  Words l = One(Do(Opcode::kVunpackLBf16, V(3), {V(1)}), packed);
  Words h = One(Do(Opcode::kVunpackHBf16, V(3), {V(1)}), packed);
  for (int row = 0; row < 8; ++row) {
    for (int lane = 0; lane < 128; ++lane) {
      EXPECT_EQ(l[row * 128 + lane], Half(packed, row, lane) << 16);
      EXPECT_EQ(h[row * 128 + lane], Half(packed, row + 8, lane) << 16);
    }
  }
}

TEST(BodiesTest, PackAndUnpackIntegers) {
  Words high = RandomWords(kTile, 11), low = RandomWords(kTile, 12);
  Words b16 = One(Do(Opcode::kVpackB16, V(3), {V(1), V(2)}), high, low);
  for (int row = 0; row < 16; ++row) {
    for (int lane = 0; lane < 128; ++lane) {
      uint32_t from = row < 8 ? low[row * 128 + lane] : high[(row - 8) * 128 + lane];
      EXPECT_EQ(Half(b16, row, lane), from & 0xffff);
    }
  }
  Words b8 = One(Do(Opcode::kVpackB8, V(3), {V(1), V(2)}), high, low);
  for (int row = 0; row < 32; ++row) {
    for (int lane = 0; lane < 128; ++lane) {
      uint32_t from = row < 16 ? Half(low, row, lane) : Half(high, row - 16, lane);
      EXPECT_EQ(Byte(b8, row, lane), from & 0xff);
    }
  }
  const Opcode bytes[] = {Opcode::kVunpack0S8, Opcode::kVunpack1S8, Opcode::kVunpack2S8,
                          Opcode::kVunpack3S8};
  for (int part = 0; part < 4; ++part) {
    Words out = One(Do(bytes[part], V(3), {V(1)}), high);
    for (int row = 0; row < 8; ++row) {
      for (int lane = 0; lane < 128; ++lane) {
        EXPECT_EQ(static_cast<int32_t>(out[row * 128 + lane]),
                  static_cast<int8_t>(Byte(high, 8 * part + row, lane)));
      }
    }
  }
  Words l = One(Do(Opcode::kVunpackLS16, V(3), {V(1)}), high);
  Words h = One(Do(Opcode::kVunpackHS16, V(3), {V(1)}), high);
  for (int row = 0; row < 8; ++row) {
    EXPECT_EQ(static_cast<int32_t>(l[row * 128 + 9]), static_cast<int16_t>(Half(high, row, 9)));
    EXPECT_EQ(static_cast<int32_t>(h[row * 128 + 9]), static_cast<int16_t>(Half(high, row + 8, 9)));
  }
}

TEST(BodiesTest, LoadsAndStoresWithStrideAndMask) {
  Words a = RandomWords(kTile * 2, 13);
  Harness h;
  h.Vmem(0, a);
  h.Bundle({Load(1, 1, 0xff, 0), Load(2, 0, 0x0f, 2), Load(3, 0)});
  h.Bundle({Store(1, 32)});
  h.Bundle({Store(2, 40)});
  h.Bundle({Store(F(0.0f), 48)});
  h.Bundle({Store(Operand(V(3)), 48, 0x22)});
  Words out = h.ReadBack(32, 3);
  ASSERT_EQ(out.size(), 3u * kTile) << h.result.fault.message;
  for (int i = 0; i < 8; ++i) {
    for (int l = 0; l < 128; ++l) {
      EXPECT_EQ(out[i * 128 + l], a[128 + l]);
      EXPECT_EQ(out[kTile + i * 128 + l], i < 4 ? a[2 * i * 128 + l] : 0u);
      EXPECT_EQ(out[2 * kTile + i * 128 + l], i == 1 || i == 5 ? a[i * 128 + l] : 0u);
    }
  }
}

TEST(BodiesTest, MaskedStoreKeepsOtherLanes) {
  Words a = RandomWords(kTile, 14), b = RandomWords(kTile, 15);
  Harness h;
  h.Vmem(0, a);
  h.Vmem(8, b);
  h.Bundle({Load(1, 0), Do(Opcode::kVcmask, M(1), {Imm(0 | 8 << 4 | 0 << 8 | 40 << 16)})});
  Inst store = Do(Opcode::kVstMsk, {M(1), V(1)});
  store.mem.offset = 8;
  h.Bundle({store});
  Words out = h.ReadBack(8, 1);
  for (int i = 0; i < kTile; ++i) EXPECT_EQ(out[i], i % 128 < 40 ? a[i] : b[i]);
}

// Rows whose mask is false stay, where words hold two, four or eight of them.
TEST(BodiesTest, MaskedStoreOfPackedWords) {
  Words a = RandomWords(kTile, 14), b = RandomWords(kTile, 15), m = RandomWords(kTile, 16);
  for (const Opcode op : {Opcode::kVstMskB16, Opcode::kVstMskB8, Opcode::kVstMskB4}) {
    const int parts = op == Opcode::kVstMskB16 ? 2 : op == Opcode::kVstMskB8 ? 4 : 8;
    Harness h;
    h.Vmem(0, a);
    h.Vmem(8, b);
    h.Vmem(16, m);
    h.Bundle({Load(1, 0), Load(2, 16)});
    h.Bundle({Do(Opcode::kVcmpLtS32, M(1), {V(2), Imm(0)})});
    Inst store = Do(op, {M(1), V(1)});
    store.mem.offset = 8;
    store.mem.sublane_mask = static_cast<uint8_t>((1 << (8 / parts)) - 1);
    h.Bundle({store});
    Words out = h.ReadBack(8, 1);
    for (int i = 0; i < kTile; ++i) {
      const int row = i / 128, lane = i % 128, bits = 32 / parts;
      for (int p = 0; p < parts; ++p) {
        const uint32_t part = (~0u >> (32 - bits)) << (p * bits);
        const bool taken =
            row < 8 / parts && static_cast<int32_t>(m[(row * parts + p) * 128 + lane]) < 0;
        EXPECT_EQ(out[i] & part, (taken ? a[i] : b[i]) & part);
      }
    }
  }
}

TEST(BodiesTest, SourcesAreReadBeforeResultsAreWritten) {
  Words a = RandomWords(kTile, 16), b = RandomWords(kTile, 17);
  Harness h;
  h.Vmem(0, a);
  h.Vmem(8, b);
  h.Bundle({Load(1, 0), Load(2, 8), Move(3, 5), Move(4, 6)});
  // Swaps in one bundle, vectors and scalars; a store of the old value; a load of the old row.
  h.Bundle({Do(Opcode::kVmov, V(1), {V(2)}), Do(Opcode::kVmov, V(2), {V(1)}), Store(1, 16),
            Do(Opcode::kSmov, S(3), {S(4)}), Do(Opcode::kSmov, S(4), {S(3)})});
  h.Bundle({Store(F(1.0f), 0), Load(5, 0)});
  h.Bundle({Store(1, 24)});
  h.Bundle({Store(2, 32)});
  h.Bundle({Do(Opcode::kVstv, V(6), {S(3)}), Do(Opcode::kVstv, V(7), {S(4)}), Store(5, 40)});
  h.Bundle({Store(6, 48)});
  h.Bundle({Store(7, 56)});
  Words out = h.ReadBack(16, 6);
  ASSERT_EQ(out.size(), 6u * kTile);
  auto tile = [&](int i) { return Words(out.begin() + i * kTile, out.begin() + (i + 1) * kTile); };
  EXPECT_EQ(tile(0), a);
  EXPECT_EQ(tile(1), b);
  EXPECT_EQ(tile(2), a);
  EXPECT_EQ(tile(3), a);
  EXPECT_EQ(tile(4), Words(kTile, 6));
  EXPECT_EQ(tile(5), Words(kTile, 5));
}

TEST(BodiesTest, PredicatedOffDoesNothing) {
  Harness h;
  h.Vmem(0, Words(kTile, 1));
  h.Bundle({Do(Opcode::kScmpLt, P(1), {Imm(3), Imm(4)}), Do(Opcode::kVmov, V(1), {Imm(10)})});
  h.Bundle({If(P(1), Do(Opcode::kVmov, V(1), {Imm(20)}), true)});
  // A predicate written in a bundle guards later bundles only.
  h.Bundle({Do(Opcode::kPneg, P(1), {P(1)}), If(P(1), Do(Opcode::kVmov, V(2), {Imm(30)}))});
  h.Bundle({If(P(1), Store(2, 0)), Store(1, 8)});
  h.Bundle({Store(2, 16)});
  Words out = h.ReadBack(0, 3);
  EXPECT_EQ(out[0], 1u);
  EXPECT_EQ(out[kTile], 10u);
  EXPECT_EQ(out[2 * kTile], 30u);
}

TEST(BodiesTest, ScalarArithmetic) {
  struct Row {
    Opcode op;
    int32_t a, b, expected;
  };
  const Row rows[] = {
      {Opcode::kSadd, 7, -9, -2},
      {Opcode::kSsub, 7, 9, -2},
      {Opcode::kSmul, 0x10001, 0x10001, 0x20001},
      {Opcode::kSand, 12, 10, 8},
      {Opcode::kSor, 12, 10, 14},
      {Opcode::kSxor, 12, 10, 6},
      {Opcode::kSshll, 3, 4, 48},
      {Opcode::kSshll, 3, 32, 0},
      {Opcode::kSshrl, -1, 28, 15},
      {Opcode::kSshra, -256, 4, -16},
      {Opcode::kSdiv, 100, 7, 14},
      {Opcode::kSrem, 100, 7, 2},
      {Opcode::kSdiv, -2, 2, 0x7fffffff},
      {Opcode::kSdiv, 5, 0, -1},
      {Opcode::kSrem, 5, 0, 5},
  };
  Harness h;
  int word = 0;
  for (const Row& r : rows) {
    h.Bundle({Move(1, r.a)});
    h.Bundle({Do(r.op, S(2), {S(1), Imm(r.b)})});
    Inst store = Do(Opcode::kSst, {S(2)});
    store.mem.offset = word;
    h.Bundle({store});
    Inst load = Do(Opcode::kSld, S(3), {});
    load.mem.offset = word++;
    h.Bundle({load});
    h.Bundle({Do(Opcode::kVstv, V(1), {S(3)})});
    h.Bundle({Store(1, 8 * word)});
  }
  Words out = h.ReadBack(8, word);
  ASSERT_EQ(out.size(), static_cast<size_t>(word) * kTile) << h.result.fault.message;
  for (int i = 0; i < word; ++i) {
    EXPECT_EQ(static_cast<int32_t>(out[i * kTile]), rows[i].expected)
        << isa::Info(rows[i].op).mnemonic;
  }
}

TEST(BodiesTest, PredicatesAndSelect) {
  struct Row {
    Opcode op;
    bool expected;  // of 3 against 4
  };
  for (const Row& r :
       {Row{Opcode::kScmpEq, false}, Row{Opcode::kScmpNe, true}, Row{Opcode::kScmpLt, true},
        Row{Opcode::kScmpLe, true}, Row{Opcode::kScmpGt, false}, Row{Opcode::kScmpGe, false}}) {
    Harness h;
    h.Bundle({Do(r.op, P(2), {Imm(3), Imm(4)})});
    h.Bundle({Do(Opcode::kSselect, S(1), {P(2), Imm(11), Imm(22)})});
    h.Bundle({Do(Opcode::kVstv, V(1), {S(1)})});
    h.Bundle({Store(1, 0)});
    EXPECT_EQ(h.ReadBack(0, 1)[0], r.expected ? 11u : 22u) << isa::Info(r.op).mnemonic;
  }
  struct Logic {
    Opcode op;
    uint32_t expected;  // bit 2a + b
  };
  for (const Logic& r :
       {Logic{Opcode::kPor, 0b1110}, Logic{Opcode::kPand, 0b1000}, Logic{Opcode::kPnand, 0b0111},
        Logic{Opcode::kPmov, 0b1100}, Logic{Opcode::kPneg, 0b0011}}) {
    for (int i = 0; i < 4; ++i) {
      Harness h;
      h.Bundle({Do(Opcode::kScmpEq, P(0), {Imm(i >> 1), Imm(1)}),
                Do(Opcode::kScmpEq, P(1), {Imm(i & 1), Imm(1)})});
      Inst logic = Do(r.op, P(2), {P(0)});
      if (isa::Info(r.op).sources.size() == 2) logic.src.push_back(P(1));
      h.Bundle({logic});
      h.Bundle({Do(Opcode::kSselect, S(1), {P(2), Imm(1), Imm(0)})});
      h.Bundle({Do(Opcode::kVstv, V(1), {S(1)})});
      h.Bundle({Store(1, 0)});
      EXPECT_EQ(h.ReadBack(0, 1)[0], r.expected >> i & 1) << isa::Info(r.op).mnemonic << i;
    }
  }
}

TEST(BodiesTest, VectorToScalarQueue) {
  Words a = RandomWords(kTile, 18);
  Harness h;
  h.Vmem(0, a);
  h.Bundle({Load(1, 0)});
  h.Bundle({Do(Opcode::kVpush, {V(1)})});
  h.Bundle({Do(Opcode::kSpop, S(1), {})});
  h.Bundle({Do(Opcode::kVstv, V(2), {S(1)})});
  h.Bundle({Store(2, 8)});
  EXPECT_EQ(h.ReadBack(8, 1), Words(kTile, a[0]));
}

}  // namespace
}  // namespace tpuc::interp::testing
