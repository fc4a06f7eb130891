// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Compiled with exceptions, unlike the rest of the engine.
#include "db/filter/job_filter.h"

#include <exception>

namespace varve {

namespace {

// Returns what an exception that is being handled says.
std::string ExceptionText() {
  try {
    throw;
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "an exception that is no std::exception";
  }
}

}  // namespace

std::unique_ptr<JobFilter> JobFilter::Create(const Options& options,
                                             const Job& job) {
  if (options.compaction_filter == nullptr &&
      options.compaction_filter_factory == nullptr) {
    return nullptr;
  }
  std::unique_ptr<JobFilter> result(new JobFilter(job));
  if (options.compaction_filter != nullptr) {
    if (job.context.reason != TableFileCreationReason::kCompaction) {
      return nullptr;
    }
    result->filter_ = options.compaction_filter;
    return result;
  }
  try {
    CompactionFilterFactory& factory = *options.compaction_filter_factory;
    if (factory.ShouldFilterTableFileCreation(job.context.reason)) {
      result->owned_ = factory.CreateCompactionFilter(job.context);
    }
  } catch (...) {
    result->CountError(ExceptionText().c_str());
  }
  result->filter_ = result->owned_.get();
  if (result->filter_ == nullptr) return nullptr;
  return result;
}

CompactionFilter::Decision JobFilter::Decide(const Slice& key,
                                             CompactionFilter::ValueType type,
                                             const Slice& value) {
  using Decision = CompactionFilter::Decision;
  // relaxed: a flag that is looked at again and again.
  if (has_failed_ ||
      (job_.stop != nullptr && job_.stop->load(std::memory_order_relaxed))) {
    return Decision::kKeep;
  }
  new_value_.clear();
  skip_until_.clear();
  Decision decision = Decision::kKeep;
  try {
    decision = filter_->FilterV2(job_.level, key, type, value, &new_value_,
                                 &skip_until_);
  } catch (...) {
    has_failed_ = true;
    CountError(ExceptionText().c_str());
    return Decision::kKeep;
  }
  switch (decision) {
    case Decision::kKeep:
    case Decision::kRemove:
      return decision;
    case Decision::kChangeValue:
      if (EntryFits(key.size(), new_value_.size())) return decision;
      CountError("a value that is too long");
      return Decision::kKeep;
    case Decision::kRemoveAndSkipUntil:
      return job_.comparator->CompareUser(skip_until_, key) > 0
                 ? decision
                 : Decision::kKeep;
  }
  CountError("an unknown decision");
  return Decision::kKeep;
}

void JobFilter::CountError(const char* what) {
  RecordTick(job_.stats, Ticker::kCompactionFilterErrors);
  if (has_logged_) return;
  has_logged_ = true;
  Log(LogLevel::kError, job_.log,
      "[%s] compaction filter: %s; the job keeps what it would have changed",
      job_.context.column_family_name.c_str(), what);
}

}  // namespace varve
