// The sub-commands of tpuc, one file each. A command gets its arguments without the program's and
// its own name and returns the exit code.
#pragma once

#include <string>
#include <vector>

#include "src/cli/arguments.h"
#include "src/cli/console.h"

namespace tpuc::cli {

int CompileCommand(const Args& args);  // tpuc FILE -o bundles.txt
int RunCommand(const Args& args);
int OptCommand(const Args& args);
int DiffCommand(const Args& args);
int ListCommand(const Args& args);
int ExplainCommand(const Args& args);
int MaskCommand(const Args& args);
int SweepCommand(const Args& args);

// What main does: finds the command and runs it.
int Main(int argc, char** argv);

}  // namespace tpuc::cli
