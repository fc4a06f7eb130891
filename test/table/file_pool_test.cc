// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: files read through the pool give their bytes whatever is open, never
// more than allowed are open, and a file is not closed while it is read.
// Method: an Env whose files hold reads and openings up, and fail where they
// are used after they were closed; the interleavings that file_pool.h names are
// forced one by one, and threads read at random.
#include "table/reader/file_pool.h"

#include "test/testing/env/descriptor_limit.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "test/testing/threads/actor.h"
#include "test/testing/threads/gate.h"
#include "test/testing/threads/run_threads.h"

namespace varve {
namespace {

using ::testing::HasSubstr;

// Files whose content is their path. Reads at kHeld wait at a latch.
class LatchEnv : public EnvWrapper {
 public:
  static constexpr uint64_t kHeld = 1000;

  explicit LatchEnv(Env* target) : EnvWrapper(target) { gate.Close(); }

  Status NewRandomAccessFile(const std::string& path,
                             const FileOptions& /*options*/,
                             std::unique_ptr<RandomAccessFile>* file) override {
    ++opens;
    if (missing) return Status::NotFound(path);
    if (open_files >= descriptors) return Status::FromErrno(path, EMFILE);
    const int now = ++open_files;
    int most = most_open;
    while (now > most && !most_open.compare_exchange_weak(most, now)) {
    }
    *file = std::make_unique<File>(path, this);
    return Status();
  }

  test::Gate gate;  // For reads of kHeld.
  test::Gate closes;
  std::atomic<int> opens = 0;
  std::atomic<int> open_files = 0;
  std::atomic<int> most_open = 0;
  std::atomic<int> descriptors = 1000000;
  std::atomic<int> held = 0;  // Descriptors that no thread reads from.
  std::atomic<bool> missing = false;

 private:
  class File : public RandomAccessFile {
   public:
    File(std::string path, LatchEnv* env) : path_(std::move(path)), env_(env) {}
    ~File() override {
      EXPECT_EQ(readers_.load(), 0) << "closed while it is read";
      env_->closes.Wait();
      --env_->open_files;
    }
    Status Read(uint64_t offset, size_t count, Slice* result,
                char* scratch) const override {
      ++readers_;
      if (offset == kHeld) env_->gate.Wait();
      path_.copy(scratch, count);
      *result = Slice(scratch, std::min(count, path_.size()));
      // Sometimes as a mapped file would have it.
      if (offset == 1) *result = Slice(path_.data(), result->size());
      --readers_;
      return Status();
    }
    int AcquireDescriptor() const override {
      ++readers_;
      return ++env_->held;
    }
    void ReleaseDescriptor(size_t) const override {
      --readers_;
      --env_->held;
    }

   private:
    const std::string path_;
    LatchEnv* const env_;
    mutable std::atomic<int> readers_ = 0;
  };
};

class FilePoolTest : public ::testing::Test {
 protected:
  static std::string PathOf(int i) { return "/file" + std::to_string(i); }
  void OpenFiles(int count, int max_open_files) {
    pool_ = std::make_unique<FilePool>(&env_, FileOptions(), max_open_files,
                                       nullptr);
    for (int i = 0; i < count; ++i) {
      ASSERT_TRUE(pool_->Open(PathOf(i), &files_.emplace_back()).ok());
    }
  }
  std::string Read(int i, uint64_t offset = 0) {
    char scratch[16];
    Slice result;
    const Status s = files_[i]->Read(offset, sizeof(scratch), &result, scratch);
    return s.ok() ? result.ToString() : s.ToString();
  }

  LatchEnv env_{Env::Default()};
  std::unique_ptr<FilePool> pool_;
  std::vector<std::unique_ptr<RandomAccessFile>> files_;
};

TEST_F(FilePoolTest, TheBoundMayChange) {
  const auto read_all = [this] {
    for (int i = 0; i < 10; ++i) EXPECT_EQ(Read(i), PathOf(i));
  };
  OpenFiles(10, -1);
  EXPECT_EQ(env_.open_files, 10);
  pool_->SetMaxOpenFiles(3);
  EXPECT_EQ(env_.open_files, 3);
  read_all();
  EXPECT_EQ(env_.open_files, 3);
  pool_->SetMaxOpenFiles(6);
  read_all();
  EXPECT_EQ(env_.open_files, 6);
  pool_->SetMaxOpenFiles(-1);
  read_all();
  EXPECT_EQ(env_.open_files, 10);
  for (int i = 0; i < 3; ++i) EXPECT_GE(files_[i]->AcquireDescriptor(), 0);
  pool_->SetMaxOpenFiles(1);
  EXPECT_EQ(env_.open_files, 3);
  for (int i = 0; i < 3; ++i) files_[i]->ReleaseDescriptor(0);
  read_all();
  EXPECT_EQ(env_.open_files, 1);
}

TEST_F(FilePoolTest, ReadsMoreFilesThanItOpens) {
  OpenFiles(10, 3);
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 10; ++i) {
      EXPECT_EQ(Read(i, round % 2), PathOf(i));
      EXPECT_EQ(env_.open_files.load(), 3);
      EXPECT_EQ(pool_->open_files(), 3u);
    }
  }
  EXPECT_EQ(env_.most_open.load(), 3);
  files_.clear();
  EXPECT_EQ(env_.open_files.load(), 0);
  EXPECT_EQ(pool_->open_files(), 0u);
}

TEST_F(FilePoolTest, KeepsOftenReadFilesOpen) {
  OpenFiles(20, 4);
  Read(0);
  int opens_of_first = 0;
  for (int i = 1; i < 20; ++i) {
    Read(i);
    const int before = env_.opens;
    Read(0);
    opens_of_first += env_.opens - before;
  }
  EXPECT_LE(opens_of_first, 7);
}

TEST_F(FilePoolTest, DescriptorsAreHeldWithoutWaitingForOthers) {
  OpenFiles(3, 2);
  ASSERT_GE(files_[0]->AcquireDescriptor(), 0);
  ASSERT_GE(files_[1]->AcquireDescriptor(), 0);
  // Both places are taken, by this thread.
  EXPECT_EQ(files_[2]->AcquireDescriptor(), -1);
  EXPECT_EQ(env_.held.load(), 2);
  EXPECT_EQ(Read(1), PathOf(1));
  files_[0]->ReleaseDescriptor(0);
  ASSERT_GE(files_[2]->AcquireDescriptor(), 0);
  EXPECT_EQ(files_[0]->AcquireDescriptor(), -1);
  files_[1]->ReleaseDescriptor(0);
  files_[2]->ReleaseDescriptor(0);
  EXPECT_EQ(env_.held.load(), 0);
  EXPECT_EQ(env_.most_open.load(), 2);
  // A file that cannot be opened has none.
  env_.missing = true;
  EXPECT_EQ(files_[0]->AcquireDescriptor(), -1);
}

TEST_F(FilePoolTest, BatchesHaveOneOpen) {
  OpenFiles(4, 2);
  char scratch[4][16];
  ReadRequest requests[4];
  for (int i = 0; i < 4; ++i) {
    requests[i].offset = static_cast<uint64_t>(i);
    requests[i].length = sizeof(scratch[i]);
    requests[i].scratch = scratch[i];
  }
  const int before = env_.opens;
  files_[0]->MultiRead(requests, 4);
  EXPECT_EQ(env_.opens.load(), before + 1);
  Read(1), Read(2), Read(3);
  for (const ReadRequest& request : requests) {
    EXPECT_TRUE(request.status.ok());
    EXPECT_EQ(request.result, PathOf(0));
  }
  env_.missing = true;
  files_[0]->MultiRead(requests, 4);
  for (const ReadRequest& request : requests) {
    EXPECT_TRUE(request.status.IsCorruption());
  }
}

TEST_F(FilePoolTest, FilesInUseAreNotClosed) {
  OpenFiles(6, 2);
  std::thread reader(
      [this] { EXPECT_EQ(Read(0, LatchEnv::kHeld), PathOf(0)); });
  env_.gate.AwaitWaiting(1);
  for (int i = 1; i < 6; ++i) EXPECT_EQ(Read(i), PathOf(i));
  env_.gate.Open();
  reader.join();
  EXPECT_EQ(env_.most_open.load(), 2);
}

TEST_F(FilePoolTest, WaitsUntilAPlaceIsFree) {
  // B2: each place is taken by a read that waits, and another read needs one.
  OpenFiles(6, 2);
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back(
        [this, i] { EXPECT_EQ(Read(i, LatchEnv::kHeld), PathOf(i)); });
  }
  env_.gate.AwaitWaiting(2);
  for (int i = 2; i < 6; ++i) {
    threads.emplace_back([this, i] { EXPECT_EQ(Read(i), PathOf(i)); });
  }
  env_.gate.Open();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(env_.most_open.load(), 2);
}

// B2: the last pin goes while a thread finds that all files are pinned. So many
// files are that the search takes long. The pin goes at another time of it in
// each round.
TEST_F(FilePoolTest, APinThatGoesDuringTheSearchIsNoticed) {
  constexpr int kPinned = 20000;
  constexpr int kRounds = 40;
  OpenFiles(kPinned + 1, kPinned);
  for (int i = 0; i < kPinned; ++i) {
    ASSERT_GE(files_[i]->AcquireDescriptor(), 0);
  }
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(files_[kPinned]->AcquireDescriptor(), -1);
  const auto search = std::chrono::steady_clock::now() - begin;
  test::Actor other;
  for (int round = 0; round < kRounds; ++round) {
    std::atomic<bool> begins = false;
    other.Start([&] {
      while (!begins) {
      }
      const auto end =
          std::chrono::steady_clock::now() + search * round / kRounds;
      while (std::chrono::steady_clock::now() < end) {
      }
      files_[round]->ReleaseDescriptor(0);
    });
    begins = true;
    EXPECT_EQ(Read(kPinned), PathOf(kPinned));
    other.Wait();
    ASSERT_GE(files_[round]->AcquireDescriptor(), 0);
  }
  for (int i = 0; i < kPinned; ++i) files_[i]->ReleaseDescriptor(0);
}

TEST_F(FilePoolTest, ClosesOthersWhenDescriptorsRunOut) {
  env_.descriptors = 3;
  OpenFiles(10, -1);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Read(i), PathOf(i));
  EXPECT_EQ(env_.most_open.load(), 3);
  env_.descriptors = 0;
  files_.clear();
  std::unique_ptr<RandomAccessFile> file;
  EXPECT_THAT(pool_->Open("/x", &file).ToString(),
              HasSubstr("Too many open files"));
  EXPECT_EQ(file, nullptr);
  EXPECT_EQ(pool_->open_files(), 0u);
}

// Two opens of the program find descriptors short while the first one's files
// are still being closed.
TEST_F(FilePoolTest, KeepsAFewThoughSeveralThreadsCloseFiles) {
  const test::DescriptorLimit limit(200);
  OpenFiles(24, -1);
  env_.closes.Close();
  const int in_reserve = CurrentReserveBegin() + 5;
  const auto open = [in_reserve] {
    OpenDescriptor([in_reserve] { return in_reserve; });
  };
  std::thread first(open);
  env_.closes.AwaitWaiting(1);
  std::thread second(open);
  // The second closes two, which leaves the 16 that are kept.
  env_.closes.AwaitWaiting(2);
  env_.closes.Open();
  first.join();
  second.join();
  EXPECT_EQ(pool_->open_files(), 16u);
}

TEST_F(FilePoolTest, ErrorsOfALaterOpeningAreTheReads) {
  OpenFiles(3, 1);
  env_.missing = true;
  EXPECT_THAT(Read(0), HasSubstr("Corruption: " + PathOf(0)));
  EXPECT_EQ(pool_->open_files(), 0u);
  env_.missing = false;
  EXPECT_EQ(Read(0), PathOf(0));
}

TEST_F(FilePoolTest, ThreadsReadTheRequestedBytes) {
  const uint64_t seed = test::TestSeed();
  constexpr int kFiles = 40;
  for (const int bound : {1, 3, 16}) {
    files_.clear();
    env_.most_open = 0;
    OpenFiles(kFiles, bound);
    test::RunThreads(6, [this, seed](uint64_t t) {
      test::Rng random(seed + t);
      for (int i = 0; i < 3000; ++i) {
        const int file = static_cast<int>(random.Below(kFiles));
        ASSERT_EQ(Read(file, random.Below(2)), PathOf(file));
      }
    });
    EXPECT_LE(env_.most_open.load(), bound);
  }
}

}  // namespace
}  // namespace varve
