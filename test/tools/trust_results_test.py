#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Goal: tools/trust_results makes rows from the programs' last lines, and keeps
the rows of runs that were not repeated. Method: give it sample outputs, one of
each form, and look for the words of each pattern in the programs' sources.
"""

import importlib.machinery
import importlib.util
import json
import re
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# {run: (output, the row's seed and result)}
SAMPLES = {
    "crash_test": (
        "crash_test: seed 12\ncrash_test: seed 12: 1000 kills, 124 while "
        "opening; 2885957 writes kept, 162898 lost that might be; 167058 "
        "moments and 2435 checkpoints right; 7 flushes and 3 compactions asked "
        "for; 0 failures\n",
        "| 12 | 1,000 kills, 124 while opening; 2,885,957 writes kept, 162,898 "
        "lost that might be; 167,058 moments and 2,435 checkpoints right; 7 "
        "flushes and 3 compactions asked for; 0 failures |"),
    "kill_test": (
        "TEST_SEED=3\n[==========] 4 tests from 1 test suite ran.\n"
        "[  PASSED  ] 4 tests.\n",
        "| 3 | all writes that returned are there, in 4 modes |"),
    "power_loss": (
        "TEST_SEED=4\npower loss: 10000 cuts among 4 writers: 4564908 writes "
        "kept, 65254 unsynced ones lost\n",
        "| 4 | 10,000 cuts among 4 writers: 4,564,908 writes kept, 65,254 "
        "unsynced ones lost |"),
    "model": (
        "TEST_SEED=5\nmodel: 200 seeds, 20 of them on disk: 2000000 operations, "
        "14425 opens, 7954 power cuts, 81292 unsynced writes lost\n",
        "| 5 | 20 of them on disk: 2,000,000 operations, 14,425 opens, 7,954 "
        "power cuts, 81,292 unsynced writes lost |"),
    "single_fault": (
        "IO error: injected error: 175 runs, one with each operation failing, "
        "158 of which met the error\n"
        "IO error: test: No space left on device, appends cut short: 159 runs, "
        "one with each operation failing, 142 of which met the error\n",
        "| - | 334 runs, one with each operation failing, 300 of which met the "
        "error |"),
    "many_faults": (
        "TEST_SEED=6\nmany faults: 3 seeds: 685 writes, 167 of them refused, 95 "
        "resumes and 3 that failed, 16 power cuts, 15 unsynced writes lost\n",
        "| 6 | 685 writes, 167 of them refused, 95 resumes and 3 that failed, "
        "16 power cuts, 15 unsynced writes lost |"),
    "system_calls": (
        "system calls: 17 kinds, 1396 faults possible, 1248 injected while the "
        "script ran, 733 runs met an error; stride 1, seed 7\n",
        "| 7 | 17 kinds, 1,396 faults possible, 1,248 injected while the "
        "script ran, 733 runs met an error |"),
    "changed_bytes": (
        "TEST_SEED=8\nchanged bytes: 39104 opens with damage: 2288 exact, 5772 "
        "a prefix of the log, 15832 refused by Open, 15212 Corruption at "
        "reads; 4888 repairs; stride 1, seed 8\n",
        "| 8 | 39,104 opens with damage: 2,288 exact, 5,772 a prefix of the "
        "log, 15,832 refused by Open, 15,212 Corruption at reads; 4,888 "
        "repairs |"),
    "read_beside_writer": (
        "TEST_SEED=9\n40 opens, 600 batches, opened by the writer 2 times\n"
        "TEST_SEED=9\n28 opens, 789 batches, opened by the writer 4 times\n",
        "| 9 | 68 opens, 1,389 batches, opened by the writer 6 times |"),
    "follow": (
        "TEST_SEED=9\n70 catch-ups, the slowest took 153 us; 600 batches, 2 "
        "opens, 1 kills; 50 reads\n30 catch-ups, the slowest took 2104 us; 400 "
        "batches, 3 opens, 4 kills; 60 reads\n",
        "| 9 | 100 catch-ups; 1,000 batches, 5 opens, 5 kills; 110 reads |"),
    "planted_bugs": (
        "| WAL sync skipped | `DbFaultTest.X` | 0.1 s |\nplanted_bugs: 15 "
        "planted, 15 caught, the slowest in 14.8 s; 0 survive\n",
        "| - | 15 planted, 15 caught, the slowest in 14.8 s; 0 survive |"),
    "fuzz_block": (
        "#2\tINITED\nDone 112358725 runs in 4440 second(s)\n",
        "| - | 112,358,725 runs |"),
}


def load():
    loader = importlib.machinery.SourceFileLoader(
        "trust_results", str(ROOT / "tools" / "trust_results"))
    spec = importlib.util.spec_from_loader("trust_results", loader)
    module = importlib.util.module_from_spec(spec)
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


def log_of(output, status=0, size=1000):
    return json.dumps({"date": "2026-11-25", "size": size, "seconds": 1234,
                       "exit": status}) + "\n" + output


class TrustResultsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.module = load()
        cls.runs = {run.name: run for run in cls.module.all_runs()}

    def test_rows_of_the_last_lines(self):
        for name, (output, wanted) in SAMPLES.items():
            with self.subTest(name):
                row = self.module.row_of(self.runs[name], log_of(output))
                self.assertTrue(row.startswith(f"| `{name}` | "), row)
                self.assertTrue(row.endswith(
                    wanted + " 2026-11-25 | 1,234 |"), row)

    def test_patterns_are_of_lines_that_programs_print(self):
        source = "".join(
            path.read_text("utf-8") for folder in ("test", "tools")
            for path in (ROOT / folder).rglob("*")
            if path.suffix in (".cc", ".py") and path != Path(__file__))
        for begin in ("crash_test: seed %", "power loss: %d cuts",
                      "model: %d seeds", "runs, one with each operation",
                      "many faults: %d seeds", "faults among threads: %d seeds",
                      "system calls: %d kinds", 'Report("changed bytes")',
                      'Report("cut files")', "planted_bugs: {len(wanted)}",
                      "%d opens, %lld batches", "%lld catch-ups, the slowest",
                      "%d cuts: %lld writes", "%d kills, %d entries",
                      "%d damages of %d histories"):
            self.assertIn(begin, source)

    def test_failures_get_no_row(self):
        output, _ = SAMPLES["crash_test"]
        for log in (log_of(output, status=1), log_of("crash_test: seed 12\n"),
                    log_of("")):
            with self.assertRaises(LookupError):
                self.module.row_of(self.runs["crash_test"], log)
        # A program that has no such test succeeds.
        nothing = log_of("[  PASSED  ] 0 tests.\n")
        with self.assertRaises(LookupError):
            self.module.row_of(self.runs["kill_test"], nothing)

    def test_rows_of_other_runs_stay(self):
        head = "\n".join(self.module.HEAD)
        model = "| `model` | 1 seeds | 1 | old | 2026-01-01 | 1 |"
        crash = "| `crash_test` | 1 kills | 1 | old | 2026-01-01 | 1 |"
        gone = "| `no_such_run` | 1 | 1 | old | 2026-01-01 | 1 |"
        page = f"# Title\n\n{head}\n{model}\n{gone}\n\nEnd.\n"
        after = self.module.page_with(page, self.runs.values(),
                                      {"crash_test": crash})
        self.assertEqual(after, f"# Title\n\n{head}\n{crash}\n{model}\n\nEnd.\n")
        with self.assertRaises(LookupError):
            self.module.page_with("# Title\n", self.runs.values(), {})

    def test_the_page_is_as_the_script_writes_it(self):
        page = self.module.PAGE.read_text("utf-8")
        self.assertEqual(
            self.module.page_with(page, self.runs.values(), {}), page)
        self.assertGreater(len(re.findall(r"^\| `", page, re.MULTILINE)), 10)


if __name__ == "__main__":
    unittest.main()
