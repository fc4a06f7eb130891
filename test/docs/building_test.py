#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Goal: docs/building.md lists every option of the build and every library, and
tools/install_deps installs the libraries. Method: collects the options of all
CMakeLists.txt and the libraries of packaging/varve-libraries.cmake, and compares
them with the page's tables and the tool's list. Each comparison of the page must
first find the fault in a bad page.

usage: building_test.py"""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/building.md").read_text(encoding="utf-8")


def cmake_texts():
    for path in sorted(ROOT.rglob("CMakeLists.txt")):
        if path.relative_to(ROOT).parts[0] != "build":
            yield path.read_text(encoding="utf-8")


def libraries():
    """The names, with Debian's package of each."""
    text = (ROOT / "packaging/varve-libraries.cmake").read_text(encoding="utf-8")
    return dict(re.findall(
        r"^set\(VARVE_LIBRARY_(\w+) \S+ \S+ \S+ (\S+)\)$", text, re.MULTILINE))


def options(texts):
    found = set()
    for text in texts:
        found.update(re.findall(
            r"\b(?:cmake_dependent_)?option\(\s*(\w+)", text))
        found.update(re.findall(
            r"\bset\(\s*(VARVE_\w+)\s[^()]*?\bCACHE\s+(?:STRING|PATH|BOOL|FILEPATH)",
            text))
    return found


def all_options():
    found = options(cmake_texts())
    return found | {f"VARVE_WITH_{name}" for name in libraries()
                    if name != "XXHASH"}


def listed(page):
    """The options in the page's table: {name: default}."""
    return dict(re.findall(r"^\| `(\w+)` \| ([^|]+?) \| [^|]+ \|$", page,
                           re.MULTILINE))


def differences(page, wanted):
    return sorted(wanted ^ set(listed(page)))


class BuildingTest(unittest.TestCase):
    def test_options_are_found(self):
        text = """option(VARVE_A "a" ON)
            cmake_dependent_option(
              VARVE_B "b" ON "VARVE_A" OFF)
            set(VARVE_C "" CACHE PATH
                "c")
            set(VARVE_D "d")"""
        self.assertEqual(options([text]), {"VARVE_A", "VARVE_B", "VARVE_C"})
        self.assertGreaterEqual(len(all_options()), 15)

    def test_page_lists_every_option_and_no_other(self):
        self.assertEqual(differences("| `VARVE_X` | `ON` | x |\n", {"VARVE_Y"}),
                         ["VARVE_X", "VARVE_Y"])
        self.assertEqual(differences(PAGE, all_options()), [])

    def test_page_names_every_package(self):
        self.assertGreaterEqual(len(libraries()), 9)
        for name, package in libraries().items():
            with self.subTest(name):
                self.assertIn(f"| `{package}` |", PAGE)

    def test_install_deps_installs_every_library(self):
        text = (ROOT / "tools/install_deps").read_text(encoding="utf-8")
        installed = re.search(r"^libraries=\(([^)]*)\)", text, re.MULTILINE)[1]
        self.assertEqual(sorted(installed.split()),
                         sorted(libraries().values()))

    def test_page_tells_the_least_versions(self):
        top = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
        least = re.search(r"cmake_minimum_required\(VERSION ([\d.]+)\)", top)[1]
        self.assertIn(f"| the library | CMake {least},", PAGE)
        example = (ROOT / "examples/cpp/CMakeLists.txt").read_text(
            encoding="utf-8")
        least = re.search(r"cmake_minimum_required\(VERSION ([\d.]+)\)",
                          example)[1]
        self.assertIn(f"| CMake {least} or pkg-config |", PAGE)


if __name__ == "__main__":
    unittest.main()
