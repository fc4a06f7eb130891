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

// Several reads of one moment of a database. It is a snapshot, and in addition
// holds on to the memtables and tables that make up that moment: its reads look
// for nothing and wait for nobody, whatever is written, flushed or compacted
// meanwhile. To begin and to end one takes no lock and no allocation, and
// writes no memory that other threads write, but for a thread's first one and
// for when it spans a flush or compaction.
//
//   ReadTransaction read(db.get());
//   Status status = read.Get({}, key, &value);   // As it was above.
//
// What it costs others: until it ends, the files and memtables that it reads
// from are kept, and versions that it sees are not dropped. End it soon; the
// property "varve.oldest-snapshot" tells of those that stay.
//
// Thread-safety: reads may be done by several threads at once. It may be begun
// on one thread, moved to, and ended on another; that, and assignment, must not
// overlap any other use.
// Lifetime: end it before DB::Close, which else answers Busy and closes
// nothing. If its DB is destroyed all the same, that ends it: what it held on
// to is released, its reads are ShutdownInProgress, and its own End or
// destruction, on any thread, is still allowed.
class VARVE_EXPORT ReadTransaction {
 public:
  // One that has ended.
  ReadTransaction() = default;
  // Sees all updates whose call returned before. `db` must not be null.
  explicit ReadTransaction(DB* db)
      : db_(db), snapshot_(db->BeginReadTransaction()) {}
  ~ReadTransaction() { End(); }

  // The other one has ended then.
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

  // Ends it; nothing if it has ended. Iterators may stay: they keep what they
  // need.
  void End() {
    if (snapshot_ != nullptr) std::exchange(snapshot_, nullptr)->End();
  }
  bool has_ended() const { return snapshot_ == nullptr; }

  // Updates up to and including this number are seen. REQUIRES: not ended.
  uint64_t sequence() const { return snapshot_->GetSequenceNumber(); }

  // For ReadOptions::snapshot of calls to the DB itself, which then read from
  // what this holds on to. Not to be given to DB::ReleaseSnapshot. Null once
  // ended.
  const Snapshot* snapshot() const { return snapshot_; }

  // As those of DB; ReadOptions::snapshot is not looked at.
  // InvalidArgument: the transaction has ended. ShutdownInProgress: its DB is
  // gone.
  Status Get(const ReadOptions& options, const Slice& key,
             PinnableSlice* value) const;
  Status Get(const ReadOptions& options, const Slice& key,
             std::string* value) const;
  void MultiGet(const ReadOptions& options, size_t count, const Slice* keys,
                PinnableSlice* values, Status* statuses) const;
  void MultiGet(const ReadOptions& options, size_t count, const Slice* keys,
                std::string* values, Status* statuses) const;
  std::unique_ptr<Iterator> NewIterator(const ReadOptions& options) const;

 private:
  template <typename Value>
  Status GetInto(const ReadOptions& options, const Slice& key,
                 Value* value) const;
  template <typename Value>
  void MultiGetInto(const ReadOptions& options, size_t count, const Slice* keys,
                    Value* values, Status* statuses) const;
  // Sets what `options` become for this transaction.
  Status Prepare(const ReadOptions& options, ReadOptions* mine) const;

  DB* db_ = nullptr;
  PinnedSnapshot* snapshot_ = nullptr;
};

}  // namespace varve
