// Appends LLO instructions to the current block of a function: new virtual registers for results,
// FIFO pushes paired with their pops, the current source row and predicate on each instruction.
//
//   Reg s = b.Op(Opcode::kVaddF32, {x, y});   ->   %v2 = vadd.f32 %v0, %v1
//
// It knows mnemonics, not layouts or kernels.
#pragma once

#include <initializer_list>
#include <string>

#include "absl/types/span.h"
#include "backend/isa/isa.h"
#include "backend/llo/llo.h"

namespace tpuc::lower {

using isa::Opcode;
using isa::Operand;
using isa::Reg;
using isa::RegClass;

inline Operand F32(float f) { return Operand::F32(f); }
inline Operand Imm(int64_t bits) { return Operand::Imm(static_cast<int32_t>(bits)); }

class Builder {
 public:
  explicit Builder(llo::Function* function) : f_(function) {}

  llo::Function* function() { return f_; }
  // Starts a block at the end of the function and makes it current; the block before falls into it.
  int NewBlock(std::string label);
  int block() const { return block_; }
  void SetBlock(int block) { block_ = block; }
  void set_source(int row) { source_ = row; }
  int source() const { return source_; }
  // Stores, DMA and sync instructions emitted from now on carry this predicate (invalid: always).
  void SetPredicate(Reg pred, bool negated) {
    pred_ = pred;
    pred_negated_ = negated;
  }
  Reg predicate() const { return pred_; }
  bool predicate_negated() const { return pred_negated_; }

  // Any instruction without a memory operand; returns its destination (invalid where none).
  Reg Op(Opcode op, absl::Span<const Operand> src, int unit = -1);
  Reg Op(Opcode op, std::initializer_list<Operand> src, int unit = -1) {
    return Op(op, absl::MakeConstSpan(src.begin(), src.size()), unit);
  }
  // The same into an existing register (loop counters, accumulators).
  void Into(Reg dest, Opcode op, std::initializer_list<Operand> src);
  Reg Load(const isa::MemRef& mem);
  void Store(const isa::MemRef& mem, Operand value);
  // packing: rows in a word of `value`; the mask is that of rows.
  void StoreMasked(const isa::MemRef& mem, Operand mask, Operand value, int packing);
  // Branch to block `target` if the predicate holds (invalid: always).
  void Branch(int target, Reg pred, bool negated);
  isa::Inst& last() { return f_->blocks[block_].insts.back(); }

  // Push and pop of the EUP and of the XLU.
  Reg Eup(Opcode op, Operand v);
  Reg Xlane(Opcode op, Operand v);
  Reg Permute(Opcode op, Operand v, Operand n);

  // An immediate as a register (units take registers only).
  Reg AsReg(Operand v);
  Reg Vmov(Operand v) { return Op(Opcode::kVmov, {v}); }

  // Scalar arithmetic with constants folded.
  Operand Sadd(Operand a, Operand b);
  Operand Ssub(Operand a, Operand b);
  Operand Smul(Operand a, Operand b);
  Operand Smin(Operand a, Operand b);
  Operand Smax(Operand a, Operand b);
  Operand Sdiv(Operand a, Operand b);  // of non-negative values
  Operand Srem(Operand a, Operand b);  // of non-negative values
  Operand Select(Reg pred, Operand a, Operand b);
  Reg AsScalar(Operand a);  // an immediate in a register

 private:
  isa::Inst& Append(Opcode op);
  llo::Function* f_;
  int block_ = -1;
  int source_ = -1;
  Reg pred_;
  bool pred_negated_ = false;
};

// What is emitted while it lives comes from this row of the source map (-1: as before).
class AtSource {
 public:
  AtSource(Builder* builder, int row) : builder_(builder), before_(builder->source()) {
    if (row >= 0) builder->set_source(row);
  }
  ~AtSource() { builder_->set_source(before_); }
  AtSource(const AtSource&) = delete;
  AtSource& operator=(const AtSource&) = delete;

 private:
  Builder* builder_;
  int before_;
};

}  // namespace tpuc::lower
