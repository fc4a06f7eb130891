// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Batches whose updates tell where they belong, and a check that a stream of
// updates is the history of their writers.

#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "test/testing/status_checks.h"
#include "varve/db.h"
#include "varve/transaction_log.h"
#include "varve/write_batch.h"

namespace varve::test {

// Returns the key of update `index` of the `count` of a writer's batch.
inline std::string HistoryKey(int writer, int batch, int index, int count) {
  char text[64];
  snprintf(text, sizeof(text), "w%02d.%08d.%03d.%03d", writer, batch, index,
           count);
  return text;
}

// Fills a batch: a put or a deletion in one of the families each.
inline void FillBatch(int writer, int number, int count, size_t value_size,
                      const std::vector<ColumnFamilyHandle*>& families,
                      WriteBatch* batch) {
  for (int i = 0; i < count; ++i) {
    ColumnFamilyHandle* const family =
        families[static_cast<size_t>(number + i) % families.size()];
    const std::string key = HistoryKey(writer, number, i, count);
    if ((number + i) % 7 == 0) {
      batch->Delete(family, key);
    } else {
      batch->Put(family, key, std::string(value_size, 'v'));
    }
  }
}

// Checks that batches come in their order, whole and once.
// Thread-safety: owned by one thread.
class StreamHistory final : public WriteBatch::Handler {
 public:
  // Takes the next batch of a stream. Returns false if it is not the next one.
  ::testing::AssertionResult Take(const BatchResult& result) {
    if (next_ == 0) next_ = result.sequence;
    if (result.sequence != next_) {
      return ::testing::AssertionFailure()
             << "sequence number " << result.sequence << ", expected " << next_;
    }
    error_.clear();
    const Status status = result.writeBatchPtr->Iterate(this);
    if (!status.ok()) return Ok(status);
    if (left_ != 0) Fail("a batch is torn");
    next_ += static_cast<uint64_t>(result.writeBatchPtr->Count());
    if (error_.empty()) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure()
           << error_ << ", at " << result.sequence;
  }

  void Put(const Slice& key, const Slice& /*value*/) override { Add(key); }
  void Delete(const Slice& key) override { Add(key); }
  Status PutCF(uint32_t /*family*/, const Slice& key,
               const Slice& /*value*/) override {
    Add(key);
    return Status::OK();
  }
  Status DeleteCF(uint32_t /*family*/, const Slice& key) override {
    Add(key);
    return Status::OK();
  }

  void DeleteRange(const Slice& begin, const Slice& /*end*/) override {
    Add(begin);
  }

  // Makes it expect this sequence number next, and each writer's batches from
  // anywhere on.
  void GoOnAt(uint64_t sequence) { next_ = sequence; }
  uint64_t next() const { return next_; }
  // The next batch of each writer.
  const std::map<int, int>& batches() const { return batches_; }

 private:
  void Fail(const std::string& error) {
    if (error_.empty()) error_ = error;
  }
  void Add(const Slice& key) {
    int writer = 0, batch = 0, index = 0, count = 0;
    if (sscanf(key.ToString().c_str(), "w%d.%d.%d.%d", &writer, &batch, &index,
               &count) != 4) {
      return Fail("key " + key.ToString());
    }
    if (left_ == 0) {
      if (index != 0) return Fail("begins with " + key.ToString());
      const auto [found, is_new] = batches_.try_emplace(writer, batch);
      if (!is_new && found->second != batch) {
        return Fail("got " + key.ToString() + ", expected batch " +
                    std::to_string(found->second));
      }
      found->second = batch + 1;
      left_ = count;
    } else if (key.ToString() != HistoryKey(writer_, batch_, index_, count_)) {
      return Fail("got " + key.ToString() + " inside of " +
                  HistoryKey(writer_, batch_, index_, count_));
    }
    --left_;
    writer_ = writer;
    batch_ = batch;
    index_ = index + 1;
    count_ = count;
  }

  uint64_t next_ = 0;
  std::map<int, int> batches_;
  int left_ = 0;
  int writer_ = 0, batch_ = 0, index_ = 0, count_ = 0;
  std::string error_;
};

}  // namespace varve::test
