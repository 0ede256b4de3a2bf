#include "src/cli/execute.h"

#include "absl/strings/str_cat.h"
#include "grammar/hlo/parser.h"
#include "src/cli/arguments.h"

namespace tpuc::cli {

std::optional<std::vector<InputPort>> InputPorts(const isa::Program& program, DiagSink* diags) {
  std::vector<InputPort> ports;
  for (const isa::Port& p : program.inputs) {
    InputPort port{p.name, {}};
    if (!ParseShapeText(p.shape, &port.shape) || !port.shape.IsArray()) {
      diags->Add(DiagCode::kBundleSyntax,
                 absl::StrCat("input '", p.name, "' has no array shape: '", p.shape, "'"));
      return std::nullopt;
    }
    ports.push_back(std::move(port));
  }
  return ports;
}

std::optional<Execution> Execute(const isa::Program& program, const std::vector<Literal>& inputs,
                                 const ExecuteOptions& options, DiagSink* diags) {
  NotBuilt("running bundles", diags);
  return std::nullopt;
}

}  // namespace tpuc::cli
