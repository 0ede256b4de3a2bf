#include "src/cli/modules.h"

#include "absl/strings/str_cat.h"
#include "grammar/hlo/parser.h"
#include "src/eval/operation.h"
#include "src/io/file.h"
#include "src/ir/elided.h"
#include "src/ir/verifier.h"

namespace tpuc::cli {
std::shared_ptr<const Source> ReadSource(const std::string& path, DiagSink* diags) {
  auto source = std::make_shared<Source>();
  source->name = path == "-" ? "<stdin>" : path;
  if (!ReadFile(path, &source->text, diags)) return nullptr;
  return source;
}

bool TakeElided(Elided elided, Module* module, DiagSink* diags) {
  return elided == Elided::kError || FillElided(module, DefaultMemoryLimit() / 4, diags);
}

std::unique_ptr<Module> ReadModule(std::shared_ptr<const Source> source, Elided elided,
                                   DiagSink* diags) {
  auto parts = SplitModules(source);
  if (parts.size() > 1) {
    diags->Add(DiagCode::kSeveralModules, source, Loc{},
               absl::StrCat("the file holds ", parts.size(), " modules"));
    return nullptr;
  }
  auto module = ParseHlo(source, diags);
  if (!module || !VerifyHlo(*module, diags) || !TakeElided(elided, module.get(), diags)) {
    return nullptr;
  }
  return module;
}

}  // namespace tpuc::cli
