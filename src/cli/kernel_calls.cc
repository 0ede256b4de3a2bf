#include "src/cli/kernel_calls.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "backend/kernel/block_eval.h"
#include "backend/kernel/verifier.h"
#include "src/cli/kernel_file.h"
#include "src/cli/modules.h"
#include "src/ir/kernel_call.h"

namespace tpuc {
namespace {

using Json = nlohmann::json;

class Loader {
 public:
  Loader(const Module& module, const Chip* chip, DiagSink* diags)
      : module_(module), chip_(chip), diags_(diags) {}

  bool Load(const Instruction& call, KernelFiles* files) {
    const std::string config(call.StringAttr(AttrId::kBackendConfig));
    std::shared_ptr<const kernel::Program>& program = (*files)[config];
    if (!program) program = Read(call, config);
    return program && Fits(call, *program);
  }

 private:
  std::nullptr_t Fail(const Instruction& call, std::string message, std::string hint = "") {
    diags_->Add(DiagCode::kCallSignature, module_.source, call.loc, std::move(message)).hint =
        std::move(hint);
    return nullptr;
  }
  std::shared_ptr<const kernel::Program> Read(const Instruction& call, const std::string& config);
  bool Fits(const Instruction& call, const kernel::Program& program);

  const Module& module_;
  const Chip* chip_;
  DiagSink* diags_;
};

std::shared_ptr<const kernel::Program> Loader::Read(const Instruction& call,
                                                    const std::string& config) {
  const Json json = Json::parse(config, nullptr, /*allow_exceptions=*/false);
  constexpr char kForm[] = R"(backend_config={"file":"softmax.tk","set":{"br":8}})";
  if (!json.is_object() || !json.contains("file") || !json["file"].is_string()) {
    return Fail(call, absl::StrCat(call.name, " names no kernel file"), kForm);
  }
  std::vector<std::pair<std::string, int64_t>> set;
  std::vector<std::pair<std::string, std::string>> words;
  const Json settings = json.value("set", Json::object());
  for (const auto& [name, value] : settings.items()) {
    if (value.is_number_integer()) {
      set.emplace_back(name, value.get<int64_t>());
    } else if (value.is_number() || value.is_string()) {
      words.emplace_back(name, value.is_string() ? value.get<std::string>() : value.dump());
    } else {
      return Fail(call, absl::StrCat("parameter ", name, " is no number and no word"), kForm);
    }
  }
  const std::string path = cli::PathBeside(module_.source.get(), json["file"].get<std::string>());
  auto source = cli::ReadSource(path, diags_);
  if (!source) return Fail(call, absl::StrCat(call.name, " calls a kernel file that is not there"));
  std::shared_ptr<const kernel::Program> program = cli::ReadKernels(source, set, words, diags_);
  if (!program || (chip_ && !VerifyKernels(*program, *chip_, diags_))) return nullptr;
  if (program->steps.size() != 1 || program->steps[0].kind != kernel::Step::Kind::kCall) {
    return Fail(call, absl::StrCat(path, " has a program of ", program->steps.size(),
                                   " steps: a call runs one kernel"));
  }
  for (const kernel::Ref& ref : program->kernels[program->steps[0].kernel].refs) {
    if (ref.alias < 0) continue;
    return Fail(call, absl::StrCat("output ", ref.name, " of ", path,
                                   " aliases an input, which a call cannot"));
  }
  return program;
}

bool Loader::Fits(const Instruction& call, const kernel::Program& program) {
  std::vector<const Shape*> operands, results;
  for (const Instruction* o : call.operands) operands.push_back(&o->shape);
  if (call.shape.IsTuple()) {
    for (const Shape& s : call.shape.elements) results.push_back(&s);
  } else {
    results.push_back(&call.shape);
  }
  bool ok = true;
  const auto compare = [&](absl::string_view what, const std::vector<const Shape*>& have,
                           const std::vector<kernel::Port>& want) {
    if (have.size() != want.size()) {
      Fail(call, absl::StrCat(program.name, " has ", want.size(), " ", what, "s, the call ",
                              have.size()));
      ok = false;
      return;
    }
    for (size_t n = 0; n < have.size(); ++n) {
      if (Compatible(*have[n], want[n].shape)) continue;
      Fail(call, absl::StrCat(what, " ", n, " is ", ToString(*have[n], false), ", ", want[n].name,
                              " of ", program.name, " is ", ToString(want[n].shape, false)));
      ok = false;
    }
  };
  compare("operand", operands, program.inputs);
  compare("result", results, program.outputs);
  return ok;
}

}  // namespace

std::optional<KernelFiles> LoadKernelCalls(const Module& module, const Chip* chip,
                                           DiagSink* diags) {
  KernelFiles files;
  Loader loader(module, chip, diags);
  bool ok = true;
  for (const auto& c : module.computations) {
    for (const auto& i : c->instructions) {
      if (IsKernelCall(*i)) ok &= loader.Load(*i, &files);
    }
  }
  if (!ok) return std::nullopt;
  return files;
}

void PlaceKernelCalls(const KernelFiles& files, PipelineOptions* pipeline) {
  pipeline->operand_in_vmem = [&files](const Instruction& call, int64_t operand) {
    return OperandInVmem(files, call, operand);
  };
  pipeline->result_in_vmem = [&files](const Instruction& call, int64_t leaf) {
    return ResultInVmem(files, call, leaf);
  };
}

EvalOptions EvalWith(const KernelFiles& files, Numbers numbers) {
  EvalOptions eval;
  eval.numbers = numbers;
  if (files.empty()) return eval;
  eval.custom_call = [&files, numbers](const Instruction& call, std::vector<Literal> operands,
                                       DiagSink* diags) -> std::optional<std::vector<Literal>> {
    const auto it = files.find(std::string(call.StringAttr(AttrId::kBackendConfig)));
    if (!IsKernelCall(call) || it == files.end()) {
      diags->Add(DiagCode::kUnsupportedOp,
                 absl::StrCat(call.name, ": custom-call to \"",
                              call.StringAttr(AttrId::kCustomCallTarget), "\""));
      return std::nullopt;
    }
    EvalOptions options;
    options.numbers = numbers;
    return EvaluateKernels(*it->second, std::move(operands), options, diags);
  };
  return eval;
}

}  // namespace tpuc
