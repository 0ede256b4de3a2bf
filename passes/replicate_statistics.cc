// replicate-statistics (--replicate-statistics). A sum or maximum over lanes comes out of the XLU
// in every lane; kept as f32[rows] it is gathered into one row of lanes (15 cycles) and spread
// again by each reader (114 cycles and a pop, schedule-targets.md 3.1). Kept as f32[rows,128] it is
// stored and loaded as it is, for 128 times the bytes:
//
//   k1: ROOT s = f32[16] reduce(x)              k1: ROOT b = f32[16,128] broadcast(s)
//   k2: y = f32[16,64] broadcast(p)             k2: y = f32[16,64] slice(p)
//   k3: ROOT r = f32[16] sqrt(p)                k3: ROOT r = f32[16,128] sqrt(p)
//
// A square root that is only divided by becomes rsqrt, and the divisions products: every reader
// would take its reciprocal anyway.
//
// Taken are the f32 results of kernels that are only read by kernels, there only broadcast over a
// new last dimension of at most 128 or computed on element by element towards such a result, and
// that take at most kMostBytes then. Others stay.
#include "passes/replicate_statistics.h"

#include <algorithm>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "passes/fused_computation.h"
#include "passes/live_ranges.h"
#include "passes/tiling_rule.h"
#include "src/ir/op_table.h"

namespace tpuc {
namespace {

constexpr int64_t kLanes = 128;
constexpr int64_t kMostBytes = 256 * 1024;

using Leaf = std::pair<Instruction*, int64_t>;  // a fusion and the number of its result

Shape Replicated(const Shape& shape) {
  Dims dims = shape.dims;
  dims.push_back(kLanes);
  Shape out = Shape::Array(shape.type, dims);
  if (!shape.layout) return out;
  Order order = {shape.rank()};
  order.insert(order.end(), shape.layout->minor_to_major.begin(),
               shape.layout->minor_to_major.end());
  out.layout = TiledLayout(shape.type, dims, order);
  return out;
}

Ints Leading(int64_t n) {
  Ints dims;
  for (int64_t d = 0; d < n; ++d) dims.push_back(d);
  return dims;
}

bool IsScalarBroadcast(const Instruction& i) {
  return i.op == Op::kBroadcast && i.operands[0]->shape.IsScalar();
}

class Replicator {
 public:
  Replicator(Module* module, PassContext* context) : module_(module), context_(context) {}

  bool Run() {
    for (const auto& i : module_->entry->instructions) {
      for (Instruction* operand : i->operands) users_[operand].push_back(i.get());
    }
    for (const auto& i : module_->entry->instructions) {
      if (i->op == Op::kFusion) AddLeaves(i.get());
    }
    // What one refused result makes impossible for others: until nothing changes.
    while (!taken_.empty() && DropOne()) {
    }
    for (const Leaf& leaf : taken_) {
      context_->Remark(leaf.first->name, " result ", leaf.second, " kept over all lanes, ",
                       DeviceBytes(Replicated(ResultShape(leaf))), " bytes");
    }
    if (taken_.empty()) return false;
    for (const Leaf& leaf : taken_) InvertRoot(leaf);
    for (const auto& i : module_->entry->instructions) {
      if (i->op == Op::kFusion) RewriteBody(i.get());
    }
    for (const Leaf& leaf : taken_) {
      Shape& shape =
          leaf.first->shape.IsTuple() ? leaf.first->shape.elements[leaf.second] : leaf.first->shape;
      shape = Replicated(shape);
    }
    for (const auto& i : module_->entry->instructions) {
      if (i->op == Op::kGetTupleElement && SourceOf(i.get())) i->shape = Replicated(i->shape);
    }
    return true;
  }

 private:
  static const Shape& ResultShape(const Leaf& leaf) {
    const Shape& s = leaf.first->shape;
    return s.IsTuple() ? s.elements[leaf.second] : s;
  }
  static Computation* BodyOf(const Instruction* fusion) {
    return fusion->ComputationAttr(AttrId::kCalls);
  }
  // The value in the body that becomes the result.
  static Instruction* Inside(const Leaf& leaf) {
    Instruction* root = BodyOf(leaf.first)->root;
    return leaf.first->shape.IsTuple() ? root->operands[leaf.second] : root;
  }

  // The taken leaf that an entry value is, if it is one.
  const Leaf* SourceOf(Instruction* value) const {
    Leaf leaf = {value, 0};
    if (value->op == Op::kGetTupleElement)
      leaf = {value->operands[0], value->IntAttr(AttrId::kIndex)};
    auto it = taken_.find(leaf);
    return it == taken_.end() ? nullptr : &*it;
  }

  void AddLeaves(Instruction* fusion) {
    if (!BodyOf(fusion) || fusion == module_->entry->root) return;
    const bool tuple = fusion->shape.IsTuple();
    if (tuple && BodyOf(fusion)->root->op != Op::kTuple) return;
    const int64_t count = tuple ? static_cast<int64_t>(fusion->shape.elements.size()) : 1;
    for (int64_t n = 0; n < count; ++n) {
      const Leaf leaf = {fusion, n};
      const Shape& shape = ResultShape(leaf);
      if (!shape.IsArray() || shape.type != Type::kF32 || shape.rank() == 0) continue;
      if (DeviceBytes(Replicated(shape)) > kMostBytes) continue;
      std::vector<Instruction*> readers;
      if (!Readers(leaf, &readers) || readers.empty()) continue;
      taken_.insert(leaf);
    }
  }

  // The fusions that read the leaf; false if something else does.
  bool Readers(const Leaf& leaf, std::vector<Instruction*>* readers) {
    std::vector<Instruction*> values = {leaf.first};
    if (leaf.first->shape.IsTuple()) {
      values.clear();
      for (Instruction* user : users_[leaf.first]) {
        if (user->op != Op::kGetTupleElement) return false;
        if (user->IntAttr(AttrId::kIndex) == leaf.second) values.push_back(user);
      }
    }
    for (Instruction* value : values) {
      if (value == module_->entry->root) return false;
      for (Instruction* user : users_[value]) {
        if (user->op != Op::kFusion || !BodyOf(user)) return false;
        readers->push_back(user);
      }
    }
    return true;
  }

  // The values of a body that are replicated: its parameters that are, and what is computed on them
  // element by element.
  std::set<const Instruction*> Inner(const Instruction& fusion) const {
    std::set<const Instruction*> inner;
    for (const auto& i : BodyOf(&fusion)->instructions) {
      if (i->op == Op::kParameter) {
        if (SourceOf(fusion.operands[i->parameter_number])) inner.insert(i.get());
        continue;
      }
      if (InfoOf(i->op).op_class != OpClass::kElementwise || i->operands.empty()) continue;
      bool any = false, all = true;
      for (const Instruction* o : i->operands) {
        any = any || inner.count(o) > 0;
        all = all && (inner.count(o) > 0 || IsScalarBroadcast(*o) || o->shape.IsScalar());
      }
      if (any && all) inner.insert(i.get());
    }
    return inner;
  }

  // A leaf whose uses do not allow it; all of a body's parameters go with what they lead to.
  bool DropOne() {
    for (const auto& i : module_->entry->instructions) {
      if (i->op != Op::kFusion || !BodyOf(i.get())) continue;
      const std::set<const Instruction*> inner = Inner(*i);
      if (inner.empty() || Allowed(*i, inner)) continue;
      for (Instruction* operand : i->operands) {
        if (const Leaf* leaf = SourceOf(operand)) {
          taken_.erase(Leaf(*leaf));
        }
      }
      return true;
    }
    return false;
  }

  bool Allowed(const Instruction& fusion, const std::set<const Instruction*>& inner) const {
    const Computation& body = *BodyOf(&fusion);
    for (const auto& user : body.instructions) {
      for (size_t n = 0; n < user->operands.size(); ++n) {
        const Instruction* value = user->operands[n];
        if (inner.count(value) == 0 || inner.count(user.get()) > 0) continue;
        if (user->op == Op::kBroadcast && user->shape.rank() == value->shape.rank() + 1 &&
            user->shape.dims.back() <= kLanes &&
            user->IntsAttr(AttrId::kDimensions) == Leading(value->shape.rank())) {
          continue;
        }
        if (user.get() == body.root && user->op == Op::kTuple &&
            taken_.count({const_cast<Instruction*>(&fusion), static_cast<int64_t>(n)}) > 0) {
          continue;
        }
        return false;
      }
    }
    return inner.count(body.root) == 0 || taken_.count({const_cast<Instruction*>(&fusion), 0}) > 0;
  }

  static std::vector<Instruction*> UsersIn(const Computation& body, const Instruction* value) {
    std::vector<Instruction*> users;
    for (const auto& i : body.instructions) {
      if (std::count(i->operands.begin(), i->operands.end(), value) > 0) users.push_back(i.get());
    }
    return users;
  }

  // The divisions by what a reader's body has of the leaf; false if it is used otherwise.
  bool Divisions(const Leaf& leaf, const Instruction& reader,
                 std::vector<Instruction*>* out) const {
    const Computation& body = *BodyOf(&reader);
    for (const auto& p : body.instructions) {
      if (p->op != Op::kParameter) continue;
      const Leaf* source = SourceOf(reader.operands[p->parameter_number]);
      if (!source || *source != leaf) continue;
      for (const Instruction* spread : UsersIn(body, p.get())) {
        if (spread->op != Op::kBroadcast || spread == body.root) return false;
        for (Instruction* division : UsersIn(body, spread)) {
          if (division->op != Op::kDivide || division->operands[0] == spread) return false;
          out->push_back(division);
        }
      }
    }
    return true;
  }

  // x / sqrt(a) as x * rsqrt(a): the same for a of zero, infinity and below zero.
  void InvertRoot(const Leaf& leaf) {
    Instruction* value = Inside(leaf);
    const Computation& body = *BodyOf(leaf.first);
    const size_t uses = UsersIn(body, value).size();
    if (value->op != Op::kSqrt || uses != (leaf.first->shape.IsTuple() ? 1u : 0u)) return;
    std::vector<Instruction*> readers, divisions;
    if (!Readers(leaf, &readers)) return;
    for (const Instruction* reader : readers) {
      if (!Divisions(leaf, *reader, &divisions)) return;
    }
    value->op = Op::kRsqrt;
    for (Instruction* division : divisions) division->op = Op::kMultiply;
    context_->Remark(leaf.first->name, " result ", leaf.second, " is only divided by: inverted");
  }

  void RewriteBody(Instruction* fusion) {
    Computation* body = BodyOf(fusion);
    if (!body) return;
    const std::set<const Instruction*> inner = Inner(*fusion);
    std::vector<Instruction*> all;
    for (const auto& i : body->instructions) all.push_back(i.get());
    absl::flat_hash_map<const Instruction*, Instruction*> wide;  // scalars over the new shape
    for (Instruction* i : all) {
      const bool reads = std::any_of(i->operands.begin(), i->operands.end(),
                                     [&](const Instruction* o) { return inner.count(o) > 0; });
      if (inner.count(i) == 0) {
        if (reads && i->op == Op::kBroadcast) MakeSlice(i);
        continue;
      }
      i->shape = Replicated(i->shape);
      for (Instruction*& operand : i->operands) {
        if (inner.count(operand) > 0 || operand->shape.IsScalar()) continue;
        Instruction*& to = wide[operand];
        if (!to) {
          Shape shape = Replicated(operand->shape);
          to = body->AddBefore(i, operand->name, Op::kBroadcast, shape, {operand->operands[0]});
          to->Set(AttrId::kDimensions, Ints{});
        }
        operand = to;
      }
    }
    WidenResults(fusion, body, inner);
    body->RemoveDead();
  }

  // y = f32[16,64] broadcast(p) with p now f32[16,128].
  static void MakeSlice(Instruction* broadcast) {
    std::vector<SliceDim> dims;
    for (int64_t size : broadcast->shape.dims) dims.push_back({0, size, 1});
    broadcast->op = Op::kSlice;
    broadcast->attrs.clear();
    broadcast->Set(AttrId::kSlice, dims);
  }

  // Results that are made as rows are spread once, where they are made.
  void WidenResults(Instruction* fusion, Computation* body,
                    const std::set<const Instruction*>& inner) {
    for (const Leaf& leaf : taken_) {
      if (leaf.first != fusion) continue;
      Instruction* value = Inside(leaf);
      if (inner.count(value) > 0) {
        if (fusion->shape.IsTuple()) body->root->shape.elements[leaf.second] = value->shape;
        continue;
      }
      const Shape shape = Replicated(value->shape);
      Instruction* spread = body->Add(value->name, Op::kBroadcast, shape, {value});
      spread->Set(AttrId::kDimensions, Leading(value->shape.rank()));
      if (fusion->shape.IsTuple()) {
        body->root->operands[leaf.second] = spread;
        body->root->shape.elements[leaf.second] = shape;
      } else {
        body->root = spread;
      }
    }
    SortTopologically(body);
  }

  Module* module_;
  PassContext* context_;
  absl::flat_hash_map<const Instruction*, std::vector<Instruction*>> users_;
  struct ByName {
    bool operator()(const Leaf& a, const Leaf& b) const {
      return a.first->name != b.first->name ? a.first->name < b.first->name : a.second < b.second;
    }
  };
  std::set<Leaf, ByName> taken_;
};

}  // namespace

bool ReplicateStatistics::Run(Module* module, PassContext* context) {
  return context->replicate_statistics && Replicator(module, context).Run();
}

}  // namespace tpuc
