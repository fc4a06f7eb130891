// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// The cost of many column families, databases and threads: the size of the logs
// beside an idle family, the memory of the memtables of a catalog with a
// budget, and the memory and time that many threads' cached SuperVersions need.
// See docs/results/column_families.md. Each runs once.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tools/db_bench/db_bench_environment.h"
#include "tools/micro_bench/micro_bench.h"
#include "util/base/random.h"
#include "varve/catalog.h"
#include "varve/db.h"
#include "varve/write_buffer_manager.h"

namespace varve::bench {
namespace {

using Clock = std::chrono::steady_clock;

double Seconds(Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

std::string Key(uint64_t number) {
  char key[17];
  snprintf(key, sizeof(key), "%016llx",
           static_cast<unsigned long long>(number));
  return key;
}

uint64_t LogBytes(const std::string& directory) {
  uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    std::error_code error;  // A log may be removed now.
    const uint64_t size = entry.path().extension() == ".log"
                              ? std::filesystem::file_size(entry.path(), error)
                              : 0;
    if (!error) bytes += size;
  }
  return bytes;
}

// A database with `count` column families.
struct Families {
  Families(const std::string& directory, int count) {
    DBOptions options;
    options.create_if_missing = true;
    options.create_missing_column_families = true;
    std::vector<ColumnFamilyDescriptor> descriptors;
    for (int i = 0; i < count; ++i) {
      descriptors.emplace_back(
          i == 0 ? kDefaultColumnFamilyName : "family" + std::to_string(i),
          ColumnFamilyOptions());
    }
    Must(DB::Open(options, directory, descriptors, &handles, &db));
  }
  // Returns the seconds that closing takes.
  double Close() {
    for (ColumnFamilyHandle* const handle : handles) delete handle;
    const auto start = Clock::now();
    Must(db->Close());
    return Seconds(Clock::now() - start);
  }

  std::unique_ptr<DB> db;
  std::vector<ColumnFamilyHandle*> handles;
};

uint64_t VarveBesideIdleFamily(const std::string& directory,
                               uint64_t total_bytes) {
  Families families(directory, kIdleFamilies);
  Must(families.db->Put({}, families.handles.back(), "once", "value"));
  WriteBatch batch;
  const uint64_t peak = WriteBesideIdleFamily(
      directory, total_bytes,
      [&](int family, const std::string& key, const std::string& value) {
        batch.Put(families.handles[static_cast<size_t>(family)], key, value);
      },
      [&] {
        Must(families.db->Write({}, &batch));
        batch.Clear();
      });
  families.Close();
  return peak;
}

void IdleFamily(benchmark::State& state,
                uint64_t (*write)(const std::string&, uint64_t)) {
  for (auto _ : state) {
    const TempDirectory directory;
    const uint64_t peak = write(
        directory.path(), static_cast<uint64_t>(state.range(0)) * 1000000);
    state.counters["logs_MB"] = static_cast<double>(peak) / 1e6;
  }
}

void CatalogBudget(benchmark::State& state) {
  const TempDirectory directory;
  CatalogOptions options;
  options.create_if_missing = true;
  options.options.write_buffer_manager = std::make_shared<WriteBufferManager>(
      static_cast<size_t>(state.range(2)) << 20, nullptr, true);
  std::unique_ptr<Catalog> catalog;
  Must(Catalog::Open(options, directory.path(), &catalog));
  std::vector<DatabaseRef> databases(static_cast<size_t>(state.range(0)));
  for (size_t i = 0; i < databases.size(); ++i) {
    const std::string name = "database" + std::to_string(i);
    Must(catalog->Create(name));
    Must(catalog->Find(name, &databases[i]));
  }
  Random random(kSeed);
  const std::string value = RandomValue(&random, 1000);
  const uint64_t updates =
      static_cast<uint64_t>(state.range(1)) * 1000000 / (value.size() + 16);
  ResetPeakRss();
  size_t most_memtables = 0;
  for (auto _ : state) {
    for (uint64_t i = 0; i < updates; ++i) {
      const uint64_t number = random.Next();
      Must(databases[number % databases.size()]->Put({}, Key(number), value));
      if (i % 1000 == 0) {
        most_memtables =
            std::max(most_memtables, catalog->GetCounts().memtable_bytes);
      }
    }
  }
  state.SetItemsProcessed(static_cast<int64_t>(updates));
  state.counters["memtables_MiB"] =
      static_cast<double>(most_memtables) / 1048576;
  state.counters["resident_MiB"] =
      static_cast<double>(PeakRssBytes()) / 1048576;
  databases.clear();
  Must(catalog->Close());
}

// Threads that have each read every family once, and then wait.
class Readers {
 public:
  Readers(Families* families, int count) : families_(families) {
    for (int i = 0; i < count; ++i) {
      threads_.emplace_back([this] { Run(); });
    }
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return waiting_ == count; });
  }
  ~Readers() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stop_ = true;
      changed_.notify_all();
    }
    for (std::thread& thread : threads_) thread.join();
  }
  // Lets all threads read every family again.
  void ReadAgain() {
    std::unique_lock<std::mutex> lock(mutex_);
    waiting_ = 0;
    ++round_;
    changed_.notify_all();
    changed_.wait(
        lock, [&] { return waiting_ == static_cast<int>(threads_.size()); });
  }

 private:
  void Run() {
    std::string value;
    int round = 0;
    while (true) {
      for (ColumnFamilyHandle* const handle : families_->handles) {
        Must(families_->db->Get({}, handle, "key", &value));
      }
      std::unique_lock<std::mutex> lock(mutex_);
      ++waiting_;
      changed_.notify_all();
      changed_.wait(lock, [&] { return stop_ || round_ > round; });
      if (stop_) return;
      round = round_;
    }
  }

  Families* const families_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int waiting_ = 0;
  int round_ = 0;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

// Returns the median time of a flush of one entry, in microseconds. It installs
// two SuperVersions, and finds the slots of all threads that have read the
// family.
double FlushMicros(Families* families, Readers* readers) {
  std::vector<double> micros;
  for (int round = 0; round < 20; ++round) {
    for (ColumnFamilyHandle* const handle : families->handles) {
      Must(families->db->Put({}, handle, "key", std::to_string(round)));
      const auto start = Clock::now();
      Must(families->db->Flush({}, handle));
      micros.push_back(Seconds(Clock::now() - start) * 1e6);
    }
    if (readers != nullptr) readers->ReadAgain();
  }
  std::nth_element(micros.begin(), micros.begin() + micros.size() / 2,
                   micros.end());
  return micros[micros.size() / 2];
}

void ReadersOfFamilies(benchmark::State& state) {
  const auto threads = static_cast<int>(state.range(0));
  const TempDirectory directory;
  Families families(directory.path(), static_cast<int>(state.range(1)));
  for (ColumnFamilyHandle* const handle : families.handles) {
    Must(families.db->Put({}, handle, "key", "value"));
  }
  const auto rss_kib = [] {
    ResetPeakRss();
    return static_cast<double>(PeakRssBytes()) / 1024;
  };
  for (auto _ : state) {
    state.counters["flush_us"] = FlushMicros(&families, nullptr);
    const double before = rss_kib();
    Readers readers(&families, threads);
    // With the memory of the threads themselves.
    state.counters["readers_KiB"] = rss_kib() - before;
    state.counters["flush_with_slots_us"] = FlushMicros(&families, &readers);
    // The threads' slots remain until then.
    state.counters["close_ms"] = families.Close() * 1e3;
  }
}

}  // namespace

uint64_t WriteBesideIdleFamily(
    const std::string& directory, uint64_t total_bytes,
    const std::function<void(int, const std::string&, const std::string&)>& put,
    const std::function<void()>& write) {
  constexpr uint64_t kUpdates = 20;
  constexpr size_t kValueBytes = 1000;
  Random random(kSeed);
  uint64_t written = 0, peak = 0;
  for (uint64_t batches = 1; written < total_bytes; ++batches) {
    const std::string value = RandomValue(&random, kValueBytes);
    for (uint64_t i = 0; i < kUpdates; ++i) {
      const uint64_t number = random.Next();
      put(static_cast<int>(number % (kIdleFamilies - 1)), Key(number), value);
      written += kValueBytes + 16;
    }
    write();
    if (batches % 500 == 0) peak = std::max(peak, LogBytes(directory));
  }
  return peak;
}

void AddFamilies() {
  const auto add = [](const char* name, auto... arguments) {
    return benchmark::RegisterBenchmark(name, arguments...)
        ->Iterations(1)
        ->UseRealTime()
        ->Unit(benchmark::kSecond);
  };
  add("IdleFamily/varve", IdleFamily, VarveBesideIdleFamily)
      ->ArgName("megabytes")
      ->Arg(200)
      ->Arg(20000);
#if defined(VARVE_HAVE_ROCKSDB)
  add("IdleFamily/rocksdb", IdleFamily, RocksDbBesideIdleFamily)
      ->ArgName("megabytes")
      ->Arg(200)
      ->Arg(20000);
#endif
  add("CatalogBudget", CatalogBudget)
      ->ArgNames({"databases", "megabytes", "budget_MiB"})
      ->Args({100, 200, 25})
      ->Args({1000, 2000, 256})
      ->Args({1000, 2000, 0});
  add("ReadersOfFamilies", ReadersOfFamilies)
      ->ArgNames({"threads", "families"})
      ->Args({100, 1})
      ->Args({100, 50})
      ->Args({2000, 10});
}

}  // namespace varve::bench
