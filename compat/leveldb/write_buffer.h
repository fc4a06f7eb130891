// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The write buffers of many databases in one process.
//
// A program that opens fifty databases has fifty memtables. Each has an index
// that is as large as its write buffer allows, and takes more memory per entry
// than LevelDB's. So a database begins with a small buffer. At its first flush
// it gets the size that the program's options ask for. At most eight
// databases have that size at the same time. If another one flushes, it takes
// the place of the one whose last flush is longest ago, if that was five
// seconds ago or more. Otherwise it gets 512 KiB.
//
// Only LevelDB's default size is managed in this way. A program that asks for
// more gets it from the beginning.

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "varve/db.h"
#include "varve/listener.h"

namespace varve::compat {

// The write buffer of one database. Thread-safety: thread-safe.
class WriteBuffer final : public EventListener {
 public:
  // `bytes` is what the program's options ask for.
  explicit WriteBuffer(size_t bytes);
  ~WriteBuffer() override;

  // Returns the size to open the database with.
  size_t InitialBytes() const;

  // Changes the size of the open database if it is due. Called by writers
  // before each write. A flush cannot do it, since writers may wait for it.
  void Update(DB* db) {
    // relaxed: an update that is missed here is done by the next write.
    if (due_bytes_.load(std::memory_order_relaxed) != 0) [[unlikely]] {
      Apply(db);
    }
  }

  void OnFlushBegin(const FlushJobInfo& info) override;

 private:
  struct Full;

  void Apply(DB* db);
  bool IsManaged() const;

  const size_t bytes_;
  std::atomic<size_t> due_bytes_{0};  // 0: no change.
  // Guarded by Full's mutex.
  bool is_full_ = false;
  bool is_medium_ = false;
  uint64_t last_flush_ns_ = 0;
};

}  // namespace varve::compat
