// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: listeners receive each background event once, in order, while no lock
// is held. Method: a listener that records all calls and reads the DB in them;
// flushes, compactions, stalls and failures at will.

#include "test/testing/db_helpers.h"
#include "test/testing/directory.h"
#include "test/testing/test_headers.h"
#include "varve/listener.h"
#include "varve/testing/fault_injection_env.h"

namespace varve::test {
namespace {

class Recorder final : public EventListener {
 public:
  struct Note {
    std::string what;
    FlushJobInfo flush;
    CompactionJobInfo compaction;
    WriteStallInfo stall;
    TableFileInfo table;
    std::pair<std::string, Status> error;
  };

  void OnFlushBegin(const FlushJobInfo& info) override {
    Add("flush begins", &Note::flush, info);
  }
  void OnFlushCompleted(const FlushJobInfo& info) override {
    Add("flush ends", &Note::flush, info);
  }
  void OnCompactionBegin(const CompactionJobInfo& info) override {
    Add("compaction begins", &Note::compaction, info);
  }
  void OnCompactionCompleted(const CompactionJobInfo& info) override {
    Add("compaction ends", &Note::compaction, info);
  }
  void OnStallConditionsChanged(const WriteStallInfo& info) override {
    Add("stall", &Note::stall, info);
  }
  void OnBackgroundError(const std::string& where,
                         const Status& status) override {
    Add("error", &Note::error, {where, status});
  }
  void OnTableFileCreated(const TableFileInfo& info) override {
    Add("created", &Note::table, info);
  }
  void OnTableFileDeleted(const TableFileInfo& info) override {
    Add("deleted", &Note::table, info);
  }

  std::vector<Note> Notes(const std::string& what) {
    std::lock_guard lock(mutex_);
    std::vector<Note> notes;
    for (const Note& note : notes_) {
      if (note.what == what) notes.push_back(note);
    }
    return notes;
  }
  std::vector<std::string> Order() {
    std::lock_guard lock(mutex_);
    std::vector<std::string> order;
    for (const Note& note : notes_) order.push_back(note.what);
    return order;
  }
  void Clear() {
    std::lock_guard lock(mutex_);
    notes_.clear();
  }

  // Called for each event, before it is noted.
  std::function<void()> meanwhile = [] {};

 private:
  template <typename Info>
  void Add(const char* what, Info Note::*part, const Info& info) {
    meanwhile();
    Note note;
    note.what = what;
    note.*part = info;
    std::lock_guard lock(mutex_);
    notes_.push_back(note);
  }

  std::mutex mutex_;
  std::vector<Note> notes_;
};

class DbListenerTest : public DbTestBase {
 protected:
  DbListenerTest() {
    options_.listeners = {recorder_};
    options_.disable_auto_compactions = true;
  }
  const std::shared_ptr<Recorder> recorder_ = std::make_shared<Recorder>();
};

TEST_F(DbListenerTest, TellsOfFlushes) {
  Open();
  Put(Key(1), "1");
  Flush();
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  EXPECT_EQ(recorder_->Order(), (std::vector<std::string>{
                                    "flush begins", "created", "flush ends"}));
  const FlushJobInfo begin = recorder_->Notes("flush begins")[0].flush;
  EXPECT_EQ(begin.memtables, 1u);
  EXPECT_EQ(begin.db_path, path_);
  const FlushJobInfo end = recorder_->Notes("flush ends")[0].flush;
  EXPECT_TRUE(Ok(end.status));
  EXPECT_GT(end.file_bytes, 0u);
  const TableFileInfo created = recorder_->Notes("created")[0].table;
  EXPECT_EQ(created.file_number, end.file_number);
  EXPECT_EQ(created.file_bytes, end.file_bytes);
  uint64_t size = 0;
  EXPECT_TRUE(Ok(Env::Default()->GetFileSize(created.file_path, &size)));
  EXPECT_EQ(size, created.file_bytes);
}

TEST_F(DbListenerTest, TellsOfCompactionsAndTheirFiles) {
  Open();
  std::set<uint64_t> flushed;
  for (int i = 0; i < 3; i++) {
    Put(Key(1), std::to_string(i));
    Flush();
  }
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  for (const auto& note : recorder_->Notes("created")) {
    flushed.insert(note.table.file_number);
  }
  EXPECT_EQ(flushed.size(), 3u);
  recorder_->Clear();
  CompactAll();
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  const auto begins = recorder_->Notes("compaction begins");
  const auto ends = recorder_->Notes("compaction ends");
  ASSERT_GE(ends.size(), 1u);
  ASSERT_EQ(begins.size(), ends.size());
  const CompactionJobInfo first = ends[0].compaction;
  EXPECT_TRUE(Ok(first.status));
  EXPECT_EQ(first.base_input_level, 0);
  EXPECT_EQ(
      std::set<uint64_t>(first.input_files.begin(), first.input_files.end()),
      flushed);
  EXPECT_EQ(begins[0].compaction.input_files, first.input_files);
  EXPECT_TRUE(begins[0].compaction.output_files.empty());
  ASSERT_EQ(first.output_files.size(), 1u);
  EXPECT_GT(first.output_bytes, 0u);
  std::set<uint64_t> deleted;
  for (const auto& note : recorder_->Notes("deleted")) {
    EXPECT_TRUE(Ok(note.table.status));
    EXPECT_TRUE(Env::Default()->FileExists(note.table.file_path).IsNotFound());
    deleted.insert(note.table.file_number);
  }
  for (const uint64_t number : flushed) EXPECT_EQ(deleted.count(number), 1u);
}

TEST_F(DbListenerTest, TellsOfStalls) {
  Open();
  for (int i = 0; i < 3; i++) {
    Put(Key(1), std::to_string(i));
    Flush();
  }
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  EXPECT_TRUE(recorder_->Notes("stall").empty());
  ASSERT_TRUE(Ok(db_->SetOptions({{"level0_file_num_compaction_trigger", "2"},
                                  {"level0_slowdown_writes_trigger", "2"},
                                  {"level0_stop_writes_trigger", "3"},
                                  {"disable_auto_compactions", "false"}})));
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  std::vector<WriteStallCondition> conditions;
  for (const auto& note : recorder_->Notes("stall")) {
    EXPECT_NE(note.stall.current, note.stall.previous);
    conditions.push_back(note.stall.current);
  }
  using C = WriteStallCondition;
  EXPECT_EQ(conditions, (std::vector<C>{C::kStopped, C::kNormal}));
  EXPECT_STREQ(recorder_->Notes("stall")[0].stall.cause, "level-0 files");
}

TEST_F(DbListenerTest, TellsOfWritersThatWaitForAFlush) {
  // A listener that paused a flush would delay the later calls as well.
  class HoldsFlushes final : public EnvWrapper {
   public:
    explicit HoldsFlushes(Env* target) : EnvWrapper(target) {}
    Status Schedule(std::function<void()> job, Priority priority) override {
      return EnvWrapper::Schedule(
          [this, job = std::move(job)] {
            while (hold) std::this_thread::yield();
            job();
          },
          priority);
    }
    std::atomic<bool> hold{true};
  };
  HoldsFlushes env(Env::Default());
  options_.env = &env;
  options_.write_buffer_size = 64 << 10;
  for (const int buffers : {2, 4}) {
    SCOPED_TRACE(buffers);
    env.hold = true;
    options_.max_write_buffer_number = buffers;
    Open();
    const size_t before = recorder_->Notes("stall").size();
    std::atomic<bool> done{false};
    std::thread writer([this, &done] {
      const std::string value(100, 'x');
      for (int i = 0; i < 4000; i++) {
        EXPECT_TRUE(Ok(db_->Put({}, Key(i), value)));
      }
      done = true;
    });
    const auto is_told = [this, before] {
      const auto notes = recorder_->Notes("stall");
      return notes.size() > before &&
             notes.back().stall.current == WriteStallCondition::kStopped;
    };
    while (!is_told()) std::this_thread::yield();
    EXPECT_EQ(Number("varve.is-write-stopped"), 1u);
    EXPECT_TRUE(db_->Put({.no_slowdown = true}, Key(1), "1").IsIncomplete());
    const auto told = recorder_->Notes("stall");
    EXPECT_STREQ(told.back().stall.cause, "memtables waiting for flush");
    EXPECT_FALSE(done);
    env.hold = false;
    writer.join();
    Flush();
    EXPECT_EQ(Number("varve.is-write-stopped"), 0u);
    EXPECT_EQ(recorder_->Notes("stall").back().stall.current,
              WriteStallCondition::kNormal);
    db_.reset();
  }
}

TEST_F(DbListenerTest, TellsOfErrorsOnce) {
  const auto memory = NewMemoryEnv(Env::Default());
  FaultInjectionEnv faulty(memory.get());
  options_.env = &faulty;
  path_ = "/db";
  Open();
  Put(Key(1), "1");
  faulty.SetPathFilter(".sst");
  faulty.FailAfter(0, FaultInjectionEnv::InjectedError(), kAllOperations);
  EXPECT_FALSE(db_->Flush({}).ok());
  EXPECT_FALSE(db_->Put({}, Key(2), "2").ok());
  EXPECT_FALSE(db_->Flush({}).ok());
  // The job that failed still has something to tell.
  while (recorder_->Notes("flush ends").empty() ||
         recorder_->Notes("error").empty()) {
    std::this_thread::yield();
  }
  EXPECT_FALSE(recorder_->Notes("flush ends")[0].flush.status.ok());
  EXPECT_FALSE(recorder_->Notes("created")[0].table.status.ok());
  faulty.ClearFailure();
  ASSERT_TRUE(Ok(db_->Resume()));
  EXPECT_EQ(recorder_->Notes("error").size(), 1u);
  EXPECT_EQ(recorder_->Notes("error")[0].error.first, "a flush");
  EXPECT_TRUE(Ok(recorder_->Notes("flush ends").back().flush.status));
  db_.reset();
}

// Each table that was begun is reported, and removed.
TEST_F(DbListenerTest, TellsOfTablesThatACompactionCouldNotMake) {
  FaultInjectionEnv faulty(Env::Default());
  options_.env = &faulty;
  options_.max_subcompactions = 2;
  options_.target_file_size_base = 4096;
  options_.compression = CompressionType::kNone;
  options_.write_buffer_size = 1 << 20;
  Open();
  for (int table = 0; table < 2; ++table) {
    for (int i = 0; i < 400; ++i) Put(Key(i), std::string(100, 'v'));
    Flush();
  }
  const auto fail = [&](const std::string& what) {
    SCOPED_TRACE(what);
    recorder_->Clear();
    EXPECT_TRUE(db_->CompactRange({}, nullptr, nullptr).IsIOError());
    const std::vector<Recorder::Note> created = recorder_->Notes("created");
    EXPECT_GT(created.size(), 4u);
    for (const Recorder::Note& note : created) {
      EXPECT_TRUE(note.table.status.IsIOError());
      EXPECT_EQ(note.table.file_bytes, 0u);
      EXPECT_TRUE(faulty.FileExists(note.table.file_path).IsNotFound());
    }
    EXPECT_EQ(FilesEndingIn(path_, ".sst").size(), 2u);
    faulty.ClearFailure();
    ASSERT_TRUE(Ok(db_->Resume()));
  };
  faulty.SetPathFilter(".sst");
  faulty.FailAfter(4, FaultInjectionEnv::InjectedError(), kSyncOperation);
  fail("a table's sync");
  // When all tables are whole.
  faulty.SetPathFilter("");
  faulty.FailAfter(0, FaultInjectionEnv::InjectedError(),
                   kSyncDirectoryOperation);
  fail("the directory's sync");
  recorder_->Clear();
  CompactAll();
  for (const Recorder::Note& note : recorder_->Notes("created")) {
    EXPECT_TRUE(Ok(note.table.status));
  }
  db_.reset();
}

TEST_F(DbListenerTest, TellsOfTablesThatCannotBeRemoved) {
  options_.statistics = NewTestStatistics();
  FaultInjectionEnv faulty(Env::Default());
  options_.env = &faulty;
  Open();
  for (int table = 0; table < 3; ++table) {
    Put(Key(1), "1");
    Flush();
  }
  faulty.SetPathFilter(".sst");
  faulty.FailAfter(1, FaultInjectionEnv::InjectedError(), kRemoveOperation);
  CompactAll();
  const std::vector<Recorder::Note> deleted = recorder_->Notes("deleted");
  ASSERT_EQ(deleted.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(deleted[i].table.status.IsIOError(), i == 1);
    EXPECT_EQ(faulty.FileExists(deleted[i].table.file_path).ok(), i == 1);
  }
  EXPECT_EQ(options_.statistics->getTickerCount(Ticker::kFilesDeleted), 2u);
  db_.reset();
}

TEST_F(DbListenerTest, IsCalledWithNoLockHeld) {
  Open();
  recorder_->meanwhile = [this] {
    if (db_ == nullptr) return;
    uint64_t number;
    EXPECT_TRUE(db_->GetIntProperty("varve.num-live-versions", &number));
    EXPECT_EQ(Get(Key(1)), "1");
    db_->ReleaseSnapshot(db_->GetSnapshot());
  };
  Put(Key(1), "1");
  Do("flush, compact, wait");
  EXPECT_FALSE(recorder_->Notes("compaction ends").empty());
}

TEST_F(DbListenerTest, HasReceivedAllCallsWhenCloseReturns) {
  for (int round = 0; round < 5; round++) {
    recorder_->Clear();
    Open();
    FlushOptions options{.wait = false};
    for (int i = 0; i < 3; i++) {
      Put(Key(i), "1");
      ASSERT_TRUE(Ok(db_->Flush(options)));
    }
    Close();
    EXPECT_EQ(recorder_->Notes("flush begins").size(),
              recorder_->Notes("flush ends").size());
    const size_t told = recorder_->Order().size();
    EXPECT_EQ(recorder_->Order().size(), told);
  }
}

TEST_F(DbListenerTest, TellsSeveral) {
  const auto second = std::make_shared<Recorder>();
  options_.listeners.push_back(second);
  Open();
  Put(Key(1), "1");
  Flush();
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  EXPECT_EQ(recorder_->Order(), second->Order());
  EXPECT_EQ(second->Order().size(), 3u);
}

}  // namespace
}  // namespace varve::test
