#include "tests/modules/generator.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "src/ir/op_table.h"
#include "tests/modules/makers.h"

namespace tpuc::random_modules {
namespace {

struct Row {
  Op op;
  Maker make;  // null: never made, for the reason beside it
};

const std::vector<Row>& Rows() {
  static const auto* rows = new std::vector<Row>{
      {Op::kStochasticConvert, StochasticConvert},
      {Op::kCompare, Compare},
      {Op::kSelect, Select},
      {Op::kClamp, Clamp},
      {Op::kConvert, Convert},
      {Op::kBitcastConvert, BitcastConvert},
      {Op::kReducePrecision, ReducePrecision},
      {Op::kMap, Map},
      {Op::kParameter, Source},
      {Op::kConstant, Source},
      {Op::kIota, Source},
      {Op::kBitcast, Bitcast},
      {Op::kCopy, Copy},
      {Op::kBroadcast, Broadcast},
      {Op::kReshape, Reshape},
      {Op::kDynamicReshape, DynamicReshape},
      {Op::kTranspose, Transpose},
      {Op::kReverse, Reverse},
      {Op::kSlice, Slice},
      {Op::kDynamicSlice, DynamicSlice},
      {Op::kDynamicUpdateSlice, DynamicUpdateSlice},
      {Op::kConcatenate, Concatenate},
      {Op::kPad, Pad},
      {Op::kGather, Gather},
      {Op::kScatter, Scatter},
      {Op::kTuple, Tuple},
      {Op::kGetTupleElement, Tuple},
      {Op::kGetDimensionSize, DimensionSize},
      {Op::kSetDimensionSize, DimensionSize},
      {Op::kDot, Dot},
      {Op::kRaggedDot, RaggedDot},
      {Op::kScaledDot, ScaledDot},
      {Op::kConvolution, Convolution},
      {Op::kCholesky, Cholesky},
      {Op::kTriangularSolve, TriangularSolve},
      {Op::kFft, Fft},
      {Op::kReduce, Reduce},
      {Op::kReduceWindow, ReduceWindow},
      {Op::kSelectAndScatter, SelectAndScatter},
      {Op::kScan, Scan},
      {Op::kSort, Sort},
      {Op::kTopk, Topk},
      {Op::kBatchNormTraining, BatchNorm},
      {Op::kBatchNormInference, BatchNorm},
      {Op::kBatchNormGrad, BatchNorm},
      {Op::kCall, Call},
      {Op::kWhile, While},
      {Op::kConditional, Conditional},
      {Op::kFusion, Fusion},
      {Op::kCustomCall, CustomCall},
      {Op::kOptBarrier, PassOn},
      {Op::kDomain, PassOn},
      {Op::kAfterAll, Token},
      {Op::kAddDependency, Token},
      {Op::kRng, Rng},
      {Op::kRngBitGenerator, RngBitGenerator},
      {Op::kRngGetAndUpdateState, RngState},
      {Op::kPartitionId, DeviceId},
      {Op::kReplicaId, DeviceId},
      {Op::kAllReduce, Collective},
      {Op::kReduceScatter, Collective},
      {Op::kAllGather, Collective},
      {Op::kAllToAll, Collective},
      {Op::kCollectivePermute, Collective},
      {Op::kCollectiveBroadcast, Collective},
      {Op::kRaggedAllToAll, RaggedAllToAll},
      {Op::kCopyStart, StartDone},
      {Op::kAllReduceStart, StartDone},
      {Op::kAllGatherStart, StartDone},
      {Op::kCollectivePermuteStart, StartDone},
      {Op::kAsyncStart, Async},
      {Op::kAsyncUpdate, Async},
      // Made with their starts.
      {Op::kCopyDone, nullptr},
      {Op::kAllReduceDone, nullptr},
      {Op::kAllGatherDone, nullptr},
      {Op::kCollectivePermuteDone, nullptr},
      {Op::kAsyncDone, nullptr},
      // They speak with a host or device that is not there.
      {Op::kSend, nullptr},
      {Op::kSendDone, nullptr},
      {Op::kRecv, nullptr},
      {Op::kRecvDone, nullptr},
      {Op::kInfeed, nullptr},
      {Op::kOutfeed, nullptr},
  };
  return *rows;
}

// The rows above, and element-wise opcodes of one and two operands.
const std::vector<Row>& AllRows() {
  static const auto* all = [] {
    auto* list = new std::vector<Row>(Rows());
    absl::flat_hash_set<Op> known;
    for (const Row& row : Rows()) known.insert(row.op);
    for (const OpInfo& info : OpTable()) {
      if (info.op_class != OpClass::kElementwise || known.contains(info.op)) continue;
      if (info.min_operands <= 2)
        list->push_back({info.op, info.min_operands == 1 ? Unary : Binary});
    }
    return list;
  }();
  return *all;
}

// A random order of dimensions for some arrays, as programs come with.
void GiveLayouts(Module* module, Random* random) {
  for (const auto& computation : module->computations) {
    for (const auto& i : computation->instructions) {
      if (i->op == Op::kBitcast) return;  // its value depends on layouts
    }
  }
  for (const auto& computation : module->computations) {
    for (const auto& i : computation->instructions) {
      if (!i->shape.IsArray() || !random->Chance(30)) continue;
      Layout layout;
      for (int64_t d : Permutation(i->shape.rank(), random)) layout.minor_to_major.push_back(d);
      if (i->shape.rank() >= 2 && random->Chance(20)) layout.tiles.push_back(Tile{{8, 128}});
      i->shape.layout = layout;
    }
  }
}

// Callees first, as HLO text has them.
void SortComputations(Module* module) {
  absl::flat_hash_set<const Computation*> placed;
  std::vector<std::unique_ptr<Computation>> sorted;
  const auto take = [&](Computation* wanted) {
    for (auto& owned : module->computations) {
      if (owned.get() == wanted) sorted.push_back(std::move(owned));
    }
  };
  const std::function<void(Computation*)> visit = [&](Computation* computation) {
    if (!placed.insert(computation).second) return;
    for (const auto& i : computation->instructions) {
      for (Computation* callee : i->CalledComputations()) visit(callee);
    }
    take(computation);
  };
  visit(module->entry);
  module->computations = std::move(sorted);  // what nothing calls was a try that failed
}

}  // namespace

void RandomSteps(Builder* b, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const Row& row = b->random->OneOf(AllRows());
    if (row.make) row.make(b, row.op);
  }
  if (b->values.empty()) b->Constant(b->AnyType(), {});
}

std::vector<Op> MissingOpcodes() {
  absl::flat_hash_set<Op> known;
  for (const Row& row : AllRows()) known.insert(row.op);
  std::vector<Op> missing;
  for (const OpInfo& info : OpTable()) {
    if (!known.contains(info.op)) missing.push_back(info.op);
  }
  return missing;
}

std::unique_ptr<Module> RandomModule(uint64_t seed) {
  Random random(seed);
  auto module = std::make_unique<Module>();
  module->name = absl::StrCat("random_", seed);
  Builder b;
  b.random = &random;
  b.is_entry = true;
  b.most = random.Chance(10) ? 20000 : random.Chance(50) ? 2000 : 300;
  b.computation = module->AddComputation("main");
  module->entry = b.computation;
  RandomSteps(&b, random.Between(1, 14));
  std::vector<Instruction*> roots{b.values.back()};
  for (int64_t n = random.Below(3); n > 0; --n) roots.push_back(random.OneOf(b.values));
  b.computation->root =
      roots.size() == 1 && random.Chance(50) ? roots[0] : b.Emit(Op::kTuple, roots);
  SortComputations(module.get());
  if (random.Chance(40)) GiveLayouts(module.get(), &random);
  return module;
}

}  // namespace tpuc::random_modules
