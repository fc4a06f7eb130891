// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a sealed build does what any other does, but refuses whatever is not
// the production choice. Method: the same databases, opened as a sealed build
// (VARVE_SEAL_ABLATIONS=ON) or one that is not must open them.

#include <gtest/gtest.h>

#include "test/testing/db_helpers.h"
#include "util/base/ablation_choice.h"

namespace varve::test {
namespace {

class SealedTest : public DbTestBase {};

TEST_F(SealedTest, ReadsWhatItWrote) {
  Open();
  EntryList entries;
  for (int i = 0; i < 5000; i++) {
    entries.emplace_back(Key(i), std::string(50, 'v'));
    Put(Key(i), entries.back().second);
  }
  CompactAll();
  EXPECT_TRUE(HasEntries(db_.get(), entries));
  Reopen();
  EXPECT_TRUE(HasEntries(db_.get(), entries));
}

TEST_F(SealedTest, RefusesOtherChoicesOnlyIfSealed) {
  for (const char* text :
       {"superversion=mutex", "block_index=binary_search", "block_cache=hash",
        "memtable=skiplist", "statistics=global", "statistics=thread",
        "trace_clock=steady", "trace_collect=channel"}) {
    options_.ablation = AblationOptions();
    ASSERT_TRUE(Ok(options_.ablation.Parse(text)));
    const Status status = TryOpen();
    if (kAblationsSealed) {
      EXPECT_TRUE(status.IsNotSupported()) << status.ToString();
      EXPECT_TRUE(Contains(status.ToString(), text)) << status.ToString();
    } else {
      EXPECT_TRUE(Ok(status));
    }
  }
}

}  // namespace
}  // namespace varve::test
