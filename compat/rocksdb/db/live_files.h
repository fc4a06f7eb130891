// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <rocksdb/c.h>

#include <vector>

#include "varve/metadata.h"

// Tables, of a database or to be imported.
struct rocksdb_livefiles_t {
  std::vector<varve::LiveFileMetaData> tables;
};
