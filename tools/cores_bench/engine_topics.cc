// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "db/engine/db_impl.h"
#include "experimental/ablation.h"
#include "monitoring/baseline/global_statistics_cells.h"
#include "monitoring/baseline/thread_statistics_cells.h"
#include "monitoring/span.h"
#include "monitoring/statistics.h"
#include "monitoring/trace_collector.h"
#include "tools/cores_bench/topics.h"
#include "util/base/random.h"
#include "util/threads/memory_account.h"
#include "varve/catalog.h"
#include "varve/read_transaction.h"

namespace varve::cores {

namespace {

constexpr size_t kKeys = 2000;
constexpr size_t kOwnKeys = 4;  // That a core reads.

void Must(const Status& status) {
  if (status.ok()) return;
  fprintf(stderr, "cores_bench: %s\n", status.ToString().c_str());
  exit(1);
}

std::string KeyOf(size_t number) {
  char text[32];
  snprintf(text, sizeof(text), "%016zu", number);
  return text;
}

AblationOptions Ablated(const char* text) {
  AblationOptions ablation;
  Must(ablation.Parse(text));
  return ablation;
}

// ---- Reads ------------------------------------------------------------------

// A database whose entries are all in tables and in the block cache.
class ReadFixture : public Fixture {
 public:
  ReadFixture(const std::string& path, const char* ablation, StatsLevel level) {
    Options options;
    options.create_if_missing = true;
    options.error_if_exists = false;
    options.compression = CompressionType::kNone;
    options.filter_policy = NewBloomFilterPolicy(10);
    options.stats_level = level;
    options.experiment = NewExperiment(Ablated(ablation));
    Must(DB::Open(options, path, &db_));
    std::string value;
    if (db_->Get({}, KeyOf(0), &value).IsNotFound()) {
      for (size_t i = 0; i < kKeys; ++i) {
        Must(db_->Put({}, KeyOf(i), std::string(100, 'v')));
      }
    }
    Must(db_->CompactRange({}, nullptr, nullptr));
    for (size_t i = 0; i < kKeys; ++i) Must(db_->Get({}, KeyOf(i), &value));
  }
  DB* db() const { return db_.get(); }

 private:
  std::unique_ptr<DB> db_;
};

class GetFixture final : public ReadFixture {
 public:
  using ReadFixture::ReadFixture;

  Worker* NewWorker(size_t core) override {
    class Getter final : public Worker {
     public:
      Getter(DB* db, size_t core) : db_(db), random_(core + 1) {
        for (size_t i = 0; i < kOwnKeys; ++i) {
          keys_.push_back(KeyOf(random_.Uniform(kKeys)));
        }
        value_.reserve(1000);
      }
      void Run(size_t round) override {
        if (!db_->Get(options_, keys_[round % kOwnKeys], &value_).ok()) abort();
      }

     private:
      DB* const db_;
      Random random_;
      const ReadOptions options_;
      std::vector<std::string> keys_;
      std::string value_;
    };
    return new Getter(db(), core);
  }
};

class SnapshotFixture final : public ReadFixture {
 public:
  using ReadFixture::ReadFixture;

  Worker* NewWorker(size_t /*core*/) override {
    class Taker final : public Worker {
     public:
      explicit Taker(DB* db) : db_(db) {}
      void Run(size_t /*round*/) override { const ReadTransaction read(db_); }

     private:
      DB* const db_;
    };
    return new Taker(db());
  }
};

// ---- Writes -----------------------------------------------------------------

// A database with many entries in a memtable that is never flushed.
class PutFixture final : public Fixture {
 public:
  PutFixture(const std::string& path, bool overlaps, bool disable_wal)
      : path_(path), overlaps_(overlaps) {
    write_options_.disable_wal = disable_wal;
    options_.create_if_missing = true;
    options_.write_buffer_size = size_t{1} << 30;
    options_.avoid_flush_during_shutdown = true;
    // As with kAuto after many appends, but on all file systems.
    options_.wal_write = WriteMethod::kMap;
    Must(DestroyDB(path, options_));
    Must(DB::Open(options_, path, &db_));
    // So many that no two cores often write the same leaf of the tree.
    Writer writer(this, kMaxCores);
    for (size_t i = 0; i < 100'000; ++i) writer.Run(i);
  }
  ~PutFixture() override {
    db_.reset();
    DestroyDB(path_, options_).IgnoreError();  // A leftover is harmless.
  }

  Worker* NewWorker(size_t core) override { return new Writer(this, core); }

 private:
  class Writer final : public Worker {
   public:
    Writer(PutFixture* fixture, size_t core)
        : db_(fixture->db_.get()),
          options_(fixture->write_options_),
          overlaps_(fixture->overlaps_),
          leaves_gap_(core % 2 == 0),
          random_(core + (kMaxCores + 1) * fixture->workers_[core]++),
          value_(100, 'v') {}

    void Run(size_t /*round*/) override {
      const uint64_t key[] = {random_.Next(), random_.Next()};
      const Slice bytes(reinterpret_cast<const char*>(key), sizeof(key));
      if (!db_->Put(options_, bytes, value_).ok()) abort();
    }
    void BeforeRecording(size_t round) override {
      // An entry and its record share a line with the entry before, which moves
      // once for a write. If the model repeated the writes of all cores, each
      // would share two lines, with both of its neighbors.
      if (leaves_gap_) Run(round);
      // A recorded writer is alone and never waits, which would have made
      // groups overlap.
      constexpr uint32_t kGroups = 64;
      if (overlaps_) static_cast<DBImpl*>(db_)->OverlapNextWrites(kGroups);
    }
    // Nothing was prepared for later writes: space in the log or the memtable,
    // or the pace of writers.
    bool IsTypical(const OperationTrace& trace) override {
      return trace.system_calls == 0 &&
             std::none_of(trace.accesses.begin(), trace.accesses.end(),
                          [](const Access& access) {
                            return access.kind == AccessKind::kLock;
                          });
    }

   private:
    DB* const db_;
    const WriteOptions options_;
    const bool overlaps_;
    const bool leaves_gap_;
    Random random_;
    const std::string value_;
  };

  const std::string path_;
  const bool overlaps_;
  Options options_;
  WriteOptions write_options_;
  std::unique_ptr<DB> db_;
  // How many were created for each core. The last one is the constructor's.
  std::array<size_t, kMaxCores + 1> workers_ = {};
};

// ---- Counters ---------------------------------------------------------------

constexpr size_t kCell = StatisticsCells::Of(Ticker::kNumberKeysRead);

template <typename Cells>
class CounterFixture final : public Fixture {
 public:
  Worker* NewWorker(size_t /*core*/) override {
    class Counter final : public Worker {
     public:
      explicit Counter(Cells* cells) : cells_(cells) {}
      void Run(size_t /*round*/) override { cells_->Add(kCell, 1); }

     private:
      Cells* const cells_;
    };
    return new Counter(&cells_);
  }

 private:
  Cells cells_;
};

// ---- Spans ------------------------------------------------------------------

class NullSink final : public trace::Sink {
 public:
  void Add(const trace::Record* /*records*/, size_t /*count*/) override {}
  Status Flush() override { return Status::OK(); }
};

class SpanFixture final : public Fixture {
 public:
  explicit SpanFixture(TraceCollectMode mode) {
    TraceCollector::Get().SetCollectMode(mode);
    trace::TraceOptions options;
    options.sink = std::make_shared<NullSink>();
    options.buffer_bytes = size_t{256} << 20;
    options.export_interval_ms = 0;
    Must(trace::Start(options));
  }
  ~SpanFixture() override {
    trace::Stop().IgnoreError();  // The sink never fails.
    TraceCollector::Get().SetCollectMode({});
  }

  Worker* NewWorker(size_t /*core*/) override {
    class Tracer final : public Worker {
     public:
      void Run(size_t /*round*/) override {
        const RequestSpan request("request");
        for (int i = 0; i < 9; ++i) {
          const LocalSpan span("step");
          asm volatile("" ::: "memory");
        }
      }
    };
    return new Tracer();
  }
};

// ---- Catalog ----------------------------------------------------------------

class CatalogFixture final : public Fixture {
 public:
  CatalogFixture(const std::string& path, const char* ablation) {
    CatalogOptions options;
    options.create_if_missing = true;
    options.options.experiment = NewExperiment(Ablated(ablation));
    Must(Catalog::Open(options, path, &catalog_));
    for (const char* name : kNames) {
      DatabaseRef ref;
      if (!catalog_->Find(name, &ref).ok()) Must(catalog_->Create(name));
    }
  }

  Worker* NewWorker(size_t core) override {
    class Finder final : public Worker {
     public:
      Finder(Catalog* catalog, size_t core) : catalog_(catalog), core_(core) {}
      void Run(size_t round) override {
        DatabaseRef ref;
        if (!catalog_->Find(kNames[(core_ + round) % std::size(kNames)], &ref)
                 .ok()) {
          abort();
        }
      }

     private:
      Catalog* const catalog_;
      const size_t core_;
    };
    return new Finder(catalog_.get(), core);
  }

 private:
  static constexpr const char* kNames[] = {"Oren", "Mira", "Tel", "Ansa"};
  std::unique_ptr<Catalog> catalog_;
};

// ---- Memory accounting ------------------------------------------------------

class AccountFixture final : public Fixture {
 public:
  explicit AccountFixture(bool atomic) { SetMemoryAccountingAtomic(atomic); }
  ~AccountFixture() override { SetMemoryAccountingAtomic(false); }

  Worker* NewWorker(size_t /*core*/) override {
    class Allocator final : public Worker {
     public:
      void Run(size_t /*round*/) override {
        MemoryAccount* const account =
            NoteAllocated(MemoryKind::kIterator, 4096);
        NoteFreed(account, MemoryKind::kIterator, 4096);
      }
    };
    return new Allocator();
  }
};

// ---- The list ---------------------------------------------------------------

Variant GetVariant(const std::string& directory, const char* name,
                   const char* ablation,
                   StatsLevel level = Options().stats_level) {
  return {name, [=]() -> std::unique_ptr<Fixture> {
            return std::make_unique<GetFixture>(directory + "/db", ablation,
                                                level);
          }};
}

Variant SnapshotVariant(const std::string& directory, const char* name,
                        const char* ablation) {
  return {name, [=]() -> std::unique_ptr<Fixture> {
            return std::make_unique<SnapshotFixture>(
                directory + "/db", ablation, StatsLevel::kDisableAll);
          }};
}

Variant PutVariant(const std::string& directory, const char* name,
                   bool overlaps, bool disable_wal) {
  Variant variant = {name, [=]() -> std::unique_ptr<Fixture> {
                       return std::make_unique<PutFixture>(
                           directory + "/put", overlaps, disable_wal);
                     }};
  // Two threads that meet do overlap.
  variant.is_measured = overlaps;
  return variant;
}

template <typename MadeFixture, typename... Arguments>
Variant Make(const char* name, Arguments... arguments) {
  return {name, [=]() -> std::unique_ptr<Fixture> {
            return std::make_unique<MadeFixture>(arguments...);
          }};
}

}  // namespace

std::vector<Topic> EngineTopics(const std::string& directory) {
  const std::string catalog = directory + "/catalog";
  return {
      {"get",
       "a Get of an entry in the block cache, which counts itself",
       {GetVariant(directory, "production", ""),
        GetVariant(directory, "no statistics", "", StatsLevel::kDisableAll),
        GetVariant(directory, "statistics=thread", "statistics=thread"),
        GetVariant(directory, "statistics=global", "statistics=global"),
        GetVariant(directory, "block_cache=hash", "block_cache=hash"),
        GetVariant(directory, "superversion=mutex", "superversion=mutex")}},
      {"put",
       "a Put of a small entry into the log and the memtable",
       {PutVariant(directory, "production", true, false),
        PutVariant(directory, "groups one after another", false, false),
        PutVariant(directory, "no log", true, true)}},
      {"counter",
       "an addition to a counter of the engine",
       {Make<CounterFixture<PerCpuStatisticsCells>>("production"),
        Make<CounterFixture<ThreadStatisticsCells>>("statistics=thread"),
        Make<CounterFixture<GlobalStatisticsCells>>("statistics=global")}},
      {"snapshot",
       "the begin and end of a read transaction",
       {SnapshotVariant(directory, "production", ""),
        SnapshotVariant(directory, "snapshots=mutex", "snapshots=mutex")}},
      {"span",
       "a trace of ten spans",
       {Make<SpanFixture>("production", TraceCollectMode::kThreadLocal),
        Make<SpanFixture>("trace_collect=channel", TraceCollectMode::kChannel),
        Make<SpanFixture>("trace_collect=mutex", TraceCollectMode::kMutex)}},
      {"catalog",
       "a database of a catalog found by its name",
       {Make<CatalogFixture>("production", catalog, ""),
        Make<CatalogFixture>("catalog=folding", catalog, "catalog=folding")}},
      {"accounting",
       "memory allocated and freed, as the accounts see it",
       {Make<AccountFixture>("production", false),
        Make<AccountFixture>("memory_accounting=atomic", true)}},
  };
}

}  // namespace varve::cores
