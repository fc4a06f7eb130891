// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "varve/env.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve::wal {

enum class ReadOutcome : uint8_t {
  kRecord,        // *record is the next record.
  kEnd,           // The log ends after a record or in unwritten space.
  kTornTail,      // The log ends inside a record: the last write is incomplete.
  kDamage,        // The bytes here are not a record.
  kNotSupported,  // The record's type is not supported.
  kIOError,       // The file could not be read. The log may be intact.
};

// Reads the records of a log in order. The first outcome other than kRecord is
// final, unless SkipDamage is called.
// Thread-safety: owned by one thread at a time.
class Reader {
 public:
  // `name` is used in messages. `number` is the number in the file's name,
  // which recyclable records must have.
  Reader(std::unique_ptr<SequentialFile> file, std::string name,
         uint64_t number);
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  // Reads the next record. *record is valid until the next call.
  ReadOutcome ReadRecord(Slice* record);

  // Returns the offset after the last returned record.
  uint64_t RecordEnd() const { return record_end_; }

  // Returns whether a record had a recyclable type. RocksDB writes these in log
  // files that it reuses by overwriting them.
  bool IsRecyclable() const { return met_recyclable_; }

  // Returns whether the log ends in an incomplete write, which is not damage.
  // `outcome` is the last outcome, which is not kRecord. After kDamage, reads
  // the rest of the log. Bytes that begin with a header may have been a valid
  // record and count as damage, unless `need_is_checked` is set. Then the
  // caller checks whether something needs the record.
  bool EndIsTorn(ReadOutcome outcome, bool need_is_checked = false) {
    return outcome == ReadOutcome::kTornTail ||
           (outcome == ReadOutcome::kDamage &&
            (no_header_ || (need_is_checked && bad_checksum_)) &&
            NoRecordFollows());
  }

  // Prepares to read the record that begins at `record_end`, which is 0 or the
  // end of an earlier record: more may have been written there since. Returns
  // where the file's next Read must begin.
  uint64_t ContinueAt(uint64_t record_end);

  // Lets the log end where that many zeros follow a record, or more up to the
  // end of a block: for a log that grows, of which the space that is allocated
  // would be read each time. Records after them are not noticed.
  void EndAfterZeros(uint64_t bytes) { max_zeros_ = bytes; }

  // Skips damaged or unreadable bytes after kDamage, kTornTail or kIOError, so
  // that ReadRecord returns the next complete record. Returns false if nothing
  // follows. Only for repairs: with the updates after a hole, the result is a
  // state that the database never had.
  bool SkipDamage();

  // Returns the reason for the last outcome, with file and offset. OK after
  // kRecord and kEnd.
  const Status& status() const { return status_; }

 private:
  struct Fragment {
    uint8_t type = 0;
    Slice payload;
  };

  ReadOutcome ReadFragment(Fragment* fragment);
  ReadOutcome NextBlock();
  // Reads the next readable block after NextBlock has failed. Returns false if
  // it is too far away.
  bool PassUnreadableBlocks();
  ReadOutcome ParseFragment(Fragment* fragment);
  ReadOutcome Fail(ReadOutcome outcome, const char* what);
  // Returns the file offset of the next byte.
  uint64_t Position() const { return block_end_ - rest_.size(); }
  // Returns whether no record begins after the damage. A power loss may leave
  // an unsynced record in that state. Reads the rest of the log. Also returns
  // false if the search would take too much work. Called after kDamage.
  bool NoRecordFollows();
  // Returns whether the rest of the block is zero.
  bool RestIsZero();
  // Returns whether the bytes begin with a complete fragment. Adds the number
  // of bytes that it read to *searched, unless that is null.
  static bool BeginsWithFragment(const Slice& bytes,
                                 uint64_t* searched = nullptr);
  // Returns the size of the damaged fragment at the front of rest_ if a
  // complete fragment follows it, which confirms its header. Otherwise returns
  // 0.
  size_t DamagedFragmentSize() const;

  std::unique_ptr<SequentialFile> file_;
  const std::string name_;
  const uint64_t number_;
  std::unique_ptr<char[]> block_;
  Slice rest_;              // The unread rest of the block.
  Slice fragment_begin_;    // rest_ before the last fragment was read.
  uint64_t block_end_ = 0;  // File offset of the end of the block.
  uint64_t record_end_ = 0;
  bool last_block_ = false;      // The block is shorter than kBlockSize.
  bool no_header_ = false;       // The damage has no plausible header.
  bool bad_checksum_ = false;    // The damage is a checksum mismatch.
  bool recyclable_ = false;      // A valid record of this log was recyclable.
  bool met_recyclable_ = false;  // Any record was, also a leftover.
  bool skipped_ = false;         // SkipDamage was called.
  uint64_t max_zeros_ = UINT64_MAX;  // See EndAfterZeros.
  ReadOutcome final_ = ReadOutcome::kRecord;
  Status status_;
  std::string assembled_;
};

}  // namespace varve::wal
