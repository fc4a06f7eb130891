// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: optimized variants
//
// Goal: however many calls of the operating system fail one after the other,
// and whenever the catalog is closed or loses power in between, a database
// whose creation was acknowledged is there with what was synced in it, one
// whose removal was acknowledged is not, and what failed may be tried until it
// works. Method: random calls of one thread, random plans of failures, and a
// model of what may be there by now and after a power cut. catalog_fault_test
// has each single failure.

#include "test/testing/faults/fault_seeds.h"
#include "test/testing/faults/many_faults.h"
#include "test/testing/numbered_writes.h"
#include "test/testing/test_headers.h"
#include "varve/catalog.h"

namespace varve::test {
namespace {

constexpr char kRoot[] = "/catalog";

struct Totals {
  uint64_t operations = 0;
  uint64_t failures = 0;
  uint64_t created = 0;
  uint64_t failed_creations = 0;
  uint64_t dropped = 0;
  uint64_t failed_drops = 0;
  uint64_t writes = 0;
  uint64_t cuts = 0;
  uint64_t came_back = 0;  // Though a Drop had got as far as the rename.
};

// The state of a name.
struct Name {
  enum class Seen { kAbsent, kThere, kUnknown };

  // The state that the catalog shows until a call fails. It is the newest one
  // then.
  Seen seen = Seen::kAbsent;
  // A power cut may leave one of these, by age, or none.
  std::vector<NumberedWrites> possible;
  bool may_be_absent = true;
};

class Session : private ManyFaultsSession {
 public:
  Session(uint64_t seed, Totals* totals)
      : ManyFaultsSession(seed), totals_(totals) {
    options_.options = TinyOptions();
    options_.options.env = &faulty_;
    options_.options.write_buffer_size = 16 << 10;
    options_.options.target_file_size_base = 16 << 10;
    options_.options.max_open_files = 16;
    options_.create_if_missing = true;
    options_.drop_timeout_us = 0;
    for (const char* name : {"a", "b", "c", "d"}) names_[name];
  }
  ~Session() {
    held_.Reset();
    catalog_.reset();
  }

  void Run(int steps) {
    Open();
    RunSteps(steps, [this] {
      ++totals_->operations;
      Step();
    });
    if (!::testing::Test::HasFailure()) CutPower();
    if (!::testing::Test::HasFailure()) ExpectNothingLeftOpen();
    totals_->failures += faulty_.FailureCount();
  }

 private:
  // ---- What happens ----

  void Step() {
    auto place = names_.begin();
    std::advance(place, rng_.Below(names_.size()));
    const std::string& name = place->first;
    DoOneOf({
        {1, [&] { CutPower(); }},
        {1, [&] { Reopen(); }},
        {3, [&] { PlanAnyFailure(); }},
        {1, [&] { faulty_.ClearFailure(); }},
        {3, [&] { Create(name); }},
        {3, [&] { Drop(name); }},
        {1, [&] { RepeatUntilItWorks(name); }},
        // A database may have something to say, which its contents tell.
        {1, [&] { catalog_->CloseIdle(0, nullptr).IgnoreError(); }},
        {1, [&] { Hold(name); }},
        {1, [&] { held_.Reset(); }},
        {1, [&] { ExpectListed(); }},
        {3, [&] { ExpectContents(name); }},
        {8, [&] { Write(name); }},
    });
  }

  void PlanAnyFailure() {
    PlanFailure(
        {.path =
             rng_.Pick({"", "", "", "/db-", "dropped-", "LOCK", "MANIFEST"}),
         .within_calls = rng_.Pick({1u, 3u, 10u, 60u}),
         .operations = rng_.Pick(
             {kChangingOperations | kCreateDirOperation,
              uint32_t{kSyncDirectoryOperation},
              uint32_t{kSyncDirectoryOperation}, uint32_t{kLockOperation},
              kLockOperation | kCreateDirOperation,
              kRenameOperation | kSyncDirectoryOperation,
              uint32_t{kRemoveOperation}, uint32_t{kQueryOperation},
              uint32_t{kReadingOperations}, uint32_t{kAllOperations}}),
         .lasting_one_in = 3});
  }

  // A name in any case finds it.
  std::string Spell(std::string name) {
    if (rng_.OneIn(2)) name[0] = static_cast<char>(name[0] - 'a' + 'A');
    return name;
  }

  // Errors have a reason.
  void ExpectFaulty(const Status& status, uint64_t failures_before) {
    EXPECT_TRUE(IsIOError(status));
    EXPECT_GT(faulty_.FailureCount(), failures_before) << status.ToString();
  }

  bool Create(const std::string& name) {
    SCOPED_TRACE("Create " + name);
    Name& known = names_[name];
    const uint64_t failures = faulty_.FailureCount();
    const Status status = catalog_->Create(Spell(name));
    if (status.IsInvalidArgument()) {
      EXPECT_NE(known.seen, Name::Seen::kAbsent) << status.ToString();
      return false;
    }
    EXPECT_NE(known.seen, Name::Seen::kThere) << status.ToString();
    known.possible.emplace_back(++last_id_);
    if (status.ok()) {
      ++totals_->created;
      known.seen = Name::Seen::kThere;
      NewestIsSafe(&known);
      return true;
    }
    ++totals_->failed_creations;
    known.seen = Name::Seen::kUnknown;
    ExpectFaulty(status, failures);
    return false;
  }

  bool Drop(const std::string& name) {
    SCOPED_TRACE("Drop " + name);
    Name& known = names_[name];
    const bool held = held_ && held_name_ == name;
    const uint64_t failures = faulty_.FailureCount();
    const Status status = catalog_->Drop(Spell(name));
    EXPECT_EQ(status.IsBusy(), held) << status.ToString();
    if (status.IsBusy()) return false;
    if (status.ok() || status.IsNotFound()) {
      if (status.IsNotFound()) {
        EXPECT_NE(known.seen, Name::Seen::kThere);
      } else {
        ++totals_->dropped;
      }
      known = Name();
      return true;
    }
    ++totals_->failed_drops;
    known.seen = Name::Seen::kUnknown;
    known.may_be_absent = true;
    ExpectFaulty(status, failures);
    return false;
  }

  void RepeatUntilItWorks(const std::string& name) {
    faulty_.ClearFailure();
    held_.Reset();
    if (rng_.OneIn(2)) {
      ASSERT_TRUE(Drop(name));
    } else if (!Create(name)) {
      ASSERT_TRUE(Find(name)) << "there is one of that name";
    }
  }

  void Write(const std::string& name) {
    const DatabaseRef ref = Find(name);
    if (!ref) return;
    Name& known = names_[name];
    ++totals_->writes;
    const bool sync = rng_.OneIn(3);
    if (known.possible.back().Write(ref.get(), sync).ok()) {
      // Its database is then, too.
      if (sync) NewestIsSafe(&known);
    } else if (rng_.OneIn(2)) {
      ref->Resume().IgnoreError();  // The test checks the writes.
    }
    if (rng_.OneIn(20) && ref->Flush({}).ok()) {
      known.possible.back().AllSynced();
      NewestIsSafe(&known);
    }
  }

  void Hold(const std::string& name) {
    held_ = Find(name);
    held_name_ = name;
  }

  void Reopen() {
    held_.Reset();
    catalog_->Close().IgnoreError();  // As CloseIdle.
    Open();
    // A directory that could not be removed may have been a database.
    for (auto& [name, known] : names_) {
      if (known.possible.size() > 1 || known.may_be_absent) {
        known.seen =
            known.possible.empty() ? Name::Seen::kAbsent : Name::Seen::kUnknown;
      }
    }
  }

  void Open() {
    catalog_.reset();
    const uint64_t failures = faulty_.FailureCount();
    ASSERT_TRUE(Ok(TryTwice([&] {
      const Status status = Catalog::Open(options_, kRoot, &catalog_);
      if (!status.ok()) ExpectFaulty(status, failures);
      return status;
    })));
  }

  void CutPower() {
    ManyFaultsSession::CutPower([this] {
      held_.Reset();
      catalog_.reset();
    });
    if (::testing::Test::HasFailure()) return;
    ++totals_->cuts;
    Open();
    for (auto& [name, known] : names_) {
      if (!::testing::Test::HasFailure()) SettleAfterCut(name, &known);
    }
  }

  // ---- What must be there ----

  // The newest one is what is there, whatever happens.
  static void NewestIsSafe(Name* known) {
    known->possible = {std::move(known->possible.back())};
    known->may_be_absent = false;
  }

  // Finds it if it is to be found, and then knows which it is.
  DatabaseRef Find(const std::string& name) {
    SCOPED_TRACE("Find " + name);
    Name& known = names_[name];
    DatabaseRef ref;
    const uint64_t failures = faulty_.FailureCount();
    const Status status = catalog_->Find(Spell(name), &ref);
    EXPECT_EQ(status.ok(), static_cast<bool>(ref));
    if (status.ok()) {
      EXPECT_NE(known.seen, Name::Seen::kAbsent);
      if (known.seen == Name::Seen::kUnknown) Identify(ref.get(), &known);
    } else if (status.IsNotFound()) {
      EXPECT_NE(known.seen, Name::Seen::kThere);
      EXPECT_TRUE(known.may_be_absent);
      known.seen = Name::Seen::kAbsent;
    } else {
      ExpectFaulty(status, failures);
    }
    if (::testing::Test::HasFailure()) ref.Reset();
    return ref;
  }

  // Which of the possible ones is shown. It becomes the newest; others may
  // still come back.
  void Identify(DB* db, Name* known) {
    const EntryList entries = Read(db);
    known->seen = Name::Seen::kThere;
    auto& possible = known->possible;
    for (size_t i = possible.size(); i-- > 0;) {
      if (!possible[i].MayBe(entries, false)) continue;
      std::swap(possible[i], possible.back());
      return;
    }
    ADD_FAILURE() << "none of " << possible.size() << " databases";
  }

  void ExpectContents(const std::string& name) {
    const DatabaseRef ref = Find(name);
    if (!ref) return;
    ASSERT_TRUE(names_[name].possible.back().MayBe(Read(ref.get()), false))
        << name;
  }

  void ExpectListed() {
    std::vector<std::string> listed;
    catalog_->List(&listed);
    EXPECT_TRUE(std::is_sorted(listed.begin(), listed.end()));
    for (const auto& [name, known] : names_) {
      if (known.seen == Name::Seen::kUnknown) continue;
      EXPECT_EQ(std::count(listed.begin(), listed.end(), name),
                known.seen == Name::Seen::kThere ? 1 : 0)
          << name;
    }
  }

  void SettleAfterCut(const std::string& name, Name* known) {
    SCOPED_TRACE("after a power cut: " + name);
    DatabaseRef ref;
    const Status status = catalog_->Find(name, &ref);
    if (status.IsNotFound()) {
      ASSERT_TRUE(known->may_be_absent);
      *known = Name();
      return;
    }
    ASSERT_TRUE(Ok(status));
    const EntryList entries = Read(ref.get());
    ::testing::AssertionResult may_be = ::testing::AssertionFailure()
                                        << "there is none";
    for (size_t i = known->possible.size(); i-- > 0;) {
      may_be = known->possible[i].MayBe(entries, true);
      if (!may_be) continue;
      totals_->came_back += known->seen == Name::Seen::kAbsent ? 1 : 0;
      std::swap(known->possible[i], known->possible.back());
      known->possible.back().Settle(entries);
      known->seen = Name::Seen::kThere;
      NewestIsSafe(known);
      return;
    }
    ASSERT_TRUE(may_be);
  }

  void ExpectNothingLeftOpen() {
    ASSERT_TRUE(Ok(catalog_->CloseIdle(0, nullptr)));
    const Catalog::Counts counts = catalog_->GetCounts();
    EXPECT_EQ(counts.open, 0u);
    EXPECT_EQ(counts.open_table_files, 0u);
    for (auto& [name, known] : names_) ASSERT_TRUE(Drop(name));
    ASSERT_TRUE(Ok(catalog_->Close()));
    Open();
    std::vector<std::string> children;
    ASSERT_TRUE(Ok(memory_->GetChildren(kRoot, &children)));
    EXPECT_EQ(children, std::vector<std::string>{"LOCK"});
  }

  Totals* const totals_;
  CatalogOptions options_;
  std::unique_ptr<Catalog> catalog_;
  std::map<std::string, Name> names_;
  int last_id_ = 0;
  DatabaseRef held_;
  std::string held_name_;
};

TEST(CatalogManyFaultsTest, NothingAcknowledgedIsLostWhateverFails) {
  Totals all;
  const int seeds = ForFaultSeeds(
      20, [&all](uint64_t seed) { Session(seed, &all).Run(300); });
  printf("many faults: %d seeds: %" PRIu64 " operations, %" PRIu64
         " failures, %" PRIu64 " databases created and %" PRIu64
         " failures to, %" PRIu64 " dropped and %" PRIu64
         " failures to, %" PRIu64 " writes, %" PRIu64 " power cuts, %" PRIu64
         " came back\n",
         seeds, all.operations, all.failures, all.created, all.failed_creations,
         all.dropped, all.failed_drops, all.writes, all.cuts, all.came_back);
}

}  // namespace
}  // namespace varve::test
