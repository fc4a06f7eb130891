#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Goal: what one clone has compiled with a precompiled header serves another,
and only as long as the header has the same bytes. Method: .ci/precompile in two
copies of a small project, and a ccache of their own."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

PRECOMPILE = Path(__file__).resolve().parents[2] / ".ci" / "precompile"
PROJECT = """
cmake_minimum_required(VERSION 3.22)
project(small LANGUAGES CXX)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options(-fpch-preprocess)
else()
  add_compile_options("SHELL:-Xclang -fno-pch-timestamp")
endif()
add_executable(small main.cc)
target_precompile_headers(small PRIVATE "${CMAKE_SOURCE_DIR}/all.h")
"""


class PrecompileTest(unittest.TestCase):

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = Path(directory.name)
        self.environment = dict(
            os.environ, CCACHE_DIR=str(self.root / "cache"), CCACHE_DEPEND="1",
            CCACHE_NOHASHDIR="1", CCACHE_PCH_EXTSUM="1",
            CCACHE_SLOPPINESS="pch_defines,time_macros")

    def make_project(self, name, value):
        source = self.root / name
        source.mkdir()
        (source / "CMakeLists.txt").write_text(PROJECT)
        (source / "all.h").write_text(
            f"#include <vector>\ninline int Value() {{ return {value}; }}\n")
        (source / "main.cc").write_text("int main() { return Value(); }\n")
        return source

    def run_in(self, source, *command):
        environment = dict(self.environment, CCACHE_BASEDIR=str(source))
        return subprocess.run(command, cwd=source, env=environment, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True)

    def build(self, source, compiler):
        """Returns what the program returns."""
        for command in (
                ["cmake", "-G", "Ninja", "-B", "build",
                 f"-DCMAKE_CXX_COMPILER={compiler}",
                 "-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"],
                [PRECOMPILE, "build"],
                ["ninja", "-C", "build"]):
            run = self.run_in(source, *command)
            self.assertEqual(run.returncode, 0, run.stdout)
        return self.run_in(source, "build/small").returncode

    def hits(self):
        run = self.run_in(self.root, "ccache", "--print-stats")
        counts = dict(line.split("\t") for line in run.stdout.splitlines())
        return int(counts["direct_cache_hit"]) + int(
            counts["preprocessed_cache_hit"])

    def test_another_directory_finds_the_objects(self):
        # Not with Clang: ccache takes the path in CMake's "-Xclang -include" as
        # it is.
        self.assertEqual(self.build(self.make_project("first", 1), "g++"), 1)
        before = self.hits()
        self.assertEqual(self.build(self.make_project("second", 1), "g++"), 1)
        self.assertGreater(self.hits(), before)

    def test_another_header_is_not_mistaken_for_it(self):
        for compiler in ("g++", "clang++-16"):
            with self.subTest(compiler):
                first = self.make_project(f"{compiler}1", 1)
                self.assertEqual(self.build(first, compiler), 1)
                self.assertEqual(
                    self.build(self.make_project(f"{compiler}2", 2), compiler),
                    2)
                header = first / "all.h"
                header.write_text(header.read_text().replace("1", "3"))
                self.assertEqual(self.build(first, compiler), 3)

    def test_a_build_without_one_is_left_alone(self):
        source = self.root / "none"
        source.mkdir()
        (source / "CMakeLists.txt").write_text(
            PROJECT.replace("target_precompile_headers(small PRIVATE "
                            '"${CMAKE_SOURCE_DIR}/all.h")', ""))
        (source / "main.cc").write_text("int main() { return 7; }\n")
        self.assertEqual(self.build(source, "g++"), 7)
        self.assertEqual(list(source.rglob("*.sum")), [])


if __name__ == "__main__":
    unittest.main()
