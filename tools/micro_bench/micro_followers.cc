// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// The cost of a catch-up: see docs/followers.md. The primary is in this
// process. Time is the wall time of TryCatchUpWithPrimary alone.

#include "tools/micro_bench/micro_followers.h"

#include <chrono>

namespace varve::bench {

namespace {

class Varve {
 public:
  static constexpr const char* kName = "varve";

  Varve() {
    Options options;
    options.create_if_missing = true;
    Must(DB::Open(options, directory_.path() + "/db", &primary_));
  }
  void Put(const std::string& key, const std::string& value) {
    Must(primary_->Put(WriteOptions(), key, value));
  }
  void Flush() { Must(primary_->Flush(FlushOptions())); }
  void Follow() {
    Must(DB::OpenAsSecondary(Options(), directory_.path() + "/db",
                             directory_.path() + "/second", &follower_));
  }
  void CatchUp() { Must(follower_->TryCatchUpWithPrimary()); }
  bool Shows(const std::string& key, const std::string& value) {
    std::string found;
    return follower_->Get(ReadOptions(), key, &found).ok() && found == value;
  }
  // Takes the place of a catch-up without followers.
  void OpenAgain() {
    std::unique_ptr<DB> db;
    Must(DB::OpenForReadOnly(Options(), directory_.path() + "/db", &db));
  }
  static std::string Label() { return ""; }

 private:
  const TempDirectory directory_;
  std::unique_ptr<DB> primary_;
  std::unique_ptr<DB> follower_;
};

void OpenAgain(benchmark::State& state) {
  FollowedDb<Varve> db;
  for (auto _ : state) db.engine.OpenAgain();
}

}  // namespace

void AddFollowers() {
  RegisterFollowers<Varve>();
  benchmark::RegisterBenchmark("OpenForReadOnly/varve", OpenAgain)
      ->Unit(benchmark::kMicrosecond);
#if defined(VARVE_HAVE_ROCKSDB)
  AddRocksDbFollowers();
#endif
}

}  // namespace varve::bench
