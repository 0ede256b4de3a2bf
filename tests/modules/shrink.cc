#include "tests/modules/shrink.h"

#include <algorithm>
#include <set>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "grammar/hlo/printer.h"
#include "passes/dce.h"
#include "tests/modules/check.h"

namespace tpuc::random_modules {
namespace {

// Parameters that nothing reads leave the entry; the others are numbered anew.
void DropUnused(Module* module) {
  PassContext context;
  Dce().Run(module, &context);
  Computation& entry = *module->entry;
  const UserMap users = Users(entry);
  auto& list = entry.instructions;
  list.erase(std::remove_if(list.begin(), list.end(),
                            [&](const auto& i) {
                              auto it = users.find(i.get());
                              return i->op == Op::kParameter && i.get() != entry.root &&
                                     (it == users.end() || it->second.empty());
                            }),
             list.end());
  int64_t number = 0;
  for (Instruction* p : entry.Parameters()) p->parameter_number = number++;
  module->entry_layout.reset();
}

// Every module that one cut makes of the text, as text.
std::vector<std::string> Cuts(const std::string& text) {
  std::vector<std::string> out;
  const auto edited = [&](const std::function<bool(Module*)>& edit) {
    auto module = ReadText(text);
    if (!module || !edit(module.get())) return;
    DropUnused(module.get());
    std::string made = PrintHlo(*module);
    if (made != text) out.push_back(std::move(made));
  };
  const auto model = ReadText(text);
  if (!model) return out;
  const auto& instructions = model->entry->instructions;
  for (size_t i = 0; i < instructions.size(); ++i) {
    const auto at = [i](Module* m) { return m->entry->instructions[i].get(); };
    if (instructions[i].get() != model->entry->root) {
      edited([&](Module* m) { return m->entry->root = at(m), true; });
    }
    if (instructions[i]->op != Op::kParameter) {
      edited([&](Module* m) {  // it becomes a parameter
        Instruction* old = at(m);
        if (old == m->entry->root || old->op == Op::kTuple) return false;
        const int64_t number = static_cast<int64_t>(m->entry->Parameters().size());
        Instruction* p = m->entry->AddBefore(old, "p", Op::kParameter, old->shape, {});
        p->parameter_number = number;
        m->entry->ReplaceUses(old, p);
        return true;
      });
    }
    for (size_t k = 0; k < instructions[i]->operands.size(); ++k) {
      edited([&](Module* m) {  // its operand takes its place
        Instruction* old = at(m);
        Instruction* operand = old->operands[k];
        if (!Compatible(old->shape, operand->shape)) return false;
        m->entry->ReplaceUses(old, operand);
        return true;
      });
      const size_t from = instructions[i]->operands.size();
      if (instructions[i]->op == Op::kTuple && from > 1 &&
          instructions[i].get() == model->entry->root) {
        edited([&](Module* m) {  // one result less
          Instruction* root = at(m);
          root->operands.erase(root->operands.begin() + k);
          root->shape.elements.erase(root->shape.elements.begin() + k);
          return true;
        });
      }
    }
    if (instructions[i]->shape.layout) {
      edited([&](Module* m) { return at(m)->shape.layout.reset(), true; });
    }
  }
  for (size_t c = 0; c < model->computations.size(); ++c) {  // bodies that do less
    const auto& body = model->computations[c];
    if (body.get() == model->entry) continue;
    for (size_t i = 0; i < body->instructions.size(); ++i) {
      for (size_t k = 0; k < body->instructions[i]->operands.size(); ++k) {
        edited([&](Module* m) {
          Computation* inner = m->computations[c].get();
          Instruction* old = inner->instructions[i].get();
          Instruction* operand = old->operands[k];
          if (!Compatible(old->shape, operand->shape)) return false;
          inner->ReplaceUses(old, operand);
          return true;
        });
      }
    }
  }
  return out;
}

// The text with one number made smaller wherever it stands.
std::vector<std::string> SmallerSizes(const std::string& text) {
  std::set<int64_t> numbers;
  for (size_t i = 0; i < text.size(); ++i) {
    if (!absl::ascii_isdigit(text[i]) ||
        (i > 0 && (absl::ascii_isalnum(text[i - 1]) || text[i - 1] == '.' || text[i - 1] == '_'))) {
      continue;
    }
    size_t end = i;
    while (end < text.size() && absl::ascii_isdigit(text[end])) ++end;
    int64_t value;
    if (absl::SimpleAtoi(text.substr(i, end - i), &value) && value > 1) numbers.insert(value);
    i = end;
  }
  std::vector<std::string> out;
  for (int64_t value : numbers) {
    for (int64_t smaller : {int64_t{1}, int64_t{2}, int64_t{3}, value / 2, value - 1}) {
      if (smaller >= value || smaller < 1) continue;
      std::string made;
      const std::string old = absl::StrCat(value), fresh = absl::StrCat(smaller);
      for (size_t i = 0; i < text.size();) {
        const bool starts = i == 0 || (!absl::ascii_isalnum(text[i - 1]) && text[i - 1] != '.' &&
                                       text[i - 1] != '_');
        const size_t end = i + old.size();
        const bool ends =
            end >= text.size() || (!absl::ascii_isalnum(text[end]) && text[end] != '.');
        if (starts && ends && text.compare(i, old.size(), old) == 0) {
          made += fresh;
          i = end;
        } else {
          made += text[i++];
        }
      }
      out.push_back(std::move(made));
    }
  }
  return out;
}

}  // namespace

std::string Shrink(std::string text, const std::function<bool(const std::string&)>& fails) {
  constexpr int kMostTries = 3000;
  int tries = 0;
  for (bool smaller = true; smaller && tries < kMostTries;) {
    smaller = false;
    for (const auto& variants : {Cuts, SmallerSizes}) {
      for (const std::string& candidate : variants(text)) {
        if (++tries >= kMostTries) break;
        if (candidate.size() >= text.size() + 20 || !fails(candidate)) continue;
        const bool better = candidate.size() < text.size() || variants == SmallerSizes;
        if (!better) continue;
        text = candidate;
        smaller = true;
        break;
      }
      if (smaller) break;
    }
  }
  return text;
}

}  // namespace tpuc::random_modules
