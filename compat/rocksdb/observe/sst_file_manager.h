// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <memory>

#include "varve/env.h"
#include "varve/sst_file_manager.h"

// Options that get it share `rep`.
struct rocksdb_sst_file_manager_t {
  std::shared_ptr<varve::Env> env;  // Null: the operating system's.
  std::shared_ptr<varve::SstFileManager> rep;
};
