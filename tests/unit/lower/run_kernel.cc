// See run_kernel.h.
#include "tests/unit/lower/run_kernel.h"

#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "backend/interp/interp.h"
#include "backend/kernel/windows.h"
#include "backend/llo/verifier.h"
#include "backend/lower/lower.h"
#include "backend/regalloc/assemble.h"
#include "grammar/bundle/printer.h"
#include "gtest/gtest.h"
#include "src/eval/evaluator.h"
#include "src/eval/inputs.h"
#include "src/ir/tiling.h"
#include "src/num/convert.h"

namespace tpuc {

using kernel::Node;
using kernel::NodeId;

int KernelBuilder::AddRef(Dims dims, int space, Type type, Dims minor, kernel::Ref::Role role) {
  kernel::Ref r;
  r.name = absl::StrCat("r", k.refs.size());
  r.role = role;
  r.shape = Shape::Array(type, dims);
  Layout layout = DefaultLayout(static_cast<int>(dims.size()));
  if (!minor.empty()) layout.minor_to_major = minor;
  r.shape.layout = layout;
  r.shape = kernel::WithDeviceLayout(r.shape);
  r.shape.layout->memory_space = space;
  r.block.assign(dims.begin(), dims.end());
  r.squeezed.assign(dims.size(), false);
  r.index.assign(dims.size(), kernel::Expr::Const(0));
  k.refs.push_back(r);
  return static_cast<int>(k.refs.size()) - 1;
}

int KernelBuilder::In(Dims dims, int space, Type type, Dims minor) {
  return AddRef(dims, space, type, minor, kernel::Ref::Role::kIn);
}
int KernelBuilder::Out(Dims dims, int space, Type type, Dims minor) {
  return AddRef(dims, space, type, minor, kernel::Ref::Role::kOut);
}
int KernelBuilder::Scratch(Dims dims, Type type) {
  return AddRef(dims, 0, type, {}, kernel::Ref::Role::kScratch);
}

void KernelBuilder::Block(Dims block, std::vector<kernel::Expr> index, std::vector<bool> squeezed) {
  kernel::Ref& r = k.refs.back();
  r.block.assign(block.begin(), block.end());
  r.index = std::move(index);
  if (!squeezed.empty()) r.squeezed = std::move(squeezed);
}

NodeId KernelBuilder::Add(Node n) {
  k.nodes.push_back(std::move(n));
  NodeId id = static_cast<NodeId>(k.nodes.size()) - 1;
  region_->nodes.push_back(id);
  return id;
}

NodeId KernelBuilder::Load(int ref) {
  std::vector<kernel::Slice> slices;
  for (int64_t d : k.refs[ref].BlockShape().dims) slices.push_back({-1, 0, d});
  return LoadAt(ref, slices);
}

NodeId KernelBuilder::LoadAt(int ref, std::vector<kernel::Slice> slices) {
  Node n;
  n.kind = Node::Kind::kLoad;
  n.ref = ref;
  n.shape.type = k.refs[ref].shape.type;
  for (const kernel::Slice& s : slices) n.shape.dims.push_back(s.size);
  n.slices = std::move(slices);
  return Add(std::move(n));
}

void KernelBuilder::Store(int ref, NodeId value) {
  Node n;
  n.kind = Node::Kind::kStore;
  n.ref = ref;
  n.shape = Shape::Tuple({});
  n.operands = {value};
  for (int64_t d : k.refs[ref].BlockShape().dims) n.slices.push_back({-1, 0, d});
  Add(std::move(n));
}

NodeId KernelBuilder::Hlo(Op op, Type type, Dims dims, std::vector<NodeId> operands,
                          std::vector<Attr> attrs) {
  Node n;
  n.op = op;
  n.shape = Shape::Array(type, std::move(dims));
  n.operands = std::move(operands);
  n.attrs = std::move(attrs);
  return Add(std::move(n));
}

NodeId KernelBuilder::Like(Op op, std::vector<NodeId> operands, std::vector<Attr> attrs) {
  NodeId x = op == Op::kSelect ? operands[1] : operands[0];
  return Hlo(op, type(x), dims(x), operands, std::move(attrs));
}

NodeId KernelBuilder::Constant(float v) {
  Node n;
  n.op = Op::kConstant;
  n.shape = Shape::Array(Type::kF32, {});
  n.literal = std::make_shared<Literal>(n.shape);
  n.literal->data<float>()[0] = v;
  return Add(std::move(n));
}

NodeId KernelBuilder::Int(int32_t v) {
  Node n;
  n.op = Op::kConstant;
  n.shape = Shape::Array(Type::kS32, {});
  n.literal = std::make_shared<Literal>(n.shape);
  n.literal->data<int32_t>()[0] = v;
  return Add(std::move(n));
}

NodeId KernelBuilder::Splat(float v, Dims dims) {
  return Broadcast(Constant(v), std::move(dims), {});
}

NodeId KernelBuilder::Broadcast(NodeId x, Dims dims, Ints map) {
  return Hlo(Op::kBroadcast, type(x), std::move(dims), {x},
             {{AttrId::kDimensions, std::move(map)}});
}

NodeId KernelBuilder::Reduce(Op reducer, NodeId x, Ints over) {
  Dims d;
  for (int i = 0; i < static_cast<int>(dims(x).size()); ++i) {
    if (std::find(over.begin(), over.end(), i) == over.end()) d.push_back(dims(x)[i]);
  }
  NodeId init;
  if (type(x) == Type::kF32) {
    float v = reducer == Op::kAdd ? 0 : reducer == Op::kMultiply ? 1 : INFINITY;
    init = Constant(reducer == Op::kMaximum ? -v : v);
  } else {
    int32_t v = reducer == Op::kAdd || reducer == Op::kOr ? 0
                : reducer == Op::kMultiply                ? 1
                : reducer == Op::kMaximum                 ? INT32_MIN
                : reducer == Op::kMinimum                 ? INT32_MAX
                                                          : -1;
    init = Int(v);
    if (type(x) == Type::kPred) {
      Node n;
      n.op = Op::kConstant;
      n.shape = Shape::Array(Type::kPred, {});
      n.literal = std::make_shared<Literal>(n.shape);
      n.literal->bytes()[0] = reducer == Op::kAnd;
      init = Add(std::move(n));
    }
  }
  NodeId id = Hlo(Op::kReduce, type(x), d, {x, init}, {{AttrId::kDimensions, std::move(over)}});
  k.nodes[id].reducer = reducer;
  return id;
}

NodeId KernelBuilder::Dot(NodeId a, NodeId b, Ints lc, Ints rc, Ints lb, Ints rb) {
  Dims d;
  auto in = [](const Ints& v, int i) { return std::find(v.begin(), v.end(), i) != v.end(); };
  for (int64_t i : lb) d.push_back(dims(a)[i]);
  for (int i = 0; i < static_cast<int>(dims(a).size()); ++i) {
    if (!in(lb, i) && !in(lc, i)) d.push_back(dims(a)[i]);
  }
  for (int i = 0; i < static_cast<int>(dims(b).size()); ++i) {
    if (!in(rb, i) && !in(rc, i)) d.push_back(dims(b)[i]);
  }
  std::vector<Attr> attrs = {{AttrId::kLhsContractingDims, lc}, {AttrId::kRhsContractingDims, rc}};
  if (!lb.empty()) {
    attrs.push_back({AttrId::kLhsBatchDims, lb});
    attrs.push_back({AttrId::kRhsBatchDims, rb});
  }
  return Hlo(Op::kDot, Type::kF32, d, {a, b}, attrs);
}

NodeId KernelBuilder::Compare(std::string direction, NodeId a, NodeId b) {
  return Hlo(Op::kCompare, Type::kPred, dims(a), {a, b},
             {{AttrId::kDirection, AttrValue(std::move(direction))}});
}

NodeId KernelBuilder::Axis(int axis) {
  Node n;
  n.kind = Node::Kind::kAxis;
  n.axis = axis;
  n.shape = Shape::Array(Type::kS32, {});
  return Add(std::move(n));
}

namespace {

// ---- the reference: one grid point after another, every node on whole blocks ----

struct Reference {
  const kernel::Kernel& k;
  std::vector<Literal> arrays;  // by ref; scratch: the block
  std::vector<Literal> values;
  std::vector<int64_t> point;
  std::string error;

  int64_t Index(const kernel::Expr& e) const {
    using K = kernel::Expr::Kind;
    auto a = [&](int i) { return Index(e.args[i]); };
    switch (e.kind) {
      case K::kConst:
        return e.value;
      case K::kAxis:
        return point[e.value];
      case K::kNum:
        return k.grid[e.value].extent;
      case K::kAdd:
        return a(0) + a(1);
      case K::kMul:
        return a(0) * a(1);
      case K::kDiv:
        return a(0) / a(1);
      case K::kMod:
        return a(0) % a(1);
      default:
        return 0;
    }
  }

  // Calls f(array element, value element) for the slice of a ref; outside elements are -1.
  template <typename F>
  void Walk(const Node& n, const F& f) {
    const kernel::Ref& ref = k.refs[n.ref];
    const Dims& whole = ref.shape.dims;
    std::vector<int64_t> start(whole.size()), size(whole.size(), 1);
    size_t v = 0;
    for (size_t d = 0; d < whole.size(); ++d) {
      start[d] = ref.role == kernel::Ref::Role::kScratch ? 0 : Index(ref.index[d]) * ref.block[d];
      if (ref.squeezed[d]) continue;
      const kernel::Slice& s = n.slices[v++];
      start[d] += s.start_node >= 0 ? values[s.start_node].data<int32_t>()[0] : s.start;
      size[d] = s.size;
    }
    int64_t count = 1;
    for (int64_t s : size) count *= s;
    for (int64_t i = 0; i < count; ++i) {
      int64_t rest = i, at = 0, scale = 1;
      bool inside = true;
      for (int d = static_cast<int>(whole.size()) - 1; d >= 0; --d) {
        int64_t x = start[d] + rest % size[d];
        rest /= size[d];
        inside = inside && x < whole[d];
        at += x * scale;
        scale *= whole[d];
      }
      f(inside ? at : -1, i);
    }
  }

  void Run(const kernel::Region& region) {
    for (NodeId id : region.nodes) {
      const Node& n = k.nodes[id];
      Shape shape = n.shape;
      switch (n.kind) {
        case Node::Kind::kLoad: {
          Literal l(shape);
          int64_t b = LiteralBytesOf(shape.type);
          Walk(n, [&](int64_t at, int64_t i) {
            if (at >= 0) std::memcpy(l.bytes() + i * b, arrays[n.ref].bytes() + at * b, b);
          });
          values[id] = std::move(l);
          break;
        }
        case Node::Kind::kStore: {
          const Literal& l = values[n.operands[0]];
          int64_t b = LiteralBytesOf(l.shape().type);
          Walk(n, [&](int64_t at, int64_t i) {
            if (at >= 0) std::memcpy(arrays[n.ref].bytes() + at * b, l.bytes() + i * b, b);
          });
          break;
        }
        case Node::Kind::kAxis:
        case Node::Kind::kNumAxis:
          values[id] = Literal(shape);
          values[id].data<int32_t>()[0] = static_cast<int32_t>(
              n.kind == Node::Kind::kAxis ? point[n.axis] : k.grid[n.axis].extent);
          break;
        case Node::Kind::kWhen:
          if (values[n.operands[0]].bytes()[0]) {
            Run(n.regions[0]);
          } else if (n.regions.size() > 1) {
            Run(n.regions[1]);
          }
          break;
        case Node::Kind::kFor:
          for (int64_t i = n.lower; i < n.upper; ++i) {
            for (NodeId o : n.regions[0].nodes) {
              if (k.nodes[o].kind != Node::Kind::kLoopIndex) continue;
              values[o] = Literal(k.nodes[o].shape);
              values[o].data<int32_t>()[0] = static_cast<int32_t>(i);
            }
            Run(n.regions[0]);
          }
          break;
        case Node::Kind::kLoopIndex:
          break;
        case Node::Kind::kWhile:
        case Node::Kind::kCopyStart:
        case Node::Kind::kCopyWait:
        case Node::Kind::kSignal:
        case Node::Kind::kWait:
        case Node::Kind::kPipeline:
          ADD_FAILURE() << "no lowering to compare with yet";
          break;
        case Node::Kind::kHlo: {
          if (n.op == Op::kConstant) {
            values[id] = *n.literal;
            break;
          }
          std::vector<const Literal*> operands;
          for (NodeId o : n.operands) operands.push_back(&values[o]);
          EvalOptions options;
          options.numbers = Numbers::kChip;
          std::optional<Literal> r;
          if (n.op == Op::kReduce) {
            r = EvaluateReduce(n.reducer, shape, *operands[0], *operands[1],
                               n.IntsAttr(AttrId::kDimensions), &error);
          } else {
            r = EvaluateOp(n.op, shape, operands, n.attrs, options, &error);
          }
          if (!r) {
            if (error.empty()) error = "evaluator failed";
            values[id] = Literal(shape);
          } else {
            values[id] = std::move(*r);
          }
          break;
        }
      }
    }
  }
};

double At(const Literal& l, int64_t i) {
  switch (l.shape().type) {
    case Type::kF32:
      return l.data<float>()[i];
    case Type::kBF16: {
      uint32_t bits = uint32_t{l.data<uint16_t>()[i]} << 16;
      float f;
      std::memcpy(&f, &bits, 4);
      return f;
    }
    case Type::kS32:
      return l.data<int32_t>()[i];
    case Type::kU32:
      return l.data<uint32_t>()[i];
    case Type::kS16:
      return l.data<int16_t>()[i];
    case Type::kU16:
      return l.data<uint16_t>()[i];
    case Type::kS8:
      return l.data<int8_t>()[i];
    case Type::kF16:
      return num::WidenFloat(num::kF16Format, l.data<uint16_t>()[i]);
    case Type::kF8E5M2:
      return num::WidenFloat(num::kF8E5M2Format, l.bytes()[i]);
    case Type::kF8E4M3:
      return num::WidenFloat(num::kF8E4M3Format, l.bytes()[i]);
    case Type::kF8E3M4:
      return num::WidenFloat(num::kF8E3M4Format, l.bytes()[i]);
    case Type::kF8E4M3FN:
      return num::WidenFloat(num::kF8E4M3FNFormat, l.bytes()[i]);
    default:
      return l.data<uint8_t>()[i];
  }
}

void Compare(const Literal& got, const Literal& want, Outcome* out) {
  double scale = 0;
  for (int64_t i = 0; i < want.size(); ++i) {
    double w = std::fabs(At(want, i));
    if (std::isfinite(w)) scale = std::max(scale, w);
  }
  for (int64_t i = 0; i < want.size(); ++i) {
    double g = At(got, i), w = At(want, i);
    if (std::isnan(w) && std::isnan(g)) continue;
    if (g == w) continue;
    out->exact = false;
    double d = std::fabs(g - w);
    if (!std::isfinite(d)) d = 1e30;
    if (std::fabs(g) < 1.2e-38 && std::fabs(w) < 1.2e-38) continue;
    out->max_error = std::max(out->max_error, scale > 0 ? d / scale : d);
    out->max_relative = std::max(out->max_relative, w != 0 ? d / std::fabs(w) : d);
    if (std::getenv("TPUC_SHOW") && d > 1e-4 * scale) {
      fprintf(stderr, "  element %lld: got %g want %g\n", static_cast<long long>(i), g, w);
    }
  }
}

isa::Inst Inst(isa::Opcode op, isa::Reg dest, std::initializer_list<isa::Operand> src) {
  isa::Inst i;
  i.op = op;
  i.dest = dest;
  i.src.assign(src.begin(), src.end());
  return i;
}

}  // namespace

Outcome RunBoth(const kernel::Kernel& k, const RunSettings& settings) {
  Outcome out;
  const Chip& chip = *BuiltinChip(settings.chip);
  DiagSink diags;
  isa::Program program;
  program.chip_name = chip.name;
  program.chip_text = chip.text;
  // Buffers: every operand in HBM; those of the kernel in VMEM also there.
  int64_t hbm = 0, vmem = 0;
  struct Place {
    int ref;
    int64_t hbm, vmem = -1, bytes;
  };
  std::vector<Place> places;
  std::vector<interp::PortData> port_data;
  Reference ref{k, {}, {}, {}, ""};
  ref.arrays.resize(k.refs.size());
  ref.values.resize(k.nodes.size());
  int64_t input = 0;
  for (size_t r = 0; r < k.refs.size(); ++r) {
    const kernel::Ref& x = k.refs[r];
    Shape logical = Shape::Array(x.shape.type, x.shape.dims);
    if (x.role == kernel::Ref::Role::kScratch) {
      ref.arrays[r] = Literal(logical);
      continue;
    }
    Place p{static_cast<int>(r), hbm, -1, (DeviceBytes(x.shape) + 4095) / 4096 * 4096};
    isa::Buffer b;
    b.name = x.name;
    b.offset = hbm;
    b.bytes = p.bytes;
    hbm += p.bytes;
    program.buffers.push_back(b);
    isa::Port port{x.name, ToString(x.shape), static_cast<int>(program.buffers.size()) - 1, -1};
    if (x.role == kernel::Ref::Role::kIn) {
      ref.arrays[r] =
          settings.inputs.empty() ? GenerateInput(logical, input, 0) : settings.inputs[input];
      ++input;
      program.inputs.push_back(port);
      port_data.push_back({PackToDevice(ref.arrays[r], x.shape)});
    } else {
      ref.arrays[r] = Literal(logical);
      program.outputs.push_back(port);
    }
    if (x.InVmem()) {
      p.vmem = vmem;
      isa::Buffer v = b;
      v.name += ".vmem";
      v.memory = isa::Memory::kVmem;
      v.offset = vmem;
      vmem += p.bytes;
      program.buffers.push_back(v);
    }
    places.push_back(p);
  }
  llo::Function f;
  LowerOptions options;
  options.first_row = vmem / 512;
  options.row_limit = chip.scoped_vmem_bytes / 512;
  options.first_flag = 4;
  options.opt_level = settings.opt_level;
  options.strips = settings.whole ? Strips::kWhole : Strips::kAuto;
  bool ok = LowerKernel(k, chip, options, &f, &program.sources, &diags);
  if (settings.text) out.llo = bundle::PrintLlo(f);
  if (!ok || !VerifyLlo(f, &diags, chip.mxu_tiles())) {
    out.error = diags.Render();
    return out;
  }
  AssembleOptions assemble;
  assemble.opt_level = settings.opt_level;
  assemble.spill_row = options.first_row + options.row_limit;
  isa::Function kernel_code;
  int64_t spill_rows = 0;
  if (!Assemble(f, chip, assemble, &kernel_code, &spill_rows, &diags)) {
    out.error = diags.Render();
    return out;
  }
  isa::Buffer scoped;
  scoped.name = "scoped";
  scoped.memory = isa::Memory::kVmem;
  scoped.offset = vmem;
  scoped.bytes = chip.scoped_vmem_bytes + (spill_rows + 8) * 512;
  program.buffers.push_back(scoped);
  out.bundles = static_cast<int64_t>(kernel_code.bundles.size());
  out.spills = kernel_code.info.spills;
  program.kernels.push_back(kernel_code);
  if (settings.text) out.bundles_text = bundle::PrintFunction(kernel_code, 0);
  // TLP: copies, the call, copies back.
  auto emit = [&](isa::Inst i) {
    isa::Bundle b;
    b.insts.push_back(std::move(i));
    program.tlp.bundles.push_back(std::move(b));
  };
  using isa::Opcode;
  using isa::Operand;
  auto copy = [&](const Place& p, bool in) {
    Operand h = Operand::Imm(static_cast<int32_t>(p.hbm / 32)),
            n = Operand::Imm(static_cast<int32_t>(p.bytes / 32));
    Operand v = Operand::Imm(static_cast<int32_t>(p.vmem / 512)), flag = Operand::Imm(0);
    emit(Inst(Opcode::kVsyncpa, {}, {flag, Operand::Imm(0)}));
    emit(in ? Inst(Opcode::kDmaHbmToVmem, {}, {h, n, v, flag})
            : Inst(Opcode::kDmaVmemToHbm, {}, {v, n, h, flag}));
    emit(Inst(Opcode::kDmaDoneWait, {}, {flag, n}));
  };
  for (const Place& p : places) {
    if (p.vmem >= 0 && k.refs[p.ref].role == kernel::Ref::Role::kIn) copy(p, true);
  }
  for (size_t i = 0; i < places.size(); ++i) {
    const Place& p = places[i];
    emit(Inst(Opcode::kSmov, isa::S(static_cast<int>(i)),
              {Operand::Imm(static_cast<int32_t>(p.vmem >= 0 ? p.vmem / 512 : p.hbm / 32))}));
  }
  isa::Inst call = Inst(Opcode::kCall, {}, {});
  call.target = 0;
  for (size_t i = 0; i < places.size(); ++i) call.src.push_back(isa::S(static_cast<int>(i)));
  emit(call);
  for (const Place& p : places) {
    if (p.vmem >= 0 && k.refs[p.ref].role == kernel::Ref::Role::kOut) copy(p, false);
  }
  interp::RunOptions run;
  run.max_cycles = 50000000;
  interp::RunResult r = interp::Run(program, chip, port_data, run);
  if (!r.ok) {
    out.error =
        absl::StrCat(r.fault.message, " at bundle ", r.fault.bundle, " of ", r.fault.kernel);
    return out;
  }
  out.cycles = r.kernels[0].cycles - r.kernels[0].stall_dma;
  out.dma_stall = r.kernels[0].stall_dma;
  out.mxu = r.kernels[0].slots.mxu;
  // The reference.
  int64_t steps = k.GridSteps();
  ref.point.assign(k.grid.size(), 0);
  for (int64_t s = 0; s < steps; ++s) {
    int64_t rest = s;
    for (int a = static_cast<int>(k.grid.size()) - 1; a >= 0; --a) {
      ref.point[a] = rest % k.grid[a].extent;
      rest /= k.grid[a].extent;
    }
    ref.Run(k.body);
  }
  if (!ref.error.empty()) {
    out.error = "reference: " + ref.error;
    return out;
  }
  size_t o = 0;
  for (const Place& p : places) {
    const kernel::Ref& x = k.refs[p.ref];
    if (x.role != kernel::Ref::Role::kOut) continue;
    Literal got = UnpackFromDevice(r.outputs[o++], x.shape);
    Compare(got, ref.arrays[p.ref], &out);
    out.got.push_back(got);
    out.want.push_back(ref.arrays[p.ref]);
  }
  out.ok = true;
  return out;
}

}  // namespace tpuc
