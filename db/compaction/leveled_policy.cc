// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/compaction/leveled_policy.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "db/compaction/level_targets.h"
#include "db/compaction/table_age.h"
#include "db/version/dead_bytes.h"
#include "util/base/experiment.h"
#include "util/threads/path_counter.h"

namespace varve {

namespace {

// A table of the last level is rewritten if this fraction of it is hidden and
// was kept for released snapshots.
constexpr uint64_t kHiddenPart = 8;

// A compaction for space must free this many bytes, or this fraction of an
// output file if that is less. Its fixed cost, two syncs and an edit, is about
// that of as many bytes.
constexpr uint64_t kLeastGainBytes = 64 << 10;
constexpr uint64_t kLeastPart = 4;

// The gain must also be this many times the bytes that compactions rewrote in
// vain. Small debts must not prevent the last steps of a large gain when
// flushes have ended.
constexpr uint64_t kReclaimableForDebt = 4;

// Without knowledge of dead entries (waste=ignored), the deletions of a table
// must hide this fraction of the bytes to compact.
constexpr uint64_t kHiddenBelowPart = 3;

// The choice of one compaction.
class Picker {
 public:
  Picker(const LeveledPolicy& policy, const Options& options,
         const CompactionContext& context)
      : policy_(policy),
        options_(options),
        context_(context),
        version_(*context.version),
        comparator_(version_.comparator()),
        targets_(ComputeLevelTargets(options, version_)) {}

  bool IsDue() const {
    for (int level = 0; level < targets_.last_level; ++level) {
      if (Score(level) >= 1) return true;
    }
    if (AnyMarked()) return true;
    const auto& candidates = version_.reclaim_candidates();
    if (std::any_of(candidates.begin(), candidates.end(),
                    [this](const Version::ReclaimCandidate& candidate) {
                      return IsDueForSpace(candidate);
                    })) {
      return true;
    }
    if (version_.HidesInDeepestLevel()) {
      const auto& files = version_.files(version_.DeepestLevel());
      if (std::any_of(files.begin(), files.end(),
                      [this](const FileMetaData* file) {
                        return IsDueForItself(*file);
                      })) {
        return true;
      }
    }
    // Of level 0, one compaction at a time.
    return VisitDueByAge(options_, version_, context_.now_s,
                         [this](int level, const FileMetaData*, bool) {
                           return level != 0 ||
                                  !AnyBeingCompacted(version_.files(0));
                         });
  }

  std::unique_ptr<Compaction> Pick() const {
    std::vector<std::pair<double, int>> scores;
    for (int level = 0; level < targets_.last_level; ++level) {
      const double score = Score(level);
      if (score >= 1) scores.emplace_back(score, level);
    }
    std::sort(scores.rbegin(), scores.rend());
    for (const auto& [score, level] : scores) {
      auto compaction = level == 0 ? PickLevel0("level 0 has enough files")
                                   : PickFromLevel(level);
      if (compaction != nullptr) return compaction;
    }
    auto compaction = PickMarked();
    if (compaction == nullptr) compaction = PickForSpace();
    if (compaction == nullptr) compaction = PickForItself();
    return compaction != nullptr ? std::move(compaction) : PickByAge();
  }

 private:
  double Score(int level) const {
    return policy_.Score(version_, *context_.running, level);
  }

  bool IsDueForItself(const FileMetaData& file) const {
    return !file.being_compacted &&
           file.hidden_bytes >= DataBytes(file) / kHiddenPart &&
           file.hidden_bytes != 0 &&
           file.largest_sequence <= context_.oldest_snapshot;
  }

  bool IsDueForSpace(const Version::ReclaimCandidate& candidate) const {
    if (candidate.file->being_compacted) return false;
    if (ExperimentFlagsOf(options_).ignores_waste) {
      return IsDueWithoutCounts(candidate);
    }
    uint64_t gain = 0;
    const auto add = [&](const FileMetaData& file) {
      if (file.largest_sequence > context_.oldest_snapshot) return;
      gain += version_.GainBytes(file);
    };
    if (candidate.level == 0) {
      for (const FileMetaData* file : version_.files(0)) add(*file);
    } else if (candidate.in_place) {
      // The gain is certain, and so are the counts of the outputs.
      return candidate.file->largest_sequence <= context_.oldest_snapshot;
    } else {
      add(*candidate.file);
    }
    return gain >= std::min(kLeastGainBytes,
                            options_.target_file_size_base / kLeastPart) &&
           gain / kReclaimableForDebt >= context_.space_debt;
  }

  // waste=ignored.
  bool IsDueWithoutCounts(const Version::ReclaimCandidate& candidate) const {
    uint64_t gain = candidate.file->reclaimable_bytes;
    if (candidate.level == 0) {
      gain = 0;
      for (const FileMetaData* file : version_.files(0)) {
        gain += file->reclaimable_bytes;
      }
    }
    return !candidate.in_place && candidate.level < version_.DeepestLevel() &&
           gain >= options_.target_file_size_base / kLeastPart &&
           gain >= candidate.cost_bytes / kHiddenBelowPart &&
           gain / kReclaimableForDebt >= context_.space_debt &&
           candidate.file->largest_sequence <= context_.oldest_snapshot;
  }

  std::unique_ptr<Compaction> PickLevel0(const char* reason) const {
    const auto& files = version_.files(0);
    // Level-0 files overlap each other: one such compaction at a time.
    if (files.empty() || AnyBeingCompacted(files)) return nullptr;
    return NewCompaction(0, targets_.base_level, files, reason);
  }

  std::unique_ptr<Compaction> PickFromLevel(int level) const {
    for (FileMetaData* file : ByOverlap(level)) {
      auto c =
          NewCompaction(level, level + 1, {file}, "level is over its size");
      if (c != nullptr) return c;
    }
    return nullptr;
  }

  // Returns null if the compaction would overlap a running one.
  std::unique_ptr<Compaction> NewCompaction(int level, int output_level,
                                            std::vector<FileMetaData*> files,
                                            const char* reason) const {
    auto c = std::make_unique<Compaction>();
    c->level = level;
    c->output_level =
        std::min(output_level, std::max(level, targets_.last_level));
    c->inputs[0] = std::move(files);
    c->reason = reason;
    return policy_.Complete(context_, std::move(c));
  }

  // Returns the number of levels whose marked tables are compacted. The deepest
  // one is not among them, as its outputs might be marked again, without an
  // end.
  int MarkedLevels() const {
    return std::min(std::max(version_.DeepestLevel(), 1), targets_.last_level);
  }

  // Returns whether a marked table can be compacted now.
  bool AnyMarked() const {
    if (!version_.has_marked()) return false;
    for (int level = 0; level < MarkedLevels(); ++level) {
      if (level == 0 && AnyBeingCompacted(version_.files(0))) continue;
      for (const FileMetaData* file : version_.files(level)) {
        if (file->marked_for_compaction && !file->being_compacted) return true;
      }
    }
    return false;
  }

  std::unique_ptr<Compaction> PickMarked() const {
    if (!version_.has_marked()) return nullptr;
    for (int level = 0; level < MarkedLevels(); ++level) {
      for (FileMetaData* file : version_.files(level)) {
        if (!file->marked_for_compaction || file->being_compacted) continue;
        constexpr const char* kReason = "marked for compaction";
        auto c = level == 0 ? PickLevel0(kReason)
                            : NewCompaction(level, targets_.NextLevel(level),
                                            {file}, kReason);
        if (c == nullptr) {
          if (level == 0) break;
          continue;
        }
        // A move into the deepest level would end the mark without an effect.
        if (c->output_level >= version_.DeepestLevel()) {
          c->trivial_move = false;
        }
        return c;
      }
    }
    return nullptr;
  }

  std::unique_ptr<Compaction> PickForSpace() const {
    for (const auto& candidate : version_.reclaim_candidates()) {
      if (!IsDueForSpace(candidate)) continue;
      const int level = candidate.level;
      auto c = level == 0 ? PickLevel0("much of level 0 is deleted")
               : candidate.in_place
                   ? NewCompaction(level, level, {candidate.file},
                                   "many of its entries are dead")
                   : NewCompaction(level, level + 1, {candidate.file},
                                   "its deletions hide much");
      if (c == nullptr) continue;
      c->for_space = true;
      CountPath(PathCounter::kWasteMended);
      return c;
    }
    return nullptr;
  }

  // In other levels hidden entries are dropped when the table is compacted
  // further.
  std::unique_ptr<Compaction> PickForItself() const {
    if (!version_.HidesInDeepestLevel()) return nullptr;
    const int level = version_.DeepestLevel();
    for (FileMetaData* file : version_.files(level)) {
      if (!IsDueForItself(*file)) continue;
      auto c = NewCompaction(level, level, {file},
                             "snapshots are gone that it was kept for");
      if (c != nullptr) return c;
    }
    return nullptr;
  }

  // The uppermost level first, because its tables may become part of the next
  // level's compactions.
  std::unique_ptr<Compaction> PickByAge() const {
    std::unique_ptr<Compaction> c;
    VisitDueByAge(
        options_, version_, context_.now_s,
        [&](int level, FileMetaData* file, bool expired) {
          const char* const reason = expired ? "ttl" : "periodic";
          if (level == 0) {
            c = PickLevel0(reason);
          } else {
            c = NewCompaction(level, expired ? level + 1 : level, {file},
                              reason);
          }
          if (c == nullptr) return false;
          // Into the deepest level a table is rewritten, because no compaction
          // for ttl follows that would remove its deletions, or ask the filter.
          if (!expired || c->output_level >= version_.DeepestLevel()) {
            c->trivial_move = false;
          }
          return true;
        });
    return c;
  }

  // Returns the files of a level that are not being compacted. Files that
  // overlap the fewest bytes of the next level per byte come first, since they
  // cost least to move.
  std::vector<FileMetaData*> ByOverlap(int level) const {
    const auto& below = version_.files(level + 1);
    std::vector<std::pair<double, FileMetaData*>> ordered;
    size_t first = 0;  // First file below that may overlap.
    for (FileMetaData* file : version_.files(level)) {
      while (first < below.size() &&
             comparator_.CompareUser(below[first]->largest_user_key(),
                                     file->smallest_user_key()) < 0) {
        ++first;
      }
      uint64_t bytes = 0;
      for (size_t i = first; i < below.size(); ++i) {
        if (comparator_.CompareUser(below[i]->smallest_user_key(),
                                    file->largest_user_key()) > 0) {
          break;
        }
        bytes += below[i]->file_size;
      }
      if (file->being_compacted) continue;
      ordered.emplace_back(
          static_cast<double>(bytes) /
              static_cast<double>(std::max<uint64_t>(file->file_size, 1)),
          file);
    }
    std::stable_sort(
        ordered.begin(), ordered.end(),
        [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<FileMetaData*> files;
    for (const auto& [ratio, file] : ordered) files.push_back(file);
    return files;
  }

  const LeveledPolicy& policy_;
  const Options& options_;
  const CompactionContext& context_;
  const Version& version_;
  const InternalKeyComparator& comparator_;
  const LevelTargets targets_;
};

uint64_t PendingBytes(const LevelTargets& targets, const Options& options,
                      const Version& version) {
  double pending = 0;
  // Bytes that earlier levels will have moved into this one.
  uint64_t incoming = 0;
  for (int level = 0; level < targets.last_level;
       level = targets.NextLevel(level)) {
    const uint64_t bytes = version.NumBytes(level) + incoming;
    uint64_t excess = 0;
    if (level == 0) {
      if (version.NumFiles(0) >= options.level0_file_num_compaction_trigger) {
        excess = bytes;
      }
    } else if (bytes > targets.max_bytes[level]) {
      excess = bytes - targets.max_bytes[level];
    }
    incoming = excess;
    if (excess == 0 || bytes == 0) continue;
    // Moved bytes overlap the next level in proportion to the levels' sizes.
    const double fanout =
        static_cast<double>(version.NumBytes(targets.NextLevel(level))) /
        static_cast<double>(bytes);
    pending += static_cast<double>(excess) * (fanout + 1);
  }
  return ToBytes(pending);
}

// Costs of moving a byte of each level to the last one, in rewritten bytes.
struct MoveCosts {
  MoveCosts(const Options& options, const Version& version)
      : targets(ComputeLevelTargets(options, version)) {
    const int last = targets.last_level;
    double size[kNumLevels];
    for (int level = targets.base_level; level <= last; ++level) {
      size[level] = static_cast<double>(targets.max_bytes[level]);
    }
    size[last] =
        std::max(size[last], static_cast<double>(version.NumBytes(last)));
    const int files = version.NumFiles(0);
    const double file_bytes =
        files > 0 ? static_cast<double>(version.NumBytes(0)) / files
                  : static_cast<double>(options.write_buffer_size);
    size[0] =
        std::max(file_bytes * options.level0_file_num_compaction_trigger, 1.0);
    for (int level = last - 1; level >= targets.base_level; --level) {
      per_byte[level] = per_byte[level + 1] + 1 + size[level + 1] / size[level];
    }
    per_byte[0] =
        per_byte[targets.base_level] + 1 + size[targets.base_level] / size[0];
  }

  const LevelTargets targets;
  double per_byte[kNumLevels] = {};
};

}  // namespace

std::unique_ptr<Compaction> LeveledPolicy::Pick(
    const CompactionContext& context) const {
  return Picker(*this, options(), context).Pick();
}

bool LeveledPolicy::IsDue(const CompactionContext& context) const {
  return Picker(*this, options(), context).IsDue();
}

double LeveledPolicy::Score(const Version& version,
                            const std::vector<const Compaction*>& running,
                            int level) const {
  uint64_t count = version.files(level).size();
  uint64_t bytes = version.NumBytes(level);
  // Their inputs are in the version as long as they run.
  for (const Compaction* compaction : running) {
    for (int i = 0; i < 2; ++i) {
      if ((i == 0 ? compaction->level : compaction->output_level) != level) {
        continue;
      }
      count -= compaction->inputs[i].size();
      bytes -= TotalFileSize(compaction->inputs[i]);
    }
  }
  if (level == 0) {
    return static_cast<double>(count) /
           static_cast<double>(options().level0_file_num_compaction_trigger);
  }
  const LevelTargets targets = ComputeLevelTargets(options(), version);
  return static_cast<double>(bytes) /
         static_cast<double>(targets.max_bytes[level]);
}

int LeveledPolicy::NextLevel(const Version& version, int level) const {
  return ComputeLevelTargets(options(), version).NextLevel(level);
}

CompactionDebt LeveledPolicy::Debt(
    const Version& version,
    const std::vector<const Compaction*>& running) const {
  const MoveCosts costs(options(), version);
  double bytes[kNumLevels] = {};
  for (int level = 0; level <= version.DeepestLevel(); ++level) {
    bytes[level] = static_cast<double>(version.NumBytes(level));
  }
  CompactionDebt debt;
  debt.pending_bytes = PendingBytes(costs.targets, options(), version);
  debt.level0_files = version.NumFiles(0);
  for (const Compaction* compaction : running) {
    if (compaction->level == compaction->output_level) continue;
    const double progress = compaction->Progress();
    const double moved =
        progress * static_cast<double>(TotalFileSize(compaction->inputs[0]));
    bytes[compaction->level] -= moved;
    bytes[compaction->output_level] += moved;
    if (compaction->level == 0) {
      debt.level0_files -=
          progress * static_cast<double>(compaction->inputs[0].size());
    }
  }
  for (int level = 1; level < costs.targets.last_level; ++level) {
    const double excess =
        bytes[level] - static_cast<double>(costs.targets.max_bytes[level]);
    if (excess > 0) {
      debt.deep_bytes += excess * costs.per_byte[level] / costs.per_byte[0];
    }
  }
  return debt;
}

double LeveledPolicy::Relief(const Compaction& compaction) const {
  if (compaction.level == compaction.output_level) return 0;
  const MoveCosts costs(options(), *compaction.version);
  const double saved = costs.per_byte[compaction.level] -
                       costs.per_byte[compaction.output_level];
  return static_cast<double>(TotalFileSize(compaction.inputs[0])) *
         std::max(saved, 0.0) / costs.per_byte[0];
}

}  // namespace varve
