// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: what was removed by single deletions stays removed when RocksDB
// compacts tables that Varve has written. Method: a key that is put and removed
// again above an older value of it, in levels of its own.

#include "test/testing/model_db.h"
#include "test/testing/tools.h"

namespace varve::test {
namespace {

class SingleDeletionInteropTest : public DbTestBase {
 protected:
  SingleDeletionInteropTest() {
    options_.disable_auto_compactions = true;
    options_.level_compaction_dynamic_level_bytes = false;
  }
};

TEST_F(SingleDeletionInteropTest, AnOlderValueDoesNotComeBack) {
  Open();
  Put("a", "old");
  Flush();
  ASSERT_TRUE(Ok(db_->CompactRange({.target_level = 3}, nullptr, nullptr)));
  SingleDelete("a");
  Put("a", "new");
  Flush();
  SingleDelete("a");
  Put("z", "stays");
  Flush();
  Close();
  ExpectRocksDbAgrees(path_, {{"z", "stays"}});
  // Level 0 first, and what is below only then.
  Ldb(path_, {"compact"});
  ExpectRocksDbAgrees(path_, {{"z", "stays"}});
}

}  // namespace
}  // namespace varve::test
