// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: calls on single tables change those tables, and nothing that other
// calls can tell, but for the keys that DeleteFilesInRanges removes. Method:
// tables with known keys, and random ones compared with a model.

#include <algorithm>

#include "test/testing/db_helpers.h"
#include "test/testing/directory.h"
#include "test/testing/random_entries.h"
#include "test/testing/seed.h"
#include "varve/merge_operator.h"

namespace varve::test {
namespace {

class DbTablesTest : public DbTestBase {
 protected:
  DbTablesTest() { options_.disable_auto_compactions = true; }

  // Returns the names of a level's tables, in the order of their keys.
  std::vector<std::string> Names(int level) {
    ColumnFamilyMetaData family;
    db_->GetColumnFamilyMetaData(nullptr, &family);
    auto files = family.levels[static_cast<size_t>(level)].files;
    std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) {
      return a.smallestkey < b.smallestkey;
    });
    std::vector<std::string> names;
    for (const auto& file : files) names.push_back(file.relative_filename);
    return names;
  }
  // Returns the names of level 0, the oldest table first.
  std::vector<std::string> Ages() {
    ColumnFamilyMetaData family;
    db_->GetColumnFamilyMetaData(nullptr, &family);
    std::vector<std::string> names;
    for (const auto& file : family.levels[0].files) {
      names.insert(names.begin(), file.relative_filename);
    }
    return names;
  }
  // Returns the entries of a table, with its range deletions.
  uint64_t EntriesOf(const std::string& name) {
    TablePropertiesCollection all;
    EXPECT_TRUE(Ok(db_->GetPropertiesOfAllTables(nullptr, &all)));
    const auto found = all.find(path_ + "/" + name);
    return found == all.end() ? 0 : found->second->num_entries;
  }
  std::vector<uint64_t> Shape() {
    std::vector<uint64_t> shape;
    for (int level = 0; level < options_.num_levels; ++level) {
      shape.push_back(TablesAt(level));
    }
    while (!shape.empty() && shape.back() == 0) shape.pop_back();
    return shape;
  }
  Status DeleteFiles(const char* begin, const char* end,
                     bool include_end = true) {
    const Slice first(begin != nullptr ? begin : "");
    const Slice last(end != nullptr ? end : "");
    const RangePtr range{begin != nullptr ? &first : nullptr,
                         end != nullptr ? &last : nullptr};
    return db_->DeleteFilesInRanges(nullptr, &range, 1, include_end);
  }
  std::string Keys() {
    EntryList entries;
    EXPECT_TRUE(Ok(ScanForward(db_.get(), {}, &entries)));
    std::string keys;
    for (const auto& [key, value] : entries) keys += key + "=" + value + " ";
    return keys;
  }
  // Makes a table of these entries, "a 1, put b 2", in the level.
  void MakeTable(const std::string& steps, int level) {
    Do(steps + ", flush");
    ASSERT_TRUE(Ok(db_->CompactFiles({}, nullptr, {Names(0).back()}, level)));
  }
};

TEST_F(DbTablesTest, CompactFilesWritesOneLevel) {
  Open();
  MakeTable("put a 1, put c 1", 3);
  MakeTable("put x 1, put z 1", 3);
  EXPECT_EQ(Shape(), (std::vector<uint64_t>{0, 0, 0, 2}));
  Do("put b 2, flush");
  std::vector<std::string> outputs;
  CompactionOptions options;
  // Any form of a name will do.
  ASSERT_TRUE(Ok(
      db_->CompactFiles(options, nullptr, {"/" + Names(0)[0]}, 3, &outputs)));
  EXPECT_EQ(Shape(), (std::vector<uint64_t>{0, 0, 0, 2}));
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(outputs[0], path_ + "/" + Names(3)[0]);
  // In place.
  ASSERT_TRUE(Ok(db_->CompactFiles(options, nullptr, {outputs[0], Names(3)[1]},
                                   3, &outputs)));
  EXPECT_EQ(Shape(), (std::vector<uint64_t>{0, 0, 0, 1}));
  EXPECT_EQ(Keys(), "a=1 b=2 c=1 x=1 z=1 ");
  ASSERT_TRUE(Ok(db_->CompactFiles(options, nullptr, {Names(3)[0]}, 5)));
  EXPECT_EQ(Shape(), (std::vector<uint64_t>{0, 0, 0, 0, 0, 1}));
  Reopen();
  EXPECT_EQ(Keys(), "a=1 b=2 c=1 x=1 z=1 ");
}

// The named table is of level 0 and overlaps another one there, which overlaps
// an older table in a level that has no key of the first one.
TEST_F(DbTablesTest, CompactFilesJumpsOverNoKeys) {
  Open();
  MakeTable("put x old, put y old", 1);
  Do("put b 1, put x new, flush, put a 1, put c 1, flush");
  ASSERT_EQ(Shape(), (std::vector<uint64_t>{2, 1}));
  ASSERT_TRUE(Ok(db_->CompactFiles({}, nullptr, {Names(0)[0]}, 2)));
  EXPECT_EQ(Keys(), "a=1 b=1 c=1 x=new y=old ");
  EXPECT_EQ(TablesAt(0), 0u);
}

// Tables of several levels go down together.
TEST_F(DbTablesTest, CompactFilesTakesTablesOfSeveralLevels) {
  Open();
  MakeTable("put a 1, put m 1", 4);
  MakeTable("put a 2, put l 2", 2);
  MakeTable("put a 3, delete m", 1);
  Do("put b 4, flush");
  std::vector<std::string> inputs;
  for (const int level : {0, 1, 2, 4}) inputs.push_back(Names(level)[0]);
  ASSERT_TRUE(Ok(db_->CompactFiles({}, nullptr, inputs, 4)));
  EXPECT_EQ(Shape(), (std::vector<uint64_t>{0, 0, 0, 0, 1}));
  EXPECT_EQ(Keys(), "a=3 b=4 l=2 ");
}

TEST_F(DbTablesTest, CompactFilesObeysItsOptions) {
  options_.compression = CompressionType::kNone;
  options_.target_file_size_base = 64 << 10;
  Open();
  for (int i = 0; i < 500; ++i) Put(Key(i), std::string(200, 'v'));
  Flush();
  CompactionOptions options;
  options.output_file_size_limit = 20 << 10;
  std::vector<std::string> inputs = Names(0);
  ASSERT_TRUE(Ok(db_->CompactFiles(options, nullptr, inputs, 1)));
  EXPECT_GE(TablesAt(1), 4u);
  if (CompressionSupported(CompressionType::kLZ4)) {
    options = CompactionOptions();
    options.compression = CompressionType::kLZ4;
    ASSERT_TRUE(Ok(db_->CompactFiles(options, nullptr, Names(1), 1)));
    EXPECT_EQ(TablesAt(1), 1u);
    TablePropertiesCollection all;
    ASSERT_TRUE(Ok(db_->GetPropertiesOfAllTables(nullptr, &all)));
    EXPECT_EQ(all.begin()->second->compression_name, "LZ4");
  }
}

// Tables that follow each other in age become one, with its place among the
// ages.
TEST_F(DbTablesTest, CompactFilesWithinLevel0) {
  Open();
  MakeTable("put x deep, put y deep", 2);
  Do("put a 1, put b 1, put x 1, flush");
  Do("put a 2, delete b, delete x, flush");
  Do("put a 3, put c 3, delete z, flush");
  Do("put a 4, delete_range y yy, flush");
  std::vector<std::string> by_age = Ages();
  ASSERT_EQ(by_age.size(), 4u);
  // Those between are taken, too. Deletions of keys that are in older tables
  // remain.
  std::vector<std::string> outputs;
  ASSERT_TRUE(
      Ok(db_->CompactFiles({}, nullptr, {by_age[1], by_age[3]}, 0, &outputs)));
  EXPECT_EQ(Shape(), (std::vector<uint64_t>{2, 0, 1}));
  EXPECT_EQ(outputs, std::vector<std::string>{path_ + "/" + Ages()[1]});
  EXPECT_EQ(Ages()[0], by_age[0]);
  EXPECT_EQ(EntriesOf(Ages()[1]), 5u);  // a, b, c, x and the range of y.
  EXPECT_EQ(Keys(), "a=4 c=3 ");
  Do("put a 5, flush");
  // The newer one is not taken.
  ASSERT_TRUE(
      Ok(db_->CompactFiles({}, nullptr, {Ages()[0], Ages()[1]}, 0, &outputs)));
  EXPECT_EQ(Shape(), (std::vector<uint64_t>{2, 0, 1}));
  EXPECT_EQ(EntriesOf(Ages()[0]), 4u);  // b is nowhere else.
  EXPECT_EQ(Keys(), "a=5 c=3 ");
  Reopen();
  EXPECT_EQ(Keys(), "a=5 c=3 ");
  // One alone is rewritten.
  by_age = Ages();
  ASSERT_TRUE(Ok(db_->CompactFiles({}, nullptr, {by_age[0]}, 0, &outputs)));
  EXPECT_EQ(Shape(), (std::vector<uint64_t>{2, 0, 1}));
  EXPECT_NE(Ages()[0], by_age[0]);
  EXPECT_EQ(Ages()[1], by_age[1]);
  EXPECT_EQ(Keys(), "a=5 c=3 ");
  CompactAll();
  EXPECT_EQ(Keys(), "a=5 c=3 ");
}

// Two would have sequence numbers that overlap.
TEST_F(DbTablesTest, CompactFilesWithinLevel0WritesOneTable) {
  options_.compression = CompressionType::kNone;
  options_.max_subcompactions = 4;
  options_.target_file_size_base = 10 << 10;
  Open();
  std::map<std::string, std::string> model;
  for (int i = 0; i < 1000; ++i) {
    const std::string key = Key(i * 7 % 500);
    model[key] = std::string(200, 'v') + std::to_string(i);
    Put(key, model[key]);
    if (i % 100 == 0) Flush();
  }
  Flush();
  const uint64_t before = TablesAt(0);
  ASSERT_GE(before, 10u);
  CompactionOptions options;
  options.output_file_size_limit = 1000;
  const auto snapshot = db_->GetSnapshot();
  ASSERT_TRUE(
      Ok(db_->CompactFiles(options, nullptr, {Ages()[0], Ages()[4]}, 0)));
  EXPECT_EQ(TablesAt(0), before - 4);
  ASSERT_TRUE(Ok(db_->CompactFiles(options, nullptr, Ages(), 0)));
  EXPECT_EQ(TablesAt(0), 1u);
  EXPECT_TRUE(HasEntries(db_.get(), ToList(model), {.snapshot = snapshot}));
  db_->ReleaseSnapshot(snapshot);
  // The sequence numbers remain, which order the tables.
  std::vector<LiveFileMetaData> tables;
  db_->GetLiveFilesMetaData(&tables);
  EXPECT_GT(tables[0].smallest_seqno, 0u);
  EXPECT_EQ(tables[0].largest_seqno, db_->GetLatestSequenceNumber());
  Reopen();
  EXPECT_TRUE(HasEntries(db_.get(), ToList(model)));
}

// Neither the first entry nor the last one of a table has the smallest or the
// largest sequence number.
TEST_F(DbTablesTest, TablesHaveTheBoundsOfTheirSequenceNumbers) {
  Open();
  Do("put a 1, put d 1, flush");
  const auto snapshot = db_->GetSnapshot();
  Do("put c 3, put b 4, put d 5, put a 6, flush");
  const auto expect_bounds = [&](uint64_t smallest, uint64_t largest) {
    std::vector<LiveFileMetaData> tables;
    db_->GetLiveFilesMetaData(&tables);
    ASSERT_FALSE(tables.empty());
    EXPECT_EQ(tables[0].smallest_seqno, smallest);
    EXPECT_EQ(tables[0].largest_seqno, largest);
  };
  expect_bounds(3, 6);
  ASSERT_TRUE(Ok(db_->CompactFiles({}, nullptr, Ages(), 0)));
  expect_bounds(1, 6);
  db_->ReleaseSnapshot(snapshot);
}

// Everything in them is deleted.
TEST_F(DbTablesTest, CompactFilesWithinLevel0CanLeaveNone) {
  Open();
  Do("put a 1, put b 1, flush, delete a, delete_range b c, flush");
  std::vector<std::string> outputs;
  ASSERT_TRUE(Ok(db_->CompactFiles({}, nullptr, Ages(), 0, &outputs)));
  EXPECT_TRUE(outputs.empty());
  EXPECT_TRUE(Shape().empty());
  Reopen();
  EXPECT_EQ(Keys(), "");
}

// Random writes of all kinds, read at snapshots as well, against a model that
// no compaction can change.
TEST_F(DbTablesTest, CompactFilesWithinLevel0ChangesNothing) {
  const uint64_t seed = TestSeed();
  Rng rng(seed);
  options_.merge_operator = FindMergeOperator("stringappend");
  for (int round = 0; round < 12; ++round) {
    OpenAnew();
    std::map<std::string, std::string> model;
    std::vector<std::pair<const Snapshot*, EntryList>> snapshots;
    for (int step = 0; step < 40; ++step) {
      for (int i = rng.Between(1, 20); i > 0; --i) {
        const std::string key = Key(rng.Between(0, 60));
        const std::string value = std::to_string(rng.Below(1000));
        const int draw = rng.Between(0, 9);
        if (draw < 4) {
          Put(key, value);
          model[key] = value;
        } else if (draw < 7) {
          Merge(key, value);
          std::string* const merged = &model[key];
          *merged = merged->empty() ? value : *merged + "," + value;
        } else if (draw < 9) {
          Delete(key);
          model.erase(key);
        } else {
          const std::string end = Key(rng.Between(0, 60));
          if (end < key) continue;
          DeleteRange(key, end);
          model.erase(model.lower_bound(key), model.lower_bound(end));
        }
      }
      Flush();
      if (rng.OneIn(4)) {
        snapshots.emplace_back(db_->GetSnapshot(), ToList(model));
      }
      // There is no table if nothing was written since the last time.
      if (rng.OneIn(8) && !Ages().empty()) {
        ASSERT_TRUE(
            Ok(db_->CompactFiles({}, nullptr, Ages(), rng.Between(1, 4))));
      }
      std::vector<std::string> inputs;
      for (const std::string& name : Ages()) {
        if (rng.OneIn(3)) inputs.push_back(name);
      }
      if (inputs.empty()) continue;
      ASSERT_TRUE(Ok(db_->CompactFiles({}, nullptr, inputs, 0)));
      ASSERT_TRUE(HasEntries(db_.get(), ToList(model))) << "seed " << seed;
      for (const auto& [snapshot, entries] : snapshots) {
        ASSERT_TRUE(HasEntries(db_.get(), entries, {.snapshot = snapshot}))
            << "seed " << seed;
      }
      // No two have sequence numbers in common, and the newest is first.
      ColumnFamilyMetaData family;
      db_->GetColumnFamilyMetaData(nullptr, &family);
      uint64_t above = UINT64_MAX;
      for (const SstFileMetaData& table : family.levels[0].files) {
        ASSERT_LT(table.largest_seqno, above);
        above = table.smallest_seqno;
      }
      if (!rng.OneIn(6)) continue;
      for (const auto& [snapshot, entries] : snapshots) {
        db_->ReleaseSnapshot(snapshot);
      }
      snapshots.clear();
      Reopen();
      ASSERT_TRUE(HasEntries(db_.get(), ToList(model))) << "seed " << seed;
    }
    for (const auto& [snapshot, entries] : snapshots) {
      db_->ReleaseSnapshot(snapshot);
    }
  }
}

TEST_F(DbTablesTest, CompactFilesRefusesOtherTables) {
  Open();
  MakeTable("put a 1", 3);
  const std::string name = Names(3)[0];
  const auto refuses = [&](const std::vector<std::string>& names, int level) {
    return db_->CompactFiles({}, nullptr, names, level).IsInvalidArgument();
  };
  EXPECT_TRUE(refuses({}, 3));
  EXPECT_TRUE(refuses({"000999.sst"}, 3));
  EXPECT_TRUE(refuses({"MANIFEST-000001"}, 3));
  EXPECT_TRUE(refuses({""}, 3));
  EXPECT_TRUE(refuses({name}, 2));
  EXPECT_TRUE(refuses({name}, -1));
  EXPECT_TRUE(refuses({name}, options_.num_levels));
  EXPECT_TRUE(refuses({name, "000999.sst"}, 3));
  Do("put b 1, flush");
  EXPECT_TRUE(refuses({}, 0));
  EXPECT_TRUE(refuses({name}, 0));
  EXPECT_TRUE(refuses({Names(0)[0], name}, 0));
  EXPECT_TRUE(refuses({Names(0)[0], "000999.sst"}, 0));
  CompactionOptions options;
  options.compression = static_cast<CompressionType>(99);
  EXPECT_TRUE(
      db_->CompactFiles(options, nullptr, {name}, 3).IsInvalidArgument());
  options = CompactionOptions();
  options.output_file_size_limit = 0;
  EXPECT_TRUE(
      db_->CompactFiles(options, nullptr, {name}, 3).IsInvalidArgument());
  ColumnFamilyHandle* other = nullptr;
  ASSERT_TRUE(Ok(db_->CreateColumnFamily(options_, "other", &other)));
  EXPECT_TRUE(db_->CompactFiles({}, other, {name}, 3).IsInvalidArgument());
  ASSERT_TRUE(Ok(db_->DropColumnFamily(other)));
  EXPECT_TRUE(db_->CompactFiles({}, other, {name}, 3).IsInvalidArgument());
  EXPECT_TRUE(
      db_->SuggestCompactRange(other, nullptr, nullptr).IsInvalidArgument());
  EXPECT_TRUE(db_->DeleteFilesInRanges(other, nullptr, 0).IsInvalidArgument());
  ASSERT_TRUE(Ok(db_->DestroyColumnFamilyHandle(other)));
}

TEST_F(DbTablesTest, PromoteMovesLevel0) {
  Open();
  Do("put a 1, put b 1, flush, put c 1, flush, put d 1, delete_range e g, "
     "flush");
  const std::vector<std::string> names = Names(0);
  EXPECT_TRUE(db_->PromoteL0(nullptr, 0).IsInvalidArgument());
  EXPECT_TRUE(db_->PromoteL0(nullptr, options_.num_levels).IsInvalidArgument());
  ASSERT_TRUE(Ok(db_->PromoteL0(nullptr, 3)));
  EXPECT_EQ(Shape(), (std::vector<uint64_t>{0, 0, 0, 3}));
  EXPECT_EQ(Names(3), names);
  Do("put x 1, flush");
  EXPECT_TRUE(db_->PromoteL0(nullptr, 4).IsInvalidArgument());
  ASSERT_TRUE(Ok(db_->PromoteL0(nullptr, 2)));
  EXPECT_EQ(Shape(), (std::vector<uint64_t>{0, 0, 1, 3}));
  ASSERT_TRUE(Ok(db_->PromoteL0(nullptr, 1)));  // There is nothing to move.
  Do("put b 2, put p 1, flush, put o 1, put q 1, flush");
  EXPECT_TRUE(db_->PromoteL0(nullptr, 1).IsInvalidArgument());
  Reopen();
  EXPECT_EQ(Keys(), "a=1 b=2 c=1 d=1 o=1 p=1 q=1 x=1 ");
}

TEST_F(DbTablesTest, TheLevelThatIngestionsKeepStaysFree) {
  options_.allow_ingest_behind = true;
  Open();
  Do("put a 1, flush");
  const int last = options_.num_levels - 1;
  EXPECT_TRUE(db_->PromoteL0(nullptr, last).IsInvalidArgument());
  EXPECT_TRUE(
      db_->CompactFiles({}, nullptr, Names(0), last).IsInvalidArgument());
  ASSERT_TRUE(Ok(db_->CompactFiles({}, nullptr, Names(0), last - 1)));
  EXPECT_EQ(Keys(), "a=1 ");
}

TEST_F(DbTablesTest, SuggestionsAreFollowed) {
  options_.disable_auto_compactions = false;
  options_.level0_file_num_compaction_trigger = 100;
  Open();
  Do("put a 1, flush, put a 2, flush, put m 1, flush");
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  EXPECT_EQ(TablesAt(0), 3u);
  const Slice begin("x");
  ASSERT_TRUE(Ok(db_->SuggestCompactRange(nullptr, &begin, nullptr)));
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  EXPECT_EQ(TablesAt(0), 3u);
  ASSERT_TRUE(Ok(db_->SuggestCompactRange(nullptr, nullptr, nullptr)));
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  EXPECT_EQ(TablesAt(0), 0u);
  EXPECT_EQ(Keys(), "a=2 m=1 ");
  // The deepest level is left as it is.
  const std::vector<uint64_t> shape = Shape();
  const std::vector<std::string> names =
      Names(static_cast<int>(shape.size()) - 1);
  ASSERT_TRUE(Ok(db_->SuggestCompactRange(nullptr, nullptr, nullptr)));
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  EXPECT_EQ(Names(static_cast<int>(shape.size()) - 1), names);
}

// A suggestion is kept while it cannot be followed.
TEST_F(DbTablesTest, SuggestionsWaitForCompactionsToBeEnabled) {
  Open();
  MakeTable("put a 1, put c 1", 5);
  MakeTable("put b 2", 2);
  ASSERT_TRUE(Ok(db_->SuggestCompactRange(nullptr, nullptr, nullptr)));
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  EXPECT_EQ(TablesAt(2), 1u);
  ASSERT_TRUE(Ok(db_->SetOptions({{"disable_auto_compactions", "false"}})));
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  // It moves until it meets the keys of the last level, and is merged there.
  EXPECT_EQ(Shape(), (std::vector<uint64_t>{0, 0, 0, 0, 0, 1}));
  EXPECT_EQ(Keys(), "a=1 b=2 c=1 ");
}

TEST_F(DbTablesTest, DeleteFilesInRangesRemovesWholeTables) {
  Open();
  MakeTable("put a 1, put c 1", 3);
  MakeTable("put d 1, put f 1", 3);
  MakeTable("put g 1, put i 1", 3);
  Do("put d 2, flush");
  ASSERT_TRUE(Ok(DeleteFiles("d", "h")));
  EXPECT_EQ(Keys(), "a=1 c=1 d=2 g=1 i=1 ");
  ASSERT_TRUE(Ok(DeleteFiles("g", "i", /*include_end=*/false)));
  EXPECT_EQ(TablesAt(3), 2u);
  ASSERT_TRUE(Ok(DeleteFiles("h", "a")));  // Empty.
  EXPECT_EQ(TablesAt(3), 2u);
  ASSERT_TRUE(Ok(DeleteFiles(nullptr, "i")));
  EXPECT_EQ(Keys(), "d=2 ");
  EXPECT_EQ(TablesAt(3), 0u);
  EXPECT_EQ(FilesEndingIn(path_, ".sst").size(), 1u);
  Do("put e 5");
  Reopen();
  EXPECT_EQ(Keys(), "d=2 e=5 ");
}

TEST_F(DbTablesTest, SeveralRangesAreOneStep) {
  Open();
  for (const char* steps : {"put a 1", "put c 1", "put e 1", "put g 1"}) {
    MakeTable(steps, 4);
  }
  const Slice keys[] = {"a", "b", "e", "z"};
  const RangePtr ranges[] = {{&keys[0], &keys[1]}, {&keys[2], &keys[3]}};
  ASSERT_TRUE(Ok(db_->DeleteFilesInRanges(nullptr, ranges, 2, false)));
  EXPECT_EQ(Keys(), "c=1 ");
}

TEST_F(DbTablesTest, KeysOfCallsAreFolded) {
  options_.key_case = KeyCase::kInsensitive;
  Open();
  MakeTable("put A 1", 3);
  MakeTable("put m 1", 3);
  const Range range{"A", "B"};
  TablePropertiesCollection found;
  ASSERT_TRUE(
      Ok(db_->GetPropertiesOfTablesInRange(nullptr, &range, 1, &found)));
  EXPECT_EQ(found.size(), 1u);
  const Slice no_text("\xff");
  EXPECT_TRUE(DeleteFiles("\xff", nullptr).IsInvalidArgument());
  EXPECT_TRUE(
      db_->SuggestCompactRange(nullptr, &no_text, nullptr).IsInvalidArgument());
  ASSERT_TRUE(Ok(DeleteFiles("A", "C")));
  EXPECT_EQ(Keys(), "m=1 ");
}

// Iterators and snapshots that exist read the files that they have.
TEST_F(DbTablesTest, IteratorsKeepDeletedFiles) {
  Open();
  MakeTable("put a 1, put b 1", 3);
  const auto it = db_->NewIterator({});
  ASSERT_TRUE(Ok(DeleteFiles(nullptr, nullptr)));
  it->SeekToFirst();
  ASSERT_TRUE(it->Valid());
  EXPECT_EQ(it->key(), Slice("a"));
  EXPECT_EQ(Keys(), "");
}

// Iterators have learned that a range is dead, and then its deletions go.
TEST_F(DbTablesTest, OlderValuesAppearToIterators) {
  Open();
  Put("z", "1");
  for (int i = 0; i < 1000; ++i) Put(Key(i), "old");
  MakeTable("put z 1", 5);
  for (int i = 0; i < 1000; ++i) Delete(Key(i));
  MakeTable("delete key", 2);
  const auto before = db_->NewIterator({});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Keys(), "z=1 ");
  ASSERT_TRUE(Ok(DeleteFiles("", Key(2000).c_str())));
  ASSERT_EQ(Shape(), (std::vector<uint64_t>{0, 0, 0, 0, 0, 1}));
  for (int i = 0; i < 3; ++i) {
    EntryList entries;
    ASSERT_TRUE(Ok(ScanForward(db_.get(), {}, &entries)));
    ASSERT_EQ(entries.size(), 1001u);
    ASSERT_TRUE(Ok(ScanBackward(db_.get(), {}, &entries)));
    ASSERT_EQ(entries.size(), 1001u);
    // It still walks over the deletions, and reports what it has walked over.
    before->SeekToFirst();
    ASSERT_TRUE(before->Valid());
    EXPECT_EQ(before->key(), Slice("z"));
  }
}

// Draws tables, levels and ranges, and compares with a model that has the
// tables' keys.
TEST_F(DbTablesTest, RandomCallsAgreeWithAModel) {
  const uint64_t seed = TestSeed();
  Rng rng(seed);
  options_.target_file_size_base = 2 << 10;
  Open();
  Entries model;
  for (int step = 0; step < 60; ++step) {
    SCOPED_TRACE(step);
    const int draw = rng.Between(0, 9);
    if (draw < 5) {
      for (int i = rng.Between(1, 100); i > 0; --i) {
        const std::string key = Key(rng.Between(0, 1000));
        if (rng.OneIn(4)) {
          model.erase(key);
          Delete(key);
        } else {
          model[key] = rng.Bytes(40);
          Put(key, model[key]);
        }
      }
      if (rng.OneIn(2)) Flush();
    } else if (draw < 8) {
      std::vector<LiveFileMetaData> all;
      db_->GetLiveFilesMetaData(&all);
      if (all.empty()) continue;
      std::vector<std::string> inputs;
      int level = 0;
      for (const LiveFileMetaData& file : all) {
        if (!rng.OneIn(3)) continue;
        inputs.push_back(file.name);
        level = std::max(level, file.level);
      }
      if (inputs.empty()) continue;
      level = rng.Between(level, options_.num_levels - 1);
      ASSERT_TRUE(Ok(db_->CompactFiles({}, nullptr, inputs, level)));
    } else if (draw == 8) {
      const Status status =
          db_->PromoteL0(nullptr, rng.Between(1, options_.num_levels - 1));
      ASSERT_TRUE(status.ok() || status.IsInvalidArgument())
          << status.ToString();
    } else {
      // All in one level, so that no older value can appear.
      CompactAll();
      const std::string begin = Key(rng.Between(0, 800));
      const std::string end = Key(rng.Between(0, 1000));
      std::vector<LiveFileMetaData> all;
      db_->GetLiveFilesMetaData(&all);
      for (const LiveFileMetaData& file : all) {
        if (file.smallestkey < begin || file.largestkey > end) continue;
        model.erase(model.lower_bound(file.smallestkey),
                    model.upper_bound(file.largestkey));
      }
      ASSERT_TRUE(Ok(DeleteFiles(begin.c_str(), end.c_str())));
      if (rng.OneIn(3)) Reopen();
    }
    ASSERT_TRUE(HasEntries(db_.get(), ToList(model))) << "seed " << seed;
  }
}

}  // namespace
}  // namespace varve::test
