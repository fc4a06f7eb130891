// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: the bytes written to MANIFESTs grow with the edits, not with the number
// of edits times the size of a database. Method: so many tables with long keys
// that the description of all is larger than the least size at which a MANIFEST
// is replaced; an Env that counts what is appended to MANIFESTs.

#include <cstdint>
#include <memory>
#include <string>

#include "env/file_names.h"
#include "test/testing/db_helpers.h"
#include "test/testing/env/forwarding_file.h"

namespace varve::test {
namespace {

class CountsManifestBytesEnv final : public EnvWrapper {
 public:
  explicit CountsManifestBytesEnv(Env* target) : EnvWrapper(target) {}

  Status NewWritableFile(const std::string& path, const FileOptions& options,
                         std::unique_ptr<WritableFile>* file) override {
    Status status = target()->NewWritableFile(path, options, file);
    if (status.ok() && path.find("/MANIFEST-") != std::string::npos) {
      ++manifests;
      *file = std::make_unique<Counter>(std::move(*file), &bytes);
    }
    return status;
  }

  uint64_t bytes = 0;
  int manifests = 0;

 private:
  class Counter final : public ForwardingFile {
   public:
    Counter(std::unique_ptr<WritableFile> file, uint64_t* bytes)
        : ForwardingFile(std::move(file)), bytes_(bytes) {}
    Status Append(const Slice& data) override {
      *bytes_ += data.size();
      return ForwardingFile::Append(data);
    }

   private:
    uint64_t* const bytes_;
  };
};

TEST(ManifestGrowthTest, LongKeysOfManyTablesAreNotWrittenWithEachEdit) {
  const auto memory = NewMemoryEnv(Env::Default());
  CountsManifestBytesEnv env(memory.get());
  Options options = TinyOptions();
  options.env = &env;
  options.compression = CompressionType::kNone;
  options.disable_auto_compactions = true;
  std::unique_ptr<DB> db;
  ASSERT_TRUE(Ok(DB::Open(options, "/db", &db)));
  // Each table has two keys in the MANIFEST, its first and its last.
  constexpr int kTables = 600;
  constexpr size_t kKeyBytes = 64 << 10;
  const std::string filler(kKeyBytes, 'k');
  for (int i = 0; i < kTables; ++i) {
    ASSERT_TRUE(Ok(db->Put({}, Key(i) + filler, "value")));
    ASSERT_TRUE(Ok(db->Flush({})));
  }
  const uint64_t edit_bytes = uint64_t{kTables} * 2 * kKeyBytes;
  EXPECT_GT(env.bytes, edit_bytes);
  EXPECT_LT(env.bytes, 2 * edit_bytes);
  // The first one, and one that began with most of the tables.
  EXPECT_EQ(env.manifests, 2);

  // Another process begins with a snapshot that is larger than the least size.
  ASSERT_TRUE(Ok(db->Close()));
  db.reset();
  ASSERT_TRUE(Ok(DB::Open(options, "/db", &db)));
  env.bytes = 0;
  constexpr int kMoreTables = 20;
  for (int i = 0; i < kMoreTables; ++i) {
    ASSERT_TRUE(Ok(db->Put({}, Key(kTables + i) + filler, "value")));
    ASSERT_TRUE(Ok(db->Flush({})));
  }
  EXPECT_LT(env.bytes, edit_bytes + (kMoreTables + 1) * 3 * kKeyBytes);
  EXPECT_EQ(env.manifests, 3);
}

}  // namespace
}  // namespace varve::test
