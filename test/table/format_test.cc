// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: footers and handles survive a round trip, and each footer that cannot
// be read is refused with the reason. Method: footers made by the encoder,
// then damaged or given foreign numbers; real files of other engines.
#include "table/block/format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/testing/status_checks.h"
#include "test/testing/table/table_bytes.h"
#include "util/bytes/coding.h"

namespace varve {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kFileSize = 10000;

std::string MakeFooter() {
  Footer footer;
  footer.checksum = ChecksumType::kXxh3;
  footer.metaindex = {9000, 300};
  footer.index = {8000, 900};
  std::string bytes;
  footer.EncodeTo(&bytes);
  return bytes;
}

constexpr uint64_t kFooterOffset = kFileSize - Footer::kSize;

// Computes the checksum of a footer of version 6 or later.
void SealFooter(std::string* bytes) {
  EncodeFixed32(bytes->data() + 5, 0);
  const uint32_t base = DecodeFixed32(bytes->data() + 9);
  const uint32_t checksum =
      BlockChecksum(static_cast<ChecksumType>((*bytes)[0]), bytes->data(),
                    Footer::kSize - 1) +
      (base == 0 ? 0 : base ^ static_cast<uint32_t>(kFooterOffset));
  EncodeFixed32(bytes->data() + 5, checksum);
}

std::string MakeFooterWithChecksum(uint32_t version, ChecksumType type) {
  std::string bytes(1, static_cast<char>(type));
  bytes += std::string("\x3e\0\x7a\0", 4);
  PutFixed32(&bytes, 0);
  PutFixed32(&bytes, 0x87654321);
  PutFixed32(&bytes, 300);
  bytes.resize(41);
  PutFixed32(&bytes, version);
  PutFixed64(&bytes, kBlockBasedTableMagic);
  SealFooter(&bytes);
  return bytes;
}

std::string MakeLegacyFooter(uint64_t magic) {
  std::string bytes;
  BlockHandle{9000, 300}.EncodeTo(&bytes);
  BlockHandle{8000, 900}.EncodeTo(&bytes);
  bytes.resize(40);
  PutFixed64(&bytes, magic);
  return bytes;
}

Status Decode(const std::string& bytes, Footer* footer) {
  return footer->DecodeFrom(bytes, "/db/000007.sst", kFileSize);
}

TEST(FormatTest, HandleRoundTrips) {
  for (const BlockHandle handle : {BlockHandle{0, 0}, BlockHandle{127, 128},
                                   BlockHandle{UINT64_MAX, UINT64_MAX}}) {
    std::string bytes;
    handle.EncodeTo(&bytes);
    Slice rest = bytes;
    BlockHandle decoded;
    ASSERT_TRUE(decoded.DecodeFrom(&rest));
    EXPECT_EQ(decoded.offset, handle.offset);
    EXPECT_EQ(decoded.size, handle.size);
    EXPECT_TRUE(rest.empty());
    for (size_t length = 0; length < bytes.size(); ++length) {
      Slice cut(bytes.data(), length);
      EXPECT_FALSE(decoded.DecodeFrom(&cut));
    }
  }
}

TEST(FormatTest, HandleFitsOnlyWithItsTrailer) {
  EXPECT_TRUE((BlockHandle{0, 95}).FitsIn(100));
  EXPECT_FALSE((BlockHandle{0, 96}).FitsIn(100));
  EXPECT_TRUE((BlockHandle{95, 0}).FitsIn(100));
  EXPECT_FALSE((BlockHandle{101, 0}).FitsIn(100));
  EXPECT_FALSE((BlockHandle{5, UINT64_MAX}).FitsIn(100));
  EXPECT_FALSE((BlockHandle{UINT64_MAX, 5}).FitsIn(100));
  EXPECT_FALSE((BlockHandle{0, 0}).FitsIn(4));
}

TEST(FormatTest, FooterRoundTrips) {
  const std::string bytes = MakeFooter();
  ASSERT_EQ(bytes.size(), Footer::kSize);
  Footer footer;
  // More bytes before it do not matter.
  ASSERT_TRUE(Ok(Decode("more" + bytes, &footer)));
  EXPECT_EQ(footer.checksum, ChecksumType::kXxh3);
  EXPECT_EQ(footer.metaindex.offset, 9000u);
  EXPECT_EQ(footer.metaindex.size, 300u);
  EXPECT_EQ(footer.index.offset, 8000u);
  EXPECT_EQ(footer.index.size, 900u);
  EXPECT_EQ(footer.format_version, kWrittenFormatVersion);
  EXPECT_EQ(footer.size, Footer::kSize);
}

TEST(FormatTest, FooterHoldsTheLargestHandles) {
  Footer footer;
  footer.metaindex = {UINT64_MAX, UINT64_MAX};
  footer.index = {UINT64_MAX, UINT64_MAX};
  std::string bytes;
  footer.EncodeTo(&bytes);
  EXPECT_EQ(bytes.size(), Footer::kSize);
}

TEST(FormatTest, ReadsTheLegacyFooter) {
  Footer footer;
  ASSERT_TRUE(Ok(Decode(MakeLegacyFooter(kLegacyTableMagic), &footer)));
  EXPECT_EQ(footer.checksum, ChecksumType::kCrc32c);
  EXPECT_EQ(footer.index.size, 900u);
  EXPECT_EQ(footer.format_version, 0u);
  EXPECT_EQ(footer.size, Footer::kLegacySize);
}

TEST(FormatTest, ReadsFootersOfOtherEngines) {
  const std::pair<const char*, uint32_t> kFiles[] = {
      {"rocksdb-fv0/db/000012.sst", 0},  {"rocksdb-fv1-lz4/db/000012.sst", 1},
      {"rocksdb-fv2/db/000012.sst", 2},  {"rocksdb-fv4/db/000012.sst", 4},
      {"rocksdb-none/db/000012.sst", 5}, {"rocksdb-fv6/db/000011.sst", 6},
      {"rocksdb-fv7/db/000011.sst", 7},
  };
  for (const auto& [name, version] : kFiles) {
    const std::string file = testing::ReadFixture(name);
    Footer footer;
    ASSERT_TRUE(Ok(footer.DecodeFrom(file, name, file.size())));
    EXPECT_EQ(footer.format_version, version);
    if (version == 5) {
      std::string again;
      footer.EncodeTo(&again);
      EXPECT_EQ(again, file.substr(file.size() - Footer::kSize));
    }
  }
}

TEST(FormatTest, RefusesForeignTablesByName) {
  Footer footer;
  for (const uint64_t magic :
       {uint64_t{0x8242229663BF9564}, uint64_t{0x4F3418EB7A8F13B8}}) {
    EXPECT_TRUE(IsNotSupported(Decode(MakeLegacyFooter(magic), &footer),
                               "plain table"));
  }
  EXPECT_TRUE(IsNotSupported(
      Decode(MakeLegacyFooter(0x926789D0C5F17873), &footer), "cuckoo"));
}

TEST(FormatTest, RefusesNewerVersionsAndUnknownChecksums) {
  Footer footer;
  std::string bytes = MakeFooter();
  EncodeFixed32(bytes.data() + 41, 8);
  EXPECT_TRUE(IsNotSupported(Decode(bytes, &footer), "format_version 8"));
  bytes = MakeFooterWithChecksum(8, ChecksumType::kXxh3);
  EXPECT_TRUE(IsNotSupported(Decode(bytes, &footer), "format_version 8"));

  bytes = MakeFooter();
  bytes[0] = 5;
  EXPECT_TRUE(IsNotSupported(Decode(bytes, &footer), "checksum type 5"));

  // A value that no writer produces is damage.
  bytes = MakeFooter();
  EncodeFixed32(bytes.data() + 41, (1 << 20) + 5);
  EXPECT_TRUE(IsCorruption(Decode(bytes, &footer)));
  bytes = MakeFooter();
  bytes[0] = 0x44;
  EXPECT_TRUE(IsCorruption(Decode(bytes, &footer)));

  bytes = MakeFooter();
  EncodeFixed32(bytes.data() + 41, 0);
  EXPECT_TRUE(IsCorruption(Decode(bytes, &footer)));
}

TEST(FormatTest, ReadsFootersWithAChecksum) {
  for (const uint32_t version : {6u, 7u}) {
    for (int type = 0; type <= 4; ++type) {
      const auto checksum = static_cast<ChecksumType>(type);
      const std::string bytes = MakeFooterWithChecksum(version, checksum);
      Footer footer;
      ASSERT_TRUE(Ok(Decode("more" + bytes, &footer)));
      EXPECT_EQ(footer.checksum, checksum);
      EXPECT_EQ(footer.format_version, version);
      EXPECT_EQ(footer.checksum_base, 0x87654321u);
      EXPECT_EQ(footer.size, Footer::kSize);
      EXPECT_EQ(footer.metaindex.offset, kFooterOffset - 305);
      EXPECT_EQ(footer.metaindex.size, 300u);
      EXPECT_TRUE(footer.has_metaindex());
      EXPECT_FALSE(footer.has_index());
      EXPECT_EQ(footer.index.size, 0u);
    }
  }
}

TEST(FormatTest, NoticesEveryChangedByteOfAFooterWithAChecksum) {
  const std::string bytes = MakeFooterWithChecksum(7, ChecksumType::kXxh3);
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (int change = 1; change < 256; ++change) {
      std::string changed = bytes;
      changed[i] = static_cast<char>(changed[i] ^ change);
      Footer footer;
      const Status s = Decode(changed, &footer);
      ASSERT_FALSE(s.ok()) << "byte " << i << " ^ " << change;
      EXPECT_THAT(s.ToString(), HasSubstr("/db/000007.sst"));
      // A number that a later version may use is not reported as damage, but
      // the table is not taken for one of that version.
      EXPECT_TRUE(s.IsCorruption() || !IsForeignTable(changed, kFileSize))
          << s.ToString();
    }
  }
  // At another place, it is not the same footer.
  Footer footer;
  EXPECT_TRUE(IsCorruption(footer.DecodeFrom(bytes, "f", kFileSize + 1),
                           "f: footer checksum mismatch at offset 9948"));
}

TEST(FormatTest, RefusesWhatFootersWithAChecksumCannotHold) {
  Footer footer;
  const std::string good = MakeFooterWithChecksum(7, ChecksumType::kCrc32c);
  std::string bytes = good;
  EncodeFixed32(bytes.data() + 9, 0);
  SealFooter(&bytes);
  EXPECT_TRUE(IsCorruption(Decode(bytes, &footer), "checksum base"));

  bytes = good;
  bytes[2] = 1;
  SealFooter(&bytes);
  EXPECT_TRUE(IsCorruption(Decode(bytes, &footer), "format_version 7"));

  // The metaindex may begin the file, but not before.
  bytes = good;
  const auto largest = static_cast<uint32_t>(kFooterOffset - kBlockTrailerSize);
  EncodeFixed32(bytes.data() + 13, largest);
  SealFooter(&bytes);
  EXPECT_TRUE(Ok(Decode(bytes, &footer)));
  EXPECT_EQ(footer.metaindex.offset, 0u);
  for (const uint32_t size : {largest + 1, UINT32_MAX}) {
    EncodeFixed32(bytes.data() + 13, size);
    SealFooter(&bytes);
    EXPECT_TRUE(IsCorruption(Decode(bytes, &footer), "metaindex size"));
  }

  // RocksDB reserves these bytes for features that readers have to know.
  bytes = good;
  bytes[40] = 1;
  SealFooter(&bytes);
  EXPECT_TRUE(IsNotSupported(Decode(bytes, &footer), "newer RocksDB"));
  EXPECT_TRUE(IsForeignTable(bytes, kFileSize));
  // Nor may a footer of an older version say that it has a checksum.
  bytes = MakeFooter();
  EncodeFixed32(bytes.data() + 41, 6);
  EXPECT_TRUE(IsCorruption(Decode(bytes, &footer), "format_version 6"));
}

TEST(FormatTest, RecognizesTablesOfLaterVersions) {
  EXPECT_TRUE(IsForeignTable(MakeFooterWithChecksum(8, ChecksumType::kXxh3),
                             kFileSize));
  // Version 7, with a damaged number.
  std::string bytes = MakeFooterWithChecksum(7, ChecksumType::kXxh3);
  bytes[41] = 15;
  EXPECT_FALSE(IsForeignTable(bytes, kFileSize));
  bytes = MakeFooterWithChecksum(6, ChecksumType::kXxHash32);
  bytes[0] = 6;
  EXPECT_FALSE(IsForeignTable(bytes, kFileSize));
  bytes = MakeFooter();
  EncodeFixed32(bytes.data() + 41, 8);
  EXPECT_FALSE(IsForeignTable(bytes, kFileSize));
}

TEST(FormatTest, FindsTheChecksumBaseInThePartOfAFooter) {
  const std::string bytes = MakeFooterWithChecksum(7, ChecksumType::kXxh3);
  for (size_t size = 0; size <= bytes.size(); ++size) {
    EXPECT_EQ(FindChecksumBase(bytes.substr(0, size)),
              size < 13 ? 0 : 0x87654321u);
  }
  EXPECT_EQ(FindChecksumBase(MakeFooter()), 0u);
}

TEST(FormatTest, ChecksumsDependOnTheirPlace) {
  EXPECT_EQ(ChecksumContext(0, 1234), 0u);
  EXPECT_EQ(ChecksumContext(0xF0F0F0F0, 0), 0xF0F0F0F0);
  EXPECT_EQ(ChecksumContext(0xF0F0F0F0, 0x0F), 0xF0F0F0FF);
  EXPECT_EQ(ChecksumContext(0xF0F0F0F0, uint64_t{0xA} << 32 | 5), 0xF0F0F0FF);
}

TEST(FormatTest, ReportsCorruptionWithTheFileName) {
  std::string bad_magic = MakeFooter();
  bad_magic.back() ^= 1;
  std::string bad_handle = MakeFooter();
  bad_handle.replace(1, 40, 40, '\xFF');
  std::string cases[] = {
      "",        std::string(47, 'x'), std::string(53, '\0'),
      bad_magic, bad_handle,           MakeFooter().substr(1)};
  for (const std::string& bytes : cases) {
    Footer footer;
    EXPECT_TRUE(IsCorruption(Decode(bytes, &footer), "/db/000007.sst"));
  }
}

TEST(FormatTest, HandlesMustEndBeforeTheFooter) {
  const auto decode = [](const BlockHandle& metaindex,
                         const BlockHandle& index) {
    Footer footer;
    footer.metaindex = metaindex;
    footer.index = index;
    std::string bytes;
    footer.EncodeTo(&bytes);
    return Decode(bytes, &footer);
  };
  const uint64_t end = kFileSize - Footer::kSize - kBlockTrailerSize;
  EXPECT_TRUE(decode({9000, end - 9000}, {8000, 900}).ok());
  EXPECT_TRUE(decode({9000, end - 8999}, {8000, 900}).IsCorruption());
  EXPECT_TRUE(decode({9000, 300}, {8000, end - 7999}).IsCorruption());
  EXPECT_TRUE(decode({9000, uint64_t{1} << 62}, {8000, 900}).IsCorruption());
}

}  // namespace
}  // namespace varve
