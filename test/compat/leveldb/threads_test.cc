// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: many databases of a process share one background thread, and flushes in
// the middle of compactions lose nothing. Method: threads fill databases with
// small write buffers, so that flushes and compactions of all of them overlap.
#include <atomic>
#include <thread>

#include "test/compat/leveldb/program.h"

namespace leveldb_test {
namespace {

constexpr int kWriters = 4;
constexpr int kDatabases = 12;
constexpr int kEntries = 6000;

std::string Key(int i) { return std::to_string(i * 7919 % 1000003); }
std::string Value(int database, int i) {
  return std::to_string(database) + ":" + std::to_string(i) +
         std::string(200, 'v');
}

int ThreadCount() {
  int count = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/self/task")) {
    count += entry.path().empty() ? 0 : 1;
  }
  return count;
}

TEST(LevelDbThreadsTest, DatabasesShareOneBackgroundThread) {
  const TestDirectory directory;
  leveldb::Options options = Creating();
  options.write_buffer_size = 64 << 10;
  options.max_file_size = 1 << 20;
  std::vector<std::unique_ptr<leveldb::DB>> databases;
  const int before = ThreadCount();
  for (int i = 0; i < kDatabases; ++i) {
    databases.push_back(OpenOrDie(options, directory / std::to_string(i)));
  }
  std::atomic<int> failures{0};
  std::atomic<int> running{kWriters};
  std::vector<std::thread> writers;
  for (int writer = 0; writer < kWriters; ++writer) {
    writers.emplace_back([&, writer] {
      for (int i = 0; i < kEntries; ++i) {
        for (int d = writer; d < kDatabases; d += kWriters) {
          failures += !databases[d]->Put({}, Key(i), Value(d, i)).ok();
          if (i % 100 == 99) {
            failures += Get(databases[d].get(), Key(i / 2)) != Value(d, i / 2);
          }
        }
      }
      --running;
    });
  }
  int most = 0;
  while (running > 0) {
    most = std::max(most, ThreadCount());
    leveldb::Env::Default()->SleepForMicroseconds(1000);
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(failures, 0);
  EXPECT_LE(most, before + kWriters + 1);
  for (int d = 0; d < kDatabases; ++d)
    databases[d]->CompactRange(nullptr, nullptr);
  databases.clear();
  for (int d = 0; d < kDatabases; ++d) {
    const auto db = OpenOrDie(options, directory / std::to_string(d));
    for (int i = 0; i < kEntries; ++i) {
      ASSERT_EQ(Get(db.get(), Key(i)), Value(d, i)) << d << " " << i;
    }
  }
}

}  // namespace
}  // namespace leveldb_test
