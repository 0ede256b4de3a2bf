// What is known of scalar registers along straight-line code: each value is an unknown root plus a
// constant, equal expressions share a root. Two addresses with the same root are then a known
// distance apart.
//
//   %s3 = sadd.s32 %s0, 8      root of %s0, +8
//   %s4 = sadd.s32 %s3, %s1    a new root, the same wherever these two are added again
#pragma once

#include <cstdint>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "backend/isa/isa.h"

namespace tpuc::schedule {

struct ScalarValue {
  int32_t root = 0;  // 0: the value is the constant alone
  int64_t offset = 0;
};

class ScalarValues {
 public:
  ScalarValue Of(const isa::Operand& operand);
  // Takes note of a scalar instruction's result; other instructions are ignored.
  void Define(const isa::Inst& inst);
  void Assign(isa::Reg scalar, ScalarValue value) { registers_[scalar.id] = value; }

 private:
  ScalarValue Fresh() { return {next_root_++, 0}; }
  ScalarValue Evaluate(const isa::Inst& inst);
  int32_t next_root_ = 1;
  absl::flat_hash_map<int32_t, ScalarValue> registers_;
  absl::flat_hash_map<std::tuple<int, int32_t, int64_t, int32_t, int64_t>, int32_t> expressions_;
};

}  // namespace tpuc::schedule
