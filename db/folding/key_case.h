// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Options::key_case in the engine: how the MANIFEST records it, and how what
// callers hand over is folded (util/bytes/key_fold.h). Below db/ nobody knows
// of it: the keys of memtables, logs and tables are folded already.

#include <memory>
#include <string>

#include "util/bytes/key_fold.h"
#include "varve/db.h"
#include "varve/options.h"
#include "varve/status.h"
#include "varve/write_batch.h"

namespace varve {

KeyFolding KeyFoldingOf(const Options& options);

// How a MANIFEST names the folding; empty for kSensitive.
std::string KeyFoldingName(KeyCase key_case);

// InvalidArgument if a database whose MANIFEST has that name cannot be opened
// with options.key_case; NotSupported if the name is unknown.
Status CheckKeyFolding(const std::string& recorded, const Options& options);

// InvalidArgument if the stored key is not as the folding leaves keys.
Status CheckIsFolded(const Slice& key, KeyFolding folding);

// What is returned for a key that cannot be folded.
[[gnu::cold]] Status UnfoldableKey(const Slice& key);

// Adds the updates of `batch` with folded keys to *folded; notes for the log
// stay as they are. InvalidArgument names the first key that is not UTF-8, or
// what is damaged.
Status FoldBatch(const WriteBatch& batch, KeyFolding folding,
                 WriteBatch* folded);

// Two bounds, each perhaps absent, of which folded copies are kept.
class FoldedBounds {
 public:
  FoldedBounds() = default;
  FoldedBounds(const FoldedBounds&) = delete;
  FoldedBounds& operator=(const FoldedBounds&) = delete;

  // Makes *lower and *upper point to the folded copies, if they are not null.
  // With kNone they stay as they are.
  Status Fold(KeyFolding folding, const Slice** lower, const Slice** upper);

 private:
  struct Bound {
    std::string text;
    Slice slice;
  };
  static Status FoldOne(KeyFolding folding, const Slice** bound, Bound* copy);

  Bound lower_;
  Bound upper_;
};

}  // namespace varve
