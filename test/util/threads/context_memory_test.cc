// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a thread finds again the context that it gave back, within bounds; what
// is too large, fragmented or left by a thread is freed. Method: contexts are
// taken and given back by hand, with roots that count their ends.

#include "util/threads/context_memory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace varve {
namespace {

constexpr ContextKind kKind = ContextKind::kIterator;

// Runs on a thread of its own, which keeps nothing yet.
template <typename Function>
void OnNewThread(Function function) {
  std::thread(function).join();
}

struct Root {
  int number;
  int* ended;
};

void SetRoot(ContextMemory* context, int number, int* ended) {
  auto* const root = new (context->Allocate(sizeof(Root))) Root{number, ended};
  context->SetRoot(root,
                   [](void* ending) { ++*static_cast<Root*>(ending)->ended; });
}

ContextMemory* TakeNumber(int number) {
  return ContextMemory::Take(kKind, [number](const void* root) {
    return root != nullptr && static_cast<const Root*>(root)->number == number;
  });
}

TEST(ContextMemoryTest, IsFoundAgainByItsThread) {
  OnNewThread([] {
    ContextMemory* const context = ContextMemory::Take(kKind);
    char* const memory = static_cast<char*>(context->Allocate(100));
    memset(memory, 'x', 100);
    context->GiveBack();
    EXPECT_EQ(ContextMemory::Take(kKind), context);
    EXPECT_EQ(memory[99], 'x');
    // Another kind has its own.
    ContextMemory* const other = ContextMemory::Take(ContextKind::kMultiGet);
    EXPECT_NE(other, context);
    other->GiveBack();
    context->GiveBack();
  });
}

TEST(ContextMemoryTest, AllocationsAreAlignedAndApart) {
  OnNewThread([] {
    ContextMemory* const context = ContextMemory::Take(kKind);
    std::vector<std::pair<char*, size_t>> all;
    for (size_t size = 0; size < 300; size++) {
      char* const memory = static_cast<char*>(context->Allocate(size));
      EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 16, 0u);
      memset(memory, static_cast<char>(size), size);
      all.emplace_back(memory, size);
    }
    for (const auto& [memory, size] : all) {
      EXPECT_EQ(std::string(memory, size),
                std::string(size, static_cast<char>(size)));
    }
    context->GiveBack();
  });
}

TEST(ContextMemoryTest, AFragmentedOneBecomesOnePiece) {
  OnNewThread([] {
    size_t bytes = 0;
    for (int round = 0; round < 3; round++) {
      ContextMemory* const context = ContextMemory::Take(kKind);
      if (round > 0) {
        EXPECT_EQ(context->bytes(), bytes);
      }
      for (int i = 0; i < 100; i++) context->Allocate(1000);
      EXPECT_GE(context->bytes(), 100000u);
      bytes = context->bytes();
      context->Reset();
      for (int i = 0; i < 100; i++) context->Allocate(1000);
      context->GiveBack();
    }
  });
}

TEST(ContextMemoryTest, BeyondTheBoundItIsFreed) {
  OnNewThread([] {
    int ended = 0;
    ContextMemory* const context = ContextMemory::Take(kKind);
    SetRoot(context, 1, &ended);
    context->Allocate(ContextMemory::kMaxKeptBytes);
    context->GiveBack();
    EXPECT_EQ(ended, 1);
    EXPECT_EQ(CurrentThreadRecord()->contexts[0].count, 0u);
  });
}

TEST(ContextMemoryTest, OnlySoManyAreKeptAndTheOldestIsReplaced) {
  int ended = 0;
  OnNewThread([&ended] {
    constexpr int kCount = ContextMemory::kMaxKept;
    std::vector<ContextMemory*> contexts;
    for (int i = 0; i < kCount + 2; i++) {
      contexts.push_back(TakeNumber(i));
      EXPECT_EQ(contexts.back()->root(), nullptr);
      SetRoot(contexts.back(), i, &ended);
    }
    for (ContextMemory* context : contexts) context->GiveBack();
    EXPECT_EQ(ended, 2);
    // The last ones are kept.
    for (int i = 2; i < kCount + 2; i++) {
      ContextMemory* const found = TakeNumber(i);
      EXPECT_EQ(found, contexts[static_cast<size_t>(i)]);
      found->GiveBack();
    }
    ContextMemory* const oldest = TakeNumber(100);
    EXPECT_EQ(oldest, contexts[2]);
    oldest->GiveBack();
    EXPECT_EQ(ended, 2);
  });
  // The thread's end.
  EXPECT_EQ(ended, 2 + static_cast<int>(ContextMemory::kMaxKept));
}

TEST(ContextMemoryTest, TheThreadThatEndsTheUseKeepsIt) {
  int ended = 0;
  ContextMemory* context = nullptr;
  OnNewThread([&] {
    context = TakeNumber(1);
    SetRoot(context, 1, &ended);
  });
  EXPECT_EQ(ended, 0);
  OnNewThread([&] {
    context->GiveBack();
    EXPECT_EQ(TakeNumber(1), context);
    context->GiveBack();
    EXPECT_EQ(ended, 0);
  });
  EXPECT_EQ(ended, 1);
}

TEST(ContextBufferTest, GrowsInTheContextAndBeyondABoundOnTheHeap) {
  OnNewThread([] {
    ContextMemory* const context = ContextMemory::Take(kKind);
    const size_t bytes = context->bytes();
    ContextBuffer buffer(context);
    memcpy(buffer.Reserve(3), "abc", 3);
    EXPECT_EQ(std::string(buffer.Grow(1000, buffer.data(), 3), 3), "abc");
    EXPECT_GE(buffer.capacity(), 1000u);
    EXPECT_FALSE(buffer.Trim());
    EXPECT_EQ(context->bytes(), bytes);
    buffer.Grow(ContextBuffer::kMaxBytesInContext + 1, buffer.data(), 3);
    EXPECT_EQ(std::string(buffer.data(), 3), "abc");
    EXPECT_EQ(context->bytes(), bytes);
    EXPECT_TRUE(buffer.Trim());
    EXPECT_EQ(buffer.capacity(), 0u);
    context->GiveBack();
  });
}

TEST(ContextBufferTest, MovesWithItsMemory) {
  ContextBuffer buffer;
  memcpy(buffer.Reserve(3), "abc", 3);
  ContextBuffer moved(std::move(buffer));
  EXPECT_EQ(std::string(moved.data(), 3), "abc");
  moved = ContextBuffer();
  EXPECT_EQ(moved.data(), nullptr);
}

struct Thing : public InContext {
  explicit Thing(int* the_ended) : ended(the_ended) {}
  ~Thing() { ++*ended; }
  int* const ended;
};

TEST(InContextTest, DeleteDestroysInAContextAndOnTheHeap) {
  OnNewThread([] {
    int ended = 0;
    ContextMemory* const context = ContextMemory::Take(kKind);
    delete new (context) Thing(&ended);
    delete new Thing(&ended);
    EXPECT_EQ(ended, 2);
    ContextVector<int> numbers(context);
    ContextVector<int> on_heap(nullptr);
    for (int i = 0; i < 100; i++) {
      numbers.push_back(i);
      on_heap.push_back(i);
    }
    EXPECT_TRUE(std::equal(numbers.begin(), numbers.end(), on_heap.begin()));
    context->GiveBack();
  });
}

}  // namespace
}  // namespace varve
