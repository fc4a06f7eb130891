// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "varve/env.h"

#include <utility>

namespace varve {

Status RandomAccessFile::ReadAtLeast(uint64_t offset, size_t /*least*/,
                                     size_t count, Slice* result,
                                     char* scratch) const {
  return Read(offset, count, result, scratch);
}

void RandomAccessFile::MultiRead(ReadRequest* requests, size_t count) const {
  for (size_t i = 0; i < count; ++i) {
    ReadRequest& request = requests[i];
    request.status =
        Read(request.offset, request.length, &request.result, request.scratch);
  }
}

void Env::MultiRead(FileReadRequest* requests, size_t count,
                    const ReadDone& done) {
  for (size_t i = 0; i < count; ++i) {
    ReadRequest& read = requests[i].read;
    read.status = requests[i].file->Read(read.offset, read.length, &read.result,
                                         read.scratch);
    if (done) done(&requests[i]);
  }
}

void Env::OpenRandomAccessFiles(OpenRequest* requests, size_t count,
                                const FileOptions& options) {
  std::vector<FileReadRequest> reads;
  std::vector<OpenRequest*> readers;
  reads.reserve(count);
  readers.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    OpenRequest& request = requests[i];
    request.status = NewRandomAccessFile(request.path, options, &request.file);
    if (!request.status.ok() || request.length == 0) continue;
    reads.emplace_back();
    reads.back().file = request.file.get();
    reads.back().read.offset = request.offset;
    reads.back().read.length = request.length;
    reads.back().read.scratch = request.scratch;
    readers.push_back(&request);
  }
  MultiRead(reads.data(), reads.size());
  for (size_t i = 0; i < reads.size(); ++i) {
    OpenRequest& request = *readers[i];
    request.result = reads[i].read.result;
    request.status = std::move(reads[i].read.status);
    if (!request.status.ok()) request.file.reset();
  }
}

void RandomAccessFile::Prefetch(uint64_t /*offset*/, size_t /*count*/) const {}

bool WritableFile::TryStore(const Slice* /*parts*/, size_t /*count*/) {
  return false;
}

Status WritableFile::AppendParts(const Slice* parts, size_t count, bool flush) {
  for (size_t i = 0; i < count; ++i) {
    Status status = Append(parts[i]);
    if (!status.ok()) return status;
  }
  return flush ? Flush() : Status::OK();
}

void WritableFile::Allocate(uint64_t /*offset*/, uint64_t /*length*/) {}

Status WritableFile::Reserve(uint64_t offset, uint64_t length) {
  Allocate(offset, length);
  return Status::OK();
}

void WritableFile::Release() {}

void WritableFile::RangeSync(uint64_t /*offset*/, uint64_t /*length*/) {}

Status Env::GetFileId(const std::string& path, FileId* /*id*/) {
  return Status::NotSupported("stat " + path, "this Env knows no identities");
}

Status Env::GetFileModificationTime(const std::string& path,
                                    uint64_t* /*time_s*/) {
  return Status::NotSupported("GetFileModificationTime", path);
}

Status Env::SyncFile(const std::string& path) {
  return Status::NotSupported("sync " + path, "this Env opens no file for it");
}

std::unique_ptr<DirectoryEnv> Env::NewDirectoryEnv(
    const std::string& /*directory*/) {
  return nullptr;
}

DirectoryEnv::~DirectoryEnv() = default;
void DirectoryEnv::LetGo() {}

EnvWrapper::~EnvWrapper() = default;

void Log(LogLevel level, Logger* logger, const char* format, ...) {
  if (logger == nullptr) return;
  va_list arguments;
  va_start(arguments, format);
  logger->Logv(level, format, arguments);
  va_end(arguments);
}

Status ReadFileToString(Env* env, const std::string& path, std::string* data) {
  std::unique_ptr<SequentialFile> file;
  Status status = env->NewSequentialFile(path, FileOptions(), &file);
  if (!status.ok()) return status;
  // The size is not queried: it may change, or be wrong (as in /proc).
  constexpr size_t kChunkBytes = size_t{64} << 10;
  const auto scratch = std::make_unique<char[]>(kChunkBytes);
  std::string contents;
  Slice chunk;
  do {
    status = file->Read(kChunkBytes, &chunk, scratch.get());
    if (!status.ok()) return status;
    contents.append(chunk.data(), chunk.size());
  } while (!chunk.empty());
  *data = std::move(contents);
  return Status::OK();
}

Status WriteStringToFile(Env* env, const Slice& data, const std::string& path,
                         bool sync) {
  std::unique_ptr<WritableFile> file;
  Status status = env->NewWritableFile(path, FileOptions(), &file);
  if (!status.ok()) return status;
  status = file->Append(data);
  if (status.ok() && sync) status = file->Sync();
  if (status.ok()) status = file->Close();
  if (!status.ok()) {
    file.reset();
    // A partial file is useless. The first error is the one to report.
    env->RemoveFile(path).IgnoreError();
  }
  return status;
}

}  // namespace varve
