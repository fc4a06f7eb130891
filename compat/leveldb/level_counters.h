// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <string>

#include "varve/listener.h"

namespace varve::compat {

// The work of flushes and compactions by the level that received the result, as
// the property leveldb.stats shows it. Thread-safety: thread-safe.
class LevelCounters final : public EventListener {
 public:
  static constexpr int kLevels = 7;
  struct Level {
    uint64_t micros = 0;
    uint64_t bytes_read = 0;
    uint64_t bytes_written = 0;
  };

  void OnFlushCompleted(const FlushJobInfo& info) override;
  void OnCompactionCompleted(const CompactionJobInfo& info) override;

  std::array<Level, kLevels> Get() const;

 private:
  mutable std::mutex mutex_;
  std::array<Level, kLevels> levels_;  // Guarded by mutex_.
};

}  // namespace varve::compat
