// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "tools/db_bench/table_watch.h"

#include <dirent.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace varve {

bool IsTableName(const std::string& name) {
  return name.ends_with(".sst") || name.ends_with(".ldb");
}

FileSizes ReadFileSizes(const std::string& directory) {
  FileSizes sizes;
  DIR* const open = opendir(directory.c_str());
  if (open == nullptr) return sizes;
  while (const dirent* entry = readdir(open)) {
    const std::string name = entry->d_name;
    struct stat info = {};
    if (stat((directory + "/" + name).c_str(), &info) != 0) continue;
    if (!S_ISREG(info.st_mode)) continue;
    sizes.allocated_bytes += static_cast<uint64_t>(info.st_blocks) * 512;
    if (!IsTableName(name)) continue;
    ++sizes.tables;
    sizes.table_bytes += static_cast<uint64_t>(info.st_size);
  }
  closedir(open);
  return sizes;
}

Status TableWatch::Start(const std::string& directory) {
  Stop();
  directory_ = directory;
  counts_ = TableCounts();
  events_ = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  stop_event_ = eventfd(0, EFD_CLOEXEC);
  if (events_ < 0 || stop_event_ < 0 ||
      inotify_add_watch(events_, directory.c_str(), IN_CLOSE_WRITE) < 0) {
    const Status status = Status::FromErrno(directory, errno);
    Stop();
    return status;
  }
  // Reads a size soon after the file was closed: it may be removed later.
  thread_ = std::thread([this] {
    pollfd waited[] = {{.fd = events_, .events = POLLIN, .revents = 0},
                       {.fd = stop_event_, .events = POLLIN, .revents = 0}};
    while (poll(waited, 2, -1) >= 0 || errno == EINTR) {
      if ((waited[1].revents & POLLIN) != 0) return;
      const std::lock_guard<std::mutex> lock(mutex_);
      ReadEvents();
    }
  });
  return Status::OK();
}

void TableWatch::Stop() {
  if (thread_.joinable()) {
    const uint64_t one = 1;
    if (write(stop_event_, &one, sizeof(one)) != sizeof(one)) abort();
    thread_.join();
    const std::lock_guard<std::mutex> lock(mutex_);
    ReadEvents();
  }
  if (events_ >= 0) close(events_);
  if (stop_event_ >= 0) close(stop_event_);
  events_ = -1;
  stop_event_ = -1;
}

TableCounts TableWatch::Counts() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (events_ >= 0) ReadEvents();
  return counts_;
}

void TableWatch::ReadEvents() {
  alignas(inotify_event) char buffer[16384];
  for (;;) {
    const ssize_t size = read(events_, buffer, sizeof(buffer));
    if (size <= 0) return;
    for (ssize_t offset = 0; offset < size;) {
      inotify_event event;
      memcpy(&event, buffer + offset, sizeof(event));
      const char* const name = buffer + offset + sizeof(event);
      offset += static_cast<ssize_t>(sizeof(event) + event.len);
      if (event.len == 0 || !IsTableName(name)) continue;
      struct stat info = {};
      if (stat((directory_ + "/" + name).c_str(), &info) == 0) {
        ++counts_.tables;
        counts_.bytes += static_cast<uint64_t>(info.st_size);
      } else {
        ++counts_.missed;
      }
    }
  }
}

}  // namespace varve
