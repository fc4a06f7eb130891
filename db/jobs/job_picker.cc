// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/jobs/job_picker.h"

#include <algorithm>
#include <functional>

#include "db/compaction/table_age.h"
#include "db/jobs/db_core.h"
#include "db/jobs/job_events.h"
#include "util/base/experiment.h"

namespace varve {

namespace {

bool AwaitsFlush(const ColumnFamily* family) {
  return !family->memtables().immutable().empty() &&
         !family->memtables().flush_runs();
}

uint64_t ImmutableBytes(const ColumnFamily& family) {
  uint64_t bytes = 0;
  for (const MemTable* memtable : family.memtables().immutable()) {
    bytes += memtable->ApproximateMemoryUsage();
  }
  return bytes;
}

}  // namespace

JobPicker::JobPicker(DbCore& core)
    : core_(core), cleans_(!ExperimentFlagsOf(core.options).ignores_waste) {}

bool JobPicker::FlushDueLocked() const {
  const auto& live = core_.families.live();
  return std::any_of(live.begin(), live.end(), AwaitsFlush);
}

std::vector<ColumnFamily*> JobPicker::PickFlushLocked() const {
  std::vector<ColumnFamily*> waiting = core_.families.live();
  std::erase_if(waiting, std::not_fn(AwaitsFlush));
  if (waiting.empty() || core_.options.atomic_flush) return waiting;
  std::stable_sort(waiting.begin(), waiting.end(),
                   [](const ColumnFamily* a, const ColumnFamily* b)
                       VARVE_REQUIRES(kDbMutex) {
                         return a->memtables().OldestLogLocked() <
                                b->memtables().OldestLogLocked();
                       });
  // The last family of a batch waits for its table no longer than the batch
  // takes, and the tables' metadata are in memory together.
  constexpr uint64_t kBatchBytes = 16 << 20;
  constexpr size_t kBatchFamilies = 512;
  uint64_t bytes = ImmutableBytes(*waiting.front());
  std::vector<ColumnFamily*> batch = {waiting.front()};
  for (size_t i = 1; i < waiting.size() && batch.size() < kBatchFamilies; ++i) {
    const uint64_t more = ImmutableBytes(*waiting[i]);
    if (bytes + more > kBatchBytes) continue;
    bytes += more;
    batch.push_back(waiting[i]);
  }
  return batch;
}

bool JobPicker::CompactionDueLocked() const {
  const auto& live = core_.families.live();
  return std::any_of(live.begin(), live.end(),
                     [this](const ColumnFamily* family) VARVE_REQUIRES(
                         kDbMutex) { return CompactionDueLocked(*family); });
}

bool JobPicker::CompactionDueLocked(const ColumnFamily& family) const {
  return MayCompactLocked(family) &&
         (family.compactions().policy->IsDue(ContextLocked(family)) ||
          family.cleaner()->WantsCompactionLocked());
}

bool JobPicker::CompactionsAreUrgentLocked() const {
  const auto& live = core_.families.live();
  return std::any_of(live.begin(), live.end(),
                     [](const ColumnFamily* family) VARVE_REQUIRES(kDbMutex) {
                       return family->pace().CompactionsAreUrgentLocked();
                     });
}

CompactionContext JobPicker::ContextLocked(const ColumnFamily& family) const {
  CompactionContext context;
  context.version = family.version();
  context.running = &family.compactions().running;
  context.taken = &family.compactions().taken;
  context.space_debt = family.compactions().space_debt;
  if (CompactsByAge(family.options())) {
    // Compared with the dates of tables.
    context.now_s = core_.env->NowMicros() / 1000000;
  }
  if (context.version->HidesInDeepestLevel() || context.version->HasWaste() ||
      !context.version->reclaim_candidates().empty()) {
    context.oldest_snapshot = family.snapshots()->FindOldestLocked().sequence;
  }
  return context;
}

std::unique_ptr<Compaction> JobPicker::PickCompactionLocked(
    ColumnFamily** family) {
  const std::vector<ColumnFamily*>& live = core_.families.live();
  for (const bool urgent : {true, false}) {
    for (size_t i = 0; i < live.size(); ++i) {
      const size_t index = (next_family_ + i) % live.size();
      ColumnFamily* const candidate = live[index];
      if (candidate->pace().CompactionsAreUrgentLocked() != urgent ||
          !MayCompactLocked(*candidate)) {
        continue;
      }
      auto compaction =
          candidate->compactions().policy->Pick(ContextLocked(*candidate));
      if (compaction == nullptr) compaction = PickForReadersLocked(candidate);
      if (compaction == nullptr) continue;
      next_family_ = index + 1;
      *family = candidate;
      return compaction;
    }
  }
  return nullptr;
}

uint64_t JobPicker::ShortestAgeLocked() const {
  uint64_t shortest_s = UINT64_MAX;
  for (const ColumnFamily* const family : core_.families.live()) {
    const Options& options = family->options();
    if (options.disable_auto_compactions) continue;
    for (const uint64_t age_s :
         {options.ttl, options.periodic_compaction_seconds}) {
      if (age_s != 0) shortest_s = std::min(shortest_s, age_s);
    }
  }
  return shortest_s == UINT64_MAX ? 0 : shortest_s;
}

uint64_t JobPicker::NextDueTimeLocked() const {
  uint64_t first_s = UINT64_MAX;
  for (const ColumnFamily* const family : core_.families.live()) {
    if (family->options().disable_auto_compactions) continue;
    first_s =
        std::min(first_s, NextDueTime(family->options(), *family->version()));
  }
  return first_s;
}

std::vector<ColumnFamily*> JobPicker::FamiliesToCleanLocked() const {
  std::vector<ColumnFamily*> due;
  for (ColumnFamily* const family : core_.families.live()) {
    if (CleanupDueLocked(family)) due.push_back(family);
  }
  return due;
}

bool JobPicker::CleanupDueLocked(ColumnFamily* family) const {
  return (family->dead_walks()->reports()->Any() ||
          family->dead_walks()->ReadsRangeDeletions() ||
          family->cleaner()->MustExamineLocked()) &&
         CleansLocked(*family);
}

std::unique_ptr<Compaction> JobPicker::PickForReadersLocked(
    ColumnFamily* family) {
  if (!CleansLocked(*family)) return nullptr;
  DeadRangeCleaner* const cleaner = family->cleaner();
  while (const DeadRangeCleaner::Target* const target =
             cleaner->NextToCompactLocked()) {
    auto compaction = family->compactions().policy->PickForReaders(
        ContextLocked(*family), target->found.level, target->found.file_number);
    if (compaction != nullptr) {
      RecordTick(core_.stats, Ticker::kDeadRangeCompactions);
      ReportDeadRange(core_.directory.path(), *target, "compaction",
                      target->found.level, &core_.log, &core_.events);
      cleaner->CompactionBeginsLocked(target->id);
      return compaction;
    }
    // Another compaction is in the way, or was there before.
    if (family->compactions().running.empty()) {
      cleaner->ExamineAgainLocked(target->id);
    } else {
      cleaner->WaitForJobLocked(target->id);
    }
  }
  return nullptr;
}

}  // namespace varve
