// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a file that claims what cannot be true, though its checksums are right,
// costs neither memory nor time without bound, and no data. Method: as in
// db_hostile_test.cc, with a MANIFEST, a table or a batch put together here.

#include <unistd.h>

#include "db/version/version_edit.h"
#include "db/wal/wal_writer.h"
#include "env/file_names.h"
#include "table/block/block_builder.h"
#include "table/block/internal_key.h"
#include "test/testing/hostile_database.h"
#include "test/testing/table/table_bytes.h"
#include "test/testing/test_headers.h"
#include "util/bytes/checksum.h"
#include "util/bytes/coding.h"
#include "util/bytes/compression.h"

namespace varve::test {
namespace {

using DbHostileClaimsTest = DbHostileTest;

// Appends this edit to a MANIFEST.
class DbHostileManifestTest : public DbHostileTest {
 protected:
  void AppendEdit(const std::string& edit) {
    std::string bytes = ReadWholeFile(manifest_);
    // A full record; there is space in the first block.
    std::string record(1, '\1');
    record += edit;
    PutFixed32(&bytes, MaskCrc(Crc32c(record.data(), record.size())));
    bytes.push_back(static_cast<char>(edit.size() & 0xff));
    bytes.push_back(static_cast<char>(edit.size() >> 8));
    bytes += record;
    WriteWholeFile(manifest_, bytes);
  }

  void ExpectRefused(const VersionEdit& edit,
                     const std::string& why = "Corruption") {
    CopyDirectory(path_, dir_.Sub("kept"));
    std::string bytes;
    edit.EncodeTo(&bytes);
    AppendEdit(bytes);
    const std::string told = Use();
    EXPECT_TRUE(Contains(told, why)) << told;
    fs::remove_all(path_);
    fs::rename(dir_.Sub("kept"), path_);
  }

  FileMetaData KnownTable() {
    FileMetaData file;
    file.number = std::stoull(fs::path(table_).stem());
    file.file_size = fs::file_size(table_);
    file.smallest = Key(0);
    PutFixed64(&file.smallest, PackTrailer(100, ValueType::kValue));
    file.largest = Key(99);
    PutFixed64(&file.largest, PackTrailer(1, ValueType::kValue));
    file.smallest_sequence = 1;
    file.largest_sequence = 100;
    return file;
  }
};

TEST_F(DbHostileManifestTest, ImpossibleSizesAreRefused) {
  fs::copy_file(table_, path_ + "/000050.sst");
  for (const uint64_t size :
       {uint64_t{1} << 40, uint64_t{1} << 63, UINT64_MAX, UINT64_MAX - 52}) {
    for (const uint64_t tail : {uint64_t{0}, size, UINT64_MAX}) {
      SCOPED_TRACE(std::to_string(size) + ", tail " + std::to_string(tail));
      VersionEdit edit;
      FileMetaData file = KnownTable();
      edit.RemoveFile(0, file.number);
      file.number = 50;
      file.file_size = size;
      file.tail_size = tail;
      edit.AddFile(0, file);
      ExpectRefused(edit);
    }
  }
}

// Nearly each place in it may be the beginning of a long record, by the length
// that is there. In the first no place has a type that there is; what looks
// like records all along is not searched to the end, and not taken for torn.
TEST_F(DbHostileManifestTest, GarbageIsSearchedInLittleTime) {
  for (const bool typed : {false, true}) {
    SCOPED_TRACE(typed);
    std::string garbage(size_t{4} << 20, '\x3f');
    for (size_t i = 1; typed && i < garbage.size(); i += 2) garbage[i] = '\x01';
    CopyDirectory(path_, dir_.Sub("kept"));
    WriteWholeFile(manifest_, ReadWholeFile(manifest_) + garbage);
    const std::string told = Use();
    EXPECT_EQ(Contains(told, "Corruption"), typed) << told;
    fs::remove_all(path_);
    fs::rename(dir_.Sub("kept"), path_);
  }
}

TEST_F(DbHostileManifestTest, ImpossibleNumbersAreRefused) {
  VersionEdit next;
  next.SetNextFileNumber(UINT64_MAX);
  ExpectRefused(next);
  VersionEdit number;
  FileMetaData file = KnownTable();
  file.number = UINT64_MAX;
  number.AddFile(6, file);
  ExpectRefused(number);
}

// A compaction of one of them would remove it from the other.
TEST_F(DbHostileManifestTest, TableInTwoLevelsIsRefused) {
  const FileMetaData file = KnownTable();
  VersionEdit moved;
  moved.RemoveFile(0, file.number);
  moved.AddFile(1, file);
  moved.AddFile(2, file);
  ExpectRefused(moved);
  VersionEdit added;
  added.AddFile(5, file);
  ExpectRefused(added);
}

// It overlaps nothing, not even itself: a compaction of it would be of nothing,
// for ever.
TEST_F(DbHostileManifestTest, TableThatEndsWhereItBeginsIsRefused) {
  FileMetaData file = KnownTable();
  VersionEdit edit;
  edit.RemoveFile(0, file.number);
  file.number += 1000;
  file.largest = Key(0);
  PutFixed64(&file.largest, kRangeEndTrailer);
  file.smallest = file.largest;
  edit.AddFile(1, file);
  ExpectRefused(edit, "ends before it begins");
}

TEST_F(DbHostileManifestTest, ManyTablesThatAreNotThereAreRefused) {
  VersionEdit edit;
  FileMetaData file = KnownTable();
  for (int i = 0; i < 400; i++) {
    file.number = 1000 + static_cast<uint64_t>(i);
    file.file_size = uint64_t{1} << 50;
    edit.AddFile(0, file);
  }
  ExpectRefused(edit);
}

// Else a log of a lower number would be taken for one that is done with.
TEST_F(DbHostileManifestTest, NewLogsAreNewerThanAnyThatIsNamed) {
  CopyDirectory(path_, dir_.Sub("kept"));
  for (int field = 0; field < 3; field++) {
    SCOPED_TRACE("field " + std::to_string(field));
    VersionEdit edit;
    if (field == 0) edit.SetLogNumber(1000);
    if (field == 1) edit.SetPrevLogNumber(1000);
    if (field == 2) edit.SetMinLogNumberToKeep(1000);
    std::string bytes;
    edit.EncodeTo(&bytes);
    AppendEdit(bytes);
    for (int round = 0; round < 3; round++) {
      const std::string key = Key(500 + round);
      Open();
      ASSERT_TRUE(Ok(db_->Put({.sync = true}, key, "kept")));
      if (round == 1) {
        // As a crash would leave it.
        ASSERT_TRUE(Ok(db_->WaitForCompact()));
        CopyDirectory(path_, dir_.Sub("crashed"));
        Close();
        fs::remove_all(path_);
        fs::rename(dir_.Sub("crashed"), path_);
      } else {
        Close();
      }
      Open();
      for (int i = 0; i <= round; i++) EXPECT_EQ(Get(Key(500 + i)), "kept");
      Close();
    }
    fs::remove_all(path_);
    CopyDirectory(dir_.Sub("kept"), path_);
  }
}

TEST_F(DbHostileManifestTest, LastSequenceNumbersAreReadButNotExceeded) {
  VersionEdit edit;
  edit.SetLastSequence(kMaxSequenceNumber);
  std::string bytes;
  edit.EncodeTo(&bytes);
  AppendEdit(bytes);
  EXPECT_TRUE(IsCorruption(TryOpen(), path_));
  std::unique_ptr<DB> db;
  ASSERT_TRUE(Ok(DB::OpenForReadOnly(options_, path_, &db)));
  std::string value;
  EXPECT_TRUE(Ok(db->Get({}, Key(1), &value)));
}

TEST_F(DbHostileManifestTest, HolesAfterGarbageAreSearchedInBoundedTime) {
  std::string bytes = ReadWholeFile(manifest_);
  bytes += std::string("\1\2\3\4\xff\xff\1", 7);  // Longer than its block.
  WriteWholeFile(manifest_, bytes);
  // ext4 and tmpfs, which .ci/run has, allow it.
  if (truncate(manifest_.c_str(), int64_t{4} << 40) != 0) {
    GTEST_SKIP() << "the file system allows no file of 4 TiB";
  }
  const auto start = std::chrono::steady_clock::now();
  const std::string told = Use();
  EXPECT_TRUE(Contains(told, "Corruption")) << told;
  EXPECT_LT(std::chrono::steady_clock::now() - start,
            std::chrono::seconds(100));
}

// The next open accepts what this one accepted.
TEST_F(DbHostileManifestTest, LastFileNumbersAreReadButNotExceeded) {
  CopyDirectory(path_, dir_.Sub("kept"));
  for (const uint64_t number : {kMaxFileNumber, kMaxFileNumber - 1}) {
    for (int field = 0; field < 2; field++) {
      SCOPED_TRACE("field " + std::to_string(field));
      VersionEdit edit;
      if (field == 0) edit.SetNextFileNumber(number);
      if (field == 1) edit.SetPrevLogNumber(number);
      std::string bytes;
      edit.EncodeTo(&bytes);
      AppendEdit(bytes);
      EXPECT_TRUE(IsCorruption(TryOpen()));
      std::unique_ptr<DB> db;
      ASSERT_TRUE(Ok(DB::OpenForReadOnly(options_, path_, &db)));
      std::string value;
      EXPECT_TRUE(Ok(db->Get({}, Key(1), &value)));
      db.reset();
      fs::remove_all(path_);
      CopyDirectory(dir_.Sub("kept"), path_);
    }
  }
}

// No database gives them out: the files are another program's.
TEST_F(DbHostileManifestTest, FileNumbersAtTheEndOfAllAreLeftAlone) {
  const std::vector<std::string> names = {
      "/18446744073709551615.sst",
      "/18446744073709551615.log",
      "/MANIFEST-18446744073709551615",
      "/18446744073709551614.dbtmp",
      "/" + std::to_string(kMaxFileNumber) + ".dbtmp",
      "/" + std::to_string(kMaxFileNumber - 1) + ".log"};
  for (const std::string& name : names) WriteWholeFile(path_ + name, "");
  Open();
  Put("a", "1");
  Flush();
  Close();
  for (const std::string& name : names) {
    EXPECT_TRUE(fs::exists(path_ + name)) << name;
  }
  EXPECT_EQ(FilesStartingWith(path_, "46").size(), 2u);
}

// Blocks with right checksums that claim what they cannot hold.
TEST_F(DbHostileClaimsTest, BlocksThatClaimToBeHugeTakeNoMemory) {
  const std::string whole = ReadWholeFile(table_);
  const testing::TableBytes table(whole);
  const BlockHandle block = table.index()[0].handle;
  // All ones: the largest numbers that a varint, a count of restarts or a
  // fixed size can be.
  for (const uint8_t type : {0, 1, 4, 5, 7, 0x40}) {
    for (const char fill : {'\xff', '\x7f', '\x80', '\0'}) {
      std::string bytes = whole;
      for (size_t i = 0; i < block.size; i++) {
        // A varint of ten bytes is none; one of five is 32 bits.
        bytes[block.offset + i] = i % 5 == 4 ? '\x0f' : fill;
      }
      bytes[block.offset + block.size] = static_cast<char>(type);
      EncodeFixed32(bytes.data() + block.offset + block.size + 1,
                    BlockChecksum(table.footer().checksum,
                                  bytes.data() + block.offset, block.size));
      CopyDirectory(path_, dir_.Sub("kept"));
      WriteWholeFile(table_, bytes);
      const std::string told = Use();
      EXPECT_TRUE(Contains(told, "Corruption") ||
                  Contains(told, "Not supported"))
          << int{type} << told;
      EXPECT_TRUE(Contains(told, ".sst")) << told;
      fs::remove_all(path_);
      fs::rename(dir_.Sub("kept"), path_);
    }
  }
}

// Batches that claim more or longer updates than they contain. Seeks that skip
// hidden entries may lead back into such a block repeatedly. A compaction that
// misses input entries would lose them.
TEST_F(DbHostileClaimsTest, CompactionDoesNotLoseEntriesItCannotFind) {
  std::string bytes = ReadWholeFile(table_);
  const testing::TableBytes table(bytes);
  ASSERT_EQ(table.properties().num_entries, 100u);
  const BlockHandle block = table.meta_blocks().at(kPropertiesBlockName);
  const size_t place = bytes.find("entries\x64", block.offset);
  ASSERT_LT(place, block.offset + block.size);
  bytes[place + 7] = 101;
  EncodeFixed32(bytes.data() + block.offset + block.size + 1,
                BlockChecksum(table.footer().checksum,
                              bytes.data() + block.offset, block.size));
  WriteWholeFile(table_, bytes);
  for (const int parts : {1, 4}) {
    options_.max_subcompactions = parts;
    Open();
    const Status status =
        db_->CompactRange({.rewrite_bottommost_level = true}, nullptr, nullptr);
    EXPECT_TRUE(IsCorruption(status, ".sst"));
    EntryList entries;
    EXPECT_TRUE(Ok(ScanForward(db_.get(), {}, &entries)));
    EXPECT_EQ(entries.size(), 120u);
    db_.reset();
    EXPECT_TRUE(fs::exists(table_));
  }
}

TEST_F(DbHostileClaimsTest, KeysInDisorderAreIteratedOverInBoundedTime) {
  constexpr int kEntries = 200;
  options_.block_size = 1 << 16;
  options_.block_restart_interval = 1;
  options_.compression = CompressionType::kNone;
  enum Kind { kDeletions, kValues, kUnderRangeDeletion };
  for (const Kind kind : {kDeletions, kValues, kUnderRangeDeletion}) {
    fs::remove_all(path_);
    Open();
    std::vector<const Snapshot*> snapshots;
    for (int i = 0; i < kEntries; ++i) {
      // A flush would drop a deletion that is the oldest entry.
      if (kind == kDeletions && i > 0) {
        Delete("key");
      } else {
        Put(kind == kUnderRangeDeletion ? "key" + Key(i) : "key", "value");
      }
      snapshots.push_back(db_->GetSnapshot());
    }
    Flush();
    for (const Snapshot* snapshot : snapshots) db_->ReleaseSnapshot(snapshot);
    if (kind == kUnderRangeDeletion) {
      ASSERT_TRUE(Ok(db_->DeleteRange({}, "key", "l")));
      Flush();
    }
    Close();
    const std::string path = FilesEndingIn(path_, ".sst").at(0);
    const std::string whole = ReadWholeFile(path);
    const testing::TableBytes table(whole);
    const BlockHandle block = table.index().at(0).handle;
    for (int spoilt = 3; spoilt < kEntries; spoilt += 7) {
      SCOPED_TRACE(std::to_string(kind) + " " + std::to_string(spoilt));
      for (const char letter : {'a', 'z'}) {
        std::string bytes = whole;
        size_t place = block.offset;
        for (int i = 0; i <= spoilt; ++i) place = bytes.find("key", place + 1);
        ASSERT_LT(place, block.offset + block.size);
        bytes[place] = letter;
        char* const end = bytes.data() + block.offset + block.size;
        EncodeFixed32(end + 1,
                      BlockChecksum(table.footer().checksum,
                                    bytes.data() + block.offset, block.size));
        WriteWholeFile(path, bytes);
        Open();
        for (const bool forward : {true, false}) {
          const auto it = db_->NewIterator(ReadOptions());
          forward ? it->SeekToFirst() : it->SeekToLast();
          int steps = 0;
          while (it->Valid() && ++steps < 10 * kEntries) {
            forward ? it->Next() : it->Prev();
          }
          EXPECT_LT(steps, 10 * kEntries);
        }
        Close();
      }
    }
    WriteWholeFile(path, whole);
  }
}

TEST_F(DbHostileClaimsTest, BatchesThatClaimToBeHugeAreRefused) {
  for (const uint32_t count : {2u, 1u << 20, UINT32_MAX}) {
    for (const uint32_t key_size : {1u, 1u << 20, UINT32_MAX}) {
      std::string batch;
      PutFixed64(&batch, 1000);
      PutFixed32(&batch, count);
      batch.push_back('\1');
      PutVarint32(&batch, key_size);
      batch += "kv";
      std::string record(1, '\1');
      record += batch;
      std::string bytes;
      PutFixed32(&bytes, MaskCrc(Crc32c(record.data(), record.size())));
      bytes.push_back(static_cast<char>(batch.size()));
      bytes.push_back('\0');
      bytes += record;
      CopyDirectory(path_, dir_.Sub("kept"));
      WriteWholeFile(log_, bytes);
      const std::string told = Use();
      EXPECT_TRUE(Contains(told, "Corruption")) << told;
      EXPECT_TRUE(Contains(told, ".log")) << told;
      fs::remove_all(path_);
      fs::rename(dir_.Sub("kept"), path_);
    }
  }
}

// Meta blocks with right checksums that grow when they are decoded, to 3 GB, or
// decompressed.
TEST_F(DbHostileManifestTest, MetaBlocksThatGrowTakeNoMemory) {
  const std::string key = MakeInternalKey(
      std::string(100000, 'c'), PackTrailer(100, ValueType::kRangeDeletion));
  const std::string grows = testing::BodyThatGrows(key, "d", 30000);
  std::string packed;
  ASSERT_TRUE(Compressor(CompressionType::kZSTD, kDefaultCompressionLevel)
                  .Compress(std::string(size_t{64} << 20, 'x'), &packed));
  for (const bool compressed : {false, true}) {
    SCOPED_TRACE(compressed);
    std::string bytes = ReadWholeFile(table_);
    const testing::TableBytes table(bytes);
    Footer footer = table.footer();
    bytes.resize(bytes.size() - Footer::kSize);
    const auto add = [&](const std::string& body, CompressionType type) {
      return testing::AppendBlock(body, type, footer.checksum, &bytes);
    };
    auto meta_blocks = table.meta_blocks();
    if (compressed) {
      meta_blocks[kCompressionDictionaryBlockName] =
          add(packed, CompressionType::kZSTD);
    } else {
      meta_blocks[kRangeTombstoneBlockName] =
          add(grows, CompressionType::kNone);
    }
    BlockBuilder metaindex(1);
    for (const auto& [name, handle] : meta_blocks) {
      std::string encoded;
      handle.EncodeTo(&encoded);
      metaindex.Add(name, encoded);
    }
    footer.metaindex = add(*metaindex.Finish(), CompressionType::kNone);
    footer.EncodeTo(&bytes);
    WriteWholeFile(path_ + "/000050.sst", bytes);
    VersionEdit edit;
    FileMetaData file = KnownTable();
    edit.RemoveFile(0, file.number);
    file.number = 50;
    file.file_size = bytes.size();
    edit.AddFile(0, file);
    ExpectRefused(edit, compressed ? "a compressed block of a kind"
                                   : "the keys take too much memory");
  }
}

}  // namespace
}  // namespace varve::test
