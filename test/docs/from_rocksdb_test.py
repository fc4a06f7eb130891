#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Goal: the tables of docs/from_rocksdb.md are complete and true. Method: reads
the options, codes, functions and properties out of the headers of RocksDB 7.8
and of Varve, and compares names and defaults with what the page says of each.

Usage: from_rocksdb_test.py
"""

import re
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROCKSDB = next((path for path in map(Path, (
    "/usr/include/rocksdb", "/usr/local/include/rocksdb")) if path.exists()),
    None)
VARVE = ROOT / "include/varve"
# Defaults that differ in notation only.
NOTATIONS = {"None": "nullptr", "null": "nullptr", "none": "nullptr",
             "not": "nullptr", "empty": "nullptr",
             "kDisableCompressionOption": "nullptr",
             "kSnappyCompression": "kSnappy",
             # Of a build that leaves no compression out.
             "DefaultCompression()": "kSnappy"}


def code_of(text):
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)
    text = re.sub(r"//[^\n]*", "", text)
    return re.sub(r"^\s*#.*$", "", text, flags=re.MULTILINE)


def body_of(text, name):
    """What is between the braces of a struct."""
    begin = re.search(r"\bstruct (?:VARVE_\w+ )?%s\b[^;{]*\{" % name, text).end()
    depth, end = 1, begin
    while depth:
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        end += 1
    return text[begin:end - 1]


def fields_of(path, *structs):
    """{name: default, or None} of the fields of the structs."""
    fields = {}
    for struct in structs:
        body = body_of(code_of(path.read_text("utf-8")), struct)
        # Bodies of functions and enumerations; initializers of one value stay.
        while True:
            shorter = re.sub(r"(\)[^;{}]*|\benum[^;{}]*)\{[^{}]*\}\s*;?", ";",
                             body)
            if shorter == body:
                break
            body = shorter
        for statement in body.split(";"):
            match = re.fullmatch(
                r"(?!using|static|explicit|struct|enum|typedef)"
                r"[\w:<>,&* ]+?[ *&>](\w+)(?: = (.*))?",
                " ".join(statement.split()))
            if match:
                fields[match[1]] = match[2]
        # Defaults that only a comment or a constructor has.
        raw = body_of(path.read_text("utf-8"), struct)
        for name in [name for name, value in fields.items() if value is None]:
            for pattern in (rf"\b{name}\((\w+)\)[,\s]",
                            rf"// (?:Default: (\w+).*\n(?: *//.*\n)*) *"
                            rf"[\w:<>,* ]*[ *]{name};"):
                if match := re.search(pattern, raw):
                    fields[name] = match[1]
    return fields


def value_of(default):
    """A default that can be compared."""
    text = NOTATIONS.get(str(default), str(default))
    text = re.sub(r"\buint64_t\{(\d+)\}", r"\1", text)
    number = re.sub(r"(?<=\d)(ULL|ull)\b", "", text)
    if re.fullmatch(r"[\d\s*<.+-]+", number):
        return eval(number)  # Numbers and operators only.
    return text.rpartition("::")[2]


def tables(text):
    """{name: [(names in the first cell, verdict, remark)]}"""
    found = {}
    for name, body in re.findall(
            r"^<!-- table: ([\w ]+) -->\n((?:\|.*\n)+)", text, re.MULTILINE):
        rows = [[cell.strip() for cell in line.strip("|\n").split("|")]
                for line in body.splitlines()][2:]
        found[name] = [(re.findall(r"`([^`]+)`", row[0]), row[1],
                        row[2] if len(row) > 2 else "") for row in rows]
    return found


class FromRocksDbTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        text = (ROOT / "docs/from_rocksdb.md").read_text("utf-8")
        cls.tables = tables(text)
        cls.headers = {path.name: path.read_text("utf-8")
                       for path in VARVE.glob("*.h")}

    def names(self, table):
        listed = [name for names, _, _ in self.tables[table] for name in names]
        self.assertEqual(sorted(listed), sorted(set(listed)), "named twice")
        return set(listed)

    def check_options(self, table, header, varve):
        theirs = fields_of(ROCKSDB / header[0], header[1])
        for path, struct in header[2:]:
            theirs.update(fields_of(ROCKSDB / path, struct))
        ours = fields_of(VARVE / "options.h", *(
            # It has nothing of its own.
            ("DBOptions", "ColumnFamilyOptions") if varve == "Options"
            else (varve,)))
        self.assertEqual(self.names(table), set(theirs))
        for names, verdict, remark in self.tables[table]:
            for name in names:
                with self.subTest(f"{table} {name}"):
                    self.assertEqual(
                        verdict in ("same", "other default", "other meaning"),
                        name in ours)
                    if verdict == "same":
                        self.assertEqual(value_of(theirs[name]),
                                         value_of(ours[name]))
                    elif verdict == "other default":
                        self.assertNotEqual(value_of(theirs[name]),
                                            value_of(ours[name]))
                    elif verdict == "other name":
                        self.assertIn(re.search(r"`(\w+)`", remark)[1], ours)
                    else:
                        self.assertIn(verdict, ("other meaning", "absent"))

    def test_options(self):
        for table, header, varve in (
                ("DBOptions", ("options.h", "DBOptions"), "Options"),
                ("ColumnFamilyOptions AdvancedColumnFamilyOptions",
                 ("options.h", "ColumnFamilyOptions",
                  ("advanced_options.h", "AdvancedColumnFamilyOptions")),
                 "Options"),
                ("BlockBasedTableOptions", ("table.h", "BlockBasedTableOptions"),
                 "Options"),
                ("ReadOptions", ("options.h", "ReadOptions"), "ReadOptions"),
                ("WriteOptions", ("options.h", "WriteOptions"), "WriteOptions"),
                ("FlushOptions", ("options.h", "FlushOptions"), "FlushOptions"),
                ("CompactRangeOptions", ("options.h", "CompactRangeOptions"),
                 "CompactRangeOptions")):
            self.check_options(table, header, varve)

    def test_status_codes(self):
        def codes(path):
            body = re.search(r"enum (?:class )?Code[^{]*\{(.*?)\}",
                             code_of(path.read_text("utf-8")), re.DOTALL)[1]
            return {name: int(number) for name, number in re.findall(
                r"(k\w+) = (\d+)", body)}

        theirs = codes(ROCKSDB / "status.h")
        ours = codes(VARVE / "status.h")
        theirs.pop("kMaxCode", None)
        self.assertEqual(self.names("status"), set(theirs))
        for names, verdict, _ in self.tables["status"]:
            for name in names:
                self.assertEqual(verdict == "same", name in ours, name)
                if verdict == "same" and theirs[name] <= ours["kIOError"]:
                    self.assertEqual(theirs[name], ours[name], name)
        self.assertLessEqual(set(ours), set(theirs))

    def test_recovery_modes(self):
        body = re.search(r"enum class WALRecoveryMode[^{]*\{(.*?)\}", code_of(
            (ROCKSDB / "options.h").read_text("utf-8")), re.DOTALL)[1]
        self.assertEqual(self.names("recovery"), set(re.findall(
            r"\b(k\w+)", body)))
        for names, verdict, _ in self.tables["recovery"]:
            if verdict != "absent":
                name = verdict.strip("`") if "`" in verdict else names[0]
                self.assertRegex(self.headers["options.h"], rf"\b{name}\b")

    def test_functions(self):
        theirs = "".join((ROCKSDB / name).read_text("utf-8")
                         for name in ("db.h", "utilities/checkpoint.h"))
        ours = self.headers["db.h"]
        for names, verdict, _ in self.tables["functions"]:
            for name in names:
                with self.subTest(name):
                    self.assertRegex(theirs, rf"\b{name}\(")
                    if verdict == "same":
                        self.assertRegex(ours, rf"\b{name}\(")
                    else:
                        self.assertNotRegex(ours, rf"\b{name}\(")
                    if "`" in verdict:
                        other = verdict.strip("`")
                        self.assertRegex(ours, rf"\b{other}\(")

    def test_properties(self):
        text = (ROCKSDB / "db.h").read_text("utf-8")
        text = text[text.index("struct Properties {"):
                    text.index("#endif", text.index("struct Properties {"))]
        theirs = set(re.findall(r'"rocksdb\.([\w-]+)', text))
        ours = set(re.findall(r"\bvarve\.([\w-]+)", self.headers["db.h"]))
        listed = {name.removeprefix("rocksdb.")
                  for name in self.names("properties")}
        self.assertEqual(listed, theirs - ours)

    def test_statistics(self):
        library = next(Path("/usr/lib").rglob("librocksdb.so.7.8*"), None)
        if library is None:
            self.skipTest("no librocksdb.so.7.8")
        theirs = set(name.decode() for name in re.findall(
            rb"\0rocksdb\.([\w.]+)(?=\0)", library.read_bytes()))
        self.assertIn("block.cache.miss", theirs)
        ours = set(re.findall(r'"varve\.([\w.-]+)"', (
            ROOT / "monitoring/statistics_names.cc").read_text("utf-8")))
        listed = {name.removeprefix("varve.")
                  for name in self.names("statistics")}
        self.assertEqual(listed, ours - theirs)


if __name__ == "__main__":
    version = (ROCKSDB / "version.h").read_text("utf-8") if ROCKSDB else ""
    if not re.search(r"ROCKSDB_MAJOR 7\n#define ROCKSDB_MINOR 8\n", version):
        print("the headers of RocksDB 7.8 are not installed")
        sys.exit(77)
    unittest.main()
