// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The bytes of a WriteBatch: u64 sequence of the first update, u32 count, then
// records of a tag byte and its fields. FORMATS: RocksDB's write batch.

#include <cstdint>

#include "table/block/internal_key.h"
#include "varve/slice.h"
#include "varve/status.h"
#include "varve/write_batch.h"

namespace varve {

class MemTable;

// Record tags, on disk: do not renumber.
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

// One record, decoded. Updates of other column families, of whatever kind, have
// `other_family` set: they count, and are not for us.
struct BatchRecord {
  ValueType type = ValueType::kValue;
  bool is_log_data = false;
  bool other_family = false;
  Slice key;    // Or the blob of log data, or where a range begins.
  Slice value;  // Or where a range ends.
};

// Decodes batches from bytes that may come from disk.
class BatchReader {
 public:
  static constexpr size_t kHeaderSize = 12;

  // Corruption if the header is cut short.
  Status Init(const Slice& representation);

  SequenceNumber sequence() const { return sequence_; }
  uint32_t count() const { return count_; }

  // Takes the next record; *done at the end. Corruption, also when the count
  // differs from the header's; NotSupported names the kind of update, or says
  // that it is too long for a table.
  Status Next(BatchRecord* record, bool* done);
  // The same, but an update of another column family is NotSupported, too: in
  // a log its family is gone, while whoever writes it wants it somewhere.
  Status NextOfOurs(BatchRecord* record, bool* done);

 private:
  Status DecodeFields(uint8_t tag, BatchRecord* record);

  Slice rest_;
  SequenceNumber sequence_ = 0;
  uint32_t count_ = 0;
  uint32_t seen_ = 0;
};

class WriteBatchInternal {
 public:
  static void SetSequence(WriteBatch* batch, SequenceNumber sequence);
  static SequenceNumber Sequence(const WriteBatch& batch);
  // Writes BatchReader::kHeaderSize bytes.
  static void EncodeHeader(SequenceNumber sequence, uint32_t count,
                           char* header);
  static void SetCount(WriteBatch* batch, uint32_t count);
  // Without a value if `value` is null. The slices may point into the batch.
  static void AddUpdate(WriteBatch* batch, BatchTag tag, const Slice& key,
                        const Slice* value);
  // Whether an update was left out: it or the batch would have been too long.
  static bool TooLong(const WriteBatch& batch) { return batch.too_long_; }
  // Whether the bytes came from outside and may be damaged, or ranges may end
  // before they begin.
  static bool Unchecked(const WriteBatch& batch) { return batch.unchecked_; }
  // Whether it has updates, all of them deletions.
  static bool OnlyDeletes(const WriteBatch& batch);
  static void Append(WriteBatch* target, const WriteBatch& source);
  // Brings what the insert of its first update will look at into the cache.
  static void PrefetchFirst(const WriteBatch& batch, const MemTable& memtable);
};

// Adds the updates of a batch's bytes to a memtable, the first with the
// sequence number that the bytes carry. Nothing is added beyond an error.
Status InsertBatchInto(const Slice& representation, MemTable* memtable);

}  // namespace varve
