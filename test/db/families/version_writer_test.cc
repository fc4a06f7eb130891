// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: there are databases of each version, which later versions must open.
// Method: write databases that have all that this version's files can have, and
// read them. With VARVE_WRITE_FIXTURES=1 they are kept in test/fixtures, as
// test/fixtures/README.md says.

#include "test/db/families/version_fixture.h"
#include "test/testing/fixtures_dir.h"
#include "test/testing/model_db.h"
#include "test/testing/test_headers.h"
#include "varve/backup_engine.h"
#include "varve/external_files.h"
#include "varve/filter_policy.h"
#include "varve/merge_operator.h"
#include "varve/slice_transform.h"
#include "varve/sst_file_writer.h"
#include "varve/version.h"

namespace varve::test {
namespace {

std::string Hex(const std::string& bytes) {
  return Slice(bytes).ToString(true);
}

// A database, and a model with the same updates.
class VersionWriterTest : public VersionTestBase {
 protected:
  VersionWriterTest() {
    options_ = Options();
    options_.create_if_missing = true;
    options_.disable_auto_compactions = true;
    options_.avoid_flush_during_shutdown = true;
    options_.write_buffer_size = 64 << 10;
    options_.target_file_size_base = 2 << 10;
    options_.block_size = 512;
    options_.compression = CompressionType::kNone;
    options_.filter_policy = nullptr;
  }

  static std::string Name(const char* part) {
    return std::string("varve-") + VersionString() + "-" + part;
  }

  // Keys have a prefix of four bytes, and some end in a byte that is not text.
  static std::string KeyOf(int number) {
    std::string key(1, static_cast<char>('a' + number / 40));
    key += "ey-" + std::to_string(1000 + number);
    if (number % 7 == 0) key.push_back('\0');
    if (number % 11 == 0) key += "\xff\x80";
    return key;
  }
  static std::string ValueOf(int number, const std::string& round) {
    std::string value = round;
    for (int i = 0; i < number % 6; ++i) value += "-" + std::to_string(number);
    return number % 13 == 0 ? "" : value;
  }

  void Write(WriteBatch* batch) {
    ASSERT_TRUE(Ok(model_.Write(*batch)));
    ASSERT_TRUE(Ok(db_->Write({}, batch)));
  }
  // Puts each `step`th key of each family from `first` on.
  void PutAll(int first, int step, const std::string& round) {
    for (int number = first; number < kKeys; number += step) {
      WriteBatch batch;
      for (const auto& [name, handle] : handles_) {
        batch.Put(handle, KeyOf(number), ValueOf(number, round));
      }
      Write(&batch);
    }
  }
  // Deletes some keys in each way, and merges into others.
  void RemoveAndMerge(int first) {
    WriteBatch batch;
    for (const auto& [name, handle] : handles_) {
      batch.Delete(handle, KeyOf(first));
      batch.Delete(handle, "never written");
      // No other update of it: SingleDelete requires that.
      batch.SingleDelete(handle, "once " + std::to_string(first));
      batch.Put(handle, "once " + std::to_string(first + 1), "until the next");
      const bool descends = name == "descending";
      batch.DeleteRange(handle, KeyOf(descends ? first + 9 : first + 4),
                        KeyOf(descends ? first + 4 : first + 9));
    }
    for (int i = 0; i < 12; ++i) {
      batch.Merge(At("lists"), KeyOf(first + i), std::to_string(first));
      batch.Merge(At("lists"), "list " + std::to_string(i), "operand");
    }
    if (handles_.count("descending") != 0) {
      // The model is in the order of bytes, where that range is empty.
      Entries* const entries = model_.MutableAt(At("descending")->GetID());
      entries->erase(entries->upper_bound(KeyOf(first + 4)),
                     entries->upper_bound(KeyOf(first + 9)));
    }
    Write(&batch);
  }
  void FlushAll() {
    for (const auto& [name, handle] : handles_) FlushOne(name);
  }
  std::vector<ColumnFamilyHandle*> Handles() const {
    std::vector<ColumnFamilyHandle*> handles;
    for (const auto& [name, handle] : handles_) handles.push_back(handle);
    return handles;
  }
  // Compacts all tables of level 0 into a level.
  void CompactInto(int level) {
    for (const auto& [name, handle] : handles_) {
      std::vector<LiveFileMetaData> tables;
      db_->GetLiveFilesMetaData(&tables);
      std::vector<std::string> inputs;
      for (const LiveFileMetaData& table : tables) {
        if (table.column_family_name != name || table.level != 0) continue;
        inputs.push_back(table.name);
      }
      ASSERT_TRUE(Ok(db_->CompactFiles({}, handle, inputs, level))) << name;
    }
  }
  // Adds a table from outside, which covers keys that are there.
  void Ingest() {
    const std::string file = dir_.Sub("outside.sst");
    SstFileWriter writer(options_);
    ASSERT_TRUE(Ok(writer.Open(file)));
    WriteBatch batch;
    batch.DeleteRange(KeyOf(20), KeyOf(24));
    ASSERT_TRUE(Ok(writer.DeleteRange(KeyOf(20), KeyOf(24))));
    for (int number = 22; number < 30; ++number) {
      batch.Put(KeyOf(number), "from outside");
      ASSERT_TRUE(Ok(writer.Put(KeyOf(number), "from outside")));
    }
    ASSERT_TRUE(Ok(writer.Finish()));
    ASSERT_TRUE(Ok(db_->IngestExternalFile({file}, {})));
    ASSERT_TRUE(Ok(model_.Write(batch)));
  }
  void Prepare(const std::string& name, WriteBatch* updates) {
    prepared_[name] = *updates;
    ASSERT_TRUE(Ok(Engine()->WritePrepared({}, name, updates)));
  }

  // Stores the files of the database and what is in it.
  void Keep(const std::string& folder) {
    std::filesystem::create_directories(folder);
    CopyDirectory(path_, folder + "/db");
    for (const auto& [name, bytes] : ReadDirectory(folder + "/db")) {
      if (name.starts_with("LOG") || name == "LOCK") {
        std::filesystem::remove(folder + "/db/" + name);
      }
    }
    WriteContents(folder + "/expected.txt", model_);
    if (prepared_.empty()) return;
    std::string names;
    for (const auto& [name, updates] : prepared_) {
      names += Hex(name) + "\n";
      ASSERT_TRUE(Ok(model_.Write(updates)));
    }
    WriteContents(folder + "/expected-committed.txt", model_);
    WriteWholeFile(folder + "/prepared.txt", names);
  }
  void WriteContents(const std::string& file, const ModelFamilies& model) {
    std::string text;
    for (const auto& [name, id] : ids_) {
      EntryList entries = ToList(model.At(id));
      if (name == "descending") std::reverse(entries.begin(), entries.end());
      for (const auto& [key, value] : entries) {
        text += name + "\t" + Hex(key) + "\t" + Hex(value) + "\n";
      }
    }
    WriteWholeFile(file, text);
  }
  void NoteFamilies() {
    for (const auto& [name, handle] : handles_) ids_[name] = handle->GetID();
  }

  // The folder to write to. It does not exist.
  std::string Target(const char* part) {
    const bool keeps = getenv("VARVE_WRITE_FIXTURES") != nullptr;
    const std::string folder =
        (keeps ? FixturesDir() : dir_.path()) + "/" + Name(part);
    EXPECT_FALSE(std::filesystem::exists(folder))
        << folder << " exists; a released version's is never written again";
    return folder;
  }
  void ExpectAsWritten(const std::string& folder) {
    Copy(folder);
    OpenAll();
    ExpectContents();
    EXPECT_EQ(Prepared(), ReadPrepared(folder));
  }

  static constexpr int kKeys = 120;

  ModelFamilies model_;
  std::map<std::string, WriteBatch> prepared_;
  std::map<std::string, uint32_t> ids_;
};

TEST_F(VersionWriterTest, OfAnOpenDatabase) {
  const std::string folder = Target("killed");
  ASSERT_FALSE(HasFailure());
  options_.wal_write = WriteMethod::kMap;
  Options lists = options_;
  lists.merge_operator = NewStringAppendOperator();
  lists.compression = CompressionType::kLZ4;
  lists.bottommost_compression = CompressionType::kZSTD;
  lists.index_type = IndexType::kTwoLevelIndexSearch;
  lists.partition_filters = true;
  lists.metadata_block_size = 128;
  lists.filter_policy = NewBloomFilterPolicy(10);
  family_options_["lists"] = lists;
  Options prefixes = options_;
  prefixes.compression = CompressionType::kSnappy;
  prefixes.prefix_extractor = NewFixedPrefixTransform(4);
  prefixes.whole_key_filtering = false;
  prefixes.memtable_prefix_bloom_size_ratio = 0.1;
  prefixes.filter_policy = NewBloomFilterPolicy(10);
  family_options_["prefixes"] = prefixes;
  Options descending = options_;
  descending.comparator = ReverseBytewiseComparator();
  descending.compression = CompressionType::kZlib;
  family_options_["descending"] = descending;
  OpenNew({"lists", "prefixes", "descending", "dropped"});
  PutAll(0, 1, "first");
  RemoveAndMerge(0);
  FlushAll();
  // A family that is gone, with updates in the log and in a table.
  ASSERT_TRUE(Ok(db_->DropColumnFamily(At("dropped"))));
  Release("dropped");
  NoteFamilies();
  for (const auto& [name, handle] : handles_) {
    ASSERT_TRUE(Ok(db_->CompactRange({}, handle, nullptr, nullptr)));
  }
  PutAll(1, 4, "second");
  RemoveAndMerge(1);
  // Older versions and operands stay in the tables.
  const Snapshot* const snapshot = db_->GetSnapshot();
  PutAll(5, 8, "third");
  FlushAll();
  CompactInto(5);
  RemoveAndMerge(2);
  FlushAll();
  Ingest();
  // A record of two fragments. Its value does not make expected.txt large.
  WriteBatch batch;
  batch.Put(At("default"), "large", std::string(40000, 'x'));
  Write(&batch);
  batch.Clear();
  batch.Put(At("default"), "large", "no longer");
  Write(&batch);
  PutAll(7, 16, "fourth");
  batch.Clear();
  batch.Put(At("default"), "prepared", "and committed");
  batch.Merge(At("lists"), "list 1", "prepared");
  batch.Delete(At("prefixes"), KeyOf(50));
  Prepare("transaction 1", &batch);
  FlushOne("default");  // A new log, which names the one before it.
  PutAll(9, 16, "fifth");
  RemoveAndMerge(3);
  batch.Clear();
  batch.Put(At("descending"), "prepared", std::string("\0\n\t", 3));
  Prepare(std::string("transaction\0two", 15), &batch);
  db_->ReleaseSnapshot(snapshot);
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  ASSERT_FALSE(HasFatalFailure());
  Keep(folder);
  ExpectAsWritten(folder);
}

TEST_F(VersionWriterTest, OfAClosedDatabase) {
  const std::string folder = Target("closed");
  ASSERT_FALSE(HasFailure());
  options_.key_case = KeyCase::kInsensitive;
  options_.atomic_flush = true;
  options_.merge_operator = NewStringAppendOperator();
  Options own_filter = options_;
  own_filter.filter_policy = std::make_shared<ListPolicy>();
  own_filter.compression = CompressionType::kLZ4HC;
  own_filter.bottommost_compression = CompressionType::kBZip2;
  family_options_[kOwnFilterFamily] = own_filter;
  OpenNew({kOwnFilterFamily});
  NoteFamilies();
  // A key, and how it is stored.
  const std::pair<std::string, std::string> keys[] = {
      {"Straße 1", "strasse 1"}, {"ÉCOLE", "école"}, {"plain", "plain"}};
  for (const std::string round :
       {" in level 6", " in level 0", " in the log"}) {
    std::string value;
    for (int i = 0; i < 20; ++i) value += round;
    for (const auto& [name, handle] : handles_) {
      for (const auto& [key, stored] : keys) {
        ASSERT_TRUE(Ok(db_->Put({}, handle, key + round, value)));
        ASSERT_TRUE(Ok(db_->Merge({}, handle, key, round)));
        Entries* const entries = model_.MutableAt(ids_[name]);
        (*entries)[stored + round] = value;
        Append(stored, round, entries);
      }
    }
    if (round == " in the log") break;
    ASSERT_TRUE(Ok(db_->Flush({}, Handles())));
    if (round == " in level 0") continue;
    for (const auto& [name, handle] : handles_) {
      ASSERT_TRUE(Ok(db_->CompactRange({}, handle, nullptr, nullptr)));
    }
    ReopenAll();
  }
  std::unique_ptr<BackupEngine> backups;
  std::filesystem::create_directories(folder);
  ASSERT_TRUE(Ok(BackupEngine::Open(BackupEngineOptions(folder + "/backups"),
                                    nullptr, &backups)));
  ASSERT_TRUE(Ok(backups->CreateNewBackup({}, db_.get())));
  backups.reset();
  Close();
  Keep(folder);
  std::filesystem::remove(folder + "/backups/meta/LOCK");
  ExpectAsWritten(folder);
}

}  // namespace
}  // namespace varve::test
