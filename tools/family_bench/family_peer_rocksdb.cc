// Varve: a key-value storage engine. MIT licence, see LICENSE.

#include <rocksdb/db.h>
#include <rocksdb/write_batch.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "tools/family_bench/family_bench.h"

namespace varve::bench {
namespace {

void Must(const rocksdb::Status& status) {
  if (status.ok()) return;
  fprintf(stderr, "%s\n", status.ToString().c_str());
  exit(1);
}

}  // namespace

uint64_t RocksDbBesideIdleFamily(const std::string& directory,
                                 uint64_t total_bytes) {
  rocksdb::DBOptions options;
  options.create_if_missing = true;
  options.create_missing_column_families = true;
  std::vector<rocksdb::ColumnFamilyDescriptor> descriptors;
  for (int i = 0; i < kIdleFamilies; ++i) {
    descriptors.emplace_back(i == 0 ? "default" : "family" + std::to_string(i),
                             rocksdb::ColumnFamilyOptions());
  }
  rocksdb::DB* opened = nullptr;
  std::vector<rocksdb::ColumnFamilyHandle*> families;
  Must(rocksdb::DB::Open(options, directory, descriptors, &families, &opened));
  const std::unique_ptr<rocksdb::DB> db(opened);
  Must(db->Put({}, families.back(), "once", "value"));
  rocksdb::WriteBatch batch;
  const uint64_t peak = WriteBesideIdleFamily(
      directory, total_bytes,
      [&](int family, const std::string& key, const std::string& value) {
        Must(batch.Put(families[static_cast<size_t>(family)], key, value));
      },
      [&] {
        Must(db->Write({}, &batch));
        batch.Clear();
      });
  for (rocksdb::ColumnFamilyHandle* const family : families) {
    Must(db->DestroyColumnFamilyHandle(family));
  }
  return peak;
}

}  // namespace varve::bench
