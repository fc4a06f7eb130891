// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/recovery/repair_family.h"

#include <algorithm>
#include <utility>

#include "db/compaction/surviving_range_tombstones.h"
#include "db/folding/key_case.h"
#include "db/version/range_tombstone_collector.h"
#include "env/file_names.h"
#include "table/build/table_salvage.h"
#include "table/cache/block_cache.h"
#include "table/reader/table_cache.h"
#include "util/base/experiment.h"

namespace varve {

namespace {

constexpr size_t kDeletionBytes = 64 << 10;

constexpr int kMaxOpenFiles = 16;

// Returns true if a key's newest version is visible to readers.
bool IsLive(const Slice& key, const RangeTombstoneSet* tombstones) {
  if (IsDeletion(ExtractValueType(key))) return false;
  return tombstones == nullptr ||
         tombstones->MaxCovering(ExtractUserKey(key), kMaxSequenceNumber) <=
             ExtractSequence(key);
}

}  // namespace

RepairFamily::RepairFamily(uint32_t id, std::string name,
                           const Options& options, const RepairContext& context)
    : name_(std::move(name)),
      options_(options),
      shared_(context),
      comparator_(options_.comparator) {
  context_.db_path = context.path;
  context_.env = context.env;
  context_.options = &options_;
  context_.prefix_extractor = options_.prefix_extractor;
  context_.comparator = &comparator_;
  context_.session_identity = context.session_identity;
  context_.family_id = id;
  context_.family_name = name_;
  table_options_.comparator = &comparator_;
  table_options_.filter_policy = options_.filter_policy;
  table_options_.block_cache = context.block_cache;
  inputs_ = std::make_unique<RepairInputs>(context_, table_options_,
                                           context.pool, context.next_number);
}

std::unique_ptr<MemTable> RepairFamily::NewMemTable() const {
  return std::make_unique<MemTable>(
      &comparator_, 0, RepairInputs::kMemTableBytes, MemTableOrderOf(options_));
}

void RepairFamily::AddMemTable(std::unique_ptr<MemTable> memtable,
                               uint64_t rank) {
  for (const auto& set : memtable->tombstones().Sets()) AddDeletions(*set);
  inputs_->AddMemTable(std::move(memtable), rank);
}

void RepairFamily::AddDeletions(const RangeTombstoneSet& set) {
  if (!deletions_) {
    deletions_.emplace(&comparator_, 0, kDeletionBytes,
                       MemTableOrderOf(options_));
  }
  for (size_t i = 0; i < set.size(); ++i) {
    const RangeTombstone deletion = set.at(i);
    deletions_->Add(deletion.sequence, ValueType::kRangeDeletion,
                    deletion.begin, deletion.end);
  }
}

// ---- Logs -------------------------------------------------------------------

MemTable* RepairFamily::log_memtable() {
  if (log_ == nullptr) {
    // Many families may share the memory.
    const size_t bytes = context_.family_id == 0
                             ? RepairInputs::kMemTableBytes
                             : RepairInputs::kMemTableBytes / 32;
    log_ = std::make_unique<MemTable>(&comparator_, 0, bytes,
                                      MemTableOrderOf(options_));
  }
  return log_.get();
}

void RepairFamily::TakeLog() {
  if (log_ != nullptr) AddMemTable(std::move(log_), inputs_->NewRank());
}

// ---- Tables -----------------------------------------------------------------

bool RepairFamily::TakeWhole(const std::string& path, const TableFile& file,
                             SequenceNumber named_up_to,
                             const FileMetaData* known) {
  std::shared_ptr<Table> table;
  if (!inputs_->OpenTable(path, file, &table).ok()) return false;
  ReadOptions read_options;
  read_options.fill_cache = false;
  const auto iterator = table->NewIterator(read_options);
  std::string first;
  std::string last;
  SequenceNumber newest = 0;
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
    const Slice key = iterator->key();
    if (last.empty()) {
      first.assign(key.data(), key.size());
    } else if (comparator_.Compare(last, key) >= 0) {
      return false;
    }
    last.assign(key.data(), key.size());
    newest = std::max(newest, ExtractSequence(key));
  }
  if (iterator->status().ok() && known == nullptr && newest <= named_up_to &&
      table->properties().num_merge_operands != 0) {
    return true;
  }
  if (!iterator->status().ok() || !TakeRangeTombstones(file, *table, known)) {
    return false;
  }
  if (last.empty()) return true;
  inputs_->AddTable(path, file, inputs_->NewRank(), std::move(first),
                    std::move(last));
  return true;
}

bool RepairFamily::TakeRangeTombstones(const TableFile& file,
                                       const Table& table,
                                       const FileMetaData* known) {
  const RangeTombstoneSet* const tombstones = table.tombstones();
  if (tombstones == nullptr) return true;
  if (known == nullptr) {
    AddDeletions(*tombstones);
    return true;
  }
  // Foreign writers' deletions may reach beyond what the MANIFEST gives to the
  // table, to keys that have lost their sequence numbers.
  TableCache cache(context_.db_path, context_.env, FileOptions(),
                   table_options_, kMaxOpenFiles, false, shared_.pool);
  FileMetaData metadata = *known;  // Destroyed before the cache.
  metadata.file_size = file.size;
  metadata.tail_size = 0;
  RangeTombstoneCollector collector(&comparator_);
  if (!collector.AddFile(&cache, metadata).ok()) return false;
  const auto clipped = collector.Build();
  if (clipped != nullptr) AddDeletions(*clipped);
  return true;
}

Status RepairFamily::CopyReadable(const std::string& path,
                                  const TableFile& table, bool legacy,
                                  uint64_t rank) {
  std::unique_ptr<RandomAccessFile> file;
  Status status = context_.env->NewRandomAccessFile(path, FileOptions(), &file);
  if (!status.ok()) return status;
  TableReaderOptions table_options = table_options_;
  table_options.block_cache = nullptr;
  table_options.file_name = path;
  table_options.file_size = table.size;
  table_options.manifest_largest_sequence = table.largest_sequence;
  auto memtable = NewMemTable();
  // The first one of two entries with the same key counts.
  std::string last;
  const auto take = [&](const Slice& key, const Slice& value) {
    if (!status.ok()) return;
    // A crafted table may be in disorder, and have keys twice.
    if (!last.empty() && comparator_.Compare(last, key) >= 0) {
      const auto same = memtable->NewIterator();
      same->Seek(key);
      if (same->Valid() && same->key() == key) return;
    } else {
      last.assign(key.data(), key.size());
    }
    memtable->Add(ExtractSequence(key), ExtractValueType(key),
                  ExtractUserKey(key), value);
    if (memtable->ApproximateMemoryUsage() > RepairInputs::kMemTableBytes) {
      AddMemTable(std::exchange(memtable, NewMemTable()), rank--);
      status = shared_.bound_memtables();
    }
  };
  const Status salvaged =
      SalvageTable(table_options, std::move(file), legacy, take);
  if (status.ok()) status = salvaged;
  if (!status.ok()) return status;
  AddMemTable(std::move(memtable), rank);
  return shared_.bound_memtables();
}

// ---- The new tables ---------------------------------------------------------

Status RepairFamily::Merge(SequenceNumber* last_sequence) {
  const auto track = [last_sequence](SequenceNumber sequence) {
    *last_sequence = std::max(*last_sequence, sequence);
  };
  RangeTombstoneCollector collector(&comparator_);
  if (deletions_) collector.AddMemTable(*deletions_);
  const auto tombstones = collector.Build();
  for (size_t i = 0; tombstones != nullptr && i < tombstones->size(); ++i) {
    track(tombstones->at(i).sequence);
  }
  const KeyFolding folding = KeyFoldingOf(options_);
  const SurvivingRangeTombstones surviving(tombstones.get(), {}, nullptr);
  const auto input = inputs_->NewIterator();
  std::unique_ptr<TableOutput> output;
  std::string last_key;
  std::optional<std::string> begin;  // For outputs after the first.
  const auto open = [&] {
    output = std::make_unique<TableOutput>(context_, (*shared_.next_number)++,
                                           options_.compression,
                                           RateLimiter::Priority::kHigh);
    return output->Open();
  };
  const auto finish = [&](const std::optional<Slice>& end) {
    surviving.AddTo(begin, end, /*hidden=*/false, output.get());
    if (end) begin = end->ToString();
    Status finished = output->Finish();
    if (finished.ok()) edit_.AddFile(1, output->metadata());
    return finished;
  };
  Status status;
  for (input->SeekToFirst(); status.ok() && input->Valid(); input->Next()) {
    const Slice key = input->key();
    track(ExtractSequence(key));
    const bool newest =
        last_key.empty() || comparator_.CompareUser(ExtractUserKey(last_key),
                                                    ExtractUserKey(key)) != 0;
    // Only what is folded is found again.
    if (folding != KeyFolding::kNone && newest &&
        IsLive(key, tombstones.get())) {
      status = CheckIsFolded(ExtractUserKey(key), folding);
      if (!status.ok()) break;
    }
    if (output != nullptr && newest &&
        output->EstimatedFileSize() >= options_.target_file_size_base) {
      status = finish(ExtractUserKey(key));
      output.reset();
      if (!status.ok()) break;
    }
    if (output == nullptr) {
      status = open();
    }
    if (status.ok()) status = output->Add(key, input->value());
    last_key.assign(key.data(), key.size());
  }
  if (status.ok()) status = input->status();
  if (status.ok() && output == nullptr && !surviving.empty()) {
    status = open();
  }
  if (status.ok() && output != nullptr) status = finish({});
  if (!status.ok() && output != nullptr) output->Abandon();
  return status;
}

// An Open that found them would take them for what the MANIFEST has lost.
void RepairFamily::RemoveOutputs() {
  for (const auto& [level, file] : edit_.new_files()) {
    context_.env->RemoveFile(TableFileName(context_.db_path, file.number))
        .IgnoreError();
  }
}

}  // namespace varve
