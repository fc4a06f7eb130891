// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/dead_entries/dead_ranges_text.h"

#include <algorithm>
#include <cinttypes>
#include <vector>

#include "util/base/append_format.h"

namespace varve {

namespace {

// Longer keys are cut.
constexpr size_t kMaxKeyBytes = 32;

std::string Bound(const std::optional<std::string>& key, const char* none) {
  if (!key) return none;
  const Slice shown(key->data(), std::min(key->size(), kMaxKeyBytes));
  return shown.ToString(/*hex=*/true) +
         (key->size() > kMaxKeyBytes ? "..." : "");
}

void AppendRange(const DeadRange& range, std::string* out) {
  *out +=
      "(" + Bound(range.begin, "begin") + ", " + Bound(range.end, "end") + ")";
}

}  // namespace

std::string DeadRangesTextLocked(const DeadRangeCleaner& cleaner,
                                 const std::vector<DeadRange>& known,
                                 SequenceNumber oldest_snapshot) {
  using Target = DeadRangeCleaner::Target;
  using Plan = DeadRangeCleaner::Plan;
  std::vector<const Target*> targets;
  for (const Target& target : cleaner.targets()) targets.push_back(&target);
  std::stable_sort(targets.begin(), targets.end(),
                   [](const Target* a, const Target* b) {
                     return a->report.passed > b->report.passed;
                   });
  std::string text;
  for (const Target* target : targets) {
    // A snapshot's release changes no plan. The next change of the tree does.
    const bool is_free = target->plan == Plan::kWaitForSnapshot &&
                         oldest_snapshot >= target->report.first_sequence;
    const Plan plan = is_free ? Plan::kExamine : target->plan;
    text += "reported ";
    AppendRange(target->report.range, &text);
    AppendFormat(
        &text, ": %" PRIu64 " dead, %" PRIu64 " walks, %" PRIu64 " passed; %s",
        target->report.range.dead, target->report.walks, target->report.passed,
        PlanName(plan));
    if (plan == Plan::kWaitForSnapshot) {
      AppendFormat(&text, " %" PRIu64, oldest_snapshot);
    } else if (plan == Plan::kWaitForBudget) {
      AppendFormat(&text, " (%" PRIu64 " bytes left)", cleaner.budget_bytes());
    } else if (plan == Plan::kCompact) {
      AppendFormat(&text, " of level %d", target->found.level);
    }
    text += '\n';
  }
  for (const DeadRange& range : known) {
    text += "remembered ";
    AppendRange(range, &text);
    AppendFormat(&text,
                 ": %" PRIu64 " dead, since sequence number %" PRIu64 "\n",
                 range.dead, range.sequence);
  }
  return text.empty() ? "none\n" : text;
}

}  // namespace varve
