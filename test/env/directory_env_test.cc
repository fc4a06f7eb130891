// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: an Env that holds a directory finds it wherever it is moved, never
// touches what takes its name, and changes nothing in it once its lock is lost.
// Method: each call is made after the directory was moved and another made in
// its place.

#include <unistd.h>

#include "env/held_directory.h"
#include "test/testing/status_checks.h"
#include "test/testing/temp_dir.h"
#include "test/testing/test_headers.h"
#include "varve/env.h"

namespace varve::test {
namespace {

namespace fs = std::filesystem;

class DirectoryEnvTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directory(root_);
    held_ = Env::Default()->NewDirectoryEnv(root_);
    ASSERT_NE(held_, nullptr);
    ASSERT_TRUE(Write(root_ + "/before", "1").ok());  // By name, as yet.
    ASSERT_TRUE(held_->Hold().ok());
  }

  // The directory goes to moved_, and an empty one comes in its place.
  void Move() {
    fs::rename(root_, moved_);
    fs::create_directory(root_);
  }
  Status Write(const std::string& path, const std::string& text) {
    return WriteStringToFile(held_.get(), text, path, true);
  }
  static std::string Read(Env* env, const std::string& path) {
    std::string text;
    const Status status = ReadFileToString(env, path, &text);
    return status.ok() ? text : status.ToString();
  }
  static size_t CountFiles(const std::string& path) {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(path), fs::directory_iterator()));
  }

  TempDir dir_;
  const std::string root_ = dir_.Sub("db");
  const std::string moved_ = dir_.Sub("moved");
  std::unique_ptr<DirectoryEnv> held_;
};

TEST_F(DirectoryEnvTest, AllCallsFollowTheDirectory) {
  std::unique_ptr<FileLock> lock;
  ASSERT_TRUE(held_->LockFile(root_ + "/LOCK", &lock).ok());
  Move();
  EXPECT_TRUE(lock->Verify().ok());
  EXPECT_EQ(Read(held_.get(), root_ + "/before"), "1");
  EXPECT_TRUE(Write(root_ + "/a", "22").ok());
  uint64_t size = 0;
  EXPECT_TRUE(held_->GetFileSize(root_ + "//a", &size).ok());
  EXPECT_EQ(size, 2u);
  std::unique_ptr<RandomAccessFile> file;
  EXPECT_TRUE(
      held_->NewRandomAccessFile(root_ + "/a", FileOptions(), &file).ok());
  FileOptions direct{.use_direct_reads = true};
  EXPECT_TRUE(held_->NewRandomAccessFile(root_ + "/a", direct, &file).ok());
  FileOptions uncached{.uncached_open = true};
  EXPECT_TRUE(held_->NewRandomAccessFile(root_ + "/a", uncached, &file).ok());
  std::shared_ptr<Logger> logger;
  EXPECT_TRUE(held_->NewLogger(root_ + "/LOG", &logger).ok());
  EXPECT_TRUE(held_->CreateDirIfMissing(root_ + "/lost").ok());
  EXPECT_TRUE(held_->CreateDirIfMissing(root_).ok());
  EXPECT_TRUE(held_->RenameFile(root_ + "/a", root_ + "/lost/b").ok());
  EXPECT_TRUE(held_->LinkFile(root_ + "/lost/b", dir_.Sub("link")).ok());
  EXPECT_TRUE(held_->Truncate(root_ + "/lost/b", 1).ok());
  EXPECT_TRUE(held_->FileExists(root_ + "/lost/b").ok());
  std::unique_ptr<Directory> directory;
  EXPECT_TRUE(held_->NewDirectory(root_ + "/", &directory).ok());
  EXPECT_TRUE(directory->Sync().ok());
  EXPECT_TRUE(held_->NewDirectory(root_ + "/lost", &directory).ok());
  EXPECT_TRUE(directory->Sync().ok());
  std::vector<std::string> names;
  EXPECT_TRUE(held_->GetChildren(root_, &names).ok());
  EXPECT_EQ(names.size(), 4u);
  EXPECT_TRUE(held_->RemoveFile(root_ + "/before").ok());
  EXPECT_EQ(CountFiles(root_), 0u);
  EXPECT_EQ(CountFiles(moved_), 3u);
  EXPECT_EQ(Read(Env::Default(), dir_.Sub("link")), "2");
  EXPECT_TRUE(held_->UnlockFile(std::move(lock)).ok());
}

TEST_F(DirectoryEnvTest, OtherPathsAreLeftAsTheyAre) {
  Move();
  EXPECT_TRUE(Write(root_ + "x", "beside").ok());
  EXPECT_TRUE(Write(dir_.Sub("y"), "beside").ok());
  EXPECT_EQ(Read(Env::Default(), root_ + "x"), "beside");
  EXPECT_EQ(Read(Env::Default(), dir_.Sub("y")), "beside");
  EXPECT_EQ(CountFiles(moved_), 1u);
}

TEST_F(DirectoryEnvTest, NothingIsChangedOnceTheLockIsLost) {
  std::unique_ptr<FileLock> lock;
  ASSERT_TRUE(held_->LockFile(root_ + "/LOCK", &lock).ok());
  ASSERT_TRUE(Write(root_ + "/a", "1").ok());
  fs::remove(root_ + "/LOCK");
  std::unique_ptr<FileLock> other;  // The next owner of the directory.
  ASSERT_TRUE(Env::Default()->LockFile(root_ + "/LOCK", &other).ok());
  const std::vector<Status> refused = {
      Write(root_ + "/a", "2"),
      Write(root_ + "/b", "2"),
      held_->RemoveFile(root_ + "/a"),
      held_->RenameFile(root_ + "/a", root_ + "/b"),
      held_->RenameFile(root_ + "/a", dir_.Sub("b")),
      held_->LinkFile(root_ + "/a", root_ + "/b"),
      held_->Truncate(root_ + "/a", 0),
      held_->CreateDirIfMissing(root_ + "/lost"),
  };
  for (const Status& status : refused) {
    EXPECT_TRUE(IsIOError(status, "LOCK"));
  }
  EXPECT_EQ(Read(held_.get(), root_ + "/a"), "1");
  EXPECT_TRUE(held_->UnlockFile(std::move(lock)).ok());
  EXPECT_TRUE(Env::Default()->UnlockFile(std::move(other)).ok());
}

TEST_F(DirectoryEnvTest, RemovedDirectoryIsNotMadeAgain) {
  fs::remove_all(root_);
  EXPECT_FALSE(Write(root_ + "/a", "1").ok());
  fs::create_directory(root_);
  EXPECT_FALSE(Write(root_ + "/a", "1").ok());
  EXPECT_EQ(CountFiles(root_), 0u);
}

TEST_F(DirectoryEnvTest, OneInsideOfAnotherFollowsBoth) {
  fs::create_directory(root_ + "/inner");
  const auto inner = held_->NewDirectoryEnv(root_ + "/inner");
  Move();
  ASSERT_TRUE(inner->Hold().ok());
  fs::rename(moved_ + "/inner", moved_ + "/elsewhere");
  EXPECT_TRUE(
      WriteStringToFile(inner.get(), "x", root_ + "/inner/a", true).ok());
  EXPECT_TRUE(WriteStringToFile(inner.get(), "y", root_ + "/b", true).ok());
  EXPECT_EQ(Read(Env::Default(), moved_ + "/elsewhere/a"), "x");
  EXPECT_EQ(Read(Env::Default(), moved_ + "/b"), "y");
}

TEST_F(DirectoryEnvTest, RelativePathsAreThoseOfTheirTime) {
  const fs::path before = fs::current_path();
  fs::current_path(dir_.path());
  Env* const env = Env::Default();
  EXPECT_EQ(env->AbsolutePath("db"), fs::current_path().string() + "/db");
  EXPECT_EQ(env->AbsolutePath("/db"), "/db");
  EXPECT_EQ(env->AbsolutePath(""), "");
  {
    const HeldDirectory held(env, "db");
    fs::current_path("/");
    EXPECT_EQ(Read(held.env(), held.path() + "/before"), "1");
  }
  // Where the working directory has no path the given one stays, and is found
  // as long as it can be.
  const std::string gone = dir_.Sub("gone");
  fs::create_directory(gone);
  fs::current_path(gone);
  fs::remove(gone);
  EXPECT_EQ(env->AbsolutePath("db"), "db");
  EXPECT_EQ(env->NewDirectoryEnv(""), nullptr);
  fs::current_path(before);
}

// Calls of such an Env would go past the wrapper.
TEST_F(DirectoryEnvTest, WrappersHaveNone) {
  EnvWrapper wrapper(Env::Default());
  EXPECT_EQ(wrapper.NewDirectoryEnv(root_), nullptr);
  EXPECT_EQ(NewMemoryEnv(Env::Default())->NewDirectoryEnv("/d"), nullptr);
  EXPECT_EQ(NewMemoryEnv(Env::Default())->AbsolutePath("d"), "d");
}

}  // namespace
}  // namespace varve::test
