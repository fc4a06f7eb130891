#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Goal: a program with 50 open databases takes little more memory on the drop-in
library, and no more threads than LevelDB after its first flush. Method: a Python
program opens 50 databases, writes, reads, reopens and compacts them. After each
step it reports its resident anonymous memory and its threads. Pages of files do
not count: processes share them, and how many of the library's are mapped depends
on the kernel's reading ahead. Both libraries do the same steps. Above 1.1 times
LevelDB's memory a step is printed, and above 1.2 it fails.

Usage: memory_test.py DROP_IN_LIBRARY
"""

import json
import sys
from pathlib import Path

from programs import (DEBIAN_PYTHON, libraries, not_run, print_row, run,
                      try_run, work_directory)

AIM = 1.1
LIMIT = 1.2

STEPS = """\
import json, os, sys, plyvel
directory, steps = sys.argv[1], {}
def report(step):
    with open("/proc/self/status", encoding="utf-8") as file:
        fields = dict(line.split(":", 1) for line in file)
    steps[step] = [int(fields["RssAnon"].split()[0]), int(fields["Threads"])]
def open_all():
    return [plyvel.DB(f"{directory}/{i}", create_if_missing=True)
            for i in range(50)]
report("before")
databases = open_all()
report("50 databases opened")
def put(first, end):
    for start in range(first, end, 100):
        for number, db in enumerate(databases):
            with db.write_batch() as batch:
                for i in range(start, start + 100):
                    batch.put(b"%d-%d" % (number, i), b"v" * 100)
put(0, 2000)
report("2,000 entries put into each")
put(2000, 10000)
report("10,000 entries put into each")
for number, db in enumerate(databases):
    for i in range(0, 10000, 7):
        if len(db.get(b"%d-%d" % (number, i))) != 100:
            sys.exit("a wrong value")
    db.close()
databases = open_all()
report("closed and opened again")
for db in databases:
    db.compact_range()
    if sum(1 for _ in db) != 10000:
        sys.exit("entries are missing")
report("compacted and read whole")
with open("/proc/self/maps", encoding="utf-8") as maps:
    mapped = {line.split()[-1] for line in maps if "/libleveldb.so" in line}
print(json.dumps([steps, list(mapped)]))
"""


def main():
    good, output = try_run([DEBIAN_PYTHON, "-c", "import plyvel"])
    if not good:
        not_run("Debian package python3-plyvel: " + output.splitlines()[-1])
    results = {}
    with work_directory("memory") as directory:
        for library in libraries():
            place = Path(directory) / library.name
            place.mkdir()
            steps, mapped = json.loads(run(
                [DEBIAN_PYTHON, "-c", STEPS, place],
                env=library.environment()))
            library.check_paths("Python", mapped)
            results[library.name] = steps
    failed = 0
    for step, (reference_kib, threads) in results["LevelDB"].items():
        print_row(f"anonymous KiB, threads: {step}",
                  [(name, f"{steps[step][0]}, {steps[step][1]}")
                   for name, steps in results.items()])
        for name, steps in results.items():
            ratio = steps[step][0] / reference_kib
            if ratio > AIM:
                print(f"{name}: {ratio:.2f} times LevelDB's memory at: {step}")
            # LevelDB starts its background thread at the first flush.
            if ratio > LIMIT or steps[step][1] > max(threads, 2):
                failed += 1
                print(f"{name} takes too much at: {step}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
