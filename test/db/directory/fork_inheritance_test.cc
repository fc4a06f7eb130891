// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a child may use an inherited database after all its former owners have
// ended, if it was in a consistent state. Until then the child gets an error
// with the reason. Method: forks whose parent ends or waits. db_fork_test.cc
// tests how a database uses it.

#include "db/directory/fork_inheritance.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "test/testing/db_helpers.h"

namespace varve::test {
namespace {

// Returns the result of a check in a child whose parent, itself a child, has
// ended.
bool InOrphan(bool (*check)(ForkInheritance*)) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  ForkInheritance inheritance;
  const pid_t parent = fork();
  if (parent == 0) {
    // The test is not an ancestor: it had no database.
    inheritance = ForkInheritance();
    if (fork() == 0) {
      inheritance.Inherit(true, true);
      const char result = check(&inheritance) ? 1 : 0;
      _exit(write(ends[1], &result, 1) == 1 ? 0 : 1);
    }
    _exit(0);
  }
  EXPECT_EQ(waitpid(parent, nullptr, 0), parent);
  close(ends[1]);
  char result = 0;
  EXPECT_EQ(read(ends[0], &result, 1), 1);
  close(ends[0]);
  return result == 1;
}

// The same in a child whose parent waits for it.
bool InChild(bool (*check)(ForkInheritance*)) {
  ForkInheritance inheritance;
  const pid_t child = fork();
  if (child == 0) {
    inheritance.Inherit(true, true);
    _exit(check(&inheritance) ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(ForkInheritanceTest, IsNotInheritedAtFirst) {
  ForkInheritance inheritance;
  EXPECT_FALSE(inheritance.is_inherited());
  EXPECT_FALSE(inheritance.is_abandoned());
  inheritance.Abandon();
  EXPECT_TRUE(inheritance.is_abandoned());
}

TEST(ForkInheritanceTest, StaysTheParentsWhileThatRuns) {
  EXPECT_TRUE(InChild([](ForkInheritance* inheritance) {
    const std::string parent = std::to_string(getppid());
    return inheritance->is_inherited() &&
           !inheritance->MayTakeOver(true, Env::Default()) &&
           !inheritance->MayTakeOver(false, Env::Default()) &&
           inheritance->Error("/db").IsBusy() &&
           Contains(inheritance->Error("/db").message(), parent);
  }));
}

TEST(ForkInheritanceTest, IsTheChildsOnceTheParentHasEnded) {
  EXPECT_TRUE(InOrphan([](ForkInheritance* inheritance) {
    if (!inheritance->MayTakeOver(true, Env::Default())) return false;
    return !inheritance->TakeOver() && !inheritance->is_inherited();
  }));
  EXPECT_TRUE(InOrphan([](ForkInheritance* inheritance) {
    inheritance->Error("/db").IgnoreError();
    return inheritance->MayTakeOver(true, Env::Default()) &&
           inheritance->TakeOver() && !inheritance->TakeOver();
  }));
}

TEST(ForkInheritanceTest, IsNotTakenOverIfItWasNotWhole) {
  EXPECT_TRUE(InOrphan([](ForkInheritance* inheritance) {
    inheritance->Inherit(true, false);
    const Status error = inheritance->Error("/db");
    return !inheritance->MayTakeOver(true, Env::Default()) &&
           Contains(error.message(), "has to be opened again");
  }));
}

}  // namespace
}  // namespace varve::test
