// The recursive-descent reader behind ParseHlo; its methods are spread over files by concern.
// Every Read* method returns false after it has reported an error (or after a name whose own
// definition failed, which needs no second report) and leaves the lexer at the place of the error.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "grammar/hlo/lexer.h"
#include "grammar/hlo/scope_names.h"
#include "src/diag/diag.h"
#include "src/ir/hlo.h"
#include "src/ir/op_table.h"

namespace tpuc::hlo {

// Levels of operands, shapes, literals and inline computations within one another. What is made of
// them (shapes, literals) is walked by recursion everywhere; a tuple's literal also holds its whole
// shape at each level, so that its memory grows with the square of the depth.
inline constexpr int kMaxDepth = 1024;

// The names of one computation while it is read.
struct Scope {
  Computation* computation = nullptr;
  ScopeNames names;
  bool implicit_parameters = false;  // a single instruction's undefined operands
  Instruction* root = nullptr;
  Loc root_loc;
  int64_t parameters = 0;
  // Made get-tuple-elements by tuple and index, and how often a made name was tried.
  absl::flat_hash_map<std::pair<Instruction*, int64_t>, Instruction*> elements;
  absl::flat_hash_map<std::string, int64_t> next_name;
};

class Reader {
 public:
  Reader(std::shared_ptr<const Source> source, DiagSink* diags);

  std::unique_ptr<Module> ReadText();
  bool ReadShape(Shape* shape);  // shapes.cc
  const Lexer& lexer() const { return lexer_; }

 private:
  // ---- parser.cc: the text as a whole, computations, errors ----
  bool ReadModule();
  bool ReadSingleInstruction();
  bool ReadComputation();
  bool ReadBody(Scope* scope);
  void ReserveLines(Scope* scope);
  bool ReadSignature(Shape* result);
  bool FinishComputation(Scope* scope, Loc loc);
  bool CheckParameters(const Scope& scope, Loc loc);
  void NameInlineComputations();
  bool LooksLikeMlir() const;
  // Goes on at the next line that begins an instruction or with "}"; `failed` is where the
  // instruction began that could not be read.
  void Recover(const char* failed);

  bool Fail(DiagCode code, Loc loc, std::string message, std::string hint = "");
  bool Note(Loc loc, std::string message);  // to the error just reported; false
  bool Expected(absl::string_view what);    // "expected WHAT, found TOKEN"
  bool Expect(char punct, absl::string_view where);
  bool Accept(char punct);
  bool TooManyErrors() const { return diags_->errors() - errors_before_ >= DiagSink::kMaxErrors; }
  // Runs `read` one level deeper; an error beyond kMaxDepth. Never overflows the stack.
  bool Deeper(absl::FunctionRef<bool()> read);

  // ---- instructions.cc ----
  bool ReadInstruction(Scope* scope);
  // rhs of an instruction called `name`; null on error. `nested`: without attributes.
  Instruction* ReadRhs(Scope* scope, std::string name, Loc loc, bool nested);
  Instruction* ReadRest(Scope* scope, std::string name, Loc loc, bool nested, Shape shape,
                        bool has_shape);
  bool ReadOpcode(Op* op, absl::string_view* wrapped);
  bool ReadOperands(Scope* scope, Instruction* instruction);
  bool ReadOperand(Scope* scope, Instruction** operand);
  bool ReadTuplePath(Scope* scope, Instruction** operand);
  bool ReadParameterNumber(Instruction* instruction);
  bool CheckOperandShape(const Instruction& operand, const Shape& declared, Loc loc);
  bool CheckOperandCount(const Instruction& instruction);
  bool CheckInstruction(Instruction* instruction);
  bool CheckControlFlow(const Instruction& instruction);
  bool CheckCommunication(const Instruction& instruction);
  bool CheckNameIsLegal(absl::string_view name, Loc loc);
  bool Define(Scope* scope, std::unique_ptr<Instruction> instruction, Instruction** made);
  std::string FreeName(Scope* scope, absl::string_view base);
  bool UndefinedName(const Scope& scope, absl::string_view name, Loc loc);

  // ---- async.cc ----
  // Splits "add-start" into an async opcode and "add"; false if it is no short async form.
  bool AsyncSugar(absl::string_view text, Op* op, absl::string_view* wrapped) const;
  bool CheckAsync(Instruction* instruction, Instruction* wrapped, Op wrapped_op);

  // ---- attributes.cc, attribute_forms.cc ----
  // `wrapped`: the operation of a short async form, which takes its own attributes; else null.
  bool ReadAttributes(Scope* scope, Instruction* instruction, Instruction* wrapped);
  bool ReadAttribute(Scope* scope, Instruction* instruction, AttrId id);
  bool CheckAttributes(const Instruction& instruction, Loc loc);
  bool ReadValue(Scope* scope, Instruction* instruction, AttrId id, AttrValue* value);
  bool ReadBool(bool* value);
  bool ReadInt(int64_t* value, absl::string_view what = "an integer");
  bool ReadInt32(int32_t* value);
  bool ReadFloat(double* value);
  bool ReadString(std::string* value);
  bool ReadStringOrJson(std::string* value);
  bool ReadWord(AttrId id, std::string* value);
  bool ReadWords(AttrId id, std::vector<std::string>* values);
  bool ReadInts(Ints* values);
  bool ReadIntLists(std::vector<Ints>* values);
  bool ReadBools(Ints* values);
  bool ReadWindow(Window* window);
  bool ReadDimLabels(DimLabels* labels);
  bool ReadPadConfig(std::vector<PadDim>* dims);
  bool ReadSlices(std::vector<SliceDim>* dims);
  bool ReadShapes(std::vector<Shape>* shapes);
  bool ReadComputationRef(absl::string_view made_name, Computation** computation);
  bool ReadComputations(absl::string_view made_name, std::vector<Computation*>* computations);
  bool ReadPredecessors(Scope* scope, std::vector<Instruction*>* instructions);
  bool ReadFrontendAttributes(std::vector<std::pair<std::string, std::string>>* attributes);
  bool ReadResultAccuracy(std::string* text);
  bool ReadDomain(std::string* text);
  bool ReadAliasing(std::string* text);
  bool ReadBraced(std::string* text);  // any balanced {...}, spacing made uniform
  bool ReadRaw(std::string* text);
  bool ReadMetadata(std::unique_ptr<Metadata>* metadata);
  bool ReadMetadataField(absl::string_view field, Metadata* metadata);
  bool ReadSharedText(SharedText* text);

  // ---- shapes.cc ----
  bool AtShape() const;  // the current token begins a shape
  bool ReadShapeBody(Shape* shape);
  bool ReadArrayShape(Shape* shape);
  bool ReadDim(Shape* shape);
  bool ReadLayout(Shape* shape);
  bool ReadLayoutParts(Layout* layout);
  bool ReadTile(Tile* tile);
  bool ReadLayoutInt(int64_t* value, int64_t least);
  bool ReadLayoutType(std::optional<Type>* type);
  bool ReadSplits(Layout* layout);
  bool ReadLevels(Layout* layout);
  bool ReadShapeIndex(Ints* index);

  // ---- literals.cc ----
  bool ReadLiteral(const Shape& shape, Literal* literal);
  bool ReadLiteralBody(const Shape& shape, Literal* literal);
  bool ReadArrayLiteral(const Shape& shape, Literal* literal);
  bool ReadScalarForArray(const Shape& shape, Literal* literal);
  bool AppendScalar(Type type, Bytes* data);
  bool AppendInteger(Type type, Bytes* data);
  bool AppendFloat(Type type, Bytes* data);
  bool AppendNan(Type type, Bytes* data);
  bool AppendComplex(Type type, Bytes* data);
  bool ReadUntypedLiteral(Literal* literal);

  // ---- sharding.cc ----
  bool ReadSharding(std::string* text);
  bool ReadSingleSharding(std::string* text);
  bool ReadTileSharding(std::string* text);
  bool ReadNamedSharding(std::string* text);
  bool ReadReplicaGroups(std::string* text);
  bool ReadMesh(std::string* text, std::vector<std::pair<std::string, int64_t>>* axes);
  bool ReadAxes(const std::vector<std::pair<std::string, int64_t>>& axes, bool open,
                std::string* text);
  bool ReadIota(const Ints& dims, std::string* text);  // <=[...]T(...)
  bool ReadDeviceIds(std::string* text);
  bool ReadBracketInts(Ints* values);
  bool ReadMetadataText(std::string* text);

  // ---- header.cc ----
  bool ReadHeader();
  bool ReadHeaderAttribute(absl::string_view name, Loc loc);
  bool ReadEntryLayout();
  bool ReadAliases();
  bool ReadDonors();
  bool ReadFrameTables();
  bool ReadNameTable(Keyword section, absl::string_view title, std::vector<std::string>* rows);
  bool ReadFields(absl::Span<const absl::string_view> names, absl::Span<int32_t* const> fields);

  std::shared_ptr<const Source> source_;
  DiagSink* diags_;
  int errors_before_;  // in the sink, of other texts
  Lexer lexer_;
  std::unique_ptr<Module> module_;
  // Null: the definition failed.
  absl::flat_hash_map<absl::string_view, Computation*> computations_;
  std::vector<Computation*> made_;  // inline and wrapped ones; named at the end
  absl::flat_hash_map<absl::string_view, SharedText> texts_;  // of metadata, by themselves
  const char* lines_counted_ = nullptr;                       // by ReserveLines, up to here
  int depth_ = 0;
  bool failed_ = false;
  Diag* last_ = nullptr;
};

// "foo", 12, '{': how a token is called in messages.
std::string Describe(const Token& token);

// NearestName, but nothing for words too short to tell.
std::string Nearest(absl::string_view word, const std::vector<std::string>& known);

// The members of a kWord attribute's set, first the canonical ones; empty: any word.
struct WordSet {
  std::vector<absl::string_view> words;
  bool any_case = false;
};
WordSet WordsOf(AttrId id);

}  // namespace tpuc::hlo
