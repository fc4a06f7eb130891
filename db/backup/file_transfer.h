// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Copies files between Envs, with checksums, at a bounded rate, until it is
// stopped.

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "db/backup/backup_names.h"
#include "util/base/mutex.h"
#include "varve/env.h"
#include "varve/rate_limiter.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

// The state that all transfers of a call share. Thread-safety: thread-safe.
class TransferControl {
 public:
  // `limiter`, `stop` and `progress` may be null. `progress` is called after
  // each `interval_bytes`, by one thread at a time. `buffer_bytes` 0: chosen by
  // the rate.
  TransferControl(RateLimiter* limiter, const std::atomic<bool>* stop,
                  uint64_t buffer_bytes, uint64_t interval_bytes,
                  const std::function<void()>* progress);

  // Waits until `bytes` more may be written, and reports progress. Returns
  // Incomplete if the call was stopped, and Aborted if `progress` threw.
  Status BeforeWrite(uint64_t bytes);
  // Returns Incomplete if the call was stopped.
  Status CheckStop() const;
  size_t buffer_bytes() const { return buffer_bytes_; }

 private:
  RateLimiter* const limiter_;
  const std::atomic<bool>* const stop_;
  const std::function<void()>* const progress_;
  const uint64_t interval_bytes_;
  size_t buffer_bytes_;
  Mutex mu_;
  uint64_t unreported_bytes_ VARVE_GUARDED_BY(mu_) = 0;
};

// The size and checksum of the bytes that were read.
struct TransferResult {
  uint64_t size = 0;
  uint32_t crc32c = 0;
};

// Reads the first `size` bytes of a file, or all if it is kUnknownSize. Returns
// Corruption if it is shorter.
Status ChecksumFile(Env* env, const std::string& path, uint64_t size,
                    TransferControl* control, TransferResult* result);

// Copies the first `size` bytes, or all if it is kUnknownSize, to a file that
// is replaced if it exists, and syncs the copy if `sync`, but not its name.
// Returns Corruption if the source is shorter. After an error a part of the
// copy may exist.
Status TransferFile(Env* from_env, const std::string& from, uint64_t size,
                    Env* to_env, const std::string& to, bool sync,
                    TransferControl* control, TransferResult* result);

// Writes a file as TransferFile does.
Status TransferContents(const Slice& contents, Env* to_env,
                        const std::string& to, bool sync,
                        TransferControl* control, TransferResult* result);

// Sets *same to whether the files, of `size` bytes each, have equal ends: for a
// table, its properties, index and footer.
Status CompareEnds(Env* a_env, const std::string& a, Env* b_env,
                   const std::string& b, uint64_t size, bool* same);

// Runs `task` for each index below `count`, on up to `thread_count` threads,
// until one returns an error, which is returned. Waits for all. `nice` is added
// to the threads' nice value; the calling thread is one of them only if it is
// 0. Threads that cannot be created are done without.
Status RunTransfers(size_t count, int thread_count, int nice,
                    const std::function<Status(size_t)>& task);

}  // namespace varve
