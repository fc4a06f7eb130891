// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "tools/varve/varve_database.h"

#include <utility>

#include "env/file_names.h"
#include "table/block/comparator_mismatch.h"
#include "tools/varve/varve_live.h"
#include "tools/varve/varve_text.h"
#include "util/base/mutex.h"
#include "varve/convert.h"
#include "varve/db_ttl.h"

namespace varve {

namespace {

// Another process may create and drop families between the reading of their
// names and the opening.
constexpr int kMaxAttempts = 10;

void PrintWarnings(const Session& session,
                   const std::vector<std::string>& errors) {
  for (const std::string& error : errors) {
    fprintf(session.err, "varve: warning: %s\n", Visible(error).c_str());
  }
}

}  // namespace

const InternalKeyComparator* KnownComparator(const std::string& name) {
  static const auto* const kBytewise =
      new InternalKeyComparator(BytewiseComparator());
  static const auto* const kReverse =
      new InternalKeyComparator(ReverseBytewiseComparator());
  if (name.empty()) return kBytewise;
  const Comparator* const found = BuiltInComparator(name);
  if (found == nullptr) return nullptr;
  return found == BytewiseComparator() ? kBytewise : kReverse;
}

Status UnknownComparator(const FamilyList::Entry& family) {
  return Status::NotSupported("column family " + family.name +
                              " has the unknown comparator " +
                              family.comparator);
}

Status NoFamily(const std::string& name, const std::string& db_path) {
  return Status::NotFound("no column family " + Escaped(name) + " in " +
                          db_path + ": varve families lists them");
}

// ---- FamilyList -------------------------------------------------------------

Status FamilyList::Read(const std::string& db_path) {
  entries_.clear();
  ManifestState state;
  Status status =
      ReadManifest(Env::Default(), db_path, ForAllFamilies(nullptr), &state);
  if (status.IsNotFound() &&
      Env::Default()->FileExists(CurrentFileName(db_path)).IsNotFound()) {
    status = Status::Corruption(CurrentFileName(db_path),
                                "is missing; varve repair may help");
  }
  if (!status.ok()) return status;
  for (const auto& family : state.families) {
    entries_.push_back({family->id, family->name, family->comparator_name,
                        KnownComparator(family->comparator_name)});
  }
  return status;
}

const FamilyList::Entry* FamilyList::Find(const std::string& name) const {
  for (const Entry& entry : entries_) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

std::string FamilyList::Meant(const std::string& text) const {
  std::string name;
  if (!DecodeText(text, &name)) return text;
  return Find(name) == nullptr && Find(text) != nullptr ? text : name;
}

FamilyComparator FamilyList::Comparators() const {
  std::map<std::string, const InternalKeyComparator*> known;
  for (const Entry& entry : entries_) known[entry.name] = entry.known;
  return [known = std::move(known)](const std::string& name) {
    const auto place = known.find(name);
    return place == known.end() ? nullptr : place->second;
  };
}

Status FamilyList::RequireComparators() const {
  for (const Entry& entry : entries_) {
    if (entry.known == nullptr) return UnknownComparator(entry);
  }
  return Status::OK();
}

Status ReadManifestAndFamilies(const std::string& db_path, FamilyList* families,
                               ManifestState* state) {
  const Status status = families->Read(db_path);
  if (!status.ok()) return status;
  return ReadManifest(Env::Default(), db_path, families->Comparators(), state);
}

StoredOptions::StoredOptions(const std::string& db_path) {
  std::vector<ColumnFamilyDescriptor> families;
  // What cannot be read is reported by the command if it needs it.
  LoadLatestOptions(ConfigOptions(), db_path, &db_, &families).IgnoreError();
  for (ColumnFamilyDescriptor& family : families) {
    families_[family.name] = std::move(family.options);
  }
}

Options StoredOptions::Of(const std::string& family,
                          const CommandLine& line) const {
  const auto stored = families_.find(family);
  Options options(
      db_, stored != families_.end() ? stored->second : ColumnFamilyOptions());
  options.error_if_exists = false;
  options.create_missing_column_families = false;
  options.key_case = KeyCase::kSensitive;  // As the command line says.
  SetOptionsOf(line, &options);
  return options;
}

// ---- Database ---------------------------------------------------------------

// Keeps the errors that a database reports.
class Database::ErrorList final : public Logger {
 public:
  void Logv(LogLevel level, const char* format, va_list arguments) override {
    if (level < LogLevel::kError) return;
    char line[kMaxLineBytes];
    vsnprintf(line, sizeof(line), format, arguments);
    MutexLock lock(&mu_);
    lines_.emplace_back(line);
  }
  std::vector<std::string> lines() const {
    MutexLock lock(&mu_);
    return lines_;
  }

 private:
  static constexpr size_t kMaxLineBytes = 1024;

  mutable Mutex mu_;
  std::vector<std::string> lines_ VARVE_GUARDED_BY(mu_);
};

Status Database::OpenToRead(const Session& session) {
  Status status = RequireDatabase(session.line);
  if (status.ok()) status = Open(session.line, nullptr, true);
  PrintWarnings(session, errors());
  return status;
}

Status Database::OpenToWrite(const Session& session) {
  Status status = RequireDatabase(session.line);
  if (status.ok()) status = RequireUpdates(session);
  return status.ok() ? Open(session.line, nullptr, false) : status;
}

std::vector<std::string> Database::errors() const {
  return errors_ == nullptr ? std::vector<std::string>() : errors_->lines();
}

Status Database::Open(const CommandLine& line, const ChangeOptions& change,
                      bool read_only) {
  const std::string path = line.Text("db");
  FamilyList list;
  // If it cannot be read, the opening says why.
  ReadUnlocked(path, [&] { return list.Read(path); }).IgnoreError();
  for (int i = 1;; ++i) {
    const Status status = OpenOnce(line, change, read_only, list);
    if (!status.IsInvalidArgument() || i == kMaxAttempts) return status;
    const FamilyList before = list;
    ReadUnlocked(path, [&] { return list.Read(path); }).IgnoreError();
    if (list == before) return status;
  }
}

Status Database::OpenOnce(const CommandLine& line, const ChangeOptions& change,
                          bool read_only, const FamilyList& list) {
  const std::string path = line.Text("db");
  const std::string wanted = line.Has("family")
                                 ? list.Meant(line.Text("family"))
                                 : kDefaultColumnFamilyName;
  const StoredOptions stored(path);
  const auto options_of = [&](const std::string& name) {
    Options options = stored.Of(name, line);
    if (change) change(&options);
    // The operator of another family could be another one. Without it, the
    // operands there stay as they are.
    if (line.Has("merge_operator") && name == wanted) {
      const auto named = FindMergeOperator(line.Text("merge_operator"));
      // The stored one may have parameters, such as a delimiter.
      if (options.merge_operator == nullptr ||
          std::string_view(options.merge_operator->Name()) != named->Name()) {
        options.merge_operator = named;
      }
    }
    return options;
  };
  std::vector<ColumnFamilyDescriptor> families;
  const auto add = [&](const std::string& name) {
    families.emplace_back(name, options_of(name));
  };
  left_out_ = Status();
  for (const FamilyList::Entry& entry : list.entries()) {
    const bool is_default = entry.id == 0;
    if (entry.known == nullptr && !is_default) {
      if (read_only && entry.name != wanted) {
        if (left_out_.ok()) left_out_ = UnknownComparator(entry);
        continue;
      }
      return UnknownComparator(entry).Annotate(path);
    }
    add(entry.name);
    if (entry.known != nullptr) {
      families.back().options.comparator = entry.known->user_comparator();
    }
  }
  if (families.empty()) add(kDefaultColumnFamilyName);
  DBOptions db_options = options_of(kDefaultColumnFamilyName);
  // An opening for writing directs them to the file LOG.
  if (read_only) {
    errors_ = std::make_shared<ErrorList>();
    db_options.info_log = errors_;
  }
  const bool exists =
      wanted == kDefaultColumnFamilyName || list.Find(wanted) != nullptr;
  if (!exists) {
    if (!db_options.create_if_missing && !list.entries().empty()) {
      return NoFamily(wanted, path);
    }
    add(wanted);
    db_options.create_missing_column_families = db_options.create_if_missing;
  }
  std::vector<ColumnFamilyHandle*> handles;
  Status status;
  if (line.Has("ttl")) {
    std::unique_ptr<DBWithTTL> timed;
    status = DBWithTTL::Open(db_options, path, families, &handles, &timed,
                             std::vector<int32_t>(families.size()), read_only);
    if (status.ok()) stored_ = timed->GetBaseDB();
    db_ = std::move(timed);
  } else {
    status = read_only ? DB::OpenForReadOnly(db_options, path, families,
                                             &handles, &db_)
                       : DB::Open(db_options, path, families, &handles, &db_);
    stored_ = db_.get();
  }
  if (!status.ok()) return status;
  for (ColumnFamilyHandle* const handle : handles) {
    handles_.emplace_back(handle);
    if (handle->GetName() == wanted) family_ = handle;
  }
  if (line.Has("prefix") && family_->GetComparator() != BytewiseComparator()) {
    return Status::NotSupported(
        "--prefix",
        "the order of column family " + wanted + " is not the order of bytes");
  }
  return status;
}

ColumnFamilyHandle* Database::Find(const std::string& name) const {
  for (const auto& handle : handles_) {
    if (handle->GetName() == name) return handle.get();
  }
  return nullptr;
}

ColumnFamilyHandle* Database::FindMeant(const std::string& text) const {
  std::string name;
  ColumnFamilyHandle* const printed =
      DecodeText(text, &name) ? Find(name) : nullptr;
  return printed != nullptr ? printed : Find(text);
}

Status Database::Create(const ColumnFamilyOptions& options,
                        const std::string& name, ColumnFamilyHandle** handle) {
  const Status status = db_->CreateColumnFamily(options, name, handle);
  if (status.ok()) handles_.emplace_back(*handle);
  return status;
}

Status ChooseMergeOperator(Session* session,
                           std::shared_ptr<MergeOperator>* merge_operator) {
  const CommandLine& line = session->line;
  FamilyList list;
  ReadUnlocked(session->db(), [&] {
    return list.Read(session->db());
  }).IgnoreError();
  const std::string family = line.Has("family")
                                 ? list.Meant(line.Text("family"))
                                 : kDefaultColumnFamilyName;
  *merge_operator =
      StoredOptions(session->db()).Of(family, line).merge_operator;
  if (!line.Has("merge_operator")) return Status::OK();
  const auto named = FindMergeOperator(line.Text("merge_operator"));
  if (*merge_operator == nullptr) *merge_operator = named;
  const std::string stored = (*merge_operator)->Name();
  if (stored == named->Name()) return Status::OK();
  return session->WrongUse("--merge_operator is " + std::string(named->Name()) +
                           ", but column family " + Escaped(family) + " has " +
                           stored + " by the OPTIONS file");
}

namespace {

// Returns the errors of the command's database. Returns none if it cannot be
// read, or is open in another process.
std::vector<std::string> ErrorsOf(const Session& session) {
  if (!FindHolder(session.line).empty()) return {};
  // A family that is missing makes no difference.
  CommandLine line = session.line;
  for (const char* const option :
       {"family", "merge_operator", "prefix", "ttl", "create_if_missing"}) {
    line.options.erase(option);
  }
  Database db;
  if (!db.Open(line, nullptr, /*read_only=*/true).ok()) {
    // `prepared` need not be told.
    line.options["ignore_case"] = "";
    db.Open(line, nullptr, /*read_only=*/true).IgnoreError();
  }
  return db.errors();
}

}  // namespace

Status RefuseErrors(const Session& session,
                    const std::vector<std::string>& errors) {
  PrintWarnings(session, errors);
  if (errors.empty() || session.line.Has("accept_loss")) return Status::OK();
  return Status::Corruption(
      session.db(),
      "lacks updates, and was not changed: varve repair saves what can be read "
      "of them; --accept_loss goes on without them");
}

void WarnOfErrors(const Session& session) {
  PrintWarnings(session, ErrorsOf(session));
}

Status RequireUpdates(const Session& session) {
  return RefuseErrors(session, ErrorsOf(session));
}

Status Database::Close() {
  family_ = nullptr;
  handles_.clear();
  return db_->Close();
}

}  // namespace varve
