// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A batch that is inserted while other writers go on.
//
// The inserts of a batch of hundreds of thousands of updates take as long as
// many thousands of small writes, and small writes should not wait for them. So
// such a batch gets new memtables, one for each of its families, that no reader
// knows. Its thread fills them outside of the write queue. Then it leads the
// queue, for the time that the log takes: it starts a new log with the batch as
// its record, and makes the memtables the current ones of their families.
//
// *Numbers.* Until it leads, nobody knows how many updates others write first.
// The entries are therefore numbered from 1, and the leader adds the last
// number that was given out. All entries of a memtable move by the same amount,
// so their order does not change.
// *All or nothing.* A reader finds the memtables in a SuperVersion, which is
// installed before the batch's last number is published. Until that, all
// entries have higher numbers than any snapshot. The log has the batch as one
// record. A reader that loads its number after the publication, and its
// SuperVersion before, finds none of the entries: as if it had come earlier,
// because all that it does find has lower numbers.
// *Order.* The leader gives the numbers, and the record, when all groups before
// it are visible. The memtables become current between two groups. So later
// updates, which have higher numbers, come to these memtables or to later ones.
// *Failure.* The record is written, and synced if that is asked for, before any
// state changes. If that fails, nothing of the batch is in a memtable that
// readers will know. The log may have it, so it counts as failed.
//
// Thread-safety: owned by the thread of the write.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "db/family/touched_families.h"
#include "db/jobs/db_core.h"
#include "db/options/db_mutex.h"
#include "varve/options.h"
#include "varve/write_batch.h"

namespace varve {

// Tells whether large batches come from a thread that is the only writer. Then
// nobody gains if they are inserted beside others, and each memtable would be
// flushed before it is full. Thread-safety: thread-safe.
class LargeBatchWatch {
 public:
  // Called before each large batch, with its number of updates and the last
  // sequence number. Returns whether the last few came one after another, with
  // no other write between them.
  bool ComesAlone(SequenceNumber last, uint32_t updates);

 private:
  static constexpr uint32_t kMostAlone = 4;

  // What the last number should be after the last large batch, and how many
  // batches have found it so.
  std::atomic<SequenceNumber> expected_{0};
  std::atomic<uint32_t> alone_{0};
};

class LargeBatch final : private MemTableChooser {
 public:
  // All must outlive this object.
  LargeBatch(DbCore& core, const WriteOptions& options, WriteBatch* batch)
      : core_(core), options_(options), batch_(batch) {}
  ~LargeBatch();
  LargeBatch(const LargeBatch&) = delete;
  LargeBatch& operator=(const LargeBatch&) = delete;

  // Returns whether a batch takes enough of a write buffer to be written in
  // this way, by its bytes and its number of updates alone.
  static bool MayBe(const WriteBatch& batch) {
    return EstimateMemory(batch.ApproximateSize(), batch.Count()) >=
           kLeastBytes;
  }
  // Returns whether so many bytes and updates may need more memory than a
  // memtable can have, which is only so for hundreds of millions of updates.
  static bool IsTooLarge(size_t bytes, uint32_t updates) {
    return EstimateMemory(bytes, updates) > kMostBytes;
  }
  // Returns whether it does for these families, each of which can have more
  // than one memtable. REQUIRES: the batch's families were counted.
  bool IsWorthwhile();
  // Inserts the batch into new memtables. Waits until it leads the queue, to
  // create them. Returns InvalidArgument if a family was dropped.
  Status Fill();
  // For the leader. Gives numbers to the updates, the first of which gets
  // `first`. May be called again.
  void Renumber(SequenceNumber first);
  // For the leader. Returns an error if the database is not writable or a
  // family was dropped. Sets *waits if a family cannot have one more memtable
  // now.
  Status MayPublish(bool* waits) const;
  // For a thread that does not lead. Waits for a flush, which makes space for a
  // memtable. Returns false if no flush is due: then the batch should go to the
  // memtables that are there.
  bool AwaitSpace();
  // Returns the family's filled memtable, whose reference the caller gets, or
  // null.
  MemTable* Take(const ColumnFamily* family);
  // Returns whether the memtables were taken.
  bool IsTaken() const {
    return !memtables_.empty() && memtables_.front() == nullptr;
  }

  // Returns its record, which is empty if it is not logged.
  Slice LogRecord() const {
    return options_.disable_wal ? Slice() : Slice(batch_->Data());
  }
  const std::vector<ColumnFamily*>& families() const { return families_; }
  const WriteOptions& options() const { return options_; }
  WriteBatch* batch() const { return batch_; }

 private:
  // What an entry takes beside its key and value, at most in a full memtable.
  static constexpr size_t kEntryBytes = 50;
  // An arena has positions for 32 GiB (util/bytes/arena.h), of which up to
  // 8 GiB may be in use before the batch.
  static constexpr size_t kMostBytes = size_t{24} << 30;
  // The inserts of fewer bytes take a few milliseconds, which a change of
  // memtables takes too.
  static constexpr size_t kLeastBytes = 256 << 10;
  // A batch that takes this part of a write buffer. Its memtable, and the one
  // before it, are flushed to tables that are not much smaller than others.
  static constexpr size_t kPart = 4;

  static size_t EstimateMemory(size_t bytes, uint32_t updates) {
    return bytes + size_t{updates} * kEntryBytes;
  }
  MemTable* Choose(uint32_t family) override;

  DbCore& core_;
  const WriteOptions& options_;
  WriteBatch* const batch_;
  // Held by a reference each, and their memtables until they are taken.
  std::vector<ColumnFamily*> families_;
  std::vector<MemTable*> memtables_;
};

}  // namespace varve
