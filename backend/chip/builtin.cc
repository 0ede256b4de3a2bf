// The chips built into tpuc: backend/chip/*.chip as the build embeds them (chips.inc).
//
//   BuiltinChip("v6e")->latency(LatencyKey::kMatmul)   // 192
//
// Each is parsed once, on first use, by the same parser as a user's file.
#include <map>
#include <utility>

#include "backend/chip/chip.h"
#include "src/diag/check.h"

namespace tpuc {
namespace {

struct ChipText {
  const char* name;
  const char* text;
};
constexpr ChipText kTexts[] = {
#define CHIP(name, text) {name, text},
#include "chips.inc"
#undef CHIP
};

}  // namespace

const Chip* BuiltinChip(absl::string_view name) {
  static const auto* chips = [] {
    auto* map = new std::map<std::string, std::unique_ptr<Chip>>();
    for (const ChipText& t : kTexts) {
      DiagSink diags;
      auto source = std::make_shared<const Source>(Source{std::string(t.name) + ".chip", t.text});
      std::unique_ptr<Chip> chip = ParseChip(source, &diags);
      CHECK_MSG(chip != nullptr, diags.Render());
      (*map)[t.name] = std::move(chip);
    }
    return map;
  }();
  auto it = chips->find(std::string(name));
  return it == chips->end() ? nullptr : it->second.get();
}

std::vector<std::string> BuiltinChipNames() {
  std::vector<std::string> names;
  for (const ChipText& t : kTexts) names.push_back(t.name);
  return names;
}

}  // namespace tpuc
