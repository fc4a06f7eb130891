// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a status says what was put into it, and no other one does. Method: each
// way of making, copying and annotating one.

#include "varve/status.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

TEST(StatusTest, SuccessIsEmpty) {
  const Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.ToString(), "OK");
  EXPECT_TRUE(status.message().empty());
  EXPECT_TRUE(status.Annotate("while testing").ok());
}

TEST(StatusTest, HasMessageAndDetail) {
  const Status status = Status::Corruption("file 7", "bad block");
  EXPECT_TRUE(status.IsCorruption());
  EXPECT_EQ(status.message(), "file 7: bad block");
  EXPECT_EQ(status.ToString(), "Corruption: file 7: bad block");
}

TEST(StatusTest, CopiesAndMovesAreIndependent) {
  Status first = Status::IOError("disk");
  const Status copy = first;
  const Status moved = std::move(first);
  first = Status::Busy("later");
  EXPECT_EQ(copy.ToString(), moved.ToString());
  EXPECT_TRUE(copy.IsIOError());
  EXPECT_TRUE(first.IsBusy());
}

TEST(StatusTest, PlainNotFoundIsSharedAndNeverChanged) {
  const Status status = Status::NotFound();
  const Status copy = status;
  EXPECT_TRUE(copy.IsNotFound());
  EXPECT_TRUE(copy.message().empty());
  const Status annotated = status.Annotate("key 5");
  EXPECT_TRUE(annotated.IsNotFound());
  EXPECT_EQ(annotated.message(), "key 5");
  EXPECT_TRUE(status.message().empty());
  EXPECT_TRUE(Status::NotFound().message().empty());
}

TEST(StatusTest, AnnotationsStandBeforeTheMessage) {
  const Status status = Status::FromErrno("write f", ENOSPC).Annotate("flush");
  EXPECT_TRUE(status.IsIOError());
  EXPECT_TRUE(status.IsNoSpace());
  EXPECT_TRUE(status.message().starts_with("flush: write f: "));
  EXPECT_TRUE(Status::FromErrno("open f", ENOENT).IsNotFound());
}

TEST(StatusTest, SubcodesStayWithTheStatus) {
  using Subcode = Status::Subcode;
  const Status deadlock = Status::Busy(Subcode::kDeadlock, "1 and 2");
  EXPECT_TRUE(deadlock.IsBusy());
  EXPECT_TRUE(deadlock.IsDeadlock());
  EXPECT_FALSE(deadlock.IsLockLimit());
  EXPECT_EQ(deadlock.ToString(), "Busy: 1 and 2");
  const Status copy = deadlock.Annotate("Put");
  EXPECT_TRUE(copy.IsDeadlock());
  const Status late = Status::TimedOut(Subcode::kLockTimeout, "key 5");
  EXPECT_TRUE(late.IsTimedOut());
  EXPECT_TRUE(late.IsLockTimeout());
  EXPECT_EQ(late.ToString(), "Operation timed out: key 5");
  EXPECT_FALSE(Status::TimedOut("a", "b").IsLockTimeout());
  EXPECT_TRUE(Status::Busy(Subcode::kLockLimit, "").IsLockLimit());
  EXPECT_EQ(Status::Expired("gone").ToString(), "Operation expired: gone");
  EXPECT_TRUE(Status::Expired("gone").IsExpired());
  EXPECT_TRUE(Status::SpaceLimit().IsIOError());
  EXPECT_TRUE(Status::SpaceLimit().IsSpaceLimit());
  EXPECT_FALSE(Status::SpaceLimit().IsNoSpace());
  EXPECT_TRUE(Status::FromErrno("open f", ENOENT).IsPathNotFound());
  EXPECT_FALSE(Status::NotFound("key").IsPathNotFound());
  EXPECT_EQ(Status::Corruption(Subcode::kMergeOperatorFailed, "sum", "key 5")
                .Annotate("Get")
                .subcode(),
            Subcode::kMergeOperatorFailed);
  EXPECT_TRUE(Status::TryAgain("later").IsTryAgain());
  EXPECT_TRUE(Status::ColumnFamilyDropped().IsColumnFamilyDropped());
  EXPECT_FALSE(Status::Busy("lock").IsDeadlock());
  EXPECT_EQ(Status().subcode(), Subcode::kNone);
  EXPECT_EQ(Status::NotFound().subcode(), Subcode::kNone);
}

}  // namespace
}  // namespace varve::test
