// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "varve/db.h"
#include "varve/export.h"

namespace varve {

// Reads of one state of a database. A read transaction is a snapshot that also
// pins the memtables and tables of this state. Its reads never take a lock or
// wait, even if the database is written, flushed or compacted at the same time.
// Starting and ending a transaction needs no lock and no allocation, and writes
// no memory that other threads write. Exceptions are the first transaction of a
// thread, and a transaction during which a flush or compaction ends.
//
//   ReadTransaction read(db.get());
//   Status status = read.Get({}, key, &value);
//
// Until it ends, the files and memtables that it pins are kept, and versions of
// keys that it sees are not dropped. So it should end soon. The property
// "varve.oldest-snapshot" describes the oldest one.
//
// Thread-safety: several threads can read at the same time. A transaction can
// be started, moved and ended on different threads. A move must not overlap any
// other use.
// Lifetime: end it before DB::Close, which otherwise returns Busy and closes
// nothing. If the DB is destroyed first, the transaction releases what it pins,
// and its reads return ShutdownInProgress. It can still be ended or destroyed.
class VARVE_EXPORT ReadTransaction {
 public:
  // Creates a transaction that has ended.
  ReadTransaction() = default;
  // Starts a transaction. It sees all updates whose call has returned.
  // REQUIRES: `db` is not null.
  explicit ReadTransaction(DB* db)
      : db_(db), snapshot_(db->BeginReadTransaction()) {}
  ~ReadTransaction() { End(); }

  // `other` has ended afterwards.
  ReadTransaction(ReadTransaction&& other) noexcept
      : db_(other.db_), snapshot_(std::exchange(other.snapshot_, nullptr)) {}
  ReadTransaction& operator=(ReadTransaction&& other) noexcept {
    if (this != &other) {
      End();
      db_ = other.db_;
      snapshot_ = std::exchange(other.snapshot_, nullptr);
    }
    return *this;
  }

  // Ends the transaction. Does nothing if it has ended. Its iterators stay
  // valid.
  void End() {
    if (snapshot_ != nullptr) std::exchange(snapshot_, nullptr)->End();
  }
  bool has_ended() const { return snapshot_ == nullptr; }

  // Returns the sequence number of the newest update that the transaction sees.
  // REQUIRES: !has_ended().
  uint64_t sequence() const { return snapshot_->GetSequenceNumber(); }

  // Returns a snapshot for ReadOptions::snapshot of reads on the DB itself,
  // which then use the pinned memtables and tables. It must not be passed to
  // DB::ReleaseSnapshot. Null if the transaction has ended.
  const Snapshot* snapshot() const { return snapshot_; }

  // Read as the methods of DB do. ReadOptions::snapshot is ignored. Return
  // InvalidArgument if the transaction has ended, and ShutdownInProgress if its
  // DB has been destroyed.
  Status Get(const ReadOptions& options, const Slice& key,
             PinnableSlice* value) const;
  Status Get(const ReadOptions& options, const Slice& key,
             std::string* value) const;
  void MultiGet(const ReadOptions& options, size_t count, const Slice* keys,
                PinnableSlice* values, Status* statuses) const;
  void MultiGet(const ReadOptions& options, size_t count, const Slice* keys,
                std::string* values, Status* statuses) const;
  std::unique_ptr<Iterator> NewIterator(const ReadOptions& options) const;
  // As above, for a column family (varve/column_family.h). All families are
  // read as of the moment at which the transaction began. The memtables and
  // tables of other families than the default one are not pinned; the versions
  // of keys that the transaction sees are kept all the same.
  Status Get(const ReadOptions& options, ColumnFamilyHandle* family,
             const Slice& key, PinnableSlice* value) const;
  Status Get(const ReadOptions& options, ColumnFamilyHandle* family,
             const Slice& key, std::string* value) const;
  void MultiGet(const ReadOptions& options, ColumnFamilyHandle* family,
                size_t count, const Slice* keys, PinnableSlice* values,
                Status* statuses) const;
  void MultiGet(const ReadOptions& options, ColumnFamilyHandle* family,
                size_t count, const Slice* keys, std::string* values,
                Status* statuses) const;
  std::unique_ptr<Iterator> NewIterator(const ReadOptions& options,
                                        ColumnFamilyHandle* family) const;

 private:
  template <typename Value>
  Status GetInto(const ReadOptions& options, ColumnFamilyHandle* family,
                 const Slice& key, Value* value) const;
  template <typename Value>
  void MultiGetInto(const ReadOptions& options, ColumnFamilyHandle* family,
                    size_t count, const Slice* keys, Value* values,
                    Status* statuses) const;
  // Sets *mine to the options for a read of this transaction.
  Status Prepare(const ReadOptions& options, ReadOptions* mine) const;

  DB* db_ = nullptr;
  PinnedSnapshot* snapshot_ = nullptr;
};

}  // namespace varve
