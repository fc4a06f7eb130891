// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/version/best_effort_manifest.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "db/wal/wal_reader.h"
#include "env/file_names.h"

namespace varve {

namespace {

void Drop(uint32_t family, BestEffortManifest* manifest) {
  manifest->dropped_families.insert(family);
  manifest->families.erase(family);
  for (auto table = manifest->tables.begin();
       table != manifest->tables.end();) {
    if (table->second.family != family) {
      ++table;
      continue;
    }
    manifest->removed.insert(table->first);
    table = manifest->tables.erase(table);
  }
}

void ApplyToFamily(const VersionEdit& edit, BestEffortManifest* manifest) {
  const uint32_t id = edit.column_family();
  if (id > kMaxColumnFamilyId || manifest->dropped_families.contains(id)) {
    return;
  }
  if (edit.drops_column_family() && id != 0) {
    Drop(id, manifest);
    return;
  }
  BestEffortManifest::Family& family = manifest->families[id];
  manifest->max_column_family = std::max(manifest->max_column_family, id);
  if (edit.adds_column_family() && id != 0) {
    family.name = edit.column_family_name();
  }
  if (edit.comparator()) family.comparator = *edit.comparator();
  family.log_number =
      std::max(family.log_number, edit.log_number().value_or(0));
  family.tables_end =
      std::max(family.tables_end, edit.tables_end().value_or(0));
  for (const auto& [level, number] : edit.deleted_files()) {
    manifest->tables.erase(number);
    manifest->removed.insert(number);
  }
  // A table that changes its level is removed and added by one edit.
  for (const auto& [level, file] : edit.new_files()) {
    manifest->tables[file.number] = {id, file};
    manifest->removed.erase(file.number);
  }
}

void Apply(const VersionEdit& edit, BestEffortManifest* manifest) {
  if (!edit.db_id().empty()) manifest->db_id = edit.db_id();
  manifest->min_log_number_to_keep =
      std::max(manifest->min_log_number_to_keep,
               edit.min_log_number_to_keep().value_or(0));
  manifest->next_file_number =
      std::max(manifest->next_file_number, edit.next_file_number().value_or(0));
  manifest->last_sequence =
      std::max(manifest->last_sequence, edit.last_sequence().value_or(0));
  const uint32_t max_id = edit.max_column_family().value_or(0);
  if (max_id <= kMaxColumnFamilyId) {
    manifest->max_column_family = std::max(manifest->max_column_family, max_id);
  }
  if (!edit.key_folding().empty()) manifest->key_folding = edit.key_folding();
  if (edit.prev_log_number())
    manifest->prev_log_number = *edit.prev_log_number();
  ApplyToFamily(edit, manifest);
}

// Tells whether the edits show all column families.
class Completeness {
 public:
  void Note(const VersionEdit& edit) {
    has_gap_ = has_gap_ || lost_;
    // The first edit after those that a MANIFEST begins with has this number.
    // Varve's first edit has one too.
    if (edit.next_file_number()) ++numbered_;
    if (edit.logs_are_files()) is_own_ = true;
  }
  // An edit, or more than one, could not be read.
  void NoteLoss() { lost_ = true; }

  bool Get() const { return !has_gap_ && numbered_ >= (is_own_ ? 2 : 1); }

 private:
  bool lost_ = false;
  bool has_gap_ = false;  // Edits are missing before the last one.
  bool is_own_ = false;
  int numbered_ = 0;
};

// Reads one MANIFEST. Returns whether it has a readable edit.
bool ReadOne(Env* env, const std::string& path, uint64_t number,
             BestEffortManifest* manifest) {
  std::unique_ptr<SequentialFile> file;
  if (!env->NewSequentialFile(path, FileOptions(), &file).ok()) return false;
  wal::Reader reader(std::move(file), path, number);
  std::vector<VersionEdit> group;  // Applied only if it is complete.
  Completeness completeness;
  bool any = false;
  do {
    Slice record;
    while (reader.ReadRecord(&record) == wal::ReadOutcome::kRecord) {
      VersionEdit edit;
      if (!edit.DecodeFrom(record).ok()) {
        completeness.NoteLoss();
        continue;
      }
      any = true;
      completeness.Note(edit);
      const uint32_t remaining = edit.atomic_group_remaining().value_or(0);
      group.push_back(std::move(edit));
      if (remaining > 0) continue;
      for (const VersionEdit& member : group) Apply(member, manifest);
      group.clear();
    }
    group.clear();
    completeness.NoteLoss();
  } while (reader.SkipDamage());
  if (!any) return false;
  manifest->has_all_families = completeness.Get();
  // A family whose edit is lost may need older logs than the others.
  uint64_t first_log = manifest->has_all_families ? UINT64_MAX : 0;
  for (const auto& [id, family] : manifest->families) {
    first_log = std::min(first_log, family.log_number);
  }
  manifest->first_log_number = manifest->min_log_number_to_keep != 0
                                   ? manifest->min_log_number_to_keep
                                   : first_log;
  return true;
}

}  // namespace

bool BestEffortManifest::Names(FileKind type, uint64_t number) const {
  switch (type) {
    case FileKind::kWal:
      return number == first_log_number || number == prev_log_number;
    case FileKind::kTable:
    case FileKind::kLevelDbTable:
      return tables.contains(number) || removed.contains(number);
    default:
      return type == FileKind::kManifest &&
             (number == manifest_number || number == current_number);
  }
}

void ReadBestEffortManifest(Env* env, const std::string& db_path,
                            std::vector<std::string> names,
                            BestEffortManifest* manifest) {
  std::vector<std::pair<uint64_t, std::string>> manifests;
  for (std::string& name : names) {
    uint64_t number = 0;
    FileKind type;
    if (ParseFileName(name, &number, &type) && type == FileKind::kManifest) {
      manifests.emplace_back(number, std::move(name));
    }
  }
  std::sort(manifests.rbegin(), manifests.rend());
  std::string current;
  if (ReadCurrentFile(env, db_path, &current).ok()) {
    FileKind type;
    ParseFileName(current, &manifest->current_number, &type);
    std::stable_partition(manifests.begin(), manifests.end(),
                          [&](const auto& m) { return m.second == current; });
  }
  for (const auto& [number, name] : manifests) {
    if (!ReadOne(env, db_path + "/" + name, number, manifest)) continue;
    manifest->manifest_number = number;
    return;
  }
}

}  // namespace varve
