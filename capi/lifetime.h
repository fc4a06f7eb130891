// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The lifetime of databases in the C interface.
//
// varve_close has no error argument, so it cannot return Busy while iterators,
// snapshots or read transactions exist. Their database then stays open until
// the last of them is destroyed; only the handle is closed. A closed handle is
// kept for a while, with a database in it that returns ShutdownInProgress from
// every call. So a program that closes a handle twice, or uses a closed one,
// gets an error.
//
// An object that keeps the database open has its handle as owner, and is
// destroyed through LetGo. While the handle is open, this is a load of a word
// that is not written; objects are not counted. While the handle is closing,
// objects are destroyed one at a time under a mutex. The object after which
// DB::Close is no longer Busy destroys the database. The word is read before
// the object is destroyed, since the handle exists as long as the object.
// relaxed: varve_close does not overlap any other call on the handle or its
// objects, and the program orders it before later calls.
//
// A catalog's reference needs none of this: the catalog keeps a Busy database
// and closes it later.

#include "capi/handles.h"

namespace varve::capi {

// Returns a closed DB. All its functions return ShutdownInProgress.
DB* ClosedDb();

// Returns the owner for an object of the handle's database.
inline varve_t* OwnerOf(varve_t* handle) {
  return handle->owned != nullptr ? handle : nullptr;
}

// Calls go(), which destroys an object of that owner.
void LetGoWhileClosing(varve_t* owner, void (*go)(void*), void* object);
template <typename Go>
void LetGo(varve_t* owner, Go go) {
  // relaxed: see above.
  if (owner != nullptr && owner->closing.load(std::memory_order_relaxed))
      [[unlikely]] {
    LetGoWhileClosing(
        owner, [](void* object) { (*static_cast<Go*>(object))(); }, &go);
    return;
  }
  go();
}

// Closes the handle. Closes its database too, if no objects of it exist.
void CloseHandle(varve_t* handle);
// Retires the handle of a database that is closed, or of a catalog's reference.
void RetireHandle(varve_t* handle);

// Register an object with its handle, so that it is cut off when the handle is
// closed, and unregister it. No effect on the lifetime of the database.
void AddDependent(Dependent* dependent);
void RemoveDependent(Dependent* dependent);

}  // namespace varve::capi
