// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Creates and reads databases and tables for the tests, in a process of its
// own.
#include <leveldb/db.h>
#include <leveldb/dumpfile.h>
#include <leveldb/env.h>
#include <leveldb/filter_policy.h>
#include <leveldb/table.h>
#include <leveldb/table_builder.h>

#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

namespace {

int Fail(const leveldb::Status& status) {
  printf("%s\n", status.ToString().c_str());
  return 1;
}

std::string Key(int i) {
  char key[16];
  snprintf(key, sizeof(key), "%06d", i);
  return key;
}
// Some values have bytes that a text dump must escape.
std::string Value(int i) {
  return Key(i * 7) +
         (i % 10 == 3 ? std::string("\0\t\n\\\xff", 5) : std::string()) +
         std::string(i % 90, 'v');
}

// Prints the number of entries, and the first that is not as Key and Value.
int Check(leveldb::Iterator* iterator) {
  const std::unique_ptr<leveldb::Iterator> owned(iterator);
  int count = 0;
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next(), ++count) {
    if (iterator->key().ToString() != Key(count) ||
        iterator->value().ToString() != Value(count)) {
      printf("entry %d is %s\n", count, iterator->key().ToString().c_str());
      return 1;
    }
  }
  if (!iterator->status().ok()) return Fail(iterator->status());
  int back = 0;
  for (iterator->SeekToLast(); iterator->Valid(); iterator->Prev()) ++back;
  iterator->Seek(Key(count / 2) + "x");
  const bool sought =
      count < 3 ||
      (iterator->Valid() && iterator->key().ToString() == Key(count / 2 + 1));
  printf("%d entries%s\n", count,
         back == count && sought ? "" : ", but not in both directions");
  return back == count && sought ? 0 : 1;
}

leveldb::Options TableOptions() {
  static const std::unique_ptr<const leveldb::FilterPolicy> policy(
      leveldb::NewBloomFilterPolicy(10));
  leveldb::Options options;
  options.filter_policy = policy.get();
  options.block_size = 1024;
  return options;
}

int WriteTable(const char* path, int count) {
  leveldb::WritableFile* file;
  leveldb::Status status =
      leveldb::Env::Default()->NewWritableFile(path, &file);
  if (!status.ok()) return Fail(status);
  leveldb::TableBuilder builder(TableOptions(), file);
  for (int i = 0; i < count; ++i) builder.Add(Key(i), Value(i));
  status = builder.Finish();
  if (status.ok()) status = file->Close();
  delete file;
  if (!status.ok()) return Fail(status);
  printf("%d\n", static_cast<int>(builder.NumEntries()));
  return 0;
}

int ReadTable(const char* path) {
  leveldb::Env* const env = leveldb::Env::Default();
  uint64_t bytes;
  leveldb::RandomAccessFile* file;
  leveldb::Status status = env->GetFileSize(path, &bytes);
  if (status.ok()) status = env->NewRandomAccessFile(path, &file);
  if (!status.ok()) return Fail(status);
  leveldb::Table* table;
  status = leveldb::Table::Open(TableOptions(), file, bytes, &table);
  if (!status.ok()) return Fail(status);
  const int result = Check(table->NewIterator(leveldb::ReadOptions()));
  const uint64_t first = table->ApproximateOffsetOf("");
  const uint64_t last = table->ApproximateOffsetOf("999999");
  if ((bytes > 1024 && first != 0) || last > bytes ||
      (bytes > 4096 && last < bytes / 2))
    printf("offsets %d %d\n", int(first), int(last));
  delete table;
  delete file;
  return result;
}

int WriteDatabase(const char* path, int count) {
  leveldb::Options options;
  options.create_if_missing = true;
  leveldb::DB* db;
  leveldb::Status status = leveldb::DB::Open(options, path, &db);
  for (int i = 0; i < count && status.ok(); ++i) {
    status = db->Put(leveldb::WriteOptions(), Key(i), Value(i));
  }
  if (!status.ok()) return Fail(status);
  delete db;
  return 0;
}

class NoLogger : public leveldb::Logger {
 public:
  void Logv(const char* /*format*/, va_list /*arguments*/) override {}
};

int ReadDatabase(const char* path, leveldb::Logger* logger = nullptr) {
  leveldb::DB* db;
  leveldb::Options options;
  options.info_log = logger;
  const leveldb::Status status = leveldb::DB::Open(options, path, &db);
  if (!status.ok()) return Fail(status);
  const int result = Check(db->NewIterator(leveldb::ReadOptions()));
  delete db;
  return result;
}

// Prints what DumpFile appends.
int Dump(const char* path) {
  struct Printer : leveldb::WritableFile {
    leveldb::Status Append(const leveldb::Slice& data) override {
      fwrite(data.data(), 1, data.size(), stdout);
      return leveldb::Status::OK();
    }
    leveldb::Status Close() override { return leveldb::Status::OK(); }
    leveldb::Status Flush() override { return leveldb::Status::OK(); }
    leveldb::Status Sync() override { return leveldb::Status::OK(); }
  } printer;
  const leveldb::Status status =
      leveldb::DumpFile(leveldb::Env::Default(), path, &printer);
  return status.ok() ? 0 : Fail(status);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string command = argc > 2 ? argv[1] : "";
  if (command == "write-table") return WriteTable(argv[2], atoi(argv[3]));
  if (command == "read-table") return ReadTable(argv[2]);
  if (command == "write-db") return WriteDatabase(argv[2], atoi(argv[3]));
  if (command == "read-db") return ReadDatabase(argv[2]);
  if (command == "read-db-quietly") {
    NoLogger logger;
    return ReadDatabase(argv[2], &logger);
  }
  if (command == "signal-read-db") {
    // As an operator might, while the program has not opened it yet.
    raise(SIGUSR2);
    return ReadDatabase(argv[2]);
  }
  if (argc > 2 && command == "dump") return Dump(argv[2]);
  return 2;
}
