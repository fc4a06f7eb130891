// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The lifetime of databases in RocksDB's C interface.
//
// rocksdb_close has no error argument, so it cannot report that iterators or
// snapshots of the database exist. Their database then becomes an orphan: the
// handle is closed, and the database stays open until the last of these objects
// is destroyed. The objects are not counted. They are destroyed through LetGo,
// which costs a load of a word that is hardly ever written while the process
// has no orphan. Otherwise objects are destroyed one at a time under a mutex,
// and each orphan whose DB::Close is no longer Busy is destroyed.
//
// A closed handle is kept for a while, without a database. So a program that
// closes a handle twice, or uses a closed one, gets an error.

#include <atomic>

#include "compat/rocksdb/db/handles.h"

namespace varve::rocksdb_c {

// True while the process has an orphan.
extern std::atomic<bool> has_orphans;

void LetGoWithOrphans(void (*go)(void*), void* object);

// Calls go(), which destroys an object of a database.
template <typename Go>
void LetGo(Go go) {
  // relaxed: the program orders rocksdb_close before its later calls, so for an
  // object of an orphan this sees the store in CloseHandle or a later one. No
  // store of false follows before that object is destroyed.
  if (has_orphans.load(std::memory_order_relaxed)) [[unlikely]] {
    LetGoWithOrphans([](void* object) { (*static_cast<Go*>(object))(); }, &go);
    return;
  }
  go();
}

// Takes a new handle into the list of open ones.
void AddHandle(rocksdb_t* db);

// Closes the handle. Closes its database too, if no objects of it exist. Does
// nothing if it was closed before, or if it is the base of another handle.
void CloseHandle(rocksdb_t* db);

}  // namespace varve::rocksdb_c
