// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: the checker of histories, by which transactions are tested, finds each
// anomaly, and none where there is none. Method: small histories written by
// hand, each with one anomaly or just short of one; and random histories of a
// model with snapshots, with locks, or with neither.

#include "test/testing/transaction/history_checker.h"

#include "test/testing/seed.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

std::string AnomaliesOf(const History& history,
                        const HistoryCheckOptions& options = {}) {
  std::set<std::string> names;
  for (const Finding& each : CheckHistory(history, options)) {
    names.insert(NameOf(each.anomaly));
  }
  std::string text;
  for (const std::string& name : names) {
    text += (text.empty() ? "" : ", ") + name;
  }
  return text;
}
std::string AnomaliesOf(const std::string& text,
                        const HistoryCheckOptions& options = {}) {
  return AnomaliesOf(ParseHistory(text), options);
}

TEST(HistoryCheckerTest, TextsComeBack) {
  const std::string text =
      "x+3 x=1,2,3 y= a..c=a:1;b:2,3 -x -a..c !aborted @1-2-3";
  EXPECT_EQ(ToText(ParseHistory(text).front()), text);
}

// ---- One transaction --------------------------------------------------------

TEST(HistoryCheckerTest, AcceptsOwnWrites) {
  EXPECT_EQ(AnomaliesOf("x+1 x=1 x+2 x=1,2 a..z=x:1,2\n"
                        "x=1,2 x+3 x=1,2,3 -x x= a..z=\n"),
            "");
}

TEST(HistoryCheckerTest, FindsOwnWritesThatAReadLacks) {
  EXPECT_EQ(AnomaliesOf("x+1 x="), "own writes missed");
  EXPECT_EQ(AnomaliesOf("x+1 x+2 x=2,1"), "own writes missed");
  EXPECT_EQ(AnomaliesOf("x+1 a..z="), "own writes missed");
  EXPECT_EQ(AnomaliesOf("x+1 \n x=1 -x x=1"), "own writes missed");
  EXPECT_EQ(AnomaliesOf("x+1 \n x=1 -a..z a..z=x:1"), "own writes missed");
  // Before it wrote it.
  EXPECT_EQ(AnomaliesOf("x=1 x+1"), "own writes missed");
}

TEST(HistoryCheckerTest, FindsUnknownAndRepeatedElements) {
  EXPECT_EQ(AnomaliesOf("x=1"), "unknown element");
  EXPECT_EQ(AnomaliesOf("x+1 \n y=1"), "unknown element");
  EXPECT_EQ(AnomaliesOf("x+1 \n x=1,1"), "unknown element");
  EXPECT_EQ(AnomaliesOf("x+1 \n a..c=x:1"), "unknown element");
}

// ---- Without a cycle --------------------------------------------------------

TEST(HistoryCheckerTest, FindsReadOfWhatWasRolledBack) {
  EXPECT_EQ(AnomaliesOf("x+1 !aborted \n x=1"), "aborted read");
  EXPECT_EQ(AnomaliesOf("x+1 !aborted \n a..z=x:1"), "aborted read");
  EXPECT_EQ(AnomaliesOf("x+1 !aborted \n x="), "");
}

TEST(HistoryCheckerTest, FindsReadOfAnIntermediateVersion) {
  EXPECT_EQ(AnomaliesOf("x+1 x+2 \n x=1 \n x=1,2"),
            "intermediate read, read skew");
  EXPECT_EQ(AnomaliesOf("x+1 x+2 \n x=1,2"), "");
}

TEST(HistoryCheckerTest, FindsIncompatibleOrders) {
  EXPECT_EQ(AnomaliesOf("x+1 \n x+2 \n x=1,2 \n x=2"), "incompatible orders");
  EXPECT_EQ(AnomaliesOf("x+1 \n x+2 \n x=1,2 \n x=1"), "");
}

TEST(HistoryCheckerTest, FindsLostWrites) {
  EXPECT_EQ(AnomaliesOf("x+1 @1-2-3 \n x= @4-5-6"), "lost write");
  // They overlap in time.
  EXPECT_EQ(AnomaliesOf("x+1 @1-2-4 \n x= @3-5-6"), "");
  EXPECT_EQ(AnomaliesOf("x+1 !aborted @1-2-3 \n x= @4-5-6"), "");
}

TEST(HistoryCheckerTest, TakesAnUnknownOutcomeAsAllOrNothing) {
  EXPECT_EQ(AnomaliesOf("x+1 y+2 !unknown \n x= y= \n"), "");
  EXPECT_EQ(AnomaliesOf("x+1 y+2 !unknown \n x=1 y=2 \n"), "");
  EXPECT_EQ(AnomaliesOf("x+1 y+2 !unknown \n x=1 y="), "lost write");
  EXPECT_EQ(AnomaliesOf("x+1 y+2 !unknown \n x= y=2"), "lost write");
}

// ---- Cycles -----------------------------------------------------------------

TEST(HistoryCheckerTest, FindsWriteCycle) {
  EXPECT_EQ(AnomaliesOf("x+1 y+2 \n x+3 y+4 \n x=1,3 y=4,2"), "write cycle");
  EXPECT_EQ(AnomaliesOf("x+1 y+2 \n x+3 y+4 \n x=1,3 y=2,4"), "");
  // A transaction's appends with another's between them.
  EXPECT_EQ(AnomaliesOf("x+1 x+2 \n x+3 \n x=1,3,2"), "write cycle");
}

TEST(HistoryCheckerTest, FindsWriteCycleInTime) {
  EXPECT_EQ(AnomaliesOf("x+1 @4-5-6 \n x+2 @1-2-3 \n x=1,2 @7-8-9"),
            "write cycle");
  EXPECT_EQ(AnomaliesOf("x+1 @4-5-6 \n x+2 @1-2-3 \n x=1,2 @7-8-9",
                        {.real_time = false}),
            "");
}

TEST(HistoryCheckerTest, FindsCircularFlow) {
  EXPECT_EQ(AnomaliesOf("x+1 y=2 \n y+2 x=1"), "circular flow");
  EXPECT_EQ(AnomaliesOf("x+1 y=2 \n y+2 x="), "");
}

TEST(HistoryCheckerTest, FindsLostUpdate) {
  EXPECT_EQ(AnomaliesOf("x= x+1 \n x= x+2 \n x=1,2"), "lost update");
  EXPECT_EQ(AnomaliesOf("x= x+1 \n x=1 x+2 \n x=1,2"), "");
}

TEST(HistoryCheckerTest, FindsReadSkew) {
  EXPECT_EQ(AnomaliesOf("x+1 y+2 \n x=1 y= \n y=2"), "read skew");
  EXPECT_EQ(AnomaliesOf("x+1 y+2 \n x=1 a..z=x:1 \n y=2"), "read skew");
  // The same key twice.
  EXPECT_EQ(AnomaliesOf("x+1 \n x= x=1"), "read skew");
  // A snapshot that is older than its transaction.
  EXPECT_EQ(AnomaliesOf("x+1 @1-2-3 \n x= @4-5-6 \n x=1"), "read skew");
}

TEST(HistoryCheckerTest, FindsLongFork) {
  // Two readers see two writes in different orders. Each pair of dependencies
  // would be allowed, but no snapshots have such an order.
  EXPECT_EQ(AnomaliesOf("x+1 \n y+2 \n x=1 y= \n x= y=2"), "long fork");
  EXPECT_EQ(AnomaliesOf("x+1 \n y+2 \n x=1 y= \n x= y="), "");
}

TEST(HistoryCheckerTest, FindsWriteSkew) {
  EXPECT_EQ(AnomaliesOf("x= y+1 \n y= x+2 \n x=2 y=1"), "write skew");
  EXPECT_EQ(AnomaliesOf("x= y+1 \n y=1 x+2 \n x=2 y=1"), "");
  // The read-only transaction that sees one of two, which have no cycle alone.
  EXPECT_EQ(AnomaliesOf("x= y= y+1 \n x+2 \n x=2 y= \n x=2 y=1"), "write skew");
}

TEST(HistoryCheckerTest, FindsPhantom) {
  EXPECT_EQ(AnomaliesOf("a..c= a+1 \n a..c= b+2 \n a=1 b=2"), "phantom");
  EXPECT_EQ(AnomaliesOf("a..c= a+1 \n a..c=a:1 b+2 \n a=1 b=2"), "");
  // Beyond the range.
  EXPECT_EQ(AnomaliesOf("a..b= a+1 \n b..c= b+2 \n a=1 b=2"), "");
}

// ---- Deletions --------------------------------------------------------------

TEST(HistoryCheckerTest, DeletionIsTheLastVersion) {
  const std::string written = "x+1 \n";
  // A write skew with a deletion.
  EXPECT_EQ(AnomaliesOf(written + "x=1 y+2 \n y= x=1 -x \n y=2"), "write skew");
  EXPECT_EQ(AnomaliesOf(written + "x=1 y+2 \n y=2 x=1 -x \n y=2"), "");
  EXPECT_EQ(AnomaliesOf(written + "x=1 y+2 \n a..z=x:1 -x..y \n y=2"),
            "phantom");
}

TEST(HistoryCheckerTest, TimesTellWhetherAnAbsentKeyWasDeleted) {
  const std::string write = "x+1 @10-11-12 \n";
  const std::string deletion = "x=1 y+2 -x @20-21-22 \n";
  const std::string end = "y=2 @90-91-92 \n";
  // Before the append, at an unknown time, and after the deletion.
  EXPECT_EQ(AnomaliesOf(write + deletion + "x= y=2 @1-2-3 \n" + end),
            "circular flow, read skew");
  EXPECT_EQ(AnomaliesOf(write + deletion + "x= y=2 @21-22-23 \n" + end), "");
  EXPECT_EQ(AnomaliesOf(write + deletion + "x= y= @30-31-32 \n" + end),
            "read skew");
}

TEST(HistoryCheckerTest, RangeDeletionConcernsNoLaterKeys) {
  EXPECT_EQ(AnomaliesOf("-x..y x+1 \n x=1 y= \n y+2 \n x= y=2"), "long fork");
  EXPECT_EQ(AnomaliesOf("-a..z @1-2-3 \n x+1 @4-5-6 \n x= @7-8-9 \n x=1"),
            "read skew");
}

TEST(HistoryCheckerTest, UnknownDeletionExplainsAnAbsentKey) {
  EXPECT_EQ(AnomaliesOf("x+1 y+2 @1-2-3 \n x=1 -x !unknown @4-5-9 \n"
                        "x= y=2 @10-11-12"),
            "");
}

// ---- Aborted readers --------------------------------------------------------

TEST(HistoryCheckerTest, ChecksAbortedReadersIfAsked) {
  const std::string text = "x+1 y+2 \n x=1 y= z+3 !aborted \n y=2 z= ";
  EXPECT_EQ(AnomaliesOf(text), "");
  EXPECT_EQ(AnomaliesOf(text, {.aborted_reads = true}), "read skew");
}

// ---- Levels -----------------------------------------------------------------

TEST(HistoryCheckerTest, EachIsolationForbidsItsAnomalies) {
  const auto forbidding = [](const std::string& text) {
    const std::vector<Finding> findings = CheckHistory(ParseHistory(text));
    std::string levels;
    for (const auto& [level, name] :
         {std::pair(Isolation::kReadCommitted, "committed "),
          std::pair(Isolation::kSnapshot, "snapshot "),
          std::pair(Isolation::kSerializable, "serializable")}) {
      if (!ViolationsOf(level, findings).empty()) levels += name;
    }
    return levels;
  };
  const std::string all = "committed snapshot serializable";
  EXPECT_EQ(forbidding("x+1 y=2 \n y+2 x=1"), all);
  EXPECT_EQ(forbidding("x+1 !aborted \n x=1"), all);
  EXPECT_EQ(forbidding("x= x+1 \n x= x+2 \n x=1,2"), "snapshot serializable");
  EXPECT_EQ(forbidding("x+1 \n y+2 \n x=1 y= \n x= y=2"),
            "snapshot serializable");
  EXPECT_EQ(forbidding("x= y+1 \n y= x+2 \n x=2 y=1"), "serializable");
  EXPECT_EQ(forbidding("a..c= a+1 \n a..c= b+2 \n a=1 b=2"), "serializable");
}

TEST(HistoryCheckerTest, TextNamesTheCycle) {
  const std::vector<Finding> findings =
      CheckHistory(ParseHistory("x= y+1 \n y= x+2 \n x=2 y=1"));
  EXPECT_EQ(ViolationsOf(Isolation::kSerializable, findings),
            "write skew: T0 -rw(x=,+2)-> T1 -rw(y=,+1)-> T0\n"
            "  T0: x= y+1\n"
            "  T1: y= x+2\n");
}

// ---- Random histories -------------------------------------------------------

// A database in which transactions take steps in a random order, of which a
// test knows how they are isolated.
class ModelRun {
 public:
  enum class Mode : uint8_t {
    kNone,           // Reads what is newest, committed or not.
    kReadCommitted,  // Appends to the newest version when it commits.
    kSnapshot,       // First committer wins.
    kSerializable,   // And what was read has not changed.
  };

  ModelRun(Mode mode, uint64_t seed) : mode_(mode), rng_(seed) {}

  History Run(int transactions) {
    constexpr size_t kThreads = 4;
    std::vector<Running> running(kThreads);
    for (int started = 0; started < transactions;) {
      Running& at = running[rng_.Below(kThreads)];
      if (at.steps_left == 0) {
        Begin(&at);
        ++started;
      } else if (--at.steps_left == 0) {
        Commit(&at);
      } else {
        Step(&at);
      }
    }
    for (Running& at : running) {
      if (at.steps_left != 0) Commit(&at);
    }
    Running last;
    Begin(&last);
    Scan(&last);
    for (const std::string& key : kKeys) Read(&last, key);
    Commit(&last);
    return std::move(history_);
  }

 private:
  using State = std::map<std::string, ElementList>;
  struct Running {
    int steps_left = 0;
    State base;
    State appended;
    std::set<std::string> read;
    HistoryTransaction recorded;
  };

  void Begin(Running* at) {
    *at = {};
    at->steps_left = rng_.Between(2, 5);
    at->base = state_;
    at->recorded.begin = clock_.Next();
  }
  // Returns all that it would read.
  State View(const Running& at) const {
    State view = mode_ >= Mode::kSnapshot ? at.base : state_;
    if (mode_ == Mode::kNone) return view;
    for (const auto& [key, list] : at.appended) {
      view[key].insert(view[key].end(), list.begin(), list.end());
    }
    return view;
  }
  void Step(Running* at) {
    const std::string& key = kKeys[rng_.Below(kKeys.size())];
    switch (rng_.Below(4)) {
      case 0:
        return Scan(at);
      case 1:
        return Read(at, key);
      default:
        break;
    }
    if (rng_.OneIn(2)) Read(at, key);
    const int element = clock_.NextElement();
    at->recorded.steps.push_back(HistoryStep::Append(key, element));
    at->appended[key].push_back(element);
    if (mode_ == Mode::kNone) state_[key].push_back(element);
  }
  void Read(Running* at, const std::string& key) {
    at->read.insert(key);
    at->recorded.steps.push_back(HistoryStep::Read(key, View(*at)[key]));
  }
  void Scan(Running* at) {
    at->read.insert(kKeys.begin(), kKeys.end());
    State found;
    for (const auto& [key, list] : View(*at)) {
      if (!list.empty()) found[key] = list;
    }
    at->recorded.steps.push_back(HistoryStep::Scan("a", "z", found));
  }
  void Commit(Running* at) {
    at->steps_left = 0;
    at->recorded.commit = clock_.Next();
    const auto changed = [&](const std::string& key) {
      return state_[key] != at->base[key];
    };
    bool valid = !rng_.OneIn(10);
    if (mode_ >= Mode::kSnapshot) {
      for (const auto& [key, list] : at->appended) valid &= !changed(key);
    }
    if (mode_ >= Mode::kSerializable && !at->appended.empty()) {
      for (const std::string& key : at->read) valid &= !changed(key);
    }
    if (!valid) at->recorded.outcome = HistoryTransaction::Outcome::kAborted;
    if (valid && mode_ != Mode::kNone) {
      for (const auto& [key, list] : at->appended) {
        state_[key].insert(state_[key].end(), list.begin(), list.end());
      }
    }
    at->recorded.end = clock_.Next();
    history_.push_back(std::move(at->recorded));
  }

  const std::vector<std::string> kKeys = {"a", "b", "c", "d", "e", "f"};
  const Mode mode_;
  Rng rng_;
  HistoryClock clock_;
  State state_;
  History history_;
};

// Anomalies that 10 random histories have.
std::set<Anomaly> RandomAnomalies(ModelRun::Mode mode,
                                  const HistoryCheckOptions& options,
                                  uint64_t seed) {
  std::set<Anomaly> anomalies;
  for (uint64_t i = 0; i < 10; ++i) {
    const History history = ModelRun(mode, seed + i).Run(150);
    for (const Finding& each : CheckHistory(history, options)) {
      anomalies.insert(each.anomaly);
    }
  }
  return anomalies;
}

TEST(HistoryCheckerTest, RandomHistoriesHaveTheAnomaliesOfTheirIsolation) {
  using ::testing::AllOf;
  using ::testing::Each;
  using ::testing::IsSupersetOf;
  using ::testing::Truly;
  using Mode = ModelRun::Mode;
  const uint64_t seed = TestSeed();
  const auto allowed_by = [](Isolation isolation) {
    return Each(
        Truly([=](Anomaly anomaly) { return !Forbids(isolation, anomaly); }));
  };
  EXPECT_THAT(RandomAnomalies(Mode::kNone, {}, seed),
              IsSupersetOf({Anomaly::kAbortedRead, Anomaly::kWriteCycle,
                            Anomaly::kCircularFlow}));
  EXPECT_THAT(RandomAnomalies(Mode::kReadCommitted, {}, seed),
              AllOf(allowed_by(Isolation::kReadCommitted),
                    IsSupersetOf({Anomaly::kLostUpdate, Anomaly::kReadSkew})));
  EXPECT_THAT(RandomAnomalies(Mode::kSnapshot, {.aborted_reads = true}, seed),
              AllOf(allowed_by(Isolation::kSnapshot),
                    IsSupersetOf({Anomaly::kWriteSkew, Anomaly::kPhantom})));
  EXPECT_THAT(RandomAnomalies(Mode::kSerializable, {}, seed),
              ::testing::IsEmpty());
}

}  // namespace
}  // namespace varve::test
