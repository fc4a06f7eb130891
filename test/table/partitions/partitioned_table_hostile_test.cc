// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: damage to tables with partitioned indexes and filters is noticed, what
// is left of them can be recovered, and hostile ones cost no more than their
// size. Method: every byte of one changed; separators and handles that lie.

#include "table/build/table_salvage.h"
#include "table/cache/block_cache.h"
#include "table/reader/part_cache.h"
#include "test/table/partitions/partitioned_table_use.h"
#include "test/testing/status_checks.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

using ::testing::HasSubstr;

// ---- Damage -----------------------------------------------------------------

// Calls every operation on a table that may be damaged. Returns true if all
// succeeded.
bool UseAll(const TableReaderOptions& options, const std::string& bytes) {
  std::unique_ptr<Table> table;
  if (!Open(options, bytes, &table).ok()) return false;
  KeysAndValues entries;
  bool ok = Scan(*table, &entries).ok();
  const auto it = table->NewIterator(ReadOptions());
  for (it->SeekToLast(); it->Valid(); it->Prev()) {
  }
  ok &= it->status().ok();
  for (const std::string& key : {std::string(), Numbered(10), Numbered(11)}) {
    LookupState state;
    std::string value;
    ok &= GetAt(*table, key, 9, &state, &value).ok();
    table->ApproximateOffsetOf(Key(key));
  }
  return table->VerifyChecksum().ok() && ok;
}

// With all partitions loaded at once, and one by one.
bool UseAll(const std::string& bytes) {
  TableReaderOptions options = ReaderOptions(bytes);
  const bool whole = UseAll(options, bytes);
  const std::shared_ptr<Cache> cache = NewBlockCache(size_t{4} << 10);
  options.block_cache = static_cast<BlockCache*>(cache.get());
  options.part_cache = std::make_shared<PartCache>(options.block_cache);
  const bool by_parts = UseAll(options, bytes);
  EXPECT_EQ(whole, by_parts);
  return whole;
}

TEST(PartitionedTableHostileTest, NoticesEveryChangedByte) {
  PartitionedForm form;
  form.block_entries = 2;
  form.partition_blocks = 3;
  const std::string bytes =
      PartitionedTable(form, NumberedEntries(24)).Finish();
  ASSERT_TRUE(UseAll(bytes));
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (const int change : {1, 0x80, 0xFF}) {
      std::string changed = bytes;
      changed[i] = static_cast<char>(changed[i] ^ change);
      const bool ok = UseAll(changed);
      // The footer has padding, and no checksum.
      if (i < bytes.size() - Footer::kSize) {
        ASSERT_FALSE(ok) << "byte " << i;
      }
    }
  }
}

TEST(PartitionedTableHostileTest, SurvivesEveryChangedByteWithoutChecksums) {
  for (const bool user_keys : {false, true}) {
    PartitionedForm form;
    form.user_keys = user_keys;
    form.delta = user_keys;
    form.checksum = ChecksumType::kNone;
    form.block_entries = 2;
    form.partition_blocks = 2;
    form.filter_blocks = 1;
    const std::string bytes =
        PartitionedTable(form, NumberedEntries(12)).Finish();
    for (size_t i = 0; i < bytes.size(); ++i) {
      for (int bit = 0; bit < 8; ++bit) {
        std::string changed = bytes;
        changed[i] = static_cast<char>(changed[i] ^ (1 << bit));
        UseAll(ReaderOptions(changed), changed);
      }
      std::string full = bytes;
      full[i] = '\xFF';
      UseAll(full);
    }
  }
}

TEST(PartitionedTableHostileTest, VerificationCountsPartitions) {
  const KeysAndValues entries = NumberedEntries(100);
  PartitionedTable table({}, entries);
  ASSERT_EQ(table.index_partitions.size(), 9u);
  table.partitions_told = 10;
  const std::string bytes = table.Finish();
  std::unique_ptr<Table> opened;
  ASSERT_TRUE(Open(ReaderOptions(bytes), bytes, &opened).ok());
  EXPECT_EQ(opened->properties().index_partitions, 10u);
  EXPECT_EQ(Lookup(*opened, Numbered(10)), "value 5");
  EXPECT_THAT(opened->VerifyChecksum().ToString(),
              HasSubstr("the index has 9 partitions, the properties say 10"));
}

struct Salvaged {
  Status status;
  KeysAndValues entries;
};

Salvaged Salvage(const std::string& bytes) {
  Salvaged result;
  result.status = SalvageTable(
      ReaderOptions(bytes), std::make_unique<StringRandomAccessFile>(bytes),
      false, [&result](const Slice& key, const Slice& value) {
        result.entries.emplace_back(key.ToString(), value.ToString());
      });
  return result;
}

TEST(PartitionedTableHostileTest, DamagedTablesKeepTheirEntries) {
  const KeysAndValues entries = NumberedEntries(100);
  for (const bool user_keys : {false, true}) {
    PartitionedForm form;
    form.user_keys = user_keys;
    form.delta = user_keys;
    form.format_version = user_keys ? 5 : 2;
    PartitionedTable table(form, entries);
    const auto partitions = table.index_partitions;
    const auto filters = table.filter_partitions;
    const std::string whole = table.Finish();
    const Footer& footer = table.footer();
    const uint64_t damaged[] = {partitions[0].handle.offset,
                                partitions[3].handle.offset + 3,
                                filters[0].handle.offset,
                                footer.index.offset + 1,
                                footer.metaindex.offset + 1,
                                footer.metaindex.offset - 20,  // Properties.
                                whole.size() - 20};
    EXPECT_EQ(Salvage(whole).entries, entries);
    for (const uint64_t place : damaged) {
      SCOPED_TRACE(place);
      std::string bytes = whole;
      bytes[place] = static_cast<char>(bytes[place] ^ 0x40);
      const Salvaged salvaged = Salvage(bytes);
      EXPECT_TRUE(salvaged.status.ok()) << salvaged.status.ToString();
      EXPECT_EQ(salvaged.entries, entries);
    }
    // Both the description and an index partition.
    std::string bytes = whole;
    bytes[footer.metaindex.offset - 20] ^= 1;
    bytes[partitions[0].handle.offset] ^= 1;
    EXPECT_EQ(Salvage(bytes).entries, entries);
    // An ordinary index is not taken for a partitioned one.
    form.partitioned_index = false;
    PartitionedTable ordinary(form, entries);
    bytes = ordinary.Finish();
    bytes[ordinary.footer().metaindex.offset - 20] ^= 1;
    EXPECT_EQ(Salvage(bytes).entries, entries);
  }
}

// Separators between versions of one key have the form of a data block's keys,
// so partitions can be read as data blocks.
TEST(PartitionedTableHostileTest, FirstWholePartitionTellsTheFormOfTheIndex) {
  KeysAndValues entries;
  for (int i = 0; i < 100; ++i) {
    entries.emplace_back(Key("key", static_cast<SequenceNumber>(200 - i)),
                         "value " + std::to_string(i));
  }
  PartitionedForm form;
  form.user_keys = false;
  form.delta = false;
  form.format_version = 2;
  PartitionedTable table(form, entries);
  const auto partitions = table.index_partitions;
  ASSERT_EQ(partitions.size(), 9u);
  const auto blocks = table.blocks;
  const std::string whole = table.Finish();
  EXPECT_EQ(Salvage(whole).entries, entries);
  // The description, and all partitions but the last.
  std::string bytes = whole;
  bytes[table.footer().metaindex.offset - 20] ^= 1;
  for (size_t i = 0; i + 1 < partitions.size(); ++i) {
    SCOPED_TRACE(i);
    bytes[partitions[i].handle.offset] ^= 1;
    const Salvaged salvaged = Salvage(bytes);
    EXPECT_TRUE(salvaged.status.ok()) << salvaged.status.ToString();
    EXPECT_EQ(salvaged.entries, entries);
  }
  // The description, and the first block of the first partition.
  bytes = whole;
  bytes[table.footer().metaindex.offset - 20] ^= 1;
  bytes[blocks[0].handle.offset] ^= 1;
  EXPECT_EQ(Salvage(bytes).entries,
            KeysAndValues(entries.begin() + 3, entries.end()));
}

// ---- Tables that lie --------------------------------------------------------

std::string OpenError(PartitionedTable* table) {
  const std::string bytes = table->Finish();
  std::unique_ptr<Table> opened;
  return Open(ReaderOptions(bytes), bytes, &opened).ToString();
}

TEST(PartitionedTableHostileTest, RefusesPartitionsThatLie) {
  using Partitions = std::vector<IndexEntry>;
  struct Case {
    const char* what;
    const char* message;
    void (*spoil)(PartitionedTable*, Partitions*);
  };
  const Case cases[] = {
      {"offset beyond the file", "block handle beyond the file",
       [](PartitionedTable*, Partitions* all) {
         (*all)[1].handle.offset = 1 << 30;
       }},
      {"size beyond the file", "block handle beyond the file",
       [](PartitionedTable*, Partitions* all) {
         (*all)[1].handle.size = uint64_t{1} << 62;
       }},
      {"one partition twice", "the keys are not inside the partition",
       [](PartitionedTable*, Partitions* all) {
         (*all)[1].handle = (*all)[0].handle;
       }},
      {"exchanged", "the keys are not inside the partition",
       [](PartitionedTable*, Partitions* all) {
         std::swap((*all)[0].handle, (*all)[1].handle);
       }},
      {"exchanged with their separators",
       "the keys are not inside the partition",
       [](PartitionedTable*, Partitions* all) {
         std::swap((*all)[0], (*all)[1]);
       }},
      {"a separator before the partition's keys",
       "the keys are not inside the partition",
       [](PartitionedTable* table, Partitions* all) {
         (*all)[1].separator =
             table->user_keys() ? "key000000" : Key("key000000");
       }},
      {"a separator before all keys", "the keys are not inside the partition",
       [](PartitionedTable* table, Partitions* all) {
         (*all)[0].separator = table->user_keys() ? "a" : Key("a");
       }},
      {"overlapping", "checksum mismatch",
       [](PartitionedTable*, Partitions* all) {
         (*all)[1].handle.offset -= 10;
       }},
      {"a data block", "partition at offset 0",
       [](PartitionedTable* table, Partitions* all) {
         (*all)[0].handle = table->blocks[0].handle;
       }},
      {"not a block", "a block of 2 bytes",
       [](PartitionedTable* table, Partitions* all) {
         (*all)[1].handle = table->Add("xx");
       }},
      {"many handles to one block", "more blocks than the file has space for",
       [](PartitionedTable* table, Partitions* all) {
         const BlockHandle large = table->Add(std::string(50000, 'x'));
         for (IndexEntry& entry : *all) entry.handle = large;
       }},
      {"data blocks named again", "more blocks than the file has space for",
       [](PartitionedTable* table, Partitions* all) {
         const BlockHandle large = table->Add(std::string(3000, 'x'));
         Partitions entries;
         for (int i = 0; i < 40; ++i) {
           entries.push_back({(*all)[0].separator, large});
         }
         (*all)[0].handle = table->Add(table->IndexBody(entries));
       }},
  };
  for (const bool user_keys : {false, true}) {
    for (const Case& c : cases) {
      SCOPED_TRACE(c.what);
      PartitionedForm form;
      form.user_keys = user_keys;
      PartitionedTable table(form, NumberedEntries(100));
      c.spoil(&table, &table.index_partitions);
      const std::string error = OpenError(&table);
      EXPECT_THAT(error, HasSubstr("Corruption: "));
      EXPECT_THAT(error, HasSubstr("000007.sst offset"));
      EXPECT_THAT(error, HasSubstr(c.message));
    }
  }
}

// A partition that is the block that names it. The blocks that it seems to name
// are no data blocks.
TEST(PartitionedTableHostileTest, PartitionThatNamesItselfIsNoLoop) {
  PartitionedForm form;
  form.filter_blocks = 0;
  PartitionedTable table(form, NumberedEntries(3));
  ASSERT_EQ(table.index_partitions.size(), 1u);
  // The block has the size that it will have with the handle to itself.
  table.index_partitions[0].handle = {table.bytes.size(), 0};
  const size_t size = table.IndexBody(table.index_partitions).size();
  table.index_partitions[0].handle.size = size;
  ASSERT_EQ(table.IndexBody(table.index_partitions).size(), size);
  const std::string bytes = table.Finish();
  ASSERT_EQ(table.footer().index.offset,
            table.index_partitions[0].handle.offset);
  std::unique_ptr<Table> opened;
  ASSERT_TRUE(Open(ReaderOptions(bytes), bytes, &opened).ok());
  EXPECT_FALSE(UseAll(bytes));
  EXPECT_THAT(Lookup(*opened, Numbered(0)), HasSubstr("Corruption"));
}

TEST(PartitionedTableHostileTest, EmptyPartitionsAreSkipped) {
  const KeysAndValues entries = NumberedEntries(100);
  for (const bool user_keys : {false, true}) {
    PartitionedForm form;
    form.user_keys = user_keys;
    PartitionedTable table(form, entries);
    const auto partitions = table.index_partitions;
    table.index_partitions.clear();
    for (const IndexEntry& partition : partitions) {
      const auto add_empty = [&](const std::string& separator) {
        const BlockHandle empty = table.Add(table.IndexBody({}));
        table.index_partitions.push_back({separator, empty});
      };
      if (table.index_partitions.empty()) {
        add_empty(user_keys ? "a" : Key("a"));
      }
      table.index_partitions.push_back(partition);
      add_empty(partition.separator);
    }
    const std::string bytes = table.Finish();
    std::unique_ptr<Table> opened;
    ASSERT_TRUE(Ok(Open(ReaderOptions(bytes), bytes, &opened)));
    ASSERT_NO_FATAL_FAILURE(CheckTable(*opened, entries));
  }
}

// Each partition is 20 MB of keys in 35 kB.
TEST(PartitionedTableHostileTest, KeysOfAllPartitionsAreBoundedTogether) {
  PartitionedForm form;
  form.user_keys = false;
  form.delta = false;
  form.filter_blocks = 0;
  for (const int count : {1, 4}) {
    PartitionedTable table(form, NumberedEntries(1));
    table.index_partitions.clear();
    // Space for the blocks that the entries seem to name.
    table.Add(std::string(1 << 20, 'x'));
    for (int i = 0; i < count; ++i) {
      const std::string separator = Key(Numbered(i) + std::string(4000, 'x'));
      const std::string handle(2, '\0');
      table.index_partitions.push_back(
          {separator,
           table.Add(testing::BodyThatGrows(separator, handle, 5000))});
    }
    const std::string error = OpenError(&table);
    if (count == 1) {
      EXPECT_EQ(error, "OK");
    } else {
      EXPECT_THAT(error, HasSubstr("the separators take too much memory"));
    }
  }
}

// An index may be large once decompressed, but not each of its partitions.
TEST(PartitionedTableHostileTest,
     PartitionsAreNotCompressedOutOfAllProportion) {
  PartitionedForm form;
  form.compression = CompressionType::kZSTD;
  form.filter_blocks = 0;
  for (const size_t size : {size_t{10000}, size_t{16} << 20}) {
    PartitionedTable table(form, NumberedEntries(1));
    const std::string separator(size, 'x');
    table.index_partitions.assign(
        1, {separator,
            table.Add(table.IndexBody({{separator, table.blocks[0].handle}}),
                      CompressionType::kZSTD)});
    const std::string error = OpenError(&table);
    if (size == 10000) {
      EXPECT_EQ(error, "OK");
    } else {
      EXPECT_THAT(error, HasSubstr("Corruption: "));
      EXPECT_THAT(error, HasSubstr("impossible raw size"));
    }
  }
}

}  // namespace
}  // namespace varve::test
