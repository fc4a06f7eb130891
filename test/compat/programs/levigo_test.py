#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Goal: levigo, a Go binding of LevelDB's C interface, works on the drop-in
library. Method: builds levigo's own tests from the unmodified module, against
Debian's headers and library, and runs the same binary on both libraries.

Usage: levigo_test.py DROP_IN_LIBRARY
"""

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

from programs import (Cost, libraries, mapped_libraries, not_run, print_row,
                      run, try_run, work_directory)

MODULE = "github.com/jmhodges/levigo"
VERSION = "v1.0.0"
RUNS = 5
# levigo reads the sizes of tables without waiting for the first one, which the
# library writes in the background. So its test fails now and then on LevelDB.
RACE = r"(First|Second) size range was 0"


def find_go():
    """Returns the path of the Go toolchain."""
    go = shutil.which("go", path=os.environ["PATH"] + ":/usr/local/go/bin")
    if go is None:
        not_run("there is no Go toolchain")
    if not Path("/usr/include/leveldb/c.h").exists():
        not_run("LevelDB's headers are missing (Debian package libleveldb-dev)")
    if shutil.which("gcc") is None:
        not_run("gcc is missing")
    return go


def build(go, directory):
    """Builds levigo's tests. Returns the program's path."""
    good, output = try_run([go, "mod", "download", "-json",
                            f"{MODULE}@{VERSION}"], cwd=directory)
    if not good:
        not_run("Go cannot download levigo: " + output.splitlines()[-1])
    source = Path(json.loads(output)["Dir"])
    (directory / "go.mod").write_text(
        f"module varve.example/levigo\n\nrequire {MODULE} {VERSION}\n", "utf-8")
    (directory / "use.go").write_text(
        f'package use\n\nimport _ "{MODULE}"\n', "utf-8")
    run([go, "mod", "tidy"], cwd=directory)
    # The module's files are those of which the checksum database knows the sum.
    run([go, "mod", "verify"], cwd=directory)
    program = directory / "levigo.test"
    run([go, "test", "-c", "-o", program, MODULE], cwd=directory)
    tests = {name for file in source.glob("*_test.go")
             for name in re.findall(r"^func (Test\w+)", file.read_text("utf-8"),
                                    re.MULTILINE)}
    return program, tests


def run_once(program, library, place):
    """Returns (exit status, output, paths of the mapped libraries)."""
    mapped = set()
    with subprocess.Popen(
            [program, "-test.v"], cwd=place, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=library.environment(TMPDIR=place)) as process:
        while process.poll() is None and not mapped:
            time.sleep(0.001)
            try:
                mapped = mapped_libraries(process.pid)
            except OSError:
                break
        try:
            output = process.communicate(timeout=100)[0]
        except subprocess.TimeoutExpired:
            process.kill()  # Otherwise the `with` waits for its end.
            raise
    return process.returncode, output, mapped


def run_tests(program, library, directory):
    """Runs the tests until RUNS runs passed whole. Returns (the names of the
    tests, failures, median CPU seconds of a run that passed). A failure of
    the test that RACE names is counted, and not an error."""
    library.check_linked(program)
    place = directory / library.name
    place.mkdir()
    names, failures, seconds = set(), 0, []
    while len(seconds) < RUNS:
        with Cost() as cost:
            status, output, mapped = run_once(program, library, place)
        if status == 0:
            if not seconds:
                library.check_paths("levigo's process", mapped)
            seconds.append(cost.cpu_s)
            names = set(re.findall(r"^--- PASS: (\w+)", output, re.MULTILINE))
            continue
        failures += 1
        errors = re.findall(r"^ +leveldb_test.go:\d+: (.*)", output,
                            re.MULTILINE)
        if failures > 3 * RUNS or not errors or not all(
                re.fullmatch(RACE, error) for error in errors):
            raise AssertionError(f"levigo's tests fail on {library.name}:\n"
                                 f"{output}")
    return names, failures, statistics.median(seconds)


def main():
    go = find_go()
    with work_directory("levigo") as directory:
        directory = Path(directory)
        program, tests = build(go, directory)
        if len(tests) < 3:
            raise AssertionError(f"levigo has only the tests {tests}")
        rows = []
        for library in libraries():
            passed, failures, seconds = run_tests(program, library, directory)
            if passed != tests:
                raise AssertionError(f"only {passed} ran on {library.name}")
            rows.append((library.name, passed, failures, seconds))
    print_row(f"levigo {VERSION}: tests passed, in {RUNS} runs",
              [(name, f"{len(passed)} of {len(tests)}")
               for name, passed, _, _ in rows])
    print_row("levigo: runs that read sizes before the first table was there",
              [(name, failures) for name, _, failures, _ in rows])
    print_row("levigo: CPU seconds of a run",
              [(name, f"{seconds:.3f}") for name, _, _, seconds in rows])
    return 0


if __name__ == "__main__":
    sys.exit(main())
