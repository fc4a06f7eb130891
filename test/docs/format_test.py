#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Goal: docs/format.md is what the bytes are. Method: makes databases through
the C interface of the shared library, and decodes them by format_decoder.py,
which takes its constants from the tables of the page. A page with another
constant must fail.

Usage: format_test.py LIBRARY VARVE_TOOL
"""

import ctypes
import re
import subprocess
import sys
import tempfile
import unicodedata
import unittest
from pathlib import Path

import format_decoder as decoder
from format_decoder import Database, Page

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = TOOL = None
FILTER = b"these bytes are a filter"


class Varve:
    """Varve's C interface."""

    def __init__(self, library):
        self.c = ctypes.CDLL(str(library))
        for name in ("options_create", "open", "writeoptions_create",
                     "flushoptions_create", "filterpolicy_create",
                     "catalog_open", "create_column_family"):
            getattr(self.c, f"varve_{name}").restype = ctypes.c_void_p
        self.c.varve_get_latest_sequence_number.restype = ctypes.c_uint64
        self.write = ctypes.c_void_p(self.c.varve_writeoptions_create())
        self.wait = ctypes.c_void_p(self.c.varve_flushoptions_create())
        self.kept = []

    def call(self, name, *arguments):
        """Calls a function whose last parameter is errptr."""
        error = ctypes.c_char_p()
        result = getattr(self.c, f"varve_{name}")(*arguments,
                                                  ctypes.byref(error))
        if error.value is not None:
            raise AssertionError(f"{name}: {error.value}")
        return result

    def options(self, **settings):
        options = ctypes.c_void_p(self.c.varve_options_create())
        for name, value in {"create_if_missing": 1, **settings}.items():
            if name == "filter_policy":
                self.c.varve_options_set_filter_policy(options, value)
                continue
            self.call("options_set", options, name.encode(),
                      str(value).lower().encode())
        return options

    def open(self, path, **settings):
        return ctypes.c_void_p(self.call(
            "open", self.options(**settings), str(path).encode()))

    def put(self, db, key, value):
        self.call("put", db, self.write, key, ctypes.c_size_t(len(key)), value,
                  ctypes.c_size_t(len(value)))

    def delete_range(self, db, begin, end):
        self.call("delete_range", db, self.write, begin,
                  ctypes.c_size_t(len(begin)), end, ctypes.c_size_t(len(end)))

    def delete(self, db, key):
        self.call("delete", db, self.write, key,
                  ctypes.c_size_t(len(key)))

    def family(self, db, name):
        """A new column family."""
        return ctypes.c_void_p(self.call("create_column_family", db,
                                         self.options(), name))

    def update(self, db, family, kind, *parts):
        """Calls varve_<kind>_cf, such as put_cf, with keys and values."""
        arguments = [argument for part in parts
                     for argument in (part, ctypes.c_size_t(len(part)))]
        self.call(f"{kind}_cf", db, self.write, family, *arguments)

    def flush(self, db):
        self.call("flush", db, self.wait)

    def close(self, db):
        self.c.varve_close(db)

    def filter_policy(self, name):
        """One whose filter of any keys is FILTER."""
        libc = ctypes.CDLL(None)
        libc.malloc.restype = ctypes.c_void_p
        libc.malloc.argtypes = [ctypes.c_size_t]

        def destroy(_):
            pass

        def create(_, keys, sizes, count, size):
            memory = libc.malloc(len(FILTER))
            ctypes.memmove(memory, FILTER, len(FILTER))
            size[0] = len(FILTER)
            return memory

        def may_match(_, key, size, text, text_size):
            return 1

        pointer = ctypes.c_void_p
        types = (ctypes.CFUNCTYPE(None, pointer),
                 ctypes.CFUNCTYPE(pointer, pointer, pointer, pointer,
                                  ctypes.c_int, ctypes.POINTER(ctypes.c_size_t)),
                 ctypes.CFUNCTYPE(ctypes.c_uint8, pointer, pointer,
                                  ctypes.c_size_t, pointer, ctypes.c_size_t),
                 ctypes.CFUNCTYPE(pointer, pointer))
        text = ctypes.create_string_buffer(name)
        calls = [kind(function) for kind, function in zip(types, (
            destroy, create, may_match, lambda _: ctypes.addressof(text)))]
        self.kept += [text, *calls]
        return ctypes.c_void_p(self.c.varve_filterpolicy_create(None, *calls))


class FormatTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.page = Page.read(ROOT)
        cls.varve = Varve(LIBRARY)

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.path = Path(temporary.name) / "db"
        self.db = Database(self.page, self.path)

    def open(self, **settings):
        return self.varve.open(self.path, **settings)

    def test_crc(self):
        self.assertEqual(decoder.crc32c(b"123456789"), 0xE3069283)
        self.assertEqual(decoder.masked(0xE3069283), 0xC78AB0E5)
        self.assertIn("0xE3069283, and 0xC78AB0E5", self.page.text.replace(
            "\n", " "))

    def test_log(self):
        """Fragments of all kinds, batches, and the predecessor record."""
        db = self.open()
        self.varve.put(db, b"key", b"value")
        self.varve.put(db, b"large", b"x" * 100_000)
        self.varve.delete_range(db, b"a", b"b")
        (number, records), = self.db.logs().items()
        updates = [decoder.batch(self.page, record) for record, _ in records]
        self.assertEqual(updates[0], (1, [
            ("put", {"key": b"key", "value": b"value"}, 1)]))
        self.assertEqual(len(updates[1][1][0][1]["value"]), 100_000)
        self.assertEqual(updates[2], (3, [
            ("range delete", {"begin": b"a", "end": b"b"}, 3)]))
        self.assertIsNone(decoder.predecessor(self.page, records[0][0]))
        end = records[-1][1]
        self.varve.flush(db)
        self.varve.put(db, b"key", b"second")
        records = self.db.logs()[max(self.db.logs())]
        self.assertEqual(decoder.predecessor(self.page, records[0][0]),
                         {"number": number, "size": end,
                          "log": max(self.db.logs()), "sequence": 4})
        self.assertEqual(decoder.batch(self.page, records[1][0])[0], 4)
        self.varve.close(db)

    def test_logs_are_files(self):
        self.varve.close(self.open())
        self.assertEqual(self.db.find("logs are files"),
                         [(0, {"nothing": b""})])
        (_, log), *_ = self.db.find("log number")
        self.assertEqual(self.db.find("key folding"), [])
        (_, identity), = self.db.find("database id")
        self.assertEqual(identity["id"], (self.path / "IDENTITY").read_bytes())
        self.assertEqual(len(identity["id"]), 36)
        numbers = [each["number"] for _, each in self.db.find("log number")]
        self.assertTrue((self.path / f"{numbers[-1]:06}.log").exists())

    def test_key_folding(self):
        db = self.open(key_case="insensitive")
        texts = ["STRASSE", "stra\u00dfe", "E\u0301", "\u00c9", "\u03a3\u03c2"]
        for text in texts:
            self.varve.put(db, text.encode(), b"")
        (_, records), = self.db.logs().items()
        keys = [decoder.batch(self.page, record)[1][0][1]["key"].decode()
                for record, _ in records]
        self.assertEqual(keys, [unicodedata.normalize("NFC", text.casefold())
                                for text in texts])
        self.varve.close(db)
        names = [decoder.code(row[0]).encode()
                 for row in self.page.tables["foldings"]]
        self.assertEqual(self.db.find("key folding"),
                         [(0, {"folding": names[0]})])

    def test_end_of_the_logs(self):
        db = self.open(avoid_flush_during_shutdown=1)
        for i in range(300):
            self.varve.put(db, b"key %d" % i, b"value")
        last = self.varve.c.varve_get_latest_sequence_number(db)
        self.varve.close(db)
        edits = self.db.manifest()
        self.assertEqual(self.db.find("end of the logs"),
                         [(len(edits) - 1, {"sequence": last})])
        # Not if no update is left in the logs.
        db = self.open()
        self.varve.flush(db)
        self.varve.close(db)
        self.assertEqual(self.db.find("end of the logs"), [])

    def test_new_tables(self):
        db = self.open()
        for i in range(1000):
            self.varve.put(db, b"key %04d" % i, b"value %d" % i)
        self.varve.flush(db)
        self.varve.delete_range(db, b"key 0100", b"key 0900")
        self.varve.flush(db)
        self.varve.close(db)
        found = self.db.find("new file")
        self.assertEqual(len(found), 2)
        for index, (_, file) in enumerate(found):
            size = (self.path / f"{file['number']:06}.sst").stat().st_size
            self.assertEqual(file["size"], size)
            table = self.db.table(file["number"])
            self.assertEqual(table.version, 5)
            data_size = decoder.Bytes(
                table.properties()["rocksdb.data.size"]).value("v64")
            custom = file["custom"]
            self.assertEqual(custom["tail size"], size - data_size)
            self.assertGreater(custom["file creation time"], 1_600_000_000)
            self.assertLessEqual(custom["oldest ancestor time"],
                                 custom["file creation time"])
            if index == 0:
                self.assertEqual(custom["range deletion size"], 0)
                self.assertEqual(file["smallest"][:-8], b"key 0000")
                self.assertEqual(file["largest"][:-8], b"key 0999")
            else:
                # Estimated, or left out.
                self.assertNotEqual(custom.get("range deletion size"), 0)
                self.assertEqual(file["largest"][:-8], b"key 0900")
                self.assertEqual(int.from_bytes(file["largest"][-8:], "little"),
                                 ((1 << 56) - 1) << 8 | self.page.tag(
                                     "batch_tags", "range delete"))

    def test_column_families(self):
        """Their updates in logs, edits in the MANIFEST, and tables."""
        db = self.open(atomic_flush=True)
        red = self.varve.family(db, b"red")
        blue = self.varve.family(db, b"blue")
        self.varve.put(db, b"key", b"value")
        self.varve.update(db, red, "put", b"key", b"red")
        self.varve.update(db, blue, "put", b"key", b"blue")
        self.varve.update(db, red, "delete", b"a")
        self.varve.update(db, red, "singledelete", b"b")
        self.varve.update(db, blue, "delete_range", b"c", b"d")
        updates = [update for records in self.db.logs().values()
                   for record, _ in records
                   for update in decoder.batch(self.page, record)[1]]
        self.assertEqual([update for update in updates if update[2]], [
            ("put", {"key": b"key", "value": b"value"}, 1),
            ("put in a family", {"family": 1, "key": b"key", "value": b"red"},
             2),
            ("put in a family", {"family": 2, "key": b"key", "value": b"blue"},
             3),
            ("delete in a family", {"family": 1, "key": b"a"}, 4),
            ("single delete in a family", {"family": 1, "key": b"b"}, 5),
            ("range delete in a family",
             {"family": 2, "begin": b"c", "end": b"d"}, 6)])
        self.varve.flush(db)
        # The three edits of the flush are one group.
        edits = [dict(edit) for edit in self.db.manifest()]
        group = [edit for edit in edits if "atomic group" in edit]
        self.assertEqual([edit["atomic group"]["remaining"] for edit in group],
                         [2, 1, 0])
        self.assertEqual(
            [edit.get("column family", {"id": 0})["id"] for edit in group],
            [0, 1, 2])
        for edit, name in zip(group, (b"default", b"red", b"blue")):
            properties = self.db.table(edit["new file"]["number"]).properties()
            self.assertEqual(properties["rocksdb.column.family.name"], name)
            self.assertEqual(decoder.Bytes(
                properties["rocksdb.column.family.id"]).value("v64"),
                edit.get("column family", {"id": 0})["id"])
        self.varve.call("drop_column_family", db, red)
        added = {edit["column family added"]["name"]: edit
                 for edit in edits if "column family added" in edit}
        self.assertEqual(set(added), {b"red", b"blue"})
        for name, number in ((b"red", 1), (b"blue", 2)):
            self.assertEqual(added[name]["column family"]["id"], number)
            self.assertEqual(added[name]["comparator"]["name"],
                             b"leveldb.BytewiseComparator")
            self.assertIn("log number", added[name])
        last = dict(self.db.manifest()[-1])
        self.assertIn("column family dropped", last)
        self.assertEqual(last["column family"]["id"], 1)
        for family in (red, blue):
            self.varve.c.varve_column_family_handle_destroy(family)
        self.varve.close(db)

    def test_properties_of_a_table(self):
        db = self.open()
        for key in (b"a", b"b", b"c", b"d", b"e"):
            self.varve.put(db, key, b"value")
        self.varve.flush(db)
        self.varve.delete(db, b"b")
        self.varve.delete(db, b"c")
        self.varve.put(db, b"d", b"new")
        self.varve.flush(db)
        self.varve.close(db)
        runs = []
        for _, file in self.db.find("new file"):
            properties = self.db.table(file["number"]).properties()
            found = {name: decoder.Bytes(properties[name]).value(type_)
                     for name, type_ in self.page.fields("table_properties")}
            self.assertEqual(found["varve.hidden.entries"], 0)
            runs.append(found["varve.longest.dead.run"])
        self.assertEqual(runs, [0, 2])

    def test_custom_filter(self):
        policy = self.varve.filter_policy(b"my.policy")
        db = self.open(filter_policy=policy)
        self.varve.put(db, b"key", b"value")
        self.varve.flush(db)
        self.varve.close(db)
        (_, file), = self.db.find("new file")
        table = self.db.table(file["number"])
        self.assertEqual(table.custom_filters(), {"my.policy": FILTER})
        self.assertEqual(table.properties()["rocksdb.filter.policy"],
                         b"my.policy")

    def test_catalog(self):
        catalog = ctypes.c_void_p(self.varve.call(
            "catalog_open", self.varve.options(), str(self.path).encode()))
        texts = ["plain-name_1", "Stra\u00dfe 1", "50%"]
        for text in texts:
            self.varve.call("catalog_create_db", catalog, text.encode())
        self.varve.call("catalog_close", catalog)
        found = {child.name: decoder.database_name(self.page, child.name)
                 for child in self.path.iterdir() if child.is_dir()}
        self.assertEqual(sorted(found.values()), sorted(
            unicodedata.normalize("NFC", text.casefold()) for text in texts))
        example = re.search(r"`Stra\u00dfe 1` is in `([^`]+)`",
                            self.page.text.replace("\n", " "))[1]
        self.assertEqual(found[example], "strasse 1")
        self.assertTrue((self.path / "LOCK").exists())

    def test_dump(self):
        entries = [(b"a", b""), (b"back\\slash", b"tab\there"),
                   (b"\x00\xff\n", "\u00df".encode()),
                   (b"varve-dump-end 1", b"value")]
        db = self.open()
        for key, value in entries:
            self.varve.put(db, key, value)
        self.varve.close(db)
        dump = self.path.with_name("dump")
        subprocess.run([TOOL, "export-to", f"--db={self.path}", dump],
                       check=True, capture_output=True)
        self.assertEqual(decoder.dump_entries(self.page, dump.read_bytes()),
                         sorted(entries))

    def test_examples(self):
        self.assertEqual(
            {name: decoder.edit(self.page, data)
             for name, data in self.page.examples.items()},
            {"key folding": [("key folding", {"folding": b"casefold-nfc"})],
             "logs are files": [("logs are files", {"nothing": b""})],
             "end of the logs (update 300)": [("end of the logs",
                                               {"sequence": 300})],
             "end of the tables (update 300)": [("end of the tables",
                                                 {"sequence": 300})]})

    def test_the_files_are_those_of_the_page(self):
        self.varve.close(self.open())
        named = set(re.findall(r"`([^`]+)`", self.page.text[
            self.page.text.index("## Files of a database"):]))
        for child in self.path.iterdir():
            name = re.sub(r"\d{6}", "NNNNNN", child.name)
            self.assertIn(name, named)

    def test_tags_are_those_of_the_source(self):
        """A tag that the source gets, the page must get too."""
        text = (ROOT / "db/version/version_edit.cc").read_text("utf-8")
        bit = 1 << int(re.search(r"kIgnorableBit = 1 << (\d+),", text)[1])
        own = {bit | int(number, 16) for number in re.findall(
            r"= kIgnorableBit \| (0x[0-9a-fA-F]+),", text)}
        self.assertEqual(own, {tag for tag, (_, row) in self.page.tags(
            "edit_tags").items() if row[3] == "Varve"})

    def test_another_page_is_noticed(self):
        """Each constant of the tables is one that the bytes have."""
        self.path.mkdir()
        changes = [
            ("kinds", "| 1 | full |", "| 2 | full |"),
            ("batch_tags", "| 3 | log data |", "| 5 | log data |"),
            ("predecessor", "`varve.wal.predecessor:`", "`varve.log.predecessor:`"),
            ("predecessor", "| `size` | `u64` |", "| `size` | `u32` |"),
            ("edit_tags", "| 5644289 | logs", "| 5644299 | logs"),
            ("edit_tags", "| 5644290 | end", "| 5644292 | end"),
            ("edit_tags", "| 5644291 | end", "| 5644293 | end"),
            ("custom_tags", "| 15 | tail", "| 16 | tail"),
            ("fragment", "| `length` | `u16` |", "| `length` | `u32` |"),
        ]
        for table, old, new in changes:
            with self.subTest(f"{table}: {new}"):
                self.assertEqual(self.page.text.count(old), 1, old)
                page = Page(self.page.text.replace(old, new))
                self.assertNotEqual(self.facts(page), self.facts(self.page))

    def facts(self, page):
        """What a page says of one database, or its complaint."""
        path = self.path / "facts"
        if not path.exists():
            db = self.varve.open(path, avoid_flush_during_shutdown=1)
            self.varve.put(db, b"key", b"value")
            self.varve.flush(db)
            self.varve.put(db, b"key", b"second")
            self.varve.close(db)
        database = Database(page, path)
        try:
            return (database.manifest(),
                    [decoder.predecessor(page, record)
                     for records in database.logs().values()
                     for record, _ in records])
        except (decoder.FormatError, KeyError) as error:
            return str(error)


if __name__ == "__main__":
    TOOL = sys.argv.pop()
    LIBRARY = sys.argv.pop()
    unittest.main()
