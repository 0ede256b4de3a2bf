// NumPy's array files: .npy (one array) and .npz (a zip of them), read and written.
//
// Whatever the file holds - Fortran order, big-endian, stored or deflated members, zip64 fields -
// an NpyArray is row-major and little-endian. Sizes are checked against the file before anything is
// allocated; a file that lies about itself is a diagnostic, never a crash.
//
//   a.npz {in0: float32[8,128]}  ->  LiteralFromArray(in0, f32[8,128])
//   bf16 literal                 ->  uint16 of its bits, which is how such arrays are exchanged
//
// The format: numpy.lib.format (versions 1-3) and PKWARE's APPNOTE for zip.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "src/diag/diag.h"
#include "src/ir/literal.h"
#include "src/ir/shape.h"

namespace tpuc {

struct NpyArray {
  char kind = 'f';  // NumPy's: f i u b c V (raw)
  int item_bytes = 4;
  std::vector<int64_t> dims;
  std::vector<uint8_t> data;  // row-major, little-endian
  int64_t size() const;
};
// "float32[8,128]", for messages.
std::string ToString(const NpyArray& array);

struct NpzFile {
  struct Entry {
    std::string name;  // without ".npy"
    NpyArray array;
  };
  std::vector<Entry> entries;
  const NpyArray* Find(absl::string_view name) const;
};

// `bytes` is the file; `file` its name for diagnostics (E0302 corrupt, E0303 type not read).
std::optional<NpyArray> ParseNpy(absl::string_view bytes, const std::string& file, DiagSink* diags);
std::optional<NpzFile> ParseNpz(absl::string_view bytes, const std::string& file, DiagSink* diags);
// Either, by content; a lone array is an entry named "".
std::optional<NpzFile> ReadArrays(const std::string& path, DiagSink* diags);

// The bytes of a file. The same arrays give the same bytes.
std::string FormatNpy(const NpyArray& array);
std::string FormatNpz(const NpzFile& file);  // stored, as np.savez

// The array as a literal of `shape` (array shapes). Types must be the same; those that NumPy lacks
// come as their bits (bf16: uint16 or two raw bytes; f8, f4, f6: one byte) or, for integers below 8
// bits, as int8/uint8 values. Nothing and a message in *error otherwise.
std::optional<Literal> LiteralFromArray(const NpyArray& array, const Shape& shape,
                                        std::string* error);
// An array literal; types NumPy lacks as above.
NpyArray ArrayFromLiteral(const Literal& literal);

}  // namespace tpuc
