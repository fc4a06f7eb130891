// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a write goes on at once where nothing holds it up, is refused where it
// must not wait, and as the leader replaces what is full. Method: families and
// logs in memory, with one writer that never joins a queue.

#include "db/jobs/write_admission.h"

#include "test/testing/db/three_families_fixture.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

using Next = PendingWrite::Next;

class WriteAdmissionTest : public ThreeFamiliesTest {
 protected:
  WriteAdmissionTest() {
    options_.max_write_buffer_number = 2;
    write_options_.no_slowdown = true;
    batch_.Put("key", "value");
  }
  PendingWrite NewWrite() {
    return {write_options_, {core_.families, batch_, nullptr}};
  }
  // Fills the default family's memtable.
  void Fill() { parts_.Put(default_, "key", 100 << 10); }
  // Leaves no slot for a further memtable.
  void Stop() {
    Fill();
    parts_.Switch({default_});
    Fill();
  }
  void SetError(const Status& error) {
    MutexLock lock(core_.mutex());
    core_.control.SetErrorLocked(error, "a test");
  }

  DbCore& core_ = parts_.core;
  WriteOptions write_options_;
  WriteBatch batch_;
  WriteAdmission admission_{core_, parts_.flusher};
};

TEST_F(WriteAdmissionTest, GoesOnWhereNothingHoldsItUp) {
  PendingWrite write = NewWrite();
  ASSERT_TRUE(Ok(admission_.Admit(&write)));
  EXPECT_EQ(write.next, Next::kCheck);
  ASSERT_TRUE(Ok(admission_.MakeRoom(&write)));
  EXPECT_TRUE(write.MayGo());
  EXPECT_TRUE(default_->memtables().immutable().empty());
}

TEST_F(WriteAdmissionTest, ReplacesAFullMemTable) {
  Fill();
  PendingWrite write = NewWrite();
  ASSERT_TRUE(Ok(admission_.MakeRoom(&write)));
  EXPECT_TRUE(write.MayGo());
  EXPECT_EQ(default_->memtables().immutable().size(), 1u);
  EXPECT_TRUE(default_->memtable()->empty());
}

TEST_F(WriteAdmissionTest, LeavesTheQueueWhereNoMemTableMayBeAdded) {
  Stop();
  PendingWrite write = NewWrite();
  ASSERT_TRUE(Ok(admission_.MakeRoom(&write)));
  EXPECT_EQ(write.next, Next::kWait);
  // Its options forbid the wait.
  EXPECT_TRUE(admission_.Admit(&write).IsIncomplete());
  parts_.Flush({default_});
  EXPECT_TRUE(Ok(admission_.Admit(&write)));
  ASSERT_TRUE(Ok(admission_.MakeRoom(&write)));
  EXPECT_TRUE(write.MayGo());
}

TEST_F(WriteAdmissionTest, WaitsForNoFamilyThatItDoesNotUpdate) {
  Stop();
  batch_.Clear();
  WriteBatchInternal::Add(&batch_, a_->id(), ValueType::kValue, "k", "value");
  PendingWrite write = NewWrite();
  EXPECT_TRUE(Ok(admission_.Admit(&write)));
  ASSERT_TRUE(Ok(admission_.MakeRoom(&write)));
  EXPECT_TRUE(write.MayGo());
}

TEST_F(WriteAdmissionTest, ReturnsTheErrorOfTheDatabase) {
  PendingWrite write = NewWrite();
  SetError(Status::Corruption("test"));
  EXPECT_TRUE(admission_.Admit(&write).IsCorruption());
  EXPECT_TRUE(admission_.MakeRoom(&write).IsCorruption());
}

TEST_F(WriteAdmissionTest, OnlyDeletionsPassAFullDevice) {
  SetError(Status::FromErrno("test", ENOSPC));
  PendingWrite put = NewWrite();
  EXPECT_TRUE(admission_.Admit(&put).IsNoSpace());
  batch_.Clear();
  batch_.Delete("key");
  PendingWrite deletion = NewWrite();
  ASSERT_TRUE(Ok(admission_.Admit(&deletion)));
  EXPECT_TRUE(deletion.frees);
  ASSERT_TRUE(Ok(admission_.MakeRoom(&deletion)));
  EXPECT_TRUE(deletion.MayGo());
}

}  // namespace
}  // namespace varve::test
