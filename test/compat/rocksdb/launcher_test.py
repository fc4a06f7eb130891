#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Goal: an operator runs a program on Varve's librocksdb.so by varve-rocksdb, and
sees what it does. Method: the launcher runs a program with each of its options;
what the two launchers share is tested by compat/leveldb/observe_test.cc.

Usage: launcher_test.py LIBRARY PROGRAM
"""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

LAUNCHER = Path(__file__).resolve().parents[3] / "tools/varve-rocksdb"
FOLDER = Path(sys.argv[1]).parent
PROGRAM = sys.argv[2]


class LauncherTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)
        self.db = self.directory / "db"

    def launch(self, *words, expected=0, **variables):
        environment = {**os.environ, "VARVE_ROCKSDB_DIRECTORY": str(FOLDER),
                       **variables}
        environment.pop("LD_LIBRARY_PATH", None)
        done = subprocess.run(
            [LAUNCHER, *map(str, words)], env=environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        self.assertEqual(done.returncode, expected, done.stdout)
        return done.stdout

    def test_check(self):
        self.assertIn(f"loads {FOLDER}", self.launch("--check", PROGRAM))
        self.assertIn("does not link RocksDB's shared library",
                      self.launch("--check", "/bin/sh", expected=1))
        self.assertIn("no option --to-leveldb", self.launch(
            "--to-leveldb", "a", "b", expected=2))

    def test_check_names_missing_functions(self):
        """A program of RocksDB's C++ classes cannot run."""
        source = self.directory / "module.c"
        source.write_text(
            "void _ZN7rocksdb2DBE(void); void rocksdb_free(void*);"
            "void F(void) { _ZN7rocksdb2DBE(); rocksdb_free(0); }")
        program = self.directory / "module.so"
        subprocess.run(
            ["cc", "-shared", "-fPIC", source, "-o", program, f"-L{FOLDER}",
             "-lrocksdb"], check=True)
        self.assertIn("_ZN7rocksdb2DBE",
                      self.launch("--check", program, expected=1))

    def test_statistics(self):
        stats = self.directory / "stats"
        self.assertEqual(self.launch(f"--stats={stats}", PROGRAM, "write",
                                     self.db, 123), "123 entries\n")
        self.assertIn(f'varve_number_keys_written_total{{db="{self.db}"}} 123\n',
                      stats.read_text())

    def test_trace(self):
        trace = self.directory / "trace"
        self.launch(f"--trace={trace}", PROGRAM, "write", self.db, 10)
        self.assertIn('{"name":"DB::', trace.read_text())
        self.assertTrue(trace.read_text().endswith("\n]}\n"))

    def test_options_come_from_a_file(self):
        options = self.directory / "options"
        options.write_text("# One cache.\nblock_cache = 16M\n"
                           "compression=none\n")
        self.launch(f"--options={options}", PROGRAM, "write", self.db, 10)
        options.write_text("compression=none\nno_such_option=1\n")
        self.assertIn(f"{options}, line 2: ", self.launch(
            f"--options={options}", PROGRAM, "count", self.db, expected=1))
        self.assertIn("VARVE_ROCKSDB_STATS_SECONDS", self.launch(
            PROGRAM, "count", self.db, expected=1,
            VARVE_ROCKSDB_STATS_SECONDS="x"))

    def test_options_reach_families_that_the_program_creates(self):
        options = self.directory / "options"
        options.write_text("write_buffer_size = 64K\n")
        self.launch(f"--options={options}", PROGRAM, "family", self.db, 20000)
        self.assertTrue(list(self.db.glob("*.sst")))

if __name__ == "__main__":
    del sys.argv[1:3]
    unittest.main()
