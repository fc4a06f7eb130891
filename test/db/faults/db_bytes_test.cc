// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: with any byte of any file changed, or any file cut off anywhere, a
// database shows exactly what it held, or says Corruption and names a file;
// of a log, whose last writes were never synced, it may show those before the
// damage. Method: a small database with all kinds of files and features, in
// memory; each byte and each length in the long run (VARVE_DAMAGE_STRIDE=1),
// every so many in the short one; opened in each way, read in each way, and
// repaired. One line of figures says what came of it.

#include <cinttypes>
#include <set>

#include "env/file_names.h"
#include "test/testing/db_helpers.h"
#include "test/testing/seed.h"

namespace varve::test {
namespace {

constexpr const char* kPath = "/db";

using Files = std::map<std::string, std::string>;

class DbBytesTest : public ::testing::Test {
 protected:
  // Results of the cases.
  struct Figures {
    uint64_t cases = 0;
    uint64_t exact = 0;
    uint64_t prefix = 0;   // The first writes of the log.
    uint64_t refused = 0;  // By Open.
    uint64_t at_read = 0;  // Some reads said Corruption; the others were right.
  };

  DbBytesTest() {
    options_ = TinyOptions();
    options_.disable_auto_compactions = true;
    options_.filter_policy = NewBloomFilterPolicy(10);
    options_.block_size = 256;
  }

  static void Restore(Env* env, const Files& files) {
    ASSERT_TRUE(Ok(env->CreateDirIfMissing(kPath)));
    for (const auto& [name, bytes] : files) {
      ASSERT_TRUE(
          Ok(WriteStringToFile(env, bytes, kPath + ("/" + name), false)));
    }
  }

  static Files Save(Env* env) {
    std::vector<std::string> names;
    EXPECT_TRUE(Ok(env->GetChildren(kPath, &names)));
    Files files;
    for (const std::string& name : names) {
      if (name.starts_with("LO")) continue;
      EXPECT_TRUE(
          Ok(ReadFileToString(env, kPath + ("/" + name), &files[name])));
    }
    return files;
  }

  void Apply(DB* db, int i) {
    WriteBatch batch;
    const std::string key = Key(i);
    switch (i % 5) {
      case 0:
        batch.Delete(Key(i / 2));
        state_.erase(Key(i / 2));
        break;
      case 1:
        batch.DeleteRange(Key(i - 8), Key(i - 5));
        state_.erase(state_.lower_bound(Key(i - 8)),
                     state_.lower_bound(Key(i - 5)));
        break;
      default:
        batch.Put(key, "value" + std::string(30, 'a') + std::to_string(i));
        batch.Put(key + "second", "");
        state_[key] = "value" + std::string(30, 'a') + std::to_string(i);
        state_[key + "second"] = "";
        break;
    }
    ASSERT_TRUE(Ok(db->Write({}, &batch)));
  }

  // Tables with and without compression, a log, and what other engines add.
  void MakeDatabase() {
    const auto env = NewMemoryEnv(Env::Default());
    options_.env = env.get();
    options_.compression = CompressionType::kZSTD;
    std::unique_ptr<DB> db;
    ASSERT_TRUE(Ok(DB::Open(options_, kPath, &db)));
    int i = 10;
    for (; i < 50; i++) Apply(db.get(), i);
    ASSERT_TRUE(Ok(db->CompactRange({}, nullptr, nullptr)));
    ASSERT_TRUE(Ok(db->Close()));
    options_.compression = CompressionType::kNone;
    ASSERT_TRUE(Ok(DB::Open(options_, kPath, &db)));
    for (; i < 70; i++) Apply(db.get(), i);
    ASSERT_TRUE(Ok(db->Flush({})));
    states_.push_back(ToList(state_));
    for (; i < 90; i++) {
      Apply(db.get(), i);
      states_.push_back(ToList(state_));
    }
    ASSERT_TRUE(Ok(db->Close()));
    db.reset();
    files_ = Save(env.get());
    files_["OPTIONS-000003"] = "[Version]\n  rocksdb_version=7.8.3\n";
    for (const auto& [key, value] : state_) keys_.insert(key);
    for (int k = 0; k < 90; k++) keys_.insert(Key(k));
    std::set<std::string> kinds;
    for (const auto& [name, bytes] : files_) {
      kinds.insert(name.substr(0, 3) == "000" ? name.substr(6)
                                              : name.substr(0, 3));
    }
    ASSERT_EQ(kinds, (std::set<std::string>{".log", ".sst", "CUR", "IDE", "MAN",
                                            "OPT"}));
  }

  bool NamesAFile(const Status& status) const {
    for (const auto& [name, bytes] : files_) {
      if (Contains(status.ToString(), name)) return true;
    }
    return Contains(status.ToString(), ".sst");
  }

  // Returns how many states of the log may be shown after damage to a file.
  size_t StatesAllowed(const std::string& name) const {
    const bool in_log = name.ends_with(".log") && !strict_;
    return in_log || (name.ends_with(".log") && cut_) ? states_.size() : 1;
  }

  bool IsAllowed(const EntryList& found, const std::string& name, bool* exact) {
    *exact = found == states_.back();
    if (*exact) return true;
    for (size_t i = 1; i < StatesAllowed(name); i++) {
      if (found == states_[states_.size() - 1 - i]) return true;
    }
    return false;
  }

  // Each value that is read is right; what is missing was said to be.
  void ReadAll(DB* db, const std::string& name) {
    EntryList forward, backward;
    const Status scan = ScanForward(db, {}, &forward);
    const Status back = ScanBackward(db, {}, &backward);
    bool exact = false;
    if (scan.ok()) {
      EXPECT_TRUE(IsAllowed(forward, name, &exact)) << "wrong data";
      EXPECT_TRUE(!back.ok() || forward == backward);
    } else {
      EXPECT_TRUE(scan.IsCorruption() || scan.IsNotSupported())
          << scan.ToString();
      EXPECT_TRUE(NamesAFile(scan)) << scan.ToString();
    }
    bool all_read = scan.ok() && back.ok();
    const std::map<std::string, std::string> shown(forward.begin(),
                                                   forward.end());
    for (const std::string& key : keys_) {
      std::string value;
      const Status status = db->Get({}, key, &value);
      if (status.IsCorruption() || status.IsNotSupported()) {
        EXPECT_TRUE(NamesAFile(status)) << status.ToString();
        all_read = false;
        continue;
      }
      EXPECT_TRUE(status.ok() || status.IsNotFound()) << status.ToString();
      const auto& truth = scan.ok() ? shown : state_;
      const auto known = truth.find(key);
      EXPECT_EQ(status.ok(), known != truth.end()) << key;
      if (status.ok() && known != truth.end()) {
        EXPECT_EQ(value, known->second);
      }
    }
    db->VerifyChecksum().IgnoreError();  // More may be damaged than was read.
    if (!all_read) {
      figures_.at_read++;
    } else if (exact) {
      figures_.exact++;
    } else {
      figures_.prefix++;
    }
  }

  void Try(const Files& files, const std::string& name, int way) {
    const auto env = NewMemoryEnv(Env::Default());
    Restore(env.get(), files);
    options_.env = env.get();
    options_.paranoid_checks = (way & 1) == 0;
    strict_ = (way & 2) == 0;
    options_.wal_recovery_mode = strict_ ? WalRecoveryMode::kAbsoluteConsistency
                                         : WalRecoveryMode::kPointInTime;
    std::unique_ptr<DB> db;
    const Status status = (way & 4) == 0
                              ? DB::OpenForReadOnly(options_, kPath, &db)
                              : DB::Open(options_, kPath, &db);
    figures_.cases++;
    if (!status.ok()) {
      EXPECT_TRUE(status.IsCorruption() || status.IsNotSupported() ||
                  status.IsInvalidArgument())
          << status.ToString();
      EXPECT_TRUE(NamesAFile(status)) << status.ToString();
      figures_.refused++;
    } else {
      ReadAll(db.get(), name);
    }
  }

  // Repairs, which must not fail, and must show no value that never was.
  void TryRepair(const Files& files) {
    const auto env = NewMemoryEnv(Env::Default());
    Restore(env.get(), files);
    options_.env = env.get();
    const Status status = RepairDB(kPath, options_);
    // A changed byte may be a feature that Varve does not have.
    if (status.IsNotSupported() || status.IsInvalidArgument()) return;
    ASSERT_TRUE(Ok(status));
    std::unique_ptr<DB> db;
    ASSERT_TRUE(Ok(DB::Open(options_, kPath, &db)));
    EntryList found;
    ASSERT_TRUE(Ok(ScanForward(db.get(), {}, &found)));
    for (const auto& [key, value] : found) {
      const std::string number = std::to_string(std::stoi(key.substr(3, 8)));
      ASSERT_EQ(value, key.ends_with("second")
                           ? ""
                           : "value" + std::string(30, 'a') + number);
    }
    repairs_++;
  }

  void TryAllWays(const Files& files, const std::string& name) {
    const int ways = stride_ == 1 ? 8 : 1;
    for (int i = 0; i < ways; i++) {
      const int way = stride_ == 1 ? i : static_cast<int>(rng_.Below(8));
      SCOPED_TRACE("way " + std::to_string(way));
      Try(files, name, way);
    }
    TryRepair(files);
  }

  void Report(const char* what) const {
    printf("%s: %" PRIu64 " opens with damage: %" PRIu64 " exact, %" PRIu64
           " a prefix of the log, %" PRIu64 " refused by Open, %" PRIu64
           " Corruption at reads; %" PRIu64 " repairs; stride %d, seed %" PRIu64
           "\n",
           what, figures_.cases, figures_.exact, figures_.prefix,
           figures_.refused, figures_.at_read, repairs_, stride_, seed_);
  }

  const uint64_t seed_ = TestSeed();
  Rng rng_{seed_};
  // The distance of damaged bytes, from a random one on.
  const int stride_ = EnvironmentInt("VARVE_DAMAGE_STRIDE", 11);
  Options options_;
  Files files_;
  Entries state_;
  std::vector<EntryList> states_;  // Before the log, and after each record.
  std::set<std::string> keys_;     // Some do not exist.
  bool strict_ = true;             // The log must be whole.
  bool cut_ = false;               // The damage is a cut.
  Figures figures_;
  uint64_t repairs_ = 0;
};

TEST_F(DbBytesTest, AnyByteMayChange) {
  MakeDatabase();
  const auto stride = static_cast<uint64_t>(stride_);
  for (const auto& [name, bytes] : files_) {
    for (size_t i = rng_.Below(stride); i < bytes.size(); i += stride) {
      const auto mask = static_cast<char>(1 + rng_.Below(255));
      SCOPED_TRACE(name + " byte " + std::to_string(i) + " xor " +
                   std::to_string(mask));
      Files files = files_;
      files[name][i] = static_cast<char>(bytes[i] ^ mask);
      TryAllWays(files, name);
      if (HasFailure()) return;
    }
  }
  Report("changed bytes");
}

TEST_F(DbBytesTest, AnyFileMayBeCutOffAnywhere) {
  MakeDatabase();
  cut_ = true;
  const auto stride = static_cast<uint64_t>(stride_);
  for (const auto& [name, bytes] : files_) {
    for (size_t size = rng_.Below(stride); size < bytes.size();
         size += stride) {
      SCOPED_TRACE(name + " cut to " + std::to_string(size) + " of " +
                   std::to_string(bytes.size()));
      Files files = files_;
      files[name].resize(size);
      TryAllWays(files, name);
      if (HasFailure()) return;
    }
  }
  Report("cut files");
}

}  // namespace
}  // namespace varve::test
