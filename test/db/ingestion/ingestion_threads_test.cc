// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: beside other writes, flushes and compactions, each reader sees all
// files of an ingestion of two families or none, and never an older state than
// before. Method: threads that read both families at one moment, and one that
// writes into the range of the files, while numbered files are ingested.

#include <atomic>

#include "test/testing/db/external_tables.h"
#include "test/testing/db/families_fixture.h"
#include "test/testing/test_headers.h"
#include "test/testing/threads/run_threads.h"
#include "varve/external_files.h"

namespace varve::test {
namespace {

class IngestionThreadsTest : public FamiliesTest {
 protected:
  static constexpr int kRounds = 8;

  // Reads the number of the last ingestion at one moment, by MultiGet or by a
  // snapshot. It must be the same everywhere.
  int ReadNumber(bool by_snapshot) {
    const Slice keys[] = {"a", "z", "a", "z"};
    ColumnFamilyHandle* const families[] = {At("one"), At("one"), At("two"),
                                            At("two")};
    std::string values[4];
    Status statuses[4];
    ReadOptions options;
    if (by_snapshot) options.snapshot = db_->GetSnapshot();
    if (by_snapshot) {
      for (int i = 0; i < 4; ++i) {
        statuses[i] = db_->Get(options, families[i], keys[i], &values[i]);
      }
      db_->ReleaseSnapshot(options.snapshot);
    } else {
      db_->MultiGet(options, 4, families, keys, values, statuses);
    }
    for (int i = 0; i < 4; ++i) {
      EXPECT_TRUE(Ok(statuses[i]));
      EXPECT_EQ(values[i], values[0]) << i;
    }
    return std::atoi(values[0].c_str());
  }
  void WriteFiles(int round) {
    const std::string number = std::to_string(round);
    for (const char* name : {"1", "2"}) {
      WriteExternalTable(options_, dir_.Sub(name),
                         "put a " + number + ", put z " + number);
    }
  }
  Status Ingest() {
    const IngestExternalFileOptions options{.move_files = true};
    return db_->IngestExternalFiles({{At("one"), {dir_.Sub("1")}, options},
                                     {At("two"), {dir_.Sub("2")}, options}});
  }
};

TEST_F(IngestionThreadsTest, ReadersSeeAllOrNothing) {
  OpenNew({"one", "two"});
  WriteFiles(0);
  ASSERT_TRUE(Ok(Ingest()));
  std::atomic<bool> done = false;
  const auto read = [&](bool by_snapshot) {
    int last = 0;
    while (!done && !HasFailure()) {
      const int number = ReadNumber(by_snapshot);
      EXPECT_GE(number, last);
      last = number;
    }
  };
  RunThreads(4, [&](int thread) {
    if (thread == 0) {
      for (int round = 1; round < kRounds && !HasFailure(); ++round) {
        WriteFiles(round);
        EXPECT_TRUE(Ok(Ingest()));
        // Its own ingestion is visible at once.
        EXPECT_EQ(ReadNumber(false), round);
      }
      done = true;
    } else if (thread == 1) {
      // In the range of the files, so that memtables are flushed for them.
      for (int i = 0; !done && !HasFailure(); ++i) {
        const std::string value = std::to_string(i);
        EXPECT_TRUE(Ok(db_->Put({}, At("one"), "m", value)));
        EXPECT_EQ(GetIn("one", "m"), value);
      }
    } else {
      read(thread == 2);
    }
  });
  ReopenAll();
  EXPECT_EQ(ReadNumber(true), kRounds - 1);
}

}  // namespace
}  // namespace varve::test
