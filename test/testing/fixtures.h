// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The databases in test/fixtures, always opened on copies.

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "test/testing/db_helpers.h"
#include "test/testing/directory.h"
#include "test/testing/fixtures_dir.h"

namespace varve::test {

// The names of all fixtures that begin so, in order.
inline std::vector<std::string> FixtureNames(const std::string& prefix) {
  std::vector<std::string> names;
  std::error_code missing;
  for (const auto& entry :
       std::filesystem::directory_iterator(FixturesDir(), missing)) {
    const std::string name = entry.path().filename();
    if (entry.is_directory() && name.starts_with(prefix)) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

// A test's name may hold letters, digits and underscores only.
inline std::string FixtureTestName(
    const ::testing::TestParamInfo<std::string>& test) {
  std::string name = test.param;
  std::replace(name.begin(), name.end(), '-', '_');
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

inline std::string FromHex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    const int byte = std::stoi(hex.substr(i, 2), nullptr, 16);
    bytes.push_back(static_cast<char>(byte));
  }
  return bytes;
}

// A fixture: a copy of one of the databases.
class FixtureTest : public DbTestBase {
 protected:
  void CopyFixture(const std::string& name) {
    source_ = FixturesDir() + "/" + name;
    ASSERT_TRUE(std::filesystem::is_directory(source_ + "/db")) << source_;
    CopyDirectory(source_ + "/db", path_);
    options_ = Options();
  }

  bool HasFile(const std::string& name) const {
    return std::filesystem::exists(source_ + "/" + name);
  }

  // "key hex => value hex" a line.
  EntryList ReadExpected(const std::string& name = "expected.txt") const {
    EntryList entries;
    std::istringstream lines(ReadWholeFile(source_ + "/" + name));
    for (std::string line; std::getline(lines, line);) {
      const size_t arrow = line.find("=>");
      if (arrow == std::string::npos) continue;
      // An empty side may lose its blank.
      const size_t value = line.find_first_not_of(' ', arrow + 2);
      entries.emplace_back(
          FromHex(line.substr(0, line.find(' '))),
          value == std::string::npos ? "" : FromHex(line.substr(value)));
    }
    return entries;
  }

  // The files as they came with the fixture have not changed. A log of the
  // engine and its lock may have been added by an open for writing.
  void ExpectUnchanged(bool read_only) const {
    const auto before = ReadDirectory(source_ + "/db");
    auto after = ReadDirectory(path_);
    for (const auto& [name, bytes] : before) {
      EXPECT_EQ(after.count(name), 1u) << name << " was removed";
      EXPECT_TRUE(after[name] == bytes) << name << " was changed";
      after.erase(name);
    }
    for (const auto& [name, bytes] : after) {
      EXPECT_TRUE(!read_only && (name.starts_with("LOG") || name == "LOCK"))
          << name << " was added";
    }
  }

  // Opens in one of the two ways and reads all. *entries is what was shown
  // before the first error.
  Status OpenAndScan(bool read_only, EntryList* entries) {
    entries->clear();
    db_.reset();
    Status s = read_only ? DB::OpenForReadOnly(options_, path_, &db_)
                         : DB::Open(options_, path_, &db_);
    if (!s.ok()) {
      EXPECT_EQ(db_, nullptr);
      return s;
    }
    return ScanForward(db_.get(), {}, entries);
  }

  std::string source_;
};

}  // namespace varve::test
