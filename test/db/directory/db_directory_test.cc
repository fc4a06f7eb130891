// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a database's directory is held by one, is left alone if it is not a
// database's, and keeps its identity. Method: directories in memory.

#include "db/directory/db_directory.h"

#include "env/file_names.h"
#include "test/testing/db_helpers.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

class DbDirectoryTest : public ::testing::Test {
 protected:
  const std::unique_ptr<Env> env_ = NewMemoryEnv(Env::Default());
};

TEST_F(DbDirectoryTest, IsHeldByOne) {
  DbDirectory place(env_.get(), "/db");
  EXPECT_EQ(place.path(), "/db");
  EXPECT_TRUE(Ok(place.Verify()));
  EXPECT_EQ(place.directory(), nullptr);
  ASSERT_TRUE(Ok(place.Open(false, true)));
  EXPECT_TRUE(Ok(place.Verify()));
  EXPECT_TRUE(Ok(place.directory()->Sync()));
  DbDirectory other(env_.get(), "/db");
  EXPECT_TRUE(other.Open(false, true).IsBusy());
  ASSERT_TRUE(Ok(place.Unlock()));
  EXPECT_TRUE(Ok(place.Unlock())) << "there is none any more";
  EXPECT_TRUE(Ok(other.Open(false, true)));
  EXPECT_TRUE(Ok(other.Unlock()));
}

TEST_F(DbDirectoryTest, ADirectoryWithoutADatabaseIsLeftAlone) {
  ASSERT_TRUE(Ok(env_->CreateDirIfMissing("/other")));
  DbDirectory place(env_.get(), "/other");
  EXPECT_TRUE(place.Open(false, false).IsInvalidArgument());
  EXPECT_TRUE(env_->FileExists(LockFileName("/other")).IsNotFound());
  // With a file of a database, it may be a damaged one, which a reader reports.
  ASSERT_TRUE(
      Ok(WriteStringToFile(env_.get(), "", "/other/000005.sst", false)));
  EXPECT_TRUE(Ok(place.Open(false, false)));
  EXPECT_TRUE(Ok(place.Unlock()));
}

TEST_F(DbDirectoryTest, KeepsItsIdentity) {
  DbDirectory place(env_.get(), "/db");
  ASSERT_TRUE(Ok(place.Open(false, true)));
  ASSERT_TRUE(Ok(place.LoadIdentity("")));
  EXPECT_EQ(place.identity().size(), 36u);
  EXPECT_FALSE(place.identity_is_stored());
  ASSERT_TRUE(Ok(place.StoreIdentity("/db/1.dbtmp")));
  DbDirectory again(env_.get(), "/db");
  ASSERT_TRUE(Ok(again.LoadIdentity("of the MANIFEST")));
  EXPECT_TRUE(again.identity_is_stored());
  EXPECT_EQ(again.identity(), place.identity());
  // Too long for an identity.
  ASSERT_TRUE(Ok(WriteStringToFile(env_.get(), std::string(256, 'x'),
                                   IdentityFileName("/db"), false)));
  ASSERT_TRUE(Ok(again.LoadIdentity("of the MANIFEST")));
  EXPECT_EQ(again.identity(), "of the MANIFEST");
  EXPECT_TRUE(Ok(place.Unlock()));
}

}  // namespace
}  // namespace varve::test
