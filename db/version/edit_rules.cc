// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/version/edit_rules.h"

#include <algorithm>

#include "env/file_names.h"

namespace varve {

Status CheckFamilyOf(const VersionEdit& edit, const FamiliesOfEdit& live) {
  const std::string id = std::to_string(edit.column_family());
  if (edit.adds_column_family()) {
    if (live.has_id) {
      return Status::Corruption("an edit adds column family " + id +
                                ", which exists");
    }
    if (live.has_name) {
      return Status::Corruption("two column families have the name " +
                                edit.column_family_name());
    }
    if (live.count >= kMaxFamilies) {
      return Status::NotSupported("more than " + std::to_string(kMaxFamilies) +
                                  " column families");
    }
  } else if (!live.has_id) {
    return Status::Corruption("an edit of the unknown column family " + id);
  }
  if (edit.drops_column_family() && edit.column_family() == 0) {
    return Status::Corruption("an edit drops the default column family");
  }
  return Status::OK();
}

uint64_t LargestFileNumber(const VersionEdit& edit) {
  uint64_t largest = std::max({edit.log_number().value_or(0),
                               edit.prev_log_number().value_or(0),
                               edit.min_log_number_to_keep().value_or(0),
                               edit.next_file_number().value_or(0)});
  for (const auto& [level, file] : edit.new_files()) {
    largest = std::max(largest, file.number);
  }
  return largest;
}

Status CheckFileNumber(uint64_t number) {
  return number <= kMaxFileNumber
             ? Status::OK()
             : Status::Corruption("has a file number that none can have");
}

Status CheckFamilyId(uint32_t id) {
  return id <= kMaxColumnFamilyId
             ? Status::OK()
             : Status::Corruption("has a column family id that none can have");
}

}  // namespace varve
