// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/version.h"

#include <algorithm>

#include "util/hash.h"

namespace varve {

size_t FindFile(const InternalKeyComparator& comparator,
                const std::vector<FileMetaData*>& files,
                const Slice& internal_key) {
  const auto it =
      std::lower_bound(files.begin(), files.end(), internal_key,
                       [&](const FileMetaData* file, const Slice& key) {
                         return comparator.Compare(file->largest, key) < 0;
                       });
  return static_cast<size_t>(it - files.begin());
}

bool FileOverlaps(const InternalKeyComparator& comparator,
                  const FileMetaData& file, const UserKeyRange& range) {
  if (range.begin != nullptr &&
      comparator.CompareUser(file.largest_user_key(), *range.begin) < 0) {
    return false;
  }
  return range.end == nullptr ||
         comparator.CompareUser(file.smallest_user_key(), *range.end) <= 0;
}

uint64_t TotalFileSize(const std::vector<FileMetaData*>& files) {
  uint64_t total = 0;
  for (const FileMetaData* file : files) total += file->file_size;
  return total;
}

Version::Version(const InternalKeyComparator* comparator,
                 TableCache* table_cache,
                 std::vector<FileMetaData*> levels[kNumLevels])
    : comparator_(comparator), table_cache_(table_cache) {
  for (int level = 0; level < kNumLevels; ++level) {
    levels_[level] = std::move(levels[level]);
    for (FileMetaData* file : levels_[level]) ++file->refs;
  }
}

bool Version::UnrefLocked(std::vector<FileMetaData*>* obsolete) {
  if (--refs_ > 0) return false;
  for (const auto& files : levels_) {
    for (FileMetaData* file : files) {
      if (--file->refs == 0) obsolete->push_back(file);
    }
  }
  delete this;
  return true;
}

int Version::DeepestLevel() const {
  for (int level = kNumLevels - 1; level > 0; --level) {
    if (!levels_[level].empty()) return level;
  }
  return 0;
}

Status Version::Get(const ReadOptions& options, const LookupKey& key,
                    LookupState* state, PinnableSlice* value) const {
  *state = LookupState::kNotFound;
  const Slice user_key = key.user_key();
  const Slice internal_key = key.internal_key();
  const uint64_t hash = PreviewXxh3(user_key);
  Status status;
  for (const FileMetaData* file : levels_[0]) {
    if (comparator_->CompareUser(user_key, file->smallest_user_key()) < 0 ||
        comparator_->CompareUser(user_key, file->largest_user_key()) > 0) {
      continue;
    }
    status = table_cache_->Get(options, file->table_file(), internal_key, hash,
                               state, value);
    if (!status.ok() || *state != LookupState::kNotFound) return status;
  }
  for (int level = 1; level < kNumLevels; ++level) {
    const auto& files = levels_[level];
    if (files.empty()) continue;
    const size_t index = FindFile(*comparator_, files, internal_key);
    if (index == files.size()) continue;
    const FileMetaData* file = files[index];
    if (comparator_->CompareUser(user_key, file->smallest_user_key()) < 0) {
      continue;
    }
    status = table_cache_->Get(options, file->table_file(), internal_key, hash,
                               state, value);
    if (!status.ok() || *state != LookupState::kNotFound) return status;
  }
  return status;
}

void Version::AddIterators(
    const ReadOptions& options,
    std::vector<std::unique_ptr<InternalIterator>>* out) const {
  for (const FileMetaData* file : levels_[0]) {
    out->push_back(table_cache_->NewIterator(options, file->table_file()));
  }
  for (int level = 1; level < kNumLevels; ++level) {
    if (levels_[level].empty()) continue;
    out->push_back(
        NewLevelIterator(options, comparator_, table_cache_, &levels_[level]));
  }
}

std::vector<FileMetaData*> Version::OverlappingFiles(int level,
                                                     UserKeyRange range,
                                                     bool expand) const {
  std::vector<FileMetaData*> result;
  const auto& files = levels_[level];
  Slice begin;
  Slice end;
  for (size_t i = 0; i < files.size();) {
    FileMetaData* file = files[i++];
    if (!FileOverlaps(*comparator_, *file, range)) continue;
    result.push_back(file);
    if (level != 0 || !expand) continue;
    // Grow the range and, if it did grow, look at all files once more.
    bool grown = false;
    if (range.begin != nullptr &&
        comparator_->CompareUser(file->smallest_user_key(), *range.begin) < 0) {
      begin = file->smallest_user_key();
      range.begin = &begin;
      grown = true;
    }
    if (range.end != nullptr &&
        comparator_->CompareUser(file->largest_user_key(), *range.end) > 0) {
      end = file->largest_user_key();
      range.end = &end;
      grown = true;
    }
    if (grown) {
      result.clear();
      i = 0;
    }
  }
  return result;
}

bool Version::RangeOverlapsLevel(int level, const UserKeyRange& range) const {
  const auto& files = levels_[level];
  if (level == 0 || range.begin == nullptr) {
    return std::any_of(files.begin(), files.end(),
                       [&](const FileMetaData* file) {
                         return FileOverlaps(*comparator_, *file, range);
                       });
  }
  const std::string target =
      MakeInternalKey(*range.begin, SeekTrailer(kMaxSequenceNumber));
  const size_t index = FindFile(*comparator_, files, target);
  return index < files.size() &&
         FileOverlaps(*comparator_, *files[index], range);
}

uint64_t Version::ApproximateOffsetOf(const Slice& internal_key) const {
  uint64_t result = 0;
  for (const auto& files : levels_) {
    for (const FileMetaData* file : files) {
      if (comparator_->Compare(file->largest, internal_key) <= 0) {
        result += file->file_size;
      } else if (comparator_->Compare(file->smallest, internal_key) <= 0) {
        std::shared_ptr<Table> table;
        if (table_cache_->Find(file->table_file(), &table).ok()) {
          result += table->ApproximateOffsetOf(internal_key);
        }
      }
    }
  }
  return result;
}

}  // namespace varve
