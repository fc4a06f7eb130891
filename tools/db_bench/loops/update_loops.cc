// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Loops that read keys and write them again.

#include <algorithm>
#include <charconv>
#include <cinttypes>
#include <cstdio>
#include <string>
#include <vector>

#include "tools/db_bench/loops/loop_parts.h"
#include "tools/db_bench/workload_loops.h"

namespace varve {

namespace {

// Reads a random key and writes make(old value), until it is time.
template <typename Make>
void Update(LoopContext* context, LoopThread* thread, Make make) {
  KeyNumbers numbers(*context, thread);
  Pacer pacer(context->config.write_bytes_per_second, context->threads);
  // relaxed: a thread that ends a little later does no harm.
  const auto wanted = [context] {
    return !context->stop.load(std::memory_order_relaxed);
  };
  const auto update = [&]() -> uint64_t {
    SetKey(*context, thread, numbers.Next());
    Slice old_value;
    if (!Read(thread, &old_value)) return 0;
    return Write(thread, make(old_value)) ? 1 : 0;
  };
  Repeat(context, thread, update,
         [&] { return pacer.Wait(thread->bytes, wanted); });
}

// The kinds of the operations of a mix. Of each 100, the reads come first, then
// the writes.
class Turns {
 public:
  enum Kind : uint8_t { kRead, kWrite, kDelete };

  // Deletions beyond 100 operations are left out.
  Turns(uint64_t reads, uint64_t deletes)
      : reads_(reads), writes_(100 - reads - std::min(deletes, 100 - reads)) {}

  Kind Next() {
    const uint64_t turn = turn_++ % 100;
    if (turn < reads_) return kRead;
    return turn < reads_ + writes_ ? kWrite : kDelete;
  }

 private:
  const uint64_t reads_;
  const uint64_t writes_;
  uint64_t turn_ = 0;
};

// The key of a set of transactions begins with the set's number.
std::string SetPrefix(uint64_t set) {
  char text[24];
  snprintf(text, sizeof(text), "%04" PRIu64, set + 1);
  return text;
}

}  // namespace

void UpdateLoop(LoopContext* context, LoopThread* thread) {
  Update(context, thread,
         [thread](const Slice& /*old*/) { return thread->values.Next(); });
}

void XorUpdateLoop(LoopContext* context, LoopThread* thread) {
  std::string value;
  Update(context, thread, [&](const Slice& old_value) -> Slice {
    value = thread->values.Next().ToString();
    for (size_t i = 0; i < std::min(value.size(), old_value.size()); ++i) {
      value[i] = static_cast<char>(value[i] ^ old_value[i]);
    }
    return value;
  });
}

void AppendLoop(LoopContext* context, LoopThread* thread) {
  std::string value;
  Update(context, thread, [&](const Slice& old_value) -> Slice {
    value.assign(old_value.data(), old_value.size());
    if (!value.empty()) value.push_back(',');
    const Slice more = thread->values.Next();
    value.append(more.data(), more.size());
    return value;
  });
}

void ReadOrWriteLoop(LoopContext* context, LoopThread* thread) {
  KeyNumbers numbers(*context, thread);
  Turns turns(context->config.read_percent, 0);
  Repeat(context, thread, [&]() -> uint64_t {
    SetKey(*context, thread, numbers.Next());
    Slice value;
    const bool done = turns.Next() == Turns::kRead
                          ? Read(thread, &value)
                          : Write(thread, thread->values.Next());
    return done ? 1 : 0;
  });
}

void VerifyLoop(LoopContext* context, LoopThread* thread) {
  constexpr size_t kCopies = 3;
  const WorkloadConfig& config = context->config;
  KeyNumbers numbers(*context, thread);
  Turns turns(config.read_percent, config.delete_percent);
  EngineSession* const session = thread->session.get();
  std::string keys[kCopies];
  std::vector<std::string> values(kCopies);
  Repeat(context, thread, [&]() -> uint64_t {
    SetKey(*context, thread, numbers.Next());
    std::vector<Slice> slices;
    for (size_t i = 0; i < kCopies; ++i) {
      keys[i] = thread->key;
      keys[i].push_back(static_cast<char>('0' + i));
      slices.emplace_back(keys[i]);
    }
    const Turns::Kind turn = turns.Next();
    if (turn == Turns::kRead) {
      ++thread->lookups;
      if (!session->GetAtOnce(slices, &values)) {
        thread->status = session->error();
        return 0;
      }
      thread->found += values[0].empty() ? 0 : 1;
      for (const std::string& value : values) {
        thread->failures += value != values[0] ? 1 : 0;
        thread->bytes += value.size();
      }
      return 1;
    }
    const Slice value = thread->values.Next();
    for (const Slice& key : slices) {
      if (turn == Turns::kWrite) {
        session->Put(key, value);
      } else {
        session->Delete(key);
      }
    }
    thread->status = session->Commit();
    return thread->status.ok() ? 1 : 0;
  });
}

void TransactionLoop(LoopContext* context, LoopThread* thread) {
  constexpr uint64_t kMostAdded = 100;
  const WorkloadConfig& config = context->config;
  KeyNumbers numbers(*context, thread);
  std::vector<std::string> keys(config.transaction_sets);
  const auto pause = [&] {
    if (config.transaction_sleep_us == 0) return;
    std::this_thread::sleep_for(std::chrono::microseconds(
        thread->random.Uniform(config.transaction_sleep_us)));
  };
  Repeat(context, thread, [&]() -> uint64_t {
    for (uint64_t set = 0; set < config.transaction_sets; ++set) {
      keys[set] = SetPrefix(set) + std::to_string(numbers.Next());
    }
    const uint64_t added = 1 + thread->random.Uniform(kMostAdded);
    const Status status = thread->session->AddToEach(
        keys, added, config.transaction_snapshots, pause);
    if (status.IsBusy() || status.IsTimedOut() || status.IsAborted()) {
      ++thread->failures;
    } else if (!status.ok()) {
      thread->status = status;
      return 0;
    }
    return 1;
  });
}

Status CheckTransactions(const WorkloadConfig& config, EngineSession* session) {
  const std::unique_ptr<EngineCursor> cursor = session->NewCursor();
  cursor->Renew();
  uint64_t first_sum = 0;
  for (uint64_t set = 0; set < config.transaction_sets; ++set) {
    const std::string prefix = SetPrefix(set);
    uint64_t sum = 0;
    bool valid = cursor->Seek(prefix);
    for (; valid && cursor->key.starts_with(prefix); valid = cursor->Next()) {
      uint64_t number = 0;
      const char* const end = cursor->value.data() + cursor->value.size();
      if (std::from_chars(cursor->value.data(), end, number).ptr != end) {
        return Status::Corruption("randomtransaction", "not a number");
      }
      sum += number;
    }
    if (!cursor->status().ok()) return cursor->status();
    if (set == 0) first_sum = sum;
    if (sum != first_sum) {
      return Status::Corruption("randomtransaction",
                                "sums of sets of keys differ");
    }
  }
  return Status::OK();
}

}  // namespace varve
