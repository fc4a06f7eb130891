// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a program may unload a plugin that was linked with the static library.
// Method: load it, use it from threads, close its database, unload it, and
// only then end the threads; again and again. Nothing may crash, and whatever
// is left of the library must find its code: its threads, and the calls that
// it has made at the ends of the program's threads.
//
// Usage: plugin_host PLUGIN DIRECTORY FUNCTION, which is what its threads call.

#include <dlfcn.h>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "test/testing/machine/live_threads.h"

namespace {

constexpr int kRounds = 5;
constexpr int kThreads = 4;

[[noreturn]] void Fail(const std::string& what) {
  fprintf(stderr, "plugin_host: %s\n", what.c_str());
  _Exit(1);
}

std::string ReadLines(const std::string& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

bool IsMapped(const std::string& plugin) {
  return ReadLines("/proc/self/maps").find(plugin) != std::string::npos;
}

void Run(void* plugin, const char* function, const char* path) {
  void* const symbol = dlsym(plugin, function);
  if (symbol == nullptr) Fail(std::string("no ") + function);
  const int error = path != nullptr
                        ? reinterpret_cast<int (*)(const char*)>(symbol)(path)
                        : reinterpret_cast<int (*)()>(symbol)();
  if (error != 0) Fail(std::string(function) + " failed");
}

// Threads that use the plugin, and live on until they are let go.
class Users {
 public:
  Users(void* plugin, const char* function) {
    for (int i = 0; i < kThreads; ++i) {
      threads_.emplace_back([this, plugin, function] {
        Run(plugin, function, nullptr);
        std::unique_lock lock(mutex_);
        ++done_;
        changed_.notify_all();
        changed_.wait(lock, [this] { return may_end_; });
      });
    }
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return done_ == kThreads; });
  }
  void End() {
    {
      const std::lock_guard lock(mutex_);
      may_end_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int done_ = 0;
  bool may_end_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) Fail("usage: plugin_host PLUGIN DIRECTORY FUNCTION");
  const std::string directory = argv[2];
  std::filesystem::remove_all(directory);
  for (int round = 0; round < kRounds; ++round) {
    void* const plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (plugin == nullptr) Fail(dlerror());
    // In threads of their own, which leave nothing that forbids unloading.
    std::thread(Run, plugin, "PluginOpen", directory.c_str()).join();
    Users users(plugin, argv[3]);
    std::thread(Run, plugin, "PluginClose", nullptr).join();
    dlclose(plugin);
    if (varve::test::CountLiveThreads("varve:") > 0 && !IsMapped(argv[1])) {
      Fail("threads of the library are in code that was unmapped");
    }
    users.End();
  }
  std::filesystem::remove_all(directory);
  puts("ok");
  return 0;
}
