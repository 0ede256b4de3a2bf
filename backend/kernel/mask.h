// Masks of attention kernels and the tables of their blocks (attention-kernels.md C.2, D): a mask
// is a condition on a query row and a key column; cut into blocks, each is empty (0), mixed (1) or
// full (2). A kernel whose grid walks the blocks that are not empty reads from the tables which
// block a step has, and what it must do there.
//
//   mask M(row, col) over [4096, 4096] = row >= col;  blocks B of M by (1024, 2048);
//   8 blocks, 6 active:  row 0 1 2 2 3 3, col 0 0 0 1 0 1, kind 1 1 2 1 2 1, 2 distinct patterns
//
// Blocks are decided from the ranges of their rows and columns where that suffices; elements are
// looked at in the others only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "backend/kernel/kernel.h"
#include "src/ir/literal.h"

namespace tpuc::kernel {

// Numbers of a blocks declaration that expressions may name: B.active ...
enum class BlockCount : uint8_t {
  kActive,     // blocks that are not empty
  kPatterns,   // distinct mixed blocks: the tables' patterns
  kGridWidth,  // the most active blocks of one block row
  kRows,       // block rows
  kCols,       // block columns
};
struct BlockCountRow {
  BlockCount count;
  absl::string_view name, what;
};
absl::Span<const BlockCountRow> BlockCounts();

struct BlockTables {
  int64_t rows = 0, cols = 0;  // blocks
  int64_t block_rows = 0, block_cols = 0;
  int64_t grid_width = 0;
  std::vector<uint8_t> kind;                   // of each block, row-major
  std::vector<int32_t> pattern;                // of each mixed block; -1: another
  std::vector<std::vector<uint8_t>> patterns;  // block_rows * block_cols bytes of 0 or 1
  // One entry an active block, row-major.
  std::vector<int32_t> active_row, active_col;
  int64_t Count(int64_t count) const;
};

// An array of the tables as a literal: row, col, kind (1, 2), first, last (1 where the block row
// begins, ends), next (pattern of the first mixed block at or after), all s32[active];
// block_mask, data_next, mask_next: s32[rows, grid_width], active blocks packed to the left;
// patterns: s8[n, block rows, block columns]. Null for another name.
std::shared_ptr<Literal> TableOf(const BlockTables& tables, absl::string_view name);
std::vector<absl::string_view> TableNames();

// What is wrong with a mask: a row that sees nothing, or a place without a value.
struct MaskProblem {
  bool empty_row = false;
  int64_t row = -1;     // the first such row
  int64_t rows = 0;     // how many
  std::string message;  // otherwise
};

// Null with *problem where a row has no column (unless allowed), a place no value, or the mask is
// larger than the tables can be made for.
// A mask is false in columns past its last; rows past its last do not exist.
std::shared_ptr<const BlockTables> MakeTables(const Mask& mask, absl::Span<const Param> params,
                                              int64_t block_rows, int64_t block_cols,
                                              MaskProblem* problem,
                                              absl::Span<const Array> arrays = {});

// The mask at one place; nothing where it has no value there.
bool MaskAt(const Mask& mask, absl::Span<const Param> params, int64_t row, int64_t col, bool* value,
            absl::Span<const Array> arrays = {});

}  // namespace tpuc::kernel
