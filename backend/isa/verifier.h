// Checks a program of bundles from its text alone: what the scheduler and the register allocator
// promise is derived again here, by other means, before anything runs.
//
//   slots, unit ports and literals of each bundle       registers, units, operands in range
//   every read defined on all paths to it               pops match pushes in order; queues balanced
//   branch targets and delay slots                      buffers inside memories, without overlap
//   sync flags and constant addresses in range
//
// Shares no code with backend/schedule or backend/regalloc, and must not.
#pragma once

#include "backend/chip/chip.h"
#include "backend/isa/program.h"
#include "src/diag/diag.h"

namespace tpuc::isa {

// False if an error was reported. Messages name function, bundle and instruction.
bool VerifyBundles(const Program& program, const Chip& chip, DiagSink* diags);

// Parts of it, for tests and for each other.
struct BundlePlace {
  const Function* function = nullptr;
  int bundle = -1;
  const Inst* inst = nullptr;
};
std::string Describe(const BundlePlace& place);  // "fusion.2, bundle 17, vadd.f32 v3"
// Each returns how many errors it reported.
int VerifyForm(const Program& program, const Function& f, const Chip& chip, DiagSink* diags);
int VerifyDefinitions(const Program& program, const Function& f, const Chip& chip,
                      DiagSink* diags);
int VerifyQueues(const Function& f, const Chip& chip, DiagSink* diags);
int VerifyBuffers(const Program& program, const Chip& chip, DiagSink* diags);

// The blocks of a function: maximal runs of bundles that are entered only at their first and left
// only after their last. Needs branches and delay slots that VerifyForm found good.
struct BundleBlock {
  int first = 0, last = 0;
  std::vector<int> next;  // blocks; the function's end is not one
  bool ends = false;      // may run off the function's end
};
std::vector<BundleBlock> BlocksOf(const Function& f, const Chip& chip);

}  // namespace tpuc::isa
