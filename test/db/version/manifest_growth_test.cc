// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: the bytes written to MANIFESTs grow with the edits, not with the number
// of edits times the size of a database. Method: so many tables with long keys
// that the description of all is larger than the least size at which a MANIFEST
// is replaced; an Env that counts what is appended to MANIFESTs.

#include "env/file_names.h"
#include "test/testing/db_helpers.h"
#include "test/testing/env/forwarding_file.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

class CountsManifestBytesEnv final : public EnvWrapper {
 public:
  explicit CountsManifestBytesEnv(Env* target) : EnvWrapper(target) {}

  Status NewWritableFile(const std::string& path, const FileOptions& options,
                         std::unique_ptr<WritableFile>* file) override {
    const bool is_manifest = path.find("/MANIFEST-") != std::string::npos;
    if (is_manifest && refuses_manifests) {
      return Status::FromErrno("open " + path, ENOSPC);
    }
    Status status = target()->NewWritableFile(path, options, file);
    if (status.ok() && is_manifest) {
      ++manifests;
      *file = std::make_unique<Counter>(std::move(*file), &bytes);
    }
    return status;
  }

  uint64_t bytes = 0;
  int manifests = 0;
  std::atomic<bool> refuses_manifests{false};

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

// A device without space for a new MANIFEST does not take the old one away:
// through it, tables can still be removed.
TEST(ManifestGrowthTest, OldManifestStaysWithoutSpaceForANewOne) {
  const auto memory = NewMemoryEnv(Env::Default());
  CountsManifestBytesEnv env(memory.get());
  Options options = TinyOptions();
  options.env = &env;
  options.compression = CompressionType::kNone;
  options.disable_auto_compactions = true;
  std::unique_ptr<DB> db;
  ASSERT_TRUE(Ok(DB::Open(options, "/db", &db)));
  env.refuses_manifests = true;
  const std::string filler(64 << 10, 'k');
  Status status;
  int written = 0;
  for (; written < 600 && status.ok(); ++written) {
    ASSERT_TRUE(Ok(db->Put({}, Key(written) + filler, "value")));
    status = db->Flush({});
  }
  ASSERT_TRUE(IsNoSpace(status));
  ASSERT_GT(written, 300);
  ASSERT_TRUE(Ok(db->DeleteRange({}, "", "z")));
  // Its flush needs the new MANIFEST, and the removal of tables does not.
  EXPECT_TRUE(db->CompactRange({}, nullptr, nullptr).IsNoSpace());
  uint64_t tables = 0;
  ASSERT_TRUE(db->GetIntProperty("varve.num-files-at-level0", &tables));
  EXPECT_EQ(tables, 0u);
  env.refuses_manifests = false;
  ASSERT_TRUE(Ok(db->Flush({})));
  ASSERT_TRUE(Ok(db->Put({}, "after", "it")));
  db.reset();
  ASSERT_TRUE(Ok(DB::Open(options, "/db", &db)));
  EntryList entries;
  ASSERT_TRUE(Ok(ScanForward(db.get(), {}, &entries)));
  EXPECT_TRUE(SameEntries({{"after", "it"}}, entries));
}

}  // namespace
}  // namespace varve::test
