// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "tools/varve/varve_trace.h"

#include <algorithm>
#include <cinttypes>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <unordered_map>

#include "tools/varve/varve_text.h"
#include "util/base/append_format.h"

namespace varve {

namespace {

constexpr uint32_t kMaxSpanDepth = 500;

// Appends the spans below `parent`.
void AppendBelow(const std::multimap<uint64_t, TraceSpan*>& by_parent,
                 uint64_t parent, uint32_t depth, TraceTree* tree) {
  if (depth > kMaxSpanDepth) return;
  const auto range = by_parent.equal_range(parent);
  std::vector<TraceSpan*> children;
  for (auto it = range.first; it != range.second; ++it) {
    children.push_back(it->second);
  }
  std::stable_sort(children.begin(), children.end(),
                   [](const TraceSpan* a, const TraceSpan* b) {
                     return a->begin_ns != b->begin_ns
                                ? a->begin_ns < b->begin_ns
                                : a->id < b->id;
                   });
  for (TraceSpan* child : children) {
    const uint64_t id = child->id;
    tree->spans.push_back(std::move(*child));
    tree->depths.push_back(depth);
    // Ids that go in circles are never reached from a root.
    AppendBelow(by_parent, id, depth + 1, tree);
  }
}

TraceTree BuildTree(TraceSpan* spans, size_t count) {
  std::unordered_map<uint64_t, const TraceSpan*> by_id;
  for (size_t i = 0; i < count; ++i) by_id.emplace(spans[i].id, &spans[i]);
  std::multimap<uint64_t, TraceSpan*> by_parent;
  for (size_t i = 0; i < count; ++i) {
    TraceSpan& span = spans[i];
    if (by_id.find(span.id)->second != &span) continue;  // An id twice.
    const bool known = by_id.contains(span.parent) && span.parent != span.id;
    by_parent.emplace(known ? span.parent : 0, &span);
  }
  TraceTree tree;
  AppendBelow(by_parent, 0, 0, &tree);
  return tree;
}

uint64_t DoerOf(const TraceSpan& span) {
  return span.done_by != 0 ? span.done_by : span.thread;
}

// Copies of one piece of work differ by the conversion of their clocks only.
bool IsSameWork(const TraceSpan& a, const TraceSpan& b) {
  if (DoerOf(a) != DoerOf(b) || a.name != b.name) return false;
  const uint64_t begin = std::max(a.begin_ns, b.begin_ns);
  const uint64_t end =
      std::min(a.begin_ns + a.duration_ns, b.begin_ns + b.duration_ns);
  const uint64_t longest = std::max(a.duration_ns, b.duration_ns);
  return end >= begin && end - begin >= longest / 2;
}

// The leader of a group of writers adds its spans to the trace of each. Marks
// all copies but one. The remaining one is the leader's, if its trace is there.
void MarkShared(std::vector<TraceTree>* trees) {
  std::set<std::pair<uint64_t, std::string>> copied;
  for (const TraceTree& tree : *trees) {
    for (const TraceSpan& span : tree.spans) {
      if (span.done_by != 0) copied.emplace(span.done_by, span.name);
    }
  }
  if (copied.empty()) return;
  std::vector<TraceSpan*> candidates;
  for (TraceTree& tree : *trees) {
    for (TraceSpan& span : tree.spans) {
      if (copied.contains({DoerOf(span), span.name})) {
        candidates.push_back(&span);
      }
    }
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const TraceSpan* a, const TraceSpan* b) {
                     const uint64_t a_doer = DoerOf(*a);
                     const uint64_t b_doer = DoerOf(*b);
                     return std::tie(a_doer, a->name, a->begin_ns) <
                            std::tie(b_doer, b->name, b->begin_ns);
                   });
  TraceSpan* counted = nullptr;
  for (TraceSpan* span : candidates) {
    if (counted == nullptr || !IsSameWork(*counted, *span)) {
      counted = span;
    } else if (counted->done_by != 0 && span->done_by == 0) {
      counted->is_shared = true;
      counted = span;
    } else {
      span->is_shared = span->done_by != 0;
    }
  }
}

struct MergedNode {
  MergedSpan span;
  std::vector<uint64_t> durations_ns;
  std::map<std::pair<std::string, bool>, std::unique_ptr<MergedNode>> children;
};

// Returns the smallest of the values that `percent` % of them do not exceed.
// REQUIRES: they are sorted, and there are some.
uint64_t NearestRank(const std::vector<uint64_t>& sorted, size_t percent) {
  return sorted[(sorted.size() * percent + 99) / 100 - 1];
}

void Flatten(MergedNode* node, uint32_t depth, std::vector<MergedSpan>* out) {
  std::vector<MergedNode*> children;
  for (auto& [key, child] : node->children) children.push_back(child.get());
  std::stable_sort(children.begin(), children.end(),
                   [](const MergedNode* a, const MergedNode* b) {
                     return a->span.total_ns > b->span.total_ns;
                   });
  for (MergedNode* child : children) {
    std::sort(child->durations_ns.begin(), child->durations_ns.end());
    child->span.median_ns = NearestRank(child->durations_ns, 50);
    child->span.p99_ns = NearestRank(child->durations_ns, 99);
    child->span.max_ns = child->durations_ns.back();
    child->span.depth = depth;
    out->push_back(child->span);
    Flatten(child, depth + 1, out);
  }
}

double Micros(uint64_t ns) { return static_cast<double>(ns) / 1000; }

}  // namespace

std::vector<TraceTree> BuildTraceTrees(std::vector<TraceSpan> spans) {
  std::stable_sort(
      spans.begin(), spans.end(),
      [](const TraceSpan& a, const TraceSpan& b) { return a.trace < b.trace; });
  std::vector<TraceTree> trees;
  for (size_t begin = 0; begin < spans.size();) {
    size_t end = begin;
    while (end < spans.size() && spans[end].trace == spans[begin].trace) ++end;
    TraceTree tree = BuildTree(&spans[begin], end - begin);
    if (!tree.spans.empty()) trees.push_back(std::move(tree));
    begin = end;
  }
  MarkShared(&trees);
  std::stable_sort(trees.begin(), trees.end(),
                   [](const TraceTree& a, const TraceTree& b) {
                     return a.spans[0].duration_ns > b.spans[0].duration_ns;
                   });
  return trees;
}

std::vector<MergedSpan> MergeTraces(const std::vector<TraceTree>& trees) {
  MergedNode root;
  std::vector<MergedNode*> path;
  for (const TraceTree& tree : trees) {
    for (size_t i = 0; i < tree.spans.size(); ++i) {
      const TraceSpan& span = tree.spans[i];
      path.resize(tree.depths[i]);
      MergedNode* const parent = path.empty() ? &root : path.back();
      auto& child = parent->children[{span.name, span.is_shared}];
      if (child == nullptr) {
        child = std::make_unique<MergedNode>();
        child->span.name = span.name;
        child->span.is_shared = span.is_shared;
      }
      ++child->span.count;
      child->span.total_ns += span.duration_ns;
      child->durations_ns.push_back(span.duration_ns);
      path.push_back(child.get());
    }
  }
  std::vector<MergedSpan> merged;
  Flatten(&root, 0, &merged);
  return merged;
}

std::string DescribeThread(const TraceFile& file, uint64_t thread) {
  std::string text = std::to_string(thread);
  const auto name = file.thread_names.find(thread);
  if (name != file.thread_names.end() && !name->second.empty()) {
    text += " (" + Escaped(name->second) + ")";
  }
  return text;
}

std::string DescribeTrace(const TraceFile& file, const TraceSpan& root) {
  std::string text = "trace ";
  text += root.trace - 1 < file.trace_names.size()
              ? file.trace_names[root.trace - 1]
              : std::to_string(root.trace);
  if (!root.service.empty()) text += ", " + Escaped(root.service);
  if (root.thread != 0) text += ", thread " + DescribeThread(file, root.thread);
  return text;
}

std::string FormatTraces(const TraceFile& file,
                         const std::vector<TraceTree>& trees, size_t count) {
  std::string text;
  size_t spans = 0;
  for (const TraceTree& tree : trees) spans += tree.spans.size();
  AppendFormat(&text, "%zu traces, %zu spans\n\n", trees.size(), spans);
  AppendFormat(&text, "%12s %12s %12s %12s %12s %12s\n", "count", "total ms",
               "mean us", "p50 us", "p99 us", "max us");
  bool has_shared = false;
  for (const MergedSpan& span : MergeTraces(trees)) {
    AppendFormat(
        &text,
        "%12" PRIu64 " %12.3f %12.3f %12.3f %12.3f %12.3f  %*s%.100s%s\n",
        span.count, Micros(span.total_ns) / 1000,
        Micros(span.total_ns) / static_cast<double>(span.count),
        Micros(span.median_ns), Micros(span.p99_ns), Micros(span.max_ns),
        static_cast<int>(2 * std::min(span.depth, 40u)), "",
        Escaped(span.name).c_str(), span.is_shared ? " (shared)" : "");
    has_shared |= span.is_shared;
  }
  if (has_shared) {
    text +=
        "\nshared: the wait for another thread's work that is counted in its "
        "own line.\n";
  }
  for (size_t i = 0; i < std::min(count, trees.size()); ++i) {
    const TraceTree& tree = trees[i];
    AppendFormat(&text, "\n%s\n%12s %12s\n",
                 DescribeTrace(file, tree.spans[0]).c_str(), "at us", "us");
    for (size_t j = 0; j < tree.spans.size(); ++j) {
      const TraceSpan& span = tree.spans[j];
      const uint64_t base = std::min(tree.spans[0].begin_ns, span.begin_ns);
      AppendFormat(&text, "%12.3f %12.3f  %*s%.100s",
                   Micros(span.begin_ns - base), Micros(span.duration_ns),
                   static_cast<int>(2 * std::min(tree.depths[j], 40u)), "",
                   Escaped(span.name).c_str());
      if (span.done_by != 0) {
        text += " (by thread " + DescribeThread(file, span.done_by) + ")";
      }
      text.push_back('\n');
    }
  }
  return text;
}

}  // namespace varve
