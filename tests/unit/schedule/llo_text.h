// LLO functions of tests, written as text.
#pragma once

#include <memory>
#include <string>

#include "backend/chip/chip.h"
#include "backend/llo/llo.h"
#include "grammar/bundle/parser.h"
#include "grammar/bundle/printer.h"
#include "gtest/gtest.h"

namespace tpuc {

// `body`: allocation, blocks and block statements of one function.
inline llo::Function LloFromText(const std::string& body, int args) {
  std::string text = "tpuc.llo 1\nmodule \"m\"\noptions \"\"\nchip \"\" {{{\n}}}\nllo \"k\" args=" +
                     std::to_string(args) +
                     " steps=1 {\nop_names\nops\ninfo grid_steps=1 schedule_cycles=0 spills=0 "
                     "fills=0 temp_loads=0 temp_stores=0 max_live_vregs=0 vmem_bytes=0 flops=0\n" +
                     body + "}\n";
  DiagSink diags;
  auto source = std::make_shared<Source>(Source{"test.llo", text});
  auto program = bundle::ParseLlo(source, &diags);
  EXPECT_TRUE(program) << diags.Render();
  if (!program) return {};
  llo::Function f = program->tlp;
  int& scalars = f.registers[static_cast<int>(isa::RegClass::kScalar)];
  if (scalars < args) scalars = args;
  return f;
}

inline const Chip& V6e() { return *BuiltinChip("v6e"); }

}  // namespace tpuc
