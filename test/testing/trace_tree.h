// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Helpers for tests that examine traces.

#include "test/testing/status_checks.h"
#include "test/testing/test_headers.h"
#include "varve/trace.h"

namespace varve::test {

// Keeps the records it receives.
class MemorySink final : public trace::Sink {
 public:
  void Add(const trace::Record* records, size_t count) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    records_.insert(records_.end(), records, records + count);
  }
  Status Flush() override { return Status::OK(); }
  std::vector<trace::Record> Take() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::move(records_);
  }

 private:
  std::mutex mutex_;
  std::vector<trace::Record> records_;
};

using TraceRecords = std::vector<trace::Record>;

// A session whose traces are kept in memory.
class Session {
 public:
  explicit Session(trace::TraceOptions options = {}) {
    options.sink = sink_;
    status_ = trace::Start(options);
    EXPECT_TRUE(Ok(status_));
  }
  ~Session() {
    if (!stopped_) Stop();
  }
  TraceRecords Stop() {
    stopped_ = true;
    EXPECT_TRUE(Ok(trace::Stop()));
    return sink_->Take();
  }
  TraceRecords Flush() {
    EXPECT_TRUE(trace::Flush().ok());
    return sink_->Take();
  }

 private:
  const std::shared_ptr<MemorySink> sink_ = std::make_shared<MemorySink>();
  Status status_;
  bool stopped_ = false;
};

inline uint64_t Dropped(const trace::Counts& counts) {
  return counts.dropped_trace_full + counts.dropped_buffer_full +
         counts.dropped_late + counts.dropped_clock_changed;
}

// Groups the records by trace.
inline std::vector<TraceRecords> SplitTraces(const TraceRecords& records) {
  std::map<uint64_t, TraceRecords> traces;
  for (const auto& record : records) traces[record.trace_id].push_back(record);
  std::vector<TraceRecords> result;
  for (auto& [id, trace] : traces) result.push_back(std::move(trace));
  return result;
}

// Returns names as "a(b c(d))", with the children of each in the order of their
// begin times. A '*' marks spans of another thread.
inline std::string TreeOf(const TraceRecords& trace, uint32_t parent = 0) {
  TraceRecords children;
  for (const auto& record : trace) {
    if (record.parent_id == parent) children.push_back(record);
  }
  std::stable_sort(children.begin(), children.end(),
                   [](const trace::Record& a, const trace::Record& b) {
                     return a.begin_ns < b.begin_ns ||
                            (a.begin_ns == b.begin_ns && a.span_id < b.span_id);
                   });
  std::string text;
  for (const auto& child : children) {
    if (!text.empty()) text += ' ';
    text += child.name;
    if (child.done_by != child.thread) text += '*';
    const std::string below = TreeOf(trace, child.span_id);
    if (!below.empty()) text += "(" + below + ")";
  }
  return text;
}

// Returns an error in the times or the parents of one trace, or an empty
// string.
inline std::string FindFault(const TraceRecords& trace) {
  std::map<uint32_t, const trace::Record*> by_id;
  for (const auto& record : trace) {
    if (!by_id.emplace(record.span_id, &record).second) return "id twice";
  }
  for (const auto& record : trace) {
    if (record.end_ns < record.begin_ns) {
      return std::string(record.name) + " ends before it begins";
    }
    if (record.parent_id == 0) continue;
    const auto it = by_id.find(record.parent_id);
    if (it == by_id.end()) return std::string(record.name) + " has no parent";
    const trace::Record& parent = *it->second;
    if (parent.thread == record.thread &&
        (record.begin_ns < parent.begin_ns || record.end_ns > parent.end_ns)) {
      return std::string(record.name) + " is not inside " + parent.name;
    }
  }
  return "";
}

}  // namespace varve::test
