#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Goal: tools/peers/build says what it lacks, and refuses an adapter that does
other work than db_bench, and the open loop of the adapters is db_bench's. Method:
run it with programs in place of go and cargo, and run the unit tests of the open
loop with the real ones, if they are there. The engines themselves come from
registries and are not built here.

Usage: peers_test.py
"""

import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

PEERS = Path(__file__).resolve().parents[2] / "tools" / "peers"
# What the script itself uses.
TOOLS = ["bash", "cat", "chmod", "cp", "cut", "diff", "dirname", "head",
         "mkdir", "paste", "printf", "rm", "sed", "sort", "uname", "uniq"]
GO = """#!/usr/bin/env bash
if [[ $1 == env ]]; then echo go@version@; exit; fi
while [[ $1 != -o ]]; do shift; done
printf '#!/usr/bin/env bash\\ncat @work@\\n' >"$2"
chmod +x "$2"
"""


def find_program(name, directory):
    return shutil.which(name) or shutil.which(name, path=directory)


class OpenLoopTest(unittest.TestCase):
    def run_tests(self, *command):
        with tempfile.TemporaryDirectory() as directory:
            done = subprocess.run(
                [*command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                text=True, check=False, cwd=directory,
                env={**os.environ, "GOTOOLCHAIN": "local", "GOPROXY": "off",
                     "GOFLAGS": "-mod=readonly -buildvcs=false"})
            self.assertEqual(done.returncode, 0, done.stdout)
            return done.stdout

    def test_go(self):
        go = find_program("go", "/usr/local/go/bin")
        version = subprocess.run(
            [go, "env", "GOVERSION"], capture_output=True, text=True,
            check=False, env={**os.environ, "GOTOOLCHAIN": "local"}
        ).stdout if go else ""
        minor = re.match(r"go1\.(\d+)", version)
        if not minor or int(minor[1]) < 25:
            self.skipTest("no go of version 1.25")
        text = self.run_tests(go, "test", "-C", str(PEERS / "go"), "-v",
                              "./bench")
        self.assertEqual(text.count("--- PASS"), 4, text)

    def test_rust(self):
        rustc = find_program("rustc", str(Path.home() / ".cargo/bin"))
        if not rustc:
            self.skipTest("no rustc")
        with tempfile.TemporaryDirectory() as directory:
            program = f"{directory}/open_loop"
            self.run_tests(rustc, "--edition=2021", "--test", "-o", program,
                           str(PEERS / "rust/bench/src/open_loop.rs"))
            self.assertIn("4 passed", self.run_tests(program))


class PeersTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.root = Path(place.name)
        shutil.copytree(PEERS, self.root / "tools" / "peers")
        self.programs = self.root / "bin"
        self.programs.mkdir()
        for name in TOOLS:
            path = shutil.which(name)
            if path:
                (self.programs / name).symlink_to(path)

    def add_go(self, version, work):
        path = self.programs / "go"
        path.write_text(GO.replace("@version@", version)
                        .replace("@work@", str(work)), encoding="utf-8")
        path.chmod(0o755)

    def build(self, *names):
        return subprocess.run(
            [shutil.which("bash"), str(self.root / "tools/peers/build"),
             *names], capture_output=True, text=True, check=False,
            env={**os.environ, "PATH": str(self.programs)})

    def test_says_what_is_missing(self):
        done = self.build()
        self.assertEqual(done.returncode, 77, done.stderr)
        for name in ("libmdbx", "fjall", "redb"):
            self.assertIn(f"{name} needs cargo of version 1.92", done.stderr)
        for name in ("pebble", "bbolt", "badger"):
            self.assertIn(f"{name} needs go of version 1.25", done.stderr)
        self.assertIn("rocksdb_release needs mvn", done.stderr)
        self.assertIn("Debian 12's golang-go and cargo are too old",
                      done.stderr)

    def test_says_what_is_too_old(self):
        self.add_go("1.19.8", "/dev/null")
        done = self.build("pebble")
        self.assertEqual(done.returncode, 77, done.stderr)
        self.assertIn("this one is 1.19.8", done.stderr)

    def test_builds_the_others(self):
        self.add_go("1.25.1", self.root / "tools/peers/work.txt")
        done = self.build("redb", "bbolt")
        self.assertEqual(done.returncode, 77, done.stderr)
        self.assertTrue((self.root / "build/peers/bbolt").exists())
        self.assertFalse((self.root / "build/peers/redb").exists())
        done = self.build("bbolt")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_builds_the_library(self):
        self.add_go("1.25.1", "/dev/null")
        done = self.build("pebble_library")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(
            (self.root / "build/peers/libpebble_library.so").exists())

    def test_refuses_other_work(self):
        self.add_go("1.26", "/dev/null")
        done = self.build("badger")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("does not do the work", done.stderr)
        self.assertFalse((self.root / "build/peers/badger").exists())

    def test_refuses_an_unknown_name(self):
        done = self.build("leveldb")
        self.assertEqual(done.returncode, 2)
        self.assertIn("build [NAME...]", done.stderr)

    def test_pins_versions(self):
        for manifest in PEERS.glob("rust/*/Cargo.toml"):
            text = manifest.read_text(encoding="utf-8")
            dependencies = text.partition("[dependencies]\n")[2]
            for line in dependencies.splitlines():
                self.assertRegex(line, r'= "=\d|path = ')
        self.assertFalse(list(PEERS.rglob("Cargo.lock")))
        self.assertFalse(list(PEERS.rglob("target")))


if __name__ == "__main__":
    unittest.main()
