// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Names a process for messages of other processes: its pid and its start time.
// The start time distinguishes it from a later process with the same pid.
// Thread-safety: thread-safe.

#include <cstdint>
#include <string>
#include <string_view>

namespace varve {

// Returns the name of the calling process: its pid, a space, its start in clock
// ticks since boot (or 0), and a newline.
std::string NameThisProcess();

// Reads the name of a process from the beginning of an open file, or whatever
// text is there. Returns an empty string if it cannot be read.
std::string ReadProcessName(int descriptor);

// Describes the process of a name from NameThisProcess as DescribePid does. If
// it does not run here any more, the text says that it has ended or is out of
// sight, and that a forked child may still hold the resource. Returns "another
// process" for any other text.
std::string DescribeProcess(std::string_view name);

// Describes a process that runs: "process 17 (mysqld)" with the name that the
// kernel has for it, at most 15 printable characters, or "process 17" without
// /proc. The calling process is "process 17, this one".
std::string DescribePid(uint64_t pid);

// Returns the pid of the process of a name from NameThisProcess. Returns 0 if
// it does not run here any more, and for any other text.
uint64_t RunningPidOfName(std::string_view name);

// Returns true for a name from NameThisProcess whose process does not run here
// any more. The process may run in another pid namespace.
bool IsNameOfEndedProcess(std::string_view name);

// Returns true if no process of that pid runs. It has ended, though its parent
// may not have waited for it. A later process of the same pid is mistaken for
// it.
bool HasProcessEnded(int pid);

}  // namespace varve
