// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: a checkpoint is the database at one moment, whole and independent, or
// it is not there. Method: checkpoints in quiet and while writers and
// compactions run; every operation of making one failing in turn; a power cut
// afterwards.

#include "test/testing/db_helpers.h"
#include "test/testing/directory.h"
#include "test/testing/env/hook_env.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "test/testing/threads/run_threads.h"
#include "varve/checkpoint.h"
#include "varve/testing/fault_injection_env.h"

namespace varve::test {
namespace {

class DbCheckpointTest : public DbTestBase {
 protected:
  Status Make(const std::string& directory) {
    std::unique_ptr<Checkpoint> checkpoint;
    Status s = Checkpoint::Create(db_.get(), &checkpoint);
    return s.ok() ? checkpoint->CreateCheckpoint(directory) : s;
  }

  Entries Fill(int seed) {
    Rng rng(seed);
    for (int i = 0; i < 5000; ++i) {
      const std::string key = Key(rng.Between(0, 3000));
      expected_[key] = rng.Bytes(60);
      Put(key, expected_[key]);
    }
    return expected_;
  }

  EntryList Read(const std::string& directory) {
    Options options = TinyOptions();
    options.create_if_missing = false;
    std::unique_ptr<DB> db;
    EntryList entries;
    EXPECT_TRUE(Ok(DB::Open(options, directory, &db)));
    if (db == nullptr) return entries;
    EXPECT_TRUE(Ok(ScanForward(db.get(), {}, &entries)));
    EXPECT_TRUE(Ok(db->VerifyChecksum()));
    EXPECT_TRUE(Ok(db->Close()));
    return entries;
  }

  Entries expected_;
};

TEST_F(DbCheckpointTest, IsTheDatabaseAtThatMoment) {
  Open();
  const Entries then = Fill(1);
  const std::string copy = dir_.Sub("copy");
  ASSERT_TRUE(Ok(Make(copy)));
  Fill(2);
  CompactAll();
  EXPECT_TRUE(SameEntries(ToList(then), Read(copy)));
  // Twice, since opening it has changed it.
  EXPECT_TRUE(SameEntries(ToList(then), Read(copy)));
  EXPECT_TRUE(HasEntries(db_.get(), ToList(expected_)));
  EXPECT_FALSE(std::filesystem::exists(copy + ".tmp"));
  EXPECT_EQ(Number("varve.is-file-deletions-enabled"), 1u);
  EXPECT_EQ(FilesEndingIn(path_, ".sst").size(), Tables());
}

// Files that a compaction replaces stay until the checkpoint has linked them.
TEST_F(DbCheckpointTest, NothingIsRemovedDuringACheckpoint) {
  Gate links;
  links.Close();
  HookEnv env(kLinkOperation);
  env.hook = [&](const std::string&) { return links.Pass(); };
  options_.env = &env;
  Open();
  const Entries then = Fill(1);
  Flush();
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  const auto before = FilesEndingIn(path_, ".sst");
  const std::string copy = dir_.Sub("copy");
  std::thread maker([&] { EXPECT_TRUE(Ok(Make(copy))); });
  links.AwaitWaiting();
  EXPECT_EQ(Number("varve.is-file-deletions-enabled"), 0u);
  Fill(2);
  CompactAll();
  for (const std::string& table : before) {
    EXPECT_TRUE(std::filesystem::exists(table)) << table;
  }
  links.Open();
  maker.join();
  EXPECT_TRUE(SameEntries(ToList(then), Read(copy)));
  EXPECT_TRUE(HasEntries(db_.get(), ToList(expected_)));
  EXPECT_EQ(Number("varve.is-file-deletions-enabled"), 1u);
  EXPECT_EQ(FilesEndingIn(path_, ".sst").size(), Tables());
  db_.reset();
}

TEST_F(DbCheckpointTest, TablesAreLinked) {
  // A compaction would remove the database's own.
  options_.disable_auto_compactions = true;
  Open();
  Fill(1);
  const std::string copy = dir_.Sub("copy/");
  ASSERT_TRUE(Ok(Make(copy)));
  const auto tables = FilesEndingIn(copy, ".sst");
  EXPECT_GT(tables.size(), 1u);
  for (const std::string& table : tables) {
    EXPECT_EQ(std::filesystem::hard_link_count(table), 2u) << table;
  }
}

TEST_F(DbCheckpointTest, OneOfTheOtherIsIndependent) {
  Open();
  const Entries then = Fill(1);
  const std::string copy = dir_.Sub("copy");
  ASSERT_TRUE(Ok(Make(copy)));
  Close();
  std::filesystem::remove_all(path_);
  path_ = copy;
  Open();
  EXPECT_TRUE(HasEntries(db_.get(), ToList(then)));
  Fill(3);
  CompactAll();
  EXPECT_TRUE(HasEntries(db_.get(), ToList(expected_)));
  // And of a checkpoint there can be a checkpoint.
  const std::string second = dir_.Sub("second");
  ASSERT_TRUE(Ok(Make(second)));
  EXPECT_TRUE(SameEntries(ToList(expected_), Read(second)));
}

TEST_F(DbCheckpointTest, UnloggedDataIsThere) {
  Open();
  ASSERT_TRUE(Ok(db_->Put({.disable_wal = true}, "a", "1")));
  const std::string copy = dir_.Sub("copy");
  ASSERT_TRUE(Ok(Make(copy)));
  EXPECT_TRUE(SameEntries({{"a", "1"}}, Read(copy)));
}

// If a thread writes in two ways, all its writes up to some write are present.
TEST_F(DbCheckpointTest, ConcurrentUnloggedDataLeavesNoHole) {
  Open();
  // For each copy, as many as are written while it is made. More would only
  // have to be read.
  constexpr int kForEachCopy = 5000;
  std::atomic<int> limit{0};
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    WriteOptions unlogged{.disable_wal = true};
    for (int i = 0; !stop; ++i) {
      while (i == limit && !stop) std::this_thread::yield();
      ASSERT_TRUE(
          Ok(db_->Put(i % 2 == 0 ? unlogged : WriteOptions(), Key(i), "")));
    }
  });
  for (int i = 0; i < 10; ++i) {
    limit += kForEachCopy;
    const std::string copy = dir_.Sub("copy" + std::to_string(i));
    ASSERT_TRUE(Ok(Make(copy)));
    const EntryList entries = Read(copy);
    for (size_t k = 0; k < entries.size(); ++k) {
      ASSERT_EQ(entries[k].first, Key(static_cast<int>(k)));
    }
  }
  stop = true;
  writer.join();
}

TEST_F(DbCheckpointTest, SeveralAtATimeDoNotMeet) {
  Open();
  const Entries then = Fill(1);
  std::atomic<int> made{0};
  for (int round = 0; round < 10; ++round) {
    const std::string copy = dir_.Sub("copy" + std::to_string(round));
    RunThreads(3, [&](int) { made += Make(copy).ok(); });
    EXPECT_EQ(made, round + 1);
    EXPECT_TRUE(SameEntries(ToList(then), Read(copy)));
  }
}

TEST_F(DbCheckpointTest, IsMadeBeforeAnythingIsWritten) {
  Open();
  const Entries then = Fill(1);
  Do("flush, reopen, reopen");
  const std::string copy = dir_.Sub("copy");
  ASSERT_TRUE(Ok(Make(copy)));
  EXPECT_TRUE(SameEntries(ToList(then), Read(copy)));
  Reopen();
  EXPECT_TRUE(Ok(db_->VerifyChecksum()));
}

TEST_F(DbCheckpointTest, EmptyDatabaseHasOne) {
  Open();
  const std::string copy = dir_.Sub("copy");
  ASSERT_TRUE(Ok(Make(copy)));
  EXPECT_TRUE(SameEntries({}, Read(copy)));
}

TEST_F(DbCheckpointTest, BadPlacesAreRefused) {
  Open();
  Fill(1);
  std::unique_ptr<Checkpoint> checkpoint;
  EXPECT_TRUE(Checkpoint::Create(nullptr, &checkpoint).IsInvalidArgument());
  EXPECT_TRUE(Make("").IsInvalidArgument());
  EXPECT_TRUE(Make(path_).IsInvalidArgument());
  const std::string copy = dir_.Sub("copy");
  std::filesystem::create_directory(copy);
  EXPECT_TRUE(Make(copy).IsInvalidArgument());
  const std::string file = dir_.Sub("file");
  WriteWholeFile(file, "mine");
  EXPECT_TRUE(Make(file).IsInvalidArgument());
  EXPECT_EQ(ReadWholeFile(file), "mine");
  EXPECT_FALSE(Make(dir_.Sub("no/such/parent")).ok());
  // Another program's directory may have the temporary name.
  const std::string used = dir_.Sub("used");
  std::filesystem::create_directory(used + ".tmp");
  WriteWholeFile(used + ".tmp/letter", "mine");
  EXPECT_TRUE(Ok(Make(used)));
  EXPECT_EQ(ReadWholeFile(used + ".tmp/letter"), "mine");
  EXPECT_FALSE(std::filesystem::exists(used + ".tmp2"));
  // Or a database, be it this one.
  const std::string other_path = dir_.Sub("other_database");
  std::unique_ptr<DB> other;
  ASSERT_TRUE(Ok(DB::Open(options_, other_path + ".tmp", &other)));
  ASSERT_TRUE(Ok(other->Put({}, "a", "1")));
  ASSERT_TRUE(Ok(other->Flush({})));
  EXPECT_TRUE(Ok(Make(other_path)));
  std::filesystem::remove_all(other_path);
  EXPECT_TRUE(Ok(other->CreateCheckpoint(other_path)));
  other.reset();
  std::filesystem::remove_all(other_path);
  EXPECT_TRUE(Ok(Make(other_path)));
  ASSERT_TRUE(Ok(DB::Open(options_, other_path + ".tmp", &other)));
  std::string value;
  ASSERT_TRUE(Ok(other->Get({}, "a", &value)));
  EXPECT_EQ(Number("varve.is-file-deletions-enabled"), 1u);
  Close();
  ASSERT_TRUE(Ok(DB::OpenForReadOnly(options_, path_, &db_)));
  EXPECT_TRUE(Make(dir_.Sub("other")).IsNotSupported());
}

TEST_F(DbCheckpointTest, LeftoversOfADeadAttemptAreRemoved) {
  Open();
  const Entries then = Fill(1);
  const std::string copy = dir_.Sub("copy");
  std::filesystem::create_directory(copy + ".tmp");
  WriteWholeFile(copy + ".tmp/000007.sst", "half");
  WriteWholeFile(copy + ".tmp/MANIFEST-000001", "half");
  ASSERT_TRUE(Ok(Make(copy)));
  EXPECT_TRUE(SameEntries(ToList(then), Read(copy)));
}

// The name that a checkpoint is built under may be another checkpoint's.
TEST_F(DbCheckpointTest, LeavesAFinishedOneThatHasTheNameToBuildUnder) {
  Open();
  const Entries then = Fill(1);
  const std::string copy = dir_.Sub("copy");
  ASSERT_TRUE(Ok(Make(copy + ".tmp")));
  ASSERT_TRUE(Ok(Make(copy + ".tmp2")));
  const auto first = ReadDirectory(copy + ".tmp");
  const auto second = ReadDirectory(copy + ".tmp2");
  std::filesystem::create_directory(copy + ".tmp3");
  WriteWholeFile(copy + ".tmp3/000007.sst", "half");
  ASSERT_TRUE(Ok(Make(copy)));
  EXPECT_EQ(ReadDirectory(copy + ".tmp"), first);
  EXPECT_EQ(ReadDirectory(copy + ".tmp2"), second);
  EXPECT_FALSE(std::filesystem::exists(copy + ".tmp3"));
  for (const char* suffix : {"", ".tmp", ".tmp2"}) {
    EXPECT_TRUE(SameEntries(ToList(then), Read(copy + suffix))) << suffix;
  }
}

// Each checkpoint has all writes up to one of them, and no later write.
TEST_F(DbCheckpointTest, ConsistentWhileWritersAndCompactionsRun) {
  options_.max_background_jobs = 4;
  Open();
  std::atomic<uint64_t> written = 0;
  std::atomic<bool> done = false;
  std::thread writer([&] {
    Rng rng(9);
    for (uint64_t n = 1; !done; ++n) {
      // "last" is written together with a key of its own and a filler.
      WriteBatch batch;
      batch.Put("n" + Key(static_cast<int>(n)), std::string(50, 'x'));
      batch.Put("last", std::to_string(n));
      batch.Put(Key(rng.Between(0, 3000)), rng.Bytes(100));
      ASSERT_TRUE(Ok(db_->Write({}, &batch)));
      written = n;
    }
  });
  for (int i = 0; i < 6; ++i) {
    while (written < static_cast<uint64_t>(i) * 300 + 10) {
      std::this_thread::yield();
    }
    const uint64_t before = written;
    const std::string copy = dir_.Sub("copy" + std::to_string(i));
    ASSERT_TRUE(Ok(Make(copy)));
    const EntryList entries = Read(copy);
    uint64_t last = 0;
    uint64_t own_keys = 0;
    std::string highest;
    for (const auto& [key, value] : entries) {
      if (key == "last") last = std::stoull(value);
      if (key[0] == 'n') {
        ++own_keys;
        highest = key;
      }
    }
    EXPECT_GE(last, before) << "a write before the call is missing";
    EXPECT_EQ(own_keys, last);
    EXPECT_EQ(highest, "n" + Key(static_cast<int>(last)));
  }
  done = true;
  writer.join();
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  EXPECT_EQ(FilesEndingIn(path_, ".sst").size(), Tables());
}

TEST(DbCheckpointFaultTest, IsWholeOrNotThereWhateverFails) {
  for (const bool no_links : {false, true}) {
    uint64_t operations = 1;
    for (uint64_t n = 0; n < operations; ++n) {
      SCOPED_TRACE("operation " + std::to_string(n));
      const auto memory = NewMemoryEnv(Env::Default());
      FaultInjectionEnv faulty(memory.get());
      ASSERT_TRUE(Ok(memory->CreateDirIfMissing("/db")));
      Options options = TinyOptions();
      options.env = &faulty;
      options.disable_auto_compactions = true;
      std::unique_ptr<DB> db;
      ASSERT_TRUE(Ok(DB::Open(options, "/db/it", &db)));
      ASSERT_TRUE(Ok(db->Put({}, "a", "1")));
      ASSERT_TRUE(Ok(db->Flush({})));
      ASSERT_TRUE(Ok(db->Put({}, "b", "2")));
      ASSERT_TRUE(Ok(db->Flush({})));
      std::unique_ptr<Checkpoint> checkpoint;
      ASSERT_TRUE(Ok(Checkpoint::Create(db.get(), &checkpoint)));
      if (n == 0) {
        const uint64_t before = faulty.OperationCount();
        ASSERT_TRUE(Ok(checkpoint->CreateCheckpoint("/db/first")));
        operations = faulty.OperationCount() - before;
        EXPECT_GT(operations, 15u);
      }
      if (no_links) {
        faulty.FailAfter(0, Status::NotSupported("no links"), kLinkOperation,
                         FailureOptions{.once = false});
      } else {
        faulty.FailAfter(n, Status::IOError("injected"), kAllOperations, {});
      }
      const Status s = checkpoint->CreateCheckpoint("/db/copy");
      faulty.ClearFailure();
      EXPECT_TRUE(db->Get({}, "a", std::make_unique<std::string>().get()).ok());
      // The last operations make it safe: it may be there after they fail.
      EXPECT_EQ(no_links, s.ok()) << s.ToString();
      if (!s.ok() && memory->FileExists("/db/copy").IsNotFound()) {
        // A failed sync of the directory tells nothing about its contents. The
        // log may be what failed.
        ASSERT_TRUE(Ok(db->Resume()));
        ASSERT_TRUE(Ok(checkpoint->CreateCheckpoint("/db/copy")));
      }
      db.reset();
      CrashOptions crash;
      faulty.SetFilesystemActive(false);
      ASSERT_TRUE(Ok(faulty.CrashAndReset(crash)));
      if (memory->FileExists("/db/copy").ok()) {
        std::unique_ptr<DB> copy;
        ASSERT_TRUE(Ok(DB::Open(options, "/db/copy", &copy)));
        EXPECT_TRUE(HasEntries(copy.get(), {{"a", "1"}, {"b", "2"}}));
      }
      if (no_links) break;
    }
  }
}

// This process has written no MANIFEST of the database yet, so one is begun.
TEST(DbCheckpointFaultTest, ResumeGetsOverAFailedSyncOfTheDirectory) {
  const auto memory = NewMemoryEnv(Env::Default());
  FaultInjectionEnv faulty(memory.get());
  ASSERT_TRUE(Ok(memory->CreateDirIfMissing("/db")));
  Options options = TinyOptions();
  options.env = &faulty;
  std::unique_ptr<DB> db;
  for (int i = 0; i < 2; ++i) {
    db.reset();
    ASSERT_TRUE(Ok(DB::Open(options, "/db/it", &db)));
  }
  faulty.FailAfter(0, FaultInjectionEnv::InjectedError(),
                   kSyncDirectoryOperation);
  EXPECT_TRUE(db->CreateCheckpoint("/db/copy").IsIOError());
  ASSERT_TRUE(Ok(db->Resume()));
  EXPECT_TRUE(Ok(db->CreateCheckpoint("/db/copy")));
  EXPECT_TRUE(Ok(db->Put({.sync = true}, "a", "1")));
}

}  // namespace
}  // namespace varve::test
