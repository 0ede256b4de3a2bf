// Elaboration of declarations: parameters, grid, operands, and the integer expressions in them.
#include "grammar/kernel/elaborate.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "backend/kernel/expr.h"
#include "backend/kernel/windows.h"
#include "grammar/hlo/parser.h"
#include "grammar/kernel/lexer.h"
#include "grammar/kernel/op_names.h"

namespace tpuc::kernel_text {

using kernel::Ref;

void KernelElaborator::Error(DiagCode code, Loc loc, std::string message, std::string hint) {
  ok_ = false;
  context_.diags->Add(code, context_.source, loc, std::move(message)).hint = std::move(hint);
}

bool KernelElaborator::Define(const std::string& name, Loc loc, Symbol symbol) {
  for (const auto& scope : scopes_) {
    if (scope.count(name) > 0) {
      Error(DiagCode::kKernelName, loc, absl::StrCat(name, " is defined already"),
            "values are defined once; what changes belongs in scratch");
      return false;
    }
  }
  scopes_.back()[name] = std::move(symbol);
  return true;
}

const KernelElaborator::Symbol* KernelElaborator::Find(const std::string& name) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    const auto it = scope->find(name);
    if (it != scope->end()) return &it->second;
  }
  return nullptr;
}

std::string KernelElaborator::DidYouMean(const std::string& name) const {
  if (name.size() < 3) return "";  // every short name is near every other
  std::vector<std::string> known;
  for (const auto& scope : scopes_) {
    for (const auto& [n, symbol] : scope) known.push_back(n);
  }
  std::sort(known.begin(), known.end());
  const std::string nearest = NearestName(name, known);
  return nearest.empty() ? "" : absl::StrCat("did you mean ", nearest, "?");
}

bool KernelElaborator::StaticBinary(const Expr& e, bool axes, KernelExpr* result, int64_t* value) {
  const auto known = [](const KernelExpr& x) {
    return !kernel::UsesAxis(x) && !kernel::UsesPrefetch(x) && !kernel::UsesOperand(x);
  };
  KernelExpr a, b;
  int64_t x = 0, y = 0;
  if (!Static(e.args[0], axes, &a, &x) || !Static(e.args[1], axes, &b, &y)) return false;
  const std::optional<KernelExpr::Kind> kind = IntegerOperator(e.text);
  if (!kind) {
    Error(DiagCode::kKernelParam, e.loc, absl::StrCat("'", e.text, "' in an integer expression"));
    return false;
  }
  const bool divides = *kind != KernelExpr::Kind::kDiv || !known(a) || !known(b) || y == 0 ||
                       (x == INT64_MIN && y == -1) || x % y == 0;
  *result = kernel::MakeExpr(*kind, {a, b});
  if (divides) return true;
  Error(DiagCode::kKernelParam, e.loc,
        absl::StrCat(PrintSyntax(e), ": ", y, " does not divide ", x),
        absl::StrCat("cdiv(", PrintSyntax(e.args[0]), ", ", PrintSyntax(e.args[1]), ") rounds up"));
  return false;
}

bool KernelElaborator::StaticCall(const Expr& e, bool axes, KernelExpr* result, int64_t* value) {
  if (e.text == "num" && e.args.size() == 1 && e.args[0].kind == Expr::Kind::kName) {
    const Symbol* s = Find(e.args[0].text);
    if (s == nullptr || s->kind != Symbol::Kind::kAxis) {
      Error(DiagCode::kKernelName, e.args[0].loc,
            absl::StrCat(e.args[0].text, " is not a grid axis"));
      return false;
    }
    *result = KernelExpr::Axis(s->index);
    result->kind = KernelExpr::Kind::kNum;
    return true;
  }
  const std::optional<KernelExpr::Kind> kind = IntegerFunction(e.text);
  if (kind && e.args.size() == 2) {
    std::vector<KernelExpr> args(2);
    int64_t ignored;
    if (!Static(e.args[0], axes, &args[0], &ignored) ||
        !Static(e.args[1], axes, &args[1], &ignored)) {
      return false;
    }
    *result = kernel::MakeExpr(*kind, std::move(args));
    return true;
  }
  if (e.text == "select" && e.args.size() == 3) {
    std::vector<KernelExpr> args(3);
    int64_t ignored;
    for (int i = 0; i < 3; ++i) {
      if (!Static(e.args[i], axes, &args[i], &ignored)) return false;
    }
    *result = kernel::MakeExpr(KernelExpr::Kind::kSelect, std::move(args));
    return true;
  }
  Error(DiagCode::kKernelParam, e.loc,
        absl::StrCat(e.text,
                     " in an integer expression: only cdiv(a, b), min(a, b), max(a, b), "
                     "select(condition, a, b) and num(axis) may stand there"));
  return false;
}

bool KernelElaborator::StaticName(const Expr& e, bool axes, KernelExpr* result) {
  const Symbol* s = Find(e.text);
  if (s != nullptr && s->kind == Symbol::Kind::kParam) {
    *result = KernelExpr::Param(s->index);
    return true;
  }
  if (s != nullptr && s->kind == Symbol::Kind::kAxis && axes) {
    *result = KernelExpr::Axis(s->index);
    return true;
  }
  if (s != nullptr && (s->kind == Symbol::Kind::kValue || s->kind == Symbol::Kind::kLoop) &&
      operands_ != nullptr) {
    return OperandName(e, result);
  }
  if (s == nullptr && BlocksNumber(e.text, result)) return true;
  if (e.text == "true" || e.text == "false") {
    *result = KernelExpr::Const(e.text == "true");
    return true;
  }
  const bool scalar = s != nullptr && s->kind == Symbol::Kind::kRef && prefetch_ok_;
  const bool fraction = s != nullptr && s->kind == Symbol::Kind::kNumber;
  Error(DiagCode::kKernelName, e.loc,
        s == nullptr ? absl::StrCat("unknown name ", e.text)
        : scalar     ? absl::StrCat(e.text, " is an array, not a number")
        : fraction   ? absl::StrCat(e.text, " is a fraction, not an integer")
                     : absl::StrCat(e.text, " is not known before the kernel runs"),
        scalar ? absl::StrCat("name an element: ", e.text, "[0]") : DidYouMean(e.text));
  return false;
}

// row[t]: an element of a prefetched array.
bool KernelElaborator::StaticPrefetch(const Expr& e, bool axes, KernelExpr* result) {
  const Expr& name = e.args[0];
  const Symbol* s = name.kind == Expr::Kind::kName ? Find(name.text) : nullptr;
  if (s != nullptr && s->kind == Symbol::Kind::kArray) {
    return ArrayElement(e, s->index, axes, result);
  }
  if (s == nullptr || s->kind != Symbol::Kind::kRef || !prefetch_ok_ ||
      !kernel_.refs[s->index].InSmem()) {
    Error(DiagCode::kKernelName, name.loc,
          absl::StrCat(PrintSyntax(name), " is not a prefetched array"),
          "scalars in SMEM may stand in index maps and grid bounds");
    return false;
  }
  const Shape& shape = kernel_.refs[s->index].shape;
  if (static_cast<int>(e.args.size()) - 1 != shape.rank() || !IsInteger(shape.type)) {
    Error(DiagCode::kKernelShape, e.loc,
          absl::StrCat(PrintSyntax(e), " of ", ToString(shape, false),
                       IsInteger(shape.type) ? ": one index a dimension" : ": not integers"));
    return false;
  }
  std::vector<KernelExpr> args(shape.rank());
  int64_t ignored;
  for (int d = 0; d < shape.rank(); ++d) {
    if (!Static(e.args[d + 1], axes, &args[d], &ignored)) return false;
  }
  *result = kernel::MakeExpr(KernelExpr::Kind::kPrefetch, std::move(args));
  result->value = s->index;
  return true;
}

bool KernelElaborator::Static(const Expr& e, bool axes, KernelExpr* result, int64_t* value) {
  *value = 0;
  switch (e.kind) {
    case Expr::Kind::kInteger:
      if (!absl::SimpleAtoi(e.text, &result->value)) {
        Error(DiagCode::kKernelParam, e.loc, absl::StrCat(e.text, " is too large"));
        return false;
      }
      break;
    case Expr::Kind::kName:
      if (!StaticName(e, axes, result)) return false;
      break;
    case Expr::Kind::kIndex:
      if (!StaticPrefetch(e, axes, result)) return false;
      break;
    case Expr::Kind::kUnary: {
      KernelExpr a;
      if (!Static(e.args[0], axes, &a, value)) return false;
      if (e.text != "-") {
        *result = kernel::MakeExpr(KernelExpr::Kind::kNot, {a});
      } else if (a.kind == KernelExpr::Kind::kConst) {  // -3 is a number
        result->value = -a.value;
      } else {
        *result = kernel::MakeExpr(KernelExpr::Kind::kNeg, {a});
      }
      break;
    }
    case Expr::Kind::kBinary:
      if (!StaticBinary(e, axes, result, value)) return false;
      break;
    case Expr::Kind::kCall:
      if (!StaticCall(e, axes, result, value)) return false;
      break;
    default:
      Error(DiagCode::kKernelParam, e.loc,
            absl::StrCat("expected an integer expression, found ", PrintSyntax(e)));
      return false;
  }
  if (kernel::UsesAxis(*result) || kernel::UsesPrefetch(*result) || kernel::UsesOperand(*result)) {
    return true;
  }
  const std::optional<int64_t> v = kernel::EvaluateExpr(*result, KnownValues());
  if (!v) {
    Error(DiagCode::kKernelParam, e.loc,
          absl::StrCat(PrintSyntax(e), " has no value: division by zero or overflow"));
    return false;
  }
  *value = *v;
  return true;
}

bool KernelElaborator::DimList(const Expr& e, Dims* dims, std::vector<KernelExpr>* exprs) {
  if (e.kind != Expr::Kind::kList) {
    Error(DiagCode::kKernelShape, e.loc,
          absl::StrCat("expected dimensions such as [8, 128], found ", PrintSyntax(e)));
    return false;
  }
  bool params = false;
  for (const Expr& d : e.args) {
    KernelExpr expr;
    int64_t value = 0;
    if (!Static(d, false, &expr, &value)) return false;
    if (value < 0) {
      Error(DiagCode::kKernelParam, d.loc, absl::StrCat("dimension ", value, " is negative"));
      return false;
    }
    params |= kernel::UsesParam(expr);
    dims->push_back(value);
    exprs->push_back(std::move(expr));
  }
  if (!params) exprs->clear();
  return true;
}

bool KernelElaborator::IntList(const Expr& e, Ints* ints) {
  if (e.kind != Expr::Kind::kSet) {
    ints->emplace_back();
    return StaticInt(e, &ints->back());
  }
  for (const Expr& i : e.args) {
    ints->emplace_back();
    if (!StaticInt(i, &ints->back())) return false;
  }
  return true;
}

std::optional<Type> KernelElaborator::TypeNamed(const std::string& name) const {
  const Symbol* s = Find(name);
  if (s != nullptr && s->kind == Symbol::Kind::kType) return static_cast<Type>(s->index);
  return TypeFromName(name);
}

std::string KernelElaborator::WordFor(const std::string& name) {
  std::string word;
  for (size_t s = 0; s < context_.words.size(); ++s) {
    const std::string& set = context_.words[s].first;
    if (set != name && set != absl::StrCat(kernel_.name, ".", name)) continue;
    context_.words_used[s] = true;
    word = context_.words[s].second;
  }
  return word;
}

// param scale = 0.125: a parameter whose value is a fraction, for bodies. It is replaced by it.
bool KernelElaborator::NumberParameter(const Parameter& p) {
  const bool negative = p.value.kind == Expr::Kind::kUnary && p.value.text == "-";
  const Expr& number = negative ? p.value.args[0] : p.value;
  if (number.kind != Expr::Kind::kNumber) return false;
  Value v;
  v.kind = Value::Kind::kFloat;
  v.text = absl::StrCat(negative ? "-" : "", number.text);
  for (size_t s = 0; s < context_.set.size(); ++s) {
    const std::string& name = context_.set[s].first;
    if (name != p.name && name != absl::StrCat(kernel_.name, ".", p.name)) continue;
    context_.set_used[s] = true;
    v.text = absl::StrCat(context_.set[s].second);
  }
  if (const std::string word = WordFor(p.name); !word.empty()) {
    double ignored;
    if (!absl::SimpleAtod(word, &ignored)) {
      Error(DiagCode::kKernelParam, p.loc, absl::StrCat(p.name, "=", word, " is not a number"));
    } else {
      v.text = word;
    }
  }
  Define(p.name, p.loc, {Symbol::Kind::kNumber, 0, std::move(v)});
  return true;
}

// param dtype = bf16: a parameter whose value is a type.
bool KernelElaborator::TypeParameter(const Parameter& p) {
  if (p.value.kind != Expr::Kind::kName || Find(p.value.text) != nullptr) return false;
  std::optional<Type> type = TypeFromName(p.value.text);
  if (!type) return false;
  if (const std::string word = WordFor(p.name); !word.empty()) {
    type = TypeFromName(word);
    if (!type || ClassOf(*type) == TypeClass::kOther) {
      Error(DiagCode::kKernelParam, p.loc, absl::StrCat(p.name, "=", word, " is not a type"),
            "such as f32 or bf16");
      type = Type::kF32;
    }
  }
  Define(p.name, p.loc, {Symbol::Kind::kType, static_cast<int64_t>(*type), {}});
  return true;
}

void KernelElaborator::Parameters(const Kernel& syntax) {
  for (const Parameter& p : syntax.parameters) {
    if (TypeParameter(p) || NumberParameter(p)) continue;
    KernelExpr ignored;
    int64_t value = 0;
    if (!Static(p.value, false, &ignored, &value)) value = 1;
    for (size_t s = 0; s < context_.set.size(); ++s) {
      const std::string& name = context_.set[s].first;
      if (name != p.name && name != absl::StrCat(kernel_.name, ".", p.name)) continue;
      value = context_.set[s].second;
      context_.set_used[s] = true;
    }
    Symbol symbol{Symbol::Kind::kParam, static_cast<int64_t>(kernel_.params.size()), {}};
    kernel_.params.push_back({p.name, value});
    Define(p.name, p.loc, symbol);
  }
}

void KernelElaborator::Grid(const std::vector<Axis>& syntax, std::vector<kernel::GridAxis>* grid) {
  for (const Axis& a : syntax) {
    kernel::GridAxis axis;
    axis.name = a.name;
    axis.parallel = a.parallel;
    axis.loc = a.loc;
    int64_t value = 0;
    prefetch_ok_ = true;
    bool sized = Static(a.size, false, &axis.size, &value);
    prefetch_ok_ = false;
    const bool at_run_time =
        sized && (kernel::UsesPrefetch(axis.size) || kernel::UsesOperand(axis.size));
    if (sized && at_run_time != !a.most.empty()) {
      Error(DiagCode::kKernelParam, a.size.loc,
            absl::StrCat("the size of grid axis ", a.name,
                         at_run_time ? " is known at run time only" : " is known: no most"),
            at_run_time ? "say how large it may be: n[0] most 64" : "");
      sized = false;
    }
    if (at_run_time && sized) {
      axis.most.emplace_back();
      sized = Static(a.most[0], false, &axis.most[0], &value);
    }
    if (sized) {
      axis.extent = value;
      if (value < 0) {
        Error(DiagCode::kKernelParam, a.size.loc,
              absl::StrCat("grid axis ", a.name, " has size ", value));
      }
    }
    Symbol symbol{Symbol::Kind::kAxis, static_cast<int64_t>(axes_.size()), {}};
    axes_.push_back(axis);
    grid->push_back(std::move(axis));
    Define(a.name, a.loc, symbol);
  }
}

bool KernelElaborator::ArrayShape(const Array& syntax, int64_t memory_space, Shape* shape,
                                  std::vector<KernelExpr>* dims) {
  const std::optional<Type> type = TypeNamed(syntax.type);
  if (!type || ClassOf(*type) == TypeClass::kOther) {
    Error(DiagCode::kKernelShape, syntax.loc,
          absl::StrCat(syntax.type, " is not an element type of arrays"));
    return false;
  }
  *shape = Shape::Array(*type, {});
  Expr list;
  list.kind = Expr::Kind::kList;
  list.args = syntax.dims;
  if (!DimList(list, &shape->dims, dims)) return false;
  if (syntax.layout.empty()) {
    shape->layout = kernel::DeviceLayout(*type, shape->rank(), memory_space);
    return true;
  }
  Shape with_layout;
  const std::string text = absl::StrCat(ToString(*shape, false), syntax.layout);
  if (!ParseShapeText(text, &with_layout) || !with_layout.layout ||
      with_layout.layout->minor_to_major.size() != shape->dims.size()) {
    Error(DiagCode::kKernelShape, syntax.loc,
          absl::StrCat(syntax.layout, " is not a layout of ", ToString(*shape, false)),
          "as HLO prints it: {1,0:T(8,128)S(1)}");
    return false;
  }
  *shape = kernel::WithDeviceLayout(std::move(with_layout));
  return true;
}

void KernelElaborator::CheckSpace(const Operand& syntax, const Ref& ref) {
  if (ref.space == Ref::Space::kHbm && (syntax.has_block || syntax.has_at)) {
    Error(
        DiagCode::kKernelMemory, syntax.loc,
        absl::StrCat(ref.name, " stays in HBM, whole: it has no block and no index map (PS-2.7)"));
  }
  if (ref.space == Ref::Space::kHbm && ref.InVmem()) {
    Error(DiagCode::kKernelMemory, syntax.loc,
          absl::StrCat(ref.name, ": hbm and a layout in VMEM"));
  }
  if (ref.space == Ref::Space::kSmem && BitsOf(ref.shape.type) != 32) {
    Error(DiagCode::kKernelMemory, syntax.loc,
          absl::StrCat(ref.name, " of type ", std::string(TypeName(ref.shape.type)),
                       ": SMEM holds scalars of 32 bits (PS-5.1)"));
  }
}

void KernelElaborator::DeclareBlock(const Operand& syntax, Ref* ref) {
  const size_t rank = ref->shape.dims.size();
  bool params = false;
  std::vector<KernelExpr> exprs(rank);
  for (size_t d = 0; d < rank; ++d) {
    const Expr& e = syntax.block[d];
    if (e.kind == Expr::Kind::kName && e.text == "squeeze") {
      ref->squeezed.resize(rank);
      ref->squeezed[d] = true;
      ref->block[d] = 1;
      exprs[d] = KernelExpr::Const(1);
      continue;
    }
    if (Static(e, false, &exprs[d], &ref->block[d]) && ref->block[d] < 1) {
      Error(DiagCode::kBlockShape, e.loc,
            absl::StrCat("block dimension ", d, " of ", ref->name, " is ", ref->block[d]));
      ref->block[d] = 1;
    }
    params |= kernel::UsesParam(exprs[d]);
  }
  ref->block_exprs = params ? exprs : std::vector<KernelExpr>();
}

// Array, block, buffers; what index maps may name is declared by then.
void KernelElaborator::DeclareOperand(const Operand& syntax, Ref* ref) {
  const bool scratch = ref->role == Ref::Role::kScratch;
  const bool prefetch = ref->role == Ref::Role::kPrefetch;
  const bool semaphore = syntax.array.type == "semaphore";
  ref->space = semaphore                            ? Ref::Space::kSemaphore
               : syntax.space == "hbm"              ? Ref::Space::kHbm
               : syntax.space == "smem" || prefetch ? Ref::Space::kSmem
                                                    : Ref::Space::kWindow;
  Array array = syntax.array;
  if (semaphore) array.type = "s32";
  if (semaphore && !scratch) {
    Error(DiagCode::kKernelMemory, syntax.loc, "semaphores are scratch, not operands");
  }
  const bool in_vmem = scratch && ref->space == Ref::Space::kWindow;
  if (!syntax.table.empty() ? !TableArray(syntax, ref)
                            : !ArrayShape(array, in_vmem ? 1 : 0, &ref->shape, &ref->dim_exprs)) {
    ref->shape = Shape::Array(Type::kF32, {});
    ref->dim_exprs.clear();
  }
  if (prefetch && syntax.array.layout.empty()) {
    ref->shape.layout = kernel::SmemLayout(ref->shape.type, ref->shape.rank());
  }
  CheckSpace(syntax, *ref);
  DeclareMoves(syntax, ref);
}

// Block and buffers; the index map is the first block's.
void KernelElaborator::DeclareMoves(const Operand& syntax, Ref* ref) {
  const size_t rank = ref->shape.dims.size();
  ref->block.assign(ref->shape.dims.begin(), ref->shape.dims.end());
  ref->block_exprs = ref->dim_exprs;
  ref->index.assign(rank, KernelExpr::Const(0));
  if ((syntax.has_block && syntax.block.size() != rank) ||
      (syntax.has_at && syntax.at.size() != rank)) {
    Error(DiagCode::kBlockShape, syntax.loc,
          absl::StrCat("block and index map of ", ref->name, " must name all ", rank,
                       " dimensions of ", ToString(ref->shape, false)));
  } else if (syntax.has_block) {
    DeclareBlock(syntax, ref);
  }
  const int most = ref->role == Ref::Role::kOut ? 2 : 8;
  if (!syntax.buffers.empty() && (!absl::SimpleAtoi(syntax.buffers, &ref->buffers) ||
                                  ref->buffers < 1 || ref->buffers > most)) {
    Error(DiagCode::kBlockShape, syntax.loc,
          absl::StrCat("buffers ", syntax.buffers, " of ", ref->name,
                       most == 2 ? ": 1 or 2 for an output (PS-2.8)" : ": 1 to 8 for an input"));
    ref->buffers = 2;
  }
}

void KernelElaborator::DeclareIndex(const Operand& syntax, Ref* ref) {
  int64_t ignored;
  prefetch_ok_ = true;
  for (size_t d = 0; d < ref->index.size() && syntax.at.size() == ref->index.size(); ++d) {
    Static(syntax.at[d], true, &ref->index[d], &ignored);
  }
  prefetch_ok_ = false;
  ref->element_index = syntax.element;
  for (size_t d = 0; d < syntax.pads.size() && d < ref->index.size(); ++d) {
    if (syntax.pads[d].kind == Expr::Kind::kEmpty) continue;
    ref->low_pad.resize(ref->index.size(), 0);
    if (!StaticInt(syntax.pads[d], &ref->low_pad[d])) return;
    if (syntax.element && ref->low_pad[d] >= 0 && ref->low_pad[d] < ref->block[d]) continue;
    Error(
        DiagCode::kIndexMap, syntax.pads[d].loc,
        absl::StrCat("pad ", ref->low_pad[d], " of dimension ", d, " of ", ref->name,
                     syntax.element ? ": less than the block's size" : ": at element (...) only"));
    return;
  }
  if (syntax.alias.empty()) return;
  const Symbol* input = Find(syntax.alias);
  if (input == nullptr || input->kind != Symbol::Kind::kRef || ref->role != Ref::Role::kOut ||
      kernel_.refs[input->index].role != Ref::Role::kIn) {
    Error(DiagCode::kKernelName, syntax.loc,
          absl::StrCat("alias ", syntax.alias, " of ", ref->name, ": an output may alias an input"),
          DidYouMean(syntax.alias));
  } else {
    ref->alias = static_cast<int>(input->index);
  }
}

// in x: ... when biased == 1: what is not there has no name.
bool KernelElaborator::Present(const Operand& syntax) {
  int64_t value = 1;
  return syntax.present.empty() || !StaticInt(syntax.present[0], &value) || value != 0;
}

// Operands are named before the grid and index maps are read, which may name what lies in SMEM.
void KernelElaborator::Declarations(const Kernel& syntax) {
  for (const ArrayDecl& a : syntax.arrays) DeclareArray(a);
  for (const MaskDecl& m : syntax.masks) DeclareMask(m);
  for (const BlocksDecl& b : syntax.blocks) DeclareBlocks(b);
  std::vector<const Operand*> operands;  // of each ref
  for (const Operand& o : syntax.operands) {
    if (!Present(o)) continue;
    operands.push_back(&o);
    Ref ref;
    ref.name = o.name;
    ref.loc = o.loc;
    ref.role = o.role == "scratch"    ? Ref::Role::kScratch
               : o.role == "in"       ? Ref::Role::kIn
               : o.role == "prefetch" ? Ref::Role::kPrefetch
                                      : Ref::Role::kOut;
    Define(o.name, o.loc, {Symbol::Kind::kRef, static_cast<int64_t>(kernel_.refs.size()), {}});
    kernel_.refs.push_back(std::move(ref));
  }
  const auto before_grid = [&](size_t r) {
    return kernel_.refs[r].role == Ref::Role::kPrefetch || syntax.operands[r].space == "smem";
  };
  for (size_t r = 0; r < kernel_.refs.size(); ++r) {
    if (before_grid(r)) DeclareOperand(*operands[r], &kernel_.refs[r]);
  }
  Grid(syntax.grid, &kernel_.grid);
  for (size_t r = 0; r < kernel_.refs.size(); ++r) {
    if (before_grid(r)) continue;
    DeclareOperand(*operands[r], &kernel_.refs[r]);
    DeclareIndex(*operands[r], &kernel_.refs[r]);
  }
}

namespace {

// Numbers nodes in program order, regions after their statement.
class Renumber {
 public:
  explicit Renumber(kernel::Kernel* k) : k_(*k), to_(k->nodes.size(), -1) {}
  void Run() {
    Visit(k_.setup);
    Visit(k_.body);
    std::vector<kernel::Node> nodes(order_.size());
    for (size_t i = 0; i < order_.size(); ++i) nodes[i] = std::move(k_.nodes[order_[i]]);
    k_.nodes = std::move(nodes);
    Map(&k_.setup);
    Map(&k_.body);
    for (kernel::Node& n : k_.nodes) {
      for (NodeId& o : n.operands) o = to_[o];
      for (kernel::Slice& s : n.slices) {
        if (s.start_node >= 0) s.start_node = to_[s.start_node];
      }
      for (kernel::RefView& v : n.views) {
        for (kernel::Slice& s : v.slices) {
          if (s.start_node >= 0) s.start_node = to_[s.start_node];
        }
      }
      for (kernel::Region& r : n.regions) Map(&r);
    }
  }

 private:
  void Visit(const kernel::Region& region) {
    for (NodeId id : region.nodes) {
      to_[id] = static_cast<NodeId>(order_.size());
      order_.push_back(id);
      for (const kernel::Region& r : k_.nodes[id].regions) Visit(r);
    }
  }
  void Map(kernel::Region* region) {
    for (NodeId& id : region->nodes) id = to_[id];
  }
  kernel::Kernel& k_;
  std::vector<NodeId> to_, order_;
};

// Reports read opcodes of the source; here the text's operations are the source.
void CollectOps(kernel::Kernel* k) {
  for (const kernel::Node& n : k->nodes) {
    if (n.kind != kernel::Node::Kind::kHlo || n.op == Op::kConstant) continue;
    std::string op(OpName(n.op));
    if (std::find(k->ops.begin(), k->ops.end(), op) == k->ops.end())
      k->ops.push_back(std::move(op));
  }
}

}  // namespace

bool KernelElaborator::Run(const Kernel& syntax) {
  kernel_.name = syntax.name;
  kernel_.loc = syntax.loc;
  scopes_.emplace_back();
  Parameters(syntax);
  Declarations(syntax);
  for (const Function& f : syntax.functions) {
    if (functions_.emplace(f.name, &f).second) continue;
    Error(DiagCode::kKernelName, f.loc, absl::StrCat("function ", f.name, " is defined already"));
  }
  Setup(syntax.setup);
  region_ = &kernel_.body;
  Body(syntax.statements);
  if (!ok_) return false;
  Renumber(&kernel_).Run();
  CollectOps(&kernel_);
  return true;
}

bool ElaborateKernel(const Kernel& syntax, ElaborateContext* context, kernel::Kernel* kernel) {
  return KernelElaborator(context, kernel).Run(syntax);
}

}  // namespace tpuc::kernel_text
