// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// The cost of a key's lock in a pessimistic transaction. RocksDB's rows call
// GetForUpdate without a value, and UndoGetForUpdate: they lock, note the key
// in the transaction, and unlock. Varve's table notes it, too.

#include <string>

#include "db/transaction/locks/lock_table.h"
#include "tools/micro_bench/micro_bench.h"

namespace varve::bench {

const std::vector<std::string>& LockKeys() {
  static const std::vector<std::string> keys = [] {
    constexpr size_t kKeys = 1000000;
    std::vector<std::string> made;
    made.reserve(kKeys);
    for (size_t i = 0; i < kKeys; ++i) {
      char key[20];
      // A prime, so that neighbours are far apart.
      snprintf(key, sizeof(key), "key%013zu", i * 7919 % kKeys);
      made.emplace_back(key);
    }
    return made;
  }();
  return keys;
}

namespace {

LockTable* Table() {
  static LockTable* const table = [] {
    LockTableOptions options;
    options.env = Env::Default();
    return new LockTable(options);
  }();
  return table;
}

// Locks and unlocks each of many keys, or always the same one.
void Locks(benchmark::State& state, LockKeysUsed keys) {
  LockTable* const table = Table();
  LockOwner owner(static_cast<uint64_t>(state.thread_index()) + 1);
  LockKeyWalk walk(keys, state.thread_index());
  LockRequest request;
  for (auto _ : state) {
    request.key = walk.Next();
    LockHold* hold = nullptr;
    Must(table->Lock(&owner, request, &hold));
    table->Unlock(&owner, hold);
  }
}

// Ten keys, and then all of them back.
void LocksOfTransaction(benchmark::State& state) {
  LockTable* const table = Table();
  LockOwner owner(static_cast<uint64_t>(state.thread_index()) + 1);
  LockKeyWalk walk(LockKeysUsed::kCold, state.thread_index());
  LockRequest request;
  for (auto _ : state) {
    for (int i = 0; i < 10; ++i) {
      request.key = walk.Next();
      Must(table->Lock(&owner, request));
    }
    table->UnlockAll(&owner);
  }
}

}  // namespace

void AddLocks() {
  RegisterLocks("varve", Locks, LocksOfTransaction);
#if defined(VARVE_HAVE_ROCKSDB)
  AddRocksDbLocks();
#endif
}

void RegisterLocks(const char* engine,
                   void (*locks)(benchmark::State&, LockKeysUsed),
                   void (*transaction)(benchmark::State&)) {
  const auto name = [engine](const char* what) {
    return std::string(what) + "/" + engine;
  };
  const auto add = [](const std::string& its_name, auto... function) {
    return benchmark::RegisterBenchmark(its_name.c_str(), function...);
  };
  add(name("Lock/hot"), locks, LockKeysUsed::kOne);
  add(name("Lock/cold"), locks, LockKeysUsed::kCold)->Threads(1)->Threads(2);
  add(name("Lock/ten_cold"), transaction)->Threads(1)->Threads(2);
  add(name("Lock/contended"), locks, LockKeysUsed::kOne)
      ->Threads(2)
      ->Threads(8)
      ->UseRealTime();
}

}  // namespace varve::bench
