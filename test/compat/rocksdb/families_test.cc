// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: column families of RocksDB's C interface do as RocksDB's do.
// Method: create, open, list and drop them. These tests also run on RocksDB.
#include <gmock/gmock.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "test/compat/rocksdb/program.h"

namespace rocksdb_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

class RocksDbCFamiliesTest : public ProgramTest {
 protected:
  // Opens the database with these families, and stores their handles.
  void OpenWith(const std::vector<const char*>& names, bool read_only = false,
                unsigned char error_if_log = 0) {
    Close();
    const std::vector<const rocksdb_options_t*> options(names.size(),
                                                        options_.get());
    std::vector<rocksdb_column_family_handle_t*> handles(names.size());
    const int count = static_cast<int>(names.size());
    db_.reset(read_only
                  ? rocksdb_open_for_read_only_column_families(
                        options_.get(), path_.c_str(), count, names.data(),
                        options.data(), handles.data(), error_if_log, error_)
                  : rocksdb_open_column_families(
                        options_.get(), path_.c_str(), count, names.data(),
                        options.data(), handles.data(), error_));
    if (db_ == nullptr) return;
    for (auto* const handle : handles) families_.emplace_back(handle);
  }
  void Close() {
    families_.clear();
    db_.reset();
  }
  std::vector<std::string> List() {
    size_t count = 0;
    char** const names = rocksdb_list_column_families(
        options_.get(), path_.c_str(), &count, error_);
    std::vector<std::string> list(names, names + count);
    rocksdb_list_column_families_destroy(names, count);
    return list;
  }
  FamilyPtr Create(const char* name) {
    return FamilyPtr(
        rocksdb_create_column_family(db_.get(), options_.get(), name, error_));
  }

  std::vector<FamilyPtr> families_;
};

TEST_F(RocksDbCFamiliesTest, AreCreatedOpenedAndListed) {
  rocksdb_options_set_create_missing_column_families(options_.get(), 1);
  OpenWith({"default", "one"});
  ASSERT_EQ(error_.Take(), "OK");
  ASSERT_EQ(PutTo(families_[1].get(), "a", "1"), "OK");
  EXPECT_EQ(Get("a"), "null");
  EXPECT_EQ(GetFrom(families_[0].get(), "a"), "null");
  EXPECT_EQ(GetFrom(families_[1].get(), "a"), "1");
  Close();
  EXPECT_THAT(List(), ElementsAre("default", "one"));
  OpenWith({"default", "one"}, /*read_only=*/true);
  ASSERT_EQ(error_.Take(), "OK");
  EXPECT_EQ(GetFrom(families_[1].get(), "a"), "1");
  OpenWith({"default", "one"}, /*read_only=*/true, /*error_if_log=*/1);
  EXPECT_THAT(error_.Take(), StartsWith("Corruption: "));
}

TEST_F(RocksDbCFamiliesTest, HandlesHaveIdsAndNames) {
  Open();
  const FamilyPtr first(rocksdb_get_default_column_family_handle(db_.get()));
  const FamilyPtr one = Create("one");
  ASSERT_EQ(error_.Take(), "OK");
  const auto name = [](const FamilyPtr& family) {
    size_t size = 0;
    char* const bytes =
        rocksdb_column_family_handle_get_name(family.get(), &size);
    return TakeBytes(bytes, size);
  };
  EXPECT_EQ(name(first), "default");
  EXPECT_EQ(rocksdb_column_family_handle_get_id(first.get()), 0u);
  EXPECT_EQ(name(one), "one");
  EXPECT_EQ(rocksdb_column_family_handle_get_id(one.get()), 1u);
}

TEST_F(RocksDbCFamiliesTest, OpenNamesMissingAndUnopenedFamilies) {
  Open();
  Create("one");
  ASSERT_EQ(error_.Take(), "OK");
  Close();
  OpenWith({"default"});
  EXPECT_EQ(error_.Take(), "Invalid argument: Column families not opened: one");
  OpenWith({"default", "one", "two"});
  EXPECT_THAT(error_.Take(),
              StartsWith("Invalid argument: Column family not found: two"));
  OpenWith({"one"});
  EXPECT_EQ(error_.Take(),
            "Invalid argument: Default column family not specified");
  size_t count = 0;
  rocksdb_list_column_families_destroy(
      rocksdb_list_column_families(options_.get(), "/no/such/directory", &count,
                                   error_),
      count);
  EXPECT_THAT(error_.Take(), StartsWith("IO error: No such file or directory"));
}

TEST_F(RocksDbCFamiliesTest, SeveralAreCreatedAtOnce) {
  Open();
  const std::array<const char*, 3> names = {"one", "two", "one"};
  size_t count = 0;
  rocksdb_column_family_handle_t** const handles =
      rocksdb_create_column_families(db_.get(), options_.get(), 3, names.data(),
                                     &count, error_);
  EXPECT_EQ(error_.Take(), "Invalid argument: Column family already exists");
  EXPECT_EQ(count, 2u);
  for (size_t i = 0; i < count; ++i) {
    rocksdb_column_family_handle_destroy(handles[i]);
  }
  rocksdb_create_column_families_destroy(handles);
}

TEST_F(RocksDbCFamiliesTest, DroppedFamiliesCanBeReadThroughTheirHandle) {
  Open();
  const FamilyPtr one = Create("one");
  const FamilyPtr first(rocksdb_get_default_column_family_handle(db_.get()));
  ASSERT_EQ(PutTo(one.get(), "a", "1"), "OK");
  rocksdb_drop_column_family(db_.get(), one.get(), error_);
  EXPECT_EQ(error_.Take(), "OK");
  EXPECT_EQ(GetFrom(one.get(), "a"), "1");
  rocksdb_drop_column_family(db_.get(), one.get(), error_);
  EXPECT_THAT(error_.Take(), HasSubstr("Column family already dropped!"));
  rocksdb_drop_column_family(db_.get(), first.get(), error_);
  EXPECT_EQ(error_.Take(),
            "Invalid argument: Can't drop default column family");
}

TEST_F(RocksDbCFamiliesTest, SecondariesCatchUpWithThePrimary) {
  Open();
  FamilyPtr one = Create("one");
  ASSERT_EQ(PutTo(one.get(), "a", "1"), "OK");
  DbPtr primary = std::move(db_);
  const std::string path = directory_.Sub("secondary");
  const std::array<const char*, 2> names = {"default", "one"};
  const std::array<const rocksdb_options_t*, 2> options = {options_.get(),
                                                           options_.get()};
  std::array<rocksdb_column_family_handle_t*, 2> handles = {};
  db_.reset(rocksdb_open_as_secondary_column_families(
      options_.get(), path_.c_str(), path.c_str(), 2, names.data(),
      options.data(), handles.data(), error_));
  ASSERT_EQ(error_.Take(), "OK");
  FamilyPtr first(handles[0]);
  FamilyPtr seen(handles[1]);
  EXPECT_EQ(GetFrom(seen.get(), "a"), "1");
  EXPECT_NE(PutTo(seen.get(), "a", "2"), "OK");
  IteratorPtr iterator(
      rocksdb_create_iterator_cf(db_.get(), read_.get(), seen.get()));
  rocksdb_put_cf(primary.get(), write_.get(), one.get(), "b", 1, "2", 1,
                 error_);
  rocksdb_put(primary.get(), write_.get(), "c", 1, "3", 1, error_);
  EXPECT_EQ(GetFrom(seen.get(), "b"), "null");
  rocksdb_try_catch_up_with_primary(db_.get(), error_);
  EXPECT_EQ(error_.Take(), "OK");
  EXPECT_EQ(GetFrom(seen.get(), "b"), "2");
  EXPECT_EQ(GetFrom(first.get(), "c"), "3");
  EXPECT_EQ(Get("c"), "3");
  EXPECT_EQ(Scan(iterator.get()), "a=1 ");
  iterator.reset(
      rocksdb_create_iterator_cf(db_.get(), read_.get(), seen.get()));
  EXPECT_EQ(Scan(iterator.get()), "a=1 b=2 ");
  // RocksDB wants families to be destroyed before their database.
  iterator.reset();
  first.reset();
  seen.reset();
  db_.reset();
  one.reset();
  primary.reset();
}

TEST_F(RocksDbCFamiliesTest, AreReadAtOnceAndFlushedTogether) {
  Open();
  const FamilyPtr first(rocksdb_get_default_column_family_handle(db_.get()));
  const FamilyPtr one = Create("one");
  ASSERT_EQ(Put("a", "0"), "OK");
  ASSERT_EQ(PutTo(one.get(), "a", "1"), "OK");
  const std::array<const rocksdb_column_family_handle_t*, 2> families = {
      first.get(), one.get()};
  const std::array<const char*, 2> keys = {"a", "a"};
  const std::array<size_t, 2> sizes = {1, 1};
  std::array<char*, 2> values = {};
  std::array<size_t, 2> value_sizes = {};
  std::array<char*, 2> errors = {};
  rocksdb_multi_get_cf(db_.get(), read_.get(), families.data(), 2, keys.data(),
                       sizes.data(), values.data(), value_sizes.data(),
                       errors.data());
  EXPECT_EQ(*values[0], '0');
  EXPECT_EQ(*values[1], '1');
  for (char* value : values) rocksdb_free(value);
  rocksdb_flushoptions_t* const flush = rocksdb_flushoptions_create();
  std::array<rocksdb_column_family_handle_t*, 2> flushed = {first.get(),
                                                            one.get()};
  rocksdb_flush_cfs(db_.get(), flush, flushed.data(), 2, error_);
  rocksdb_flushoptions_destroy(flush);
  EXPECT_EQ(error_.Take(), "OK");
  EXPECT_EQ(TakeText(rocksdb_property_value_cf(db_.get(), one.get(),
                                               "rocksdb.num-files-at-level0")),
            "1");
  const rocksdb_livefiles_t* const files = rocksdb_livefiles(db_.get());
  EXPECT_EQ(rocksdb_livefiles_count(files), 2);
  rocksdb_livefiles_destroy(files);
}

}  // namespace
}  // namespace rocksdb_test
