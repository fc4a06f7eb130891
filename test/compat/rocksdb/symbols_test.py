#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Compares the symbols of librocksdb.so and librocksdb.a with the table.

Goal: a program that was linked with RocksDB finds every function, and none of
the engine's own symbols is visible in the shared library, where it could clash
with another Varve in the process. Method: nm lists both libraries.

Usage: symbols_test.py VERSION SHARED_LIBRARY STATIC_LIBRARY
"""

import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "compat/rocksdb"))
import generate  # noqa: E402


def output(*command):
    return subprocess.run(command, check=True, capture_output=True,
                          text=True).stdout


def main():
    version, shared, static = sys.argv[1:]
    functions = {f.name for f in generate.load().functions(version)}
    visible = {line.split()[-1] for line in output(
        "nm", "-D", "--defined-only", shared).splitlines()}
    contained = set(re.findall(r" T (rocksdb_\w+)$", output(
        "nm", "--defined-only", static), flags=re.MULTILINE))
    errors = [f"not in the shared library: {name}"
              for name in sorted(functions - visible)]
    errors += [f"visible, but not in the table: {name}"
               for name in sorted(visible - functions)]
    errors += [f"not in the static library: {name}"
               for name in sorted(functions - contained)]
    soname = f"librocksdb.so.{version}"
    if f"[{soname}]" not in output("readelf", "-d", shared):
        errors.append(f"the soname is not {soname}")
    # RocksDB's symbols have no versions; a program would warn about others.
    if "Version definition" in output("readelf", "-V", shared):
        errors.append("the symbols have versions")
    print("\n".join(errors) or f"{len(functions)} functions are visible")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
