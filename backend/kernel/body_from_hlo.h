// The body of a kernel from HLO: one fusion (nested fusions inlined) or one operation on arrays
// becomes loads, operations and stores on whole blocks.
//
//   fused { p = f32[16,64] parameter(0)  m = multiply(p, p)  ROOT r = reduce(m, 0), dimensions={1}
//   } becomes  in p ..., out o ...;  p = p[:];  m = p * p;  o[:] = sum(m, axis=1);
//
// Forms are made canonical: bitcasts become reshapes and transposes, copies disappear (layouts are
// the refs'), scalars are broadcast where operands must agree, initial values of reductions are
// dropped or combined afterwards. It chooses no windows.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/kernel/kernel.h"
#include "src/diag/diag.h"
#include "src/ir/hlo.h"

namespace tpuc::kernel {

struct BodySource {
  Kernel kernel;
  // What each `in` ref reads: an operand of the instruction (>= 0), or a constant inside the
  // fusion.
  struct Operand {
    int operand = -1;
    const Instruction* constant = nullptr;
  };
  std::vector<Operand> inputs;  // one an `in` ref, in order
  std::vector<int64_t>
      outputs;  // one an `out` ref: leaf of the result; zero-sized leaves have none
};

// operand_names[i] is a good name for operand i. False after an error.
bool BodyFromHlo(const Module& module, const Instruction& instruction,
                 const std::vector<std::string>& operand_names, BodySource* result,
                 DiagSink* diags);

// `name` as an identifier of the kernel language ("get-tuple-element.3" -> "get_tuple_element.3").
std::string Identifier(absl::string_view name);

}  // namespace tpuc::kernel
