// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The logs of a directory and of its archive, with the sequence numbers at
// which they begin. A process may be writing them.
//
// A log may end in records that were never published: a failed write or sync,
// or records after damage that recovery stopped at. Their numbers were used
// again in a later log. So a log's records count only up to the begin of any
// later log (EndOf).
//
// Thread-safety: owned by one thread at a time.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "table/block/internal_key.h"
#include "varve/env.h"
#include "varve/status.h"

namespace varve {

class LogList {
 public:
  struct Log {
    uint64_t number = 0;
    // The sequence number of the first update that may be in it. Known once its
    // first record is there.
    bool has_begin = false;
    SequenceNumber begin = 0;
    // The first sequence number of the later logs, where its records end.
    SequenceNumber end = kMaxSequenceNumber + 1;
    // The number of the log before it, or 0 if it does not tell.
    uint64_t predecessor = 0;
    uint64_t predecessor_bytes = 0;  // Its size.
  };

  // `env` must outlive this object.
  LogList(Env* env, std::string db_path)
      : env_(env), db_path_(std::move(db_path)) {}
  LogList(const LogList&) = delete;
  LogList& operator=(const LogList&) = delete;

  // Lists the logs up to number `newest`.
  Status Refresh(uint64_t newest);
  // Returns the logs by number.
  const std::vector<Log>& logs() const { return logs_; }
  // Returns the first log after `number`, or null.
  const Log* After(uint64_t number) const;
  // Returns the sequence number from which on the log's records do not count.
  SequenceNumber EndOf(uint64_t number) const;
  // Returns the oldest sequence number that a log may have, or `otherwise`.
  SequenceNumber Oldest(SequenceNumber otherwise) const;
  // Opens the log, wherever it is. Returns NotFound if it was removed.
  Status Open(uint64_t number, std::unique_ptr<RandomAccessFile>* file) const;
  std::string NameOf(uint64_t number) const;

 private:
  void ReadBegin(Log* log) const;

  Env* const env_;
  const std::string db_path_;
  std::vector<Log> logs_;
};

}  // namespace varve
