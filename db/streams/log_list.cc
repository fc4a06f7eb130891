// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/streams/log_list.h"

#include <algorithm>

#include "db/streams/log_cursor.h"
#include "db/wal/wal_archive.h"
#include "db/wal/wal_predecessor.h"
#include "db/write/write_batch_internal.h"
#include "env/file_names.h"

namespace varve {

namespace {

// A log moves once, and may be opened between the two attempts.
constexpr int kOpenTries = 2;

}  // namespace

Status LogList::Refresh(uint64_t newest) {
  std::vector<uint64_t> numbers;
  std::vector<uint64_t> archived;
  // In this order: a log that moves in the meantime is in one of the two lists.
  Status status = ListLogs(env_, db_path_, &numbers);
  if (status.ok()) status = ListArchive(env_, db_path_, &archived);
  if (!status.ok()) return status;
  numbers.insert(numbers.end(), archived.begin(), archived.end());
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  std::vector<Log> logs;
  auto known = logs_.begin();
  for (const uint64_t number : numbers) {
    if (number > newest) break;
    while (known != logs_.end() && known->number < number) ++known;
    const bool is_known = known != logs_.end() && known->number == number;
    logs.push_back(is_known ? *known : Log{.number = number});
    if (!logs.back().has_begin) ReadBegin(&logs.back());
  }
  SequenceNumber end = kMaxSequenceNumber + 1;
  for (auto log = logs.rbegin(); log != logs.rend(); ++log) {
    log->end = end;
    if (log->has_begin) end = std::min(end, log->begin);
  }
  logs_ = std::move(logs);
  return status;
}

const LogList::Log* LogList::After(uint64_t number) const {
  const auto found = std::upper_bound(
      logs_.begin(), logs_.end(), number,
      [](uint64_t wanted, const Log& log) { return wanted < log.number; });
  return found != logs_.end() ? &*found : nullptr;
}

SequenceNumber LogList::EndOf(uint64_t number) const {
  const Log* const log = number == 0 ? nullptr : After(number - 1);
  return log != nullptr && log->number == number ? log->end
                                                 : kMaxSequenceNumber + 1;
}

SequenceNumber LogList::Oldest(SequenceNumber otherwise) const {
  for (const Log& log : logs_) {
    if (log.has_begin && log.begin < log.end) {
      return std::min(log.begin, otherwise);
    }
  }
  return otherwise;
}

Status LogList::Open(uint64_t number,
                     std::unique_ptr<RandomAccessFile>* file) const {
  Status status;
  for (int i = 0; i < kOpenTries; ++i) {
    status = env_->NewRandomAccessFile(WalFileName(db_path_, number),
                                       FileOptions(), file);
    if (!status.IsNotFound()) return status;
    status = env_->NewRandomAccessFile(ArchivedWalFileName(db_path_, number),
                                       FileOptions(), file);
    if (!status.IsNotFound()) return status;
  }
  return status;
}

std::string LogList::NameOf(uint64_t number) const {
  return WalFileName(db_path_, number);
}

// Leaves it unknown if the record is not complete, or is not a batch.
void LogList::ReadBegin(Log* log) const {
  std::unique_ptr<RandomAccessFile> file;
  if (!Open(log->number, &file).ok()) return;
  LogCursor cursor(std::move(file), NameOf(log->number), log->number);
  Slice record;
  BatchReader batch;
  if (cursor.Read(&record) != wal::ReadOutcome::kRecord ||
      !batch.Init(record).ok()) {
    return;
  }
  log->has_begin = true;
  log->begin = batch.sequence();
  if (const auto note = WalPredecessor::Decode(record)) {
    log->predecessor = note->number;
    log->predecessor_bytes = note->size;
  }
}

}  // namespace varve
