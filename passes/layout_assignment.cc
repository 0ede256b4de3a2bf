// layout. Entry parameters take the order of smaller padded size (unless the entry layout names
// tiles for them), and so do results wherever their producer can write either. Values joined by
// operations that work dimension by dimension (element-wise, slice, concatenate ...) form a group
// that shares one order, chosen by the bytes of the parameters and results in it; where an
// operation needs another order than its operand has, a copy is inserted. Transposes and reshapes
// that move no byte become bitcasts.
//
//   w2 = f32[64,32]{1,0} parameter(2)     becomes     w2 = f32[64,32]{0,1:T(8,128)} parameter(2)
//
// Values stay what they were: layouts say where elements lie, not which.
#include "passes/layout_assignment.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_join.h"
#include "passes/simplify/rewriter.h"
#include "passes/tiling_rule.h"
#include "src/ir/op_table.h"

namespace tpuc {
namespace {

bool Tiled(const Shape& s) { return s.layout && !s.layout->tiles.empty(); }
bool HasOrder(const Shape& s) { return s.IsArray() && s.rank() >= 2; }

// Calls f on every array in the shape.
template <typename F>
void EachArray(Shape* shape, const F& f) {
  if (shape->IsTuple()) {
    for (Shape& element : shape->elements) EachArray(&element, f);
  } else if (shape->IsArray()) {
    f(shape);
  }
}

// Keeps the memory space and everything else that a layout may already say.
void SetTiles(Shape* s, const Order& order) {
  Layout layout = TiledLayout(s->type, s->dims, order);
  if (s->layout) layout.memory_space = s->layout->memory_space;
  s->layout = layout;
}

Order OrderOf(const Shape& s) { return s.layout ? s.layout->minor_to_major : RowMajor(s.rank()); }

// Arrays of called computations: row major, with tiles.
bool TileInside(Computation* computation) {
  bool changed = false;
  for (const auto& i : computation->instructions) {
    EachArray(&i->shape, [&](Shape* s) {
      if (Tiled(*s)) return;
      SetTiles(s, OrderOf(*s));
      changed = true;
    });
  }
  return changed;
}

class Assigner {
 public:
  Assigner(Module* module, PassContext* context)
      : module_(module), entry_(module->entry), context_(context) {}
  void Run();

 private:
  struct Group {
    Instruction* parent = nullptr;  // union-find
    std::map<Order, double> votes;  // bytes
    std::optional<Order> order;
  };

  Instruction* Root(Instruction* i) {
    Group& g = groups_[i];
    if (!g.parent) g.parent = i;
    while (groups_[i].parent != i) i = groups_[i].parent = groups_[groups_[i].parent].parent;
    return i;
  }
  void Join(Instruction* a, Instruction* b) { groups_[Root(b)].parent = Root(a); }
  void Vote(Instruction* i, const Order& order, int64_t bytes) {
    groups_[Root(i)].votes[order] += static_cast<double>(bytes);
  }
  Order Chosen(Instruction* i);

  void FixParameters();
  void JoinGroups();
  void CollectVotes();
  void AssignAll();
  void InsertCopies();
  void FixResults();
  void MakeBitcasts();
  // The layout that the module's entry layout names for result n, tiles and all; null: ours.
  const Layout* ResultLayout(size_t n) const;
  std::optional<Order> NeededBy(const Instruction& i, const Instruction& operand);
  std::vector<Instruction*> Results() const;

  Module* module_;
  Computation* entry_;
  PassContext* context_;
  std::unordered_map<Instruction*, Group> groups_;  // references into it stay good
  absl::flat_hash_set<const Instruction*> fixed_;   // parameters, and layouts that name tiles
};

// Works dimension by dimension: operands of equal rank and the result lie in one order.
bool KeepsOrder(const Instruction& i) {
  if (!HasOrder(i.shape)) return false;
  switch (i.op) {
    case Op::kSlice:
    case Op::kConcatenate:
    case Op::kPad:
    case Op::kReverse:
    case Op::kCopy:
      return true;
    default:
      return InfoOf(i.op).op_class == OpClass::kElementwise && !i.operands.empty();
  }
}

// Order of the result of a reduce whose operand lies in `order`.
Order WithoutReduced(const Order& order, const Ints& reduced) {
  Order out;
  for (int64_t d : order) {
    if (std::find(reduced.begin(), reduced.end(), d) != reduced.end()) continue;
    out.push_back(d -
                  std::count_if(reduced.begin(), reduced.end(), [&](int64_t r) { return r < d; }));
  }
  return out;
}

// Order of a broadcast's operand that leaves its elements in the order of the result.
Order OperandOfBroadcast(const Order& order, const Ints& dims) {
  Order out;
  for (int64_t d : order) {
    auto it = std::find(dims.begin(), dims.end(), d);
    if (it != dims.end()) out.push_back(it - dims.begin());
  }
  return out;
}

// Order of a transpose's result that moves no byte.
Order Permuted(const Order& order, const Ints& permutation) {
  Order out;
  for (int64_t d : order) {
    out.push_back(std::find(permutation.begin(), permutation.end(), d) - permutation.begin());
  }
  return out;
}

std::vector<Instruction*> Assigner::Results() const {
  Instruction* root = entry_->root;
  if (root->op != Op::kTuple) return {root};
  return std::vector<Instruction*>(root->operands.begin(), root->operands.end());
}

const Layout* Assigner::ResultLayout(size_t n) const {
  if (!module_->entry_layout) return nullptr;
  const Shape* shape = &module_->entry_layout->result;
  if (entry_->root->op == Op::kTuple) {
    if (!shape->IsTuple() || n >= shape->elements.size()) return nullptr;
    shape = &shape->elements[n];
  }
  return shape->IsArray() && Tiled(*shape) ? &*shape->layout : nullptr;
}

void Assigner::FixParameters() {
  for (Instruction* p : entry_->Parameters()) {
    if (!HasOrder(p->shape)) continue;
    fixed_.insert(p);
    const auto* layout = module_->entry_layout.get();
    int64_t n = p->parameter_number;
    if (layout && n < static_cast<int64_t>(layout->parameters.size()) &&
        Tiled(layout->parameters[n])) {
      p->shape.layout = layout->parameters[n].layout;
    }
    if (Tiled(p->shape)) {
      groups_[Root(p)].order = OrderOf(p->shape);
    } else {
      groups_[Root(p)].order = SmallerOrder(p->shape.type, p->shape.dims);
      context_->Remark("parameter ", p->name, " ", ToString(p->shape, false), " {",
                       absl::StrJoin(*groups_[Root(p)].order, ","), "}: smaller padded size");
    }
  }
}

void Assigner::JoinGroups() {
  for (const auto& i : entry_->instructions) {
    if (HasOrder(i->shape) && !fixed_.contains(i.get()) && Tiled(i->shape)) {
      fixed_.insert(i.get());
      groups_[Root(i.get())].order = OrderOf(i->shape);
    }
  }
  for (const auto& i : entry_->instructions) {
    if (!KeepsOrder(*i) || fixed_.contains(i.get())) continue;
    for (Instruction* operand : i->operands) {
      if (operand->shape.rank() == i->shape.rank() && !fixed_.contains(operand)) {
        Join(i.get(), operand);
      }
    }
  }
}

void Assigner::CollectVotes() {
  for (const auto& instruction : entry_->instructions) {
    Instruction* i = instruction.get();
    if (!HasOrder(i->shape) || fixed_.contains(i)) continue;
    if (KeepsOrder(*i)) {
      for (Instruction* operand : i->operands) {
        if (fixed_.contains(operand) && operand->shape.rank() == i->shape.rank()) {
          Vote(i, *groups_[Root(operand)].order, DeviceBytes(operand->shape));
        }
      }
    } else if (i->op == Op::kTranspose && fixed_.contains(i->operands[0])) {
      Vote(i, Permuted(*groups_[Root(i->operands[0])].order, i->IntsAttr(AttrId::kDimensions)),
           i->shape.LiteralBytes());
    }
  }
  const std::vector<Instruction*> results = Results();
  for (size_t n = 0; n < results.size(); ++n) {
    Instruction* result = results[n];
    if (!HasOrder(result->shape) || fixed_.contains(result)) continue;
    const Layout* asked = ResultLayout(n);
    Vote(result,
         asked ? asked->minor_to_major : SmallerOrder(result->shape.type, result->shape.dims),
         result->shape.LiteralBytes());
  }
}

Order Assigner::Chosen(Instruction* i) {
  Group& g = groups_[Root(i)];
  if (g.order) return *g.order;
  Order best = RowMajor(i->shape.rank());
  double most = 0;
  for (const auto& [order, bytes] : g.votes) {
    if (bytes > most || (bytes == most && order == RowMajor(i->shape.rank()))) {
      best = order;
      most = bytes;
    }
  }
  g.order = best;
  return best;
}

// In topological order, so that a reduce can follow its operand.
void Assigner::AssignAll() {
  for (const auto& instruction : entry_->instructions) {
    Instruction* i = instruction.get();
    if (i->op == Op::kFusion) {
      i->shape = i->ComputationAttr(AttrId::kCalls)->root->shape;
      continue;
    }
    // The source lies as it did, and so does what it is copied to.
    if (i->op == Op::kCopyStart && i->operands[0]->shape.IsArray() && i->shape.IsTuple() &&
        i->shape.elements.size() >= 2) {
      for (size_t n = 0; n < 2; ++n) {
        Shape& element = i->shape.elements[n];
        const int64_t space = element.layout ? element.layout->memory_space : 0;
        element.layout = i->operands[0]->shape.layout;
        if (element.layout) element.layout->memory_space = space;
      }
    }
    if (i->op == Op::kCopyDone && i->operands[0]->shape.IsTuple()) {
      i->shape = i->operands[0]->shape.elements[0];
      continue;
    }
    if (!i->shape.IsArray()) {
      // Tuples of unknown operations: row major. tuple and get-tuple-element follow below.
      EachArray(&i->shape, [&](Shape* s) {
        if (!Tiled(*s)) SetTiles(s, OrderOf(*s));
      });
    } else if (!HasOrder(i->shape)) {
      if (!Tiled(i->shape)) SetTiles(&i->shape, RowMajor(i->shape.rank()));
      continue;
    }
    const Instruction* operand = i->operands.empty() ? nullptr : i->operands[0];
    if (i->op == Op::kTuple || i->op == Op::kOptBarrier) {
      if (i->op == Op::kOptBarrier) {
        i->shape = operand->shape;
      } else {
        for (size_t n = 0; n < i->operands.size(); ++n) {
          i->shape.elements[n] = i->operands[n]->shape;
        }
      }
      continue;
    }
    if (!i->shape.IsArray()) continue;
    if (i->op == Op::kGetTupleElement) {
      i->shape = operand->shape.elements[i->IntAttr(AttrId::kIndex)];
      continue;
    }
    if (fixed_.contains(i) && Tiled(i->shape)) continue;
    Group& g = groups_[Root(i)];
    switch (InfoOf(i->op).op_class) {
      case OpClass::kReduce:
        if (i->op == Op::kReduce && i->operands.size() == 2) {
          g.order = WithoutReduced(OrderOf(operand->shape), i->IntsAttr(AttrId::kDimensions));
        }
        break;
      case OpClass::kContract:
        if (i->shape.rank() > 2 && !fixed_.contains(i)) g.order = RowMajor(i->shape.rank());
        break;
      default:
        break;
    }
    if (i->op == Op::kReshape) g.order = RowMajor(i->shape.rank());
    SetTiles(&i->shape, Chosen(i));
  }
}

// The order in which `i` must find `operand`; nullopt where any will do.
std::optional<Order> Assigner::NeededBy(const Instruction& i, const Instruction& operand) {
  if (!HasOrder(operand.shape)) return std::nullopt;
  switch (i.op) {
    case Op::kTuple:
      if (&i != entry_->root) break;  // for a loop, whose body finds its state row major
      return std::nullopt;
    case Op::kTranspose:
    case Op::kBitcast:
    case Op::kCopy:
    case Op::kOptBarrier:
    case Op::kCopyStart:
      return std::nullopt;
    case Op::kReduce:
      if (i.operands.size() == 2) return std::nullopt;
      break;
    case Op::kDot:
      if (operand.shape.rank() == 2) return std::nullopt;
      break;
    case Op::kBroadcast:
      if (HasOrder(i.shape)) {
        return OperandOfBroadcast(OrderOf(i.shape), i.IntsAttr(AttrId::kDimensions));
      }
      break;
    case Op::kFusion: {
      size_t n = std::find(i.operands.begin(), i.operands.end(), &operand) - i.operands.begin();
      return OrderOf(i.ComputationAttr(AttrId::kCalls)->Parameters()[n]->shape);
    }
    default:
      if (KeepsOrder(i) && operand.shape.rank() == i.shape.rank()) return OrderOf(i.shape);
      break;
  }
  return RowMajor(operand.shape.rank());
}

void Assigner::InsertCopies() {
  std::vector<Instruction*> list;
  for (const auto& i : entry_->instructions) list.push_back(i.get());
  std::map<std::pair<std::string, Order>, Instruction*> copies;  // one an operand and order
  for (Instruction* i : list) {
    for (Instruction*& operand : i->operands) {
      std::optional<Order> needed = NeededBy(*i, *operand);
      if (!needed || *needed == OrderOf(operand->shape)) continue;
      Instruction*& copy = copies[{operand->name, *needed}];
      if (!copy) {
        Shape shape = operand->shape;
        SetTiles(&shape, *needed);
        copy = entry_->AddBefore(i, "copy", Op::kCopy, shape, {operand});
        if (operand->metadata) copy->metadata = std::make_unique<Metadata>(*operand->metadata);
        context_->Remark("copy of ", operand->name, " to {", absl::StrJoin(*needed, ","), "} for ",
                         i->name, ": ", DeviceBytes(shape), " bytes");
      }
      operand = copy;
    }
  }
}

// Results whose layout the module names, where their producer writes another.
void Assigner::FixResults() {
  Instruction* root = entry_->root;
  const std::vector<Instruction*> results = Results();
  for (size_t n = 0; n < results.size(); ++n) {
    const Layout* asked = ResultLayout(n);
    Instruction* result = results[n];
    if (!asked || !result->shape.layout || *asked == *result->shape.layout) continue;
    Shape shape = result->shape;
    shape.layout = *asked;
    const bool tuple = root->op == Op::kTuple;
    Instruction* copy = tuple ? entry_->AddBefore(root, "copy", Op::kCopy, shape, {result})
                              : entry_->Add("copy", Op::kCopy, shape, {result});
    if (result->metadata) copy->metadata = std::make_unique<Metadata>(*result->metadata);
    context_->Remark("copy of ", result->name, " to ", ToString(shape), ": result ", n,
                     " of the module's entry layout, ", DeviceBytes(shape), " bytes");
    if (tuple) {
      root->operands[n] = copy;
      root->shape.elements[n] = shape;
    } else {
      entry_->root = copy;
    }
  }
}

void Assigner::MakeBitcasts() {
  for (const auto& i : entry_->instructions) {
    const Shape* from = i->operands.empty() ? nullptr : &i->operands[0]->shape;
    bool free = false;
    if (i->op == Op::kTranspose) {
      free = TransposeIsBitcast(*from, i->shape, i->IntsAttr(AttrId::kDimensions));
    } else if (i->op == Op::kReshape) {
      free = ReshapeIsBitcast(*from, i->shape);
    }
    if (!free) continue;
    context_->Remark(OpName(i->op), " ", i->name, " moves no byte: bitcast");
    // Transposed logical dimensions are still said by the shapes' layouts: the bytes stay.
    i->op = Op::kBitcast;
    i->attrs.erase(std::remove_if(i->attrs.begin(), i->attrs.end(),
                                  [](const Attr& a) { return !IsCommonAttr(a.id); }),
                   i->attrs.end());
  }
}

void Assigner::Run() {
  FixParameters();
  JoinGroups();
  CollectVotes();
  AssignAll();
  InsertCopies();
  FixResults();
  MakeBitcasts();
}

bool FullyTiled(const Module& module) {
  for (const auto& i : module.entry->instructions) {
    bool tiled = true;
    EachArray(&i->shape, [&](Shape* s) { tiled &= Tiled(*s); });
    if (!tiled) return false;
  }
  return true;
}

}  // namespace

bool LayoutAssignment::Run(Module* module, PassContext* context) {
  bool changed = false;
  for (const auto& computation : module->computations) {
    if (computation.get() != module->entry) changed |= TileInside(computation.get());
  }
  if (!FullyTiled(*module)) {
    // What the program calls a bitcast need not be one in the layouts chosen here.
    simplify::ApplyRules(module->entry, simplify::BitcastRules(), context->remarks);
    Assigner(module, context).Run();
    changed = true;
  }
  if (!changed) return false;
  auto layout = std::make_unique<Module::ProgramShape>();
  for (const Instruction* p : module->entry->Parameters()) layout->parameters.push_back(p->shape);
  layout->result = module->entry->root->shape;
  module->entry_layout = std::move(layout);
  return true;
}

}  // namespace tpuc
