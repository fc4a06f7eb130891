// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: Varve and RocksDB open each other's databases with a time to live, and
// each removes what the other wrote too long ago, also when they are killed.
// Method: both in turn, at random, in one directory, beside a model; Varve's
// clock shows the present or a time before it. RocksDB's ldb reads and writes
// with --ttl.

#include <ctime>

#include "test/testing/db_helpers.h"
#include "test/testing/engines/killed_children.h"
#include "test/testing/env/date_env.h"
#include "test/testing/rocksdb_library.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "test/testing/tools.h"
#include "varve/db_ttl.h"
#include "varve/merge_operator.h"

namespace varve::test {
namespace {

constexpr int32_t kTtl = 100000;
constexpr uint64_t kLongAgo = 1000000;  // Seconds before the present.

uint64_t Now() { return static_cast<uint64_t>(time(nullptr)); }

std::string Number(uint64_t number) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) {
    bytes += static_cast<char>(number >> (8 * i) & 0xFF);
  }
  return bytes;
}

// An engine with a database open.
class Session {
 public:
  virtual ~Session() = default;
  virtual void Put(const std::string& key, const std::string& value) = 0;
  virtual void Delete(const std::string& key) = 0;
  virtual void Merge(const std::string& key, const std::string& value) = 0;
  virtual void Flush() = 0;
  virtual void Compact() = 0;
  virtual Entries Scan() = 0;
};

class VarveSession final : public Session {
 public:
  VarveSession(const std::string& path, uint64_t now_s) : env_(now_s) {
    Options options = TinyOptions();
    options.env = &env_;
    options.merge_operator = NewUInt64AddOperator();
    EXPECT_TRUE(Ok(DBWithTTL::Open(options, path, &db_, kTtl)));
  }
  void Put(const std::string& key, const std::string& value) override {
    EXPECT_TRUE(Ok(db_->Put({}, key, value)));
  }
  void Delete(const std::string& key) override {
    EXPECT_TRUE(Ok(db_->Delete({}, key)));
  }
  void Merge(const std::string& key, const std::string& value) override {
    EXPECT_TRUE(Ok(db_->Merge({}, key, value)));
  }
  void Flush() override { EXPECT_TRUE(Ok(db_->Flush({}))); }
  void Compact() override {
    EXPECT_TRUE(Ok(db_->CompactRange({.rewrite_bottommost_level = true},
                                     nullptr, nullptr)));
  }
  Entries Scan() override {
    Entries entries;
    const auto it = db_->NewIterator({});
    for (it->SeekToFirst(); it->Valid(); it->Next()) {
      entries[it->key().ToString()] = it->value().ToString();
      std::string value;
      EXPECT_TRUE(Ok(db_->Get({}, it->key(), &value)));
      EXPECT_EQ(value, it->value().ToString());
    }
    EXPECT_TRUE(Ok(it->status()));
    return entries;
  }

 private:
  DateEnv env_;
  std::unique_ptr<DBWithTTL> db_;
};

class RocksDbSession final : public Session {
 public:
  RocksDbSession(const RocksDbLibrary* library, const std::string& path)
      : library_(*library) {
    void* const options = library_.Call<void*>("options_create");
    library_.Call<void>("options_set_create_if_missing", options,
                        static_cast<unsigned char>(1));
    library_.Call<void>("options_set_uint64add_merge_operator", options);
    library_.Call<void>("options_set_write_buffer_size", options,
                        size_t{64} << 10);
    db_ = library_.CallChecked<void*>("open_with_ttl",
                                      static_cast<const void*>(options),
                                      path.c_str(), static_cast<int>(kTtl));
    library_.Call<void>("options_destroy", options);
    write_ = library_.Call<void*>("writeoptions_create");
    read_ = library_.Call<void*>("readoptions_create");
    flush_ = library_.Call<void*>("flushoptions_create");
    compact_ = library_.Call<void*>("compactoptions_create");
    constexpr unsigned char kForce = 2;
    library_.Call<void>("compactoptions_set_bottommost_level_compaction",
                        compact_, kForce);
  }
  ~RocksDbSession() override {
    library_.Call<void>("compactoptions_destroy", compact_);
    library_.Call<void>("flushoptions_destroy", flush_);
    library_.Call<void>("readoptions_destroy", read_);
    library_.Call<void>("writeoptions_destroy", write_);
    if (db_ != nullptr) library_.Call<void>("close", db_);
  }
  void Put(const std::string& key, const std::string& value) override {
    library_.CallChecked<void>("put", db_, write_, key.data(), key.size(),
                               value.data(), value.size());
  }
  void Delete(const std::string& key) override {
    library_.CallChecked<void>("delete", db_, write_, key.data(), key.size());
  }
  void Merge(const std::string& key, const std::string& value) override {
    library_.CallChecked<void>("merge", db_, write_, key.data(), key.size(),
                               value.data(), value.size());
  }
  void Flush() override { library_.CallChecked<void>("flush", db_, flush_); }
  void Compact() override {
    library_.Call<void>("compact_range_opt", db_, compact_,
                        static_cast<const char*>(nullptr), size_t{0},
                        static_cast<const char*>(nullptr), size_t{0});
  }
  Entries Scan() override {
    Entries entries;
    void* const it = library_.Call<void*>("create_iterator", db_, read_);
    const auto bytes = [&](const char* name) {
      size_t size = 0;
      const char* const data = library_.Call<const char*>(name, it, &size);
      return std::string(data, size);
    };
    for (library_.Call<void>("iter_seek_to_first", it);
         library_.Call<unsigned char>("iter_valid", it) != 0;
         library_.Call<void>("iter_next", it)) {
      entries[bytes("iter_key")] = bytes("iter_value");
    }
    library_.CallChecked<void>("iter_get_error", it);
    library_.Call<void>("iter_destroy", it);
    return entries;
  }

 private:
  const RocksDbLibrary& library_;
  void* db_ = nullptr;
  void* write_ = nullptr;
  void* read_ = nullptr;
  void* flush_ = nullptr;
  void* compact_ = nullptr;
};

class TtlInteropTest : public ::testing::Test {
 protected:
  struct Written {
    std::string value;
    bool is_old = false;  // Written long ago: a compaction may remove it.
  };

  using Model = std::map<std::string, Written>;

  // One of the steps among which an engine is killed. A number's is always the
  // same.
  static void DoStep(uint64_t seed, int number, bool is_past, Session* session,
                     Model* model) {
    Rng rng(seed + static_cast<uint64_t>(number));
    const std::string key = Key(static_cast<int>(rng.Below(100)));
    const std::string value =
        std::to_string(number) + rng.Bytes(rng.Below(2000));
    const uint64_t kind = rng.Below(20);
    if (kind > 4) {
      if (session != nullptr) session->Put(key, value);
      (*model)[key] = {value, is_past};
    } else if (kind > 1) {
      if (session != nullptr) session->Delete(key);
      model->erase(key);
    } else if (session != nullptr) {
      kind == 1 ? session->Flush() : session->Compact();
    }
  }
  std::unique_ptr<Session> OpenOne(bool is_varve, bool is_past) const {
    if (!is_varve) return std::make_unique<RocksDbSession>(&library_, path_);
    return std::make_unique<VarveSession>(path_,
                                          Now() - (is_past ? kLongAgo : 0));
  }
  // Returns whether these can be the model's entries.
  static bool Allows(const Model& model, const Entries& found) {
    size_t count = 0;
    for (const auto& [key, written] : model) {
      const auto entry = found.find(key);
      if (entry == found.end() && written.is_old) continue;
      if (entry == found.end() || entry->second != written.value) return false;
      ++count;
    }
    return count == found.size();
  }

  // Expects the model's entries, with or without the old ones that may be
  // removed, which leave the model when they are.
  void Check(Session* session) {
    const Entries found = session->Scan();
    for (auto it = model_.begin(); it != model_.end();) {
      const auto entry = found.find(it->first);
      if (entry == found.end() && it->second.is_old) {
        it = model_.erase(it);
        continue;
      }
      ASSERT_NE(entry, found.end()) << it->first;
      EXPECT_EQ(entry->second, it->second.value) << it->first;
      ++it;
    }
    EXPECT_EQ(found.size(), model_.size());
  }
  // A merge gets the time at which it is computed, so that merges and sessions
  // of long ago do not go together.
  void TakeTurns(bool has_merges) {
    Rng rng(TestSeed());
    const int sessions = EnvironmentInt("VARVE_TTL_SESSIONS", 12);
    std::map<std::string, uint64_t> sums;
    for (int i = 0; i < sessions && !HasFailure(); ++i) {
      const bool is_past = !has_merges && rng.OneIn(3);
      const auto session = OpenOne(is_past || rng.OneIn(2), is_past);
      Check(session.get());
      const int steps = static_cast<int>(rng.Below(300));
      for (int step = 0; step < steps; ++step) {
        const std::string key = Key(static_cast<int>(rng.Below(100)));
        switch (rng.Below(8)) {
          case 0:
            session->Delete(key);
            model_.erase(key);
            break;
          case 1:
            if (has_merges) {
              const uint64_t sum = sums["sum" + key] +=
                  static_cast<uint64_t>(step);
              session->Merge("sum" + key, Number(static_cast<uint64_t>(step)));
              model_["sum" + key] = {Number(sum)};
            }
            break;
          case 2:
            if (rng.OneIn(8)) session->Flush();
            break;
          default:
            model_[key] = {"value " + std::to_string(rng.Next()), is_past};
            session->Put(key, model_[key].value);
        }
      }
      if (rng.OneIn(2)) {
        session->Compact();
        if (!is_past) {
          std::erase_if(model_, [](const auto& e) { return e.second.is_old; });
        }
      }
      Check(session.get());
    }
  }

  TempDir dir_;
  const std::string path_ = dir_.Sub("db");
  Model model_;
  const RocksDbLibrary library_;
};

TEST_F(TtlInteropTest, EachRemovesWhatTheOtherWroteLongAgo) {
  VarveSession(path_, Now() - kLongAgo).Put("a", "1");
  {
    RocksDbSession session(&library_, path_);
    EXPECT_EQ(session.Scan(), (Entries{{"a", "1"}}));
    session.Compact();
    EXPECT_EQ(session.Scan(), Entries());
    session.Put("b", "2");
  }
  {
    VarveSession session(path_, Now());
    session.Compact();
    EXPECT_EQ(session.Scan(), (Entries{{"b", "2"}}));
  }
  VarveSession session(path_, Now() + kLongAgo);
  EXPECT_EQ(session.Scan(), (Entries{{"b", "2"}}));
  session.Compact();
  EXPECT_EQ(session.Scan(), Entries());
}

TEST_F(TtlInteropTest, TakeTurnsAtRandom) { TakeTurns(false); }

TEST_F(TtlInteropTest, TakeTurnsWithMerges) { TakeTurns(true); }

// gtest runs suites of such names first, before this process has threads.
using TtlInteropDeathTest = TtlInteropTest;

TEST_F(TtlInteropDeathTest, TakeTurnsAmongKills) {
  Rng rng(TestSeed());
  const int sessions = EnvironmentInt("VARVE_TTL_SESSIONS", 6);
  const uint64_t seed = rng.Next();
  KilledChildren children;
  size_t removed = 0;
  for (int i = 0; i < sessions; ++i) {
    SCOPED_TRACE("session " + std::to_string(i));
    const bool is_past = rng.OneIn(3);
    const bool is_varve = is_past || rng.OneIn(2);
    const int first = children.attempted() + 1;
    std::unique_ptr<Session> session;
    ASSERT_TRUE(children.RunAndKill(
        &rng, 200, [&] { session = OpenOne(is_varve, is_past); },
        [&](int n) { DoStep(seed, n, is_past, session.get(), &model_); }));
    for (int n = first; n <= children.done(); ++n) {
      DoStep(seed, n, is_past, nullptr, &model_);
    }
    Model all = model_;
    if (children.done() < children.attempted()) {
      DoStep(seed, children.attempted(), is_past, nullptr, &all);
    }
    const bool checks_varve = rng.OneIn(4) ? is_varve : !is_varve;
    ASSERT_TRUE(children.Passes([&] {
      const Entries found = OpenOne(checks_varve, false)->Scan();
      EXPECT_TRUE(Allows(model_, found) || Allows(all, found));
      std::ofstream file(dir_.Sub("found"));
      file << (Allows(all, found) ? "all" : "nothing");
      for (const auto& [key, value] : found) file << " " << key;
    })) << (is_varve ? "Varve" : "RocksDB")
        << " was killed in step " << children.attempted();
    // Only the entries that the child has found are left.
    std::ifstream file(dir_.Sub("found"));
    std::string word;
    file >> word;
    if (word == "all") model_ = all;
    std::set<std::string> found;
    while (file >> word) found.insert(word);
    removed += std::erase_if(model_, [&](const auto& entry) {
      return !found.contains(entry.first);
    });
  }
  printf("%d sessions, %d steps, %zu old entries removed\n", sessions,
         children.attempted() + 1, removed);
}

// With --ttl, ldb 7.8 says of every database that it has several families, and
// does its work.
TEST_F(TtlInteropTest, LdbReadsAndWritesWithTtl) {
  VarveSession(path_, Now()).Put("a", "one");
  const std::string db = "--db=" + path_;
  EXPECT_EQ(RunTool({"ldb", db, "--ttl", "scan"}).out, "a : one\n");
  EXPECT_EQ(RunTool({"ldb", db, "--ttl", "put", "b", "two"}).out, "OK\n");
  VarveSession session(path_, Now());
  EXPECT_EQ(session.Scan(), (Entries{{"a", "one"}, {"b", "two"}}));
}

TEST_F(TtlInteropTest, LdbAndVarvesToolReadEachOther) {
  const std::string db = "--db=" + path_;
  const auto varve = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin() + 1, {db, "--ttl"});
    arguments.insert(arguments.begin(), VARVE_TOOL_PATH);
    return RunOrFail(arguments);
  };
  const auto ldb = [&](const std::vector<std::string>& arguments) {
    std::vector<std::string> command = {"ldb", db, "--ttl"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return RunTool(command).out;
  };
  EXPECT_EQ(ldb({"--create_if_missing", "put", "a", "one"}), "OK\n");
  EXPECT_EQ(varve({"get", "a"}), "one\n");
  EXPECT_EQ(varve({"put", "b", "two"}), "OK\n");
  EXPECT_EQ(varve({"batchput", "c", "three", "d", "four"}), "OK\n");
  EXPECT_EQ(varve({"delete", "c"}), "OK\n");
  EXPECT_EQ(ldb({"get", "b"}), "two\n");
  EXPECT_EQ(ldb({"batchput", "e", "five"}), "OK\n");
  const std::string entries = "a : one\nb : two\nd : four\ne : five\n";
  EXPECT_EQ(varve({"scan"}), entries);
  EXPECT_EQ(ldb({"scan"}), entries);
  EXPECT_EQ(varve({"compact"}), "OK\n");
  // After a line about the range of times.
  const std::string timed = ldb({"scan", "--timestamp"});
  EXPECT_EQ(varve({"scan", "--timestamp"}), timed.substr(timed.find('\n') + 1));
}

TEST_F(TtlInteropTest, RangesOfTimeAreLdbs) {
  for (uint32_t i = 0; i < 5; ++i) {
    VarveSession(path_, 1500000000 + i).Put(Key(static_cast<int>(i)), "value");
  }
  for (const std::vector<std::string>& range :
       std::vector<std::vector<std::string>>{
           {"--start_time=1500000001"},
           {"--end_time=1500000003"},
           {"--start_time=1500000001", "--end_time=1500000004"},
           {"--start_time=1500000002", "--end_time=1500000002"},
           {"--start_time=1500000009"}}) {
    const std::vector<std::string> scan =
        Command({"--db=" + path_, "--ttl", "scan"}, range);
    EXPECT_EQ(RunOrFail(Command({VARVE_TOOL_PATH}, scan)),
              RunTool(Command({"ldb"}, scan)).out);
    const std::vector<std::string> dump =
        Command({"--db=" + path_, "--ttl"}, range);
    EXPECT_EQ(
        RunOrFail(Command({VARVE_TOOL_PATH, "export-to", "--ldb", "-"}, dump)),
        RunTool(Command({"ldb", "dump", "--hex"}, dump)).out);
  }
}

}  // namespace
}  // namespace varve::test
