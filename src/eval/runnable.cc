// Obstacles by kind of instruction, and the walk over what surely runs (runnable.h).
#include "src/eval/runnable.h"

#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "src/eval/custom_calls.h"
#include "src/eval/operation.h"
#include "src/eval/plan.h"
#include "src/ir/elided.h"
#include "src/ir/op_table.h"

namespace tpuc {
namespace {

// A group names two devices: "{{0,1}}", "[1,2]<=[2]", "mesh['x'=2] {'x'}".
bool HasLargeGroup(absl::string_view groups) {
  if (groups.empty()) return false;
  if (groups[0] == '[') {  // [groups, members]
    const size_t comma = groups.find(',');
    int64_t members = 1;
    return comma != absl::string_view::npos &&
           (!absl::SimpleAtoi(groups.substr(comma + 1, groups.find(']') - comma - 1), &members) ||
            members > 1);
  }
  if (groups[0] != '{') {  // a mesh: an axis of more than one device among those named
    return groups.find("{}") == absl::string_view::npos;
  }
  int depth = 0;
  for (char c : groups) {
    depth += c == '{' ? 1 : c == '}' ? -1 : 0;
    if (c == ',' && depth == 2) return true;
  }
  return false;
}

int64_t HeaderNumber(const Module& module, absl::string_view name) {
  for (const auto& [key, value] : module.other_attributes) {
    int64_t number;
    if (key == name && absl::SimpleAtoi(value, &number)) return number;
  }
  return 1;
}

// Why a collective needs more than one device; "" if one is enough.
std::string OtherDevices(const Module& module, const Instruction& in) {
  const absl::string_view groups = in.StringAttr(AttrId::kReplicaGroups);
  const bool all = groups.empty() || groups == "{}";
  const int64_t devices =
      HeaderNumber(module, "replica_count") * HeaderNumber(module, "num_partitions");
  if (HasLargeGroup(groups) || (all && devices > 1)) {
    return absl::StrCat(OpName(in.op), " among several devices");
  }
  const AttrValue* attribute = in.Find(AttrId::kSourceTargetPairs);
  if (attribute == nullptr) return "";
  const auto& pairs = std::get<std::vector<Ints>>(*attribute);
  for (const Ints& pair : pairs) {
    if (pair.size() == 2 && pair[0] == 0 && pair[1] == 0) continue;
    return absl::StrCat(OpName(in.op), " between devices");
  }
  const bool none = pairs.empty() || in.Has(AttrId::kSliceSizes);
  return none ? absl::StrCat(OpName(in.op), " without a source") : "";
}

std::string Obstacle(const Module& module, const Instruction& in, const EvalOptions& options) {
  switch (in.op) {
    case Op::kInfeed:
    case Op::kOutfeed:
    case Op::kSend:
    case Op::kRecv:
    case Op::kSendDone:
    case Op::kRecvDone:
      return absl::StrCat(OpName(in.op), ": it speaks with a host or device that is not there");
    case Op::kCustomCall:
      if (PassesOn(in) || IsKnownCall(in) || options.custom_call) return "";
      return absl::StrCat("custom-call to \"", in.StringAttr(AttrId::kCustomCallTarget), "\"");
    case Op::kAllReduceStart:
    case Op::kAllGatherStart:
    case Op::kCollectivePermuteStart:
      return OtherDevices(module, in);
    default:
      return InfoOf(in.op).op_class == OpClass::kCollective ? OtherDevices(module, in) : "";
  }
}

// The plan's peak is an estimate: only what is far beyond the limit is refused by it.
bool HasMemory(const Module& module, const Computation& computation, const Plan& plan,
               const EvalOptions& options, DiagSink* diags) {
  const int64_t limit = options.memory_limit > 0 ? options.memory_limit : DefaultMemoryLimit();
  if (plan.peak / 5 <= limit / 4) return true;
  const Instruction& in = *computation.instructions[plan.at_peak];
  Diag& diag = diags->Add(DiagCode::kEvalMemory, module.source, in.loc,
                          absl::StrCat("about ", plan.peak >> 20, " MiB are needed at once when ",
                                       in.name, " runs, ", limit >> 20, " MiB are available"));
  diag.hint = "the evaluator may use three quarters of the host's memory";
  return false;
}

}  // namespace

void AddCannotRun(const Module& module, const Instruction& in, absl::string_view what,
                  DiagSink* diags) {
  diags->Add(DiagCode::kUnsupportedOp, module.source, in.loc,
             absl::StrCat("the evaluator cannot run ", what, " (instruction ", in.name, ")"));
}

bool CanRun(const Module& module, const Instruction& in, const EvalOptions& options,
            DiagSink* diags) {
  if (in.op == Op::kConstant) {
    if (!HasElided(*in.literal)) return true;
    AddElided(module.source, in.loc, in.name, diags);
    return false;
  }
  const std::string what = Obstacle(module, in, options);
  if (what.empty()) return true;
  AddCannotRun(module, in, what, diags);
  return false;
}

bool CanRunAll(const Module& module, const EvalOptions& options, DiagSink* diags) {
  std::vector<const Computation*> open{module.entry};
  absl::flat_hash_set<const Computation*> seen{module.entry};
  while (!open.empty()) {
    const Computation& computation = *open.back();
    open.pop_back();
    const Plan plan = MakePlan(computation, /*is_body=*/false);
    if (!HasMemory(module, computation, plan, options, diags)) return false;
    for (size_t i = 0; i < computation.instructions.size(); ++i) {
      if (!plan.needed[i]) continue;
      const Instruction& in = *computation.instructions[i];
      if (!CanRun(module, in, options, diags)) return false;
      const bool calls = in.op == Op::kCall || in.op == Op::kFusion || in.op == Op::kAsyncStart;
      const Computation* called = calls                 ? in.CalledComputations().front()
                                  : in.op == Op::kWhile ? in.ComputationAttr(AttrId::kCondition)
                                                        : nullptr;
      if (called != nullptr && seen.insert(called).second) open.push_back(called);
    }
  }
  return true;
}

}  // namespace tpuc
