// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/compaction/compaction_job.h"

#include <algorithm>

#include "db/version/range_tombstone_collector.h"
#include "monitoring/span.h"
#include "table/block/merging_iterator.h"

namespace varve {

namespace {

// Returns the bytes to read ahead in each of `inputs` files, which a compaction
// in `parts` parts reads at the same time. All files share a budget. With 6
// inputs, 5 of level 0 and one of the next level, each gets the largest useful
// amount.
size_t ReadaheadBytes(size_t inputs, size_t parts) {
  constexpr size_t kBudgetBytes = 12 << 20;
  constexpr size_t kMostBytes = 2 << 20;
  constexpr size_t kLeastBytes = 16 << 10;
  return std::clamp(kBudgetBytes / std::max<size_t>(inputs * parts, 1),
                    kLeastBytes, kMostBytes);
}

// How often the progress is reported.
constexpr uint64_t kEntriesPerReport = 1024;

// An output of this part of the full size may end where a file of the next
// level ends. The compaction of the output then reads fewer files that it only
// touches at an end, and it is short.
constexpr uint64_t kAlignedPart = 4;

}  // namespace

CompactionJob::CompactionJob(const TableOutputContext& context,
                             const Compaction& compaction,
                             TableCache* table_cache,
                             std::vector<SequenceNumber> snapshots,
                             std::function<uint64_t()> new_file_number,
                             const std::atomic<bool>* stop)
    : context_(context),
      compaction_(compaction),
      table_cache_(table_cache),
      snapshots_(std::move(snapshots)),
      new_file_number_(std::move(new_file_number)),
      stop_(stop) {}

std::unique_ptr<InternalIterator> CompactionJob::NewInput() const {
  ReadOptions options;
  options.fill_cache = false;
  const int levels[2] = {compaction_.level, compaction_.output_level};
  size_t inputs = 0;
  for (int i = 0; i < 2; ++i) {
    const size_t files = read_inputs_[i].size();
    inputs += levels[i] > 0 ? std::min<size_t>(files, 1) : files;
  }
  options.readahead_size = ReadaheadBytes(inputs, parts_);
  std::vector<std::unique_ptr<InternalIterator>> children;
  for (int i = 0; i < 2; ++i) {
    const auto& files = read_inputs_[i];
    if (files.empty()) continue;
    if (levels[i] > 0) {
      children.push_back(
          NewLevelIterator(options, context_.comparator, table_cache_, &files));
      continue;
    }
    for (const FileMetaData* file : files) {
      children.push_back(
          table_cache_->NewIterator(options, file->table_file()));
    }
  }
  return NewMergingIterator(context_.comparator, std::move(children));
}

std::unique_ptr<JobFilter> CompactionJob::NewFilter() const {
  JobFilter::Job job = context_.FilterJob(TableFileCreationReason::kCompaction,
                                          compaction_.output_level, stop_);
  job.context.is_full_compaction = compaction_.IsFull();
  job.context.is_manual_compaction = compaction_.is_manual;
  job.level = compaction_.level;
  return JobFilter::Create(*context_.options, job);
}

Status CompactionJob::Run() {
  // A trace of its own if it is done by another thread.
  const RequestSpan span("compaction part");
  Status status = Prepare();
  if (!status.ok()) return status;
  const std::unique_ptr<InternalIterator> input = NewInput();
  OlderTables older_tables(compaction_);
  const std::unique_ptr<JobFilter> filter = NewFilter();
  CompactionIterator iterator(
      input.get(), context_.comparator, snapshots_, tombstones_.get(),
      DropsDeletions() ? &older_tables : nullptr,
      compaction_.output_level == 0 ? CompactionIterator::Output::kLevel0
                                    : CompactionIterator::Output::kDeeperLevel,
      stop_,
      {context_.options->merge_operator.get(), filter.get(),
       StatisticsImpl::Of(context_.options->statistics.get())});
  iterator.SetEnd(end_);
  std::optional<Slice> end;
  if (begin_ != nullptr) output_begin_ = *begin_;
  if (end_ != nullptr) end = *end_;
  status = Merge(&iterator);
  if (status.ok() && !output_open_ &&
      surviving_tombstones_->ReachInto(output_begin_, end)) {
    status = OpenOutput();
  }
  if (status.ok() && output_open_) status = FinishOutput(end);
  entries_read_ = iterator.input_count();
  skipped_input_ = iterator.skipped_input();
  drops_ = iterator.drops();
  if (!status.ok()) Abandon();
  return status;
}

void CompactionJob::AddOutputs(VersionEdit* edit) const {
  for (const auto& output : outputs_) {
    edit->AddFile(compaction_.output_level, output->metadata());
  }
}

void CompactionJob::Abandon() {
  for (const auto& output : outputs_) {
    output->Abandon();
    abandoned_.push_back(output->metadata().number);
  }
  outputs_.clear();
}

Status CompactionJob::CollectRangeTombstones() {
  RangeTombstoneCollector collector(context_.comparator);
  for (const auto& files : compaction_.inputs) {
    for (const FileMetaData* file : files) {
      Status status = collector.AddFile(table_cache_, *file);
      if (!status.ok()) return status;
    }
  }
  tombstones_ = collector.Build();
  const OlderTables older_tables(compaction_);
  surviving_tombstones_.emplace(tombstones_.get(), snapshots_,
                                DropsDeletions() ? &older_tables : nullptr);
  return Status();
}

Status CompactionJob::Prepare() {
  if (prepared_) return Status();
  Status status = CollectRangeTombstones();
  if (!status.ok()) return status;
  for (int i = 0; i < 2; ++i) {
    for (FileMetaData* file : compaction_.inputs[i]) {
      if (IsHidden(*file)) {
        bytes_skipped_[i] += file->file_size;
      } else {
        read_inputs_[i].push_back(file);
      }
    }
  }
  prepared_ = true;
  return status;
}

bool CompactionJob::IsHidden(const FileMetaData& file) const {
  if (tombstones_ == nullptr || file.sequences_unknown) return false;
  // A deletion that the oldest snapshot which may see an entry sees as well,
  // and that is newer than all entries, hides them from each snapshot.
  const auto snapshot = std::lower_bound(snapshots_.begin(), snapshots_.end(),
                                         file.smallest_sequence);
  const SequenceNumber stripe =
      snapshot == snapshots_.end() ? kMaxSequenceNumber : *snapshot;
  const Slice end = file.largest_user_key();
  for (size_t i = tombstones_->FindInterval(file.smallest_user_key());; ++i) {
    if (tombstones_->MaxCoveringInterval(i, stripe) <= file.largest_sequence) {
      return false;
    }
    // Compares with the interval's own end; a covering interval always has one.
    const int r = context_.comparator->CompareUser(end, tombstones_->bound(i));
    if (r < 0 || (r == 0 && file.EndIsExclusive())) return true;
  }
}

Status CompactionJob::Merge(CompactionIterator* iterator) {
  const LocalSpan span("merge");
  const NoBlockSpans quiet;
  if (begin_ != nullptr) {
    iterator->Seek(*begin_);
  } else {
    iterator->SeekToFirst();
  }
  uint64_t count = 0;
  for (; iterator->Valid(); iterator->Next()) {
    if (++count % kEntriesPerReport == 0) ReportProgress();
    const Slice user_key = ExtractUserKey(iterator->key());
    // All versions of a user key go into one file.
    if (iterator->starts_user_key()) {
      Status status;
      if (output_open_ && ShouldCutBefore(user_key)) {
        status = FinishOutput(user_key);
      }
      if (status.ok() && !output_open_) {
        status = OpenOutput();
        PassGrandparents(user_key);
        grandparent_overlap_ = 0;
      }
      if (!status.ok()) return status;
    }
    Status status = outputs_.back()->Add(iterator->key(), iterator->value());
    if (!status.ok()) return status;
    if (iterator->hidden()) {
      outputs_.back()->CountHidden(
          iterator->kept_for(),
          iterator->key().size() + iterator->value().size());
    }
  }
  return iterator->status();
}

Status CompactionJob::OpenOutput() {
  outputs_.push_back(std::make_unique<TableOutput>(
      context_, new_file_number_(), compaction_.compression,
      RateLimiter::Priority::kLow));
  outputs_.back()->SetPlace(compaction_.version, compaction_.output_level);
  outputs_.back()->SetOldestAncestorTime(compaction_.OldestAncestorTime());
  Status status = outputs_.back()->Open();
  output_open_ = status.ok();
  return status;
}

bool CompactionJob::PassGrandparents(const Slice& user_key) {
  const auto& files = compaction_.grandparents;
  const size_t before = grandparent_index_;
  while (grandparent_index_ < files.size() &&
         context_.comparator->CompareUser(
             files[grandparent_index_]->largest_user_key(), user_key) < 0) {
    grandparent_overlap_ += files[grandparent_index_]->file_size;
    ++grandparent_index_;
  }
  return grandparent_index_ != before;
}

bool CompactionJob::ShouldCutBefore(const Slice& user_key) {
  const uint64_t size = outputs_.back()->EstimatedFileSize();
  if (size >= compaction_.max_output_file_size) return true;
  const bool passed = PassGrandparents(user_key);
  return (passed && size >= compaction_.max_output_file_size / kAlignedPart) ||
         grandparent_overlap_ > compaction_.max_grandparent_overlap;
}

void CompactionJob::ReportProgress() {
  if (compaction_.progress_bytes == nullptr) return;
  const uint64_t open = output_open_ ? outputs_.back()->EstimatedFileSize() : 0;
  const uint64_t written = bytes_written_ + open;
  if (written <= reported_bytes_) return;
  // relaxed: used only for an estimate.
  compaction_.progress_bytes->fetch_add(written - reported_bytes_,
                                        std::memory_order_relaxed);
  reported_bytes_ = written;
}

Status CompactionJob::FinishOutput(const std::optional<Slice>& end) {
  // With nothing below, only snapshots need them.
  surviving_tombstones_->AddTo(output_begin_, end, compaction_.bottommost,
                               outputs_.back().get());
  if (end) output_begin_ = end->ToString();
  Status status = outputs_.back()->Finish();
  bytes_written_ += outputs_.back()->metadata().file_size;
  output_open_ = false;
  return status;
}

}  // namespace varve
