#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Goal: varve-latency finds the operations and probes of a process, and says why
it cannot; where bpftrace works, it measures them. Method: run it on the program
varve while that follows a database.

Usage: latency_test.py VARVE [TEST...]
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "tools/varve-latency"
VARVE = ""


class LatencyTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.db = f"--db={place.name}/db"
        subprocess.run([VARVE, "put", self.db, "--create_if_missing", "a", "b"],
                       check=True, capture_output=True)
        self.process = subprocess.Popen([VARVE, "follow", self.db, "--wait"],
                                        stdout=subprocess.PIPE)
        self.process.stdout.readline()  # It runs, and has opened the database.
        self.addCleanup(self.end)

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def run_it(self, *arguments):
        return subprocess.run([PROGRAM, *arguments], text=True, check=False,
                              capture_output=True)

    def test_finds_operations_and_probes(self):
        notes = subprocess.run(["readelf", "-n", VARVE], text=True, check=True,
                               capture_output=True).stdout
        if "Provider: varve" not in notes:
            self.skipTest("built without probes")
        done = self.run_it(f"--pid={self.process.pid}", "--script")
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in ("get", "multiget", "write", "seek", "wal_sync", "stall",
                     "compaction"):
            self.assertIn(f'@times["{name}"', done.stdout)
        page = (ROOT / "docs/probes.md").read_text()
        for probe in re.findall(r"usdt:[^ ]*:varve:([a-z_]+)", done.stdout):
            self.assertIn(f"| `{probe}` |", page)
            self.assertIn(f"Name: {probe}\n", notes)
        for part in "(){}":
            self.assertGreater(done.stdout.count(part), 10)
        self.assertEqual(done.stdout.count("("), done.stdout.count(")"))
        if os.geteuid() != 0 or shutil.which("bpftrace") is None:
            return
        done = self.run_it(f"--pid={self.process.pid}", "--seconds=1")
        if "count" in done.stdout:  # The kernel may lack what bpftrace needs.
            self.assertRegex(done.stdout, r"(?m)^compaction +0 ")

    def test_says_what_is_wrong(self):
        for arguments in ((), ("--pid=x",), ("--seconds=1",), ("--odd",),
                          ("--pid=999999999",), (self.db + "/none",)):
            done = self.run_it(*arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertNotEqual(done.stderr, "")
        self.assertEqual(self.run_it(f"--pid={os.getpid()}").returncode, 2)
        self.assertEqual(self.run_it("--help").returncode, 0)


if __name__ == "__main__":
    VARVE = Path(sys.argv.pop(1)).resolve()
    unittest.main()
