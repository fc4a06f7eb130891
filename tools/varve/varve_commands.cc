// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "tools/varve/varve_commands.h"

#include <cerrno>
#include <cstring>

#include "tools/varve/varve_command_line.h"
#include "tools/varve/varve_live.h"
#include "tools/varve/varve_text.h"
#include "varve/version.h"

namespace varve {

namespace {

// The first line of a command's help.
std::string UsageLine(const Command& command) {
  const std::string help = command.help;
  return help.substr(0, help.find('\n') + 1);
}

// Returns advice about a failure.
std::string Advice(const Status& status, const CommandLine& line) {
  const std::string db = line.Text("db");
  const std::string_view command = line.command->name;
  if (status.IsBusy() && !db.empty() && !line.command->only_reads) {
    const std::string holder = FindHolder(line);
    const std::string who = holder.empty() ? "another process" : holder;
    return db + " is in use by " + who + ": end that first";
  }
  if (status.IsInvalidArgument() && !line.Has("merge_operator") &&
      status.message().ToString().find("merge_operator") != std::string::npos) {
    return ListsOption(line.command->options, "merge_operator")
               ? "--merge_operator=OP names the one of the column family"
               : "";
  }
  if (command == "restore" && (status.IsCorruption() || status.IsNotFound())) {
    return "to see which backups are damaged, use varve backups --from=" +
           line.Text("from") + " --verify";
  }
  if (!status.IsCorruption() || db.empty() || command == "repair") return "";
  const std::string holder = FindHolder(line);
  if (!holder.empty()) {
    return db + " is open in " + holder + ": end that before varve repair";
  }
  if (command == "check") {
    return "to save what can be read, use varve repair --db=" + db;
  }
  return "to see what is damaged, use varve check --db=" + db +
         "; to save what can\n       be read, varve repair";
}

// Returns the text of a status for users of the program.
std::string Message(const Slice& text) {
  std::string message = Visible(text);
  constexpr std::string_view kFunction = "RepairDB";
  for (size_t at; (at = message.find(kFunction)) != message.npos;) {
    message.replace(at, kFunction.size(), "varve repair");
  }
  return message;
}

int ExitCodeOf(const Status& status) {
  if (status.IsCorruption()) return kExitDamage;
  return status.IsBusy() ? kExitBusy : kExitFailure;
}

int Fail(const Status& status, Session* session) {
  fflush(session->out);  // Both may go to the same place.
  if (session->exit_code == kExitUsage) {
    fprintf(session->err, "varve: %s\nvarve help %s tells more.\n",
            Message(status.message()).c_str(), session->line.command->name);
    return kExitUsage;
  }
  fprintf(session->err, "varve: %s\n", Message(status.ToString()).c_str());
  const std::string advice = Advice(status, session->line);
  if (!advice.empty()) fprintf(session->err, "varve: %s\n", advice.c_str());
  return session->exit_code != 0 ? session->exit_code : ExitCodeOf(status);
}

int Finish(const Status& status, Session* session) {
  if (!status.ok()) return Fail(status, session);
  // The output may not have been written.
  fflush(session->out);
  OutputFailed(session);
  if (session->output_errno == 0) return kExitOk;
  // EPIPE means that the reader has stopped reading.
  if (session->output_errno != EPIPE) {
    fprintf(session->err, "varve: cannot write the output: %s\n",
            strerror(session->output_errno));
  }
  return kExitFailure;
}

void PrintOverview(FILE* out) {
  fputs("usage: varve COMMAND --db=DIR [OPTION...] [ARGUMENT...]\n", out);
  for (const Command& command : Commands()) {
    if (command.run == RunHelp) continue;  // The last line tells of it.
    fprintf(out, "  %-14s%s\n", command.name, command.summary);
  }
  fputs(
      "varve help COMMAND tells more.\n"
      "Exit: 1 no key, 2 wrong use, 3 damage, 4 in use, 5 other failure.\n",
      out);
}

}  // namespace

Status RunHelp(Session* session) {
  const std::vector<std::string>& operands = session->line.operands;
  if (operands.empty()) {
    PrintOverview(session->out);
    return Status();
  }
  const Command* const command = FindCommand(operands[0]);
  if (command == nullptr) {
    return session->WrongUse(UnknownCommand(operands[0]));
  }
  fputs(command->help, session->out);
  return Status();
}

int RunVarve(const std::vector<std::string>& arguments, FILE* out, FILE* err,
             FILE* in) {
  CommandLine line;
  const std::string wrong = ParseCommandLine(arguments, &line);
  if (!wrong.empty()) {
    fprintf(err, "varve: %s\n", Visible(wrong).c_str());
    if (line.command == nullptr) {
      PrintOverview(err);
    } else {
      fprintf(err, "%svarve help %s tells more.\n",
              UsageLine(*line.command).c_str(), line.command->name);
    }
    return kExitUsage;
  }
  if (!line.wants_help && !line.wants_version) {
    Session session{line, in, out, err};
    if (line.command->only_reads) NoteHolder(session);
    const Status status = line.command->run(&session);
    return Finish(status, &session);
  }
  if (line.wants_version) {
    fprintf(out, "varve %s\n", VersionString());
  } else if (line.command == nullptr) {
    PrintOverview(out);
  } else {
    fputs(line.command->help, out);
  }
  Session session{line, in, out, err};
  return Finish(Status(), &session);
}

}  // namespace varve
