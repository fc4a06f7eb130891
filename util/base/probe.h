// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Statically defined probes: places at which perf, bpftrace, SystemTap and gdb
// can stop or count, with arguments that they read. A probe is one no-op
// instruction, and a note in the file that says where it and its arguments
// are. docs/probes.md lists all of them.
//
//   VARVE_PROBE(flush_end, number, ok);
//
// Arguments are integers or pointers, at most 12, which the surrounding code
// has anyway: they are evaluated each time. Without <sys/sdt.h> (Debian's
// systemtap-sdt-dev) when Varve is compiled there are no probes.

#if defined(__linux__) && __has_include(<sys/sdt.h>)
#define SDT_USE_VARIADIC
#include <sys/sdt.h>
#define VARVE_HAVE_PROBES 1
#define VARVE_PROBE(name, ...) STAP_PROBEV(varve, name, __VA_ARGS__)
#else
#define VARVE_HAVE_PROBES 0
#define VARVE_PROBE(name, ...) static_cast<void>(0)
#endif
