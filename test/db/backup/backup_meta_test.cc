// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a file in meta/ is read as RocksDB wrote it, and no bytes in it lead to
// a crash, or to a path outside of the backup's folders. Method: texts by hand,
// and random changes of right ones.

#include "db/backup/backup_meta.h"
#include "test/testing/seed.h"
#include "test/testing/status_checks.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

constexpr char kByRocksDb[] =
    "1795937503\n"
    "3\n"
    "5\n"
    "shared_checksum/000025_sKYX277R1RN2NPW6PRIDK_980.sst crc32 3250901637\n"
    "shared_checksum/000018_12_1010.sst crc32 3153093600\n"
    "private/1/MANIFEST-000027 crc32 536570616\n"
    "private/1/CURRENT crc32 4132812863\n"
    "private/1/OPTIONS-000029 crc32 3679531975\n";

TEST(BackupMetaTest, ReadsRocksDbsText) {
  BackupMeta meta;
  ASSERT_TRUE(Ok(ParseBackupMeta(kByRocksDb, 1, &meta)));
  EXPECT_EQ(meta.timestamp_s, 1795937503);
  EXPECT_EQ(meta.sequence, 3u);
  ASSERT_EQ(meta.files.size(), 5u);
  EXPECT_EQ(meta.files[0].size, 980u);
  EXPECT_EQ(meta.files[0].crc32c, 3250901637u);
  EXPECT_EQ(meta.files[2].size, kUnknownSize);
  EXPECT_EQ(FormatBackupMeta(meta, 1), kByRocksDb);
}

TEST(BackupMetaTest, ReadsWhatItWrites) {
  for (const int schema : {1, 2}) {
    BackupMeta meta;
    meta.id = 7;
    meta.timestamp_s = 5;
    meta.sequence = UINT64_MAX;
    meta.app_metadata = std::string("\0\n\xFF", 3);
    meta.files.push_back({"private/7/000009.log", 0, true, 0});
    meta.files.push_back({"shared/000010.sst", 77, true, UINT32_MAX});
    if (schema == 2) {
      meta.files.push_back({"private/7/CURRENT", 3, false, 0});
      meta.excluded.push_back("shared_checksum/000011_sAB_5.sst");
    }
    BackupMeta read;
    const std::string text = FormatBackupMeta(meta, schema);
    ASSERT_TRUE(Ok(ParseBackupMeta(text, 7, &read)));
    EXPECT_EQ(FormatBackupMeta(read, schema), text);
    EXPECT_EQ(read.app_metadata, meta.app_metadata);
    EXPECT_EQ(read.excluded, meta.excluded);
    // As of another backup, its private files are elsewhere.
    EXPECT_TRUE(IsCorruption(ParseBackupMeta(text, 8, &read), "meta/8"));
    if (schema == 1) continue;
    // Any change of a byte is found.
    for (size_t i = 0; i < text.size(); ++i) {
      std::string changed = text;
      changed[i] = static_cast<char>(changed[i] ^ 1);
      const Status status = ParseBackupMeta(changed, 7, &read);
      // But for the mark of the checksum's own line, and of the version.
      EXPECT_TRUE(!status.ok() || i >= text.find("// FOOTER") ||
                  i < std::string("schema_version 2.0\n").size())
          << i;
    }
  }
}

TEST(BackupMetaTest, ReadsLaterFields) {
  const std::string text =
      "schema_version 2.7\n1\n2\nmetadata 4142\nnew field of text\n2\n"
      "private/3/CURRENT crc32 5 temp kCold other 7\n"
      "private/3/MANIFEST-000001 size 9\n// FOOTER\nsum 1 2\n";
  BackupMeta meta;
  ASSERT_TRUE(Ok(ParseBackupMeta(text, 3, &meta)));
  EXPECT_EQ(meta.app_metadata, "AB");
  ASSERT_EQ(meta.files.size(), 2u);
  EXPECT_EQ(meta.files[0].temperature, Temperature::kCold);
  EXPECT_EQ(meta.files[1].size, 9u);
  EXPECT_FALSE(meta.files[1].has_checksum);
  const auto unsupported = [&](const std::string& lines) {
    return ParseBackupMeta("schema_version " + lines, 3, &meta);
  };
  EXPECT_TRUE(IsNotSupported(unsupported("3\n1\n2\n0\n")));
  EXPECT_TRUE(IsNotSupported(unsupported("2\n1\n2\nni::x y\n0\n")));
  EXPECT_TRUE(
      IsNotSupported(unsupported("2\n1\n2\n1\nprivate/3/CURRENT ni::x y\n")));
  EXPECT_TRUE(IsNotSupported(unsupported("2\n1\n2\n0\n// FOOTER\nni::x y\n")));
}

TEST(BackupMetaTest, RefusesBadTexts) {
  BackupMeta meta;
  for (const char* const text :
       {"",
        "\n",
        "1\n",
        "1\n2\n",
        "1\n2\n0",
        "1\n2\n1\n",
        "x\n2\n0\n",
        "1\n-2\n0\n",
        "1\n2\n99999999999\n",
        "1\n2\n18446744073709551616\n",
        "1\n2\nmetadata 4\n0\n",
        "1\n2\nmetadata 4G\n0\n",
        "1\n2\nother 1\n0\n",
        "1\n2\n0\nprivate/3/CURRENT crc32 1\n",
        "1\n2\n1\nprivate/3/CURRENT crc32 4294967296\n",
        "1\n2\n1\nprivate/3/CURRENT crc32 \n",
        "1\n2\n1\nprivate/3/CURRENT\n",
        "1\n2\n1\nprivate/3/CURRENT crc64 1\n",
        "1\n2\n1\nprivate/3/CURRENT crc32 1 x 2\n",
        "1\n2\n2\nprivate/3/CURRENT crc32 1\nprivate/3/CURRENT crc32 1\n",
        "1\n2\n2\nshared/000001.sst crc32 1\n"
        "shared_checksum/000001_1_2.sst crc32 1\n",
        "schema_version 2\n1\n2\n1\nshared_checksum/000001_1_2.sst size 3\n",
        "schema_version 2\n1\n2\n1\nprivate/3/CURRENT ni::excluded true\n",
        "schema_version 2\n1\n2\n0\nmore\n",
        "schema_version 2\n1\n2\n0\n// FOOTER\nvarve.crc32c 1\n"}) {
    EXPECT_TRUE(IsCorruption(ParseBackupMeta(text, 3, &meta))) << text;
  }
}

TEST(BackupMetaTest, StaysInTheBackupsFolders) {
  for (const char* const path : {"",
                                 "/",
                                 "CURRENT",
                                 "../CURRENT",
                                 "/etc/passwd",
                                 "private/3/../CURRENT",
                                 "private/3/..",
                                 "private/3/.",
                                 "private/3/",
                                 "private/4/CURRENT",
                                 "private/03/CURRENT",
                                 "private//CURRENT",
                                 "private/3//CURRENT",
                                 "private/3/x/000001.sst",
                                 "./private/3/CURRENT",
                                 "meta/1",
                                 "private/3/LOCK",
                                 "private/3/LOG",
                                 "private/3/000001.dbtmp",
                                 "private/3/passwd",
                                 "shared/CURRENT",
                                 "shared/../000001.sst",
                                 "shared/000001.log",
                                 "shared_checksum/000001.sst",
                                 "shared_checksum/../x_1_2.sst",
                                 "shared_checksum/000001_/../.sst",
                                 "shared_checksum/000001_s..\\x.sst",
                                 "shared_checksum/_1_2.sst",
                                 "shared_checksum/000001_1_2.log",
                                 "shared_checksum/CURRENT_1_2",
                                 "shared_checksum/000001_1_2",
                                 "LOCK",
                                 "private/3/CURRENT\t"}) {
    BackupPath parsed;
    EXPECT_FALSE(ParseBackupPath(path, 3, &parsed)) << path;
    BackupMeta meta;
    EXPECT_FALSE(ParseBackupMeta("1\n2\n1\n" + std::string(path) + " crc32 1\n",
                                 3, &meta)
                     .ok());
  }
  for (const char* const id : {"0", "01", "", "-1", "+1", " 1", "1 ", "1.tmp",
                               "4294967296", "99999999999999999999", ".1"}) {
    BackupID parsed;
    EXPECT_FALSE(ParseBackupId(id, &parsed)) << id;
  }
}

TEST(BackupMetaTest, SurvivesRandomChanges) {
  Rng rng(TestSeed());
  BackupMeta meta;
  ASSERT_TRUE(Ok(ParseBackupMeta(kByRocksDb, 1, &meta)));
  const std::string texts[] = {kByRocksDb, FormatBackupMeta(meta, 2)};
  for (int i = 0; i < 20'000; ++i) {
    std::string text = texts[rng.Below(2)];
    for (int changes = rng.Between(1, 4); changes > 0 && !text.empty();
         --changes) {
      const size_t at = rng.Below(text.size());
      switch (rng.Below(4)) {
        case 0:
          text[at] = static_cast<char>(rng.Below(256));
          break;
        case 1:
          text.erase(at, rng.Below(10));
          break;
        case 2:
          text.insert(at, rng.Pick({"../", "\n", " ", "ni::", "99999999999"}));
          break;
        default:
          text.insert(at, text.substr(rng.Below(text.size()), 40));
      }
    }
    if (!ParseBackupMeta(text, 1, &meta).ok()) continue;
    for (const BackupFile& file : meta.files) {
      EXPECT_EQ(file.path.find(".."), std::string::npos);
      EXPECT_TRUE(file.path.starts_with("private/1/") ||
                  file.path.starts_with("shared/") ||
                  file.path.starts_with("shared_checksum/"))
          << file.path;
    }
  }
}

}  // namespace
}  // namespace varve::test
