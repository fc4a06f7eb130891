#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Measures the tests: changes the code in small ways, one at a time, and counts
the changes that a test notices. All mutants of mutants.toml are built at once
into a copy of the source, each next to the original code and chosen by the
environment variable VARVE_MUTANT. For each of them the unit tests of its folder
run first, then those of its layer and of the others. A mutant is killed if a
test fails with it twice, the second time alone, and passes without it.

Usage: mutants.py --check         only see whether all of them apply
       mutants.py DIRECTORY [OPTION...] [NAME...]
                                  work there; only mutants with such names
Options: --jobs=N      mutants at a time; half the processors
         --part=I/N    the I-th of N parts of the mutants
         --alive       run those again that are alive
         --seconds=N   processor time of a run of tests; 300

A run continues where an earlier one in the directory ended. A mutant runs again
if it, its file or the tests have changed. The table is in DIRECTORY/table.md,
too. Exits with 1 if fewer than nine of ten mutants are killed.
"""

import concurrent.futures
import hashlib
import json
import os
import re
import resource
import subprocess
import sys
import threading
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test/planted_bugs"))
from planted_bugs import copy_tree  # noqa: E402

MUTANTS = Path(__file__).resolve().parent / "mutants.toml"
LEAST_MUTANTS = 100
LEAST_KILLED = 0.9
# The layers, lowest first, and the layers whose tests use each.
LAYERS = ("util", "env", "monitoring", "table", "db", "catalog")
# No processor time at all for so long is a deadlock.
IDLE_SECONDS = 60
# Tests that wait for the machine more than they compute, or of more memory
# than several of them should use at a time.
LEFT_OUT = ("*UpdatesThatNoTableCanHold*", "DbDescriptors*", "*ManyFaults*")

HEADER = """#pragma once

#include <cstdlib>

namespace varve {

inline int VarveMutant() {
  static const int number = [] {
    const char* const text = getenv("VARVE_MUTANT");
    return text == nullptr ? 0 : atoi(text);
  }();
  return number;
}

}  // namespace varve
"""


class Problem(Exception):
    pass


class Mutant:
    def __init__(self, number, file, name, texts):
        self.number, self.file, self.name = number, file, name
        *context, self.old, self.new = texts
        self.context = context[0] if context else self.old
        self.folder = file.rsplit("/", 1)[0]
        self.layer = file.split("/")[0]

    def problem(self, where, count):
        return Problem(f"{self.name}: {self.file} has {where!r} {count} times; "
                       f"adapt {MUTANTS.name}")

    def place(self, text):
        """Where the original is in the file's text."""
        if text.count(self.context) != 1:
            raise self.problem(self.context, text.count(self.context))
        if self.context.count(self.old) != 1:
            raise self.problem(self.old, self.context.count(self.old))
        if self.old == self.new:
            raise Problem(f"{self.name}: changes nothing")
        begin = text.index(self.context) + self.context.index(self.old)
        return begin, begin + len(self.old)

    def choice(self):
        """The code that takes the original's place."""
        condition = f"varve::VarveMutant() == {self.number}"
        if self.old.endswith((";", "}")):
            return f"if ({condition}) {{ {self.new} }} else {{ {self.old} }}"
        return f"({condition} ? ({self.new}) : ({self.old}))"


def load_mutants():
    with open(MUTANTS, "rb") as file:
        files = tomllib.load(file)
    mutants = []
    for path, group in files.items():
        for name, texts in group.items():
            mutants.append(Mutant(len(mutants) + 1, path, name, texts))
    return mutants


def mutated(root, mutants):
    """The changed files' new texts, by path."""
    texts = {}
    for path in dict.fromkeys(mutant.file for mutant in mutants):
        text = (root / path).read_text()
        places = sorted((*mutant.place(text), mutant)
                        for mutant in mutants if mutant.file == path)
        for (_, end, one), (begin, _, other) in zip(places, places[1:]):
            if begin < end:
                raise Problem(f"{one.name} and {other.name} overlap")
        for begin, end, mutant in reversed(places):
            text = text[:begin] + mutant.choice() + text[end:]
        include = re.search(r"^#include", text, re.M).start()
        texts[path] = (text[:include] + '#include "util/base/mutant.h"\n' +
                       text[include:])
    return texts


def check(mutants):
    if len(mutants) < LEAST_MUTANTS:
        raise Problem(f"only {len(mutants)} mutants")
    names = [mutant.name for mutant in mutants]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise Problem(f"two mutants are named {twice[0]}")
    mutated(ROOT, mutants)


def suites_of(folder):
    """The suites of the test sources in a folder, as a filter's patterns."""
    suites = set()
    for source in (ROOT / "test" / folder).glob("**/*.cc"):
        suites.update(re.findall(r"^(?:TYPED_)?TEST(?:_[FP])?\((\w+),",
                                 source.read_text(), re.M))
    return [pattern for suite in sorted(suites)
            for pattern in (f"{suite}.*", f"*/{suite}.*")]


def processor_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Workshop:
    def __init__(self, directory, mutants, seconds):
        self.directory = Path(directory).resolve()
        self.source = self.directory / "source"
        self.build = self.directory / "build"
        self.mutants = mutants
        self.seconds = seconds
        self.lock = threading.Lock()
        self.results_path = self.directory / "results.jsonl"
        self.sound = {}  # By program and filter: what fails without a mutant.
        tests = hashlib.sha256()
        for path in sorted((ROOT / "test").glob("**/*")):
            if path.suffix in (".cc", ".h"):
                tests.update(path.read_bytes())
        self.tests = tests.hexdigest()[:16]

    def key(self, mutant):
        text = "\0".join([mutant.choice(), self.tests])
        text += (ROOT / mutant.file).read_text()
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def make(self):
        """Builds the programs with all mutants."""
        texts = mutated(ROOT, self.mutants)
        texts["util/base/mutant.h"] = HEADER
        fresh = self.directory / "fresh"
        copy_tree(ROOT, fresh)
        for path, text in texts.items():
            (fresh / path).write_text(text)
        # What is the same as in the last run keeps its time.
        copy_tree(fresh, self.source)
        if not (self.build / "build.ninja").exists():
            self.call(["cmake", "-G", "Ninja", "-S", self.source,
                       "-B", self.build, "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
                       "-DCMAKE_COMPILE_WARNING_AS_ERROR=OFF"])
        self.call(["cmake", "--build", self.build, "--target",
                   *(f"{layer}_test" for layer in LAYERS)])

    @staticmethod
    def call(command):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise Problem(done.stdout[-3000:] + done.stderr[-1000:])

    def run(self, program, pattern, number):
        """What failed, or None."""
        scratch = self.directory / "scratch" / str(threading.get_ident())
        scratch.mkdir(parents=True, exist_ok=True)
        limit = self.seconds
        environment = {**os.environ, "VARVE_MUTANT": str(number),
                       "TEST_TMPDIR": str(scratch), "TEST_SEED": "1"}
        with open(scratch / "output", "w+", errors="replace") as output:
            process = subprocess.Popen(
                [self.build / program, "--gtest_fail_fast", "--gtest_brief=0",
                 f"--gtest_filter={pattern}"],
                cwd=scratch, env=environment, stdout=output,
                stderr=subprocess.STDOUT, start_new_session=True,
                preexec_fn=lambda: resource.setrlimit(
                    resource.RLIMIT_CPU, (limit, limit + 5)))
            hangs = not self.await_end(process)
            output.seek(0)
            text = output.read()
        self.call(["rm", "-rf", scratch])
        if process.returncode == 0:
            return None
        failed = re.findall(r"^\[  FAILED  \] ([\w/]+\.[\w/]+)", text, re.M)
        if not failed:  # It ended in the one that it began last.
            failed = re.findall(r"^\[ RUN      \] (\S+)", text, re.M)[-1:]
        return (failed[0] if failed else program) + (" hangs" if hangs else "")

    @staticmethod
    def await_end(process):
        """Returns false if the process had to be ended."""
        used, since = 0, time.monotonic()
        while process.poll() is None:
            time.sleep(0.05)
            try:
                now = processor_seconds(process.pid)
            except OSError:
                continue
            if now > used:
                used, since = now, time.monotonic()
            elif time.monotonic() - since > IDLE_SECONDS:
                os.killpg(process.pid, 9)
                process.wait()
                return False
        return True

    def stages(self, mutant):
        """Programs and filters, in order."""
        left_out = ":".join(LEFT_OUT)
        first = LAYERS.index(mutant.layer)
        own = suites_of(mutant.folder)
        if own and mutant.folder != mutant.layer:
            yield f"{mutant.layer}_test", f"{':'.join(own)}:-{left_out}"
            left_out += ":" + ":".join(own)
        yield f"{mutant.layer}_test", f"*:-{left_out}"
        for layer in LAYERS[first + 1:]:
            yield f"{layer}_test", f"*:-{':'.join(LEFT_OUT)}"

    def fails_without(self, program, pattern):
        with self.lock:
            known = self.sound.get((program, pattern))
        if known is None:
            known = [self.run(program, pattern, 0)]
            with self.lock:
                self.sound[program, pattern] = known
        return known[0]

    def kill(self, mutant):
        """The test that kills it, or None."""
        for program, pattern in self.stages(mutant):
            # Tests that fail with it, but not for its sake.
            vague = ""
            while failed := self.run(program, pattern + vague,
                                     mutant.number):
                test = failed.split()[0]
                if test == program:  # It does not even begin.
                    if self.fails_without(program, pattern) is None:
                        return failed
                    break
                if (self.run(program, test, mutant.number) and
                        self.fails_without(program, test) is None):
                    return failed
                vague += ":" + test
        return None

    def judge(self, mutant):
        begin = time.monotonic()
        killer = self.kill(mutant)
        result = {"name": mutant.name, "key": self.key(mutant),
                  "file": mutant.file, "killer": killer,
                  "seconds": round(time.monotonic() - begin, 1)}
        with self.lock, open(self.results_path, "a") as file:
            file.write(json.dumps(result) + "\n")
        print(row(result), flush=True)

    def results(self):
        """The valid results of earlier runs, by name."""
        known = {}
        if self.results_path.exists():
            for line in self.results_path.read_text().splitlines():
                result = json.loads(line)
                known[result["name"]] = result
        return {mutant.name: known[mutant.name] for mutant in self.mutants
                if mutant.name in known and
                known[mutant.name]["key"] == self.key(mutant)}


def row(result):
    return (f"| {result['name']} | {result['file']} "
            f"| {result['killer'] or '**nothing**'} "
            f"| {result['seconds']:.1f} s |")


def main():
    mutants = load_mutants()
    options = dict(argument[2:].partition("=")[::2]
                   for argument in sys.argv[1:] if argument.startswith("--"))
    words = [argument for argument in sys.argv[1:]
             if not argument.startswith("--")]
    if set(options) - {"check", "jobs", "part", "alive", "seconds"}:
        sys.exit(__doc__)
    check(mutants)
    if "check" in options:
        print(f"mutants: {len(mutants)} apply")
        return
    if not words:
        sys.exit(__doc__)
    workshop = Workshop(words[0], mutants, int(options.get("seconds", 300)))
    part, parts = map(int, options.get("part", "1/1").split("/"))
    wanted = [mutant for mutant in mutants
              if mutant.number % parts == part % parts and
              (not words[1:] or any(name in mutant.name
                                    for name in words[1:]))]
    workshop.make()
    known = workshop.results()
    due = [mutant for mutant in wanted if mutant.name not in known or
           "alive" in options and not known[mutant.name]["killer"]]
    print("| mutant | file | killed by | after |\n|---|---|---|---|")
    for mutant in wanted:
        if mutant not in due:
            print(row(known[mutant.name]))
    jobs = int(options.get("jobs", max(1, os.cpu_count() // 2)))
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for future in [pool.submit(workshop.judge, mutant) for mutant in due]:
            future.result()
    known = workshop.results()
    killed = [mutant for mutant in wanted if known[mutant.name]["killer"]]
    table = ["| mutant | file | killed by | after |", "|---|---|---|---|",
             *(row(known[mutant.name]) for mutant in wanted)]
    summary = (f"mutants: {len(killed)} of {len(wanted)} killed, "
               f"{len(wanted) - len(killed)} alive")
    (workshop.directory / "table.md").write_text(
        "\n".join([*table, "", summary, ""]))
    print(summary)
    if len(killed) < LEAST_KILLED * len(wanted):
        sys.exit(1)


if __name__ == "__main__":
    try:
        main()
    except Problem as problem:
        sys.exit(f"mutants: {problem}")
