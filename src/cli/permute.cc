#include "src/cli/permute.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backend/kernel/permute.h"

namespace tpuc::cli {
namespace {

struct Difference {
  size_t output = 0;
  int64_t element = 0;
};

std::optional<Difference> FirstDifference(const std::vector<Literal>& a,
                                          const std::vector<Literal>& b) {
  for (size_t o = 0; o < a.size() && o < b.size(); ++o) {
    const int64_t size = a[o].size();
    const int64_t width = size > 0 ? a[o].byte_size() / size : 0;
    if (std::memcmp(a[o].bytes(), b[o].bytes(), a[o].byte_size()) == 0) continue;
    for (int64_t i = 0; i < size; ++i) {
      if (std::memcmp(a[o].bytes() + i * width, b[o].bytes() + i * width, width) != 0) {
        return Difference{o, i};
      }
    }
  }
  return std::nullopt;
}

std::vector<int64_t> IndexOf(const Dims& dims, int64_t element) {
  std::vector<int64_t> index(dims.size());
  for (size_t d = dims.size(); d-- > 0;) {
    index[d] = element % dims[d];
    element /= dims[d];
  }
  return index;
}

// `difference`: none where the run with the axis in another order faulted, as `faults` says.
void Report(const std::shared_ptr<const Source>& source, const kernel::Program& program,
            const kernel::Kernel& k, int axis, const std::optional<Difference>& difference,
            const DiagSink* faults, const std::vector<Literal>& outputs, DiagSink* diags) {
  std::string what = "the program faults";
  if (faults != nullptr && faults->has_errors()) {
    const Diag& fault =
        *std::find_if(faults->diags().begin(), faults->diags().end(),
                      [](const Diag& d) { return InfoOf(d.code).severity == Severity::kError; });
    absl::StrAppend(&what, ": ", fault.message);
    for (const DiagNote& note : fault.notes) absl::StrAppend(&what, "; ", note.message);
  }
  if (difference) {
    const Shape& shape = outputs[difference->output].shape();
    const std::vector<int64_t> index = IndexOf(shape.dims, difference->element);
    std::string point, name = absl::StrCat("out", difference->output);
    if (difference->output < program.outputs.size()) {
      name = program.outputs[difference->output].name;
      for (size_t r = 0; r < k.refs.size(); ++r) {
        if (k.refs[r].role != kernel::Ref::Role::kOut || k.refs[r].name != name) continue;
        point = kernel::PointOfElement(k, static_cast<int>(r), index);
      }
    }
    what = absl::StrCat("element [", absl::StrJoin(index, ","), "] of ", name,
                        point.empty() ? "" : absl::StrCat(", made at ", point, ","), " differs");
  }
  const Loc loc = k.grid[axis].loc.line > 0 ? k.grid[axis].loc : k.loc;
  Diag& diag = diags->Add(
      DiagCode::kParallelDependence, loc.line > 0 ? source : nullptr, loc,
      absl::StrCat("kernel ", k.name, ": results depend on the order of the parallel axis ",
                   k.grid[axis].name, ": ", what));
  diag.hint = absl::StrCat("without `parallel` the axis ", k.grid[axis].name, " keeps its order");
}

}  // namespace

bool CheckPermuted(std::shared_ptr<const Source> source, const CompileOptions& options,
                   const ExecuteOptions& execute, const std::vector<Literal>& inputs,
                   const Compiled& plain, const std::vector<Literal>& outputs, DiagSink* diags) {
  if (!plain.kernels) return true;
  CompileOptions other = options;
  other.print_after.clear();
  other.dump_to.clear();
  other.talk = nullptr;
  other.permute_parallel = execute.permute_parallel;
  ExecuteOptions quiet = execute;
  quiet.spans = quiet.trace = false;
  const auto run = [&](DiagSink* to) -> std::optional<std::vector<Literal>> {
    auto compiled = Compile(source, other, to);
    if (!compiled || !compiled->program) return std::nullopt;
    auto done = Execute(*compiled->program, inputs, quiet, to);
    if (!done) return std::nullopt;
    return std::move(done->outputs);
  };
  DiagSink faults;
  const auto all = run(&faults);
  const std::optional<Difference> any = all ? FirstDifference(outputs, *all) : std::nullopt;
  if (all && !any) return true;
  // Which axis it is: one after the other.
  for (size_t k = 0; k < plain.kernels->kernels.size(); ++k) {
    const kernel::Kernel& kernel = plain.kernels->kernels[k];
    for (int axis : kernel::PermutableAxes(kernel)) {
      other.permute_kernel = static_cast<int>(k);
      other.permute_axis = axis;
      DiagSink of_axis;
      const auto one = run(&of_axis);
      const auto difference = one ? FirstDifference(outputs, *one) : std::nullopt;
      if (one && !difference) continue;
      Report(source, *plain.kernels, kernel, axis, difference, one ? nullptr : &of_axis, outputs,
             diags);
      return false;
    }
  }
  diags->Add(DiagCode::kParallelDependence,
             absl::StrCat("with parallel axes of several kernels in another order "
                          "(--permute-parallel ",
                          *execute.permute_parallel, ") the results differ"));
  return false;
}

}  // namespace tpuc::cli
