// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// When a database of the C interface ends.
//
// varve_close has no error, so it cannot say Busy while iterators, snapshots or
// read transactions are out. Their database then goes on until the last of them
// is gone; only the handle is closed. A closed handle is kept for a while, with
// a database in it that answers every call with ShutdownInProgress: a program
// that closes twice, or calls on, gets an error.
//
// An object that keeps the database open has its handle as owner, and goes by
// LetGo. While the handle is open that is a load of a word that is not written;
// no object is counted. While it is closing, objects go one at a time under a
// mutex, and the one after which DB::Close is not Busy destroys the database.
// The word is read before the object goes, since its handle is there as long as
// the object is. relaxed: varve_close overlaps no other call on the handle or
// its objects, and the program orders it before later ones.
//
// A reference of a catalog needs none of this: the catalog keeps a database
// that is Busy, and closes it later.

#include "capi/handles.h"

namespace varve::capi {

// A DB that is closed. ShutdownInProgress is its answer to everything.
DB* ClosedDb();

// What an object of the handle's database has as its owner.
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

// Closes the handle; the database, too, if nothing of it is out.
void CloseHandle(varve_t* handle);
// The same for a database that was closed, and for a catalog's reference.
void RetireHandle(varve_t* handle);

// A checkpoint object knows when its handle is closed.
void AddCheckpoint(varve_checkpoint_t* checkpoint);
void RemoveCheckpoint(varve_checkpoint_t* checkpoint);

}  // namespace varve::capi
