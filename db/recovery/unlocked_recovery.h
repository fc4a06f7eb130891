// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Recovery without the lock, for DB::OpenForReadOnly: another process may write
// to the database in the meantime.
//
// A writer leaves a consistent set of files on disk at every moment: an edit is
// in the MANIFEST before the files that it makes superfluous are removed, and a
// log is whole before its successor has a record. But a reader takes the files
// one after the other. This is what keeps it from mixing two moments:
//
// - It lists the logs, then reads the MANIFEST, then opens the logs, then the
//   tables. A log that the MANIFEST needs was in the list, or is younger than
//   the list; in the second case the tables alone are a moment after the open
//   began.
// - The descriptors stay open, so that files which the writer removes later can
//   still be read.
// - A file that is gone, or a log that does not continue its predecessor, means
//   that the writer was faster. If the files of the database have changed since
//   the attempt began, the attempt is repeated. If not, what was found is what
//   there is, and the result is the same as that of a writer's recovery.
// - Logs of other engines do not name their predecessors, and RocksDB may write
//   a log anew in place. There the attempt counts if the sequence numbers of
//   each log go on where the one before ends, and none is of the form that is
//   written anew; else only if the MANIFEST and all logs but the newest stayed
//   as they were until the logs had been replayed.
// - The identity of the database must stay the same, so that the data of two
//   databases which followed one another in a directory are not mixed.

#include <cstdint>
#include <memory>
#include <string>

#include "db/recovery/recovery.h"

namespace varve {

// Reads all of the database into a new *state, as a Recovery does. Busy if
// another process changed the files again and again while they were read. The
// arguments must outlive it.
Status RecoverUnlocked(const Options& options, const std::string& db_path,
                       const InternalKeyComparator* comparator,
                       TableCache* table_cache, Logger* logger,
                       std::unique_ptr<RecoveredState>* state);

}  // namespace varve
