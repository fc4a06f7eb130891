// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The compaction filter of one job, or of a part of one. A filter is code of
// the user: what it throws goes no further, and what it decides is checked.

#include <atomic>
#include <memory>
#include <string>

#include "monitoring/statistics.h"
#include "table/block/internal_key.h"
#include "varve/compaction_filter.h"
#include "varve/env.h"
#include "varve/options.h"
#include "varve/slice.h"

namespace varve {

// Thread-safety: owned by one thread. No lock may be held during a call.
class JobFilter {
 public:
  // The description of a job. Pointers must outlive the filter.
  struct Job {
    CompactionFilter::Context context;
    // The level of the inputs, which the filter is told. A compaction has
    // inputs of the output level, too.
    int level = 0;
    const InternalKeyComparator* comparator = nullptr;
    StatisticsImpl* stats = nullptr;          // May be null.
    Logger* log = nullptr;                    // May be null.
    const std::atomic<bool>* stop = nullptr;  // Null if the job has to end.
  };

  // Returns the filter of a job under these options. Returns null if there is
  // none, or if the factory throws. A factory decides whether flushes are
  // filtered; a filter in the options applies to compactions only.
  static std::unique_ptr<JobFilter> Create(const Options& options,
                                           const Job& job);

  JobFilter(const JobFilter&) = delete;
  JobFilter& operator=(const JobFilter&) = delete;

  // Asks the filter about an entry. Returns kKeep without a call once the
  // filter has thrown, or the job is to stop. Returns kKeep, too, instead of a
  // change to a value that is too long for an entry, and instead of a skip to a
  // key that is not after this one.
  CompactionFilter::Decision Decide(const Slice& key,
                                    CompactionFilter::ValueType type,
                                    const Slice& value);
  // After kChangeValue and kRemoveAndSkipUntil. Valid until the next call.
  const std::string& new_value() const { return new_value_; }
  const std::string& skip_until() const { return skip_until_; }

 private:
  explicit JobFilter(const Job& job) : job_(job) {}

  void CountError(const char* what);

  const Job job_;
  std::unique_ptr<CompactionFilter> owned_;
  const CompactionFilter* filter_ = nullptr;
  bool has_failed_ = false;
  bool has_logged_ = false;
  std::string new_value_;
  std::string skip_until_;
};

}  // namespace varve
