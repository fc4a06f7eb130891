// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: no MANIFEST makes the ids of column families run over, and no Open
// makes more families than a MANIFEST may have. Method: MANIFESTs of a few
// edits with the ids at the bound, and a recovery of too many families.

#include "db/recovery/recovery.h"
#include "db/version/manifest_reader.h"
#include "db/version/version_edit.h"
#include "env/file_names.h"
#include "test/testing/db/manifest_edits.h"
#include "test/testing/db_helpers.h"
#include "test/testing/test_headers.h"
#include "varve/column_family.h"
#include "varve/comparator.h"

namespace varve::test {
namespace {

// Reads a MANIFEST of the edits after one that begins it.
Status ReadAfterBegin(const std::vector<VersionEdit>& edits,
                      ManifestState* state) {
  static const InternalKeyComparator comparator(BytewiseComparator());
  const auto env = NewMemoryEnv(Env::Default());
  EXPECT_TRUE(Ok(env->CreateDirIfMissing("/db")));
  EXPECT_TRUE(Ok(
      WriteStringToFile(env.get(), "MANIFEST-000005\n", "/db/CURRENT", false)));
  VersionEdit begin;
  begin.SetComparatorName(BytewiseComparator()->Name());
  begin.SetLogNumber(4);
  begin.SetNextFileNumber(30);
  begin.SetLastSequence(9);
  std::vector<VersionEdit> all = {begin};
  all.insert(all.end(), edits.begin(), edits.end());
  WriteEdits(env.get(), "/db/MANIFEST-000005", all);
  return ReadManifest(env.get(), "/db", ForAllFamilies(&comparator), state);
}

VersionEdit LargestId(uint32_t id) {
  VersionEdit edit;
  edit.SetMaxColumnFamily(id);
  return edit;
}

VersionEdit CreationOf(uint32_t id) {
  VersionEdit edit;
  edit.SetColumnFamily(id);
  edit.AddColumnFamily("large");
  edit.SetComparatorName(BytewiseComparator()->Name());
  edit.SetLogNumber(4);
  return edit;
}

VersionEdit DropOf(uint32_t id) {
  VersionEdit edit;
  edit.SetColumnFamily(id);
  edit.DropColumnFamily();
  return edit;
}

TEST(FamilyBoundsTest, AnIdThatNoFamilyCanHaveIsRefused) {
  constexpr uint32_t kLast = kMaxColumnFamilyId;
  for (const std::vector<VersionEdit>& edits :
       {std::vector{LargestId(kLast)}, std::vector{CreationOf(kLast)},
        std::vector{CreationOf(kLast), DropOf(kLast)}}) {
    ManifestState state;
    ASSERT_TRUE(Ok(ReadAfterBegin(edits, &state)));
    EXPECT_EQ(state.max_column_family, kLast);
  }
  for (const uint32_t id : {kLast + 1, UINT32_MAX - 1, UINT32_MAX}) {
    for (const std::vector<VersionEdit>& edits :
         {std::vector{LargestId(id)}, std::vector{CreationOf(id)},
          std::vector{CreationOf(id), DropOf(id)}}) {
      ManifestState state;
      const Status status = ReadAfterBegin(edits, &state);
      EXPECT_TRUE(status.IsCorruption()) << id;
      EXPECT_TRUE(Contains(status.message(), "column family id")) << id;
    }
  }
}

// After the last id, the database still opens, and has what it had.
TEST(FamilyBoundsTest, NoFamilyIsCreatedAfterTheLastId) {
  const auto env = NewMemoryEnv(Env::Default());
  Options options = TinyOptions();
  options.env = env.get();
  std::unique_ptr<DB> db;
  ASSERT_TRUE(Ok(DB::Open(options, "/db", &db)));
  ASSERT_TRUE(Ok(db->Put({}, "key", "value")));
  ASSERT_TRUE(Ok(db->Close()));
  db.reset();

  std::string name;
  ASSERT_TRUE(Ok(ReadCurrentFile(env.get(), "/db", &name)));
  const std::string path = "/db/" + name;
  std::vector<VersionEdit> edits;
  ASSERT_NO_FATAL_FAILURE(ReadEdits(env.get(), path, &edits));
  ASSERT_FALSE(edits.empty());
  edits.back().SetMaxColumnFamily(kMaxColumnFamilyId - 1);
  WriteEdits(env.get(), path, edits);

  std::vector<ColumnFamilyDescriptor> families;
  families.emplace_back(kDefaultColumnFamilyName, options);
  std::vector<ColumnFamilyHandle*> handles;
  ASSERT_TRUE(Ok(DB::Open(options, "/db", families, &handles, &db)));
  ColumnFamilyHandle* last = nullptr;
  ASSERT_TRUE(Ok(db->CreateColumnFamily(options, "last", &last)));
  EXPECT_EQ(last->GetID(), kMaxColumnFamilyId);
  ColumnFamilyHandle* none = nullptr;
  EXPECT_TRUE(db->CreateColumnFamily(options, "none", &none).IsNotSupported());
  EXPECT_EQ(none, nullptr);
  delete last;
  for (ColumnFamilyHandle* const handle : handles) delete handle;
  handles.clear();
  db.reset();

  families.emplace_back("last", options);
  ASSERT_TRUE(Ok(DB::Open(options, "/db", families, &handles, &db)));
  std::string value;
  EXPECT_TRUE(Ok(db->Get({}, "key", &value)));
  EXPECT_EQ(value, "value");
  for (ColumnFamilyHandle* const handle : handles) delete handle;
}

TEST(FamilyBoundsTest, NoMoreFamiliesAreOpenedThanCanBeRead) {
  const auto env = NewMemoryEnv(Env::Default());
  Options options = TinyOptions();
  options.env = env.get();
  std::vector<RecoveryFamily> families(kMaxFamilies);
  {
    RecoveredState state;
    EXPECT_TRUE(
        Ok(Recovery(options, "/db", families, nullptr).ReadTables(&state)));
  }
  families.emplace_back();
  RecoveredState state;
  EXPECT_TRUE(Recovery(options, "/db", families, nullptr)
                  .ReadTables(&state)
                  .IsNotSupported());
}

}  // namespace
}  // namespace varve::test
