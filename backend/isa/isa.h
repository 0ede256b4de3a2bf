// The instruction set: one struct for the machine operations of LLO (virtual registers) and of
// bundles (physical registers), and the table isa.def that says what each is. The compiler and the
// interpreter share this, the chip description and nothing else.
//
//   %v7 = vadd.f32 %v3, %v5                       LLO
//   (%p2) %v1 = vld [vmem:%s4 + 8] ss:$0 sm:$0xff
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"
#include "backend/chip/keys.h"

namespace tpuc::isa {

enum class Opcode : uint16_t {
#define INST(id, ...) id,
#include "backend/isa/isa.def"
#undef INST
};
constexpr int kOpcodeCount = 0
#define INST(...) +1
#include "backend/isa/isa.def"
#undef INST
    ;

// Issue slots of a bundle. Misc takes one of the load positions, MiscStore one of the store
// positions.
enum class Slot : uint8_t { kSalu, kValu, kEup, kVex, kPop, kLoad, kStore, kMisc, kMiscStore };
enum class Unit : uint8_t { kNone, kMxu, kXlu, kEup, kV2s };
enum class RegClass : uint8_t { kNone, kVector, kMask, kScalar, kPredicate, kToken };

struct OpInfo {
  Opcode op;
  absl::string_view mnemonic;
  Slot slot;
  Unit unit;
  RegClass dest;
  absl::string_view sources;  // letters of isa.def without '@' and '?'
  bool has_memory;
  LatencyKey latency;
  IntervalKey interval;
};
const OpInfo& Info(Opcode op);
// Works on the second 128 of K or N, which an MXU of 128 x 128 does not have.
bool NeedsWideMxu(Opcode op);
std::optional<Opcode> FromMnemonic(absl::string_view mnemonic);

struct Reg {
  RegClass cls = RegClass::kNone;
  int32_t id = -1;
  bool valid() const { return cls != RegClass::kNone; }
  bool operator==(const Reg& o) const { return cls == o.cls && id == o.id; }
};
inline Reg V(int id) { return {RegClass::kVector, id}; }
inline Reg M(int id) { return {RegClass::kMask, id}; }
inline Reg S(int id) { return {RegClass::kScalar, id}; }
inline Reg P(int id) { return {RegClass::kPredicate, id}; }
inline Reg T(int id) { return {RegClass::kToken, id}; }

// A source: a register or 32 immediate bits (an f32's bits for f32 operations).
struct Operand {
  Reg reg;  // invalid: immediate
  int32_t imm = 0;
  Operand() = default;
  Operand(Reg r) : reg(r) {}  // NOLINT: implicit by design
  static Operand Imm(int32_t bits) {
    Operand o;
    o.imm = bits;
    return o;
  }
  static Operand F32(float f);
  bool is_imm() const { return !reg.valid(); }
};

// [vmem:base + offset] ss:$stride sm:$mask. VMEM in rows of 512 bytes, SMEM in words of 4.
struct MemRef {
  Operand base;  // scalar register, or immediate 0
  int32_t offset = 0;
  int32_t sublane_stride = 1;  // rows between sublanes; 0: one row to all (loads)
  uint8_t sublane_mask = 0xff;
  // LLO only: which allocation or operand of the function the address lies in (-1: unknown), for
  // alias analysis: different buffers never overlap.
  int32_t buffer = -1;
};

struct Inst {
  Opcode op;
  int8_t unit = -1;  // which MXU or XLU; -1: not applicable, or (LLO, XLU) the scheduler chooses
  bool pred_negated = false;
  Reg pred;  // invalid: always
  Reg dest;
  absl::InlinedVector<Operand, 3> src;
  MemRef mem;
  int32_t target = -1;  // sbr.rel: block (LLO) or bundle index; inlined_call: kernel index
  int32_t source = -1;  // row of the program's source map; -1: none
};

// The register letters of isa.def.
char ClassLetter(RegClass cls);  // v m s p t, '-' for none

}  // namespace tpuc::isa
