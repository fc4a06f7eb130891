// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a change of several families that cannot be applied leaves nothing
// behind. Method: two families and edits of both, the second of which removes a
// table that is not there.

#include "db/version/version_set.h"

#include <memory>
#include <string>
#include <vector>

#include "table/reader/table_cache.h"
#include "test/testing/db_helpers.h"
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
  Mutex mutex;
  VersionSet versions("/db", env.get(), &mutex);
  MutexLock lock(&mutex);
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

}  // namespace
}  // namespace varve::test
