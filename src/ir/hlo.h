// The HLO level: modules, computations, instructions. Plain data owned by the module; every pass
// reads and rewrites it in place. Names follow XLA (hlo-text.md).
//
//   ROOT %a = f32[8,128]{1,0} add(%x, %y), metadata={op_name="jit(f)/add"}
//   is an Instruction {name "a", op kAdd, shape, operands {x, y}, metadata}.
//
// What tpuc does not interpret (sharding, origin, statistics, backend configs ...) is kept as text
// and printed. Operand lists are the only edges; users are computed where needed (UserMap).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"
#include "src/diag/diag.h"
#include "src/ir/literal.h"
#include "src/ir/shape.h"
#include "src/ir/shared_text.h"

namespace tpuc {

struct Computation;
struct Instruction;
struct Module;

enum class Op : uint8_t {
#define HLO_OP(id, text, ...) id,
#include "src/ir/hlo_ops.def"
#undef HLO_OP
};

enum class AttrId : uint8_t {
#define ATTR(id, text, form) id,
#include "src/ir/hlo_attrs.def"
#undef ATTR
};
absl::string_view AttrName(AttrId id);

// window={size=3x3 stride=2x2 pad=1_1x0_2 ...}
struct WindowDim {
  int64_t size = 1, stride = 1, pad_low = 0, pad_high = 0, base_dilation = 1, window_dilation = 1;
  bool reversed = false;
};
struct Window {
  std::vector<WindowDim> dims;
};
struct PadDim {
  int64_t low = 0, high = 0, interior = 0;
};
struct SliceDim {
  int64_t start = 0, limit = 0, stride = 1;
};
// dim_labels=b01f_01io->b01f, kept as its three words.
struct DimLabels {
  std::string lhs, rhs, output;
};
// Anything kept as it was written (canonical spacing is the parser's).
struct RawText {
  std::string text;
};
using Ints = std::vector<int64_t>;

// What an attribute holds; the alternative follows from its form in hlo_attrs.def.
using AttrValue =
    std::variant<bool, int64_t, double, std::string /* word or string */, Ints, std::vector<Ints>,
                 std::vector<std::string> /* words */, Window, DimLabels, std::vector<PadDim>,
                 std::vector<SliceDim>, Computation*, std::vector<Computation*>,
                 std::vector<Instruction*> /* control predecessors */, std::vector<Shape>,
                 std::vector<std::pair<std::string, std::string>> /* frontend attributes */,
                 std::shared_ptr<Literal>, RawText>;

struct Attr {
  AttrId id;
  AttrValue value;
};

// metadata={op_type="dot_general" op_name="jit(f)/dot" source_file="a.py" source_line=12}
struct Metadata {
  SharedText op_type, op_name, source_file;
  int32_t source_line = 0, source_end_line = 0, source_column = 0, source_end_column = 0;
  int32_t stack_frame_id = 0;
  SharedText other;  // further fields as printed: deduplicated_name="..." profile_type={1} ...
  bool empty() const {
    return op_type.empty() && op_name.empty() && source_file.empty() && other.empty() &&
           !source_line && !source_end_line && !source_column && !source_end_column &&
           !stack_frame_id;
  }
};

struct Instruction {
  std::string name;
  Op op;
  Shape shape;
  absl::InlinedVector<Instruction*, 2> operands;
  std::vector<Attr> attrs;             // at most one of an id
  std::unique_ptr<Literal> literal;    // kConstant
  int64_t parameter_number = -1;       // kParameter
  std::unique_ptr<Metadata> metadata;  // may be null
  Computation* parent = nullptr;
  Loc loc;  // in Module::source

  const AttrValue* Find(AttrId id) const;
  bool Has(AttrId id) const { return Find(id) != nullptr; }
  // The attribute's value or the default; the attribute must have that type.
  int64_t IntAttr(AttrId id, int64_t default_value = 0) const;
  bool BoolAttr(AttrId id, bool default_value = false) const;
  absl::string_view StringAttr(AttrId id, absl::string_view default_value = "") const;
  const Ints& IntsAttr(AttrId id) const;          // {} where absent
  Computation* ComputationAttr(AttrId id) const;  // null where absent
  void Set(AttrId id, AttrValue value);
  void Remove(AttrId id);
  // Every computation that an attribute names, in table order.
  std::vector<Computation*> CalledComputations() const;
  absl::string_view op_name() const { return metadata ? metadata->op_name.view() : ""; }
};

// Names in use, and the next free number of each ("add" -> "add.1").
class NameTable {
 public:
  void Take(absl::string_view name) { taken_.emplace(name); }
  void Release(absl::string_view name) {
    auto it = taken_.find(name);
    if (it != taken_.end()) taken_.erase(it);
  }
  std::string Unique(absl::string_view name);  // taken from now on

 private:
  absl::flat_hash_set<std::string> taken_;
  absl::flat_hash_map<std::string, int64_t> next_;
};

struct Computation {
  std::string name;
  Module* module = nullptr;
  // A topological order: operands before users. It is the schedule if module->is_scheduled.
  std::vector<std::unique_ptr<Instruction>> instructions;
  Instruction* root = nullptr;
  std::string execution_thread;  // "" is "main"
  Loc loc;
  std::unique_ptr<NameTable> names;  // made by the first UniqueName; null after parsing

  // `base`, or "base.N" where that is in use. A name given to an instruction without it (renaming)
  // must itself come from here.
  std::string UniqueName(absl::string_view base);
  // Parameters by number.
  std::vector<Instruction*> Parameters() const;
  // Appends (before nothing): the caller keeps the topological order. `name` is made unique.
  Instruction* Add(std::string name, Op op, Shape shape,
                   absl::InlinedVector<Instruction*, 2> operands);
  // Inserts before `where`.
  Instruction* AddBefore(const Instruction* where, std::string name, Op op, Shape shape,
                         absl::InlinedVector<Instruction*, 2> operands);
  // All uses of `from` (operands, control predecessors, root) become `to`.
  void ReplaceUses(Instruction* from, Instruction* to);
  // Erases instructions without users that are not parameters, the root or side effects.
  // Returns how many.
  int RemoveDead();
};

// One row of `FileLocations` / `StackFrames` (hlo-text.md section 5).
struct FrameTables {
  bool present = false;
  std::vector<std::string> file_names, function_names;
  struct Location {
    int32_t file_name_id = 0, function_name_id = 0, line = 0, end_line = 0, column = 0,
            end_column = 0;
  };
  struct Frame {
    int32_t file_location_id = 0, parent_frame_id = 0;
  };
  std::vector<Location> locations;
  std::vector<Frame> frames;
};

struct AliasEntry {
  Ints output_index;
  int64_t parameter = 0;
  Ints parameter_index;
  bool must_alias = false;
};
struct DonorEntry {
  int64_t parameter = 0;
  Ints parameter_index;
};

struct Module {
  std::string name;
  std::shared_ptr<const Source> source;
  bool has_header = true;
  bool is_scheduled = false;
  // The header's entry_computation_layout: shapes with layouts; empty optional: not written.
  struct ProgramShape {
    std::vector<Shape> parameters;
    Shape result;
  };
  std::unique_ptr<ProgramShape> entry_layout;
  std::vector<AliasEntry> aliases;
  std::vector<DonorEntry> donors;
  // Further header attributes, canonical text by name in printing order ("replica_count", "2").
  std::vector<std::pair<std::string, std::string>> other_attributes;
  FrameTables frames;
  std::vector<std::unique_ptr<Computation>> computations;  // callees first
  Computation* entry = nullptr;
  std::unique_ptr<NameTable> names;  // of computations; made by the first AddComputation

  Computation* AddComputation(std::string name);  // made unique; before the entry if there is one
  // "mk.py:35" for an instruction with source or stack frame metadata; "" where unknown.
  std::string SourceLine(const Instruction& instruction) const;
};

std::unique_ptr<Module> Clone(const Module& module);
// Clones an instruction's fields (not its users) into `to` with the given operands and a unique
// name.
Instruction* CloneInto(Computation* to, const Instruction& from,
                       absl::InlinedVector<Instruction*, 2> operands);

// users[i] = instructions of the computation that use i, each once, in order.
using UserMap = absl::flat_hash_map<const Instruction*, std::vector<Instruction*>>;
UserMap Users(const Computation& computation);

// ---- the opcode table (hlo_ops.def) ----
absl::string_view OpName(Op op);
bool OpFromName(absl::string_view name, Op* op);

// The binary operation that a reduction body yields of its two parameters, in either order: kAdd,
// kMultiply, kMaximum, kMinimum, kAnd, kOr or kXor; false else. Dead instructions do not count.
bool SimpleReducer(const Computation& body, Op* op);

}  // namespace tpuc
