// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Databases with several column families in tests.

#include "test/testing/db_helpers.h"
#include "test/testing/directory.h"
#include "test/testing/test_headers.h"
#include "varve/column_family.h"

namespace varve::test {

// Reads all entries of a family, in the order of the iterator.
inline Status ScanFamily(DB* db, const ReadOptions& options,
                         ColumnFamilyHandle* family, EntryList* entries) {
  entries->clear();
  const auto it = db->NewIterator(options, family);
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
    entries->emplace_back(it->key().ToString(), it->value().ToString());
  }
  return it->status();
}

// Returns whether a family reads as `expected` in both directions, by Get, and
// by MultiGet.
inline ::testing::AssertionResult FamilyHasEntries(
    DB* db, ColumnFamilyHandle* family, const EntryList& expected,
    const ReadOptions& options = {}) {
  EntryList found;
  Status s = ScanFamily(db, options, family, &found);
  if (!s.ok()) return Ok(s) << ", scanning forward";
  auto same = SameEntries(expected, found);
  if (!same) return same << ", scanning forward";
  found.clear();
  const auto it = db->NewIterator(options, family);
  for (it->SeekToLast(); it->Valid(); it->Prev()) {
    found.emplace_back(it->key().ToString(), it->value().ToString());
  }
  if (!it->status().ok()) return Ok(it->status()) << ", scanning backward";
  std::reverse(found.begin(), found.end());
  same = SameEntries(expected, found);
  if (!same) return same << ", scanning backward";
  std::vector<Slice> keys;
  for (const auto& [key, value] : expected) keys.emplace_back(key);
  std::vector<std::string> values(keys.size());
  std::vector<Status> statuses(keys.size());
  db->MultiGet(options, family, keys.size(), keys.data(), values.data(),
               statuses.data());
  for (size_t i = 0; i < expected.size(); ++i) {
    std::string got;
    s = db->Get(options, family, keys[i], &got);
    if (!s.ok() || !statuses[i].ok() || got != expected[i].second ||
        values[i] != expected[i].second) {
      return ::testing::AssertionFailure()
             << keys[i].ToString(true) << ": Get says " << s.ToString() << " "
             << Slice(got).ToString(true).substr(0, 80) << ", MultiGet "
             << statuses[i].ToString() << " "
             << Slice(values[i]).ToString(true).substr(0, 80);
    }
  }
  return ::testing::AssertionSuccess();
}

// A fixture: a database with families, and the handles of its last open.
class FamiliesTest : public DbTestBase {
 protected:
  void TearDown() override {
    ReleaseHandles();
    DbTestBase::TearDown();
  }

  // The options of each family: `options_`, unless family_options_ has others.
  ColumnFamilyDescriptor Describe(const std::string& name) const {
    const auto own = family_options_.find(name);
    return {name, own != family_options_.end() ? own->second : options_};
  }

  // Opens the database with the default family and these.
  Status TryOpen(const std::vector<std::string>& names,
                 bool read_only = false) {
    ReleaseHandles();
    db_.reset();
    std::vector<ColumnFamilyDescriptor> families = {
        Describe(kDefaultColumnFamilyName)};
    for (const std::string& name : names) families.push_back(Describe(name));
    std::vector<ColumnFamilyHandle*> handles;
    Status s = read_only ? DB::OpenForReadOnly(options_, path_, families,
                                               &handles, &db_)
                         : DB::Open(options_, path_, families, &handles, &db_);
    if (!s.ok()) {
      EXPECT_TRUE(handles.empty());
      EXPECT_EQ(db_, nullptr);
      return s;
    }
    EXPECT_EQ(handles.size(), families.size());
    for (size_t i = 0; i < handles.size(); ++i) {
      EXPECT_EQ(handles[i]->GetName(), families[i].name);
      handles_[families[i].name] = handles[i];
    }
    return s;
  }
  // Opens it with all of its families.
  Status TryOpenAll(bool read_only = false) {
    std::vector<std::string> names;
    const Status s = DB::ListColumnFamilies(options_, path_, &names);
    if (!s.ok()) return s;
    EXPECT_EQ(names.front(), kDefaultColumnFamilyName);
    names.erase(names.begin());
    return TryOpen(names, read_only);
  }
  void OpenAll() { ASSERT_TRUE(Ok(TryOpenAll())); }
  // Creates a database with these families.
  void OpenNew(const std::vector<std::string>& names) {
    ASSERT_TRUE(Ok(TryOpen({})));
    for (const std::string& name : names) Create(name);
  }
  void Create(const std::string& name) {
    ColumnFamilyHandle* handle = nullptr;
    ASSERT_TRUE(
        Ok(db_->CreateColumnFamily(Describe(name).options, name, &handle)));
    ASSERT_NE(handle, nullptr);
    ASSERT_EQ(handles_.count(name), 0u);
    handles_[name] = handle;
  }
  void Release(const std::string& name) {
    ASSERT_TRUE(Ok(db_->DestroyColumnFamilyHandle(handles_.at(name))));
    handles_.erase(name);
  }
  void ReleaseHandles() {
    for (const auto& [name, handle] : handles_) delete handle;
    handles_.clear();
  }
  void Close() {
    ReleaseHandles();
    ASSERT_TRUE(Ok(db_->Close()));
    db_.reset();
  }
  void ReopenAll() {
    Close();
    if (!HasFatalFailure()) OpenAll();
  }
  // Opens, in place of the database, a copy of its files as a kill would leave
  // them.
  void ReopenAsKilled() {
    // No job may remove what is being copied.
    ASSERT_TRUE(Ok(db_->WaitForCompact()));
    const std::string copy = dir_.Sub("killed");
    CopyDirectory(path_, copy);
    ReleaseHandles();
    db_.reset();
    CopyDirectory(copy, path_);
    OpenAll();
  }

  ColumnFamilyHandle* At(const std::string& name) { return handles_.at(name); }
  void PutIn(const std::string& family, const std::string& key,
             const std::string& value) {
    ASSERT_TRUE(Ok(db_->Put({}, At(family), key, value)));
  }
  void FlushOne(const std::string& family) {
    ASSERT_TRUE(Ok(db_->Flush({}, At(family))));
  }
  // Returns the value, or the status as text: "NotFound" without its message.
  std::string GetIn(const std::string& family, const std::string& key,
                    const ReadOptions& options = {}) {
    return GetBy(At(family), key, options);
  }
  std::string GetBy(ColumnFamilyHandle* family, const std::string& key,
                    const ReadOptions& options = {}) {
    std::string value;
    const Status s = db_->Get(options, family, key, &value);
    if (s.IsNotFound()) return "NotFound";
    return s.ok() ? value : s.ToString();
  }
  uint64_t NumberIn(const std::string& family, const std::string& property) {
    uint64_t number = 0;
    EXPECT_TRUE(db_->GetIntProperty(At(family), property, &number)) << property;
    return number;
  }
  std::string Text(const std::string& property) {
    std::string text;
    EXPECT_TRUE(db_->GetProperty(property, &text)) << property;
    return text;
  }
  std::vector<std::string> TableFiles() const {
    return FilesEndingIn(path_, ".sst");
  }
  std::vector<std::string> LogFiles() const {
    return FilesEndingIn(path_, ".log");
  }
  // Waits until what is obsolete was removed.
  void AwaitRemovals() { ASSERT_TRUE(Ok(db_->WaitForCompact())); }

  std::map<std::string, ColumnFamilyOptions> family_options_;
  std::map<std::string, ColumnFamilyHandle*> handles_;
};

}  // namespace varve::test
