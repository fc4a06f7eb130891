// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A process's name for messages of other processes: its pid, and when it
// started, so that a process to which the kernel gives the pid later is not
// taken for it. Thread-safety: thread-safe.

#include <string>
#include <string_view>

namespace varve {

// Of the calling process: its pid, a space, its start in clock ticks since boot
// (or 0), and a newline.
std::string NameThisProcess();

// Tells a reader which process a name of NameThisProcess is of: "process 17",
// ", this one" added if so; or, if it runs no more here, that it has ended or
// is out of sight, in which case a forked child may go on for it. "another
// process" for any other text.
std::string DescribeProcess(std::string_view name);

// Whether no process of that pid runs: it has ended, though perhaps nobody has
// waited for it. A later process of the same pid is taken for it.
bool HasProcessEnded(int pid);

}  // namespace varve
