// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/compaction_job.h"

#include "table/merging_iterator.h"

namespace varve {

namespace {

// An output that overlaps this many output files' worth of the level below is
// cut, so that compacting it further stays cheap.
constexpr uint64_t kMaxGrandparentOverlapFiles = 10;
// Bytes to read ahead in each input.
constexpr size_t kReadaheadBytes = 2 << 20;
// How often to look whether the DB is closing, in entries.
constexpr uint64_t kStopCheckInterval = 1024;

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
  options.readahead_size = kReadaheadBytes;
  std::vector<std::unique_ptr<InternalIterator>> children;
  const int levels[2] = {compaction_.level, compaction_.output_level};
  for (int i = 0; i < 2; ++i) {
    const auto& files = compaction_.inputs[i];
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

Status CompactionJob::Run(VersionEdit* edit) {
  const std::unique_ptr<InternalIterator> input = NewInput();
  CompactionIterator iterator(input.get(), context_.comparator, snapshots_,
                              &compaction_);
  Status status = Merge(&iterator);
  if (status.ok() && output_open_) status = FinishOutput();
  entries_dropped_ = iterator.dropped_count();
  if (!status.ok()) {
    for (const auto& output : outputs_) output->Abandon();
    return status;
  }
  const int levels[2] = {compaction_.level, compaction_.output_level};
  for (int i = 0; i < 2; ++i) {
    for (const FileMetaData* file : compaction_.inputs[i]) {
      edit->RemoveFile(levels[i], file->number);
    }
  }
  for (const auto& output : outputs_) {
    edit->AddFile(compaction_.output_level, output->metadata());
  }
  return status;
}

Status CompactionJob::Merge(CompactionIterator* iterator) {
  std::string last_user_key;
  uint64_t entries = 0;
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
    // relaxed: a flag that is looked at again and again.
    if (++entries % kStopCheckInterval == 0 &&
        stop_->load(std::memory_order_relaxed)) {
      return Status::ShutdownInProgress();
    }
    const Slice user_key = ExtractUserKey(iterator->key());
    // All versions of a user key go into one file.
    if (output_open_ &&
        context_.comparator->CompareUser(user_key, last_user_key) != 0 &&
        ShouldCutBefore(user_key)) {
      Status status = FinishOutput();
      if (!status.ok()) return status;
    }
    if (!output_open_) {
      outputs_.push_back(
          std::make_unique<TableOutput>(context_, new_file_number_()));
      Status status = outputs_.back()->Open();
      if (!status.ok()) return status;
      output_open_ = true;
      grandparent_overlap_ = 0;
    }
    Status status = outputs_.back()->Add(iterator->key(), iterator->value());
    if (!status.ok()) return status;
    last_user_key.assign(user_key.data(), user_key.size());
  }
  return iterator->status();
}

bool CompactionJob::ShouldCutBefore(const Slice& user_key) {
  if (outputs_.back()->EstimatedFileSize() >=
      compaction_.max_output_file_size) {
    return true;
  }
  const auto& files = compaction_.grandparents;
  while (grandparent_index_ < files.size() &&
         context_.comparator->CompareUser(
             files[grandparent_index_]->largest_user_key(), user_key) < 0) {
    grandparent_overlap_ += files[grandparent_index_]->file_size;
    ++grandparent_index_;
  }
  return grandparent_overlap_ >
         kMaxGrandparentOverlapFiles * context_.options->target_file_size_base;
}

Status CompactionJob::FinishOutput() {
  Status status = outputs_.back()->Finish();
  bytes_written_ += outputs_.back()->metadata().file_size;
  output_open_ = false;
  return status;
}

}  // namespace varve
