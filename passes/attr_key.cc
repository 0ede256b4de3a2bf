// Text keys of attribute values (attr_key.h). Computations count by what they compute where that is
// a simple reduction, else by name.
#include "passes/attr_key.h"

#include <algorithm>

#include "absl/base/casts.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/ir/op_table.h"

namespace tpuc {
namespace {

std::string Key(const Ints& v) { return absl::StrJoin(v, ","); }
std::string Key(const std::string& v) { return v; }
std::string Key(const RawText& v) { return v.text; }
std::string Key(bool v) { return v ? "true" : "false"; }
std::string Key(int64_t v) { return absl::StrCat(v); }
std::string Key(double v) { return absl::StrCat(absl::Hex(absl::bit_cast<uint64_t>(v))); }
std::string Key(const DimLabels& v) { return absl::StrCat(v.lhs, "_", v.rhs, "_", v.output); }
std::string Key(const Shape& v) { return ToString(v); }
std::string Key(const WindowDim& d) {
  return absl::StrCat(d.size, ".", d.stride, ".", d.pad_low, ".", d.pad_high, ".", d.base_dilation,
                      ".", d.window_dilation, ".", d.reversed ? 1 : 0);
}
std::string Key(const PadDim& d) { return absl::StrCat(d.low, "_", d.high, "_", d.interior); }
std::string Key(const SliceDim& d) { return absl::StrCat(d.start, ":", d.limit, ":", d.stride); }
std::string Key(Computation* v) {
  Op op;
  if (SimpleReducer(*v, &op)) return absl::StrCat("reducer ", OpName(op));
  return v->name;
}
std::string Key(Instruction* v) { return v->name; }
std::string Key(const std::pair<std::string, std::string>& v) {
  return absl::StrCat(v.first, "=", v.second);
}
std::string Key(const std::shared_ptr<Literal>& v) {
  return std::string(reinterpret_cast<const char*>(v->bytes()), v->byte_size());
}
template <typename T>
std::string Key(const std::vector<T>& list) {
  std::string out;
  for (const T& item : list) absl::StrAppend(&out, Key(item), "|");
  return out;
}
std::string Key(const Window& v) { return Key(v.dims); }

}  // namespace

std::string ValueAttrsKey(const Instruction& i) {
  std::vector<const Attr*> attrs;
  for (const Attr& attr : i.attrs) {
    if (!IsCommonAttr(attr.id)) attrs.push_back(&attr);
  }
  std::sort(attrs.begin(), attrs.end(), [](auto* a, auto* b) { return a->id < b->id; });
  std::string out;
  for (const Attr* attr : attrs) {
    absl::StrAppend(&out, AttrName(attr->id), "=",
                    std::visit([](const auto& v) { return Key(v); }, attr->value), ";");
  }
  return out;
}

}  // namespace tpuc
