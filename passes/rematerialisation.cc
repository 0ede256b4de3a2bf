// rematerialisation. While the live bytes of a scheduled entry exceed the chip's HBM: at the peak,
// of the values that are only kept there, the one whose bytes cost the least time to make again is
// made again right before its next reader.
//
//   a = dot(x, w)   b = dot(a, w) ... peak ... r = dot(b, a)
//   becomes         b = dot(a, w) ... peak ... a.remat = dot(x, w)   r = dot(b, a.remat)
//
// What it reads must be alive there anyway, or be made again too (a chain of at most kLongest), or
// be smaller than what it frees. Without a gain left it gives up; buffers then says what is too
// large.
#include "passes/rematerialisation.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "passes/kernel_time.h"
#include "passes/live_ranges.h"

namespace tpuc {
namespace {

constexpr int64_t kGranule = 512;
constexpr size_t kLongest = 16;

int64_t Rounded(int64_t bytes) {
  return bytes > INT64_MAX - kGranule ? bytes : (bytes + kGranule - 1) / kGranule * kGranule;
}

bool Lasting(const LiveBuffer& b) { return b.parameter || b.constant || b.result; }

struct Candidate {
  int buffer = -1;
  int64_t reader = 0;                     // position of its next reader
  int64_t gain = 0;                       // bytes
  double cycles = 0;                      // to make it again
  std::vector<const Instruction*> chain;  // what is made again, in order; it is the last
  // Bytes a cycle buys.
  bool BetterThan(const Candidate& o) const {
    if (o.buffer < 0) return true;
    return static_cast<double>(gain) * o.cycles > static_cast<double>(o.gain) * cycles;
  }
};

class Rematerialiser {
 public:
  Rematerialiser(Module* module, const PassContext& context) : module_(module), context_(context) {}

  bool Run() {
    bool changed = false;
    // Each round adds an instruction; more than twice as many would be a program of another kind.
    const size_t most = 2 * module_->entry->instructions.size() + 64;
    while (module_->entry->instructions.size() < most && Step()) changed = true;
    return changed;
  }

 private:
  bool Step() {
    ranges_ = ComputeLiveRanges(*module_->entry);
    int64_t lasting = 0;
    std::vector<int64_t> live(ranges_.length + 1, 0);
    for (const LiveBuffer& b : ranges_.buffers) {
      const int64_t bytes = Rounded(b.bytes);
      if (bytes > INT64_MAX / 1024 || lasting > INT64_MAX / 1024) return false;
      if (Lasting(b)) {
        lasting += bytes;
      } else {
        live[b.from] += bytes;
        live[b.to + 1] -= bytes;
      }
    }
    for (int64_t p = 1; p <= ranges_.length; ++p) live[p] += live[p - 1];
    const int64_t peak = std::max_element(live.begin(), live.end()) - live.begin();
    if (live[peak] + lasting <= context_.chip->hbm_bytes) return false;
    Candidate best;
    for (size_t n = 0; n < ranges_.buffers.size(); ++n) {
      Candidate c = Consider(static_cast<int>(n), peak);
      if (c.gain > 0 && c.BetterThan(best)) best = c;
    }
    if (best.buffer < 0) {
      context_.Remark("nothing left to compute again: ", live[peak] + lasting, " bytes live, ",
                      context_.chip->hbm_bytes, " in HBM");
      return false;
    }
    Apply(best, live[peak] + lasting, peak);
    return true;
  }

  // Without gain unless the buffer is only kept at `peak` and can be made again after it.
  Candidate Consider(int n, int64_t peak) const {
    const LiveBuffer& b = ranges_.buffers[n];
    const Instruction& maker = *b.instruction;
    Candidate c;
    if (Lasting(b) || b.defined >= peak || b.to <= peak || !maker.shape.IsArray() ||
        !IsKernel(maker)) {
      return c;
    }
    auto reader = std::upper_bound(b.reads.begin(), b.reads.end(), peak);
    if (reader == b.reads.end() || (reader != b.reads.begin() && *(reader - 1) == peak)) return c;
    // Later readers must read it by its own name, not through a bitcast that stands before.
    for (auto later = reader; later != b.reads.end(); ++later) {
      const auto& operands = module_->entry->instructions[*later]->operands;
      if (std::find(operands.begin(), operands.end(), &maker) == operands.end()) return c;
    }
    int64_t longer = 0;
    if (!Again(maker, *reader, peak, &longer, &c.chain)) return c;
    c.buffer = n;
    c.reader = *reader;
    c.gain = Rounded(b.bytes) - longer;
    for (const Instruction* i : c.chain) {
      c.cycles += std::max(1.0, KernelCycles(*i, *context_.chip));
    }
    return c;
  }

  // Adds what must be made again for `maker` to run at `reader`, itself last; `longer` grows by the
  // bytes that must live from before the peak to there.
  bool Again(const Instruction& maker, int64_t reader, int64_t peak, int64_t* longer,
             std::vector<const Instruction*>* chain) const {
    if (chain->size() >= kLongest) return false;
    for (const Instruction* operand : maker.operands) {
      for (int64_t leaf = 0; leaf < operand->shape.LeafCount(); ++leaf) {
        const int o = ranges_.Find(operand, leaf);
        if (o < 0) continue;
        const LiveBuffer& b = ranges_.buffers[o];
        if (Lasting(b) || b.to >= reader || b.to >= peak) continue;
        if (std::find(chain->begin(), chain->end(), operand) != chain->end()) continue;
        const bool own = b.instruction == operand && IsKernel(*operand) && operand->shape.IsArray();
        if (own && Again(*operand, reader, peak, longer, chain)) continue;
        *longer += Rounded(b.bytes);
      }
    }
    if (chain->size() >= kLongest) return false;
    chain->push_back(&maker);
    return true;
  }

  void Apply(const Candidate& c, int64_t live, int64_t peak) {
    Computation* entry = module_->entry;
    const Instruction* maker = ranges_.buffers[c.buffer].instruction;
    Instruction* reader = entry->instructions[c.reader].get();
    absl::flat_hash_map<const Instruction*, Instruction*> copies;
    Instruction* again = nullptr;
    for (const Instruction* i : c.chain) {
      again =
          entry->AddBefore(reader, absl::StrCat(i->name, ".remat"), i->op, i->shape, i->operands);
      again->attrs = i->attrs;
      again->loc = i->loc;
      if (i->metadata) again->metadata = std::make_unique<Metadata>(*i->metadata);
      for (Instruction*& operand : again->operands) {
        if (auto it = copies.find(operand); it != copies.end()) operand = it->second;
      }
      copies[i] = again;
    }
    bool after = false;
    for (const auto& i : entry->instructions) {
      if (i.get() == again) {
        after = true;
        continue;
      }
      if (!after) continue;
      for (Instruction*& operand : i->operands) {
        if (operand == maker) operand = again;
      }
    }
    context_.Remark(again->name, " before ", reader->name, " (", c.chain.size(), " kernels) frees ",
                    c.gain, " bytes at ", entry->instructions[peak]->name, ", where ", live,
                    " are live");
  }

  Module* module_;
  const PassContext& context_;
  LiveRanges ranges_;
};

}  // namespace

bool Rematerialisation::Run(Module* module, PassContext* context) {
  if (!module->is_scheduled) return false;
  return Rematerialiser(module, *context).Run();
}

}  // namespace tpuc
