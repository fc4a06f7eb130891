// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/version/logs_end_note.h"

#include <memory>

#include "env/file_names.h"
#include "util/bytes/checksum.h"
#include "util/bytes/coding.h"

namespace varve {

namespace {

constexpr uint64_t kMagic = 0x646E452773676F4C;  // "Logs'End"
constexpr size_t kCheckedBytes = 24;
constexpr size_t kNoteBytes = kCheckedBytes + 4;

}  // namespace

Status WriteLogsEndNote(Env* env, const std::string& db_path,
                        uint64_t manifest_number, SequenceNumber end) {
  uint64_t manifest_bytes = 0;
  Status status = env->GetFileSize(ManifestFileName(db_path, manifest_number),
                                   &manifest_bytes);
  if (!status.ok()) return status;
  char note[kNoteBytes];
  EncodeFixed64(note, kMagic);
  EncodeFixed64(note + 8, manifest_bytes);
  EncodeFixed64(note + 16, end);
  EncodeFixed32(note + kCheckedBytes, Crc32c(note, kCheckedBytes));
  return WriteStringToFile(env, Slice(note, kNoteBytes),
                           TempFileName(db_path, manifest_number), false);
}

std::optional<SequenceNumber> ReadLogsEndNote(Env* env,
                                              const std::string& db_path,
                                              uint64_t manifest_number,
                                              uint64_t manifest_bytes) {
  std::unique_ptr<SequentialFile> file;
  const Status status = env->NewSequentialFile(
      TempFileName(db_path, manifest_number), FileOptions(), &file);
  if (!status.ok()) return std::nullopt;
  // A longer file is no note.
  char scratch[kNoteBytes + 1];
  Slice note;
  if (!file->Read(sizeof(scratch), &note, scratch).ok() ||
      note.size() != kNoteBytes || DecodeFixed64(note.data()) != kMagic ||
      DecodeFixed32(note.data() + kCheckedBytes) !=
          Crc32c(note.data(), kCheckedBytes) ||
      DecodeFixed64(note.data() + 8) != manifest_bytes) {
    return std::nullopt;
  }
  const SequenceNumber end = DecodeFixed64(note.data() + 16);
  return end <= kMaxSequenceNumber ? std::optional(end) : std::nullopt;
}

}  // namespace varve
