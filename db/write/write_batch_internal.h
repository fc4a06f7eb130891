// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The encoding of a WriteBatch, in RocksDB's format: u64 sequence number of the
// first update, u32 count, then the records. A record is a tag byte, followed
// by the tag's fields.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "table/block/internal_key.h"
#include "varve/slice.h"
#include "varve/status.h"
#include "varve/write_batch.h"

namespace varve {

class MemTable;

// Record tags. They are stored on disk and must not be renumbered.
enum class BatchTag : uint8_t {
  kDelete = 0x00,
  kPut = 0x01,
  kMerge = 0x02,
  kLogData = 0x03,
  kDeleteInFamily = 0x04,
  kPutInFamily = 0x05,
  kMergeInFamily = 0x06,
  kSingleDelete = 0x07,
  kSingleDeleteInFamily = 0x08,
  kBeginPrepare = 0x09,
  kEndPrepare = 0x0A,
  kCommit = 0x0B,
  kRollback = 0x0C,
  kNoop = 0x0D,
  kRangeDeleteInFamily = 0x0E,
  kRangeDelete = 0x0F,
  kBlobIndexInFamily = 0x10,
  kBlobIndex = 0x11,
  kBeginPersistedPrepare = 0x12,
  kBeginUnprepare = 0x13,
  kCommitWithTimestamp = 0x15,
  kWideColumn = 0x16,
  kWideColumnInFamily = 0x17,
  kPreferredTime = 0x18,
  kPreferredTimeInFamily = 0x19,
};

// One decoded record.
struct BatchRecord {
  ValueType type = ValueType::kValue;
  bool is_log_data = false;
  uint32_t family = 0;  // The column family's id.
  // For an update of another family than the default one: a feature that Varve
  // does not have, or null. It does not matter if the family was dropped.
  const char* unsupported = nullptr;
  Slice key;    // For log data the blob, for a range deletion its begin.
  Slice value;  // For a range deletion its end.
};

// One decoded record of a log, which may hold prepared transactions.
struct LogRecord : BatchRecord {
  // kNoop: an update or log data. kEndPrepare, kCommit and kRollback have the
  // transaction's name as their key.
  BatchTag mark = BatchTag::kNoop;
  // The update is part of a prepared section.
  bool is_prepared = false;
  // With kEndPrepare: the section's records, and the number of its updates.
  Slice section;
  uint32_t section_count = 0;
};

// Decodes the records of a batch. The bytes may come from disk and are checked.
// Thread-safety: thread-compatible.
class BatchReader {
 public:
  static constexpr size_t kHeaderSize = 12;

  // Sets the bytes to decode. Returns Corruption if the header is truncated.
  Status Init(const Slice& representation);

  SequenceNumber sequence() const { return sequence_; }
  uint32_t count() const { return count_; }

  // Decodes the next record. Sets *done after the last one. Returns Corruption
  // for damaged bytes and if the number of updates differs from the header's.
  // Returns NotSupported for an update that Varve does not have or that is too
  // long for a table, except in other families than the default one: see
  // BatchRecord::unsupported.
  Status Next(BatchRecord* record, bool* done);
  // Like Next, but returns NotSupported in all families. Used for a caller's
  // batch, whose updates must all be applied. In a log, updates of dropped
  // families are ignored.
  Status NextOfOurs(BatchRecord* record, bool* done);
  // Like Next, for a batch in a log: also decodes the marks of two-phase
  // commit of RocksDB's policy WriteCommitted. Returns NotSupported for marks
  // of its other policies, and names these.
  Status NextInLog(LogRecord* record, bool* done);

 private:
  Status DecodeFields(uint8_t tag, BatchRecord* record);
  Status DecodeMark(LogRecord* record);

  Slice rest_;
  SequenceNumber sequence_ = 0;
  uint32_t count_ = 0;
  uint32_t seen_ = 0;
  // For NextInLog: the rest after the mark that began a section, and the number
  // of updates before it. Null outside of a section.
  Slice section_ = Slice(nullptr, 0);
  uint32_t seen_before_section_ = 0;
};

// Accesses the encoding inside a WriteBatch.
class WriteBatchInternal {
 public:
  static void SetSequence(WriteBatch* batch, SequenceNumber sequence);
  static SequenceNumber Sequence(const WriteBatch& batch);
  // Writes BatchReader::kHeaderSize bytes.
  static void EncodeHeader(SequenceNumber sequence, uint32_t count,
                           char* header);
  static void SetCount(WriteBatch* batch, uint32_t count);
  // Makes space for that many bytes of the batch.
  static void Reserve(WriteBatch* batch, size_t bytes);
  // Appends a record, without a value if `value` is null. The slices may point
  // into the batch.
  static void AddUpdate(WriteBatch* batch, BatchTag tag, const Slice& key,
                        const Slice* value);
  // Adds an update of a kind of type. The value of a deletion is ignored.
  static void Add(WriteBatch* batch, uint32_t family, ValueType type,
                  const Slice& key, const Slice& value);
  // As AddUpdate, for another family than the default one.
  static void AddFamilyUpdate(WriteBatch* batch, BatchTag tag, uint32_t family,
                              const Slice& key, const Slice* value);
  // Returns whether an update was left out because it or the batch would have
  // been too long.
  static bool TooLong(const WriteBatch& batch) { return batch.too_long_; }
  // Returns whether the batch must be checked before use. Its bytes may be
  // damaged because they came from outside, or the end of a range may be before
  // its begin.
  static bool Unchecked(const WriteBatch& batch) { return batch.unchecked_; }
  // Returns whether the batch can have merge operands.
  static bool HasMerges(const WriteBatch& batch) { return batch.has_merges_; }
  // Returns the families other than the default one that the batch updates, by
  // id, and the bytes of their updates.
  static const std::vector<std::pair<uint32_t, size_t>>& Families(
      const WriteBatch& batch) {
    return batch.families_;
  }
  // Returns the number of the DB whose handles were used to add updates; 0
  // without handles, and kMixedDbs if the handles belong to several DBs.
  static constexpr uint64_t kMixedDbs = UINT64_MAX;
  static uint64_t DbNumber(const WriteBatch& batch) { return batch.db_number_; }
  static void NoteDb(WriteBatch* batch, uint64_t number) {
    if (number == 0 || number == batch->db_number_) return;
    batch->db_number_ = batch->db_number_ == 0 ? number : kMixedDbs;
  }
  // Notes the handle's DB, and returns the id of the handle's family. A null
  // handle is the default family's.
  static uint32_t NoteHandle(WriteBatch* batch,
                             const ColumnFamilyHandle* handle);
  // Adds to these bytes.
  static void CountFamily(WriteBatch* batch, uint32_t id, size_t bytes);
  // Returns whether the batch has updates and all of them are deletions.
  static bool OnlyDeletes(const WriteBatch& batch);
  // Appends the records of `source` to `target`.
  static void Append(WriteBatch* target, const WriteBatch& source);
  // Prefetches the memory that the insert of the first update accesses first.
  static void PrefetchFirst(const WriteBatch& batch, const MemTable& memtable);
};

// Chooses the memtables for the updates of a batch.
class MemTableChooser {
 public:
  // Returns the memtable for the family's updates, or null to ignore them.
  virtual MemTable* Choose(uint32_t family) = 0;

 protected:
  ~MemTableChooser() = default;
};

// Keeps prepared sections, as a log is replayed.
class SectionKeeper {
 public:
  // Takes a prepared section: its records, with `count` updates.
  virtual Status Prepare(const Slice& name, const Slice& records,
                         uint32_t count) = 0;
  // Ends the section of that name. Returns its batch, which is valid until the
  // next call, or null if it is not known.
  virtual WriteBatch* Commit(const Slice& name) = 0;
  virtual void Rollback(const Slice& name) = 0;

 protected:
  ~SectionKeeper() = default;
};

// Replaces merge operands by values.
class OperandMerger {
 public:
  // If the operand is to be replaced, sets *value to the result of it and of
  // all updates of the key with lower sequence numbers, and returns true.
  virtual bool Merge(uint32_t family, SequenceNumber sequence, const Slice& key,
                     const Slice& operand, std::string* value) = 0;

 protected:
  ~OperandMerger() = default;
};

// Adds the updates of an encoded batch to the chosen memtables. The first
// update has the sequence number in the header. On error, the updates before it
// remain added.
Status InsertBatch(const Slice& representation, MemTableChooser* chooser);
// As InsertBatch, but lets `merger` replace operands. REQUIRES: all updates
// with lower sequence numbers are in memtables.
Status InsertBatchMerging(const Slice& representation, MemTableChooser* chooser,
                          OperandMerger* merger);
// Adds the updates of a log's record that take effect by it: those outside of
// prepared sections, and of the sections that it commits. Sets *next to the
// sequence number after the last of them.
Status InsertLogRecord(const Slice& representation, MemTableChooser* chooser,
                       SectionKeeper* keeper, SequenceNumber* next);
// Adds the default family's updates to a memtable, and ignores the others.
Status InsertBatchInto(const Slice& representation, MemTable* memtable);

}  // namespace varve
