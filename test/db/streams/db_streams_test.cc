// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: DB::GetUpdatesSince gives each batch of the logs once, in order and
// whole, says what is missing, and goes on at the end. Method: one case for
// each rule, with batches that are compared with those that were written.

#include "db/streams/change_stream.h"
#include "test/testing/db/external_tables.h"
#include "test/testing/db/families_fixture.h"
#include "test/testing/directory.h"
#include "test/testing/test_headers.h"
#include "varve/testing/fault_injection_env.h"
#include "varve/transaction_db.h"

namespace varve::test {
namespace {

using Kind = TransactionLogGap::Kind;

class DbStreamsTest : public FamiliesTest {
 protected:
  DbStreamsTest() {
    options_.disable_auto_compactions = true;
    options_.WAL_ttl_seconds = 1000000;
  }
  void TearDown() override {
    stream_.reset();
    FamiliesTest::TearDown();
  }

  Status Start(uint64_t sequence) {
    stream_.reset();
    return db_->GetUpdatesSince(sequence, &stream_);
  }
  // Returns the next step of the stream: "5: put a 1, delete b", "end", or the
  // status.
  std::string Show() {
    if (!stream_->Valid()) {
      const Status status = stream_->status();
      return status.ok() ? "end" : status.ToString();
    }
    const BatchResult result = stream_->GetBatch();
    return std::to_string(result.sequence) + ":" +
           TextOf(*result.writeBatchPtr);
  }
  // Returns all up to the end, one a line.
  std::string ShowAll() {
    std::string text;
    for (; stream_->Valid(); stream_->Next()) text += Show() + "\n";
    return text + Show();
  }
  static std::string TextOf(const WriteBatch& batch) {
    class Text final : public WriteBatch::Handler {
     public:
      void Put(const Slice& key, const Slice& value) override {
        text += " put " + key.ToString() + " " + value.ToString();
      }
      void Delete(const Slice& key) override {
        text += " delete " + key.ToString();
      }
      Status PutCF(uint32_t family, const Slice& key,
                   const Slice& value) override {
        if (family != 0) text += " [" + std::to_string(family) + "]";
        Put(key, value);
        return Status::OK();
      }
      void DeleteRange(const Slice& begin, const Slice& end) override {
        text += " delete_range " + begin.ToString() + " " + end.ToString();
      }
      std::string text;
    } text;
    EXPECT_TRUE(Ok(batch.Iterate(&text)));
    return text.text;
  }
  TransactionLogGap Gap() {
    TransactionLogGap gap;
    EXPECT_TRUE(stream_->GetGap(&gap));
    return gap;
  }
  std::vector<std::string> Archived() const {
    return FilesEndingIn(path_ + "/archive", ".log");
  }

  FaultInjectionEnv env_{Env::Default()};
  std::unique_ptr<TransactionLogIterator> stream_;
};

TEST_F(DbStreamsTest, GivesEachBatchOnce) {
  Open();
  Do("put a 1, put b 2, delete a");
  WriteBatch batch;
  batch.Put("c", "3");
  batch.Put("d", "4");
  ASSERT_TRUE(Ok(db_->Write({}, &batch)));
  ASSERT_TRUE(Ok(Start(0)));
  EXPECT_EQ(ShowAll(),
            "1: put a 1\n2: put b 2\n3: delete a\n4: put c 3 put d 4\nend");
  // The batch that contains the number.
  ASSERT_TRUE(Ok(Start(5)));
  EXPECT_EQ(ShowAll(), "4: put c 3 put d 4\nend");
  ASSERT_TRUE(Ok(Start(2)));
  EXPECT_EQ(Show(), "2: put b 2");
}

TEST_F(DbStreamsTest, GoesOnAfterTheEnd) {
  Open();
  ASSERT_TRUE(Ok(Start(1)));
  EXPECT_EQ(Show(), "end");
  Do("put a 1");
  EXPECT_EQ(Show(), "end");
  stream_->Next();
  EXPECT_EQ(Show(), "1: put a 1");
  stream_->Next();
  stream_->Next();
  EXPECT_EQ(Show(), "end");
  Do("flush, put b 2, flush, put c 3");
  stream_->Next();
  EXPECT_EQ(ShowAll(), "2: put b 2\n3: put c 3\nend");
  ASSERT_TRUE(Ok(Start(4)));
  EXPECT_EQ(Show(), "end");
}

TEST_F(DbStreamsTest, RefusesNumbersOfTheFuture) {
  Open();
  Do("put a 1");
  EXPECT_TRUE(Start(3).IsNotFound());
  EXPECT_EQ(stream_, nullptr);
}

TEST_F(DbStreamsTest, ReadsArchivedLogs) {
  Open();
  for (int i = 1; i <= 5; ++i) Do("put a " + std::to_string(i) + ", flush");
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  EXPECT_GE(Archived().size(), 4u);
  ASSERT_TRUE(Ok(Start(1)));
  EXPECT_EQ(ShowAll(),
            "1: put a 1\n2: put a 2\n3: put a 3\n4: put a 4\n5: put a 5\nend");
  stream_.reset();
  Reopen();
  Do("put a 6");
  ASSERT_TRUE(Ok(Start(4)));
  EXPECT_EQ(ShowAll(), "4: put a 4\n5: put a 5\n6: put a 6\nend");
}

TEST_F(DbStreamsTest, SaysThatANumberIsGone) {
  options_.WAL_ttl_seconds = 0;
  Open();
  Do("put a 1, put b 2, flush, put c 3");
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  const Status status = Start(1);
  EXPECT_TRUE(status.IsNotFound()) << status.ToString();
  EXPECT_TRUE(Contains(status.ToString(), "the oldest one is 3"));
  ASSERT_TRUE(Ok(Start(3)));
  EXPECT_EQ(ShowAll(), "3: put c 3\nend");
}

// A stream keeps the log that it reads.
TEST_F(DbStreamsTest, LearnsThatItsNextLogIsGone) {
  options_.WAL_ttl_seconds = 0;
  Open();
  Do("put a 1, put b 2");
  ASSERT_TRUE(Ok(Start(1)));
  Do("flush, put c 3, put d 4, flush, put e 5");
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  EXPECT_EQ(Show(), "1: put a 1");
  stream_->Next();
  EXPECT_EQ(Show(), "2: put b 2");
  stream_->Next();
  EXPECT_TRUE(stream_->status().IsNotFound()) << Show();
  EXPECT_TRUE(Contains(Show(), "the oldest one is 5")) << Show();
  EXPECT_EQ(Gap().kind, Kind::kGone);
  EXPECT_EQ(Gap().first, 3u);
  EXPECT_EQ(Gap().last, 4u);
  stream_->Next();
  EXPECT_EQ(ShowAll(), "5: put e 5\nend");
}

TEST_F(DbStreamsTest, ReportsUnloggedUpdates) {
  Open();
  Do("put a 1");
  ASSERT_TRUE(Ok(db_->Put({.disable_wal = true}, "b", "2")));
  ASSERT_TRUE(Ok(db_->Put({.disable_wal = true}, "c", "3")));
  ASSERT_TRUE(Ok(Start(1)));
  EXPECT_EQ(Show(), "1: put a 1");
  stream_->Next();
  EXPECT_TRUE(stream_->status().IsIncomplete()) << Show();
  EXPECT_EQ(Gap().kind, Kind::kUnlogged);
  EXPECT_EQ(Gap().first, 2u);
  EXPECT_EQ(Gap().last, 3u);
  stream_->Next();
  EXPECT_EQ(Show(), "end");
  ASSERT_TRUE(Ok(db_->Put({.disable_wal = true}, "d", "4")));
  Do("put e 5");
  stream_->Next();
  EXPECT_EQ(Gap().first, 4u);
  EXPECT_EQ(Gap().last, 4u);
  stream_->Next();
  EXPECT_EQ(ShowAll(), "5: put e 5\nend");
  // A stream may begin with a gap.
  ASSERT_TRUE(Ok(Start(2)));
  EXPECT_FALSE(stream_->Valid());
  EXPECT_EQ(Gap().kind, Kind::kUnlogged);
}

TEST_F(DbStreamsTest, NamesIngestedTables) {
  Open();
  Do("put a 1");
  ASSERT_TRUE(Ok(Start(1)));
  const std::string table = dir_.Sub("t.sst");
  WriteExternalTable(options_, table, "put a x, put m y");
  ASSERT_TRUE(Ok(db_->IngestExternalFile({table}, {})));
  Do("put b 2");
  for (const bool again : {false, true}) {
    EXPECT_EQ(Show(), "1: put a 1") << again;
    stream_->Next();
    EXPECT_TRUE(stream_->status().IsIncomplete()) << Show();
    EXPECT_TRUE(Contains(Show(), table)) << Show();
    ASSERT_EQ(Gap().kind, Kind::kIngested);
    ASSERT_EQ(Gap().files.size(), 1u);
    EXPECT_EQ(Gap().files[0].external_path, table);
    EXPECT_TRUE(std::filesystem::exists(path_ + Gap().files[0].name));
    stream_->Next();
    EXPECT_EQ(ShowAll(), "3: put b 2\nend");
    stream_.reset();
    if (!again) Reopen();
    ASSERT_TRUE(Ok(Start(1)));
  }
}

TEST_F(DbStreamsTest, NamesTablesThatWereRemovedByRange) {
  Open();
  Do("put a 1, put b 2, flush");
  CompactAll();
  ASSERT_TRUE(Ok(Start(3)));
  EXPECT_EQ(Show(), "end");
  const RangePtr all;
  ASSERT_TRUE(
      Ok(db_->DeleteFilesInRanges(db_->DefaultColumnFamily(), &all, 1, true)));
  stream_->Next();
  EXPECT_EQ(Gap().kind, Kind::kRemoved) << Show();
  EXPECT_EQ(Gap().files.size(), 1u);
  stream_->Next();
  EXPECT_EQ(Show(), "end");
}

TEST_F(DbStreamsTest, ReadsAWriterThatBuffersItsLog) {
  options_.manual_wal_flush = true;
  Open();
  Do("put a 1");
  ASSERT_TRUE(Ok(Start(1)));
  EXPECT_EQ(ShowAll(), "1: put a 1\nend");
  Do("put b 2, flush, put c 3");
  stream_->Next();
  EXPECT_EQ(ShowAll(), "2: put b 2\n3: put c 3\nend");
  ASSERT_TRUE(Ok(db_->Put({.disable_wal = true}, "d", "4")));
  stream_->Next();
  EXPECT_EQ(Gap().kind, Kind::kUnlogged);
}

TEST_F(DbStreamsTest, ReadsAReadOnlyDatabase) {
  Open();
  Do("put a 1, flush, put b 2");
  Close();
  ASSERT_TRUE(Ok(DB::OpenForReadOnly(options_, path_, &db_)));
  ASSERT_TRUE(Ok(Start(1)));
  EXPECT_EQ(ShowAll(), "1: put a 1\n2: put b 2\nend");
  EXPECT_FALSE(stream_->Wait(1000));
}

TEST_F(DbStreamsTest, HoldsUpClose) {
  Open();
  ASSERT_TRUE(Ok(Start(1)));
  EXPECT_TRUE(db_->Close().IsBusy());
  stream_.reset();
  EXPECT_TRUE(Ok(db_->Close()));
  EXPECT_FALSE(db_->GetUpdatesSince(1, &stream_).ok());
}

TEST_F(DbStreamsTest, WaitsForTheNextWrite) {
  Open();
  ASSERT_TRUE(Ok(Start(1)));
  EXPECT_FALSE(stream_->Wait(0));
  EXPECT_FALSE(stream_->Wait(1000));
  EXPECT_TRUE(Ok(stream_->status()));
  std::thread writer([this] {
    for (int i = 0; i < 20; ++i) Put(Key(i), "v");
  });
  int count = 0;
  while (count < 20) {
    ASSERT_TRUE(stream_->Wait(UINT64_MAX));
    for (; stream_->Valid(); stream_->Next()) ++count;
  }
  writer.join();
  EXPECT_EQ(Show(), "end");
  std::thread ender([this] { db_->CancelAllBackgroundWork(true); });
  EXPECT_FALSE(stream_->Wait(UINT64_MAX));
  EXPECT_TRUE(stream_->status().IsShutdownInProgress());
  ender.join();
}

// Wakes for what no writer of the queue publishes, too.
TEST_F(DbStreamsTest, WaitsForIngestedTables) {
  Open();
  ASSERT_TRUE(Ok(Start(1)));
  const std::string table = dir_.Sub("t.sst");
  WriteExternalTable(options_, table, "put a x");
  std::thread writer(
      [&] { ASSERT_TRUE(Ok(db_->IngestExternalFile({table}, {}))); });
  EXPECT_FALSE(stream_->Wait(UINT64_MAX));
  EXPECT_EQ(Gap().kind, Kind::kIngested);
  writer.join();
}

TEST_F(DbStreamsTest, SurvivesAKill) {
  Open();
  Do("put a 1, put b 2, flush, put c 3");
  const std::string copy = dir_.Sub("copy");
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  CopyDirectory(path_, copy);
  Close();
  path_ = copy;
  Open();
  Do("put d 4");
  ASSERT_TRUE(Ok(Start(1)));
  EXPECT_EQ(ShowAll(), "1: put a 1\n2: put b 2\n3: put c 3\n4: put d 4\nend");
}

// The end of a log is lost in a kill, and its numbers are used again.
TEST_F(DbStreamsTest, LeavesOutWhatRecoveryDropped) {
  Open();
  Do("put a 1, put b 2, put c 3");
  const std::string copy = dir_.Sub("copy");
  CopyDirectory(path_, copy);
  Close();
  path_ = copy;
  const std::string log = FilesEndingIn(path_, ".log").back();
  std::filesystem::resize_file(log, ReadWholeFile(log).find_last_not_of('\0'));
  Open();
  EXPECT_EQ(Get("c"), "NotFound");
  Do("put x 3, put y 4");
  ASSERT_TRUE(Ok(Start(1)));
  EXPECT_EQ(ShowAll(), "1: put a 1\n2: put b 2\n3: put x 3\n4: put y 4\nend");
}

// A sync fails after the log has a record. The record's number is used again in
// the next log.
TEST_F(DbStreamsTest, LeavesOutWhatWasNotAcknowledged) {
  options_.env = &env_;
  Open();
  Do("put a 1");
  env_.FailAfter(0, FaultInjectionEnv::InjectedError(), kSyncOperation);
  EXPECT_FALSE(db_->Put({.sync = true}, "lost", "x").ok());
  env_.ClearFailure();
  ASSERT_TRUE(Ok(Start(1)));
  EXPECT_EQ(ShowAll(), "1: put a 1\nend");
  ASSERT_TRUE(Ok(db_->Resume()));
  stream_->Next();
  EXPECT_EQ(Show(), "end");
  Do("put b 2");
  stream_->Next();
  EXPECT_EQ(ShowAll(), "2: put b 2\nend");
  ASSERT_TRUE(Ok(Start(1)));
  EXPECT_EQ(ShowAll(), "1: put a 1\n2: put b 2\nend");
}

TEST_F(DbStreamsTest, ReportsDamageInTheArchive) {
  Open();
  Do("put a 1, put b 2, put c 3, flush, put d 4");
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  ASSERT_FALSE(Archived().empty());
  const std::string log = Archived().front();
  std::string bytes = ReadWholeFile(log);
  bytes[bytes.find('b')] ^= 1;
  WriteWholeFile(log, bytes);
  ASSERT_TRUE(Ok(Start(1)));
  EXPECT_EQ(Show(), "1: put a 1");
  stream_->Next();
  EXPECT_TRUE(stream_->status().IsCorruption()) << Show();
  EXPECT_EQ(Gap().kind, Kind::kDamaged);
  EXPECT_EQ(Gap().first, 2u);
  EXPECT_EQ(Gap().last, 3u);
  stream_->Next();
  EXPECT_EQ(ShowAll(), "4: put d 4\nend");
}

// Each byte of an archived log is changed, and it ends at each length: the
// stream gives only batches that were written, in order, and ends or says what
// is missing.
TEST_F(DbStreamsTest, TakesAnyBytesInTheArchive) {
  Open();
  Do("put aa 1, put bb 2, delete cc, flush, put dd 4");
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  const std::string log = Archived().front();
  const std::string whole = ReadWholeFile(log);
  const std::map<uint64_t, std::string> written = {
      {1, " put aa 1"}, {2, " put bb 2"}, {3, " delete cc"}, {4, " put dd 4"}};
  const auto check = [&] {
    Status status = Start(1);
    if (!status.ok()) return;
    uint64_t next = 1;
    for (int step = 0; step < 20 && next <= 4; ++step, stream_->Next()) {
      TransactionLogGap gap;
      if (stream_->Valid()) {
        const BatchResult result = stream_->GetBatch();
        ASSERT_EQ(result.sequence, next);
        ASSERT_EQ(TextOf(*result.writeBatchPtr), written.at(next));
        ++next;
      } else {
        ASSERT_FALSE(stream_->status().ok());
        if (!stream_->GetGap(&gap)) return;
        ASSERT_EQ(gap.first, next);
        next = gap.last + 1;
      }
    }
    ASSERT_EQ(next, 5u);
  };
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string bytes = whole;
    bytes[i] = static_cast<char>(~bytes[i]);
    WriteWholeFile(log, bytes);
    check();
    WriteWholeFile(log, whole.substr(0, i));
    check();
    if (HasFatalFailure()) FAIL() << "byte " << i;
  }
}

TEST_F(DbStreamsTest, ListsArchivedLogs) {
  Open();
  Do("put a 1, flush, put b 2");
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  VectorWalPtr files;
  ASSERT_TRUE(Ok(db_->GetSortedWalFiles(&files)));
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[0]->Type(), WalFileType::kArchivedLogFile);
  EXPECT_EQ(files[0]->StartSequence(), 1u);
  EXPECT_TRUE(files[0]->PathName().starts_with("/archive/"));
  EXPECT_EQ(path_ + files[0]->PathName(), Archived().front());
  EXPECT_EQ(files[1]->Type(), WalFileType::kAliveLogFile);
  EXPECT_EQ(files[1]->StartSequence(), 2u);
}

// ---- Families and transactions ----------------------------------------------

TEST_F(DbStreamsTest, GivesTransactionsAtTheirCommit) {
  std::unique_ptr<TransactionDB> db;
  ASSERT_TRUE(
      Ok(TransactionDB::Open(options_, TransactionDBOptions(), path_, &db)));
  const auto prepare = [&](const std::string& name) {
    std::unique_ptr<Transaction> transaction(db->BeginTransaction({}));
    EXPECT_TRUE(Ok(transaction->SetName(name)));
    EXPECT_TRUE(Ok(transaction->Put(name + "1", "x")));
    EXPECT_TRUE(Ok(transaction->Put(name + "2", "y")));
    EXPECT_TRUE(Ok(transaction->Prepare()));
    return transaction;
  };
  ASSERT_TRUE(Ok(db->Put({}, "a", "1")));
  auto first = prepare("p");
  auto second = prepare("q");
  ASSERT_TRUE(Ok(db->Put({}, "b", "2")));
  ASSERT_TRUE(Ok(db->Flush({})));
  ASSERT_TRUE(Ok(db->Put({}, "c", "3")));
  ASSERT_TRUE(Ok(second->Rollback()));
  ASSERT_TRUE(Ok(first->Commit()));
  ASSERT_TRUE(Ok(db->Put({}, "d", "6")));
  for (const uint64_t from : {1, 3, 5}) {
    ASSERT_TRUE(Ok(db->GetUpdatesSince(from, &stream_)));
    std::string expected = "4: put p1 x put p2 y\n6: put d 6\nend";
    if (from <= 3) expected = "3: put c 3\n" + expected;
    if (from <= 1) expected = "1: put a 1\n2: put b 2\n" + expected;
    EXPECT_EQ(ShowAll(), expected) << from;
  }
  stream_.reset();
  first.reset();
  second.reset();
}

}  // namespace
}  // namespace varve::test
