// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: indexed batches, read alone and with a database, give what RocksDB's
// calls say. Method: each call, with and without a column family.
#include <cstdint>
#include <string>
#include <vector>

#include "test/compat/rocksdb/database.h"

namespace rocksdb_test {
namespace {

using testing::ElementsAre;
using testing::StartsWith;

using BatchPtr = Owned<rocksdb_writebatch_wi_t, rocksdb_writebatch_wi_destroy>;

// The parts "a", "", "bc".
constexpr const char* kParts[] = {"a", nullptr, "bc"};
constexpr size_t kSizes[] = {1, 0, 2};

std::string Number(char number) {
  return std::string(1, number) + std::string(7, '\0');
}

class RocksDbIndexedBatchTest : public ProgramTest {
 protected:
  RocksDbIndexedBatchTest() {
    rocksdb_options_set_uint64add_merge_operator(options_.get());
    Open();
    family_.reset(rocksdb_create_column_family(db_.get(), options_.get(),
                                               "other", error_));
    EXPECT_EQ(error_.Take(), "OK");
  }

  void PutIn(const std::string& key, const std::string& value) {
    rocksdb_writebatch_wi_put(batch_.get(), key.data(), key.size(),
                              value.data(), value.size());
  }
  std::string FromBatch(const std::string& key) {
    size_t size = 1;
    char* const value = rocksdb_writebatch_wi_get_from_batch(
        batch_.get(), options_.get(), key.data(), key.size(), &size, error_);
    return Result(value, size);
  }
  std::string FromBatchOf(rocksdb_column_family_handle_t* family,
                          const std::string& key) {
    size_t size = 1;
    char* const value = rocksdb_writebatch_wi_get_from_batch_cf(
        batch_.get(), options_.get(), family, key.data(), key.size(), &size,
        error_);
    return Result(value, size);
  }
  std::string FromBoth(const std::string& key) {
    size_t size = 1;
    char* const value = rocksdb_writebatch_wi_get_from_batch_and_db(
        batch_.get(), db_.get(), read_.get(), key.data(), key.size(), &size,
        error_);
    const std::string copied = Result(value, size);
    EXPECT_EQ(Result(rocksdb_writebatch_wi_get_pinned_from_batch_and_db(
                  batch_.get(), db_.get(), read_.get(), key.data(), key.size(),
                  error_)),
              copied);
    return copied;
  }
  std::string FromBothOf(rocksdb_column_family_handle_t* family,
                         const std::string& key) {
    size_t size = 1;
    char* const value = rocksdb_writebatch_wi_get_from_batch_and_db_cf(
        batch_.get(), db_.get(), read_.get(), family, key.data(), key.size(),
        &size, error_);
    const std::string copied = Result(value, size);
    EXPECT_EQ(Result(rocksdb_writebatch_wi_get_pinned_from_batch_and_db_cf(
                  batch_.get(), db_.get(), read_.get(), family, key.data(),
                  key.size(), error_)),
              copied);
    return copied;
  }
  // Returns an iterator over the database and the batch.
  IteratorPtr Iterate() {
    return IteratorPtr(rocksdb_writebatch_wi_create_iterator_with_base(
        batch_.get(), rocksdb_create_iterator(db_.get(), read_.get())));
  }
  rocksdb_iterator_t* BaseOf(rocksdb_column_family_handle_t* family) {
    return rocksdb_create_iterator_cf(db_.get(), read_.get(), family);
  }

  BatchPtr batch_{rocksdb_writebatch_wi_create(0, 1)};
  FamilyPtr family_;

 private:
  // Return the value, "null", or the error.
  std::string Result(char* value, size_t size) {
    const std::string error = error_.Take();
    const std::string taken = TakeBytes(value, size);
    return error == "OK" ? taken : error;
  }
  std::string Result(rocksdb_pinnableslice_t* value) {
    const std::string error = error_.Take();
    if (value == nullptr) return error == "OK" ? "null" : error;
    size_t size = 0;
    const char* const data = rocksdb_pinnableslice_value(value, &size);
    std::string taken(data, size);
    rocksdb_pinnableslice_destroy(value);
    return taken;
  }
};

TEST_F(RocksDbIndexedBatchTest, ReadsItsUpdatesAndTheDatabase) {
  for (const char* key : {"a", "b", "c"}) ASSERT_EQ(Put(key, "old"), "OK");
  PutIn("b", "new");
  PutIn("d", "new");
  rocksdb_writebatch_wi_delete(batch_.get(), "c", 1);
  EXPECT_EQ(rocksdb_writebatch_wi_count(batch_.get()), 3);
  EXPECT_EQ(FromBatch("a"), "null");
  EXPECT_EQ(FromBatch("b"), "new");
  EXPECT_EQ(FromBatch("c"), "null");
  EXPECT_EQ(FromBoth("a"), "old");
  EXPECT_EQ(FromBoth("b"), "new");
  EXPECT_EQ(FromBoth("c"), "null");
  EXPECT_EQ(FromBoth("d"), "new");
  EXPECT_EQ(Scan(Iterate().get()), "a=old b=new d=new ");
  EXPECT_EQ(Get("b"), "old");
  rocksdb_write_writebatch_wi(db_.get(), write_.get(), batch_.get(), error_);
  EXPECT_EQ(error_.Take(), "OK");
  EXPECT_EQ(Get("b"), "new");
  EXPECT_EQ(Get("c"), "null");
  rocksdb_writebatch_wi_clear(batch_.get());
  EXPECT_EQ(rocksdb_writebatch_wi_count(batch_.get()), 0);
  EXPECT_EQ(FromBatch("b"), "null");
}

TEST_F(RocksDbIndexedBatchTest, ReadsFamilies) {
  rocksdb_column_family_handle_t* const family = family_.get();
  ASSERT_EQ(PutTo(family, "a", "old"), "OK");
  ASSERT_EQ(PutTo(family, "c", "old"), "OK");
  rocksdb_writebatch_wi_put_cf(batch_.get(), family, "b", 1, "new", 3);
  rocksdb_writebatch_wi_delete_cf(batch_.get(), family, "c", 1);
  PutIn("b", "default");
  EXPECT_EQ(FromBatchOf(family, "b"), "new");
  EXPECT_EQ(FromBothOf(family, "a"), "old");
  EXPECT_EQ(FromBothOf(family, "b"), "new");
  EXPECT_EQ(FromBothOf(family, "c"), "null");
  const IteratorPtr iterator(rocksdb_writebatch_wi_create_iterator_with_base_cf(
      batch_.get(), BaseOf(family), family));
  EXPECT_EQ(Scan(iterator.get()), "a=old b=new ");
  rocksdb_readoptions_set_iterate_upper_bound(read_.get(), "b", 1);
  const IteratorPtr bounded(
      rocksdb_writebatch_wi_create_iterator_with_base_cf_readopts(
          batch_.get(), BaseOf(family), family, read_.get()));
  EXPECT_EQ(Scan(bounded.get()), "a=old ");
  const IteratorPtr of_default(
      rocksdb_writebatch_wi_create_iterator_with_base_readopts(
          batch_.get(), rocksdb_create_iterator(db_.get(), read_.get()),
          read_.get()));
  EXPECT_EQ(Scan(of_default.get()), "");
}

TEST_F(RocksDbIndexedBatchTest, Merges) {
  const FamilyPtr owned(rocksdb_get_default_column_family_handle(db_.get()));
  ASSERT_EQ(Put("n", Number(1)), "OK");
  rocksdb_writebatch_wi_merge(batch_.get(), "n", 1, Number(2).data(), 8);
  EXPECT_EQ(FromBoth("n"), Number(3));
  EXPECT_EQ(Scan(Iterate().get()), "n=" + Number(3) + " ");
  rocksdb_writebatch_wi_merge_cf(batch_.get(), owned.get(), "m", 1,
                                 Number(5).data(), 8);
  EXPECT_EQ(FromBothOf(owned.get(), "m"), Number(5));
  // Whether the key exists is not known.
  EXPECT_THAT(FromBatchOf(owned.get(), "m"), StartsWith("Result incomplete: "));
  const size_t size = 8;
  const std::string one = Number(1);
  const char* const key = "n";
  const char* const value = one.data();
  const size_t key_size = 1;
  rocksdb_writebatch_wi_mergev(batch_.get(), 1, &key, &key_size, 1, &value,
                               &size);
  rocksdb_writebatch_wi_mergev_cf(batch_.get(), owned.get(), 1, &key, &key_size,
                                  1, &value, &size);
  EXPECT_EQ(FromBoth("n"), Number(5));
}

TEST_F(RocksDbIndexedBatchTest, TakesPartsAndDeletesRanges) {
  rocksdb_column_family_handle_t* const family = family_.get();
  rocksdb_writebatch_wi_putv(batch_.get(), 3, kParts, kSizes, 1, kParts,
                             kSizes);
  rocksdb_writebatch_wi_putv_cf(batch_.get(), family, 3, kParts, kSizes, 1,
                                kParts, kSizes);
  EXPECT_EQ(FromBatch("abc"), "a");
  EXPECT_EQ(FromBatchOf(family, "abc"), "a");
  rocksdb_writebatch_wi_deletev(batch_.get(), 3, kParts, kSizes);
  rocksdb_writebatch_wi_deletev_cf(batch_.get(), family, 3, kParts, kSizes);
  EXPECT_EQ(FromBatch("abc"), "null");
  EXPECT_EQ(FromBatchOf(family, "abc"), "null");

  const char* const begin[] = {"d"};
  const char* const end[] = {"f"};
  const size_t sizes[] = {1};
  for (const char* key : {"a", "b", "c", "d", "e", "f", "g"}) {
    ASSERT_EQ(Put(key, "v"), "OK");
    ASSERT_EQ(PutTo(family, key, "v"), "OK");
  }
  rocksdb_writebatch_wi_delete_range(batch_.get(), "a", 1, "c", 1);
  rocksdb_writebatch_wi_delete_range_cf(batch_.get(), family, "a", 1, "c", 1);
  rocksdb_writebatch_wi_delete_rangev(batch_.get(), 1, begin, sizes, end,
                                      sizes);
  rocksdb_writebatch_wi_delete_rangev_cf(batch_.get(), family, 1, begin, sizes,
                                         end, sizes);
  rocksdb_writebatch_wi_singledelete(batch_.get(), "g", 1);
  rocksdb_writebatch_wi_singledelete_cf(batch_.get(), family, "g", 1);
  EXPECT_EQ(Scan(Iterate().get()), "c=v f=v ");
  const IteratorPtr other(rocksdb_writebatch_wi_create_iterator_with_base_cf(
      batch_.get(), BaseOf(family), family));
  EXPECT_EQ(Scan(other.get()), "c=v f=v ");
}

void OnPut(void* lines, const char* key, size_t key_size, const char* value,
           size_t value_size) {
  static_cast<std::vector<std::string>*>(lines)->push_back(
      std::string(key, key_size) + "=" + std::string(value, value_size));
}
void OnDelete(void* lines, const char* key, size_t key_size) {
  static_cast<std::vector<std::string>*>(lines)->push_back(
      "-" + std::string(key, key_size));
}

TEST_F(RocksDbIndexedBatchTest, ShowsAndRollsBackItsUpdates) {
  PutIn("b", "1");
  rocksdb_writebatch_wi_put_log_data(batch_.get(), "blob", 4);
  rocksdb_writebatch_wi_delete(batch_.get(), "a", 1);
  std::vector<std::string> lines;
  rocksdb_writebatch_wi_iterate(batch_.get(), &lines, OnPut, OnDelete);
  EXPECT_THAT(lines, ElementsAre("b=1", "-a"));
  size_t size = 0;
  const char* const data = rocksdb_writebatch_wi_data(batch_.get(), &size);
  rocksdb_writebatch_t* const copy = rocksdb_writebatch_create_from(data, size);
  EXPECT_EQ(rocksdb_writebatch_count(copy), 2);
  rocksdb_writebatch_destroy(copy);

  rocksdb_writebatch_wi_set_save_point(batch_.get());
  PutIn("b", "2");
  EXPECT_EQ(FromBatch("b"), "2");
  rocksdb_writebatch_wi_rollback_to_save_point(batch_.get(), error_);
  EXPECT_EQ(error_.Take(), "OK");
  EXPECT_EQ(FromBatch("b"), "1");
  rocksdb_writebatch_wi_rollback_to_save_point(batch_.get(), error_);
  EXPECT_EQ(error_.Take(), "NotFound: ");
}

int CompareBackwards(void* /*state*/, const char* a, size_t a_size,
                     const char* b, size_t b_size) {
  return std::string(b, b_size).compare(std::string(a, a_size));
}

TEST_F(RocksDbIndexedBatchTest, HasAComparatorAndALimit) {
  rocksdb_comparator_t* const comparator = rocksdb_comparator_create(
      nullptr, [](void* /*state*/) {}, CompareBackwards,
      [](void* /*state*/) { return "backwards"; });
  batch_.reset(
      rocksdb_writebatch_wi_create_with_params(comparator, 0, 1, 40, 0));
  PutIn("a", "1");
  PutIn("b", std::string(100, 'x'));
  PutIn("c", "3");
  EXPECT_EQ(FromBatch("b"), "null");
  rocksdb_options_set_comparator(options_.get(), comparator);
  {
    const std::string path = directory_.Sub("backwards");
    const DbPtr db(rocksdb_open(options_.get(), path.c_str(), error_));
    ASSERT_EQ(error_.Take(), "OK");
    const IteratorPtr iterator(rocksdb_writebatch_wi_create_iterator_with_base(
        batch_.get(), rocksdb_create_iterator(db.get(), read_.get())));
    EXPECT_EQ(Scan(iterator.get()), "c=3 a=1 ");
    // A batch of families needs no comparator.
    const FamilyPtr family(rocksdb_get_default_column_family_handle(db.get()));
    const BatchPtr other(rocksdb_writebatch_wi_create(0, 1));
    for (const char* key : {"a", "b"}) {
      rocksdb_writebatch_wi_put_cf(other.get(), family.get(), key, 1, "", 0);
    }
    const IteratorPtr of_family(
        rocksdb_writebatch_wi_create_iterator_with_base_cf(
            other.get(), rocksdb_create_iterator(db.get(), read_.get()),
            family.get()));
    EXPECT_EQ(Scan(of_family.get()), "b= a= ");
  }
  batch_.reset();
  rocksdb_comparator_destroy(comparator);
}

TEST_F(RocksDbIndexedBatchTest, WrongCallsAreErrors) {
  rocksdb_writebatch_wi_put(batch_.get(), nullptr, 1, "v", 1);
  rocksdb_writebatch_wi_put(nullptr, "k", 1, "v", 1);
  rocksdb_writebatch_wi_put_cf(batch_.get(), nullptr, "k", 1, "v", 1);
  rocksdb_writebatch_wi_putv(batch_.get(), -1, kParts, kSizes, 1, kParts,
                             kSizes);
  EXPECT_EQ(rocksdb_writebatch_wi_count(batch_.get()), 0);
  EXPECT_EQ(rocksdb_writebatch_wi_create_with_params(nullptr, 0, 1, 0, 0),
            nullptr);
  size_t size = 1;
  EXPECT_EQ(rocksdb_writebatch_wi_get_from_batch_and_db(
                nullptr, db_.get(), read_.get(), "k", 1, &size, error_),
            nullptr);
  EXPECT_EQ(error_.Take(), "Invalid argument: wbwi is NULL");
  EXPECT_EQ(size, 0u);
  const auto error_of = [&](rocksdb_iterator_t* created) {
    const IteratorPtr iterator(created);
    rocksdb_iter_seek_to_first(iterator.get());
    EXPECT_EQ(rocksdb_iter_valid(iterator.get()), 0);
    rocksdb_iter_get_error(iterator.get(), error_);
    return error_.Take();
  };
  EXPECT_EQ(error_of(rocksdb_writebatch_wi_create_iterator_with_base(
                batch_.get(), nullptr)),
            "Invalid argument: base_iterator is NULL");
  EXPECT_EQ(error_of(rocksdb_writebatch_wi_create_iterator_with_base(
                nullptr, rocksdb_create_iterator(db_.get(), read_.get()))),
            "Invalid argument: wbwi is NULL");
  EXPECT_EQ(error_of(rocksdb_writebatch_wi_create_iterator_with_base_cf(
                batch_.get(), rocksdb_create_iterator(db_.get(), read_.get()),
                nullptr)),
            "Invalid argument: cf is NULL");
}

TEST_F(RocksDbIndexedBatchTest, IteratorsOutliveItAndAreNotRefreshed) {
  PutIn("a", "1");
  const IteratorPtr iterator = Iterate();
  batch_.reset();
  rocksdb_iter_refresh(iterator.get(), error_);
  EXPECT_EQ(error_.Take(), "Not implemented: Refresh() is not supported");
  EXPECT_EQ(Scan(iterator.get()), "a=1 ");
}

}  // namespace
}  // namespace rocksdb_test
