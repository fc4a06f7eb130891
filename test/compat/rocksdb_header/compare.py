#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Goal: a program that moved by varve/rocksdb.h does what it did on RocksDB.
Method: runs it and the same program on RocksDB, each in a new directory, and
compares what they print.

Usage: compare.py PROGRAM REFERENCE_PROGRAM
"""

import difflib
import subprocess
import sys
import tempfile
from pathlib import Path


def output_of(program):
    with tempfile.TemporaryDirectory() as directory:
        return subprocess.run(
            [program, Path(directory) / "db"], stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, check=True).stdout


def main():
    varve, rocksdb = map(output_of, sys.argv[1:3])
    if not rocksdb:
        sys.exit("the program printed nothing")
    if varve != rocksdb:
        sys.exit("\n".join(difflib.unified_diff(
            rocksdb.splitlines(), varve.splitlines(), "RocksDB", "Varve",
            lineterm="")))


main()
