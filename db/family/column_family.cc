// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/family/column_family.h"

#include <algorithm>

#include "util/base/experiment.h"

namespace varve {

ColumnFamily::ColumnFamily(std::string name, Options* options,
                           const Shared& shared)
    : ColumnFamily(std::move(name), nullptr, options, shared) {}

ColumnFamily::ColumnFamily(std::string name, std::unique_ptr<Options> options,
                           const Shared& shared)
    : ColumnFamily(std::move(name), std::move(options), nullptr, shared) {}

ColumnFamily::ColumnFamily(std::string name, std::unique_ptr<Options> owned,
                           Options* options, const Shared& shared)
    : name_(std::move(name)),
      owned_options_(std::move(owned)),
      options_(options != nullptr ? options : owned_options_.get()),
      comparator_(options_->comparator),
      env_(shared.env),
      stats_(shared.stats),
      mutex_(shared.mutex),
      free_later_(shared.free_later),
      owns_snapshots_(shared.snapshots == nullptr),
      snapshots_(owns_snapshots_
                     ? new SnapshotRegistry(
                           ExperimentFlagsOf(*options_).lists_snapshots,
                           shared.mutex, this)
                     : shared.snapshots),
      super_versions_(ExperimentFlagsOf(*options_).locks_reads, shared.mutex,
                      this, owns_snapshots_ ? snapshots_ : nullptr),
      dead_walks_(&comparator_, shared.write_queue, shared.stats,
                  ExperimentFlagsOf(*options_).cleans_always,
                  shared.last_sequence, shared.wake_cleaner),
      cleaner_(options_, &comparator_,
               ExperimentFlagsOf(*options_).cleans_always),
      memtables_(options_, &comparator_,
                 [this, request = shared.request_switch] { request(this); }),
      compactions_(options_),
      pace_(options_, env_, stats_, &memtables_, &compactions_) {}

void ColumnFamily::MakeTables(const std::string& db_path,
                              const FileOptions& file_options,
                              FilePool* file_pool, Logger* info_log,
                              VersionSet* versions) {
  const bool searches_binary = ExperimentFlagsOf(*options_).searches_binary;
  TableReaderOptions table_options;
  table_options.comparator = &comparator_;
  table_options.filter_policy = options_->filter_policy;
  table_options.prefix_extractor = options_->prefix_extractor;
  table_options.block_cache =
      static_cast<BlockCache*>(options_->block_cache.get());
  table_options.statistics = stats_;
  table_options.info_log = info_log;
  table_options.binary_search = searches_binary;
  table_cache_ = std::make_unique<TableCache>(
      db_path, env_, file_options, table_options, options_->max_open_files,
      options_->cache_index_and_filter_blocks, file_pool);
  output_context_.info_log = info_log;
  version_set_ = versions;
  versions_ = std::make_unique<FamilyVersions>(
      name_, &comparator_, table_cache_.get(), !searches_binary);
  if (owns_snapshots_) snapshots_->SetLastSequence(versions->last_sequence());
}

void ColumnFamily::SetOutputContext(const std::string& db_path,
                                    const std::string& db_identity,
                                    const std::string& session_identity) {
  output_context_.db_path = db_path;
  output_context_.env = env_;
  output_context_.options = options_;
  output_context_.prefix_extractor = options_->prefix_extractor;
  output_context_.comparator = &comparator_;
  output_context_.db_identity = db_identity;
  output_context_.session_identity = session_identity;
  output_context_.family_id = id();
  output_context_.family_name = name_;
}

TableOutputContext ColumnFamily::OutputContextLocked() const {
  TableOutputContext context = output_context_;
  context.prefix_extractor = options_->prefix_extractor;
  return context;
}

void ColumnFamily::EmptyLocked() {
  memtables_.EmptyLocked();
  version_set_->EmptyFamilyLocked(versions_.get());
  InstallSuperVersionLocked(/*closed=*/true);
}

void ColumnFamily::Close() {
  memtables_.LeaveBudget();
  if (owns_snapshots_) snapshots_->Close();
  super_versions_.Close();
  MutexLock lock(mutex());
  memtables_.CloseLocked();
}

void ColumnFamily::Abandon() {
  if (owns_snapshots_) snapshots_->Abandon();
  super_versions_.Abandon();
}

// ---- Reads ------------------------------------------------------------------

void ColumnFamily::InstallSuperVersionLocked(
    bool closed, std::unique_ptr<const FamilyMoment> moment) {
  auto* next = new SuperVersion;
  next->closed = closed;
  next->moment = std::move(moment);
  next->memtable = memtables_.current();
  next->memtable->Ref();
  const std::vector<MemTable*>& immutable = memtables_.immutable();
  next->immutable.assign(immutable.rbegin(), immutable.rend());
  for (MemTable* memtable : next->immutable) memtable->Ref();
  next->version = versions_->current();
  next->version->RefLocked();
  next->prefix_extractor = options_->prefix_extractor;
  super_versions_.InstallLocked(next);
}

bool ColumnFamily::MemTablesOverlap(const Slice* begin, const Slice* end) {
  SuperVersion* const super_version = super_versions_.Reference();
  const std::vector<MemTable*>& immutable = super_version->immutable;
  const bool overlap = super_version->memtable->Overlaps(begin, end) ||
                       std::any_of(immutable.begin(), immutable.end(),
                                   [&](const MemTable* memtable) {
                                     return memtable->Overlaps(begin, end);
                                   });
  super_versions_.Release(super_version);
  return overlap;
}

void ColumnFamily::DisposeLocked(SuperVersion* super_version) {
  memtables_.UnrefLocked(super_version->memtable);
  for (MemTable* memtable : super_version->immutable) {
    memtables_.UnrefLocked(memtable);
  }
  version_set_->UnrefVersionLocked(super_version->version);
  delete super_version;
}

// ---- Memtables --------------------------------------------------------------

void ColumnFamily::SwitchLocked(MemTable* next) {
  const uint64_t batch_bytes = pace_.written_bytes();
  pace_.BeforeSwitchLocked();
  memtables_.SwitchLocked(next, batch_bytes);
}

std::vector<MemTable*> ColumnFamily::RemoveFlushedLocked(size_t count) {
  pace_.ForgetFlushedLocked(count);
  return memtables_.RemoveFlushedLocked(count);
}

void ColumnFamily::CountFlushesLocked(const VersionEdit& edit, size_t flushes,
                                      uint64_t micros) {
  CompactionStats& stats = compactions_.stats[0];
  for (const auto& [level, file] : edit.new_files()) {
    stats.bytes_written += file.file_size;
    RecordTick(stats_, Ticker::kFlushWriteBytes, file.file_size);
  }
  stats.micros += micros;
  stats.count += flushes;
}

}  // namespace varve
