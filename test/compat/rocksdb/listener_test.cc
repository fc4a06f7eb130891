// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: events that a program cannot cause reach its listener in RocksDB's
// form: stalls, errors, and failed jobs. Method: the engine's calls.
#include "compat/rocksdb/callbacks/event_listener.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "test/compat/rocksdb/program.h"

namespace rocksdb_test {
namespace {

using testing::ElementsAre;

// The calls that the listener got.
struct Events {
  std::vector<int> conditions;
  std::vector<uint32_t> reasons;
  std::vector<std::string> texts;
};

Events* EventsOf(void* state) { return static_cast<Events*>(state); }

void OnStall(void* state, const rocksdb_writestallinfo_t* info) {
  EventsOf(state)->conditions.push_back(rocksdb_writestallinfo_prev(info)->rep);
  EventsOf(state)->conditions.push_back(rocksdb_writestallinfo_cur(info)->rep);
  size_t size = 0;
  const char* const name = rocksdb_writestallinfo_cf_name(info, &size);
  EventsOf(state)->texts.emplace_back(name, size);
}

void OnError(void* state, uint32_t reason, rocksdb_status_ptr_t* status) {
  EventsOf(state)->reasons.push_back(reason);
  Error error;
  rocksdb_status_ptr_get_error(status, error);
  EventsOf(state)->texts.push_back(error.Take());
  rocksdb_reset_status(status);
  rocksdb_status_ptr_get_error(status, error);
  EventsOf(state)->texts.push_back(error.Take());
}

void OnFlush(void* state, rocksdb_t* db, const rocksdb_flushjobinfo_t* info) {
  EXPECT_EQ(db, nullptr);  // No database is open.
  size_t size = 1;
  EventsOf(state)->texts.emplace_back(
      rocksdb_flushjobinfo_file_path(info, &size));
}

void OnCompaction(void* state, rocksdb_t* /*db*/,
                  const rocksdb_compactionjobinfo_t* info) {
  Error error;
  rocksdb_compactionjobinfo_status(info, error);
  EventsOf(state)->texts.push_back(error.Take());
  EventsOf(state)->reasons.push_back(
      rocksdb_compactionjobinfo_compaction_reason(info));
}

using ListenerPtr =
    Owned<rocksdb_eventlistener_t, rocksdb_eventlistener_destroy>;

TEST(RocksDbListenerPartsTest, StallsHaveRocksDbsNumbers) {
  Events events;
  const ListenerPtr listener(rocksdb_eventlistener_create(
      &events, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
      nullptr, nullptr, OnStall, nullptr));
  using varve::WriteStallCondition;
  varve::WriteStallInfo info;
  info.cf_name = "one";
  info.previous = WriteStallCondition::kNormal;
  info.current = WriteStallCondition::kDelayed;
  listener->OnStallConditionsChanged(info);
  info.previous = WriteStallCondition::kDelayed;
  info.current = WriteStallCondition::kStopped;
  listener->OnStallConditionsChanged(info);
  EXPECT_THAT(events.conditions, ElementsAre(2, 0, 0, 1));
  EXPECT_THAT(events.texts, ElementsAre("one", "one"));
}

TEST(RocksDbListenerPartsTest, ErrorsHaveRocksDbsNumbers) {
  Events events;
  const ListenerPtr listener(rocksdb_eventlistener_create(
      &events, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
      nullptr, OnError, nullptr, nullptr));
  const varve::Status status = varve::Status::IOError("the device", "is full");
  for (const char* where :
       {"a flush", "a compaction", "writing the log", "writing the MANIFEST"}) {
    listener->OnBackgroundError(where, status);
  }
  EXPECT_THAT(events.reasons, ElementsAre(0, 1, 2, 4));
  EXPECT_EQ(events.texts[0], "IO error: the device: is full");
  EXPECT_EQ(events.texts[1], "OK");
}

TEST(RocksDbListenerPartsTest, FailedJobsHaveNoFile) {
  Events events;
  const ListenerPtr listener(rocksdb_eventlistener_create(
      &events, nullptr, OnFlush, OnFlush, OnCompaction, OnCompaction, nullptr,
      nullptr, nullptr, nullptr, nullptr, nullptr));
  varve::FlushJobInfo flush;
  flush.db_path = "/nowhere";
  listener->OnFlushBegin(flush);
  flush.file_number = 1234567;
  listener->OnFlushCompleted(flush);
  varve::CompactionJobInfo compaction;
  compaction.db_path = "/nowhere";
  compaction.reason = "periodic";
  listener->OnCompactionBegin(compaction);
  compaction.status = varve::Status::Corruption("a block");
  compaction.reason = "of another kind";
  listener->OnCompactionCompleted(compaction);
  EXPECT_THAT(events.texts, ElementsAre("", "/nowhere/1234567.sst", "OK",
                                        "Corruption: a block"));
  EXPECT_THAT(events.reasons, ElementsAre(15, 0));
}

// Without callbacks nothing happens.
TEST(RocksDbListenerPartsTest, MayHaveNoCallbacks) {
  const ListenerPtr listener(rocksdb_eventlistener_create(
      nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
      nullptr, nullptr, nullptr, nullptr));
  listener->OnFlushBegin({});
  listener->OnFlushCompleted({});
  listener->OnCompactionBegin({});
  listener->OnCompactionCompleted({});
  listener->OnStallConditionsChanged({});
  listener->OnBackgroundError("a flush", varve::Status::OK());
}

}  // namespace
}  // namespace rocksdb_test
