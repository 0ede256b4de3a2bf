// Editing of modules: names, uses, dead code, clones, the tables.
#include "src/ir/hlo.h"

#include <set>

#include "grammar/hlo/parser.h"
#include "grammar/hlo/printer.h"
#include "gtest/gtest.h"
#include "src/ir/op_table.h"

namespace tpuc {
namespace {

std::unique_ptr<Module> Parse(const char* text) {
  DiagSink diags;
  auto module = ParseHlo(std::make_shared<Source>(Source{"t", text}), &diags);
  EXPECT_TRUE(module) << diags.Render();
  return module;
}

Instruction* Named(Computation* computation, absl::string_view name) {
  for (const auto& i : computation->instructions) {
    if (i->name == name) return i.get();
  }
  return nullptr;
}

constexpr char kProgram[] = R"(HloModule m

%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %r = f32[] add(%b, %a)
}

%log (a: f32[4]) -> f32[4] {
  %k = token[] after-all()
  %a = f32[4] parameter(0)
  %o = token[] outfeed(%a, %k)
  ROOT %r = f32[4] negate(%a)
}

ENTRY %main (x: f32[4], y: f32[4]) -> f32[] {
  %x = f32[4] parameter(0)
  %y = f32[4] parameter(1)
  %unused = f32[4] add(%x, %y)
  %unused.1 = f32[4] negate(%unused)
  %logged = f32[4] call(%x), to_apply=%log
  %n = f32[4] multiply(%x, %x), metadata={op_name="jit(f)/mul" source_file="a.py" source_line=7}
  %before = f32[4] negate(%x)
  %m = f32[4] negate(%n), control-predecessors={%before}
  %z = f32[] constant(0)
  ROOT %s = f32[] reduce(%m, %z), dimensions={0}, to_apply=%sum
}
)";

TEST(Hlo, Accessors) {
  auto module = Parse(kProgram);
  Instruction* reduce = module->entry->root;
  EXPECT_EQ(reduce->IntsAttr(AttrId::kDimensions), Ints{0});
  EXPECT_EQ(reduce->ComputationAttr(AttrId::kToApply)->name, "sum");
  EXPECT_EQ(reduce->CalledComputations().size(), 1u);
  EXPECT_EQ(reduce->IntAttr(AttrId::kIndex, 5), 5);
  EXPECT_FALSE(reduce->Has(AttrId::kMetadata));
  EXPECT_EQ(Named(module->entry, "n")->op_name(), "jit(f)/mul");
  EXPECT_EQ(module->SourceLine(*Named(module->entry, "n")), "a.py:7");
  EXPECT_EQ(module->SourceLine(*reduce), "");
  reduce->Set(AttrId::kDimensions, Ints{1});
  EXPECT_EQ(reduce->IntsAttr(AttrId::kDimensions), Ints{1});
  reduce->Remove(AttrId::kDimensions);
  EXPECT_TRUE(reduce->IntsAttr(AttrId::kDimensions).empty());
}

TEST(Hlo, SourceLineThroughFrames) {
  auto module = Parse(R"(HloModule m
FileNames
1 "a.py"
2 "dir/b.py"
FunctionNames
1 "f"
FileLocations
1 {file_name_id=2 function_name_id=1 line=35 end_line=35 column=1 end_column=2}
StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=9 parent_frame_id=1}
ENTRY e {
  a = f32[] parameter(0), metadata={stack_frame_id=1}
  b = f32[] negate(a), metadata={stack_frame_id=2}
  c = f32[] negate(b), metadata={stack_frame_id=3}
})");
  EXPECT_EQ(module->SourceLine(*Named(module->entry, "a")), "dir/b.py:35");
  EXPECT_EQ(module->SourceLine(*Named(module->entry, "b")), "");  // a row that is not there
  EXPECT_EQ(module->SourceLine(*Named(module->entry, "c")), "");
}

TEST(Hlo, NamesAreUnique) {
  auto module = Parse(kProgram);
  Computation* main = module->entry;
  Shape shape = Shape::Array(Type::kF32, {4});
  Instruction* x = Named(main, "x");
  EXPECT_EQ(main->AddBefore(main->root, "x", Op::kNegate, shape, {x})->name, "x.1");
  EXPECT_EQ(main->AddBefore(main->root, "x.1", Op::kNegate, shape, {x})->name, "x.2");
  EXPECT_EQ(main->AddBefore(main->root, "unused.1", Op::kNegate, shape, {x})->name, "unused.2");
  EXPECT_EQ(main->Add("fresh", Op::kNegate, shape, {x})->name, "fresh");
  EXPECT_EQ(main->instructions.back()->name, "fresh");
  EXPECT_EQ(module->AddComputation("sum")->name, "sum.1");
  EXPECT_EQ(module->computations.back().get(), main);  // before the entry
}

TEST(Hlo, RemoveDead) {
  auto module = Parse(kProgram);
  // Side effects stay (the call that logs), and so does what a control edge needs.
  EXPECT_EQ(module->entry->RemoveDead(), 2);
  EXPECT_FALSE(Named(module->entry, "unused"));
  EXPECT_FALSE(Named(module->entry, "unused.1"));
  EXPECT_TRUE(Named(module->entry, "logged"));
  EXPECT_TRUE(Named(module->entry, "before"));
  EXPECT_TRUE(Named(module->entry, "y"));
  EXPECT_EQ(module->entry->RemoveDead(), 0);
}

TEST(Hlo, ReplaceUses) {
  auto module = Parse(kProgram);
  Computation* main = module->entry;
  Instruction* x = Named(main, "x");
  Instruction* y = Named(main, "y");
  main->ReplaceUses(x, y);
  EXPECT_EQ(Named(main, "n")->operands[0], y);
  EXPECT_EQ(Named(main, "n")->operands[1], y);
  main->ReplaceUses(Named(main, "before"), Named(main, "m"));  // its own predecessor: dropped
  EXPECT_TRUE(
      std::get<std::vector<Instruction*>>(*Named(main, "m")->Find(AttrId::kControlPredecessors))
          .empty());
  main->ReplaceUses(main->root, Named(main, "z"));
  EXPECT_EQ(main->root->name, "z");
}

TEST(Hlo, Users) {
  auto module = Parse(kProgram);
  UserMap users = Users(*module->entry);
  EXPECT_EQ(users[Named(module->entry, "x")].size(), 4u);  // multiply(x, x) once
  EXPECT_TRUE(users[module->entry->root].empty());
}

TEST(Hlo, CloneIsEqualAndApart) {
  auto module = Parse(kProgram);
  std::string text = PrintHlo(*module);
  auto copy = Clone(*module);
  EXPECT_EQ(PrintHlo(*copy), text);
  std::set<const Computation*> ours;
  for (const auto& c : copy->computations) ours.insert(c.get());
  for (const auto& c : copy->computations) {
    EXPECT_EQ(c->module, copy.get());
    for (const auto& i : c->instructions) {
      EXPECT_EQ(i->parent, c.get());
      for (Instruction* o : i->operands) EXPECT_EQ(o->parent, c.get());
      for (Computation* callee : i->CalledComputations()) EXPECT_TRUE(ours.contains(callee));
    }
  }
  module.reset();
  EXPECT_EQ(PrintHlo(*copy), text);
}

TEST(Hlo, CloneInto) {
  auto module = Parse(kProgram);
  Computation* made = module->AddComputation("made");
  Instruction* p = made->Add("p", Op::kParameter, Shape::Array(Type::kF32, {4}), {});
  p->parameter_number = 0;
  Instruction* copy = CloneInto(made, *Named(module->entry, "m"), {p});
  EXPECT_EQ(copy->operands[0], p);
  EXPECT_FALSE(copy->Has(AttrId::kControlPredecessors));
  made->root = CloneInto(made, *Named(module->entry, "n"), {copy, copy});
  EXPECT_EQ(made->root->op_name(), "jit(f)/mul");
}

TEST(Hlo, SimpleReducer) {
  auto module = Parse(kProgram);
  Op op;
  EXPECT_TRUE(SimpleReducer(*module->computations[0], &op));
  EXPECT_EQ(op, Op::kAdd);
  EXPECT_FALSE(SimpleReducer(*module->computations[1], &op));
  auto other = Parse(
      "HloModule m\ns {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n"
      " ROOT r = f32[] add(a, a)\n}\nENTRY e {\n p = f32[] parameter(0)\n}\n");
  EXPECT_FALSE(SimpleReducer(*other->computations[0], &op));
  auto dead = Parse(
      "HloModule m\ns {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n"
      " c = f32[] sine(a)\n ROOT r = f32[] maximum(b, a)\n}\nENTRY e {\n p = f32[] "
      "parameter(0)\n}\n");
  EXPECT_TRUE(SimpleReducer(*dead->computations[0], &op));
  EXPECT_EQ(op, Op::kMaximum);
}

TEST(Tables, EveryRowIsReachable) {
  EXPECT_EQ(OpTable().size(), 133u);  // hlo-text.md section 15
  std::set<absl::string_view> names;
  for (const OpInfo& row : OpTable()) {
    Op op;
    ASSERT_TRUE(OpFromName(row.name, &op)) << row.name;
    EXPECT_EQ(op, row.op);
    EXPECT_EQ(&InfoOf(op), &row);
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    AttrId id;
    for (AttrId own : row.required) {
      ASSERT_TRUE(AttrOf(row.op, AttrName(own), &id));
      EXPECT_EQ(id, own);
    }
    for (AttrId own : row.optional) {
      ASSERT_TRUE(AttrOf(row.op, AttrName(own), &id));
      EXPECT_EQ(id, own) << row.name;
    }
    EXPECT_TRUE(AttrOf(row.op, "backend_config", &id));
    EXPECT_TRUE(AttrOf(row.op, "metadata", &id));
    EXPECT_FALSE(AttrOf(row.op, "no_such", &id));
  }
  Op op;
  EXPECT_FALSE(OpFromName("exp", &op));
  for (const AttrInfo& row : AttrTable()) EXPECT_EQ(&InfoOf(row.id), &row);
}

TEST(Tables, Types) {
  EXPECT_EQ(TypeName(Type::kF8E4M3B11FNUZ), "f8e4m3b11fnuz");
  EXPECT_EQ(TypeFromName("bf16"), Type::kBF16);
  EXPECT_EQ(TypeFromName("opaque_type"), Type::kOpaque);
  EXPECT_FALSE(TypeFromName("(tuple)"));
  EXPECT_FALSE(TypeFromName("F32"));
  EXPECT_EQ(LiteralBytesOf(Type::kS4), 1);
  EXPECT_EQ(LiteralBytesOf(Type::kC128), 16);
}

}  // namespace
}  // namespace tpuc
