// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Benchmarks of transactions, for Varve and for RocksDB, whose interfaces have
// the same names. An Engine has the types of its namespace, and opens the
// databases.

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tools/micro_bench/micro_bench.h"

namespace varve::bench {

// The keys that threads use: one of 100, or of a million.
enum class TransactionKeys : uint8_t { kHot, kCold };

template <typename Engine>
class TransactionBench {
 public:
  using Transaction = typename Engine::Transaction;
  using WriteOptions = typename Engine::WriteOptions;
  using ReadOptions = typename Engine::ReadOptions;

  // Of transactions in a row that writes. With a time instead of a number, the
  // faster engine would write more, and then read and write beside more data.
  static constexpr int kCount = 200000;

  static void Register() {
    Add("ThreePuts/batch", ThreePutsInBatch)->Iterations(kCount);
    Add("ThreePuts/optimistic", ThreePuts<BeginOptimistic>)->Iterations(kCount);
    Add("ThreePuts/locking", ThreePuts<BeginLocking>)->Iterations(kCount);
    Add("GetForUpdatePut/optimistic", Cold<BeginOptimistic>)
        ->Iterations(kCount);
    Add("GetForUpdatePut/locking", Cold<BeginLocking>)->Iterations(kCount);
    Add("Empty/optimistic", Empty<BeginOptimistic>);
    Add("Empty/locking", Empty<BeginLocking>);
    AddThreads("Contended/optimistic/hot",
               Contended<BeginOptimistic, TransactionKeys::kHot>);
    AddThreads("Contended/optimistic/cold",
               Contended<BeginOptimistic, TransactionKeys::kCold>);
    AddThreads("Contended/locking/hot",
               Contended<BeginLocking, TransactionKeys::kHot>);
    AddThreads("Contended/locking/cold",
               Contended<BeginLocking, TransactionKeys::kCold>);
    Add("Idle/optimistic", Idle<BeginOptimistic>)->Iterations(1);
    Add("Idle/locking", Idle<BeginLocking>)->Iterations(1);
    Add("OpenBesideWrites/optimistic", OpenBesideWrites)
        ->Iterations(1)
        ->UseRealTime()
        ->Unit(benchmark::kSecond)
        ->ArgNames({"megabytes", "open"})
        ->Args({64, 1})
        ->Args({2048, 1})
        ->Args({2048, 0});
  }

 private:
  static auto* Add(const std::string& name, void (*run)(benchmark::State&)) {
    return benchmark::RegisterBenchmark((name + "/" + Engine::kName).c_str(),
                                        run);
  }
  static void AddThreads(const std::string& name,
                         void (*run)(benchmark::State&)) {
    Add(name, run)->Threads(8)->Iterations(kCount / 4)->UseRealTime();
  }

  static typename Engine::OptimisticTransactionDB* OptimisticDb() {
    static const TempDirectory directory;
    static const auto db = Engine::OpenOptimistic(directory.path());
    return db.get();
  }
  static typename Engine::TransactionDB* LockingDb() {
    static const TempDirectory directory;
    static const auto db = Engine::OpenLocking(directory.path());
    return db.get();
  }
  static Transaction* BeginOptimistic(Transaction* old) {
    return OptimisticDb()->BeginTransaction(WriteOptions(), {}, old);
  }
  static Transaction* BeginLocking(Transaction* old) {
    typename Engine::TransactionOptions options;
    options.lock_timeout = 100000;  // Milliseconds.
    return LockingDb()->BeginTransaction(WriteOptions(), options, old);
  }
  using Begin = Transaction*(Transaction*);

  static const std::string& Value() {
    static const std::string value(100, 'v');
    return value;
  }

  static void ThreePutsInBatch(benchmark::State& state) {
    auto* const db = OptimisticDb();
    LockKeyWalk walk(LockKeysUsed::kCold, state.thread_index());
    typename Engine::WriteBatch batch;
    for (auto _ : state) {
      batch.Clear();
      for (int i = 0; i < 3; ++i) {
        Engine::Check(batch.Put(walk.Next(), Value()));
      }
      Engine::Check(db->Write(WriteOptions(), &batch));
    }
    state.SetLabel(Engine::Label());
  }

  template <Begin begin>
  static void ThreePuts(benchmark::State& state) {
    LockKeyWalk walk(LockKeysUsed::kCold, state.thread_index());
    std::unique_ptr<Transaction> transaction;
    for (auto _ : state) {
      transaction.reset(begin(transaction.release()));
      for (int i = 0; i < 3; ++i) {
        Engine::Check(transaction->Put(walk.Next(), Value()));
      }
      Engine::Check(transaction->Commit());
    }
    state.SetLabel(Engine::Label());
  }

  // Returns false on a conflict.
  static bool Update(Transaction* transaction, const std::string& key,
                     std::string* value) {
    const auto read = transaction->GetForUpdate(ReadOptions(), key, value);
    if (!read.ok() && !read.IsNotFound()) Engine::Check(read);
    Engine::Check(transaction->Put(key, Value()));
    const auto status = transaction->Commit();
    if (status.IsBusy()) return false;
    Engine::Check(status);
    return true;
  }

  template <Begin begin>
  static void Cold(benchmark::State& state) {
    LockKeyWalk walk(LockKeysUsed::kCold, state.thread_index());
    std::unique_ptr<Transaction> transaction;
    std::string value;
    for (auto _ : state) {
      transaction.reset(begin(transaction.release()));
      Update(transaction.get(), walk.Next(), &value);
    }
    state.SetLabel(Engine::Label());
  }

  template <Begin begin>
  static void Empty(benchmark::State& state) {
    std::unique_ptr<Transaction> transaction;
    for (auto _ : state) {
      transaction.reset(begin(transaction.release()));
      Engine::Check(transaction->Rollback());
    }
    state.SetLabel(Engine::Label());
  }

  template <Begin begin, TransactionKeys keys>
  static void Contended(benchmark::State& state) {
    std::unique_ptr<Transaction> transaction;
    std::string value;
    double conflicts = 0;
    auto random = static_cast<uint32_t>(state.thread_index() + 1);
    for (auto _ : state) {
      random = random * 1664525 + 1013904223;
      const size_t place =
          (random >> 8) % (keys == TransactionKeys::kHot ? 100 : 1000000);
      transaction.reset(begin(transaction.release()));
      if (!Update(transaction.get(), LockKeys()[place], &value)) ++conflicts;
    }
    state.counters["conflicts"] = conflicts;
    state.SetLabel(Engine::Label());
  }

  // The memory that each of many transactions takes.
  template <Begin begin>
  static void Idle(benchmark::State& state) {
    constexpr size_t kIdle = 100000;
    for (auto _ : state) {
      std::vector<std::unique_ptr<Transaction>> idle(kIdle);
      const double before = ResidentBytes();
      for (auto& each : idle) each.reset(begin(nullptr));
      state.counters["bytes"] = (ResidentBytes() - before) / kIdle;
    }
    state.SetLabel(Engine::Label());
  }

  static uint64_t Number(typename Engine::OptimisticTransactionDB* db,
                         const char* property) {
    uint64_t number = 0;
    db->GetIntProperty(property, &number);
    return number;
  }
  static void AwaitBackgroundWork(
      typename Engine::OptimisticTransactionDB* db) {
    for (const char* const property :
         {"rocksdb.mem-table-flush-pending", "rocksdb.num-running-flushes",
          "rocksdb.compaction-pending", "rocksdb.num-running-compactions"}) {
      while (Number(db, property) > 0) usleep(10000);
    }
  }

  // A transaction that has read and written a key is open while others write
  // values of 1,000 bytes; with open:0, it begins after the writes. "After" is
  // when flushes and compactions have ended.
  // memtables_MB are all memtables in memory, and the label tells how the
  // commit ended.
  static void OpenBesideWrites(benchmark::State& state) {
    constexpr size_t kValueBytes = 1000;
    constexpr double kMega = 1e6;
    const TempDirectory directory;
    const auto db = Engine::OpenOptimistic(directory.path());
    LockKeyWalk walk(LockKeysUsed::kCold, 0);
    Random random(kSeed);
    for (auto _ : state) {
      Engine::Check(db->Put(WriteOptions(), "account", "90"));
      std::unique_ptr<Transaction> transaction;
      const auto begin = [&] {
        std::string value;
        transaction.reset(db->BeginTransaction(WriteOptions()));
        Engine::Check(
            transaction->GetForUpdate(ReadOptions(), "account", &value));
        Engine::Check(transaction->Put("account", "80"));
      };
      const bool is_open = state.range(1) != 0;
      if (is_open) begin();
      state.counters["resident_before_MB"] = ResidentBytes() / kMega;
      state.counters["heap_before_MB"] = HeapBytes() / kMega;
      double peak = 0;
      const auto count =
          static_cast<uint64_t>(state.range(0)) * 1000000 / kValueBytes;
      for (uint64_t i = 0; i < count; ++i) {
        Engine::Check(db->Put(WriteOptions(), walk.Next(),
                              RandomValue(&random, kValueBytes)));
        if (i % 10000 == 0) peak = std::max(peak, ResidentBytes());
      }
      AwaitBackgroundWork(db.get());
      state.counters["resident_peak_MB"] = peak / kMega;
      state.counters["resident_after_MB"] = ResidentBytes() / kMega;
      state.counters["heap_after_MB"] = HeapBytes() / kMega;
      state.counters["memtables_MB"] =
          static_cast<double>(Number(db.get(), "rocksdb.size-all-mem-tables")) /
          kMega;
      if (!is_open) begin();
      const auto committed = transaction->Commit();
      state.counters["committed"] = committed.ok() ? 1 : 0;
      state.SetLabel(Engine::Label() + (" " + committed.ToString()));
    }
  }
};

}  // namespace varve::bench
