// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/version/best_effort_manifest.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "db/wal/wal_reader.h"
#include "env/file_names.h"

namespace varve {

namespace {

void Apply(const VersionEdit& edit, BestEffortManifest* manifest) {
  if (!edit.db_id().empty()) manifest->db_id = edit.db_id();
  manifest->min_log_number_to_keep =
      std::max(manifest->min_log_number_to_keep,
               edit.min_log_number_to_keep().value_or(0));
  manifest->first_log_number =
      std::max(manifest->first_log_number, manifest->min_log_number_to_keep);
  manifest->next_file_number =
      std::max(manifest->next_file_number, edit.next_file_number().value_or(0));
  if (edit.column_family() != 0) {
    if (edit.adds_column_family()) {
      manifest->families[edit.column_family()] = edit.column_family_name();
    }
    if (edit.drops_column_family())
      manifest->families.erase(edit.column_family());
    return;
  }
  if (edit.comparator()) manifest->comparator = *edit.comparator();
  if (!edit.key_folding().empty()) manifest->key_folding = edit.key_folding();
  if (edit.log_number()) {
    manifest->first_log_number =
        std::max(manifest->first_log_number, *edit.log_number());
  }
  if (edit.prev_log_number())
    manifest->prev_log_number = *edit.prev_log_number();
  for (const auto& [level, number] : edit.deleted_files()) {
    manifest->tables.erase(number);
    manifest->removed.insert(number);
  }
  // A table that changes its level is removed and added by one edit.
  for (const auto& [level, file] : edit.new_files()) {
    manifest->tables[file.number] = file;
    manifest->removed.erase(file.number);
  }
}

// Reads one MANIFEST. Returns whether it has a readable edit.
bool ReadOne(Env* env, const std::string& path, uint64_t number,
             BestEffortManifest* manifest) {
  std::unique_ptr<SequentialFile> file;
  if (!env->NewSequentialFile(path, FileOptions(), &file).ok()) return false;
  wal::Reader reader(std::move(file), path, number);
  std::vector<VersionEdit> group;  // Applied only if it is complete.
  bool any = false;
  do {
    Slice record;
    while (reader.ReadRecord(&record) == wal::ReadOutcome::kRecord) {
      VersionEdit edit;
      if (!edit.DecodeFrom(record).ok()) continue;
      any = true;
      const uint32_t remaining = edit.atomic_group_remaining().value_or(0);
      group.push_back(std::move(edit));
      if (remaining > 0) continue;
      for (const VersionEdit& member : group) Apply(member, manifest);
      group.clear();
    }
    group.clear();
  } while (reader.SkipDamage());
  return any;
}

}  // namespace

bool BestEffortManifest::Names(FileType type, uint64_t number) const {
  switch (type) {
    case FileType::kWal:
      return number == first_log_number || number == prev_log_number;
    case FileType::kTable:
    case FileType::kLevelDbTable:
      return tables.contains(number) || removed.contains(number);
    default:
      return type == FileType::kManifest &&
             (number == manifest_number || number == current_number);
  }
}

void ReadBestEffortManifest(Env* env, const std::string& db_path,
                            std::vector<std::string> names,
                            BestEffortManifest* manifest) {
  std::vector<std::pair<uint64_t, std::string>> manifests;
  for (std::string& name : names) {
    uint64_t number = 0;
    FileType type;
    if (ParseFileName(name, &number, &type) && type == FileType::kManifest) {
      manifests.emplace_back(number, std::move(name));
    }
  }
  std::sort(manifests.rbegin(), manifests.rend());
  std::string current;
  if (ReadCurrentFile(env, db_path, &current).ok()) {
    FileType type;
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
