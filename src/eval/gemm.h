// Matrix product of packed operands, blocked for the cache and vectorised by Highway.
//
// Rows of A and columns of B are copied into panels (Goto's scheme): the caller gives functions
// that read them, so that transposed, batched and rounded operands cost nothing extra. Sums over k
// are made in order within chunks of kGemmDepth, and chunk by chunk: with 512, as XLA on a CPU does
// for large products (found by comparing bits).
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/types/span.h"

namespace tpuc {

inline constexpr int64_t kGemmDepth = 512;

// Computes `count` elements of an array from `first` on, to `to`.
template <typename T>
using LineSource = std::function<void(int64_t first, int64_t count, T* to)>;

// An operand seen as a matrix: element (i, j) is data[row[i] + column[j]]. Or it is computed as it
// is packed, line by line (lines.h): then the offsets, from `base` on, are the array's, and
// data is what it is computed from, to be fetched ahead, or null.
template <typename T>
struct Indexed {
  const T* data;
  const int64_t* row;
  const int64_t* column;
  const LineSource<T>* computed = nullptr;
  int64_t base = 0;

  // Elements that lie together; `room` is where they are computed.
  const T* Line(int64_t offset, int64_t count, T* room) const {
    if (computed == nullptr) return data + offset;
    (*computed)(base + offset, count, room);
    return room;
  }
};

// A in panels, as a product has packed it: the next product of the same A need not do so again.
template <typename T>
struct PackedRows {
  std::vector<T> panels;
  bool filled = false;
};

// Multiplications that a product of m x n results takes for each of its depth, empty places of
// panels included.
int64_t PanelsTaken(int64_t m, int64_t n);

// c[i * n + j] = sum over p of a(i, p) * b(p, j); c is m x n, row major. m, n, k >= 0. `packed`:
// null, or of this very A (not filled: the call fills it where A is small enough to keep). add: to
// what c holds. Of a
// computed A, columns lie in lines; of a computed B, rows do, or columns are one line.
void Gemm(int64_t m, int64_t n, int64_t k, const Indexed<float>& a, const Indexed<float>& b,
          float* c, PackedRows<float>* packed = nullptr, bool add = false);
void Gemm(int64_t m, int64_t n, int64_t k, const Indexed<double>& a, const Indexed<double>& b,
          double* c, PackedRows<double>* packed = nullptr, bool add = false);

}  // namespace tpuc
