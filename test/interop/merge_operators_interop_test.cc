// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: the built-in merge operators give the results of RocksDB's operators of
// the same names, under the names by which RocksDB finds them. Method: RocksDB
// merges random operands into random values, at reads and in compactions. Each
// value must be the result of Varve's operator.

#include "test/testing/rocksdb_library.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "test/testing/tools.h"
#include "varve/merge_operator.h"

namespace varve::test {
namespace {

constexpr int kKeys = 500;

// A database of RocksDB in memory. Errors fail the test.
class RocksMerges {
 public:
  // `merge_operator` as in RocksDB's options files.
  explicit RocksMerges(const std::string& merge_operator)
      : env_(rocks_.Call<void*>("create_mem_env")),
        options_(rocks_.Call<void*>("options_create")),
        write_(rocks_.Call<void*>("writeoptions_create")),
        read_(rocks_.Call<void*>("readoptions_create")) {
    void* const base = rocks_.Call<void*>("options_create");
    const std::string text = "merge_operator=" + merge_operator;
    rocks_.CallChecked<void>("get_options_from_string", base, text.c_str(),
                             options_);
    rocks_.Call<void>("options_destroy", base);
    rocks_.Call<void>("options_set_env", options_, env_);
    rocks_.Call<void>("options_set_create_if_missing", options_,
                      static_cast<unsigned char>(1));
    db_ = rocks_.CallChecked<void*>("open", options_, "/db");
  }
  RocksMerges(const RocksMerges&) = delete;
  RocksMerges& operator=(const RocksMerges&) = delete;
  ~RocksMerges() {
    rocks_.Call<void>("close", db_);
    rocks_.Call<void>("readoptions_destroy", read_);
    rocks_.Call<void>("writeoptions_destroy", write_);
    rocks_.Call<void>("options_destroy", options_);
    rocks_.Call<void>("env_destroy", env_);
  }

  // `function` is put or merge.
  void Write(const char* function, const std::string& key,
             const std::string& value) {
    rocks_.CallChecked<void>(function, db_, write_, key.data(), key.size(),
                             value.data(), value.size());
  }
  std::string Get(const std::string& key) {
    size_t size = 0;
    char* const value = rocks_.CallChecked<char*>("get", db_, read_, key.data(),
                                                  key.size(), &size);
    EXPECT_NE(value, nullptr);
    const std::string copy(value != nullptr ? value : "", size);
    free(value);
    return copy;
  }
  void Flush() {
    void* const flush = rocks_.Call<void*>("flushoptions_create");
    rocks_.CallChecked<void>("flush", db_, flush);
    rocks_.Call<void>("flushoptions_destroy", flush);
  }
  void Compact() {
    const char* const none = nullptr;
    rocks_.Call<void>("compact_range", db_, none, size_t{0}, none, size_t{0});
  }

 private:
  const RocksDbLibrary rocks_;
  void* const env_;
  void* const options_;
  void* const write_;
  void* const read_;
  void* db_ = nullptr;
};

struct Merged {
  std::optional<std::string> value;
  std::vector<std::string> operands;
};

std::string RandomBytes(Rng* rng) {
  const size_t size = rng->OneIn(2) ? 8 : rng->Below(12);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(rng->Next());
  return bytes;
}

std::string Expected(const MergeOperator& merge, const Merged& merged) {
  const Slice key("key");
  const std::string value = merged.value.value_or("");
  const Slice existing(value);
  const std::vector<Slice> operands(merged.operands.begin(),
                                    merged.operands.end());
  std::string result;
  EXPECT_TRUE(merge.FullMerge(
      {key, merged.value ? &existing : nullptr, operands}, &result));
  return result;
}

void ExpectSameResults(const MergeOperator& merge,
                       const std::string& rocksdb_name) {
  SCOPED_TRACE(rocksdb_name);
  Rng rng(TestSeed());
  RocksMerges rocks(rocksdb_name);
  if (testing::Test::HasFailure()) return;
  std::map<std::string, Merged> all;
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < kKeys; ++i) {
      const std::string key = "key" + std::to_string(rng.Below(kKeys));
      Merged& merged = all[key];
      if (merged.operands.empty() && rng.OneIn(2)) {
        merged.value = RandomBytes(&rng);
        rocks.Write("put", key, *merged.value);
      }
      merged.operands.push_back(RandomBytes(&rng));
      rocks.Write("merge", key, merged.operands.back());
    }
    if (round < 3) rocks.Flush();
  }
  for (const bool compacted : {false, true}) {
    if (compacted) rocks.Compact();
    for (const auto& [key, merged] : all) {
      ASSERT_EQ(Hex(rocks.Get(key)), Hex(Expected(merge, merged)))
          << key << ", " << merged.operands.size() << " operands, compacted "
          << compacted;
    }
  }
}

TEST(MergeOperatorsInteropTest, OperatorsOfBothNamesAreTheSame) {
  for (const char* name :
       {"uint64add", "UInt64AddOperator", "stringappend",
        "StringAppendOperator", "max", "MaxOperator", "bytesxor"}) {
    const auto merge = FindMergeOperator(name);
    ASSERT_NE(merge, nullptr) << name;
    ExpectSameResults(*merge, name);
  }
}

TEST(MergeOperatorsInteropTest, DelimitersAreTheSame) {
  for (const char* delimiter : {"--", "|"}) {
    ExpectSameResults(
        *NewStringAppendOperator(delimiter),
        std::string("{id=stringappend;delimiter=") + delimiter + ";}");
  }
}

}  // namespace
}  // namespace varve::test
