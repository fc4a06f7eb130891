// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: of concurrent commits and writes without a check, exactly those commits
// pass between whose reads and numbers nobody else has changed what they used.
// Method: threads with random keys, ranges and kinds of updates, beside flushes
// and compactions. All updates are recorded with their sequence numbers, and
// each outcome is judged by that record afterwards.

#include "db/engine/db_impl.h"
#include "db/transaction/validation/commit_check.h"
#include "db/write/write_batch_internal.h"
#include "test/testing/db_helpers.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "test/testing/threads/run_threads.h"
#include "varve/merge_operator.h"

namespace varve::test {
namespace {

constexpr int kWriters = 4;

// [begin, end) of a family, or the key `begin`.
struct Span {
  uint32_t family = 0;
  std::string begin;
  std::string end;  // Empty for a key.

  bool Meets(const Span& other) const {
    if (family != other.family) return false;
    const auto starts_in = [](const Span& a, const Span& b) {
      return b.end.empty() ? a.begin == b.begin
                           : b.begin <= a.begin && a.begin < b.end;
    };
    return starts_in(*this, other) || starts_in(other, *this);
  }
};

struct Update {
  Span span;
  SequenceNumber number;
};

struct Commit {
  std::vector<Span> used;
  std::vector<SequenceNumber> since;  // Of each of them.
  SequenceNumber number = 0;          // 0 if it was refused.
};

// The work of one thread.
struct Record {
  std::vector<Update> updates;
  std::vector<Commit> commits;
};

class DbValidationStressTest : public DbTestBase {
 protected:
  void SetUp() override {
    options_.merge_operator = NewMaxOperator();
    Open();
    ColumnFamilyHandle* other = nullptr;
    ASSERT_TRUE(Ok(db_->CreateColumnFamily(options_, "other", &other)));
    other_.reset(other);
  }
  void TearDown() override {
    other_.reset();
    DbTestBase::TearDown();
  }

  DBImpl* db() { return static_cast<DBImpl*>(db_.get()); }
  ColumnFamilyHandle* HandleOf(uint32_t family) {
    return family == 0 ? db_->DefaultColumnFamily() : other_.get();
  }

  static std::string KeyOf(uint64_t number) {
    return Key(static_cast<int>(number));
  }
  Span RandomKey(Rng* rng) {
    return {rng->OneIn(4) ? other_->GetID() : 0, KeyOf(rng->Below(40)), ""};
  }
  Span RandomRange(Rng* rng) {
    Span span = RandomKey(rng);
    const uint64_t begin = rng->Below(40);
    span.begin = KeyOf(begin);
    span.end = KeyOf(begin + 1 + rng->Below(4));
    return span;
  }

  // Adds some updates to the batch. Returns what they change.
  std::vector<Span> Fill(Rng* rng, WriteBatch* batch) {
    std::vector<Span> spans;
    for (uint64_t i = 1 + rng->Below(3); i > 0; i--) {
      Span span = rng->OneIn(8) ? RandomRange(rng) : RandomKey(rng);
      ColumnFamilyHandle* const family = HandleOf(span.family);
      if (!span.end.empty()) {
        batch->DeleteRange(family, span.begin, span.end);
      } else if (rng->OneIn(4)) {
        batch->Delete(family, span.begin);
      } else if (rng->OneIn(4)) {
        batch->Merge(family, span.begin, "5");
      } else {
        batch->Put(family, span.begin, std::string(rng->Below(100), 'v'));
      }
      spans.push_back(std::move(span));
    }
    return spans;
  }
  static void Note(const WriteBatch& batch, std::vector<Span> spans,
                   Record* record) {
    SequenceNumber number = WriteBatchInternal::Sequence(batch);
    for (Span& span : spans) {
      record->updates.push_back({std::move(span), number++});
    }
  }

  void Write(Rng* rng, Record* record) {
    WriteBatch batch;
    std::vector<Span> spans = Fill(rng, &batch);
    ASSERT_TRUE(Ok(db_->Write({.sync = rng->OneIn(4)}, &batch)));
    Note(batch, std::move(spans), record);
  }

  void Transact(Rng* rng, CommitCheck* check, Record* record) {
    const Snapshot* const snapshot = db_->GetSnapshot();
    Commit commit;
    for (uint64_t i = 1 + rng->Below(3); i > 0; i--) {
      commit.used.push_back(rng->OneIn(4) ? RandomRange(rng) : RandomKey(rng));
      commit.since.push_back(rng->OneIn(2) ? db_->GetLatestSequenceNumber()
                                           : snapshot->GetSequenceNumber());
      if (rng->OneIn(2)) std::this_thread::yield();
    }
    check->Clear();
    for (size_t i = 0; i < commit.used.size(); i++) {
      const Span& span = commit.used[i];
      if (span.end.empty()) {
        check->AddKey(span.family, span.begin, commit.since[i]);
        continue;
      }
      const Slice begin(span.begin);
      const Slice end(span.end);
      check->AddRange(span.family, &begin, &end, false, commit.since[i]);
    }
    WriteBatch batch;
    std::vector<Span> spans = Fill(rng, &batch);
    const Status status =
        db()->WriteChecked({.sync = rng->OneIn(4)}, &batch, *check);
    db_->ReleaseSnapshot(snapshot);
    if (status.ok()) {
      commit.number = WriteBatchInternal::Sequence(batch);
      Note(batch, std::move(spans), record);
    } else {
      ASSERT_TRUE(status.IsBusy()) << status.ToString();
    }
    record->commits.push_back(std::move(commit));
  }

  static void Judge(const std::vector<Record>& records) {
    std::vector<Update> updates;
    for (const Record& record : records) {
      updates.insert(updates.end(), record.updates.begin(),
                     record.updates.end());
    }
    size_t passed = 0;
    size_t refused = 0;
    for (const Record& record : records) {
      for (const Commit& commit : record.commits) {
        ++(commit.number != 0 ? passed : refused);
        bool changed = false;
        for (const Update& update : updates) {
          if (commit.number != 0 && update.number >= commit.number) continue;
          for (size_t i = 0; i < commit.used.size(); i++) {
            changed |= update.number > commit.since[i] &&
                       update.span.Meets(commit.used[i]);
          }
        }
        ASSERT_EQ(changed, commit.number == 0)
            << "the commit with number " << commit.number;
      }
    }
    printf("%zu commits, %zu refused\n", passed, refused);
    EXPECT_GT(passed, 0u);
    EXPECT_GT(refused, 0u);
  }

  std::unique_ptr<ColumnFamilyHandle> other_;
};

TEST_F(DbValidationStressTest, OutcomesFollowFromTheNumbers) {
  const uint64_t seed = TestSeed();
  const int steps = EnvironmentInt("VARVE_VALIDATION_STEPS", 150);
  std::vector<Record> records(kWriters);
  std::atomic<int> writing{kWriters};
  RunThreads(kWriters + 1, [&](int thread) {
    Rng rng(seed + static_cast<uint64_t>(thread));
    if (thread == kWriters) {
      while (writing.load() > 0) {
        ColumnFamilyHandle* const family =
            HandleOf(rng.OneIn(4) ? other_->GetID() : 0);
        EXPECT_TRUE(Ok(db_->Flush({}, family)));
        if (rng.OneIn(4)) {
          EXPECT_TRUE(Ok(db_->CompactRange({.rewrite_bottommost_level = true},
                                           family, nullptr, nullptr)));
        }
      }
      return;
    }
    CommitCheck check;
    for (int i = 0; i < steps && !HasFatalFailure(); i++) {
      if (rng.OneIn(4)) {
        Write(&rng, &records[static_cast<size_t>(thread)]);
      } else {
        Transact(&rng, &check, &records[static_cast<size_t>(thread)]);
      }
    }
    writing.fetch_sub(1);
  });
  Judge(records);
}

}  // namespace
}  // namespace varve::test
