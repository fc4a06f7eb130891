// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/family/family_compactions.h"

#include <atomic>
#include <memory>

#include "db/compaction/leveled_policy.h"

namespace varve {

FamilyCompactions::FamilyCompactions(const Options* options)
    : policy(std::make_unique<LeveledPolicy>(options)) {}

void FamilyCompactions::Begin(Compaction* compaction, uint64_t now_us) {
  if (running.empty()) draining_since_us_ = now_us;
  compaction->progress_bytes = std::make_shared<std::atomic<uint64_t>>(0);
  running.push_back(compaction);
}

void FamilyCompactions::End(const Compaction* compaction, bool succeeded,
                            uint64_t now_us) {
  draining_us_ = DrainingMicros(now_us);
  draining_since_us_ = now_us;
  std::erase(running, compaction);
  if (succeeded) relieved_bytes_ += compaction->relief_bytes;
}

double FamilyCompactions::RelievedBytes() const {
  double relieved = relieved_bytes_;
  for (const Compaction* compaction : running) {
    relieved += compaction->Progress() * compaction->relief_bytes;
  }
  return relieved;
}

uint64_t FamilyCompactions::DrainingMicros(uint64_t now_us) const {
  if (running.empty() || now_us < draining_since_us_) return draining_us_;
  return draining_us_ + now_us - draining_since_us_;
}

}  // namespace varve
