// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: whatever happens to logs and to the MANIFEST, a database that opens is
// in a state that it once had: each batch is whole in all column families or
// absent in all, and no later batch is there without an earlier one. A damaged
// MANIFEST hides nothing. After an Open, a repair still finds what it would
// have found before it. Method: random histories of batches over families, in
// memory; the files of a killed process are damaged at random, opened in each
// way, and compared with the states that the history has. VARVE_TORN_DAMAGES
// sets the number of damages.

#include "test/testing/db/family_states.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

class DbTornFamiliesTest : public FamilyStatesTest {
 protected:
  // Writes the next batch to some of the families.
  void WriteNext(const std::vector<std::string>& names) {
    const std::string i = std::to_string(states_.size());
    State next = states_.back();
    WriteBatch batch;
    for (const std::string& name : names) {
      ColumnFamilyHandle* const handle = opened_->handles().at(name);
      batch.Put(handle, "n", i);
      next[name]["n"] = i;
      if (rng_.OneIn(6)) {
        const std::string old =
            "b" + std::to_string(rng_.Below(states_.size() + 1));
        batch.Delete(handle, old);
        next[name].erase(old);
      }
      const std::string value = std::string(rng_.Below(30), 'v') + i;
      batch.Put(handle, "b" + i, value);
      next[name]["b" + i] = value;
    }
    ASSERT_TRUE(Ok(opened_->db()->Write({.sync = true}, &batch)));
    states_.push_back(std::move(next));
  }

  // Continues with the files of the process, as after a kill.
  void Kill() {
    const Files files = Save(opened_->env());
    opened_ = std::make_unique<Opened>();
    Restore(opened_->env(), files);
    ASSERT_TRUE(Ok(opened_->Open(options_, names_)));
  }

  // Makes a history. Sets files_ to what a kill at its end leaves, and older_
  // to earlier contents of the files.
  void MakeHistory() {
    opened_ = std::make_unique<Opened>();
    states_.assign(1, State());
    older_.clear();
    names_ = {"default"};
    for (int i = rng_.Between(0, 3); i > 0; --i) {
      names_.push_back(std::string(1, static_cast<char>('a' + i)));
    }
    options_.atomic_flush = rng_.OneIn(5);
    ASSERT_TRUE(Ok(opened_->Open(options_, names_)));
    for (int i = rng_.Between(5, 40); i > 0; --i) {
      std::vector<std::string> some = names_;
      if (rng_.OneIn(3)) {
        std::erase_if(some, [this](const auto&) { return rng_.OneIn(2); });
      }
      if (!some.empty()) WriteNext(some);
      DB* const db = opened_->db();
      ColumnFamilyHandle* const any =
          opened_->handles().at(names_[rng_.Below(names_.size())]);
      const uint64_t action = rng_.Below(40);
      if (action < 6) {
        ASSERT_TRUE(Ok(db->Flush({}, any)));
      } else if (action < 8) {
        ASSERT_TRUE(Ok(db->CompactRange({}, any, nullptr, nullptr)));
      } else if (action == 8) {
        ASSERT_TRUE(Ok(db->Close()));
        ASSERT_TRUE(Ok(opened_->Open(options_, names_)));
      } else if (action == 9) {
        Kill();
      } else if (action == 10 && names_.size() < 6) {
        const std::string name = "new" + std::to_string(names_.size());
        ColumnFamilyHandle* handle = nullptr;
        ASSERT_TRUE(
            Ok(db->CreateColumnFamily(Opened::FamilyOptions(), name, &handle)));
        opened_->handles()[name] = handle;
        names_.push_back(name);
      } else if (action < 16) {
        for (auto& [name, bytes] : Save(opened_->env())) {
          older_[name].insert(std::move(bytes));
        }
      }
      if (HasFailure()) return;
    }
    closed_ = rng_.OneIn(4);
    if (closed_) {
      ASSERT_TRUE(Ok(opened_->db()->Close()));
    }
    files_ = Save(opened_->env());
    for (const auto& [name, bytes] : files_) older_[name].erase(bytes);
    opened_.reset();
  }

  // Returns a file of that type, or "".
  std::string AnyOf(const Files& files, FileKind type) {
    std::vector<std::string> found;
    for (const auto& [name, bytes] : files) {
      if (IsA(name, type)) found.push_back(name);
    }
    return found.empty() ? "" : found[rng_.Below(found.size())];
  }

  // An old content of a file of that type, of the same name if there is one.
  const std::string* OlderOf(std::string* name, FileKind type) {
    std::vector<std::pair<std::string, const std::string*>> found;
    for (const auto& [old, contents] : older_) {
      if (!IsA(old, type)) continue;
      for (const std::string& bytes : contents) found.emplace_back(old, &bytes);
    }
    if (found.empty()) return nullptr;
    const auto& [old, bytes] = found[rng_.Below(found.size())];
    if (type == FileKind::kManifest || name->empty()) *name = old;
    return bytes;
  }

  // Damages a log or the MANIFEST. Returns what it has done.
  std::string Damage(Files* files) {
    const FileKind type = rng_.OneIn(3) ? FileKind::kManifest : FileKind::kWal;
    std::string name = AnyOf(*files, type);
    if (name.empty()) return "";
    std::string& bytes = (*files)[name];
    const uint64_t kind = rng_.Below(type == FileKind::kWal ? 7 : 4);
    if (kind == 0 && !bytes.empty()) {
      const size_t at = rng_.Below(bytes.size());
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << rng_.Below(8)));
      return name + " byte " + std::to_string(at);
    }
    if (kind == 1 && !bytes.empty()) {
      bytes.resize(rng_.Below(bytes.size()));
      return name + " cut to " + std::to_string(bytes.size());
    }
    if (kind == 2 && !bytes.empty()) {
      const size_t at = rng_.Below(bytes.size());
      const size_t size = rng_.Below(bytes.size() - at) + 1;
      bytes.replace(at, size, size, '\0');
      return name + " zeros at " + std::to_string(at);
    }
    if (kind == 3) {
      std::string old = name;
      const std::string* const content = OlderOf(&old, type);
      if (content == nullptr) return "";
      (*files)[old] = *content;
      if (type == FileKind::kManifest) (*files)["CURRENT"] = old + "\n";
      return old + " older, of " + std::to_string(content->size()) + " bytes";
    }
    if (kind == 4) {
      files->erase(name);
      return name + " removed";
    }
    const std::string other = AnyOf(*files, type);
    if (kind == 5 && other != name) {
      bytes = (*files)[other];
      return name + " is a copy of " + other;
    }
    if (kind == 6 && other != name) {
      std::swap(bytes, (*files)[other]);
      return name + " exchanged with " + other;
    }
    return "";
  }

  // A log without a record looks like one whose end was never synced. It does
  // not show that the log before it is missing.
  static bool HasEmptyLog(const Files& files) {
    return std::any_of(files.begin(), files.end(), [](const auto& file) {
      const std::string& log = file.second;
      if (!IsA(file.first, FileKind::kWal)) return false;
      if (log.find_first_not_of('\0') == std::string::npos) return true;
      return log.size() < 7 ||
             log.size() < 7u + static_cast<uint8_t>(log[4]) +
                              256u * static_cast<uint8_t>(log[5]);
    });
  }

  void Try(const Files& files, bool manifest_only, bool manifest_is_whole) {
    DBOptions options = options_;
    const bool strict = rng_.OneIn(3);
    options.wal_recovery_mode = strict ? WalRecoveryMode::kAbsoluteConsistency
                                       : WalRecoveryMode::kPointInTime;
    options.paranoid_checks = !rng_.OneIn(4);
    options.create_missing_column_families = rng_.OneIn(2);
    const bool read_only = rng_.OneIn(3);
    SCOPED_TRACE(std::string(strict ? "strict" : "point in time") +
                 (read_only ? ", read-only" : ""));
    Opened world;
    Restore(world.env(), files);
    const Status status = world.Open(options, names_, read_only);
    ++damages_;
    if (!status.ok()) {
      ++refused_;
      EXPECT_TRUE(status.IsCorruption() || status.IsInvalidArgument())
          << status.ToString();
      EXPECT_EQ(Save(world.env()), files) << "a refused one is changed";
      if (manifest_only && rng_.OneIn(4)) {
        ExpectAll(Repaired(&world), states_.back());
      }
      return;
    }
    const int state = Find(world.Read());
    if (!world.read_status().ok()) {
      // A table is missing. It is noticed when it is read.
      EXPECT_FALSE(options.paranoid_checks) << world.read_status().ToString();
      ++at_read_;
      return;
    }
    EXPECT_GE(state, 0) << "never was";
    if (state + 1 == static_cast<int>(states_.size())) {
      ++exact_;
      return;
    }
    ++earlier_;
    EXPECT_FALSE(manifest_only) << "hidden: " << state;
    world.Drop();
    if (read_only) return;
    // A repair still finds all that it would have found before.
    if (manifest_is_whole && rng_.OneIn(4)) {
      Opened before;
      Restore(before.env(), files);
      State expected = Repaired(&before);
      // An old log may bring back what was deleted or overwritten.
      for (auto& [name, entries] : expected) {
        std::erase_if(entries, [&, last = states_.back()[name]](const auto& e) {
          const auto place = last.find(e.first);
          return place == last.end() || place->second != e.second;
        });
      }
      SCOPED_TRACE("lost by an Open");
      ExpectAll(Repaired(&world), expected);
      ++repaired_;
    }
  }

  const uint64_t seed_ = TestSeed();
  Rng rng_{seed_};
  std::map<std::string, std::set<std::string>> older_;
  bool closed_ = false;
  int damages_ = 0, refused_ = 0, at_read_ = 0;
  int exact_ = 0, earlier_ = 0, repaired_ = 0;
};

TEST_F(DbTornFamiliesTest, NoDamageShowsAStateThatNeverWas) {
  const int wanted = EnvironmentInt("VARVE_TORN_DAMAGES", 100);
  const auto begin = std::chrono::steady_clock::now();
  int histories = 0;
  while (damages_ < wanted && !HasFailure()) {
    MakeHistory();
    if (HasFailure()) break;
    ++histories;
    for (int i = 0; i < 25 && !HasFailure(); ++i) {
      Files files = files_;
      std::string what = Damage(&files);
      if (rng_.OneIn(5)) {
        Files twice = files;
        const std::string second = Damage(&twice);
        if (!HasEmptyLog(twice)) {
          files = std::move(twice);
          what += "; " + second;
        }
      }
      SCOPED_TRACE("history " + std::to_string(histories) + ": " + what);
      bool logs_are_whole = true;
      bool manifest_is_whole = true;
      for (const auto& [name, bytes] : files_) {
        const auto place = files.find(name);
        if (place != files.end() && place->second == bytes) continue;
        (IsA(name, FileKind::kWal) ? logs_are_whole : manifest_is_whole) =
            false;
      }
      Try(files, logs_are_whole, manifest_is_whole);
    }
  }
  printf(
      "%d damages of %d histories: %d refused, %d noticed by reads, %d exact, "
      "%d earlier states, %d of them repaired; seed %" PRIu64 ", %.1f s\n",
      damages_, histories, refused_, at_read_, exact_, earlier_, repaired_,
      seed_,
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
          .count());
}

}  // namespace
}  // namespace varve::test
