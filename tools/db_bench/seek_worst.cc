// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Workloads that make the most of reports of waste and give the least in
// return. The operations are the same however fast the engine is, so that the
// tables written can be compared.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <deque>
#include <memory>
#include <thread>

#include "tools/db_bench/seek_database.h"
#include "tools/db_bench/seek_runs.h"

namespace varve {

namespace {

// Why a report is vain.
enum class Vanity : uint8_t {
  kLive,      // The keys are put again at once.
  kSnapshot,  // A snapshot needs them, and they are put again.
  kSpread,    // Each run is short, and much live data is around it.
};

// A run of adjacent keys is longer than what a walk may skip unreported.
constexpr uint64_t kRunKeys = 600;
constexpr uint64_t kSpreadRunKeys = 300;
// Runs that are deleted at a time in kSpread.
constexpr size_t kSpreadRuns = 50;
constexpr uint64_t kRoundsPerSecond = 40;
constexpr int kWalksPerRound = 10;
// Rounds for which a snapshot is held.
constexpr uint64_t kSnapshotRounds = 10;
constexpr uint64_t kWriteBufferBytes = uint64_t{1} << 20;

class WorstCase {
 public:
  WorstCase(const SeekConfig& config, Vanity vanity, SeekDatabase* database)
      : config_(config),
        vanity_(vanity),
        run_keys_(vanity == Vanity::kSpread ? kSpreadRunKeys : kRunKeys),
        database_(database),
        random_(config.seed) {}

  Status Run() {
    const uint64_t num = std::max(config_.size.num, 2 * kRunKeys);
    for (uint64_t key = 0; key < num; ++key) database_->writer().Put(key);
    database_->PutLiveKeys(config_.size.live);
    if (!database_->Flush()) return database_->status();
    database_->Compact();
    make_table_bytes_ = database_->tables().bytes;
    make_user_bytes_ = database_->user_bytes();
    const double cpu_before = CpuSeconds();
    const double start = SecondsNow();
    rounds_ = std::max<uint64_t>(
        2 * kSnapshotRounds,
        static_cast<uint64_t>(config_.worst_seconds * kRoundsPerSecond));
    for (uint64_t i = 0; i < rounds_ && database_->status().ok(); ++i) {
      if (vanity_ == Vanity::kSpread) {
        SpreadRound(num);
      } else {
        Round(i, random_.Uniform(num - kRunKeys));
      }
      std::this_thread::sleep_for(std::chrono::duration<double>(
          start + static_cast<double>(i + 1) / kRoundsPerSecond -
          SecondsNow()));
    }
    cpu_seconds_ = CpuSeconds() - cpu_before;
    seconds_ = SecondsNow() - start;
    return database_->status();
  }

  void Write(const TableCounts& tables, JsonWriter* json) const {
    json->Integer("rounds", rounds_);
    json->Number("seconds", seconds_);
    json->Number("cpu_seconds", cpu_seconds_);
    walks_.Write("walk", json);
    json->Integer("user_bytes", user_bytes());
    json->Integer("table_bytes", tables.bytes - make_table_bytes_);
    json->Integer("missed_tables", tables.missed);
  }
  const Times& walks() const { return walks_; }
  // The tables written before the first round.
  uint64_t make_table_bytes() const { return make_table_bytes_; }
  // The bytes of all rounds.
  uint64_t user_bytes() const {
    return database_->user_bytes() - make_user_bytes_;
  }

 private:
  void DeleteRun(uint64_t first) {
    for (uint64_t i = 0; i < run_keys_; ++i) {
      database_->writer().Delete(first + i);
    }
  }
  void PutRun(uint64_t first) {
    for (uint64_t i = 0; i < run_keys_; ++i) {
      database_->writer().Put(first + i);
    }
  }
  // Seeks to the first key of a deleted run.
  void Walk(KeyReader* reader, uint64_t first) {
    const auto start = std::chrono::steady_clock::now();
    const uint64_t found = reader->Seek(first);
    const auto end = std::chrono::steady_clock::now();
    walks_.Add(static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(end - start)
            .count()));
    database_->Fail(reader->status());
    if (found < first + run_keys_) {
      database_->Fail(Status::Corruption("found a deleted key"));
    }
  }

  void Round(uint64_t number, uint64_t first) {
    // A snapshot that is older than the deletions needs all that they hide.
    if (vanity_ == Vanity::kSnapshot && number % kSnapshotRounds == 0) {
      database_->Fail(database_->engine()->TakeSnapshot());
    }
    DeleteRun(first);
    KeyReader reader(database_->writer().session());
    for (int i = 0; i < kWalksPerRound; ++i) Walk(&reader, first);
    // What was walked over is live again, if a report is acted on later.
    PutRun(first);
  }

  // Deletes a run, puts the one again that was deleted longest ago, and walks
  // over some of those between.
  void SpreadRound(uint64_t num) {
    // Runs do not touch each other.
    const uint64_t places = num / (2 * run_keys_);
    const uint64_t first = random_.Uniform(places) * 2 * run_keys_;
    if (std::find(runs_.begin(), runs_.end(), first) != runs_.end()) return;
    runs_.push_back(first);
    DeleteRun(first);
    if (runs_.size() > kSpreadRuns) {
      PutRun(runs_.front());
      runs_.pop_front();
    }
    KeyReader reader(database_->writer().session());
    for (int i = 0; i < kWalksPerRound; ++i) {
      Walk(&reader, runs_[random_.Uniform(runs_.size())]);
    }
  }

  const SeekConfig& config_;
  const Vanity vanity_;
  const uint64_t run_keys_;
  SeekDatabase* const database_;
  Random random_;
  std::deque<uint64_t> runs_;  // Deleted in this order.
  Times walks_;
  uint64_t rounds_ = 0;
  uint64_t make_table_bytes_ = 0;
  uint64_t make_user_bytes_ = 0;
  double seconds_ = 0;
  double cpu_seconds_ = 0;
};

}  // namespace

Status RunWorst(const SeekConfig& config, const std::string& name,
                JsonWriter* json) {
  std::unique_ptr<Engine> engine;
  Status status = NewSeekEngine(config, &engine);
  if (!status.ok()) return status;
  EngineConfig engine_config = config.engine_config;
  engine_config.write_buffer_bytes = kWriteBufferBytes;
  SeekDatabase database(engine.get(), engine_config, config.seed);
  status = database.Create();
  if (!status.ok()) return status.Annotate(name);
  const Vanity vanity = name == "worst-snapshot" ? Vanity::kSnapshot
                        : name == "worst-spread" ? Vanity::kSpread
                                                 : Vanity::kLive;
  WorstCase worst(config, vanity, &database);
  status = worst.Run();
  if (!status.ok()) return status.Annotate(name);
  // Compactions that are under way are part of it.
  engine->ReleaseSnapshot();
  status = engine->WaitForCompaction();
  if (!status.ok() && !status.IsNotSupported()) return status.Annotate(name);
  const TableCounts tables = database.tables();
  json->Text("kind", "worst");
  worst.Write(tables, json);
  printf("%-15s: walk %s, %.1f MB of tables for %.1f MB written\n",
         name.c_str(), worst.walks().Summary().c_str(),
         static_cast<double>(tables.bytes - worst.make_table_bytes()) / 1e6,
         static_cast<double>(worst.user_bytes()) / 1e6);
  fflush(stdout);
  return database.Destroy();
}

}  // namespace varve
