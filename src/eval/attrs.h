// Reading attributes of an operation that is given as a list of them (EvaluateOp has no
// Instruction). The types are those that hlo_attrs.def fixes.
#pragma once

#include <string>
#include <variant>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "src/ir/hlo.h"

namespace tpuc {

// The value held for `id`, or null where it is absent.
template <typename T>
const T* FindAttr(absl::Span<const Attr> attrs, AttrId id) {
  for (const Attr& attr : attrs) {
    if (attr.id == id) return std::get_if<T>(&attr.value);
  }
  return nullptr;
}

inline Ints IntsOf(absl::Span<const Attr> attrs, AttrId id) {
  const Ints* value = FindAttr<Ints>(attrs, id);
  return value ? *value : Ints{};
}
inline int64_t IntOf(absl::Span<const Attr> attrs, AttrId id, int64_t default_value = 0) {
  const int64_t* value = FindAttr<int64_t>(attrs, id);
  return value ? *value : default_value;
}
inline absl::string_view WordOf(absl::Span<const Attr> attrs, AttrId id) {
  const std::string* value = FindAttr<std::string>(attrs, id);
  return value ? absl::string_view(*value) : "";
}

}  // namespace tpuc
