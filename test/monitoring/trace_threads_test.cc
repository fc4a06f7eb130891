// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: traces name threads as the kernel does, and their names are found
// although the threads have ended. Method: threads with names.

#include <pthread.h>
#include <unistd.h>

#include "monitoring/span.h"
#include "test/testing/test_headers.h"
#include "test/testing/trace_tree.h"
#include "varve/trace.h"

namespace varve::test {
namespace {

// The kernel's ids, also of threads that have ended and of renamed ones.
TEST(TraceThreadsTest, ThreadsHaveIdsAndNames) {
  pid_t ids[2] = {};
  Session session;
  for (pid_t& id : ids) {
    std::thread([&] {
      id = gettid();
      pthread_setname_np(pthread_self(), &id == ids ? "first" : "second");
      const RequestSpan span("work");
    }).join();
  }
  const auto traces = SplitTraces(session.Stop());
  ASSERT_EQ(traces.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(traces[i][0].thread, static_cast<uint32_t>(ids[i]));
    EXPECT_EQ(traces[i][0].done_by, static_cast<uint32_t>(ids[i]));
  }
  EXPECT_EQ(trace::ThreadName(static_cast<uint32_t>(ids[0])), "first");
  EXPECT_EQ(trace::ThreadName(static_cast<uint32_t>(ids[1])), "second");
  EXPECT_EQ(trace::ThreadName(0), "");
  EXPECT_EQ(trace::ThreadName(UINT32_MAX), "");

  std::thread([] {
    const auto name_in_session = [](const char* name) {
      pthread_setname_np(pthread_self(), name);
      Session next;
      const RequestSpan span("work");
      return trace::ThreadName(static_cast<uint32_t>(gettid()));
    };
    EXPECT_EQ(name_in_session("before"), "before");
    EXPECT_EQ(name_in_session("after"), "after");
  }).join();
}

// Without a bound, a program that creates threads all the time would fill its
// memory.
TEST(TraceThreadsTest, NamesOfEndedThreadsAreForgotten) {
  Session session;
  uint32_t first = 0;
  for (int i = 0; i < 4200 && (i < 2 || trace::ThreadName(first) == "mayfly");
       ++i) {
    std::thread([&] {
      pthread_setname_np(pthread_self(), i == 0 ? "mayfly" : "other");
      if (i == 0) first = static_cast<uint32_t>(gettid());
      const RequestSpan span("work");
    }).join();
  }
  EXPECT_NE(trace::ThreadName(first), "mayfly");
}

}  // namespace
}  // namespace varve::test
