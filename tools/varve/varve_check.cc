// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "tools/varve/varve_check.h"

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdlib>
#include <map>
#include <set>

#include "db/recovery/directory_observation.h"
#include "db/recovery/foreign_files.h"
#include "db/recovery/leveldb_guard.h"
#include "db/version/best_effort_manifest.h"
#include "db/version/manifest_reader.h"
#include "db/wal/wal_predecessor.h"
#include "db/wal/wal_reader.h"
#include "db/write/write_batch_internal.h"
#include "env/file_names.h"
#include "table/reader/table_iterator.h"
#include "table/reader/table_verifier.h"
#include "tools/varve/varve_database.h"
#include "tools/varve/varve_dump_sst.h"
#include "tools/varve/varve_json.h"
#include "tools/varve/varve_live.h"
#include "tools/varve/varve_text.h"

namespace varve {

namespace {

// Another process may write while the check runs. The damage that a round finds
// counts if the files did not change, or if this many rounds find the same
// damage.
constexpr int kSameRounds = 4;
constexpr int kMaxRounds = 100;

// Tables that were found good, by number; their files never change.
using GoodTables = std::map<uint64_t, TableIdentity>;

// Prints what was found about a file: kind is damaged, refused, unreadable or
// note.
void PrintFinding(const CommandLine& line, const char* kind,
                  const std::string& file, const std::string& what, FILE* out) {
  if (line.Has("json")) {
    TextOutput text(out);
    JsonLine(&text).Text("kind", kind).Text("file", file).Text("message", what);
  } else {
    fprintf(out, "%s: %s: %s\n", kind, file.c_str(), Printable(what).c_str());
  }
}

// One round.
class Checker {
 public:
  // `live`: another process has the database open.
  Checker(Session* session, FILE* out, bool live, GoodTables* good)
      : session_(*session),
        out_(out),
        live_(live),
        good_(*good),
        path_(session->db()),
        progress_(*session) {}

  // A line for each damage.
  const std::string& damage() const { return damage_; }

  Status Run() {
    Status status = List();
    if (!status.ok()) return status;
    CheckManifest();
    PassForeignFiles();
    CheckTables();
    CheckLogs();
    if (damages_ == refused_families_) CheckOpening();
    PrintSummary();
    if (damages_ == 0) return Status();
    const std::string count = std::to_string(damages_);
    if (refused_ == damages_) {
      return Status::NotSupported(path_, count + " files are refused");
    }
    if (refused_ + unreadable_ == damages_) {
      return Status::IOError(path_, count + " files cannot be read");
    }
    return Status::Corruption(
        path_, count + " files are damaged, refused or cannot be read");
  }

 private:
  void PrintSummary() const {
    if (session_.line.Has("json")) {
      TextOutput out(out_);
      JsonLine(&out)
          .Text("kind", "summary")
          .Number("tables", tables_.size())
          .Number("bytes", table_bytes_)
          .Number("logs", logs_.size())
          .Number("records", records_)
          .Number("damaged", damages_ - refused_ - unreadable_)
          .Number("refused", refused_)
          .Number("unreadable", unreadable_);
      return;
    }
    fprintf(out_,
            "%zu tables, %" PRIu64 " bytes; %zu logs, %" PRIu64 " records\n",
            tables_.size(), table_bytes_, logs_.size(), records_);
    if (damages_ == 0) fputs("no damage\n", out_);
  }

  // A table by the MANIFEST.
  struct LiveTable {
    const FileMetaData* file = nullptr;
    const FamilyManifest* family = nullptr;
  };

  void Damage(const std::string& file, const Status& status) {
    // An unsupported feature need not be damage.
    const bool foreign = status.IsNotSupported() || status.IsInvalidArgument();
    const bool unread = status.IsIOError();
    const char* const kind = foreign  ? "refused"
                             : unread ? "unreadable"
                                      : "damaged";
    const std::string what = status.ToString();
    PrintFinding(session_.line, kind, file, what, out_);
    damage_ += kind + (": " + file + ": " + what + "\n");
    ++damages_;
    refused_ += foreign;
    unreadable_ += unread;
  }
  void Note(const std::string& file, const std::string& what) {
    PrintFinding(session_.line, "note", file, what, out_);
  }

  Status List() {
    std::vector<std::string> names;
    const Status status = Env::Default()->GetChildren(path_, &names);
    for (const std::string& name : names) {
      uint64_t number;
      FileKind type;
      if (!ParseFileName(name, &number, &type) ||
          IsLevelDbGuard(Env::Default(), path_, name)) {
        continue;
      }
      if (type == FileKind::kWal) logs_[number] = name;
      if (type == FileKind::kTable || type == FileKind::kLevelDbTable) {
        tables_[number] = name;
      }
      if (type == FileKind::kTemp && !live_) {
        Note(name, "left by a crash, not used");
      }
    }
    return status;
  }

  // Skips files that the MANIFEST does not name and that belong to another
  // program.
  void PassForeignFiles() {
    std::set<uint64_t> live = {manifest_.FirstLogNumber(),
                               manifest_.prev_log_number};
    manifest_.ForEachFile(
        [&live](const FileMetaData* file) { live.insert(file->number); });
    const uint64_t next =
        has_manifest_ ? manifest_.next_file_number : kMaxFileNumber;
    for (auto* files : {&logs_, &tables_}) {
      std::erase_if(*files, [&](const auto& file) {
        const auto& [number, name] = file;
        uint64_t same = 0;
        FileKind type = FileKind::kWal;
        if (live.contains(number) || !ParseFileName(name, &same, &type) ||
            !IsForeignFile(Env::Default(), path_ + "/" + name, type, number,
                           next)) {
          return false;
        }
        Note(name, "no file of the database's, by its kind or contents");
        return true;
      });
    }
  }

  void CheckManifest() {
    std::string name;
    Status status = ReadCurrentFile(Env::Default(), path_, &name);
    if (!status.ok()) {
      Damage("CURRENT", status);
      return;
    }
    FamilyList families;
    status = ReadManifestAndFamilies(path_, &families, &manifest_);
    if (!status.ok()) {
      Damage(name, status);
      return;
    }
    has_manifest_ = true;
    FindRefusedFamilies(name);
    if (manifest_.torn_tail && !live_) {
      Note(name, "the last edit was cut off: " + manifest_.torn_tail_message);
    }
  }

  // Families whose comparator the library does not have. Their tables are known
  // without it, but not checked.
  void FindRefusedFamilies(const std::string& manifest_name) {
    for (const auto& family : manifest_.families) {
      if (family->comparator != nullptr) continue;
      ++refused_families_;
      Damage(manifest_name, UnknownComparator({family->id, family->name,
                                               family->comparator_name}));
    }
    std::vector<std::string> names;
    if (refused_families_ == 0 ||
        !Env::Default()->GetChildren(path_, &names).ok()) {
      return;
    }
    BestEffortManifest all;
    ReadBestEffortManifest(Env::Default(), path_, names, &all);
    for (const auto& [number, table] : all.tables) {
      const FamilyManifest* const family = manifest_.FindFamily(table.family);
      if (family != nullptr && family->comparator == nullptr) {
        refused_tables_.insert(number);
      }
    }
  }

  void CheckTables() {
    std::map<uint64_t, LiveTable> live;
    for (const auto& family : manifest_.families) {
      for (const auto& files : family->levels) {
        for (const FileMetaData* file : files) {
          live[file->number] = {file, family.get()};
        }
      }
    }
    for (const auto& [number, table] : live) {
      if (tables_.contains(number)) continue;
      const std::string name = TableFileName("", number).substr(1);
      if (Env::Default()->FileExists(path_ + "/" + name).ok()) {
        tables_[number] = name;  // Made since the directory was listed.
      } else if (!IsSuperseded(number)) {
        Damage(name,
               Status::NotFound("the MANIFEST names it, and it is missing"));
      }
    }
    uint64_t all_bytes = 0;
    for (const auto& [number, table] : live) all_bytes += table.file->file_size;
    size_t i = 0;
    for (const auto& [number, name] : tables_) {
      if (progress_.Due()) {
        progress_.Show("table " + std::to_string(i) + " of " +
                       std::to_string(tables_.size()) + ", " +
                       std::to_string(table_bytes_ >> 20) + " of " +
                       std::to_string(all_bytes >> 20) + " MiB");
      }
      ++i;
      const auto it = live.find(number);
      const LiveTable table = it == live.end() ? LiveTable() : it->second;
      if (refused_tables_.contains(number)) continue;
      if (has_manifest_ && table.file == nullptr) {
        // A process that writes makes it, or is about to remove it.
        if (live_) continue;
        Note(name, "no part of the database, the MANIFEST does not name it");
        if (number >= manifest_.next_file_number) NoteSequences(name);
        continue;
      }
      const Status status = CheckTable(path_ + "/" + name, table);
      if (status.ok() || (status.IsNotFound() && IsSuperseded(number))) {
        continue;
      }
      Damage(name, status);
    }
  }

  // Whether the MANIFEST, read again, does not name the table: then another
  // process has removed it since the check began.
  bool IsSuperseded(uint64_t table) {
    FamilyList families;
    ManifestState now;
    if (!ReadManifestAndFamilies(path_, &families, &now).ok()) return false;
    bool is_named = false;
    now.ForEachFile(
        [&](const FileMetaData* file) { is_named |= file->number == table; });
    return !is_named;
  }

  // Notes the largest sequence number of an intact table that is newer than the
  // MANIFEST's last edit.
  void NoteSequences(const std::string& name) {
    std::unique_ptr<TableCore> core;
    const std::string path = path_ + "/" + name;
    if (!OpenTableFile(path, ComparatorOfTable(path), &core).ok()) return;
    TableIterator iterator(ReadOptions(), core.get(), nullptr);
    SequenceNumber largest = 0;
    for (iterator.SeekToFirst(); iterator.Valid(); iterator.Next()) {
      largest = std::max(largest, ExtractSequence(iterator.key()));
    }
    if (iterator.status().ok() && largest > unknown_sequence_) {
      unknown_sequence_ = largest;
      unknown_table_ = name;
    }
  }

  // Without a MANIFEST, the table's members are null.
  Status CheckTable(const std::string& path, const LiveTable& table) {
    const FileMetaData* const file = table.file;
    if (file != nullptr) {
      const auto good = good_.find(file->number);
      if (good != good_.end() && good->second == file->Identity()) {
        table_bytes_ += file->file_size;
        return Status();
      }
    }
    const Status status = CheckTableFile(path, table);
    if (status.ok() && file != nullptr) good_[file->number] = file->Identity();
    return status;
  }

  Status CheckTableFile(const std::string& path, const LiveTable& table) {
    const FileMetaData* const file = table.file;
    uint64_t size = 0;
    Status status = Env::Default()->GetFileSize(path, &size);
    if (!status.ok()) return status;
    table_bytes_ += size;
    if (file != nullptr && size != file->file_size) {
      return Status::Corruption("it has " + std::to_string(size) +
                                " bytes, the MANIFEST says " +
                                std::to_string(file->file_size));
    }
    std::unique_ptr<TableCore> core;
    status = OpenTableFile(
        path,
        file != nullptr ? table.family->comparator : ComparatorOfTable(path),
        &core);
    if (status.ok()) status = VerifyTable(*core);
    if (status.ok() && file != nullptr) status = CheckKeyRange(*core, table);
    if (status.ok() && file != nullptr) status = CheckFamily(*core, table);
    return status;
  }

  // Whether the table says the family that the MANIFEST gives it to. Tables
  // that were ingested, or written for another database, may say another.
  Status CheckFamily(const TableCore& core, const LiveTable& table) {
    const PropertiesBlock& properties = core.properties;
    const FamilyManifest& family = *table.family;
    if (properties.column_family_name.empty() ||
        properties.column_family_id == kUnknownColumnFamilyId ||
        properties.external_version != 0 ||
        (properties.column_family_id == family.id &&
         properties.column_family_name == family.name)) {
      return Status();
    }
    const std::string what =
        "of column family " + std::to_string(properties.column_family_id) +
        " " + properties.column_family_name + " by its properties, of " +
        std::to_string(family.id) + " " + family.name + " by the MANIFEST";
    if (!properties.db_identity.empty() && !manifest_.db_id.empty() &&
        properties.db_identity != manifest_.db_id) {
      Note(TableFileName("", table.file->number).substr(1),
           "from another database, and " + what);
      return Status();
    }
    return Status::Corruption(what);
  }

  // Whether all keys are between those that the MANIFEST gives.
  static Status CheckKeyRange(const TableCore& core, const LiveTable& table) {
    const FileMetaData& file = *table.file;
    const InternalKeyComparator& comparator = *table.family->comparator;
    TableIterator iterator(ReadOptions(), &core, nullptr);
    iterator.SeekToFirst();
    if (iterator.Valid() &&
        comparator.CompareUser(ExtractUserKey(iterator.key()),
                               file.smallest_user_key()) < 0) {
      return Outside(iterator.key());
    }
    iterator.SeekToLast();
    if (!iterator.Valid()) return iterator.status();
    const int r = comparator.CompareUser(ExtractUserKey(iterator.key()),
                                         file.largest_user_key());
    if (r > 0 || (r == 0 && file.EndIsExclusive())) {
      return Outside(iterator.key());
    }
    return iterator.status();
  }

  static Status Outside(const Slice& key) {
    return Status::Corruption("outside the MANIFEST's key range: " +
                              DescribeInternalKey(key));
  }

  void CheckLogs() {
    for (const auto& [number, name] : logs_) {
      const bool live = !has_manifest_ || manifest_.ReplaysLog(number);
      const uint64_t records = records_;
      const auto prepared = prepared_;
      Status status = CheckLog(number, name, live);
      const bool newest = number == logs_.rbegin()->first;
      const int attempts = live_ ? kHeldLogAttempts : kLogAttempts;
      // There may already be an empty log after the one that is being written.
      const bool may_grow = newest || live_;
      for (int i = 0; i < attempts && may_grow && status.IsCorruption(); ++i) {
        const uint64_t end = log_ends_[number];
        Env::Default()->SleepForMicroseconds(kLogWaitUs << i);
        records_ = records;
        prepared_ = prepared;
        status = CheckLog(number, name, live);
        // The log was being written, and its end is intact now.
        if (log_ends_[number] > end) status = Status();
      }
      if (!live) prepared_ = prepared;
      if (status.ok()) continue;
      if (live) {
        Damage(name, status);
      } else {
        Note(name, "no longer needed, and damaged: " + status.ToString());
      }
    }
    for (const auto& [name, count] : prepared_) {
      Note("transaction " + Printable(name),
           "is prepared, with " + std::to_string(count) + " updates");
    }
    CheckLogsAreThere();
  }

  // Checks for logs that are missing as a whole.
  void CheckLogsAreThere() {
    if (!has_manifest_) return;
    const uint64_t first = manifest_.FirstLogNumber();
    const std::string named = WalFileName("", first).substr(1);
    if (manifest_.logs_are_files && !logs_.contains(first)) {
      Damage(named,
             Status::NotFound("the MANIFEST names it, and it is missing"));
    } else if (manifest_.logs_end.value_or(0) >=
                   std::max<uint64_t>(next_sequence_, 1) &&
               damages_ == 0) {
      Damage(logs_.empty() ? named : logs_.rbegin()->second,
             Status::Corruption(
                 "the database was closed with updates up to number " +
                 std::to_string(*manifest_.logs_end) +
                 " in its logs, and that is not in them: the log has lost its "
                 "end, or a later one is missing"));
    } else if (unknown_sequence_ >=
               std::max(manifest_.last_sequence + 1, next_sequence_)) {
      Damage(unknown_table_,
             Status::Corruption("the MANIFEST is older than it, and no log has "
                                "its updates"));
    }
  }

  Status CheckLog(uint64_t number, const std::string& name, bool live) {
    std::unique_ptr<SequentialFile> file;
    const std::string path = path_ + "/" + name;
    Status status =
        Env::Default()->NewSequentialFile(path, FileOptions(), &file);
    if (!status.ok()) return status;
    wal::Reader reader(std::move(file), path, number);
    SequenceNumber next = 0;
    uint64_t records = 0;
    Slice record;
    wal::ReadOutcome outcome;
    while ((outcome = reader.ReadRecord(&record)) ==
           wal::ReadOutcome::kRecord) {
      if (++records_ % kEntriesPerLook == 0 && progress_.Due()) {
        progress_.Show(name + ", record " + std::to_string(records_));
      }
      const bool is_first = next == 0;
      status = CheckRecord(record, &next);
      if (status.ok() && live && records == 0)
        status = CheckBegin(record, number);
      ++records;
      log_ends_[number] = reader.RecordEnd();
      if (status.ok() && live) CheckGap(record, is_first && next != 0);
      if (status.ok() && live && next != 0) next_sequence_ = next;
      if (!status.ok()) {
        return status.Annotate("record before byte " +
                               std::to_string(reader.RecordEnd()));
      }
    }
    log_ends_[number] = reader.RecordEnd();
    if (outcome == wal::ReadOutcome::kEnd) return Status();
    if (reader.EndIsTorn(outcome)) {
      if (live_) return Status();
      Note(name, "the last write was cut off: " +
                     reader.status().message().ToString());
      if (live) {
        gap_log_ = name;
        gap_ = "its end is cut off";
      }
      return Status();
    }
    return reader.status();
  }

  // Checks that a log, by its first record, is no copy of another one.
  Status CheckBegin(const Slice& record, uint64_t number) const {
    const auto note = WalPredecessor::Decode(record);
    if (note && note->log != 0 && note->log != number) {
      return Status::Corruption("it is a copy of log " +
                                std::to_string(note->log));
    }
    if (!note && has_manifest_ && manifest_.logs_are_files &&
        number > manifest_.FirstLogNumber()) {
      return Status::Corruption(
          "it does not name the log before it: the MANIFEST is older, or the "
          "log is a copy of another one");
    }
    return Status();
  }

  // A log may have lost its end at a record's boundary, or may be missing. The
  // next log's first record shows this. Recovery then stops, unless the
  // following updates continue where it has stopped, as they do if the writer
  // had replayed the shortened log.
  void CheckGap(const Slice& record, bool first_update) {
    const auto note = WalPredecessor::Decode(record);
    if (note &&
        (!has_manifest_ || note->number >= manifest_.FirstLogNumber())) {
      const auto it = log_ends_.find(note->number);
      const uint64_t end = it == log_ends_.end() ? 0 : it->second;
      if (end < note->size) {
        gap_log_ = WalFileName("", note->number).substr(1);
        gap_ = "of " + std::to_string(note->size) + " bytes, only the first " +
               std::to_string(end) + " are left";
        Note(gap_log_, gap_);  // A crash may cause this.
      }
    }
    if (gap_.empty() || !first_update) return;
    BatchReader batch;
    if (batch.Init(record).ok() && batch.sequence() != next_sequence_) {
      Damage(gap_log_,
             Status::Corruption(gap_ + ", so that later logs are not used"));
    }
    gap_.clear();
  }

  // *next is the least sequence number that may come.
  Status CheckRecord(const Slice& record, SequenceNumber* next) {
    BatchReader batch;
    Status status = batch.Init(record);
    SequenceNumber end = batch.sequence();
    for (bool done = false; status.ok() && !done;) {
      LogRecord part;
      status = batch.NextInLog(&part, &done);
      if (!status.ok() || done) break;
      if (has_manifest_ && part.family > manifest_.max_column_family) {
        return Status::Corruption("an update of column family " +
                                  std::to_string(part.family) +
                                  ", which never existed");
      }
      const std::string name = part.key.ToString();
      if (part.mark == BatchTag::kEndPrepare) {
        prepared_[name] = part.section_count;
      } else if (part.mark != BatchTag::kNoop) {
        // The section's updates get their numbers by the commit.
        if (part.mark == BatchTag::kCommit) end += prepared_[name];
        prepared_.erase(name);
      } else if (!part.is_log_data && !part.is_prepared) {
        ++end;
      }
    }
    if (!status.ok() || end == batch.sequence()) return status;
    if (batch.sequence() < *next) {
      return Status::Corruption("sequence " + std::to_string(batch.sequence()) +
                                " comes behind " + std::to_string(*next - 1));
    }
    *next = end;
    return status;
  }

  // Finds damage that the single files do not show, such as lost MANIFEST
  // edits.
  void CheckOpening() {
    Database db;
    Status status = db.Open(
        session_.line,
        [this](Options* options) {
          if (manifest_.key_folding.empty()) return;
          options->key_case = KeyCase::kInsensitive;
        },
        true);
    if (status.ok()) status = db.Close();
    if (!status.ok()) Damage(path_, status);
  }

  Session& session_;
  FILE* const out_;
  const bool live_;
  GoodTables& good_;
  const std::string path_;
  Progress progress_;
  bool has_manifest_ = false;
  ManifestState manifest_;
  std::set<uint64_t> refused_tables_;  // Of families that are refused.
  uint64_t refused_families_ = 0;
  std::map<uint64_t, std::string> tables_;  // Names, by number.
  std::map<uint64_t, std::string> logs_;
  std::map<uint64_t, uint64_t> log_ends_;  // End of the last record.
  // The live log with the first gap, the gap's description, and the sequence
  // number that should follow.
  std::string gap_log_;
  std::string gap_;
  SequenceNumber next_sequence_ = 0;
  // The largest of a table that the MANIFEST is too old to know, and its name.
  SequenceNumber unknown_sequence_ = 0;
  std::string unknown_table_;
  uint64_t table_bytes_ = 0;
  uint64_t records_ = 0;
  // Prepared transactions so far, and their numbers of updates.
  std::map<std::string, uint32_t> prepared_;
  std::string damage_;
  uint64_t damages_ = 0;
  uint64_t refused_ = 0;  // Part of damages_.
  uint64_t unreadable_ = 0;
};

}  // namespace

Status RunCheck(Session* session) {
  Env* const env = Env::Default();
  Status status = RequireDatabase(session->line);
  if (!status.ok()) return status;
  GoodTables good;
  std::string last_damage;
  int same_rounds = 0;
  DirectoryObservation before = ObserveDirectory(env, session->db());
  for (int round = 1;; ++round) {
    const std::string holder = FindHolder(session->line);
    char* text = nullptr;
    size_t size = 0;
    FILE* const out = open_memstream(&text, &size);
    if (out == nullptr) return Status::FromErrno("open_memstream", errno);
    if (!holder.empty()) {
      PrintFinding(session->line, "note", session->db(), "open in " + holder,
                   out);
    }
    Checker checker(session, out, !holder.empty(), &good);
    status = checker.Run();
    fclose(out);
    const std::string found(text, size);
    free(text);
    const DirectoryObservation after = ObserveDirectory(env, session->db());
    same_rounds = checker.damage() == last_damage ? same_rounds + 1 : 1;
    last_damage = checker.damage();
    if (round == kMaxRounds) {
      return Status::Busy(session->db(),
                          "another process changes it faster than it can be "
                          "checked: " +
                              status.ToString());
    }
    if (checker.damage().empty() || after == before ||
        same_rounds == kSameRounds) {
      fwrite(found.data(), 1, found.size(), session->out);
      return status;
    }
    before = after;
  }
}

}  // namespace varve
