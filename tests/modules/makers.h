// One function a family of opcodes: appends one random instruction of that opcode (and what it
// needs) to the computation; null where this try made none. The table in generator.cc says which
// opcode is made by which.
#pragma once

#include "tests/modules/builder.h"

namespace tpuc::random_modules {

using Maker = Instruction* (*)(Builder* b, Op op);

// makers_elementwise.cc
Instruction* Unary(Builder* b, Op op);
Instruction* Binary(Builder* b, Op op);
Instruction* Compare(Builder* b, Op op);
Instruction* Select(Builder* b, Op op);
Instruction* Clamp(Builder* b, Op op);
Instruction* Convert(Builder* b, Op op);
Instruction* BitcastConvert(Builder* b, Op op);
Instruction* StochasticConvert(Builder* b, Op op);
Instruction* ReducePrecision(Builder* b, Op op);
Instruction* Map(Builder* b, Op op);
// makers_movement.cc
Instruction* Source(Builder* b, Op op);  // parameter, constant, iota
Instruction* Broadcast(Builder* b, Op op);
Instruction* Reshape(Builder* b, Op op);
Instruction* DynamicReshape(Builder* b, Op op);
Instruction* Transpose(Builder* b, Op op);
Instruction* Reverse(Builder* b, Op op);
Instruction* Slice(Builder* b, Op op);
Instruction* DynamicSlice(Builder* b, Op op);
Instruction* DynamicUpdateSlice(Builder* b, Op op);
Instruction* Concatenate(Builder* b, Op op);
Instruction* Pad(Builder* b, Op op);
Instruction* Bitcast(Builder* b, Op op);
Instruction* Copy(Builder* b, Op op);
Instruction* Gather(Builder* b, Op op);
Instruction* Scatter(Builder* b, Op op);
Instruction* DimensionSize(Builder* b, Op op);
// makers_math.cc
Instruction* Dot(Builder* b, Op op);
Instruction* RaggedDot(Builder* b, Op op);
Instruction* ScaledDot(Builder* b, Op op);
Instruction* Convolution(Builder* b, Op op);
Instruction* Cholesky(Builder* b, Op op);
Instruction* TriangularSolve(Builder* b, Op op);
Instruction* Fft(Builder* b, Op op);
Instruction* Reduce(Builder* b, Op op);
Instruction* ReduceWindow(Builder* b, Op op);
Instruction* SelectAndScatter(Builder* b, Op op);
Instruction* Scan(Builder* b, Op op);
Instruction* Sort(Builder* b, Op op);
Instruction* Topk(Builder* b, Op op);
Instruction* BatchNorm(Builder* b, Op op);
Instruction* Rng(Builder* b, Op op);
Instruction* RngBitGenerator(Builder* b, Op op);
Instruction* RngState(Builder* b, Op op);
// makers_calls.cc
Instruction* Tuple(Builder* b, Op op);  // and get-tuple-element
Instruction* Call(Builder* b, Op op);
Instruction* While(Builder* b, Op op);
Instruction* Conditional(Builder* b, Op op);
Instruction* Fusion(Builder* b, Op op);
Instruction* CustomCall(Builder* b, Op op);
Instruction* PassOn(Builder* b, Op op);  // opt-barrier, domain
Instruction* Token(Builder* b, Op op);   // after-all, add-dependency
Instruction* DeviceId(Builder* b, Op op);
Instruction* Collective(Builder* b, Op op);
Instruction* StartDone(Builder* b, Op op);  // copy, all-reduce, all-gather, collective-permute
Instruction* Async(Builder* b, Op op);
Instruction* RaggedAllToAll(Builder* b, Op op);

}  // namespace tpuc::random_modules
