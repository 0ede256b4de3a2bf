#include "src/cli/inputs.h"

#include <unistd.h>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "src/eval/inputs.h"
#include "src/io/file.h"

namespace tpuc::cli {
namespace {

// Where an array goes: a port, and a leaf of it (0 for an array port).
struct Target {
  int64_t port = -1, leaf = 0;
};

bool Number(absl::string_view text, int64_t* n) {
  return !text.empty() && absl::ascii_isdigit(text[0]) && absl::SimpleAtoi(text, n);
}

// in3, arr_3, in3.1; false if the name has no such form.
bool NumberedName(absl::string_view name, Target* t) {
  if (absl::ConsumePrefix(&name, "arr_")) return Number(name, &t->port);
  if (!absl::ConsumePrefix(&name, "in")) return false;
  size_t dot = name.find('.');
  if (dot == absl::string_view::npos) return Number(name, &t->port);
  return Number(name.substr(0, dot), &t->port) && Number(name.substr(dot + 1), &t->leaf);
}

// An oracle file holds its results beside the inputs.
bool IsResultName(absl::string_view name) {
  int64_t n;
  return (absl::ConsumePrefix(&name, "out") || absl::ConsumePrefix(&name, "chip")) &&
         Number(name, &n);
}

Literal* LeafOf(Literal* literal, int64_t* leaf) {
  if (!literal->shape().IsTuple()) return (*leaf)-- == 0 ? literal : nullptr;
  for (Literal& e : literal->elements()) {
    if (Literal* found = LeafOf(&e, leaf)) return found;
  }
  return nullptr;
}

class Filler {
 public:
  Filler(const std::vector<InputPort>& ports, uint64_t seed, DiagSink* diags)
      : ports_(ports), diags_(diags), given_(ports.size(), false) {
    for (size_t i = 0; i < ports.size(); ++i) {
      // An array port that a file fills need not be generated first.
      literals_.emplace_back();
    }
    seed_ = seed;
  }

  void AddFile(const std::string& path) {
    auto file = ReadArrays(path, diags_);
    if (!file) return;
    for (const NpzFile::Entry& e : file->entries) {
      Target t;
      if (e.name.empty()) {
        t.port = next_;
      } else if (!Find(path, e.name, &t)) {
        continue;
      }
      Fill(path, e, t);
    }
  }

  std::optional<std::vector<Literal>> Finish() {
    if (diags_->has_errors()) return std::nullopt;
    for (size_t i = 0; i < ports_.size(); ++i) {
      if (!given_[i]) literals_[i] = GenerateInput(ports_[i].shape, i, seed_);
    }
    return std::move(literals_);
  }

 private:
  bool Find(const std::string& path, const std::string& name, Target* t) {
    for (size_t i = 0; i < ports_.size(); ++i) {
      if (ports_[i].name != name) continue;
      t->port = static_cast<int64_t>(i);
      return true;
    }
    if (NumberedName(name, t)) return true;
    if (!IsResultName(name)) {
      std::vector<std::string> names;
      for (const InputPort& p : ports_) names.push_back(p.name);
      Diag& d = Report(DiagCode::kUnusedArray, path, name, "no parameter of this name");
      std::string nearest = NearestName(name, names);
      if (!nearest.empty()) d.hint = absl::StrCat("did you mean '", nearest, "'?");
    }
    return false;
  }

  void Fill(const std::string& path, const NpzFile::Entry& e, Target t) {
    if (t.port >= static_cast<int64_t>(ports_.size())) {
      Report(DiagCode::kWrongInput, path, e.name,
             absl::StrCat("there is no parameter ", t.port, ": the program has ", ports_.size()));
      return;
    }
    const InputPort& port = ports_[t.port];
    next_ = t.port + 1;
    Literal* to = &literals_[t.port];
    Shape want = port.shape;
    if (want.IsTuple()) {
      if (!given_[t.port]) *to = GenerateInput(port.shape, t.port, seed_);
      int64_t leaf = t.leaf;
      to = LeafOf(to, &leaf);
      if (to) want = to->shape();
    } else if (t.leaf > 0) {
      to = nullptr;
    }
    std::string error = "the parameter has no such leaf";
    auto literal = to ? LiteralFromArray(e.array, want, &error) : std::nullopt;
    if (!literal) {
      Diag& d = Report(DiagCode::kWrongInput, path, e.name,
                       absl::StrCat("parameter ", t.port, " ('", port.name, "'): ", error));
      if (want.IsArray() && IsInteger(want.type) != (e.array.kind == 'i' || e.array.kind == 'u') &&
          want.type != Type::kPred) {
        d.hint = "convert the array with .astype(...) before saving it";
      }
      return;
    }
    *to = std::move(*literal);
    given_[t.port] = true;
  }

  Diag& Report(DiagCode code, const std::string& path, const std::string& name,
               std::string message) {
    std::string place = name.empty() ? path : absl::StrCat(path, "[", name, "]");
    return diags_->Add(code, std::make_shared<Source>(Source{place, ""}), Loc{},
                       std::move(message));
  }

  const std::vector<InputPort>& ports_;
  DiagSink* diags_;
  uint64_t seed_ = 0;
  int64_t next_ = 0;  // port of the next lone .npy
  std::vector<Literal> literals_;
  std::vector<bool> given_;
};

// Every byte of the inputs must be there before the run starts.
bool CheckMemory(const std::vector<InputPort>& ports, DiagSink* diags) {
  double need = 0;
  for (const InputPort& p : ports) need += static_cast<double>(p.shape.LiteralBytes());
  double have = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  if (need <= 0.75 * have) return true;  // results, and what is between, need some too
  diags->Add(DiagCode::kArraysTooLarge,
             absl::StrCat("the program's inputs need ", static_cast<int64_t>(need / 1048576),
                          " MiB, this machine has ", static_cast<int64_t>(have / 1048576), " MiB"));
  return false;
}

void AppendLeaves(const Literal& literal, NpzFile* file) {
  if (literal.shape().IsTuple()) {
    for (const Literal& e : literal.elements()) AppendLeaves(e, file);
  } else if (literal.shape().IsArray()) {
    file->entries.push_back({absl::StrCat("out", file->entries.size()), ArrayFromLiteral(literal)});
  }
}

}  // namespace

std::optional<std::vector<Literal>> ReadInputs(const std::vector<InputPort>& ports,
                                               const std::vector<std::string>& files, uint64_t seed,
                                               DiagSink* diags) {
  if (!CheckMemory(ports, diags)) return std::nullopt;
  try {
    Filler filler(ports, seed, diags);
    for (const std::string& path : files) filler.AddFile(path);
    return filler.Finish();
  } catch (const std::bad_alloc&) {  // the machine has it, but not for this process
    diags->Add(DiagCode::kArraysTooLarge, "the program's inputs need more memory than there is");
    return std::nullopt;
  }
}

std::optional<std::vector<Literal>> ReadDecidingInputs(const std::vector<InputPort>& ports,
                                                       const std::vector<std::string>& files,
                                                       uint64_t seed, DiagSink* diags) {
  if (!files.empty()) return ReadInputs(ports, files, seed, diags);
  constexpr int64_t kMost = 1 << 18;  // what SMEM holds
  std::vector<Literal> inputs(ports.size());
  for (size_t p = 0; p < ports.size(); ++p) {
    const Shape& s = ports[p].shape;
    if (!s.IsArray() || !IsInteger(s.type) || s.ElementCount() > kMost) continue;
    inputs[p] = GenerateInput(s, static_cast<int64_t>(p), seed);
  }
  return inputs;
}

NpzFile OutputArrays(const Literal& result) {
  NpzFile file;
  AppendLeaves(result, &file);
  return file;
}

bool WriteOutputs(const NpzFile& outputs, const std::string& path, DiagSink* diags) {
  if (!absl::EndsWith(path, ".npy")) return WriteFile(path, FormatNpz(outputs), diags);
  if (outputs.entries.size() != 1) {
    diags
        ->Add(DiagCode::kUsage, absl::StrCat("'", path, "' holds one array, the program has ",
                                             outputs.entries.size(), " results"))
        .hint = "name an .npz";
    return false;
  }
  return WriteFile(path, FormatNpy(outputs.entries[0].array), diags);
}

}  // namespace tpuc::cli
