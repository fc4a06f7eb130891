// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The command `varve trace`. It reads a file in Chrome's trace format, as
// written by trace::NewChromeSink and db_bench --trace. It prints the times of
// operations, and creates a page with flame charts.

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
  uint64_t done_by = 0;  // 0 means `thread`.
  uint64_t trace = 0;
  uint64_t id = 0;
  uint64_t parent = 0;
};

// Spans of one trace: parents before children, siblings by begin time.
struct TraceTree {
  std::vector<TraceSpan> spans;
  std::vector<uint32_t> depths;
};

// The sum of all spans that have the same names from their roots on.
struct MergedSpan {
  std::string name;
  uint32_t depth = 0;
  uint64_t count = 0;
  uint64_t total_ns = 0;
  uint64_t max_ns = 0;
};

// Returns Corruption with the offset if the text is not JSON or an event lacks
// a required field. Skips events of other kinds.
Status ParseChromeTrace(const Slice& text, std::vector<TraceSpan>* spans);
// Returns the trees, the slowest first. A span without a parent in its trace
// becomes a root.
std::vector<TraceTree> BuildTraceTrees(std::vector<TraceSpan> spans);
// Returns spans depth first. Roots and siblings are ordered by total time, the
// largest first.
std::vector<MergedSpan> MergeTraces(const std::vector<TraceTree>& trees);

// Returns the merged tree, and then `count` of the slowest traces.
std::string FormatTraces(const std::vector<TraceTree>& trees, size_t count);
// Returns a self-contained page: the merged tree and at most `count` of the
// slowest traces as flame charts.
std::string FormatTracePage(const std::vector<TraceTree>& trees, size_t count);

}  // namespace varve
