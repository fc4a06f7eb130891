// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "tools/varve/varve_transfer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdlib>
#include <utility>
#include <vector>

#include "db/ttl/ttl_value.h"
#include "env/file_names.h"
#include "tools/varve/varve_cleanup.h"
#include "tools/varve/varve_database.h"
#include "tools/varve/varve_lines.h"
#include "tools/varve/varve_text.h"
#include "util/bytes/checksum.h"
#include "varve/env.h"
#include "varve/external_files.h"
#include "varve/sst_file_writer.h"
#include "varve/write_batch.h"

namespace varve {

namespace {

constexpr char kHeader[] = "varve-dump 1";
constexpr char kFamiliesHeader[] = "varve-dump 2";
constexpr char kFamilyLine[] = "varve-dump-family ";
constexpr char kTrailer[] = "varve-dump-end ";
constexpr char kLdbTrailer[] = "Keys in range: ";
constexpr size_t kBatchBytes = 1 << 20;
constexpr size_t kEntryBytes = 8;  // Besides its key and value.

std::string TrailerOf(uint64_t count, uint32_t crc) {
  char text[64];
  snprintf(text, sizeof(text), "%s%" PRIu64 " %08" PRIx32, kTrailer, count,
           crc);
  return text;
}

// A column family that a dump names.
struct DumpFamily {
  std::string name;
  std::string comparator;
};

// Reads a dump of any of the forms.
class DumpReader {
 public:
  DumpReader(FILE* file, const std::string& name) : lines_(file, name) {}

  // The next entry; false at the end, or after an error.
  bool Next(std::string* key, std::string* value) {
    Slice line;
    while (status_.ok() && lines_.Next(&line)) {
      if (ended_) {
        status_ = lines_.Wrong("there is more behind the end of the dump");
        break;
      }
      if (!begun_) {
        Begin(line);
        if (!ldb_) continue;
      }
      if (IsMark(line, ldb_ ? kLdbTrailer : kTrailer)) {
        End(line);
        continue;
      }
      if (names_families_ && IsMark(line, kFamilyLine)) {
        TakeFamily(line);
        continue;
      }
      TakeEntry(line, key, value);
      return status_.ok();
    }
    if (status_.ok()) status_ = lines_.status();
    if (status_.ok() && !ended_ && !(ldb_ && scan_)) {
      status_ = lines_.Wrong("the dump is cut off: its last line is missing");
    }
    return false;
  }

  const Status& status() const { return status_; }
  uint64_t count() const { return count_; }
  // The families so far. The last entry is of the last one, or of none if the
  // dump names none.
  const std::vector<DumpFamily>& families() const { return families_; }

 private:
  void Begin(const Slice& line) {
    begun_ = true;
    ldb_ = line.starts_with("0x") || line.starts_with(kLdbTrailer);
    names_families_ = line == Slice(kFamiliesHeader);
    if (!ldb_ && !names_families_ && line != Slice(kHeader)) {
      status_ = lines_.Wrong(std::string("this is no dump: it does not begin "
                                         "with '") +
                             kHeader + "' or '" + kFamiliesHeader + "'");
    }
  }

  // A key may begin like a mark, but its line has a tab.
  bool IsMark(const Slice& line, const char* mark) const {
    return line.starts_with(mark) &&
           (ldb_ || std::find(line.data(), line.end(), '\t') == line.end());
  }

  void TakeFamily(const Slice& line) {
    Slice rest = line;
    rest.remove_prefix(sizeof(kFamilyLine) - 1);
    const char* const space = std::find(rest.begin(), rest.end(), ' ');
    DumpFamily family;
    if (space == rest.end() || !lines_.ends() ||
        !DecodeEscaped(
            Slice(rest.data(), static_cast<size_t>(space - rest.data())),
            &family.comparator) ||
        !DecodeEscaped(
            Slice(space + 1, static_cast<size_t>(rest.end() - space) - 1),
            &family.name) ||
        family.name.empty()) {
      status_ = lines_.Wrong("this names no column family");
      return;
    }
    families_.push_back(std::move(family));
    crc_ = Crc32cExtend(crc_, line.data(), line.size() + 1);
  }

  void End(const Slice& line) {
    ended_ = true;
    const std::string expected =
        ldb_ ? kLdbTrailer + std::to_string(count_) : TrailerOf(count_, crc_);
    if (line != Slice(expected)) {
      status_ =
          lines_.Wrong("the dump is damaged: it ends in '" + Escaped(line) +
                       "', its entries make '" + expected + "'");
    }
  }

  void TakeEntry(const Slice& line, std::string* key, std::string* value) {
    const std::string_view text(line.data(), line.size());
    std::string_view separator = "\t";
    if (ldb_) {
      scan_ = text.find(" ==> ") == text.npos;
      separator = scan_ ? " : " : " ==> ";
    }
    const size_t at = text.find(separator);
    if (at == text.npos || !lines_.ends() ||
        (names_families_ && families_.empty())) {
      status_ = lines_.Wrong("this is no entry");
      return;
    }
    const Slice left(line.data(), at);
    const size_t right_at = at + separator.size();
    const Slice right(line.data() + right_at, line.size() - right_at);
    const auto decode = ldb_ ? DecodeHex : DecodeEscaped;
    if (!decode(left, key) || !decode(right, value)) {
      status_ = lines_.Wrong("the bytes of this entry are written wrong");
      return;
    }
    // Includes the newline, which follows the line in memory.
    crc_ = Crc32cExtend(crc_, line.data(), line.size() + 1);
    ++count_;
  }

  LineReader lines_;
  bool begun_ = false;
  bool ended_ = false;
  bool ldb_ = false;
  bool names_families_ = false;
  std::vector<DumpFamily> families_;
  // The last entry came from `ldb scan`, which prints no trailer.
  bool scan_ = false;
  uint32_t crc_ = 0;
  uint64_t count_ = 0;
  Status status_;
};

// A dump that is read: a file, a pipe or, as -, the standard input.
class DumpInput {
 public:
  DumpInput(const std::string& path, FILE* standard)
      : name_(path == "-" ? "standard input" : path),
        opened_(path == "-" ? nullptr : fopen(path.c_str(), "r")),
        file_(path == "-" ? standard : opened_) {
    if (file_ == nullptr) status_ = Status::FromErrno(path, errno);
  }
  DumpInput(const DumpInput&) = delete;
  DumpInput& operator=(const DumpInput&) = delete;
  ~DumpInput() {
    if (opened_ != nullptr) fclose(opened_);
  }

  const Status& status() const { return status_; }
  const std::string& name() const { return name_; }
  FILE* get() const { return file_; }

  // Reads the whole dump to see whether it is in order, if it can be read
  // again then.
  Status Check() const {
    struct stat info;
    if (opened_ == nullptr || fstat(fileno(opened_), &info) != 0 ||
        !S_ISREG(info.st_mode)) {
      return Status();
    }
    DumpReader reader(opened_, name_);
    std::string key;
    std::string value;
    while (reader.Next(&key, &value)) {
    }
    if (reader.status().ok()) rewind(opened_);
    return reader.status();
  }

 private:
  const std::string name_;
  FILE* const opened_;  // Null for the standard input.
  FILE* const file_;
  Status status_;
};

// A dump that is written: to the standard output (-), into a pipe, a device or
// through a link, or to a file, which is replaced when all is there and synced.
class DumpOutput {
 public:
  DumpOutput(const std::string& path, FILE* standard)
      : path_(path), cleanup_([this] { RemoveTemporary(); }) {
    if (path == "-") {
      file_ = standard;
      return;
    }
    struct stat info;
    const bool exists = lstat(path.c_str(), &info) == 0;
    if (exists && !S_ISREG(info.st_mode)) {
      opened_ = fopen(path.c_str(), "we");
    } else {
      const int descriptor = CreateTemporary();
      if (descriptor >= 0) opened_ = fdopen(descriptor, "w");
      const mode_t mask = umask(0);
      umask(mask);
      const mode_t mode = exists ? info.st_mode & 07777 : 0666 & ~mask;
      if (opened_ != nullptr && fchmod(descriptor, mode) != 0) {
        status_ = Status::FromErrno(temporary_, errno);
      }
    }
    file_ = opened_;
    if (file_ == nullptr) status_ = Status::FromErrno(path, errno);
  }
  DumpOutput(const DumpOutput&) = delete;
  DumpOutput& operator=(const DumpOutput&) = delete;
  // Leaves what was there before, unless Finish has been called.
  ~DumpOutput() {
    if (opened_ == nullptr) return;
    fclose(opened_);
    RemoveTemporary();
  }

  const Status& status() const { return status_; }
  FILE* get() const { return file_; }
  bool standard() const { return opened_ == nullptr; }

  // After an error the old dump, if there was one, is still there.
  Status Finish() {
    if (opened_ == nullptr) return Status();
    const bool replaces = !temporary_.empty();
    if (ferror(opened_) != 0 || fflush(opened_) != 0 ||
        (replaces && (fsync(fileno(opened_)) != 0 ||
                      rename(temporary_.c_str(), path_.c_str()) != 0))) {
      return Status::FromErrno(path_, errno);
    }
    FILE* const file = opened_;
    opened_ = nullptr;
    if (fclose(file) != 0) return Status::FromErrno(path_, errno);
    if (!replaces) return Status();
    std::unique_ptr<Directory> directory;
    const Status status =
        Env::Default()->NewDirectory(ParentDirectory(path_), &directory);
    return status.ok() ? directory->Sync() : status;
  }

 private:
  int CreateTemporary() {
    MutexLock guard(SignalCleanup::mutex());
    // A unique name in the same directory.
    std::string name = path_ + ".tmp.XXXXXX";
    const int descriptor = mkostemp(name.data(), O_CLOEXEC);
    if (descriptor >= 0) temporary_ = name;
    return descriptor;
  }
  void RemoveTemporary() {
    if (!temporary_.empty()) unlink(temporary_.c_str());
  }

  const std::string path_;
  std::string temporary_;  // Empty if the path itself is written.
  FILE* opened_ = nullptr;
  FILE* file_ = nullptr;
  Status status_;
  const SignalCleanup cleanup_;  // Destroyed first: it uses the others.
};

struct DumpEntry {
  size_t family;  // How many the dump had named before.
  std::string key;
  std::string value;
};

// Entries of a dump, about as many as a batch has.
using Entries = std::vector<DumpEntry>;

// Reads them. Returns false at the end of the dump and after an error.
bool ReadSome(DumpReader* reader, Entries* entries) {
  entries->clear();
  size_t bytes = 0;
  while (bytes < kBatchBytes) {
    std::string key;
    std::string value;
    if (!reader->Next(&key, &value)) return false;
    bytes += key.size() + value.size() + kEntryBytes;
    entries->push_back(
        {reader->families().size(), std::move(key), std::move(value)});
  }
  return true;
}

// The families of a database that those of a dump go to.
class FamilyMap {
 public:
  FamilyMap(const DumpReader& reader, const CommandLine& line, Database* db)
      : reader_(reader), line_(line), db_(*db) {}

  // Finds, or creates, the targets of all families that were read so far.
  // Returns NotSupported if several families would go to the one of --family.
  Status Extend() {
    if (targets_.empty()) targets_.push_back(db_.family());
    Status status;
    while (status.ok() && targets_.size() <= reader_.families().size()) {
      ColumnFamilyHandle* target = nullptr;
      status = Find(reader_.families()[targets_.size() - 1], &target);
      targets_.push_back(target);
    }
    return status;
  }
  ColumnFamilyHandle* operator[](size_t family) const {
    return targets_[family];
  }

 private:
  Status Find(const DumpFamily& family, ColumnFamilyHandle** target) {
    if (line_.Has("family")) {
      *target = db_.family();
      return targets_.size() == 1
                 ? Status()
                 : Status::NotSupported(
                       "the dump has several column families: --family is for "
                       "a dump of one");
    }
    *target = db_.Find(family.name);
    if (*target != nullptr) return Status();
    if (!line_.Has("create_if_missing")) {
      return NoFamily(family.name, line_.Text("db") +
                                       "; --create_if_missing makes one, and");
    }
    const InternalKeyComparator* const order =
        KnownComparator(family.comparator);
    if (order == nullptr) {
      return UnknownComparator({0, family.name, family.comparator});
    }
    Options options;
    SetOptionsOf(line_, &options);
    options.comparator = order->user_comparator();
    return db_.Create(options, family.name, target);
  }

  const DumpReader& reader_;
  const CommandLine& line_;
  Database& db_;
  std::vector<ColumnFamilyHandle*> targets_;  // Of DumpEntry::family.
};

// Writes the entries of a dump to the database. Opens it after the first ones
// have been read, so that damage in them creates no database.
Status Ingest(DumpReader* reader, Session* session, Database* db) {
  Progress progress(*session);
  FamilyMap families(*reader, session->line, db);
  Entries entries;
  WriteBatch batch;
  Status status;
  for (bool more = true; more;) {
    more = ReadSome(reader, &entries);
    if (!reader->status().ok()) return reader->status();
    if (db->get() == nullptr) status = db->OpenToWrite(*session);
    if (status.ok()) status = families.Extend();
    if (!status.ok()) return status;
    batch.Clear();
    for (const auto& [family, key, value] : entries) {
      batch.Put(families[family], key, value);
    }
    status = db->get()->Write(WriteOptions(), &batch);
    if (!status.ok()) return status;
    if (progress.Due()) {
      progress.Show(std::to_string(reader->count()) + " entries");
    }
  }
  return status;
}

// Writes the lines of a dump.
class DumpWriter {
 public:
  DumpWriter(bool ldb, bool names_families, FILE* file)
      : ldb_(ldb), out_(file) {
    if (ldb) return;
    out_.Add(names_families ? kFamiliesHeader : kHeader);
    out_.Add("\n");
    out_.BeginCrc();
  }

  void BeginFamily(const std::string& name, const char* comparator) {
    out_.Add(kFamilyLine);
    for (const char c : Escaped(comparator)) {
      out_.Add(c == ' ' ? "\\x20" : std::string_view(&c, 1));
    }
    out_.Add(" ");
    out_.Add(name, Form::kEscaped);
    out_.Add("\n");
  }

  void Add(const Slice& key, const Slice& value) {
    const Form form = ldb_ ? Form::kHex : Form::kEscaped;
    ++count_;
    out_.Add(key, form);
    out_.Add(ldb_ ? " ==> " : "\t");
    out_.Add(value, form);
    out_.Add("\n");
  }

  void Finish() {
    out_.Add((ldb_ ? kLdbTrailer + std::to_string(count_)
                   : TrailerOf(count_, out_.Crc())) +
             "\n");
    out_.Flush();
  }

  TextOutput* out() { return &out_; }
  uint64_t count() const { return count_; }

 private:
  const bool ldb_;
  TextOutput out_;
  uint64_t count_ = 0;
};

Status Export(Iterator* iterator, DumpWriter* writer, Progress* progress) {
  iterator->SeekToFirst();
  for (; iterator->Valid() && writer->out()->error() == 0; iterator->Next()) {
    writer->Add(iterator->key(), iterator->value());
    if (writer->count() % kEntriesPerLook == 0 && progress->Due()) {
      progress->Show(std::to_string(writer->count()) + " entries");
    }
  }
  return iterator->status();
}

// Says what a dump of one family leaves out.
void NoteOtherFamilies(const Database& db, const Session& session) {
  const size_t others = db.families().size() - 1;
  if (session.line.Has("family") || (others == 0 && db.left_out().ok())) return;
  fprintf(session.err,
          "varve: note: the dump has the default column family only:"
          " --all_families exports all\n");
}

}  // namespace

Status RunExportTo(Session* session) {
  Database db;
  Status status = RequireDatabase(session->line);
  if (status.ok()) status = db.Open(session->line, nullptr, true);
  if (status.ok()) status = RefuseErrors(*session, db.errors());
  if (!status.ok()) return status;
  const bool is_all = session->line.Has("all_families");
  // A dump that leaves out one of all is no dump of all.
  if (is_all && !db.left_out().ok()) return db.left_out();
  if (!is_all) NoteOtherFamilies(db, *session);
  DumpOutput file(session->operand(0), session->out);
  if (!file.status().ok()) return file.status();
  const BoundedScan scan(session->line);
  const bool is_ldb = session->line.Has("ldb");
  const bool names_families = is_all || (db.family()->GetID() != 0 && !is_ldb);
  DumpWriter writer(is_ldb, names_families, file.get());
  {
    Progress progress(*session);
    for (const auto& family : db.families()) {
      if (!is_all && family.get() != db.family()) continue;
      if (names_families) {
        writer.BeginFamily(family->GetName(), family->GetComparator()->Name());
      }
      std::unique_ptr<Iterator> iterator =
          scan.NewIterator(db, true, family.get());
      status = Export(iterator.get(), &writer, &progress);
      if (!status.ok()) break;
    }
  }
  if (status.ok()) writer.Finish();
  if (file.standard()) FlushOutput(writer.out(), session);
  if (status.ok()) status = file.Finish();
  return status.ok() ? db.Close() : status;
}

Status RunIngestFrom(Session* session) {
  const DumpInput file(session->operand(0), session->in);
  Status status = file.status();
  if (status.ok()) status = RequireDatabase(session->line);
  // Finds damage before anything is written. Of a dump that can be read only
  // once, just the first batch is read before the database is opened.
  if (status.ok()) status = session->DamagedInput(file.Check());
  if (!status.ok()) return status;
  DumpReader reader(file.get(), file.name());
  Database db;
  status = Ingest(&reader, session, &db);
  if (!reader.status().ok()) return session->DamagedInput(reader.status());
  if (status.ok()) status = db.Close();
  if (status.ok()) {
    fprintf(session->out, "OK, %" PRIu64 " entries\n", reader.count());
  }
  return status;
}

Status RunWriteSst(Session* session) {
  const DumpInput file(session->operand(0), session->in);
  if (!file.status().ok()) return file.status();
  DumpReader reader(file.get(), file.name());
  std::string key;
  std::string value;
  bool more = reader.Next(&key, &value);
  Options options;
  Status status;
  if (!reader.families().empty()) {
    const DumpFamily& family = reader.families().front();
    const InternalKeyComparator* const order =
        KnownComparator(family.comparator);
    if (order == nullptr) {
      return UnknownComparator({0, family.name, family.comparator});
    }
    options.comparator = order->user_comparator();
  }
  SstFileWriter writer(options);
  status = writer.Open(session->operand(1));
  Progress progress(*session);
  const bool has_time = session->line.Has("ttl");
  const uint32_t time_s = TtlTimeNow(Env::Default());
  for (; status.ok() && more; more = reader.Next(&key, &value)) {
    if (reader.families().size() > 1) {
      return Status::NotSupported(
          file.name(), "has several column families, a table has one");
    }
    if (has_time) AppendTtlTime(time_s, &value);
    status = writer.Put(key, value);
    if (reader.count() % kEntriesPerLook == 0 && progress.Due()) {
      progress.Show(std::to_string(reader.count()) + " entries");
    }
  }
  // The table is removed, unless it is finished.
  if (!reader.status().ok()) return session->DamagedInput(reader.status());
  if (status.ok()) status = writer.Finish();
  if (status.ok()) {
    fprintf(session->out, "OK, %" PRIu64 " entries\n", reader.count());
  }
  return status;
}

Status RunIngestSst(Session* session) {
  Status status = RequireDatabase(session->line);
  Database db;
  if (status.ok()) status = db.OpenToWrite(*session);
  if (!status.ok()) return status;
  IngestExternalFileOptions options;
  options.link_files = session->line.Has("link");
  options.move_files = session->line.Has("move");
  options.verify_checksums_before_ingest = session->line.Has("verify");
  const std::vector<std::string>& files = session->line.operands;
  status = db.get()->IngestExternalFile(db.family(), files, options);
  if (status.ok()) status = db.Close();
  if (status.ok()) fprintf(session->out, "OK, %zu tables\n", files.size());
  return status;
}

}  // namespace varve
