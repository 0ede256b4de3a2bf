#include "src/io/zip.h"

#include <zlib.h>

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"

namespace tpuc {
namespace {

constexpr uint32_t kEndMagic = 0x06054b50, kEnd64Magic = 0x06064b50, kLocator64Magic = 0x07064b50;
constexpr uint32_t kDirectoryMagic = 0x02014b50, kLocalMagic = 0x04034b50;
constexpr uint64_t kBig = 0xffffffffu;

// Little-endian fields of an untrusted file. Reads past the end give 0 and clear ok().
class Fields {
 public:
  explicit Fields(absl::string_view bytes) : bytes_(bytes) {}
  uint64_t Read(uint64_t at, int width) {
    if (at > bytes_.size() || bytes_.size() - at < static_cast<uint64_t>(width)) {
      ok_ = false;
      return 0;
    }
    uint64_t v = 0;
    for (int i = width - 1; i >= 0; --i) v = v << 8 | static_cast<uint8_t>(bytes_[at + i]);
    return v;
  }
  uint32_t U16(uint64_t at) { return static_cast<uint32_t>(Read(at, 2)); }
  uint32_t U32(uint64_t at) { return static_cast<uint32_t>(Read(at, 4)); }
  uint64_t U64(uint64_t at) { return Read(at, 8); }
  absl::string_view Text(uint64_t at, uint64_t size) {
    if (at > bytes_.size() || bytes_.size() - at < size) {
      ok_ = false;
      return "";
    }
    return bytes_.substr(at, size);
  }
  bool ok() const { return ok_; }
  uint64_t size() const { return bytes_.size(); }

 private:
  absl::string_view bytes_;
  bool ok_ = true;
};

struct Entry {
  std::string name;
  uint32_t flags = 0, method = 0, crc = 0;
  uint64_t packed = 0, size = 0, offset = 0;
};

struct Directory {
  uint64_t offset = 0, count = 0;
};

bool FindDirectory(Fields* f, Directory* directory) {
  if (f->size() < 22) return false;
  uint64_t lowest = f->size() - std::min<uint64_t>(f->size(), 22 + 65535);
  for (uint64_t at = f->size() - 22;; --at) {
    if (f->U32(at) == kEndMagic && at + 22 + f->U16(at + 20) == f->size()) {
      directory->count = f->U16(at + 10);
      directory->offset = f->U32(at + 16);
      bool wide = directory->count == 0xffff || directory->offset == kBig;
      if (wide && at >= 20 && f->U32(at - 20) == kLocator64Magic) {
        uint64_t end64 = f->U64(at - 12);
        if (f->U32(end64) != kEnd64Magic) return false;
        directory->count = f->U64(end64 + 32);
        directory->offset = f->U64(end64 + 48);
      }
      return f->ok();
    }
    if (at == lowest) return false;
  }
}

// The zip64 extra field holds, in this order, those of the three that are saturated in the record.
void ApplyZip64(Fields* f, uint64_t extra, uint64_t extra_size, Entry* e) {
  for (uint64_t at = extra; at + 4 <= extra + extra_size;) {
    uint64_t size = f->U16(at + 2), field = at + 4;
    if (f->U16(at) == 1 && field + size <= extra + extra_size) {
      uint64_t end = field + size;
      for (uint64_t* v : {&e->size, &e->packed, &e->offset}) {
        if (*v != kBig || field + 8 > end) continue;
        *v = f->U64(field);
        field += 8;
      }
      return;
    }
    at = field + size;
  }
}

// Reads the record at *at and moves past it.
bool ReadRecord(Fields* f, uint64_t* at, Entry* e) {
  if (f->U32(*at) != kDirectoryMagic) return false;
  e->flags = f->U16(*at + 8);
  e->method = f->U16(*at + 10);
  e->crc = f->U32(*at + 16);
  e->packed = f->U32(*at + 20);
  e->size = f->U32(*at + 24);
  uint64_t name = f->U16(*at + 28), extra = f->U16(*at + 30), comment = f->U16(*at + 32);
  e->offset = f->U32(*at + 42);
  e->name = std::string(f->Text(*at + 46, name));
  f->Text(*at + 46 + name, extra);
  if (!f->ok()) return false;
  ApplyZip64(f, *at + 46 + name, extra, e);
  *at += 46 + name + extra + comment;
  return f->ok();
}

bool Inflate(absl::string_view packed, uint64_t size, std::string* out) {
  // Deflate cannot do better than 1032 to 1 (RFC 1951: 258 bytes from 2 bits); more is a lie.
  if (size / 1032 > packed.size() + 1) return false;
  out->resize(size);
  z_stream z{};
  if (inflateInit2(&z, -MAX_WBITS) != Z_OK) return false;
  uint64_t in = 0, done = 0;
  int status = Z_OK;
  char spare;  // zlib wants room even when nothing is left to write
  while (status == Z_OK) {
    uint64_t in_chunk = std::min<uint64_t>(packed.size() - in, 1u << 30);
    uint64_t out_chunk = std::min<uint64_t>(size - done, 1u << 30);
    z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data() + in));
    z.avail_in = static_cast<uInt>(in_chunk);
    z.next_out = reinterpret_cast<Bytef*>(out_chunk ? out->data() + done : &spare);
    z.avail_out = static_cast<uInt>(out_chunk ? out_chunk : 1);
    uInt before_out = z.avail_out;
    status = inflate(&z, Z_NO_FLUSH);
    in += in_chunk - z.avail_in;
    uint64_t wrote = before_out - z.avail_out;
    if (out_chunk == 0 && wrote > 0) status = Z_DATA_ERROR;  // longer than it says
    if (out_chunk > 0) done += wrote;
    if (status == Z_OK && in_chunk == z.avail_in && wrote == 0) status = Z_BUF_ERROR;
  }
  inflateEnd(&z);
  return status == Z_STREAM_END && done == size;
}

uint32_t Crc(absl::string_view bytes) {
  uLong crc = crc32(0, nullptr, 0);
  while (!bytes.empty()) {
    uInt n = static_cast<uInt>(std::min<size_t>(bytes.size(), 1u << 30));
    crc = crc32(crc, reinterpret_cast<const Bytef*>(bytes.data()), n);
    bytes.remove_prefix(n);
  }
  return static_cast<uint32_t>(crc);
}

bool ReadMember(Fields* f, const Entry& e, std::string* contents, std::string* error) {
  auto fail = [&](absl::string_view why) {
    *error = absl::StrCat("member '", e.name, "' ", why);
    return false;
  };
  if (e.flags & 1) return fail("is encrypted");
  if (e.method != 0 && e.method != 8) {
    return fail(absl::StrCat("is packed by method ", e.method, "; stored and deflated are read"));
  }
  if (f->U32(e.offset) != kLocalMagic) return fail("has no header where the directory says");
  uint64_t at = e.offset + 30 + f->U16(e.offset + 26) + f->U16(e.offset + 28);
  absl::string_view packed = f->Text(at, e.packed);
  if (!f->ok()) return fail("reaches past the end of the file");
  if (e.method == 0) {
    if (e.size != e.packed) return fail("is stored with two different sizes");
    contents->assign(packed.data(), packed.size());
  } else if (!Inflate(packed, e.size, contents)) {
    return fail("does not inflate to its size");
  }
  if (Crc(*contents) != e.crc) return fail("has a wrong checksum");
  return true;
}

void Put(std::string* out, uint64_t value, int width) {
  for (int i = 0; i < width; ++i) out->push_back(static_cast<char>(value >> 8 * i & 0xff));
}

// The fields shared by local header and directory record: version needed .. name length, extra
// length. The date is 1980-01-01, zip's first day, so that equal arrays give equal bytes.
void PutCommon(std::string* out, uint32_t crc, uint64_t size, bool wide, size_t name, int extra) {
  Put(out, wide ? 45 : 20, 2);
  Put(out, 0, 2);
  Put(out, 0, 2);
  Put(out, 0, 2);
  Put(out, 0x21, 2);
  Put(out, crc, 4);
  Put(out, wide ? kBig : size, 4);
  Put(out, wide ? kBig : size, 4);
  Put(out, name, 2);
  Put(out, extra, 2);
}

}  // namespace

bool LooksLikeZip(absl::string_view bytes) {
  return bytes.size() >= 4 && bytes[0] == 'P' && bytes[1] == 'K' &&
         ((bytes[2] == 3 && bytes[3] == 4) || (bytes[2] == 5 && bytes[3] == 6));
}

std::optional<std::vector<ZipMember>> ReadZip(absl::string_view bytes, std::string* error) {
  Fields f(bytes);
  Directory directory;
  if (!FindDirectory(&f, &directory)) {
    *error = "no zip directory at its end (cut short?)";
    return std::nullopt;
  }
  std::vector<ZipMember> members;
  uint64_t at = directory.offset, total = 0;
  for (uint64_t i = 0; i < directory.count; ++i) {
    Entry e;
    if (!ReadRecord(&f, &at, &e)) {
      *error = "a damaged zip directory";
      return std::nullopt;
    }
    // Members may not overlap in an honest archive: together they are no longer than the file.
    total += std::min<uint64_t>(e.packed, kBig * kBig / 2);
    if (total > bytes.size()) {
      *error = "members that are together longer than the file";
      return std::nullopt;
    }
    ZipMember member{e.name, ""};
    if (!ReadMember(&f, e, &member.contents, error)) return std::nullopt;
    members.push_back(std::move(member));
  }
  return members;
}

void ZipWriter::Add(const std::string& name, absl::string_view contents) {
  Record r{name, Crc(contents), contents.size(), out_.size()};
  bool wide = r.size >= kBig;
  Put(&out_, kLocalMagic, 4);
  PutCommon(&out_, r.crc, r.size, wide, name.size(), wide ? 20 : 0);
  out_ += name;
  if (wide) {
    Put(&out_, 1, 2);
    Put(&out_, 16, 2);
    Put(&out_, r.size, 8);
    Put(&out_, r.size, 8);
  }
  out_.append(contents.data(), contents.size());
  records_.push_back(std::move(r));
}

std::string ZipWriter::Finish() {
  uint64_t start = out_.size();
  for (const Record& r : records_) {
    bool wide = r.size >= kBig || r.offset >= kBig;
    Put(&out_, kDirectoryMagic, 4);
    Put(&out_, wide ? 45 : 20, 2);
    PutCommon(&out_, r.crc, r.size, wide, r.name.size(), wide ? 28 : 0);
    Put(&out_, 0, 2 + 2 + 2);  // comment, disk, internal attributes
    Put(&out_, 0, 4);
    Put(&out_, wide ? kBig : r.offset, 4);
    out_ += r.name;
    if (!wide) continue;
    Put(&out_, 1, 2);
    Put(&out_, 24, 2);
    Put(&out_, r.size, 8);
    Put(&out_, r.size, 8);
    Put(&out_, r.offset, 8);
  }
  uint64_t end = out_.size();
  bool wide = start >= kBig || records_.size() >= 0xffff;
  if (wide) {
    Put(&out_, kEnd64Magic, 4);
    Put(&out_, 44, 8);
    Put(&out_, 45, 2);
    Put(&out_, 45, 2);
    Put(&out_, 0, 8);
    Put(&out_, records_.size(), 8);
    Put(&out_, records_.size(), 8);
    Put(&out_, end - start, 8);
    Put(&out_, start, 8);
    Put(&out_, kLocator64Magic, 4);
    Put(&out_, 0, 4);
    Put(&out_, end, 8);
    Put(&out_, 1, 4);
  }
  Put(&out_, kEndMagic, 4);
  Put(&out_, 0, 4);
  uint64_t count = wide ? 0xffff : records_.size();
  Put(&out_, count, 2);
  Put(&out_, count, 2);
  Put(&out_, std::min<uint64_t>(end - start, kBig), 4);
  Put(&out_, wide ? kBig : start, 4);
  Put(&out_, 0, 2);
  return std::move(out_);
}

}  // namespace tpuc
