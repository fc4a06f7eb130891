// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The topic followers, for each engine.

#include <chrono>
#include <string>

#include "tools/micro_bench/micro_bench.h"

namespace varve::bench {

void AddRocksDbFollowers();

// A primary with 100,000 keys in tables, and a follower. Engine has Put, Flush,
// Follow, CatchUp and Shows.
template <typename Engine>
struct FollowedDb {
  FollowedDb() {
    for (int i = 0; i < 100000; ++i) Update();
    engine.Flush();
    engine.Follow();
  }
  void Update() {
    last_key = "key" + std::to_string(number % 100000);
    last_value = std::to_string(number++) + std::string(100, 'v');
    engine.Put(last_key, last_value);
  }

  Engine engine;
  int number = 0;
  std::string last_key;
  std::string last_value;
};

// Catches up after so many updates, and a flush after them.
template <typename Engine>
void CatchUp(benchmark::State& state, int updates, bool flushes) {
  FollowedDb<Engine> db;
  for (auto _ : state) {
    for (int i = 0; i < updates; ++i) db.Update();
    if (flushes) db.engine.Flush();
    const auto start = std::chrono::steady_clock::now();
    db.engine.CatchUp();
    state.SetIterationTime(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
            .count());
    if (!db.engine.Shows(db.last_key, db.last_value)) {
      state.SkipWithError("the follower does not show the last update");
      return;
    }
  }
  state.SetLabel(Engine::Label());
}

template <typename Engine>
void RegisterFollowers() {
  const std::string name = std::string("/") + Engine::kName;
  const auto add = [&name](const char* what, int updates, bool flushes,
                           int iterations) {
    benchmark::RegisterBenchmark((what + name).c_str(), CatchUp<Engine>,
                                 updates, flushes)
        ->Unit(benchmark::kMicrosecond)
        ->UseManualTime()
        ->Iterations(iterations);
  };
  add("NothingNew", 0, false, 2000);
  add("OneUpdate", 1, false, 2000);
  add("ThousandUpdates", 1000, false, 200);
  add("Flush", 1000, true, 30);
}

}  // namespace varve::bench
