// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: calls that make RocksDB read freed memory, or a null pointer, give an
// error or are harmless.
// Method: wrong calls, with Varve's library only.
#include <gmock/gmock.h>

#include <array>
#include <string>

#include "test/compat/rocksdb/program.h"

namespace rocksdb_test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class RocksDbCMisuseTest : public ProgramTest {
 protected:
  RocksDbCMisuseTest() { Open(); }

  void ExpectInvalid(const std::string& problem) {
    EXPECT_EQ(error_.Take(), "Invalid argument: " + problem);
  }
};

TEST_F(RocksDbCMisuseTest, ClosedHandlesGiveErrors) {
  const FamilyPtr family(
      rocksdb_create_column_family(db_.get(), options_.get(), "other", error_));
  rocksdb_checkpoint_t* const checkpoint =
      rocksdb_checkpoint_object_create(db_.get(), error_);
  ASSERT_EQ(error_.Take(), "OK");
  rocksdb_t* const closed = db_.get();
  db_.reset();
  size_t size = 7;
  EXPECT_EQ(rocksdb_get(closed, read_.get(), "a", 1, &size, error_), nullptr);
  ExpectInvalid("db was closed");
  EXPECT_EQ(size, 0u);
  rocksdb_put(closed, write_.get(), "a", 1, "1", 1, error_);
  ExpectInvalid("db was closed");
  rocksdb_put_cf(closed, write_.get(), family.get(), "a", 1, "1", 1, error_);
  ExpectInvalid("db was closed");
  rocksdb_checkpoint_create(checkpoint, "/tmp/unused", 0, error_);
  ExpectInvalid("db was closed");
  rocksdb_checkpoint_object_destroy(checkpoint);
  const IteratorPtr iterator(rocksdb_create_iterator(closed, read_.get()));
  rocksdb_iter_seek_to_first(iterator.get());
  EXPECT_EQ(rocksdb_iter_valid(iterator.get()), 0);
  rocksdb_iter_get_error(iterator.get(), error_);
  ExpectInvalid("db was closed");
  EXPECT_EQ(rocksdb_create_snapshot(closed), nullptr);
  EXPECT_EQ(rocksdb_property_value(closed, "rocksdb.stats"), nullptr);
  EXPECT_EQ(rocksdb_livefiles(closed), nullptr);
  EXPECT_EQ(rocksdb_get_latest_sequence_number(closed), 0u);
  EXPECT_EQ(rocksdb_column_family_handle_get_id(family.get()), 1u);
  rocksdb_compact_range(closed, nullptr, 0, nullptr, 0);
  rocksdb_close(closed);
}

TEST_F(RocksDbCMisuseTest, NullHandlesGiveErrors) {
  rocksdb_put(nullptr, write_.get(), "a", 1, "1", 1, error_);
  ExpectInvalid("db is NULL");
  rocksdb_put(db_.get(), nullptr, "a", 1, "1", 1, error_);
  ExpectInvalid("options is NULL");
  rocksdb_put(db_.get(), write_.get(), nullptr, 1, "1", 1, error_);
  ExpectInvalid("key is NULL and has a length");
  rocksdb_put(db_.get(), write_.get(), "a", static_cast<size_t>(-1), "1", 1,
              error_);
  ExpectInvalid("key has a length that is no length of memory");
  rocksdb_put_cf(db_.get(), write_.get(), nullptr, "a", 1, "1", 1, error_);
  ExpectInvalid("column_family is NULL");
  rocksdb_write(db_.get(), write_.get(), nullptr, error_);
  ExpectInvalid("batch is NULL");
  rocksdb_put(nullptr, nullptr, nullptr, 0, nullptr, 0, nullptr);
  rocksdb_close(nullptr);
  rocksdb_iter_destroy(nullptr);
  rocksdb_iter_next(nullptr);
  rocksdb_release_snapshot(nullptr, nullptr);
  rocksdb_column_family_handle_destroy(nullptr);
  EXPECT_EQ(rocksdb_iter_valid(nullptr), 0);
  EXPECT_STREQ(rocksdb_iter_key(nullptr, nullptr), "");
  // An empty key may be null.
  rocksdb_put(db_.get(), write_.get(), nullptr, 0, nullptr, 0, error_);
  EXPECT_EQ(error_.Take(), "OK");
  EXPECT_EQ(Get(""), "");
}

TEST_F(RocksDbCMisuseTest, FamiliesOfAnotherDatabaseGiveErrors) {
  ASSERT_EQ(Put("a", "1"), "OK");
  const std::string path = directory_.Sub("other");
  const DbPtr other(rocksdb_open(options_.get(), path.c_str(), error_));
  ASSERT_EQ(error_.Take(), "OK");
  const FamilyPtr family(rocksdb_get_default_column_family_handle(other.get()));
  EXPECT_EQ(PutTo(family.get(), "b", "2"),
            "Invalid argument: column_family belongs to another database");
  EXPECT_EQ(GetFrom(family.get(), "a"),
            "Invalid argument: column_family belongs to another database");
  EXPECT_EQ(rocksdb_property_value_cf(db_.get(), family.get(), "rocksdb.stats"),
            nullptr);
  EXPECT_EQ(rocksdb_get_column_family_metadata_cf(db_.get(), family.get()),
            nullptr);
  EXPECT_EQ(Get("b"), "null");
}

TEST_F(RocksDbCMisuseTest, ObjectsOfAClosedDatabaseCanBeUsed) {
  ASSERT_EQ(Put("a", "1"), "OK");
  const FamilyPtr family(
      rocksdb_create_column_family(db_.get(), options_.get(), "other", error_));
  ASSERT_EQ(PutTo(family.get(), "b", "2"), "OK");
  IteratorPtr iterator(rocksdb_create_iterator(db_.get(), read_.get()));
  IteratorPtr other(
      rocksdb_create_iterator_cf(db_.get(), read_.get(), family.get()));
  const rocksdb_snapshot_t* const snapshot = rocksdb_create_snapshot(db_.get());
  rocksdb_t* const closed = db_.get();
  db_.reset();
  rocksdb_put(closed, write_.get(), "c", 1, "3", 1, error_);
  ExpectInvalid("db was closed");
  EXPECT_EQ(Scan(iterator.get()), "a=1 ");
  rocksdb_iter_refresh(other.get(), error_);
  EXPECT_EQ(Scan(other.get()), "b=2 ");
  EXPECT_GT(rocksdb_snapshot_get_sequence_number(snapshot), 0u);
  // The last object closes it, and lets it go.
  iterator.reset();
  rocksdb_release_snapshot(closed, snapshot);
  EXPECT_EQ(rocksdb_open(options_.get(), path_.c_str(), error_), nullptr);
  EXPECT_THAT(error_.Take(), HasSubstr("LOCK"));
  other.reset();
  const std::array<const char*, 2> names = {"default", "other"};
  const std::array<const rocksdb_options_t*, 2> options = {options_.get(),
                                                           options_.get()};
  std::array<rocksdb_column_family_handle_t*, 2> handles = {};
  db_.reset(rocksdb_open_column_families(options_.get(), path_.c_str(), 2,
                                         names.data(), options.data(),
                                         handles.data(), error_));
  ASSERT_EQ(error_.Take(), "OK");
  EXPECT_EQ(GetFrom(handles[1], "b"), "2");
  // The old handle belongs to the closed database.
  EXPECT_THAT(GetFrom(family.get(), "b"), StartsWith("Invalid argument: "));
  for (auto* const handle : handles) {
    rocksdb_column_family_handle_destroy(handle);
  }
}

TEST_F(RocksDbCMisuseTest, IteratorsOutliveOptionsAndBounds) {
  for (const char* key : {"a", "b", "c"}) ASSERT_EQ(Put(key, "1"), "OK");
  ReadOptionsPtr options(rocksdb_readoptions_create());
  auto bound = std::make_unique<std::string>("c");
  rocksdb_readoptions_set_iterate_upper_bound(options.get(), bound->data(), 1);
  const IteratorPtr iterator(rocksdb_create_iterator(db_.get(), options.get()));
  options.reset();
  bound.reset();
  EXPECT_EQ(Scan(iterator.get()), "a=1 b=1 ");
  rocksdb_iter_seek(iterator.get(), nullptr, 1);
  EXPECT_EQ(rocksdb_iter_valid(iterator.get()), 0);
  rocksdb_iter_get_error(iterator.get(), error_);
  ExpectInvalid("k is NULL and has a length");
  rocksdb_iter_seek(iterator.get(), "a", 1);
  EXPECT_EQ(rocksdb_iter_valid(iterator.get()), 0);
}

TEST_F(RocksDbCMisuseTest, WrongArraysGiveErrors) {
  constexpr auto kNegative = static_cast<size_t>(-1);
  const std::array<const char*, 2> keys = {"a", nullptr};
  const std::array<size_t, 2> sizes = {1, 1};
  std::array<char*, 2> values = {};
  std::array<size_t, 2> value_sizes = {};
  std::array<char*, 2> errors = {};
  ASSERT_EQ(Put("a", "1"), "OK");
  const auto get = [&](rocksdb_t* db, size_t count, const char* const* data) {
    rocksdb_multi_get(db, read_.get(), count, data, sizes.data(), values.data(),
                      value_sizes.data(), errors.data());
  };
  const auto expect_errors = [&](const std::string& first,
                                 const std::string& second) {
    EXPECT_EQ(TakeText(errors[0]), first);
    EXPECT_EQ(TakeText(errors[1]), second);
  };
  get(db_.get(), 2, keys.data());
  EXPECT_EQ(TakeText(values[0]), "1");
  EXPECT_EQ(values[1], nullptr);
  expect_errors("null", "Invalid argument: key is NULL and has a length");
  get(db_.get(), 2, nullptr);
  expect_errors("Invalid argument: an array is NULL",
                "Invalid argument: an array is NULL");
  get(nullptr, 2, keys.data());
  expect_errors("Invalid argument: db is NULL", "Invalid argument: db is NULL");
  get(db_.get(), kNegative, keys.data());
  rocksdb_approximate_sizes(db_.get(), -1, nullptr, nullptr, nullptr, nullptr,
                            nullptr, error_);
  ExpectInvalid("the ranges have a negative number");
  EXPECT_EQ(rocksdb_open_column_families(options_.get(), path_.c_str(), -1,
                                         nullptr, nullptr, nullptr, error_),
            nullptr);
  ExpectInvalid("column_family_names has a negative length");
}

TEST_F(RocksDbCMisuseTest, TimesToLiveNeedADatabaseWithThem) {
  EXPECT_EQ(rocksdb_create_column_family_with_ttl(db_.get(), options_.get(),
                                                  "soon", 10, error_),
            nullptr);
  ExpectInvalid("the database was not opened with a time to live");
  db_.reset();
  const char* const names[] = {"default"};
  const rocksdb_options_t* const options[] = {options_.get()};
  rocksdb_column_family_handle_t* families[1];
  EXPECT_EQ(rocksdb_open_column_families_with_ttl(options_.get(), path_.c_str(),
                                                  1, names, options, families,
                                                  nullptr, error_),
            nullptr);
  ExpectInvalid("ttls is NULL");
}

}  // namespace
}  // namespace rocksdb_test
