// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: listeners receive the tables of an edit, and each change of the write
// stall, once each. Method: a listener that records its calls.

#include "db/jobs/job_events.h"
#include "test/testing/db/test_db_mutex.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

class Recorder : public EventListener {
 public:
  void OnTableFileCreated(const TableFileInfo& info) override {
    heard.push_back(info.file_path + " " + std::to_string(info.file_bytes) +
                    " " + info.status.ToString());
  }
  void OnStallConditionsChanged(const WriteStallInfo& info) override {
    heard.push_back(std::to_string(static_cast<int>(info.previous)) + ">" +
                    std::to_string(static_cast<int>(info.current)) + " " +
                    info.cause);
  }
  std::vector<std::string> heard;
};

class JobEventsTest : public ::testing::Test {
 protected:
  const std::vector<std::string>& Heard() {
    MutexLock lock(mutex_.lockable());
    events_.DeliverLocked();
    return recorder_->heard;
  }

  LoneDbMutex mutex_;
  const std::shared_ptr<Recorder> recorder_ = std::make_shared<Recorder>();
  EventQueue events_{{recorder_}, mutex_.lockable()};
};

TEST_F(JobEventsTest, TellsOfTheTablesOfAnEdit) {
  VersionEdit edit;
  FileMetaData file;
  file.number = 7;
  file.file_size = 1000;
  edit.AddFile(0, file);
  AddTablesCreated(&events_, "/db", edit, Status::OK());
  AddTablesCreated(&events_, "/db", edit, Status::IOError("no"));
  const std::vector<std::string> expected = {"/db/000007.sst 1000 OK",
                                             "/db/000007.sst 0 IO error: no"};
  EXPECT_EQ(Heard(), expected);
}

TEST_F(JobEventsTest, TellsOfAStallThatChanges) {
  WriteStallState none;
  WriteStallState slow;
  slow.pressure = WritePressure::kSlow;
  slow.cause = StallCause::kLevel0;
  WriteStallState stop = slow;
  stop.pressure = WritePressure::kStop;
  const WriteDebt debt;
  ReportStall("/db", "default", none, none, debt, nullptr, &events_);
  ReportStall("/db", "default", none, slow, debt, nullptr, &events_);
  ReportStall("/db", "default", slow, slow, debt, nullptr, &events_);
  ReportStall("/db", "default", slow, stop, debt, nullptr, &events_);
  const std::string cause = StallCauseName(slow.cause);
  const std::vector<std::string> expected = {"0>1 " + cause, "1>2 " + cause};
  EXPECT_EQ(Heard(), expected);
}

TEST_F(JobEventsTest, DescribesACompaction) {
  FileMetaData upper;
  upper.number = 3;
  upper.file_size = 10;
  FileMetaData lower;
  lower.number = 4;
  lower.file_size = 20;
  Compaction compaction;
  compaction.level = 1;
  compaction.output_level = 2;
  compaction.inputs[0] = {&upper};
  compaction.inputs[1] = {&lower};
  compaction.reason = "size";
  const CompactionJobInfo info = DescribeCompaction(compaction, "/db");
  EXPECT_EQ(info.base_input_level, 1);
  EXPECT_EQ(info.output_level, 2);
  EXPECT_EQ(info.input_files, (std::vector<uint64_t>{3, 4}));
  EXPECT_EQ(info.input_bytes, 30u);
  EXPECT_EQ(info.db_path, "/db");
}

}  // namespace
}  // namespace varve::test
