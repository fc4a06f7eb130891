// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "tools/varve/varve_command_line.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <numeric>
#include <string_view>
#include <utility>

#include "db/options/option_table.h"
#include "db/ttl/ttl_value.h"
#include "env/file_names.h"
#include "env/stopwatch.h"
#include "tools/varve/varve_commands.h"
#include "tools/varve/varve_database.h"
#include "tools/varve/varve_text.h"
#include "varve/merge_operator.h"

namespace varve {

namespace {

constexpr OptionSpec kOptions[] = {
    {"db", OptionKind::kText},
    {"family", OptionKind::kText},
    {"all_families", OptionKind::kFlag},
    {"hex", OptionKind::kFlag},
    {"escaped", OptionKind::kFlag},
    {"json", OptionKind::kFlag},
    {"operands", OptionKind::kFlag},
    {"raw", OptionKind::kFlag},
    {"from", OptionKind::kKey},
    {"to", OptionKind::kKey},
    {"prefix", OptionKind::kKey},
    {"commit", OptionKind::kKey},
    {"rollback", OptionKind::kKey},
    {"reverse", OptionKind::kFlag},
    {"limit", OptionKind::kNumber},
    {"create_if_missing", OptionKind::kFlag},
    {"ignore_case", OptionKind::kFlag},
    {"accept_loss", OptionKind::kFlag},
    {"open_files", OptionKind::kNumber},
    {"merge_operator", OptionKind::kText},
    {"ttl", OptionKind::kFlag},
    {"timestamp", OptionKind::kFlag},
    {"start_time", OptionKind::kNumber},
    {"end_time", OptionKind::kNumber},
    {"progress", OptionKind::kFlag},
    {"footer", OptionKind::kFlag},
    {"properties", OptionKind::kFlag},
    {"index", OptionKind::kFlag},
    {"blocks", OptionKind::kFlag},
    {"keys", OptionKind::kFlag},
    {"values", OptionKind::kFlag},
    {"verify", OptionKind::kFlag},
    {"property", OptionKind::kText},
    {"ldb", OptionKind::kFlag},
    {"link", OptionKind::kFlag},
    {"move", OptionKind::kFlag},
    {"html", OptionKind::kText},
    {"id", OptionKind::kNumber},
    {"keep", OptionKind::kNumber},
    {"rate", OptionKind::kNumber},
    {"threads", OptionKind::kNumber},
    {"flush", OptionKind::kFlag},
    {"replace", OptionKind::kFlag},
    {"wait", OptionKind::kFlag},
    {"once", OptionKind::kFlag},
    {"interval", OptionKind::kNumber},
};

constexpr size_t kLongReadaheadBytes = 1 << 20;

constexpr uint64_t kProgressIntervalUs = 500000;

// Options that contradict each other.
constexpr std::pair<const char*, const char*> kExclusive[] = {
    {"hex", "escaped"},
    {"json", "raw"},
    {"link", "move"},
    {"operands", "ttl"},
    {"operands", "raw"},
    {"operands", "merge_operator"},
    {"all_families", "family"},
    {"all_families", "from"},
    {"all_families", "to"},
    {"all_families", "prefix"},
    {"all_families", "merge_operator"},
    {"all_families", "ldb"}};

const OptionSpec* FindOption(const std::string& name) {
  for (const OptionSpec& option : kOptions) {
    if (name == option.name) return &option;
  }
  return nullptr;
}

// Takes the option arguments[*i], and its value if that is the next argument.
std::string ParseOption(const std::vector<std::string>& arguments, size_t* i,
                        CommandLine* line) {
  const std::string& argument = arguments[*i];
  const size_t equals = argument.find('=');
  std::string name = argument.substr(2, equals - 2);
  std::replace(name.begin(), name.end(), '-', '_');
  if (name.empty()) return "there is no option " + argument;
  if (name == "help" || name == "version") {
    (name == "help" ? line->wants_help : line->wants_version) = true;
    return "";
  }
  const OptionSpec* const spec = FindOption(name);
  if (spec == nullptr) {
    return "there is no option " + argument.substr(0, equals);
  }
  std::string value;
  if (spec->kind == OptionKind::kFlag) {
    if (equals != std::string::npos) return "--" + name + " takes no value";
  } else if (equals != std::string::npos) {
    value = argument.substr(equals + 1);
  } else if (*i + 1 < arguments.size()) {
    value = arguments[++*i];
  } else {
    return "--" + name + " needs a value";
  }
  uint64_t number;
  if (spec->kind == OptionKind::kNumber && !ParseNumber(value, 10, &number)) {
    return "--" + name + " needs a number, not '" + value + "'";
  }
  line->options[name] = value;
  return "";
}

// Decodes the keys and values of --hex and --escaped in place.
std::string DecodeArguments(CommandLine* line) {
  if (!line->Has("hex") && !line->Has("escaped")) return "";
  const bool hex = line->Has("hex");
  std::vector<std::string*> texts;
  if (line->command->operands == OperandKind::kBytes) {
    for (size_t i = 0; i < line->operands.size(); ++i) {
      if (i != 1 || !line->value_is_input) texts.push_back(&line->operands[i]);
    }
  }
  for (auto& [name, value] : line->options) {
    if (FindOption(name)->kind == OptionKind::kKey) texts.push_back(&value);
  }
  for (std::string* text : texts) {
    std::string bytes;
    if (!(hex ? DecodeHex : DecodeText)(*text, &bytes)) {
      return "'" + *text +
             (hex ? "' is not hexadecimal, such as 0x61"
                  : "' has a backslash that begins neither \\\\ nor \\xHH");
    }
    *text = bytes;
  }
  return "";
}

// Checks the options against the command and each other.
std::string CheckOptions(const CommandLine& line) {
  for (const auto& [option, value] : line.options) {
    if (!ListsOption(line.command->options, option)) {
      return std::string(line.command->name) + " takes no --" + option;
    }
  }
  for (const auto& [one, other] : kExclusive) {
    if (line.Has(one) && line.Has(other)) {
      return std::string("--") + one + " and --" + other +
             " exclude each other";
    }
  }
  for (const char* const option : {"timestamp", "start_time", "end_time"}) {
    if (line.Has(option) && !line.Has("ttl")) {
      return std::string("--") + option + " needs --ttl";
    }
  }
  if (line.Number("end_time", UINT64_MAX) < line.Number("start_time", 0)) {
    return "--end_time is before --start_time";
  }
  const std::string* const merge_operator = line.Find("merge_operator");
  if (merge_operator != nullptr &&
      FindMergeOperator(*merge_operator) == nullptr) {
    return "there is no merge operator '" + *merge_operator +
           "'; there are uint64add, stringappend, max, bytesor and bytesxor";
  }
  constexpr uint64_t kMaxOpenFiles = BoundsOf(&Options::max_open_files).high;
  if (line.Number("open_files", 0) > kMaxOpenFiles) {
    return "--open_files is at most " + std::to_string(kMaxOpenFiles);
  }
  return "";
}

std::string CheckOperands(const CommandLine& line) {
  const Command& command = *line.command;
  const size_t count = line.operands.size();
  if (command.max_operands == kPairsOfOperands) {
    return count % 2 == 0 ? "" : "the last key has no value";
  }
  if (count >= command.min_operands && count <= command.max_operands) return "";
  std::string wanted = std::to_string(command.min_operands);
  if (command.max_operands != command.min_operands) {
    wanted += " to " + std::to_string(command.max_operands);
  }
  return std::string(command.name) + " takes " + wanted + " arguments, not " +
         std::to_string(count);
}

// Changes a prefix to the end of the range of keys that have it. Returns false
// if no key can sort after that range.
bool EndOfPrefix(std::string* prefix, bool ignore_case) {
  if (ignore_case) {
    // The largest character of Unicode, which no key has. The database folds
    // the bound, and this character folds to itself.
    *prefix += "\xF4\x8F\xBF\xBF";
    return true;
  }
  while (prefix->ends_with('\xFF')) prefix->pop_back();
  if (prefix->empty()) return false;
  prefix->back() = static_cast<char>(prefix->back() + 1);
  return true;
}

// A command is close to a name if this many bytes are inserted, removed or
// replaced.
constexpr size_t kMaxEdits = 2;

size_t EditsBetween(std::string_view a, std::string_view b) {
  // Of a prefix of `a` to each prefix of `b`.
  std::vector<size_t> edits(b.size() + 1);
  std::iota(edits.begin(), edits.end(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(edits[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = edits[j + 1];
      edits[j + 1] = std::min({replaced, diagonal + 1, edits[j] + 1});
    }
  }
  return edits[b.size()];
}

// Iterates over the entries of a database with a time to live that were written
// in a range of time. Errors: Corruption for a value that has no time.
class TimedIterator final : public Iterator {
 public:
  // `stored` yields values that end in their times. The times remain in them
  // if `shows_times`. In seconds since 1970, the end exclusive.
  TimedIterator(std::unique_ptr<Iterator> stored, uint64_t start_s,
                uint64_t end_s, bool shows_times)
      : stored_(std::move(stored)),
        start_s_(start_s),
        end_s_(end_s),
        shows_times_(shows_times) {}

  void SeekToFirst() override {
    stored_->SeekToFirst();
    Settle(&Iterator::Next);
  }
  void SeekToLast() override {
    stored_->SeekToLast();
    Settle(&Iterator::Prev);
  }
  void Seek(const Slice& target) override {
    stored_->Seek(target);
    Settle(&Iterator::Next);
  }
  void SeekForPrev(const Slice& target) override {
    stored_->SeekForPrev(target);
    Settle(&Iterator::Prev);
  }
  void Next() override {
    stored_->Next();
    Settle(&Iterator::Next);
  }
  void Prev() override {
    stored_->Prev();
    Settle(&Iterator::Prev);
  }
  Status status() const override {
    return status_.ok() ? stored_->status() : status_;
  }

 private:
  // Goes on to the next entry of the range of time.
  void Settle(void (Iterator::*step)()) {
    status_ = Status();
    valid_ = false;
    for (; stored_->Valid(); (stored_.get()->*step)()) {
      Slice value = stored_->value();
      status_ = RemoveTtlTime(stored_->key(), &value);
      if (!status_.ok()) return;
      const uint64_t time_s = TtlTimeOf(stored_->value());
      if (time_s < start_s_ || time_s >= end_s_) continue;
      key_ = stored_->key();
      value_ = shows_times_ ? stored_->value() : value;
      valid_ = true;
      return;
    }
  }

  const std::unique_ptr<Iterator> stored_;
  const uint64_t start_s_;
  const uint64_t end_s_;
  const bool shows_times_;
  Status status_;
};

}  // namespace

std::span<const OptionSpec> TEST_CommandOptions() { return kOptions; }

bool ListsOption(const char* options, const std::string& name) {
  const std::string list = std::string(" ") + options + " ";
  return list.find(" " + name + " ") != std::string::npos;
}

std::string UnknownCommand(const std::string& name) {
  const Command* closest = nullptr;
  size_t least = std::min(kMaxEdits + 1, name.size());
  for (const Command& command : Commands()) {
    const size_t edits = EditsBetween(name, command.name);
    if (edits >= least) continue;
    least = edits;
    closest = &command;
  }
  const std::string unknown = "unknown command '" + name + "'";
  return closest == nullptr ? unknown
                            : unknown + ": did you mean " + closest->name + "?";
}

uint64_t CommandLine::Number(const std::string& name,
                             uint64_t otherwise) const {
  const std::string* const text = Find(name);
  if (text != nullptr) ParseNumber(*text, 10, &otherwise);
  return otherwise;
}

std::string ParseCommandLine(const std::vector<std::string>& arguments,
                             CommandLine* line) {
  bool options_ended = false;
  std::string name;
  std::string wrong;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (!options_ended && argument == "--") {
      options_ended = true;
    } else if (!options_ended && argument.starts_with("--")) {
      const std::string complaint = ParseOption(arguments, &i, line);
      if (wrong.empty()) wrong = complaint;
    } else if (!options_ended && argument == "-h") {
      line->wants_help = true;
    } else if (!options_ended && argument.size() > 1 && argument[0] == '-') {
      if (wrong.empty()) {
        wrong = "there is no option " + argument +
                "; put -- before a key or file of that name";
      }
    } else if (name.empty()) {
      name = argument;
    } else {
      line->operands.push_back(argument);
    }
  }
  line->command = FindCommand(name);
  if (!name.empty() && line->command == nullptr) {
    return UnknownCommand(name);
  }
  if (line->wants_help || line->wants_version) return "";
  if (!wrong.empty()) return wrong;
  if (line->command == nullptr) return "a command is missing";
  wrong = CheckOptions(*line);
  if (!wrong.empty()) return wrong;
  const bool has_file = line->command->operands == OperandKind::kFileOrDb &&
                        !line->operands.empty();
  const bool has_db = !line->Text("db").empty();
  if (ListsOption(line->command->options, "db") && !has_db && !has_file) {
    return "--db=DIR is missing";
  }
  if (has_db && has_file) return name + " takes --db=DIR or a file, not both";
  wrong = CheckOperands(*line);
  line->value_is_input =
      wrong.empty() && line->command->reads_value && line->operands[1] == "-";
  return wrong.empty() ? DecodeArguments(line) : wrong;
}

Status Session::Absent(const std::string& what) {
  exit_code = kExitAbsent;
  return Status::NotFound(what);
}

Status Session::WrongUse(const std::string& what) {
  exit_code = kExitUsage;
  return Status::InvalidArgument(what);
}

Status Session::DamagedInput(const Status& status) {
  if (status.IsInvalidArgument()) exit_code = kExitDamage;
  return status;
}

bool OutputFailed(Session* session) {
  const int error = errno;
  if (ferror(session->out) == 0) return false;
  if (session->output_errno == 0) session->output_errno = error;
  return true;
}

void FlushOutput(TextOutput* output, Session* session) {
  output->Flush();
  if (session->output_errno == 0) session->output_errno = output->error();
}

Form FormOf(const CommandLine& line) {
  if (line.Has("raw")) return Form::kRaw;
  return line.Has("hex") ? Form::kHex : Form::kText;
}

// ---- Progress --------------------------------------------------------------

Progress::Progress(const Session& session)
    : err_(session.err),
      terminal_(fileno(err_) >= 0 && isatty(fileno(err_)) == 1),
      on_(terminal_ || session.line.Has("progress")),
      next_us_(on_ ? MonotonicMicros(Env::Default()) + kProgressIntervalUs
                   : 0) {}

Progress::~Progress() {
  if (shown_ && terminal_) fputs("\r\033[K", err_);
}

bool Progress::Due() {
  return on_ && MonotonicMicros(Env::Default()) >= next_us_;
}

void Progress::Show(const std::string& text) {
  if (!on_) return;
  fprintf(err_, terminal_ ? "\r\033[K%s" : "%s\n", text.c_str());
  fflush(err_);
  shown_ = true;
  next_us_ = MonotonicMicros(Env::Default()) + kProgressIntervalUs;
}

// ---- The database ----------------------------------------------------------

void SetOptionsOf(const CommandLine& line, Options* options) {
  options->create_if_missing = line.Has("create_if_missing");
  if (line.Has("ignore_case")) options->key_case = KeyCase::kInsensitive;
  if (line.Has("open_files")) {
    options->max_open_files = static_cast<int>(line.Number("open_files", 0));
  }
}

Status RequireDatabase(const CommandLine& line) {
  if (line.Has("create_if_missing")) return Status();
  const std::string path = line.Text("db");
  std::vector<std::string> names;
  const Status status = Env::Default()->GetChildren(path, &names);
  if (!status.ok() && !status.IsNotFound()) return status;
  for (const std::string& name : names) {
    uint64_t number;
    FileKind type;
    // There are files of a database without CURRENT. The engine reports what is
    // missing.
    if (ParseFileName(name, &number, &type) && type != FileKind::kLock &&
        type != FileKind::kInfoLog) {
      return Status();
    }
  }
  std::string what = "no database in " + path;
  if (status.IsNotFound()) what += ", which does not exist";
  if (ListsOption(line.command->options, "create_if_missing")) {
    what += ": --create_if_missing makes one";
  }
  return Status::NotFound(what);
}

BoundedScan::BoundedScan(const CommandLine& line)
    : has_from_(line.Has("from")),
      has_to_(line.Has("to")),
      shows_times_(line.Has("timestamp")),
      has_times_(line.Has("start_time") || line.Has("end_time")),
      start_time_s_(line.Number("start_time", 0)),
      end_time_s_(line.Number("end_time", UINT64_MAX)) {
  if (has_from_) from_text_ = *line.Find("from");
  if (has_to_) to_text_ = *line.Find("to");
  const std::string* const prefix = line.Find("prefix");
  if (prefix != nullptr) {
    std::string end = *prefix;
    if (EndOfPrefix(&end, line.Has("ignore_case")) &&
        (!has_to_ || Slice(end).compare(to_text_) < 0)) {
      to_text_ = end;
      has_to_ = true;
    }
    if (!has_from_ || Slice(*prefix).compare(from_text_) > 0) {
      from_text_ = *prefix;
      has_from_ = true;
    }
  }
  from_ = from_text_;
  to_ = to_text_;
}

std::unique_ptr<Iterator> BoundedScan::NewIterator(
    const Database& db, bool is_long, ColumnFamilyHandle* family) const {
  ReadOptions options;
  options.fill_cache = false;
  if (is_long) options.readahead_size = kLongReadaheadBytes;
  options.iterate_lower_bound = from();
  options.iterate_upper_bound = to();
  DB* const source = shows_times_ || has_times_ ? db.stored() : db.get();
  auto iterator =
      source->NewIterator(options, family == nullptr ? db.family() : family);
  if (!has_times_) return iterator;
  return std::make_unique<TimedIterator>(std::move(iterator), start_time_s_,
                                         end_time_s_, shows_times_);
}

}  // namespace varve
