// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The one place where the library acts at the end of threads. It has one
// thread-specific key and not a thread-local object: the key's destructor runs
// after those of all thread-local objects, which may still use the library, and
// again if a call was requested while keys were being destroyed. Where the
// system has no key left (a process has 1,024), the calls run among the
// destructors of thread-local objects, as often as they were requested.

namespace varve {

// Calls function(argument) when the calling thread ends. Pending calls run in
// the reverse order of their requests, and may request more. REQUIRES: this
// function is not pending in the thread already; at most kMaxThreadExitCalls
// are.
void CallAtThreadExit(void (*function)(void*), void* argument);

inline constexpr int kMaxThreadExitCalls = 8;

}  // namespace varve
