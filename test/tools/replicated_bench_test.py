#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Goal: examples/replicated/bench measures each load on each system, and writes its
section of a results page and no other. Method: PageTest gives known rates to the
script's second half, bench_page.py. RunTest runs the whole with few requests, which
needs Go and redis-tools, so that only .ci/nightly does it.

Usage: replicated_bench_test.py [PageTest | RunTest]
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STORE = ROOT / "examples/replicated"
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "test/docs"))
import results_test  # noqa: E402  pylint: disable=wrong-import-position

PAGE = """# Results: a

| figures | date | commit | machine | load |
|---|---|---|---|---|
| faults | 2026-11-25 | `0123abcd` | 2 processors | not recorded |
| comparison | 2026-11-25 | `0123abcd` | old row | not recorded |

Measured code: `examples/replicated/`.

## Faults

Text of faults.

## Old heading (comparison)

Old text.

## Last

Last text.
"""
RATES = {("varve", "SET, -P 1 -c 1"): (200, 220, 210),
         ("pebble", "SET, -P 1 -c 1"): (100, 120, 110),
         ("redis", "SET, -P 1 -c 1"): (205, 300, 310),
         ("varve", "SET, -P 1000 -c 1"): (40000, 41000, 42000),
         ("pebble", "SET, -P 1000 -c 1"): (40000, 41000, 42000),
         ("redis", "SET, -P 1000 -c 1"): (80000, 90000, 100000),
         ("before", "SET, -P 1000 -c 1"): (400, 500, 450)}


class BenchTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)
        self.page = self.directory / "replicated.md"
        self.page.write_text(PAGE, encoding="utf-8")

    def expect_page(self):
        """The section and its row have come in place of the old ones, and nothing
        else has changed. Returns the section."""
        text = self.page.read_text(encoding="utf-8")
        self.assertEqual(results_test.header_faults(text), [])
        row, = re.findall(r"^\| comparison \|.*", text, re.M)
        self.assertNotIn("old row", row)
        self.assertIn(" at the beginning |", row)
        section, = re.findall(r"^## [^\n]* \(comparison\)\n.*?(?=^## )", text,
                              re.M | re.S)
        old, = re.findall(r"^## Old.*?(?=^## )", PAGE, re.M | re.S)
        self.assertEqual(
            re.sub(r"(?m)^\| comparison .*", "", text.replace(section, "")),
            re.sub(r"(?m)^\| comparison .*", "", PAGE.replace(old, "")))
        words = " ".join(section.split())
        self.assertIn("Redis is one process here, without replicas", words)
        self.assertIn("share the machine and its disk with the client", words)
        return section


class PageTest(BenchTest):
    def write(self, *options):
        results = self.directory / "bench.txt"
        results.write_text("".join(
            f"{system}\t{load}\t{rates[number]}\n" for number in range(3)
            for (system, load), rates in RATES.items()), encoding="utf-8")
        subprocess.run(
            [sys.executable, STORE / "bench_page.py", results, "--load=0.1",
             "--sync-ms=2.50", "--redis=7.0.15", "--keys=100000", "--bytes=100",
             f"--into={self.directory}", "--command=bench --rounds=3 ", *options],
            check=True, capture_output=True)
        return self.page.read_text(encoding="utf-8")

    def test_writes_its_section(self):
        self.write()
        section = self.expect_page()
        self.assertIn("medians of 3 rounds", " ".join(section.split()))
        self.assertIn("| SET, -P 1 -c 1 | 210 (200 to 220) | 110 (100 to 120) | 1.91 "
                      "| 300 (205 to 310) | no difference seen |", section)
        self.assertIn("| SET, -P 1000 -c 1 | 41.0 k (40.0 to 42.0) | 41.0 k (40.0 to "
                      "42.0) | no difference seen | 90.0 k (80.0 to 100.0) | 0.46 |",
                      section)
        self.assertIn("```\nbench --rounds=3\n```", section)
        self.assertNotIn("older node", section)

    def test_compares_an_older_node(self):
        self.write("--before=0123abcd0123")
        section = self.expect_page()
        table = section.partition("`0123abcd0123`")[2]
        self.assertIn("| SET, -P 1000 -c 1 | 41.0 k (40.0 to 42.0) | 450 (400 to 500) "
                      "| 91.11 |", table)
        self.assertNotIn("-P 1 ", table)

    def test_writes_it_again(self):
        first = self.write("--before=0123abcd0123")
        self.assertNotEqual(self.write(), first)
        self.assertEqual(self.write("--before=0123abcd0123"), first)

    def test_another_section_comes_last(self):
        before = self.write()
        head, found, _ = self.write("--secure=yes").partition(
            "\n## Varve, Pebble and Redis (comparison with TLS)")
        self.assertNotEqual(found, "")
        self.assertEqual(re.sub(r"(?m)^\| comparison with TLS .*\n", "", head), before)


class RunTest(BenchTest):
    def test_measures_each_load(self):
        environment = dict(os.environ)
        if os.access("/dev/shm", os.W_OK):
            environment["TMPDIR"] = "/dev/shm"
        for secure in ([], ["--secure", "--systems=varve,redis"]):
            done = subprocess.run(
                [STORE / "bench", "--rounds=1", "--requests=5000", "--keys=200",
                 "--pipelines=1,16", "--connections=1,20", "--values=100,10000",
                 "--before=HEAD", *secure, f"--into={self.directory}"],
                capture_output=True, text=True, check=False, env=environment)
            if done.returncode == 77:
                self.skipTest(done.stderr)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            if secure:
                continue
            section = self.expect_page()
            for load in ("SET by redis-cli --pipe", "SET, -P 1 -c 1", "GET, -P 1 -c 20",
                         "SET, -P 16 -c 20", "MSET of 10 keys, -P 100 -c 1",
                         "SET of 10,000 bytes, -P 1 -c 10",
                         "GET of 10,000 bytes, -P 1 -c 10"):
                row, = re.findall(rf"^\| {load} \|.*", section.partition("Some loads")[0],
                                  re.M)
                self.assertEqual(len(results_test.split(row)), 6, row)
            self.assertEqual(len(re.findall(r"^\| SET by.*", section, re.M)), 2)

    def test_refuses_unknown_options(self):
        done = subprocess.run([STORE / "bench", "--round=1"], capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--rounds=5", done.stderr)
        self.assertIn("redis-benchmark.\n", done.stderr)


if __name__ == "__main__":
    unittest.main()
