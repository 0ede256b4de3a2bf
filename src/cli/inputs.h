// The inputs of a run: arrays from --input files, the rest generated (oracle README); and results
// back into files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/diag/diag.h"
#include "src/io/npy.h"
#include "src/ir/literal.h"
#include "src/ir/shape.h"

namespace tpuc::cli {

struct InputPort {
  std::string name;
  Shape shape;  // may be a tuple
};

// Fills each port. An .npz fills by `in<i>`, `arr_<i>` (np.savez's own names), a port's name, or
// `in<i>.<leaf>` for a leaf of a tuple; each .npy is the next port in order. Ports without an array
// are generated from the seed.
std::optional<std::vector<Literal>> ReadInputs(const std::vector<InputPort>& ports,
                                               const std::vector<std::string>& files, uint64_t seed,
                                               DiagSink* diags);

// For runs without values: only those that may decide control flow and index maps (small arrays of
// integers) are made; the others are empty literals. All where files are given.
std::optional<std::vector<Literal>> ReadDecidingInputs(const std::vector<InputPort>& ports,
                                                       const std::vector<std::string>& files,
                                                       uint64_t seed, DiagSink* diags);

// The result's array leaves as out0, out1, ...
NpzFile OutputArrays(const Literal& result);
// To an .npz, or one array to an .npy; "-" is standard output.
bool WriteOutputs(const NpzFile& outputs, const std::string& path, DiagSink* diags);

}  // namespace tpuc::cli
