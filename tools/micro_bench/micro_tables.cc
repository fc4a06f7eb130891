// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// The ingestion of tables beside a thread that writes, and seeks of prefixes
// with and without filters of them; beside RocksDB.

#include "tools/micro_bench/micro_tables.h"

#include "varve/external_files.h"
#include "varve/filter_policy.h"
#include "varve/slice_transform.h"
#include "varve/sst_file_writer.h"

namespace varve::bench {
namespace {

struct Varve {
  static constexpr const char* kName = "varve";
  using DB = varve::DB;
  using Iterator = varve::Iterator;
  using ReadOptions = varve::ReadOptions;

  static void Check(const Status& status) { Must(status); }
  static const char* Label() { return ""; }
  static Options MakeOptions(bool with_prefixes) {
    Options options;
    options.create_if_missing = true;
    options.compression = CompressionType::kNone;
    options.filter_policy = NewBloomFilterPolicy(10);
    if (with_prefixes) {
      options.prefix_extractor = NewFixedPrefixTransform(kBenchPrefixBytes);
    }
    return options;
  }
  static std::unique_ptr<DB> Open(const std::string& path, bool prefixes) {
    std::unique_ptr<DB> db;
    Must(DB::Open(MakeOptions(prefixes), path, &db));
    return db;
  }
  static std::unique_ptr<SstFileWriter> NewTableWriter() {
    return std::make_unique<SstFileWriter>(MakeOptions(false));
  }
  static void Ingest(DB* db, const std::vector<std::string>& paths) {
    IngestExternalFileOptions options;
    options.move_files = true;
    Must(db->IngestExternalFile(paths, options));
  }
  // Leaves tables alone, and nothing to do in the background.
  static void Settle(DB* db) {
    Must(db->Flush({}));
    Must(db->WaitForCompact());
  }
};

}  // namespace

void AddTables() {
  TablesBench<Varve>::Register();
#if defined(VARVE_HAVE_ROCKSDB)
  AddRocksDbTables();
#endif
}

}  // namespace varve::bench
