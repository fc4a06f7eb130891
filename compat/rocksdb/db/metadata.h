// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <optional>
#include <string>

#include "fields.h"

struct rocksdb_column_family_metadata_options_t
    : varve::rocksdb_c::ColumnFamilyMetadataOptionsFields {
  std::optional<std::string> start_key;
  std::optional<std::string> end_key;
};
