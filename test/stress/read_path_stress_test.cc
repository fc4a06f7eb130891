// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: reads that take no lock see a consistent database whatever happens
// around them, and leave nothing pinned: not by threads that died, nor by
// threads that idle, nor in databases that were closed. Method: values carry
// their key and count, so that every reader can judge what it sees; meant to
// run under ThreadSanitizer as well. VARVE_STRESS_SECONDS sets the length of
// the tests that go on for a time, VARVE_THREAD_BIRTHS how many threads die.

#include <malloc.h>

#include "test/testing/db/read_stress.h"
#include "test/testing/directory.h"
#include "test/testing/sanitizers.h"
#include "test/testing/test_headers.h"
#include "test/testing/threads/actor.h"
#include "test/testing/threads/run_threads.h"

#if defined(VARVE_TEST_SANITIZED)
// A function of the sanitizers' allocators. Not all compilers have its header.
extern "C" size_t __sanitizer_get_current_allocated_bytes();
#endif

namespace varve::test {
namespace {

#if defined(VARVE_TEST_SANITIZED)
constexpr int kThreadBirths = 20000;
size_t HeapBytes() { return __sanitizer_get_current_allocated_bytes(); }
#else
constexpr int kThreadBirths = 100000;
size_t HeapBytes() {
  const auto info = mallinfo2();
  return info.uordblks + info.hblkhd;
}
#endif

class ReadPathStressTest : public ReadStressTestBase {};

// ---- Everything at once -----------------------------------------------------

TEST_F(ReadPathStressTest, AllKindsOfReadsAndChangesAtOnce) {
  Open();
  Fill(db_.get());
  // A second database that is closed and opened all the time. A reader keeps it
  // from being closed. Threads outlive it.
  std::shared_mutex guest_mutex;
  std::unique_ptr<DB> guest = OpenAnother("guest");
  Fill(guest.get());

  for (int w = 0; w < 2; w++) {
    Start([&, count = 0](Rng* rng) mutable {
      const std::string key = Key(rng->Between(0, kKeys - 1));
      EXPECT_TRUE(Ok(db_->Put({}, key, Value(key, ++count))));
    });
  }
  Start([&](Rng* rng) {
    if (rng->OneIn(2)) {
      EXPECT_TRUE(Ok(db_->Flush({})));
    } else {
      const std::string low = Key(rng->Between(0, kKeys));
      const Slice begin(low);
      EXPECT_TRUE(
          Ok(db_->CompactRange({}, rng->OneIn(3) ? nullptr : &begin, nullptr)));
    }
    if (rng->OneIn(4)) options_.block_cache->EraseUnreferenced();
    std::this_thread::yield();
  });
  Start([&](Rng* rng) {
    const std::lock_guard<std::shared_mutex> lock(guest_mutex);
    EXPECT_TRUE(Ok(guest->Close()));
    guest.reset();
    guest = OpenAnother("guest");
    const std::string key = Key(rng->Between(0, kKeys - 1));
    EXPECT_TRUE(Ok(guest->Put({}, key, Value(key, 7))));
    if (rng->OneIn(2)) {
      EXPECT_TRUE(Ok(guest->Flush({})));
    }
  });
  for (int r = 0; r < 3; r++) {
    Start([&](Rng* rng) {
      ReadSomehow(db_.get(), rng);
      const std::shared_lock<std::shared_mutex> lock(guest_mutex);
      ReadSomehow(guest.get(), rng);
    });
  }
  Start([&](Rng* rng) {
    RunThreads(4, [&, seed = rng->Next()](int) {
      Rng own(seed);
      ReadSomehow(db_.get(), &own);
      const std::shared_lock<std::shared_mutex> lock(guest_mutex);
      ReadOne(guest.get(), &own);
    });
  });
  JoinAll();
  ASSERT_NO_FATAL_FAILURE(Settle(db_.get()));
  EXPECT_TRUE(NothingIsPinned(db_.get(), path_));
  EXPECT_EQ(Number("varve.num-snapshots"), 0u);
  EXPECT_TRUE(Ok(db_->VerifyChecksum()));
}

// ---- State that threads leave -----------------------------------------------

// Reads once more when its thread ends, whichever thread-local variables of the
// library are destroyed by then.
struct LateReader {
  ~LateReader() {
    if (db == nullptr) return;
    std::string value;
    EXPECT_TRUE(Ok(db->Get({}, Key(1), &value)));
    EXPECT_EQ(CountIn(Key(1), value), 1) << value;
  }
  DB* db = nullptr;
};
thread_local LateReader late_reader;

TEST_F(ReadPathStressTest, ThreadsThatDiedPinNothing) {
  constexpr int kDbs = 3;
  constexpr int kAtATime = 8;
  std::vector<std::unique_ptr<DB>> dbs;
  for (int d = 0; d < kDbs; d++) {
    dbs.push_back(OpenAnother(std::to_string(d)));
    for (int i = 0; i < 200; i++) {
      ASSERT_TRUE(Ok(dbs.back()->Put({}, Key(i), Value(Key(i), i))));
    }
    ASSERT_TRUE(Ok(dbs.back()->Flush({})));
  }
  const int births = EnvironmentInt("VARVE_THREAD_BIRTHS", kThreadBirths);
  std::atomic<int> born = 0;
  // Each of these has one child at a time.
  std::vector<std::thread> parents;
  for (int p = 0; p < kAtATime; p++) {
    parents.emplace_back([&] {
      int number;
      while ((number = born.fetch_add(1)) < births) {
        std::thread([&, number] {
          if (number % 8 == 0) late_reader.db = dbs[0].get();
          for (const auto& db : dbs) {
            const std::string key = Key(number % 200);
            std::string value;
            EXPECT_TRUE(Ok(db->Get({}, key, &value)));
            EXPECT_EQ(CountIn(key, value), number % 200) << value;
          }
        }).join();
      }
    });
  }
  // At the same time, the data that they have read becomes obsolete.
  int round = 0;
  while (born.load() < births && !HasFailure()) {
    DB* const db = dbs[static_cast<size_t>(round++ % kDbs)].get();
    const std::string key = Key(round % 200);
    EXPECT_TRUE(Ok(db->Put({}, key, Value(key, round % 200))));
    EXPECT_TRUE(Ok(db->Flush({})));
    if (round % 20 == 0) {
      EXPECT_TRUE(Ok(db->CompactRange({}, nullptr, nullptr)));
    }
  }
  for (std::thread& parent : parents) parent.join();
  printf("%d threads were born while %d tables were written\n", births, round);
  for (int d = 0; d < kDbs; d++) {
    DB* const db = dbs[static_cast<size_t>(d)].get();
    ASSERT_NO_FATAL_FAILURE(Settle(db));
    EXPECT_TRUE(NothingIsPinned(db, dir_.Sub(std::to_string(d))));
    EXPECT_TRUE(Ok(db->Close()));
  }
}

TEST_F(ReadPathStressTest, ThreadsThatIdlePinNothing) {
  Open();
  Fill(db_.get());
  std::vector<std::unique_ptr<Actor>> idle;
  for (int i = 0; i < 6; i++) idle.push_back(std::make_unique<Actor>());
  Rng rng(seed_);
  for (int round = 0; round < 10; round++) {
    // Some have read what is in the memtable now, others what is in tables.
    for (auto& actor : idle) {
      if (rng.OneIn(3)) continue;
      actor->Do([&] { ReadSomehow(db_.get(), &rng); });
    }
    if (rng.OneIn(2)) {
      Flush();
      idle[0]->Do([&] { ReadOne(db_.get(), &rng); });
    }
    const std::set<std::string> before = [&] {
      std::set<std::string> names;
      for (const std::string& p : FilesEndingIn(path_, ".sst")) names.insert(p);
      return names;
    }();
    for (int i = 0; i < kKeys; i++) Put(Key(i), Value(Key(i), round));
    Put("padding", std::string(30000, 'p'));
    ASSERT_GT(Number("varve.cur-size-all-mem-tables"), 30000u);
    ASSERT_NO_FATAL_FAILURE(Settle(db_.get()));
    ASSERT_TRUE(NothingIsPinned(db_.get(), path_)) << "round " << round;
    EXPECT_TRUE(SoonTrue([&] {
      return Number("varve.cur-size-all-mem-tables") < 30000u;
    })) << Number("varve.cur-size-all-mem-tables")
        << " bytes of memtables";
    for (const std::string& path : before) {
      EXPECT_FALSE(std::filesystem::exists(path)) << path << " is still there";
    }
  }
}

TEST_F(ReadPathStressTest, ThreadsThatIdleKeepNoMemtable) {
  constexpr size_t kBytes = 8 << 20;
  options_.write_buffer_size = 4 * kBytes;
  Open();
  Actor idle, other;
  const size_t empty_bytes = HeapBytes();
  for (size_t i = 0; i < kBytes / 1000; i++) {
    Put(Key(static_cast<int>(i)), std::string(1000, 'm'));
  }
  for (Actor* actor : {&idle, &other}) {
    actor->Do([&] { EXPECT_EQ(Get(Key(1)), std::string(1000, 'm')); });
  }
  ASSERT_GT(HeapBytes(), empty_bytes + kBytes);
  ASSERT_NO_FATAL_FAILURE(Settle(db_.get()));
  other.Do([&] { EXPECT_EQ(Get(Key(1)), std::string(1000, 'm')); });
  EXPECT_TRUE(SoonTrue([&] { return HeapBytes() < empty_bytes + kBytes / 4; }))
      << HeapBytes() << " bytes on the heap, " << empty_bytes << " before";
  EXPECT_TRUE(NothingIsPinned(db_.get(), path_));
}

// Unlike a thread, a value that is still in use does keep what it needs.
TEST_F(ReadPathStressTest, PinnedValuesOutliveEverythingButTheDb) {
  options_.block_cache = NewBlockCache(1 << 20);
  Open();
  Fill(db_.get());
  ASSERT_NO_FATAL_FAILURE(Settle(db_.get()));
  std::vector<PinnableSlice> values(kKeys);
  for (int i = 0; i < kKeys; i++) {
    ASSERT_TRUE(Ok(db_->Get({}, Key(i), &values[static_cast<size_t>(i)])));
  }
  EXPECT_GT(options_.block_cache->GetPinnedUsage(), 0u);
  Put(Key(0), "changed");
  ASSERT_NO_FATAL_FAILURE(Settle(db_.get()));
  options_.block_cache->EraseUnreferenced();
  options_.block_cache->SetCapacity(0);
  for (int i = 0; i < kKeys; i++) {
    EXPECT_EQ(CountIn(Key(i), values[static_cast<size_t>(i)]), i);
  }
  // Let go by another thread than the one that read.
  std::thread([&] { values.clear(); }).join();
  EXPECT_TRUE(NothingIsPinned(db_.get(), path_));
  EXPECT_TRUE(SoonTrue([&] { return options_.block_cache->GetUsage() == 0; }))
      << options_.block_cache->GetUsage() << " bytes are still cached";
}

// ---- Databases that come and go ---------------------------------------------

// The new one may stand at the address of the old one, but is another.
TEST_F(ReadPathStressTest, ThreadsOutliveDatabases) {
  std::vector<std::unique_ptr<Actor>> actors;
  for (int i = 0; i < 4; i++) actors.push_back(std::make_unique<Actor>());
  const int rounds = EnvironmentInt("VARVE_STRESS_SECONDS", 2) * 30;
  for (int round = 0; round < rounds; round++) {
    SCOPED_TRACE("round " + std::to_string(round));
    const std::string name = "db" + std::to_string(round % 3);
    ASSERT_TRUE(Ok(DestroyDB(dir_.Sub(name), options_)));
    std::unique_ptr<DB> db = OpenAnother(name);
    ASSERT_NE(db, nullptr);
    const std::string expected = Value(Key(0), round);
    ASSERT_TRUE(Ok(db->Put({}, Key(0), expected)));
    if (round % 2 == 0) {
      ASSERT_TRUE(Ok(db->Flush({})));
    }
    for (size_t h = 0; h < actors.size(); h++) {
      // Not all in each round: some find the remains of an older one.
      if ((static_cast<size_t>(round) + h) % 3 == 0) continue;
      actors[h]->Do([&] {
        std::string value;
        EXPECT_TRUE(Ok(db->Get({}, Key(0), &value)));
        EXPECT_EQ(value, expected);
        EXPECT_TRUE(db->Get({}, Key(1), &value).IsNotFound());
      });
    }
    ASSERT_TRUE(Ok(db->Close()));
  }
}

TEST_F(ReadPathStressTest, ManyDatabasesAndThreads) {
  constexpr int kDbs = 40;
  struct One {
    std::shared_mutex mutex;  // Held exclusively to close it.
    std::unique_ptr<DB> db;
  };
  std::vector<One> all(kDbs);
  const auto open = [&](int number) {
    One& one = all[static_cast<size_t>(number)];
    one.db = OpenAnother(std::to_string(number));
    const std::string key = Key(number);
    EXPECT_TRUE(Ok(one.db->Put({}, key, Value(key, number))));
  };
  for (int i = 0; i < kDbs; i++) open(i);
  for (int t = 0; t < 8; t++) {
    Start([&](Rng* rng) {
      const int number = rng->Between(0, kDbs - 1);
      One& one = all[static_cast<size_t>(number)];
      const std::shared_lock<std::shared_mutex> lock(one.mutex);
      for (int i = 0; i < 10; i++) {
        std::string value;
        EXPECT_TRUE(Ok(one.db->Get({}, Key(number), &value)));
        EXPECT_EQ(CountIn(Key(number), value), number) << value;
        EXPECT_TRUE(one.db->Get({}, Key(number + 1), &value).IsNotFound());
      }
    });
  }
  Start([&](Rng* rng) {
    const int number = rng->Between(0, kDbs - 1);
    One& one = all[static_cast<size_t>(number)];
    if (rng->OneIn(3)) {
      const std::lock_guard<std::shared_mutex> lock(one.mutex);
      EXPECT_TRUE(Ok(one.db->Close()));
      open(number);
    } else {
      const std::shared_lock<std::shared_mutex> lock(one.mutex);
      EXPECT_TRUE(Ok(one.db->Put({}, Key(number), Value(Key(number), number))));
      EXPECT_TRUE(Ok(one.db->Flush({})));
    }
  });
  JoinAll();
  for (int i = 0; i < kDbs; i++) {
    DB* const db = all[static_cast<size_t>(i)].db.get();
    ASSERT_NO_FATAL_FAILURE(Settle(db));
    EXPECT_TRUE(NothingIsPinned(db, dir_.Sub(std::to_string(i))));
  }
}

}  // namespace
}  // namespace varve::test
