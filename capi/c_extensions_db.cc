// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// C functions of databases, snapshots and read transactions that LevelDB does
// not have.

#include <map>
#include <vector>

#include "capi/arguments.h"
#include "capi/handles.h"
#include "capi/lifetime.h"
#include "capi/requests.h"
#include "varve/pinnable_slice.h"
#include "varve/read_transaction.h"
#include "varve/version.h"

using varve::CompactRangeOptions;
using varve::PinnableSlice;
using varve::Slice;
using varve::Status;
using varve::capi::Bound;
using varve::capi::Bytes;
using varve::capi::Given;
using varve::capi::ReplaceError;
using varve::capi::SaveError;
using varve::capi::Set;
using varve::capi::ToSlice;
using varve::capi::Usable;

struct varve_readtransaction_t {
  varve::ReadTransaction rep;
  varve_t* owner;  // See OwnerOf.
  varve_snapshot_t snapshot;
};

extern "C" {

const char* varve_version(void) { return varve::VersionString(); }

// ---- Databases --------------------------------------------------------------

varve_t* varve_open_for_read_only(const varve_options_t* options,
                                  const char* name, char** errptr) {
  if (!Usable(errptr, Given{options, "options"}, Given{name, "name"})) {
    return nullptr;
  }
  auto handle = std::make_unique<varve_t>();
  const Status status =
      varve::DB::OpenForReadOnly(options->ForUse(), name, &handle->owned);
  if (SaveError(errptr, status)) return nullptr;
  handle->db = handle->owned.get();
  return handle.release();
}

varve_t* varve_open_as_secondary(const varve_options_t* options,
                                 const char* name, const char* secondary_path,
                                 char** errptr) {
  if (!Usable(errptr, Given{options, "options"}, Given{name, "name"},
              Given{secondary_path, "secondary_path"})) {
    return nullptr;
  }
  auto handle = std::make_unique<varve_t>();
  const Status status = varve::DB::OpenAsSecondary(
      options->ForUse(), name, secondary_path, &handle->owned);
  if (SaveError(errptr, status)) return nullptr;
  handle->db = handle->owned.get();
  return handle.release();
}

void varve_try_catch_up_with_primary(varve_t* db, char** errptr) {
  if (!Usable(errptr, Given{db, "db"})) return;
  SaveError(errptr, db->db->TryCatchUpWithPrimary());
}

void varve_promote(varve_t* db, char** errptr) {
  if (!Usable(errptr, Given{db, "db"})) return;
  SaveError(errptr, db->db->Promote());
}

uint8_t varve_close_checked(varve_t* db, char** errptr) {
  if (db == nullptr) return 1;
  if (db->db == varve::capi::ClosedDb()) {
    SaveError(errptr, db->db->Close());
    return 1;
  }
  if (db->owned != nullptr) {
    const Status status = db->owned->Close();
    SaveError(errptr, status);
    if (status.IsBusy()) return 0;
  }
  varve::capi::CloseHandle(db);
  return 1;
}

void varve_singledelete(varve_t* db, const varve_writeoptions_t* options,
                        const char* key, size_t keylen, char** errptr) {
  if (!Usable(errptr, Given{db, "db"}, Given{options, "options"},
              Bytes{key, keylen, "key"})) {
    return;
  }
  SaveError(errptr, db->db->SingleDelete(options->rep, ToSlice(key, keylen)));
}

void varve_delete_range(varve_t* db, const varve_writeoptions_t* options,
                        const char* start_key, size_t start_key_len,
                        const char* end_key, size_t end_key_len,
                        char** errptr) {
  if (!Usable(errptr, Given{db, "db"}, Given{options, "options"},
              Bytes{start_key, start_key_len, "start_key"},
              Bytes{end_key, end_key_len, "end_key"})) {
    return;
  }
  SaveError(errptr,
            db->db->DeleteRange(options->rep, ToSlice(start_key, start_key_len),
                                ToSlice(end_key, end_key_len)));
}

void varve_multi_get(varve_t* db, const varve_readoptions_t* options,
                     size_t num_keys, const char* const* keys_list,
                     const size_t* keys_list_sizes, char** values_list,
                     size_t* values_list_sizes, char** errs) {
  const varve::capi::ManyReads reads = {
      Given{db, "db"}, options,     num_keys,          keys_list,
      keys_list_sizes, values_list, values_list_sizes, errs};
  std::vector<Slice> keys;
  if (!reads.Prepare(&keys)) return;
  std::vector<PinnableSlice> values(num_keys);
  std::vector<Status> statuses(num_keys);
  db->db->MultiGet(options->rep, num_keys, keys.data(), values.data(),
                   statuses.data());
  reads.Finish(values, statuses);
}

varve_pinnableslice_t* varve_get_pinned(varve_t* db,
                                        const varve_readoptions_t* options,
                                        const char* key, size_t keylen,
                                        char** errptr) {
  if (!Usable(errptr, Given{db, "db"}, Given{options, "options"},
              Bytes{key, keylen, "key"})) {
    return nullptr;
  }
  auto value = std::make_unique<varve_pinnableslice_t>();
  const Status status =
      db->db->Get(options->rep, ToSlice(key, keylen), &value->rep);
  if (status.ok()) return value.release();
  if (!status.IsNotFound()) SaveError(errptr, status);
  return nullptr;
}

const char* varve_pinnableslice_value(const varve_pinnableslice_t* v,
                                      size_t* vlen) {
  if (vlen != nullptr) *vlen = v != nullptr ? v->rep.size() : 0;
  return v != nullptr ? v->rep.data() : nullptr;
}

void varve_pinnableslice_destroy(varve_pinnableslice_t* v) { delete v; }

uint8_t varve_get_into_buffer(varve_t* db, const varve_readoptions_t* options,
                              const char* key, size_t keylen, char* buffer,
                              size_t buffer_size, size_t* vallen,
                              uint8_t* found, char** errptr) {
  const varve::capi::Target target = {buffer, buffer_size, vallen, found};
  if (!Usable(errptr, Given{db, "db"}, Given{options, "options"},
              Bytes{key, keylen, "key"}, Bytes{buffer, buffer_size, "buffer"},
              Given{vallen, "vallen"}, Given{found, "found"})) {
    target.SetNothing();
    return 0;
  }
  PinnableSlice value;
  const Status status = db->db->Get(options->rep, ToSlice(key, keylen), &value);
  return target.Store(status, value, errptr);
}

int varve_property_int(varve_t* db, const char* propname, uint64_t* out_val) {
  if (!Usable(nullptr, Given{db, "db"}, Given{propname, "propname"},
              Given{out_val, "out_val"})) {
    return -1;
  }
  return db->db->GetIntProperty(propname, out_val) ? 0 : -1;
}

uint64_t varve_get_latest_sequence_number(varve_t* db) {
  return db != nullptr ? db->db->GetLatestSequenceNumber() : 0;
}

void varve_flush(varve_t* db, const varve_flushoptions_t* options,
                 char** errptr) {
  if (!Usable(errptr, Given{db, "db"}, Given{options, "options"})) return;
  SaveError(errptr, db->db->Flush(options->rep));
}

void varve_flush_wal(varve_t* db, uint8_t sync, char** errptr) {
  if (!Usable(errptr, Given{db, "db"})) return;
  SaveError(errptr, db->db->FlushWAL(sync != 0));
}

void varve_sync_wal(varve_t* db, char** errptr) {
  if (!Usable(errptr, Given{db, "db"})) return;
  SaveError(errptr, db->db->SyncWAL());
}

void varve_compact_range_opt(varve_t* db, const varve_compactoptions_t* options,
                             const char* start_key, size_t start_key_len,
                             const char* limit_key, size_t limit_key_len,
                             char** errptr) {
  if (!Usable(errptr, Given{db, "db"}, Given{options, "options"},
              Bound{{start_key, start_key_len, "start_key"}},
              Bound{{limit_key, limit_key_len, "limit_key"}})) {
    return;
  }
  const Slice begin = ToSlice(start_key, start_key_len);
  const Slice end = ToSlice(limit_key, limit_key_len);
  SaveError(errptr, db->db->CompactRange(
                        options->rep, start_key == nullptr ? nullptr : &begin,
                        limit_key == nullptr ? nullptr : &end));
}

void varve_wait_for_compact(varve_t* db, char** errptr) {
  if (!Usable(errptr, Given{db, "db"})) return;
  SaveError(errptr, db->db->WaitForCompact());
}

void varve_cancel_all_background_work(varve_t* db, uint8_t wait) {
  if (db != nullptr) db->db->CancelAllBackgroundWork(wait != 0);
}

void varve_set_options(varve_t* db, int count, const char* const keys[],
                       const char* const values[], char** errptr) {
  if (!Usable(errptr, Given{db, "db"})) return;
  std::map<std::string, std::string> changes;
  Status status = varve::capi::ToChanges(count, keys, values, &changes);
  if (status.ok()) status = db->db->SetOptions(changes);
  SaveError(errptr, status);
}

void varve_resume(varve_t* db, char** errptr) {
  if (!Usable(errptr, Given{db, "db"})) return;
  SaveError(errptr, db->db->Resume());
}

void varve_verify_checksum(varve_t* db, char** errptr) {
  if (!Usable(errptr, Given{db, "db"})) return;
  SaveError(errptr, db->db->VerifyChecksum());
}

varve_checkpoint_t* varve_checkpoint_object_create(varve_t* db, char** errptr) {
  if (!Usable(errptr, Given{db, "db"})) return nullptr;
  if (db->db == varve::capi::ClosedDb()) {
    SaveError(errptr, db->db->Close());
    return nullptr;
  }
  auto* const checkpoint = new varve_checkpoint_t(db->db, db);
  varve::capi::AddDependent(checkpoint);
  return checkpoint;
}

void varve_checkpoint_create(varve_checkpoint_t* checkpoint,
                             const char* checkpoint_dir,
                             uint64_t /*log_size_for_flush*/, char** errptr) {
  if (!Usable(errptr, Given{checkpoint, "checkpoint"},
              Given{checkpoint_dir, "checkpoint_dir"})) {
    return;
  }
  SaveError(errptr, checkpoint->db->CreateCheckpoint(checkpoint_dir));
}

void varve_checkpoint_object_destroy(varve_checkpoint_t* checkpoint) {
  if (checkpoint == nullptr) return;
  varve::capi::RemoveDependent(checkpoint);
  delete checkpoint;
}

varve_flushoptions_t* varve_flushoptions_create(void) {
  return new varve_flushoptions_t;
}

void varve_flushoptions_destroy(varve_flushoptions_t* options) {
  delete options;
}

void varve_flushoptions_set_wait(varve_flushoptions_t* options, uint8_t value) {
  Set(options, &varve::FlushOptions::wait, value != 0);
}

varve_compactoptions_t* varve_compactoptions_create(void) {
  return new varve_compactoptions_t;
}

void varve_compactoptions_destroy(varve_compactoptions_t* options) {
  delete options;
}

void varve_compactoptions_set_exclusive_manual_compaction(
    varve_compactoptions_t* options, uint8_t value) {
  Set(options, &CompactRangeOptions::exclusive_manual_compaction, value != 0);
}

void varve_compactoptions_set_bottommost_level_compaction(
    varve_compactoptions_t* options, uint8_t value) {
  Set(options, &CompactRangeOptions::rewrite_bottommost_level, value != 0);
}

void varve_compactoptions_set_target_level(varve_compactoptions_t* options,
                                           int level) {
  Set(options, &CompactRangeOptions::target_level, level);
}

// ---- Snapshots and read transactions ----------------------------------------

uint64_t varve_snapshot_get_sequence_number(const varve_snapshot_t* snapshot) {
  return snapshot != nullptr ? snapshot->rep->GetSequenceNumber() : 0;
}

varve_readtransaction_t* varve_readtransaction_begin(varve_t* db) {
  if (db == nullptr) return nullptr;
  varve::ReadTransaction begun(db->db);
  // The database is closed.
  if (begun.has_ended()) return nullptr;
  auto* const transaction = new varve_readtransaction_t;
  transaction->rep = std::move(begun);
  transaction->owner = varve::capi::OwnerOf(db);
  transaction->snapshot = {transaction->rep.snapshot(), db->db,
                           transaction->owner, true};
  return transaction;
}

const varve_snapshot_t* varve_readtransaction_snapshot(
    const varve_readtransaction_t* transaction) {
  return transaction != nullptr ? &transaction->snapshot : nullptr;
}

void varve_readtransaction_end(varve_readtransaction_t* transaction) {
  if (transaction == nullptr) return;
  varve::capi::LetGo(transaction->owner, [transaction] { delete transaction; });
}

}  // extern "C"
