// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Databases, moments and iterators, beyond what LevelDB has.

#include <map>
#include <vector>

#include "capi/handles.h"
#include "util/coding.h"
#include "varve/checkpoint.h"
#include "varve/pinnable_slice.h"
#include "varve/read_transaction.h"

using varve::PinnableSlice;
using varve::Slice;
using varve::Status;
using varve::capi::SaveError;
using varve::capi::ToSlice;

struct varve_pinnableslice_t {
  PinnableSlice rep;
};

struct varve_checkpoint_t {
  std::unique_ptr<varve::Checkpoint> rep;
};

struct varve_flushoptions_t {
  varve::FlushOptions rep;
};

struct varve_compactoptions_t {
  varve::CompactRangeOptions rep;
};

struct varve_readtransaction_t {
  varve::ReadTransaction rep;
  varve_snapshot_t snapshot;
};

extern "C" {

const char* varve_version(void) { return VARVE_VERSION; }

// ---- Databases --------------------------------------------------------------

varve_t* varve_open_for_read_only(const varve_options_t* options,
                                  const char* name, char** errptr) {
  auto handle = std::make_unique<varve_t>();
  const Status status =
      varve::DB::OpenForReadOnly(options->ForUse(), name, &handle->owned);
  if (SaveError(errptr, status)) return nullptr;
  handle->db = handle->owned.get();
  return handle.release();
}

uint8_t varve_close_checked(varve_t* db, char** errptr) {
  if (db == nullptr) return 1;
  if (db->owned != nullptr) {
    const Status status = db->owned->Close();
    SaveError(errptr, status);
    if (status.IsBusy()) return 0;
  }
  delete db;
  return 1;
}

void varve_singledelete(varve_t* db, const varve_writeoptions_t* options,
                        const char* key, size_t keylen, char** errptr) {
  SaveError(errptr, db->db->SingleDelete(options->rep, ToSlice(key, keylen)));
}

void varve_delete_range(varve_t* db, const varve_writeoptions_t* options,
                        const char* start_key, size_t start_key_len,
                        const char* end_key, size_t end_key_len,
                        char** errptr) {
  SaveError(errptr,
            db->db->DeleteRange(options->rep, ToSlice(start_key, start_key_len),
                                ToSlice(end_key, end_key_len)));
}

void varve_multi_get(varve_t* db, const varve_readoptions_t* options,
                     size_t num_keys, const char* const* keys_list,
                     const size_t* keys_list_sizes, char** values_list,
                     size_t* values_list_sizes, char** errs) {
  std::vector<Slice> keys(num_keys);
  for (size_t i = 0; i < num_keys; ++i) {
    keys[i] = ToSlice(keys_list[i], keys_list_sizes[i]);
  }
  std::vector<PinnableSlice> values(num_keys);
  std::vector<Status> statuses(num_keys);
  db->db->MultiGet(options->rep, num_keys, keys.data(), values.data(),
                   statuses.data());
  for (size_t i = 0; i < num_keys; ++i) {
    errs[i] = nullptr;
    values_list[i] = varve::capi::TakeValue(statuses[i], values[i],
                                            &values_list_sizes[i], &errs[i]);
  }
}

varve_pinnableslice_t* varve_get_pinned(varve_t* db,
                                        const varve_readoptions_t* options,
                                        const char* key, size_t keylen,
                                        char** errptr) {
  auto value = std::make_unique<varve_pinnableslice_t>();
  const Status status =
      db->db->Get(options->rep, ToSlice(key, keylen), &value->rep);
  if (status.ok()) return value.release();
  if (!status.IsNotFound()) SaveError(errptr, status);
  return nullptr;
}

const char* varve_pinnableslice_value(const varve_pinnableslice_t* v,
                                      size_t* vlen) {
  *vlen = v != nullptr ? v->rep.size() : 0;
  return v != nullptr ? v->rep.data() : nullptr;
}

void varve_pinnableslice_destroy(varve_pinnableslice_t* v) { delete v; }

uint8_t varve_get_into_buffer(varve_t* db, const varve_readoptions_t* options,
                              const char* key, size_t keylen, char* buffer,
                              size_t buffer_size, size_t* vallen,
                              uint8_t* found, char** errptr) {
  PinnableSlice value;
  const Status status = db->db->Get(options->rep, ToSlice(key, keylen), &value);
  *found = status.ok() ? 1 : 0;
  *vallen = status.ok() ? value.size() : 0;
  if (!status.ok()) {
    if (!status.IsNotFound()) SaveError(errptr, status);
    return 0;
  }
  if (value.size() > buffer_size) return 0;
  if (!value.empty()) memcpy(buffer, value.data(), value.size());
  return 1;
}

int varve_property_int(varve_t* db, const char* propname, uint64_t* out_val) {
  return db->db->GetIntProperty(propname, out_val) ? 0 : -1;
}

uint64_t varve_get_latest_sequence_number(varve_t* db) {
  return db->db->GetLatestSequenceNumber();
}

void varve_flush(varve_t* db, const varve_flushoptions_t* options,
                 char** errptr) {
  SaveError(errptr, db->db->Flush(options->rep));
}

void varve_flush_wal(varve_t* db, uint8_t sync, char** errptr) {
  SaveError(errptr, db->db->FlushWAL(sync != 0));
}

void varve_sync_wal(varve_t* db, char** errptr) {
  SaveError(errptr, db->db->SyncWAL());
}

void varve_compact_range_opt(varve_t* db, const varve_compactoptions_t* options,
                             const char* start_key, size_t start_key_len,
                             const char* limit_key, size_t limit_key_len,
                             char** errptr) {
  const Slice begin = ToSlice(start_key, start_key_len);
  const Slice end = ToSlice(limit_key, limit_key_len);
  SaveError(errptr, db->db->CompactRange(
                        options->rep, start_key == nullptr ? nullptr : &begin,
                        limit_key == nullptr ? nullptr : &end));
}

void varve_wait_for_compact(varve_t* db, char** errptr) {
  SaveError(errptr, db->db->WaitForCompact());
}

void varve_cancel_all_background_work(varve_t* db, uint8_t wait) {
  db->db->CancelAllBackgroundWork(wait != 0);
}

void varve_set_options(varve_t* db, int count, const char* const keys[],
                       const char* const values[], char** errptr) {
  std::map<std::string, std::string> changes;
  for (int i = 0; i < count; ++i) changes[keys[i]] = values[i];
  SaveError(errptr, db->db->SetOptions(changes));
}

void varve_resume(varve_t* db, char** errptr) {
  SaveError(errptr, db->db->Resume());
}

void varve_verify_checksum(varve_t* db, char** errptr) {
  SaveError(errptr, db->db->VerifyChecksum());
}

varve_checkpoint_t* varve_checkpoint_object_create(varve_t* db, char** errptr) {
  auto checkpoint = std::make_unique<varve_checkpoint_t>();
  const Status status = varve::Checkpoint::Create(db->db, &checkpoint->rep);
  return SaveError(errptr, status) ? nullptr : checkpoint.release();
}

void varve_checkpoint_create(varve_checkpoint_t* checkpoint,
                             const char* checkpoint_dir,
                             uint64_t /*log_size_for_flush*/, char** errptr) {
  SaveError(errptr, checkpoint->rep->CreateCheckpoint(checkpoint_dir));
}

void varve_checkpoint_object_destroy(varve_checkpoint_t* checkpoint) {
  delete checkpoint;
}

varve_flushoptions_t* varve_flushoptions_create(void) {
  return new varve_flushoptions_t;
}

void varve_flushoptions_destroy(varve_flushoptions_t* options) {
  delete options;
}

void varve_flushoptions_set_wait(varve_flushoptions_t* options, uint8_t value) {
  options->rep.wait = value != 0;
}

varve_compactoptions_t* varve_compactoptions_create(void) {
  return new varve_compactoptions_t;
}

void varve_compactoptions_destroy(varve_compactoptions_t* options) {
  delete options;
}

void varve_compactoptions_set_exclusive_manual_compaction(
    varve_compactoptions_t* options, uint8_t value) {
  options->rep.exclusive_manual_compaction = value != 0;
}

void varve_compactoptions_set_bottommost_level_compaction(
    varve_compactoptions_t* options, uint8_t value) {
  options->rep.rewrite_bottommost_level = value != 0;
}

void varve_compactoptions_set_target_level(varve_compactoptions_t* options,
                                           int level) {
  options->rep.target_level = level;
}

// ---- Moments ----------------------------------------------------------------

uint64_t varve_snapshot_get_sequence_number(const varve_snapshot_t* snapshot) {
  return snapshot->rep->GetSequenceNumber();
}

varve_readtransaction_t* varve_readtransaction_begin(varve_t* db) {
  auto* const transaction = new varve_readtransaction_t;
  transaction->rep = varve::ReadTransaction(db->db);
  transaction->snapshot = {transaction->rep.snapshot(), true};
  return transaction;
}

const varve_snapshot_t* varve_readtransaction_snapshot(
    const varve_readtransaction_t* transaction) {
  return &transaction->snapshot;
}

void varve_readtransaction_end(varve_readtransaction_t* transaction) {
  delete transaction;
}

// ---- Iterators --------------------------------------------------------------

void varve_iter_seek_for_prev(varve_iterator_t* iterator, const char* k,
                              size_t klen) {
  iterator->rep->SeekForPrev(ToSlice(k, klen));
}

size_t varve_iter_copy_entries(varve_iterator_t* iterator, char* buffer,
                               size_t buffer_size, size_t* used) {
  constexpr size_t kLengthsBytes = 8;
  varve::Iterator& it = *iterator->rep;
  size_t count = 0;
  *used = 0;
  for (; it.Valid(); it.Next(), ++count) {
    const Slice key = it.key();
    const Slice value = it.value();
    const size_t bytes = kLengthsBytes + key.size() + value.size();
    if (bytes > buffer_size - *used) {
      if (count == 0) *used = bytes;
      break;
    }
    char* p = buffer + *used;
    varve::EncodeFixed32(p, static_cast<uint32_t>(key.size()));
    varve::EncodeFixed32(p + 4, static_cast<uint32_t>(value.size()));
    p += kLengthsBytes;
    if (!key.empty()) memcpy(p, key.data(), key.size());
    if (!value.empty()) memcpy(p + key.size(), value.data(), value.size());
    *used += bytes;
  }
  return count;
}

}  // extern "C"
