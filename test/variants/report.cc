// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Part of the program of the variants: says at its end which code paths it has
// taken, so that run_variants.py can verify that the variants it has asked for
// were tested. A line "NAME=VALUE COUNT" for each choice goes to the file of
// $VARVE_TEST_REPORT.

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "env/io_ring.h"
#include "test/testing/db_helpers.h"
#include "util/threads/per_cpu.h"
#include "util/threads/thread_record.h"
#include "varve/db.h"
#include "varve/env.h"

#ifdef VARVE_TEST_URING
#include "test/testing/env/ring_faults.h"
#endif

namespace varve::test {
namespace {

constexpr char kPathCounts[] = "varve.ablation-path-counts";

// Returns the process's path counts, and those of a database that does a
// little of everything.
std::string PathCounts() {
  const std::unique_ptr<Env> memory = NewMemoryEnv(Env::Default());
  Options options = TinyOptions();
  options.experiment = NewExperiment(TestAblation());
  options.env = memory.get();
  options.statistics = NewTestStatistics();
  options.block_cache = NewTestCache(1 << 20);
  options.key_case = KeyCase::kInsensitive;
  std::unique_ptr<DB> db;
  std::string text;
  Status s = DB::Open(options, "/db", &db);
  for (int round = 0; round < 2 && s.ok(); ++round) {
    const Snapshot* const snapshot = db->GetSnapshot();
    for (int i = 0; i < 100 && s.ok(); ++i) s = db->Put({}, Key(i), "value");
    db->ReleaseSnapshot(snapshot);
    if (s.ok()) s = db->Flush({});
    if (s.ok()) s = db->Get({}, Key(1), &text);
    const auto it = db->NewIterator({});
    it->SeekToFirst();
    if (s.ok()) s = it->status();
  }
  EXPECT_TRUE(Ok(s));
  EXPECT_TRUE(s.ok() && db->GetProperty(kPathCounts, &text));
  return text;
}

class Report : public ::testing::Environment {
 public:
  void TearDown() override {
    const char* const path = getenv("VARVE_TEST_REPORT");
    if (path == nullptr) return;
    std::string text = PathCounts();
    text += "membarrier=";
    text += CurrentThreadRecord()->fenced ? "refused 1\n" : "used 1\n";
    text += "per_cpu=";
    text += BestPerCpuPath() == PerCpuPath::kAtomic ? "atomic 1\n" : "rseq 1\n";
    text += "io_uring=";
    text += IoRingUsable() ? "used 1\n" : "refused 1\n";
#ifdef VARVE_TEST_URING
    text += "ring_faults=on " + std::to_string(ring_faults.short_reads) + "\n";
#endif
    FILE* const file = fopen(path, "w");
    ASSERT_NE(file, nullptr) << path;
    EXPECT_EQ(fwrite(text.data(), 1, text.size(), file), text.size());
    EXPECT_EQ(fclose(file), 0);
  }
};

const auto* const report = ::testing::AddGlobalTestEnvironment(new Report);

}  // namespace
}  // namespace varve::test
