// One body an instruction for what does not compute on vectors: scalar arithmetic, predicates,
// branches, calls, sync flags, DMA starts, loads, stores and pops; and, for timing-only runs, the
// pushes of vector units, which then only enter a result's time into its queue.
//
//   case Opcode::kSadd: return Scalar([](uint32_t a, uint32_t b) { return a + b; });
//
// Loads and stores exist twice, with and without the checks of strict runs.
#include <bit>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backend/interp/machine.h"

namespace tpuc::interp {
namespace {

using isa::Opcode;

// ---- scalar ----

template <class F>
constexpr Body Scalar(F) {
  return [](Machine& m, const Op& op) {
    m.s[op.dest] = static_cast<int32_t>(
        F()(static_cast<uint32_t>(m.Value(op.s[0])), static_cast<uint32_t>(m.Value(op.s[1]))));
  };
}
template <class F>
constexpr Body Compare(F) {
  return [](Machine& m, const Op& op) {
    m.p[op.dest] = F()(m.Value(op.s[0]), m.Value(op.s[1])) ? 1 : 0;
  };
}
// Predicate sources are ScalarSources whose register is a predicate; an immediate is 0 or not.
bool PredicateOf(const Machine& m, const ScalarSource& src) {
  return src.reg < 0 ? src.imm != 0 : m.p[src.reg] != 0;
}
template <class F>
constexpr Body Predicate(F) {
  return [](Machine& m, const Op& op) {
    m.p[op.dest] = F()(PredicateOf(m, op.s[0]), PredicateOf(m, op.s[1])) ? 1 : 0;
  };
}
void ScalarSelect(Machine& m, const Op& op) {
  m.s[op.dest] = PredicateOf(m, op.s[0]) ? m.Value(op.s[1]) : m.Value(op.s[2]);
}

// ---- control ----

void Branch(Machine& m, const Op& op) {
  if (m.branch_target >= 0) {
    m.Fail(DiagCode::kFaultInstruction, "branch taken in a delay slot of another");
    return;
  }
  m.branch_target = op.target;
  m.branch_delay = m.chip->delay_slots;
}
void Halt(Machine& m, const Op&) {
  m.Fail(DiagCode::kCoreHalted, "shalt.err: a check of the program failed");
}
void AssumeMultiple(Machine& m, const Op& op) {
  const int64_t value = m.Value(op.s[0]), of = m.Value(op.s[1]);
  m.s[op.dest] = static_cast<int32_t>(value);
  if (of > 0 && value % of == 0) return;
  m.Fail(DiagCode::kFaultPromise,
         absl::StrCat("multiple_of: ", value, " is not a multiple of ", of));
}
void AssumeRange(Machine& m, const Op& op) {
  const int64_t value = m.Value(op.s[0]), least = m.Value(op.s[1]), most = m.Value(op.s[2]);
  m.s[op.dest] = static_cast<int32_t>(value);
  if (value >= least && value <= most) return;
  m.Fail(DiagCode::kFaultRange,
         absl::StrCat("start ", value, " outside [", least, ", ", most, "]"));
}
void Call(Machine& m, const Op& op) {
  if (m.function->kernel >= 0) {
    m.Fail(DiagCode::kFaultInstruction, "inlined_call inside a kernel");
  } else if (m.branch_target >= 0) {
    m.Fail(DiagCode::kFaultInstruction, "inlined_call in a delay slot");
  } else if (m.call != nullptr) {
    m.Fail(DiagCode::kFaultInstruction, "two calls in one bundle");
  } else {
    m.call = &op;
  }
}
void Nothing(Machine&, const Op&) {}

// ---- sync flags ----

// The flag's number, or -1 after a fault. Brings the engine up to now.
int FlagOf(Machine& m, const Op& op) {
  int64_t flag = m.Value(op.s[0]);
  if (flag < 0 || flag >= static_cast<int64_t>(m.memory.flags.size())) {
    m.Fail(DiagCode::kFaultSyncFlag,
           absl::StrCat("sync flag ", flag, "; the chip has ", m.memory.flags.size()));
    return -1;
  }
  m.dma.Advance(m.now.wall);
  return static_cast<int>(flag);
}
void SyncAdd(Machine& m, const Op& op) {
  int flag = FlagOf(m, op);
  if (flag < 0) return;
  int64_t& value = m.memory.flags[flag];
  int64_t before = value;
  value += m.Value(op.s[1]);
  if (m.Value(op.s[1]) > 0 && op.inst->source >= 0) m.last_source[flag] = op.inst->source;
  if (value < 0) {
    m.Fail(DiagCode::kFaultSyncFlag,
           absl::StrCat("sync flag ", flag, " goes below zero: ", before, " + ", m.Value(op.s[1])));
  }
}
void SyncSet(Machine& m, const Op& op) {
  int flag = FlagOf(m, op);
  if (flag < 0) return;
  if (m.dma.UsesFlag(flag)) {
    m.Fail(
        DiagCode::kFaultSyncFlag,
        absl::StrCat("sync flag ", flag, " is set while a DMA that will add to it is under way"));
    return;
  }
  int32_t value = m.Value(op.s[1]);
  if (value < 0) {
    m.Fail(DiagCode::kFaultSyncFlag, absl::StrCat("sync flag ", flag, " set to ", value));
    return;
  }
  m.memory.flags[flag] = value;
}
void Delay(Machine& m, const Op& op) {
  int32_t cycles = m.Value(op.s[0]);
  m.delay += std::max(0, cycles);
}

// ---- DMA ----

struct Ends {
  isa::Memory from, to;
};
Ends EndsOf(Opcode op) {
  switch (op) {
    case Opcode::kDmaHbmToVmem:
      return {isa::Memory::kHbm, isa::Memory::kVmem};
    case Opcode::kDmaVmemToHbm:
      return {isa::Memory::kVmem, isa::Memory::kHbm};
    case Opcode::kDmaVmemToVmem:
      return {isa::Memory::kVmem, isa::Memory::kVmem};
    case Opcode::kDmaHbmToHbm:
      return {isa::Memory::kHbm, isa::Memory::kHbm};
    case Opcode::kDmaVmemToSmem:
      return {isa::Memory::kVmem, isa::Memory::kSmem};
    case Opcode::kDmaSmemToVmem:
      return {isa::Memory::kSmem, isa::Memory::kVmem};
    case Opcode::kDmaSmemToHbm:
      return {isa::Memory::kSmem, isa::Memory::kHbm};
    default:
      return {isa::Memory::kHbm, isa::Memory::kSmem};
  }
}

int64_t UnitBytes(isa::Memory memory) {
  switch (memory) {
    case isa::Memory::kHbm:
      return kGranuleBytes;
    case isa::Memory::kVmem:
      return kRowBytes;
    default:
      return 4;
  }
}

bool Inside(Machine& m, const Side& side, const char* verb) {
  int64_t limit = 0;
  const char* name = "";
  switch (side.memory) {
    case isa::Memory::kHbm:
      limit = m.memory.hbm.size();
      name = "HBM granules";
      break;
    case isa::Memory::kVmem:
      limit = m.memory.vmem.size();
      name = "VMEM rows";
      break;
    default:
      limit = static_cast<int64_t>(m.memory.smem.size()) * 4;
      name = "SMEM words";
      break;
  }
  // Far strides first: the ends of the whole transfer might not fit 64 bits.
  bool near = side.steps == 1 || std::abs(side.stride) <= limit / (side.steps - 1);
  if (side.piece == 0 || (near && side.low() >= 0 && side.high() <= limit)) return true;
  if (!near) {
    m.Fail(DiagCode::kFaultBounds, absl::StrCat("DMA ", verb, " ", name, " ", side.steps, " times ",
                                                side.stride / UnitBytes(side.memory), " apart"));
    return false;
  }
  int64_t unit = UnitBytes(side.memory);
  m.Fail(DiagCode::kFaultBounds,
         absl::StrCat("DMA ", verb, " ", name, " ", side.low() / unit, " .. ",
                      (side.high() - 1) / unit, "; there are ", limit / unit));
  return false;
}

int CopyOf(const Machine& m, int source) {
  if (source < 0 || source >= static_cast<int>(m.program->sources.size())) return -1;
  const std::string& name = m.program->sources[source].hlo;
  for (size_t i = 0; i < m.program->copies.size(); ++i) {
    if (m.program->copies[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

void StartDma(Machine& m, const Op& op) {
  Ends ends = EndsOf(op.opcode);
  int64_t granules = m.Value(op.s[1]);
  int64_t flag = m.Value(op.s[3]);
  if (granules < 0) {
    m.Fail(DiagCode::kFaultBounds, absl::StrCat("DMA of ", granules, " granules"));
    return;
  }
  if (flag < 0 || flag >= static_cast<int64_t>(m.memory.flags.size())) {
    m.Fail(DiagCode::kFaultSyncFlag,
           absl::StrCat("sync flag ", flag, "; the chip has ", m.memory.flags.size()));
    return;
  }
  int64_t step = op.scalars > 4 ? m.Value(op.s[6]) : granules;
  if (op.scalars > 4 && granules > 0 && (step <= 0 || granules % step != 0)) {
    m.Fail(DiagCode::kFaultInstruction,
           absl::StrCat("strided DMA of ", granules, " granules in steps of ", step));
    return;
  }
  Transfer t;
  t.op = op.opcode;
  t.bytes = granules * kGranuleBytes;
  t.flag = static_cast<int>(flag);
  t.from.memory = ends.from;
  t.to.memory = ends.to;
  t.from.address = m.Value(op.s[0]) * UnitBytes(ends.from);
  t.to.address = m.Value(op.s[2]) * UnitBytes(ends.to);
  t.from.piece = t.to.piece = step * kGranuleBytes;
  t.from.steps = t.to.steps = granules == 0 ? 1 : granules / step;
  if (granules == 0) t.from.piece = t.to.piece = 0;
  if (t.to.steps > 1) {
    t.from.stride = m.Value(op.s[4]) * kGranuleBytes;
    t.to.stride = m.Value(op.s[5]) * kGranuleBytes;
    if (std::abs(t.to.stride) < t.to.piece) {
      m.Fail(DiagCode::kFaultInstruction, "strided DMA whose steps overlap in the destination");
      return;
    }
  }
  if (!Inside(m, t.from, "reads") || !Inside(m, t.to, "writes")) return;
  t.source = op.inst->source;
  if (t.source >= 0) m.last_source[flag] = t.source;
  t.copy = CopyOf(m, t.source);
  t.kernel = m.function->kernel;
  bool instant = m.options->warm && t.copy >= 0 && m.program->copies[t.copy].cross_program;
  std::string race = m.dma.Start(std::move(t), m.now.wall, instant);
  if (!race.empty()) m.Fail(DiagCode::kFaultInFlight, absl::StrCat("DMA ", race));
}

// ---- SMEM ----

int64_t SmemAddress(Machine& m, const Op& op, const char* verb) {
  int64_t word = int64_t{m.Value(op.base)} + op.offset;
  if (word >= 0 && word < static_cast<int64_t>(m.memory.smem.size())) return word;
  m.Fail(DiagCode::kFaultBounds,
         absl::StrCat(verb, " SMEM word ", word, "; there are ", m.memory.smem.size()));
  return -1;
}
bool SmemFree(Machine& m, int64_t word, bool store) {
  if (m.dma.idle()) return true;
  m.dma.Advance(m.now.wall);
  if (!m.dma.MovesSmem(word * 4, 4, store)) return true;
  m.Fail(DiagCode::kFaultInFlight,
         absl::StrCat(
             "SMEM word ", word, m.NameOf(isa::Memory::kSmem, word),
             store ? " is part of a DMA under way" : " is the destination of a DMA under way"));
  return false;
}
template <bool kStrict>
void ScalarLoad(Machine& m, const Op& op) {
  int64_t word = SmemAddress(m, op, "reads");
  if (word < 0) return;
  if (kStrict) {
    if (!SmemFree(m, word, false)) return;
    if (!m.memory.smem_written[word]) {
      m.Fail(DiagCode::kFaultUninitialised,
             absl::StrCat("SMEM word ", word, m.NameOf(isa::Memory::kSmem, word),
                          " was never written"));
      return;
    }
  }
  m.s[op.dest] = m.memory.smem[word];
}
template <bool kStrict>
void ScalarStore(Machine& m, const Op& op) {
  int64_t word = SmemAddress(m, op, "writes");
  if (word < 0) return;
  if (kStrict && !SmemFree(m, word, true)) return;
  m.memory.smem[word] = m.Value(op.s[0]);
  m.memory.smem_written[word] = 1;
}

// ---- VMEM ----

int64_t FirstRow(const Machine& m, const Op& op) { return int64_t{m.Value(op.base)} + op.offset; }

bool RowsInside(Machine& m, const Op& op, int64_t first, const char* verb) {
  int lowest = std::countr_zero(static_cast<unsigned>(op.sublanes) | 0x100u);
  int highest = 31 - std::countl_zero(static_cast<unsigned>(op.sublanes) | 1u);
  int64_t a = first + int64_t{lowest} * op.stride, b = first + int64_t{highest} * op.stride;
  int64_t limit = m.memory.vmem_rows();
  if (op.sublanes == 0 || (std::min(a, b) >= 0 && std::max(a, b) < limit)) return true;
  m.Fail(DiagCode::kFaultBounds, absl::StrCat(verb, " VMEM rows ", std::min(a, b), " .. ",
                                              std::max(a, b), "; there are ", limit));
  return false;
}

template <class F>
void ForEachRow(const Op& op, int64_t first, F f) {
  for (unsigned rest = op.sublanes; rest != 0; rest &= rest - 1) {
    int i = std::countr_zero(rest);
    f(i, first + int64_t{i} * op.stride);
  }
}

// ", started in cycle 12 (k.tk:7)": the DMA that touches a row.
std::string StartedAt(const Machine& m, int64_t row) {
  const Transfer* t = m.dma.Toucher(isa::Memory::kVmem, row * kRowBytes, kRowBytes);
  if (t == nullptr) return "";
  std::string text = absl::StrCat(", started in cycle ", t->start);
  const int row_of_map = t->source;
  if (row_of_map >= 0 && row_of_map < static_cast<int>(m.program->sources.size()) &&
      !m.program->sources[row_of_map].place.empty()) {
    absl::StrAppend(&text, " (", m.program->sources[row_of_map].place, ")");
  }
  return text;
}

// Whether all rows may be read; reports the first that may not.
bool RowsReadable(Machine& m, const Op& op, int64_t first) {
  bool advanced = m.dma.idle();
  for (unsigned rest = op.sublanes; rest != 0; rest &= rest - 1) {
    int64_t row = first + int64_t{std::countr_zero(rest)} * op.stride;
    if ((m.memory.rows[row] & kRowDestination) != 0 && !advanced) {
      m.dma.Advance(m.now.wall);
      advanced = true;
    }
    uint16_t state = m.memory.rows[row];
    if ((state & kRowDestination) != 0) {
      m.Fail(DiagCode::kFaultInFlight,
             absl::StrCat("VMEM row ", row, m.NameOf(isa::Memory::kVmem, row),
                          " is the destination of a DMA under way", StartedAt(m, row)));
      return false;
    }
    if ((state & kRowWritten) == 0) {
      m.Fail(
          DiagCode::kFaultUninitialised,
          absl::StrCat("VMEM row ", row, m.NameOf(isa::Memory::kVmem, row), " was never written"));
      return false;
    }
  }
  return true;
}

bool RowsWritable(Machine& m, const Op& op, int64_t first) {
  bool advanced = m.dma.idle();
  for (unsigned rest = op.sublanes; rest != 0; rest &= rest - 1) {
    int64_t row = first + int64_t{std::countr_zero(rest)} * op.stride;
    if (m.memory.rows[row] > kRowWritten && !advanced) {
      m.dma.Advance(m.now.wall);
      advanced = true;
    }
    if (m.memory.rows[row] > kRowWritten) {
      bool destination = (m.memory.rows[row] & kRowDestination) != 0;
      m.Fail(DiagCode::kFaultInFlight,
             absl::StrCat("VMEM row ", row, m.NameOf(isa::Memory::kVmem, row), " is the ",
                          destination ? "destination" : "source", " of a DMA under way",
                          StartedAt(m, row)));
      return false;
    }
  }
  return true;
}

template <bool kStrict, bool kValues>
void VectorLoad(Machine& m, const Op& op) {
  int64_t first = FirstRow(m, op);
  if (!RowsInside(m, op, first, "reads")) return;
  if (kStrict && !RowsReadable(m, op, first)) return;
  if (!kValues) return;
  uint32_t* out = m.reg[op.dest];
  const uint8_t* vmem = m.memory.vmem.data();
  if (op.sublanes == 0xff && op.stride == 1) {
    std::memcpy(out, vmem + first * kRowBytes, kSublanes * kRowBytes);
    return;
  }
  if (op.sublanes != 0xff) std::memset(out, 0, kSublanes * kRowBytes);
  ForEachRow(op, first, [&](int i, int64_t row) {
    std::memcpy(out + i * kLanes, vmem + row * kRowBytes, kRowBytes);
  });
}

// The mask of a word that holds kParts rows, from the masks of these.
template <int kParts>
uint32_t PackedMask(const uint32_t* mask, int i, int lane) {
  constexpr int kBits = 32 / kParts;
  uint32_t keep = 0;
  for (int p = 0; p < kParts; ++p) {
    const uint32_t row = mask[(i * kParts + p) * kLanes + lane];
    keep |= (row & (~0u >> (32 - kBits))) << (p * kBits);
  }
  return keep;
}

// kParts: rows in a word of a masked store; 0: no mask.
template <bool kStrict, bool kValues, int kParts>
void VectorStore(Machine& m, const Op& op) {
  constexpr bool kMasked = kParts > 0;
  if (kParts > 1 && op.sublanes >> (kSublanes / std::max(kParts, 1)) != 0) {
    m.Fail(DiagCode::kFaultInstruction, "a masked store of packed words to more than a register's");
    return;
  }
  int64_t first = FirstRow(m, op);
  if (!RowsInside(m, op, first, "writes")) return;
  if (kStrict && !RowsWritable(m, op, first)) return;
  uint8_t* vmem = m.memory.vmem.data();
  const uint32_t* value = kValues ? m.Full(op, kMasked ? 1 : 0) : nullptr;
  const uint32_t* mask = kMasked && kValues ? m.Full(op, 0) : nullptr;
  ForEachRow(op, first, [&](int i, int64_t row) {
    m.memory.rows[row] |= kRowWritten;
    m.memory.stores.Store(row, m.now);
    if (!kValues) return;
    if (!kMasked) {
      std::memcpy(vmem + row * kRowBytes, value + i * kLanes, kRowBytes);
      return;
    }
    auto* to = reinterpret_cast<uint32_t*>(vmem + row * kRowBytes);
    for (int lane = 0; lane < kLanes; ++lane) {
      uint32_t keep = PackedMask<std::max(kParts, 1)>(mask, i, lane);
      to[lane] = (to[lane] & ~keep) | (value[i * kLanes + lane] & keep);
    }
  });
  m.memory.stores.Next();
  m.memory.stores_settle = m.now + op.latency;
}

// ---- queues ----

template <ResultKind kKind, bool kValues>
void Pop(Machine& m, const Op& op) {
  Queue& q = m.queues[op.queue];
  Queue::Entry& entry = q.front();
  if (entry.kind != kKind) {
    m.Fail(DiagCode::kFaultUnitState,
           absl::StrCat(isa::Info(op.opcode).mnemonic,
                        " finds a result of another kind at the head of ", q.name));
    return;
  }
  if (kValues) {
    std::swap(m.reg[op.dest], entry.data);
    m.FreeTile(entry.data);
    entry.data = nullptr;
  }
  q.Pop();
}
void PopScalar(Machine& m, const Op& op) {
  Queue& q = m.queues[op.queue];
  m.s[op.dest] = static_cast<int32_t>(q.front().word);
  q.Pop();
}
template <bool kValues>
void PushScalar(Machine& m, const Op& op) {
  if (!kValues) {
    m.needs_values = true;
    m.failed = true;
    return;
  }
  Queue::Entry* entry = m.Push(op, ResultKind::kV2s, op.latency);
  if (entry != nullptr) entry->word = m.reg[op.v[0].index][0];
}

// Timing-only pushes.
template <ResultKind kKind>
void PushTime(Machine& m, const Op& op) {
  if ((kKind == ResultKind::kXlane || kKind == ResultKind::kPermute) && TransposeOpen(m, op))
    return;
  m.Push(op, kKind, op.latency);
}
void MatmulTime(Machine& m, const Op& op) {
  if (m.Push(op, ResultKind::kMrf, op.latency) == nullptr || m.chip->mxu_tiles() < 2) return;
  m.Push(op, ResultKind::kMrf, op.latency + m.chip->interval(IntervalKey::kMrfPop));
}
void BeginTransposeTime(Machine& m, const Op& op) { BeginTranspose(m, op); }
void ContinueTransposeTime(Machine& m, const Op& op) { ContinueTranspose(m, op); }
void FinishTransposeTime(Machine& m, const Op& op) {
  bool ok = op.opcode == Opcode::kVxposeStartEnd ? BeginTranspose(m, op) : ContinueTranspose(m, op);
  if (ok) FinishTranspose(m, op, [](int, uint32_t*) {});
}

// ---- the tables ----

Body ArithmeticBody(Opcode op) {
  switch (op) {
    case Opcode::kSadd:
      return Scalar([](uint32_t a, uint32_t b) { return a + b; });
    case Opcode::kSsub:
      return Scalar([](uint32_t a, uint32_t b) { return a - b; });
    case Opcode::kSmul:
      return Scalar([](uint32_t a, uint32_t b) { return a * b; });
    case Opcode::kSand:
      return Scalar([](uint32_t a, uint32_t b) { return a & b; });
    case Opcode::kSor:
      return Scalar([](uint32_t a, uint32_t b) { return a | b; });
    case Opcode::kSxor:
      return Scalar([](uint32_t a, uint32_t b) { return a ^ b; });
    case Opcode::kSshll:
      return Scalar([](uint32_t a, uint32_t n) { return n > 31 ? 0u : a << n; });
    case Opcode::kSshrl:
      return Scalar([](uint32_t a, uint32_t n) { return n > 31 ? 0u : a >> n; });
    case Opcode::kSshra:
      return Scalar([](uint32_t a, uint32_t n) {
        return static_cast<uint32_t>(static_cast<int32_t>(a) >> std::min(n, 31u));
      });
    case Opcode::kSmov:
      return Scalar([](uint32_t a, uint32_t) { return a; });
    case Opcode::kSselect:
      return ScalarSelect;
    // By zero: quotient all ones, remainder the dividend.
    case Opcode::kSdiv:
      return Scalar([](uint32_t a, uint32_t b) { return b == 0 ? ~0u : a / b; });
    case Opcode::kSrem:
      return Scalar([](uint32_t a, uint32_t b) { return b == 0 ? a : a % b; });
    case Opcode::kScmpEq:
      return Compare([](int32_t a, int32_t b) { return a == b; });
    case Opcode::kScmpNe:
      return Compare([](int32_t a, int32_t b) { return a != b; });
    case Opcode::kScmpLt:
      return Compare([](int32_t a, int32_t b) { return a < b; });
    case Opcode::kScmpLe:
      return Compare([](int32_t a, int32_t b) { return a <= b; });
    case Opcode::kScmpGt:
      return Compare([](int32_t a, int32_t b) { return a > b; });
    case Opcode::kScmpGe:
      return Compare([](int32_t a, int32_t b) { return a >= b; });
    case Opcode::kPmov:
      return Predicate([](bool a, bool) { return a; });
    case Opcode::kPneg:
      return Predicate([](bool a, bool) { return !a; });
    case Opcode::kPor:
      return Predicate([](bool a, bool b) { return a || b; });
    case Opcode::kPand:
      return Predicate([](bool a, bool b) { return a && b; });
    case Opcode::kPnand:
      return Predicate([](bool a, bool b) { return !(a && b); });
    default:
      return nullptr;
  }
}

template <bool kStrict, bool kValues>
Body MachineBody(Opcode op) {
  switch (op) {
    case Opcode::kSld:
      return ScalarLoad<kStrict>;
    case Opcode::kSst:
      return ScalarStore<kStrict>;
    case Opcode::kSbr:
      return Branch;
    case Opcode::kSassumeMultiple:
      return AssumeMultiple;
    case Opcode::kSassumeRange:
      return AssumeRange;
    case Opcode::kShalt:
      return Halt;
    case Opcode::kCall:
      return Call;
    case Opcode::kSpop:
      return PopScalar;
    case Opcode::kDmaHbmToVmem:
    case Opcode::kDmaVmemToHbm:
    case Opcode::kDmaVmemToVmem:
    case Opcode::kDmaHbmToHbm:
    case Opcode::kDmaVmemToSmem:
    case Opcode::kDmaSmemToVmem:
    case Opcode::kDmaHbmToSmem:
    case Opcode::kDmaSmemToHbm:
      return StartDma;
    case Opcode::kDmaDoneWait:
      return Nothing;  // waits before issue
    case Opcode::kVsyncadd:
      return SyncAdd;
    case Opcode::kVsyncpa:
      return SyncSet;
    case Opcode::kVtrace:
      return Nothing;
    case Opcode::kVdelay:
      return Delay;
    case Opcode::kVld:
      return VectorLoad<kStrict, kValues>;
    case Opcode::kVst:
      return VectorStore<kStrict, kValues, 0>;
    case Opcode::kVstMsk:
      return VectorStore<kStrict, kValues, 1>;
    case Opcode::kVstMskB16:
      return VectorStore<kStrict, kValues, 2>;
    case Opcode::kVstMskB8:
      return VectorStore<kStrict, kValues, 4>;
    case Opcode::kVstMskB4:
      return VectorStore<kStrict, kValues, 8>;
    case Opcode::kVpush:
      return PushScalar<kValues>;
    case Opcode::kVpopEup:
      return Pop<ResultKind::kEup, kValues>;
    case Opcode::kVpopXlane:
      return Pop<ResultKind::kXlane, kValues>;
    case Opcode::kVpopPermute:
      return Pop<ResultKind::kPermute, kValues>;
    case Opcode::kVpopTrf:
      return Pop<ResultKind::kTranspose, kValues>;
    case Opcode::kVpopMrf:
      return Pop<ResultKind::kMrf, kValues>;
    default:
      return nullptr;
  }
}

Body TimingBody(Opcode op) {
  switch (op) {
    case Opcode::kVpow2:
    case Opcode::kVlog2:
    case Opcode::kVrcp:
    case Opcode::kVrsqrt:
    case Opcode::kVtanh:
      return PushTime<ResultKind::kEup>;
    case Opcode::kVaddXlane:
    case Opcode::kVmaxXlane:
    case Opcode::kVminXlane:
      return PushTime<ResultKind::kXlane>;
    case Opcode::kVbcastLane:
    case Opcode::kVrotLane:
      return PushTime<ResultKind::kPermute>;
    case Opcode::kVxposeStart:
      return BeginTransposeTime;
    case Opcode::kVxposeCont:
      return ContinueTransposeTime;
    case Opcode::kVxposeEnd:
    case Opcode::kVxposeStartEnd:
      return FinishTransposeTime;
    case Opcode::kVmatmul:
    case Opcode::kVmatmulMsk:
    case Opcode::kVmatmulLatch:
    case Opcode::kVmatmulLatchMsk:
      return MatmulTime;
    default:
      return nullptr;
  }
}

}  // namespace

bool TransposeOpen(Machine& m, const Op& op) {
  if (m.transposes[op.unit].pushes == 0) return false;
  m.Fail(DiagCode::kFaultUnitState,
         absl::StrCat("xlu", op.unit, " is between the start and the end of a transpose"));
  return true;
}
bool BeginTranspose(Machine& m, const Op& op) {
  if (TransposeOpen(m, op)) return false;
  m.transposes[op.unit].pushes = 1;
  return true;
}
bool ContinueTranspose(Machine& m, const Op& op) {
  Transpose& t = m.transposes[op.unit];
  if (t.pushes == 0) {
    m.Fail(DiagCode::kFaultUnitState, absl::StrCat("no transpose was started on xlu", op.unit));
    return false;
  }
  if (t.pushes == 16) {
    m.Fail(DiagCode::kFaultUnitState,
           absl::StrCat("more than 16 pushes in one transpose on xlu", op.unit));
    return false;
  }
  ++t.pushes;
  return true;
}

Body ControlBody(isa::Opcode op, bool strict, bool values) {
  Body body = ArithmeticBody(op);
  if (body == nullptr) {
    body = strict ? (values ? MachineBody<true, true>(op) : MachineBody<true, false>(op))
                  : (values ? MachineBody<false, true>(op) : MachineBody<false, false>(op));
  }
  if (body == nullptr && !values) body = TimingBody(op);
  return body;
}

}  // namespace tpuc::interp
