// Which operations of the source take a kernel's issue slots and units, and how much of the MXUs'
// work is on zeros that pad a product to their size.
//
//   row maximum of a block of attention: a third of the VALU slots, half of the XLU's cycles
//   a head of 192 on an MXU of 256: a quarter of the products of q k^T are with zeros
#pragma once

#include <string>
#include <vector>

#include "backend/isa/program.h"
#include "backend/report/stats.h"

namespace tpuc {

// One operation of the source, at one place: the source rows of its instructions together.
struct OperationShare {
  std::string name;   // "reduce_max": an HLO instruction, or the operation of a kernel's text
  std::string place;  // "splash.tk:70", or ""
  int64_t instructions = 0;
  SlotCounts slots;
  double on_zeros = 0;  // of its MXU work: columns and depth that pad the product; 0 for others
  const isa::DotInfo* dot = nullptr;
};

// By instructions, most first; ties by place in the source map.
std::vector<OperationShare> OperationsOf(const isa::Program& program, const isa::Function& kernel,
                                         const KernelRun& run);
// Of all MXU work of the kernel, the share that is on zeros.
double MxuOnZeros(const std::vector<OperationShare>& operations);

// Of the kernel that took most cycles: its operations that take most, in percent of the kernel's
// instructions and of its use of each unit.
std::string OperationsText(const isa::Program& program, const RunStats& run);

}  // namespace tpuc
