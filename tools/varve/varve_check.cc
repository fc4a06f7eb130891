// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "tools/varve/varve_check.h"

#include <algorithm>
#include <cinttypes>
#include <map>
#include <set>

#include "db/recovery/foreign_files.h"
#include "db/version/manifest_reader.h"
#include "db/wal/wal_predecessor.h"
#include "db/wal/wal_reader.h"
#include "db/write/write_batch_internal.h"
#include "env/file_names.h"
#include "table/reader/table_iterator.h"
#include "table/reader/table_verifier.h"
#include "tools/varve/varve_dump_sst.h"

namespace varve {

namespace {

class Checker {
 public:
  explicit Checker(Session* session)
      : session_(*session),
        out_(session->out),
        path_(session->db()),
        comparator_(BytewiseComparator()),
        progress_(*session) {}

  Status Run() {
    Status status = RequireDatabase(session_.line);
    if (status.ok()) status = List();
    if (!status.ok()) return status;
    CheckManifest();
    PassForeignFiles();
    CheckTables();
    CheckLogs();
    if (damages_ == 0) CheckOpening();
    fprintf(out_,
            "%zu tables, %" PRIu64 " bytes; %zu logs, %" PRIu64 " records\n",
            tables_.size(), table_bytes_, logs_.size(), records_);
    if (damages_ == 0) {
      fputs("no damage\n", out_);
      return Status();
    }
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
  void Damage(const std::string& file, const Status& status) {
    // What Varve does not have need not be damage.
    const bool foreign = status.IsNotSupported() || status.IsInvalidArgument();
    const bool unread = status.IsIOError();
    fprintf(out_, "%s: %s: %s\n",
            foreign  ? "refused"
            : unread ? "unreadable"
                     : "damaged",
            file.c_str(), status.ToString().c_str());
    ++damages_;
    refused_ += foreign;
    unreadable_ += unread;
  }
  void Note(const std::string& file, const std::string& what) {
    fprintf(out_, "note: %s: %s\n", file.c_str(), what.c_str());
  }

  Status List() {
    std::vector<std::string> names;
    const Status status = Env::Default()->GetChildren(path_, &names);
    for (const std::string& name : names) {
      uint64_t number;
      FileType type;
      if (!ParseFileName(name, &number, &type)) continue;
      if (type == FileType::kWal) logs_[number] = name;
      if (type == FileType::kTable || type == FileType::kLevelDbTable) {
        tables_[number] = name;
      }
      if (type == FileType::kTemp) Note(name, "left by a crash, not used");
    }
    return status;
  }

  // Those that the MANIFEST does not name, if they are another program's.
  void PassForeignFiles() {
    std::set<uint64_t> live = {manifest_.log_number, manifest_.prev_log_number};
    for (const auto& level : manifest_.levels) {
      for (const FileMetaData* file : level) live.insert(file->number);
    }
    const uint64_t next =
        has_manifest_ ? manifest_.next_file_number : kMaxFileNumber;
    for (auto* files : {&logs_, &tables_}) {
      std::erase_if(*files, [&](const auto& file) {
        const auto& [number, name] = file;
        uint64_t same = 0;
        FileType type = FileType::kWal;
        if (live.contains(number) || !ParseFileName(name, &same, &type) ||
            !IsForeignFile(Env::Default(), path_ + "/" + name, type, number,
                           next)) {
          return false;
        }
        Note(name, "no file of the database's, by its contents");
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
    status = ReadManifest(Env::Default(), path_, comparator_, &manifest_);
    if (!status.ok()) {
      Damage(name, status);
      return;
    }
    has_manifest_ = true;
    if (manifest_.torn_tail) {
      Note(name, "the last edit was cut off: " + manifest_.torn_tail_message);
    }
  }

  void CheckTables() {
    std::map<uint64_t, const FileMetaData*> live;
    for (const auto& level : manifest_.levels) {
      for (const FileMetaData* file : level) live[file->number] = file;
    }
    for (const auto& [number, file] : live) {
      if (tables_.contains(number)) continue;
      Damage(TableFileName("", number).substr(1),
             Status::NotFound("the MANIFEST names it, and it is missing"));
    }
    size_t i = 0;
    for (const auto& [number, name] : tables_) {
      if (progress_.Due()) {
        progress_.Show("table " + std::to_string(i) + " of " +
                       std::to_string(tables_.size()));
      }
      ++i;
      const auto it = live.find(number);
      const FileMetaData* const file = it == live.end() ? nullptr : it->second;
      if (has_manifest_ && file == nullptr) {
        Note(name, "no part of the database, the MANIFEST does not name it");
        if (number >= manifest_.next_file_number) NoteSequences(name);
        continue;
      }
      const Status status = CheckTable(path_ + "/" + name, file);
      if (!status.ok()) Damage(name, status);
    }
  }

  // Of a table that was made after the MANIFEST's last edit, if it is whole.
  void NoteSequences(const std::string& name) {
    std::unique_ptr<TableCore> core;
    if (!OpenTableFile(path_ + "/" + name, &comparator_, &core).ok()) return;
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

  // Without a MANIFEST `file` is null.
  Status CheckTable(const std::string& path, const FileMetaData* file) {
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
    status = OpenTableFile(path, &comparator_, &core);
    if (status.ok()) status = VerifyTable(*core);
    if (status.ok() && file != nullptr) status = CheckKeyRange(*core, *file);
    return status;
  }

  // Whether all keys are between those that the MANIFEST gives.
  Status CheckKeyRange(const TableCore& core, const FileMetaData& file) {
    TableIterator iterator(ReadOptions(), &core, nullptr);
    iterator.SeekToFirst();
    if (iterator.Valid() &&
        comparator_.CompareUser(ExtractUserKey(iterator.key()),
                                file.smallest_user_key()) < 0) {
      return Outside(iterator.key());
    }
    iterator.SeekToLast();
    if (!iterator.Valid()) return iterator.status();
    const int r = comparator_.CompareUser(ExtractUserKey(iterator.key()),
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
      const bool live = !has_manifest_ ||
                        number >= manifest_.FirstLogNumber() ||
                        number == manifest_.prev_log_number;
      const Status status = CheckLog(number, name, live);
      if (status.ok()) continue;
      if (live) {
        Damage(name, status);
      } else {
        Note(name, "no longer needed, and damaged: " + status.ToString());
      }
    }
    CheckLogsAreThere();
  }

  // What no log tells of itself.
  void CheckLogsAreThere() {
    if (!has_manifest_) return;
    const std::string named = WalFileName("", manifest_.log_number).substr(1);
    if (manifest_.logs_are_files && !logs_.contains(manifest_.log_number)) {
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
    Slice record;
    wal::ReadOutcome outcome;
    while ((outcome = reader.ReadRecord(&record)) ==
           wal::ReadOutcome::kRecord) {
      ++records_;
      const bool is_first = next == 0;
      status = CheckRecord(record, &next);
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

  // A log may end between two records where it had more, or not be there: the
  // next one tells. Recovery goes no further then, unless the updates that come
  // go on where it has got to, as those of a writer do that had replayed it.
  void CheckGap(const Slice& record, bool first_update) {
    const auto note = WalPredecessor::Decode(record);
    if (note &&
        (!has_manifest_ || note->number >= manifest_.FirstLogNumber())) {
      const auto it = log_ends_.find(note->number);
      const uint64_t end = it == log_ends_.end() ? 0 : it->second;
      if (end < note->size) {
        gap_log_ = WalFileName("", note->number).substr(1);
        gap_ = "of " + std::to_string(note->size) +
               " bytes, what stood behind byte " + std::to_string(end) +
               " is gone";
        Note(gap_log_, gap_);  // That much a crash may leave.
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
  static Status CheckRecord(const Slice& record, SequenceNumber* next) {
    BatchReader batch;
    Status status = batch.Init(record);
    bool done = false;
    while (status.ok() && !done) {
      BatchRecord update;
      status = batch.Next(&update, &done);
    }
    if (!status.ok() || batch.count() == 0) return status;
    if (batch.sequence() < *next) {
      return Status::Corruption("sequence " + std::to_string(batch.sequence()) +
                                " comes behind " + std::to_string(*next - 1));
    }
    *next = batch.sequence() + batch.count();
    return status;
  }

  // What the parts do not tell, such as that edits of the MANIFEST are lost.
  void CheckOpening() {
    Options options = OptionsOf(session_.line);
    if (!manifest_.key_folding.empty()) {
      options.key_case = KeyCase::kInsensitive;
    }
    std::unique_ptr<DB> db;
    Status status = DB::OpenForReadOnly(options, path_, &db);
    if (status.ok()) status = db->Close();
    if (!status.ok()) Damage(path_, status);
  }

  Session& session_;
  FILE* const out_;
  const std::string path_;
  const InternalKeyComparator comparator_;
  Progress progress_;
  bool has_manifest_ = false;
  ManifestState manifest_;
  std::map<uint64_t, std::string> tables_;  // Names, by number.
  std::map<uint64_t, std::string> logs_;
  std::map<uint64_t, uint64_t> log_ends_;  // Of their last records.
  // Of the live logs so far: what is missing of which, before anything that
  // follows, and the sequence number that should come.
  std::string gap_log_;
  std::string gap_;
  SequenceNumber next_sequence_ = 0;
  // The largest of a table that the MANIFEST is too old to know, and its name.
  SequenceNumber unknown_sequence_ = 0;
  std::string unknown_table_;
  uint64_t table_bytes_ = 0;
  uint64_t records_ = 0;
  uint64_t damages_ = 0;
  uint64_t refused_ = 0;  // Of these.
  uint64_t unreadable_ = 0;
};

}  // namespace

Status RunCheck(Session* session) { return Checker(session).Run(); }

}  // namespace varve
