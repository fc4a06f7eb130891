// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "compat/rocksdb/callbacks/compaction_filter.h"

bool rocksdb_compactionfilter_t::Filter(int level, const varve::Slice& key,
                                        const varve::Slice& existing_value,
                                        std::string* new_value,
                                        bool* value_changed) const {
  char* value = nullptr;
  size_t value_size = 0;
  unsigned char changed = 0;
  const unsigned char remove =
      filter(state.get(), level, key.data(), key.size(), existing_value.data(),
             existing_value.size(), &value, &value_size, &changed);
  if (changed != 0) {
    new_value->clear();
    if (value != nullptr) new_value->assign(value, value_size);
    *value_changed = true;
  }
  return remove != 0;
}

std::unique_ptr<varve::CompactionFilter>
rocksdb_compactionfilterfactory_t::CreateCompactionFilter(
    const varve::CompactionFilter::Context& context) {
  rocksdb_compactionfiltercontext_t job{context};
  return std::unique_ptr<varve::CompactionFilter>(create(state.get(), &job));
}

extern "C" {

rocksdb_compactionfilter_t* rocksdb_compactionfilter_create(
    void* state, void (*destructor)(void*),
    unsigned char (*filter)(void*, int level, const char* key,
                            size_t key_length, const char* existing_value,
                            size_t value_length, char** new_value,
                            size_t* new_value_length,
                            unsigned char* value_changed),
    const char* (*name)(void*)) {
  if (filter == nullptr) return nullptr;
  return new rocksdb_compactionfilter_t({state, destructor, name}, filter);
}

// Varve asks no filter for a version that a snapshot needs. With 0, RocksDB
// fails all compactions.
void rocksdb_compactionfilter_set_ignore_snapshots(
    rocksdb_compactionfilter_t* /*filter*/, unsigned char /*ignore*/) {}

void rocksdb_compactionfilter_destroy(rocksdb_compactionfilter_t* filter) {
  delete filter;
}

unsigned char rocksdb_compactionfiltercontext_is_full_compaction(
    rocksdb_compactionfiltercontext_t* context) {
  return context != nullptr && context->rep.is_full_compaction ? 1 : 0;
}

unsigned char rocksdb_compactionfiltercontext_is_manual_compaction(
    rocksdb_compactionfiltercontext_t* context) {
  return context != nullptr && context->rep.is_manual_compaction ? 1 : 0;
}

rocksdb_compactionfilterfactory_t* rocksdb_compactionfilterfactory_create(
    void* state, void (*destructor)(void*),
    rocksdb_compactionfilter_t* (*create_compaction_filter)(
        void*, rocksdb_compactionfiltercontext_t* context),
    const char* (*name)(void*)) {
  if (create_compaction_filter == nullptr) return nullptr;
  return new rocksdb_compactionfilterfactory_t({state, destructor, name},
                                               create_compaction_filter);
}

void rocksdb_compactionfilterfactory_destroy(
    rocksdb_compactionfilterfactory_t* factory) {
  delete factory;
}

}  // extern "C"
