#include "src/io/npy.h"

#include <algorithm>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "src/io/file.h"
#include "src/io/zip.h"

namespace tpuc {
namespace {

constexpr absl::string_view kMagic = "\x93NUMPY";

struct Header {
  NpyArray array;  // without data
  bool big_endian = false, fortran = false;
  size_t data_at = 0;
};

// The header is a Python dictionary of three known keys; this reads its few forms and no more.
class HeaderReader {
 public:
  explicit HeaderReader(absl::string_view text) : text_(text) {}

  bool Read(Header* h, std::string* error) {
    bool descr = false, order = false, shape = false;
    if (!Take('{')) return Bad(error);
    while (!Take('}')) {
      std::string key;
      if (!String(&key) || !Take(':')) return Bad(error);
      if (key == "descr") {
        descr = true;
        if (!Descr(h, error)) return error->empty() ? Bad(error) : false;
      } else if (key == "fortran_order") {
        order = true;
        if (Word("True")) {
          h->fortran = true;
        } else if (!Word("False")) {
          return Bad(error);
        }
      } else if (key == "shape") {
        shape = true;
        if (!Dimensions(&h->array.dims)) return Bad(error);
      } else {
        return Bad(error);
      }
      if (!Take(',') && !Peek('}')) return Bad(error);
    }
    return (descr && order && shape) || Bad(error);
  }

 private:
  static bool Bad(std::string* error) {
    *error = "a damaged .npy header";
    return false;
  }
  void Space() { text_ = absl::StripLeadingAsciiWhitespace(text_); }
  bool Peek(char c) {
    Space();
    return !text_.empty() && text_[0] == c;
  }
  bool Take(char c) {
    if (!Peek(c)) return false;
    text_.remove_prefix(1);
    return true;
  }
  bool Word(absl::string_view w) {
    Space();
    return absl::ConsumePrefix(&text_, w);
  }
  bool String(std::string* s) {
    Space();
    if (text_.empty() || (text_[0] != '\'' && text_[0] != '"')) return false;
    size_t end = text_.find(text_[0], 1);
    if (end == absl::string_view::npos) return false;
    *s = std::string(text_.substr(1, end - 1));
    text_.remove_prefix(end + 1);
    return true;
  }
  // An empty *error on failure means that the header is damaged.
  bool Descr(Header* h, std::string* error) {
    error->clear();
    if (Peek('[')) {
      *error = "a structured array";
      return false;
    }
    std::string d;
    if (!String(&d)) return false;
    auto unknown = [&] {
      *error = absl::StrCat("an array of type '", d, "'");
      return false;
    };
    if (d.size() < 3 || !absl::StrContains("<>|=", absl::string_view(&d[0], 1))) return unknown();
    int bytes = 0;
    if (!absl::SimpleAtoi(absl::string_view(d).substr(2), &bytes)) return unknown();
    h->big_endian = d[0] == '>';
    h->array.kind = d[1];
    h->array.item_bytes = bytes;
    bool good = false;
    switch (d[1]) {
      case 'f':
        good = bytes == 2 || bytes == 4 || bytes == 8;
        break;
      case 'i':
      case 'u':
        good = bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
        break;
      case 'b':
        good = bytes == 1;
        break;
      case 'c':
        good = bytes == 8 || bytes == 16;
        break;
      case 'V':
        good = bytes == 1 || bytes == 2;
        break;
    }
    return good || unknown();
  }
  bool Dimensions(std::vector<int64_t>* dims) {
    if (!Take('(')) return false;
    while (!Take(')')) {
      Space();
      size_t n = 0;
      while (n < text_.size() && absl::ascii_isdigit(text_[n])) ++n;
      int64_t d = 0;
      if (n == 0 || !absl::SimpleAtoi(text_.substr(0, n), &d) || dims->size() >= 64) return false;
      text_.remove_prefix(n);
      absl::ConsumePrefix(&text_, "L");  // Python 2
      dims->push_back(d);
      if (!Take(',') && !Peek(')')) return false;
    }
    return true;
  }
  absl::string_view text_;
};

bool ParseHeader(absl::string_view bytes, Header* h, std::string* error) {
  auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<uint8_t>(bytes[i])); };
  if (bytes.size() < 12 || !absl::StartsWith(bytes, kMagic)) {
    *error = "not a .npy array";
    return false;
  }
  size_t size = byte(8) | byte(9) << 8, start = 10;
  if (byte(6) >= 2) {
    size |= byte(10) << 16 | byte(11) << 24;
    start = 12;
  }
  if (byte(6) < 1 || byte(6) > 3) {
    *error = absl::StrCat("a .npy array of version ", byte(6), "; 1 to 3 are read");
    return false;
  }
  if (bytes.size() - start < size) {
    *error = "a .npy header that reaches past the end of the file";
    return false;
  }
  h->data_at = start + size;
  return HeaderReader(bytes.substr(start, size)).Read(h, error);
}

void SwapBytes(std::vector<uint8_t>* data, int width) {
  for (size_t i = 0; i + width <= data->size(); i += width) {
    std::reverse(data->begin() + i, data->begin() + i + width);
  }
}

// Column-major bytes to row-major.
std::vector<uint8_t> FromFortran(const std::vector<uint8_t>& in, const std::vector<int64_t>& dims,
                                 int width) {
  std::vector<uint8_t> out(in.size());
  std::vector<int64_t> index(dims.size(), 0), stride(dims.size());
  int64_t step = 1;
  for (size_t d = 0; d < dims.size(); ++d) {
    stride[d] = step;
    step *= dims[d];
  }
  int64_t from = 0;
  for (size_t to = 0; to < out.size(); to += width) {
    std::copy_n(in.begin() + from * width, width, out.begin() + to);
    for (int d = static_cast<int>(dims.size()) - 1; d >= 0; --d) {
      from += stride[d];
      if (++index[d] < dims[d]) break;
      from -= stride[d] * dims[d];
      index[d] = 0;
    }
  }
  return out;
}

bool ParseArray(absl::string_view bytes, NpyArray* array, bool* unsupported, std::string* error) {
  Header h;
  *unsupported = false;
  if (!ParseHeader(bytes, &h, error)) {
    *unsupported = absl::StartsWith(*error, "a structured") || absl::StartsWith(*error, "an array");
    return false;
  }
  absl::string_view data = bytes.substr(h.data_at);
  // The dimensions must multiply to what is there, and nothing on the way may overflow.
  bool empty = std::count(h.array.dims.begin(), h.array.dims.end(), 0) > 0;
  int64_t size = h.array.item_bytes;
  for (int64_t d : h.array.dims) {
    if (!empty && __builtin_mul_overflow(size, d, &size))
      size = std::numeric_limits<int64_t>::max();
  }
  if (empty) size = 0;
  if (static_cast<uint64_t>(size) > data.size()) {
    *error = absl::StrCat(ToString(h.array), " needs ", size, " bytes of data, the file has ",
                          data.size());
    return false;
  }
  *array = std::move(h.array);
  array->data.assign(data.begin(), data.begin() + size);
  int part = array->kind == 'c' ? array->item_bytes / 2 : array->item_bytes;
  if (h.big_endian && part > 1 && array->kind != 'V') SwapBytes(&array->data, part);
  if (h.fortran && array->dims.size() > 1) {
    array->data = FromFortran(array->data, array->dims, array->item_bytes);
  }
  return true;
}

void Report(const std::string& file, absl::string_view member, bool unsupported,
            const std::string& error, DiagSink* diags) {
  std::string place = member.empty() ? file : absl::StrCat(file, "[", member, "]");
  Diag& d = diags->Add(unsupported ? DiagCode::kArrayType : DiagCode::kArrayFile,
                       std::make_shared<Source>(Source{place, ""}), Loc{},
                       absl::StrCat(unsupported ? "cannot use " : "damaged file: ", error));
  if (unsupported) d.hint = "save plain numbers: bool, int8..64, uint8..64, float16..64, complex";
}

absl::string_view KindName(char kind) {
  switch (kind) {
    case 'f':
      return "float";
    case 'i':
      return "int";
    case 'u':
      return "uint";
    case 'b':
      return "bool";
    case 'c':
      return "complex";
  }
  return "raw";
}

// The form in which NumPy holds a type: kind and bytes; bits of types it has no name for.
struct Stored {
  char kind;
  int bytes;
  bool as_bits;  // an unsigned integer of the bits; raw bytes are accepted too
};
Stored StoredForm(Type type) {
  int bytes = static_cast<int>(LiteralBytesOf(type));
  switch (ClassOf(type)) {
    case TypeClass::kBool:
      return {'b', 1, false};
    case TypeClass::kSigned:
      return {'i', bytes, false};
    case TypeClass::kUnsigned:
      return {'u', bytes, false};
    case TypeClass::kComplex:
      return {'c', bytes, false};
    default:
      break;
  }
  bool named = type == Type::kF16 || type == Type::kF32 || type == Type::kF64;
  return named ? Stored{'f', bytes, false} : Stored{'u', bytes, true};
}

bool Accepts(Type type, const NpyArray& a) {
  Stored s = StoredForm(type);
  if (a.item_bytes != s.bytes) return false;
  if (a.kind == s.kind) return true;
  if (a.kind == 'V') return s.as_bits || BitsOf(type) < 8;  // ml_dtypes' bfloat16, float8, int4
  return type == Type::kPred && a.kind == 'u';
}

// Numbers outside s4, u4, s2 ... in their int8 form.
bool InRange(Type type, const uint8_t* data, int64_t n) {
  int bits = BitsOf(type);
  if (!IsInteger(type) || bits >= 8) return true;
  bool is_signed = ClassOf(type) == TypeClass::kSigned;
  int low = is_signed ? -(1 << (bits - 1)) : 0, high = (1 << (is_signed ? bits - 1 : bits)) - 1;
  for (int64_t i = 0; i < n; ++i) {
    int v = is_signed ? static_cast<int8_t>(data[i]) : data[i];
    if (v < low || v > high) return false;
  }
  return true;
}

}  // namespace

int64_t NpyArray::size() const {
  return item_bytes > 0 ? static_cast<int64_t>(data.size()) / item_bytes : 0;
}

std::string ToString(const NpyArray& a) {
  std::string bits = a.kind == 'b' ? "" : absl::StrCat(a.item_bytes * 8);
  return absl::StrCat(KindName(a.kind), bits, "[", absl::StrJoin(a.dims, ","), "]");
}

const NpyArray* NpzFile::Find(absl::string_view name) const {
  for (const Entry& e : entries) {
    if (e.name == name) return &e.array;
  }
  return nullptr;
}

std::optional<NpyArray> ParseNpy(absl::string_view bytes, const std::string& file,
                                 DiagSink* diags) {
  NpyArray array;
  bool unsupported;
  std::string error;
  if (ParseArray(bytes, &array, &unsupported, &error)) return array;
  Report(file, "", unsupported, error, diags);
  return std::nullopt;
}

std::optional<NpzFile> ParseNpz(absl::string_view bytes, const std::string& file, DiagSink* diags) {
  std::string error;
  auto members = ReadZip(bytes, &error);
  if (!members) {
    Report(file, "", false, error, diags);
    return std::nullopt;
  }
  NpzFile npz;
  for (const ZipMember& m : *members) {
    absl::string_view name = m.name;
    if (!absl::ConsumeSuffix(&name, ".npy")) continue;  // np.load skips them too
    NpzFile::Entry entry{std::string(name), {}};
    bool unsupported;
    if (!ParseArray(m.contents, &entry.array, &unsupported, &error)) {
      Report(file, name, unsupported, error, diags);
      return std::nullopt;
    }
    npz.entries.push_back(std::move(entry));
  }
  return npz;
}

std::optional<NpzFile> ReadArrays(const std::string& path, DiagSink* diags) {
  std::string bytes;
  if (!ReadFile(path, &bytes, diags)) return std::nullopt;
  if (LooksLikeZip(bytes)) return ParseNpz(bytes, path, diags);
  auto array = ParseNpy(bytes, path, diags);
  if (!array) return std::nullopt;
  NpzFile file;
  file.entries.push_back({"", std::move(*array)});
  return file;
}

std::string FormatNpy(const NpyArray& a) {
  char order = a.item_bytes == 1 ? '|' : '<';
  std::string shape = absl::StrJoin(a.dims, ", ");
  if (a.dims.size() == 1) shape += ",";
  std::string header =
      absl::StrCat("{'descr': '", std::string(1, order), std::string(1, a.kind), a.item_bytes,
                   "', 'fortran_order': False, 'shape': (", shape, "), }");
  // Magic, version, length and header end at a multiple of 64.
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  std::string out(kMagic);
  out += '\1';
  out += '\0';
  out += static_cast<char>(header.size() & 0xff);
  out += static_cast<char>(header.size() >> 8);
  out += header;
  out.append(reinterpret_cast<const char*>(a.data.data()), a.data.size());
  return out;
}

std::string FormatNpz(const NpzFile& file) {
  ZipWriter zip;
  for (const NpzFile::Entry& e : file.entries) {
    zip.Add(absl::StrCat(e.name, ".npy"), FormatNpy(e.array));
  }
  return zip.Finish();
}

std::optional<Literal> LiteralFromArray(const NpyArray& array, const Shape& shape,
                                        std::string* error) {
  std::string want = ToString(shape, /*with_layout=*/false);
  if (!shape.IsArray()) {
    *error = absl::StrCat("a value of shape ", want, " cannot come from an array");
    return std::nullopt;
  }
  if (!Accepts(shape.type, array)) {
    Stored s = StoredForm(shape.type);
    *error = absl::StrCat("the array is ", ToString(array), "; ", want, " is read from ",
                          KindName(s.kind), s.kind == 'b' ? "" : absl::StrCat(s.bytes * 8),
                          s.as_bits ? " (its bits)" : "");
    return std::nullopt;
  }
  if (!std::equal(array.dims.begin(), array.dims.end(), shape.dims.begin(), shape.dims.end())) {
    *error = absl::StrCat("the array is ", ToString(array), ", the program wants ", want);
    return std::nullopt;
  }
  Shape dense = shape;
  dense.layout.reset();
  Literal literal(std::move(dense));
  if (static_cast<int64_t>(array.data.size()) != literal.byte_size()) {
    *error = absl::StrCat("the array has ", array.data.size(), " bytes, ", want, " has ",
                          literal.byte_size());
    return std::nullopt;
  }
  std::copy(array.data.begin(), array.data.end(), literal.bytes());
  if (array.kind == 'V' && IsInteger(shape.type)) {  // raw sub-byte integers: the low bits count
    int spare = 8 - BitsOf(shape.type);
    for (int64_t i = 0; i < literal.byte_size(); ++i) {
      uint8_t top = static_cast<uint8_t>(literal.bytes()[i] << spare);
      literal.bytes()[i] = ClassOf(shape.type) == TypeClass::kSigned
                               ? static_cast<uint8_t>(static_cast<int8_t>(top) >> spare)
                               : top >> spare;
    }
  }
  if (shape.type == Type::kPred) {
    for (int64_t i = 0; i < literal.byte_size(); ++i) literal.bytes()[i] = literal.bytes()[i] != 0;
  }
  if (!InRange(shape.type, literal.bytes(), literal.byte_size())) {
    *error = absl::StrCat("the array has values that ", TypeName(shape.type), " cannot hold");
    return std::nullopt;
  }
  return literal;
}

NpyArray ArrayFromLiteral(const Literal& literal) {
  Stored s = StoredForm(literal.shape().type);
  NpyArray a;
  a.kind = s.kind;
  a.item_bytes = s.bytes;
  a.dims.assign(literal.shape().dims.begin(), literal.shape().dims.end());
  a.data.assign(literal.bytes(), literal.bytes() + literal.byte_size());
  return a;
}

}  // namespace tpuc
