// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "compat/leveldb/abi.h"
#include "compat/leveldb/open_options.h"
#include "varve/db.h"

namespace varve::compat {

class Database;

// A snapshot of a database, in its list of snapshots.
class DatabaseSnapshot final : public leveldb::Snapshot {
 public:
  ~DatabaseSnapshot() override = default;

 private:
  friend class Database;
  Database* owner_ = nullptr;
  const varve::Snapshot* target_ = nullptr;
  DatabaseSnapshot* previous_ = nullptr;
  DatabaseSnapshot* next_ = nullptr;
};

// An open database of the engine and all that it refers to. The program's DB
// and each of its iterators hold a reference: a program that deletes the DB
// before its iterators keeps the database open until the last of them is gone.
//
// Thread-safety: thread-safe, except for Open.
class Database {
 public:
  static Status Open(const leveldb::Options& options, const std::string& path,
                     std::shared_ptr<Database>* database);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  DB* db() const { return db_.get(); }
  const std::string& path() const { return path_; }
  const LevelCounters& counters() const { return *parts_.counters; }
  WriteBuffer* write_buffer() const { return parts_.write_buffer.get(); }
  Logger* logger() const { return parts_.logger(); }

  const leveldb::Snapshot* NewSnapshot();
  // Also releases a snapshot of another database, as LevelDB does.
  void ReleaseSnapshot(const leveldb::Snapshot* snapshot);
  // Releases the snapshots that the program did not release, and returns their
  // number.
  size_t ReleaseAllSnapshots();
  // Sets *target to the snapshot of the engine. Returns InvalidArgument if it
  // is another database's.
  Status FindSnapshot(const leveldb::Snapshot* snapshot,
                      const varve::Snapshot** target) const;

 private:
  explicit Database(std::string path);

  const std::string path_;
  OpenOptions parts_;
  std::unique_ptr<DB> db_;
  std::mutex mutex_;
  DatabaseSnapshot* newest_snapshot_ = nullptr;  // Guarded by mutex_.
};

}  // namespace varve::compat
