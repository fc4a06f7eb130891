// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A fixture with a catalog of small databases.

#include "test/testing/db_helpers.h"
#include "test/testing/test_headers.h"
#include "varve/catalog.h"

namespace varve::test {

class CatalogTestBase : public ::testing::Test {
 protected:
  CatalogTestBase() {
    options_.options = TinyOptions();
    options_.create_if_missing = true;
    options_.drop_timeout_us = 0;
  }
  void SetUp() override { Open(); }

  void Open() {
    catalog_.reset();
    ASSERT_TRUE(Ok(Catalog::Open(options_, root_, &catalog_)));
  }
  DatabaseRef Find(const Slice& name) {
    DatabaseRef ref;
    EXPECT_TRUE(Ok(catalog_->Find(name, &ref))) << name.ToString();
    return ref;
  }
  void Put(const Slice& name, const Slice& key, const Slice& value) {
    const DatabaseRef ref = Find(name);
    if (ref) {
      ASSERT_TRUE(Ok(ref->Put({}, key, value)));
    }
  }
  std::string Get(const Slice& name, const Slice& key) {
    const DatabaseRef ref = Find(name);
    std::string value;
    if (!ref) return "no database";
    const Status status = ref->Get({}, key, &value);
    return status.ok() ? value : status.ToString();
  }
  Status FindStatus(const Slice& name) {
    DatabaseRef ref;
    Status status = catalog_->Find(name, &ref);
    EXPECT_EQ(static_cast<bool>(ref), status.ok());
    return status;
  }
  size_t CloseIdle(uint64_t idle_us = 0) {
    size_t closed = 0;
    EXPECT_TRUE(Ok(catalog_->CloseIdle(idle_us, &closed)));
    return closed;
  }
  std::vector<std::string> Names() {
    std::vector<std::string> names;
    catalog_->List(&names);
    return names;
  }
  // The names in the catalog's directory, without its lock's, in order.
  std::vector<std::string> Files() {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(root_)) {
      const std::string name = entry.path().filename().string();
      if (name != "LOCK") files.push_back(name);
    }
    std::sort(files.begin(), files.end());
    return files;
  }

  TempDir dir_;
  const std::string root_ = dir_.Sub("catalog");
  CatalogOptions options_;
  std::unique_ptr<Catalog> catalog_;
};

}  // namespace varve::test
