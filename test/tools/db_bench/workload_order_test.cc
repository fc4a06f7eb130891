// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Goal: the adapters of tools/peers do the same operations as db_bench.
// Method: run the workload on an engine that only notes what it is asked for,
// and compare with tools/peers/work.txt, with which tools/peers/build compares
// each adapter.

#include "test/testing/fixtures_dir.h"
#include "test/testing/status_checks.h"
#include "test/testing/test_headers.h"
#include "tools/db_bench/engine_adapter.h"
#include "tools/db_bench/workload.h"

namespace varve {
namespace {

// Operations of each session that are noted.
constexpr size_t kRecorded = 4;

using Notes = std::vector<std::string>;

class RecordingSession final : public EngineSession {
 public:
  explicit RecordingSession(std::shared_ptr<Notes> notes)
      : notes_(std::move(notes)) {}

  Lookup Get(const Slice& key, Slice* /*value*/) override {
    Note("get", key, nullptr);
    return Lookup::kMissing;
  }
  bool MultiGet(const std::vector<Slice>& keys, size_t* found,
                uint64_t* value_bytes) override {
    return GetEach(
        keys, found, value_bytes,
        [this](const Slice& key, Slice* value) { return Get(key, value); });
  }
  std::unique_ptr<EngineCursor> NewCursor() override { return nullptr; }
  void Put(const Slice& key, const Slice& value) override {
    Note("put", key, &value);
  }
  void Delete(const Slice& key) override { Note("delete", key, nullptr); }
  Status Commit() override { return Status::OK(); }

 private:
  void Note(const char* operation, const Slice& key, const Slice* value) {
    if (notes_->size() == kRecorded) return;
    std::string line = operation;
    line.append(" ").append(key.ToString(/*hex=*/true));
    for (char& digit : line) digit = static_cast<char>(tolower(digit));
    if (value != nullptr) {
      uint64_t hash = 0xcbf29ce484222325;  // FNV-1a.
      for (size_t i = 0; i < value->size(); ++i) {
        hash ^= static_cast<unsigned char>((*value)[i]);
        hash *= 0x100000001b3;
      }
      char text[20];
      snprintf(text, sizeof(text), " %016" PRIx64, hash);
      line.append(text);
    }
    notes_->push_back(line);
  }

  const std::shared_ptr<Notes> notes_;
};

class RecordingEngine final : public Engine {
 public:
  std::string Version() const override { return ""; }
  Status Check(const EngineConfig& /*config*/) const override {
    return Status::OK();
  }
  std::string IoPath() override { return ""; }
  Status Destroy(const EngineConfig& /*config*/) override {
    return Status::OK();
  }
  Status Open(const EngineConfig& /*config*/) override { return Status::OK(); }
  Status Close() override { return Status::OK(); }
  std::unique_ptr<EngineSession> NewSession() override {
    notes_.push_back(std::make_shared<Notes>());
    return std::make_unique<RecordingSession>(notes_.back());
  }
  Status Flush() override { return Status::OK(); }
  Status Compact() override { return Status::OK(); }
  Status WaitForCompaction() override { return Status::OK(); }
  Status VerifyChecksum() override { return Status::OK(); }
  bool Property(const std::string& /*name*/, std::string* /*value*/) override {
    return false;
  }

  // Returns the notes since the last call, a line each.
  std::string Take(const std::string& benchmark) {
    std::string text;
    for (size_t session = 0; session < notes_.size(); ++session) {
      for (const std::string& line : *notes_[session]) {
        text.append(benchmark).append(" ").append(std::to_string(session));
        text.append(" ").append(line).append("\n");
      }
    }
    notes_.clear();
    return text;
  }

 private:
  std::vector<std::shared_ptr<Notes>> notes_;
};

TEST(WorkloadOrderTest, IsWhatTheAdaptersOfPeersDo) {
  const std::string path = test::FixturesDir() + "/../../tools/peers/work.txt";
  std::ifstream file(path);
  std::stringstream expected;
  expected << file.rdbuf();
  ASSERT_TRUE(file.good()) << path;

  WorkloadConfig config;
  config.entries = config.reads = 1000;
  config.threads = 2;
  config.seed = 7;
  config.key_bytes = 16;
  config.value_bytes = 100;
  config.read_batch = 32;
  RecordingEngine engine;
  Workload workload(config, EngineConfig(), &engine);
  ASSERT_TRUE(workload.Open().ok());
  std::string text;
  for (const char* name : {"fillseq", "fillrandom", "filluniquerandom",
                           "fillsync", "fillbatch", "overwrite", "readrandom",
                           "readmissing", "multireadrandom", "openloop"}) {
    BenchmarkResult result;
    ASSERT_TRUE(Ok(workload.Run(*FindBenchmark(name), &result)));
    text += engine.Take(name);
  }
  EXPECT_EQ(text, expected.str());
}

}  // namespace
}  // namespace varve
