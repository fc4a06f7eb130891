// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Measures what many column families, databases and threads cost: the size of
// the logs beside an idle family, the memory of the memtables of a catalog with
// a budget, and the memory and time that many threads' cached SuperVersions
// need. See docs/results/column_families.md.

#include "tools/family_bench/family_bench.h"

#include <gflags/gflags.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tools/db_bench/db_bench_environment.h"
#include "util/base/random.h"
#include "varve/catalog.h"
#include "varve/db.h"
#include "varve/write_buffer_manager.h"

DEFINE_string(workload, "",
              "idle: one family of 16 is written once, the others all the time;"
              " catalog: databases of a catalog are written at random; threads:"
              " many threads read many families");
DEFINE_string(engine, "varve", "varve, or rocksdb for idle");
DEFINE_string(db, "", "Directory; what is there is replaced");
DEFINE_uint64(megabytes, 20000, "idle, catalog: millions of bytes to write");
DEFINE_uint64(budget, 256 << 20, "catalog: bytes of memtables; 0: no budget");
DEFINE_int32(databases, 1000, "catalog: databases");
DEFINE_int32(threads, 100, "threads: reading threads");
DEFINE_int32(families, 50, "threads: column families");

namespace varve::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kSeed = 1;

void Must(const Status& status) {
  if (status.ok()) return;
  fprintf(stderr, "%s\n", status.ToString().c_str());
  exit(1);
}

double Seconds(Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

// Returns bytes that do not compress.
std::string RandomValue(Random* random, size_t bytes) {
  std::string value(bytes, 0);
  for (char& byte : value) byte = static_cast<char>(random->Next());
  return value;
}

std::string Key(uint64_t number) {
  char key[17];
  snprintf(key, sizeof(key), "%016llx",
           static_cast<unsigned long long>(number));
  return key;
}

uint64_t LogBytes(const std::string& directory) {
  uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    std::error_code error;  // A log may be removed now.
    const uint64_t size = entry.path().extension() == ".log"
                              ? std::filesystem::file_size(entry.path(), error)
                              : 0;
    if (!error) bytes += size;
  }
  return bytes;
}

// A database with `count` column families.
struct Families {
  Families(const std::string& directory, int count) {
    DBOptions options;
    options.create_if_missing = true;
    options.create_missing_column_families = true;
    std::vector<ColumnFamilyDescriptor> descriptors;
    for (int i = 0; i < count; ++i) {
      descriptors.emplace_back(
          i == 0 ? kDefaultColumnFamilyName : "family" + std::to_string(i),
          ColumnFamilyOptions());
    }
    Must(DB::Open(options, directory, descriptors, &handles, &db));
  }
  // Returns the seconds that closing takes.
  double Close() {
    for (ColumnFamilyHandle* const handle : handles) delete handle;
    const auto start = Clock::now();
    Must(db->Close());
    return Seconds(Clock::now() - start);
  }

  std::unique_ptr<DB> db;
  std::vector<ColumnFamilyHandle*> handles;
};

uint64_t VarveBesideIdleFamily() {
  Families families(FLAGS_db, kIdleFamilies);
  Must(families.db->Put({}, families.handles.back(), "once", "value"));
  WriteBatch batch;
  const uint64_t peak = WriteBesideIdleFamily(
      FLAGS_db, FLAGS_megabytes * 1000000,
      [&](int family, const std::string& key, const std::string& value) {
        batch.Put(families.handles[static_cast<size_t>(family)], key, value);
      },
      [&] {
        Must(families.db->Write({}, &batch));
        batch.Clear();
      });
  std::string oldest;
  families.db->GetProperty("varve.oldest-log", &oldest);
  printf("varve.oldest-log: %s\n", oldest.c_str());
  families.Close();
  return peak;
}

void RunIdle() {
  const auto start = Clock::now();
  uint64_t peak = 0;
  if (FLAGS_engine == "varve") {
    peak = VarveBesideIdleFamily();
  } else {
#if defined(VARVE_HAVE_ROCKSDB)
    peak = RocksDbBesideIdleFamily(FLAGS_db, FLAGS_megabytes * 1000000);
#else
    fprintf(stderr, "RocksDB was not found when this was built\n");
    exit(1);
#endif
  }
  printf("idle: %llu MB written in %.1f s, logs at most %.1f MB\n",
         static_cast<unsigned long long>(FLAGS_megabytes),
         Seconds(Clock::now() - start), static_cast<double>(peak) / 1e6);
}

void RunCatalog() {
  CatalogOptions options;
  options.create_if_missing = true;
  options.options.write_buffer_manager =
      std::make_shared<WriteBufferManager>(FLAGS_budget, nullptr, true);
  std::unique_ptr<Catalog> catalog;
  Must(Catalog::Open(options, FLAGS_db, &catalog));
  std::vector<DatabaseRef> databases(static_cast<size_t>(FLAGS_databases));
  for (size_t i = 0; i < databases.size(); ++i) {
    const std::string name = "database" + std::to_string(i);
    Must(catalog->Create(name));
    Must(catalog->Find(name, &databases[i]));
  }
  Random random(kSeed);
  const std::string value = RandomValue(&random, 1000);
  const uint64_t updates = FLAGS_megabytes * 1000000 / (value.size() + 16);
  ResetPeakRss();
  size_t most_memtables = 0;
  const auto start = Clock::now();
  for (uint64_t i = 0; i < updates; ++i) {
    const uint64_t number = random.Next();
    Must(databases[number % databases.size()]->Put({}, Key(number), value));
    if (i % 1000 == 0) {
      most_memtables =
          std::max(most_memtables, catalog->GetCounts().memtable_bytes);
    }
  }
  const double seconds = Seconds(Clock::now() - start);
  printf(
      "catalog: %d databases, %.0f updates/s, memtables at most %.1f MiB, "
      "resident at most %.1f MiB\n",
      FLAGS_databases, static_cast<double>(updates) / seconds,
      static_cast<double>(most_memtables) / 1048576,
      static_cast<double>(PeakRssBytes()) / 1048576);
  databases.clear();
  Must(catalog->Close());
}

// Threads that have each read every family once, and then wait.
class Readers {
 public:
  Readers(Families* families, int count) : families_(families) {
    for (int i = 0; i < count; ++i) {
      threads_.emplace_back([this] { Run(); });
    }
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return waiting_ == count; });
  }
  ~Readers() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stop_ = true;
      changed_.notify_all();
    }
    for (std::thread& thread : threads_) thread.join();
  }
  // Lets all threads read every family again.
  void ReadAgain() {
    std::unique_lock<std::mutex> lock(mutex_);
    waiting_ = 0;
    ++round_;
    changed_.notify_all();
    changed_.wait(
        lock, [&] { return waiting_ == static_cast<int>(threads_.size()); });
  }

 private:
  void Run() {
    std::string value;
    int round = 0;
    while (true) {
      for (ColumnFamilyHandle* const handle : families_->handles) {
        Must(families_->db->Get({}, handle, "key", &value));
      }
      std::unique_lock<std::mutex> lock(mutex_);
      ++waiting_;
      changed_.notify_all();
      changed_.wait(lock, [&] { return stop_ || round_ > round; });
      if (stop_) return;
      round = round_;
    }
  }

  Families* const families_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int waiting_ = 0;
  int round_ = 0;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

// Returns the median time of a flush of one entry, in microseconds. It installs
// two SuperVersions, and finds the slots of all threads that have read the
// family.
double FlushMicros(Families* families, Readers* readers) {
  std::vector<double> micros;
  for (int round = 0; round < 20; ++round) {
    for (ColumnFamilyHandle* const handle : families->handles) {
      Must(families->db->Put({}, handle, "key", std::to_string(round)));
      const auto start = Clock::now();
      Must(families->db->Flush({}, handle));
      micros.push_back(Seconds(Clock::now() - start) * 1e6);
    }
    if (readers != nullptr) readers->ReadAgain();
  }
  std::nth_element(micros.begin(), micros.begin() + micros.size() / 2,
                   micros.end());
  return micros[micros.size() / 2];
}

void RunThreads() {
  Families families(FLAGS_db, FLAGS_families);
  for (ColumnFamilyHandle* const handle : families.handles) {
    Must(families.db->Put({}, handle, "key", "value"));
  }
  const double alone = FlushMicros(&families, nullptr);
  // The memory of the threads themselves.
  const auto rss = [] {
    ResetPeakRss();
    return static_cast<double>(PeakRssBytes());
  };
  Families few(FLAGS_db + "-one", 1);
  Must(few.db->Put({}, few.handles[0], "key", "value"));
  double before = rss();
  double of_threads = 0;
  {
    const Readers readers(&few, FLAGS_threads);
    of_threads = rss() - before;
  }
  before = rss();
  auto readers = std::make_unique<Readers>(&families, FLAGS_threads);
  const double of_slots = rss() - before;
  const double with_readers = FlushMicros(&families, readers.get());
  // The threads' slots remain until then.
  const double close_with_threads = families.Close();
  printf(
      "threads: %d threads, %d families: resident memory %.1f KiB with one "
      "family, %.1f KiB with all; median flush %.1f us without slots, %.1f us "
      "with slots of all threads; Close %.2f ms\n",
      FLAGS_threads, FLAGS_families, of_threads / 1024, of_slots / 1024, alone,
      with_readers, close_with_threads * 1e3);
  readers.reset();
  few.Close();
}

}  // namespace

uint64_t WriteBesideIdleFamily(
    const std::string& directory, uint64_t total_bytes,
    const std::function<void(int, const std::string&, const std::string&)>& put,
    const std::function<void()>& write) {
  constexpr uint64_t kUpdates = 20;
  constexpr size_t kValueBytes = 1000;
  Random random(kSeed);
  uint64_t written = 0, peak = 0;
  for (uint64_t batches = 1; written < total_bytes; ++batches) {
    const std::string value = RandomValue(&random, kValueBytes);
    for (uint64_t i = 0; i < kUpdates; ++i) {
      const uint64_t number = random.Next();
      put(static_cast<int>(number % (kIdleFamilies - 1)), Key(number), value);
      written += kValueBytes + 16;
    }
    write();
    if (batches % 500 == 0) peak = std::max(peak, LogBytes(directory));
  }
  return peak;
}

}  // namespace varve::bench

int main(int argc, char** argv) {
  gflags::SetUsageMessage("measures many column families and databases");
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  if (FLAGS_db.empty()) FLAGS_db = "/tmp/varve_family_bench";
  std::filesystem::remove_all(FLAGS_db);
  std::filesystem::remove_all(FLAGS_db + "-one");
  if (FLAGS_workload == "idle") {
    varve::bench::RunIdle();
  } else if (FLAGS_workload == "catalog") {
    varve::bench::RunCatalog();
  } else if (FLAGS_workload == "threads") {
    varve::bench::RunThreads();
  } else {
    fprintf(stderr, "--workload=idle, catalog or threads\n");
    return 1;
  }
  std::filesystem::remove_all(FLAGS_db);
  std::filesystem::remove_all(FLAGS_db + "-one");
  return 0;
}
