// The copies of a kernel's text that are under way, for the block evaluator: bytes move when a copy
// starts, but until a wait says so its destination may not be touched, nor its source written.
//
//   tracker.Start(source, destination, sem, bytes, "k.tk:7");
//   tracker.Touch(box, false)  ->  "read before the copy of k.tk:7 has landed"
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "src/diag/diag.h"

namespace tpuc::kernel {

struct MemoryBox {  // elements [start, start + size * stride) of each dimension of a ref's block
  int ref = -1;
  std::vector<int64_t> start, size;
};

struct CopyTrouble {
  DiagCode code{};
  std::string message;  // empty: none
};

class CopyTracker {
 public:
  using Semaphore = std::pair<int, int64_t>;  // ref, element

  CopyTrouble Start(MemoryBox from, MemoryBox to, Semaphore semaphore, int64_t bytes,
                    const std::string& place);
  CopyTrouble WaitCopy(Semaphore semaphore, int64_t bytes, const std::string& name);
  void Signal(Semaphore semaphore, int64_t count, const std::string& place);
  CopyTrouble Wait(Semaphore semaphore, int64_t count, const std::string& name);
  // A load or store of the body.
  CopyTrouble Touch(const MemoryBox& box, bool store) const;
  CopyTrouble Finish(const std::vector<std::string>& ref_names) const;
  bool idle() const { return copies_.empty(); }

 private:
  struct Copy {
    MemoryBox from, to;
    Semaphore semaphore;
    int64_t bytes = 0;
    std::string place;
  };
  struct Count {
    int64_t value = 0;  // bytes that landed or will, and signals, less what waits took
    std::string place;  // of what added to it last
  };
  std::vector<Copy> copies_;  // in order of their starts
  std::map<Semaphore, Count> counts_;
};

}  // namespace tpuc::kernel
