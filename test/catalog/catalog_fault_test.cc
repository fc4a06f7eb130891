// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: whichever operation of the file system fails, and if the power is cut
// then, a database whose creation was acknowledged is there, with what was
// synced in it, one whose removal was acknowledged is not, and every one that
// is there can be opened. Method: a sequence of calls in which each operation
// fails once, or all from it on, followed by a power cut.

#include "test/testing/db_helpers.h"
#include "test/testing/test_headers.h"
#include "test/testing/threads/actor.h"
#include "util/base/mutex.h"
#include "varve/catalog.h"
#include "varve/testing/fault_injection_env.h"

namespace varve::test {
namespace {

constexpr char kRoot[] = "/catalog";

CatalogOptions CatalogOptionsFor(Env* env) {
  CatalogOptions options;
  options.options = TinyOptions();
  options.options.env = env;
  options.create_if_missing = true;
  options.drop_timeout_us = 0;
  return options;
}

// A catalog in a file system of its own, and what must be true of it.
class FaultyCatalog {
 public:
  FaultyCatalog()
      : memory_(NewMemoryEnv(Env::Default())), faulty_(memory_.get()) {
    options_ = CatalogOptionsFor(&faulty_);
  }

  // How many operations there are without a fault.
  uint64_t Count() {
    const uint64_t before = faulty_.OperationCount();
    RunAll();
    return faulty_.OperationCount() - before;
  }
  void RunWithFault(uint64_t operation, bool once) {
    faulty_.FailAfter(operation, FaultInjectionEnv::InjectedError(),
                      kAllOperations, {.once = once});
    RunAll();
    faulty_.ClearFailure();
    CutPower();
    if (!::testing::Test::HasFatalFailure()) ExpectAcknowledged();
  }

 private:
  void Create(const std::string& name) {
    if (catalog_->Create(name).ok()) {
      Settle(name, true);
    } else {
      unsure_.insert(name);
    }
  }
  void Drop(const std::string& name) {
    const Status status = catalog_->Drop(name);
    values_.erase(name);
    if (status.ok() || status.IsNotFound()) {
      Settle(name, false);
    } else {
      unsure_.insert(name);
    }
  }
  void Put(const std::string& name, const std::string& value) {
    DatabaseRef ref;
    WriteOptions sync{.sync = true};
    if (!catalog_->Find(name, &ref).ok()) return;
    values_[name].insert(value);
    if (ref->Put(sync, "key", value).ok()) values_[name] = {value};
  }
  void Settle(const std::string& name, bool there) {
    unsure_.erase(name);
    if (there) {
      there_.insert(name);
      values_[name] = {""};
    } else {
      there_.erase(name);
    }
  }

  void RunAll() {
    if (!Catalog::Open(options_, kRoot, &catalog_).ok()) return;
    Create("a");
    Create("b");
    Put("a", "1");
    catalog_->CloseIdle(0, nullptr).IgnoreError();
    Put("a", "2");
    Put("b", "3");
    Drop("b");
    Create("b");
    Create("c");
    Drop("c");
    Put("b", "4");
    catalog_->Close().IgnoreError();
  }

  void CutPower() {
    faulty_.SetFilesystemActive(false);
    catalog_.reset();
    ASSERT_TRUE(Ok(faulty_.CrashAndReset({.lose_everything_unsynced = true})));
  }

  void ExpectAcknowledged() {
    ASSERT_TRUE(Ok(Catalog::Open(options_, kRoot, &catalog_)));
    std::vector<std::string> names;
    catalog_->List(&names);
    const std::set<std::string> found(names.begin(), names.end());
    for (const char* name : {"a", "b", "c"}) {
      if (!unsure_.contains(name)) {
        EXPECT_EQ(found.contains(name), there_.contains(name)) << name;
      }
    }
    for (const std::string& name : names) {
      DatabaseRef ref;
      ASSERT_TRUE(Ok(catalog_->Find(name, &ref)));
      std::string value;
      const Status status = ref->Get({}, "key", &value);
      EXPECT_TRUE(status.ok() || status.IsNotFound()) << status.ToString();
      if (!unsure_.contains(name)) {
        EXPECT_TRUE(values_[name].contains(value)) << name << ": " << value;
      }
    }
    ASSERT_TRUE(Ok(catalog_->Close()));
    catalog_.reset();
  }

  std::unique_ptr<Env> memory_;
  FaultInjectionEnv faulty_;
  CatalogOptions options_;
  std::unique_ptr<Catalog> catalog_;
  std::set<std::string> there_;
  std::set<std::string> unsure_;
  // Possible values of "key" in a database; "" if it may be absent.
  std::map<std::string, std::set<std::string>> values_;
};

TEST(CatalogFaultTest, NoFaultLosesAcknowledgedWrites) {
  const uint64_t operations = FaultyCatalog().Count();
  EXPECT_GT(operations, 100u);
  for (const bool once : {true, false}) {
    for (uint64_t i = 0; i < operations; ++i) {
      SCOPED_TRACE("operation " + std::to_string(i) +
                   (once ? ", once" : ", and all that follow"));
      FaultyCatalog().RunWithFault(i, once);
      if (testing::Test::HasFailure()) return;
    }
  }
}

// Operations that are repeated after a failure.
class CatalogRepeatTest : public ::testing::Test {
 protected:
  CatalogRepeatTest()
      : memory_(NewMemoryEnv(Env::Default())), faulty_(memory_.get()) {
    options_ = CatalogOptionsFor(&faulty_);
  }
  void SetUp() override { Open(); }
  ~CatalogRepeatTest() override { catalog_.reset(); }

  void Open() {
    catalog_.reset();
    ASSERT_TRUE(Ok(Catalog::Open(options_, kRoot, &catalog_)));
  }
  void CutPowerAndOpen() {
    faulty_.SetFilesystemActive(false);
    catalog_.reset();
    ASSERT_TRUE(Ok(faulty_.CrashAndReset({.lose_everything_unsynced = true})));
    Open();
  }
  void Fail(OperationMask kinds, bool once) {
    faulty_.FailAfter(0, FaultInjectionEnv::InjectedError(), kinds,
                      {.once = once});
  }
  Status Find(const std::string& name) {
    DatabaseRef ref;
    return catalog_->Find(name, &ref);
  }
  size_t Listed() {
    std::vector<std::string> names;
    catalog_->List(&names);
    EXPECT_EQ(names.size(), catalog_->GetCounts().databases);
    return names.size();
  }

  std::unique_ptr<Env> memory_;
  FaultInjectionEnv faulty_;
  CatalogOptions options_;
  std::unique_ptr<Catalog> catalog_;
};

TEST_F(CatalogRepeatTest, ACreationWhoseCleanUpFailedLeavesNoDatabase) {
  for (const OperationMask kinds :
       {kCreateDirOperation | kLockOperation,
        kCreateOperation | kRenameOperation, kSyncOperation | kRenameOperation,
        kSyncOperation | kSyncDirectoryOperation}) {
    Fail(kinds, false);
    EXPECT_TRUE(catalog_->Create("a").IsIOError());
    EXPECT_TRUE(catalog_->Create("a").IsIOError());
    faulty_.ClearFailure();
    EXPECT_TRUE(Find("a").IsNotFound());
    EXPECT_EQ(Listed(), 0u);
    ASSERT_TRUE(Ok(catalog_->Create("a")));
    CutPowerAndOpen();
    EXPECT_TRUE(Ok(Find("a")));
    EXPECT_EQ(Listed(), 1u);
    ASSERT_TRUE(Ok(catalog_->Drop("a")));
  }
}

TEST_F(CatalogRepeatTest, ADropThatIsRepeatedIsSafe) {
  ASSERT_TRUE(Ok(catalog_->Create("a")));
  Fail(kSyncDirectoryOperation, true);
  ASSERT_TRUE(catalog_->Drop("a").IsIOError());
  EXPECT_TRUE(Find("a").IsNotFound());
  EXPECT_EQ(Listed(), 0u);
  ASSERT_TRUE(Ok(catalog_->Drop("a")));
  EXPECT_TRUE(catalog_->Drop("a").IsNotFound());
  CutPowerAndOpen();
  EXPECT_EQ(Listed(), 0u);
}

TEST_F(CatalogRepeatTest, OpeningMakesADropSafe) {
  ASSERT_TRUE(Ok(catalog_->Create("a")));
  Fail(kSyncDirectoryOperation, true);
  ASSERT_TRUE(catalog_->Drop("a").IsIOError());
  Open();
  EXPECT_TRUE(catalog_->Drop("a").IsNotFound());
  CutPowerAndOpen();
  EXPECT_EQ(Listed(), 0u);
}

// Even if it cannot look at what the Drop has left.
TEST_F(CatalogRepeatTest, OpeningThatCannotLookMakesADropSafe) {
  for (uint64_t n = 0; n < 12; ++n) {
    SCOPED_TRACE("reading operation " + std::to_string(n));
    ASSERT_TRUE(Ok(catalog_->Create("a")));
    Fail(kSyncDirectoryOperation, true);
    ASSERT_TRUE(catalog_->Drop("a").IsIOError());
    catalog_.reset();
    faulty_.FailAfter(n, FaultInjectionEnv::InjectedError(), kReadingOperations,
                      {});
    const bool opened = Catalog::Open(options_, kRoot, &catalog_).ok();
    faulty_.ClearFailure();
    if (!opened) Open();
    EXPECT_TRUE(catalog_->Drop("a").IsNotFound());
    CutPowerAndOpen();
    EXPECT_EQ(Listed(), 0u);
  }
}

// If two threads sync a directory, lets the first sync fail while the second
// one waits. If there is no second one for a while, lets the first fail alone.
class FailingMeeting final : public EnvWrapper {
 public:
  explicit FailingMeeting(FaultInjectionEnv* faulty)
      : EnvWrapper(faulty), faulty_(faulty) {}

  // From now on, in kRoot. The first one runs `begin_second`, which must not
  // wait for it.
  void Arm(std::function<void()> begin_second) {
    const MutexLock lock(&mutex_);
    begin_second_ = std::move(begin_second);
    syncs_ = 0;
  }

  Status NewDirectory(const std::string& path,
                      std::unique_ptr<Directory>* directory) override {
    Status status = target()->NewDirectory(path, directory);
    if (status.ok() && path == kRoot) {
      *directory = std::make_unique<Root>(this, std::move(*directory));
    }
    return status;
  }

 private:
  class Root final : public Directory {
   public:
    Root(FailingMeeting* meeting, std::unique_ptr<Directory> target)
        : meeting_(meeting), target_(std::move(target)) {}
    Status Sync() override { return meeting_->Sync(target_.get()); }

   private:
    FailingMeeting* const meeting_;
    const std::unique_ptr<Directory> target_;
  };

  Status Sync(Directory* directory) {
    {
      const MutexLock lock(&mutex_);
      const bool is_first = begin_second_ != nullptr && ++syncs_ == 1;
      changed_.SignalAll();
      if (is_first) {
        begin_second_();
        constexpr uint64_t kTimeoutUs = 50000;
        while (syncs_ == 1 && changed_.WaitFor(&mutex_, kTimeoutUs)) {
        }
        faulty_->FailAfter(0, FaultInjectionEnv::InjectedError(),
                           kSyncDirectoryOperation);
        Status status = directory->Sync();
        begin_second_ = nullptr;
        changed_.SignalAll();
        return status;
      }
      while (begin_second_ != nullptr) changed_.Wait(&mutex_);
    }
    return directory->Sync();
  }

  FaultInjectionEnv* const faulty_;
  Mutex mutex_;
  CondVar changed_;
  std::function<void()> begin_second_ VARVE_GUARDED_BY(mutex_);
  int syncs_ VARVE_GUARDED_BY(mutex_) = 0;
};

TEST_F(CatalogRepeatTest, AFailedSyncIsReportedToAllConcerned) {
  FailingMeeting meeting(&faulty_);
  catalog_.reset();
  options_.options.env = &meeting;
  Open();
  for (const bool creates : {false, true}) {
    SCOPED_TRACE(creates ? "Create" : "Drop");
    ASSERT_TRUE(Ok(catalog_->Create("first")));
    ASSERT_TRUE(Ok(catalog_->Create("second")));
    Actor actor;
    Status second;
    meeting.Arm(
        [&] { actor.Start([&] { second = catalog_->Drop("second"); }); });
    EXPECT_TRUE((creates ? catalog_->Create("third") : catalog_->Drop("first"))
                    .IsIOError());
    actor.Wait();
    CutPowerAndOpen();
    if (second.ok()) {
      EXPECT_TRUE(Find("second").IsNotFound());
    }
    for (const char* name : {"first", "second"}) {
      const Status status = catalog_->Drop(name);
      EXPECT_TRUE(status.ok() || status.IsNotFound()) << status.ToString();
    }
  }
  catalog_.reset();
}

// A process that ended between the making of a directory and its sync.
TEST_F(CatalogRepeatTest, TheNamesOfDirectoriesAreSyncedByTheNextOpen) {
  ASSERT_TRUE(Ok(memory_->CreateDirIfMissing(std::string(kRoot) + "/db-a")));
  Open();
  Fail(kSyncDirectoryOperation, true);
  const Status status = Find("a");
  EXPECT_TRUE(status.IsIOError());
  EXPECT_FALSE(Contains(status.message(), "db-a")) << status.ToString();
  EXPECT_TRUE(Ok(Find("a")));

  options_.create_if_missing = true;
  const std::string root = std::string(kRoot) + "2";
  ASSERT_TRUE(Ok(memory_->CreateDirIfMissing(root)));
  Fail(kSyncDirectoryOperation, true);
  std::unique_ptr<Catalog> other;
  EXPECT_TRUE(Catalog::Open(options_, root, &other).IsIOError());
  ASSERT_TRUE(Ok(Catalog::Open(options_, root, &other)));
}

TEST_F(CatalogRepeatTest, ACreationThatCannotLookTakesNoExistingDirectory) {
  std::unique_ptr<DB> db;
  const std::string path = std::string(kRoot) + "/db-a";
  ASSERT_TRUE(Ok(DB::Open(options_.options, path, &db)));
  ASSERT_TRUE(Ok(db->Put({}, "key", "value")));
  db.reset();
  Fail(kQueryOperation, true);
  EXPECT_TRUE(catalog_->Create("a").IsIOError());
  EXPECT_TRUE(Find("a").IsNotFound());
  EXPECT_TRUE(catalog_->Create("a").IsInvalidArgument());
  DatabaseRef ref;
  ASSERT_TRUE(Ok(catalog_->Find("a", &ref)));
  std::string value;
  EXPECT_TRUE(Ok(ref->Get({}, "key", &value)));
}

}  // namespace
}  // namespace varve::test
