// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: write batches have the updates that a program adds by RocksDB's calls.
// Method: each call, and the text of the updates of the batch.
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "test/compat/rocksdb/database.h"

namespace rocksdb_test {
namespace {

using testing::ElementsAre;

// Owns a batch.
class Batch {
 public:
  Batch() : Batch(rocksdb_writebatch_create()) {}
  explicit Batch(rocksdb_writebatch_t* batch) : batch_(batch) {}
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;
  ~Batch() { rocksdb_writebatch_destroy(batch_); }

  operator rocksdb_writebatch_t*() {  // NOLINT(google-explicit-constructor)
    return batch_;
  }

 private:
  rocksdb_writebatch_t* const batch_;
};

using Lines = std::vector<std::string>;

void Add(void* lines, const std::string& line) {
  static_cast<Lines*>(lines)->push_back(line);
}

void OnPut(void* lines, const char* key, size_t key_size, const char* value,
           size_t value_size) {
  Add(lines, "put " + std::string(key, key_size) + "=" +
                 std::string(value, value_size));
}
void OnDelete(void* lines, const char* key, size_t key_size) {
  Add(lines, "delete " + std::string(key, key_size));
}
void OnPutOfFamily(void* lines, uint32_t family, const char* key,
                   size_t key_size, const char* value, size_t value_size) {
  Add(lines, std::to_string(family) + " put " + std::string(key, key_size) +
                 "=" + std::string(value, value_size));
}
void OnDeleteOfFamily(void* lines, uint32_t family, const char* key,
                      size_t key_size) {
  Add(lines, std::to_string(family) + " delete " + std::string(key, key_size));
}
void OnMergeOfFamily(void* lines, uint32_t family, const char* key,
                     size_t key_size, const char* value, size_t value_size) {
  Add(lines, std::to_string(family) + " merge " + std::string(key, key_size) +
                 "=" + std::string(value, value_size));
}
void OnLogData(void* lines, const char* blob, size_t size) {
  Add(lines, "log " + std::string(blob, size));
}

// Returns the updates of the default family.
Lines UpdatesOf(rocksdb_writebatch_t* batch) {
  Lines lines;
  rocksdb_writebatch_iterate_ld(batch, &lines, OnPut, OnDelete, OnLogData);
  return lines;
}

Lines FamilyUpdatesOf(rocksdb_writebatch_t* batch) {
  Lines lines;
  rocksdb_writebatch_iterate_cf_ld(batch, &lines, OnPutOfFamily,
                                   OnDeleteOfFamily, OnMergeOfFamily,
                                   OnLogData);
  return lines;
}

// The parts "a", "", "bc".
constexpr const char* kParts[] = {"a", nullptr, "bc"};
constexpr size_t kSizes[] = {1, 0, 2};

TEST(RocksDbBatchTest, HasTheUpdates) {
  Batch batch;
  rocksdb_writebatch_put(batch, "k", 1, "v", 1);
  rocksdb_writebatch_put(batch, "", 0, nullptr, 0);
  rocksdb_writebatch_delete(batch, "d", 1);
  rocksdb_writebatch_put_log_data(batch, "blob", 4);
  rocksdb_writebatch_putv(batch, 3, kParts, kSizes, 2, kParts, kSizes);
  rocksdb_writebatch_deletev(batch, 3, kParts, kSizes);
  EXPECT_THAT(UpdatesOf(batch),
              ElementsAre("put k=v", "put =", "delete d", "log blob",
                          "put abc=a", "delete abc"));
  EXPECT_EQ(rocksdb_writebatch_count(batch), 5);
  Lines lines;
  rocksdb_writebatch_iterate(batch, &lines, OnPut, OnDelete);
  EXPECT_EQ(lines.size(), 5U);  // Without log data.

  size_t size = 0;
  const char* const data = rocksdb_writebatch_data(batch, &size);
  Batch copy(rocksdb_writebatch_create_from(data, size));
  EXPECT_EQ(UpdatesOf(copy), UpdatesOf(batch));

  rocksdb_writebatch_clear(batch);
  EXPECT_EQ(rocksdb_writebatch_count(batch), 0);
}

TEST(RocksDbBatchTest, ChangesFamilies) {
  Database database;
  rocksdb_options_set_uint64add_merge_operator(database.options());
  database.Open();
  const FamilyPtr owned = database.CreateFamily("one");
  rocksdb_column_family_handle_t* const family = owned.get();
  Batch batch;
  rocksdb_writebatch_put_cf(batch, family, "k", 1, "v", 1);
  rocksdb_writebatch_putv_cf(batch, family, 3, kParts, kSizes, 2, kParts,
                             kSizes);
  rocksdb_writebatch_merge_cf(batch, family, "m", 1, "12345678", 8);
  rocksdb_writebatch_mergev_cf(batch, family, 1, kParts, kSizes, 1, kParts,
                               kSizes);
  rocksdb_writebatch_merge(batch, "m", 1, "12345678", 8);
  rocksdb_writebatch_mergev(batch, 1, kParts, kSizes, 1, kParts, kSizes);
  rocksdb_writebatch_delete_cf(batch, family, "d", 1);
  rocksdb_writebatch_deletev_cf(batch, family, 3, kParts, kSizes);
  rocksdb_writebatch_put(batch, "k", 1, "default", 7);
  EXPECT_THAT(FamilyUpdatesOf(batch),
              ElementsAre("1 put k=v", "1 put abc=a", "1 merge m=12345678",
                          "1 merge a=a", "0 merge m=12345678", "0 merge a=a",
                          "1 delete d", "1 delete abc", "0 put k=default"));
  // Without families the iteration ends at the first update.
  EXPECT_THAT(UpdatesOf(batch), ElementsAre());
  EXPECT_EQ(database.Write(batch), "OK");
  EXPECT_EQ(database.Get("k"), "default");
  EXPECT_EQ(database.Get("m"), "12345678");
  EXPECT_EQ(database.GetFrom(family, "k"), "v");
}

TEST(RocksDbBatchTest, DeletesSinglyAndRanges) {
  Database database;
  database.Open();
  const FamilyPtr owned = database.CreateFamily("one");
  rocksdb_column_family_handle_t* const family = owned.get();
  for (const char* key : {"a", "b", "c", "d", "e", "f", "g"}) {
    database.Put(key, "v");
    EXPECT_EQ(database.PutTo(family, key, "v"), "OK");
  }
  const char* const begin[] = {"e"};
  const char* const end[] = {"f"};
  const size_t sizes[] = {1};
  Batch batch;
  rocksdb_writebatch_singledelete(batch, "a", 1);
  rocksdb_writebatch_singledelete_cf(batch, family, "a", 1);
  rocksdb_writebatch_delete_range(batch, "b", 1, "d", 1);
  rocksdb_writebatch_delete_range_cf(batch, family, "b", 1, "d", 1);
  rocksdb_writebatch_delete_rangev(batch, 1, begin, sizes, end, sizes);
  rocksdb_writebatch_delete_rangev_cf(batch, family, 1, begin, sizes, end,
                                      sizes);
  EXPECT_EQ(rocksdb_writebatch_count(batch), 6);
  EXPECT_EQ(database.Write(batch), "OK");
  for (const char* key : {"a", "b", "c", "d", "e", "f", "g"}) {
    const bool remains = strchr("dfg", *key) != nullptr;
    EXPECT_EQ(database.Get(key), remains ? "v" : "null") << key;
    EXPECT_EQ(database.GetFrom(family, key), remains ? "v" : "null") << key;
  }
}

TEST(RocksDbBatchTest, RollsBackToSavePoints) {
  Batch batch;
  Error error;
  rocksdb_writebatch_put(batch, "a", 1, "1", 1);
  rocksdb_writebatch_set_save_point(batch);
  rocksdb_writebatch_put(batch, "b", 1, "2", 1);
  rocksdb_writebatch_set_save_point(batch);
  rocksdb_writebatch_put(batch, "c", 1, "3", 1);
  rocksdb_writebatch_rollback_to_save_point(batch, error);
  EXPECT_THAT(UpdatesOf(batch), ElementsAre("put a=1", "put b=2"));
  rocksdb_writebatch_pop_save_point(batch, error);
  EXPECT_EQ(error.Take(), "OK");
  EXPECT_EQ(rocksdb_writebatch_count(batch), 2);
  rocksdb_writebatch_rollback_to_save_point(batch, error);
  EXPECT_EQ(error.Take(), "NotFound: ");
  rocksdb_writebatch_pop_save_point(batch, error);
  EXPECT_EQ(error.Take(), "NotFound: ");
}

TEST(RocksDbBatchTest, KeepsItsLimit) {
  Batch batch(rocksdb_writebatch_create_with_params(0, 40, 0, 0));
  rocksdb_writebatch_put(batch, "a", 1, "1", 1);
  rocksdb_writebatch_put(batch, "b", 1, std::string(100, 'x').data(), 100);
  rocksdb_writebatch_put(batch, "c", 1, "3", 1);
  EXPECT_THAT(UpdatesOf(batch), ElementsAre("put a=1", "put c=3"));
  Error error;
  rocksdb_writebatch_verify_checksum(batch, error);
  EXPECT_EQ(error.Take(), "OK");
}

TEST(RocksDbBatchTest, RefusesMissingFeatures) {
  EXPECT_EQ(rocksdb_writebatch_create_with_params(0, 0, 0, 8), nullptr);
  Batch batch(rocksdb_writebatch_create_with_params(0, 0, 8, 0));
  Error error;
  rocksdb_writebatch_verify_checksum(batch, error);
  EXPECT_THAT(error.Take(), testing::StartsWith("Not implemented: "));
}

TEST(RocksDbBatchTest, LeavesOutUpdatesWithWrongArguments) {
  Batch batch;
  rocksdb_writebatch_put(batch, nullptr, 1, "v", 1);
  rocksdb_writebatch_put(batch, "k", SIZE_MAX, "v", 1);
  rocksdb_writebatch_put_cf(batch, nullptr, "k", 1, "v", 1);
  rocksdb_writebatch_putv(batch, -1, kParts, kSizes, 1, kParts, kSizes);
  rocksdb_writebatch_putv(batch, 1, nullptr, kSizes, 1, kParts, kSizes);
  const size_t sizes[] = {1, 1};  // The second part is null.
  rocksdb_writebatch_deletev(batch, 2, kParts, sizes);
  EXPECT_EQ(rocksdb_writebatch_count(batch), 0);
  rocksdb_writebatch_put(nullptr, "k", 1, "v", 1);
  EXPECT_EQ(rocksdb_writebatch_create_from(nullptr, 1), nullptr);
}

TEST(RocksDbBatchTest, AWriteOfDamagedBytesFails) {
  Database database;
  database.Open();
  Batch batch(rocksdb_writebatch_create_from("damaged", 7));
  EXPECT_THAT(UpdatesOf(batch), ElementsAre());
  EXPECT_THAT(database.Write(batch), testing::StartsWith("Corruption: "));
}

}  // namespace
}  // namespace rocksdb_test
