// The names of one computation while it is read: from a name to its instruction.
//
// XLA numbers its names, "fusion.12", and lines near one another have near numbers. So a name is
// kept as its stem, "fusion.", and its number: names of one stem lie in the order of their numbers,
// nothing is compared but two integers, and a program of a million lines is read at the pace of one
// of a thousand. A name is its stem followed by its number, so that no two names are one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "src/ir/hlo.h"

namespace tpuc::hlo {

class ScopeNames {
 public:
  // Where the instruction of that name is kept; null if there is no such name. The instruction is
  // null where its definition failed: uses of it are not reported again.
  Instruction* const* Find(absl::string_view name) const;
  bool Contains(absl::string_view name) const { return Find(name) != nullptr; }
  // Returns what the name stood for before, or null after adding it.
  Instruction* const* Add(absl::string_view name, Instruction* instruction);
  void Reserve(size_t names) { instructions_.reserve(names); }

 private:
  struct Key {
    uint32_t stem, number;
    bool operator==(const Key& o) const { return stem == o.stem && number == o.number; }
  };
  // A flat_hash_map looks for a key from slot hash >> 7 on, and tells neighbours apart by the low
  // seven bits: each stem has a place to begin at, and its numbers follow.
  struct InOrder {
    size_t operator()(const Key& key) const {
      const uint64_t place = key.number + key.stem * uint64_t{0x9E3779B97F4A7C15};
      return place << 7 | ((key.number + key.stem * 37) & 0x7F);
    }
  };

  absl::flat_hash_map<std::string, uint32_t> stems_;
  absl::flat_hash_map<Key, Instruction*, InOrder> instructions_;
};

}  // namespace tpuc::hlo
