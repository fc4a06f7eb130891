// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: two threads that read the same keys from the cache, or find the same
// databases of a catalog, store to no common cache line, so that no line
// wanders between their processors. Method: this program starts itself under
// valgrind's lackey, which writes down each store. Its two threads live at the
// same time and read one after the other, so that each store of the trace is
// known to be of one of them.

#include <sys/syscall.h>
#include <unistd.h>

#include "test/testing/machine/store_trace.h"
#include "test/testing/temp_dir.h"
#include "test/testing/test_headers.h"
#include "varve/catalog.h"

namespace varve::test {
namespace {

constexpr int kKeys = 1000;
constexpr const char* kTracedArgument = "--traced";
constexpr int kThreads = 2;

// A thread's work in a traced region. Two regions each, in this order.
enum Work { kAddToShared, kGets, kFinds, kWorks };

std::string KeyOf(int number) {
  char text[32];
  snprintf(text, sizeof(text), "user%012d", number);
  return text;
}
std::string ValueOf(int number) { return KeyOf(number) + std::string(84, 'v'); }

Options DbOptions() {
  Options options;
  options.create_if_missing = true;
  options.compression = CompressionType::kNone;
  options.filter_policy = NewBloomFilterPolicy(10);
  // Two threads that take turns on one processor share its counters. And
  // valgrind has no restartable sequences.
  options.stats_level = StatsLevel::kDisableAll;
  return options;
}

constexpr const char* kNameForms[] = {"Oren", "oren", "oRen"};

std::string DbPath(const std::string& directory) { return directory + "/db"; }

// ---- The traced program -----------------------------------------------------

std::atomic<int> shared_counter = 0;

struct Traced {
  std::unique_ptr<DB> db;
  std::unique_ptr<Catalog> catalog;
  std::vector<std::string> keys;
  std::vector<std::string> values;
  std::atomic<int> wrong = 0;
};

// A thread waits for a byte from another one in read(2): unlike waiting for a
// semaphore, that is seen from outside.
class Turn {
 public:
  Turn() {
    if (pipe(ends_) != 0) abort();
  }
  ~Turn() {
    close(ends_[0]);
    close(ends_[1]);
  }
  void Give() {
    if (write(ends_[1], "", 1) != 1) abort();
  }
  void Await() {
    waiter_ = static_cast<pid_t>(syscall(SYS_gettid));
    char byte;
    if (read(ends_[0], &byte, 1) != 1) abort();
  }
  // Until the thread that awaits it has come to rest in the kernel.
  void UntilAwaited() const {
    char expected[32];
    snprintf(expected, sizeof(expected), "%d 0x%x ", int{SYS_read}, ends_[0]);
    for (;;) {
      const std::string call = ReadWholeFile(
          "/proc/self/task/" + std::to_string(waiter_) + "/syscall");
      if (call.empty()) {
        fprintf(stderr, "/proc does not tell where threads wait\n");
        _exit(1);
      }
      if (call.rfind(expected, 0) == 0) return;
      std::this_thread::yield();
    }
  }

 private:
  int ends_[2];
  std::atomic<pid_t> waiter_ = 0;
};

// One of the threads. It executes a command and gives the turn back.
// Thread-safety: thread-compatible.
class Reader {
 public:
  Reader(Traced* traced, Turn* back)
      : traced_(traced), back_(back), thread_([this] { Run(); }) {}
  ~Reader() {
    work_ = kWorks;
    told_.Give();
    thread_.join();
  }
  // `idle` is the other reader, null if nothing is to be traced.
  void Do(Work work, const Reader* idle) {
    work_ = work;
    idle_ = idle;
    told_.Give();
    back_->Await();
  }

 private:
  void Run() {
    std::string value;
    value.reserve(1000);
    for (;;) {
      told_.Await();
      if (work_ == kWorks) return;
      if (idle_ != nullptr) {
        // Or their last steps would be taken for this thread's.
        back_->UntilAwaited();
        idle_->told_.UntilAwaited();
        TraceMarkers::Begin();
      }
      int wrong = 0;
      if (work_ == kAddToShared) {
        shared_counter.fetch_add(1);
      } else {
        wrong = work_ == kGets ? ReadAll(&value) : FindAll();
      }
      if (idle_ != nullptr) TraceMarkers::End();
      traced_->wrong += wrong;
      back_->Give();
    }
  }
  // How many were wrong.
  int ReadAll(std::string* value) {
    int wrong = 0;
    const ReadOptions options;
    for (size_t i = 0; i < kKeys; i++) {
      const Status s = traced_->db->Get(options, traced_->keys[i], value);
      if (!s.ok() || *value != traced_->values[i]) wrong++;
    }
    return wrong;
  }

  // Gives each back before it finds the next.
  int FindAll() {
    int wrong = 0;
    for (int i = 0; i < kKeys; i++) {
      DatabaseRef ref;
      wrong += !traced_->catalog->Find(kNameForms[i % 3], &ref).ok();
    }
    return wrong;
  }

  Traced* const traced_;
  Turn* const back_;
  Work work_ = kWorks;
  const Reader* idle_ = nullptr;
  Turn told_;
  std::thread thread_;
};

int RunTraced(const std::string& directory) {
  Traced traced;
  Status s = DB::Open(DbOptions(), DbPath(directory), &traced.db);
  CatalogOptions catalog_options;
  catalog_options.options = DbOptions();
  catalog_options.create_if_missing = true;
  if (s.ok()) {
    s = Catalog::Open(catalog_options, directory + "/catalog", &traced.catalog);
  }
  if (s.ok()) s = traced.catalog->Create("Oren");
  if (!s.ok()) {
    fprintf(stderr, "%s\n", s.ToString().c_str());
    return 1;
  }
  for (int i = 0; i < kKeys; i++) {
    traced.keys.push_back(KeyOf(i));
    traced.values.push_back(ValueOf(i));
  }
  {
    Turn back;
    Reader a(&traced, &back), b(&traced, &back);
    // Fills the cache, binds symbols and allocates what threads keep.
    for (Work work : {kGets, kFinds}) {
      a.Do(work, nullptr);
      b.Do(work, nullptr);
    }
    TraceMarkers::Announce(directory);
    for (Work work : {kAddToShared, kGets, kFinds}) {
      a.Do(work, &b);
      b.Do(work, &a);
    }
    TraceMarkers::SaveMaps(directory);
  }
  if (traced.wrong != 0) {
    fprintf(stderr, "%d reads were wrong\n", traced.wrong.load());
    return 1;
  }
  return traced.db->Close().ok() ? 0 : 1;
}

// ---- The test ---------------------------------------------------------------

void MakeDatabase(const std::string& path) {
  std::unique_ptr<DB> db;
  ASSERT_EQ(DB::Open(DbOptions(), path, &db).ToString(), "OK");
  for (int i = 0; i < kKeys; i++) {
    ASSERT_EQ(db->Put({}, KeyOf(i), ValueOf(i)).ToString(), "OK");
  }
  ASSERT_EQ(db->CompactRange({}, nullptr, nullptr).ToString(), "OK");
  ASSERT_EQ(db->Close().ToString(), "OK");
}

std::vector<uint64_t> CommonLines(const StoredLines& a, const StoredLines& b) {
  std::vector<uint64_t> common;
  for (const auto& [line, instruction] : a) {
    if (b.count(line) != 0) common.push_back(line);
  }
  std::sort(common.begin(), common.end());
  return common;
}

TEST(GetSharingTest, TwoThreadsStoreToNoCommonLine) {
  TempDir dir;
  ASSERT_NO_FATAL_FAILURE(MakeDatabase(DbPath(dir.path())));
  char self[PATH_MAX] = "";
  ASSERT_GT(readlink("/proc/self/exe", self, sizeof(self) - 1), 0);
  const StoreTrace trace =
      StoreTracer(dir.path()).Run({self, kTracedArgument, dir.path()});
  ASSERT_EQ(trace.error, "");
  ASSERT_EQ(trace.regions.size(), size_t{kWorks} * kThreads);
  const auto region = [&](Work work, int thread) -> const StoredLines& {
    return trace.regions[static_cast<size_t>(work * kThreads + thread)];
  };

  // Checks the checker, which could pass by finding nothing.
  const auto must_find =
      CommonLines(region(kAddToShared, 0), region(kAddToShared, 1));
  ASSERT_FALSE(must_find.empty()) << "not even a common counter was seen";

  const TracedAddresses addresses(dir.path());
  for (const Work work : {kGets, kFinds}) {
    const StoredLines& a = region(work, 0);
    const StoredLines& b = region(work, 1);
    ASSERT_FALSE(a.empty());
    ASSERT_FALSE(b.empty());
    const std::vector<uint64_t> common = CommonLines(a, b);
    printf(
        "%d %s each: one thread stored to %zu lines, the other to %zu; "
        "%zu in common\n",
        kKeys, work == kGets ? "Gets" : "Finds", a.size(), b.size(),
        common.size());
    // One line of each pair of places that stored to some.
    std::map<std::pair<uint64_t, uint64_t>, std::vector<uint64_t>> places;
    for (uint64_t line : common) {
      places[{a.at(line), b.at(line)}].push_back(line);
    }
    for (const auto& [instructions, lines] : places) {
      printf("  %zu lines, the first %s\n    stored to at %s\n    and at %s\n",
             lines.size(),
             addresses.Describe(lines[0] * kCacheLineBytes).c_str(),
             addresses.Describe(instructions.first).c_str(),
             addresses.Describe(instructions.second).c_str());
    }
    EXPECT_EQ(common.size(), 0u);
  }
}

}  // namespace
}  // namespace varve::test

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == varve::test::kTracedArgument) {
    return varve::test::RunTraced(argv[2]);
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
