// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Tables of an exported family, which rocksdb_create_column_family_with_import
// takes, and the metadata that says what they have.

#include <memory>
#include <string>
#include <utility>

#include "compat/rocksdb/db/handles.h"
#include "compat/rocksdb/db/live_files.h"
#include "varve/checkpoint.h"

struct rocksdb_livefile_t {
  varve::LiveFileMetaData rep;
};

namespace varve::rocksdb_c {
namespace {

Status Export(const rocksdb_checkpoint_t& checkpoint,
              ColumnFamilyHandle* family, const std::string& directory,
              std::unique_ptr<ExportImportFilesMetaData>* metadata) {
  const std::shared_ptr<DB> db = checkpoint.db.lock();
  if (db == nullptr) return Status::InvalidArgument("db was closed");
  std::unique_ptr<Checkpoint> exporter;
  ExportImportFilesMetaData* exported = nullptr;
  Status status = Checkpoint::Create(db.get(), &exporter);
  if (status.ok()) {
    status = exporter->ExportColumnFamily(family, directory, &exported);
  }
  metadata->reset(exported);
  if (status.IsInvalidArgument() &&
      status.message().ToStringView().ends_with("exists already")) {
    status = Status::InvalidArgument("Specified export_dir exists");
  }
  return status;
}

// Without a file or a value nothing is set.
template <typename Part, typename T, typename Value>
void Set(rocksdb_livefile_t* file, T Part::*field, Value value) {
  if (file != nullptr) file->rep.*field = value;
}

template <typename Part>
void SetBytes(rocksdb_livefile_t* file, std::string Part::*field,
              const Bytes& bytes) {
  if (file != nullptr && bytes.ok()) {
    file->rep.*field = bytes.slice().ToString();
  }
}

template <typename Part>
void SetText(rocksdb_livefile_t* file, std::string Part::*field,
             const char* text) {
  if (file != nullptr && text != nullptr) file->rep.*field = text;
}

}  // namespace
}  // namespace varve::rocksdb_c

using varve::FileStorageInfo;
using varve::LiveFileMetaData;
using varve::SstFileMetaData;
using varve::rocksdb_c::Bytes;
using varve::rocksdb_c::CopyBytes;
using varve::rocksdb_c::Export;
using varve::rocksdb_c::Failed;
using varve::rocksdb_c::Given;
using varve::rocksdb_c::Set;
using varve::rocksdb_c::SetBytes;
using varve::rocksdb_c::SetText;
using varve::rocksdb_c::Usable;

extern "C" {

rocksdb_export_import_files_metadata_t* rocksdb_checkpoint_export_column_family(
    rocksdb_checkpoint_t* checkpoint,
    rocksdb_column_family_handle_t* column_family, const char* export_dir,
    char** errptr) {
  if (!Usable(errptr, Given{checkpoint, "checkpoint"},
              Given{column_family, "column_family"},
              Given{export_dir, "export_dir"})) {
    return nullptr;
  }
  std::unique_ptr<varve::ExportImportFilesMetaData> metadata;
  if (Failed(errptr, Export(*checkpoint, column_family->rep.get(), export_dir,
                            &metadata))) {
    return nullptr;
  }
  // RocksDB leaves these out, and grocksdb's tests expect it.
  for (varve::LiveFileMetaData& file : metadata->files) {
    file.column_family_name.clear();
    file.num_entries = 0;
    file.num_deletions = 0;
  }
  return new rocksdb_export_import_files_metadata_t{std::move(*metadata)};
}

// ---- Metadata ---------------------------------------------------------------

rocksdb_export_import_files_metadata_t*
rocksdb_export_import_files_metadata_create() {
  return new rocksdb_export_import_files_metadata_t;
}

void rocksdb_export_import_files_metadata_destroy(
    rocksdb_export_import_files_metadata_t* metadata) {
  delete metadata;
}

char* rocksdb_export_import_files_metadata_get_db_comparator_name(
    rocksdb_export_import_files_metadata_t* metadata) {
  return metadata != nullptr ? CopyBytes(metadata->rep.db_comparator_name)
                             : nullptr;
}

void rocksdb_export_import_files_metadata_set_db_comparator_name(
    rocksdb_export_import_files_metadata_t* metadata, const char* name) {
  if (metadata == nullptr || name == nullptr) return;
  metadata->rep.db_comparator_name = name;
}

rocksdb_livefiles_t* rocksdb_export_import_files_metadata_get_files(
    rocksdb_export_import_files_metadata_t* export_import_metadata) {
  if (export_import_metadata == nullptr) return nullptr;
  return new rocksdb_livefiles_t{export_import_metadata->rep.files};
}

void rocksdb_export_import_files_metadata_set_files(
    rocksdb_export_import_files_metadata_t* metadata,
    rocksdb_livefiles_t* files) {
  if (metadata == nullptr || files == nullptr) return;
  metadata->rep.files = files->tables;
}

// ---- Files ------------------------------------------------------------------

rocksdb_livefiles_t* rocksdb_livefiles_create() {
  return new rocksdb_livefiles_t;
}

void rocksdb_livefiles_add(rocksdb_livefiles_t* lf,
                           rocksdb_livefile_t* livefile) {
  if (lf == nullptr || livefile == nullptr) return;
  lf->tables.push_back(livefile->rep);
}

rocksdb_livefile_t* rocksdb_livefile_create() { return new rocksdb_livefile_t; }

void rocksdb_livefile_destroy(rocksdb_livefile_t* lf) { delete lf; }

void rocksdb_livefile_set_column_family_name(rocksdb_livefile_t* lf,
                                             const char* column_family_name) {
  SetText(lf, &LiveFileMetaData::column_family_name, column_family_name);
}

void rocksdb_livefile_set_level(rocksdb_livefile_t* lf, int level) {
  Set(lf, &LiveFileMetaData::level, level);
}

void rocksdb_livefile_set_name(rocksdb_livefile_t* lf, const char* name) {
  SetText(lf, &SstFileMetaData::name, name);
}

void rocksdb_livefile_set_directory(rocksdb_livefile_t* lf,
                                    const char* directory) {
  SetText(lf, &FileStorageInfo::directory, directory);
  SetText(lf, &SstFileMetaData::db_path, directory);
}

void rocksdb_livefile_set_size(rocksdb_livefile_t* lf, size_t size) {
  Set(lf, &FileStorageInfo::size, size);
}

void rocksdb_livefile_set_smallest_key(rocksdb_livefile_t* lf,
                                       const char* smallest_key,
                                       size_t smallest_key_len) {
  SetBytes(lf, &SstFileMetaData::smallestkey,
           Bytes{smallest_key, smallest_key_len, "smallest_key"});
}

void rocksdb_livefile_set_largest_key(rocksdb_livefile_t* lf,
                                      const char* largest_key,
                                      size_t largest_key_len) {
  SetBytes(lf, &SstFileMetaData::largestkey,
           Bytes{largest_key, largest_key_len, "largest_key"});
}

void rocksdb_livefile_set_smallest_seqno(rocksdb_livefile_t* lf,
                                         uint64_t smallest_seqno) {
  Set(lf, &SstFileMetaData::smallest_seqno, smallest_seqno);
}

void rocksdb_livefile_set_largest_seqno(rocksdb_livefile_t* lf,
                                        uint64_t largest_seqno) {
  Set(lf, &SstFileMetaData::largest_seqno, largest_seqno);
}

void rocksdb_livefile_set_num_entries(rocksdb_livefile_t* lf,
                                      uint64_t num_entries) {
  Set(lf, &SstFileMetaData::num_entries, num_entries);
}

void rocksdb_livefile_set_num_deletions(rocksdb_livefile_t* lf,
                                        uint64_t num_deletions) {
  Set(lf, &SstFileMetaData::num_deletions, num_deletions);
}

}  // extern "C"
