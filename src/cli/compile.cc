#include "src/cli/compile.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "backend/isa/verifier.h"
#include "backend/kernel/from_hlo.h"
#include "backend/kernel/permute.h"
#include "backend/kernel/verifier.h"
#include "backend/llo/verifier.h"
#include "backend/regalloc/assemble.h"
#include "backend/tlp/tlp.h"
#include "grammar/bundle/parser.h"
#include "grammar/bundle/printer.h"
#include "grammar/hlo/parser.h"
#include "grammar/hlo/printer.h"
#include "grammar/kernel/printer.h"
#include "passes/pipeline.h"
#include "src/cli/dump.h"
#include "src/cli/kernel_calls.h"
#include "src/cli/kernel_file.h"
#include "src/cli/verify_each.h"
#include "src/diag/check.h"
#include "src/ir/verifier.h"

namespace tpuc {
namespace {

bool Has(const std::vector<std::string>& list, absl::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

// The text after blanks and comments of any of the languages.
absl::string_view FirstWords(absl::string_view text) {
  while (true) {
    text = absl::StripLeadingAsciiWhitespace(text);
    if (absl::StartsWith(text, "#") || absl::StartsWith(text, "//")) {
      size_t end = text.find('\n');
      if (end == absl::string_view::npos) return "";
      text.remove_prefix(end);
    } else if (absl::StartsWith(text, "/*")) {
      size_t end = text.find("*/");
      if (end == absl::string_view::npos) return "";
      text.remove_prefix(end + 2);
    } else {
      return text;
    }
  }
}

constexpr int kWindowAttempts = 8;
constexpr int64_t kTlpSpillWords = 4096;  // at the end of SMEM

class Road {
 public:
  Road(std::shared_ptr<const Source> source, const CompileOptions& options, DiagSink* diags)
      : source_(std::move(source)), options_(options), diags_(diags) {}
  std::optional<Compiled> Run();

 private:
  bool StopAt(absl::string_view level, const std::string& text);
  bool Hlo();
  bool Kernels();
  bool KernelsOfModule();
  EmitOptions Emit() const;
  bool Llo();
  bool Bundles();
  bool SavedBundles();
  bool AssembleAll();
  void Talk(absl::string_view what, absl::string_view text) {
    absl::StrAppend(&done_.talk, "// ---- after ", what, " ----\n", text);
    if (!text.empty() && text.back() != '\n') done_.talk += "\n";
  }
  bool Wants(absl::string_view level) const {
    return Has(options_.print_after, level) || Has(options_.print_after, "all");
  }
  PassObserver Observer(Dumps* dumps);

  std::shared_ptr<const Source> source_;
  const CompileOptions& options_;
  DiagSink* diags_;
  Compiled done_;
  bool stopped_ = false;
  BufferAssignment assignment_;
  KernelRegion region_;
  KernelFiles files_;  // that the module calls
  std::unique_ptr<Dumps> dumps_;
};

// Prints the level where asked; true if the road ends here.
bool Road::StopAt(absl::string_view level, const std::string& text) {
  if (Wants(level)) Talk(level, text);
  if (options_.stop_after != level) return false;
  done_.text = text;
  stopped_ = true;
  return true;
}

PassObserver Road::Observer(Dumps* dumps) {
  auto last =
      std::make_shared<std::chrono::steady_clock::time_point>(std::chrono::steady_clock::now());
  auto number = std::make_shared<int>(0);
  return [this, dumps, last, number](absl::string_view pass, const Module& module, bool changed,
                                     absl::string_view remarks) {
    auto now = std::chrono::steady_clock::now();
    if (options_.time_passes) {
      absl::StrAppend(
          &done_.talk,
          absl::StrFormat("%10.3f ms  %s\n",
                          std::chrono::duration<double, std::milli>(now - *last).count(),
                          std::string(pass)));
    }
    ++*number;
    bool show = Wants(pass) || (options_.print_changed && changed);
    if (show || (dumps->enabled() && changed)) {
      std::string text = PrintHlo(module);
      if (show) Talk(pass, absl::StrCat(remarks, text));
      if (changed) dumps->AddPass(*number, std::string(pass), std::move(text));
    }
    *last = std::chrono::steady_clock::now();
  };
}

bool Road::Hlo() {
  SetCurrentStage("parse HLO");
  done_.input = ParseHlo(source_, diags_);
  if (!done_.input || !VerifyHlo(*done_.input, diags_) ||
      !cli::TakeElided(options_.elided, done_.input.get(), diags_)) {
    return false;
  }
  auto files = LoadKernelCalls(*done_.input, options_.chip, diags_);
  if (!files) return false;
  files_ = std::move(*files);
  dumps_ = std::make_unique<Dumps>(options_.dump_to, done_.input->name, options_.dump_pass_re);
  done_.module = Clone(*done_.input);
  if (dumps_->enabled()) dumps_->AddPass(0, "parse", PrintHlo(*done_.module));
  PipelineOptions pipeline;
  pipeline.disabled = options_.disable_passes;
  bool is_pass = IsPass(options_.stop_after);
  if (is_pass) pipeline.stop_after = options_.stop_after;
  pipeline.replicate_statistics = options_.replicate_statistics;
  PlaceKernelCalls(files_, &pipeline);
  pipeline.want_remarks = options_.print_changed || !options_.print_after.empty();
  std::unique_ptr<VerifyEach> verify;
  if (options_.verify_each) {
    verify = std::make_unique<VerifyEach>(*done_.input, options_.seed, diags_, EvalWith(files_));
    pipeline.verify_each = [&](absl::string_view pass, const Module& module) {
      return verify->Check(pass, module);
    };
  }
  if (!RunPipeline(done_.module.get(), *options_.chip, pipeline, Observer(dumps_.get()),
                   &assignment_, diags_)) {
    return false;
  }
  if (is_pass) {
    done_.text = PrintHlo(*done_.module);
    stopped_ = true;
    return true;
  }
  if (Wants("hlo") || options_.stop_after == "hlo") StopAt("hlo", PrintHlo(*done_.module));
  return true;
}

EmitOptions Road::Emit() const {
  EmitOptions emit;
  emit.opt_level = options_.opt_level;
  emit.strips = options_.strips == "whole" ? Strips::kWhole : Strips::kAuto;
  emit.vmem_limit = options_.vmem_limit;
  emit.options =
      absl::StrCat("-O", options_.opt_level, " --strips=", options_.strips,
                   options_.replicate_statistics ? " --replicate-statistics" : "",
                   options_.elided == cli::Elided::kXla ? " --elided-constants=xla" : "");
  return emit;
}

// Kernels of the module, with windows that leave room for the temporaries of their bodies: those
// are estimated when windows are chosen, and known once the kernel is lowered. What is too large
// gets smaller windows; errors of lowering are left to Llo().
bool Road::KernelsOfModule() {
  Chip limited = *options_.chip;
  if (options_.vmem_limit > 0) limited.scoped_vmem_bytes = options_.vmem_limit;
  WindowOptions windows;
  windows.files = &files_;
  std::string tables;
  if (Wants("windows")) windows.tables = &tables;
  done_.kernels = KernelsFromHlo(*done_.module, assignment_, limited, diags_, windows);
  if (!done_.kernels) return false;
  for (int attempt = 0; attempt < kWindowAttempts; ++attempt) {
    DiagSink quiet;
    auto llo = std::make_unique<llo::Program>();
    region_ = {};
    if (EmitProgram(*done_.kernels, *options_.chip, Emit(), llo.get(), &region_, &quiet)) {
      done_.llo = std::move(llo);
      break;
    }
    if (region_.too_large < 0) break;
    const std::string& name = done_.kernels->kernels[region_.too_large].name;
    const auto it = windows.budgets.insert({name, limited.scoped_vmem_bytes}).first;
    it->second = it->second / 8 * 5;
    std::string previous = std::exchange(tables, "");
    auto smaller = KernelsFromHlo(*done_.module, assignment_, limited, &quiet, windows);
    if (!smaller) {
      tables = std::move(previous);
      break;
    }
    done_.kernels = std::move(smaller);
  }
  if (Wants("windows")) Talk("windows", tables);
  return true;
}

bool Road::Kernels() {
  SetCurrentStage("kernels");
  if (done_.kind == InputKind::kKernel) {
    done_.kernels = cli::ReadKernels(source_, options_.set, options_.set_words, diags_);
  } else {
    if (!KernelsOfModule()) return false;
  }
  Chip limited = *options_.chip;
  if (options_.vmem_limit > 0) limited.scoped_vmem_bytes = options_.vmem_limit;
  if (!done_.kernels || !VerifyKernels(*done_.kernels, limited, diags_)) return false;
  if (options_.permute_parallel) {
    for (size_t k = 0; k < done_.kernels->kernels.size(); ++k) {
      if (options_.permute_kernel >= 0 && static_cast<int>(k) != options_.permute_kernel) continue;
      kernel::PermuteParallel(&done_.kernels->kernels[k], *options_.permute_parallel,
                              options_.permute_axis);
    }
    done_.llo.reset();  // what was tried with the axes in order
  }
  if (!dumps_)
    dumps_ = std::make_unique<Dumps>(options_.dump_to, done_.kernels->name, options_.dump_pass_re);
  if (dumps_->enabled() || Wants("kernel") || options_.stop_after == "kernel") {
    std::string text = PrintKernels(*done_.kernels);
    StopAt("kernel", text);
    dumps_->AddKernel("all", 0, "kernels", std::move(text));
  }
  return true;
}

bool Road::Llo() {
  if (!done_.llo) {
    done_.llo = std::make_unique<llo::Program>();
    if (!EmitProgram(*done_.kernels, *options_.chip, Emit(), done_.llo.get(), &region_, diags_)) {
      return false;
    }
  }
  for (const llo::Function& f : done_.llo->kernels) {
    if (!VerifyLlo(f, diags_, options_.chip->mxu_tiles())) return false;
    if (dumps_->enabled()) dumps_->AddKernel(f.name, 1, "llo", bundle::PrintLlo(f));
  }
  if (!VerifyLlo(done_.llo->tlp, diags_, options_.chip->mxu_tiles())) return false;
  if (Wants("llo") || options_.stop_after == "llo") StopAt("llo", bundle::PrintLlo(*done_.llo));
  return true;
}

bool Road::AssembleAll() {
  isa::Program& program = *done_.program;
  int64_t spill_end = 0;
  auto assemble = [&](const llo::Function& f, isa::Function* out) {
    SetCurrentStage(absl::StrCat("assemble ", f.name));
    AssembleOptions ao;
    ao.opt_level = options_.opt_level;
    // The TLP lives on while kernels run: its spill slots lie after theirs.
    bool tlp = &f == &done_.llo->tlp;
    ao.spill_row = std::max(FirstFreeRow(f, region_.first_row), tlp ? spill_end : int64_t{0});
    ao.spill_word = tlp ? options_.chip->smem_bytes / 4 - kTlpSpillWords : FirstFreeWord(f);
    int64_t rows = 0;
    if (!Assemble(f, *options_.chip, ao, out, &rows, diags_)) return false;
    out->info.vmem_bytes += rows * 512;
    spill_end = std::max(spill_end, ao.spill_row + rows);
    int64_t used = ao.spill_row + rows - region_.first_row;
    if (region_.rows > 0 && used > region_.rows) {
      diags_->Add(DiagCode::kVmemBudget, absl::StrCat("kernel ", f.name, " needs ", used * 512,
                                                      " B of VMEM with its spills, the limit is ",
                                                      region_.rows * 512, " B"));
      return false;
    }
    return true;
  };
  for (const llo::Function& f : done_.llo->kernels) {
    if (!assemble(f, &program.kernels.emplace_back())) return false;
    if (dumps_ && dumps_->enabled()) {
      dumps_->AddKernel(f.name, 2, "bundles", bundle::PrintFunction(program.kernels.back(), 0));
    }
  }
  return assemble(done_.llo->tlp, &program.tlp);
}

bool Road::Bundles() {
  done_.program = std::make_unique<isa::Program>(done_.llo->shell);
  if (!AssembleAll()) return false;
  SetCurrentStage("verify bundles");
  return VerifyBundles(*done_.program, *options_.chip, diags_);
}

// Saved bundles hold to the chip that they were made for, whose text they carry.
bool Road::SavedBundles() {
  done_.program = bundle::ParseBundles(source_, diags_);
  if (!done_.program) return false;
  const isa::Program& p = *done_.program;
  if (p.chip_text.empty() || p.chip_text == options_.chip->text) {
    return VerifyBundles(p, *options_.chip, diags_);
  }
  std::unique_ptr<Chip> own =
      ParseChip(std::make_shared<const Source>(Source{p.chip_name + ".chip", p.chip_text}), diags_);
  return own != nullptr && VerifyBundles(p, *own, diags_);
}

std::optional<Compiled> Road::Run() {
  done_.kind = KindOf(*source_);
  bool ok = true;
  switch (done_.kind) {
    case InputKind::kHlo:
      ok = Hlo() && (stopped_ || Kernels()) && (stopped_ || Llo()) && (stopped_ || Bundles());
      break;
    case InputKind::kKernel:
      ok = Kernels() && (stopped_ || Llo()) && (stopped_ || Bundles());
      break;
    case InputKind::kLlo:
      done_.llo = bundle::ParseLlo(source_, diags_);
      ok = done_.llo != nullptr && VerifyLlo(done_.llo->tlp, diags_, options_.chip->mxu_tiles()) &&
           std::all_of(done_.llo->kernels.begin(), done_.llo->kernels.end(),
                       [&](const llo::Function& f) {
                         return VerifyLlo(f, diags_, options_.chip->mxu_tiles());
                       }) &&
           Bundles();
      break;
    case InputKind::kBundles:
      ok = SavedBundles();
      break;
  }
  SetCurrentStage("done");
  if (dumps_ && !dumps_->Write(diags_)) ok = false;
  if (ok && done_.program && Wants("bundles")) {
    Talk("bundles", bundle::PrintBundles(*done_.program));
  }
  // What was printed on the way helps most where the road ends in an error.
  if (options_.talk) options_.talk(done_.talk);
  if (!ok) return std::nullopt;
  return std::move(done_);
}

}  // namespace

InputKind KindOf(const Source& source) {
  absl::string_view text = FirstWords(source.text);
  if (bundle::LooksLikeBundles(text)) return InputKind::kBundles;
  if (bundle::LooksLikeLlo(text)) return InputKind::kLlo;
  size_t word = 0;
  while (word < text.size() && absl::ascii_isalpha(text[word])) ++word;
  absl::string_view first = text.substr(0, word);
  if (absl::EndsWith(source.name, ".tk") || first == "kernel" || first == "program") {
    return InputKind::kKernel;
  }
  return InputKind::kHlo;
}

std::optional<Compiled> Compile(std::shared_ptr<const Source> source, const CompileOptions& options,
                                DiagSink* diags) {
  return Road(std::move(source), options, diags).Run();
}

}  // namespace tpuc
