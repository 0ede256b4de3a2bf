// The zip container of .npz files: members through the central directory, stored or deflated, with
// zip64 fields; written stored. No encryption, no multi-disk archives.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace tpuc {

struct ZipMember {
  std::string name;
  std::string contents;
};

bool LooksLikeZip(absl::string_view bytes);
// All members in the order of the central directory; nothing and *error if the archive is damaged.
std::optional<std::vector<ZipMember>> ReadZip(absl::string_view bytes, std::string* error);
// Appends one member to `out`; FinishZip adds the directory.
class ZipWriter {
 public:
  void Add(const std::string& name, absl::string_view contents);
  std::string Finish();

 private:
  struct Record {
    std::string name;
    uint32_t crc;
    uint64_t size, offset;
  };
  std::string out_;
  std::vector<Record> records_;
};

}  // namespace tpuc
