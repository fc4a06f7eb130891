#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Goal: the shared library exports each public function. Method: doxygen lists
the functions that the headers declare. nm lists those symbols in the static
library, and the shared library must have each of them. If nm does not find a
function in the static library either, it is defined nowhere. To test the test,
symbols are taken out of both lists.

Usage: exports_test.py STATIC_LIBRARY SHARED_LIBRARY
"""

import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# They belong to libraries of their own, which are static.
OTHER_LIBRARIES = re.compile("/varve/testing/")
LIBRARIES = []  # The static and the shared one.


def declared():
    """Returns the qualified names of the functions that need a definition."""
    names = set()
    with tempfile.TemporaryDirectory() as directory:
        settings = (ROOT / "docs" / "Doxyfile").read_text(encoding="utf-8")
        settings += (f"\nOUTPUT_DIRECTORY = {directory}\nGENERATE_HTML = NO\n"
                     "GENERATE_XML = YES\n")
        subprocess.run(["doxygen", "-"], input=settings, cwd=ROOT, text=True,
                       capture_output=True, check=True)
        for path in Path(directory, "xml").glob("*.xml"):
            for member in xml.parse(path).iter("memberdef"):
                names.update(names_of(member))
    return names


def names_of(member):
    """Returns the name of a function that is declared only, or nothing."""
    arguments = member.findtext("argsstring") or ""
    if (member.get("kind") != "function" or member.get("inline") == "yes"
            or member.get("constexpr") == "yes"
            or member.get("virt") == "pure-virtual"
            or re.search(r"= *(default|delete|0)$", arguments)
            or member.find("templateparamlist") is not None
            or OTHER_LIBRARIES.search("/" + member.find("location").get("file"))
            ):
        return []
    return [member.findtext("qualifiedname") or member.findtext("name")]


def defined(library, *options):
    """Returns the kinds of the demangled symbols that a library defines."""
    listed = subprocess.run(
        ["nm", "--demangle", "--defined-only", "--extern-only", *options,
         library], check=True, capture_output=True, text=True).stdout
    found = {}
    for line in listed.splitlines():
        match = re.match(r"[0-9a-f]+ ([A-Z]) (.*?)(@@.*)?$", line)
        if match:
            found[match[2]] = match[1]
    return found


def name_of(symbol):
    """Returns a symbol's name without its arguments."""
    # An operator may have parentheses in its name, but no public one has. The
    # tag says that the type returned is one of C++11.
    return symbol.split("(")[0].replace("[abi:cxx11]", "")


def problems(names, static, shared):
    """Returns what a program cannot link."""
    by_name = {}
    for symbol in static:
        by_name.setdefault(name_of(symbol), []).append(symbol)
    found = []
    for name in sorted(names):
        if name not in by_name:
            found.append(f"defined nowhere: {name}")
        # An inline one, as an overload may be, is in the program itself.
        found += [f"not exported: {symbol}"
                  for symbol in sorted(by_name.get(name, []))
                  if static[symbol] == "T" and symbol not in shared]
    return found


def without(symbols, left_out):
    return {symbol: kind for symbol, kind in symbols.items()
            if symbol not in left_out}


@unittest.skipIf(shutil.which("doxygen") is None,
                 "doxygen is not there; tools/install_deps installs it")
class ExportsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.names = declared()
        cls.static = defined(LIBRARIES[0])
        cls.shared = defined(LIBRARIES[1], "--dynamic")

    def test_each_public_function_is_exported(self):
        self.assertEqual(problems(self.names, self.static, self.shared), [])
        # Of C++ and of C.
        for prefix in ("varve::", "varve_"):
            count = sum(name.startswith(prefix) for name in self.names)
            self.assertGreater(count, 90, prefix)

    def test_each_kind_of_forgotten_function_is_found(self):
        # A function with overloads, a method, a constructor, one of C.
        for name in ("varve::RepairDB", "varve::DB::ListColumnFamilies",
                     "varve::WriteBatch::WriteBatch", "varve_open"):
            symbols = [one for one in self.static if name_of(one) == name]
            self.assertIn(name, self.names)
            self.assertNotEqual(symbols, [], name)
            for symbol in symbols:
                if self.static[symbol] != "T":
                    continue  # It is in the program itself.
                self.assertEqual(
                    problems(self.names, self.static,
                             without(self.shared, [symbol])),
                    [f"not exported: {symbol}"])
            self.assertEqual(
                problems(self.names, without(self.static, symbols),
                         self.shared),
                [f"defined nowhere: {name}"])


if __name__ == "__main__":
    LIBRARIES[:] = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
