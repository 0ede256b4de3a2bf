// Syntax trees of .tk files: what kernel.ebnf says and nothing more. The parser makes them from
// text, elaboration turns them into kernel::Program (names, shapes, types), the printer makes them
// from a Program and prints them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/diag/diag.h"

namespace tpuc::kernel_text {

// One tree for all expressions; deeper than kMaxDepth is a syntax error.
struct Expr {
  enum class Kind : uint8_t {
    kEmpty,      // the absent part of a range
    kInteger,    // text
    kNumber,     // text
    kName,       // text
    kString,     // text
    kUnary,      // text is the operator; args[0]
    kBinary,     // text is the operator; args[0], args[1]
    kCall,       // text is the callee; args
    kNamed,      // argument: text = args[0]
    kIndex,      // args[0] indexed by the other args
    kTranspose,  // args[0]^T
    kRange,      // text ":" : start, limit, stride; text ":+" : start, size
    kList,       // [args]
    kSet,        // {args}
  };
  static constexpr int kMaxDepth = 200;
  Kind kind = Kind::kEmpty;
  int depth = 1;
  Loc loc;
  std::string text;
  std::vector<Expr> args;
};

struct Array {
  std::string type;
  std::vector<Expr> dims;
  std::string layout;  // "{1,0:T(8,128)}" or ""
  Loc loc;
};

struct Axis {
  std::string name;
  Expr size;
  std::vector<Expr> most;  // none or one
  bool parallel = false;
  Loc loc;
};

struct Operand {
  std::string role;  // prefetch, in, out, scratch
  std::string name;
  Array array;
  std::string space;  // "", hbm, smem
  std::string table;  // "B.row": the array is that table
  bool has_block = false, has_at = false, element = false;
  std::vector<Expr> block, at;  // a block dimension may be the name squeeze
  std::vector<Expr> pads;       // one for each of `at`; kEmpty: none
  std::string buffers;          // integer or ""
  std::string alias;
  std::vector<Expr> present;  // none, or a condition of parameters: else it is not declared
  std::string of;             // a window of a pipeline: the array in HBM
  Loc loc;
};

struct Statement {
  enum class Kind : uint8_t {
    kAssign,
    kStore,
    kWhen,
    kFor,
    kWhile,
    kCopy,
    kWaitCopy,
    kSignal,
    kWait,
    kPipeline,
    kCall,
    kAssert
  };
  Kind kind = Kind::kAssign;
  std::string name;         // kAssign, kFor
  std::string op = "=";     // kStore: = += -= *= /=
  Expr target;              // kStore: kIndex of a name
  Expr value, limit;        // kFor: value .. limit; kWhen, kWhile, kAssert: the condition; kCall
  std::vector<Expr> views;  // kCopy, kWaitCopy: source, destination, semaphore; kSignal, kWait:
                            // one; names, or kIndex of one. Their count is `value`
  std::string unroll;       // kFor: "", or copies of the body a trip; "0": all trips
  std::string message;      // kAssert
  std::vector<Axis> axes;   // kPipeline
  std::vector<Operand> windows;                // kPipeline
  std::vector<Expr> where;                     // kStore: none, or a mask
  std::vector<std::vector<Statement>> blocks;  // kWhen: 1 or 2, kFor, kWhile, kPipeline: 1
  std::string comment;                         // printed behind it
  Loc loc;
};

struct Parameter {
  std::string name;
  Expr value;
  Loc loc;
};

struct MaskDecl {
  std::string name, row, col;
  std::vector<Expr> extents;  // two
  Expr value;
  Loc loc;
};

struct BlocksDecl {
  std::string name, mask;
  std::vector<Expr> sizes;  // two
  Loc loc;
};

struct Function {  // def name(parameters) = value;   def name(parameters) { statements }
  std::string name;
  std::vector<std::string> parameters;
  Expr value;
  bool has_block = false;
  std::vector<Statement> block;
  Loc loc;
};

// Values of an array, row major as written; rows nest.
struct LiteralText {
  enum class Kind : uint8_t { kNone, kScalar, kSplat, kElided, kRows };
  Kind kind = Kind::kNone;
  std::vector<std::string> values;  // signed words: "-1.5", "inf"
  std::string shape;  // nesting of rows as braces: "{{}{}}", to check against the array
};

struct ArrayDecl {  // array name: s8[8,8] = "file.npy";
  std::string name;
  Array array;
  LiteralText literal;
  std::string file;  // or ""
  Loc loc;
};

struct Kernel {
  std::string name;
  std::vector<Parameter> parameters;
  std::vector<ArrayDecl> arrays;
  std::vector<MaskDecl> masks;
  std::vector<BlocksDecl> blocks;
  std::vector<Axis> grid;
  std::vector<Operand> operands;
  std::vector<Function> functions;
  std::vector<Statement> setup, statements;
  Loc loc;
};

struct Item {
  enum class Kind : uint8_t { kBuffer, kInput, kOutput, kCopyStart, kCopyDone, kCall };
  Kind kind = Kind::kBuffer;
  std::string name;  // of the buffer, port, copy; kCall: of the kernel
  bool has_array = false;
  Array array;
  std::string offset, bytes, from, to;  // integers or ""
  LiteralText literal;
  std::string in;                     // port: its buffer
  bool none = false;                  // port without a buffer
  std::vector<std::string> operands;  // kCopyStart: source, destination; kCopyDone: the copy; kCall
  bool cross_program = false;
  std::string as;  // kCall: its own name
  Loc loc;
};

struct Program {
  std::string name;
  std::vector<Item> items;
  Loc loc;
};

struct File {
  std::vector<Kernel> kernels;
  std::vector<Program> programs;
};

// Null after a syntax error (kSyntax). Recovers at statement ends, so that several are reported.
std::unique_ptr<File> ParseSyntax(std::shared_ptr<const Source> source, DiagSink* diags);
// One expression and nothing after it.
std::optional<Expr> ParseExpression(std::shared_ptr<const Source> source, DiagSink* diags);
std::string PrintSyntax(const File& file);
std::string PrintSyntax(const Kernel& kernel);
std::string PrintSyntax(const Expr& e);

}  // namespace tpuc::kernel_text
