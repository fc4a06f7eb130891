// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "varve/env.h"

namespace varve {

// A snapshot of a database's files, used to detect that another process writes
// to them. Two observations differ if an update or an edit of the MANIFEST was
// written in between. Files that cannot be read count as empty.
struct DirectoryObservation {
  std::string identity;  // Of IDENTITY; two databases have different ones.
  std::string current;   // Of CURRENT.
  uint64_t manifest_bytes = 0;
  uint32_t manifest_crc = 0;
  std::map<uint64_t, uint64_t> log_bytes;  // By number.
  size_t file_count = 0;                   // The database's files.

  bool operator==(const DirectoryObservation&) const = default;

  // Returns true if the other one is of the same database, with the same
  // CURRENT and MANIFEST.
  bool SameManifest(const DirectoryObservation& other) const;
  // Returns true if the other one has the same MANIFEST, and the same unchanged
  // logs from `first` up to, not including, `last`.
  bool SameUpTo(const DirectoryObservation& other, uint64_t first,
                uint64_t last) const;
};

DirectoryObservation ObserveDirectory(Env* env, const std::string& db_path);

}  // namespace varve
