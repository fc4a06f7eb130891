// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "compat/leveldb/write_buffer.h"

#include <algorithm>
#include <mutex>
#include <string>
#include <vector>

#include "varve/env.h"

namespace varve::compat {
namespace {

constexpr size_t kSmallBytes = 128 << 10;
constexpr size_t kDefaultBytes = 4 << 20;
constexpr size_t kMediumBytes = 512 << 10;
constexpr size_t kMaxFull = 8;
constexpr uint64_t kIdleNanos = 5'000'000'000;

}  // namespace

// The databases that have the full size.
struct WriteBuffer::Full {
  static Full& Get() {
    static auto* const full = new Full;
    return *full;
  }

  std::mutex mutex;
  std::vector<WriteBuffer*> buffers;  // Guarded by mutex.
};

WriteBuffer::WriteBuffer(size_t bytes) : bytes_(bytes) {}

WriteBuffer::~WriteBuffer() {
  Full& full = Full::Get();
  const std::lock_guard<std::mutex> lock(full.mutex);
  std::erase(full.buffers, this);
}

bool WriteBuffer::IsManaged() const {
  return bytes_ > kSmallBytes && bytes_ <= kDefaultBytes;
}

size_t WriteBuffer::InitialBytes() const {
  return IsManaged() ? kSmallBytes : bytes_;
}

void WriteBuffer::OnFlushBegin(const FlushJobInfo& /*info*/) {
  if (!IsManaged()) return;
  Full& full = Full::Get();
  const std::lock_guard<std::mutex> lock(full.mutex);
  // Under the mutex, so that no last_flush_ns_ is later.
  const uint64_t now = Env::Default()->NowNanos();
  last_flush_ns_ = now;
  if (is_full_) return;
  if (full.buffers.size() == kMaxFull) {
    const auto idlest =
        std::min_element(full.buffers.begin(), full.buffers.end(),
                         [](const WriteBuffer* a, const WriteBuffer* b) {
                           return a->last_flush_ns_ < b->last_flush_ns_;
                         });
    if (now - (*idlest)->last_flush_ns_ < kIdleNanos) {
      if (is_medium_) return;
      is_medium_ = true;
      // relaxed: only the number matters.
      due_bytes_.store(std::min(bytes_, kMediumBytes),
                       std::memory_order_relaxed);
      return;
    }
    (*idlest)->is_full_ = false;
    (*idlest)->is_medium_ = false;
    // relaxed: only the number matters.
    (*idlest)->due_bytes_.store(kSmallBytes, std::memory_order_relaxed);
    full.buffers.erase(idlest);
  }
  is_full_ = true;
  // relaxed: only the number matters.
  due_bytes_.store(bytes_, std::memory_order_relaxed);
  full.buffers.push_back(this);
}

void WriteBuffer::Apply(DB* db) {
  // relaxed: one of several writers takes it.
  const size_t bytes = due_bytes_.exchange(0, std::memory_order_relaxed);
  if (bytes == 0) return;
  // After an error the present size stays. The next write reports the error.
  db->SetOptions({{"write_buffer_size", std::to_string(bytes)}}).IgnoreError();
}

}  // namespace varve::compat
