// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "db/memtable/memtable.h"
#include "db/options/db_mutex.h"
#include "db/version/version.h"
#include "util/threads/striped_refs.h"
#include "varve/slice_transform.h"

namespace varve {

class SuperVersionCache;
struct SuperVersion;

// The SuperVersions of the other families that belong to one of the default
// family. Only a follower has it (db/follower): what is older is not kept for
// its snapshots, as another process removes it. So they keep the SuperVersions
// of their moment.
class FamilyMoment {
 public:
  // Called with the DB mutex held. Releases them.
  virtual ~FamilyMoment() = default;
  // Returns the SuperVersion of the family, or null if it has none here.
  virtual SuperVersion* Find(const SuperVersionCache* family) const = 0;
};

// Holds all that a read needs, as of one moment: the memtable, the immutable
// memtables that wait for a flush, and the Version.
//
// Thread-safety: references are counted atomically. The other members are
// immutable after the SuperVersion is installed.
struct SuperVersion {
  MemTable* memtable = nullptr;
  std::vector<MemTable*> immutable;  // Newest first.
  Version* version = nullptr;
  // Of the family's options, which may change; null if there is none.
  std::shared_ptr<const SliceTransform> prefix_extractor;
  bool closed = false;  // The database was closed, and reads fail.
  uint64_t number = 0;  // Unique and not 0 after the install.
  // Null except in the default family of a follower.
  std::unique_ptr<const FamilyMoment> moment;

  // Looks the key up in the memtables, newest first.
  LookupState Find(const TableLookup& lookup, ReadTarget* target) const {
    const LookupState state = FindIn(*memtable, lookup, target);
    if (state != LookupState::kNotFound || immutable.empty()) return state;
    return FindInImmutable(lookup, target);
  }
  // Adds the versions of the lookup's key that are visible to it, newest first,
  // until *versions needs no more. With kPersistedTier, leaves out memtables
  // with updates that are in no log. Reads files. REQUIRES: the caller is
  // inside a read-side critical section.
  Status ReadVersions(const ReadOptions& options, const TableLookup& lookup,
                      MergeOperands* versions) const;
  // Prefetches the memory that Find reads first for the hash.
  void Prefetch(uint64_t hash) const {
    memtable->Prefetch(hash);
    for (const MemTable* older : immutable) older->Prefetch(hash);
  }

  // If an Unref returns true, the caller must pass this to
  // SuperVersionDisposer::DisposeLocked, with the DB mutex held. A slot of a
  // thread holds a reference in the thread's stripe. So those of the thread's
  // iterators change no other cache line.
  StripedRefs refs;

 private:
  [[gnu::noinline]] LookupState FindInImmutable(const TableLookup& lookup,
                                                ReadTarget* target) const {
    LookupState state = LookupState::kNotFound;
    for (const MemTable* older : immutable) {
      state = FindIn(*older, lookup, target);
      if (state != LookupState::kNotFound) break;
    }
    return state;
  }
  static LookupState FindIn(const MemTable& table, const TableLookup& lookup,
                            ReadTarget* target) {
    Slice value;
    const LookupState state =
        table.Find(lookup.user_key, lookup.sequence, lookup.hash, &value);
    if (state == LookupState::kFound) target->SetCopy(value);
    return state;
  }
};

// Disposes of SuperVersions that have no references. Its functions are called
// with the DB mutex held.
class SuperVersionDisposer {
 public:
  // Releases the SuperVersion's references, and collects the objects that can
  // then be freed.
  virtual void DisposeLocked(SuperVersion* super_version)
      VARVE_REQUIRES(kDbMutex) = 0;
  // Schedules the collected objects to be freed on another thread. Called after
  // a reader has released the last reference.
  virtual void FreeLaterLocked() VARVE_REQUIRES(kDbMutex) = 0;

 protected:
  ~SuperVersionDisposer() = default;
};

}  // namespace varve
