// Names as stem and number (scope_names.h).
#include "grammar/hlo/scope_names.h"

namespace tpuc::hlo {
namespace {

constexpr uint32_t kNoNumber = 0xFFFFFFFF;
constexpr size_t kMaxDigits = 9;  // fit uint32_t, and are no kNoNumber

struct Split {
  absl::string_view stem;
  uint32_t number;
};

// The number is the longest run of at most kMaxDigits digits at the end that is written as numbers
// are, without leading zeros: "a.007" is "a.00" and 7, "a.0" is "a." and 0.
Split SplitName(absl::string_view name) {
  size_t begin = name.size();
  const size_t least = name.size() > kMaxDigits ? name.size() - kMaxDigits : 0;
  while (begin > least && name[begin - 1] >= '0' && name[begin - 1] <= '9') --begin;
  while (begin + 1 < name.size() && name[begin] == '0') ++begin;
  if (begin == name.size()) return {name, kNoNumber};
  uint32_t number = 0;
  for (char digit : name.substr(begin)) number = number * 10 + static_cast<uint32_t>(digit - '0');
  return {name.substr(0, begin), number};
}

}  // namespace

Instruction* const* ScopeNames::Find(absl::string_view name) const {
  const Split split = SplitName(name);
  auto stem = stems_.find(split.stem);
  if (stem == stems_.end()) return nullptr;
  auto at = instructions_.find(Key{stem->second, split.number});
  return at == instructions_.end() ? nullptr : &at->second;
}

Instruction* const* ScopeNames::Add(absl::string_view name, Instruction* instruction) {
  const Split split = SplitName(name);
  auto stem = stems_.try_emplace(split.stem, static_cast<uint32_t>(stems_.size())).first;
  auto [at, added] = instructions_.try_emplace(Key{stem->second, split.number}, instruction);
  return added ? nullptr : &at->second;
}

}  // namespace tpuc::hlo
