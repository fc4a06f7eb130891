// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: variants
//
// Goal: in a case-insensitive database every call folds its keys, invalid text
// is refused everywhere and changes nothing, and the setting stays with the
// database. Method: each call with keys in another case than the stored ones,
// from memory and from tables; a random run compared with a model that holds
// folded keys; opening with either setting, after each operation that writes a
// new MANIFEST.

#include "test/testing/db_helpers.h"
#include "test/testing/directory.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "util/bytes/key_fold.h"
#include "varve/checkpoint.h"

namespace varve::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const char* const kNoText = "k\xFF";

std::string Folded(const std::string& key) {
  std::string folded;
  EXPECT_TRUE(FoldText(key, KeyFolding::kUnicode, &folded));
  return folded;
}

class DbKeyCaseTest : public DbTestBase {
 protected:
  DbKeyCaseTest() { options_.key_case = KeyCase::kInsensitive; }

  std::vector<std::string> Keys(const ReadOptions& read_options = {}) {
    EntryList entries;
    EXPECT_TRUE(Ok(ScanForward(db_.get(), read_options, &entries)));
    std::vector<std::string> keys;
    for (const auto& [key, value] : entries) keys.push_back(key);
    return keys;
  }

  void ExpectRefused(KeyCase key_case, const char* message) {
    options_.key_case = key_case;
    const Status status = TryOpen();
    EXPECT_TRUE(IsInvalidArgument(status, message));
    const Status read_only = DB::OpenForReadOnly(options_, path_, &db_);
    EXPECT_EQ(read_only.ToString(), status.ToString());
  }
};

TEST_F(DbKeyCaseTest, GetFindsAnyCase) {
  Do("open, put Straße 1, put HELLO 2");
  for (const bool flushed : {false, true}) {
    if (flushed) Flush();
    EXPECT_EQ(Get("STRASSE"), "1");
    EXPECT_EQ(Get("strasse"), "1");
    EXPECT_EQ(Get("hello"), "2");
    EXPECT_EQ(Get("hElLo"), "2");
    EXPECT_EQ(Get("hell"), "NotFound");
  }
  EXPECT_THAT(Keys(), ElementsAre("hello", "strasse"));
}

TEST_F(DbKeyCaseTest, SensitiveKeysStayAsTheyAre) {
  options_.key_case = KeyCase::kSensitive;
  Do("open, put A 1, put a 2");
  Put(kNoText, "3");
  EXPECT_EQ(Get("A"), "1");
  EXPECT_EQ(Get(kNoText), "3");
  EXPECT_THAT(Keys(), ElementsAre("A", "a", kNoText));
}

TEST_F(DbKeyCaseTest, EveryWriteFolds) {
  Do("open, put ONE 1, put one 2");
  EXPECT_EQ(Get("One"), "2");
  Delete("oNE");
  EXPECT_EQ(Get("ONE"), "NotFound");
  Put("TWO", "2");
  ASSERT_TRUE(Ok(db_->SingleDelete({}, "Two")));
  EXPECT_EQ(Get("TWO"), "NotFound");
  for (const char* key : {"A", "b", "C", "d", "E"}) Put(key, key);
  // Backwards, before they are folded.
  ASSERT_TRUE(Ok(db_->DeleteRange({}, "b", "D")));
  EXPECT_THAT(Keys(), ElementsAre("a", "d", "e"));
  ASSERT_TRUE(Ok(db_->DeleteRange({}, "E", "e")));
  EXPECT_THAT(Keys(), ElementsAre("a", "d", "e"));
  EXPECT_TRUE(db_->DeleteRange({}, "Z", "a").IsInvalidArgument());
}

TEST_F(DbKeyCaseTest, ABatchIsFoldedAndStaysTheCallers) {
  Open();
  WriteBatch batch;
  batch.Put("Key", "1");
  batch.PutLogData("A Note");
  batch.Put("OTHER", "2");
  batch.Delete("KEY");
  batch.SingleDelete("nOne");
  batch.DeleteRange("X", "Y");
  const std::string before = batch.Data();
  ASSERT_TRUE(Ok(db_->Write({}, &batch)));
  EXPECT_EQ(batch.Data(), before);
  EXPECT_EQ(batch.Count(), 5u);
  EXPECT_THAT(Keys(), ElementsAre("other"));
  Reopen();
  EXPECT_THAT(Keys(), ElementsAre("other"));
  EXPECT_EQ(Get("Other"), "2");

  WriteBatch bad("short");
  EXPECT_TRUE(db_->Write({}, &bad).IsCorruption());
  EXPECT_TRUE(db_->Write({}, nullptr).IsInvalidArgument());
  WriteBatch empty;
  EXPECT_TRUE(Ok(db_->Write({}, &empty)));
  // Larger than what a thread keeps.
  WriteBatch large;
  large.Put("LARGE", std::string(200000, 'v'));
  ASSERT_TRUE(Ok(db_->Write({}, &large)));
  EXPECT_EQ(Get("large").size(), 200000u);
}

TEST_F(DbKeyCaseTest, MultiGetFoldsEachKey) {
  Open();
  std::vector<std::string> names;
  for (int i = 0; i < 100; ++i) names.push_back("KEY" + std::to_string(i));
  for (const auto& name : names) Put(name, name);
  Flush();
  for (size_t bad : {size_t{1000}, size_t{0}, size_t{40}, size_t{99}}) {
    std::vector<std::string> keys = names;
    for (size_t i = 0; i < keys.size(); i += 2) keys[i][0] = 'k';
    if (bad < keys.size()) keys[bad] = kNoText;
    const std::vector<Slice> slices(keys.begin(), keys.end());
    std::vector<std::string> values;
    const auto statuses = db_->MultiGet({}, slices, &values);
    for (size_t i = 0; i < keys.size(); ++i) {
      EXPECT_EQ(statuses[i].IsInvalidArgument(), i == bad);
      EXPECT_EQ(values[i], i == bad ? "" : names[i]);
    }
  }
}

TEST_F(DbKeyCaseTest, IteratorsFoldTargetsAndBounds) {
  Open();
  for (const char* key : {"a", "B", "c", "D", "e"}) Put(key, key);
  auto it = db_->NewIterator({});
  it->Seek("C");
  ASSERT_TRUE(it->Valid());
  EXPECT_EQ(it->key(), Slice("c"));
  it->SeekForPrev("D");
  ASSERT_TRUE(it->Valid());
  EXPECT_EQ(it->key(), Slice("d"));
  it->Seek(kNoText);
  EXPECT_FALSE(it->Valid());
  EXPECT_TRUE(it->status().IsInvalidArgument());
  it->SeekForPrev(kNoText);
  EXPECT_TRUE(it->status().IsInvalidArgument());
  it->SeekToFirst();
  ASSERT_TRUE(it->Valid());
  EXPECT_TRUE(Ok(it->status()));
  it.reset();

  std::string lower_text = "B";
  std::string upper_text = "E";
  const Slice lower = lower_text;
  const Slice upper = upper_text;
  ReadOptions bounded;
  bounded.iterate_lower_bound = &lower;
  bounded.iterate_upper_bound = &upper;
  EXPECT_THAT(Keys(bounded), ElementsAre("b", "c", "d"));
  it = db_->NewIterator(bounded);
  it->SeekToLast();
  ASSERT_TRUE(it->Valid());
  EXPECT_EQ(it->key(), Slice("d"));
  it->Seek("A");
  ASSERT_TRUE(it->Valid());
  EXPECT_EQ(it->key(), Slice("b"));
  it->SeekForPrev("Z");
  ASSERT_TRUE(it->Valid());
  EXPECT_EQ(it->key(), Slice("d"));

  const Slice no_text = kNoText;
  bounded.iterate_upper_bound = &no_text;
  it = db_->NewIterator(bounded);
  it->SeekToFirst();
  EXPECT_FALSE(it->Valid());
  EXPECT_TRUE(it->status().IsInvalidArgument());
}

TEST_F(DbKeyCaseTest, InvalidTextIsRefusedAndChangesNothing) {
  Open();
  Put("k", "1");
  const uint64_t sequence = db_->GetLatestSequenceNumber();
  EXPECT_TRUE(db_->Put({}, kNoText, "2").IsInvalidArgument());
  EXPECT_TRUE(db_->Delete({}, kNoText).IsInvalidArgument());
  EXPECT_TRUE(db_->SingleDelete({}, kNoText).IsInvalidArgument());
  EXPECT_TRUE(db_->DeleteRange({}, "a", kNoText).IsInvalidArgument());
  EXPECT_TRUE(db_->DeleteRange({}, kNoText, "z").IsInvalidArgument());
  WriteBatch batch;
  batch.Put("good", "1");
  batch.Put(kNoText, "2");
  EXPECT_TRUE(db_->Write({}, &batch).IsInvalidArgument());
  std::string value = "old";
  const Status status = db_->Get({}, kNoText, &value);
  EXPECT_TRUE(status.IsInvalidArgument());
  EXPECT_THAT(status.ToString(), HasSubstr("6BFF"));
  EXPECT_EQ(value, "");
  const Slice no_text = kNoText;
  EXPECT_TRUE(db_->CompactRange({}, &no_text, nullptr).IsInvalidArgument());
  const Range range{"a", kNoText};
  uint64_t size = 0;
  EXPECT_TRUE(db_->GetApproximateSizes(&range, 1, &size).IsInvalidArgument());
  EXPECT_EQ(db_->GetLatestSequenceNumber(), sequence);
  EXPECT_THAT(Keys(), ElementsAre("k"));
}

TEST_F(DbKeyCaseTest, SizesAndCompactionsFoldTheirBounds) {
  options_.compression = CompressionType::kNone;
  Open();
  for (int i = 0; i < 200; ++i) {
    Put("key" + std::to_string(i), std::string(1000, 'v'));
  }
  Flush();
  // As they are, none of the keys is in it.
  const Range range{"KEY", "KEZ"};
  uint64_t size = 0;
  ASSERT_TRUE(Ok(db_->GetApproximateSizes(&range, 1, &size)));
  EXPECT_GT(size, 150000u);
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  const Slice begin = "KEY";
  const Slice end = "KEZ";
  ASSERT_TRUE(Ok(db_->CompactRange({}, &begin, &end)));
  EXPECT_EQ(TablesAt(0), 0u);
}

TEST_F(DbKeyCaseTest, ANewDatabaseRemembersItsSetting) {
  Open();
  Put("Key", "1");
  Close();
  ExpectRefused(KeyCase::kSensitive, "are case-insensitive");
  options_.key_case = KeyCase::kInsensitive;
  // A MANIFEST is written at each open.
  for (int i = 0; i < 3; ++i) {
    Open();
    EXPECT_EQ(Get("KEY"), "1");
    Close();
  }
  ExpectRefused(KeyCase::kSensitive, "are case-insensitive");
  std::unique_ptr<DB> db;
  options_.key_case = KeyCase::kInsensitive;
  ASSERT_TRUE(Ok(DB::OpenForReadOnly(options_, path_, &db)));
  std::string value;
  EXPECT_TRUE(Ok(db->Get({}, "KEY", &value)));
}

TEST_F(DbKeyCaseTest, ASensitiveDatabaseRefusesToFold) {
  options_.key_case = KeyCase::kSensitive;
  Open();
  Put("Key", "1");
  Close();
  ExpectRefused(KeyCase::kInsensitive, "are case-sensitive");
  // Nothing was changed.
  options_.key_case = KeyCase::kSensitive;
  Open();
  EXPECT_EQ(Get("Key"), "1");
}

TEST_F(DbKeyCaseTest, CheckpointAndRepairKeepTheSetting) {
  Do("open, put Key 1, flush, put Log 2");
  const std::string copy = dir_.Sub("copy");
  ASSERT_TRUE(Ok(db_->CreateCheckpoint(copy)));
  Close();
  const std::string original = path_;
  path_ = copy;
  ExpectRefused(KeyCase::kSensitive, "are case-insensitive");
  path_ = original;
  EXPECT_TRUE(IsInvalidArgument(RepairDB(path_, options_)));
  options_.key_case = KeyCase::kInsensitive;
  ASSERT_TRUE(Ok(RepairDB(path_, options_)));
  ExpectRefused(KeyCase::kSensitive, "are case-insensitive");
  for (const auto& path : {copy, original}) {
    path_ = path;
    options_.key_case = KeyCase::kInsensitive;
    Open();
    EXPECT_EQ(Get("KEY"), "1");
    EXPECT_EQ(Get("LOG"), "2");
    Close();
  }
}

TEST_F(DbKeyCaseTest, RepairDoesNotFoldKeysThatAreNot) {
  options_.key_case = KeyCase::kSensitive;
  Do("open, put alice 1, flush, put Bob 2");
  Close();
  const auto before = ReadDirectory(path_);
  options_.key_case = KeyCase::kInsensitive;
  EXPECT_TRUE(IsInvalidArgument(RepairDB(path_, options_), "426F62"));
  EXPECT_TRUE(before == ReadDirectory(path_)) << "a file was changed";
  // Deleted keys do not count, whichever kind of deletion removed them.
  options_.key_case = KeyCase::kSensitive;
  Do("open, delete Bob, put Carl 3, put Carla 4");
  ASSERT_TRUE(Ok(db_->DeleteRange({}, "C", "D")));
  Close();
  options_.key_case = KeyCase::kInsensitive;
  ASSERT_TRUE(Ok(RepairDB(path_, options_)));
  Open();
  EXPECT_TRUE(HasEntries(db_.get(), {{"alice", "1"}}));
  EXPECT_EQ(Get("ALICE"), "1");
}

TEST_F(DbKeyCaseTest, BehavesAsAModelOfFoldedKeys) {
  Open();
  Rng rng(TestSeed());
  Entries model;
  const std::vector<std::string> pieces = {"a", "A",      "ß", "SS", "é", "É",
                                           "E", "\u0301", "Σ", "ς",  "k", "K"};
  const auto random_key = [&] {
    std::string key;
    for (uint64_t i = rng.Below(5); i > 0; --i) {
      key += pieces[rng.Below(pieces.size())];
    }
    return key;
  };
  for (int i = 0; i < 4000; ++i) {
    const std::string key = random_key();
    const std::string other = random_key();
    switch (rng.Below(8)) {
      case 0:
        Delete(key);
        model.erase(Folded(key));
        break;
      case 1:
        if (Folded(key) < Folded(other) && rng.OneIn(10)) {
          ASSERT_TRUE(Ok(db_->DeleteRange({}, key, other)));
          model.erase(model.lower_bound(Folded(key)),
                      model.lower_bound(Folded(other)));
        }
        break;
      case 2: {
        WriteBatch batch;
        batch.Put(key, "batch");
        batch.Delete(other);
        ASSERT_TRUE(Ok(db_->Write({}, &batch)));
        model[Folded(key)] = "batch";
        model.erase(Folded(other));
        break;
      }
      case 3: {
        const auto found = model.lower_bound(Folded(key));
        const auto it = db_->NewIterator({});
        it->Seek(key);
        ASSERT_EQ(it->Valid(), found != model.end());
        if (it->Valid()) {
          EXPECT_EQ(it->key(), Slice(found->first));
        }
        break;
      }
      case 4: {
        const auto found = model.find(Folded(key));
        EXPECT_EQ(Get(key), found == model.end() ? "NotFound" : found->second);
        break;
      }
      default:
        model[Folded(key)] = std::to_string(i);
        Put(key, std::to_string(i));
    }
    if (rng.OneIn(500)) Flush();
    if (rng.OneIn(1000)) Reopen();
    if (HasFatalFailure()) return;
  }
  EXPECT_TRUE(HasEntries(db_.get(), ToList(model)));
}

}  // namespace
}  // namespace varve::test
