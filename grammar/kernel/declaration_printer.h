// Declarations back to syntax trees: integer expressions by the names of parameters and axes, axes
// of grids and of pipelines, blocks and index maps. Internal to grammar/kernel.
//
//   Expr cdiv(kParam 0, kConst 8)  ->  cdiv(M, 8)
#pragma once

#include <string>
#include <vector>

#include "backend/kernel/kernel.h"
#include "grammar/kernel/syntax.h"

namespace tpuc::kernel_text {

// Syntax trees: any node, a name, a call.
Expr Make(Expr::Kind kind, std::string text, std::vector<Expr> args = {});
Expr Name(std::string text);
Expr Call(std::string callee, std::vector<Expr> args);

struct StaticNames {
  std::vector<std::string> axes;      // by number
  std::vector<std::string> operands;  // of the pipeline around: values of the body
};
StaticNames GridNames(const kernel::Kernel& kernel);

Expr StaticSyntax(const kernel::Expr& e, const kernel::Kernel& kernel, const StaticNames& names);
Expr StaticSyntax(const kernel::Expr& e, const kernel::Kernel& kernel);   // outside pipelines
Expr MaskSyntax(const kernel::Mask& mask, const kernel::Kernel& kernel);  // its condition

Axis AxisSyntax(const kernel::GridAxis& axis, std::string name, const kernel::Kernel& kernel,
                const StaticNames& names);
// block, index map, buffers.
void MovesSyntax(const kernel::Ref& ref, const kernel::Kernel& kernel, const StaticNames& names,
                 Operand* operand);

}  // namespace tpuc::kernel_text
