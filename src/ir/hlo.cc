// Modules, computations, instructions: access, editing, cloning (hlo.h). Edits keep two invariants:
// operands stand before users, and names are unique in their computation.
#include "src/ir/hlo.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "src/diag/check.h"
#include "src/ir/op_table.h"

namespace tpuc {

// ---- names ----

std::string NameTable::Unique(absl::string_view name) {
  if (!taken_.contains(name)) {
    taken_.emplace(name);
    return std::string(name);
  }
  // "add.3" counts on from "add", as XLA does.
  absl::string_view base = name;
  size_t dot = base.rfind('.');
  if (dot != absl::string_view::npos && dot > 0 && dot + 1 < base.size() &&
      std::all_of(base.begin() + dot + 1, base.end(), absl::ascii_isdigit)) {
    base = base.substr(0, dot);
  }
  int64_t& next = next_[base];
  while (true) {
    std::string candidate = absl::StrCat(base, ".", ++next);
    if (taken_.insert(candidate).second) return candidate;
  }
}

// ---- instructions ----

const AttrValue* Instruction::Find(AttrId id) const {
  for (const Attr& attr : attrs) {
    if (attr.id == id) return &attr.value;
  }
  return nullptr;
}

int64_t Instruction::IntAttr(AttrId id, int64_t default_value) const {
  const AttrValue* value = Find(id);
  return value ? std::get<int64_t>(*value) : default_value;
}

bool Instruction::BoolAttr(AttrId id, bool default_value) const {
  const AttrValue* value = Find(id);
  return value ? std::get<bool>(*value) : default_value;
}

absl::string_view Instruction::StringAttr(AttrId id, absl::string_view default_value) const {
  const AttrValue* value = Find(id);
  if (!value) return default_value;
  if (const auto* raw = std::get_if<RawText>(value)) return raw->text;
  return std::get<std::string>(*value);
}

const Ints& Instruction::IntsAttr(AttrId id) const {
  static const Ints* none = new Ints;
  const AttrValue* value = Find(id);
  return value ? std::get<Ints>(*value) : *none;
}

Computation* Instruction::ComputationAttr(AttrId id) const {
  const AttrValue* value = Find(id);
  return value ? std::get<Computation*>(*value) : nullptr;
}

void Instruction::Set(AttrId id, AttrValue value) {
  for (Attr& attr : attrs) {
    if (attr.id == id) {
      attr.value = std::move(value);
      return;
    }
  }
  attrs.push_back({id, std::move(value)});
}

void Instruction::Remove(AttrId id) {
  attrs.erase(std::remove_if(attrs.begin(), attrs.end(), [&](const Attr& a) { return a.id == id; }),
              attrs.end());
}

std::vector<Computation*> Instruction::CalledComputations() const {
  std::vector<std::pair<AttrId, Computation*>> found;
  for (const Attr& attr : attrs) {
    if (const auto* one = std::get_if<Computation*>(&attr.value)) {
      found.push_back({attr.id, *one});
    } else if (const auto* many = std::get_if<std::vector<Computation*>>(&attr.value)) {
      for (Computation* computation : *many) found.push_back({attr.id, computation});
    }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Computation*> out;
  for (const auto& [id, computation] : found) out.push_back(computation);
  return out;
}

// ---- computations ----

std::vector<Instruction*> Computation::Parameters() const {
  std::vector<Instruction*> out;
  for (const auto& instruction : instructions) {
    if (instruction->op == Op::kParameter) out.push_back(instruction.get());
  }
  std::sort(out.begin(), out.end(), [](const Instruction* a, const Instruction* b) {
    return a->parameter_number < b->parameter_number;
  });
  return out;
}

std::string Computation::UniqueName(absl::string_view base) {
  if (!names) {
    names = std::make_unique<NameTable>();
    for (const auto& instruction : instructions) names->Take(instruction->name);
  }
  return names->Unique(base);
}

namespace {
std::unique_ptr<Instruction> Make(Computation* parent, std::string name, Op op, Shape shape,
                                  absl::InlinedVector<Instruction*, 2> operands) {
  auto instruction = std::make_unique<Instruction>();
  instruction->name = parent->UniqueName(name);
  instruction->op = op;
  instruction->shape = std::move(shape);
  instruction->operands = std::move(operands);
  instruction->parent = parent;
  return instruction;
}
}  // namespace

Instruction* Computation::Add(std::string name, Op op, Shape shape,
                              absl::InlinedVector<Instruction*, 2> operands) {
  instructions.push_back(Make(this, std::move(name), op, std::move(shape), std::move(operands)));
  return instructions.back().get();
}

Instruction* Computation::AddBefore(const Instruction* where, std::string name, Op op, Shape shape,
                                    absl::InlinedVector<Instruction*, 2> operands) {
  // Passes insert near where they last looked, most often near the end: search from both ends.
  size_t count = instructions.size(), at = count;
  for (size_t low = 0, high = count; low < high && at == count; ++low) {
    if (instructions[low].get() == where) at = low;
    if (instructions[--high].get() == where) at = high;
  }
  CHECK_MSG(at < count, "AddBefore: not an instruction of the computation");
  auto made = Make(this, std::move(name), op, std::move(shape), std::move(operands));
  return instructions.insert(instructions.begin() + at, std::move(made))->get();
}

void Computation::ReplaceUses(Instruction* from, Instruction* to) {
  if (from == to) return;
  for (const auto& instruction : instructions) {
    if (instruction.get() != to) {
      std::replace(instruction->operands.begin(), instruction->operands.end(), from, to);
    }
    for (Attr& attr : instruction->attrs) {
      auto* list = std::get_if<std::vector<Instruction*>>(&attr.value);
      if (!list) continue;
      std::replace(list->begin(), list->end(), from, to);
      // A second mention, or itself, is no constraint.
      std::vector<Instruction*> kept;
      for (Instruction* i : *list) {
        if (i != instruction.get() && std::find(kept.begin(), kept.end(), i) == kept.end()) {
          kept.push_back(i);
        }
      }
      *list = std::move(kept);
    }
  }
  if (root == from) root = to;
}

int Computation::RemoveDead() {
  absl::flat_hash_map<const Instruction*, int64_t> uses;
  auto count = [&](const Instruction& instruction, int64_t step) {
    for (Instruction* operand : instruction.operands) uses[operand] += step;
    for (const Attr& attr : instruction.attrs) {
      if (const auto* list = std::get_if<std::vector<Instruction*>>(&attr.value)) {
        for (Instruction* predecessor : *list) uses[predecessor] += step;
      }
    }
  };
  for (const auto& instruction : instructions) count(*instruction, 1);
  int removed = 0;
  for (size_t i = instructions.size(); i-- > 0;) {
    const Instruction& instruction = *instructions[i];
    if (uses[&instruction] > 0 || &instruction == root || instruction.op == Op::kParameter ||
        HasSideEffect(instruction)) {
      continue;
    }
    count(instruction, -1);
    if (names) names->Release(instruction.name);
    instructions[i].reset();
    ++removed;
  }
  instructions.erase(std::remove(instructions.begin(), instructions.end(), nullptr),
                     instructions.end());
  return removed;
}

UserMap Users(const Computation& computation) {
  UserMap users;
  users.reserve(computation.instructions.size());
  for (const auto& instruction : computation.instructions) {
    for (Instruction* operand : instruction->operands) {
      std::vector<Instruction*>& list = users[operand];
      if (list.empty() || list.back() != instruction.get()) list.push_back(instruction.get());
    }
    users[instruction.get()];
  }
  return users;
}

// ---- modules ----

Computation* Module::AddComputation(std::string name) {
  if (!names) {
    names = std::make_unique<NameTable>();
    for (const auto& computation : computations) names->Take(computation->name);
  }
  auto computation = std::make_unique<Computation>();
  computation->name = names->Unique(name);
  computation->module = this;
  Computation* made = computation.get();
  auto at = computations.end();
  if (entry && !computations.empty() && computations.back().get() == entry) --at;
  computations.insert(at, std::move(computation));
  return made;
}

std::string Module::SourceLine(const Instruction& instruction) const {
  if (!instruction.metadata) return "";
  const Metadata& metadata = *instruction.metadata;
  if (!metadata.source_file.empty()) {
    return absl::StrCat(metadata.source_file.view(), ":", metadata.source_line);
  }
  // Ids count from 1; a row of the tables may name one that is not there.
  auto row = [](const auto& table, int64_t id) {
    return id >= 1 && id <= static_cast<int64_t>(table.size()) ? &table[id - 1] : nullptr;
  };
  const auto* frame = row(frames.frames, metadata.stack_frame_id);
  const auto* location = frame ? row(frames.locations, frame->file_location_id) : nullptr;
  const auto* file = location ? row(frames.file_names, location->file_name_id) : nullptr;
  return file ? absl::StrCat(*file, ":", location->line) : "";
}

// ---- cloning ----

namespace {

void CopyFields(const Instruction& from, Instruction* to) {
  to->attrs = from.attrs;
  if (from.literal) to->literal = std::make_unique<Literal>(*from.literal);
  to->parameter_number = from.parameter_number;
  if (from.metadata) to->metadata = std::make_unique<Metadata>(*from.metadata);
  to->loc = from.loc;
}

using InstructionMap = absl::flat_hash_map<const Instruction*, Instruction*>;
using ComputationMap = absl::flat_hash_map<const Computation*, Computation*>;

void CloneBody(const Computation& from, const ComputationMap& computations, Computation* to) {
  InstructionMap map;
  map.reserve(from.instructions.size());
  to->instructions.reserve(from.instructions.size());
  for (const auto& old : from.instructions) {
    to->instructions.push_back(std::make_unique<Instruction>());
    map[old.get()] = to->instructions.back().get();
  }
  for (const auto& old : from.instructions) {
    Instruction* made = map[old.get()];
    made->name = old->name;
    made->op = old->op;
    made->shape = old->shape;
    made->parent = to;
    CopyFields(*old, made);
    for (Instruction* operand : old->operands) made->operands.push_back(map.at(operand));
    for (Attr& attr : made->attrs) {
      if (auto* one = std::get_if<Computation*>(&attr.value)) {
        *one = computations.at(*one);
      } else if (auto* many = std::get_if<std::vector<Computation*>>(&attr.value)) {
        for (Computation*& computation : *many) computation = computations.at(computation);
      } else if (auto* list = std::get_if<std::vector<Instruction*>>(&attr.value)) {
        for (Instruction*& predecessor : *list) predecessor = map.at(predecessor);
      }
    }
  }
  if (from.root) to->root = map.at(from.root);
}

}  // namespace

std::unique_ptr<Module> Clone(const Module& module) {
  auto out = std::make_unique<Module>();
  out->name = module.name;
  out->source = module.source;
  out->has_header = module.has_header;
  out->is_scheduled = module.is_scheduled;
  if (module.entry_layout) {
    out->entry_layout = std::make_unique<Module::ProgramShape>(*module.entry_layout);
  }
  out->aliases = module.aliases;
  out->donors = module.donors;
  out->other_attributes = module.other_attributes;
  out->frames = module.frames;
  ComputationMap map;
  for (const auto& old : module.computations) {
    auto made = std::make_unique<Computation>();
    made->name = old->name;
    made->module = out.get();
    made->execution_thread = old->execution_thread;
    made->loc = old->loc;
    map[old.get()] = made.get();
    out->computations.push_back(std::move(made));
  }
  for (const auto& old : module.computations) CloneBody(*old, map, map[old.get()]);
  if (module.entry) out->entry = map.at(module.entry);
  return out;
}

Instruction* CloneInto(Computation* to, const Instruction& from,
                       absl::InlinedVector<Instruction*, 2> operands) {
  Instruction* made = to->Add(from.name, from.op, from.shape, std::move(operands));
  CopyFields(from, made);
  // Predecessors are instructions of the old computation.
  if (from.parent != to) made->Remove(AttrId::kControlPredecessors);
  return made;
}

bool SimpleReducer(const Computation& body, Op* op) {
  if (!body.root || body.root->operands.size() != 2 || body.Parameters().size() != 2) return false;
  switch (body.root->op) {
    case Op::kAdd:
    case Op::kMultiply:
    case Op::kMaximum:
    case Op::kMinimum:
    case Op::kAnd:
    case Op::kOr:
    case Op::kXor:
      break;
    default:
      return false;
  }
  const Instruction* a = body.root->operands[0];
  const Instruction* b = body.root->operands[1];
  if (a == b || a->op != Op::kParameter || b->op != Op::kParameter) return false;
  *op = body.root->op;
  return true;
}

}  // namespace tpuc
