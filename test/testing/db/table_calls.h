// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Random calls on single tables that change nothing which reads show.

#include <string>
#include <vector>

#include "test/testing/seed.h"
#include "varve/db.h"

namespace varve::test {

// Compacts, moves or marks tables of the family. Returns OK if the tables were
// in a compaction, gone by then, or could not be moved.
inline Status WorkOnTables(DB* db, ColumnFamilyHandle* family, Rng* rng) {
  ColumnFamilyMetaData metadata;
  db->GetColumnFamilyMetaData(family, &metadata);
  const int last = static_cast<int>(metadata.levels.size()) - 1;
  std::vector<std::string> inputs;
  int level = 0;
  for (const LevelMetaData& tables : metadata.levels) {
    for (const SstFileMetaData& table : tables.files) {
      if (rng->OneIn(2)) continue;
      inputs.push_back(table.name);
      level = tables.level;
    }
  }
  Status status;
  if (rng->OneIn(4)) status = db->SuggestCompactRange(family, nullptr, nullptr);
  if (!status.ok()) return status;
  if (rng->OneIn(4)) {
    status = db->PromoteL0(family, rng->Between(1, last));
  } else if (!inputs.empty()) {
    status = db->CompactFiles({}, family, inputs, rng->Between(level, last));
  }
  return status.IsAborted() || status.IsInvalidArgument() ? Status::OK()
                                                          : status;
}

}  // namespace varve::test
