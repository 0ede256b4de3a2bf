// Which memory accesses of a block must keep their order, found in one walk in program order.
//
// Accesses to different buffers, or to different rows from the same base, are independent. Where
// two accesses to one buffer cannot be compared (different bases, or a buffer not known), the later
// one becomes a fence of that buffer: it follows all before it and all after follow it. A DMA is an
// access to all of its buffer; a wait precedes later accesses to what DMAs touch.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "backend/chip/chip.h"
#include "backend/llo/llo.h"
#include "backend/schedule/scalar_values.h"

namespace tpuc::schedule {

// What the DMAs of a function touch on the VMEM and SMEM side.
struct DmaTargets {
  bool all_vmem = false;  // some address is not known
  bool smem = false;
  absl::flat_hash_set<int> buffers;
  bool Touches(const isa::Inst& access) const;
};
DmaTargets FindDmaTargets(const llo::Function& function);

struct MemoryAccess {
  enum class Kind : uint8_t { kLoad, kStore, kTransfer };
  int node = -1;
  Kind kind = Kind::kLoad;
};

class MemoryOrder {
 public:
  using AddEdge = std::function<void(int from, int to, int latency)>;
  MemoryOrder(const llo::Function& function, const DmaTargets& targets, const Chip& chip,
              AddEdge add)
      : function_(function), targets_(targets), chip_(chip), add_(std::move(add)) {}
  // Instruction number `node` of the block, in program order.
  void Visit(int node, const isa::Inst& inst);

 private:
  using Access = MemoryAccess;
  using Kind = MemoryAccess::Kind;
  struct Row {
    int store = -1;
    absl::InlinedVector<int, 2> loads;  // since the store
  };
  struct Buffer {
    Access fence;
    std::vector<Access> all;                                     // since the fence
    absl::flat_hash_map<std::pair<int32_t, int64_t>, Row> rows;  // by root and row
    absl::flat_hash_map<int32_t, std::pair<int, int>> by_root;   // stores and all, by root
    int stores = 0;
    bool Writes() const { return stores > 0 || (fence.node >= 0 && fence.kind != Kind::kLoad); }
  };
  using Buffers = absl::btree_map<int, Buffer>;  // -1: not known

  int Distance(const Access& before, const Access& after, bool smem) const;
  void AccessRows(int node, const isa::Inst& inst, bool smem);
  void Transfer(int node, const isa::Inst& inst);
  bool WaitsForSemaphore(const isa::Inst& wait) const;
  void Fence(Buffer* buffer, const Access& access, bool smem);
  void FenceAll(Buffers* buffers, const Access& access, bool smem);

  const llo::Function& function_;
  const DmaTargets& targets_;
  const Chip& chip_;
  AddEdge add_;
  ScalarValues values_;
  Buffers vmem_, smem_;
  Access vmem_fence_, smem_fence_;  // over all buffers
  int last_wait_ = -1;
};

}  // namespace tpuc::schedule
