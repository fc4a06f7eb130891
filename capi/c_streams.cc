// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// C functions of streams of updates.

#include "varve/c_streams.h"

#include <memory>
#include <utility>

#include "capi/arguments.h"
#include "capi/handles.h"
#include "capi/lifetime.h"
#include "varve/transaction_log.h"

struct varve_wal_iterator_t {
  varve_t* owner = nullptr;  // See OwnerOf.
  std::unique_ptr<varve::TransactionLogIterator> rep;
  varve::TransactionLogGap gap;
};

using varve::TransactionLogGap;
using varve::capi::Given;
using varve::capi::SaveError;
using varve::capi::Set;
using varve::capi::Usable;

namespace {

// Call it when the stream has moved.
void KeepGap(varve_wal_iterator_t* iterator) {
  static_cast<void>(iterator->rep->GetGap(&iterator->gap));
}

}  // namespace

extern "C" {

varve_wal_iterator_t* varve_get_updates_since(varve_t* db, uint64_t sequence,
                                              char** errptr) {
  if (!Usable(errptr, Given{db, "db"})) return nullptr;
  auto iterator = std::make_unique<varve_wal_iterator_t>();
  if (SaveError(errptr, db->db->GetUpdatesSince(sequence, &iterator->rep))) {
    return nullptr;
  }
  iterator->owner = varve::capi::OwnerOf(db);
  KeepGap(iterator.get());
  return iterator.release();
}

void varve_wal_iter_destroy(varve_wal_iterator_t* iterator) {
  if (iterator == nullptr) return;
  varve::capi::LetGo(iterator->owner, [iterator] { delete iterator; });
}

uint8_t varve_wal_iter_valid(const varve_wal_iterator_t* iterator) {
  return iterator != nullptr && iterator->rep->Valid() ? 1 : 0;
}

void varve_wal_iter_next(varve_wal_iterator_t* iterator) {
  if (iterator == nullptr) return;
  iterator->rep->Next();
  KeepGap(iterator);
}

void varve_wal_iter_status(const varve_wal_iterator_t* iterator,
                           char** errptr) {
  if (Usable(errptr, Given{iterator, "iterator"})) {
    SaveError(errptr, iterator->rep->status());
  }
}

varve_writebatch_t* varve_wal_iter_get_batch(
    const varve_wal_iterator_t* iterator, uint64_t* sequence) {
  auto* const batch = new varve_writebatch_t;
  if (sequence != nullptr) *sequence = 0;
  if (varve_wal_iter_valid(iterator) == 0) return batch;
  varve::BatchResult result = iterator->rep->GetBatch();
  batch->rep = std::move(*result.writeBatchPtr);
  if (sequence != nullptr) *sequence = result.sequence;
  return batch;
}

uint8_t varve_wal_iter_wait(varve_wal_iterator_t* iterator,
                            uint64_t timeout_us) {
  if (iterator == nullptr) return 0;
  const bool valid = iterator->rep->Wait(timeout_us);
  KeepGap(iterator);
  return valid ? 1 : 0;
}

int varve_wal_iter_gap(const varve_wal_iterator_t* iterator, uint64_t* first,
                       uint64_t* last) {
  const TransactionLogGap none;
  const TransactionLogGap& gap = iterator != nullptr ? iterator->gap : none;
  if (first != nullptr) *first = gap.first;
  if (last != nullptr) *last = gap.last;
  return static_cast<int>(gap.kind);
}

size_t varve_wal_iter_gap_files(const varve_wal_iterator_t* iterator) {
  return iterator != nullptr ? iterator->gap.files.size() : 0;
}

const char* varve_wal_iter_gap_file(const varve_wal_iterator_t* iterator,
                                    size_t index, uint32_t* column_family_id) {
  if (column_family_id != nullptr) *column_family_id = 0;
  if (index >= varve_wal_iter_gap_files(iterator)) return nullptr;
  const TransactionLogGap::File& file = iterator->gap.files[index];
  if (column_family_id != nullptr) *column_family_id = file.column_family_id;
  return file.name.c_str();
}

void varve_options_set_wal_ttl_seconds(varve_options_t* options,
                                       uint64_t seconds) {
  Set(options, &varve::Options::WAL_ttl_seconds, seconds);
}

void varve_options_set_wal_size_limit_mb(varve_options_t* options,
                                         uint64_t mebibytes) {
  Set(options, &varve::Options::WAL_size_limit_MB, mebibytes);
}

}  // extern "C"
