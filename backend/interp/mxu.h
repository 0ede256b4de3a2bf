// The state of one MXU: the staging array A as the list of what was pushed, the latched weights in
// a layout for multiply-add over N, and the staged halves (subr, mubr).
//
// Weights are 256 x 256 in four 128 x 128 blocks (K half, N half). A plain push adds 8 rows of K to
// a K half, with lanes N 0..127 (`low`) and 128..255 (`high`); a transposed push adds 8 columns of
// N to an N half, with lanes K 0..127 and 128..255. The newest group is group 0 of its half. Values
// are f32 that hold bf16. An MXU of 128 x 128 has the first block alone. The arithmetic is in
// mxu-inl.h.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace tpuc::interp {

using Tile = std::array<float, 1024>;

enum class BlockState : uint8_t { kAbsent, kZero, kData };

struct WeightGroup {  // 8 rows or columns
  BlockState low_state = BlockState::kAbsent, high_state = BlockState::kAbsent;
  Tile low, high;
};

struct Mxu {
  static constexpr int kGroups = 16;  // of a half
  static constexpr int kPanel = 32;   // columns of N stored together

  bool has_subr = false, has_mubr = false;
  Tile subr, mubr;
  // Staging array: half h's push number i since the latch is in groups[h][i % kGroups].
  bool transposed = false;
  std::array<std::vector<WeightGroup>, 2> groups;
  std::array<int64_t, 2> pushed{};

  // Latched: [panel of N][k][kPanel].
  std::vector<float> weights;
  BlockState block[2][2] = {};      // [K half][N half]
  std::array<int, 2> valid_rows{};  // of each K half
};

}  // namespace tpuc::interp
