// reduce-window and select-and-scatter (window.h).
#include "src/eval/window.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "src/eval/elementwise.h"
#include "src/eval/index.h"
#include "src/eval/strided.h"

namespace tpuc {
namespace {

// Window numbers o and operand indices i with i = from.first + k * from.step for k < count.
struct Line {
  int64_t count = 0;
  int64_t window_first = 0, window_step = 1, operand_first = 0, operand_step = 1;
};

// Which windows see which elements at place w of the window, along one dimension of the operand:
// o * stride + w * window_dilation - pad_low = i * base_dilation.
Line LineOf(const WindowDim& dim, int64_t w, int64_t windows, int64_t size) {
  const int64_t shift = w * dim.window_dilation - dim.pad_low, dilation = dim.base_dilation;
  Line line;
  const int64_t common = std::gcd(dim.stride, dilation);
  line.window_step = dilation / common;
  line.operand_step = dim.stride / common;
  // The first window, at or after the operand's start, whose place is no gap.
  int64_t o = shift >= 0 ? 0 : (-shift + dim.stride - 1) / dim.stride;
  for (int64_t tries = 0; tries < line.window_step; ++tries, ++o) {
    if (o >= windows) return line;
    if ((o * dim.stride + shift) % dilation == 0) {
      line.window_first = o;
      line.operand_first = (o * dim.stride + shift) / dilation;
      if (line.operand_first >= size) return line;
      line.count = std::min((windows - 1 - o) / line.window_step,
                            (size - 1 - line.operand_first) / line.operand_step) +
                   1;
      return line;
    }
  }
  return line;
}

// Views of the operand and of the array of windows, for one place in the window.
struct Meeting {
  Dims dims;
  View operand, windows;
  bool all = true;  // every window, in order
  bool empty = false;
};

Meeting Meet(const Window& window, const Dims& place, const Dims& operand, const Dims& windows) {
  Meeting m;
  m.operand.strides = RowMajorStrides(operand);
  m.windows.strides = RowMajorStrides(windows);
  for (size_t d = 0; d < place.size(); ++d) {
    const Line line = LineOf(window.dims[d], place[d], windows[d], operand[d]);
    m.dims.push_back(line.count);
    m.empty |= line.count == 0;
    m.all &= line.count == windows[d];
    m.operand.offset += line.operand_first * m.operand.strides[d];
    m.operand.strides[d] *= line.operand_step;
    m.windows.offset += line.window_first * m.windows.strides[d];
    m.windows.strides[d] *= line.window_step;
  }
  return m;
}

// The view as an array of its own.
Literal Packed(const Literal& x, const Dims& dims, const View& view) {
  Literal packed(Shape::Array(x.shape().type, dims));
  CopyStrided(dims, x.bytes(), view, packed.bytes(), {0, RowMajorStrides(dims)},
              LiteralBytesOf(x.shape().type));
  return packed;
}
void Unpack(const Literal& packed, const View& view, Literal* x) {
  CopyStrided(packed.shape().dims, packed.bytes(), {0, RowMajorStrides(packed.shape().dims)},
              x->bytes(), view, LiteralBytesOf(x->shape().type));
}

// Places that windows have; more than this would take hours.
bool PlacesFit(const Window& window, std::string* error) {
  constexpr double kMost = 1e9;
  double places = 1;
  for (const WindowDim& dim : window.dims) places *= static_cast<double>(dim.size);
  if (places <= kMost) return true;
  *error = absl::StrCat("a window of ", places, " places");
  return false;
}

// Calls f(place, meeting) for every place of the window that meets the operand, row major.
template <typename F>
bool ForPlaces(const Window& window, const Dims& operand, const Dims& windows, F&& f) {
  Dims place(window.dims.size(), 0);
  while (true) {
    const Meeting meeting = Meet(window, place, operand, windows);
    if (!meeting.empty && !f(meeting)) return false;
    size_t d = place.size();
    while (d > 0 && ++place[d - 1] == window.dims[d - 1].size) place[--d] = 0;
    if (d == 0) return true;
  }
}

const Window& WindowOf(const Instruction& in) {
  static const Window* none = new Window;
  const AttrValue* value = in.Find(AttrId::kWindow);
  return value ? std::get<Window>(*value) : *none;
}

}  // namespace

std::optional<Combiner> Combiner::Make(const Computation& computation, size_t count,
                                       std::string* error) {
  Op simple;
  if (count == 1 && SimpleReducer(computation, &simple)) return Combiner(simple);
  Combiner combiner;
  combiner.program_ = LaneProgram::Make(computation, error);
  if (!combiner.program_) return std::nullopt;
  return combiner;
}

bool Combiner::Run(absl::Span<Literal> acc, absl::Span<const Literal> x, const EvalOptions& options,
                   std::string* error) const {
  if (simple_) {
    Literal converted;
    const Literal* operands[] = {&acc[0], &x[0]};
    if (x[0].shape().type != acc[0].shape().type) {
      converted = Literal(Shape::Array(acc[0].shape().type, x[0].shape().dims));
      if (!EvalElementwise(Op::kConvert, {&operands[1], 1}, {}, &converted, error)) return false;
      operands[1] = &converted;
    }
    return EvalElementwise(*simple_, operands, {}, &acc[0], error);
  }
  std::vector<const Literal*> arguments;
  std::vector<Literal*> outs;
  for (Literal& a : acc) {
    arguments.push_back(&a);
    outs.push_back(&a);
  }
  for (const Literal& b : x) arguments.push_back(&b);
  return program_->RunInto(arguments, outs, options, error);
}

std::optional<Literal> StartAs(Type type, const Literal& init, std::string* error) {
  if (init.shape().type == type) return init;
  Literal start(Shape::Array(type, {}));
  if (!EvalConvert(init, &start, error)) return std::nullopt;
  return start;
}

bool CombineWindows(const Window& window, const Combiner& combiner,
                    absl::Span<const Literal* const> operands, const EvalOptions& options,
                    absl::Span<Literal* const> outs, std::string* error) {
  const Dims dims = operands[0]->shape().dims, windows = outs[0]->shape().dims;
  return ForPlaces(window, dims, windows, [&](const Meeting& m) {
    std::vector<Literal> acc, x;
    for (size_t i = 0; i < outs.size(); ++i) {
      x.push_back(Packed(*operands[i], m.dims, m.operand));
      acc.push_back(m.all ? std::move(*outs[i]) : Packed(*outs[i], m.dims, m.windows));
    }
    const bool ok = combiner.Run(absl::MakeSpan(acc), x, options, error);
    for (size_t i = 0; i < outs.size(); ++i) {
      if (m.all) {
        *outs[i] = std::move(acc[i]);
      } else {
        Unpack(acc[i], m.windows, outs[i]);
      }
    }
    return ok;
  });
}

bool EvalReduceWindow(const Instruction& in, absl::Span<const Literal* const> operands,
                      const EvalOptions& options, absl::Span<Literal* const> outs,
                      std::string* error) {
  const size_t n = outs.size();
  const Computation& computation = *in.ComputationAttr(AttrId::kToApply);
  if (!PlacesFit(WindowOf(in), error) || !YieldsTypesOf(computation, outs, error)) return false;
  const std::optional<Combiner> combiner = Combiner::Make(computation, n, error);
  if (!combiner) return false;
  for (size_t i = 0; i < n; ++i) {
    const Type type = outs[i]->shape().type;
    const std::optional<Literal> start = StartAs(type, *operands[n + i], error);
    if (!start) return false;
    FillElements(start->bytes(), LiteralBytesOf(type), outs[i]->size(), outs[i]->bytes());
  }
  if (outs[0]->size() == 0 || operands[0]->size() == 0) return true;
  return CombineWindows(WindowOf(in), *combiner, operands.subspan(0, n), options, outs, error);
}

bool EvalSelectAndScatter(const Instruction& in, const Literal& operand, const Literal& source,
                          const Literal& init, const EvalOptions& options, Literal* out,
                          std::string* error) {
  FillElements(init.bytes(), LiteralBytesOf(out->shape().type), out->size(), out->bytes());
  if (source.size() == 0 || operand.size() == 0) return true;
  if (!PlacesFit(WindowOf(in), error) ||
      !YieldsTypesOf(*in.ComputationAttr(AttrId::kScatter), {&out, 1}, error)) {
    return false;
  }
  auto select = LaneProgram::Make(*in.ComputationAttr(AttrId::kSelect), error);
  if (!select) return false;
  const Dims &dims = operand.shape().dims, &windows = source.shape().dims;
  Literal places(Shape::Array(Type::kS64, dims)), chosen(Shape::Array(Type::kS64, windows));
  std::iota(places.data<int64_t>(), places.data<int64_t>() + places.size(), 0);
  std::fill_n(chosen.data<int64_t>(), chosen.size(), -1);
  const bool ok = ForPlaces(WindowOf(in), dims, windows, [&](const Meeting& m) {
    Literal old = Packed(chosen, m.dims, m.windows), here = Packed(places, m.dims, m.operand);
    const int64_t n = old.size();
    int64_t* kept = old.data<int64_t>();
    const int64_t* candidate = here.data<int64_t>();
    std::vector<int64_t> first(kept, kept + n);
    for (int64_t i = 0; i < n; ++i) {
      if (first[i] < 0) first[i] = candidate[i];
    }
    const Literal a = TakeElements(operand, first.data(), n);
    const Literal b = TakeElements(operand, candidate, n);
    auto stays = select->Run(n, {&a, &b}, options, error);
    if (!stays) return false;
    for (int64_t i = 0; i < n; ++i) {
      if (kept[i] < 0 || !(*stays)[0].bytes()[i]) kept[i] = candidate[i];
    }
    Unpack(old, m.windows, &chosen);
    return true;
  });
  if (!ok) return false;
  const std::vector<int64_t> targets(chosen.data<int64_t>(),
                                     chosen.data<int64_t>() + chosen.size());
  const Literal* updates[] = {&source};
  return ApplyUpdates(*in.ComputationAttr(AttrId::kScatter), targets, updates, options, {&out, 1},
                      error);
}

}  // namespace tpuc
