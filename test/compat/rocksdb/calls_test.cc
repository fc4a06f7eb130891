// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: no call of a function of RocksDB's C interface crashes or leaks, and a
// wrong one returns an error. Method: calls each function of the table, from a
// generated list, with null arguments, with right arguments, and after its
// database was closed. The address sanitizer finds what leaks.

#include <gtest/gtest.h>
#include <rocksdb/c.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <functional>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

namespace {

enum class Mode { kNull, kNullWithoutError, kRight, kClosed };

// The functions that take over another argument than their first.
constexpr const char* kOwners[] = {
    "rocksdb_options_set_merge_operator",
    "rocksdb_options_set_compaction_filter_factory",
    "rocksdb_options_set_prefix_extractor",
    "rocksdb_options_add_eventlistener",
    "rocksdb_block_based_options_set_filter_policy",
};

class Arguments;

struct Function {
  const char* name;
  const char* kind;
  const char* feature;
  const char* parameters;  // Their names.
  void (*call)(void (*function)(), Arguments* arguments);
  void (*function)();  // `call` knows its type.

  bool IsOwner() const {
    for (const char* owner : kOwners)
      if (strcmp(owner, name) == 0) return true;
    return false;
  }
  bool Destroys() const {
    return std::string(name).ends_with("_destroy") ||
           std::string(name).ends_with("db_close");
  }
};

// Creates and destroys objects of a type. Without a specialization there are
// none, because they need a missing feature; their functions are called with
// null.
template <typename T>
struct Handle {
  static T* Create(Arguments* /*arguments*/) { return nullptr; }
  static void Destroy(T* /*handle*/, Arguments* /*arguments*/) {}
};

template <typename R, typename... A>
R Nothing(A... /*unused*/) {
  if constexpr (std::is_same_v<R, const char*>) {
    return "name";
  } else {
    return R();
  }
}

template <typename R, typename... A>
auto* NothingLike(R (* /*type*/)(A...)) {
  return &Nothing<R, A...>;
}

template <typename T>
constexpr bool kIsCallback =
    std::is_pointer_v<T> && std::is_function_v<std::remove_pointer_t<T>>;

std::string Path(const std::string& name) {
  return ::testing::TempDir() + "rocksdb_calls_test/" + name;
}

rocksdb_options_t* NewOptions() {
  auto* const options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_options_set_uint64add_merge_operator(options);
  return options;
}

// Makes a new database, in which "k" is "v".
rocksdb_t* OpenDatabase(const std::string& path) {
  std::filesystem::remove_all(path);
  char* error = nullptr;
  auto* const options = NewOptions();
  auto* const db = rocksdb_open(options, path.c_str(), &error);
  auto* const write = rocksdb_writeoptions_create();
  rocksdb_put(db, write, "k", 1, "v", 1, &error);
  EXPECT_STREQ(error, nullptr);
  rocksdb_writeoptions_destroy(write);
  rocksdb_options_destroy(options);
  return db;
}

// The same, with transactions.
rocksdb_transactiondb_t* OpenLocking(const std::string& path) {
  rocksdb_close(OpenDatabase(path));
  char* error = nullptr;
  auto* const options = NewOptions();
  auto* const db_options = rocksdb_transactiondb_options_create();
  auto* const db =
      rocksdb_transactiondb_open(options, db_options, path.c_str(), &error);
  EXPECT_STREQ(error, nullptr);
  rocksdb_transactiondb_options_destroy(db_options);
  rocksdb_options_destroy(options);
  return db;
}
rocksdb_optimistictransactiondb_t* OpenOptimistic(const std::string& path) {
  rocksdb_close(OpenDatabase(path));
  char* error = nullptr;
  auto* const options = NewOptions();
  auto* const db =
      rocksdb_optimistictransactiondb_open(options, path.c_str(), &error);
  EXPECT_STREQ(error, nullptr);
  rocksdb_options_destroy(options);
  return db;
}

// The arguments of one call, and all that has to be freed after it.
class Arguments {
 public:
  Arguments(Mode mode, const Function& function)
      : mode_(mode), function_(function), names_(function.parameters) {}
  ~Arguments() {
    for (auto it = cleanups_.rbegin(); it != cleanups_.rend(); ++it) (*it)();
    Close();
    free(error_);
    free(errors_[0]);
    for (char* text : texts_) free(text);
  }
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  // Returns the argument for the next parameter of the function.
  template <typename T>
  T Give() {
    const bool is_first = name_.empty();
    names_ >> name_;
    is_taken_ = is_first ? function_.Destroys()
                         : function_.IsOwner() || Named("base_iterator");
    if constexpr (std::is_same_v<T, char**>) {
      return GiveTexts();
    } else if constexpr (std::is_pointer_v<T> && !kIsCallback<T>) {
      return GivePointer<T>();
    } else {
      if (IsNull()) return T();
      if constexpr (kIsCallback<T>) {
        return NothingLike(T());
      } else {
        if (Named("index") || Named("level")) return T();
        return Named("include_flags")
                   ? T(rocksdb_size_approximation_flags_include_files)
                   : T(1);
      }
    }
  }

  // To be called when all arguments are there.
  void Prepare() {
    if (mode_ == Mode::kClosed) Close();
  }

  // Frees a result.
  template <typename T>
  void Take(T result) {
    if constexpr (std::is_same_v<T, char*>) {
      free(result);
    } else if constexpr (std::is_same_v<T, char**>) {
      if (result != nullptr)
        rocksdb_list_column_families_destroy(result, size_);
    } else if constexpr (std::is_same_v<T, rocksdb_column_family_handle_t**>) {
      if (result == nullptr) return;
      for (size_t i = 0; i < size_; i++)
        rocksdb_column_family_handle_destroy(result[i]);
      rocksdb_create_column_families_destroy(result);
    } else if constexpr (std::is_pointer_v<T>) {
      using Type = std::remove_pointer_t<T>;
      // Other results that are const belong to other objects.
      if constexpr (std::is_same_v<Type, const rocksdb_snapshot_t>) {
        Handle<Type>::Destroy(result, this);
      } else if constexpr (std::is_same_v<Type, const rocksdb_livefiles_t>) {
        rocksdb_livefiles_destroy(result);
      } else if constexpr (std::is_class_v<Type> && !std::is_const_v<Type>) {
        if (result != nullptr) Handle<Type>::Destroy(result, this);
      }
    }
  }

  // Creates an object, which is destroyed after the call.
  template <typename T>
  T* Make() {
    T* const handle = Handle<T>::Create(this);
    if (handle != nullptr)
      cleanups_.push_back([=, this] { Handle<T>::Destroy(handle, this); });
    return handle;
  }

  // A database in which "k" is "v". Closed, if that is the mode.
  rocksdb_t* db() {
    if (db_ == nullptr) db_ = OpenDatabase(Path("db"));
    return db_;
  }

  // Databases with transactions.
  rocksdb_transactiondb_t* locking_db() {
    if (locking_db_ == nullptr) locking_db_ = OpenLocking(Path("locking"));
    return locking_db_;
  }
  rocksdb_optimistictransactiondb_t* optimistic_db() {
    if (optimistic_db_ == nullptr)
      optimistic_db_ = OpenOptimistic(Path("optimistic"));
    return optimistic_db_;
  }

  bool has_handle() const { return has_handle_; }
  bool has_db() const { return has_db_; }
  // Whether the function can return an error.
  bool has_error() const { return has_error_; }
  const char* error() const { return error_ != nullptr ? error_ : errors_[0]; }

 private:
  bool Named(const char* name) const { return name_ == name; }
  bool IsNull() const {
    return mode_ == Mode::kNull || mode_ == Mode::kNullWithoutError;
  }

  template <typename T>
  T GivePointer() {
    using Type = std::remove_pointer_t<T>;
    using Plain = std::remove_const_t<Type>;
    if constexpr (std::is_class_v<Plain>) has_handle_ = true;
    has_db_ |= std::is_same_v<Plain, rocksdb_t> ||
               std::is_same_v<Plain, rocksdb_transactiondb_t> ||
               std::is_same_v<Plain, rocksdb_optimistictransactiondb_t>;
    // A begin returns a transaction that it is given.
    if (IsNull() || Named("old_txn")) return nullptr;
    if constexpr (std::is_same_v<Plain, rocksdb_t>) {
      if (is_taken_) is_db_taken_ = true;
      return db();
    } else if constexpr (std::is_same_v<Plain, rocksdb_transactiondb_t>) {
      return locking_db();
    } else if constexpr (std::is_same_v<Plain,
                                        rocksdb_optimistictransactiondb_t>) {
      return optimistic_db();
    } else if constexpr (std::is_same_v<Plain, rocksdb_slice_t>) {
      static rocksdb_slice_t key = {"k", 1};
      return &key;
    } else if constexpr (std::is_same_v<Plain, rocksdb_snapshot_t>) {
      if (!is_taken_ && !IsRelease()) return Make<const Plain>();
      return Handle<const Plain>::Create(this);
    } else if constexpr (std::is_class_v<Plain>) {
      return is_taken_ ? Handle<Plain>::Create(this) : Make<Plain>();
    } else if constexpr (std::is_same_v<T, const char*>) {
      return Text();
    } else if constexpr (std::is_same_v<T, const char* const*>) {
      static const char* const kKeys[] = {"k"};
      static const char* const kFamilies[] = {"default"};
      return Named("column_family_names") ? kFamilies : kKeys;
    } else if constexpr (std::is_pointer_v<Plain> &&
                         std::is_class_v<std::remove_pointer_t<Plain>>) {
      return GiveObjects<Plain>();
    } else if constexpr (std::is_pointer_v<Plain>) {
      return nullptr;
    } else if constexpr (std::is_void_v<Type>) {
      return strcmp(function_.name, "rocksdb_free") == 0 ? malloc(1) : nullptr;
    } else if constexpr (std::is_same_v<Plain, char>) {
      return buffer_;
    } else if constexpr (std::is_same_v<Plain, size_t>) {
      return &size_;
    } else {
      return reinterpret_cast<T>(&number_);
    }
  }

  bool IsRelease() const {
    return std::string(function_.name).ends_with("_release_snapshot");
  }

  // char**: an error, a text to return, or a list to destroy.
  char** GiveTexts() {
    if (Named("errptr")) {
      has_error_ = mode_ != Mode::kNullWithoutError;
      return has_error_ ? &error_ : nullptr;
    }
    if (IsNull()) return nullptr;
    const bool is_missing = strcmp(function_.kind, "missing") == 0;
    if (Named("errs")) {
      has_error_ = true;
      return errors_;
    }
    if (!function_.Destroys()) return &texts_.emplace_back(nullptr);
    if (is_missing) return nullptr;
    auto** const list = static_cast<char**>(malloc(sizeof(char*)));
    *list = strdup("k");
    return list;
  }

  // A list of one handle: a result, or an argument.
  template <typename Item>
  Item* GiveObjects() {
    using Type = std::remove_pointer_t<Item>;
    using Plain = std::remove_const_t<Type>;
    const bool is_result =
        Named("values") || Named("iterators") || Named("column_family_handles");
    if (function_.Destroys()) return nullptr;
    auto* const item = new Item(is_result ? nullptr : Make<Plain>());
    cleanups_.push_back([=, this] {
      if (is_result && *item != nullptr)
        Handle<Plain>::Destroy(const_cast<Plain*>(*item), this);
      delete item;
    });
    return item;
  }

  const char* Text() {
    if (Named("checkpoint_dir") || Named("path") || Named("dir") ||
        Named("secondary_path"))
      return paths_.emplace_back(Path("new")).c_str();
    if (Named("name") || Named("db_path"))
      return paths_.emplace_back(Path("closed")).c_str();
    if (Named("propname")) return "rocksdb.estimate-num-keys";
    if (Named("column_family_name")) return "family";
    if (Named("opts_str")) return "create_if_missing=true";
    return "k";
  }

  void Close() {
    // To close a handle again does nothing.
    rocksdb_transactiondb_close(locking_db_);
    rocksdb_optimistictransactiondb_close(optimistic_db_);
    if (db_ == nullptr || is_closed_) return;
    is_closed_ = true;
    if (!is_db_taken_ || mode_ == Mode::kClosed) rocksdb_close(db_);
  }

  const Mode mode_;
  const Function& function_;
  std::istringstream names_;  // Those of the parameters to come.
  std::string name_;          // The parameter's.
  bool is_taken_ = false;     // The function takes the argument over.
  bool has_handle_ = false;
  bool has_db_ = false;
  rocksdb_t* db_ = nullptr;
  bool is_db_taken_ = false;
  bool is_closed_ = false;
  rocksdb_transactiondb_t* locking_db_ = nullptr;
  rocksdb_optimistictransactiondb_t* optimistic_db_ = nullptr;
  bool has_error_ = false;
  char* error_ = nullptr;
  char* errors_[1] = {nullptr};
  std::deque<char*> texts_;
  size_t size_ = 1;
  int64_t number_ = 1;
  char buffer_[64] = "k";
  std::deque<std::string> paths_;
  std::vector<std::function<void()>> cleanups_;
};

// Calls a function. Its arguments are given in braces, which evaluate them in
// their order.
struct Calling {
  template <typename R, typename... P>
  Calling(R (*function)(P...), Arguments* arguments,
          std::type_identity_t<P>... values) {
    arguments->Prepare();
    if constexpr (std::is_void_v<R>) {
      function(values...);
    } else {
      arguments->Take(function(values...));
    }
  }
};

template <typename R, typename... P>
void CallAs(R (*function)(P...), Arguments* arguments) {
  Calling{function, arguments, arguments->Give<P>()...};
}

template <typename F>
void Call(void (*function)(), Arguments* arguments) {
  CallAs(reinterpret_cast<F>(function), arguments);
}

template <typename F>
auto* Plain(F* function) {
  return reinterpret_cast<void (*)()>(function);
}

// Calls a function that creates an object of callbacks and numbers.
template <typename T, typename... P>
T* New(T* (*create)(P...)) {
  [[maybe_unused]] const auto value = []<typename V>(V plain) {
    if constexpr (kIsCallback<V>) {
      return NothingLike(plain);
    } else if constexpr (std::is_arithmetic_v<V>) {
      return V(1);
    } else {
      return plain;
    }
  };
  return create(value(P())...);
}

#define HANDLE(type, create, destroy)                            \
  template <>                                                    \
  struct Handle<type> {                                          \
    static type* Create([[maybe_unused]] Arguments* arguments) { \
      return create;                                             \
    }                                                            \
    static void Destroy([[maybe_unused]] type* handle,           \
                        [[maybe_unused]] Arguments* arguments) { \
      destroy;                                                   \
    }                                                            \
  };
#define NEW_HANDLE(name)                                   \
  HANDLE(rocksdb_##name##_t, New(rocksdb_##name##_create), \
         rocksdb_##name##_destroy(handle))

HANDLE(rocksdb_t, nullptr, rocksdb_close(handle))
HANDLE(rocksdb_options_t, NewOptions(), rocksdb_options_destroy(handle))
#include <calls_objects.inc>

// Objects of callbacks.
NEW_HANDLE(comparator)
NEW_HANDLE(compactionfilter)
NEW_HANDLE(compactionfilterfactory)
NEW_HANDLE(eventlistener)
NEW_HANDLE(mergeoperator)
NEW_HANDLE(slicetransform)
HANDLE(rocksdb_filterpolicy_t, rocksdb_filterpolicy_create_bloom(10),
       rocksdb_filterpolicy_destroy(handle))
HANDLE(rocksdb_logger_t, New(rocksdb_logger_create_callback_logger),
       rocksdb_logger_destroy(handle))

// Objects that databases share.
NEW_HANDLE(dbpath)
NEW_HANDLE(ratelimiter)
HANDLE(rocksdb_env_t, rocksdb_create_mem_env(), rocksdb_env_destroy(handle))
HANDLE(rocksdb_cache_t, rocksdb_cache_create_lru(1 << 20),
       rocksdb_cache_destroy(handle))
NEW_HANDLE(write_buffer_manager)
HANDLE(rocksdb_sst_file_manager_t,
       rocksdb_sst_file_manager_create(arguments->Make<rocksdb_env_t>()),
       rocksdb_sst_file_manager_destroy(handle))
HANDLE(rocksdb_sstfilewriter_t,
       rocksdb_sstfilewriter_create(arguments->Make<rocksdb_envoptions_t>(),
                                    arguments->Make<rocksdb_options_t>()),
       rocksdb_sstfilewriter_destroy(handle))

// Objects of one thread.
NEW_HANDLE(compactionjobinfo)
NEW_HANDLE(memory_consumers)
NEW_HANDLE(perfcontext)
NEW_HANDLE(statistics_histogram_data)
NEW_HANDLE(writebatch)
rocksdb_memory_usage_t* NewMemoryUsage(Arguments* arguments) {
  char* error = nullptr;
  return rocksdb_approximate_memory_usage_create(
      arguments->Make<rocksdb_memory_consumers_t>(), &error);
}
HANDLE(rocksdb_memory_usage_t, NewMemoryUsage(arguments),
       rocksdb_approximate_memory_usage_destroy(handle))

// Objects of batches and transactions.
HANDLE(rocksdb_writebatch_wi_t, rocksdb_writebatch_wi_create(0, 1),
       rocksdb_writebatch_wi_destroy(handle))
HANDLE(rocksdb_optimistictransactiondb_lock_buckets_t,
       rocksdb_optimistictransactiondb_lock_buckets_create(1, 1),
       rocksdb_optimistictransactiondb_lock_buckets_destroy(handle))
HANDLE(rocksdb_transactiondb_t, nullptr, rocksdb_transactiondb_close(handle))
HANDLE(rocksdb_optimistictransactiondb_t, nullptr,
       rocksdb_optimistictransactiondb_close(handle))
rocksdb_transaction_t* NewTransaction(rocksdb_transactiondb_t* db) {
  auto* const write = rocksdb_writeoptions_create();
  auto* const options = rocksdb_transaction_options_create();
  auto* const transaction =
      rocksdb_transaction_begin(db, write, options, nullptr);
  rocksdb_transaction_options_destroy(options);
  rocksdb_writeoptions_destroy(write);
  return transaction;
}
HANDLE(rocksdb_transaction_t, NewTransaction(arguments->locking_db()),
       rocksdb_transaction_destroy(handle))

// Objects of a database.
template <typename T, typename... P>
T* Read(Arguments* arguments,
        T* (*create)(rocksdb_t*, const rocksdb_readoptions_t*, P...),
        std::type_identity_t<P>... values) {
  auto* const options = rocksdb_readoptions_create();
  T* const result = create(arguments->db(), options, values...);
  rocksdb_readoptions_destroy(options);
  return result;
}
HANDLE(rocksdb_column_family_handle_t,
       rocksdb_get_default_column_family_handle(arguments->db()),
       rocksdb_column_family_handle_destroy(handle))
HANDLE(const rocksdb_snapshot_t, rocksdb_create_snapshot(arguments->db()),
       rocksdb_release_snapshot(arguments->db(), handle))
HANDLE(rocksdb_iterator_t, Read(arguments, rocksdb_create_iterator),
       rocksdb_iter_destroy(handle))
HANDLE(rocksdb_pinnableslice_t,
       Read(arguments, rocksdb_get_pinned, "k", 1, nullptr),
       rocksdb_pinnableslice_destroy(handle))
HANDLE(rocksdb_pinnable_handle_t,
       Read(arguments, rocksdb_get_pinned_v2, "k", 1, nullptr),
       rocksdb_pinnable_handle_destroy(handle))
HANDLE(rocksdb_checkpoint_t,
       rocksdb_checkpoint_object_create(arguments->db(), nullptr),
       rocksdb_checkpoint_object_destroy(handle))
HANDLE(rocksdb_livefiles_t,
       const_cast<rocksdb_livefiles_t*>(rocksdb_livefiles(arguments->db())),
       rocksdb_livefiles_destroy(handle))
HANDLE(rocksdb_livefile_t, rocksdb_livefile_create(),
       rocksdb_livefile_destroy(handle))
HANDLE(rocksdb_export_import_files_metadata_t,
       rocksdb_export_import_files_metadata_create(),
       rocksdb_export_import_files_metadata_destroy(handle))
rocksdb_livefiles_storage_info_t* NewStorageInfo(Arguments* arguments) {
  auto* const options = rocksdb_livefiles_storage_info_options_create();
  auto* const info =
      rocksdb_get_livefiles_storage_info(arguments->db(), options, nullptr);
  rocksdb_livefiles_storage_info_options_destroy(options);
  return info;
}
HANDLE(rocksdb_livefiles_storage_info_t, NewStorageInfo(arguments),
       rocksdb_livefiles_storage_info_destroy(handle))
HANDLE(rocksdb_wal_files_t,
       rocksdb_get_sorted_wal_files(arguments->db(), nullptr),
       rocksdb_wal_files_destroy(handle))
HANDLE(rocksdb_wal_iterator_t,
       rocksdb_get_updates_since(arguments->db(), 0, nullptr, nullptr),
       rocksdb_wal_iter_destroy(handle))
HANDLE(rocksdb_wal_file_t,
       rocksdb_get_current_wal_file(arguments->db(), nullptr),
       rocksdb_wal_file_destroy(handle))
HANDLE(rocksdb_column_family_metadata_t,
       rocksdb_get_column_family_metadata(arguments->db()),
       rocksdb_column_family_metadata_destroy(handle))
HANDLE(rocksdb_level_metadata_t,
       rocksdb_column_family_metadata_get_level_metadata(
           arguments->Make<rocksdb_column_family_metadata_t>(), 0),
       rocksdb_level_metadata_destroy(handle))
HANDLE(rocksdb_sst_file_metadata_t,
       rocksdb_level_metadata_get_sst_file_metadata(
           arguments->Make<rocksdb_level_metadata_t>(), 0),
       rocksdb_sst_file_metadata_destroy(handle))

#include <calls.inc>

bool Begins(const char* text, const std::string& begin) {
  return text != nullptr && std::string(text).starts_with(begin);
}

class RocksDbCallsTest : public ::testing::Test {
 protected:
  RocksDbCallsTest() {
    std::filesystem::remove_all(Path(""));
    std::filesystem::create_directories(Path(""));
    rocksdb_close(OpenDatabase(Path("closed")));
  }
  ~RocksDbCallsTest() override { std::filesystem::remove_all(Path("")); }

  // Calls each function, and checks the errors of missing features. Then calls
  // `check` with the function and its arguments.
  template <typename Check>
  void CallAll(Mode mode, Check check) {
    for (const Function& function : kFunctions) {
      SCOPED_TRACE(function.name);
      Arguments arguments(mode, function);
      function.call(function.function, &arguments);
      if (!arguments.has_error()) continue;
      if (strcmp(function.kind, "missing") == 0) {
        EXPECT_STREQ(
            arguments.error(),
            (std::string("Not implemented: Varve has no ") + function.feature)
                .c_str());
      } else {
        check(arguments);
      }
    }
  }
};

TEST_F(RocksDbCallsTest, NullArgumentsAreErrors) {
  CallAll(Mode::kNull, [](const Arguments& arguments) {
    if (!arguments.has_handle()) return;
    EXPECT_TRUE(Begins(arguments.error(), "Invalid argument: "))
        << arguments.error();
  });
}

TEST_F(RocksDbCallsTest, NullArgumentsWithoutAnErrorAreIgnored) {
  CallAll(Mode::kNullWithoutError, [](const Arguments& /*arguments*/) {});
}

TEST_F(RocksDbCallsTest, RightArgumentsLeakNothing) {
  CallAll(Mode::kRight, [](const Arguments& arguments) {
    EXPECT_FALSE(Begins(arguments.error(), "Not implemented: Varve has no"))
        << arguments.error();
  });
}

TEST_F(RocksDbCallsTest, CallsOfAClosedDatabaseAreErrors) {
  CallAll(Mode::kClosed, [](const Arguments& arguments) {
    if (!arguments.has_db()) return;
    EXPECT_TRUE(Begins(arguments.error(), "Invalid argument: "))
        << arguments.error();
  });
}

}  // namespace
