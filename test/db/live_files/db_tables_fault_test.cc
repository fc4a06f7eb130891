// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: whichever call of the operating system fails in a call on single
// tables, and if the power does at that point, the database is as before the
// call or as after it. Method: each call with its n-th operation failing, for
// every n, then a power cut, then the call again.

#include <functional>

#include "test/testing/db_helpers.h"
#include "test/testing/test_headers.h"
#include "varve/testing/fault_injection_env.h"

namespace varve::test {
namespace {

class DbTablesFaultTest : public ::testing::Test {
 protected:
  ~DbTablesFaultTest() override { db_.reset(); }

  // Makes a database with the tables [a, c], [e, g] and [i, k] in level 3, the
  // first and the last of which have newer values in level 0.
  void Renew() {
    db_.reset();
    faulty_.reset();
    memory_ = NewMemoryEnv(Env::Default());
    faulty_ = std::make_unique<FaultInjectionEnv>(memory_.get());
    EXPECT_TRUE(Ok(memory_->CreateDirIfMissing("/db")));
    options_ = TinyOptions();
    options_.env = faulty_.get();
    options_.disable_auto_compactions = true;
    Open();
    for (const char* keys : {"ac", "eg", "ik"}) {
      Table(keys, "old");
      ASSERT_TRUE(Ok(db_->CompactFiles({}, nullptr, {Newest()}, 3)));
    }
    Table("ab", "new");
    Table("jk", "new");
  }
  void Open() {
    db_.reset();
    ASSERT_TRUE(Ok(DB::Open(options_, "/db/it", &db_)));
  }
  void Table(const std::string& keys, const char* value) {
    for (const char key : keys) {
      ASSERT_TRUE(Ok(db_->Put({}, Slice(&key, 1), value)));
    }
    ASSERT_TRUE(Ok(db_->Flush({})));
  }
  std::string Newest() {
    std::vector<LiveFileMetaData> tables;
    db_->GetLiveFilesMetaData(&tables);
    return tables.empty() ? "" : tables.front().name;
  }
  std::string Contents() {
    EntryList entries;
    EXPECT_TRUE(Ok(ScanForward(db_.get(), {}, &entries)));
    std::string contents;
    for (const auto& [key, value] : entries)
      contents += key + "=" + value + " ";
    return contents;
  }

  // Calls `call` with each of its operations failing in turn. The database must
  // then have one of the two contents.
  void FailEach(const std::function<Status(DB*)>& call,
                const std::string& before, const std::string& after) {
    bool failed = true;
    for (uint64_t n = 0; failed; ++n) {
      SCOPED_TRACE(n);
      ASSERT_LT(n, 1000u);
      Renew();
      ASSERT_EQ(Contents(), before);
      FailureOptions how;
      how.once = n % 2 == 0;
      faulty_->FailAfter(n / 2, FaultInjectionEnv::InjectedError(),
                         kAllOperations, how);
      const Status status = call(db_.get());
      failed = faulty_->FailureCount() != 0;
      faulty_->ClearFailure();
      const std::string found = Contents();
      if (status.ok()) {
        ASSERT_EQ(found, after);
      } else {
        ASSERT_EQ(found, before) << status.ToString();
      }
      faulty_->SetFilesystemActive(false);
      db_.reset();
      ASSERT_TRUE(Ok(faulty_->CrashAndReset({.seed = n})));
      Open();
      if (HasFatalFailure()) return;
      if (status.ok()) {
        ASSERT_EQ(Contents(), after);
      } else {
        const std::string recovered = Contents();
        ASSERT_TRUE(recovered == before || recovered == after) << recovered;
      }
      ASSERT_TRUE(Ok(call(db_.get())));
      ASSERT_EQ(Contents(), after);
      ASSERT_TRUE(Ok(db_->VerifyChecksum()));
    }
  }

  std::unique_ptr<Env> memory_;
  std::unique_ptr<FaultInjectionEnv> faulty_;
  Options options_;
  std::unique_ptr<DB> db_;
};

constexpr char kAll[] = "a=new b=new c=old e=old g=old i=old j=new k=new ";

TEST_F(DbTablesFaultTest, DeleteFilesInRanges) {
  FailEach(
      [](DB* db) {
        const Slice keys[] = {"d", "h"};
        const RangePtr range{&keys[0], &keys[1]};
        return db->DeleteFilesInRanges(nullptr, &range, 1);
      },
      kAll, "a=new b=new c=old i=old j=new k=new ");
}

// After an error the tables may be in other levels.
TEST_F(DbTablesFaultTest, CompactFiles) {
  FailEach(
      [](DB* db) {
        std::vector<LiveFileMetaData> tables;
        db->GetLiveFilesMetaData(&tables);
        std::vector<std::string> names;
        for (const LiveFileMetaData& table : tables) {
          names.push_back(table.name);
        }
        return db->CompactFiles({}, nullptr, names, 4);
      },
      kAll, kAll);
}

TEST_F(DbTablesFaultTest, PromoteL0) {
  FailEach(
      [](DB* db) {
        const Status status = db->PromoteL0(nullptr, 2);
        // A call that the power cut may have been durable.
        uint64_t tables = 0;
        EXPECT_TRUE(db->GetIntProperty("varve.num-files-at-level0", &tables));
        return status.IsInvalidArgument() && tables == 0 ? Status::OK()
                                                         : status;
      },
      kAll, kAll);
}

}  // namespace
}  // namespace varve::test
