// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// For tests that change a MANIFEST, or write one.

#include "db/version/version_edit.h"
#include "db/wal/wal_reader.h"
#include "db/wal/wal_writer.h"
#include "test/testing/db_helpers.h"
#include "test/testing/test_headers.h"
#include "varve/env.h"

namespace varve::test {

// The number in the path of a MANIFEST.
inline uint64_t ManifestNumber(const std::string& path) {
  return std::stoull(path.substr(path.rfind('-') + 1));
}

inline void ReadEdits(Env* env, const std::string& path,
                      std::vector<VersionEdit>* edits) {
  std::unique_ptr<SequentialFile> file;
  ASSERT_TRUE(Ok(env->NewSequentialFile(path, FileOptions(), &file)));
  wal::Reader reader(std::move(file), path, ManifestNumber(path));
  Slice record;
  while (reader.ReadRecord(&record) == wal::ReadOutcome::kRecord) {
    ASSERT_TRUE(Ok(edits->emplace_back().DecodeFrom(record)));
  }
}

// Replaces a MANIFEST.
inline void WriteEdits(Env* env, const std::string& path,
                       const std::vector<VersionEdit>& edits) {
  env->RemoveFile(path).IgnoreError();
  std::unique_ptr<WritableFile> file;
  ASSERT_TRUE(Ok(env->NewWritableFile(path, FileOptions(), &file)));
  wal::Writer writer(std::move(file), ManifestNumber(path));
  for (const VersionEdit& edit : edits) {
    std::string record;
    edit.EncodeTo(&record);
    ASSERT_TRUE(Ok(writer.AddRecord(record)));
  }
  ASSERT_TRUE(Ok(writer.Sync()));
  ASSERT_TRUE(Ok(writer.Close()));
}

}  // namespace varve::test
