// The kernel level: what a fusion and a hand-written .tk file both are. A grid, a window of each
// operand at each grid point, and a body over windows held in VMEM; and the program that calls
// kernels in order (one text form, grammar/kernel/kernel.ebnf).
//
//   kernel matmul {
//     param M = 512, N = 512, K = 512, bm = 128, bn = 256, bk = 256;
//     grid i: cdiv(M, bm) parallel, j: cdiv(N, bn) parallel, k: cdiv(K, bk);
//     in  x: f32[M,K] block [bm, bk] at (i, k);
//     in  w: f32[K,N] block [bk, bn] at (k, j);
//     out o: f32[M,N] block [bm, bn] at (i, j);
//     scratch acc: f32[bm,bn];
//     when k == 0 { acc[:] = 0; }
//     acc[:] = acc[:] + dot(x[:], w[:]);
//     when k == num(k) - 1 { o[:] = acc[:]; }
//   }
//
// A body is a graph of nodes in regions, in program order. Operations on block values are HLO's own
// (Op and its attributes, HLO shape rules), so one evaluator function serves both levels.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/diag/diag.h"
#include "src/ir/hlo.h"
#include "src/ir/literal.h"
#include "src/ir/shape.h"

namespace tpuc::kernel {

// An integer expression over grid indices, grid sizes, parameters, constants and, where the scalar
// core evaluates it (index maps, run-time grid bounds), prefetched scalars. Parameters stay names,
// so that printing keeps what the author may edit.
struct Expr {
  enum class Kind : uint8_t {
    kConst,
    kAxis,
    kNum,
    kParam,
    kAdd,
    kSub,
    kMul,
    kDiv,
    kCdiv,
    kMod,
    kMin,
    kMax,
    kNeg,
    kEq,
    kNe,
    kLt,
    kLe,
    kGt,
    kGe,  // 1 or 0
    kAnd,
    kOr,
    kNot,       // of conditions (0 is false): 1 or 0
    kSelect,    // args[0] != 0 ? args[1] : args[2]
    kPrefetch,  // element args of the prefetch ref `value`
    kBlocks,    // number args[0] (BlockCount) of blocks declaration `value`
    kOperand,   // in a Pipeline: its node's scalar operand `value`
    kArray,     // in a mask: element args of the kernel's array `value`
  };
  Kind kind = Kind::kConst;
  int64_t value = 0;  // kConst; kAxis, kNum: axis; kParam: parameter; kPrefetch: ref; kOperand
  std::vector<Expr> args;
  static Expr Const(int64_t v) {
    Expr e;
    e.value = v;
    return e;
  }
  static Expr Axis(int64_t axis) {
    Expr e;
    e.kind = Kind::kAxis;
    e.value = axis;
    return e;
  }
  static Expr Param(int64_t param) {
    Expr e;
    e.kind = Kind::kParam;
    e.value = param;
    return e;
  }
};

struct Param {
  std::string name;
  int64_t value = 0;
};

// array NAME: s8[8,8] = ...: numbers that are known before the kernel runs, for masks.
struct Array {
  std::string name;
  Shape shape;
  std::vector<Expr> dim_exprs;
  std::shared_ptr<const Literal> values;
  std::string file;  // where they are from; "": from the text
};

// mask NAME(row, col) over [rows, cols] = value: which key columns a query row may see. Arithmetic
// is that of bodies: division rounds towards zero.
struct Mask {
  std::string name, row, col;
  std::vector<Expr> extent_exprs;  // two: rows, columns
  int64_t rows = 0, cols = 0;
  Expr value;  // over parameters, kAxis 0 (the row) and 1 (the column)
  Loc loc;
};

struct BlockTables;  // mask.h

// blocks NAME of MASK by (rows, columns): what a grid over the mask's blocks needs to know.
struct Blocks {
  std::string name;
  int mask = -1;
  std::vector<Expr> block_exprs;  // two
  int64_t block_rows = 0, block_cols = 0;
  std::shared_ptr<const BlockTables> tables;
  Loc loc;
};

struct GridAxis {
  std::string name;
  Expr size;               // over parameters; with prefetched scalars it is known at run time only
  int64_t extent = 1;      // its value, or the most it may be at run time
  std::vector<Expr> most;  // one where size is known at run time only: extent, over parameters
  bool parallel = false;
  Loc loc;
};

struct Ref {  // an operand or a scratch buffer
  // kPrefetch: an input that lies whole in SMEM before the first grid point (scalars that index
  // maps, run-time grid bounds and the body read).
  enum class Role : uint8_t { kIn, kOut, kScratch, kPrefetch };
  // Where the body finds it. kWindow: a block in VMEM, moved by the pipeline (in, out), or a
  // scratch buffer in VMEM. kHbm: in place, for explicit copies only. kSmem: scalars, read and
  // written one at a time. kSemaphore (scratch): counters of copies (in bytes) and of signals.
  enum class Space : uint8_t { kWindow, kHbm, kSmem, kSemaphore };
  std::string name;
  Role role = Role::kIn;
  Space space = Space::kWindow;
  Shape shape;                  // the whole array, with layout and memory space; scratch: its block
  std::vector<Expr> dim_exprs;  // of shape.dims, for printing
  std::vector<int64_t> block;   // of each dimension, in elements; the whole array: shape.dims
  std::vector<Expr> block_exprs;
  std::vector<bool> squeezed;  // dimension dropped from the body's view (block size 1)
  std::vector<Expr> index;     // of each dimension, in blocks, over grid indices and prefetch
  bool element_index = false;  // index counts elements, not blocks (window at any offset)
  // .. of each dimension, elements before the array that a window may begin at; none: 0. They have
  // no value, and are not written.
  std::vector<int64_t> low_pad;
  int buffers = 2;  // of the pipeline; an operand already in VMEM has none: it is a view
  int alias = -1;   // output: input ref whose buffer it updates
  // kIn, kPrefetch: a constant of the kernel (a mask's tables) and no operand of its calls.
  std::shared_ptr<Literal> constant;
  std::string table;  // where the constant is from: "B.row" of blocks B
  Loc loc;
  int window_of = -1;  // kIn, kOut of a Pipeline: the kHbm ref that it is a window of
  int pipeline = -1;   // .. and which of Kernel::pipelines it is of
  // Given at each call, as the in and out refs of Step::operands are.
  bool IsOperand() const { return role != Role::kScratch && !constant && window_of < 0; }
  // Has an address from outside when the kernel runs: operands, constants, scratch in HBM.
  bool HasAddress() const {
    return window_of < 0 && (role != Role::kScratch || space == Space::kHbm);
  }
  // Moved by the pipeline, or a view of an operand in VMEM; constants too.
  bool IsWindow() const {
    return (role == Role::kIn || role == Role::kOut) && space == Space::kWindow && window_of < 0;
  }
  bool InSmem() const { return space == Space::kSmem; }
  bool InVmem() const { return shape.layout && shape.layout->memory_space == 1; }
  Shape BlockShape() const;  // as the body sees it: element type, unsqueezed block dims
};

using NodeId = int32_t;

struct Region {
  std::vector<NodeId> nodes;  // in program order
};

// One dimension of a load or store: [start : start + size], start a scalar node (-1: the constant).
struct Slice {
  NodeId start_node = -1;
  int64_t start = 0, size = 0;
  int64_t multiple_of = 1;                  // the author's promise for start_node
  std::vector<Expr> start_expr, size_expr;  // none, or one where written with parameters
};

// A part of a ref that an explicit copy, wait or signal names; dimensions may be dropped from it.
struct RefView {
  int ref = -1;
  std::vector<Slice> slices;  // one a dimension of the ref's block view
  std::vector<bool> dropped;  // of size 1, not in the copied shape
};

struct Node {
  enum class Kind : uint8_t {
    kHlo,        // op on operands
    kLoad,       // the slice of ref -> a block value; of a ref in SMEM: one element -> a scalar
    kStore,      // operands[0] -> the slice of ref, where operands[1] (pred of its shape) if given
    kAxis,       // grid index `axis` (scalar s32); of a Pipeline around: `pipeline` too
    kNumAxis,    // its extent (scalar s32)
    kWhen,       // operands[0] pred[]: regions then, otherwise
    kFor,        // regions[0] runs with kLoopIndex in [lower, upper), or [operands[0], operands[1])
    kLoopIndex,  // counter (scalar s32) of the `axis`-th kFor around, 0 the innermost
    kWhile,      // regions[0] makes operands[0] (pred[]); while it is true, regions[1] runs
    kCopyStart,  // views {source, destination, semaphore}: starts an asynchronous copy
    kCopyWait,   // the same views: waits until the semaphore holds the copy's bytes and takes them
    kSignal,     // views {semaphore}: adds operands[0]
    kWait,       // views {semaphore}: waits until it holds operands[0] and takes it
    kPipeline,   // a nested pipeline over kHbm refs: `pipeline`, regions[0] its body at each
                 // point; operands: s32 scalars that its sizes and index maps name
  };
  Kind kind = Kind::kHlo;
  Op op = Op::kParameter;  // kHlo
  Shape shape;             // block value; no layout. kStore, kWhen, kFor: empty tuple
  std::vector<NodeId> operands;
  std::vector<Attr> attrs;  // kHlo: dimensions, slice, padding, contracting dims, direction ...
  Op reducer = Op::kAdd;    // kHlo kReduce: add, multiply, maximum, minimum, and, or
  std::shared_ptr<Literal> literal;  // kHlo kConstant
  int ref = -1;                      // kLoad, kStore
  std::vector<Slice> slices;         // kLoad, kStore: one a dimension of the ref's block view
  int axis = -1;
  int64_t lower = 0, upper = 0;  // kFor without operands
  int64_t unroll = 1;            // kFor: copies of the body a trip; 0: all trips
  std::vector<RefView> views;
  std::vector<Region> regions;   // kWhen: 1 or 2; kFor, kPipeline: 1; kWhile: 2
  int pipeline = -1;             // kPipeline, kAxis, kNumAxis: of Kernel::pipelines
  std::vector<Expr> dim_exprs;   // of shape.dims where written with parameters; may be empty
  std::vector<Expr> value_expr;  // none, or one: a scalar constant written with parameters
  std::vector<Expr>
      bound_exprs;      // kFor: {lower, upper} where written with parameters; may be empty
  std::string name;     // variable name in the text; may be empty
  std::string hlo;      // HLO instruction it came from
  std::string op_name;  // its metadata
  std::string place;    // "file.py:12" or "kernel.tk:12"
  Loc loc;

  const AttrValue* Find(AttrId id) const;
  const Ints& IntsAttr(AttrId id) const;
  absl::string_view StringAttr(AttrId id) const;
};

// The grid of a kPipeline node and the windows it moves. Its axes count on behind those of the
// kernel and of the pipelines around it.
struct Pipeline {
  std::vector<GridAxis> grid;
  std::vector<int> windows;  // refs with window_of >= 0
  int around = -1;           // the pipeline whose body it is in; -1: the kernel's
  int first_axis = 0;        // number of its first axis

  int64_t GridSteps() const;
};

// assert lhs cmp rhs "message": checked when parameters are set.
struct Assert {
  Expr lhs, rhs;
  std::string cmp;  // == != < <= > >=
  std::string message;
};

struct Kernel {
  std::string name;
  std::vector<Param> params;
  std::vector<Assert> asserts;
  std::vector<Array> arrays;
  std::vector<Mask> masks;
  std::vector<Blocks> blocks;
  std::vector<GridAxis> grid;       // last axis fastest; empty: one point
  std::vector<Ref> refs;            // inputs, outputs, scratch, in order of declaration
  std::vector<Pipeline> pipelines;  // nested ones, each of one kPipeline node (or its copies)
  std::vector<Node> nodes;          // by NodeId
  Region setup;                     // runs once before grid bounds and index maps are read
  Region body;
  std::vector<std::string> ops;  // source opcodes, for reports ("dot" even where canonicalised)
  std::vector<std::string> op_names;  // distinct metadata op_names
  Loc loc;

  int64_t GridSteps() const;
  // The axes that the body of a pipeline (-1: the kernel's) can name, by number.
  std::vector<GridAxis> AxesIn(int pipeline) const;
  const GridAxis& AxisOf(const Node& node) const;  // kAxis, kNumAxis
  std::vector<int> Inputs() const;                 // ref numbers
  std::vector<int> Outputs() const;
};

struct Buffer {
  std::string name;
  Shape shape;                    // logical dims with device layout and memory space
  int64_t offset = -1;            // bytes in its memory; -1: not assigned
  int64_t bytes = 0;              // DeviceBytes(shape), rounded up to the allocation granule
  std::shared_ptr<Literal> init;  // a constant
  int input = -1, output = -1;    // port number
  int64_t from = 0, to = 0;       // schedule positions, inclusive
};

struct Step {
  enum class Kind : uint8_t { kCopyStart, kCopyDone, kCall };
  Kind kind = Kind::kCall;
  int kernel = -1;  // kCall
  std::vector<int>
      operands;   // kCall: buffer of each in/out ref in order; copies: {source, destination}
  int copy = -1;  // copies: number that ties start and done
  bool cross_program = false;
  std::string name;  // HLO instruction
  std::string op_name;
};

struct Port {
  std::string name;
  Shape shape;
  int buffer = -1;
};

// A program: what the HLO passes produce and what a .tk file with a `program` states.
struct Program {
  std::string name;
  std::shared_ptr<const Source> source;
  std::vector<Kernel> kernels;
  std::vector<Buffer> buffers;
  std::vector<Step> steps;
  std::vector<Port> inputs, outputs;
};

}  // namespace tpuc::kernel
