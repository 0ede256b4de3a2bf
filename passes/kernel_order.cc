#include "passes/kernel_order.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <set>
#include <tuple>

#include "absl/container/flat_hash_map.h"

namespace tpuc {
namespace {

struct Links {
  std::vector<std::vector<int>> after, made, read;  // by kernel: kernels, buffers, buffers
  explicit Links(const KernelGraph& g) : after(g.size()), made(g.size()), read(g.size()) {
    for (int k = 0; k < g.size(); ++k) {
      for (int b : g.before[k]) after[b].push_back(k);
    }
    for (size_t b = 0; b < g.buffers.size(); ++b) {
      made[g.buffers[b].maker].push_back(static_cast<int>(b));
      for (int k : g.buffers[b].readers) read[k].push_back(static_cast<int>(b));
    }
  }
};

// Nobody reads it: freed as soon as its maker has run.
bool Dies(const KernelGraph::Buffer& b) { return b.readers.empty() && !b.lasting; }

using Done = std::array<uint64_t, kMostSearched / 64>;
bool Has(const Done& d, int k) { return d[k / 64] >> (k % 64) & 1; }

}  // namespace

int64_t PeakOf(const KernelGraph& graph, const std::vector<int>& order) {
  Links links(graph);
  std::vector<int> left(graph.buffers.size());
  for (size_t b = 0; b < left.size(); ++b)
    left[b] = static_cast<int>(graph.buffers[b].readers.size());
  int64_t live = 0, peak = 0;
  for (int k : order) {
    for (int b : links.made[k]) live += graph.buffers[b].bytes;
    peak = std::max(peak, live);
    for (int b : links.made[k]) live -= Dies(graph.buffers[b]) ? graph.buffers[b].bytes : 0;
    for (int b : links.read[k]) {
      if (--left[b] == 0 && !graph.buffers[b].lasting) live -= graph.buffers[b].bytes;
    }
  }
  return peak;
}

std::vector<int> GreedyOrder(const KernelGraph& graph) {
  const int n = graph.size();
  Links links(graph);
  std::vector<int> waiting(n), left(graph.buffers.size());
  std::vector<int64_t> cost(n, 0);  // bytes more after it has run
  std::set<std::pair<int64_t, int>> ready;
  auto change = [&](int k, int64_t by) {
    auto it = ready.find({cost[k], k});
    cost[k] += by;
    if (it == ready.end()) return;
    ready.erase(it);
    ready.insert({cost[k], k});
  };
  // The one reader that is left frees the buffer.
  auto last_reader = [&](int b, const std::vector<char>& ran) {
    if (graph.buffers[b].lasting) return;
    for (int k : graph.buffers[b].readers) {
      if (!ran[k]) return change(k, -graph.buffers[b].bytes);
    }
  };
  std::vector<char> ran(n, 0);
  for (int k = 0; k < n; ++k) {
    waiting[k] = static_cast<int>(graph.before[k].size());
    for (int b : links.made[k]) cost[k] += Dies(graph.buffers[b]) ? 0 : graph.buffers[b].bytes;
  }
  for (size_t b = 0; b < left.size(); ++b) {
    left[b] = static_cast<int>(graph.buffers[b].readers.size());
    if (left[b] == 1) last_reader(static_cast<int>(b), ran);
  }
  for (int k = 0; k < n; ++k) {
    if (waiting[k] == 0) ready.insert({cost[k], k});
  }
  std::vector<int> order;
  while (!ready.empty()) {
    const int k = ready.begin()->second;
    ready.erase(ready.begin());
    ran[k] = 1;
    order.push_back(k);
    for (int b : links.read[k]) {
      if (--left[b] == 1) last_reader(b, ran);
    }
    for (int next : links.after[k]) {
      if (--waiting[next] == 0) ready.insert({cost[next], next});
    }
  }
  return order;
}

std::vector<int> SearchedOrder(const KernelGraph& graph) {
  const int n = graph.size();
  Links links(graph);
  std::vector<Done> before(n), readers(graph.buffers.size());
  auto mask = [](const std::vector<int>& kernels) {
    Done d{};
    for (int k : kernels) d[k / 64] |= uint64_t{1} << (k % 64);
    return d;
  };
  auto within = [](const Done& a, const Done& b) {
    for (size_t w = 0; w < a.size(); ++w) {
      if (a[w] & ~b[w]) return false;
    }
    return true;
  };
  for (int k = 0; k < n; ++k) before[k] = mask(graph.before[k]);
  for (size_t b = 0; b < readers.size(); ++b) readers[b] = mask(graph.buffers[b].readers);
  struct State {
    Done done{};
    int64_t live = 0, peak = 0;
    int parent = -1, kernel = -1;
  };
  const size_t width = std::clamp<size_t>((size_t{1} << 21) / std::max(1, n * n), 8, 4096);
  std::vector<std::vector<State>> levels = {{State{}}};
  for (int level = 0; level < n; ++level) {
    std::vector<State> next;
    absl::flat_hash_map<Done, size_t> known;
    for (size_t s = 0; s < levels[level].size(); ++s) {
      const State from = levels[level][s];
      for (int k = 0; k < n; ++k) {
        if (Has(from.done, k) || !within(before[k], from.done)) continue;
        State to = from;
        to.parent = static_cast<int>(s), to.kernel = k;
        to.done[k / 64] |= uint64_t{1} << (k % 64);
        for (int b : links.made[k]) to.live += graph.buffers[b].bytes;
        to.peak = std::max(to.peak, to.live);
        for (int b : links.made[k]) to.live -= Dies(graph.buffers[b]) ? graph.buffers[b].bytes : 0;
        for (int b : links.read[k]) {
          const bool last = !graph.buffers[b].lasting && within(readers[b], to.done);
          to.live -= last ? graph.buffers[b].bytes : 0;
        }
        auto [it, is_new] = known.emplace(to.done, next.size());
        if (is_new) {
          next.push_back(to);
        } else if (to.peak < next[it->second].peak) {
          next[it->second] = to;
        }
      }
    }
    auto better = [](const State& a, const State& b) {
      return std::tie(a.peak, a.live, a.parent, a.kernel) <
             std::tie(b.peak, b.live, b.parent, b.kernel);
    };
    std::sort(next.begin(), next.end(), better);
    if (next.size() > width) next.resize(width);
    levels.push_back(std::move(next));
  }
  std::vector<int> order(n);
  for (int level = n, s = 0; level > 0; --level) {
    order[level - 1] = levels[level][s].kernel;
    s = levels[level][s].parent;
  }
  return order;
}

std::vector<int> SmallestPeak(const KernelGraph& graph) {
  std::vector<int> best(graph.size());
  std::iota(best.begin(), best.end(), 0);
  int64_t peak = PeakOf(graph, best);
  auto offer = [&](std::vector<int> order) {
    const int64_t its = PeakOf(graph, order);
    if (its >= peak) return;
    peak = its;
    best = std::move(order);
  };
  offer(GreedyOrder(graph));
  if (graph.size() <= kMostSearched) offer(SearchedOrder(graph));
  return best;
}

}  // namespace tpuc
