// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Files in a database's directory that have names of its own spelling and are
// another program's: an application's 1732500000.log, notes in 000099.log. A
// foreign file is not read as a part of the database and never removed.
//
// Why a real file is not lost by it:
// - A log is foreign only if no whole record begins anywhere in it, so that
//   there is nothing in it to replay, and if it begins with text, as no log
//   does: one whose only record is damaged or cut off stays a log. The caller
//   excludes the log that the MANIFEST names. A later log tells by its
//   WalPredecessor, and the MANIFEST by the end of logs that Close notes, if
//   what a foreign file replaced held updates.
// - With a number that is far it need not begin with text, only hold no record
//   at its beginning: the database has given out no such number.
// - A table or a MANIFEST that is needed is named by the MANIFEST or by
//   CURRENT, and the caller excludes these.
// - A file that is wrongly taken for foreign stays where it is.

#include <cstdint>
#include <string>

#include "env/file_names.h"
#include "varve/env.h"

namespace varve {

// File numbers are noted in the MANIFEST with each edit. No process gives out
// as many between two: a file of a number this far beyond the MANIFEST's next
// one has not got it from the database.
constexpr uint64_t kFarFileNumbers = uint64_t{1} << 20;

// Whether the file is foreign. `type` and `number` are those of its name; of
// types that are not judged by their contents none is. `next_file_number` is
// the MANIFEST's, or a bound of it. A file that cannot be read is not foreign.
bool IsForeignFile(Env* env, const std::string& path, FileType type,
                   uint64_t number, uint64_t next_file_number);

}  // namespace varve
