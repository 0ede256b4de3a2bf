#include "src/cli/execute.h"

#include "absl/strings/str_cat.h"
#include "backend/chip/chip.h"
#include "backend/interp/interp.h"
#include "grammar/hlo/parser.h"
#include "src/cli/arguments.h"
#include "src/cli/trace.h"
#include "src/ir/tiling.h"

namespace tpuc::cli {
namespace {

std::optional<Shape> PortShape(const isa::Port& p, absl::string_view what, DiagSink* diags) {
  Shape shape;
  if (ParseShapeText(p.shape, &shape) && shape.IsArray()) return shape;
  diags->Add(DiagCode::kBundleSyntax,
             absl::StrCat(what, " '", p.name, "' has no array shape: '", p.shape, "'"));
  return std::nullopt;
}

SlotCounts Slots(const interp::SlotCounts& s) {
  return {s.mxu, s.xlu, s.valu, s.eup, s.load, s.store, s.salu};
}

KernelRun Kernel(const interp::KernelRun& k) {
  std::vector<OperationRun> operations;
  for (const interp::OperationRun& o : k.operations) {
    operations.push_back({o.source, o.instructions, Slots(o.slots)});
  }
  return {k.calls,
          k.cycles,
          k.bundles,
          k.instructions,
          {k.stall_operand, k.stall_unit, k.stall_dma, k.stall_queue},
          Slots(k.slots),
          std::move(operations),
          k.hbm_read_bytes,
          k.hbm_written_bytes};
}

// What a compiled program relies on. Latencies, bandwidths and clock may differ: "what if".
bool SameMachine(const Chip& a, const Chip& b) {
  auto key = [](const Chip& c) {
    return std::vector<int64_t>{c.vector_registers,
                                c.mask_registers,
                                c.scalar_registers,
                                c.predicate_registers,
                                c.sublanes,
                                c.lanes,
                                c.mxus,
                                c.mxu_size,
                                c.xlus,
                                c.delay_slots,
                                c.salu,
                                c.valu,
                                c.eup,
                                c.vex,
                                c.pop,
                                c.load,
                                c.store,
                                c.memory_total,
                                c.misc,
                                c.smem_access,
                                c.branch,
                                c.dma_start,
                                c.immediates,
                                c.mrf_depth,
                                c.xlu_depth,
                                c.eup_depth,
                                c.v2s_depth};
  };
  return key(a) == key(b);
}

// The chip to run on: the one asked for, if the program fits it, or that of the program's own text,
// which `own` keeps alive.
const Chip* ChipOf(const isa::Program& program, const ExecuteOptions& options,
                   std::unique_ptr<Chip>* own, DiagSink* diags) {
  if (options.chip && options.chip->text == program.chip_text) return options.chip;
  *own = ParseChip(std::make_shared<Source>(Source{program.chip_name + ".chip", program.chip_text}),
                   diags);
  if (!*own || !options.chip) return own->get();
  if (SameMachine(**own, *options.chip)) return options.chip;
  diags
      ->Add(DiagCode::kUsage, absl::StrCat("the program was compiled for ", (*own)->name,
                                           ", whose slots, registers, "
                                           "delay slots or queues are not those of ",
                                           options.chip->name))
      .hint = "compile for the chip it is to run on";
  return nullptr;
}

}  // namespace

std::optional<std::vector<InputPort>> InputPorts(const isa::Program& program, DiagSink* diags) {
  std::vector<InputPort> ports;
  for (const isa::Port& p : program.inputs) {
    auto shape = PortShape(p, "input", diags);
    if (!shape) return std::nullopt;
    ports.push_back({p.name, std::move(*shape)});
  }
  return ports;
}

std::optional<Execution> Execute(const isa::Program& program, const std::vector<Literal>& inputs,
                                 const ExecuteOptions& options, DiagSink* diags) {
  std::unique_ptr<Chip> own;
  const Chip* chip = ChipOf(program, options, &own, diags);
  if (!chip) return std::nullopt;
  std::vector<interp::PortData> data(program.inputs.size());
  for (size_t i = 0; i < inputs.size() && i < data.size(); ++i) {
    auto shape = PortShape(program.inputs[i], "input", diags);
    if (!shape) return std::nullopt;
    if (inputs[i].byte_size() == 0) continue;
    if (program.inputs[i].buffer >= 0) data[i].bytes = PackToDevice(inputs[i], *shape);
  }
  interp::RunOptions run;
  run.timing_only = options.timing_only;
  run.max_cycles = options.max_cycles;
  run.simd = options.simd;
  run.warm = options.warm;
  run.spans = options.spans;
  run.trace = options.trace;
  interp::RunResult result = interp::Run(program, *chip, data, run);
  if (!result.ok) {
    interp::AddFault(result.fault, diags);
    return std::nullopt;
  }
  Execution done;
  done.chip = *chip;
  done.stats.cycles = result.cycles;
  done.stats.time_us = static_cast<double>(result.cycles) / chip->clock_mhz;
  done.stats.hbm_bytes = result.hbm_bytes;
  for (const interp::KernelRun& k : result.kernels) done.stats.kernels.push_back(Kernel(k));
  done.stats.tlp = Kernel(result.tlp);
  for (const interp::CopyRun& c : result.copies) {
    done.stats.copies.push_back({c.start, c.done, c.wait_stall});
  }
  if (options.trace) done.trace = TraceJson(program, *chip, result);
  for (const interp::KernelSpan& s : result.kernel_spans) {
    done.stats.spans.push_back({s.kernel, s.start, s.end});
  }
  for (size_t i = 0; i < program.outputs.size() && !options.timing_only; ++i) {
    auto shape = PortShape(program.outputs[i], "output", diags);
    if (!shape) return std::nullopt;
    done.outputs.push_back(program.outputs[i].buffer < 0
                               ? Literal(*shape)
                               : UnpackFromDevice(result.outputs[i], *shape));
  }
  return done;
}

}  // namespace tpuc::cli
