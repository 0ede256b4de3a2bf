// XLA's shape rules: what an instruction's operands and attributes make of its shape.
//
//   add(f32[8,128], f32[8,128]) -> f32[8,128];   add(f32[8,128], f32[8,256]) -> an error
//
// Results carry no layout. Text only; the verifier turns errors into diagnostics.
#pragma once

#include <string>
#include <vector>

#include "src/ir/hlo.h"

namespace tpuc {

// The shape that follows from operands and attributes. Opcodes whose shape must be written
// (broadcast, reshape, iota, convert ...) are checked against instruction.shape, which supplies
// what the operands do not. False with a message that names the operand, what it is and what it
// should be. Attributes that the opcode requires are there. Never aborts on wrong numbers.
bool InferShape(const Instruction& instruction, Shape* result, std::string* error);

// Opcodes with a full rule above, which the verifier holds programs to. The others are while and
// conditional, whose computations the verifier checks, and custom-call, whose shape is its own.
bool HasShapeRule(Op op);

// "operand 1 'x' (f32[8,256])": how an operand is called in messages.
std::string OperandText(const Instruction& instruction, int64_t operand);

namespace shape_rules {  // one function a family of opcodes, in files of their own
bool Elementwise(const Instruction& instruction, Shape* result, std::string* error);
bool Movement(const Instruction& instruction, Shape* result, std::string* error);
bool Indexing(const Instruction& instruction, Shape* result, std::string* error);
bool Contraction(const Instruction& instruction, Shape* result, std::string* error);
bool Convolution(const Instruction& instruction, Shape* result, std::string* error);
bool Reduction(const Instruction& instruction, Shape* result, std::string* error);
bool ReduceWindow(const Instruction& instruction, Shape* result, std::string* error);
bool SelectAndScatter(const Instruction& instruction, Shape* result, std::string* error);
bool Calls(const Instruction& instruction, Shape* result, std::string* error);
bool Communication(const Instruction& instruction, Shape* result, std::string* error);
bool Others(const Instruction& instruction, Shape* result, std::string* error);

// *error = message; false.
bool Fail(std::string* error, std::string message);
Shape WithoutLayout(Shape shape);
// Each dimension number from 0 to rank-1, none twice.
bool CheckDimensions(const Ints& dimensions, int64_t rank, absl::string_view what,
                     std::string* error);
// Operands of different precision give the wider one's; a written result may say otherwise.
Type WiderType(Type a, Type b);
// n operands, n initial values, and a computation that combines them.
bool CheckReducer(const Instruction& instruction, std::string* error);
// One array a result of the reducer, each of dimensions `dims`.
Shape ReducedShape(const Instruction& instruction, const Dims& dims);
// The computation takes n old values, then n new ones, and yields n; floats may be of another
// precision.
bool CombinesValues(const Instruction& instruction, const Computation& body,
                    const std::vector<Shape>& values, std::string* error);
bool CombinesScalars(const Instruction& instruction, const Computation& body,
                     const std::vector<Type>& types, std::string* error);
// The computation takes a left and a right scalar of each type in turn and yields pred[].
bool ComparesScalars(const Instruction& instruction, const Computation& body,
                     const std::vector<Type>& types, std::string* error);
}  // namespace shape_rules

}  // namespace tpuc
