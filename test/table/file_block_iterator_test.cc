// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: the walk through a block in its file's form gives exactly what the
// block in memory gives, and no bytes make it read beyond the body, go on for
// ever or take all memory. Method: random blocks in several orders and restart
// intervals against the entries they were made of; every cut and every changed
// byte of a small block, walked from many places (under the sanitizers this
// finds any access out of bounds).
#include "table/reader/file_block_iterator.h"

#include "table/block/block_builder.h"
#include "test/testing/comparators.h"
#include "test/testing/random_entries.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"

namespace varve {
namespace {

using Entries = std::vector<std::pair<std::string, std::string>>;

std::string Key(const Slice& user_key, SequenceNumber sequence) {
  return MakeInternalKey(user_key, PackTrailer(sequence, ValueType::kValue));
}

std::string Body(const Entries& entries, int restart_interval) {
  BlockBuilder builder(restart_interval);
  for (const auto& [key, value] : entries) builder.Add(key, value);
  return *builder.Finish();
}

// A copy as large as the bytes, so that one byte too far is noticed.
class ExactCopy {
 public:
  explicit ExactCopy(const std::string& bytes)
      : size_(bytes.size()), bytes_(new char[bytes.size()]) {
    std::copy(bytes.begin(), bytes.end(), bytes_.get());
  }
  Slice AsSlice() const { return Slice(bytes_.get(), size_); }

 private:
  const size_t size_;
  const std::unique_ptr<char[]> bytes_;
};

void CheckAgainst(const std::string& body, const Entries& expected,
                  const std::vector<std::string>& targets,
                  const InternalKeyComparator* comparator,
                  SequenceNumber global_sequence) {
  const ExactCopy bytes(body);
  IteratorPosition position;
  FileBlockIterator it(&position);
  it.Reset(bytes.AsSlice(), comparator, global_sequence);
  ASSERT_TRUE(it.status().ok()) << it.status().ToString();
  ASSERT_FALSE(position.valid);
  size_t i = 0;
  for (it.SeekToFirst(); position.valid; it.Next(), ++i) {
    ASSERT_LT(i, expected.size());
    ASSERT_EQ(position.key, expected[i].first);
    ASSERT_EQ(position.value, expected[i].second);
  }
  ASSERT_TRUE(it.status().ok()) << it.status().ToString();
  ASSERT_EQ(i, expected.size());
  for (const std::string& target : targets) {
    auto at = std::lower_bound(
        expected.begin(), expected.end(), target,
        [comparator](const auto& entry, const std::string& key) {
          return comparator->Compare(entry.first, key) < 0;
        });
    it.Seek(target);
    for (int step = 0; step < 3 && at != expected.end(); ++step, ++at) {
      ASSERT_TRUE(position.valid);
      ASSERT_EQ(position.key, at->first);
      ASSERT_EQ(position.value, at->second);
      it.Next();
    }
    ASSERT_EQ(position.valid, at != expected.end());
    ASSERT_TRUE(it.status().ok()) << it.status().ToString();
  }
}

// As org.iq80.leveldb writes it.
TEST(FileBlockIteratorTest, AnEmptyBlockMayHaveNoRestartPoints) {
  const InternalKeyComparator comparator(BytewiseComparator());
  const ExactCopy body(std::string(4, '\0'));
  IteratorPosition position;
  FileBlockIterator it(&position);
  it.Reset(body.AsSlice(), &comparator, 0);
  it.SeekToFirst();
  EXPECT_FALSE(position.valid);
  it.Seek(Key("a", 7));
  EXPECT_FALSE(position.valid);
  EXPECT_TRUE(it.status().ok()) << it.status().ToString();
}

TEST(FileBlockIteratorTest, GivesBackRandomEntries) {
  const InternalKeyComparator bytewise(BytewiseComparator());
  const test::ReverseComparator reverse_order;
  const InternalKeyComparator reverse(&reverse_order);
  test::Rng random(test::TestSeed());
  for (int round = 0; round < 300; ++round) {
    const InternalKeyComparator* comparator =
        round % 3 == 0 ? &reverse : &bytewise;
    const SequenceNumber global_sequence = round % 4 == 0 ? 12345 : 0;
    const test::RandomEntries random_entries(&random);
    const auto& [common, model] = random_entries;
    Entries stored;
    Entries expected;
    std::vector<std::string> targets = {Key("", 1), Key("\xFF", 1),
                                        Key(common, 1)};
    for (const auto& [user_key, value] : model) {
      const int versions = global_sequence != 0 ? 1 : random.Between(1, 20);
      for (int v = versions; v > 0; --v) {
        const auto sequence = static_cast<SequenceNumber>(10 * v);
        stored.emplace_back(Key(user_key, global_sequence != 0 ? 0 : sequence),
                            value);
        expected.emplace_back(
            Key(user_key, global_sequence != 0 ? global_sequence : sequence),
            value);
        targets.push_back(expected.back().first);
        targets.push_back(Key(user_key, sequence + random.Below(3)));
      }
      targets.push_back(Key(user_key, kMaxSequenceNumber));
      targets.push_back(Key(user_key + '\0', 5));
    }
    const auto in_order = [comparator](const auto& a, const auto& b) {
      return comparator->Compare(a.first, b.first) < 0;
    };
    std::sort(stored.begin(), stored.end(), in_order);
    std::sort(expected.begin(), expected.end(), in_order);
    const std::string body = Body(stored, random.Pick({1, 2, 3, 16}));
    ASSERT_NO_FATAL_FAILURE(
        CheckAgainst(body, expected, targets, comparator, global_sequence));
  }
}

TEST(FileBlockIteratorTest, RewritesTrailersThatAreShared) {
  const InternalKeyComparator comparator(BytewiseComparator());
  const std::string first = Key("a", 0);
  const std::string second = Key(first + "b", 0);
  CheckAgainst(Body({{first, "1"}, {second, "2"}}, 16),
               {{Key("a", 99), "1"}, {Key(first + "b", 99), "2"}},
               {Key("a", 99), Key("a", 98), Key(first + "b", 99)}, &comparator,
               99);
}

// Goes wherever it can; what it gives must lie in the body, and come to an
// end.
void WalkEverywhere(const std::string& body, SequenceNumber global_sequence) {
  const InternalKeyComparator comparator(BytewiseComparator());
  const ExactCopy bytes(body);
  IteratorPosition position;
  FileBlockIterator it(&position);
  it.Reset(bytes.AsSlice(), &comparator, global_sequence);
  if (!it.status().ok()) return;
  const auto walk_on = [&] {
    size_t steps = 0;
    while (position.valid) {
      ASSERT_LE(++steps, body.size());
      ASSERT_GE(position.key.size(), kTrailerSize);
      ASSERT_LE(position.key.size(), body.size());
      ASSERT_GE(position.value.data(), bytes.AsSlice().data());
      ASSERT_LE(position.value.end(), bytes.AsSlice().end());
      it.Next();
    }
  };
  it.SeekToFirst();
  ASSERT_NO_FATAL_FAILURE(walk_on());
  for (const char* user_key : {"", "a", "aaab", "aaac9", "b", "\xFF"}) {
    for (const SequenceNumber sequence : {uint64_t{0}, kMaxSequenceNumber}) {
      it.Seek(Key(user_key, sequence));
      ASSERT_NO_FATAL_FAILURE(walk_on());
    }
  }
}

TEST(FileBlockIteratorTest, SurvivesEveryCutAndEveryChangedByte) {
  Entries entries;
  for (int i = 0; i < 12; ++i) {
    entries.emplace_back(Key("aaa" + std::string(1, static_cast<char>('b' + i)),
                             static_cast<SequenceNumber>(i)),
                         std::string(static_cast<size_t>(i), 'v'));
  }
  for (const int interval : {1, 4}) {
    const std::string body = Body(entries, interval);
    for (const SequenceNumber sequence : {uint64_t{0}, uint64_t{7}}) {
      for (size_t size = 0; size <= body.size(); ++size) {
        ASSERT_NO_FATAL_FAILURE(WalkEverywhere(body.substr(0, size), sequence));
      }
      for (size_t i = 0; i < body.size(); ++i) {
        for (const int mask : {0x01, 0x02, 0x10, 0x80, 0xFF}) {
          std::string changed = body;
          changed[i] = static_cast<char>(changed[i] ^ mask);
          ASSERT_NO_FATAL_FAILURE(WalkEverywhere(changed, sequence));
        }
      }
    }
  }
}

TEST(FileBlockIteratorTest, NamesUnreadableFiles) {
  const InternalKeyComparator comparator(BytewiseComparator());
  std::string body = Body({{Key("a", 1), "v"}}, 16);
  body[4] = static_cast<char>(ValueType::kBlobIndex);  // After lengths and "a".
  IteratorPosition position;
  FileBlockIterator it(&position);
  it.Reset(body, &comparator, 0);
  it.SeekToFirst();
  EXPECT_FALSE(position.valid);
  EXPECT_TRUE(it.status().IsNotSupported()) << it.status().ToString();
  // It recovers at the next seek.
  const std::string good = Body({{Key("a", 1), "v"}}, 16);
  it.Reset(good, &comparator, 0);
  it.Seek(Key("a", 1));
  EXPECT_TRUE(position.valid);
  EXPECT_TRUE(it.status().ok());
}

}  // namespace
}  // namespace varve
