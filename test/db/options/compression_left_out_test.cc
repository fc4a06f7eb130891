// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a database whose tables need a compression that is not built in is
// refused by the compression's name, and is not changed. Method: a database of
// RocksDB for each compression. Those that are built in must open.

#include <gtest/gtest.h>

#include <string>

#include "test/testing/fixtures.h"

namespace varve::test {
namespace {

struct Case {
  const char* fixture;
  CompressionType type;
  const char* name;
};

constexpr Case kCases[] = {
    {"leveldb-default", CompressionType::kSnappy, "Snappy"},
    {"rocksdb-zlib", CompressionType::kZlib, "Zlib"},
    {"rocksdb-bzip2", CompressionType::kBZip2, "BZip2"},
    {"rocksdb-lz4", CompressionType::kLZ4, "LZ4"},
    {"rocksdb-lz4hc", CompressionType::kLZ4HC, "LZ4HC"},
    {"rocksdb-zstd-dict", CompressionType::kZSTD, "ZSTD"},
};

class CompressionLeftOutTest : public FixtureTest,
                               public ::testing::WithParamInterface<Case> {};

TEST_P(CompressionLeftOutTest, IsNamedWhereATableNeedsIt) {
  for (const bool read_only : {true, false}) {
    SCOPED_TRACE(read_only ? "read-only" : "for writing");
    CopyFixture(GetParam().fixture);
    options_.create_if_missing = false;
    EntryList entries;
    const Status status = OpenAndScan(read_only, &entries);
    if (CompressionSupported(GetParam().type)) {
      EXPECT_TRUE(Ok(status));
      EXPECT_TRUE(SameEntries(ReadExpected(), entries));
      continue;
    }
    EXPECT_TRUE(IsNotSupported(
        status, std::string(GetParam().name) + " compression (type 0x0" +
                    std::to_string(static_cast<int>(GetParam().type)) +
                    ") is not built in"));
    db_.reset();
    if (read_only) ExpectUnchanged(read_only);
  }
}

TEST_P(CompressionLeftOutTest, IsNamedWhereAnOptionNeedsIt) {
  options_.compression = GetParam().type;
  const Status status = TryOpen();
  if (CompressionSupported(GetParam().type)) {
    EXPECT_TRUE(Ok(status));
    return;
  }
  EXPECT_TRUE(IsInvalidArgument(status, GetParam().name));
}

INSTANTIATE_TEST_SUITE_P(All, CompressionLeftOutTest,
                         ::testing::ValuesIn(kCases),
                         [](const auto& test) { return test.param.name; });

// A database with default options works in every build.
TEST_F(FixtureTest, DefaultCompressionWorksInEveryBuild) {
  options_ = Options();
  options_.create_if_missing = true;
  ASSERT_TRUE(Ok(DB::Open(options_, path_, &db_)));
  const std::string value(1000, 'v');
  for (int i = 0; i < 100; ++i) Put(Key(i), value);
  Flush();
  CompactAll();
  EXPECT_EQ(Get(Key(99)), value);
  EXPECT_TRUE(Ok(db_->VerifyChecksum()));
}

}  // namespace
}  // namespace varve::test
