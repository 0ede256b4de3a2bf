// The order of kernels with the smallest peak of live bytes, as a problem on graphs: no HLO here.
//
//   KernelGraph g;  g.before = {{}, {}, {0, 1}};  g.buffers = {{4096, 0, {2}}, ...};
//   std::vector<int> order = SmallestPeak(g);     PeakOf(g, order) <= PeakOf(g, {0, 1, 2})
//
// A buffer lives from the run of its maker to that of its last reader, both included.
#pragma once

#include <cstdint>
#include <vector>

namespace tpuc {

struct KernelGraph {
  struct Buffer {
    int64_t bytes = 0;
    int maker = 0;
    std::vector<int> readers;  // each once
    bool lasting = false;      // to the end, whoever reads it
  };
  std::vector<std::vector<int>> before;  // by kernel: those that must run first; 0, 1, ... is legal
  std::vector<Buffer> buffers;
  int size() const { return static_cast<int>(before.size()); }
};

int64_t PeakOf(const KernelGraph& graph, const std::vector<int>& order);

// Always the ready kernel that leaves the fewest bytes more; near-linear.
std::vector<int> GreedyOrder(const KernelGraph& graph);

// A beam over the sets of kernels that have run, as wide as a fixed amount of work allows: all
// sets, and so the optimum, up to about a dozen kernels. Graphs of at most kMostSearched.
constexpr int kMostSearched = 256;
std::vector<int> SearchedOrder(const KernelGraph& graph);

// The best of the order that stands, greedy and (where small enough) searched; the first of equals.
std::vector<int> SmallestPeak(const KernelGraph& graph);

}  // namespace tpuc
