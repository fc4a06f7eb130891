// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a change of several families that cannot be applied leaves nothing
// behind, and an edit that no MANIFEST may have is not written to one. Method:
// two families and edits of both, the second of which removes a table that is
// not there; and a table of bad edits, after each of which the MANIFEST is as
// before, and is read.

#include "db/version/version_set.h"

#include "db/version/manifest_reader.h"
#include "env/file_names.h"
#include "table/reader/table_cache.h"
#include "test/testing/db/test_db_mutex.h"
#include "test/testing/db_helpers.h"
#include "test/testing/env/forwarding_file.h"
#include "test/testing/test_headers.h"
#include "util/bytes/coding.h"
#include "varve/comparator.h"

namespace varve::test {
namespace {

TEST(VersionSetTest, AChangeThatCannotBeAppliedLeavesNoManifestToRemove) {
  const auto env = NewMemoryEnv(Env::Default());
  ASSERT_TRUE(Ok(env->CreateDirIfMissing("/db")));
  std::unique_ptr<Directory> directory;
  ASSERT_TRUE(Ok(env->NewDirectory("/db", &directory)));
  const InternalKeyComparator comparator(BytewiseComparator());
  TableCache caches[] = {
      {"/db", env.get(), FileOptions(), TableReaderOptions(), 10},
      {"/db", env.get(), FileOptions(), TableReaderOptions(), 10}};
  FamilyVersions first("default", &comparator, &caches[0], true);
  FamilyVersions second("second", &comparator, &caches[1], true);
  LoneDbMutex mutex;
  VersionSet versions("/db", env.get(), mutex.lockable());
  MutexLock lock(mutex.lockable());
  ManifestState state;
  versions.Initialize(&state, directory.get());
  versions.AddFamilyLocked(&first, &state.default_family());
  FamilyManifest other;
  other.id = 1;
  versions.AddFamilyLocked(&second, &other);

  VersionEdit fits;
  VersionEdit fails;
  fails.RemoveFile(0, 7);
  const VersionSet::FamilyEdit edits[] = {{&first, &fits}, {&second, &fails}};
  EXPECT_TRUE(versions.LogAndApply(edits).IsCorruption());
  // It was not created.
  EXPECT_TRUE(versions.obsolete_manifests()->empty());
  std::vector<std::string> names;
  ASSERT_TRUE(Ok(env->GetChildren("/db", &names)));
  EXPECT_TRUE(names.empty());
}

// An Env whose device may have no space for what is reserved.
class FullDeviceEnv final : public EnvWrapper {
 public:
  using EnvWrapper::EnvWrapper;
  Status NewWritableFile(const std::string& path, const FileOptions& options,
                         std::unique_ptr<WritableFile>* file) override {
    Status status = target()->NewWritableFile(path, options, file);
    if (status.ok()) *file = std::make_unique<File>(this, std::move(*file));
    return status;
  }

  bool is_full = false;

 private:
  class File final : public ForwardingFile {
   public:
    File(const FullDeviceEnv* env, std::unique_ptr<WritableFile> target)
        : ForwardingFile(std::move(target)), env_(env) {}
    Status Reserve(uint64_t /*offset*/, uint64_t /*length*/) override {
      return env_->is_full ? Status::FromErrno("reserve", ENOSPC)
                           : Status::OK();
    }

   private:
    const FullDeviceEnv* const env_;
  };
};

// Two families, of which the second has a table.
class BadEditsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(Ok(env_->CreateDirIfMissing("/db")));
    ASSERT_TRUE(Ok(env_->NewDirectory("/db", &directory_)));
    MutexLock lock(mutex_.lockable());
    ManifestState state;
    versions_.Initialize(&state, directory_.get());
    versions_.AddFamilyLocked(&first_, &state.default_family());
    VersionEdit edit;
    edit.SetLogNumber(1);
    ASSERT_TRUE(Ok(versions_.LogAndApply(&first_, &edit)));
    ASSERT_TRUE(Ok(versions_.CreateFamiliesLocked(Families{&second_}, 1)));
    VersionEdit add;
    add.AddFile(1, File(kTable, "b", "d"));
    ASSERT_TRUE(Ok(versions_.LogAndApply(&second_, &add)));
  }

  static FileMetaData File(uint64_t number, const std::string& smallest,
                           const std::string& largest) {
    FileMetaData file;
    file.number = number;
    file.file_size = 100;
    file.smallest = InternalKey(smallest, 5);
    file.largest = InternalKey(largest, 5);
    file.smallest_sequence = file.largest_sequence = 5;
    return file;
  }
  static std::string InternalKey(const std::string& key, uint64_t sequence) {
    std::string encoded = key;
    PutFixed64(&encoded, sequence << 8 | 1);
    return encoded;
  }

  std::string Manifest() {
    std::string bytes;
    EXPECT_TRUE(Ok(ReadFileToString(
        env_.get(), ManifestFileName("/db", versions_.manifest_number()),
        &bytes)));
    return bytes;
  }
  // The group is refused, no file changes, and the next edit is written.
  void ExpectRefused(std::vector<VersionSet::FamilyEdit> group,
                     const char* what) {
    MutexLock lock(mutex_.lockable());
    const std::string before = Manifest();
    const Status status = versions_.LogAndApply(group);
    EXPECT_FALSE(status.ok()) << what;
    EXPECT_EQ(Manifest(), before) << what;
    VersionEdit good;
    good.AddFile(0, File(versions_.NewFileNumber(), "a", "z"));
    EXPECT_TRUE(Ok(versions_.LogAndApply(&first_, &good))) << what;
    ManifestState state;
    EXPECT_TRUE(Ok(
        ReadManifest(env_.get(), "/db", ForAllFamilies(&comparator_), &state)))
        << what << " " << status.ToString();
    EXPECT_EQ(state.families.size(), 2u) << what;
  }
  void ExpectRefused(FamilyVersions* family,
                     const std::function<void(VersionEdit*)>& make,
                     const char* what) {
    VersionEdit edit;
    make(&edit);
    ExpectRefused({{family, &edit}}, what);
  }

  using Families = std::vector<FamilyVersions*>;
  static constexpr uint64_t kTable = 20;

  const std::unique_ptr<Env> memory_ = NewMemoryEnv(Env::Default());
  const std::unique_ptr<FullDeviceEnv> env_ =
      std::make_unique<FullDeviceEnv>(memory_.get());
  std::unique_ptr<Directory> directory_;
  const InternalKeyComparator comparator_{BytewiseComparator()};
  const InternalKeyComparator reverse_{ReverseBytewiseComparator()};
  TableCache caches_[4] = {
      {"/db", env_.get(), FileOptions(), TableReaderOptions(), 10},
      {"/db", env_.get(), FileOptions(), TableReaderOptions(), 10},
      {"/db", env_.get(), FileOptions(), TableReaderOptions(), 10},
      {"/db", env_.get(), FileOptions(), TableReaderOptions(), 10}};
  FamilyVersions first_{"default", &comparator_, &caches_[0], true};
  FamilyVersions second_{"second", &comparator_, &caches_[1], true};
  LoneDbMutex mutex_;
  VersionSet versions_{"/db", env_.get(), mutex_.lockable()};
};

TEST_F(BadEditsTest, OfTablesAreNotWritten) {
  const auto adds = [this](int level, FileMetaData file, const char* what) {
    ExpectRefused(
        &second_, [&](VersionEdit* edit) { edit->AddFile(level, file); }, what);
  };
  adds(1, File(kTable, "e", "f"), "a table twice in a level");
  adds(2, File(kTable, "e", "f"), "a table in two levels");
  adds(1, File(21, "c", "e"), "tables of a level that overlap");
  adds(1, File(21, "f", "e"), "a table that ends before it begins");
  adds(kNumLevels, File(21, "e", "f"), "a level that Varve has not");
  adds(1000, File(21, "e", "f"), "a level that none has");
  adds(-1, File(21, "e", "f"), "a level below 0");
  adds(1, File(kMaxFileNumber + 1, "e", "f"), "a number that is too large");
  FileMetaData file = File(21, "e", "f");
  file.smallest = "e";
  adds(1, file, "a key without a sequence number");
  file = File(21, "e", "f");
  file.file_size = UINT64_MAX;
  adds(1, file, "a size that no file has");
  file = File(21, "e", "f");
  file.largest_sequence = kMaxSequenceNumber + 1;
  adds(1, file, "a sequence number that is too large");
  file = File(21, "e", "f");
  file.other_fields = std::string("\x63\1?", 3);
  adds(1, file, "a field that must be understood");
  for (const auto& [level, number] :
       {std::pair<int, uint64_t>{1, 21}, {2, kTable}, {kNumLevels, kTable}}) {
    ExpectRefused(
        &second_, [&](VersionEdit* edit) { edit->RemoveFile(level, number); },
        "a table is removed from where it is not");
  }
  ExpectRefused(
      &first_,
      [](VersionEdit* edit) { edit->AddFile(1, File(kTable, "b", "d")); },
      "a table of another family");
  VersionEdit one;
  one.AddFile(2, File(22, "b", "d"));
  VersionEdit other = one;
  ExpectRefused({{&first_, &one}, {&second_, &other}},
                "a table that two families get");
}

TEST_F(BadEditsTest, OfFamiliesAreNotWritten) {
  ExpectRefused(
      &first_, [](VersionEdit* edit) { edit->DropColumnFamily(); },
      "the default family is dropped");
  for (FamilyVersions* const family : {&first_, &second_}) {
    ExpectRefused(
        family, [](VersionEdit* edit) { edit->AddColumnFamily("third"); },
        "an id is added twice");
  }
  ExpectRefused(
      &second_, [](VersionEdit* edit) { edit->SetComparatorName("other"); },
      "another comparator");
  ExpectRefused(
      &second_,
      [](VersionEdit* edit) {
        edit->SetMaxColumnFamily(kMaxColumnFamilyId + 1);
      },
      "an id that no family can have");
  ExpectRefused(
      &second_,
      [](VersionEdit* edit) { edit->SetLogNumber(kMaxFileNumber + 1); },
      "a log number that none can have");

  // Of another VersionSet, with an id of this one and with another id.
  FamilyVersions foreign("second", &comparator_, &caches_[2], true);
  FamilyVersions unknown("third", &comparator_, &caches_[3], true);
  {
    LoneDbMutex mutex;
    VersionSet other("/other", env_.get(), mutex.lockable());
    {
      MutexLock lock(mutex.lockable());
      ManifestState state;
      other.Initialize(&state, directory_.get());
      FamilyManifest manifest;
      manifest.id = second_.id();
      other.AddFamilyLocked(&foreign, &manifest);
      manifest.id = 7;
      other.AddFamilyLocked(&unknown, &manifest);
    }
    for (FamilyVersions* const family : {&foreign, &unknown}) {
      ExpectRefused(
          family, [](VersionEdit* edit) { edit->SetLogNumber(3); },
          "a family of another database");
      MutexLock here(mutex_.lockable());
      const std::string before = Manifest();
      EXPECT_TRUE(versions_.DropFamiliesLocked({&family, 1}).IsCorruption());
      EXPECT_EQ(Manifest(), before);
      EXPECT_FALSE(family->is_dropped());
    }
  }
  VersionEdit drop;
  drop.DropColumnFamily();
  VersionEdit after;
  after.SetLogNumber(3);
  ExpectRefused({{&second_, &drop}, {&second_, &after}},
                "an edit of a family after its drop");
}

// The second edit of a group is refused, and the first is in the MANIFEST.
TEST_F(BadEditsTest, AGroupWithoutSpaceForAllIsInDoubt) {
  MutexLock lock(mutex_.lockable());
  const uint64_t manifest = versions_.manifest_number();
  VersionEdit fits;
  fits.AddFile(0, File(40, "a", "c"));
  VersionEdit does_not_fit;
  does_not_fit.AddFile(0, File(41, "a", std::string(64 << 10, 'k')));
  env_->is_full = true;
  const Status status =
      versions_.LogAndApply(std::vector<VersionSet::FamilyEdit>{
          {&first_, &fits}, {&second_, &does_not_fit}});
  EXPECT_TRUE(IsNoSpace(status));
  env_->is_full = false;
  EXPECT_TRUE(versions_.obsolete_manifests()->empty());
  VersionEdit next;
  next.AddFile(0, File(42, "d", "e"));
  ASSERT_TRUE(Ok(versions_.LogAndApply(&first_, &next)));
  EXPECT_NE(versions_.manifest_number(), manifest);
  ManifestState state;
  ASSERT_TRUE(Ok(
      ReadManifest(env_.get(), "/db", ForAllFamilies(&comparator_), &state)));
  const auto& tables = state.default_family().levels[0];
  ASSERT_EQ(tables.size(), 1u);
  EXPECT_EQ(tables[0]->number, 42u);
}

TEST_F(BadEditsTest, AFamilyOfAUsedNameIsNotCreated) {
  FamilyVersions third("second", &comparator_, &caches_[2], true);
  MutexLock lock(mutex_.lockable());
  const std::string before = Manifest();
  EXPECT_TRUE(
      versions_.CreateFamiliesLocked(Families{&third}, 1).IsCorruption());
  EXPECT_EQ(Manifest(), before);
  versions_.RemoveFamilyLocked(&third);
  // Once the name is free, another comparator may have it.
  ASSERT_TRUE(Ok(versions_.DropFamiliesLocked(Families{&second_})));
  FamilyVersions again("second", &reverse_, &caches_[3], true);
  ASSERT_TRUE(Ok(versions_.CreateFamiliesLocked(Families{&again}, 1)));
  ManifestState state;
  EXPECT_TRUE(Ok(ReadManifest(
      env_.get(), "/db",
      [this](const std::string& name) {
        return name == "second" ? &reverse_ : &comparator_;
      },
      &state)));
  versions_.RemoveFamilyLocked(&again);
  versions_.RemoveFamilyLocked(&second_);
}

}  // namespace
}  // namespace varve::test
