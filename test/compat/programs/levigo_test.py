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
import subprocess
import sys
import time
from pathlib import Path

from programs import (Cost, libraries, mapped_libraries, not_run, print_row,
                      run, try_run, work_directory)

MODULE = "github.com/jmhodges/levigo"
VERSION = "v1.0.0"


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


def run_tests(program, library, directory):
    """Returns (the names of the tests that passed, cost, output)."""
    library.check_linked(program)
    place = directory / library.name
    place.mkdir()
    mapped = set()
    with Cost() as cost:
        with subprocess.Popen(
                [program, "-test.v", "-test.count=5"], cwd=place, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                env=library.environment(TMPDIR=place)) as process:
            while process.poll() is None and not mapped:
                time.sleep(0.001)
                try:
                    mapped = mapped_libraries(process.pid)
                except OSError:
                    break
            output = process.communicate(timeout=300)[0]
    library.check_paths("levigo's process", mapped)
    passed = re.findall(r"^--- PASS: (\w+)", output, re.MULTILINE)
    if process.returncode != 0:
        passed = []
    return passed, cost, output


def main():
    go = find_go()
    with work_directory("levigo") as directory:
        directory = Path(directory)
        program, tests = build(go, directory)
        if len(tests) < 3:
            raise AssertionError(f"levigo has only the tests {tests}")
        rows = []
        failed = 0
        for library in libraries():
            passed, cost, output = run_tests(program, library, directory)
            if set(passed) != tests or len(passed) != 5 * len(tests):
                failed += 1
                print(f"on {library.name} not all tests passed:\n{output}")
            rows.append((library.name, len(set(passed)), cost))
    print_row(f"levigo {VERSION}: tests passed, five times each",
              [(name, f"{passed} of {len(tests)}") for name, passed, _ in rows])
    print_row("levigo: CPU seconds",
              [(name, f"{cost.cpu_s:.2f}") for name, _, cost in rows])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
