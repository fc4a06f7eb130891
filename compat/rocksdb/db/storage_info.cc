// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// The files of one state of a database, for a copy, its logs and the updates in
// them, and whether obsolete files are removed.

#include <fields.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compat/rocksdb/batch/write_batch.h"
#include "compat/rocksdb/db/arguments.h"
#include "compat/rocksdb/db/handles.h"
#include "compat/rocksdb/db/lifetime.h"
#include "varve/metadata.h"
#include "varve/transaction_log.h"

struct rocksdb_livefiles_storage_info_t {
  std::vector<varve::LiveFileStorageInfo> files;
};

struct rocksdb_wal_file_t {
  explicit rocksdb_wal_file_t(std::unique_ptr<varve::WalFile> file)
      : path_name(file->PathName()), rep(std::move(file)) {}

  std::string path_name;
  std::unique_ptr<varve::WalFile> rep;
};

struct rocksdb_wal_files_t {
  std::vector<rocksdb_wal_file_t> files;
};

struct rocksdb_wal_iterator_t {
  std::unique_ptr<varve::TransactionLogIterator> rep;
};

namespace varve::rocksdb_c {
namespace {

// Returns null if there is no such file.
const LiveFileStorageInfo* At(const rocksdb_livefiles_storage_info_t* info,
                              size_t index) {
  return info != nullptr && index < info->files.size() ? &info->files[index]
                                                       : nullptr;
}

const char* Text(const LiveFileStorageInfo* file,
                 const std::string FileStorageInfo::*field) {
  return file != nullptr ? (file->*field).c_str() : nullptr;
}

// RocksDB's functions get an iterator that they change as a constant one.
TransactionLogIterator* Rep(const rocksdb_wal_iterator_t* iterator) {
  return iterator != nullptr ? iterator->rep.get() : nullptr;
}

}  // namespace
}  // namespace varve::rocksdb_c

using varve::BatchResult;
using varve::FileStorageInfo;
using varve::LiveFileStorageInfo;
using varve::rocksdb_c::At;
using varve::rocksdb_c::Failed;
using varve::rocksdb_c::Given;
using varve::rocksdb_c::LetGo;
using varve::rocksdb_c::Open;
using varve::rocksdb_c::Rep;
using varve::rocksdb_c::Text;
using varve::rocksdb_c::Usable;

extern "C" {

rocksdb_livefiles_storage_info_t* rocksdb_get_livefiles_storage_info(
    rocksdb_t* db, const rocksdb_livefiles_storage_info_options_t* options,
    char** errptr) {
  if (!Usable(errptr, Open{db}, Given{options, "options"})) return nullptr;
  varve::LiveFilesStorageInfoOptions given;
  given.include_checksum_info = options->include_checksum_info != 0;
  given.wal_size_for_flush = options->wal_size_for_flush;
  std::vector<LiveFileStorageInfo> files;
  if (Failed(errptr, db->db->GetLiveFilesStorageInfo(given, &files))) {
    return nullptr;
  }
  return new rocksdb_livefiles_storage_info_t{std::move(files)};
}

size_t rocksdb_livefiles_storage_info_count(
    const rocksdb_livefiles_storage_info_t* info) {
  return info != nullptr ? info->files.size() : 0;
}

const char* rocksdb_livefiles_storage_info_relative_filename(
    const rocksdb_livefiles_storage_info_t* info, size_t index) {
  return Text(At(info, index), &FileStorageInfo::relative_filename);
}

const char* rocksdb_livefiles_storage_info_directory(
    const rocksdb_livefiles_storage_info_t* info, size_t index) {
  return Text(At(info, index), &FileStorageInfo::directory);
}

uint64_t rocksdb_livefiles_storage_info_file_number(
    const rocksdb_livefiles_storage_info_t* info, size_t index) {
  const LiveFileStorageInfo* const file = At(info, index);
  return file != nullptr ? file->file_number : 0;
}

int rocksdb_livefiles_storage_info_file_type(
    const rocksdb_livefiles_storage_info_t* info, size_t index) {
  const LiveFileStorageInfo* const file = At(info, index);
  return file != nullptr ? static_cast<int>(file->file_type) : 0;
}

uint64_t rocksdb_livefiles_storage_info_size(
    const rocksdb_livefiles_storage_info_t* info, size_t index) {
  const LiveFileStorageInfo* const file = At(info, index);
  return file != nullptr ? file->size : 0;
}

int rocksdb_livefiles_storage_info_temperature(
    const rocksdb_livefiles_storage_info_t* info, size_t index) {
  const LiveFileStorageInfo* const file = At(info, index);
  return file != nullptr ? static_cast<int>(file->temperature) : 0;
}

const char* rocksdb_livefiles_storage_info_file_checksum(
    const rocksdb_livefiles_storage_info_t* info, size_t index) {
  return Text(At(info, index), &FileStorageInfo::file_checksum);
}

const char* rocksdb_livefiles_storage_info_file_checksum_func_name(
    const rocksdb_livefiles_storage_info_t* info, size_t index) {
  return Text(At(info, index), &FileStorageInfo::file_checksum_func_name);
}

const char* rocksdb_livefiles_storage_info_replacement_contents(
    const rocksdb_livefiles_storage_info_t* info, size_t index, size_t* size) {
  const LiveFileStorageInfo* const file = At(info, index);
  if (size != nullptr) {
    *size = file != nullptr ? file->replacement_contents.size() : 0;
  }
  return file != nullptr ? file->replacement_contents.data() : nullptr;
}

unsigned char rocksdb_livefiles_storage_info_trim_to_size(
    const rocksdb_livefiles_storage_info_t* info, size_t index) {
  const LiveFileStorageInfo* const file = At(info, index);
  return file != nullptr && file->trim_to_size ? 1 : 0;
}

void rocksdb_livefiles_storage_info_destroy(
    rocksdb_livefiles_storage_info_t* info) {
  delete info;
}

void rocksdb_disable_file_deletions(rocksdb_t* db, char** errptr) {
  if (Usable(errptr, Open{db})) Failed(errptr, db->db->DisableFileDeletions());
}

void rocksdb_enable_file_deletions(rocksdb_t* db, char** errptr) {
  if (Usable(errptr, Open{db})) Failed(errptr, db->db->EnableFileDeletions());
}

// ---- Logs ----

rocksdb_wal_files_t* rocksdb_get_sorted_wal_files(rocksdb_t* db,
                                                  char** errptr) {
  if (!Usable(errptr, Open{db})) return nullptr;
  varve::VectorWalPtr files;
  if (Failed(errptr, db->db->GetSortedWalFiles(&files))) return nullptr;
  auto* const result = new rocksdb_wal_files_t;
  for (auto& file : files) result->files.emplace_back(std::move(file));
  return result;
}

rocksdb_wal_file_t* rocksdb_get_current_wal_file(rocksdb_t* db, char** errptr) {
  if (!Usable(errptr, Open{db})) return nullptr;
  std::unique_ptr<varve::WalFile> file;
  if (Failed(errptr, db->db->GetCurrentWalFile(&file)) || file == nullptr) {
    return nullptr;
  }
  return new rocksdb_wal_file_t(std::move(file));
}

const char* rocksdb_wal_file_path_name(const rocksdb_wal_file_t* file) {
  return file != nullptr ? file->path_name.c_str() : nullptr;
}

uint64_t rocksdb_wal_file_log_number(const rocksdb_wal_file_t* file) {
  return file != nullptr ? file->rep->LogNumber() : 0;
}

int rocksdb_wal_file_type(const rocksdb_wal_file_t* file) {
  return file != nullptr ? static_cast<int>(file->rep->Type()) : 0;
}

uint64_t rocksdb_wal_file_start_sequence(const rocksdb_wal_file_t* file) {
  return file != nullptr ? file->rep->StartSequence() : 0;
}

uint64_t rocksdb_wal_file_size_file_bytes(const rocksdb_wal_file_t* file) {
  return file != nullptr ? file->rep->SizeFileBytes() : 0;
}

void rocksdb_wal_file_destroy(rocksdb_wal_file_t* file) { delete file; }

size_t rocksdb_wal_files_count(const rocksdb_wal_files_t* files) {
  return files != nullptr ? files->files.size() : 0;
}

const rocksdb_wal_file_t* rocksdb_wal_files_get_wal_file(
    const rocksdb_wal_files_t* files, size_t index) {
  return files != nullptr && index < files->files.size() ? &files->files[index]
                                                         : nullptr;
}

void rocksdb_wal_files_destroy(rocksdb_wal_files_t* files) { delete files; }

// ---- Streams of updates ----

rocksdb_wal_iterator_t* rocksdb_get_updates_since(
    rocksdb_t* db, uint64_t seq_number,
    const rocksdb_wal_readoptions_t* /*options*/, char** errptr) {
  if (!Usable(errptr, Open{db})) return nullptr;
  auto iterator = std::make_unique<rocksdb_wal_iterator_t>();
  if (Failed(errptr, db->db->GetUpdatesSince(seq_number, &iterator->rep))) {
    return nullptr;
  }
  return iterator.release();
}

void rocksdb_wal_iter_next(rocksdb_wal_iterator_t* iter) {
  if (Rep(iter) != nullptr) Rep(iter)->Next();
}

unsigned char rocksdb_wal_iter_valid(const rocksdb_wal_iterator_t* iter) {
  return Rep(iter) != nullptr && Rep(iter)->Valid() ? 1 : 0;
}

void rocksdb_wal_iter_status(const rocksdb_wal_iterator_t* iter,
                             char** errptr) {
  if (!Usable(errptr, Given{iter, "iter"})) return;
  if (Rep(iter) != nullptr) Failed(errptr, Rep(iter)->status());
}

rocksdb_writebatch_t* rocksdb_wal_iter_get_batch(
    const rocksdb_wal_iterator_t* iter, uint64_t* seq) {
  auto* const batch = new rocksdb_writebatch_t;
  if (seq != nullptr) *seq = 0;
  if (Rep(iter) == nullptr || !Rep(iter)->Valid()) return batch;
  BatchResult result = Rep(iter)->GetBatch();
  batch->rep = std::move(*result.writeBatchPtr);
  if (seq != nullptr) *seq = result.sequence;
  return batch;
}

void rocksdb_wal_iter_destroy(const rocksdb_wal_iterator_t* iter) {
  LetGo([iter] { delete iter; });
}

}  // extern "C"
