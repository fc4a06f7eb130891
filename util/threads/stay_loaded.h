// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Keeps the shared object that this code is in loaded, also when it is a
// program's plugin that was linked with the static library.

namespace varve {

// From the first call on, dlclose leaves the shared object in place until the
// process ends. To be called before anything is left behind that leads back
// into the code after the last database is closed:
//   - a background thread, which sleeps in it;
//   - a function to be called at the end of a thread;
//   - a restartable sequence (util/threads/per_cpu.h), at whose description the
//   kernel
//     looks when it next preempts a thread that was in it.
// The last one cannot be taken back for other threads, so unloading could not
// be made safe by ending threads and removing thread-specific keys.
// Takes the dynamic linker's lock, once. Thread-safety: thread-safe; a call
// that is not the first may return before the first is done, which is enough:
// the first one's thread is inside the code until then.
void StayLoaded();

}  // namespace varve
