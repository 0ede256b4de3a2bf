// The machine's timing rules, as the compiler knows them. Every number is a row of the chip file;
// the rules are sections (d)-(f) of the public v6e dumps as corrected by schedule-targets.md
// section 7. The interpreter implements the same rules on its own.
//
// Issue. Bundles issue in order, at most one a cycle; one issues when all it holds may issue.
//   operands   a result is usable latency(key) cycles after issue; sources are read before results
//              are written, so write-after-read may share a bundle and write-after-write is 1
//              apart. Function arguments (s0 ..) are usable 1 cycle after the first bundle's
//              earliest issue.
//   queues     EUP, V2S: one each; each XLU one for all its result kinds; each MXU one. Results
//   leave
//              in push order. First pop >= push + latency(key): EUP 13, xlane 137, permute 114,
//              matmul 192; a matmul's second 2 later (mrf_pop); a transpose's first
//              latency(xpose) - xlu * n after the last of its n pushes, its next xlu_pop apart.
//              Pops of one MXU are mrf_pop apart, of one XLU xlu_pop, EUP and V2S one a bundle.
//              Results popped are usable latency(pop) later. Entries never exceed the queue's
//              depth; all entries of a push are counted from its issue (a transpose's from its
//              start).
//   XLU        commands of one unit are interval(xlu) apart, transposes xpose_group start to start;
//              between start and end of a transpose its unit takes nothing else.
//   MXU        per unit and in program order: LHS side (mubr, matmul) and weight side (subr, push),
//   at
//              most one command of each side a bundle; subr, mubr -> push, matmul latency(matprep);
//              push -> push and matmul -> matmul the first one's issue interval; last push ->
//              latching matmul latency(push's key); latch -> next set's first weight-side
//              command 1.
//   memory     vst -> vld of the same row latency(vst); store -> store 1; load -> store 0 (one
//   bundle);
//              sst -> sld 1.
//   sync       DMA starts, waits, flag writes, traps and traces keep program order, 1 apart. A DMA
//              comes 1 after the last access it would disturb; accesses to memory that DMAs of the
//              function touch come 1 after the wait before them.
//   branch     chip.delay_slots bundles follow it in its block. Nothing moves across a block's end.
// Slots of a bundle: SlotUse in slots.h.
#pragma once

#include "backend/chip/chip.h"
#include "backend/isa/isa.h"
#include "backend/llo/operands.h"

namespace tpuc::schedule {

inline int Latency(const isa::Inst& inst, const Chip& chip) {
  return chip.latency(isa::Info(inst.op).latency);
}
inline int IssueInterval(const isa::Inst& inst, const Chip& chip) {
  return chip.interval(isa::Info(inst.op).interval);
}

// Queues by number: EUP, V2S, then one for each XLU, then one for each MXU.
enum : int { kEupQueue = 0, kV2sQueue = 1, kFirstXluQueue = 2 };
inline int QueueCount(const Chip& chip) { return kFirstXluQueue + chip.xlus + chip.mxus; }
int QueueOf(const isa::Inst& inst, int unit, const Chip& chip);  // of a push or pop; -1: neither
int QueueDepth(int queue, const Chip& chip);
int PopInterval(int queue, const Chip& chip);
// Distance of a push's successive results in its queue.
inline int ResultInterval(const isa::Inst& push, const Chip& chip) {
  if (llo::IsMatmul(push.op)) return chip.interval(IntervalKey::kMrfPop);
  return chip.interval(IntervalKey::kXluPop);
}

}  // namespace tpuc::schedule
