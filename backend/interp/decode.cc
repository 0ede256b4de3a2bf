// From isa::Inst to Op (decode.h). Within a bundle the order of execution is: branches and calls,
// pops, everything else in program order, stores last; so a load never sees a store of its own
// bundle and a pop never a push. Register writes that a later instruction of the bundle would read
// go to shadows.
#include "backend/interp/decode.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tpuc::interp {
namespace {

using isa::Inst;
using isa::Opcode;
using isa::RegClass;

constexpr int kShadows = 64;  // of each kind; a bundle has fewer instructions than that
constexpr int kMaxBundle = 64;

bool IsLhsSide(Opcode op) { return op >= Opcode::kVmatprepMubr && op <= Opcode::kVmatmulLatchMsk; }
bool IsMatmul(Opcode op) { return op >= Opcode::kVmatmul && op <= Opcode::kVmatmulLatchMsk; }
bool IsLatch(Opcode op) { return op == Opcode::kVmatmulLatch || op == Opcode::kVmatmulLatchMsk; }
bool IsStagedWeights(Opcode op) {
  return op == Opcode::kVmatprepSubr || op == Opcode::kVmatprepSubrMsk;
}
bool IsTransposeStart(Opcode op) {
  return op == Opcode::kVxposeStart || op == Opcode::kVxposeStartEnd;
}

int OrderKey(const Inst& inst) {
  const isa::OpInfo& info = isa::Info(inst.op);
  if (inst.op == Opcode::kSbr || inst.op == Opcode::kCall) return 0;
  if (info.slot == isa::Slot::kPop || inst.op == Opcode::kSpop) return 1;
  if (info.slot == isa::Slot::kStore || inst.op == Opcode::kSst) return 3;
  return 2;
}

class Decoder {
 public:
  Decoder(const BodyTable& vector_bodies, Machine* m) : vector_bodies_(vector_bodies), m_(*m) {}

  bool Function(const isa::Function& source, int kernel, DecodedFunction* out) {
    out_ = out;
    out->source = &source;
    out->kernel = kernel;
    m_.function = out;
    if (source.args < 0 || source.args > m_.chip->scalar_registers) {
      m_.pc = -1;
      return Bad(absl::StrCat("function ", source.name, " has ", source.args, " arguments"));
    }
    for (size_t i = 0; i < source.bundles.size(); ++i) {
      m_.pc = static_cast<int>(i);
      if (!Bundle(source.bundles[i])) return false;
    }
    m_.current = nullptr;
    return true;
  }

 private:
  bool Bad(std::string message) {
    m_.Fail(DiagCode::kFaultInstruction, std::move(message));
    return false;
  }

  bool Bundle(const isa::Bundle& bundle) {
    if (bundle.insts.size() > kMaxBundle) return Bad("more instructions than any bundle has slots");
    DecodedBundle b;
    b.op = static_cast<uint32_t>(out_->ops.size());
    b.wait = static_cast<uint32_t>(out_->waits.size());
    b.set = static_cast<uint32_t>(out_->sets.size());
    b.dynamic = static_cast<uint32_t>(out_->dynamics.size());
    b.commit = static_cast<uint32_t>(out_->commits.size());
    std::vector<const Inst*> order;
    for (const Inst& inst : bundle.insts) order.push_back(&inst);
    std::stable_sort(order.begin(), order.end(),
                     [](const Inst* a, const Inst* b) { return OrderKey(*a) < OrderKey(*b); });
    operand_waits_.clear();
    unit_waits_.clear();
    ports_.clear();
    for (const Inst* inst : order) {
      Op op;
      op.inst = inst;
      m_.current = &op;
      if (!Instruction(*inst, &op)) return false;
      if (op.body == nullptr) continue;  // timing-only: nothing to do
      if (IsDynamic(inst->op)) out_->dynamics.push_back(static_cast<uint32_t>(out_->ops.size()));
      out_->ops.push_back(op);
    }
    m_.current = nullptr;
    b.ops = static_cast<uint16_t>(out_->ops.size() - b.op);
    Shadows(b);
    AppendUnique(operand_waits_, &b.operand_waits);
    AppendUnique(unit_waits_, &b.unit_waits);
    b.sets = static_cast<uint16_t>(out_->sets.size() - b.set);
    b.dynamics = static_cast<uint16_t>(out_->dynamics.size() - b.dynamic);
    b.commits = static_cast<uint16_t>(out_->commits.size() - b.commit);
    out_->bundles.push_back(b);
    return true;
  }

  void AppendUnique(std::vector<uint16_t>& lines, uint16_t* count) {
    std::sort(lines.begin(), lines.end());
    lines.erase(std::unique(lines.begin(), lines.end()), lines.end());
    *count = static_cast<uint16_t>(lines.size());
    out_->waits.insert(out_->waits.end(), lines.begin(), lines.end());
  }

  static bool IsDynamic(Opcode op) {
    return isa::Info(op).slot == isa::Slot::kPop || op == Opcode::kSpop || op == Opcode::kVld ||
           op == Opcode::kDmaDoneWait;
  }

  bool Instruction(const Inst& inst, Op* op) {
    if (static_cast<int>(inst.op) >= isa::kOpcodeCount) return Bad("no such instruction");
    const isa::OpInfo& info = isa::Info(inst.op);
    op->opcode = inst.op;
    op->latency = m_.chip->latency(info.latency);
    op->target = inst.target;
    op->body = m_.values ? vector_bodies_[static_cast<int>(inst.op)] : nullptr;
    if (op->body == nullptr) op->body = ControlBody(inst.op, m_.options->strict, m_.values);
    return Predicate(inst, op) && Unit(inst, info, op) && Sources(inst, info, op) &&
           MemoryOperand(inst, info, op) && Destination(inst, info, op) && Target(inst);
  }

  bool Predicate(const Inst& inst, Op* op) {
    if (!inst.pred.valid()) return true;
    if (inst.pred.cls != RegClass::kPredicate || !InFile(inst.pred)) {
      return Bad(absl::StrCat("predicate is ", Name(inst.pred)));
    }
    op->pred = static_cast<int16_t>(inst.pred.id);
    op->pred_negated = inst.pred_negated;
    operand_waits_.push_back(LineOf(inst.pred));
    return true;
  }

  static std::string Name(const isa::Reg& r) {
    return absl::StrCat(std::string(1, isa::ClassLetter(r.cls)), r.id);
  }
  int FileSize(RegClass cls) const {
    switch (cls) {
      case RegClass::kVector:
        return m_.chip->vector_registers;
      case RegClass::kMask:
        return m_.chip->mask_registers;
      case RegClass::kScalar:
        return m_.chip->scalar_registers;
      case RegClass::kPredicate:
        return m_.chip->predicate_registers;
      default:
        return 0;
    }
  }
  bool InFile(const isa::Reg& r) const { return r.id >= 0 && r.id < FileSize(r.cls); }
  uint16_t LineOf(const isa::Reg& r) const {
    const Lines& l = m_.lines;
    int base = r.cls == RegClass::kVector   ? l.vector
               : r.cls == RegClass::kMask   ? l.mask
               : r.cls == RegClass::kScalar ? l.scalar
                                            : l.predicate;
    return static_cast<uint16_t>(base + r.id);
  }
  // Vectors and masks share Machine::reg.
  uint32_t TileOf(const isa::Reg& r) const {
    return static_cast<uint32_t>(r.cls == RegClass::kMask ? m_.chip->vector_registers + r.id
                                                          : r.id);
  }

  bool Register(const isa::Reg& r, RegClass cls) {
    if (r.cls == cls && InFile(r)) return true;
    return Bad(absl::StrCat("register ", Name(r), " where one of ", FileSize(cls), " ",
                            std::string(1, isa::ClassLetter(cls)), " registers must stand"));
  }

  bool Sources(const Inst& inst, const isa::OpInfo& info, Op* op) {
    size_t tokens = std::count(info.sources.begin(), info.sources.end(), 't');
    size_t wanted = info.sources.size(), given = inst.src.size();
    bool dma = info.interval == IntervalKey::kDma;
    if (inst.op == Opcode::kCall) return CallArguments(inst);
    bool has_tokens = tokens > 0 && given == wanted;
    if (given != wanted && given + tokens != wanted && !(dma && given == 4)) {
      return Bad(absl::StrCat(given, " sources given, ", wanted - tokens, " needed"));
    }
    int vectors = 0, scalars = 0;
    size_t at = 0;
    for (char letter : info.sources) {
      if (at >= given) break;
      if (letter == 't') {
        at += has_tokens ? 1 : 0;
        continue;
      }
      const isa::Operand& src = inst.src[at++];
      if (letter == 'v' || letter == 'm') {
        RegClass cls = letter == 'v' ? RegClass::kVector : RegClass::kMask;
        if (!Vector(src, cls, &op->v[vectors++])) return false;
      } else {
        RegClass cls = letter == 's' ? RegClass::kScalar : RegClass::kPredicate;
        if (!Scalar(src, cls, &op->s[scalars++])) return false;
      }
    }
    op->scalars = static_cast<int8_t>(scalars);
    return true;
  }

  bool CallArguments(const Inst& inst) {
    if (inst.target < 0 || inst.target >= static_cast<int>(m_.program->kernels.size())) {
      return Bad(
          absl::StrCat("call of kernel ", inst.target, "; there are ", m_.program->kernels.size()));
    }
    const int args = m_.program->kernels[inst.target].args;
    if (inst.src.empty()) {  // they are in s0 ..
      for (int i = 0; i < std::min(args, m_.chip->scalar_registers); ++i) {
        operand_waits_.push_back(LineOf(isa::S(i)));
      }
      return true;
    }
    if (static_cast<int>(inst.src.size()) != args) {
      return Bad(absl::StrCat(inst.src.size(), " arguments for kernel ",
                              m_.program->kernels[inst.target].name, ", which takes ", args));
    }
    ScalarSource ignored;
    for (const isa::Operand& src : inst.src) {
      if (!Scalar(src, RegClass::kScalar, &ignored)) return false;
    }
    return true;
  }

  bool Vector(const isa::Operand& src, RegClass cls, VectorSource* to) {
    if (src.is_imm()) {
      to->index = Constant(src.imm);
      to->step = 0;
      return true;
    }
    if (!Register(src.reg, cls)) return false;
    to->index = TileOf(src.reg);
    to->step = ~0u;
    operand_waits_.push_back(LineOf(src.reg));
    return true;
  }

  bool Scalar(const isa::Operand& src, RegClass cls, ScalarSource* to) {
    if (src.is_imm()) {
      to->imm = src.imm;
      return true;
    }
    if (!Register(src.reg, cls)) return false;
    to->reg = src.reg.id;
    operand_waits_.push_back(LineOf(src.reg));
    return true;
  }

  uint32_t Constant(int32_t bits) {
    auto [it, added] = constants_.try_emplace(bits, static_cast<uint32_t>(m_.reg.size()));
    if (added) {
      constexpr int kWidest = 64;  // words of the widest vector
      if (constant_room_ == 0) {
        constexpr int kBlock = 256;
        m_.storage.push_back(std::make_unique<uint8_t[]>((kBlock + 1) * kWidest * 4));
        auto at = reinterpret_cast<uintptr_t>(m_.storage.back().get());
        constants_at_ = reinterpret_cast<uint32_t*>((at + 255) / 256 * 256);
        constant_room_ = kBlock;
      }
      std::fill_n(constants_at_, kWidest, static_cast<uint32_t>(bits));
      m_.reg.push_back(constants_at_);
      constants_at_ += kWidest;
      --constant_room_;
    }
    return it->second;
  }

  bool MemoryOperand(const Inst& inst, const isa::OpInfo& info, Op* op) {
    if (!info.has_memory) return true;
    op->offset = inst.mem.offset;
    op->stride = inst.mem.sublane_stride;
    op->sublanes = inst.mem.sublane_mask;
    return Scalar(inst.mem.base, RegClass::kScalar, &op->base);
  }

  bool Destination(const Inst& inst, const isa::OpInfo& info, Op* op) {
    if (info.dest == RegClass::kNone || info.dest == RegClass::kToken) return true;
    if (!Register(inst.dest, info.dest)) return false;
    bool tile = info.dest == RegClass::kVector || info.dest == RegClass::kMask;
    op->dest = tile ? static_cast<int32_t>(TileOf(inst.dest)) : inst.dest.id;
    out_->sets.push_back({LineOf(inst.dest), op->latency});
    return true;
  }

  bool Target(const Inst& inst) {
    if (inst.op != Opcode::kSbr) return true;
    int bundles = static_cast<int>(out_->source->bundles.size());
    if (inst.target >= 0 && inst.target <= bundles) return true;
    return Bad(absl::StrCat("branch to bundle ", inst.target, " of ", bundles));
  }

  // One command a bundle for each port of a unit.
  bool Port(int port, const char* what, int unit) {
    if (std::find(ports_.begin(), ports_.end(), port) != ports_.end()) {
      return Bad(absl::StrCat("second ", what, " for unit ", unit, " in one bundle"));
    }
    ports_.push_back(port);
    return true;
  }

  void WaitAndSet(int line, int delta) {
    unit_waits_.push_back(static_cast<uint16_t>(line));
    Set(line, delta);
  }
  void Set(int line, int delta) { out_->sets.push_back({static_cast<uint16_t>(line), delta}); }

  bool Unit(const Inst& inst, const isa::OpInfo& info, Op* op) {
    const Lines& l = m_.lines;
    int interval = m_.chip->interval(info.interval);
    bool pop = info.slot == isa::Slot::kPop;
    if (info.interval == IntervalKey::kDma) WaitAndSet(l.dma, interval);
    if (info.unit == isa::Unit::kEup) {
      op->queue = static_cast<int16_t>(m_.eup_queue);
      return Port(pop ? 1 : 0, pop ? "EUP pop" : "EUP start", 0);
    }
    if (info.unit == isa::Unit::kV2s) op->queue = static_cast<int16_t>(m_.v2s_queue);
    if (info.unit != isa::Unit::kXlu && info.unit != isa::Unit::kMxu) return true;
    bool xlu = info.unit == isa::Unit::kXlu;
    int units = xlu ? m_.chip->xlus : m_.chip->mxus;
    if (inst.unit < 0 || inst.unit >= units) {
      return Bad(absl::StrCat("unit ", inst.unit, " of ", units));
    }
    if (isa::NeedsWideMxu(inst.op) && m_.chip->mxu_tiles() < 2) {
      return Bad(absl::StrCat(std::string(info.mnemonic), " works on a second half; MXUs of ",
                              m_.chip->mxu_size, " have one"));
    }
    op->unit = inst.unit;
    int u = inst.unit;
    op->queue = static_cast<int16_t>((xlu ? m_.xlu_queue : m_.mrf_queue) + u);
    if (xlu && pop) {
      WaitAndSet(l.xlu_pop + u, interval);
      return Port(100 + u, "XLU pop", u);
    }
    if (xlu) {
      WaitAndSet(l.xlu_op + u, interval);
      if (IsTransposeStart(inst.op)) {
        WaitAndSet(l.xlu_start + u, m_.chip->interval(IntervalKey::kXposeGroup));
      }
      return Port(200 + u, "XLU operation", u);
    }
    if (pop) {
      WaitAndSet(l.mrf_pop + u, interval);
      return Port(300 + u, "MRF pop", u);
    }
    return Matrix(inst, info, u, interval);
  }

  // Rules 3 and 4 of interp.h.
  bool Matrix(const Inst& inst, const isa::OpInfo& info, int u, int interval) {
    const Lines& l = m_.lines;
    int latency = m_.chip->latency(info.latency);
    if (IsMatmul(inst.op)) {
      WaitAndSet(l.matmul + u, interval);
      Set(l.mubr + u, 1);
      if (IsLatch(inst.op)) {
        unit_waits_.push_back(static_cast<uint16_t>(l.latch + u));
        Set(l.push + u, 1);
        Set(l.subr + u, 1);
        if (!Port(500 + u, "weight command beside a latch", u)) return false;
      }
    } else if (IsLhsSide(inst.op)) {
      WaitAndSet(l.mubr + u, 1);
      Set(l.matmul + u, latency);
    } else if (IsStagedWeights(inst.op)) {
      WaitAndSet(l.subr + u, 1);
      Set(l.push + u, latency);
    } else {
      WaitAndSet(l.push + u, interval);
      Set(l.subr + u, 1);
      Set(l.latch + u, latency);
    }
    return IsLhsSide(inst.op) ? Port(400 + u, "LHS-side MXU command", u)
                              : Port(500 + u, "weight-side MXU command", u);
  }

  struct Place {
    RegClass cls;
    int32_t id;
    bool operator==(const Place& o) const { return cls == o.cls && id == o.id; }
  };
  static bool Reads(const Inst& inst, const isa::Reg& r) {
    if (inst.pred == r) return true;
    if (isa::Info(inst.op).has_memory && inst.mem.base.reg == r) return true;
    return std::any_of(inst.src.begin(), inst.src.end(),
                       [&](const isa::Operand& src) { return src.reg == r; });
  }

  // Sends writes that a later instruction of the bundle reads to shadows.
  void Shadows(const DecodedBundle& b) {
    std::vector<std::pair<isa::Reg, int>> shadowed;
    for (int i = 0; i < b.ops; ++i) {
      Op& op = out_->ops[b.op + i];
      const isa::OpInfo& info = isa::Info(op.opcode);
      if (info.dest == RegClass::kNone || info.dest == RegClass::kToken) continue;
      const isa::Reg dest = op.inst->dest;
      bool needed = std::any_of(shadowed.begin(), shadowed.end(),
                                [&](const auto& s) { return s.first == dest; });
      for (int j = i + 1; j < b.ops && !needed; ++j) {
        needed = Reads(*out_->ops[b.op + j].inst, dest);
      }
      if (!needed) continue;
      int k = static_cast<int>(shadowed.size());
      shadowed.emplace_back(dest, k);
      Commit commit;
      commit.cls = dest.cls;
      commit.dest = op.dest;
      commit.op = i;
      switch (dest.cls) {
        case RegClass::kScalar:
          commit.shadow = m_.chip->scalar_registers + k;
          break;
        case RegClass::kPredicate:
          commit.shadow = m_.chip->predicate_registers + k;
          break;
        default:
          commit.shadow = m_.chip->vector_registers + m_.chip->mask_registers + k;
          break;
      }
      op.dest = commit.shadow;
      out_->commits.push_back(commit);
    }
  }

  const BodyTable& vector_bodies_;
  Machine& m_;
  DecodedFunction* out_ = nullptr;
  std::vector<uint16_t> operand_waits_, unit_waits_;
  std::vector<int> ports_;
  std::map<int32_t, uint32_t> constants_;
  uint32_t* constants_at_ = nullptr;
  int constant_room_ = 0;
};

void SetUpLines(Machine* m) {
  const Chip& c = *m->chip;
  Lines& l = m->lines;
  int next = 0;
  auto take = [&](int* first, int count) {
    *first = next;
    next += count;
  };
  take(&l.vector, c.vector_registers);
  take(&l.mask, c.mask_registers);
  take(&l.scalar, c.scalar_registers);
  take(&l.predicate, c.predicate_registers);
  for (int* line : {&l.xlu_op, &l.xlu_start, &l.xlu_pop}) take(line, c.xlus);
  for (int* line : {&l.push, &l.subr, &l.mubr, &l.matmul, &l.latch, &l.mrf_pop}) take(line, c.mxus);
  take(&l.dma, 1);
  l.count = next;
  m->ready.assign(next, Time{});
}

void SetUpQueues(Machine* m) {
  const Chip& c = *m->chip;
  auto add = [&](std::string name, int depth) {
    Queue q;
    q.name = std::move(name);
    q.ring.resize(depth);
    m->queues.push_back(std::move(q));
  };
  add("the EUP queue", c.eup_depth);
  add("the V2S queue", c.v2s_depth);
  m->xlu_queue = static_cast<int>(m->queues.size());
  for (int i = 0; i < c.xlus; ++i) add(absl::StrCat("the queue of xlu", i), c.xlu_depth);
  m->mrf_queue = static_cast<int>(m->queues.size());
  for (int i = 0; i < c.mxus; ++i) add(absl::StrCat("the result queue of mxu", i), c.mrf_depth);
}

}  // namespace

bool DecodeProgram(const BodyTable& vector_bodies, Machine* m, std::vector<DecodedFunction>* out) {
  const Chip& c = *m->chip;
  SetUpLines(m);
  SetUpQueues(m);
  m->mxus.resize(c.mxus);
  m->transposes.resize(c.xlus);
  m->s.assign(c.scalar_registers + kShadows, 0);
  m->p.assign(c.predicate_registers + kShadows, 0);
  m->spare = static_cast<uint32_t>(c.vector_registers + c.mask_registers + kShadows);
  for (uint32_t i = 0; i < m->spare + 3; ++i) {
    m->reg.push_back(m->values ? m->TakeTile() : nullptr);
  }
  Decoder decoder(vector_bodies, m);
  out->resize(m->program->kernels.size() + 1);
  for (size_t i = 0; i < m->program->kernels.size(); ++i) {
    if (!decoder.Function(m->program->kernels[i], static_cast<int>(i), &(*out)[i])) return false;
  }
  return decoder.Function(m->program->tlp, -1, &out->back());
}

}  // namespace tpuc::interp
