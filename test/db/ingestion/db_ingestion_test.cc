// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: tables of SstFileWriter are added to families of a database in one
// step, as newer than all that is there, in the right level, and invisible to
// snapshots and iterators from before. Method: one case for each rule.

#include <set>
#include <vector>

#include "test/testing/db/external_tables.h"
#include "test/testing/db/families_fixture.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "varve/external_files.h"
#include "varve/filter_policy.h"
#include "varve/listener.h"
#include "varve/merge_operator.h"
#include "varve/optimistic_transaction_db.h"

namespace varve::test {
namespace {

class IngestionTest : public FamiliesTest {
 protected:
  IngestionTest() {
    options_.merge_operator = NewStringAppendOperator();
    options_.disable_auto_compactions = true;
  }

  std::string File(const std::string& name) { return dir_.Sub(name); }
  void WriteTable(const std::string& name, const std::string& steps) {
    WriteExternalTable(options_, File(name), steps);
  }
  Status Ingest(const std::vector<std::string>& names,
                const IngestExternalFileOptions& options = {}) {
    std::vector<std::string> files;
    for (const std::string& name : names) files.push_back(File(name));
    return db_->IngestExternalFile(files, options);
  }
  // Writes a table and ingests it.
  void IngestTable(const std::string& steps) {
    WriteTable("t", steps);
    ASSERT_TRUE(Ok(Ingest({"t"})));
  }
  // Puts the keys in a table of the last level.
  void FillLastLevel(const std::string& steps) {
    Do(steps + ", flush");
    CompactAll();
    ASSERT_EQ(TablesAt(6), Tables());
  }
};

TEST_F(IngestionTest, AddsEntriesOfAllKinds) {
  Open();
  Do("put a old, put b old, put c old, put d 1, put e old, put f old, flush");
  IngestTable("put a new, delete b, merge d 2, delete_range e f, put x new");
  const EntryList expected = {
      {"a", "new"}, {"c", "old"}, {"d", "1,2"}, {"f", "old"}, {"x", "new"}};
  EXPECT_TRUE(HasEntries(db_.get(), expected));
  Reopen();
  EXPECT_TRUE(HasEntries(db_.get(), expected));
  Do("put a newer, flush, compact");
  EntryList newer = expected;
  newer[0].second = "newer";
  EXPECT_TRUE(HasEntries(db_.get(), newer));
  EXPECT_TRUE(Ok(db_->VerifyChecksum()));
}

TEST_F(IngestionTest, GoesToTheLastLevelIfNothingIsAbove) {
  Open();
  Do("put x 1, flush");
  IngestTable("put a 1, put b 2");
  EXPECT_EQ(TablesAt(6), 1u);
  EXPECT_EQ(TablesAt(0), 1u);
  // Apart from the first in the same level.
  IngestTable("put c 1");
  EXPECT_EQ(TablesAt(6), 2u);
}

TEST_F(IngestionTest, StaysAboveOlderEntriesOfItsRange) {
  Open();
  FillLastLevel("put a 1, put m 1, put z 1");
  // In the range of the last level's table, but not of its entries.
  IngestTable("put b 2, put c 2");
  EXPECT_EQ(TablesAt(0), 1u);
  IngestTable("put m 2");
  EXPECT_EQ(TablesAt(0), 2u);
  EXPECT_EQ(Get("m"), "2");
  CompactAll();
  EXPECT_EQ(Get("m"), "2");
  EXPECT_EQ(Get("b"), "2");
}

TEST_F(IngestionTest, GoesBelowTablesWithoutEntriesOfItsRange) {
  Open();
  Do("put a 1, put z 1, flush");
  IngestTable("put m 2, put n 2");
  // The table in level 0 has a range around it, and nothing in it.
  EXPECT_EQ(TablesAt(6), 1u);
  Do("put m 3, flush");
  EXPECT_EQ(Get("m"), "3");
  CompactAll();
  EXPECT_EQ(Get("m"), "3");
  EXPECT_EQ(Get("n"), "2");
}

TEST_F(IngestionTest, ARangeDeletionIsAnEntryOfItsWholeRange) {
  Open();
  FillLastLevel("put c 0");
  Do("put a 1, delete_range b y, put z 1, flush");
  // It must be above the older deletion.
  IngestTable("put m 2");
  EXPECT_EQ(TablesAt(0), 2u);
  EXPECT_EQ(Get("m"), "2");
  // And so must a deletion above what it deletes.
  IngestTable("delete_range a n");
  EXPECT_EQ(TablesAt(0), 3u);
  EXPECT_TRUE(HasEntries(db_.get(), {{"z", "1"}}));
  CompactAll();
  EXPECT_TRUE(HasEntries(db_.get(), {{"z", "1"}}));
}

TEST_F(IngestionTest, FlushesMemtablesThatHaveKeysOfItsRange) {
  Open();
  Do("put m 1");
  IngestTable("put a 2, put z 2");
  EXPECT_EQ(TablesAt(0), 2u);
  Do("put c 3");
  WriteTable("t", "put b 4, put d 4");
  EXPECT_TRUE(IsInvalidArgument(Ingest({"t"}, {.allow_blocking_flush = false}),
                                "allow_blocking_flush"));
  EXPECT_EQ(Get("b"), "NotFound");
  EXPECT_TRUE(Ok(Ingest({"t"})));
  EXPECT_TRUE(HasEntries(db_.get(), {{"a", "2"},
                                     {"b", "4"},
                                     {"c", "3"},
                                     {"d", "4"},
                                     {"m", "1"},
                                     {"z", "2"}}));
}

TEST_F(IngestionTest, LeavesMemtablesWithoutKeysOfItsRange) {
  Open();
  Do("put a 1, put z 1");
  IngestTable("put m 2");
  EXPECT_EQ(TablesAt(0), 0u);
  EXPECT_EQ(TablesAt(6), 1u);
  Reopen();
  EXPECT_TRUE(HasEntries(db_.get(), {{"a", "1"}, {"m", "2"}, {"z", "1"}}));
}

TEST_F(IngestionTest, SnapshotsAndIteratorsFromBeforeDoNotSeeIt) {
  Open();
  Do("put a 1");
  const Snapshot* snapshot = db_->GetSnapshot();
  auto iterator = db_->NewIterator({});
  const auto transaction = db_->BeginReadTransaction();
  IngestTable("put a 2, put b 2");
  EXPECT_EQ(Get("a", snapshot), "1");
  EXPECT_EQ(Get("b", snapshot), "NotFound");
  EXPECT_TRUE(HasEntries(db_.get(), {{"a", "1"}}, {.snapshot = snapshot}));
  EXPECT_TRUE(HasEntries(db_.get(), {{"a", "1"}}, {.snapshot = transaction}));
  iterator->SeekToFirst();
  EXPECT_EQ(iterator->value(), "1");
  iterator->Next();
  EXPECT_FALSE(iterator->Valid());
  iterator.reset();
  CompactAll();
  EXPECT_EQ(Get("b", snapshot), "NotFound");
  EXPECT_EQ(Get("a", snapshot), "1");
  EXPECT_EQ(Get("b"), "2");
  transaction->End();
  db_->ReleaseSnapshot(snapshot);
}

TEST_F(IngestionTest, LaterFilesWin) {
  Open();
  Do("put a 0");
  WriteTable("1", "put a 1, put b 1, put c 1");
  WriteTable("2", "put b 2, delete c, put d 2");
  WriteTable("3", "put d 3, put e 3");
  EXPECT_TRUE(Ok(Ingest({"1", "2", "3"})));
  const EntryList expected = {{"a", "1"}, {"b", "2"}, {"d", "3"}, {"e", "3"}};
  EXPECT_TRUE(HasEntries(db_.get(), expected));
  Put("b", "4");
  EXPECT_EQ(Get("b"), "4");
  Reopen();
  EXPECT_EQ(Get("b"), "4");
  Put("b", "2");
  CompactAll();
  EXPECT_TRUE(HasEntries(db_.get(), expected));
}

// RocksDB refuses a database with two tables of the same number there.
TEST_F(IngestionTest, FilesOnLevelZeroHaveNumbersOfTheirOwn) {
  Open();
  Do("put a 0, put b 0, put c 0, put d 0, flush, put e 0, flush");
  const uint64_t before = db_->GetLatestSequenceNumber();
  WriteTable("1", "put a 1");
  WriteTable("2", "put c 2");
  WriteTable("3", "put x 3");  // To the last level.
  ASSERT_TRUE(Ok(Ingest({"1", "2", "3"})));
  EXPECT_EQ(TablesAt(0), 4u);
  EXPECT_EQ(TablesAt(6), 1u);
  EXPECT_EQ(db_->GetLatestSequenceNumber(), before + 2);
  std::vector<LiveFileMetaData> files;
  db_->GetLiveFilesMetaData(&files);
  std::set<uint64_t> numbers;
  for (const LiveFileMetaData& file : files) {
    if (file.level == 0) numbers.insert(file.largest_seqno);
  }
  EXPECT_EQ(numbers.size(), 4u);
  EXPECT_EQ(Get("a"), "1");
  EXPECT_EQ(Get("c"), "2");
  EXPECT_EQ(Get("x"), "3");
  Put("a", "4");
  Reopen();
  EXPECT_EQ(Get("a"), "4");
  EXPECT_EQ(Get("c"), "2");
}

TEST_F(IngestionTest, LinksMovesOrCopies) {
  Open();
  WriteTable("copied", "put a 1");
  WriteTable("linked", "put b 1");
  WriteTable("moved", "put c 1");
  EXPECT_TRUE(Ok(Ingest({"copied"})));
  EXPECT_TRUE(Ok(Ingest({"linked"}, {.link_files = true})));
  EXPECT_TRUE(Ok(Ingest({"moved"}, {.move_files = true})));
  EXPECT_EQ(std::filesystem::hard_link_count(File("copied")), 1u);
  EXPECT_EQ(std::filesystem::hard_link_count(File("linked")), 2u);
  EXPECT_FALSE(std::filesystem::exists(File("moved")));
  EXPECT_TRUE(HasEntries(db_.get(), {{"a", "1"}, {"b", "1"}, {"c", "1"}}));
  EXPECT_TRUE(IsInvalidArgument(
      Ingest({"linked"}, {.move_files = true, .link_files = true})));
  // The file is as it was, so that it can be ingested again.
  EXPECT_TRUE(Ok(Ingest({"linked"})));
}

TEST_F(IngestionTest, SeveralFamiliesInOneStep) {
  OpenNew({"one", "two"});
  PutIn("one", "k", "old");
  WriteTable("1", "put k 1, put l 1");
  WriteTable("2", "put k 2");
  const auto snapshot = db_->GetSnapshot();
  ASSERT_TRUE(Ok(db_->IngestExternalFiles(
      {{At("one"), {File("1")}, {}}, {At("two"), {File("2")}, {}}})));
  EXPECT_EQ(GetIn("one", "k", {.snapshot = snapshot}), "old");
  EXPECT_EQ(GetIn("two", "k", {.snapshot = snapshot}), "NotFound");
  db_->ReleaseSnapshot(snapshot);
  ReopenAll();
  EXPECT_EQ(GetIn("one", "k"), "1");
  EXPECT_EQ(GetIn("one", "l"), "1");
  EXPECT_EQ(GetIn("two", "k"), "2");
  // An error of one is an error of all.
  WriteTable("3", "put k 3");
  EXPECT_FALSE(db_->IngestExternalFiles({{At("one"), {File("3")}, {}},
                                         {At("two"), {File("none")}, {}}})
                   .ok());
  EXPECT_TRUE(IsInvalidArgument(
      db_->IngestExternalFiles(
          {{At("one"), {File("3")}, {}}, {At("one"), {File("2")}, {}}}),
      "twice"));
  EXPECT_EQ(GetIn("one", "k"), "1");
  EXPECT_TRUE(IsInvalidArgument(db_->IngestExternalFiles({})));
}

TEST_F(IngestionTest, AFamilysFileIsForThatFamily) {
  OpenNew({"one"});
  WriteExternalTable(options_, File("1"), "put a 1", At("one"));
  EXPECT_TRUE(IsInvalidArgument(Ingest({"1"}), "column family"));
  EXPECT_TRUE(Ok(db_->IngestExternalFile(At("one"), {File("1")}, {})));
}

TEST_F(IngestionTest, WithoutASequenceNumber) {
  Open();
  Do("put a 1, flush");
  const IngestExternalFileOptions none{.allow_global_seqno = false};
  WriteTable("1", "put a 2");
  EXPECT_TRUE(IsInvalidArgument(Ingest({"1"}, none), "allow_global_seqno"));
  WriteTable("2", "put m 2");
  const Snapshot* snapshot = db_->GetSnapshot();
  EXPECT_TRUE(IsInvalidArgument(Ingest({"2"}, none), "allow_global_seqno"));
  IngestExternalFileOptions careless = none;
  careless.snapshot_consistency = false;
  WriteTable("3", "put n 3");
  EXPECT_TRUE(Ok(Ingest({"3"}, careless)));
  EXPECT_EQ(Get("n", snapshot), "3");
  db_->ReleaseSnapshot(snapshot);
  EXPECT_TRUE(Ok(Ingest({"2"}, none)));
  Reopen();
  EXPECT_TRUE(HasEntries(db_.get(), {{"a", "1"}, {"m", "2"}, {"n", "3"}}));
}

TEST_F(IngestionTest, CanInsistOnTheLastLevel) {
  Open();
  Do("put a 1, flush");
  IngestExternalFileOptions options;
  options.fail_if_not_bottommost_level = true;
  WriteTable("1", "put a 2");
  EXPECT_TRUE(IsInvalidArgument(Ingest({"1"}, options), "last level"));
  WriteTable("2", "put b 2");
  EXPECT_TRUE(Ok(Ingest({"2"}, options)));
  EXPECT_EQ(TablesAt(6), 1u);
}

TEST_F(IngestionTest, RefusesOtherFiles) {
  Open();
  Do("put a 1, flush");
  EXPECT_FALSE(Ingest({"none"}).ok());
  EXPECT_TRUE(IsInvalidArgument(Ingest({})));
  std::ofstream(File("text")) << std::string(1000, 't');
  EXPECT_FALSE(Ingest({"text"}).ok());
  // A table of a database.
  const std::string own = TableFiles().front();
  EXPECT_TRUE(
      IsInvalidArgument(db_->IngestExternalFile({own}, {}), "SstFileWriter"));
  // A damaged block is found if that is wanted.
  WriteTable("damaged", "put b 1, put c 1");
  {
    std::fstream file(File("damaged"), std::ios::in | std::ios::out);
    file.seekp(5);
    file.put('\xFF');
  }
  EXPECT_TRUE(IsCorruption(
      Ingest({"damaged"}, {.verify_checksums_before_ingest = true})));
  EXPECT_TRUE(HasEntries(db_.get(), {{"a", "1"}}));
  EXPECT_EQ(TableFiles().size(), 1u);
  Reopen();
  EXPECT_EQ(TableFiles().size(), 1u);
}

TEST_F(IngestionTest, ReadOnlyAndClosedDatabasesRefuseIt) {
  Open();
  WriteTable("1", "put a 1");
  ASSERT_TRUE(Ok(db_->Close()));
  EXPECT_TRUE(IsShutdownInProgress(Ingest({"1"})));
  db_.reset();
  ASSERT_TRUE(Ok(DB::OpenForReadOnly(options_, path_, &db_)));
  EXPECT_TRUE(IsNotSupported(Ingest({"1"})));
}

TEST_F(IngestionTest, CaseInsensitiveDatabasesRefuseIt) {
  options_.key_case = KeyCase::kInsensitive;
  Open();
  WriteTable("1", "put A 1");
  EXPECT_TRUE(IsNotSupported(Ingest({"1"})));
}

// A program may write its files there.
TEST_F(IngestionTest, FilesInTheDatabasesDirectory) {
  Open();
  const std::string file = path_ + "/bulk-1.sst";
  WriteExternalTable(options_, file, "put a 1");
  EXPECT_TRUE(Ok(db_->IngestExternalFile({file}, {.move_files = true})));
  EXPECT_FALSE(std::filesystem::exists(file));
  EXPECT_EQ(Get("a"), "1");
  // Its own table would be lost by a move.
  const std::string own = TableFiles().front();
  EXPECT_TRUE(IsInvalidArgument(
      db_->IngestExternalFile({own}, {.move_files = true}), "of the database"));
  Reopen();
  EXPECT_EQ(Get("a"), "1");
}

// Only files that overlap stay in level 0.
TEST_F(IngestionTest, FilesThatOverlapOthers) {
  Open();
  WriteTable("1", "put a 1, put c 1");
  WriteTable("2", "put b 2");
  WriteTable("3", "put x 3");
  EXPECT_TRUE(Ok(Ingest({"1", "2", "3"})));
  EXPECT_EQ(TablesAt(0), 2u);
  EXPECT_EQ(TablesAt(6), 1u);
  EXPECT_TRUE(
      HasEntries(db_.get(), {{"a", "1"}, {"b", "2"}, {"c", "1"}, {"x", "3"}}));
}

TEST_F(IngestionTest, BehindAllEntries) {
  WriteTable("1", "put a old, put b old, put c old, put d old");
  IngestExternalFileOptions behind;
  behind.ingest_behind = true;
  Open();
  EXPECT_TRUE(IsInvalidArgument(Ingest({"1"}, behind), "allow_ingest_behind"));
  Close();
  std::filesystem::remove_all(path_);
  options_.allow_ingest_behind = true;
  Open();
  Do("put a new, put b new, flush, delete b, delete_range c d, flush");
  CompactAll();
  // Nothing goes to the last level, and deletions stay.
  EXPECT_EQ(TablesAt(6), 0u);
  EXPECT_TRUE(Ok(Ingest({"1"}, behind)));
  EXPECT_EQ(TablesAt(6), 1u);
  const EntryList expected = {{"a", "new"}, {"d", "old"}};
  EXPECT_TRUE(HasEntries(db_.get(), expected));
  CompactAll();
  EXPECT_TRUE(HasEntries(db_.get(), expected));
  // There is something of its range.
  EXPECT_TRUE(IsInvalidArgument(Ingest({"1"}, behind), "last level"));
  // Others do not go there.
  IngestTable("put m 1");
  EXPECT_EQ(TablesAt(6), 1u);
  Reopen();
  EXPECT_TRUE(HasEntries(db_.get(), {{"a", "new"}, {"d", "old"}, {"m", "1"}}));
}

TEST_F(IngestionTest, ListenersAreTold) {
  class Listener final : public EventListener {
   public:
    void OnExternalFileIngested(
        const ExternalFileIngestionInfo& info) override {
      infos.push_back(info);
    }
    std::vector<ExternalFileIngestionInfo> infos;
  };
  const auto listener = std::make_shared<Listener>();
  options_.listeners = {listener};
  Open();
  Do("put a 1, flush");
  IngestTable("put a 2");
  ASSERT_EQ(listener->infos.size(), 1u);
  const ExternalFileIngestionInfo& info = listener->infos.front();
  EXPECT_EQ(info.cf_name, kDefaultColumnFamilyName);
  EXPECT_EQ(info.external_file_path, File("t"));
  EXPECT_TRUE(std::filesystem::exists(info.internal_file_path));
  EXPECT_EQ(info.global_seqno, 2u);
  EXPECT_EQ(info.global_seqno, db_->GetLatestSequenceNumber());
  EXPECT_EQ(info.picked_level, 0);
}

// Iterators step over ranges in which they have found only deletions.
TEST_F(IngestionTest, IteratorsForgetDeadRanges) {
  Open();
  for (int i = 0; i < 2000; ++i) Put(Key(i), "v");
  for (int i = 0; i < 2000; ++i) Delete(Key(i));
  Flush();
  EXPECT_TRUE(HasEntries(db_.get(), {}));
  EXPECT_TRUE(HasEntries(db_.get(), {}));
  IngestTable("put " + Key(1000) + " new");
  EXPECT_TRUE(HasEntries(db_.get(), {{Key(1000), "new"}}));
}

TEST_F(IngestionTest, TransactionsConflictWithIt) {
  std::unique_ptr<OptimisticTransactionDB> db;
  ASSERT_TRUE(Ok(OptimisticTransactionDB::Open(options_, path_, &db)));
  ASSERT_TRUE(Ok(db->Put({}, "a", "1")));
  WriteTable("1", "put b 2");
  for (const bool reads_it : {true, false}) {
    std::unique_ptr<Transaction> transaction(db->BeginTransaction({}));
    std::string value;
    const Status read =
        transaction->GetForUpdate({}, reads_it ? "b" : "a", &value);
    ASSERT_TRUE(read.ok() || read.IsNotFound());
    ASSERT_TRUE(Ok(db->IngestExternalFile({File("1")}, {})));
    ASSERT_TRUE(Ok(transaction->Put("c", "3")));
    const Status status = transaction->Commit();
    EXPECT_EQ(status.IsBusy(), reads_it) << status.ToString();
  }
}

TEST_F(IngestionTest, IsNewerThanWritesBeforeAndOlderThanWritesAfter) {
  options_.disable_auto_compactions = false;
  Open();
  Entries expected;
  Rng rng(TestSeed());
  for (int round = 0; round < 30; ++round) {
    for (int i = 0; i < 50; ++i) {
      const std::string key = Key(static_cast<int>(rng.Below(300)));
      expected[key] = std::to_string(round) + "w";
      Put(key, expected[key]);
    }
    const int begin = static_cast<int>(rng.Below(300));
    const int end = begin + 1 + static_cast<int>(rng.Below(40));
    const std::string value = std::to_string(round) + "i";
    WriteExternalRange(options_, File("t"), begin, end, value);
    ASSERT_TRUE(Ok(Ingest({"t"}, {.link_files = rng.OneIn(2)})));
    for (int i = begin; i < end; ++i) expected[Key(i)] = value;
    std::filesystem::remove(File("t"));
    if (rng.OneIn(5)) Reopen();
    ASSERT_TRUE(HasEntries(db_.get(), ToList(expected))) << round;
  }
}

}  // namespace
}  // namespace varve::test
