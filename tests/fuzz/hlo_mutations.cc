// Stands in for libFuzzer where there is none: each file of the folders named on the command line,
// and `--mutations N` changed forms of it (hlo_mutator.h, seeds 0 .. N-1), through the fuzz target.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "tests/fuzz/hlo_mutator.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

constexpr size_t kMostText = 20000;

void Try(const std::string& text) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(text.data()), text.size());
}

}  // namespace

int main(int argc, char** argv) {
  std::set<std::string> files;
  uint64_t mutations = 0;
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "--mutations" && i + 1 < argc) {
      mutations = std::strtoull(argv[++i], nullptr, 10);
    } else if (std::filesystem::is_regular_file(argv[i])) {
      files.insert(argv[i]);
    } else if (std::filesystem::is_directory(argv[i])) {
      for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[i])) {
        if (entry.is_regular_file()) files.insert(entry.path().string());
      }
    }
  }
  uint64_t inputs = 0;
  for (const std::string& file : files) {
    std::ifstream in(file, std::ios::binary);
    std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    if (text.size() > kMostText || text.find("HloModule") == std::string::npos) continue;
    std::fprintf(stderr, "%s\n", file.c_str());  // the last line names the input of a crash
    Try(text);
    for (uint64_t seed = 0; seed < mutations; ++seed) {
      std::string changed = text;
      for (uint64_t k = 0; k <= seed % 3; ++k) changed = tpuc::MutateHlo(changed, seed * 3 + k);
      Try(changed);
    }
    inputs += 1 + mutations;
  }
  std::printf("%llu inputs\n", static_cast<unsigned long long>(inputs));
  return 0;
}
