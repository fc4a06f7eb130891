// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Batches that are large enough to be inserted beside other writes
// (db/jobs/large_batch.h), for tests of what survives. A writer that numbers
// its writes makes some of them large, and all keys of its large batches have
// the number of the last one.

#include <string>

#include "test/testing/db_helpers.h"
#include "varve/db.h"
#include "varve/write_batch.h"

namespace varve::test {

constexpr int kLargeWriteKeys = 5000;
constexpr int64_t kLargeWriteEvery = 64;

inline std::string LargeWriteKey(int writer, int i) {
  return "large " + std::to_string(writer) + " " + Key(i);
}

// Adds the keys if the writer's write of this number is large.
inline void AddIfLarge(WriteBatch* batch, int writer, int64_t number) {
  if (number % kLargeWriteEvery != 0) return;
  for (int i = 0; i < kLargeWriteKeys; ++i) {
    batch->Put(LargeWriteKey(writer, i), std::to_string(number));
  }
}

// Expects the last large write of a writer whose first write had the number
// `first`, and whose last one, which is in the database, had `last`.
inline void ExpectLargeWrite(DB* db, int writer, int64_t first, int64_t last) {
  const int64_t large = last / kLargeWriteEvery * kLargeWriteEvery;
  std::string value;
  for (int i = 0; i < kLargeWriteKeys; ++i) {
    const Status s = db->Get({}, LargeWriteKey(writer, i), &value);
    if (large < first || last < first) {
      ASSERT_TRUE(s.IsNotFound()) << i << ": " << s.ToString();
    } else {
      ASSERT_TRUE(Ok(s)) << i;
      ASSERT_EQ(value, std::to_string(large)) << i << ", last " << last;
    }
  }
}

}  // namespace varve::test
