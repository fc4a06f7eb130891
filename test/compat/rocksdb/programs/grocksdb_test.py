#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Goal: grocksdb, the Go binding of RocksDB's C interface, works on Varve's
librocksdb.so. Method: builds grocksdb's own tests from the unmodified module,
with Varve's header, and runs each in a process of its own, on Varve and on
RocksDB. The failures must be those that expected/grocksdb.txt lists.

Usage: grocksdb_test.py LIBRARY DIRECTORY_OF_THE_HEADERS
"""

import hashlib
import json
import os
import re
import shutil
import sys
from pathlib import Path

from parts import (cache, fetch, find, go, libraries, locked, run,
                   run_tests)

MODULE = "github.com/linxGnu/grocksdb"
VERSION = "v1.11.1"


def copy_header():
    """Returns a directory with the header that is named by what the header
    says, because Go does not notice that a header changed."""
    header = Path(sys.argv[2]) / "rocksdb/c.h"
    sum_of_it = hashlib.sha256(header.read_bytes()).hexdigest()[:16]
    place = cache("headers", sum_of_it)
    (place / "rocksdb").mkdir(exist_ok=True)
    shutil.copy(header, place / "rocksdb/c.h")
    return place


def build(library):
    """Builds the tests. Returns (program, directory of the source)."""
    place = cache("grocksdb", library.soname)
    output = fetch([go(), "mod", "download", "-json", f"{MODULE}@{VERSION}"],
                   cwd=place)
    source = Path(json.loads(output)["Dir"])
    (place / "go.mod").write_text(
        f"module varve.example/tests\n\nrequire {MODULE} {VERSION}\n", "utf-8")
    (place / "use.go").write_text(
        f'package use\n\nimport _ "{MODULE}"\n', "utf-8")
    fetch([go(), "mod", "tidy"], cwd=place)
    run([go(), "mod", "verify"], cwd=place)
    program = place / "grocksdb.test"
    run([go(), "test", "-c", "-tags", "grocksdb_clean_link", "-o", program,
         MODULE], cwd=place, timeout=3600, env={
             **os.environ, "CGO_CFLAGS": f"-O1 -I{copy_header()}",
             "CGO_LDFLAGS": f"-L{library.link_directory()}"})
    return program, source


def main():
    find("gcc")
    found = libraries()
    with locked():
        program, source = build(found[0])
    names = re.findall(r"^Test\w+", run([program, "-test.list=."],
                                        env=found[0].environment()),
                       re.MULTILINE)
    tests = {name: ([program, f"-test.run=^{name}$"], source) for name in names}
    good = bool(tests)
    for library in found:
        library.check_linked(program)
        good &= run_tests("grocksdb", tests, library)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
