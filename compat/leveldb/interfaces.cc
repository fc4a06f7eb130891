// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// The virtual tables and the few bodies of the classes that programs implement.
#include <memory>

#include "compat/leveldb/convert.h"

namespace leveldb {

Comparator::~Comparator() = default;
FilterPolicy::~FilterPolicy() = default;
Cache::~Cache() = default;
SequentialFile::~SequentialFile() = default;
RandomAccessFile::~RandomAccessFile() = default;
WritableFile::~WritableFile() = default;
Logger::~Logger() = default;
FileLock::~FileLock() = default;
Snapshot::~Snapshot() = default;
DB::~DB() = default;
WriteBatch::Handler::~Handler() = default;

Env::Env() = default;
Env::~Env() = default;
EnvWrapper::~EnvWrapper() = default;

Status Env::NewAppendableFile(const std::string& path, WritableFile** file) {
  *file = nullptr;
  return {Status::kNotSupported, "NewAppendableFile", path};
}
Status Env::RemoveFile(const std::string& path) { return DeleteFile(path); }
Status Env::DeleteFile(const std::string& path) { return RemoveFile(path); }
Status Env::RemoveDir(const std::string& path) { return DeleteDir(path); }
Status Env::DeleteDir(const std::string& path) { return RemoveDir(path); }

Iterator::Iterator() = default;

Iterator::~Iterator() {
  if (cleanup_.function == nullptr) return;
  cleanup_.function(cleanup_.first, cleanup_.second);
  for (Cleanup* node = cleanup_.next; node != nullptr;) {
    node->function(node->first, node->second);
    delete std::exchange(node, node->next);
  }
}

// The first registered function runs first, then the others from the last one
// to the second one, as in LevelDB.
void Iterator::RegisterCleanup(CleanupFunction function, void* first,
                               void* second) {
  Cleanup* node = &cleanup_;
  if (cleanup_.function != nullptr) {
    node = new Cleanup{.next = cleanup_.next};
    cleanup_.next = node;
  }
  node->function = function;
  node->first = first;
  node->second = second;
}

namespace {

class EmptyIterator final : public Iterator {
 public:
  explicit EmptyIterator(const Status& status) : status_(status) {}
  bool Valid() const override { return false; }
  void SeekToFirst() override {}
  void SeekToLast() override {}
  void Seek(const Slice& /*target*/) override {}
  void Next() override {}
  void Prev() override {}
  Slice key() const override { return Slice(); }
  Slice value() const override { return Slice(); }
  Status status() const override { return status_; }

 private:
  const Status status_;
};

}  // namespace

Iterator* NewEmptyIterator() { return new EmptyIterator(Status()); }
Iterator* NewErrorIterator(const Status& status) {
  return new EmptyIterator(status);
}

Options::Options() : comparator(BytewiseComparator()), env(Env::Default()) {}

Status WriteStringToFile(Env* env, const Slice& data, const std::string& path) {
  WritableFile* file = nullptr;
  Status status = env->NewWritableFile(path, &file);
  if (!status.ok()) return status;
  status = file->Append(data);
  if (status.ok()) status = file->Close();
  delete file;
  if (!status.ok()) env->RemoveFile(path);
  return status;
}

Status ReadFileToString(Env* env, const std::string& path, std::string* data) {
  data->clear();
  SequentialFile* file = nullptr;
  Status status = env->NewSequentialFile(path, &file);
  if (!status.ok()) return status;
  constexpr size_t kReadBytes = 64 << 10;
  const std::unique_ptr<char[]> scratch(new char[kReadBytes]);
  while (true) {
    Slice read;
    status = file->Read(kReadBytes, &read, scratch.get());
    if (!status.ok() || read.empty()) break;
    data->append(read.data(), read.size());
  }
  delete file;
  return status;
}

}  // namespace leveldb
