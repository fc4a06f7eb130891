// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads variants
//
// Goal: what the engine does for a request is in its trace, step by step, also
// what another thread did for it. Method: scripted requests, of which the tree
// is known; a group of writers that is held together until all have joined.

#include <sys/syscall.h>
#include <unistd.h>

#include "experimental/ablation_experiment.h"
#include "test/testing/db_helpers.h"
#include "test/testing/env/hook_env.h"
#include "test/testing/test_headers.h"
#include "test/testing/trace_tree.h"

namespace varve::test {
namespace {

class DbTraceTest : public DbTestBase {
 protected:
  DbTraceTest() {
    options_.filter_policy = NewBloomFilterPolicy(10);
    options_.write_buffer_size = 1 << 20;
    options_.compression = CompressionType::kSnappy;
    options_.disable_auto_compactions = true;
    options_.max_background_jobs = 1;
  }

  // Returns the spans of `request`, as a tree below "r".
  template <typename Request>
  std::string Trace(Request request, trace::Detail detail) {
    trace::TraceOptions options;
    options.detail = detail;
    auto [root, collector] = trace::Root("r", options);
    {
      const trace::LocalParent parent = root.SetLocalParent();
      request();
    }
    root.End();
    const TraceRecords records = collector.Collect();
    EXPECT_EQ(FindFault(records), "");
    return TreeOf(records);
  }
  template <typename Request>
  std::string Work(Request request) {
    return Trace(request, trace::Detail::kWork);
  }
  template <typename Request>
  std::string Steps(Request request) {
    return Trace(request, trace::Detail::kSteps);
  }

  // Between Begin and End, every operation is a trace.
  void BeginSession() {
    sink_ = std::make_shared<MemorySink>();
    trace::TraceOptions options;
    options.sink = sink_;
    ASSERT_TRUE(Ok(trace::Start(options)));
  }
  // Returns all traces that began with `name`.
  std::vector<TraceRecords> EndSession(const std::string& name) {
    EXPECT_TRUE(Ok(trace::Stop()));
    std::vector<TraceRecords> traces;
    for (auto& records : SplitTraces(sink_->Take())) {
      EXPECT_EQ(FindFault(records), "") << TreeOf(records);
      if (records[0].name == name) traces.push_back(std::move(records));
    }
    return traces;
  }

  std::shared_ptr<MemorySink> sink_;
};

TEST_F(DbTraceTest, ReadsShowTheirWork) {
  if (!TEST_ChoicesOf(options_).ToString().empty() &&
      TEST_ChoicesOf(options_).trace_clock == TraceClockMode() &&
      TEST_ChoicesOf(options_).trace_collect == TraceCollectMode()) {
    return;  // Other ways have other steps.
  }
  Open();
  Put(Key(1), "1");
  const auto get = [&] { EXPECT_EQ(Get(Key(1)), "1"); };
  get();
  EXPECT_EQ(Work(get), "r(DB::Get)");
  EXPECT_EQ(Steps(get), "r(DB::Get(memtable))");
  Flush();
  Reopen();
  EXPECT_EQ(Get(Key(2)), "NotFound");  // This thread knows the tables now.
  EXPECT_EQ(Work(get),
            "r(DB::Get(block read checksum decompress block build))");
  EXPECT_EQ(Work(get), "r(DB::Get)");
  EXPECT_EQ(Steps(get),
            "r(DB::Get(memtable tables(version search table(index node filter "
            "index block) version search)))");
  EXPECT_EQ(Steps([&] { EXPECT_EQ(Get("a"), "NotFound"); }),
            "r(DB::Get(memtable tables(version search)))");
  EXPECT_EQ(Work([&] {
              std::vector<std::string> values;
              db_->MultiGet({}, {Key(1), Key(2)}, &values);
            }),
            "r(DB::MultiGet)");
  const auto iterator = db_->NewIterator({});
  EXPECT_EQ(Work([&] { iterator->Seek(Key(0)); }), "r(Iterator::Seek)");
  EXPECT_EQ(Work([&] { db_->NewIterator({}); }), "r(DB::NewIterator)");
}

TEST_F(DbTraceTest, WritesShowTheirSteps) {
  Open();
  EXPECT_EQ(Work([&] { Put("a", "1"); }),
            "r(DB::Write(WAL append memtable insert))");
  WriteOptions sync{.sync = true};
  EXPECT_EQ(Work([&] { EXPECT_TRUE(Ok(db_->Put(sync, "a", "1"))); }),
            "r(DB::Write(WAL append WAL sync memtable insert))");
  WriteOptions no_log{.disable_wal = true};
  EXPECT_EQ(Work([&] { EXPECT_TRUE(Ok(db_->Put(no_log, "a", "1"))); }),
            "r(DB::Write(memtable insert))");
}

TEST_F(DbTraceTest, TableOpenShowsEachCallOfTheSystem) {
  Do("open, put a 1, flush");
  options_.paranoid_checks = false;
  Reopen();
  const std::string work = Work([&] { EXPECT_EQ(Get("a"), "1"); });
  const bool uncached =
      TEST_ChoicesOf(options_).table_open == TableOpenMode::kUncached;
  EXPECT_TRUE(Contains(work, uncached ? "table open(open file file read"
                                      : "table open(open file file read)"))
      << work;
}

TEST_F(DbTraceTest, BackgroundWorkIsTraced) {
  Open();
  BeginSession();
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < 2000; i++) Put(Key(i), std::string(100, 'v'));
    Flush();
  }
  const auto flushes = EndSession("flush");
  ASSERT_EQ(flushes.size(), 2u);
  const std::string flush = TreeOf(flushes[0]);
  EXPECT_TRUE(flush.starts_with(
      "flush(write table(table finish table sync table open("))
      << flush;
  EXPECT_TRUE(flush.ends_with(")) directory sync install(MANIFEST))")) << flush;
  BeginSession();
  CompactAll();
  const auto compactions = EndSession("compaction");
  ASSERT_EQ(compactions.size(), 1u);
  const std::string tree = TreeOf(compactions[0]);
  EXPECT_TRUE(Contains(tree, "compaction(compaction part(")) << tree;
  EXPECT_TRUE(Contains(tree, "merge(file read")) << tree;
  EXPECT_TRUE(Contains(tree, "table finish table sync")) << tree;
  EXPECT_TRUE(Contains(tree, "MANIFEST")) << tree;
  EXPECT_FALSE(Contains(tree, "block")) << tree;
  Put("a", "1");
  Close();
  BeginSession();
  Open();
  const auto opens = EndSession("DB::Open");
  ASSERT_EQ(opens.size(), 1u);
  const std::string open = TreeOf(opens[0]);
  EXPECT_TRUE(Contains(open, "list directory read MANIFEST check tables"))
      << open;
  EXPECT_TRUE(Contains(open, "replay logs(log)")) << open;
  EXPECT_TRUE(Contains(open, "install(")) << open;
}

TEST_F(DbTraceTest, PropertyNamesTheClock) {
  Open();
  std::string clock;
  ASSERT_TRUE(db_->GetProperty("varve.trace-clock", &clock));
  EXPECT_EQ(clock, trace::ClockName());
  EXPECT_TRUE(Contains(clock, "(")) << clock;
}

TEST_F(DbTraceTest, AblationsTraceTheirWay) {
  for (const char* text : {"trace_clock=steady", "trace_clock=coarse",
                           "trace_collect=mutex", "trace_collect=channel"}) {
    AblationOptions ablation;
    ASSERT_TRUE(Ok(ablation.Parse(text)));
    options_.experiment = NewExperiment(ablation);
    options_.block_cache = nullptr;
    Open();
    const auto count = [&] {
      std::string path_counts;
      EXPECT_TRUE(db_->GetProperty("varve.ablation-path-counts", &path_counts));
      const size_t at = path_counts.find(text);
      EXPECT_NE(at, std::string::npos) << path_counts;
      return std::stoull(path_counts.substr(at + strlen(text)));
    };
    const uint64_t before = count();
    BeginSession();
    for (int i = 0; i < 100; i++) Put(Key(i), "v");
    const auto writes = EndSession("DB::Write");
    ASSERT_EQ(writes.size(), 100u);
    for (const auto& records : writes) {
      EXPECT_EQ(TreeOf(records), "DB::Write(WAL append memtable insert)");
    }
    EXPECT_EQ(count(), before + 100);
    Close();
  }
  options_.experiment = nullptr;
  Open();  // Back to production.
}

// ---- Group commit -----------------------------------------------------------

// A thread that sleeps in the kernel.
bool IsAsleep(pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string text;
  std::getline(file, text);
  const size_t name_end = text.rfind(')');
  return name_end != std::string::npos && text[name_end + 2] == 'S';
}

class GroupTraceTest : public DbTraceTest {
 protected:
  GroupTraceTest() {
    env_.hook = [this](const std::string&) { return log_.Pass(); };
  }
  ~GroupTraceTest() override { db_.reset(); }  // Before its Env.

  static constexpr int kWriters = 8;

  // One write pauses in the log. kWriters writers queue after it and sleep
  // until it continues, so they form one group. `write` is called by each of
  // them.
  void RunGroup(const std::function<void(int)>& write) {
    log_.Close();
    std::thread first([&] { Put("first", "1"); });
    log_.AwaitWaiting();
    std::atomic<pid_t> ids[kWriters] = {};
    std::vector<std::thread> writers;
    for (int i = 0; i < kWriters; i++) {
      writers.emplace_back([&, i] {
        ids[i] = static_cast<pid_t>(syscall(SYS_gettid));
        write(i);
      });
      // One after the other. What else could they sleep on?
      while (ids[i] == 0 || !IsAsleep(ids[i])) std::this_thread::yield();
    }
    log_.Open();
    first.join();
    for (auto& writer : writers) writer.join();
  }

  Gate log_;
  HookEnv env_{kWriteOperation, ".log"};
};

// The same in all of them, by the same thread.
void ExpectOneLogWrite(const std::vector<TraceRecords>& traces) {
  ASSERT_EQ(traces.size(), 8u);
  TraceRecords appends;
  int leaders = 0;
  for (const auto& records : traces) {
    EXPECT_EQ(FindFault(records), "");
    for (const auto& record : records) {
      if (std::string(record.name) != "WAL append") continue;
      appends.push_back(record);
      leaders += record.done_by == record.thread;
    }
  }
  ASSERT_EQ(appends.size(), 8u);
  EXPECT_EQ(leaders, 1);
  for (const auto& append : appends) {
    EXPECT_EQ(append.done_by, appends[0].done_by);
  }
}

TEST_F(GroupTraceTest, OneLogWriteIsInTheTraceOfEachOfEightWriters) {
  options_.env = &env_;
  Open();
  BeginSession();
  WriteOptions sync{.sync = true};
  RunGroup([&](int i) { ASSERT_TRUE(Ok(db_->Put(sync, Key(i), "v"))); });
  auto traces = EndSession("DB::Write");
  // But for the one before them.
  std::erase_if(traces, [](const TraceRecords& records) {
    return TreeOf(records) == "DB::Write(WAL append memtable insert)";
  });
  ExpectOneLogWrite(traces);
  int leaders = 0;
  for (const auto& records : traces) {
    const std::string tree = TreeOf(records);
    const bool leads =
        tree == "DB::Write(queue WAL append WAL sync memtable insert)";
    leaders += leads;
    if (!leads) {
      EXPECT_EQ(tree,
                "DB::Write(queue WAL append* WAL sync* memtable insert*)");
    }
  }
  EXPECT_EQ(leaders, 1);
}

TEST_F(GroupTraceTest, LeaderThatIsNotTracedWorksForOthersTraces) {
  options_.env = &env_;
  Open();
  std::vector<std::string> trees(kWriters);
  RunGroup([&](int i) {
    if (i % 2 == 0) {  // The first of the group leads.
      Put(Key(i), "v");
      return;
    }
    trees[static_cast<size_t>(i)] = Work([&] { Put(Key(i), "v"); });
  });
  for (size_t i = 1; i < kWriters; i += 2) {
    EXPECT_EQ(trees[i], "r(DB::Write(queue WAL append* memtable insert*))");
  }
}

TEST_F(GroupTraceTest, MembersThatInsertThemselvesHaveTheirOwnSpan) {
  options_.env = &env_;
  options_.write_buffer_size = 8 << 20;
  Open();
  BeginSession();
  // Large enough to be worth a wake-up.
  RunGroup([&](int i) { Put(Key(i), std::string(10000, 'v')); });
  auto traces = EndSession("DB::Write");
  std::erase_if(traces, [](const TraceRecords& records) {
    return TreeOf(records) == "DB::Write(WAL append memtable insert)";
  });
  ExpectOneLogWrite(traces);
  int members = 0;
  for (const auto& records : traces) {
    members +=
        TreeOf(records) == "DB::Write(queue WAL append* memtable insert)";
  }
  EXPECT_EQ(members, kWriters - 1);
}

}  // namespace
}  // namespace varve::test
