// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <gmock/gmock.h>

#include <string>

#include "test/compat/rocksdb/program.h"

namespace rocksdb_test {

// A ProgramTest's database as an object, so that a test can look at a program's
// state after database and options were destroyed.
class Database final : public ProgramTest {
 public:
  using ProgramTest::Flush;
  using ProgramTest::Get;
  using ProgramTest::GetFrom;
  using ProgramTest::Open;
  using ProgramTest::PutTo;

  rocksdb_t* db() { return db_.get(); }
  rocksdb_options_t* options() { return options_.get(); }
  const std::string& path() const { return path_; }

  void Close() { db_.reset(); }
  void Put(const std::string& key, const std::string& value) {
    ASSERT_EQ(ProgramTest::Put(key, value), "OK");
  }
  void Merge(const std::string& key, const std::string& operand) {
    rocksdb_merge(db_.get(), write_.get(), key.data(), key.size(),
                  operand.data(), operand.size(), error_);
    ASSERT_EQ(error_.Take(), "OK");
  }
  std::string Write(rocksdb_writebatch_t* batch) {
    rocksdb_write(db_.get(), write_.get(), batch, error_);
    return error_.Take();
  }
  FamilyPtr CreateFamily(const std::string& name) {
    FamilyPtr family(rocksdb_create_column_family(db_.get(), options_.get(),
                                                  name.c_str(), error_));
    EXPECT_EQ(error_.Take(), "OK");
    return family;
  }
  void Compact() { rocksdb_compact_range(db_.get(), nullptr, 0, nullptr, 0); }
  std::string Scan() {
    const IteratorPtr iterator(rocksdb_create_iterator(db_.get(), read_.get()));
    return ProgramTest::Scan(iterator.get());
  }

 private:
  void TestBody() override {}
};

}  // namespace rocksdb_test
