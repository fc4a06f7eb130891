// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The one place where the library acts at thread exit. It uses one
// thread-specific key and no thread-local object. The key's destructor runs
// after the destructors of all thread-local objects, which may still use the
// library. It runs again if a call was requested while keys were being
// destroyed. If the system has no key left (a process has 1,024), the calls run
// among the destructors of thread-local objects, as often as they were
// requested.

namespace varve {

// Calls function(argument) when the calling thread ends, the latest request
// first. A call may request further ones. REQUIRES: this function is not
// pending in the thread already; at most kMaxThreadExitCalls are.
void CallAtThreadExit(void (*function)(void*), void* argument);

inline constexpr int kMaxThreadExitCalls = 8;

}  // namespace varve
