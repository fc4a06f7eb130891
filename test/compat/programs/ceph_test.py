#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Goal: Ceph's key-value layer works on the drop-in library. Method: Debian's
ceph-kvstore-tool repairs an empty store into being, sets, reads, lists, copies,
compacts and removes on both libraries. Checksums and lists must be equal. A
store that LevelDB wrote is then read with the drop-in library.

Usage: ceph_test.py DROP_IN_LIBRARY
"""

import hashlib
import shutil
import sys
from pathlib import Path

from programs import (Cost, libraries, need_program, print_row, run,
                      work_directory)


def value(number):
    """Returns bytes that belong to a number, up to 200 KB of them."""
    block = hashlib.sha256(str(number).encode()).digest()
    return (block * 6250)[:1 + number * 20011 % 200000]


class Store:
    """A store of Ceph's, used with one library."""

    def __init__(self, program, library, path):
        self.program, self.library, self.path = program, library, path

    def __call__(self, *arguments):
        """Returns what the tool prints, without the lines of LevelDB's log."""
        output = run([self.program, "leveldb", self.path, *arguments],
                     cwd=self.path.parent, env=self.library.environment())
        return [line for line in output.splitlines()
                if line and " leveldb: " not in line]

    def contents(self):
        """Returns the keys with the checksums of their values."""
        return self("list-crc")


def use(store):
    """Returns what the steps of the test print. Each is a process of its
    own."""
    place = store.path.parent
    store.path.mkdir()
    store("destructive-repair")
    for number in range(24):
        (place / "value").write_bytes(value(number))
        store("set", f"p{number % 3}", f"k{number}", "in", place / "value")
    store("set", "p0", "version", "ver", "7")
    seen = [store.contents(), store("list", "p1"), store("exists", "p2", "k2"),
            store("crc", "p1", "k4")]
    store("get", "p1", "k4", "out", place / "out")
    if (place / "out").read_bytes() != value(4):
        raise AssertionError("another value was read than written")
    store("rm", "p1", "k4")
    store("rm-prefix", "p2")
    store("compact-prefix", "p1")
    store("compact")
    seen.append(store.contents())
    copy = Store(store.program, store.library, place / "copy")
    store("store-copy", copy.path)
    if copy.contents() != seen[-1]:
        raise AssertionError("the copy has other contents")
    store("destructive-repair")
    if store.contents() != seen[-1]:
        raise AssertionError("the repaired store has other contents")
    return seen


def main():
    program = need_program("ceph-kvstore-tool", "ceph-base")
    with work_directory("ceph") as directory:
        directory = Path(directory)
        found = libraries()
        seen, rows = [], []
        for library in found:
            library.check_linked(program)
            place = directory / library.name
            place.mkdir()
            with Cost() as cost:
                seen.append(use(Store(program, library, place / "store")))
            rows.append((library.name, f"{cost.cpu_s:.2f}"))
        # The first list has all keys, the last one those that are left.
        if len(seen[0][0]) != 25 or len(seen[0][-1]) != 16:
            raise AssertionError(f"unexpected contents: {seen[0]}")
        for one in seen[1:]:
            if one != seen[0]:
                raise AssertionError(f"not the same:\n{seen[0]}\n{one}")
        for library in found[1:]:
            shutil.copytree(directory / "LevelDB" / "store",
                            directory / "carried")
            carried = Store(program, library, directory / "carried")
            if carried.contents() != seen[0][-1]:
                raise AssertionError("the store was not carried over")
            carried("set", "p0", "more", "ver", "8")
            if len(carried.contents()) != len(seen[0][-1]) + 1:
                raise AssertionError("a key is missing")
    print_row("ceph-kvstore-tool, 38 processes: CPU seconds", rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
