// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "db/version/version.h"
#include "varve/env.h"
#include "varve/status.h"

namespace varve {

// The files that are a database at some moment. They must stay in place until
// the checkpoint is built; logs and the MANIFEST may grow.
struct CheckpointCut {
  // With a reference, or null.
  Version* version = nullptr;
  uint64_t manifest_number = 0;
  uint64_t manifest_size = 0;
  std::vector<std::pair<uint64_t, uint64_t>> wals;  // Numbers and sizes.
};

// Makes a database's directory out of another's files: whole and safe on the
// device under its name, or not at all.
// Thread-safety: owned by one thread at a time.
class CheckpointBuilder {
 public:
  // From the directory `source`, to `target`.
  CheckpointBuilder(Env* env, std::string source, const std::string& target);
  CheckpointBuilder(const CheckpointBuilder&) = delete;
  CheckpointBuilder& operator=(const CheckpointBuilder&) = delete;

  // Looks whether it can be made: InvalidArgument if the target exists.
  Status Begin();
  Status Build(const CheckpointCut& cut);

 private:
  Status Fill(const CheckpointCut& cut);
  Status LinkTable(const FileMetaData& file);
  // Copies the first `size` bytes of a file of the source, and syncs them.
  Status Copy(const std::string& from, const std::string& to, uint64_t size);
  // Sets temporary_, the directory to build in, to a name that is free: no
  // directory has it, or one that an attempt which died has left. That has
  // files of a database, but no CURRENT, which is made last; with CURRENT it is
  // a database, perhaps another checkpoint.
  Status ChooseTemporary();
  static bool IsOfAnAttempt(const std::string& name);
  Status RemoveTemporary();

  Env* const env_;
  const std::string source_;
  std::string target_;
  std::string temporary_;
};

}  // namespace varve
