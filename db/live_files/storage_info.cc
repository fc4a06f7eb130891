// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/live_files/storage_info.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include "env/file_names.h"

namespace varve {

Status ListLiveFiles(Env* env, const std::string& directory,
                     const CheckpointCut& cut,
                     std::vector<LiveFileStorageInfo>* files) {
  files->clear();
  std::vector<std::string> names;
  Status status = env->GetChildren(directory, &names);
  if (!status.ok()) return status;
  uint64_t options_number = 0;
  std::set<uint64_t> leveldb_tables;
  for (const std::string& name : names) {
    uint64_t number;
    FileKind kind;
    if (!ParseFileName(name, &number, &kind)) continue;
    if (kind == FileKind::kOptions) {
      options_number = std::max(options_number, number);
    } else if (kind == FileKind::kLevelDbTable) {
      leveldb_tables.insert(number);
    }
  }
  const auto add = [&](const std::string& path, FileType type, uint64_t number,
                       uint64_t size) {
    LiveFileStorageInfo& info = files->emplace_back();
    info.relative_filename = path.substr(1);
    info.directory = directory;
    info.file_type = type;
    info.file_number = number;
    info.size = size;
    return &info;
  };
  for (const auto& [number, size] : cut.tables) {
    add(leveldb_tables.contains(number) ? LevelDbTableFileName("", number)
                                        : TableFileName("", number),
        FileType::kTableFile, number, size);
  }
  const std::string manifest = ManifestFileName("", cut.manifest_number);
  add(manifest, FileType::kDescriptorFile, cut.manifest_number,
      cut.manifest_size)
      ->trim_to_size = true;
  std::string contents = manifest.substr(1) + "\n";
  LiveFileStorageInfo* const current =
      add(CurrentFileName(""), FileType::kCurrentFile, 0, contents.size());
  current->replacement_contents = std::move(contents);
  if (options_number != 0) {
    const std::string path = OptionsFileName("", options_number);
    uint64_t size = 0;
    status = env->GetFileSize(directory + path, &size);
    if (status.ok()) add(path, FileType::kOptionsFile, options_number, size);
    // It says nothing that the database needs.
    if (!status.IsNotFound() && !status.ok()) return status;
    status = Status::OK();
  }
  for (const auto& [number, size] : cut.wals) {
    // Even an older log may have allocated space after its end.
    add(WalFileName("", number), FileType::kWalFile, number, size)
        ->trim_to_size = true;
  }
  return status;
}

}  // namespace varve
