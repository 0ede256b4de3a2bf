// Sorting (sort.h): keys, radix passes, merges in lanes, and the final permutation of all operands.
#include "src/eval/sort.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "src/eval/index.h"
#include "src/eval/lanes.h"
#include "src/ir/native.h"
#include "src/ir/op_table.h"
#include "src/num/convert.h"

namespace tpuc {
namespace {

using Order = std::vector<int64_t>;  // element offsets, line after line

// All lines along `dimension`: offsets of their elements in order, one line after the other.
Order LinesOf(const Dims& dims, int64_t dimension) {
  int64_t inner = 1, outer = 1;
  for (int64_t d = 0; d < static_cast<int64_t>(dims.size()); ++d) {
    (d < dimension ? outer : inner) *= d == dimension ? 1 : dims[d];
  }
  const int64_t n = dims[dimension];
  Order order;
  order.reserve(outer * n * inner);
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < inner; ++i) {
      for (int64_t k = 0; k < n; ++k) order.push_back((o * n + k) * inner + i);
    }
  }
  return order;
}

// Unsigned integers in the order of the values: of floats, -NaN < -inf < ... < -0 < +0 < ... <
// +NaN, or with zeros equal and NaN last where `total` is false.
bool KeysOf(const Literal& x, bool total, std::vector<uint64_t>* keys) {
  const Type type = x.shape().type;
  keys->resize(x.size());
  constexpr uint64_t kTop = uint64_t{1} << 63;
  return VisitCompute(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int64_t i = 0; i < x.size(); ++i) {
      T value;
      Widen(type, x.bytes(), i, 1, &value);
      if constexpr (std::is_floating_point_v<T>) {
        if (!total && value == 0) value = 0;
        uint64_t bits;
        if constexpr (sizeof(T) == 4) {
          bits = static_cast<uint64_t>(num::BitsOfF32(value)) << 32;
        } else {
          bits = num::BitsOfF64(value);
        }
        if (!total && value != value) bits = kTop - 1;
        (*keys)[i] = bits & kTop ? ~bits : bits | kTop;
      } else if constexpr (std::is_signed_v<T>) {
        (*keys)[i] = static_cast<uint64_t>(static_cast<int64_t>(value)) ^ kTop;
      } else {
        (*keys)[i] = value;
      }
    }
  });
}

// Sorts places[0..n) by keys[place], stably: radix passes of 11 bits over the bits that differ.
void SortByKeys(const std::vector<uint64_t>& keys, int64_t* places, int64_t n) {
  constexpr int64_t kFew = 128;
  if (n <= kFew) {
    std::stable_sort(places, places + n, [&](int64_t a, int64_t b) { return keys[a] < keys[b]; });
    return;
  }
  struct Item {
    uint64_t key;
    int64_t place;
  };
  std::vector<Item> items(n), other(n);
  uint64_t any = 0, all = ~uint64_t{0};
  for (int64_t i = 0; i < n; ++i) {
    items[i] = {keys[places[i]], places[i]};
    any |= items[i].key;
    all &= items[i].key;
  }
  constexpr int kDigit = 11, kBuckets = 1 << kDigit;
  std::vector<int64_t> count(kBuckets);
  for (int shift = 0; shift < 64; shift += kDigit) {
    if (((any ^ all) >> shift & (kBuckets - 1)) == 0) continue;
    std::fill(count.begin(), count.end(), 0);
    for (const Item& item : items) ++count[item.key >> shift & (kBuckets - 1)];
    int64_t sum = 0;
    for (int64_t& c : count) sum += std::exchange(c, sum);
    for (const Item& item : items) other[count[item.key >> shift & (kBuckets - 1)]++] = item;
    items.swap(other);
  }
  for (int64_t i = 0; i < n; ++i) places[i] = items[i].place;
}

// Are `left` and `right` the same function, once of the left and once of the right parameters?
bool Mirrored(const Instruction* left, const Instruction* right,
              absl::flat_hash_set<std::pair<const Instruction*, const Instruction*>>* seen,
              int depth) {
  if (!seen->insert({left, right}).second) return true;
  if (depth > 1000 || left->op != right->op || !Compatible(left->shape, right->shape) ||
      left->operands.size() != right->operands.size()) {
    return false;
  }
  if (left->op == Op::kParameter) {
    return left->parameter_number % 2 == 0 && right->parameter_number == left->parameter_number + 1;
  }
  if (left->op == Op::kConstant) return left->literal->IdenticalTo(*right->literal);
  if (InfoOf(left->op).op_class != OpClass::kElementwise || left->op == Op::kMap) return false;
  for (AttrId id : {AttrId::kDirection, AttrId::kCompareType}) {
    if (left->StringAttr(id) != right->StringAttr(id)) return false;
  }
  if (left->op == Op::kReducePrecision) return false;
  for (size_t i = 0; i < left->operands.size(); ++i) {
    if (!Mirrored(left->operands[i], right->operands[i], seen, depth + 1)) return false;
  }
  return true;
}

// Keys of all elements, where the comparator is compare(f(left), f(right)).
bool ComparatorKeys(const Computation& comparator, absl::Span<const Literal* const> operands,
                    const EvalOptions& options, std::vector<uint64_t>* keys) {
  const Instruction& root = *comparator.root;
  const absl::string_view direction = root.StringAttr(AttrId::kDirection);
  if (root.op != Op::kCompare || direction == "EQ" || direction == "NE") return false;
  if (!root.operands[0]->shape.IsArray()) return false;
  absl::flat_hash_set<std::pair<const Instruction*, const Instruction*>> seen;
  const bool forward = Mirrored(root.operands[0], root.operands[1], &seen, 0);
  seen.clear();
  if (!forward && !Mirrored(root.operands[1], root.operands[0], &seen, 0)) return false;
  const Instruction* key = root.operands[forward ? 0 : 1];
  Literal values;
  if (key->op == Op::kParameter) {
    values = *operands[key->parameter_number / 2];
  } else {
    std::string error;
    auto program = LaneProgram::Make(comparator, &error, key);
    if (!program) return false;
    std::vector<const Literal*> arguments;
    std::vector<Literal> flat;
    for (const Literal* x : operands) {
      flat.push_back(*x);
      flat.back().Reinterpret(Shape::Array(x->shape().type, {x->size()}));
    }
    for (const Literal& x : flat) arguments.insert(arguments.end(), 2, &x);
    auto results = program->Run(operands[0]->size(), arguments, options, &error);
    if (!results) return false;
    values = std::move((*results)[0]);
  }
  if (!KeysOf(values, root.StringAttr(AttrId::kCompareType) == "TOTALORDER", keys)) return false;
  const bool less = direction == "LT" || direction == "LE";
  if (less != forward) {
    for (uint64_t& k : *keys) k = ~k;
  }
  return true;
}

struct Lanes {
  const LaneProgram& program;
  absl::Span<const Literal* const> operands;
  const EvalOptions& options;
  std::string* error;

  // less[i]: the element at a[i] comes before that at b[i].
  bool Less(const Order& a, const Order& b, std::vector<uint8_t>* less) const {
    constexpr int64_t kLanes = 8192;
    const int64_t count = static_cast<int64_t>(a.size());
    less->resize(count);
    for (int64_t first = 0; first < count; first += kLanes) {
      const int64_t n = std::min(kLanes, count - first);
      std::vector<Literal> lanes;
      for (const Literal* x : operands) {
        lanes.push_back(TakeElements(*x, &a[first], n));
        lanes.push_back(TakeElements(*x, &b[first], n));
      }
      std::vector<const Literal*> arguments;
      for (const Literal& x : lanes) arguments.push_back(&x);
      auto results = program.Run(n, arguments, options, error);
      if (!results) return false;
      std::copy_n((*results)[0].bytes(), n, less->data() + first);
    }
    return true;
  }
};

// Merges neighbouring sorted runs of `run` elements within lines of n: an element's place is its
// own rank plus the number of those of the other run that come before it (for the right run: or
// are equal).
bool MergeRuns(const Lanes& lanes, int64_t n, int64_t run, Order* order) {
  const int64_t count = static_cast<int64_t>(order->size());
  struct Search {
    int64_t low, high;  // in the other run, absolute
  };
  std::vector<Search> searches(count);
  const auto line_of = [n](int64_t i) { return i / n * n; };
  for (int64_t i = 0; i < count; ++i) {
    const int64_t line = line_of(i), block = line + (i - line) / (2 * run) * (2 * run);
    const int64_t middle = std::min(block + run, line + n),
                  end = std::min(block + 2 * run, line + n);
    searches[i] = i < middle ? Search{middle, end} : Search{block, middle};
  }
  Order a, b;
  std::vector<int64_t> active(count);
  std::iota(active.begin(), active.end(), 0);
  std::vector<uint8_t> less;
  while (true) {
    active.erase(std::remove_if(active.begin(), active.end(),
                                [&](int64_t i) { return searches[i].low >= searches[i].high; }),
                 active.end());
    if (active.empty()) break;
    a.clear();
    b.clear();
    for (int64_t i : active) {
      const int64_t middle = (searches[i].low + searches[i].high) / 2;
      const bool left = searches[i].low > i;
      // Left elements ask whether the other comes before; right ones whether they do themselves.
      a.push_back((*order)[left ? middle : i]);
      b.push_back((*order)[left ? i : middle]);
    }
    if (!lanes.Less(a, b, &less)) return false;
    for (size_t k = 0; k < active.size(); ++k) {
      Search& s = searches[active[k]];
      const int64_t middle = (s.low + s.high) / 2;
      const bool left = s.low > active[k];
      const bool before = left ? less[k] : !less[k];
      (before ? s.low : s.high) = before ? middle + 1 : middle;
    }
  }
  Order merged(count);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t line = line_of(i), block = line + (i - line) / (2 * run) * (2 * run);
    const int64_t middle = std::min(block + run, line + n);
    const int64_t place = i < middle ? i + (searches[i].low - middle)
                                     : block + (i - middle) + (searches[i].low - block);
    merged[place] = (*order)[i];
  }
  *order = std::move(merged);
  return true;
}

}  // namespace

bool EvalSort(const Instruction& in, absl::Span<const Literal* const> operands,
              const EvalOptions& options, absl::Span<Literal* const> outs, std::string* error) {
  const Computation& comparator = *in.ComputationAttr(AttrId::kToApply);
  const Dims& dims = operands[0]->shape().dims;
  if (operands[0]->size() == 0) return true;
  const int64_t dimension = in.IntsAttr(AttrId::kDimensions)[0], n = dims[dimension];
  const Order lines = LinesOf(dims, dimension);
  Order order = lines;
  std::vector<uint64_t> keys;
  if (ComparatorKeys(comparator, operands, options, &keys)) {
    const auto before = [&](int64_t a, int64_t b) { return keys[a] < keys[b]; };
    for (int64_t at = 0; at < static_cast<int64_t>(order.size()); at += n) {
      // An unstable sort leaves equal elements in any order; XLA's is std::sort's.
      const bool stable = in.BoolAttr(AttrId::kIsStable) || operands.size() == 1;
      if (stable) {
        SortByKeys(keys, &order[at], n);
      } else {
        std::sort(order.begin() + at, order.begin() + at + n, before);
      }
    }
  } else {
    std::optional<LaneProgram> program = LaneProgram::Make(comparator, error);
    if (!program) return false;
    const Lanes lanes{*program, operands, options, error};
    for (int64_t run = 1; run < n; run *= 2) {
      if (!MergeRuns(lanes, n, run, &order)) return false;
    }
  }
  const int64_t count = static_cast<int64_t>(order.size());
  for (size_t i = 0; i < outs.size(); ++i) {
    PutElements(TakeElements(*operands[i], order.data(), count), lines.data(), count, outs[i]);
  }
  return true;
}

bool EvalTopk(const Literal& operand, bool largest, Literal* values, Literal* indices,
              std::string* error) {
  std::vector<uint64_t> keys;
  if (!KeysOf(operand, /*total=*/true, &keys)) {
    *error = absl::StrCat("topk of ", TypeName(operand.shape().type));
    return false;
  }
  if (values->size() == 0) return true;
  if (largest) {
    for (uint64_t& k : keys) k = ~k;
  }
  const int64_t n = operand.shape().dims.back(), k = values->shape().dims.back();
  Order taken, places(n);
  for (int64_t line = 0; line < operand.size(); line += n) {
    std::iota(places.begin(), places.end(), line);
    const auto before = [&](int64_t a, int64_t b) {
      return keys[a] != keys[b] ? keys[a] < keys[b] : a < b;
    };
    std::partial_sort(places.begin(), places.begin() + k, places.end(), before);
    for (int64_t i = 0; i < k; ++i) {
      indices->data<int32_t>()[taken.size()] = static_cast<int32_t>(places[i] - line);
      taken.push_back(places[i]);
    }
  }
  const int64_t count = static_cast<int64_t>(taken.size());
  Literal found = TakeElements(operand, taken.data(), count);
  std::copy_n(found.bytes(), found.byte_size(), values->bytes());
  return true;
}

}  // namespace tpuc
