// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: whoever may put files into a directory can make Varve refuse it, and
// no more: not wait or work for ever, take memory without bound, or touch what
// lies elsewhere. Method: a small database with one of its files replaced by a
// link, a pipe, a directory or a file with a claim that cannot be true, opened,
// read, repaired and destroyed in a child with little memory and time.

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "db/version_edit.h"
#include "db/wal_writer.h"
#include "env/file_names.h"
#include "table/internal_key.h"
#include "test/testing/db_helpers.h"
#include "test/testing/directory.h"
#include "test/testing/sanitizers.h"
#include "test/testing/table_bytes.h"
#include "util/checksum.h"
#include "util/coding.h"
#include "varve/catalog.h"

namespace varve::test {
namespace {

namespace fs = std::filesystem;

#if defined(VARVE_TEST_SANITIZED)
constexpr bool kBoundMemory = false;
#else
constexpr bool kBoundMemory = true;
#endif
constexpr rlim_t kMemoryBytes = rlim_t{2} << 30;
constexpr unsigned kSeconds = 60;

constexpr const char* kPathVariable = "VARVE_HOSTILE_PATH";

Options HostileOptions() {
  Options options = TinyOptions();
  options.disable_auto_compactions = true;
  return options;
}

// Everything that may be done with the directory. The texts of the errors.
std::string UseDatabase(const std::string& path) {
  std::string told;
  const auto note = [&](const char* what, const Status& status) {
    if (!status.ok()) told += what + (": " + status.ToString()) + "\n";
  };
  Options options = HostileOptions();
  for (const bool read_only : {true, false}) {
    for (const bool paranoid : {true, false}) {
      options.paranoid_checks = paranoid;
      std::unique_ptr<DB> db;
      const Status opened = read_only ? DB::OpenForReadOnly(options, path, &db)
                                      : DB::Open(options, path, &db);
      note("open", opened);
      if (!opened.ok()) continue;
      EntryList entries;
      note("scan", ScanForward(db.get(), {}, &entries));
      for (int i = 0; i < 120; i += 7) {
        std::string value;
        const Status status = db->Get({}, Key(i), &value);
        if (!status.IsNotFound()) note("get", status);
      }
      note("verify", db->VerifyChecksum());
    }
  }
  note("repair", RepairDB(path, options));
  note("destroy", DestroyDB(path, options));
  return told;
}

// Makes this program use a database in place of running tests: a child of a
// program with threads is whole only if it begins anew.
class UserEnvironment : public ::testing::Environment {
 public:
  void SetUp() override {
    const char* const path = getenv(kPathVariable);
    if (path == nullptr) return;
    alarm(kSeconds);
    printf("%s", UseDatabase(path).c_str());
    fflush(stdout);
    _exit(0);
  }
};

[[maybe_unused]] const auto* const kUserEnvironment =
    ::testing::AddGlobalTestEnvironment(new UserEnvironment);

class DbHostileTest : public DbTestBase {
 protected:
  void SetUp() override {
    options_ = HostileOptions();
    outside_ = dir_.Sub("outside");
    fs::create_directory(outside_);
    Open();
    for (int i = 0; i < 100; i++) Put(Key(i), "value");
    Flush();
    for (int i = 100; i < 120; i++) Put(Key(i), "logged");
    Close();
    table_ = FilesEndingIn(path_, ".sst").at(0);
    log_ = FilesEndingIn(path_, ".log").at(0);
    manifest_ = FilesStartingWith(path_, "MANIFEST-").at(0);
  }

  // UseDatabase by a process that cannot take much, and must end in order.
  std::string Use() {
    const std::string program = fs::read_symlink("/proc/self/exe");
    setenv(kPathVariable, path_.c_str(), 1);
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      const rlimit bound = {kMemoryBytes, kMemoryBytes};
      if (kBoundMemory) setrlimit(RLIMIT_AS, &bound);
      dup2(ends[1], STDOUT_FILENO);
      dup2(ends[1], STDERR_FILENO);
      close(ends[0]);
      close(ends[1]);
      execl(program.c_str(), program.c_str(),
            "--gtest_filter=DbHostileTest.DirectoryMayBeALink",
            static_cast<char*>(nullptr));
      _exit(127);
    }
    close(ends[1]);
    unsetenv(kPathVariable);
    std::string told;
    char buffer[4096];
    for (ssize_t n; (n = read(ends[0], buffer, sizeof(buffer))) > 0;) {
      told.append(buffer, static_cast<size_t>(n));
    }
    close(ends[0]);
    int state = 0;
    EXPECT_EQ(waitpid(child, &state, 0), child);
    EXPECT_TRUE(WIFEXITED(state) && WEXITSTATUS(state) == 0)
        << "state " << state << " (14: out of time); " << told;
    return told;
  }

  // Replaces a file by a link to a copy outside.
  void MoveOut(const std::string& path) {
    const std::string target = outside_ + "/target";
    fs::rename(path, target);
    fs::create_symlink(target, path);
  }

  std::map<std::string, std::string> Outside() {
    return ReadDirectory(outside_);
  }

  std::string outside_;
  std::string table_;
  std::string log_;
  std::string manifest_;
};

TEST_F(DbHostileTest, LinksToFilesAreNamedAndNotFollowed) {
  for (const std::string& path :
       {path_ + "/CURRENT", manifest_, table_, log_, path_ + "/IDENTITY",
        path_ + "/LOCK", path_ + "/LOG"}) {
    SCOPED_TRACE(path);
    CopyDirectory(path_, dir_.Sub("kept"));
    MoveOut(path);
    const auto before = Outside();
    const std::string told = Use();
    const std::string name = fs::path(path).filename();
    // The info log is renamed, and a new one made.
    if (name != "LOG") {
      EXPECT_TRUE(Contains(told, name)) << told;
      EXPECT_TRUE(Contains(told, "symbolic link")) << told;
    }
    EXPECT_TRUE(Outside() == before) << "a file outside has changed";
    fs::remove_all(path_);
    fs::remove_all(outside_);
    fs::create_directory(outside_);
    fs::rename(dir_.Sub("kept"), path_);
  }
}

TEST_F(DbHostileTest, LinksWaitingForNewFilesAreNotFollowed) {
  // Whatever the next files are called.
  for (int i = 1; i < 60; i++) {
    char number[16];
    snprintf(number, sizeof(number), "%06d", i);
    for (const std::string& name :
         {path_ + "/" + number + ".sst", path_ + "/" + number + ".log",
          path_ + "/" + number + ".dbtmp", path_ + "/MANIFEST-" + number}) {
      if (fs::exists(name)) continue;
      fs::create_symlink(outside_ + "/made", name);
    }
  }
  Use();
  EXPECT_TRUE(Outside().empty()) << "made " << Outside().begin()->first;
}

TEST_F(DbHostileTest, LinkInPlaceOfLostIsNotFollowed) {
  WriteWholeFile(outside_ + "/000077.sst", "of another database");
  fs::create_directory_symlink(outside_, path_ + "/lost");
  // One that the MANIFEST does not know, to be put aside.
  fs::copy_file(table_, path_ + "/000077.sst");
  const auto before = Outside();
  Open();
  Put("a", "1");
  Close();
  EXPECT_TRUE(fs::exists(path_ + "/000077.sst")) << "nor is it removed";
  const Status status = RepairDB(path_, options_);
  EXPECT_TRUE(Contains(status.ToString(), "lost")) << status.ToString();
  EXPECT_TRUE(Outside() == before);
}

TEST_F(DbHostileTest, DroppedDatabaseTakesNothingAlongThroughALink) {
  std::unique_ptr<Catalog> catalog;
  CatalogOptions options;
  options.create_if_missing = true;
  ASSERT_TRUE(Ok(Catalog::Open(options, dir_.Sub("catalog"), &catalog)));
  ASSERT_TRUE(Ok(catalog->Create("one")));
  WriteWholeFile(outside_ + "/notes.txt", "mine");
  for (const auto& entry : fs::directory_iterator(dir_.Sub("catalog"))) {
    if (!entry.is_directory()) continue;
    fs::create_directory_symlink(outside_, entry.path() / "lost");
  }
  ASSERT_TRUE(Ok(catalog->Drop("one")));
  EXPECT_EQ(Outside().size(), 1u);
}

TEST_F(DbHostileTest, PipesAndDirectoriesAreNamedAndNotWaitedFor) {
  for (const bool pipe : {true, false}) {
    for (const std::string& path :
         {path_ + "/CURRENT", manifest_, table_, log_, path_ + "/IDENTITY"}) {
      SCOPED_TRACE(path);
      CopyDirectory(path_, dir_.Sub("kept"));
      fs::remove(path);
      if (pipe) {
        ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
      } else {
        fs::create_directory(path);
      }
      const std::string told = Use();
      EXPECT_TRUE(Contains(told, fs::path(path).filename())) << told;
      fs::remove_all(path_);
      fs::rename(dir_.Sub("kept"), path_);
    }
  }
}

TEST_F(DbHostileTest, DirectoryMayBeALink) {
  const std::string link = dir_.Sub("link");
  fs::create_directory_symlink(path_, link);
  std::unique_ptr<DB> db;
  ASSERT_TRUE(Ok(DB::Open(options_, link, &db)));
  std::string value;
  EXPECT_TRUE(Ok(db->Get({}, Key(1), &value)));
  EXPECT_TRUE(Ok(db->Put({}, Key(1), "new")));
  EXPECT_TRUE(Ok(db->Flush({})));
  ASSERT_TRUE(Ok(db->Close()));
  db.reset();
  EXPECT_TRUE(Ok(RepairDB(link, options_)));
  Open();
  EXPECT_EQ(Get(Key(1)), "new");
}

TEST_F(DbHostileTest, CurrentLeadsNowhereElse) {
  fs::copy_file(manifest_, outside_ + "/MANIFEST-000005");
  for (const std::string& text :
       {std::string("../outside/MANIFEST-000005\n"),
        std::string("/etc/passwd\n"), outside_ + "/MANIFEST-000005\n",
        std::string("CURRENT\n"), std::string("000001.log\n"),
        std::string("MANIFEST-5\0\n", 12),
        std::string("MANIFEST-99999999999999999999999\n")}) {
    WriteWholeFile(path_ + "/CURRENT", text);
    const Status status = TryOpen();
    EXPECT_TRUE(status.IsCorruption()) << text << status.ToString();
    EXPECT_TRUE(Contains(status.message(), "CURRENT")) << status.ToString();
  }
}

TEST_F(DbHostileTest, UmaskIsHonoured) {
  const mode_t before = umask(077);
  path_ = dir_.Sub("private");
  options_.disable_auto_compactions = false;
  Open();
  Put("a", "1");
  Flush();
  Put("b", "2");
  CompactAll();
  Close();
  EXPECT_TRUE(Ok(RepairDB(path_, options_)));
  umask(before);
  size_t files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(path_)) {
    struct stat info;
    ASSERT_EQ(lstat(entry.path().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 077u, 0u) << entry.path();
    files += entry.is_regular_file();
  }
  EXPECT_GT(files, 5u);
  struct stat info;
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777u, 0700u);
}

TEST_F(DbHostileTest, HugeHolesCostNothing) {
  const uint64_t size = uint64_t{4} << 40;
  for (const std::string& path : {path_ + "/CURRENT", path_ + "/IDENTITY",
                                  table_, path_ + "/OPTIONS-000001"}) {
    CopyDirectory(path_, dir_.Sub("kept"));
    WriteWholeFile(path, "");
    if (truncate(path.c_str(), static_cast<off_t>(size)) != 0) continue;
    Use();
    fs::remove_all(path_);
    fs::rename(dir_.Sub("kept"), path_);
  }
}

// A MANIFEST with this edit behind the others.
class DbHostileManifestTest : public DbHostileTest {
 protected:
  void AppendEdit(const std::string& edit) {
    std::string bytes = ReadWholeFile(manifest_);
    // A full record; there is room in the first block.
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

// Compacted away in one of them, it would be gone from the other.
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
      WriteOptions sync;
      sync.sync = true;
      ASSERT_TRUE(Ok(db_->Put(sync, key, "kept")));
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

// What is accepted is accepted again afterwards.
TEST_F(DbHostileManifestTest, LastFileNumbersAreReadAndNotWrittenBehind) {
  CopyDirectory(path_, dir_.Sub("kept"));
  for (const uint64_t number : {kMaxFileNumber, kMaxFileNumber - 1}) {
    for (int field = 0; field < 3; field++) {
      SCOPED_TRACE("field " + std::to_string(field));
      VersionEdit edit;
      if (field == 0) edit.SetNextFileNumber(number);
      if (field == 1) edit.SetPrevLogNumber(number);
      if (field == 2) {
        WriteWholeFile(path_ + "/" + std::to_string(number) + ".dbtmp", "");
      }
      std::string bytes;
      edit.EncodeTo(&bytes);
      AppendEdit(bytes);
      const Status status = TryOpen();
      EXPECT_TRUE(status.IsCorruption()) << status.ToString();
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

TEST_F(DbHostileManifestTest, FileNumbersAtTheEndOfAllAreRefused) {
  for (const char* name :
       {"/18446744073709551615.sst", "/18446744073709551615.log",
        "/MANIFEST-18446744073709551615", "/18446744073709551614.dbtmp"}) {
    WriteWholeFile(path_ + name, "");
    const Status status = TryOpen();
    EXPECT_TRUE(status.IsCorruption()) << status.ToString();
    EXPECT_TRUE(Contains(status.message(), name)) << status.ToString();
    fs::remove(path_ + name);
  }
}

// Blocks with right checksums that claim what they cannot hold.
TEST_F(DbHostileTest, BlocksThatClaimToBeHugeTakeNoMemory) {
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

// Batches that claim to have more updates, or longer ones, than there are.
// Seeks over what is hidden may lead back in such a block, again and again.
TEST_F(DbHostileTest, KeysInDisorderAreIteratedOverInBoundedTime) {
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
      if (kind == kDeletions) {
        Delete("key");
      } else {
        Put(kind == kValues ? "key" : "key" + Key(i), "value");
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

TEST_F(DbHostileTest, BatchesThatClaimToBeHugeAreRefused) {
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

}  // namespace
}  // namespace varve::test
