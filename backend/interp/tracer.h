// What --trace shows of a run: when each unit worked and when each operation of the source did.
//
//   Tracer tracer(program, chip);
//   tracer.Begin();  tracer.Issue(kernel, bundle, cycle);  ...  tracer.End(result);
//
// Work that follows closely is one span, so that a run of millions of bundles gives a trace that a
// viewer opens; what a span counts is exact.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/chip/chip.h"
#include "backend/interp/interp.h"
#include "backend/isa/program.h"

namespace tpuc::interp {

class Tracer {
 public:
  Tracer(const isa::Program& program, const Chip& chip);

  // A call of a kernel begins: its operations are followed anew.
  void Begin();
  // A bundle of kernel `k` (-1: the top-level program) issued at `cycle`.
  void Issue(int kernel, int bundle, int64_t cycle);
  // The call has ended.
  void End(RunResult* result);
  // The run has ended: the spans still open.
  void Finish(RunResult* result);

 private:
  struct Use {
    int lane;
    int64_t busy;  // cycles
  };
  struct Work {  // of one bundle
    std::vector<Use> uses;
    std::vector<int> sources;
  };
  struct Range {
    int64_t first = -1, last = -1, count = 0;
  };
  static Use UseOf(const isa::Inst& inst, const Chip& chip);
  void AddFunction(const isa::Function& f, const Chip& chip);
  void Busy(int lane, int64_t cycle, int64_t busy);
  void Coarsen();

  std::vector<std::vector<Work>> work_;  // by function, the top-level program last
  std::vector<UnitSpan> open_, done_;    // open: by lane
  std::vector<Range> ranges_;            // by row of the source map
  std::vector<int> touched_;
  int64_t gap_ = 8;  // cycles that one span bridges
  int call_ = -1;
};

}  // namespace tpuc::interp
