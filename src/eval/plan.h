// What running a computation needs to know about it, found once: which instructions the root
// depends on, in which order they run, where operands stand, who reads a value last, and what stays
// the same from one time to the next.
#pragma once

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "src/ir/hlo.h"

namespace tpuc {

// A step that computes operands of its own (inlining.h): instructions in order, and where its
// operands, as they are written, stand. Plan::operands then has what all of these read.
struct Inlined {
  std::vector<int> producers;
  std::vector<int> operands;
};

struct Plan {
  std::vector<std::vector<int>> operands;  // positions in the computation, an instruction each
  std::vector<bool> needed;                // it runs: the root depends on it, or it is random
  std::vector<bool> random;                // nobody reads it: only the latter
  // By position of the step. What is inlined is not needed; its own operands are as they are
  // written.
  absl::flat_hash_map<int, Inlined> inlined;
  // A batch-norm-training whose normalised result is inlined wherever it is read.
  std::vector<bool> statistics_only;
  // What runs, in this order (order.h): positions, without parameters; one may come again.
  std::vector<int> steps;
  // Bytes that live at once where most do, roughly, and the instruction there; 0: not worth a
  // thought
  int64_t peak = 0;
  int at_peak = 0;
  std::vector<std::vector<bool>> last;  // a step's operands: nobody reads the value after it
  // The step is a get-tuple-element that is the last to read this element of a tuple that is only
  // read so: it takes the element, which may then be written in place.
  std::vector<bool> takes_element;
  // A broadcast of one element that only operations read which take one element for as many as they
  // want: the element passes for the array.
  std::vector<bool> splat;
  // Steps s, s + 1, ... that run as one loop: how many; 1: it runs alone (fusion.h).
  std::vector<int> together;
  std::vector<bool> dynamic;    // the result or an operand has a dynamic dimension
  std::vector<int> parameters;  // position of each parameter by number
  int root = 0;
  // Values that are the same whenever the computation runs (of a loop's body: within one run of the
  // loop), worth their memory and read by others: kept after the first time. `needed_again` is
  // `needed` when they are there.
  std::vector<bool> kept, needed_again;
  bool keeps = false;  // any
};

// The loop's condition reads only elements of the state that its body passes on unchanged: once it
// is true it stays so.
bool IsEndless(const Instruction& loop);

// is_body: of a while; elements of its state that it passes on unchanged count as the same.
Plan MakePlan(const Computation& computation, bool is_body);

}  // namespace tpuc
