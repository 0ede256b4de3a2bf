// The engine below algebraic simplification: rules by opcode, applied in sweeps until none applies.
//
//   {"x*1 -> x", Op::kMultiply, [](Rewriter&, I* i) { return IsOne(i->operands[1]) ? i->operands[0]
//   : nullptr; }}
//
// A rule looks at one instruction and returns the instruction that takes its place, new (made by
// the Rewriter) or old, or null where it does not apply. It never changes the instruction it looks
// at.
#pragma once

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "src/ir/hlo.h"

namespace tpuc::simplify {

using I = Instruction;
using Operands = absl::InlinedVector<Instruction*, 2>;

// An array shape with the default layout.
Shape ArrayShape(Type type, Dims dims);

class Rewriter {
 public:
  explicit Rewriter(Computation* computation);

  // A new instruction before the one being looked at, with its metadata.
  Instruction* Make(Op op, Shape shape, Operands operands);
  // The same operation as `like` (attributes, shape) on other operands.
  Instruction* MakeLike(const Instruction& like, Operands operands);
  Instruction* Reshape(Instruction* x, Dims dims);  // x itself where nothing changes
  Instruction* Broadcast(Instruction* x, Dims dims, Ints dimensions);
  // A value of all elements `value`: a scalar constant, broadcast where dims are not empty.
  Instruction* Splat(Type type, const Dims& dims, double value);
  Instruction* SplatLiteral(const Literal& scalar, const Dims& dims);
  // How many instructions use `i`, the root counting as a user.
  int Uses(const Instruction* i) const;

 private:
  friend struct Sweep;
  Computation* computation_;
  Instruction* current_ = nullptr;
  absl::flat_hash_map<const Instruction*, int> uses_;
};

using Rule = Instruction* (*)(Rewriter&, Instruction*);
struct RuleRow {
  absl::string_view name;
  Op op;
  Rule rule;
};

// One file an op family.
absl::Span<const RuleRow> ArithmeticRules();
absl::Span<const RuleRow> LogicRules();
absl::Span<const RuleRow> ConvertRules();
absl::Span<const RuleRow> MovementRules();
absl::Span<const RuleRow> SliceRules();
absl::Span<const RuleRow> ReduceRules();
absl::Span<const RuleRow> DotRules();
absl::Span<const RuleRow> WholeRules();
// Bitcasts whose meaning hangs on the layouts of plain arrays, as what they do to values. Before
// all others, which care for values only and may leave other layouts.
absl::Span<const RuleRow> BitcastRules();
// All of them, in the order in which they are tried.
std::vector<RuleRow> AllRules();

// Applies the rules to the computation until none applies. Returns how often one did; `remarks`
// (may be null) gets a line for each.
int ApplyRules(Computation* computation, absl::Span<const RuleRow> rules, std::string* remarks);

}  // namespace tpuc::simplify
