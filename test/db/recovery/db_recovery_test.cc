// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: what a crash or a decaying disk leaves of logs and manifests opens to
// a state that the database once had, or is refused; never to anything else.
// Method: the files of a small database are kept as strings, cut at every
// length or changed at every byte, and opened in memory.

#include "db/version/version_edit.h"
#include "db/wal/wal_format.h"
#include "db/wal/wal_reader.h"
#include "env/file_names.h"
#include "test/testing/db_helpers.h"
#include "test/testing/directory.h"
#include "test/testing/env/hook_env.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "util/bytes/checksum.h"
#include "util/bytes/coding.h"

namespace varve::test {
namespace {

using Files = std::map<std::string, std::string>;

class DbRecoveryTest : public ::testing::Test {
 protected:
  DbRecoveryTest() { options_ = TinyOptions(); }

  // A new world in memory with these files in /db, opened.
  Status OpenFiles(const Files& files) {
    db_.reset();
    env_ = NewMemoryEnv(Env::Default());
    options_.env = env_.get();
    EXPECT_TRUE(Ok(env_->CreateDirIfMissing("/db")));
    for (const auto& [name, bytes] : files) {
      EXPECT_TRUE(
          Ok(WriteStringToFile(env_.get(), bytes, "/db/" + name, false)));
    }
    return DB::Open(options_, "/db", &db_);
  }

  Files TakeFiles() {
    Files files;
    std::vector<std::string> names;
    EXPECT_TRUE(Ok(env_->GetChildren("/db", &names)));
    for (const std::string& name : names) {
      if (name.starts_with("LOG") || name == "LOCK" || name == "lost") continue;
      EXPECT_TRUE(
          Ok(ReadFileToString(env_.get(), "/db/" + name, &files[name])));
    }
    return files;
  }

  static std::string NameOf(const Files& files, FileKind wanted) {
    std::string last;
    for (const auto& [name, bytes] : files) {
      uint64_t number = 0;
      FileKind type;
      if (ParseFileName(name, &number, &type) && type == wanted) last = name;
    }
    return last;
  }

  // Writes one of a series: puts, overwrites, deletes and batches. states_[n]
  // is the database after n writes, offsets_[n] the size of its log then.
  void WriteNext() {
    if (states_.empty()) states_.emplace_back();
    const int i = static_cast<int>(states_.size());
    WriteBatch batch;
    batch.Put(Key(i), "value" + std::to_string(i));
    batch.Put("latest", std::to_string(i));
    if (i % 3 == 0) batch.Delete(Key(i - 1));
    if (i % 7 == 0) batch.Put("long", std::string(200, 'l'));
    ASSERT_TRUE(Ok(db_->Write({}, &batch)));
    ModelDb model;
    *model.mutable_entries() = states_.back();
    ASSERT_TRUE(Ok(model.Write(batch)));
    states_.push_back(model.entries());
  }

  // The number of writes after which the database was as it is now; -1 if it
  // never was.
  int StateNow() {
    EntryList found;
    Status s = ScanForward(db_.get(), {}, &found);
    EXPECT_TRUE(Ok(s));
    if (!s.ok()) return -1;
    for (size_t n = 0; n < states_.size(); n++) {
      if (SameEntries(ToList(states_[n]), found)) return static_cast<int>(n);
    }
    return -1;
  }

  // Everything that is there is a value its key once had.
  void ExpectOldValuesOnly() {
    EntryList found;
    EXPECT_TRUE(Ok(ScanForward(db_.get(), {}, &found)));
    for (const auto& [key, value] : found) {
      bool once = false;
      for (const Entries& state : states_) {
        auto old = state.find(key);
        once = once || (old != state.end() && old->second == value);
      }
      EXPECT_TRUE(once) << key << " = " << value;
    }
  }

  std::unique_ptr<Env> env_;
  Options options_;
  std::unique_ptr<DB> db_;
  std::vector<Entries> states_;
};

TEST_F(DbRecoveryTest, LogCutAnywhereGivesAPrefix) {
  ASSERT_TRUE(Ok(OpenFiles({})));
  for (int i = 0; i < 40; i++) WriteNext();
  const Files files = TakeFiles();
  const std::string log = NameOf(files, FileKind::kWal);
  ASSERT_EQ(StateNow(), 40);
  int previous = 0;
  for (size_t length = 0; length <= files.at(log).size(); length++) {
    Files cut = files;
    cut[log].resize(length);
    ASSERT_TRUE(Ok(OpenFiles(cut))) << "log of " << length << " bytes";
    const int state = StateNow();
    ASSERT_TRUE(state == previous || state == previous + 1)
        << "log of " << length << " bytes: state " << state << " after state "
        << previous;
    previous = state;
    if (length % 37 != 0) continue;
    // It stays so, and new writes do not bring the torn end back.
    ASSERT_TRUE(Ok(db_->Put({}, "new", "1")));
    ASSERT_TRUE(Ok(db_->Close()));
    ASSERT_TRUE(Ok(OpenFiles(TakeFiles())));
    ASSERT_TRUE(Ok(db_->Delete({}, "new")));
    ASSERT_EQ(StateNow(), state);
  }
  EXPECT_EQ(previous, 40);
}

TEST_F(DbRecoveryTest, LogOfRecordsOverSeveralBlocksGivesAPrefix) {
  options_.write_buffer_size = 4 << 20;
  ASSERT_TRUE(Ok(OpenFiles({})));
  states_.emplace_back();
  for (int i = 0; i < 6; i++) {
    Entries next = states_.back();
    next[Key(i)] = std::string(25000, static_cast<char>('a' + i));
    ASSERT_TRUE(Ok(db_->Put({}, Key(i), next[Key(i)])));
    states_.push_back(next);
  }
  const Files files = TakeFiles();
  const std::string log = NameOf(files, FileKind::kWal);
  constexpr size_t kBlock = 32 << 10;
  int previous = 0;
  // All lengths around the ends of blocks, a few of the others.
  for (size_t length = 0; length <= files.at(log).size(); length++) {
    const size_t in_block = length % kBlock;
    if (in_block > 10 && in_block < kBlock - 10 && length % 211 != 0) continue;
    Files cut = files;
    cut[log].resize(length);
    ASSERT_TRUE(Ok(OpenFiles(cut))) << "log of " << length << " bytes";
    const int state = StateNow();
    ASSERT_TRUE(state == previous || state == previous + 1) << length;
    previous = state;
  }
  EXPECT_GE(previous, 5);
}

TEST_F(DbRecoveryTest, ChangedByteInTheLogEndsReplayBeforeIt) {
  ASSERT_TRUE(Ok(OpenFiles({})));
  std::vector<size_t> ends = {0};
  for (int i = 0; i < 12; i++) {
    WriteNext();
    const Files files = TakeFiles();
    ends.push_back(files.at(NameOf(files, FileKind::kWal)).size());
  }
  const Files files = TakeFiles();
  const std::string log = NameOf(files, FileKind::kWal);
  size_t whole = 0;
  for (size_t at = 0; at < files.at(log).size(); at++) {
    while (ends[whole + 1] <= at) whole++;
    for (const int change : {0x01, 0x80, 0xff}) {
      Files changed = files;
      changed[log][at] = static_cast<char>(changed[log][at] ^ change);
      options_.wal_recovery_mode = WalRecoveryMode::kPointInTime;
      ASSERT_TRUE(Ok(OpenFiles(changed))) << "byte " << at;
      ASSERT_EQ(StateNow(), static_cast<int>(whole))
          << "byte " << at << " changed by " << change;
      options_.wal_recovery_mode = WalRecoveryMode::kAbsoluteConsistency;
      Status s = OpenFiles(changed);
      ASSERT_TRUE(s.IsCorruption()) << "byte " << at << ": " << s.ToString();
      ASSERT_TRUE(Contains(s.message(), log)) << s.ToString();
    }
  }
}

TEST_F(DbRecoveryTest, RecordsAfterZerosAreDamage) {
  ASSERT_TRUE(Ok(OpenFiles({})));
  std::vector<size_t> ends;
  for (int i = 0; i < 6; ++i) {
    WriteNext();
    const Files files = TakeFiles();
    ends.push_back(files.at(NameOf(files, FileKind::kWal)).size());
  }
  Files files = TakeFiles();
  const std::string log = NameOf(files, FileKind::kWal);
  std::fill(files[log].begin() + static_cast<std::ptrdiff_t>(ends[2]),
            files[log].begin() + static_cast<std::ptrdiff_t>(ends[3]), '\0');
  ASSERT_TRUE(Ok(OpenFiles(files)));
  EXPECT_EQ(StateNow(), 3);
  options_.wal_recovery_mode = WalRecoveryMode::kAbsoluteConsistency;
  EXPECT_TRUE(IsCorruption(OpenFiles(files)));
}

// A log whose file RocksDB had used for an earlier log (recycle_log_file_num).
TEST_F(DbRecoveryTest, RecycledLogEndsWhereItsEarlierLifeBegins) {
  ASSERT_TRUE(Ok(OpenFiles({})));
  for (int i = 0; i < 6; ++i) WriteNext();
  const Files files = TakeFiles();
  const std::string name = NameOf(files, FileKind::kWal);
  uint64_t number = 0;
  FileKind type;
  ASSERT_TRUE(ParseFileName(name, &number, &type));
  std::unique_ptr<SequentialFile> file;
  ASSERT_TRUE(Ok(env_->NewSequentialFile("/db/" + name, {}, &file)));
  wal::Reader reader(std::move(file), name, number);
  std::vector<std::string> records;
  for (Slice record; reader.ReadRecord(&record) == wal::ReadOutcome::kRecord;) {
    records.push_back(record.ToString());
  }
  ASSERT_GE(records.size(), 6u);
  const int others = static_cast<int>(records.size()) - 6;
  for (int own = 0; own <= static_cast<int>(records.size()); ++own) {
    Files recycled = files;
    recycled[name].clear();
    for (int i = 0; i < static_cast<int>(records.size()); ++i) {
      std::string frame(wal::kRecyclableHeaderSize, '\0');
      frame[4] = static_cast<char>(records[i].size() & 0xff);
      frame[5] = static_cast<char>(records[i].size() >> 8);
      frame[6] = static_cast<char>(wal::kRecyclableFull);
      EncodeFixed32(frame.data() + wal::kHeaderSize,
                    static_cast<uint32_t>(i < own ? number : number - 1));
      frame += records[i];
      EncodeFixed32(frame.data(),
                    MaskCrc(Crc32c(frame.data() + 6, frame.size() - 6)));
      recycled[name] += frame;
    }
    ASSERT_TRUE(Ok(OpenFiles(recycled))) << own;
    EXPECT_EQ(StateNow(), std::max(own - others, 0));
  }
}

// Two logs that both have to be replayed, as after a crash before the flush
// of the first was recorded.
class DbTwoLogsTest : public DbRecoveryTest {
 protected:
  void SetUp() override {
    ASSERT_TRUE(Ok(OpenFiles({})));
    for (int i = 0; i < 10; i++) {
      WriteNext();
      files_ = TakeFiles();
      first_ = NameOf(files_, FileKind::kWal);
      ends_.insert(files_[first_].size());
    }
    ASSERT_TRUE(Ok(db_->Flush({})));
    for (int i = 0; i < 10; i++) WriteNext();
    Files later = TakeFiles();
    second_ = NameOf(later, FileKind::kWal);
    ASSERT_NE(first_, second_);
    files_[second_] = later[second_];
  }

  Files files_;
  // Where records of the first log end.
  std::set<size_t> ends_ = {0};
  std::string first_;
  std::string second_;
};

TEST_F(DbTwoLogsTest, AreReplayedInOrder) {
  ASSERT_TRUE(Ok(OpenFiles(files_)));
  EXPECT_EQ(StateNow(), 20);
  ASSERT_TRUE(Ok(db_->Close()));
  ASSERT_TRUE(Ok(OpenFiles(TakeFiles())));
  EXPECT_EQ(StateNow(), 20);
}

TEST_F(DbTwoLogsTest, DamageInTheFirstHidesTheSecond) {
  const size_t size = files_[first_].size();
  for (size_t length = 0; length < size; length++) {
    // A log that ends with a record shows no damage by itself, but the second
    // says how long it was.
    if (length % 5 != 0 && ends_.count(length) == 0) continue;
    Files cut = files_;
    cut[first_].resize(length);
    ASSERT_TRUE(Ok(OpenFiles(cut)));
    const int state = StateNow();
    ASSERT_GE(state, 0) << "a hole, first log of " << length << " bytes";
    ASSERT_LE(state, 10);
    // Nothing of the second may come back later.
    ASSERT_TRUE(Ok(db_->Close()));
    ASSERT_TRUE(Ok(OpenFiles(TakeFiles())));
    ASSERT_EQ(StateNow(), state);
  }
}

// As the writer of a MANIFEST does.
void AppendRecord(const VersionEdit& edit, std::string* manifest) {
  constexpr size_t kBlock = 32 << 10;
  std::string record;
  edit.EncodeTo(&record);
  for (bool first = true; first || !record.empty(); first = false) {
    size_t space = kBlock - manifest->size() % kBlock;
    if (space < 7) {
      manifest->append(space, '\0');
      space = kBlock;
    }
    const size_t length = std::min(record.size(), space - 7);
    const bool last = length == record.size();
    std::string frame(7, '\0');
    frame[4] = static_cast<char>(length & 0xff);
    frame[5] = static_cast<char>(length >> 8);
    // Full, first, middle or last.
    frame[6] = static_cast<char>(first ? (last ? 1 : 2) : (last ? 4 : 3));
    frame += record.substr(0, length);
    record.erase(0, length);
    EncodeFixed32(frame.data(),
                  MaskCrc(Crc32c(frame.data() + 6, frame.size() - 6)));
    *manifest += frame;
  }
}

// RocksDB's num_levels is an option.
TEST(VersionEditTest, MoreLevelsThanThereAreIsNotDamage) {
  const auto decode = [](int level, bool deletes) {
    VersionEdit edit;
    if (deletes) {
      edit.RemoveFile(level, 7);
    } else {
      FileMetaData file;
      file.number = 7;
      file.smallest = file.largest = std::string("a\0\0\0\0\0\0\0\0", 9);
      edit.AddFile(level, file);
    }
    std::string record;
    edit.EncodeTo(&record);
    return edit.DecodeFrom(record);
  };
  for (const bool deletes : {false, true}) {
    EXPECT_TRUE(Ok(decode(kNumLevels - 1, deletes)));
    for (const int level : {kNumLevels, 255}) {
      EXPECT_TRUE(IsNotSupported(decode(level, deletes), "more than 7 levels"));
    }
    EXPECT_TRUE(decode(256, deletes).IsCorruption());
  }
}

// The MANIFEST may know of updates that the first log has lost. Then the second
// log continues exactly where the MANIFEST's last sequence ends.
TEST_F(DbTwoLogsTest, LastSequenceOfTheManifestHidesNoHole) {
  VersionEdit edit;
  // The second log's first record is the note about the first log. Its sequence
  // number equals the next update's.
  edit.SetLastSequence(DecodeFixed64(files_[second_].data() + 7) - 1);
  AppendRecord(edit, &files_[NameOf(files_, FileKind::kManifest)]);
  for (const size_t length : ends_) {
    Files cut = files_;
    cut[first_].resize(length);
    ASSERT_TRUE(Ok(OpenFiles(cut)));
    ASSERT_GE(StateNow(), 0) << "a hole, first log of " << length << " bytes";
  }
}

TEST_F(DbTwoLogsTest, DamageInTheSecondKeepsTheFirst) {
  for (size_t at = 0; at < files_[second_].size(); at += 3) {
    Files changed = files_;
    changed[second_][at] = static_cast<char>(changed[second_][at] ^ 0x40);
    ASSERT_TRUE(Ok(OpenFiles(changed)));
    ASSERT_GE(StateNow(), 10);
    ASSERT_LT(StateNow(), 20);
  }
}

TEST_F(DbTwoLogsTest, EmptyLogsInBetweenDoNoHarm) {
  uint64_t number = 0;
  FileKind type;
  ASSERT_TRUE(ParseFileName(second_, &number, &type));
  files_[WalFileName("", number + 1).substr(1)] = "";
  files_[WalFileName("", number + 2).substr(1)] = std::string(100, '\0');
  ASSERT_TRUE(Ok(OpenFiles(files_)));
  EXPECT_EQ(StateNow(), 20);
}

TEST_F(DbTwoLogsTest, ReadOnlyReplaysBothWithoutAChange) {
  ASSERT_TRUE(Ok(OpenFiles(files_)));
  db_.reset();
  // Once more, as files only.
  env_ = NewMemoryEnv(Env::Default());
  options_.env = env_.get();
  ASSERT_TRUE(Ok(env_->CreateDirIfMissing("/db")));
  for (const auto& [name, bytes] : files_) {
    ASSERT_TRUE(Ok(WriteStringToFile(env_.get(), bytes, "/db/" + name, false)));
  }
  ASSERT_TRUE(Ok(DB::OpenForReadOnly(options_, "/db", &db_)));
  EXPECT_EQ(StateNow(), 20);
  db_.reset();
  EXPECT_TRUE(TakeFiles() == files_);
}

// A manifest with several edits: three flushes, a compaction, a live log.
class DbManifestTest : public DbRecoveryTest {
 protected:
  void SetUp() override {
    options_.disable_auto_compactions = true;
    ASSERT_TRUE(Ok(OpenFiles({})));
    for (int flushes = 0; flushes < 3; flushes++) {
      for (int i = 0; i < 5; i++) WriteNext();
      ASSERT_TRUE(Ok(db_->Flush({})));
      if (flushes == 1) {
        ASSERT_TRUE(Ok(db_->CompactRange({}, nullptr, nullptr)));
      }
    }
    for (int i = 0; i < 5; i++) WriteNext();
    files_ = TakeFiles();
    manifest_ = NameOf(files_, FileKind::kManifest);
    ASSERT_FALSE(manifest_.empty());
  }

  // After an open of these files with a hurt manifest.
  void ExpectNothingWrong(const Files& files, const Status& s) {
    if (!s.ok()) {
      EXPECT_TRUE(IsCorruption(s));
      EXPECT_TRUE(Contains(s.message(), manifest_) ||
                  Contains(s.message(), ".sst") ||
                  Contains(s.message(), ".log"))
          << s.ToString();
      return;
    }
    ExpectOldValuesOnly();
    if (StateNow() == static_cast<int>(states_.size()) - 1) return;
    // Some edits are lost. Then their tables must stay, for a repair.
    ASSERT_TRUE(Ok(db_->Flush({})));
    for (const auto& [name, bytes] : files) {
      if (!name.ends_with(".sst")) continue;
      EXPECT_TRUE(env_->FileExists("/db/" + name).ok() ||
                  env_->FileExists("/db/lost/" + name).ok())
          << name << " was removed, but its entries are not there";
    }
  }

  Files files_;
  std::string manifest_;
};

TEST_F(DbManifestTest, CutAnywhereIsNeverWrong) {
  for (size_t length = 0; length < files_[manifest_].size(); length++) {
    SCOPED_TRACE("manifest of " + std::to_string(length) + " bytes");
    Files cut = files_;
    cut[manifest_].resize(length);
    ExpectNothingWrong(cut, OpenFiles(cut));
    if (HasFailure()) return;
  }
}

// As a power cut leaves it that comes before an edit is synced.
TEST_F(DbManifestTest, GarbageAfterTheLastEditIsIgnored) {
  const uint64_t seed = TestSeed();
  Rng rng(seed);
  for (size_t length = 1; length < 600; length += 1 + rng.Below(20)) {
    SCOPED_TRACE(std::to_string(length) +
                 " bytes of garbage, TEST_SEED=" + std::to_string(seed));
    Files torn = files_;
    // A record with a checksum that is wrong may have been a good one once.
    std::string garbage = rng.Bytes(length);
    if (length > 6) garbage[6] = static_cast<char>(0x80 | garbage[6]);
    torn[manifest_] += garbage;
    ASSERT_TRUE(Ok(OpenFiles(torn)));
    ASSERT_EQ(StateNow(), static_cast<int>(states_.size()) - 1);
  }
}

// As it leaves an edit of many tables: some of its sectors are not written.
TEST_F(DbManifestTest, EditWithTornSectorsIsIgnored) {
  constexpr size_t kSector = 512;
  Rng rng(TestSeed());
  for (int round = 0; round < 200; ++round) {
    VersionEdit edit;
    for (int i = rng.Between(1, 40) * (rng.OneIn(20) ? 20 : 1); i > 0; --i) {
      FileMetaData file;
      file.number = static_cast<uint64_t>(1000 + i);
      file.file_size = rng.Next() >> 20;
      file.smallest = file.largest = rng.Bytes(40);
      edit.AddFile(1, file);
    }
    Files torn = files_;
    std::string& manifest = torn[manifest_];
    const size_t begin = manifest.size();
    AppendRecord(edit, &manifest);
    bool is_torn = false;
    for (size_t at = begin; at < manifest.size();) {
      const size_t end =
          std::min(manifest.size(), (at / kSector + 1) * kSector);
      const uint64_t fate = rng.Below(4);
      for (size_t i = at; i < end && fate < 2; ++i) {
        manifest[i] = fate == 0 ? '\0' : static_cast<char>(rng.Next());
      }
      is_torn |= fate < 2;
      at = end;
    }
    if (!is_torn) continue;
    if (rng.OneIn(4))
      manifest.resize(begin + rng.Below(manifest.size() - begin));
    ASSERT_TRUE(Ok(OpenFiles(torn))) << "round " << round;
    ASSERT_EQ(StateNow(), static_cast<int>(states_.size()) - 1);
  }
}

TEST_F(DbManifestTest, ChangedByteIsNeverWrong) {
  for (size_t at = 0; at < files_[manifest_].size(); at++) {
    SCOPED_TRACE("byte " + std::to_string(at));
    Files changed = files_;
    changed[manifest_][at] = static_cast<char>(changed[manifest_][at] ^ 0x04);
    ExpectNothingWrong(changed, OpenFiles(changed));
    if (HasFailure()) return;
  }
}

TEST_F(DbManifestTest, ChangedByteInATableIsNeverWrong) {
  const std::string table = NameOf(files_, FileKind::kTable);
  for (size_t at = 0; at < files_[table].size(); at += 3) {
    Files changed = files_;
    changed[table][at] = static_cast<char>(changed[table][at] ^ 0x04);
    Status s = OpenFiles(changed);
    EntryList found;
    if (s.ok()) s = ScanForward(db_.get(), {}, &found);
    if (s.ok()) {
      ASSERT_TRUE(SameEntries(ToList(states_.back()), found))
          << "byte " << at << " of " << table;
    } else {
      ASSERT_TRUE(s.IsCorruption() || s.IsNotSupported()) << s.ToString();
      ASSERT_TRUE(Contains(s.message(), table)) << s.ToString();
    }
  }
}

// A database in which nothing was left to do when it was closed.
class DbCleanOpenTest : public DbRecoveryTest {
 protected:
  void SetUp() override {
    ASSERT_TRUE(Ok(OpenFiles({})));
    for (int i = 0; i < 20; ++i) WriteNext();
    ASSERT_TRUE(Ok(db_->Flush({})));
    ASSERT_TRUE(Ok(db_->Close()));
    files_ = TakeFiles();
    manifest_ = NameOf(files_, FileKind::kManifest);
    log_ = NameOf(files_, FileKind::kWal);
  }

  Files files_;
  std::string manifest_;
  std::string log_;
};

TEST_F(DbCleanOpenTest, LeavesManifestAndNamesAsTheyWere) {
  ASSERT_TRUE(Ok(OpenFiles(files_)));
  const Files opened = TakeFiles();
  EXPECT_EQ(opened.at(log_), "");
  Files expected = files_;
  expected[log_] = "";
  EXPECT_EQ(opened, expected);
  EXPECT_EQ(StateNow(), 20);
}

TEST_F(DbCleanOpenTest, LaterWritesSurviveACrash) {
  ASSERT_TRUE(Ok(OpenFiles(files_)));
  for (int i = 0; i < 5; ++i) WriteNext();
  const Files crashed = TakeFiles();
  EXPECT_EQ(crashed.at(manifest_), files_.at(manifest_));
  // The first edit comes in a MANIFEST of its own, and the old one goes.
  ASSERT_TRUE(Ok(db_->Flush({})));
  const Files flushed = TakeFiles();
  EXPECT_EQ(flushed.count(manifest_), 0u);
  EXPECT_EQ(flushed.count(log_), 0u);
  for (const Files& files : {crashed, flushed}) {
    ASSERT_TRUE(Ok(OpenFiles(files)));
    EXPECT_EQ(StateNow(), 25);
  }
}

TEST_F(DbCleanOpenTest, SequenceNeverFallsInAManifestMadeAmidWrites) {
  ASSERT_TRUE(Ok(OpenFiles(files_)));
  db_.reset();
  HookEnv env(kCreateOperation, "MANIFEST", env_.get());
  options_.env = &env;
  ASSERT_TRUE(Ok(DB::Open(options_, "/db", &db_)));
  int hooked = 0;
  env.hook = [&](const std::string&) {
    ++hooked;
    return db_->Put({}, "amid", "the edit");
  };
  ASSERT_TRUE(Ok(db_->Put({}, "a", "1")));
  ASSERT_TRUE(Ok(db_->Flush({})));
  EXPECT_EQ(hooked, 1);
  ASSERT_TRUE(Ok(db_->Close()));
  const std::string manifest = NameOf(TakeFiles(), FileKind::kManifest);
  std::unique_ptr<SequentialFile> file;
  ASSERT_TRUE(Ok(env_->NewSequentialFile("/db/" + manifest, {}, &file)));
  wal::Reader reader(std::move(file), manifest, 0);
  Slice record;
  SequenceNumber last = 0;
  int edits = 0;
  while (reader.ReadRecord(&record) == wal::ReadOutcome::kRecord) {
    VersionEdit edit;
    ASSERT_TRUE(Ok(edit.DecodeFrom(record)));
    if (!edit.last_sequence()) continue;
    EXPECT_GE(*edit.last_sequence(), last);
    last = *edit.last_sequence();
    ++edits;
  }
  EXPECT_GE(edits, 2);
  db_.reset();
}

TEST_F(DbCleanOpenTest, RemainingWorkIsDone) {
  const auto is_done = [this](Files files) {
    EXPECT_TRUE(Ok(OpenFiles(files)));
    const Files opened = TakeFiles();
    EXPECT_EQ(opened.count(manifest_), 0u);
    EXPECT_EQ(opened.count(log_), 0u);
    EXPECT_EQ(NameOf(opened, FileKind::kTemp), "");
    EXPECT_EQ(StateNow(), 20);
  };
  Files files = files_;
  files["000900.dbtmp"] = "MANIFEST-0009";
  is_done(files);
  files = files_;
  files["MANIFEST-000900"] = "";
  is_done(files);
  files = files_;
  files["000900.log"] = "";
  is_done(files);
  files = files_;
  files["000900.sst"] = std::string("\0\1cut off", 9);
  is_done(files);
  files = files_;
  files.erase(log_);
  is_done(files);
}

TEST_F(DbManifestTest, CurrentCutAnywhereIsRefusedOrWhole) {
  for (size_t length = 0; length < files_["CURRENT"].size(); length++) {
    Files cut = files_;
    cut["CURRENT"].resize(length);
    Status s = OpenFiles(cut);
    ASSERT_TRUE(s.IsCorruption()) << length << ": " << s.ToString();
    ASSERT_TRUE(Contains(s.message(), "CURRENT")) << s.ToString();
  }
}

}  // namespace
}  // namespace varve::test
