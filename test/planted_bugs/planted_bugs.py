#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Plants one bug after the other, of bugs.toml beside this file, in a copy of
the source, and shows that the tests catch it. Each test must pass without the
bug, and fail with it within ten minutes. Ends with a table and a line of
figures; a bug that survives, or that does not apply any more, is an error.

Usage: planted_bugs.py --check         only see whether all of them apply
       planted_bugs.py DIRECTORY [NAME...]
                                       work there; only bugs with such names
"""

import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUGS = Path(__file__).resolve().parent / "bugs.toml"
TARGETS = ("crash_test", "db_test", "dead_range_steps_test", "stress_test",
           "table_test", "util_test")
LIMIT_SECONDS = 600
LEAST_BUGS = 8


class Problem(Exception):
    pass


def load_bugs():
    with open(BUGS, "rb") as file:
        bugs = tomllib.load(file)["bug"]
    for bug in bugs:
        for change in bug["change"]:
            # A line of its own may begin where the quotes are.
            change["old"] = change["old"].removeprefix("\n")
            change["new"] = change["new"].removeprefix("\n")
    return bugs


def words_of(command):
    """Settings of the environment, the program, and its arguments."""
    words = command.split()
    settings = {}
    while re.match(r"[A-Z_]+=", words[0]):
        name, _, value = words.pop(0).partition("=")
        settings[name] = value
    return [settings, *words]


def mutated(root, bug):
    """The changed files' new texts, by path."""
    texts = {}
    for change in bug["change"]:
        path = root / change["file"]
        text = texts.get(path) or path.read_text()
        count = text.count(change["old"])
        if count != 1:
            raise Problem(f"{bug['name']}: {change['file']} has its text "
                          f"{count} times; adapt {BUGS.name}")
        texts[path] = text.replace(change["old"], change["new"])
        if texts[path] == text:
            raise Problem(f"{bug['name']}: changes nothing")
    return texts


def check(bugs):
    if len(bugs) < LEAST_BUGS:
        raise Problem(f"only {len(bugs)} bugs")
    for bug in bugs:
        mutated(ROOT, bug)
        for command in bug["run"]:
            if words_of(command)[1] not in TARGETS:
                raise Problem(f"{bug['name']}: {command}: unknown program")


def copy_tree(origin, target):
    """Makes target the same. What changes there gets the time of now, as what
    is built from it is to be built again, and the rest keeps its time."""
    target.mkdir(parents=True, exist_ok=True)
    # Not table/build, say, which is a folder of sources.
    skipped = {".git", "__pycache__"} | ({"build"} if origin == ROOT else set())
    kept = {entry.name for entry in origin.iterdir()} - skipped
    for entry in target.iterdir():
        if entry.name in kept:
            continue
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    for name in kept:
        source, copy = origin / name, target / name
        if source.is_dir():
            copy_tree(source, copy)
        elif not copy.exists() or copy.read_bytes() != source.read_bytes():
            copy.write_bytes(source.read_bytes())
            shutil.copymode(source, copy)


class Workshop:
    def __init__(self, directory):
        self.directory = Path(directory).resolve()
        self.source = self.directory / "source"
        copy_tree(ROOT, self.source)
        self.sound = set()

    def build(self, bug):
        """The build directory, in which everything that the bug needs is."""
        sanitize = bug.get("sanitize", "")
        place = self.directory / ("build-" + (sanitize or "release"))
        if not (place / "build.ninja").exists():
            kind = (["-DCMAKE_BUILD_TYPE=Debug",
                     "-DCMAKE_CXX_FLAGS_DEBUG=-O1 -g1"] if sanitize else
                    ["-DCMAKE_BUILD_TYPE=RelWithDebInfo"])
            self.call(["cmake", "-G", "Ninja", "-S", self.source, "-B", place,
                       "-DVARVE_SANITIZE=" + sanitize,
                       "-DCMAKE_COMPILE_WARNING_AS_ERROR=OFF", *kind])
        targets = sorted({words_of(command)[1] for command in bug["run"]})
        self.call(["cmake", "--build", place, "--target", *targets])
        return place

    @staticmethod
    def call(command):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise Problem(done.stdout[-3000:] + done.stderr[-1000:])

    def run(self, place, command):
        """What failed, or None."""
        settings, program, *arguments = words_of(command)
        scratch = self.directory / "scratch"
        shutil.rmtree(scratch, ignore_errors=True)
        arguments.append(f"--dir={scratch}" if program == "crash_test" else
                         "--gtest_fail_fast")
        try:
            done = subprocess.run(
                [place / program, *arguments], cwd=self.directory,
                env={**os.environ, **settings},
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                errors="replace", timeout=LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            return f"{program}, which hangs"
        if "Running 0 tests" in done.stdout:
            raise Problem(f"{command}: there is no such test")
        if done.returncode == 0:
            return None
        failed = re.findall(r"^\[  FAILED  \] ([\w/]+\.[\w/]+)", done.stdout,
                            re.M)
        if not failed:  # It died in the one that it began last.
            failed = re.findall(r"^\[ RUN      \] (\S+)", done.stdout,
                                re.M)[-1:]
        return failed[0] if failed else program

    def plant(self, bug):
        """Which test caught it, and after how many seconds of testing."""
        untried = [(bug.get("sanitize"), command) for command in bug["run"]]
        untried = [pair for pair in untried if pair not in self.sound]
        if untried:
            place = self.build(bug)
        for pair in untried:
            if failed := self.run(place, pair[1]):
                raise Problem(f"{failed} fails without a bug")
            self.sound.add(pair)
        texts = mutated(self.source, bug)
        before = {path: path.read_text() for path in texts}
        try:
            for path, text in texts.items():
                path.write_text(text)
            place = self.build(bug)
            start = time.monotonic()
            for command in bug["run"]:
                if caught := self.run(place, command):
                    return caught, time.monotonic() - start
            return None, time.monotonic() - start
        finally:
            for path, text in before.items():
                path.write_text(text)


def main():
    bugs = load_bugs()
    arguments = sys.argv[1:]
    if not arguments or arguments[0].startswith("--") and arguments != [
            "--check"]:
        sys.exit(__doc__)
    check(bugs)
    if arguments == ["--check"]:
        print(f"planted_bugs: {len(bugs)} bugs apply")
        return
    workshop = Workshop(arguments[0])
    wanted = [bug for bug in bugs
              if not arguments[1:] or any(name in bug["name"]
                                          for name in arguments[1:])]
    missed = []
    longest = 0
    print("| bug | caught by | after |\n|---|---|---|", flush=True)
    for bug in wanted:
        caught, seconds = workshop.plant(bug)
        longest = max(longest, seconds)
        if caught is None:
            missed.append(bug["name"])
        print(f"| {bug['name']} | {caught or '**nothing**'} "
              f"| {seconds:.1f} s |", flush=True)
    print(f"planted_bugs: {len(wanted)} planted, "
          f"{len(wanted) - len(missed)} caught, the slowest in "
          f"{longest:.1f} s; {len(missed)} survive")
    if missed or longest > LIMIT_SECONDS:
        sys.exit(1)


if __name__ == "__main__":
    os.environ.pop("TEST_SEED", None)
    try:
        main()
    except Problem as problem:
        sys.exit(f"planted_bugs: {problem}")
