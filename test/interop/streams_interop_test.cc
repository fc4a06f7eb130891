// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: RocksDB and Varve read each other's archived logs with GetUpdatesSince,
// and give the same updates. Method: RocksDB's shared library, on directories
// that either engine wrote.

#include "test/testing/db_helpers.h"
#include "test/testing/directory.h"
#include "test/testing/engines/rocksdb_database.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

constexpr char kRocksDbOptions[] =
    "create_if_missing=true;WAL_ttl_seconds=1000000;"
    "disable_auto_compactions=true;compression=kNoCompression";

class RocksDbStream : public RocksDbDatabase {
 public:
  // Returns "sequence:count" of each batch from there on.
  std::vector<std::string> UpdatesSince(uint64_t sequence) {
    std::vector<std::string> result;
    void* const iterator = CallChecked<void*>(
        "get_updates_since", db(), sequence, static_cast<void*>(nullptr));
    if (iterator == nullptr) return result;
    while (Call<unsigned char>("wal_iter_valid", iterator) != 0) {
      uint64_t at = 0;
      void* const batch = Call<void*>("wal_iter_get_batch", iterator, &at);
      size_t size = 0;
      const char* const bytes =
          Call<const char*>("writebatch_data", batch, &size);
      result.push_back(std::to_string(at) + ":" +
                       std::string(bytes + 12, size - 12));
      Call<void>("writebatch_destroy", batch);
      Call<void>("wal_iter_next", iterator);
    }
    CallChecked<void>("wal_iter_status", iterator);
    Call<void>("wal_iter_destroy", iterator);
    return result;
  }
};

class StreamsInteropTest : public DbTestBase {
 protected:
  StreamsInteropTest() {
    options_.WAL_ttl_seconds = 1000000;
    options_.disable_auto_compactions = true;
  }

  std::vector<std::string> UpdatesSince(uint64_t sequence) {
    std::vector<std::string> result;
    std::unique_ptr<TransactionLogIterator> stream;
    const Status status = db_->GetUpdatesSince(sequence, &stream);
    EXPECT_TRUE(Ok(status));
    if (!status.ok()) return result;
    for (; stream->Valid(); stream->Next()) {
      const BatchResult batch = stream->GetBatch();
      result.push_back(std::to_string(batch.sequence) + ":" +
                       batch.writeBatchPtr->Data().substr(12));
    }
    EXPECT_TRUE(Ok(stream->status()));
    return result;
  }
  size_t Archived() const {
    return FilesEndingIn(path_ + "/archive", ".log").size();
  }
};

TEST_F(StreamsInteropTest, VarveReadsTheArchiveOfRocksDb) {
  RocksDbStream rocksdb;
  rocksdb.Open(path_, kRocksDbOptions);
  for (int i = 0; i < 30; ++i) {
    rocksdb.Put(Key(i), std::string(100, 'v'));
    if (i % 3 == 0) rocksdb.Delete(Key(i));
    if (i % 10 == 9) rocksdb.Flush();
  }
  rocksdb.Put("last", "v");
  const std::vector<std::string> all = rocksdb.UpdatesSince(1);
  EXPECT_EQ(all.size(), 41u);
  const std::vector<std::string> some = rocksdb.UpdatesSince(20);
  rocksdb.Close();
  Open();
  EXPECT_GE(Archived(), 3u);
  EXPECT_EQ(UpdatesSince(1), all);
  EXPECT_EQ(UpdatesSince(20), some);
  // And what Varve adds.
  Do("put a 1, flush, put b 2");
  EXPECT_EQ(UpdatesSince(1).size(), 43u);
}

TEST_F(StreamsInteropTest, RocksDbReadsTheArchiveOfVarve) {
  Open();
  for (int i = 0; i < 30; ++i) {
    Put(Key(i), std::string(100, 'v'));
    if (i % 3 == 0) Delete(Key(i));
    if (i % 10 == 9) Flush();
  }
  Reopen();
  Put("last", "v");
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  const std::vector<std::string> all = UpdatesSince(1);
  EXPECT_EQ(all.size(), 41u);
  const std::vector<std::string> some = UpdatesSince(20);
  EXPECT_GE(Archived(), 3u);
  Close();
  RocksDbStream rocksdb;
  rocksdb.Open(path_, kRocksDbOptions);
  // It also gives the batches without updates, in which Varve notes which log
  // comes before.
  const auto updates = [](std::vector<std::string> batches) {
    std::erase_if(batches, [](const std::string& batch) {
      return Contains(batch, "varve.wal.");
    });
    return batches;
  };
  EXPECT_EQ(updates(rocksdb.UpdatesSince(1)), all);
  EXPECT_EQ(updates(rocksdb.UpdatesSince(20)), some);
  rocksdb.Close();
}

}  // namespace
}  // namespace varve::test
