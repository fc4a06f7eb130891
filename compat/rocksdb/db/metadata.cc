// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// The tables of a column family, by level.
#include "compat/rocksdb/db/metadata.h"

#include <memory>
#include <utility>
#include <vector>

#include "compat/rocksdb/db/handles.h"
#include "varve/metadata.h"

namespace varve::rocksdb_c {
namespace {

// Levels and tables refer to the family's, which the program may destroy first.
using FamilyTablesPtr = std::shared_ptr<const ColumnFamilyMetaData>;

}  // namespace
}  // namespace varve::rocksdb_c

struct rocksdb_column_family_metadata_t {
  varve::rocksdb_c::FamilyTablesPtr rep;
};

struct rocksdb_level_metadata_t {
  varve::rocksdb_c::FamilyTablesPtr family;
  const varve::LevelMetaData* rep;
};

struct rocksdb_sst_file_metadata_t {
  varve::rocksdb_c::FamilyTablesPtr family;
  const varve::SstFileMetaData* rep;
};

namespace varve::rocksdb_c {
namespace {

using MetadataOptions = rocksdb_column_family_metadata_options_t;

// Returns whether the options let the table through.
bool IsWanted(const MetadataOptions& options, const Comparator& comparator,
              const SstFileMetaData& table) {
  if (options.start_key.has_value() &&
      comparator.Compare(table.largestkey, *options.start_key) < 0) {
    return false;
  }
  return !options.end_key.has_value() ||
         comparator.Compare(table.smallestkey, *options.end_key) <= 0;
}

// Leaves the wanted tables, and no level without one, as RocksDB does.
void Filter(const MetadataOptions& options, const Comparator& comparator,
            ColumnFamilyMetaData* family) {
  family->size = 0;
  family->file_count = 0;
  for (LevelMetaData& level : family->levels) {
    std::erase_if(level.files, [&](const SstFileMetaData& table) {
      return (options.level >= 0 && level.level != options.level) ||
             !IsWanted(options, comparator, table);
    });
    level.size = 0;
    for (const SstFileMetaData& table : level.files) level.size += table.size;
    family->size += level.size;
    family->file_count += level.files.size();
  }
  std::erase_if(family->levels,
                [](const LevelMetaData& level) { return level.files.empty(); });
}

// Describes a family; null is the default one. `options` may be null.
rocksdb_column_family_metadata_t* Describe(rocksdb_t* db,
                                           ColumnFamilyHandle* rep,
                                           const MetadataOptions* options) {
  auto family = std::make_shared<ColumnFamilyMetaData>();
  db->db->GetColumnFamilyMetaData(rep, family.get());
  if (options != nullptr) {
    const ColumnFamilyHandle* const handle =
        rep != nullptr ? rep : db->db->DefaultColumnFamily();
    Filter(*options, *handle->GetComparator(), family.get());
  }
  return new rocksdb_column_family_metadata_t{std::move(family)};
}

char* CopyKey(const rocksdb_sst_file_metadata_t* file,
              const std::string SstFileMetaData::*field, size_t* size) {
  if (size != nullptr) *size = 0;
  if (file == nullptr || size == nullptr) return nullptr;
  *size = (file->rep->*field).size();
  return CopyBytes(file->rep->*field);
}

// Sets a bound of the options. Null means that there is none.
void SetKey(MetadataOptions* options,
            std::optional<std::string> MetadataOptions::*field,
            const Bytes& key) {
  if (options == nullptr || !key.ok()) return;
  (options->*field).reset();
  if (key.data != nullptr) options->*field = key.slice().ToString();
}

const char* GetKey(const MetadataOptions* options,
                   const std::optional<std::string> MetadataOptions::*field,
                   size_t* size) {
  const bool is_set = options != nullptr && (options->*field).has_value();
  if (size != nullptr) *size = is_set ? (options->*field)->size() : 0;
  return is_set ? (options->*field)->data() : nullptr;
}

}  // namespace
}  // namespace varve::rocksdb_c

using varve::SstFileMetaData;
using varve::rocksdb_c::CopyBytes;
using varve::rocksdb_c::CopyKey;
using varve::rocksdb_c::Describe;
using varve::rocksdb_c::FamilyOf;
using varve::rocksdb_c::GetKey;
using varve::rocksdb_c::Open;
using varve::rocksdb_c::SetKey;

extern "C" {

// ---- Options ----------------------------------------------------------------

void rocksdb_column_family_metadata_options_set_start_key(
    rocksdb_column_family_metadata_options_t* options, const char* key,
    size_t key_len) {
  SetKey(options, &rocksdb_column_family_metadata_options_t::start_key,
         {key, key_len, "key"});
}

const char* rocksdb_column_family_metadata_options_get_start_key(
    const rocksdb_column_family_metadata_options_t* options, size_t* key_len) {
  return GetKey(options, &rocksdb_column_family_metadata_options_t::start_key,
                key_len);
}

void rocksdb_column_family_metadata_options_set_end_key(
    rocksdb_column_family_metadata_options_t* options, const char* key,
    size_t key_len) {
  SetKey(options, &rocksdb_column_family_metadata_options_t::end_key,
         {key, key_len, "key"});
}

const char* rocksdb_column_family_metadata_options_get_end_key(
    const rocksdb_column_family_metadata_options_t* options, size_t* key_len) {
  return GetKey(options, &rocksdb_column_family_metadata_options_t::end_key,
                key_len);
}

// ---- Families ---------------------------------------------------------------

rocksdb_column_family_metadata_t* rocksdb_get_column_family_metadata(
    rocksdb_t* db) {
  if (!Open{db}.ok()) return nullptr;
  return Describe(db, nullptr, nullptr);
}

rocksdb_column_family_metadata_t* rocksdb_get_column_family_metadata_cf(
    rocksdb_t* db, rocksdb_column_family_handle_t* column_family) {
  if (!Open{db}.ok() || !FamilyOf{column_family, db}.ok()) return nullptr;
  return Describe(db, column_family->rep.get(), nullptr);
}

rocksdb_column_family_metadata_t*
rocksdb_get_column_family_metadata_with_options(
    rocksdb_t* db, const rocksdb_column_family_metadata_options_t* options) {
  if (!Open{db}.ok() || options == nullptr) return nullptr;
  return Describe(db, nullptr, options);
}

rocksdb_column_family_metadata_t*
rocksdb_get_column_family_metadata_cf_with_options(
    rocksdb_t* db, rocksdb_column_family_handle_t* column_family,
    const rocksdb_column_family_metadata_options_t* options) {
  if (!Open{db}.ok() || !FamilyOf{column_family, db}.ok() ||
      options == nullptr) {
    return nullptr;
  }
  return Describe(db, column_family->rep.get(), options);
}

void rocksdb_column_family_metadata_destroy(
    rocksdb_column_family_metadata_t* cf_meta) {
  delete cf_meta;
}

uint64_t rocksdb_column_family_metadata_get_size(
    rocksdb_column_family_metadata_t* cf_meta) {
  return cf_meta != nullptr ? cf_meta->rep->size : 0;
}

size_t rocksdb_column_family_metadata_get_file_count(
    rocksdb_column_family_metadata_t* cf_meta) {
  return cf_meta != nullptr ? cf_meta->rep->file_count : 0;
}

char* rocksdb_column_family_metadata_get_name(
    rocksdb_column_family_metadata_t* cf_meta) {
  return cf_meta != nullptr ? CopyBytes(cf_meta->rep->name) : nullptr;
}

size_t rocksdb_column_family_metadata_get_level_count(
    rocksdb_column_family_metadata_t* cf_meta) {
  return cf_meta != nullptr ? cf_meta->rep->levels.size() : 0;
}

rocksdb_level_metadata_t* rocksdb_column_family_metadata_get_level_metadata(
    rocksdb_column_family_metadata_t* cf_meta, size_t i) {
  if (cf_meta == nullptr || i >= cf_meta->rep->levels.size()) return nullptr;
  return new rocksdb_level_metadata_t{cf_meta->rep, &cf_meta->rep->levels[i]};
}

// ---- Levels -----------------------------------------------------------------

void rocksdb_level_metadata_destroy(rocksdb_level_metadata_t* level_meta) {
  delete level_meta;
}

int rocksdb_level_metadata_get_level(rocksdb_level_metadata_t* level_meta) {
  return level_meta != nullptr ? level_meta->rep->level : 0;
}

uint64_t rocksdb_level_metadata_get_size(rocksdb_level_metadata_t* level_meta) {
  return level_meta != nullptr ? level_meta->rep->size : 0;
}

size_t rocksdb_level_metadata_get_file_count(
    rocksdb_level_metadata_t* level_meta) {
  return level_meta != nullptr ? level_meta->rep->files.size() : 0;
}

rocksdb_sst_file_metadata_t* rocksdb_level_metadata_get_sst_file_metadata(
    rocksdb_level_metadata_t* level_meta, size_t i) {
  if (level_meta == nullptr || i >= level_meta->rep->files.size()) {
    return nullptr;
  }
  return new rocksdb_sst_file_metadata_t{level_meta->family,
                                         &level_meta->rep->files[i]};
}

// ---- Tables -----------------------------------------------------------------

void rocksdb_sst_file_metadata_destroy(rocksdb_sst_file_metadata_t* file_meta) {
  delete file_meta;
}

char* rocksdb_sst_file_metadata_get_relative_filename(
    rocksdb_sst_file_metadata_t* file_meta) {
  return file_meta != nullptr ? CopyBytes(file_meta->rep->relative_filename)
                              : nullptr;
}

char* rocksdb_sst_file_metadata_get_directory(
    rocksdb_sst_file_metadata_t* file_meta) {
  return file_meta != nullptr ? CopyBytes(file_meta->rep->directory) : nullptr;
}

uint64_t rocksdb_sst_file_metadata_get_size(
    rocksdb_sst_file_metadata_t* file_meta) {
  return file_meta != nullptr ? file_meta->rep->size : 0;
}

char* rocksdb_sst_file_metadata_get_smallestkey(
    rocksdb_sst_file_metadata_t* file_meta, size_t* len) {
  return CopyKey(file_meta, &SstFileMetaData::smallestkey, len);
}

char* rocksdb_sst_file_metadata_get_largestkey(
    rocksdb_sst_file_metadata_t* file_meta, size_t* len) {
  return CopyKey(file_meta, &SstFileMetaData::largestkey, len);
}

}  // extern "C"
