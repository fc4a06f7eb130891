// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: iterators of RocksDB's C interface move and end as RocksDB's do.
// Method: small databases with each kind of options. These tests also run on
// RocksDB.
#include <gmock/gmock.h>

#include <array>
#include <string>

#include "test/compat/rocksdb/program.h"

namespace rocksdb_test {
namespace {

class RocksDbCIteratorTest : public ProgramTest {
 protected:
  // Three keys of each of the prefixes "a" and "b".
  void Fill() {
    Open();
    for (const char* key : {"a1", "a2", "a3", "b1", "b2", "b3"}) {
      ASSERT_EQ(Put(key, "v"), "OK");
    }
  }
  IteratorPtr NewIterator() {
    return IteratorPtr(rocksdb_create_iterator(db_.get(), read_.get()));
  }
};

TEST_F(RocksDbCIteratorTest, MovesInBothDirections) {
  Fill();
  const IteratorPtr iterator = NewIterator();
  EXPECT_EQ(rocksdb_iter_valid(iterator.get()), 0);
  EXPECT_EQ(Scan(iterator.get()), "a1=v a2=v a3=v b1=v b2=v b3=v ");
  rocksdb_iter_seek(iterator.get(), "a3", 2);
  rocksdb_iter_next(iterator.get());
  EXPECT_EQ(Entry(iterator.get()), "b1=v");
  rocksdb_iter_seek_for_prev(iterator.get(), "azz", 3);
  EXPECT_EQ(Entry(iterator.get()), "a3=v");
  rocksdb_iter_prev(iterator.get());
  EXPECT_EQ(Entry(iterator.get()), "a2=v");
  rocksdb_iter_seek_to_last(iterator.get());
  const rocksdb_slice_t key = rocksdb_iter_key_slice(iterator.get());
  const rocksdb_slice_t value = rocksdb_iter_value_slice(iterator.get());
  EXPECT_EQ(std::string(key.data, key.size), "b3");
  EXPECT_EQ(std::string(value.data, value.size), "v");
}

TEST_F(RocksDbCIteratorTest, StaysWithinBounds) {
  Fill();
  rocksdb_readoptions_set_iterate_lower_bound(read_.get(), "a2", 2);
  rocksdb_readoptions_set_iterate_upper_bound(read_.get(), "b2", 2);
  const IteratorPtr iterator = NewIterator();
  EXPECT_EQ(Scan(iterator.get()), "a2=v a3=v b1=v ");
  rocksdb_iter_seek_to_last(iterator.get());
  EXPECT_EQ(Entry(iterator.get()), "b1=v");
}

TEST_F(RocksDbCIteratorTest, StaysWithinAPrefix) {
  rocksdb_options_set_prefix_extractor(
      options_.get(), rocksdb_slicetransform_create_fixed_prefix(1));
  Fill();
  rocksdb_readoptions_set_prefix_same_as_start(read_.get(), 1);
  const IteratorPtr iterator = NewIterator();
  rocksdb_iter_seek(iterator.get(), "a2", 2);
  EXPECT_EQ(Rest(iterator.get()), "a2=v a3=v ");
  rocksdb_iter_seek(iterator.get(), "a4", 2);
  EXPECT_EQ(rocksdb_iter_valid(iterator.get()), 0);
  rocksdb_iter_seek(iterator.get(), "b3", 2);
  EXPECT_EQ(Rest(iterator.get()), "b3=v ");
}

TEST_F(RocksDbCIteratorTest, AsksFiltersOnlyIfToldSo) {
  rocksdb_options_set_prefix_extractor(
      options_.get(), rocksdb_slicetransform_create_fixed_prefix(2));
  auto* const table = rocksdb_block_based_options_create();
  rocksdb_block_based_options_set_filter_policy(
      table, rocksdb_filterpolicy_create_bloom(20));
  rocksdb_options_set_block_based_table_factory(options_.get(), table);
  rocksdb_block_based_options_destroy(table);
  rocksdb_options_set_memtable_prefix_bloom_size_ratio(options_.get(), 0.1);
  for (const bool opts_in : {false, true}) {
    rocksdb_options_set_prefix_seek_opt_in_only(options_.get(), opts_in);
    db_.reset();
    Fill();
    // The memtable has no key with the prefix "a9".
    const IteratorPtr iterator = NewIterator();
    rocksdb_iter_seek(iterator.get(), "a9", 2);
    EXPECT_EQ(Rest(iterator.get()), opts_in ? "b1=v b2=v b3=v " : "");
    rocksdb_readoptions_set_total_order_seek(read_.get(), 1);
    const IteratorPtr total = NewIterator();
    rocksdb_readoptions_set_total_order_seek(read_.get(), 0);
    rocksdb_iter_seek(total.get(), "a9", 2);
    EXPECT_EQ(Rest(total.get()), "b1=v b2=v b3=v ");
  }
}

TEST_F(RocksDbCIteratorTest, SeesAMomentUntilItIsRefreshed) {
  Fill();
  const IteratorPtr iterator = NewIterator();
  ASSERT_EQ(Put("c", "new"), "OK");
  rocksdb_iter_seek(iterator.get(), "b3", 2);
  EXPECT_EQ(Rest(iterator.get()), "b3=v ");
  rocksdb_iter_refresh(iterator.get(), error_);
  EXPECT_EQ(error_.Take(), "OK");
  rocksdb_iter_seek(iterator.get(), "b3", 2);
  EXPECT_EQ(Rest(iterator.get()), "b3=v c=new ");
}

TEST_F(RocksDbCIteratorTest, ATailingIteratorSeesNewKeys) {
  Fill();
  rocksdb_readoptions_set_tailing(read_.get(), 1);
  const IteratorPtr iterator = NewIterator();
  rocksdb_iter_seek(iterator.get(), "c", 1);
  EXPECT_EQ(rocksdb_iter_valid(iterator.get()), 0);
  ASSERT_EQ(Put("c", "new"), "OK");
  rocksdb_iter_seek(iterator.get(), "c", 1);
  EXPECT_EQ(Entry(iterator.get()), "c=new");
  ASSERT_EQ(Put("d", "newer"), "OK");
  EXPECT_EQ(Rest(iterator.get()), "c=new d=newer ");
}

TEST_F(RocksDbCIteratorTest, IteratorsOfFamiliesSeeOneMoment) {
  Open();
  const FamilyPtr family(
      rocksdb_create_column_family(db_.get(), options_.get(), "other", error_));
  ASSERT_EQ(error_.Take(), "OK");
  const FamilyPtr first(rocksdb_get_default_column_family_handle(db_.get()));
  ASSERT_EQ(Put("a", "1"), "OK");
  ASSERT_EQ(PutTo(family.get(), "b", "2"), "OK");
  rocksdb_readoptions_set_iterate_upper_bound(read_.get(), "c", 1);
  std::array<rocksdb_column_family_handle_t*, 2> families = {first.get(),
                                                             family.get()};
  std::array<rocksdb_iterator_t*, 2> iterators = {};
  rocksdb_create_iterators(db_.get(), read_.get(), families.data(),
                           iterators.data(), 2, error_);
  ASSERT_EQ(error_.Take(), "OK");
  ASSERT_EQ(PutTo(family.get(), "bb", "3"), "OK");
  const IteratorPtr of_first(iterators[0]);
  const IteratorPtr of_other(iterators[1]);
  EXPECT_EQ(Scan(of_first.get()), "a=1 ");
  EXPECT_EQ(Scan(of_other.get()), "b=2 ");
  const IteratorPtr newer(
      rocksdb_create_iterator_cf(db_.get(), read_.get(), family.get()));
  EXPECT_EQ(Scan(newer.get()), "b=2 bb=3 ");
}

}  // namespace
}  // namespace rocksdb_test
