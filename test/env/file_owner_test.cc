// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Goal: files that root creates in another user's database belong to that user,
// and files in a directory that a group shares belong to the group, whatever
// the umask; nothing is given away otherwise, and it costs no system call then.
// Method: create files in directories of each kind, as root and in a child as
// another user.

#include "env/file_owner.h"

#include <fcntl.h>
#include <grp.h>
#include <sys/stat.h>

#include "test/testing/forked.h"
#include "test/testing/temp_dir.h"
#include "test/testing/test_headers.h"

namespace varve {
namespace {

constexpr uid_t kUser = 12345;
constexpr gid_t kGroup = 23456;

class FileOwnerTest : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "not root";
    chmod(directory_.path().c_str(), 0755);
    old_mask_ = umask(0077);
  }
  void TearDown() override { umask(old_mask_); }

  std::string MakeDirectory(uid_t uid, gid_t gid, mode_t mode) {
    std::string path = directory_.Sub("db");
    EXPECT_EQ(mkdir(path.c_str(), 0700), 0);
    EXPECT_EQ(chown(path.c_str(), uid, gid), 0);
    EXPECT_EQ(chmod(path.c_str(), mode), 0);
    return path;
  }
  // Creates one file of each kind.
  static void CreateFiles(const std::string& path) {
    const auto env = Env::Default()->NewDirectoryEnv(path);
    ASSERT_TRUE(env->Hold().ok());
    std::unique_ptr<WritableFile> file;
    ASSERT_TRUE(
        env->NewWritableFile(path + "/file", FileOptions(), &file).ok());
    // Replaces the file.
    ASSERT_TRUE(file->Append("x").ok());
    ASSERT_TRUE(file->Close().ok());
    ASSERT_TRUE(
        env->NewWritableFile(path + "/file", FileOptions(), &file).ok());
    ASSERT_TRUE(file->Close().ok());
    std::shared_ptr<Logger> logger;
    ASSERT_TRUE(env->NewLogger(path + "/LOG", &logger).ok());
    std::unique_ptr<FileLock> lock;
    ASSERT_TRUE(env->LockFile(path + "/LOCK", &lock).ok());
    ASSERT_TRUE(env->CreateDirIfMissing(path + "/lost").ok());
    ASSERT_TRUE(env->UnlockFile(std::move(lock)).ok());
  }
  // Expects what stat says of all files.
  static void ExpectAll(const std::string& path, uid_t uid, gid_t gid,
                        mode_t mode) {
    for (const std::string name : {"file", "LOG", "LOCK", "lost"}) {
      struct stat info = {};
      ASSERT_EQ(stat((path + "/" + name).c_str(), &info), 0) << name;
      EXPECT_EQ(info.st_uid, uid) << name;
      EXPECT_EQ(info.st_gid, gid) << name;
      const mode_t executes = name == "lost" ? 0100 | (mode & 0040) >> 2 : 0;
      EXPECT_EQ(info.st_mode & 0777, mode | executes) << name;
    }
  }

  test::TempDir directory_;
  mode_t old_mask_ = 0;
};

TEST_F(FileOwnerTest, RootGivesFilesToTheOwnerOfTheDirectory) {
  const std::string path = MakeDirectory(kUser, kGroup, 0750);
  CreateFiles(path);
  ExpectAll(path, kUser, kGroup, 0640);
}

TEST_F(FileOwnerTest, OthersGetNothing) {
  const std::string path = MakeDirectory(kUser, kGroup, 0705);
  CreateFiles(path);
  ExpectAll(path, kUser, kGroup, 0600);
}

TEST_F(FileOwnerTest, RootsOwnFilesStayAsTheyAre) {
  const std::string path = MakeDirectory(0, 0, 0755);
  CreateFiles(path);
  ExpectAll(path, 0, 0, 0600);
  const int held = open(path.c_str(), O_RDONLY);
  EXPECT_FALSE(FileOwner(held).differs());
  close(held);
}

TEST_F(FileOwnerTest, AGroupThatMayWriteSharesTheFiles) {
  const std::string path = MakeDirectory(kUser, kGroup, 02770);
  EXPECT_EQ(test::RunForked([&] {
              const gid_t group = kGroup;
              if (setgroups(1, &group) != 0 || setresgid(7, 7, 7) != 0 ||
                  setresuid(kUser + 1, kUser + 1, kUser + 1) != 0) {
                return 1;
              }
              CreateFiles(path);
              return testing::Test::HasFailure() ? 2 : 0;
            }),
            0);
  ExpectAll(path, kUser + 1, kGroup, 0660);
}

// Users with a umask of their own meant it.
TEST_F(FileOwnerTest, AGroupThatMayOnlyReadGetsNothing) {
  for (const mode_t mode : {0750, 01777}) {
    const std::string path = MakeDirectory(kUser, kGroup, mode);
    EXPECT_EQ(test::RunForked([&] {
                if (setresgid(kGroup, kGroup, kGroup) != 0 ||
                    setresuid(kUser, kUser, kUser) != 0) {
                  return 1;
                }
                CreateFiles(path);
                return testing::Test::HasFailure() ? 2 : 0;
              }),
              0);
    ExpectAll(path, kUser, kGroup, 0600);
    std::filesystem::remove_all(path);
  }
}

TEST_F(FileOwnerTest, FilesWithAnotherNameAreNotGivenAway) {
  const std::string path = MakeDirectory(kUser, kGroup, 0755);
  const std::string secret = directory_.Sub("secret");
  close(open(secret.c_str(), O_CREAT | O_WRONLY, 0600));
  ASSERT_EQ(link(secret.c_str(), (path + "/LOCK").c_str()), 0);
  const int held = open(path.c_str(), O_RDONLY);
  const int descriptor = open((path + "/LOCK").c_str(), O_RDWR);
  FileOwner(held).Adopt(descriptor);
  struct stat info = {};
  ASSERT_EQ(fstat(descriptor, &info), 0);
  EXPECT_EQ(info.st_uid, 0u);
  close(descriptor);
  close(held);
}

}  // namespace
}  // namespace varve
