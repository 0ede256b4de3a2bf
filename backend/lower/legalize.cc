// See legalize.h.
#include "backend/lower/legalize.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backend/kernel/scalar.h"
#include "backend/kernel/scalar_facts.h"
#include "backend/kernel/windows.h"
#include "src/ir/tiling.h"

namespace tpuc::lower {
namespace {

using kernel::Node;
using kernel::NodeId;
using kernel::Ref;
using kernel::Region;
using kernel::Slice;

constexpr int64_t kLanes = 128, kRows = 8;

// What lies in the 32-bit words of scratch.
Type WordType(Type type) {
  if (BitsOf(type) == 32) return type;
  if (IsFloat(type)) return Type::kF32;
  return ClassOf(type) == TypeClass::kUnsigned ? Type::kU32 : Type::kS32;
}

class Legalizer {
 public:
  explicit Legalizer(kernel::Kernel* k) : k_(*k), refs_before_(static_cast<int>(k->refs.size())) {}

  void Walk(Region* region) {
    const std::vector<NodeId> old = std::move(region->nodes);
    region->nodes.clear();
    around_.push_back(region);
    for (NodeId id : old) {
      like_ = id;
      const bool loop = k_.nodes[id].kind == Node::Kind::kFor;
      if (loop) loops_.push_back(id);
      // Regions of a node may not grow the node vector while it is referred to; what is known of
      // counters is found by the regions as they were.
      for (size_t r = 0; r < k_.nodes[id].regions.size(); ++r) {
        Region inner = k_.nodes[id].regions[r];
        Walk(&inner);
        k_.nodes[id].regions[r] = std::move(inner);
      }
      if (loop) loops_.pop_back();
      like_ = id;
      switch (k_.nodes[id].kind) {
        case Node::Kind::kStore:
          AlignStore(id);
          break;
        case Node::Kind::kLoad:
          AlignLoad(id);
          break;
        case Node::Kind::kHlo:
          if (k_.nodes[id].op == Op::kDynamicSlice) DynamicSlice(id);
          if (k_.nodes[id].op == Op::kDynamicUpdateSlice) UpdateSlice(id);
          if (k_.nodes[id].op == Op::kGather) Gather(id);
          break;
        default:
          break;
      }
      region->nodes.push_back(id);
    }
    around_.pop_back();
  }

 private:
  // ---- nodes
  NodeId Add(Node n) {
    const Node& like = k_.nodes[like_];
    n.hlo = like.hlo;
    n.op_name = like.op_name;
    n.place = like.place;
    n.loc = like.loc;
    const NodeId id = static_cast<NodeId>(k_.nodes.size());
    k_.nodes.push_back(std::move(n));
    around_.back()->nodes.push_back(id);
    return id;
  }
  NodeId Hlo(Op op, Type type, Dims dims, std::vector<NodeId> operands,
             std::vector<Attr> attrs = {}) {
    Node n;
    n.op = op;
    n.shape = Shape::Array(type, std::move(dims));
    n.operands = std::move(operands);
    n.attrs = std::move(attrs);
    return Add(std::move(n));
  }
  NodeId Constant(Type type, int64_t value) {
    Node n;
    n.op = Op::kConstant;
    n.shape = Shape::Array(type, {});
    n.literal = std::make_shared<Literal>(kernel::ScalarOf(type, value));
    return Add(std::move(n));
  }
  NodeId Integer(int64_t value) { return Constant(Type::kS32, value); }
  NodeId Load(int ref, std::vector<Slice> slices) {
    Node n;
    n.kind = Node::Kind::kLoad;
    n.ref = ref;
    n.shape = Shape::Array(k_.refs[ref].shape.type, {});
    for (const Slice& s : slices) n.shape.dims.push_back(s.size);
    n.slices = std::move(slices);
    return Add(std::move(n));
  }
  NodeId Store(int ref, std::vector<Slice> slices, NodeId value) {
    Node n;
    n.kind = Node::Kind::kStore;
    n.ref = ref;
    n.shape = Shape::Tuple({});
    n.slices = std::move(slices);
    n.operands = {value};
    return Add(std::move(n));
  }
  void StoreAligned(int ref, std::vector<Slice> slices, NodeId value) {
    const NodeId id = Store(ref, std::move(slices), value);
    around_.back()->nodes.pop_back();
    AlignStore(id);
    around_.back()->nodes.push_back(id);
  }
  std::vector<Slice> Whole(const Dims& dims) const {
    std::vector<Slice> slices(dims.size());
    for (size_t d = 0; d < dims.size(); ++d) slices[d].size = dims[d];
    return slices;
  }
  static Slice At(NodeId start, int64_t size) {
    Slice s;
    s.start_node = start;
    s.size = size;
    return s;
  }
  NodeId As(NodeId value, Type type) {
    const Shape s = k_.nodes[value].shape;
    return s.type == type ? value : Hlo(Op::kConvert, type, s.dims, {value});
  }
  void Become(NodeId id, Op op, std::vector<NodeId> operands, std::vector<Attr> attrs) {
    Node& n = k_.nodes[id];
    n.kind = Node::Kind::kHlo;
    n.op = op;
    n.ref = -1;
    n.slices.clear();
    n.operands = std::move(operands);
    n.attrs = std::move(attrs);
  }

  // ---- memory
  int Scratch(absl::string_view name, Type type, const Dims& dims) {
    Ref ref;
    ref.name = absl::StrCat(name, ".", k_.refs.size());
    ref.role = Ref::Role::kScratch;
    ref.shape = Shape::Array(WordType(type), dims);
    ref.shape.layout = kernel::DeviceLayout(ref.shape.type, ref.shape.rank(), 1);
    ref.block.assign(dims.begin(), dims.end());
    ref.index.assign(dims.size(), kernel::Expr::Const(0));
    k_.refs.push_back(std::move(ref));
    return static_cast<int>(k_.refs.size()) - 1;
  }
  // The value in scratch, stored there right where it is computed.
  int Kept(NodeId value) {
    const auto known = kept_.find(value);
    if (known != kept_.end()) return known->second;
    const Shape shape = k_.nodes[value].shape;
    const int ref = Scratch("value", shape.type, shape.dims);
    kept_[value] = ref;
    for (Region* region : around_) {
      const auto at = std::find(region->nodes.begin(), region->nodes.end(), value);
      if (at == region->nodes.end()) continue;
      std::vector<NodeId> rest(at + 1, region->nodes.end());
      region->nodes.erase(at + 1, region->nodes.end());
      around_.push_back(region);
      Store(ref, Whole(shape.dims), As(value, k_.refs[ref].shape.type));
      around_.pop_back();
      region->nodes.insert(region->nodes.end(), rest.begin(), rest.end());
      break;
    }
    return ref;
  }
  // A load that could as well stand here: nothing has been written since. Whole along `dim`.
  bool Fresh(NodeId value, int64_t dim) const {
    const Node& n = k_.nodes[value];
    if (n.kind != Node::Kind::kLoad || n.shape.dims.size() != n.slices.size()) return false;
    const Shape block = k_.refs[n.ref].BlockShape();
    const Slice& s = n.slices[dim];
    if (k_.refs[n.ref].InSmem() || s.start_node >= 0 || s.start != 0 || s.size != block.dims[dim]) {
      return false;
    }
    const std::vector<NodeId>& nodes = around_.back()->nodes;
    const auto at = std::find(nodes.begin(), nodes.end(), value);
    return at != nodes.end() && std::all_of(at, nodes.end(), [&](NodeId o) {
             const Node& other = k_.nodes[o];
             const bool own = other.kind == Node::Kind::kStore && other.ref >= refs_before_;
             return own || other.kind == Node::Kind::kHlo || other.kind == Node::Kind::kLoad ||
                    other.kind == Node::Kind::kAxis || other.kind == Node::Kind::kNumAxis ||
                    other.kind == Node::Kind::kLoopIndex;
           });
  }
  struct Source {
    int ref = -1;
    std::vector<Slice> slices;
  };
  // Where the value can be read again, in part along `dim`.
  Source SourceOf(NodeId value, int64_t dim) {
    if (Fresh(value, dim)) return {k_.nodes[value].ref, k_.nodes[value].slices};
    const int ref = Kept(value);
    return {ref, Whole(k_.nodes[value].shape.dims)};
  }

  // ---- alignment
  struct Tiles {
    int lane = -1, sub = -1;  // of the block's dimensions
    bool flat = false, known = false;
    int64_t packing = 1;
  };
  Tiles TilesOf(const Ref& ref) const {
    Tiles t;
    const int rank = ref.shape.rank();
    t.packing = PackedElements(ref.shape.type);
    t.flat = rank == 1;
    t.known = rank > 0 && ref.space == Ref::Space::kWindow;
    std::vector<int> seen(rank, -1);
    int next = 0;
    for (int d = 0; d < rank; ++d) {
      const bool dropped = d < static_cast<int>(ref.squeezed.size()) && ref.squeezed[d];
      if (!dropped) seen[d] = next++;
    }
    const Layout layout = ref.shape.layout ? *ref.shape.layout : DefaultLayout(rank);
    if (t.known) t.lane = seen[layout.minor_to_major[0]];
    if (t.known && rank > 1) t.sub = seen[layout.minor_to_major[1]];
    return t;
  }
  bool StaticStart(const Slice& s, int64_t* start) const {
    *start = s.start;
    if (s.start_node < 0) return true;
    const kernel::ScalarFacts f = kernel::FactsOf(k_, s.start_node, loops_);
    *start = f.least;
    return f.bounded && f.least == f.most;
  }

  // Elements that a store has to cover below and above its slice.
  void Cover(const Node& n, std::vector<int64_t>* low, std::vector<int64_t>* high) {
    const Ref& ref = k_.refs[n.ref];
    const Tiles t = TilesOf(ref);
    const Shape block = ref.BlockShape();
    low->assign(n.slices.size(), 0);
    *high = *low;
    for (int d = 0; t.known && d < static_cast<int>(n.slices.size()); ++d) {
      const Slice& s = n.slices[d];
      int64_t start = 0;
      if (!StaticStart(s, &start) || s.size == 0) continue;
      if (t.flat) {
        const int64_t unit = kLanes * t.packing, end = start + s.size;
        const bool ends = end == block.dims[d] || end % unit == 0;
        const bool rows = s.size > 2 * kLanes && end % kLanes != 0 && end < block.dims[d];
        if (start % (t.packing > 1 ? unit : kLanes) == 0 && (t.packing > 1 ? ends : !rows))
          continue;
        (*low)[d] = start % unit;
        if (!ends) (*high)[d] = std::min(block.dims[d], (end + unit - 1) / unit * unit) - end;
      } else if (d == t.lane) {
        (*low)[d] = start % kLanes;
      } else if (d == t.sub && t.packing > 1 && s.size > 1) {
        (*low)[d] = start % kRows;
      }
    }
  }
  static bool Any(const std::vector<int64_t>& x) {
    return std::any_of(x.begin(), x.end(), [](int64_t i) { return i != 0; });
  }
  NodeId Padded(NodeId value, Type type, const Dims& dims, const std::vector<PadDim>& padding) {
    const NodeId zero = Constant(type, 0);
    return Hlo(Op::kPad, type, dims, {value, zero}, {{AttrId::kPadding, padding}});
  }
  void AlignStore(NodeId id) {
    std::vector<int64_t> low, high;
    Cover(k_.nodes[id], &low, &high);
    if (!Any(low) && !Any(high)) return;
    const NodeId value = k_.nodes[id].operands[0];
    const NodeId mask = k_.nodes[id].operands.size() > 1 ? k_.nodes[id].operands[1] : -1;
    const Shape from = k_.nodes[value].shape;
    Dims dims = from.dims;
    std::vector<PadDim> padding;
    for (size_t d = 0; d < dims.size(); ++d) {
      padding.push_back({low[d], high[d], 0});
      dims[d] += low[d] + high[d];
    }
    const NodeId wide = Padded(value, from.type, dims, padding);
    NodeId where = mask < 0 ? -1 : Padded(mask, Type::kPred, dims, padding);
    const auto also = [&](NodeId m) {
      where = where < 0 ? m : Hlo(Op::kAnd, Type::kPred, dims, {where, m});
    };
    for (size_t d = 0; d < dims.size() && mask < 0; ++d) {
      if (low[d] == 0 && high[d] == 0) continue;
      const NodeId at =
          Hlo(Op::kIota, Type::kS32, dims, {}, {{AttrId::kIotaDimension, static_cast<int64_t>(d)}});
      if (low[d] > 0) also(Compare(at, "GE", low[d], dims));
      if (high[d] > 0) also(Compare(at, "LT", low[d] + from.dims[d], dims));
    }
    Node& n = k_.nodes[id];
    n.operands = {wide, where};
    for (size_t d = 0; d < dims.size(); ++d) {
      int64_t start = 0;
      if (low[d] == 0 && high[d] == 0) continue;
      StaticStart(n.slices[d], &start);
      n.slices[d] = Slice();
      n.slices[d].start = start - low[d];
      n.slices[d].size = dims[d];
    }
  }
  NodeId Compare(NodeId at, const char* direction, int64_t with, const Dims& dims) {
    const NodeId limit =
        Hlo(Op::kBroadcast, Type::kS32, dims, {Integer(with)}, {{AttrId::kDimensions, Ints{}}});
    return Hlo(Op::kCompare, Type::kPred, dims, {at, limit},
               {{AttrId::kDirection, std::string(direction)}});
  }

  // Packed words that begin before the slice: loaded whole, and sliced.
  void AlignLoad(NodeId id) {
    const Node& n = k_.nodes[id];
    const Tiles t = TilesOf(k_.refs[n.ref]);
    if (!t.known || t.packing == 1 || n.shape.dims.size() != n.slices.size()) return;
    std::vector<Slice> slices = n.slices;
    std::vector<SliceDim> parts;
    bool any = false;
    for (int d = 0; d < static_cast<int>(slices.size()); ++d) {
      Slice& s = slices[d];
      const int64_t unit = t.flat ? kLanes * t.packing : d == t.sub && s.size > 1 ? kRows : 1;
      int64_t start = 0;
      const int64_t low = StaticStart(s, &start) ? start % unit : 0;
      parts.push_back({low, low + s.size, 1});
      if (low == 0) continue;
      any = true;
      const int64_t size = s.size + low;
      s = Slice();
      s.start = start - low;
      s.size = size;
    }
    if (!any) return;
    const NodeId wide = Load(n.ref, std::move(slices));
    Become(id, Op::kSlice, {wide}, {{AttrId::kSlice, std::move(parts)}});
  }

  // ---- rows found at run time
  NodeId Element(const Source& from, NodeId at) {
    std::vector<Slice> slices = {At(at, 1)};
    const NodeId one = Load(from.ref, std::move(slices));
    const NodeId word = As(one, Type::kS32);
    return Hlo(Op::kReshape, Type::kS32, {}, {word});
  }
  // scratch[i] = source[start(i)] along `dim` for `count` i.
  int GatherRows(const Source& from, const Dims& dims, int64_t dim, Type type,
                 const std::function<NodeId(NodeId)>& start) {
    const int into = Scratch("rows", type, dims);
    Rows(dims[dim], [&](NodeId i) {
      std::vector<Slice> slices = from.slices;
      slices[dim] = At(start(i), 1);
      const NodeId row = As(Load(from.ref, std::move(slices)), k_.refs[into].shape.type);
      slices = Whole(dims);
      slices[dim] = At(i, 1);
      Store(into, std::move(slices), row);
    });
    return into;
  }
  // for i in 0..count { body(i) }
  void Rows(int64_t count, const std::function<void(NodeId)>& body) {
    constexpr int64_t kCopies = 8;
    Node loop;
    loop.kind = Node::Kind::kFor;
    loop.shape = Shape::Tuple({});
    loop.upper = count;
    loop.unroll = std::min(kCopies, count);
    Region inner;
    around_.push_back(&inner);
    Node index;
    index.kind = Node::Kind::kLoopIndex;
    index.axis = 0;
    index.shape = Shape::Array(Type::kS32, {});
    body(Add(std::move(index)));
    around_.pop_back();
    loop.regions.push_back(std::move(inner));
    Add(std::move(loop));
  }
  // The node becomes what scratch holds.
  void BecomeHeld(NodeId id, int ref) {
    const Dims dims = k_.nodes[id].shape.dims;
    const NodeId held = Load(ref, Whole(dims));
    const bool same = k_.refs[ref].shape.type == k_.nodes[id].shape.type;
    Become(id, same ? Op::kCopy : Op::kConvert, {held}, {});
  }

  // take(x, index, axis): rows along one dimension other than the last.
  void Gather(NodeId id) {
    const Node& n = k_.nodes[id];
    const Ints& axis = n.IntsAttr(AttrId::kStartIndexMap);
    const Shape x = k_.nodes[n.operands[0]].shape, index = k_.nodes[n.operands[1]].shape;
    if (axis.size() != 1 || index.rank() != 1 || axis[0] + 1 >= x.rank() ||
        n.shape.rank() != x.rank() || index.type != Type::kS32 || index.dims[0] == 0 ||
        n.shape.ElementCount() == 0) {
      return;
    }
    const Dims dims = n.shape.dims;
    const Type type = n.shape.type;
    const int64_t dim = axis[0];
    const NodeId value = n.operands[0], rows = n.operands[1];
    const Source numbers = SourceOf(rows, 0);
    const Source from = SourceOf(value, dim);
    BecomeHeld(id,
               GatherRows(from, dims, dim, type, [&](NodeId i) { return Element(numbers, i); }));
  }

  // HLO moves a start that lies outside to the nearest inside.
  NodeId Clamped(NodeId start, int64_t most) {
    const kernel::ScalarFacts f = kernel::FactsOf(k_, start, loops_);
    if (f.bounded && f.least >= 0 && f.most <= most) return start;
    const NodeId zero = Integer(0), last = Integer(most);
    const NodeId low = Hlo(Op::kMaximum, Type::kS32, {}, {As(start, Type::kS32), zero});
    return Hlo(Op::kMinimum, Type::kS32, {}, {low, last});
  }
  // The part of dimension d of a value that begins at `start`, moved inside. `*within`: it may
  // begin within a tile.
  Slice PartAt(const Shape& x, int d, NodeId start, int64_t size, bool* within) {
    Slice s = At(Clamped(start, x.dims[d] - size), size);
    const kernel::ScalarFacts f = kernel::FactsOf(k_, s.start_node, loops_);
    if (f.bounded && f.least == f.most) {
      s.start = f.least;
      s.start_node = -1;
    }
    const int64_t unit = d == x.rank() - 1 ? kLanes : d == x.rank() - 2 ? kRows : 1;
    *within = s.start_node >= 0 && size > 1 && f.divisor != 0 && f.divisor % unit != 0;
    return s;
  }
  void DynamicSlice(NodeId id) {
    const std::vector<NodeId> operands = k_.nodes[id].operands;
    const Dims dims = k_.nodes[id].shape.dims;
    const Shape x = k_.nodes[operands[0]].shape;
    const int rank = x.rank();
    if (k_.nodes[id].shape.ElementCount() == 0 || rank == 0) return;
    // One dimension whose start may lie within a tile is walked through row by row.
    int along = -1;
    std::vector<Slice> slices;
    for (int d = 0; d < rank; ++d) {
      bool within = false;
      slices.push_back(PartAt(x, d, operands[d + 1], dims[d], &within));
      if (within && d < rank - 1) along = d;  // lanes are rotated
    }
    const Node& whole = k_.nodes[operands[0]];
    bool direct = along < 0 && BitsOf(x.type) == 32;  // no copy of it is needed
    for (int d = 0; d < rank && direct; ++d) direct = Fresh(operands[0], d);
    const int ref = direct ? whole.ref : Kept(operands[0]);
    if (along < 0) {
      const NodeId part = Load(ref, slices);
      const bool same = k_.refs[ref].shape.type == x.type;
      Become(id, same ? Op::kCopy : Op::kConvert, {part}, {});
      return;
    }
    const NodeId first = slices[along].start_node;
    BecomeHeld(id, GatherRows({ref, slices}, dims, along, x.type, [&](NodeId i) {
                 return Hlo(Op::kAdd, Type::kS32, {}, {first, i});
               }));
  }

  // A copy of the value with the update stored in it; lanes at multiples of 128, or one, or where
  // that is known.
  void UpdateSlice(NodeId id) {
    const std::vector<NodeId> operands = k_.nodes[id].operands;
    const Shape x = k_.nodes[operands[0]].shape, update = k_.nodes[operands[1]].shape;
    const int rank = x.rank();
    if (update.ElementCount() == 0 || rank == 0) return;
    int along = -1;
    std::vector<Slice> slices;
    for (int d = 0; d < rank; ++d) {
      bool within = false;
      slices.push_back(PartAt(x, d, operands[d + 2], update.dims[d], &within));
      if (within && d == rank - 1) return;
      if (within) along = d;
    }
    const int ref = Scratch("updated", x.type, x.dims);
    const Type type = k_.refs[ref].shape.type;
    Store(ref, Whole(x.dims), As(operands[0], type));
    if (along < 0) {
      StoreAligned(ref, std::move(slices), As(operands[1], type));
    } else {
      const int from = Kept(operands[1]);
      Rows(update.dims[along], [&](NodeId i) {
        std::vector<Slice> row = Whole(update.dims);
        row[along] = At(i, 1);
        const NodeId value = Load(from, std::move(row));
        std::vector<Slice> place = slices;
        place[along] = At(Hlo(Op::kAdd, Type::kS32, {}, {slices[along].start_node, i}), 1);
        StoreAligned(ref, std::move(place), value);
      });
    }
    BecomeHeld(id, ref);
  }

  kernel::Kernel& k_;
  int refs_before_;
  std::vector<Region*> around_;  // regions around, the innermost last
  std::vector<NodeId> loops_;
  std::map<NodeId, int> kept_;  // scratch by value
  NodeId like_ = -1;
};

}  // namespace

void LegalizeAccesses(kernel::Kernel* kernel) {
  Legalizer legalizer(kernel);
  for (Region* region : {&kernel->setup, &kernel->body}) {
    Region body = std::move(*region);
    legalizer.Walk(&body);
    *region = std::move(body);
  }
}

}  // namespace tpuc::lower
