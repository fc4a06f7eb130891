// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "tools/varve/varve_prepared.h"

#include <memory>
#include <vector>

#include "db/engine/db_impl.h"
#include "tools/varve/varve_database.h"
#include "tools/varve/varve_json.h"
#include "tools/varve/varve_live.h"

namespace varve {

namespace {

// Opens the database without a decorator for its keys, which are not used here.
Status Open(const Session& session, bool read_only,
            std::unique_ptr<DBImpl>* db) {
  const std::string path = session.db();
  FamilyList families;
  bool folds_keys = false;
  Status status = ReadUnlocked(path, [&] {
    ManifestState manifest;
    const Status read = ReadManifestAndFamilies(path, &families, &manifest);
    folds_keys = !manifest.key_folding.empty();
    return read;
  });
  if (status.ok()) status = families.RequireComparators();
  if (!status.ok()) return status;
  const StoredOptions stored(path);
  const auto options_of = [&](const FamilyList::Entry& entry) {
    Options options = stored.Of(entry.name, session.line);
    options.comparator = entry.known->user_comparator();
    if (folds_keys) options.key_case = KeyCase::kInsensitive;
    return options;
  };
  std::vector<ColumnFamilyDescriptor> others;
  for (const FamilyList::Entry& entry : families.entries()) {
    if (entry.id != 0) others.emplace_back(entry.name, options_of(entry));
  }
  const Options options = options_of(families.entries().front());
  *db = std::make_unique<DBImpl>(options, path, read_only);
  return (*db)->Open(/*name_is_safe=*/false, others);
}

Status List(Session* session) {
  NoteHolder(*session);
  WarnOfErrors(*session);
  std::unique_ptr<DBImpl> db;
  const Status status = Open(*session, /*read_only=*/true, &db);
  if (!status.ok()) return status;
  TextOutput out(session->out);
  for (const PreparedSection& section : db->PreparedSections()) {
    const std::string updates = std::to_string(section.updates.Count());
    const std::string bytes = std::to_string(section.updates.Data().size());
    if (session->line.Has("json")) {
      JsonLine(&out)
          .Text("name", section.name)
          .Literal("updates", updates)
          .Literal("bytes", bytes);
    } else {
      out.Add(section.name, FormOf(session->line));
      out.Add(": " + updates + " updates, " + bytes + " bytes\n");
    }
  }
  FlushOutput(&out, session);
  return status;
}

Status Settle(const std::string& name, bool commits, Session* session) {
  std::unique_ptr<DBImpl> db;
  Status status = RequireUpdates(*session);
  if (status.ok()) status = Open(*session, /*read_only=*/false, &db);
  if (!status.ok()) return status;
  const WriteOptions options{.sync = true};
  status = commits ? db->CommitPrepared(options, name)
                   : db->RollbackPrepared(options, name);
  if (status.IsNotFound()) {
    return session->Absent("no transaction is prepared under the name " +
                           Printable(name) + ": varve prepared lists them");
  }
  if (status.ok()) status = db->Close();
  if (status.ok()) fputs("OK\n", session->out);
  return status;
}

}  // namespace

Status RunPrepared(Session* session) {
  const std::string* const commit = session->line.Find("commit");
  const std::string* const rollback = session->line.Find("rollback");
  if (commit != nullptr && rollback != nullptr) {
    return session->WrongUse("--commit and --rollback are both given");
  }
  const Status status = RequireDatabase(session->line);
  if (!status.ok()) return status;
  if (commit == nullptr && rollback == nullptr) return List(session);
  if (session->line.Has("json")) {
    return session->WrongUse("--json is for the list");
  }
  return Settle(commit != nullptr ? *commit : *rollback, commit != nullptr,
                session);
}

}  // namespace varve
