// One machine instruction as text: the syntax that LLO and bundles share. LLO prints virtual
// registers as %v3, bundles physical ones as v3; tokens exist in LLO only.
//
//   (!p2) v7 = vadd.f32 v3, 1.5f @4
//   v1 = vld [vmem:s4+8] ss:0 sm:0x0f
//   vst [vmem:s1], v1
//   v9 = vpop.f32.mrf.mxu1
//   (p1) sbr.rel ->17
#pragma once

#include <string>

#include "backend/isa/isa.h"
#include "grammar/bundle/lexer.h"
#include "src/diag/diag.h"

namespace tpuc::bundle {

enum class RegisterForm : uint8_t { kVirtual, kPhysical };

std::string PrintInst(const isa::Inst& inst, RegisterForm form);
// Parses one instruction up to (not including) ";;", "}" or the line end. On an error adds a
// diagnostic and returns false.
bool ParseInst(Lexer* lexer, RegisterForm form, isa::Inst* inst, DiagSink* diags);

// Numbers: decimal, 0x hexadecimal. False where the token is not one or does not fit.
bool ParseInt(absl::string_view text, int64_t* value);

}  // namespace tpuc::bundle
