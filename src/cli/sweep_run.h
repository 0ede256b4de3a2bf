// One point of a sweep: compile, run, and the line of JSON that says what came out (schema
// tpuc.sweep/1), be it counts or the first diagnostic.
//
//   {"bound":"issue 61%","cycles":8474,...,"file":"flash.tk","key":"91c6...","point":0,
//    "schema":"tpuc.sweep/1","set":{"bq":256}}
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "src/cli/compile.h"
#include "src/cli/execute.h"
#include "src/cli/sweep_points.h"

namespace tpuc::cli {

// What all points share.
struct SweepSettings {
  ExecuteOptions execute;
  std::vector<std::string> inputs;  // files, as --input names them
  std::string input_bytes;          // what they hold, for the keys
  uint64_t seed = 0;
  bool check = false;
  bool replicate_statistics = false;
  Elided elided = Elided::kError;
};

// A point with everything that it names at hand.
struct SweepJob {
  SweepPoint point;
  std::shared_ptr<const Source> source;
  CompileOptions options;
  std::string files;  // what the files that the program or a parameter names hold, for the key
};

// Chips of a sweep, by the name or file that the command line gave.
using SweepChips = std::vector<std::pair<std::string, const Chip*>>;

// Nothing and E0400 or E0401 where a value of an option is none.
std::optional<SweepJob> MakeSweepJob(const SweepPoint& point, std::shared_ptr<const Source> source,
                                     const SweepChips& chips, const SweepSettings& settings,
                                     DiagSink* diags);

// The kernels and arrays (.tk, .npy, .npz) that a text names, those that kernels name among them,
// and what they hold; names are relative to the source. Files that cannot be read are left out:
// running says why. known: contents by path, read once a sweep.
using FileContents = absl::flat_hash_map<std::string, std::string>;
std::string NamedFiles(const Source& source, absl::string_view text, FileContents* known);

// A hash of everything that the result depends on: program, files it names, chip, options, inputs,
// version.
std::string SweepKey(const SweepJob& job, const SweepSettings& settings);

// The line, without its newline; the same bytes for the same key and point.
std::string RunSweepJob(const SweepJob& job, const SweepSettings& settings);

// The key of a line; empty where it is no line of a sweep.
std::string KeyOfSweepLine(const std::string& line);

// Lines as a table for people, the fastest marked; of many only the fastest.
std::string SweepTable(const std::vector<std::string>& lines);

}  // namespace tpuc::cli
