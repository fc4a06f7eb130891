// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Databases in tests: presets of options, whole contents, and a fixture.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "experimental/ablation.h"
#include "test/testing/model_db.h"
#include "test/testing/status_checks.h"
#include "test/testing/temp_dir.h"
#include "varve/db.h"

namespace varve::test {

inline bool Contains(const Slice& text, const std::string& part) {
  return text.ToStringView().find(part) != std::string_view::npos;
}

// Returns the ablations of the environment variable VARVE_TEST_ABLATION, in the
// form of AblationOptions::Parse. A run of all tests for each ablation sets it.
inline AblationOptions TestAblation() {
  AblationOptions ablation;
  const char* text = getenv("VARVE_TEST_ABLATION");
  if (text != nullptr) {
    EXPECT_TRUE(Ok(ablation.Parse(text)));
  }
  return ablation;
}

// Returns TestAblation as an experiment, or null if it has no ablation.
inline std::shared_ptr<const Experiment> TestExperiment() {
  const AblationOptions ablation = TestAblation();
  return ablation.ToString().empty() ? nullptr : NewExperiment(ablation);
}

// Returns a block cache of the mode in TestAblation.
inline std::shared_ptr<Cache> NewTestCache(size_t capacity_bytes) {
  CacheOptions options{.capacity_bytes = capacity_bytes};
  return NewBlockCache(TestAblation().block_cache, options);
}

// Returns statistics of the mode in TestAblation.
inline std::shared_ptr<Statistics> NewTestStatistics() {
  return CreateDBStatistics(TestAblation().statistics);
}

// The ways in which a log can be written, and their names.
constexpr WriteMethod kWriteMethods[] = {WriteMethod::kCall, WriteMethod::kMap,
                                         WriteMethod::kAuto};
inline const char* WriteMethodName(WriteMethod method) {
  constexpr const char* kNames[] = {"Call", "Map", "Auto"};
  return kNames[static_cast<size_t>(method)];
}

// Returns options with such small buffers, tables and levels that a few
// thousand entries fill several levels.
inline Options TinyOptions() {
  Options options;
  options.experiment = TestExperiment();
  options.create_if_missing = true;
  options.write_buffer_size = 64 << 10;
  options.target_file_size_base = 64 << 10;
  options.max_bytes_for_level_base = 128 << 10;
  options.max_bytes_for_level_multiplier = 4;
  options.block_size = 1 << 10;
  return options;
}

// Returns the compression types that this build of Varve writes.
inline const std::vector<std::pair<const char*, CompressionType>>&
AllCompressions() {
  static const auto* const all = [] {
    auto* const types =
        new std::vector<std::pair<const char*, CompressionType>>{
            {"none", CompressionType::kNone},
            {"snappy", CompressionType::kSnappy},
            {"zlib", CompressionType::kZlib},
            {"bzip2", CompressionType::kBZip2},
            {"lz4", CompressionType::kLZ4},
            {"lz4hc", CompressionType::kLZ4HC},
            {"zstd", CompressionType::kZSTD}};
    std::erase_if(*types, [](const auto& type) {
      return !CompressionSupported(type.second);
    });
    return types;
  }();
  return *all;
}

inline std::string Key(int number) {
  char text[32];
  snprintf(text, sizeof(text), "key%08d", number);
  return text;
}

using EntryList = std::vector<std::pair<std::string, std::string>>;

// Reads all entries from first to last. Returns the iterator's status.
inline Status ScanForward(DB* db, const ReadOptions& options,
                          EntryList* entries) {
  entries->clear();
  auto it = db->NewIterator(options);
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
    entries->emplace_back(it->key().ToString(), it->value().ToString());
  }
  return it->status();
}

// Reads all entries from last to first. Outputs them from first to last.
inline Status ScanBackward(DB* db, const ReadOptions& options,
                           EntryList* entries) {
  entries->clear();
  auto it = db->NewIterator(options);
  for (it->SeekToLast(); it->Valid(); it->Prev()) {
    entries->emplace_back(it->key().ToString(), it->value().ToString());
  }
  std::reverse(entries->begin(), entries->end());
  return it->status();
}

// Reports the first difference instead of printing both lists.
inline ::testing::AssertionResult SameEntries(const EntryList& expected,
                                              const EntryList& found) {
  const size_t common = std::min(expected.size(), found.size());
  for (size_t i = 0; i < common; i++) {
    if (expected[i] == found[i]) continue;
    return ::testing::AssertionFailure()
           << "entry " << i << " of " << expected.size() << ": expected "
           << Slice(expected[i].first).ToString(true) << " => "
           << Slice(expected[i].second).ToString(true).substr(0, 80)
           << ", found " << Slice(found[i].first).ToString(true) << " => "
           << Slice(found[i].second).ToString(true).substr(0, 80);
  }
  if (expected.size() == found.size()) return ::testing::AssertionSuccess();
  const auto& longer = expected.size() > common ? expected : found;
  return ::testing::AssertionFailure()
         << "expected " << expected.size() << " entries, found " << found.size()
         << "; the first one too "
         << (expected.size() > common ? "few" : "many") << " is "
         << Slice(longer[common].first).ToString(true);
}

inline EntryList ToList(const Entries& entries) {
  return EntryList(entries.begin(), entries.end());
}

// Returns whether the database reads as `expected` in both directions and, with
// `gets`, by Get of every key.
inline ::testing::AssertionResult HasEntries(DB* db, const EntryList& expected,
                                             const ReadOptions& options = {},
                                             bool gets = true) {
  EntryList found;
  Status s = ScanForward(db, options, &found);
  if (!s.ok()) return Ok(s) << ", scanning forward";
  auto same = SameEntries(expected, found);
  if (!same) return same << ", scanning forward";
  s = ScanBackward(db, options, &found);
  if (!s.ok()) return Ok(s) << ", scanning backward";
  same = SameEntries(expected, found);
  if (!same) return same << ", scanning backward";
  if (!gets) return ::testing::AssertionSuccess();
  for (const auto& [key, value] : expected) {
    std::string got;
    s = db->Get(options, key, &got);
    if (!s.ok() || got != value) {
      return ::testing::AssertionFailure()
             << "Get of " << Slice(key).ToString(true) << ": " << s.ToString()
             << ", value " << Slice(got).ToString(true).substr(0, 80)
             << ", expected " << Slice(value).ToString(true).substr(0, 80);
    }
  }
  return ::testing::AssertionSuccess();
}

// A fixture: a database in a directory of its own.
class DbTestBase : public ::testing::Test {
 protected:
  DbTestBase() : path_(dir_.Sub("db")), options_(TinyOptions()) {}

  // Closes the database before the members of a derived class are destroyed.
  // The options may name them: a compaction may still use a comparator or Env.
  void TearDown() override { db_.reset(); }

  Status TryOpen() {
    db_.reset();
    return DB::Open(options_, path_, &db_);
  }
  void Open() { ASSERT_TRUE(Ok(TryOpen())); }
  void Close() {
    ASSERT_TRUE(Ok(db_->Close()));
    db_.reset();
  }
  void Reopen() {
    Close();
    if (!HasFatalFailure()) Open();
  }

  // Opens an empty database.
  void OpenAnew() {
    db_.reset();
    std::filesystem::remove_all(path_);
    Open();
  }

  void Put(const std::string& key, const std::string& value) {
    ASSERT_TRUE(Ok(db_->Put({}, key, value)));
  }
  void Delete(const std::string& key) { ASSERT_TRUE(Ok(db_->Delete({}, key))); }
  void SingleDelete(const std::string& key) {
    ASSERT_TRUE(Ok(db_->SingleDelete({}, key)));
  }
  void DeleteRange(const std::string& begin, const std::string& end) {
    ASSERT_TRUE(Ok(db_->DeleteRange({}, begin, end)));
  }
  void Merge(const std::string& key, const std::string& operand) {
    ASSERT_TRUE(Ok(db_->Merge({}, key, operand)));
  }
  void Flush() { ASSERT_TRUE(Ok(db_->Flush({}))); }
  // Takes steps, such as "put a 1, flush, delete a, compact": the functions
  // above and below by their names, with their arguments, "wait" for
  // compactions, and "snap".
  void Do(const std::string& steps) {
    std::istringstream in(steps);
    std::string step;
    while (std::getline(in, step, ',')) {
      std::istringstream words(step);
      std::string name, key, value;
      words >> name >> key >> value;
      if (name == "put") {
        Put(key, value);
      } else if (name == "merge") {
        Merge(key, value);
      } else if (name == "delete") {
        Delete(key);
      } else if (name == "single_delete") {
        SingleDelete(key);
      } else if (name == "delete_range") {
        DeleteRange(key, value);
      } else if (name == "flush") {
        Flush();
      } else if (name == "compact") {
        CompactAll();
      } else if (name == "reopen") {
        Reopen();
      } else if (name == "open") {
        Open();
      } else if (name == "wait") {
        ASSERT_TRUE(Ok(db_->WaitForCompact()));
      } else if (name == "snap") {
        snapshots_.push_back(db_->GetSnapshot());
      } else {
        FAIL() << "no such step: " << step;
      }
    }
  }
  // Releases the snapshots of Do.
  void ReleaseSnapshots() {
    for (const Snapshot* snapshot : snapshots_) db_->ReleaseSnapshot(snapshot);
    snapshots_.clear();
  }
  void CompactAll() {
    ASSERT_TRUE(Ok(db_->CompactRange({.rewrite_bottommost_level = true},
                                     nullptr, nullptr)));
  }

  // Returns the value, or the status as text: "NotFound" without its message.
  std::string Get(const std::string& key, const Snapshot* snapshot = nullptr) {
    ReadOptions options{.snapshot = snapshot};
    std::string value;
    Status s = db_->Get(options, key, &value);
    if (s.IsNotFound()) return "NotFound";
    return s.ok() ? value : s.ToString();
  }

  uint64_t Number(const std::string& property) {
    uint64_t number = 0;
    EXPECT_TRUE(db_->GetIntProperty(property, &number)) << property;
    return number;
  }
  uint64_t TablesAt(int level) {
    return Number("varve.num-files-at-level" + std::to_string(level));
  }
  uint64_t Tables() {
    uint64_t count = 0;
    for (int level = 0; level < 7; level++) count += TablesAt(level);
    return count;
  }

  TempDir dir_;
  std::string path_;
  Options options_;
  std::unique_ptr<DB> db_;
  std::vector<const Snapshot*> snapshots_;
};

}  // namespace varve::test
