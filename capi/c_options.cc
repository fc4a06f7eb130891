// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// C functions of options, and of the objects that they point to, that LevelDB
// has too.

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <vector>

#include "capi/handles.h"
#include "db/options/option_table.h"

using varve::Options;
using varve::ReadOptions;
using varve::Slice;
using varve::WriteOptions;
using varve::capi::Set;

namespace {

// LevelDB rejects no number.
template <auto kField, typename T>
void SetWithinBounds(varve_options_t* options, T value) {
  constexpr varve::OptionBounds<T> kBounds = varve::BoundsOf(kField);
  Set(options, kField, std::clamp(value, kBounds.low, kBounds.high));
}

// A user's policy. Databases opened with it may outlive its handle. After that
// it builds no filter and answers "maybe".
class CallbackPolicy final : public varve::FilterPolicy {
 public:
  struct Callbacks {
    void* state;
    void (*destructor)(void*);
    char* (*create_filter)(void*, const char* const*, const size_t*, int,
                           size_t*);
    uint8_t (*key_may_match)(void*, const char*, size_t, const char*, size_t);
  };

  CallbackPolicy(const Callbacks& callbacks, const char* name)
      : callbacks_(callbacks), name_(name) {}

  static void Retire(const FilterPolicy* policy) {
    const auto* const self = static_cast<const CallbackPolicy*>(policy);
    // relaxed: a call at the same time is the user's mistake.
    self->retired_.store(true, std::memory_order_relaxed);
    if (self->callbacks_.destructor != nullptr) {
      self->callbacks_.destructor(self->callbacks_.state);
    }
  }

  const char* Name() const override { return name_.c_str(); }

  void CreateFilter(const std::vector<Slice>& keys,
                    std::string* filter) const override {
    // relaxed: see Retire.
    if (retired_.load(std::memory_order_relaxed) || keys.size() > INT_MAX) {
      return;
    }
    std::vector<const char*> data;
    std::vector<size_t> sizes;
    data.reserve(keys.size());
    sizes.reserve(keys.size());
    for (const Slice& key : keys) {
      data.push_back(key.data());
      sizes.push_back(key.size());
    }
    size_t size = 0;
    char* const bytes =
        callbacks_.create_filter(callbacks_.state, data.data(), sizes.data(),
                                 static_cast<int>(keys.size()), &size);
    if (bytes != nullptr) filter->append(bytes, size);
    free(bytes);
  }

  bool KeyMayMatch(const Slice& key, const Slice& filter) const override {
    // relaxed: see Retire.
    return retired_.load(std::memory_order_relaxed) ||
           callbacks_.key_may_match(callbacks_.state, key.data(), key.size(),
                                    filter.data(), filter.size()) != 0;
  }

 private:
  const Callbacks callbacks_;
  // Known even after the callbacks are destroyed.
  const std::string name_;
  mutable std::atomic<bool> retired_{false};
};

}  // namespace

extern "C" {

// ---- Options ----------------------------------------------------------------

varve_options_t* varve_options_create(void) { return new varve_options_t; }

void varve_options_destroy(varve_options_t* options) { delete options; }

void varve_options_set_comparator(varve_options_t* options,
                                  varve_comparator_t* comparator) {
  Set(options, &Options::comparator, comparator);
}

void varve_options_set_filter_policy(varve_options_t* options,
                                     varve_filterpolicy_t* policy) {
  if (options == nullptr) return;
  options->rep.filter_policy = nullptr;
  options->filter_policy = policy;
}

void varve_options_set_create_if_missing(varve_options_t* options,
                                         uint8_t value) {
  Set(options, &Options::create_if_missing, value != 0);
}

void varve_options_set_error_if_exists(varve_options_t* options,
                                       uint8_t value) {
  Set(options, &Options::error_if_exists, value != 0);
}

void varve_options_set_paranoid_checks(varve_options_t* options,
                                       uint8_t value) {
  Set(options, &Options::paranoid_checks, value != 0);
}

void varve_options_set_env(varve_options_t* options, varve_env_t* env) {
  Set(options, &Options::env,
      env != nullptr ? env->rep : varve::Env::Default());
}

void varve_options_set_info_log(varve_options_t* options,
                                varve_logger_t* logger) {
  Set(options, &Options::info_log, logger != nullptr ? logger->rep : nullptr);
}

void varve_options_set_write_buffer_size(varve_options_t* options,
                                         size_t bytes) {
  SetWithinBounds<&Options::write_buffer_size>(options, bytes);
}

void varve_options_set_max_open_files(varve_options_t* options, int count) {
  SetWithinBounds<&Options::max_open_files>(options, count);
}

void varve_options_set_cache(varve_options_t* options, varve_cache_t* cache) {
  if (cache != nullptr) Set(options, &Options::block_cache, cache->rep);
}

void varve_options_set_block_size(varve_options_t* options, size_t bytes) {
  SetWithinBounds<&Options::block_size>(options, bytes);
}

void varve_options_set_block_restart_interval(varve_options_t* options,
                                              int count) {
  SetWithinBounds<&Options::block_restart_interval>(options, count);
}

void varve_options_set_max_file_size(varve_options_t* options, size_t bytes) {
  SetWithinBounds<&Options::target_file_size_base>(options, bytes);
}

void varve_options_set_compression(varve_options_t* options, int type) {
  Set(options, &Options::compression, varve::capi::ToCompression(type));
}

// ---- Comparators and filter policies ----------------------------------------

varve_comparator_t* varve_comparator_create(
    void* state, void (*destructor)(void*),
    int (*compare)(void*, const char* a, size_t alen, const char* b,
                   size_t blen),
    const char* (*name)(void*)) {
  if (compare == nullptr || name == nullptr) return nullptr;
  auto* const comparator = new varve_comparator_t;
  comparator->state = state;
  comparator->destructor = destructor;
  comparator->compare = compare;
  comparator->name = name;
  return comparator;
}

void varve_comparator_destroy(varve_comparator_t* comparator) {
  delete comparator;
}

varve_filterpolicy_t* varve_filterpolicy_create(
    void* state, void (*destructor)(void*),
    char* (*create_filter)(void*, const char* const* key_array,
                           const size_t* key_length_array, int num_keys,
                           size_t* filter_length),
    uint8_t (*key_may_match)(void*, const char* key, size_t length,
                             const char* filter, size_t filter_length),
    const char* (*name)(void*)) {
  if (create_filter == nullptr || key_may_match == nullptr || name == nullptr) {
    return nullptr;
  }
  const char* const given = name(state);
  if (given == nullptr) return nullptr;
  const CallbackPolicy::Callbacks callbacks = {state, destructor, create_filter,
                                               key_may_match};
  return new varve_filterpolicy_t{
      std::make_shared<CallbackPolicy>(callbacks, given),
      CallbackPolicy::Retire};
}

void varve_filterpolicy_destroy(varve_filterpolicy_t* policy) {
  if (policy == nullptr) return;
  if (policy->retire != nullptr) policy->retire(policy->rep.get());
  delete policy;
}

varve_filterpolicy_t* varve_filterpolicy_create_bloom(int bits_per_key) {
  return new varve_filterpolicy_t{varve::NewBloomFilterPolicy(bits_per_key),
                                  nullptr};
}

// ---- How to read and write --------------------------------------------------

varve_readoptions_t* varve_readoptions_create(void) {
  return new varve_readoptions_t;
}

void varve_readoptions_destroy(varve_readoptions_t* options) { delete options; }

void varve_readoptions_set_verify_checksums(varve_readoptions_t* options,
                                            uint8_t value) {
  Set(options, &ReadOptions::verify_checksums, value != 0);
}

void varve_readoptions_set_fill_cache(varve_readoptions_t* options,
                                      uint8_t value) {
  Set(options, &ReadOptions::fill_cache, value != 0);
}

void varve_readoptions_set_snapshot(varve_readoptions_t* options,
                                    const varve_snapshot_t* snapshot) {
  Set(options, &ReadOptions::snapshot,
      snapshot != nullptr ? snapshot->rep : nullptr);
}

varve_writeoptions_t* varve_writeoptions_create(void) {
  return new varve_writeoptions_t;
}

void varve_writeoptions_destroy(varve_writeoptions_t* options) {
  delete options;
}

void varve_writeoptions_set_sync(varve_writeoptions_t* options, uint8_t value) {
  Set(options, &WriteOptions::sync, value != 0);
}

// ---- Caches, environments, others -------------------------------------------

varve_cache_t* varve_cache_create_lru(size_t capacity) {
  return new varve_cache_t{varve::NewBlockCache(capacity)};
}

void varve_cache_destroy(varve_cache_t* cache) { delete cache; }

varve_env_t* varve_create_default_env(void) {
  return new varve_env_t{varve::Env::Default(), nullptr};
}

void varve_env_destroy(varve_env_t* env) { delete env; }

char* varve_env_get_test_directory(varve_env_t* env) {
  if (env == nullptr) return nullptr;
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing here sets variables.
  const char* const given = getenv("TEST_TMPDIR");
  const std::string path = given != nullptr && given[0] != '\0'
                               ? given
                               : "/tmp/varvetest-" + std::to_string(geteuid());
  // It may be a link, if it is there.
  if (!env->rep->FileExists(path).ok() &&
      !env->rep->CreateDirIfMissing(path).ok()) {
    return nullptr;
  }
  return varve::capi::CopyBytes(path);
}

void varve_free(void* ptr) { free(ptr); }

int varve_major_version(void) { return 1; }

int varve_minor_version(void) { return 23; }

}  // extern "C"
