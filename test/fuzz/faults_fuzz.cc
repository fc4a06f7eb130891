// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Operations on a database in memory. The input chooses calls that fail and
// moments when power is cut. Each write has a number. An open must find all
// writes up to some number, which is not below the last synced one.
// In half of the cases, every walk over a deletion is remembered and leads to a
// flush or compaction. db_many_faults_test does this at random. Here the fuzzer
// chooses the next step by the code that it reaches.

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "experimental/ablation.h"
#include "test/fuzz/fuzz.h"
#include "varve/db.h"
#include "varve/merge_operator.h"
#include "varve/testing/fault_injection_env.h"
#include "varve/write_batch.h"

namespace varve::fuzz {
namespace {

// Not spelt out: there are many of them.
struct Value {
  std::string ToString() const { return prefix + std::string(size, letter); }
  std::string prefix;
  uint32_t size = 0;
  char letter = 'A';
};
using Entries = std::map<std::string, Value>;

constexpr char kNumberKey[] = "number";
constexpr char kPath[] = "/db/it";
constexpr OperationMask kChanging = kCreateOperation | kWriteOperation |
                                    kSyncOperation | kCloseOperation |
                                    kRenameOperation | kSyncDirectoryOperation;

class Session {
 public:
  explicit Session(Choices* choices)
      : choices_(*choices),
        memory_(NewMemoryEnv(Env::Default())),
        faulty_(memory_.get()) {
    Require(memory_->CreateDirIfMissing("/db").ok(), "a directory");
    options_.env = &faulty_;
    options_.create_if_missing = true;
    options_.write_buffer_size = 64 << 10;
    options_.target_file_size_base = 16 << 10;
    options_.max_bytes_for_level_base = 32 << 10;
    options_.level0_file_num_compaction_trigger =
        2 + static_cast<int>(choices_.Below(3));
    options_.max_subcompactions = 1 + static_cast<int>(choices_.Below(3));
    options_.manual_wal_flush = choices_.Below(4) == 0;
    options_.merge_operator = NewMaxOperator();
    if (choices_.Below(2) == 0) {
      AblationOptions ablation{.waste = WasteMode::kAlways};
      options_.experiment = NewExperiment(ablation);
    }
    Open();
  }

  void Run() {
    for (int i = 0; i < 300 && !choices_.empty(); ++i) Step();
    faulty_.ClearFailure();
    Reopen(choices_.Below(2) == 0);
  }

 private:
  // One that is there if all up to it are.
  struct Write {
    Entries after;
    bool acknowledged = false;
  };

  void Step() {
    switch (choices_.Below(16)) {
      case 0:
        Reopen(false);
        return;
      case 1:
        Reopen(true);
        return;
      case 2:
      case 3:
        PlanFailure();
        return;
      case 4:
        faulty_.ClearFailure();
        return;
      case 5:
        db_->Resume().IgnoreError();  // The contents are what is checked.
        return;
      case 6:
        db_->Flush({}).IgnoreError();  // The result is not needed.
        return;
      case 7:
        db_->CompactRange({}, nullptr, nullptr)
            .IgnoreError();  // The result is not needed.
        return;
      case 8:
        if (db_->SyncWAL().ok()) synced_ = writes_.size();
        return;
      case 9:
        CheckCheckpoint();
        return;
      case 10:
        Require(NumberThere() == NewestAcknowledged(), "all acknowledged");
        return;
      default:
        WriteOne();
    }
  }

  void PlanFailure() {
    static constexpr const char* kParts[] = {
        "", ".log", ".sst", "MANIFEST", "CURRENT", "dbtmp", kPath, "/db/copy"};
    static constexpr OperationMask kKinds[] = {
        kChanging,        kSyncDirectoryOperation, kSyncOperation,
        kWriteOperation,  kReadingOperations,      kRemoveOperation,
        kRenameOperation, kAllOperations};
    faulty_.SetPathFilter(kParts[choices_.Below(8)]);
    const OperationMask kinds = kKinds[choices_.Below(8)];
    FailureOptions how;
    how.once = choices_.Below(4) != 0;
    how.partial_append = choices_.Below(2) == 0;
    const Status error = choices_.Below(5) == 0
                             ? Status::FromErrno("injected", ENOSPC)
                             : FaultInjectionEnv::InjectedError();
    faulty_.FailAfter(choices_.Below(64), error, kinds, how);
  }

  static std::string Key(uint32_t number) {
    return {'k', static_cast<char>('a' + number)};
  }

  void WriteOne() {
    Write write;
    // A refused write is absent once a later one is present.
    write.after = NewestEntries();
    WriteBatch batch;
    for (uint32_t i = 1 + choices_.Below(4); i > 0; --i) {
      const uint32_t number = choices_.Below(24);
      const std::string key = Key(number);
      const uint32_t kind = choices_.Below(8);
      if (kind == 0) {
        batch.Delete(key);
        write.after.erase(key);
      } else if (kind == 1) {
        const std::string end = Key(number + choices_.Below(6));
        batch.DeleteRange(key, end);
        write.after.erase(write.after.lower_bound(key),
                          write.after.lower_bound(end));
      } else {
        Value value;
        value.size = kind == 2 ? 3000 : 20;
        value.letter = static_cast<char>('A' + choices_.Below(26));
        const auto old = write.after.find(key);
        if (kind > 3) {
          batch.Put(key, value.ToString());
        } else {
          batch.Merge(key, value.ToString());
          if (old != write.after.end() &&
              old->second.ToString() > value.ToString()) {
            continue;
          }
        }
        write.after[key] = value;
      }
    }
    const std::string number = std::to_string(writes_.size() + 1);
    batch.Put(kNumberKey, number);
    write.after[kNumberKey] = {.prefix = number};
    WriteOptions options{.sync = choices_.Below(3) == 0};
    write.acknowledged = db_->Write(options, &batch).ok();
    const bool is_synced = write.acknowledged && options.sync;
    writes_.push_back(std::move(write));
    if (is_synced) synced_ = writes_.size();
  }

  void CheckCheckpoint() {
    const Status status = db_->CreateCheckpoint("/db/copy");
    if (status.ok()) {
      Options options = options_;
      options.env = memory_.get();
      std::unique_ptr<DB> copy;
      Require(DB::Open(options, "/db/copy", &copy).ok(), "a checkpoint");
      CheckEntries(copy.get(), NewestEntries());
    }
    options_.env = memory_.get();
    Require(DestroyDB("/db/copy", options_).ok(), "its removal");
    options_.env = &faulty_;
  }

  void Reopen(bool cuts_power) {
    if (cuts_power) {
      faulty_.SetFilesystemActive(false);
      db_.reset();
      CrashOptions crash;
      crash.seed = choices_.Byte();
      crash.lose_everything_unsynced = choices_.Below(3) == 0;
      Require(faulty_.CrashAndReset(crash).ok(), "a power cut");
      faulty_.SetPathFilter("");
    } else {
      // The kernel has the writes, or Close returned an error.
      if (db_->Close().ok() || !options_.manual_wal_flush) {
        closed_ = writes_.size();
      }
      db_.reset();
    }
    Open();
  }

  // A failure that was planned may meet it; then once more.
  void Open() {
    Status status = DB::Open(options_, kPath, &db_);
    if (!status.ok()) {
      faulty_.ClearFailure();
      status = DB::Open(options_, kPath, &db_);
    }
    if (!status.ok()) fprintf(stderr, "%s\n", status.ToString().c_str());
    Require(status.ok(), "an opening");
    faulty_.ClearFailure();
    CheckContents();
  }

  // After an opening. Of writes that returned an error the last one may be
  // there, if nothing was acknowledged since.
  void CheckContents() {
    const size_t there = NumberThere();
    size_t must = 0;
    for (size_t i = 0; i < std::max(synced_, closed_); ++i) {
      if (writes_[i].acknowledged) must = i + 1;
    }
    Require(there >= must, "what was synced");
    Require(there <= writes_.size(), "what was written");
    writes_.resize(there);
    if (there > 0) writes_[there - 1].acknowledged = true;
    CheckEntries(db_.get(), NewestEntries());
    // Data that an open has shown is no longer lost.
    synced_ = closed_ = there;
  }

  size_t NumberThere() {
    std::string value;
    Status status = db_->Get({}, kNumberKey, &value);
    if (!status.ok() && !status.IsNotFound()) {
      faulty_.ClearFailure();
      status = db_->Get({}, kNumberKey, &value);
    }
    if (status.IsNotFound()) return 0;
    Require(status.ok(), "the number");
    return static_cast<size_t>(std::stoull(value));
  }
  size_t NewestAcknowledged() const {
    size_t number = writes_.size();
    while (number > 0 && !writes_[number - 1].acknowledged) --number;
    return number;
  }
  Entries NewestEntries() const {
    const size_t newest = NewestAcknowledged();
    return newest == 0 ? Entries() : writes_[newest - 1].after;
  }

  static void CheckEntries(DB* db, const Entries& expected) {
    const auto iterator = db->NewIterator({});
    auto next = expected.begin();
    for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
      Require(next != expected.end(), "nothing more");
      Require(iterator->key() == next->first, "the key");
      Require(iterator->value() == next->second.ToString(), "the value");
      ++next;
    }
    Require(iterator->status().ok(), "a walk");
    Require(next == expected.end(), "all entries");
  }

  Choices& choices_;
  const std::unique_ptr<Env> memory_;
  FaultInjectionEnv faulty_;
  Options options_;
  std::unique_ptr<DB> db_;
  std::vector<Write> writes_;  // That may be there; number n is writes_[n - 1].
  size_t synced_ = 0;          // Acknowledged ones up to here must be.
  size_t closed_ = 0;          // The same, unless power is cut.
};

}  // namespace
}  // namespace varve::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  varve::fuzz::Choices choices(varve::fuzz::Bytes(data, size));
  varve::fuzz::Session(&choices).Run();
  return 0;
}
