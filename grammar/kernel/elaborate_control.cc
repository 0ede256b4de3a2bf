// Elaboration of control statements and of memory spaces: when, for, while; what may be loaded and
// stored where (elaborate.h).
#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "backend/kernel/expr.h"
#include "grammar/kernel/elaborate.h"

namespace tpuc::kernel_text {

using kernel::Node;
using kernel::Ref;

kernel::Region KernelElaborator::Inner(const std::vector<Statement>& statements) {
  kernel::Region inner;
  kernel::Region* outer = region_;
  region_ = &inner;
  scopes_.emplace_back();
  Body(statements);
  scopes_.pop_back();
  region_ = outer;
  return inner;
}

void KernelElaborator::When(const Statement& s) {
  Value condition = Eval(s.value);
  // A condition on parameters is decided here: the other branch does not exist, and what the taken
  // one defines stays defined.
  if (condition.kind == Value::Kind::kBool) {
    const size_t taken = condition.integer != 0 ? 0 : 1;
    if (taken < s.blocks.size()) Body(s.blocks[taken]);
    return;
  }
  NodeId node = -1;
  if (condition && AsNode(&condition)) {
    node = condition.node;
    if (!ShapeOf(condition).IsScalar() || ShapeOf(condition).type != Type::kPred) {
      Error(
          DiagCode::kKernelShape, s.value.loc,
          absl::StrCat("condition of type ", ToString(ShapeOf(condition), false), ", not pred[]"));
    }
  }
  Node when;
  when.kind = Node::Kind::kWhen;
  when.shape = Shape::Tuple({});
  for (const auto& block : s.blocks) when.regions.push_back(Inner(block));
  if (node < 0) return;
  when.operands = {node};
  Emit(std::move(when), s.loc);
}

bool KernelElaborator::InCall(const Function& f, const Arguments& args, Loc loc,
                              const std::function<void()>& inner) {
  constexpr int kDeepest = 16, kMostCalls = 4096;
  if (!CheckNamed(args, {}, loc)) return false;
  if (args.positional.size() != f.parameters.size()) {
    Error(DiagCode::kKernelShape, loc,
          absl::StrCat(f.name, " takes ", f.parameters.size(), " arguments, not ",
                       args.positional.size()));
    return false;
  }
  if (calls_ >= kDeepest || ++all_calls_ > kMostCalls) {
    Error(DiagCode::kKernelBody, loc,
          absl::StrCat("calls of functions more than ", kDeepest, " deep, or more than ",
                       kMostCalls, ": ", f.name, " may call itself"));
    return false;
  }
  std::vector<Value> values;
  for (const Expr* e : args.positional) {
    values.push_back(Eval(*e));
    if (!values.back()) return false;
  }
  std::vector<absl::flat_hash_map<std::string, Symbol>> outer = std::move(scopes_);
  scopes_.clear();
  scopes_.push_back(std::move(outer[0]));
  scopes_.emplace_back();
  for (size_t i = 0; i < values.size(); ++i) {
    scopes_.back()[f.parameters[i]] = {Symbol::Kind::kValue, 0, std::move(values[i])};
  }
  ++calls_;
  inner();
  --calls_;
  outer[0] = std::move(scopes_[0]);
  scopes_ = std::move(outer);
  return true;
}

// A function of the kernel's text, put in place.
Value KernelElaborator::CallFunction(const Function& f, const Arguments& args, Loc loc) {
  if (f.has_block) {
    Error(DiagCode::kKernelBody, loc,
          absl::StrCat(f.name, " is a block of statements, not a value"),
          absl::StrCat("as a statement: ", f.name, "(...);"));
    return {};
  }
  Value result;
  if (!InCall(f, args, loc, [&] { result = Eval(f.value); })) return {};
  if (result) result.end = region_->nodes.size();
  return result;
}

// update(1); puts the block of a function in place.
void KernelElaborator::CallStatement(const Statement& s) {
  const auto f = functions_.find(s.value.text);
  if (f == functions_.end() || !f->second->has_block) {
    Error(DiagCode::kKernelBody, s.loc,
          absl::StrCat(s.value.text, f == functions_.end() ? " is no function of this kernel"
                                                           : " is a value, not a statement"));
    return;
  }
  Arguments args;
  for (const Expr& a : s.value.args) {
    if (a.kind == Expr::Kind::kNamed) {
      args.named.push_back({a.text, &a.args[0]});
    } else {
      args.positional.push_back(&a);
    }
  }
  InCall(*f->second, args, s.loc, [&] { Body(f->second->block); });
}

// A bound of a for: known before the kernel runs (expr, value), or an s32 node.
bool KernelElaborator::ForBound(const Expr& e, KernelExpr* expr, int64_t* value, NodeId* node) {
  Value v = Eval(e);
  if (!v) return false;
  if (v.kind == Value::Kind::kInteger) {
    *expr = v.expr;
    *value = v.integer;
    return true;
  }
  if (v.weak() || !ShapeOf(v).IsScalar() || ShapeOf(v).type != Type::kS32) {
    Error(DiagCode::kKernelShape, e.loc,
          absl::StrCat("a bound of a for is ",
                       v.weak() ? PrintSyntax(e) : ToString(ShapeOf(v), false), ", not s32[]"));
    return false;
  }
  *node = v.node;
  return true;
}

void KernelElaborator::For(const Statement& s) {
  Node loop;
  loop.kind = Node::Kind::kFor;
  loop.shape = Shape::Tuple({});
  loop.name = s.name;
  KernelExpr bounds[2];
  NodeId nodes[2] = {-1, -1};
  bool ok = ForBound(s.value, &bounds[0], &loop.lower, &nodes[0]);
  const size_t between = region_->nodes.size();
  ok = ForBound(s.limit, &bounds[1], &loop.upper, &nodes[1]) && ok;
  if (ok && nodes[0] < 0 && nodes[1] < 0) {
    if (kernel::UsesParam(bounds[0]) || kernel::UsesParam(bounds[1])) {
      loop.bound_exprs = {std::move(bounds[0]), std::move(bounds[1])};
    }
  } else if (ok) {  // both become values
    for (int i = 1; i >= 0; --i) {
      if (nodes[i] >= 0) continue;
      Value v;
      v.kind = Value::Kind::kInteger;
      v.integer = i == 0 ? loop.lower : loop.upper;
      v.expr = std::move(bounds[i]);
      v.loc = i == 0 ? s.value.loc : s.limit.loc;
      nodes[i] = Materialize(v, Type::kS32, i == 0 ? between : region_->nodes.size());
      ok = ok && nodes[i] >= 0;
    }
    loop.operands = {nodes[0], nodes[1]};
    loop.lower = loop.upper = 0;
  }
  if (!s.unroll.empty() && (!absl::SimpleAtoi(s.unroll, &loop.unroll) || loop.unroll > 1024)) {
    Error(DiagCode::kKernelParam, s.loc, absl::StrCat("unroll ", s.unroll, " is too large"));
    ok = false;
  }
  if (loop.unroll == 0 && !loop.operands.empty()) {
    Error(DiagCode::kKernelParam, s.loc,
          "a for whose bounds are known at run time only cannot be unrolled whole (PS-9.1)",
          "unroll 4 makes four trips one");
    ok = false;
  }
  kernel::Region inner;
  kernel::Region* outer = region_;
  region_ = &inner;
  scopes_.emplace_back();
  Define(s.name, s.loc, {Symbol::Kind::kLoop, loops_, {}});
  ++loops_;
  Body(s.blocks[0]);
  --loops_;
  scopes_.pop_back();
  region_ = outer;
  loop.regions.push_back(std::move(inner));
  if (ok) Emit(std::move(loop), s.loc);
}

void KernelElaborator::While(const Statement& s) {
  Node loop;
  loop.kind = Node::Kind::kWhile;
  loop.shape = Shape::Tuple({});
  kernel::Region condition;
  kernel::Region* outer = region_;
  region_ = &condition;
  scopes_.emplace_back();
  Value v = Eval(s.value);
  bool ok = AsNode(&v);
  scopes_.pop_back();
  region_ = outer;
  if (ok && (!ShapeOf(v).IsScalar() || ShapeOf(v).type != Type::kPred)) {
    Error(DiagCode::kKernelShape, s.value.loc,
          absl::StrCat("condition of type ", ToString(ShapeOf(v), false), ", not pred[]"));
    ok = false;
  }
  kernel::Region body = Inner(s.blocks[0]);
  if (!ok) return;
  if (std::find(condition.nodes.begin(), condition.nodes.end(), v.node) == condition.nodes.end()) {
    Error(DiagCode::kKernelBody, s.value.loc,
          "the condition of a while is computed before it and never changes",
          "write the comparison into the while");
    return;
  }
  loop.operands = {v.node};
  loop.regions = {std::move(condition), std::move(body)};
  Emit(std::move(loop), s.loc);
}

// Whether a body may load and store it.
bool KernelElaborator::Addressable(int r, Loc loc) {
  const Ref& ref = kernel_.refs[r];
  if (ref.space == Ref::Space::kHbm) {
    Error(DiagCode::kKernelMemory, loc,
          absl::StrCat(ref.name, " stays in HBM: it cannot be loaded or stored (PS-6.1)"),
          "copy it to a scratch buffer first");
    return false;
  }
  if (ref.space == Ref::Space::kSemaphore) {
    Error(DiagCode::kKernelMemory, loc,
          absl::StrCat(ref.name, " is a semaphore: copies, signal and wait name it"));
    return false;
  }
  if (in_setup_ && ref.IsWindow()) {
    Error(DiagCode::kKernelMemory, loc,
          absl::StrCat(ref.name, " has no block in setup, which runs once, before the grid"),
          "prefetch operands, scratch and arrays in HBM are there");
    return false;
  }
  return true;
}

// Accesses of SMEM are of one scalar (PS-6.2).
bool KernelElaborator::OneScalar(const Node& access, const std::vector<bool>& dropped, Loc loc) {
  if (std::find(dropped.begin(), dropped.end(), false) == dropped.end()) return true;
  const Ref& ref = kernel_.refs[access.ref];
  Error(DiagCode::kKernelMemory, loc,
        absl::StrCat(ref.name, " lies in SMEM: it is loaded and stored one scalar at a time"),
        absl::StrCat(ref.name, "[i] names one"));
  return false;
}

}  // namespace tpuc::kernel_text
