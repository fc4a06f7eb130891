// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Finding, opening and closing databases. catalog_files.cc handles their
// directories.

#include <algorithm>

#include "catalog/catalog_impl.h"
#include "catalog/catalog_names.h"
#include "db/folding/folding_db.h"
#include "db/options/options_check.h"
#include "env/file_names.h"
#include "util/base/experiment.h"
#include "util/threads/path_counter.h"
#include "varve/write_buffer_manager.h"

namespace varve {

namespace {

constexpr uint64_t kReferencePollUs = 1000;

// The default budget is this many write buffers, so that one or two busy
// databases do not notice it.
constexpr size_t kBudgetBuffers = 4;
constexpr size_t kMinBudgetBytes = size_t{64} << 20;

// Returns the options of each database.
Options Share(const Options& given) {
  Options options = given;
  options.create_if_missing = true;
  options.error_if_exists = false;
  MakeSharedParts(&options);
  if (options.write_buffer_manager == nullptr) {
    const size_t budget_bytes =
        std::max(kMinBudgetBytes, kBudgetBuffers * options.write_buffer_size);
    options.write_buffer_manager = std::make_shared<WriteBufferManager>(
        budget_bytes, nullptr, /*allow_stall=*/true);
  }
  return options;
}

}  // namespace

Status Catalog::Open(const CatalogOptions& options, const std::string& root,
                     std::unique_ptr<Catalog>* catalog) {
  catalog->reset();
  Status status = CheckOptions(options.options);
  if (!status.ok()) return status;
  if (options.max_cached_names < 4 || options.max_cached_names > 1 << 20) {
    return Status::InvalidArgument("max_cached_names must be in [4, 1048576]");
  }
  auto impl = std::make_unique<CatalogImpl>(options, root);
  status = impl->Open(options.create_if_missing);
  if (status.ok()) *catalog = std::move(impl);
  return status;
}

CatalogImpl::CatalogImpl(const CatalogOptions& options, const std::string& root)
    : folds_names_(ExperimentFlagsOf(options.options).folds_names),
      folding_(ExperimentFlagsOf(options.options).folds_by_unicode
                   ? KeyFolding::kUnicode
                   : KeyFolding::kAsciiFirst),
      options_(Share(options.options)),
      root_(options_.env->AbsolutePath(root)),
      directory_env_(options_.env->NewDirectoryEnv(root_)),
      env_(directory_env_ != nullptr ? directory_env_.get() : options_.env),
      drop_timeout_us_(options.drop_timeout_us),
      file_pool_(DBImpl::NewFilePool(options_)),
      name_cache_(options.max_cached_names) {
  options_.env = env_;
}

CatalogImpl::~CatalogImpl() {
  Close().IgnoreError();  // A destructor has no status.
  StopGiving();
  MutexLock lock(&mutex_);
  // Databases that are open here still have iterators, which is a mistake of
  // the caller.
  entries_.clear();
  if (lock_ != nullptr) {
    env_->UnlockFile(std::move(lock_)).IgnoreError();  // As above.
  }
}

// ---- Finding ---------------------------------------------------------------

Status CatalogImpl::Find(const Slice& name, DatabaseRef* ref) {
  ref->Reset();
  if (folds_names_) [[unlikely]]
    return FindSlowly(name, ref);
  const HashedName hashed(name);
  ThreadRecord* const record = CurrentThreadRecord();
  {
    const EpochGuard section(record);
    CatalogEntry* const entry = name_cache_.Find(hashed);
    if (entry != nullptr) [[likely]] {
      DistributedRefCounts::Counts* const counts =
          references_.Find(record, entry->index);
      if (counts != nullptr) [[likely]] {
        counts->Take();
        // T1 of distributed_ref_counts.h: taken, then open.
        LightBarrier(record);
        // acquire: pairs with the release in OpenLocked and PutBackLocked.
        DB* const db = entry->open.load(std::memory_order_acquire);
        if (db != nullptr) [[likely]] {
          ref->db_ = db;
          ref->entry_ = entry;
          return Status::OK();
        }
        counts->Give();
      }
    }
  }
  return FindSlowly(name, ref);
}

Status CatalogImpl::FindSlowly(const Slice& name, DatabaseRef* ref) {
  if (folds_names_) CountPath(PathCounter::kCatalogFold);
  const FoldedKey folded(name, folding_);
  if (!folded.ok()) return UnfoldableText("name: it", Slice());
  ThreadRecord* const record = CurrentThreadRecord();
  for (;;) {
    uint32_t index;
    {
      MutexLock lock(&mutex_);
      CatalogEntry* const entry = AwaitLocked(folded.slice());
      if (entry == nullptr || entry->is_leaving) break;
      if (entry->state == CatalogEntry::State::kClosed) {
        Status status = OpenLocked(entry, false);
        if (!status.ok()) return status;
      }
      index = entry->index;
      DistributedRefCounts::Counts* const counts =
          references_.Find(record, index);
      if (counts != nullptr) {
        counts->Take();
        ref->db_ = entry->db.get();
        ref->entry_ = entry;
        if (!folds_names_ && name_cache_.Learn(HashedName(name), entry)) {
          CountPath(PathCounter::kCachedName);
        }
        return Status::OK();
      }
    }
    references_.FindOrMake(record, index);
  }
  return NoSuchDatabase(folded.slice());
}

void DatabaseRef::GiveBack() {
  entry_->references->FindOrMake(CurrentThreadRecord(), entry_->index)->Give();
  db_ = nullptr;
}

CatalogEntry* CatalogImpl::FindLocked(const Slice& folded) {
  const auto found = entries_.find(folded.ToStringView());
  return found == entries_.end() ? nullptr : found->second.get();
}

CatalogEntry* CatalogImpl::AwaitLocked(const Slice& folded) {
  for (;;) {
    CatalogEntry* const entry = FindLocked(folded);
    if (entry == nullptr || entry->state == CatalogEntry::State::kClosed ||
        entry->state == CatalogEntry::State::kOpen) {
      return entry;
    }
    changed_.Wait(&mutex_);
  }
}

// ---- Opening and closing databases -----------------------------------------

Status CatalogImpl::OpenLocked(CatalogEntry* entry, bool is_new) {
  entry->state = CatalogEntry::State::kOpening;
  mutex_.Unlock();
  MakeSpaceForDatabase();
  const std::string path = PathOf(*entry);
  Status status;
  if (is_new) {
    status = MakeDirectory(path);
  } else if (env_->FileExists(CurrentFileName(path)).IsNotFound()) {
    // Another process may have removed it; then no empty database may replace
    // it. If the directory exists, its creator may have stopped before CURRENT
    // was written.
    status = env_->FileExists(path);
    if (status.ok()) status = MakeDirectory(path);
  }
  // NotFound is reserved for unknown names.
  if (status.IsNotFound()) {
    status = Status::Corruption(path, "the database's directory is missing");
  }
  if (status.ok()) status = OpenDatabase(path, entry);
  mutex_.Lock();
  if (status.ok()) {
    entry->opened_us = NowUs();
    entry->idle_since_us = entry->opened_us;
    PutBackLocked(entry);
  } else {
    entry->state = CatalogEntry::State::kClosed;
    changed_.SignalAll();
  }
  return status;
}

Status CatalogImpl::OpenDatabase(const std::string& path, CatalogEntry* entry) {
  for (;;) {
    auto engine =
        std::make_unique<DBImpl>(options_, path, false, file_pool_.get());
    Status status = engine->Open(true);
    if (status.ok()) {
      entry->engine = engine.get();
      entry->db = WithFolding(std::move(engine), options_);
      return status;
    }
    engine.reset();
    if (!IsOutOfDescriptors(status) || CloseLeastUsed(false) == 0) {
      return status;
    }
  }
}

void CatalogImpl::RetractLocked(CatalogEntry* entry) {
  entry->state = CatalogEntry::State::kEnding;
  // relaxed: a HeavyBarrier follows.
  entry->open.store(nullptr, std::memory_order_relaxed);
}

void CatalogImpl::PutBackLocked(CatalogEntry* entry) {
  entry->state = CatalogEntry::State::kOpen;
  // release: pairs with the acquire in Find.
  entry->open.store(entry->db.get(), std::memory_order_release);
  changed_.SignalAll();
}

bool CatalogImpl::AwaitReferences(const CatalogEntry& entry,
                                  uint64_t timeout_us) {
  const uint64_t start_us = NowUs();
  for (;;) {
    const DistributedRefCounts::Sums sums = references_.Count(entry.index);
    if (sums.given == sums.taken) return true;
    if (NowUs() - start_us >= timeout_us) return false;
    env_->SleepForMicroseconds(kReferencePollUs);
  }
}

Status CatalogImpl::CloseDatabase(CatalogEntry* entry) {
  Status status = entry->db->Close();
  if (!status.IsBusy()) entry->db.reset();
  return status;
}

Status CatalogImpl::Close() {
  {
    MutexLock lock(&mutex_);
    if (closed_) return Status::OK();
  }
  StopGiving();
  Status status = CloseIdle(0, nullptr);
  MutexLock lock(&mutex_);
  for (const auto& [name, entry] : entries_) {
    if (entry->db != nullptr) {
      AddDescriptorOwner(this);  // The catalog stays open.
      return Status::Busy("still in use: database", name);
    }
  }
  closed_ = true;
  if (lock_ != nullptr) {
    const Status unlock_status = env_->UnlockFile(std::move(lock_));
    if (status.ok()) status = unlock_status;
  }
  return status;
}

void CatalogImpl::List(std::vector<std::string>* names) {
  names->clear();
  MutexLock lock(&mutex_);
  for (const auto& [name, entry] : entries_) {
    if (!entry->is_leaving) names->push_back(name);
  }
}

Catalog::Counts CatalogImpl::GetCounts() {
  MutexLock lock(&mutex_);
  Counts counts;
  for (const auto& [name, entry] : entries_) {
    counts.databases += !entry->is_leaving;
    counts.open += entry->state == CatalogEntry::State::kOpen;
  }
  counts.cached_names = name_cache_.size();
  counts.open_table_files = file_pool_->open_files();
  const WriteBufferManager& manager = *options_.write_buffer_manager;
  counts.memtable_bytes = manager.memory_usage();
  counts.memtable_budget_bytes = manager.buffer_size();
  return counts;
}

}  // namespace varve
