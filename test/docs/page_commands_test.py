#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Goal: the pages that look at Varve with the system's own tools are right: each
command runs as it is printed, and docs/probes.md lists just the probes that the
programs have, with as many arguments. Method: run the commands of a page in its
order, in a directory where build/release is the build; read the notes of the
program with readelf.

A tool that this machine or kernel does not permit is said to be not run. Which
these are is found out by the simplest use of each, so that a wrong command is a
failure.

Usage: page_commands_test.py DB_BENCH
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DB_BENCH = Path()
FENCE = re.compile(r"^```\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# The first words of a command, and what shows that it can be run here.
NEEDS = {
    ("bpftrace",): "bpftrace -e 'BEGIN { exit(); }'",
    ("perf", "probe"): "perf probe --list",
    ("perf", "trace"): "perf trace -s -o /dev/null true",
    ("perf", "record"): "perf record -N -e cpu-clock -o /dev/null true",
    ("perf",): "perf --version",
    ("strace",): "strace -o /dev/null true",
    ("gdb",): "gdb -batch -ex 'run' --args true",
}
PROGRAMS = ("build/", "perf ", "strace ", "bpftrace ", "gdb ", "grep ", "rm ")


def blocks(page):
    """The commands of each block of a page."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return [[line for line in block.splitlines() if line.startswith(PROGRAMS)]
            for block in FENCE.findall(text)]


def run(command, directory):
    return subprocess.run(["bash", "-c", command], cwd=directory,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace", timeout=120,
                          check=False)


class PageCommandsTest(unittest.TestCase):
    def run_page(self, page):
        permitted = {words: run(simplest, "/").returncode == 0
                     for words, simplest in NEEDS.items()}
        with tempfile.TemporaryDirectory() as directory:
            place = Path(directory)
            (place / "build").mkdir()
            (place / "build" / "release").symlink_to(DB_BENCH.parent)
            os.environ["TEST_TMPDIR"] = directory
            # perf probe fails if the user's cache below HOME names a program
            # that no longer exists, such as an earlier build.
            os.environ["HOME"] = directory
            for block in blocks(page):
                refused = None
                for command in block:
                    words = tuple(command.split())
                    # Later commands of a block read what a refused one would
                    # have written.
                    refused = refused or next(
                        (need for need, works in permitted.items()
                         if not works and words[:len(need)] == need), None)
                    if refused:
                        print(f"not run, {' '.join(refused)} is not permitted: "
                              f"{command}")
                        continue
                    # Another program's files are not to be touched.
                    here = command.replace("/tmp/varve-open", f"{place}/open")
                    done = run(here, place)
                    self.assertEqual(done.returncode, 0,
                                     f"{command}\n{done.stdout}")
                    self.assertNotIn("unknown command line flag", done.stdout)

    def test_probes(self):
        self.run_page("probes.md")

    def test_a_table_open_from_outside(self):
        self.run_page("table_open_outside.md")


class ProbesTest(unittest.TestCase):
    def test_the_page_lists_the_probes(self):
        notes = subprocess.run(["readelf", "-n", DB_BENCH], text=True,
                               capture_output=True, check=True).stdout
        found = {}
        for name, arguments in re.findall(
                r"Provider: varve\n\s+Name: (\w+)\n.*\n\s+Arguments: (.*)",
                notes):
            found[name] = len(re.findall(r"-?\d@", arguments))
        self.assertTrue(found, "the program has no probes: was sys/sdt.h "
                        "there when it was compiled?")
        text = (ROOT / "docs" / "probes.md").read_text(encoding="utf-8")
        listed = {}
        for name, arguments in re.findall(
                r"^\| `(\w+)` \|[^|]*\| ([^|]*) \|$", text, re.MULTILINE):
            # Parts in parentheses have commas of their own.
            plain = re.sub(r"\([^)]*\)", "", arguments)
            listed[name] = plain.count(",") + 1
        self.assertEqual(listed, found)

    def hits(self, directory, *flags):
        """How often each probe is passed in a run of db_bench."""
        notes = subprocess.run(["readelf", "-n", DB_BENCH], text=True,
                               capture_output=True, check=True).stdout
        names = sorted(set(re.findall(r"Provider: varve\n\s+Name: (\w+)",
                                      notes)))
        lines = ["set breakpoint pending on", "set confirm off"]
        for number, name in enumerate(names, start=1):
            lines += [f"break -probe-stap varve:{name}",
                      f"ignore {number} 100000000"]
        script = Path(directory) / "script"
        script.write_text("\n".join([*lines, "run", "info breakpoints"]),
                          encoding="utf-8")
        done = subprocess.run(
            ["gdb", "-batch", "-x", script, "--args", DB_BENCH,
             f"--db={directory}/db", *flags], capture_output=True, text=True,
            timeout=200, check=False)
        self.assertIn("exited normally", done.stdout)
        found = dict.fromkeys(names, 0)
        for number, count in re.findall(
                r"^(\d+) +breakpoint(?:.*\n(?!\d))*?.*already hit (\d+) time",
                done.stdout, re.MULTILINE):
            found[names[int(number) - 1]] = int(count)
        return found

    def test_a_cached_get_passes_no_probe_and_a_write_one(self):
        if run(NEEDS[("gdb",)], "/").returncode != 0:
            print("not run, gdb is not permitted")
            return
        with tempfile.TemporaryDirectory() as directory:
            few, many = (self.hits(directory, "--benchmarks=fillrandom",
                                   f"--num={count}") for count in (100, 600))
            more = {name: many[name] - few[name] for name in few
                    if many[name] != few[name]}
            self.assertEqual(more, {"group_commit": 500})
            made = run(f"{DB_BENCH} --db=db --use_existing_db --num=600 "
                       "--benchmarks=compact", directory)
            self.assertEqual(made.returncode, 0, made.stdout)
            few, many = (self.hits(
                directory, "--use_existing_db", "--num=600",
                "--benchmarks=readseq,readrandom", f"--reads={count}")
                for count in (2000, 20000))
            self.assertGreater(sum(few.values()), 0)
            self.assertEqual(many, few)

    def test_probes_have_the_system_calls_of_tables(self):
        if run(NEEDS[("gdb",)], "/").returncode != 0:
            print("not run, gdb is not permitted")
            return
        with tempfile.TemporaryDirectory() as directory:
            make = run(f"{DB_BENCH} --db=db --benchmarks=fillrandom,compact "
                       "--num=20000 --write_buffer_size=200000 "
                       "--target_file_size_base=20000", directory)
            self.assertEqual(make.returncode, 0, make.stdout)
            # Few files may be open, so that reads close and open them.
            done = run(
                "gdb -batch -ex 'set breakpoint pending on' "
                "-ex 'break -probe-stap varve:table_open' -ex run "
                "-ex 'printf \"opened %d %d\\n\", $_probe_arg3, "
                "$_probe_arg4' -ex delete "
                "-ex 'break -probe-stap varve:file_close' -ex continue "
                "-ex 'printf \"closed %d\\n\", $_probe_arg1' -ex kill "
                f"--args {DB_BENCH} --db=db --use_existing_db "
                "--benchmarks=readrandom --num=20000 --reads=2000 "
                "--open_files=4 --cache_size=100000", directory)
        # One openat and one pread, and success.
        self.assertRegex(done.stdout, r"(?m)^opened 2 1$")
        closed = re.search(r"^closed (\d+)$", done.stdout, re.MULTILINE)
        self.assertIsNotNone(closed, done.stdout)
        self.assertGreaterEqual(int(closed[1]), 2)


if __name__ == "__main__":
    DB_BENCH = Path(sys.argv.pop(1)).resolve()
    unittest.main()
