// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/streams/change_stream.h"

#include <algorithm>
#include <utility>

#include "db/wal/prepared_set.h"
#include "db/write/write_batch_internal.h"
#include "util/base/futex.h"

namespace varve {

namespace {

using Kind = TransactionLogGap::Kind;

// A log that is removed while it is opened is looked for again.
constexpr int kOpenTries = 10;

std::string Numbers(SequenceNumber first, SequenceNumber last) {
  return "updates " + std::to_string(first) + " to " + std::to_string(last);
}

std::string Names(const std::vector<TransactionLogGap::File>& files) {
  std::string names;
  for (const TransactionLogGap::File& file : files) {
    names += (names.empty() ? "" : ", ") + file.name;
    if (!file.external_path.empty()) names += " (" + file.external_path + ")";
  }
  return names;
}

Status GoneError(SequenceNumber wanted, SequenceNumber oldest) {
  return Status::NotFound(
      "update " + std::to_string(wanted) + " is in no log any more",
      "the oldest one is " + std::to_string(oldest));
}

}  // namespace

ChangeStream::ChangeStream(std::unique_ptr<StreamSource> source,
                           std::function<void()> on_end)
    : source_(std::move(source)),
      on_end_(std::move(on_end)),
      logs_(source_->env(), source_->path()) {}

ChangeStream::~ChangeStream() {
  if (on_end_) on_end_();
}

// ---- The start --------------------------------------------------------------

Status ChangeStream::Start(SequenceNumber sequence) {
  Status status = Open(std::max<SequenceNumber>(sequence, 1));
  if (!status.ok()) return status;
  Advance();
  const bool continues =
      gap_.kind == Kind::kNone || gap_.kind == Kind::kIngested ||
      gap_.kind == Kind::kRemoved || gap_.kind == Kind::kUnlogged;
  return continues && (gap_.kind != Kind::kNone || status_.ok()) ? Status::OK()
                                                                 : status_;
}

Status ChangeStream::StartWithOldest() {
  StreamSource::Moment moment;
  Status status = source_->Look(0, &moment);
  if (status.ok()) status = logs_.Refresh(moment.newest_log);
  if (!status.ok()) return status;
  const SequenceNumber none =
      source_->KnowsPublished() ? moment.published + 1 : kMaxSequenceNumber;
  const SequenceNumber oldest = logs_.Oldest(none);
  takes_any_ = oldest == kMaxSequenceNumber;
  return Start(takes_any_ ? 0 : oldest);
}

// Finds the log.
Status ChangeStream::Open(SequenceNumber sequence) {
  StreamSource::Moment moment;
  Status status = source_->Look(0, &moment);
  if (!status.ok()) return status;
  const bool knows = source_->KnowsPublished();
  if (knows && sequence > moment.published + 1) {
    return Status::NotFound(
        "update " + std::to_string(sequence) + " is not written yet",
        "the newest one is " + std::to_string(moment.published));
  }
  expected_ = sequence;
  for (int i = 0; i < kOpenTries; ++i) {
    status = logs_.Refresh(moment.newest_log);
    if (!status.ok()) return status;
    const LogList::Log* found = nullptr;
    for (const LogList::Log& log : logs_.logs()) {
      if (log.has_begin && log.begin <= sequence && log.begin < log.end) {
        found = &log;
      }
    }
    const SequenceNumber oldest =
        logs_.Oldest(knows ? moment.published + 1 : kMaxSequenceNumber);
    const bool is_next =
        knows ? sequence == moment.published + 1 : oldest == kMaxSequenceNumber;
    if (found == nullptr && is_next && !logs_.logs().empty()) {
      found = &logs_.logs().back();
    }
    if (found == nullptr) {
      return oldest == kMaxSequenceNumber
                 ? Status::NotFound("there are no logs", source_->path())
                 : GoneError(sequence, oldest);
    }
    std::unique_ptr<RandomAccessFile> file;
    status = logs_.Open(found->number, &file);
    if (status.IsNotFound()) continue;
    if (!status.ok()) return status;
    first_log_ = found->number;
    newest_log_ = moment.newest_log;
    cursor_ = std::make_unique<LogCursor>(std::move(file),
                                          logs_.NameOf(first_log_), first_log_);
    end_ = logs_.EndOf(first_log_);
    return status;
  }
  return status;
}

// ---- The iterator's calls ---------------------------------------------------

void ChangeStream::Next() { Advance(); }

BatchResult ChangeStream::GetBatch() {
  BatchResult result;
  if (!valid_) return result;
  result.sequence = sequence_;
  result.writeBatchPtr = std::make_unique<WriteBatch>(batch_);
  return result;
}

bool ChangeStream::GetGap(TransactionLogGap* gap) {
  *gap = gap_;
  return gap_.kind != Kind::kNone;
}

bool ChangeStream::Wait(uint64_t timeout_us) {
  const uint64_t begin_us = FutexClockNanos() / 1000;
  while (!valid_ && status_.ok()) {
    Advance();
    if (valid_ || !status_.ok()) break;
    uint64_t left_us = timeout_us;
    if (timeout_us != UINT64_MAX) {
      const uint64_t passed_us = FutexClockNanos() / 1000 - begin_us;
      left_us = timeout_us > passed_us ? timeout_us - passed_us : 0;
    }
    switch (source_->Await(expected_, left_us)) {
      case PublicationWatch::Outcome::kPublished:
        break;
      case PublicationWatch::Outcome::kTimeout:
        return false;
      case PublicationWatch::Outcome::kEnded:
        status_ = Status::ShutdownInProgress();
        break;
    }
  }
  return valid_;
}

// ---- Steps ------------------------------------------------------------------

void ChangeStream::Advance() {
  valid_ = false;
  status_ = Status::OK();
  gap_ = TransactionLogGap();
  if (expected_ <= hole_last_) return ReportHole();
  if (std::exchange(is_held_, false)) return Yield();
  for (Step step = Step::kGoOn; step == Step::kGoOn;) {
    if (expected_ > seen_) {
      StreamSource::Moment moment{seen_, newest_log_};
      Status status = source_->Look(expected_, &moment);
      if (!status.ok()) {
        step = Fail(std::move(status));
        continue;
      }
      if (moment.published < expected_) return;  // No more now.
      status = Renew(moment);
      if (!status.ok()) {
        step = Fail(std::move(status));
        continue;
      }
    }
    Slice record;
    const wal::ReadOutcome outcome = cursor_->Read(&record);
    step = outcome == wal::ReadOutcome::kRecord ? TakeRecord(record)
                                                : PassEnd(outcome);
  }
}

Status ChangeStream::Renew(const StreamSource::Moment& moment) {
  if (moment.newest_log != newest_log_) {
    Status status = logs_.Refresh(moment.newest_log);
    if (!status.ok()) return status;
    newest_log_ = moment.newest_log;
    end_ = logs_.EndOf(cursor_->number());
  }
  seen_ = moment.published;
  cursor_->Restart();
  return Status::OK();
}

// Ends the call. The next one looks again.
ChangeStream::Step ChangeStream::EndForNow() {
  seen_ = 0;
  return Step::kReturn;
}

ChangeStream::Step ChangeStream::Fail(Status status) {
  status_ = std::move(status);
  return EndForNow();
}

ChangeStream::Step ChangeStream::TakeRecord(const Slice& record) {
  BatchReader header;
  uint64_t count = 0;
  std::string batch;
  Status status = header.Init(record);
  const SequenceNumber sequence = header.sequence();
  if (status.ok() && sequence >= end_) {
    cursor_->StepBack();
    return PassEnd(wal::ReadOutcome::kEnd);
  }
  if (status.ok()) status = Decode(record, &batch, &count);
  if (status.ok() && sequence > kMaxSequenceNumber - count) {
    status = Status::Corruption("a sequence number is too large");
  }
  if (status.IsNotSupported() || status.IsIOError()) {
    cursor_->StepBack();
    return Fail(status.Annotate(logs_.NameOf(cursor_->number())));
  }
  const SequenceNumber last = sequence + count - 1;
  if (status.ok() && (count == 0 || last < expected_)) return Step::kGoOn;
  if (status.ok() && sequence > seen_) {
    // The record before it is published. It may itself be not.
    cursor_->StepBack();
    return BeginHole(seen_);
  }
  if (status.ok() && sequence < expected_ && !seeks_) {
    status = Status::Corruption("update " + std::to_string(expected_ - 1) +
                                " is in two batches");
  }
  if (!status.ok()) {
    // The checksum is right: what follows can be read. The missing numbers
    // show by the next record.
    if (damage_.ok()) {
      damage_ = status.Annotate(logs_.NameOf(cursor_->number()));
    }
    return Step::kGoOn;
  }
  if (std::exchange(takes_any_, false)) expected_ = sequence;
  batch_ = std::move(batch);
  sequence_ = sequence;
  last_ = last;
  if (sequence > expected_) {
    is_held_ = true;
    return BeginHole(sequence - 1);
  }
  Yield();
  return Step::kReturn;
}

void ChangeStream::Yield() {
  valid_ = true;
  seeks_ = false;
  expected_ = last_ + 1;
  damage_ = Status::OK();
  log_missing_ = false;
  section_missing_ = false;
  std::erase_if(outside_, [this](const OutsideChange& change) {
    return change.last < expected_;
  });
}

// ---- Holes ------------------------------------------------------------------

ChangeStream::Step ChangeStream::BeginHole(SequenceNumber last) {
  hole_last_ = last;
  ReportHole();
  return Step::kReturn;
}

// Reports the next part of the hole: its parts may have different causes.
void ChangeStream::ReportHole() {
  seeks_ = false;
  gap_ = TransactionLogGap();
  gap_.first = expected_;
  gap_.last = hole_last_;
  const OutsideChange* cause = nullptr;
  for (const OutsideChange& change : outside_) {
    if (change.last < expected_) continue;
    if (change.first <= expected_) {
      cause = &change;
    } else {
      gap_.last = std::min(gap_.last, change.first - 1);
    }
  }
  const std::string numbers_before = Numbers(gap_.first, gap_.last);
  if (cause != nullptr) {
    gap_.last = std::min(gap_.last, cause->last);
    gap_.kind = cause->kind;
    gap_.files = cause->files;
    status_ = Status::Incomplete(
        Numbers(gap_.first, gap_.last),
        (gap_.kind == Kind::kIngested ? "are tables from outside: "
                                      : "are the removal of tables: ") +
            Names(gap_.files));
  } else if (!damage_.ok()) {
    gap_.kind = Kind::kDamaged;
    status_ =
        Status::Corruption(numbers_before + " are missing", damage_.message());
  } else if (log_missing_ || section_missing_) {
    gap_.kind = Kind::kGone;
    const SequenceNumber oldest = logs_.Oldest(gap_.last + 1);
    status_ = Status::NotFound(
        numbers_before + " are in no log any more",
        "the oldest one is " + std::to_string(oldest) +
            (oldest <= gap_.first
                 ? ", and the next one is " + std::to_string(gap_.last + 1)
                 : ""));
  } else {
    gap_.kind = Kind::kUnlogged;
    status_ = Status::Incomplete(numbers_before,
                                 "were not logged (disable_wal), or are lost");
  }
  expected_ = gap_.last + 1;
}

// ---- Ends of logs -----------------------------------------------------------

ChangeStream::Step ChangeStream::PassEnd(wal::ReadOutcome outcome) {
  const bool is_cut = outcome == wal::ReadOutcome::kTornTail ||
                      outcome == wal::ReadOutcome::kDamage;
  if (outcome != wal::ReadOutcome::kEnd && !is_cut) {
    return Fail(cursor_->status());
  }
  if (cursor_->number() < newest_log_) {
    if (is_cut && damage_.ok()) damage_ = cursor_->status();
    return OpenNextLog();
  }
  if (source_->KnowsPublished()) {
    return outcome == wal::ReadOutcome::kEnd && !source_->Buffers()
               ? BeginHole(seen_)
               : SettleEnd();
  }
  if (outcome == wal::ReadOutcome::kDamage && !cursor_->EndIsTorn(outcome)) {
    const bool again =
        damaged_log_ == cursor_->number() && damaged_at_ == cursor_->end();
    if (again) return Fail(cursor_->status());
    // It may have been completed in the meantime.
    damaged_log_ = cursor_->number();
    damaged_at_ = cursor_->end();
    seen_ = 0;
    return Step::kGoOn;
  }
  if (!damage_.ok()) return Fail(std::exchange(damage_, Status::OK()));
  return EndForNow();
}

// Looks at the end of the newest log while nobody writes.
ChangeStream::Step ChangeStream::SettleEnd() {
  bool goes_on = false;
  Status read_status;
  Status status = source_->Settle(
      [&](const StreamSource::Moment& moment, uint64_t newest_bytes) {
        read_status = Renew(moment);
        goes_on = cursor_->number() < newest_log_;
        if (!read_status.ok() || goes_on) return;
        Slice record;
        const wal::ReadOutcome outcome = cursor_->Read(&record);
        goes_on = outcome == wal::ReadOutcome::kRecord;
        if (goes_on) {
          cursor_->StepBack();
        } else if (outcome != wal::ReadOutcome::kEnd &&
                   cursor_->end() < newest_bytes) {
          damage_ = cursor_->status();
        }
      });
  if (status.ok()) status = std::move(read_status);
  if (!status.ok()) return Fail(std::move(status));
  return goes_on ? Step::kGoOn : BeginHole(seen_);
}

ChangeStream::Step ChangeStream::OpenNextLog() {
  const bool knows = source_->KnowsPublished();
  Status status;
  for (int i = 0; i < kOpenTries; ++i) {
    status = logs_.Refresh(newest_log_);
    if (!status.ok()) return Fail(std::move(status));
    const LogList::Log* log = logs_.After(cursor_->number());
    // Without records that were published. A file without a record need not
    // even be a log.
    while (log != nullptr && (log->has_begin ? log->begin >= log->end : !knows))
      log = logs_.After(log->number);
    if (log == nullptr) {
      return knows ? Fail(Status::NotFound("the log after " +
                                           logs_.NameOf(cursor_->number())))
                   : EndForNow();
    }
    std::unique_ptr<RandomAccessFile> file;
    status = logs_.Open(log->number, &file);
    if (status.IsNotFound()) continue;
    if (!status.ok()) return Fail(std::move(status));
    if (log->predecessor != cursor_->number()) {
      log_missing_ = true;
    } else if (log->predecessor_bytes > cursor_->end() && damage_.ok()) {
      damage_ = Status::Corruption(logs_.NameOf(cursor_->number()),
                                   "its end is missing");
    }
    cursor_ = std::make_unique<LogCursor>(
        std::move(file), logs_.NameOf(log->number), log->number);
    end_ = log->end;
    return Step::kGoOn;
  }
  return Fail(std::move(status));
}

// ---- Decoding ---------------------------------------------------------------

Status ChangeStream::Decode(const Slice& record, std::string* batch,
                            uint64_t* count) {
  BatchReader reader;
  Status status = reader.Init(record);
  LogRecord part;
  bool done = false;
  bool has_marks = false;
  *count = 0;
  while (status.ok()) {
    status = reader.NextInLog(&part, &done);
    if (!status.ok() || done) break;
    has_marks = has_marks || part.mark != BatchTag::kNoop || part.is_prepared;
    if (part.is_log_data) {
      if (reader.count() != 0) continue;
      auto change = OutsideChange::Decode(part.key);
      if (change) outside_.push_back(std::move(*change));
    } else if (part.mark == BatchTag::kNoop) {
      ++*count;
    }
  }
  if (!status.ok()) return status;
  if (has_marks) return DecodeMarks(record, batch, count);
  if (*count > 0) batch->assign(record.data(), record.size());
  return status;
}

// A record that prepares, commits or rolls back transactions, perhaps with
// other updates around: RocksDB writes groups so.
Status ChangeStream::DecodeMarks(const Slice& record, std::string* batch,
                                 uint64_t* count) {
  BatchReader reader;
  Status status = reader.Init(record);
  WriteBatch updates;
  LogRecord part;
  bool done = false;
  bool misses = false;
  while (status.ok()) {
    status = reader.NextInLog(&part, &done);
    if (!status.ok() || done) break;
    if (part.mark == BatchTag::kEndPrepare) {
      auto section = std::make_unique<WriteBatch>();
      status = ReadSection(part.section, part.section_count, section.get());
      if (status.ok()) sections_[part.key.ToString()] = std::move(section);
    } else if (part.mark == BatchTag::kRollback) {
      sections_.erase(part.key.ToString());
    } else if (part.mark == BatchTag::kCommit) {
      std::unique_ptr<WriteBatch> section;
      const auto found = sections_.find(part.key.ToStringView());
      if (found != sections_.end()) {
        section = std::move(found->second);
        sections_.erase(found);
      } else {
        status = FindSection(part.key, &section);
      }
      misses = misses || section == nullptr;
      if (section != nullptr) updates.Append(*section);
    } else if (part.is_log_data) {
      if (!part.is_prepared) updates.PutLogData(part.key);
    } else if (!part.is_prepared) {
      if (part.unsupported != nullptr) {
        return Status::NotSupported(part.unsupported);
      }
      WriteBatchInternal::Add(&updates, part.family, part.type, part.key,
                              part.value);
    }
  }
  if (!status.ok()) return status;
  *count = misses ? 0 : updates.Count();
  // Without the section, the batch would be torn. Its numbers are missing.
  if (misses && (seeks_ || reader.sequence() >= expected_)) {
    section_missing_ = true;
  }
  WriteBatchInternal::SetSequence(&updates, reader.sequence());
  *batch = updates.Data();
  return status;
}

Status ChangeStream::FindSection(const Slice& name,
                                 std::unique_ptr<WriteBatch>* section) {
  const std::vector<LogList::Log>& logs = logs_.logs();
  for (auto log = logs.rbegin(); log != logs.rend(); ++log) {
    if (log->number >= first_log_) continue;
    std::unique_ptr<RandomAccessFile> file;
    Status status = logs_.Open(log->number, &file);
    if (status.IsNotFound()) return Status::OK();
    if (!status.ok()) return status;
    LogCursor cursor(std::move(file), logs_.NameOf(log->number), log->number);
    Slice record;
    bool is_named = false;
    while (cursor.Read(&record) == wal::ReadOutcome::kRecord) {
      BatchReader reader;
      LogRecord part;
      bool done = false;
      status = reader.Init(record);
      while (status.ok()) {
        status = reader.NextInLog(&part, &done);
        if (!status.ok() || done) break;
        if (part.mark == BatchTag::kNoop || part.key != name) continue;
        is_named = true;
        section->reset();
        if (part.mark != BatchTag::kEndPrepare) continue;
        *section = std::make_unique<WriteBatch>();
        status = ReadSection(part.section, part.section_count, section->get());
      }
      if (!status.ok()) return status;
    }
    if (is_named) return Status::OK();
  }
  return Status::OK();
}

}  // namespace varve
