// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// C functions of reads with limits, and of databases whose entries expire.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "capi/arguments.h"
#include "capi/handles.h"
#include "capi/open_request.h"
#include "varve/db_ttl.h"

using varve::ReadOptions;
using varve::ReadTier;
using varve::Status;
using varve::capi::Bytes;
using varve::capi::Given;
using varve::capi::OwnFamily;
using varve::capi::SaveError;
using varve::capi::Set;
using varve::capi::ToSlice;
using varve::capi::Usable;

namespace {

varve::capi::OpenFunction OpenWithTtl(const std::vector<int32_t>& ttls) {
  return [ttls](const varve::DBOptions& options, const std::string& path,
                const std::vector<varve::ColumnFamilyDescriptor>& families,
                std::vector<varve::ColumnFamilyHandle*>* handles, varve_t* db) {
    std::unique_ptr<varve::DBWithTTL> opened;
    Status status =
        varve::DBWithTTL::Open(options, path, families, handles, &opened, ttls);
    db->owned = std::move(opened);
    return status;
  };
}

}  // namespace

extern "C" {

void varve_readoptions_set_read_tier(varve_readoptions_t* options, int tier) {
  if (tier < varve_read_all_tier || tier > varve_persisted_tier) return;
  Set(options, &ReadOptions::read_tier, static_cast<ReadTier>(tier));
}

void varve_readoptions_set_deadline(varve_readoptions_t* options,
                                    uint64_t microseconds) {
  Set(options, &ReadOptions::deadline, microseconds);
}

void varve_readoptions_set_max_skippable_internal_keys(
    varve_readoptions_t* options, uint64_t count) {
  Set(options, &ReadOptions::max_skippable_internal_keys, count);
}

void varve_readoptions_set_tailing(varve_readoptions_t* options, uint8_t on) {
  Set(options, &ReadOptions::tailing, on != 0);
}

uint8_t varve_key_may_exist(varve_t* db, const varve_readoptions_t* options,
                            varve_column_family_handle_t* column_family,
                            const char* key, size_t keylen, char** value,
                            size_t* vallen) {
  if (value != nullptr) *value = nullptr;
  if (vallen != nullptr) *vallen = 0;
  if (!Usable(nullptr, Given{db, "db"}, Given{options, "options"},
              Bytes{key, keylen, "key"}) ||
      (column_family != nullptr &&
       !Usable(nullptr, OwnFamily{column_family, db}))) {
    return 0;
  }
  std::string found;
  bool is_found = false;
  const bool may_exist = db->db->KeyMayExist(
      options->rep,
      column_family != nullptr ? column_family->rep.get() : nullptr,
      ToSlice(key, keylen), &found, &is_found);
  if (is_found && value != nullptr && vallen != nullptr) {
    *value = varve::capi::CopyBytes(found);
    if (*value != nullptr) *vallen = found.size();
  }
  return may_exist ? 1 : 0;
}

void varve_iter_refresh(varve_iterator_t* iterator, char** errptr) {
  if (!Usable(errptr, Given{iterator, "iterator"})) return;
  SaveError(errptr, iterator->rep->Refresh());
}

varve_t* varve_open_with_ttl(const varve_options_t* options, const char* name,
                             int ttl, char** errptr) {
  return varve::capi::OpenDefault(options, name, OpenWithTtl({ttl}), errptr);
}

varve_t* varve_open_column_families_with_ttl(
    const varve_options_t* options, const char* name, int num_column_families,
    const char* const* column_family_names,
    const varve_options_t* const* column_family_options,
    varve_column_family_handle_t** column_family_handles, const int* ttls,
    char** errptr) {
  if (!Usable(errptr, Given{ttls, "ttls"})) return nullptr;
  return varve::capi::OpenFamilies(
      {options, name, num_column_families, column_family_names,
       column_family_options, column_family_handles},
      OpenWithTtl({ttls, ttls + std::max(num_column_families, 0)}), errptr);
}

}  // extern "C"
