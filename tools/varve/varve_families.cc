// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "tools/varve/varve_families.h"

#include <cinttypes>

#include "db/version/best_effort_manifest.h"
#include "tools/varve/varve_database.h"
#include "tools/varve/varve_json.h"
#include "tools/varve/varve_live.h"
#include "tools/varve/varve_text.h"

namespace varve {

namespace {

struct TableSums {
  uint64_t tables = 0;
  uint64_t bytes = 0;
};

Status List(Session* session) {
  NoteHolder(*session);
  Status status = RequireDatabase(session->line);
  if (!status.ok()) return status;
  const std::string path = session->db();
  FamilyList list;
  std::map<uint32_t, TableSums> sums;
  status = ReadUnlocked(path, [&] {
    const Status read = list.Read(path);
    std::vector<std::string> names;
    if (!read.ok() || !Env::Default()->GetChildren(path, &names).ok()) {
      return read;
    }
    // Needs no comparator.
    BestEffortManifest manifest;
    ReadBestEffortManifest(Env::Default(), path, names, &manifest);
    sums.clear();
    for (const auto& [number, table] : manifest.tables) {
      ++sums[table.family].tables;
      sums[table.family].bytes += table.file.file_size;
    }
    return read;
  });
  if (!status.ok()) return status;
  TextOutput out(session->out);
  for (const FamilyList::Entry& entry : list.entries()) {
    const TableSums& sum = sums[entry.id];
    const std::string comparator = entry.comparator.empty()
                                       ? BytewiseComparator()->Name()
                                       : entry.comparator;
    if (session->line.Has("json")) {
      JsonLine(&out)
          .Number("id", entry.id)
          .Text("name", entry.name)
          .Text("comparator", comparator)
          .Number("tables", sum.tables)
          .Number("bytes", sum.bytes);
    } else {
      out.Add(std::to_string(entry.id) + " ");
      out.Add(entry.name, Form::kText);
      out.Add(": ");
      out.Add(comparator, Form::kText);
      out.Add(", " + std::to_string(sum.tables) + " tables, " +
              std::to_string(sum.bytes) + " bytes\n");
    }
  }
  FlushOutput(&out, session);
  return status;
}

Status Create(const std::string& name, Session* session) {
  Database db;
  Status status = db.OpenToWrite(*session);
  if (!status.ok()) return status;
  ColumnFamilyHandle* handle = nullptr;
  status = db.Create(StoredOptions(session->db()).Of(name, session->line), name,
                     &handle);
  return status.ok() ? db.Close() : status;
}

Status Drop(const std::string& name, Session* session) {
  Database db;
  Status status = db.OpenToWrite(*session);
  if (!status.ok()) return status;
  ColumnFamilyHandle* const family = db.FindMeant(name);
  if (family == nullptr) {
    return NoFamily(name, session->db());
  }
  status = db->DropColumnFamily(family);
  return status.ok() ? db.Close() : status;
}

}  // namespace

Status RunFamilies(Session* session) {
  const std::vector<std::string>& operands = session->line.operands;
  if (operands.empty() || (operands.size() == 1 && operands[0] == "list")) {
    return List(session);
  }
  const bool creates = operands[0] == "create";
  if (operands.size() != 2 || (!creates && operands[0] != "drop")) {
    return session->WrongUse(
        "families takes nothing, list, create NAME or drop NAME");
  }
  if (session->line.Has("json")) {
    return session->WrongUse("--json is for the list");
  }
  const std::string& name = operands[1];
  if (name.empty()) return session->WrongUse("a column family has no name");
  // Takes the form that the list prints.
  std::string printed;
  const bool is_printed = DecodeText(name, &printed);
  const Status status = creates ? Create(is_printed ? printed : name, session)
                                : Drop(name, session);
  if (status.ok()) fputs("OK\n", session->out);
  return status;
}

}  // namespace varve
