// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Textbook cases, whose traffic is known without a model: see the test.

#include <atomic>
#include <mutex>
#include <shared_mutex>

#include "tools/cores_bench/topics.h"

namespace varve::cores {

namespace {

// A fixture of one object, and workers that call a function with it.
template <typename Shared>
class Kernel final : public Fixture {
 public:
  using Body = void (*)(Shared*, size_t core);
  explicit Kernel(Body body) : body_(body) {}

  Worker* NewWorker(size_t core) override {
    class Runner final : public Worker {
     public:
      Runner(Body body, Shared* shared, size_t core)
          : body_(body), shared_(shared), core_(core) {}
      void Run(size_t /*round*/) override { body_(shared_, core_); }

     private:
      const Body body_;
      Shared* const shared_;
      const size_t core_;
    };
    return new Runner(body_, shared_.get(), core);
  }

 private:
  const Body body_;
  const std::unique_ptr<Shared> shared_ = std::make_unique<Shared>();
};

template <typename Shared>
Variant KernelVariant(const char* name, void (*body)(Shared*, size_t),
                      const Known& known) {
  return {name,
          [body]() -> std::unique_ptr<Fixture> {
            return std::make_unique<Kernel<Shared>>(body);
          },
          nullptr, known};
}

// Lines of their own, also for the prefetcher, which fetches pairs.
struct alignas(128) OneCounter {
  std::atomic<uint64_t> count{0};
};
struct alignas(128) Neighbours {
  std::atomic<uint64_t> counts[kMaxCores] = {};
};
struct Apart {
  OneCounter counts[kMaxCores];
};
struct alignas(128) CounterWithMutex {
  std::mutex mutex;
  uint64_t count = 0;
};
struct alignas(128) ReaderLock {
  std::shared_mutex mutex;
  uint64_t value = 1;
};
struct ShardedReaderLock {
  ReaderLock shards[kMaxCores];
};

void AddShared(OneCounter* counter, size_t /*core*/) {
  // relaxed: a count.
  counter->count.fetch_add(1, std::memory_order_relaxed);
}
// Plain stores, as only one thread writes each.
void AddNeighbour(Neighbours* all, size_t core) {
  // relaxed: a count.
  all->counts[core].store(all->counts[core].load(std::memory_order_relaxed) + 1,
                          std::memory_order_relaxed);
}
void AddApart(Apart* all, size_t core) {
  std::atomic<uint64_t>* const count = &all->counts[core].count;
  // relaxed: a count.
  count->store(count->load(std::memory_order_relaxed) + 1,
               std::memory_order_relaxed);
}
void AddWithMutex(CounterWithMutex* counter, size_t /*core*/) {
  const std::lock_guard lock(counter->mutex);
  ++counter->count;
}
void ReadWithLock(ReaderLock* lock, size_t /*core*/) {
  const std::shared_lock read(lock->mutex);
  asm volatile("" ::"r"(lock->value));
}
void ReadWithShard(ShardedReaderLock* lock, size_t core) {
  ReadWithLock(&lock->shards[core], core);
}
void ReadOnly(ReaderLock* lock, size_t /*core*/) {
  asm volatile("" ::"r"(lock->value));
}

constexpr Known kNone = {0, 0, "no core writes what another one uses"};

}  // namespace

std::vector<Topic> KernelTopics() {
  return {
      {"kernel-counter",
       "an addition to a counter",
       {KernelVariant("core-local", AddApart, kNone),
        KernelVariant("neighbors", AddNeighbour,
                      {.01, 2,
                       "a load and a store, but many stores may wait for the "
                       "line together"}),
        KernelVariant("shared", AddShared, {1, 1, "each waits for the line"}),
        KernelVariant("mutex", AddWithMutex,
                      {0, 5,
                       "it is tried once or twice, the counter is loaded and "
                       "stored, it is released; who has it may take it again "
                       "before a sleeper runs"})}},
      {"kernel-reader",
       "a read of a value that nobody writes",
       {KernelVariant("no lock", ReadOnly, kNone),
        KernelVariant("sharded lock", ReadWithShard, kNone),
        KernelVariant("one lock", ReadWithLock,
                      {1, 0,
                       "each reader counts itself, at the end by a "
                       "compare-and-swap that beginning and ending readers "
                       "let fail",
                       0, 2})}},
  };
}

}  // namespace varve::cores
