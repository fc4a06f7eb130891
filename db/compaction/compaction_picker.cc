// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/compaction/compaction_picker.h"

#include <algorithm>

#include "db/compaction/table_age.h"
#include "db/compaction/table_output.h"
#include "db/version/dead_bytes.h"
#include "util/base/experiment.h"
#include "util/threads/path_counter.h"

namespace varve {

namespace {

// The default of max_compaction_bytes, in output files.
constexpr uint64_t kMaxCompactionFiles = 25;

uint64_t MaxCompactionBytes(const Options& options) {
  return options.max_compaction_bytes != 0
             ? options.max_compaction_bytes
             : kMaxCompactionFiles * options.target_file_size_base;
}

// A table of the last level is rewritten if this fraction of it is hidden and
// was kept for released snapshots.
constexpr uint64_t kHiddenPart = 8;

bool IsDueForItself(const FileMetaData& file, SequenceNumber oldest_snapshot) {
  return !file.being_compacted &&
         file.hidden_bytes >= DataBytes(file) / kHiddenPart &&
         file.hidden_bytes != 0 && file.largest_sequence <= oldest_snapshot;
}

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

bool IsWasteIgnored(const CompactionPickerContext& context) {
  return ExperimentFlagsOf(*context.options).ignores_waste;
}

// waste=ignored.
bool IsDueWithoutCounts(const CompactionPickerContext& context,
                        const Version::ReclaimCandidate& candidate) {
  uint64_t gain = candidate.file->reclaimable_bytes;
  if (candidate.level == 0) {
    gain = 0;
    for (const FileMetaData* file : context.version->files(0)) {
      gain += file->reclaimable_bytes;
    }
  }
  return !candidate.in_place &&
         candidate.level < context.version->DeepestLevel() &&
         gain >= context.options->target_file_size_base / kLeastPart &&
         gain >= candidate.cost_bytes / kHiddenBelowPart &&
         gain / kReclaimableForDebt >= context.space_debt &&
         candidate.file->largest_sequence <= context.oldest_snapshot;
}

bool IsDueForSpace(const CompactionPickerContext& context,
                   const Version::ReclaimCandidate& candidate) {
  const FileMetaData& candidate_file = *candidate.file;
  if (candidate_file.being_compacted) return false;
  if (IsWasteIgnored(context)) return IsDueWithoutCounts(context, candidate);
  uint64_t gain = 0;
  const auto add = [&](const FileMetaData& file) {
    if (file.largest_sequence > context.oldest_snapshot) return;
    gain += context.version->GainBytes(file);
  };
  if (candidate.level == 0) {
    for (const FileMetaData* file : context.version->files(0)) add(*file);
  } else if (candidate.in_place) {
    // The gain is certain, and so are the counts of the outputs.
    return candidate_file.largest_sequence <= context.oldest_snapshot;
  } else {
    add(candidate_file);
  }
  return gain >=
             std::min(kLeastGainBytes,
                      context.options->target_file_size_base / kLeastPart) &&
         gain / kReclaimableForDebt >= context.space_debt;
}

bool AnyBeingCompacted(const std::vector<FileMetaData*>& files) {
  return std::any_of(files.begin(), files.end(),
                     [](const FileMetaData* f) { return f->being_compacted; });
}

// Compares the ends of two key ranges. An exclusive end comes first.
int CompareEnds(const InternalKeyComparator& comparator, const Slice& a,
                bool a_is_exclusive, const Slice& b, bool b_is_exclusive) {
  const int r = comparator.CompareUser(a, b);
  if (r != 0) return r;
  return static_cast<int>(b_is_exclusive) - static_cast<int>(a_is_exclusive);
}

void ExtendSpan(const InternalKeyComparator& comparator,
                const std::vector<FileMetaData*>& files, KeySpan* span,
                bool* set) {
  for (const FileMetaData* file : files) {
    if (!*set ||
        comparator.CompareUser(file->smallest_user_key(), span->smallest) < 0) {
      span->smallest = file->smallest_user_key();
    }
    if (!*set || CompareEnds(comparator, file->largest_user_key(),
                             file->EndIsExclusive(), span->largest,
                             span->end_is_exclusive) > 0) {
      span->largest = file->largest_user_key();
      span->end_is_exclusive = file->EndIsExclusive();
    }
    *set = true;
  }
}

// Returns true if one span ends before the other begins.
bool Before(const InternalKeyComparator& comparator, const KeySpan& a,
            const KeySpan& b) {
  const int r = comparator.CompareUser(a.largest, b.smallest);
  return r < 0 || (r == 0 && a.end_is_exclusive);
}

class Picker {
 public:
  explicit Picker(const CompactionPickerContext& context, bool manual = false)
      : context_(context),
        manual_(manual),
        options_(*context.options),
        version_(*context.version),
        comparator_(version_.comparator()),
        targets_(ComputeLevelTargets(options_, version_)) {}

  std::unique_ptr<Compaction> Pick() {
    std::vector<std::pair<double, int>> scores;
    for (int level = 0; level < targets_.last_level; ++level) {
      const double score = CompactionScore(options_, targets_, version_,
                                           *context_.running, level);
      if (score >= 1) scores.emplace_back(score, level);
    }
    std::sort(scores.rbegin(), scores.rend());
    for (const auto& [score, level] : scores) {
      auto compaction = level == 0 ? PickLevel0("level 0 has enough files")
                                   : PickFromLevel(level);
      if (compaction != nullptr) return compaction;
    }
    auto compaction = PickForSpace();
    if (compaction == nullptr) compaction = PickForItself();
    return compaction != nullptr ? std::move(compaction) : PickByAge();
  }

  // Completes a compaction whose inputs[0], level and output level are set.
  // Returns null if it would overlap a running one.
  std::unique_ptr<Compaction> Complete(std::unique_ptr<Compaction> c) {
    if (!ExpandToWholeKeys(c.get())) return nullptr;
    if (c->output_level != c->level) {
      const KeySpan upper = c->KeyRange();
      c->inputs[1] = WholeKeys(
          c->output_level,
          version_.OverlappingFiles(c->output_level, upper.range(), false));
      if (AnyBeingCompacted(c->inputs[1])) return nullptr;
      GrowInputs(c.get());
    }
    const KeySpan span = c->KeyRange();
    const UserKeyRange range = span.range();
    if (MeetsRunningOutput(*c, span)) return nullptr;
    if (c->output_level + 1 < kNumLevels) {
      c->grandparents =
          version_.OverlappingFiles(c->output_level + 1, range, false);
    }
    c->bottommost = true;
    for (int level = c->output_level + 1; level < kNumLevels; ++level) {
      if (version_.RangeOverlapsLevel(level, range)) c->bottommost = false;
    }
    c->compression = CompressionForLevel(options_, targets_.base_level,
                                         c->output_level, c->bottommost);
    c->max_output_file_size = options_.target_file_size_base;
    // A file that overlaps more would cost a lot to compact further.
    c->max_grandparent_overlap = MaxCompactionBytes(options_);
    c->max_parts = c->level == 0 || manual_ ? options_.max_subcompactions : 1;
    // Moved tables stay compressed as they are, and keep their dead entries.
    c->trivial_move =
        c->output_level != c->level && c->inputs[1].empty() &&
        c->compression == CompressionForLevel(options_, targets_.base_level,
                                              c->level, false) &&
        TotalFileSize(c->grandparents) <= c->max_grandparent_overlap &&
        AreDisjoint(c->inputs[0]) && !CarriesDead(*c);
    return c;
  }

 private:
  // The compaction would drop many dead entries of its upper level.
  bool CarriesDead(const Compaction& c) const {
    return !IsWasteIgnored(context_) &&
           std::any_of(c.inputs[0].begin(), c.inputs[0].end(),
                       [&](const FileMetaData* file) {
                         return file->largest_sequence <=
                                    context_.oldest_snapshot &&
                                HasManyDead(*file, c.bottommost);
                       });
  }

  // No two of the files have a user key in common.
  bool AreDisjoint(std::vector<FileMetaData*> files) const {
    std::sort(files.begin(), files.end(),
              [this](const FileMetaData* a, const FileMetaData* b) {
                return comparator_.Compare(a->smallest, b->smallest) < 0;
              });
    for (size_t i = 1; i < files.size(); ++i) {
      if (!EndsBefore(comparator_, *files[i - 1], *files[i])) return false;
    }
    return true;
  }

  std::unique_ptr<Compaction> NewCompaction() const {
    auto c = std::make_unique<Compaction>();
    c->version = context_.version;
    return c;
  }

  std::unique_ptr<Compaction> PickLevel0(const char* reason) {
    const auto& files = version_.files(0);
    // Level-0 files overlap each other: one such compaction at a time.
    if (files.empty() || AnyBeingCompacted(files)) return nullptr;
    auto c = NewCompaction();
    c->level = 0;
    c->output_level = targets_.base_level;
    c->reason = reason;
    c->inputs[0] = files;
    return Complete(std::move(c));
  }

  std::unique_ptr<Compaction> PickFromLevel(int level) {
    for (FileMetaData* file : ByOverlap(level)) {
      auto c = PickFile(level, level + 1, file, "level is over its size");
      if (c != nullptr) return c;
    }
    return nullptr;
  }

  std::unique_ptr<Compaction> PickFile(int level, int output_level,
                                       FileMetaData* file, const char* reason) {
    auto c = NewCompaction();
    c->level = level;
    c->output_level = output_level;
    c->reason = reason;
    c->inputs[0].push_back(file);
    return Complete(std::move(c));
  }

  std::unique_ptr<Compaction> PickForSpace() {
    for (const auto& candidate : version_.reclaim_candidates()) {
      if (!IsDueForSpace(context_, candidate)) continue;
      const int level = candidate.level;
      auto c = level == 0           ? PickLevel0("much of level 0 is deleted")
               : candidate.in_place ? PickFile(level, level, candidate.file,
                                               "many of its entries are dead")
                                    : PickFile(level, level + 1, candidate.file,
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
  std::unique_ptr<Compaction> PickForItself() {
    if (!version_.HidesInDeepestLevel()) return nullptr;
    const int level = version_.DeepestLevel();
    for (FileMetaData* file : version_.files(level)) {
      if (!IsDueForItself(*file, context_.oldest_snapshot)) continue;
      auto c = PickFile(level, level, file,
                        "snapshots are gone that it was kept for");
      if (c != nullptr) return c;
    }
    return nullptr;
  }

  // The uppermost level first, because its tables may become part of the next
  // level's compactions.
  std::unique_ptr<Compaction> PickByAge() {
    std::unique_ptr<Compaction> c;
    VisitDueByAge(
        options_, version_, context_.now_s,
        [&](int level, FileMetaData* file, bool expired) {
          const char* const reason = expired ? "ttl" : "periodic";
          if (level == 0) {
            c = PickLevel0(reason);
          } else {
            c = PickFile(level, expired ? level + 1 : level, file, reason);
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

  // Returns files of a level, and the files that share user keys with them.
  // RocksDB may store versions of one user key in adjacent files, which must be
  // compacted together. Otherwise older versions could end up above newer ones,
  // or outlive the deletion that hides them.
  std::vector<FileMetaData*> WholeKeys(int level,
                                       std::vector<FileMetaData*> files) const {
    while (!files.empty()) {
      KeySpan span;
      bool set = false;
      ExtendSpan(comparator_, files, &span, &set);
      auto more = version_.OverlappingFiles(level, span.range(), true);
      if (more.size() == files.size()) break;
      files = std::move(more);
    }
    return files;
  }

  bool ExpandToWholeKeys(Compaction* c) const {
    c->inputs[0] = WholeKeys(c->level, std::move(c->inputs[0]));
    return !AnyBeingCompacted(c->inputs[0]);
  }

  // Takes more files of the upper level if that needs none more of the lower.
  void GrowInputs(Compaction* c) {
    if (c->level == 0 || c->inputs[1].empty()) return;
    const KeySpan span = c->KeyRange();
    Compaction grown = *c;
    grown.inputs[0] = version_.OverlappingFiles(c->level, span.range(), false);
    if (grown.inputs[0].size() <= c->inputs[0].size() ||
        !ExpandToWholeKeys(&grown)) {
      return;
    }
    const KeySpan grown_span = grown.KeyRange();
    const auto lower = WholeKeys(
        c->output_level,
        version_.OverlappingFiles(c->output_level, grown_span.range(), false));
    if (lower.size() != c->inputs[1].size() ||
        TotalFileSize(grown.inputs[0]) + TotalFileSize(lower) >
            MaxCompactionBytes(options_)) {
      return;
    }
    c->inputs[0] = std::move(grown.inputs[0]);
  }

  // A running compaction writes to the same level into the same range.
  bool MeetsRunningOutput(const Compaction& c, const KeySpan& span) const {
    for (const Compaction* other : *context_.running) {
      if (other->output_level != c.output_level) continue;
      const KeySpan other_span = other->KeyRange();
      if (!Before(comparator_, span, other_span) &&
          !Before(comparator_, other_span, span)) {
        return true;
      }
    }
    return false;
  }

  const CompactionPickerContext& context_;
  const bool manual_;
  const Options& options_;
  const Version& version_;
  const InternalKeyComparator& comparator_;
  const LevelTargets targets_;
};

}  // namespace

uint64_t Compaction::OldestAncestorTime() const {
  uint64_t oldest = 0;
  for (const auto& files : inputs) {
    for (const FileMetaData* file : files) {
      const uint64_t time_s = file->FindTimes().oldest_ancestor_s;
      if (time_s != 0 && (oldest == 0 || time_s < oldest)) oldest = time_s;
    }
  }
  return oldest;
}

KeySpan Compaction::KeyRange() const {
  KeySpan span;
  bool set = false;
  for (const auto& files : inputs) {
    ExtendSpan(version->comparator(), files, &span, &set);
  }
  return span;
}

double CompactionScore(const Options& options, const LevelTargets& targets,
                       const Version& version,
                       const std::vector<const Compaction*>& running,
                       int level) {
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
           static_cast<double>(options.level0_file_num_compaction_trigger);
  }
  return static_cast<double>(bytes) /
         static_cast<double>(targets.max_bytes[level]);
}

bool IsCompactionDue(const CompactionPickerContext& context) {
  const Version& version = *context.version;
  const LevelTargets targets = ComputeLevelTargets(*context.options, version);
  for (int level = 0; level < targets.last_level; ++level) {
    if (CompactionScore(*context.options, targets, version, *context.running,
                        level) >= 1) {
      return true;
    }
  }
  const auto& reclaim_candidates = version.reclaim_candidates();
  if (std::any_of(reclaim_candidates.begin(), reclaim_candidates.end(),
                  [&context](const Version::ReclaimCandidate& candidate) {
                    return IsDueForSpace(context, candidate);
                  })) {
    return true;
  }
  if (version.HidesInDeepestLevel()) {
    const auto& files = version.files(version.DeepestLevel());
    if (std::any_of(files.begin(), files.end(),
                    [&context](const FileMetaData* file) {
                      return IsDueForItself(*file, context.oldest_snapshot);
                    })) {
      return true;
    }
  }
  // Of level 0, one compaction at a time.
  return VisitDueByAge(*context.options, version, context.now_s,
                       [&version](int level, const FileMetaData*, bool) {
                         return level != 0 ||
                                !AnyBeingCompacted(version.files(0));
                       });
}

uint64_t RewrittenInVain(const Compaction& compaction, uint64_t output_bytes,
                         uint64_t reclaimable_bytes) {
  // Each byte that is freed is worth as many. See Version::reclaim_candidates.
  constexpr uint64_t kWorth = 4;
  const uint64_t lower_bytes = TotalFileSize(compaction.inputs[1]);
  const uint64_t input_bytes = compaction.InputBytes();
  const uint64_t rewritten = std::min(lower_bytes, output_bytes);
  const uint64_t freed = input_bytes - std::min(input_bytes, output_bytes);
  const uint64_t gained =
      std::min(freed, rewritten) + std::min(reclaimable_bytes, rewritten);
  return rewritten - std::min(rewritten, kWorth * gained);
}

uint64_t EstimatePendingCompactionBytes(const Options& options,
                                        const Version& version) {
  const LevelTargets targets = ComputeLevelTargets(options, version);
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

namespace {

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

CompactionDebt ComputeCompactionDebt(
    const Options& options, const Version& version,
    const std::vector<const Compaction*>& running) {
  const MoveCosts costs(options, version);
  double bytes[kNumLevels];
  for (int level = 0; level < kNumLevels; ++level) {
    bytes[level] = static_cast<double>(version.NumBytes(level));
  }
  CompactionDebt debt;
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

double ComputeRelief(const Options& options, const Compaction& compaction) {
  if (compaction.level == compaction.output_level) return 0;
  const MoveCosts costs(options, *compaction.version);
  const double saved = costs.per_byte[compaction.level] -
                       costs.per_byte[compaction.output_level];
  return static_cast<double>(TotalFileSize(compaction.inputs[0])) *
         std::max(saved, 0.0) / costs.per_byte[0];
}

std::unique_ptr<Compaction> PickCompaction(
    const CompactionPickerContext& context) {
  return Picker(context).Pick();
}

std::unique_ptr<Compaction> PickForReaders(
    const CompactionPickerContext& context, int level, uint64_t file_number) {
  const Version& version = *context.version;
  auto c = std::make_unique<Compaction>();
  c->version = context.version;
  c->level = level;
  c->reason = "readers walk over its dead entries";
  const LevelTargets targets = ComputeLevelTargets(*context.options, version);
  c->output_level = level > 0 && level == version.DeepestLevel()
                        ? level
                        : targets.NextLevel(level);
  for (FileMetaData* file : version.files(level)) {
    if (file->being_compacted) {
      if (level == 0) return nullptr;
      continue;
    }
    if (level == 0 || file->number == file_number) {
      c->inputs[0].push_back(file);
    }
  }
  if (c->inputs[0].empty()) return nullptr;
  c = Picker(context).Complete(std::move(c));
  if (c == nullptr) return nullptr;
  c->for_readers = true;
  c->trivial_move = false;  // It would keep them.
  return c;
}

std::unique_ptr<Compaction> PickManualCompaction(
    const CompactionPickerContext& context, const ManualRequest& request,
    bool* blocked) {
  const InternalKeyComparator& comparator = context.version->comparator();
  const auto files = context.version->OverlappingFiles(
      request.level, request.range, /*expand=*/true);
  auto c = std::make_unique<Compaction>();
  uint64_t bytes = 0;
  for (FileMetaData* file : files) {
    const bool skip = file->number >= request.below_number ||
                      (request.numbers != nullptr &&
                       !request.numbers->contains(file->number)) ||
                      (request.after != nullptr &&
                       comparator.Compare(file->smallest, *request.after) <= 0);
    if (skip) {
      if (c->inputs[0].empty()) continue;
      break;  // The chosen files are adjacent.
    }
    if (request.level > 0 && bytes >= MaxCompactionBytes(*context.options)) {
      break;
    }
    bytes += file->file_size;
    c->inputs[0].push_back(file);
  }
  *blocked = false;
  if (c->inputs[0].empty()) return nullptr;
  c->version = context.version;
  c->level = request.level;
  c->output_level = request.output_level;
  c->reason = "asked for";
  c->is_manual = true;
  c = Picker(context, true).Complete(std::move(c));
  if (c == nullptr) {
    *blocked = true;
  } else {
    // Moving a table would keep the deletions in it.
    c->trivial_move = false;
  }
  return c;
}

}  // namespace varve
