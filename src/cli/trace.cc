#include "src/cli/trace.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tpuc::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kProcess = 1, kKernelLane = 1;

class Writer {
 public:
  Writer(const isa::Program& program, const Chip& chip, const interp::RunResult& run)
      : program_(program), chip_(chip), run_(run) {}

  std::string Write() {
    Add({{"ph", "M"},
         {"name", "process_name"},
         {"args",
          {{"name", absl::StrCat(program_.module, " on ", program_.chip_name,
                                 " (1 us shown = 1 cycle)")}}}});
    Kernels();
    Units();
    Operations();
    Transfers();
    Counters();
    std::string text = "{\"displayTimeUnit\":\"ns\",\"otherData\":";
    text += Json({{"schema", "tpuc.trace/1"},
                  {"module", program_.module},
                  {"chip", program_.chip_name},
                  {"clock_mhz", chip_.clock_mhz},
                  {"cycles", run_.cycles}})
                .dump(-1, ' ', false, Json::error_handler_t::replace);
    absl::StrAppend(&text, ",\"traceEvents\":[\n", events_, "\n]}\n");
    return text;
  }

 private:
  void Add(Json event) {
    event["pid"] = kProcess;
    if (!events_.empty()) events_ += ",\n";
    events_ += event.dump(-1, ' ', false, Json::error_handler_t::replace);
  }

  // A row of the viewer.
  int Lane(const std::string& name) {
    const int lane = ++lanes_;
    Add({{"ph", "M"}, {"name", "thread_name"}, {"tid", lane}, {"args", {{"name", name}}}});
    Add({{"ph", "M"},
         {"name", "thread_sort_index"},
         {"tid", lane},
         {"args", {{"sort_index", lane}}}});
    return lane;
  }

  void Slice(int lane, const std::string& name, int64_t start, int64_t end, Json args) {
    Add({{"ph", "X"},
         {"name", name},
         {"tid", lane},
         {"ts", start},
         {"dur", end - start},
         {"args", std::move(args)}});
  }

  void Kernels() {
    const int lane = Lane("kernels");
    int64_t at = 0;
    auto between = [&](int64_t until, const char* name) {
      if (until > at) Slice(lane, name, at, until, {{"cycles", until - at}});
    };
    for (const interp::KernelSpan& s : run_.kernel_spans) {
      between(s.start, "top-level program");
      const isa::Function& f = program_.kernels[s.kernel];
      Slice(lane, f.name, s.start, s.end,
            {{"cycles", s.end - s.start}, {"ops", f.info.ops}, {"op_names", f.info.op_names}});
      at = s.end;
    }
    between(run_.cycles, "top-level program");
  }

  void Units() {
    const std::vector<std::string> names = interp::TraceLanes(chip_);
    int lane = 0, unit = -1;
    for (const interp::UnitSpan& s : run_.unit_spans) {
      if (s.lane != unit) lane = Lane(names[unit = s.lane]);
      Slice(lane, absl::StrFormat("%d%%", 100 * s.busy / std::max<int64_t>(1, s.end - s.start)),
            s.start, s.end, {{"busy_cycles", s.busy}});
    }
  }

  // Spans that overlap go to several lanes, each to the first that is free.
  int Free(const char* name, std::vector<std::pair<int, int64_t>>* lanes, int64_t start,
           int64_t end) {
    for (auto& [lane, until] : *lanes) {
      if (until > start) continue;
      until = end;
      return lane;
    }
    lanes->push_back({Lane(absl::StrCat(name, " ", lanes->size() + 1)), end});
    return lanes->back().first;
  }

  void Operations() {
    std::vector<interp::OpSpan> spans = run_.op_spans;
    std::stable_sort(spans.begin(), spans.end(), [](const auto& a, const auto& b) {
      return a.start != b.start ? a.start < b.start : a.end > b.end;
    });
    std::vector<std::pair<int, int64_t>> lanes;
    for (const interp::OpSpan& s : spans) {
      const isa::SourceEntry& source = program_.sources[s.source];
      Slice(Free("HLO", &lanes, s.start, s.end),
            source.op_name.empty() ? source.hlo : source.op_name, s.start, s.end,
            {{"hlo", source.hlo},
             {"source", source.place},
             {"kernel", program_.kernels[run_.kernel_spans[s.call].kernel].name},
             {"bundles", s.bundles}});
    }
  }

  void Transfers() {
    std::vector<interp::DmaSpan> spans = run_.dma_spans;
    std::stable_sort(spans.begin(), spans.end(),
                     [](const auto& a, const auto& b) { return a.start < b.start; });
    std::vector<std::pair<int, int64_t>> lanes;
    int64_t flow = 0;
    for (const interp::DmaSpan& s : spans) {
      const int64_t end = std::max(s.done, s.start + 1);
      const int lane = Free("DMA", &lanes, s.start, end);
      std::string hlo = s.source < 0 ? "" : program_.sources[s.source].hlo;
      Slice(lane, absl::StrCat(isa::Info(s.op).mnemonic, hlo.empty() ? "" : " ", hlo), s.start, end,
            {{"bytes", s.bytes},
             {"started_by", s.kernel < 0 ? "top-level program" : program_.kernels[s.kernel].name}});
      ++flow;
      auto arrow = [&](const char* phase, int to, int64_t at) {
        Json event = {{"ph", phase},   {"id", flow}, {"cat", "dma"},
                      {"name", "dma"}, {"tid", to},  {"ts", at}};
        if (*phase == 'f') event["bp"] = "e";
        Add(std::move(event));
      };
      arrow("s", kKernelLane, s.start);
      arrow("t", lane, s.start);
      arrow("f", kKernelLane, std::min(end, run_.cycles - 1));
    }
  }

  // Where in the program's schedule a kernel stands: its first result becomes live there.
  std::optional<int64_t> Position(const std::string& kernel) const {
    for (const isa::Buffer& b : program_.buffers) {
      if (b.name == kernel || b.name == kernel + "_0") return b.from;
    }
    return std::nullopt;
  }

  void Counters() {
    auto count = [&](const char* name, const char* unit, int64_t at, int64_t value) {
      Add({{"ph", "C"}, {"name", name}, {"ts", at}, {"args", {{unit, value}}}});
    };
    for (const interp::KernelSpan& s : run_.kernel_spans) {
      const isa::KernelInfo& info = program_.kernels[s.kernel].info;
      count("live vector registers, at most", "registers", s.start, info.max_live_vregs);
      count("live vector registers, at most", "registers", s.end, 0);
      auto position = Position(program_.kernels[s.kernel].name);
      if (!position) continue;
      int64_t bytes = info.vmem_bytes;
      for (const isa::Buffer& b : program_.buffers) {
        if (b.memory == isa::Memory::kVmem && b.from <= *position && *position <= b.to) {
          bytes += b.bytes;
        }
      }
      count("VMEM in use", "bytes", s.start, bytes);
      count("VMEM in use", "bytes", s.end, bytes - info.vmem_bytes);
    }
  }

  const isa::Program& program_;
  const Chip& chip_;
  const interp::RunResult& run_;
  std::string events_;
  int lanes_ = 0;
};

}  // namespace

std::string TraceJson(const isa::Program& program, const Chip& chip, const interp::RunResult& run) {
  return Writer(program, chip, run).Write();
}

}  // namespace tpuc::cli
