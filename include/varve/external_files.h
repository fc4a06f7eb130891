// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Options and arguments of DB::IngestExternalFile and
// DB::CreateColumnFamilyWithImport. docs/ingestion.md

#include <string>
#include <vector>

#include "varve/export.h"

namespace varve {

class ColumnFamilyHandle;

// Options of an ingestion.
struct IngestExternalFileOptions {
  // Move the files by a hard link, and remove the original name afterwards.
  // Default: false, they are copied.
  bool move_files = false;
  // Use a hard link and keep the original name. Neither may be written to
  // afterwards. InvalidArgument with move_files. Default: false.
  bool link_files = false;
  // Copy where the file system cannot link. Default: true.
  bool failed_move_fall_back_to_copy = true;
  // Existing snapshots do not see the ingested keys. They never do with a
  // sequence number, so this only matters without allow_global_seqno. Default:
  // true.
  bool snapshot_consistency = true;
  // Allow the files a sequence number above 0. If false, returns
  // InvalidArgument if they need one: keys overlap, or a snapshot exists. Open
  // transactions then do not notice the keys. Default: true.
  bool allow_global_seqno = true;
  // Flush memtables whose keys overlap. If false, returns InvalidArgument for
  // such an overlap. Default: true.
  bool allow_blocking_flush = true;
  // The keys come below all that is there, in the last level, so existing
  // values of the same keys stay. Needs
  // ColumnFamilyOptions::allow_ingest_behind. Default: false.
  bool ingest_behind = false;
  // Ignored: the MANIFEST has the sequence number, where RocksDB has read it
  // since 5.16. Files are never written to. Default: false.
  bool write_global_seqno = false;
  // Read all blocks and verify their checksums first. Default: false; sizes,
  // properties and index are always checked.
  bool verify_checksums_before_ingest = false;
  // Ignored: blocks are read ahead as for VerifyChecksum. Default: 0.
  size_t verify_checksums_readahead_size = 0;
  // Return InvalidArgument if a key cannot go to the last level.
  // Default: false.
  bool fail_if_not_bottommost_level = false;
};

// The files for one family.
struct IngestExternalFileArg {
  ColumnFamilyHandle* column_family = nullptr;
  std::vector<std::string> external_files;
  IngestExternalFileOptions options;
};

// Options of DB::CreateColumnFamilyWithImport.
struct ImportColumnFamilyOptions {
  // Link the files and remove their names afterwards. Default: false, copy.
  bool move_files = false;
};

}  // namespace varve
