// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/compaction/compaction_policy.h"

#include <algorithm>
#include <utility>

#include "db/compaction/level_targets.h"
#include "db/version/dead_bytes.h"
#include "util/base/experiment.h"

namespace varve {

namespace {

// The default of max_compaction_bytes, in output files.
constexpr uint64_t kMaxCompactionFiles = 25;

uint64_t MaxCompactionBytes(const Options& options) {
  return options.max_compaction_bytes != 0
             ? options.max_compaction_bytes
             : kMaxCompactionFiles * options.target_file_size_base;
}

// Returns true if one span ends before the other begins.
bool Before(const InternalKeyComparator& comparator, const KeySpan& a,
            const KeySpan& b) {
  const int r = comparator.CompareUser(a.largest, b.smallest);
  return r < 0 || (r == 0 && a.end_is_exclusive);
}

// Finds the other inputs of a compaction, and what follows from them all.
class Completion {
 public:
  Completion(const Options& options, const CompactionContext& context,
             int base_level)
      : options_(options),
        context_(context),
        base_level_(base_level),
        version_(*context.version),
        comparator_(version_.comparator()) {}

  // Returns false if the compaction would overlap a running one.
  bool Complete(Compaction* c) const {
    if (!(c->output_level == 0 ? TakeBetween(c) : ExpandToWholeKeys(c))) {
      return false;
    }
    if (c->output_level != c->level) {
      const KeySpan upper = c->KeyRange();
      c->inputs[1] = WholeKeys(
          c->output_level,
          version_.OverlappingFiles(c->output_level, upper.range(), false));
      if (AnyBeingCompacted(c->inputs[1])) return false;
      GrowInputs(c);
    }
    const KeySpan span = c->KeyRange();
    const UserKeyRange range = span.range();
    if (MeetsOutput(context_, c->output_level, comparator_, span)) return false;
    const int deepest = version_.DeepestLevel();
    if (c->output_level < deepest) {
      c->grandparents =
          version_.OverlappingFiles(c->output_level + 1, range, false);
    }
    // Older entries may be ingested below it later.
    c->bottommost =
        !options_.allow_ingest_behind &&
        std::none_of(c->older.begin(), c->older.end(),
                     [&](const FileMetaData* file) {
                       return FileOverlaps(comparator_, *file, range);
                     });
    for (int level = c->output_level + 1; level <= deepest; ++level) {
      if (version_.RangeOverlapsLevel(level, range)) c->bottommost = false;
    }
    c->compression = CompressionForLevel(options_, base_level_, c->output_level,
                                         c->bottommost);
    c->max_output_file_size = options_.target_file_size_base;
    // A file that overlaps more would cost a lot to compact further.
    c->max_grandparent_overlap = MaxCompactionBytes(options_);
    c->max_parts =
        c->level == 0 || c->is_manual ? options_.max_subcompactions : 1;
    if (c->output_level == 0) {
      // One table. The sequence numbers of two would overlap, and RocksDB does
      // not open a level 0 with such tables.
      c->max_output_file_size = UINT64_MAX;
      c->max_grandparent_overlap = UINT64_MAX;
      c->max_parts = 1;
    }
    // Moved tables stay compressed as they are, and keep their dead entries.
    c->can_move = c->output_level != c->level && c->inputs[1].empty() &&
                  AreDisjoint(c->inputs[0]);
    c->trivial_move =
        c->can_move &&
        c->compression ==
            CompressionForLevel(options_, base_level_, c->level, false) &&
        TotalFileSize(c->grandparents) <= c->max_grandparent_overlap &&
        !CarriesDead(*c);
    return true;
  }

 private:
  // The compaction would drop many dead entries of its upper level.
  bool CarriesDead(const Compaction& c) const {
    return !ExperimentFlagsOf(options_).ignores_waste &&
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

  // Returns files of a level, and the files that share user keys with them.
  // RocksDB may store versions of one user key in adjacent files, which must be
  // compacted together. Otherwise older versions could end up above newer ones,
  // or outlive the deletion that hides them.
  std::vector<FileMetaData*> WholeKeys(int level,
                                       std::vector<FileMetaData*> files) const {
    while (!files.empty()) {
      const KeySpan span = SpanOf(comparator_, {&files, 1});
      auto more = version_.OverlappingFiles(level, span.range(), true);
      if (more.size() == files.size()) break;
      files = std::move(more);
    }
    return files;
  }

  // Takes the tables of level 0 whose ages are between the ages of the inputs.
  // The output then has their place in the order of ages.
  bool TakeBetween(Compaction* c) const {
    const auto& files = version_.files(0);  // Newest first.
    const auto is_input = [c](const FileMetaData* file) {
      return std::find(c->inputs[0].begin(), c->inputs[0].end(), file) !=
             c->inputs[0].end();
    };
    const auto begin = std::find_if(files.begin(), files.end(), is_input);
    const auto end =
        std::find_if(files.rbegin(), files.rend(), is_input).base();
    c->older.assign(end, files.end());
    c->inputs[0].assign(begin, end);
    return !AnyBeingCompacted(c->inputs[0]);
  }

  bool ExpandToWholeKeys(Compaction* c) const {
    c->inputs[0] = WholeKeys(c->level, std::move(c->inputs[0]));
    return !AnyBeingCompacted(c->inputs[0]);
  }

  // Takes more files of the upper level if that needs none more of the lower.
  void GrowInputs(Compaction* c) const {
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

  const Options& options_;
  const CompactionContext& context_;
  const int base_level_;
  const Version& version_;
  const InternalKeyComparator& comparator_;
};

}  // namespace

bool MeetsOutput(const CompactionContext& context, int level,
                 const InternalKeyComparator& comparator, const KeySpan& span) {
  const auto meets = [&](const KeySpan& other) {
    return !Before(comparator, span, other) && !Before(comparator, other, span);
  };
  for (const Compaction* const running : *context.running) {
    if (running->output_level == level && meets(running->KeyRange())) {
      return true;
    }
  }
  return context.taken != nullptr &&
         std::any_of(context.taken->begin(), context.taken->end(),
                     [&](const TakenKeys& taken) {
                       return taken.level == level && meets(taken.span);
                     });
}

std::unique_ptr<Compaction> CompactionPolicy::Complete(
    const CompactionContext& context, std::unique_ptr<Compaction> c) const {
  c->version = context.version;
  const Completion completion(options_, context,
                              NextLevel(*context.version, 0));
  if (!completion.Complete(c.get())) return nullptr;
  c->relief_bytes = Relief(*c);
  return c;
}

std::unique_ptr<Compaction> CompactionPolicy::PickForReaders(
    const CompactionContext& context, int level, uint64_t file_number) const {
  const Version& version = *context.version;
  auto c = std::make_unique<Compaction>();
  c->level = level;
  c->reason = "readers walk over its dead entries";
  c->output_level = level > 0 && level == version.DeepestLevel()
                        ? level
                        : NextLevel(version, level);
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
  c = Complete(context, std::move(c));
  if (c == nullptr) return nullptr;
  c->for_readers = true;
  c->trivial_move = false;  // It would keep them.
  return c;
}

std::unique_ptr<Compaction> CompactionPolicy::PickFiles(
    const CompactionContext& context, int level, int output_level,
    std::vector<FileMetaData*> files) const {
  auto c = std::make_unique<Compaction>();
  c->level = level;
  c->output_level = output_level;
  c->inputs[0] = std::move(files);
  c->reason = "chosen by the program";
  c->is_manual = true;
  c = Complete(context, std::move(c));
  if (c != nullptr) c->trivial_move = false;
  return c;
}

std::unique_ptr<Compaction> CompactionPolicy::PickManual(
    const CompactionContext& context, const ManualRequest& request,
    bool* blocked) const {
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
    if (request.level > 0 && bytes >= MaxCompactionBytes(options_)) {
      break;
    }
    bytes += file->file_size;
    c->inputs[0].push_back(file);
  }
  *blocked = false;
  if (c->inputs[0].empty()) return nullptr;
  c->level = request.level;
  c->output_level = request.output_level;
  c->reason = "asked for";
  c->is_manual = true;
  c = Complete(context, std::move(c));
  if (c == nullptr) {
    *blocked = true;
  } else {
    // Moving a table would keep the deletions in it.
    c->trivial_move = false;
  }
  return c;
}

}  // namespace varve
