// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads variants
//
// Goal: what a reader found inside a section is not freed before it leaves, all
// that is retired is freed in the end, and no thread or record is lost on the
// way; with fences of the kernel's, and of the readers' own where ctest runs
// these without membarrier. Method: the labelled interleavings of
// util/threads/epoch.h step by step with controlled threads, litmus
// tests of T1 to T3, and stress with objects poisoned when freed.
#include "util/threads/epoch.h"

#include <linux/membarrier.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "test/testing/forked.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "test/testing/threads/actor.h"
#include "test/testing/threads/run_threads.h"

namespace varve {
namespace {

using test::Actor;

constexpr size_t kBatch = 64;
constexpr uint64_t kAlive = 0x616c697665;
constexpr uint64_t kPoison = 0xdeaddeaddead;

std::atomic<int> live_objects{0};

struct Object {
  Object() { live_objects++; }
  ~Object() {
    state = kPoison;
    live_objects--;
  }
  uint64_t state = kAlive;
};

void RetireObject(Object* object) {
  Retire(object, [](void* p) { delete static_cast<Object*>(p); });
}

void RetireNew(size_t count) {
  for (size_t i = 0; i < count; i++) RetireObject(new Object);
}

size_t RecordCount() {
  size_t count = 0;
  ForEachThreadRecord([&count](ThreadRecord*) { count++; });
  return count;
}

void EnterHere() { EpochGuard::Enter(CurrentThreadRecord()); }
void ExitHere() { EpochGuard::Exit(CurrentThreadRecord()); }

class EpochTest : public testing::Test {
 protected:
  void SetUp() override {
    TEST_DrainRetired();
    ASSERT_EQ(live_objects, 0);
  }
  void TearDown() override {
    TEST_DrainRetired();
    EXPECT_EQ(TEST_RetiredCount(), 0u);
    EXPECT_EQ(live_objects, 0);
  }
};

TEST_F(EpochTest, FreesBatchWhenNoReaderIsInside) {
  RetireNew(kBatch - 1);
  EXPECT_EQ(TEST_RetiredCount(), kBatch - 1);
  EXPECT_EQ(live_objects, static_cast<int>(kBatch - 1));
  RetireNew(1);
  EXPECT_EQ(TEST_RetiredCount(), 0u);
  EXPECT_EQ(live_objects, 0);
}

TEST_F(EpochTest, PaysOneBarrierPerBatch) {
  const uint64_t before = TEST_HeavyBarrierCount();
  RetireNew(10 * kBatch + 1);
  EXPECT_EQ(TEST_HeavyBarrierCount() - before, 10u);
  TEST_DrainRetired();
  EXPECT_EQ(TEST_HeavyBarrierCount() - before, 11u);
  TEST_DrainRetired();  // Nothing to do.
  EXPECT_EQ(TEST_HeavyBarrierCount() - before, 11u);
}

TEST_F(EpochTest, FreesFewerThanABatchOnRequest) {
  RetireNew(3);
  FreeRetired();
  EXPECT_EQ(TEST_RetiredCount(), 0u);
  const uint64_t barriers = TEST_HeavyBarrierCount();
  FreeRetired();  // Nothing to do.
  EXPECT_EQ(TEST_HeavyBarrierCount(), barriers);
  Actor reader;
  reader.Do(EnterHere);
  RetireNew(3);
  FreeRetired();
  FreeRetired();  // It waits for nobody.
  EXPECT_EQ(live_objects, 3);
  reader.Do(ExitHere);
  FreeRetired();
  EXPECT_EQ(live_objects, 0);
}

TEST_F(EpochTest, ReaderKeepsItsObjectB1) {
  std::atomic<Object*> shared{new Object};
  Actor reader;
  Object* found = nullptr;
  reader.Do([&] {
    EnterHere();
    found = shared.load();
  });
  RetireObject(shared.exchange(nullptr));
  RetireNew(10 * kBatch);
  EXPECT_EQ(TEST_RetiredCount(), 10 * kBatch + 1);
  reader.Do([&] {
    EXPECT_EQ(found->state, kAlive);
    ExitHere();
  });
  RetireNew(10);
  EXPECT_LT(TEST_RetiredCount(), kBatch);
}

// The next thread that retires an object, perhaps on the path of a read, does
// not free all that a slow reader has kept.
TEST_F(EpochTest, FreesABacklogInParts) {
  Actor reader;
  reader.Do(EnterHere);
  RetireNew(10 * kBatch);
  reader.Do(ExitHere);
  RetireNew(1);
  EXPECT_EQ(TEST_RetiredCount(), 8 * kBatch + 1);
  FreeSomeRetired();
  EXPECT_EQ(TEST_RetiredCount(), 6 * kBatch + 1);
  FreeRetired();
  EXPECT_EQ(TEST_RetiredCount(), 0u);
}

TEST_F(EpochTest, FreesWhenReaderLeftAndEnteredAgainB2) {
  Actor reader;
  reader.Do(EnterHere);
  RetireNew(kBatch);
  EXPECT_EQ(TEST_RetiredCount(), kBatch);
  reader.Do([] {
    ExitHere();
    EnterHere();
  });
  RetireNew(1);
  EXPECT_EQ(TEST_RetiredCount(), 1u);
  reader.Do(ExitHere);
}

TEST_F(EpochTest, NestedEndIsNotTheEndB3) {
  Actor reader;
  reader.Do([] {
    const EpochGuard outer;
    EXPECT_EQ(outer.record(), CurrentThreadRecord());
    EXPECT_EQ(outer.record()->depth, 1u);
    const uint64_t sequence = outer.record()->sequence;
    EXPECT_EQ(sequence % 2, 1u);
    {
      const EpochGuard inner;
      EXPECT_EQ(inner.record()->depth, 2u);
      EXPECT_EQ(inner.record()->sequence, sequence);
    }
    EXPECT_EQ(outer.record()->depth, 1u);
    EXPECT_EQ(outer.record()->sequence, sequence);
  });
  reader.Do([] {
    EXPECT_EQ(CurrentThreadRecord()->depth, 0u);
    EXPECT_EQ(CurrentThreadRecord()->sequence % 2, 0u);
    EpochGuard::Enter(CurrentThreadRecord());
    EpochGuard::Enter(CurrentThreadRecord());
  });
  RetireNew(kBatch);
  reader.Do([] { EXPECT_FALSE(EpochGuard::Exit(CurrentThreadRecord())); });
  RetireNew(kBatch);
  EXPECT_EQ(TEST_RetiredCount(), 2 * kBatch);
  reader.Do([] { EXPECT_TRUE(EpochGuard::Exit(CurrentThreadRecord())); });
  RetireNew(kBatch);
  EXPECT_EQ(TEST_RetiredCount(), 0u);
}

TEST_F(EpochTest, ReaderWithNewRecordCountsB4) {
  std::vector<std::unique_ptr<Actor>> readers;
  // Takes the records that wait for a thread first.
  const size_t before = RecordCount();
  while (RecordCount() == before) {
    readers.push_back(std::make_unique<Actor>());
    readers.back()->Do(EnterHere);
  }
  for (size_t i = 0; i + 1 < readers.size(); i++) readers[i]->Do(ExitHere);
  RetireNew(kBatch);
  EXPECT_EQ(TEST_RetiredCount(), kBatch);
  readers.back()->Do(ExitHere);
  RetireNew(1);
  EXPECT_EQ(TEST_RetiredCount(), 1u);
}

TEST_F(EpochTest, LaterReaderDoesNotDelayBatch) {
  Actor early;
  Actor late;
  early.Do(EnterHere);
  RetireNew(kBatch);
  late.Do(EnterHere);
  early.Do(ExitHere);
  RetireNew(1);
  EXPECT_EQ(TEST_RetiredCount(), 1u);
  late.Do(ExitHere);
}

TEST_F(EpochTest, NewThreadInRecordOfBlockerDoesNotCountB5) {
  Actor former;
  ThreadRecord* record = nullptr;
  former.Do([&] {
    EnterHere();
    record = CurrentThreadRecord();
  });
  RetireNew(kBatch);
  EXPECT_EQ(TEST_RetiredCount(), kBatch);
  former.Do(ExitHere);
  former.End();
  std::vector<std::unique_ptr<Actor>> latter;
  ThreadRecord* reused = nullptr;
  while (reused != record) {
    latter.push_back(std::make_unique<Actor>());
    latter.back()->Do([&] {
      EnterHere();
      reused = CurrentThreadRecord();
    });
  }
  RetireNew(1);
  EXPECT_EQ(TEST_RetiredCount(), 1u);
  for (const auto& actor : latter) actor->Do(ExitHere);
}

TEST_F(EpochTest, HasTheFormThatTheKernelAllows) {
  const long commands = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
  const bool has_membarrier =
      commands > 0 && (commands & MEMBARRIER_CMD_PRIVATE_EXPEDITED) != 0;
  EXPECT_EQ(EpochFenced(), kThreadSanitizer || !has_membarrier);
}

TEST_F(EpochTest, NewRecordHasTheFormOfAll) {
  std::vector<std::unique_ptr<Actor>> readers;
  const size_t before = RecordCount();
  while (RecordCount() == before) {
    readers.push_back(std::make_unique<Actor>());
    readers.back()->Do(
        [] { EXPECT_EQ(CurrentThreadRecord()->fenced, EpochFenced()); });
  }
}

// A link of a chain: freeing one retires the next.
struct Link {
  explicit Link(int left) : links_left(left) { live_links++; }
  ~Link() { live_links--; }
  static void Free(void* pointer) {
    deepest = std::max(deepest, ++depth);
    Link* link = static_cast<Link*>(pointer);
    if (link->links_left > 0) Retire(new Link(link->links_left - 1), Free);
    delete link;
    depth--;
  }
  static int live_links;
  static int depth;
  static int deepest;
  const int links_left;
};
int Link::live_links = 0;
int Link::depth = 0;
int Link::deepest = 0;

TEST_F(EpochTest, DeletersMayRetireB7) {
  Link::deepest = 0;
  for (size_t i = 0; i < kBatch; i++) Retire(new Link(1000), Link::Free);
  // Each drain takes what the one before has left.
  while (TEST_RetiredCount() > 0) TEST_DrainRetired();
  EXPECT_EQ(Link::live_links, 0);
  EXPECT_EQ(Link::deepest, 1);
}

TEST_F(EpochTest, ThreadThatEndsInsideBlocksNothingB6) {
  Actor reader;
  reader.Do([] {
    EnterHere();
    EnterHere();
  });
  RetireNew(kBatch);
  EXPECT_EQ(TEST_RetiredCount(), kBatch);
  reader.End();
  RetireNew(kBatch);
  EXPECT_EQ(TEST_RetiredCount(), 0u);
}

TEST_F(EpochTest, ReadersOfAParentBlockNothingInAChildB8) {
  Actor reader;
  reader.Do([] {
    EnterHere();
    EnterHere();
  });
  RetireNew(kBatch);
  ASSERT_EQ(TEST_RetiredCount(), kBatch);
  const auto child = [] {
    RetireNew(kBatch);
    return TEST_RetiredCount() == 0 ? 0 : 1;
  };
  EXPECT_EQ(test::RunForked(child), 0);
  // The section of the thread that forks goes on.
  const auto inside = [] {
    RetireNew(kBatch);
    const bool kept = TEST_RetiredCount() != 0;
    ExitHere();
    RetireNew(kBatch);
    return kept && TEST_RetiredCount() == 0 ? 0 : 1;
  };
  EnterHere();
  EXPECT_EQ(test::RunForked(inside), 0);
  ExitHere();
  EXPECT_EQ(TEST_RetiredCount(), kBatch);
  reader.Do([] {
    ExitHere();
    ExitHere();
  });
  RetireNew(kBatch);
  EXPECT_EQ(TEST_RetiredCount(), 0u);
}

TEST_F(EpochTest, RetiresInsideOwnSection) {
  {
    const EpochGuard section;
    RetireNew(100 * kBatch);
    EXPECT_EQ(TEST_RetiredCount(), 100 * kBatch);
  }
  RetireNew(kBatch - 1);
  EXPECT_EQ(TEST_RetiredCount(), kBatch - 1);
}

TEST_F(EpochTest, DrainWaitsForReader) {
  Actor reader;
  Actor drainer;
  std::atomic<bool> left{false};
  RetireNew(3);
  reader.Do(EnterHere);
  const uint64_t barriers = TEST_HeavyBarrierCount();
  drainer.Start([&left] {
    TEST_DrainRetired();
    EXPECT_TRUE(left);
    EXPECT_EQ(live_objects, 0);
  });
  while (TEST_HeavyBarrierCount() == barriers) std::this_thread::yield();
  reader.Do([&left] {
    left = true;
    ExitHere();
  });
  drainer.Wait();
}

#ifndef NDEBUG
TEST(EpochDeathTest, StopsWhenMisused) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(EpochGuard::Exit(CurrentThreadRecord()), "broken invariant");
  EXPECT_DEATH(
      {
        const EpochGuard section;
        TEST_DrainRetired();
      },
      "broken invariant");
  EXPECT_DEATH(
      {
        Retire(nullptr, [](void*) { TEST_DrainRetired(); });
        TEST_DrainRetired();
      },
      "broken invariant");
}
#endif

// ---- Litmus tests -----------------------------------------------------------

// Releases two threads at the same moment, as far as possible.
class Rendezvous {
 public:
  void Meet() {
    const int round = arrived_.fetch_add(1) / 2;
    int spins = 0;
    while (arrived_.load() < 2 * (round + 1)) {
      if (++spins > 2000) std::this_thread::yield();
    }
  }

 private:
  std::atomic<int> arrived_{0};
};

// So that the two meet in many ways.
void Dawdle(int turns) {
  for (int i = 0; i < turns; i++) {
    // The compiler keeps the loop.
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
}

// Round by round a reader makes `step` (T1 or T2) and loads x, and a writer
// stores x, makes T3 and loads the reader's sequence. Afterwards either the
// writer saw the step, or the reader saw x. Each has the other's word in its
// cache when they start: its own store then takes longer than its load. Without
// the fence one round in a hundred goes wrong on x86-64 with two idle cores;
// fewer on a busy machine.
void RunLitmus(bool (*step)(ThreadRecord*), void (*reset)(ThreadRecord*)) {
  constexpr int kRounds = kThreadSanitizer ? 5000 : 30000;
  Rendezvous rendezvous;
  alignas(64) std::atomic<int> x{0};
  alignas(64) std::atomic<ThreadRecord*> record{nullptr};
  int x_seen = 0;
  std::thread reader([&] {
    ThreadRecord* const mine = CurrentThreadRecord();
    record = mine;
    for (int round = 1; round <= kRounds; round++) {
      reset(mine);
      rendezvous.Meet();
      EXPECT_EQ(x.load(std::memory_order_relaxed), round - 1);
      rendezvous.Meet();
      Dawdle(round % 64 * 4);
      step(mine);
      x_seen = x.load(std::memory_order_relaxed);
      rendezvous.Meet();
    }
    if (mine->depth > 0) EpochGuard::Exit(mine);
  });
  int missed = 0;
  for (int round = 1; round <= kRounds; round++) {
    rendezvous.Meet();
    ThreadRecord* const theirs = record.load();
    const uint64_t before = theirs->sequence.load(std::memory_order_relaxed);
    rendezvous.Meet();
    Dawdle(round / 64 % 64 * 4);
    x.store(round, std::memory_order_relaxed);
    HeavyBarrier();
    const uint64_t after = theirs->sequence.load(std::memory_order_acquire);
    rendezvous.Meet();
    if (x_seen != round && after == before) missed++;
  }
  reader.join();
  EXPECT_EQ(missed, 0);
}

bool EnterStep(ThreadRecord* record) {
  EpochGuard::Enter(record);
  return true;
}

void LeaveIfInside(ThreadRecord* record) {
  if (record->depth > 0) EpochGuard::Exit(record);
}

void EnterIfOutside(ThreadRecord* record) {
  if (record->depth == 0) EpochGuard::Enter(record);
}

TEST_F(EpochTest, BarrierSeesEnterOrReaderSeesStoreT1T3) {
  RunLitmus(EnterStep, LeaveIfInside);
}

TEST_F(EpochTest, BarrierSeesExitOrReaderSeesStoreT2T3) {
  RunLitmus(EpochGuard::Exit, EnterIfOutside);
}

// ---- Threads that come and go -----------------------------------------------

TEST(ThreadRecordTest, RecordsAreReusedByTenThousandThreads) {
  constexpr size_t kAtOnce = 10;
  const size_t before = RecordCount();
  for (int round = 0; round < 1000; round++) {
    test::RunThreads(kAtOnce, [](size_t) { const EpochGuard section; });
  }
  EXPECT_LE(RecordCount(), before + kAtOnce);
}

TEST_F(EpochTest, ThreadsHaveRecordsOfTheirOwn) {
  constexpr size_t kThreads = 200;
  std::vector<std::unique_ptr<Actor>> actors;
  std::set<ThreadRecord*> records;
  for (size_t i = 0; i < kThreads; i++) {
    actors.push_back(std::make_unique<Actor>());
    actors.back()->Do([&] { records.insert(CurrentThreadRecord()); });
  }
  EXPECT_EQ(records.size(), kThreads);
  EXPECT_EQ(records.count(CurrentThreadRecord()), 0u);
}

struct LateReader {
  ~LateReader() { const EpochGuard section; }
};

void ReadAtKeyDestruction(void* rounds_left) {
  const EpochGuard section;
  pthread_key_t key = *static_cast<pthread_key_t*>(rounds_left);
  static thread_local int rounds = 0;
  // Once more in the next round, after the record has been returned once.
  if (++rounds < 2) pthread_setspecific(key, rounds_left);
}

TEST_F(EpochTest, DestructorsAtThreadExitMayRead) {
  pthread_key_t key;
  ASSERT_EQ(pthread_key_create(&key, ReadAtKeyDestruction), 0);
  const auto read_late = [&key] {
    static thread_local LateReader before;
    static_cast<void>(&before);
    const EpochGuard section;
    static thread_local LateReader after;
    static_cast<void>(&after);
    pthread_setspecific(key, &key);
  };
  std::thread(read_late).join();
  const size_t records = RecordCount();
  for (int i = 0; i < 100; i++) std::thread(read_late).join();
  EXPECT_EQ(RecordCount(), records);
  pthread_key_delete(key);
}

// ---- Stress -----------------------------------------------------------------

class Cells {
 public:
  Cells() {
    for (auto& cell : cells_) cell = new Object;
  }
  ~Cells() {
    for (auto& cell : cells_) delete cell.load();
  }
  // Reads some cells, all in one section or in nested ones.
  void Read(test::Rng* rng) {
    const EpochGuard section;
    Object* first = Load(rng);
    if (rng->OneIn(4)) {
      const EpochGuard nested;
      EXPECT_EQ(Load(rng)->state, kAlive);
    }
    EXPECT_EQ(first->state, kAlive);
  }
  void Write(test::Rng* rng) {
    auto& cell = cells_[rng->Below(cells_.size())];
    // acq_rel: pairs with Load, and hands the old object on.
    RetireObject(cell.exchange(new Object, std::memory_order_acq_rel));
  }

 private:
  Object* Load(test::Rng* rng) {
    auto& cell = cells_[rng->Below(cells_.size())];
    return cell.load(std::memory_order_acquire);
  }
  std::array<std::atomic<Object*>, 4> cells_;
};

// Readers, writers, and threads that live for one read.
TEST_F(EpochTest, ReadersNeverSeeFreedObjectsUnderStress) {
  constexpr int kWrites = 20000;
  const uint64_t seed = test::TestSeed();
  Cells cells;
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < 3; i++) {
    threads.emplace_back([&cells, &done, seed, i] {
      test::Rng rng(seed + i);
      while (!done) cells.Read(&rng);
    });
  }
  threads.emplace_back([&cells, &done, seed] {
    test::Rng rng(seed + 3);
    while (!done) {
      std::thread([&] { cells.Read(&rng); }).join();
    }
  });
  test::RunThreads(2, [&cells, seed](uint64_t i) {
    test::Rng rng(seed + 10 + i);
    for (int write = 0; write < kWrites; write++) {
      cells.Write(&rng);
      if (write % 1000 == 0) TEST_DrainRetired();
    }
  });
  done = true;
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace varve
