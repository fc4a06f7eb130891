// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// C functions of options, and of the objects that they point to, that LevelDB
// does not have.

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <limits>

#include "capi/arguments.h"
#include "capi/handles.h"

using varve::Options;
using varve::ReadOptions;
using varve::WriteOptions;
using varve::capi::Given;
using varve::capi::SaveError;
using varve::capi::Set;
using varve::capi::ToCompression;
using varve::capi::Usable;

namespace {

// Passes log lines to a callback.
class CallbackLogger final : public varve::Logger {
 public:
  using OnLine = void (*)(void*, int level, const char* line, size_t length);

  CallbackLogger(void* state, void (*destructor)(void*), OnLine log)
      : state_(state), destructor_(destructor), log_(log) {}
  CallbackLogger(const CallbackLogger&) = delete;
  CallbackLogger& operator=(const CallbackLogger&) = delete;
  ~CallbackLogger() override {
    if (destructor_ != nullptr) destructor_(state_);
  }

  void Logv(varve::LogLevel level, const char* format,
            va_list arguments) override {
    char line[1024];
    const int length = vsnprintf(line, sizeof(line), format, arguments);
    if (length < 0) return;
    log_(state_, static_cast<int>(level), line,
         std::min(static_cast<size_t>(length), sizeof(line) - 1));
  }

 private:
  void* const state_;
  void (*const destructor_)(void*);
  const OnLine log_;
};

// Any other number becomes one that DB::Open rejects.
varve::KeyCase ToKeyCase(int number) {
  constexpr int kUnknown = 0xff;
  return static_cast<varve::KeyCase>(
      number >= 0 && number < kUnknown ? number : kUnknown);
}

void SetBound(const char* key, size_t size, varve_bound_t* bound) {
  bound->is_usable = varve::capi::Bound{{key, size, "key"}}.ok();
  bound->is_set = key != nullptr;
  bound->key =
      varve::capi::ToSlice(key, bound->is_set && bound->is_usable ? size : 0)
          .ToString();
}

}  // namespace

extern "C" {

// ---- Options of databases ---------------------------------------------------

varve_options_t* varve_options_create_copy(const varve_options_t* options) {
  return options != nullptr ? new varve_options_t(*options) : nullptr;
}

void varve_options_set(varve_options_t* options, const char* name,
                       const char* value, char** errptr) {
  if (!Usable(errptr, Given{options, "options"}, Given{name, "name"},
              Given{value, "value"})) {
    return;
  }
  const varve::Status status = varve::SetOption(name, value, &options->rep);
  if (SaveError(errptr, status)) return;
  if (strcmp(name, "filter_policy") == 0) options->filter_policy = nullptr;
}

void varve_options_set_key_case(varve_options_t* options, int key_case) {
  Set(options, &Options::key_case, ToKeyCase(key_case));
}

void varve_options_set_max_write_buffer_number(varve_options_t* options,
                                               int count) {
  Set(options, &Options::max_write_buffer_number, count);
}

void varve_options_set_max_background_jobs(varve_options_t* options,
                                           int count) {
  Set(options, &Options::max_background_jobs, count);
}

void varve_options_set_max_subcompactions(varve_options_t* options,
                                          uint32_t count) {
  Set(options, &Options::max_subcompactions,
      static_cast<int>(
          std::min(count, uint32_t{std::numeric_limits<int>::max()})));
}

void varve_options_set_target_file_size_base(varve_options_t* options,
                                             uint64_t bytes) {
  Set(options, &Options::target_file_size_base, bytes);
}

void varve_options_set_num_levels(varve_options_t* options, int levels) {
  Set(options, &Options::num_levels, levels);
}

void varve_options_set_max_bytes_for_level_base(varve_options_t* options,
                                                uint64_t bytes) {
  Set(options, &Options::max_bytes_for_level_base, bytes);
}

void varve_options_set_max_bytes_for_level_multiplier(varve_options_t* options,
                                                      double factor) {
  Set(options, &Options::max_bytes_for_level_multiplier, factor);
}

void varve_options_set_level_compaction_dynamic_level_bytes(
    varve_options_t* options, uint8_t value) {
  Set(options, &Options::level_compaction_dynamic_level_bytes, value != 0);
}

void varve_options_set_level0_file_num_compaction_trigger(
    varve_options_t* options, int count) {
  Set(options, &Options::level0_file_num_compaction_trigger, count);
}

void varve_options_set_level0_slowdown_writes_trigger(varve_options_t* options,
                                                      int count) {
  Set(options, &Options::level0_slowdown_writes_trigger, count);
}

void varve_options_set_level0_stop_writes_trigger(varve_options_t* options,
                                                  int count) {
  Set(options, &Options::level0_stop_writes_trigger, count);
}

void varve_options_set_disable_auto_compactions(varve_options_t* options,
                                                int value) {
  Set(options, &Options::disable_auto_compactions, value != 0);
}

void varve_options_set_compression_per_level(varve_options_t* options,
                                             const int* level_values,
                                             size_t num_levels) {
  // More than any database has is a mistake, as are null values.
  constexpr size_t kMaxLevels = 64;
  constexpr int kUnknown = -1;
  if (options == nullptr) return;
  auto& types = options->rep.compression_per_level;
  types.clear();
  if (num_levels > kMaxLevels || (level_values == nullptr && num_levels > 0)) {
    types.push_back(ToCompression(kUnknown));
    return;
  }
  for (size_t i = 0; i < num_levels; ++i) {
    types.push_back(ToCompression(level_values[i]));
  }
}

void varve_options_set_bottommost_compression(varve_options_t* options,
                                              int type) {
  Set(options, &Options::bottommost_compression, ToCompression(type));
}

void varve_options_set_cache_index_and_filter_blocks(varve_options_t* options,
                                                     uint8_t value) {
  Set(options, &Options::cache_index_and_filter_blocks, value != 0);
}

void varve_options_set_allow_mmap_reads(varve_options_t* options,
                                        uint8_t value) {
  Set(options, &Options::allow_mmap_reads, value != 0);
}

void varve_options_set_use_direct_reads(varve_options_t* options,
                                        uint8_t value) {
  Set(options, &Options::use_direct_reads, value != 0);
}

void varve_options_set_bytes_per_sync(varve_options_t* options,
                                      uint64_t bytes) {
  Set(options, &Options::bytes_per_sync, bytes);
}

void varve_options_set_wal_bytes_per_sync(varve_options_t* options,
                                          uint64_t bytes) {
  Set(options, &Options::wal_bytes_per_sync, bytes);
}

void varve_options_set_manual_wal_flush(varve_options_t* options,
                                        uint8_t value) {
  Set(options, &Options::manual_wal_flush, value != 0);
}

void varve_options_set_ratelimiter(varve_options_t* options,
                                   varve_ratelimiter_t* limiter) {
  Set(options, &Options::rate_limiter,
      limiter != nullptr ? limiter->rep : nullptr);
}

void varve_options_set_statistics(varve_options_t* options,
                                  varve_statistics_t* statistics) {
  Set(options, &Options::statistics,
      statistics != nullptr ? statistics->rep : nullptr);
}

void varve_options_set_create_missing_column_families(varve_options_t* options,
                                                      uint8_t value) {
  Set(options, &Options::create_missing_column_families, value != 0);
}

void varve_options_set_max_total_wal_size(varve_options_t* options,
                                          uint64_t bytes) {
  Set(options, &Options::max_total_wal_size, bytes);
}

void varve_options_set_atomic_flush(varve_options_t* options, uint8_t value) {
  Set(options, &Options::atomic_flush, value != 0);
}

// ---- Options of reads and writes --------------------------------------------

void varve_readoptions_set_iterate_lower_bound(varve_readoptions_t* options,
                                               const char* key, size_t keylen) {
  if (options != nullptr) SetBound(key, keylen, &options->lower);
}

void varve_readoptions_set_iterate_upper_bound(varve_readoptions_t* options,
                                               const char* key, size_t keylen) {
  if (options != nullptr) SetBound(key, keylen, &options->upper);
}

void varve_readoptions_set_readahead_size(varve_readoptions_t* options,
                                          size_t bytes) {
  Set(options, &ReadOptions::readahead_size, bytes);
}

void varve_writeoptions_disable_WAL(varve_writeoptions_t* options,
                                    int disable) {
  Set(options, &WriteOptions::disable_wal, disable != 0);
}

void varve_writeoptions_set_no_slowdown(varve_writeoptions_t* options,
                                        uint8_t value) {
  Set(options, &WriteOptions::no_slowdown, value != 0);
}

// ---- Caches, environments, logs, rates --------------------------------------

void varve_cache_set_capacity(varve_cache_t* cache, size_t capacity) {
  if (cache != nullptr) cache->rep->SetCapacity(capacity);
}

size_t varve_cache_get_capacity(const varve_cache_t* cache) {
  return cache != nullptr ? cache->rep->GetCapacity() : 0;
}

size_t varve_cache_get_usage(const varve_cache_t* cache) {
  return cache != nullptr ? cache->rep->GetUsage() : 0;
}

size_t varve_cache_get_pinned_usage(const varve_cache_t* cache) {
  return cache != nullptr ? cache->rep->GetPinnedUsage() : 0;
}

varve_env_t* varve_create_mem_env(void) {
  auto* const env = new varve_env_t;
  env->owned = varve::NewMemoryEnv(varve::Env::Default());
  env->rep = env->owned.get();
  return env;
}

varve_logger_t* varve_logger_create(void* state, void (*destructor)(void*),
                                    void (*log)(void*, int level,
                                                const char* line,
                                                size_t length)) {
  if (log == nullptr) return nullptr;
  return new varve_logger_t{
      std::make_shared<CallbackLogger>(state, destructor, log)};
}

void varve_logger_destroy(varve_logger_t* logger) { delete logger; }

varve_ratelimiter_t* varve_ratelimiter_create(int64_t rate_bytes_per_sec,
                                              int64_t refill_period_us,
                                              int32_t fairness) {
  const auto positive = [](auto n) { return n > 0 ? n : decltype(n){1}; };
  return new varve_ratelimiter_t{varve::NewGenericRateLimiter(
      static_cast<uint64_t>(positive(rate_bytes_per_sec)),
      static_cast<uint64_t>(positive(refill_period_us)),
      static_cast<uint32_t>(positive(fairness)))};
}

void varve_ratelimiter_destroy(varve_ratelimiter_t* limiter) { delete limiter; }

}  // extern "C"
