// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "tools/varve/varve_maintenance.h"

#include <cerrno>
#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <sstream>
#include <system_error>

#include "tools/varve/varve_database.h"
#include "tools/varve/varve_json.h"
#include "tools/varve/varve_text.h"
#include "tools/varve/varve_trace.h"
#include "varve/listener.h"

namespace varve {

namespace {

constexpr uint64_t kTracesToPrint = 3;
constexpr size_t kTracesInPage = 200;

// Files that the user names, and so may be links or pipes: not the engine's
// way to files, which refuses these.
bool ReadText(const std::string& path, std::string* text) {
  FILE* const in = fopen(path.c_str(), "r");
  if (in == nullptr) return false;
  char piece[65536];
  size_t size;
  while ((size = fread(piece, 1, sizeof(piece), in)) > 0) {
    text->append(piece, size);
  }
  const bool good = ferror(in) == 0;
  const int error = errno;
  fclose(in);
  errno = error;
  return good;
}
bool WriteText(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << text << std::flush;
  return out.good();
}

// Says what compactions have done so far.
class CompactionProgress final : public EventListener {
 public:
  explicit CompactionProgress(const Session& session) : progress_(session) {}

  void OnTableFileCreated(const TableFileInfo& info) override {
    if (!info.status.ok()) return;
    ++tables_;
    bytes_ += info.file_bytes;
    Show();
  }
  void OnCompactionCompleted(const CompactionJobInfo& info) override {
    if (info.status.ok()) ++compactions_;
    Show();
  }

 private:
  void Show() {
    progress_.Show(std::to_string(compactions_) + " compactions, " +
                   std::to_string(tables_) + " tables of " +
                   std::to_string(bytes_ >> 20) + " MiB written");
  }

  Progress progress_;
  uint64_t compactions_ = 0;
  uint64_t tables_ = 0;
  uint64_t bytes_ = 0;
};

// Keeps the warnings of a repair.
class WarningList final : public Logger {
 public:
  // `progress`, which must outlive this, shows the last line of any level.
  explicit WarningList(Progress* progress) : progress_(progress) {}

  void Logv(LogLevel level, const char* format, va_list arguments) override {
    if (level < LogLevel::kWarn && !progress_->Due()) return;
    char line[kMaxLineBytes];
    vsnprintf(line, sizeof(line), format, arguments);
    if (level >= LogLevel::kWarn) lines_.emplace_back(line);
    if (progress_->Due()) progress_->Show(Printable(line));
  }
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  static constexpr size_t kMaxLineBytes = 1024;

  Progress* const progress_;
  std::vector<std::string> lines_;
};

}  // namespace

namespace {

// The properties of GetProperty in varve/db.h, without "varve.".
constexpr const char* kProperties[] = {
    "num-files-at-level<N>",
    "levelstats",
    "cfstats",
    "dbstats",
    "stats",
    "compression-ratio-at-level<N>",
    "aggregated-table-properties",
    "aggregated-table-properties-at-level<N>",
    "sstables",
    "num-immutable-mem-table",
    "num-entries-active-mem-table",
    "num-entries-imm-mem-tables",
    "num-deletes-active-mem-table",
    "num-deletes-imm-mem-tables",
    "mem-table-flush-pending",
    "compaction-pending",
    "num-running-flushes",
    "num-running-compactions",
    "background-errors",
    "is-read-only",
    "cur-size-active-mem-table",
    "cur-size-all-mem-tables",
    "size-all-mem-tables",
    "num-immutable-mem-table-flushed",
    "approximate-memory-usage",
    "estimate-table-readers-mem",
    "estimate-num-keys",
    "estimate-pending-compaction-bytes",
    "base-level",
    "num-snapshots",
    "oldest-snapshot-sequence",
    "oldest-snapshot-time",
    "oldest-snapshot",
    "dead-ranges",
    "num-live-versions",
    "current-super-version-number",
    "estimate-oldest-key-time",
    "total-sst-files-size",
    "live-sst-files-size",
    "estimate-live-data-size",
    "min-log-number-to-keep",
    "oldest-log",
    "column-families",
    "is-file-deletions-enabled",
    "block-cache-capacity",
    "block-cache-usage",
    "block-cache-pinned-usage",
    "is-write-stopped",
    "is-write-stalled",
    "actual-delayed-write-rate",
    "io-path",
    "wal-path",
    "statistics",
    "options-statistics",
    "prometheus",
    "memory",
    "memory-by-thread",
    "statistics-path",
    "statistics-memory",
    "statistics-memory-reserved",
    "trace-clock",
};

// Returns an error in the use of the program, and lists the properties.
Status NoProperty(const std::string& name, Session* session) {
  fputs("properties:\n", session->err);
  for (const char* const known : kProperties) {
    fprintf(session->err, "  varve.%s\n", known);
  }
  return session->WrongUse("there is no property '" + name +
                           "'; those above are all");
}

// Prints a line for each sample of a page of Prometheus's format.
void PrintSamples(const std::string& page, TextOutput* out) {
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    const size_t space = line.rfind(' ');
    if (line.starts_with('#') || space == line.npos) continue;
    std::string name = line.substr(0, space);
    const size_t label = name.find("{quantile=\"");
    JsonLine sample(out);
    sample.Text("name", name.substr(0, label));
    if (label != name.npos) {
      name.erase(0, label + sizeof("{quantile=\"") - 1);
      sample.Literal("quantile", name.substr(0, name.find('"')));
    }
    sample.Literal("value", line.substr(space + 1));
  }
}

Status PrintStatsJson(Database* db, Session* session) {
  TextOutput out(session->out);
  std::string text;
  if (const std::string* const name = session->line.Find("property")) {
    if (!db->get()->GetProperty(db->family(), *name, &text)) {
      return NoProperty(*name, session);
    }
    JsonLine(&out).Text("name", *name).Text("text", text);
  } else {
    std::map<std::string, std::string> levels;
    db->get()->GetMapProperty(db->family(), "varve.cfstats", &levels);
    for (const auto& [key, value] : levels) {
      JsonLine(&out).Text("name", key).Literal("value", value);
    }
    db->get()->GetProperty(db->family(), "varve.prometheus", &text);
    PrintSamples(text, &out);
  }
  FlushOutput(&out, session);
  return db->Close();
}

}  // namespace

Status RunStats(Session* session) {
  Database db;
  const Status status = db.OpenToRead(*session);
  if (!status.ok()) return status;
  if (session->line.Has("json")) return PrintStatsJson(&db, session);
  std::vector<std::string> names = {"varve.stats", "varve.statistics"};
  if (session->line.Has("property")) names = {session->line.Text("property")};
  for (const std::string& name : names) {
    std::string text;
    if (!db->GetProperty(db.family(), name, &text)) {
      return NoProperty(name, session);
    }
    if (!text.ends_with('\n')) text += '\n';
    fwrite(text.data(), 1, text.size(), session->out);
  }
  return db.Close();
}

Status RunRepair(Session* session) {
  const std::string path = session->db();
  Status status = RequireDatabase(session->line);
  if (!status.ok()) return status;
  const StoredOptions stored(path);
  Options options = stored.Of(kDefaultColumnFamilyName, session->line);
  std::optional<Progress> progress(*session);
  const auto notes = std::make_shared<WarningList>(&*progress);
  options.info_log = notes;
  std::vector<ColumnFamilyDescriptor> families = {
      {kDefaultColumnFamilyName, options}};
  FamilyList list;
  // The MANIFEST may be damaged.
  if (list.Read(path).ok()) {
    for (const FamilyList::Entry& entry : list.entries()) {
      if (entry.known == nullptr) continue;
      if (entry.id != 0) {
        families.emplace_back(entry.name, stored.Of(entry.name, session->line));
      }
      ColumnFamilyOptions& own =
          entry.id != 0 ? families.back().options : families.front().options;
      own.comparator = entry.known->user_comparator();
    }
  }
  progress->Show("repairing " + path);
  Options unknown;
  SetOptionsOf(session->line, &unknown);
  status = RepairDB(path, options, families, unknown);
  progress.reset();  // Removes its line.
  if (!status.ok()) return status;
  for (const std::string& line : notes->lines()) {
    fprintf(session->out, "note: %s\n", Printable(line).c_str());
  }
  std::vector<std::string> names;
  // Nothing was moved if it is not there.
  if (!Env::Default()->GetChildren(path + "/lost", &names).ok()) names.clear();
  fprintf(session->out, "OK, %zu files are in %s/lost\n", names.size(),
          path.c_str());
  return status;
}

Status RunCompact(Session* session) {
  const auto listener = std::make_shared<CompactionProgress>(*session);
  Status status = RequireDatabase(session->line);
  std::shared_ptr<MergeOperator> merge_operator;
  if (status.ok()) status = ChooseMergeOperator(session, &merge_operator);
  if (status.ok()) status = RequireUpdates(*session);
  Database db;
  if (status.ok()) {
    status = db.Open(
        session->line,
        [&](Options* options) { options->listeners.push_back(listener); },
        false);
  }
  if (!status.ok()) return status;
  const BoundedScan range(session->line);
  CompactRangeOptions compact_options;
  compact_options.rewrite_bottommost_level = true;
  status =
      db->CompactRange(compact_options, db.family(), range.from(), range.to());
  if (status.ok()) status = db.Close();
  if (status.ok()) fputs("OK\n", session->out);
  return status;
}

Status RunTrace(Session* session) {
  const std::string& path = session->operand(0);
  const std::string* const html = session->line.Find("html");
  const std::string page = html == nullptr ? path + ".html" : *html;
  std::error_code none_there_yet;
  if (std::filesystem::equivalent(path, page, none_there_yet)) {
    return session->WrongUse(page + " is the trace itself");
  }
  std::string text;
  errno = 0;
  if (!ReadText(path, &text)) return Status::FromErrno("read " + path, errno);
  TraceFile file;
  const Status status = ParseTrace(text, &file);
  if (!status.ok()) return status.Annotate(path);
  const std::vector<TraceTree> trees = BuildTraceTrees(std::move(file.spans));
  const uint64_t limit = session->line.Number("limit", kTracesToPrint);
  fputs(FormatTraces(file, trees, limit).c_str(), session->out);
  if (!WriteText(page, FormatTracePage(file, trees, kTracesInPage))) {
    return Status::FromErrno("write " + page, errno);
  }
  fprintf(session->out, "\nFlame chart: %s\n", page.c_str());
  return Status::OK();
}

}  // namespace varve
