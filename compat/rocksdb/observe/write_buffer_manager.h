// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <memory>

#include "varve/write_buffer_manager.h"

// Options that get it share `rep`.
struct rocksdb_write_buffer_manager_t {
  std::shared_ptr<varve::WriteBufferManager> rep;
};
