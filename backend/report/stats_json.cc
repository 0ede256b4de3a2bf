#include <nlohmann/json.hpp>

#include "backend/report/operations.h"
#include "backend/report/stats.h"

namespace tpuc {
namespace {

using Json = nlohmann::json;  // an std::map inside: keys come out sorted

const char* MemoryName(isa::Memory m) {
  switch (m) {
    case isa::Memory::kHbm:
      return "hbm";
    case isa::Memory::kVmem:
      return "vmem";
    case isa::Memory::kSmem:
      return "smem";
    case isa::Memory::kSync:
      return "sync";
  }
  return "";
}

Json SlotsJson(const SlotCounts& s) {
  return {{"mxu", s.mxu},   {"xlu", s.xlu},     {"valu", s.valu}, {"eup", s.eup},
          {"load", s.load}, {"store", s.store}, {"salu", s.salu}};
}

Json LoopsJson(const std::vector<isa::LoopInfo>& loops) {
  Json out = Json::array();
  for (const isa::LoopInfo& l : loops) {
    out.push_back({{"mii", l.mii},
                   {"ii", l.ii},
                   {"stages", l.stages},
                   {"trips", l.trips},
                   {"bound", l.bound}});
  }
  return out;
}

Json OperationsJson(const std::vector<OperationShare>& operations) {
  Json out = Json::array();
  for (const OperationShare& o : operations) {
    Json row = {{"name", o.name},
                {"place", o.place},
                {"instructions", o.instructions},
                {"slots", SlotsJson(o.slots)}};
    if (o.dot != nullptr) {
      row["dot"] = {{"m", o.dot->m},
                    {"k", o.dot->k},
                    {"n", o.dot->n},
                    {"k_padded", o.dot->k_padded},
                    {"n_padded", o.dot->n_padded},
                    {"on_zeros", o.on_zeros}};
    }
    out.push_back(std::move(row));
  }
  return out;
}

Json KernelJson(const isa::Program& program, const isa::Function& f, int64_t static_calls,
                const KernelRun* run) {
  const isa::KernelInfo& i = f.info;
  Json k = {{"name", f.name},
            {"op_names", i.op_names},
            {"ops", i.ops},
            {"calls", run ? run->calls : static_calls},
            {"grid_steps", i.grid_steps},
            {"bundles", f.bundles.size()},
            {"schedule_cycles", i.schedule_cycles},
            {"instructions", run ? run->instructions : InstructionCount(f)},
            {"spills", i.spills},
            {"fills", i.fills},
            {"temp_loads", i.temp_loads},
            {"temp_stores", i.temp_stores},
            {"max_live_vregs", i.max_live_vregs},
            {"vmem_bytes", i.vmem_bytes},
            {"flops", i.flops},
            {"hbm_read_bytes", run ? run->hbm_read_bytes : i.hbm_read_bytes},
            {"hbm_written_bytes", run ? run->hbm_written_bytes : i.hbm_written_bytes},
            {"loops", LoopsJson(i.loops)},
            {"slots", SlotsJson(run ? run->slots : CountSlots(f))}};
  if (run) {
    const std::vector<OperationShare> operations = OperationsOf(program, f, *run);
    k["operations"] = OperationsJson(operations);
    k["mxu_on_zeros"] = MxuOnZeros(operations);
    k["cycles"] = run->cycles;
    k["stalls"] = {{"operand", run->stalls.operand},
                   {"unit", run->stalls.unit},
                   {"dma", run->stalls.dma},
                   {"queue", run->stalls.queue}};
  }
  return k;
}

int64_t StaticHbmBytes(const isa::Program& p, const std::vector<int64_t>& calls) {
  int64_t bytes = 0;
  for (size_t k = 0; k < p.kernels.size(); ++k) {
    const isa::KernelInfo& i = p.kernels[k].info;
    bytes += calls[k] * (i.hbm_read_bytes + i.hbm_written_bytes);
  }
  for (const isa::Copy& c : p.copies) bytes += c.bytes;
  return bytes;
}

}  // namespace

std::string StatsJson(const isa::Program& program, const RunStats* run, const CheckResult* check) {
  std::vector<int64_t> calls = StaticCalls(program);
  Json kernels = Json::array();
  for (size_t k = 0; k < program.kernels.size(); ++k) {
    bool counted = run && k < run->kernels.size();
    kernels.push_back(
        KernelJson(program, program.kernels[k], calls[k], counted ? &run->kernels[k] : nullptr));
  }
  Json buffers = Json::array();
  for (const isa::Buffer& b : program.buffers) {
    buffers.push_back({{"name", b.name},
                       {"space", MemoryName(b.memory)},
                       {"offset", b.offset},
                       {"bytes", b.bytes},
                       {"from", b.from},
                       {"to", b.to}});
  }
  Json copies = Json::array();
  for (const isa::Copy& c : program.copies) {
    copies.push_back({{"name", c.name},
                      {"bytes", c.bytes},
                      {"start", c.start},
                      {"done", c.done},
                      {"cross_program", c.cross_program}});
  }
  Json out = {{"schema", "tpuc.stats/1"},      {"module", program.module},
              {"chip", program.chip_name},     {"options", program.options},
              {"kernels", std::move(kernels)}, {"buffers", std::move(buffers)},
              {"copies", std::move(copies)}};
  out["hbm_bytes"] = run ? run->hbm_bytes : StaticHbmBytes(program, calls);
  if (run) {
    out["cycles"] = run->cycles;
    out["time_us"] = run->time_us;
  }
  if (check) {
    out["check"] = {{"ok", check->ok},
                    {"max_abs", check->max_abs},
                    {"max_rel", check->max_rel},
                    {"rms", check->rms}};
  }
  return out.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tpuc
