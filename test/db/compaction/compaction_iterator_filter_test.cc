// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: optimized
//
// Goal: a compaction filter is asked about just the versions that no snapshot
// needs, what it decides is what readers of the present see, and snapshots see
// what they saw.
// Method: all short histories of a key, before two other keys, under a filter
// that decides by the value, against a model that applies the decisions to the
// versions one by one.

#include "db/compaction/compaction_iterator.h"
#include "db/version/version.h"
#include "test/testing/db/compaction_model.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

const InternalKeyComparator kComparator(BytewiseComparator());
const JoiningOperator kJoining;

// Keys from the one that is skipped at, up to this one, are skipped.
constexpr const char kSkipUntil[] = "c";

// Decides by the first letter of a value: k, r, c or s.
class LetterFilter : public CompactionFilter {
 public:
  Decision FilterV2(int, const Slice& key, ValueType type,
                    const Slice& existing_value, std::string* new_value,
                    std::string* skip_until) const override {
    asked.push_back(key.ToString() + " " +
                    (type == ValueType::kValue ? "value " : "operand ") +
                    existing_value.ToString());
    if (existing_value.starts_with("r")) return Decision::kRemove;
    if (existing_value.starts_with("c")) {
      *new_value = "new" + existing_value.ToString();
      return Decision::kChangeValue;
    }
    if (existing_value.starts_with("s")) {
      *skip_until = kSkipUntil;
      return Decision::kRemoveAndSkipUntil;
    }
    return Decision::kKeep;
  }
  const char* Name() const override { return "LetterFilter"; }

  mutable std::vector<std::string> asked;
};

// Applies the decisions to versions.
class FilterModel {
 public:
  FilterModel(const Versions& input,
              const std::vector<SequenceNumber>& snapshots)
      : result(input), snapshots_(snapshots) {
    result.entries.clear();
    for (const SequenceNumber sequence : input.tombstones) {
      tombstone_ = std::max(tombstone_, sequence);
    }
    std::vector<VersionEntry> versions;
    for (const VersionEntry& entry : input.entries) {
      if (!versions.empty() && versions[0].key != entry.key) {
        AddKey(std::move(versions));
        versions.clear();
      }
      versions.push_back(entry);
    }
    if (!versions.empty()) AddKey(std::move(versions));
  }

  // The entries that readers of the present see.
  Versions result;
  std::vector<std::string> asked;

 private:
  bool IsOpenToFilter(const VersionEntry& entry) const {
    return StripeIn(snapshots_, entry.sequence) == kMaxSequenceNumber &&
           entry.sequence > tombstone_;
  }

  void AddKey(std::vector<VersionEntry> versions) {
    const std::vector<VersionEntry> original = versions;
    if (versions[0].key < skip_until_) return Skip(original);
    size_t i = 0;
    while (i < versions.size() && IsOpenToFilter(versions[i]) &&
           !IsDeletion(versions[i].type)) {
      const bool is_value = versions[i].type == ValueType::kValue;
      std::string& value = versions[i].value;
      asked.push_back(versions[i].key + (is_value ? " value " : " operand ") +
                      value);
      if (value[0] == 's') {
        skip_until_ = kSkipUntil;
        return Skip(original);
      }
      if (value[0] == 'c') value = "new" + value;
      if (value[0] != 'r') {
        ++i;
        // Values end the newest versions, and only operands continue them.
        if (is_value ||
            (i < versions.size() && versions[i].type != ValueType::kMerge)) {
          break;
        }
      } else if (is_value) {
        versions[i].type = ValueType::kDeletion;
        value.clear();
        break;
      } else {
        versions.erase(versions.begin() + static_cast<std::ptrdiff_t>(i));
        if (i > 0 && i < versions.size() &&
            versions[i].type != ValueType::kMerge) {
          break;
        }
      }
    }
    result.entries.insert(result.entries.end(), versions.begin(),
                          versions.end());
  }

  void Skip(const std::vector<VersionEntry>& versions) {
    std::optional<SequenceNumber> skipped;
    for (const VersionEntry& entry : versions) {
      if (IsOpenToFilter(entry)) {
        if (!skipped) skipped = entry.sequence;
        continue;
      }
      if (StripeIn(snapshots_, entry.sequence) == kMaxSequenceNumber) continue;
      if (skipped) {
        result.entries.push_back(
            {entry.key, *skipped, ValueType::kDeletion, ""});
        skipped.reset();
      }
      result.entries.push_back(entry);
    }
  }

  const std::vector<SequenceNumber>& snapshots_;
  SequenceNumber tombstone_ = 0;
  std::string skip_until_;
};

class CompactionIteratorFilterTest : public testing::Test {
 protected:
  CompactionIteratorFilterTest() {
    LevelFiles levels;
    version_ = new Version(&kComparator, nullptr, true, levels);
    version_->RefLocked();
  }
  ~CompactionIteratorFilterTest() override {
    std::vector<FileMetaData*> obsolete;
    EXPECT_TRUE(version_->UnrefLocked(&obsolete));
  }

  CompactionOutput Run(const Versions& input,
                       const std::vector<SequenceNumber>& snapshots,
                       bool has_older_tables, const CompactionFilter& filter,
                       const MergeOperator* merge_operator = &kJoining,
                       const std::atomic<bool>* stop = nullptr,
                       const std::string* end = nullptr) {
    Options options;
    options.compaction_filter = &filter;
    JobFilter::Job job;
    job.comparator = &kComparator;
    job.stats = &stats_;
    job.stop = stop;
    const auto job_filter = JobFilter::Create(options, job);
    OlderTables none(*version_, kNumLevels);
    return RunIterator(input, snapshots, has_older_tables ? nullptr : &none,
                       {merge_operator, job_filter.get(), &stats_}, stop,
                       Status::OK(), end);
  }

  bool Check(const Versions& input,
             const std::vector<SequenceNumber>& snapshots,
             bool has_older_tables, const MergeOperator* merge_operator) {
    const LetterFilter filter;
    const CompactionOutput output =
        Run(input, snapshots, has_older_tables, filter, merge_operator);
    const FilterModel model(input, snapshots);
    std::string trace = "input: " + ToString(input.entries) + "\ntombstones:";
    for (const SequenceNumber s : input.tombstones) {
      trace += " " + std::to_string(s);
    }
    trace += "\nsnapshots:";
    for (const SequenceNumber s : snapshots) trace += " " + std::to_string(s);
    trace += has_older_tables ? "\nolder tables" : "\nno older tables";
    trace += "\nexpected: " + ToString(model.result.entries);
    trace += "\noutput: " + ToString(output.entries);
    const testing::ScopedTrace scope(__FILE__, __LINE__, trace);
    EXPECT_TRUE(output.status.ok());
    EXPECT_EQ(filter.asked, model.asked);
    EXPECT_TRUE(output.skipped_input ||
                output.input_count == input.entries.size());
    EXPECT_TRUE(snapshots.empty() || !output.skipped_input);
    for (const auto& tombstones :
         SurvivingTombstones(input, snapshots, has_older_tables)) {
      const Versions result = {output.entries, tombstones, input.older};
      for (const char* key : {"a", "b", "c"}) {
        for (const SequenceNumber reader : snapshots) {
          EXPECT_EQ(result.Read(key, reader), input.Read(key, reader))
              << key << " for a reader of " << reader;
        }
        EXPECT_EQ(result.Read(key, kMaxSequenceNumber),
                  model.result.Read(key, kMaxSequenceNumber))
            << key << " for a reader of the present";
      }
    }
    for (size_t i = 1; i < output.entries.size(); ++i) {
      const VersionEntry& before = output.entries[i - 1];
      const VersionEntry& entry = output.entries[i];
      EXPECT_EQ(output.starts_user_key[i], before.key != entry.key);
      EXPECT_TRUE(before.key < entry.key || before.sequence > entry.sequence);
    }
    return !HasFailure();
  }

  Version* version_;
  StatisticsImpl stats_{StatisticsOptions()};
};

TEST_F(CompactionIteratorFilterTest, AllShortHistories) {
  constexpr int kKinds = 10;
  constexpr SequenceNumber kCount = 3;
  const std::string letters = "krcs";
  for (int history = 0; history < kKinds * kKinds * kKinds; ++history) {
    Versions input;
    int rest = history;
    for (SequenceNumber s = kCount; s > 0; --s, rest /= kKinds) {
      const size_t kind = static_cast<size_t>(rest % kKinds);
      if (kind == 9) {
        input.tombstones.push_back(s);
      } else if (kind == 8) {
        input.entries.push_back({"a", s, ValueType::kDeletion, ""});
      } else {
        input.entries.push_back(
            {"a", s, kind < 4 ? ValueType::kValue : ValueType::kMerge,
             letters[kind % 4] + std::to_string(s)});
      }
    }
    input.entries.push_back({"b", 5, ValueType::kMerge, "k5"});
    input.entries.push_back({"b", 4, ValueType::kValue, "k4"});
    input.entries.push_back({"c", 6, ValueType::kValue, "k6"});
    for (unsigned mask = 0; mask < 1U << 4; ++mask) {
      std::vector<SequenceNumber> snapshots;
      for (SequenceNumber s = 1; s <= 4; ++s) {
        if ((mask >> (s - 1) & 1) != 0) snapshots.push_back(s);
      }
      for (const bool has_older_tables : {false, true}) {
        input.older.clear();
        if (has_older_tables) input.older = {{"a", "old"}, {"b", "older"}};
        for (const MergeOperator* merge_operator :
             std::initializer_list<const MergeOperator*>{&kJoining, nullptr}) {
          if (!Check(input, snapshots, has_older_tables, merge_operator)) {
            return;
          }
        }
      }
    }
  }
}

TEST_F(CompactionIteratorFilterTest,
       RemovedValuesAreDeletionsAboveOlderTables) {
  const Versions input = {{{"a", 9, ValueType::kValue, "r"},
                           {"a", 7, ValueType::kValue, "k"},
                           {"b", 6, ValueType::kValue, "c"}},
                          {},
                          {}};
  const LetterFilter filter;
  const CompactionOutput above = Run(input, {}, true, filter);
  EXPECT_EQ(ToString(above.entries), "a@9 deletion ; b@6 value newc; ");
  EXPECT_EQ(above.drops.user, 1u);
  EXPECT_EQ(above.drops.hidden, 1u);
  const CompactionOutput last = Run(input, {}, false, filter);
  EXPECT_EQ(ToString(last.entries), "b@0 value newc; ");
  EXPECT_EQ(last.drops.user, 1u);
  EXPECT_EQ(last.drops.obsolete, 0u);
}

// Throws, or does what a test asks for, at each call.
class WrongFilter : public CompactionFilter {
 public:
  enum class Kind { kThrow, kSkipBack, kUnknown, kStop };
  explicit WrongFilter(Kind kind) : kind_(kind) {}

  Decision FilterV2(int, const Slice& key, ValueType, const Slice&,
                    std::string* new_value,
                    std::string* skip_until) const override {
    ++calls;
    *new_value = "wrong";
    switch (kind_) {
      case Kind::kThrow:
        throw std::runtime_error("as requested");
      case Kind::kSkipBack:
        *skip_until = key.ToString();
        return Decision::kRemoveAndSkipUntil;
      case Kind::kUnknown:
        return static_cast<Decision>(77);
      case Kind::kStop:
        stop = true;
        break;
    }
    return Decision::kKeep;
  }
  const char* Name() const override { return "WrongFilter"; }

  mutable int calls = 0;
  mutable std::atomic<bool> stop = false;

 private:
  const Kind kind_;
};

const Versions kPlain = {{{"a", 9, ValueType::kValue, "9"},
                          {"b", 8, ValueType::kMerge, "8"},
                          {"b", 7, ValueType::kMerge, "7"},
                          {"c", 6, ValueType::kValue, "6"}},
                         {},
                         {}};

TEST_F(CompactionIteratorFilterTest, AFilterThatThrowsIsNotAskedAgain) {
  const WrongFilter filter(WrongFilter::Kind::kThrow);
  EXPECT_EQ(Run(kPlain, {}, true, filter, nullptr).entries, kPlain.entries);
  EXPECT_EQ(filter.calls, 1);
  EXPECT_EQ(stats_.getTickerCount(Ticker::kCompactionFilterErrors), 1u);
}

TEST_F(CompactionIteratorFilterTest, WrongDecisionsKeepTheEntry) {
  const WrongFilter back(WrongFilter::Kind::kSkipBack);
  EXPECT_EQ(Run(kPlain, {}, true, back, nullptr).entries, kPlain.entries);
  EXPECT_EQ(back.calls, 4);
  EXPECT_EQ(stats_.getTickerCount(Ticker::kCompactionFilterErrors), 0u);
  const WrongFilter unknown(WrongFilter::Kind::kUnknown);
  EXPECT_EQ(Run(kPlain, {}, true, unknown, nullptr).entries, kPlain.entries);
  EXPECT_EQ(stats_.getTickerCount(Ticker::kCompactionFilterErrors), 4u);
}

TEST_F(CompactionIteratorFilterTest, NoCallBeginsAfterAStop) {
  const WrongFilter filter(WrongFilter::Kind::kStop);
  const CompactionOutput output =
      Run(kPlain, {}, true, filter, nullptr, &filter.stop);
  EXPECT_TRUE(output.status.IsShutdownInProgress());
  EXPECT_EQ(filter.calls, 1);
}

TEST_F(CompactionIteratorFilterTest, NoCallIsForKeysAfterTheEnd) {
  const LetterFilter filter;
  const std::string end = "b";
  const CompactionOutput output =
      Run(kPlain, {}, true, filter, &kJoining, nullptr, &end);
  EXPECT_TRUE(output.status.ok());
  EXPECT_EQ(ToString(output.entries), "a@9 value 9; ");
  EXPECT_EQ(output.input_count, 1u);
  EXPECT_EQ(filter.asked, std::vector<std::string>{"a value 9"});
}

class TestFactory : public CompactionFilterFactory {
 public:
  bool ShouldFilterTableFileCreation(
      TableFileCreationReason reason) const override {
    if (throws) throw 1;
    return CompactionFilterFactory::ShouldFilterTableFileCreation(reason);
  }
  std::unique_ptr<CompactionFilter> CreateCompactionFilter(
      const CompactionFilter::Context&) override {
    ++calls;
    if (gives_none) return nullptr;
    return std::make_unique<LetterFilter>();
  }
  const char* Name() const override { return "TestFactory"; }

  bool throws = false;
  bool gives_none = false;
  int calls = 0;
};

TEST_F(CompactionIteratorFilterTest, FactoriesDecideWhatIsFiltered) {
  const auto factory = std::make_shared<TestFactory>();
  Options options;
  JobFilter::Job job;
  job.comparator = &kComparator;
  job.stats = &stats_;
  EXPECT_EQ(JobFilter::Create(options, job), nullptr);
  options.compaction_filter_factory = factory;
  EXPECT_NE(JobFilter::Create(options, job), nullptr);
  job.context.reason = TableFileCreationReason::kFlush;
  EXPECT_EQ(JobFilter::Create(options, job), nullptr);
  job.context.reason = TableFileCreationReason::kRecovery;
  EXPECT_EQ(JobFilter::Create(options, job), nullptr);
  EXPECT_EQ(factory->calls, 1);
  job.context.reason = TableFileCreationReason::kCompaction;
  factory->gives_none = true;
  EXPECT_EQ(JobFilter::Create(options, job), nullptr);
  EXPECT_EQ(factory->calls, 2);
  factory->throws = true;
  EXPECT_EQ(JobFilter::Create(options, job), nullptr);
  EXPECT_EQ(stats_.getTickerCount(Ticker::kCompactionFilterErrors), 1u);
  // A filter goes before a factory, and is for compactions only.
  const LetterFilter filter;
  options.compaction_filter = &filter;
  EXPECT_NE(JobFilter::Create(options, job), nullptr);
  job.context.reason = TableFileCreationReason::kFlush;
  EXPECT_EQ(JobFilter::Create(options, job), nullptr);
  EXPECT_EQ(factory->calls, 2);
}

}  // namespace
}  // namespace varve::test
