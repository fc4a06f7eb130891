// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "tools/varve/varve_dump_log.h"

#include <cinttypes>

#include "db/version/manifest_reader.h"
#include "db/version/version_builder.h"
#include "db/wal/wal_predecessor.h"
#include "db/wal/wal_reader.h"
#include "db/write/write_batch_internal.h"
#include "env/file_names.h"
#include "tools/varve/varve_live.h"
#include "tools/varve/varve_text.h"

namespace varve {

namespace {

uint64_t NumberOf(const std::string& path) {
  uint64_t number = 0;
  FileType type;
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

void PrintEdit(const VersionEdit& edit, bool hex, FILE* out) {
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
  if (edit.column_family() != 0) number("column family", edit.column_family());
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
  for (const auto& [level, file] : edit.deleted_files()) {
    fprintf(out, "  remove from level %d: %06" PRIu64 "\n", level, file);
  }
  for (const auto& [level, file] : edit.new_files()) {
    fprintf(out, "  add to level %d: ", level);
    PrintFile(file, hex, out);
  }
}

void PrintLevels(const ManifestState& state, bool hex, FILE* out) {
  for (int level = 0; level < kNumLevels; ++level) {
    const std::vector<FileMetaData*>& files = state.levels[level];
    uint64_t bytes = 0;
    for (const FileMetaData* file : files) bytes += file->file_size;
    fprintf(out, "level %d: %zu files, %" PRIu64 " bytes\n", level,
            files.size(), bytes);
    for (const FileMetaData* file : files) {
      fputs("  ", out);
      PrintFile(*file, hex, out);
    }
  }
}

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

void PrintUpdate(const BatchRecord& update, bool hex, FILE* out) {
  fputs("  ", out);
  if (update.other_family) fputs("in another column family: ", out);
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

Status PrintBatch(const Slice& record, uint64_t number, uint64_t end,
                  Session* session) {
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
    return status;
  }
  bool done = false;
  while (!OutputFailed(session)) {
    BatchRecord update;
    status = batch.Next(&update, &done);
    if (!status.ok() || done) break;
    PrintUpdate(update, session->line.Has("hex"), session->out);
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
  const InternalKeyComparator comparator(BytewiseComparator());
  VersionBuilder builder(&comparator, nullptr);
  Status applied;  // Edits are shown even when they do not fit together.
  Slice record;
  uint64_t count = 0;
  wal::ReadOutcome outcome;
  while ((outcome = reader->ReadRecord(&record)) == wal::ReadOutcome::kRecord &&
         !OutputFailed(session)) {
    VersionEdit edit;
    status = edit.DecodeFrom(record);
    fprintf(out, "edit %" PRIu64 ", to byte %" PRIu64 ", %zu bytes\n", ++count,
            reader->RecordEnd(), record.size());
    if (!status.ok()) return status.Annotate(path);
    PrintEdit(edit, hex, out);
    if (applied.ok() && edit.column_family() == 0) {
      applied = builder.Apply(edit);
    }
  }
  if (OutputFailed(session)) return Status();
  status = EndOf(outcome, reader.get(), out);
  if (!status.ok()) return status;
  if (count == 0) return Status::Corruption(path, "holds no edit");
  ManifestState state;
  if (applied.ok()) applied = builder.Finish(state.levels);
  if (!applied.ok()) return applied.Annotate(path);
  fputs("in the end\n", out);
  PrintLevels(state, hex, out);
  return Status();
}

Status RunDumpWal(Session* session) {
  const std::string& path = session->operand(0);
  std::unique_ptr<wal::Reader> reader;
  Status status = OpenLog(path, &reader);
  if (!status.ok()) return status;
  Slice record;
  uint64_t count = 0;
  wal::ReadOutcome outcome;
  while ((outcome = reader->ReadRecord(&record)) == wal::ReadOutcome::kRecord) {
    status = PrintBatch(record, ++count, reader->RecordEnd(), session);
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
  const InternalKeyComparator comparator(BytewiseComparator());
  std::unique_ptr<ManifestState> state;
  status = ReadUnlocked(session->db(), [&] {
    state = std::make_unique<ManifestState>();
    return ReadManifest(Env::Default(), session->db(), comparator, state.get());
  });
  if (status.ok()) PrintLevels(*state, session->line.Has("hex"), session->out);
  return status;
}

}  // namespace varve
