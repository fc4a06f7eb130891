// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: what a compaction reads ahead is bounded for all its inputs together,
// and the usual ones read as much at once as ever. Method: tables of level 0
// that overlap, and an Env that notes the reads of each table.

#include "test/testing/db_helpers.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

struct Reads {
  int count = 0;
  size_t largest = 0;  // Bytes.
};

class NotesReadsEnv final : public EnvWrapper {
 public:
  explicit NotesReadsEnv(Env* target) : EnvWrapper(target) {}

  Status NewRandomAccessFile(const std::string& path,
                             const FileOptions& options,
                             std::unique_ptr<RandomAccessFile>* file) override {
    Status status = target()->NewRandomAccessFile(path, options, file);
    if (status.ok()) {
      *file = std::make_unique<File>(std::move(*file), path, this);
    }
    return status;
  }

  void Forget() {
    const std::lock_guard lock(mutex_);
    reads_.clear();
  }
  void KeepOnly(const std::vector<std::string>& names) {
    const std::lock_guard lock(mutex_);
    std::erase_if(reads_, [&names](const auto& read) {
      const std::string name = read.first.substr(read.first.rfind('/') + 1);
      return std::find(names.begin(), names.end(), name) == names.end();
    });
  }
  // Reads of at least 8 KiB, that is, readahead.
  std::map<std::string, Reads> reads() {
    const std::lock_guard lock(mutex_);
    return reads_;
  }

 private:
  class File final : public RandomAccessFile {
   public:
    File(std::unique_ptr<RandomAccessFile> file, std::string path,
         NotesReadsEnv* env)
        : file_(std::move(file)), path_(std::move(path)), env_(env) {}
    Status Read(uint64_t offset, size_t count, Slice* result,
                char* scratch) const override {
      if (count >= 8 << 10) {
        const std::lock_guard lock(env_->mutex_);
        Reads& reads = env_->reads_[path_];
        ++reads.count;
        reads.largest = std::max(reads.largest, count);
      }
      return file_->Read(offset, count, result, scratch);
    }

   private:
    const std::unique_ptr<RandomAccessFile> file_;
    const std::string path_;
    NotesReadsEnv* const env_;
  };

  std::mutex mutex_;
  std::map<std::string, Reads> reads_;  // By path.
};

class CompactionMemoryTest : public ::testing::Test {
 protected:
  CompactionMemoryTest() {
    options_.env = &env_;
    options_.compression = CompressionType::kNone;
    options_.disable_auto_compactions = true;
    options_.write_buffer_size = 64 << 20;
    options_.target_file_size_base = 64 << 20;
  }

  // Compacts `tables` tables of level 0, each with `values` values of 100 KB.
  void Compact(int tables, int values) {
    ASSERT_TRUE(Ok(DB::Open(options_, "/db", &db_)));
    for (int t = 0; t < tables; ++t) {
      for (int i = 0; i < values; ++i) {
        ASSERT_TRUE(
            Ok(db_->Put({}, Key(i * tables + t), std::string(100000, 'v'))));
      }
      ASSERT_TRUE(Ok(db_->Flush({})));
    }
    env_.Forget();
    std::vector<std::string> inputs;
    ASSERT_TRUE(Ok(memory_->GetChildren("/db", &inputs)));
    ASSERT_TRUE(Ok(db_->CompactRange({}, nullptr, nullptr)));
    env_.KeepOnly(inputs);  // The outputs are opened at the end.
    ASSERT_TRUE(db_->GetProperty("varve.num-files-at-level0", &level0_));
    EXPECT_EQ(level0_, "0");
  }
  size_t SumOfLargest() {
    size_t bytes = 0;
    for (const auto& [path, reads] : env_.reads()) bytes += reads.largest;
    return bytes;
  }

  std::unique_ptr<Env> memory_ = NewMemoryEnv(Env::Default());
  NotesReadsEnv env_{memory_.get()};
  Options options_ = TinyOptions();
  std::unique_ptr<DB> db_;
  std::string level0_;
};

TEST_F(CompactionMemoryTest, ManyInputsShareTheReadahead) {
  constexpr int kTables = 40;
  Compact(kTables, 8);
  const auto reads = env_.reads();
  ASSERT_EQ(reads.size(), size_t{kTables});
  EXPECT_LT(SumOfLargest(), size_t{15} << 20);
  // Some 300 KB at a time.
  for (const auto& [path, read] : reads) EXPECT_LE(read.count, 4) << path;
}

TEST_F(CompactionMemoryTest, PartsShareTheReadahead) {
  options_.max_subcompactions = 4;
  options_.target_file_size_base = 2 << 20;
  constexpr int kTables = 30;
  Compact(kTables, 20);
  const auto reads = env_.reads();
  ASSERT_EQ(reads.size(), size_t{kTables});
  // Each part reads each table.
  EXPECT_LT(4 * SumOfLargest(), size_t{20} << 20);
}

TEST_F(CompactionMemoryTest, FewInputsAreReadInLargePieces) {
  constexpr int kTables = 6;
  Compact(kTables, 40);  // 4.0 MB.
  for (const auto& [path, read] : env_.reads()) {
    EXPECT_EQ(read.largest, size_t{2} << 20) << path;
    EXPECT_EQ(read.count, 2) << path;
  }
}

}  // namespace
}  // namespace varve::test
