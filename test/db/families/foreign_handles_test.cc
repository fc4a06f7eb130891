// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: no call with a column family handle of another DB, or of a DB that was
// destroyed, does anything. Method: a table of all calls that take a handle,
// which is compared with the headers. Each is called with each kind of handle.
// Then both databases are as before, and open again.

#include <regex>

#include "test/testing/db/families_fixture.h"
#include "test/testing/db_helpers.h"
#include "test/testing/directory.h"
#include "test/testing/fixtures_dir.h"
#include "test/testing/test_headers.h"
#include "varve/column_family.h"
#include "varve/merge_operator.h"
#include "varve/read_transaction.h"
#include "varve/stackable_db.h"
#include "varve/write_batch.h"

namespace varve::test {
namespace {

using Handle = ColumnFamilyHandle*;

// ---- The calls ----------------------------------------------------------

struct Call {
  std::string name;  // Of the function in the header.
  std::function<Status(DB*, Handle)> run;
};

// The value of a read that fails must be empty.
Status GetString(const std::function<Status(std::string*)>& get) {
  std::string value = "before";
  const Status status = get(&value);
  EXPECT_TRUE(status.ok() || value.empty());
  return status;
}

Status GetPinned(const std::function<Status(PinnableSlice*)>& get) {
  PinnableSlice value;
  const Status status = get(&value);
  EXPECT_TRUE(status.ok() || value.empty());
  return status;
}

// The status of the second of two reads, the first of which is of the default
// family and must succeed.
template <typename Value>
Status SecondOfTwo(DB* db, Handle handle) {
  const Handle handles[] = {nullptr, handle};
  const Slice keys[] = {"k", "k"};
  Value values[2];
  Status statuses[2];
  db->MultiGet({}, 2, handles, keys, values, statuses);
  EXPECT_TRUE(Ok(statuses[0]));
  EXPECT_EQ(Slice(values[0]).ToString(), "default");
  return statuses[1];
}

// A batch with an update of a family, after one of the default family.
Status WriteOf(DB* db, const std::function<void(WriteBatch*)>& add) {
  WriteBatch batch;
  batch.Put("k", "of the batch");
  add(&batch);
  return db->Write({}, &batch);
}

Status ToStatus(bool found) {
  return found ? Status::OK() : Status::InvalidArgument("false");
}

std::vector<Call> Writes() {
  return {
      {"Put", [](DB* db, Handle h) { return db->Put({}, h, "k", "v"); }},
      {"Delete", [](DB* db, Handle h) { return db->Delete({}, h, "k"); }},
      {"SingleDelete",
       [](DB* db, Handle h) { return db->SingleDelete({}, h, "k"); }},
      {"Merge", [](DB* db, Handle h) { return db->Merge({}, h, "k", "v"); }},
      {"DeleteRange",
       [](DB* db, Handle h) { return db->DeleteRange({}, h, "a", "z"); }},
      {"DeleteRange",
       [](DB* db, Handle h) { return db->DeleteRange({}, h, "a", "a"); }},
      {"WriteBatch::Put",
       [](DB* db, Handle h) {
         return WriteOf(db, [h](WriteBatch* b) { b->Put(h, "k", "v"); });
       }},
      {"WriteBatch::Delete",
       [](DB* db, Handle h) {
         return WriteOf(db, [h](WriteBatch* b) { b->Delete(h, "k"); });
       }},
      {"WriteBatch::SingleDelete",
       [](DB* db, Handle h) {
         return WriteOf(db, [h](WriteBatch* b) { b->SingleDelete(h, "k"); });
       }},
      {"WriteBatch::Merge",
       [](DB* db, Handle h) {
         return WriteOf(db, [h](WriteBatch* b) { b->Merge(h, "k", "v"); });
       }},
      {"WriteBatch::DeleteRange",
       [](DB* db, Handle h) {
         return WriteOf(db,
                        [h](WriteBatch* b) { b->DeleteRange(h, "a", "z"); });
       }},
      // Copies, moved ones and parts keep the mark.
      {"WriteBatch::Put",
       [](DB* db, Handle h) {
         WriteBatch part;
         part.Put(h, "k", "v");
         const WriteBatch copy = part;
         WriteBatch moved = std::move(part);
         Status status = WriteOf(db, [&](WriteBatch* b) { b->Append(copy); });
         const Status other = db->Write({}, &moved);
         EXPECT_EQ(other.ok(), status.ok());
         return status;
       }},
  };
}

std::vector<Call> Reads() {
  return {
      {"Get",
       [](DB* db, Handle h) {
         return GetString(
             [&](std::string* v) { return db->Get({}, h, "k", v); });
       }},
      {"Get",
       [](DB* db, Handle h) {
         return GetPinned(
             [&](PinnableSlice* v) { return db->Get({}, h, "k", v); });
       }},
      {"MultiGet",
       [](DB* db, Handle h) {
         return GetString([&](std::string* value) {
           const Slice key = "k";
           Status status;
           db->MultiGet({}, h, 1, &key, value, &status);
           return status;
         });
       }},
      {"MultiGet",
       [](DB* db, Handle h) {
         return GetPinned([&](PinnableSlice* value) {
           const Slice key = "k";
           Status status;
           db->MultiGet({}, h, 1, &key, value, &status);
           return status;
         });
       }},
      {"MultiGet", SecondOfTwo<std::string>},
      {"MultiGet", SecondOfTwo<PinnableSlice>},
      {"MultiGet",
       [](DB* db, Handle h) {
         std::vector<std::string> values;
         return db->MultiGet({}, {h}, {Slice("k")}, &values).at(0);
       }},
      {"NewIterator",
       [](DB* db, Handle h) {
         const auto iterator = db->NewIterator({}, h);
         iterator->SeekToFirst();
         EXPECT_EQ(iterator->Valid(), iterator->status().ok());
         return iterator->status();
       }},
      {"NewIterators",
       [](DB* db, Handle h) {
         std::vector<std::unique_ptr<Iterator>> iterators;
         const Status status = db->NewIterators({}, {nullptr, h}, &iterators);
         EXPECT_EQ(iterators.size(), status.ok() ? 2u : 0u);
         return status;
       }},
      {"ReadTransaction::Get",
       [](DB* db, Handle h) {
         const ReadTransaction transaction(db);
         return GetString(
             [&](std::string* v) { return transaction.Get({}, h, "k", v); });
       }},
      {"ReadTransaction::Get",
       [](DB* db, Handle h) {
         const ReadTransaction transaction(db);
         return GetPinned(
             [&](PinnableSlice* v) { return transaction.Get({}, h, "k", v); });
       }},
      {"ReadTransaction::MultiGet",
       [](DB* db, Handle h) {
         const ReadTransaction transaction(db);
         return GetString([&](std::string* value) {
           const Slice key = "k";
           Status status;
           transaction.MultiGet({}, h, 1, &key, value, &status);
           return status;
         });
       }},
      {"ReadTransaction::MultiGet",
       [](DB* db, Handle h) {
         const ReadTransaction transaction(db);
         return GetPinned([&](PinnableSlice* value) {
           const Slice key = "k";
           Status status;
           transaction.MultiGet({}, h, 1, &key, value, &status);
           return status;
         });
       }},
      {"ReadTransaction::NewIterator",
       [](DB* db, Handle h) {
         const ReadTransaction transaction(db);
         const auto iterator = transaction.NewIterator({}, h);
         iterator->SeekToFirst();
         return iterator->status();
       }},
      {"GetProperty",
       [](DB* db, Handle h) {
         std::string value = "before";
         return ToStatus(db->GetProperty(h, "varve.levelstats", &value));
       }},
      {"GetIntProperty",
       [](DB* db, Handle h) {
         uint64_t value = 0;
         return ToStatus(
             db->GetIntProperty(h, "varve.background-errors", &value));
       }},
      {"GetApproximateSizes",
       [](DB* db, Handle h) {
         const Range range{"a", "z"};
         uint64_t size = 0;
         return db->GetApproximateSizes(h, &range, 1, &size);
       }},
      {"GetMergeOperands",
       [](DB* db, Handle h) {
         GetMergeOperandsOptions limits{4};
         PinnableSlice operands[4];
         int count = 0;
         return db->GetMergeOperands({}, h, "k", operands, &limits, &count);
       }},
      {"GetMapProperty",
       [](DB* db, Handle h) {
         std::map<std::string, std::string> value;
         return ToStatus(db->GetMapProperty(h, "varve.cfstats", &value));
       }},
      {"GetColumnFamilyMetaData",
       [](DB* db, Handle h) {
         ColumnFamilyMetaData data;
         db->GetColumnFamilyMetaData(h, &data);
         return ToStatus(!data.name.empty());
       }},
      {"GetPropertiesOfAllTables",
       [](DB* db, Handle h) {
         TablePropertiesCollection tables;
         return db->GetPropertiesOfAllTables(h, &tables);
       }},
      {"GetPropertiesOfTablesInRange",
       [](DB* db, Handle h) {
         const Range range{"a", "z"};
         TablePropertiesCollection tables;
         return db->GetPropertiesOfTablesInRange(h, &range, 1, &tables);
       }},
  };
}

std::vector<Call> Jobs() {
  return {
      {"Flush", [](DB* db, Handle h) { return db->Flush({}, h); }},
      {"Flush",
       [](DB* db, Handle h) {
         return db->Flush({}, std::vector<Handle>{nullptr, h});
       }},
      {"CompactRange",
       [](DB* db, Handle h) {
         return db->CompactRange({}, h, nullptr, nullptr);
       }},
      {"SetOptions",
       [](DB* db, Handle h) {
         return db->SetOptions(h, {{"write_buffer_size", "100000"}});
       }},
      {"SuggestCompactRange",
       [](DB* db, Handle h) {
         return db->SuggestCompactRange(h, nullptr, nullptr);
       }},
      {"DeleteFilesInRanges",
       [](DB* db, Handle h) { return db->DeleteFilesInRanges(h, nullptr, 0); }},
  };
}

std::vector<Call> Drops() {
  return {
      {"DropColumnFamily",
       [](DB* db, Handle h) { return db->DropColumnFamily(h); }},
      {"DropColumnFamilies",
       [](DB* db, Handle h) { return db->DropColumnFamilies({h}); }},
  };
}

// Calls that also refuse a handle of their DB, for want of files.
std::vector<Call> CallsOfFiles() {
  return {
      {"IngestExternalFile",
       [](DB* db, Handle h) {
         Status status = db->IngestExternalFile(h, {"/nothing"}, {});
         // A case-insensitive DB takes no files at all.
         return status.IsNotSupported() ? ToStatus(false) : status;
       }},
      {"CompactFiles",
       [](DB* db, Handle h) {
         return db->CompactFiles({}, h, {"000001.sst"}, 1);
       }},
      {"PromoteL0", [](DB* db, Handle h) { return db->PromoteL0(h, 1); }},
  };
}

std::vector<Call> AllCalls() {
  std::vector<Call> all;
  for (const auto& some :
       {Writes(), Reads(), Jobs(), CallsOfFiles(), Drops()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

TEST(ForeignHandlesTest, TheTableHasEveryFunctionWithAHandle) {
  std::set<std::string> expected;
  const std::map<std::string, std::string> classes = {
      {"db.h", ""},
      {"read_transaction.h", "ReadTransaction::"},
      {"write_batch.h", "WriteBatch::"}};
  // The parameters that are no array of handles to fill.
  const std::regex function(
      R"((\w+)\(([^(){};]*ColumnFamilyHandle\*(?! const\*>)[^(){};]*)\))");
  for (const auto& [header, prefix] : classes) {
    const std::string text =
        ReadWholeFile(FixturesDir() + "/../../include/varve/" + header);
    for (std::sregex_iterator found(text.begin(), text.end(), function), end;
         found != end; ++found) {
      const std::string parameters = (*found)[2];
      if (parameters.find("ColumnFamilyHandle**") != std::string::npos ||
          parameters.find("ColumnFamilyHandle*>* handles") !=
              std::string::npos) {
        continue;
      }
      expected.insert(prefix + (*found)[1].str());
    }
  }
  // Internal forms, the one with a test of its own, and those that have no
  // error to return: a key may exist, and options are the default.
  for (const char* const name :
       {"ReadTransaction::GetInto", "ReadTransaction::MultiGetInto",
        "DestroyColumnFamilyHandle", "KeyMayExist", "GetOptions"}) {
    EXPECT_EQ(expected.erase(name), 1u) << name;
  }
  std::set<std::string> found;
  for (const Call& call : AllCalls()) found.insert(call.name);
  EXPECT_EQ(found, expected);
}

// ---- The handles --------------------------------------------------------

// A database with the families a and b, or more.
class Database {
 public:
  Database(Env* env, const std::string& path, std::vector<std::string> names,
           KeyCase key_case = KeyCase::kSensitive, bool read_only = false)
      : path_(path), names_(std::move(names)) {
    options_ = TinyOptions();
    options_.env = env;
    options_.key_case = key_case;
    options_.create_missing_column_families = true;
    options_.merge_operator = NewStringAppendOperator();
    names_.insert(names_.begin(), kDefaultColumnFamilyName);
    Open(false);
    for (const auto& handle : handles_) {
      EXPECT_TRUE(Ok(db_->Put({}, handle.get(), "k", handle->GetName())));
    }
    if (read_only) Open(true);
  }
  ~Database() {
    handles_.clear();
    if (db_ != nullptr) db_->Close().IgnoreError();
  }

  void Open(bool read_only) {
    handles_.clear();
    db_.reset();
    std::vector<ColumnFamilyDescriptor> families;
    for (const std::string& name : names_)
      families.emplace_back(name, options_);
    std::vector<Handle> handles;
    ASSERT_TRUE(
        Ok(read_only
               ? DB::OpenForReadOnly(options_, path_, families, &handles, &db_)
               : DB::Open(options_, path_, families, &handles, &db_)));
    for (Handle const handle : handles) handles_.emplace_back(handle);
  }
  // Its families still have what they had, also after it is opened again.
  void ExpectUnchanged() {
    for (int round = 0; round < 2; ++round) {
      for (const auto& handle : handles_) {
        EXPECT_TRUE(FamilyHasEntries(db_.get(), handle.get(),
                                     {{"k", handle->GetName()}}))
            << path_ << " " << handle->GetName();
      }
      if (round == 0) Open(false);
    }
  }

  DB* db() { return db_.get(); }
  Handle At(size_t index) { return handles_.at(index).get(); }
  std::vector<Handle> Handles() {
    std::vector<Handle> all = {db_->DefaultColumnFamily()};
    for (const auto& handle : handles_) all.push_back(handle.get());
    return all;
  }
  // Destroys the DB and leaves the handles.
  std::vector<std::unique_ptr<ColumnFamilyHandle>> Destroy() {
    db_.reset();
    return std::exchange(handles_, {});
  }

 private:
  const std::string path_;
  std::vector<std::string> names_;
  Options options_;
  std::unique_ptr<DB> db_;
  std::vector<std::unique_ptr<ColumnFamilyHandle>> handles_;
};

class ForeignHandlesDbTest : public ::testing::Test {
 protected:
  static void ExpectAllRefused(DB* db, Handle handle) {
    for (const Call& call : AllCalls()) {
      const Status status = call.run(db, handle);
      EXPECT_TRUE(status.IsInvalidArgument())
          << call.name << ": " << status.ToString();
    }
  }

  const std::unique_ptr<Env> env_ = NewMemoryEnv(Env::Default());
};

TEST_F(ForeignHandlesDbTest, NoneOfAnotherDbDoesAnything) {
  Database mine(env_.get(), "/mine", {"a", "b"});
  // Ids that mean other families of mine, and one that none of mine has.
  Database other(env_.get(), "/other", {"x", "y", "z"});
  for (Handle const handle : other.Handles()) {
    SCOPED_TRACE(handle->GetName());
    ExpectAllRefused(mine.db(), handle);
    EXPECT_TRUE(
        mine.db()->DestroyColumnFamilyHandle(handle).IsInvalidArgument());
  }
  mine.ExpectUnchanged();
  other.ExpectUnchanged();
}

TEST_F(ForeignHandlesDbTest, NorThroughOtherKindsOfDbs) {
  Database other(env_.get(), "/other", {"x", "y", "z"});
  Database read_only(env_.get(), "/read", {"a", "b"}, KeyCase::kSensitive,
                     /*read_only=*/true);
  Database folding(env_.get(), "/folding", {"a", "b"}, KeyCase::kInsensitive);
  Database stacked(env_.get(), "/stacked", {"a", "b"});
  // Not owned.
  StackableDB stack(std::shared_ptr<DB>(std::shared_ptr<DB>(), stacked.db()));
  for (Handle const handle : other.Handles()) {
    SCOPED_TRACE(handle->GetName());
    ExpectAllRefused(read_only.db(), handle);
    ExpectAllRefused(folding.db(), handle);
    ExpectAllRefused(&stack, handle);
  }
  folding.ExpectUnchanged();
  read_only.ExpectUnchanged();
  stacked.ExpectUnchanged();
}

TEST_F(ForeignHandlesDbTest, NoneOfADestroyedDbDoesAnything) {
  Database mine(env_.get(), "/mine", {"a", "b"});
  std::vector<std::unique_ptr<ColumnFamilyHandle>> dead;
  WriteBatch batch;
  {
    Database gone(env_.get(), "/gone", {"x", "y", "z"});
    batch.Put(gone.At(1), "k", "v");
    dead = gone.Destroy();
  }
  // It may have the address of the one that is gone.
  Database next(env_.get(), "/gone", {"x", "y", "z"});
  for (const auto& handle : dead) {
    SCOPED_TRACE(handle->GetName());
    ExpectAllRefused(mine.db(), handle.get());
    ExpectAllRefused(next.db(), handle.get());
    ColumnFamilyDescriptor descriptor;
    EXPECT_FALSE(handle->GetDescriptor(&descriptor).ok());
  }
  EXPECT_TRUE(mine.db()->Write({}, &batch).IsInvalidArgument());
  EXPECT_TRUE(next.db()->Write({}, &batch).IsInvalidArgument());
  // They may be released by any DB.
  EXPECT_TRUE(Ok(next.db()->DestroyColumnFamilyHandle(dead.back().release())));
  dead.pop_back();
  EXPECT_TRUE(Ok(mine.db()->DestroyColumnFamilyHandle(dead.back().release())));
  dead.clear();
  mine.ExpectUnchanged();
  next.ExpectUnchanged();
}

TEST_F(ForeignHandlesDbTest, ABatchOfTwoDbsIsWrittenToNone) {
  Database mine(env_.get(), "/mine", {"a", "b"});
  Database other(env_.get(), "/other", {"x", "y"});
  WriteBatch batch;
  batch.Put(mine.At(1), "k", "v");
  batch.Put(other.At(1), "k", "v");
  batch.Put(mine.At(1), "k", "v");
  EXPECT_TRUE(mine.db()->Write({}, &batch).IsInvalidArgument());
  EXPECT_TRUE(other.db()->Write({}, &batch).IsInvalidArgument());
  batch.Clear();
  batch.Put(mine.At(1), "k", "a");
  EXPECT_TRUE(other.db()->Write({}, &batch).IsInvalidArgument());
  EXPECT_TRUE(Ok(mine.db()->Write({}, &batch)));
  // Without a handle, it is for all.
  WriteBatch common;
  common.Put("k", "default");
  common.Put(nullptr, "k", "default");
  EXPECT_TRUE(Ok(mine.db()->Write({}, &common)));
  EXPECT_TRUE(Ok(other.db()->Write({}, &common)));
  mine.ExpectUnchanged();
  other.ExpectUnchanged();
}

TEST_F(ForeignHandlesDbTest, NullIsTheDefaultFamily) {
  Database mine(env_.get(), "/mine", {"a"});
  for (const auto& calls : {Writes(), Reads(), Jobs()}) {
    for (const Call& call : calls) {
      ASSERT_TRUE(Ok(mine.db()->Put({}, "k", "default")));
      EXPECT_TRUE(Ok(call.run(mine.db(), nullptr))) << call.name;
    }
  }
  for (const Call& call : Drops()) {
    EXPECT_TRUE(call.run(mine.db(), nullptr).IsInvalidArgument());
  }
  EXPECT_TRUE(Ok(mine.db()->DestroyColumnFamilyHandle(nullptr)));
}

TEST_F(ForeignHandlesDbTest, ADroppedFamilyIsOnlyRead) {
  Database mine(env_.get(), "/mine", {"a", "b"});
  ASSERT_TRUE(Ok(mine.db()->DropColumnFamily(mine.At(1))));
  for (const auto& calls : {Writes(), Drops()}) {
    for (const Call& call : calls) {
      // Nothing is written for an empty range.
      const Status status = call.run(mine.db(), mine.At(1));
      EXPECT_TRUE(status.IsInvalidArgument() || call.name == "DeleteRange")
          << call.name << ": " << status.ToString();
    }
  }
  for (const Call& call : Reads()) {
    EXPECT_TRUE(Ok(call.run(mine.db(), mine.At(1)))) << call.name;
  }
  // No crash.
  for (const Call& call : Jobs()) {
    call.run(mine.db(), mine.At(1)).IgnoreError();
  }
  EXPECT_TRUE(FamilyHasEntries(mine.db(), mine.At(1), {{"k", "a"}}));
}

TEST_F(ForeignHandlesDbTest, AClosedDbRefusesItsOwn) {
  Database mine(env_.get(), "/mine", {"a", "b"});
  Database other(env_.get(), "/other", {"x", "y", "z"});
  ASSERT_TRUE(Ok(mine.db()->Close()));
  for (const Call& call : AllCalls()) {
    if (call.name == "MultiGet") continue;  // Its default family is read too.
    EXPECT_FALSE(call.run(mine.db(), mine.At(1)).ok()) << call.name;
    EXPECT_FALSE(call.run(mine.db(), other.At(3)).ok()) << call.name;
  }
}

}  // namespace
}  // namespace varve::test
