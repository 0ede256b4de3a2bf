// The state of the simulated core and the decoded form of a program. Bodies (one a row of isa.def)
// are functions of a Machine and an Op; decode.cc makes Ops from isa::Inst with everything
// resolved: register numbers, immediates as splat constants, latencies, time lines.
//
//   vadd.f32 %v3, 0x3f800000  ->  Op{body, dest 3, v[0] = register 3, v[1] = constant, ...}
//
// Vector and mask registers are pointers to 8 x 128 words, so that a pop or a commit is a swap.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/interp/dma.h"
#include "backend/interp/interp.h"
#include "backend/interp/memory.h"
#include "backend/interp/mxu.h"
#include "backend/isa/isa.h"

namespace tpuc::interp {

constexpr int kSublanes = 8;
constexpr int kLanes = 128;
constexpr int kWords = kSublanes * kLanes;

struct Machine;
struct Op;
using Body = void (*)(Machine&, const Op&);
using BodyTable = std::array<Body, isa::kOpcodeCount>;

struct VectorSource {
  uint32_t index = 0;  // of Machine::reg
  uint32_t step = 0;   // all ones: a register; 0: a constant of one vector, read again and again
};
struct ScalarSource {
  int32_t reg = -1;  // -1: immediate
  int32_t imm = 0;
};

struct Op {
  Body body = nullptr;
  isa::Opcode opcode{};
  int8_t unit = 0;
  bool pred_negated = false;
  int16_t pred = -1;   // -1: always
  int16_t queue = -1;  // of Machine::queues, for pushes and pops
  int32_t dest =
      -1;  // v, m: index of Machine::reg; s, p: of Machine::s, p; maybe a shadow (Commit)
  int32_t latency = 0;
  VectorSource v[3];  // vector and mask sources in order
  ScalarSource s[7];  // scalar and predicate sources in order
  ScalarSource base;  // memory operand
  int32_t offset = 0, stride = 1;
  uint8_t sublanes = 0xff;
  int8_t scalars = 0;  // scalar sources given (DMA: 4 or 7)
  int32_t target = -1;
  const isa::Inst* inst = nullptr;
};

// A write that must not be seen by later instructions of its bundle goes to a shadow register and
// is moved at the end of the bundle, if the instruction ran.
struct Commit {
  isa::RegClass cls{};
  int32_t dest = 0, shadow = 0;
  int32_t op = 0;  // index in the bundle
};

struct TimeSet {
  uint16_t line = 0;
  int32_t delta = 0;
};

struct DecodedBundle {
  uint32_t op = 0, wait = 0, set = 0, dynamic = 0, commit = 0;  // first of each in the function
  uint16_t ops = 0, operand_waits = 0, unit_waits = 0, sets = 0, dynamics = 0, commits = 0;
};

struct DecodedFunction {
  const isa::Function* source = nullptr;
  int kernel = -1;  // -1: the TLP
  std::vector<DecodedBundle> bundles;
  std::vector<Op> ops;
  std::vector<uint16_t> waits;  // time lines: operands, then units of each bundle
  std::vector<TimeSet> sets;
  std::vector<uint32_t> dynamics;  // ops whose issue depends on a queue, row or flag
  std::vector<Commit> commits;
};

// Indices of the time lines: when each register is ready and each unit may be used next.
struct Lines {
  int vector = 0, mask = 0, scalar = 0, predicate = 0;
  int xlu_op = 0, xlu_start = 0, xlu_pop = 0;                            // + XLU
  int push = 0, subr = 0, mubr = 0, matmul = 0, latch = 0, mrf_pop = 0;  // + MXU
  int dma = 0, count = 0;
};

enum class ResultKind : uint8_t { kEup, kXlane, kPermute, kTranspose, kMrf, kV2s };

struct Queue {
  struct Entry {
    Time ready;
    ResultKind kind{};
    uint32_t* data = nullptr;  // 8 x 128 words; null in timing-only runs
    uint32_t word = 0;         // V2S
  };
  std::vector<Entry> ring;  // as many as the queue is deep
  int head = 0, size = 0;
  std::string name;

  bool full() const { return size == static_cast<int>(ring.size()); }
  Entry& front() { return ring[head]; }
  Entry& Push() {
    int at = head + size++;
    if (at >= static_cast<int>(ring.size())) at -= static_cast<int>(ring.size());
    return ring[at];
  }
  void Pop() {
    if (++head == static_cast<int>(ring.size())) head = 0;
    --size;
  }
};

struct Transpose {             // of one XLU
  int pushes = 0;              // 0: none open
  std::vector<uint32_t> data;  // pushes x 8 x 128 words
};

struct Counters {
  Time cycles;
  int64_t calls = 0;
  int64_t stall_operand = 0, stall_unit = 0, stall_queue = 0;
  std::vector<int64_t> issued;  // per bundle
};

struct Machine {
  const isa::Program* program = nullptr;
  const Chip* chip = nullptr;
  const RunOptions* options = nullptr;
  RunResult* result = nullptr;
  bool values = true;

  // Vectors, masks, shadows, three spare registers, constants.
  std::vector<uint32_t*> reg;
  std::vector<int32_t> s;
  std::vector<uint8_t> p;
  uint32_t spare = 0;
  std::vector<uint32_t*> free_tiles;
  std::vector<std::unique_ptr<uint8_t[]>> storage;

  Lines lines;
  std::vector<Time> ready;  // by line
  std::vector<Queue> queues;
  int eup_queue = 0, v2s_queue = 1, xlu_queue = 2, mrf_queue = 2;  // + XLU, MXU
  std::vector<Mxu> mxus;
  std::vector<Transpose> transposes;
  Memory memory;
  DmaEngine dma;

  Time now{-1, -1};   // issue of the running bundle
  int64_t delay = 0;  // from vdelay
  const DecodedFunction* function = nullptr;
  int pc = 0;
  const Op* current = nullptr;
  int branch_target = -1, branch_delay = 0;
  const Op* call = nullptr;

  std::vector<int> last_source;  // by flag: source row of what added to it last

  bool failed = false;
  bool needs_values = false;  // a timing-only run met control that depends on vectors
  Fault fault;

  void Fail(DiagCode code, std::string message);  // keeps the first
  int64_t grid_steps = 0;                         // grid points begun in this call
  std::string GridPoint() const;                  // of the last one; "" where there is none
  // " (buf[row 3])": what the running kernel's text calls a row, word or flag; "" without a name.
  std::string NameOf(isa::Memory memory, int64_t at) const;
  int32_t Value(const ScalarSource& src) const { return src.reg < 0 ? src.imm : s[src.reg]; }
  bool Active(const Op& op) const { return op.pred < 0 || (p[op.pred] != 0) != op.pred_negated; }
  uint32_t* TakeTile();
  void FreeTile(uint32_t* tile) {
    if (tile != nullptr) free_tiles.push_back(tile);
  }
  // A new entry of the op's queue, ready `latency` after now; null after an overflow fault.
  Queue::Entry* Push(const Op& op, ResultKind kind, int64_t latency);
  // All 1024 words of a vector source; a constant is spread into a spare register.
  const uint32_t* Full(const Op& op, int source);
};

// The protocol of a transpose on op.unit: false after a fault.
bool TransposeOpen(Machine& m, const Op& op);  // true, with a fault: nothing else may be pushed
bool BeginTranspose(Machine& m, const Op& op);
bool ContinueTranspose(Machine& m, const Op& op);
// Enters the 16 results, ready as the chip says; `fill(pop, words)` makes each in runs with values.
template <class F>
void FinishTranspose(Machine& m, const Op& op, F fill) {
  Transpose& t = m.transposes[op.unit];
  int64_t first = op.latency - int64_t{t.pushes} * m.chip->interval(IntervalKey::kXlu);
  for (int pop = 0; pop < 16; ++pop) {
    Queue::Entry* entry =
        m.Push(op, ResultKind::kTranspose, first + pop * m.chip->interval(IntervalKey::kXluPop));
    if (entry == nullptr) return;
    if (m.values) fill(pop, entry->data);
  }
  t.pushes = 0;
  t.data.clear();
}

// Bodies of instructions that compute on no vectors, and of all others in timing-only runs. Null
// where VectorBodies has the body.
Body ControlBody(isa::Opcode op, bool strict, bool values);
// Bodies of vector instructions for a SIMD target of SimdTargets() ("" is the widest); null if the
// name is not one of them.
const BodyTable* VectorBodies(absl::string_view simd);

}  // namespace tpuc::interp
