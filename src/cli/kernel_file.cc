#include "src/cli/kernel_file.h"

#include "absl/strings/str_cat.h"
#include "grammar/kernel/parser.h"
#include "src/io/npy.h"

namespace tpuc::cli {

std::string PathBeside(const Source* source, const std::string& file) {
  const size_t slash = source ? source->name.rfind('/') : std::string::npos;
  if (file.substr(0, 1) == "/" || slash == std::string::npos) return file;
  return source->name.substr(0, slash + 1) + file;
}

std::unique_ptr<kernel::Program> ReadKernels(
    std::shared_ptr<const Source> source, const std::vector<std::pair<std::string, int64_t>>& set,
    const std::vector<std::pair<std::string, std::string>>& words, DiagSink* diags) {
  const ArrayReader read = [&](const std::string& file, const Shape& shape,
                               std::string* error) -> std::optional<Literal> {
    const std::string path = PathBeside(source.get(), file);
    const std::optional<NpzFile> arrays = ReadArrays(path, diags);
    if (arrays && arrays->entries.size() == 1) {
      return LiteralFromArray(arrays->entries[0].array, shape, error);
    }
    *error = arrays ? absl::StrCat(path, " holds ", arrays->entries.size(), " arrays, not one")
                    : absl::StrCat(path, " is not read");
    return std::nullopt;
  };
  return ParseKernels(source, set, diags, words, read);
}

}  // namespace tpuc::cli
