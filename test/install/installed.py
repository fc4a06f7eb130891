# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""What install_test.py and packages_test.py share: their arguments, the version
of the source, and checks of programs that are linked with Varve."""

import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

SOURCE, BUILD, WORK = (Path(a).resolve() for a in sys.argv[1:4])
FULL_VERSION = ".".join(re.findall(
    r"^#define VARVE_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)$",
    (SOURCE / "include/varve/version.h").read_text(), re.MULTILINE))
# What the soname ends in, and the node of varve.map: "0.1" of "0.1.0".
VERSION = FULL_VERSION.rpartition(".")[0]
SONAME = f"libvarve.so.{VERSION}"


def run(*command, **options):
    """What the command prints. Its errors end the test, and are shown."""
    done = subprocess.run([str(c) for c in command], text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          **options)
    if done.returncode != 0:
        raise AssertionError(f"{command} ended with {done.returncode}:\n"
                             f"{done.stdout}")
    return done.stdout


def needs_libvarve(program):
    return SONAME in run("readelf", "-d", program)


def build_by_cmake(source, build, prefix, kind, *arguments, cmake="cmake"):
    """Builds a project against the Varve in the prefix, static or shared."""
    run(cmake, "-S", source, "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}",
        f"-DBUILD_SHARED_LIBS={'ON' if kind == 'shared' else 'OFF'}", *arguments)
    run(cmake, "--build", build)


class ExampleCase(unittest.TestCase):
    def check_example(self, program, shared, library_dir,
                      ending="2024 silt\n2025 clay\n"):
        """A program of examples/ has the kind of library, and works."""
        self.assertEqual(needs_libvarve(program), shared)
        environment = dict(os.environ)
        if shared:
            environment["LD_LIBRARY_PATH"] = str(library_dir)
        out = run(program, f"{program}-db", env=environment)
        self.assertTrue(out.endswith(ending), out)
