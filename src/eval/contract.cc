// The product behind all contractions, and dot (contract.h): the blocked product of gemm.h, or
// plain loops for integers, complex values and products too small to pack.
#include "src/eval/contract.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "src/eval/attrs.h"
#include "src/eval/elementwise.h"
#include "src/eval/gemm.h"
#include "src/eval/narrow_product.h"
#include "src/eval/strided.h"
#include "src/ir/native.h"
#include "src/num/convert.h"

namespace tpuc {
namespace {

// The operand in the compute type of the result; the literal's own bytes where they serve.
template <typename T>
const T* Values(const Literal& x, Type result, bool round, std::vector<T>* own) {
  const Type type = x.shape().type;
  round = round && type == Type::kF32;
  if (type == result && IsNative(type) && !round) return x.data<T>();
  if (IsFloat(type) && !IsFloat(result) && ClassOf(result) != TypeClass::kComplex) {
    // Saturates, as convert does.
    Literal converted(Shape::Array(result, x.shape().dims));
    std::string error;
    EvalConvert(x, &converted, &error);
    own->resize(x.size());
    if constexpr (std::is_arithmetic_v<T>)
      Widen(result, converted.bytes(), 0, x.size(), own->data());
    return own->data();
  }
  own->resize(x.size());
  VisitNumber(type, [&](auto tag) {
    using From = typename decltype(tag)::type;
    if constexpr (std::is_same_v<From, T>) {
      Widen(type, x.bytes(), 0, x.size(), own->data());
    } else {
      std::vector<From> wide(x.size());
      Widen(type, x.bytes(), 0, x.size(), wide.data());
      if constexpr (std::is_arithmetic_v<From> || kIsComplex<T>) {
        for (int64_t i = 0; i < x.size(); ++i) (*own)[i] = static_cast<T>(wide[i]);
      }
    }
  });
  if constexpr (std::is_same_v<T, float>) {
    if (round) {
      for (float& v : *own) v = num::RoundToBF16(v);
    }
  }
  return own->data();
}

// Few results of much depth that both operands hold in long runs (the gradient of a depthwise
// convolution's kernel), or columns of which panels would be mostly empty. No runs where it is not
// so.
std::vector<OffsetRun> DeepRuns(const Side& lhs, const Side& rhs) {
  constexpr size_t kFewResults = 64, kFewColumns = 12, kMostResults = 512, kDeep = 1024;
  const size_t depth = lhs.contract.size(), results = lhs.free.size() * rhs.free.size();
  const size_t most = rhs.free.size() <= kFewColumns ? kMostResults : kFewResults;
  if (results > most || depth < kDeep) return {};
  std::vector<OffsetRun> runs = CommonRuns(lhs.contract, rhs.contract);
  if (runs.size() * 6 > depth) return {};
  constexpr int64_t kNear = 1024;  // places that stay in the cache while all results take them
  std::vector<OffsetRun> parts;
  for (const OffsetRun& run : runs) {
    for (int64_t i = 0; i < run.count; i += kNear) {
      parts.push_back({run.first + i, std::min(kNear, run.count - i), run.step, run.other_step});
    }
  }
  return parts;
}

template <typename T>
void PlainProduct(const Side& lhs, const Side& rhs, const std::vector<OffsetRun>& runs, const T* a,
                  const T* b, T* c) {
  // Unsigned, so that overflow wraps.
  using U =
      typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, TypeTag<T>>::type;
  const int64_t n = static_cast<int64_t>(rhs.free.size());
  const bool long_runs = static_cast<int64_t>(runs.size()) * 4 <= n;
  std::vector<U> row(n);
  for (int64_t left : lhs.free) {
    std::fill(row.begin(), row.end(), U{0});
    for (size_t p = 0; p < lhs.contract.size(); ++p) {
      const U x = static_cast<U>(a[left + lhs.contract[p]]);
      const T* line = b + rhs.contract[p];
      if (long_runs) {
        for (const OffsetRun& run : runs) {
          const T* from = line + rhs.free[run.first];
          U* to = row.data() + run.first;
          for (int64_t j = 0; j < run.count; ++j) to[j] += x * static_cast<U>(from[j * run.step]);
        }
      } else {
        for (int64_t j = 0; j < n; ++j) row[j] += x * static_cast<U>(line[rhs.free[j]]);
      }
    }
    for (int64_t j = 0; j < n; ++j) *c++ = static_cast<T>(row[j]);
  }
}

template <typename T>
void Product(const Side& lhs, const Side& rhs, const std::vector<OffsetRun>& runs, const T* a,
             const T* b, T* c, PackedRows<T>* packed) {
  const int64_t m = static_cast<int64_t>(lhs.free.size());
  const int64_t n = static_cast<int64_t>(rhs.free.size());
  const int64_t k = static_cast<int64_t>(lhs.contract.size());
  if constexpr (std::is_floating_point_v<T>) {
    const Indexed<T> left{a, lhs.free.data(), lhs.contract.data()};
    const Indexed<T> right{b, rhs.contract.data(), rhs.free.data()};
    constexpr int64_t kTiny = 64, kSmall = 2048;  // multiplications not worth a table, panels
    constexpr int64_t kFewRows = 2, kLittleDepth = 64;
    if (m <= kFewRows && k <= kLittleDepth) {
      if (m * n * k > kTiny) return ShallowProduct(m, n, k, left, right, runs, c);
    } else if (m * n * k > kSmall) {
      return Gemm(m, n, k, left, right, c, packed);
    }
  }
  PlainProduct(lhs, rhs, runs, a, b, c);
}

// Products of integers of at most 16 bits and their sums stay below 2^53: the fast product serves.
bool ExactInF64(Type lhs, Type rhs, int64_t depth) {
  return IsInteger(lhs) && IsInteger(rhs) && BitsOf(lhs) <= 16 && BitsOf(rhs) <= 16 &&
         depth <= int64_t{1} << 20;
}

// Computes in T, the compute type of `type`, and stores in the type of *out.
template <typename T>
void DotAs(const Literal& lhs, const Literal& rhs, const Side& left, const Side& right, Type type,
           bool round, int64_t start, SideRuns* known, Literal* out) {
  const Type out_type = out->shape().type;
  std::vector<T> own_a, own_b;
  const T* a = Values<T>(lhs, type, round, &own_a);
  const T* b = Values<T>(rhs, type, round, &own_b);
  const int64_t size = static_cast<int64_t>(left.free.size() * right.free.size());
  const bool in_place = type == out_type && IsNative(type);
  std::vector<T> product(in_place ? 0 : size);
  const bool floats = std::is_floating_point_v<T> && IsFloat(type);
  SideRuns own_runs;
  if (known == nullptr) known = &own_runs;
  if (!known->found) {
    known->found = true;
    known->free = RunsOf(right.free);
    if (floats) known->contract = DeepRuns(left, right);
  }
  const std::vector<OffsetRun>&runs = known->free, &deep = known->contract;
  PackedRows<T> packed;  // weights of a convolution are those of every image
  for (size_t i = 0; i < left.batch.size(); ++i) {
    const int64_t first = start + static_cast<int64_t>(i) * size;
    T* c = in_place ? out->data<T>() + first : product.data();
    if (i > 0 && left.batch[i] != left.batch[i - 1]) packed.filled = false;
    const T *from_a = a + left.batch[i], *from_b = b + right.batch[i];
    if (!deep.empty()) {
      if constexpr (std::is_floating_point_v<T>) {
        DeepProduct(static_cast<int64_t>(left.free.size()), static_cast<int64_t>(right.free.size()),
                    {from_a, left.free.data(), left.contract.data()},
                    {from_b, right.contract.data(), right.free.data()}, deep, c);
      }
    } else {
      Product(left, right, runs, from_a, from_b, c, left.batch.size() > 1 ? &packed : nullptr);
    }
    if (in_place) continue;
    if (type == out_type) {
      Narrow(type, c, size, out->bytes(), first);
    } else if constexpr (!kIsComplex<T>) {  // exact integers held in f64
      VisitCompute(out_type, [&](auto tag) {
        using To = typename decltype(tag)::type;
        for (int64_t j = 0; j < size; ++j) {
          const To value = static_cast<To>(static_cast<int64_t>(c[j]));
          Narrow(out_type, &value, 1, out->bytes(), first + j);
        }
      });
    }
  }
}

}  // namespace

bool RoundsToBF16(absl::Span<const Attr> attrs, const EvalOptions& options) {
  if (options.numbers != Numbers::kChip) return false;
  if (const auto* words = FindAttr<std::vector<std::string>>(attrs, AttrId::kOperandPrecision)) {
    for (const std::string& word : *words) {
      if (word != "default") return false;
    }
  }
  const absl::string_view algorithm = WordOf(attrs, AttrId::kAlgorithm);
  return algorithm.empty() || algorithm == "dot_any_f8_any_f8_f32" ||
         algorithm == "dot_bf16_bf16_f32" || algorithm == "unset";
}

void AddContract(const Literal& lhs, const Literal& rhs, const Side& left, const Side& right,
                 Literal* out) {
  VisitCompute(out->shape().type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_floating_point_v<T>) {
      Gemm(static_cast<int64_t>(left.free.size()), static_cast<int64_t>(right.free.size()),
           static_cast<int64_t>(left.contract.size()),
           {lhs.data<T>(), left.free.data(), left.contract.data()},
           {rhs.data<T>(), right.contract.data(), right.free.data()}, out->data<T>(), nullptr,
           /*add=*/true);
    }
  });
}

Side SideOf(const Dims& dims, const Ints& batch_dims, const Ints& contract_dims) {
  Ints free_dims;
  for (int64_t d = 0; d < static_cast<int64_t>(dims.size()); ++d) {
    const auto has = [d](const Ints& list) {
      return std::find(list.begin(), list.end(), d) != list.end();
    };
    if (!has(batch_dims) && !has(contract_dims)) free_dims.push_back(d);
  }
  return {IndexOffsets(dims, batch_dims), IndexOffsets(dims, free_dims),
          IndexOffsets(dims, contract_dims)};
}

bool Contract(const Literal& lhs, const Literal& rhs, const Side& left, const Side& right,
              bool round, Literal* out, std::string* error, int64_t start, SideRuns* runs) {
  const Type type = out->shape().type;
  const auto real = [](const Literal& x) { return ClassOf(x.shape().type) != TypeClass::kComplex; };
  const auto number = [](const Literal& x) { return x.shape().IsArray(); };
  if (!number(lhs) || !number(rhs) || !number(*out) || (real(*out) && (!real(lhs) || !real(rhs)))) {
    *error = absl::StrCat("a contraction of ", TypeName(lhs.shape().type), " and ",
                          TypeName(rhs.shape().type), " to ", TypeName(type));
    return false;
  }
  if (out->size() == 0) return true;
  const int64_t depth = static_cast<int64_t>(left.contract.size());
  if (IsInteger(type) && ExactInF64(lhs.shape().type, rhs.shape().type, depth)) {
    DotAs<double>(lhs, rhs, left, right, Type::kF64, round, start, runs, out);
    return true;
  }
  return VisitNumber(type, [&](auto tag) {
    DotAs<typename decltype(tag)::type>(lhs, rhs, left, right, type, round, start, runs, out);
  });
}

bool EvalDot(const Literal& lhs, const Literal& rhs, absl::Span<const Attr> attrs,
             const EvalOptions& options, Literal* out, std::string* error) {
  const Side left = SideOf(lhs.shape().dims, IntsOf(attrs, AttrId::kLhsBatchDims),
                           IntsOf(attrs, AttrId::kLhsContractingDims));
  const Side right = SideOf(rhs.shape().dims, IntsOf(attrs, AttrId::kRhsBatchDims),
                            IntsOf(attrs, AttrId::kRhsContractingDims));
  return Contract(lhs, rhs, left, right, RoundsToBF16(attrs, options), out, error);
}

}  // namespace tpuc
