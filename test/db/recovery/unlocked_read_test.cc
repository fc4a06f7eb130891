// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: DB::OpenForReadOnly mixes no two moments, whatever a writer does
// between any two of its steps, and says so where it cannot read. Method: an
// environment that lets the writer act when the reader opens a file of a
// certain kind.

#include "test/testing/db_helpers.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

constexpr int kKeys = 20;
// More than the least bound on open files.
constexpr int kManyTables = 40;

// Reads zeros where the file has a block of the log's format, its second one.
class FileWithHole final : public SequentialFile {
 public:
  explicit FileWithHole(std::unique_ptr<SequentialFile> file)
      : file_(std::move(file)) {}
  Status Read(size_t n, Slice* result, char* scratch) override {
    Status status = file_->Read(n, result, scratch);
    if (result->data() != scratch) {
      memcpy(scratch, result->data(), result->size());
    }
    const uint64_t end = std::min(at_ + result->size(), 2 * kBlock);
    if (end > kBlock) {
      const uint64_t begin = std::max(at_, kBlock);
      if (begin < end) memset(scratch + (begin - at_), 0, end - begin);
    }
    at_ += result->size();
    *result = Slice(scratch, result->size());
    return status;
  }
  Status Skip(uint64_t n) override {
    at_ += n;
    return file_->Skip(n);
  }

 private:
  static constexpr uint64_t kBlock = 32768;

  const std::unique_ptr<SequentialFile> file_;
  uint64_t at_ = 0;
};

// Calls act() before it opens a file whose path ends, or whose name begins, as
// said.
class ActingEnv final : public EnvWrapper {
 public:
  explicit ActingEnv(Env* target) : EnvWrapper(target) {}

  void ActAt(const std::string& part, int times, std::function<void()> act) {
    part_ = part;
    times_ = times;
    act_ = std::move(act);
  }
  // From the listing after `skipped` more on, one leaves a file out, as may
  // happen to one that is renamed at that moment. act() comes before it.
  void HideAt(int skipped, const std::string& name, std::function<void()> act) {
    listings_ = skipped;
    hidden_ = name;
    act_ = std::move(act);
  }

  // The next logs to be opened have a hole.
  void MakeHoles(int times) { holes_ = times; }

  Status GetChildren(const std::string& path,
                     std::vector<std::string>* names) override {
    const bool hides = !hidden_.empty() && listings_-- == 0;
    if (hides) act_();
    Status status = target()->GetChildren(path, names);
    if (hides) std::erase(*names, std::exchange(hidden_, ""));
    return status;
  }

  Status NewSequentialFile(const std::string& path, const FileOptions& options,
                           std::unique_ptr<SequentialFile>* file) override {
    Meet(path);
    Status status = target()->NewSequentialFile(path, options, file);
    if (status.ok() && holes_ > 0 && path.ends_with(".log")) {
      --holes_;
      *file = std::make_unique<FileWithHole>(std::move(*file));
    }
    return status;
  }
  Status NewRandomAccessFile(const std::string& path,
                             const FileOptions& options,
                             std::unique_ptr<RandomAccessFile>* file) override {
    Meet(path);
    return target()->NewRandomAccessFile(path, options, file);
  }

 private:
  void Meet(const std::string& path) {
    if (times_ == 0 || !Contains(path, part_)) return;
    --times_;
    act_();
  }

  std::string part_;
  std::string hidden_;
  int listings_ = 0;
  int times_ = 0;
  int holes_ = 0;
  std::function<void()> act_;
};

class ErrorCounter final : public Logger {
 public:
  void Logv(LogLevel level, const char*, va_list) override {
    if (level == LogLevel::kError) ++errors;
  }
  std::atomic<int> errors{0};
};

class UnlockedReadTest : public ::testing::Test {
 protected:
  UnlockedReadTest() : acting_(Env::Default()), path_(dir_.Sub("db")) {
    options_ = TinyOptions();
    options_.disable_auto_compactions = true;
    options_.num_levels = 7;
    reading_ = options_;
    reading_.env = &acting_;
    OpenWriter();
  }
  ~UnlockedReadTest() override {
    reader_.reset();
    writer_.reset();
  }

  void OpenWriter() {
    writer_.reset();
    ASSERT_TRUE(Ok(DB::Open(options_, path_, &writer_)));
  }
  // Overwrites all keys, so that what is there shows which call was the last.
  void Write(int number) {
    WriteBatch batch;
    // More than is read when a table is opened.
    const std::string value = std::to_string(number) + std::string(4000, '.');
    for (int i = 0; i < kKeys; ++i) batch.Put(Key(i), value);
    ASSERT_TRUE(Ok(writer_->Write({}, &batch)));
    last_ = number;
  }
  void WriteAndFlush() {
    Write(last_ + 1);
    ASSERT_TRUE(Ok(writer_->Flush({})));
  }
  void WriteAndCompact() {
    WriteAndFlush();
    ASSERT_TRUE(Ok(writer_->CompactRange({}, nullptr, nullptr)));
  }
  Status OpenReader() {
    reader_.reset();
    return DB::OpenForReadOnly(reading_, path_, &reader_);
  }
  // All of one write, which is `least` or a later one.
  void ExpectOneMoment(int least) {
    EntryList entries;
    ASSERT_TRUE(Ok(ScanForward(reader_.get(), {}, &entries)));
    ASSERT_EQ(entries.size(), size_t{kKeys});
    for (const auto& [key, value] : entries) {
      EXPECT_EQ(value, entries[0].second) << key;
    }
    EXPECT_GE(atoi(entries[0].second.c_str()), least);
  }

  TempDir dir_;
  ActingEnv acting_;
  const std::string path_;
  Options options_;
  Options reading_;
  std::unique_ptr<DB> writer_;
  std::unique_ptr<DB> reader_;
  int last_ = 0;
};

TEST_F(UnlockedReadTest, TheWriterActsBeforeAnyStep) {
  const std::function<void()> acts[] = {[this] { Write(last_ + 1); },
                                        [this] { WriteAndFlush(); },
                                        [this] { WriteAndCompact(); },
                                        [this] {
                                          Write(last_ + 1);
                                          OpenWriter();
                                        }};
  for (const char* part : {"CURRENT", "MANIFEST", ".log", ".sst"}) {
    for (size_t act = 0; act < std::size(acts); ++act) {
      for (const bool paranoid : {true, false}) {
        SCOPED_TRACE(std::string(part) + " " + std::to_string(act));
        WriteAndFlush();
        WriteAndFlush();
        Write(last_ + 1);
        const int least = last_;
        reading_.paranoid_checks = paranoid;
        acting_.ActAt(part, 3, acts[act]);
        ASSERT_TRUE(Ok(OpenReader()));
        acting_.ActAt("", 0, nullptr);
        ExpectOneMoment(least);
        WriteAndCompact();
        ExpectOneMoment(least);
      }
    }
  }
}

TEST_F(UnlockedReadTest, AListingThatMissesCurrentIsNotBelieved) {
  Write(1);
  // The first listing only shows whether something changes.
  acting_.HideAt(1, "CURRENT", [this] { OpenWriter(); });
  ASSERT_TRUE(Ok(OpenReader()));
  ExpectOneMoment(1);
}

TEST_F(UnlockedReadTest, AWriterThatIsAlwaysFasterIsReported) {
  WriteAndFlush();
  acting_.ActAt(".sst", 1000000, [this] { WriteAndCompact(); });
  EXPECT_TRUE(IsBusy(OpenReader(), "another process changes it"));
}

// A mapped log has a block of zeros if a reader comes by just before it is
// written, and records after it if they are written before the reader is there.
TEST_F(UnlockedReadTest, AHoleThatAWriterFillsIsNotReported) {
  options_.write_buffer_size = 4 << 20;  // For one log.
  OpenWriter();
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(Ok(writer_->Put({}, Key(i % kKeys), std::string(100, '.'))));
  }
  reading_.info_log = std::make_shared<ErrorCounter>();
  const auto errors = [this] {
    return static_cast<ErrorCounter*>(reading_.info_log.get())->errors.load();
  };
  for (const WalRecoveryMode mode :
       {WalRecoveryMode::kPointInTime, WalRecoveryMode::kAbsoluteConsistency}) {
    reading_.wal_recovery_mode = mode;
    acting_.MakeHoles(1);
    ASSERT_TRUE(Ok(OpenReader()));
    EXPECT_EQ(reader_->GetLatestSequenceNumber(), 1000u);
    EXPECT_EQ(errors(), 0);
  }
  // One that stays is damage.
  acting_.MakeHoles(1000000);
  EXPECT_TRUE(IsCorruption(OpenReader(), "unwritten space"));
  reading_.wal_recovery_mode = WalRecoveryMode::kPointInTime;
  const int before = errors();
  ASSERT_TRUE(Ok(OpenReader()));
  EXPECT_LT(reader_->GetLatestSequenceNumber(), 1000u);
  EXPECT_EQ(errors(), before + 1);
}

TEST_F(UnlockedReadTest, DamageBesideAWriterIsDamage) {
  WriteAndFlush();
  std::vector<std::string> names;
  ASSERT_TRUE(Ok(Env::Default()->GetChildren(path_, &names)));
  for (const std::string& name : names) {
    if (!name.ends_with(".sst")) continue;
    ASSERT_TRUE(Ok(Env::Default()->Truncate(path_ + "/" + name, 100)));
  }
  acting_.ActAt("MANIFEST", 1000000, [this] { Write(last_ + 1); });
  EXPECT_TRUE(IsCorruption(OpenReader()));
}

// Its file may have been closed.
TEST_F(UnlockedReadTest, ARemovedTableIsNoMissingKeyAndNoDamage) {
  for (int i = 0; i < kManyTables; ++i) WriteAndFlush();
  reading_.max_open_files = 1;
  // Nothing of a block may be left.
  reading_.block_cache = NewTestCache(0);
  ASSERT_TRUE(Ok(OpenReader()));
  WriteAndCompact();
  EntryList entries;
  EXPECT_TRUE(
      IsIOError(ScanForward(reader_.get(), {}, &entries), "open it again"));
}

TEST_F(UnlockedReadTest, AnotherDatabasesTableIsNotRead) {
  for (int i = 0; i < kManyTables; ++i) WriteAndFlush();
  reading_.max_open_files = 1;
  reading_.block_cache = NewTestCache(0);
  ASSERT_TRUE(Ok(OpenReader()));
  writer_.reset();
  ASSERT_TRUE(Ok(DestroyDB(path_, options_)));
  OpenWriter();
  last_ = 100;
  for (int i = 0; i < kManyTables; ++i) WriteAndFlush();
  EntryList entries;
  const Status status = ScanForward(reader_.get(), {}, &entries);
  EXPECT_FALSE(status.ok() || status.IsNotFound()) << status.ToString();
}

}  // namespace
}  // namespace varve::test
