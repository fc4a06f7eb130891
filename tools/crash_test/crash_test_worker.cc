// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include <signal.h>
#include <sys/prctl.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tools/crash_test/crash_test_plan.h"
#include "util/base/random.h"
#include "varve/checkpoint.h"
#include "varve/read_transaction.h"

namespace varve::crash_test {

namespace {

// Ends the process. The parent, which waits for it, finds the wrong status.
[[noreturn]] void Die(const std::string& what) {
  fprintf(stderr, "crash_test: worker: %s\n", what.c_str());
  _Exit(1);
}

void Must(const Status& status, const char* what) {
  if (!status.ok()) Die(std::string(what) + ": " + status.ToString());
}

void MustBeEmpty(const std::string& problem, const char* where) {
  if (!problem.empty()) Die(std::string(where) + ": " + problem);
}

// Makes each update of a batch by the call for it.
class SingleCalls : public WriteBatch::Handler {
 public:
  SingleCalls(const OpenedDb& opened, const WriteOptions& options)
      : opened_(opened), options_(options) {}
  Status PutCF(uint32_t id, const Slice& key, const Slice& value) override {
    return opened_.db->Put(options_, Find(id), key, value);
  }
  Status MergeCF(uint32_t id, const Slice& key, const Slice& operand) override {
    return opened_.db->Merge(options_, Find(id), key, operand);
  }
  Status DeleteCF(uint32_t id, const Slice& key) override {
    return opened_.db->Delete(options_, Find(id), key);
  }
  Status DeleteRangeCF(uint32_t id, const Slice& begin,
                       const Slice& end) override {
    return opened_.db->DeleteRange(options_, Find(id), begin, end);
  }
  // The others are not called.
  void Put(const Slice& /*key*/, const Slice& /*value*/) override {}
  void Delete(const Slice& /*key*/) override {}
  void DeleteRange(const Slice& /*begin*/, const Slice& /*end*/) override {}

 private:
  ColumnFamilyHandle* Find(uint32_t id) const {
    for (ColumnFamilyHandle* const family : opened_.families) {
      if (family->GetID() == id) return family;
    }
    Die("an update of another family");
  }

  const OpenedDb& opened_;
  const WriteOptions options_;
};

class Worker {
 public:
  Worker(std::string directory, uint64_t seed, uint64_t cycle)
      : directory_(std::move(directory)),
        seed_(seed),
        cycle_(cycle),
        plan_(PlanCycle(seed, cycle)),
        progress_(MapProgress(directory_ + "/progress")) {}

  [[noreturn]] void Run() {
    Must(OpenDatabase(plan_, directory_ + "/db", false, &opened_), "open");
    Moment start;
    MustBeEmpty(ReadMoment(opened_, {}, false, &start), "start");
    MustBeEmpty(CheckMoment(start, progress_->Acknowledged()), "start");
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      ThreadModel model(seed_, t);
      model.Restore(progress_->threads[t].acknowledged.load(),
                    start.entries[t]);
      threads.emplace_back([this, t, model] { Write(t, model); });
    }
    threads.emplace_back([this] { ReadSnapshots(); });
    threads.emplace_back([this] { Iterate(); });
    threads.emplace_back([this] { Maintain(); });
    for (std::thread& thread : threads) thread.join();
    Die("a thread has come to its end");
  }

 private:
  DB* db() const { return opened_.db.get(); }

  void Write(int t, ThreadModel model) {
    Progress::PerThread& mine = progress_->threads[t];
    Random random(seed_ ^ cycle_ << 8 ^ static_cast<uint64_t>(t));
    const bool syncs_often = random.OneIn(2);
    for (;;) {
      const Counts before = progress_->Acknowledged();
      WriteBatch batch;
      model.Apply(cycle_, &batch);
      WriteOptions options;
      options.disable_wal = plan_.disable_wal;
      options.sync = !options.disable_wal && random.OneIn(syncs_often ? 3 : 50);
      mine.begun.store(model.last());
      if (t < kSealedThreads) {
        batch.Put(SealKey(t), model.Seal());
        batch.Put(ClockKey(t), MakeClock(before));
      }
      WriteBatch spread;
      Spread(batch, opened_.families, &spread);
      // A range deletion is one update in each family, which must not be torn.
      if (t < kSealedThreads || spread.Count() != 1) {
        Must(opened_.db->Write(options, &spread), "write");
      } else {
        SingleCalls calls(opened_, options);
        Must(spread.Iterate(&calls), "a single update");
      }
      mine.acknowledged.store(model.last());
      if (options.sync || plan_.KeepsAll()) {
        Counts safe = before;
        safe[t] = model.last();
        progress_->RaiseSafe(safe);
      }
    }
  }

  // The moment of a snapshot is whole, holds what had returned before, and
  // stays what it is.
  void ReadSnapshots() {
    Random random(seed_ + cycle_);
    for (;;) {
      const Counts before = progress_->Acknowledged();
      const bool as_transaction = random.OneIn(2);
      ReadTransaction transaction;
      if (as_transaction) transaction = ReadTransaction(opened_.db.get());
      const Snapshot* const snapshot =
          as_transaction ? transaction.snapshot() : db()->GetSnapshot();
      ReadOptions options;
      options.snapshot = snapshot;
      Moment first, second;
      MustBeEmpty(ReadMoment(opened_, options, false, &first), "snapshot");
      MustBeEmpty(CheckMoment(first, before), "snapshot");
      if (random.OneIn(2)) {
        std::this_thread::sleep_for(
            std::chrono::milliseconds(random.Uniform(30)));
      }
      MustBeEmpty(ReadMoment(opened_, options, true, &second),
                  "snapshot, backwards");
      if (!second.Follows(first)) Die("a snapshot changed");
      MustBeEmpty(CheckLookups(opened_, options, first), "snapshot");
      if (!as_transaction) db()->ReleaseSnapshot(snapshot);
      progress_->moments.fetch_add(1);
    }
  }

  // Checks a moment that an iterator shows.
  void Iterate() {
    Random random(seed_ + cycle_ + 1);
    for (;;) {
      const Counts before = progress_->Acknowledged();
      ReadOptions options;
      options.fill_cache = random.OneIn(2);
      Iterators iterators;
      MustBeEmpty(MakeIterators(opened_, options, &iterators), "iterators");
      Moment first, second;
      MustBeEmpty(ReadMoment(iterators, random.OneIn(2), &first), "iterator");
      MustBeEmpty(CheckMoment(first, before), "iterator");
      MustBeEmpty(ReadMoment(iterators, random.OneIn(2), &second), "iterator");
      if (!second.Follows(first)) Die("an iterator changed its mind");
      progress_->moments.fetch_add(1);
    }
  }

  void Maintain() {
    Random random(seed_ * 3 + cycle_);
    for (int i = 0;; ++i) {
      std::this_thread::sleep_for(
          std::chrono::milliseconds(1 + random.Uniform(20)));
      const Counts before = progress_->Acknowledged();
      switch (random.Uniform(6)) {
        case 0:
          Must(db()->Flush({}, opened_.families), "flush");
          progress_->RaiseSafe(before);
          progress_->flushes.fetch_add(1);
          break;
        case 1: {
          const std::string from = "t" + std::to_string(random.Uniform(4));
          const Slice begin(from);
          Must(
              db()->CompactRange(
                  {}, opened_.families[random.Uniform(opened_.families.size())],
                  random.OneIn(2) ? nullptr : &begin, nullptr),
              "compaction");
          progress_->compactions.fetch_add(1);
          break;
        }
        case 2:
          Must(db()->SyncWAL(), "sync");
          if (!plan_.disable_wal) progress_->RaiseSafe(before);
          break;
        case 3:
          Must(db()->FlushWAL(random.OneIn(2)), "flush of the log");
          if (!plan_.disable_wal) progress_->RaiseSafe(before);
          break;
        case 4:
          PassFamilies(&random);
          break;
        default:
          CheckCheckpoint(i, before);
      }
    }
  }

  // Creates a family or drops one, and writes to those that are there.
  void PassFamilies(Random* random) {
    auto& passing = opened_.passing;
    WriteOptions options;
    options.disable_wal = plan_.disable_wal;
    if (passing.size() < 3) {
      ColumnFamilyHandle* made = nullptr;
      Must(db()->CreateColumnFamily(plan_.options,
                                    "passing" + std::to_string(cycle_) + "." +
                                        std::to_string(++made_),
                                    &made),
           "create a family");
      passing.push_back(made);
    }
    WriteBatch batch;
    for (ColumnFamilyHandle* const family : passing) {
      batch.Put(family, "k", std::string(random->Uniform(3000), 'p'));
    }
    Must(db()->Write(options, &batch), "write to passing families");
    if (random->OneIn(2)) Must(db()->Flush({}, passing), "flush them");
    if (passing.size() >= 3 || random->OneIn(3)) {
      ColumnFamilyHandle* const gone = passing[random->Uniform(passing.size())];
      Must(db()->DropColumnFamily(gone), "drop a family");
      std::erase(passing, gone);
      std::string value;
      Must(db()->Get({}, gone, "k", &value), "read a dropped family");
      if (db()->Write(options, &batch).ok())
        Die("a dropped family was written");
      delete gone;
      progress_->drops.fetch_add(1);
    }
  }

  void CheckCheckpoint(int i, const Counts& before) {
    const std::string place = CheckpointPath(directory_, i % 2);
    // A checkpoint is whole whenever its name exists.
    const std::string old = directory_ + "/old";
    std::filesystem::remove_all(old);
    if (std::filesystem::exists(place)) std::filesystem::rename(place, old);
    std::unique_ptr<Checkpoint> checkpoint;
    Must(Checkpoint::Create(db(), &checkpoint), "checkpoint");
    Must(checkpoint->CreateCheckpoint(place), "checkpoint");
    OpenedDb copy;
    Must(OpenDatabase(plan_, place, true, &copy), "open a checkpoint");
    Moment moment;
    MustBeEmpty(ReadMoment(copy, {}, false, &moment), "checkpoint");
    MustBeEmpty(CheckMoment(moment, before), "checkpoint");
    progress_->checkpoints.fetch_add(1);
  }

  const std::string directory_;
  const uint64_t seed_;
  const uint64_t cycle_;
  const CyclePlan plan_;
  Progress* const progress_;
  OpenedDb opened_;
  int made_ = 0;  // Passing families.
};

}  // namespace

void Work(const std::string& directory, uint64_t seed, uint64_t cycle) {
  // Ends with the parent.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  Worker(directory, seed, cycle).Run();
}

}  // namespace varve::crash_test
