// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: in a child made by fork() an inherited database neither hangs nor
// changes anything while its parent has it, whatever threads were doing at the
// moment of the fork; and it is the child's when the parent has ended. Method:
// children use, close and destroy the databases of parents that are idle, busy
// and dead.

#include <dlfcn.h>
#include <execinfo.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/testing/db_helpers.h"
#include "test/testing/directory.h"
#include "test/testing/env/hook_env.h"
#include "test/testing/forked.h"
#include "test/testing/sanitizers.h"
#include "test/testing/test_headers.h"
#include "varve/catalog.h"
#include "varve/read_transaction.h"

namespace varve::test {
namespace {

class DbForkTest : public DbTestBase {
 protected:
  // A thread waits for its end, which a child does not have.
  DbForkTest() { options_.ttl = 100000000; }

  void Fill(DB* db, int count, const std::string& value) {
    for (int i = 0; i < count; ++i) {
      ASSERT_TRUE(Ok(db->Put({}, Key(i), value)));
    }
  }
  void ExpectFilled(int count, const std::string& value) {
    for (int i = 0; i < count; ++i) ASSERT_EQ(Get(Key(i)), value) << i;
  }
};

std::unique_ptr<DB>* global_db = nullptr;

TEST_F(DbForkTest, ResumeInAChildWaitsForNoSyncOfTheParent) {
  HookEnv env(kSyncDirectoryOperation);
  std::atomic<bool> waits{false}, is_waiting{false};
  env.hook = [&](const std::string&) {
    while (waits) {
      is_waiting = true;
      std::this_thread::yield();
    }
    return Status::OK();
  };
  options_.env = &env;
  Open();
  Put("a", "1");
  waits = true;
  std::thread other([this] { EXPECT_TRUE(Ok(db_->Flush({}))); });
  while (!is_waiting) std::this_thread::yield();
  EXPECT_EQ(RunForked([this] { return db_->Resume().ok() ? 1 : 0; }, 10), 0);
  waits = false;
  other.join();
  EXPECT_EQ(Get("a"), "1");
  db_.reset();
}

TEST_F(DbForkTest, ChildClosesAndDestroysWithoutATrace) {
  options_.manual_wal_flush = true;  // Some of it is in this process's memory.
  Open();
  Fill(db_.get(), 5000, "a");
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  Put("last", "1");
  const auto before = ReadDirectory(path_);
  EXPECT_EQ(RunForked([this] {
              db_.reset();
              return 0;
            }),
            0);
  EXPECT_EQ(RunForked([this] { return db_->Close().ok() ? 0 : 1; }), 0);
  EXPECT_TRUE(before == ReadDirectory(path_)) << "a child has written";
  std::unique_ptr<DB> second;
  EXPECT_TRUE(DB::Open(options_, path_, &second).IsBusy());
  Fill(db_.get(), 5000, "b");
  Reopen();
  ExpectFilled(5000, "b");
  EXPECT_EQ(Get("last"), "1");
}

// A program may have a database in a static variable, and a child that ends by
// exit, which runs its destructor.
TEST_F(DbForkTest, ExitOfAChildDestroysGlobalDatabases) {
  Open();
  Fill(db_.get(), 100, "a");
  global_db = &db_;
  EXPECT_EQ(RunForked([]() -> int {
              atexit([] {
                global_db->reset();
                _exit(7);  // Not the test program's own handlers.
              });
              exit(1);
            }),
            7);
  Fill(db_.get(), 100, "b");
  Reopen();
  ExpectFilled(100, "b");
}

TEST_F(DbForkTest, ChildIsRefusedItsParentsDatabase) {
  Open();
  Fill(db_.get(), 100, "a");
  const auto before = ReadDirectory(path_);
  EXPECT_EQ(RunForked([this] {
              const Status put = db_->Put({}, "x", "y");
              if (!put.IsBusy()) return 1;
              if (!Contains(put.message(), std::to_string(getppid()))) return 2;
              if (!db_->Flush({}).IsBusy()) return 3;
              if (!db_->SyncWAL().IsBusy()) return 4;
              if (!db_->CompactRange({}, nullptr, nullptr).IsBusy()) return 5;
              if (!db_->CreateCheckpoint(dir_.Sub("copy")).IsBusy()) return 6;
              if (!db_->Resume().IsBusy()) return 7;
              std::string value;
              if (!db_->Get({}, Key(1), &value).ok() || value != "a") return 8;
              if (!db_->Get({}, "x", &value).IsNotFound()) return 9;
              return db_->Close().ok() ? 0 : 10;
            }),
            0);
  EXPECT_TRUE(before == ReadDirectory(path_)) << "a child has written";
  Put("x", "z");
  Reopen();
  EXPECT_EQ(Get("x"), "z");
}

TEST_F(DbForkTest, MappedLogIsNotCutByAChild) {
  options_.wal_write = WriteMethod::kMap;
  Open();
  Put("a", "1");
  ForkedHolder child([] { return true; });
  Put("b", std::string(10000, 'x'));
  const auto destroy = [this] {
    db_.reset();
    return 0;
  };
  EXPECT_EQ(RunForked(destroy), 0);
  child.End();
  Put("c", "3");
  // As if this process were killed here.
  const std::string copy = dir_.Sub("copy");
  std::filesystem::copy(path_, copy);
  std::unique_ptr<DB> db;
  ASSERT_TRUE(Ok(DB::Open(options_, copy, &db)));
  EXPECT_TRUE(HasEntries(
      db.get(), {{"a", "1"}, {"b", std::string(10000, 'x')}, {"c", "3"}}));
}

// The thread sanitizer's own locks are not made free in the child.
#if !defined(VARVE_TEST_THREAD_SANITIZED)

constexpr int kHung = 99;
constexpr int kFrames = 64;

int stack_pipe = -1;

// Hands the stack over, if it can: the child ends in any case.
void EndWithStack(int) {
  void* frames[kFrames];
  const size_t count = static_cast<size_t>(backtrace(frames, kFrames));
  const ssize_t written = write(stack_pipe, frames, count * sizeof(void*));
  _exit(written > 0 ? kHung : 1);
}

// The names of this program's functions that have these addresses. By one run
// of addr2line, since each reads all debug information, which takes seconds.
std::string FunctionsAt(void* const* frames, ssize_t count) {
  Dl_info program;
  if (dladdr(reinterpret_cast<void*>(&EndWithStack), &program) == 0) return "?";
  std::string command =
      std::string("addr2line -f -p -C -e '") + program.dli_fname + "'";
  for (ssize_t i = 0; i < count; ++i) {
    Dl_info module;
    if (dladdr(frames[i], &module) == 0) continue;
    if (module.dli_fbase != program.dli_fbase) continue;
    char text[32];
    snprintf(
        text, sizeof(text), " %#tx",
        static_cast<char*>(frames[i]) - static_cast<char*>(module.dli_fbase));
    command += text;
  }
  FILE* output = popen(command.c_str(), "r");
  if (output == nullptr) return "?";
  std::string names;
  char text[1000];
  while (fgets(text, sizeof(text), output) != nullptr) names += text;
  pclose(output);
  return names;
}

// As RunForked, but returns kHung if the child does not end, and where it was.
int RunForkedWithStack(const std::function<int()>& body, unsigned seconds,
                       std::string* stack) {
  void* frames[kFrames];
  backtrace(frames, kFrames);  // Its first call allocates.
  int ends[2];
  if (pipe(ends) != 0) return -1;
  stack_pipe = ends[1];
  const int outcome = RunForked(
      [&] {
        signal(SIGALRM, EndWithStack);
        return body();
      },
      seconds);
  close(ends[1]);
  const ssize_t size = read(ends[0], frames, sizeof(frames));
  close(ends[0]);
  const ssize_t count = size / static_cast<ssize_t>(sizeof(void*));
  *stack = count > 0 ? FunctionsAt(frames, count) : "";
  return outcome;
}

// The address sanitizer of Clang 16 does not make its allocator's locks free in
// a child either. The parent seldom holds one when it forks. The build without
// sanitizers, in which no function has such a name, tolerates no child that
// hangs.
bool IsInSanitizer(const std::string& stack) {
  return Contains(stack, "__asan::") || Contains(stack, "__sanitizer::");
}

// Returns what child `i` of a parent with busy threads returned. One that only
// met a lock of the sanitizer has returned 0.
int RunBesideThreads(const std::function<int()>& body, int i) {
  std::string stack;
  int outcome = RunForkedWithStack(body, 60, &stack);
  if (outcome == kHung && IsInSanitizer(stack)) {
    printf("child %d met a lock of the sanitizer:\n%s", i, stack.c_str());
    outcome = 0;
  }
  EXPECT_EQ(outcome, 0) << "child " << i << "\n" << stack;
  return outcome;
}

[[gnu::noinline]] int WaitForEver() {
  for (;;) pause();
}

TEST_F(DbForkTest, AChildThatHangsSaysWhere) {
  std::string stack;
  EXPECT_EQ(RunForkedWithStack([] { return WaitForEver(); }, 1, &stack), kHung);
  EXPECT_TRUE(Contains(stack, "WaitForEver")) << stack;
  EXPECT_FALSE(IsInSanitizer(stack)) << stack;
  EXPECT_EQ(RunForkedWithStack([] { return 7; }, 60, &stack), 7);
  EXPECT_EQ(stack, "");
}

// A child whose parent was in the middle of everything.
TEST_F(DbForkTest, ChildrenOfABusyParentEnd) {
  Open();
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; !stop; ++i) {
        const std::string key = std::to_string(t) + "/" + Key(i % 5000);
        EXPECT_TRUE(Ok(db_->Put({}, key, std::to_string(i))));
        std::string value;
        EXPECT_TRUE(Ok(db_->Get({}, key, &value)));
        if (i % 100 == 0) {
          auto it = db_->NewIterator({});
          for (it->SeekToFirst(); it->Valid() && i % 700 != 0; it->Next()) {
          }
        }
        if (i % 1000 == 0) {
          EXPECT_TRUE(Ok(db_->Flush({})));
        }
      }
    });
  }
  int failed = 0;
  for (int i = 0; i < 60 && failed == 0; ++i) {
    failed = RunBesideThreads(
        [&] {
          if (i % 3 == 0 && !db_->Put({}, "x", "y").IsBusy()) return 1;
          if (i % 3 == 1 && !db_->Close().ok()) return 2;
          db_.reset();
          return 0;
        },
        i);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  ASSERT_EQ(failed, 0);
  ASSERT_TRUE(Ok(db_->VerifyChecksum()));
  EXPECT_EQ(Get("x"), "NotFound");
  Reopen();
  EXPECT_EQ(Get("x"), "NotFound");
  EXPECT_TRUE(Ok(db_->VerifyChecksum()));
}

// A child waits for nobody who was opening another database.
TEST_F(DbForkTest, ChildrenOpenDatabasesWhileTheParentDoes) {
  std::atomic<bool> stop{false};
  std::atomic<int> opens{0};
  std::thread other([&] {
    for (; !stop; ++opens) {
      std::unique_ptr<DB> db;
      EXPECT_TRUE(Ok(DB::Open(options_, path_, &db)));
      EXPECT_TRUE(Ok(db->Put({}, "k", "v")));
    }
  });
  while (opens == 0) std::this_thread::yield();
  int failed = 0;
  for (int i = 0; i < 40 && failed == 0; ++i) {
    failed = RunBesideThreads(
        [&] {
          std::unique_ptr<DB> own;
          const std::string path = dir_.Sub("own" + std::to_string(i));
          if (!DB::Open(options_, path, &own).ok()) return 1;
          if (!own->Put({}, "k", "v").ok()) return 2;
          return own->Close().ok() ? 0 : 3;
        },
        i);
  }
  stop = true;
  other.join();
}

#endif

TEST_F(DbForkTest, IteratorsSnapshotsAndCatalogsEndInAChild) {
  Open();
  Fill(db_.get(), 3000, "a");
  auto it = db_->NewIterator({});
  it->SeekToFirst();
  const Snapshot* snapshot = db_->GetSnapshot();
  CatalogOptions options;
  options.options = options_;
  options.create_if_missing = true;
  std::unique_ptr<Catalog> catalog;
  ASSERT_TRUE(Ok(Catalog::Open(options, dir_.Sub("root"), &catalog)));
  ASSERT_TRUE(Ok(catalog->Create("c")));
  DatabaseRef ref;
  ASSERT_TRUE(Ok(catalog->Find("c", &ref)));
  Fill(ref.get(), 3000, "a");
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  ASSERT_TRUE(Ok(ref->WaitForCompact()));
  EXPECT_EQ(RunForked([&] {
              it.reset();
              db_->ReleaseSnapshot(snapshot);
              db_.reset();
              ref.Reset();
              catalog.reset();
              return 0;
            }),
            0);
  it->SeekToLast();
  EXPECT_TRUE(it->Valid());
  it.reset();
  db_->ReleaseSnapshot(snapshot);
  Fill(ref.get(), 3000, "b");
  ref.Reset();
  EXPECT_TRUE(Ok(catalog->Close()));
  Reopen();
  ExpectFilled(3000, "a");
}

// The sanitizer ends a child of a process with threads that starts its own.
#if !defined(VARVE_TEST_SANITIZED)

TEST_F(DbForkTest, ChildOpensDatabasesOfItsOwn) {
  Open();
  Fill(db_.get(), 5000, "a");
  ASSERT_TRUE(Ok(db_->WaitForCompact()));  // There are threads now.
  EXPECT_EQ(RunForked([this] {
              std::unique_ptr<DB> own;
              if (!DB::Open(options_, dir_.Sub("own"), &own).ok()) return 1;
              for (int i = 0; i < 5000; ++i) {
                if (!own->Put({}, Key(i), "b").ok()) return 2;
              }
              if (!own->Flush({}).ok()) return 3;
              if (!own->CompactRange({}, nullptr, nullptr).ok()) return 4;
              if (!own->Close().ok()) return 5;
              db_.reset();
              return 0;
            }),
            0);
}

// A program that opens its database, and then becomes a daemon.
TEST_F(DbForkTest, DaemonGoesOnWithTheDatabase) {
  for (const int forks : {1, 2}) {
    path_ = dir_.Sub("db" + std::to_string(forks));
    int ready[2];
    int go[2];
    ASSERT_EQ(pipe(ready), 0);
    ASSERT_EQ(pipe(go), 0);
    const pid_t parent = fork();
    ASSERT_GE(parent, 0);
    if (parent == 0) {
      close(go[1]);
      close(ready[0]);
      bool ok = TryOpen().ok();
      for (int i = 0; i < 5000; ++i) ok = ok && db_->Put({}, Key(i), "a").ok();
      ok = ok && db_->Flush({}).ok() && db_->WaitForCompact().ok();
      for (int i = 0; i < forks; ++i) {
        if (fork() != 0) _exit(0);
      }
      alarm(60);
      for (int i = 0; i < 5000; ++i) ok = ok && db_->Put({}, Key(i), "b").ok();
      ok = ok && db_->Flush({}).ok() && db_->WaitForCompact().ok();
      ok = ok && db_->Put({}, "last", "1").ok();
      char byte = ok ? 'y' : 'n';
      if (write(ready[1], &byte, 1) != 1) _exit(1);
      if (read(go[0], &byte, 1) != 0) _exit(1);
      byte = db_->Close().ok() ? 'y' : 'n';
      if (write(ready[1], &byte, 1) != 1) _exit(1);
      _exit(0);
    }
    close(go[0]);
    close(ready[1]);
    ASSERT_EQ(waitpid(parent, nullptr, 0), parent);
    char byte = 0;
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    EXPECT_EQ(byte, 'y');
    EXPECT_TRUE(IsBusy(TryOpen()));
    close(go[1]);
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    EXPECT_EQ(byte, 'y');
    EXPECT_EQ(read(ready[0], &byte, 1), 0);  // It has ended.
    close(ready[0]);
    Open();
    ExpectFilled(5000, "b");
    EXPECT_EQ(Get("last"), "1");
    Close();
  }
}

#endif

}  // namespace
}  // namespace varve::test
