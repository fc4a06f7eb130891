// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// The files of databases of which 9 in 10 keys were deleted, and then nothing
// is done.
#include <chrono>
#include <cstdio>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "tools/db_bench/seek_database.h"
#include "tools/db_bench/seek_runs.h"
#include "tools/db_bench/workload_data.h"

namespace varve {

namespace {

// One in so many keys is left.
constexpr uint64_t kLeft = 10;
constexpr double kSampleSeconds[] = {0, 1, 2, 5, 10, 20, 30, 60};

// The last change before nothing is done.
enum class Layout : uint8_t {
  kMemory,    // Values in tables of a low level, deletions in memory.
  kFlushed,   // The deletions are in level 0.
  kReopened,  // As kFlushed, and closed and opened again.
  kLevel0,    // All is in level 0.
};

struct SpaceCase {
  const char* name;
  Layout layout;
  bool small;  // A fiftieth of the keys.
};

constexpr SpaceCase kCases[] = {
    {"deletions in memory", Layout::kMemory, false},
    {"deletions in memory, small", Layout::kMemory, true},
    {"deletions flushed", Layout::kFlushed, false},
    {"deletions flushed, small", Layout::kFlushed, true},
    {"reopened", Layout::kReopened, false},
    {"reopened, small", Layout::kReopened, true},
    {"all in level 0", Layout::kLevel0, false},
    {"all in level 0, small", Layout::kLevel0, true},
};

struct Sample {
  double seconds = 0;
  FileSizes sizes;
};

struct SpaceResult {
  Status status;
  uint64_t keys = 0;
  // The tables of an equal database that never had the deleted keys.
  uint64_t live_table_bytes = 0;
  uint64_t user_bytes = 0;
  uint64_t make_table_bytes = 0;
  TableCounts tables;
  std::vector<Sample> samples;
};

bool IsLeft(uint64_t key) { return key % kLeft == 0; }

// Databases are made one after the other, and then watched at the same time.
class SpaceMeasurement {
 public:
  SpaceMeasurement(const SeekConfig& config, const SpaceCase& space_case,
                   size_t number)
      : config_(config),
        case_(space_case),
        keys_(std::max(kLeft, space_case.small ? config.space_num / 50
                                               : config.space_num)),
        engine_config_(config.engine_config) {
    engine_config_.path += "-" + std::to_string(number);
  }

  SpaceResult Run(std::mutex* turn) {
    SpaceResult result;
    result.keys = keys_;
    std::unique_ptr<Engine> engine;
    result.status = NewSeekEngine(config_, &engine);
    if (!result.status.ok()) return result;
    SeekDatabase database(engine.get(), engine_config_, config_.seed);
    double start = 0;
    {
      const std::lock_guard<std::mutex> lock(*turn);
      result.status = MeasureLive(&database, &result.live_table_bytes);
      if (result.status.ok()) result.status = Make(&database);
      if (!result.status.ok()) return result;
      start = SecondsNow();
      result.make_table_bytes = database.tables().bytes;
    }
    for (const double seconds : kSampleSeconds) {
      if (seconds > config_.space_seconds) break;
      std::this_thread::sleep_for(
          std::chrono::duration<double>(start + seconds - SecondsNow()));
      result.samples.push_back({seconds, ReadFileSizes(database.path())});
    }
    result.user_bytes = database.user_bytes();
    result.tables = database.tables();
    result.status = database.Destroy();
    return result;
  }

 private:
  Status MeasureLive(SeekDatabase* database, uint64_t* bytes) {
    Status status = database->Create();
    if (!status.ok()) return status;
    for (uint64_t key = 0; key < keys_; key += kLeft) {
      database->writer().Put(key);
    }
    if (database->Flush()) database->Compact();
    *bytes = ReadFileSizes(database->path()).table_bytes;
    return database->status();
  }

  Status Make(SeekDatabase* database) {
    Status status = database->Create();
    if (!status.ok()) return status;
    for (uint64_t key = 0; key < keys_; ++key) database->writer().Put(key);
    if (!database->Flush()) return database->status();
    if (case_.layout != Layout::kLevel0) database->Compact();
    const Permutation order(keys_, keys_);
    for (uint64_t i = 0; i < keys_; ++i) {
      const uint64_t key = order.At(i);
      if (!IsLeft(key)) database->writer().Delete(key);
    }
    if (case_.layout != Layout::kMemory && !database->Flush()) {
      return database->status();
    }
    if (case_.layout == Layout::kReopened) database->Reopen();
    return database->status();
  }

  const SeekConfig& config_;
  const SpaceCase& case_;
  const uint64_t keys_;
  EngineConfig engine_config_;
};

void WriteResult(const SpaceCase& space_case, const SpaceResult& result,
                 JsonWriter* json) {
  const auto live =
      static_cast<double>(std::max<uint64_t>(1, result.live_table_bytes));
  json->Open(nullptr, '{');
  json->Text("case", space_case.name);
  json->Integer("keys", result.keys);
  json->Integer("live_table_bytes", result.live_table_bytes);
  json->Integer("user_bytes", result.user_bytes);
  json->Integer("make_table_bytes", result.make_table_bytes);
  json->Integer("later_table_bytes",
                result.tables.bytes - result.make_table_bytes);
  json->Integer("missed_tables", result.tables.missed);
  json->Open("samples", '[');
  std::string line;
  for (const Sample& sample : result.samples) {
    const auto bytes = static_cast<double>(sample.sizes.table_bytes);
    json->Open(nullptr, '{');
    json->Number("seconds", sample.seconds);
    json->Integer("table_bytes", sample.sizes.table_bytes);
    json->Integer("allocated_bytes", sample.sizes.allocated_bytes);
    json->Number("tables_to_live", bytes / live);
    json->Close('}');
    char text[40];
    snprintf(text, sizeof(text), " %.2f after %.0f s", bytes / live,
             sample.seconds);
    line.append(line.empty() ? "" : ",").append(text);
  }
  json->Close(']');
  json->Close('}');
  printf("space, %llu keys, %s: tables to live data%s\n",
         static_cast<unsigned long long>(result.keys), space_case.name,
         line.c_str());
  fflush(stdout);
}

}  // namespace

Status RunSpace(const SeekConfig& config, const std::string& name,
                JsonWriter* json) {
  std::vector<SpaceResult> results(std::size(kCases));
  std::mutex turn;
  std::vector<std::thread> threads;
  for (size_t i = 0; i < std::size(kCases); ++i) {
    threads.emplace_back([&, i] {
      results[i] = SpaceMeasurement(config, kCases[i], i).Run(&turn);
    });
  }
  for (std::thread& thread : threads) thread.join();
  json->Text("kind", "space");
  json->Open("cases", '[');
  for (size_t i = 0; i < std::size(kCases); ++i) {
    if (!results[i].status.ok()) return results[i].status.Annotate(name);
    WriteResult(kCases[i], results[i], json);
  }
  json->Close(']');
  return Status::OK();
}

}  // namespace varve
