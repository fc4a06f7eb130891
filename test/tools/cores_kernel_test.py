#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Goal: the example of docs/cores.md, a kernel of one's own, is right. Method:
compile the page's C file by the page's command, and run cores_bench as it says.
Simulations can be repeated, so that the page has to have the very lines.

Usage: cores_kernel_test.py CORES_BENCH
"""

import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CORES_BENCH = Path()
PAGE = (ROOT / "docs" / "cores.md").read_text(encoding="utf-8")
FENCE = re.compile(r"^```c?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def block_with(text):
    return next(block for block in FENCE.findall(PAGE) if text in block)


def run(command, directory):
    return subprocess.run(command, shell=True, cwd=directory, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          check=False)


class KernelTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = Path(place.name)
        (self.place / "tools").symlink_to(ROOT / "tools")
        (self.place / "build").mkdir()
        (self.place / "build" / "release").symlink_to(CORES_BENCH.parent)

    def compile(self, text):
        (self.place / "spin.c").write_text(text, encoding="utf-8")
        command = re.search(r"^\$ (cc .*)$", PAGE, re.MULTILINE)[1]
        done = run(f"{command} -Wall -Wextra -Werror", self.place)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_page_shows_what_the_example_prints(self):
        self.compile(block_with("varve_kernels_1"))
        command, *expected = block_with("--kernel=").splitlines()
        done = run(command.removeprefix("$ "), self.place)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(done.stdout.splitlines(), expected)

    def test_a_kernel_that_waits_forever_is_an_error(self):
        self.compile("""
#include "tools/cores_bench/cores_kernel.h"
static void Wait(varve_core* core) { core->wait_while(core, 0, 0); }
const varve_kernel varve_kernels_1[] = {{"wait", Wait}, {NULL, NULL}};
""")
        done = run("build/release/cores_bench --kernel=spin.so --cores=2",
                   self.place)
        self.assertEqual(done.returncode, 1)
        self.assertIn("the kernel waits for something that never comes",
                      done.stdout)

    def test_a_file_without_kernels_is_an_error(self):
        self.compile("int varve_kernels;\n")
        for name in ("spin.so", "none.so"):
            done = run(f"build/release/cores_bench --kernel={name}", self.place)
            self.assertEqual(done.returncode, 1)
            self.assertIn("cores_bench: --kernel: ", done.stdout)


if __name__ == "__main__":
    CORES_BENCH = Path(sys.argv.pop(1)).resolve()
    unittest.main()
