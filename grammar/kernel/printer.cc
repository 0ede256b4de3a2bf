// PrintKernels (printer.h): declarations and programs to syntax trees, and those to text.
#include "grammar/kernel/printer.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "backend/kernel/windows.h"
#include "grammar/kernel/body_printer.h"
#include "grammar/kernel/declaration_printer.h"
#include "grammar/kernel/elaborate.h"
#include "grammar/kernel/syntax.h"

namespace tpuc {
namespace {

using kernel_text::Array;
using kernel_text::Expr;
using kernel_text::Item;
using kernel_text::LiteralText;
using kernel_text::Operand;

constexpr int64_t kSmem = -1;  // a space of ArraySyntax

// The layout is left out where it is the one a bare shape gets.
Array ArraySyntax(const Shape& shape, int64_t usual_space) {
  Array a;
  a.type = std::string(TypeName(shape.type));
  for (int64_t d : shape.dims) a.dims.push_back(kernel_text::IntegerSyntax(d));
  if (shape.layout &&
      !(*shape.layout == (usual_space == kSmem
                              ? kernel::SmemLayout(shape.type, shape.rank())
                              : kernel::DeviceLayout(shape.type, shape.rank(), usual_space)))) {
    a.layout = ToString(*shape.layout);
  }
  return a;
}

Operand OperandSyntax(const kernel::Ref& ref, const kernel::Kernel& k) {
  Operand o;
  const bool scratch = ref.role == kernel::Ref::Role::kScratch;
  const bool prefetch = ref.role == kernel::Ref::Role::kPrefetch;
  o.role = scratch                              ? "scratch"
           : prefetch                           ? "prefetch"
           : ref.role == kernel::Ref::Role::kIn ? "in"
                                                : "out";
  o.name = ref.name;
  using Space = kernel::Ref::Space;
  o.table = ref.table;
  o.array = ArraySyntax(ref.shape, prefetch                                 ? kSmem
                                   : scratch && ref.space == Space::kWindow ? 1
                                                                            : 0);
  if (ref.space == Space::kSemaphore) o.array.type = "semaphore";
  if (ref.space == Space::kHbm) o.space = "hbm";
  if (ref.space == Space::kSmem && !prefetch) o.space = "smem";
  const size_t rank = ref.shape.dims.size();
  for (size_t d = 0; d < ref.dim_exprs.size() && d < rank; ++d) {
    o.array.dims[d] = kernel_text::StaticSyntax(ref.dim_exprs[d], k);
  }
  if (scratch || prefetch) return o;
  kernel_text::MovesSyntax(ref, k, kernel_text::GridNames(k), &o);
  if (ref.alias >= 0) o.alias = k.refs[ref.alias].name;
  return o;
}

void AppendRows(const Literal& literal, const Dims& dims, size_t d, int64_t* index,
                LiteralText* text) {
  if (d == dims.size()) {
    text->shape += '.';
    text->values.push_back(kernel_text::NumberText(literal, (*index)++));
    return;
  }
  text->shape += '{';
  for (int64_t i = 0; i < dims[d]; ++i) AppendRows(literal, dims, d + 1, index, text);
  text->shape += '}';
}

LiteralText LiteralSyntax(const Literal& literal) {
  LiteralText text;
  if (literal.elided()) {
    text.kind = LiteralText::Kind::kElided;
    return text;
  }
  const int64_t size = literal.size();
  const int64_t width = size > 0 ? literal.byte_size() / size : 0;
  bool splat = size > 1;
  for (int64_t i = 1; i < size && splat; ++i) {
    splat = std::memcmp(literal.bytes(), literal.bytes() + i * width, width) == 0;
  }
  if (splat || literal.shape().dims.empty()) {
    text.kind = splat ? LiteralText::Kind::kSplat : LiteralText::Kind::kScalar;
    text.values.push_back(kernel_text::NumberText(literal, 0));
    return text;
  }
  text.kind = LiteralText::Kind::kRows;
  int64_t index = 0;
  AppendRows(literal, literal.shape().dims, 0, &index, &text);
  return text;
}

kernel_text::Kernel KernelSyntax(const kernel::Kernel& k) {
  kernel_text::Kernel s;
  s.name = k.name;
  for (const kernel::Param& p : k.params) {
    s.parameters.push_back({p.name, kernel_text::IntegerSyntax(p.value), {}});
  }
  for (const kernel::Array& a : k.arrays) {
    kernel_text::ArrayDecl d;
    d.name = a.name;
    d.array = ArraySyntax(a.shape, 0);
    for (size_t i = 0; i < a.dim_exprs.size(); ++i) {
      d.array.dims[i] = kernel_text::StaticSyntax(a.dim_exprs[i], k);
    }
    d.file = a.file;
    if (a.file.empty()) d.literal = LiteralSyntax(*a.values);
    s.arrays.push_back(std::move(d));
  }
  for (const kernel::Mask& m : k.masks) {
    s.masks.push_back({m.name,
                       m.row,
                       m.col,
                       {kernel_text::StaticSyntax(m.extent_exprs[0], k),
                        kernel_text::StaticSyntax(m.extent_exprs[1], k)},
                       kernel_text::MaskSyntax(m, k),
                       {}});
  }
  for (const kernel::Blocks& b : k.blocks) {
    s.blocks.push_back({b.name,
                        k.masks[b.mask].name,
                        {kernel_text::StaticSyntax(b.block_exprs[0], k),
                         kernel_text::StaticSyntax(b.block_exprs[1], k)},
                        {}});
  }
  for (const kernel::GridAxis& a : k.grid) {
    s.grid.push_back(kernel_text::AxisSyntax(a, a.name, k, kernel_text::GridNames(k)));
  }
  for (const kernel::Ref& r : k.refs) {
    if (r.window_of < 0) s.operands.push_back(OperandSyntax(r, k));
  }
  kernel_text::BodyText text = kernel_text::BodySyntax(k);
  s.setup = std::move(text.setup);
  s.statements = std::move(text.body);
  return s;
}

Item BufferSyntax(const kernel::Buffer& b) {
  Item item;
  item.kind = Item::Kind::kBuffer;
  item.name = b.name;
  item.has_array = true;
  item.array = ArraySyntax(b.shape, 0);
  if (b.offset >= 0) item.offset = absl::StrCat(b.offset);
  const int64_t plain = (DeviceBytes(b.shape) + 511) / 512 * 512;
  if (b.bytes != plain) item.bytes = absl::StrCat(b.bytes);
  item.from = absl::StrCat(b.from);
  item.to = absl::StrCat(b.to);
  if (b.init != nullptr) item.literal = LiteralSyntax(*b.init);
  return item;
}

Item PortSyntax(const kernel::Port& port, bool input, const kernel::Program& p) {
  Item item;
  item.kind = input ? Item::Kind::kInput : Item::Kind::kOutput;
  item.name = port.name;
  item.none = port.buffer < 0;
  const kernel::Buffer* b = item.none ? nullptr : &p.buffers[port.buffer];
  if (b == nullptr || !(b->shape == port.shape)) {
    item.has_array = true;
    item.array = ArraySyntax(port.shape, 0);
  }
  if (b != nullptr && b->name != port.name) item.in = b->name;
  return item;
}

Item StepSyntax(const kernel::Step& step, const kernel::Program& p) {
  Item item;
  item.name = step.name;
  if (step.kind == kernel::Step::Kind::kCopyDone) {
    item.kind = Item::Kind::kCopyDone;
    for (const kernel::Step& s : p.steps) {
      if (s.kind == kernel::Step::Kind::kCopyStart && s.copy == step.copy) {
        item.operands = {s.name};
        break;
      }
    }
    return item;
  }
  for (int b : step.operands) item.operands.push_back(p.buffers[b].name);
  if (step.kind == kernel::Step::Kind::kCopyStart) {
    item.kind = Item::Kind::kCopyStart;
    item.cross_program = step.cross_program;
    return item;
  }
  item.kind = Item::Kind::kCall;
  item.name = p.kernels[step.kernel].name;
  if (step.name != item.name) item.as = step.name;
  return item;
}

kernel_text::Program ProgramSyntax(const kernel::Program& p) {
  kernel_text::Program s;
  s.name = p.name;
  for (const kernel::Buffer& b : p.buffers) s.items.push_back(BufferSyntax(b));
  for (const kernel::Port& port : p.inputs) s.items.push_back(PortSyntax(port, true, p));
  for (const kernel::Port& port : p.outputs) s.items.push_back(PortSyntax(port, false, p));
  for (const kernel::Step& step : p.steps) s.items.push_back(StepSyntax(step, p));
  return s;
}

}  // namespace

std::string PrintKernel(const kernel::Kernel& kernel) {
  return kernel_text::PrintSyntax(KernelSyntax(kernel));
}

std::string PrintKernels(const kernel::Program& program) {
  kernel_text::File file;
  for (const kernel::Kernel& k : program.kernels) file.kernels.push_back(KernelSyntax(k));
  kernel_text::File with_program;
  with_program.programs.push_back(ProgramSyntax(program));
  const std::string text = PrintSyntax(with_program);
  if (program.kernels.size() == 1) {  // the program that the kernel implies is not written
    kernel::Program implied;
    implied.kernels.push_back(program.kernels[0]);
    kernel_text::ImplyProgram(&implied);
    kernel_text::File plain;
    plain.programs.push_back(ProgramSyntax(implied));
    if (PrintSyntax(plain) == text) return PrintSyntax(file);
  }
  file.programs = std::move(with_program.programs);
  return PrintSyntax(file);
}

}  // namespace tpuc
