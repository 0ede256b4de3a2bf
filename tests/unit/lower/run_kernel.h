// Builds kernels in code and runs them: through lowering, assembly and the interpreter on one side,
// node by node through the reference evaluator on the other.
//
//   KernelBuilder b;  int x = b.In({16, 64}), o = b.Out({16});
//   b.Store(o, b.Reduce(Op::kAdd, b.Load(x), {1}));
//   Outcome r = RunBoth(b.k);   // r.cycles, r.max_error ...
#pragma once

#include <string>
#include <vector>

#include "backend/chip/chip.h"
#include "backend/kernel/kernel.h"
#include "src/ir/literal.h"

namespace tpuc {

class KernelBuilder {
 public:
  KernelBuilder() { k.name = "test"; }
  // space: 0 HBM, 1 VMEM. minor: minor-to-major order, empty for row major.
  int In(Dims dims, int space = 0, Type type = Type::kF32, Dims minor = {});
  int Out(Dims dims, int space = 0, Type type = Type::kF32, Dims minor = {});
  int Scratch(Dims dims, Type type = Type::kF32);
  // Makes the last ref a window: blocks at these block indices.
  void Block(Dims block, std::vector<kernel::Expr> index, std::vector<bool> squeezed = {});
  kernel::NodeId Load(int ref);
  kernel::NodeId LoadAt(int ref, std::vector<kernel::Slice> slices);
  void Store(int ref, kernel::NodeId value);
  kernel::NodeId Hlo(Op op, Type type, Dims dims, std::vector<kernel::NodeId> operands,
                     std::vector<Attr> attrs = {});
  // The operand's type and dimensions.
  kernel::NodeId Like(Op op, std::vector<kernel::NodeId> operands, std::vector<Attr> attrs = {});
  kernel::NodeId Constant(float v);
  kernel::NodeId Int(int32_t v);
  kernel::NodeId Splat(float v, Dims dims);
  kernel::NodeId Broadcast(kernel::NodeId x, Dims dims, Ints map);
  kernel::NodeId Reduce(Op reducer, kernel::NodeId x, Ints over);
  kernel::NodeId Dot(kernel::NodeId a, kernel::NodeId b, Ints lc, Ints rc, Ints lb = {},
                     Ints rb = {});
  kernel::NodeId Compare(std::string direction, kernel::NodeId a, kernel::NodeId b);
  kernel::NodeId Axis(int axis);
  // when p { .. }: nodes made by `body` go into the region.
  template <typename F>
  void When(kernel::NodeId p, F body) {
    kernel::Node n;
    n.kind = kernel::Node::Kind::kWhen;
    n.shape = Shape::Tuple({});
    n.operands = {p};
    kernel::NodeId id = Add(std::move(n));
    kernel::Region* outer = region_;
    kernel::Region inner;
    region_ = &inner;
    body();
    region_ = outer;
    k.nodes[id].regions = {inner};
  }
  kernel::NodeId Add(kernel::Node n);
  const Dims& dims(kernel::NodeId id) const { return k.nodes[id].shape.dims; }
  Type type(kernel::NodeId id) const { return k.nodes[id].shape.type; }

  kernel::Kernel k;

 private:
  int AddRef(Dims dims, int space, Type type, Dims minor, kernel::Ref::Role role);
  kernel::Region* region_ = &k.body;
};

struct Outcome {
  bool ok = false;
  std::string error;   // diagnostics or the fault
  int64_t cycles = 0;  // of the kernel, without DMA stalls
  int64_t dma_stall = 0;
  int64_t bundles = 0;
  int64_t spills = 0;
  int64_t mxu = 0;          // matmul cycles over all MXUs
  double max_error = 0;     // largest |difference| over outputs, relative to the largest |expected|
  double max_relative = 0;  // largest |difference| / |expected| of an element
  bool exact = true;
  std::string llo, bundles_text;
  std::vector<Literal> got, want;
};

struct RunSettings {
  int opt_level = 2;
  bool whole = false;           // --strips=whole
  std::vector<Literal> inputs;  // empty: generated
  bool text = false;
  std::string chip = "v6e";
};
Outcome RunBoth(const kernel::Kernel& kernel, const RunSettings& settings = {});

}  // namespace tpuc
