// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "table/reader/table_cache.h"

#include <algorithm>
#include <list>
#include <unordered_map>
#include <utility>
#include <vector>

#include "env/file_names.h"
#include "monitoring/instrumented_file.h"
#include "monitoring/measured_operation.h"
#include "monitoring/span.h"
#include "table/block/merging_iterator.h"
#include "table/reader/file_pool.h"
#include "table/reader/part_cache.h"
#include "table/reader/read_limits.h"
#include "table/reader/table_iterator.h"
#include "util/base/mutex.h"
#include "util/base/probe.h"
#include "util/threads/path_counter.h"

namespace varve {

namespace {

// A prime, so that regularly spaced numbers spread over all shards.
constexpr size_t kShards = 13;
// A shard of fewer tables would evict tables that are used again soon.
constexpr size_t kMinShardTables = 64;
constexpr size_t kUnbounded = SIZE_MAX;
// How many tables are checked to find an unused one.
constexpr int kMaxEvictionSteps = 16;

// A table that is open, or that one thread is opening while others wait.
struct Slot {
  bool done = false;
  Status status;
  std::shared_ptr<Table> table;
  size_t charged_bytes = 0;
  std::list<uint64_t>::iterator place;  // In the shard's LRU list.
};

// A shard: the tables whose numbers map to it.
class Shard {
 public:
  // If `cache` is not null, tables are charged to it. It must outlive this.
  Shard(size_t max_tables, BlockCache* charged)
      : max_tables_(max_tables), charged_(charged) {}
  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;
  ~Shard() {
    if (charged_ != nullptr) charged_->Unreserve(charged_bytes_);
  }

  // Returns the table. If it is not cached, one thread calls open(&table)
  // without the mutex. may_open() is called before a thread does so, or waits
  // for another one, which an error prevents.
  template <typename MayOpen, typename Open>
  Status Find(uint64_t number, MayOpen may_open, Open open,
              std::shared_ptr<Table>* table);
  // Charges the table for the memory that loading it took.
  void ChargeLoaded(uint64_t number, const Table* table);

  void Evict(uint64_t number);
  void EvictAll();
  size_t ApproximateMemoryUsage() const;

 private:
  using Tables = std::vector<std::shared_ptr<Table>>;

  // Remove tables until one more fits, and until at most the shard's part of
  // the cache is charged. The caller releases them without the mutex.
  void MakeSpace(Tables* garbage) VARVE_REQUIRES(mu_);
  void Charge(Slot* slot, Tables* garbage) VARVE_REQUIRES(mu_);
  void RemoveOne(Tables* garbage) VARVE_REQUIRES(mu_);
  bool keeps_order() const {
    return max_tables_ != kUnbounded || charged_ != nullptr;
  }
  void Remove(uint64_t number, Tables* garbage) VARVE_REQUIRES(mu_);
  // Returns whether only the cache holds the table and it is not being opened.
  static bool IsIdle(const Slot& slot) {
    return slot.done && slot.table.use_count() == 1;
  }

  const size_t max_tables_;
  BlockCache* const charged_;
  mutable Mutex mu_;
  CondVar opened_;  // An open has ended.
  std::unordered_map<uint64_t, std::shared_ptr<Slot>> slots_
      VARVE_GUARDED_BY(mu_);
  size_t charged_bytes_ VARVE_GUARDED_BY(mu_) = 0;
  // Numbers in LRU order, the most recently used first. Kept only if needed.
  std::list<uint64_t> order_ VARVE_GUARDED_BY(mu_);
};

template <typename MayOpen, typename Open>
Status Shard::Find(uint64_t number, MayOpen may_open, Open open,
                   std::shared_ptr<Table>* table) {
  Tables garbage;
  std::shared_ptr<Slot> slot;
  {
    MutexLock lock(&mu_);
    const auto found = slots_.find(number);
    if (found != slots_.end()) {
      if (found->second->done) {
        if (keeps_order()) {
          order_.splice(order_.begin(), order_, found->second->place);
        }
        *table = found->second->table;
        return Status();
      }
      Status status = may_open();
      if (!status.ok()) return status;
      slot = found->second;
      const LocalSpan span("wait for table");
      while (!slot->done) opened_.Wait(&mu_);
      *table = slot->table;
      return slot->status;
    }
    Status status = may_open();
    if (!status.ok()) return status;
    MakeSpace(&garbage);
    slot = std::make_shared<Slot>();
    if (keeps_order()) {
      order_.push_front(number);
      slot->place = order_.begin();
    }
    slots_.emplace(number, slot);
  }
  garbage.clear();

  std::shared_ptr<Table> made;
  Status s = open(&made);
  {
    MutexLock lock(&mu_);
    slot->done = true;
    slot->status = s;
    slot->table = made;
    const auto it = slots_.find(number);
    // It may have been evicted in the meantime, and even opened again.
    const bool here = it != slots_.end() && it->second == slot;
    if (here && !s.ok()) {
      Remove(number, &garbage);
    } else if (here && charged_ != nullptr) {
      Charge(slot.get(), &garbage);
    }
  }
  opened_.SignalAll();
  *table = std::move(made);
  return s;
}

void Shard::ChargeLoaded(uint64_t number, const Table* table) {
  if (charged_ == nullptr) return;
  Tables garbage;
  MutexLock lock(&mu_);
  const auto it = slots_.find(number);
  // It may have been evicted in the meantime.
  if (it == slots_.end() || it->second->table.get() != table) return;
  Charge(it->second.get(), &garbage);
}

void Shard::Evict(uint64_t number) {
  Tables garbage;
  MutexLock lock(&mu_);
  if (slots_.contains(number)) Remove(number, &garbage);
}

void Shard::EvictAll() {
  Tables garbage;
  MutexLock lock(&mu_);
  while (!slots_.empty()) Remove(slots_.begin()->first, &garbage);
}

size_t Shard::ApproximateMemoryUsage() const {
  MutexLock lock(&mu_);
  size_t bytes = 0;
  for (const auto& [number, slot] : slots_) {
    if (slot->table != nullptr) bytes += slot->table->ApproximateMemoryUsage();
  }
  return bytes;
}

void Shard::MakeSpace(Tables* garbage) {
  while (slots_.size() >= max_tables_) RemoveOne(garbage);
}

void Shard::Charge(Slot* slot, Tables* garbage) {
  const size_t bytes = slot->table->ApproximateMemoryUsage();
  // It grows by loading.
  const size_t growth = bytes - slot->charged_bytes;
  slot->charged_bytes = bytes;
  charged_bytes_ += growth;
  charged_->Reserve(growth);
  // The newest table is needed now, so it stays whatever its size.
  while (charged_bytes_ > charged_->GetCapacity() / 2 / kShards &&
         slots_.size() > 1) {
    RemoveOne(garbage);
  }
}

void Shard::RemoveOne(Tables* garbage) {
  // A table in use would keep its memory.
  auto victim = std::prev(order_.end());
  auto candidate = victim;
  for (int i = 0; i < kMaxEvictionSteps; ++i, --candidate) {
    if (IsIdle(*slots_.find(*candidate)->second)) {
      victim = candidate;
      break;
    }
    if (candidate == order_.begin()) break;
  }
  Remove(*victim, garbage);
}

void Shard::Remove(uint64_t number, Tables* garbage) {
  const auto it = slots_.find(number);
  if (keeps_order()) order_.erase(it->second->place);
  if (charged_ != nullptr) {
    charged_bytes_ -= it->second->charged_bytes;
    charged_->Unreserve(it->second->charged_bytes);
  }
  if (it->second->table != nullptr) garbage->push_back(it->second->table);
  slots_.erase(it);
}

}  // namespace

struct TableCache::Rep {
  Rep(std::string path, Env* the_env, const FileOptions& the_file_options,
      const TableReaderOptions& the_base, int max_open_files,
      bool charge_tables, FilePool* shared_pool)
      : db_path(std::move(path)),
        env(the_env),
        file_options(the_file_options),
        base(the_base),
        charged(charge_tables ? base.block_cache : nullptr),
        part_cache(charged != nullptr ? PartCache::Of(charged) : nullptr),
        bounded(file_options.uncached_open && max_open_files >= 0),
        own_pool(shared_pool != nullptr
                     ? nullptr
                     : std::make_unique<FilePool>(
                           env, file_options, max_open_files, base.statistics)),
        pool(shared_pool != nullptr ? shared_pool : own_pool.get()) {}

  // Opens the file under one of its two names.
  Status OpenFile(uint64_t number, std::string* path,
                  std::unique_ptr<RandomAccessFile>* file);
  Status OpenFile(const std::string& path,
                  std::unique_ptr<RandomAccessFile>* file);
  Status OpenTable(const TableFile& table_file, IndexLoading loading,
                   std::shared_ptr<Table>* table);
  Status TryOpenTable(const TableFile& table_file, IndexLoading loading,
                      std::shared_ptr<Table>* table);
  // `limits` may be null.
  Status Find(const TableFile& table_file, IndexLoading loading,
              const ReadOptions* limits, std::shared_ptr<Table>* table);
  Shard* ShardOf(uint64_t number) {
    return shards[number % shards.size()].get();
  }

  const std::string db_path;
  Env* const env;
  const FileOptions file_options;
  const TableReaderOptions base;
  // Whether tables that are still needed may be evicted.
  bool forgets() const { return bounded || charged != nullptr; }

  BlockCache* const charged;  // Null if tables are not charged.
  const std::shared_ptr<PartCache> part_cache;  // Likewise.
  const bool bounded;                           // In number, by max_open_files.
  const std::unique_ptr<FilePool> own_pool;     // Null if it is shared.
  FilePool* const pool;
  bool missing_is_gone = false;
  std::vector<std::unique_ptr<Shard>> shards;
  Mutex handle_mutex;
};

Status TableCache::Rep::OpenFile(const std::string& path,
                                 std::unique_ptr<RandomAccessFile>* file) {
  Status s;
  if (!file_options.uncached_open) {
    s = pool->Open(path, file, env);
  } else {
    const LocalSpan span("open file");
    ++table_file_calls;
    s = env->NewRandomAccessFile(path, file_options, file);
    if (s.ok()) RecordTick(base.statistics, Ticker::kNoFileOpens, 1);
  }
  if (s.ok())
    *file = NewInstrumentedFile(std::move(*file), base.statistics, env);
  return s;
}

Status TableCache::Rep::OpenFile(uint64_t number, std::string* path,
                                 std::unique_ptr<RandomAccessFile>* file) {
  *path = TableFileName(db_path, number);
  Status s = OpenFile(*path, file);
  if (!s.IsNotFound()) return s;
  const std::string other_path = LevelDbTableFileName(db_path, number);
  s = OpenFile(other_path, file);
  if (s.IsNotFound()) {
    return missing_is_gone
               ? FilePool::RemovedError(*path)
               : Status::Corruption(*path, "the table file is missing");
  }
  *path = other_path;
  return s;
}

Status TableCache::Rep::OpenTable(const TableFile& table_file,
                                  IndexLoading loading,
                                  std::shared_ptr<Table>* table) {
  const LocalSpan span("table open");
  [[maybe_unused]] const uint64_t calls_before = table_file_calls;
  Status s = TryOpenTable(table_file, loading, table);
  VARVE_PROBE(table_open, table_file.number, table_file.size,
              table_file.tail_size, table_file_calls - calls_before, s.ok());
  if (!s.ok()) RecordTick(base.statistics, Ticker::kNoFileErrors, 1);
  return s;
}

Status TableCache::Rep::TryOpenTable(const TableFile& table_file,
                                     IndexLoading loading,
                                     std::shared_ptr<Table>* table) {
  const HistogramTimer timer(base.statistics, HistogramType::kTableOpen, env);
  const PerfTimer io_timer(env, &GetIOStatsContext()->open_nanos);
  TableReaderOptions options = base;
  std::unique_ptr<RandomAccessFile> file;
  Status s = OpenFile(table_file.number, &options.file_name, &file);
  if (!s.ok()) return s;
  options.file_size = table_file.size;
  options.env = env;
  options.part_cache = part_cache;
  options.tail_size = table_file.tail_size;
  options.manifest_largest_sequence = table_file.largest_sequence;
  options.separate_reads = file_options.uncached_open;
  options.index_loading = loading;
  CountPath(options.separate_reads ? PathCounter::kUncachedOpen
                                   : PathCounter::kTailRead);
  std::unique_ptr<Table> opened;
  s = Table::Open(options, std::move(file), &opened);
  *table = std::move(opened);
  // A wrong file size may have caused the error.
  uint64_t size = 0;
  if (s.IsCorruption() && env->GetFileSize(options.file_name, &size).ok() &&
      size != table_file.size) {
    s = Status::Corruption(options.file_name,
                           "size differs from MANIFEST: expected " +
                               std::to_string(table_file.size) + ", found " +
                               std::to_string(size));
  }
  return s;
}

TableCache::TableCache(std::string db_path, Env* env,
                       const FileOptions& file_options,
                       const TableReaderOptions& base, int max_open_files,
                       bool charge_tables, FilePool* shared_pool)
    : rep_(new Rep(std::move(db_path), env, file_options, base, max_open_files,
                   charge_tables, shared_pool)) {
  const bool bounded = rep_->bounded;
  const auto max_tables = static_cast<size_t>(std::max(max_open_files, 1));
  const size_t count =
      bounded && max_tables < kShards * kMinShardTables ? 1 : kShards;
  for (size_t i = 0; i < count; ++i) {
    const size_t part = max_tables / count + (i < max_tables % count ? 1 : 0);
    rep_->shards.push_back(
        std::make_unique<Shard>(bounded ? part : kUnbounded, rep_->charged));
  }
}

TableCache::~TableCache() = default;

Status TableCache::Rep::Find(const TableFile& file, IndexLoading loading,
                             const ReadOptions* limits,
                             std::shared_ptr<Table>* table) {
  const auto may_read = [&] {
    return limits == nullptr ? Status() : MayReadFile(*limits, env);
  };
  Shard* const shard = ShardOf(file.number);
  Status s = shard->Find(
      file.number, may_read,
      [&](std::shared_ptr<Table>* opened) {
        return OpenTable(file, loading, opened);
      },
      table);
  if (!s.ok() || loading != IndexLoading::kAtOpen || (*table)->is_loaded()) {
    return s;
  }
  s = may_read();
  if (!s.ok()) {
    table->reset();
    return s;
  }
  s = (*table)->Load();
  if (s.ok()) {
    shard->ChargeLoaded(file.number, table->get());
  } else {
    RecordTick(base.statistics, Ticker::kNoFileErrors, 1);
    table->reset();
  }
  return s;
}

Status TableCache::Find(const TableFile& file, std::shared_ptr<Table>* table) {
  return rep_->Find(file, IndexLoading::kAtOpen, nullptr, table);
}

Status TableCache::FindDescription(const TableFile& file,
                                   std::shared_ptr<Table>* table,
                                   const ReadOptions* limits) {
  return rep_->Find(file, IndexLoading::kAtFirstUse, limits, table);
}

Status TableCache::Check(const TableFile& file, CachedTableHandle* handle,
                         DeadEntries* dead) {
  // acquire pairs with the release in Cache.
  const Table* const open = handle->table.load(std::memory_order_acquire);
  if (open != nullptr) {
    if (dead != nullptr) *dead = DeadEntriesOf(open->properties());
    return Status();
  }
  std::shared_ptr<Table> table;
  Status s =
      rep_->Find(file, IndexLoading::kVerifiedAtFirstUse, nullptr, &table);
  if (s.ok() && dead != nullptr) *dead = DeadEntriesOf(table->properties());
  if (s.ok() && table->is_loaded()) Cache(handle, table);
  return s;
}

Status TableCache::FindAndCache(const TableFile& file,
                                CachedTableHandle* handle, const Table** table,
                                std::shared_ptr<Table>* owner,
                                const ReadOptions* limits) {
  Status s = rep_->Find(file, IndexLoading::kAtOpen, limits, owner);
  *table = owner->get();
  if (s.ok()) Cache(handle, *owner);
  return s;
}

void TableCache::Cache(CachedTableHandle* handle,
                       const std::shared_ptr<Table>& table) {
  if (rep_->forgets()) return;
  MutexLock lock(&rep_->handle_mutex);
  // relaxed: it changes under the mutex only.
  if (handle->table.load(std::memory_order_relaxed) == nullptr) {
    handle->owner = table;
    // release pairs with the acquire in Find.
    handle->table.store(table.get(), std::memory_order_release);
  }
}

std::unique_ptr<InternalIterator> TableCache::NewIterator(
    const ReadOptions& options, const TableFile& file,
    CachedTableHandle* handle, ThreadArena* memory) {
  const Table* table;
  std::shared_ptr<Table> owner;
  Status s = handle != nullptr ? Find(file, handle, &table, &owner, &options)
                               : Find(file, &owner);
  if (!s.ok()) return NewEmptyIterator(std::move(s), memory);
  if (handle == nullptr) table = owner.get();
  return std::unique_ptr<InternalIterator>(new (memory) TableIterator(
      options, &table->core(), std::move(owner), memory));
}

void TableCache::ExpectOtherWriters() { rep_->pool->ExpectOtherWriters(); }

void TableCache::ExpectRemovals() { rep_->missing_is_gone = true; }

void TableCache::Evict(uint64_t file_number) {
  rep_->ShardOf(file_number)->Evict(file_number);
}

void TableCache::EvictAll() {
  for (const auto& shard : rep_->shards) shard->EvictAll();
}

size_t TableCache::TEST_OpenFiles() const { return rep_->pool->open_files(); }

size_t TableCache::ApproximateMemoryUsage() const {
  size_t bytes = rep_->part_cache != nullptr
                     ? rep_->part_cache->ApproximateMemoryUsage()
                     : 0;
  for (const auto& shard : rep_->shards) {
    bytes += shard->ApproximateMemoryUsage();
  }
  return bytes;
}

}  // namespace varve
