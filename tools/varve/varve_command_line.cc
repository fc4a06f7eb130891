// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "tools/varve/varve_command_line.h"

#include <unistd.h>

#include <cerrno>
#include <charconv>

#include "env/file_names.h"
#include "env/stopwatch.h"
#include "tools/varve/varve_text.h"

namespace varve {

namespace {

constexpr OptionSpec kOptions[] = {
    {"db", OptionKind::kText},
    {"hex", OptionKind::kFlag},
    {"json", OptionKind::kFlag},
    {"from", OptionKind::kKey},
    {"to", OptionKind::kKey},
    {"limit", OptionKind::kNumber},
    {"create_if_missing", OptionKind::kFlag},
    {"ignore_case", OptionKind::kFlag},
    {"progress", OptionKind::kFlag},
    {"footer", OptionKind::kFlag},
    {"properties", OptionKind::kFlag},
    {"index", OptionKind::kFlag},
    {"blocks", OptionKind::kFlag},
    {"keys", OptionKind::kFlag},
    {"verify", OptionKind::kFlag},
    {"property", OptionKind::kText},
    {"ldb", OptionKind::kFlag},
    {"html", OptionKind::kText},
};

constexpr uint64_t kProgressIntervalUs = 500000;

const OptionSpec* FindOption(const std::string& name) {
  for (const OptionSpec& option : kOptions) {
    if (name == option.name) return &option;
  }
  return nullptr;
}

bool ParseNumber(const std::string& text, uint64_t* number) {
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, *number);
  return error == std::errc() && rest == end;
}

// Takes the option arguments[*i], and its value if that is the next argument.
std::string ParseOption(const std::vector<std::string>& arguments, size_t* i,
                        CommandLine* line) {
  const std::string& argument = arguments[*i];
  const size_t equals = argument.find('=');
  const std::string name = argument.substr(2, equals - 2);
  if (name == "help" || name == "version") {
    (name == "help" ? line->wants_help : line->wants_version) = true;
    return "";
  }
  const OptionSpec* const spec = FindOption(name);
  if (spec == nullptr) return "there is no option --" + name;
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
  if (spec->kind == OptionKind::kNumber && !ParseNumber(value, &number)) {
    return "--" + name + " needs a number, not '" + value + "'";
  }
  line->options[name] = value;
  return "";
}

std::string DecodeHexArguments(CommandLine* line) {
  std::vector<std::string*> texts;
  if (line->command->operands == OperandKind::kBytes) {
    for (std::string& operand : line->operands) texts.push_back(&operand);
  }
  for (auto& [name, value] : line->options) {
    if (FindOption(name)->kind == OptionKind::kKey) texts.push_back(&value);
  }
  for (std::string* text : texts) {
    std::string bytes;
    if (!DecodeHex(*text, &bytes)) {
      return "'" + *text + "' is not hexadecimal, such as 0x61";
    }
    *text = bytes;
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

}  // namespace

std::span<const OptionSpec> TEST_CommandOptions() { return kOptions; }

bool ListsOption(const char* options, const std::string& name) {
  const std::string list = std::string(" ") + options + " ";
  return list.find(" " + name + " ") != std::string::npos;
}

uint64_t CommandLine::Number(const std::string& name,
                             uint64_t otherwise) const {
  const std::string* const text = Find(name);
  if (text != nullptr) ParseNumber(*text, &otherwise);
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
    } else if (name.empty() && argument == "-h") {
      line->wants_help = true;
    } else if (name.empty()) {
      name = argument;
    } else {
      line->operands.push_back(argument);
    }
  }
  if (name == "help") {
    line->wants_help = true;
    name = line->operands.empty() ? "" : line->operands[0];
  }
  line->command = FindCommand(name);
  if (!name.empty() && line->command == nullptr) {
    return "unknown command '" + name + "'";
  }
  if (line->wants_help || line->wants_version) return "";
  if (!wrong.empty()) return wrong;
  if (line->command == nullptr) return "a command is missing";
  for (const auto& [option, value] : line->options) {
    if (!ListsOption(line->command->options, option)) {
      return name + " takes no --" + option;
    }
  }
  const bool has_file = line->command->operands == OperandKind::kFileOrDb &&
                        !line->operands.empty();
  const bool has_db = !line->Text("db").empty();
  if (ListsOption(line->command->options, "db") && !has_db && !has_file) {
    return "--db=DIR is missing";
  }
  if (has_db && has_file) return name + " takes --db=DIR or a file, not both";
  wrong = CheckOperands(*line);
  if (!wrong.empty() || !line->Has("hex")) return wrong;
  return DecodeHexArguments(line);
}

bool OutputFailed(Session* session) {
  const int error = errno;
  if (ferror(session->out) == 0) return false;
  if (session->output_errno == 0) session->output_errno = error;
  return true;
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

Options OptionsOf(const CommandLine& line) {
  Options options;
  options.create_if_missing = line.Has("create_if_missing");
  if (line.Has("ignore_case")) options.key_case = KeyCase::kInsensitive;
  return options;
}

Status RequireDatabase(const CommandLine& line) {
  if (line.Has("create_if_missing")) return Status();
  const std::string path = line.Text("db");
  std::vector<std::string> names;
  const Status status = Env::Default()->GetChildren(path, &names);
  if (!status.ok() && !status.IsNotFound()) return status;
  for (const std::string& name : names) {
    uint64_t number;
    FileType type;
    // There are files of a database without CURRENT. The engine reports what is
    // missing.
    if (ParseFileName(name, &number, &type) && type != FileType::kLock &&
        type != FileType::kInfoLog) {
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

Status OpenToRead(const CommandLine& line, std::unique_ptr<DB>* db) {
  const Status status = RequireDatabase(line);
  if (!status.ok()) return status;
  return DB::OpenForReadOnly(OptionsOf(line), line.Text("db"), db);
}

Status OpenToWrite(const CommandLine& line, std::unique_ptr<DB>* db) {
  const Status status = RequireDatabase(line);
  if (!status.ok()) return status;
  return DB::Open(OptionsOf(line), line.Text("db"), db);
}

BoundedScan::BoundedScan(const CommandLine& line)
    : has_from_(line.Has("from")), has_to_(line.Has("to")) {
  if (has_from_) from_ = *line.Find("from");
  if (has_to_) to_ = *line.Find("to");
}

std::unique_ptr<Iterator> BoundedScan::NewIterator(DB* db) const {
  ReadOptions options;
  options.fill_cache = false;
  options.iterate_lower_bound = from();
  options.iterate_upper_bound = to();
  return db->NewIterator(options);
}

}  // namespace varve
