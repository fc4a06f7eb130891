// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "compat/shared/observer.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

#include "compat/shared/library.h"
#include "compat/shared/metrics.h"
#include "compat/shared/settings.h"
#include "varve/trace.h"

namespace varve::compat {
namespace {

// Signals that have not begun or ended a trace yet.
std::atomic<unsigned> waiting_signals{0};
// Wakes the thread. -1: it does not run.
std::atomic<int> signal_event{-1};

void OnSignal(int /*number*/) {
  const int saved = errno;
  // relaxed, both: the thread counts the signals after it was woken, or when it
  // begins.
  waiting_signals.fetch_add(1, std::memory_order_relaxed);
  const int event = signal_event.load(std::memory_order_relaxed);
  const uint64_t one = 1;
  // A full counter means that the thread has signals to read anyway.
  if (event >= 0) (void)!write(event, &one, sizeof(one));
  errno = saved;
}

// Without a handler, the signal would end the program.
void HandleTraceSignal(int number) {
  struct sigaction action = {};
  action.sa_handler = &OnSignal;
  action.sa_flags = SA_RESTART;
  sigaction(number, &action, nullptr);
}

// An operator may send the signal before the program opens a database.
[[gnu::constructor]] void HandleTraceSignalFromTheBeginning() {
  if (const int number = Settings::TraceSignal(); number != 0) {
    HandleTraceSignal(number);
  }
}

class Work {
 public:
  static Work& Get() {
    static auto* const work = new Work;
    return *work;
  }

  void Add(DB* db, const std::string& path) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!is_started_) StartLocked();
    databases_[db] = path;
    closed_.erase(path);
  }

  void Remove(DB* db) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = databases_.extract(db);
    // The last text of each path is kept, so that what a program that closes
    // its databases did is in the file at its end.
    if (!found.empty() && HasStatistics() && closed_.size() < kMaxClosed) {
      closed_[found.mapped()] = Text(db);
    }
  }

 private:
  static constexpr size_t kMaxClosed = 64;

  static bool HasStatistics() {
    return !Settings::Get().statistics_path.empty();
  }
  static std::string Text(DB* db) {
    std::string text;
    db->GetProperty("varve.prometheus", &text);
    return text;
  }

  void StartLocked() {
    is_started_ = true;
    const Settings& settings = Settings::Get();
    atexit([] { Get().Finish(); });
    if (!settings.trace_path.empty()) {
      if (settings.trace_signal == 0) {
        StartTrace();
      } else {
        event_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        // relaxed: see OnSignal.
        signal_event.store(event_, std::memory_order_relaxed);
        // The program may have installed another one.
        HandleTraceSignal(settings.trace_signal);
        TakeSignalsLocked();
      }
    }
    if (HasStatistics() || event_ >= 0) {
      // All signals go to the program's threads.
      sigset_t all;
      sigset_t before;
      sigfillset(&all);
      pthread_sigmask(SIG_SETMASK, &all, &before);
      pthread_t thread;
      if (pthread_create(
              &thread, nullptr,
              [](void*) -> void* {
                pthread_setname_np(pthread_self(), "varve:observe");
                Get().Run();
                return nullptr;
              },
              nullptr) == 0) {
        pthread_detach(thread);
      }
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
    }
  }

  void Run() {
    const int wait_ms =
        HasStatistics()
            ? static_cast<int>(Settings::Get().statistics_seconds * 1000)
            : -1;
    while (true) {
      pollfd event{event_, POLLIN, 0};
      const int ready = poll(&event, event_ >= 0 ? 1 : 0, wait_ms);
      uint64_t count = 0;
      if (ready > 0 && read(event_, &count, sizeof(count)) == sizeof(count)) {
        const std::lock_guard<std::mutex> lock(mutex_);
        TakeSignalsLocked();
      }
      WriteStatistics();
    }
  }

  void TakeSignalsLocked() {
    // relaxed: see OnSignal.
    if (waiting_signals.exchange(0, std::memory_order_relaxed) % 2 == 0) return;
    if (is_tracing_) {
      StopTrace();
    } else if (!is_finished_) {
      StartTrace();
    }
  }

  // The first trace has the path, the later ones a number after it.
  void StartTrace() {
    std::string path = Settings::Get().trace_path;
    if (traces_++ > 0) path += "." + std::to_string(traces_ - 1);
    trace::TraceOptions options;
    options.sampling = Settings::Get().trace_sampling;
    Status status = trace::NewChromeSink(path, &options.sink);
    if (status.ok()) status = trace::Start(options);
    is_tracing_ = status.ok();
    Report(status);
  }
  void StopTrace() {
    is_tracing_ = false;
    Report(trace::Stop());
  }

  void WriteStatistics() {
    if (!HasStatistics()) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    Metrics metrics;
    for (const auto& [path, text] : closed_) metrics.Add(path, text);
    for (const auto& [db, path] : databases_) metrics.Add(path, Text(db));
    Report(WriteStringToFile(Env::Default(), metrics.ToString(),
                             Settings::Get().statistics_path, /*sync=*/false));
  }

  // At the end of the process.
  void Finish() {
    if (getpid() != process_) return;  // A forked child: not its files.
    WriteStatistics();
    const std::lock_guard<std::mutex> lock(mutex_);
    is_finished_ = true;
    if (is_tracing_) StopTrace();
  }

  // Says once per process that the files of an operator cannot be written.
  void Report(const Status& status) {
    if (status.ok() || has_reported_) return;
    has_reported_ = true;
    fprintf(stderr, "%s: %s\n", kLibrary.program, status.ToString().c_str());
  }

  const pid_t process_ = getpid();
  std::mutex mutex_;
  int event_ = -1;  // See signal_event. Set before the thread starts.
  // Guarded by mutex_.
  bool is_started_ = false;
  bool is_finished_ = false;
  bool is_tracing_ = false;
  bool has_reported_ = false;
  int traces_ = 0;
  std::map<DB*, std::string> databases_;  // With their paths.
  std::map<std::string, std::string> closed_;
};

bool IsNeeded() {
  const Settings& settings = Settings::Get();
  return !settings.statistics_path.empty() || !settings.trace_path.empty();
}

}  // namespace

void Observer::Add(DB* db, const std::string& path) {
  if (IsNeeded()) Work::Get().Add(db, path);
}

void Observer::Remove(DB* db) {
  if (IsNeeded()) Work::Get().Remove(db);
}

}  // namespace varve::compat
