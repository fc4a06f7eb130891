#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Compares the symbols of the library with those of LevelDB's.

Goal: a program that was linked with LevelDB finds every symbol, and none of the
engine's own symbols is visible, where it could clash with another Varve in the
process. Method: nm lists both libraries; the C header names the C functions.

Usage: symbols_test.py LIBRARY LEVELDB_LIBRARY C_HEADER
"""

import re
import subprocess
import sys

# No program can refer to these: they are private, and only classes that LevelDB
# does not export are friends of theirs.
PRIVATE = ("leveldb::Table::BlockReader(", "leveldb::Table::InternalGet(",
           "leveldb::Table::ReadFilter(", "leveldb::Table::ReadMeta(",
           "leveldb::TableBuilder::WriteBlock(",
           "leveldb::TableBuilder::WriteRawBlock(",
           # Classes within C functions.
           "for leveldb_filterpolicy_create_bloom::",
           "for leveldb_writebatch_iterate::")


def symbols(library):
    """Returns the demangled defined symbols with their kinds."""
    listed = subprocess.run(["nm", "-D", "--demangle", "--defined-only",
                             library], check=True, capture_output=True,
                            text=True).stdout
    found = {}
    for line in listed.splitlines():
        _, kind, name = line.split(" ", 2)
        found[name] = kind
    return found


def dynamic_entry(library, tag):
    listed = subprocess.run(["readelf", "-d", library], check=True,
                            capture_output=True, text=True).stdout
    return re.findall(rf"\({tag}\).*\[(.*)\]", listed)


def main():
    ours_path, theirs_path, header = sys.argv[1:]
    ours, theirs = symbols(ours_path), symbols(theirs_path)
    errors = []
    compared = 0
    for name in theirs:
        # Each program has instances of templates of its own.
        if "std::" in name.split("(")[0] and "leveldb::" not in name.split(
                "(")[0].split("<")[0]:
            continue
        if any(part in name for part in PRIVATE):
            continue
        compared += 1
        if name not in ours:
            errors.append(f"missing: {name}")
    if compared < 190:
        errors.append(f"only {compared} symbols of LevelDB were compared")
    for name in ours:
        if not re.search(r"(^|[ ])leveldb(::|_)", name):
            errors.append(f"visible, but not LevelDB's: {name}")
        elif name not in theirs:
            errors.append(f"visible, but unknown to LevelDB: {name}")
    with open(header, encoding="utf-8") as file:
        functions = set(re.findall(r"\b(leveldb_\w+)\(", file.read()))
    if len(functions) != 68:
        errors.append(f"the C header has {len(functions)} functions, not 68")
    errors += [f"missing: {name}" for name in sorted(functions - set(ours))]
    if dynamic_entry(ours_path, "SONAME") != dynamic_entry(theirs_path,
                                                          "SONAME"):
        errors.append("the sonames differ")
    # LevelDB's symbols have no versions; a program would warn about others.
    versions = subprocess.run(["readelf", "-V", ours_path], check=True,
                              capture_output=True, text=True).stdout
    if "Version definition" in versions:
        errors.append("the symbols have versions")
    print("\n".join(errors) or f"{compared} symbols are the same")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
