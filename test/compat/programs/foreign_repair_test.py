#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Goal: programs that repair a converted directory by themselves do not destroy
it. Method: LevelDB writes a database, the drop-in library or the tool converts
it and writes on, and LevelDB's RepairDB and goleveldb's Recover are called. The
contents must stay, or come back by `varve repair`.

Usage: foreign_repair_test.py DROP_IN_LIBRARY VARVE_TOOL
"""

import re
import shutil
import sys
from pathlib import Path

from foreign_writers import Missing, go_program
from programs import (DEBIAN_PYTHON, libraries, not_run, run, try_run,
                      work_directory)

COUNT = 24000
GUARD = ("000001.dbtmp", "CURRENT.1", "+0.ldb")
# Overwrites every third entry, so that compactions mix old tables and new ones.
WRITER = """import plyvel, sys
db = plyvel.DB(sys.argv[1], create_if_missing=True, write_buffer_size=1 << 17)
for k in range(0, int(sys.argv[2]), int(sys.argv[3])):
    db.put(b"key%08d" % k, (b"%s of %d " % (sys.argv[4].encode(), k)) * 3)
if sys.argv[4] == "Varve":
    for k in range(0, int(sys.argv[2]), 7):
        db.delete(b"key%08d" % k)
"""
REPAIR = "import plyvel, sys; plyvel.repair_db(sys.argv[1])"


def python(library, program, *arguments):
    """Runs a Python program with plyvel on a library. Returns (whether it
    succeeded, its output)."""
    return try_run([DEBIAN_PYTHON, "-c", program, *map(str, arguments)],
                   env=library.environment())


def write(library, database, step, text):
    """Puts every `step`th entry."""
    good, output = python(library, WRITER, database, COUNT, step, text)
    if not good:
        raise AssertionError(f"{library.name} writes no database: {output}")


def set_guard(database, guarded):
    """Checks that the guard is there, and removes it if it is not wanted."""
    for name in GUARD:
        path = database / name
        if not path.exists():
            raise AssertionError(f"{name} is missing")
        if not guarded and path.is_dir():
            shutil.rmtree(path)
        elif not guarded:
            path.unlink()


def scan(tool, database):
    """Returns (whether the tool can read the database, what it prints)."""
    return try_run([tool, "scan", f"--db={database}"])


class Cases:
    """Makes copies of one converted database, and checks them."""

    def __init__(self, directory, tool, leveldb, drop_in):
        self.directory, self.tool = directory, tool
        self.leveldb, self.drop_in = leveldb, drop_in
        self.converted = directory / "converted"
        self.expected = None

    def convert(self, by_tool):
        """Makes the database."""
        shutil.rmtree(self.converted, ignore_errors=True)
        write(self.leveldb, self.converted, 1, "LevelDB")
        if by_tool:
            run([self.tool, "put", f"--db={self.converted}", "key", "of Varve"])
        else:
            write(self.drop_in, self.converted, 3, "Varve")
        self.expected = scan(self.tool, self.converted)
        if not self.expected[0] or self.expected[1].count("\n") < 10000:
            raise AssertionError(self.expected[1][-1000:])

    def copy(self, guarded):
        """Returns a copy of the database."""
        database = self.directory / "copy"
        shutil.rmtree(database, ignore_errors=True)
        shutil.copytree(self.converted, database)
        set_guard(database, guarded)
        return database

    def check(self, database, title):
        """Fails unless the database has its contents."""
        if scan(self.tool, database) != self.expected:
            raise AssertionError(f"{title}: other contents")
        print(f"{title}: {self.expected[1].count(chr(10))} entries", flush=True)

    def check_repaired(self, database, title):
        """Fails unless the database is refused, and the tool repairs it."""
        good, output = python(self.drop_in, WRITER, database, 1, 1, "again")
        if good or not re.search("lost/.*varve repair", output):
            raise AssertionError(f"{title}: opened, or badly refused: {output}")
        run([self.tool, "repair", f"--db={database}"])
        self.check(database, title)

    def run_leveldb(self):
        """LevelDB's repair function, with the guard and without."""
        database = self.copy(guarded=True)
        good, output = python(self.leveldb, REPAIR, database)
        if good or "Is a directory" not in output:
            raise AssertionError(f"LevelDB repairs in spite of it: {output}")
        self.check_repaired(database, "after LevelDB's RepairDB, guarded")
        database = self.copy(guarded=False)
        run([DEBIAN_PYTHON, "-c", REPAIR, database],
            env=self.leveldb.environment())
        self.check_repaired(database, "after LevelDB's RepairDB, unguarded")

    def run_goleveldb(self, recover):
        """goleveldb's, called after a failed open, and in any case."""
        for more in ([], ["always"]):
            database = self.copy(guarded=True)
            output = run([*recover, database, *more])
            if not output.startswith("refused: "):
                raise AssertionError(f"goleveldb recovers it: {output}")
            self.check(database, " ".join(["after goleveldb", *more]))


def main():
    leveldb, drop_in = libraries()
    if not try_run([DEBIAN_PYTHON, "-c", "import plyvel"])[0]:
        not_run("plyvel is missing (Debian package python3-plyvel)")
    with work_directory("repair") as directory:
        directory = Path(directory)
        cases = Cases(directory, Path(sys.argv[2]).resolve(), leveldb, drop_in)
        recover = None
        try:
            recover = go_program("goleveldb_recover", directory)
        except Missing as missing:
            print(f"goleveldb: not run: {missing}", flush=True)
        for by_tool in (False, True):
            cases.convert(by_tool)
            cases.run_leveldb()
            if recover is not None:
                cases.run_goleveldb(recover)
        ldb = shutil.which("ldb")
        if ldb is not None:
            database = cases.copy(guarded=True)
            run([ldb, f"--db={database}", "put", "key", "of RocksDB"])
            set_guard(database, guarded=True)
            print("RocksDB's ldb writes to the database", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
