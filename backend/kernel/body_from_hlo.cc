// Kernel bodies from HLO (body_from_hlo.h). One pass over the instructions in order; each HLO value
// is a list of leaves (a tuple's, or one), each leaf a node or a scalar constant that is copied to
// every use, so that it prints where it is used.
#include "backend/kernel/body_from_hlo.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "backend/kernel/scalar.h"
#include "backend/kernel/windows.h"
#include "src/ir/op_table.h"

namespace tpuc::kernel {
namespace {

// Nested fusions that are inlined over and over could grow without bound.
constexpr size_t kMaxNodes = 1 << 20;
constexpr int kMaxNesting = 64;

// A leaf of an HLO value: a node, or a scalar constant (perhaps broadcast to `shape`) made anew at
// each use.
struct Leaf {
  NodeId node = -1;
  const Instruction* constant = nullptr;  // scalar
  NodeId scalar = -1;                     // a scalar node, broadcast at each use
  Shape shape;
};
using Leaves = std::vector<Leaf>;

bool IsDefaultPrecision(const AttrValue& v) {
  const auto* words = std::get_if<std::vector<std::string>>(&v);
  return words != nullptr && std::all_of(words->begin(), words->end(),
                                         [](const std::string& w) { return w == "default"; });
}

absl::string_view DefaultCompareType(Type type) {
  switch (ClassOf(type)) {
    case TypeClass::kFloat:
    case TypeClass::kComplex:
      return "FLOAT";
    case TypeClass::kSigned:
      return "SIGNED";
    default:
      return "UNSIGNED";
  }
}

// Attributes that say what an operation computes, without their default values.
bool KeepsAttr(const Instruction& i, const Attr& a) {
  if (a.id >= AttrId::kCondition) return false;  // computations, and what any instruction carries
  switch (a.id) {
    case AttrId::kInferredDimension:
    case AttrId::kResultAccuracy:
      return false;
    case AttrId::kOperandPrecision:
      return !IsDefaultPrecision(a.value);
    case AttrId::kCompareType:
      return i.operands.empty() ||
             i.StringAttr(a.id) != DefaultCompareType(i.operands[0]->shape.type);
    case AttrId::kLhsBatchDims:
    case AttrId::kRhsBatchDims:
      return !i.IntsAttr(a.id).empty();
    default:
      return true;
  }
}

class Builder {
 public:
  Builder(const Module& module, BodySource* result, DiagSink* diags)
      : module_(module), result_(result), kernel_(result->kernel), diags_(diags) {}

  bool Build(const Instruction& instruction, const std::vector<std::string>& operand_names);

 private:
  bool Fail(const Instruction& i, std::string what) {
    if (!failed_) {
      diags_->Add(DiagCode::kUnsupportedOp, module_.source, i.loc,
                  absl::StrCat(std::move(what), " (instruction ", i.name, ", in kernel ",
                               kernel_.name, ")"));
    }
    failed_ = true;
    return false;
  }

  std::string Unique(absl::string_view wanted);
  NodeId Append(Node node, const Instruction* from, bool named);
  NodeId Hlo(Op op, Type type, Dims dims, std::vector<NodeId> operands, std::vector<Attr> attrs,
             const Instruction* from, bool named);
  NodeId Broadcast(NodeId scalar, Type type, const Dims& dims, const Instruction* from);
  // A leaf as a node, scalars and their broadcasts made here.
  NodeId Use(const Leaf& leaf, const Instruction* from);
  NodeId UseAs(const Leaf& leaf, const Dims& dims, const Instruction* from);
  NodeId Load(int ref, const Instruction* from);
  Leaf InputLeaf(int operand, const Shape& shape, const Instruction* from);

  bool Visit(const Instruction& i);
  bool VisitComputation(const Computation& c, const std::vector<Leaves>& arguments, Leaves* root);
  bool VisitFusion(const Instruction& i);
  bool VisitBitcast(const Instruction& i);
  bool VisitReduce(const Instruction& i);
  bool VisitConstant(const Instruction& i);
  bool VisitElementwise(const Instruction& i);
  bool VisitPlain(const Instruction& i, bool named);
  void Note(const Instruction& i);
  void SetOne(const Instruction& i, NodeId node) {
    Leaf leaf;
    leaf.node = node;
    leaf.shape = i.shape;
    values_[&i] = {leaf};
  }

  const Module& module_;
  BodySource* result_;
  Kernel& kernel_;
  DiagSink* diags_;
  bool failed_ = false;
  int depth_ = 0;
  absl::flat_hash_map<const Instruction*, Leaves> values_;
  absl::flat_hash_set<std::string> names_, ops_, op_names_;
  std::vector<std::string> operand_names_;
};

std::string Builder::Unique(absl::string_view wanted) {
  std::string name = Identifier(wanted);
  for (int n = 1; !names_.insert(name).second; ++n) {
    name = absl::StrCat(Identifier(wanted), "_", n);
  }
  return name;
}

NodeId Builder::Append(Node node, const Instruction* from, bool named) {
  node.shape.layout.reset();
  if (from != nullptr) {
    node.hlo = from->name;
    node.op_name = std::string(from->op_name());
    node.place = module_.SourceLine(*from);
    node.loc = from->loc;
    if (named) node.name = Unique(from->name);
  }
  if (node.kind == Node::Kind::kLoad) {
    node.name = Unique(absl::StrCat(kernel_.refs[node.ref].name, "_block"));
  }
  const NodeId id = static_cast<NodeId>(kernel_.nodes.size());
  kernel_.nodes.push_back(std::move(node));
  kernel_.body.nodes.push_back(id);
  return id;
}

NodeId Builder::Hlo(Op op, Type type, Dims dims, std::vector<NodeId> operands,
                    std::vector<Attr> attrs, const Instruction* from, bool named) {
  Node n;
  n.op = op;
  n.shape = Shape::Array(type, std::move(dims));
  n.operands = std::move(operands);
  n.attrs = std::move(attrs);
  return Append(std::move(n), from, named);
}

NodeId Builder::Broadcast(NodeId scalar, Type type, const Dims& dims, const Instruction* from) {
  return Hlo(Op::kBroadcast, type, dims, {scalar}, {{AttrId::kDimensions, Ints{}}}, from, false);
}

NodeId Builder::Use(const Leaf& leaf, const Instruction* from) {
  if (leaf.node >= 0) return leaf.node;
  NodeId scalar = leaf.scalar;
  if (leaf.constant != nullptr) {
    Node n;
    n.op = Op::kConstant;
    n.shape = Shape::Array(leaf.constant->shape.type, {});
    n.literal = std::make_shared<Literal>(*leaf.constant->literal);
    n.literal->Reinterpret(n.shape);
    scalar = Append(std::move(n), leaf.constant, false);
  }
  if (leaf.shape.dims.empty()) return scalar;
  return Broadcast(scalar, leaf.shape.type, leaf.shape.dims, from);
}

// Elementwise operands must agree: a scalar is stretched.
NodeId Builder::UseAs(const Leaf& leaf, const Dims& dims, const Instruction* from) {
  const NodeId node = Use(leaf, from);
  if (!leaf.shape.dims.empty() || dims.empty()) return node;
  return Broadcast(node, leaf.shape.type, dims, from);
}

NodeId Builder::Load(int ref, const Instruction* from) {
  const Ref& r = kernel_.refs[ref];
  Node n;
  n.kind = Node::Kind::kLoad;
  n.ref = ref;
  n.shape = r.BlockShape();
  for (int64_t size : n.shape.dims) {
    Slice s;
    s.size = size;
    n.slices.push_back(s);
  }
  return Append(std::move(n), from, false);
}

Ref WholeArray(std::string name, Ref::Role role, const Shape& shape) {
  Ref r;
  r.name = std::move(name);
  r.role = role;
  r.shape = WithDeviceLayout(shape);
  r.shape.dim_kinds.clear();
  r.block.assign(shape.dims.begin(), shape.dims.end());
  r.index.assign(shape.dims.size(), Expr::Const(0));
  return r;
}

void Builder::Note(const Instruction& i) {
  if (i.op == Op::kParameter || i.op == Op::kConstant || i.op == Op::kFusion ||
      InfoOf(i.op).op_class == OpClass::kTuple) {
    return;
  }
  std::string op(OpName(i.op));
  if (ops_.insert(op).second) kernel_.ops.push_back(op);
  std::string op_name(i.op_name());
  if (!op_name.empty() && op_names_.insert(op_name).second) kernel_.op_names.push_back(op_name);
}

bool Builder::VisitFusion(const Instruction& i) {
  const Computation* called = i.ComputationAttr(AttrId::kCalls);
  if (called == nullptr) return Fail(i, "fusion without a computation");
  if (++depth_ > kMaxNesting) return Fail(i, "fusions nested too deeply");
  std::vector<Leaves> arguments;
  for (const Instruction* o : i.operands) arguments.push_back(values_[o]);
  Leaves root;
  if (!VisitComputation(*called, arguments, &root)) return false;
  values_[&i] = std::move(root);
  --depth_;
  return true;
}

// The instructions that the root needs.
absl::flat_hash_set<const Instruction*> Live(const Computation& c) {
  absl::flat_hash_set<const Instruction*> live;
  if (c.root != nullptr) live.insert(c.root);
  for (auto it = c.instructions.rbegin(); it != c.instructions.rend(); ++it) {
    if (live.count(it->get()) == 0) continue;
    for (const Instruction* o : (*it)->operands) live.insert(o);
  }
  return live;
}

bool Builder::VisitComputation(const Computation& c, const std::vector<Leaves>& arguments,
                               Leaves* root) {
  const absl::flat_hash_set<const Instruction*> live = Live(c);
  for (const auto& i : c.instructions) {
    if (live.count(i.get()) == 0) continue;
    if (i->op == Op::kParameter) {
      if (i->parameter_number < 0 ||
          i->parameter_number >= static_cast<int64_t>(arguments.size())) {
        return Fail(*i, "parameter without an argument");
      }
      values_[i.get()] = arguments[i->parameter_number];
      continue;
    }
    if (!Visit(*i)) return false;
  }
  *root = values_[c.root];
  return true;
}

bool Builder::VisitConstant(const Instruction& i) {
  if (i.literal == nullptr) return Fail(i, "constant without a value");
  Leaf leaf;
  leaf.shape = i.shape;
  if (i.shape.IsScalar()) {
    leaf.constant = &i;
    values_[&i] = {leaf};
    return true;
  }
  if (!i.shape.IsArray()) return Fail(i, "tuple constant in a kernel");
  // An array constant is an operand whose buffer has initial contents.
  const int ref = static_cast<int>(kernel_.refs.size());
  kernel_.refs.push_back(WholeArray(Unique(i.name), Ref::Role::kIn, i.shape));
  result_->inputs.push_back({-1, &i});
  SetOne(i, Load(ref, &i));
  return true;
}

// The same bytes in another shape: transpose to the operand's physical order, reshape, transpose to
// the result's logical order. What does nothing is left out.
bool Builder::VisitBitcast(const Instruction& i) {
  const Leaf& from = values_[i.operands[0]][0];
  const Shape& a = i.operands[0]->shape;
  const Shape& b = i.shape;
  NodeId node = Use(from, &i);
  Type type = a.type;
  const auto order_of = [](const Shape& s) {  // logical dimension by physical position, major first
    Ints order;
    const Layout layout = s.layout ? *s.layout : DefaultLayout(s.rank());
    for (int p = s.rank() - 1; p >= 0; --p) order.push_back(layout.minor_to_major[p]);
    return order;
  };
  const Ints a_order = order_of(a), b_order = order_of(b);
  Dims a_physical, b_physical;
  for (int64_t d : a_order) a_physical.push_back(a.dims[d]);
  for (int64_t d : b_order) b_physical.push_back(b.dims[d]);
  Ints b_inverse(b_order.size());  // result dimension d stands at this physical position
  for (size_t p = 0; p < b_order.size(); ++p) b_inverse[b_order[p]] = static_cast<int64_t>(p);
  const auto transpose = [&](const Ints& permutation, const Dims& dims) {
    if (std::is_sorted(permutation.begin(), permutation.end())) return;
    node = Hlo(Op::kTranspose, type, dims, {node}, {{AttrId::kDimensions, permutation}}, &i, true);
  };
  if (BitsOf(a.type) != BitsOf(b.type)) return Fail(i, "bitcast between widths");
  if (a.type != b.type) {
    type = b.type;
    node = Hlo(Op::kBitcastConvert, type, a.dims, {node}, {}, &i, true);
  }
  if (a_physical == b_physical) {  // one transpose says it
    Ints permutation(b_order.size());
    for (size_t d = 0; d < b_order.size(); ++d) permutation[d] = a_order[b_inverse[d]];
    transpose(permutation, b.dims);
  } else {
    transpose(a_order, a_physical);
    node = Hlo(Op::kReshape, type, b_physical, {node}, {}, &i, true);
    transpose(b_inverse, b.dims);
  }
  SetOne(i, node);
  return true;
}

bool Builder::VisitReduce(const Instruction& i) {
  const Computation* body = i.ComputationAttr(AttrId::kToApply);
  Op reducer;
  if (i.operands.size() != 2) return Fail(i, "reduce of several arrays at once");
  if (body == nullptr || !SimpleReducer(*body, &reducer)) {
    return Fail(
        i, absl::StrCat("reduce by the computation ", body == nullptr ? "(none)" : body->name,
                        ", which is not one of add, multiply, maximum, minimum, and, or, xor"));
  }
  const NodeId operand = Use(values_[i.operands[0]][0], &i);
  const Leaf init = values_[i.operands[1]][0];
  const bool drop = init.constant != nullptr && IsIdentity(reducer, *init.constant->literal);
  Node n;
  n.op = Op::kReduce;
  n.shape = Shape::Array(i.shape.type, i.shape.dims);
  n.operands = {operand};
  n.attrs = {{AttrId::kDimensions, i.IntsAttr(AttrId::kDimensions)}};
  n.reducer = reducer;
  NodeId node = Append(std::move(n), &i, true);
  if (!drop) {
    const NodeId start = UseAs(init, i.shape.dims, &i);
    node = Hlo(reducer, i.shape.type, i.shape.dims, {node, start}, {}, &i, true);
  }
  SetOne(i, node);
  return true;
}

bool Builder::VisitElementwise(const Instruction& i) {
  Node n;
  n.op = i.op;
  n.shape = Shape::Array(i.shape.type, i.shape.dims);
  for (const Instruction* o : i.operands) {
    n.operands.push_back(UseAs(values_[o][0], i.shape.dims, &i));
  }
  for (const Attr& a : i.attrs) {
    if (KeepsAttr(i, a)) n.attrs.push_back(a);
  }
  SetOne(i, Append(std::move(n), &i, true));
  return true;
}

bool Builder::VisitPlain(const Instruction& i, bool named) {
  Node n;
  n.op = i.op;
  n.shape = Shape::Array(i.shape.type, i.shape.dims);
  for (const Instruction* o : i.operands) n.operands.push_back(Use(values_[o][0], &i));
  for (const Attr& a : i.attrs) {
    if (KeepsAttr(i, a)) n.attrs.push_back(a);
  }
  SetOne(i, Append(std::move(n), &i, named));
  return true;
}

bool Builder::Visit(const Instruction& i) {
  if (failed_) return false;
  if (kernel_.nodes.size() > kMaxNodes) return Fail(i, "fusion too large");
  Note(i);
  for (const Instruction* o : i.operands) {
    if (values_[o].empty()) return Fail(i, absl::StrCat("operand ", o->name, " without a value"));
  }
  switch (i.op) {
    case Op::kFusion:
      return VisitFusion(i);
    case Op::kConstant:
      return VisitConstant(i);
    case Op::kTuple: {
      Leaves all;
      for (const Instruction* o : i.operands) {
        all.insert(all.end(), values_[o].begin(), values_[o].end());
      }
      values_[&i] = std::move(all);
      return true;
    }
    case Op::kGetTupleElement: {
      const Shape& tuple = i.operands[0]->shape;
      const int64_t index = i.IntAttr(AttrId::kIndex);
      const Leaves all = values_[i.operands[0]];
      if (index < 0 || index >= static_cast<int64_t>(tuple.elements.size()) ||
          static_cast<int64_t>(all.size()) != tuple.LeafCount()) {
        return Fail(i, "get-tuple-element of something else");
      }
      int64_t first = 0;
      for (int64_t e = 0; e < index; ++e) first += tuple.elements[e].LeafCount();
      Leaves part(all.begin() + first, all.begin() + first + i.shape.LeafCount());
      values_[&i] = std::move(part);
      return true;
    }
    case Op::kOptBarrier:
    case Op::kCopy: {
      Leaves same = values_[i.operands[0]];
      for (Leaf& leaf : same) leaf.shape.layout.reset();
      values_[&i] = std::move(same);
      return true;
    }
    default:
      break;
  }
  if (!i.shape.IsArray()) {
    return Fail(i, absl::StrCat(std::string(OpName(i.op)), " is not supported in kernels yet"));
  }
  if (i.shape.is_dynamic()) return Fail(i, "dynamic shapes are not supported in kernels");
  for (const Instruction* o : i.operands) {
    if (o->shape.ElementCount() == 0) {
      return Fail(i, absl::StrCat("zero-sized operand ", o->name, " in a kernel"));
    }
  }
  switch (i.op) {
    case Op::kBitcast:
      return VisitBitcast(i);
    case Op::kBitcastConvert:  // may change the rank
      return VisitPlain(i, true);
    case Op::kReduce:
      return VisitReduce(i);
    case Op::kBroadcast: {
      const Leaf operand = values_[i.operands[0]][0];
      if (!operand.shape.dims.empty() || i.shape.dims.empty()) return VisitPlain(i, true);
      Leaf leaf = operand;  // a scalar: broadcast at each use
      leaf.scalar = operand.node;
      leaf.node = -1;
      leaf.shape = Shape::Array(i.shape.type, i.shape.dims);
      values_[&i] = {leaf};
      return true;
    }
    case Op::kMap:
    case Op::kStochasticConvert:
    case Op::kDynamicReshape:
      break;
    case Op::kReduceWindow:
    case Op::kConvolution:
    case Op::kRaggedDot:
    case Op::kScaledDot:
      break;
    default:
      switch (InfoOf(i.op).op_class) {
        case OpClass::kElementwise:
          return VisitElementwise(i);
        case OpClass::kMove:
        case OpClass::kSource:
        case OpClass::kContract:
          return VisitPlain(i, true);
        default:
          break;
      }
  }
  return Fail(i, absl::StrCat(std::string(OpName(i.op)), " is not supported in kernels yet"));
}

Leaf Builder::InputLeaf(int operand, const Shape& shape, const Instruction* from) {
  Leaf leaf;
  leaf.shape = Shape::Array(shape.type, shape.dims);
  if (shape.IsScalar() && from->op == Op::kConstant && from->literal != nullptr) {
    leaf.constant = from;
    return leaf;
  }
  const int ref = static_cast<int>(kernel_.refs.size());
  std::string name = Unique(operand_names_[operand]);
  kernel_.refs.push_back(WholeArray(std::move(name), Ref::Role::kIn, shape));
  result_->inputs.push_back({operand, nullptr});
  leaf.node = Load(ref, from);
  return leaf;
}

// Marks parameters of a computation that reach some use; the others get no window.
void MarkUsed(const Instruction& i, std::vector<bool>* used) {
  if (i.op != Op::kFusion) return;
  const Computation* c = i.ComputationAttr(AttrId::kCalls);
  if (c == nullptr) return;
  const absl::flat_hash_set<const Instruction*> live = Live(*c);
  for (const Instruction* p : c->Parameters()) {
    if (p == nullptr || p->parameter_number < 0) continue;
    if (p->parameter_number < static_cast<int64_t>(used->size())) {
      (*used)[p->parameter_number] = live.count(p) > 0;
    }
  }
}

bool Builder::Build(const Instruction& instruction, const std::vector<std::string>& operand_names) {
  kernel_.name = instruction.name;
  kernel_.loc = instruction.loc;
  operand_names_ = operand_names;
  for (const char* word : {"o", "i", "b0"}) names_.insert(word);  // what the printed kernel adds
  if (instruction.op != Op::kFusion && InfoOf(instruction.op).op_class == OpClass::kCall) {
    return Fail(instruction, absl::StrCat(std::string(OpName(instruction.op)),
                                          " is not supported in kernels yet"));
  }
  absl::flat_hash_map<const Instruction*, bool> seen;
  std::vector<bool> used(instruction.operands.size(), true);
  MarkUsed(instruction, &used);
  for (size_t o = 0; o < instruction.operands.size(); ++o) {
    const Instruction* operand = instruction.operands[o];
    if (!used[o] || !seen.insert({operand, true}).second) continue;
    if (!operand->shape.IsArray()) return Fail(*operand, "kernel operand that is not an array");
    if (operand->shape.ElementCount() == 0) return Fail(*operand, "zero-sized kernel operand");
    values_[operand] = {InputLeaf(static_cast<int>(o), operand->shape, operand)};
  }
  // An operand that nothing uses still needs a value for the fusion's parameter list.
  for (const Instruction* operand : instruction.operands) {
    if (values_[operand].empty()) values_[operand].resize(operand->shape.LeafCount());
  }
  if (!Visit(instruction)) return false;
  std::vector<const Shape*> shapes;
  if (instruction.shape.IsTuple()) {
    for (const Shape& e : instruction.shape.elements) shapes.push_back(&e);
  } else {
    shapes.push_back(&instruction.shape);
  }
  const Leaves leaves = values_[&instruction];
  if (leaves.size() != shapes.size()) return Fail(instruction, "nested tuple result of a kernel");
  names_.erase("o");
  for (size_t leaf = 0; leaf < leaves.size(); ++leaf) {
    if (shapes[leaf]->ElementCount() == 0) continue;
    Ref out = WholeArray(Unique(leaves.size() == 1 ? "o" : absl::StrCat("o", leaf)),
                         Ref::Role::kOut, *shapes[leaf]);
    Node store;
    store.kind = Node::Kind::kStore;
    store.operands = {Use(leaves[leaf], nullptr)};
    store.ref = static_cast<int>(kernel_.refs.size());
    store.shape = Shape::Tuple({});
    for (int64_t size : out.block) {
      Slice s;
      s.size = size;
      store.slices.push_back(s);
    }
    const Node& value = kernel_.nodes[store.operands[0]];
    store.hlo = value.hlo;
    store.op_name = value.op_name;
    store.place = value.place;
    store.loc = value.loc;
    kernel_.refs.push_back(std::move(out));
    result_->outputs.push_back(static_cast<int64_t>(leaf));
    Append(std::move(store), nullptr, false);
  }
  return !failed_;
}

}  // namespace

std::string Identifier(absl::string_view name) {
  std::string id;
  for (size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    const bool dot = c == '.' && !id.empty() && i + 1 < name.size() &&
                     (absl::ascii_isalnum(name[i + 1]) || name[i + 1] == '_');
    id += absl::ascii_isalnum(c) || dot ? c : '_';
  }
  if (id.empty() || absl::ascii_isdigit(id[0])) id = absl::StrCat("v", id);
  static const char* const keywords[] = {"kernel",  "program", "param", "grid", "in",  "out",
                                         "scratch", "when",    "else",  "for",  "num", "assert",
                                         "inf",     "nan",     "true",  "false"};
  for (const char* word : keywords) {
    if (id == word) id += '_';
  }
  return id;
}

bool BodyFromHlo(const Module& module, const Instruction& instruction,
                 const std::vector<std::string>& operand_names, BodySource* result,
                 DiagSink* diags) {
  return Builder(module, result, diags).Build(instruction, operand_names);
}

}  // namespace tpuc::kernel
