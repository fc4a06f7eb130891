#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Goal: programs compiled against LevelDB's headers, and linked with its
library, do the same on the drop-in library. Method: compiles a C program that
calls every function of LevelDB's C header, and a C++ program that uses every
class. Both print their results, which must be equal on both libraries.

Usage: headers_test.py DROP_IN_LIBRARY
"""

import difflib
import re
import shutil
import sys
from pathlib import Path

from programs import Cost, libraries, not_run, print_row, run, work_directory

HERE = Path(__file__).resolve().parent
HEADERS = Path("/usr/include/leveldb")
PROGRAMS = {
    "every_function": ["gcc", "-std=c99", HERE / "every_function.c"],
    "every_class": ["g++", "-std=c++11", HERE / "every_class.cc", "-pthread"],
}


def check_complete(program):
    """Fails unless the C program uses each function of the header."""
    declared = set(re.findall(r"\b(leveldb_\w+)\(",
                              (HEADERS / "c.h").read_text("utf-8")))
    used = set(re.findall(r" U (leveldb_\w+)$",
                          run(["nm", "-D", program]), re.MULTILINE))
    if len(declared) < 60 or declared != used:
        raise AssertionError(f"not called: {sorted(declared - used)}")
    print(f"  all {len(used)} functions of leveldb/c.h are called")


def main():
    if not (HEADERS / "c.h").exists():
        not_run("LevelDB's headers are missing (Debian package libleveldb-dev)")
    for compiler in ("gcc", "g++"):
        if shutil.which(compiler) is None:
            not_run(f"{compiler} is missing")
    different = 0
    with work_directory("headers") as directory:
        directory = Path(directory)
        for name, command in PROGRAMS.items():
            program = directory / name
            run([*command, "-O1", "-Wall", "-Wextra", "-Werror", "-lleveldb",
                 "-o", program])
            if name == "every_function":
                check_complete(program)
            outputs, rows = {}, []
            for library in libraries():
                library.check_linked(program)
                place = directory / f"{name}-{library.name}"
                place.mkdir()
                with Cost() as cost:
                    outputs[library.name] = run(
                        [program, place],
                        env=library.environment(TEST_TMPDIR=place))
                rows.append((library.name, f"{cost.cpu_s:.2f}"))
            reference = outputs["LevelDB"].splitlines()
            if len(reference) < 50:
                raise AssertionError(f"{name} printed only {reference}")
            for library, output in outputs.items():
                for line in difflib.unified_diff(
                        reference, output.splitlines(), "LevelDB", library,
                        lineterm=""):
                    different += 1
                    print(line)
            print_row(f"{name}, {len(reference)} lines compared: CPU seconds",
                      rows)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
