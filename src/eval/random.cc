// Threefry-2x32 (20 rounds), Philox-4x32 (10 rounds) and what rng makes of them (random.h).
#include "src/eval/random.h"

#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "src/ir/native.h"

namespace tpuc {
namespace {

using U2 = std::array<uint32_t, 2>;
using U4 = std::array<uint32_t, 4>;

U2 Split(uint64_t x) { return {static_cast<uint32_t>(x), static_cast<uint32_t>(x >> 32)}; }
uint64_t Join(uint32_t low, uint32_t high) { return uint64_t{high} << 32 | low; }

U2 Threefry(U2 x, U2 key) {
  constexpr int kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  const uint32_t keys[3] = {key[0], key[1], key[0] ^ key[1] ^ 0x1BD11BDA};
  x[0] += keys[0];
  x[1] += keys[1];
  for (uint32_t group = 0; group < 5; ++group) {
    for (int rotation : kRotations[group % 2]) {
      x[0] += x[1];
      x[1] = (x[1] << rotation | x[1] >> (32 - rotation)) ^ x[0];
    }
    x[0] += keys[(group + 1) % 3];
    x[1] += keys[(group + 2) % 3] + group + 1;
  }
  return x;
}

U4 Philox(U4 x, U2 key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{x[0]} * 0xD2511F53, b = uint64_t{x[2]} * 0xCD9E8D57;
    x = {static_cast<uint32_t>(b >> 32) ^ x[1] ^ key[0], static_cast<uint32_t>(b),
         static_cast<uint32_t>(a >> 32) ^ x[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return x;
}

// Philox in counter mode: 32-bit words of counters (low, high), +1, +2 ...
struct PhiloxStream {
  uint64_t key, low, high;
  U4 Block(int64_t i) const {
    const uint64_t sum = low + static_cast<uint64_t>(i);
    const U2 a = Split(sum), b = Split(high + (sum < low ? 1 : 0));
    return Philox({a[0], a[1], b[0], b[1]}, Split(key));
  }
};

void StorePhilox(const PhiloxStream& stream, Literal* bits) {
  const int64_t n = bits->size(), width = LiteralBytesOf(bits->shape().type);
  const int64_t words = width == 8 ? 2 : 1, block = 4 / words;
  for (int64_t first = 0, b = 0; first < n; first += block, ++b) {
    const U4 x = stream.Block(b);
    for (int64_t i = 0; i < std::min(block, n - first); ++i) {
      const uint64_t value = words == 2 ? Join(x[2 * i], x[2 * i + 1]) : x[i];
      std::memcpy(bits->bytes() + (first + i) * width, &value, width);
    }
  }
}

// The dimension that is cut in half, so that each cipher block gives two results: the first even
// one, else the largest.
size_t SplitDimension(const Dims& dims) {
  size_t largest = 0;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] % 2 == 0) return d;
    if (dims[d] > dims[largest]) largest = d;
  }
  return largest;
}

// Returns how many counters were used.
uint64_t StoreThreefry(uint64_t key, uint64_t counter, Literal* bits) {
  const int64_t n = bits->size(), width = LiteralBytesOf(bits->shape().type);
  const auto put = [&](int64_t i, uint64_t value) {
    std::memcpy(bits->bytes() + i * width, &value, width);
  };
  if (width == 8) {
    for (int64_t i = 0; i < n; ++i) {
      const U2 x = Threefry(Split(counter + static_cast<uint64_t>(i)), Split(key));
      put(i, Join(x[0], x[1]));
    }
    return static_cast<uint64_t>(n);
  }
  if (n == 0) return 0;
  Dims dims = bits->shape().dims;
  if (dims.empty()) dims.push_back(1);
  const size_t split = SplitDimension(dims);
  int64_t inner = 1;
  for (size_t d = split + 1; d < dims.size(); ++d) inner *= dims[d];
  const int64_t size = dims[split], half = (size + 1) / 2;
  const int64_t outer = size == 0 ? 0 : n / (size * inner);
  const int64_t count = outer * half * inner;
  for (int64_t i = 0; i < count; ++i) {
    const U2 x = Threefry(Split(counter + static_cast<uint64_t>(i)), Split(key));
    const int64_t o = i / (half * inner), k = i / inner % half, rest = i % inner;
    for (int64_t part = 0; part < 2 && 2 * k + part < size; ++part) {
      put((o * size + 2 * k + part) * inner + rest, x[part]);
    }
  }
  return static_cast<uint64_t>(count);
}

std::vector<uint64_t> WordsOf(const Literal& state) {
  std::vector<uint64_t> words(state.byte_size() / 8);
  if (!words.empty()) std::memcpy(words.data(), state.bytes(), words.size() * 8);
  return words;
}

// A random integer below range; 0 stands for 2^64.
uint64_t Below(uint64_t draw, uint64_t range) { return range == 0 ? draw : draw % range; }

}  // namespace

bool EvalRngBitGenerator(const Literal& state, absl::string_view algorithm, Literal* new_state,
                         Literal* bits, std::string* error) {
  const Type type = bits->shape().type;
  std::vector<uint64_t> words = WordsOf(state);
  if (!IsInteger(type) || BitsOf(type) < 8 || words.size() < 2 || words.size() > 3) {
    *error = absl::StrCat("rng-bit-generator of ", ToString(bits->shape(), false), " from ",
                          ToString(state.shape(), false));
    return false;
  }
  if (absl::AsciiStrToLower(algorithm) == "rng_three_fry") {
    if (words.size() != 2) {
      *error = "Threefry with a state of other than 128 bits";
      return false;
    }
    words[1] += StoreThreefry(words[0], words[1], bits);
  } else {
    const bool wide = words.size() == 3;  // of two words, the counter's low half is 0's neighbour
    PhiloxStream stream{words[0], words[1], wide ? words[2] : words[0]};
    StorePhilox(stream, bits);
    const int64_t per_block = LiteralBytesOf(type) == 8 ? 2 : 4;
    const uint64_t used = static_cast<uint64_t>((bits->size() + per_block - 1) / per_block);
    const uint64_t low = stream.low + used;
    if (wide) words[2] += low < stream.low ? 1 : 0;
    words[1] = low;
  }
  std::memcpy(new_state->bytes(), words.data(), words.size() * 8);
  return true;
}

bool EvalRng(const Literal& a, const Literal& b, absl::string_view distribution, uint64_t key,
             Literal* out, std::string* error) {
  const Type type = out->shape().type;
  const bool normal = absl::AsciiStrToLower(distribution) == "rng_normal";
  if (normal && !IsFloat(type)) {
    *error = absl::StrCat("a normal rng of ", TypeName(type));
    return false;
  }
  const PhiloxStream stream{key, 0, 0};
  const auto unit = [](uint64_t draw) { return static_cast<double>(draw >> 11) * 0x1p-53; };
  const bool typed = VisitCompute(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T low, high;
    Widen(type, a.bytes(), 0, 1, &low);
    Widen(type, b.bytes(), 0, 1, &high);
    for (int64_t i = 0; i < out->size(); ++i) {
      const U4 x = stream.Block(i);
      const uint64_t draw = Join(x[0], x[1]), second = Join(x[2], x[3]);
      T value;
      if constexpr (std::is_floating_point_v<T>) {
        if (normal) {  // Box and Muller
          const double radius = std::sqrt(-2 * std::log(1 - unit(draw)));
          value =
              static_cast<T>(low + high * radius * std::cos(2 * std::acos(-1.0) * unit(second)));
        } else {
          value = static_cast<T>(low + (high - low) * static_cast<T>(unit(draw)));
          if (value >= high && high > low) value = low;  // rounded up to the open end
        }
      } else if (type == Type::kPred) {
        value = static_cast<T>(draw & 1);
      } else {
        const uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
        value = static_cast<T>(static_cast<uint64_t>(low) + Below(draw, range));
      }
      Narrow(type, &value, 1, out->bytes(), i);
    }
  });
  if (!typed) *error = absl::StrCat("rng of ", TypeName(type));
  return typed;
}

}  // namespace tpuc
