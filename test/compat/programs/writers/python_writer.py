# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""python_writer.py PACKAGE DIRECTORY COUNT: writes a database with the PyPI
package amulet-leveldb (Mojang's LevelDB) or plyvel (LevelDB) and prints its
contents. The process ends as if it were killed."""

import os
import sys


def key(k):
    return b"key%08d" % k


def main():
    package, directory, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if package == "plyvel":
        import plyvel
        db = plyvel.DB(directory, create_if_missing=True, block_size=512)
        compact, entries = db.compact_range, db.iterator
    else:
        import leveldb
        db = leveldb.LevelDB(directory, create_if_missing=True)
        compact, entries = db.compact, db.iterate
    db.put(b"\0", b"zero")
    db.put(b"\xff\xff", b"last")
    db.put(b"empty", b"")
    for i in range(count):
        k = i * 7919 % count
        db.put(key(k), b"value%050d" % k)
        if i % 5 == 4:
            db.delete(key(i // 5 * 7919 % count))
    compact()  # Their write buffers are large.
    for k in range(0, count, 7):
        db.put(key(k), b"newer%050d" % k)
    for k, value in entries():
        print(f"{k.hex()} => {value.hex()}")
    sys.stdout.flush()
    os._exit(0)


main()
