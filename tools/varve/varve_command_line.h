// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// What the program `varve` was asked to do, and what its commands have in
// common.

#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "varve/db.h"
#include "varve/options.h"
#include "varve/status.h"

namespace varve {

struct Session;

// As Command::max_operands: any number of pairs.
inline constexpr size_t kPairsOfOperands = SIZE_MAX;

enum class OperandKind : uint8_t {
  kBytes,  // Keys and values, hexadecimal under --hex.
  kFile,
  kFileOrDb,  // In place of --db.
};

// A command of the program.
struct Command {
  const char* name;
  size_t min_operands;
  size_t max_operands;
  OperandKind operands;
  // Of the options below, by name, separated by spaces.
  const char* options;
  const char* summary;  // Half a line.
  const char* help;     // At most a screen of 24 lines of 80 columns.
  Status (*run)(Session* session);
  // Changes nothing and takes no lock, of a database that --db names.
  bool only_reads = false;
};

// All commands, in the order of the overview.
std::span<const Command> Commands();
// Null if there is none.
const Command* FindCommand(const std::string& name);

enum class OptionKind : uint8_t {
  kFlag,
  kText,
  kKey,  // Hexadecimal under --hex.
  kNumber,
};

struct OptionSpec {
  const char* name;  // Without dashes.
  OptionKind kind;
};

// All options of all commands.
std::span<const OptionSpec> TEST_CommandOptions();
// Whether `options`, as in Command, names the option.
bool ListsOption(const char* options, const std::string& name);

struct CommandLine {
  const Command* command = nullptr;
  std::vector<std::string> operands;
  std::map<std::string, std::string> options;
  bool wants_help = false;
  bool wants_version = false;

  bool Has(const std::string& name) const { return options.contains(name); }
  // Null if it was not given.
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

// Returns what is wrong with the arguments; empty if nothing. With `--help` or
// `--version` among them nothing is.
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

  const std::string& operand(size_t i) const { return line.operands[i]; }
  std::string db() const { return line.Text("db"); }
};

// Whether what was printed last went nowhere, so that there is no use in going
// on. To be asked right after printing.
bool OutputFailed(Session* session);

// Says on stderr how far long work has got: if that is a terminal, on a line
// that is written over and removed in the end, else in lines, if --progress was
// given.
// Thread-safety: owned by one thread at a time.
class Progress {
 public:
  explicit Progress(const Session& session);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();

  // Whether the last word is old enough for another one.
  bool Due();
  void Show(const std::string& text);

 private:
  FILE* const err_;
  const bool terminal_;
  const bool on_;
  uint64_t next_us_;
  bool shown_ = false;
};

// Options of the database as the command line gives them.
Options OptionsOf(const CommandLine& line);
// NotFound, saying what to do, if there are no files of a database.
Status RequireDatabase(const CommandLine& line);
Status OpenToRead(const CommandLine& line, std::unique_ptr<DB>* db);
Status OpenToWrite(const CommandLine& line, std::unique_ptr<DB>* db);

// The part of a database that --from and --to give, and the walk through it.
class BoundedScan {
 public:
  explicit BoundedScan(const CommandLine& line);
  BoundedScan(const BoundedScan&) = delete;
  BoundedScan& operator=(const BoundedScan&) = delete;

  // Null is no bound.
  const Slice* from() const { return has_from_ ? &from_ : nullptr; }
  const Slice* to() const { return has_to_ ? &to_ : nullptr; }
  // Must not outlive this.
  std::unique_ptr<Iterator> NewIterator(DB* db) const;

 private:
  Slice from_;
  Slice to_;
  bool has_from_ = false;
  bool has_to_ = false;
};

}  // namespace varve
