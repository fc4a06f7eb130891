// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads variants

// Goal: batches of reads, and openings with reads, give what the same calls one
// by one give, whatever the kernel makes of io_uring. Method: random requests
// against a file whose bytes are known, with threads that come and go, in
// forked children, with faults put in place of the submission, and with filters
// of system calls and errors that say no at several points of time.

#include "env/io_ring.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "env/posix_file.h"
#include "test/testing/env/refuse_system_calls.h"
#include "test/testing/env/ring_faults.h"
#include "test/testing/seed.h"
#include "test/testing/temp_dir.h"
#include "test/testing/test_headers.h"
#include "test/testing/threads/run_threads.h"
#include "util/base/random.h"
#include "varve/env.h"

namespace varve {
namespace {

constexpr size_t kFileBytes = 3000001;

class IoRingTest : public testing::Test {
 protected:
  IoRingTest() {
    Random random(1);
    bytes_.resize(kFileBytes);
    for (char& c : bytes_) c = static_cast<char>(random.Next());
    EXPECT_TRUE(WriteStringToFile(env_, bytes_, Path("f"), true).ok());
    for (const bool direct : {false, true}) {
      FileOptions options{.use_direct_reads = direct};
      std::unique_ptr<RandomAccessFile> file;
      EXPECT_TRUE(env_->NewRandomAccessFile(Path("f"), options, &file).ok());
      files_.push_back(std::move(file));
    }
  }
  ~IoRingTest() override { TEST_SetRingSubmit(submit_before_); }

  std::string Path(const std::string& name) const {
    return directory_.path() + "/" + name;
  }

  // Some requests: small ones, ends, nothing, beyond the end, one that is huge.
  std::vector<ReadRequest> RandomRequests(Random* random, size_t count) {
    std::vector<ReadRequest> requests(count);
    for (size_t i = 0; i < count; ++i) {
      ReadRequest& request = requests[i];
      request.length = random->Uniform(10000);
      request.offset = random->Uniform(kFileBytes);
      switch (random->Uniform(12)) {
        case 0:
          request.length = 0;
          break;
        case 1:
          request.offset = kFileBytes - random->Uniform(5000);
          break;
        case 2:
          request.offset = kFileBytes + random->Uniform(100000);
          break;
        case 3:
          request.offset -= request.offset % 4096;
          request.length = 4096;
          break;
        case 4:
          if (i == 0) request.length = 2500000;
          break;
      }
    }
    return requests;
  }

  // The bytes that a request is to have.
  Slice Expected(const ReadRequest& request) const {
    if (request.offset >= bytes_.size()) return Slice();
    return Slice(
        bytes_.data() + request.offset,
        std::min<uint64_t>(request.length, bytes_.size() - request.offset));
  }

  // One batch of one file, or of both.
  void CheckBatch(Random* random, size_t count, bool one_file) {
    std::vector<ReadRequest> requests = RandomRequests(random, count);
    std::vector<std::string> memory(count);
    for (size_t i = 0; i < count; ++i) {
      memory[i].resize(requests[i].length + 4096);
      const size_t shift =
          random->Uniform(2) == 0
              ? random->Uniform(4096)
              : -reinterpret_cast<uintptr_t>(memory[i].data()) & 4095;
      requests[i].scratch = memory[i].data() + shift;
    }
    if (one_file) {
      files_[random->Uniform(2)]->MultiRead(requests.data(), count);
    } else {
      std::vector<FileReadRequest> each;
      for (const ReadRequest& request : requests) {
        each.push_back({files_[random->Uniform(2)].get(), request});
      }
      std::vector<int> done(count);
      const Env::ReadDone note = [&](const FileReadRequest* request) {
        ++done[static_cast<size_t>(request - each.data())];
        EXPECT_TRUE(request->read.status.ok());
        EXPECT_TRUE(request->read.result == Expected(request->read));
      };
      env_->MultiRead(each.data(), count,
                      random->Uniform(2) == 0 ? note : nullptr);
      for (size_t i = 0; i < count; ++i) {
        requests[i] = each[i].read;
        ASSERT_EQ(done[i], done[0]);
        ASSERT_LE(done[i], 1);
      }
    }
    for (const ReadRequest& request : requests) {
      ASSERT_TRUE(request.status.ok()) << request.status.ToString();
      ASSERT_TRUE(request.result == Expected(request))
          << request.offset << " " << request.length;
    }
  }

  void CheckBatches(uint64_t seed, int batches) {
    Random random(seed);
    for (int i = 0; i < batches; ++i) {
      const size_t count = random.Uniform(i % 10 == 0 ? 300 : 40);
      ASSERT_NO_FATAL_FAILURE(CheckBatch(&random, count, i % 2 == 0));
    }
  }

  // Runs the check in a forked child, and prints its failures.
  template <typename Function>
  static void ExpectInChild(const Function& function) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      function();
      _exit(HasFailure() ? 1 : 0);
    }
    int outcome = -1;
    ASSERT_EQ(waitpid(child, &outcome, 0), child);
    EXPECT_TRUE(WIFEXITED(outcome) && WEXITSTATUS(outcome) == 0) << outcome;
  }

  const RingSubmit submit_before_ = TEST_SetRingSubmit(nullptr);
  Env* const env_ = Env::Default();
  test::TempDir directory_;
  std::string bytes_;
  std::vector<std::unique_ptr<RandomAccessFile>> files_;
};

TEST_F(IoRingTest, PathNamesTheRingOrWhyThereIsNone) {
  const std::string path = env_->IoPath();
  EXPECT_EQ(path == "io_uring", IoRingUsable()) << path;
  EXPECT_TRUE(path == "io_uring" || path.starts_with("pread (io_uring: "))
      << path;
  EnvWrapper wrapper(env_);
  EXPECT_EQ(wrapper.IoPath(), path);
  EXPECT_EQ(NewMemoryEnv(env_)->IoPath(), "memory");
}

TEST_F(IoRingTest, BatchesReturnTheResultsOfSingleReads) {
  CheckBatches(test::TestSeed(), 200);
}

TEST_F(IoRingTest, BatchesGoThroughTheRingInOneCall) {
  TEST_SetRingSubmit(&test::CountingSubmit);
  std::string memory(64 * 100, '\0');
  std::vector<ReadRequest> requests(64);
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].offset = i * 10000;
    requests[i].length = 100;
    requests[i].scratch = &memory[i * 100];
  }
  // In a thread with a ring that no test has made give up.
  std::thread([&] {
    for (const auto& file : files_) {
      const uint64_t calls = test::ring_faults.calls;
      const uint64_t operations = test::ring_faults.operations;
      file->MultiRead(requests.data(), requests.size());
      for (const ReadRequest& request : requests) {
        ASSERT_TRUE(request.status.ok() && request.result == Expected(request));
      }
      file->MultiRead(requests.data(), 1);
      if (!IoRingUsable()) continue;
      // A signal may come in between.
      EXPECT_GE(test::ring_faults.calls, calls + 1);
      EXPECT_EQ(test::ring_faults.operations, operations + requests.size());
    }
  }).join();
}

TEST_F(IoRingTest, FaultsOfTheRingAreMadeGood) {
  TEST_SetRingSubmit(&test::FaultySubmit);
  const test::RingFaults& faults = test::ring_faults;
  CheckBatches(test::TestSeed(), 200);
  if (!IoRingUsable()) return;
  EXPECT_GT(faults.interrupted, 0u);
  EXPECT_GT(faults.refused, 0u);
  EXPECT_GT(faults.short_reads, 0u);
  EXPECT_GT(faults.unknown, 0u);
}

TEST_F(IoRingTest, ThreadsThatComeAndGoHaveTheirOwnRings) {
  for (int round = 0; round < 10; ++round) {
    test::RunThreads(8, [this, round](uint64_t i) {
      CheckBatches(static_cast<uint64_t>(round) * 8 + i, 10);
    });
  }
  // Their descriptors are closed, too.
  std::vector<std::string> descriptors;
  ASSERT_TRUE(env_->GetChildren("/proc/self/fd", &descriptors).ok());
  int rings = 0;
  for (const std::string& name : descriptors) {
    char target[256] = {};
    const std::string link = "/proc/self/fd/" + name;
    if (readlink(link.c_str(), target, sizeof(target) - 1) < 0) continue;
    if (std::string(target).find("io_uring") != std::string::npos) ++rings;
  }
  EXPECT_LE(rings, 1);
}

TEST_F(IoRingTest, AForkedChildHasARingOfItsOwn) {
  CheckBatches(2, 10);
  ExpectInChild([this] {
    TEST_SetRingSubmit(&test::CountingSubmit);
    CheckBatches(3, 50);
    EXPECT_EQ(test::ring_faults.operations > 0, IoRingUsable());
    ExpectInChild([this] { CheckBatches(4, 50); });
    CheckBatches(5, 50);
  });
  CheckBatches(6, 50);
}

TEST_F(IoRingTest, ARefusalByAFilterIsForGoodAndItsReasonKept) {
  for (const int error : {EPERM, ENOSYS}) {
    for (const bool used_before : {false, true}) {
      const std::vector<std::vector<long>> refused = {
          {SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register},
          {SYS_io_uring_enter}};
      for (const auto& calls : refused) {
        SCOPED_TRACE(error);
        ExpectInChild([&] {
          if (used_before) CheckBatches(7, 10);
          const bool usable = IoRingUsable();
          ASSERT_TRUE(test::RefuseSystemCalls(calls, error));
          CheckBatches(8, 30);
          std::thread([this] { CheckBatches(9, 30); }).join();
          EXPECT_FALSE(IoRingUsable());
          if (usable) {
            EXPECT_EQ(env_->IoPath(),
                      "pread (io_uring: " + std::string(strerror(error)) + ")");
          }
          CheckBatches(10, 30);
        });
      }
    }
  }
}

// The kernel says no as it does when descriptors have run out. (A limit of the
// process would say the same to the sanitizers, which need some.)
TEST_F(IoRingTest, AThreadWithoutDescriptorsReadsPlainly) {
  ExpectInChild([this] {
    const std::string path = env_->IoPath();
    CheckBatches(11, 2);
    ASSERT_TRUE(test::RefuseSystemCalls({SYS_io_uring_setup}, EMFILE));
    std::thread([this] { CheckBatches(12, 30); }).join();
    CheckBatches(12, 2);
    EXPECT_EQ(env_->IoPath(), path);
  });
}

int AlwaysBusy(io_uring* /*ring*/, unsigned /*wait_count*/) { return -EAGAIN; }

// Submits, and then does not let anybody wait.
int SubmitOnly(io_uring* ring, unsigned /*wait_count*/) {
  return io_uring_sq_ready(ring) > 0 ? io_uring_submit(ring) : -EINVAL;
}

TEST_F(IoRingTest, ARingThatCannotBeEnteredIsGivenUp) {
  const std::string path = env_->IoPath();
  std::thread([this] {
    TEST_SetRingSubmit(&AlwaysBusy);
    CheckBatches(13, 10);
  }).join();
  EXPECT_EQ(env_->IoPath(), path);
  ExpectInChild([this] {
    const bool usable = IoRingUsable();
    TEST_SetRingSubmit(&SubmitOnly);
    CheckBatches(14, 30);
    // Unless everything came back at once.
    if (usable && !IoRingUsable()) {
      EXPECT_EQ(env_->IoPath(), "pread (io_uring: Invalid argument)");
    }
  });
}

TEST_F(IoRingTest, ErrorsAreThoseOfRead) {
  int descriptor = -1;
  ASSERT_TRUE(
      PosixOpen(directory_.path(), O_RDONLY | O_DIRECTORY, &descriptor).ok());
  const auto bad = NewPosixRandomAccessFile("directory", descriptor, 1);
  char memory[3][100];
  Slice result;
  const Status expected = bad->Read(10, 100, &result, memory[0]);
  EXPECT_TRUE(expected.IsIOError());
  std::vector<FileReadRequest> requests(3);
  for (size_t i = 0; i < 3; ++i) {
    requests[i].file = i == 1 ? bad.get() : files_[i / 2].get();
    requests[i].read.offset = 10;
    requests[i].read.length = 100;
    requests[i].read.scratch = memory[i];
  }
  env_->MultiRead(requests.data(), 3);
  EXPECT_EQ(requests[1].read.status.ToString(), expected.ToString());
  for (const size_t i : {0, 2}) {
    EXPECT_TRUE(requests[i].read.status.ok());
    EXPECT_TRUE(requests[i].read.result == Expected(requests[i].read));
  }
  requests[0].read.offset = UINT64_MAX;
  env_->MultiRead(requests.data(), 3);
  EXPECT_TRUE(requests[0].read.status.IsIOError());
  EXPECT_TRUE(requests[2].read.status.ok());
}

// A file whose reads are another's, but for a mark.
class MarkingFile : public RandomAccessFile {
 public:
  explicit MarkingFile(const RandomAccessFile* target) : target_(target) {}
  Status Read(uint64_t offset, size_t count, Slice* result,
              char* scratch) const override {
    // By a batch, which must not be in the way of the one under way.
    ReadRequest requests[2];
    requests[0] = {offset, count, scratch, Slice(), Status()};
    requests[1] = requests[0];
    requests[1].length = 1;
    target_->MultiRead(requests, 2);
    scratch[0] = 'm';
    *result = Slice(scratch, requests[0].result.size());
    return requests[0].status;
  }

 private:
  const RandomAccessFile* const target_;
};

TEST_F(IoRingTest, FilesThatWrapAnotherAreReadByTheirOwnRead) {
  const MarkingFile marking(files_[0].get());
  EnvWrapper wrapper(env_);
  std::string memory(40 * 100, '\0');
  std::vector<FileReadRequest> requests(40);
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].file = i % 4 == 1 ? &marking : files_[i % 2].get();
    requests[i].read.offset = 5000 * i;
    requests[i].read.length = 100;
    requests[i].read.scratch = &memory[i * 100];
  }
  wrapper.MultiRead(requests.data(), requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    const ReadRequest& read = requests[i].read;
    ASSERT_TRUE(read.status.ok());
    std::string expected = Expected(read).ToString();
    if (i % 4 == 1) expected[0] = 'm';
    EXPECT_EQ(read.result.ToString(), expected);
  }
}

// Opens files, every fifth of which does not exist, and checks each result.
void CheckOpens(Env* env, const std::string& directory, bool direct) {
  constexpr size_t kFiles = 300;
  const auto path = [&directory](size_t i) {
    return directory + "/" + std::to_string(i);
  };
  for (size_t i = 0; i < kFiles; ++i) {
    if (i % 5 == 0) continue;
    const std::string text = std::to_string(i) + std::string(5000, 'x');
    ASSERT_TRUE(WriteStringToFile(env, text, path(i), false).ok());
  }
  std::string memory(kFiles * 9000, '\0');
  std::vector<OpenRequest> requests(kFiles);
  for (size_t i = 0; i < kFiles; ++i) {
    requests[i].path = path(i);
    requests[i].scratch = &memory[i * 9000];
    requests[i].length = i % 3 == 0 ? 0 : i % 3 == 1 ? 10 : 9000;
    requests[i].offset = i % 7 == 0 ? 100000 : 0;
  }
  FileOptions options{.use_direct_reads = direct};
  env->OpenRandomAccessFiles(requests.data(), kFiles, options);
  for (size_t i = 0; i < kFiles; ++i) {
    const OpenRequest& request = requests[i];
    if (i % 5 == 0) {
      EXPECT_TRUE(request.status.IsNotFound()) << request.status.ToString();
      EXPECT_EQ(request.file, nullptr);
      continue;
    }
    ASSERT_TRUE(request.status.ok()) << request.status.ToString();
    const std::string text = std::to_string(i) + std::string(5000, 'x');
    const std::string expected =
        request.offset > 0 ? "" : text.substr(0, request.length);
    EXPECT_EQ(request.result.ToString(), expected);
    Slice result;
    char scratch[10];
    ASSERT_TRUE(request.file->Read(0, 10, &result, scratch).ok());
    EXPECT_EQ(result.ToString(), text.substr(0, 10));
    const int descriptor = request.file->AcquireDescriptor();
    if (descriptor < 0) continue;
    EXPECT_NE(fcntl(descriptor, F_GETFD) & FD_CLOEXEC, 0);
    request.file->ReleaseDescriptor(0);
  }
}

TEST_F(IoRingTest, OpensManyFilesAndReadsFromEach) {
  for (const bool direct : {false, true}) {
    for (const RingSubmit submit : {RingSubmit{}, &test::FaultySubmit}) {
      TEST_SetRingSubmit(submit);
      CheckOpens(env_, directory_.path(), direct);
    }
  }
  TEST_SetRingSubmit(nullptr);
  EnvWrapper wrapper(env_);
  CheckOpens(&wrapper, directory_.path(), false);
  const std::unique_ptr<Env> memory_env = NewMemoryEnv(env_);
  ASSERT_TRUE(memory_env->CreateDirIfMissing("/d").ok());
  CheckOpens(memory_env.get(), "/d", false);
  ExpectInChild([this] {
    ASSERT_TRUE(test::RefuseIoUring(EPERM));
    CheckOpens(env_, directory_.path(), true);
  });
}

}  // namespace
}  // namespace varve
