// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Times backups and restores of a database, and a writer during backups.
// Compiled twice, with Varve and with RocksDB's own headers and
// library, so that both do the same.
//
// Usage: backup_bench DIRECTORY [MEGABYTES [LIMITED_MEGABYTES_PER_SECOND]]

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#ifdef VARVE_MOVED
#include "varve/rocksdb.h"
#else
#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/utilities/backup_engine.h>
#endif

namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kValueBytes = 1000;
constexpr int kPauseMicros = 200;
constexpr auto kIdleTime = std::chrono::seconds(10);

void Require(const rocksdb::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// A generator of SplitMix64's kind.
class Noise {
 public:
  explicit Noise(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    uint64_t x = state_ += 0x9E3779B97F4A7C15;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
    return x ^ (x >> 31);
  }
  std::string Bytes(uint64_t count) {
    std::string bytes;
    while (bytes.size() < count) {
      const uint64_t word = Next();
      bytes.append(reinterpret_cast<const char*>(&word), sizeof(word));
    }
    bytes.resize(count);
    return bytes;
  }

 private:
  uint64_t state_;
};

std::string Key(uint64_t number) {
  char text[24];
  std::snprintf(text, sizeof(text), "%016llu",
                static_cast<unsigned long long>(number));
  return text;
}

// Writes small values with a pause between them, and keeps the times.
class Writer {
 public:
  Writer(rocksdb::DB* db, uint64_t key_count)
      : db_(db), key_count_(key_count), thread_([this] { Run(); }) {}
  ~Writer() {
    if (thread_.joinable()) thread_.join();
  }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  void Finish(const char* what) {
    stop_ = true;
    thread_.join();
    std::sort(times_us_.begin(), times_us_.end());
    const auto part = [&](double share) {
      const auto index =
          static_cast<size_t>(share * static_cast<double>(times_us_.size()));
      return times_us_[std::min(index, times_us_.size() - 1)];
    };
    std::printf("  %s: %zu writes, us: P50 %.0f P99 %.0f P99.9 %.0f max %.0f\n",
                what, times_us_.size(), part(0.5), part(0.99), part(0.999),
                times_us_.back());
    std::fflush(stdout);
  }

 private:
  void Run() {
    Noise noise(7);
    const std::string value = noise.Bytes(100);
    do {
      const std::string key = Key(noise.Next() % key_count_);
      const Clock::time_point start = Clock::now();
      Require(db_->Put(rocksdb::WriteOptions(), key, value));
      times_us_.push_back(SecondsSince(start) * 1e6);
      std::this_thread::sleep_for(std::chrono::microseconds(kPauseMicros));
    } while (!stop_);
  }

  rocksdb::DB* const db_;
  const uint64_t key_count_;
  std::vector<double> times_us_;
  std::atomic<bool> stop_{false};
  std::thread thread_;  // Last: it uses the others.
};

std::unique_ptr<rocksdb::BackupEngine> OpenEngine(const std::string& path,
                                                  uint64_t rate) {
  rocksdb::BackupEngineOptions options(path);
  options.backup_rate_limit = rate;
  rocksdb::BackupEngine* engine = nullptr;
  Require(
      rocksdb::BackupEngine::Open(options, rocksdb::Env::Default(), &engine));
  return std::unique_ptr<rocksdb::BackupEngine>(engine);
}

void BackUp(rocksdb::DB* db, uint64_t key_count, const std::string& path,
            uint64_t rate, const char* what) {
  const auto engine = OpenEngine(path, rate);
  Writer writer(db, key_count);
  const Clock::time_point start = Clock::now();
  Require(engine->CreateNewBackup(rocksdb::CreateBackupOptions(), db));
  std::printf("%s: %.2f s\n", what, SecondsSince(start));
  writer.Finish(what);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const std::string directory = argv[1];
  const uint64_t megabytes =
      argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 64;
  const uint64_t rate =
      (argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 50) * 1'000'000;
  const uint64_t key_count = megabytes * 1'000'000 / kValueBytes;
  rocksdb::Options options;
  options.create_if_missing = true;
  options.compression = rocksdb::kNoCompression;
  rocksdb::DB* opened = nullptr;
  Require(rocksdb::DB::Open(options, directory + "/db", &opened));
  std::unique_ptr<rocksdb::DB> db(opened);
  Noise noise(1);
  for (uint64_t i = 0; i < key_count; ++i) {
    Require(db->Put(rocksdb::WriteOptions(), Key(i), noise.Bytes(kValueBytes)));
  }
  Require(db->Flush(rocksdb::FlushOptions()));
  Require(db->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr));

  std::printf("%llu MB\n", static_cast<unsigned long long>(megabytes));
  {
    Writer writer(db.get(), key_count);
    std::this_thread::sleep_for(kIdleTime);
    writer.Finish("no backup");
  }
  const std::string backups = directory + "/backups";
  BackUp(db.get(), key_count, backups, 0, "backup");
  BackUp(db.get(), key_count, backups, 0, "backup again");
  const auto engine = OpenEngine(backups, 0);
  Clock::time_point start = Clock::now();
  Require(engine->VerifyBackup(1, true));
  std::printf("verification: %.2f s\n", SecondsSince(start));
  Require(engine->PurgeOldBackups(0));
  BackUp(db.get(), key_count, backups, rate, "backup with a limit");
  // So that a disk needs space for no more than two copies.
  db.reset();
  Require(rocksdb::DestroyDB(directory + "/db", options));
  const std::string restored = directory + "/restored";
  const auto reopened = OpenEngine(backups, 0);
  start = Clock::now();
  Require(reopened->RestoreDBFromLatestBackup(rocksdb::RestoreOptions(),
                                              restored, restored));
  std::printf("restore: %.2f s\n", SecondsSince(start));
  return 0;
}
