// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: whichever call of the operating system fails, or whenever the power
// does, no acknowledged batch is lost in any of its column families, and none
// is there in part. Method: a short script that creates and drops families
// between batches over several, with its n-th operation failing, for every n.

#include "test/testing/db_helpers.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "varve/column_family.h"
#include "varve/testing/fault_injection_env.h"

namespace varve::test {
namespace {

// The parameter is atomic_flush.
class DbFamiliesFaultTest : public ::testing::TestWithParam<bool> {
 protected:
  struct Batch {
    std::set<std::string> families;
    bool acknowledged = false;
  };

  ~DbFamiliesFaultTest() override { Release(); }

  void Release() {
    for (const auto& [name, handle] : handles_) delete handle;
    handles_.clear();
    db_.reset();
  }
  void Renew() {
    Release();
    faulty_.reset();
    memory_ = NewMemoryEnv(Env::Default());
    faulty_ = std::make_unique<FaultInjectionEnv>(memory_.get());
    EXPECT_TRUE(Ok(memory_->CreateDirIfMissing("/db")));
    options_ = TinyOptions();
    options_.env = faulty_.get();
    options_.create_missing_column_families = true;
    options_.atomic_flush = GetParam();
    batches_.clear();
    must_exist_ = {kDefaultColumnFamilyName};
    may_exist_ = {};
  }

  Status TryOpen(const std::vector<std::string>& names) {
    Release();
    std::vector<ColumnFamilyDescriptor> families;
    for (const std::string& name : names) families.emplace_back(name, options_);
    std::vector<ColumnFamilyHandle*> handles;
    Status s = DB::Open(options_, "/db/it", families, &handles, &db_);
    for (ColumnFamilyHandle* handle : handles) {
      handles_[handle->GetName()] = handle;
    }
    return s;
  }
  // Opens all families that there are.
  void OpenAll() {
    Release();
    std::vector<std::string> names = {kDefaultColumnFamilyName};
    const Status s = DB::ListColumnFamilies(options_, "/db/it", &names);
    // The database may not have come into being.
    if (!s.ok()) {
      ASSERT_EQ(must_exist_.size(), 1u) << s.ToString();
      names = {kDefaultColumnFamilyName};
    }
    for (const std::string& name : must_exist_) {
      ASSERT_EQ(std::count(names.begin(), names.end(), name), 1) << name;
    }
    for (const std::string& name : names) {
      ASSERT_EQ(must_exist_.count(name) + may_exist_.count(name), 1u) << name;
    }
    ASSERT_TRUE(Ok(TryOpen(names)));
  }

  static std::string KeyOf(size_t batch) {
    return Key(static_cast<int>(batch));
  }
  Status Write(bool sync) {
    Batch& added = batches_.emplace_back();
    WriteBatch batch;
    for (const auto& [name, handle] : handles_) {
      batch.Put(handle, KeyOf(batches_.size() - 1), name);
      added.families.insert(name);
    }
    Status s = db_->Write({.sync = sync}, &batch);
    added.acknowledged = s.ok();
    return s;
  }
  Status Create(const std::string& name) {
    ColumnFamilyHandle* handle = nullptr;
    Status s = db_->CreateColumnFamily(options_, name, &handle);
    EXPECT_EQ(handle != nullptr, s.ok());
    (s.ok() ? must_exist_ : may_exist_).insert(name);
    if (s.ok()) handles_[name] = handle;
    return s;
  }
  Status Drop(const std::string& name) {
    if (handles_.count(name) == 0) return Status::OK();
    Status s = db_->DropColumnFamily(handles_[name]);
    must_exist_.erase(name);
    if (!s.ok()) may_exist_.insert(name);
    delete handles_[name];
    handles_.erase(name);
    return s;
  }

  // Continues after errors, like a careless program. Returns the first error.
  Status RunScript(bool sync, bool resume) {
    const std::vector<std::string> names = {kDefaultColumnFamilyName, "a", "b"};
    may_exist_ = {"a", "b"};
    Status first = TryOpen(names);
    if (!first.ok()) return first;
    may_exist_ = {};
    must_exist_.insert(names.begin(), names.end());
    const auto note = [&](const Status& s) {
      if (first.ok()) first = s;
      if (!s.ok() && resume) db_->Resume().IgnoreError();  // Noted below.
    };
    note(Write(sync));
    note(Write(sync));
    note(db_->Flush({}, handles_["a"]));
    note(Write(sync));
    note(Create("c"));
    note(Write(sync));
    note(db_->Flush({}, handles_["b"]));
    note(Write(sync));
    note(Drop("b"));
    note(Write(sync));
    if (handles_.count("c") != 0) note(db_->Flush({}, handles_["c"]));
    note(db_->CompactRange({}, handles_["a"], nullptr, nullptr));
    note(Create("d"));
    note(Write(sync));
    std::vector<ColumnFamilyHandle*> all;
    for (const auto& [name, handle] : handles_) all.push_back(handle);
    note(db_->Flush({}, all));
    note(Drop("c"));
    note(Write(sync));
    note(db_->SyncWAL());
    if (resume) {
      faulty_->ClearFailure();
      EXPECT_TRUE(Ok(db_->Resume()));
      EXPECT_TRUE(Ok(Write(true)));
      ExpectBatches();
    }
    for (const auto& [name, handle] : handles_) delete handle;
    handles_.clear();
    const Status closed = db_->Close();
    if (first.ok()) first = closed;
    db_.reset();
    return first;
  }

  // Every acknowledged batch is there. Each batch is there in all of its
  // families or in none.
  void ExpectBatches() {
    for (size_t i = 0; i < batches_.size(); ++i) {
      std::string found;
      std::string missing;
      for (const std::string& name : batches_[i].families) {
        if (handles_.count(name) == 0) continue;
        std::string value;
        const Status s = db_->Get({}, handles_[name], KeyOf(i), &value);
        ASSERT_TRUE(s.ok() || s.IsNotFound()) << s.ToString();
        (s.ok() ? found : missing) += name + " ";
      }
      EXPECT_TRUE(missing.empty() ||
                  (found.empty() && !batches_[i].acknowledged))
          << "batch " << i << " is in " << found << "and not in " << missing
          << (batches_[i].acknowledged ? ", acknowledged" : "");
    }
  }

  void ExpectUsable() {
    for (const auto& [name, handle] : handles_) {
      ASSERT_TRUE(Ok(db_->Put({}, handle, "after", "all"))) << name;
      ASSERT_TRUE(Ok(db_->Flush({}, handle))) << name;
    }
    ASSERT_TRUE(Ok(db_->VerifyChecksum()));
  }

  // Runs the script with each of its operations failing in turn.
  void FailEach(const Status& error, FailureOptions failure, bool power_cut,
                bool resume = false, OperationMask kinds = kAllOperations) {
    Renew();
    ASSERT_TRUE(Ok(RunScript(power_cut, false)));
    const uint64_t operations = faulty_->OperationCount(kinds);
    ASSERT_GT(operations, 50u);
    uint64_t failed = 0;
    // Threads and timing may add a few.
    for (uint64_t n = 0; n < operations + 5; ++n) {
      SCOPED_TRACE("operation " + std::to_string(n) + " of " +
                   std::to_string(operations));
      Renew();
      faulty_->FailAfter(n, error, kinds, failure);
      if (!RunScript(power_cut, resume).ok()) ++failed;
      faulty_->ClearFailure();
      if (power_cut) {
        faulty_->SetFilesystemActive(false);
        Release();
        ASSERT_TRUE(
            Ok(faulty_->CrashAndReset({.lose_everything_unsynced = true})));
      }
      ASSERT_NO_FATAL_FAILURE(OpenAll());
      ExpectBatches();
      ExpectUsable();
      if (HasFailure()) return;
    }
    EXPECT_GT(failed, 50u);
    printf("%s: %" PRIu64 " operations, %" PRIu64 " runs met the error\n",
           error.ToString().c_str(), operations, failed);
  }

  std::unique_ptr<Env> memory_;
  std::unique_ptr<FaultInjectionEnv> faulty_;
  Options options_;
  std::unique_ptr<DB> db_;
  std::map<std::string, ColumnFamilyHandle*> handles_;
  std::vector<Batch> batches_;
  std::set<std::string> must_exist_;
  std::set<std::string> may_exist_;  // A call failed that would change that.
};

TEST_P(DbFamiliesFaultTest, AnySingleOperationMayFail) {
  FailEach(FaultInjectionEnv::InjectedError(), {}, false);
}

TEST_P(DbFamiliesFaultTest, AnySingleOperationMayFailBeforeAPowerCut) {
  FailEach(FaultInjectionEnv::InjectedError(), {}, true);
}

TEST_P(DbFamiliesFaultTest, AnySingleOperationMayFailBeforeAResume) {
  FailEach(FaultInjectionEnv::InjectedError(), {}, true, true,
           kAllOperations & ~kLockOperation);
}

TEST_P(DbFamiliesFaultTest, AnySingleOperationMayFindNoSpace) {
  FailEach(Status::FromErrno("test", ENOSPC), {.partial_append = true}, true);
}

TEST_P(DbFamiliesFaultTest, TheDeviceMayFillUpAnywhere) {
  FailEach(Status::FromErrno("test", ENOSPC),
           {.once = false, .partial_append = true}, true, false,
           kWriteOperation | kCreateOperation | kSyncOperation);
}

// Any part of the unsynced data may be lost. Only some batches are synced.
TEST_P(DbFamiliesFaultTest, ThePowerMayFailBetweenAnyTwoOperations) {
  const uint64_t seed = TestSeed();
  for (const bool sync : {false, true}) {
    Renew();
    ASSERT_TRUE(Ok(RunScript(sync, false)));
    const uint64_t operations = faulty_->OperationCount(kAllOperations);
    for (uint64_t n = 0; n < operations; ++n) {
      SCOPED_TRACE("before operation " + std::to_string(n) +
                   ", TEST_SEED=" + std::to_string(seed));
      Renew();
      faulty_->FailAfter(n, FaultInjectionEnv::InjectedError(), kAllOperations,
                         {.once = false});
      RunScript(sync, false).IgnoreError();  // It ends where the power does.
      faulty_->ClearFailure();
      faulty_->SetFilesystemActive(false);
      Release();
      CrashOptions crash;
      crash.seed = seed + n;
      crash.lose_everything_unsynced = n % 3 == 0;
      ASSERT_TRUE(Ok(faulty_->CrashAndReset(crash)));
      if (!sync) {
        for (Batch& batch : batches_) batch.acknowledged = false;
      }
      ASSERT_NO_FATAL_FAILURE(OpenAll());
      ExpectBatches();
      if (HasFailure()) return;
    }
  }
}

// The edits of an atomic group are in the MANIFEST one after the other. A power
// failure may damage one of them and not the next.
TEST_P(DbFamiliesFaultTest, ThePowerMayFailWithinAGroupOfEdits) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    Renew();
    std::vector<std::string> names = {kDefaultColumnFamilyName};
    for (int i = 0; i < 12; ++i) names.push_back("f" + std::to_string(i));
    may_exist_.insert(names.begin() + 1, names.end());
    ASSERT_TRUE(Ok(TryOpen(names)));
    must_exist_.insert(names.begin(), names.end());
    may_exist_.clear();
    ASSERT_TRUE(Ok(Write(true)));
    std::vector<ColumnFamilyHandle*> all;
    for (const auto& [name, handle] : handles_) all.push_back(handle);
    // The MANIFEST's records are written, and the power fails in its sync.
    faulty_->SetPathFilter("MANIFEST");
    faulty_->FailAfter(seed % 20, FaultInjectionEnv::InjectedError(),
                       kSyncOperation | kWriteOperation, {.once = false});
    db_->Flush({}, all).IgnoreError();  // It may succeed.
    faulty_->ClearFailure();
    faulty_->SetPathFilter("");
    faulty_->SetFilesystemActive(false);
    Release();
    ASSERT_TRUE(Ok(faulty_->CrashAndReset({.seed = seed})));
    ASSERT_NO_FATAL_FAILURE(OpenAll());
    ExpectBatches();
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(AtomicFlush, DbFamiliesFaultTest, ::testing::Bool());

}  // namespace
}  // namespace varve::test
