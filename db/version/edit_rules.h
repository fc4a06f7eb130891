// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The rules that an edit of the MANIFEST keeps, beside those of VersionEdit's
// encoding and of VersionBuilder. The reader refuses a MANIFEST that breaks
// one. So the writer does not write such an edit.

#include <cstddef>
#include <string>

#include "db/version/version_edit.h"
#include "varve/status.h"

namespace varve {

// The most live column families. A bound for damaged MANIFESTs, which creation
// obeys too. RocksDB becomes unusable with far fewer.
inline constexpr size_t kMaxFamilies = size_t{1} << 16;

// At least this many updates must be possible in a writable database.
inline constexpr SequenceNumber kSpareSequences = uint64_t{1} << 40;

// The live families before an edit.
struct FamiliesOfEdit {
  // A family has the edit's id.
  bool has_id;
  // A family has the name that the edit adds.
  bool has_name;
  size_t count;
};

// Returns Corruption, or NotSupported for too many families, if the edit is not
// of a live family, adds one that exists, or drops the default one.
Status CheckFamilyOf(const VersionEdit& edit, const FamiliesOfEdit& live);

// Returns the largest file number in the edit.
uint64_t LargestFileNumber(const VersionEdit& edit);

// Return Corruption if nothing can have that file number, or that id of a
// column family.
Status CheckFileNumber(uint64_t number);
Status CheckFamilyId(uint32_t id);

}  // namespace varve
