// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/dead_entries/dead_range_cleaner.h"

#include <algorithm>
#include <utility>

namespace varve {

namespace {

// The dead entries of a place are worth a job if they are this part of those
// that a walk passed, and this many.
constexpr uint64_t kLeastPart = 8;
constexpr uint64_t kLeastDead = 64;

// A table or memtable of which this part is dead is rewritten in any case: its
// space is worth it.
constexpr uint64_t kMostlyDead = 4;

// A walk over a dead entry costs about as much as rewriting this many bytes.
constexpr uint64_t kBytesPerDead = 16;

// The budget grows by this part of the flushed bytes.
constexpr uint64_t kBudgetPart = 10;

// In the beginning it is this part of a write buffer, and later at most that.
constexpr uint64_t kFirstPart = 4;
constexpr uint64_t kMostPart = 2;

// A freed byte is worth as many rewritten ones.
constexpr uint64_t kWorth = 2;

}  // namespace

const char* PlanName(DeadRangeCleaner::Plan plan) {
  using Plan = DeadRangeCleaner::Plan;
  switch (plan) {
    case Plan::kExamine:
      return "to be examined";
    case Plan::kFlush:
      return "flush";
    case Plan::kWaitForJob:
      return "waits for a job";
    case Plan::kCompact:
      return "compaction";
    case Plan::kWaitForSnapshot:
      return "waits for a snapshot";
    case Plan::kWaitForBudget:
      return "waits for budget";
  }
  return "";
}

DeadRangeCleaner::DeadRangeCleaner(const Options* options,
                                   const InternalKeyComparator* comparator,
                                   bool always)
    : always_(always),
      options_(options),
      comparator_(*comparator),
      budget_bytes_(
          static_cast<int64_t>(options->write_buffer_size / kFirstPart)) {}

DeadRangeCleaner::Target* DeadRangeCleaner::Find(uint64_t id) {
  const auto it =
      std::find_if(targets_.begin(), targets_.end(),
                   [id](const Target& target) { return target.id == id; });
  return it == targets_.end() ? nullptr : &*it;
}

void DeadRangeCleaner::AddLocked(std::vector<DeadWalkReports::Report> reports) {
  if (reports.empty()) return;
  std::vector<DeadWalkReports::Report> merged;
  for (const Target& target : targets_) merged.push_back(target.report);
  for (DeadWalkReports::Report& report : reports) {
    MergeReport(comparator_, std::move(report), kMaxTargets, &merged);
  }
  // A range keeps its history if it has grown out of one that was there.
  std::vector<Target> targets;
  for (DeadWalkReports::Report& report : merged) {
    Target target;
    const auto old = std::find_if(
        targets_.begin(), targets_.end(), [&](const Target& other) {
          return RangesOverlap(comparator_, other.report.range, report.range);
        });
    if (old != targets_.end()) target = *old;
    if (target.id == 0) target.id = next_id_++;
    target.plan = Plan::kExamine;
    target.report = std::move(report);
    targets.push_back(std::move(target));
  }
  targets_ = std::move(targets);
}

void DeadRangeCleaner::WakeLocked() {
  ++wakes_;
  for (Target& target : targets_) target.plan = Plan::kExamine;
}

void DeadRangeCleaner::NoteSnapshotsLocked(SequenceNumber oldest_snapshot) {
  for (Target& target : targets_) {
    if (target.plan == Plan::kWaitForSnapshot &&
        oldest_snapshot >= target.report.first_sequence) {
      target.plan = Plan::kExamine;
    }
  }
}

bool DeadRangeCleaner::MustExamineLocked() const {
  return std::any_of(
      targets_.begin(), targets_.end(),
      [](const Target& target) { return target.plan == Plan::kExamine; });
}

std::vector<DeadRangeCleaner::Target> DeadRangeCleaner::ToExamineLocked()
    const {
  std::vector<Target> targets;
  for (const Target& target : targets_) {
    if (target.plan == Plan::kExamine) targets.push_back(target);
  }
  return targets;
}

uint64_t DeadRangeCleaner::LeastDead(const Target& target) const {
  if (always_) return 1;
  return std::max(kLeastDead, target.report.range.dead / kLeastPart);
}

// Whether rewriting `bytes` with `entries`, of which `dead` are dead, pays.
bool DeadRangeCleaner::IsAffordable(const Target& target, uint64_t dead,
                                    uint64_t entries, uint64_t bytes) const {
  if (always_) return true;
  if (budget_bytes_ <= 0) return false;
  if (dead >= entries / kMostlyDead) return true;
  return target.report.passed * kBytesPerDead >= bytes &&
         static_cast<int64_t>(bytes) <= budget_bytes_;
}

void DeadRangeCleaner::PlanLocked(uint64_t id, const DeadRangeFindings& found,
                                  SequenceNumber oldest_snapshot,
                                  uint64_t memtable_bytes, uint64_t wakes) {
  Target* const target = Find(id);
  if (target == nullptr) return;
  if (wakes != wakes_) {  // A job has ended since: the findings are old.
    target->is_new = false;
    return;
  }
  target->found = found;
  target->is_new = false;
  const uint64_t least = LeastDead(*target);
  const bool in_memtable = found.memtable_dead >= least;
  if (!in_memtable && found.immutable_dead >= least) {
    target->plan = Plan::kWaitForJob;
    return;
  }
  const int level = in_memtable ? -1 : found.level;
  const uint64_t dead = in_memtable ? found.memtable_dead : found.level_dead;
  const bool clean = !in_memtable && found.level < 0;
  // The last compaction did not help.
  const bool in_vain =
      level >= 0 && target->done_level == level && dead >= target->done_dead;
  if (clean || in_vain) {
    targets_.erase(targets_.begin() + (target - targets_.data()));
    return;
  }
  if (oldest_snapshot < target->report.first_sequence) {
    target->plan = Plan::kWaitForSnapshot;
    return;
  }
  const bool affordable =
      in_memtable ? IsAffordable(*target, found.memtable_dead,
                                 found.memtable_entries, memtable_bytes)
                  : IsAffordable(*target, found.file_dead, found.file_entries,
                                 found.file_bytes);
  if (!affordable) {
    target->plan = Plan::kWaitForBudget;
    return;
  }
  target->plan = in_memtable ? Plan::kFlush : Plan::kCompact;
}

bool DeadRangeCleaner::WantsFlushLocked() const {
  return std::any_of(
      targets_.begin(), targets_.end(),
      [](const Target& target) { return target.plan == Plan::kFlush; });
}

void DeadRangeCleaner::AwaitFlushLocked(uint64_t cost_bytes) {
  budget_bytes_ -= static_cast<int64_t>(cost_bytes);
  for (Target& target : targets_) {
    if (target.plan == Plan::kFlush) target.plan = Plan::kWaitForJob;
  }
}

const DeadRangeCleaner::Target* DeadRangeCleaner::NextToCompactLocked() const {
  const Target* best = nullptr;
  double best_worth = 0;
  for (const Target& target : targets_) {
    if (target.plan != Plan::kCompact) continue;
    const double worth =
        static_cast<double>(target.report.passed) /
        static_cast<double>(std::max<uint64_t>(target.found.file_bytes, 1));
    if (best == nullptr || worth > best_worth) {
      best = &target;
      best_worth = worth;
    }
  }
  return best;
}

void DeadRangeCleaner::CompactionBeginsLocked(uint64_t id) {
  Target* const target = Find(id);
  if (target == nullptr) return;
  target->plan = Plan::kWaitForJob;
  target->done_level = target->found.level;
  target->done_dead = target->found.level_dead;
}

void DeadRangeCleaner::WaitForJobLocked(uint64_t id) {
  Target* const target = Find(id);
  if (target != nullptr) target->plan = Plan::kWaitForJob;
}

void DeadRangeCleaner::ExamineAgainLocked(uint64_t id) {
  Target* const target = Find(id);
  if (target != nullptr) target->plan = Plan::kExamine;
}

void DeadRangeCleaner::CountCompactionLocked(const Compaction& compaction,
                                             uint64_t output_bytes) {
  const uint64_t input_bytes = compaction.InputBytes();
  const uint64_t freed = input_bytes - std::min(input_bytes, output_bytes);
  const uint64_t rewritten =
      compaction.level == compaction.output_level
          ? output_bytes
          : std::min(TotalFileSize(compaction.inputs[1]), output_bytes);
  budget_bytes_ -=
      static_cast<int64_t>(rewritten - std::min(rewritten, kWorth * freed));
}

void DeadRangeCleaner::CountFlushedLocked(uint64_t bytes) {
  budget_bytes_ =
      std::min(budget_bytes_ + static_cast<int64_t>(bytes / kBudgetPart),
               static_cast<int64_t>(options_->write_buffer_size / kMostPart));
}

uint64_t DeadRangeCleaner::FlushCost(uint64_t base_bytes) const {
  constexpr uint64_t kFixed = 256 << 10;
  return kFixed +
         base_bytes / static_cast<uint64_t>(std::max(
                          options_->level0_file_num_compaction_trigger, 1));
}

}  // namespace varve
