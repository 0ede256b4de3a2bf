// Masks and their tables (mask.h). A mask's condition is compiled to postfix code that works on
// ranges (to decide whole blocks) and on runs of columns (for the elements of mixed blocks).
#include "backend/kernel/mask.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "backend/kernel/expr.h"
#include "src/ir/native.h"

namespace tpuc::kernel {
namespace {

constexpr int64_t kMaxBlocks = int64_t{1} << 24;
constexpr int64_t kMaxElements = int64_t{1} << 31;  // of mixed blocks: a few seconds
constexpr int64_t kMaxPatternBytes = int64_t{1} << 31;
// Values stay far from overflow: s32 is what a body computes with.
constexpr int64_t kLimit = int64_t{1} << 40;

struct Range {
  int64_t low = 0, high = 0;
  bool exact() const { return low == high; }
};

int64_t Clamp(int64_t v) { return std::min(std::max(v, -kLimit), kLimit); }

// One step of the postfix code.
struct Step {
  Expr::Kind kind;
  int64_t value = 0;    // kConst, kAxis, kArray
  bool by_col = false;  // the result differs from column to column
};

int64_t Arithmetic(Expr::Kind kind, int64_t a, int64_t b, bool* ok) {
  switch (kind) {
    case Expr::Kind::kAdd:
      return a + b;
    case Expr::Kind::kSub:
      return a - b;
    case Expr::Kind::kMul:
      return Clamp(a * b);
    case Expr::Kind::kDiv:
      if (b == 0) *ok = false;
      return b == 0 ? 0 : a / b;
    case Expr::Kind::kCdiv:
      if (b <= 0) *ok = false;
      return b <= 0 ? 0 : (a + b - 1) / b;
    case Expr::Kind::kMod:
      if (b == 0) *ok = false;
      return b == 0 ? 0 : a % b;
    case Expr::Kind::kMin:
      return std::min(a, b);
    case Expr::Kind::kMax:
      return std::max(a, b);
    case Expr::Kind::kEq:
      return a == b;
    case Expr::Kind::kNe:
      return a != b;
    case Expr::Kind::kLt:
      return a < b;
    case Expr::Kind::kLe:
      return a <= b;
    case Expr::Kind::kGt:
      return a > b;
    case Expr::Kind::kGe:
      return a >= b;
    case Expr::Kind::kAnd:
      return a != 0 && b != 0;
    case Expr::Kind::kOr:
      return a != 0 || b != 0;
    default:
      *ok = false;
      return 0;
  }
}

// Whether a relation holds for all, none (0) or some (-1) pairs of two ranges.
int Holds(Expr::Kind kind, Range a, Range b) {
  switch (kind) {
    case Expr::Kind::kLt:
      return a.high < b.low ? 1 : a.low >= b.high ? 0 : -1;
    case Expr::Kind::kLe:
      return a.high <= b.low ? 1 : a.low > b.high ? 0 : -1;
    case Expr::Kind::kGt:
      return Holds(Expr::Kind::kLt, b, a);
    case Expr::Kind::kGe:
      return Holds(Expr::Kind::kLe, b, a);
    case Expr::Kind::kEq:
      return a.exact() && b.exact() && a.low == b.low ? 1
             : a.high < b.low || b.high < a.low       ? 0
                                                      : -1;
    default: {  // kNe
      const int equal = Holds(Expr::Kind::kEq, a, b);
      return equal < 0 ? -1 : 1 - equal;
    }
  }
}

Range Truth(int holds) { return holds < 0 ? Range{0, 1} : Range{holds, holds}; }
int TruthOf(Range r) { return r.low > 0 || r.high < 0 ? 1 : r.exact() ? 0 : -1; }

class Condition {
 public:
  Condition(const Expr& e, absl::Span<const Param> params, absl::Span<const Array> arrays)
      : params_(params), arrays_(arrays) {
    ok_ = Compile(e);
  }
  bool ok() const { return ok_; }

  // 1, 0: the same at all places with row and col in these ranges; -1: not known.
  int Decide(Range row, Range col) const;
  // The condition at `row` and columns first .. first + n - 1, as 0 and 1. False: no value.
  bool Evaluate(int64_t row, int64_t first, int64_t n, uint8_t* result);

 private:
  bool Compile(const Expr& e);
  static std::optional<Range> Combine(Expr::Kind kind, Range a, Range b);
  bool Elements(const Step& s, int64_t n, std::vector<char>* by_col, size_t* top);

  absl::Span<const Param> params_;
  absl::Span<const Array> arrays_;
  std::vector<Step> steps_;
  size_t depth_ = 0, most_ = 0;
  bool ok_ = true;
  std::vector<std::vector<int64_t>> stack_;
};

// What parameters decide is not looked at: chunk == 0 || row / chunk == col / chunk.
bool Condition::Compile(const Expr& e) {
  const auto known = [&](const Expr& x) {
    return UsesAxis(x) ? std::nullopt : EvaluateExpr(x, {params_});
  };
  if (e.kind == Expr::Kind::kAnd || e.kind == Expr::Kind::kOr) {
    const bool neutral = e.kind == Expr::Kind::kAnd;
    for (int i = 0; i < 2 && e.args.size() == 2; ++i) {
      const std::optional<int64_t> v = known(e.args[i]);
      if (!v) continue;
      return Compile((*v != 0) == neutral ? e.args[1 - i] : Expr::Const(!neutral));
    }
  }
  if (e.kind == Expr::Kind::kSelect && e.args.size() == 3) {
    if (const std::optional<int64_t> v = known(e.args[0])) return Compile(e.args[*v != 0 ? 1 : 2]);
  }
  Step step{e.kind, e.value, false};
  bool by_col = false;
  switch (e.kind) {
    case Expr::Kind::kConst:
      break;
    case Expr::Kind::kParam:
      if (e.value < 0 || e.value >= static_cast<int64_t>(params_.size())) return false;
      step = {Expr::Kind::kConst, params_[e.value].value, false};
      break;
    case Expr::Kind::kAxis:
      by_col = e.value == 1;
      break;
    case Expr::Kind::kNum:
    case Expr::Kind::kPrefetch:
    case Expr::Kind::kBlocks:
      return false;
    default: {
      if (e.kind == Expr::Kind::kArray &&
          (e.value < 0 || e.value >= static_cast<int64_t>(arrays_.size()))) {
        return false;
      }
      const size_t arity = e.kind == Expr::Kind::kNeg || e.kind == Expr::Kind::kNot ? 1
                           : e.kind == Expr::Kind::kArray  ? arrays_[e.value].shape.dims.size()
                           : e.kind == Expr::Kind::kSelect ? 3
                                                           : 2;
      if (e.args.size() != arity) return false;
      for (const Expr& a : e.args) {
        if (!Compile(a)) return false;
        by_col |= steps_.back().by_col;
      }
      depth_ -= arity;
      break;
    }
  }
  if (step.kind == Expr::Kind::kConst && std::abs(step.value) > kLimit) return false;
  step.by_col = by_col;
  steps_.push_back(step);
  most_ = std::max(most_, ++depth_);
  stack_.resize(most_);
  return true;
}

std::optional<Range> Condition::Combine(Expr::Kind kind, Range a, Range b) {
  switch (kind) {
    case Expr::Kind::kAdd:
      return Range{a.low + b.low, a.high + b.high};
    case Expr::Kind::kSub:
      return Range{a.low - b.high, a.high - b.low};
    case Expr::Kind::kMin:
      return Range{std::min(a.low, b.low), std::min(a.high, b.high)};
    case Expr::Kind::kMax:
      return Range{std::max(a.low, b.low), std::max(a.high, b.high)};
    case Expr::Kind::kMul:
    case Expr::Kind::kDiv:
    case Expr::Kind::kCdiv: {
      if (kind != Expr::Kind::kMul && b.low <= 0) return std::nullopt;
      bool ok = true;
      const auto [low, high] = std::minmax(
          {Arithmetic(kind, a.low, b.low, &ok), Arithmetic(kind, a.low, b.high, &ok),
           Arithmetic(kind, a.high, b.low, &ok), Arithmetic(kind, a.high, b.high, &ok)});
      return Range{low, high};
    }
    case Expr::Kind::kMod:
      if (!b.exact() || b.low <= 0 || a.low < 0) return std::nullopt;
      if (a.low / b.low == a.high / b.low) return Range{a.low % b.low, a.high % b.low};
      return Range{0, b.low - 1};
    case Expr::Kind::kAnd: {
      const int x = TruthOf(a), y = TruthOf(b);
      return Truth(x == 0 || y == 0 ? 0 : x == 1 && y == 1 ? 1 : -1);
    }
    case Expr::Kind::kOr: {
      const int x = TruthOf(a), y = TruthOf(b);
      return Truth(x == 1 || y == 1 ? 1 : x == 0 && y == 0 ? 0 : -1);
    }
    default:
      return Truth(Holds(kind, a, b));
  }
}

int Condition::Decide(Range row, Range col) const {
  std::vector<Range> stack;
  for (const Step& s : steps_) {
    const size_t n = stack.size();
    if (s.kind == Expr::Kind::kConst) {
      stack.push_back({s.value, s.value});
    } else if (s.kind == Expr::Kind::kAxis) {
      stack.push_back(s.value == 0 ? row : col);
    } else if (s.kind == Expr::Kind::kNeg) {
      stack[n - 1] = {-stack[n - 1].high, -stack[n - 1].low};
    } else if (s.kind == Expr::Kind::kNot) {
      const int truth = TruthOf(stack[n - 1]);
      stack[n - 1] = Truth(truth < 0 ? -1 : 1 - truth);
    } else if (s.kind == Expr::Kind::kArray) {  // any value
      stack.resize(n - arrays_[s.value].shape.dims.size());
      stack.push_back({-kLimit, kLimit});
    } else if (s.kind == Expr::Kind::kSelect) {
      const int truth = TruthOf(stack[n - 3]);
      const Range a = stack[n - 2], b = stack[n - 1];
      stack.resize(n - 2);
      stack.back() = truth == 1   ? a
                     : truth == 0 ? b
                                  : Range{std::min(a.low, b.low), std::max(a.high, b.high)};
    } else {
      const std::optional<Range> r = Combine(s.kind, stack[n - 2], stack[n - 1]);
      if (!r) return -1;
      stack.pop_back();
      stack.back() = {Clamp(r->low), Clamp(r->high)};
    }
  }
  return TruthOf(stack.back());
}

bool Condition::Evaluate(int64_t row, int64_t first, int64_t n, uint8_t* result) {
  bool ok = true;
  size_t top = 0;
  // What is the same in all columns is a run of one.
  const auto length = [&](bool by_col) { return by_col ? n : 1; };
  std::vector<char> by_col(most_ + 1, 0);
  for (const Step& s : steps_) {
    if (s.kind == Expr::Kind::kConst || s.kind == Expr::Kind::kAxis) {
      std::vector<int64_t>& v = stack_[top];
      v.resize(n);
      by_col[top++] = s.by_col;
      if (s.kind == Expr::Kind::kConst || s.value == 0) {
        v[0] = s.kind == Expr::Kind::kConst ? s.value : row;
      } else {
        for (int64_t i = 0; i < n; ++i) v[i] = first + i;
      }
      continue;
    }
    if (s.kind == Expr::Kind::kNeg || s.kind == Expr::Kind::kNot) {
      std::vector<int64_t>& v = stack_[top - 1];
      const bool negate = s.kind == Expr::Kind::kNeg;
      for (int64_t i = 0; i < length(by_col[top - 1]); ++i) v[i] = negate ? -v[i] : v[i] == 0;
      continue;
    }
    if (s.kind == Expr::Kind::kArray) {
      if (!Elements(s, n, &by_col, &top)) return false;
      continue;
    }
    if (s.kind == Expr::Kind::kSelect) {
      std::vector<int64_t>&c = stack_[top - 3], &a = stack_[top - 2], &b = stack_[top - 1];
      const int64_t cs = by_col[top - 3], as = by_col[top - 2], bs = by_col[top - 1];
      const int64_t to = length(s.by_col);
      for (int64_t i = to; i-- > 0;) c[i] = c[i * cs] != 0 ? a[i * as] : b[i * bs];
      top -= 2;
      by_col[top - 1] = s.by_col;
      continue;
    }
    std::vector<int64_t>&a = stack_[top - 2], &b = stack_[top - 1];
    const int64_t as = by_col[top - 2], bs = by_col[top - 1];
    const int64_t to = length(s.by_col);
    const auto each = [&](auto f) {  // from the end: a run of one is its own first element
      for (int64_t i = to; i-- > 0;) a[i] = f(a[i * as], b[i * bs]);
    };
    switch (s.kind) {
      case Expr::Kind::kAdd:
        each([](int64_t x, int64_t y) { return x + y; });
        break;
      case Expr::Kind::kSub:
        each([](int64_t x, int64_t y) { return x - y; });
        break;
      case Expr::Kind::kLe:
        each([](int64_t x, int64_t y) { return x <= y; });
        break;
      case Expr::Kind::kGe:
        each([](int64_t x, int64_t y) { return x >= y; });
        break;
      case Expr::Kind::kAnd:
        each([](int64_t x, int64_t y) { return x != 0 && y != 0; });
        break;
      default:
        each([&](int64_t x, int64_t y) { return Arithmetic(s.kind, x, y, &ok); });
        break;
    }
    --top;
    by_col[top - 1] = s.by_col;
  }
  const int64_t stride = by_col[0];
  for (int64_t i = 0; i < n; ++i) result[i] = stack_[0][i * stride] != 0;
  return ok;
}

// An element of an array in each column; its indices lie on the stack, the last on top.
bool Condition::Elements(const Step& s, int64_t n, std::vector<char>* by_col, size_t* top) {
  const Array& array = arrays_[s.value];
  const Dims& dims = array.shape.dims;
  *top -= dims.size();
  if (stack_.size() <= *top) stack_.resize(*top + 1);
  std::vector<int64_t> result(n);
  const int64_t to = s.by_col ? n : 1;
  for (int64_t i = 0; i < to; ++i) {
    int64_t at = 0;
    for (size_t d = 0; d < dims.size(); ++d) {
      const int64_t index = stack_[*top + d][(*by_col)[*top + d] ? i : 0];
      if (index < 0 || index >= dims[d]) return false;
      at = at * dims[d] + index;
    }
    result[i] = ElementAsInt(array.shape.type, array.values->bytes(), at);
  }
  stack_[*top] = std::move(result);
  (*by_col)[(*top)++] = s.by_col;
  return true;
}

class TableMaker {
 public:
  TableMaker(const Mask& mask, absl::Span<const Param> params, absl::Span<const Array> arrays,
             BlockTables* tables, MaskProblem* problem)
      : mask_(mask), condition_(mask.value, params, arrays), t_(*tables), problem_(*problem) {}
  bool Run();

 private:
  bool Mixed(int64_t i, int64_t j);
  bool CheckRows(int64_t i);
  bool Refuse(std::string message) {
    problem_.message = std::move(message);
    return false;
  }

  const Mask& mask_;
  Condition condition_;
  BlockTables& t_;
  MaskProblem& problem_;
  std::vector<uint8_t> seen_;  // of the block row at work: rows that have a column
  std::vector<uint8_t> block_;
  absl::flat_hash_map<std::string, int32_t> known_;  // content of a mixed block -> pattern
  int64_t elements_ = 0;
};

// Classifies a block that ranges do not decide.
bool TableMaker::Mixed(int64_t i, int64_t j) {
  const int64_t r = t_.block_rows, c = t_.block_cols;
  elements_ += r * c;
  if (elements_ > kMaxElements) {
    return Refuse(absl::StrCat("more than ", kMaxElements,
                               " elements lie in blocks that are neither full nor empty"));
  }
  block_.assign(r * c, 0);
  const int64_t rows = std::min(r, mask_.rows - i * r), cols = std::min(c, mask_.cols - j * c);
  int64_t set = 0;
  for (int64_t y = 0; y < rows; ++y) {
    uint8_t* row = block_.data() + y * c;
    if (!condition_.Evaluate(i * r + y, j * c, cols, row)) {
      return Refuse(absl::StrCat("no value in row ", i * r + y, ", columns from ", j * c));
    }
    int64_t in_row = 0;
    for (int64_t x = 0; x < c; ++x) in_row += row[x];
    if (in_row > 0) seen_[y] = 1;
    set += in_row;
  }
  const int64_t block = i * t_.cols + j;
  t_.kind[block] = set == 0 ? 0 : set == rows * c ? 2 : 1;
  if (t_.kind[block] != 1) return true;
  std::string content((r * c + 7) / 8, '\0');
  for (int64_t e = 0; e < r * c; ++e) {
    content[e / 8] = static_cast<char>(content[e / 8] | block_[e] << (e % 8));
  }
  const auto [it, added] =
      known_.try_emplace(std::move(content), static_cast<int32_t>(t_.patterns.size()));
  t_.pattern[block] = it->second;
  if (!added) return true;
  if (static_cast<int64_t>(t_.patterns.size() + 1) * r * c > kMaxPatternBytes) {
    return Refuse(absl::StrCat("more than ", t_.patterns.size(), " distinct mixed blocks"));
  }
  t_.patterns.push_back(block_);
  return true;
}

bool TableMaker::CheckRows(int64_t i) {
  for (int64_t y = 0; y < std::min(t_.block_rows, mask_.rows - i * t_.block_rows); ++y) {
    if (seen_[y]) continue;
    if (problem_.rows++ == 0) problem_.row = i * t_.block_rows + y;
  }
  return true;
}

bool TableMaker::Run() {
  if (!condition_.ok()) return Refuse("not a condition on row, column and parameters");
  if (t_.rows > kMaxBlocks || t_.cols > kMaxBlocks || t_.rows * t_.cols > kMaxBlocks) {
    return Refuse(absl::StrCat(t_.rows, " x ", t_.cols, " blocks; at most ", kMaxBlocks));
  }
  t_.kind.assign(t_.rows * t_.cols, 0);
  t_.pattern.assign(t_.rows * t_.cols, -1);
  for (int64_t i = 0; i < t_.rows; ++i) {
    seen_.assign(t_.block_rows, 0);
    int64_t active = 0;
    for (int64_t j = 0; j < t_.cols; ++j) {
      const int64_t row_end = std::min((i + 1) * t_.block_rows, mask_.rows);
      const int64_t col_end = std::min((j + 1) * t_.block_cols, mask_.cols);
      const int decided =
          condition_.Decide({i * t_.block_rows, row_end - 1}, {j * t_.block_cols, col_end - 1});
      const bool cut = col_end < (j + 1) * t_.block_cols;  // full is not: columns past the last
      uint8_t& kind = t_.kind[i * t_.cols + j];
      if (decided == 0 || (decided == 1 && !cut)) {
        kind = decided == 1 ? 2 : 0;
        if (kind == 2) seen_.assign(t_.block_rows, 1);
      } else if (!Mixed(i, j)) {
        return false;
      }
      if (kind == 0) continue;
      ++active;
      t_.active_row.push_back(static_cast<int32_t>(i));
      t_.active_col.push_back(static_cast<int32_t>(j));
    }
    t_.grid_width = std::max(t_.grid_width, active);
    CheckRows(i);
  }
  if (problem_.rows > 0) {
    problem_.empty_row = true;
    return false;
  }
  return true;
}

std::shared_ptr<Literal> S32(Dims dims, const std::vector<int32_t>& values) {
  auto l = std::make_shared<Literal>(Shape::Array(Type::kS32, std::move(dims)));
  std::copy(values.begin(), values.end(), l->data<int32_t>());
  return l;
}

// The block at or after `from` (row-major, going round) that `wanted` accepts; -1: none.
int64_t NextBlock(const BlockTables& t, int64_t from, uint8_t least, uint8_t most) {
  const int64_t n = t.rows * t.cols;
  for (int64_t k = 0; k < n; ++k) {
    const int64_t b = (from + k) % n;
    if (t.kind[b] >= least && t.kind[b] <= most) return b;
  }
  return -1;
}

// For each block the next accepted one at or after it, in one pass backwards (twice around).
std::vector<int64_t> NextOf(const BlockTables& t, uint8_t least, uint8_t most) {
  const int64_t n = t.rows * t.cols;
  std::vector<int64_t> next(n, -1);
  int64_t last = NextBlock(t, 0, least, most);
  for (int64_t b = n; b-- > 0;) {
    if (t.kind[b] >= least && t.kind[b] <= most) last = b;
    next[b] = last;
  }
  return next;
}

std::vector<int32_t> PerStep(const BlockTables& t, absl::string_view name) {
  std::vector<int32_t> v;
  const std::vector<int64_t> mixed = name == "next" ? NextOf(t, 1, 1) : std::vector<int64_t>();
  const size_t n = t.active_row.size();
  for (size_t s = 0; s < n; ++s) {
    const int64_t block = int64_t{t.active_row[s]} * t.cols + t.active_col[s];
    int32_t value = 0;
    if (name == "kind") {
      value = t.kind[block];
    } else if (name == "first") {
      value = s == 0 || t.active_row[s - 1] != t.active_row[s];
    } else if (name == "last") {
      value = s + 1 == n || t.active_row[s + 1] != t.active_row[s];
    } else if (mixed[block] >= 0) {
      value = t.pattern[mixed[block]];
    }
    v.push_back(value);
  }
  return v;
}

// Tables of the shrunk grid: [rows, grid_width].
std::vector<int32_t> Shrunk(const BlockTables& t, absl::string_view name) {
  const std::vector<int64_t> active = NextOf(t, 1, 2), mixed = NextOf(t, 1, 1);
  const int64_t n = t.rows * t.cols;
  std::vector<int32_t> v;
  for (int64_t i = 0; i < t.rows; ++i) {
    std::vector<int64_t> blocks;  // of the packed row; filled up with what comes after the row
    for (int64_t j = 0; j < t.cols; ++j) {
      if (t.kind[i * t.cols + j] != 0) blocks.push_back(i * t.cols + j);
    }
    const size_t own = blocks.size();
    blocks.resize(t.grid_width, (i + 1) * t.cols % n);
    for (size_t k = 0; k < blocks.size(); ++k) {
      const int64_t b = blocks[k];
      if (name == "block_mask") {
        v.push_back(k < own ? t.kind[b] : 0);
      } else if (name == "data_next") {
        v.push_back(active[b] < 0 ? 0 : static_cast<int32_t>(active[b] % t.cols));
      } else {
        v.push_back(mixed[b] < 0 ? 0 : t.pattern[mixed[b]]);
      }
    }
  }
  return v;
}

}  // namespace

absl::Span<const BlockCountRow> BlockCounts() {
  static constexpr BlockCountRow kRows[] = {
      {BlockCount::kActive, "active", "blocks that are not empty"},
      {BlockCount::kPatterns, "distinct", "distinct blocks that are neither empty nor full"},
      {BlockCount::kGridWidth, "grid_width", "the most active blocks of a block row"},
      {BlockCount::kRows, "rows", "block rows"},
      {BlockCount::kCols, "cols", "block columns"}};
  return kRows;
}

int64_t BlockTables::Count(int64_t count) const {
  switch (static_cast<BlockCount>(count)) {
    case BlockCount::kActive:
      return static_cast<int64_t>(active_row.size());
    case BlockCount::kPatterns:
      return static_cast<int64_t>(patterns.size());
    case BlockCount::kGridWidth:
      return grid_width;
    case BlockCount::kRows:
      return rows;
    case BlockCount::kCols:
      return cols;
  }
  return 0;
}

std::vector<absl::string_view> TableNames() {
  return {"row",  "col",      "kind",       "first",     "last",
          "next", "patterns", "block_mask", "data_next", "mask_next"};
}

std::shared_ptr<Literal> TableOf(const BlockTables& t, absl::string_view name) {
  const Dims steps = {static_cast<int64_t>(t.active_row.size())};
  if (name == "row") return S32(steps, t.active_row);
  if (name == "col") return S32(steps, t.active_col);
  if (name == "kind" || name == "first" || name == "last" || name == "next") {
    return S32(steps, PerStep(t, name));
  }
  if (name == "block_mask" || name == "data_next" || name == "mask_next") {
    return S32({t.rows, t.grid_width}, Shrunk(t, name));
  }
  if (name != "patterns") return nullptr;
  // A mask without mixed blocks still has an operand to point to.
  const int64_t n = std::max<int64_t>(1, static_cast<int64_t>(t.patterns.size()));
  auto l = std::make_shared<Literal>(Shape::Array(Type::kS8, {n, t.block_rows, t.block_cols}));
  std::fill_n(l->bytes(), l->byte_size(), 0);
  for (size_t p = 0; p < t.patterns.size(); ++p) {
    std::copy(t.patterns[p].begin(), t.patterns[p].end(),
              l->bytes() + p * t.block_rows * t.block_cols);
  }
  return l;
}

std::shared_ptr<const BlockTables> MakeTables(const Mask& mask, absl::Span<const Param> params,
                                              int64_t block_rows, int64_t block_cols,
                                              MaskProblem* problem,
                                              absl::Span<const Array> arrays) {
  auto tables = std::make_shared<BlockTables>();
  tables->rows = (mask.rows + block_rows - 1) / block_rows;
  tables->cols = (mask.cols + block_cols - 1) / block_cols;
  tables->block_rows = block_rows;
  tables->block_cols = block_cols;
  if (!TableMaker(mask, params, arrays, tables.get(), problem).Run()) return nullptr;
  return tables;
}

bool MaskAt(const Mask& mask, absl::Span<const Param> params, int64_t row, int64_t col, bool* value,
            absl::Span<const Array> arrays) {
  Condition condition(mask.value, params, arrays);
  uint8_t result = 0;
  if (!condition.ok() || !condition.Evaluate(row, col, 1, &result)) return false;
  *value = result != 0;
  return true;
}

}  // namespace tpuc::kernel
