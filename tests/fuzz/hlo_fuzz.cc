// Fuzzes the HLO parser, verifier and printer: nothing crashes, a null module has an error, and
// what parses prints to text that parses to the same text and the same verdict of the verifier.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "grammar/hlo/parser.h"
#include "grammar/hlo/printer.h"
#include "src/ir/verifier.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using tpuc::DiagSink;
  using tpuc::Source;
  auto whole = std::make_shared<Source>(
      Source{"fuzz", std::string(reinterpret_cast<const char*>(data), size)});
  for (const auto& source : tpuc::SplitModules(whole)) {
    DiagSink diags;
    auto module = tpuc::ParseHlo(source, &diags);
    diags.Render();
    if ((module == nullptr) != diags.has_errors()) std::abort();
    if (!module) continue;
    DiagSink verdict;
    bool ok = tpuc::VerifyHlo(*module, &verdict);
    verdict.Render();
    std::string text = tpuc::PrintHlo(*module);
    DiagSink again_diags;
    auto again = tpuc::ParseHlo(std::make_shared<Source>(Source{"again", text}), &again_diags);
    if (!again) {
      std::fputs((text + again_diags.Render()).c_str(), stderr);
      std::abort();
    }
    DiagSink ignored;
    if (tpuc::PrintHlo(*again) != text || tpuc::VerifyHlo(*again, &ignored) != ok) {
      std::fputs((text + "\n---\n" + tpuc::PrintHlo(*again)).c_str(), stderr);
      std::abort();
    }
    if (tpuc::PrintHlo(*tpuc::Clone(*module)) != text) std::abort();
  }
  return 0;
}
