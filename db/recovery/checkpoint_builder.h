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

// The files of a database at one moment. They must exist until the checkpoint
// is built. Logs and the MANIFEST may grow.
struct CheckpointCut {
  // Keeps the tables in being: referenced, or null if the caller builds beside
  // the process that has the database open.
  Version* version = nullptr;
  std::vector<std::pair<uint64_t, uint64_t>> tables;  // Numbers and sizes.
  uint64_t manifest_number = 0;
  uint64_t manifest_size = 0;
  std::vector<std::pair<uint64_t, uint64_t>> wals;  // Numbers and sizes.
};

// Builds a database directory from another database's files. Under its final
// name, the directory is complete and durable, or it does not exist.
// Thread-safety: owned by one thread at a time.
class CheckpointBuilder {
 public:
  // Builds from the directory `source` to `target`.
  CheckpointBuilder(Env* env, std::string source, const std::string& target);
  CheckpointBuilder(const CheckpointBuilder&) = delete;
  CheckpointBuilder& operator=(const CheckpointBuilder&) = delete;

  // Checks that the checkpoint can be built. Returns InvalidArgument if the
  // target exists.
  Status Begin();
  Status Build(const CheckpointCut& cut);

  // For a program that ends in the middle of an attempt, by another object or
  // process than the one that builds. ForeseeAttempt, called before it, notes
  // the name that the attempt will build under. RemoveAttempt removes what has
  // that name, and the attempt then fails. If the attempt has just come to its
  // end, the target stays, and it is complete. The caller makes sure that the
  // attempt does not begin afterwards.
  Status ForeseeAttempt() { return ChooseTemporary(); }
  Status RemoveAttempt();

 private:
  Status Fill(const CheckpointCut& cut);
  Status LinkTable(uint64_t number, uint64_t size);
  // Copies the first `size` bytes of a file of the source, and syncs them.
  Status Copy(const std::string& from, const std::string& to, uint64_t size);
  // Sets temporary_, the directory to build in, to a usable name. Either no
  // directory has the name, or a failed attempt left one. An attempt's
  // directory has files of a database but no CURRENT, which is written last. A
  // directory with CURRENT is a database, perhaps another checkpoint.
  Status ChooseTemporary();
  static bool IsOfAnAttempt(const std::string& name);
  Status RemoveTemporary();

  Env* const env_;
  const std::string source_;
  std::string target_;
  std::string temporary_;
};

}  // namespace varve
