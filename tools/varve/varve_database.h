// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The database of a command: its column families, and how it is opened.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "db/version/manifest_reader.h"
#include "table/block/internal_key.h"
#include "tools/varve/varve_command_line.h"
#include "varve/column_family.h"
#include "varve/db.h"
#include "varve/merge_operator.h"
#include "varve/options.h"
#include "varve/status.h"

namespace varve {

// Returns the library's comparator of that name, or null. An empty name means
// the bytewise one. It is never destroyed.
const InternalKeyComparator* KnownComparator(const std::string& name);

// The column families of a database by its MANIFEST.
// Thread-safety: thread-compatible.
class FamilyList {
 public:
  struct Entry {
    uint32_t id = 0;
    std::string name;
    std::string comparator;  // Its name.
    // Null if the library does not have it.
    const InternalKeyComparator* known = nullptr;
    bool operator==(const Entry&) const = default;
  };

  // Reads the MANIFEST in force once. On failure the list is empty.
  Status Read(const std::string& db_path);

  const std::vector<Entry>& entries() const { return entries_; }
  // Returns null if there is no such family.
  const Entry* Find(const std::string& name) const;
  // Returns the name that a user means by `text`: the name in the form in which
  // `families` prints it, or the name itself if only that exists.
  std::string Meant(const std::string& text) const;
  // Returns the comparators for ReadManifest.
  FamilyComparator Comparators() const;
  // Returns NotSupported, with its name, if a family's comparator is unknown.
  Status RequireComparators() const;
  bool operator==(const FamilyList&) const = default;

 private:
  std::vector<Entry> entries_;  // By id. The first is the default family.
};

// Reads the list of families, and then the MANIFEST with their comparators. A
// family whose comparator is unknown is read without its tables. REQUIRES:
// *state is new.
Status ReadManifestAndFamilies(const std::string& db_path, FamilyList* families,
                               ManifestState* state);

// The options of the newest OPTIONS file, so that a command neither treats
// entries nor writes tables, logs and the next OPTIONS file otherwise than the
// database's program does. Operators, comparators and filters are there as far
// as the library has them by name.
class StoredOptions {
 public:
  // Reads the file. Without one, or if it is damaged, these are the defaults.
  explicit StoredOptions(const std::string& db_path);

  // Returns the options of a family, with those of the database. A family that
  // the file does not have gets the defaults. Sets what the command line says.
  Options Of(const std::string& family, const CommandLine& line) const;

 private:
  DBOptions db_;
  std::map<std::string, ColumnFamilyOptions> families_;
};

// Returns NotFound for a family that the database does not have.
Status NoFamily(const std::string& name, const std::string& db_path);
// Returns NotSupported for a family whose comparator is unknown.
Status UnknownComparator(const FamilyList::Entry& family);

// The open database of a command, with all of its column families and their
// StoredOptions. The operator of --merge_operator is for the family of --family
// only. With --ttl, values end in the times of
// their writes, and nothing expires.
// Thread-safety: owned by one thread.
class Database {
 public:
  Database() = default;
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // Opens the database for reading only. Families whose comparator is unknown
  // are left out, unless --family names one. Prints a warning if updates may be
  // lost.
  Status OpenToRead(const Session& session);
  // Opens it for writing, after RequireUpdates. With --create_if_missing,
  // creates the database and the family of --family if they do not exist.
  // Returns NotSupported if a family's comparator is unknown.
  Status OpenToWrite(const Session& session);
  // Changes the options of the database and of a family.
  using ChangeOptions = std::function<void(Options*)>;
  // Opens it with other options than the stored ones and the command line's,
  // and prints nothing.
  Status Open(const CommandLine& line, const ChangeOptions& change,
              bool read_only);

  DB* get() const { return db_.get(); }
  DB* operator->() const { return db_.get(); }
  // The same with the values as they are stored, also with --ttl.
  DB* stored() const { return stored_; }
  // The family of --family, or else the default one.
  ColumnFamilyHandle* family() const { return family_; }
  // Returns null if there is none of that name.
  ColumnFamilyHandle* Find(const std::string& name) const;
  // Returns the family that a user means by `text`, as FamilyList::Meant does,
  // or null.
  ColumnFamilyHandle* FindMeant(const std::string& text) const;
  // All families, in the order of their ids.
  const std::vector<std::unique_ptr<ColumnFamilyHandle>>& families() const {
    return handles_;
  }
  // Returns what an opening for reading only found wrong without failing, such
  // as updates that may be lost, a line each.
  std::vector<std::string> errors() const;
  // Returns NotSupported, with its name, if a family was left out.
  const Status& left_out() const { return left_out_; }
  // Adds a family to a database that is open for writing. `handle` is valid
  // until Close.
  Status Create(const ColumnFamilyOptions& options, const std::string& name,
                ColumnFamilyHandle** handle);
  // Releases the handles, and closes the database.
  Status Close();

 private:
  Status OpenOnce(const CommandLine& line, const ChangeOptions& change,
                  bool read_only, const FamilyList& list);

  std::unique_ptr<DB> db_;
  DB* stored_ = nullptr;
  std::vector<std::unique_ptr<ColumnFamilyHandle>> handles_;
  ColumnFamilyHandle* family_ = nullptr;
  Status left_out_;
  class ErrorList;
  std::shared_ptr<ErrorList> errors_;
};

// Sets *merge_operator to the one that the command's family has: the stored
// one, or else the one of --merge_operator, or null. Returns an error in the
// use of the program if both are there and have different names.
Status ChooseMergeOperator(Session* session,
                           std::shared_ptr<MergeOperator>* merge_operator);

// Prints a warning of each error, and returns Corruption if there is one,
// unless the command has --accept_loss.
Status RefuseErrors(const Session& session,
                    const std::vector<std::string>& errors);
// Prints a warning of each error of the command's database.
void WarnOfErrors(const Session& session);
// As RefuseErrors, for the database of a command that is to be opened for
// writing, or to be copied. Changes nothing. If it cannot be read, or is open
// in another process, returns OK, since the opening that follows fails.
Status RequireUpdates(const Session& session);

}  // namespace varve
