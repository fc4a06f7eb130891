// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// LevelDB's C functions for options and for the objects that options refer to.
#include <vector>

#include "compat/leveldb/c/c_handles.h"

using leveldb::Slice;
using varve::compat::CopyText;
using varve::compat::ToHandle;
using varve::compat::ToObject;

namespace {

// Calls a program's functions.
class CallbackComparator final : public leveldb::Comparator {
 public:
  using Destructor = void (*)(void*);
  using CompareFunction = int (*)(void*, const char* a, size_t alen,
                                  const char* b, size_t blen);
  using NameFunction = const char* (*)(void*);

  CallbackComparator(void* state, Destructor destructor,
                     CompareFunction compare, NameFunction name)
      : state_(state),
        destructor_(destructor),
        compare_(compare),
        name_(name) {}
  ~CallbackComparator() override {
    if (destructor_ != nullptr) destructor_(state_);
  }

  int Compare(const Slice& a, const Slice& b) const override {
    return compare_(state_, a.data(), a.size(), b.data(), b.size());
  }
  const char* Name() const override {
    return name_ != nullptr ? name_(state_) : nullptr;
  }
  // The C interface has no functions for them.
  void FindShortestSeparator(std::string* /*start*/,
                             const Slice& /*limit*/) const override {}
  void FindShortSuccessor(std::string* /*key*/) const override {}

 private:
  void* const state_;
  const Destructor destructor_;
  const CompareFunction compare_;
  const NameFunction name_;
};

class CallbackFilterPolicy final : public leveldb::FilterPolicy {
 public:
  using Destructor = void (*)(void*);
  using CreateFunction = char* (*)(void*, const char* const* key_array,
                                   const size_t* key_length_array, int num_keys,
                                   size_t* filter_length);
  using MatchFunction = uint8_t (*)(void*, const char* key, size_t length,
                                    const char* filter, size_t filter_length);
  using NameFunction = const char* (*)(void*);

  CallbackFilterPolicy(void* state, Destructor destructor,
                       CreateFunction create, MatchFunction match,
                       NameFunction name)
      : state_(state),
        destructor_(destructor),
        create_(create),
        match_(match),
        name_(name) {}
  ~CallbackFilterPolicy() override {
    if (destructor_ != nullptr) destructor_(state_);
  }

  const char* Name() const override { return name_(state_); }
  void CreateFilter(const Slice* keys, int count,
                    std::string* filter) const override {
    std::vector<const char*> pointers;
    std::vector<size_t> sizes;
    for (int i = 0; i < count; ++i) {
      pointers.push_back(keys[i].data());
      sizes.push_back(keys[i].size());
    }
    size_t bytes = 0;
    char* const created =
        create_(state_, pointers.data(), sizes.data(), count, &bytes);
    if (created != nullptr) filter->append(created, bytes);
    free(created);
  }
  bool KeyMayMatch(const Slice& key, const Slice& filter) const override {
    return match_(state_, key.data(), key.size(), filter.data(),
                  filter.size()) != 0;
  }

 private:
  void* const state_;
  const Destructor destructor_;
  const CreateFunction create_;
  const MatchFunction match_;
  const NameFunction name_;
};

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

// ---- Options ----------------------------------------------------------------

leveldb_options_t* leveldb_options_create(void) {
  return ToHandle(new leveldb::Options);
}
void leveldb_options_destroy(leveldb_options_t* options) {
  delete ToObject(options);
}
void leveldb_options_set_comparator(leveldb_options_t* options,
                                    leveldb_comparator_t* comparator) {
  ToObject(options)->comparator = ToObject(comparator);
}
void leveldb_options_set_filter_policy(leveldb_options_t* options,
                                       leveldb_filterpolicy_t* policy) {
  ToObject(options)->filter_policy = ToObject(policy);
}
void leveldb_options_set_create_if_missing(leveldb_options_t* options,
                                           uint8_t value) {
  ToObject(options)->create_if_missing = value != 0;
}
void leveldb_options_set_error_if_exists(leveldb_options_t* options,
                                         uint8_t value) {
  ToObject(options)->error_if_exists = value != 0;
}
void leveldb_options_set_paranoid_checks(leveldb_options_t* options,
                                         uint8_t value) {
  ToObject(options)->paranoid_checks = value != 0;
}
void leveldb_options_set_env(leveldb_options_t* options, leveldb_env_t* env) {
  // LevelDB opens no database with a null Env. Its C programs pass null for the
  // default.
  ToObject(options)->env =
      env != nullptr ? ToObject(env) : leveldb::Env::Default();
}
void leveldb_options_set_info_log(leveldb_options_t* options,
                                  leveldb_logger_t* logger) {
  ToObject(options)->info_log = ToObject(logger);
}
void leveldb_options_set_write_buffer_size(leveldb_options_t* options,
                                           size_t value) {
  ToObject(options)->write_buffer_size = value;
}
void leveldb_options_set_max_open_files(leveldb_options_t* options, int value) {
  ToObject(options)->max_open_files = value;
}
void leveldb_options_set_cache(leveldb_options_t* options,
                               leveldb_cache_t* cache) {
  ToObject(options)->block_cache = ToObject(cache);
}
void leveldb_options_set_block_size(leveldb_options_t* options, size_t value) {
  ToObject(options)->block_size = value;
}
void leveldb_options_set_block_restart_interval(leveldb_options_t* options,
                                                int value) {
  ToObject(options)->block_restart_interval = value;
}
void leveldb_options_set_max_file_size(leveldb_options_t* options,
                                       size_t value) {
  ToObject(options)->max_file_size = value;
}
void leveldb_options_set_compression(leveldb_options_t* options, int value) {
  ToObject(options)->compression = static_cast<leveldb::CompressionType>(value);
}

leveldb_readoptions_t* leveldb_readoptions_create(void) {
  return ToHandle(new leveldb::ReadOptions);
}
void leveldb_readoptions_destroy(leveldb_readoptions_t* options) {
  delete ToObject(options);
}
void leveldb_readoptions_set_verify_checksums(leveldb_readoptions_t* options,
                                              uint8_t value) {
  ToObject(options)->verify_checksums = value != 0;
}
void leveldb_readoptions_set_fill_cache(leveldb_readoptions_t* options,
                                        uint8_t value) {
  ToObject(options)->fill_cache = value != 0;
}
void leveldb_readoptions_set_snapshot(leveldb_readoptions_t* options,
                                      const leveldb_snapshot_t* snapshot) {
  ToObject(options)->snapshot = ToObject(snapshot);
}

leveldb_writeoptions_t* leveldb_writeoptions_create(void) {
  return ToHandle(new leveldb::WriteOptions);
}
void leveldb_writeoptions_destroy(leveldb_writeoptions_t* options) {
  delete ToObject(options);
}
void leveldb_writeoptions_set_sync(leveldb_writeoptions_t* options,
                                   uint8_t value) {
  ToObject(options)->sync = value != 0;
}

// ---- Objects in options -----------------------------------------------------

leveldb_comparator_t* leveldb_comparator_create(
    void* state, void (*destructor)(void*),
    int (*compare)(void*, const char* a, size_t alen, const char* b,
                   size_t blen),
    const char* (*name)(void*)) {
  return ToHandle(static_cast<leveldb::Comparator*>(
      new CallbackComparator(state, destructor, compare, name)));
}
void leveldb_comparator_destroy(leveldb_comparator_t* comparator) {
  delete ToObject(comparator);
}

leveldb_filterpolicy_t* leveldb_filterpolicy_create(
    void* state, void (*destructor)(void*),
    char* (*create_filter)(void*, const char* const* key_array,
                           const size_t* key_length_array, int num_keys,
                           size_t* filter_length),
    uint8_t (*key_may_match)(void*, const char* key, size_t length,
                             const char* filter, size_t filter_length),
    const char* (*name)(void*)) {
  return ToHandle(static_cast<leveldb::FilterPolicy*>(new CallbackFilterPolicy(
      state, destructor, create_filter, key_may_match, name)));
}
leveldb_filterpolicy_t* leveldb_filterpolicy_create_bloom(int bits_per_key) {
  return const_cast<leveldb_filterpolicy_t*>(
      ToHandle(leveldb::NewBloomFilterPolicy(bits_per_key)));
}
void leveldb_filterpolicy_destroy(leveldb_filterpolicy_t* policy) {
  delete ToObject(policy);
}

leveldb_cache_t* leveldb_cache_create_lru(size_t capacity) {
  return ToHandle(leveldb::NewLRUCache(capacity));
}
void leveldb_cache_destroy(leveldb_cache_t* cache) { delete ToObject(cache); }

leveldb_env_t* leveldb_create_default_env(void) {
  return ToHandle(leveldb::Env::Default());
}
// The default Env, which is the only one of the C interface, stays.
void leveldb_env_destroy(leveldb_env_t* /*env*/) {}
char* leveldb_env_get_test_directory(leveldb_env_t* env) {
  std::string path;
  if (!ToObject(env)->GetTestDirectory(&path).ok()) return nullptr;
  return CopyText(path);
}

// ---- Others -----------------------------------------------------------------

void leveldb_free(void* ptr) { free(ptr); }
int leveldb_major_version(void) { return 1; }
int leveldb_minor_version(void) { return 23; }

}  // extern "C"
#pragma GCC visibility pop
