// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: no call, and no background job, needs more than 32 KiB of stack, since
// threads of other C libraries and of coroutines have little. Method: each is
// run on a new thread whose stack was filled with a pattern, so that what a
// thread does once is part of it. Holds for optimized builds.

#include "test/testing/machine/stack_meter.h"
#include "test/testing/temp_dir.h"
#include "test/testing/test_headers.h"
#include "varve/c.h"
#include "varve/catalog.h"
#include "varve/checkpoint.h"
#include "varve/filter_policy.h"
#include "varve/perf_context.h"
#include "varve/read_transaction.h"
#include "varve/statistics.h"
#include "varve/trace.h"

namespace varve::test {
namespace {

constexpr size_t kMaxBytes = size_t{32} << 10;
constexpr int kKeys = 4000;

std::string KeyOf(int i) {
  char text[32];
  snprintf(text, sizeof(text), "key%08d", i);
  return text;
}

// Fails the test if `work` takes too much.
void Expect(const std::string& name, const std::function<void()>& work) {
  const size_t bytes = StackMeter::Run(work);
  EXPECT_LE(bytes, kMaxBytes) << name;
  if (getenv("VARVE_PRINT_STACK_USE") != nullptr) {
    printf("%6zu %s\n", bytes, name.c_str());
  }
}
void ExpectOk(const std::string& name, const std::function<Status()>& work) {
  Status status;
  Expect(name, [&] { status = work(); });
  EXPECT_TRUE(status.ok()) << name << ": " << status.ToString();
}

// A kind of table, key or file.
struct Kind {
  const char* name;
  CompressionType compression = CompressionType::kNone;
  KeyCase key_case = KeyCase::kSensitive;
  bool direct_reads = false;
  int max_open_files = -1;
  // Small: all is read from files.
  size_t cache_bytes = 32 << 20;
};

void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

class StackUse {
 protected:
  explicit StackUse(const Kind& kind) : env_(Env::Default()) {
    options_.create_if_missing = true;
    options_.env = &env_;
    options_.compression = kind.compression;
    options_.key_case = kind.key_case;
    options_.use_direct_reads = kind.direct_reads;
    options_.max_open_files = kind.max_open_files;
    options_.block_cache = NewBlockCache(kind.cache_bytes);
    options_.filter_policy = NewBloomFilterPolicy(10);
    options_.write_buffer_size = 64 << 10;
    options_.target_file_size_base = 32 << 10;
    options_.max_bytes_for_level_base = 128 << 10;
    options_.max_subcompactions = 2;
    options_.stats_level = StatsLevel::kAll;
  }
  ~StackUse() {
    db_.reset();
    EXPECT_LE(env_.max_bytes(), kMaxBytes) << "background jobs";
    if (getenv("VARVE_PRINT_STACK_USE") != nullptr) {
      printf("%6zu background jobs\n", env_.max_bytes());
    }
  }

  std::string Path(const char* name = "db") const { return dir_.Sub(name); }

  void Open(const std::string& name) {
    ExpectOk(name, [&] { return DB::Open(options_, Path(), &db_); });
    ASSERT_NE(db_, nullptr);
  }
  void Close() {
    ExpectOk("Close", [&] { return db_->Close(); });
    Expect("~DB", [&] { db_.reset(); });
  }
  // Some of it in the last level, some in level 0, with all kinds of updates.
  void Fill() {
    for (int round = 0; round < 2; ++round) {
      for (int i = 0; i < kKeys; ++i) {
        ASSERT_TRUE(
            db_->Put({}, KeyOf(i * 7919 % kKeys), std::string(100, 'v')).ok());
      }
      ASSERT_TRUE(db_->DeleteRange({}, KeyOf(100), KeyOf(200)).ok());
      ASSERT_TRUE(db_->WaitForCompact().ok());
    }
  }
  void Write() {
    const std::string value(100, 'v');
    ExpectOk("Put", [&] { return db_->Put({}, KeyOf(1), value); });
    WriteOptions sync{.sync = true};
    ExpectOk("Put with sync", [&] { return db_->Put(sync, KeyOf(1), value); });
    ExpectOk("Delete", [&] { return db_->Delete({}, KeyOf(2)); });
    ExpectOk("SingleDelete", [&] { return db_->SingleDelete({}, KeyOf(3)); });
    ExpectOk("DeleteRange",
             [&] { return db_->DeleteRange({}, KeyOf(4), KeyOf(9)); });
    ExpectOk("Write", [&] {
      WriteBatch batch;
      for (int i = 0; i < kKeys; ++i) batch.Put(KeyOf(i), value);
      batch.PutLogData("note");
      return db_->Write({}, &batch);
    });
    ExpectOk("Put of a long value", [&] {
      return db_->Put({}, KeyOf(kKeys), std::string(5 << 20, 'v'));
    });
  }
  void Read() {
    std::string value;
    PinnableSlice pinned;
    ExpectOk("Get", [&] { return db_->Get({}, KeyOf(kKeys / 2), &value); });
    ExpectOk("Get, pinned",
             [&] { return db_->Get({}, KeyOf(kKeys / 3), &pinned); });
    pinned.Reset();
    ExpectOk("Get of a long value",
             [&] { return db_->Get({}, KeyOf(kKeys), &value); });
    Expect("Get of nothing",
           [&] { EXPECT_TRUE(db_->Get({}, "nothing", &value).IsNotFound()); });
    Expect("Get, measured", [&] {
      SetPerfLevel(PerfLevel::kEnableTime);
      EXPECT_TRUE(db_->Get({}, KeyOf(kKeys / 4), &value).ok());
      SetPerfLevel(PerfLevel::kDisable);
    });
    std::vector<std::string> keys;
    for (int i = 0; i < 200; ++i) keys.push_back(KeyOf(i * 13));
    const std::vector<Slice> slices(keys.begin(), keys.end());
    std::vector<std::string> values;
    Expect("MultiGet", [&] { db_->MultiGet({}, slices, &values); });
    Expect("ReadTransaction", [&] {
      ReadTransaction read(db_.get());
      EXPECT_TRUE(read.Get({}, KeyOf(kKeys / 5), &value).ok());
      EXPECT_NE(read.NewIterator({}), nullptr);
    });
  }
  void Iterate() {
    std::unique_ptr<Iterator> it;
    Expect("NewIterator", [&] { it = db_->NewIterator({}); });
    Expect("SeekToFirst", [&] { it->SeekToFirst(); });
    Expect("Next", [&] {
      for (int i = 0; i < kKeys / 4 && it->Valid(); ++i) it->Next();
    });
    Expect("SeekToLast", [&] { it->SeekToLast(); });
    Expect("Prev", [&] {
      for (int i = 0; i < kKeys / 4 && it->Valid(); ++i) it->Prev();
    });
    Expect("Seek", [&] { it->Seek(KeyOf(kKeys / 2)); });
    Expect("SeekForPrev", [&] { it->SeekForPrev(KeyOf(kKeys / 3)); });
    EXPECT_TRUE(it->status().ok());
    Expect("~Iterator", [&] { it.reset(); });
  }
  void Ask() {
    const char* const names[] = {"varve.stats",
                                 "varve.levelstats",
                                 "varve.sstables",
                                 "varve.statistics",
                                 "varve.prometheus",
                                 "varve.memory",
                                 "varve.memory-by-thread",
                                 "varve.oldest-snapshot",
                                 "varve.ablation-path-counts",
                                 "varve.estimate-num-keys",
                                 "varve.estimate-live-data-size",
                                 "varve.trace-clock",
                                 "varve.io-path",
                                 "varve.num-files-at-level0",
                                 "varve.cfstats",
                                 "varve.dbstats",
                                 "varve.aggregated-table-properties",
                                 "varve.estimate-oldest-key-time"};
    for (const char* const name : names) {
      std::string value;
      Expect(name, [&] { db_->GetProperty(name, &value); });
    }
    uint64_t number = 0;
    Expect("GetIntProperty", [&] {
      EXPECT_TRUE(
          db_->GetIntProperty("varve.approximate-memory-usage", &number));
    });
    const std::string begin = KeyOf(0);
    const std::string end = KeyOf(kKeys);
    const Range range = {begin, end};
    ExpectOk("GetApproximateSizes",
             [&] { return db_->GetApproximateSizes(&range, 1, &number); });
    Expect("snapshots", [&] { db_->ReleaseSnapshot(db_->GetSnapshot()); });
  }
  void Maintain() {
    ExpectOk("FlushWAL", [&] { return db_->FlushWAL(true); });
    ExpectOk("SyncWAL", [&] { return db_->SyncWAL(); });
    ExpectOk("Flush", [&] { return db_->Flush({}); });
    ExpectOk("CompactRange", [&] {
      CompactRangeOptions all{.rewrite_bottommost_level = true};
      return db_->CompactRange(all, nullptr, nullptr);
    });
    ExpectOk("SetOptions", [&] {
      return db_->SetOptions({{"level0_stop_writes_trigger", "40"}});
    });
    ExpectOk("WaitForCompact", [&] { return db_->WaitForCompact(); });
    ExpectOk("VerifyChecksum", [&] { return db_->VerifyChecksum(); });
    ExpectOk("Resume", [&] { return db_->Resume(); });
    ExpectOk("CreateCheckpoint",
             [&] { return db_->CreateCheckpoint(Path("checkpoint")); });
    Expect("CancelAllBackgroundWork",
           [&] { db_->CancelAllBackgroundWork(true); });
  }

  TempDir dir_;
  StackMeterEnv env_;
  Options options_;
  std::unique_ptr<DB> db_;
};

class StackUseTest : public StackUse, public testing::TestWithParam<Kind> {
 protected:
  StackUseTest() : StackUse(GetParam()) {}
};

class PlainStackUseTest : public StackUse, public testing::Test {
 protected:
  PlainStackUseTest() : StackUse({.name = "Plain"}) {}
};

TEST_P(StackUseTest, OfAllCalls) {
  Open("Open of a new database");
  Fill();
  Write();
  ASSERT_TRUE(db_->Flush({}).ok());
  Read();
  Iterate();
  Ask();
  Close();
  // All cold: no table is open.
  Open("Open");
  Read();
  Close();
  Open("Open");
  Iterate();
  Write();
  Close();
  Open("Open with a log");
  Maintain();
  Ask();
  Close();
  ExpectOk("OpenForReadOnly",
           [&] { return DB::OpenForReadOnly(options_, Path(), &db_); });
  Read();
  Iterate();
  Expect("~DB", [&] { db_.reset(); });
  ExpectOk("RepairDB", [&] { return RepairDB(Path(), options_); });
  Open("Open after RepairDB");
  Read();
  Close();
  ExpectOk("DestroyDB", [&] { return DestroyDB(Path(), options_); });
}

// A table with damaged bytes in several places.
TEST_P(StackUseTest, OfRepairOfDamage) {
  Open("Open of a new database");
  Fill();
  ASSERT_TRUE(db_->Flush({}).ok());
  Close();
  for (const auto& entry : std::filesystem::directory_iterator(Path())) {
    if (entry.path().extension() != ".sst") continue;
    FILE* const file = fopen(entry.path().c_str(), "r+");
    ASSERT_NE(file, nullptr);
    fseek(file, 5000, SEEK_SET);
    fputc('?', file);
    fclose(file);
  }
  ExpectOk("RepairDB", [&] { return RepairDB(Path(), options_); });
}

TEST_F(PlainStackUseTest, OfCatalogs) {
  std::unique_ptr<Catalog> catalog;
  CatalogOptions options;
  options.options = options_;
  options.create_if_missing = true;
  ExpectOk("Catalog::Open",
           [&] { return Catalog::Open(options, Path(), &catalog); });
  ExpectOk("Create", [&] { return catalog->Create("Name"); });
  DatabaseRef ref;
  ExpectOk("Find", [&] { return catalog->Find("nAME", &ref); });
  ExpectOk("Put", [&] { return ref->Put({}, "k", "v"); });
  Expect("Reset", [&] { ref.Reset(); });
  std::vector<std::string> names;
  Expect("List", [&] { catalog->List(&names); });
  ExpectOk("CloseIdle", [&] { return catalog->CloseIdle(0, nullptr); });
  ExpectOk("Find", [&] { return catalog->Find("name", &ref); });
  Expect("Reset", [&] { ref.Reset(); });
  ExpectOk("Drop", [&] { return catalog->Drop("name"); });
  ExpectOk("Catalog::Close", [&] { return catalog->Close(); });
  Expect("~Catalog", [&] { catalog.reset(); });
}

TEST_F(PlainStackUseTest, WhileTraced) {
  trace::TraceOptions tracing;
  tracing.detail = trace::Detail::kSteps;
  ExpectOk("NewOtlpSink",
           [&] { return NewOtlpSink(Path("otlp"), &tracing.sink); });
  ExpectOk("NewChromeSink",
           [&] { return NewChromeSink(Path("chrome"), &tracing.sink); });
  ExpectOk("trace::Start", [&] { return trace::Start(tracing); });
  Open("Open, traced");
  Fill();
  Write();
  ASSERT_TRUE(db_->Flush({}).ok());
  Read();
  Iterate();
  ExpectOk("trace::Flush", [&] { return trace::Flush(); });
  ExpectOk("trace::Stop", [&] { return trace::Stop(); });
  Close();
}

TEST_F(PlainStackUseTest, OfStatistics) {
  const std::shared_ptr<Statistics> statistics = CreateDBStatistics();
  options_.statistics = statistics;
  Open("Open");
  Fill();
  std::string text;
  Expect("ToString", [&] { text = statistics->ToString(); });
  Expect("ToPrometheus", [&] { text = statistics->ToPrometheus(); });
  HistogramData data;
  Expect("histogramData",
         [&] { data = statistics->histogramData(HistogramType::kDbGet); });
  Expect("Reset", [&] { statistics->Reset(); });
  Expect("histogramData",
         [&] { data = statistics->histogramData(HistogramType::kDbGet); });
  Close();
}

// Calls of C, beyond those that are a call of C++ and little else.
TEST_F(PlainStackUseTest, FromC) {
  varve_options_t* const options = varve_options_create();
  varve_options_set_create_if_missing(options, 1);
  char* error = nullptr;
  varve_t* db = nullptr;
  const auto expect = [&](const char* name, const std::function<void()>& work) {
    Expect(name, work);
    EXPECT_EQ(error, nullptr) << name << ": " << error;
  };
  expect("varve_open",
         [&] { db = varve_open(options, Path().c_str(), &error); });
  ASSERT_NE(db, nullptr);
  varve_writeoptions_t* const write = varve_writeoptions_create();
  varve_readoptions_t* const read = varve_readoptions_create();
  expect("varve_put", [&] { varve_put(db, write, "k", 1, "v", 1, &error); });
  size_t size = 0;
  expect("varve_get",
         [&] { varve_free(varve_get(db, read, "k", 1, &size, &error)); });
  expect("varve_compact_range",
         [&] { varve_compact_range(db, nullptr, 0, nullptr, 0); });
  expect("varve_property_value",
         [&] { varve_free(varve_property_value(db, "leveldb.stats")); });
  expect("varve_close", [&] {
    varve_iterator_t* const iterator = varve_create_iterator(db, read);
    varve_close(db);
    varve_iter_destroy(iterator);
  });
  expect("varve_repair_db",
         [&] { varve_repair_db(options, Path().c_str(), &error); });
  expect("varve_catalog", [&] {
    varve_catalog_t* const catalog =
        varve_catalog_open(options, Path("catalog").c_str(), &error);
    varve_catalog_create_db(catalog, "db", &error);
    varve_close(varve_catalog_find(catalog, "db", &error));
    varve_catalog_close(catalog, &error);
  });
  varve_writeoptions_destroy(write);
  varve_readoptions_destroy(read);
  varve_options_destroy(options);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, StackUseTest,
    testing::Values(
        Kind{.name = "Plain"},
        Kind{.name = "Uncached", .max_open_files = 16, .cache_bytes = 0},
        Kind{.name = "Snappy", .compression = CompressionType::kSnappy},
        Kind{.name = "Lz4",
             .compression = CompressionType::kLZ4,
             .cache_bytes = 0},
        Kind{.name = "Lz4hc", .compression = CompressionType::kLZ4HC},
        Kind{.name = "Zstd",
             .compression = CompressionType::kZSTD,
             .max_open_files = 16,
             .cache_bytes = 0},
        Kind{.name = "Folded",
             .key_case = KeyCase::kInsensitive,
             .cache_bytes = 0},
        Kind{.name = "Direct", .direct_reads = true, .cache_bytes = 0}),
    [](const auto& kind) { return std::string(kind.param.name); });

}  // namespace
}  // namespace varve::test
