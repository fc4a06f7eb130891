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
  // Held references that keep the tables from being removed. None if another
  // process has the database open, which may remove them.
  std::vector<Version*> versions;
  std::vector<std::pair<uint64_t, uint64_t>> tables;  // Numbers and sizes.
  uint64_t manifest_number = 0;  // 0: the tables alone are copied.
  uint64_t manifest_size = 0;
  // The text of the OPTIONS file, if the copy is to have one, and its number.
  std::string options;
  uint64_t options_number = 0;
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

  // Remove the unfinished attempt of another object, for a program that a
  // signal ends. ForeseeAttempt, called before that attempt begins, chooses the
  // directory name that it will use. RemoveAttempt removes the directory of
  // that name, so the attempt fails. If the attempt has just finished, the
  // target stays and is complete.
  // REQUIRES: no attempt begins after the call of RemoveAttempt.
  Status ForeseeAttempt() { return ChooseTemporary(); }
  Status RemoveAttempt();

 private:
  Status Fill(const CheckpointCut& cut);
  Status LinkTable(uint64_t number, uint64_t size);
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
