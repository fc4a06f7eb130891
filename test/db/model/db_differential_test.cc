// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: optimized variants
//
// Goal: the fast path of reads, which knows that keys are in bytewise order,
// finds exactly what the general path finds, which asks a comparator. Method:
// the same random updates go to two databases, one with the built-in
// comparator and one with a comparator that orders alike and has the same
// name, and to maps; all reads must agree, at every snapshot, then in copies
// opened with either comparator. Keys are such as confuse searches by
// prefixes.

#include "test/testing/comparators.h"
#include "test/testing/db_helpers.h"
#include "test/testing/directory.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

// Bytewise, but not the object that says so.
const Comparator* OtherComparator() {
  static const UnrecognizedBytewiseComparator comparator;
  return &comparator;
}

// ---- Keys -------------------------------------------------------------------

std::string FewLetters(Rng* rng, size_t size) {
  std::string key(size, ' ');
  for (char& c : key) {
    c = rng->Pick({'\x00', '\x01', 'a', 'b', '\x7f', '\x80', '\xfe', '\xff'});
  }
  return key;
}

std::string RandomKey(Rng* rng, const std::vector<std::string>& earlier) {
  switch (rng->Below(9)) {
    case 0:  // Shorter than a prefix, empty ones too.
      return FewLetters(rng, rng->Below(8));
    case 1:  // A long common prefix.
      return std::string(50, 'p') + FewLetters(rng, rng->Below(4));
    case 2:  // A prefix of 8 bytes in common, or 16.
      return std::string(8, 'q') + FewLetters(rng, rng->Below(10));
    case 3:
      return std::string(16, '\xff') + FewLetters(rng, rng->Below(10));
    case 4:
      return std::string(rng->Below(20), '\x00');
    case 5:
      return std::string(rng->Below(20), '\xff');
    case 6: {  // A usual configuration.
      char text[32];
      snprintf(text, sizeof(text), "%016d", rng->Between(0, 3000));
      return text;
    }
    case 7: {  // A prefix of another, or an extension.
      if (earlier.empty()) return "";
      const std::string& key = earlier[rng->Below(earlier.size())];
      if (rng->OneIn(2)) return key.substr(0, rng->Below(key.size() + 1));
      return key + FewLetters(rng, 1 + rng->Below(9));
    }
    default:
      return FewLetters(rng, rng->Below(30));
  }
}

// The key, those right beside it, and others that a search may confuse it
// with.
void AddNeighbours(const std::string& key, std::set<std::string>* probes) {
  probes->insert(key);
  probes->insert(key + '\0');
  probes->insert(key + '\xff');
  if (key.empty()) return;
  probes->insert(key.substr(0, key.size() - 1));
  probes->insert(key.substr(0, 8));
  probes->insert(key.substr(0, 7));
  std::string other = key;
  other.back() = static_cast<char>(other.back() + 1);
  probes->insert(other);
  other.back() = static_cast<char>(other.back() - 2);
  probes->insert(other + '\xff');
  if (key.size() > 8) {
    other = key;
    other[8] = static_cast<char>(other[8] ^ 1);
    probes->insert(other);
  }
}

// ---- Databases --------------------------------------------------------------

enum Path { kFast, kGeneral, kPaths };

struct Moment {
  Entries entries;
  // Null for the present.
  const Snapshot* snapshots[kPaths] = {};
};

// Returns whether the iterator is at the same entry as the map's.
::testing::AssertionResult StandsAt(const Iterator& it, const Entries& entries,
                                    Entries::const_iterator expected) {
  if (!it.status().ok()) return Ok(it.status());
  if (expected == entries.end()) {
    if (!it.Valid()) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure()
           << "stands at " << it.key().ToString(true) << ", not at the end";
  }
  if (!it.Valid()) {
    return ::testing::AssertionFailure()
           << "is at the end, not at " << Slice(expected->first).ToString(true);
  }
  if (it.key() == Slice(expected->first) &&
      it.value() == Slice(expected->second)) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure()
         << "stands at " << it.key().ToString(true) << " => "
         << it.value().ToString().substr(0, 40) << ", not at "
         << Slice(expected->first).ToString(true) << " => "
         << expected->second.substr(0, 40);
}

class DbDifferentialTest : public ::testing::TestWithParam<int> {
 protected:
  DbDifferentialTest()
      : seed_(TestSeed() + static_cast<uint64_t>(GetParam())), rng_(seed_) {
    options_ = TinyOptions();
    options_.block_size = rng_.Pick<size_t>({256, 256, 1024, 4096});
    options_.block_restart_interval = rng_.Pick({1, 2, 4, 16, 100});
    options_.compression =
        rng_.Pick({CompressionType::kNone, CompressionType::kSnappy});
    if (rng_.OneIn(2)) options_.filter_policy = NewBloomFilterPolicy(10);
    options_.target_file_size_base = 64 << 10;
    options_.max_bytes_for_level_base = 64 << 10;
    capacity_bytes_ = rng_.Pick<size_t>({0, 16 << 10, 64 << 10, 8 << 20});
  }

  Options OptionsFor(Path path) const {
    Options options = options_;
    options.block_cache = NewTestCache(capacity_bytes_);
    options.comparator =
        path == kFast ? BytewiseComparator() : OtherComparator();
    return options;
  }
  std::string PathOf(Path path) const {
    return dir_.Sub(path == kFast ? "fast" : "general");
  }

  void Put(const std::string& key, const std::string& value) {
    for (auto& db : dbs_) ASSERT_TRUE(Ok(db->Put({}, key, value)));
    now_[key] = value;
  }
  void Delete(const std::string& key) {
    for (auto& db : dbs_) ASSERT_TRUE(Ok(db->Delete({}, key)));
    now_.erase(key);
  }
  void DeleteRange(const std::string& begin, const std::string& end) {
    for (auto& db : dbs_) ASSERT_TRUE(Ok(db->DeleteRange({}, begin, end)));
    now_.erase(now_.lower_bound(begin), now_.lower_bound(end));
  }
  void TakeSnapshot() {
    Moment moment;
    moment.entries = now_;
    for (int p = 0; p < kPaths; p++)
      moment.snapshots[p] = dbs_[p]->GetSnapshot();
    moments_.push_back(std::move(moment));
  }
  void ReleaseSnapshots() {
    for (const Moment& m : moments_) {
      for (int p = 0; p < kPaths; p++) dbs_[p]->ReleaseSnapshot(m.snapshots[p]);
    }
    moments_.clear();
  }

  // Updates, flushes, compactions and snapshots at random.
  void Update(int count) {
    std::vector<std::string> hot;
    for (int i = 0; i < 3; i++) hot.push_back(RandomKey(&rng_, keys_));
    for (int i = 0; i < count; i++) {
      // One version of the hot keys for each snapshot: more than a block.
      if (i % (count / 12) == 0) {
        for (const std::string& key : hot) {
          ASSERT_NO_FATAL_FAILURE(
              Put(key, std::to_string(i) + std::string(90, 'h')));
        }
        keys_.insert(keys_.end(), hot.begin(), hot.end());
        TakeSnapshot();
      }
      const std::string key = keys_.empty() || rng_.OneIn(2)
                                  ? RandomKey(&rng_, keys_)
                                  : keys_[rng_.Below(keys_.size())];
      keys_.push_back(key);
      if (rng_.OneIn(40)) {
        // To a near key mostly, or not much would be left.
        const auto near = now_.lower_bound(key);
        const std::string other = near == now_.end() || rng_.OneIn(30)
                                      ? RandomKey(&rng_, keys_)
                                      : near->first + '\0';
        ASSERT_NO_FATAL_FAILURE(
            DeleteRange(std::min(key, other), std::max(key, other)));
      } else if (rng_.OneIn(5)) {
        ASSERT_NO_FATAL_FAILURE(Delete(key));
      } else {
        ASSERT_NO_FATAL_FAILURE(
            Put(key, std::to_string(i) + rng_.Bytes(rng_.Below(60))));
      }
      if (rng_.OneIn(400)) {
        for (auto& db : dbs_) ASSERT_TRUE(Ok(db->Flush({})));
      }
      if (rng_.OneIn(1500)) {
        for (auto& db : dbs_) {
          ASSERT_TRUE(Ok(db->CompactRange({}, nullptr, nullptr)));
        }
      }
    }
  }

  std::vector<std::string> Probes() {
    std::set<std::string> probes = {"", std::string(40, '\xff')};
    for (const std::string& key : keys_) AddNeighbours(key, &probes);
    for (int i = 0; i < 200; i++) probes.insert(RandomKey(&rng_, keys_));
    return {probes.begin(), probes.end()};
  }

  ReadOptions OptionsAt(const Snapshot* snapshot) {
    ReadOptions options{.snapshot = snapshot, .fill_cache = !rng_.OneIn(4)};
    return options;
  }

  void CheckGets(DB* db, const Entries& entries, const Snapshot* snapshot,
                 const std::vector<std::string>& probes) {
    const ReadOptions options = OptionsAt(snapshot);
    std::string text;
    PinnableSlice pinned;
    for (const std::string& key : probes) {
      const auto expected = entries.find(key);
      const bool is_text = rng_.OneIn(2);
      Status s = is_text ? db->Get(options, key, &text)
                         : db->Get(options, key, &pinned);
      if (expected == entries.end()) {
        ASSERT_TRUE(s.IsNotFound())
            << Slice(key).ToString(true) << ": " << s.ToString();
        ASSERT_TRUE(is_text ? text.empty() : pinned.empty());
        continue;
      }
      ASSERT_TRUE(Ok(s)) << Slice(key).ToString(true);
      ASSERT_EQ(is_text ? text : pinned.ToString(), expected->second)
          << Slice(key).ToString(true);
    }
  }

  // In batches of any size, in any order, with keys that repeat.
  void CheckMultiGets(DB* db, const Entries& entries, const Snapshot* snapshot,
                      const std::vector<std::string>& probes) {
    const ReadOptions options = OptionsAt(snapshot);
    for (size_t done = 0; done < probes.size();) {
      const size_t count = rng_.Pick<size_t>({0, 1, 2, 31, 32, 33, 64, 200});
      std::vector<std::string> wanted;
      for (size_t i = 0; i < count; i++) {
        wanted.push_back(rng_.OneIn(8) ? probes[rng_.Below(probes.size())]
                                       : probes[(done + i) % probes.size()]);
      }
      done += count;
      if (rng_.OneIn(2)) {
        for (size_t i = count; i > 1; i--) {
          std::swap(wanted[i - 1], wanted[rng_.Below(i)]);
        }
      }
      const std::vector<Slice> keys(wanted.begin(), wanted.end());
      std::vector<PinnableSlice> values(count);
      std::vector<Status> statuses(count);
      db->MultiGet(options, count, keys.data(), values.data(), statuses.data());
      for (size_t i = 0; i < count; i++) {
        const auto expected = entries.find(wanted[i]);
        if (expected == entries.end()) {
          ASSERT_TRUE(statuses[i].IsNotFound())
              << keys[i].ToString(true) << ": " << statuses[i].ToString();
          continue;
        }
        ASSERT_TRUE(Ok(statuses[i])) << keys[i].ToString(true);
        ASSERT_EQ(values[i].ToString(), expected->second)
            << keys[i].ToString(true);
      }
    }
  }

  // Seeks, each followed by a few steps in both directions.
  void CheckSeeks(DB* db, const Entries& entries, const Snapshot* snapshot,
                  const std::vector<std::string>& probes) {
    const auto it = db->NewIterator(OptionsAt(snapshot));
    for (const std::string& key : probes) {
      SCOPED_TRACE("seek of " + Slice(key).ToString(true));
      auto expected = entries.lower_bound(key);
      it->Seek(key);
      ASSERT_TRUE(StandsAt(*it, entries, expected));
      for (int i = 0; i < 4 && it->Valid(); i++) {
        if (rng_.OneIn(2)) {
          it->Next();
          ++expected;
        } else {
          it->Prev();
          expected =
              expected == entries.begin() ? entries.end() : std::prev(expected);
        }
        ASSERT_TRUE(StandsAt(*it, entries, expected)) << "step " << i;
      }
      it->SeekForPrev(key);
      expected = entries.upper_bound(key);
      expected =
          expected == entries.begin() ? entries.end() : std::prev(expected);
      ASSERT_TRUE(StandsAt(*it, entries, expected)) << "SeekForPrev";
    }
  }

  void CheckAll(DB* db, const Entries& entries, const Snapshot* snapshot,
                const std::vector<std::string>& probes) {
    ASSERT_NO_FATAL_FAILURE(CheckGets(db, entries, snapshot, probes));
    ASSERT_NO_FATAL_FAILURE(CheckMultiGets(db, entries, snapshot, probes));
    ASSERT_NO_FATAL_FAILURE(CheckSeeks(db, entries, snapshot, probes));
    ASSERT_TRUE(
        HasEntries(db, ToList(entries), OptionsAt(snapshot), /*gets=*/false));
  }

  void CheckAllMoments() {
    const std::vector<std::string> probes = Probes();
    for (int p = 0; p < kPaths; p++) {
      SCOPED_TRACE(p == kFast ? "fast path" : "general path");
      DB* const db = dbs_[p].get();
      for (size_t m = 0; m < moments_.size(); m++) {
        SCOPED_TRACE("snapshot " + std::to_string(m));
        ASSERT_NO_FATAL_FAILURE(CheckAll(db, moments_[m].entries,
                                         moments_[m].snapshots[p], probes));
      }
      ASSERT_NO_FATAL_FAILURE(CheckAll(db, now_, nullptr, probes));
    }
  }

  // Copies of either database, opened with either comparator.
  void CheckCopies() {
    const std::vector<std::string> probes = Probes();
    for (Path written : {kFast, kGeneral}) {
      for (Path read : {kFast, kGeneral}) {
        for (bool read_only : {true, false}) {
          SCOPED_TRACE(std::string(written == kFast ? "fast" : "general") +
                       " path's database read by the " +
                       (read == kFast ? "fast" : "general") + " one" +
                       (read_only ? ", read-only" : ""));
          const std::string path = dir_.Sub("copy");
          CopyDirectory(PathOf(written), path);
          std::unique_ptr<DB> db;
          ASSERT_TRUE(Ok(read_only
                             ? DB::OpenForReadOnly(OptionsFor(read), path, &db)
                             : DB::Open(OptionsFor(read), path, &db)));
          ASSERT_NO_FATAL_FAILURE(CheckAll(db.get(), now_, nullptr, probes));
        }
      }
    }
  }

  TempDir dir_;
  const uint64_t seed_;
  Rng rng_;
  Options options_;
  size_t capacity_bytes_ = 0;
  std::unique_ptr<DB> dbs_[kPaths];
  Entries now_;
  std::vector<Moment> moments_;
  // Keys of all updates, with repeats.
  std::vector<std::string> keys_;
};

TEST_P(DbDifferentialTest, FastAndGeneralPathAgree) {
  SCOPED_TRACE("TEST_SEED=" +
               std::to_string(seed_ - static_cast<uint64_t>(GetParam())));
  for (Path path : {kFast, kGeneral}) {
    ASSERT_TRUE(Ok(DB::Open(OptionsFor(path), PathOf(path), &dbs_[path])));
  }
  ASSERT_NO_FATAL_FAILURE(Update(1500));
  // Part of it is in memtables now; then all is in tables of many versions.
  ASSERT_NO_FATAL_FAILURE(CheckAllMoments());
  for (auto& db : dbs_) {
    ASSERT_TRUE(Ok(db->Flush({})));
    ASSERT_TRUE(Ok(db->CompactRange({}, nullptr, nullptr)));
  }
  ASSERT_NO_FATAL_FAILURE(CheckAllMoments());
  ReleaseSnapshots();
  ASSERT_NO_FATAL_FAILURE(Update(300));
  ReleaseSnapshots();
  for (auto& db : dbs_) {
    ASSERT_TRUE(Ok(db->Close()));
    db.reset();
  }
  ASSERT_NO_FATAL_FAILURE(CheckCopies());
}

INSTANTIATE_TEST_SUITE_P(Seeds, DbDifferentialTest, ::testing::Range(0, 4));

class DbVersionsTest : public DbTestBase {};

// All versions of one key, in blocks of a few each: the newest one that the
// snapshot sees may stand in any of them.
TEST_F(DbVersionsTest, VersionsOfOneKeySpanBlocksInBothPaths) {
  for (Path path : {kFast, kGeneral}) {
    SCOPED_TRACE(path == kFast ? "fast path" : "general path");
    options_.comparator =
        path == kFast ? BytewiseComparator() : OtherComparator();
    options_.block_size = 256;
    path_ = dir_.Sub("versions" + std::to_string(path));
    ASSERT_NO_FATAL_FAILURE(Open());
    const std::string before = "key-before", key = "key-of-versions",
                      behind = "key-of-versionsx";
    constexpr int kVersions = 300;
    std::vector<const Snapshot*> snapshots;
    Put(before, "b");
    Put(behind, "c");
    for (int i = 0; i < kVersions; i++) {
      if (i % 7 == 3) {
        Delete(key);
      } else {
        Put(key, std::to_string(i) + std::string(60, 'v'));
      }
      snapshots.push_back(db_->GetSnapshot());
      if (i == kVersions / 2) Flush();
    }
    for (bool compacted : {false, true}) {
      if (compacted) CompactAll();
      for (int i = 0; i < kVersions; i++) {
        SCOPED_TRACE("version " + std::to_string(i));
        const std::string expected =
            i % 7 == 3 ? "NotFound" : std::to_string(i) + std::string(60, 'v');
        const Snapshot* snapshot = snapshots[static_cast<size_t>(i)];
        ASSERT_EQ(Get(key, snapshot), expected);
        ASSERT_EQ(Get(before, snapshot), "b");
        ASSERT_EQ(Get(behind, snapshot), "c");
        const auto it = db_->NewIterator({.snapshot = snapshot});
        it->Seek(key);
        ASSERT_TRUE(it->Valid());
        ASSERT_EQ(it->key().ToString(), i % 7 == 3 ? behind : key);
        it->Prev();
        ASSERT_TRUE(it->Valid());
        ASSERT_EQ(it->key().ToString(), before);
      }
    }
    for (const Snapshot* snapshot : snapshots) db_->ReleaseSnapshot(snapshot);
    Close();
  }
}

}  // namespace
}  // namespace varve::test
