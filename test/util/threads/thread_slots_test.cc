// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads variants
//
// Goal: a slot's pointer is used only while it is valid, each reference in a
// slot is released once, and no idle thread pins an old state. Method: an owner
// that reads and installs as util/threads/thread_slots.h says, with counted
// states that are poisoned at their end; the labelled interleavings step by
// step; stress with owners and threads that come and go.
#include "util/threads/thread_slots.h"

#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "test/testing/threads/actor.h"
#include "test/testing/threads/run_threads.h"

namespace varve {
namespace {

using test::Actor;

constexpr uint64_t kAlive = 0x616c697665;
constexpr uint64_t kPoison = 0xdeaddeaddead;

std::atomic<int> live_states{0};

struct State {
  explicit State(uint64_t n) : number(n) { live_states++; }
  ~State() {
    value = kPoison;
    live_states--;
  }
  uint64_t value = kAlive;
  const uint64_t number;
  std::atomic<int> references{1};
};

void Release(void* pointer) {
  State* state = static_cast<State*>(pointer);
  if (state->references.fetch_sub(1) == 1) delete state;
}

class Owner final : public SlotOwner {
 public:
  Owner() : state_(new State(NewSlotNumber())) {
    current_ = state_->number;
    id_ = RegisterSlotOwner(this);
  }
  ~Owner() {
    UnregisterSlotOwner(id_);
    Release(state_);
  }

  // One read. `inside` is called with the state that it uses.
  void Read(const std::function<void(State*)>& inside = nullptr) {
    ThreadRecord* record = CurrentThreadRecord();
    EpochGuard::Enter(record);
    ThreadSlot* slot = SlotOf(record, id_);
    State* counted = nullptr;
    if (!IsCurrent(slot->number.load(std::memory_order_relaxed))) {
      misses_++;
      if (record->depth == 1) {
        Fill(slot);
      } else {
        counted = Reference();  // B16
      }
    }
    State* state = counted != nullptr ? counted
                                      : static_cast<State*>(slot->pointer.load(
                                            std::memory_order_relaxed));
    EXPECT_EQ(state->value, kAlive);
    if (inside) inside(state);
    EXPECT_EQ(state->value, kAlive);
    if (EpochGuard::Exit(record)) {
      if (after_exit) after_exit();
      EpochGuard::CheckSlots(record);
    }
    if (counted != nullptr) Release(counted);
  }

  // `during` is called for each pointer that is scraped, before its release.
  void Install(const std::function<void(State*)>& during = nullptr) {
    State* old = nullptr;
    {
      MutexLock lock(&mu_);
      old = state_;
      state_ = new State(NewSlotNumber());
      // relaxed: the barrier of the scrape orders it.
      current_.store(state_->number, std::memory_order_relaxed);
      ScrapeSlots(id_, [&during](ThreadRecord*, void* pointer) {
        if (during) during(static_cast<State*>(pointer));
        Release(pointer);
      });
    }
    Release(old);
  }

  void ReleaseSlotPointer(ThreadRecord*, void* pointer) override {
    releases_++;
    Release(pointer);
  }
  bool IsCurrent(uint64_t number) const override {
    return number == current_.load(std::memory_order_relaxed);
  }

  uint32_t id() const { return id_; }
  int misses() const { return misses_; }
  // Calls of ReleaseSlotPointer.
  int releases() const { return releases_; }
  State* Reference() {
    MutexLock lock(&mu_);
    state_->references++;
    return state_;
  }

  // Called after T2, before T14.
  std::function<void()> after_exit;

 private:
  void Fill(ThreadSlot* slot) {
    void* old = nullptr;
    {
      MutexLock lock(&mu_);
      state_->references++;
      old = FillSlot(slot, state_, state_->number);
    }
    if (old != nullptr) Release(old);
  }

  uint32_t id_ = 0;
  Mutex mu_;
  State* state_ VARVE_GUARDED_BY(mu_);
  std::atomic<uint64_t> current_{0};
  std::atomic<int> misses_{0};
  std::atomic<int> releases_{0};
};

ThreadSlot* SlotHere(uint32_t id) { return SlotOf(CurrentThreadRecord(), id); }

class ThreadSlotsTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(live_states, 0); }
  void TearDown() override { EXPECT_EQ(live_states, 0); }
};

TEST_F(ThreadSlotsTest, SlotStaysValidUntilInstall) {
  Owner owner;
  for (int i = 0; i < 100; i++) owner.Read();
  EXPECT_EQ(owner.misses(), 1);
  owner.Install();
  EXPECT_EQ(live_states, 1);  // An idle thread pins nothing.
  EXPECT_EQ(SlotHere(owner.id())->pointer, nullptr);
  EXPECT_EQ(SlotHere(owner.id())->number, 0u);
  for (int i = 0; i < 100; i++) owner.Read();
  EXPECT_EQ(owner.misses(), 2);
}

TEST_F(ThreadSlotsTest, EachThreadHasItsOwnSlot) {
  Owner owner;
  std::vector<std::unique_ptr<Actor>> readers;
  for (int i = 0; i < 10; i++) {
    readers.push_back(std::make_unique<Actor>());
    readers.back()->Do([&owner] {
      owner.Read();
      owner.Read();
    });
  }
  EXPECT_EQ(owner.misses(), 10);
  int scraped = 0;
  owner.Install([&scraped](State*) { scraped++; });
  EXPECT_EQ(scraped, 10);
  EXPECT_EQ(live_states, 1);
}

TEST_F(ThreadSlotsTest, ThreadThatEntersDuringScrapeSeesNewNumberB11) {
  Owner owner;
  Actor first;
  Actor second;
  first.Do([&owner] { owner.Read(); });
  second.Do([&owner] { owner.Read(); });
  // One is scraped while both read. They miss and wait for the mutex.
  int scraped = 0;
  std::atomic<int> reads{0};
  const auto read_new = [&owner, &reads] {
    owner.Read([](State* state) { EXPECT_EQ(state->value, kAlive); });
    reads++;
  };
  owner.Install([&](State*) {
    if (scraped++ > 0) return;
    first.Start(read_new);
    second.Start(read_new);
    while (owner.misses() < 4) std::this_thread::yield();
    EXPECT_EQ(reads, 0);
  });
  EXPECT_GE(scraped, 1);
  first.Wait();
  second.Wait();
  EXPECT_EQ(reads, 2);
  EXPECT_EQ(live_states, 1);
}

TEST_F(ThreadSlotsTest, ThreadInsideDropsItsSlotOnLeavingB12) {
  Owner owner;
  Actor reader;
  std::latch inside(1);
  std::latch installed(1);
  reader.Start([&] {
    owner.Read([&](State*) {
      inside.count_down();
      installed.wait();
    });
    EXPECT_EQ(SlotHere(owner.id())->pointer, nullptr);
  });
  inside.wait();
  owner.Install([](State*) { ADD_FAILURE() << "scraped under a reader"; });
  EXPECT_EQ(live_states, 2);  // The reader's still.
  installed.count_down();
  reader.Wait();
  EXPECT_EQ(live_states, 1);
}

TEST_F(ThreadSlotsTest, ThreadThatHasJustLeftIsScrapedOnceB13) {
  Owner owner;
  Actor reader;
  std::latch left(1);
  std::latch installed(1);
  owner.after_exit = [&] {
    left.count_down();
    installed.wait();
  };
  reader.Start([&owner] { owner.Read(); });
  left.wait();
  int scraped = 0;
  owner.Install([&scraped](State*) { scraped++; });
  EXPECT_EQ(scraped, 1);
  installed.count_down();
  reader.Wait();  // It finds the flag set and the slot empty.
  EXPECT_EQ(live_states, 1);
}

TEST_F(ThreadSlotsTest, ThreadThatEndsDuringScrapeReleasesOnceB14) {
  Owner owner;
  Actor readers[2];
  ThreadRecord* records[2];
  for (int i = 0; i < 2; i++) {
    readers[i].Do([&owner, &records, i] {
      owner.Read();
      records[i] = CurrentThreadRecord();
    });
  }
  int scraped = 0;
  owner.Install([&](State*) {
    scraped++;
    // The other's slot is still to be scraped.
    const int other =
        records[0]->inline_slots[owner.id()].pointer == nullptr ? 1 : 0;
    readers[other].End();
  });
  EXPECT_EQ(scraped, 1);
  EXPECT_EQ(owner.releases(), 1);
  EXPECT_EQ(live_states, 1);
}

TEST_F(ThreadSlotsTest, ReusedIdValidatesNothingB15) {
  Actor reader;
  std::set<uint64_t> numbers;
  uint32_t id = 0;
  for (int i = 0; i < 10; i++) {
    Owner owner;
    EXPECT_TRUE(i == 0 || owner.id() == id);
    id = owner.id();
    reader.Do([&] {
      EXPECT_EQ(SlotHere(id)->pointer, nullptr);
      EXPECT_FALSE(owner.IsCurrent(SlotHere(id)->number));
      owner.Read([&numbers](State* state) {
        EXPECT_TRUE(numbers.insert(state->number).second);
      });
      EXPECT_EQ(owner.misses(), 1);
    });
  }
}

TEST_F(ThreadSlotsTest, NestedReadLeavesStaleSlotToOuterB16) {
  Owner owner;
  Actor reader;
  Actor installer;
  reader.Do([&] {
    owner.Read([&](State* outer) {
      installer.Do([&owner] { owner.Install(); });
      owner.Read([outer](State* inner) {
        EXPECT_NE(inner, outer);
        EXPECT_GT(inner->number, outer->number);
      });
      EXPECT_EQ(outer->value, kAlive);
      EXPECT_EQ(SlotHere(owner.id())->pointer, outer);
    });
    EXPECT_EQ(SlotHere(owner.id())->pointer, nullptr);
  });
  EXPECT_EQ(live_states, 1);
}

TEST_F(ThreadSlotsTest, OutermostEndChecksSlotsOfAllOwnersB17) {
  Owner outer;
  Owner inner;
  Owner untouched;
  Actor reader;
  Actor installer;
  reader.Do([&] {
    inner.Read();
    untouched.Read();
    outer.Read([&](State*) {
      inner.Read();  // By its slot, which is valid.
      EXPECT_EQ(inner.misses(), 1);
      installer.Do([&inner] { inner.Install(); });
      EXPECT_EQ(live_states, 4);
    });
    EXPECT_FALSE(CurrentThreadRecord()->unchecked_slots);
    EXPECT_EQ(SlotHere(inner.id())->pointer, nullptr);
    EXPECT_NE(SlotHere(outer.id())->pointer, nullptr);
    EXPECT_NE(SlotHere(untouched.id())->pointer, nullptr);
  });
  EXPECT_EQ(live_states, 3);
}

TEST_F(ThreadSlotsTest, SectionOfAnotherOwnerDropsItsKeptReferenceB17) {
  Owner outer;
  Owner other;
  Actor reader;
  Actor installer;
  reader.Do([&] {
    other.Read();
    outer.Read([&](State*) {
      installer.Do([&other] { other.Install(); });
      EXPECT_EQ(live_states, 3);
    });
    EXPECT_EQ(SlotHere(other.id())->pointer, nullptr);
    EXPECT_NE(SlotHere(outer.id())->pointer, nullptr);
  });
  EXPECT_EQ(live_states, 2);
}

TEST_F(ThreadSlotsTest, EndOfPlainSectionChecksSlotsB17) {
  Owner owner;
  Actor reader;
  Actor installer;
  reader.Do([&] {
    owner.Read();
    {
      const EpochGuard section;
      installer.Do([&owner] { owner.Install(); });
      EXPECT_EQ(live_states, 2);
    }
    EXPECT_EQ(SlotHere(owner.id())->pointer, nullptr);
  });
  EXPECT_EQ(live_states, 1);
}

TEST_F(ThreadSlotsTest, SlotsNeverMoveB18) {
  ThreadRecord* record = CurrentThreadRecord();
  constexpr uint32_t kSlots = 1000;
  std::set<ThreadSlot*> slots;
  std::vector<ThreadSlot*> by_id;
  for (uint32_t id = 0; id < kSlots; id++) {
    by_id.push_back(SlotOf(record, id));
    EXPECT_EQ(by_id.back()->pointer, nullptr);
    EXPECT_EQ(by_id.back()->number, 0u);
    EXPECT_TRUE(slots.insert(by_id.back()).second);
  }
  for (uint32_t id = 0; id < kSlots; id++) {
    EXPECT_EQ(SlotOf(record, id), by_id[id]);
    EXPECT_EQ(FindSlot(record, id), by_id[id]);
  }
}

TEST_F(ThreadSlotsTest, ManyOwnersInManyThreads) {
  constexpr size_t kOwners = 100;
  std::vector<std::unique_ptr<Owner>> owners;
  for (size_t i = 0; i < kOwners; i++) {
    owners.push_back(std::make_unique<Owner>());
  }
  Actor readers[3];
  for (Actor& reader : readers) {
    reader.Do([&owners] {
      // Highest ids first: chunks are added in any order.
      for (size_t i = kOwners; i-- > 0;) owners[i]->Read();
      for (const auto& owner : owners) owner->Read();
    });
  }
  for (const auto& owner : owners) EXPECT_EQ(owner->misses(), 3);
  for (const auto& owner : owners) owner->Install();
  EXPECT_EQ(live_states, static_cast<int>(kOwners));
}

TEST_F(ThreadSlotsTest, LowestFreeIdIsGivenFirst) {
  Owner first;
  auto second = std::make_unique<Owner>();
  Owner third;
  EXPECT_LT(first.id(), second->id());
  EXPECT_LT(second->id(), third.id());
  const uint32_t freed = second->id();
  second.reset();
  Owner fourth;
  EXPECT_EQ(fourth.id(), freed);
}

TEST_F(ThreadSlotsTest, ThreadExitReleasesSlots) {
  Owner owner;
  for (int i = 0; i < 10; i++) {
    std::thread([&owner] { owner.Read(); }).join();
    EXPECT_EQ(owner.releases(), i + 1);
  }
  owner.Install([](State*) { ADD_FAILURE() << "left behind"; });
  EXPECT_EQ(live_states, 1);
}

TEST_F(ThreadSlotsTest, UnregisterReleasesSlotsOfLivingThreads) {
  auto owner = std::make_unique<Owner>();
  const uint32_t id = owner->id();
  Actor readers[3];
  for (Actor& reader : readers) reader.Do([&owner] { owner->Read(); });
  owner.reset();
  EXPECT_EQ(live_states, 0);
  for (Actor& reader : readers) {
    reader.Do([id] { EXPECT_EQ(SlotHere(id)->pointer, nullptr); });
  }
}

// Enters sections and retires while it is called with the registry's mutex, as
// an owner may that drops the last reference.
class ReadingOwner final : public SlotOwner {
 public:
  ReadingOwner() { id_ = RegisterSlotOwner(this); }
  ~ReadingOwner() { UnregisterSlotOwner(id_); }
  void ReleaseSlotPointer(ThreadRecord*, void* pointer) override {
    const EpochGuard section;
    // As if another owner's install had just found the thread inside.
    if (!flag_set_) section.record()->unchecked_slots = true;
    flag_set_ = true;
    Retire(pointer, Release);
  }
  bool IsCurrent(uint64_t) const override { return false; }
  uint32_t id() const { return id_; }

 private:
  uint32_t id_ = 0;
  bool flag_set_ = false;
};

TEST_F(ThreadSlotsTest, OwnersMayReadWhileTheyReleaseB19) {
  const auto fill = [](ReadingOwner* owner) {
    EXPECT_EQ(FillSlot(SlotHere(owner->id()), new State(1), 1), nullptr);
  };
  {
    ReadingOwner owner;
    std::thread(fill, &owner).join();
  }
  {
    ReadingOwner owner;
    fill(&owner);
    CurrentThreadRecord()->unchecked_slots = true;
    DropStaleSlots(CurrentThreadRecord());
    EXPECT_EQ(SlotHere(owner.id())->pointer, nullptr);
    EXPECT_FALSE(CurrentThreadRecord()->unchecked_slots);
  }
  {
    ReadingOwner owner;
    fill(&owner);
  }
  TEST_DrainRetired();
}

TEST(ThreadSlotsNumberTest, NumbersAreUniqueAcrossThreads) {
  constexpr size_t kNumbers = 10000;
  std::vector<uint64_t> numbers[4];
  std::vector<std::thread> threads;
  for (auto& mine : numbers) {
    threads.emplace_back([&mine] {
      for (size_t i = 0; i < kNumbers; i++) mine.push_back(NewSlotNumber());
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<uint64_t> all;
  for (const auto& mine : numbers) all.insert(mine.begin(), mine.end());
  EXPECT_EQ(all.size(), 4 * kNumbers);
  EXPECT_EQ(all.count(0), 0u);
}

// ---- Stress -----------------------------------------------------------------

class Stress {
 public:
  void Run() {
    const uint64_t seed = test::TestSeed();
    std::vector<Actor> readers(3);
    for (Actor& reader : readers) {
      reader.Start([this, s = seed + threads_++] { ReadLoop(s); });
    }
    std::vector<std::thread> threads;
    threads.emplace_back([this, seed] { BirthLoop(seed + 10); });
    threads.emplace_back([this] { OwnerLoop(); });
    test::RunThreads(owners_.size(), [this](size_t i) {
      for (int install = 0; install < 10000; install++) owners_[i].Install();
    });
    done_ = true;
    for (std::thread& thread : threads) thread.join();
    for (Actor& reader : readers) reader.Wait();
    // The readers live on, idle. They hold at most the current states.
    EXPECT_EQ(live_states, static_cast<int>(owners_.size()));
  }

 private:
  void ReadOnce(test::Rng* rng) {
    Owner& owner = owners_[rng->Below(owners_.size())];
    Owner& other = owners_[rng->Below(owners_.size())];
    if (!rng->OneIn(4)) {
      owner.Read();
      return;
    }
    owner.Read([&](State*) { other.Read(); });
  }
  void ReadLoop(uint64_t seed) {
    test::Rng rng(seed);
    while (!done_) ReadOnce(&rng);
  }
  // Threads that live for a few reads.
  void BirthLoop(uint64_t seed) {
    test::Rng rng(seed);
    while (!done_) {
      std::thread([this, &rng] {
        for (int i = 0; i < 3; i++) ReadOnce(&rng);
      }).join();
    }
  }
  // Owners that come and go while the other threads live.
  void OwnerLoop() {
    while (!done_) {
      Owner owner;
      owner.Read();
      std::thread([&owner] { owner.Read(); }).join();
      owner.Install();
      owner.Read();
    }
  }

  std::array<Owner, 2> owners_;
  std::atomic<bool> done_{false};
  uint64_t threads_ = 0;
};

TEST_F(ThreadSlotsTest, NothingStaysPinnedAfterStress) { Stress().Run(); }

}  // namespace
}  // namespace varve
