// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Support for databases that another process has open.

#include <cstdint>
#include <functional>
#include <string>

#include "tools/varve/varve_command_line.h"
#include "varve/status.h"

namespace varve {

// A record at the end of a log may be half written. It is whole a moment later,
// though the writer may have to wait for the processor. Each wait is twice as
// long as the one before. There are more if a process has the database open.
inline constexpr int kLogAttempts = 4;
inline constexpr int kHeldLogAttempts = 9;
inline constexpr uint64_t kLogWaitUs = 1000;

// Returns the process that has the command's database open, such as "process 17
// (python3)". Its arguments are not named, since they may contain passwords.
// Returns an empty string if there is none, or if it cannot be found.
std::string FindHolder(const CommandLine& line);
// Prints a note to stderr if a process has the command's database open.
void NoteHolder(const Session& session);

// Repeats attempt() while it finds a missing or damaged file and the database's
// files have changed since the call began. The number of attempts is bounded.
Status ReadUnlocked(const std::string& db_path,
                    const std::function<Status()>& attempt);

// Returns whether a log that looked damaged after the offset `end` has a
// complete record there now, so that another process was just writing it: a log
// is allocated ahead, and a reader may pass a place where the record is not yet
// and find later ones. Waits for it, at most half a second,
// or 15 milliseconds if no process has the database open.
bool IsBeingWritten(const std::string& path, uint64_t number, uint64_t end);

}  // namespace varve
