// Bodies to syntax trees (body_printer.h). One pass over each region with a stack of values that
// wait for their use: a value may wait only while everything computed after it goes into the same
// expression, because that is the order in which the text will be read.
#include "grammar/kernel/body_printer.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "backend/kernel/expr.h"
#include "grammar/kernel/declaration_printer.h"
#include "grammar/kernel/lexer.h"
#include "grammar/kernel/op_names.h"
#include "src/ir/native.h"
#include "src/ir/op_table.h"

namespace tpuc::kernel_text {
namespace {

using kernel::Node;
using kernel::NodeId;
using kernel::Slice;

// Nested expressions are cut into statements here, below the parser's limit.
constexpr int kMaxInlineDepth = 24;

Expr Named(std::string name, Expr value) {
  std::vector<Expr> args;
  args.push_back(std::move(value));
  return Make(Expr::Kind::kNamed, std::move(name), std::move(args));
}

Expr IntSet(const Ints& ints) {
  std::vector<Expr> args;
  for (int64_t i : ints) args.push_back(IntegerSyntax(i));
  return Make(Expr::Kind::kSet, "", std::move(args));
}

Expr Number(const std::string& text) {
  const bool negative = text[0] == '-';
  const std::string digits = negative ? text.substr(1) : text;
  const bool word = digits == "inf" || digits == "nan" || digits == "true" || digits == "false";
  const bool integer = digits.find_first_not_of("0123456789") == std::string::npos;
  Expr e = Make(word      ? Expr::Kind::kName
                : integer ? Expr::Kind::kInteger
                          : Expr::Kind::kNumber,
                digits);
  if (!negative) return e;
  std::vector<Expr> args;
  args.push_back(std::move(e));
  return Make(Expr::Kind::kUnary, "-", std::move(args));
}

bool IsScalarBroadcast(const kernel::Kernel& k, const Node& n) {
  return n.kind == Node::Kind::kHlo && n.op == Op::kBroadcast && n.operands.size() == 1 &&
         k.nodes[n.operands[0]].shape.dims.empty() && !n.shape.dims.empty();
}

bool IsElementwise(const Node& n) {
  return n.kind == Node::Kind::kHlo && InfoOf(n.op).op_class == OpClass::kElementwise &&
         n.op != Op::kConvert && n.op != Op::kBitcastConvert && n.op != Op::kMap;
}

class BodyPrinter {
 public:
  explicit BodyPrinter(const kernel::Kernel& k)
      : k_(k),
        uses_(k.nodes.size()),
        region_of_(k.nodes.size(), -1),
        use_region_(k.nodes.size(), -1),
        names_(k.nodes.size()),
        exprs_(k.nodes.size()) {
    taken_.emplace_back();
    for (const auto& p : k.params) taken_[0].insert(p.name);
    for (const auto& a : k.grid) taken_[0].insert(a.name);
    for (const auto& r : k.refs) taken_[0].insert(r.name);
    for (const auto& m : k.masks) taken_[0].insert(m.name);
    for (const auto& b : k.blocks) taken_[0].insert(b.name);
    int regions = 0;
    CountUses(k.setup, &regions);
    CountUses(k.body, &regions);
    for (const auto& axis : k.grid) axes_.push_back(axis.name);
  }

  BodyText Run() {
    BodyText text;
    taken_.emplace_back();
    PrintRegion(k_.setup, &text.setup);
    taken_.pop_back();
    std::vector<Statement>& out = text.body;
    for (const kernel::Assert& a : k_.asserts) {
      Statement s;
      s.kind = Statement::Kind::kAssert;
      std::vector<Expr> args;
      args.push_back(StaticSyntax(a.lhs, k_));
      args.push_back(StaticSyntax(a.rhs, k_));
      s.value = Make(Expr::Kind::kBinary, a.cmp, std::move(args));
      s.message = a.message;
      out.push_back(std::move(s));
    }
    PrintRegion(k_.body, &out);
    return text;
  }

 private:
  static std::vector<NodeId> Consumed(const Node& n) {
    std::vector<NodeId> ids;
    for (const Slice& s : n.slices) {
      if (s.start_node >= 0) ids.push_back(s.start_node);
    }
    for (const kernel::RefView& v : n.views) {
      for (const Slice& s : v.slices) {
        if (s.start_node >= 0) ids.push_back(s.start_node);
      }
    }
    if (n.kind == Node::Kind::kWhile) return ids;  // its condition is its first region's
    ids.insert(ids.end(), n.operands.begin(), n.operands.end());
    return ids;
  }

  void CountUses(const kernel::Region& region, int* regions) {
    const int self = (*regions)++;
    for (NodeId id : region.nodes) {
      region_of_[id] = self;
      for (NodeId o : Consumed(k_.nodes[id])) {
        ++uses_[o];
        if (k_.nodes[id].kind == Node::Kind::kPipeline) uses_[o] += 2;  // by its name
        use_region_[o] = self;
      }
      for (const kernel::Region& r : k_.nodes[id].regions) CountUses(r, regions);
    }
  }

  std::string Unique(std::string wanted) {
    if (!IsName(wanted) || IsReserved(wanted)) wanted = absl::StrCat("v_", wanted);
    if (!IsName(wanted)) wanted = absl::StrCat("v");
    std::string name = wanted;
    const auto is_taken = [&](const std::string& n) {
      return std::any_of(taken_.begin(), taken_.end(),
                         [&](const auto& s) { return s.count(n) > 0; });
    };
    for (int n = 1; is_taken(name); ++n) name = absl::StrCat(wanted, "_", n);
    taken_.back().insert(name);
    return name;
  }

  bool Inlined(NodeId id) const { return names_[id].empty(); }

  void EmitAssign(NodeId id, std::vector<Statement>* out) {
    const Node& n = k_.nodes[id];
    Statement s;
    s.kind = Statement::Kind::kAssign;
    s.value = std::move(exprs_[id]);
    s.comment = Comment(n);
    names_[id] = Unique(n.name.empty() ? absl::StrCat("t", id) : n.name);
    s.name = names_[id];
    out->push_back(std::move(s));
  }
  void Flush(std::vector<Statement>* out) {
    for (NodeId id : pending_) EmitAssign(id, out);
    pending_.clear();
  }
  static std::string Comment(const Node& n) {
    if (n.hlo.empty()) return "";
    std::string text = n.hlo;
    if (!n.place.empty()) absl::StrAppend(&text, "  ", n.place);
    std::replace(text.begin(), text.end(), '\n', ' ');
    return text;
  }

  // Takes what n consumes from the waiting values; those that do not fit become statements.
  void Consume(const Node& n, std::vector<Statement>* out) {
    std::vector<NodeId> wanted;
    for (NodeId o : Consumed(n)) {
      if (Inlined(o)) wanted.push_back(o);
    }
    const bool top = wanted.size() <= pending_.size() &&
                     std::equal(wanted.rbegin(), wanted.rend(), pending_.rbegin());
    if (!top) return Flush(out);
    pending_.resize(pending_.size() - wanted.size());
  }

  void PrintRegion(const kernel::Region& region, std::vector<Statement>* out);
  void PrintFor(const Node& n, Statement* s);
  void PrintWhile(const Node& n, Statement* s);
  void PrintCopy(const Node& n, Statement* s);
  void PrintPipeline(const Node& n, Statement* s);
  void PrintBlock(const kernel::Region& region, Statement* s);
  Expr ExprOf(NodeId id);
  Expr Use(NodeId id);  // with type and shape spelled out
  Expr Constant(NodeId id, bool typed);
  Expr Load(const Node& n);
  Expr Ranges(int ref, const std::vector<Slice>& slices, const std::vector<bool>& dropped = {});
  Expr Dims(const Node& n);
  Expr Hlo(NodeId id, const Node& n);
  bool IsTake(const Node& n) const;
  Expr Dot(const Node& n);
  Expr Reduce(const Node& n);
  Expr Elementwise(const Node& n);
  std::vector<Expr> ElementwiseOperands(const Node& n);
  Expr Generic(const Node& n, std::vector<Expr> args);
  Expr StoreValue(NodeId o);
  // A constant behind o, if o is one or a broadcast of one and prints where it is used; -1 else.
  NodeId ConstantBehind(NodeId o) const {
    if (!Inlined(o)) return -1;
    const Node& n = k_.nodes[o];
    if (IsScalarBroadcast(k_, n)) return ConstantBehind(n.operands[0]);
    return n.kind == Node::Kind::kHlo && n.op == Op::kConstant && n.shape.dims.empty() ? o : -1;
  }

  const kernel::Kernel& k_;
  std::vector<int> uses_, region_of_, use_region_;
  std::vector<std::string> names_;
  std::vector<Expr> exprs_;
  std::vector<NodeId> pending_;
  std::vector<absl::flat_hash_set<std::string>> taken_;
  std::vector<std::string> loops_;
  std::vector<std::string> axes_;  // of the grid and of the pipelines around, by number
};

void BodyPrinter::PrintRegion(const kernel::Region& region, std::vector<Statement>* out) {
  std::vector<NodeId> outer = std::move(pending_);
  pending_.clear();
  for (NodeId id : region.nodes) {
    const Node& n = k_.nodes[id];
    Consume(n, out);
    if (n.kind == Node::Kind::kHlo || n.kind == Node::Kind::kLoad || n.kind == Node::Kind::kAxis ||
        n.kind == Node::Kind::kNumAxis || n.kind == Node::Kind::kLoopIndex) {
      exprs_[id] = ExprOf(id);
      const bool waits = n.name.empty() && uses_[id] == 1 && use_region_[id] == region_of_[id] &&
                         exprs_[id].depth < kMaxInlineDepth;
      if (waits) {
        pending_.push_back(id);
      } else {
        Flush(out);
        EmitAssign(id, out);
      }
      continue;
    }
    Flush(out);
    Statement s;
    s.comment = Comment(n);
    if (n.kind == Node::Kind::kStore) {
      s.kind = Statement::Kind::kStore;
      s.target = Ranges(n.ref, n.slices);
      s.value = StoreValue(n.operands[0]);
      if (n.operands.size() > 1) s.where.push_back(StoreValue(n.operands[1]));
    } else if (n.kind == Node::Kind::kWhen) {
      s.kind = Statement::Kind::kWhen;
      s.value = Use(n.operands[0]);
      for (const kernel::Region& r : n.regions) PrintBlock(r, &s);
    } else if (n.kind == Node::Kind::kWhile) {
      PrintWhile(n, &s);
    } else if (!n.views.empty()) {
      PrintCopy(n, &s);
    } else if (n.kind == Node::Kind::kPipeline) {
      PrintPipeline(n, &s);
    } else {
      PrintFor(n, &s);
    }
    out->push_back(std::move(s));
  }
  Flush(out);
  pending_ = std::move(outer);
}

void BodyPrinter::PrintBlock(const kernel::Region& region, Statement* s) {
  s->blocks.emplace_back();
  taken_.emplace_back();
  PrintRegion(region, &s->blocks.back());
  taken_.pop_back();
}

void BodyPrinter::PrintCopy(const Node& n, Statement* s) {
  using Kind = Statement::Kind;
  s->kind = n.kind == Node::Kind::kCopyStart  ? Kind::kCopy
            : n.kind == Node::Kind::kCopyWait ? Kind::kWaitCopy
            : n.kind == Node::Kind::kSignal   ? Kind::kSignal
                                              : Kind::kWait;
  for (const kernel::RefView& v : n.views) {
    if (v.slices.empty()) {
      s->views.push_back(Name(k_.refs[v.ref].name));
    } else {
      s->views.push_back(Ranges(v.ref, v.slices, v.dropped));
    }
  }
  if (n.operands.empty()) return;
  const NodeId constant = ConstantBehind(n.operands[0]);
  s->value = constant >= 0 ? Constant(constant, false) : Use(n.operands[0]);
}

// The condition is one expression: its values are used once each, in the order of their nodes.
void BodyPrinter::PrintWhile(const Node& n, Statement* s) {
  s->kind = Statement::Kind::kWhile;
  for (NodeId id : n.regions[0].nodes) exprs_[id] = ExprOf(id);
  s->value = Use(n.operands[0]);
  PrintBlock(n.regions[1], s);
}

void BodyPrinter::PrintPipeline(const Node& n, Statement* s) {
  s->kind = Statement::Kind::kPipeline;
  const kernel::Pipeline& p = k_.pipelines[n.pipeline];
  taken_.emplace_back();
  for (const kernel::GridAxis& a : p.grid) axes_.push_back(Unique(a.name));
  StaticNames names;
  names.axes = axes_;
  for (NodeId o : n.operands) names.operands.push_back(names_[o]);
  for (size_t a = 0; a < p.grid.size(); ++a) {
    s->axes.push_back(AxisSyntax(p.grid[a], axes_[p.first_axis + a], k_, names));
  }
  for (int w : p.windows) {
    const kernel::Ref& ref = k_.refs[w];
    Operand o;
    o.role = ref.role == kernel::Ref::Role::kIn ? "in" : "out";
    o.name = ref.name;
    o.of = k_.refs[ref.window_of].name;
    MovesSyntax(ref, k_, names, &o);
    s->windows.push_back(std::move(o));
  }
  PrintBlock(n.regions[0], s);
  axes_.resize(p.first_axis);
  taken_.pop_back();
}

void BodyPrinter::PrintFor(const Node& n, Statement* s) {
  s->kind = Statement::Kind::kFor;
  const bool exprs = n.bound_exprs.size() == 2;
  if (n.operands.size() == 2) {
    const NodeId lower = ConstantBehind(n.operands[0]), upper = ConstantBehind(n.operands[1]);
    const bool typed = lower >= 0 && upper >= 0;  // else they would be no values again
    s->value = lower >= 0 ? Constant(lower, typed) : Use(n.operands[0]);
    s->limit = upper >= 0 ? Constant(upper, typed) : Use(n.operands[1]);
  } else {
    s->value = exprs ? StaticSyntax(n.bound_exprs[0], k_) : IntegerSyntax(n.lower);
    s->limit = exprs ? StaticSyntax(n.bound_exprs[1], k_) : IntegerSyntax(n.upper);
  }
  if (n.unroll != 1) s->unroll = absl::StrCat(n.unroll);
  taken_.emplace_back();
  s->name = Unique(n.name.empty() ? "i" : n.name);
  loops_.push_back(s->name);
  s->blocks.emplace_back();
  PrintRegion(n.regions[0], &s->blocks.back());
  loops_.pop_back();
  taken_.pop_back();
}

Expr BodyPrinter::Constant(NodeId id, bool typed) {
  const Node& n = k_.nodes[id];
  Expr value;
  if (!n.value_expr.empty()) {
    value = StaticSyntax(n.value_expr[0], k_);
  } else if (n.literal == nullptr || n.literal->elided() || n.literal->size() != 1) {
    value = Name("nan");
  } else {
    value = Number(NumberText(*n.literal, 0));
  }
  if (!typed) return value;
  std::vector<Expr> args;
  args.push_back(std::move(value));
  return Call(std::string(TypeName(n.shape.type)), std::move(args));
}

Expr BodyPrinter::Use(NodeId id) {
  if (!Inlined(id)) return Name(names_[id]);
  return std::move(exprs_[id]);
}

Expr BodyPrinter::Dims(const Node& n) {
  std::vector<Expr> dims;
  for (size_t d = 0; d < n.shape.dims.size(); ++d) {
    dims.push_back(n.dim_exprs.size() == n.shape.dims.size() ? StaticSyntax(n.dim_exprs[d], k_)
                                                             : IntegerSyntax(n.shape.dims[d]));
  }
  return Make(Expr::Kind::kList, "", std::move(dims));
}

Expr BodyPrinter::Ranges(int ref, const std::vector<Slice>& slices,
                         const std::vector<bool>& dropped) {
  const Shape block = k_.refs[ref].BlockShape();
  std::vector<Expr> args;
  args.push_back(Name(k_.refs[ref].name));
  const auto whole = [&](size_t d) {
    return slices[d].start_node < 0 && slices[d].start == 0 && slices[d].start_expr.empty() &&
           slices[d].size_expr.empty() && slices[d].size == block.dims[d];
  };
  const bool smem = k_.refs[ref].space == kernel::Ref::Space::kSmem;  // one scalar: x[i, j]
  const auto drops = [&](size_t d) { return dropped.empty() ? smem : bool{dropped[d]}; };
  const auto start = [&](const Slice& s) {
    Expr e = s.start_node >= 0       ? Use(s.start_node)
             : !s.start_expr.empty() ? StaticSyntax(s.start_expr[0], k_)
                                     : IntegerSyntax(s.start);
    if (s.multiple_of == 1) return e;
    std::vector<Expr> promise;
    promise.push_back(std::move(e));
    promise.push_back(IntegerSyntax(s.multiple_of));
    return Call("multiple_of", std::move(promise));
  };
  bool all = true;
  for (size_t d = 0; d < slices.size(); ++d) all &= whole(d) && !drops(d);
  for (size_t d = 0; d < (all ? 1 : slices.size()); ++d) {
    std::vector<Expr> parts;
    if (!all && drops(d)) {
      args.push_back(start(slices[d]));
      continue;
    }
    if (all || whole(d)) {
      parts.resize(3);
      args.push_back(Make(Expr::Kind::kRange, ":", std::move(parts)));
      continue;
    }
    const Slice& s = slices[d];
    Expr size = s.size_expr.empty() ? IntegerSyntax(s.size) : StaticSyntax(s.size_expr[0], k_);
    const bool plus =
        s.start_node >= 0 || !s.start_expr.empty() || (!s.size_expr.empty() && s.start != 0);
    parts.push_back(start(s));
    if (plus) {
      parts.push_back(std::move(size));
    } else {
      parts.push_back(s.start == 0 ? std::move(size) : IntegerSyntax(s.start + s.size));
      parts.emplace_back();
    }
    args.push_back(Make(Expr::Kind::kRange, plus ? ":+" : ":", std::move(parts)));
  }
  return Make(Expr::Kind::kIndex, "", std::move(args));
}

Expr BodyPrinter::Dot(const Node& n) {
  const Ints& lhs = n.IntsAttr(AttrId::kLhsContractingDims);
  const Ints& rhs = n.IntsAttr(AttrId::kRhsContractingDims);
  const int lhs_rank = k_.nodes[n.operands[0]].shape.rank();
  const int rhs_rank = k_.nodes[n.operands[1]].shape.rank();
  const bool simple = n.Find(AttrId::kLhsBatchDims) == nullptr &&
                      n.Find(AttrId::kRhsBatchDims) == nullptr && lhs.size() == 1 &&
                      rhs.size() == 1 && lhs_rank <= 2 && rhs_rank <= 2;
  std::vector<Expr> args;
  for (size_t side = 0; side < 2; ++side) {
    Expr e = Use(n.operands[side]);
    const bool transposed =
        simple && (side == 0 ? lhs_rank == 2 && lhs[0] == 0 : rhs_rank == 2 && rhs[0] == 1);
    if (transposed) {
      std::vector<Expr> inner;
      inner.push_back(std::move(e));
      e = Make(Expr::Kind::kTranspose, "", std::move(inner));
    }
    args.push_back(std::move(e));
  }
  static constexpr std::pair<AttrId, const char*> kDims[] = {
      {AttrId::kLhsBatchDims, "lhs_batch"},
      {AttrId::kLhsContractingDims, "lhs_contracting"},
      {AttrId::kRhsBatchDims, "rhs_batch"},
      {AttrId::kRhsContractingDims, "rhs_contracting"}};
  for (const auto& [id, name] : kDims) {
    if (!simple && n.Find(id) != nullptr) args.push_back(Named(name, IntSet(n.IntsAttr(id))));
  }
  const Type operand = k_.nodes[n.operands[0]].shape.type;
  const Type usual = IsFloat(operand) ? (operand == Type::kF64 ? operand : Type::kF32)
                     : BitsOf(operand) > 32 || ClassOf(operand) == TypeClass::kComplex ? operand
                                                                                       : Type::kS32;
  if (n.shape.type != usual) {
    args.push_back(Named("type", Name(std::string(TypeName(n.shape.type)))));
  }
  for (const auto& [id, name] : {std::pair{AttrId::kOperandPrecision, "precision"},
                                 std::pair{AttrId::kAlgorithm, "algorithm"}}) {
    const AttrValue* v = n.Find(id);
    if (v == nullptr) continue;
    if (const auto* words = std::get_if<std::vector<std::string>>(v)) {
      std::vector<Expr> list;
      for (const std::string& w : *words) list.push_back(Name(w));
      args.push_back(Named(name, Make(Expr::Kind::kSet, "", std::move(list))));
    } else if (const auto* word = std::get_if<std::string>(v)) {
      args.push_back(Named(name, Name(*word)));
    }
  }
  return Call("dot", std::move(args));
}

Expr BodyPrinter::Reduce(const Node& n) {
  const Ints& dims = n.IntsAttr(AttrId::kDimensions);
  std::vector<Expr> args;
  args.push_back(Use(n.operands[0]));
  args.push_back(Named("axis", dims.size() == 1 ? IntegerSyntax(dims[0]) : IntSet(dims)));
  const absl::string_view name = ReductionName(n.reducer, n.shape.type);
  if (!name.empty()) return Call(std::string(name), std::move(args));
  args.push_back(Named("op", Name(std::string(OpName(n.reducer)))));
  return Call("reduce", std::move(args));
}

// Which operands say type and shape decides how the others may be written.
std::vector<Expr> BodyPrinter::ElementwiseOperands(const Node& n) {
  const size_t group = n.op == Op::kSelect ? 1 : 0;
  bool typed = false, shaped = n.shape.dims.empty();
  for (size_t i = 0; i < n.operands.size(); ++i) {
    const NodeId o = n.operands[i];
    if (i >= group) typed |= ConstantBehind(o) < 0;
    shaped |= !(Inlined(o) && IsScalarBroadcast(k_, k_.nodes[o]));
  }
  std::vector<Expr> args;
  for (size_t i = 0; i < n.operands.size(); ++i) {
    NodeId o = n.operands[i];
    const NodeId constant = ConstantBehind(o);
    const bool stretched = Inlined(o) && IsScalarBroadcast(k_, k_.nodes[o]);
    if (stretched && !shaped) {  // the first says the shape; its operand was printed with its type
      shaped = true;
      typed |= i >= group;
      args.push_back(Use(o));
    } else if (constant >= 0) {
      const bool bare = i < group || typed;
      typed |= i >= group;
      args.push_back(Constant(constant, !bare));
    } else if (stretched) {
      args.push_back(Use(k_.nodes[o].operands[0]));
    } else {
      args.push_back(Use(o));
    }
  }
  return args;
}

Expr BodyPrinter::Elementwise(const Node& n) {
  std::vector<Expr> args = ElementwiseOperands(n);
  if (n.op == Op::kCompare && n.attrs.size() == 1) {
    const absl::string_view relation = RelationOf(n.StringAttr(AttrId::kDirection));
    if (!relation.empty()) return Make(Expr::Kind::kBinary, std::string(relation), std::move(args));
  }
  if (n.attrs.empty() && args.size() == 2 && !InfixOf(n.op).empty()) {
    return Make(Expr::Kind::kBinary, std::string(InfixOf(n.op)), std::move(args));
  }
  if (n.attrs.empty() && (n.op == Op::kNegate || n.op == Op::kNot)) {
    return Make(Expr::Kind::kUnary, n.op == Op::kNegate ? "-" : "!", std::move(args));
  }
  return Generic(n, std::move(args));
}

Expr BodyPrinter::Generic(const Node& n, std::vector<Expr> args) {
  for (const Attr& a : n.attrs) {
    Expr value;
    if (const auto* ints = std::get_if<Ints>(&a.value)) {
      value = IntSet(*ints);
    } else if (const auto* i = std::get_if<int64_t>(&a.value)) {
      value = IntegerSyntax(*i);
    } else if (const auto* b = std::get_if<bool>(&a.value)) {
      value = Name(*b ? "true" : "false");
    } else if (const auto* word = std::get_if<std::string>(&a.value)) {
      value = IsName(*word) ? Name(*word) : Make(Expr::Kind::kString, *word);
    } else if (const auto* words = std::get_if<std::vector<std::string>>(&a.value)) {
      std::vector<Expr> list;
      for (const std::string& w : *words) list.push_back(Name(w));
      value = Make(Expr::Kind::kSet, "", std::move(list));
    } else {
      continue;
    }
    args.push_back(Named(std::string(AttrName(a.id)), std::move(value)));
  }
  return Call(CallName(n.op), std::move(args));
}

// A gather of the form that take(x, t, axis=d) has.
bool BodyPrinter::IsTake(const Node& n) const {
  const Shape& x = k_.nodes[n.operands[0]].shape;
  const int64_t axis = n.IntsAttr(AttrId::kStartIndexMap)[0];
  Ints offsets, sizes(x.dims.begin(), x.dims.end());
  if (axis < 0 || axis + 1 >= x.rank() || n.attrs.size() != 5 ||
      k_.nodes[n.operands[1]].shape.rank() != 1 ||
      k_.nodes[n.operands[1]].shape.type != Type::kS32) {
    return false;
  }
  for (int64_t d = 0; d < x.rank(); ++d) {
    if (d != axis) offsets.push_back(d);
  }
  sizes[axis] = 1;
  const auto* vector_dim = std::get_if<int64_t>(n.Find(AttrId::kIndexVectorDim));
  return vector_dim != nullptr && *vector_dim == 1 && n.IntsAttr(AttrId::kOffsetDims) == offsets &&
         n.IntsAttr(AttrId::kCollapsedSliceDims) == Ints{axis} &&
         n.IntsAttr(AttrId::kSliceSizes) == sizes;
}

Expr BodyPrinter::Hlo(NodeId id, const Node& n) {
  if (n.op == Op::kConstant) return Constant(id, true);
  if (IsElementwise(n)) return Elementwise(n);
  std::vector<Expr> args;
  if (n.op == Op::kDot) return Dot(n);
  if (n.op == Op::kReduce) return Reduce(n);
  if (n.op == Op::kPad) {
    args.push_back(Use(n.operands[0]));
    const NodeId value = ConstantBehind(n.operands[1]);
    args.push_back(value >= 0 ? Constant(value, false) : Use(n.operands[1]));
    std::vector<Expr> list;
    if (const auto* pads = std::get_if<std::vector<PadDim>>(n.Find(AttrId::kPadding))) {
      for (const PadDim& p : *pads) {
        std::vector<Expr> parts;
        parts.push_back(IntegerSyntax(p.low));
        parts.push_back(IntegerSyntax(p.high));
        parts.push_back(p.interior == 0 ? Expr() : IntegerSyntax(p.interior));
        list.push_back(Make(Expr::Kind::kRange, ":", std::move(parts)));
      }
    }
    args.push_back(Make(Expr::Kind::kList, "", std::move(list)));
    return Call("pad", std::move(args));
  }
  // The scalar behind a broadcast may be printed without it: its expression stays.
  const bool keep = IsScalarBroadcast(k_, n);
  for (NodeId o : n.operands) args.push_back(keep && Inlined(o) ? exprs_[o] : Use(o));
  switch (n.op) {
    case Op::kBroadcast:
      args.push_back(Dims(n));
      if (!n.IntsAttr(AttrId::kDimensions).empty()) {
        args.push_back(Named("dims", IntSet(n.IntsAttr(AttrId::kDimensions))));
      }
      return Call("broadcast", std::move(args));
    case Op::kReshape:
      args.push_back(Dims(n));
      return Call("reshape", std::move(args));
    case Op::kIota: {
      const auto* d = std::get_if<int64_t>(n.Find(AttrId::kIotaDimension));
      args.push_back(Dims(n));
      args.push_back(Named("dim", IntegerSyntax(d == nullptr ? 0 : *d)));
      if (n.shape.type != Type::kS32) {
        args.push_back(Named("type", Name(std::string(TypeName(n.shape.type)))));
      }
      return Call("iota", std::move(args));
    }
    case Op::kTranspose:
    case Op::kReverse:
      args.push_back(IntSet(n.IntsAttr(AttrId::kDimensions)));
      return Call(CallName(n.op), std::move(args));
    case Op::kSlice: {
      const Shape& from = k_.nodes[n.operands[0]].shape;
      std::vector<Expr> list;
      const auto* dims = std::get_if<std::vector<SliceDim>>(n.Find(AttrId::kSlice));
      for (size_t d = 0; dims != nullptr && d < dims->size(); ++d) {
        const SliceDim& s = (*dims)[d];
        std::vector<Expr> parts(3);
        if (s.start != 0 || s.limit != from.dims[d] || s.stride != 1) {
          parts[0] = IntegerSyntax(s.start);
          parts[1] = IntegerSyntax(s.limit);
        }
        if (s.stride != 1) parts[2] = IntegerSyntax(s.stride);
        list.push_back(Make(Expr::Kind::kRange, ":", std::move(parts)));
      }
      args.push_back(Make(Expr::Kind::kList, "", std::move(list)));
      return Call("slice", std::move(args));
    }
    case Op::kDynamicSlice:
      args.push_back(Named("sizes", Dims(n)));
      return Call("dynamic_slice", std::move(args));
    case Op::kGather: {
      const Ints& axis = n.IntsAttr(AttrId::kStartIndexMap);
      if (axis.size() != 1 || !IsTake(n)) return Generic(n, std::move(args));
      args.push_back(Named("axis", IntegerSyntax(axis[0])));
      return Call("take", std::move(args));
    }
    case Op::kConcatenate: {
      const Ints& dims = n.IntsAttr(AttrId::kDimensions);
      args.push_back(Named("axis", IntegerSyntax(dims.empty() ? 0 : dims[0])));
      return Call("concat", std::move(args));
    }
    case Op::kConvert:
    case Op::kBitcastConvert:
      args.push_back(Name(std::string(TypeName(n.shape.type))));
      return Call(CallName(n.op), std::move(args));
    default:
      return Generic(n, std::move(args));
  }
}

Expr BodyPrinter::ExprOf(NodeId id) {
  const Node& n = k_.nodes[id];
  switch (n.kind) {
    case Node::Kind::kLoad:
      return Ranges(n.ref, n.slices);
    case Node::Kind::kAxis:
      return Name(axes_[n.axis]);
    case Node::Kind::kNumAxis: {
      std::vector<Expr> args;
      args.push_back(Name(axes_[n.axis]));
      return Call("num", std::move(args));
    }
    case Node::Kind::kLoopIndex: {
      const int depth = static_cast<int>(loops_.size()) - 1 - n.axis;
      return Name(depth < 0 || depth >= static_cast<int>(loops_.size()) ? "i" : loops_[depth]);
    }
    default:
      return Hlo(id, n);
  }
}

Expr BodyPrinter::StoreValue(NodeId o) {
  const NodeId constant = ConstantBehind(o);
  if (constant >= 0) return Constant(constant, false);
  if (Inlined(o) && IsScalarBroadcast(k_, k_.nodes[o])) return Use(k_.nodes[o].operands[0]);
  return Use(o);
}

}  // namespace

Expr IntegerSyntax(int64_t value) { return Number(absl::StrCat(value)); }

std::string NumberText(const Literal& literal, int64_t index) {
  const Type type = literal.shape().type;
  if (type == Type::kPred) return literal.bytes()[index] != 0 ? "true" : "false";
  if (IsInteger(type)) {
    const int64_t value = ElementAsInt(type, literal.bytes(), index);
    if (type == Type::kU64) return absl::StrCat(static_cast<uint64_t>(value));
    return absl::StrCat(value);
  }
  if (!IsFloat(type)) return "nan";
  const double value = ElementAsDouble(type, literal.bytes(), index);
  const std::string sign = std::signbit(value) ? "-" : "";
  if (std::isnan(value)) return absl::StrCat(sign, "nan");
  if (std::isinf(value)) return absl::StrCat(sign, "inf");
  if (value == 0) return sign.empty() ? "0" : "-0.0";
  char text[64];
  const auto end = type == Type::kF64
                       ? std::to_chars(text, text + sizeof text, value)
                       : std::to_chars(text, text + sizeof text, static_cast<float>(value));
  return std::string(text, end.ptr);
}

BodyText BodySyntax(const kernel::Kernel& kernel) { return BodyPrinter(kernel).Run(); }

}  // namespace tpuc::kernel_text
