// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: optimized
//
// Goal: no order of steps lets a commit pass although another write changed
// what it used, and none refuses a commit without such a write. Method: the
// code of db/transaction/validation/check_protocol.h itself, run through every
// order of the steps of some threads and of their store buffers, on a model of
// the memtables, the tables and the write queue. Then each precaution is taken
// away, one at a time: the interleaving that it is there for must be found.

#include "db/transaction/validation/check_protocol.h"

#include "test/testing/machine/tso_explorer.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

// The step to leave out.
struct Fault {
  bool number_is_loaded_last = false;
  bool sources_are_taken_first = false;
  bool leader_does_not_search = false;
  bool group_is_not_compared = false;
  bool tables_are_not_searched = false;
  bool bound_is_stored_early = false;
};
Fault fault;

template <typename T>
using Atomic = ModelAtomic<T>;

// A database of one key. All updates of it are in the active memtable, in the
// other one, or in a table.
struct Engine {
  enum SuperVersion : uint64_t {
    kOneMemTable,   // It is the first one.
    kTwoMemTables,  // The second one is active.
    kFlushed,       // The second one is active. The first one is a table.
  };
  static constexpr int kWrites = 3;

  Atomic<uint64_t> leadership{0};
  Atomic<SequenceNumber> last_sequence{1};
  Atomic<SuperVersion> super_version{kOneMemTable};
  // The key's newest number in each source, and the bounds.
  Atomic<SequenceNumber> newest[2];
  Atomic<SequenceNumber> bound{kMaxSequenceNumber};
  Atomic<SequenceNumber> in_table{0};
  Atomic<SequenceNumber> table_bound{0};
  // Of each write that was committed: its number, and since when the key must
  // not have changed.
  Atomic<SequenceNumber> number[kWrites];
  Atomic<SequenceNumber> since[kWrites];

  bool IsNewer(SuperVersion sources, SequenceNumber after) const {
    const int active = sources == kOneMemTable ? 0 : 1;
    return newest[active].load() > after ||
           (sources == kTwoMemTables && bound.load() > after &&
            newest[0].load() > after);
  }
  bool IsNewerInTable(SuperVersion sources, SequenceNumber after) const {
    return sources == kFlushed && table_bound.load() > after &&
           in_table.load() > after;
  }

  // For a leader.
  void Insert(int write, SequenceNumber its_number, SequenceNumber its_since) {
    newest[super_version.load() == kOneMemTable ? 0 : 1].store(its_number);
    number[write].store(its_number);
    since[write].store(its_since);
  }
  void Publish(SequenceNumber last) { last_sequence.store(last); }

  // A write without a check.
  void Put(int write) {
    leadership.Lock();
    const SequenceNumber mine = last_sequence.load() + 1;
    Insert(write, mine, mine - 1);
    Publish(mine);
    leadership.Unlock();
  }
  void Flush() {
    const SequenceNumber early = last_sequence.load();
    leadership.Lock();
    bound.store(fault.bound_is_stored_early ? early : last_sequence.load());
    super_version.store(kTwoMemTables);
    leadership.Unlock();
    const SequenceNumber flushed = newest[0].load();
    in_table.store(flushed);
    table_bound.store(flushed);
    super_version.store(kFlushed);
  }

  void Judge() const {
    for (int i = 0; i < kWrites; ++i) {
      for (int j = 0; j < kWrites; ++j) {
        TsoExplorer::current()->Expect(
            number[j].Final() <= since[i].Final() ||
                number[j].Final() >= number[i].Final(),
            "a write came between");
      }
    }
  }
};

// The batches before a writer in its group. All of them update the key.
struct Group {
  int count;
};

struct View {
  struct Result {
    bool ok() const { return is_ok; }
    bool is_ok;
  };

  Engine* engine;
  SequenceNumber since;
  Engine::SuperVersion early_sources = Engine::kOneMemTable;
  bool early_result = false;

  SequenceNumber LastSequence() {
    if (fault.sources_are_taken_first) {
      early_sources = engine->super_version.load();
    }
    if (fault.number_is_loaded_last) {
      early_result = SearchNow(engine->super_version.load(), since);
    }
    return engine->last_sequence.load();
  }
  Result Search(SequenceNumber examined) {
    if (fault.number_is_loaded_last) return {early_result};
    return {SearchNow(fault.sources_are_taken_first
                          ? early_sources
                          : engine->super_version.load(),
                      std::max(since, examined))};
  }
  bool SearchNow(Engine::SuperVersion sources, SequenceNumber after) const {
    return !engine->IsNewer(sources, after) &&
           !engine->IsNewerInTable(sources, after);
  }
  bool IsApart(const Group& group) const {
    return group.count == 0 || fault.group_is_not_compared;
  }
  bool SearchAsLeader(SequenceNumber examined, bool reads_tables) const {
    if (fault.leader_does_not_search) return true;
    const SequenceNumber after = std::max(since, examined);
    const Engine::SuperVersion sources = engine->super_version.load();
    if (engine->IsNewer(sources, after)) return false;
    if (sources != Engine::kFlushed || fault.tables_are_not_searched ||
        engine->table_bound.load() <= after) {
      return true;
    }
    return reads_tables && !engine->IsNewerInTable(sources, after);
  }
};

// A transaction that used the key, and updates it.
void Commit(Engine* engine, int write) {
  View view{engine, engine->last_sequence.load()};
  CheckProtocol<View> check(&view);
  while (check.Examine().ok()) {
    engine->leadership.Lock();
    if (check.Holds<Group>(nullptr)) {
      const SequenceNumber mine = engine->last_sequence.load() + 1;
      engine->Insert(write, mine, view.since);
      engine->Publish(mine);
      engine->leadership.Unlock();
      return;
    }
    engine->leadership.Unlock();
  }
}

// Two of them that meet in a group.
void CommitTwo(Engine* engine) {
  View views[2] = {{engine, engine->last_sequence.load()},
                   {engine, engine->last_sequence.load()}};
  CheckProtocol<View> first(&views[0]);
  CheckProtocol<View> second(&views[1]);
  if (!first.Examine().ok() || !second.Examine().ok()) return;
  engine->leadership.Lock();
  const bool leads = first.Holds<Group>(nullptr);
  const Group before{leads ? 1 : 0};
  SequenceNumber last = engine->last_sequence.load();
  const bool follows =
      leads ? second.Holds(&before) : second.Holds<Group>(nullptr);
  if (leads) engine->Insert(0, ++last, views[0].since);
  if (follows) engine->Insert(1, ++last, views[1].since);
  engine->Publish(last);
  engine->leadership.Unlock();
}

class CheckProtocolTest : public ::testing::Test {
 protected:
  CheckProtocolTest() { fault = Fault(); }
  ~CheckProtocolTest() override { fault = Fault(); }
};

std::string RunAll(TsoExplorer* explorer, const std::function<void()>& judge) {
  const std::string complaint = explorer->Explore(judge);
  printf("%zu states, %zu ends: %s\n", explorer->states(), explorer->ends(),
         complaint.empty() ? "all good" : complaint.c_str());
  return complaint;
}

std::string TwoCommitsAndAFlush() {
  TsoExplorer explorer;
  Engine engine;
  explorer.AddThread([&] { Commit(&engine, 0); });
  explorer.AddThread([&] { Commit(&engine, 1); });
  explorer.AddThread([&] { engine.Flush(); });
  return RunAll(&explorer, [&] { engine.Judge(); });
}

std::string CommitPutAndFlush() {
  TsoExplorer explorer;
  Engine engine;
  explorer.AddThread([&] { Commit(&engine, 0); });
  explorer.AddThread([&] { engine.Put(1); });
  explorer.AddThread([&] { engine.Flush(); });
  return RunAll(&explorer, [&] { engine.Judge(); });
}

std::string GroupAndPut() {
  TsoExplorer explorer;
  Engine engine;
  explorer.AddThread([&] { CommitTwo(&engine); });
  explorer.AddThread([&] { engine.Put(2); });
  return RunAll(&explorer, [&] { engine.Judge(); });
}

TEST_F(CheckProtocolTest, NoWriteComesBetween) {
  EXPECT_EQ(TwoCommitsAndAFlush(), "");
  EXPECT_EQ(CommitPutAndFlush(), "");
  EXPECT_EQ(GroupAndPut(), "");
}

TEST_F(CheckProtocolTest, AFlushRefusesNothing) {
  TsoExplorer explorer;
  Engine engine;
  explorer.AddThread([&] { Commit(&engine, 0); });
  explorer.AddThread([&] { engine.Flush(); });
  EXPECT_EQ(RunAll(&explorer,
                   [&] {
                     explorer.Expect(engine.number[0].Final() == 2, "refused");
                   }),
            "");
}

// Of two commits that begin at the same number, one comes first.
TEST_F(CheckProtocolTest, NotBothAreRefused) {
  TsoExplorer explorer;
  Engine engine;
  explorer.AddThread([&] { Commit(&engine, 0); });
  explorer.AddThread([&] { Commit(&engine, 1); });
  EXPECT_EQ(
      RunAll(&explorer,
             [&] {
               explorer.Expect(
                   engine.number[0].Final() + engine.number[1].Final() >= 2,
                   "both were refused");
             }),
      "");
}

TEST_F(CheckProtocolTest, B1NumberIsLoadedAfterTheSearch) {
  fault.number_is_loaded_last = true;
  EXPECT_NE(CommitPutAndFlush(), "");
}

TEST_F(CheckProtocolTest, B1SourcesAreTakenBeforeTheNumber) {
  fault.sources_are_taken_first = true;
  EXPECT_NE(CommitPutAndFlush(), "");
}

TEST_F(CheckProtocolTest, B2AWriteComesAfterTheExamination) {
  fault.leader_does_not_search = true;
  EXPECT_NE(CommitPutAndFlush(), "");
  EXPECT_NE(TwoCommitsAndAFlush(), "");
}

TEST_F(CheckProtocolTest, B3TwoCommitsAreInOneGroup) {
  fault.group_is_not_compared = true;
  EXPECT_NE(GroupAndPut(), "");
}

TEST_F(CheckProtocolTest, B4TheMemTableIsFlushedMeanwhile) {
  fault.tables_are_not_searched = true;
  EXPECT_NE(CommitPutAndFlush(), "");
}

TEST_F(CheckProtocolTest, I2TheBoundIsTooLow) {
  fault.bound_is_stored_early = true;
  EXPECT_NE(CommitPutAndFlush(), "");
}

}  // namespace
}  // namespace varve::test
