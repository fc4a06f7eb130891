#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Goal: Debian's binary of plyvel, the Python module, behaves on the drop-in
library as on LevelDB. Method: runs plyvel's own test suite, from the source
distribution of the same version, on both libraries. Each test must have the
same outcome.

Usage: plyvel_test.py DROP_IN_LIBRARY

VARVE_COMPAT_FULL=1 runs the suite seven times on each, for a figure.
"""

import os
import re
import statistics
import sys
import tarfile
import xml.etree.ElementTree
from pathlib import Path

from programs import (DEBIAN_PYTHON, FULL, Cost, libraries, not_run, print_row,
                      try_run, work_directory)

ROUNDS = 7 if FULL else 1
# A pytest plugin: reports the libraries that the tests themselves mapped. One
# test draws the amount of its work, which is fixed to compare processor times.
REPORTER = """\
import random
from pathlib import Path
random.randint = lambda low, high: (low + high) // 2
def pytest_sessionfinish(session):
    lines = Path("/proc/self/maps").read_text().splitlines()
    paths = {line.split(maxsplit=5)[5] for line in lines
             if "/libleveldb.so" in line}
    Path("mapped").write_text("\\n".join(sorted(paths)))
"""
# A test makes a directory unreadable and expects an error. Root needs to lose
# the capability that overrides the directory's mode.
DROP = "--bounding-set=-dac_override,-dac_read_search"


def plyvel_version():
    """Returns the version of Debian's module."""
    good, output = try_run([DEBIAN_PYTHON, "-c", "import plyvel, pytest; "
                            "print(plyvel.__version__, plyvel.__file__)"])
    if not good:
        not_run("Debian packages python3-plyvel and python3-pytest: " +
                output.splitlines()[-1])
    version, file = output.split()
    if not file.startswith("/usr/lib/python3/"):
        not_run(f"{file} is not Debian's plyvel")
    return version


def fetch_suite(version, directory):
    """Extracts the test folder of plyvel's source distribution."""
    good, output = try_run(
        [sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary",
         ":all:", "-q", "-d", directory,
         f"plyvel=={version}"])
    if not good:
        not_run("pip cannot download plyvel's source: " +
                output.strip().splitlines()[-1])
    archive = next(Path(directory).glob("plyvel-*.tar.gz"))
    with tarfile.open(archive) as file:
        # Without the package beside it, which would hide the installed one.
        members = [member for member in file.getmembers()
                   if re.match(r"plyvel-[^/]*/test/[\w.]+$", member.name)]
        file.extractall(directory, members)
    return archive.name.removesuffix(".tar.gz")


def outcomes(report):
    """Returns {test: passed, failed or skipped} of a JUnit report."""
    result = {}
    for case in xml.etree.ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        kinds = {child.tag for child in case}
        result[name] = ("failed" if kinds & {"failure", "error"} else
                        "skipped" if "skipped" in kinds else "passed")
    return result


def run_suite(library, suite, directory, number):
    """Returns (outcomes, CPU seconds, output) of a run of the suite."""
    place = Path(directory) / f"{library.name}{number}"
    (place / "tmp").mkdir(parents=True)
    (place / "reporter.py").write_text(REPORTER, "utf-8")
    command = [DEBIAN_PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider",
               "-p", "reporter", "--junit-xml=report.xml",
               str(Path(directory) / suite / "test")]
    if os.geteuid() == 0 and try_run(["setpriv", DROP, "true"])[0]:
        command = ["setpriv", DROP, *command]
    with Cost() as cost:
        _, output = try_run(command, cwd=place, env=library.environment(
            PYTHONPATH=place, PYTHONDONTWRITEBYTECODE=1, TMPDIR=place / "tmp"))
    if not (place / "mapped").exists():
        raise AssertionError(f"the suite broke off on {library.name}:\n{output}")
    library.check_paths("python3-plyvel",
                        (place / "mapped").read_text("utf-8").splitlines())
    return outcomes(place / "report.xml"), cost.cpu_s, output


def main():
    version = plyvel_version()
    with work_directory("plyvel") as directory:
        suite = fetch_suite(version, directory)
        results = {library.name: [] for library in libraries()}
        for number in range(ROUNDS):
            for library in libraries():
                results[library.name].append(
                    run_suite(library, suite, directory, number))
    reference, _, output = results["LevelDB"][0]
    if len(reference) < 50 or list(reference.values()).count("passed") < 50:
        raise AssertionError(f"too little of the suite passes on LevelDB:\n"
                             f"{output}")
    different = 0
    for name, runs in results.items():
        for found, _, output in runs:
            for test in sorted(reference.keys() | found.keys()):
                if found.get(test) != reference.get(test):
                    different += 1
                    print(f"{test}: {reference.get(test)} on LevelDB, "
                          f"{found.get(test)} on {name}\n{output}")
    print_row(f"plyvel {version}: tests passed", [
        (name, f"{list(runs[0][0].values()).count('passed')} of "
         f"{len(runs[0][0])}") for name, runs in results.items()])
    print_row("plyvel: CPU seconds of the suite", [
        (name, f"{statistics.median(seconds for _, seconds, _ in runs):.2f}")
        for name, runs in results.items()])
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
