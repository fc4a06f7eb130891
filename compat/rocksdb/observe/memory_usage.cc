// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// The memory of databases and caches. Databases that were closed after they
// were added use none.

#include <rocksdb/c.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "compat/rocksdb/base.h"
#include "compat/rocksdb/callbacks/event_listener.h"
#include "compat/rocksdb/db/families.h"
#include "compat/rocksdb/db/handles.h"
#include "compat/rocksdb/options/options.h"

using varve::rocksdb_c::Given;
using varve::rocksdb_c::Open;
using varve::rocksdb_c::Usable;

struct rocksdb_memory_consumers_t {
  struct Database {
    std::string path;
    std::weak_ptr<varve::DB> db;
  };

  std::vector<Database> databases;
  std::vector<std::shared_ptr<varve::Cache>> caches;  // Each one once.
};

struct rocksdb_memory_usage_t {
  uint64_t mem_table_total = 0;
  uint64_t mem_table_unflushed = 0;
  uint64_t mem_table_readers_total = 0;
  uint64_t cache_total = 0;
};

namespace {

// Returns the families of an open database; null is the default one.
std::vector<std::shared_ptr<varve::ColumnFamilyHandle>> FamiliesOf(
    const std::string& path, const std::shared_ptr<varve::DB>& db) {
  rocksdb_t* const handle = varve::rocksdb_c::FindOpenDatabase(path);
  if (handle == nullptr || handle->owned != db) return {nullptr};
  return varve::rocksdb_c::AllFamilies(handle);
}

void AddDatabase(const std::string& path, const std::shared_ptr<varve::DB>& db,
                 rocksdb_memory_usage_t* usage) {
  struct Property {
    const char* name;
    uint64_t* sum;
  };
  const Property properties[] = {
      {"varve.size-all-mem-tables", &usage->mem_table_total},
      {"varve.cur-size-all-mem-tables", &usage->mem_table_unflushed},
      {"varve.estimate-table-readers-mem", &usage->mem_table_readers_total},
  };
  for (const auto& family : FamiliesOf(path, db)) {
    for (const Property& property : properties) {
      uint64_t value = 0;
      if (db->GetIntProperty(family.get(), property.name, &value)) {
        *property.sum += value;
      }
    }
  }
}

}  // namespace

extern "C" {

rocksdb_memory_consumers_t* rocksdb_memory_consumers_create(void) {
  return new rocksdb_memory_consumers_t;
}

void rocksdb_memory_consumers_add_db(rocksdb_memory_consumers_t* consumers,
                                     rocksdb_t* db) {
  if (!Usable(nullptr, Given{consumers, "consumers"}, Open{db})) return;
  consumers->databases.push_back({db->path, db->owned});
}

void rocksdb_memory_consumers_add_cache(rocksdb_memory_consumers_t* consumers,
                                        rocksdb_cache_t* cache) {
  if (consumers == nullptr || cache == nullptr || cache->rep == nullptr) return;
  auto& caches = consumers->caches;
  if (std::find(caches.begin(), caches.end(), cache->rep) == caches.end()) {
    caches.push_back(cache->rep);
  }
}

void rocksdb_memory_consumers_destroy(rocksdb_memory_consumers_t* consumers) {
  delete consumers;
}

rocksdb_memory_usage_t* rocksdb_approximate_memory_usage_create(
    rocksdb_memory_consumers_t* consumers, char** errptr) {
  if (!Usable(errptr, Given{consumers, "consumers"})) return nullptr;
  auto* const usage = new rocksdb_memory_usage_t;
  for (const auto& [path, database] : consumers->databases) {
    const std::shared_ptr<varve::DB> db = database.lock();
    if (db != nullptr) AddDatabase(path, db, usage);
  }
  for (const auto& cache : consumers->caches) {
    usage->cache_total += cache->GetUsage();
  }
  return usage;
}

void rocksdb_approximate_memory_usage_destroy(rocksdb_memory_usage_t* usage) {
  delete usage;
}

uint64_t rocksdb_approximate_memory_usage_get_mem_table_total(
    rocksdb_memory_usage_t* usage) {
  return usage == nullptr ? 0 : usage->mem_table_total;
}

uint64_t rocksdb_approximate_memory_usage_get_mem_table_unflushed(
    rocksdb_memory_usage_t* usage) {
  return usage == nullptr ? 0 : usage->mem_table_unflushed;
}

uint64_t rocksdb_approximate_memory_usage_get_mem_table_readers_total(
    rocksdb_memory_usage_t* usage) {
  return usage == nullptr ? 0 : usage->mem_table_readers_total;
}

uint64_t rocksdb_approximate_memory_usage_get_cache_total(
    rocksdb_memory_usage_t* usage) {
  return usage == nullptr ? 0 : usage->cache_total;
}

}  // extern "C"
