// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/recovery/directory_observation.h"

#include <memory>
#include <vector>

#include "env/file_names.h"
#include "util/bytes/checksum.h"

namespace varve {

namespace {

constexpr size_t kPieceBytes = 64 << 10;
// The checksum covers at most this much of the MANIFEST; the rest is compared
// by size. A hole may be as long as a file can be.
constexpr uint64_t kMaxManifestBytes = 64 << 20;
// Limit for IDENTITY and CURRENT; a longer file is neither.
constexpr size_t kMaxTextBytes = 1 << 10;

std::string ReadText(Env* env, const std::string& path) {
  std::unique_ptr<SequentialFile> file;
  Slice text;
  char scratch[kMaxTextBytes];
  if (!env->NewSequentialFile(path, FileOptions(), &file).ok() ||
      !file->Read(sizeof(scratch), &text, scratch).ok()) {
    return "";
  }
  return text.ToString();
}

void ObserveManifest(Env* env, const std::string& path,
                     DirectoryObservation* observation) {
  std::unique_ptr<SequentialFile> file;
  if (!env->GetFileSize(path, &observation->manifest_bytes).ok() ||
      !env->NewSequentialFile(path, FileOptions(), &file).ok()) {
    return;
  }
  const auto scratch = std::make_unique_for_overwrite<char[]>(kPieceBytes);
  Slice piece;
  for (uint64_t read = 0; read < kMaxManifestBytes; read += piece.size()) {
    if (!file->Read(kPieceBytes, &piece, scratch.get()).ok() || piece.empty()) {
      return;
    }
    observation->manifest_crc =
        Crc32cExtend(observation->manifest_crc, piece.data(), piece.size());
  }
}

}  // namespace

bool DirectoryObservation::SameManifest(
    const DirectoryObservation& other) const {
  return identity == other.identity && current == other.current &&
         manifest_bytes == other.manifest_bytes &&
         manifest_crc == other.manifest_crc;
}

bool DirectoryObservation::SameUpTo(const DirectoryObservation& other,
                                    uint64_t first, uint64_t last) const {
  if (!SameManifest(other)) return false;
  const auto part = [first, last](const std::map<uint64_t, uint64_t>& logs) {
    return std::map<uint64_t, uint64_t>(logs.lower_bound(first),
                                        logs.lower_bound(last));
  };
  return first >= last || part(log_bytes) == part(other.log_bytes);
}

DirectoryObservation ObserveDirectory(Env* env, const std::string& db_path) {
  DirectoryObservation result;
  result.identity = ReadText(env, IdentityFileName(db_path));
  result.current = ReadText(env, CurrentFileName(db_path));
  std::string manifest;
  // Recovery reports errors in it.
  if (ReadCurrentFile(env, db_path, &manifest).ok()) {
    ObserveManifest(env, db_path + "/" + manifest, &result);
  }
  std::vector<std::string> names;
  if (!env->GetChildren(db_path, &names).ok()) return result;
  for (const std::string& name : names) {
    uint64_t number = 0;
    FileKind type;
    if (!ParseFileName(name, &number, &type)) continue;
    ++result.file_count;
    if (type != FileKind::kWal) continue;
    uint64_t bytes = 0;
    if (env->GetFileSize(db_path + "/" + name, &bytes).ok()) {
      result.log_bytes[number] = bytes;
    }
  }
  return result;
}

}  // namespace varve
