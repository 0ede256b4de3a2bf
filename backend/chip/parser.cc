// Reads a .chip file: `name = value  kind  "source"` lines under [section] headings.
//
//   [latency]
//   valu = 2   measured  "critical-path dumps"
//
// The list of fields below is the format: every name must be there exactly once, nothing else may
// be, and each number must lie in its range, so that no chip can make tpuc allocate without bound.
#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "backend/chip/chip.h"

namespace tpuc {
namespace {

struct Field {
  std::string section, name;
  double low = 0, high = 0;
  bool whole = true;
  double value = 0;
  int line = 0;  // 0: not seen
};

std::vector<Field> KnownFields() {
  std::vector<Field> fields = {
      {"machine", "clock_mhz", 1, 100000, false},
      {"machine", "vector_registers", 1, 1024},
      {"machine", "mask_registers", 1, 256},
      {"machine", "scalar_registers", 1, 1024},
      {"machine", "predicate_registers", 1, 256},
      {"machine", "sublanes", 1, 64},
      {"machine", "lanes", 1, 1024},
      {"machine", "mxus", 1, 8},
      {"machine", "mxu_size", 128, 256},
      {"machine", "xlus", 1, 8},
      {"machine", "delay_slots", 0, 16},
      {"machine", "eup_bits", 0, 23},
  };
  for (const char* name : {"salu", "valu", "eup", "vex", "pop", "load", "store", "memory_total",
                           "misc", "smem_access", "branch", "dma_start", "immediates"}) {
    fields.push_back({"slots", name, 1, 64});
  }
  for (const char* name : {"mrf_depth", "xlu_depth", "eup_depth", "v2s_depth"}) {
    fields.push_back({"queues", name, 1, 4096});
  }
  constexpr double kTiB = 1099511627776.0;
  fields.push_back({"memory", "hbm_bytes", 512, 4 * kTiB});
  fields.push_back({"memory", "vmem_bytes", 4096, 4294967296.0});
  fields.push_back({"memory", "smem_bytes", 4, 1073741824.0});
  fields.push_back({"memory", "sync_flags", 1, 65536});
  fields.push_back({"memory", "scoped_vmem_bytes", 4096, 4294967296.0});
  fields.push_back({"memory", "hbm_gb_per_s", 0.001, 1e6, false});
  fields.push_back({"memory", "vmem_dma_bytes_per_cycle", 0.001, 1e6, false});
  fields.push_back({"memory", "dma_fixed_cycles", 0, 1e6});
  fields.push_back({"memory", "dma_segment_cycles", 0, 1e6});
  fields.push_back({"memory", "dma_in_flight", 1, 65536});
  for (const char* name : {
#define LATENCY(id, text) text,
#include "backend/chip/keys.def"
#undef LATENCY
       }) {
    fields.push_back({"latency", name, 1, 100000});
  }
  for (const char* name : {
#define INTERVAL(id, text) text,
#include "backend/chip/keys.def"
#undef INTERVAL
       }) {
    fields.push_back({"interval", name, 1, 100000});
  }
  return fields;
}

class Parser {
 public:
  Parser(std::shared_ptr<const Source> source, DiagSink* diags)
      : source_(std::move(source)), diags_(diags), fields_(KnownFields()) {}

  std::unique_ptr<Chip> Parse() {
    int before = diags_->errors();
    int number = 0;
    for (absl::string_view line : absl::StrSplit(source_->text, '\n')) {
      ++number;
      ParseLine(absl::StripAsciiWhitespace(line), line, number);
    }
    if (chip_->name.empty()) Error(DiagCode::kChipMissing, 0, 0, "[machine] name is missing");
    for (const Field& f : fields_) {
      if (f.line == 0) {
        Error(DiagCode::kChipMissing, 0, 0,
              absl::StrCat("[", f.section, "] ", f.name, " is missing"));
      }
    }
    if (diags_->errors() != before) return nullptr;
    Fill();
    return std::move(chip_);
  }

 private:
  Diag& Error(DiagCode code, int line, int column, std::string message) {
    return diags_->Add(code, source_, Loc{line, column}, std::move(message));
  }

  void ParseLine(absl::string_view text, absl::string_view line, int number) {
    int column = static_cast<int>(text.data() - line.data()) + 1;
    if (text.empty() || text[0] == '#') return;
    if (text[0] == '[') {
      if (text.back() != ']') {
        Error(DiagCode::kChipSyntax, number, column, "section heading without ']'");
        return;
      }
      section_ = std::string(absl::StripAsciiWhitespace(text.substr(1, text.size() - 2)));
      return;
    }
    ParseRow(text, number, column);
  }

  void ParseRow(absl::string_view text, int number, int column) {
    std::pair<absl::string_view, absl::string_view> sides =
        absl::StrSplit(text, absl::MaxSplits('=', 1));
    ChipRow row;
    row.section = section_;
    row.name = std::string(absl::StripAsciiWhitespace(sides.first));
    absl::string_view rest = absl::StripAsciiWhitespace(sides.second);
    row.value = std::string(TakeWord(&rest));
    row.kind = std::string(TakeWord(&rest));
    if (row.name.empty() || row.value.empty() || rest.size() < 2 || rest.front() != '"' ||
        rest.back() != '"') {
      Error(DiagCode::kChipSyntax, number, column,
            "expected: name = value  measured|published|derived|assumed  \"source\"");
      return;
    }
    row.source = std::string(rest.substr(1, rest.size() - 2));
    if (row.kind != "measured" && row.kind != "published" && row.kind != "derived" &&
        row.kind != "assumed") {
      Error(DiagCode::kChipSyntax, number, column,
            absl::StrCat("unknown kind '", row.kind,
                         "': one of measured, published, derived, assumed"));
      return;
    }
    if (row.section == "machine" && row.name == "name") {
      if (!chip_->name.empty()) {
        Error(DiagCode::kChipDuplicate, number, column, "[machine] name is given twice");
      }
      chip_->name = row.value;
    } else if (!SetField(row, number, column)) {
      return;
    }
    chip_->rows.push_back(std::move(row));
  }

  static absl::string_view TakeWord(absl::string_view* rest) {
    size_t end = rest->find_first_of(" \t");
    absl::string_view word = rest->substr(0, end);
    *rest = end == absl::string_view::npos ? absl::string_view()
                                           : absl::StripAsciiWhitespace(rest->substr(end));
    return word;
  }

  bool SetField(const ChipRow& row, int number, int column) {
    std::vector<std::string> names;
    for (Field& f : fields_) {
      if (f.section != row.section) continue;
      names.push_back(f.name);
      if (f.name != row.name) continue;
      if (f.line != 0) {
        Error(
            DiagCode::kChipDuplicate, number, column,
            absl::StrCat("[", f.section, "] ", f.name, " is given twice; first on line ", f.line));
        return false;
      }
      f.line = number;
      double v = 0;
      if (!absl::SimpleAtod(row.value, &v) || !(v >= f.low && v <= f.high) ||
          (f.whole && v != std::floor(v))) {
        Error(
            DiagCode::kChipValue, number, column,
            absl::StrCat(f.name, " = ", row.value, ": expected ",
                         f.whole ? "a whole number" : "a number", " from ", f.low, " to ", f.high));
        return false;
      }
      if (f.name == "mxu_size" && v != f.low && v != f.high) {
        Error(DiagCode::kChipValue, number, column,
              absl::StrCat("mxu_size = ", row.value, ": expected 128 or 256"));
        return false;
      }
      f.value = v;
      return true;
    }
    Diag& diag =
        Error(DiagCode::kChipUnknown, number, column,
              names.empty() ? absl::StrCat("unknown section [", row.section, "]")
                            : absl::StrCat("unknown name '", row.name, "' in [", row.section, "]"));
    std::string near = names.empty() ? NearestName(row.section, {"machine", "slots", "queues",
                                                                 "memory", "latency", "interval"})
                                     : NearestName(row.name, names);
    if (!near.empty()) diag.hint = absl::StrCat("did you mean '", near, "'?");
    return false;
  }

  double Value(absl::string_view section, absl::string_view name) const {
    for (const Field& f : fields_) {
      if (f.section == section && f.name == name) return f.value;
    }
    return 0;
  }
  int Int(absl::string_view section, absl::string_view name) const {
    return static_cast<int>(Value(section, name));
  }

  void Fill() {
    Chip& c = *chip_;
    c.text = source_->text;
    c.clock_mhz = Value("machine", "clock_mhz");
    c.vector_registers = Int("machine", "vector_registers");
    c.mask_registers = Int("machine", "mask_registers");
    c.scalar_registers = Int("machine", "scalar_registers");
    c.predicate_registers = Int("machine", "predicate_registers");
    c.sublanes = Int("machine", "sublanes");
    c.lanes = Int("machine", "lanes");
    c.mxus = Int("machine", "mxus");
    c.mxu_size = Int("machine", "mxu_size");
    c.xlus = Int("machine", "xlus");
    c.delay_slots = Int("machine", "delay_slots");
    c.eup_bits = Int("machine", "eup_bits");
    c.salu = Int("slots", "salu");
    c.valu = Int("slots", "valu");
    c.eup = Int("slots", "eup");
    c.vex = Int("slots", "vex");
    c.pop = Int("slots", "pop");
    c.load = Int("slots", "load");
    c.store = Int("slots", "store");
    c.memory_total = Int("slots", "memory_total");
    c.misc = Int("slots", "misc");
    c.smem_access = Int("slots", "smem_access");
    c.branch = Int("slots", "branch");
    c.dma_start = Int("slots", "dma_start");
    c.immediates = Int("slots", "immediates");
    c.mrf_depth = Int("queues", "mrf_depth");
    c.xlu_depth = Int("queues", "xlu_depth");
    c.eup_depth = Int("queues", "eup_depth");
    c.v2s_depth = Int("queues", "v2s_depth");
    c.hbm_bytes = static_cast<int64_t>(Value("memory", "hbm_bytes"));
    c.vmem_bytes = static_cast<int64_t>(Value("memory", "vmem_bytes"));
    c.smem_bytes = static_cast<int64_t>(Value("memory", "smem_bytes"));
    c.sync_flags = Int("memory", "sync_flags");
    c.scoped_vmem_bytes = static_cast<int64_t>(Value("memory", "scoped_vmem_bytes"));
    c.hbm_bytes_per_cycle = Value("memory", "hbm_gb_per_s") * 1000.0 / c.clock_mhz;
    c.vmem_dma_bytes_per_cycle = Value("memory", "vmem_dma_bytes_per_cycle");
    c.dma_fixed_cycles = Int("memory", "dma_fixed_cycles");
    c.dma_segment_cycles = Int("memory", "dma_segment_cycles");
    c.dma_in_flight = Int("memory", "dma_in_flight");
#define LATENCY(id, text) c.latencies[static_cast<int>(LatencyKey::id)] = Int("latency", text);
#include "backend/chip/keys.def"
#undef LATENCY
#define INTERVAL(id, text) c.intervals[static_cast<int>(IntervalKey::id)] = Int("interval", text);
#include "backend/chip/keys.def"
#undef INTERVAL
  }

  std::shared_ptr<const Source> source_;
  DiagSink* diags_;
  std::vector<Field> fields_;
  std::string section_;
  std::unique_ptr<Chip> chip_ = std::make_unique<Chip>();
};

}  // namespace

std::unique_ptr<Chip> ParseChip(std::shared_ptr<const Source> source, DiagSink* diags) {
  return Parser(std::move(source), diags).Parse();
}

}  // namespace tpuc
