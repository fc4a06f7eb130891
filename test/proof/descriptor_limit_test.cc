// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: whatever the limit of descriptors, from 32 on, and however many tables
// there are, a database opens and does all that it does without a limit; what
// the program opens for itself fits below the limit too. Method: a database of
// 5,000 small tables is used by child processes under several limits. The
// parent uses no Env, so that a child starts with all threads it needs. Syncs
// do nothing here, since there are many and no power is cut.

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/testing/db_helpers.h"
#include "test/testing/directory.h"
#include "test/testing/run_tool.h"
#include "test/testing/temp_dir.h"
#include "test/testing/test_headers.h"
#include "util/base/random.h"
#include "varve/catalog.h"

// In place of the C library's.
extern "C" {
int fsync(int /*fd*/) { return 0; }
int fdatasync(int /*fd*/) { return 0; }
}

namespace varve::test {
namespace {

constexpr int kTables = 5000;
constexpr int kKeysOfTable = 3;
constexpr int kKeys = kTables * kKeysOfTable;

// Returns a value of such a size that kKeysOfTable of them fill a table.
std::string Value(int key, int generation) {
  Random random(static_cast<uint64_t>(generation) << 32 | key);
  std::string value = std::to_string(generation) + ":" + std::to_string(key);
  while (value.size() < 380) value.push_back(static_cast<char>(random.Next()));
  return value;
}

Options SmallTables() {
  Options options;
  options.create_if_missing = true;
  options.compression = CompressionType::kNone;
  options.target_file_size_base = 1 << 10;
  // Else all levels would be under way to the last one all the time.
  options.max_bytes_for_level_base = uint64_t{1} << 30;
  options.max_background_jobs = 8;
  options.max_subcompactions = 8;
  options.max_write_buffer_number = 64;
  return options;
}

// Runs in a child process with this descriptor limit.
template <typename Function>
void ExpectUnderLimit(rlim_t limit, const Function& function) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    rlimit bound{};
    getrlimit(RLIMIT_NOFILE, &bound);
    bound.rlim_cur = limit;
    if (setrlimit(RLIMIT_NOFILE, &bound) != 0) _exit(2);
    function();
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int outcome = -1;
  ASSERT_EQ(waitpid(child, &outcome, 0), child);
  EXPECT_TRUE(WIFEXITED(outcome)) << "killed";
  EXPECT_EQ(WEXITSTATUS(outcome), 0);
}

size_t CountTables(const std::string& path) {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    count += entry.path().extension() == ".sst";
  }
  return count;
}

// A database as its user knows it: the newest generation of each key.
class Use {
 public:
  explicit Use(std::string path) : path_(std::move(path)) {}

  void Create() {
    Open();
    for (int key = 0; key < kKeys; ++key) Put(key, 0);
    ASSERT_TRUE(Ok(db_->Flush({})));
    CompactAll();
    Close();
    ASSERT_GE(CountTables(path_), static_cast<size_t>(kTables));
  }

  void Open(bool read_only = false) {
    ASSERT_TRUE(Ok(read_only ? DB::OpenForReadOnly(SmallTables(), path_, &db_)
                             : DB::Open(SmallTables(), path_, &db_)));
  }
  void Close() {
    ASSERT_TRUE(Ok(db_->Close()));
    db_.reset();
  }

  void CheckGets() {
    Random random(1);
    for (int i = 0; i < 6000; ++i) {
      const int key = static_cast<int>(random.Uniform(kKeys));
      std::string value;
      ASSERT_TRUE(Ok(db_->Get({}, Key(key), &value)));
      ASSERT_EQ(value, Expected(key)) << Key(key);
    }
  }

  void CheckMultiGets() {
    for (int first = 0; first < 50; ++first) {
      std::vector<std::string> texts;
      for (int key = first; key < kKeys; key += 50) texts.push_back(Key(key));
      const std::vector<Slice> keys(texts.begin(), texts.end());
      std::vector<std::string> values;
      const auto statuses = db_->MultiGet({}, keys, &values);
      for (size_t i = 0; i < keys.size(); ++i) {
        ASSERT_TRUE(Ok(statuses[i]));
        ASSERT_EQ(values[i], Expected(first + 50 * static_cast<int>(i)));
      }
    }
  }

  void CheckAll() {
    for (const bool forward : {true, false}) {
      const auto it = db_->NewIterator({});
      int key = forward ? 0 : kKeys - 1;
      for (forward ? it->SeekToFirst() : it->SeekToLast(); it->Valid();
           forward ? it->Next() : it->Prev()) {
        ASSERT_EQ(it->key().ToString(), Key(key));
        ASSERT_EQ(it->value().ToString(), Expected(key));
        key += forward ? 1 : -1;
      }
      ASSERT_TRUE(Ok(it->status()));
      ASSERT_EQ(key, forward ? kKeys : -1);
    }
  }

  // Several threads, each in its own way, beside an iterator that stays.
  void CheckByThreads() {
    const auto it = db_->NewIterator({});
    it->SeekToFirst();
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back([this] { CheckGets(); });
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([this] { CheckMultiGets(); });
    }
    threads.emplace_back([this] { CheckAll(); });
    for (std::thread& thread : threads) thread.join();
    ASSERT_TRUE(it->Valid());
    it->Next();
    ASSERT_TRUE(it->Valid());
    EXPECT_EQ(it->key().ToString(), Key(1));
  }

  // Flushed now and then, so that there are tables in several levels.
  void Write(int step) {
    ++generation_;
    step_ = step;
    for (int key = 0; key < kKeys; key += step) {
      Put(key, generation_);
      if (key % 5000 >= step) continue;
      ASSERT_TRUE(Ok(db_->Flush({})));
    }
  }

  void CompactAll() {
    ASSERT_TRUE(Ok(db_->CompactRange({.rewrite_bottommost_level = true},
                                     nullptr, nullptr)));
  }

  void Checkpoint(const std::string& path) {
    ASSERT_TRUE(Ok(db_->CreateCheckpoint(path)));
  }

  DB* db() { return db_.get(); }
  void MoveTo(const std::string& path) { path_ = path; }

 private:
  std::string Expected(int key) const {
    return Value(key, step_ != 0 && key % step_ == 0 ? generation_ : 0);
  }
  void Put(int key, int generation) {
    ASSERT_TRUE(Ok(db_->Put({}, Key(key), Value(key, generation))));
  }

  std::string path_;
  std::unique_ptr<DB> db_;
  int generation_ = 0;
  int step_ = 0;  // Each so manieth key has that generation.
};

void ExpectChecked(const std::string& path) {
  const ToolResult result = RunTool({VARVE_TOOL_PATH, "--db=" + path, "check"});
  EXPECT_EQ(result.exit_code, 0) << result.Summary();
  EXPECT_NE(result.out.find("no damage"), std::string::npos);
}

// Writers that are faster than flushes, by eight threads, and compactions.
void WriteFast(const std::string& path) {
  Options options = SmallTables();
  options.write_buffer_size = 64 << 10;
  std::unique_ptr<DB> db;
  ASSERT_TRUE(Ok(DB::Open(options, path, &db)));
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&db, t] {
      for (int i = t; i < 4000; i += 8) {
        ASSERT_TRUE(Ok(db->Put({}, "fast" + Key(i), Value(i, t))));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(Ok(db->Flush({})));
  ASSERT_TRUE(Ok(db->WaitForCompact()));
  for (int i = 0; i < 4000; ++i) {
    std::string value;
    ASSERT_TRUE(Ok(db->Get({}, "fast" + Key(i), &value)));
    ASSERT_EQ(value, Value(i, i % 8));
  }
  ASSERT_TRUE(Ok(db->Close()));
}

class DescriptorLimitTest : public testing::TestWithParam<rlim_t> {
 protected:
  static void SetUpTestSuite() {
    dir_ = new TempDir;
    ExpectUnderLimit(4096, [] { Use(Original()).Create(); });
  }
  static void TearDownTestSuite() { delete dir_; }
  static std::string Original() { return dir_->Sub("original"); }

  void SetUp() override { CopyDirectory(Original(), Path()); }
  static std::string Path() { return dir_->Sub("db"); }

  static TempDir* dir_;
};

TempDir* DescriptorLimitTest::dir_ = nullptr;

TEST_P(DescriptorLimitTest, AllWorksWithManyTables) {
  ExpectUnderLimit(GetParam(), [] {
    Use use(Path());
    use.Open();
    use.CheckGets();
    use.CheckMultiGets();
    use.CheckAll();
    use.CheckByThreads();
    use.Write(7);
    use.CheckAll();
    const std::string copy = dir_->Sub("checkpoint");
    std::filesystem::remove_all(copy);
    use.Checkpoint(copy);
    use.CompactAll();
    use.CheckByThreads();
    use.Close();
    EXPECT_GE(CountTables(Path()), static_cast<size_t>(kTables));
    ExpectChecked(Path());
    ExpectChecked(copy);
    use.Open(true);
    use.CheckAll();
    use.CheckMultiGets();
    use.Close();
    ASSERT_TRUE(Ok(RepairDB(copy, SmallTables())));
    use.MoveTo(copy);
    use.Open();
    use.CheckAll();
    use.CheckByThreads();
    use.Close();
    WriteFast(copy);
  });
}

INSTANTIATE_TEST_SUITE_P(Limits, DescriptorLimitTest,
                         testing::Values(32, 64, 1024),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace varve::test
