// See copy_tracker.h.
#include "backend/kernel/copy_tracker.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace tpuc::kernel {
namespace {

bool Overlap(const MemoryBox& a, const MemoryBox& b) {
  if (a.ref != b.ref) return false;
  for (size_t d = 0; d < a.start.size(); ++d) {
    if (a.start[d] >= b.start[d] + b.size[d] || b.start[d] >= a.start[d] + a.size[d]) return false;
  }
  return true;
}

}  // namespace

CopyTrouble CopyTracker::Start(MemoryBox from, MemoryBox to, Semaphore semaphore, int64_t bytes,
                               const std::string& place) {
  for (const Copy& c : copies_) {
    const char* what = Overlap(to, c.to)     ? "writes what another copy will write"
                       : Overlap(to, c.from) ? "writes what another copy still reads"
                       : Overlap(from, c.to) ? "reads what another copy will write"
                                             : nullptr;
    if (what == nullptr) continue;
    return {DiagCode::kCopyRace, absl::StrCat("a copy ", what, ": the one started at ", c.place)};
  }
  if (Overlap(from, to)) return {DiagCode::kCopyRace, "a copy whose source and target overlap"};
  Count& count = counts_[semaphore];
  count.value += bytes;
  count.place = place;
  copies_.push_back({std::move(from), std::move(to), semaphore, bytes, place});
  return {};
}

CopyTrouble CopyTracker::WaitCopy(Semaphore semaphore, int64_t bytes, const std::string& name) {
  CopyTrouble trouble = Wait(semaphore, bytes, name);
  if (!trouble.message.empty()) return trouble;
  // Of several copies on one semaphore, which has landed is known when all have.
  if (counts_[semaphore].value > 0) return {};
  copies_.erase(std::remove_if(copies_.begin(), copies_.end(),
                               [&](const Copy& c) { return c.semaphore == semaphore; }),
                copies_.end());
  return {};
}

void CopyTracker::Signal(Semaphore semaphore, int64_t count, const std::string& place) {
  counts_[semaphore].value += count;
  counts_[semaphore].place = place;
}

CopyTrouble CopyTracker::Wait(Semaphore semaphore, int64_t count, const std::string& name) {
  Count& have = counts_[semaphore];
  if (have.value < count) {
    return {DiagCode::kKernelDeadlock,
            absl::StrCat("waits for ", count, " on ", name, ", which will hold ", have.value,
                         have.place.empty() ? ": nothing was started on it"
                                            : absl::StrCat(", last from ", have.place))};
  }
  have.value -= count;
  return {};
}

CopyTrouble CopyTracker::Touch(const MemoryBox& box, bool store) const {
  for (const Copy& c : copies_) {
    if (Overlap(box, c.to)) {
      return {DiagCode::kCopyRace,
              absl::StrCat(store ? "written" : "read", " before the copy started at ", c.place,
                           " has landed there")};
    }
    if (store && Overlap(box, c.from)) {
      return {DiagCode::kCopyRace,
              absl::StrCat("written while the copy started at ", c.place, " still reads it")};
    }
  }
  return {};
}

CopyTrouble CopyTracker::Finish(const std::vector<std::string>& ref_names) const {
  if (!copies_.empty()) {
    return {DiagCode::kCopyNeverWaited,
            absl::StrCat("the copy started at ", copies_[0].place, " is never waited for")};
  }
  for (const auto& [semaphore, count] : counts_) {
    if (count.value == 0) continue;
    return {DiagCode::kSemaphoreLeft,
            absl::StrCat(ref_names[semaphore.first], "[", semaphore.second, "] holds ", count.value,
                         ", last from ", count.place)};
  }
  return {};
}

}  // namespace tpuc::kernel
