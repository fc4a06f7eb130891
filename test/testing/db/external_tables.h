// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Tables that are written outside of a database, for tests that ingest them.

#include "test/testing/db_helpers.h"
#include "test/testing/test_headers.h"
#include "varve/sst_file_writer.h"

namespace varve::test {

// Writes a table by steps in the order of the keys: "put k v, merge k v,
// delete k, delete_range k end".
inline void WriteExternalTable(const Options& options, const std::string& path,
                               const std::string& steps,
                               ColumnFamilyHandle* family = nullptr) {
  SstFileWriter writer(options, family);
  ASSERT_TRUE(Ok(writer.Open(path)));
  std::istringstream in(steps);
  std::string step;
  while (std::getline(in, step, ',')) {
    std::istringstream words(step);
    std::string name, key, value;
    words >> name >> key >> value;
    Status status = Status::InvalidArgument("no such step", step);
    if (name == "put") status = writer.Put(key, value);
    if (name == "merge") status = writer.Merge(key, value);
    if (name == "delete") status = writer.Delete(key);
    if (name == "delete_range") status = writer.DeleteRange(key, value);
    ASSERT_TRUE(Ok(status)) << step;
  }
  ASSERT_TRUE(Ok(writer.Finish()));
}

// Writes a table of Key(begin) to Key(end - 1), all with the value.
inline void WriteExternalRange(const Options& options, const std::string& path,
                               int begin, int end, const std::string& value) {
  SstFileWriter writer(options);
  ASSERT_TRUE(Ok(writer.Open(path)));
  for (int i = begin; i < end; ++i) {
    ASSERT_TRUE(Ok(writer.Put(Key(i), value)));
  }
  ASSERT_TRUE(Ok(writer.Finish()));
}

}  // namespace varve::test
