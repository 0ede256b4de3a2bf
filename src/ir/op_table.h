// The opcode and attribute tables (hlo_ops.def, hlo_attrs.def) as data: what the parser, printer,
// verifier, evaluator, passes and `tpuc list ops` read.
//
//   InfoOf(Op::kCompare) -> {"compare", 2 operands exactly, shape may be inferred,
//                            required {kDirection}, optional {kCompareType}, ...}
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "src/ir/hlo.h"

namespace tpuc {

enum class ShapeRule : uint8_t { kInfer, kWritten };
enum class OpClass : uint8_t {
  kElementwise,
  kMove,
  kSource,
  kTuple,
  kContract,
  kReduce,
  kCall,
  kCollective,
  kAsync,
  kOther
};
// How an attribute is read, held and printed; grammar/hlo has one function pair a form.
enum class AttrForm : uint8_t {
  kBool,                // bool
  kInt,                 // int64_t
  kFloat,               // double
  kWord,                // std::string: a word out of a set
  kString,              // std::string, decoded
  kStringOrJson,        // std::string, decoded; a JSON dict is held with its braces
  kInts,                // Ints
  kIntLists,            // std::vector<Ints>
  kIntsOrLists,         // Ints or std::vector<Ints>
  kBools,               // Ints of 0 and 1
  kWords,               // std::vector<std::string>
  kWindow,              // Window
  kDimLabels,           // DimLabels
  kPadConfig,           // std::vector<PadDim>
  kSlices,              // std::vector<SliceDim>
  kShape,               // std::vector<Shape> of one
  kShapes,              // std::vector<Shape>
  kComputation,         // Computation*
  kComputations,        // std::vector<Computation*>
  kInstructions,        // std::vector<Instruction*>
  kFrontendAttributes,  // pairs, sorted by key
  kUntypedLiteral,      // std::shared_ptr<Literal>
  kMetadata,            // Instruction::metadata
  kSharding,            // RawText, and so all below
  kReplicaGroups,
  kResultAccuracy,
  kDomain,
  kBraced,
  kRaw
};

struct OpInfo {
  Op op;
  absl::string_view name;
  int min_operands;
  bool exact_operands;  // else: at least min_operands
  ShapeRule shape;
  OpClass op_class;
  int flops;  // an output element (reductions: an input element)
  absl::Span<const AttrId> required, optional;
};
struct AttrInfo {
  AttrId id;
  absl::string_view name;
  AttrForm form;
};

// All rows in table order.
absl::Span<const OpInfo> OpTable();
absl::Span<const AttrInfo> AttrTable();
const OpInfo& InfoOf(Op op);
const AttrInfo& InfoOf(AttrId id);
// Attributes that every instruction may carry.
inline constexpr AttrId kFirstCommonAttr = AttrId::kSharding;
inline constexpr AttrId kLastCommonAttr = AttrId::kBackendConfig;
inline bool IsCommonAttr(AttrId id) { return id >= kFirstCommonAttr && id <= kLastCommonAttr; }
// The attribute of that name which the opcode takes (or any opcode takes); false if none.
bool AttrOf(Op op, absl::string_view name, AttrId* id);

// The attribute says nothing beyond its absence (feature_group_count=1): such are neither kept by
// the parser nor printed. The instruction has its operands (the `type` of a compare follows them).
bool IsDefault(const Instruction& instruction, const Attr& attr);

// The instruction does more than yield its value: it may not be erased, repeated or moved across
// another of its kind. Looks through called computations.
bool HasSideEffect(const Instruction& instruction);

}  // namespace tpuc
