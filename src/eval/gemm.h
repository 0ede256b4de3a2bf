// Matrix product of packed operands, blocked for the cache and vectorised by Highway.
//
// Rows of A and columns of B are copied into panels (Goto's scheme): the caller gives functions
// that read them, so that transposed, batched and rounded operands cost nothing extra. Sums over k
// are made in order within chunks of kGemmDepth, and chunk by chunk: with 512, as XLA on a CPU does
// for large products (found by comparing bits).
#pragma once

#include <cstdint>
#include <vector>

namespace tpuc {

inline constexpr int64_t kGemmDepth = 512;

// An operand seen as a matrix: element (i, j) is data[row[i] + column[j]].
template <typename T>
struct Indexed {
  const T* data;
  const int64_t* row;
  const int64_t* column;
};

// A in panels, as a product has packed it: the next product of the same A need not do so again.
template <typename T>
struct PackedRows {
  std::vector<T> panels;
  bool filled = false;
};

// c[i * n + j] = sum over p of a(i, p) * b(p, j); c is m x n, row major. m, n, k >= 0. `packed`:
// null, or of this very A (not filled: the call fills it where A is small enough to keep).
void Gemm(int64_t m, int64_t n, int64_t k, const Indexed<float>& a, const Indexed<float>& b,
          float* c, PackedRows<float>* packed = nullptr);
void Gemm(int64_t m, int64_t n, int64_t k, const Indexed<double>& a, const Indexed<double>& b,
          double* c, PackedRows<double>* packed = nullptr);

}  // namespace tpuc
