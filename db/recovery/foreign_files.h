// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Foreign files: files of other programs in a database's directory whose names
// look like the database's own. Examples are an application's 1732500000.log,
// and notes in 000099.log. A directory, a pipe, a socket, a device and a link
// that leads nowhere are foreign whatever they are called. A foreign file is
// not read as a part of the database and never removed.
//
// Why no file of the database is lost:
// - A log is foreign only if no whole record begins anywhere in it, so that
//   there is nothing to replay, and if it begins with text, as no log does. A
//   log whose only record is damaged or truncated stays a log. The caller
//   excludes the log that the MANIFEST names. If a foreign file replaced a log
//   with updates, a later log detects it by its WalPredecessor. The MANIFEST
//   detects it by the end of logs that Close records.
// - A log with a far number need not begin with text. It is foreign if no
//   record is at its beginning, since the database has allocated no such
//   number.
// - A table or a MANIFEST that is needed is named by the MANIFEST or by
//   CURRENT, and the caller excludes these.
// - A file that is wrongly taken for foreign stays where it is.

#include <cstdint>
#include <string>

#include "env/file_names.h"
#include "varve/env.h"

namespace varve {

// Each edit records the next file number in the MANIFEST. No process allocates
// this many numbers between two edits. So a file whose number is this far
// beyond the MANIFEST's next one is not the database's.
constexpr uint64_t kFarFileNumbers = uint64_t{1} << 20;

// Returns true if the file is foreign. `type` and `number` come from its name.
// Regular files can be foreign only if their type is identified by contents.
// CURRENT, LOCK and IDENTITY never are. `next_file_number` is the MANIFEST's,
// or a bound of it. Returns false if the file cannot be read.
bool IsForeignFile(Env* env, const std::string& path, FileKind type,
                   uint64_t number, uint64_t next_file_number);

}  // namespace varve
