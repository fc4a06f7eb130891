// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// The program `varve`: looks into databases and changes them. `varve --help`
// tells how.

#include <signal.h>

#include <cstdio>
#include <string>
#include <vector>

#include "tools/varve/varve_cleanup.h"
#include "tools/varve/varve_commands.h"

int main(int argc, char** argv) {
  // If the reader of a pipe is gone, writing returns an error instead of ending
  // the process. An open database can then still be closed.
  signal(SIGPIPE, SIG_IGN);
  varve::StartSignalCleanup();
  return varve::RunVarve(std::vector<std::string>(argv + 1, argv + argc),
                         stdout, stderr);
}
