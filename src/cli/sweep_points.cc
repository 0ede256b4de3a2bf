#include "src/cli/sweep_points.h"

#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace tpuc::cli {
namespace {

// from..to or from..to:step; false where the text is something else.
bool AddRange(absl::string_view text, std::vector<std::string>* values) {
  const std::vector<absl::string_view> ends = absl::StrSplit(text, absl::MaxSplits("..", 1));
  if (ends.size() != 2) return false;
  const std::vector<absl::string_view> last = absl::StrSplit(ends[1], absl::MaxSplits(':', 1));
  int64_t from = 0, to = 0, step = 1;
  if (!absl::SimpleAtoi(ends[0], &from) || !absl::SimpleAtoi(last[0], &to)) return false;
  if (last.size() == 2 && !absl::SimpleAtoi(last[1], &step)) return false;
  if (step <= 0 || to < from || (to - from) / step >= kMostPoints) return false;
  for (int64_t v = from;; v += step) {
    values->push_back(absl::StrCat(v));
    if (v > to - step) return true;
  }
}

}  // namespace

std::string SweepPoint::Options() const {
  std::string text, set;
  for (const auto& [name, value] : values) {
    if (absl::StartsWith(name, "-")) {
      absl::StrAppend(&text, text.empty() ? "" : " ", name, " ", value);
    } else {
      absl::StrAppend(&set, set.empty() ? "" : ",", name, "=", value);
    }
  }
  if (!set.empty()) absl::StrAppend(&text, text.empty() ? "" : " ", "--set ", set);
  return text;
}

std::vector<std::string> AxisValues(const std::string& name, const std::string& text,
                                    DiagSink* diags) {
  std::vector<std::string> values;
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    if (!part.empty() && !absl::StrContains(part, "..")) {
      values.emplace_back(part);
    } else if (part.empty() || !AddRange(part, &values)) {
      diags->Add(DiagCode::kUsage,
                 absl::StrCat("'", part, "' of ", name,
                              " is neither a value nor a range such as 128..1024:128"));
      return {};
    }
  }
  return values;
}

std::optional<std::vector<SweepPoint>> SweepPoints(const std::vector<std::string>& files,
                                                   const std::vector<SweepAxis>& axes,
                                                   DiagSink* diags) {
  int64_t count = static_cast<int64_t>(files.size());
  for (const SweepAxis& a : axes) {
    if (__builtin_mul_overflow(count, static_cast<int64_t>(a.values.size()), &count) ||
        count > kMostPoints) {
      diags->Add(DiagCode::kUsage,
                 absl::StrCat("the axes make more than ", kMostPoints, " points"));
      return std::nullopt;
    }
  }
  std::vector<SweepPoint> points;
  points.reserve(count);
  for (int64_t i = 0; i < count; ++i) {
    SweepPoint p;
    p.number = i;
    int64_t rest = i;
    p.values.resize(axes.size());
    for (size_t a = axes.size(); a-- > 0;) {
      const int64_t n = static_cast<int64_t>(axes[a].values.size());
      p.values[a] = {axes[a].name, axes[a].values[rest % n]};
      rest /= n;
    }
    p.file = files[rest];
    points.push_back(std::move(p));
  }
  return points;
}

std::optional<Shard> ParseShard(const std::string& text, DiagSink* diags) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits('/', 1));
  Shard shard;
  if (absl::SimpleAtoi(parts.first, &shard.index) && absl::SimpleAtoi(parts.second, &shard.count) &&
      shard.count > 0 && shard.index >= 0 && shard.index < shard.count) {
    return shard;
  }
  diags->Add(DiagCode::kUsage, absl::StrCat("--shard takes i/n with 0 <= i < n, not '", text, "'"));
  return std::nullopt;
}

std::optional<Shard> SlurmShard() {
  const auto number = [](const char* name, int64_t* value) {
    const char* text = std::getenv(name);
    return text != nullptr && absl::SimpleAtoi(text, value);
  };
  int64_t id = 0, least = 0, count = 0;
  if (!number("SLURM_ARRAY_TASK_ID", &id) || !number("SLURM_ARRAY_TASK_COUNT", &count)) {
    return std::nullopt;
  }
  number("SLURM_ARRAY_TASK_MIN", &least);
  if (count <= 0 || id < least || id - least >= count) return std::nullopt;
  return Shard{id - least, count};
}

}  // namespace tpuc::cli
