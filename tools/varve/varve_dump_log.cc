// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "tools/varve/varve_dump_log.h"

#include <cinttypes>
#include <map>

#include "db/version/best_effort_manifest.h"
#include "db/version/manifest_reader.h"
#include "db/version/version.h"
#include "db/version/version_builder.h"
#include "db/wal/wal_predecessor.h"
#include "db/wal/wal_reader.h"
#include "db/write/write_batch_internal.h"
#include "env/file_names.h"
#include "tools/varve/varve_database.h"
#include "tools/varve/varve_json.h"
#include "tools/varve/varve_live.h"
#include "tools/varve/varve_text.h"

namespace varve {

namespace {

uint64_t NumberOf(const std::string& path) {
  uint64_t number = 0;
  FileKind type;
  const size_t slash = path.rfind('/');
  ParseFileName(slash == path.npos ? path : path.substr(slash + 1), &number,
                &type);
  return number;
}

// Opens a log or MANIFEST, with the number that its name gives.
Status OpenLog(const std::string& path, std::unique_ptr<wal::Reader>* reader) {
  std::unique_ptr<SequentialFile> file;
  const Status status =
      Env::Default()->NewSequentialFile(path, FileOptions(), &file);
  if (!status.ok()) return status;
  *reader =
      std::make_unique<wal::Reader>(std::move(file), path, NumberOf(path));
  return status;
}

// Returns the status for the end of a log. A last write that was cut off is no
// damage.
Status EndOf(wal::ReadOutcome outcome, wal::Reader* reader, FILE* out) {
  if (outcome == wal::ReadOutcome::kEnd) return Status();
  if (reader->EndIsTorn(outcome)) {
    fprintf(out, "the last record was cut off: %s\n",
            Printable(reader->status().message()).c_str());
    return Status();
  }
  return reader->status();
}

// ---- MANIFEST --------------------------------------------------------------

void PrintKey(const Slice& internal_key, bool hex, FILE* out) {
  PrintQuoted(ExtractUserKey(internal_key), hex, out);
}

void PrintFile(const FileMetaData& file, bool hex, FILE* out) {
  fprintf(out, "%06" PRIu64 "  %" PRIu64 " bytes  ", file.number,
          file.file_size);
  PrintKey(file.smallest, hex, out);
  fputs(" .. ", out);
  PrintKey(file.largest, hex, out);
  if (file.EndIsExclusive()) fputs(" (without)", out);
  if (!file.sequences_unknown) {
    fprintf(out, "  sequence %" PRIu64 " .. %" PRIu64, file.smallest_sequence,
            file.largest_sequence);
  }
  fputc('\n', out);
}

void PrintFileJson(const FileMetaData& file, const FamilyManifest& family,
                   int level, bool hex, TextOutput* out) {
  JsonLine line(out);
  line.Number("family_id", family.id)
      .Text("family", family.name)
      .Number("level", static_cast<uint64_t>(level))
      .Number("number", file.number)
      .Number("bytes", file.file_size)
      .Text("smallest", ExtractUserKey(file.smallest), hex)
      .Text("largest", ExtractUserKey(file.largest), hex)
      .Literal("largest_is_included", file.EndIsExclusive() ? "false" : "true");
  if (!file.sequences_unknown) {
    line.Number("smallest_sequence", file.smallest_sequence)
        .Number("largest_sequence", file.largest_sequence);
  }
}

// Names of column families, by id.
using FamilyNames = std::map<uint32_t, std::string>;

// Returns the id of a column family, and its name if it is known.
std::string Describe(uint32_t family, const FamilyNames& names) {
  const auto name = names.find(family);
  return std::to_string(family) +
         (name == names.end() ? "" : " " + Escaped(name->second));
}

void PrintEdit(const VersionEdit& edit, const FamilyNames& names, bool hex,
               FILE* out) {
  const auto number = [&](const char* name, std::optional<uint64_t> value) {
    if (value) fprintf(out, "  %s: %" PRIu64 "\n", name, *value);
  };
  const auto text = [&](const char* name, const std::string& value) {
    if (value.empty()) return;
    fprintf(out, "  %s: %s\n", name, Escaped(value).c_str());
  };
  text("comparator", edit.comparator().value_or(""));
  text("database id", edit.db_id());
  text("key folding", edit.key_folding());
  if (edit.column_family() != 0) {
    fprintf(out, "  column family: %s\n",
            Describe(edit.column_family(), names).c_str());
  }
  if (edit.adds_column_family()) {
    text("add column family", edit.column_family_name());
  }
  if (edit.drops_column_family()) fputs("  drop column family\n", out);
  number("max column family", edit.max_column_family());
  number("still to come of the group", edit.atomic_group_remaining());
  number("log number", edit.log_number());
  number("previous log number", edit.prev_log_number());
  number("oldest log to keep", edit.min_log_number_to_keep());
  number("next file number", edit.next_file_number());
  number("last sequence", edit.last_sequence());
  number("closed, with logs up to sequence", edit.logs_end());
  number("tables up to sequence", edit.tables_end());
  for (const auto& [level, file] : edit.deleted_files()) {
    fprintf(out, "  remove from level %d: %06" PRIu64 "\n", level, file);
  }
  for (const auto& [level, file] : edit.new_files()) {
    fprintf(out, "  add to level %d: ", level);
    PrintFile(file, hex, out);
  }
}

// The tables of a column family, as edits change them.
struct FamilyTables {
  std::string name;
  std::string comparator;                   // Its name.
  std::unique_ptr<VersionBuilder> builder;  // Null before the first table.
  Status status;  // Edits are shown even when they do not fit together.

  void Apply(const VersionEdit& edit) {
    if (edit.comparator()) comparator = *edit.comparator();
    if (edit.new_files().empty() && edit.deleted_files().empty()) return;
    if (builder == nullptr) {
      const InternalKeyComparator* const known = KnownComparator(comparator);
      if (known == nullptr) return;
      builder = std::make_unique<VersionBuilder>(known, nullptr);
    }
    if (status.ok()) status = builder->Apply(edit);
  }
};

void PrintLevels(const FamilyManifest& family, bool is_only, bool hex,
                 FILE* out) {
  if (!is_only) {
    fprintf(out, "column family %" PRIu32 " %s\n", family.id,
            Escaped(family.name).c_str());
  }
  if (KnownComparator(family.comparator_name) == nullptr) {
    fprintf(out, "  not shown: its comparator %s is unknown\n",
            Escaped(family.comparator_name).c_str());
    return;
  }
  int level = 0;
  for (const auto& files : family.levels) {
    fprintf(out, "level %d: %zu files, %" PRIu64 " bytes\n", level++,
            files.size(), TotalFileSize(files));
    for (const FileMetaData* file : files) {
      fputs("  ", out);
      PrintFile(*file, hex, out);
    }
  }
}

// A line for each table.
Status PrintLevelsJson(const FamilyManifest& family, bool hex,
                       TextOutput* out) {
  if (KnownComparator(family.comparator_name) == nullptr) {
    return UnknownComparator({family.id, family.name, family.comparator_name});
  }
  int level = 0;
  for (const auto& files : family.levels) {
    for (const FileMetaData* file : files) {
      PrintFileJson(*file, family, level, hex, out);
    }
    ++level;
  }
  return Status();
}

// Applies edits, and shows in the end what they come to.
class EditReplay {
 public:
  EditReplay() { families_[0].name = kDefaultColumnFamilyName; }

  // `decoded` is OK, or names a feature of the edit that is not supported.
  void Apply(const VersionEdit& edit, const Status& decoded) {
    const uint32_t id = edit.column_family();
    if (edit.adds_column_family()) {
      families_[id].name = names_[id] = edit.column_family_name();
    }
    if (edit.drops_column_family() && id != 0) {
      families_.erase(id);
      return;
    }
    const auto family = families_.find(id);
    if (family != families_.end()) {
      if (family->second.status.ok()) family->second.status = decoded;
      family->second.Apply(edit);
    } else if (status_.ok()) {
      status_ = Status::Corruption("an edit of the unknown column family " +
                                   std::to_string(id));
    }
  }
  // Keeps the names of families that were dropped.
  const FamilyNames& names() const { return names_; }

  Status Print(bool hex, FILE* out) {
    Status status = status_;
    std::vector<std::unique_ptr<FamilyManifest>> all;
    for (auto& [id, family] : families_) {
      auto manifest = std::make_unique<FamilyManifest>();
      manifest->id = id;
      manifest->name = family.name;
      manifest->comparator_name = family.comparator;
      if (status.ok()) status = family.status;
      if (status.ok() && family.builder != nullptr) {
        status = family.builder->Finish(&manifest->levels);
      }
      all.push_back(std::move(manifest));
    }
    if (!status.ok()) return status;
    fputs("in the end\n", out);
    for (const auto& family : all) {
      PrintLevels(*family, all.size() == 1, hex, out);
    }
    return status;
  }

 private:
  std::map<uint32_t, FamilyTables> families_;
  FamilyNames names_;
  Status status_;
};

// The path of the MANIFEST in force.
Status FindManifest(const CommandLine& line, std::string* path) {
  Status status = RequireDatabase(line);
  std::string name;
  if (status.ok()) {
    status = ReadCurrentFile(Env::Default(), line.Text("db"), &name);
  }
  *path = line.Text("db") + "/" + name;
  return status;
}

// ---- Write-ahead log -------------------------------------------------------

// Returns the names of the column families of the database that the file is in,
// as far as its MANIFEST can be read.
FamilyNames FindNames(const std::string& path) {
  const std::string directory = ParentDirectory(path);
  std::vector<std::string> files;
  BestEffortManifest manifest;
  if (Env::Default()->GetChildren(directory, &files).ok()) {
    ReadBestEffortManifest(Env::Default(), directory, files, &manifest);
  }
  FamilyNames names;
  for (const auto& [id, family] : manifest.families) {
    if (!family.name.empty()) names[id] = family.name;
  }
  return names;
}

void PrintUpdate(const BatchRecord& update, const FamilyNames& names, bool hex,
                 FILE* out) {
  fputs("  ", out);
  if (update.family != 0) {
    fprintf(out, "family %s: ", Describe(update.family, names).c_str());
  }
  if (update.is_log_data) {
    fputs("note ", out);
    PrintQuoted(update.key, hex, out);
    fputc('\n', out);
    return;
  }
  const char* separator = nullptr;
  switch (update.type) {
    case ValueType::kValue:
      fputs("put ", out);
      separator = " = ";
      break;
    case ValueType::kMerge:
      fputs("merge ", out);
      separator = " + ";
      break;
    case ValueType::kRangeDeletion:
      fputs("delete range ", out);
      separator = " .. ";
      break;
    case ValueType::kSingleDeletion:
      fputs("single delete ", out);
      break;
    default:
      fputs("delete ", out);
      break;
  }
  PrintQuoted(update.key, hex, out);
  if (separator != nullptr) {
    fputs(separator, out);
    PrintQuoted(update.value, hex, out);
  }
  fputc('\n', out);
}

void PrintMark(const LogRecord& part, bool hex, FILE* out) {
  fputs(part.mark == BatchTag::kEndPrepare ? "  prepare "
        : part.mark == BatchTag::kCommit   ? "  commit "
                                           : "  roll back ",
        out);
  PrintQuoted(part.key, hex, out);
  fputc('\n', out);
}

Status PrintBatch(const Slice& record, uint64_t number, uint64_t end,
                  const FamilyNames& names, Session* session) {
  BatchReader batch;
  Status status = batch.Init(record);
  if (!status.ok()) return status;
  fprintf(session->out,
          "record %" PRIu64 ", to byte %" PRIu64 ": sequence %" PRIu64
          ", %" PRIu32 " updates, %zu bytes\n",
          number, end, batch.sequence(), batch.count(), record.size());
  if (const auto note = WalPredecessor::Decode(record)) {
    fprintf(session->out,
            "  the log before it is %06" PRIu64 ", of %" PRIu64 " bytes\n",
            note->number, note->size);
    if (note->log != 0) {
      fprintf(session->out, "  this log is %06" PRIu64 "\n", note->log);
    }
    return status;
  }
  bool done = false;
  const bool hex = session->line.Has("hex");
  while (!OutputFailed(session)) {
    LogRecord part;
    status = batch.NextInLog(&part, &done);
    if (!status.ok() || done) break;
    if (part.mark != BatchTag::kNoop) {
      PrintMark(part, hex, session->out);
    } else {
      if (part.is_prepared) fputs("  of the next prepare:", session->out);
      PrintUpdate(part, names, hex, session->out);
    }
  }
  return status;
}

}  // namespace

Status RunDumpManifest(Session* session) {
  FILE* const out = session->out;
  const bool hex = session->line.Has("hex");
  std::string path;
  Status status;
  std::unique_ptr<wal::Reader> reader;
  if (session->line.operands.empty()) {
    status = ReadUnlocked(session->db(), [&] {
      const Status found = FindManifest(session->line, &path);
      return found.ok() ? OpenLog(path, &reader) : found;
    });
  } else {
    path = session->operand(0);
    status = OpenLog(path, &reader);
  }
  if (!status.ok()) return status;
  fprintf(out, "%s\n", path.c_str());
  EditReplay replay;
  Slice record;
  uint64_t count = 0;
  wal::ReadOutcome outcome;
  while ((outcome = reader->ReadRecord(&record)) == wal::ReadOutcome::kRecord &&
         !OutputFailed(session)) {
    VersionEdit edit;
    status = edit.DecodeFrom(record);
    fprintf(out, "edit %" PRIu64 ", to byte %" PRIu64 ", %zu bytes\n", ++count,
            reader->RecordEnd(), record.size());
    if (status.IsCorruption()) return status.Annotate(path);
    replay.Apply(edit, status);
    PrintEdit(edit, replay.names(), hex, out);
    if (!status.ok()) {
      fprintf(out, "  not shown: %s\n", status.message().ToString().c_str());
    }
  }
  if (OutputFailed(session)) return Status();
  status = EndOf(outcome, reader.get(), out);
  if (!status.ok()) return status;
  if (count == 0) return Status::Corruption(path, "holds no edit");
  status = replay.Print(hex, out);
  return status.ok() ? status : status.Annotate(path);
}

Status RunDumpWal(Session* session) {
  const std::string& path = session->operand(0);
  std::unique_ptr<wal::Reader> reader;
  Status status = OpenLog(path, &reader);
  if (!status.ok()) return status;
  const FamilyNames names = FindNames(path);
  Slice record;
  uint64_t count = 0;
  wal::ReadOutcome outcome;
  while ((outcome = reader->ReadRecord(&record)) == wal::ReadOutcome::kRecord) {
    status = PrintBatch(record, ++count, reader->RecordEnd(), names, session);
    if (!status.ok()) return status.Annotate(path);
    if (OutputFailed(session)) return status;
  }
  fprintf(session->out, "%" PRIu64 " records\n", count);
  status = EndOf(outcome, reader.get(), session->out);
  if (outcome == wal::ReadOutcome::kDamage && !status.ok() &&
      IsBeingWritten(path, NumberOf(path), reader->RecordEnd())) {
    fputs("it is being written\n", session->out);
    return Status();
  }
  return status;
}

Status RunLevels(Session* session) {
  Status status = RequireDatabase(session->line);
  if (!status.ok()) return status;
  FamilyList list;
  std::unique_ptr<ManifestState> state;
  status = ReadUnlocked(session->db(), [&] {
    state = std::make_unique<ManifestState>();
    return ReadManifestAndFamilies(session->db(), &list, state.get());
  });
  if (!status.ok()) return status;
  // A database of another order is refused as by the engine.
  if (list.entries().size() == 1) status = list.RequireComparators();
  if (!status.ok()) return status;
  TextOutput out(session->out);
  const bool is_one = session->line.Has("family");
  const std::string wanted = list.Meant(session->line.Text("family"));
  bool any = false;
  for (const auto& family : state->families) {
    if (is_one && family->name != wanted) continue;
    any = true;
    if (session->line.Has("json")) {
      const Status shown =
          PrintLevelsJson(*family, session->line.Has("hex"), &out);
      if (status.ok()) status = shown;
    } else {
      PrintLevels(*family, state->families.size() == 1,
                  session->line.Has("hex"), session->out);
    }
  }
  FlushOutput(&out, session);
  return any ? status : NoFamily(wanted, session->db());
}

}  // namespace varve
