// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A note beside a MANIFEST: the end of the logs when the database was closed.
//
// The end of the logs (VersionEdit::logs_end) is the last edit of a MANIFEST.
// But a database that was opened without pending work has no MANIFEST of its
// own to add it to, and never writes to a file that it found. A new MANIFEST
// would cost four syncs. So the note is in a file instead, which is not synced,
// because no update depends on it. Its name is the one under which the name of
// that MANIFEST was written before it became CURRENT. Such files are leftovers:
// the next Open for writing removes them, and so do other engines.
//
// The note counts only for the MANIFEST with its number, and only if that ends
// where it ended when the note was written. After a power cut the file may be
// missing, empty or damaged. Then there is no note.
//
//   offset   0     8               16         24
//            magic  MANIFEST bytes  logs' end  CRC-32C of the bytes before

#include <cstdint>
#include <optional>
#include <string>

#include "table/block/internal_key.h"
#include "varve/env.h"
#include "varve/status.h"

namespace varve {

// Writes the note of a MANIFEST, and does not sync it. `end` is the last
// sequence number in the logs. Returns an error if the file cannot be written.
Status WriteLogsEndNote(Env* env, const std::string& db_path,
                        uint64_t manifest_number, SequenceNumber end);

// Returns the end of the logs if there is a note for that MANIFEST of
// `manifest_bytes` bytes. A note that cannot be read counts as none.
std::optional<SequenceNumber> ReadLogsEndNote(Env* env,
                                              const std::string& db_path,
                                              uint64_t manifest_number,
                                              uint64_t manifest_bytes);

}  // namespace varve
