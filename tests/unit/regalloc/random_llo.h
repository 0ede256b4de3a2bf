// Random LLO functions that are well formed and defined: every operation kind, queues in use across
// each other, reused registers, predicated writes, a branch and a loop. For differential tests.
//
// args: %s0 input rows (kTiles tiles, read only), %s1 output rows (kTiles tiles). Allocations:
// scratch rows in VMEM (buffer 2) and words in SMEM (buffer 3).
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "backend/isa/isa.h"
#include "backend/llo/llo.h"
#include "backend/llo/operands.h"

namespace tpuc {

class RandomLlo {
 public:
  static constexpr int kTiles = 16, kScratchRow = 2048, kScratchTiles = 4, kWord = 64, kWords = 8;

  explicit RandomLlo(uint64_t seed) : state_(seed * 2 + 1), predicates_used_(seed % 3 != 0) {}

  // A straight entry of `size`, then a loop of `trips` trips of about `body` operations.
  llo::Function MakeLoop(int size, int body, int trips) {
    loop_size_ = body;
    trips_ = trips;
    return Make(size);
  }
  llo::Function Make(int size) {
    f_ = {};
    f_.name = "random";
    f_.args = 2;
    f_.registers[static_cast<int>(isa::RegClass::kScalar)] = 2;
    f_.allocations.push_back({"scratch", isa::Memory::kVmem, kScratchTiles * 8, kScratchRow});
    f_.allocations.push_back({"words", isa::Memory::kSmem, kWords, kWord});
    bool loop = trips_ > 0 || Below(2) == 0, branch = trips_ == 0 && Below(2) == 0;
    NewBlock("entry");
    for (int i = 0; i < 6; ++i) vectors_.push_back(Emit(isa::Opcode::kVld, InputTile()));
    for (int i = 0; i < kWords; ++i) {
      isa::Inst sst = Of(isa::Opcode::kSst, {isa::Operand::Imm(Random())});
      sst.mem.offset = kWord + i;
      sst.mem.buffer = 3;
      Push(sst);
    }
    masks_.push_back(Emit(isa::Opcode::kVcmpLtF32, Of({}, {AnyVector(), AnyVector()})));
    scalars_ = {Emit(isa::Opcode::kSmov, Of({}, {isa::Operand::Imm(7)}))};
    predicates_.push_back(
        Emit(isa::Opcode::kScmpLt, Of({}, {Operand(scalars_[0]), isa::Operand::Imm(Below(16))})));
    Body(size);
    if (branch) {
      isa::Inst jump = Of(isa::Opcode::kSbr, {});
      jump.pred = predicates_[Below(predicates_.size())];
      jump.target = 2;
      Push(jump);
      NewBlock("maybe");
      // What only one path defines is not used after the join.
      auto v = vectors_, m = masks_, s = scalars_, p = predicates_;
      Body(size / 3);
      vectors_ = v;
      masks_ = m;
      scalars_ = s;
      predicates_ = p;
      NewBlock("join");
      Body(size / 3);
    }
    if (loop) {
      isa::Reg counter = Emit(isa::Opcode::kSmov, Of({}, {isa::Operand::Imm(0)}));
      int trips = trips_ > 0 ? trips_ : 1 + Below(5);
      NewBlock("loop");
      counter_ = counter;
      loop_trips_ = trips;
      int first = f_.blocks.size() - 1;
      f_.blocks.back().trips = trips;
      Body(loop_size_ > 0 ? loop_size_ : size);
      counter_ = {};
      isa::Inst add = Of(isa::Opcode::kSadd, {Operand(counter), isa::Operand::Imm(1)});
      add.dest = counter;
      Push(add);
      isa::Reg again =
          Emit(isa::Opcode::kScmpLt, Of({}, {Operand(counter), isa::Operand::Imm(trips)}));
      isa::Inst back = Of(isa::Opcode::kSbr, {});
      back.pred = again;
      back.target = first;
      Push(back);
      f_.loops.push_back({first, first, trips, false});
      NewBlock("exit");
    }
    for (int i = 0; i < kTiles && i < static_cast<int>(vectors_.size()); ++i) {
      isa::Inst vst = Of(isa::Opcode::kVst, {Operand(vectors_[vectors_.size() - 1 - i])});
      vst.mem = OutputTile(i).mem;
      Push(vst);
    }
    return f_;
  }

 private:
  using Operand = isa::Operand;
  using Opcode = isa::Opcode;
  struct Pending {
    isa::Inst push;
    int left;
  };

  uint32_t Random() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(state_ >> 33);
  }
  int Below(int n) { return static_cast<int>(Random() % static_cast<uint32_t>(n)); }
  void NewBlock(const std::string& label) {
    Drain();
    f_.blocks.emplace_back();
    f_.blocks.back().label = label;
  }
  void Push(const isa::Inst& inst) { f_.blocks.back().insts.push_back(inst); }
  static isa::Inst Of(Opcode op, std::initializer_list<Operand> src) {
    isa::Inst inst{};
    inst.op = op;
    inst.src.assign(src.begin(), src.end());
    return inst;
  }
  isa::Reg Emit(Opcode op, isa::Inst inst) {
    inst.op = op;
    inst.dest = f_.New(isa::Info(op).dest);
    Push(inst);
    return inst.dest;
  }
  Operand AnyVector() { return vectors_[Below(vectors_.size())]; }
  Operand AnyScalar() { return scalars_[Below(scalars_.size())]; }
  // Rows that move with the loop's counter.
  isa::Inst MovingTile(int arg) {
    int step = 1 + Below(std::min(8, 100 / loop_trips_));
    isa::Reg scaled = Emit(Opcode::kSmul, Of({}, {Operand(counter_), Operand::Imm(step)}));
    isa::Inst inst{};
    inst.mem.base = Emit(Opcode::kSadd, Of({}, {Operand(isa::S(arg)), Operand(scaled)}));
    inst.mem.offset = Below(std::max(1, 8 * kTiles - 8 - step * loop_trips_));
    inst.mem.buffer = arg;
    return inst;
  }
  isa::Inst InputTile() {
    if (counter_.valid() && Below(2) == 0) return MovingTile(0);
    isa::Inst inst{};
    inst.mem.base = isa::S(0);
    inst.mem.offset = 8 * Below(kTiles);
    inst.mem.buffer = 0;
    return inst;
  }
  isa::Inst OutputTile(int tile) {
    isa::Inst inst{};
    inst.mem.base = isa::S(1);
    inst.mem.offset = 8 * tile;
    inst.mem.buffer = 1;
    return inst;
  }
  // Some tile of output or scratch, by one of several bases; sometimes without its buffer.
  isa::Inst AnyTile() {
    if (counter_.valid() && Below(2) == 0) return MovingTile(1);
    if (Below(2) == 0) {
      isa::Inst inst = OutputTile(Below(kTiles - 2));
      if (Below(3) == 0) {
        isa::Inst add = Of({}, {Operand(isa::S(1)), Operand::Imm(8 * Below(2))});
        inst.mem.base = Emit(Opcode::kSadd, add);
      }
      if (Below(8) == 0) inst.mem.buffer = -1;
      return inst;
    }
    isa::Inst inst{};
    inst.mem.offset = kScratchRow + Below((kScratchTiles - 1) * 8);
    inst.mem.buffer = Below(8) == 0 ? -1 : 2;
    if (Below(3) == 0) inst.mem.sublane_mask = 1 + Below(255);
    return inst;
  }
  void MaybePredicate(isa::Inst* inst) {
    if (!predicates_used_ || Below(6) != 0) return;
    inst->pred = predicates_[Below(predicates_.size())];
    inst->pred_negated = Below(2);
  }
  // A whole new register, or a predicated or whole write of an old one.
  void Define(isa::Inst inst, std::vector<isa::Reg>* pool) {
    inst.dest = f_.New(isa::Info(inst.op).dest);
    if (Below(4) == 0) {
      inst.dest = (*pool)[Below(pool->size())];
      MaybePredicate(&inst);
    } else {
      pool->push_back(inst.dest);
    }
    Push(inst);
    // Keeps the pool small enough that values die.
    if (pool->size() > 40 && Below(2) == 0) pool->erase(pool->begin() + Below(20));
  }
  std::deque<Pending>& QueueFor(const isa::Inst& push) {
    switch (isa::Info(push.op).unit) {
      case isa::Unit::kEup:
        return queues_[0];
      case isa::Unit::kV2s:
        return queues_[1];
      case isa::Unit::kXlu:
        return queues_[2];
      default:
        return queues_[3 + push.unit];
    }
  }
  void Started(const isa::Inst& push) {
    QueueFor(push).push_back({push, llo::ResultsOf(push.op, 2)});
  }
  void Pop(std::deque<Pending>* queue) {
    Pending& head = queue->front();
    isa::Inst pop = Of(llo::PopFor(head.push.op), {Operand(head.push.dest)});
    if (isa::Info(head.push.op).unit == isa::Unit::kMxu) pop.unit = head.push.unit;
    Define(pop, pop.op == Opcode::kSpop ? &scalars_ : &vectors_);
    if (f_.blocks.back().insts.back().pred.valid()) {  // a pop always pops
      f_.blocks.back().insts.back().pred = {};
    }
    if (--head.left == 0) queue->pop_front();
  }
  void Drain() {
    for (auto& queue : queues_) {
      while (!queue.empty()) Pop(&queue);
    }
    latched_[0] = latched_[1] = false;
  }
  void Vex() {
    if (Below(2) == 0) {
      static constexpr Opcode kReduce[] = {Opcode::kVaddXlane, Opcode::kVmaxXlane};
      isa::Inst push = Of(kReduce[Below(2)], {AnyVector()});
      if (Below(3) == 0) push.unit = 0;
      push.dest = f_.New(isa::RegClass::kToken);
      Push(push);
      Started(push);
    } else if (Below(3) != 0) {
      isa::Inst push = Of(Opcode::kVrotLane, {AnyVector(), Operand::Imm(Below(128))});
      push.dest = f_.New(isa::RegClass::kToken);
      Push(push);
      Started(push);
    } else if (queues_[2].size() < 2) {
      isa::Inst start = Of(Opcode::kVxposeStart, {AnyVector()});
      start.dest = f_.New(isa::RegClass::kToken);
      Push(start);
      for (int i = Below(3); i > 0; --i) {
        Valu();  // others may come between
        Push(Of(Opcode::kVxposeCont, {Operand(start.dest), AnyVector()}));
      }
      Push(Of(Opcode::kVxposeEnd, {Operand(start.dest), AnyVector()}));
      Started(start);
    }
  }
  void Mxu() {
    int unit = Below(2);
    auto on = [&](isa::Inst inst) {
      inst.unit = unit;
      Push(inst);
    };
    if (!latched_[unit] || Below(6) == 0) {
      bool xpose = Below(2) == 0;
      for (int i = 0; i < 16; ++i) {
        on(Of(Opcode::kVmatprepSubr, {AnyVector()}));
        on(Of(xpose ? Opcode::kVmatpush3Xpose : Opcode::kVmatpush3, {AnyVector()}));
        if (Below(4) == 0) Valu();
      }
      latched_[unit] = false;
    }
    if (Below(2) == 0) on(Of(Opcode::kVmatprepMubr, {AnyVector()}));
    isa::Inst matmul = Of(latched_[unit] ? Opcode::kVmatmul : Opcode::kVmatmulLatch, {AnyVector()});
    matmul.unit = unit;
    matmul.dest = f_.New(isa::RegClass::kToken);
    Push(matmul);
    Started(matmul);
    latched_[unit] = true;
  }
  void Valu() {
    static constexpr Opcode kOps[] = {Opcode::kVaddF32, Opcode::kVsubF32, Opcode::kVmulF32,
                                      Opcode::kVmaxF32, Opcode::kVaddS32, Opcode::kVxor,
                                      Opcode::kVand,    Opcode::kVshll,   Opcode::kVpackBf16};
    Define(Of(kOps[Below(9)], {AnyVector(), AnyVector()}), &vectors_);
  }
  void Scalar() {
    static constexpr Opcode kOps[] = {Opcode::kSadd, Opcode::kSsub, Opcode::kSmul, Opcode::kSxor};
    switch (Below(5)) {
      case 0:
        Define(Of(kOps[Below(4)], {AnyScalar(), AnyScalar()}), &scalars_);
        break;
      case 1: {
        isa::Inst sld = Of(Opcode::kSld, {});
        sld.mem.offset = kWord + Below(kWords);
        sld.mem.buffer = 3;
        Define(sld, &scalars_);
        break;
      }
      case 2: {
        isa::Inst sst = Of(Opcode::kSst, {AnyScalar()});
        sst.mem.offset = kWord + Below(kWords);
        sst.mem.buffer = 3;
        MaybePredicate(&sst);
        Push(sst);
        break;
      }
      case 3:
        Define(Of(Opcode::kScmpLt, {AnyScalar(), Operand::Imm(Below(1000))}), &predicates_);
        break;
      default:
        Define(Of(Opcode::kSselect,
                  {Operand(predicates_[Below(predicates_.size())]), AnyScalar(), AnyScalar()}),
               &scalars_);
    }
  }
  void Step() {
    static constexpr Opcode kEup[] = {Opcode::kVpow2, Opcode::kVrcp, Opcode::kVtanh};
    switch (Below(16)) {
      case 0: {
        isa::Inst vld = Below(2) == 0 ? InputTile() : AnyTile();
        vld.op = Opcode::kVld;
        if (Below(8) == 0) vld.mem.sublane_stride = 0;
        Define(vld, &vectors_);
        break;
      }
      case 1:
      case 2: {
        isa::Inst vst = AnyTile();
        vst.op = Opcode::kVst;
        vst.src = {AnyVector()};
        MaybePredicate(&vst);
        Push(vst);
        break;
      }
      case 3: {
        isa::Inst push = Of(kEup[Below(3)], {AnyVector()});
        push.dest = f_.New(isa::RegClass::kToken);
        if (queues_[0].size() < 20) {
          Push(push);
          Started(push);
        }
        break;
      }
      case 4:
        if (queues_[2].size() < 20) Vex();
        break;
      case 5:
        if (Below(4) == 0) Mxu();
        break;
      case 6:
        Define(Of(Opcode::kVcmpLtS32, {AnyVector(), AnyVector()}), &masks_);
        break;
      case 7:
        Define(Of(Opcode::kVsel, {Operand(masks_[Below(masks_.size())]), AnyVector(), AnyVector()}),
               &vectors_);
        break;
      case 8:
        Define(Of(Opcode::kVmxor,
                  {Operand(masks_[Below(masks_.size())]), Operand(masks_[Below(masks_.size())])}),
               &masks_);
        break;
      case 9:
        Scalar();
        break;
      case 10: {
        isa::Inst push = Of(Opcode::kVpush, {AnyVector()});
        push.dest = f_.New(isa::RegClass::kToken);
        if (Below(4) == 0 && queues_[1].size() < 8) {
          Push(push);
          Started(push);
        }
        break;
      }
      case 11:
      case 12: {
        std::deque<Pending>& queue = queues_[Below(5)];
        if (!queue.empty()) Pop(&queue);
        break;
      }
      case 13:
        Define(Of(Opcode::kVmov, {Operand::Imm(Random())}), &vectors_);
        break;
      default:
        Valu();
    }
  }
  void Body(int size) {
    for (int i = 0; i < size; ++i) Step();
    Drain();
  }

  uint64_t state_;
  bool predicates_used_;
  llo::Function f_;
  std::vector<isa::Reg> vectors_, masks_, scalars_, predicates_;
  std::deque<Pending> queues_[5];
  bool latched_[2] = {false, false};
  int trips_ = 0, loop_size_ = 0, loop_trips_ = 1;
  isa::Reg counter_;  // valid in the loop
};

}  // namespace tpuc
