#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Goal: no public symbol is without a comment. Method: doxygen reads the
headers through tools/doxygen_filter, by docs/Doxyfile; it must also complain of
each symbol in a header that says nothing of it.

Usage: api_test.py
"""

import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SILENT = """\
// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Of the first type.

namespace varve {

class First {
 public:
  // These two.
  void Covered();
  void AlsoCovered(int argument,
                   int other);

  void NotCovered() {
    // Not the next one's.
    int x = 0;
  }
  int not_covered_either();  // NOLINT

  First(First&& other);
  int behind;  // Said
               // on its line.
};

class Second {
 public:
  void Method();
};

// A struct and
// its fields.
struct Third {
  int field = 0;

  int far_away = 0;
};

enum class Fourth { kValue };

void Function();

}  // namespace varve
"""
MISSING = ["NotCovered", "not_covered_either", "Second", "Method", "far_away",
           "Fourth", "Function"]


def doxygen(directory, *more):
    """What it complains of, and whether it failed."""
    settings = (ROOT / "docs" / "Doxyfile").read_text(encoding="utf-8")
    settings += "\n".join(["", f"OUTPUT_DIRECTORY = {directory}", *more])
    done = subprocess.run(["doxygen", "-"], input=settings, cwd=ROOT,
                          capture_output=True, text=True, check=False)
    return done.stderr + done.stdout, done.returncode != 0


@unittest.skipIf(shutil.which("doxygen") is None,
                 "doxygen is not there; tools/install_deps installs it")
class ApiTest(unittest.TestCase):
    def test_every_public_symbol_has_a_comment(self):
        with tempfile.TemporaryDirectory() as directory:
            said, failed = doxygen(directory, "GENERATE_HTML = NO",
                                   "GENERATE_XML = YES")
        self.assertEqual((said.strip(), failed), ("", False))

    def test_what_is_not_said_is_missed(self):
        with tempfile.TemporaryDirectory() as directory:
            header = Path(directory) / "silent.h"
            header.write_text(SILENT, encoding="utf-8")
            said, failed = doxygen(directory, f"INPUT = {header}",
                                   "GENERATE_HTML = NO", "GENERATE_XML = YES")
        self.assertTrue(failed)
        lines = [line for line in said.splitlines()
                 if "is not documented" in line]
        for name in MISSING:
            self.assertTrue(any(name in line for line in lines), name + said)
        self.assertEqual(len(lines), len(MISSING), said)


if __name__ == "__main__":
    unittest.main()
