// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: places of blocks do not overlap, lie on cache lines, lose little to
// rounding, and go back to the system. Method: random sizes from several
// threads, each place filled with its own byte and looked at again before it
// is freed, also by another thread; the chunks counted before, between and
// after.
#include "table/block/block_memory.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "test/testing/seed.h"
#include "test/testing/test_headers.h"

namespace varve {
namespace {

struct Place {
  unsigned char* memory = nullptr;
  size_t size = 0;
  unsigned char pattern = 0;
  bool huge_pages = false;
};

Place Make(test::Rng* random) {
  Place place;
  place.size = random->OneIn(10) ? random->Between(1, 100000)
                                 : random->Between(4000, 4500);
  place.pattern = static_cast<unsigned char>(random->Next());
  place.huge_pages = !random->OneIn(5);
  place.memory = static_cast<unsigned char*>(
      AllocateBlockMemory(place.size, place.huge_pages));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(place.memory) % 64, 0u);
  memset(place.memory, place.pattern, place.size);
  return place;
}

void CheckAndFree(const Place& place) {
  size_t wrong = 0;
  for (size_t i = 0; i < place.size; ++i) {
    wrong += place.memory[i] != place.pattern ? 1 : 0;
  }
  EXPECT_EQ(wrong, 0u);
  FreeBlockMemory(place.memory, place.size, place.huge_pages);
}

TEST(BlockMemoryTest, PlacesKeepTheirBytes) {
  const uint64_t seed = test::TestSeed();
  std::vector<std::vector<Place>> left(3);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < left.size(); ++t) {
    threads.emplace_back([&places = left[t], seed, t] {
      test::Rng random(seed + t);
      for (int i = 0; i < 5000; ++i) {
        if (places.size() > 300 || (!places.empty() && random.OneIn(3))) {
          std::swap(places[random.Below(places.size())], places.back());
          CheckAndFree(places.back());
          places.pop_back();
        } else {
          places.push_back(Make(&random));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& places : left) {
    for (const Place& place : places) CheckAndFree(place);
  }
}

TEST(BlockMemoryTest, LosesLittleAndGivesChunksBack) {
  constexpr size_t kSize = 4200;
  constexpr size_t kCount = 5000;
  const size_t before = TEST_BlockChunkBytes();
  std::vector<void*> places(kCount);
  for (void*& place : places) place = AllocateBlockMemory(kSize, true);
  const size_t chunks = TEST_BlockChunkBytes() - before;
  for (void* place : places) FreeBlockMemory(place, kSize, true);
  if (chunks == 0) return;  // Under the sanitizers there are none.
  EXPECT_GE(chunks, kSize * kCount - (size_t{2} << 20));
  EXPECT_LE(chunks, kSize * kCount / 100 * 104 + (size_t{2} << 20));
  // At most one stays, for the next block.
  EXPECT_LE(TEST_BlockChunkBytes(), before + (size_t{2} << 20));
}

long MinorFaults() {
  rusage usage;
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_minflt;
}

// Returns how many pages of the chunk of a place are in memory.
long ResidentPages(void* place) {
  constexpr size_t kChunkBytes = size_t{2} << 20;
  void* const chunk = reinterpret_cast<void*>(
      reinterpret_cast<uintptr_t>(place) & ~(kChunkBytes - 1));
  std::vector<unsigned char> resident(
      kChunkBytes / static_cast<size_t>(sysconf(_SC_PAGESIZE)));
  EXPECT_EQ(mincore(chunk, kChunkBytes, resident.data()), 0);
  return std::count_if(resident.begin(), resident.end(),
                       [](unsigned char page) { return (page & 1) != 0; });
}

// To zero a huge page takes long. So a chunk is in memory already, or comes
// page by page.
TEST(BlockMemoryTest, AllocationZeroesNoHugePage) {
  constexpr size_t kSize = 5000;
  std::vector<void*> places;
  for (int i = 0; i < 3000; ++i) {
    const long before = MinorFaults();
    void* const place = AllocateBlockMemory(kSize, true);
    memset(place, 1, kSize);
    const long faults = MinorFaults() - before;
    places.push_back(place);
    if (TEST_BlockChunkBytes() == 0) break;  // Under the sanitizers.
    if (i % 100 == 0) TEST_WaitForReadyChunks();
    const auto chunk = reinterpret_cast<uintptr_t>(place) >> 21;
    if (places.size() > 1 &&
        reinterpret_cast<uintptr_t>(places[places.size() - 2]) >> 21 == chunk) {
      continue;
    }
    // The first place of a chunk.
    if (faults > 0) {
      EXPECT_LE(ResidentPages(place), faults);
    }
  }
  for (void* place : places) FreeBlockMemory(place, kSize, true);
}

TEST(BlockMemoryTest, ReadyChunksAreReplaced) {
  constexpr size_t kSize = size_t{60} << 10;
  constexpr size_t kPerChunk = (size_t{2} << 20) / kSize;
  std::vector<void*> places;
  const auto allocate = [&] {
    places.push_back(AllocateBlockMemory(kSize, true));
    memset(places.back(), 1, kSize);
  };
  allocate();
  if (TEST_BlockChunkBytes() > 0) {
    EXPECT_EQ(TEST_WaitForReadyChunks(), kReadyChunks);
    // The rest of the first chunk, of pages of the usual size perhaps.
    for (size_t i = 1; i < kPerChunk; ++i) allocate();
    for (int chunk = 0; chunk < 5; ++chunk) {
      EXPECT_EQ(TEST_WaitForReadyChunks(), kReadyChunks);
      const long before = MinorFaults();
      for (size_t i = 0; i < kPerChunk; ++i) allocate();
      EXPECT_LT(MinorFaults() - before, 100);
    }
  }
  for (void* place : places) FreeBlockMemory(place, kSize, true);
}

}  // namespace
}  // namespace varve
