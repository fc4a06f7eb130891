// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "tools/varve/top/varve_top.h"

#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>

#include "db/version/version.h"
#include "env/file_names.h"
#include "env/lock_holder.h"
#include "env/stopwatch.h"
#include "monitoring/memory_accounting.h"
#include "tools/varve/top/foreign_statistics.h"
#include "tools/varve/varve_database.h"
#include "tools/varve/varve_json.h"
#include "tools/varve/varve_live.h"
#include "tools/varve/varve_text.h"

namespace varve {

namespace {

constexpr uint64_t kSecondUs = 1000000;
constexpr uint64_t kMaxIntervalS = 3600;

// A kind of operation: how many there were, and how long they took.
struct OperationRow {
  const char* name;
  Ticker count;  // kCount: the histogram's count, which is of all.
  HistogramType time;
};
constexpr OperationRow kOperations[] = {
    {"get", Ticker::kNumberKeysRead, HistogramType::kDbGet},
    {"write", Ticker::kNumberKeysWritten, HistogramType::kDbWrite},
    {"multiget", Ticker::kNumberMultiGetCalls, HistogramType::kDbMultiGet},
    {"seek", Ticker::kNumberDbSeek, HistogramType::kDbSeek},
    {"table_read", Ticker::kCount, HistogramType::kSstRead},
    {"wal_sync", Ticker::kCount, HistogramType::kWalFileSync},
    {"flush", Ticker::kCount, HistogramType::kFlushTime},
    {"compaction", Ticker::kCount, HistogramType::kCompactionTime},
};

enum class Unit : uint8_t { kCount, kBytes, kMicros };

struct RateRow {
  const char* name;
  Ticker ticker;
  Unit unit;
};
constexpr RateRow kRates[] = {
    {"user_writes", Ticker::kBytesWritten, Unit::kBytes},
    {"user_reads", Ticker::kBytesRead, Unit::kBytes},
    {"wal", Ticker::kWalFileBytes, Unit::kBytes},
    {"flushed", Ticker::kFlushWriteBytes, Unit::kBytes},
    {"compaction_reads", Ticker::kCompactReadBytes, Unit::kBytes},
    {"compaction_writes", Ticker::kCompactWriteBytes, Unit::kBytes},
    {"iterator_steps", Ticker::kNumberDbNext, Unit::kCount},
    {"stalled", Ticker::kStallMicros, Unit::kMicros},
    {"paced", Ticker::kPaceMicros, Unit::kMicros},
};

// The numbers of /proc about a process.
struct ProcessSample {
  uint64_t cpu_ticks = 0;
  uint64_t read_bytes = 0;
  uint64_t write_bytes = 0;
  uint64_t resident_bytes = 0;
  uint64_t anonymous_bytes = 0;
  uint64_t threads = 0;
};

// Returns the numbers of lines such as "VmRSS:   12 kB".
std::map<std::string, uint64_t> ReadFields(const std::string& path) {
  std::map<std::string, uint64_t> fields;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    const size_t colon = line.find(':');
    const size_t first = line.find_first_of("0123456789", colon);
    if (colon == line.npos || first == line.npos) continue;
    ParseNumber(
        line.substr(first, line.find_first_not_of("0123456789", first) - first),
        10, &fields[line.substr(0, colon)]);
  }
  return fields;
}

ProcessSample SampleProcess(uint64_t pid) {
  const std::string directory = "/proc/" + std::to_string(pid);
  ProcessSample sample;
  // Neither walks the page tables of the process, as smaps would.
  auto status = ReadFields(directory + "/status");
  sample.resident_bytes = status["VmRSS"] << 10;
  sample.anonymous_bytes = status["RssAnon"] << 10;
  sample.threads = status["Threads"];
  auto io = ReadFields(directory + "/io");
  sample.read_bytes = io["read_bytes"];
  sample.write_bytes = io["write_bytes"];
  std::ifstream in(directory + "/stat");
  std::string text((std::istreambuf_iterator<char>(in)), {});
  // The name of the program, in parentheses, may have spaces.
  std::istringstream fields(
      text.substr(std::min(text.rfind(')'), text.size())));
  std::string field;
  constexpr int kUserTime = 12;  // Counted from the parenthesis.
  for (int i = 0; i <= kUserTime + 1 && fields >> field; ++i) {
    uint64_t ticks = 0;
    if (i >= kUserTime && ParseNumber(field, 10, &ticks)) {
      sample.cpu_ticks += ticks;
    }
  }
  return sample;
}

// Tables and bytes of a level, of all column families.
struct LevelSum {
  uint64_t tables = 0;
  uint64_t bytes = 0;
};

std::vector<LevelSum> ReadLevels(const std::string& path) {
  std::vector<LevelSum> levels;
  ReadUnlocked(path, [&] {
    FamilyList families;
    ManifestState state;
    levels.clear();
    const Status status = ReadManifestAndFamilies(path, &families, &state);
    for (const auto& family : state.families) {
      size_t level = 0;
      for (const auto& files : family->levels) {
        if (levels.size() <= level) levels.resize(level + 1);
        levels[level].tables += files.size();
        levels[level++].bytes += TotalFileSize(files);
      }
    }
    return status;
  }).IgnoreError();  // They are shown the next time.
  while (!levels.empty() && levels.back().tables == 0) levels.pop_back();
  return levels;
}

std::string Scaled(double value) {
  constexpr const char* kSuffixes[] = {"", "K", "M", "G", "T"};
  size_t i = 0;
  for (; value >= 9999.5 && i + 1 < std::size(kSuffixes); ++i) value /= 1000;
  char text[32];
  snprintf(text, sizeof(text), value < 10 && value > 0 ? "%.1f %s" : "%.0f %s",
           value, kSuffixes[i]);
  return text;
}

// One look at the process, and what has happened since the one before.
class View {
 public:
  View(std::string path, const LockHolder& holder)
      : path_(std::move(path)), holder_(holder), statistics_(holder.pid) {}

  Status Look() {
    const Status status = statistics_.Read();
    if (!status.ok()) return status;
    before_ = std::exchange(now_, SampleProcess(holder_.pid));
    const uint64_t time_us = MonotonicMicros(Env::Default());
    elapsed_us_ = std::max<uint64_t>(time_us - time_us_, 1);
    time_us_ = time_us;
    delta_ = statistics_.SinceLast();
    total_ = statistics_.Total();
    levels_ = ReadLevels(path_);
    return status;
  }

  std::string ToString() const {
    std::string text = holder_.description + ", " + path_;
    if (statistics_.count() > 1) {
      text += ", sum of " + std::to_string(statistics_.count()) + " statistics";
    }
    Append(&text,
           "\ncpu %.0f %%   threads %" PRIu64 "   resident %" PRIu64
           " MiB, %" PRIu64
           " MiB of it anonymous   disk reads %sB/s, writes "
           "%sB/s\n",
           CpuPercent(), now_.threads, now_.resident_bytes >> 20,
           now_.anonymous_bytes >> 20,
           Scaled(PerSecond(now_.read_bytes - before_.read_bytes)).c_str(),
           Scaled(PerSecond(now_.write_bytes - before_.write_bytes)).c_str());
    text += "MiB";
    for (int i = 0; i < kMemoryKinds; ++i) {
      const auto kind = static_cast<MemoryKind>(i);
      Append(&text, "%s %s %.1f", i == 0 ? "" : "  ", MemoryKindName(kind),
             static_cast<double>(statistics_.memory_bytes(kind)) / (1 << 20));
    }
    text += "\n";
    Append(&text, "\n%-12s %10s %10s %10s %10s\n", "", "per second", "p50 us",
           "p99 us", "p99.9 us");
    for (const OperationRow& row : kOperations) {
      const HistogramData time = delta_->histogramData(row.time);
      Append(&text, "%-12s %10s %10.1f %10.1f %10.1f\n", row.name,
             Scaled(PerSecond(Count(row))).c_str(), time.median,
             time.percentile99, time.percentile999);
    }
    text += "\n";
    for (const RateRow& row : kRates) {
      const double rate = PerSecond(delta_->getTickerCount(row.ticker));
      if (row.unit == Unit::kMicros) {
        Append(&text, "%-18s %8.1f %% of a thread's time\n", row.name,
               rate / 10000);
      } else {
        Append(&text, "%-18s %8s%s\n", row.name, Scaled(rate).c_str(),
               row.unit == Unit::kBytes ? "B/s" : "/s");
      }
    }
    Append(&text,
           "%-18s %8.1f %%\n%-18s %8" PRIu64 " delayed, %" PRIu64
           " stopped\n%-18s %8" PRIu64 " since the start\n",
           "cache_hits", CacheHitPercent(), "writes", Sum(kDelays), Sum(kStops),
           "background_errors",
           total_->getTickerCount(Ticker::kBackgroundErrors));
    text += "\nlevel  tables         MiB\n";
    for (size_t i = 0; i < levels_.size(); ++i) {
      Append(&text, "%5zu %7" PRIu64 " %11.1f\n", i, levels_[i].tables,
             static_cast<double>(levels_[i].bytes) / (1 << 20));
    }
    return text;
  }

  void PrintJson(TextOutput* out) const {
    JsonLine line(out);
    line.Number("pid", holder_.pid)
        .Number("interval_us", elapsed_us_)
        .Number("statistics", statistics_.count())
        .Literal("cpu_percent", Decimal(CpuPercent()))
        .Number("threads", now_.threads)
        .Number("resident_bytes", now_.resident_bytes)
        .Number("anonymous_bytes", now_.anonymous_bytes)
        .Number("disk_read_bytes", now_.read_bytes - before_.read_bytes)
        .Number("disk_write_bytes", now_.write_bytes - before_.write_bytes)
        .Literal("cache_hit_percent", Decimal(CacheHitPercent()))
        .Number("delayed_writes", Sum(kDelays))
        .Number("stopped_writes", Sum(kStops))
        .Number("background_errors",
                total_->getTickerCount(Ticker::kBackgroundErrors));
    for (int i = 0; i < kMemoryKinds; ++i) {
      const auto kind = static_cast<MemoryKind>(i);
      std::string name = MemoryKindName(kind);
      std::replace(name.begin(), name.end(), ' ', '_');
      line.Number(name + "_memory_bytes", statistics_.memory_bytes(kind));
    }
    for (const OperationRow& row : kOperations) {
      const HistogramData time = delta_->histogramData(row.time);
      const std::string name = row.name;
      line.Number(name, Count(row))
          .Literal(name + "_p50_us", Decimal(time.median))
          .Literal(name + "_p99_us", Decimal(time.percentile99))
          .Literal(name + "_p999_us", Decimal(time.percentile999));
    }
    for (const RateRow& row : kRates) {
      constexpr const char* kSuffixes[] = {"", "_bytes", "_us"};
      line.Number(
          row.name + std::string(kSuffixes[static_cast<size_t>(row.unit)]),
          delta_->getTickerCount(row.ticker));
    }
    std::string levels;
    for (const LevelSum& level : levels_) {
      levels += std::string(levels.empty() ? "" : ",") +
                "{\"tables\":" + std::to_string(level.tables) +
                ",\"bytes\":" + std::to_string(level.bytes) + "}";
    }
    line.Literal("levels", "[" + levels + "]");
  }

 private:
  static constexpr Ticker kDelays[] = {Ticker::kStallLevel0Delays,
                                       Ticker::kStallPendingDelays,
                                       Ticker::kStallMemTableDelays};
  static constexpr Ticker kStops[] = {Ticker::kStallLevel0Stops,
                                      Ticker::kStallPendingStops,
                                      Ticker::kStallMemTableStops};

  [[gnu::format(printf, 2, 3)]] static void Append(std::string* text,
                                                   const char* format, ...) {
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    *text += line;
  }
  static std::string Decimal(double value) {
    char text[64];
    snprintf(text, sizeof(text), "%.3f", value);
    return text;
  }

  double PerSecond(uint64_t count) const {
    return static_cast<double>(count) * kSecondUs /
           static_cast<double>(elapsed_us_);
  }
  uint64_t Count(const OperationRow& row) const {
    return row.count == Ticker::kCount ? delta_->histogramData(row.time).count
                                       : delta_->getTickerCount(row.count);
  }
  uint64_t Sum(std::span<const Ticker> tickers) const {
    uint64_t sum = 0;
    for (const Ticker ticker : tickers) sum += delta_->getTickerCount(ticker);
    return sum;
  }
  double CpuPercent() const {
    return 100 * PerSecond(now_.cpu_ticks - before_.cpu_ticks) /
           static_cast<double>(sysconf(_SC_CLK_TCK));
  }
  double CacheHitPercent() const {
    const uint64_t hits = delta_->getTickerCount(Ticker::kBlockCacheHit);
    const uint64_t all = hits + delta_->getTickerCount(Ticker::kBlockCacheMiss);
    return all == 0
               ? 0
               : 100 * static_cast<double>(hits) / static_cast<double>(all);
  }

  const std::string path_;
  const LockHolder holder_;
  ForeignStatistics statistics_;
  ProcessSample before_;
  ProcessSample now_;
  uint64_t time_us_ = 0;
  uint64_t elapsed_us_ = 1;
  std::unique_ptr<StatisticsImpl> delta_;
  std::unique_ptr<StatisticsImpl> total_;
  std::vector<LevelSum> levels_;
};

}  // namespace

Status RunTop(Session* session) {
  const CommandLine& line = session->line;
  Status status = RequireDatabase(line);
  if (!status.ok()) return status;
  const uint64_t interval_s = line.Number("interval", 1);
  if (interval_s < 1 || interval_s > kMaxIntervalS) {
    return session->WrongUse("--interval is 1 to 3600 seconds");
  }
  LockHolder holder;
  if (!FindLockHolder(LockFileName(session->db()), &holder) ||
      holder.pid == 0) {
    return Status::NotFound(session->db(),
                            "is open in no process that can be found");
  }
  View view(session->db(), holder);
  status = view.Look();
  const bool is_screen = !line.Has("once") && !line.Has("json") &&
                         fileno(session->out) >= 0 &&
                         isatty(fileno(session->out)) == 1;
  while (status.ok()) {
    Env::Default()->SleepForMicroseconds(interval_s * kSecondUs);
    status = view.Look();
    if (!status.ok()) break;
    TextOutput out(session->out);
    if (line.Has("json")) {
      view.PrintJson(&out);
    } else {
      // To the upper left corner; and then clear what is below.
      if (is_screen) out.Add("\033[H\033[J");
      out.Add(view.ToString());
      if (!is_screen && !line.Has("once")) out.Add("\n");
    }
    FlushOutput(&out, session);
    fflush(session->out);
    if (line.Has("once") || OutputFailed(session)) return Status();
  }
  // The process may have ended, which is no failure of the view.
  LockHolder still;
  const bool is_there = FindLockHolder(LockFileName(session->db()), &still) &&
                        still.pid == holder.pid;
  return is_there || line.Has("once") ? status : Status();
}

}  // namespace varve
