// The instruction table at run time: isa.def's rows as OpInfo, and the way back from a mnemonic.
//
//   Info(Opcode::kVaddF32)      -> {"vadd.f32", kValu, sources "vv", latency kValu, ...}
//   FromMnemonic("vadd.f32")    -> Opcode::kVaddF32
//
// It holds no meaning of any instruction: bodies are in backend/interp.
#include "backend/isa/isa.h"

#include <array>
#include <bit>

#include "absl/container/flat_hash_map.h"

namespace tpuc::isa {
namespace {

constexpr RegClass ClassOf(char letter) {
  switch (letter) {
    case 'v':
      return RegClass::kVector;
    case 'm':
      return RegClass::kMask;
    case 's':
      return RegClass::kScalar;
    case 'p':
      return RegClass::kPredicate;
    case 't':
      return RegClass::kToken;
    default:
      return RegClass::kNone;
  }
}

constexpr OpInfo Row(Opcode op, absl::string_view mnemonic, Slot slot, Unit unit, char dest,
                     absl::string_view sources, LatencyKey latency, IntervalKey interval) {
  bool memory = !sources.empty() && sources[0] == '@';
  if (memory) sources.remove_prefix(1);
  return {op, mnemonic, slot, unit, ClassOf(dest), sources, memory, latency, interval};
}

constexpr std::array<OpInfo, kOpcodeCount> kTable = {
#define INST(id, mnemonic, slot, unit, dest, sources, latency, interval)                \
  Row(Opcode::id, mnemonic, Slot::slot, Unit::unit, dest, sources, LatencyKey::latency, \
      IntervalKey::interval),
#include "backend/isa/isa.def"
#undef INST
};

}  // namespace

const OpInfo& Info(Opcode op) { return kTable[static_cast<size_t>(op)]; }

bool NeedsWideMxu(Opcode op) {
  switch (op) {
    case Opcode::kVmatprepSubr:
    case Opcode::kVmatprepSubrMsk:
    case Opcode::kVmatprepMubr:
    case Opcode::kVmatprepMubrMsk:
    case Opcode::kVmatpush2:
    case Opcode::kVmatpush2Msk:
    case Opcode::kVmatpush2Xpose:
    case Opcode::kVmatpush2XposeMsk:
    case Opcode::kVmatpush3:
    case Opcode::kVmatpush3Msk:
    case Opcode::kVmatpush3Xpose:
    case Opcode::kVmatpush3XposeMsk:
      return true;
    default:
      return false;
  }
}

std::optional<Opcode> FromMnemonic(absl::string_view mnemonic) {
  static const auto* by_name = [] {
    auto* map = new absl::flat_hash_map<absl::string_view, Opcode>();
    for (const OpInfo& info : kTable) map->emplace(info.mnemonic, info.op);
    return map;
  }();
  auto it = by_name->find(mnemonic);
  if (it == by_name->end()) return std::nullopt;
  return it->second;
}

Operand Operand::F32(float f) { return Imm(std::bit_cast<int32_t>(f)); }

char ClassLetter(RegClass cls) {
  constexpr char kLetters[] = {'-', 'v', 'm', 's', 'p', 't'};
  return kLetters[static_cast<size_t>(cls)];
}

}  // namespace tpuc::isa
