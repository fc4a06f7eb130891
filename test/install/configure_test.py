#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Goal: what docs/building.md says of options, of libraries that are left out or
missing, and of parent projects. Method: configures Varve and small parents of
it, compiles nothing, and looks at the messages, the cache and the list of
compiler commands.

usage: configure_test.py SOURCE_DIR WORK_DIR"""

import json
import os
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

SOURCE, WORK = (Path(a).resolve() for a in sys.argv[1:3])
LIBRARIES = ("SNAPPY", "LZ4", "ZSTD", "ZLIB", "BZIP2", "ISAL", "UTF8PROC",
             "URING")
LIBRARY_ALONE = ("-DVARVE_BUILD_TOOLS=OFF", "-DVARVE_BUILD_TESTS=OFF")
# The names that CMake's own modules give to cache entries.
OF_CMAKE = re.compile(
    r"CMAKE_|_CMAKE|PKG_CONFIG_|pkgcfg_lib_VARVE_|FIND_PACKAGE_MESSAGE_DETAILS_|"
    r"__pkg_config_(arguments|checked)_VARVE_|prefix_result$")


def configure(source, name, *arguments, **environment):
    """(exit code, output) of a configure step in a new folder of that name."""
    folder = WORK / name
    shutil.rmtree(folder, ignore_errors=True)
    done = subprocess.run(
        ["cmake", "-S", source, "-B", folder, *arguments], text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, **environment})
    # CMake breaks the lines of a message.
    return done.returncode, re.sub(r"\s+", " ", done.stdout)


def compiled(name):
    """The files that a configured build would compile, with the commands."""
    text = (WORK / name / "compile_commands.json").read_text()
    return {entry["file"]: entry["command"] for entry in json.loads(text)}


def cached(name):
    """The names in the cache of a configured build."""
    text = (WORK / name / "CMakeCache.txt").read_text()
    return set(re.findall(r"^([^#/\s][^:]*):\w+=", text, re.MULTILINE))


def make_parent(name, languages, text=""):
    """A project of that name that includes Varve."""
    folder = WORK / f"{name}-source"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "CMakeLists.txt").write_text(f"""
cmake_minimum_required(VERSION 3.22)
project({name} LANGUAGES {languages})
{text}
""")
    return folder


class ConfigureTest(unittest.TestCase):
    def test_frame_pointers_are_kept_on_request(self):
        for name, choice in (("plain", "OFF"), ("framed", "ON")):
            code, output = configure(
                SOURCE, name, *LIBRARY_ALONE,
                "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
                f"-DVARVE_FRAME_POINTERS={choice}")
            self.assertEqual(code, 0, output)
            kept = ["-fno-omit-frame-pointer" in command and
                    "-mno-omit-leaf-frame-pointer" in command
                    for command in compiled(name).values()]
            self.assertEqual(set(kept), {choice == "ON"})

    def test_everything_can_be_left_out(self):
        code, output = configure(SOURCE, "minimal", "--preset", "minimal")
        self.assertEqual(code, 0, output)
        self.assertEqual(output.count("Varve: without"), len(LIBRARIES))
        self.assertIn("Varve: without batched reads by io_uring", output)
        files = compiled("minimal")
        names = {file.removeprefix(f"{SOURCE}/") for file in files}
        for name in ("codec_left_out", "crc32c_plain",
                     "unicode_fold_left_out"):
            self.assertIn(f"util/bytes/{name}.cc", names)
        for name in ("codec_snappy", "codec_lz4", "codec_zlib", "crc32c_isal",
                     "unicode_fold"):
            self.assertNotIn(f"util/bytes/{name}.cc", names)
        self.assertIn("env/io_ring_left_out.cc", names)
        self.assertNotIn("env/io_ring.cc", names)
        for name in LIBRARIES[:5]:
            self.assertIn(f"-DVARVE_WITHOUT_{name}",
                          files[str(SOURCE / "util/bytes/codec_left_out.cc")])
        # The tests too, if there is GoogleTest.
        if "test/util/bytes/hash_test.cc" in names:
            self.assertIn("test/util/bytes/left_out_test.cc", names)
            self.assertIn("test/db/options/compression_left_out_test.cc", names)
            self.assertNotIn("test/util/bytes/compression_test.cc", names)
            self.assertNotIn("test/testing/env/ring_faults_setup.cc", names)

    def test_one_can_be_left_out(self):
        code, output = configure(SOURCE, "one", "-DVARVE_WITH_LZ4=OFF",
                                 *LIBRARY_ALONE)
        self.assertEqual(code, 0, output)
        self.assertIn("Varve: without LZ4", output)
        self.assertIn("Varve: with Snappy", output)
        command = compiled("one")[str(SOURCE / "util/bytes/codec_left_out.cc")]
        self.assertEqual(re.findall(r"VARVE_WITHOUT_\w+", command),
                         ["VARVE_WITHOUT_LZ4"])

    def test_missing_libraries(self):
        """AUTO does without, ON names Debian's package."""
        modules = WORK / "pkgconfig"
        shutil.rmtree(modules, ignore_errors=True)
        modules.mkdir(parents=True)
        nowhere = ("-DCMAKE_FIND_ROOT_PATH=/nowhere",
                   "-DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY",
                   "-DCMAKE_FIND_ROOT_PATH_MODE_LIBRARY=ONLY", *LIBRARY_ALONE)
        code, output = configure(SOURCE, "no-xxhash", *nowhere,
                                 PKG_CONFIG_LIBDIR=str(modules))
        self.assertNotEqual(code, 0)
        self.assertIn("Debian has it in libxxhash-dev", output)
        (modules / "libxxhash.pc").write_text(
            "Name: xxhash\nDescription: x\nVersion: 0.8\n")
        code, output = configure(SOURCE, "auto", *nowhere,
                                 PKG_CONFIG_LIBDIR=str(modules))
        self.assertEqual(code, 0, output)
        self.assertEqual(output.count("Varve: without"), len(LIBRARIES))
        code, output = configure(SOURCE, "missing", *nowhere,
                                 "-DVARVE_WITH_BZIP2=ON",
                                 PKG_CONFIG_LIBDIR=str(modules))
        self.assertNotEqual(code, 0)
        self.assertIn("VARVE_WITH_BZIP2 is ON, and bzlib.h", output)
        self.assertIn("Debian has it in libbz2-dev", output)

    def test_benches_take_another_rocksdb(self):
        root = WORK / "rocksdb"
        (root / "include/rocksdb").mkdir(parents=True, exist_ok=True)
        (root / "lib").mkdir(exist_ok=True)
        (root / "include/rocksdb/db.h").touch()
        (root / "lib/librocksdb.a").touch()
        code, output = configure(
            SOURCE, "another-rocksdb", "-DVARVE_BUILD_TESTS=OFF",
            "-DVARVE_BUILD_TOOLS=ON", f"-DVARVE_ROCKSDB_ROOT={root}")
        self.assertEqual(code, 0, output)
        command = compiled("another-rocksdb")[
            str(SOURCE / "tools/db_bench/db_bench_environment.cc")]
        self.assertIn(f"-isystem {root}/include ", command)

    def test_other_values_are_refused(self):
        code, output = configure(SOURCE, "value", "-DVARVE_WITH_ZSTD=maybe",
                                 *LIBRARY_ALONE)
        self.assertNotEqual(code, 0)
        self.assertIn("VARVE_WITH_ZSTD is 'maybe': use AUTO, ON or OFF", output)

    def test_parent_without_cpp_is_told(self):
        parent = make_parent("onlyc", "C", f'add_subdirectory("{SOURCE}" varve)')
        code, output = configure(parent, "onlyc")
        self.assertNotEqual(code, 0)
        self.assertIn("project(... LANGUAGES C CXX)", output)

    def test_parent_keeps_its_cache_and_may_ask_for_unity_builds(self):
        empty = make_parent("empty", "C CXX")
        parent = make_parent("parent", "C CXX", f"""
set(VARVE_WITH_LZ4 OFF)
add_subdirectory("{SOURCE}" varve)
file(WRITE "${{CMAKE_BINARY_DIR}}/a.cc" "int a() {{ return 1; }}")
file(WRITE "${{CMAKE_BINARY_DIR}}/b.cc" "int main() {{ return 0; }}")
add_executable(app "${{CMAKE_BINARY_DIR}}/a.cc" "${{CMAKE_BINARY_DIR}}/b.cc")
target_link_libraries(app PRIVATE varve::varve)
get_target_property(kind varve TYPE)
message(STATUS "varve is ${{kind}}")""")
        flags = ("-DCMAKE_UNITY_BUILD=ON", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON")
        self.assertEqual(configure(empty, "empty", *flags)[0], 0)
        code, output = configure(parent, "parent", *flags)
        self.assertEqual(code, 0, output)
        self.assertIn("varve is STATIC_LIBRARY", output)
        self.assertIn("Varve: without LZ4", output)
        added = cached("parent") - cached("empty")
        self.assertIn("VARVE_WITH_SNAPPY", added)
        self.assertEqual(sorted(
            name for name in added
            if not name.upper().startswith(("VARVE_", "PARENT_")) and
            not OF_CMAKE.match(name)), [])
        files = compiled("parent")
        self.assertIn(str(SOURCE / "db/engine/db_impl.cc"), files)
        unity = [file for file in files if "unity_" in file]
        self.assertEqual(len(unity), 1, unity)
        self.assertIn("app.dir", unity[0])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
