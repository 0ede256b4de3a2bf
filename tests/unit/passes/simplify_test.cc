// One case a rule: what the operations of the entry are after simplify, that the value stayed, and
// that the rule named is among those that applied. Last: no rule without a case.
#include <gtest/gtest.h>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "passes/algebraic_simplifier.h"
#include "passes/dce.h"
#include "passes/degenerate_dims.h"
#include "passes/simplify/rewriter.h"
#include "tests/unit/passes/programs.h"

namespace tpuc {
namespace {

constexpr char kReducers[] = R"(HloModule t
sum { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT r = f32[] add(a, b) }
max { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT r = f32[] maximum(a, b) }
less { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT r = pred[] compare(a, b), direction=LT }
mapped { a = f32[] parameter(0)
 b = f32[] parameter(1)
 m = f32[] multiply(a, b)
 c = f32[] constant(1)
 ROOT r = f32[] add(m, c) }
mapped_tuple { a = f32[] parameter(0)
 b = f32[] parameter(1)
 m = f32[] multiply(a, b)
 t = (f32[], f32[]) tuple(m, b)
 ROOT r = f32[] get-tuple-element(t), index=0 }
ENTRY e {
)";

struct Case {
  const char* rule;  // "" where no rule may apply
  const char*
      body;  // instructions separated by ';'; x, y are f32[4,8], n, m s32[4,8], u u32[4,8], p pred
  const char* ops;  // opcodes of the entry afterwards, parameters left out
};

const Case kCases[] = {
    // operations in disguise
    {"map(x) -> what it applies", "ROOT r = f32[4,8] map(x,y),dimensions={0,1},to_apply=mapped",
     "multiply constant broadcast add"},
    {"", "ROOT r = f32[4,8] map(x,y),dimensions={0,1},to_apply=mapped_tuple", "map"},
    {"sort along size 1 -> x",
     "a = f32[32,1] reshape(x);s = f32[32,1] sort(a),dimensions={1},to_apply=less;ROOT r = f32[32] "
     "reshape(s)",
     "reshape"},
    {"", "ROOT r = f32[4,8] sort(x),dimensions={1},to_apply=less", "sort"},
    {"real(complex(x,y)) -> x", "c = c64[4,8] complex(x,y);ROOT r = f32[4,8] real(c)", ""},
    {"imag(complex(x,y)) -> y", "c = c64[4,8] complex(x,y);ROOT r = f32[4,8] imag(c)", ""},
    {"complex(real(z),imag(z)) -> z",
     "z = c64[4,8] convert(x);a = f32[4,8] real(z);b = f32[4,8] imag(z);ROOT r = c64[4,8] "
     "complex(a,b)",
     "convert"},
    {"size of a static dimension -> constant",
     "ROOT r = s32[] get-dimension-size(x),dimensions={1}", "constant"},
    // arithmetic
    {"c+x -> x+c", "c = f32[4,8] broadcast(two),dimensions={};ROOT r = f32[4,8] add(c,x)",
     "constant broadcast add"},
    {"x+0 -> x (integer)", "c = s32[4,8] broadcast(izero),dimensions={};ROOT r = s32[4,8] add(n,c)",
     ""},
    {"x+(-0.0) -> x",
     "z = f32[] constant(-0);c = f32[4,8] broadcast(z),dimensions={};ROOT r = f32[4,8] add(x,c)",
     ""},
    {"", "c = f32[4,8] broadcast(zero),dimensions={};ROOT r = f32[4,8] add(x,c)",
     "constant broadcast add"},
    {"x+(-y) -> x-y", "k = f32[4,8] negate(y);ROOT r = f32[4,8] add(x,k)", "subtract"},
    {"(-x)+y -> y-x", "k = f32[4,8] negate(x);ROOT r = f32[4,8] add(k,y)", "subtract"},
    {"(x+c)+d -> x+(c+d)",
     "c = s32[4,8] broadcast(itwo),dimensions={};k = s32[4,8] add(n,c);ROOT r = s32[4,8] add(k,c)",
     "constant constant add broadcast add"},
    {"x-0 -> x", "c = f32[4,8] broadcast(zero),dimensions={};ROOT r = f32[4,8] subtract(x,c)", ""},
    {"x-(-y) -> x+y", "k = f32[4,8] negate(y);ROOT r = f32[4,8] subtract(x,k)", "add"},
    {"x-x -> 0 (integer)", "ROOT r = s32[4,8] subtract(n,n)", "constant broadcast"},
    {"", "ROOT r = f32[4,8] subtract(x,x)", "subtract"},
    {"c*x -> x*c", "c = f32[4,8] broadcast(two),dimensions={};ROOT r = f32[4,8] multiply(c,x)",
     "constant broadcast multiply"},
    {"x*1 -> x", "c = f32[4,8] broadcast(one),dimensions={};ROOT r = f32[4,8] multiply(x,c)", ""},
    {"x*(-1) -> -x",
     "k = f32[] constant(-1);c = f32[4,8] broadcast(k),dimensions={};ROOT r = f32[4,8] "
     "multiply(x,c)",
     "negate"},
    {"x*0 -> 0 (integer)",
     "c = s32[4,8] broadcast(izero),dimensions={};ROOT r = s32[4,8] multiply(n,c)",
     "constant broadcast"},
    {"", "c = f32[4,8] broadcast(zero),dimensions={};ROOT r = f32[4,8] multiply(x,c)",
     "constant broadcast multiply"},
    {"(-x)*(-y) -> x*y",
     "k = f32[4,8] negate(x);l = f32[4,8] negate(y);ROOT r = f32[4,8] multiply(k,l)", "multiply"},
    {"(x*c)*d -> x*(c*d)",
     "c = s32[4,8] broadcast(itwo),dimensions={};k = s32[4,8] multiply(n,c);ROOT r = s32[4,8] "
     "multiply(k,c)",
     "constant constant multiply broadcast multiply"},
    {"x/1 -> x", "c = f32[4,8] broadcast(one),dimensions={};ROOT r = f32[4,8] divide(x,c)", ""},
    {"x/(-1) -> -x",
     "k = f32[] constant(-1);c = f32[4,8] broadcast(k),dimensions={};ROOT r = f32[4,8] divide(x,c)",
     "negate"},
    {"x/2^k -> x*2^-k",
     "k = f32[] constant(64);c = f32[4,8] broadcast(k),dimensions={};ROOT r = f32[4,8] divide(x,c)",
     "constant broadcast multiply"},
    {"x/c ~ x*(1/c)",
     "k = f32[] constant(3);c = f32[4,8] broadcast(k),dimensions={};ROOT r = f32[4,8] divide(x,c)",
     "constant broadcast multiply"},
    {"",
     "k = bf16[] constant(3);c = bf16[4,8] broadcast(k),dimensions={};h = bf16[4,8] "
     "convert(x);ROOT r = bf16[4,8] divide(h,c)",
     "constant broadcast convert divide"},
    {"x/2^k -> x>>k (unsigned)",
     "k = u32[] constant(8);c = u32[4,8] broadcast(k),dimensions={};ROOT r = u32[4,8] divide(u,c)",
     "constant broadcast shift-right-logical"},
    {"1/(1+exp(-x)) ~ logistic(x)",
     "c = f32[4,8] broadcast(one),dimensions={};k = f32[4,8] negate(x);e = f32[4,8] "
     "exponential(k);s = f32[4,8] add(c,e);ROOT r = f32[4,8] divide(c,s)",
     "logistic"},
    {"1/sqrt(x) ~ rsqrt(x)",
     "c = f32[4,8] broadcast(one),dimensions={};a = f32[4,8] abs(x);s = f32[4,8] sqrt(a);ROOT r = "
     "f32[4,8] divide(c,s)",
     "abs rsqrt"},
    {"x%2^k -> x&(2^k-1) (unsigned)",
     "k = u32[] constant(8);c = u32[4,8] broadcast(k),dimensions={};ROOT r = u32[4,8] "
     "remainder(u,c)",
     "constant broadcast and"},
    {"x^1 -> x", "c = f32[4,8] broadcast(one),dimensions={};ROOT r = f32[4,8] power(x,c)", ""},
    {"x^2 ~ x*x", "c = f32[4,8] broadcast(two),dimensions={};ROOT r = f32[4,8] power(x,c)",
     "multiply"},
    {"x^3 ~ x*x*x",
     "k = f32[] constant(3);c = f32[4,8] broadcast(k),dimensions={};ROOT r = f32[4,8] power(x,c)",
     "multiply multiply"},
    {"x^0 -> 1", "c = f32[4,8] broadcast(zero),dimensions={};ROOT r = f32[4,8] power(x,c)",
     "constant broadcast"},
    {"x^-1 ~ 1/x",
     "k = f32[] constant(-1);c = f32[4,8] broadcast(k),dimensions={};ROOT r = f32[4,8] power(x,c)",
     "constant broadcast divide"},
    {"-(-x) -> x", "k = f32[4,8] negate(x);ROOT r = f32[4,8] negate(k)", ""},
    // f8e8m0fnu has no negative values: -x is NaN.
    {"",
     "k = f8e8m0fnu[4,8] convert(x);l = f8e8m0fnu[4,8] negate(k);ROOT r = f8e8m0fnu[4,8] negate(l)",
     "convert negate negate"},
    {"abs(abs(x)) -> abs(x)", "k = f32[4,8] abs(x);ROOT r = f32[4,8] abs(k)", "abs"},
    {"abs(-x) -> abs(x)", "k = f32[4,8] negate(x);ROOT r = f32[4,8] abs(k)", "abs"},
    {"abs(x*x) -> x*x", "k = f32[4,8] multiply(x,x);ROOT r = f32[4,8] abs(k)", "multiply"},
    {"max(x,x) -> x", "ROOT r = f32[4,8] maximum(x,x)", ""},
    {"max(c,x) -> max(x,c)",
     "c = f32[4,8] broadcast(two),dimensions={};ROOT r = f32[4,8] maximum(c,x)",
     "constant broadcast maximum"},
    {"max(x,-inf) -> x",
     "k = f32[] constant(-inf);c = f32[4,8] broadcast(k),dimensions={};ROOT r = f32[4,8] "
     "maximum(x,c)",
     ""},
    {"max(max(x,c),d) -> max(x,max(c,d))",
     "c = s32[4,8] broadcast(itwo),dimensions={};k = s32[4,8] maximum(n,c);d = s32[4,8] "
     "broadcast(izero),dimensions={};ROOT r = s32[4,8] maximum(k,d)",
     "constant constant maximum broadcast maximum"},
    {"max(max(x,y),y) -> max(x,y)", "k = f32[4,8] maximum(x,y);ROOT r = f32[4,8] maximum(k,y)",
     "maximum"},
    {"min(x,x) -> x", "ROOT r = f32[4,8] minimum(x,x)", ""},
    {"min(c,x) -> min(x,c)",
     "c = f32[4,8] broadcast(two),dimensions={};ROOT r = f32[4,8] minimum(c,x)",
     "constant broadcast minimum"},
    {"min(x,inf) -> x",
     "k = f32[] constant(inf);c = f32[4,8] broadcast(k),dimensions={};ROOT r = f32[4,8] "
     "minimum(x,c)",
     ""},
    {"min(min(x,c),d) -> min(x,min(c,d))",
     "c = s32[4,8] broadcast(itwo),dimensions={};k = s32[4,8] minimum(n,c);d = s32[4,8] "
     "broadcast(izero),dimensions={};ROOT r = s32[4,8] minimum(k,d)",
     "constant constant minimum broadcast minimum"},
    {"min(min(x,y),y) -> min(x,y)", "k = f32[4,8] minimum(x,y);ROOT r = f32[4,8] minimum(k,y)",
     "minimum"},
    // logic
    {"not(not(x)) -> x", "k = pred[4,8] not(p);ROOT r = pred[4,8] not(k)", ""},
    {"not(x==y) -> x!=y", "k = pred[4,8] compare(x,y),direction=EQ;ROOT r = pred[4,8] not(k)",
     "compare"},
    {"", "k = pred[4,8] compare(x,y),direction=LT;ROOT r = pred[4,8] not(k)", "compare not"},
    {"and(x,x) -> x", "ROOT r = pred[4,8] and(p,p)", ""},
    {"and(c,x) -> and(x,c)",
     "c = s32[4,8] broadcast(itwo),dimensions={};ROOT r = s32[4,8] and(c,n)",
     "constant broadcast and"},
    {"and(x,ones) -> x",
     "k = s32[] constant(-1);c = s32[4,8] broadcast(k),dimensions={};ROOT r = s32[4,8] and(n,c)",
     ""},
    {"and(x,0) -> 0", "c = s32[4,8] broadcast(izero),dimensions={};ROOT r = s32[4,8] and(n,c)",
     "constant broadcast"},
    {"or(x,x) -> x", "ROOT r = pred[4,8] or(p,p)", ""},
    {"or(c,x) -> or(x,c)", "c = s32[4,8] broadcast(itwo),dimensions={};ROOT r = s32[4,8] or(c,n)",
     "constant broadcast or"},
    {"or(x,0) -> x", "c = s32[4,8] broadcast(izero),dimensions={};ROOT r = s32[4,8] or(n,c)", ""},
    {"or(x,ones) -> ones",
     "k = s32[] constant(-1);c = s32[4,8] broadcast(k),dimensions={};ROOT r = s32[4,8] or(n,c)",
     "constant broadcast"},
    {"xor(c,x) -> xor(x,c)",
     "c = s32[4,8] broadcast(itwo),dimensions={};ROOT r = s32[4,8] xor(c,n)",
     "constant broadcast xor"},
    {"xor(x,0) -> x", "c = s32[4,8] broadcast(izero),dimensions={};ROOT r = s32[4,8] xor(n,c)", ""},
    {"xor(x,x) -> 0", "ROOT r = s32[4,8] xor(n,n)", "constant broadcast"},
    {"x<<0 -> x", "c = s32[4,8] broadcast(izero),dimensions={};ROOT r = s32[4,8] shift-left(n,c)",
     ""},
    {"x>>0 -> x",
     "c = s32[4,8] broadcast(izero),dimensions={};ROOT r = s32[4,8] shift-right-logical(n,c)", ""},
    {"x>>0 -> x (arithmetic)",
     "c = s32[4,8] broadcast(izero),dimensions={};ROOT r = s32[4,8] shift-right-arithmetic(n,c)",
     ""},
    {"c<x -> x>c",
     "c = f32[4,8] broadcast(two),dimensions={};ROOT r = pred[4,8] compare(c,x),direction=LT",
     "constant broadcast compare"},
    {"x==x -> true (integer)", "ROOT r = pred[4,8] compare(n,n),direction=LE",
     "constant broadcast"},
    {"", "ROOT r = pred[4,8] compare(x,x),direction=EQ", "compare"},
    {"x<0 -> false (unsigned)",
     "k = u32[] constant(0);c = u32[4,8] broadcast(k),dimensions={};ROOT r = pred[4,8] "
     "compare(u,c),direction=LT",
     "constant broadcast"},
    {"p==true -> p",
     "k = pred[] constant(true);c = pred[4,8] broadcast(k),dimensions={};ROOT r = pred[4,8] "
     "compare(p,c),direction=EQ",
     ""},
    {"select(p,x,x) -> x", "ROOT r = f32[4,8] select(p,x,x)", ""},
    {"select(true,x,y) -> x",
     "k = pred[] constant(false);c = pred[4,8] broadcast(k),dimensions={};ROOT r = f32[4,8] "
     "select(c,x,y)",
     ""},
    {"select(not(p),x,y) -> select(p,y,x)", "k = pred[4,8] not(p);ROOT r = f32[4,8] select(k,x,y)",
     "select"},
    {"select(p,true,false) -> p",
     "k = pred[] constant(true);c = pred[4,8] broadcast(k),dimensions={};l = pred[] "
     "constant(false);d = pred[4,8] broadcast(l),dimensions={};ROOT r = pred[4,8] select(p,c,d)",
     ""},
    {"clamp(a,clamp(a,x,b),b) -> clamp(a,x,b)",
     "k = f32[4,8] clamp(zero,x,one);ROOT r = f32[4,8] clamp(zero,k,one)",
     "constant constant clamp"},
    // conversions
    {"convert(x) to its type -> x", "ROOT r = f32[4,8] convert(x)", ""},
    {"convert(convert(x)) -> convert(x)",
     "b = bf16[4,8] convert(x);k = f32[4,8] convert(b);ROOT r = bf16[4,8] convert(k)", "convert"},
    {"", "b = bf16[4,8] convert(x);ROOT r = f32[4,8] convert(b)", "convert convert"},
    // A negative float becomes 0, a negative s8 wraps.
    {"", "b = s8[4,8] convert(x);k = f32[4,8] convert(b);ROOT r = u32[4,8] convert(k)",
     "convert convert convert"},
    {"bitcast-convert(x) to its type -> x", "ROOT r = f32[4,8] bitcast-convert(x)", ""},
    {"bitcast-convert twice -> once",
     "k = s32[4,8] bitcast-convert(x);ROOT r = u32[4,8] bitcast-convert(k)", "bitcast-convert"},
    {"reduce-precision to no less -> x",
     "ROOT r = f32[4,8] reduce-precision(x),exponent_bits=8,mantissa_bits=23", ""},
    {"", "ROOT r = f32[4,8] reduce-precision(x),exponent_bits=8,mantissa_bits=7",
     "reduce-precision"},
    {"copy(x) -> x", "ROOT r = f32[4,8] copy(x)", ""},
    // movement
    {"broadcast(x) to its dims -> x", "ROOT r = f32[4,8] broadcast(x),dimensions={0,1}", ""},
    {"broadcast(broadcast(x)) -> broadcast(x)",
     "k = f32[3,4,8] broadcast(x),dimensions={1,2};ROOT r = f32[3,2,4,8] "
     "broadcast(k),dimensions={0,2,3}",
     "broadcast"},
    {"broadcast(x [1,1]) -> broadcast(x [])",
     "s = f32[1,1] slice(x),slice={[1:2],[2:3]};ROOT r = f32[1,5,1] broadcast(s),dimensions={0,2}",
     "slice reshape broadcast"},
    {"broadcast(reshape(x)) -> broadcast(x)",
     "k = f32[4,1,8] reshape(x);ROOT r = f32[4,1,3,8] broadcast(k),dimensions={0,1,3}",
     "broadcast"},
    {"broadcast(iota) -> iota",
     "k = s32[8] iota(),iota_dimension=0;ROOT r = s32[4,8] broadcast(k),dimensions={1}", "iota"},
    {"reshape(x) to its dims -> x", "ROOT r = f32[4,8] reshape(x)", ""},
    {"reshape(reshape(x)) -> reshape(x)", "k = f32[32] reshape(x);ROOT r = f32[8,4] reshape(k)",
     "reshape"},
    {"reshape(broadcast(x)) -> broadcast(x)",
     "k = f32[4,8,1,3] broadcast(x),dimensions={0,1};ROOT r = f32[4,8,3] reshape(k)", "broadcast"},
    {"reshape(iota) -> iota", "k = s32[8] iota(),iota_dimension=0;ROOT r = s32[8,1] reshape(k)",
     "iota"},
    {"transpose(x) in order -> x", "ROOT r = f32[4,8] transpose(x),dimensions={0,1}", ""},
    {"transpose(transpose(x)) -> transpose(x)",
     "k = f32[8,4] transpose(x),dimensions={1,0};ROOT r = f32[4,8] transpose(k),dimensions={1,0}",
     ""},
    {"transpose of size-1 dims -> reshape",
     "k = f32[4,8,1] reshape(x);l = f32[4,8,1] negate(k);ROOT r = f32[1,4,8] "
     "transpose(l),dimensions={2,0,1}",
     "reshape negate reshape"},
    {"transpose(broadcast(x)) -> broadcast(x)",
     "k = f32[4,8,3] broadcast(x),dimensions={0,1};ROOT r = f32[4,3,8] "
     "transpose(k),dimensions={0,2,1}",
     "broadcast"},
    {"transpose(iota) -> iota",
     "k = s32[4,8] iota(),iota_dimension=1;ROOT r = s32[8,4] transpose(k),dimensions={1,0}",
     "iota"},
    {"reverse(reverse(x)) -> x",
     "k = f32[4,8] reverse(x),dimensions={1};ROOT r = f32[4,8] reverse(k),dimensions={1}", ""},
    {"reverse of size-1 dims -> x",
     "k = f32[4,1,8] reshape(x);ROOT r = f32[4,1,8] reverse(k),dimensions={1}", "reshape"},
    {"reverse(splat) -> splat",
     "c = f32[4,8] broadcast(two),dimensions={};ROOT r = f32[4,8] reverse(c),dimensions={0}",
     "constant broadcast"},
    {"constant of equal elements -> splat", "ROOT r = f32[2,2] constant({{3,3},{3,3}})",
     "constant broadcast"},
    {"constant 0,1,2,... -> iota", "ROOT r = s32[8] constant({0,1,2,3,4,5,6,7})", "iota"},
    // slices
    {"slice(x) of all -> x", "ROOT r = f32[4,8] slice(x),slice={[0:4],[0:8]}", ""},
    {"slice(slice(x)) -> slice(x)",
     "k = f32[2,8] slice(x),slice={[1:4:2],[0:8]};ROOT r = f32[1,3] slice(k),slice={[1:2],[2:7:2]}",
     "slice"},
    {"slice(broadcast(x)) -> broadcast(slice(x))",
     "k = f32[4,3,8] broadcast(x),dimensions={0,2};ROOT r = f32[4,2,5] "
     "slice(k),slice={[0:4],[1:3],[2:7]}",
     "slice broadcast"},
    {"slice(concatenate(..,x,..)) -> slice(x)",
     "k = f32[8,8] concatenate(x,y),dimensions={0};ROOT r = f32[2,8] slice(k),slice={[5:7],[0:8]}",
     "slice"},
    {"concatenate(x) -> x", "ROOT r = f32[4,8] concatenate(x),dimensions={0}", ""},
    {"concatenate(concatenate(..),..) -> concatenate(..)",
     "k = f32[8,8] concatenate(x,y),dimensions={0};ROOT r = f32[12,8] "
     "concatenate(k,x),dimensions={0}",
     "concatenate"},
    {"concatenate(x[0:a],x[a:b]) -> x[0:b]",
     "k = f32[4,3] slice(x),slice={[0:4],[0:3]};l = f32[4,5] slice(x),slice={[0:4],[3:8]};ROOT r = "
     "f32[4,8] concatenate(k,l),dimensions={1}",
     ""},
    {"concatenate of one splat -> splat",
     "c = f32[4,8] broadcast(two),dimensions={};d = f32[2,8] broadcast(two),dimensions={};ROOT r = "
     "f32[6,8] concatenate(c,d),dimensions={0}",
     "constant broadcast"},
    {"pad(x) by nothing -> x", "ROOT r = f32[4,8] pad(x,zero),padding=0_0x0_0", ""},
    {"pad(x) by negative -> slice(x)", "ROOT r = f32[3,6] pad(x,zero),padding=-1_0x0_-2", "slice"},
    {"pad(splat) with itself -> splat",
     "c = f32[4,8] broadcast(zero),dimensions={};ROOT r = f32[6,8] pad(c,zero),padding=1_1x0_0",
     "constant broadcast"},
    {"dynamic-slice at constants -> slice",
     "ROOT r = f32[2,8] dynamic-slice(x,itwo,izero),dynamic_slice_sizes={2,8}", "slice"},
    {"dynamic-update-slice of all -> update",
     "ROOT r = f32[4,8] dynamic-update-slice(x,y,itwo,izero)", ""},
    // reductions
    {"reduce of size-1 dims -> reshape",
     "s = f32[4,1] slice(x),slice={[0:4],[3:4]};ROOT r = f32[4] "
     "reduce(s,zero),dimensions={1},to_apply=sum",
     "slice reshape"},
    {"reduce(reshape(x)) -> reduce(x)",
     "k = f32[4,1,8] reshape(x);ROOT r = f32[4] reduce(k,zero),dimensions={1,2},to_apply=sum",
     "constant reduce"},
    {"reduce(broadcast(x)) ~ x, or x*n",
     "k = f32[4,3,8] broadcast(x),dimensions={0,2};i = f32[] constant(-inf);ROOT r = f32[4,8] "
     "reduce(k,i),dimensions={1},to_apply=max",
     ""},
    {"reduce(broadcast(x)) ~ x, or x*n",
     "k = f32[4,3,8] broadcast(x),dimensions={0,2};ROOT r = f32[4,8] "
     "reduce(k,zero),dimensions={1},to_apply=sum",
     "constant broadcast multiply"},
    {"reduce(reduce(x)) ~ reduce(x)",
     "k = f32[4] reduce(x,zero),dimensions={1},to_apply=sum;ROOT r = f32[] "
     "reduce(k,zero),dimensions={0},to_apply=sum",
     "constant reduce"},
    // How often `two` enters depends on the shape.
    {"",
     "k = f32[4,3,8] broadcast(x),dimensions={0,2};ROOT r = f32[4,8] "
     "reduce(k,two),dimensions={1},to_apply=sum",
     "constant broadcast reduce"},
    {"",
     "k = f32[4] reduce(x,zero),dimensions={1},to_apply=sum;ROOT r = f32[] "
     "reduce(k,two),dimensions={0},to_apply=sum",
     "constant constant reduce reduce"},
    {"reduce(transpose(x)) -> reduce(x)",
     "k = f32[8,4] transpose(x),dimensions={1,0};ROOT r = f32[4] "
     "reduce(k,zero),dimensions={0},to_apply=sum",
     "constant reduce"},
    // dot
    {"dot(transpose(x),y) -> dot(x,y)",
     "k = f32[8,4] transpose(x),dimensions={1,0};ROOT r = f32[8,8] "
     "dot(k,y),lhs_contracting_dims={1},rhs_contracting_dims={0}",
     "dot"},
    {"dot(x,transpose(y)) -> dot(x,y)",
     "k = f32[8,4] transpose(y),dimensions={1,0};ROOT r = f32[4,4] "
     "dot(x,k),lhs_contracting_dims={1},rhs_contracting_dims={0}",
     "dot"},
    {"transpose(dot(x,y)) ~ dot(y,x)",
     "k = f32[4,4] dot(x,y),lhs_contracting_dims={1},rhs_contracting_dims={1};ROOT r = f32[4,4] "
     "transpose(k),dimensions={1,0}",
     "dot"},
};

std::string TextOf(const char* body) {
  std::string text = kReducers;
  for (const char* line :
       {"x = f32[4,8] parameter(0)", "y = f32[4,8] parameter(1)", "n = s32[4,8] parameter(2)",
        "u = u32[4,8] parameter(3)", "p = pred[4,8] parameter(4)", "zero = f32[] constant(0)",
        "one = f32[] constant(1)", "two = f32[] constant(2)", "izero = s32[] constant(0)",
        "itwo = s32[] constant(2)"}) {
    absl::StrAppend(&text, " ", line, "\n");
  }
  absl::StrAppend(&text, " ", absl::StrReplaceAll(body, {{";", "\n "}}), "\n}\n");
  return text;
}

std::string OpsOf(const Module& module) {
  std::vector<std::string> ops;
  for (const auto& i : module.entry->instructions) {
    if (i->op != Op::kParameter) ops.emplace_back(OpName(i->op));
  }
  return absl::StrJoin(ops, " ");
}

TEST(Simplify, OneCaseARule) {
  absl::flat_hash_set<std::string> covered;
  for (const Case& c : kCases) {
    SCOPED_TRACE(absl::StrCat(c.rule, "\n", c.body));
    DiagSink diags;
    std::unique_ptr<Module> module = ParseText(TextOf(c.body), &diags);
    ASSERT_TRUE(module) << diags.Render();
    std::optional<Literal> expected = RunSeeded(*module, &diags);
    std::string remarks;
    PassContext context;
    context.diags = &diags;
    context.remarks = &remarks;
    Dce().Run(module.get(), &context);
    remarks.clear();
    AlgebraicSimplifier().Run(module.get(), &context);
    Dce().Run(module.get(), &context);
    EXPECT_EQ(OpsOf(*module), c.ops);
    ASSERT_TRUE(VerifyHlo(*module, &diags)) << diags.Render() << PrintHlo(*module);
    if (c.rule[0] == '\0') {
      EXPECT_EQ(remarks, "");
    } else {
      EXPECT_NE(remarks.find(absl::StrCat(c.rule, ": ")), std::string::npos) << remarks;
    }
    covered.insert(c.rule);
    std::string once = PrintHlo(*module);
    EXPECT_FALSE(AlgebraicSimplifier().Run(module.get(), &context));
    EXPECT_EQ(once, PrintHlo(*module));
    if (!expected) continue;  // the evaluator does not run every operation
    std::optional<Literal> actual = RunSeeded(*module, &diags);
    ASSERT_TRUE(actual) << diags.Render();
    EXPECT_EQ(Compare(*expected, *actual), "");
  }
  for (const simplify::RuleRow& row : simplify::AllRules()) {
    EXPECT_TRUE(covered.contains(row.name)) << "no case for rule " << row.name;
  }
}

TEST(DegenerateDims, MovesBehind) {
  DiagSink diags;
  auto module = ParseText(
      TextOf("s = f32[4] reduce(x,zero),dimensions={1},to_apply=sum;k = f32[4,1] reshape(s);"
             "c = f32[4,1] broadcast(two),dimensions={};m = f32[4,1] multiply(k,c);"
             "q = f32[4,1] tanh(m);b = f32[4] reshape(q);ROOT r = f32[4,8] "
             "broadcast(b),dimensions={0}"),
      &diags);
  ASSERT_TRUE(module) << diags.Render();
  PassContext context;
  Dce().Run(module.get(), &context);
  EXPECT_TRUE(DegenerateDims().Run(module.get(), &context));
  EXPECT_EQ(OpsOf(*module), "constant constant reduce broadcast multiply tanh broadcast");
  EXPECT_FALSE(DegenerateDims().Run(module.get(), &context));
}

TEST(DegenerateDims, LeavesParametersAlone) {
  DiagSink diags;
  auto module = ParseText(
      "HloModule t\nENTRY e { x = f32[4,1] parameter(0)\n ROOT r = f32[4,1] tanh(x) }", &diags);
  ASSERT_TRUE(module) << diags.Render();
  PassContext context;
  EXPECT_FALSE(DegenerateDims().Run(module.get(), &context));
}

}  // namespace
}  // namespace tpuc
