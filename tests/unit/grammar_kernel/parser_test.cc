// What texts mean, and what wrong ones are told.
#include "grammar/kernel/parser.h"

#include "grammar/kernel/printer.h"
#include "tests/unit/kernel/testing.h"

namespace tpuc {
namespace {

#define EXPECT_HAS(text, part) \
  EXPECT_NE((text).find(part), std::string::npos) << "missing: " << (part) << "\n" << (text)

// A kernel with the given statements over x, y f32[8,128], v f32[128], n s32[8,128] and o.
std::string With(const std::string& statements) {
  return absl::StrCat(R"(kernel k {
  param A = 4, B = 8;
  grid i: 2, j: cdiv(9, A);
  in x: f32[8,128];
  in y: f32[8,128];
  in v: f32[128];
  in n: s32[8,128];
  out o: f32[8,128];
  scratch s: f32[8,128];
)",
                      statements, "\n  o[:] = 0;\n}");
}

TEST(KernelParser, ExactMessage) {
  EXPECT_EQ(
      KernelErrors("kernel k {\n  in x: f32[8,128];\n  out o: f32[8,128];\n  o[:] = x[:] + z;\n}"),
      "t.tk:4:17: error: unknown name z [E0501]\n"
      "    o[:] = x[:] + z;\n"
      "                  ^\n");
}

TEST(KernelParser, Syntax) {
  EXPECT_HAS(KernelErrors("kernel k { x = ; }"), "E0001");
  EXPECT_HAS(KernelErrors("kernel k { x = 1 }"), "expected ';', found '}'");
  EXPECT_HAS(KernelErrors("kernel k {"), "expected '}', found the end of the file");
  EXPECT_HAS(KernelErrors("kernel k { o[:] = 1; in x: f32[8]; }"),
             "'in' must stand before statements");
  EXPECT_HAS(KernelErrors("kernel k { for = 1; }"), "expected a loop counter, found '='");
  EXPECT_HAS(KernelErrors("kernel k { in else: f32[8]; }"), "'else' is a word of the language");
  EXPECT_HAS(KernelErrors("kernel k { a = 1 @ 2; }"), "no token starts with '@'");
  EXPECT_HAS(KernelErrors(std::string("kernel k { a = 1\x01; }")), "'\\x01'");
  EXPECT_HAS(KernelErrors("hello"), "expected 'kernel' or 'program', found 'hello'");
  // More than one error a run.
  const std::string two = KernelErrors("kernel k {\n a = ;\n b = ;\n}");
  EXPECT_HAS(two, "t.tk:2:6");
  EXPECT_HAS(two, "t.tk:3:6");
}

TEST(KernelParser, DepthIsLimited) {
  const auto deep = [](const std::string& open, const std::string& close) {
    std::string text = "kernel k { a = ";
    for (int i = 0; i < 100000; ++i) text += open;
    text += "1";
    for (int i = 0; i < 100000; ++i) text += close;
    return text + "; }";
  };
  EXPECT_HAS(KernelErrors(deep("(", ")")), "nested too deeply");
  EXPECT_HAS(KernelErrors(deep("f(", ")")), "nested too deeply");
  EXPECT_HAS(KernelErrors(deep("1 + ", "")), "nested too deeply");
  EXPECT_HAS(KernelErrors(deep("x[", "]")), "nested too deeply");
  std::string whens = "kernel k { ";
  for (int i = 0; i < 100000; ++i) whens += "when a { ";
  EXPECT_HAS(KernelErrors(whens), "nested too deeply");
}

TEST(KernelParser, Names) {
  EXPECT_HAS(KernelErrors(With("a = xx[:];")), "E0501");
  EXPECT_HAS(KernelErrors(With("a = exq(x[:]);")), "did you mean exp?");
  EXPECT_HAS(KernelErrors(With("a = x[:]; a = x[:];")), "a is defined already");
  EXPECT_HAS(KernelErrors(With("when i == 0 { a = x[:]; } o[:] = a;")), "unknown name a");
  EXPECT_HAS(KernelErrors(With("z[:] = 1;")), "z is unknown");
  EXPECT_HAS(KernelErrors(With("a = num(x);")), "num takes the name of a grid axis");
  EXPECT_HAS(KernelErrors(With("a = sum(x[:], axes=1);")), "did you mean axis?");
  EXPECT_HAS(KernelErrors(With("a = compare(x[:], y[:], direktion=EQ);")),
             "compare has no attribute direktion");
}

TEST(KernelParser, Parameters) {
  EXPECT_HAS(KernelErrors(With(""), {{"C", 1}}), "E0503");
  EXPECT_HAS(KernelErrors(With(""), {{"C", 1}}), "no parameter is called C");
  EXPECT_HAS(KernelErrors("kernel k { param A = 9, B = A / 4; }"), "A / 4: 4 does not divide 9");
  EXPECT_HAS(KernelErrors("kernel k { param A = 9, B = A / 4; }"), "cdiv(A, 4) rounds up");
  EXPECT_HAS(KernelErrors("kernel k { param A = 1 / 0; }"), "has no value");
  EXPECT_HAS(KernelErrors("kernel k { param A = 99999999999999999999; }"), "too large");
  EXPECT_HAS(KernelErrors("kernel k { param A = 4; in x: f32[A - 5]; }"),
             "dimension -1 is negative");
  const std::string a =
      "kernel k { param A = 4; assert A <= 3 \"A is small\"; out o: f32[8]; o[:] = 0; }";
  EXPECT_HAS(KernelErrors(a), "E0507");
  EXPECT_HAS(KernelErrors(a), "A is small: A <= 3 is 4 <= 3");
  EXPECT_EQ(KernelErrors(a, {{"A", 3}}), "");
}

TEST(KernelParser, ShapesAndTypes) {
  EXPECT_HAS(KernelErrors(With("a = x[:] + n[:];")), "E0502");
  EXPECT_HAS(KernelErrors(With("a = x[:, 0:64] + y[:];")),
             "operands of add do not stretch to one shape: f32[8,64] and f32[8,128]");
  EXPECT_HAS(KernelErrors(With("o[:] = n[:];")), "convert(..., f32)");
  EXPECT_HAS(KernelErrors(With("a = n[:] + 0.5;")), "0.5 is not a value of type s32");
  EXPECT_HAS(KernelErrors(With("a = s8(300);")), "300 is not a value of type s8");
  EXPECT_HAS(KernelErrors(With("when i { }")), "condition of type s32[], not pred[]");
  EXPECT_HAS(KernelErrors(With("a = dot(x[:], y[:]);")), "E0502");
  EXPECT_HAS(KernelErrors(With("a = transpose(x[:], {0, 0});")), "E0502");
  EXPECT_HAS(KernelErrors(With("a = sum(x[:], axis=2);")), "dimension 2 of a value of rank 2");
  EXPECT_HAS(KernelErrors(With("a = reshape(x[:], [7]);")), "reshape of f32[8,128] to f32[7]");
  EXPECT_HAS(KernelErrors(With("a = broadcast(v[:], [128, 8], dims={1});")), "E0502");
  EXPECT_HAS(KernelErrors(With("a = x + 1;")), "load it: x[:]");
  EXPECT_HAS(KernelErrors(With("a = sort(x[:]);")), "sort has no form in kernels");
  EXPECT_HAS(KernelErrors("kernel k { in x: f99[8]; }"), "f99 is not an element type");
  EXPECT_HAS(KernelErrors("kernel k { in x: f32[8,8]{0:T(8,128)}; }"),
             "is not a layout of f32[8,8]");
}

// A layout names every dimension once.
TEST(KernelParser, Layouts) {
  for (const char* layout :
       {"{4521,0:T(8,128)}", "{0,0}", "{1,1:T(8,128)}", "{1}", "{2,1,0}", "{1,0:T(8,128)E(77)}"}) {
    EXPECT_HAS(KernelErrors(absl::StrCat("kernel k {\n  in x: f32[8,128]", layout,
                                         ";\n  out o: f32[8,128];\n  o[:] = x[:];\n}")),
               "[E0502]");
    EXPECT_HAS(KernelErrors(absl::StrCat(
                   "kernel k {\n  in x: f32[8,128];\n  out o: f32[8,128];\n  o[:] = x[:];\n}\n"
                   "program p {\n  buffer a: f32[8,128]",
                   layout,
                   " offset 0;\n  buffer b: f32[8,128] offset 4096;\n  input a;\n"
                   "  output out0 in b;\n  call k(a, b);\n}")),
               "is not a shape");
  }
}

TEST(KernelParser, Slices) {
  EXPECT_HAS(KernelErrors(With("a = x[0:9, :];")), "E0509");
  EXPECT_HAS(KernelErrors(With("a = x[:, :, :];")), "3 ranges for a block of rank 2");
  EXPECT_HAS(KernelErrors(With("a = x[0:8:0, :];")), "the stride is not positive");
  EXPECT_HAS(KernelErrors(With("a = x[-1:+2, :];")), "the start is negative");
  EXPECT_HAS(KernelErrors(With("t = x[:]; a = t[i :+ 4 : 2, :];")), "and a stride, of a value");
  EXPECT_HAS(KernelErrors(With("t = x[:]; a = x[t, :];")), "not an s32 scalar or vector");
  EXPECT_HAS(KernelErrors(With("t = iota([8]); a = x[t, t];")), "a second index that is a vector");
  EXPECT_HAS(KernelErrors(With("t = iota([8]); s[t, :] += x[:];")), "a row may be named twice");
  EXPECT_HAS(KernelErrors(With("a = take(x[:], n[:], axis=0);")), "not s32[n]");
  EXPECT_HAS(KernelErrors(With("a = take(x[:], iota([8]));")), "take names its axis");
  EXPECT_HAS(KernelErrors(With("a = pack(n[:], n[:], n[:]);")), "pack of 3 values: 2, 4 or 8");
  EXPECT_HAS(KernelErrors(With("a = unpack(bitcast_convert(n[:], u32), 4, type=s8);")), "part 4");
  EXPECT_HAS(KernelErrors(With("x[:] = 1;")), "x is an input: inputs are read only");
}

TEST(KernelParser, Blocks) {
  EXPECT_HAS(KernelErrors("kernel k { in x: f32[8,128] block [8] at (0, 0); }"), "E2002");
  EXPECT_HAS(KernelErrors("kernel k { in x: f32[8] block [0] at (0); }"),
             "block dimension 0 of x is 0");
  EXPECT_HAS(KernelErrors("kernel k { in x: f32[8] buffers 9; }"), "buffers 9 of x: 1 to 8");
  EXPECT_HAS(KernelErrors("kernel k { out o: f32[8] buffers 3; }"), "buffers 3 of o: 1 or 2");
  EXPECT_HAS(KernelErrors("kernel k { out o: f32[8] alias x; }"), "an output may alias an input");
  EXPECT_HAS(KernelErrors("kernel k { in x: f32[8] at (j); }"), "unknown name j");
}

TEST(KernelParser, Programs) {
  const std::string kernel = "kernel k { in x: f32[8,128]; out o: f32[8,128]; o[:] = x[:]; }\n";
  EXPECT_HAS(KernelErrors(kernel + kernel), "kernel k is defined already");
  EXPECT_HAS(KernelErrors(kernel + "kernel l { }"), "2 kernels and no program");
  EXPECT_HAS(KernelErrors(""), "0 kernels and no program");
  EXPECT_HAS(KernelErrors(kernel + "program p { } program q { }"), "more than one program");
  EXPECT_HAS(KernelErrors(kernel + "program p { call kk(); }"), "no kernel is called kk");
  EXPECT_HAS(KernelErrors(kernel + "program p { buffer b: f32[8,128]; call k(b); }"),
             "it has 2 operands");
  EXPECT_HAS(KernelErrors(kernel + "program p { buffer b: f32[8,128]; call k(b, bb); }"),
             "no buffer is called bb");
  EXPECT_HAS(KernelErrors(kernel + "program p { copy_done d: s; }"),
             "copy s is not started before");
  EXPECT_HAS(KernelErrors(kernel + "program p { buffer b: f32[2,2] = {{1, 2}, {3}}; }"), "E0508");
  EXPECT_HAS(KernelErrors(kernel + "program p { buffer b: s8[2] = {1, 200}; }"),
             "200 is not a value of type s8");
  EXPECT_HAS(KernelErrors(kernel + "program p { buffer b: f32[999999999999] = splat 0; }"),
             "at most");
  EXPECT_HAS(KernelErrors(kernel + "program p { input z; }"), "no buffer is called z");
}

TEST(KernelParser, ConstantsTakeTheTypeOfTheirPartner) {
  auto p = Kernels("kernel k { in x: bf16[8,128]; out o: bf16[8,128]; o[:] = 2 * x[:] + 0.5; }");
  const kernel::Kernel& k = p->kernels[0];
  // constant, broadcast, load, multiply, constant, broadcast, add, store
  ASSERT_EQ(k.nodes.size(), 8u);
  EXPECT_EQ(k.nodes[0].op, Op::kConstant);
  EXPECT_EQ(k.nodes[0].shape.type, Type::kBF16);
  EXPECT_EQ(*k.nodes[0].literal->data<uint16_t>(), 0x4000);
  EXPECT_EQ(k.nodes[1].op, Op::kBroadcast);
  EXPECT_EQ(k.nodes[3].operands, (std::vector<kernel::NodeId>{1, 2}));
  EXPECT_EQ(*k.nodes[4].literal->data<uint16_t>(), 0x3F00);
  EXPECT_EQ(k.ops, (std::vector<std::string>{"broadcast", "multiply", "add"}));
}

TEST(KernelParser, DotForms) {
  auto p = Kernels(R"(kernel k {
    in x: bf16[8,128]; in w: bf16[16,128]; in b: f32[2,8,128]; in c: f32[2,128,8]; out o: f32[8,16];
    t = dot(b[:], c[:], lhs_batch={0}, rhs_batch={0}, lhs_contracting={2}, rhs_contracting={1},
            precision={highest, highest});
    o[:] = dot(x[:], w[:]^T);
  })");
  const kernel::Kernel& k = p->kernels[0];
  const kernel::Node& batch = k.nodes[2];
  EXPECT_EQ(ToString(batch.shape), "f32[2,8,8]");
  EXPECT_EQ(batch.name, "t");
  const kernel::Node& last = k.nodes[5];
  EXPECT_EQ(ToString(last.shape), "f32[8,16]");  // bf16 operands accumulate in f32
  EXPECT_EQ(last.IntsAttr(AttrId::kRhsContractingDims), Ints{1});
}

TEST(KernelParser, SetReplacesDefaults) {
  auto p = Kernels(
      "kernel k { param M = 64, b = 16; grid i: cdiv(M, b); in x: f32[M,128] block [b, 128] at (i, "
      "0); "
      "out o: f32[M,128] block [b, 128] at (i, 0); o[:] = x[:]; }",
      {{"b", 24}});
  EXPECT_EQ(p->kernels[0].GridSteps(), 3);
  EXPECT_EQ(p->kernels[0].refs[0].block[0], 24);
  EXPECT_EQ(p->inputs[0].shape.dims[0], 64);
}

// What is not declared has no name; conditions on parameters leave out what would use it.
TEST(KernelParser, OperandsThatAreThereOrNot) {
  const std::string text =
      "kernel k { param biased = 0; in x: f32[8,128]; in b: f32[8,128] when biased == 1;"
      " prefetch n: s32[4] when biased == 1; out o: f32[8,128];"
      " scratch s: f32[8,128], t: f32[8,128] when biased == 1;"
      " s[:] = select(biased == 1, b[:], x[:]); o[:] = s[:]; }";
  const auto without = Kernels(text), with = Kernels(text, {{"biased", 1}});
  EXPECT_EQ(without->inputs.size(), 1u);
  EXPECT_EQ(without->kernels[0].refs.size(), 3u);
  EXPECT_EQ(with->inputs.size(), 3u);
  EXPECT_EQ(with->inputs[1].name, "b");
  EXPECT_EQ(with->kernels[0].refs.size(), 6u);
  EXPECT_HAS(KernelErrors("kernel k { in b: f32[8] when 0 == 1; out o: f32[8]; o[:] = b[:]; }"),
             "unknown name b");
  EXPECT_HAS(KernelErrors("kernel k { in b: f32[8] when c == 1; out o: f32[8]; o[:] = 0; }"),
             "unknown name c");
}

TEST(KernelParser, FunctionsOfStatements) {
  const auto p = Kernels(
      "kernel k { in x: f32[8,128]; out o: f32[8,128]; scratch s: f32[8,128];"
      " def add(n, twice) { when twice == 1 { y = 2 * n; } else { y = n; } s[:] = s[:] + y; }"
      " s[:] = 0; add(x[:], 1); add(x[:], 0); o[:] = s[:]; }");
  int multiplies = 0, stores = 0;
  for (const kernel::Node& n : p->kernels[0].nodes) {
    multiplies += n.kind == kernel::Node::Kind::kHlo && n.op == Op::kMultiply;
    stores += n.kind == kernel::Node::Kind::kStore;
  }
  EXPECT_EQ(multiplies, 1);
  EXPECT_EQ(stores, 4);
  const auto errors = [](const std::string& body) {
    return KernelErrors("kernel k { out o: f32[8]; def v(a) = a + 1; def f(a) { o[:] = a; } " +
                        body + " }");
  };
  EXPECT_HAS(errors("f(1, 2);"), "f takes 1 arguments, not 2");
  EXPECT_HAS(errors("o[:] = f(1);"), "f is a block of statements, not a value");
  EXPECT_HAS(errors("v(1);"), "v is a value, not a statement");
  EXPECT_HAS(errors("w(1);"), "w is no function of this kernel");
  EXPECT_HAS(KernelErrors("kernel k { out o: f32[8]; def f(a) { f(a); } f(1); }"),
             "may call itself");
}

TEST(KernelParser, FractionsAsParameters) {
  const std::string text =
      "kernel k { param scale = 0.5, off = -1.5; out o: f32[8,128]; when scale > 0.4 { o[:] = "
      "scale * off; } else { o[:] = scale; } }";
  const auto constant = [](const kernel::Program& p) {
    return *p.kernels[0].nodes[0].literal->data<float>();
  };
  EXPECT_EQ(constant(*Kernels(text)), -0.75f);
  EXPECT_EQ(constant(*Kernels(text, {{"scale", 2}})), -3.0f);
  DiagSink diags;
  const std::vector<std::pair<std::string, std::string>> set = {{"scale", "0.25"}},
                                                         wrong = {{"scale", "bf16"}};
  EXPECT_EQ(constant(*ParseKernels(Text(text), {}, &diags, set)), 0.25f);
  EXPECT_EQ(ParseKernels(Text(text), {}, &diags, wrong), nullptr);
  EXPECT_HAS(diags.Render(), "scale=bf16 is not a number");
  EXPECT_HAS(KernelErrors("kernel k { param a = 1.5; grid i: a; out o: f32[8]; o[:] = 0; }"),
             "a is a fraction, not an integer");
}

TEST(KernelParser, ImpliedProgram) {
  auto p = Kernels("kernel k { in x: f32[100,200]; in y: bf16[3]; out o: f32[8,128]; o[:] = 0; }");
  ASSERT_EQ(p->buffers.size(), 3u);
  EXPECT_EQ(p->buffers[0].bytes, 104 * 256 * 4);
  EXPECT_EQ(p->buffers[1].offset, 104 * 256 * 4);
  EXPECT_EQ(p->buffers[1].bytes, 512);
  EXPECT_EQ(ToString(p->buffers[1].shape), "bf16[3]{0:T(256)(128)(2,1)}");
  EXPECT_EQ(p->inputs.size(), 2u);
  EXPECT_EQ(p->outputs.size(), 1u);
  EXPECT_EQ(p->steps.size(), 1u);
}

}  // namespace
}  // namespace tpuc
