// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: opening, reading, verifying or repairing a small hostile table takes
// memory and time in proportion to its size, though all its checksums are
// right. Method: tables assembled here, block by block, whose blocks grow when
// they are decoded or decompressed, or are named repeatedly. Each has an honest
// counterpart that looks like it and must be read.

#include "table/block/block_builder.h"
#include "table/block/format.h"
#include "table/block/properties.h"
#include "table/build/table_salvage.h"
#include "table/reader/table.h"
#include "table/reader/table_opener.h"
#include "test/testing/env/string_random_access_file.h"
#include "test/testing/seed.h"
#include "test/testing/status_checks.h"
#include "test/testing/table/table_bytes.h"
#include "test/testing/table/table_lookup.h"
#include "test/testing/test_headers.h"
#include "util/bytes/checksum.h"
#include "util/bytes/coding.h"
#include "util/bytes/compression.h"
#include "varve/filter_policy.h"

namespace varve::test {
namespace {

using ::testing::HasSubstr;
using testing::StringRandomAccessFile;

const InternalKeyComparator kComparator(BytewiseComparator());

std::string Key(const Slice& user_key, ValueType type = ValueType::kValue) {
  return MakeInternalKey(user_key, PackTrailer(5, type));
}

std::string Body(
    const std::vector<std::pair<std::string, std::string>>& entries) {
  BlockBuilder builder(1);
  for (const auto& [key, value] : entries) builder.Add(key, value);
  return *builder.Finish();
}

// A table with a data block of one entry, "a", and whatever else is put in.
class Maker {
 public:
  explicit Maker(uint32_t format_version = kWrittenFormatVersion) {
    footer_.format_version = format_version;
    footer_.checksum =
        format_version == 0 ? ChecksumType::kCrc32c : ChecksumType::kXxh3;
    data_ = Add(Body({{Key("a"), "v"}}));
  }

  BlockHandle Add(const std::string& body,
                  CompressionType type = CompressionType::kNone) {
    std::string stored;
    if (type == CompressionType::kNone) {
      stored = body;
    } else {
      EXPECT_TRUE(
          Compressor(type, kDefaultCompressionLevel).Compress(body, &stored));
    }
    return testing::AppendBlock(stored, type, footer_.checksum, &bytes_);
  }
  void AddMeta(const std::string& name, const std::string& body,
               CompressionType type = CompressionType::kNone) {
    meta_[name] = Encoded(Add(body, type));
  }
  void SetIndex(const std::string& body, CompressionType type) {
    footer_.index = Add(body, type);
  }
  void SetMetaindex(const std::string& body,
                    CompressionType type = CompressionType::kNone) {
    footer_.metaindex = Add(body, type);
  }

  std::string Metaindex() const { return Body({meta_.begin(), meta_.end()}); }
  std::string Finish() {
    if (footer_.index.size == 0) {
      SetIndex(Body({{Key("b"), Encoded(data_)}}), CompressionType::kNone);
    }
    if (footer_.metaindex.size == 0) SetMetaindex(Metaindex());
    if (footer_.format_version > 0) {
      footer_.EncodeTo(&bytes_);
    } else {
      std::string handles = Encoded(footer_.metaindex) + Encoded(footer_.index);
      handles.resize(Footer::kLegacySize - sizeof(uint64_t));
      PutFixed64(&handles, kLegacyTableMagic);
      bytes_ += handles;
    }
    return bytes_;
  }

  static std::string Encoded(const BlockHandle& handle) {
    std::string result;
    handle.EncodeTo(&result);
    return result;
  }
  const BlockHandle& data() const { return data_; }
  const std::string& bytes() const { return bytes_; }

 private:
  Footer footer_;
  std::string bytes_;
  BlockHandle data_;
  std::map<std::string, std::string> meta_;
};

TableReaderOptions ReaderOptions(const std::string& bytes) {
  TableReaderOptions options;
  options.comparator = &kComparator;
  options.file_name = "000007.sst";
  options.file_size = bytes.size();
  return options;
}

// Returns the result of reading the table in all ways.
std::string Use(const TableReaderOptions& options, const std::string& bytes) {
  std::unique_ptr<Table> table;
  Status s = Table::Open(
      options, std::make_unique<StringRandomAccessFile>(bytes), &table);
  if (!s.ok()) return s.ToString();
  LookupState state;
  std::string value;
  s = GetAt(*table, "a", 9, &state, &value);
  if (s.ok()) s = table->VerifyChecksum();
  if (!s.ok()) return s.ToString();
  return state == LookupState::kFound ? "found " + value : "not found";
}
std::string Use(const std::string& bytes) {
  return Use(ReaderOptions(bytes), bytes);
}

struct Salvaged {
  size_t entries = 0;
  size_t bytes = 0;
};

Salvaged Salvage(const std::string& bytes) {
  Salvaged result;
  const Status s = SalvageTable(
      ReaderOptions(bytes), std::make_unique<StringRandomAccessFile>(bytes),
      false, [&result](const Slice& key, const Slice& value) {
        ++result.entries;
        result.bytes += key.size() + value.size();
      });
  EXPECT_TRUE(Ok(s));
  return result;
}

// Returns whether a table had its entry, or was refused with these words.
::testing::AssertionResult Said(const std::string& said, bool fine,
                                const std::string& error,
                                const std::string& reason) {
  return ::testing::AssertionResult(
             fine ? said == "found v"
                  : said.find(error) != std::string::npos &&
                        said.find(reason) != std::string::npos)
         << said;
}

TEST(TableHostileTest, RangeDeletionsThatShareAreBounded) {
  // 100 MB from 60 kB.
  const std::string key =
      Key(std::string(10000, 'c'), ValueType::kRangeDeletion);
  for (const int count : {20, 10000}) {
    Maker maker;
    maker.AddMeta(kRangeTombstoneBlockName,
                  testing::BodyThatGrows(key, "d", count));
    // The scan of a table that has lost its end finds the same block.
    EXPECT_EQ(Salvage(maker.bytes()).entries, 1u + (count == 20 ? 20 : 0));
    const bool fine = count == 20;
    EXPECT_TRUE(Said(Use(maker.Finish()), fine,
                     "Corruption: range deletions 000007.sst",
                     "the keys take too much memory"));
  }
}

TEST(TableHostileTest, RangeDeletionsOfManyBlocksAreBoundedTogether) {
  Maker maker;
  const std::string key =
      Key(std::string(4000, 'c'), ValueType::kRangeDeletion);
  for (int i = 0; i < 10; ++i)
    maker.Add(testing::BodyThatGrows(key, "d", 1000));
  EXPECT_GT(Salvage(maker.bytes()).bytes, size_t{4} << 20);
  EXPECT_LT(Salvage(maker.bytes()).bytes, size_t{20} << 20);
}

TEST(TableHostileTest, NamesOfTheMetaindexAreBounded) {
  for (const int count : {20, 1000}) {
    Maker maker;
    const std::string name(30000, 'z');
    const std::string empty = Maker::Encoded(maker.Add(""));
    maker.SetMetaindex(testing::BodyThatGrows(name, empty, count));
    const bool fine = count == 20;
    EXPECT_TRUE(Said(Use(maker.Finish()), fine,
                     "Corruption: metaindex 000007.sst",
                     "the names take too much memory"));
  }
}

TEST(TableHostileTest, MetaindexNamesABlockOnce) {
  for (const int count : {1, 100}) {
    Maker maker;
    const BlockHandle large = maker.Add(std::string(100000, 'x'));
    std::vector<std::pair<std::string, std::string>> names;
    for (int i = 0; i < count; ++i) {
      names.emplace_back("z" + std::to_string(100 + i), Maker::Encoded(large));
    }
    maker.SetMetaindex(Body(names));
    const bool fine = count == 1;
    EXPECT_TRUE(Said(Use(maker.Finish()), fine,
                     "Corruption: metaindex 000007.sst",
                     "more blocks than the file has space for"));
  }
}

TEST(TableHostileTest, IndexNamesABlockOnce) {
  Maker maker;
  const BlockHandle large =
      maker.Add(Body({{Key("b"), std::string(100000, 'x')}}));
  std::vector<std::pair<std::string, std::string>> entries = {
      {Key("a"), Maker::Encoded(maker.data())}};
  for (int i = 100; i < 200; ++i) {
    entries.emplace_back(Key("b" + std::to_string(i)), Maker::Encoded(large));
  }
  maker.SetIndex(Body(entries), CompressionType::kNone);
  const std::string said = Use(maker.Finish());
  EXPECT_THAT(said, HasSubstr("Corruption: 000007.sst"));
  EXPECT_THAT(said, HasSubstr("more blocks than the file has space for"));
}

// Else 33 KiB could be a GiB, as many times as there are such blocks.
TEST(TableHostileTest, BlocksThatAreNeverCompressedAreNotDecompressed) {
  // Honest, but for being compressed.
  const std::string deletions =
      Body({{Key(std::string(200, 'x'), ValueType::kRangeDeletion),
             std::string(200, 'y')}});
  PropertiesBlock properties;
  properties.comparator = BytewiseComparator()->Name();
  properties.db_identity = std::string(200, 'i');
  const std::pair<const char*, std::string> cases[] = {
      {kRangeTombstoneBlockName, deletions},
      {kCompressionDictionaryBlockName, std::string(200, 'd')},
      {kPropertiesBlockName, EncodeProperties(properties)},
      {kOldPropertiesBlockName, EncodeProperties(properties)},
  };
  for (const auto& [name, body] : cases) {
    SCOPED_TRACE(name);
    Maker raw;
    raw.AddMeta(name, body);
    EXPECT_EQ(Use(raw.Finish()), "found v");
    for (const CompressionType type :
         {CompressionType::kSnappy, CompressionType::kLZ4,
          CompressionType::kZSTD}) {
      Maker maker;
      maker.AddMeta(name, body, type);
      const std::string said = Use(maker.Finish());
      EXPECT_THAT(said, HasSubstr("Corruption: 000007.sst offset"));
      EXPECT_THAT(said, HasSubstr("a compressed block of a kind"));
    }
  }
}

class NoPolicy : public FilterPolicy {
 public:
  const char* Name() const override { return "no"; }
  void CreateFilter(const std::vector<Slice>&, std::string*) const override {}
  bool KeyMayMatch(const Slice&, const Slice&) const override { return false; }
};

TEST(TableHostileTest, CompressedFilterIsNotAsked) {
  for (const CompressionType type :
       {CompressionType::kNone, CompressionType::kZSTD}) {
    Maker maker;
    maker.AddMeta(std::string(kCustomFilterPrefix) + "no",
                  std::string(200, 'f'), type);
    const std::string bytes = maker.Finish();
    TableReaderOptions options = ReaderOptions(bytes);
    options.filter_policy = std::make_shared<NoPolicy>();
    EXPECT_EQ(Use(options, bytes),
              type == CompressionType::kNone ? "not found" : "found v");
  }
}

TEST(TableHostileTest, OnlyLevelDbCompressesTheMetaindex) {
  for (const uint32_t version : {0u, kWrittenFormatVersion}) {
    for (const CompressionType type :
         {CompressionType::kNone, CompressionType::kSnappy,
          CompressionType::kZSTD}) {
      Maker maker(version);
      maker.AddMeta(std::string(200, 'z'), "of later");
      maker.SetMetaindex(maker.Metaindex(), type);
      const std::string said = Use(maker.Finish());
      if (type == CompressionType::kNone ||
          (type == CompressionType::kSnappy && version == 0)) {
        EXPECT_EQ(said, "found v") << version;
      } else {
        EXPECT_THAT(said, HasSubstr("a compressed block of a kind")) << version;
      }
    }
  }
}

TEST(TableHostileTest, IndexMayBeCompressedButNotOutOfAllProportion) {
  for (const size_t key_size : {size_t{100000}, size_t{80} << 20}) {
    Maker maker;
    maker.SetIndex(
        Body({{Key(std::string(key_size, 'b')), Maker::Encoded(maker.data())}}),
        CompressionType::kZSTD);
    const bool fine = key_size == 100000;
    EXPECT_TRUE(Said(Use(maker.Finish()), fine, "Corruption: 000007.sst offset",
                     "impossible raw size"));
  }
}

// A value is as large as its writer likes, and may be the same byte all along.
TEST(TableHostileTest, OneLargeValueMayBeCompressedTightly) {
  Maker maker;
  const std::string value(size_t{100} << 20, '\0');
  const BlockHandle block =
      maker.Add(Body({{Key("a"), value}}), CompressionType::kZSTD);
  ASSERT_LT(block.size, value.size() / 8000);
  maker.SetIndex(Body({{Key("a"), Maker::Encoded(block)}}),
                 CompressionType::kNone);
  EXPECT_EQ(Use(maker.Finish()), "found " + value);
}

// Blocks of `size` bytes, each of one value of zeros: wherever one is looked
// for, every byte may be its end.
std::string BlocksOfZeros(int count, size_t size) {
  Maker maker;
  for (int i = 0; i < count; ++i) {
    maker.Add(
        Body({{Key("b" + std::to_string(1000 + i)), std::string(size, '\0')}}));
  }
  return maker.bytes();
}

TEST(TableHostileTest, SearchForBlocksIsBoundedForTheFile) {
  // The largest number of entries processed for one block.
  const size_t found = Salvage(BlocksOfZeros(30, 32000)).entries;
  EXPECT_GT(found, 5u);
  EXPECT_LT(found, 25u);
}

TEST(TableHostileTest, SearchFindsAllBlocksOfOrdinarySize) {
  EXPECT_EQ(Salvage(BlocksOfZeros(200, 4096)).entries, 201u);
  Maker maker;
  Rng random(1);
  for (int i = 0; i < 50; ++i) {
    maker.Add(
        Body({{Key("b" + std::to_string(1000 + i)), random.Bytes(60000)}}));
  }
  EXPECT_EQ(Salvage(maker.bytes()).entries, 51u);
}

}  // namespace
}  // namespace varve::test
