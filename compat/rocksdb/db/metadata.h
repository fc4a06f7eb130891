// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <fields.h>
#include <optional>
#include <string>

struct rocksdb_column_family_metadata_options_t
    : varve::rocksdb_c::ColumnFamilyMetadataOptionsFields {
  std::optional<std::string> start_key;
  std::optional<std::string> end_key;
};
