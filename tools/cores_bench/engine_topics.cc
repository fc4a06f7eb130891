// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include <cstdio>
#include <cstdlib>
#include <string>

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
