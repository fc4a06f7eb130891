// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// What `varve trace` does: reads a file in Chrome's trace format, as
// trace::NewChromeSink and db_bench --trace write it, prints what took how
// long, and makes a page with a flame chart of it.

#include <cstdint>
#include <string>
#include <vector>

#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

struct TraceSpan {
  std::string name;
  uint64_t begin_ns = 0;
  uint64_t duration_ns = 0;
  uint64_t thread = 0;
  uint64_t done_by = 0;  // 0: the same.
  uint64_t trace = 0;
  uint64_t id = 0;
  uint64_t parent = 0;
};

// Spans of one trace, parents before children, siblings by their beginnings.
struct TraceTree {
  std::vector<TraceSpan> spans;
  std::vector<uint32_t> depths;
};

// Of all spans with the same names from their roots on.
struct MergedSpan {
  std::string name;
  uint32_t depth = 0;
  uint64_t count = 0;
  uint64_t total_ns = 0;
  uint64_t max_ns = 0;
};

// Corruption names the offset if the text is no JSON or an event lacks what it
// needs. Events of other kinds are passed over.
Status ParseChromeTrace(const Slice& text, std::vector<TraceSpan>* spans);
// The slowest first. What has no parent in its trace becomes a root.
std::vector<TraceTree> BuildTraceTrees(std::vector<TraceSpan> spans);
// Depth first; roots and siblings by their total times, the largest first.
std::vector<MergedSpan> MergeTraces(const std::vector<TraceTree>& trees);

// The merged tree, and then `count` of the slowest traces.
std::string FormatTraces(const std::vector<TraceTree>& trees, size_t count);
// A page that needs nothing else: the merged tree and at most `count` of the
// slowest traces as flame charts.
std::string FormatTracePage(const std::vector<TraceTree>& trees, size_t count);

}  // namespace varve
