// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a database whose keys end in timestamps is refused by the name of that
// feature. Method: a comparator of RocksDB's name for such keys.

#include <filesystem>

#include "test/testing/comparators.h"
#include "test/testing/db_helpers.h"
#include "test/testing/directory.h"

namespace varve::test {
namespace {

class TimestampComparator final : public UnrecognizedBytewiseComparator {
 public:
  const char* Name() const override {
    return "leveldb.BytewiseComparator.u64ts";
  }
};

class DbUserTimestampsTest : public DbTestBase {
 protected:
  static void ExpectRefused(const Status& status) {
    EXPECT_TRUE(IsNotSupported(status, "user timestamps"));
  }
};

TEST_F(DbUserTimestampsTest, AreNamedByOpenRepairAndTables) {
  static const TimestampComparator comparator;
  options_.comparator = &comparator;
  Do("open, put a 1, flush");
  Close();
  options_.comparator = BytewiseComparator();
  ExpectRefused(TryOpen());
  ExpectRefused(DB::OpenForReadOnly(options_, path_, &db_));
  ExpectRefused(RepairDB(path_, options_));
  // The tables alone show it, too.
  std::filesystem::remove(path_ + "/CURRENT");
  std::filesystem::remove(FilesStartingWith(path_, "MANIFEST").back());
  ExpectRefused(RepairDB(path_, options_));
}

}  // namespace
}  // namespace varve::test
