// The proof (memory_checker.h). It walks the schedule once, forwards, carrying for each value the
// set of assigned buffers that its bytes are in, and so finds when each buffer is last needed; then
// a sweep over time holds the buffers alive at each moment by address.
#include "passes/memory_checker.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"

namespace tpuc {
namespace {

struct Need {
  int64_t first = -1, last = -1;  // schedule positions
};

class Checker {
 public:
  Checker(const Module& module, const BufferAssignment& assignment, const Chip& chip)
      : entry_(*module.entry),
        assignment_(assignment),
        chip_(chip),
        needs_(assignment.buffers.size()) {}
  std::vector<std::string> Run();

 private:
  using Leaves = std::vector<int>;  // buffer of each leaf, -1 for none

  void Touch(int buffer, int64_t position) {
    if (buffer < 0) return;
    Need& need = needs_[buffer];
    if (need.first < 0) need.first = position;
    need.first = std::min(need.first, position);
    need.last = std::max(need.last, position);
  }
  Leaves Trace(const Instruction& i, int64_t position);
  void CheckPlaces();
  void CheckOverlap();
  std::string NameOf(int n) const {
    const AssignedBuffer& b = assignment_.buffers[n];
    return absl::StrCat(b.instruction->name, "#", b.leaf);
  }

  const Computation& entry_;
  const BufferAssignment& assignment_;
  const Chip& chip_;
  std::vector<Need> needs_;
  std::map<const Instruction*, Leaves> values_;
  std::map<std::pair<const Instruction*, int64_t>, int> own_;
  std::vector<std::string> wrong_;
};

int64_t CountLeaves(const Shape& s) {
  if (!s.IsTuple()) return 1;
  int64_t sum = 0;
  for (const Shape& e : s.elements) sum += CountLeaves(e);
  return sum;
}

// Bytes of a padded array, from its tiles alone.
int64_t PaddedBytes(const Shape& s) {
  if (!s.IsArray()) return 0;
  int64_t elements = 1;
  for (size_t minor = 0; minor < s.dims.size(); ++minor) {
    int64_t dim = s.layout ? s.layout->minor_to_major[minor] : s.dims.size() - 1 - minor;
    int64_t size = s.dims[dim];
    if (s.layout && !s.layout->tiles.empty()) {
      const auto& tile = s.layout->tiles[0].dims;
      if (minor < tile.size() && tile[tile.size() - 1 - minor] > 0) {
        int64_t t = tile[tile.size() - 1 - minor];
        size = (size + t - 1) / t * t;
      }
    }
    elements *= size;
  }
  if (s.dims.empty() && s.layout && !s.layout->tiles.empty()) elements = s.layout->tiles[0].dims[0];
  return elements * BitsOf(s.type) / 8;
}

Checker::Leaves Checker::Trace(const Instruction& i, int64_t position) {
  Leaves out;
  auto all_of = [&](const Instruction* x) {
    const Leaves& v = values_[x];
    out.insert(out.end(), v.begin(), v.end());
  };
  if (i.op == Op::kTuple) {
    for (const Instruction* x : i.operands) all_of(x);
    return out;
  }
  if (i.op == Op::kBitcast || i.op == Op::kOptBarrier) {
    all_of(i.operands[0]);
    return out;
  }
  if (i.op == Op::kGetTupleElement) {
    int64_t skip = 0, index = i.IntAttr(AttrId::kIndex);
    for (int64_t n = 0; n < index; ++n) skip += CountLeaves(i.operands[0]->shape.elements[n]);
    const Leaves& v = values_[i.operands[0]];
    out.assign(v.begin() + skip, v.begin() + skip + CountLeaves(i.shape));
    return out;
  }
  for (const Instruction* x : i.operands) {
    for (int b : values_[x]) Touch(b, position);
  }
  if (i.op == Op::kCopyDone) return {values_[i.operands[0]][0]};
  int64_t count = CountLeaves(i.shape);
  for (int64_t leaf = 0; leaf < count; ++leaf) {
    auto it = own_.find({&i, leaf});
    out.push_back(it == own_.end() ? -1 : it->second);
    // What the copy reads stays needed as long as the copy runs: both are in its tuple.
    if (i.op == Op::kCopyStart && leaf == 1) out.back() = values_[i.operands[0]][0];
    Touch(out.back(), position);
  }
  return out;
}

void Checker::CheckPlaces() {
  for (size_t n = 0; n < assignment_.buffers.size(); ++n) {
    const AssignedBuffer& b = assignment_.buffers[n];
    int64_t capacity = b.memory_space == 1 ? chip_.vmem_bytes : chip_.hbm_bytes;
    if (b.offset < 0 || b.bytes < 0 || b.bytes > capacity || b.offset > capacity - b.bytes) {
      wrong_.push_back(absl::StrCat(NameOf(n), " leaves its memory"));
    }
    if (b.offset % 512 != 0) wrong_.push_back(absl::StrCat(NameOf(n), " is not aligned"));
    const Shape* s = &b.instruction->shape;
    int64_t leaf = b.leaf;
    while (s->IsTuple()) {
      for (const Shape& e : s->elements) {
        if (leaf < CountLeaves(e)) {
          s = &e;
          break;
        }
        leaf -= CountLeaves(e);
      }
    }
    if (s->ElementCount() > 0 && b.bytes < PaddedBytes(*s)) {
      wrong_.push_back(absl::StrCat(NameOf(n), " is smaller than its array"));
    }
    int64_t space = s->layout && s->layout->memory_space == 1 ? 1 : 0;
    if (space != b.memory_space)
      wrong_.push_back(absl::StrCat(NameOf(n), " is in another memory than its layout says"));
  }
}

void Checker::CheckOverlap() {
  struct Event {
    int64_t position;
    bool begin;
    int buffer;
  };
  std::vector<Event> events;
  for (size_t n = 0; n < needs_.size(); ++n) {
    if (needs_[n].first < 0 || assignment_.buffers[n].bytes == 0) continue;
    events.push_back({needs_[n].first, true, static_cast<int>(n)});
    events.push_back({needs_[n].last + 1, false, static_cast<int>(n)});
  }
  std::stable_sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return std::make_pair(a.position, a.begin) < std::make_pair(b.position, b.begin);
  });
  std::map<std::pair<int64_t, int64_t>, int> alive;  // (space, offset)
  for (const Event& e : events) {
    const AssignedBuffer& b = assignment_.buffers[e.buffer];
    std::pair<int64_t, int64_t> key = {b.memory_space, b.offset};
    if (!e.begin) {
      auto it = alive.find(key);
      if (it != alive.end() && it->second == e.buffer) alive.erase(it);
      continue;
    }
    auto next = alive.lower_bound(key);
    auto clash = [&](int other) {
      wrong_.push_back(
          absl::StrCat(NameOf(e.buffer), " and ", NameOf(other), " share bytes at ", e.position));
    };
    if (next != alive.end() && next->first.first == b.memory_space &&
        next->first.second < b.offset + b.bytes) {
      clash(next->second);
    }
    if (next != alive.begin()) {
      auto previous = std::prev(next);
      const AssignedBuffer& o = assignment_.buffers[previous->second];
      if (o.memory_space == b.memory_space && o.offset + o.bytes > b.offset)
        clash(previous->second);
    }
    alive[key] = e.buffer;
  }
}

std::vector<std::string> Checker::Run() {
  for (size_t n = 0; n < assignment_.buffers.size(); ++n) {
    own_[{assignment_.buffers[n].instruction, assignment_.buffers[n].leaf}] = static_cast<int>(n);
  }
  int64_t position = 0;
  int64_t last = static_cast<int64_t>(entry_.instructions.size()) - 1;
  for (const auto& i : entry_.instructions) {
    values_[i.get()] = Trace(*i, position);
    if (i->op == Op::kParameter || i->op == Op::kConstant) {
      // There before the program starts, and after it ends.
      for (int b : values_[i.get()]) {
        Touch(b, 0);
        Touch(b, last);
      }
    }
    if (i->Has(AttrId::kCrossProgramPrefetchIndex)) Touch(values_[i.get()][0], last);
    ++position;
  }
  for (int b : values_[entry_.root]) Touch(b, last);
  CheckPlaces();
  CheckOverlap();
  return std::move(wrong_);
}

}  // namespace

std::vector<std::string> CheckBuffers(const Module& module, const BufferAssignment& assignment,
                                      const Chip& chip) {
  return Checker(module, assignment, chip).Run();
}

}  // namespace tpuc
