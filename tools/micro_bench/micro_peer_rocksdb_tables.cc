// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// RocksDB in the topic tables.

#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/options.h>
#include <rocksdb/slice_transform.h>
#include <rocksdb/sst_file_writer.h>
#include <rocksdb/table.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "tools/db_bench/peer_rocksdb_open.h"
#include "tools/db_bench/peer_rocksdb_version.h"
#include "tools/micro_bench/micro_bench.h"
#include "tools/micro_bench/micro_tables.h"

namespace varve::bench {
namespace {

struct RocksDb {
  static constexpr const char* kName = "rocksdb";
  using DB = rocksdb::DB;
  using Iterator = rocksdb::Iterator;
  using ReadOptions = rocksdb::ReadOptions;

  static void Check(const rocksdb::Status& status) {
    if (status.ok()) return;
    fprintf(stderr, "micro_bench: %s\n", status.ToString().c_str());
    exit(1);
  }
  static std::string Label() { return "RocksDB " + DescribeRocksDb(); }
  static rocksdb::Options MakeOptions(bool with_prefixes) {
    rocksdb::Options options;
    options.create_if_missing = true;
    options.compression = rocksdb::kNoCompression;
    rocksdb::BlockBasedTableOptions table;
    table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
    options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    if (with_prefixes) {
      options.prefix_extractor.reset(
          rocksdb::NewFixedPrefixTransform(kBenchPrefixBytes));
    }
    return options;
  }
  static std::unique_ptr<DB> Open(const std::string& path, bool prefixes) {
    std::unique_ptr<DB> db;
    Check(OpenRocks(&db, MakeOptions(prefixes), path));
    return db;
  }
  static std::unique_ptr<rocksdb::SstFileWriter> NewTableWriter() {
    return std::make_unique<rocksdb::SstFileWriter>(rocksdb::EnvOptions(),
                                                    MakeOptions(false));
  }
  static void Ingest(DB* db, const std::vector<std::string>& paths) {
    rocksdb::IngestExternalFileOptions options;
    options.move_files = true;
    Check(db->IngestExternalFile(paths, options));
  }
  // RocksDB 7.8 has no call that waits.
  static void Settle(DB* db) {
    Check(db->Flush({}));
    for (const char* const property :
         {"rocksdb.num-running-flushes", "rocksdb.compaction-pending",
          "rocksdb.num-running-compactions"}) {
      uint64_t number = 1;
      while (number > 0) {
        db->GetIntProperty(property, &number);
        usleep(10000);
      }
    }
  }
};

}  // namespace

void AddRocksDbTables() { TablesBench<RocksDb>::Register(); }

}  // namespace varve::bench
