// Random modules of all opcodes through every pass (check.h).
//
//   random_modules --first 0 --count 2000         seeds 0 .. 1999; ends with a line of counts
//   random_modules --print 17                     the module of seed 17
//   random_modules --file f.hlo --seed 3          one module as a test prints it
//   random_modules --refused                      what was refused, and how often
//
// A failure is shrunk and printed as a test: HLO text whose first lines say seed, pass and
// difference; with --keep FOLDER it is also written there. Exit code 1 where one failed.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "grammar/hlo/printer.h"
#include "src/ir/op_table.h"
#include "tests/modules/check.h"
#include "tests/modules/generator.h"
#include "tests/modules/shrink.h"

namespace tpuc::random_modules {
namespace {

struct Flags {
  uint64_t first = 0, count = 2000, seed = 0;
  int64_t print = -1;
  bool refused = false, shrink = true;
  std::string file, keep;
};

bool Parse(int argc, char** argv, Flags* flags) {
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--refused") {
      flags->refused = true;
      continue;
    }
    if (name == "--no-shrink") {
      flags->shrink = false;
      continue;
    }
    if (i + 1 == argc) return false;
    const std::string value = argv[++i];
    const uint64_t number = std::strtoull(value.c_str(), nullptr, 10);
    if (name == "--first") {
      flags->first = number;
    } else if (name == "--count") {
      flags->count = number;
    } else if (name == "--seed") {
      flags->seed = number;
    } else if (name == "--print") {
      flags->print = static_cast<int64_t>(number);
    } else if (name == "--file") {
      flags->file = value;
    } else if (name == "--keep") {
      flags->keep = value;
    } else {
      return false;
    }
  }
  return true;
}

// The text reads back as itself, and the module it makes passes.
Verdict CheckText(const std::string& text, uint64_t seed) {
  auto module = ReadText(text);
  if (!module) return {Verdict::kFailed, "", "its text does not read back"};
  if (PrintHlo(*module) != text) return {Verdict::kFailed, "", "its text reads back as another"};
  return CheckModule(std::move(module), seed);
}

void Report(const std::string& text, uint64_t seed, const Verdict& verdict, const Flags& flags) {
  std::string small = text;
  if (flags.shrink) {
    small = Shrink(text, [&](const std::string& candidate) {
      auto module = ReadText(candidate);
      if (!module) return false;
      const Verdict v = CheckModule(std::move(module), seed);
      return v.kind == Verdict::kFailed && v.pass == verdict.pass;
    });
  }
  auto module = ReadText(small);
  const Verdict v = module ? CheckModule(std::move(module), seed) : verdict;
  const std::string test = absl::StrCat(
      "// seed ", seed, ", after ", v.pass.empty() ? "no pass" : v.pass, ": ", v.what, "\n", small);
  std::printf("FAIL %llu\n%s\n", static_cast<unsigned long long>(seed), test.c_str());
  if (!flags.keep.empty()) std::ofstream(absl::StrCat(flags.keep, "/", seed, ".hlo")) << test;
}

int RunAll(const Flags& flags) {
  uint64_t counts[4] = {0, 0, 0, 0};
  std::map<std::string, uint64_t> refused;
  const auto start = std::chrono::steady_clock::now();
  for (uint64_t seed = flags.first; seed < flags.first + flags.count; ++seed) {
    const auto module = RandomModule(seed);
    const std::string text = PrintHlo(*module);
    const Verdict verdict = CheckText(text, seed);
    ++counts[verdict.kind];
    if (verdict.kind == Verdict::kFailed) Report(text, seed, verdict, flags);
    if (verdict.kind == Verdict::kUnsupported) {
      ++refused[absl::StrCat(verdict.pass, ": ", verdict.what.substr(0, 90))];
    }
    std::fflush(stdout);
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (flags.refused) {
    std::multimap<uint64_t, std::string> sorted;
    for (const auto& [what, count] : refused) sorted.insert({count, what});
    for (const auto& [count, what] : sorted) {
      std::printf("%6llu %s\n", static_cast<unsigned long long>(count), what.c_str());
    }
  }
  for (Op op : MissingOpcodes()) {
    std::printf("FAIL %s: no row makes it\n", std::string(OpName(op)).c_str());
    ++counts[Verdict::kFailed];
  }
  std::printf("%llu the same bits, %llu rounded otherwise, %llu refused, %.0f modules a second\n",
              static_cast<unsigned long long>(counts[Verdict::kSame]),
              static_cast<unsigned long long>(counts[Verdict::kRounded]),
              static_cast<unsigned long long>(counts[Verdict::kUnsupported]),
              static_cast<double>(flags.count) / seconds);
  std::printf("%llu passed, %llu failed\n",
              static_cast<unsigned long long>(flags.count - counts[Verdict::kFailed]),
              static_cast<unsigned long long>(counts[Verdict::kFailed]));
  return counts[Verdict::kFailed] == 0 ? 0 : 1;
}

int Main(int argc, char** argv) {
  Flags flags;
  if (!Parse(argc, argv, &flags)) {
    std::fprintf(stderr, "see the head of tests/modules/main.cc\n");
    return 2;
  }
  if (flags.print >= 0) {
    std::printf("%s", PrintHlo(*RandomModule(static_cast<uint64_t>(flags.print))).c_str());
    return 0;
  }
  if (flags.file.empty()) return RunAll(flags);
  std::ifstream in(flags.file, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  auto module = ReadText(text);
  const Verdict v = module ? CheckModule(std::move(module), flags.seed)
                           : Verdict{Verdict::kFailed, "", "it does not read"};
  static const char* const kKinds[] = {"the same bits", "rounded otherwise", "refused", "FAIL"};
  std::printf("%s %s %s\n", kKinds[v.kind], v.pass.c_str(), v.what.c_str());
  return v.kind == Verdict::kFailed ? 1 : 0;
}

}  // namespace
}  // namespace tpuc::random_modules

int main(int argc, char** argv) { return tpuc::random_modules::Main(argc, argv); }
