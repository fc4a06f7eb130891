// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A process that writes numbered batches until it is killed. The number of the
// newest batch that a reader sees says what all other entries must be.

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "test/testing/db_helpers.h"
#include "test/testing/machine/shared_memory.h"
#include "test/testing/run_tool.h"
#include "test/testing/seed.h"

namespace varve::test {

inline constexpr const char* kNewestKey = "newest";

// What the batches do.
struct NumberedBatches {
  int64_t slots;
  // The slots that a range deletion empties, and how often there is one.
  int64_t range_slots;
  int64_t range_period;
  // How often a batch is tables from outside, which put; 0: never.
  int64_t ingestion_period = 0;

  static std::string KeyOfSlot(int64_t slot) {
    return Key(static_cast<int>(slot));
  }
  std::string KeyOf(int64_t number) const { return KeyOfSlot(number % slots); }
  static std::string ValueOf(int64_t number) {
    const uint64_t mixed = static_cast<uint64_t>(number) * 0x9E3779B97F4A7C15u;
    std::string value = std::to_string(number) + ":";
    value.append(static_cast<size_t>(mixed >> 55), 'v');
    return value;
  }
  bool IsIngestion(int64_t number) const {
    return ingestion_period != 0 &&
           number % ingestion_period == ingestion_period * 777 / 1000;
  }
  bool IsDeletion(int64_t number) const {
    return number % 7 == 0 && !IsIngestion(number);
  }
  bool IsRangeDeletion(int64_t number) const {
    return number % range_period == range_period / 2;
  }
  // Adds a family's part of the batch. Null: of the default family.
  void AddTo(WriteBatch* batch, ColumnFamilyHandle* family,
             int64_t number) const {
    if (IsRangeDeletion(number)) {
      batch->DeleteRange(family, KeyOfSlot(0), KeyOfSlot(range_slots));
    }
    if (IsDeletion(number)) {
      batch->Delete(family, KeyOf(number));
    } else {
      batch->Put(family, KeyOf(number), ValueOf(number));
    }
    batch->Put(family, kNewestKey, std::to_string(number));
  }
  // Returns the expected contents of a family after that batch.
  EntryList ContentsAfter(int64_t number) const {
    EntryList entries;
    // The last range deletion, which removed older entries from its slots.
    int64_t cleared = number - number % range_period + range_period / 2;
    if (cleared > number) cleared -= range_period;
    for (int64_t slot = 0; slot < slots; ++slot) {
      const int64_t newest = number - ((number - slot) % slots + slots) % slots;
      if (newest <= 0 || IsDeletion(newest)) continue;
      if (slot < range_slots && newest < cleared) continue;
      entries.emplace_back(KeyOfSlot(slot), ValueOf(newest));
    }
    if (number > 0) entries.emplace_back(kNewestKey, std::to_string(number));
    return entries;
  }
};

// Returns the number of the newest batch in a family's entries.
inline int64_t NewestIn(const EntryList& entries) {
  return !entries.empty() && entries.back().first == kNewestKey
             ? atoll(entries.back().second.c_str())
             : 0;
}

struct WriterMode {
  const char* name;  // The directory has it too, so that the writer knows it.
  bool sync;
  WriteMethod method;
  size_t write_buffer_size;

  Options MakeOptions() const {
    Options options = TinyOptions();
    options.wal_write = method;
    options.write_buffer_size = write_buffer_size;
    return options;
  }
};

// The writer's progress, in memory that both processes share.
struct WriterProgress {
  std::atomic<int64_t> begun;
  std::atomic<int64_t> returned;
  std::atomic<int64_t> opened;  // Times the database was opened.
  std::atomic<int64_t> failed;
};

// The writer's database.
struct WriterCalls {
  std::function<Status()> open;
  std::function<Status(const WriteOptions&, int64_t number)> write;
  std::function<Status(Rng*)> rest;  // After each write: flushes and so on.
  std::function<Status()> close;
};

// Does the writer's work. Returns the exit code after an error.
inline int RunWriter(const WriterMode& mode, const std::string& place,
                     uint64_t seed, const WriterCalls& calls) {
  auto* const progress = MapShared<WriterProgress>(place + "/progress");
  WriteOptions options;
  for (Rng rng(seed);;) {
    Status status = calls.open();
    progress->opened.fetch_add(1);
    for (int i = 0; i < 20000 && status.ok(); ++i) {
      const int64_t number = progress->returned.load() + 1;
      progress->begun.store(number);
      options.sync = mode.sync && !rng.OneIn(3);
      status = calls.write(options, number);
      if (status.ok()) progress->returned.store(number);
      if (status.ok()) status = calls.rest(&rng);
    }
    if (status.ok()) status = calls.close();
    if (!status.ok()) {
      fprintf(stderr, "%s\n", status.ToString().c_str());
      progress->failed.store(1);
      return 1;
    }
  }
}

// The variable that tells a test of this program that it is the writer.
inline constexpr const char* kWriterVariable = "VARVE_NUMBERED_WRITER";

// For that test, which does nothing by itself: ends the process with the result
// of work(mode, place), if it is a writer.
template <typename Work>
void WorkIfWriter(std::span<const WriterMode> modes, Work work) {
  const char* const place = getenv(kWriterVariable);
  if (place == nullptr) return;
  for (const WriterMode& mode : modes) {
    if (std::string(place).ends_with(std::string("/") + mode.name)) {
      _exit(work(mode, place));
    }
  }
  _exit(2);
}

// The tests beside the writer.
class BesideWriterTest : public ::testing::TestWithParam<WriterMode> {
 protected:
  // `writer`: the name of the test that is the writer.
  explicit BesideWriterTest(const char* writer) : writer_test_(writer) {}

  void SetUp() override {
    place_ = dir_.Sub(GetParam().name);
    ASSERT_EQ(mkdir(place_.c_str(), 0755), 0);
    progress_ = MapShared<WriterProgress>(place_ + "/progress");
  }
  void TearDown() override {
    EXPECT_EQ(progress_->failed.load(), 0);
    if (writer_ != nullptr) KillWriter();
    munmap(progress_, sizeof(WriterProgress));
  }
  // Returns when the writer has written something.
  void StartWriter() {
    const int64_t before = progress_->returned.load();
    setenv(kWriterVariable, place_.c_str(), 1);
    writer_ = std::make_unique<RunningTool>(std::vector<std::string>{
        "/proc/self/exe", std::string("--gtest_filter=") + writer_test_});
    unsetenv(kWriterVariable);
    while (progress_->returned.load() == before && !writer_->HasEnded()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ASSERT_GT(progress_->returned.load(), before) << "nothing was written";
  }
  void KillWriter() {
    writer_->Kill();
    const ToolResult& result = writer_->Wait();
    EXPECT_EQ(result.exit_code, 128 + SIGKILL) << result.Summary();
    writer_.reset();
  }
  std::string Db() const { return place_ + "/db"; }

  TempDir dir_;
  std::string place_;
  WriterProgress* progress_ = nullptr;

 private:
  const char* const writer_test_;
  std::unique_ptr<RunningTool> writer_;
};

}  // namespace varve::test
