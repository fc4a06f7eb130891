// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// The cost of a Put beside a change stream that waits: see docs/streams.md. The
// CPU time is the writing thread's.

#include <atomic>
#include <thread>
#include <vector>

#include "tools/micro_bench/micro_bench.h"
#include "varve/transaction_log.h"

namespace varve::bench {

namespace {

constexpr size_t kFirstPuts = 20000;
constexpr benchmark::IterationCount kPuts = 400000;

enum class Beside : uint8_t {
  kNothing,
  // A stream that waits for each update and reads it.
  kStream,
  // A thread that has nothing to do with the database: what the machine alone
  // makes of a busy processor.
  kLoop,
};

void ReadAndWait(DB* db, const std::atomic<bool>& stop) {
  constexpr uint64_t kWaitUs = 1000;
  std::unique_ptr<TransactionLogIterator> stream;
  Must(db->GetUpdatesSince(1, &stream));
  while (!stop) {
    while (stream->Valid()) stream->Next();
    Must(stream->status());
    stream->Wait(kWaitUs);
  }
}

void Loop(const std::atomic<bool>& stop) {
  std::vector<char> bytes(size_t{64} << 10, 1);
  while (!stop) {
    for (char& byte : bytes) ++byte;
    benchmark::DoNotOptimize(bytes.data());
    benchmark::ClobberMemory();
  }
}

void Put(benchmark::State& state, Beside beside) {
  const TempDirectory directory;
  Options options;
  options.create_if_missing = true;
  options.write_buffer_size = size_t{1} << 30;  // Nothing is flushed.
  std::unique_ptr<DB> db;
  Must(DB::Open(options, directory.path(), &db));
  Random random(kSeed);
  const std::string value = RandomValue(&random, 100);
  const auto put = [&] {
    uint64_t key[2] = {random.Next(), random.Next()};
    Must(db->Put(WriteOptions(),
                 Slice(reinterpret_cast<const char*>(key), sizeof(key)),
                 value));
  };
  for (size_t i = 0; i < kFirstPuts; ++i) put();
  std::atomic<bool> stop{false};
  std::thread other;
  if (beside == Beside::kStream) {
    other = std::thread([&] { ReadAndWait(db.get(), stop); });
  } else if (beside == Beside::kLoop) {
    other = std::thread([&] { Loop(stop); });
  }
  for (auto _ : state) put();
  stop = true;
  if (other.joinable()) other.join();
}

}  // namespace

void AddStreams() {
  const auto add = [](const char* name, Beside beside) {
    benchmark::RegisterBenchmark(name, Put, beside)->Iterations(kPuts);
  };
  add("Put/alone", Beside::kNothing);
  add("Put/beside_a_waiting_stream", Beside::kStream);
  add("Put/beside_a_busy_loop", Beside::kLoop);
}

}  // namespace varve::bench
