// CHECK: for bugs of tpuc, never for anything a user can type. Prints the place, the message and the
// pass that was running, and exits 70.
#pragma once

#include <string>

namespace tpuc {

[[noreturn]] void CheckFailed(const char* file, int line, const char* condition,
                              const std::string& message);
// Names what runs now, for CheckFailed ("pass fusion", "schedule kernel x").
void SetCurrentStage(std::string stage);

}  // namespace tpuc

#define CHECK(cond) \
  ((cond) ? (void)0 : ::tpuc::CheckFailed(__FILE__, __LINE__, #cond, ""))
#define CHECK_MSG(cond, msg) \
  ((cond) ? (void)0 : ::tpuc::CheckFailed(__FILE__, __LINE__, #cond, (msg)))
