// Memory dependences by buffer, base and row; fences where nothing better is known.
#include "backend/schedule/memory_order.h"

#include <algorithm>

#include "backend/llo/operands.h"

namespace tpuc::schedule {

using isa::Inst;
using isa::Opcode;
using llo::IsSmem;
using llo::IsStore;

namespace {

constexpr int kUnknown = -1;

bool MovesSmem(Opcode op) { return op >= Opcode::kDmaVmemToSmem && op <= Opcode::kDmaSmemToHbm; }

// The buffers on the VMEM side of a DMA; kUnknown where the address is not an argument or constant.
absl::InlinedVector<int, 2> VmemSides(const llo::Function& function, const Inst& inst) {
  absl::InlinedVector<int, 2> sources;
  switch (inst.op) {
    case Opcode::kDmaVmemToVmem:
      sources = {0, 2};
      break;
    case Opcode::kDmaVmemToHbm:
    case Opcode::kDmaVmemToSmem:
      sources = {0};
      break;
    case Opcode::kDmaHbmToVmem:
    case Opcode::kDmaSmemToVmem:
      sources = {2};
      break;
    default:
      break;
  }
  absl::InlinedVector<int, 2> out;
  for (int source : sources) {
    if (inst.mem.buffer >= 0 && sources.size() == 1) {
      out.push_back(inst.mem.buffer);
      continue;
    }
    int buffer = kUnknown;
    const isa::Operand& address = inst.src[source];
    for (size_t a = 0; address.is_imm() && a < function.allocations.size(); ++a) {
      const llo::Allocation& allocation = function.allocations[a];
      if (allocation.memory == isa::Memory::kVmem && address.imm >= allocation.offset &&
          address.imm < allocation.offset + allocation.size) {
        buffer = function.args + static_cast<int>(a);
      }
    }
    out.push_back(buffer);
  }
  return out;
}

}  // namespace

bool DmaTargets::Touches(const Inst& access) const {
  if (IsSmem(access.op)) return smem;
  if (all_vmem) return true;
  if (access.mem.buffer < 0) return !buffers.empty();
  return buffers.contains(access.mem.buffer);
}

DmaTargets FindDmaTargets(const llo::Function& function) {
  DmaTargets targets;
  for (const llo::Block& block : function.blocks) {
    for (const Inst& inst : block.insts) {
      if (!llo::IsDma(inst.op)) continue;
      if (MovesSmem(inst.op)) targets.smem = true;
      for (int buffer : VmemSides(function, inst)) {
        if (buffer == kUnknown)
          targets.all_vmem = true;
        else
          targets.buffers.insert(buffer);
      }
    }
  }
  return targets;
}

int MemoryOrder::Distance(const Access& before, const Access& after, bool smem) const {
  if (before.kind == Kind::kTransfer || after.kind == Kind::kTransfer) {
    return chip_.latency(LatencyKey::kOne);
  }
  if (before.kind == Kind::kLoad) return 0;
  if (after.kind == Kind::kStore || smem) return chip_.latency(LatencyKey::kOne);
  return chip_.latency(LatencyKey::kVst);
}

// `access` follows all of the buffer's accesses so far and precedes all to come.
void MemoryOrder::Fence(Buffer* buffer, const Access& access, bool smem) {
  for (const Access& a : buffer->all) add_(a.node, access.node, Distance(a, access, smem));
  if (buffer->fence.node >= 0 && buffer->fence.node != access.node) {
    add_(buffer->fence.node, access.node, Distance(buffer->fence, access, smem));
  }
  *buffer = Buffer();
  buffer->fence = access;
}

void MemoryOrder::FenceAll(Buffers* buffers, const Access& access, bool smem) {
  Access& fence = smem ? smem_fence_ : vmem_fence_;
  if (fence.node >= 0) add_(fence.node, access.node, Distance(fence, access, smem));
  for (auto& [id, buffer] : *buffers) Fence(&buffer, access, smem);
  buffers->clear();
  fence = access;
}

void MemoryOrder::AccessRows(int node, const Inst& inst, bool smem) {
  Access access{node, IsStore(inst.op) ? Kind::kStore : Kind::kLoad};
  bool store = access.kind == Kind::kStore;
  Buffers& buffers = smem ? smem_ : vmem_;
  bool known = inst.mem.buffer >= 0;
  auto foreign = buffers.find(known ? kUnknown : inst.mem.buffer);
  bool mixed = known ? foreign != buffers.end() && (store || foreign->second.Writes())
                     : std::any_of(buffers.begin(), buffers.end(), [&](const auto& b) {
                         return b.first != kUnknown && (store || b.second.Writes());
                       });
  if (mixed) return FenceAll(&buffers, access, smem);
  const Access& fence = smem ? smem_fence_ : vmem_fence_;
  if (fence.node >= 0) add_(fence.node, node, Distance(fence, access, smem));
  ScalarValue base = values_.Of(inst.mem.base);
  Buffer& buffer = buffers[inst.mem.buffer];
  auto& [root_stores, root_all] = buffer.by_root[base.root];
  int others = static_cast<int>(buffer.all.size()) - root_all;
  if (store ? others > 0 : buffer.stores > root_stores) return Fence(&buffer, access, smem);
  if (buffer.fence.node >= 0) add_(buffer.fence.node, node, Distance(buffer.fence, access, smem));
  root_all += 1;
  root_stores += store;
  buffer.stores += store;
  buffer.all.push_back(access);
  int first = base.offset + inst.mem.offset;
  for (int i = 0; i < (smem ? 1 : 8); ++i) {
    if (!smem && !(inst.mem.sublane_mask >> i & 1)) continue;
    Row& row = buffer.rows[{base.root, first + i * int64_t{inst.mem.sublane_stride}}];
    if (row.store >= 0 && row.store != node) {
      add_(row.store, node, Distance({row.store, Kind::kStore}, access, smem));
    }
    if (store) {
      for (int load : row.loads) add_(load, node, 0);
      row.loads.clear();
      row.store = node;
    } else if (row.loads.empty() || row.loads.back() != node) {
      row.loads.push_back(node);
    }
  }
}

void MemoryOrder::Transfer(int node, const Inst& inst) {
  Access access{node, Kind::kTransfer};
  if (MovesSmem(inst.op)) FenceAll(&smem_, access, true);
  for (int buffer : VmemSides(function_, inst)) {
    if (buffer == kUnknown || vmem_.contains(kUnknown))
      FenceAll(&vmem_, access, false);
    else
      Fence(&vmem_[buffer], access, false);
  }
}

// A wait of the kernel's text, not of a window's copy.
bool MemoryOrder::WaitsForSemaphore(const Inst& wait) const {
  for (const isa::Local& l : function_.info.locals) {
    if (!l.semaphore) continue;
    const isa::Operand& flag = wait.src[0];
    if (!flag.is_imm() || (flag.imm >= l.offset && flag.imm < l.offset + l.size)) return true;
  }
  return false;
}

void MemoryOrder::Visit(int node, const Inst& inst) {
  bool smem = IsSmem(inst.op);
  if (isa::Info(inst.op).has_memory) {
    if (last_wait_ >= 0 && targets_.Touches(inst)) {
      add_(last_wait_, node, chip_.latency(LatencyKey::kOne));
    }
    AccessRows(node, inst, smem);
  } else if (llo::IsDma(inst.op)) {
    Transfer(node, inst);
  } else if (inst.op == Opcode::kDmaDoneWait) {
    last_wait_ = node;
    if (WaitsForSemaphore(inst)) {  // what the text reads too early must not become right
      const int after = chip_.latency(LatencyKey::kOne);
      for (const auto& [id, buffer] : vmem_) {
        for (const Access& a : buffer.all) add_(a.node, node, after);
        if (buffer.fence.node >= 0) add_(buffer.fence.node, node, after);
      }
    }
  }
  values_.Define(inst);
}

}  // namespace tpuc::schedule
