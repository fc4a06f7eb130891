#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Goal: a program may change between RocksDB and Varve at any time, on the same
directory. Method: sessions of session.c, on one directory in turn on both
libraries; 200 of them with VARVE_COMPAT_FULL=1, else 40. The same sessions run
on a directory that only RocksDB has, and on one that only Varve has: the
contents must be the same after each.

Usage: sessions_test.py LIBRARY DIRECTORY_OF_THE_HEADERS
"""

import sys
from pathlib import Path

from parts import FULL, HERE, find, libraries, not_run, run, work_directory

SESSIONS = 200 if FULL else 40
CHANGES = 300


def run_session(program, library, directory, session):
    """Returns the contents before and after the session."""
    try:
        lines = run([program, directory, session, CHANGES],
                    env=library.environment()).splitlines()
    except AssertionError as error:
        raise AssertionError(f"session {session} of {directory.name}, on "
                             f"{library.name}: {error}") from None
    contents = dict(line.split(maxsplit=1) for line in lines)
    return contents["before"], contents["after"]


def main():
    found = libraries()
    if len(found) < 2:
        not_run("RocksDB itself is not built")
    with work_directory("sessions") as place:
        place = Path(place)
        program = place / "session"
        run([find("gcc"), "-O1", "-std=c99", "-D_GNU_SOURCE", "-I", sys.argv[2],
             HERE / "session.c", f"-L{found[0].directory}", "-lrocksdb", "-o",
             program])
        for library in found:
            library.check_linked(program)
        orders = {"in-turn": found, **{each.name: [each] for each in found}}
        before = None
        for session in range(SESSIONS):
            seen = {name: run_session(program, order[session % len(order)],
                                      place / name, session)
                    for name, order in orders.items()}
            if len(set(seen.values())) != 1 or before not in (
                    None, seen["in-turn"][0]):
                raise AssertionError(f"session {session}: {seen}, after "
                                     f"{before}")
            before = seen["in-turn"][1]
            if session % 20 == 19:
                print(f"after session {session}: entries and hash {before}",
                      flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
