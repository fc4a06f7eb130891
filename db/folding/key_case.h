// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Options::key_case of a database: how the MANIFEST records it, and what open
// and repair check. What callers hand over is folded by
// db/folding/folding_db.h, above the engine.

#include <string>

#include "util/bytes/key_fold.h"
#include "varve/options.h"
#include "varve/status.h"

namespace varve {

KeyFolding KeyFoldingOf(const Options& options);

// How a MANIFEST names the folding; empty for kSensitive.
std::string KeyFoldingName(KeyCase key_case);

// InvalidArgument if a database whose MANIFEST has that name cannot be opened
// with options.key_case; NotSupported if the name is unknown.
Status CheckKeyFolding(const std::string& recorded, const Options& options);

// InvalidArgument if the key was not folded when it was stored.
Status CheckIsFolded(const Slice& key, KeyFolding folding);

// What is returned for a key that cannot be folded.
[[gnu::cold]] Status UnfoldableKey(const Slice& key);

}  // namespace varve
