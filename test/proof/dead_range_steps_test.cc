// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: what a reader learns about dead ranges is true, wherever another thread
// switches the memtable and writes into the range while the reader begins (bad
// interleaving B5 of db/dead_entries/dead_ranges.h). Method: the reader is
// stopped before each instruction of NewIterator in turn. A later reader must
// find the value, whatever the first one learns.

#include "experimental/ablation.h"
#include "test/testing/machine/step_hook.h"
#include "test/testing/temp_dir.h"
#include "test/testing/test_headers.h"
#include "varve/write_batch.h"

namespace varve::test {
namespace {

// More than a walk must pass to be remembered.
constexpr int kDead = 200;

std::string KeyOf(size_t round, int number) {
  char text[32];
  snprintf(text, sizeof(text), "%08zu-%04d", round, number);
  return text;
}

TEST(DeadRangeStepsTest, AReaderLearnsNothingFalse) {
  const TempDir directory;
  Options options;
  options.create_if_missing = true;
  AblationOptions ablation;
  ASSERT_TRUE(ablation.Parse("waste=always").ok());
  options.experiment = NewExperiment(ablation);
  // Only this test switches memtables.
  options.disable_auto_compactions = true;
  std::unique_ptr<DB> db;
  ASSERT_TRUE(DB::Open(options, directory.path() + "/db", &db).ok());
  ASSERT_TRUE(db->Put({}, "z", "the last").ok());

  size_t step = 0;
  StepHook hook([&] {
    EXPECT_TRUE(db->Flush({}).ok());
    EXPECT_TRUE(db->Put({}, KeyOf(step, kDead / 2), "new").ok());
  });
  bool reached = true;
  for (; reached; ++step) {
    WriteBatch batch;
    for (int i = 0; i < kDead; ++i) batch.Put(KeyOf(step, i), "old");
    for (int i = 0; i < kDead; ++i) batch.Delete(KeyOf(step, i));
    ASSERT_TRUE(db->Write({}, &batch).ok());
    {
      std::unique_ptr<Iterator> reader;
      reached =
          hook.Run(step, [&] { reader = db->NewIterator(ReadOptions()); });
      reader->Seek(KeyOf(step, 0));
      ASSERT_TRUE(reader->Valid());
    }
    if (!reached) break;
    const std::unique_ptr<Iterator> later = db->NewIterator(ReadOptions());
    later->Seek(KeyOf(step, 0));
    ASSERT_TRUE(later->Valid());
    ASSERT_EQ(later->key().ToString(), KeyOf(step, kDead / 2))
        << "after a write before instruction " << step;
    ASSERT_TRUE(db->Delete({}, KeyOf(step, kDead / 2)).ok());
  }
  printf("%zu instructions\n", step);
  EXPECT_GT(step, 100u);
}

}  // namespace
}  // namespace varve::test
