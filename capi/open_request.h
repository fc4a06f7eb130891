// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Shared by the C functions that open a database.

#include <functional>
#include <string>
#include <vector>

#include "capi/handles.h"

namespace varve::capi {

// The arguments of varve_open_column_families.
struct OpenRequest {
  const varve_options_t* options;
  const char* name;
  int count;
  const char* const* names;
  const varve_options_t* const* family_options;
  varve_column_family_handle_t** handles;
};

// Opens a database, and stores it in db->owned.
using OpenFunction = std::function<Status(
    const DBOptions& options, const std::string& path,
    const std::vector<ColumnFamilyDescriptor>& families,
    std::vector<ColumnFamilyHandle*>* handles, varve_t* db)>;

// Opens a database with its default family only. Returns null after an error.
varve_t* OpenDefault(const varve_options_t* options, const char* name,
                     const OpenFunction& open, char** errptr);
// The same, with families.
varve_t* OpenFamilies(const OpenRequest& request, const OpenFunction& open,
                      char** errptr);

}  // namespace varve::capi
