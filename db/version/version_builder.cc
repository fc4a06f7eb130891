// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/version/version_builder.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "db/version/version.h"

namespace varve {

namespace {

// Sorts the files newest first. LevelDB's MANIFEST has no sequence numbers, but
// its file numbers rise with them.
void SortLevel0(std::vector<FileMetaData*>* files) {
  const bool by_number = std::any_of(
      files->begin(), files->end(),
      [](const FileMetaData* file) { return file->sequences_unknown; });
  std::sort(files->begin(), files->end(),
            [by_number](const FileMetaData* a, const FileMetaData* b) {
              if (!by_number) {
                if (a->largest_sequence != b->largest_sequence) {
                  return a->largest_sequence > b->largest_sequence;
                }
                if (a->smallest_sequence != b->smallest_sequence) {
                  return a->smallest_sequence > b->smallest_sequence;
                }
              }
              return a->number > b->number;
            });
}

// Returns whether LevelDB's MANIFEST names a table that the level has. The
// first MANIFEST that goleveldb writes after it has replayed a log names some
// tables twice.
bool IsRepeated(const FileMetaData& known, const FileMetaData& added) {
  return known.sequences_unknown && added.sequences_unknown &&
         known.file_size == added.file_size &&
         known.smallest == added.smallest && known.largest == added.largest;
}

std::string DescribeFile(uint64_t number) {
  return "table file " + std::to_string(number);
}

}  // namespace

VersionBuilder::VersionBuilder(const InternalKeyComparator* comparator,
                               const Version* base)
    : comparator_(comparator) {
  if (base == nullptr) return;
  for (int level = 0; level < kNumLevels; ++level) {
    for (FileMetaData* file : base->files(level)) {
      levels_[level].emplace(file->number, file);
    }
  }
}

VersionBuilder::~VersionBuilder() {
  for (const Files& files : levels_) FreeAdded(files);
}

void VersionBuilder::FreeAdded(const Files& files) {
  for (const auto& [number, file] : files) {
    if (file->refs == 0) delete file;
  }
}

Status VersionBuilder::Apply(VersionEdit edit) {
  Files deleted;
  Status status = ApplyTo(&edit, &deleted);
  FreeAdded(deleted);
  return status;
}

Status VersionBuilder::ApplyTo(VersionEdit* edit, Files* deleted) {
  for (const auto& [level, number] : edit->deleted_files()) {
    const auto it = levels_[level].find(number);
    if (it == levels_[level].end()) {
      return Status::Corruption("version edit deletes " + DescribeFile(number) +
                                " from level " + std::to_string(level) +
                                ", where it is not");
    }
    // Two files with one number, in two levels, are two objects.
    if (!deleted->emplace(number, it->second).second && it->second->refs == 0) {
      delete it->second;
    }
    levels_[level].erase(it);
  }
  for (auto& [level, file] : *edit->mutable_new_files()) {
    const uint64_t number = file.number;
    Files* const files = &levels_[level];
    // File numbers usually rise.
    const auto place = !files->empty() && files->rbegin()->first < number
                           ? files->end()
                           : files->lower_bound(number);
    if (place != files->end() && place->first == number) {
      if (IsRepeated(*place->second, file)) continue;
      return Status::Corruption("version edit adds " + DescribeFile(number) +
                                " twice");
    }
    // A file that moves to another level stays the same object, so that its
    // reference count tells when the file itself can be removed.
    const auto moved = deleted->find(number);
    FileMetaData* meta;
    if (moved != deleted->end()) {
      meta = moved->second;
      deleted->erase(moved);
    } else {
      meta = new FileMetaData(std::move(file));
      meta->refs = 0;
      meta->reported.reset();
      meta->being_compacted = false;
    }
    files->emplace_hint(place, number, meta);
  }
  return Status::OK();
}

Status VersionBuilder::Finish(LevelFiles* levels) {
  Status status = CollectLevels(levels);
  if (status.ok()) {
    for (Files& files : levels_) files.clear();
  } else {
    *levels = {};
  }
  return status;
}

Status VersionBuilder::CheckNumbers() const {
  // The numbers of each level are already sorted.
  std::vector<uint64_t> numbers;
  for (const auto& files : levels_) {
    const auto middle = static_cast<std::ptrdiff_t>(numbers.size());
    for (const auto& [number, file] : files) numbers.push_back(number);
    std::inplace_merge(numbers.begin(), numbers.begin() + middle,
                       numbers.end());
  }
  const auto twice = std::adjacent_find(numbers.begin(), numbers.end());
  if (twice == numbers.end()) return Status::OK();
  return Status::Corruption(DescribeFile(*twice) + " is in two levels");
}

Status VersionBuilder::CollectLevels(LevelFiles* levels) const {
  Status status = CheckNumbers();
  if (!status.ok()) return status;
  for (int level = 0; level < kNumLevels; ++level) {
    auto& files = (*levels)[level];
    files.clear();
    for (const auto& [number, file] : levels_[level]) {
      // A file with an exclusive end has no entry at or after that end. A file
      // of one entry needs no comparison, which is a call of the program.
      if ((file->smallest != file->largest &&
           comparator_->Compare(file->smallest, file->largest) > 0) ||
          (file->EndIsExclusive() &&
           comparator_->CompareUser(file->smallest_user_key(),
                                    file->largest_user_key()) == 0)) {
        return Status::Corruption(DescribeFile(number) +
                                  " ends before it begins");
      }
      files.push_back(file);
    }
    if (level == 0) {
      SortLevel0(&files);
      continue;
    }
    const auto is_before = [this](const FileMetaData* a,
                                  const FileMetaData* b) {
      return comparator_->Compare(a->smallest, b->smallest) < 0;
    };
    // If keys rise with time, the files are already sorted by number.
    if (!std::is_sorted(files.begin(), files.end(), is_before)) {
      std::sort(files.begin(), files.end(), is_before);
    }
    for (size_t i = 1; i < files.size(); ++i) {
      if (comparator_->Compare(files[i - 1]->largest, files[i]->smallest) >=
          0) {
        return Status::Corruption(
            "level " + std::to_string(level) +
            " has overlapping files: " + DescribeFile(files[i - 1]->number) +
            " up to " + DescribeInternalKey(files[i - 1]->largest) + " and " +
            DescribeFile(files[i]->number) + " from " +
            DescribeInternalKey(files[i]->smallest));
      }
    }
  }
  return Status::OK();
}

}  // namespace varve
