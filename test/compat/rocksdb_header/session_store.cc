// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: a program in RocksDB's style does the same on Varve by the header
// varve/rocksdb.h: options of tables, batches, a listener, statistics.
// Compiled twice; what differs is in #ifdef VARVE_MOVED.
//
// Usage: session_store DIRECTORY

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#ifdef VARVE_MOVED
#include "varve/rocksdb.h"
#else
#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/listener.h>
#include <rocksdb/options.h>
#include <rocksdb/perf_context.h>
#include <rocksdb/rate_limiter.h>
#include <rocksdb/slice.h>
#include <rocksdb/statistics.h>
#include <rocksdb/table.h>
#include <rocksdb/utilities/checkpoint.h>
#include <rocksdb/write_batch.h>
#endif

namespace {

class CountingListener : public rocksdb::EventListener {
 public:
  void OnFlushCompleted(rocksdb::DB* db,
                        const rocksdb::FlushJobInfo& info) override {
    ++flushes;
    has_path = info.cf_name == "default" &&
               info.file_path.find(db->GetName() + "/") == 0;
  }
  void OnCompactionCompleted(rocksdb::DB* /*db*/,
                             const rocksdb::CompactionJobInfo& info) override {
    if (!info.status.ok()) {
      std::fprintf(stderr, "compaction failed: %s\n",
                   info.status.ToString().c_str());
      return;
    }
    ++compactions;
    for (const std::string& file : info.input_files) inputs.push_back(file);
    bytes += info.stats.total_output_bytes;
  }
  void OnTableFileCreated(const rocksdb::TableFileCreationInfo& info) override {
    if (info.status.ok() && info.file_size > 0) ++tables;
  }
  void OnTableFileDeleted(const rocksdb::TableFileDeletionInfo& info) override {
    if (!info.status.ok()) std::cerr << info.file_path << "\n";
  }
  void OnStallConditionsChanged(const rocksdb::WriteStallInfo& info) override {
    stalled = info.condition.cur != rocksdb::WriteStallCondition::kNormal;
  }
  void OnBackgroundError(rocksdb::BackgroundErrorReason /*reason*/,
                         rocksdb::Status* status) override {
    std::fprintf(stderr, "background error: %s\n", status->ToString().c_str());
  }

  bool has_path = false;
  int flushes = 0;
  int compactions = 0;
  int tables = 0;
  bool stalled = false;
  uint64_t bytes = 0;
  std::vector<std::string> inputs;
};

class DumpHandler : public rocksdb::WriteBatch::Handler {
 public:
  rocksdb::Status PutCF(uint32_t cf, const rocksdb::Slice& key,
                        const rocksdb::Slice& value) override {
    lines.push_back("put " + std::to_string(cf) + " " + key.ToString() + "=" +
                    value.ToString());
    return rocksdb::Status::OK();
  }
  rocksdb::Status DeleteCF(uint32_t cf, const rocksdb::Slice& key) override {
    lines.push_back("delete " + std::to_string(cf) + " " + key.ToString());
    return rocksdb::Status::OK();
  }

  std::vector<std::string> lines;
};

rocksdb::Options MakeOptions(
    const std::shared_ptr<CountingListener>& listener) {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.IncreaseParallelism(4);
  options.OptimizeLevelStyleCompaction(64 << 20);
  options.compression = rocksdb::kLZ4Compression;
  options.bottommost_compression = rocksdb::kZSTD;
  options.compression_opts.level = 3;
  options.max_open_files = 512;
  options.max_background_jobs = 4;
  options.write_buffer_size = 8 << 20;
  options.max_write_buffer_number = 3;
  options.target_file_size_base = 8 << 20;
  options.level_compaction_dynamic_level_bytes = true;
  options.bytes_per_sync = 1 << 20;
  options.keep_log_file_num = 5;
  options.max_log_file_size = 16 << 20;
  options.info_log_level = rocksdb::InfoLogLevel::WARN_LEVEL;
  options.stats_dump_period_sec = 600;
  options.statistics = rocksdb::CreateDBStatistics();
  options.statistics->set_stats_level(
      rocksdb::StatsLevel::kExceptDetailedTimers);
  options.rate_limiter.reset(rocksdb::NewGenericRateLimiter(64 << 20));
  options.listeners.push_back(listener);

  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(64 << 20);
  table.block_size = 16 * 1024;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10, false));
  table.cache_index_and_filter_blocks = true;
  table.pin_l0_filter_and_index_blocks_in_cache = true;
  table.format_version = 5;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

void Check(const rocksdb::Status& status) {
  if (status.ok()) return;
  std::cerr << status.ToString() << std::endl;
  std::exit(1);
}

std::string Key(int i) {
  char buffer[32];
  std::snprintf(buffer, sizeof(buffer), "session:%08d", i);
  return buffer;
}

}  // namespace

int main(int /*argc*/, char** argv) {
  const std::string path = argv[1];
  auto listener = std::make_shared<CountingListener>();
  rocksdb::Options options = MakeOptions(listener);
  Check(rocksdb::DestroyDB(path, options));

  rocksdb::DB* db = nullptr;
  rocksdb::Status status = rocksdb::DB::Open(options, path, &db);
  Check(status);

  // Single writes.
  rocksdb::WriteOptions write_options;
  write_options.sync = true;
  Check(db->Put(write_options, "config:version", "3"));
  write_options.sync = false;
  write_options.disableWAL = true;
  for (int i = 0; i < 2000; ++i) {
    Check(db->Put(write_options, Key(i), "user-" + std::to_string(i * 7)));
  }
  write_options.disableWAL = false;

  // A batch with a savepoint.
  rocksdb::WriteBatch batch;
  for (int i = 0; i < 10; ++i) Check(batch.Delete(Key(i)));
  batch.SetSavePoint();
  batch.Put("config:version", "broken");
  Check(batch.RollbackToSavePoint());
  batch.Put("config:version", "4");
  DumpHandler handler;
  Check(batch.Iterate(&handler));
  for (const std::string& line : handler.lines) std::cout << line << "\n";
  std::cout << batch.Count() << " updates, " << (batch.GetDataSize() > 0)
            << "\n";
  Check(db->Write(write_options, &batch));

  // Reads.
  std::string value;
  status = db->Get(rocksdb::ReadOptions(), Key(3), &value);
  if (!status.IsNotFound()) std::cerr << "expected a missing key" << std::endl;
  rocksdb::PinnableSlice pinned;
  Check(db->Get(rocksdb::ReadOptions(), db->DefaultColumnFamily(), Key(20),
                &pinned));
  std::cout << Key(20) << " = " << pinned.ToString() << "\n";
  pinned.Reset();

  const std::vector<std::string> names = {Key(1), Key(100), Key(200)};
  std::vector<rocksdb::Slice> keys(names.begin(), names.end());
  std::vector<std::string> values;
  std::vector<rocksdb::Status> statuses =
      db->MultiGet(rocksdb::ReadOptions(), keys, &values);
  for (size_t i = 0; i < keys.size(); ++i) {
    std::cout << keys[i].ToString() << ": "
              << (statuses[i].ok() ? values[i] : statuses[i].ToString())
              << "\n";
  }

  // A consistent scan while others write.
  const rocksdb::Snapshot* snapshot = db->GetSnapshot();
  Check(db->Put(write_options, Key(9999), "late"));
  rocksdb::ReadOptions read_options;
  read_options.snapshot = snapshot;
  read_options.total_order_seek = true;
  read_options.fill_cache = false;
  rocksdb::Slice upper("session:\xff");
  read_options.iterate_upper_bound = &upper;
  rocksdb::Iterator* it = db->NewIterator(read_options);
  int count = 0;
  for (it->Seek("session:"); it->Valid(); it->Next()) ++count;
  Check(it->status());
  delete it;
  db->ReleaseSnapshot(snapshot);
  std::cout << count << " sessions\n";

  // Maintenance.
  Check(db->Flush(rocksdb::FlushOptions()));
  rocksdb::CompactRangeOptions compact;
  compact.bottommost_level_compaction =
      rocksdb::BottommostLevelCompaction::kForce;
  Check(db->CompactRange(compact, nullptr, nullptr));
  Check(db->SetOptions({{"write_buffer_size", "16777216"},
                        {"disable_auto_compactions", "false"}}));
  uint64_t number = 0;
  if (db->GetIntProperty(rocksdb::DB::Properties::kEstimateNumKeys, &number)) {
    std::cout << "about " << number << " keys\n";
  }
  std::string text;
  if (!db->GetProperty(rocksdb::DB::Properties::kStats, &text)) return 1;
  if (!db->GetProperty("rocksdb.num-files-at-level0", &text)) return 1;
  const std::string first = Key(0);
  const std::string last = Key(1000);
  rocksdb::Range range(first, last);
  uint64_t size = 0;
  Check(db->GetApproximateSizes(&range, 1, &size));

  // Observation.
  rocksdb::SetPerfLevel(rocksdb::PerfLevel::kEnableTimeExceptForMutex);
  rocksdb::get_perf_context()->Reset();
  Check(db->Get(rocksdb::ReadOptions(), Key(500), &value));
  const uint64_t touched = rocksdb::get_perf_context()->block_cache_hit_count +
                           rocksdb::get_perf_context()->block_read_count;
  rocksdb::SetPerfLevel(rocksdb::PerfLevel::kDisable);
  std::cout << "touched blocks: " << (touched > 0) << "\n";
  std::cout << "keys written: "
            << options.statistics->getTickerCount(rocksdb::NUMBER_KEYS_WRITTEN)
            << "\n";
  rocksdb::HistogramData histogram;
  options.statistics->histogramData(rocksdb::DB_GET, &histogram);
  std::cout << "p99 known: " << (histogram.percentile99 >= 0) << "\n";

  rocksdb::Checkpoint* checkpoint = nullptr;
  Check(rocksdb::Checkpoint::Create(db, &checkpoint));
  Check(rocksdb::DestroyDB(path + ".copy", options));
  Check(checkpoint->CreateCheckpoint(path + ".copy"));
  delete checkpoint;

  std::cout << listener->flushes << " flushes, compacted: "
            << (listener->compactions > 0 && listener->bytes > 0 &&
                !listener->inputs.empty())
            << ", named: " << listener->has_path
            << ", tables: " << (listener->tables > 1)
            << ", stalled: " << listener->stalled << "\n";
  Check(db->Close());
  delete db;

  status = rocksdb::DB::OpenForReadOnly(options, path + ".copy", &db);
  Check(status);
  Check(db->Get(rocksdb::ReadOptions(true, false), Key(1999), &value));
  std::cout << "copy: " << value
            << ", write refused: " << !db->Put(write_options, "a", "b").ok()
            << "\n";
  delete db;
  return 0;
}
