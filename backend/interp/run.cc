// The interpreter's loop and what surrounds a run: memories, constants, inputs, outputs,
// statistics.
//
// A bundle: raise both clocks to what its registers, units, queues, rows and flags allow; mark what
// it produces; run its ops; commit shadows; follow the branch or call.
#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backend/interp/decode.h"
#include "backend/interp/interp.h"
#include "backend/interp/machine.h"
#include "backend/interp/tracer.h"

namespace tpuc::interp {

void Machine::Fail(DiagCode code, std::string message) {
  if (failed) return;
  failed = true;
  fault.code = code;
  fault.message = std::move(message);
  fault.cycle = std::max<int64_t>(0, now.wall);
  fault.bundle = pc;
  if (function != nullptr && function->source != nullptr) fault.kernel = function->source->name;
  fault.point = GridPoint();
  if (current == nullptr || current->inst == nullptr) return;
  fault.message = absl::StrCat(isa::Info(current->inst->op).mnemonic, ": ", fault.message);
  int row = current->inst->source;
  if (row < 0 || row >= static_cast<int>(program->sources.size())) return;
  const isa::SourceEntry& source = program->sources[row];
  fault.hlo = source.hlo;
  fault.op_name = source.op_name;
  fault.place = source.place;
}

std::string Machine::GridPoint() const {
  if (function == nullptr || function->source == nullptr || grid_steps <= 0) return "";
  const isa::GridInfo& grid = function->source->info.grid;
  int64_t step = grid_steps - 1;
  std::vector<std::string> parts(grid.axes.size());
  for (size_t a = grid.axes.size(); a-- > 0;) {
    const int64_t extent = a < grid.extents.size() ? grid.extents[a] : -1;
    if (extent <= 0 && a > 0) return absl::StrCat("grid step ", grid_steps - 1);
    parts[a] = absl::StrCat(grid.axes[a], "=", a == 0 ? step : step % extent);
    if (a > 0) step /= extent;
  }
  return absl::StrJoin(parts, ", ");
}

std::string Machine::NameOf(isa::Memory memory, int64_t at) const {
  if (function == nullptr || function->source == nullptr) return "";
  for (const isa::Local& l : function->source->info.locals) {
    if (l.memory != memory || at < l.offset || at >= l.offset + l.size) continue;
    const char* unit = memory == isa::Memory::kVmem ? "row " : "";
    return absl::StrCat(" (", l.name, "[", unit, at - l.offset, "])");
  }
  return "";
}

uint32_t* Machine::TakeTile() {
  if (free_tiles.empty()) {
    constexpr int kBlock = 32;
    storage.push_back(std::make_unique<uint8_t[]>((kBlock + 1) * kWords * 4));
    auto at = (reinterpret_cast<uintptr_t>(storage.back().get()) + 4095) / 4096 * 4096;
    for (int i = kBlock - 1; i >= 0; --i) {
      free_tiles.push_back(reinterpret_cast<uint32_t*>(at) + i * kWords);
    }
  }
  uint32_t* tile = free_tiles.back();
  free_tiles.pop_back();
  return tile;
}

Queue::Entry* Machine::Push(const Op& op, ResultKind kind, int64_t latency) {
  Queue& q = queues[op.queue];
  if (q.full()) {
    Fail(DiagCode::kFaultOverflow, absl::StrCat(q.name, " holds all ", q.size, " it can"));
    return nullptr;
  }
  Queue::Entry& entry = q.Push();
  entry.ready = now + latency;
  entry.kind = kind;
  entry.data = values && kind != ResultKind::kV2s ? TakeTile() : nullptr;
  return &entry;
}

const uint32_t* Machine::Full(const Op& op, int source) {
  const VectorSource& src = op.v[source];
  if (src.step != 0) return reg[src.index];
  uint32_t* tile = reg[spare + (source & 1)];
  std::fill_n(tile, kWords, reg[src.index][0]);
  return tile;
}

void AddFault(const Fault& fault, DiagSink* diags) {
  Diag& diag = diags->Add(fault.code, fault.message);
  if (fault.bundle >= 0) {
    diag.notes.push_back(
        {{},
         absl::StrCat("in cycle ", fault.cycle, ", bundle ", fault.bundle, " of ", fault.kernel,
                      fault.point.empty() ? "" : absl::StrCat(", at ", fault.point))});
  }
  if (!fault.hlo.empty() || !fault.op_name.empty() || !fault.place.empty()) {
    std::string from = "from";
    if (!fault.hlo.empty()) absl::StrAppend(&from, " ", fault.hlo);
    if (!fault.op_name.empty()) absl::StrAppend(&from, " (", fault.op_name, ")");
    if (!fault.place.empty()) absl::StrAppend(&from, " at ", fault.place);
    diag.notes.push_back({{}, from});
  }
}

bool HasBody(isa::Opcode op) {
  bool control = ControlBody(op, true, true) != nullptr;
  for (const std::string& simd : SimdTargets()) {
    bool vector = (*VectorBodies(simd))[static_cast<int>(op)] != nullptr;
    if (control == vector) return false;  // exactly one
  }
  return true;
}

namespace {

class Core {
 public:
  Core(Machine& m, const std::vector<DecodedFunction>& functions)
      : m_(m), functions_(functions), counters_(functions.size()) {
    for (size_t i = 0; i < functions.size(); ++i) {
      counters_[i].issued.assign(functions[i].bundles.size(), 0);
    }
    limit_ = m.options->max_cycles > 0 ? m.options->max_cycles : INT64_MAX;
    if (m.options->trace) tracer_ = std::make_unique<Tracer>(*m.program, *m.chip);
  }

  bool RunAll() {
    const DecodedFunction& tlp = functions_.back();
    counters_.back().calls = 1;
    bool ok = RunFunction(tlp);
    if (ok) ok = EndOfFunction(tlp);
    const Time total{m_.now.wall + 1, m_.now.ideal + 1};
    Time& own = counters_.back().cycles;
    own = total;
    for (size_t i = 0; i + 1 < functions_.size(); ++i) {
      own.wall -= counters_[i].cycles.wall;
      own.ideal -= counters_[i].cycles.ideal;
    }
    return ok;
  }

  void Report(RunResult* r) const {
    for (size_t i = 0; i + 1 < functions_.size(); ++i) Report(i, &r->kernels[i]);
    if (tracer_) tracer_->Finish(r);
    Report(functions_.size() - 1, &r->tlp);
  }

 private:
  bool RunFunction(const DecodedFunction& f) {
    Machine& m = m_;
    Counters& counters = counters_[f.kernel < 0 ? functions_.size() - 1 : f.kernel];
    const int count = static_cast<int>(f.bundles.size());
    m.function = &f;
    m.branch_target = -1;
    const int grid_bundle = f.source->info.grid.first_bundle;
    m.grid_steps = 0;
    int pc = 0;
    while (pc < count) {
      const DecodedBundle& b = f.bundles[pc];
      m.pc = pc;
      m.grid_steps += pc == grid_bundle;
      Issue(f, b, counters);
      if (m.failed) return false;
      if (tracer_) tracer_->Issue(f.kernel, pc, m.now.wall);
      Execute(f, b);
      ++counters.issued[pc];
      if (m.failed) return false;
      if (m.now.wall >= limit_) {
        m.current = nullptr;
        m.Fail(DiagCode::kFaultCycleLimit, absl::StrCat("still running after ", limit_, " cycles"));
        return false;
      }
      if (m.call != nullptr && !RunKernel(f)) return false;
      if (m.branch_target >= 0 && m.branch_delay-- == 0) {
        pc = std::exchange(m.branch_target, -1);
      } else {
        ++pc;
      }
    }
    m.current = nullptr;
    if (m.branch_target >= 0) {
      m.Fail(DiagCode::kFaultInstruction, "the function ends inside the delay slots of a branch");
      return false;
    }
    return true;
  }

  // Raises the clocks to the bundle's issue, counts the stall and marks results and units.
  void Issue(const DecodedFunction& f, const DecodedBundle& b, Counters& counters) {
    Machine& m = m_;
    const Time base = m.now + 1;
    Time operand = base;
    const uint16_t* wait = f.waits.data() + b.wait;
    for (int i = 0; i < b.operand_waits; ++i) operand.Raise(m.ready[*wait++]);
    Time unit = base + std::exchange(m.delay, 0);
    for (int i = 0; i < b.unit_waits; ++i) unit.Raise(m.ready[*wait++]);
    Time queue = base;
    const Op* waits_for_dma = nullptr;
    if (b.dynamics != 0) Dynamic(f, b, &operand, &queue, &waits_for_dma);
    Time t = operand;
    t.Raise(unit);
    t.Raise(queue);
    if (int64_t stall = t.ideal - base.ideal; stall > 0) {
      if (operand.ideal == t.ideal) {
        counters.stall_operand += stall;
      } else if (unit.ideal == t.ideal) {
        counters.stall_unit += stall;
      } else {
        counters.stall_queue += stall;
      }
    }
    if (waits_for_dma != nullptr) WaitForDma(*waits_for_dma, &t);
    m.now = t;
    const TimeSet* set = f.sets.data() + b.set;
    for (int i = 0; i < b.sets; ++i, ++set) m.ready[set->line].Raise(t + set->delta);
  }

  // Queue heads and young rows; finds a dma.done.wait.
  void Dynamic(const DecodedFunction& f, const DecodedBundle& b, Time* operand, Time* queue,
               const Op** waits_for_dma) {
    Machine& m = m_;
    for (int i = 0; i < b.dynamics; ++i) {
      const Op& op = f.ops[f.dynamics[b.dynamic + i]];
      if (!m.Active(op)) continue;
      if (op.queue >= 0) {
        Queue& q = m.queues[op.queue];
        if (q.size == 0) {
          m.current = &op;
          m.Fail(DiagCode::kFaultUnderflow, absl::StrCat(q.name, " is empty"));
          return;
        }
        queue->Raise(q.front().ready);
      } else if (op.opcode == isa::Opcode::kVld) {
        if (m.memory.stores_settle.ideal > m.now.ideal) YoungRows(op, operand);
      } else {
        *waits_for_dma = &op;
      }
    }
  }

  void YoungRows(const Op& op, Time* operand) {
    Machine& m = m_;
    const int64_t latency = m.chip->latency(LatencyKey::kVst);
    const int64_t first = int64_t{m.Value(op.base)} + op.offset;
    for (int i = 0; i < kSublanes; ++i) {
      int64_t row = first + int64_t{i} * op.stride;
      if ((op.sublanes >> i & 1) == 0 || row < 0 || row >= m.memory.vmem_rows()) continue;
      if (const Time* stored = m.memory.stores.Recent(row)) operand->Raise(*stored + latency);
    }
  }

  void WaitForDma(const Op& op, Time* t) {
    Machine& m = m_;
    m.current = &op;
    int64_t flag = m.Value(op.s[0]), granules = m.Value(op.s[1]);
    m.now.wall = t->wall;  // for the fault
    if (flag < 0 || flag >= static_cast<int64_t>(m.memory.flags.size())) {
      m.Fail(DiagCode::kFaultSyncFlag,
             absl::StrCat("sync flag ", flag, "; the chip has ", m.memory.flags.size()));
      return;
    }
    int64_t done = m.dma.WaitFor(static_cast<int>(flag), granules, t->wall);
    if (m.dma.needs_values()) {
      m.needs_values = m.failed = true;
      return;
    }
    if (done < 0) {
      m.Fail(DiagCode::kFaultDeadlock,
             absl::StrCat("flag ", flag, m.NameOf(isa::Memory::kSync, flag), " will hold ",
                          m.memory.flags[flag],
                          " granules and no DMA that adds to it is "
                          "under way; ",
                          granules, " are waited for"));
      return;
    }
    int copy = m.dma.last_copy();
    if (copy >= 0) m.result->copies[copy].wait_stall += done - t->wall;
    t->wall = done;
  }

  void Execute(const DecodedFunction& f, const DecodedBundle& b) {
    Machine& m = m_;
    const Op* op = f.ops.data() + b.op;
    if (b.commits != 0) {
      ExecuteAndCommit(f, b);
      return;
    }
    for (const Op* end = op + b.ops; op != end; ++op) {
      if (!m.Active(*op)) continue;
      m.current = op;
      op->body(m, *op);
    }
  }

  void ExecuteAndCommit(const DecodedFunction& f, const DecodedBundle& b) {
    Machine& m = m_;
    uint64_t ran = 0;
    for (int i = 0; i < b.ops; ++i) {
      const Op& op = f.ops[b.op + i];
      if (!m.Active(op)) continue;
      m.current = &op;
      op.body(m, op);
      ran |= uint64_t{1} << i;
    }
    for (int i = 0; i < b.commits; ++i) {
      const Commit& c = f.commits[b.commit + i];
      if ((ran >> c.op & 1) == 0) continue;
      switch (c.cls) {
        case isa::RegClass::kScalar:
          m.s[c.dest] = m.s[c.shadow];
          break;
        case isa::RegClass::kPredicate:
          m.p[c.dest] = m.p[c.shadow];
          break;
        default:
          std::swap(m.reg[c.dest], m.reg[c.shadow]);
          break;
      }
    }
  }

  // A kernel starts when every row stored before it may be loaded; the TLP waits.
  void WaitForStores() {
    const Time settled = m_.memory.stores_settle + -1;
    if (settled.ideal <= m_.now.ideal) return;
    counters_.back().stall_operand += settled.ideal - m_.now.ideal;
    m_.now.Raise(settled);
  }

  // Scalars and predicates are the function's own.
  bool RunKernel(const DecodedFunction& tlp) {
    Machine& m = m_;
    const Op& call = *std::exchange(m.call, nullptr);
    const DecodedFunction& kernel = functions_[call.target];
    const int tlp_pc = m.pc;
    std::vector<int32_t> arguments;
    if (call.inst->src.empty()) {
      arguments.assign(m.s.begin(), m.s.begin() + kernel.source->args);
    }
    for (const isa::Operand& src : call.inst->src) {
      arguments.push_back(src.is_imm() ? src.imm : m.s[src.reg.id]);
    }
    std::vector<int32_t> scalars = m.s;
    std::vector<uint8_t> predicates = m.p;
    auto own = m.ready.begin() + m.lines.scalar, own_end = m.ready.begin() + m.lines.xlu_op;
    std::vector<Time> times(own, own_end);
    std::fill(m.s.begin(), m.s.end(), 0);
    std::copy(arguments.begin(), arguments.end(), m.s.begin());
    std::fill(m.p.begin(), m.p.end(), 0);
    std::fill(own, own_end, Time{});
    WaitForStores();
    std::fill_n(own, arguments.size(), m.now + 2);
    Counters& counters = counters_[call.target];
    const Time start = m.now;
    ++counters.calls;
    if (tracer_) tracer_->Begin();
    if (m.options->strict) ForgetLocals(*kernel.source);
    bool ok = RunFunction(kernel) && EndOfFunction(kernel) &&
              (!m.options->strict || SemaphoresBalance(*kernel.source));
    counters.cycles.wall += m.now.wall - start.wall;
    counters.cycles.ideal += m.now.ideal - start.ideal;
    if (tracer_) tracer_->End(m.result);
    if (m.options->spans || m.options->trace) {
      m.result->kernel_spans.push_back({kernel.kernel, start.wall + 1, m.now.wall + 1});
    }
    if (!ok) return false;
    m.s = std::move(scalars);
    m.p = std::move(predicates);
    std::copy(times.begin(), times.end(), m.ready.begin() + m.lines.scalar);
    m.function = &tlp;
    m.pc = tlp_pc;
    return true;
  }

  // What a kernel finds in memory of its own is undefined, whoever used it before.
  void ForgetLocals(const isa::Function& f) {
    Memory& memory = m_.memory;
    for (const isa::Local& l : f.info.locals) {
      const int64_t size = l.memory == isa::Memory::kVmem ? memory.vmem_rows()
                           : l.memory == isa::Memory::kSmem
                               ? static_cast<int64_t>(memory.smem_written.size())
                               : 0;
      for (int64_t i = std::max<int64_t>(0, l.offset); i < std::min(size, l.offset + l.size); ++i) {
        if (l.memory == isa::Memory::kVmem) {
          memory.rows[i] &= static_cast<uint16_t>(~kRowWritten);
        } else {
          memory.smem_written[i] = 0;
        }
      }
    }
  }

  // Every copy that the kernel's text started has been waited for.
  bool SemaphoresBalance(const isa::Function& f) {
    Machine& m = m_;
    m.current = nullptr;
    for (const isa::Local& l : f.info.locals) {
      if (!l.semaphore) continue;
      for (int64_t i = 0; i < l.size; ++i) {
        const int64_t flag = l.offset + i;
        if (flag < 0 || flag >= static_cast<int64_t>(m.memory.flags.size())) continue;
        const std::string name = absl::StrCat("semaphore ", l.name, "[", i, "]");
        int source = m.dma.SourceOf(static_cast<int>(flag));
        if (source < 0 && m.memory.flags[flag] == 0) continue;
        if (source < 0) source = m.last_source[flag];
        std::string from;
        if (source >= 0 && source < static_cast<int>(m.program->sources.size())) {
          m.fault.place = m.program->sources[source].place;
          from = absl::StrCat(", last by the copy or signal at ", m.fault.place);
        }
        m.Fail(
            DiagCode::kFaultSemaphore,
            m.dma.UsesFlag(static_cast<int>(flag))
                ? absl::StrCat("a copy on ", name, " is still under way at the end of ", f.name,
                               from)
                : absl::StrCat(name, " holds ", m.memory.flags[flag], " at the end of ", f.name,
                               " (a copy adds 1 for each 32 bytes)", from, ": never waited for"));
        return false;
      }
    }
    return true;
  }

  bool EndOfFunction(const DecodedFunction& f) {
    Machine& m = m_;
    m.current = nullptr;
    for (const Queue& q : m.queues) {
      if (q.size == 0) continue;
      m.Fail(DiagCode::kFaultQueueLeft,
             absl::StrCat(q.name, " still holds ", q.size, " at the end of ", f.source->name));
      return false;
    }
    for (size_t i = 0; i < m.transposes.size(); ++i) {
      if (m.transposes[i].pushes == 0) continue;
      m.Fail(DiagCode::kFaultQueueLeft,
             absl::StrCat("the transpose on xlu", i, " is not finished at the end of ",
                          f.source->name));
      return false;
    }
    for (size_t i = 0; i < m.mxus.size(); ++i) {
      if (m.mxus[i].pushed[0] + m.mxus[i].pushed[1] == 0 && !m.mxus[i].has_subr &&
          !m.mxus[i].has_mubr) {
        continue;
      }
      m.Fail(DiagCode::kFaultQueueLeft,
             absl::StrCat("mxu", i, " holds weights or rows that no matmul took at the end of ",
                          f.source->name));
      return false;
    }
    return true;
  }

  void Report(size_t i, KernelRun* r) const {
    const Counters& c = counters_[i];
    r->calls = c.calls;
    r->cycles = c.cycles.wall;
    r->stall_dma = c.cycles.wall - c.cycles.ideal;
    r->stall_operand = c.stall_operand;
    r->stall_unit = c.stall_unit;
    r->stall_queue = c.stall_queue;
    const isa::Function& f = *functions_[i].source;
    std::map<int, OperationRun> operations;
    for (size_t b = 0; b < f.bundles.size(); ++b) {
      r->bundles += c.issued[b];
      r->instructions += c.issued[b] * static_cast<int64_t>(f.bundles[b].insts.size());
      if (c.issued[b] == 0) continue;
      for (const isa::Inst& inst : f.bundles[b].insts) {
        Count(inst, c.issued[b], &r->slots);
        OperationRun& o = operations[inst.source];
        o.source = inst.source;
        o.instructions += c.issued[b];
        Count(inst, c.issued[b], &o.slots);
      }
    }
    for (auto& [source, o] : operations) r->operations.push_back(o);
  }

  void Count(const isa::Inst& inst, int64_t times, SlotCounts* s) const {
    const isa::OpInfo& info = isa::Info(inst.op);
    switch (info.slot) {
      case isa::Slot::kSalu:
        s->salu += times;
        break;
      case isa::Slot::kEup:
        s->eup += times;
        s->valu += times;
        break;
      case isa::Slot::kValu:
        s->valu += times;
        break;
      case isa::Slot::kLoad:
        s->load += times;
        break;
      case isa::Slot::kStore:
        s->store += times;
        break;
      case isa::Slot::kVex:
        if (info.unit == isa::Unit::kXlu) s->xlu += times * m_.chip->interval(info.interval);
        if (info.interval == IntervalKey::kMatmulF32) {
          s->mxu += times * m_.chip->interval(info.interval);
        }
        break;
      default:
        break;
    }
  }

  Machine& m_;
  const std::vector<DecodedFunction>& functions_;
  std::vector<Counters> counters_;
  int64_t limit_ = 0;
  std::unique_ptr<Tracer> tracer_;  // null: no trace
};

bool Reject(Machine* m, std::string message) {
  m->Fail(DiagCode::kFaultInput, std::move(message));
  return false;
}

bool SetUpMemory(Machine* m) {
  const Chip& chip = *m->chip;
  int64_t hbm = 0;
  for (const isa::Buffer& b : m->program->buffers) {
    int64_t limit = b.memory == isa::Memory::kHbm    ? chip.hbm_bytes
                    : b.memory == isa::Memory::kVmem ? chip.vmem_bytes
                    : b.memory == isa::Memory::kSmem ? chip.smem_bytes
                                                     : int64_t{chip.sync_flags} * 4;
    if (b.offset < 0 || b.bytes < 0 || b.offset > limit || b.bytes > limit - b.offset) {
      return Reject(m, absl::StrCat("buffer ", b.name, " [", b.offset, ", +", b.bytes,
                                    ") lies outside its memory of ", limit, " bytes"));
    }
    if (b.memory == isa::Memory::kHbm) hbm = std::max(hbm, b.offset + b.bytes);
  }
  int64_t rows = chip.vmem_bytes / kRowBytes;
  if (!m->memory.hbm.Allocate((hbm + kRowBytes - 1) / kRowBytes * kRowBytes) ||
      !m->memory.vmem.Allocate(rows * kRowBytes)) {
    return Reject(m, absl::StrCat("this host has not the memory for ", hbm, " bytes of HBM"));
  }
  m->memory.smem.assign(chip.smem_bytes / 4, 0);
  m->memory.smem_written.assign(chip.smem_bytes / 4, 0);
  m->memory.rows.assign(rows, 0);
  m->memory.flags.assign(chip.sync_flags, 0);
  m->last_source.assign(chip.sync_flags, -1);
  m->memory.stores.Init(rows, int64_t{chip.latency(LatencyKey::kVst)} * std::max(1, chip.store));
  return true;
}

// The bytes of a buffer, marked as written.
uint8_t* Fill(Machine* m, const isa::Buffer& b) {
  switch (b.memory) {
    case isa::Memory::kHbm:
      return m->memory.hbm.data() + b.offset;
    case isa::Memory::kVmem:
      for (int64_t r = b.offset / kRowBytes; r * kRowBytes < b.offset + b.bytes; ++r) {
        m->memory.rows[r] |= kRowWritten;
      }
      return m->memory.vmem.data() + b.offset;
    case isa::Memory::kSmem:
      std::fill_n(m->memory.smem_written.begin() + b.offset / 4, b.bytes / 4, 1);
      return reinterpret_cast<uint8_t*>(m->memory.smem.data()) + b.offset;
    case isa::Memory::kSync:
      break;
  }
  return nullptr;
}

bool BufferOf(Machine* m, int index, const char* what, const std::string& name,
              const isa::Buffer** out) {
  if (index < 0 || index >= static_cast<int>(m->program->buffers.size())) {
    return Reject(m, absl::StrCat(what, " ", name, " names buffer ", index, " of ",
                                  m->program->buffers.size()));
  }
  *out = &m->program->buffers[index];
  if ((*out)->memory != isa::Memory::kSync) return true;
  return Reject(m, absl::StrCat(what, " ", name, " lies in sync flags"));
}

bool WriteConstants(Machine* m) {
  for (const isa::Constant& c : m->program->constants) {
    const isa::Buffer* b = nullptr;
    if (!BufferOf(m, c.buffer, "constant", "", &b)) return false;
    uint8_t* to = Fill(m, *b);
    if (c.kind == isa::Constant::Kind::kData) {
      if (static_cast<int64_t>(c.data.size()) > b->bytes) {
        return Reject(m, absl::StrCat("constant of ", c.data.size(), " bytes for buffer ", b->name,
                                      " of ", b->bytes));
      }
      if (!c.data.empty()) std::memcpy(to, c.data.data(), c.data.size());
      continue;
    }
    uint32_t word = c.splat;
    for (int64_t i = 0; i + 4 <= b->bytes; i += 4) {
      std::memcpy(to + i, &word, 4);
      if (c.kind == isa::Constant::Kind::kIota) ++word;
    }
  }
  return true;
}

bool WriteInputs(Machine* m, const std::vector<PortData>& inputs) {
  const auto& ports = m->program->inputs;
  if (inputs.size() != ports.size() && !(m->options->timing_only && inputs.empty())) {
    return Reject(m, absl::StrCat(inputs.size(), " inputs given, ", ports.size(), " needed"));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (ports[i].buffer < 0) continue;
    const isa::Buffer* b = nullptr;
    if (!BufferOf(m, ports[i].buffer, "input", ports[i].name, &b)) return false;
    if (static_cast<int64_t>(inputs[i].bytes.size()) > b->bytes) {
      return Reject(m, absl::StrCat("input ", ports[i].name, " has ", inputs[i].bytes.size(),
                                    " bytes, its buffer ", b->bytes));
    }
    uint8_t* to = Fill(m, *b);
    if (!inputs[i].bytes.empty()) std::memcpy(to, inputs[i].bytes.data(), inputs[i].bytes.size());
  }
  return true;
}

bool ReadOutputs(Machine* m, RunResult* result) {
  for (const isa::Port& port : m->program->outputs) {
    result->outputs.emplace_back();
    if (port.buffer < 0) continue;
    const isa::Buffer* b = nullptr;
    if (!BufferOf(m, port.buffer, "output", port.name, &b)) return false;
    const uint8_t* from = Fill(m, *b);
    result->outputs.back().assign(from, from + b->bytes);
  }
  return true;
}

bool Fits(Machine* m) {
  const Chip& c = *m->chip;
  if (c.sublanes == kSublanes && c.lanes == kLanes &&
      (c.mxu_size == kLanes || c.mxu_size == 2 * kLanes)) {
    return true;
  }
  return Reject(
      m, absl::StrCat("the interpreter knows machines of 8 x 128 with MXUs of 128 or 256; this is ",
                      c.sublanes, " x ", c.lanes, " with ", c.mxu_size));
}

// False if a timing-only run needs values after all.
bool RunOnce(const isa::Program& program, const Chip& chip, const std::vector<PortData>& inputs,
             const RunOptions& options, bool values, RunResult* result) {
  auto machine = std::make_unique<Machine>();
  Machine& m = *machine;
  m.program = &program;
  m.chip = &chip;
  m.options = &options;
  m.result = result;
  m.values = values;
  result->kernels.resize(program.kernels.size());
  result->copies.resize(program.copies.size());
  std::vector<DecodedFunction> functions;
  const BodyTable* bodies = VectorBodies(options.simd);
  bool ready = bodies != nullptr ||
               Reject(&m, absl::StrCat("no SIMD target '", options.simd, "' on this host"));
  ready = ready && Fits(&m) && SetUpMemory(&m) && WriteConstants(&m) && WriteInputs(&m, inputs) &&
          DecodeProgram(*bodies, &m, &functions);
  if (ready) {
    m.dma.Init(chip, &m.memory, options.strict, values, result, options.spans || options.trace);
    Core core(m, functions);
    bool ok = core.RunAll();
    if (m.needs_values) return false;
    result->cycles = m.dma.Drain(m.now.wall + 1);
    core.Report(result);
    result->hbm_bytes = result->tlp.hbm_read_bytes + result->tlp.hbm_written_bytes;
    for (const KernelRun& k : result->kernels) {
      result->hbm_bytes += k.hbm_read_bytes + k.hbm_written_bytes;
    }
    result->ok = ok && ReadOutputs(&m, result) && !m.failed;
  }
  result->fault = m.fault;
  return true;
}

}  // namespace

RunResult Run(const isa::Program& program, const Chip& chip, const std::vector<PortData>& inputs,
              const RunOptions& options) {
  RunResult result;
  bool values = !options.timing_only;
  if (RunOnce(program, chip, inputs, options, values, &result)) return result;
  result = RunResult();
  RunOnce(program, chip, inputs, options, true, &result);
  return result;
}

}  // namespace tpuc::interp
