// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/jobs/job_events.h"

#include "db/live_files/table_metadata.h"
#include "env/file_names.h"

namespace varve {

void AddTableCreated(EventQueue* events, const std::string& db_path,
                     uint64_t number, uint64_t bytes, const Status& status,
                     const std::shared_ptr<const TableProperties>& properties) {
  if (!events->HasListeners()) return;
  const TableFileInfo info = {db_path, TableFileName(db_path, number),
                              number,  bytes,
                              status,  properties};
  events->Add(
      [info](EventListener* listener) { listener->OnTableFileCreated(info); });
}

void AddTablesCreated(EventQueue* events, const std::string& db_path,
                      const VersionEdit& edit, const Status& status) {
  for (const auto& [level, file] : edit.new_files()) {
    AddTableCreated(events, db_path, file.number,
                    status.ok() ? file.file_size : 0, status,
                    status.ok() ? file.reported : nullptr);
  }
}

void AddInputProperties(const Compaction& compaction, Env* env,
                        CompactionJobInfo* info) {
  for (const auto& files : compaction.inputs) {
    for (const FileMetaData* file : files) {
      auto properties = std::make_shared<TableProperties>();
      if (!ReadTableProperties(env, info->db_path, *file, properties.get())
               .ok()) {
        continue;  // The compaction itself reports a damaged table.
      }
      info->table_properties.emplace(TableFileName(info->db_path, file->number),
                                     std::move(properties));
    }
  }
}

void AddOutputProperties(const VersionEdit& edit, CompactionJobInfo* info) {
  for (const auto& [level, file] : edit.new_files()) {
    if (file.reported == nullptr) continue;
    info->table_properties.emplace(TableFileName(info->db_path, file.number),
                                   file.reported);
  }
}

CompactionJobInfo DescribeCompaction(const Compaction& compaction,
                                     const std::string& db_path) {
  CompactionJobInfo info;
  info.db_path = db_path;
  info.base_input_level = compaction.level;
  info.output_level = compaction.output_level;
  for (const auto& files : compaction.inputs) {
    for (const FileMetaData* file : files) {
      info.input_files.push_back(file->number);
    }
  }
  info.input_bytes = compaction.InputBytes();
  info.trivial_move = compaction.trivial_move;
  info.reason = compaction.reason;
  return info;
}

void ReportStall(const std::string& db_path, const std::string& family,
                 const WriteStallState& before, const WriteStallState& now,
                 const WriteDebt& debt, Logger* log, EventQueue* events) {
  if (now.pressure == before.pressure && now.cause == before.cause) return;
  static constexpr const char* kNames[] = {"normal", "slowed down", "stopped"};
  Log(now.pressure == WritePressure::kNone ? LogLevel::kInfo : LogLevel::kWarn,
      log,
      "[%s] writes are %s: %s; %d level-0 files, %llu bytes to be compacted, "
      "%d "
      "memtables to be flushed",
      family.c_str(), kNames[static_cast<int>(now.pressure)],
      StallCauseName(now.cause), debt.level0_files,
      static_cast<unsigned long long>(debt.pending_bytes),
      debt.immutable_memtables);
  if (now.pressure == before.pressure) return;
  WriteStallInfo info;
  info.db_path = db_path;
  info.cf_name = family;
  info.previous = static_cast<WriteStallCondition>(before.pressure);
  info.current = static_cast<WriteStallCondition>(now.pressure);
  info.cause = StallCauseName(now.cause);
  events->Add([info](EventListener* listener) {
    listener->OnStallConditionsChanged(info);
  });
}

void ReportDeadRange(const std::string& db_path,
                     const DeadRangeCleaner::Target& target, const char* job,
                     int level, Logger* log, EventQueue* events) {
  const DeadRange& range = target.report.range;
  Log(LogLevel::kInfo, log,
      "readers walked over %llu dead entries, %llu times: %s, level %d",
      static_cast<unsigned long long>(range.dead),
      static_cast<unsigned long long>(target.report.walks), job, level);
  if (!events->HasListeners()) return;
  DeadRangeInfo info;
  info.db_path = db_path;
  info.begin = range.begin.value_or("");
  info.end = range.end.value_or("");
  info.has_begin = range.begin.has_value();
  info.has_end = range.end.has_value();
  info.dead = range.dead;
  info.walks = target.report.walks;
  info.job = job;
  info.level = level;
  events->Add([info](EventListener* listener) { listener->OnDeadRange(info); });
}

void CountDrops(StatisticsImpl* stats, const CompactionIterator::Drops& drops) {
  RecordTick(stats, Ticker::kCompactionDropNewer, drops.hidden);
  RecordTick(stats, Ticker::kCompactionDropObsolete, drops.obsolete);
  RecordTick(stats, Ticker::kCompactionDropRangeDel, drops.range_deleted);
  RecordTick(stats, Ticker::kCompactionDropUser, drops.user);
}

}  // namespace varve
