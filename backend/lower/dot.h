// A dot as the matrix unit sees it: rows of the left operand (M along sublanes, K along lanes)
// times weights (K by N, or N by K pushed transposed), once per batch and leading row index.
#pragma once

#include <vector>

#include "backend/kernel/kernel.h"
#include "backend/lower/layout.h"

namespace tpuc::lower {

// Where in the batch and the leading free dimensions of the left operand.
struct DotAt {
  Coords batch, free;
};

struct DotPlan {
  kernel::NodeId lhs = -1, rhs = -1;  // swapped where the right operand is a vector
  std::vector<int> lhs_batch, rhs_batch;
  std::vector<int> lhs_free;  // leading free dimensions; the last free one is lhs_m
  int lhs_m = -1, lhs_k = -1, rhs_k = -1, rhs_n = -1;
  std::vector<int> result_free;
  int result_m = -1, result_n = -1;
  int64_t m = 1, k = 1, n = 1;
  bool xpose = false;  // weights lie as [N, K]
  VLayout lhs_layout, rhs_layout;

  int64_t m_groups() const { return CeilDiv(m, kSublanes); }
  Coords ResultAt(const DotAt& at, Coord row_group, Coord n_tile, size_t rank) const {
    Coords c(rank, Coord::Const(0));
    for (size_t i = 0; i < at.batch.size(); ++i) c[i] = at.batch[i];
    for (size_t i = 0; i < at.free.size(); ++i) c[result_free[i]] = at.free[i];
    if (result_m >= 0) c[result_m] = row_group;
    if (result_n >= 0) c[result_n] = n_tile;
    return c;
  }
};

// In place of a half of an MXU: rows of the first tile and of the second at once.
constexpr int kBothHalves = 2;

// One pass of a product over several: an MXU's side of K (128 or 256), the last one fewer.
struct DotPass {
  Coord kp;  // counts sides
  int64_t k_left = 0;
};

// The columns of N that the units work on during the passes over K.
struct DotColumns {
  Coord np;                     // the first unit's, counted in sides of an MXU
  std::vector<int64_t> n_left;  // of each unit's side; one where all units have the same
  bool split = false;           // all units have the same columns and share the rows
  int units = 1;
};

}  // namespace tpuc::lower
