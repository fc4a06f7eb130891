// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: power cuts take unsynced data and nothing else, and planned failures
// hit the intended operation. Method: crashes after each kind of change, with
// many seeds. The states that occur are collected, so that both "never loses"
// and "may lose" are checked. Then random workloads are compared with a model
// of durable state.

#include "varve/testing/fault_injection_env.h"

#include "test/testing/seed.h"
#include "test/testing/status_checks.h"
#include "test/testing/temp_dir.h"
#include "test/testing/test_headers.h"
#include "util/base/random.h"

namespace varve {
namespace {

constexpr uint64_t kSeeds = 200;

class FaultInjectionEnvTest : public testing::Test {
 protected:
  FaultInjectionEnvTest() { StartAgain(); }

  // An empty file system with a safe directory /d.
  void StartAgain() {
    directory_.reset();
    env_.reset();
    memory_ = NewMemoryEnv(Env::Default());
    env_ = std::make_unique<FaultInjectionEnv>(memory_.get());
    ASSERT_TRUE(env_->CreateDirIfMissing("/d").ok());
    OpenDirectory();
    SyncDirectory();
  }
  void OpenDirectory() {
    ASSERT_TRUE(env_->NewDirectory("/d", &directory_).ok());
  }
  void SyncDirectory() { ASSERT_TRUE(directory_->Sync().ok()); }
  void Write(const std::string& path, const std::string& data, bool sync) {
    ASSERT_TRUE(WriteStringToFile(env_.get(), data, path, sync).ok());
  }
  void WriteSafely(const std::string& path, const std::string& data) {
    Write(path, data, /*sync=*/true);
    SyncDirectory();
  }
  std::unique_ptr<WritableFile> NewFile(const std::string& path) {
    std::unique_ptr<WritableFile> file;
    EXPECT_TRUE(env_->NewWritableFile(path, FileOptions(), &file).ok());
    return file;
  }

  // "name=contents name/ ..." of a directory and what is in it.
  static std::string List(Env* env, const std::string& directory,
                          const std::string& prefix = "") {
    std::vector<std::string> names;
    EXPECT_TRUE(env->GetChildren(directory, &names).ok());
    std::string result;
    for (const std::string& name : names) {
      const std::string path = directory + "/" + name;
      std::string data;
      if (!result.empty()) result += ' ';
      if (ReadFileToString(env, path, &data).ok()) {
        result += prefix + name + "=" + data;
      } else {
        const std::string inside = List(env, path, prefix + name + "/");
        result += prefix + name + "/" + (inside.empty() ? "" : " " + inside);
      }
    }
    return result;
  }

  // All states that `work` may leave after a power cut. Tearing is off, to
  // keep them few.
  template <typename Work>
  std::set<std::string> StatesAfter(Work work, bool drop_entries = true) {
    std::set<std::string> states;
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      StartAgain();
      work();
      directory_.reset();
      const Status status =
          env_->CrashAndReset({.seed = seed,
                               .tear_sectors = false,
                               .drop_directory_entries = drop_entries});
      EXPECT_TRUE(Ok(status));
      states.insert(List(memory_.get(), "/d"));
    }
    return states;
  }
  // The same, with a sync of the directory in the end.
  template <typename Work>
  std::set<std::string> StatesAfterSync(Work work) {
    return StatesAfter([&] {
      work();
      SyncDirectory();
    });
  }

  std::unique_ptr<Env> memory_;
  std::unique_ptr<FaultInjectionEnv> env_;
  std::unique_ptr<Directory> directory_;
};

using States = std::set<std::string>;

TEST_F(FaultInjectionEnvTest, KeepsSyncedBytes) {
  EXPECT_EQ(StatesAfter([&] { WriteSafely("/d/f", "abc"); }),
            (States{"f=abc"}));
}

TEST_F(FaultInjectionEnvTest, CutsTheUnsyncedEndAnywhere) {
  const auto work = [&] {
    auto file = NewFile("/d/f");
    ASSERT_TRUE(file->Append("a").ok());
    ASSERT_TRUE(file->Sync().ok());
    ASSERT_TRUE(file->Append("bc").ok());
    ASSERT_TRUE(file->Flush().ok());
    ASSERT_TRUE(file->Close().ok());
    SyncDirectory();
  };
  EXPECT_EQ(StatesAfter(work), (States{"f=a", "f=ab", "f=abc"}));
}

TEST_F(FaultInjectionEnvTest, NewNamesMayVanish) {
  const auto work = [&] {
    Write("/d/f", "x", true);
    Write("/d/g", "y", true);
  };
  EXPECT_EQ(StatesAfter(work), (States{"", "f=x", "g=y", "f=x g=y"}));
  EXPECT_EQ(StatesAfter(work, /*drop_entries=*/false), (States{"f=x g=y"}));
}

TEST_F(FaultInjectionEnvTest, RemovedFilesMayComeBack) {
  const auto work = [&] {
    WriteSafely("/d/f", "x");
    ASSERT_TRUE(env_->RemoveFile("/d/f").ok());
  };
  EXPECT_EQ(StatesAfter(work), (States{"", "f=x"}));
  EXPECT_EQ(StatesAfterSync(work), (States{""}));
}

TEST_F(FaultInjectionEnvTest, RenamesHappenWhollyOrNotAtAll) {
  const auto work = [&] {
    WriteSafely("/d/old", "1");
    WriteSafely("/d/new", "2");
    ASSERT_TRUE(env_->RenameFile("/d/new", "/d/old").ok());
  };
  EXPECT_EQ(StatesAfter(work), (States{"new=2 old=1", "old=2"}));
  EXPECT_EQ(StatesAfterSync(work), (States{"old=2"}));
}

TEST_F(FaultInjectionEnvTest, ARenameOfUnsyncedBytesMayLeaveAnEmptyFile) {
  const auto work = [&] {
    WriteSafely("/d/old", "1");
    Write("/d/new", "2", /*sync=*/false);
    ASSERT_TRUE(env_->RenameFile("/d/new", "/d/old").ok());
    SyncDirectory();
  };
  EXPECT_EQ(StatesAfter(work), (States{"old=", "old=2"}));
}

TEST_F(FaultInjectionEnvTest, OperationsOnOneNameSurviveInOrder) {
  const auto work = [&] {
    Write("/d/a", "1", true);
    ASSERT_TRUE(env_->RenameFile("/d/a", "/d/b").ok());
    Write("/d/a", "2", true);
    ASSERT_TRUE(env_->RemoveFile("/d/b").ok());
  };
  EXPECT_EQ(StatesAfter(work), (States{"", "a=1", "b=1", "a=2 b=1", "a=2"}));
}

TEST_F(FaultInjectionEnvTest, CutFilesMayHaveTheirOldBytes) {
  const auto truncate = [&] {
    WriteSafely("/d/f", "abc");
    ASSERT_TRUE(env_->Truncate("/d/f", 1).ok());
  };
  EXPECT_EQ(StatesAfter(truncate), (States{"f=abc", "f=a"}));
}

TEST_F(FaultInjectionEnvTest, AReplacedFileMayComeBackAsItWas) {
  const auto rewrite = [&] {
    WriteSafely("/d/f", "abc");
    Write("/d/f", "x", /*sync=*/false);
  };
  EXPECT_EQ(StatesAfter(rewrite), (States{"f=abc", "f=", "f=x"}));
  const auto rewrite_safely = [&] {
    WriteSafely("/d/f", "abc");
    Write("/d/f", "x", /*sync=*/true);
    SyncDirectory();
  };
  EXPECT_EQ(StatesAfter(rewrite_safely), (States{"f=x"}));
  // The directory holds the name, as for any new file.
  const auto without_the_name = [&] {
    WriteSafely("/d/f", "abc");
    Write("/d/f", "x", /*sync=*/true);
  };
  EXPECT_EQ(StatesAfter(without_the_name), (States{"f=abc", "f=x"}));
}

TEST_F(FaultInjectionEnvTest, FilesFromBeforeAreSafe) {
  const auto work = [&] {
    ASSERT_TRUE(WriteStringToFile(memory_.get(), "abc", "/d/f", false).ok());
    ASSERT_TRUE(WriteStringToFile(memory_.get(), "1", "/d/g", false).ok());
    ASSERT_TRUE(env_->RenameFile("/d/f", "/d/g").ok());
  };
  EXPECT_EQ(StatesAfter(work), (States{"f=abc g=1", "g=abc"}));
}

TEST_F(FaultInjectionEnvTest, LinksMayVanishAndShareTheirFate) {
  const auto work = [&] {
    WriteSafely("/d/f", "a");
    ASSERT_TRUE(env_->LinkFile("/d/f", "/d/g").ok());
  };
  EXPECT_EQ(StatesAfter(work), (States{"f=a", "f=a g=a"}));
  const auto shared = [&] {
    Write("/d/f", "a", /*sync=*/false);
    ASSERT_TRUE(env_->LinkFile("/d/f", "/d/g").ok());
    SyncDirectory();
  };
  EXPECT_EQ(StatesAfter(shared), (States{"f= g=", "f=a g=a"}));
}

TEST_F(FaultInjectionEnvTest, AFileIsSyncedByAnyOfItsNames) {
  const auto work = [&] {
    Write("/d/f", "a", /*sync=*/false);
    ASSERT_TRUE(env_->LinkFile("/d/f", "/d/g").ok());
    ASSERT_TRUE(env_->SyncFile("/d/g").ok());
    SyncDirectory();
  };
  EXPECT_EQ(StatesAfter(work), (States{"f=a g=a"}));
  EXPECT_TRUE(env_->SyncFile("/d/none").IsNotFound());
}

TEST_F(FaultInjectionEnvTest, ADirectoryTakesItsFilesWithIt) {
  const auto work = [&](bool sync_it, bool sync_parent) {
    ASSERT_TRUE(env_->CreateDirIfMissing("/d/sub").ok());
    Write("/d/sub/f", "x", true);
    std::unique_ptr<Directory> sub;
    ASSERT_TRUE(env_->NewDirectory("/d/sub", &sub).ok());
    if (sync_it) {
      ASSERT_TRUE(sub->Sync().ok());
    }
    if (sync_parent) SyncDirectory();
  };
  EXPECT_EQ(StatesAfter([&] { work(false, false); }),
            (States{"", "sub/", "sub/ sub/f=x"}));
  EXPECT_EQ(StatesAfter([&] { work(false, true); }),
            (States{"sub/", "sub/ sub/f=x"}));
  // Its own sync makes safe that it exists.
  EXPECT_EQ(StatesAfter([&] { work(true, false); }), (States{"sub/ sub/f=x"}));
}

TEST_F(FaultInjectionEnvTest, ARenamedDirectoryKeepsOnlyItsSafeFiles) {
  const auto work = [&](bool sync_it) {
    ASSERT_TRUE(env_->CreateDirIfMissing("/d/tmp").ok());
    SyncDirectory();
    std::unique_ptr<Directory> tmp;
    ASSERT_TRUE(env_->NewDirectory("/d/tmp", &tmp).ok());
    Write("/d/tmp/f", "x", true);
    ASSERT_TRUE(env_->RenameFile("/d/tmp", "/d/sub").ok());
    if (sync_it) {
      ASSERT_TRUE(tmp->Sync().ok());
    }
    SyncDirectory();
  };
  EXPECT_EQ(StatesAfter([&] { work(false); }),
            (States{"sub/", "sub/ sub/f=x"}));
  EXPECT_EQ(StatesAfter([&] { work(true); }), (States{"sub/ sub/f=x"}));
  const auto unsafe = [&] {
    ASSERT_TRUE(env_->CreateDirIfMissing("/d/tmp").ok());
    Write("/d/tmp/f", "x", true);
    ASSERT_TRUE(env_->RenameFile("/d/tmp", "/d/sub").ok());
  };
  EXPECT_EQ(StatesAfter(unsafe),
            (States{"", "tmp/", "tmp/ tmp/f=x", "sub/", "sub/ sub/f=x"}));
}

TEST_F(FaultInjectionEnvTest, RemovedDirectoriesMayComeBack) {
  const auto work = [&] {
    ASSERT_TRUE(env_->CreateDirIfMissing("/d/sub").ok());
    Write("/d/sub/f", "x", true);
    std::unique_ptr<Directory> sub;
    ASSERT_TRUE(env_->NewDirectory("/d/sub", &sub).ok());
    ASSERT_TRUE(sub->Sync().ok());
    ASSERT_TRUE(env_->RemoveFile("/d/sub/f").ok());
    ASSERT_TRUE(env_->RemoveDir("/d/sub").ok());
  };
  EXPECT_EQ(StatesAfter(work), (States{"", "sub/", "sub/ sub/f=x"}));
}

// Pending changes of the directory that had the name before stay with it.
TEST_F(FaultInjectionEnvTest, ADirectoryMayTakeTheNameOfARemovedOne) {
  const auto work = [&] {
    ASSERT_TRUE(env_->CreateDirIfMissing("/d/old").ok());
    ASSERT_TRUE(env_->CreateDirIfMissing("/d/new").ok());
    Write("/d/new/f", "new", true);
    std::unique_ptr<Directory> sub;
    ASSERT_TRUE(env_->NewDirectory("/d/new", &sub).ok());
    ASSERT_TRUE(sub->Sync().ok());
    SyncDirectory();
    Write("/d/old/f", "old", true);
    ASSERT_TRUE(env_->RemoveFile("/d/old/f").ok());
    ASSERT_TRUE(env_->RemoveDir("/d/old").ok());
    ASSERT_TRUE(env_->RenameFile("/d/new", "/d/old").ok());
  };
  EXPECT_EQ(StatesAfter(work),
            (States{"new/ new/f=new old/", "new/ new/f=new old/ old/f=old",
                    "new/ new/f=new", "old/ old/f=new"}));
}

TEST_F(FaultInjectionEnvTest, WithoutLuckOnlySyncedThingsSurvive) {
  WriteSafely("/d/f", "abc");
  Write("/d/g", "x", true);
  ASSERT_TRUE(env_->RemoveFile("/d/f").ok());
  directory_.reset();
  ASSERT_TRUE(env_->CrashAndReset({.lose_everything_unsynced = true}).ok());
  EXPECT_EQ(List(memory_.get(), "/d"), "f=abc");
}

TEST_F(FaultInjectionEnvTest, TearsOnlyUnsyncedSectors) {
  const std::string synced(700, 's');
  const std::string tail(5000, 't');
  bool torn = false;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    StartAgain();
    auto file = NewFile("/d/f");
    ASSERT_TRUE(file->Append(synced).ok());
    ASSERT_TRUE(file->Sync().ok());
    SyncDirectory();
    ASSERT_TRUE(file->Append(tail).ok());
    ASSERT_TRUE(file->Close().ok());
    ASSERT_TRUE(env_->CrashAndReset({.seed = seed}).ok());
    std::string data;
    ASSERT_TRUE(ReadFileToString(memory_.get(), "/d/f", &data).ok());
    ASSERT_GE(data.size(), synced.size());
    ASSERT_LE(data.size(), synced.size() + tail.size());
    ASSERT_TRUE(data.starts_with(synced));
    torn |= data.find_first_not_of('t', synced.size()) != std::string::npos;
  }
  EXPECT_TRUE(torn);
}

TEST_F(FaultInjectionEnvTest, ARetriedSyncFalselySucceeds) {
  const auto work = [&] {
    auto file = NewFile("/d/f");
    SyncDirectory();
    ASSERT_TRUE(file->Append("x").ok());
    env_->FailAfter(0, FaultInjectionEnv::InjectedError(), kSyncOperation);
    EXPECT_TRUE(file->Sync().IsIOError());
    EXPECT_TRUE(file->Sync().ok());
  };
  EXPECT_EQ(StatesAfter(work), (States{"f=", "f=x"}));
}

TEST_F(FaultInjectionEnvTest, AnInactiveFileSystemOnlyReads) {
  WriteSafely("/d/f", "abc");
  auto file = NewFile("/d/g");
  std::shared_ptr<Logger> logger;
  ASSERT_TRUE(env_->NewLogger("/d/LOG", &logger).ok());
  env_->SetFilesystemActive(false);
  Log(LogLevel::kInfo, logger.get(), "not written");
  EXPECT_TRUE(file->Append("x").IsIOError());
  EXPECT_TRUE(file->Flush().IsIOError());
  EXPECT_TRUE(file->Sync().IsIOError());
  EXPECT_TRUE(file->Close().IsIOError());
  EXPECT_TRUE(directory_->Sync().IsIOError());
  EXPECT_TRUE(env_->RemoveFile("/d/f").IsIOError());
  EXPECT_TRUE(env_->RenameFile("/d/f", "/d/h").IsIOError());
  EXPECT_TRUE(env_->LinkFile("/d/f", "/d/h").IsIOError());
  EXPECT_TRUE(env_->Truncate("/d/f", 0).IsIOError());
  EXPECT_TRUE(env_->CreateDirIfMissing("/d/sub").IsIOError());
  EXPECT_TRUE(env_->RemoveDir("/d").IsIOError());
  std::unique_ptr<WritableFile> refused;
  std::unique_ptr<FileLock> lock;
  EXPECT_TRUE(
      env_->NewWritableFile("/d/h", FileOptions(), &refused).IsIOError());
  EXPECT_TRUE(env_->LockFile("/d/LOCK", &lock).IsIOError());
  EXPECT_EQ(List(env_.get(), "/d"), "LOG= f=abc g=");
  env_->SetFilesystemActive(true);
  EXPECT_TRUE(env_->RemoveFile("/d/f").ok());
}

TEST_F(FaultInjectionEnvTest, HandlesFromBeforeTheCrashAreDead) {
  auto file = NewFile("/d/f");
  std::unique_ptr<RandomAccessFile> reader;
  ASSERT_TRUE(env_->NewRandomAccessFile("/d/f", FileOptions(), &reader).ok());
  std::shared_ptr<Logger> logger;
  ASSERT_TRUE(env_->NewLogger("/d/LOG", &logger).ok());
  ASSERT_TRUE(env_->CrashAndReset({.drop_directory_entries = false}).ok());
  char scratch[1];
  Slice result;
  EXPECT_TRUE(file->Append("x").IsIOError());
  EXPECT_TRUE(file->Sync().IsIOError());
  EXPECT_TRUE(reader->Read(0, 1, &result, scratch).IsIOError());
  EXPECT_TRUE(directory_->Sync().IsIOError());
  Log(LogLevel::kInfo, logger.get(), "not written");
  EXPECT_EQ(List(memory_.get(), "/d"), "LOG= f=");
}

TEST_F(FaultInjectionEnvTest, FailsTheOperationThatWasPlanned) {
  const Status error = Status::FromErrno("device", ENOSPC);
  auto file = NewFile("/d/f");
  env_->FailAfter(1, error, kWriteOperation | kRenameOperation);
  EXPECT_TRUE(file->Append("a").ok());
  EXPECT_TRUE(env_->FileExists("/d/f").ok());  // Not of the kinds.
  const Status failure = env_->RenameFile("/d/f", "/d/g");
  EXPECT_TRUE(failure.IsNoSpace());
  EXPECT_NE(failure.ToString().find("/d/f"), std::string::npos);
  EXPECT_EQ(env_->FailureCount(), 1u);
  EXPECT_TRUE(env_->RenameFile("/d/f", "/d/g").ok());  // Once.

  env_->FailAfter(0, error, kWriteOperation, {.once = false});
  EXPECT_FALSE(file->Append("b").ok());
  EXPECT_FALSE(file->Flush().ok());
  env_->ClearFailure();
  EXPECT_TRUE(file->Append("c").ok());
  ASSERT_TRUE(file->Close().ok());
  EXPECT_EQ(List(memory_.get(), "/d"), "g=ac");
}

TEST_F(FaultInjectionEnvTest, AFailedAppendMayLeaveHalf) {
  auto file = NewFile("/d/f");
  env_->FailAfter(0, FaultInjectionEnv::InjectedError(), kWriteOperation,
                  {.partial_append = true});
  EXPECT_TRUE(file->Append("abcdef").IsIOError());
  ASSERT_TRUE(file->Close().ok());
  EXPECT_EQ(List(memory_.get(), "/d"), "f=abc");
}

TEST_F(FaultInjectionEnvTest, AFailedRequestLeavesItsNeighboursAlone) {
  WriteSafely("/d/f", "0123456789");
  std::unique_ptr<RandomAccessFile> file;
  ASSERT_TRUE(env_->NewRandomAccessFile("/d/f", FileOptions(), &file).ok());
  char scratch[3];
  ReadRequest requests[3];
  for (size_t i = 0; i < 3; ++i) {
    requests[i].offset = i;
    requests[i].length = 1;
    requests[i].scratch = &scratch[i];
  }
  env_->FailAfter(1, FaultInjectionEnv::InjectedError(), kReadOperation);
  file->MultiRead(requests, 3);
  EXPECT_EQ(requests[0].result.ToString(), "0");
  EXPECT_TRUE(requests[1].status.IsIOError());
  EXPECT_EQ(requests[2].result.ToString(), "2");
}

TEST_F(FaultInjectionEnvTest, CountsByKindAndPath) {
  const auto sync_count = env_->OperationCount(kSyncOperation);
  Write("/d/f", "x", true);
  EXPECT_EQ(env_->OperationCount(kSyncOperation), sync_count + 1);
  env_->SetPathFilter("MANIFEST");
  const auto count = env_->OperationCount();
  Write("/d/f", "x", true);
  EXPECT_EQ(env_->OperationCount(), count);
  ASSERT_TRUE(env_->RenameFile("/d/f", "/d/MANIFEST-1").ok());
  EXPECT_EQ(env_->OperationCount(), count + 1);
  env_->FailAfter(0, FaultInjectionEnv::InjectedError(), kAllOperations);
  Write("/d/f", "x", true);
  EXPECT_TRUE(env_->RemoveFile("/d/MANIFEST-1").IsIOError());
}

TEST_F(FaultInjectionEnvTest, TheSameSeedLeavesTheSameFiles) {
  std::set<std::string> different;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::string first;
    for (int round = 0; round < 2; ++round) {
      StartAgain();
      for (int i = 0; i < 5; ++i) {
        Write("/d/" + std::to_string(i), std::string(2000, 'x'), false);
      }
      ASSERT_TRUE(env_->CrashAndReset({.seed = seed}).ok());
      const std::string state = List(memory_.get(), "/d");
      if (round == 0) first = state;
      EXPECT_EQ(state, first);
    }
    different.insert(first);
  }
  EXPECT_GT(different.size(), 10u);
}

TEST_F(FaultInjectionEnvTest, WorksOnRealFiles) {
  test::TempDir on_disk;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    FaultInjectionEnv env(Env::Default());
    const std::string root = on_disk.path() + "/" + std::to_string(seed);
    ASSERT_TRUE(env.CreateDirIfMissing(root).ok());
    std::unique_ptr<Directory> directory;
    ASSERT_TRUE(env.NewDirectory(root, &directory).ok());
    ASSERT_TRUE(WriteStringToFile(&env, "1", root + "/safe", true).ok());
    ASSERT_TRUE(directory->Sync().ok());
    ASSERT_TRUE(WriteStringToFile(&env, "2", root + "/tmp", true).ok());
    ASSERT_TRUE(env.RenameFile(root + "/tmp", root + "/safe").ok());
    ASSERT_TRUE(env.CrashAndReset({.seed = seed}).ok());
    const std::string state = List(Env::Default(), root);
    EXPECT_TRUE(state == "safe=1" || state == "safe=2" ||
                state == "safe=1 tmp=2" || state == "tmp=2 safe=1")
        << state;
  }
}

// The state that must survive a crash: names made durable by a sync of the
// directory and not changed since, with bytes that were synced and not
// truncated since.
class RandomWorkload {
 public:
  RandomWorkload(FaultInjectionEnv* env, uint64_t seed)
      : env_(env), random_(seed) {
    EXPECT_TRUE(env_->NewDirectory("/d", &directory_).ok());
  }

  void Step() {
    const std::string a = RandomPath();
    const std::string b = RandomPath();
    switch (random_.Uniform(8)) {
      case 0:
      case 1:
      case 2: {
        const std::string data(random_.Uniform(3000), NextLetter());
        const bool sync = random_.OneIn(2);
        ASSERT_TRUE(WriteStringToFile(env_, data, a, sync).ok());
        current_[a] = {data, sync};
        safe_.erase(a);  // The name may lead to the old file.
        break;
      }
      case 3:
      case 4:
        if (a == b || !current_.contains(a)) break;
        ASSERT_TRUE(env_->RenameFile(a, b).ok());
        current_[b] = current_[a];
        current_.erase(a);
        safe_.erase(a);
        safe_.erase(b);
        break;
      case 5:
        if (!current_.contains(a)) break;
        ASSERT_TRUE(env_->RemoveFile(a).ok());
        current_.erase(a);
        safe_.erase(a);
        break;
      default:
        ASSERT_TRUE(directory_->Sync().ok());
        safe_.clear();
        for (const auto& [path, file] : current_) {
          if (file.synced) safe_[path] = file.data;
        }
    }
  }

  const std::map<std::string, std::string>& safe() const { return safe_; }

 private:
  struct File {
    std::string data;
    bool synced = false;
  };

  std::string RandomPath() {
    return std::string("/d/") + static_cast<char>('a' + random_.Uniform(6));
  }
  char NextLetter() { return static_cast<char>('A' + random_.Uniform(26)); }

  FaultInjectionEnv* const env_;
  Random random_;
  std::unique_ptr<Directory> directory_;
  std::map<std::string, File> current_;
  std::map<std::string, std::string> safe_;
};

TEST_F(FaultInjectionEnvTest, RandomWorkloadsLoseNothingSafe) {
  const uint64_t first_seed = test::TestSeed();
  for (uint64_t seed = first_seed; seed < first_seed + 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    StartAgain();
    RandomWorkload workload(env_.get(), seed);
    for (int i = 0; i < 40; ++i) workload.Step();
    ASSERT_TRUE(Ok(env_->CrashAndReset({.seed = seed})));
    for (const auto& [path, expected] : workload.safe()) {
      std::string data;
      ASSERT_TRUE(Ok(ReadFileToString(memory_.get(), path, &data)));
      ASSERT_EQ(data, expected) << path;
    }
  }
}

}  // namespace
}  // namespace varve
