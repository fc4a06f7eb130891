#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Goal: a machine that Varve does not run on is refused by a sentence, not by
an assertion somewhere. Method: compile the header that all public headers
include for such machines, in earnest where the compiler can, and else with the
compiler's own macros changed.

Usage: platform_test.py C_COMPILER INCLUDE_DIR
"""

import subprocess
import sys
import unittest

COMPILER, INCLUDE = sys.argv[1:3]
SENTENCE = "Varve needs Linux on a 64-bit little-endian machine."


def compile_header(*flags):
    return subprocess.run(
        [COMPILER, *flags, f"-I{INCLUDE}", "-x", "c", "-fsyntax-only", "-"],
        input="#include <varve/export.h>\n", capture_output=True, text=True)


class PlatformTest(unittest.TestCase):
    def test_this_machine_is_supported(self):
        run = compile_header()
        self.assertEqual(run.returncode, 0, run.stderr)

    def test_others_are_named(self):
        machines = {
            "32 bits": ["-U__SIZEOF_POINTER__", "-D__SIZEOF_POINTER__=4"],
            "big-endian": ["-U__BYTE_ORDER__",
                           "-D__BYTE_ORDER__=__ORDER_BIG_ENDIAN__"],
            "not Linux": ["-U__linux__"],
        }
        if compile_header("-dM", "-E").stdout.find("__x86_64__") >= 0:
            machines["i686"] = ["-m32"]
            machines["x32"] = ["-mx32"]
        for machine, flags in machines.items():
            with self.subTest(machine):
                run = compile_header(*flags)
                self.assertNotEqual(run.returncode, 0)
                self.assertIn(SENTENCE, run.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
