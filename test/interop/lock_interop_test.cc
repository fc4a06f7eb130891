// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: Varve, RocksDB, LevelDB and a second copy of Varve in one process
// exclude each other from a database, in one process and in several. Method:
// the shared libraries are loaded beside the Varve that the test links, each
// with symbols of its own, and driven by their C interfaces, which have the
// same shape.

#include <dlfcn.h>

#include <filesystem>
#include <string>

#include "test/testing/forked.h"
#include "test/testing/tools.h"

#ifndef VARVE_SHARED_PATH
#define VARVE_SHARED_PATH "libvarve.so (not built: VARVE_BUILD_SHARED is off)"
#endif

namespace varve::test {
namespace {

// An engine with LevelDB's C interface, whose functions begin with a prefix.
class Engine {
 public:
  Engine(const std::string& library, std::string prefix)
      : handle_(dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND)),
        prefix_(std::move(prefix)) {
    if (handle_ == nullptr) error_ = dlerror();
  }
  // The libraries stay: their threads may.

  // The open database, or null with error() saying why.
  void* Open(const std::string& path) {
    if (handle_ == nullptr) return nullptr;
    void* const options = Function<void*()>("options_create")();
    Function<void(void*, unsigned char)>("options_set_create_if_missing")(
        options, 1);
    char* error = nullptr;
    void* const db = Function<void*(void*, const char*, char**)>("open")(
        options, path.c_str(), &error);
    if (error != nullptr) error_ = error;
    return error == nullptr ? db : nullptr;
  }
  void Close(void* db) { Function<void(void*)>("close")(db); }
  const std::string& error() const { return error_; }

 private:
  template <typename Signature>
  Signature* Function(const std::string& name) {
    void* const symbol = dlsym(handle_, (prefix_ + "_" + name).c_str());
    EXPECT_NE(symbol, nullptr) << name;
    return reinterpret_cast<Signature*>(symbol);
  }

  void* const handle_;
  const std::string prefix_;
  std::string error_;
};

class LockInteropTest : public DbTestBase {
 protected:
  // Each holds the lock in turn while the other tries, in this process and in
  // another one.
  void ExpectEachExcludesTheOther(const std::string& library,
                                  const std::string& prefix) {
    Engine other(library, prefix);
    ASSERT_EQ(other.error(), "");
    // Varve has it.
    Open();
    ASSERT_TRUE(Ok(db_->Put({}, "a", "1")));
    const auto other_opens = [&] {
      void* const db = other.Open(path_);
      if (db != nullptr) other.Close(db);
      return db != nullptr ? 1 : 0;
    };
    const auto varve_opens = [&] {
      std::unique_ptr<DB> db;
      const Status status = DB::Open(options_, path_, &db);
      if (!status.ok() && !status.IsBusy()) return 2;
      return status.ok() ? 1 : 0;
    };
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(other_opens(), 0);
      EXPECT_NE(other.error(), "");
      EXPECT_EQ(RunForked(other_opens), 0);
      EXPECT_EQ(RunForked(varve_opens), 0);
    }
    ASSERT_TRUE(Ok(db_->Put({}, "b", "2")));
    Close();
    // The other has it.
    void* const db = other.Open(path_);
    ASSERT_NE(db, nullptr) << other.error();
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(varve_opens(), 0);
      EXPECT_EQ(RunForked(varve_opens), 0);
    }
    other.Close(db);
    EXPECT_EQ(RunForked(varve_opens), 1);
  }
};

TEST_F(LockInteropTest, RocksDb) {
  ExpectEachExcludesTheOther("librocksdb.so", "rocksdb");
}

TEST_F(LockInteropTest, LevelDb) {
  // LevelDB does not read databases of others. Only the lock counts here.
  Engine leveldb("libleveldb.so", "leveldb");
  ASSERT_EQ(leveldb.error(), "");
  void* const db = leveldb.Open(path_);
  ASSERT_NE(db, nullptr) << leveldb.error();
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(IsBusy(TryOpen()));
    EXPECT_EQ(RunForked([this] { return TryOpen().IsBusy() ? 0 : 1; }), 0);
  }
  leveldb.Close(db);
  Open();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(leveldb.Open(path_), nullptr);
    EXPECT_NE(leveldb.error().find("lock"), std::string::npos)
        << leveldb.error();
    EXPECT_EQ(RunForked([&] { return leveldb.Open(path_) != nullptr; }), 0);
  }
}

TEST_F(LockInteropTest, Ldb) {
  Open();
  ASSERT_TRUE(Ok(db_->Put({}, "a", "1")));
  const std::vector<std::string> put = {"ldb", "--db=" + path_, "put", "a",
                                        "2"};
  const ToolResult result = RunTool(put);
  EXPECT_NE(result.exit_code, 0) << result.Summary();
  EXPECT_EQ(Get("a"), "1");
  Close();
  RunOrFail(put);
  Open();
  EXPECT_EQ(Get("a"), "2");
}

TEST_F(LockInteropTest, SecondCopyOfVarveInTheProcess) {
  // Another file, so that the loader does not take it for one that it has.
  const std::string copy = dir_.Sub("libcopy.so");
  ASSERT_TRUE(std::filesystem::copy_file(VARVE_SHARED_PATH, copy));
  ExpectEachExcludesTheOther(copy, "varve");
}

}  // namespace
}  // namespace varve::test
