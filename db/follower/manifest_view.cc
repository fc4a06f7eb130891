// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/follower/manifest_view.h"

#include <algorithm>
#include <utility>

#include "db/family/column_family.h"
#include "db/version/edit_rules.h"
#include "table/block/comparator_mismatch.h"

namespace varve {

// A flush takes its entries from logs, and a compaction from tables.
bool ManifestView::BringsEntries(const VersionEdit& edit) {
  const bool adds = !edit.new_files().empty();
  const bool removes = !edit.deleted_files().empty();
  if (adds == removes) return false;
  return removes || !edit.log_number();
}

Status ManifestView::LevelDbError() {
  return Status::NotSupported("LevelDB's databases are not followed");
}

void ManifestView::Assign(const ManifestState& state) {
  ManifestCounters::operator=(state);
  families_.clear();
  group_.clear();
  for (const auto& family : state.families) {
    Family& mine = families_[family->id];
    mine.name = family->name;
    mine.log_number = family->log_number;
    mine.tables_end = family->tables_end.value_or(0);
  }
  brings_entries_ = true;
}

Status ManifestView::Add(const Slice& record) {
  VersionEdit edit;
  Status status = edit.DecodeFrom(record);
  Status unsupported;
  if (status.IsNotSupported()) unsupported = std::exchange(status, {});
  if (!status.ok()) return status;
  const auto remaining = edit.atomic_group_remaining();
  // The counts of a group go down to 0, and no other edit comes between.
  if (!group_.empty() && remaining.value_or(0) + 1 !=
                             *group_.back().first.atomic_group_remaining()) {
    return Status::Corruption("an atomic group of edits is not complete");
  }
  if (!remaining) {
    return group_.empty()
               ? Apply(std::move(edit), unsupported)
               : Status::Corruption("an edit is inside an atomic group");
  }
  group_.emplace_back(std::move(edit), std::move(unsupported));
  if (*remaining > 0) return Status::OK();
  for (auto& [member, why] : std::exchange(group_, {})) {
    status = Apply(std::move(member), why);
    if (!status.ok()) return status;
  }
  return Status::OK();
}

Status ManifestView::Apply(VersionEdit edit, const Status& unsupported) {
  const uint32_t id = edit.column_family();
  const bool adds = edit.adds_column_family();
  const bool has_name = adds && std::any_of(families_.begin(), families_.end(),
                                            [&edit](const auto& entry) {
                                              return entry.second.name ==
                                                     edit.column_family_name();
                                            });
  Status status =
      CheckFamilyOf(edit, {families_.contains(id), has_name, families_.size()});
  if (status.ok()) status = CheckFileNumber(LargestFileNumber(edit));
  if (status.ok()) status = CheckFamilyId(id);
  if (status.ok()) status = CheckFamilyId(edit.max_column_family().value_or(0));
  if (!status.ok()) return status;
  logs_end = edit.logs_end();
  max_column_family =
      std::max({max_column_family, id, edit.max_column_family().value_or(0)});
  min_log_number_to_keep = std::max(min_log_number_to_keep,
                                    edit.min_log_number_to_keep().value_or(0));
  next_file_number =
      std::max({next_file_number, edit.next_file_number().value_or(0),
                LargestFileNumber(edit) + 1});
  last_sequence = std::max(last_sequence, edit.last_sequence().value_or(0));
  if (!edit.db_id().empty()) db_id = edit.db_id();
  if (edit.logs_are_files()) logs_are_files = true;
  if (edit.drops_column_family()) {
    families_.erase(id);
    return status;
  }
  if (adds) families_[id].name = edit.column_family_name();
  Family& family = families_[id];
  family.log_number =
      std::max(family.log_number, edit.log_number().value_or(0));
  family.tables_end =
      std::max(family.tables_end, edit.tables_end().value_or(0));
  // Unsupported features do not matter in a family that is not opened.
  if (family.opened == nullptr) return status;
  const char* const comparator =
      family.opened->comparator().user_comparator()->Name();
  status = unsupported;
  if (status.ok() && edit.comparator().value_or(comparator) != comparator) {
    status = ComparatorMismatch(*edit.comparator(), comparator);
  }
  if (!status.ok()) return status.Annotate("column family " + family.name);
  for (const auto& [level, file] : edit.new_files()) {
    if (file.sequences_unknown) return LevelDbError();
    last_sequence = std::max(last_sequence, file.largest_sequence);
  }
  brings_entries_ = brings_entries_ || BringsEntries(edit);
  if (!edit.new_files().empty() || !edit.deleted_files().empty()) {
    family.edits.push_back(std::move(edit));
  }
  return status;
}

void ManifestView::ForgetEdits() {
  for (auto& [id, family] : families_) family.edits.clear();
  brings_entries_ = false;
}

uint64_t ManifestView::FirstLog() const {
  if (min_log_number_to_keep != 0) return min_log_number_to_keep;
  uint64_t first = UINT64_MAX;
  for (const auto& [id, family] : families_) {
    first = std::min(first, family.log_number);
  }
  return first;
}

uint64_t ManifestView::NewestNamedLog() const {
  uint64_t newest = 0;
  for (const auto& [id, family] : families_) {
    newest = std::max(newest, family.log_number);
  }
  return newest;
}

}  // namespace varve
