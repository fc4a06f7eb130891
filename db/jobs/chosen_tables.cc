// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Compactions of tables that the program chooses: the calls of Compactor for
// DB::CompactFiles and DB::PromoteL0.

#include <algorithm>
#include <string>

#include "db/compaction/level_targets.h"
#include "db/jobs/compactor.h"
#include "db/jobs/db_core.h"

namespace varve {

namespace {

// Returns the files of the level with one of the numbers.
std::vector<FileMetaData*> FilesOf(const Version& version, int level,
                                   const std::set<uint64_t>& numbers) {
  std::vector<FileMetaData*> files = version.files(level);
  std::erase_if(files, [&numbers](const FileMetaData* file) {
    return !numbers.contains(file->number);
  });
  return files;
}

// Checks the tables that a compaction within level 0 must take as well.
Status CheckBetween(const Version& version, const std::set<uint64_t>& numbers) {
  size_t left = numbers.size();
  for (const FileMetaData* file : version.files(0)) {
    if (numbers.contains(file->number)) {
      if (--left == 0) break;
    } else if (left < numbers.size() && file->being_compacted) {
      return Status::Aborted("table " + std::to_string(file->number),
                             "is needed, and is being compacted");
    }
  }
  return Status::OK();
}

Status CheckChosen(const Version& version, const std::set<uint64_t>& numbers,
                   int output_level, int last_level) {
  if (output_level < 0 || output_level > last_level) {
    return Status::InvalidArgument(
        "output_level is " + std::to_string(output_level) +
        ", must be in [0, " + std::to_string(last_level) + "]");
  }
  if (numbers.empty()) return Status::InvalidArgument("no table is named");
  size_t found = 0;
  for (int level = 0; level <= version.DeepestLevel(); ++level) {
    for (const FileMetaData* file : FilesOf(version, level, numbers)) {
      ++found;
      const std::string name = "table " + std::to_string(file->number);
      if (level > output_level) {
        return Status::InvalidArgument(name, "is below output_level");
      }
      if (file->being_compacted) {
        return Status::Aborted(name, "is being compacted");
      }
    }
  }
  if (found != numbers.size()) {
    return Status::InvalidArgument("a table is not in the column family");
  }
  return output_level == 0 ? CheckBetween(version, numbers) : Status::OK();
}

}  // namespace

Status Compactor::RunFilesLocked(ColumnFamily* family,
                                 const CompactionOptions& options,
                                 std::set<uint64_t> numbers, int output_level,
                                 std::vector<uint64_t>* outputs) {
  return RunRequestLocked(
      family, /*exclusive=*/false, [&]() VARVE_REQUIRES(kDbMutex) {
        Status status = CheckChosen(*family->version(), numbers, output_level,
                                    LastCompactedLevel(family->options()));
        for (int level = 0; status.ok() && level <= output_level; ++level) {
          status = CompactFilesOfLevelLocked(family, options, level,
                                             output_level, &numbers, outputs);
        }
        // Those that a later step has compacted further are none.
        std::erase_if(*outputs, [&](uint64_t number) {
          return FilesOf(*family->version(), output_level, {number}).empty();
        });
        return status;
      });
}

// Compacts the files of the level that are among *numbers into the next level
// that has keys of their range, at most into `last`. Adds the outputs to
// *numbers, for the next levels, and the outputs in the last level to *outputs.
Status Compactor::CompactFilesOfLevelLocked(ColumnFamily* family,
                                            const CompactionOptions& options,
                                            int level, int last,
                                            std::set<uint64_t>* numbers,
                                            std::vector<uint64_t>* outputs) {
  for (;;) {
    if (core_.scheduler.is_stopping()) return Status::ShutdownInProgress();
    if (!core_.control.error().ok()) return core_.control.error();
    // Another call can set it between two steps of this one.
    if (family->compactions().is_exclusive) {
      core_.scheduler.WaitLocked();
      continue;
    }
    // Again after each wait: another compaction may have taken some of them.
    const Version& version = *family->version();
    std::vector<FileMetaData*> files = FilesOf(version, level, *numbers);
    // Those that an earlier step wrote need no second one.
    if (level == last) {
      std::erase_if(files, [outputs](const FileMetaData* file) {
        return std::find(outputs->begin(), outputs->end(), file->number) !=
               outputs->end();
      });
    }
    if (files.empty()) return Status::OK();
    const auto compaction = PickFilesLocked(*family, level, last, files);
    if (compaction == nullptr) {
      core_.scheduler.WaitLocked();
      continue;
    }
    const bool ends = compaction->output_level == last;
    if (ends) {
      if (options.compression) compaction->compression = *options.compression;
      if (last > 0) {
        compaction->max_output_file_size = options.output_file_size_limit;
      }
    }
    std::vector<uint64_t> written;
    Status status = RunLocked(family, compaction.get(), &written);
    core_.jobs.PurgeLocked();
    if (!status.ok()) return status;
    numbers->insert(written.begin(), written.end());
    if (ends) {
      outputs->insert(outputs->end(), written.begin(), written.end());
    }
  }
}

// Returns a compaction of the files into the deepest level, at most `last`,
// that has no level with keys of its range above it. Returns null if a running
// compaction is in the way.
std::unique_ptr<Compaction> Compactor::PickFilesLocked(
    const ColumnFamily& family, int level, int last,
    const std::vector<FileMetaData*>& files) const {
  const Version& version = *family.version();
  for (int output_level = last;;) {
    auto compaction = family.compactions().policy->PickFiles(
        core_.picker.ContextLocked(family), level, output_level, files);
    if (compaction == nullptr) return nullptr;
    // The inputs may be more than the files, so their range may be wider.
    const KeySpan span = compaction->KeyRange();
    int between = level + 1;
    while (between < output_level &&
           !version.RangeOverlapsLevel(between, span.range())) {
      ++between;
    }
    if (between >= output_level) return compaction;
    output_level = between;
  }
}

Status Compactor::PromoteLocked(ColumnFamily* family, int target_level) {
  return RunRequestLocked(
      family, /*exclusive=*/true, [&]() VARVE_REQUIRES(kDbMutex) {
        const Version& version = *family->version();
        if (target_level < 1 ||
            target_level > LastCompactedLevel(family->options())) {
          return Status::InvalidArgument("target_level is out of bounds");
        }
        for (int level = 1; level <= target_level; ++level) {
          if (version.NumFiles(level) == 0) continue;
          return Status::InvalidArgument("level " + std::to_string(level),
                                         "is not empty");
        }
        if (version.NumFiles(0) == 0) return Status::OK();
        const auto compaction = family->compactions().policy->PickFiles(
            core_.picker.ContextLocked(*family), 0, target_level,
            version.files(0));
        if (compaction == nullptr) return Status::Aborted("level 0 is in use");
        if (!compaction->can_move) {
          return Status::InvalidArgument("tables of level 0 overlap");
        }
        compaction->trivial_move = true;
        return RunLocked(family, compaction.get());
      });
}

}  // namespace varve
