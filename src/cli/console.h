// How a sub-command talks: results to standard output, everything else to standard error, and the
// exit codes of design.md section 8.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "src/diag/diag.h"

namespace tpuc::cli {

enum ExitCode : int {
  kDone = 0,
  kInputAtFault = 1,
  kCommandLine = 2,
  kDifferent = 3,       // a comparison failed
  kProgramAtFault = 4,  // the simulated program
  kBug = 70,
};

struct Console {
  bool color = false;             // of standard error
  bool json_diagnostics = false;  // one object a line

  // `when`: "auto" (NO_COLOR, CLICOLOR_FORCE, a terminal), "always" or "never".
  void SetColor(absl::string_view when);
  // Prints what was collected to standard error.
  void Print(const DiagSink& diags) const;
  // Prints, and says how to exit: 0 without errors, else by the first error's code.
  int Finish(const DiagSink& diags) const;
};

// E04xx is the command line, E0200 and E025x on the simulated program, anything else the input; 0
// if no errors.
int ExitCodeOf(const DiagSink& diags);
// To standard output, whole; a closed pipe is no error.
void PrintResult(absl::string_view text);

}  // namespace tpuc::cli
