// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Loops with keys that are written once at a time, and loops that run in one
// thread with more than a session: over files, or another database.

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <deque>
#include <filesystem>
#include <numbers>
#include <queue>
#include <string>
#include <system_error>
#include <vector>

#include "tools/db_bench/loops/loop_parts.h"
#include "tools/db_bench/workload_loops.h"
#include "util/base/append_format.h"

namespace varve {

namespace {

// Uniform in [0, 1).
double Part(Random* random) {
  constexpr uint64_t kParts = uint64_t{1} << 53;
  return static_cast<double>(random->Uniform(kParts)) /
         static_cast<double>(kParts);
}

// The next operation of fillanddeleteuniquerandom. Entry numbers follow each
// other: a batch of disposable entries, then the batch of entries that are
// kept.
class DisposableTurns {
 public:
  enum Kind : uint8_t { kDisposable, kKept, kDelete };
  struct Turn {
    Kind kind;
    uint64_t entry;
  };

  explicit DisposableTurns(const DisposableEntries& config) : config_(config) {}

  Turn Next() {
    if (!due_.empty() && due_.front().time <= Clock::now()) {
      const uint64_t first = due_.front().first_entry;
      const uint64_t step = steps_++;
      if (steps_ == config_.kept_batch + config_.batch) {
        due_.pop();
        steps_ = 0;
      }
      if (step < config_.kept_batch) {
        return {kKept, first + config_.batch + step};
      }
      return {kDelete, first + step - config_.kept_batch};
    }
    const Turn turn = {kDisposable, next_++};
    if (++in_batch_ == config_.batch) {
      due_.push({Clock::now() + config_.delay, next_ - config_.batch});
      next_ += config_.kept_batch;
      in_batch_ = 0;
    }
    return turn;
  }

 private:
  // The deletions of a batch, and the entries to be written before.
  struct Due {
    Clock::time_point time;
    uint64_t first_entry;
  };

  const DisposableEntries& config_;
  std::queue<Due> due_;
  uint64_t steps_ = 0;  // Done of the first one that is due.
  uint64_t next_ = 0;
  uint64_t in_batch_ = 0;
};

void FillAndDelete(LoopContext* context, LoopThread* thread) {
  const DisposableEntries& config = context->config.disposable;
  const Permutation permutation(context->config.entries,
                                thread->permutation_seed);
  DisposableTurns turns(config);
  BatchSizes sizes(*context);
  Pacer pacer = WritePacer(*context);
  uint64_t written = 0;
  uint64_t deleted = 0;
  // relaxed: a thread that ends a little later does no harm.
  const auto wanted = [context] {
    return !context->stop.load(std::memory_order_relaxed);
  };
  const auto write = [&]() -> uint64_t {
    const uint64_t batch = sizes.Next();
    for (uint64_t i = 0; i < batch; ++i) {
      const DisposableTurns::Turn turn = turns.Next();
      SetKey(*context, thread,
             permutation.At(turn.entry % context->config.entries));
      thread->bytes += thread->key.size();
      if (turn.kind == DisposableTurns::kDelete) {
        thread->session->Delete(thread->key);
        ++deleted;
        continue;
      }
      const Slice value = thread->values.Next(
          turn.kind == DisposableTurns::kKept ? config.kept_value_bytes
                                              : config.value_bytes);
      thread->session->Put(thread->key, value);
      thread->bytes += value.size();
      ++written;
    }
    thread->status = thread->session->Commit();
    return thread->status.ok() ? batch : 0;
  };
  Repeat(context, thread, write,
         [&] { return pacer.Wait(thread->bytes, wanted); });
  AppendFormat(&thread->message,
               "(%" PRIu64 " keys written, %" PRIu64 " of them deleted)",
               written, deleted);
}

void FillAndOverwrite(LoopContext* context, LoopThread* thread) {
  const Overwrites& config = context->config.overwrites;
  KeyNumbers numbers(*context, thread);
  std::deque<uint64_t> recent;
  uint64_t keys = 0;
  uint64_t overwrites = 0;
  WriteKeys(context, thread, [&] {
    if (!recent.empty() && Part(&thread->random) < config.probability) {
      ++overwrites;
      return recent[thread->random.Uniform(recent.size())];
    }
    ++keys;
    if (recent.size() >= config.window) recent.pop_front();
    recent.push_back(numbers.Next());
    return recent.back();
  });
  AppendFormat(&thread->message,
               "(%" PRIu64 " keys written, %" PRIu64 " overwrites)", keys,
               overwrites);
}

}  // namespace

void FillUniqueLoop(LoopContext* context, LoopThread* thread) {
  if (context->config.disposable.batch > 0) {
    FillAndDelete(context, thread);
  } else if (context->config.overwrites.probability > 0) {
    FillAndOverwrite(context, thread);
  } else {
    WriteLoop(context, thread);
  }
}

void ReplaceKeysLoop(LoopContext* context, LoopThread* thread) {
  constexpr uint64_t kVersions = 50;
  const WorkloadConfig& config = context->config;
  const uint64_t ids = config.distinct_keys;
  const uint64_t first = static_cast<uint64_t>(thread->index) * ids * kVersions;
  EngineSession* const session = thread->session.get();
  std::vector<uint8_t> versions(ids);
  const auto set_key = [&](uint64_t id) {
    SetKey(*context, thread, first + id * kVersions + versions[id]);
  };
  for (uint64_t id = 0; id < ids; ++id) {
    set_key(id);
    if (!Write(thread, thread->values.Next())) return;
  }
  thread->bytes = 0;
  // The versions that it sees stay.
  if (!session->HoldSnapshot()) {
    thread->status = Status::NotSupported("the engine has no snapshots");
    return;
  }
  Repeat(context, thread, [&]() -> uint64_t {
    // A normal distribution, by the method of Box and Muller.
    const double normal =
        std::sqrt(-2 * std::log(1 - Part(&thread->random))) *
        std::cos(2 * std::numbers::pi * Part(&thread->random));
    const double wanted =
        static_cast<double>(ids) / 2 + config.key_deviation * normal;
    const auto id = static_cast<uint64_t>(
        std::clamp(wanted, 0.0, static_cast<double>(ids - 1)));
    set_key(id);
    if (!config.single_deletes) {
      session->Delete(thread->key);
    } else if (!session->SingleDelete(thread->key)) {
      thread->status =
          Status::NotSupported("the engine has no --use_single_deletes");
      return 0;
    }
    thread->status = session->Commit();
    if (!thread->status.ok()) return 0;
    thread->bytes += thread->key.size();
    versions[id] = static_cast<uint8_t>((versions[id] + 1) % kVersions);
    set_key(id);
    return Write(thread, Slice()) ? 1 : 0;
  });
  AppendFormat(&thread->message,
               "(use single deletes: %d, standard deviation: %f)",
               config.single_deletes ? 1 : 0, config.key_deviation);
}

void IngestLoop(LoopContext* context, LoopThread* thread) {
  const WorkloadConfig& config = context->config;
  const std::filesystem::path directory =
      std::filesystem::path(context->engine_config->path) / "ingest_tmp";
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) {
    thread->status = Status::FromErrno(directory.string(), error.value());
    return;
  }
  Repeat(context, thread, [&]() -> uint64_t {
    std::vector<std::string> paths;
    for (uint64_t i = 0; i < config.ingest_tables; ++i) {
      paths.push_back(directory / ("ingest_" + std::to_string(i) + ".sst"));
      uint64_t number = 0;
      thread->status = context->engine->WriteTable(
          paths.back(), [&](Slice* key, Slice* value) {
            if (number == config.entries) return false;
            SetKey(config, number++, thread->key.size(), thread->key.data());
            *key = thread->key;
            *value = thread->values.Next();
            thread->bytes += key->size() + value->size();
            return true;
          });
      if (!thread->status.ok()) return 0;
    }
    thread->status = context->engine->IngestTables(paths);
    return thread->status.ok() ? 1 : 0;
  });
  // Of a failure, too, which has files left.
  std::filesystem::remove_all(directory, error);
  AppendFormat(&thread->message,
               "(%" PRIu64 " batches x %" PRIu64 " files, %" PRIu64
               " keys/file)",
               config.ingest_calls, config.ingest_tables, config.entries);
}

void GetOperandsLoop(LoopContext* context, LoopThread* thread) {
  constexpr int kNumbers = 100000;
  constexpr int kListNumbers = 100;
  constexpr int kSought = 1;
  EngineSession* const session = thread->session.get();
  const std::string key = "my_key";
  std::string list;
  for (int i = 1; i < kNumbers; ++i) {
    if (i % kListNumbers != 0) {
      list.append(list.empty() ? "" : ",").append(std::to_string(i));
      continue;
    }
    if (!session->Merge(key, list)) {
      thread->status = Status::NotSupported("the engine has no merges");
      return;
    }
    thread->status = session->Commit();
    if (!thread->status.ok()) return;
    list.clear();
  }
  const auto has = [&](const Slice& numbers) {
    const std::vector<int> sorted = SortedNumbers(numbers);
    return std::binary_search(sorted.begin(), sorted.end(), kSought);
  };
  bool in_value = false;
  bool in_operand = false;
  double seconds[2] = {};
  int turn = 0;
  Repeat(context, thread, [&]() -> uint64_t {
    if (turn == 2) return 0;
    const Clock::time_point start = Clock::now();
    Lookup lookup;
    if (turn == 0) {
      Slice value;
      lookup = session->Get(key, &value);
      if (lookup == Lookup::kFound) in_value = has(value);
    } else {
      lookup = session->GetOperands(key, [&](const Slice& operand) {
        in_operand = in_operand || has(operand);
      });
    }
    if (lookup == Lookup::kError) {
      thread->status = session->error();
      return 0;
    }
    seconds[turn++] =
        std::chrono::duration<double>(Clock::now() - start).count();
    return 1;
  });
  AppendFormat(&thread->message,
               "(Get: %f seconds, %s; GetMergeOperands: %f seconds, %s)",
               seconds[0], in_value ? "found" : "not found", seconds[1],
               in_operand ? "found" : "not found");
}

void CompareLoop(LoopContext* context, LoopThread* thread) {
  const std::unique_ptr<Engine> other = context->engine->NewSame();
  EngineConfig config = *context->engine_config;
  config.path = context->config.truth_path;
  config.create_if_missing = false;
  config.read_only = true;
  config.transactions = TransactionKind::kNone;
  thread->status =
      config.path.empty() ? Status::InvalidArgument("verify needs --truth_db")
      : other == nullptr  ? Status::NotSupported("the engine has no verify")
                          : other->Open(config);
  if (!thread->status.ok()) return;
  {
    const std::unique_ptr<EngineSession> session = other->NewSession();
    const std::unique_ptr<EngineCursor> truth = session->NewCursor();
    const std::unique_ptr<EngineCursor> cursor = thread->session->NewCursor();
    const auto differ = [&](const char* what) -> uint64_t {
      thread->status = Status::Corruption("verify", what);
      return 0;
    };
    cursor->Renew();
    truth->Renew();
    bool valid = cursor->SeekToFirst();
    bool truth_valid = truth->SeekToFirst();
    Repeat(context, thread, [&]() -> uint64_t {
      if (!valid || !truth_valid) {
        thread->status = cursor->status();
        if (thread->status.ok()) thread->status = truth->status();
        if (!thread->status.ok()) return 0;
        return valid ? differ("the database has more keys than --truth_db")
               : truth_valid
                   ? differ("--truth_db has more keys than the database")
                   : 0;
      }
      Slice value;
      if (cursor->key != truth->key || cursor->value != truth->value) {
        return differ("an entry differs");
      }
      // The same by a Get.
      thread->key = truth->key.ToString();
      if (!Read(thread, &value)) return 0;
      if (value != truth->value) return differ("a Get differs");
      valid = cursor->Next();
      truth_valid = truth->Next();
      return 1;
    });
  }
  const Status closed = other->Close();
  if (thread->status.ok()) thread->status = closed;
}

}  // namespace varve
