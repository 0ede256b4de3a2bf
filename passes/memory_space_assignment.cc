// memory. Carries out the plan of vmem_plan.h on the scheduled entry: buffers that live in VMEM get
// S(1) in their layouts, and copies become pairs that run beside the kernels between them:
//
//   cs = (f32[64,32]{...S(1)}, f32[64,32]{...}, u32[]{:S(2)}) copy-start(w2)
//   ... kernels ...
//   cd = f32[64,32]{...S(1)} copy-done(cs)
//   ROOT fusion(h, cd)
//
// A module in which something is in VMEM already was assigned by its author: it is only given
// addresses. What does not fit there is E1001.
#include "passes/memory_space_assignment.h"

#include <algorithm>
#include <map>

#include "absl/container/flat_hash_map.h"
#include "passes/vmem_plan.h"

namespace tpuc {
namespace {

bool InVmem(const Shape& s) { return s.layout && s.layout->memory_space == 1; }

Shape InSpace(Shape s, int64_t space) {
  if (!s.layout) s.layout = DefaultLayout(s.rank());
  s.layout->memory_space = space;
  return s;
}

class Rewriter {
 public:
  Rewriter(Module* module, const LiveRanges& ranges, std::vector<VmemStay> stays)
      : module_(module),
        entry_(module->entry),
        ranges_(ranges),
        stays_(std::move(stays)),
        before_(ranges.length + 1),
        named_(ranges.buffers.size()) {
    for (const auto& i : entry_->instructions) {
      const int64_t position = static_cast<int64_t>(at_.size());
      at_.push_back(i.get());
      for (int64_t n = 0; n < i->shape.LeafCount(); ++n) {
        const int b = ranges_.Find(i.get(), n);
        if (b >= 0) named_[b].push_back({position, n});
      }
    }
  }
  // Where each placed buffer is now: (instruction, leaf, offset).
  struct Made {
    const Instruction* instruction;
    int64_t leaf, offset;
  };
  std::vector<Made> Run();

 private:
  // Position of the instruction whose result is just this buffer; -1 where there is none.
  int64_t CarrierPosition(int buffer) const;
  void MarkMade(const VmemStay& stay);
  void Evict(const VmemStay& stay);
  void Prefetch(const VmemStay& stay);
  std::pair<Instruction*, Instruction*> CopyPair(Instruction* source, int64_t space);
  void ReadFrom(int buffer, int64_t first, int64_t last, Instruction* copy);
  void Place(int64_t position, Instruction* i) { before_[position].push_back(i); }
  void Reorder();
  void MarkFusions();

  Module* module_;
  Computation* entry_;
  const LiveRanges& ranges_;
  std::vector<VmemStay> stays_;
  std::vector<Instruction*> at_;                   // by schedule position
  std::vector<std::vector<Instruction*>> before_;  // new instructions, by position
  // By buffer: position and leaf of every instruction that makes or passes it on.
  std::vector<std::vector<std::pair<int64_t, int64_t>>> named_;
  std::map<int, Instruction*> evicted_;  // buffer -> copy-done of its copy in HBM
  std::vector<Instruction*> first_;      // cross-program copy behind its parameter
  std::vector<Made> made_;
};

int64_t Rewriter::CarrierPosition(int buffer) const {
  for (const auto& [position, leaf] : named_[buffer]) {
    if (at_[position]->shape.IsArray()) return position;
  }
  return -1;
}

void Rewriter::MarkMade(const VmemStay& stay) {
  for (const auto& [position, leaf] : named_[stay.buffer]) {
    Shape& shape = *LeavesOf(&at_[position]->shape)[leaf];
    shape = InSpace(shape, 1);
  }
  const LiveBuffer& b = ranges_.buffers[stay.buffer];
  made_.push_back({b.instruction, b.leaf, stay.offset});
}

std::pair<Instruction*, Instruction*> Rewriter::CopyPair(Instruction* source, int64_t space) {
  Shape flag = Shape::Array(Type::kU32, {});
  flag.layout = DefaultLayout(0);
  flag.layout->memory_space = 2;
  Shape destination = InSpace(source->shape, space);
  Instruction* start = entry_->Add("copy-start", Op::kCopyStart,
                                   Shape::Tuple({destination, source->shape, flag}), {source});
  Instruction* done = entry_->Add("copy-done", Op::kCopyDone, destination, {start});
  if (source->metadata) {
    start->metadata = std::make_unique<Metadata>(*source->metadata);
    done->metadata = std::make_unique<Metadata>(*source->metadata);
  }
  return {start, done};
}

// Kernels at positions first..last that read the buffer read `copy` instead, through the same
// bitcasts.
void Rewriter::ReadFrom(int buffer, int64_t first, int64_t last, Instruction* copy) {
  std::map<std::string, Instruction*> bitcasts;
  const std::vector<int64_t>& reads = ranges_.buffers[buffer].reads;
  for (auto it = std::lower_bound(reads.begin(), reads.end(), first);
       it != reads.end() && *it <= last; ++it) {
    const int64_t position = *it;
    Instruction* reader = at_[position];
    if (!IsKernel(*reader)) continue;
    for (Instruction*& operand : reader->operands) {
      if (!operand->shape.IsArray() || ranges_.Find(operand) != buffer || operand == copy) continue;
      // What passes the buffer on (opt-barrier) may have it in the shape that a bitcast gave it.
      const bool as_is =
          Compatible(operand->shape, copy->shape) && operand->shape.layout &&
          operand->shape.layout->minor_to_major == copy->shape.layout->minor_to_major;
      if (operand->op != Op::kBitcast && as_is) {
        operand = copy;
        continue;
      }
      Instruction*& bitcast = bitcasts[operand->name];
      if (!bitcast) {
        Shape shape = InSpace(operand->shape, copy->shape.layout->memory_space);
        bitcast = entry_->Add("bitcast", Op::kBitcast, shape, {copy});
        Place(position, bitcast);
      }
      operand = bitcast;
    }
  }
}

// Copied out right behind its instruction; waited for behind the last read from VMEM.
void Rewriter::Evict(const VmemStay& stay) {
  const int64_t position = CarrierPosition(stay.buffer);
  auto [start, done] = CopyPair(at_[position], 0);
  Place(position + 1, start);
  Place(stay.to + 1, done);
  evicted_[stay.buffer] = done;
  ReadFrom(stay.buffer, stay.to + 1, ranges_.length - 1, done);
}

void Rewriter::Prefetch(const VmemStay& stay) {
  auto it = evicted_.find(stay.buffer);
  Instruction* source = it != evicted_.end() ? it->second : at_[CarrierPosition(stay.buffer)];
  auto [start, done] = CopyPair(source, 1);
  if (stay.cross_program) {
    start->Set(AttrId::kCrossProgramPrefetchIndex, int64_t{0});
    first_ = {source, start};
  } else {
    Place(stay.from, start);
  }
  Place(stay.first_read, done);
  ReadFrom(stay.buffer, stay.first_read, stay.to, done);
  if (it != evicted_.end()) {
    // Its readers were given the copy in HBM.
    const std::vector<int64_t>& reads = ranges_.buffers[stay.buffer].reads;
    for (auto read = std::lower_bound(reads.begin(), reads.end(), stay.first_read);
         read != reads.end() && *read <= stay.to; ++read) {
      auto& operands = at_[*read]->operands;
      if (IsKernel(*at_[*read])) std::replace(operands.begin(), operands.end(), source, done);
    }
  }
  made_.push_back({start, 0, stay.offset});
}

void Rewriter::Reorder() {
  absl::flat_hash_map<const Instruction*, std::unique_ptr<Instruction>> owned;
  for (auto& i : entry_->instructions) {
    const Instruction* key = i.get();
    owned[key] = std::move(i);
  }
  auto& list = entry_->instructions;
  list.clear();
  auto take = [&](const Instruction* i) {
    auto it = owned.find(i);
    if (it == owned.end()) return;
    list.push_back(std::move(it->second));
    owned.erase(it);
  };
  for (const Instruction* i : first_) take(i);
  for (size_t position = 0; position <= at_.size(); ++position) {
    for (const Instruction* i : before_[position]) take(i);
    if (position < at_.size()) take(at_[position]);
  }
}

// Parameters and results of fusion bodies say the space of what they stand for.
void Rewriter::MarkFusions() {
  for (const auto& i : entry_->instructions) {
    if (i->op != Op::kFusion) continue;
    Computation* body = i->ComputationAttr(AttrId::kCalls);
    for (Instruction* p : body->Parameters()) {
      const Shape& shape = i->operands[p->parameter_number]->shape;
      if (shape.IsArray() && shape.layout) p->shape = InSpace(p->shape, shape.layout->memory_space);
    }
    body->root->shape = i->shape;
    if (body->root->op != Op::kTuple) continue;
    for (size_t n = 0; n < body->root->operands.size(); ++n) {
      body->root->operands[n]->shape = i->shape.elements[n];
    }
  }
}

std::vector<Rewriter::Made> Rewriter::Run() {
  for (const VmemStay& stay : stays_) {
    if (!stay.prefetch) MarkMade(stay);
  }
  for (const VmemStay& stay : stays_) {
    if (stay.evict) Evict(stay);
  }
  for (const VmemStay& stay : stays_) {
    if (stay.prefetch) Prefetch(stay);
  }
  Reorder();
  entry_->RemoveDead();  // bitcasts of what is now read in VMEM
  MarkFusions();
  return std::move(made_);
}

bool AssignedAlready(const LiveRanges& ranges) {
  return std::any_of(ranges.buffers.begin(), ranges.buffers.end(),
                     [](const LiveBuffer& b) { return InVmem(b.shape); });
}

void Record(const LiveRanges& ranges, int buffer, int64_t offset, PassContext* context) {
  if (!context->buffers) return;
  const LiveBuffer& b = ranges.buffers[buffer];
  context->buffers->index[{b.instruction, b.leaf}] =
      static_cast<int>(context->buffers->buffers.size());
  context->buffers->buffers.push_back({b.instruction, b.leaf, 1, offset, b.bytes, b.from, b.to});
}

}  // namespace

bool MemorySpaceAssignment::Run(Module* module, PassContext* context) {
  if (context->buffers) *context->buffers = {};
  LiveRanges ranges = ComputeLiveRanges(*module->entry);
  if (AssignedAlready(ranges)) {
    std::vector<PlacedBuffer> placed;
    PlaceVmem(*module, ranges, *context, &placed);
    for (const PlacedBuffer& p : placed) Record(ranges, p.buffer, p.offset, context);
    return false;
  }
  std::vector<VmemStay> stays = PlanVmem(*module->entry, ranges, *context);
  if (stays.empty()) return false;
  std::vector<Rewriter::Made> made = Rewriter(module, ranges, std::move(stays)).Run();
  LiveRanges now = ComputeLiveRanges(*module->entry);
  for (const Rewriter::Made& m : made) {
    Record(now, now.Find(m.instruction, m.leaf), m.offset, context);
  }
  return true;
}

}  // namespace tpuc
