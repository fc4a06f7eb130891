// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// C functions of environments, and of limits for background writes.

#include <rocksdb/c.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "compat/rocksdb/base.h"
#include "compat/rocksdb/options/options.h"

using varve::Env;
using varve::Status;
using varve::rocksdb_c::Failed;
using varve::rocksdb_c::Given;
using varve::rocksdb_c::Usable;

namespace {

constexpr int kMaxThreads = 64;

// The numbers of threads that the program has set. An environment in memory
// uses the threads of the operating system's.
std::atomic<int> low_threads{0};
std::atomic<int> high_threads{0};
std::atomic<int> bottom_threads{0};

// Threads start when there is work, so a smaller number has no effect.
void SetThreads(rocksdb_env_t* env, int count, Env::Priority priority,
                std::atomic<int>* number) {
  if (env == nullptr) return;
  count = std::max(count, 0);
  // relaxed: a number alone.
  number->store(count, std::memory_order_relaxed);
  if (count > 0) {
    env->rep->RaiseBackgroundThreads(std::min(count, kMaxThreads), priority);
  }
}

int GetThreads(const rocksdb_env_t* env, const std::atomic<int>& number) {
  // relaxed: a number alone.
  return env == nullptr ? 0 : number.load(std::memory_order_relaxed);
}

// Files in memory. As with RocksDB, a directory needs no parent.
class MemoryEnv final : public varve::EnvWrapper {
 public:
  MemoryEnv() : MemoryEnv(varve::NewMemoryEnv(Env::Default())) {}

  Status CreateDirIfMissing(const std::string& path) override {
    Status status;
    for (size_t slash = path.find('/', 1);
         status.ok() && slash != std::string::npos;
         slash = path.find('/', slash + 1)) {
      status = target()->CreateDirIfMissing(path.substr(0, slash));
    }
    return status.ok() ? target()->CreateDirIfMissing(path) : status;
  }

 private:
  explicit MemoryEnv(std::unique_ptr<Env> files)
      : EnvWrapper(files.get()), files_(std::move(files)) {}

  const std::unique_ptr<Env> files_;
};

// Returns a limit, or null if writes are not limited.
rocksdb_ratelimiter_t* NewLimiter(int64_t bytes_per_second,
                                  int64_t refill_period_us, int32_t fairness,
                                  bool limits_writes) {
  auto* const limiter = new rocksdb_ratelimiter_t;
  if (limits_writes) {
    limiter->rep = varve::NewGenericRateLimiter(
        static_cast<uint64_t>(std::max<int64_t>(bytes_per_second, 1)),
        static_cast<uint64_t>(std::max<int64_t>(refill_period_us, 1)),
        static_cast<uint32_t>(std::clamp(fairness, 1, 100)));
  }
  return limiter;
}

}  // namespace

extern "C" {

rocksdb_env_t* rocksdb_create_default_env(void) {
  // Not owned.
  return new rocksdb_env_t{
      std::shared_ptr<Env>(std::shared_ptr<Env>(), Env::Default())};
}

rocksdb_env_t* rocksdb_create_mem_env(void) {
  return new rocksdb_env_t{std::make_shared<MemoryEnv>()};
}

void rocksdb_env_destroy(rocksdb_env_t* env) { delete env; }

void rocksdb_env_set_background_threads(rocksdb_env_t* env, int count) {
  SetThreads(env, count, Env::Priority::kLow, &low_threads);
}

int rocksdb_env_get_background_threads(rocksdb_env_t* env) {
  return GetThreads(env, low_threads);
}

void rocksdb_env_set_low_priority_background_threads(rocksdb_env_t* env,
                                                     int count) {
  SetThreads(env, count, Env::Priority::kLow, &low_threads);
}

int rocksdb_env_get_low_priority_background_threads(rocksdb_env_t* env) {
  return GetThreads(env, low_threads);
}

void rocksdb_env_set_high_priority_background_threads(rocksdb_env_t* env,
                                                      int count) {
  SetThreads(env, count, Env::Priority::kHigh, &high_threads);
}

int rocksdb_env_get_high_priority_background_threads(rocksdb_env_t* env) {
  return GetThreads(env, high_threads);
}

void rocksdb_env_set_bottom_priority_background_threads(rocksdb_env_t* env,
                                                        int count) {
  SetThreads(env, count, Env::Priority::kLow, &bottom_threads);
}

int rocksdb_env_get_bottom_priority_background_threads(rocksdb_env_t* env) {
  return GetThreads(env, bottom_threads);
}

// Programs cannot start threads by this interface, so there are none to join.
void rocksdb_env_join_all_threads(rocksdb_env_t* /*env*/) {}

// The engine chooses the priorities of its threads itself.
void rocksdb_env_lower_thread_pool_io_priority(rocksdb_env_t* /*env*/) {}
void rocksdb_env_lower_high_priority_thread_pool_io_priority(
    rocksdb_env_t* /*env*/) {}
void rocksdb_env_lower_thread_pool_cpu_priority(rocksdb_env_t* /*env*/) {}
void rocksdb_env_lower_high_priority_thread_pool_cpu_priority(
    rocksdb_env_t* /*env*/) {}

void rocksdb_create_dir_if_missing(rocksdb_env_t* env, const char* path,
                                   char** errptr) {
  if (!Usable(errptr, Given{env, "env"}, Given{path, "path"})) return;
  Failed(errptr, env->rep->CreateDirIfMissing(path));
}

rocksdb_ratelimiter_t* rocksdb_ratelimiter_create(int64_t bytes_per_second,
                                                  int64_t refill_period_us,
                                                  int32_t fairness) {
  return NewLimiter(bytes_per_second, refill_period_us, fairness, true);
}

rocksdb_ratelimiter_t* rocksdb_ratelimiter_create_auto_tuned(
    int64_t bytes_per_second, int64_t refill_period_us, int32_t fairness) {
  return NewLimiter(bytes_per_second, refill_period_us, fairness, true);
}

rocksdb_ratelimiter_t* rocksdb_ratelimiter_create_with_mode(
    int64_t bytes_per_second, int64_t refill_period_us, int32_t fairness,
    int mode, bool /*auto_tuned*/) {
  constexpr int kReadsOnly = 0;
  return NewLimiter(bytes_per_second, refill_period_us, fairness,
                    mode != kReadsOnly);
}

}  // extern "C"
