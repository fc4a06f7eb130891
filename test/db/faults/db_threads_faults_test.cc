// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: optimized threads variants
//
// Goal: several threads use one database while system calls fail, and it is
// resumed, loses power or is closed. All data that was acknowledged and synced
// survives, there are no gaps, no reader sees half of a batch or two moments at
// once, and nothing hangs. Method: each writer has its own keys, in two
// streams: one of logged batches, one of batches with disable_wal. A batch
// contains its number, and the numbers that all streams had reached when it
// began. A reader of the database (open, reopened, or a checkpoint) derives its
// whole expected contents from these numbers. db_many_faults_test does the same
// with one thread, and so repeatably.

#include "test/testing/db_helpers.h"
#include "test/testing/env/slow_env.h"
#include "test/testing/faults/fault_seeds.h"
#include "test/testing/machine/batch_stream.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "varve/read_transaction.h"
#include "varve/testing/fault_injection_env.h"

namespace varve::test {
namespace {

constexpr int kWriters = 3;
constexpr int kStreams = 2 * kWriters;  // Logged and not in turn.
constexpr int kKeys = BatchStream::kKeys;

using Numbers = std::array<size_t, kStreams>;
bool IsLogged(int stream) { return stream % 2 == 0; }

std::string StreamKey(int stream, int key) {
  return "stream" + std::to_string(stream) + Key(key);
}
// Sorts after all of the stream's keys.
std::string NumberKey(int stream) {
  return "stream" + std::to_string(stream) + "number";
}

std::string StreamValue(int stream, uint32_t number, int key) {
  uint64_t hash = (number * uint64_t{kKeys} + static_cast<uint64_t>(key)) *
                  uint64_t{0x9E3779B97F4A7C15};
  hash ^= hash >> 29;
  const size_t size = hash % 64 == 0 ? 9000 : hash % 8 == 0 ? 1500 : 40;
  std::string value = std::to_string(stream) + "." + std::to_string(number) +
                      "." + std::to_string(key);
  value.resize(size, 'x');
  for (size_t i = 24; i < size; i += 2) {
    hash = hash * 6364136223846793005u + 1442695040888963407u;
    value[i] = static_cast<char>(hash >> 56);
  }
  return value;
}

// For as long as a moment between two steps of a thread takes, or longer.
void Dawdle(Rng* rng, uint64_t limit_us) {
  if (limit_us == 0 || rng->OneIn(3)) return;
  if (rng->OneIn(3)) {
    std::this_thread::yield();
    return;
  }
  std::this_thread::sleep_for(
      std::chrono::microseconds(rng->Below(limit_us) + 1));
}

struct Totals {
  std::atomic<uint64_t> writes{0};
  std::atomic<uint64_t> refused{0};
  std::atomic<uint64_t> failures{0};
  std::atomic<uint64_t> resumes{0};
  std::atomic<uint64_t> failed_resumes{0};
  std::atomic<uint64_t> moments{0};
  std::atomic<uint64_t> checkpoints{0};
  std::atomic<uint64_t> cuts{0};
  std::atomic<uint64_t> lost{0};  // Acknowledged, not safe.
};

enum class Source { kOpen, kOpenedAgain, kCheckpoint };

class Session {
 public:
  Session(uint64_t seed, Totals* totals)
      : seed_(seed),
        totals_(totals),
        rng_(seed),
        memory_(NewMemoryEnv(Env::Default())),
        faulty_(memory_.get()),
        slow_(&faulty_, rng_.Next(), rng_.Pick({0, 50, 300})) {
    EXPECT_TRUE(Ok(memory_->CreateDirIfMissing("/db")));
    options_ = TinyOptions();
    options_.env = &slow_;
    options_.write_buffer_size = rng_.Pick({8 << 10, 16 << 10, 64 << 10});
    options_.max_write_buffer_number = rng_.Between(2, 5);
    options_.target_file_size_base = 8 << 10;
    options_.max_bytes_for_level_base = 16 << 10;
    options_.level0_file_num_compaction_trigger = rng_.Between(2, 4);
    options_.level0_slowdown_writes_trigger = 8;
    options_.level0_stop_writes_trigger = rng_.Between(8, 12);
    options_.max_subcompactions = rng_.Between(1, 3);
    options_.max_background_jobs = rng_.Between(2, 5);
    options_.manual_wal_flush = rng_.OneIn(4);
    if (rng_.OneIn(3)) {
      options_.listeners.push_back(std::make_shared<SlowListener>(&slow_));
    }
    if (rng_.OneIn(3)) options_.block_cache = NewTestCache(0);
    sync_one_in_ = rng_.Pick<uint64_t>({3, 20, 200});
  }
  ~Session() { db_.reset(); }

  void Run(int rounds) {
    Open(false);
    for (int i = 0; i < rounds && !HasComplaint(); ++i) Round();
    totals_->failures += faulty_.FailureCount();
  }

 private:
  // ---- What happens ----

  void Round() {
    // So that no batch that is there counts some that an opening has lost.
    ExpectWritable();
    if (HasComplaint()) return;
    stop_ = false;
    std::vector<std::thread> threads;
    for (int i = 0; i < kWriters; ++i) {
      threads.emplace_back([this, i, seed = rng_.Next()] { Write(i, seed); });
    }
    threads.emplace_back([this, seed = rng_.Next()] { Read(seed); });
    threads.emplace_back([this, seed = rng_.Next()] { Manage(seed); });
    const auto end = std::chrono::steady_clock::now() +
                     std::chrono::milliseconds(rng_.OneIn(8)   ? 250
                                               : rng_.OneIn(3) ? 60
                                                               : 15);
    const uint64_t haste_us = rng_.Pick({300, 1500, 6000});
    while (std::chrono::steady_clock::now() < end && !HasComplaint()) {
      if (rng_.OneIn(3)) PlanFailure();
      Dawdle(&rng_, haste_us);
      if (!rng_.OneIn(4)) faulty_.ClearFailure();
      if (!rng_.OneIn(4)) Resume();
      Dawdle(&rng_, haste_us);
    }
    const int ending = rng_.Between(0, 5);
    if (ending == 0) faulty_.SetFilesystemActive(false);  // Under their hands.
    if (ending == 1) {
      cancelled_ = true;
      db_->CancelAllBackgroundWork(rng_.OneIn(2));
      Dawdle(&rng_, haste_us);
    }
    stop_ = true;
    for (std::thread& thread : threads) thread.join();
    if (HasComplaint()) return;
    if (ending == 2) ExpectWritable();
    for (int i = ending > 3 ? rng_.Between(1, 8) : 0; i > 0; --i) {
      FailToResume();
      Reopen(rng_.OneIn(4));
      if (HasComplaint()) return;
      ExpectWritable();
    }
    Reopen(ending == 0 || rng_.OneIn(3));
  }

  void ClearFailures() {
    faulty_.ClearFailure();
    slow_.RefuseJob(false);
  }

  // Beside what the database does by itself: it is left to be closed as it is
  // after an error, or after a Resume that met another one.
  void FailToResume() {
    ClearFailures();
    // Close says that it has lost what no log has, whatever else is lost.
    const int step = rng_.Between(1, 2);
    const auto write = [this, step] {
      for (int i = 0; i < kStreams; i += step) WriteOne(i, &rng_, true);
    };
    for (int i = rng_.Between(1, 3); i > 0; --i) {
      Resume();
      write();
      PlanFailure(rng_.OneIn(2) ? OperationMask{kSyncDirectoryOperation} : 0);
      FlushOptions begin_only{.wait = false};
      if (!rng_.OneIn(4)) Expected(db_->Flush(begin_only));
      write();
      if (rng_.OneIn(2)) Expected(db_->WaitForCompact());
      PlanFailure();
      if (rng_.OneIn(2)) Resume();
    }
    ClearFailures();
  }

  // `kinds`: 0 is for any.
  void PlanFailure(OperationMask kinds = 0) {
    const OperationMask changing = kCreateOperation | kWriteOperation |
                                   kSyncOperation | kCloseOperation |
                                   kRenameOperation | kSyncDirectoryOperation;
    if (rng_.OneIn(12)) slow_.RefuseJob(true);
    FailureOptions how{.once = !rng_.OneIn(4), .partial_append = rng_.OneIn(2)};
    faulty_.SetPathFilter(
        rng_.Pick({"", "", ".log", ".sst", "MANIFEST", "/db/it"}));
    faulty_.FailAfter(
        rng_.Below(rng_.Pick({1, 4, 30})),
        rng_.OneIn(5) ? Status::FromErrno("injected", ENOSPC)
                      : FaultInjectionEnv::InjectedError(),
        kinds != 0
            ? kinds
            : rng_.Pick({changing, uint32_t{kSyncDirectoryOperation},
                         uint32_t{kSyncOperation}, uint32_t{kWriteOperation},
                         uint32_t{kCreateOperation},
                         uint32_t{kReadingOperations},
                         uint32_t{kAllOperations}}),
        how);
  }

  void Resume() {
    const Status status = db_->Resume();
    ++(status.ok() ? totals_->resumes : totals_->failed_resumes);
    Expected(status);
  }

  // All threads have stopped, and so do the faults.
  void ExpectWritable() {
    ClearFailures();
    Must("Resume", db_->Resume());
    // A job that runs may have met one before.
    if (!db_->WaitForCompact().ok()) Must("second Resume", db_->Resume());
    for (int stream = 0; stream < kStreams && !HasComplaint(); ++stream) {
      WriteOne(stream, &rng_, false);
    }
    Must("Flush", db_->Flush({}));
    EntryList entries;
    Must("reading", ScanForward(db_.get(), {}, &entries));
    if (!HasComplaint()) Check(entries, Acknowledged(), Source::kOpen);
  }

  void Write(int writer, uint64_t seed) {
    Rng rng(seed);
    while (!stop_) {
      const int stream = 2 * writer + (rng.OneIn(5) ? 1 : 0);
      const bool done = WriteOne(stream, &rng, true);
      if (rng.OneIn(16)) ReadOwn(2 * writer + rng.Between(0, 1), &rng);
      if (rng.OneIn(40)) {
        const Numbers before = Acknowledged();
        const Status status =
            rng.OneIn(2) ? db_->SyncWAL() : db_->FlushWAL(true);
        Expected(status);
        if (status.ok()) RaiseMinimums(before, false);
      }
      Dawdle(&rng, done ? (rng.OneIn(8) ? 300 : 0) : 300);
    }
  }

  bool WriteOne(int stream, Rng* rng, bool may_fail) {
    const Numbers before = Acknowledged();
    const uint32_t number = streams_[stream].NextNumber();
    BatchStream::State state = streams_[stream].Newest();
    WriteBatch batch;
    for (int i = rng->Between(1, 6); i > 0; --i) {
      const int key = rng->Between(0, kKeys - 1);
      const int end =
          std::min(rng->OneIn(12) ? key + rng->Between(1, 9) : key + 1, kKeys);
      const std::string name = StreamKey(stream, key);
      const bool puts = end == key + 1 && !rng->OneIn(5);
      if (puts) {
        batch.Put(name, StreamValue(stream, number, key));
      } else if (end == key + 1) {
        batch.Delete(name);
      } else {
        batch.DeleteRange(name, StreamKey(stream, end));
      }
      std::fill(state.begin() + key, state.begin() + end, puts ? number : 0);
    }
    std::string text = std::to_string(number);
    for (const size_t other : before) text += " " + std::to_string(other);
    batch.Put(NumberKey(stream), text);
    WriteOptions options;
    options.disable_wal = !IsLogged(stream);
    options.sync = IsLogged(stream) && rng->OneIn(sync_one_in_);
    options.no_slowdown = may_fail && rng->OneIn(16);
    streams_[stream].Begin(state);
    const Status status = db_->Write(options, &batch);
    Expected(status);
    ++totals_->writes;
    if (!status.ok()) ++totals_->refused;
    if (!status.ok() && !may_fail) {
      Complain("a write fails without a fault: " + status.ToString());
    }
    if (!streams_[stream].End(status.ok())) {
      Complain("seen, though it was refused: stream " + std::to_string(stream) +
               ", " + text);
    }
    if (status.ok() && options.sync) {
      RaiseMinimums(before, false);
      streams_[stream].RaiseMinimum(number);
    }
    return status.ok();
  }

  void Manage(uint64_t seed) {
    Rng rng(seed);
    while (!stop_) {
      const Numbers before = Acknowledged();
      switch (rng.Below(10)) {
        case 0:
        case 1: {
          const Status status = db_->Flush({});
          Expected(status);
          if (status.ok()) RaiseMinimums(before, true);
          break;
        }
        case 2: {
          Expected(db_->Flush({.wait = false}));
          break;
        }
        case 3:
        case 4:
          CompactSome(&rng);
          break;
        case 5:
          SetSome(&rng);
          break;
        case 6:
        case 7:
          MakeCheckpoint();
          break;
        case 8:
          Expected(db_->Resume());
          break;
        default:
          if (rng.OneIn(4)) Expected(db_->WaitForCompact());
      }
      Dawdle(&rng, 2000);
    }
  }

  void CompactSome(Rng* rng) {
    CompactRangeOptions options;
    options.exclusive_manual_compaction = rng->OneIn(2);
    options.rewrite_bottommost_level = rng->OneIn(3);
    const std::string begin = StreamKey(rng->Between(0, kStreams - 1), 0);
    const std::string end = StreamKey(rng->Between(0, kStreams - 1), kKeys);
    const Slice begin_key = begin, end_key = end;
    Expected(db_->CompactRange(options, rng->OneIn(2) ? nullptr : &begin_key,
                               rng->OneIn(2) ? nullptr : &end_key));
  }

  void SetSome(Rng* rng) {
    const char* const size = rng->Pick({"8K", "16K", "64K"});
    Expected(db_->SetOptions(rng->Pick<std::map<std::string, std::string>>(
        {{{"write_buffer_size", size}},
         {{"max_write_buffer_number", rng->Pick({"2", "3", "6"})}},
         {{"level0_file_num_compaction_trigger", rng->Pick({"2", "4"})}},
         {{"target_file_size_base", size}}})));
  }

  void MakeCheckpoint() {
    const Numbers before = Acknowledged();
    const std::string path = "/db/copy" + std::to_string(++copies_);
    const Status status = db_->CreateCheckpoint(path);
    Expected(status);
    if (!status.ok()) return;
    ++totals_->checkpoints;
    CheckCheckpoint(path, before);
    // One of them is to outlive the power.
    const bool keep = copy_.empty();
    if (keep) {
      copy_ = path;
      copy_numbers_ = before;
      return;
    }
    Options options;
    options.env = &faulty_;
    DestroyDB(path, options).IgnoreError();  // Only to have the space back.
  }

  // ---- What is read ----

  void Read(uint64_t seed) {
    Rng rng(seed);
    while (!stop_) {
      Numbers before = Acknowledged();
      ReadOptions options;
      EntryList entries;
      Status status;
      switch (rng.Below(4)) {
        case 0:
          status = ReadNumbers(options, &entries);
          if (status.ok()) {
            Numbers numbers;
            CheckNumbers(entries, before, Source::kOpen, &numbers);
          }
          break;
        case 1: {
          const ReadTransaction transaction(db_.get());
          options.snapshot = transaction.snapshot();
          Dawdle(&rng, 3000);
          status = ScanForward(db_.get(), options, &entries);
          if (status.ok()) Check(entries, before, Source::kOpen);
          break;
        }
        case 2: {
          const Snapshot* const snapshot = db_->GetSnapshot();
          options.snapshot = snapshot;
          EntryList again;
          status = ScanForward(db_.get(), options, &entries);
          Dawdle(&rng, 3000);
          if (status.ok()) {
            Check(entries, before, Source::kOpen);
            status = ScanBackward(db_.get(), options, &again);
          }
          if (status.ok()) {
            const auto same = SameEntries(entries, again);
            if (!same) Complain(std::string("a snapshot: ") + same.message());
          }
          db_->ReleaseSnapshot(snapshot);
          break;
        }
        default:
          status = rng.OneIn(2) ? ScanForward(db_.get(), options, &entries)
                                : ScanBackward(db_.get(), options, &entries);
          if (status.ok()) Check(entries, before, Source::kOpen);
      }
      Expected(status);
      Dawdle(&rng, 500);
    }
  }

  // One of the stream's own thread sees what it has written, and nothing else.
  void ReadOwn(int stream, Rng* rng) {
    const BatchStream::State state = streams_[stream].Newest();
    const int key = rng->Between(0, kKeys - 1);
    const uint32_t set_by = state[static_cast<size_t>(key)];
    std::string value;
    const Status status = db_->Get({}, StreamKey(stream, key), &value);
    if (!status.ok() && !status.IsNotFound()) return Expected(status);
    if (status.IsNotFound() != (set_by == 0) ||
        (set_by != 0 && value != StreamValue(stream, set_by, key))) {
      Complain("Get of " + StreamKey(stream, key) + ": " + status.ToString() +
               ", " + value.substr(0, 30) + ", is of " +
               std::to_string(set_by));
    }
  }

  Status ReadNumbers(const ReadOptions& options, EntryList* entries) {
    std::vector<std::string> keys, values;
    for (int stream = 0; stream < kStreams; ++stream)
      keys.push_back(NumberKey(stream));
    const std::vector<Slice> slices(keys.begin(), keys.end());
    const std::vector<Status> statuses =
        db_->MultiGet(options, slices, &values);
    for (size_t i = 0; i < keys.size(); ++i) {
      if (statuses[i].IsNotFound()) continue;
      if (!statuses[i].ok()) return statuses[i];
      entries->emplace_back(keys[i], values[i]);
    }
    return Status::OK();
  }

  // ---- What must be there ----

  Numbers Acknowledged() {
    Numbers numbers;
    for (int i = 0; i < kStreams; ++i) numbers[i] = streams_[i].acknowledged();
    return numbers;
  }
  void RaiseMinimums(const Numbers& numbers, bool unlogged) {
    for (int i = 0; i < kStreams; ++i) {
      if (unlogged || IsLogged(i)) streams_[i].RaiseMinimum(numbers[i]);
    }
  }

  // Checks that the numbers of the found streams belong to one moment.
  bool CheckNumbers(const EntryList& entries, const Numbers& at_least,
                    Source source, Numbers* numbers) {
    std::array<Numbers, kStreams> seen = {};
    *numbers = {};
    for (int stream = 0; stream < kStreams; ++stream) {
      const auto entry = std::find_if(
          entries.begin(), entries.end(),
          [&](const auto& each) { return each.first == NumberKey(stream); });
      if (entry == entries.end()) continue;
      std::istringstream text(entry->second);
      text >> (*numbers)[stream];
      for (size_t& other : seen[stream]) text >> other;
    }
    for (int stream = 0; stream < kStreams; ++stream) {
      const size_t number = (*numbers)[stream];
      if (number < at_least[stream]) {
        Complain("stream " + std::to_string(stream) + " is at " +
                 std::to_string(number) + ", " +
                 std::to_string(at_least[stream]) + " had returned");
      }
      for (int other = 0; other < kStreams; ++other) {
        // Those with the log survive others, without it.
        if (source == Source::kOpenedAgain && IsLogged(stream) &&
            !IsLogged(other)) {
          continue;
        }
        if (seen[stream][other] > (*numbers)[other]) {
          Complain("a hole: stream " + std::to_string(stream) + " at " +
                   std::to_string(number) + " has seen " +
                   std::to_string(seen[stream][other]) + " of stream " +
                   std::to_string(other) + ", which is at " +
                   std::to_string((*numbers)[other]));
        }
      }
    }
    return !HasComplaint();
  }

  // The entries are all of the database's.
  void Check(const EntryList& entries, const Numbers& at_least, Source source,
             Numbers* numbers = nullptr) {
    Numbers found;
    if (!CheckNumbers(entries, at_least, source, &found)) return;
    if (numbers != nullptr) *numbers = found;
    EntryList expected;
    auto entry = entries.begin();
    for (int stream = 0; stream < kStreams; ++stream) {
      const size_t number = found[stream];
      BatchStream::State state;
      if (source == Source::kOpenedAgain
              ? !streams_[stream].MayOpenAt(number, IsLogged(stream), &state)
              : !streams_[stream].See(number, &state)) {
        return Complain("stream " + std::to_string(stream) + " is at " +
                        std::to_string(number) + ": " +
                        streams_[stream].Describe());
      }
      for (int key = 0; key < kKeys; ++key) {
        const uint32_t set_by = state[static_cast<size_t>(key)];
        if (set_by == 0) continue;
        expected.emplace_back(StreamKey(stream, key),
                              StreamValue(stream, set_by, key));
      }
      if (number == 0) continue;
      while (entry->first != NumberKey(stream)) ++entry;
      expected.push_back(*entry);
    }
    const auto same = SameEntries(expected, entries);
    if (!same) Complain(same.message());
    ++totals_->moments;
  }

  void CheckCheckpoint(const std::string& path, const Numbers& at_least) {
    Options options;
    options.env = memory_.get();
    std::unique_ptr<DB> copy;
    EntryList entries;
    Must(path, DB::OpenForReadOnly(options, path, &copy));
    if (copy == nullptr) return;
    Must(path, ScanForward(copy.get(), {}, &entries));
    Check(entries, at_least, Source::kCheckpoint);
  }

  void Reopen(bool cut_before_close) {
    if (cut_before_close) {
      faulty_.SetFilesystemActive(false);
    } else {
      if (rng_.OneIn(2)) faulty_.ClearFailure();
      const Status status = db_->Close();
      Expected(status);
      if (status.ok()) RaiseMinimums(Acknowledged(), true);
    }
    db_.reset();
    if (cut_before_close || rng_.OneIn(2)) {
      CrashOptions crash;
      crash.seed = rng_.Next();
      crash.lose_everything_unsynced = rng_.OneIn(3);
      Must("the crash", faulty_.CrashAndReset(crash));
      ++totals_->cuts;
    } else if (!options_.manual_wal_flush) {
      RaiseMinimums(Acknowledged(), false);  // The kernel has it.
    }
    ClearFailures();
    faulty_.SetPathFilter("");
    if (!copy_.empty()) {
      CheckCheckpoint(copy_, copy_numbers_);
      Options options;
      options.env = &faulty_;
      Must(copy_, DestroyDB(copy_, options));
      copy_.clear();
    }
    if (!HasComplaint()) Open(rng_.OneIn(3));
  }

  void Open(bool with_fault) {
    cancelled_ = false;
    if (with_fault) PlanFailure();
    Status status = DB::Open(options_, "/db/it", &db_);
    Expected(status);
    ClearFailures();
    if (!status.ok()) status = DB::Open(options_, "/db/it", &db_);
    Must("opening", status);
    if (HasComplaint()) return;
    EntryList entries;
    Must("reading", ScanForward(db_.get(), {}, &entries));
    if (HasComplaint()) return;
    Numbers numbers;
    Check(entries, {}, Source::kOpenedAgain, &numbers);
    if (HasComplaint()) return;
    // Data that an open has shown is no longer lost.
    for (int stream = 0; stream < kStreams; ++stream) {
      totals_->lost += streams_[stream].ResetTo(numbers[stream]);
    }
  }

  // Errors are those that were planned, never Corruption.
  void Expected(const Status& status) {
    if (status.ok() || status.IsIncomplete() ||
        (cancelled_ && status.IsShutdownInProgress())) {
      return;
    }
    if ((status.IsIOError() || status.IsNoSpace()) &&
        (Contains(status.message(), "inject") ||
         Contains(status.message(), "not active"))) {
      return;
    }
    Complain(status.ToString());
  }
  void Must(const std::string& what, const Status& status) {
    if (!status.ok()) Complain(what + ": " + status.ToString());
  }
  void Complain(const std::string& what) {
    complained_ = true;
    ADD_FAILURE() << "TEST_SEED=" << seed_ << ": " << what;
  }
  bool HasComplaint() const { return complained_; }

  const uint64_t seed_;
  Totals* const totals_;
  Rng rng_;
  const std::unique_ptr<Env> memory_;
  FaultInjectionEnv faulty_;
  SlowEnv slow_;
  Options options_;
  std::unique_ptr<DB> db_;
  uint64_t sync_one_in_ = 1;
  BatchStream streams_[kStreams];
  std::atomic<bool> stop_{false};
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> complained_{false};
  int copies_ = 0;
  std::string copy_;  // A checkpoint, until the next opening.
  Numbers copy_numbers_ = {};
};

TEST(DbThreadsFaultsTest, NothingSyncedIsLostWhateverFails) {
  Totals totals;
  const int seeds = ForFaultSeeds(
      6, [&totals](uint64_t seed) { Session(seed, &totals).Run(3); });
  printf("faults among threads: %d seeds: %" PRIu64 " writes, %" PRIu64
         " of them refused, %" PRIu64 " failing calls, %" PRIu64
         " resumes and %" PRIu64 " that failed, %" PRIu64
         " moments and %" PRIu64 " checkpoints right, %" PRIu64
         " power cuts, %" PRIu64 " writes lost that might be\n",
         seeds, totals.writes.load(), totals.refused.load(),
         totals.failures.load(), totals.resumes.load(),
         totals.failed_resumes.load(), totals.moments.load(),
         totals.checkpoints.load(), totals.cuts.load(), totals.lost.load());
}

}  // namespace
}  // namespace varve::test
