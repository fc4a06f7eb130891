// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// follow serve DIRECTORY SOCKET: opens a database, puts the lines of standard
// input ("KEY VALUE") into it, and sends its updates to all who connect.
// follow copy DIRECTORY SOCKET: keeps a second database equal to it. It stores
// the number of the last update with the batch of the update, in one step, and
// asks for the next one whenever it connects. So both may be killed at any
// time.

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <iostream>
#include <memory>
#include <string>
#include <thread>

#include "varve/db.h"
#include "varve/transaction_log.h"

namespace {

// The copy's own key. The source must not have it.
constexpr char kLastKey[] = "\xff\xff follow: last update";

bool SendAll(int to, const void* bytes, size_t size) {
  const char* at = static_cast<const char*>(bytes);
  for (ssize_t sent; size > 0; at += sent, size -= static_cast<size_t>(sent)) {
    sent = send(to, at, size, MSG_NOSIGNAL);
    if (sent <= 0) return false;
  }
  return true;
}

bool ReceiveAll(int from, void* bytes, size_t size) {
  return size == 0 ||
         recv(from, bytes, size, MSG_WAITALL) == static_cast<ssize_t>(size);
}

sockaddr_un AddressOf(const char* path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  strncpy(address.sun_path, path, sizeof(address.sun_path) - 1);
  return address;
}

std::unique_ptr<varve::DB> Open(const char* directory) {
  varve::Options options;
  options.create_if_missing = true;
  options.WAL_ttl_seconds = 24 * 3600;  // For a copy that was away.
  std::unique_ptr<varve::DB> db;
  const varve::Status status = varve::DB::Open(options, directory, &db);
  if (!status.ok()) std::cerr << "follow: " << status.ToString() << '\n';
  return db;
}

// Sends the batches after the number that the copy asks with: for each the
// number of its last update, its size, and its bytes.
void Serve(varve::DB* db, int copy) {
  uint64_t last = 0;
  std::unique_ptr<varve::TransactionLogIterator> stream;
  varve::Status status;
  if (ReceiveAll(copy, &last, sizeof(last))) {
    status = db->GetUpdatesSince(last + 1, &stream);
  }
  while (stream != nullptr && status.ok()) {
    if (!stream->Valid()) {
      // Wakes at the next write. Now and then, an empty message finds out
      // whether the copy is still there.
      status = stream->status();
      if (!status.ok() || stream->Wait(1000000)) continue;
      const uint64_t nothing[2] = {0, 0};
      if (!SendAll(copy, nothing, sizeof(nothing))) break;
      continue;
    }
    const varve::BatchResult result = stream->GetBatch();
    const std::string& bytes = result.writeBatchPtr->Data();
    const uint64_t count = static_cast<uint64_t>(result.writeBatchPtr->Count());
    const uint64_t header[2] = {result.sequence + count - 1, bytes.size()};
    if (!SendAll(copy, header, sizeof(header)) ||
        !SendAll(copy, bytes.data(), bytes.size())) {
      break;
    }
    stream->Next();
  }
  // A gap or a removed log: a new copy must begin with a checkpoint.
  if (!status.ok()) std::cerr << "follow: " << status.ToString() << '\n';
  close(copy);
}

int RunServer(const char* directory, const char* path) {
  const std::shared_ptr<varve::DB> db = Open(directory);
  const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  const sockaddr_un address = AddressOf(path);
  unlink(path);
  if (db == nullptr ||
      bind(listener, reinterpret_cast<const sockaddr*>(&address),
           sizeof(address)) != 0 ||
      listen(listener, 8) != 0) {
    return 1;
  }
  std::thread([listener, db] {
    for (;;) {
      const int copy = accept(listener, nullptr, nullptr);
      if (copy >= 0)
        std::thread([copy, db] { Serve(db.get(), copy); }).detach();
    }
  }).detach();
  for (std::string key, value; std::cin >> key >> value;) {
    const varve::Status status = db->Put(varve::WriteOptions(), key, value);
    std::cout << (status.ok() ? key : status.ToString()) << std::endl;
  }
  pause();  // Copies may still read. A signal ends it.
  return 0;
}

int RunCopy(const char* directory, const char* path) {
  const std::unique_ptr<varve::DB> db = Open(directory);
  if (db == nullptr) return 1;
  const sockaddr_un address = AddressOf(path);
  for (;; usleep(50000)) {
    const int server = socket(AF_UNIX, SOCK_STREAM, 0);
    std::string text;
    const bool known = db->Get(varve::ReadOptions(), kLastKey, &text).ok();
    uint64_t last = known ? std::stoull(text) : 0;
    uint64_t header[2];
    bool good = connect(server, reinterpret_cast<const sockaddr*>(&address),
                        sizeof(address)) == 0 &&
                SendAll(server, &last, sizeof(last));
    while (good && ReceiveAll(server, header, sizeof(header))) {
      std::string bytes(header[1], '\0');
      if (!ReceiveAll(server, bytes.data(), bytes.size())) break;
      if (bytes.empty()) continue;
      varve::WriteBatch batch(std::move(bytes));
      batch.Put(kLastKey, std::to_string(header[0]));
      good = db->Write(varve::WriteOptions(), &batch).ok();
    }
    close(server);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 4 && strcmp(argv[1], "serve") == 0) {
    return RunServer(argv[2], argv[3]);
  }
  if (argc == 4 && strcmp(argv[1], "copy") == 0)
    return RunCopy(argv[2], argv[3]);
  std::cerr << "usage: follow {serve | copy} DIRECTORY SOCKET\n";
  return 2;
}
