// Which dimensions of a kernel's values run together: the iteration space of a body over whole
// arrays. Two dimensions are of one class where cutting one into blocks cuts the other.
//
//   o[:] = dot(x[:], w[:])   x: [M,K], w: [K,N], o: [M,N]
//   has three classes: M (x 0, o 0), N (w 1, o 1) and K (x 1, w 0), which the dot sums over
//
// A class may be cut where every operation works block by block along it; one that a slice, pad,
// concatenate or regrouping reshape touches is kept whole. Nothing is decided here.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/kernel/kernel.h"

namespace tpuc::kernel {

struct DimClass {
  int64_t extent = 1;
  bool whole = false;            // some operation needs all of it at once
  bool weights = false;          // a free dimension of a dot's right side
  bool counted = false;          // an iota counts along it
  std::vector<NodeId> reducers;  // dots and reduces that sum it up
};

struct DimClasses {
  std::vector<DimClass> classes;          // in order of first appearance
  std::vector<std::vector<int>> of_node;  // class of each dimension of a node's value
  std::vector<std::vector<int>> of_ref;   // .. of a ref's array
};

// The kernel has one region, and loads and stores of whole arrays, as body_from_hlo.h makes them.
DimClasses FindDimClasses(const Kernel& kernel);

}  // namespace tpuc::kernel
