// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "tools/varve_commands.h"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>

#include "tools/varve_trace.h"
#include "varve/db.h"

namespace varve {

namespace {

constexpr char kUsage[] =
    "usage: varve COMMAND --db=DIR [OPTION...]\n"
    "\n"
    "  get KEY         print the value of a key\n"
    "  put KEY VALUE   set it\n"
    "  delete KEY      remove the key\n"
    "  scan            print the entries in key order, as KEY : VALUE\n"
    "  trace FILE      print what took how long in a file that db_bench\n"
    "                  --trace or a program wrote, in Chrome's format, and\n"
    "                  make a page with a flame chart of it\n"
    "\n"
    "  --db=DIR             the database\n"
    "  --hex                keys and values are hexadecimal, as 0x61; without\n"
    "                       it, output of one ends at its first zero byte\n"
    "  --from=KEY           scan: start at this key\n"
    "  --to=KEY             scan: stop before this key\n"
    "  --limit=N            scan: print at most N entries; trace: print the\n"
    "                       N slowest traces (default: 3)\n"
    "  --html=FILE          trace: the page (default: FILE.html)\n"
    "  --create_if_missing  put: make the database if there is none\n"
    "  --ignore_case        the keys of the database are case-insensitive\n"
    "  --                   what follows is no option\n"
    "\n"
    "get and scan change nothing and take no lock: do not run them beside a\n"
    "process that writes. Exit code: 0 for success, 1 if the key was not "
    "found\n"
    "or something failed, 2 for a wrong command line.\n";

constexpr size_t kTracesToPrint = 3;
constexpr size_t kTracesInPage = 200;

struct CommandLine {
  std::string command;
  std::vector<std::string> operands;
  std::string db;
  bool hex = false;
  bool create_if_missing = false;
  bool ignore_case = false;
  std::optional<std::string> from;
  std::optional<std::string> to;
  std::optional<std::string> html;
  uint64_t limit = UINT64_MAX;
};

struct Command {
  const char* name;
  size_t operands;
  Status (*run)(const CommandLine& line, FILE* out);
};

// ---- Text ------------------------------------------------------------------

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Turns 0x6162 into ab.
bool DecodeHex(const std::string& text, std::string* bytes) {
  if (!text.starts_with("0x") || text.size() % 2 != 0) return false;
  bytes->clear();
  for (size_t i = 2; i < text.size(); i += 2) {
    const int high = HexDigit(text[i]);
    const int low = HexDigit(text[i + 1]);
    if (high < 0 || low < 0) return false;
    bytes->push_back(static_cast<char>(high << 4 | low));
  }
  return true;
}

void Print(const Slice& bytes, bool hex, FILE* out) {
  if (hex) {
    fputs("0x", out);
    fputs(bytes.ToString(true).c_str(), out);
    return;
  }
  // To the first zero byte only: so does ldb.
  fwrite(bytes.data(), 1, strnlen(bytes.data(), bytes.size()), out);
}

// ---- Commands --------------------------------------------------------------

Options OptionsOf(const CommandLine& line) {
  Options options;
  options.create_if_missing = line.create_if_missing;
  if (line.ignore_case) options.key_case = KeyCase::kInsensitive;
  return options;
}

Status OpenToRead(const CommandLine& line, std::unique_ptr<DB>* db) {
  return DB::OpenForReadOnly(OptionsOf(line), line.db, db);
}

Status OpenToWrite(const CommandLine& line, std::unique_ptr<DB>* db) {
  return DB::Open(OptionsOf(line), line.db, db);
}

Status Get(const CommandLine& line, FILE* out) {
  std::unique_ptr<DB> db;
  Status status = OpenToRead(line, &db);
  std::string value;
  if (status.ok()) status = db->Get(ReadOptions(), line.operands[0], &value);
  if (!status.ok()) return status;
  Print(value, line.hex, out);
  fputc('\n', out);
  return db->Close();
}

Status Put(const CommandLine& line, FILE* out) {
  std::unique_ptr<DB> db;
  Status status = OpenToWrite(line, &db);
  if (status.ok()) {
    status = db->Put(WriteOptions(), line.operands[0], line.operands[1]);
  }
  if (status.ok()) status = db->Close();
  if (status.ok()) fputs("OK\n", out);
  return status;
}

Status Delete(const CommandLine& line, FILE* out) {
  std::unique_ptr<DB> db;
  Status status = OpenToWrite(line, &db);
  if (status.ok()) status = db->Delete(WriteOptions(), line.operands[0]);
  if (status.ok()) status = db->Close();
  if (status.ok()) fputs("OK\n", out);
  return status;
}

Status Scan(const CommandLine& line, FILE* out) {
  std::unique_ptr<DB> db;
  Status status = OpenToRead(line, &db);
  if (!status.ok()) return status;
  ReadOptions options;
  options.fill_cache = false;
  Slice from;
  Slice to;
  if (line.from.has_value()) {
    from = *line.from;
    options.iterate_lower_bound = &from;
  }
  if (line.to.has_value()) {
    to = *line.to;
    options.iterate_upper_bound = &to;
  }
  std::unique_ptr<Iterator> iterator = db->NewIterator(options);
  uint64_t left = line.limit;
  if (left > 0) iterator->SeekToFirst();
  for (; left > 0 && iterator->Valid() && !ferror(out); --left) {
    Print(iterator->key(), line.hex, out);
    fputs(" : ", out);
    Print(iterator->value(), line.hex, out);
    fputc('\n', out);
    iterator->Next();
  }
  status = iterator->status();
  iterator.reset();
  return status.ok() ? db->Close() : status;
}

// Files that the user names, and so may be links or pipes: not the engine's
// way to files, which refuses these.
bool ReadText(const std::string& path, std::string* text) {
  std::ifstream in(path, std::ios::binary);
  text->assign(std::istreambuf_iterator<char>(in), {});
  return in.is_open() && !in.bad();
}
bool WriteText(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << text << std::flush;
  return out.good();
}

Status Trace(const CommandLine& line, FILE* out) {
  const std::string& path = line.operands[0];
  std::string text;
  errno = 0;
  if (!ReadText(path, &text)) return Status::FromErrno("read " + path, errno);
  std::vector<TraceSpan> spans;
  const Status status = ParseChromeTrace(text, &spans);
  if (!status.ok()) return status.Annotate(path);
  const std::vector<TraceTree> trees = BuildTraceTrees(std::move(spans));
  const size_t limit = line.limit == UINT64_MAX ? kTracesToPrint : line.limit;
  fputs(FormatTraces(trees, limit).c_str(), out);
  const std::string page = line.html.value_or(path + ".html");
  if (!WriteText(page, FormatTracePage(trees, kTracesInPage))) {
    return Status::FromErrno("write " + page, errno);
  }
  fprintf(out, "\nFlame chart: %s\n", page.c_str());
  return Status::OK();
}

const Command kCommands[] = {
    {"get", 1, Get},   {"put", 2, Put},     {"delete", 1, Delete},
    {"scan", 0, Scan}, {"trace", 1, Trace},
};

const Command* FindCommand(const std::string& name) {
  for (const Command& command : kCommands) {
    if (name == command.name) return &command;
  }
  return nullptr;
}

// ---- The command line ------------------------------------------------------

bool ParseOption(const std::string& option, CommandLine* line) {
  const size_t equals = option.find('=');
  const std::string name = option.substr(0, equals);
  if (equals == std::string::npos) {
    if (name == "--hex") {
      line->hex = true;
    } else if (name == "--create_if_missing") {
      line->create_if_missing = true;
    } else if (name == "--ignore_case") {
      line->ignore_case = true;
    } else {
      return false;
    }
    return true;
  }
  const std::string value = option.substr(equals + 1);
  if (name == "--db") {
    line->db = value;
  } else if (name == "--from") {
    line->from = value;
  } else if (name == "--to") {
    line->to = value;
  } else if (name == "--html") {
    line->html = value;
  } else if (name == "--limit") {
    const char* const end = value.data() + value.size();
    const auto [rest, error] = std::from_chars(value.data(), end, line->limit);
    return error == std::errc() && rest == end;
  } else {
    return false;
  }
  return true;
}

// Returns what is wrong; empty if nothing.
std::string Parse(const std::vector<std::string>& arguments,
                  CommandLine* line) {
  bool options_ended = false;
  for (const std::string& argument : arguments) {
    if (!options_ended && argument == "--") {
      options_ended = true;
    } else if (!options_ended && argument.starts_with("--")) {
      if (!ParseOption(argument, line)) return "wrong option " + argument;
    } else if (line->command.empty()) {
      line->command = argument;
    } else {
      line->operands.push_back(argument);
    }
  }
  if (line->command.empty()) return "a command is missing";
  const Command* command = FindCommand(line->command);
  if (command == nullptr) return "unknown command '" + line->command + "'";
  if (line->operands.size() != command->operands) {
    return line->command + " takes " + std::to_string(command->operands) +
           " arguments, not " + std::to_string(line->operands.size());
  }
  const bool is_trace = line->command == "trace";
  if (is_trace && !line->db.empty()) return "trace takes no --db";
  if (!is_trace && line->db.empty()) return "--db=DIR is missing";
  if (!is_trace && line->html) return "--html is for trace";
  const bool is_scan = line->command == "scan";
  if (!is_scan && (line->from || line->to)) {
    return "--from and --to are for scan";
  }
  if (!is_scan && !is_trace && line->limit != UINT64_MAX) {
    return "--limit is for scan and trace";
  }
  if (line->create_if_missing && line->command != "put") {
    return "--create_if_missing is for put";
  }
  if (!line->hex || is_trace) return "";
  std::vector<std::string*> texts;
  for (std::string& operand : line->operands) texts.push_back(&operand);
  if (line->from.has_value()) texts.push_back(&*line->from);
  if (line->to.has_value()) texts.push_back(&*line->to);
  for (std::string* text : texts) {
    std::string bytes;
    if (!DecodeHex(*text, &bytes)) {
      return "'" + *text + "' is not hexadecimal, such as 0x61";
    }
    *text = bytes;
  }
  return "";
}

}  // namespace

int RunVarve(const std::vector<std::string>& arguments, FILE* out, FILE* err) {
  for (const std::string& argument : arguments) {
    if (argument == "--") break;
    if (argument == "--help") {
      fputs(kUsage, out);
      return kExitOk;
    }
    if (argument == "--version") {
      fprintf(out, "varve %s\n", VARVE_VERSION);
      return kExitOk;
    }
  }
  CommandLine line;
  const std::string wrong = Parse(arguments, &line);
  if (!wrong.empty()) {
    fprintf(err, "varve: %s\n%s", wrong.c_str(), kUsage);
    return kExitUsage;
  }
  const Status status = FindCommand(line.command)->run(line, out);
  if (!status.ok()) {
    fprintf(err, "varve: %s\n", status.ToString().c_str());
    return kExitFailure;
  }
  // What was printed may have gone nowhere.
  if (fflush(out) != 0 || ferror(out)) {
    fprintf(err, "varve: cannot write the output: %s\n", strerror(errno));
    return kExitFailure;
  }
  return kExitOk;
}

}  // namespace varve
