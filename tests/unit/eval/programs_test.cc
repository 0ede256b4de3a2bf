// Small programs, one row each: HLO text in, the flattened results out. Values are by hand.
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "grammar/hlo/parser.h"
#include "gtest/gtest.h"
#include "src/eval/evaluator.h"
#include "src/ir/native.h"
#include "src/ir/verifier.h"

namespace tpuc {
namespace {

void Flatten(const Literal& literal, std::vector<double>* out) {
  for (const Literal& element : literal.elements()) Flatten(element, out);
  const Shape& shape = literal.shape();
  if (!shape.IsArray()) return;
  VisitNumber(shape.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int64_t i = 0; i < literal.size(); ++i) {
      T value;
      Widen(shape.type, literal.bytes(), i, 1, &value);
      if constexpr (kIsComplex<T>) {
        out->push_back(value.real());
        out->push_back(value.imag());
      } else {
        out->push_back(static_cast<double>(value));
      }
    }
  });
}

struct Row {
  const char* name;
  const char* text;
  std::vector<double> want;
  double tolerance = 0;  // of each value
};

std::unique_ptr<Module> Parse(const std::string& text, DiagSink* diags) {
  auto module = ParseHlo(std::make_shared<Source>(Source{"test", text}), diags);
  if (!module || !VerifyHlo(*module, diags)) return nullptr;
  return module;
}

void Check(const Row& row) {
  SCOPED_TRACE(row.name);
  DiagSink diags;
  auto module = Parse(absl::StrCat("HloModule m\n", row.text), &diags);
  ASSERT_TRUE(module) << diags.Render();
  auto result = Evaluate(*module, {}, {}, &diags);
  ASSERT_TRUE(result) << diags.Render();
  std::vector<double> got;
  Flatten(*result, &got);
  ASSERT_EQ(got.size(), row.want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isinf(row.want[i])) {
      EXPECT_EQ(got[i], row.want[i]) << i;
    } else if (std::isnan(row.want[i])) {
      EXPECT_TRUE(std::isnan(got[i])) << i;
    } else {
      EXPECT_NEAR(got[i], row.want[i], row.tolerance) << i;
    }
  }
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(Programs, Flow) {
  Check({"while counts",
         R"(
c { s = (s32[], s32[]) parameter(0)  i = s32[] get-tuple-element(s), index=0
    n = s32[] constant(5)  ROOT lt = pred[] compare(i, n), direction=LT }
b { s = (s32[], s32[]) parameter(0)  i = s32[] get-tuple-element(s), index=0
    x = s32[] get-tuple-element(s), index=1  one = s32[] constant(1)  three = s32[] constant(3)
    j = s32[] add(i, one)  y = s32[] multiply(x, three)  ROOT t = (s32[], s32[]) tuple(j, y) }
ENTRY e { z = s32[] constant(0)  one = s32[] constant(1)  t = (s32[], s32[]) tuple(z, one)
  ROOT w = (s32[], s32[]) while(t), condition=c, body=b })",
         {5, 243}});
  Check({"state that is no tuple, never entered",
         R"(
c { x = f32[] parameter(0)  z = f32[] constant(0)  ROOT g = pred[] compare(x, z), direction=GT }
b { x = f32[] parameter(0)  h = f32[] constant(1)  ROOT s = f32[] subtract(x, h) }
ENTRY e { m = f32[] constant(-2)  p = f32[] constant(2.5)
  a = f32[] while(m), condition=c, body=b  d = f32[] while(p), condition=c, body=b
  ROOT t = (f32[], f32[]) tuple(a, d) })",
         {-2, -0.5}});
  Check({"what stays the same in a loop",
         R"(
c { s = (s32[], f32[2], f32[2]) parameter(0)  i = s32[] get-tuple-element(s), index=0
    n = s32[] constant(3)  ROOT lt = pred[] compare(i, n), direction=LT }
b { s = (s32[], f32[2], f32[2]) parameter(0)  i = s32[] get-tuple-element(s), index=0
    x = f32[2] get-tuple-element(s), index=1  y = f32[2] get-tuple-element(s), index=2
    one = s32[] constant(1)  j = s32[] add(i, one)  d = f32[] dot(x, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}
    v = f32[2] broadcast(d), dimensions={}  z = f32[2] add(y, v)
    ROOT t = (s32[], f32[2], f32[2]) tuple(j, x, z) }
ENTRY e { z = s32[] constant(0)  x = f32[2] constant({1, 2})  y = f32[2] constant({0, 100})
  t = (s32[], f32[2], f32[2]) tuple(z, x, y)
  ROOT w = (s32[], f32[2], f32[2]) while(t), condition=c, body=b })",
         {3, 1, 2, 15, 115}});
  Check({"conditional of pred, and of s32 out of range",
         R"(
a { x = s32[] parameter(0)  ROOT n = s32[] negate(x) }
b { x = s32[] parameter(0)  ROOT d = s32[] add(x, x) }
ENTRY e { t = pred[] constant(true)  f = pred[] constant(false)  k = s32[] constant(7)
  nine = s32[] constant(9)  zero = s32[] constant(0)
  p = s32[] conditional(t, k, k), true_computation=a, false_computation=b
  q = s32[] conditional(f, k, k), true_computation=a, false_computation=b
  r = s32[] conditional(nine, k, k), branch_computations={a, b}
  s = s32[] conditional(zero, k, k), branch_computations={a, b}
  ROOT o = (s32[], s32[], s32[], s32[]) tuple(p, q, r, s) })",
         {-7, 14, 14, -7}});
  Check({"scan, forwards and backwards",
         R"(
s { x = f32[] parameter(0)  c = f32[] parameter(1)  a = f32[] add(x, c)
    ROOT t = (f32[], f32[]) tuple(a, a) }
ENTRY e { x = f32[4] constant({1, 2, 3, 4})  z = f32[] constant(10)
  f = (f32[4], f32[]) scan(x, z), dimensions={0}, num_carries=1, to_apply=s
  r = (f32[4], f32[]) scan(x, z), dimensions={0}, num_carries=1, is_reverse=true, to_apply=s
  ROOT o = ((f32[4], f32[]), (f32[4], f32[])) tuple(f, r) })",
         {11, 13, 16, 20, 20, 20, 19, 17, 14, 20}});
  Check({"async, domain, tokens, devices of one",
         R"(
add { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT s = f32[] add(x, y) }
w { x = f32[2] parameter(0)  ROOT n = f32[2] negate(x) }
ENTRY e { x = f32[2] constant({1, 2})
  s = ((f32[2]), f32[2], s32[]) async-start(x), calls=w
  u = ((f32[2]), f32[2], s32[]) async-update(s)
  d = f32[2] async-done(u)
  k = token[] after-all()  y = f32[2] add-dependency(d, k)
  r = f32[2] all-reduce(y), replica_groups={{0}}, to_apply=add
  g = f32[2] all-gather(r), dimensions={0}
  p = f32[2] collective-permute(g), source_target_pairs={{0,0}}
  i = u32[] partition-id()  j = u32[] replica-id()
  ROOT t = (f32[2], u32[], u32[]) tuple(p, i, j) })",
         {-1, -2, 0, 0}});
}

TEST(Programs, Indexing) {
  Check({"dynamic-slice clamps",
         R"(
ENTRY e { x = s32[2,4] constant({{0,1,2,3},{4,5,6,7}})  i = s32[] constant(9)  j = s32[] constant(-3)
  a = s32[1,2] dynamic-slice(x, i, j), dynamic_slice_sizes={1,2}
  v = s32[2] constant({0, 2})  b = s32[1,2] dynamic-slice(x, v), dynamic_slice_sizes={1,2}
  ROOT t = (s32[1,2], s32[1,2]) tuple(a, b) })",
         {4, 5, 2, 3}});
  Check({"dynamic-update-slice leaves its operand alone",
         R"(
ENTRY e { x = s32[4] constant({1,2,3,4})  u = s32[2] constant({8,9})  i = u8[] constant(200)
  y = s32[4] add(x, x)
  d = s32[4] dynamic-update-slice(y, u, i)  ROOT t = (s32[4], s32[4]) tuple(d, y) })",
         {2, 4, 8, 9, 2, 4, 6, 8}});
  Check({"gather of rows, clamped",
         R"(
ENTRY e { x = f32[3,2] constant({{0,1},{10,11},{20,21}})  i = s32[3] constant({2, -1, 5})
  ROOT g = f32[3,2] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,2} })",
         {20, 21, 0, 1, 20, 21}});
  Check({"reduce-window from a narrower initial value",
         R"(
add { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT s = f32[] add(x, y) }
ENTRY e { x = f32[4] constant({1,2,3,4})  i = f8e5m2[] constant(0.5)
  ROOT w = f32[2] reduce-window(x, i), window={size=2 stride=2}, to_apply=add })",
         {3.5, 7.5}});
  Check({"gather of empty slices: zeros, as XLA",
         R"(
ENTRY e { x = f32[3,2] constant({{0,1},{10,11},{20,21}})  i = s32[1] constant({2})
  ROOT g = f32[1,2] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={0,2} })",
         {0, 0}});
  Check({"gather with windows before batches and a batching dimension",
         R"(
ENTRY e { x = s32[2,3] constant({{0,1,2},{3,4,5}})  i = s32[2,2] constant({{0,2},{1,0}})
  ROOT g = s32[1,2,2] gather(x, i), offset_dims={0}, collapsed_slice_dims={}, operand_batching_dims={0}, start_indices_batching_dims={0}, start_index_map={1}, index_vector_dim=2, slice_sizes={1,1} })",
         {0, 2, 4, 3}});
  Check({"scatter adds duplicates, leaves out what is outside",
         R"(
add { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT s = f32[] add(x, y) }
ENTRY e { x = f32[3] constant({1,1,1})  i = s32[4,1] constant({{0},{2},{0},{7}})  u = f32[4] constant({1,2,4,8})
  ROOT s = f32[3] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add })",
         {6, 1, 3}});
  Check({"scatter by any computation, in order",
         R"(
f { x = s32[] parameter(0)  y = s32[] parameter(1)  ten = s32[] constant(10)  m = s32[] multiply(x, ten)
    ROOT s = s32[] add(m, y) }
ENTRY e { x = s32[2] constant({0,5})  i = s32[3,1] constant({{0},{0},{0}})  u = s32[3] constant({1,2,3})
  ROOT s = s32[2] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=f })",
         {123, 5}});
  Check({"scatter that assigns windows",
         R"(
set { x = bf16[] parameter(0)  ROOT y = bf16[] parameter(1) }
ENTRY e { x = bf16[2,3] constant({{0,0,0},{0,0,0}})  i = s32[1] constant({1})  u = bf16[2,1] constant({{5},{6}})
  ROOT s = bf16[2,3] scatter(x, i, u), update_window_dims={0,1}, inserted_window_dims={}, scatter_dims_to_operand_dims={1}, index_vector_dim=0, to_apply=set })",
         {0, 5, 0, 0, 6, 0}});
}

TEST(Programs, Sorting) {
  Check({"by keys, with passengers, downwards",
         R"(
gt { a = f32[] parameter(0)  b = f32[] parameter(1)  c = s32[] parameter(2)  d = s32[] parameter(3)
     ROOT g = pred[] compare(a, b), direction=GT }
ENTRY e { x = f32[5] constant({1, 3, -2, 3, 0})  i = s32[5] constant({0, 1, 2, 3, 4})
  ROOT s = (f32[5], s32[5]) sort(x, i), dimensions={0}, is_stable=true, to_apply=gt })",
         {3, 3, 1, 0, -2, 1, 3, 0, 4, 2}});
  Check({"total order: -NaN < -inf < -0 < 0 < NaN",
         R"(
lt { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT l = pred[] compare(a, b), direction=LT, type=TOTALORDER }
ENTRY e { x = f32[5] constant({nan, 0, -0.0, -inf, 1})  s = f32[5] sort(x), dimensions={0}, to_apply=lt
  o = f32[5] constant({1,1,1,1,1})  ROOT q = f32[5] divide(o, s) })",
         {-0.0, -INFINITY, INFINITY, 1, kNan}});
  Check({"two keys, along the first dimension",
         R"(
f { a = s32[] parameter(0)  b = s32[] parameter(1)  c = s32[] parameter(2)  d = s32[] parameter(3)
    l = pred[] compare(a, b), direction=LT  q = pred[] compare(a, b), direction=EQ
    g = pred[] compare(c, d), direction=GT  n = pred[] and(q, g)  ROOT o = pred[] or(l, n) }
ENTRY e { x = s32[3,2] constant({{2,1},{1,1},{2,1}})  y = s32[3,2] constant({{5,7},{6,9},{8,8}})
  ROOT s = (s32[3,2], s32[3,2]) sort(x, y), dimensions={0}, to_apply=f })",
         {1, 1, 2, 1, 2, 1, 6, 9, 8, 8, 5, 7}});
  Check({"topk, largest and smallest",
         R"(
ENTRY e { x = f32[1,4] constant({{1, 7, 3, 7}})  a = (f32[1,3], s32[1,3]) topk(x), k=3
  b = (f32[1,2], s32[1,2]) topk(x), k=2, largest=false
  ROOT t = ((f32[1,3], s32[1,3]), (f32[1,2], s32[1,2])) tuple(a, b) })",
         {7, 7, 3, 1, 3, 2, 1, 3, 0, 2}});
}

TEST(Programs, Windows) {
  Check({"reduce-window with padding, strides, dilations",
         R"(
add { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT s = f32[] add(x, y) }
ENTRY e { x = f32[4] constant({1,2,4,8})  z = f32[] constant(0)
  a = f32[3] reduce-window(x, z), window={size=2 stride=2 pad=1_1}, to_apply=add
  b = f32[2] reduce-window(x, z), window={size=2 rhs_dilate=2}, to_apply=add
  c = f32[6] reduce-window(x, z), window={size=2 lhs_dilate=2}, to_apply=add
  ROOT t = (f32[3], f32[2], f32[6]) tuple(a, b, c) })",
         {1, 6, 8, 5, 10, 1, 2, 2, 4, 4, 8}});
  Check({"reduce-window of two operands",
         R"(
f { a = f32[] parameter(0)  b = s32[] parameter(1)  c = f32[] parameter(2)  d = s32[] parameter(3)
    g = pred[] compare(c, a), direction=GT  v = f32[] select(g, c, a)  i = s32[] select(g, d, b)
    ROOT t = (f32[], s32[]) tuple(v, i) }
ENTRY e { x = f32[4] constant({1,5,2,7})  i = s32[4] iota(), iota_dimension=0  m = f32[] constant(-inf)  z = s32[] constant(-1)
  ROOT r = (f32[3], s32[3]) reduce-window(x, i, m, z), window={size=2}, to_apply=f })",
         {5, 5, 7, 1, 1, 3}});
  Check({"select-and-scatter",
         R"(
ge { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT g = pred[] compare(a, b), direction=GE }
add { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT s = f32[] add(x, y) }
ENTRY e { x = f32[5] constant({1,9,3,9,2})  s = f32[3] constant({10,20,30})  z = f32[] constant(0.5)
  ROOT r = f32[5] select-and-scatter(x, s, z), window={size=3}, select=ge, scatter=add })",
         {0.5, 30.5, 0.5, 30.5, 0.5}});
  Check({"convolution: same, strided, transposed, grouped",
         R"(
ENTRY e { x = f32[1,4,1] constant({{{1},{2},{3},{4}}})  k = f32[3,1,1] constant({{{1}},{{10}},{{100}}})
  a = f32[1,4,1] convolution(x, k), window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f
  b = f32[1,2,1] convolution(x, k), window={size=3 stride=2 pad=1_0}, dim_labels=b0f_0io->b0f
  c = f32[1,9,1] convolution(x, k), window={size=3 pad=2_2 lhs_dilate=2}, dim_labels=b0f_0io->b0f
  d = f32[1,2,1] convolution(x, k), window={size=3 rhs_reversal=1}, dim_labels=b0f_0io->b0f
  y = f32[1,2,2] constant({{{1,2},{3,4}}})  g = f32[1,1,2] constant({{{5,7}}})
  f = f32[1,2,2] convolution(y, g), window={size=1}, dim_labels=b0f_0io->b0f, feature_group_count=2
  ROOT t = (f32[1,4,1], f32[1,2,1], f32[1,9,1], f32[1,2,1], f32[1,2,2]) tuple(a, b, c, d, f) })",
         {210, 321, 432, 43, 210, 432, 100, 10, 201, 20, 302,
          30,  403, 40,  4,  123, 234, 5,   14, 15,  28}});
}

TEST(Programs, Contractions) {
  Check({"ragged-dot, free and contracting",
         R"(
ENTRY e { x = f32[3,2] constant({{1,2},{3,4},{5,6}})  w = f32[2,2,1] constant({{{1},{1}},{{10},{1}}})  n = s32[2] constant({1,2})
  a = f32[3,1] ragged-dot(x, w, n), lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}
  y = f32[3,1] constant({{1},{1},{2}})
  b = f32[2,2,1] ragged-dot(x, y, n), lhs_contracting_dims={0}, rhs_contracting_dims={0}, lhs_ragged_dims={0}
  ROOT t = (f32[3,1], f32[2,2,1]) tuple(a, b) })",
         {3, 34, 56, 1, 2, 13, 16}});
  Check({"scaled-dot",
         R"(
ENTRY e { x = f32[1,4] constant({{1,2,3,4}})  y = f32[4,1] constant({{1},{1},{1},{1}})
  p = f32[1,2] constant({{1, 10}})  q = f32[] constant(2)
  ROOT d = f32[1,1] scaled-dot(x, y, p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0} })",
         {146}});
}

TEST(Programs, LinearAlgebra) {
  Check({"cholesky, lower and upper; not positive definite",
         R"(
ENTRY e { x = f32[2,2] constant({{4,2},{2,5}})  n = f32[2,2] constant({{1,2},{2,1}})
  l = f32[2,2] cholesky(x), lower=true  u = f32[2,2] cholesky(x)  b = f32[2,2] cholesky(n), lower=true
  ROOT t = (f32[2,2], f32[2,2], f32[2,2]) tuple(l, u, b) })",
         {2, 0, 1, 2, 2, 1, 0, 2, kNan, kNan, kNan, kNan}});
  Check({"triangular-solve from both sides",
         R"(
ENTRY e { a = f64[2,2] constant({{2,99},{1,4}})  b = f64[2,1] constant({{2},{9}})  c = f64[1,2] constant({{4,8}})
  x = f64[2,1] triangular-solve(a, b), left_side=true, lower=true, transpose_a=NO_TRANSPOSE
  y = f64[2,1] triangular-solve(a, b), left_side=true, lower=true, transpose_a=TRANSPOSE
  z = f64[1,2] triangular-solve(a, c), lower=true, transpose_a=NO_TRANSPOSE
  u = f64[2,1] triangular-solve(a, b), left_side=true, lower=true, unit_diagonal=true, transpose_a=NO_TRANSPOSE
  ROOT t = (f64[2,1], f64[2,1], f64[1,2], f64[2,1]) tuple(x, y, z, u) })",
         {1, 2, -0.125, 2.25, 1, 2, 2, 7},
         1e-12});
  Check(
      {"fft of three and of four points, and back",
       R"(
ENTRY e { x = c64[3] constant({(1,0),(2,0),(3,0)})  y = f32[4] constant({1,2,3,4})
  f = c64[3] fft(x), fft_type=FFT, fft_length={3}
  r = c64[3] fft(y), fft_type=RFFT, fft_length={4}
  i = f32[4] fft(r), fft_type=IRFFT, fft_length={4}
  j = c64[3] fft(f), fft_type=IFFT, fft_length={3}
  ROOT t = (c64[3], c64[3], f32[4], c64[3]) tuple(f, r, i, j) })",
       {6, 0, -1.5, 0.8660254, -1.5, -0.8660254, 10, 0, -2, 2, -2, 0, 1, 2, 3, 4, 1, 0, 2, 0, 3, 0},
       1e-6});
}

TEST(Programs, Normalisation) {
  Check({"batch-norm training and inference",
         R"(
ENTRY e { x = f32[2,2] constant({{1,10},{3,30}})  s = f32[2] constant({1,2})  o = f32[2] constant({0,1})
  t = (f32[2,2], f32[2], f32[2]) batch-norm-training(x, s, o), epsilon=0, feature_index=1
  m = f32[2] constant({1,10})  v = f32[2] constant({4,100})
  i = f32[2,2] batch-norm-inference(x, s, o, m, v), epsilon=0, feature_index=1
  ROOT r = ((f32[2,2], f32[2], f32[2]), f32[2,2]) tuple(t, i) })",
         {-1, -1, 1, 3, 2, 20, 1, 100, 0, 1, 1, 5}});
  Check({"batch-norm-grad",
         R"(
ENTRY e { x = f32[2,1] constant({{1},{3}})  s = f32[1] constant({2})  m = f32[1] constant({2})  v = f32[1] constant({1})
  d = f32[2,1] constant({{1},{5}})
  ROOT g = (f32[2,1], f32[1], f32[1]) batch-norm-grad(x, s, m, v, d), epsilon=1, feature_index=1 })",
         {-1.41421356, 1.41421356, 2.82842712, 6},
         1e-6});
}

TEST(Programs, Complex) {
  Check({"arithmetic",
         R"(
ENTRY e { a = c64[] constant((1, 2))  b = c64[] constant((3, -1))
  m = c64[] multiply(a, b)  d = c64[] divide(m, b)  s = c64[] subtract(a, b)  n = f32[] abs(b)
  r = f32[] real(a)  i = f32[] imag(a)  c = c64[] complex(r, n)  q = pred[] compare(a, a), direction=EQ
  f = f64[] convert(a)  g = c128[] convert(b)  e2 = c64[] exponential(a)
  ROOT t = (c64[], c64[], c64[], f32[], c64[], pred[], f64[], c128[], c64[]) tuple(m, d, s, n, c, q, f, g, e2) })",
         {5, 5, 1, 2, -2, 3, 3.1622777, 1, 3.1622777, 1, 1, 3, -1, -1.1312044, 2.4717267},
         1e-6});
  Check({"reduce",
         R"(
add { x = c64[] parameter(0)  y = c64[] parameter(1)  ROOT s = c64[] add(x, y) }
ENTRY e { x = c64[3] constant({(1,1),(2,0),(3,-5)})  z = c64[] constant((0,0))
  ROOT r = c64[] reduce(x, z), dimensions={0}, to_apply=add })",
         {6, -4}});
}

TEST(Programs, Casts) {
  Check({"bitcast-convert between widths, the low part first",
         R"(
ENTRY e { x = u32[1] constant({67305985})  a = u8[1,4] bitcast-convert(x)  b = u32[1] bitcast-convert(a)
  n = u4[2] constant({1, 15})  c = u8[] bitcast-convert(n)  s = s4[2] bitcast-convert(c)
  f = f32[] constant(1)  h = u16[2] bitcast-convert(f)
  ROOT t = (u8[1,4], u32[1], u8[], s4[2], u16[2]) tuple(a, b, c, s, h) })",
         {1, 2, 3, 4, 67305985, 241, 1, -1, 0, 0x3F80}});
  Check({"stochastic-convert rounds by the draw",
         R"(
ENTRY e { x = f32[4] constant({1.25, 1.25, -2.75, nan})  r = u32[4] constant({1073741823, 1073741824, 0, 0})
  ROOT c = s8[4] stochastic-convert(x, r) })",
         {2, 1, -3, 0}});
  Check({"small integers and floats wrap and round",
         R"(
ENTRY e { a = s4[2] constant({7, -8})  b = s4[2] constant({1, -1})  s = s4[2] add(a, b)
  u = u2[1] constant({3})  v = u2[1] add(u, u)  f = f8e4m3fn[1] constant({17})  g = f4e2m1fn[1] convert(f)
  ROOT t = (s4[2], u2[1], f8e4m3fn[1], f4e2m1fn[1]) tuple(s, v, f, g) })",
         {-8, 7, 2, 16, 6}});
  Check({"reduce-precision",
         R"(
ENTRY e { x = f32[2] constant({1.999, 1e30})  ROOT r = f32[2] reduce-precision(x), exponent_bits=5, mantissa_bits=2 })",
         {2, INFINITY}});
}

TEST(Programs, Reductions) {
  Check({"integers start each of XLA's stages from the initial value",
         R"(
add { x = u32[] parameter(0)  y = u32[] parameter(1)  ROOT s = u32[] add(x, y) }
ENTRY e { z = u32[] constant(0)  x = u32[64] broadcast(z), dimensions={}  i = u32[] constant(5)
  a = u32[] reduce(x, i), dimensions={0}, to_apply=add
  y = u32[32] broadcast(z), dimensions={}  b = u32[] reduce(y, i), dimensions={0}, to_apply=add
  ROOT t = (u32[], u32[]) tuple(a, b) })",
         {15, 5}});
  Check({"a loop in a reducer runs element by element",
         R"(
c { s = (s32[], s32[]) parameter(0)  i = s32[] get-tuple-element(s), index=0
    z = s32[] constant(0)  ROOT g = pred[] compare(i, z), direction=GT }
b { s = (s32[], s32[]) parameter(0)  i = s32[] get-tuple-element(s), index=0
    x = s32[] get-tuple-element(s), index=1  one = s32[] constant(1)  j = s32[] subtract(i, one)
    y = s32[] add(x, x)  ROOT t = (s32[], s32[]) tuple(j, y) }
f { x = s32[] parameter(0)  y = s32[] parameter(1)  t = (s32[], s32[]) tuple(y, x)
    w = (s32[], s32[]) while(t), condition=c, body=b  ROOT r = s32[] get-tuple-element(w), index=1 }
ENTRY e { x = s32[3] constant({1, 0, 3})  i = s32[] constant(5)
  ROOT r = s32[] reduce(x, i), dimensions={0}, to_apply=f })",
         {80}});
}

TEST(Programs, Dynamic) {
  Check({"a dimension that is set is summed and counted so",
         R"(
add { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT s = f32[] add(x, y) }
ENTRY e { x = f32[4] constant({1,2,4,8})  n = s32[] constant(3)  z = f32[] constant(0)
  d = f32[<=4] set-dimension-size(x, n), dimensions={0}
  m = f32[<=4] multiply(d, d)  s = f32[] reduce(m, z), dimensions={0}, to_apply=add
  k = s32[] get-dimension-size(m), dimensions={0}
  ROOT t = (f32[<=4], f32[], s32[]) tuple(m, s, k) })",
         {1, 4, 16, 0, 21, 3}});
  Check({"dynamic-reshape and the calls around it",
         R"(
ENTRY e { x = s32[6] constant({0,1,2,3,4,5})  a = s32[] constant(2)  b = s32[] constant(2)
  r = s32[<=2,<=3] dynamic-reshape(x, a, b)
  p = (s32[2,3], s32[], s32[]) custom-call(r), custom_call_target="PadToStatic"
  s = s32[<=6] custom-call(x, a), custom_call_target="SliceToDynamic"
  ROOT t = ((s32[2,3], s32[], s32[]), s32[<=6]) tuple(p, s) })",
         {0, 1, 0, 2, 3, 0, 2, 2, 0, 1, 0, 0, 0, 0}});
}

struct Refused {
  const char* text;
  const char* message;
};

// As jaxlib 0.10.2 computes it on a CPU.
TEST(Programs, SubnormalsCountAsZero) {
  Check({"arithmetic",
         R"(
ENTRY e { a = f32[4] constant({1e-40, 8e-39, 1.2e-38, -1.2e-38})
  b = f32[4] constant({8e-39, 8e-39, -1.19e-38, 1.19e-38})
  s = f32[4] add(a, b)  d = f32[4] subtract(a, b)  ROOT t = (f32[4], f32[4]) tuple(s, d) })",
         {0, 0, 0, 0, 0, 0, 2.39e-38, -2.39e-38},
         1e-44});
  Check({"comparisons, conversions, functions",
         R"(
ENTRY e { a = f32[3] constant({1e-40, -8e-39, 1.2e-38})  z = f32[] constant(0)  zs = f32[3] broadcast(z), dimensions={}
  q = pred[3] compare(a, zs), direction=EQ  w = f64[3] convert(a)  l = f32[3] log(a)
  b = f32[2] slice(a), slice={[0:2]}  i = f32[2] rsqrt(b)
  ROOT t = (pred[3], f64[3], f32[3], f32[2]) tuple(q, w, l, i) })",
         {1, 1, 0, 0, 0, 1.2e-38, -HUGE_VAL, -HUGE_VAL, -87.3159, HUGE_VAL, -HUGE_VAL},
         1e-4});
  Check({"moving keeps them",
         R"(
ENTRY e { a = f32[3] constant({1e-40, 8e-39, 1.2e-38})  r = f32[3] reverse(a), dimensions={0}
  n = f32[3] negate(r)  c = bf16[3] convert(a)  ROOT t = (f32[3], f32[3], bf16[3]) tuple(r, n, c) })",
         {1.2e-38, 8e-39, 1e-40, -1.2e-38, -8e-39, -1e-40, 1e-40, 8e-39, 1.2e-38},
         5e-41});
}

TEST(Programs, WhatCannotRun) {
  const Refused rows[] = {
      {"c { s = (f32[], f32[]) parameter(0)  a = f32[] get-tuple-element(s), index=0\n"
       "  z = f32[] constant(0)  ROOT g = pred[] compare(a, z), direction=GT }\n"
       "b { s = (f32[], f32[]) parameter(0)  a = f32[] get-tuple-element(s), index=0\n"
       "  b = f32[] get-tuple-element(s), index=1  d = f32[] add(a, b)  ROOT t = (f32[], f32[]) "
       "tuple(a, d) }\n"
       "ENTRY e { o = f32[] constant(1)  t = (f32[], f32[]) tuple(o, o)\n"
       "  ROOT w = (f32[], f32[]) while(t), condition=c, body=b }",
       "a loop without end"},
      {"ENTRY e { k = token[] after-all()  i = (f32[2], token[]) infeed(k)  ROOT x = f32[2] "
       "get-tuple-element(i), index=0 }",
       "infeed: it speaks with a host or device that is not there"},
      {"ENTRY e { x = f32[2] constant({1,2})  k = token[] after-all()  ROOT o = token[] outfeed(x, "
       "k), outfeed_shape=f32[2] }",
       "outfeed: it speaks"},
      {"ENTRY e { x = f32[2] constant({1,2})  k = token[] after-all()  s = (f32[2], u32[], "
       "token[]) send(x, k), channel_id=1  ROOT d = token[] send-done(s), channel_id=1 }",
       "send: it speaks"},
      {"ENTRY e { k = token[] after-all()  r = (f32[2], u32[], token[]) recv(k), channel_id=1  "
       "ROOT d = (f32[2], token[]) recv-done(r), channel_id=1 }",
       "recv: it speaks"},
      {"add { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT s = f32[] add(x, y) }\n"
       "ENTRY e { x = f32[2] constant({1,2})  ROOT r = f32[2] all-reduce(x), "
       "replica_groups={{0,1}}, to_apply=add }",
       "all-reduce among several devices"},
      {"ENTRY e { x = f32[2] constant({1,2})  ROOT r = f32[2] collective-permute(x), "
       "source_target_pairs={{0,1}} }",
       "collective-permute between devices"},
      {"ENTRY e { x = f32[2] constant({1,2})  ROOT r = f32[2] custom-call(x), "
       "custom_call_target=\"mine\" }",
       "custom-call to \"mine\""},
      {"add { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT s = f32[] add(x, y) }\n"
       "ENTRY e { x = f32[2] constant({1,2})  z = f32[] constant(0)  ROOT r = f32[1] "
       "reduce-window(x, z), window={size=1000000000000 pad=0_999999999998}, to_apply=add }",
       "a window of 1e+12 places"},
      {"ENTRY e { x = f32[1,1,1] constant({{{1}}})  ROOT r = f32[1,2,1] convolution(x, x), "
       "window={size=1 stride=4000000000000 pad=0_4000000000000}, dim_labels=b0f_0io->b0f }",
       "a convolution whose padded input takes more than"},
  };
  for (const Refused& row : rows) {
    SCOPED_TRACE(row.message);
    DiagSink diags;
    auto module = Parse(absl::StrCat("HloModule m\n", row.text), &diags);
    ASSERT_TRUE(module) << diags.Render();
    EXPECT_FALSE(Evaluate(*module, {}, {}, &diags));
    ASSERT_EQ(diags.diags().size(), 1u);
    EXPECT_EQ(diags.diags()[0].code, DiagCode::kUnsupportedOp);
    EXPECT_TRUE(absl::StrContains(diags.diags()[0].message, row.message)) << diags.Render();
  }
}

// rng is reproducible, within its bounds, and spread over them.
TEST(Programs, Rng) {
  const char* text = R"(HloModule m
ENTRY e { a = f32[] constant(-1)  b = f32[] constant(3)  i = s32[] constant(-2)  j = s32[] constant(2)
  u = f32[1000] rng(a, b), distribution=rng_uniform  n = f32[1000] rng(a, b), distribution=rng_normal
  k = s32[1000] rng(i, j), distribution=rng_uniform  ROOT t = (f32[1000], f32[1000], s32[1000]) tuple(u, n, k) })";
  DiagSink diags;
  auto module = Parse(text, &diags);
  ASSERT_TRUE(module) << diags.Render();
  auto result = Evaluate(*module, {}, {}, &diags), again = Evaluate(*module, {}, {}, &diags);
  ASSERT_TRUE(result && again) << diags.Render();
  EXPECT_TRUE(result->IdenticalTo(*again));
  std::vector<double> values;
  Flatten(*result, &values);
  double sums[3] = {0, 0, 0}, square = 0;
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(values[i] >= -1 && values[i] < 3);
    ASSERT_TRUE(values[2000 + i] >= -2 && values[2000 + i] < 2);
    for (int k = 0; k < 3; ++k) sums[k] += values[k * 1000 + i] / 1000;
    square += (values[1000 + i] + 1) * (values[1000 + i] + 1) / 1000;
  }
  EXPECT_NEAR(sums[0], 1, 0.15);  // 4 standard errors
  EXPECT_NEAR(sums[1], -1, 0.4);
  EXPECT_NEAR(sums[2], -0.5, 0.15);
  EXPECT_NEAR(square, 9, 2);
}

}  // namespace
}  // namespace tpuc
