#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Goal: bash, zsh and fish complete the commands, options, values and files of
Varve's programs, as their help texts have them. Method: let each shell that is
installed complete words; of zsh, print what the function passes to it.

Usage: completions_test.py VARVE [TEST...]
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
COMPLETIONS = ROOT / "packaging/completions"
VARVE = Path()


def commands():
    text = subprocess.run([VARVE, "help"], text=True, capture_output=True,
                          check=True).stdout
    return re.findall(r"^  ([a-z-]+) ", text, re.M)


def options(command):
    text = subprocess.run([VARVE, "help", command], text=True,
                          capture_output=True, check=True).stdout
    return {"--" + name for name in re.findall(r"^  --([a-z_]+)", text, re.M)}


class Completions(unittest.TestCase):
    shell = ""

    def setUp(self):
        if self.shell == "" or shutil.which(self.shell) is None:
            self.skipTest(f"no {self.shell}")
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.root = Path(place.name)
        (self.root / "bin").mkdir()
        (self.root / "work" / "folder").mkdir(parents=True)
        (self.root / "work" / "file").write_text("")
        for name, target in (("varve", VARVE),
                             ("varve-leveldb", ROOT / "tools/varve-leveldb"),
                             ("varve-rocksdb", ROOT / "tools/varve-leveldb"),
                             ("varve-lab", ROOT / "packaging/varve-lab")):
            (self.root / "bin" / name).symlink_to(target)
        # The form of gflags.
        bench = self.root / "bin/varve-bench"
        bench.write_text("#!/bin/sh\necho '    -num (entries) type: int64'\n")
        bench.chmod(0o755)

    def run_shell(self, *arguments):
        environment = {**os.environ, "HOME": str(self.root),
                       "PATH": f"{self.root / 'bin'}:{os.environ['PATH']}"}
        done = subprocess.run([self.shell, *arguments], text=True, check=True,
                              capture_output=True, env=environment,
                              cwd=self.root / "work")
        self.assertEqual(done.stderr, "")
        return done.stdout

    def complete(self, *words):
        """Returns the completions of the last word."""
        raise NotImplementedError

    def check_shell(self):
        self.assertEqual(self.complete("varve", ""), {*commands(), "help"})
        self.assertEqual(self.complete("varve", "help", "dump-m"),
                         {"dump-manifest"})
        for command in commands():
            self.assertEqual(
                {word for word in self.complete("varve", command, "--")
                 if word not in ("--help", "--")}, options(command), command)
        self.assertEqual(self.complete("varve", "--db", "x", "compact", "--pr"),
                         {"--progress"})
        self.assertEqual(
            self.complete("varve", "get", "--merge_operator", "byte"),
            {"bytesor", "bytesxor"})
        self.assertIn("varve.sstables",
                      self.complete("varve", "stats", "--property", "varve."))
        self.assertEqual(self.complete("varve", "scan", "--db", "f"), {"folder"})
        self.assertEqual(self.complete("varve", "checkpoint", "f"), {"folder"})
        self.assertEqual(self.complete("varve", "dump-sst", "f"),
                         {"file", "folder"})
        self.assertEqual(self.complete("varve", "get", "f"), set())
        self.assertEqual(self.complete("varve", "families", "c"), {"create"})
        for program in ("varve-leveldb", "varve-rocksdb"):
            self.assertEqual(self.complete(program, "--stats-"),
                             {"--stats-seconds"})
            self.assertEqual(self.complete(program, "--stats", "f"),
                             {"file", "folder"})
        self.assertEqual(self.complete("varve-bench", "--nu"), {"--num"})
        self.assertEqual(self.complete("varve-lab", "se"), {"seeks"})


class BashTest(Completions):
    shell = "bash"

    def complete(self, *words):
        quoted = " ".join(f"'{word}'" for word in words)
        return set(self.run_shell(
            "-c", f"source {COMPLETIONS}/varve.bash; COMP_WORDS=({quoted});"
            " COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _varve;"
            ' printf "%s\\n" "${COMPREPLY[@]}"').split())

    def test_completes(self):
        self.check_shell()
        # Bash makes a word of "=".
        self.assertEqual(self.complete("varve", "scan", "--db", "=", "f"),
                         {"folder"})
        self.assertEqual(self.complete("varve", "--db", "=", "x", "scan", "--pr"),
                         {"--prefix"})


class ZshTest(Completions):
    shell = "zsh"

    def complete(self, *words):
        quoted = " ".join(f"'{word}'" for word in words)
        offered = self.run_shell(
            "-f", "-c",
            'compadd() { shift; print -l -- "$@" }; compset() { : };'
            "_files() { print -l -- *(N) }; _directories() { print -l -- *(N/) };"
            f"words=({quoted}); CURRENT=$#words; source {COMPLETIONS}/_varve")
        # The shell itself drops those that do not begin like the word.
        last = words[-1].rpartition("=")[2]
        return {word for word in offered.split() if word.startswith(last)}

    def test_completes(self):
        self.check_shell()
        self.assertEqual(self.complete("varve", "scan", "--db=f"), {"folder"})


class FishTest(Completions):
    shell = "fish"

    def complete(self, *words):
        lines = self.run_shell(
            "--no-config", "-c", f"source {COMPLETIONS}/varve.fish;"
            f" complete -C '{' '.join(words)}'").splitlines()
        return {line.partition("\t")[0].rstrip("/").partition("=")[0]
                if line.startswith("--") else
                line.partition("\t")[0].rstrip("/") for line in lines}

    def test_completes(self):
        self.check_shell()


if __name__ == "__main__":
    VARVE = Path(sys.argv.pop(1)).resolve()
    unittest.main()
