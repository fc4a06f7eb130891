// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Functions of varve/c_extensions.h for options as text, and of open databases.

#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "capi/arguments.h"
#include "capi/handles.h"
#include "capi/requests.h"
#include "varve/c_extensions.h"
#include "varve/convert.h"

using varve::ColumnFamilyDescriptor;
using varve::ConfigOptions;
using varve::DBOptions;
using varve::Options;
using varve::Status;
using varve::capi::CopyBytes;
using varve::capi::Given;
using varve::capi::SaveError;
using varve::capi::Usable;

extern "C" {

void varve_set_db_options(varve_t* db, int count, const char* const keys[],
                          const char* const values[], char** errptr) {
  if (!Usable(errptr, Given{db, "db"})) return;
  std::map<std::string, std::string> changes;
  Status status = varve::capi::ToChanges(count, keys, values, &changes);
  if (status.ok()) status = db->db->SetDBOptions(changes);
  SaveError(errptr, status);
}

void varve_get_options_from_string(const varve_options_t* base_options,
                                   const char* text,
                                   varve_options_t* new_options,
                                   char** errptr) {
  if (!Usable(errptr, Given{base_options, "base_options"}, Given{text, "text"},
              Given{new_options, "new_options"})) {
    return;
  }
  Options options = base_options->rep;
  options.filter_policy = nullptr;
  const Status status =
      GetOptionsFromString(ConfigOptions(), options, text, &options);
  if (SaveError(errptr, status)) return;
  // The text may have one of its own.
  const varve_filterpolicy_t* const policy =
      options.filter_policy == nullptr ? base_options->filter_policy : nullptr;
  if (options.filter_policy == nullptr) {
    options.filter_policy = base_options->rep.filter_policy;
  }
  new_options->rep = options;
  new_options->filter_policy = policy;
}

void varve_load_latest_options(const char* db_path,
                               varve_options_t** db_options,
                               size_t* num_column_families,
                               char*** column_family_names,
                               varve_options_t*** column_family_options,
                               char** errptr) {
  if (!Usable(errptr, Given{db_path, "db_path"},
              Given{db_options, "db_options"},
              Given{num_column_families, "num_column_families"},
              Given{column_family_names, "column_family_names"},
              Given{column_family_options, "column_family_options"})) {
    return;
  }
  *db_options = nullptr;
  *num_column_families = 0;
  *column_family_names = nullptr;
  *column_family_options = nullptr;
  DBOptions database;
  std::vector<ColumnFamilyDescriptor> families;
  if (SaveError(errptr, LoadLatestOptions(ConfigOptions(), db_path, &database,
                                          &families))) {
    return;
  }
  auto** const names =
      static_cast<char**>(calloc(families.size(), sizeof(char*)));
  auto** const options = static_cast<varve_options_t**>(
      calloc(families.size(), sizeof(varve_options_t*)));
  if (names == nullptr || options == nullptr) {
    free(names);
    free(options);
    SaveError(errptr, Status::Aborted("no memory for the options"));
    return;
  }
  for (size_t i = 0; i < families.size(); ++i) {
    names[i] = CopyBytes(families[i].name);
    options[i] = new varve_options_t{Options(database, families[i].options)};
  }
  *db_options = new varve_options_t{Options(database, families[0].options)};
  *num_column_families = families.size();
  *column_family_names = names;
  *column_family_options = options;
}

void varve_load_latest_options_destroy(varve_options_t* db_options,
                                       char** list_column_family_names,
                                       varve_options_t** list_options,
                                       size_t len) {
  delete db_options;
  for (size_t i = 0; i < len; ++i) {
    if (list_column_family_names != nullptr) free(list_column_family_names[i]);
    if (list_options != nullptr) delete list_options[i];
  }
  free(list_column_family_names);
  free(list_options);
}

}  // extern "C"
