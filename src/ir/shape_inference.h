// XLA's shape rules: what an instruction's operands and attributes make of its shape.
//
//   add(f32[8,128], f32[8,128]) -> f32[8,128];   add(f32[8,128], f32[8,256]) -> an error
//
// Results carry no layout. Text only; the verifier turns errors into diagnostics.
#pragma once

#include <string>

#include "src/ir/hlo.h"

namespace tpuc {

// The shape that follows from operands and attributes. Opcodes whose shape must be written
// (broadcast, reshape, iota, convert ...) are checked against instruction.shape, which supplies
// what the operands do not. False with a message that names the operand, what it is and what it
// should be. Attributes that the opcode requires are there. Never aborts on wrong numbers.
bool InferShape(const Instruction& instruction, Shape* result, std::string* error);

// Opcodes with a full rule above, which the verifier holds programs to; all others are accepted as
// written (InferShape still answers for those whose shape may be left out).
bool HasShapeRule(Op op);

// "operand 1 'x' (f32[8,256])": how an operand is called in messages.
std::string OperandText(const Instruction& instruction, int64_t operand);

namespace shape_rules {  // one function a family of opcodes, in files of their own
bool Elementwise(const Instruction& instruction, Shape* result, std::string* error);
bool Movement(const Instruction& instruction, Shape* result, std::string* error);
bool Contraction(const Instruction& instruction, Shape* result, std::string* error);
bool Reduction(const Instruction& instruction, Shape* result, std::string* error);
bool Calls(const Instruction& instruction, Shape* result, std::string* error);
bool Others(const Instruction& instruction, Shape* result, std::string* error);
// Each dimension number from 0 to rank-1, none twice.
bool CheckDimensions(const Ints& dimensions, int64_t rank, absl::string_view what,
                     std::string* error);
}  // namespace shape_rules

}  // namespace tpuc
