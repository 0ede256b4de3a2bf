// Elaboration of programs: buffers, ports, copies and calls by name (elaborate.h); and the program
// that a kernel alone implies. What has no offset is laid out behind what has one; what has no life
// time lives from its first to its last step.
#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "backend/kernel/windows.h"
#include "grammar/hlo/parser.h"
#include "grammar/kernel/elaborate.h"

namespace tpuc::kernel_text {
namespace {

using kernel::Buffer;
using kernel::Port;
using kernel::Ref;
using kernel::Step;

constexpr int64_t kGranule = 512;
constexpr int64_t kMaxLiteralBytes = int64_t{1} << 31;

int64_t RoundUp(int64_t bytes) {
  return bytes > INT64_MAX - kGranule ? bytes : (bytes + kGranule - 1) / kGranule * kGranule;
}

// True where `nesting` ("{{..}{..}}") from *at on is an array of dims[d ...]; moves *at behind it.
bool NestsAs(const Dims& dims, size_t d, const std::string& nesting, size_t* at) {
  const auto take = [&](char c) { return *at < nesting.size() && nesting[*at] == c && ++*at; };
  if (d == dims.size()) return take('.');
  if (!take('{')) return false;
  for (int64_t i = 0; i < dims[d]; ++i) {
    if (!NestsAs(dims, d + 1, nesting, at)) return false;
  }
  return take('}');
}

}  // namespace

std::shared_ptr<Literal> LiteralFromText(const LiteralText& text, const Shape& shape,
                                         std::string* error, std::string* hint) {
  if (shape.LiteralBytes() > kMaxLiteralBytes) {
    *error = absl::StrCat("initial values of ", shape.LiteralBytes(), " bytes: at most ",
                          kMaxLiteralBytes);
    return nullptr;
  }
  const bool rows = text.kind == LiteralText::Kind::kRows;
  size_t at = 0;
  const bool fits = !rows || (static_cast<int64_t>(text.values.size()) == shape.ElementCount() &&
                              NestsAs(shape.dims, 0, text.shape, &at) && at == text.shape.size());
  if (!fits || (text.kind == LiteralText::Kind::kScalar && !shape.dims.empty())) {
    *error = absl::StrCat("rows of values that are not a ", ToString(shape, false));
    *hint = "splat 0 fills an array with one value";
    return nullptr;
  }
  Shape logical = shape;
  logical.layout.reset();
  auto literal = std::make_shared<Literal>(logical);
  if (text.kind == LiteralText::Kind::kElided) literal->set_elided();
  const int64_t width = LiteralBytesOf(shape.type);
  for (size_t i = 0; i < text.values.size(); ++i) {
    const std::optional<Literal> scalar = ScalarFromText(shape.type, text.values[i]);
    if (!scalar) {
      *error = absl::StrCat(text.values[i], " is not a value of type ",
                            std::string(TypeName(shape.type)));
      return nullptr;
    }
    const int64_t count = rows ? 1 : shape.ElementCount();
    for (int64_t e = 0; e < count; ++e) {
      std::copy_n(scalar->bytes(), width, literal->bytes() + (static_cast<int64_t>(i) + e) * width);
    }
  }
  return literal;
}

namespace {

class ProgramElaborator {
 public:
  ProgramElaborator(ElaborateContext* context, kernel::Program* program)
      : context_(*context), program_(*program) {}
  bool Run(const Program& syntax);

 private:
  void Error(Loc loc, std::string message, std::string hint = "") {
    ok_ = false;
    context_.diags->Add(DiagCode::kKernelProgram, context_.source, loc, std::move(message)).hint =
        std::move(hint);
  }
  bool ShapeOf(const Array& syntax, Shape* shape);
  int BufferOf(const std::string& name, Loc loc);
  void AddBuffer(const Item& item);
  void AddPort(const Item& item);
  void AddCopy(const Item& item);
  void AddCall(const Item& item);
  void Use(int buffer) {
    const int64_t now = static_cast<int64_t>(program_.steps.size());
    if (first_[buffer] < 0) first_[buffer] = now;
    last_[buffer] = now;
  }
  void LayOut();

  ElaborateContext& context_;
  kernel::Program& program_;
  absl::flat_hash_map<std::string, int> buffers_, copies_;
  std::vector<int64_t> first_, last_;
  std::vector<bool> given_life_;
  bool ok_ = true;
};

bool ProgramElaborator::ShapeOf(const Array& syntax, Shape* shape) {
  std::string text = absl::StrCat(syntax.type, "[");
  for (size_t d = 0; d < syntax.dims.size(); ++d) {
    if (syntax.dims[d].kind != Expr::Kind::kInteger) {
      Error(syntax.dims[d].loc, "dimensions of a program's arrays are numbers");
      return false;
    }
    absl::StrAppend(&text, d > 0 ? "," : "", syntax.dims[d].text);
  }
  absl::StrAppend(&text, "]", syntax.layout);
  *shape = Shape();
  if (!ParseShapeText(text, shape) || !shape->IsArray()) {
    Error(syntax.loc, absl::StrCat(text, " is not a shape"),
          "as HLO prints it: f32[16,64]{1,0:T(8,128)}");
    return false;
  }
  if (syntax.layout.empty()) {
    shape->layout = kernel::DeviceLayout(shape->type, shape->rank(), 0);
  }
  return true;
}

int ProgramElaborator::BufferOf(const std::string& name, Loc loc) {
  const auto it = buffers_.find(name);
  if (it != buffers_.end()) return it->second;
  std::vector<std::string> known;
  for (const Buffer& b : program_.buffers) known.push_back(b.name);
  const std::string nearest = NearestName(name, known);
  Error(loc, absl::StrCat("no buffer is called ", name),
        nearest.empty() ? "" : absl::StrCat("did you mean ", nearest, "?"));
  return -1;
}

void ProgramElaborator::AddBuffer(const Item& item) {
  Buffer b;
  b.name = item.name;
  if (!ShapeOf(item.array, &b.shape)) return;
  b.bytes = RoundUp(DeviceBytes(b.shape));
  const auto number = [&](const std::string& text, int64_t* out) {
    if (!text.empty() && !absl::SimpleAtoi(text, out))
      Error(item.loc, absl::StrCat(text, " is too large"));
  };
  number(item.offset, &b.offset);
  number(item.bytes, &b.bytes);
  number(item.from, &b.from);
  number(item.to, &b.to);
  if (item.literal.kind != LiteralText::Kind::kNone) {
    std::string error, hint;
    b.init = LiteralFromText(item.literal, b.shape, &error, &hint);
    if (b.init == nullptr) return Error(item.loc, std::move(error), std::move(hint));
  }
  const int index = static_cast<int>(program_.buffers.size());
  if (!buffers_.insert({b.name, index}).second) {
    return Error(item.loc, absl::StrCat("buffer ", b.name, " is defined already"));
  }
  given_life_.push_back(!item.from.empty());
  first_.push_back(-1);
  last_.push_back(-1);
  program_.buffers.push_back(std::move(b));
}

void ProgramElaborator::AddPort(const Item& item) {
  const bool input = item.kind == Item::Kind::kInput;
  std::vector<Port>& ports = input ? program_.inputs : program_.outputs;
  Port port;
  port.name = item.name;
  if (!item.none) {
    port.buffer = BufferOf(item.in.empty() ? item.name : item.in, item.loc);
    if (port.buffer < 0) return;
    Buffer& b = program_.buffers[port.buffer];
    int& number = input ? b.input : b.output;
    if (number >= 0) return Error(item.loc, absl::StrCat("buffer ", b.name, " has a port already"));
    number = static_cast<int>(ports.size());
    port.shape = b.shape;
    Use(port.buffer);
    if (input) first_[port.buffer] = 0;
  }
  if (item.has_array && !ShapeOf(item.array, &port.shape)) return;
  if (item.none && !item.has_array) return Error(item.loc, "a port without a buffer needs a shape");
  ports.push_back(std::move(port));
}

void ProgramElaborator::AddCopy(const Item& item) {
  Step step;
  step.name = item.name;
  if (item.kind == Item::Kind::kCopyStart) {
    step.kind = Step::Kind::kCopyStart;
    for (const std::string& name : item.operands) {
      step.operands.push_back(BufferOf(name, item.loc));
      if (step.operands.back() < 0) return;
      Use(step.operands.back());
    }
    step.copy = static_cast<int>(copies_.size());
    step.cross_program = item.cross_program;
    if (!copies_.insert({item.name, static_cast<int>(program_.steps.size())}).second) {
      return Error(item.loc, absl::StrCat("copy ", item.name, " is started already"));
    }
  } else {
    step.kind = Step::Kind::kCopyDone;
    const auto it = copies_.find(item.operands[0]);
    if (it == copies_.end()) {
      return Error(item.loc, absl::StrCat("copy ", item.operands[0], " is not started before"));
    }
    const Step& start = program_.steps[it->second];
    step.operands = start.operands;
    step.copy = start.copy;
    step.cross_program = start.cross_program;
    for (int b : step.operands) Use(b);
  }
  program_.steps.push_back(std::move(step));
}

void ProgramElaborator::AddCall(const Item& item) {
  Step step;
  step.name = item.as.empty() ? item.name : item.as;
  std::vector<std::string> known;
  for (size_t k = 0; k < program_.kernels.size(); ++k) {
    if (program_.kernels[k].name == item.name) step.kernel = static_cast<int>(k);
    known.push_back(program_.kernels[k].name);
  }
  if (step.kernel < 0) {
    const std::string nearest = NearestName(item.name, known);
    return Error(item.loc, absl::StrCat("no kernel is called ", item.name),
                 nearest.empty() ? "" : absl::StrCat("did you mean ", nearest, "?"));
  }
  const kernel::Kernel& k = program_.kernels[step.kernel];
  const int64_t wanted =
      std::count_if(k.refs.begin(), k.refs.end(), [](const Ref& r) { return r.IsOperand(); });
  if (static_cast<int64_t>(item.operands.size()) != wanted) {
    return Error(item.loc, absl::StrCat("call of ", k.name, " with ", item.operands.size(),
                                        " buffers; it has ", wanted, " operands"));
  }
  for (const std::string& name : item.operands) {
    step.operands.push_back(BufferOf(name, item.loc));
    if (step.operands.back() < 0) return;
    Use(step.operands.back());
  }
  program_.steps.push_back(std::move(step));
}

void ProgramElaborator::LayOut() {
  absl::flat_hash_map<int64_t, int64_t> next;  // by memory space
  for (const Buffer& b : program_.buffers) {
    int64_t& end = next[b.shape.layout->memory_space];
    if (b.offset >= 0 && b.bytes < INT64_MAX - b.offset) {
      end = std::max(end, RoundUp(b.offset + b.bytes));
    }
  }
  const int64_t steps = static_cast<int64_t>(program_.steps.size());
  for (size_t i = 0; i < program_.buffers.size(); ++i) {
    Buffer& b = program_.buffers[i];
    if (b.offset < 0) {
      int64_t& end = next[b.shape.layout->memory_space];
      b.offset = end;
      if (b.bytes < INT64_MAX - end) end += b.bytes;
    }
    if (given_life_[i]) continue;
    b.from = b.input >= 0 || b.init != nullptr ? 0 : std::max<int64_t>(first_[i], 0);
    b.to = b.output >= 0 ? steps : std::max(last_[i], b.from);
  }
}

bool ProgramElaborator::Run(const Program& syntax) {
  program_.name = syntax.name;
  for (const Item& item : syntax.items) {
    switch (item.kind) {
      case Item::Kind::kBuffer:
        AddBuffer(item);
        break;
      case Item::Kind::kInput:
      case Item::Kind::kOutput:
        AddPort(item);
        break;
      case Item::Kind::kCopyStart:
      case Item::Kind::kCopyDone:
        AddCopy(item);
        break;
      case Item::Kind::kCall:
        AddCall(item);
        break;
    }
  }
  LayOut();
  return ok_;
}

}  // namespace

bool ElaborateProgram(const Program& syntax, ElaborateContext* context, kernel::Program* program) {
  return ProgramElaborator(context, program).Run(syntax);
}

void ImplyProgram(kernel::Program* program) {
  const kernel::Kernel& k = program->kernels[0];
  program->name = k.name;
  Step step;
  step.kernel = 0;
  step.name = k.name;
  int64_t next[2] = {0, 0};
  for (const Ref& ref : k.refs) {
    if (!ref.IsOperand()) continue;
    Buffer b;
    b.name = ref.name;
    b.shape = ref.shape;
    b.bytes = RoundUp(DeviceBytes(b.shape));
    int64_t& end = next[ref.InVmem() ? 1 : 0];
    b.offset = end;
    if (b.bytes < INT64_MAX - end) end += b.bytes;
    const bool input = ref.role != Ref::Role::kOut;
    std::vector<Port>& ports = input ? program->inputs : program->outputs;
    (input ? b.input : b.output) = static_cast<int>(ports.size());
    b.to = input ? 0 : 1;
    const int index = static_cast<int>(program->buffers.size());
    ports.push_back({ref.name, ref.shape, index});
    step.operands.push_back(index);
    program->buffers.push_back(std::move(b));
  }
  program->steps.push_back(std::move(step));
}

}  // namespace tpuc::kernel_text
