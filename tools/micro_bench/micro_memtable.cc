// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// The cost of the memtable and of its ordered structures: 500,000 entries of
// 16-byte keys and 100-byte values.
//
// Times are of one operation by the wall clock, all threads together. cpu_ns is
// the threads' CPU time, which other programs disturb less.

#include <time.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "db/memtable/baseline/skiplist.h"
#include "db/memtable/baseline/skiplist_order.h"
#include "db/memtable/blink_tree.h"
#include "db/memtable/memtable.h"
#include "tools/micro_bench/micro_bench.h"
#include "util/base/random.h"
#include "util/bytes/coding.h"
#include "util/bytes/hash.h"

namespace varve::bench {
namespace {

constexpr size_t kCount = 500000;
constexpr size_t kValueBytes = 100;
constexpr size_t kWriteBufferBytes = size_t{128} << 20;

enum Order : int { kRandom, kSequential, kSharedPrefix };

struct Key {
  char bytes[16];
  Slice slice() const { return Slice(bytes, sizeof(bytes)); }
};

// Returns the same keys at each call.
std::vector<Key> MakeKeys(Order order) {
  Random random(42);
  std::vector<Key> keys(kCount);
  for (size_t i = 0; i < kCount; ++i) {
    Key& key = keys[i];
    memset(key.bytes, '0', sizeof(key.bytes));
    const uint64_t number = order == kSequential ? i : random.Next();
    const uint64_t big_endian = __builtin_bswap64(number);
    memcpy(key.bytes + (order == kSharedPrefix ? 8 : 0), &big_endian, 8);
  }
  return keys;
}

bool IsOf(const char* entry, const Slice& key) {
  return ExtractUserKey(EntryKey(entry)) == ExtractUserKey(key);
}

template <typename Structure>
struct Ordered;
template <>
struct Ordered<BlinkTree> {
  Arena entries, nodes;
  BlinkTree structure{&Comparator(), &entries, &nodes};

  static const InternalKeyComparator& Comparator() {
    static const InternalKeyComparator comparator(BytewiseComparator());
    return comparator;
  }
  bool Find(const Slice& key) const {
    const char* const entry = structure.LowerBound(key);
    return entry != nullptr && IsOf(entry, key);
  }
};
template <>
struct Ordered<SkipList> {
  Arena entries;
  SkipList structure{&Ordered<BlinkTree>::Comparator(), &entries};

  bool Find(const Slice& key) const {
    SkipList::Iterator iterator(&structure);
    iterator.Seek(key);
    return iterator.Valid() && IsOf(iterator.entry(), key);
  }
};

template <typename Structure>
void Add(Structure* structure, const Key& key, SequenceNumber sequence) {
  constexpr size_t kSize = sizeof(key.bytes) + kTrailerSize;
  const ArenaPlace place = structure->AllocateEntry(2 + kSize + kValueBytes);
  char* const entry = place.data;
  entry[0] = static_cast<char>(kSize);
  memcpy(entry + 1, key.bytes, sizeof(key.bytes));
  EncodeFixed64(entry + 1 + sizeof(key.bytes),
                PackTrailer(sequence, ValueType::kValue));
  entry[1 + kSize] = static_cast<char>(kValueBytes);
  memset(entry + 2 + kSize, 'v', kValueBytes);
  structure->Insert(place, Slice(entry + 1, kSize));
}

double Seconds(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) +
         static_cast<double>(time.tv_nsec) * 1e-9;
}

// Runs `step(i)` for all i in the threads, and sets the times of one step.
template <typename Function>
void Measure(benchmark::State* state, size_t thread_count,
             const Function& step) {
  const auto run = [&](size_t thread) {
    for (size_t i = thread; i < kCount; i += thread_count) step(i);
  };
  const double cpu = Seconds(CLOCK_PROCESS_CPUTIME_ID);
  const double start = Seconds(CLOCK_MONOTONIC);
  std::vector<std::thread> threads;
  for (size_t t = 1; t < thread_count; ++t) threads.emplace_back(run, t);
  run(0);
  for (std::thread& thread : threads) thread.join();
  state->SetIterationTime((Seconds(CLOCK_MONOTONIC) - start) / kCount);
  state->counters["cpu_ns"] =
      (Seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu) / kCount * 1e9;
}

template <typename Structure>
void Insert(benchmark::State& state) {
  const auto keys = MakeKeys(static_cast<Order>(state.range(0)));
  for (auto _ : state) {
    auto ordered = std::make_unique<Ordered<Structure>>();
    Measure(&state, static_cast<size_t>(state.range(1)),
            [&](size_t i) { Add(&ordered->structure, keys[i], i + 1); });
  }
}

template <typename Structure>
void Find(benchmark::State& state) {
  auto keys = MakeKeys(static_cast<Order>(state.range(0)));
  Ordered<Structure> ordered;
  for (size_t i = 0; i < kCount; ++i) Add(&ordered.structure, keys[i], i + 1);
  Random random(7);
  for (size_t i = kCount; i > 1; --i) {
    std::swap(keys[i - 1], keys[random.Uniform(i)]);
  }
  for (auto _ : state) {
    size_t found = 0;
    Measure(&state, 1, [&](size_t i) {
      const LookupKey key(keys[i].slice(), kMaxSequenceNumber);
      found += ordered.Find(key.internal_key()) ? 1 : 0;
    });
    if (found != kCount) state.SkipWithError("a key is missing");
  }
}

template <typename Structure>
void Scan(benchmark::State& state) {
  const auto keys = MakeKeys(kRandom);
  Ordered<Structure> ordered;
  for (size_t i = 0; i < kCount; ++i) Add(&ordered.structure, keys[i], i + 1);
  for (auto _ : state) {
    typename Structure::Iterator iterator(&ordered.structure);
    iterator.SeekToFirst();
    uint64_t sum = 0;
    Measure(&state, 1, [&](size_t) {
      sum += EntryKey(iterator.entry()).size();
      iterator.Next();
    });
    if (sum != kCount * 24) state.SkipWithError("an entry is missing");
  }
}

template <NewMemTableOrder* kOrder>
void MemTableAdd(benchmark::State& state) {
  const auto keys = MakeKeys(static_cast<Order>(state.range(0)));
  const std::string value(kValueBytes, 'v');
  for (auto _ : state) {
    auto memtable = std::make_unique<MemTable>(
        &Ordered<BlinkTree>::Comparator(), 0, kWriteBufferBytes, kOrder);
    Measure(&state, static_cast<size_t>(state.range(1)), [&](size_t i) {
      memtable->Add(i + 1, ValueType::kValue, keys[i].slice(), value);
    });
    state.counters["bytes_each"] =
        static_cast<double>(memtable->ApproximateMemoryUsage()) / kCount;
  }
}

void OneRound(benchmark::internal::Benchmark* benchmark) {
  benchmark->UseManualTime()->Iterations(1)->Unit(benchmark::kNanosecond);
}
void Arguments(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"order", "threads"});
  for (const int threads : {1, 2, 4}) benchmark->Args({kRandom, threads});
  benchmark->Args({kSequential, 1})->Args({kSharedPrefix, 1});
  OneRound(benchmark);
}
void FindArguments(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgName("order")->Arg(kRandom)->Arg(kSharedPrefix);
  OneRound(benchmark);
}

}  // namespace

void AddMemTable() {
  const auto add = [](const char* name, auto function, auto arguments) {
    benchmark::RegisterBenchmark(name, function)->Apply(arguments);
  };
  add("Insert/BlinkTree", Insert<BlinkTree>, Arguments);
  add("Insert/SkipList", Insert<SkipList>, Arguments);
  add("Find/BlinkTree", Find<BlinkTree>, FindArguments);
  add("Find/SkipList", Find<SkipList>, FindArguments);
  add("Scan/BlinkTree", Scan<BlinkTree>, OneRound);
  add("Scan/SkipList", Scan<SkipList>, OneRound);
  add("MemTableAdd/BlinkTree", MemTableAdd<nullptr>, Arguments);
  add("MemTableAdd/SkipList", MemTableAdd<&NewSkipListOrder>, Arguments);
}

}  // namespace varve::bench
