// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The command line of the program `varve`, and code that its commands share.

#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tools/varve/varve_text.h"
#include "varve/db.h"
#include "varve/options.h"
#include "varve/status.h"

namespace varve {

class Database;
struct Session;

// A value of Command::max_operands: any number of pairs.
inline constexpr size_t kPairsOfOperands = SIZE_MAX;

enum class OperandKind : uint8_t {
  kBytes,  // Keys and values, encoded under --hex and --escaped.
  kFile,
  kFileOrDb,  // A file, or a database in place of --db.
};

// A command of the program.
struct Command {
  const char* name;
  size_t min_operands;
  size_t max_operands;
  OperandKind operands;
  // Names of the options that it takes, separated by spaces.
  const char* options;
  const char* summary;  // Half a line.
  const char* help;     // At most a screen of 24 lines of 80 columns.
  Status (*run)(Session* session);
  // The command changes nothing and takes no lock on the database of --db.
  bool only_reads = false;
  // The second operand may be -, for bytes from standard input.
  bool reads_value = false;
};

// Returns all commands, in the order of the overview.
std::span<const Command> Commands();
// The command `help`.
Status RunHelp(Session* session);
// Returns null if no command has this name.
const Command* FindCommand(const std::string& name);
// Returns a complaint about the name of no command, with one that is close.
std::string UnknownCommand(const std::string& name);

enum class OptionKind : uint8_t {
  kFlag,
  kText,
  kKey,  // Encoded under --hex and --escaped.
  kNumber,
};

struct OptionSpec {
  const char* name;  // Without dashes.
  OptionKind kind;
};

// Returns all options of all commands.
std::span<const OptionSpec> TEST_CommandOptions();
// Returns whether `options`, as in Command, names the option.
bool ListsOption(const char* options, const std::string& name);

struct CommandLine {
  const Command* command = nullptr;
  std::vector<std::string> operands;
  std::map<std::string, std::string> options;
  bool wants_help = false;
  bool wants_version = false;
  // The second operand is -: the value comes from standard input.
  bool value_is_input = false;

  bool Has(const std::string& name) const { return options.contains(name); }
  // Returns null if the option was not given.
  const std::string* Find(const std::string& name) const {
    const auto it = options.find(name);
    return it == options.end() ? nullptr : &it->second;
  }
  std::string Text(const std::string& name) const {
    const std::string* const text = Find(name);
    return text == nullptr ? "" : *text;
  }
  uint64_t Number(const std::string& name, uint64_t otherwise) const;
};

// Returns an error in the arguments, or an empty string. Checks nothing if
// `--help` or `--version` is among them.
std::string ParseCommandLine(const std::vector<std::string>& arguments,
                             CommandLine* line);

// One run of a command.
struct Session {
  const CommandLine& line;
  FILE* in;
  FILE* out;
  FILE* err;
  // errno of the first write to `out` that failed; see OutputFailed.
  int output_errno = 0;
  // If not 0, the exit code of a command that fails, in place of the one that
  // belongs to its status.
  int exit_code = 0;

  const std::string& operand(size_t i) const { return line.operands[i]; }
  std::string db() const { return line.Text("db"); }

  // Each sets exit_code and returns an error: for a key that the database does
  // not have, and for arguments that make no sense for it.
  Status Absent(const std::string& what);
  Status WrongUse(const std::string& what);
  // Returns the status of reading a text, such as a dump, unchanged. If it is
  // InvalidArgument, the text is damaged, and exit_code says so.
  Status DamagedInput(const Status& status);
};

// Returns whether the last write to `out` failed, so that the command can stop.
// Call it right after printing.
bool OutputFailed(Session* session);

// Passes everything to the output's file, and keeps the first error, as
// OutputFailed does.
void FlushOutput(TextOutput* output, Session* session);

// Returns the form in which keys and values are printed.
Form FormOf(const CommandLine& line);

// A loop over entries looks at the clock for its progress once in this many.
inline constexpr uint64_t kEntriesPerLook = 1024;

// Shows the progress of long work on stderr. A terminal has one line, which is
// overwritten and removed in the end. Otherwise, --progress prints lines.
// Thread-safety: owned by one thread at a time.
class Progress {
 public:
  explicit Progress(const Session& session);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();

  // Returns whether the last message is old enough for the next one.
  bool Due();
  void Show(const std::string& text);

 private:
  FILE* const err_;
  const bool terminal_;
  const bool on_;
  uint64_t next_us_;
  bool shown_ = false;
};

// Sets the database's options that the command line has.
void SetOptionsOf(const CommandLine& line, Options* options);
// Returns NotFound, with advice, if there are no files of a database.
Status RequireDatabase(const CommandLine& line);

// The key range of --from, --to and --prefix, and iterators over it in the
// column family of --family, for the writes of --start_time and --end_time.
class BoundedScan {
 public:
  explicit BoundedScan(const CommandLine& line);
  BoundedScan(const BoundedScan&) = delete;
  BoundedScan& operator=(const BoundedScan&) = delete;

  // Null means no bound.
  const Slice* from() const { return has_from_ ? &from_ : nullptr; }
  const Slice* to() const { return has_to_ ? &to_ : nullptr; }
  // The iterator must not outlive this. With --timestamp its values are those
  // that are stored, which end in their times. With --start_time or --end_time
  // it leaves out the other writes, and a value without a time is Corruption.
  // `is_long` means that it is expected to read megabytes; it then reads ahead
  // from the first block on.
  // `family`: in place of the one of --family, unless null.
  std::unique_ptr<Iterator> NewIterator(
      const Database& db, bool is_long,
      ColumnFamilyHandle* family = nullptr) const;

 private:
  std::string from_text_;
  std::string to_text_;
  Slice from_;
  Slice to_;
  bool has_from_ = false;
  bool has_to_ = false;
  bool shows_times_ = false;
  bool has_times_ = false;
  uint64_t start_time_s_ = 0;
  uint64_t end_time_s_ = UINT64_MAX;  // Exclusive.
};

}  // namespace varve
