#include "src/cli/sweep_run.h"

#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "backend/report/bounds.h"
#include "src/cli/check.h"
#include "src/cli/flags.h"
#include "src/cli/kernel_file.h"
#include "src/cli/reference.h"
#include "src/cli/version.h"
#include "src/io/file.h"

namespace tpuc::cli {
namespace {

using Json = nlohmann::json;  // an std::map inside: keys come out sorted

constexpr char kSchema[] = "tpuc.sweep/1";

// 64-bit FNV-1a; parts are kept apart by their lengths.
class Hash {
 public:
  void Add(absl::string_view text) {
    AddBytes(absl::StrCat(text.size(), ":"));
    AddBytes(text);
  }
  std::string Hex() const { return absl::StrFormat("%016x", h_); }

 private:
  void AddBytes(absl::string_view bytes) {
    for (const char c : bytes) h_ = (h_ ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  }
  uint64_t h_ = 0xcbf29ce484222325u;
};

Json ErrorJson(const DiagSink& diags) {
  for (const Diag& d : diags.diags()) {
    if (InfoOf(d.code).severity != Severity::kError) continue;
    Json e = {{"code", std::string(InfoOf(d.code).code)}, {"message", d.message}};
    if (d.source && d.loc.line > 0) {
      e["place"] = absl::StrCat(d.source->name, ":", d.loc.line, ":", d.loc.column);
    }
    if (!d.hint.empty()) e["hint"] = d.hint;
    return e;
  }
  return {{"code", ""}, {"message", "no result"}};
}

// Sums over kernels, and each kernel.
void AddCounts(const isa::Program& program, const RunStats& run, const Chip& chip, Json* line) {
  KernelRun all = run.tlp;
  int64_t steps = 0, vmem = 0, bundles = program.tlp.bundles.size(), spills = 0, fills = 0,
          flops = 0;
  Json kernels = Json::array();
  for (size_t k = 0; k < run.kernels.size(); ++k) {
    const KernelRun& r = run.kernels[k];
    const isa::KernelInfo& i = program.kernels[k].info;
    all.cycles += r.cycles;
    all.stalls.operand += r.stalls.operand;
    all.stalls.unit += r.stalls.unit;
    all.stalls.dma += r.stalls.dma;
    all.stalls.queue += r.stalls.queue;
    steps += r.calls * i.grid_steps;
    vmem = std::max(vmem, i.vmem_bytes);
    bundles += program.kernels[k].bundles.size();
    spills += i.spills;
    fills += i.fills;
    flops += r.calls * i.flops;
    kernels.push_back({{"bound", BoundBy(r)},
                       {"cycles", r.cycles},
                       {"dma_stall_cycles", r.stalls.dma},
                       {"grid_steps", r.calls * i.grid_steps},
                       {"name", program.kernels[k].name},
                       {"spills", i.spills},
                       {"vmem_bytes", i.vmem_bytes}});
  }
  Json& l = *line;
  l["bound"] = BoundBy(all);
  l["bundles"] = bundles;
  l["cycles"] = run.cycles;
  l["dma_stall_cycles"] = all.stalls.dma;
  l["fills"] = fills;
  l["flops"] = flops;
  l["flop_share"] = run.cycles > 0 ? flops / (PeakFlopsPerCycle(chip) * run.cycles) : 0.0;
  l["grid_steps"] = steps;
  l["hbm_bytes"] = run.hbm_bytes;
  l["kernels"] = std::move(kernels);
  l["spills"] = spills;
  l["time_us"] = run.time_us;
  l["vmem_bytes"] = vmem;
}

// False where `diags` has the reason.
bool Run(const SweepJob& job, const SweepSettings& settings, Json* line, DiagSink* diags) {
  auto compiled = Compile(job.source, job.options, diags);
  if (!compiled || !compiled->program) return false;
  const isa::Program& program = *compiled->program;
  std::vector<Literal> inputs;
  auto ports = InputPorts(program, diags);
  if (!ports) return false;
  auto read = settings.execute.timing_only
                  ? ReadDecidingInputs(*ports, settings.inputs, settings.seed, diags)
                  : ReadInputs(*ports, settings.inputs, settings.seed, diags);
  if (!read) return false;
  inputs = std::move(*read);
  ExecuteOptions execute = settings.execute;
  execute.chip = job.options.chip;
  auto done = Execute(program, inputs, execute, diags);
  if (!done) return false;
  AddCounts(program, done->stats, done->chip, line);
  if (!settings.check) return true;
  ReferenceOptions reference{Numbers::kChip, job.options.set, job.options.set_words};
  reference.elided = settings.elided;
  auto expected = RunReference(job.source, reference, &inputs, diags);
  if (!expected) return false;
  std::string wrong;
  const CheckResult check =
      CheckResults(expected->outputs, done->outputs, {false, {}, expected->dots, false}, &wrong);
  (*line)["check"] = {
      {"max_abs", check.max_abs}, {"max_rel", check.max_rel}, {"ok", check.ok}, {"rms", check.rms}};
  return true;
}

}  // namespace

std::optional<SweepJob> MakeSweepJob(const SweepPoint& point, std::shared_ptr<const Source> source,
                                     const SweepChips& chips, const SweepSettings& settings,
                                     DiagSink* diags) {
  SweepJob job{point, std::move(source), {}};
  CompileOptions& o = job.options;
  o.chip = chips.front().second;
  o.replicate_statistics = settings.replicate_statistics;
  o.seed = settings.seed;
  o.elided = settings.elided;
  std::vector<std::string> set;
  for (const auto& [name, value] : point.values) {
    bool ok = true;
    if (name == "--chip") {
      for (const auto& [chip_name, chip] : chips) {
        if (chip_name == value) o.chip = chip;
      }
    } else if (name == "-O") {
      ok = absl::SimpleAtoi(value, &o.opt_level) && (o.opt_level == 0 || o.opt_level == 2);
    } else if (name == "--strips") {
      o.strips = value;
      ok = value == "auto" || value == "whole";
    } else if (name == "--vmem-limit") {
      ok = ParseBytes(value, &o.vmem_limit);
    } else {
      set.push_back(absl::StrCat(name, "=", value));
    }
    if (ok) continue;
    diags->Add(DiagCode::kUsage, absl::StrCat(name, " cannot be '", value, "'"));
    return std::nullopt;
  }
  if (!ParseSettings(set, &o.set, &o.set_words, diags)) return std::nullopt;
  return job;
}

std::string SweepKey(const SweepJob& job, const SweepSettings& settings) {
  const CompileOptions& o = job.options;
  Hash h;
  h.Add(kVersion);
  h.Add(job.source->text);
  h.Add(o.chip->text);
  h.Add(absl::StrCat(o.opt_level, " ", o.strips, " ", o.vmem_limit, " ", o.replicate_statistics,
                     " ", settings.execute.timing_only, " ", settings.execute.warm, " ",
                     settings.execute.max_cycles, " ", settings.check, " ", settings.seed));
  for (const auto& [name, value] : o.set) h.Add(absl::StrCat(name, "=", value));
  for (const auto& [name, value] : o.set_words) h.Add(absl::StrCat(name, "=", value));
  if (o.elided == Elided::kXla) h.Add("--elided-constants=xla");
  h.Add(settings.input_bytes);
  h.Add(job.files);
  return h.Hex();
}

namespace {

// Of a name within a text: no blanks, quotes, brackets or separators.
bool InFileName(char c) { return absl::ascii_isalnum(c) || absl::StrContains("_-+./~@%", c); }

void AddFiles(const Source& source, absl::string_view text, int depth, FileContents* known,
              std::string* out) {
  constexpr int kDeepest = 4;  // a program, its kernels, their arrays
  for (size_t i = 0; i < text.size() && depth < kDeepest;) {
    size_t end = i;
    while (end < text.size() && InFileName(text[end])) ++end;
    const std::string name(text.substr(i, end - i));
    i = std::max(end, i) + 1;
    const bool kernel = absl::EndsWith(name, ".tk");
    if (!kernel && !absl::EndsWith(name, ".npy") && !absl::EndsWith(name, ".npz")) continue;
    const std::string path = PathBeside(&source, name);
    auto [it, added] = known->try_emplace(path);
    DiagSink unread;
    if (added && !ReadFile(path, &it->second, &unread)) it->second.clear();
    const std::string bytes = it->second;
    absl::StrAppend(out, path, ":", bytes.size(), ":", bytes);
    if (!kernel) continue;
    Source inner;
    inner.name = path;
    AddFiles(inner, bytes, depth + 1, known, out);
  }
}

}  // namespace

std::string NamedFiles(const Source& source, absl::string_view text, FileContents* known) {
  std::string out;
  AddFiles(source, text, 0, known, &out);
  return out;
}

std::string RunSweepJob(const SweepJob& job, const SweepSettings& settings) {
  Json line = {{"schema", kSchema},
               {"point", job.point.number},
               {"key", SweepKey(job, settings)},
               {"file", job.point.file},
               {"options", job.point.Options()},
               {"chip", job.options.chip->name},
               {"O", job.options.opt_level},
               {"strips", job.options.strips},
               {"set", Json::object()}};
  for (const auto& [name, value] : job.options.set) line["set"][name] = value;
  for (const auto& [name, value] : job.options.set_words) line["set"][name] = value;
  if (job.options.elided == Elided::kXla) line["elided_constants"] = "xla";
  DiagSink diags;
  if (!Run(job, settings, &line, &diags)) line["error"] = ErrorJson(diags);
  // Texts of programs may hold bytes that are no UTF-8.
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string KeyOfSweepLine(const std::string& line) {
  const Json j = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!j.is_object() || j.value("schema", Json()) != kSchema) return "";
  const auto key = j.find("key");
  return key != j.end() && key->is_string() ? key->get<std::string>() : "";
}

namespace {

struct Row {
  int64_t point = 0, cycles = -1;
  std::vector<std::string> cells;
};

Row RowOf(const Json& j) {
  const auto number = [&](const char* name) { return j.value(name, int64_t{0}); };
  Row r;
  r.point = number("point");
  r.cells = {absl::StrCat(r.point), j.value("file", "") + " " + j.value("options", "")};
  if (j.contains("error")) {
    r.cells.push_back(absl::StrCat(j["error"].value("code", ""), " ",
                                   j["error"].value("message", "").substr(0, 72)));
    return r;
  }
  r.cycles = number("cycles");
  const bool checked = j.contains("check");
  r.cells.insert(r.cells.end(), {absl::StrCat(number("grid_steps")), absl::StrCat(r.cycles),
                                 absl::StrFormat("%.2f", j.value("time_us", 0.0)),
                                 absl::StrFormat("%.0f%%", 100 * j.value("flop_share", 0.0)),
                                 absl::StrFormat("%.2f", number("hbm_bytes") / 1048576.0),
                                 absl::StrFormat("%.2f", number("vmem_bytes") / 1048576.0),
                                 absl::StrCat(number("spills")), j.value("bound", ""),
                                 !checked                        ? ""
                                 : j["check"].value("ok", false) ? "right"
                                                                 : "WRONG"});
  return r;
}

}  // namespace

std::string SweepTable(const std::vector<std::string>& lines) {
  constexpr size_t kMostRows = 60, kShownOfMany = 25;
  const std::vector<std::string> heads = {"point",   "program and options",
                                          "steps",   "cycles",
                                          "us",      "peak",
                                          "HBM MiB", "VMEM MiB",
                                          "spills",  "bound by",
                                          ""};
  std::vector<Row> rows;
  size_t failed = 0;
  for (const std::string& line : lines) {
    const Json j = Json::parse(line, nullptr, false);
    if (!j.is_object()) continue;
    rows.push_back(RowOf(j));
    failed += rows.back().cycles < 0;
  }
  const auto faster = [](const Row& a, const Row& b) {
    return std::pair(a.cycles < 0, a.cycles) < std::pair(b.cycles < 0, b.cycles);
  };
  std::string title;
  const size_t all = rows.size();
  if (all == 0) return "no points\n";
  const Row best = *std::min_element(rows.begin(), rows.end(), faster);
  if (all > kMostRows) {
    std::stable_sort(rows.begin(), rows.end(), faster);
    rows.resize(kShownOfMany);
    title = absl::StrCat("the ", kShownOfMany, " fastest of ", all, " points\n");
  }
  std::vector<size_t> width;
  for (const std::string& h : heads) width.push_back(h.size());
  for (const Row& r : rows) {
    if (r.cycles < 0) width[1] = std::max(width[1], r.cells[1].size());
    for (size_t c = 0; c < r.cells.size() && r.cycles >= 0; ++c) {
      width[c] = std::max(width[c], r.cells[c].size());
    }
  }
  const auto append = [&](const std::vector<std::string>& cells, bool words, std::string* out) {
    std::string text;
    for (size_t c = 0; c < cells.size(); ++c) {
      const bool left = c == 1 || c >= 9 || (words && c >= 2);
      const size_t pad = width[c] > cells[c].size() ? width[c] - cells[c].size() : 0;
      absl::StrAppend(&text, c > 0 ? "  " : "", left ? "" : std::string(pad, ' '), cells[c],
                      left ? std::string(pad, ' ') : "");
    }
    text.erase(text.find_last_not_of(' ') + 1);
    absl::StrAppend(out, text, "\n");
  };
  append(heads, false, &title);
  for (const Row& r : rows) append(r.cells, r.cycles < 0, &title);
  absl::StrAppend(&title, all, all == 1 ? " point" : " points", ", ", failed, " failed");
  if (best.cycles >= 0) {
    absl::StrAppend(&title, "; fastest: point ", best.point, ", ", best.cycles, " cycles");
  }
  return title + "\n";
}

}  // namespace tpuc::cli
