// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// A queue: a new iterator seeks to the first key, which is then deleted.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>

#include "tools/db_bench/seek_database.h"
#include "tools/db_bench/seek_runs.h"

namespace varve {

namespace {

// Values of a queue with a producer, and the most that wait to be popped.
constexpr size_t kProducerValueBytes = 100;
constexpr uint64_t kMaxBacklog = 10000;

struct QueueResult {
  Times pops;
  // Pops that found nothing, since the producer is slower.
  uint64_t empty = 0;
  double push_seconds = 0;
  double pop_seconds = 0;
  double cpu_seconds = 0;
  uint64_t user_bytes = 0;
  TableCounts tables;
};

// Pops until the queue is empty, or `num` values are popped, or the time is up.
// `pushed` counts the values there were so far.
void PopAll(const SeekConfig& config, SeekDatabase* database,
            const std::atomic<uint64_t>& pushed, std::atomic<uint64_t>* popped,
            QueueResult* result) {
  using Clock = std::chrono::steady_clock;
  KeyWriter& writer = database->writer();
  KeyReader reader(writer.session());
  const double start = SecondsNow();
  for (uint64_t next = 0; next < config.size.num;) {
    if (SecondsNow() - start > config.queue_seconds) break;
    // acquire: pairs with the release after a push.
    const bool waiting = pushed.load(std::memory_order_acquire) > next;
    const Clock::time_point begin = Clock::now();
    const uint64_t key = reader.SeekToFirst();
    if (key < kLiveKeys) writer.Delete(key);
    const Clock::time_point end = Clock::now();
    database->Fail(reader.status());
    if (!database->status().ok()) break;
    if (key >= kLiveKeys && !waiting) {
      ++result->empty;
      std::this_thread::yield();
      continue;
    }
    if (key != next) {
      database->Fail(Status::Corruption("popped " + std::to_string(key) +
                                        " instead of " + std::to_string(next)));
      break;
    }
    result->pops.Add(static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(end - begin)
            .count()));
    ++next;
    // relaxed: the producer only limits the backlog by it.
    popped->store(next, std::memory_order_relaxed);
  }
  result->pop_seconds = SecondsNow() - start;
}

Status Measure(const SeekConfig& config, const EngineConfig& engine_config,
               bool producer, QueueResult* result) {
  std::unique_ptr<Engine> engine;
  Status status = NewSeekEngine(config, &engine);
  if (!status.ok()) return status;
  SeekDatabase database(engine.get(), engine_config, config.seed);
  status = database.Create();
  if (!status.ok()) return status;
  {
    database.PutLiveKeys(config.size.live);
    std::atomic<uint64_t> pushed{0};
    std::atomic<uint64_t> popped{0};
    std::atomic<bool> stop{false};
    const std::unique_ptr<KeyWriter> pusher = database.MakeWriter();
    const auto push = [&] {
      for (uint64_t i = 0; i < config.size.num; ++i) {
        // relaxed: a push more or less does no harm.
        while (producer && !stop.load(std::memory_order_relaxed) &&
               i >= popped.load(std::memory_order_relaxed) + kMaxBacklog) {
          std::this_thread::sleep_for(std::chrono::microseconds(100));
        }
        // relaxed: as above.
        if (stop.load(std::memory_order_relaxed)) break;
        pusher->Put(i);
        // release: pairs with the acquire of a pop.
        pushed.store(i + 1, std::memory_order_release);
      }
    };
    const double start = SecondsNow();
    double cpu_before = CpuSeconds();
    std::thread thread;
    if (producer) {
      thread = std::thread(push);
    } else {
      push();
      result->push_seconds = SecondsNow() - start;
      cpu_before = CpuSeconds();
    }
    PopAll(config, &database, pushed, &popped, result);
    stop.store(true, std::memory_order_relaxed);  // relaxed: as above.
    if (thread.joinable()) thread.join();
    database.Fail(pusher->status());
    result->cpu_seconds = CpuSeconds() - cpu_before;
    result->user_bytes = database.user_bytes() + pusher->user_bytes();
  }
  result->tables = database.tables();
  return database.Destroy();
}

}  // namespace

Status RunQueue(const SeekConfig& config, const std::string& name,
                JsonWriter* json) {
  const bool producer = name == "queue-producer";
  EngineConfig engine_config = config.engine_config;
  engine_config.value_bytes =
      producer ? kProducerValueBytes
               : strtoul(name.c_str() + name.find('-') + 1, nullptr, 10);
  QueueResult result;
  const Status status = Measure(config, engine_config, producer, &result);
  if (!status.ok()) return status.Annotate(name);
  const double rate = static_cast<double>(result.pops.count()) /
                      std::max(result.pop_seconds, 1e-9);
  json->Text("kind", "queue");
  json->Integer("value_bytes", engine_config.value_bytes);
  json->Integer("num", config.size.num);
  json->Integer("pops", result.pops.count());
  json->Integer("empty_pops", result.empty);
  json->Number("push_seconds", result.push_seconds);
  json->Number("pop_seconds", result.pop_seconds);
  json->Number("pops_per_sec", rate);
  json->Number("last_tenth_pops_per_sec", result.pops.LastTenthRate());
  json->Number("cpu_micros_per_pop", result.cpu_seconds * 1e6 /
                                         static_cast<double>(std::max<uint64_t>(
                                             1, result.pops.count())));
  result.pops.Write("pop", json);
  json->Integer("user_bytes", result.user_bytes);
  json->Integer("table_bytes", result.tables.bytes);
  json->Integer("missed_tables", result.tables.missed);
  printf(
      "%-15s: %.0f pops a second, %.0f in the last tenth, %.0f%% popped, "
      "%s, %.1f MB of tables\n",
      name.c_str(), rate, result.pops.LastTenthRate(),
      100 * static_cast<double>(result.pops.count()) /
          static_cast<double>(config.size.num),
      result.pops.Summary().c_str(),
      static_cast<double>(result.tables.bytes) / 1e6);
  fflush(stdout);
  return Status::OK();
}

}  // namespace varve
