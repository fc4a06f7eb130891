// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <rocksdb/c.h>

#include "varve/table_properties.h"

// Properties of a table, for the duration of a call of a listener.
struct rocksdb_table_properties_t {
  const varve::TableProperties& rep;
};
