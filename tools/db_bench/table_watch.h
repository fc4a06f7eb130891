// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Counts the bytes of the tables that an engine writes, whichever engine it is:
// the kernel reports each file that was written and closed.

#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "varve/status.h"

namespace varve {

struct TableCounts {
  uint64_t tables = 0;
  uint64_t bytes = 0;
  // Tables that were removed before their size was read. Their bytes are not
  // in `bytes`.
  uint64_t missed = 0;
};

// Thread-safety: thread-safe.
class TableWatch {
 public:
  TableWatch() = default;
  TableWatch(const TableWatch&) = delete;
  TableWatch& operator=(const TableWatch&) = delete;
  ~TableWatch() { Stop(); }

  // Counts the tables written to a directory from now on. The counts begin at
  // zero. REQUIRES: the directory exists.
  Status Start(const std::string& directory);
  // The counts stay readable.
  void Stop();

  // Returns the tables that were closed before this call.
  TableCounts Counts();

 private:
  // Reads the events there are. REQUIRES: mutex_ is held.
  void ReadEvents();

  std::string directory_;
  int events_ = -1;
  int stop_event_ = -1;
  std::mutex mutex_;
  TableCounts counts_;  // Guarded by mutex_.
  std::thread thread_;
};

// Returns whether a file of this name is a table of one of the engines.
bool IsTableName(const std::string& name);

struct FileSizes {
  // The sizes of the tables.
  uint64_t table_bytes = 0;
  uint64_t tables = 0;
  // The disk space of all files.
  uint64_t allocated_bytes = 0;
};

// Returns the sizes of a directory's files. Files that vanish do not count.
FileSizes ReadFileSizes(const std::string& directory);

}  // namespace varve
