// Text that many hold and nobody changes, such as the name of the file that a thousand
// instructions come from: copies share it.
//
//   SharedText a("model.py"), b = a;    one string
//
// It is never changed in place; another text is assigned. Empty text takes no memory of its own.
#pragma once

#include <memory>
#include <string>

#include "absl/strings/string_view.h"

namespace tpuc {

class SharedText {
 public:
  SharedText() = default;
  explicit SharedText(absl::string_view text)
      : text_(text.empty() ? nullptr : std::make_shared<const std::string>(text)) {}

  absl::string_view view() const { return text_ ? absl::string_view(*text_) : ""; }
  bool empty() const { return text_ == nullptr; }

 private:
  std::shared_ptr<const std::string> text_;
};

}  // namespace tpuc
