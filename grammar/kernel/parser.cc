// ParseKernels (parser.h): text to syntax trees, trees to kernels and a program.
#include "grammar/kernel/parser.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "grammar/kernel/elaborate.h"
#include "grammar/kernel/syntax.h"

namespace tpuc {

using kernel_text::ElaborateContext;
using kernel_text::File;

namespace {

void ReportUnusedSets(const File& file, ElaborateContext* context) {
  std::vector<std::string> known;
  for (const auto& k : file.kernels) {
    for (const auto& p : k.parameters) known.push_back(p.name);
    for (const auto& a : k.arrays) known.push_back(a.name);
  }
  std::sort(known.begin(), known.end());
  const auto unused = [&](const std::string& name, absl::string_view kind) {
    const std::string nearest = NearestName(name, known);
    const bool other_kind = std::find(known.begin(), known.end(), name) != known.end();
    context->diags
        ->Add(DiagCode::kKernelParam, context->source, {},
              other_kind ? absl::StrCat("parameter ", name, " does not take ", kind)
                         : absl::StrCat("no parameter is called ", name))
        .hint = nearest.empty() || other_kind ? "" : absl::StrCat("did you mean ", nearest, "?");
  };
  for (size_t s = 0; s < context->set.size(); ++s) {
    if (!context->set_used[s]) unused(context->set[s].first, "an integer");
  }
  for (size_t s = 0; s < context->words.size(); ++s) {
    if (!context->words_used[s]) unused(context->words[s].first, "a word");
  }
}

}  // namespace

std::unique_ptr<kernel::Program> ParseKernels(
    std::shared_ptr<const Source> source, absl::Span<const std::pair<std::string, int64_t>> set,
    DiagSink* diags, absl::Span<const std::pair<std::string, std::string>> words,
    const ArrayReader& read) {
  const std::unique_ptr<File> file = kernel_text::ParseSyntax(source, diags);
  if (file == nullptr) return nullptr;
  ElaborateContext context{source, set,   std::vector<bool>(set.size()),
                           diags,  words, std::vector<bool>(words.size()),
                           read};
  auto program = std::make_unique<kernel::Program>();
  program->source = source;
  bool ok = true;
  const auto error = [&](Loc loc, std::string message) {
    diags->Add(DiagCode::kKernelProgram, source, loc, std::move(message));
    ok = false;
  };
  std::vector<std::string> names;
  for (const kernel_text::Kernel& k : file->kernels) {
    if (std::find(names.begin(), names.end(), k.name) != names.end()) {
      error(k.loc, absl::StrCat("kernel ", k.name, " is defined already"));
    }
    names.push_back(k.name);
    program->kernels.emplace_back();
    ok &= ElaborateKernel(k, &context, &program->kernels.back());
  }
  const int before = diags->errors();
  ReportUnusedSets(*file, &context);
  ok &= diags->errors() == before;
  if (file->programs.size() > 1) error(file->programs[1].loc, "more than one program in a file");
  if (file->programs.empty() && file->kernels.size() != 1) {
    error(file->kernels.empty() ? Loc{1, 1} : file->kernels[1].loc,
          absl::StrCat(file->kernels.size(),
                       " kernels and no program: a program says in which order they run"));
  }
  if (!ok) return nullptr;
  if (file->programs.empty()) {
    kernel_text::ImplyProgram(program.get());
  } else if (!ElaborateProgram(file->programs[0], &context, program.get())) {
    return nullptr;
  }
  return program;
}

}  // namespace tpuc
