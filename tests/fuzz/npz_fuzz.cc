// Fuzzes the readers of .npy and .npz files: nothing crashes, damage is a diagnostic, and what is
// read can be written and read back as the same bytes.
#include <cstdint>
#include <cstdlib>

#include "src/io/npy.h"
#include "src/io/zip.h"

namespace {

void Fail() { std::abort(); }

void CheckArray(const tpuc::NpyArray& a) {
  tpuc::DiagSink diags;
  auto again = tpuc::ParseNpy(tpuc::FormatNpy(a), "again", &diags);
  if (!again || again->data != a.data || again->dims != a.dims) Fail();
  tpuc::Dims dims(a.dims.begin(), a.dims.end());
  for (tpuc::Type type :
       {tpuc::Type::kF32, tpuc::Type::kBF16, tpuc::Type::kS4, tpuc::Type::kPred}) {
    std::string error;
    bool small = a.data.size() < (1 << 20);
    if (small && !tpuc::LiteralFromArray(a, tpuc::Shape::Array(type, dims), &error) &&
        error.empty()) {
      Fail();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  tpuc::DiagSink diags;
  if (tpuc::LooksLikeZip(bytes)) {
    auto npz = tpuc::ParseNpz(bytes, "fuzz", &diags);
    if (npz.has_value() == diags.has_errors()) Fail();
    for (size_t i = 0; npz && i < npz->entries.size(); ++i) CheckArray(npz->entries[i].array);
  } else {
    auto npy = tpuc::ParseNpy(bytes, "fuzz", &diags);
    if (npy.has_value() == diags.has_errors()) Fail();
    if (npy) CheckArray(*npy);
  }
  diags.Render();
  return 0;
}
