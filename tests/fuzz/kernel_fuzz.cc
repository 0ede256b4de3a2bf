// Fuzzes the kernel parser, verifier, printer and (small programs) the block evaluator: what parses
// prints to text that parses to the same text, and nothing crashes.
#include <cstdint>
#include <cstdlib>

#include "backend/kernel/block_eval.h"
#include "backend/kernel/verifier.h"
#include "grammar/kernel/parser.h"
#include "grammar/kernel/printer.h"
#include "src/eval/inputs.h"

namespace {

bool Small(const tpuc::kernel::Program& p) {
  int64_t work = 0;
  for (const auto& b : p.buffers) work += b.shape.ElementCount() > 10000 ? 100000 : 1;
  for (const auto& k : p.kernels) {
    if (k.GridSteps() > 16) return false;
    for (const auto& n : k.nodes) {
      if (n.shape.IsArray() && n.shape.ElementCount() > 10000) return false;
      if (n.kind == tpuc::kernel::Node::Kind::kFor && n.upper - n.lower > 8) return false;
    }
    for (const auto& r : k.refs) {
      if (r.BlockShape().ElementCount() > 100000) return false;
    }
  }
  return work < 1000;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto source = std::make_shared<tpuc::Source>(
      tpuc::Source{"fuzz", std::string(reinterpret_cast<const char*>(data), size)});
  tpuc::DiagSink diags;
  auto program = tpuc::ParseKernels(source, {}, &diags);
  if (program != nullptr) {
    const std::string text = tpuc::PrintKernels(*program);
    auto again =
        tpuc::ParseKernels(std::make_shared<tpuc::Source>(tpuc::Source{"again", text}), {}, &diags);
    if (!again || tpuc::PrintKernels(*again) != text) std::abort();
    tpuc::Chip chip;
    chip.hbm_bytes = int64_t{1} << 34;
    chip.vmem_bytes = chip.scoped_vmem_bytes = int64_t{1} << 27;
    if (tpuc::VerifyKernels(*program, chip, &diags) && Small(*program)) {
      std::vector<tpuc::Literal> inputs;
      for (const auto& port : program->inputs) {
        inputs.push_back(
            tpuc::GenerateInput(tpuc::Shape::Array(port.shape.type, port.shape.dims), 0, 0));
      }
      tpuc::EvaluateKernels(*program, std::move(inputs), {}, &diags);
    }
  }
  diags.Render();
  return 0;
}
