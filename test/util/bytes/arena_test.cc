// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: no two allocations overlap, all are aligned and found by their
// positions, and the memory count is exact, from one thread and from many.
// Method: every allocation is filled with a mark of its own and all are checked
// at the end; the arena's count is compared with what its documentation
// implies.
#include "util/bytes/arena.h"

#include "test/testing/test_headers.h"
#include "util/base/random.h"

namespace varve {
namespace {

struct Piece {
  char* data;
  size_t size;
  char mark;
  uint32_t position;
};

// Allocates `count` pieces of random size, mostly small, and fills them.
std::vector<Piece> Fill(Arena* arena, uint64_t seed, int count) {
  Random random(seed);
  std::vector<Piece> pieces;
  for (int i = 0; i < count; i++) {
    const size_t size =
        random.OneIn(500) ? random.Uniform(20000) : random.Uniform(100);
    const size_t alignment = random.OneIn(20) ? 64 : 8;
    const auto [data, position] = arena->Allocate(size, alignment);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % alignment, 0u);
    const char mark = static_cast<char>(random.Next());
    memset(data, mark, size);
    pieces.push_back({data, size, mark, position});
  }
  return pieces;
}

void Check(const Arena& arena, const std::vector<Piece>& pieces) {
  for (const Piece& piece : pieces) {
    ASSERT_NE(piece.position, 0u);
    ASSERT_EQ(arena.At(piece.position), piece.data);
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
  const ArenaPlace first = arena.Allocate(10);
  EXPECT_EQ(arena.MemoryUsage(), Arena::kDefaultBlockBytes);
  const ArenaPlace second = arena.Allocate(1);
  EXPECT_EQ(second.data, first.data + 16);
  EXPECT_EQ(second.position, first.position + 2);
  EXPECT_EQ(arena.Allocate(0).data, first.data + 24);
  EXPECT_EQ(arena.Allocate(1).data, first.data + 24);
  EXPECT_EQ(arena.MemoryUsage(), Arena::kDefaultBlockBytes);
}

TEST(ArenaTest, GivesBigPieceBlockOfItsOwn) {
  Arena arena(size_t{64} << 10);
  char* first = arena.Allocate(8).data;
  const size_t before = arena.MemoryUsage();
  constexpr size_t kBig = size_t{1} << 20;
  memset(arena.Allocate(kBig).data, 'x', kBig);
  const size_t header = arena.MemoryUsage() - before - kBig;
  EXPECT_GT(header, 0u);
  EXPECT_LE(header, 64u);
  // The block in use stays in use.
  EXPECT_EQ(arena.Allocate(8).data, first + 8);
  EXPECT_EQ(arena.MemoryUsage(), before + kBig + header);
}

TEST(ArenaTest, AlignsAsAsked) {
  Arena arena(Arena::kMinBlockBytes);
  for (size_t size : {1, 100, 1000, 5000}) {
    for (size_t alignment = 8; alignment <= 256; alignment *= 2) {
      const auto [data, position] = arena.Allocate(size, alignment);
      EXPECT_EQ(arena.At(position), data);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % alignment, 0u);
      memset(data, 'x', size);
    }
  }
}

TEST(ArenaTest, UsesBlockToItsLastByte) {
  Arena arena(4096);
  const char* first = arena.Allocate(8).data;
  size_t bytes = 8;
  while (arena.MemoryUsage() == 4096) {
    const char* next = arena.Allocate(8).data;
    if (arena.MemoryUsage() == 4096) {
      EXPECT_EQ(next, first + bytes);
      bytes += 8;
    }
  }
  EXPECT_EQ(arena.MemoryUsage(), 8192u);
  EXPECT_GE(bytes, 4096u - 64);
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

// So that the slots suffice for much more than the arena was made for.
TEST(ArenaTest, BlocksGrowIfThereAreMany) {
  Arena arena(4096);
  std::vector<Piece> pieces;
  size_t blocks = 0;
  size_t least = 0;
  while (arena.MemoryUsage() < size_t{32} << 20) {
    const std::vector<Piece> more = Fill(&arena, pieces.size(), 1);
    pieces.insert(pieces.end(), more.begin(), more.end());
    blocks += std::exchange(least, arena.MemoryUsage()) != least ? 1 : 0;
  }
  // 64 of each size up to 128 KiB take 16 MiB.
  EXPECT_LT(blocks, 6 * 64 + 2 * 64);
  Check(arena, pieces);
}

// The threads read positions of each other while tables of slots are replaced.
// No other edge leads to a table, so that ThreadSanitizer judges the arena's.
TEST(ArenaTest, ThreadsFindPositionsOfOthers) {
  constexpr size_t kThreads = 3;
  const int count = 3000;
  Arena arena(Arena::kMinBlockBytes);
  std::atomic<uint32_t> newest[kThreads] = {};
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; i++) {
    threads.emplace_back([&, i] {
      for (int n = 0; n < count; ++n) {
        const auto [data, position] = arena.Allocate(2000);
        memcpy(data, &position, sizeof(position));
        // release: pairs with the acquire below.
        newest[i].store(position, std::memory_order_release);
        for (const std::atomic<uint32_t>& other : newest) {
          const uint32_t of_other = other.load(std::memory_order_acquire);
          if (of_other == 0) continue;
          uint32_t read;
          memcpy(&read, arena.At(of_other), sizeof(read));
          ASSERT_EQ(read, of_other);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
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
  Check(arena, Fill(&arena, kSeed, 20000));
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
    Check(arena, of_thread);
    for (const Piece& piece : of_thread) total += piece.size;
  }
  EXPECT_GE(arena.MemoryUsage(), total);
  // At worst a quarter of each block is lost at its end, and some to padding.
  EXPECT_LE(arena.MemoryUsage(), total * 3 / 2);
}

}  // namespace
}  // namespace varve
