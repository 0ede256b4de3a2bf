// tpuc diff expected actual: arrays (.npy, .npz) number by number, anything else line by line. Exit
// 3 where they differ.
#include <CLI/CLI.hpp>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "src/cli/commands.h"
#include "src/cli/compare.h"
#include "src/io/file.h"
#include "src/io/npy.h"
#include "src/io/zip.h"

namespace tpuc::cli {
namespace {

bool IsArrayFile(absl::string_view bytes) {
  return LooksLikeZip(bytes) || absl::StartsWith(bytes, "\x93NUMPY");
}

std::optional<NpzFile> Parse(absl::string_view bytes, const std::string& path, DiagSink* diags) {
  if (LooksLikeZip(bytes)) return ParseNpz(bytes, path, diags);
  auto array = ParseNpy(bytes, path, diags);
  if (!array) return std::nullopt;
  NpzFile file;
  file.entries.push_back({"", std::move(*array)});
  return file;
}

// The HLO type whose literals hold the array's bytes as they are.
Type TypeOf(const NpyArray& a) {
  for (int t = 0; t < static_cast<int>(Type::kToken); ++t) {
    Type type = static_cast<Type>(t);
    NpyArray stored = ArrayFromLiteral(Literal(Shape::Array(type, {0})));
    if (BitsOf(type) >= 8 && stored.kind == a.kind && stored.item_bytes == a.item_bytes) {
      return type;
    }
  }
  return a.item_bytes == 2 ? Type::kBF16 : Type::kU8;  // raw
}

std::optional<Literal> LiteralOf(const NpyArray& a, std::optional<Type> as, std::string* error) {
  return LiteralFromArray(
      a, Shape::Array(as.value_or(TypeOf(a)), Dims(a.dims.begin(), a.dims.end())), error);
}

// Inputs and chip results that an oracle file holds beside its results.
bool MayBeMissing(absl::string_view name) {
  return absl::StartsWith(name, "in") || absl::StartsWith(name, "chip");
}

class ArrayDiff {
 public:
  ArrayDiff(Tolerance tolerance, std::optional<Type> as) : tolerance_(tolerance), as_(as) {}

  // True if all is equal within the tolerance; text() tells.
  bool Run(const NpzFile& expected, const NpzFile& actual) {
    bool lone = expected.entries.size() == 1 && actual.entries.size() == 1;
    bool same = true;
    for (const NpzFile::Entry& e : expected.entries) {
      const NpyArray* a = lone ? &actual.entries[0].array : actual.Find(e.name);
      std::string name = e.name.empty() ? "array" : e.name;
      if (!a && MayBeMissing(e.name)) {
        absl::StrAppend(&text_, name, ": only in the first file, not compared\n");
        continue;
      }
      same &= a ? CompareOne(name, e.array, *a) : Differ(name, "missing in the second file");
    }
    for (const NpzFile::Entry& e : actual.entries) {
      if (!lone && !expected.Find(e.name)) same &= Differ(e.name, "missing in the first file");
    }
    return same;
  }
  const std::string& text() const { return text_; }

 private:
  bool Differ(const std::string& name, absl::string_view why) {
    absl::StrAppend(&text_, name, ": DIFFERENT: ", why, "\n");
    return false;
  }
  bool CompareOne(const std::string& name, const NpyArray& expected, const NpyArray& actual) {
    std::string error;
    auto e = LiteralOf(expected, as_, &error);
    if (!e) return Differ(name, error);
    auto a = LiteralOf(actual, e->shape().type, &error);
    if (!a) a = LiteralOf(actual, std::nullopt, &error);
    if (!a) return Differ(name, error);
    if (!Compatible(e->shape(), a->shape())) {
      return Differ(name, absl::StrCat(ToString(expected), " against ", ToString(actual)));
    }
    Comparison c = Compare(*e, *a, tolerance_);
    absl::StrAppend(&text_, name, " ", ToString(e->shape()), ": ", c.bad ? "DIFFERENT" : "equal",
                    "\n", Describe(c));
    return c.bad == 0;
  }

  Tolerance tolerance_;
  std::optional<Type> as_;
  std::string text_;
};

bool TextDiff(const std::string& expected, const std::string& actual, std::string* text) {
  std::vector<absl::string_view> e = absl::StrSplit(expected, '\n');
  std::vector<absl::string_view> a = absl::StrSplit(actual, '\n');
  if (expected == actual) {
    absl::StrAppend(text, "equal: ", e.size() - 1, " lines\n");
    return true;
  }
  size_t first = 0;
  while (first < e.size() && first < a.size() && e[first] == a[first]) ++first;
  size_t tail = 0;
  while (tail < e.size() - first && tail < a.size() - first &&
         e[e.size() - 1 - tail] == a[a.size() - 1 - tail]) {
    ++tail;
  }
  absl::StrAppend(text, "DIFFERENT from line ", first + 1, ": ", e.size() - first - tail,
                  " expected lines against ", a.size() - first - tail, "\n");
  constexpr size_t kShown = 10;
  for (size_t i = first; i < std::min(e.size() - tail, first + kShown); ++i) {
    absl::StrAppend(text, "- ", e[i], "\n");
  }
  for (size_t i = first; i < std::min(a.size() - tail, first + kShown); ++i) {
    absl::StrAppend(text, "+ ", a[i], "\n");
  }
  return false;
}

}  // namespace

int DiffCommand(const Args& args) {
  CLI::App app("Compares two files; exit 3 where they differ. NaN equals NaN, -0 equals 0.",
               "diff");
  std::string expected_path, actual_path, as;
  Tolerance tolerance;
  app.add_option("expected", expected_path, ".npy, .npz or text")->required();
  app.add_option("actual", actual_path, "the same")->required();
  app.add_option("--rtol", tolerance.rtol, "good: |difference| <= atol + rtol * |expected|")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--atol", tolerance.atol, "see --rtol; both are 0 by default")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--max-ulp", tolerance.max_ulp,
                 "also good: at most so many steps of the type apart")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--as", as, "element type of both (bf16 for arrays of its bits)");
  Console console;
  int exit_code;
  if (!ParseArguments(&app, args, &console, &exit_code)) return exit_code;
  DiagSink diags;
  std::optional<Type> type;
  if (!as.empty()) {
    std::vector<std::string> names;
    for (int t = 0; t < static_cast<int>(Type::kToken); ++t) {
      names.push_back(std::string(TypeName(static_cast<Type>(t))));
    }
    if (!CheckName("type", as, names, &diags)) return console.Finish(diags);
    type = TypeFromName(as);
  }
  std::string expected, actual;
  if (!ReadFile(expected_path, &expected, &diags) || !ReadFile(actual_path, &actual, &diags)) {
    return console.Finish(diags);
  }
  if (IsArrayFile(expected) != IsArrayFile(actual)) {
    diags.Add(DiagCode::kUsage, "one file holds arrays, the other does not");
    return console.Finish(diags);
  }
  std::string text;
  bool same;
  if (IsArrayFile(expected)) {
    auto e = Parse(expected, expected_path, &diags), a = Parse(actual, actual_path, &diags);
    if (!e || !a) return console.Finish(diags);
    ArrayDiff diff(tolerance, type);
    same = diff.Run(*e, *a);
    text = diff.text();
  } else {
    same = TextDiff(expected, actual, &text);
  }
  PrintResult(text);
  return same ? kDone : kDifferent;
}

}  // namespace tpuc::cli
