#include "src/diag/check.h"

#include <cstdio>
#include <cstdlib>

namespace tpuc {
namespace {
std::string& CurrentStage() {
  static thread_local std::string stage = "start";
  return stage;
}
}  // namespace

void SetCurrentStage(std::string stage) { CurrentStage() = std::move(stage); }

void CheckFailed(const char* file, int line, const char* condition, const std::string& message) {
  std::fprintf(stderr, "tpuc: bug: %s:%d: %s%s%s (while: %s)\nPlease report this input.\n", file,
               line, condition, message.empty() ? "" : ": ", message.c_str(),
               CurrentStage().c_str());
  std::fflush(stderr);
  std::_Exit(70);
}

}  // namespace tpuc
