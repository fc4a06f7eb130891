// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: the first error is kept, and whoever sees that there is one sees it
// whole. Method: threads that report errors while others read.

#include "util/base/first_error.h"

#include "test/testing/test_headers.h"
#include "test/testing/threads/run_threads.h"

namespace varve::test {
namespace {

TEST(FirstErrorTest, KeepsTheFirst) {
  FirstError error;
  EXPECT_FALSE(error.failed());
  EXPECT_TRUE(error.status().ok());
  error.Set(Status::OK());
  EXPECT_FALSE(error.failed());
  error.Set(Status::IOError("first"));
  error.Set(Status::OK());
  error.Set(Status::Corruption("second"));
  EXPECT_TRUE(error.failed());
  EXPECT_EQ(error.status().ToString(), Status::IOError("first").ToString());
}

TEST(FirstErrorTest, ThreadsSeeOneWholeError) {
  constexpr int kRounds = 200;
  constexpr int kThreads = 4;
  for (int round = 0; round < kRounds; ++round) {
    FirstError error;
    std::vector<std::string> seen(kThreads);
    RunThreads(kThreads, [&](int i) {
      if (i % 2 == 0) {
        error.Set(Status::IOError("of thread " + std::to_string(i)));
      }
      while (!error.failed()) std::this_thread::yield();
      seen[i] = error.status().ToString();
    });
    EXPECT_EQ(std::set<std::string>(seen.begin(), seen.end()).size(), 1u);
    EXPECT_EQ(seen[0], error.status().ToString());
  }
}

}  // namespace
}  // namespace varve::test
