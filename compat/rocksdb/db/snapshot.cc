// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Snapshots and sequence numbers.
#include "compat/rocksdb/db/snapshot.h"

#include "compat/rocksdb/db/handles.h"
#include "compat/rocksdb/db/lifetime.h"

extern "C" {

const rocksdb_snapshot_t* rocksdb_create_snapshot(rocksdb_t* db) {
  if (!varve::rocksdb_c::Open{db}.ok()) return nullptr;
  return varve::rocksdb_c::NewSnapshot(db->db->GetSnapshot(), db->db);
}

// The snapshot knows its database, whose handle can be closed.
void rocksdb_release_snapshot(rocksdb_t* /*db*/,
                              const rocksdb_snapshot_t* snapshot) {
  if (snapshot == nullptr) return;
  if (snapshot->db != nullptr) {
    varve::rocksdb_c::LetGo(
        [snapshot] { snapshot->db->ReleaseSnapshot(snapshot->rep); });
  }
  free(const_cast<rocksdb_snapshot_t*>(snapshot));
}

uint64_t rocksdb_snapshot_get_sequence_number(
    const rocksdb_snapshot_t* snapshot) {
  if (snapshot == nullptr || snapshot->rep == nullptr) return 0;
  return snapshot->rep->GetSequenceNumber();
}

uint64_t rocksdb_get_latest_sequence_number(rocksdb_t* db) {
  return varve::rocksdb_c::Open{db}.ok() ? db->db->GetLatestSequenceNumber()
                                         : 0;
}

}  // extern "C"
