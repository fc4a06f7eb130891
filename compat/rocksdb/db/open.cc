// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Opening and closing databases, and calls for databases that are not open.
#include "compat/rocksdb/db/open.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "compat/rocksdb/db/error_texts.h"
#include "compat/rocksdb/db/families.h"
#include "compat/rocksdb/db/handles.h"
#include "compat/rocksdb/db/lifetime.h"
#include "compat/rocksdb/options/log.h"
#include "compat/rocksdb/options/options.h"
#include "compat/shared/observer.h"
#include "compat/shared/settings.h"

namespace varve::rocksdb_c {
namespace {

// A database with the environment that it uses.
struct Database {
  std::shared_ptr<Env> env;  // Null: the operating system's.
  std::unique_ptr<DB> db;
};

// Returns an error if the directory has a log that is not empty.
Status CheckNoLog(Env* env, const std::string& path) {
  std::vector<std::string> names;
  Status status = env->GetChildren(path, &names);
  for (const std::string& name : names) {
    if (!name.ends_with(".log")) continue;
    uint64_t bytes = 0;
    if (status.ok()) status = env->GetFileSize(path + "/" + name, &bytes);
    if (bytes == 0) continue;
    return Status::Corruption(
        "error_if_wal_file_exists is set, and there is a log", name);
  }
  return status;
}

// Opens a database. Stores its handle in *db and one for each family in
// *handles.
Status OpenDatabase(const rocksdb_options_t& options, const std::string& path,
                    const Families& families, const OpenManner& manner,
                    std::vector<ColumnFamilyHandle*>* handles,
                    std::unique_ptr<rocksdb_t>* db) {
  const Mode mode = manner.mode;
  const bool read_only = mode != Mode::kReadWrite;
  const std::string log_path =
      mode == Mode::kSecondary ? manner.log_path : path;
  DBOptions converted;
  Status status = Convert(options, path, &converted);
  if (!status.ok()) return status;
  std::vector<ColumnFamilyDescriptor> descriptors;
  status = Describe(families.names, families.options, families.count, path,
                    &descriptors);
  if (!status.ok()) return status;
  status = compat::Settings::Get().Apply(&converted, &descriptors);
  if (!status.ok()) return status;
  Env* const env = EnvOf(options);
  if (mode == Mode::kReadOnlyWithoutLog) {
    status = CheckNoLog(env, path);
    if (!status.ok()) return status;
  }
  if (mode == Mode::kSecondary) {
    status = env->CreateDirIfMissing(log_path);
    if (!status.ok()) return status;
  }
  converted.info_log =
      NewDatabaseLog(options, log_path, read_only && log_path == path);
  const auto database = std::make_shared<Database>();
  database->env = options.env;
  auto handle = std::make_unique<rocksdb_t>();
  if (mode == Mode::kSecondary) {
    // It has its info log.
    status = DB::OpenAsSecondary(converted, path, /*secondary_path=*/"",
                                 descriptors, handles, &database->db);
  } else if (read_only) {
    status = DB::OpenForReadOnly(converted, path, descriptors, handles,
                                 &database->db);
  } else if (manner.open != nullptr) {
    status = manner.open(converted, path, descriptors, handles, &database->db,
                         handle.get());
  } else {
    status = DB::Open(converted, path, descriptors, handles, &database->db);
  }
  if (!status.ok()) return status;
  handle->db = database->db.get();
  handle->owned = std::shared_ptr<DB>(database, handle->db);
  handle->log = converted.info_log;
  handle->path = path;
  handle->env = env;
  handle->is_read_only = read_only;
  handle->prefix_seek_opt_in_only = options.prefix_seek_opt_in_only != 0;
  LogDatabaseOptions(options, handle->log.get());
  for (int i = 0; i < families.count; ++i) {
    LogFamilyOptions(*families.options[i], families.names[i],
                     handle->log.get());
  }
  *db = std::move(handle);
  return status;
}

// Gives the handle to the program.
rocksdb_t* Publish(std::unique_ptr<rocksdb_t> db) {
  AddHandle(db.get());
  compat::Observer::Add(db->db, db->path);
  return db.release();
}

}  // namespace

rocksdb_t* OpenDefault(const rocksdb_options_t* options, const char* name,
                       const OpenManner& manner, char** errptr) {
  if (!Usable(errptr, Given{options, "options"}, Given{name, "name"},
              Given{manner.log_path, "secondary_path"})) {
    return nullptr;
  }
  const char* const family = kDefaultColumnFamilyName;
  std::vector<ColumnFamilyHandle*> handles;
  std::unique_ptr<rocksdb_t> db;
  const Status status = OpenDatabase(*options, name, {&family, &options, 1},
                                     manner, &handles, &db);
  if (Failed(errptr, OpenError(status, name))) return nullptr;
  db->default_family.reset(handles.front());
  return Publish(std::move(db));
}

rocksdb_t* OpenFamilies(const rocksdb_options_t* options, const char* name,
                        const Families& families, const OpenManner& manner,
                        rocksdb_column_family_handle_t** handles,
                        char** errptr) {
  if (!Usable(errptr, Given{options, "options"}, Given{name, "name"},
              ArrayOf<const char*>{families.names, families.count,
                                   "column_family_names"},
              ArrayOf<const rocksdb_options_t*>{
                  families.options, families.count, "column_family_options"},
              Given{handles, "column_family_handles"},
              Given{manner.log_path, "secondary_path"})) {
    return nullptr;
  }
  std::vector<ColumnFamilyHandle*> opened;
  std::unique_ptr<rocksdb_t> db;
  const Status status =
      OpenDatabase(*options, name, families, manner, &opened, &db);
  if (Failed(errptr, OpenError(status, name))) return nullptr;
  for (int i = 0; i < families.count; ++i) {
    handles[i] = NewFamily(db.get(), opened[static_cast<size_t>(i)]);
  }
  return Publish(std::move(db));
}

}  // namespace varve::rocksdb_c

using varve::Status;
using varve::rocksdb_c::Convert;
using varve::rocksdb_c::CopyBytes;
using varve::rocksdb_c::Failed;
using varve::rocksdb_c::Given;
using varve::rocksdb_c::Mode;
using varve::rocksdb_c::OpenError;
using varve::rocksdb_c::Usable;

extern "C" {

rocksdb_t* rocksdb_open(const rocksdb_options_t* options, const char* name,
                        char** errptr) {
  return varve::rocksdb_c::OpenDefault(options, name, {}, errptr);
}

// RocksDB ignores the flag, too, for a database without further families.
rocksdb_t* rocksdb_open_for_read_only(
    const rocksdb_options_t* options, const char* name,
    unsigned char /*error_if_wal_file_exists*/, char** errptr) {
  return varve::rocksdb_c::OpenDefault(options, name, {Mode::kReadOnly},
                                       errptr);
}

rocksdb_t* rocksdb_open_column_families(
    const rocksdb_options_t* options, const char* name, int num_column_families,
    const char* const* column_family_names,
    const rocksdb_options_t* const* column_family_options,
    rocksdb_column_family_handle_t** column_family_handles, char** errptr) {
  return varve::rocksdb_c::OpenFamilies(
      options, name,
      {column_family_names, column_family_options, num_column_families}, {},
      column_family_handles, errptr);
}

rocksdb_t* rocksdb_open_for_read_only_column_families(
    const rocksdb_options_t* options, const char* name, int num_column_families,
    const char* const* column_family_names,
    const rocksdb_options_t* const* column_family_options,
    rocksdb_column_family_handle_t** column_family_handles,
    unsigned char error_if_wal_file_exists, char** errptr) {
  return varve::rocksdb_c::OpenFamilies(
      options, name,
      {column_family_names, column_family_options, num_column_families},
      {error_if_wal_file_exists != 0 ? Mode::kReadOnlyWithoutLog
                                     : Mode::kReadOnly},
      column_family_handles, errptr);
}

rocksdb_t* rocksdb_open_as_secondary(const rocksdb_options_t* options,
                                     const char* name,
                                     const char* secondary_path,
                                     char** errptr) {
  return varve::rocksdb_c::OpenDefault(
      options, name, {Mode::kSecondary, secondary_path}, errptr);
}

rocksdb_t* rocksdb_open_as_secondary_column_families(
    const rocksdb_options_t* options, const char* name,
    const char* secondary_path, int num_column_families,
    const char* const* column_family_names,
    const rocksdb_options_t* const* column_family_options,
    rocksdb_column_family_handle_t** column_family_handles, char** errptr) {
  return varve::rocksdb_c::OpenFamilies(
      options, name,
      {column_family_names, column_family_options, num_column_families},
      {Mode::kSecondary, secondary_path}, column_family_handles, errptr);
}

void rocksdb_try_catch_up_with_primary(rocksdb_t* db, char** errptr) {
  if (!Usable(errptr, varve::rocksdb_c::Open{db})) return;
  Failed(errptr, OpenError(db->db->TryCatchUpWithPrimary(), db->path));
}

void rocksdb_close(rocksdb_t* db) {
  if (db != nullptr) varve::rocksdb_c::CloseHandle(db);
}

char** rocksdb_list_column_families(const rocksdb_options_t* options,
                                    const char* name, size_t* lencf,
                                    char** errptr) {
  if (lencf != nullptr) *lencf = 0;
  if (!Usable(errptr, Given{options, "options"}, Given{name, "name"},
              Given{lencf, "lencf"})) {
    return nullptr;
  }
  varve::DBOptions converted;
  Status status = Convert(*options, name, &converted);
  std::vector<std::string> names;
  if (status.ok()) {
    status = varve::DB::ListColumnFamilies(converted, name, &names);
  }
  if (Failed(errptr, OpenError(status, name))) return nullptr;
  auto** const list =
      static_cast<char**>(malloc((names.size() + 1) * sizeof(char*)));
  for (size_t i = 0; i < names.size(); ++i) list[i] = CopyBytes(names[i]);
  *lencf = names.size();
  return list;
}

void rocksdb_list_column_families_destroy(char** list, size_t len) {
  if (list == nullptr) return;
  for (size_t i = 0; i < len; ++i) free(list[i]);
  free(list);
}

void rocksdb_destroy_db(const rocksdb_options_t* options, const char* name,
                        char** errptr) {
  if (!Usable(errptr, Given{options, "options"}, Given{name, "name"})) return;
  varve::Options converted;
  Status status = Convert(*options, name, &converted);
  if (status.ok()) status = varve::DestroyDB(name, converted);
  Failed(errptr, OpenError(status, name));
}

void rocksdb_repair_db(const rocksdb_options_t* options, const char* name,
                       char** errptr) {
  if (!Usable(errptr, Given{options, "options"}, Given{name, "name"})) return;
  varve::Options converted;
  Status status = Convert(*options, name, &converted);
  if (status.ok()) status = varve::RepairDB(name, converted);
  Failed(errptr, OpenError(status, name));
}

}  // extern "C"
