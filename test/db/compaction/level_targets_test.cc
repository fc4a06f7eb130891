// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: the base level and the sizes of levels follow the data as the options
// ask. Method: versions made by hand, of files that are numbers only.

#include "db/compaction/level_targets.h"
#include "test/testing/test_headers.h"

namespace varve {
namespace {

constexpr uint64_t kMi = 1 << 20;

class LevelTargetsTest : public ::testing::Test {
 protected:
  LevelTargetsTest() : comparator_(BytewiseComparator()) {
    options_.max_bytes_for_level_base = 256 * kMi;
    options_.max_bytes_for_level_multiplier = 10;
  }
  ~LevelTargetsTest() override { Drop(); }

  // Returns the targets of a version with these bytes in each level.
  LevelTargets Targets(const std::map<int, uint64_t>& bytes) {
    Drop();
    LevelFiles levels;
    for (const auto& [level, size] : bytes) {
      auto* file = new FileMetaData;
      file->file_size = size;
      file->smallest = MakeInternalKey("a", 1);
      file->largest = MakeInternalKey("b", 1);
      levels[level].push_back(file);
    }
    version_ = new Version(&comparator_, nullptr, true, levels);
    version_->RefLocked();
    return ComputeLevelTargets(options_, *version_);
  }

  Options options_;

 private:
  void Drop() {
    if (version_ == nullptr) return;
    std::vector<FileMetaData*> obsolete;
    EXPECT_TRUE(version_->UnrefLocked(&obsolete));
    for (FileMetaData* file : obsolete) delete file;
    version_ = nullptr;
  }

  const InternalKeyComparator comparator_;
  Version* version_ = nullptr;
};

TEST_F(LevelTargetsTest, StaticSizesGrowFromLevelOne) {
  options_.level_compaction_dynamic_level_bytes = false;
  for (const uint64_t size : {uint64_t{0}, 100 * kMi, 100000 * kMi}) {
    const LevelTargets targets = Targets({{6, size}});
    EXPECT_EQ(targets.base_level, 1);
    EXPECT_EQ(targets.max_bytes[1], 256 * kMi);
    EXPECT_EQ(targets.max_bytes[2], 2560 * kMi);
    EXPECT_EQ(targets.max_bytes[6], uint64_t{25600000} * kMi);
    EXPECT_EQ(targets.NextLevel(0), 1);
    EXPECT_EQ(targets.NextLevel(1), 2);
  }
}

TEST_F(LevelTargetsTest, EmptyDatabaseGoesToTheLastLevel) {
  EXPECT_EQ(Targets({}).base_level, 6);
  EXPECT_EQ(Targets({{0, 1000 * kMi}}).base_level, 6);
  EXPECT_EQ(Targets({}).max_bytes[6], 256 * kMi);
}

TEST_F(LevelTargetsTest, TheLastLevelIsTheOneThatTheOptionsSay) {
  options_.num_levels = 3;
  const LevelTargets small = Targets({{0, kMi}});
  EXPECT_EQ(small.base_level, 2);
  EXPECT_EQ(small.last_level, 2);
  const LevelTargets large = Targets({{2, 100000 * kMi}});
  EXPECT_EQ(large.base_level, 1);
  EXPECT_EQ(large.max_bytes[1], 256 * kMi);
}

TEST_F(LevelTargetsTest, BaseLevelRisesAsTheLastOneGrows) {
  EXPECT_EQ(Targets({{6, 256 * kMi}}).base_level, 6);
  EXPECT_EQ(Targets({{6, 257 * kMi}}).base_level, 5);
  EXPECT_EQ(Targets({{6, 2560 * kMi}}).base_level, 5);
  const LevelTargets targets = Targets({{6, 10000 * kMi}});
  EXPECT_EQ(targets.base_level, 4);
  EXPECT_EQ(targets.NextLevel(0), 4);
  EXPECT_EQ(targets.max_bytes[4], 256 * kMi);
  EXPECT_EQ(targets.max_bytes[5], 1000 * kMi);
  EXPECT_EQ(targets.max_bytes[6], 10000 * kMi);
}

TEST_F(LevelTargetsTest, NoDataIsTooMuchForSevenLevels) {
  const LevelTargets targets = Targets({{6, uint64_t{1} << 60}});
  EXPECT_EQ(targets.base_level, 1);
  EXPECT_EQ(targets.max_bytes[1], 256 * kMi);
}

TEST_F(LevelTargetsTest, LevelsThatHaveTablesAreNotPassedOver) {
  // As static sizes have left them.
  const LevelTargets targets = Targets({{1, 200 * kMi}, {2, 300 * kMi}});
  EXPECT_EQ(targets.base_level, 1);
  EXPECT_EQ(targets.max_bytes[1], 256 * kMi);
  EXPECT_GE(targets.max_bytes[2], 256 * kMi);
}

TEST_F(LevelTargetsTest, CompressionIsCountedFromTheBaseLevel) {
  EXPECT_EQ(CompressionForLevel(options_, 4, 6, true),
            CompressionType::kSnappy);
  options_.compression_per_level = {
      CompressionType::kNone, CompressionType::kLZ4, CompressionType::kZSTD};
  EXPECT_EQ(CompressionForLevel(options_, 4, 0, false), CompressionType::kNone);
  EXPECT_EQ(CompressionForLevel(options_, 4, 4, false), CompressionType::kLZ4);
  EXPECT_EQ(CompressionForLevel(options_, 4, 5, false), CompressionType::kZSTD);
  EXPECT_EQ(CompressionForLevel(options_, 4, 6, true), CompressionType::kZSTD);
  EXPECT_EQ(CompressionForLevel(options_, 6, 6, true), CompressionType::kLZ4);
  options_.bottommost_compression = CompressionType::kNone;
  EXPECT_EQ(CompressionForLevel(options_, 6, 6, true), CompressionType::kNone);
  EXPECT_EQ(CompressionForLevel(options_, 6, 6, false), CompressionType::kLZ4);
}

}  // namespace
}  // namespace varve
