// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: a thread finds again the arena that it gave back, within bounds; what
// is too large, fragmented or left by a thread is freed. Method: arenas are
// taken and given back by hand, with roots that count their ends.

#include "util/threads/thread_arena.h"
#include "test/testing/test_headers.h"

namespace varve {
namespace {

constexpr ArenaKind kKind = ArenaKind::kIterator;

// Runs on a thread of its own, which keeps nothing yet.
template <typename Function>
void OnNewThread(Function function) {
  std::thread(function).join();
}

struct Root {
  int number;
  int* ended;
};

void SetRoot(ThreadArena* arena, int number, int* ended) {
  auto* const root = new (arena->Allocate(sizeof(Root))) Root{number, ended};
  arena->SetRoot(root,
                 [](void* ending) { ++*static_cast<Root*>(ending)->ended; });
}

ThreadArena* TakeNumber(int number) {
  return ThreadArena::Take(kKind, [number](const void* root) {
    return root != nullptr && static_cast<const Root*>(root)->number == number;
  });
}

TEST(ThreadArenaTest, IsFoundAgainByItsThread) {
  OnNewThread([] {
    ThreadArena* const arena = ThreadArena::Take(kKind);
    char* const memory = static_cast<char*>(arena->Allocate(100));
    memset(memory, 'x', 100);
    arena->GiveBack();
    EXPECT_EQ(ThreadArena::Take(kKind), arena);
    EXPECT_EQ(memory[99], 'x');
    // Another kind has its own.
    ThreadArena* const other = ThreadArena::Take(ArenaKind::kMultiGet);
    EXPECT_NE(other, arena);
    other->GiveBack();
    arena->GiveBack();
  });
}

TEST(ThreadArenaTest, AllocationsAreAlignedAndApart) {
  OnNewThread([] {
    ThreadArena* const arena = ThreadArena::Take(kKind);
    std::vector<std::pair<char*, size_t>> all;
    for (size_t size = 0; size < 300; size++) {
      char* const memory = static_cast<char*>(arena->Allocate(size));
      EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 16, 0u);
      memset(memory, static_cast<char>(size), size);
      all.emplace_back(memory, size);
    }
    for (const auto& [memory, size] : all) {
      EXPECT_EQ(std::string(memory, size),
                std::string(size, static_cast<char>(size)));
    }
    arena->GiveBack();
  });
}

TEST(ThreadArenaTest, AFragmentedOneBecomesOnePiece) {
  OnNewThread([] {
    size_t bytes = 0;
    for (int round = 0; round < 3; round++) {
      ThreadArena* const arena = ThreadArena::Take(kKind);
      if (round > 0) {
        EXPECT_EQ(arena->bytes(), bytes);
      }
      for (int i = 0; i < 100; i++) arena->Allocate(1000);
      EXPECT_GE(arena->bytes(), 100000u);
      bytes = arena->bytes();
      arena->Reset();
      for (int i = 0; i < 100; i++) arena->Allocate(1000);
      arena->GiveBack();
    }
  });
}

TEST(ThreadArenaTest, BeyondTheBoundItIsFreed) {
  OnNewThread([] {
    int ended = 0;
    ThreadArena* const arena = ThreadArena::Take(kKind);
    SetRoot(arena, 1, &ended);
    arena->Allocate(ThreadArena::kMaxKeptBytes);
    arena->GiveBack();
    EXPECT_EQ(ended, 1);
    EXPECT_EQ(CurrentThreadRecord()->arenas[0].count, 0u);
  });
}

TEST(ThreadArenaTest, OnlyABoundedNumberIsKeptAndTheOldestIsReplaced) {
  int ended = 0;
  OnNewThread([&ended] {
    constexpr int kCount = ThreadArena::kMaxKept;
    std::vector<ThreadArena*> arenas;
    for (int i = 0; i < kCount + 2; i++) {
      arenas.push_back(TakeNumber(i));
      EXPECT_EQ(arenas.back()->root(), nullptr);
      SetRoot(arenas.back(), i, &ended);
    }
    for (ThreadArena* arena : arenas) arena->GiveBack();
    EXPECT_EQ(ended, 2);
    // The last ones are kept.
    for (int i = 2; i < kCount + 2; i++) {
      ThreadArena* const found = TakeNumber(i);
      EXPECT_EQ(found, arenas[static_cast<size_t>(i)]);
      found->GiveBack();
    }
    ThreadArena* const oldest = TakeNumber(100);
    EXPECT_EQ(oldest, arenas[2]);
    oldest->GiveBack();
    EXPECT_EQ(ended, 2);
  });
  // The thread's end.
  EXPECT_EQ(ended, 2 + static_cast<int>(ThreadArena::kMaxKept));
}

TEST(ThreadArenaTest, TheThreadThatEndsTheUseKeepsIt) {
  int ended = 0;
  ThreadArena* arena = nullptr;
  OnNewThread([&] {
    arena = TakeNumber(1);
    SetRoot(arena, 1, &ended);
  });
  EXPECT_EQ(ended, 0);
  OnNewThread([&] {
    arena->GiveBack();
    EXPECT_EQ(TakeNumber(1), arena);
    arena->GiveBack();
    EXPECT_EQ(ended, 0);
  });
  EXPECT_EQ(ended, 1);
}

TEST(ContextBufferTest, GrowsInTheContextAndBeyondABoundOnTheHeap) {
  OnNewThread([] {
    ThreadArena* const arena = ThreadArena::Take(kKind);
    const size_t bytes = arena->bytes();
    ArenaBuffer buffer(arena);
    memcpy(buffer.Reserve(3), "abc", 3);
    EXPECT_EQ(std::string(buffer.Grow(1000, buffer.data(), 3), 3), "abc");
    EXPECT_GE(buffer.capacity(), 1000u);
    EXPECT_FALSE(buffer.Trim());
    EXPECT_EQ(arena->bytes(), bytes);
    buffer.Grow(ArenaBuffer::kMaxBytesInArena + 1, buffer.data(), 3);
    EXPECT_EQ(std::string(buffer.data(), 3), "abc");
    EXPECT_EQ(arena->bytes(), bytes);
    EXPECT_TRUE(buffer.Trim());
    EXPECT_EQ(buffer.capacity(), 0u);
    arena->GiveBack();
  });
}

TEST(ContextBufferTest, MovesWithItsMemory) {
  ArenaBuffer buffer;
  memcpy(buffer.Reserve(3), "abc", 3);
  ArenaBuffer moved(std::move(buffer));
  EXPECT_EQ(std::string(moved.data(), 3), "abc");
  moved = ArenaBuffer();
  EXPECT_EQ(moved.data(), nullptr);
}

struct Thing : public InArena {
  explicit Thing(int* the_ended) : ended(the_ended) {}
  ~Thing() { ++*ended; }
  int* const ended;
};

TEST(InContextTest, DeleteDestroysInAContextAndOnTheHeap) {
  OnNewThread([] {
    int ended = 0;
    ThreadArena* const arena = ThreadArena::Take(kKind);
    delete new (arena) Thing(&ended);
    delete new Thing(&ended);
    EXPECT_EQ(ended, 2);
    ArenaVector<int> numbers(arena);
    ArenaVector<int> on_heap(nullptr);
    for (int i = 0; i < 100; i++) {
      numbers.push_back(i);
      on_heap.push_back(i);
    }
    EXPECT_TRUE(std::equal(numbers.begin(), numbers.end(), on_heap.begin()));
    arena->GiveBack();
  });
}

}  // namespace
}  // namespace varve
