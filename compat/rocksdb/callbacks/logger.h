// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <memory>

#include "varve/env.h"

// Options that get it share `rep`.
struct rocksdb_logger_t {
  std::shared_ptr<varve::Logger> rep;
};
