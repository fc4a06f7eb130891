// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// The table files of all column families.
#include "compat/rocksdb/db/live_files.h"

#include <string>

#include "compat/rocksdb/db/handles.h"

namespace varve::rocksdb_c {
namespace {

// Returns null if there is no such table.
const LiveFileMetaData* At(const rocksdb_livefiles_t* files, int index) {
  if (files == nullptr || index < 0 ||
      static_cast<size_t>(index) >= files->tables.size()) {
    return nullptr;
  }
  return &files->tables[static_cast<size_t>(index)];
}

template <typename Part>
const char* Text(const LiveFileMetaData* table,
                 const std::string Part::*field) {
  return table != nullptr ? (table->*field).c_str() : nullptr;
}

template <typename Part>
uint64_t Number(const LiveFileMetaData* table, const uint64_t Part::*field) {
  return table != nullptr ? table->*field : 0;
}

const char* Key(const LiveFileMetaData* table,
                const std::string SstFileMetaData::*field, size_t* size) {
  if (size != nullptr) *size = table != nullptr ? (table->*field).size() : 0;
  return table != nullptr ? (table->*field).data() : nullptr;
}

}  // namespace
}  // namespace varve::rocksdb_c

using varve::LiveFileMetaData;
using varve::SstFileMetaData;
using varve::rocksdb_c::At;
using varve::rocksdb_c::Key;
using varve::rocksdb_c::Number;
using varve::rocksdb_c::Text;

extern "C" {

const rocksdb_livefiles_t* rocksdb_livefiles(rocksdb_t* db) {
  if (!varve::rocksdb_c::Open{db}.ok()) return nullptr;
  auto* const files = new rocksdb_livefiles_t;
  db->db->GetLiveFilesMetaData(&files->tables);
  return files;
}

int rocksdb_livefiles_count(const rocksdb_livefiles_t* lf) {
  return lf != nullptr ? static_cast<int>(lf->tables.size()) : 0;
}

const char* rocksdb_livefiles_column_family_name(const rocksdb_livefiles_t* lf,
                                                 int index) {
  return Text(At(lf, index), &LiveFileMetaData::column_family_name);
}

const char* rocksdb_livefiles_name(const rocksdb_livefiles_t* lf, int index) {
  return Text(At(lf, index), &SstFileMetaData::name);
}

const char* rocksdb_livefiles_directory(const rocksdb_livefiles_t* lf,
                                        int index) {
  return Text(At(lf, index), &varve::FileStorageInfo::directory);
}

int rocksdb_livefiles_level(const rocksdb_livefiles_t* lf, int index) {
  const LiveFileMetaData* const table = At(lf, index);
  return table != nullptr ? table->level : 0;
}

size_t rocksdb_livefiles_size(const rocksdb_livefiles_t* lf, int index) {
  return Number(At(lf, index), &varve::FileStorageInfo::size);
}

const char* rocksdb_livefiles_smallestkey(const rocksdb_livefiles_t* lf,
                                          int index, size_t* size) {
  return Key(At(lf, index), &SstFileMetaData::smallestkey, size);
}

const char* rocksdb_livefiles_largestkey(const rocksdb_livefiles_t* lf,
                                         int index, size_t* size) {
  return Key(At(lf, index), &SstFileMetaData::largestkey, size);
}

uint64_t rocksdb_livefiles_smallest_seqno(const rocksdb_livefiles_t* lf,
                                          int index) {
  return Number(At(lf, index), &SstFileMetaData::smallest_seqno);
}

uint64_t rocksdb_livefiles_largest_seqno(const rocksdb_livefiles_t* lf,
                                         int index) {
  return Number(At(lf, index), &SstFileMetaData::largest_seqno);
}

uint64_t rocksdb_livefiles_entries(const rocksdb_livefiles_t* lf, int index) {
  return Number(At(lf, index), &SstFileMetaData::num_entries);
}

uint64_t rocksdb_livefiles_deletions(const rocksdb_livefiles_t* lf, int index) {
  return Number(At(lf, index), &SstFileMetaData::num_deletions);
}

void rocksdb_livefiles_destroy(const rocksdb_livefiles_t* lf) { delete lf; }

}  // extern "C"
