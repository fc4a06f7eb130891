// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a lookup gives the same answer whichever way it goes: by prefixes and
// fingerprints or by comparator calls, with either cache or none, alone or in
// steps with others, cold or warm. Method: random tables whose keys are hard
// to tell apart, opened in every mode, against a sorted vector.

#include <random>

#include "experimental/ablation.h"
#include "monitoring/statistics.h"
#include "table/build/table_builder.h"
#include "table/cache/baseline/hash_block_cache.h"
#include "table/cache/block_cache.h"
#include "test/testing/comparators.h"
#include "test/testing/env/string_file.h"
#include "test/testing/env/string_random_access_file.h"
#include "test/testing/hard_keys.h"
#include "test/testing/seed.h"
#include "test/testing/status_checks.h"
#include "test/testing/table/table_lookup.h"
#include "test/testing/test_headers.h"
#include "varve/statistics.h"

namespace varve {
namespace {

using Entries = std::vector<std::pair<std::string, std::string>>;

const test::UnrecognizedBytewiseComparator unrecognized;
const test::ReverseComparator reverse;

// A way to read a table.
struct Mode {
  const char* name;
  const Comparator* comparator;
  bool binary_search;
  bool has_cache;
  BlockCacheMode cache;
};

const Mode kModes[] = {
    {"Prefixes", BytewiseComparator(), false, true, BlockCacheMode::kSwizzled},
    {"PrefixesHash", BytewiseComparator(), false, true, BlockCacheMode::kHash},
    {"PrefixesUncached", BytewiseComparator(), false, false, {}},
    {"BinarySearch", BytewiseComparator(), true, true,
     BlockCacheMode::kSwizzled},
    {"BinarySearchHash", BytewiseComparator(), true, true,
     BlockCacheMode::kHash},
    {"General", &unrecognized, false, true, BlockCacheMode::kSwizzled},
    {"Reverse", &reverse, false, true, BlockCacheMode::kSwizzled},
    {"ReverseUncached", &reverse, false, false, {}},
};

struct Answer {
  LookupState state = LookupState::kNotFound;
  std::string value;

  bool operator==(const Answer&) const = default;
};

using Question = std::pair<std::string, SequenceNumber>;

// Returns the expected answer. The entries are in the comparator's order.
Answer Expect(const InternalKeyComparator& comparator, const Entries& entries,
              const Question& question) {
  const std::string target =
      MakeInternalKey(question.first, SeekTrailer(question.second));
  const auto entry = std::partition_point(
      entries.begin(), entries.end(), [&](const auto& candidate) {
        return comparator.Compare(candidate.first, target) < 0;
      });
  if (entry == entries.end() ||
      !(ExtractUserKey(entry->first) == Slice(question.first))) {
    return {};
  }
  if (ExtractValueType(entry->first) != ValueType::kValue) {
    return {LookupState::kDeleted, ""};
  }
  return {LookupState::kFound, entry->second};
}

class TableLookupTest : public ::testing::TestWithParam<Mode> {
 protected:
  void TearDown() override { TEST_DrainRetired(); }

  // Sorts the entries, and makes a file of them.
  std::string Build(TableBuilderOptions options, Entries* entries) {
    std::sort(entries->begin(), entries->end(),
              [this](const auto& a, const auto& b) {
                return comparator_.Compare(a.first, b.first) < 0;
              });
    options.comparator = &comparator_;
    testing::StringFile file;
    TableBuilder builder(options, &file);
    for (const auto& [key, value] : *entries) builder.Add(key, value);
    EXPECT_TRUE(Ok(builder.Finish()));
    return file.contents();
  }

  void OpenCache(size_t capacity_bytes) {
    if (!GetParam().has_cache) return;
    const CacheOptions options = {.capacity_bytes = capacity_bytes};
    if (GetParam().cache == BlockCacheMode::kHash) {
      cache_ = std::make_shared<HashBlockCache>(options);
    } else {
      cache_ = NewBlockCache(options);
    }
  }
  std::unique_ptr<Table> Open(const std::string& bytes) {
    TableReaderOptions options;
    options.comparator = &comparator_;
    options.file_size = bytes.size();
    options.block_cache = static_cast<BlockCache*>(cache_.get());
    options.statistics = StatisticsImpl::Of(statistics_.get());
    options.binary_search = GetParam().binary_search;
    std::unique_ptr<Table> table;
    EXPECT_TRUE(Ok(Table::Open(
        options, std::make_unique<testing::StringRandomAccessFile>(bytes),
        &table)));
    return table;
  }

  const InternalKeyComparator comparator_{GetParam().comparator};
  const std::shared_ptr<Statistics> statistics_ = CreateDBStatistics();
  std::shared_ptr<Cache> cache_;
};

INSTANTIATE_TEST_SUITE_P(Modes, TableLookupTest, ::testing::ValuesIn(kModes),
                         [](const auto& mode) { return mode.param.name; });

TableBuilderOptions RandomOptions(test::Rng* random) {
  TableBuilderOptions options;
  options.block_size = random->Pick({64, 500, 4096, 20000});
  options.block_restart_interval = random->Pick({1, 4, 16});
  options.compression =
      random->Pick({CompressionType::kNone, CompressionType::kLZ4});
  if (random->OneIn(2)) options.filter_policy = NewBloomFilterPolicy(10);
  return options;
}

// Returns keys of one style, some with versions for several blocks.
Entries RandomEntries(test::Rng* random, int style) {
  std::set<std::string> user_keys;
  const int count = random->Pick({0, 1, 30, 200});
  for (int i = 0; i < count; ++i) {
    user_keys.insert(test::HardKey(random, style));
  }
  Entries entries;
  for (const std::string& user_key : user_keys) {
    const uint64_t versions =
        random->OneIn(20) ? random->Below(100) : random->Below(3);
    for (uint64_t v = 0; v <= versions; ++v) {
      const auto type =
          random->Pick({ValueType::kValue, ValueType::kValue,
                        ValueType::kDeletion, ValueType::kSingleDeletion});
      entries.emplace_back(
          MakeInternalKey(user_key, PackTrailer(10 + 2 * v, type)),
          type == ValueType::kValue ? random->Bytes(random->Below(200)) : "");
    }
  }
  return entries;
}

std::vector<Question> RandomQuestions(test::Rng* random, int style,
                                      const Entries& entries) {
  std::vector<Question> questions;
  for (const auto& [key, value] : entries) {
    const std::string user_key = ExtractUserKey(key).ToString();
    const SequenceNumber sequence = ExtractSequence(key);
    questions.emplace_back(user_key, sequence - random->Below(2));
    questions.emplace_back(user_key, random->Pick({sequence + 1, uint64_t{0},
                                                   kMaxSequenceNumber}));
    questions.emplace_back(user_key + '\0', kMaxSequenceNumber);
    questions.emplace_back(user_key.substr(0, user_key.size() / 2),
                           kMaxSequenceNumber);
  }
  for (int i = 0; i < 100; ++i) {
    questions.emplace_back(test::HardKey(random, style), kMaxSequenceNumber);
  }
  std::shuffle(questions.begin(), questions.end(), std::mt19937_64(1));
  return questions;
}

Answer Ask(const Table& table, const Question& question,
           const ReadOptions& options) {
  Answer answer;
  EXPECT_TRUE(Ok(test::GetAt(table, question.first, question.second,
                             &answer.state, &answer.value, options)));
  return answer;
}

// Asks many at once, in steps, and reads the values after the section.
std::vector<Answer> AskTogether(const Table& table, const Question* questions,
                                size_t count, const ReadOptions& options) {
  std::vector<TableProbe> probes(count);
  std::vector<PinnableSlice> values(count);
  std::vector<LookupResult> results(count);
  std::vector<ReadTarget> targets;
  targets.reserve(count);
  {
    const EpochGuard section;
    for (size_t i = 0; i < count; ++i) {
      const Slice user_key = questions[i].first;
      targets.emplace_back(&values[i]);
      probes[i].options = &options;
      probes[i].lookup = {user_key, PreviewXxh3(user_key), questions[i].second};
      results[i].target = &targets[i];
      probes[i].result = &results[i];
    }
    for (const auto step : {&Table::StartProbe, &Table::ProbeIndex,
                            &Table::ProbeBlock, &Table::FinishProbe}) {
      for (TableProbe& probe : probes) {
        if (!probe.done) (table.*step)(&probe);
      }
    }
  }
  std::vector<Answer> answers;
  for (size_t i = 0; i < count; ++i) {
    EXPECT_TRUE(probes[i].done);
    EXPECT_TRUE(probes[i].status.ok()) << probes[i].status.ToString();
    if (results[i].state == LookupState::kFound) {
      EXPECT_EQ(targets[i].size(), values[i].size());
    }
    answers.push_back({results[i].state, values[i].ToString()});
  }
  return answers;
}

TEST_P(TableLookupTest, AnswersAsTheEntriesSay) {
  test::Rng random(test::TestSeed());
  for (int round = 0; round < 24; ++round) {
    const int style = round % test::kHardKeyStyles;
    Entries entries = RandomEntries(&random, style);
    const std::string bytes = Build(RandomOptions(&random), &entries);
    OpenCache(random.Pick({0, 3000, 50000, 10 << 20}));
    const auto table = Open(bytes);
    const auto questions = RandomQuestions(&random, style, entries);
    ReadOptions options{.fill_cache = !random.OneIn(4)};
    // Cold and warm.
    for (int pass = 0; pass < 2; ++pass) {
      for (size_t i = 0; i < questions.size();) {
        const size_t count =
            std::min<size_t>(questions.size() - i, random.Pick({1, 7, 32}));
        const auto answers = AskTogether(*table, &questions[i], count, options);
        for (size_t j = 0; j < count; ++j, ++i) {
          const Answer expected = Expect(comparator_, entries, questions[i]);
          ASSERT_EQ(answers[j], expected)
              << Slice(questions[i].first).ToString(true) << " at "
              << questions[i].second;
          ASSERT_EQ(Ask(*table, questions[i], options), expected)
              << Slice(questions[i].first).ToString(true) << " at "
              << questions[i].second;
        }
      }
    }
  }
}

TEST_P(TableLookupTest, PinnedValuesOutliveEvictionAndTable) {
  Entries entries;
  std::vector<Question> questions;
  for (int i = 100; i < 200; ++i) {
    const std::string user_key = std::to_string(i);
    entries.emplace_back(
        MakeInternalKey(user_key, PackTrailer(1, ValueType::kValue)),
        std::string(500, static_cast<char>(i)));
    questions.emplace_back(user_key, 1);
  }
  const std::string bytes = Build({}, &entries);
  OpenCache(1 << 20);
  auto table = Open(bytes);
  for (int pass = 0; pass < 2; ++pass) {  // Cold and warm.
    std::vector<PinnableSlice> values(questions.size());
    for (size_t i = 0; i < questions.size(); ++i) {
      LookupState state;
      ASSERT_TRUE(
          test::GetAt(*table, questions[i].first, 1, &state, &values[i]).ok());
      ASSERT_EQ(state, LookupState::kFound);
      // Without a cache no block is made: there is just the value.
      EXPECT_EQ(values[i].IsPinned(), cache_ != nullptr);
    }
    if (pass == 1) table.reset();
    if (cache_ != nullptr) cache_->SetCapacity(pass == 0 ? 1 << 20 : 0);
    if (cache_ != nullptr) cache_->EraseUnreferenced();
    TEST_DrainRetired();
    for (size_t i = 0; i < questions.size(); ++i) {
      EXPECT_EQ(values[i], std::string(500, static_cast<char>(100 + i)));
    }
  }
  if (cache_ != nullptr) {
    EXPECT_EQ(cache_->GetUsage(), 0u);
  }
}

TEST_P(TableLookupTest, CountsHitsAndMisses) {
  Entries entries = {
      {MakeInternalKey("a", PackTrailer(1, ValueType::kValue)), "v"}};
  const std::string bytes = Build({}, &entries);
  OpenCache(1 << 20);
  const auto table = Open(bytes);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Ask(*table, {"a", 1}, {}), (Answer{LookupState::kFound, "v"}));
  }
  const bool cached = GetParam().has_cache;
  EXPECT_EQ(statistics_->getTickerCount(Ticker::kBlockCacheMiss),
            cached ? 1u : 0u);
  EXPECT_EQ(statistics_->getTickerCount(Ticker::kBlockCacheAdd),
            cached ? 1u : 0u);
  EXPECT_EQ(statistics_->getTickerCount(Ticker::kBlockCacheHit),
            cached ? 2u : 0u);
}

// A block that is damaged is not kept, and harms no other.
TEST_P(TableLookupTest, DamagedBlockIsNeverCached) {
  Entries entries;
  for (int i = 100; i < 200; ++i) {
    entries.emplace_back(
        MakeInternalKey(std::to_string(i), PackTrailer(1, ValueType::kValue)),
        std::string(200, static_cast<char>(i)));
  }
  TableBuilderOptions options;
  options.compression = CompressionType::kNone;
  std::string bytes = Build(options, &entries);
  const size_t place = bytes.find(std::string(200, static_cast<char>(150)));
  ASSERT_NE(place, std::string::npos);
  bytes[place] = 'x';
  OpenCache(1 << 20);
  const auto table = Open(bytes);
  for (int pass = 0; pass < 3; ++pass) {
    std::string value;
    LookupState state;
    EXPECT_TRUE(IsCorruption(test::GetAt(*table, "150", 1, &state, &value)));
    EXPECT_EQ(state, LookupState::kNotFound);
    EXPECT_EQ(Ask(*table, {"100", 1}, {}).state, LookupState::kFound);
    EXPECT_EQ(Ask(*table, {"199", 1}, {}).state, LookupState::kFound);
  }
}

}  // namespace
}  // namespace varve
