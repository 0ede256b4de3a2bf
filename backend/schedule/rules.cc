// Which queue an operation uses, and what the chip says of that queue.
#include "backend/schedule/rules.h"

namespace tpuc::schedule {

using isa::Unit;

int QueueOf(const isa::Inst& inst, int unit, const Chip& chip) {
  bool member = llo::IsXposeMember(inst.op);
  if (!llo::IsPush(inst.op) && !llo::IsPop(inst.op) && !member) return -1;
  switch (isa::Info(inst.op).unit) {
    case Unit::kEup:
      return kEupQueue;
    case Unit::kV2s:
      return kV2sQueue;
    case Unit::kXlu:
      return kFirstXluQueue + unit;
    case Unit::kMxu:
      return kFirstXluQueue + chip.xlus + unit;
    case Unit::kNone:
      break;
  }
  return -1;
}

int QueueDepth(int queue, const Chip& chip) {
  if (queue == kEupQueue) return chip.eup_depth;
  if (queue == kV2sQueue) return chip.v2s_depth;
  return queue < kFirstXluQueue + chip.xlus ? chip.xlu_depth : chip.mrf_depth;
}

int PopInterval(int queue, const Chip& chip) {
  if (queue < kFirstXluQueue) return chip.interval(IntervalKey::kOne);
  bool xlu = queue < kFirstXluQueue + chip.xlus;
  return chip.interval(xlu ? IntervalKey::kXluPop : IntervalKey::kMrfPop);
}

}  // namespace tpuc::schedule
