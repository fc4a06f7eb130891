// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a flush keeps what some reader sees, and of single deletions those that
// RocksDB needs. Method: small memtables, and what is left of them.

#include "db/compaction/compaction_iterator.h"

#include "db/memtable/memtable.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

const InternalKeyComparator kComparator(BytewiseComparator());

struct Update {
  char type;  // p, d or s: put, delete, single delete.
  const char* key;
};

// Returns the output of a flush of updates numbered from 1 on: "p3 s2 " and so
// on.
std::string Flushed(const std::vector<Update>& updates,
                    const std::vector<SequenceNumber>& snapshots = {}) {
  MemTable memtable(&kComparator, 1, 1 << 20);
  SequenceNumber sequence = 0;
  for (const Update& update : updates) {
    const ValueType type = update.type == 'p'   ? ValueType::kValue
                           : update.type == 'd' ? ValueType::kDeletion
                                                : ValueType::kSingleDeletion;
    memtable.Add(++sequence, type, update.key,
                 type == ValueType::kValue ? "value" : "");
  }
  const auto input = memtable.NewIterator();
  CompactionIterator it(input.get(), &kComparator, snapshots, nullptr, nullptr,
                        CompactionIterator::Output::kLevel0);
  std::string left;
  for (it.SeekToFirst(); it.Valid(); it.Next()) {
    const ValueType type = ExtractValueType(it.key());
    EXPECT_EQ(it.value().ToString(), type == ValueType::kValue ? "value" : "");
    left += type == ValueType::kValue      ? 'p'
            : type == ValueType::kDeletion ? 'd'
                                           : 's';
    left += std::to_string(ExtractSequence(it.key())) + " ";
  }
  EXPECT_TRUE(it.status().ok()) << it.status().ToString();
  return left;
}

TEST(CompactionIteratorTest, NewestVersionOfEachStripeIsLeft) {
  EXPECT_EQ(Flushed({{'p', "a"}, {'p', "a"}, {'d', "a"}, {'p', "b"}}),
            "d3 p4 ");
  EXPECT_EQ(Flushed({{'p', "a"}, {'p', "a"}, {'d', "a"}, {'p', "a"}}, {1, 3}),
            "p4 d3 p1 ");
}

TEST(CompactionIteratorTest, SingleDeletionOfADeeperValueIsLeftBelowANewOne) {
  // RocksDB lets the next single deletion and the newest value go together.
  EXPECT_EQ(Flushed({{'s', "a"}, {'p', "a"}}), "p2 s1 ");
  EXPECT_EQ(Flushed({{'s', "a"}, {'p', "a"}, {'p', "b"}, {'s', "c"}}),
            "p2 s1 p3 s4 ");
  EXPECT_EQ(Flushed({{'s', "a"}, {'p', "a"}, {'s', "a"}, {'p', "a"}}),
            "p4 s1 ");
  // A snapshot keeps the value that it is of.
  EXPECT_EQ(Flushed({{'p', "a"}, {'s', "a"}, {'p', "a"}}, {1}), "p3 s2 p1 ");
  EXPECT_EQ(Flushed({{'s', "a"}, {'p', "a"}, {'p', "b"}}, {1, 2}), "p2 s1 p3 ");
}

TEST(CompactionIteratorTest, SingleDeletionsWithTheirValuesGo) {
  EXPECT_EQ(Flushed({{'p', "a"}, {'s', "a"}, {'p', "a"}}), "p3 ");
  EXPECT_EQ(Flushed({{'p', "a"}, {'s', "a"}, {'p', "a"}, {'p', "b"}}),
            "p3 p4 ");
  EXPECT_EQ(Flushed({{'s', "a"}, {'p', "a"}, {'s', "a"}}), "s3 ");
}

}  // namespace
}  // namespace varve::test
