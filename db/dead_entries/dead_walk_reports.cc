// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/dead_entries/dead_walk_reports.h"

#include <algorithm>
#include <new>
#include <utility>

namespace varve {

namespace {

using Report = DeadWalkReports::Report;

// Adds `from` and what lies between the two to `to`, which comes before it or
// overlaps it.
void Join(const InternalKeyComparator& comparator, Report from, Report* to) {
  DeadRange& range = to->range;
  if (!from.range.begin ||
      (range.begin &&
       comparator.CompareUser(*from.range.begin, *range.begin) < 0)) {
    range.begin = std::move(from.range.begin);
  }
  if (!from.range.end ||
      (range.end && comparator.CompareUser(*from.range.end, *range.end) > 0)) {
    range.end = std::move(from.range.end);
  }
  range.sequence = std::max(range.sequence, from.range.sequence);
  to->first_sequence = std::min(to->first_sequence, from.first_sequence);
  to->walks += from.walks;
  to->passed += from.passed;
}

// Returns whether `a` ends at or before the begin of `b`.
bool IsBefore(const InternalKeyComparator& comparator, const DeadRange& a,
              const DeadRange& b) {
  return a.end && b.begin && comparator.CompareUser(*a.end, *b.begin) <= 0;
}

}  // namespace

bool RangesOverlap(const InternalKeyComparator& comparator, const DeadRange& a,
                   const DeadRange& b) {
  return !IsBefore(comparator, a, b) && !IsBefore(comparator, b, a);
}

void MergeReport(const InternalKeyComparator& comparator, Report report,
                 size_t limit, std::vector<Report>* reports) {
  auto it =
      std::find_if(reports->begin(), reports->end(), [&](const Report& other) {
        return !IsBefore(comparator, other.range, report.range);
      });
  // Those that it overlaps.
  while (it != reports->end() &&
         !IsBefore(comparator, report.range, it->range)) {
    const uint64_t dead = std::max(report.range.dead, it->range.dead);
    Join(comparator, std::move(*it), &report);
    report.range.dead = dead;
    it = reports->erase(it);
  }
  it = reports->insert(it, std::move(report));
  if (reports->size() <= limit) return;
  // The new one and a neighbour become one.
  auto second = it + 1 == reports->end() ? it : it + 1;
  auto first = second - 1;
  const uint64_t dead = first->range.dead + second->range.dead;
  Join(comparator, std::move(*second), &*first);
  first->range.dead = dead;
  reports->erase(second);
}

void DeadWalkReports::Add(const WalkedRange& walk) {
  if (walk.begin.size() > DeadRanges::kMaxKeyBytes ||
      walk.end.size() > DeadRanges::kMaxKeyBytes) {
    return;
  }
  if (!mutex_.TryLock()) return;
  Report report;
  if (walk.has_begin) report.range.begin = walk.begin.ToString();
  if (walk.has_end) report.range.end = walk.end.ToString();
  report.range.sequence = walk.sequence;
  report.range.dead = walk.dead;
  report.first_sequence = walk.sequence;
  report.walks = 1;
  report.passed = walk.dead;
  MergeReport(comparator_, std::move(report), kMaxReports, &reports_);
  mutex_.Unlock();
  any_.store(true, std::memory_order_relaxed);  // relaxed: a hint.
}

std::vector<Report> DeadWalkReports::Take() {
  // Before: a reader that is adding one sets it again.
  any_.store(false, std::memory_order_relaxed);  // relaxed: a hint.
  if (!mutex_.TryLock()) return {};
  std::vector<Report> taken = std::exchange(reports_, {});
  mutex_.Unlock();
  return taken;
}

void DeadWalkReports::InForkedChild() {
  any_.store(false, std::memory_order_relaxed);  // relaxed: a hint.
  if (MakeFree(&mutex_)) {
    reports_.clear();
  } else {
    // It may be half changed.
    new (&reports_) std::vector<Report>();
  }
}

}  // namespace varve
