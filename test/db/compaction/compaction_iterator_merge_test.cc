// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: optimized
//
// Goal: flushes and compactions merge operands so that each reader sees what it
// saw, whatever snapshots, deletions, older tables and failures there are, and
// leave no operand that can be merged.
// Method: all short histories of a key, and random long ones, against a model
// that reads the versions one by one.

#include <stdexcept>

#include "db/compaction/compaction_iterator.h"
#include "db/version/version.h"
#include "test/testing/db/compaction_model.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

const InternalKeyComparator kComparator(BytewiseComparator());

// A version without tables.
class NoTables {
 public:
  NoTables() {
    LevelFiles levels;
    version_ = new Version(&kComparator, nullptr, true, levels);
    version_->RefLocked();
  }
  ~NoTables() {
    std::vector<FileMetaData*> obsolete;
    EXPECT_TRUE(version_->UnrefLocked(&obsolete));
  }
  const Version& version() const { return *version_; }

 private:
  Version* version_;
};

class FailingOperator : public JoiningOperator {
 public:
  bool FullMerge(const FullMergeInput&, std::string* new_value) const override {
    *new_value = "wrong";
    return false;
  }
  bool PartialMerge(const Slice&, const Slice&, const Slice&,
                    std::string* new_value) const override {
    *new_value = "wrong";
    return false;
  }
};

class ThrowingOperator : public JoiningOperator {
 public:
  bool FullMerge(const FullMergeInput&, std::string* new_value) const override {
    *new_value = "wrong";
    throw std::runtime_error("as requested");
  }
  bool PartialMergeMulti(const Slice&, const std::vector<Slice>&,
                         std::string*) const override {
    throw 1;
  }
};

class FullOnlyOperator : public JoiningOperator {
 public:
  bool PartialMerge(const Slice&, const Slice&, const Slice&,
                    std::string*) const override {
    return false;
  }
};

enum class Older { kNone, kWithoutKey, kWithKey };

const JoiningOperator kJoining;
const FailingOperator kFailing;
const ThrowingOperator kThrowing;
const FullOnlyOperator kFullOnly;

class CompactionIteratorMergeTest : public testing::Test {
 protected:
  CompactionOutput Run(const Versions& input,
                       const std::vector<SequenceNumber>& snapshots,
                       Older older, const MergeOperator* merge_operator) {
    OlderTables none(no_tables_.version(), kNumLevels);
    return RunIterator(input, snapshots,
                       older == Older::kNone ? &none : nullptr,
                       {merge_operator, nullptr, &stats_});
  }

  // Runs and compares. Returns false after a failure.
  bool Check(const Versions& input,
             const std::vector<SequenceNumber>& snapshots, Older older,
             const MergeOperator* merge_operator) {
    const CompactionOutput output =
        Run(input, snapshots, older, merge_operator);
    std::string trace = "input: " + ToString(input.entries) + "\ntombstones:";
    for (const SequenceNumber s : input.tombstones) {
      trace += " " + std::to_string(s);
    }
    trace += "\nsnapshots:";
    for (const SequenceNumber s : snapshots) trace += " " + std::to_string(s);
    trace += "\nolder tables: " + std::to_string(static_cast<int>(older));
    trace += "\noutput: " + ToString(output.entries);
    const testing::ScopedTrace scope(__FILE__, __LINE__, trace);
    EXPECT_TRUE(output.status.ok());
    EXPECT_EQ(output.input_count, input.entries.size());
    EXPECT_EQ(output.entries.size() + output.drops.Total(),
              input.entries.size());
    CheckOrder(output);
    CheckReaders(input, output, snapshots, older);
    CheckHidden(input, output, snapshots, older, merge_operator != nullptr);
    if (merge_operator == &kJoining) {
      CheckMerged(input, output, snapshots, older);
    }
    return !HasFailure();
  }

  static void CheckOrder(const CompactionOutput& output) {
    for (size_t i = 0; i < output.entries.size(); ++i) {
      const VersionEntry& entry = output.entries[i];
      const bool starts = i == 0 || output.entries[i - 1].key != entry.key;
      EXPECT_EQ(output.starts_user_key[i], starts);
      EXPECT_TRUE(starts || output.entries[i - 1].sequence > entry.sequence);
    }
  }

  static void CheckReaders(const Versions& input,
                           const CompactionOutput& output,
                           std::vector<SequenceNumber> readers, Older older) {
    for (const auto& tombstones :
         SurvivingTombstones(input, readers, older != Older::kNone)) {
      const Versions result = {output.entries, tombstones, input.older};
      for (const VersionEntry& entry : input.entries) {
        for (const SequenceNumber reader : readers) {
          EXPECT_EQ(result.Read(entry.key, reader),
                    input.Read(entry.key, reader))
              << "a reader of " << reader;
        }
        EXPECT_EQ(result.Read(entry.key, kMaxSequenceNumber),
                  input.Read(entry.key, kMaxSequenceNumber));
      }
    }
  }

  // Returns whether all newer entries of the key are operands, and snapshots
  // divide them from the entry.
  static bool IsApart(const CompactionOutput& output, size_t i,
                      const std::vector<SequenceNumber>& snapshots) {
    const VersionEntry& entry = output.entries[i];
    bool is_apart = false;
    for (; i > 0 && output.entries[i - 1].key == entry.key; --i) {
      const VersionEntry& newer = output.entries[i - 1];
      if (newer.type != ValueType::kMerge) return false;
      is_apart |= StripeIn(snapshots, newer.sequence) !=
                  StripeIn(snapshots, entry.sequence);
    }
    return is_apart;
  }

  // Whom an entry is said to be kept for, and who uses it.
  static void CheckHidden(const Versions& input, const CompactionOutput& output,
                          const std::vector<SequenceNumber>& snapshots,
                          Older older, bool merges) {
    const Versions result = {output.entries, input.tombstones, input.older};
    std::vector<std::set<SequenceNumber>> readers(output.entries.size());
    const auto read = [&](SequenceNumber reader) {
      std::set<std::string> keys;
      for (const VersionEntry& entry : output.entries) keys.insert(entry.key);
      std::set<size_t> used;
      for (const std::string& key : keys) result.Read(key, reader, &used);
      for (const size_t i : used) readers[i].insert(reader);
    };
    for (const SequenceNumber snapshot : snapshots) read(snapshot);
    read(kMaxSequenceNumber);
    for (size_t i = 0; i < output.entries.size(); ++i) {
      const testing::ScopedTrace scope(__FILE__, __LINE__,
                                       ToString(output.entries[i]));
      const bool for_present = readers[i].count(kMaxSequenceNumber) != 0;
      const ValueType type = output.entries[i].type;
      // Some are kept for RocksDB, and for no reader.
      if (type == ValueType::kSingleDeletion) continue;
      const bool hides_nothing =
          older == Older::kNone && IsDeletion(type) && !snapshots.empty();
      const bool is_apart = merges && IsApart(output, i, snapshots);
      EXPECT_EQ(output.hidden[i], !for_present || hides_nothing || is_apart);
      const SequenceNumber kept_for = output.kept_for[i];
      if (kept_for != kMaxSequenceNumber) {
        EXPECT_EQ(readers[i], (std::set<SequenceNumber>{kept_for}));
      } else if (!IsDeletion(type)) {
        EXPECT_TRUE(for_present || readers[i].size() > 1);
      }
    }
  }

  // With an operator that can do all, no operand is left beside another entry
  // of its stripe, and none without versions in older tables or stripes.
  static void CheckMerged(const Versions& input, const CompactionOutput& output,
                          const std::vector<SequenceNumber>& snapshots,
                          Older older) {
    for (size_t i = 0; i < output.entries.size(); ++i) {
      const VersionEntry& entry = output.entries[i];
      if (entry.type != ValueType::kMerge) continue;
      const SequenceNumber stripe = StripeIn(snapshots, entry.sequence);
      bool any_older = older != Older::kNone;
      for (const VersionEntry& other : input.entries) {
        any_older |= other.key == entry.key &&
                     StripeIn(snapshots, other.sequence) < stripe;
      }
      EXPECT_TRUE(any_older);
      if (i + 1 < output.entries.size() &&
          output.entries[i + 1].key == entry.key) {
        EXPECT_NE(StripeIn(snapshots, output.entries[i + 1].sequence), stripe);
      }
    }
  }

  const NoTables no_tables_;
  StatisticsImpl stats_{StatisticsOptions()};
};

constexpr const MergeOperator* kOperators[] = {&kJoining, nullptr, &kFailing,
                                               &kThrowing, &kFullOnly};

// Sequence numbers 1 to n are each a version of the key or a range deletion.
constexpr ValueType kTypes[] = {
    ValueType::kValue, ValueType::kMerge, ValueType::kDeletion,
    ValueType::kSingleDeletion, ValueType::kRangeDeletion};

TEST_F(CompactionIteratorMergeTest, AllShortHistories) {
  constexpr SequenceNumber kCount = 4;
  for (int history = 0; history < 5 * 5 * 5 * 5; ++history) {
    Versions input;
    int rest = history;
    for (SequenceNumber s = kCount; s > 0; --s, rest /= 5) {
      const ValueType type = kTypes[rest % 5];
      if (type == ValueType::kRangeDeletion) {
        input.tombstones.push_back(s);
      } else {
        input.entries.push_back(
            {"key", s, type, IsDeletion(type) ? "" : std::to_string(s)});
      }
    }
    for (unsigned mask = 0; mask < 1U << kCount; ++mask) {
      std::vector<SequenceNumber> snapshots;
      for (SequenceNumber s = 1; s <= kCount; ++s) {
        if ((mask >> (s - 1) & 1) != 0) snapshots.push_back(s);
      }
      for (const Older older :
           {Older::kNone, Older::kWithoutKey, Older::kWithKey}) {
        input.older.clear();
        if (older == Older::kWithKey) input.older["key"] = "old";
        for (const MergeOperator* merge_operator : kOperators) {
          if (!Check(input, snapshots, older, merge_operator)) return;
        }
      }
    }
  }
}

TEST_F(CompactionIteratorMergeTest, RandomHistoriesOfSeveralKeys) {
  Rng rng(TestSeed());
  for (int round = 0; round < 20000; ++round) {
    Versions input;
    std::map<std::string, std::vector<VersionEntry>> keys;
    const SequenceNumber count = rng.Between(1, 30);
    for (SequenceNumber s = count; s > 0; --s) {
      ValueType type = kTypes[rng.Between(0, 4)];
      if (rng.Between(0, 2) == 0) type = ValueType::kMerge;
      if (type == ValueType::kRangeDeletion) {
        input.tombstones.push_back(s);
        continue;
      }
      const std::string key(1, static_cast<char>('a' + rng.Between(0, 2)));
      keys[key].push_back(
          {key, s, type, IsDeletion(type) ? "" : std::to_string(s)});
    }
    const Older older = static_cast<Older>(rng.Between(0, 2));
    for (const auto& [key, entries] : keys) {
      input.entries.insert(input.entries.end(), entries.begin(), entries.end());
      if (older == Older::kWithKey) input.older[key] = "old";
    }
    std::vector<SequenceNumber> snapshots;
    for (SequenceNumber s = 1; s <= count; ++s) {
      if (rng.Between(0, 5) == 0) snapshots.push_back(s);
    }
    if (!Check(input, snapshots, older, kOperators[rng.Between(0, 4)])) return;
  }
}

TEST_F(CompactionIteratorMergeTest, OperandsWhoseMergeIsTooLargeStayApart) {
  OlderTables none(no_tables_.version(), kNumLevels);
  for (const ValueType oldest : {ValueType::kValue, ValueType::kMerge}) {
    const Versions input = {{{"a", 3, ValueType::kMerge, "3"},
                             {"a", 2, ValueType::kMerge, "2"},
                             {"a", 1, oldest, "1"},
                             {"b", 4, ValueType::kMerge, "4"}},
                            {},
                            {}};
    const auto run = [&](OlderTables* older, size_t max_bytes) {
      return RunIterator(input, {}, older,
                         {&kJoining, nullptr, &stats_, max_bytes})
          .entries;
    };
    const size_t merged = 1 + std::string("1,2,3").size();
    for (OlderTables* const older :
         {static_cast<OlderTables*>(nullptr), &none}) {
      EXPECT_EQ(run(older, merged).size(), 2u);
      std::vector<VersionEntry> apart = run(older, merged - 1);
      ASSERT_EQ(apart.size(), 4u);
      apart[2].sequence = 1;        // 0 if it is the last version.
      apart[3] = input.entries[3];  // It is alone, and may be merged.
      EXPECT_EQ(apart, input.entries);
    }
  }
}

TEST_F(CompactionIteratorMergeTest, ResultsHaveTheNewestNumber) {
  const Versions input = {{{"a", 9, ValueType::kMerge, "9"},
                           {"a", 8, ValueType::kMerge, "8"},
                           {"a", 7, ValueType::kValue, "7"},
                           {"b", 6, ValueType::kMerge, "6"},
                           {"b", 5, ValueType::kMerge, "5"}},
                          {},
                          {}};
  EXPECT_EQ(ToString(Run(input, {}, Older::kWithoutKey, &kJoining).entries),
            "a@9 value 7,8,9; b@6 operand 5,6; ");
  EXPECT_EQ(ToString(Run(input, {}, Older::kNone, &kJoining).entries),
            "a@0 value 7,8,9; b@0 value 5,6; ");
  EXPECT_EQ(ToString(Run(input, {8}, Older::kNone, &kJoining).entries),
            "a@9 operand 9; a@0 value 7,8; b@0 value 5,6; ");
}

TEST_F(CompactionIteratorMergeTest, FailuresAreCounted) {
  const Versions input = {{{"a", 9, ValueType::kMerge, "9"},
                           {"a", 8, ValueType::kMerge, "8"},
                           {"a", 7, ValueType::kValue, "7"},
                           {"b", 6, ValueType::kMerge, "6"},
                           {"b", 5, ValueType::kMerge, "5"},
                           {"b", 4, ValueType::kDeletion, ""}},
                          {},
                          {}};
  EXPECT_EQ(Run(input, {}, Older::kWithKey, &kFailing).entries, input.entries);
  EXPECT_EQ(stats_.getTickerCount(Ticker::kNumberMergeFailures), 2u);
  EXPECT_EQ(Run(input, {}, Older::kWithKey, &kThrowing).entries, input.entries);
  EXPECT_EQ(stats_.getTickerCount(Ticker::kNumberMergeFailures), 4u);
  EXPECT_EQ(Run(input, {}, Older::kWithKey, nullptr).entries, input.entries);
  EXPECT_EQ(stats_.getTickerCount(Ticker::kNumberMergeFailures), 4u);
}

// Counts its calls, and sets a flag at the first one.
class CountingOperator : public JoiningOperator {
 public:
  bool FullMerge(const FullMergeInput& input,
                 std::string* new_value) const override {
    ++calls;
    stop = true;
    return JoiningOperator::FullMerge(input, new_value);
  }

  mutable int calls = 0;
  mutable std::atomic<bool> stop = false;
};

TEST_F(CompactionIteratorMergeTest, ErrorOfTheInputIsNoEndOfTheKey) {
  const CountingOperator counting;
  OlderTables none(no_tables_.version(), kNumLevels);
  const Versions input = {{{"a", 9, ValueType::kMerge, "9"}}, {}, {}};
  const CompactionOutput output =
      RunIterator(input, {}, &none, {&counting, nullptr, &stats_}, nullptr,
                  Status::IOError("as requested"));
  EXPECT_TRUE(output.status.IsIOError());
  EXPECT_TRUE(output.entries.empty());
  EXPECT_EQ(counting.calls, 0);
}

TEST_F(CompactionIteratorMergeTest, StopEndsTheCollection) {
  const Versions input = {{{"a", 9, ValueType::kMerge, "9"},
                           {"a", 8, ValueType::kValue, "8"},
                           {"b", 7, ValueType::kMerge, "7"},
                           {"b", 6, ValueType::kMerge, "6"},
                           {"b", 5, ValueType::kValue, "5"}},
                          {},
                          {}};
  const CountingOperator counting;
  const CompactionOutput output = RunIterator(
      input, {}, nullptr, {&counting, nullptr, &stats_}, &counting.stop);
  EXPECT_TRUE(output.status.IsShutdownInProgress());
  EXPECT_EQ(ToString(output.entries), "a@9 value 8,9; ");
  EXPECT_EQ(counting.calls, 1);
}

}  // namespace
}  // namespace varve::test
