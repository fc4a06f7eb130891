// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: whatever the primary does between two steps of a catch-up, the follower
// shows one of the primary's moments after it, and none before the call.
// Method: an environment of the follower that lets the primary act before the
// n-th call, for each n. The primary notes its moments, and the follower's one
// is looked up among them.

#include "test/testing/db_helpers.h"
#include "test/testing/test_headers.h"
#include "varve/sst_file_writer.h"

namespace varve::test {
namespace {

constexpr size_t kFamilies = 3;
// A moment has the values of these keys in each family.
constexpr const char* kKeys[] = {"number", "ingested", "range"};
using Moment = std::vector<std::string>;

// Calls act() before the call that is chosen.
class StepEnv final : public EnvWrapper {
 public:
  StepEnv() : EnvWrapper(Env::Default()) {}

  void ActBefore(int call, std::function<void()> act) {
    call_ = call;
    act_ = std::move(act);
  }
  // Returns whether it has acted.
  bool Stop() { return std::exchange(call_, -1) < 0; }

  Status NewSequentialFile(const std::string& path, const FileOptions& options,
                           std::unique_ptr<SequentialFile>* file) override {
    Step();
    return target()->NewSequentialFile(path, options, file);
  }
  Status NewRandomAccessFile(const std::string& path,
                             const FileOptions& options,
                             std::unique_ptr<RandomAccessFile>* file) override {
    Step();
    Status status = target()->NewRandomAccessFile(path, options, file);
    // The log is read while it grows, and the MANIFEST.
    if (status.ok() && !path.ends_with(".sst")) {
      *file = std::make_unique<Stepped>(std::move(*file), this);
    }
    return status;
  }
  Status GetChildren(const std::string& path,
                     std::vector<std::string>* names) override {
    Step();
    return target()->GetChildren(path, names);
  }
  Status GetFileId(const std::string& path, FileId* id) override {
    Step();
    return target()->GetFileId(path, id);
  }

 private:
  class Stepped final : public RandomAccessFile {
   public:
    Stepped(std::unique_ptr<RandomAccessFile> file, StepEnv* env)
        : file_(std::move(file)), env_(env) {}
    Status Read(uint64_t offset, size_t count, Slice* result,
                char* scratch) const override {
      env_->Step();
      return file_->Read(offset, count, result, scratch);
    }

   private:
    const std::unique_ptr<RandomAccessFile> file_;
    StepEnv* const env_;
  };

  void Step() {
    if (call_ < 0 || call_-- > 0) return;
    act_();
  }

  int call_ = -1;
  std::function<void()> act_;
};

class FollowerStepsTest : public ::testing::Test {
 protected:
  FollowerStepsTest() : path_(dir_.Sub("db")) {
    options_ = TinyOptions();
    options_.disable_auto_compactions = true;
    options_.num_levels = 7;
    options_.create_if_missing = true;
    options_.create_missing_column_families = true;
    OpenPrimary();
    Write();
    Options following = options_;
    following.env = &env_;
    EXPECT_TRUE(Ok(DB::OpenAsSecondary(
        following, path_, "", Descriptors(following), &followed_, &follower_)));
  }
  ~FollowerStepsTest() override {
    for (ColumnFamilyHandle* const handle : followed_) delete handle;
    follower_.reset();
    EndPrimary();
  }
  static std::vector<ColumnFamilyDescriptor> Descriptors(
      const Options& options) {
    return {
        {kDefaultColumnFamilyName, options}, {"a", options}, {"b", options}};
  }
  void OpenPrimary() {
    ASSERT_TRUE(Ok(DB::Open(options_, path_, Descriptors(options_), &handles_,
                            &primary_)));
  }
  void EndPrimary() {
    for (ColumnFamilyHandle* const handle : handles_) delete handle;
    handles_.clear();
    primary_.reset();
  }

  static Moment MomentOf(DB* db, const std::vector<ColumnFamilyHandle*>& of) {
    Moment moment;
    std::vector<std::unique_ptr<Iterator>> iterators;
    EXPECT_TRUE(Ok(db->NewIterators(ReadOptions(), of, &iterators)));
    for (const auto& it : iterators) {
      for (const char* const key : kKeys) {
        it->Seek(key);
        const bool found = it->Valid() && it->key() == Slice(key);
        moment.push_back(found ? it->value().ToString() : "");
      }
      EXPECT_TRUE(Ok(it->status()));
    }
    return moment;
  }
  void Note() { moments_.push_back(MomentOf(primary_.get(), handles_)); }

  // ---- The primary's steps ----

  void Write() {
    ++number_;
    WriteBatch batch;
    for (ColumnFamilyHandle* const handle : handles_) {
      batch.Put(handle, "number", std::to_string(number_));
      if (number_ % 3 == 0) {
        batch.DeleteRange(handle, "r", "s");
      } else {
        batch.Put(handle, "range", std::to_string(number_));
      }
    }
    ASSERT_TRUE(Ok(primary_->Write(WriteOptions(), &batch)));
    Note();
  }
  void Ingest() {
    std::vector<IngestExternalFileArg> arguments;
    for (size_t i = 0; i < kFamilies; ++i) {
      const std::string path = dir_.Sub("table" + std::to_string(i));
      SstFileWriter writer(options_, handles_[i]);
      ASSERT_TRUE(Ok(writer.Open(path)));
      ASSERT_TRUE(Ok(writer.Put("ingested", std::to_string(++number_))));
      ASSERT_TRUE(Ok(writer.Finish()));
      arguments.push_back({handles_[i], {path}, {}});
    }
    ASSERT_TRUE(Ok(primary_->IngestExternalFiles(arguments)));
    Note();
  }
  void Flush(size_t family) {
    ASSERT_TRUE(Ok(primary_->Flush(FlushOptions(), handles_[family])));
  }
  void Compact() {
    for (ColumnFamilyHandle* const handle : handles_) {
      ASSERT_TRUE(Ok(primary_->CompactRange(CompactRangeOptions(), handle,
                                            nullptr, nullptr)));
    }
  }
  void Reopen() {
    EndPrimary();
    OpenPrimary();
  }

  // Does `act` before each call of a catch-up, one after the other.
  void TryAll(const std::function<void()>& before,
              const std::function<void()>& act) {
    int call = 0;
    for (bool acted = true; acted; ++call) {
      ASSERT_LT(call, 1000);
      SCOPED_TRACE("call " + std::to_string(call));
      before();
      const size_t known = moments_.size() - 1;
      env_.ActBefore(call, act);
      ASSERT_TRUE(Ok(follower_->TryCatchUpWithPrimary()));
      acted = env_.Stop();
      const Moment shown = MomentOf(follower_.get(), followed_);
      const auto found =
          std::find(moments_.begin() + static_cast<std::ptrdiff_t>(known),
                    moments_.end(), shown);
      ASSERT_NE(found, moments_.end())
          << "no moment: " << ::testing::PrintToString(shown) << " of "
          << ::testing::PrintToString(std::vector<Moment>(
                 moments_.begin() + static_cast<std::ptrdiff_t>(known),
                 moments_.end()));
      if (HasFailure()) return;
      // The next one shows the present.
      ASSERT_TRUE(Ok(follower_->TryCatchUpWithPrimary()));
      ASSERT_EQ(MomentOf(follower_.get(), followed_), moments_.back());
    }
    EXPECT_GT(call, 5);
  }

  TempDir dir_;
  const std::string path_;
  Options options_;
  StepEnv env_;
  std::unique_ptr<DB> primary_;
  std::vector<ColumnFamilyHandle*> handles_;
  std::unique_ptr<DB> follower_;
  std::vector<ColumnFamilyHandle*> followed_;
  std::vector<Moment> moments_;
  int number_ = 0;
};

TEST_F(FollowerStepsTest, Writes) {
  TryAll([this] { Write(); },
         [this] {
           Write();
           Write();
         });
}

TEST_F(FollowerStepsTest, IngestionsBetweenWrites) {
  TryAll([this] { Write(); },
         [this] {
           Write();
           Ingest();
           Write();
         });
}

TEST_F(FollowerStepsTest, FlushesOfOneFamily) {
  TryAll([this] { Write(); },
         [this] {
           Write();
           Flush(1);
           Write();
         });
}

TEST_F(FollowerStepsTest, FlushesOfFamilyAfterFamily) {
  TryAll(
      [this] {
        Write();
        Flush(0);
        Write();
      },
      [this] {
        Write();
        Flush(1);
        Write();
        Flush(2);
        Write();
        Flush(1);
        Write();
      });
}

TEST_F(FollowerStepsTest, CompactionsThatRemoveTables) {
  TryAll(
      [this] {
        Write();
        Flush(0);
        Flush(1);
        Write();
        Flush(2);
      },
      [this] {
        Write();
        Compact();
        Write();
      });
}

TEST_F(FollowerStepsTest, RangesOfFilesThatAreDeleted) {
  TryAll(
      [this] {
        Write();
        Compact();
      },
      [this] {
        const RangePtr all;
        ASSERT_TRUE(
            Ok(primary_->DeleteFilesInRanges(handles_[1], &all, 1, true)));
        Note();
        Write();
      });
}

TEST_F(FollowerStepsTest, Reopens) {
  TryAll([this] { Write(); },
         [this] {
           Write();
           Reopen();
           Write();
         });
}

TEST_F(FollowerStepsTest, ReopensWithoutUpdates) {
  TryAll(
      [this] {
        Write();
        for (size_t i = 0; i < kFamilies; ++i) Flush(i);
        Reopen();
      },
      [this] {
        Reopen();
        Write();
      });
}

}  // namespace
}  // namespace varve::test
