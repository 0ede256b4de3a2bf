// Builds small programs in code and runs them. Data goes into VMEM as constants; results are read
// back through a DMA to HBM that the harness appends.
//
//   Harness h;
//   h.Vmem(0, words);                                  // 8 x 128 words at row 0
//   h.Bundle({Load(1, 0)});  h.Bundle({Store(1, 8)});
//   std::vector<uint32_t> out = h.ReadBack(8, 1);      // one register at row 8
#pragma once

#include <bit>
#include <cstring>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "backend/chip/chip.h"
#include "backend/interp/interp.h"
#include "backend/isa/program.h"

namespace tpuc::interp::testing {

using isa::Inst;
using isa::M;
using isa::Opcode;
using isa::Operand;
using isa::P;
using isa::Reg;
using isa::S;
using isa::V;
using Words = std::vector<uint32_t>;

constexpr int kTile = 1024;

inline Operand Imm(int32_t bits) { return Operand::Imm(bits); }
inline Operand F(float f) { return Operand::F32(f); }

inline Inst Do(Opcode op, Reg dest, std::initializer_list<Operand> src, int unit = -1) {
  Inst i{};
  i.op = op;
  i.dest = dest;
  for (const Operand& s : src) i.src.push_back(s);
  i.unit = static_cast<int8_t>(unit);
  return i;
}
inline Inst Do(Opcode op, std::initializer_list<Operand> src, int unit = -1) {
  return Do(op, Reg{}, src, unit);
}
inline Inst If(Reg pred, Inst i, bool negated = false) {
  i.pred = pred;
  i.pred_negated = negated;
  return i;
}
inline Inst Load(int v, int row, int mask = 0xff, int stride = 1) {
  Inst i = Do(Opcode::kVld, V(v), {});
  i.mem.offset = row;
  i.mem.sublane_mask = static_cast<uint8_t>(mask);
  i.mem.sublane_stride = stride;
  return i;
}
inline Inst Store(Operand v, int row, int mask = 0xff, int stride = 1) {
  Inst i = Do(Opcode::kVst, {v});
  i.mem.offset = row;
  i.mem.sublane_mask = static_cast<uint8_t>(mask);
  i.mem.sublane_stride = stride;
  return i;
}
inline Inst Store(int v, int row) { return Store(Operand(V(v)), row); }
inline Inst Branch(int target) {
  Inst i = Do(Opcode::kSbr, {});
  i.target = target;
  return i;
}
inline Inst Call(int kernel, std::initializer_list<Operand> args) {
  Inst i = Do(Opcode::kCall, args);
  i.target = kernel;
  return i;
}
inline Inst Move(int s, int32_t value) { return Do(Opcode::kSmov, S(s), {Imm(value)}); }

class Harness {
 public:
  Harness() {
    chip = BuiltinChip("v6e");
    program.tlp.name = "tlp";
    program.chip_name = "v6e";
    isa::Buffer out;
    out.name = "out";
    out.bytes = 1 << 20;
    program.buffers.push_back(out);
    isa::Port port;
    port.name = "out";
    port.buffer = 0;
    program.outputs.push_back(port);
  }

  void Vmem(int row, const Words& words) {
    isa::Buffer b;
    b.name = "vmem" + std::to_string(row);
    b.memory = isa::Memory::kVmem;
    b.offset = int64_t{row} * 512;
    b.bytes = static_cast<int64_t>(words.size()) * 4;
    program.buffers.push_back(b);
    isa::Constant c;
    c.buffer = static_cast<int>(program.buffers.size()) - 1;
    c.data.resize(words.size() * 4);
    std::memcpy(c.data.data(), words.data(), c.data.size());
    program.constants.push_back(c);
  }

  // HBM buffer at `granule` (the output buffer ends before granule 32768), an input if `input`.
  void Hbm(int granule, const Words& words) {
    isa::Buffer b;
    b.name = "hbm" + std::to_string(granule);
    b.offset = int64_t{granule} * 32;
    b.bytes = static_cast<int64_t>(words.size()) * 4;
    program.buffers.push_back(b);
    isa::Port port;
    port.name = b.name;
    port.buffer = static_cast<int>(program.buffers.size()) - 1;
    program.inputs.push_back(port);
    PortData data;
    data.bytes.resize(words.size() * 4);
    std::memcpy(data.bytes.data(), words.data(), data.bytes.size());
    inputs.push_back(std::move(data));
  }

  void Bundle(std::initializer_list<Inst> insts) { AddTo(&program.tlp, insts); }
  static void AddTo(isa::Function* f, std::initializer_list<Inst> insts) {
    isa::Bundle b;
    for (const Inst& i : insts) b.insts.push_back(i);
    f->bundles.push_back(b);
  }

  RunResult Go() const { return Run(program, *chip, inputs, options); }
  std::string FaultOf() const {
    RunResult r = Go();
    return r.ok ? "ok" : std::string(InfoOf(r.fault.code).code);
  }

  // Runs with the tiles at `row` copied out; empty after a fault.
  Words ReadBack(int row, int tiles) {
    Harness h = *this;
    int32_t granules = tiles * 128;
    h.Bundle({Do(Opcode::kDmaVmemToHbm, {Imm(row), Imm(granules), Imm(0), Imm(511)})});
    h.Bundle({Do(Opcode::kDmaDoneWait, {Imm(511), Imm(granules)})});
    result = h.Go();
    if (!result.ok) return {};
    Words words(static_cast<size_t>(tiles) * kTile);
    std::memcpy(words.data(), result.outputs[0].data(), words.size() * 4);
    return words;
  }

  isa::Program program;
  const Chip* chip = nullptr;
  std::vector<PortData> inputs;
  RunOptions options;
  RunResult result;  // of ReadBack
};

inline uint32_t Bits(float f) { return std::bit_cast<uint32_t>(f); }
inline float Float(uint32_t bits) { return std::bit_cast<float>(bits); }

// splitmix64, high word.
inline Words RandomWords(size_t n, uint64_t seed) {
  Words words(n);
  for (uint32_t& w : words) {
    uint64_t z = (seed += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    w = static_cast<uint32_t>((z ^ (z >> 31)) >> 32);
  }
  return words;
}
// Uniform in [-1, 1).
inline Words RandomFloats(size_t n, uint64_t seed) {
  Words words = RandomWords(n, seed);
  for (uint32_t& w : words) w = Bits(static_cast<float>(static_cast<int32_t>(w)) * 0x1p-31f);
  return words;
}

}  // namespace tpuc::interp::testing
