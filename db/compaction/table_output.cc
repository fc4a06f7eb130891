// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/compaction/table_output.h"

#include <utility>

#include "db/options/options_update.h"
#include "env/file_names.h"
#include "monitoring/instrumented_file.h"
#include "monitoring/span.h"
#include "util/base/experiment.h"
#include "util/base/system_random.h"
#include "util/bytes/coding.h"
#include "varve/merge_operator.h"

namespace varve {

namespace {

// A custom field of a new file that RocksDB writes too.
constexpr uint32_t kRangeDeletionSizeField = 14;

// Written at once before the rate limiter is asked.
constexpr uint64_t kChargeBytes = 32 << 10;

void PutNumberField(std::string* out, uint32_t field, uint64_t number) {
  std::string value;
  PutVarint64(&value, number);
  PutVarint32(out, field);
  PutLengthPrefixedSlice(out, value);
}

}  // namespace

std::string NewSessionIdentity() {
  constexpr char kDigits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  constexpr size_t kBase = sizeof(kDigits) - 1;
  std::string identity(20, '\0');
  uint64_t bits = 0;
  for (size_t i = 0; i < identity.size(); ++i) {
    if (i % 10 == 0) bits = SystemRandom();
    identity[i] = kDigits[bits % kBase];
    bits /= kBase;
  }
  return identity;
}

JobFilter::Job TableOutputContext::FilterJob(
    TableFileCreationReason reason, int output_level,
    const std::atomic<bool>* stop) const {
  JobFilter::Job job;
  job.context.column_family_id = family_id;
  job.context.column_family_name = family_name;
  job.context.output_level = output_level;
  job.context.reason = reason;
  job.comparator = comparator;
  job.stats = StatisticsImpl::Of(options->statistics.get());
  job.log = info_log;
  job.stop = stop;
  return job;
}

TableBuilderOptions TableFormOf(const Options& options,
                                CompressionType compression) {
  TableBuilderOptions form;
  form.block_size = options.block_size;
  form.block_restart_interval = options.block_restart_interval;
  form.compression = compression;
  if (compression == options.compression) {
    form.compression_level = options.compression_level;
  }
  form.statistics = StatisticsImpl::Of(options.statistics.get());
  form.filter_policy = options.filter_policy;
  form.partitioned_index =
      options.index_type == IndexType::kTwoLevelIndexSearch;
  form.partition_filters = options.partition_filters;
  form.metadata_block_size = options.metadata_block_size;
  form.whole_key_filtering = options.whole_key_filtering;
  if (options.merge_operator != nullptr) {
    form.merge_operator_name = options.merge_operator->Name();
  }
  form.collector_factories = options.table_properties_collector_factories;
  form.num_levels = options.num_levels;
  return form;
}

TableOutput::TableOutput(const TableOutputContext& context, uint64_t number,
                         CompressionType compression,
                         RateLimiter::Priority priority)
    : context_(context),
      path_(context.temporary_names ? TempFileName(context.db_path, number)
                                    : TableFileName(context.db_path, number)),
      compression_(compression),
      priority_(priority),
      tombstone_estimate_(context.comparator) {
  metadata_.number = number;
}

Status TableOutput::Open() {
  FileOptions file_options;
  file_options.bytes_per_sync =
      ReadChangeable(context_.options->bytes_per_sync);
  Status status = context_.env->NewWritableFile(path_, file_options, &file_);
  if (!status.ok()) return status;
  TableBuilderOptions options = TableFormOf(*context_.options, compression_);
  options.comparator = context_.comparator;
  options.prefix_extractor = context_.prefix_extractor;
  options.db_identity = context_.db_identity;
  options.session_identity = context_.session_identity;
  options.column_family_id = context_.family_id;
  options.column_family_name = context_.family_name;
  options.file_number = metadata_.number;
  options.level_at_creation = level_;
  options.info_log = context_.info_log;
  // A date.
  options.file_creation_time_s = context_.env->NowMicros() / 1000000;
  options.creation_time_s = oldest_ancestor_time_s_ != 0
                                ? oldest_ancestor_time_s_
                                : options.file_creation_time_s;
  metadata_.times = {options.creation_time_s, options.file_creation_time_s};
  file_ = NewInstrumentedFile(std::move(file_), context_.env);
  builder_ = std::make_unique<TableBuilder>(options, file_.get());
  return status;
}

void TableOutput::CountSequence(SequenceNumber sequence) {
  const bool first = metadata_.smallest.empty();
  if (first || sequence < metadata_.smallest_sequence) {
    metadata_.smallest_sequence = sequence;
  }
  if (first || sequence > metadata_.largest_sequence) {
    metadata_.largest_sequence = sequence;
  }
}

Status TableOutput::Add(const Slice& internal_key, const Slice& value) {
  CountSequence(ExtractSequence(internal_key));
  if (metadata_.smallest.empty()) metadata_.smallest = internal_key.ToString();
  const bool added = builder_->Add(internal_key, value);
  if (context_.options->rate_limiter != nullptr) Charge(kChargeBytes);
  if (added) [[likely]]
    return Status();
  Status status = builder_->status();
  // The keys come from memtables and tables: the builder refuses them only
  // if a table that was read is out of order or has an entry that is larger
  // than those that this engine takes.
  if (status.IsInvalidArgument()) {
    return Status::Corruption("entries to be written to " + path_,
                              status.message());
  }
  return status;
}

void TableOutput::Charge(uint64_t least_bytes) {
  const uint64_t bytes = builder_->FileSize() - charged_bytes_;
  if (bytes < least_bytes) return;
  context_.options->rate_limiter->Request(bytes, priority_);
  charged_bytes_ += bytes;
}

void TableOutput::AddRangeTombstone(const RangeTombstone& tombstone) {
  const InternalKeyComparator& comparator = *context_.comparator;
  CountSequence(tombstone.sequence);
  std::string first = MakeInternalKey(
      tombstone.begin,
      PackTrailer(tombstone.sequence, ValueType::kRangeDeletion));
  std::string last = MakeInternalKey(tombstone.end, kRangeEndTrailer);
  if (metadata_.smallest.empty() ||
      comparator.Compare(first, metadata_.smallest) < 0) {
    metadata_.smallest = std::move(first);
  }
  if (tombstones_end_.empty() ||
      comparator.Compare(last, tombstones_end_) > 0) {
    tombstones_end_ = std::move(last);
  }
  builder_->AddRangeTombstone(tombstone.begin, tombstone.end,
                              tombstone.sequence);
  tombstone_estimate_.AddRange(tombstone.begin, tombstone.end);
}

void TableOutput::EstimateHiddenBytes() {
  const Slice smallest = metadata_.smallest_user_key();
  const Slice largest = metadata_.largest_user_key();
  const UserKeyRange range{&smallest, &largest, metadata_.EndIsExclusive()};
  const uint64_t bytes = tombstone_estimate_.RangeBytes(*version_, level_ + 1);
  if (bytes != 0) {
    PutNumberField(&metadata_.other_fields, kRangeDeletionSizeField, bytes);
  }
  metadata_.reclaimable_bytes = bytes;
  metadata_.points_are_estimated = true;
  // A flush: all tables of level 0 are older.
  int first_level = level_ + 1;
  if (level_ == 0 && !ExperimentFlagsOf(*context_.options).ignores_waste) {
    first_level = 0;
    metadata_.reclaimable_bytes +=
        tombstone_estimate_.Level0RangeBytes(*version_);
  }
  metadata_.reclaimable_bytes += RangeTombstoneEstimate::PointBytes(
      *version_, first_level, range, metadata_.dead.deletions);
}

Status TableOutput::Finish() {
  LocalSpan step("table finish");
  if (tombstones_end_.empty()) {
    // RocksDB leaves the field out if it is 0, which is what it takes it for
    // then. So it tells that nobody need look into the table for any.
    PutNumberField(&metadata_.other_fields, kRangeDeletionSizeField, 0);
    // relaxed: nobody else has the object yet.
    metadata_.table.without_tombstones.store(true, std::memory_order_relaxed);
  }
  Status status = builder_->Finish();
  metadata_.dead = builder_->Dead();
  metadata_.marked_for_compaction = builder_->NeedCompact();
  if (!context_.options->listeners.empty()) {
    metadata_.reported =
        std::make_shared<const TableProperties>(builder_->Properties());
  }
  metadata_.largest = builder_->LastKey().ToString();
  if (metadata_.largest.empty() ||
      (!tombstones_end_.empty() &&
       context_.comparator->Compare(tombstones_end_, metadata_.largest) > 0)) {
    metadata_.largest = tombstones_end_;
  }
  if (version_ != nullptr) EstimateHiddenBytes();
  if (context_.options->rate_limiter != nullptr) Charge(1);
  step.Next("table sync");
  if (status.ok() && context_.sync) status = file_->Sync();
  if (status.ok()) status = file_->Close();
  metadata_.file_size = builder_->FileSize();
  if (status.ok()) metadata_.tail_size = builder_->TailSize();
  builder_.reset();
  file_.reset();
  if (status.ok()) status = CheckSize();
  return status.Annotate(path_);
}

// Once the edit is in the MANIFEST, the logs and tables that the file was built
// from are removed. This check detects a file system that lost a part before
// that.
Status TableOutput::CheckSize() {
  uint64_t size = 0;
  Status status = context_.env->GetFileSize(path_, &size);
  if (!status.ok() || size == metadata_.file_size) return status;
  return Status::Corruption("of " + std::to_string(metadata_.file_size) +
                            " bytes written there are " + std::to_string(size));
}

void TableOutput::Abandon() {
  builder_.reset();
  file_.reset();
  // The next open removes remaining files.
  context_.env->RemoveFile(path_).IgnoreError();
}

}  // namespace varve
