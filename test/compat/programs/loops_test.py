#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Goal: a Python program reads and writes no slower on the drop-in library.
Method: loops over plyvel, Debian's Python module, write a database in batches
and read random keys of it, on both libraries in turn. Each loop is a process of
its own, and its processor time is measured with all its threads. A loop in C
shows the library's part alone. All values are checked.

Usage: loops_test.py DROP_IN_LIBRARY

VARVE_COMPAT_FULL=1 runs a million operations five times, and fails if a row is
slower than with LevelDB, or reads of a database larger than LevelDB's default
cache are not twice as fast in the library.
"""

import shutil
import statistics
import sys
from pathlib import Path

from programs import (DEBIAN_PYTHON, FULL, Cost, libraries, not_run, print_row,
                      run, try_run, work_directory)

COUNT = 1_000_000 if FULL else 100_000
ROUNDS = 5 if FULL else 1
# About 3 MB, so that LevelDB's cache of 8 MB holds it.
SMALL = 30_000
HERE = Path(__file__).resolve().parent

# Usage: write, read or nothing; DIRECTORY; KEYS; OPERATIONS. The numbers of the
# keys are a permutation, so that writes are in random order.
LOOP = """\
import random, sys, plyvel
task, directory, keys, count = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
source = random.Random(1)
values = [source.randbytes(50) + b"v" * 50 for _ in range(1000)]
entries = [(b"%016d" % (i * 2654435761 % keys), values[i % 1000])
           for i in range(keys)]
order = [entries[source.randrange(keys)] for _ in range(count)]
if task == "nothing":
    sys.exit(0)
db = plyvel.DB(directory, create_if_missing=task == "write")
if task == "write":
    for first in range(0, keys, 1000):
        with db.write_batch() as batch:
            for key, value in entries[first:first + 1000]:
                batch.put(key, value)
else:
    for key, value in order:
        if db.get(key) != value:
            sys.exit("a wrong value of " + key.decode())
db.close()
with open("/proc/self/maps", encoding="utf-8") as maps:
    print({line.split()[-1] for line in maps if "/libleveldb.so" in line})
"""


class Loops:
    """The loops on all libraries. Databases are reused by the reads."""

    def __init__(self, found, directory):
        self.found, self.directory = found, directory
        self.read_loop = directory / "read_loop"
        good, output = try_run(["gcc", "-std=c99", "-O2", HERE / "read_loop.c",
                                "-lleveldb", "-o", self.read_loop])
        if not good:
            print(f"the loop in C does not run: {output.splitlines()[-1]}")
            self.read_loop = None

    def path(self, library, keys):
        return self.directory / f"{library.name}-{keys}"

    def python(self, library, task, keys, count):
        """Returns the CPU seconds of a loop in Python."""
        with Cost() as cost:
            output = run([DEBIAN_PYTHON, "-c", LOOP, task,
                          self.path(library, keys), keys, count],
                         env=library.environment())
        if task != "nothing" and str(library.file.name) not in output:
            raise AssertionError(f"the loop ran on {output}")
        return cost.cpu_s

    def write(self, library, keys):
        shutil.rmtree(self.path(library, keys), ignore_errors=True)
        return self.python(library, "write", keys, 0)

    def read_in_c(self, library, keys, count):
        """Returns the CPU seconds in the library's Get and in free."""
        return int(run([self.read_loop, self.path(library, keys), keys, count],
                       env=library.environment())) / 1e6

    def measure(self, name, function):
        """Prints the medians of a row. Returns LevelDB's by the drop-in's."""
        seconds = {library.name: [] for library in self.found}
        for _ in range(ROUNDS):
            for library in self.found:
                seconds[library.name].append(function(library))
        medians = {key: statistics.median(values)
                   for key, values in seconds.items()}
        print_row(name, [(key, f"{value:.2f}")
                         for key, value in medians.items()])
        return medians["LevelDB"] / max(medians.get("Varve", 1e9), 1e-9)


def main():
    good, output = try_run([DEBIAN_PYTHON, "-c", "import plyvel"])
    if not good:
        not_run("Debian package python3-plyvel: " + output.splitlines()[-1])
    slow = []
    with work_directory("loops") as directory:
        loops = Loops(libraries(), Path(directory))
        # The keys are made in any case; the difference is the library's part
        # and the binding's.
        print("CPU seconds, with the start of Python and the making of keys:")
        loops.measure(f"neither read nor write, {COUNT} keys",
                      lambda l: loops.python(l, "nothing", COUNT, COUNT))
        for keys in (SMALL, COUNT):
            rows = [(f"write {keys} keys in batches of 1000",
                     lambda l: loops.write(l, keys), 1)]
            # Python's start is the most of so few writes.
            if keys == SMALL:
                rows.clear()
                for library in loops.found:
                    loops.write(library, keys)
            rows += [(f"{COUNT} random db.get of {keys} keys",
                      lambda l: loops.python(l, "read", keys, COUNT), 1)]
            if loops.read_loop is not None:
                rows.append(
                    (f"the same reads in C: the library alone, {keys} keys",
                     lambda l: loops.read_in_c(l, keys, COUNT),
                     2 if keys == COUNT else 1))
            for name, function, least in rows:
                ratio = loops.measure(name, function)
                # A ratio of 1 is met within the noise of the medians.
                if ratio < (least if least > 1 else 0.97):
                    slow.append(f"{name}: {ratio:.2f} times LevelDB's speed")
    for line in slow:
        print(("too slow: " if FULL else "note: ") + line)
    return 1 if slow and FULL and len(loops.found) > 1 else 0


if __name__ == "__main__":
    sys.exit(main())
