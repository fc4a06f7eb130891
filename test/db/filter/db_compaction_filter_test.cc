// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: compaction filters see each job's context, decide on what they should,
// and cannot damage or block a database.
// Method: filters that remove, change, skip, throw, block, or read the
// database.

#include <stdexcept>

#include "test/testing/db/families_fixture.h"
#include "test/testing/db_helpers.h"
#include "test/testing/test_headers.h"
#include "test/testing/threads/actor.h"
#include "varve/compaction_filter.h"
#include "varve/merge_operator.h"
#include "varve/statistics.h"

namespace varve::test {
namespace {

using Decision = CompactionFilter::Decision;
using Decide =
    std::function<Decision(const Slice& key, const Slice& value,
                           std::string* new_value, std::string* skip_until)>;

// Calls a function of the test.
class FunctionFilter : public CompactionFilter {
 public:
  explicit FunctionFilter(Decide decide) : decide_(std::move(decide)) {}

  Decision FilterV2(int, const Slice& key, ValueType,
                    const Slice& existing_value, std::string* new_value,
                    std::string* skip_until) const override {
    return decide_(key, existing_value, new_value, skip_until);
  }
  const char* Name() const override { return "FunctionFilter"; }

 private:
  const Decide decide_;
};

// Keeps what its filters are for, and checks that each is called by one thread.
class RecordingFactory : public CompactionFilterFactory {
 public:
  explicit RecordingFactory(Decide decide) : decide_(std::move(decide)) {}

  bool ShouldFilterTableFileCreation(
      TableFileCreationReason reason) const override {
    return reasons.count(reason) != 0;
  }
  std::unique_ptr<CompactionFilter> CreateCompactionFilter(
      const CompactionFilter::Context& context) override {
    const std::lock_guard lock(mutex_);
    contexts_.push_back(context);
    ++live;
    return std::make_unique<Filter>(this);
  }
  const char* Name() const override { return "RecordingFactory"; }

  std::vector<CompactionFilter::Context> TakeContexts() {
    const std::lock_guard lock(mutex_);
    return std::exchange(contexts_, {});
  }

  // Set before Open.
  std::set<TableFileCreationReason> reasons = {
      TableFileCreationReason::kCompaction};
  std::atomic<int> live = 0;
  std::atomic<int> calls = 0;
  std::atomic<bool> called_by_two_threads = false;

 private:
  class Filter : public CompactionFilter {
   public:
    explicit Filter(RecordingFactory* factory) : factory_(*factory) {}
    ~Filter() override { --factory_.live; }

    Decision FilterV2(int, const Slice& key, ValueType,
                      const Slice& existing_value, std::string* new_value,
                      std::string* skip_until) const override {
      ++factory_.calls;
      if (thread_ == std::thread::id()) thread_ = std::this_thread::get_id();
      if (thread_ != std::this_thread::get_id()) {
        factory_.called_by_two_threads = true;
      }
      return factory_.decide_(key, existing_value, new_value, skip_until);
    }
    const char* Name() const override { return "RecordingFactory's"; }

   private:
    RecordingFactory& factory_;
    mutable std::thread::id thread_;
  };

  const Decide decide_;
  std::mutex mutex_;
  std::vector<CompactionFilter::Context> contexts_;
};

Decision KeepAll(const Slice&, const Slice&, std::string*, std::string*) {
  return Decision::kKeep;
}
Decision RemoveAll(const Slice&, const Slice&, std::string*, std::string*) {
  return Decision::kRemove;
}

// A place where a filter waits until the test lets it go on.
class Barrier {
 public:
  void Wait() {
    std::unique_lock lock(mutex_);
    ++arrived_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
  }
  void AwaitArrival() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return arrived_ > 0; });
  }
  void Open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int arrived_ = 0;
  bool open_ = false;
};

class DbCompactionFilterTest : public DbTestBase {
 protected:
  DbCompactionFilterTest() {
    options_.disable_auto_compactions = true;
    options_.statistics = NewTestStatistics();
  }

  void UseFilter(Decide decide) {
    filter_ = std::make_unique<FunctionFilter>(std::move(decide));
    options_.compaction_filter = filter_.get();
  }
  std::shared_ptr<RecordingFactory> UseFactory(Decide decide) {
    auto factory = std::make_shared<RecordingFactory>(std::move(decide));
    options_.compaction_filter_factory = factory;
    return factory;
  }
  void Fill(int count, const std::string& value = "value") {
    for (int i = 0; i < count; ++i) Put(Key(i), value);
  }
  uint64_t Count(Ticker ticker) const {
    return options_.statistics->getTickerCount(ticker);
  }
  Status Compact() { return db_->CompactRange({}, nullptr, nullptr); }

  std::unique_ptr<FunctionFilter> filter_;
};

TEST_F(DbCompactionFilterTest, RemovesChangesAndKeeps) {
  UseFilter(
      [](const Slice& key, const Slice&, std::string* new_value, std::string*) {
        if (key == Key(1)) return Decision::kRemove;
        if (key != Key(2)) return Decision::kKeep;
        *new_value = "changed";
        return Decision::kChangeValue;
      });
  Open();
  Fill(4);
  Flush();
  EXPECT_EQ(Get(Key(1)), "value");
  ASSERT_TRUE(Ok(Compact()));
  const EntryList expected = {
      {Key(0), "value"}, {Key(2), "changed"}, {Key(3), "value"}};
  EXPECT_TRUE(HasEntries(db_.get(), expected));
  EXPECT_EQ(Get(Key(1)), "NotFound");
  EXPECT_EQ(Count(Ticker::kCompactionDropUser), 1u);
  Reopen();
  EXPECT_TRUE(HasEntries(db_.get(), expected));
}

TEST_F(DbCompactionFilterTest, CompactRangeAsksForTheLastLevelToo) {
  std::atomic<bool> removes = false;
  UseFilter([&removes](const Slice&, const Slice&, std::string*, std::string*) {
    return removes ? Decision::kRemove : Decision::kKeep;
  });
  Open();
  Fill(100);
  ASSERT_TRUE(Ok(Compact()));
  removes = true;
  ASSERT_TRUE(Ok(Compact()));
  EXPECT_TRUE(HasEntries(db_.get(), {}));
  EXPECT_EQ(Tables(), 0u);
}

TEST_F(DbCompactionFilterTest, ContextsDescribeTheJobs) {
  const auto factory = UseFactory(KeepAll);
  Open();
  ColumnFamilyHandle* family = nullptr;
  ASSERT_TRUE(Ok(db_->CreateColumnFamily(options_, "second", &family)));
  Put("a", "1");
  Flush();
  EXPECT_TRUE(factory->TakeContexts().empty()) << "a flush";
  ASSERT_TRUE(Ok(Compact()));
  auto contexts = factory->TakeContexts();
  ASSERT_EQ(contexts.size(), 1u);
  EXPECT_TRUE(contexts[0].is_manual_compaction);
  EXPECT_TRUE(contexts[0].is_full_compaction);
  EXPECT_EQ(contexts[0].column_family_id, 0u);
  EXPECT_EQ(contexts[0].column_family_name, "default");
  EXPECT_EQ(contexts[0].reason, TableFileCreationReason::kCompaction);
  ASSERT_GE(contexts[0].output_level, 1);
  EXPECT_EQ(TablesAt(contexts[0].output_level), 1u);

  ASSERT_TRUE(Ok(db_->Put({}, family, "b", "2")));
  ASSERT_TRUE(Ok(db_->CompactRange({}, family, nullptr, nullptr)));
  contexts = factory->TakeContexts();
  ASSERT_EQ(contexts.size(), 1u);
  EXPECT_EQ(contexts[0].column_family_id, 1u);
  EXPECT_EQ(contexts[0].column_family_name, "second");

  // Not all tables, and not requested.
  ASSERT_TRUE(Ok(db_->SetOptions({{"disable_auto_compactions", "false"}})));
  Put("z", "1");
  ASSERT_TRUE(Ok(Compact()));
  factory->TakeContexts();
  for (int i = 0; i < 4; ++i) {
    Do("put a 2, put b 2, flush");
  }
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  contexts = factory->TakeContexts();
  ASSERT_FALSE(contexts.empty());
  EXPECT_FALSE(contexts[0].is_manual_compaction);
  EXPECT_EQ(factory->live, 0);
  delete family;
}

TEST_F(DbCompactionFilterTest, EachPartHasItsFilter) {
  const auto factory = UseFactory([](const Slice& key, const Slice&,
                                     std::string*, std::string*) {
    return key.ToString().back() % 2 == 0 ? Decision::kRemove : Decision::kKeep;
  });
  options_.max_subcompactions = 4;
  options_.disable_auto_compactions = true;
  Open();
  Fill(20000, std::string(50, 'v'));
  ASSERT_TRUE(Ok(Compact()));
  EXPECT_GT(factory->TakeContexts().size(), 1u);
  EXPECT_EQ(factory->live, 0);
  EXPECT_EQ(factory->calls, 20000);
  EXPECT_FALSE(factory->called_by_two_threads);
  EntryList found;
  ASSERT_TRUE(Ok(ScanForward(db_.get(), {}, &found)));
  EXPECT_EQ(found.size(), 10000u);
  EXPECT_EQ(Count(Ticker::kCompactionDropUser), 10000u);
}

TEST_F(DbCompactionFilterTest, AFilterGoesBeforeAFactory) {
  const auto factory = UseFactory(RemoveAll);
  UseFilter(KeepAll);
  Open();
  Fill(10);
  ASSERT_TRUE(Ok(Compact()));
  EXPECT_EQ(Get(Key(3)), "value");
  EXPECT_TRUE(factory->TakeContexts().empty());
}

TEST_F(DbCompactionFilterTest, FlushesAreFilteredIfTheFactoryAsks) {
  const auto factory = UseFactory(RemoveAll);
  factory->reasons = {TableFileCreationReason::kFlush};
  Open();
  Fill(10);
  EXPECT_EQ(Get(Key(3)), "value");
  Flush();
  EXPECT_EQ(Get(Key(3)), "NotFound");
  const auto contexts = factory->TakeContexts();
  ASSERT_EQ(contexts.size(), 1u);
  EXPECT_EQ(contexts[0].reason, TableFileCreationReason::kFlush);
  EXPECT_EQ(contexts[0].output_level, 0);
  EXPECT_FALSE(contexts[0].is_manual_compaction);
}

TEST_F(DbCompactionFilterTest, RecoveriesAreFilteredIfTheFactoryAsks) {
  for (const bool asks : {false, true}) {
    const auto factory = UseFactory(RemoveAll);
    factory->reasons = {TableFileCreationReason::kCompaction};
    if (asks) factory->reasons = {TableFileCreationReason::kRecovery};
    options_.write_buffer_size = 4 << 20;
    OpenAnew();
    Fill(3000, std::string(100, 'v'));
    Close();
    options_.write_buffer_size = 64 << 10;
    Open();
    EXPECT_GE(TablesAt(0), asks ? 0u : 1u);
    const auto contexts = factory->TakeContexts();
    EXPECT_EQ(contexts.empty(), !asks);
    for (const CompactionFilter::Context& context : contexts) {
      EXPECT_EQ(context.reason, TableFileCreationReason::kRecovery);
    }
    EXPECT_EQ(Get(Key(0)), asks ? "NotFound" : std::string(100, 'v'));
  }
}

TEST_F(DbCompactionFilterTest, SnapshotsKeepTheirVersions) {
  UseFilter(RemoveAll);
  Open();
  Put("a", "old");
  Put("b", "old");
  const Snapshot* const snapshot = db_->GetSnapshot();
  Put("a", "new");
  Put("c", "new");
  ASSERT_TRUE(Ok(Compact()));
  EXPECT_EQ(Get("a"), "NotFound");
  EXPECT_EQ(Get("b"), "old");
  EXPECT_EQ(Get("c"), "NotFound");
  EXPECT_EQ(Get("a", snapshot), "old");
  EXPECT_EQ(Get("b", snapshot), "old");
  db_->ReleaseSnapshot(snapshot);
  ASSERT_TRUE(Ok(Compact()));
  EXPECT_TRUE(HasEntries(db_.get(), {}));
}

TEST_F(DbCompactionFilterTest, SkippedKeysAreRemoved) {
  UseFilter([](const Slice& key, const Slice&, std::string*,
               std::string* skip_until) {
    if (key != Key(100)) return Decision::kKeep;
    *skip_until = Key(900);
    return Decision::kRemoveAndSkipUntil;
  });
  for (const bool with_snapshot : {false, true}) {
    OpenAnew();
    Fill(1000, "old");
    Flush();
    const Snapshot* const snapshot =
        with_snapshot ? db_->GetSnapshot() : nullptr;
    Fill(1000);
    EntryList expected;
    for (int i = 0; i < 1000; ++i) {
      if (i < 100 || i >= 900) expected.emplace_back(Key(i), "value");
    }
    ASSERT_TRUE(Ok(Compact()));
    EXPECT_TRUE(HasEntries(db_.get(), expected));
    EXPECT_EQ(Get(Key(500)), "NotFound");
    if (snapshot == nullptr) continue;
    EXPECT_EQ(Get(Key(500), snapshot), "old");
    db_->ReleaseSnapshot(snapshot);
    ASSERT_TRUE(Ok(Compact()));
    EXPECT_TRUE(HasEntries(db_.get(), expected));
  }
}

TEST_F(DbCompactionFilterTest, AFilterThatThrowsKeepsTheRest) {
  std::atomic<int> calls = 0;
  UseFilter([&calls](const Slice&, const Slice&, std::string*, std::string*) {
    if (++calls == 3) throw std::runtime_error("as requested");
    return Decision::kRemove;
  });
  Open();
  Fill(10);
  ASSERT_TRUE(Ok(Compact()));
  EXPECT_EQ(calls, 3);
  EntryList expected;
  for (int i = 2; i < 10; ++i) expected.emplace_back(Key(i), "value");
  EXPECT_TRUE(HasEntries(db_.get(), expected));
  EXPECT_EQ(Count(Ticker::kCompactionFilterErrors), 1u);
  // The next job asks again.
  ASSERT_TRUE(Ok(Compact()));
  EXPECT_TRUE(HasEntries(db_.get(), {}));
}

TEST_F(DbCompactionFilterTest, AFilterMayReadTheDatabase) {
  std::atomic<int> errors = 0;
  UseFilter([this, &errors](const Slice& key, const Slice&, std::string*,
                            std::string*) {
    std::string flag;
    const Status status = db_->Get({}, "flag/" + key.ToString(), &flag);
    if (!status.ok() && !status.IsNotFound()) ++errors;
    const auto it = db_->NewIterator({});
    it->Seek(key);
    if (!it->Valid() || it->key() != key) ++errors;
    std::vector<Slice> keys = {key, "flag"};
    std::string values[2];
    Status statuses[2];
    db_->MultiGet({}, 2, keys.data(), values, statuses);
    if (!statuses[0].ok() || !statuses[1].IsNotFound()) ++errors;
    return status.ok() ? Decision::kRemove : Decision::kKeep;
  });
  Open();
  Fill(100);
  for (int i = 0; i < 100; i += 2) Put("flag/" + Key(i), "");
  Flush();
  const std::string begin = Key(0);
  const Slice begin_slice = begin;
  ASSERT_TRUE(Ok(db_->CompactRange({}, &begin_slice, nullptr)));
  EXPECT_EQ(errors, 0);
  EXPECT_EQ(Get(Key(4)), "NotFound");
  EXPECT_EQ(Get(Key(5)), "value");
}

// The database can be used while a filter does not return; a cancellation and
// Close wait for its call, and no other begins.
TEST_F(DbCompactionFilterTest, CancellationWaitsForOneCall) {
  enum Mode { kCancel, kCancelAndClose, kClose };
  for (const Mode mode : {kCancel, kCancelAndClose, kClose}) {
    Barrier barrier;
    std::atomic<int> calls = 0;
    UseFilter([&](const Slice&, const Slice&, std::string*, std::string*) {
      ++calls;
      barrier.Wait();
      return Decision::kRemove;
    });
    OpenAnew();
    Fill(1000);
    Flush();
    Actor compacting;
    Status compacted;
    compacting.Start([&] { compacted = Compact(); });
    barrier.AwaitArrival();
    Put("other", "written");
    EXPECT_EQ(Get("other"), "written");
    EXPECT_EQ(Get(Key(0)), "value");
    Flush();
    if (mode != kClose) db_->CancelAllBackgroundWork(false);
    Actor stopping;
    std::atomic<bool> has_stopped = false;
    Status closed;
    stopping.Start([&] {
      if (mode != kCancel) {
        closed = db_->Close();
      } else {
        db_->CancelAllBackgroundWork(true);
      }
      has_stopped = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_FALSE(has_stopped);
    if (mode == kCancel) {
      EXPECT_EQ(Get("other"), "written");
    }
    barrier.Open();
    stopping.Wait();
    compacting.Wait();
    EXPECT_TRUE(Ok(closed));
    if (mode != kClose) {
      EXPECT_TRUE(IsShutdownInProgress(compacted));
      EXPECT_EQ(calls, 1);
    }
    db_.reset();
    filter_.reset();
    options_.compaction_filter = nullptr;
    Open();
    EXPECT_EQ(Get("other"), "written");
    // Without a cancellation, Close may come after the compaction.
    const std::string expected = compacted.ok() ? "NotFound" : "value";
    for (const int i : {0, 1, 500, 999}) EXPECT_EQ(Get(Key(i)), expected);
  }
}

TEST_F(DbCompactionFilterTest, OperandsAreAskedOneByOne) {
  options_.merge_operator = NewStringAppendOperator();
  std::atomic<bool> filters = false;
  UseFilter(
      [&filters](const Slice&, const Slice& value, std::string*, std::string*) {
        return filters && value == "x" ? Decision::kRemove : Decision::kKeep;
      });
  Open();
  Put("a", "1");
  Flush();
  for (const char* operand : {"2", "x", "3", "x"}) {
    ASSERT_TRUE(Ok(db_->Merge({}, "a", operand)));
    Flush();
  }
  ASSERT_TRUE(Ok(db_->Merge({}, "b", "x")));
  EXPECT_EQ(Get("a"), "1,2,x,3,x");
  filters = true;
  ASSERT_TRUE(Ok(Compact()));
  EXPECT_TRUE(HasEntries(db_.get(), {{"a", "1,2,3"}}));
  EXPECT_EQ(Count(Ticker::kCompactionDropUser), 3u);
}

}  // namespace
}  // namespace varve::test
