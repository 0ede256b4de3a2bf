// Undefined contents, followed through a kernel's run element by element: what scratch and output
// blocks hold before a store, and what lies past the edge of an array.
//
//   x[:] at the edge -> dot -> acc -> o: "the edge of x at k=1 -> x (k.tk:9) -> acc (k.tk:9) -> .."
//
// Masked elements are clean: select takes the mark of the side that it takes. Everything else that
// an undefined element enters is undefined, whatever its value turns out to be.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "backend/kernel/kernel.h"
#include "src/eval/evaluator.h"
#include "src/ir/literal.h"

namespace tpuc::kernel {

struct Undefined {
  Literal marks;    // pred, of the value's shape: 1 where undefined
  std::string way;  // where from, and by which loads and stores
};
using UndefinedPtr = std::shared_ptr<const Undefined>;  // null: all defined

// Of the result of a kHlo node. operands[i] and marks[i] belong together.
UndefinedPtr ResultOf(const Node& node, absl::Span<const Literal* const> operands,
                      absl::Span<const UndefinedPtr> marks, const EvalOptions& options);

bool AnyMarked(const Literal& marks);
// "way -> step", once.
std::string Onward(const std::string& way, const std::string& step);

}  // namespace tpuc::kernel
