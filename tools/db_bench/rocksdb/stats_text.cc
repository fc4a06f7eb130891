// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "tools/db_bench/rocksdb/stats_text.h"

#include <cstdlib>

#include "util/base/append_format.h"

namespace varve {

namespace {

constexpr double kMebibytesPerGib = 1024;

double NumberOf(const std::map<std::string, std::string>& numbers,
                const std::string& name) {
  const auto found = numbers.find(name);
  return found == numbers.end() ? 0 : strtod(found->second.c_str(), nullptr);
}

// The number that follows `label`, or 0.
double NumberAfter(const std::string& text, const char* label) {
  const size_t at = text.find(label);
  if (at == std::string::npos) return 0;
  return strtod(text.c_str() + at + std::string(label).size(), nullptr);
}

double Rate(double amount, double seconds) {
  return seconds > 0 ? amount / seconds : 0;
}

// Subtracts the sums of `base`, and computes the ratios again.
std::map<std::string, std::string> Since(
    std::map<std::string, std::string> now,
    const std::map<std::string, std::string>& base) {
  for (const auto& [name, text] : base) {
    const std::string column = name.substr(name.rfind('.') + 1);
    const bool is_sum = column != "NumFiles" && column != "SizeBytes" &&
                        column != "Score" && now.contains(name);
    if (!is_sum) continue;
    now[name] =
        std::to_string(NumberOf(now, name) - strtod(text.c_str(), nullptr));
  }
  for (const auto& [name, text] : base) {
    const size_t dot = name.rfind('.') + 1;
    const std::string level = name.substr(0, dot);
    const auto ratio = [&](const char* of, const char* by, double scale) {
      return std::to_string(
          Rate(scale * NumberOf(now, level + of), NumberOf(now, level + by)));
    };
    const std::string column = name.substr(dot);
    if (column == "WriteAmp") {
      // Flushes write level 0, so the sum is by what they wrote.
      const bool is_sum = level == "compaction.Sum.";
      now[name] = std::to_string(Rate(
          NumberOf(now, level + "WriteGB"),
          NumberOf(now, is_sum ? "compaction.L0.WriteGB" : level + "RnGB")));
    } else if (column == "ReadMBps") {
      now[name] = ratio("ReadGB", "CompSec", kMebibytesPerGib);
    } else if (column == "WriteMBps") {
      now[name] = ratio("WriteGB", "CompSec", kMebibytesPerGib);
    } else if (column == "AvgSec") {
      now[name] = ratio("CompSec", "CompCount", 1);
    }
  }
  return now;
}

// "12.34 MB".
std::string Size(double bytes) {
  const char* const units[] = {"KB", "MB", "GB", "TB"};
  size_t unit = 0;
  bytes /= 1024;
  while (bytes >= 1024 && unit < 3) {
    bytes /= 1024;
    ++unit;
  }
  std::string text;
  AppendFormat(&text, "%.2f %s", bytes, units[unit]);
  return text;
}

// Appends a row of the table of levels. Varve measures no CPU time of
// compactions and has no blob files, so these columns are 0.
void AppendLevel(const std::map<std::string, std::string>& cfstats,
                 const std::string& level, std::string* out) {
  const auto get = [&](const char* name) {
    return NumberOf(cfstats, "compaction." + level + "." + name);
  };
  AppendFormat(out,
               "%4s %6.0f/0 %10s %6.1f %8.1f %6.1f %8.1f %9.1f %8.1f %9.1f",
               level.c_str(), get("NumFiles"), Size(get("SizeBytes")).c_str(),
               get("Score"), get("ReadGB"), get("RnGB"), get("Rnp1GB"),
               get("WriteGB"), get("WriteGB") - get("Rnp1GB"), get("MovedGB"));
  AppendFormat(out, " %5.1f %8.1f %8.1f %9.2f %17.2f %9.0f %8.3f %7.0f %6.0f",
               get("WriteAmp"), get("ReadMBps"), get("WriteMBps"),
               get("CompSec"), 0.0, get("CompCount"), get("AvgSec"),
               get("KeyIn"), get("KeyDrop"));
  AppendFormat(out, " %9.1f %9.1f\n", 0.0, 0.0);
}

}  // namespace

std::string FormatRocksDbStats(const StatsBase& now, const StatsBase& base,
                               double uptime_seconds) {
  const std::map<std::string, std::string> cfstats =
      Since(now.cfstats, base.cfstats);
  const auto since = [&](const char* label) {
    return NumberAfter(now.dbstats, label) - NumberAfter(base.dbstats, label);
  };
  std::string out =
      "\n** Compaction Stats [default] **\n"
      "Level    Files   Size     Score Read(GB)  Rn(GB) Rnp1(GB) Write(GB) "
      "Wnew(GB) Moved(GB) W-Amp Rd(MB/s) Wr(MB/s) Comp(sec) CompMergeCPU(sec) "
      "Comp(cnt) Avg(sec) KeyIn KeyDrop Rblob(GB) Wblob(GB)\n";
  for (int level = 0; level < 10; ++level) {
    const std::string name = "L" + std::to_string(level);
    if (NumberOf(cfstats, "compaction." + name + ".NumFiles") > 0 ||
        NumberOf(cfstats, "compaction." + name + ".CompCount") > 0) {
      AppendLevel(cfstats, name, &out);
    }
  }
  AppendLevel(cfstats, "Sum", &out);
  const double written = NumberOf(cfstats, "compaction.Sum.WriteGB");
  const double read = NumberOf(cfstats, "compaction.Sum.ReadGB");
  out +=
      "\nBlob file count: 0, total size: 0.0 GB, garbage size: 0.0 GB, space "
      "amp: 0.0\n\n";
  AppendFormat(&out, "Uptime(secs): %.1f total, %.1f interval\n",
               uptime_seconds, uptime_seconds);
  AppendFormat(&out, "Flush(GB): cumulative %.3f, interval 0.000\n",
               NumberOf(cfstats, "compaction.L0.WriteGB"));
  AppendFormat(
      &out,
      "Cumulative compaction: %.2f GB write, %.2f MB/s write, %.2f GB read, "
      "%.2f MB/s read, %.1f seconds\n",
      written, Rate(written * kMebibytesPerGib, uptime_seconds), read,
      Rate(read * kMebibytesPerGib, uptime_seconds),
      NumberOf(cfstats, "compaction.Sum.CompSec"));
  const auto stalls = [&](const char* cause) {
    return NumberOf(cfstats, std::string("io_stalls.") + cause);
  };
  AppendFormat(
      &out,
      "Stalls(count): %.0f level0_slowdown, 0 level0_slowdown_with_compaction, "
      "%.0f level0_numfiles, 0 level0_numfiles_with_compaction, %.0f "
      "stop for pending_compaction_bytes, ",
      stalls("level0_slowdown"), stalls("level0_numfiles"),
      stalls("stop_for_pending_compaction_bytes"));
  AppendFormat(&out,
               "%.0f slowdown for pending_compaction_bytes, %.0f "
               "memtable_compaction, %.0f memtable_slowdown, interval 0 total "
               "count\n",
               stalls("slowdown_for_pending_compaction_bytes"),
               stalls("memtable_compaction"), stalls("memtable_slowdown"));
  const double ingest_mib = since("Written by users: ");
  AppendFormat(&out, "Cumulative writes: ingest: %.2f GB, %.2f MB/s\n",
               ingest_mib / kMebibytesPerGib, Rate(ingest_mib, uptime_seconds));
  const double stalled = since("times, ");
  const int whole = static_cast<int>(stalled);
  AppendFormat(&out, "Cumulative stall: %02d:%02d:%06.3f H:M:S, %.1f percent\n",
               whole / 3600, whole / 60 % 60, stalled - whole / 60 * 60,
               100 * Rate(stalled, uptime_seconds));
  return out;
}

}  // namespace varve
