// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// The table files of all column families.

#include <string>
#include <vector>

#include "compat/rocksdb/db/families.h"
#include "compat/rocksdb/db/handles.h"
#include "compat/rocksdb/db/tables.h"

struct rocksdb_livefiles_t {
  std::string directory;
  std::vector<varve::rocksdb_c::TableFile> tables;
};

namespace varve::rocksdb_c {
namespace {

// Returns null if there is no such table.
const TableFile* At(const rocksdb_livefiles_t* files, int index) {
  if (files == nullptr || index < 0 ||
      static_cast<size_t>(index) >= files->tables.size()) {
    return nullptr;
  }
  return &files->tables[static_cast<size_t>(index)];
}

const char* Text(const TableFile* table, const std::string TableFile::*field) {
  return table != nullptr ? (table->*field).c_str() : nullptr;
}

const char* Key(const TableFile* table, const std::string TableFile::*field,
                size_t* size) {
  if (size != nullptr) *size = table != nullptr ? (table->*field).size() : 0;
  return table != nullptr ? (table->*field).data() : nullptr;
}

}  // namespace
}  // namespace varve::rocksdb_c

using varve::rocksdb_c::At;
using varve::rocksdb_c::Key;
using varve::rocksdb_c::TableFile;
using varve::rocksdb_c::Text;

extern "C" {

const rocksdb_livefiles_t* rocksdb_livefiles(rocksdb_t* db) {
  if (!varve::rocksdb_c::Open{db}.ok()) return nullptr;
  auto* const files = new rocksdb_livefiles_t{db->path, {}};
  for (const auto& family : varve::rocksdb_c::AllFamilies(db)) {
    for (TableFile& table : varve::rocksdb_c::TablesOf(
             db->db, family.get(),
             family != nullptr ? family->GetName()
                               : varve::kDefaultColumnFamilyName)) {
      table.name.insert(table.name.begin(), '/');
      files->tables.push_back(std::move(table));
    }
  }
  return files;
}

int rocksdb_livefiles_count(const rocksdb_livefiles_t* lf) {
  return lf != nullptr ? static_cast<int>(lf->tables.size()) : 0;
}

const char* rocksdb_livefiles_column_family_name(const rocksdb_livefiles_t* lf,
                                                 int index) {
  return Text(At(lf, index), &TableFile::family);
}

const char* rocksdb_livefiles_name(const rocksdb_livefiles_t* lf, int index) {
  return Text(At(lf, index), &TableFile::name);
}

const char* rocksdb_livefiles_directory(const rocksdb_livefiles_t* lf,
                                        int index) {
  return At(lf, index) != nullptr ? lf->directory.c_str() : nullptr;
}

int rocksdb_livefiles_level(const rocksdb_livefiles_t* lf, int index) {
  const TableFile* const table = At(lf, index);
  return table != nullptr ? table->level : 0;
}

size_t rocksdb_livefiles_size(const rocksdb_livefiles_t* lf, int index) {
  const TableFile* const table = At(lf, index);
  return table != nullptr ? table->bytes : 0;
}

const char* rocksdb_livefiles_smallestkey(const rocksdb_livefiles_t* lf,
                                          int index, size_t* size) {
  return Key(At(lf, index), &TableFile::smallest_key, size);
}

const char* rocksdb_livefiles_largestkey(const rocksdb_livefiles_t* lf,
                                         int index, size_t* size) {
  return Key(At(lf, index), &TableFile::largest_key, size);
}

void rocksdb_livefiles_destroy(const rocksdb_livefiles_t* lf) { delete lf; }

}  // extern "C"
