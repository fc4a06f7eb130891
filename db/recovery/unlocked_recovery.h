// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Recovery without the lock, for DB::OpenForReadOnly. Another process may write
// to the database at the same time.
//
// A writer keeps a consistent set of files on disk at every moment. An edit is
// in the MANIFEST before the files that it makes obsolete are removed. A log is
// complete before its successor has a record. But a reader opens the files one
// after the other. These rules keep it from mixing the states of two moments:
//
// - It lists the logs, then reads the MANIFEST, then opens the logs, then the
//   tables. A log that the MANIFEST needs was in the list, or is newer than the
//   list. In the second case the tables alone are a state from after the open
//   began.
// - The descriptors stay open, so that files that the writer removes later can
//   still be read.
// - A missing file, or a log that does not continue its predecessor, may mean
//   that the writer was faster. If the database's files have changed since the
//   attempt began, the attempt is repeated. Otherwise the result is the same as
//   the result of a writer's recovery.
// - Logs of other engines do not name their predecessors, and RocksDB may
//   rewrite a log in place. The attempt then counts if the sequence numbers of
//   each log continue where the previous log ends, and no log has the form that
//   is rewritten. Otherwise it counts only if the MANIFEST and all logs but the
//   newest did not change until the logs had been replayed.
// - The identity of the database must stay the same. Otherwise the data of two
//   successive databases in one directory could be mixed.

#include <cstdint>
#include <memory>
#include <string>

#include "db/recovery/recovery.h"

namespace varve {

// Reads the whole database into a new *state, as Recovery does. Returns Busy if
// another process repeatedly changed the files during the read. The arguments
// must outlive *state.
//
// Without `with_logs`, replays no log: the caller reads them. The result then
// shows a state of the tables alone.
Status RecoverUnlocked(const Options& options, const std::string& db_path,
                       std::span<const RecoveryFamily> families, Logger* logger,
                       std::unique_ptr<RecoveredState>* state,
                       bool with_logs = true);

}  // namespace varve
