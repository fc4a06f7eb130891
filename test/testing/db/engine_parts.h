// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The parts of an open database in memory, composed as DBImpl composes them,
// for tests of parts that need many others. No job runs by itself: a test calls
// it. What the job starter schedules is counted.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "db/jobs/compactor.h"
#include "db/jobs/flusher.h"
#include "db/write/write_batch_internal.h"
#include "test/testing/db/core_parts.h"
#include "test/testing/db_helpers.h"

namespace varve::test {

class EngineParts : public CoreParts {
 public:
  // `env` must outlive this.
  EngineParts(const Options& options, Env* env)
      : CoreParts(
            options, env,
            {.flush = [this] { Count(JobKind::kFlush, &flushes); },
             .compact = [this] { Count(JobKind::kCompaction, &compactions); },
             .clean_up = [this] { Count(JobKind::kCleanup, &cleanups); },
             .retry = [] {}}) {
    MutexLock lock(core.mutex());
    WalSet::Wal wal;
    EXPECT_TRUE(
        Ok(core.wals.Create(core.versions->NewFileNumber(), false, &wal)));
    core.wals.AddLocked(std::move(wal));
    BeginLocked(&core.default_family);
    core.log_bound.UpdateLogSizeLocked();
  }
  ~EngineParts() {
    MutexLock lock(core.mutex());
    core.scheduler.StopLocked();
    AwaitJobsLocked();
  }

  ColumnFamily* Add(const std::string& name, Options* options) {
    MutexLock lock(core.mutex());
    ColumnFamily* const added = AddLocked(name, options);
    BeginLocked(added);
    return added;
  }
  // Writes an update of about `bytes` bytes to the log and the memtable.
  void Put(ColumnFamily* to, const std::string& key, size_t bytes = 10) {
    const std::string value(bytes, 'v');
    WriteBatch batch;
    batch.Put(key, value);
    WriteQueue::Writer writer({}, &batch);
    WriteQueue::Group group(&writer);
    group.count = 1;
    EXPECT_TRUE(Ok(core.wals.Append(group, 1)));
    const SequenceNumber sequence = core.versions->LastSequence() + 1;
    to->memtable()->Add(sequence, ValueType::kValue, key, value);
    core.versions->SetLastSequence(sequence);
  }
  // Replaces the log, and the memtables of the families.
  void Switch(std::vector<ColumnFamily*> filled) {
    MutexLock lock(core.mutex());
    EXPECT_TRUE(Ok(flusher.SwitchLocked(std::move(filled))));
  }
  void Flush(const std::vector<ColumnFamily*>& filled) {
    MutexLock lock(core.mutex());
    std::vector<size_t> counts;
    EXPECT_TRUE(Ok(flusher.FlushLocked(filled, /*atomic=*/true, &counts)));
  }
  // Runs a job on a thread, and waits for its end.
  void RunJob(JobKind kind, const std::function<void()>& job) {
    MutexLock lock(core.mutex());
    EXPECT_TRUE(Ok(core.scheduler.ScheduleLocked(kind, job)));
    AwaitJobsLocked();
  }
  // Waits until no job is queued or runs.
  void AwaitJobsLocked() VARVE_REQUIRES(kDbMutex) {
    while (core.scheduler.JobsLocked() > 0 || core.auto_resume.is_running()) {
      core.scheduler.WaitLocked();
    }
  }

  Flusher flusher{core};
  Compactor compactor{core};
  std::atomic<int> flushes{0};
  std::atomic<int> compactions{0};
  std::atomic<int> cleanups{0};

 private:
  void BeginLocked(ColumnFamily* begun) VARVE_REQUIRES(kDbMutex) {
    begun->memtables().BeginLocked(
        begun->memtables().New(core.wals.NewestLocked()), {});
    core.control.InstallSuperVersionLocked(begun);
  }
  void Count(JobKind kind, std::atomic<int>* count) {
    MutexLock lock(core.mutex());
    ++*count;
    core.scheduler.FinishLocked(kind);
  }
};

}  // namespace varve::test
