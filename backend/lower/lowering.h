// The state of one kernel's lowering and the evaluator at its heart: Get(node, layout, coordinates)
// emits the instructions of one register of a block value, once per scope, and returns it.
//
//   Get(add, {0,1}, (3, 0)) -> Get(x, {0,1}, (3, 0)) = vld [x + 24]; Get(y, ..); vadd.f32
//
// Coordinates may count with a loop, so the same code serves unrolled blocks and loop bodies. Which
// nodes are kept in VMEM temporaries, and which loops run, is decided in strips.cc.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "backend/lower/builder.h"
#include "backend/lower/dot.h"
#include "backend/lower/layout.h"
#include "backend/lower/lower.h"
#include "backend/lower/move_plan.h"
#include "backend/lower/nests.h"
#include "src/num/convert.h"

namespace tpuc::lower {

using kernel::Node;
using kernel::NodeId;

// An array in VMEM: where, and how.
struct MemView {
  MemForm form;
  Operand base;             // scalar row, or immediate 0
  int64_t offset = 0;       // rows added to it
  int buffer = -1;          // for MemRef
  bool local = false;       // the base was computed where it is used: not to be hoisted
  bool one_row = false;     // single rows of tiles that others share
  bool rows_apart = false;  // written row by row: what lies beyond the last may never be
};

struct RefState {
  MemView view;           // of the block in VMEM
  bool windowed = false;  // moved by DMA
  int operand = -1;       // number of the virtual scalar that holds its address; -1: scratch
  int buffers = 1;
  int flag = -1;           // first sync flag
  int64_t block_rows = 0;  // VMEM rows of one buffer
  int64_t granules = 0;    // of one whole block
  bool waiting = false;    // one-step: a DMA was started and not waited for yet
  bool edge = false;       // some block is cut at the array's end
  MemForm array;           // the whole array
  int storage = -1;        // refs of the same storage have the same number
  int64_t word = -1;       // in SMEM: first word
  int64_t visited = -1;    // output, visits checked in the run: first word of the blocks' marks
  int visited_buffer = -1;
  uint64_t alike = 0;  // bit d: what it holds is the same all along dimension d
};

struct NodeInfo {
  VLayout natural;
  bool flexible = false;   // cheap in any layout: constants, iota, broadcasts of such
  bool scalar = false;     // computed on the scalar core
  bool to_scalar = false;  // computed on vectors, wanted on the scalar core
  bool mat = false;        // has a VMEM temporary (view) once its nest has run
  bool ready = false;      // .. and it has run
  bool stable = false;     // depends on nothing that the kernel writes
  MemView view;
  int source = -1;  // source row
  int uses = 0;
  uint64_t alike = 0;  // bit d: the value is the same all along dimension d
};

// In SMEM: words from one index of each dimension to the next.
Dims WordStrides(const kernel::Ref& ref);

// Sublanes from .. to - 1 of a load or store.
inline uint8_t SublaneMask(int64_t from, int64_t to) {
  return static_cast<uint8_t>(((1 << to) - 1) & ~((1 << from) - 1));
}

// The format of a float type of less than 32 bits that is made of integer operations; null:
// another.
const num::FloatFormat* NarrowFormat(Type type);

// The last step of a change of register layout: from the layout `from`, which is there or is made
// first in the same way.
struct Hop {
  enum class Kind : uint8_t {
    kAs,           // `from` serves: it differs in dimensions of size 1 only
    kReplicate,    // the one valid sublane, lane (`sub`, `lane`) to all
    kRowsToLanes,  // {d, -1} -> {-1, d}
    kLanesToRows,  // {-1, d} -> {d, -1}
    kLaneToAll,    // {c, d} -> {c, -1}: the lane of an index of d to all
    kTranspose,    // {a, b} -> {b, a}
    kMemory,       // the same lanes, other sublanes: a strided load of `from` in memory
  };
  Kind kind = Kind::kMemory;
  VLayout from;
  bool sub = false, lane = false;
};

// One dimension of a copy: `count` steps, in rows on each side; `now` of them where it is cut.
struct Level {
  int64_t count = 1, from = 0, to = 0;
  bool cut = false;
  Operand now;
};

struct LoopVar {
  Reg counter;
  Reg second;  // the same number, for what a pipelined trip computes late (SecondCounter)
};

class Lowering {
 public:
  Lowering(const kernel::Kernel& kernel, const Chip& chip, const LowerOptions& options,
           llo::Function* function, std::vector<isa::SourceEntry>* sources, DiagSink* diags);
  bool Run();
  void DescribeSource();
  void DescribeDots();
  bool Known();  // every operation has a lowering, every constant its value

  // ---- lowering.cc: the evaluator ----
  const Node& node(NodeId id) const { return k.nodes[id]; }
  const Dims& dims(NodeId id) const { return k.nodes[id].shape.dims; }
  Type type(NodeId id) const { return k.nodes[id].shape.type; }
  Operand Get(NodeId id, VLayout want, const Coords& at);
  Operand EvalHlo(NodeId id, VLayout layout, const Coords& at);
  Operand EvalConstant(NodeId id);
  // A pred value as a mask register / as 0 or 1 in a vector register.
  Operand ToMask(Operand v);
  Operand ToVector(Operand v);
  Operand MaskOf(int64_t sub_from, int64_t sub_to, int64_t lane_from, int64_t lane_to);
  // 128 * sublane + lane, sublane and lane numbers; kept per scope.
  Reg Kept(int key_id, const std::function<Reg()>& make);
  Reg LaneSeq();
  Reg LaneIds();
  Reg SublaneIds();
  Reg PartShifts();
  // A scalar node's value on the scalar core (integers) / its predicate (pred).
  Operand Scalar(NodeId id);
  Operand EvalScalar(const Node& n, NodeId id);
  Operand EvalConstantScalar(const Node& n) const;
  bool NonNegative(NodeId id, int levels = 12) const;
  static constexpr int kDeepest = 1500;  // nested evaluations: the host's stack
  bool TooDeep(NodeId id);
  Reg Predicate(NodeId id);
  // coordinate as a scalar: counter * scale + c
  Operand CoordScalar(const Coord& at);
  // A counter of a loop around of its own, so that the first need not be held until late.
  Reg SecondCounter(int loop);
  int CountedAlong(NodeId id) const;
  void Fail(NodeId id, std::string what);
  bool failed() const { return failed_; }

  // ---- scopes ----
  struct Key {
    int what;  // node id, or a negative helper kind
    VLayout layout;
    Coords at;
    bool operator==(const Key& o) const {
      return what == o.what && layout == o.layout && at == o.at;
    }
    template <typename H>
    friend H AbslHashValue(H h, const Key& x) {
      return H::combine(std::move(h), x.what, x.layout, x.at);
    }
  };
  struct Scope {
    absl::flat_hash_map<Key, Operand> memo;
    int preheader = -1;  // block of the scope around it to which loop-invariant code goes
    int loop = -1;       // loop variable of this scope; -1: a conditional region, -2: a nest
    int budget = 16;     // registers that may still be hoisted out of it
  };
  void PushScope(int loop);
  void PopScope() {
    scopes.pop_back();
    --depth;
  }
  bool InLoop() const;
  void Remember(const Key& key, Operand v) { scopes[depth].memo[key] = v; }
  const Operand* Recall(const Key& key) const;
  // Runs `emit` in the outermost scope in which all the coordinates' loops are known.
  Operand Invariant(const Coords& at, bool allowed, const std::function<Operand()>& emit);
  int DepthOf(const Coords& at) const;

  // ---- layout inference: inference.cc ----
  void InferLayouts();
  void InferNode(NodeId id);
  void InferAlikeRefs();
  uint64_t AlikeAlong(NodeId id) const;
  // A reshape that only adds or drops dimensions of size 1: result dim -> operand dim (-1: new).
  bool DegenerateReshape(const Node& n, std::vector<int>* operand_dim) const;

  // ---- emit_memory.cc ----
  // [base + offset + sum of coordinate * stride] as a MemRef.
  isa::MemRef Address(const MemView& view, int64_t row,
                      absl::Span<const std::pair<Coord, int64_t>> terms);
  using Terms = std::vector<std::pair<Coord, int64_t>>;
  // One register of the array seen through `view`, shifted by `starts` (elements; one a dimension).
  struct Start {
    Operand scalar;  // scalar part, elements; immediate 0 where none
    int64_t c = 0;
  };
  Operand LoadTile(const MemView& view, absl::Span<const Start> starts, const Dims& dims,
                   VLayout layout, const Coords& at, NodeId id);
  Operand LoadFlat(const MemView& view, absl::Span<const Start> starts, const Dims& dims,
                   VLayout layout, const Coords& at, NodeId id);
  Operand LoadRow(MemView view, absl::Span<const Start> starts, const Dims& dims, VLayout layout,
                  const Coords& at, Terms terms, NodeId id);
  Operand LoadGroup(const MemView& view, absl::Span<const Start> starts, const Dims& dims,
                    const Coords& at, Terms terms, NodeId id);
  void StoreTile(const MemView& view, absl::Span<const Start> starts, const Dims& dims,
                 VLayout layout, const Coords& at, Operand value, NodeId id,
                 const Operand* mask = nullptr);
  void StoreWhere(NodeId store);
  Operand EvalLoad(NodeId id, VLayout layout, const Coords& at);
  std::vector<Start> StartsOf(const Node& n);
  MemView Shift(const MemView& view, absl::Span<const Start> starts);
  Operand LoadRows(const MemForm& form, isa::MemRef mem);
  Operand Unpack(const MemForm& form, Operand v);
  Operand UnpackRow(const MemForm& form, Operand v, int part);
  Operand UnpackOne(const MemForm& form, Operand v, int part);
  Operand UnpackAt(const MemForm& form, Operand v, Operand part);
  bool SingleLane(const Node& n) const;
  bool AnyLane(const Node& n) const;
  Operand LoadLanesFrom(NodeId id, std::vector<Start> starts, VLayout layout, const Coords& at);
  Operand TakeLane(Start* start);
  Operand PartMask(const MemForm& form, Operand part);
  Operand Equals(Operand v, Operand scalar);
  Operand Pack(const MemForm& form, Operand v);
  VLayout NaturalOfLoad(const Node& n) const;
  // The layout in which a store wants its operand.
  VLayout LayoutOfStore(const Node& n) const;
  void EmitStoreTile(NodeId store, const Coords& at);
  MemView NewTemporary(absl::string_view name, const MemForm& form);

  // ---- emit_narrow.cc ----
  Operand RoundMantissa(Operand x, int drop);
  Operand RoundNarrow(const num::FloatFormat& format, Operand v);
  Operand ReducePrecision(Operand v, int64_t exponent_bits, int64_t mantissa_bits);
  Operand DecodeNarrow(const num::FloatFormat& format, Operand bits);
  Operand EncodeNarrow(const num::FloatFormat& format, Operand v);

  // ---- emit_elementwise.cc, emit_math.cc ----
  Operand EvalElementwise(NodeId id, VLayout layout, const Coords& at);
  Operand EvalIota(NodeId id, VLayout layout, const Coords& at);
  Operand EvalConvert(Operand v, Type from, Type to, NodeId id);
  Operand RoundTo(Type type, Operand v);
  Operand Unary(const Node& n, Operand a, NodeId id);
  Operand Binary(Op op, Type type, Operand a, Operand b, NodeId id);
  Operand Compare(const Node& n, Operand a, Operand b, NodeId id);
  Operand Vsel(Operand mask, Operand a, Operand b);
  Operand V(Opcode op, Operand a, Operand b) { return b_.Op(op, {a, b}); }
  Operand V(Opcode op, Operand a) { return b_.Op(op, {a}); }
  Operand Add(Operand a, Operand b) { return V(Opcode::kVaddF32, a, b); }
  Operand Sub(Operand a, Operand b) { return V(Opcode::kVsubF32, a, b); }
  Operand Mul(Operand a, Operand b) { return V(Opcode::kVmulF32, a, b); }
  Operand Exp(Operand x);
  Operand Log(Operand x);
  Operand Expm1(Operand x);
  Operand Log1p(Operand x);
  Operand Sqrt(Operand x);
  Operand Divide(Operand a, Operand b);
  Operand Power(Operand a, Operand b);
  std::pair<Operand, Operand> QuarterTurns(Operand x);
  Operand SinCos(Operand x, int which);
  Operand Erfc(Operand x, bool complement);
  Operand Atan2(Operand y, Operand x);
  Operand Math(Op op, Operand a, NodeId id);
  Operand Poly(Operand x, std::initializer_list<double> coefficients);
  Operand Abs(Operand x);
  Operand CopySign(Operand magnitude, Operand sign);
  Operand Less(Operand a, Operand b);
  Operand Equal(Operand a, Operand b);
  Operand IsNan(Operand a);
  Operand PowerInt(Type t, Operand a, Operand b);
  Operand Remainder(Operand a, Operand b);
  // Quotient and remainder of 32-bit unsigned values.
  std::pair<Operand, Operand> DivRemU32(Operand a, Operand b);
  Operand DivRemInt(Op op, Type type, Operand a, Operand b);
  Operand Identity(Op reducer, Type type);

  // ---- emit_reduce.cc ----
  Operand EvalReduce(NodeId id, VLayout layout, const Coords& at);
  // The layout a reduction reads its operand in.
  VLayout OperandLayout(NodeId id) const;
  // One operand register, its parts beyond the array replaced by the identity / what remains to do
  // once all registers are combined.
  Operand ReducePart(NodeId id, const Coords& operand_at);
  Operand FinishReduce(NodeId id, Operand acc);
  Operand ReduceLanes(Op reducer, Type t, Operand v, NodeId id);
  // The reducer over the sublanes and / or lanes of one register; replicated afterwards.
  Operand ReduceInside(Op reducer, Type type, Operand v, bool sub, bool lane, NodeId id);
  Operand Combine(Op reducer, Type type, Operand a, Operand b, NodeId id);
  // Parts beyond the logical size of the tile's sublane / lane dimension become `fill`.
  Operand MaskTile(Operand v, const Dims& dims, VLayout layout, const Coords& at, bool sub,
                   bool lane, Operand fill);

  // ---- relayout.cc, emit_move.cc ----
  Operand Relayout(NodeId id, VLayout want, const Coords& at);
  Hop LastHop(NodeId id, VLayout want) const;
  bool ReadableAs(NodeId id, VLayout want) const;
  bool InMemory(NodeId id, VLayout layout, VLayout want, MemView* view, std::vector<Start>* starts);
  Operand Replicate(Operand v, bool sub, bool lane);
  const MemView* StoredAs(NodeId id, VLayout layout);
  bool CopyDone(NodeId id, VLayout layout) const;
  Operand FromLanes(NodeId id, VLayout from, const Coords& at, bool rows);
  Operand SubToLane(NodeId id, VLayout have, const Coords& at, int d);
  Operand TransposeTile(NodeId id, VLayout have, VLayout want, const Coords& at);
  Operand EvalBroadcast(NodeId id, VLayout layout, const Coords& at);
  Operand EvalReshape(NodeId id, VLayout layout, const Coords& at);
  Operand EvalTranspose(NodeId id, VLayout layout, const Coords& at);
  Operand EvalSlice(NodeId id, VLayout layout, const Coords& at);
  Operand EvalConcatOrPad(NodeId id, VLayout layout, const Coords& at);
  bool PlacePart(NodeId x, VLayout layout, const Coords& at, const Dims& offset, const Dims& size,
                 Operand* value, Operand* mask, bool* all);
  Operand EvalReverse(NodeId id, VLayout layout, const Coords& at);
  Operand EvalMoved(NodeId id, VLayout layout, const Coords& at);
  // The register whose element (s, l) is element (s + sub_shift, l + lane_shift) of the operand,
  // counted from register `at` (elements outside it have no meaning).
  Operand Shifted(NodeId id, VLayout layout, const Coords& at, int64_t sub_shift,
                  int64_t lane_shift);
  Operand RotateLanes(Operand v, int64_t n);
  void MoveRows(NodeId id);
  bool ReshapeInPlace(NodeId id);
  int SourceIndex(NodeId id, absl::Span<const int64_t> at, std::vector<int64_t>* from);
  int64_t MovedRuns(NodeId id) const;
  VLayout RowsLayout(NodeId id) const;
  const MemView* RowsOf(NodeId id, VLayout layout);
  bool WholeLoad(NodeId id) const;
  MovePlan PlanMove(NodeId id, const MemForm& to, absl::Span<const MemForm> from);
  struct MoveState;
  void EmitUnit(const MoveUnit& unit, NodeId id, MoveState* state);
  static void Widen(MoveState* s, Repeat* r);
  void EmitUnits(NodeId id, int64_t begin, int64_t end, MoveState* state);

  // ---- emit_dot.cc ----
  NodeId Unrounded(NodeId id) const;
  bool PlanDot(NodeId id, DotPlan* plan);
  VLayout DotLayout(NodeId id);
  bool ReachesDot(NodeId id) const;
  Operand Weight(const DotPlan& p, const DotAt& at, Coord kk, Coord nn);
  Operand Row(const DotPlan& p, const DotAt& at, Coord m, Coord kk);
  void Push(const DotPlan& p, const DotAt& at, Coord k0, Coord n0, int64_t k_left, int64_t n_left,
            bool diagonal, int unit);
  void PushGroup(const DotPlan& p, const DotAt& at, Coord k0, Coord n0, int64_t k_left,
                 int64_t n_left, bool diagonal, int unit, int half, Coord group);
  Reg Multiply(Operand low, int64_t low_lanes, Operand high, bool has_high, int64_t high_lanes,
               bool latch, int unit);
  Operand EvalDot(NodeId id, VLayout layout, const Coords& at);
  void EmitSmallDot(NodeId id, const DotPlan& p, const DotAt& at);

  // ---- strips.cc, nests.cc ----
  static constexpr int64_t kWholeWork = 400;  // registers computed by a region kept in one block
  void LowerRegion(const kernel::Region& region);
  void LowerWhole(const kernel::Region& region);
  void LowerNests(const kernel::Region& region);
  void EmitStoreWhole(NodeId store);
  void ForceLoads(const kernel::Region& region, NodeId id);
  void Fix(NodeId id);
  void FixUsed(const kernel::Region& region);
  void LowerWhen(NodeId id);
  void LowerFor(NodeId id);
  // ---- control.cc: control that depends on run-time values, scalars in SMEM ----
  // A node whose place in the order of the body matters, besides stores to VMEM.
  bool IsOrdered(NodeId id) const;
  void LowerOrdered(const kernel::Region& region, NodeId id);
  void LowerDynamicFor(NodeId id, Operand lower, Operand upper);
  void LowerWhile(NodeId id);
  std::vector<Operand> SmemIndex(const Node& n);
  Operand LoadScalarWord(const Node& n);
  void StoreScalar(NodeId id);
  Operand ScalarOfVector(NodeId id);
  void FindScalarUses();
  void BindLoopIndex(const kernel::Region& region, int outward, Operand index, bool negative);
  // Stores a value to a temporary and reads it from there from now on.
  void Materialize(NodeId id);
  std::vector<NodeId> OuterValues(NodeId control);
  std::vector<Request> Requests(NodeId id, VLayout layout);
  bool NeedsMemory(NodeId id) const;
  bool StridedInTile(NodeId id) const;
  void Expand(NodeId id, VLayout want, std::vector<NestItem>* items);
  void ChooseKept(const kernel::Region& region);
  std::vector<int64_t> RowSpace(const NestItem& item);
  NodeId ValueOf(const NestItem& item);
  void EmitItemRow(const NestItem& item, const Coords& row);
  void EmitItemTile(const NestItem& item, const Coords& at);
  void Reserve(const NestItem& item);
  bool SameRow(NodeId id, VLayout layout, const std::vector<char>& members);
  bool SameRowFrom(NodeId id, VLayout layout, const std::vector<char>& members,
                   std::set<std::tuple<NodeId, int, int>>* seen);
  bool ReachesMember(NodeId id, const std::vector<char>& members);
  bool Conflicts(const NestItem& a, const NestItem& b);
  bool RowWise(const NestItem& item);
  bool InlineReduce(NodeId id);
  bool HasLaterLoad(const kernel::Region& region, NodeId store, const std::vector<NestItem>& items);
  bool MayJoin(const NestItem& item, const std::vector<NestItem>& nest);
  bool FlowNest(const std::vector<NestItem>& nest);
  bool MayPrecede(const std::vector<NestItem>& items, size_t from, size_t item);
  NodeId KeptInstead(NodeId id);
  bool UsersWithin(NodeId value, const std::vector<NestItem>& nest,
                   const std::vector<NestItem>& items);
  bool StoreInPlace(const NestItem& value, std::vector<NestItem>* items);
  bool AddInPlace(const NestItem& value, std::vector<NestItem>* items);
  void EmitNest(const std::vector<NestItem>& nest, const std::vector<NestItem>& items);
  int64_t RowUnroll(const std::vector<NestItem>& nest);
  void EmitReduceNest(NodeId id);
  void EmitMoveNest(NodeId id);
  bool StorePieces(NodeId id);
  void ClearLastRows(NodeId id);
  // ---- nest_dot.cc ----
  bool DotDrives(const NestItem& item);
  bool Streams(const NestItem& item);  // the product's results are used as they are popped
  bool CheckPrecision(NodeId dot);
  void RowBlocks(int64_t groups, int64_t step, int64_t body,
                 const std::function<void(Coord first, int64_t count, bool latch)>& rows);
  void DriveRows(NodeId dot, const DotPlan& p, const DotAt& at,
                 const std::function<void(const Coords& row)>& emit);
  std::vector<std::function<void()>> PushesOf(const DotPlan& p, const DotAt& at,
                                              const DotPass& pass, const DotColumns& columns);
  void PassRows(NodeId dot, const DotPlan& p, const DotAt& at, const DotPass& pass,
                const DotColumns& columns, bool first, const DotPass* next);
  void PassesOverK(NodeId dot, const DotPlan& p, const DotAt& at, const DotColumns& columns);
  void MultiPassDot(NodeId dot, const DotPlan& p, const DotAt& at);
  void EmitDotNest(const std::vector<NestItem>& nest);
  // ---- nest_flow.cc ----
  bool PlanFlow(NodeId dot, DotFlow* flow);
  bool LaneReduce(NodeId id);
  NodeId FlowsInto(NodeId x, absl::Span<const NodeId> roots);
  bool ReachesPast(NodeId from, NodeId target, const std::vector<char>& reduced);
  bool FlowsOverK(NodeId dot);
  bool Batched(const DotFlow& flow);
  FlowPhase PhaseOf(const NestItem& item, const DotFlow& flow, const std::vector<NestItem>& nest);
  Coords AtRow(const Dims& dims, VLayout layout, const Coords& row);
  void ReduceTiles(const NestItem& item, const Coords& row, int64_t from, int64_t to, bool first,
                   bool last);
  int64_t StripsInBody(const DotFlow& flow);
  FlowWeights WeightsOf(const DotFlow& flow, int64_t pass, int unit);
  void PushPass(const DotFlow& flow, const DotAt& at, int64_t pass, Coord trip, int64_t trips);
  bool EvenPushes(const DotFlow& flow, int64_t pass, int64_t trips);
  void ForgetCheap(const std::vector<char>& carried);
  void FlowStrips(const DotFlow& flow, const DotAt& at, int64_t pass, Coord first, int64_t count,
                  bool latch);
  bool FlowColumns(NodeId dot, const DotPlan& p, const DotAt& at);
  void EmitFlow(const DotFlow& flow, const DotAt& at);
  void EmitFlowNest(const std::vector<NestItem>& nest);
  int64_t Work(const kernel::Region& region) const;
  // Whether `found` holds for `id` or anything it depends on that is not in memory yet.
  bool AnyBelow(NodeId id, const std::function<bool(NodeId)>& found) const;
  bool DependsOnLoadOf(NodeId id, int storage) const;

  // ---- loops.cc ----
  int NewBlock(std::string label, int64_t trips, bool in_grid);
  // Calls body with each coordinate vector of the tile grid: unrolled, or in loops with an unrolled
  // innermost part.
  struct Space {
    std::vector<int64_t> extents;
    std::vector<int64_t> steps;  // body covers this many tiles of the dimension
    std::vector<char> peel;      // the last body is not like the others
    int64_t unroll = 4;          // bodies in a loop
    int64_t flat_limit = 8;      // bodies that are emitted without a loop
    // Bodies of the smaller dimensions that go into one loop's body; 0: the order is to be kept.
    int64_t inner = 0;
  };
  struct TileWalk {
    const Space& space;
    std::vector<size_t> order;  // dimensions, the outermost first
    size_t loops_end;           // those from here on have no loops
    Coords at;
    const std::function<void(const Coords&)>& body;
  };
  Space SpaceOf(const Dims& dims, VLayout layout) const;
  void ForTiles(const Space& space, const std::function<void(const Coords&)>& body);
  static std::vector<size_t> LoopOrder(const Space& space, size_t* loops_end);
  void ForTilesFrom(size_t depth, TileWalk* walk);
  // A counted loop around `body`; the loop variable counts 0, step, .. below trips * step.
  // `latch`: llo::Loop::latch.
  void EmitLoop(int64_t trips, int64_t step, const std::function<void(int loop)>& body,
                bool latch = false);

  // ---- steer.cc: prefetched scalars, grids and index maps that they decide ----
  void LoadPrefetched();
  Operand LoadScalar(int ref, absl::Span<const Operand> index);
  isa::MemRef SmemWord(int ref, absl::Span<const Operand> index);
  std::vector<Operand> Extents(absl::Span<const kernel::GridAxis> grid);
  Reg IndexCondition(const kernel::Expr& e, absl::Span<const Operand> axes);
  void CheckIndex(int ref, absl::Span<const Operand> index);
  static bool RunTimeGrid(absl::Span<const kernel::GridAxis> grid);
  bool RunTimeIndex(int ref) const;
  int SourceRowOf(std::string what, int line);

  // ---- pipeline.cc ----
  bool SetUpRefs();
  bool PlaceRef(const kernel::Ref& ref, RefState* state);
  bool Allocate(absl::string_view name, int64_t rows, int* buffer, int64_t* offset);
  void EmitOneStep();
  void EmitGrid();
  // ---- grid_loop.cc
  // A loop over the points of a grid with its windows: the kernel's, or a nested pipeline's.
  struct GridLoop {
    absl::Span<const kernel::GridAxis> grid;
    int first = 0;             // number of its first axis
    std::vector<int> windows;  // refs that it moves
    const kernel::Region* body = nullptr;
    bool nested = false;
    int64_t steps = 1;  // the most
  };
  struct Moving;
  struct GridState;
  void EmitGridLoop(const GridLoop& g);
  void SetUpWindows(const GridLoop& g, GridState* s);
  void FirstWindows(const GridLoop& g, GridState* s);
  void MoveIn(const GridLoop& g, GridState* s);
  void MoveOut(const GridLoop& g, GridState* s);
  void Drain(const GridState& s);
  void ClearVisits(int ref);
  bool TakesAlias(int ref) const;
  void FetchAlias(int ref, Operand vmem, Operand flag);
  void CheckVisit(int ref, absl::Span<const Operand> index, Reg leaves);
  std::vector<Operand> PointIn(const GridLoop& g, int64_t step, std::vector<Reg>* regs);
  void StepTo(const GridLoop& g, absl::Span<const Reg> regs, absl::Span<const Operand> point);
  bool Moves(const GridLoop& g, int ref) const;
  void ClearWindow(int ref);
  void FirstCopies(const GridLoop& g, int ref, int ahead, Operand all_steps, Reg* filled);
  std::vector<Operand> NextAxes(const GridLoop& g, absl::Span<const Operand> now);
  Reg IndexChanges(const GridLoop& g, int ref, absl::Span<const Operand> now,
                   absl::Span<const Operand> next);
  void LowerPipeline(NodeId id);
  Operand EmitTransfers(Opcode op, Operand from, Operand to, absl::Span<const Level> levels,
                        int64_t run, Operand flag, absl::string_view name, int buffer = -1);
  // ---- copies.cc: explicit copies ----
  struct CopySide {
    Operand address;  // HBM granule, VMEM row or SMEM word
    int buffer = -1;  // in VMEM
  };
  CopySide SideOf(const kernel::RefView& view);
  bool CopyLevels(NodeId id, std::vector<Level>* levels, int64_t* run);
  Operand SemaphoreFlag(const kernel::RefView& view);
  Operand SmemPartner(NodeId id, int side, Operand address);
  int64_t WordRows(NodeId id, const std::function<void(int64_t, int64_t, int64_t)>& emit);
  void LowerCopy(NodeId id);
  int64_t CopyGranules(NodeId id);
  // The start of a slice, checked where nothing shows that it is inside and a promised multiple.
  Operand CheckedStart(const kernel::Slice& slice, int64_t dim);
  void StartCopy(int ref, bool in, absl::Span<const Operand> index, Operand vmem, Operand flag);
  Operand IndexValue(const kernel::Expr& e, absl::Span<const Operand> axes);
  std::vector<Operand> BlockIndex(int ref, absl::Span<const Operand> axes);
  void WaitFor(int ref);
  void WaitForAll();
  void SetViewBase(int ref, absl::Span<const Operand> axes);

  const kernel::Kernel& k;
  const Chip& chip;
  const LowerOptions& options;
  llo::Function* f;
  std::vector<isa::SourceEntry>* sources;
  DiagSink* diags;
  Builder b_;

  std::vector<RefState> refs;
  std::vector<NodeInfo> info;
  std::vector<LoopVar> loops;
  std::vector<Scope> scopes;
  int late_iota_ = -1;  // iota counts by this loop's second counter
  int late_loop_ = -1;  // .. while its coordinate is computed
  int depth = 0;        // index of the scope that code is emitted for
  // Grid indices in this step and sizes in this run: of the grid and of the pipelines around.
  std::vector<Operand> axes, extents;
  std::vector<Operand> pipeline_operands_;           // of the pipeline around
  std::vector<Operand> loop_index;                   // of the enclosing kFor nodes, by node id
  std::vector<NodeId> around_;                       // the kFor nodes around, outermost first
  std::vector<char> loop_negative;                   // .. may be below 0
  bool whole = true;                                 // small region: everything in one block
  size_t region_base_ = 1;                           // scopes around the region being lowered
  std::set<std::tuple<NodeId, int, int>> expanded_;  // nests: what Expand has seen
  int nesting_ = 0;                                  // of Get and Scalar
  std::vector<char> keep_;                           // nests: nodes that get a temporary
  std::vector<int> cost_;          // nests: of making a value again, in operations
  std::vector<NodeId> companion_;  // nests: of a reduction: the product in whose nest it runs
  std::vector<char> flows_;        // nests: products of several passes in nest_flow.cc
  NodeId adds_to_place_ = -1;      // nests: a product that is added to what its place holds
  struct Temporary {
    int buffer;
    int64_t offset, rows;
  };
  std::vector<Temporary> temporaries_, free_temporaries_;  // in use; left by regions before
  std::map<NodeId, MemView> partial_;                      // nests: what passes add up
  std::map<std::tuple<NodeId, int, int>, MemView> stored;  // copies for relayouts, by layout
  std::set<std::tuple<NodeId, int, int>> copies_done;      // .. that have been written
  int64_t next_row = 0;
  int64_t next_word = 0;
  int next_flag = 0;
  bool failed_ = false;
  absl::flat_hash_map<std::string, int> source_rows;
};

}  // namespace tpuc::lower
