// Windows: how many bytes of VMEM a kernel's operand blocks and scratch take, and whether they fit.
// A window is whole tiles; it is double-buffered where the grid has more than one step, and an
// operand already in VMEM is a view and takes none (pallas-semantics PS-2.9).
//
//   f32 block [128, 200] in T(8,128) takes 128 * 256 * 4 = 131,072 bytes, twice on a grid of 4
//   steps.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backend/chip/chip.h"
#include "backend/kernel/expr.h"
#include "backend/kernel/kernel.h"
#include "src/diag/diag.h"

namespace tpuc::kernel {

// The tiling an array has in a device memory where its shape names none: T(8,128) for 32 bits,
// T(8,128)(2,1) for 16, T(8,128)(4,1) for 8, T(8,128)(8,1)E(4) for 4; rank 0 and 1: T(128), T(256)(128)(2,1),
// T(512)(128)(4,1) (hlo-text.md section 9; tpu-v6e-compiler.md (a), stage 0026).
Layout DeviceLayout(Type type, int rank, int64_t memory_space);

// Of an array that is copied to SMEM whole: rows one after another, each rounded up to 128 words.
Layout SmemLayout(Type type, int rank);

// The same shape with the tiling (and, where it has none, the layout) of DeviceLayout.
Shape WithDeviceLayout(Shape shape);

// The window of a ref as it lies in VMEM: block dimensions (squeezed ones are 1), the ref's order
// and tiles, memory space 1.
Shape WindowShape(const Ref& ref);

// What an index map that counts elements must give multiples of in dimension d: whole tiles move.
int64_t ElementUnit(const Ref& ref, int d);

struct WindowBytes {
  int ref = 0;
  int64_t bytes = 0;  // of one buffer; 0 for a view
  int buffers = 1;
  int64_t Total() const { return bytes * buffers; }
};
// One a ref, in order.
std::vector<WindowBytes> WindowsOf(const Kernel& kernel);
int64_t TotalBytes(const std::vector<WindowBytes>& windows);  // saturates

// Words of SMEM, one a block, that mark which blocks of an output have been left, where what it
// visits is known at run time only; 0: no such check (few blocks, known visits, many blocks).
int64_t VisitWords(const Kernel& kernel, int ref);

// E1001 with a table of operands where windows and scratch exceed the chip's scoped VMEM.
bool CheckVmemBudget(const Kernel& kernel, std::shared_ptr<const Source> source, const Chip& chip,
                     DiagSink* diags);

// E1004 where scalars in SMEM, E1003 where semaphores and windows need more than the chip has.
bool CheckSmemBudget(const Kernel& kernel, std::shared_ptr<const Source> source, const Chip& chip,
                     DiagSink* diags);

}  // namespace tpuc::kernel
