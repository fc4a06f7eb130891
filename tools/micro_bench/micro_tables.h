// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Benchmarks of ingestion and of prefixes, for Varve and for RocksDB, whose
// interfaces have the same names. An Engine has the types of its namespace, and
// opens the databases.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tools/micro_bench/micro_bench.h"

namespace varve::bench {

constexpr size_t kBenchPrefixBytes = 12;

template <typename Engine>
class TablesBench {
 public:
  static void Register() {
    Add("Ingest", Ingest)
        ->Iterations(1)
        ->UseRealTime()
        ->Unit(benchmark::kMillisecond)
        ->ArgNames({"files", "megabytes"})
        ->Args({100, 1})
        ->Args({100, 64});
    Add("AbsentPrefix/filtered", AbsentPrefix<true>)->Iterations(kSeeks);
    Add("AbsentPrefix/unfiltered", AbsentPrefix<false>)->Iterations(kSeeks);
    Add("ScanPrefix/filtered", ScanPrefix<true>)->Iterations(kSeeks);
    Add("ScanPrefix/unfiltered", ScanPrefix<false>)->Iterations(kSeeks);
  }

 private:
  using Clock = std::chrono::steady_clock;
  using DB = typename Engine::DB;

  static constexpr int kSeeks = 500000;
  static constexpr uint64_t kPrefixes = 100000;
  static constexpr uint64_t kKeysPerPrefix = 20;
  static constexpr size_t kIngestedValueBytes = 1000;

  static auto* Add(const std::string& name, void (*run)(benchmark::State&)) {
    return benchmark::RegisterBenchmark((name + "/" + Engine::kName).c_str(),
                                        run);
  }

  template <typename... Numbers>
  static std::string Format(const char* format, Numbers... numbers) {
    char text[40];
    snprintf(text, sizeof(text), format, numbers...);
    return text;
  }

  // Writes tables that do not overlap. Returns their paths.
  static std::vector<std::string> WriteTables(const std::string& directory,
                                              int64_t count, int64_t bytes) {
    Random random(kSeed);
    const std::string value = RandomValue(&random, kIngestedValueBytes);
    std::vector<std::string> paths;
    uint64_t number = 0;
    for (int64_t i = 0; i < count; ++i) {
      paths.push_back(directory + Format("/part%04d.sst", int(i)));
      const auto writer = Engine::NewTableWriter();
      Engine::Check(writer->Open(paths.back()));
      for (int64_t written = 0; written < bytes;
           written += static_cast<int64_t>(kIngestedValueBytes)) {
        Engine::Check(
            writer->Put(Format("ingested%012zu", size_t(number++)), value));
      }
      Engine::Check(writer->Finish());
    }
    return paths;
  }

  // Takes tables in by links while another thread writes keys that are outside
  // of them. The counters are of that thread.
  static void Ingest(benchmark::State& state) {
    const TempDirectory tables;
    const TempDirectory directory;
    const std::vector<std::string> paths =
        WriteTables(tables.path(), state.range(0), state.range(1) << 20);
    const std::unique_ptr<DB> db = Engine::Open(directory.path(), false);
    std::atomic<bool> stop = false;
    std::atomic<uint64_t> puts = 0;
    double longest_ms = 0;
    std::thread writer([&] {
      const std::string value(100, 'v');
      while (!stop) {
        const std::string key = Format("beside%012zu", size_t(puts));
        const auto begin = Clock::now();
        Engine::Check(db->Put({}, key, value));
        longest_ms = std::max(
            longest_ms,
            std::chrono::duration<double, std::milli>(Clock::now() - begin)
                .count());
        ++puts;
      }
    });
    while (puts < 1000) std::this_thread::yield();
    const uint64_t before = puts;
    for (auto _ : state) Engine::Ingest(db.get(), paths);
    state.counters["puts"] = static_cast<double>(puts - before);
    stop = true;
    writer.join();
    state.counters["longest_put_ms"] = longest_ms;
    state.SetLabel(Engine::Label());
  }

  // ---- Prefixes -------------------------------------------------------------

  // The odd ones are absent.
  static std::string PrefixOf(uint64_t number) {
    return Format("user%08u", unsigned(number));
  }
  // A database whose keys were written in random order.
  template <bool filtered>
  static DB* PrefixDb() {
    static const TempDirectory directory;
    static const std::unique_ptr<DB> db = [] {
      std::unique_ptr<DB> made = Engine::Open(directory.path(), filtered);
      constexpr uint64_t kKeys = kPrefixes * kKeysPerPrefix;
      const std::string value(100, 'v');
      for (uint64_t i = 0; i < kKeys; ++i) {
        const uint64_t place = i * 7919 % kKeys;  // A prime: all of them.
        Engine::Check(
            made->Put({},
                      PrefixOf(place / kKeysPerPrefix * 2) +
                          Format("%04u", unsigned(place % kKeysPerPrefix)),
                      value));
      }
      Engine::Settle(made.get());
      return made;
    }();
    return db.get();
  }

  template <bool filtered>
  static void SeekPrefixes(benchmark::State& state, bool present) {
    DB* const db = PrefixDb<filtered>();
    typename Engine::ReadOptions read;
    read.prefix_same_as_start = filtered;
    const std::unique_ptr<typename Engine::Iterator> it(db->NewIterator(read));
    uint64_t seek = 0;
    uint64_t keys = 0;
    for (auto _ : state) {
      const std::string prefix =
          PrefixOf(++seek * 104729 % kPrefixes * 2 + (present ? 0 : 1));
      for (it->Seek(prefix); it->Valid() && it->key().starts_with(prefix);
           it->Next()) {
        ++keys;
      }
    }
    Engine::Check(it->status());
    state.counters["keys"] =
        static_cast<double>(keys) / static_cast<double>(seek);
    state.SetLabel(Engine::Label());
  }
  template <bool filtered>
  static void AbsentPrefix(benchmark::State& state) {
    SeekPrefixes<filtered>(state, false);
  }
  template <bool filtered>
  static void ScanPrefix(benchmark::State& state) {
    SeekPrefixes<filtered>(state, true);
  }
};

}  // namespace varve::bench
