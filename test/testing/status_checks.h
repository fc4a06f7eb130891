// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// What a call returned, for ASSERT_TRUE(Ok(db->Put(...))) and
// EXPECT_TRUE(IsCorruption(db->Open(...), "000007.sst")): that it is an error
// of a kind, and that its text has some parts. A failure prints the status.
// They are found beside Status from all namespaces.

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "varve/status.h"

namespace varve {

inline ::testing::AssertionResult CheckStatus(
    const Status& status, bool is, std::initializer_list<std::string> parts) {
  if (is && parts.size() == 0) return ::testing::AssertionSuccess();
  const std::string text = status.ToString();
  for (const std::string& part : parts) {
    if (text.find(part) == std::string::npos) {
      return ::testing::AssertionFailure() << text << " has no " << part;
    }
  }
  return ::testing::AssertionResult(is) << text;
}

#define VARVE_TEST_STATUS_CHECK(Name, is)                             \
  template <typename... Parts>                                        \
  ::testing::AssertionResult Name(const Status& status,               \
                                  const Parts&... parts) {            \
    return CheckStatus(status, status.is(), {std::string(parts)...}); \
  }
VARVE_TEST_STATUS_CHECK(Ok, ok)
VARVE_TEST_STATUS_CHECK(IsNotFound, IsNotFound)
VARVE_TEST_STATUS_CHECK(IsCorruption, IsCorruption)
VARVE_TEST_STATUS_CHECK(IsNotSupported, IsNotSupported)
VARVE_TEST_STATUS_CHECK(IsInvalidArgument, IsInvalidArgument)
VARVE_TEST_STATUS_CHECK(IsIOError, IsIOError)
VARVE_TEST_STATUS_CHECK(IsIncomplete, IsIncomplete)
VARVE_TEST_STATUS_CHECK(IsShutdownInProgress, IsShutdownInProgress)
VARVE_TEST_STATUS_CHECK(IsAborted, IsAborted)
VARVE_TEST_STATUS_CHECK(IsBusy, IsBusy)
VARVE_TEST_STATUS_CHECK(IsNoSpace, IsNoSpace)
#undef VARVE_TEST_STATUS_CHECK

}  // namespace varve
