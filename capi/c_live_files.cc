// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// C functions of live files, of single tables and of exported families.

#include "varve/c_live_files.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "capi/arguments.h"
#include "capi/handles.h"
#include "capi/lifetime.h"
#include "varve/checkpoint.h"
#include "varve/metadata.h"
#include "varve/table_properties.h"

struct varve_livefile_t {
  varve::LiveFileMetaData rep;
};

struct varve_livefiles_storage_info_t {
  std::vector<varve::LiveFileStorageInfo> files;
};

using varve::FileStorageInfo;
using varve::LiveFileMetaData;
using varve::LiveFileStorageInfo;
using varve::Slice;
using varve::SstFileMetaData;
using varve::Status;
using varve::capi::Bound;
using varve::capi::Bytes;
using varve::capi::Given;
using varve::capi::OwnFamily;
using varve::capi::SaveError;
using varve::capi::ToSlice;
using varve::capi::Usable;

namespace {

// A handle of a family, or null for the default one.
struct OptionalFamily : OwnFamily {
  bool ok() const { return family == nullptr || OwnFamily::ok(); }
};

// Return null if there is no such table or file.
const LiveFileMetaData* At(const varve_livefiles_t* files, int index) {
  return files != nullptr && index >= 0 &&
                 static_cast<size_t>(index) < files->tables.size()
             ? &files->tables[static_cast<size_t>(index)]
             : nullptr;
}
const LiveFileStorageInfo* At(const varve_livefiles_storage_info_t* info,
                              size_t index) {
  return info != nullptr && index < info->files.size() ? &info->files[index]
                                                       : nullptr;
}

const char* Key(const LiveFileMetaData* table,
                const std::string SstFileMetaData::*field, size_t* size) {
  if (size != nullptr) *size = table != nullptr ? (table->*field).size() : 0;
  return table != nullptr ? (table->*field).data() : nullptr;
}

// Calls `call` with the family and the bounds as the engine has them.
template <typename Call>
void WithRange(varve_t* db, varve_column_family_handle_t* column_family,
               const Bound& start, const Bound& limit, char** errptr,
               Call call) {
  if (!Usable(errptr, Given{db, "db"}, OptionalFamily{{column_family, db}},
              start, limit)) {
    return;
  }
  const Slice begin = ToSlice(start.data, start.size);
  const Slice end = ToSlice(limit.data, limit.size);
  SaveError(errptr,
            call(column_family != nullptr ? column_family->rep.get() : nullptr,
                 start.data != nullptr ? &begin : nullptr,
                 limit.data != nullptr ? &end : nullptr));
}

template <typename Part, typename T, typename Value>
void Set(varve_livefile_t* file, T Part::*field, Value value) {
  if (file != nullptr) file->rep.*field = value;
}

template <typename Part>
void SetText(varve_livefile_t* file, std::string Part::*field,
             const char* text) {
  if (file != nullptr && text != nullptr) file->rep.*field = text;
}

template <typename Part>
void SetBytes(varve_livefile_t* file, std::string Part::*field,
              const Bytes& bytes) {
  if (file == nullptr || !bytes.ok()) return;
  file->rep.*field = ToSlice(bytes.data, bytes.size).ToString();
}

}  // namespace

extern "C" {

void varve_disable_file_deletions(varve_t* db, char** errptr) {
  if (!Usable(errptr, Given{db, "db"})) return;
  SaveError(errptr, db->db->DisableFileDeletions());
}

void varve_enable_file_deletions(varve_t* db, char** errptr) {
  if (!Usable(errptr, Given{db, "db"})) return;
  SaveError(errptr, db->db->EnableFileDeletions());
}

varve_livefiles_t* varve_livefiles(varve_t* db) {
  if (db == nullptr) return nullptr;
  auto* const files = new varve_livefiles_t;
  db->db->GetLiveFilesMetaData(&files->tables);
  return files;
}

void varve_livefiles_destroy(varve_livefiles_t* files) { delete files; }

int varve_livefiles_count(const varve_livefiles_t* files) {
  return files != nullptr ? static_cast<int>(files->tables.size()) : 0;
}

const char* varve_livefiles_column_family_name(const varve_livefiles_t* files,
                                               int index) {
  const LiveFileMetaData* const table = At(files, index);
  return table != nullptr ? table->column_family_name.c_str() : nullptr;
}

const char* varve_livefiles_name(const varve_livefiles_t* files, int index) {
  const LiveFileMetaData* const table = At(files, index);
  return table != nullptr ? table->name.c_str() : nullptr;
}

const char* varve_livefiles_directory(const varve_livefiles_t* files,
                                      int index) {
  const LiveFileMetaData* const table = At(files, index);
  return table != nullptr ? table->directory.c_str() : nullptr;
}

int varve_livefiles_level(const varve_livefiles_t* files, int index) {
  const LiveFileMetaData* const table = At(files, index);
  return table != nullptr ? table->level : 0;
}

size_t varve_livefiles_size(const varve_livefiles_t* files, int index) {
  const LiveFileMetaData* const table = At(files, index);
  return table != nullptr ? table->size : 0;
}

const char* varve_livefiles_smallestkey(const varve_livefiles_t* files,
                                        int index, size_t* size) {
  return Key(At(files, index), &SstFileMetaData::smallestkey, size);
}

const char* varve_livefiles_largestkey(const varve_livefiles_t* files,
                                       int index, size_t* size) {
  return Key(At(files, index), &SstFileMetaData::largestkey, size);
}

uint64_t varve_livefiles_smallest_seqno(const varve_livefiles_t* files,
                                        int index) {
  const LiveFileMetaData* const table = At(files, index);
  return table != nullptr ? table->smallest_seqno : 0;
}

uint64_t varve_livefiles_largest_seqno(const varve_livefiles_t* files,
                                       int index) {
  const LiveFileMetaData* const table = At(files, index);
  return table != nullptr ? table->largest_seqno : 0;
}

uint64_t varve_livefiles_entries(const varve_livefiles_t* files, int index) {
  const LiveFileMetaData* const table = At(files, index);
  return table != nullptr ? table->num_entries : 0;
}

uint64_t varve_livefiles_deletions(const varve_livefiles_t* files, int index) {
  const LiveFileMetaData* const table = At(files, index);
  return table != nullptr ? table->num_deletions : 0;
}

varve_livefiles_storage_info_t* varve_get_livefiles_storage_info(
    varve_t* db, uint64_t wal_size_for_flush, char** errptr) {
  if (!Usable(errptr, Given{db, "db"})) return nullptr;
  varve::LiveFilesStorageInfoOptions options;
  options.wal_size_for_flush = wal_size_for_flush;
  std::vector<LiveFileStorageInfo> files;
  const Status status = db->db->GetLiveFilesStorageInfo(options, &files);
  SaveError(errptr, status);
  return status.ok() ? new varve_livefiles_storage_info_t{std::move(files)}
                     : nullptr;
}

void varve_livefiles_storage_info_destroy(
    varve_livefiles_storage_info_t* info) {
  delete info;
}

size_t varve_livefiles_storage_info_count(
    const varve_livefiles_storage_info_t* info) {
  return info != nullptr ? info->files.size() : 0;
}

const char* varve_livefiles_storage_info_relative_filename(
    const varve_livefiles_storage_info_t* info, size_t index) {
  const LiveFileStorageInfo* const file = At(info, index);
  return file != nullptr ? file->relative_filename.c_str() : nullptr;
}

uint64_t varve_livefiles_storage_info_size(
    const varve_livefiles_storage_info_t* info, size_t index) {
  const LiveFileStorageInfo* const file = At(info, index);
  return file != nullptr ? file->size : 0;
}

const char* varve_livefiles_storage_info_replacement_contents(
    const varve_livefiles_storage_info_t* info, size_t index, size_t* size) {
  const LiveFileStorageInfo* const file = At(info, index);
  const bool has = file != nullptr && !file->replacement_contents.empty();
  if (size != nullptr) *size = has ? file->replacement_contents.size() : 0;
  return has ? file->replacement_contents.data() : nullptr;
}

void varve_delete_file_in_range_cf(varve_t* db,
                                   varve_column_family_handle_t* column_family,
                                   const char* start_key, size_t start_key_len,
                                   const char* limit_key, size_t limit_key_len,
                                   char** errptr) {
  WithRange(db, column_family, Bound{{start_key, start_key_len, "start_key"}},
            Bound{{limit_key, limit_key_len, "limit_key"}}, errptr,
            [db](varve::ColumnFamilyHandle* family, const Slice* begin,
                 const Slice* end) {
              const varve::RangePtr range{begin, end};
              return db->db->DeleteFilesInRanges(family, &range, 1, true);
            });
}

void varve_suggest_compact_range_cf(varve_t* db,
                                    varve_column_family_handle_t* column_family,
                                    const char* start_key, size_t start_key_len,
                                    const char* limit_key, size_t limit_key_len,
                                    char** errptr) {
  WithRange(db, column_family, Bound{{start_key, start_key_len, "start_key"}},
            Bound{{limit_key, limit_key_len, "limit_key"}}, errptr,
            [db](varve::ColumnFamilyHandle* family, const Slice* begin,
                 const Slice* end) {
              return db->db->SuggestCompactRange(family, begin, end);
            });
}

void varve_options_add_compact_on_deletion_collector_factory(
    varve_options_t* options, size_t sliding_window_size,
    size_t deletion_trigger, double deletion_ratio) {
  if (options == nullptr) return;
  options->rep.table_properties_collector_factories.push_back(
      varve::NewCompactOnDeletionCollectorFactory(
          sliding_window_size, deletion_trigger, deletion_ratio));
}

// ---- Exported families ------------------------------------------------------

varve_export_import_files_metadata_t* varve_checkpoint_export_column_family(
    varve_checkpoint_t* checkpoint, varve_column_family_handle_t* column_family,
    const char* export_dir, char** errptr) {
  if (!Usable(errptr, Given{checkpoint, "checkpoint"},
              OwnFamily{column_family,
                        checkpoint != nullptr ? checkpoint->handle : nullptr},
              Given{export_dir, "export_dir"})) {
    return nullptr;
  }
  if (checkpoint->db == varve::capi::ClosedDb()) {
    SaveError(errptr, checkpoint->db->Close());
    return nullptr;
  }
  std::unique_ptr<varve::Checkpoint> exporter;
  varve::ExportImportFilesMetaData* exported = nullptr;
  Status status = varve::Checkpoint::Create(checkpoint->db, &exporter);
  if (status.ok()) {
    status = exporter->ExportColumnFamily(column_family->rep.get(), export_dir,
                                          &exported);
  }
  const std::unique_ptr<varve::ExportImportFilesMetaData> owner(exported);
  if (SaveError(errptr, status)) return nullptr;
  return new varve_export_import_files_metadata_t{std::move(*exported)};
}

varve_export_import_files_metadata_t* varve_export_import_files_metadata_create(
    void) {
  return new varve_export_import_files_metadata_t;
}

void varve_export_import_files_metadata_destroy(
    varve_export_import_files_metadata_t* metadata) {
  delete metadata;
}

char* varve_export_import_files_metadata_get_db_comparator_name(
    const varve_export_import_files_metadata_t* metadata) {
  return metadata != nullptr
             ? varve::capi::CopyBytes(metadata->rep.db_comparator_name)
             : nullptr;
}

void varve_export_import_files_metadata_set_db_comparator_name(
    varve_export_import_files_metadata_t* metadata, const char* name) {
  if (metadata == nullptr || name == nullptr) return;
  metadata->rep.db_comparator_name = name;
}

varve_livefiles_t* varve_export_import_files_metadata_get_files(
    const varve_export_import_files_metadata_t* metadata) {
  if (metadata == nullptr) return nullptr;
  return new varve_livefiles_t{metadata->rep.files};
}

void varve_export_import_files_metadata_set_files(
    varve_export_import_files_metadata_t* metadata,
    const varve_livefiles_t* files) {
  if (metadata == nullptr || files == nullptr) return;
  metadata->rep.files = files->tables;
}

varve_livefiles_t* varve_livefiles_create(void) {
  return new varve_livefiles_t;
}

void varve_livefiles_add(varve_livefiles_t* files,
                         const varve_livefile_t* file) {
  if (files != nullptr && file != nullptr) files->tables.push_back(file->rep);
}

varve_livefile_t* varve_livefile_create(void) { return new varve_livefile_t; }

void varve_livefile_destroy(varve_livefile_t* file) { delete file; }

void varve_livefile_set_column_family_name(varve_livefile_t* file,
                                           const char* column_family_name) {
  SetText(file, &LiveFileMetaData::column_family_name, column_family_name);
}

void varve_livefile_set_level(varve_livefile_t* file, int level) {
  Set(file, &LiveFileMetaData::level, level);
}

void varve_livefile_set_name(varve_livefile_t* file, const char* name) {
  SetText(file, &SstFileMetaData::name, name);
}

void varve_livefile_set_directory(varve_livefile_t* file,
                                  const char* directory) {
  SetText(file, &FileStorageInfo::directory, directory);
  SetText(file, &SstFileMetaData::db_path, directory);
}

void varve_livefile_set_size(varve_livefile_t* file, size_t size) {
  Set(file, &FileStorageInfo::size, size);
}

void varve_livefile_set_smallest_key(varve_livefile_t* file,
                                     const char* smallest_key,
                                     size_t smallest_key_len) {
  SetBytes(file, &SstFileMetaData::smallestkey,
           Bytes{smallest_key, smallest_key_len, "smallest_key"});
}

void varve_livefile_set_largest_key(varve_livefile_t* file,
                                    const char* largest_key,
                                    size_t largest_key_len) {
  SetBytes(file, &SstFileMetaData::largestkey,
           Bytes{largest_key, largest_key_len, "largest_key"});
}

void varve_livefile_set_smallest_seqno(varve_livefile_t* file,
                                       uint64_t smallest_seqno) {
  Set(file, &SstFileMetaData::smallest_seqno, smallest_seqno);
}

void varve_livefile_set_largest_seqno(varve_livefile_t* file,
                                      uint64_t largest_seqno) {
  Set(file, &SstFileMetaData::largest_seqno, largest_seqno);
}

void varve_livefile_set_num_entries(varve_livefile_t* file,
                                    uint64_t num_entries) {
  Set(file, &SstFileMetaData::num_entries, num_entries);
}

void varve_livefile_set_num_deletions(varve_livefile_t* file,
                                      uint64_t num_deletions) {
  Set(file, &SstFileMetaData::num_deletions, num_deletions);
}

}  // extern "C"
