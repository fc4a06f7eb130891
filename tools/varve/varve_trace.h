// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The command `varve trace`. It reads a file in Chrome's trace format, as
// written by trace::NewChromeSink and db_bench --trace, or in OpenTelemetry's
// OTLP in JSON, of Varve or of another program. It prints the times of
// operations, and creates a page with flame charts.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

struct TraceSpan {
  std::string name;
  uint64_t begin_ns = 0;
  uint64_t duration_ns = 0;
  uint64_t thread = 0;   // 0 if unknown.
  uint64_t done_by = 0;  // 0 means `thread`.
  uint64_t trace = 0;
  uint64_t id = 0;
  uint64_t parent = 0;
  std::string service;  // Of a file in OTLP.
  // This is another thread's work, which is also in another trace and is
  // counted there.
  bool is_shared = false;
};

// The spans of a file, and what it calls threads and traces.
struct TraceFile {
  std::vector<TraceSpan> spans;
  std::map<uint64_t, std::string> thread_names;
  // By TraceSpan::trace - 1. Empty for a file in Chrome's format.
  std::vector<std::string> trace_names;
};

// Spans of one trace: parents before children, siblings by begin time.
struct TraceTree {
  std::vector<TraceSpan> spans;
  std::vector<uint32_t> depths;
};

// The sum of all spans that have the same names from their roots on. Shared
// spans have a sum of their own, so work for a group of writers counts once.
struct MergedSpan {
  std::string name;
  bool is_shared = false;
  uint32_t depth = 0;
  uint64_t count = 0;
  uint64_t total_ns = 0;
  // Of the spans, by the nearest rank.
  uint64_t median_ns = 0;
  uint64_t p99_ns = 0;
  uint64_t max_ns = 0;
};

// Returns Corruption with the offset if the text is not JSON or a span lacks a
// required field; *file then has the spans before it. Skips events of other
// kinds.
Status ParseTrace(const Slice& text, TraceFile* file);
// Returns the trees, the slowest first. A span without a parent in its trace
// becomes a root.
std::vector<TraceTree> BuildTraceTrees(std::vector<TraceSpan> spans);
// Returns spans depth first. Roots and siblings are ordered by total time, the
// largest first.
std::vector<MergedSpan> MergeTraces(const std::vector<TraceTree>& trees);

// Returns the title of a trace, such as "trace 7, thread 4711 (varve:low0)".
std::string DescribeTrace(const TraceFile& file, const TraceSpan& root);
// Returns the id of a thread with its name, such as "4711 (varve:low0)".
std::string DescribeThread(const TraceFile& file, uint64_t thread);
// Returns the merged tree, and then `count` of the slowest traces. `file` is
// the trees' file, whose spans are not used.
std::string FormatTraces(const TraceFile& file,
                         const std::vector<TraceTree>& trees, size_t count);
// Returns a self-contained page: the merged tree and at most `count` of the
// slowest traces as flame charts with tables.
std::string FormatTracePage(const TraceFile& file,
                            const std::vector<TraceTree>& trees, size_t count);

}  // namespace varve
