// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Options::key_case of a database: how the MANIFEST records it, and the checks
// of open and repair. db/folding/folding_db.h folds the caller's keys, above
// the engine.

#include <string>

#include "util/bytes/key_fold.h"
#include "varve/options.h"
#include "varve/status.h"

namespace varve {

KeyFolding KeyFoldingOf(const Options& options);

// Returns the folding's name in a MANIFEST, which is empty for kSensitive.
std::string KeyFoldingName(KeyCase key_case);

// Returns InvalidArgument if a database whose MANIFEST has that name cannot be
// opened with options.key_case. Returns NotSupported if the name is unknown.
Status CheckKeyFolding(const std::string& recorded, const Options& options);

// Returns InvalidArgument if the key was not folded when it was stored.
Status CheckIsFolded(const Slice& key, KeyFolding folding);

// Returns the error for a key that cannot be folded.
[[gnu::cold]] Status UnfoldableKey(const Slice& key);

}  // namespace varve
