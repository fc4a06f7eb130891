// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Names a process for messages of other processes: its pid and its start time.
// The start time distinguishes it from a later process with the same pid.
// Thread-safety: thread-safe.

#include <string>
#include <string_view>

namespace varve {

// Returns the name of the calling process: its pid, a space, its start in clock
// ticks since boot (or 0), and a newline.
std::string NameThisProcess();

// Describes the process of a name from NameThisProcess: "process 17", with ",
// this one" added for the calling process. If it does not run here any more,
// the text says that it has ended or is out of sight, and that a forked child
// may still hold the resource. Returns "another process" for any other text.
std::string DescribeProcess(std::string_view name);

// Returns true if no process of that pid runs. It has ended, though its parent
// may not have waited for it. A later process of the same pid is mistaken for
// it.
bool HasProcessEnded(int pid);

}  // namespace varve
