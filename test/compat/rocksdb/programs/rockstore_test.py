#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Goal: a Python program that calls RocksDB's C interface through cffi, by the
package rockstore of PyPI, works on Varve's librocksdb.so. Method: sessions in
turn on Debian's RocksDB 7.8 and on Varve, on one directory, each in a process
of its own, which checks all contents against a dictionary before and after it
changes them.

Other Python packages that were looked at contain RocksDB (rocksdict,
rocksdb-py), or call its C++ interface (python-rocksdb, aimrocks).

Usage: rockstore_test.py LIBRARY
       rockstore_test.py --session DIRECTORY SESSION, by itself
"""

import random
import sys
from pathlib import Path

from parts import (VARVE, Library, cache, debian_rocksdb, fetch, find, locked,
                   run, work_directory)

VERSION = "0.2.0"
SESSIONS = 20
COMPRESSIONS = ("no_compression", "snappy_compression", "zlib_compression",
                "lz4_compression", "zstd_compression")


def python():
    """Returns the interpreter of a virtual environment with rockstore."""
    place = cache("rockstore") / VERSION
    if not (place / "bin/rockstore_is_here").exists():
        fetch([find("python3"), "-m", "venv", "--clear", place])
        fetch([place / "bin/pip", "install", "-q", f"rockstore=={VERSION}"])
        (place / "bin/rockstore_is_here").touch()
    return place / "bin/python3"


def changes(session):
    """Returns the changes that a session makes: (kind, arguments)."""
    source = random.Random(session)
    for _ in range(300):
        key = b"%05d" % source.randrange(2000)
        kind = source.choice(("put", "put", "delete", "batch", "delete_batch"))
        if kind == "put":
            yield kind, [(key, source.randbytes(source.choice((0, 5, 3000))))]
        elif kind == "batch":
            yield kind, [(b"%s/%d" % (key, i), b"batch %d" % i)
                         for i in range(source.randrange(20))]
        elif kind == "delete":
            yield kind, [(key, None)]
        else:
            yield kind, [(key, None), (key + b"/1", None)]


def apply(model, pairs):
    for key, value in pairs:
        if value is None:
            model.pop(key, None)
        else:
            model[key] = value


def check(db, model):
    """Fails unless the database has the entries of the model."""
    assert db.get_all() == model, "get_all"
    keys = sorted(model)
    for key in keys[::7]:
        assert db.get(key) == model[key], key
        assert db.get(key + b"absent") is None, key
    if keys:
        first, last = keys[len(keys) // 4], keys[len(keys) * 3 // 4]
        expected = [(key, model[key]) for key in keys if first <= key <= last]
        assert list(db.iterate_range(first, last)) == expected, "iterate_range"


def run_session(directory, session):
    """Runs in a process of its own, in the virtual environment."""
    import rockstore  # pylint: disable=import-error,import-outside-toplevel
    model = {}
    for earlier in range(session):
        for _, pairs in changes(earlier):
            apply(model, pairs)
    if session > 0:
        with rockstore.open_database(directory, {"read_only": True}) as db:
            check(db, model)
            try:
                db.put(b"key", b"value")
            except IOError:
                pass
            else:
                raise AssertionError("a read-only database took an entry")
    with rockstore.open_database(directory, {
            "compression_type": COMPRESSIONS[session % len(COMPRESSIONS)],
            "write_buffer_size": 1 << 16}) as db:
        check(db, model)
        for kind, pairs in changes(session):
            apply(model, pairs)
            if kind == "put":
                db.put(*pairs[0], sync=session % 2 == 0)
            elif kind == "delete":
                db.delete(pairs[0][0])
            elif kind == "batch":
                db.write_batch(pairs)
            else:
                db.delete_batch([key for key, _ in pairs])
        check(db, model)
    print(len(model), open("/proc/self/maps", encoding="utf-8").read())


def main():
    if sys.argv[1] == "--session":
        run_session(sys.argv[2], int(sys.argv[3]))
        return 0
    with locked():
        interpreter = python()
    # The package opens this name.
    found = [Library(VARVE, sys.argv[1], "librocksdb.so"),
             debian_rocksdb("librocksdb.so")]
    with work_directory("rockstore") as place:
        for session in range(SESSIONS):
            library = found[session % len(found)]
            output = run([interpreter, Path(__file__), "--session",
                          f"{place}/db", session],
                         env=library.environment())
            library.check_maps("rockstore", output)
            print(f"session {session} on {library.name}: {output.split()[0]} "
                  "entries", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
