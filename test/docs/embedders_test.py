#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Goal: the tables of docs/embedders.md are true. Method: looks up each name in
Varve's headers, in the class that the table names, and functions of the C
interface in compat/rocksdb/functions.txt. Names that the table calls absent must
not be there, so that a new call gets its row.

Usage: embedders_test.py
"""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Options of tables are options of the family.
SAME_CLASS = {"BlockBasedTableOptions": "ColumnFamilyOptions"}
# Classes of varve/rocksdb/. All others are looked up in Varve's own headers,
# because options of varve/rocksdb/ can be without an effect.
OF_ROCKSDB_H = ("Tickers",)


def code_of(folder):
    text = "".join(path.read_text("utf-8")
                   for path in sorted(folder.glob("*.h")))
    return re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)


def classes_of(text):
    """{name: (bodies, bases)} of the classes and enumerations in a text."""
    found = {}
    for match in re.finditer(
            r"\b(?:class|struct|enum(?: class)?)\s+(?:VARVE_\w+\s+)*(\w+)"
            r"(?:\s+final)?\s*(?::([^{};()]*))?\{", text):
        depth, end = 1, match.end()
        while depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        body, bases = found.get(match[1], ("", []))
        found[match[1]] = (body + text[match.end():end - 1], bases + re.findall(
            r"(\w+)\s*(?=,|$)", (match[2] or "").strip()))
    return found


def names_of(cell):
    """The cell's names. A name without a class has the one before it."""
    owner, names = "", []
    for name in re.findall(r"`([^`]+)`", cell):
        if "::" in name:
            owner = name.rpartition("::")[0]
        elif owner:
            name = f"{owner}::{name}"
        names.append(name)
    return names


class EmbeddersTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        include = ROOT / "include/varve"
        cls.varve = code_of(include)
        cls.classes = classes_of(cls.varve)
        cls.rocksdb_h = classes_of(code_of(include / "rocksdb"))
        cls.properties = set(re.findall(
            r"\bvarve\.([\w-]+)", (include / "db.h").read_text("utf-8")))
        # Rows of the table of functions: their kind, and the rest.
        cls.functions = re.findall(
            r"^(\w+)[^:\n]*:(.*\n(?: {4}.*\n)*)",
            (ROOT / "compat/rocksdb/functions.txt").read_text("utf-8"),
            re.MULTILINE)

    def in_class(self, classes, owner, name):
        body, bases = classes.get(SAME_CLASS.get(owner, owner), ("", []))
        return bool(re.search(rf"\b{name}\b", body)) or any(
            self.in_class(classes, base, name)
            for base in bases if base != owner)

    def has_function(self, name):
        """Whether RocksDB's C interface on Varve has the function."""
        field = name.partition("_set_")[2]
        for kind, text in self.functions:
            if kind in ("done", "object", "enum"):
                if re.search(rf"\b{name}\b", text):
                    return True
            # The setter of a field is made from its row.
            elif kind in ("used", "accepted") and field:
                if re.search(rf"\b{field} = ", text):
                    return True
        return False

    def has(self, name):
        if name.startswith("rocksdb."):
            return name.removeprefix("rocksdb.") in self.properties
        if re.match("(ox)?rocksdb_", name):
            return self.has_function(name)
        *owners, member = name.split("::")
        if not owners:
            return bool(re.search(rf"\b{name}\b", self.varve))
        return self.in_class(
            self.rocksdb_h if owners[0] in OF_ROCKSDB_H else self.classes,
            owners[-1], member)

    def test_names(self):
        page = (ROOT / "docs/embedders.md").read_text("utf-8")
        tables = re.findall(r"^<!-- table: (\w+) -->\n((?:\|.*\n)+)", page,
                            re.MULTILINE)
        self.assertEqual(len(tables), 6)
        for table, body in tables:
            listed = []
            for line in body.splitlines()[2:]:
                calls, verdict, remark = (
                    cell.strip() for cell in line.strip("|").split("|"))
                listed += names_of(calls)
                for name in names_of(calls):
                    with self.subTest(f"{table} {name}"):
                        if verdict in ("same", "absent"):
                            self.assertEqual(verdict == "same", self.has(name))
                        elif not verdict.endswith(f"::{name}`"):
                            self.assertFalse(self.has(name))
                for name in names_of(verdict):
                    with self.subTest(f"{table} {name}"):
                        self.assertTrue(self.has(name))
                if verdict == "absent":
                    self.assertTrue(remark, calls)
                else:
                    self.assertTrue(verdict == "same" or names_of(verdict),
                                    verdict)
            self.assertEqual(sorted(listed), sorted(set(listed)), table)


if __name__ == "__main__":
    unittest.main()
