// The points of a sweep: files times values of options and parameters, those that a condition
// keeps, numbered in a fixed order; and which of them a shard runs.
//
//   a.tk, --set bq=256,512 --set bkv=512  ->  0: a.tk bq=256,bkv=512   1: a.tk bq=512,bkv=512
//
// Files vary slowest, then the axes in the order given, the last fastest.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/diag/diag.h"

namespace tpuc::cli {

struct SweepAxis {
  std::string name;  // an option ("--chip", "-O", "--strips") or, without dashes, a parameter
  std::vector<std::string> values;
};

struct SweepPoint {
  int64_t number = 0;
  std::string file;
  std::vector<std::pair<std::string, std::string>> values;  // of each axis, in order

  // As typed: "--chip v5e --set bq=256,bkv=512".
  std::string Options() const;
};

struct Shard {
  int64_t index = 0, count = 1;  // runs the points with number % count == index
};

// "256,512" or "256..1024:256" (from, to and including, step; without a step 1). Empty and an error
// (E0400) where the text has no such form.
std::vector<std::string> AxisValues(const std::string& name, const std::string& text,
                                    DiagSink* diags);

// All points, at most kMostPoints (E0400). Numbers count before conditions, so that a condition
// does not renumber.
constexpr int64_t kMostPoints = 1'000'000;
std::optional<std::vector<SweepPoint>> SweepPoints(const std::vector<std::string>& files,
                                                   const std::vector<SweepAxis>& axes,
                                                   DiagSink* diags);

// "1/4": the second of four (counted from 0). Nothing and E0400 for another form.
std::optional<Shard> ParseShard(const std::string& text, DiagSink* diags);
// Of a SLURM array job (SLURM_ARRAY_TASK_ID, _MIN, _COUNT); nothing outside of one.
std::optional<Shard> SlurmShard();

}  // namespace tpuc::cli
