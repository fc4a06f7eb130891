// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A graph of what transactions depend on, and its shortest cycles.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

namespace varve::test {

// Kinds of dependencies, to be combined.
enum Dependency : uint8_t {
  kWriteWrite = 1,  // The next version is the other's.
  kWriteRead = 2,   // The other read its version.
  kReadWrite = 4,   // It read the version before the other's.
  // It found no key where the other has put one.
  kAbsentWrite = 8,
  kRealTime = 16,  // It ended before the other began.
};
inline constexpr uint8_t kAntiDependencies = kReadWrite | kAbsentWrite;

struct DependencyEdge {
  size_t from;
  size_t to;
  Dependency kind;
  std::string why;
};

class DependencyGraph {
 public:
  using Path = std::vector<const DependencyEdge*>;

  explicit DependencyGraph(size_t nodes) : edges_(nodes) {}

  void Add(size_t from, size_t to, Dependency kind, std::string why) {
    if (from == to) return;
    edges_[from].push_back({from, to, kind, std::move(why)});
  }

  // Returns cycles that have an edge of the kinds `first`, followed by edges of
  // the kinds `rest`, at most one in each strongly connected component. With
  // `no_adjacent`, no two anti-dependencies of a cycle are one after the other.
  std::vector<Path> Cycles(uint8_t first, uint8_t rest,
                           bool no_adjacent = false) const {
    const std::vector<size_t> component = Components(first | rest);
    std::vector<bool> done(edges_.size());
    std::vector<Path> cycles;
    for (const auto& from : edges_) {
      for (const DependencyEdge& edge : from) {
        const size_t here = component[edge.from];
        if ((edge.kind & first) == 0 || here != component[edge.to]) continue;
        if (done[here]) continue;
        Path cycle = ShortestCycle(edge, rest, no_adjacent, component);
        if (cycle.empty()) continue;
        done[here] = true;
        cycles.push_back(std::move(cycle));
      }
    }
    return cycles;
  }

 private:
  // Returns the number of each node's strongly connected component, in the
  // graph that has only edges of these kinds. (Tarjan's algorithm, with the
  // calls on a stack of its own.)
  std::vector<size_t> Components(uint8_t kinds) const {
    constexpr size_t kNone = SIZE_MAX;
    const size_t count = edges_.size();
    std::vector<size_t> index(count, kNone);
    std::vector<size_t> low(count);
    std::vector<size_t> component(count, kNone);
    std::vector<size_t> stack;
    std::vector<std::pair<size_t, size_t>> calls;  // A node, its next edge.
    size_t next_index = 0;
    size_t next_component = 0;
    for (size_t root = 0; root < count; ++root) {
      if (index[root] != kNone) continue;
      calls.emplace_back(root, 0);
      while (!calls.empty()) {
        auto& [node, at] = calls.back();
        if (at == 0) {
          index[node] = low[node] = next_index++;
          stack.push_back(node);
        }
        bool descends = false;
        while (at < edges_[node].size()) {
          const DependencyEdge& edge = edges_[node][at++];
          if ((edge.kind & kinds) == 0) continue;
          if (index[edge.to] == kNone) {
            calls.emplace_back(edge.to, 0);
            descends = true;
            break;
          }
          if (component[edge.to] == kNone) {
            low[node] = std::min(low[node], index[edge.to]);
          }
        }
        if (descends) continue;
        const size_t ended = node;
        if (low[ended] == index[ended]) {
          size_t member;
          do {
            member = stack.back();
            stack.pop_back();
            component[member] = next_component;
          } while (member != ended);
          ++next_component;
        }
        calls.pop_back();
        if (!calls.empty()) {
          const size_t caller = calls.back().first;
          low[caller] = std::min(low[caller], low[ended]);
        }
      }
    }
    return component;
  }

  // Returns `first` and the shortest way back from its end, or nothing.
  Path ShortestCycle(const DependencyEdge& first, uint8_t rest,
                     bool no_adjacent,
                     const std::vector<size_t>& component) const {
    // A state is a node, and whether the last edge was an anti-dependency.
    const auto state = [no_adjacent](const DependencyEdge& edge) {
      const bool anti = (edge.kind & kAntiDependencies) != 0;
      return edge.to * 2 + (no_adjacent && anti ? 1 : 0);
    };
    std::vector<const DependencyEdge*> came_by(edges_.size() * 2);
    std::vector<size_t> came_from(edges_.size() * 2);
    std::deque<size_t> queue = {state(first)};
    came_by[state(first)] = &first;
    while (!queue.empty()) {
      const size_t at = queue.front();
      queue.pop_front();
      const bool after_anti = at % 2 == 1;
      for (const DependencyEdge& edge : edges_[at / 2]) {
        if ((edge.kind & rest) == 0) continue;
        if (component[edge.to] != component[first.from]) continue;
        const bool anti = (edge.kind & kAntiDependencies) != 0;
        const bool closes = edge.to == first.from;
        const bool first_is_anti = (first.kind & kAntiDependencies) != 0;
        if (no_adjacent && anti && (after_anti || (closes && first_is_anti))) {
          continue;
        }
        const size_t next = state(edge);
        if (came_by[next] != nullptr) continue;
        came_by[next] = &edge;
        came_from[next] = at;
        if (!closes) {
          queue.push_back(next);
          continue;
        }
        Path path;
        for (size_t back = next; back != state(first);) {
          path.push_back(came_by[back]);
          back = came_from[back];
        }
        path.push_back(&first);
        std::reverse(path.begin(), path.end());
        return path;
      }
    }
    return {};
  }

  std::vector<std::vector<DependencyEdge>> edges_;
};

}  // namespace varve::test
