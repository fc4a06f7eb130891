// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a child may close and destroy the database of a parent whose threads
// were anywhere in it at the fork, also where memory is free and a pointer to
// it is not yet replaced. Method: this program's free() fills the memory and
// forks after some of its calls, whichever thread makes them.

#include <malloc.h>

#include <atomic>
#include <cstring>

#include "test/testing/db_helpers.h"
#include "test/testing/forked.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "varve/transaction_db.h"

namespace {

std::atomic<int> frees_to_fork{-1};  // Below 0: none.
void (*at_fork)() = nullptr;
thread_local bool is_inside = false;

}  // namespace

extern "C" {
void __libc_free(void* memory);

void free(void* memory) {
  if (memory == nullptr) return;
  memset(memory, 0xdb, malloc_usable_size(memory));
  __libc_free(memory);
  // relaxed, all: one call counts down to 0, and which one does not matter.
  if (is_inside || frees_to_fork.load(std::memory_order_relaxed) < 0 ||
      frees_to_fork.fetch_sub(1, std::memory_order_relaxed) != 0) {
    return;
  }
  is_inside = true;
  at_fork();
  is_inside = false;
}
}

namespace varve::test {
namespace {

class ForkDuringFreeTest : public DbTestBase,
                           public ::testing::WithParamInterface<bool> {
 protected:
  // With or without locks of transactions.
  void OpenInherited() {
    if (!GetParam()) return Open();
    std::unique_ptr<TransactionDB> locked;
    ASSERT_TRUE(Ok(TransactionDB::Open(options_, {}, path_, &locked)));
    db_ = std::move(locked);
  }
};

DB* inherited = nullptr;
std::atomic<int> children{0};
std::atomic<int> failures{0};

int UseInChild(int way) {
  if (way == 1 && !inherited->Put({}, "x", "y").IsBusy()) return 1;
  if (way == 2 && !inherited->Close().ok()) return 2;
  delete inherited;
  return 0;
}

void Fork() {
  const int child = children.fetch_add(1);
  const int outcome = RunForked([child] { return UseInChild(child % 3); }, 20);
  if (outcome == 0) return;
  failures.fetch_add(1);
  fprintf(stderr, "child %d: %d\n", child, outcome);
}

TEST_P(ForkDuringFreeTest, AnyCallOfFreeMayBeFollowedByAFork) {
  constexpr int kChildren = 300;
  options_.write_buffer_size = 64 << 10;
  options_.max_bytes_for_level_base = 256 << 10;
  OpenInherited();
  inherited = db_.get();
  at_fork = Fork;
  children = 0;
  failures = 0;
  Rng random(TestSeed());
  // Writers that join groups: a log's buffers grow with them.
  std::vector<std::thread> writers;
  for (int t = 0; t < 3; ++t) {
    writers.emplace_back([this, t] {
      const std::string key = "w" + std::to_string(t);
      while (children < kChildren) {
        EXPECT_TRUE(Ok(db_->Put({}, key, key)));
      }
    });
  }
  for (int i = 0; children < kChildren; ++i) {
    if (frees_to_fork < 0) {
      if (random.OneIn(2)) {
        ASSERT_TRUE(Ok(db_->Flush({})));
      }
      frees_to_fork = static_cast<int>(random.Below(random.OneIn(2) ? 6 : 200));
    }
    const std::string key = Key(i % 3000);
    const std::string value(random.OneIn(8) ? 4000 : 100, 'v');
    ASSERT_TRUE(Ok(db_->Put({}, key, value)));
    std::string read;
    ASSERT_TRUE(Ok(db_->Get({}, key, &read)));
    if (random.OneIn(100)) {
      auto it = db_->NewIterator({});
      it->Seek(Key(static_cast<int>(random.Below(3000))));
      for (int n = 0; n < 50 && it->Valid(); ++n) it->Next();
    }
  }
  for (std::thread& writer : writers) writer.join();
  frees_to_fork = -1;
  EXPECT_EQ(failures, 0);
  EXPECT_TRUE(Ok(db_->VerifyChecksum()));
  EXPECT_EQ(Get("x"), "NotFound");
}

INSTANTIATE_TEST_SUITE_P(Databases, ForkDuringFreeTest,
                         ::testing::Values(false, true));

}  // namespace
}  // namespace varve::test
