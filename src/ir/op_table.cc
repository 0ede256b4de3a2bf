// The two tables as arrays, made from the .def files at compile time (op_table.h).
#include "src/ir/op_table.h"

#include <deque>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"

namespace tpuc {
namespace {

// Arity of a row: exact, or at least n.
constexpr int N0 = -1, N1 = -2, N2 = -3, N3 = -4;

const std::vector<AttrInfo>& Attrs() {
  static const auto* table = new std::vector<AttrInfo>{
#define ATTR(id, text, form) {AttrId::id, text, AttrForm::form},
#include "src/ir/hlo_attrs.def"
#undef ATTR
  };
  return *table;
}

const std::vector<OpInfo>& Ops() {
  struct Tables {
    std::vector<OpInfo> rows;
    std::deque<std::vector<AttrId>> lists;  // what the rows' spans show
  };
  static const auto* tables = [] {
    using enum AttrId;
    auto* made = new Tables;
    auto attrs = [&](std::initializer_list<AttrId> ids) {
      return absl::Span<const AttrId>(made->lists.emplace_back(ids));
    };
    auto add = [&](Op op, absl::string_view name, int arity, ShapeRule shape, OpClass op_class,
                   int flops, std::initializer_list<AttrId> required,
                   std::initializer_list<AttrId> optional) {
      made->rows.push_back({op, name, arity < 0 ? -1 - arity : arity, arity >= 0, shape, op_class,
                            flops, attrs(required), attrs(optional)});
    };
#define A(...) \
  { __VA_ARGS__ }
#define HLO_OP(id, text, arity, shape, cls, flops, ...) \
  add(Op::id, text, arity, ShapeRule::shape, OpClass::cls, flops, __VA_ARGS__);
#include "src/ir/hlo_ops.def"
#undef HLO_OP
#undef A
    return made;
  }();
  return tables->rows;
}

bool HasOwnSideEffect(const Instruction& instruction) {
  switch (instruction.op) {
    case Op::kInfeed:
    case Op::kOutfeed:
    case Op::kSend:
    case Op::kSendDone:
    case Op::kRecv:
    case Op::kRecvDone:
    case Op::kRng:
    case Op::kRngGetAndUpdateState:
    case Op::kAllReduceStart:
    case Op::kAllReduceDone:
    case Op::kAllGatherStart:
    case Op::kAllGatherDone:
    case Op::kCollectivePermuteStart:
    case Op::kCollectivePermuteDone:
      return true;
    case Op::kCustomCall:
      return instruction.BoolAttr(AttrId::kCustomCallHasSideEffect);
    case Op::kAllReduce:
    case Op::kAllGather:
    case Op::kAllToAll:
    case Op::kReduceScatter:
      return instruction.BoolAttr(AttrId::kConstrainLayout);
    default:
      return false;
  }
}

}  // namespace

absl::Span<const OpInfo> OpTable() { return Ops(); }
absl::Span<const AttrInfo> AttrTable() { return Attrs(); }
const OpInfo& InfoOf(Op op) { return Ops()[static_cast<size_t>(op)]; }
const AttrInfo& InfoOf(AttrId id) { return Attrs()[static_cast<size_t>(id)]; }

absl::string_view AttrName(AttrId id) { return InfoOf(id).name; }
absl::string_view OpName(Op op) { return InfoOf(op).name; }

bool OpFromName(absl::string_view name, Op* op) {
  static const auto* by_name = [] {
    auto* map = new absl::flat_hash_map<absl::string_view, Op>;
    for (const OpInfo& row : Ops()) (*map)[row.name] = row.op;
    return map;
  }();
  auto it = by_name->find(name);
  if (it == by_name->end()) return false;
  *op = it->second;
  return true;
}

bool AttrOf(Op op, absl::string_view name, AttrId* id) {
  const OpInfo& info = InfoOf(op);
  for (absl::Span<const AttrId> own : {info.required, info.optional}) {
    for (AttrId candidate : own) {
      if (InfoOf(candidate).name == name) return *id = candidate, true;
    }
  }
  for (size_t i = static_cast<size_t>(kFirstCommonAttr); IsCommonAttr(static_cast<AttrId>(i));
       ++i) {
    if (Attrs()[i].name == name) return *id = static_cast<AttrId>(i), true;
  }
  return false;
}

bool IsDefault(const Instruction& instruction, const Attr& attr) {
  auto is_int = [&](int64_t value) { return std::get<int64_t>(attr.value) == value; };
  auto is_word = [&](absl::string_view word) { return std::get<std::string>(attr.value) == word; };
  switch (attr.id) {
    case AttrId::kFeatureGroupCount:
    case AttrId::kBatchGroupCount:
      return is_int(1);
    case AttrId::kInferredDimension:
      return is_int(-1);
    case AttrId::kLhsBatchDims:
    case AttrId::kRhsBatchDims:
    case AttrId::kOperandBatchingDims:
    case AttrId::kStartIndicesBatchingDims:
    case AttrId::kInputBatchingDims:
    case AttrId::kScatterIndicesBatchingDims:
      return std::get<Ints>(attr.value).empty();
    case AttrId::kOperandPrecision:
      for (const std::string& word : std::get<std::vector<std::string>>(attr.value)) {
        if (word != "default") return false;
      }
      return true;
    case AttrId::kWindow:
      return std::get<Window>(attr.value).dims.empty();
    case AttrId::kAlgorithm:
    case AttrId::kConvolutionKind:
      return is_word("unset");
    case AttrId::kApiVersion:
      return is_word("API_VERSION_ORIGINAL");
    case AttrId::kSchedule:
      return is_word("SCHEDULE_NONE");
    case AttrId::kAsyncExecutionThread:
      return is_word("main");
    case AttrId::kMode:
      return true;  // read and ignored, as XLA does
    case AttrId::kCompareType: {
      if (instruction.operands.empty()) return false;
      switch (ClassOf(instruction.operands[0]->shape.type)) {
        case TypeClass::kSigned:
          return is_word("SIGNED");
        case TypeClass::kBool:
        case TypeClass::kUnsigned:
          return is_word("UNSIGNED");
        default:
          return is_word("FLOAT");
      }
    }
    case AttrId::kResultAccuracy:
      return std::get<RawText>(attr.value).text == "{mode=default}";
    case AttrId::kLargest:
      return std::get<bool>(attr.value);
    case AttrId::kIsStable:
      return std::get<bool>(attr.value) == (instruction.op == Op::kTopk);
    case AttrId::kIsAssociative:
      return false;
    case AttrId::kFrontendAttributes:
      return std::get<std::vector<std::pair<std::string, std::string>>>(attr.value).empty();
    default:
      return InfoOf(attr.id).form == AttrForm::kBool && !std::get<bool>(attr.value);
  }
}

bool HasSideEffect(const Instruction& instruction) {
  if (HasOwnSideEffect(instruction)) return true;
  std::vector<Computation*> work = instruction.CalledComputations();
  absl::flat_hash_set<const Computation*> seen(work.begin(), work.end());
  while (!work.empty()) {
    const Computation* computation = work.back();
    work.pop_back();
    for (const auto& inner : computation->instructions) {
      if (HasOwnSideEffect(*inner)) return true;
      for (Computation* callee : inner->CalledComputations()) {
        if (seen.insert(callee).second) work.push_back(callee);
      }
    }
  }
  return false;
}

}  // namespace tpuc
