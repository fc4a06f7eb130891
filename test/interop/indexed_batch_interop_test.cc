// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: an indexed batch has the bytes of RocksDB's, and reads as it does, in
// all that both have. Method: random updates, save points and reads of a batch
// of each engine over a database of each, with the same contents.

#include "test/testing/db_helpers.h"
#include "test/testing/rocksdb_library.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "varve/merge_operator.h"
#include "varve/write_batch_with_index.h"

namespace varve::test {
namespace {

// A value, or what a read returned in place of it.
std::string Outcome(const Status& status, const std::string& value) {
  if (status.IsNotFound()) return "NotFound";
  if (status.IsIncomplete()) return "Incomplete";
  return status.ok() ? value : status.ToString();
}

// A database of RocksDB with an indexed batch. Errors fail the test.
class RocksDbBatch : public RocksDbLibrary {
 public:
  explicit RocksDbBatch(const std::string& path) : path_(path) {
    void* const base = Call<void*>("options_create");
    options_ = Call<void*>("options_create");
    CallChecked<void>("get_options_from_string", base,
                      "create_if_missing=true;merge_operator=stringappend;",
                      options_);
    Call<void>("options_destroy", base);
    const char* const name = "default";
    db_ = CallChecked<void*>("open_column_families", options_, path.c_str(), 1,
                             &name, &options_, &family_);
    write_options_ = Call<void*>("writeoptions_create");
    read_options_ = Call<void*>("readoptions_create");
  }
  ~RocksDbBatch() {
    if (batch_ != nullptr) Call<void>("writebatch_wi_destroy", batch_);
    Call<void>("column_family_handle_destroy", family_);
    Call<void>("close", db_);
    Call<void>("readoptions_destroy", read_options_);
    Call<void>("writeoptions_destroy", write_options_);
    Call<void>("options_destroy", options_);
  }

  void Put(const std::string& key, const std::string& value) {
    CallChecked<void>("put", db_, write_options_, key.data(), key.size(),
                      value.data(), value.size());
  }
  void NewBatch(bool overwrite) {
    if (batch_ != nullptr) Call<void>("writebatch_wi_destroy", batch_);
    batch_ = Call<void*>("writebatch_wi_create", size_t{0},
                         static_cast<unsigned char>(overwrite));
  }
  void Write() {
    CallChecked<void>("write_writebatch_wi", db_, write_options_, batch_);
  }

  // Adds an update by the function of that name.
  void Update(const char* name, const std::string& key) {
    Call<void>(name, batch_, family_, key.data(), key.size());
  }
  void Update(const char* name, const std::string& key,
              const std::string& value) {
    Call<void>(name, batch_, family_, key.data(), key.size(), value.data(),
               value.size());
  }
  void PutLogData(const std::string& blob) {
    Call<void>("writebatch_wi_put_log_data", batch_, blob.data(), blob.size());
  }
  void SetSavePoint() { Call<void>("writebatch_wi_set_save_point", batch_); }
  bool RollbackToSavePoint() {
    char* error = nullptr;
    Call<void>("writebatch_wi_rollback_to_save_point", batch_, &error);
    if (error == nullptr) return true;
    Call<void>("free", static_cast<void*>(error));
    return false;
  }
  std::string Data() {
    size_t size = 0;
    const char* const data =
        Call<const char*>("writebatch_wi_data", batch_, &size);
    return std::string(data, size);
  }

  std::string GetFromBatch(const std::string& key) {
    size_t size = 0;
    char* error = nullptr;
    char* const value =
        Call<char*>("writebatch_wi_get_from_batch_cf", batch_, options_,
                    family_, key.data(), key.size(), &size, &error);
    return Take(value, size, error);
  }
  std::string GetFromBoth(const std::string& key) {
    size_t size = 0;
    char* error = nullptr;
    char* const value = Call<char*>("writebatch_wi_get_from_batch_and_db_cf",
                                    batch_, db_, read_options_, family_,
                                    key.data(), key.size(), &size, &error);
    return Take(value, size, error);
  }

  void* NewIterator() {
    void* const base =
        Call<void*>("create_iterator_cf", db_, read_options_, family_);
    return Call<void*>("writebatch_wi_create_iterator_with_base_cf", batch_,
                       base, family_);
  }
  // "key=value", or "end".
  std::string Entry(void* it) {
    if (Call<unsigned char>("iter_valid", it) == 0) return "end";
    size_t key_size = 0;
    size_t value_size = 0;
    const char* const key = Call<const char*>("iter_key", it, &key_size);
    const char* const value = Call<const char*>("iter_value", it, &value_size);
    return std::string(key, key_size) + "=" + std::string(value, value_size);
  }

 private:
  std::string Take(char* value, size_t size, char* error) {
    std::string outcome = "NotFound";
    if (error != nullptr) {
      outcome = std::string(error).starts_with("Merge in progress")
                    ? "Incomplete"
                    : error;
      Call<void>("free", static_cast<void*>(error));
    } else if (value != nullptr) {
      outcome = std::string(value, size);
      Call<void>("free", static_cast<void*>(value));
    }
    return outcome;
  }

  const std::string path_;
  void* options_ = nullptr;
  void* db_ = nullptr;
  void* family_ = nullptr;
  void* write_options_ = nullptr;
  void* read_options_ = nullptr;
  void* batch_ = nullptr;
};

class IndexedBatchInteropTest : public DbTestBase {
 protected:
  IndexedBatchInteropTest() {
    options_.merge_operator = NewStringAppendOperator();
  }

  std::string RandomKey() {
    return "key" + std::to_string(random_.Below(kKeys));
  }

  void UpdateBoth() {
    const std::string key = RandomKey();
    const std::string value = "v" + std::to_string(++values_);
    switch (random_.Below(12)) {
      case 0:
        ASSERT_TRUE(Ok(ours_.Delete(key)));
        theirs_->Update("writebatch_wi_delete_cf", key);
        break;
      case 1:
        // RocksDB allows no merge over a single deletion, so a deletion comes
        // after it.
        ASSERT_TRUE(Ok(ours_.SingleDelete(key)));
        theirs_->Update("writebatch_wi_singledelete_cf", key);
        ASSERT_TRUE(Ok(ours_.Delete(key)));
        theirs_->Update("writebatch_wi_delete_cf", key);
        break;
      case 2:
      case 3:
        ASSERT_TRUE(Ok(ours_.Merge(key, value)));
        theirs_->Update("writebatch_wi_merge_cf", key, value);
        break;
      case 4:
        ours_.SetSavePoint();
        theirs_->SetSavePoint();
        break;
      case 5:
        ASSERT_EQ(ours_.RollbackToSavePoint().ok(),
                  theirs_->RollbackToSavePoint());
        break;
      case 6:
        ASSERT_TRUE(Ok(ours_.PutLogData(value)));
        theirs_->PutLogData(value);
        break;
      default:
        ASSERT_TRUE(Ok(ours_.Put(key, value)));
        theirs_->Update("writebatch_wi_put_cf", key, value);
    }
    ASSERT_EQ(ours_.GetWriteBatch()->Data(), theirs_->Data());
  }

  void CompareGets() {
    for (uint64_t i = 0; i <= kKeys; ++i) {
      const std::string key = "key" + std::to_string(i);
      std::string value;
      Status status =
          ours_.GetFromBatch(db_->DefaultColumnFamily(), {}, key, &value);
      ASSERT_EQ(Outcome(status, value), theirs_->GetFromBatch(key)) << key;
      status = ours_.GetFromBatchAndDB(db_.get(), {}, key, &value);
      ASSERT_EQ(Outcome(status, value), theirs_->GetFromBoth(key)) << key;
    }
  }

  // Moves an iterator of each in the same way.
  void CompareIterators() {
    const auto it = ours_.NewIteratorWithBase(db_->DefaultColumnFamily(),
                                              db_->NewIterator({}));
    void* const their_it = theirs_->NewIterator();
    const auto seek = [&](const char* name, const std::string& target) {
      theirs_->Call<void>(name, their_it, target.data(), target.size());
    };
    for (int i = 0; i < 40 && !HasFailure(); ++i) {
      const std::string target = RandomKey();
      switch (random_.Below(it->Valid() ? 10 : 4)) {
        case 0:
          it->SeekToFirst();
          theirs_->Call<void>("iter_seek_to_first", their_it);
          break;
        case 1:
          it->SeekToLast();
          theirs_->Call<void>("iter_seek_to_last", their_it);
          break;
        case 2:
          it->Seek(target);
          seek("iter_seek", target);
          break;
        case 3:
          it->SeekForPrev(target);
          seek("iter_seek_for_prev", target);
          break;
        case 4:
        case 5:
        case 6:
          it->Next();
          theirs_->Call<void>("iter_next", their_it);
          break;
        default:
          it->Prev();
          theirs_->Call<void>("iter_prev", their_it);
      }
      EXPECT_EQ(it->Valid()
                    ? it->key().ToString() + "=" + it->value().ToString()
                    : "end",
                theirs_->Entry(their_it));
    }
    theirs_->Call<void>("iter_destroy", their_it);
  }

  static constexpr uint64_t kKeys = 12;

  Rng random_{TestSeed()};
  std::unique_ptr<RocksDbBatch> theirs_;
  WriteBatchWithIndex ours_;
  int values_ = 0;
};

TEST_F(IndexedBatchInteropTest, RandomBatchesReadAsRocksDbs) {
  Open();
  theirs_ = std::make_unique<RocksDbBatch>(dir_.Sub("rocksdb"));
  for (int round = 0; round < 30 && !HasFailure(); ++round) {
    const std::string key = RandomKey();
    Put(key, "db" + std::to_string(round));
    theirs_->Put(key, "db" + std::to_string(round));
    const bool overwrite = random_.OneIn(2);
    ours_ = WriteBatchWithIndex(BytewiseComparator(), 0, overwrite);
    theirs_->NewBatch(overwrite);
    for (int i = 0; i < 60 && !HasFailure(); ++i) {
      UpdateBoth();
      if (!random_.OneIn(5)) continue;
      CompareGets();
      // Otherwise RocksDB 7.8 has no iterator over both.
      if (overwrite) CompareIterators();
    }
    ASSERT_TRUE(Ok(db_->Write({}, ours_.GetWriteBatch())));
    theirs_->Write();
  }
}

}  // namespace
}  // namespace varve::test
