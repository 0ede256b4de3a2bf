// parse(print(x)) == x: same structure, and the same text again.
#include <fstream>
#include <sstream>

#include "backend/kernel/expr.h"
#include "grammar/kernel/printer.h"
#include "tests/unit/kernel/testing.h"

namespace tpuc {
namespace {

using kernel::Kernel;
using kernel::Node;

bool SameExprs(const std::vector<kernel::Expr>& a, const std::vector<kernel::Expr>& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), kernel::SameExpr);
}

// Where they came from aside (source lines, names that only the printer needs).
void ExpectSame(const Kernel& a, const Kernel& b) {
  EXPECT_EQ(a.name, b.name);
  ASSERT_EQ(a.params.size(), b.params.size());
  ASSERT_EQ(a.grid.size(), b.grid.size());
  for (size_t i = 0; i < a.grid.size(); ++i) {
    EXPECT_TRUE(kernel::SameExpr(a.grid[i].size, b.grid[i].size));
    EXPECT_EQ(a.grid[i].parallel, b.grid[i].parallel);
    EXPECT_EQ(a.grid[i].extent, b.grid[i].extent);
  }
  ASSERT_EQ(a.refs.size(), b.refs.size());
  for (size_t i = 0; i < a.refs.size(); ++i) {
    const kernel::Ref &x = a.refs[i], &y = b.refs[i];
    EXPECT_EQ(x.name, y.name);
    EXPECT_EQ(x.role, y.role);
    EXPECT_EQ(ToString(x.shape), ToString(y.shape));
    EXPECT_EQ(x.block, y.block);
    EXPECT_TRUE(SameExprs(x.block_exprs, y.block_exprs)) << x.name;
    EXPECT_TRUE(SameExprs(x.index, y.index)) << x.name;
    EXPECT_EQ(x.buffers, y.buffers);
    EXPECT_EQ(x.alias, y.alias);
  }
  ASSERT_EQ(a.nodes.size(), b.nodes.size());
  EXPECT_EQ(a.body.nodes, b.body.nodes);
  for (size_t i = 0; i < a.nodes.size(); ++i) {
    const Node &x = a.nodes[i], &y = b.nodes[i];
    SCOPED_TRACE(i);
    EXPECT_EQ(x.kind, y.kind);
    EXPECT_EQ(x.op, y.op);
    EXPECT_EQ(ToString(x.shape), ToString(y.shape));
    EXPECT_EQ(x.operands, y.operands);
    EXPECT_EQ(x.ref, y.ref);
    EXPECT_EQ(x.axis, y.axis);
    EXPECT_EQ(x.lower, y.lower);
    EXPECT_EQ(x.upper, y.upper);
    EXPECT_EQ(x.attrs.size(), y.attrs.size());
    if (x.op == Op::kReduce) {
      EXPECT_EQ(x.reducer, y.reducer);
    }
    if (x.literal != nullptr && y.literal != nullptr) {
      EXPECT_TRUE(x.literal->IdenticalTo(*y.literal));
    }
    EXPECT_TRUE(SameExprs(x.value_expr, y.value_expr));
    ASSERT_EQ(x.slices.size(), y.slices.size());
    for (size_t d = 0; d < x.slices.size(); ++d) {
      EXPECT_EQ(x.slices[d].start_node, y.slices[d].start_node);
      EXPECT_EQ(x.slices[d].start, y.slices[d].start);
      EXPECT_EQ(x.slices[d].size, y.slices[d].size);
    }
    ASSERT_EQ(x.regions.size(), y.regions.size());
    for (size_t r = 0; r < x.regions.size(); ++r) EXPECT_EQ(x.regions[r].nodes, y.regions[r].nodes);
  }
}

void ExpectRoundTrip(const std::string& text) {
  auto p = Kernels(text);
  ASSERT_NE(p, nullptr);
  const std::string printed = PrintKernels(*p);
  DiagSink diags;
  auto q = ParseKernels(Text(printed), {}, &diags);
  ASSERT_NE(q, nullptr) << diags.Render() << printed;
  EXPECT_EQ(PrintKernels(*q), printed);
  SCOPED_TRACE(printed);
  ASSERT_EQ(p->kernels.size(), q->kernels.size());
  for (size_t k = 0; k < p->kernels.size(); ++k) ExpectSame(p->kernels[k], q->kernels[k]);
  ASSERT_EQ(p->buffers.size(), q->buffers.size());
  for (size_t b = 0; b < p->buffers.size(); ++b) {
    EXPECT_EQ(p->buffers[b].name, q->buffers[b].name);
    EXPECT_EQ(ToString(p->buffers[b].shape), ToString(q->buffers[b].shape));
    EXPECT_EQ(p->buffers[b].offset, q->buffers[b].offset);
    EXPECT_EQ(p->buffers[b].bytes, q->buffers[b].bytes);
    EXPECT_EQ(p->buffers[b].from, q->buffers[b].from);
    EXPECT_EQ(p->buffers[b].to, q->buffers[b].to);
    EXPECT_EQ(p->buffers[b].input, q->buffers[b].input);
    EXPECT_EQ(p->buffers[b].output, q->buffers[b].output);
    ASSERT_EQ(p->buffers[b].init == nullptr, q->buffers[b].init == nullptr);
    if (p->buffers[b].init != nullptr && !p->buffers[b].init->elided()) {
      EXPECT_TRUE(p->buffers[b].init->IdenticalTo(*q->buffers[b].init)) << p->buffers[b].name;
    }
  }
  ASSERT_EQ(p->steps.size(), q->steps.size());
  for (size_t s = 0; s < p->steps.size(); ++s) {
    EXPECT_EQ(p->steps[s].kind, q->steps[s].kind);
    EXPECT_EQ(p->steps[s].operands, q->steps[s].operands);
    EXPECT_EQ(p->steps[s].copy, q->steps[s].copy);
    EXPECT_EQ(p->steps[s].name, q->steps[s].name);
    EXPECT_EQ(p->steps[s].cross_program, q->steps[s].cross_program);
  }
}

TEST(KernelRoundTrip, Example) {
  std::ifstream in(std::string(TPUC_SOURCE_DIR) + "/examples/kernels/matmul.tk");
  std::stringstream text;
  text << in.rdbuf();
  ASSERT_FALSE(text.str().empty());
  ExpectRoundTrip(text.str());
}

TEST(KernelRoundTrip, PrintsAsWritten) {
  const std::string text = R"(kernel k {
  param M = 500, bm = 128;
  grid i: cdiv(M, bm) parallel, j: 2;
  in x: f32[M,256] block [bm, 256] at (i, 0);
  in c: f32[64,32]{0,1:T(8,128)S(1)};
  in q: bf16[2,16,128] block [squeeze, 16, 128] at (j, 0, 0) buffers 1;
  out o: f32[M,256] block [bm, 256] at (i, 0) alias x;
  scratch acc: f32[bm,256];
  assert bm % 8 == 0 "whole tiles";
  when j == 0 {
    acc[:] = 0;
  } else {
    acc[:] = -acc[:] * (x[:] + 2.5) - (x[:] - 1) / 3;
  }
  m = max(x[:], axis=1);
  e = exp(x[:] - broadcast(m, [bm, 256], dims={0}));
  mask = iota([bm, 256], dim=0) + i * bm < M & x[:] > -inf;
  acc[:] = acc[:] + select(mask, e, 0);
  for r in 0..bm / 8 {
    o[r * 8:+8, 0:128] = tanh(acc[r * 8:+8, 128:256]);
  }
  t = concat(slice(e, [0:64, :]), slice(e, [64:128:2, :]), pad(convert(q[:], f32), 0, [0:0, 0:128]), axis=0);
  f = dot(e, dot(x[:]^T, convert(mask, f32)), precision={highest, highest});
  w = where_1 + 1;
}
)";
  // The last statement is wrong on purpose in one place: names are checked.
  EXPECT_NE(KernelErrors(text), "");
  const size_t cut = text.find("  w = ");
  const std::string good = text.substr(0, cut) + "}\n";
  auto p = Kernels(good);
  ASSERT_NE(p, nullptr);
  EXPECT_EQ(PrintKernels(*p), good);
  ExpectRoundTrip(good);
}

TEST(KernelRoundTrip, TypesAndConstants) {
  ExpectRoundTrip(R"(kernel k {
    in a: s8[32,128]; in b: u8[32,128]; in c: pred[32,128]; in h: f16[32,128]; in e: f8e4m3fn[32,128];
    out o: f32[32,128];
    t = select(c[:], f32(-0.0), inf);
    u = select(c[:], -nan, t);
    k1 = a[:] + -128;
    k2 = b[:] & 255 | 3 ^ b[:] & 1;
    k3 = h[:] * 0.1 + 65504;
    k4 = e[:] - 448;
    k5 = !c[:];
    k6 = select(true, u, 1e-45);
    k7 = negate(f32(3)) + f32(1) * f32(2);
    k8 = broadcast(f32(1), [32, 128]) + broadcast(f32(2), [32, 128]);
    k9 = clamp(0, u, 6);
    k10 = compare(u, t, direction=LE, type=TOTALORDER);
    k11 = reduce(a[:], axis=0, op=xor);
    k12 = any(c[:], axis={0, 1});
    k13 = reduce_precision(u, exponent_bits=5, mantissa_bits=10);
    k14 = shift_left(b[:], 3);
    k15 = dynamic_slice(u, 1, 2, sizes=[8, 64]);
    k16 = dynamic_update_slice(u, k15, 1, 2);
    k17 = bitcast_convert(u, s32);
    k18 = rsqrt(1.0 / 64) + sqrt(64);
    k19 = dot(h[:], h[:]^T, type=f16);
    o[:] = u;
  })");
}

TEST(KernelRoundTrip, ExpressionsThatCannotNest) {
  // A value used twice, one used after a statement, one used in another block.
  ExpectRoundTrip(R"(kernel k {
    grid i: 2;
    in x: f32[16,128] block [8, 128] at (i, 0);
    out o: f32[16,128] block [8, 128] at (i, 0);
    scratch s: f32[8,128];
    a = x[:] * 2;
    s[:] = 1;
    b = s[:] + a;
    s[:] = 2;
    when i == 0 { s[:] += a - b; for j in 0..2 { for l in 0..2 { when j == l { s[:] += b; } } } }
    o[:] = a * a + s[:] - x[7, :];
  })");
}

TEST(KernelRoundTrip, Programs) {
  ExpectRoundTrip(R"(
kernel "odd-name" { in x: f32[8,128]; in c: f32[2,3]; out o: f32[8,128]; o[:] = x[:] + reshape(c[0:1, 0:1], []); }
kernel fusion.5 { in x: f32[8,128]{1,0:T(8,128)S(1)}; out o: f32[8,128]; o[:] = x[:]; }
program "jit main" {
  buffer x: f32[8,128] offset 4096 live 0..1;
  buffer v: f32[8,128]{1,0:T(8,128)S(1)} offset 0 bytes 8192;
  buffer c: f32[2,3] = {{1, -2.5, inf}, {nan, 0.1, 1e-30}};
  buffer z: s32[4,4] = splat -7;
  buffer e: bf16[4,4] = elided;
  buffer one: f32[] = 1.5;
  buffer m: f32[8,128];
  buffer r: f32[8,128];
  input "arg 0" in x;
  input empty: f32[0,4] none;
  output r: f32[1024]{0:T(1024)} in r;
  copy_start "copy-start.1": x -> v cross_program;
  call "odd-name"(x, c, m) as first;
  copy_done "copy-done.1": "copy-start.1";
  call fusion.5(v, r);
})");
}

}  // namespace
}  // namespace tpuc
