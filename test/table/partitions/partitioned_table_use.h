// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Entries for partitioned tables, and checks that a table has them.

#include "table/build/table_builder.h"
#include "table/cache/block_cache.h"
#include "table/reader/part_cache.h"
#include "table/reader/table.h"
#include "test/table/partitions/partitioned_table.h"
#include "test/testing/env/string_file.h"
#include "test/testing/env/string_random_access_file.h"
#include "test/testing/status_checks.h"
#include "test/testing/table/table_lookup.h"
#include "test/testing/test_headers.h"

namespace varve::testing {

using test::GetAt;

inline const InternalKeyComparator kTableComparator(BytewiseComparator());

inline std::string Key(const Slice& user_key, SequenceNumber sequence = 5) {
  return MakeInternalKey(user_key, PackTrailer(sequence, ValueType::kValue));
}

inline std::string Numbered(int i) {
  char text[16];
  snprintf(text, sizeof(text), "key%06d", i);
  return text;
}

// Every second number, so that the others are absent.
inline KeysAndValues NumberedEntries(int count) {
  KeysAndValues entries;
  for (int i = 0; i < count; ++i) {
    entries.emplace_back(Key(Numbered(2 * i)), "value " + std::to_string(i));
  }
  return entries;
}

inline TableReaderOptions ReaderOptions(const std::string& bytes) {
  TableReaderOptions options;
  options.comparator = &kTableComparator;
  options.file_name = "000007.sst";
  options.file_size = bytes.size();
  return options;
}

inline Status Open(const TableReaderOptions& options, const std::string& bytes,
                   std::unique_ptr<Table>* table, ReadLog* log = nullptr) {
  return Table::Open(
      options, std::make_unique<StringRandomAccessFile>(bytes, log), table);
}

inline std::string Lookup(const Table& table, const Slice& user_key,
                          SequenceNumber sequence = kMaxSequenceNumber) {
  LookupState state;
  std::string value;
  const Status s = GetAt(table, user_key, sequence, &state, &value);
  if (!s.ok()) return s.ToString();
  return state == LookupState::kFound ? value : "absent";
}

inline Status Scan(const Table& table, KeysAndValues* entries) {
  const auto it = table.NewIterator(ReadOptions());
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
    entries->emplace_back(it->key().ToString(), it->value().ToString());
  }
  return it->status();
}

inline void CheckTable(const Table& table, const KeysAndValues& entries) {
  KeysAndValues found;
  Status s = Scan(table, &found);
  ASSERT_TRUE(Ok(s));
  ASSERT_EQ(found, entries);
  const auto it = table.NewIterator(ReadOptions());
  size_t i = entries.size();
  for (it->SeekToLast(); it->Valid(); it->Prev()) {
    ASSERT_EQ(it->key(), entries[--i].first);
  }
  ASSERT_EQ(i, 0u);
  for (i = 0; i < entries.size(); ++i) {
    const auto& [key, value] = entries[i];
    const Slice user_key = ExtractUserKey(key);
    ASSERT_EQ(Lookup(table, user_key, ExtractSequence(key)), value);
    const std::string absent = user_key.ToString() + "/";
    ASSERT_EQ(Lookup(table, absent), "absent");
    it->Seek(key);
    ASSERT_TRUE(it->Valid());
    ASSERT_EQ(it->key(), key);
    test::SeekInSteps(Key(absent), it.get());
    size_t next = i + 1;
    while (next < entries.size() &&
           ExtractUserKey(entries[next].first) == user_key) {
      ++next;
    }
    ASSERT_EQ(it->Valid(), next < entries.size());
    if (it->Valid()) {
      ASSERT_EQ(it->key(), entries[next].first);
    }
    it->SeekForPrev(Key(absent));
    ASSERT_TRUE(it->Valid());
    ASSERT_EQ(ExtractUserKey(it->key()), user_key);
  }
  ASSERT_EQ(Lookup(table, ""), "absent");
  ASSERT_EQ(Lookup(table, "zzz"), "absent");
  it->Seek(Key("zzz"));
  ASSERT_FALSE(it->Valid());
  ASSERT_TRUE(it->status().ok());
  s = table.VerifyChecksum();
  ASSERT_TRUE(Ok(s));
}

// Returns a partitioned table as Varve writes it.
inline std::string BuildPartitioned(const KeysAndValues& entries,
                                    uint64_t partition_bytes,
                                    bool with_filter = true) {
  TableBuilderOptions options;
  options.comparator = &kTableComparator;
  options.block_size = 200;
  options.partitioned_index = true;
  options.partition_filters = with_filter;
  options.metadata_block_size = partition_bytes;
  if (with_filter) options.filter_policy = NewBloomFilterPolicy(10);
  StringFile file;
  TableBuilder builder(options, &file);
  for (const auto& [key, value] : entries) builder.Add(key, value);
  EXPECT_TRUE(Ok(builder.Finish()));
  return file.contents();
}

// Tests of tables of which the parts are read one by one.
class PartsTestBase : public ::testing::Test {
 protected:
  // Tables are charged to a new cache of that size.
  void UseCache(size_t bytes, bool strict = false) {
    cache_ = NewBlockCache(
        {.capacity_bytes = bytes, .strict_capacity_limit = strict});
    parts_ =
        std::make_shared<PartCache>(static_cast<BlockCache*>(cache_.get()));
  }
  TableReaderOptions Options(const std::string& bytes) const {
    TableReaderOptions options = ReaderOptions(bytes);
    options.block_cache = static_cast<BlockCache*>(cache_.get());
    options.part_cache = parts_;
    options.tail_size = bytes.size();
    return options;
  }

  std::shared_ptr<Cache> cache_;
  std::shared_ptr<PartCache> parts_;
  ReadLog log_;
};

}  // namespace varve::testing

namespace varve::test {

using testing::BuildPartitioned;
using testing::CheckTable;
using testing::IndexEntry;
using testing::Key;
using testing::KeysAndValues;
using testing::Lookup;
using testing::Numbered;
using testing::NumberedEntries;
using testing::Open;
using testing::PartitionedForm;
using testing::PartitionedTable;
using testing::ReaderOptions;
using testing::ReadLog;
using testing::Scan;
using testing::StringRandomAccessFile;

}  // namespace varve::test
