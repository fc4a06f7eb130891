// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a directory that RocksDB left without a clean close opens as it does
// with RocksDB. Method: after a recovery, the MANIFEST names a log that never
// existed, and a table is left that no edit names, as after a compaction that
// was cut off.

#include <algorithm>
#include <filesystem>

#include "env/file_names.h"
#include "test/testing/directory.h"
#include "test/testing/model_db.h"
#include "test/testing/tools.h"

namespace varve::test {
namespace {

class UncleanRocksDbTest : public DbTestBase {};

TEST_F(UncleanRocksDbTest, UnknownTableBesideALogThatNeverWas) {
  Ldb(path_, {"put", "--create_if_missing", "0x61", "0x31"});
  Ldb(path_, {"put", "0x62", "0x32"});
  Ldb(path_, {"put", "0x63", "0x33"});
  uint64_t largest = 0;
  std::string table;
  for (const auto& entry : std::filesystem::directory_iterator(path_)) {
    uint64_t number = 0;
    FileKind type;
    if (!ParseFileName(entry.path().filename(), &number, &type)) continue;
    if (type != FileKind::kInfoLog) largest = std::max(largest, number);
    if (type == FileKind::kTable) table = entry.path();
  }
  ASSERT_FALSE(table.empty());
  std::filesystem::copy(table, TableFileName(path_, largest + 1));
  options_.create_if_missing = false;
  Open();
  EXPECT_TRUE(HasEntries(db_.get(), {{"a", "1"}, {"b", "2"}, {"c", "3"}}));
  Close();
  ExpectRocksDbAgrees(path_, {{"a", "1"}, {"b", "2"}, {"c", "3"}});
}

}  // namespace
}  // namespace varve::test
