// tpuc sweep: one program, or several, at many points of options and parameters; one line of JSON a
// point, a table at the end. Points whose line is there already are not run again.
//
//   tpuc sweep flash.tk --set bq=256,512 --set bkv=512,1024 --where 'bkv % bq == 0' -o r.jsonl -j 2
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "grammar/hlo/parser.h"
#include "grammar/kernel/constraint.h"
#include "src/cli/arguments.h"
#include "src/cli/commands.h"
#include "src/cli/flags.h"
#include "src/cli/modules.h"
#include "src/cli/sweep_run.h"
#include "src/io/file.h"

namespace tpuc::cli {
namespace {

struct SweepFlags {
  std::vector<std::string> files, set, known;
  std::string chips, levels, strips, vmem_limits, where, output, shard;
  int jobs = 1;
  bool list = false;
  SweepSettings settings;

  void AddTo(CLI::App* app) {
    app->add_option("FILE", files, "file.tk, file.hlo; several are the slowest axis")->required();
    app->add_option("--set", set, "a=1,2,4 or a=128..1024:128: values of a kernel parameter")
        ->allow_extra_args(false);
    app->add_option("--chip", chips, "chips: names or .chip files, as v6e,v5e");
    app->add_option("-O", levels, "levels: 2 (default), or 0,2");
    app->add_option("--strips", strips, "auto (default), or auto,whole");
    app->add_option("--vmem-limit", vmem_limits, "limits of scoped VMEM, as 16MiB,32MiB");
    app->add_option("--where", where, "only points at which this holds, as 'bkv % bc == 0'");
    app->add_option("-o", output, "file of the results, one line of JSON a point; appended to");
    app->add_option("--from", known, "results of other files are taken over, not run again")
        ->allow_extra_args(false);
    app->add_option("-j", jobs, "points at a time (default 1)")->check(CLI::Range(1, 1024));
    app->add_option("--shard", shard, "i/n: every n-th point from i on; in a SLURM array its task");
    app->add_flag("--list", list, "print the points as commands, for GNU parallel; run none");
    app->add_option("--input", settings.inputs, "as of tpuc run")->allow_extra_args(false);
    app->add_option("--seed", settings.seed, "of inputs that are not given")
        ->check(CLI::Range(0, 255));
    app->add_flag("--check", settings.check, "compare each point with the evaluator");
    app->add_flag("--timing-only", settings.execute.timing_only, "cycles without values");
    app->add_flag("--warm", settings.execute.warm, "leave the cross-program copy out");
    app->add_option("--max-cycles", settings.execute.max_cycles, "stop a run after so many cycles")
        ->check(CLI::PositiveNumber);
    app->add_option("--simd", settings.execute.simd, "avx512, avx2 or scalar; same bytes in all")
        ->check(CLI::IsMember({"avx512", "avx2", "scalar"}));
    app->add_flag("--replicate-statistics", settings.replicate_statistics, "as of tpuc run");
    AddElidedOption(app, &settings.elided);
    app->footer(
        "Points vary by FILE slowest, then --chip, -O, --strips, --vmem-limit, then --set in the "
        "order given.");
  }

  bool Check(DiagSink* diags) {
    if (settings.execute.timing_only && settings.check) {
      diags->Add(DiagCode::kUsage, "--timing-only has no values to check");
    }
    std::vector<std::string> read = files;
    read.insert(read.end(), settings.inputs.begin(), settings.inputs.end());
    read.insert(read.end(), known.begin(), known.end());
    if (output == "-") output.clear();
    CheckOutput(output, read, diags);
    return !diags->has_errors();
  }

  // "a=1,2" and "a=1,2,b=3" make axes of their names.
  bool Axes(std::vector<SweepAxis>* axes, DiagSink* diags) const {
    const std::pair<const char*, const std::string*> options[] = {
        {"--chip", &chips}, {"-O", &levels}, {"--strips", &strips}, {"--vmem-limit", &vmem_limits}};
    for (const auto& [name, text] : options) {
      if (!text->empty()) axes->push_back({name, absl::StrSplit(*text, ',')});
    }
    const size_t options_end = axes->size();
    for (const std::string& word : set) {
      std::string rest = word, name;
      if (!absl::StrContains(word, '=')) {
        diags->Add(DiagCode::kUsage, absl::StrCat("--set takes name=values, not '", word, "'"));
      }
      for (absl::string_view part : absl::StrSplit(word, ',')) {
        const std::pair<std::string, std::string> sides =
            absl::StrSplit(part, absl::MaxSplits('=', 1));
        const bool named = absl::StrContains(part, '=');
        if (named) {
          name = sides.first;
          for (size_t a = options_end; a < axes->size(); ++a) {
            if ((*axes)[a].name != name) continue;
            diags->Add(DiagCode::kUsage, absl::StrCat("--set gives ", name, " twice"));
          }
          axes->push_back({name, {}});
        }
        if (name.empty() || axes->size() == options_end) break;
        for (std::string& v : AxisValues(name, named ? sides.second : std::string(part), diags)) {
          axes->back().values.push_back(std::move(v));
        }
      }
    }
    return !diags->has_errors();
  }
};

// Lines by key, of -o and --from.
using KnownLines = absl::flat_hash_map<std::string, std::string>;

// Reads results of a sweep; *whole is the file's text less a last line that a killed run left half
// written (*half).
bool ReadLines(const std::string& path, KnownLines* lines, std::string* whole, bool* half,
               DiagSink* diags) {
  if (!ReadFile(path, whole, diags)) return false;
  const size_t end = whole->rfind('\n') + 1;  // npos + 1 is 0
  *half = end != whole->size();
  whole->resize(end);
  size_t number = 0;
  for (absl::string_view line : absl::StrSplit(*whole, '\n')) {
    ++number;
    if (line.empty()) continue;
    const std::string text(line);
    const std::string key = KeyOfSweepLine(text);
    if (key.empty()) {
      diags->Add(DiagCode::kWouldOverwrite,
                 absl::StrCat("'", path, "', line ", number, ", is no result of tpuc sweep"));
      return false;
    }
    lines->emplace(key, text);
  }
  return true;
}

bool LoadChips(const std::string& names, std::vector<std::unique_ptr<CompileFlags>>* loaded,
               SweepChips* chips, DiagSink* diags) {
  for (absl::string_view name : absl::StrSplit(names.empty() ? "v6e" : names, ',')) {
    loaded->push_back(std::make_unique<CompileFlags>());
    loaded->back()->chip = std::string(name);
    if (!loaded->back()->Resolve(diags)) return false;
    chips->push_back({std::string(name), loaded->back()->options.chip});
  }
  return true;
}

// The jobs of this shard at which the condition holds.
bool MakeJobs(const SweepFlags& flags, const std::vector<SweepPoint>& points, const Shard& shard,
              const SweepChips& chips, std::vector<SweepJob>* jobs, DiagSink* diags) {
  absl::flat_hash_map<std::string, std::shared_ptr<const Source>> sources;
  for (const std::string& file : flags.files) {
    auto source = ReadSource(file, diags);
    if (!source) return false;
    if (flags.settings.elided == Elided::kXla && KindOf(*source) == InputKind::kHlo) {
      DiagSink of_points;  // points tell their own errors, but not what is filled
      auto module = ParseHlo(source, &of_points);
      if (module && !TakeElided(Elided::kXla, module.get(), diags)) return false;
    }
    sources[file] = std::move(source);
  }
  int64_t kept = 0;
  FileContents contents;
  absl::flat_hash_map<std::string, std::string> named;  // by program
  for (const auto& [file, source] : sources) {
    named[file] = NamedFiles(*source, source->text, &contents);
  }
  for (const SweepPoint& p : points) {
    auto job = MakeSweepJob(p, sources[p.file], chips, flags.settings, diags);
    if (!job) return false;
    job->files = named[p.file];
    for (const auto& [name, word] : job->options.set_words) {
      absl::StrAppend(&job->files, NamedFiles(*job->source, word, &contents));
    }
    if (!flags.where.empty()) {
      ParameterValues values(job->options.set.begin(), job->options.set.end());
      if (KindOf(*job->source) == InputKind::kKernel) {
        auto all = KernelParameters(job->source, job->options.set, diags);
        if (!all) return false;
        values = std::move(*all);
      }
      const auto holds = EvaluateConstraint(flags.where, values, diags);
      if (!holds) return false;
      if (!*holds) continue;
    }
    // Shards are cut from the points that are left, so that each gets its part of the work.
    if (kept++ % shard.count == shard.index) jobs->push_back(std::move(*job));
  }
  return true;
}

// Appends finished lines in the order of the points, whatever the order in which they finish.
class Writer {
 public:
  Writer(const std::string& path, size_t count) : lines_(count), written_(count, false) {
    file_ = path.empty() ? stdout : std::fopen(path.c_str(), "a");
  }
  ~Writer() {
    if (file_ && file_ != stdout) std::fclose(file_);
  }
  bool ok() const { return file_ != nullptr && !failed_; }
  void Known(size_t i, std::string line, bool in_file) {
    lines_[i] = std::move(line);
    written_[i] = in_file;
  }
  bool known(size_t i) const { return !lines_[i].empty(); }
  void Done(size_t i, std::string line) {
    std::lock_guard<std::mutex> lock(mutex_);
    lines_[i] = std::move(line);
    Flush();
    Progress();
  }
  void Flush() {
    for (; next_ < lines_.size() && !lines_[next_].empty(); ++next_) {
      if (written_[next_]) continue;
      const std::string line = lines_[next_] + "\n";
      failed_ |= std::fwrite(line.data(), 1, line.size(), file_) != line.size();
      failed_ |= std::fflush(file_) != 0;
    }
  }
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  void Progress() {
    const auto now = std::chrono::steady_clock::now();
    const bool last = next_ == lines_.size();
    if (!isatty(STDERR_FILENO) || (!last && now - shown_ < std::chrono::milliseconds(100))) return;
    shown_ = now;
    std::fprintf(stderr, "\r%zu of %zu points%s", next_, lines_.size(), last ? "\n" : "");
  }

  FILE* file_ = nullptr;
  std::mutex mutex_;
  std::vector<std::string> lines_;
  std::vector<bool> written_;
  size_t next_ = 0;
  bool failed_ = false;
  std::chrono::steady_clock::time_point shown_{};
};

std::string RunCommandOf(const SweepJob& job, const SweepFlags& flags) {
  std::string text = absl::StrCat("tpuc run '", job.point.file, "' --json");
  if (flags.settings.execute.timing_only) absl::StrAppend(&text, " --timing-only");
  if (flags.settings.check) absl::StrAppend(&text, " --check");
  if (flags.settings.elided == Elided::kXla) absl::StrAppend(&text, " --elided-constants=xla");
  const std::string options = job.point.Options();
  return absl::StrCat(text, options.empty() ? "" : " ", options, "\n");
}

int Sweep(SweepFlags& flags, const Console& console, DiagSink* diags) {
  std::vector<SweepAxis> axes;
  if (!flags.Check(diags) || !flags.Axes(&axes, diags)) return console.Finish(*diags);
  std::vector<std::unique_ptr<CompileFlags>> loaded;
  SweepChips chips;
  if (!LoadChips(flags.chips, &loaded, &chips, diags)) return console.Finish(*diags);
  Shard shard = SlurmShard().value_or(Shard{});
  if (!flags.shard.empty()) {
    const auto given = ParseShard(flags.shard, diags);
    if (!given) return console.Finish(*diags);
    shard = *given;
  }
  for (const std::string& path : flags.settings.inputs) {
    std::string bytes;
    if (!ReadFile(path, &bytes, diags)) return console.Finish(*diags);
    absl::StrAppend(&flags.settings.input_bytes, bytes.size(), ":", bytes);
  }
  auto points = SweepPoints(flags.files, axes, diags);
  std::vector<SweepJob> jobs;
  if (!points || !MakeJobs(flags, *points, shard, chips, &jobs, diags)) {
    return console.Finish(*diags);
  }
  if (flags.list) {
    std::string text;
    for (const SweepJob& job : jobs) absl::StrAppend(&text, RunCommandOf(job, flags));
    PrintResult(text);
    return console.Finish(*diags);
  }
  KnownLines there, others;
  std::string whole;
  if (!flags.output.empty() && FileExists(flags.output)) {
    bool half = false;
    if (!ReadLines(flags.output, &there, &whole, &half, diags)) return console.Finish(*diags);
    if (half && !WriteFile(flags.output, whole, diags)) return console.Finish(*diags);
  }
  for (const std::string& path : flags.known) {
    bool half = false;
    if (!ReadLines(path, &others, &whole, &half, diags)) return console.Finish(*diags);
  }
  Writer writer(flags.output, jobs.size());
  if (!writer.ok()) {
    diags->Add(DiagCode::kFileWrite, absl::StrCat("cannot write '", flags.output, "'"));
    return console.Finish(*diags);
  }
  for (size_t i = 0; i < jobs.size(); ++i) {
    const std::string key = SweepKey(jobs[i], flags.settings);
    for (const KnownLines* lines : {&there, &others}) {
      const auto it = lines->find(key);
      if (it != lines->end() && !writer.known(i)) writer.Known(i, it->second, lines == &there);
    }
  }
  writer.Flush();
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < jobs.size(); i = next++) {
      if (!writer.known(i)) writer.Done(i, RunSweepJob(jobs[i], flags.settings));
    }
  };
  std::vector<std::thread> threads;
  for (int t = 1; t < flags.jobs; ++t) threads.emplace_back(work);
  work();
  for (std::thread& t : threads) t.join();
  if (!writer.ok()) {
    diags->Add(DiagCode::kFileWrite, absl::StrCat("writing '", flags.output, "' failed"));
  }
  const std::string table = SweepTable(writer.lines());
  if (flags.output.empty()) {
    std::fputs(table.c_str(), stderr);
  } else {
    PrintResult(table);
  }
  return console.Finish(*diags);
}

}  // namespace

int SweepCommand(const Args& args) {
  CLI::App app("Runs a program at many points of options and parameters.", "sweep");
  SweepFlags flags;
  flags.AddTo(&app);
  Console console;
  int exit_code;
  if (!ParseArguments(&app, args, &console, &exit_code)) return exit_code;
  DiagSink diags;
  return Sweep(flags, console, &diags);
}

}  // namespace tpuc::cli
