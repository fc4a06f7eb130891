// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: after a failure or a power cut at any step of an ingestion of several
// families, all of its files are there or none, no other update is lost or
// changed, and no file is left over. Method: fail each operation of a call in
// turn, on a file system in memory, with and without a power cut.

#include "test/testing/db/external_tables.h"
#include "test/testing/db_helpers.h"
#include "test/testing/test_headers.h"
#include "varve/external_files.h"
#include "varve/sst_file_reader.h"
#include "varve/testing/fault_injection_env.h"

namespace varve::test {
namespace {

constexpr OperationMask kChanges = kCreateOperation | kWriteOperation |
                                   kSyncOperation | kCloseOperation |
                                   kRenameOperation | kRemoveOperation |
                                   kLinkOperation | kSyncDirectoryOperation;

class IngestionCrashTest
    : public ::testing::TestWithParam<std::tuple<bool, bool>> {
 protected:
  IngestionCrashTest()
      : links_(std::get<0>(GetParam())),
        overlaps_(std::get<1>(GetParam())),
        memory_(NewMemoryEnv(Env::Default())) {}
  void TearDown() override { Close(); }

  void Open() {
    options_ = TinyOptions();
    options_.env = faulty_.get();
    options_.create_missing_column_families = true;
    std::vector<ColumnFamilyHandle*> handles;
    ASSERT_TRUE(
        Ok(DB::Open(options_, "/db",
                    {{kDefaultColumnFamilyName, options_}, {"other", options_}},
                    &handles, &db_)));
    handles_.assign(handles.begin(), handles.end());
  }
  void Close() {
    for (ColumnFamilyHandle* handle : handles_) delete handle;
    handles_.clear();
    db_.reset();
  }
  void Begin() {
    Close();
    memory_ = NewMemoryEnv(Env::Default());
    faulty_ = std::make_unique<FaultInjectionEnv>(memory_.get());
    ASSERT_TRUE(Ok(faulty_->CreateDirIfMissing("/out")));
    Open();
    ASSERT_TRUE(Ok(db_->Put({}, "m", "old")));
    ASSERT_TRUE(Ok(db_->Flush({})));
    ASSERT_TRUE(Ok(db_->Put({.sync = true}, handles_[1], "m", "old")));
    if (overlaps_) {
      ASSERT_TRUE(Ok(db_->Put({.sync = true}, "n", "old")));
    }
    WriteExternalTable(options_, "/out/1", "put l new, put m new, put o new");
    WriteExternalTable(options_, "/out/2", "put p new");
    WriteExternalTable(options_, "/out/3", "put l new, put n new");
    std::unique_ptr<Directory> directory;
    ASSERT_TRUE(Ok(faulty_->NewDirectory("/out", &directory)));
    ASSERT_TRUE(Ok(directory->Sync()));
  }
  Status Ingest() {
    IngestExternalFileOptions options;
    options.move_files = links_;
    return db_->IngestExternalFiles(
        {{handles_[0], {"/out/1", "/out/2"}, options},
         {handles_[1], {"/out/3"}, options}});
  }
  std::string Scan(int family) {
    std::string text;
    const auto it = db_->NewIterator({}, handles_[family]);
    for (it->SeekToFirst(); it->Valid(); it->Next()) {
      text += it->key().ToString() + "=" + it->value().ToString() + " ";
    }
    return it->status().ok() ? text : it->status().ToString();
  }
  std::string Before() {
    return (overlaps_ ? std::string("m=old n=old ") : "m=old ") + "| m=old ";
  }
  std::string After() {
    return (overlaps_ ? std::string("l=new m=new n=old o=new p=new ")
                      : "l=new m=new o=new p=new ") +
           "| l=new m=old n=new ";
  }
  std::string All() { return Scan(0) + "| " + Scan(1); }
  bool HasIngested(const std::string& directory) {
    std::vector<std::string> names;
    EXPECT_TRUE(Ok(faulty_->GetChildren(directory, &names)));
    return std::any_of(names.begin(), names.end(), [&](const auto& name) {
      SstFileReader reader(options_);
      std::string value;
      EXPECT_TRUE(Ok(reader.Open(directory + "/" + name)));
      return reader.Get({}, "l", &value).ok() ||
             reader.Get({}, "p", &value).ok();
    });
  }
  // Returns whether the directory has the tables that the families have, and
  // no ingested one in lost/, unless `may_keep`. Tables of interrupted flushes
  // may be there.
  ::testing::AssertionResult HasNoOtherFiles(bool may_keep = false) {
    uint64_t tables = 0;
    for (ColumnFamilyHandle* family : handles_) {
      for (int level = 0; level < 7; ++level) {
        uint64_t count = 0;
        db_->GetIntProperty(
            family, "varve.num-files-at-level" + std::to_string(level), &count);
        tables += count;
      }
    }
    std::vector<std::string> names;
    Status status = faulty_->GetChildren("/db", &names);
    if (!status.ok()) return Ok(status);
    uint64_t files = 0;
    for (const std::string& name : names) {
      if (name == "lost" && !may_keep && HasIngested("/db/lost")) {
        return ::testing::AssertionFailure() << "one is in lost/";
      }
      if (name.ends_with(".sst")) ++files;
    }
    if (files == tables) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure()
           << files << " files, " << tables << " tables";
  }

  const bool links_;
  const bool overlaps_;
  std::unique_ptr<Env> memory_;
  std::unique_ptr<FaultInjectionEnv> faulty_;
  Options options_;
  std::unique_ptr<DB> db_;
  std::vector<ColumnFamilyHandle*> handles_;
};

// Each operation fails once. The database stays usable, after Resume at most.
TEST_P(IngestionCrashTest, AFailureOfAnyOperation) {
  bool failed = true;
  for (uint64_t operation = 0; failed; ++operation) {
    Begin();
    if (HasFatalFailure()) return;
    faulty_->FailAfter(operation, FaultInjectionEnv::InjectedError(), kChanges);
    const Status status = Ingest();
    failed = faulty_->FailureCount() > 0;
    faulty_->ClearFailure();
    ASSERT_TRUE(Ok(db_->Resume())) << operation;
    // A failure after the edit is one of removing the other names.
    EXPECT_EQ(All(), status.ok() ? After() : Before()) << operation;
    ASSERT_TRUE(Ok(db_->Put({}, "z", "later"))) << operation;
    const std::string now = All();
    Close();
    Open();
    if (HasFatalFailure()) return;
    EXPECT_EQ(All(), now) << operation;
    ASSERT_TRUE(Ok(db_->WaitForCompact()));
    EXPECT_TRUE(HasNoOtherFiles()) << operation;
    if (!status.ok() && !links_) {
      EXPECT_TRUE(Ok(Ingest())) << operation;
    }
  }
}

TEST_P(IngestionCrashTest, APowerCutAtAnyOperation) {
  const uint64_t seed = 4711;
  int found = 0;
  bool failed = true;
  for (uint64_t operation = 0; failed; ++operation) {
    for (const bool loses_all : {true, false}) {
      Begin();
      if (HasFatalFailure()) return;
      faulty_->FailAfter(operation, FaultInjectionEnv::InjectedError(),
                         kChanges, {.once = false});
      const Status status = Ingest();
      failed = faulty_->FailureCount() > 0;
      faulty_->SetFilesystemActive(false);
      Close();
      CrashOptions crash;
      crash.seed = seed + operation;
      crash.lose_everything_unsynced = loses_all;
      ASSERT_TRUE(Ok(faulty_->CrashAndReset(crash)));
      Open();
      if (HasFatalFailure()) return;
      const std::string now = All();
      if (status.ok()) {
        EXPECT_EQ(now, After()) << operation;
      } else {
        EXPECT_TRUE(now == Before() || now == After())
            << operation << ": " << now;
      }
      if (now == After()) ++found;
      ASSERT_TRUE(Ok(db_->WaitForCompact()));
      // Beside a MANIFEST that ends within an edit, all unknown tables are
      // kept.
      EXPECT_TRUE(HasNoOtherFiles(/*may_keep=*/!loses_all)) << operation;
      // New updates are newer.
      ASSERT_TRUE(Ok(db_->Put({}, "m", "newest")));
      std::string value;
      EXPECT_TRUE(Ok(db_->Get({}, "m", &value)));
      EXPECT_EQ(value, "newest");
    }
  }
  EXPECT_GT(found, 0);
}

// A power cut cannot keep an ingestion and take writes from before it.
TEST_P(IngestionCrashTest, EarlierWritesAreDurable) {
  Begin();
  ASSERT_TRUE(Ok(db_->Put({}, "a", "unsynced")));
  // Nothing is flushed for it.
  ASSERT_TRUE(Ok(db_->IngestExternalFile({"/out/2"}, {.link_files = links_})));
  faulty_->SetFilesystemActive(false);
  Close();
  CrashOptions crash;
  crash.lose_everything_unsynced = true;
  ASSERT_TRUE(Ok(faulty_->CrashAndReset(crash)));
  Open();
  std::string value;
  EXPECT_TRUE(Ok(db_->Get({}, "a", &value)));
  EXPECT_TRUE(Ok(db_->Get({}, "p", &value)));
}

INSTANTIATE_TEST_SUITE_P(
    All, IngestionCrashTest,
    ::testing::Combine(::testing::Bool(), ::testing::Bool()),
    [](const auto& test) {
      return std::string(std::get<0>(test.param) ? "Moved" : "Copied") +
             (std::get<1>(test.param) ? "AfterAFlush" : "");
    });

}  // namespace
}  // namespace varve::test
