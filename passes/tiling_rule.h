// The tiled layouts that the compiler chooses: which tile for which type and shape, and when two
// shapes hold their elements at the same bytes.
#pragma once

#include "src/ir/shape.h"

namespace tpuc {

// Minor to major.
using Order = Dims;

// The tiles of an array whose dimensions lie in `order`. Rank >= 2: T(8,128), with fewer rows where
// the second-minor dimension has at most 4 (T(1,128), T(2,128), T(4,128)); rank 0 and 1: T(128).
// Types of 16 bits pack two rows, (2,1), of 8 bits four, (4,1) (tpu-v6e-compiler.md (a), (h);
// hlo-text.md section 9).
Layout TiledLayout(Type type, const Dims& dims, const Order& order);

Order RowMajor(int rank);
// Of row major and its two minor dimensions swapped, the order of smaller padded size; row major
// where they are equal (tpu-v6e-compiler.md (a): f32[64,32] takes {0,1}).
Order SmallerOrder(Type type, const Dims& dims);

// A transpose of `from` by `permutation` to `to` moves no byte.
bool TransposeIsBitcast(const Shape& from, const Shape& to,
                        const std::vector<int64_t>& permutation);
// A reshape of `from` to `to` moves no byte.
bool ReshapeIsBitcast(const Shape& from, const Shape& to);

}  // namespace tpuc
