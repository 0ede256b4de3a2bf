#include "src/ir/float_format.h"

namespace tpuc {

const num::FloatFormat* FloatFormatOf(Type type) {
  switch (type) {
    case Type::kF16:
      return &num::kF16Format;
    case Type::kBF16:
      return &num::kBF16Format;
    case Type::kF8E5M2:
      return &num::kF8E5M2Format;
    case Type::kF8E4M3:
      return &num::kF8E4M3Format;
    case Type::kF8E4M3FN:
      return &num::kF8E4M3FNFormat;
    case Type::kF8E4M3B11FNUZ:
      return &num::kF8E4M3B11FNUZFormat;
    case Type::kF8E3M4:
      return &num::kF8E3M4Format;
    case Type::kF8E5M2FNUZ:
      return &num::kF8E5M2FNUZFormat;
    case Type::kF8E4M3FNUZ:
      return &num::kF8E4M3FNUZFormat;
    case Type::kF6E3M2FN:
      return &num::kF6E3M2FNFormat;
    case Type::kF6E2M3FN:
      return &num::kF6E2M3FNFormat;
    case Type::kF4E2M1FN:
      return &num::kF4E2M1FNFormat;
    default:
      return nullptr;
  }
}

}  // namespace tpuc
