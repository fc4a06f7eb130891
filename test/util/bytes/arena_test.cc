// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: no two allocations overlap, aligned ones are aligned, and the memory
// count is exact, from one thread and from many. Method: every allocation is
// filled with a mark of its own and all are checked at the end; the arena's
// count is compared with what its documentation implies.
#include "util/bytes/arena.h"

#include "test/testing/test_headers.h"
#include "util/base/random.h"

namespace varve {
namespace {

struct Piece {
  char* data;
  size_t size;
  char mark;
};

// Allocates `count` pieces of random size, mostly small, and fills them.
std::vector<Piece> Fill(Arena* arena, uint64_t seed, int count) {
  Random random(seed);
  std::vector<Piece> pieces;
  for (int i = 0; i < count; i++) {
    const size_t size =
        random.OneIn(500) ? random.Uniform(20000) : random.Uniform(100);
    const bool aligned = random.OneIn(2);
    char* data = aligned ? arena->AllocateAligned(size) : arena->Allocate(size);
    if (aligned) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % 8, 0u);
    }
    const char mark = static_cast<char>(random.Next());
    memset(data, mark, size);
    pieces.push_back({data, size, mark});
  }
  return pieces;
}

void Check(const std::vector<Piece>& pieces) {
  for (const Piece& piece : pieces) {
    for (size_t i = 0; i < piece.size; i++) {
      ASSERT_EQ(piece.data[i], piece.mark);
    }
  }
}

TEST(ArenaTest, TakesNothingUntilAsked) {
  const Arena arena;
  EXPECT_EQ(arena.MemoryUsage(), 0u);
}

TEST(ArenaTest, TakesOneBlockForSmallPieces) {
  Arena arena;
  char* first = arena.Allocate(10);
  EXPECT_EQ(arena.MemoryUsage(), Arena::kDefaultBlockBytes);
  // Unaligned pieces lie side by side.
  EXPECT_EQ(arena.Allocate(1), first + 10);
  EXPECT_EQ(arena.AllocateAligned(1), first + 16);
  EXPECT_EQ(arena.Allocate(0), first + 17);
  EXPECT_EQ(arena.MemoryUsage(), Arena::kDefaultBlockBytes);
}

TEST(ArenaTest, GivesBigPieceBlockOfItsOwn) {
  Arena arena(size_t{64} << 10);
  char* first = arena.Allocate(8);
  const size_t before = arena.MemoryUsage();
  constexpr size_t kBig = size_t{1} << 20;
  memset(arena.AllocateAligned(kBig), 'x', kBig);
  const size_t header = arena.MemoryUsage() - before - kBig;
  EXPECT_GT(header, 0u);
  EXPECT_LE(header, 64u);
  // The block in use stays in use.
  EXPECT_EQ(arena.Allocate(8), first + 8);
  EXPECT_EQ(arena.MemoryUsage(), before + kBig + header);
}

TEST(ArenaTest, AlignsAsAsked) {
  Arena arena(Arena::kMinBlockBytes);
  for (size_t size : {1, 100, 1000, 5000}) {
    for (size_t alignment = 1; alignment <= 256; alignment *= 2) {
      char* data = arena.AllocateAligned(size, alignment);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % alignment, 0u);
      memset(data, 'x', size);
    }
  }
}

TEST(ArenaTest, UsesBlockToItsLastByte) {
  Arena arena(4096);
  const char* first = arena.Allocate(1);
  size_t pieces = 1;
  while (arena.MemoryUsage() == 4096) {
    const char* next = arena.Allocate(1);
    if (arena.MemoryUsage() == 4096) {
      EXPECT_EQ(next, first + pieces++);
    }
  }
  EXPECT_EQ(arena.MemoryUsage(), 8192u);
  EXPECT_GE(pieces, 4096u - 64);
}

TEST(ArenaTest, RaisesBlockSizeWhenTooSmall) {
  Arena arena(1);
  arena.Allocate(1);
  EXPECT_EQ(arena.MemoryUsage(), Arena::kMinBlockBytes);
}

// Blocks of 4, 8, 16, 32 and then 32 KiB.
TEST(ArenaTest, BlocksGrowFromASmallFirstOne) {
  Arena arena(size_t{32} << 10, MemoryKind::kMemTable,
              {.first_block_bytes = 4 << 10});
  size_t least = 0;
  for (const size_t next_kib : {4, 8, 16, 32, 32}) {
    while (arena.MemoryUsage() == least) arena.Allocate(100);
    EXPECT_EQ(arena.MemoryUsage() - least, next_kib << 10);
    least = arena.MemoryUsage();
  }
}

// Otherwise each such piece would take a block of its own.
TEST(ArenaTest, SmallBlocksGrowForLargePieces) {
  Arena arena(size_t{256} << 10, MemoryKind::kMemTable,
              {.first_block_bytes = 4 << 10});
  arena.Allocate(3000);
  EXPECT_EQ(arena.MemoryUsage(), 16u << 10);
  arena.Allocate(100000);
  EXPECT_LT(arena.MemoryUsage(), (16u << 10) + 101000);
}

TEST(ArenaTest, TellsItsObserverOfEachBlock) {
  struct Observer final : ArenaObserver {
    void OnGrowth() override { bytes.push_back(arena->MemoryUsage()); }
    const Arena* arena = nullptr;
    std::vector<size_t> bytes;
  } observer;
  Arena arena(4096, MemoryKind::kMemTable, {.observer = &observer});
  observer.arena = &arena;
  arena.Allocate(10);
  arena.Allocate(10);
  EXPECT_THAT(observer.bytes, testing::ElementsAre(4096));
  arena.Allocate(10000);
  EXPECT_EQ(observer.bytes.size(), 2u);
  EXPECT_EQ(observer.bytes.back(), arena.MemoryUsage());
}

TEST(ArenaTest, KeepsPiecesApart) {
  constexpr uint64_t kSeed = 301;
  SCOPED_TRACE(kSeed);
  Arena arena(size_t{16} << 10);
  Check(Fill(&arena, kSeed, 20000));
}

// B1 and B2 of the header: blocks are small, so that threads meet at refills.
TEST(ArenaTest, KeepsPiecesOfManyThreadsApart) {
  constexpr size_t kThreads = 4;
  Arena arena(Arena::kMinBlockBytes);
  std::vector<std::vector<Piece>> pieces(kThreads);
  std::vector<std::thread> threads;
  std::atomic<size_t> ready{0};
  for (size_t i = 0; i < kThreads; i++) {
    threads.emplace_back([&, i] {
      ready++;
      while (ready < kThreads) std::this_thread::yield();
      pieces[i] = Fill(&arena, i, 20000);
    });
  }
  for (std::thread& thread : threads) thread.join();
  size_t total = 0;
  for (const std::vector<Piece>& of_thread : pieces) {
    Check(of_thread);
    for (const Piece& piece : of_thread) total += piece.size;
  }
  EXPECT_GE(arena.MemoryUsage(), total);
  // At worst a quarter of each block is lost at its end, and some to padding.
  EXPECT_LE(arena.MemoryUsage(), total * 3 / 2);
}

}  // namespace
}  // namespace varve
