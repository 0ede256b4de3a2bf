#include "src/cli/dump.h"

#include <re2/re2.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "src/io/file.h"

namespace tpuc {
namespace {

// A name as part of a file name: nothing that leaves the directory.
std::string Plain(std::string name) {
  for (char& c : name) {
    bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                 c == '_' || c == '-' || c == '.';
    if (!plain) c = '_';
  }
  return name.substr(0, 100);
}

}  // namespace

void Dumps::AddPass(int number, const std::string& after, std::string text) {
  if (enabled()) passes_.push_back({number, after, std::move(text)});
}

void Dumps::AddKernel(const std::string& kernel, int number, const std::string& step,
                      std::string text) {
  if (!enabled()) return;
  files_.emplace_back(absl::StrFormat("module_0001.%s.%s-%02d-%s.txt", Plain(module_),
                                      Plain(kernel), number, Plain(step)),
                      std::move(text));
}

bool Dumps::Write(DiagSink* diags) {
  if (!enabled()) return true;
  if (!MakeDirectories(directory_, diags)) return false;
  std::vector<std::pair<std::string, std::string>> all;
  for (size_t i = 0; i < passes_.size(); ++i) {
    if (!pass_re_.empty() && !RE2::PartialMatch(passes_[i].after, pass_re_)) continue;
    std::string before =
        i + 1 < passes_.size() ? absl::StrCat(".before_", Plain(passes_[i + 1].after)) : "";
    all.emplace_back(absl::StrFormat("module_0001.%s.%04d.tpuc.after_%s%s.txt", Plain(module_),
                                     passes_[i].number, Plain(passes_[i].after), before),
                     std::move(passes_[i].text));
  }
  for (auto& f : files_) all.push_back(std::move(f));
  nlohmann::json index = nlohmann::json::array();
  for (const auto& [name, text] : all) {
    if (!WriteFile(absl::StrCat(directory_, "/", name), text, diags)) return false;
    index.push_back(name);
  }
  return WriteFile(absl::StrCat(directory_, "/index.json"), index.dump(1) + "\n", diags);
}

}  // namespace tpuc
