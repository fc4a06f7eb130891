// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: the classes of LevelDB's C++ headers do the same with every library,
// also where the program implements them. Method: uses each class, with the
// program's own comparator, filter policy, logger and Env, and prints what
// comes back. headers_test.py compares the output of two libraries.
//
// usage: every_class DIRECTORY

#include <leveldb/cache.h>
#include <leveldb/comparator.h>
#include <leveldb/db.h>
#include <leveldb/env.h>
#include <leveldb/filter_policy.h>
#include <leveldb/iterator.h>
#include <leveldb/options.h>
#include <leveldb/slice.h>
#include <leveldb/status.h>
#include <leveldb/table.h>
#include <leveldb/table_builder.h>
#include <leveldb/write_batch.h>

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace {

using leveldb::DB;
using leveldb::Options;
using leveldb::ReadOptions;
using leveldb::Slice;
using leveldb::Status;
using leveldb::WriteOptions;

// Prints the kind of a status: messages contain names of files.
void Report(const char* step, const Status& s) {
  std::printf("%s: %s\n", step,
              s.ok()                    ? "ok"
              : s.IsNotFound()          ? "not found"
              : s.IsCorruption()        ? "corruption"
              : s.IsIOError()           ? "IO error"
              : s.IsNotSupportedError() ? "not supported"
              : s.IsInvalidArgument()   ? "invalid argument"
                                        : "unknown");
}

void Require(const Status& s) {
  if (s.ok()) return;
  std::printf("unexpected: %s\n", s.ToString().c_str());
  std::exit(1);
}

// Orders by the key without its first byte, then by that.
class TailComparator : public leveldb::Comparator {
 public:
  int Compare(const Slice& a, const Slice& b) const override {
    const int order = Tail(a).compare(Tail(b));
    return order != 0 ? order : a.compare(b);
  }
  const char* Name() const override { return "tail"; }
  void FindShortestSeparator(std::string*, const Slice&) const override {}
  void FindShortSuccessor(std::string*) const override {}

 private:
  static Slice Tail(Slice key) {
    if (!key.empty()) key.remove_prefix(1);
    return key;
  }
};

// Counts its calls.
class CountingFilter : public leveldb::FilterPolicy {
 public:
  const char* Name() const override { return "counting"; }
  void CreateFilter(const Slice* keys, int n, std::string* dst) const override {
    ++created;
    for (int i = 0; i < n; i++)
      dst->push_back(keys[i].empty() ? 0 : keys[i][0]);
  }
  bool KeyMayMatch(const Slice& key, const Slice& filter) const override {
    ++asked;
    return key.empty() || filter.ToString().find(key[0]) != std::string::npos;
  }
  mutable std::atomic<int> created{0};
  mutable std::atomic<int> asked{0};
};

class CountingLogger : public leveldb::Logger {
 public:
  void Logv(const char* format, std::va_list arguments) override {
    char line[1000];
    std::vsnprintf(line, sizeof(line), format, arguments);
    ++lines;
  }
  std::atomic<int> lines{0};
};

// Counts files and work that go through it.
class CountingEnv : public leveldb::EnvWrapper {
 public:
  CountingEnv() : EnvWrapper(leveldb::Env::Default()) {}
  Status NewWritableFile(const std::string& name,
                         leveldb::WritableFile** file) override {
    ++files;
    return target()->NewWritableFile(name, file);
  }
  Status NewRandomAccessFile(const std::string& name,
                             leveldb::RandomAccessFile** file) override {
    ++reads;
    return target()->NewRandomAccessFile(name, file);
  }
  Status LockFile(const std::string& name, leveldb::FileLock** lock) override {
    ++locks;
    return target()->LockFile(name, lock);
  }
  std::atomic<int> files{0};
  std::atomic<int> reads{0};
  std::atomic<int> locks{0};
};

class PrintingHandler : public leveldb::WriteBatch::Handler {
 public:
  void Put(const Slice& key, const Slice& value) override {
    std::printf("  put %s=%s\n", key.ToString().c_str(),
                value.ToString().c_str());
  }
  void Delete(const Slice& key) override {
    std::printf("  delete %s\n", key.ToString().c_str());
  }
};

void UseSmallClasses() {
  const Status statuses[] = {
      Status::OK(),
      Status::NotFound("a", "b"),
      Status::Corruption("a"),
      Status::NotSupported("a", ""),
      Status::InvalidArgument("a", "b"),
      Status::IOError("file", "gone"),
  };
  for (const Status& s : statuses) {
    Status copy = s;
    Status moved = std::move(copy);
    std::printf("%s\n", moved.ToString().c_str());
  }
  const leveldb::Comparator* bytewise = leveldb::BytewiseComparator();
  std::string key = "abcdefghij";
  bytewise->FindShortestSeparator(&key, "abzz");
  std::printf("%s %s", bytewise->Name(), key.c_str());
  key =
      "\xff\xff"
      "a";
  bytewise->FindShortSuccessor(&key);
  std::printf(" %zu\n", key.size());

  std::unique_ptr<const leveldb::FilterPolicy> bloom(
      leveldb::NewBloomFilterPolicy(10));
  const Slice keys[] = {"one", "two", "three"};
  std::string filter;
  bloom->CreateFilter(keys, 3, &filter);
  std::printf("%s %zu", bloom->Name(), filter.size());
  for (unsigned char c : filter) std::printf(" %02x", c);
  std::printf(" %d\n", bloom->KeyMayMatch("two", filter));

  leveldb::WriteBatch batch;
  batch.Put("a", "1");
  batch.Delete("b");
  leveldb::WriteBatch more;
  more.Put("c", "3");
  batch.Append(more);
  std::printf("batch of %zu bytes\n", batch.ApproximateSize());
  leveldb::WriteBatch copy = batch;
  PrintingHandler handler;
  Report("Iterate", copy.Iterate(&handler));
  copy.Clear();
  std::printf("empty batch of %zu bytes\n", copy.ApproximateSize());
}

void UseCache() {
  static int deleted = 0;
  std::unique_ptr<leveldb::Cache> cache(leveldb::NewLRUCache(1600));
  const auto deleter = [](const Slice&, void* value) {
    ++deleted;
    delete static_cast<int*>(value);
  };
  for (int i = 0; i < 1000; i++) {
    cache->Release(cache->Insert(std::to_string(i), new int(i), 10, deleter));
  }
  std::printf("evicted: %d, charge: %d\n", deleted > 500,
              cache->TotalCharge() <= 1600 && cache->TotalCharge() > 200);
  leveldb::Cache::Handle* handle = cache->Lookup("999");
  std::printf("found: %d\n",
              handle != nullptr && *static_cast<int*>(cache->Value(handle)));
  cache->Erase("999");
  std::printf("erased: %d\n", cache->Lookup("999") == nullptr);
  cache->Release(handle);
  std::printf("ids differ: %d\n", cache->NewId() != cache->NewId());
  cache->Prune();
  std::printf("pruned: %zu\n", cache->TotalCharge());
  cache.reset();
  std::printf("deleted: %d\n", deleted);
}

void PrintAll(DB* db, const ReadOptions& options) {
  std::unique_ptr<leveldb::Iterator> it(db->NewIterator(options));
  std::string text;
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
    text += it->key().ToString() + "=" + it->value().ToString() + " ";
  }
  Report(text.c_str(), it->status());
  it->RegisterCleanup(
      [](void* a, void*) { std::printf("cleaned up: %s\n", (char*)a); },
      const_cast<char*>("iterator"), nullptr);
}

void UseDatabase(const std::string& name, Options options) {
  DB* raw = nullptr;
  Report("missing", DB::Open(options, name, &raw));
  options.create_if_missing = true;
  Require(DB::Open(options, name, &raw));
  std::unique_ptr<DB> db(raw);
  Require(db->Put(WriteOptions(), "ab", "1"));
  Require(db->Put(WriteOptions(), "ba", "2"));
  const leveldb::Snapshot* snapshot = db->GetSnapshot();
  leveldb::WriteBatch batch;
  batch.Put("cc", "3");
  batch.Delete("ab");
  WriteOptions synced;
  synced.sync = true;
  Report("Write", db->Write(synced, &batch));
  Report("Write without a batch", db->Write(synced, nullptr));
  ReadOptions moment;
  moment.snapshot = snapshot;
  PrintAll(db.get(), moment);
  PrintAll(db.get(), ReadOptions());
  std::string value = "as before";
  Report("Get", db->Get(ReadOptions(), "nothing", &value));
  std::printf("value: %s\n", value.c_str());
  Report("Get", db->Get(moment, "ab", &value));
  std::printf("value: %s\n", value.c_str());
  db->ReleaseSnapshot(snapshot);
  for (int i = 0; i < 5000; i++) {
    Require(db->Put(WriteOptions(), "k" + std::to_string(i),
                    std::string(200, static_cast<char>(i))));
  }
  const Slice begin("k1");
  const Slice end("k3");
  db->CompactRange(&begin, &end);
  db->CompactRange(nullptr, nullptr);
  int found = 0;
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; t++) {
    threads.emplace_back([&, t] {
      for (int i = t; i < 5000; i += 4) {
        std::string one;
        if (!db->Get(ReadOptions(), "k" + std::to_string(i), &one).ok() ||
            one != std::string(200, static_cast<char>(i))) {
          ++wrong;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::unique_ptr<leveldb::Iterator> it(db->NewIterator(ReadOptions()));
  for (it->SeekToLast(); it->Valid(); it->Prev()) ++found;
  std::printf("wrong: %d, entries: %d\n", wrong.load(), found);
  it->Seek("k42");
  std::printf("sought: %s\n", it->key().ToString().c_str());
  it.reset();
  uint64_t size = 0;
  const leveldb::Range range("", "zzzz");
  db->GetApproximateSizes(&range, 1, &size);
  std::string property;
  std::printf("size: %d, %d %d %d\n", size > 0,
              db->GetProperty("leveldb.num-files-at-level0", &property),
              db->GetProperty("leveldb.stats", &property),
              db->GetProperty("other", &property));
  db.reset();
  Options other = options;
  const TailComparator tail;
  other.comparator = options.comparator == leveldb::BytewiseComparator()
                         ? static_cast<const leveldb::Comparator*>(&tail)
                         : leveldb::BytewiseComparator();
  Report("another comparator", DB::Open(other, name, &raw));
  Report("RepairDB", leveldb::RepairDB(name, options));
  Require(DB::Open(options, name, &raw));
  db.reset(raw);
  Report("Get after RepairDB", db->Get(ReadOptions(), "k4999", &value));
  db.reset();
  Report("DestroyDB", leveldb::DestroyDB(name, options));
  std::vector<std::string> children;
  Report("GetChildren", options.env->GetChildren(name, &children));
}

void UseTable(const std::string& name) {
  leveldb::Env* env = leveldb::Env::Default();
  Options options;
  options.block_size = 512;
  leveldb::WritableFile* file = nullptr;
  Require(env->NewWritableFile(name, &file));
  uint64_t size = 0;
  {
    leveldb::TableBuilder builder(options, file);
    for (int i = 1000; i < 3000; i++) {
      builder.Add(std::to_string(i), std::string(50, 'v'));
      if (i == 2000) builder.Flush();
    }
    Report("status", builder.status());
    Report("ChangeOptions", builder.ChangeOptions(options));
    Report("Finish", builder.Finish());
    size = builder.FileSize();
    std::printf("entries: %llu\n",
                static_cast<unsigned long long>(builder.NumEntries()));
  }
  Require(file->Close());
  delete file;
  leveldb::RandomAccessFile* random = nullptr;
  Require(env->NewRandomAccessFile(name, &random));
  leveldb::Table* raw = nullptr;
  Require(leveldb::Table::Open(options, random, size, &raw));
  std::unique_ptr<leveldb::Table> table(raw);
  std::unique_ptr<leveldb::Iterator> it(table->NewIterator(ReadOptions()));
  int entries = 0;
  for (it->SeekToFirst(); it->Valid(); it->Next()) ++entries;
  it->Seek("1500x");
  std::printf("read: %d, sought: %s, offset: %d\n", entries,
              it->key().ToString().c_str(),
              table->ApproximateOffsetOf("2000") > 0);
  it.reset();
  table.reset();
  delete random;
}

// leveldb::Log, which Debian's library does not export.
void LogLine(leveldb::Logger* logger, const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  logger->Logv(format, arguments);
  va_end(arguments);
}

void UseEnv(const std::string& directory) {
  leveldb::Env* env = leveldb::Env::Default();
  const std::string name = directory + "/file";
  Require(leveldb::WriteStringToFile(env, "some text", name));
  std::string text;
  Require(leveldb::ReadFileToString(env, name, &text));
  uint64_t size = 0;
  Require(env->GetFileSize(name, &size));
  std::printf("%s, %d bytes, exists: %d\n", text.c_str(),
              static_cast<int>(size), env->FileExists(name));
  Report("RenameFile", env->RenameFile(name, name + "2"));
  Report("RemoveFile", env->RemoveFile(name + "2"));
  Report("RemoveFile again", env->RemoveFile(name + "2"));
  Report("CreateDir", env->CreateDir(directory + "/folder"));
  Report("RemoveDir", env->RemoveDir(directory + "/folder"));
  leveldb::FileLock* lock = nullptr;
  leveldb::FileLock* second = nullptr;
  Report("LockFile", env->LockFile(directory + "/lock", &lock));
  Report("LockFile again", env->LockFile(directory + "/lock", &second));
  Report("UnlockFile", env->UnlockFile(lock));
  std::atomic<bool> ran{false};
  env->Schedule(
      [](void* a) { static_cast<std::atomic<bool>*>(a)->store(true); }, &ran);
  while (!ran) env->SleepForMicroseconds(100);
  leveldb::Logger* logger = nullptr;
  Require(env->NewLogger(directory + "/log", &logger));
  LogLine(logger, "number %d", 42);
  delete logger;
  Require(leveldb::ReadFileToString(env, directory + "/log", &text));
  std::printf("logged: %d\n", text.find("number 42") != std::string::npos);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string directory = argv[1];
  UseSmallClasses();
  UseCache();
  UseEnv(directory);
  UseTable(directory + "/table");
  UseDatabase(directory + "/plain", Options());

  const TailComparator comparator;
  const CountingFilter filter;
  CountingLogger logger;
  CountingEnv env;
  std::unique_ptr<leveldb::Cache> cache(leveldb::NewLRUCache(1 << 20));
  Options options;
  options.comparator = &comparator;
  options.filter_policy = &filter;
  options.info_log = &logger;
  options.env = &env;
  options.block_cache = cache.get();
  options.write_buffer_size = 100000;
  options.max_open_files = 100;
  options.paranoid_checks = true;
  options.compression = leveldb::kNoCompression;
  UseDatabase(directory + "/own", options);
  std::printf("filters: %d %d, lines: %d, files: %d %d, locks: %d\n",
              filter.created > 0, filter.asked > 0, logger.lines > 0,
              env.files > 3, env.reads > 0, env.locks > 0);
  return 0;
}
