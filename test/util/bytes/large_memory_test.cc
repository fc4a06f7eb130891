// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads optimized

// Goal: large pieces do not overlap, are aligned, are used again without page
// faults, and no more of them are kept than the bound. Method: random sizes
// from several threads, each piece filled with its own bytes and checked before
// it is freed; the faults of a second use counted.
#include "util/bytes/large_memory.h"

#include <sys/resource.h>

#include "test/testing/sanitizers.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "util/bytes/arena.h"

namespace varve {
namespace {

#ifdef VARVE_TEST_SANITIZED
constexpr bool kKept = false;
#else
constexpr bool kKept = true;
#endif

constexpr size_t kMiB = size_t{1} << 20;

size_t PageFaults() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return static_cast<size_t>(usage.ru_minflt);
}

TEST(LargeMemoryTest, PiecesKeepTheirBytes) {
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 3; ++t) {
    threads.emplace_back([seed = test::TestSeed() + t] {
      test::Rng rng(seed);
      struct Piece {
        unsigned char* memory;
        size_t size;
        unsigned char pattern;
      };
      std::vector<Piece> pieces;
      for (int i = 0; i < 500 || !pieces.empty(); ++i) {
        if (i < 500 &&
            (pieces.empty() || (pieces.size() < 10 && rng.OneIn(2)))) {
          const size_t size =
              rng.OneIn(3)
                  ? rng.Between(1, 100000)
                  : (kLeastLargeBytes << rng.Below(5)) + rng.Between(-3, 3);
          auto* const memory = static_cast<unsigned char*>(AllocateLarge(size));
          ASSERT_EQ(reinterpret_cast<uintptr_t>(memory) % 64, 0u);
          const auto pattern = static_cast<unsigned char>(rng.Next());
          memset(memory, pattern, size);
          pieces.push_back({memory, size, pattern});
          continue;
        }
        std::swap(pieces[rng.Below(pieces.size())], pieces.back());
        const Piece& piece = pieces.back();
        ASSERT_EQ(
            std::count(piece.memory, piece.memory + piece.size, piece.pattern),
            static_cast<ptrdiff_t>(piece.size));
        FreeLarge(piece.memory, piece.size);
        pieces.pop_back();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(TEST_KeptLargeBytes(), kMostKeptBytes);
}

TEST(LargeMemoryTest, KeepsNoMoreThanTheBound) {
  std::vector<void*> pieces(2 * kMostKeptBytes / kMiB);
  for (void*& piece : pieces) piece = AllocateLarge(kMiB);
  for (void* const piece : pieces) FreeLarge(piece, kMiB);
  const size_t kept = TEST_KeptLargeBytes();
  EXPECT_LE(kept, kMostKeptBytes);
  if (kKept) {
    EXPECT_GT(kept, kMostKeptBytes - 2 * kMiB);
  }
  // Neither tiny nor gigantic ones.
  FreeLarge(AllocateLarge(100), 100);
  FreeLarge(AllocateLarge(kMostLargeBytes + 1), kMostLargeBytes + 1);
  EXPECT_EQ(TEST_KeptLargeBytes(), kept);
}

TEST(LargeMemoryTest, SecondArenaTouchesNoFreshMemory) {
  if (!kKept) GTEST_SKIP() << "nothing is kept";
  const auto fill = [](size_t value) {
    Arena arena(256 << 10);
    const size_t before = PageFaults();
    for (size_t bytes = 0; bytes < 16 * kMiB; bytes += value) {
      memset(arena.Allocate(value), 1, value);
    }
    return PageFaults() - before;
  };
  for (const size_t value : {1000u, 10000u, 100000u, 1000000u}) {
    SCOPED_TRACE(value);
    fill(value);
    EXPECT_LT(fill(value), 200u);  // Of 4096 pages.
  }
}

}  // namespace
}  // namespace varve
