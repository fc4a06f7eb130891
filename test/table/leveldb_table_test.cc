// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: the tables that other writers of LevelDB's format create are read, and
// what only looks like one is refused. Method: tables put together by hand.
// test/fixtures has some that these writers have written.

#include "table/block/block_builder.h"
#include "table/reader/table.h"
#include "table/reader/table_opener.h"
#include "table/reader/table_verifier.h"
#include "test/testing/env/string_random_access_file.h"
#include "test/testing/table/table_bytes.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

using ::testing::HasSubstr;
using ::varve::testing::AppendBlock;
using ::varve::testing::StringRandomAccessFile;

constexpr uint8_t kZlibType = 2;
constexpr uint8_t kRawDeflateType = 4;

const InternalKeyComparator kComparator(BytewiseComparator());

std::string Key(const Slice& user_key, SequenceNumber sequence,
                ValueType type = ValueType::kValue) {
  return MakeInternalKey(user_key, PackTrailer(sequence, type));
}

std::string Body(const std::string& key, const std::string& value) {
  BlockBuilder builder(1);
  builder.Add(key, value);
  return *builder.Finish();
}

std::string EmptyBody() {
  std::string body;
  PutFixed32(&body, 0);  // No restart point, as org.iq80.leveldb writes it.
  return body;
}

// A stream of deflate that stores the bytes.
std::string Deflate(const std::string& raw) {
  std::string stream(1, '\x01');
  // The size, and its complement, in 16 bits each.
  const auto size = static_cast<uint32_t>(raw.size());
  PutFixed32(&stream, size | ~size << 16);
  return stream + raw;
}

std::string Zlib(const std::string& raw) {
  return "\x78\x01" + Deflate(raw) + "sums";
}

// The parts of a table with the entry (a, 7) => v.
struct Parts {
  std::string data = Body(Key("a", 7), "v");
  std::string separator = Key("a", 7);
  std::string metaindex = EmptyBody();
  bool has_metaindex = true;
  uint8_t type = 0;  // Of all blocks.

  std::string Build() const {
    std::string file;
    const auto append = [&](const std::string& stored) {
      return AppendBlock(stored, static_cast<CompressionType>(type),
                         ChecksumType::kCrc32c, &file);
    };
    const BlockHandle data_handle = append(data);
    std::string value;
    data_handle.EncodeTo(&value);
    BlockHandle meta_handle;
    if (has_metaindex) meta_handle = append(metaindex);
    const std::string index = Body(separator, value);
    const BlockHandle index_handle =
        append(type == kZlibType         ? Zlib(index)
               : type == kRawDeflateType ? Deflate(index)
                                         : index);
    std::string footer;
    meta_handle.EncodeTo(&footer);
    index_handle.EncodeTo(&footer);
    footer.resize(Footer::kLegacySize - sizeof(uint64_t));
    PutFixed64(&footer, kLegacyTableMagic);
    return file + footer;
  }
};

// Returns "ok" if the table shows its entry and no damage is found.
std::string Read(const Parts& parts) {
  TableReaderOptions options;
  options.comparator = &kComparator;
  options.file_name = "000007.ldb";
  const std::string bytes = parts.Build();
  options.file_size = bytes.size();
  TableCore core;
  Status status = OpenTable(
      options, std::make_unique<StringRandomAccessFile>(bytes), &core);
  if (status.ok()) status = VerifyTable(core);
  if (!status.ok()) return status.ToString();
  std::unique_ptr<Table> table;
  status = Table::Open(options, std::make_unique<StringRandomAccessFile>(bytes),
                       &table);
  if (!status.ok()) return status.ToString();
  const auto iterator = Table::NewIterator(
      ReadOptions(), std::shared_ptr<Table>(std::move(table)));
  iterator->SeekToFirst();
  if (!iterator->Valid()) return "empty: " + iterator->status().ToString();
  EXPECT_EQ(iterator->value().ToString(), "v");
  return "ok";
}

TEST(LevelDbTableTest, AMetaindexMayHaveNoRestartPoints) {
  EXPECT_EQ(Read({}), "ok");
  Parts parts;
  parts.metaindex = std::string(8, '\0');
  EXPECT_THAT(Read(parts), HasSubstr("without restart points"));
}

TEST(LevelDbTableTest, AMetaindexMayBeMissing) {
  Parts parts;
  parts.has_metaindex = false;
  EXPECT_EQ(Read(parts), "ok");
}

TEST(LevelDbTableTest, ReadsWhatMinecraftsForksCompress) {
  if (!CompressionSupported(CompressionType::kZlib)) {
    GTEST_SKIP() << "zlib is not built in";
  }
  Parts zlib;
  zlib.type = kZlibType;
  zlib.data = Zlib(zlib.data);
  zlib.metaindex = Zlib(zlib.metaindex);
  EXPECT_EQ(Read(zlib), "ok");
  Parts raw;
  raw.type = kRawDeflateType;
  raw.data = Deflate(raw.data);
  raw.metaindex = Deflate(raw.metaindex);
  EXPECT_EQ(Read(raw), "ok");
}

TEST(LevelDbTableTest, RefusesDamagedStreams) {
  if (!CompressionSupported(CompressionType::kZlib)) {
    GTEST_SKIP() << "zlib is not built in";
  }
  Parts parts;
  parts.type = kZlibType;
  parts.metaindex = Zlib(parts.metaindex);
  const std::string good = Zlib(parts.data);
  const auto read = [&parts](const std::string& data) {
    parts.data = data;
    return Read(parts);
  };
  EXPECT_EQ(read(good), "ok");
  for (const std::string& bad :
       {std::string(), std::string("\x78\x01"), good.substr(0, 5),
        "\x78\x02" + good.substr(2), "\x79\x01" + good.substr(2),
        // With a dictionary.
        "\x78\x20" + good.substr(2)}) {
    EXPECT_THAT(read(bad), HasSubstr("no stream of zlib"));
  }
  EXPECT_THAT(read(good.substr(0, good.size() - 1)), HasSubstr("Corruption"));
  EXPECT_THAT(read(good + "x"), HasSubstr("Corruption"));
  EXPECT_THAT(read("\x28\xB5\x2F\xFD" + good), HasSubstr("Not supported"));
  parts.type = kRawDeflateType;
  parts.metaindex = Deflate(EmptyBody());
  EXPECT_THAT(read(good), HasSubstr("Corruption"));
}

// As rusty-leveldb writes it.
TEST(LevelDbTableTest, ASeparatorMayHaveAnotherType) {
  Parts parts;
  parts.data = Body(Key("a", 7, ValueType::kDeletion), "v");
  EXPECT_EQ(Read(parts), "ok");
  // A lookup of the version would not find it.
  parts.separator = Key("a", 8);
  EXPECT_THAT(Read(parts), HasSubstr("the index leads elsewhere"));
}

}  // namespace
}  // namespace varve::test
