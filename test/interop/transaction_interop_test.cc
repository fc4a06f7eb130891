// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: RocksDB's transactions return what the model of Varve's does, so that a
// program can use either. Method: the random calls of
// test/db/transaction/transaction_model_test.cc that RocksDB's C interface has.
// VARVE_MODEL_RUNS sets the number of runs.

#include "test/testing/rocksdb_library.h"
#include "test/testing/test_headers.h"
#include "test/testing/transaction/transaction_calls.h"

namespace varve::test {
namespace {

class RocksDbTransactions : public TransactionCallee {
 public:
  using Kind = TransactionCall::Kind;

  RocksDbTransactions(bool optimistic, std::string path)
      : optimistic_(optimistic), path_(std::move(path)) {
    options_ = library_.Call<void*>("options_create");
    library_.Call<void, void*, unsigned char>("options_set_create_if_missing",
                                              options_, 1);
    library_.Call<void, void*, unsigned char>(
        "options_set_create_missing_column_families", options_, 1);
    write_options_ = library_.Call<void*>("writeoptions_create");
    read_options_ = library_.Call<void*>("readoptions_create");
    // One record for the two, so that there is one operator for both families.
    library_.Call<void, void*, void*>("options_set_merge_operator", options_,
                                      NewMergeOperator());
    Open();
  }
  ~RocksDbTransactions() override { Close(); }

  std::string Call(const TransactionCall& call) override {
    void*& t = at_[call.transaction];
    void* const family = families_[call.family];
    const char* const key = call.key.data();
    const size_t key_size = call.key.size();
    const char* const value = call.value.data();
    const size_t value_size = call.value.size();
    switch (call.kind) {
      case Kind::kBegin:
        t = Begin(call.flag, t);
        return "ok";
      case Kind::kPut:
        return Checked("transaction_put_cf", t, family, key, key_size, value,
                       value_size);
      case Kind::kMerge:
        return Checked("transaction_merge_cf", t, family, key, key_size, value,
                       value_size);
      case Kind::kDelete:
        return Checked("transaction_delete_cf", t, family, key, key_size);
      case Kind::kGet:
        return Get(call, call.key);
      case Kind::kMultiGet:
        return Get(call, call.key) + " " + Get(call, NeighborOf(call.key));
      case Kind::kGetForUpdate: {
        size_t size = 0;
        char* error = nullptr;
        char* const found = library_.Call<char*>(
            "transaction_get_for_update_cf", t, read_options_, family, key,
            key_size, &size, static_cast<unsigned char>(call.flag), &error);
        return Result(found, size, error);
      }
      case Kind::kScan:
      case Kind::kScanBackward:
      case Kind::kSeek:
        return Iterate(call);
      case Kind::kSetSavePoint:
        library_.Call<void>("transaction_set_savepoint", t);
        return "ok";
      case Kind::kRollbackToSavePoint:
        return Checked("transaction_rollback_to_savepoint", t);
      case Kind::kPrepare: {
        const std::string name = NameOf(call.transaction);
        const std::string named =
            Checked("transaction_set_name", t, name.data(), name.size());
        return named != "ok" ? named : Checked("transaction_prepare", t);
      }
      case Kind::kCommit:
        return Checked("transaction_commit", t);
      case Kind::kRollback:
        return Checked("transaction_rollback", t);
      case Kind::kPlainPut:
        return Checked(Plain("put_cf"), base_, write_options_, family, key,
                       key_size, value, value_size);
      case Kind::kPlainMerge:
        return Checked(Plain("merge_cf"), base_, write_options_, family, key,
                       key_size, value, value_size);
      case Kind::kPlainDelete:
        return Checked(Plain("delete_cf"), base_, write_options_, family, key,
                       key_size);
      case Kind::kPlainGet: {
        size_t size = 0;
        char* error = nullptr;
        char* const found =
            library_.Call<char*>(Plain("get_cf"), base_, read_options_, family,
                                 key, key_size, &size, &error);
        return Result(found, size, error);
      }
      case Kind::kReopen:
        Close();
        Open();
        return "ok";
      default:
        // A flush takes away the history that RocksDB finds conflicts by.
        return "ok";
    }
  }

 private:
  // Appends with commas, as Varve's operator does.
  void* NewMergeOperator() {
    using Full = char* (*)(void*, const char*, size_t, const char*, size_t,
                           const char* const*, const size_t*, int,
                           unsigned char*, size_t*);
    using Partial = char* (*)(void*, const char*, size_t, const char* const*,
                              const size_t*, int, unsigned char*, size_t*);
    using Free = void (*)(void*, const char*, size_t);
    using Name = const char* (*)(void*);
    using Destroy = void (*)(void*);
    const Full full = [](void*, const char*, size_t, const char* value,
                         size_t value_size, const char* const* operands,
                         const size_t* sizes, int count, unsigned char* success,
                         size_t* size) {
      std::string merged;
      if (value != nullptr) merged.assign(value, value_size);
      for (int i = 0; i < count; ++i) {
        if (value != nullptr || i > 0) merged += ',';
        merged.append(operands[i], sizes[i]);
      }
      *success = 1;
      *size = merged.size();
      char* const result = static_cast<char*>(malloc(merged.size() + 1));
      memcpy(result, merged.data(), merged.size());
      return result;
    };
    // RocksDB copies the result before it looks at the success.
    const Partial partial = [](void*, const char*, size_t, const char* const*,
                               const size_t*, int, unsigned char* success,
                               size_t* size) {
      *success = 0;
      *size = 0;
      return static_cast<char*>(malloc(1));
    };
    const Free release = [](void*, const char* memory, size_t) {
      free(const_cast<char*>(memory));
    };
    const Name name = [](void*) { return "append"; };
    const Destroy destroy = [](void*) {};
    return library_.Call<void*, void*, Destroy, Full, Partial, Free, Name>(
        "mergeoperator_create", nullptr, destroy, full, partial, release, name);
  }

  const char* Plain(const char* call) {
    plain_ = (optimistic_ ? "" : "transactiondb_") + std::string(call);
    return plain_.c_str();
  }
  template <typename... Arguments>
  std::string Checked(const char* name, Arguments... arguments) {
    char* error = nullptr;
    library_.Call<void>(name, arguments..., &error);
    return error == nullptr ? "ok" : ErrorOf(error);
  }
  static std::string ErrorOf(char* error) {
    const std::string text = error;
    free(error);
    if (text.starts_with("NotFound")) return "NotFound";
    if (text.starts_with("Resource busy")) return "Busy";
    if (text.starts_with("Operation timed out")) return "TimedOut";
    return text;
  }
  static std::string Result(char* found, size_t size, char* error) {
    if (error != nullptr) return ErrorOf(error);
    if (found == nullptr) return "NotFound";
    const std::string value(found, size);
    free(found);
    return "=" + value;
  }

  void Open() {
    const char* names[] = {"default", "other"};
    void* options[] = {options_, options_};
    char* error = nullptr;
    if (optimistic_) {
      db_ = library_.Call<void*>("optimistictransactiondb_open_column_families",
                                 options_, path_.c_str(), 2, names, options,
                                 families_.data(), &error);
      base_ = library_.Call<void*>("optimistictransactiondb_get_base_db", db_);
    } else {
      void* const locks = library_.Call<void*>("transactiondb_options_create");
      library_.Call<void, void*, int64_t>(
          "transactiondb_options_set_default_lock_timeout", locks, 0);
      db_ = library_.Call<void*>("transactiondb_open_column_families", options_,
                                 locks, path_.c_str(), 2, names, options,
                                 families_.data(), &error);
      base_ = db_;
      size_t count = 0;
      void** const prepared = library_.Call<void**>(
          "transactiondb_get_prepared_transactions", db_, &count);
      for (size_t each = 0; each < count; ++each) {
        size_t size = 0;
        char* const name =
            library_.Call<char*>("transaction_get_name", prepared[each], &size);
        for (size_t i = 0; i < kTransactions; ++i) {
          if (std::string(name, size) == NameOf(i)) at_[i] = prepared[each];
        }
        free(name);
      }
      free(prepared);
    }
    ASSERT_EQ(error, nullptr) << error;
  }
  void Close() {
    for (void*& t : at_) {
      if (t != nullptr) library_.Call<void>("transaction_destroy", t);
      t = nullptr;
    }
    for (void* family : families_) {
      library_.Call<void>("column_family_handle_destroy", family);
    }
    if (optimistic_) {
      library_.Call<void>("optimistictransactiondb_close_base_db", base_);
      library_.Call<void>("optimistictransactiondb_close", db_);
    } else {
      library_.Call<void>("transactiondb_close", db_);
    }
  }
  void* Begin(bool set_snapshot, void* old) {
    const char* const kind =
        optimistic_ ? "optimistictransaction" : "transaction";
    const auto name = [kind](const char* call) {
      return std::string(kind) + call;
    };
    void* const options = library_.Call<void*>(name("_options_create").c_str());
    library_.Call<void, void*, unsigned char>(
        name("_options_set_set_snapshot").c_str(), options, set_snapshot);
    if (!optimistic_) {
      library_.Call<void, void*, int64_t>(
          "transaction_options_set_lock_timeout", options, 0);
    }
    void* const t = library_.Call<void*>(name("_begin").c_str(), db_,
                                         write_options_, options, old);
    library_.Call<void>(name("_options_destroy").c_str(), options);
    return t;
  }

  // Calls the function with options that read at the transaction's snapshot, if
  // `call` says so.
  std::string WithOptions(const TransactionCall& call,
                          const std::function<std::string(void*)>& read) {
    void* const options = library_.Call<void*>("readoptions_create");
    const void* snapshot = nullptr;
    if (call.flag) {
      snapshot = library_.Call<const void*>("transaction_get_snapshot",
                                            at_[call.transaction]);
      library_.Call<void>("readoptions_set_snapshot", options, snapshot);
    }
    const std::string result = read(options);
    library_.Call<void>("readoptions_destroy", options);
    if (snapshot != nullptr) {
      library_.Call<void>("free", const_cast<void*>(snapshot));
    }
    return result;
  }
  std::string Get(const TransactionCall& call, const std::string& key) {
    return WithOptions(call, [&](void* options) {
      size_t size = 0;
      char* error = nullptr;
      char* const found = library_.Call<char*>(
          "transaction_get_cf", at_[call.transaction], options,
          families_[call.family], key.data(), key.size(), &size, &error);
      return Result(found, size, error);
    });
  }
  std::string EntryOf(void* it) {
    size_t size = 0;
    const char* bytes = library_.Call<const char*>("iter_key", it, &size);
    std::string text(bytes, size);
    bytes = library_.Call<const char*>("iter_value", it, &size);
    return text + "=" + std::string(bytes, size) + ";";
  }
  bool IsValid(void* it) {
    return library_.Call<unsigned char>("iter_valid", it) != 0;
  }
  std::string Iterate(const TransactionCall& call) {
    return WithOptions(call, [&](void* options) {
      void* const it = library_.Call<void*>("transaction_create_iterator_cf",
                                            at_[call.transaction], options,
                                            families_[call.family]);
      const std::string text =
          call.kind == Kind::kSeek ? Seek(it, call.key) : Scan(it, call.kind);
      library_.Call<void>("iter_destroy", it);
      return text;
    });
  }
  std::string Scan(void* it, Kind kind) {
    const bool forward = kind == Kind::kScan;
    std::string text;
    library_.Call<void>(forward ? "iter_seek_to_first" : "iter_seek_to_last",
                        it);
    while (IsValid(it)) {
      text += EntryOf(it);
      library_.Call<void>(forward ? "iter_next" : "iter_prev", it);
    }
    return text;
  }
  std::string Seek(void* it, const std::string& key) {
    library_.Call<void>("iter_seek", it, key.data(), key.size());
    if (!IsValid(it)) return "end";
    std::string text = EntryOf(it);
    library_.Call<void>("iter_next", it);
    if (!IsValid(it)) return text + "end";
    text += EntryOf(it);
    library_.Call<void>("iter_prev", it);
    return text + EntryOf(it);
  }

  const RocksDbLibrary library_;
  const bool optimistic_;
  const std::string path_;
  std::string plain_;
  void* options_ = nullptr;
  void* write_options_ = nullptr;
  void* read_options_ = nullptr;
  void* db_ = nullptr;
  void* base_ = nullptr;  // For plain calls.
  std::array<void*, kFamilies> families_{};
  std::array<void*, kTransactions> at_{};
};

class TransactionInteropTest : public DbTestBase,
                               public ::testing::WithParamInterface<bool> {};

TEST_P(TransactionInteropTest, RocksDbReturnsWhatTheModelReturns) {
  const uint64_t seed = TestSeed();
  const int runs = EnvironmentInt("VARVE_MODEL_RUNS", 1);
  for (int run = 0; run < runs && !HasFailure(); ++run) {
    const uint64_t run_seed = seed + static_cast<uint64_t>(run);
    SCOPED_TRACE("TEST_SEED=" + std::to_string(run_seed));
    Rng rng(run_seed);
    std::filesystem::remove_all(path_);
    RocksDbTransactions rocksdb(GetParam(), path_);
    if (HasFailure()) return;
    CompareTransactions(&rocksdb, GetParam(), false, 1500, &rng);
  }
}

std::string NameOf(const ::testing::TestParamInfo<bool>& optimistic) {
  return optimistic.param ? "Optimistic" : "Locking";
}

INSTANTIATE_TEST_SUITE_P(Kinds, TransactionInteropTest, ::testing::Bool(),
                         NameOf);

}  // namespace
}  // namespace varve::test
