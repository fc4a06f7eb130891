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
#include "test/testing/db/family_parts.h"
#include "test/testing/db_helpers.h"

namespace varve::test {

class EngineParts {
 public:
  // All must outlive this.
  EngineParts(Options* options, Env* env,
              std::vector<std::shared_ptr<EventListener>> listeners = {})
      : parts_(options, env),
        mutex(parts_.mutex),
        write_queue(parts_.queue),
        versions(parts_.versions),
        family(parts_.family),
        families(parts_.families),
        place(env, "/db"),
        wals(&place, options, nullptr, &mutex),
        scheduler(env, &mutex),
        events(std::move(listeners), &mutex),
        obsolete({&place, &versions, &wals, &families, &events, &scheduler,
                  nullptr, &mutex}),
        table_jobs({&place, &versions, family.snapshots(), &events, &scheduler,
                    nullptr, nullptr, &mutex}),
        auto_resume(
            env, &mutex, &scheduler, &obsolete, [] { return false; }, [] {}),
        control({options, &place, &families, &wals, &obsolete, &events,
                 &scheduler, &auto_resume, nullptr, nullptr}),
        picker({options, &place, &families, &events, nullptr, nullptr, true}),
        jobs({options, &control, &picker, &obsolete, &scheduler, &mutex, false},
             {[this] { Count(JobKind::kFlush, &flushes); },
              [this] { Count(JobKind::kCompaction, &compactions); },
              [this] { Count(JobKind::kCleanup, &cleanups); }}),
        flusher({options, &place, &versions, &families, &wals, &write_queue,
                 &control, &picker, &jobs, &table_jobs, &events, &scheduler,
                 nullptr, nullptr, &mutex, false}),
        compactor({&place, &versions, &families, &control, &picker, &jobs,
                   &table_jobs, &obsolete, &auto_resume, &events, &scheduler,
                   nullptr, nullptr, &mutex}) {
    EXPECT_TRUE(Ok(place.Open(false, true)));
    parts_.Begin(place.directory());
    MutexLock lock(&mutex);
    WalSet::Wal wal;
    EXPECT_TRUE(Ok(wals.Create(versions.NewFileNumber(), false, &wal)));
    wals.AddLocked(std::move(wal));
    BeginLocked(&family);
    control.log_bound().UpdateLogSizeLocked();
  }
  ~EngineParts() {
    mutex.Lock();
    AwaitJobsLocked();
    wals.CloseLocked().IgnoreError();
    place.Unlock().IgnoreError();
    mutex.Unlock();
    parts_.Close();
  }

  ColumnFamily* Add(const std::string& name, Options* options) {
    MutexLock lock(&mutex);
    ColumnFamily* const added = parts_.AddLocked(name, options);
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
    EXPECT_TRUE(Ok(wals.Append(group, 1)));
    const SequenceNumber sequence = versions.LastSequence() + 1;
    to->memtable()->Add(sequence, ValueType::kValue, key, value);
    versions.SetLastSequence(sequence);
  }
  // Replaces the log, and the memtables of the families.
  void Switch(std::vector<ColumnFamily*> filled) {
    MutexLock lock(&mutex);
    EXPECT_TRUE(Ok(flusher.SwitchLocked(std::move(filled))));
  }
  void Flush(const std::vector<ColumnFamily*>& filled) {
    MutexLock lock(&mutex);
    std::vector<size_t> counts;
    EXPECT_TRUE(Ok(flusher.FlushLocked(filled, /*atomic=*/true, &counts)));
  }
  // Runs a job on a thread, and waits for its end.
  void RunJob(JobKind kind, const std::function<void()>& job) {
    MutexLock lock(&mutex);
    EXPECT_TRUE(Ok(scheduler.ScheduleLocked(kind, job)));
    AwaitJobsLocked();
  }
  // Waits until no job is queued or runs.
  void AwaitJobsLocked() {
    while (scheduler.JobsLocked() > 0 || auto_resume.is_running()) {
      scheduler.WaitLocked();
    }
  }

 private:
  FamilyParts parts_;

 public:
  Mutex& mutex;
  WriteQueue& write_queue;
  VersionSet& versions;
  ColumnFamily& family;
  FamilySet& families;
  DbDirectory place;
  WalSet wals;
  BackgroundScheduler scheduler;
  EventQueue events;
  ObsoleteFiles obsolete;
  TableJobs table_jobs;
  AutoResume auto_resume;
  WriteControl control;
  JobPicker picker;
  JobStarter jobs;
  Flusher flusher;
  Compactor compactor;
  std::atomic<int> flushes{0};
  std::atomic<int> compactions{0};
  std::atomic<int> cleanups{0};

 private:
  void BeginLocked(ColumnFamily* begun) {
    begun->BeginLocked(begun->NewMemTable(wals.NewestLocked()), {});
    control.InstallSuperVersionLocked(begun);
  }
  void Count(JobKind kind, std::atomic<int>* count) {
    MutexLock lock(&mutex);
    ++*count;
    scheduler.FinishLocked(kind);
  }
};

}  // namespace varve::test
