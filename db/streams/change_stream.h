// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The batches of the logs in their order (docs/streams.md).
//
// *Invariants.*
//   I1 `expected_` is the next sequence number: every batch up to it was given,
//      or reported as a part of a gap, once.
//   I2 Bytes of a log count only if their reading began after a look at the
//      published number, and only for updates up to it (`seen_`). A log is
//      written before its updates are published, so these records are complete,
//      however the writer puts them into the file. What comes after them may be
//      any bytes: a record that is being written is never taken for damage.
//   I3 The newest log is looked up after the published number. So all updates
//      up to `seen_` that were logged are in logs up to `newest_log_`, and the
//      end of an older log is final.
//   I4 A record counts only below the begin of each later log (LogList::EndOf).
//   I5 A sequence number that was published and that no record has is reported:
//      by the next record with a larger number, or at the end of the newest
//      log. There, if the log's end looks wrong, or the writer may have records
//      in a buffer, the stream looks again while nobody writes
//      (StreamSource::Settle).
//
// Thread-safety: owned by one thread at a time.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "db/streams/log_cursor.h"
#include "db/streams/log_list.h"
#include "db/streams/stream_source.h"
#include "db/wal/outside_change.h"
#include "varve/transaction_log.h"

namespace varve {

class ChangeStream final : public TransactionLogIterator {
 public:
  // `on_end` is called by the destructor.
  explicit ChangeStream(std::unique_ptr<StreamSource> source,
                        std::function<void()> on_end = nullptr);
  ~ChangeStream() override;

  // Moves to the first batch that contains the number or follows it. See
  // DB::GetUpdatesSince for the errors. REQUIRES: called once, first.
  Status Start(SequenceNumber sequence);
  // Starts with the oldest update there is.
  Status StartWithOldest();

  bool Valid() override { return valid_; }
  void Next() override;
  Status status() override { return status_; }
  BatchResult GetBatch() override;
  bool Wait(uint64_t timeout_us) override;
  bool GetGap(TransactionLogGap* gap) override;

  // Returns the encoded batch, for programs that decode it. REQUIRES: Valid().
  Slice EncodedBatch() const { return batch_; }
  // Returns the next sequence number.
  SequenceNumber expected() const { return expected_; }

 private:
  enum class Step : uint8_t { kGoOn, kReturn };

  Status Open(SequenceNumber sequence);
  void Advance();
  // Takes a moment, and makes the cursor read new bytes.
  Status Renew(const StreamSource::Moment& moment);
  Step TakeRecord(const Slice& record);
  // Decodes the record. Sets *batch to its updates, with the sections that it
  // commits, and *count to their number.
  Status Decode(const Slice& record, std::string* batch, uint64_t* count);
  Status DecodeMarks(const Slice& record, std::string* batch, uint64_t* count);
  // Finds the prepared section in logs before the first one that was read.
  Status FindSection(const Slice& name, std::unique_ptr<WriteBatch>* section);
  Step PassEnd(wal::ReadOutcome outcome);
  Step SettleEnd();
  Step OpenNextLog();
  Step EndForNow();
  Step Fail(Status status);
  Step BeginHole(SequenceNumber last);
  void ReportHole();
  void Yield();

  const std::unique_ptr<StreamSource> source_;
  const std::function<void()> on_end_;
  LogList logs_;
  std::unique_ptr<LogCursor> cursor_;
  uint64_t first_log_ = 0;   // The first one that was read.
  uint64_t newest_log_ = 0;  // See I3.
  SequenceNumber seen_ = 0;  // See I2.
  SequenceNumber end_ = 0;   // LogList::EndOf the cursor's log.
  SequenceNumber expected_ = 0;
  bool takes_any_ = false;  // The first batch may have any number.
  bool seeks_ = true;       // The first batch may begin before `expected_`.

  // ---- What the iterator shows ----
  bool valid_ = false;
  Status status_;
  TransactionLogGap gap_;
  // The batch, or the one after the hole.
  std::string batch_;
  SequenceNumber sequence_ = 0;
  SequenceNumber last_ = 0;
  bool is_held_ = false;  // It comes after the hole.

  // ---- Holes ----
  SequenceNumber hole_last_ = 0;  // Up to here, numbers are missing.
  std::vector<OutsideChange> outside_;
  // Since the last batch: damage was passed; a log between may be missing; the
  // section of a commit is missing.
  Status damage_;
  bool log_missing_ = false;
  bool section_missing_ = false;
  // Where damage was found that may have been a record in the making.
  uint64_t damaged_log_ = 0;
  uint64_t damaged_at_ = 0;

  // The prepared sections by name.
  std::map<std::string, std::unique_ptr<WriteBatch>, std::less<>> sections_;
};

}  // namespace varve
