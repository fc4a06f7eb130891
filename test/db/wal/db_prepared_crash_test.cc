// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: whatever happens, a database with prepared transactions is in a state
// that it once had, with all that was synced: no transaction is lost, none is
// applied twice or in part, none comes back after its end. Method: random
// histories of prepares, commits, rollbacks and plain writes over families that
// are flushed, dropped and made again, with kills, power cuts, failed syncs,
// opens and repairs between; the whole state is compared with a model.
// VARVE_PREPARED_STEPS sets the number of steps.

#include "test/testing/db/prepared_fixture.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

// An update, and which family of that name it is of.
struct ModelUpdate {
  std::string family;
  int incarnation = 0;
  char kind = 'p';  // Put, merge, delete.
  std::string key;
  std::string value;
};

class DbPreparedCrashTest : public PreparedTest {
 protected:
  struct ModelState {
    State contents;
    std::map<std::string, std::vector<ModelUpdate>> prepared;
  };

  DbPreparedCrashTest() {
    options_.max_total_wal_size = 128 << 10;
    names_ = {kDefaultColumnFamilyName, "a", "b"};
  }

  // Fills a batch, and returns what it does.
  std::vector<ModelUpdate> FillBatch(WriteBatch* batch) {
    std::vector<ModelUpdate> updates;
    for (int i = rng_.Between(0, 4); i > 0; --i) {
      ModelUpdate update;
      update.family = names_[rng_.Below(names_.size())];
      update.incarnation = incarnations_[update.family];
      update.key = "k" + std::to_string(rng_.Below(20));
      update.value = std::to_string(++values_);
      ColumnFamilyHandle* const handle = At(update.family);
      if (rng_.OneIn(3)) {
        update.kind = 'm';
        batch->Merge(handle, update.key, update.value);
      } else if (rng_.OneIn(3)) {
        update.kind = 'd';
        batch->Delete(handle, update.key);
      } else {
        if (rng_.OneIn(6)) update.value.append(rng_.Below(8 << 10), 'v');
        batch->Put(handle, update.key, update.value);
      }
      updates.push_back(std::move(update));
    }
    return updates;
  }
  void Apply(const std::vector<ModelUpdate>& updates, State* contents) {
    for (const ModelUpdate& update : updates) {
      if (update.incarnation != incarnations_[update.family]) continue;
      Entries& entries = (*contents)[update.family];
      if (update.kind == 'p') {
        entries[update.key] = update.value;
      } else if (update.kind == 'm') {
        Append(update.key, update.value, &entries);
      } else {
        entries.erase(update.key);
      }
    }
  }
  ModelState& Next() { return states_.emplace_back(states_.back()); }
  // All that was done is durable, or nothing before it counts any more.
  void MarkDurable() { states_.erase(states_.begin(), states_.end() - 1); }
  std::string AnyPrepared() {
    auto it = states_.back().prepared.begin();
    std::advance(it, rng_.Below(states_.back().prepared.size()));
    return it->first;
  }

  static bool Same(const State& a, const State& b) {
    const auto is_in = [](const State& part, const State& whole) {
      return std::all_of(part.begin(), part.end(), [&whole](const auto& entry) {
        const auto found = whole.find(entry.first);
        return found != whole.end() ? found->second == entry.second
                                    : entry.second.empty();
      });
    };
    return is_in(a, b) && is_in(b, a);
  }
  // Expects one of the states from the last durable one on, and continues with
  // it; without `any`, the last one.
  void ExpectState(const char* after, bool any) {
    const State found = Read();
    while (!Same(states_.back().contents, found)) {
      ASSERT_TRUE(any && states_.size() > 1)
          << "after " << after << ", step " << step_;
      states_.pop_back();
    }
    MarkDurable();
  }

  // Takes a step that may be synced, or fail.
  void Write() {
    const WriteOptions options{.sync = rng_.OneIn(3)};
    const bool fails = options.sync && rng_.OneIn(15);
    if (fails) {
      env_.FailAfter(0, FaultInjectionEnv::InjectedError(), kSyncOperation);
    }
    ModelState next = states_.back();
    WriteBatch batch;
    Status status;
    const uint64_t kind = rng_.Below(next.prepared.empty() ? 5 : 9);
    if (kind < 3) {
      Apply(FillBatch(&batch), &next.contents);
      status = db_->Write(options, &batch);
    } else if (kind < 5) {
      const std::string name = "t" + std::to_string(rng_.Below(4));
      if (next.prepared.count(name) != 0) return env_.ClearFailure();
      next.prepared[name] = FillBatch(&batch);
      next.contents[kPrepared][name] = RecordsOf(batch);
      status = db_->WritePrepared(options, name, &batch);
    } else {
      const std::string name = AnyPrepared();
      if (kind < 8) {
        status = db_->CommitPrepared(options, name);
        Apply(next.prepared[name], &next.contents);
      } else {
        status = db_->RollbackPrepared(options, name);
      }
      next.prepared.erase(name);
      next.contents[kPrepared].erase(name);
    }
    env_.ClearFailure();
    ASSERT_EQ(status.ok(), !fails) << status.ToString();
    if (fails) {
      ASSERT_TRUE(Ok(db_->Resume()));
      ExpectState("Resume", false);
      return;
    }
    Next() = std::move(next);
    if (options.sync) MarkDurable();
  }
  void Recreate(const std::string& family) {
    ASSERT_TRUE(Ok(db_->DropColumnFamily(At(family))));
    ColumnFamilyHandle* handle = nullptr;
    ASSERT_TRUE(Ok(db_->CreateColumnFamily(options_, family, &handle)));
    handles_[family].reset(handle);
    ++incarnations_[family];
    Next().contents[family].clear();
    // The MANIFEST cannot lose it, though the logs may lose what was before.
    // Without more in the model, that is made durable.
    ASSERT_TRUE(Ok(db_->SyncWAL()));
    MarkDurable();
  }
  // A repair also takes the logs that an open after a power cut left out.
  void RemoveLostLogs() {
    const std::string lost = std::string(kPath) + "/lost";
    std::vector<std::string> names;
    env_.GetChildren(lost, &names).IgnoreError();
    for (const std::string& name : names) {
      ASSERT_TRUE(Ok(env_.RemoveFile(lost + "/" + name)));
    }
  }
  void Step() {
    const uint64_t action = rng_.Below(100);
    if (action < 75) {
      Write();
    } else if (action < 88) {
      Flush(names_[rng_.Below(names_.size())]);
    } else if (action < 91) {
      Reopen();
      ExpectState("Close", false);
    } else if (action < 94) {
      Kill();
      ExpectState("a kill", false);
    } else if (action < 98) {
      PowerCut(
          {.seed = rng_.Next(), .lose_everything_unsynced = rng_.OneIn(3)});
      ExpectState("a power cut", true);
    } else if (action < 99) {
      ASSERT_TRUE(Ok(db_->SyncWAL()));
      Recreate("b");
    } else {
      ASSERT_TRUE(Ok(db_->Close()));
      Drop();
      RemoveLostLogs();
      ASSERT_TRUE(Ok(RepairDB(kPath, options_)));
      Open();
      ExpectState("a repair", false);
    }
  }

  Rng rng_{TestSeed()};
  std::vector<ModelState> states_ = std::vector<ModelState>(1);
  std::map<std::string, int> incarnations_;
  int values_ = 0;
  int step_ = 0;
};

TEST_F(DbPreparedCrashTest, IsAlwaysInAStateOfItsHistory) {
  Open();
  const int steps = EnvironmentInt("VARVE_PREPARED_STEPS", 1500);
  for (step_ = 0; step_ < steps && !HasFatalFailure(); ++step_) Step();
}

}  // namespace
}  // namespace varve::test
