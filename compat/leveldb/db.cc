// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// leveldb::DB and its iterators on a database of the engine.
#include <algorithm>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "compat/leveldb/closed_db.h"
#include "compat/leveldb/convert.h"
#include "compat/leveldb/database.h"
#include "compat/leveldb/marker.h"
#include "compat/leveldb/own_db.h"
#include "compat/leveldb/properties.h"
#include "compat/leveldb/write_batch.h"
#include "compat/shared/observer.h"

namespace varve::compat {
namespace {

WriteOptions ToVarve(const leveldb::WriteOptions& options) {
  return WriteOptions{.sync = options.sync};
}

class DbIterator final : public leveldb::Iterator {
 public:
  DbIterator(std::shared_ptr<Database> database,
             std::unique_ptr<varve::Iterator> target)
      : database_(std::move(database)), target_(std::move(target)) {}

  bool Valid() const override { return target_->Valid(); }
  void SeekToFirst() override { target_->SeekToFirst(); }
  void SeekToLast() override { target_->SeekToLast(); }
  void Seek(const leveldb::Slice& target) override {
    target_->Seek(compat::ToVarve(target));
  }
  // LevelDB requires a valid position, and crashes without one.
  void Next() override {
    if (target_->Valid()) [[likely]]
      target_->Next();
  }
  void Prev() override {
    if (target_->Valid()) [[likely]]
      target_->Prev();
  }
  leveldb::Slice key() const override { return ToLevelDb(target_->key()); }
  leveldb::Slice value() const override { return ToLevelDb(target_->value()); }
  leveldb::Status status() const override {
    return ToLevelDb(target_->status());
  }

 private:
  const std::shared_ptr<Database> database_;  // Destroyed after target_.
  const std::unique_ptr<varve::Iterator> target_;
};

class OpenDb final : public OwnDb {
 public:
  explicit OpenDb(std::shared_ptr<Database> database)
      : database_(std::move(database)), db_(database_->db()) {
    Observer::Add(database_->db(), database_->path());
  }

  ~OpenDb() override {
    Observer::Remove(database_->db());
    const size_t snapshots = database_->ReleaseAllSnapshots();
    if (snapshots > 0) {
      Log(LogLevel::kWarn, database_->logger(),
          "the program deleted the database before it released %zu snapshots",
          snapshots);
    }
    if (const auto iterators = database_.use_count() - 1; iterators > 0) {
      Log(LogLevel::kWarn, database_->logger(),
          "the program deleted the database before %ld of its iterators: it "
          "stays open until they are deleted",
          iterators);
    }
  }

  // The memory gets a DB that returns errors; see closed_db.h.
  static void* operator new(size_t bytes) { return ::operator new(bytes); }
  static void operator delete(void* memory) {
    static_assert(sizeof(OpenDb) >= kClosedDbBytes);
    LeaveClosedDb(memory);
  }

  leveldb::Status Put(const leveldb::WriteOptions& options,
                      const leveldb::Slice& key,
                      const leveldb::Slice& value) override {
    database_->write_buffer()->Update(db_);
    return ToLevelDb(db_->Put(ToVarve(options), compat::ToVarve(key),
                              compat::ToVarve(value)));
  }

  leveldb::Status Delete(const leveldb::WriteOptions& options,
                         const leveldb::Slice& key) override {
    database_->write_buffer()->Update(db_);
    return ToLevelDb(db_->Delete(ToVarve(options), compat::ToVarve(key)));
  }

  leveldb::Status Write(const leveldb::WriteOptions& options,
                        leveldb::WriteBatch* batch) override {
    database_->write_buffer()->Update(db_);
    if (batch == nullptr) return Barrier(options);
    varve::WriteBatch converted(BatchBytes::Of(*batch));
    return ToLevelDb(db_->Write(ToVarve(options), &converted));
  }

  // The engine empties *value if there is no such key. LevelDB leaves it
  // unchanged.
  leveldb::Status Get(const leveldb::ReadOptions& options,
                      const leveldb::Slice& key, std::string* value) override {
    ReadOptions read;
    leveldb::Status status = Convert(options, &read);
    if (!status.ok()) [[unlikely]]
      return status;
    if (value->empty()) [[likely]] {
      return ToLevelDb(db_->Get(read, compat::ToVarve(key), value));
    }
    PinnableSlice found;
    status = ToLevelDb(db_->Get(read, compat::ToVarve(key), &found));
    if (status.ok()) value->assign(found.data(), found.size());
    return status;
  }

  leveldb::Status GetPinned(const leveldb::ReadOptions& options,
                            const leveldb::Slice& key,
                            PinnableSlice* value) override {
    ReadOptions read;
    leveldb::Status status = Convert(options, &read);
    if (!status.ok()) [[unlikely]]
      return status;
    return ToLevelDb(db_->Get(read, compat::ToVarve(key), value));
  }

  leveldb::Iterator* NewIterator(const leveldb::ReadOptions& options) override {
    ReadOptions read;
    const leveldb::Status status = Convert(options, &read);
    if (!status.ok()) return leveldb::NewErrorIterator(status);
    return new DbIterator(database_, db_->NewIterator(read));
  }

  const leveldb::Snapshot* GetSnapshot() override {
    return database_->NewSnapshot();
  }
  void ReleaseSnapshot(const leveldb::Snapshot* snapshot) override {
    if (snapshot != nullptr) database_->ReleaseSnapshot(snapshot);
  }

  bool GetProperty(const leveldb::Slice& property,
                   std::string* value) override {
    return GetLevelDbProperty(*database_, compat::ToVarve(property), value);
  }

  void GetApproximateSizes(const leveldb::Range* ranges, int count,
                           uint64_t* sizes) override {
    for (int i = 0; i < count; ++i) {
      const Range range{compat::ToVarve(ranges[i].start),
                        compat::ToVarve(ranges[i].limit)};
      if (!db_->GetApproximateSizes(&range, 1, &sizes[i]).ok()) sizes[i] = 0;
    }
  }

  void CompactRange(const leveldb::Slice* begin,
                    const leveldb::Slice* end) override {
    Slice first;
    Slice last;
    if (begin != nullptr) first = compat::ToVarve(*begin);
    if (end != nullptr) last = compat::ToVarve(*end);
    const Status status = db_->CompactRange(CompactRangeOptions(),
                                            begin != nullptr ? &first : nullptr,
                                            end != nullptr ? &last : nullptr);
    // LevelDB's call returns nothing.
    if (!status.ok()) {
      Log(LogLevel::kError, database_->logger(), "CompactRange: %s",
          status.ToString().c_str());
    }
  }

 private:
  // LevelDB writes no batch here. It waits for the writes before this one, and
  // begins a new memtable.
  leveldb::Status Barrier(const leveldb::WriteOptions& options) {
    const Status status = db_->Flush(FlushOptions{.wait = false});
    if (!status.ok() || !options.sync) return ToLevelDb(status);
    return ToLevelDb(db_->SyncWAL());
  }

  leveldb::Status Convert(const leveldb::ReadOptions& options,
                          ReadOptions* read) const {
    read->fill_cache = options.fill_cache;
    if (options.snapshot == nullptr) [[likely]]
      return leveldb::Status();
    return ToLevelDb(
        database_->FindSnapshot(options.snapshot, &read->snapshot));
  }

  const std::shared_ptr<Database> database_;
  varve::DB* const db_;
};

// Returns whether an entry of a directory is more than a lock or a log of text.
bool HasDatabaseFiles(const std::vector<std::string>& children) {
  return !std::all_of(
      children.begin(), children.end(), [](const std::string& child) {
        return child == "." || child == ".." || child == "LOCK" ||
               child == "LOG" || child == "LOG.old" || child == "lost";
      });
}

}  // namespace
}  // namespace varve::compat

namespace leveldb {

Status DB::Open(const Options& options, const std::string& name, DB** db) {
  *db = nullptr;
  std::shared_ptr<varve::compat::Database> database;
  const varve::Status status =
      varve::compat::Database::Open(options, name, &database);
  if (status.ok()) *db = new varve::compat::OpenDb(std::move(database));
  return varve::compat::ToLevelDb(status);
}

Status DB::Put(const WriteOptions& options, const Slice& key,
               const Slice& value) {
  WriteBatch batch;
  batch.Put(key, value);
  return Write(options, &batch);
}

Status DB::Delete(const WriteOptions& options, const Slice& key) {
  WriteBatch batch;
  batch.Delete(key);
  return Write(options, &batch);
}

Status DestroyDB(const std::string& name, const Options& options) {
  varve::compat::OpenOptions parts;
  varve::Status status = parts.Set(options);
  if (status.ok()) status = varve::DestroyDB(name, parts.options);
  if (status.ok() && parts.HasOwnFiles()) {
    varve::compat::RemoveMarker(parts.env.get(), name);
  }
  return varve::compat::ToLevelDb(status);
}

Status RepairDB(const std::string& name, const Options& options) {
  varve::compat::OpenOptions parts;
  varve::Status status = parts.Set(options);
  if (!status.ok()) return varve::compat::ToLevelDb(status);
  const bool is_foreign =
      varve::compat::IsLevelDbDirectory(parts.env.get(), name);
  std::vector<std::string> children;
  if (parts.env->GetChildren(name, &children).ok() &&
      !varve::compat::HasDatabaseFiles(children)) {
    // LevelDB leaves an empty database in a directory without files of one.
    Options created = options;
    created.create_if_missing = true;
    created.error_if_exists = false;
    DB* db = nullptr;
    Status opened = DB::Open(created, name, &db);
    delete db;
    return opened;
  }
  status = varve::RepairDB(name, parts.options);
  if (status.ok() && parts.HasOwnFiles()) {
    status = varve::compat::WriteMarker(parts.env.get(), name, is_foreign);
  }
  return varve::compat::ToLevelDb(status);
}

}  // namespace leveldb
