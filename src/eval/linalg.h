// cholesky, triangular-solve, fft: dense linear algebra over the last dimensions, computed in f64
// (complex f64) and rounded once.
#pragma once

#include <string>

#include "absl/types/span.h"
#include "src/ir/hlo.h"

namespace tpuc {

// The triangular factor (lower: A = L L^H, else A = U^H U) of each matrix; the other triangle is 0.
// Only the triangle asked for is read. A matrix that is not positive definite gives NaN
// everywhere.
bool EvalCholesky(const Literal& a, bool lower, Literal* out, std::string* error);

// Solves op(a) x = b (left_side) or x op(a) = b, batch by batch.
bool EvalTriangularSolve(const Literal& a, const Literal& b, absl::Span<const Attr> attrs,
                         Literal* out, std::string* error);

// Over the last fft_length.size() dimensions. IFFT and IRFFT divide by the number of points; IRFFT
// reads the half spectrum as that of a real signal.
bool EvalFft(const Literal& a, absl::string_view type, const Ints& lengths, Literal* out,
             std::string* error);

}  // namespace tpuc
