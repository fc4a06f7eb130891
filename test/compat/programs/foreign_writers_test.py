#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Goal: directories of other people's LevelDBs open, with the right contents.
Method: each library in foreign_writers.py writes a database, twice in a row,
and prints the contents. The tool reads and checks it, and plyvel reads and
converts it on the drop-in library.

Usage: foreign_writers_test.py DROP_IN_LIBRARY VARVE_TOOL
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from foreign_writers import WRITERS, Missing
from programs import (DEBIAN_PYTHON, libraries, not_run, run, try_run,
                      work_directory)

COUNT = 1500
# Opens the database for writing and prints it.
READER = """import plyvel, sys
assert sys.argv[2] in open("/proc/self/maps").read(), "not on the drop-in"
db = plyvel.DB(sys.argv[1])
for key, value in db:
    print(key.hex() + " => " + value.hex())
"""


def write(command, database, more):
    """Runs a writer. Returns its output."""
    done = subprocess.run(
        [*map(str, command), str(database), str(COUNT), *more],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        timeout=600, check=False)
    if " => " not in done.stdout:
        raise AssertionError(f"{command}: {done.stdout}{done.stderr}")
    return done.stdout


def scan(tool, database):
    """Returns the database's contents in the form of the writers."""
    text = run([tool, "scan", f"--db={database}", "--hex"]).lower()
    return re.sub("^0x(.*) : 0x", r"\1 => ", text, flags=re.MULTILINE)


def check_database(tool, drop_in, database, expected):
    """Fails unless the database shows these contents in every way."""
    for step in ("as it was written", "converted"):
        good, output = try_run([tool, "check", f"--db={database}"])
        if not good:
            raise AssertionError(f"damage, {step}: {output}")
        if scan(tool, database) != expected:
            raise AssertionError(f"the tool shows other contents, {step}")
        shown = run([DEBIAN_PYTHON, "-c", READER, database, drop_in.file],
                    env=drop_in.environment())
        if shown != expected:
            raise AssertionError(f"the drop-in shows other contents, {step}")
    run([tool, "compact", f"--db={database}"])
    if scan(tool, database) != expected:
        raise AssertionError("a compaction changes the contents")


def main():
    drop_in = libraries()[1]
    tool = Path(sys.argv[2]).resolve()
    if not try_run([DEBIAN_PYTHON, "-c", "import plyvel"])[0]:
        not_run("plyvel is missing (Debian package python3-plyvel)")
    commands, passed = {}, 0
    with work_directory("writers") as directory:
        directory = Path(directory)
        for name, make, argument, more in WRITERS:
            title = " ".join([name, *more])
            try:
                if argument not in commands:
                    commands[argument] = None
                    commands[argument] = make(argument, directory)
            except Missing as missing:
                print(f"{title}: not run: {missing}", flush=True)
            if commands[argument] is None:
                continue
            database = directory / "database"
            write(commands[argument], database, more)
            expected = write(commands[argument], database, more)
            try:
                check_database(tool, drop_in, database, expected)
            except AssertionError as error:
                raise AssertionError(f"{title}: {error}") from error
            shutil.rmtree(database)
            print(f"{title}: {expected.count(chr(10))} entries", flush=True)
            passed += 1
    if passed == 0:
        not_run("no library could be built")
    return 0


if __name__ == "__main__":
    sys.exit(main())
