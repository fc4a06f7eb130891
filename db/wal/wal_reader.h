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
  kRecord,        // *record is the next one.
  kEnd,           // The log ends here as it should, or in unwritten space.
  kTornTail,      // It ends inside a record: the last write was cut off.
  kDamage,        // The bytes here are no record.
  kNotSupported,  // A record of a kind that Varve does not have.
  kIOError,       // The file could not be read; not a statement on the log.
};

// Reads the records of a log from front to back. The first outcome other than
// kRecord is final, but for SkipDamage.
// Thread-safety: owned by one thread at a time.
class Reader {
 public:
  // `name` is for messages; `number` is that of the file name, with which
  // recyclable records must agree.
  Reader(std::unique_ptr<SequentialFile> file, std::string name,
         uint64_t number);
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  // *record is valid until the next call.
  ReadOutcome ReadRecord(Slice* record);

  // The byte behind the last record that was returned.
  uint64_t RecordEnd() const { return record_end_; }

  // Whether there was a record of the form that logs have whose files RocksDB
  // uses again, writing over what they held.
  bool IsRecyclable() const { return met_recyclable_; }

  // After any outcome but a record: whether the log ends in a write that was
  // cut off, which is no damage. Reads on, after kDamage. What begins with a
  // header may have been a good record once, and counts as damage, unless
  // `need_is_checked`: then the caller sees if something needs the record.
  bool EndIsTorn(ReadOutcome outcome, bool need_is_checked = false) {
    return outcome == ReadOutcome::kTornTail ||
           (outcome == ReadOutcome::kDamage &&
            (no_header_ || (need_is_checked && bad_checksum_)) &&
            NoRecordFollows());
  }

  // After kDamage, kTornTail or kIOError: goes on behind what is damaged or
  // cannot be read, so that ReadRecord gives the next record that is whole.
  // False if there is nothing behind it. For repairs: what comes after a hole
  // is no state that the database ever had.
  bool SkipDamage();

  // What stopped it, naming file and offset; OK after kRecord and kEnd.
  const Status& status() const { return status_; }

 private:
  struct Fragment {
    uint8_t type = 0;
    Slice payload;
  };

  ReadOutcome ReadFragment(Fragment* fragment);
  ReadOutcome NextBlock();
  // After NextBlock has failed: the first block behind that can be read. False
  // if that is too far.
  bool PassUnreadableBlocks();
  ReadOutcome ParseFragment(Fragment* fragment);
  ReadOutcome Fail(ReadOutcome outcome, const char* what);
  // Of the next byte, in the file.
  uint64_t Position() const { return block_end_ - rest_.size(); }
  // After kDamage: whether no record begins behind it. That is what a power cut
  // may make of a record that was never synced. Reads on. False, too, if that
  // is too much work to find out.
  bool NoRecordFollows();
  // Whether all that is left of the block is zero.
  bool RestIsZero();
  // Whether the bytes begin with a fragment that is whole. Adds the bytes
  // that had to be looked at for it to *searched, unless that is null.
  static bool BeginsWithFragment(const Slice& bytes,
                                 uint64_t* searched = nullptr);
  // Bytes of the damaged fragment at the front of the block's rest, if what
  // follows them bears out its header; 0 if not.
  size_t DamagedFragmentSize() const;

  std::unique_ptr<SequentialFile> file_;
  const std::string name_;
  const uint64_t number_;
  std::unique_ptr<char[]> block_;
  Slice rest_;              // Of the block.
  Slice fragment_begin_;    // rest_ before the last fragment was taken.
  uint64_t block_end_ = 0;  // Offset in the file behind the block.
  uint64_t record_end_ = 0;
  bool last_block_ = false;      // The block is shorter than a whole one.
  bool no_header_ = false;       // The damage is not that of a record.
  bool bad_checksum_ = false;    // It may be that of a record.
  bool recyclable_ = false;      // The log's first record was of that form.
  bool met_recyclable_ = false;  // Perhaps of the file's earlier life.
  bool skipped_ = false;         // Damage: fragments may lack their beginning.
  ReadOutcome final_ = ReadOutcome::kRecord;
  Status status_;
  std::string assembled_;
};

}  // namespace varve::wal
