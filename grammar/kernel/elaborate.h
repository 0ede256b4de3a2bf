// Elaboration: syntax trees to kernel::Program. Resolves names, evaluates parameters, infers
// shapes, and makes explicit what the text leaves out: constants take the type of their partner,
// scalars and smaller blocks are broadcast, x += y is x = x + y.
//
//   acc[:] += 2 * x[:]   becomes   load acc, constant 2, broadcast, load x, multiply, add, store
//
// Nodes stand in the order in which the text is read: what belongs to an operand (its constant, its
// broadcast) directly behind it, so that the printer can fold the tree again. Internal to
// grammar/kernel.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "backend/kernel/expr.h"
#include "backend/kernel/kernel.h"
#include "grammar/kernel/parser.h"
#include "grammar/kernel/syntax.h"
#include "src/diag/diag.h"

namespace tpuc::kernel_text {

using kernel::NodeId;
using KernelExpr = kernel::Expr;

struct ElaborateContext {
  std::shared_ptr<const Source> source;
  absl::Span<const std::pair<std::string, int64_t>> set;
  std::vector<bool> set_used;
  DiagSink* diags = nullptr;
  absl::Span<const std::pair<std::string, std::string>> words;  // types, fractions, files
  std::vector<bool> words_used;
  ArrayReader read;
};

// One kernel. False after errors.
bool ElaborateKernel(const Kernel& syntax, ElaborateContext* context, kernel::Kernel* kernel);
// Buffers, ports and steps; kernels are there already.
bool ElaborateProgram(const Program& syntax, ElaborateContext* context, kernel::Program* program);
// One kernel alone: every in and out in HBM, one call.
void ImplyProgram(kernel::Program* program);

// A number as an element of `type`; nothing where it does not fit. text: "-1.5", "7", "inf",
// "true".
std::optional<Literal> ScalarFromText(Type type, const std::string& text);

// Written values as an array of `shape`. Null with a message, and a hint or "".
std::shared_ptr<Literal> LiteralFromText(const LiteralText& text, const Shape& shape,
                                         std::string* error, std::string* hint);

// What an expression in a body stands for: a node, or a number without a type yet.
struct Value {
  enum class Kind : uint8_t { kNone, kNode, kInteger, kFloat, kBool };
  Kind kind = Kind::kNone;
  NodeId node = -1;
  KernelExpr expr;  // kInteger, kBool: over parameters
  int64_t integer = 0;
  std::string text;  // kFloat
  Loc loc;
  size_t end = 0;  // position in the region behind the nodes of this value
  bool weak() const { return kind != Kind::kNode; }
  explicit operator bool() const { return kind != Kind::kNone; }
};

class KernelElaborator {
 public:
  KernelElaborator(ElaborateContext* context, kernel::Kernel* kernel)
      : context_(*context), kernel_(*kernel) {}
  bool Run(const Kernel& syntax);

 private:
  struct Symbol {
    enum class Kind : uint8_t {
      kParam,
      kAxis,
      kRef,
      kValue,
      kLoop,
      kType,
      kNumber,
      kArray,
      kMask,
      kBlocks
    } kind;
    int64_t index = 0;  // of the parameter, axis, ref ..; kLoop: depth of its for; kType: a Type
    Value value;        // kValue, kNumber
  };
  struct Arguments {
    std::vector<const Expr*> positional;
    std::vector<std::pair<std::string, const Expr*>> named;
    const Expr* Named(absl::string_view name) const;
  };

  // ---- elaborate.cc: declarations and static expressions
  void Error(DiagCode code, Loc loc, std::string message, std::string hint = "");
  void Parameters(const Kernel& syntax);
  bool TypeParameter(const Parameter& p);
  bool NumberParameter(const Parameter& p);
  // What --set says instead of a type, a fraction or a file; "": nothing.
  std::string WordFor(const std::string& name);
  bool Present(const Operand& syntax);
  void Grid(const std::vector<Axis>& syntax, std::vector<kernel::GridAxis>* grid);
  void CheckSpace(const Operand& syntax, const kernel::Ref& ref);
  void Declarations(const Kernel& syntax);
  void DeclareOperand(const Operand& syntax, kernel::Ref* ref);
  void DeclareMoves(const Operand& syntax, kernel::Ref* ref);
  void DeclareBlock(const Operand& syntax, kernel::Ref* ref);
  void DeclareIndex(const Operand& syntax, kernel::Ref* ref);
  std::optional<Type> TypeNamed(const std::string& name) const;
  bool ArrayShape(const Array& syntax, int64_t memory_space, Shape* shape,
                  std::vector<KernelExpr>* dims);
  bool Define(const std::string& name, Loc loc, Symbol symbol);
  const Symbol* Find(const std::string& name) const;
  kernel::ExprValues KnownValues() const {
    return {kernel_.params, {}, axes_, {}, {}, kernel_.blocks};
  }
  std::string DidYouMean(const std::string& name) const;
  // Integer expressions over parameters, and grid indices where `axes`. The value where it has no
  // axis.
  bool Static(const Expr& e, bool axes, KernelExpr* result, int64_t* value);
  bool StaticName(const Expr& e, bool axes, KernelExpr* result);
  bool StaticPrefetch(const Expr& e, bool axes, KernelExpr* result);
  bool StaticBinary(const Expr& e, bool axes, KernelExpr* result, int64_t* value);
  bool StaticCall(const Expr& e, bool axes, KernelExpr* result, int64_t* value);
  bool StaticInt(const Expr& e, int64_t* value) {
    KernelExpr ignored;
    return Static(e, false, &ignored, value);
  }
  // [a, b] as dimensions.
  bool DimList(const Expr& e, Dims* dims, std::vector<KernelExpr>* exprs);
  bool IntList(const Expr& e, Ints* ints);  // {0, 1} or one integer

  // ---- elaborate_mask.cc: masks, their blocks, tables and what names them
  void DeclareArray(const ArrayDecl& syntax);
  bool ArrayElement(const Expr& e, int64_t array, bool axes, KernelExpr* result);
  void DeclareMask(const MaskDecl& syntax);
  void DeclareBlocks(const BlocksDecl& syntax);
  bool BlocksNumber(const std::string& name, KernelExpr* result) const;  // B.active
  bool TableArray(const Operand& syntax, kernel::Ref* ref);
  Value CallMask(int64_t mask, const Arguments& args, Loc loc);

  // ---- elaborate_body.cc: statements and expressions
  void Body(const std::vector<Statement>& statements);
  void Assign(const Statement& s);
  void Store(const Statement& s);
  void Assert(const Statement& s);
  Value Eval(const Expr& e);
  Value EvalName(const Expr& e);
  Value EvalUnary(const Expr& e);
  Value EvalBinary(const Expr& e);
  Value EvalIndex(const Expr& e);
  Value SliceValue(const Value& base, absl::Span<const Expr> ranges, Loc loc);
  // x[i, t, :], t a vector: its dimension, and t. -1: none.
  struct Picked {
    int dim = -1;
    NodeId index = -1;
  };
  bool SlicesOf(const Shape& block, absl::Span<const Expr> ranges, Loc loc,
                std::vector<kernel::Slice>* slices, std::vector<SliceDim>* strides,
                std::vector<bool>* dropped, Picked* picked);
  bool OneRange(const Expr& range, int64_t size, int dimension, kernel::Slice* slice,
                SliceDim* stride, Picked* picked);
  Value FoldBinary(const std::string& op, const Value& a, const Value& b, Loc loc);
  Value FoldIntegers(const std::string& op, const Value& a, const Value& b, Loc loc);
  NodeId StoreValue(Value value, const Shape& shape, Loc loc);
  // ---- elaborate_strides.cc
  NodeId ReshapeTo(NodeId node, const Dims& dims, Loc loc);
  Value Thinned(const Value& span, absl::Span<const SliceDim> strides, Loc loc);
  bool Spread(absl::Span<const SliceDim> strides, Loc loc, NodeId* value, NodeId* mask);

  // ---- elaborate_rows.cc: rows picked by a vector of indices
  Value Take(const Value& v, int64_t axis, NodeId index, Loc loc);
  Value TakeFrom(const Value& v, const Picked& picked, const std::vector<bool>& dropped, Loc loc);
  Value CallTake(const Arguments& args, Loc loc);
  Value DynamicPart(const Value& v, const std::vector<kernel::Slice>& slices, Loc loc);
  void StoreRows(kernel::Node store, const Picked& picked, NodeId value, NodeId mask, Loc loc);

  // ---- elaborate_control.cc: control statements, memory spaces
  kernel::Region Inner(const std::vector<Statement>& statements);
  void When(const Statement& s);
  bool ForBound(const Expr& e, KernelExpr* expr, int64_t* value, NodeId* node);
  void For(const Statement& s);
  void While(const Statement& s);
  // ---- elaborate_pipeline.cc: nested pipelines, setup
  void Setup(const std::vector<Statement>& statements);
  void Pipeline(const Statement& s);
  void DeclareWindow(const Operand& syntax, int pipeline);
  bool OperandName(const Expr& e, KernelExpr* result);
  int PipelineOf(int64_t axis) const;
  Value AxisValue(kernel::Node::Kind kind, int64_t axis, Loc loc);
  // ---- elaborate_copies.cc: explicit copies
  bool View(const Expr& e, kernel::RefView* view, Shape* shape);
  bool SemaphoreView(const Expr& e, kernel::RefView* view);
  void Copy(const Statement& s);
  void Signal(const Statement& s);
  // multiple_of(start, n) at the start of a range: n, and the start.
  bool Promise(const Expr& e, const Expr** start, int64_t* multiple);
  bool Addressable(int ref, Loc loc);
  bool OneScalar(const kernel::Node& access, const std::vector<bool>& dropped, Loc loc);

  // ---- elaborate_values.cc: nodes
  NodeId Emit(kernel::Node node, Loc loc, size_t position);
  NodeId Emit(kernel::Node node, Loc loc) {
    return Emit(std::move(node), loc, region_->nodes.size());
  }
  Value NodeValue(NodeId node, Loc loc);
  // Checks the shape of a kHlo node and appends it.
  Value EmitHlo(kernel::Node node, Loc loc);
  NodeId Materialize(const Value& value, Type type, size_t position);  // -1 after an error
  // Reshape (where dimensions of size 1 are dropped) and broadcast, aligned at the last dimension.
  NodeId BroadcastTo(NodeId node, const Dims& dims, Loc loc, size_t position,
                     const std::vector<KernelExpr>& dim_exprs = {});
  Value Elementwise(Op op, std::vector<Value> args, std::vector<Attr> attrs, Loc loc);
  bool AsNode(Value* value, bool prefers_float = false);  // a weak value gets its default type
  const Shape& ShapeOf(const Value& v) const { return kernel_.nodes[v.node].shape; }

  // ---- elaborate_calls.cc: operations by name
  Value EvalCall(const Expr& e);
  Value CallFunction(const Function& f, const Arguments& args, Loc loc);
  void CallStatement(const Statement& s);
  // Parameters of f are the values of a call while `inner` runs; it sees no names but those and
  // what stands outside all blocks. False after an error.
  bool InCall(const Function& f, const Arguments& args, Loc loc,
              const std::function<void()>& inner);
  // ---- elaborate_moves.cc: roll, repeat, cumulative sums, argmax, random bits
  bool AxisArgument(const Arguments& args, const Value& v, Loc loc, int64_t* axis);
  Value PartOf(const Value& v, int64_t axis, int64_t from, int64_t to, Loc loc);
  Value Joined(const std::vector<Value>& parts, int64_t axis, Loc loc);
  Value ReduceAlong(Op reducer, const Value& v, int64_t axis, bool keep, Loc loc);
  Value Cumulative(Op op, Value v, int64_t axis, Loc loc);
  Value ArgExtreme(Op reducer, const Value& v, int64_t axis, Loc loc);
  Value RandomBits(const Arguments& args, Loc loc);
  Value Integer(int64_t value, Loc loc) const;
  Value Apply(Op op, std::vector<Value> args, Loc loc, std::vector<Attr> attrs = {}) {
    return Elementwise(op, std::move(args), std::move(attrs), loc);
  }
  Value Roll(const Value& v, int64_t axis, int64_t shift, Loc loc);
  Value RollBy(const Value& v, int64_t axis, const Value& amount, Loc loc);
  // ---- elaborate_pack.cc
  Value Convert(const Value& v, Op op, Type type, Loc loc);
  Value CallPackWords(const Arguments& args, Loc loc);
  Value CallUnpack(const Arguments& args, Loc loc);
  bool CallMove(const std::string& name, const Arguments& args, Loc loc, Value* result);
  Value CallTyped(Type type, const Arguments& args, Loc loc);
  Value CallSelect(const Arguments& args, Loc loc);
  Value CallDot(const Arguments& args, Loc loc);
  Value CallReduce(Op reducer, const Arguments& args, Loc loc);
  Value CallBroadcast(const Arguments& args, Loc loc);
  Value CallIota(const Arguments& args, Loc loc);
  Value CallTranspose(const Arguments& args, Loc loc);
  Value CallReshape(const Arguments& args, Loc loc);
  Value CallSlice(const Arguments& args, Loc loc);
  Value CallDynamicSlice(const Arguments& args, Loc loc);
  Value CallConcat(const Arguments& args, Loc loc);
  Value CallPad(const Arguments& args, Loc loc);
  Value CallReverse(const Arguments& args, Loc loc);
  Value CallConvert(Op op, const Arguments& args, Loc loc);
  Value CallOp(Op op, const Arguments& args, Loc loc);
  bool CheckNamed(const Arguments& args, absl::Span<const absl::string_view> known, Loc loc);
  bool CheckCount(const Arguments& args, size_t least, size_t most, absl::string_view what,
                  Loc loc);
  bool AttrFromArgument(Op op, const std::string& name, const Expr& value, Attr* attr);
  bool TypeArgument(const Expr& e, Type* type);

  ElaborateContext& context_;
  kernel::Kernel& kernel_;
  std::vector<absl::flat_hash_map<std::string, Symbol>> scopes_;
  kernel::Region* region_ = nullptr;
  std::vector<const Expr*> mask_values_;  // as written, by mask
  bool in_mask_ = false;                  // static expressions may read arrays
  bool prefetch_ok_ = false;              // static expressions may read prefetched scalars
  absl::flat_hash_map<std::string, const Function*> functions_;
  int calls_ = 0, all_calls_ = 0;       // of functions: one within the other; in all
  int loops_ = 0;                       // enclosing for statements
  std::vector<kernel::GridAxis> axes_;  // of the grid and of the pipelines around, by number
  std::vector<int> pipelines_;          // around
  bool in_setup_ = false;
  // While a pipeline's sizes and index maps are read: values of the body that they name.
  std::vector<std::pair<std::string, NodeId>>* operands_ = nullptr;
  bool ok_ = true;
};

}  // namespace tpuc::kernel_text
