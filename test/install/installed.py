# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""What install_test.py and packages_test.py share: their arguments, the version
of the source, and checks of programs that are linked with Varve."""

import os
import re
import shutil
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
# Before a compiler: the installed headers are the same in most runs.
CCACHE = ["ccache"] if shutil.which("ccache") else []


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
    """Builds a project against the Varve in the prefix. `kind` is static or
    shared, or None for a project that says it by itself."""
    if kind is not None:
        shared = "ON" if kind == "shared" else "OFF"
        arguments = (f"-DBUILD_SHARED_LIBS={shared}", *arguments)
    if CCACHE:
        arguments = (*(f"-DCMAKE_{language}_COMPILER_LAUNCHER={CCACHE[0]}"
                       for language in ("C", "CXX")), *arguments)
    run(cmake, "-S", source, "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}",
        "--no-warn-unused-cli", *arguments)
    run(cmake, "--build", build, "--parallel", str(os.cpu_count()))


def build_program(compiler, source, program, module_flags, **options):
    """Builds a program of one source. `module_flags` are of pkg-config."""
    build_object = [*CCACHE, *compiler, "-c", source, "-o", f"{program}.o"]
    run(*build_object, *(f for f in module_flags if f.startswith("-I")),
        **options)
    run(compiler[0], f"{program}.o", "-o", program,
        *(f for f in module_flags if not f.startswith("-I")), **options)


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
