// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// What a database tells the manager of its tables (DBOptions::
// sst_file_manager), and asks it. Without a manager there is always room, and
// files are removed at once.
//
// Thread-safety: thread-safe. It may be used with the DB mutex held, except
// Remove and Close. Close comes last, and not in a child made by fork().

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "db/space/sst_file_manager_impl.h"
#include "varve/env.h"
#include "varve/sst_file_manager.h"
#include "varve/status.h"

namespace varve {

class TableSpace {
 public:
  // `env` is that of the database's directory and must outlive this.
  TableSpace(std::shared_ptr<SstFileManager> manager, Env* env,
             std::string directory);
  TableSpace(const TableSpace&) = delete;
  TableSpace& operator=(const TableSpace&) = delete;

  // Counts a table. May be called again for the same table.
  void Add(uint64_t number, uint64_t bytes);
  // Ends that for a table that was never named, and was removed.
  void Forget(uint64_t number);
  // Removes the file of a table, now or later.
  Status Remove(const std::string& path);
  // Removes the files that wait, and forgets all tables.
  void Close();

  // Returns SpaceLimit if a flush that begins now would not find room, as far
  // as that is known.
  Status CheckFlush();
  // Returns SpaceLimit if tables that were just written exceed the bound. They
  // are not counted yet.
  Status CheckFlushed(uint64_t bytes);

  // The room for a compaction.
  class Reservation {
   public:
    Reservation(TableSpace* space, uint64_t bytes);
    ~Reservation();
    Reservation(const Reservation&) = delete;
    Reservation& operator=(const Reservation&) = delete;

    // Returns SpaceLimit if there is none.
    const Status& status() const { return status_; }

   private:
    SstFileManagerImpl* const manager_;
    const uint64_t bytes_;
    Status status_;
  };

 private:
  const std::shared_ptr<SstFileManager> owner_;
  SstFileManagerImpl* const manager_;  // May be null.
  Env* const env_;
  const std::string directory_;
  // What the last flush needed that found no room; otherwise 1. Another attempt
  // would write as much in vain. Accessed relaxed: a wrong value costs one
  // attempt.
  std::atomic<uint64_t> needed_bytes_{1};
};

}  // namespace varve
