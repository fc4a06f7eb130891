// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Keeps the shared object that this code is in loaded, also when it is a
// program's plugin that was linked with the static library.

namespace varve {

// Makes dlclose leave the shared object in place until the process ends, from
// the first call on. Call it before the first of these, which lead back into
// the code after the last database is closed:
//   - a background thread, which sleeps in the code;
//   - a function that runs at the end of a thread;
//   - a restartable sequence (util/threads/per_cpu.h). The kernel reads its
//     description when it next preempts a thread that was in it.
// Other threads' sequences cannot be unregistered, so ending threads and
// removing thread-specific keys would not make unloading safe.
// Takes the dynamic linker's lock, once. Thread-safety: thread-safe. A second
// call may return before the first is done. That is enough: the first caller's
// thread is inside the code until then.
void StayLoaded();

}  // namespace varve
