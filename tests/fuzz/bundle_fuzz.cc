// Fuzzes the bundle and LLO parsers: what parses prints to text that parses to the same text.
#include <cstdint>
#include <cstdlib>

#include "grammar/bundle/parser.h"
#include "grammar/bundle/printer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto source = std::make_shared<tpuc::Source>(
      tpuc::Source{"fuzz", std::string(reinterpret_cast<const char*>(data), size)});
  tpuc::DiagSink diags;
  if (auto program = tpuc::bundle::ParseBundles(source, &diags)) {
    std::string text = tpuc::bundle::PrintBundles(*program);
    auto again = tpuc::bundle::ParseBundles(
        std::make_shared<tpuc::Source>(tpuc::Source{"again", text}), &diags);
    if (!again || tpuc::bundle::PrintBundles(*again) != text) std::abort();
  }
  if (auto program = tpuc::bundle::ParseLlo(source, &diags)) {
    std::string text = tpuc::bundle::PrintLlo(*program);
    auto again = tpuc::bundle::ParseLlo(
        std::make_shared<tpuc::Source>(tpuc::Source{"again", text}), &diags);
    if (!again || tpuc::bundle::PrintLlo(*again) != text) std::abort();
  }
  diags.Render();
  return 0;
}
