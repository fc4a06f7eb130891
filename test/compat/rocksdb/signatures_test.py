#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Compares the table of RocksDB's C functions with RocksDB's own headers.

Goal: a program that was compiled with RocksDB's header calls the functions of
the library with the right arguments. Method: reads each header that is given,
takes its version from version.h in the same folder, and compares functions,
parameters and constants with compat/rocksdb/functions.txt. A header of version
11.8 must also have all functions of the table.

Usage: signatures_test.py HEADER...

The table has versions 7.8, 9 to 10, and 11 up to 11.8. A path that does not
exist, or is of another version, is "not run". Skipped (77) if none is left.
"""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "compat/rocksdb"))
import generate  # noqa: E402

COMPLETE = (11, 8)


def header_version(path):
    """The version of RocksDB as major and minor number."""
    text = (path.parent / "version.h").read_text(encoding="utf-8")
    return tuple(int(re.search(rf"#define ROCKSDB_{part} (\d+)", text)[1])
                 for part in ("MAJOR", "MINOR"))


def table_version(version):
    """The version of the table that holds for one of RocksDB, or None."""
    if version > COMPLETE:
        return None
    return {7: "7.8", 9: "10", 10: "10", 11: "11"}.get(version[0])


def plain(type_name):
    """A type without spaces and without names in pointers to functions."""
    pointer = re.fullmatch(r"(.*?)\(\*\)\((.*)\)", type_name)
    if pointer:
        inner = [plain(generate.parse_parameter(part, 0).type)
                 for part in generate.split_parameters(pointer[2])]
        return f"{plain(pointer[1])}(*)({','.join(inner)})"
    return re.sub(r"\s*\*\s*", "*", type_name).strip()


def parsed(text):
    """The result and the types of the parameters of a declaration."""
    text = re.sub(r"(\w+)\[\]", r"* \1", " ".join(text.split()))
    text = re.sub(r"(\w) \((?!\*)", r"\1(", text)
    result, name, parameters = generate.parse_signature(text)
    types = [plain(p.type) for p in parameters]
    return name, (plain(result), [] if types == ["void"] else types)


def read_header(path):
    """The functions and the constants of a header."""
    text = path.read_text(encoding="utf-8")
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    text = re.sub(r"//.*", "", text)
    text = re.sub(r"^\s*#.*", "", text, flags=re.MULTILINE)
    functions = dict(parsed(declaration) for declaration in re.findall(
        r"ROCKSDB_LIBRARY_API\s+(.*?);", text, flags=re.DOTALL))
    constants = {}
    for values in re.findall(r"enum \{(.*?)\}", text, flags=re.DOTALL):
        constants |= read_enum(values)
    return functions, constants


def read_enum(text):
    constants, following = {}, 0
    for value in text.split(","):
        name, _, number = value.partition("=")
        if not name.strip():
            continue
        if number.strip() in constants:
            following = constants[number.strip()]
        elif number:
            base, _, shift = number.partition("<<")
            following = int(base.strip(), 0) << int(shift.strip() or "0")
        constants[name.strip()] = following
        following += 1
    return constants


def without_const(signature):
    return [re.sub(r"\bconst ", "", part)
            for part in (signature[0], *signature[1])]


def differences(path):
    version = header_version(path)
    table = generate.load()
    ours = dict(parsed(f.prototype())
                for f in table.functions(table_version(version)))
    constants = {}
    for text in table.enums:
        constants |= read_enum(text)
    functions, known = read_header(path)
    if len(functions) < 700 or len(known) < 100:
        yield f"only {len(functions)} functions and {len(known)} constants"
    for name, signature in functions.items():
        if name not in ours:
            yield f"the table has no {name}"
        elif signature != ours[name] and (
                version >= COMPLETE
                # Parameters have become const, which no caller notices.
                or without_const(signature) != without_const(ours[name])):
            yield f"{name}: {signature} differs from {ours[name]}"
    for name, value in known.items():
        # The number of values in an enumeration grows.
        if constants.get(name) != value and (
                version >= COMPLETE or not name.endswith("_total_metric_count")):
            yield f"{name} is {value}, not {constants.get(name)}"
    if version[:2] == COMPLETE:
        for name in (ours.keys() | constants.keys()) - (
                functions.keys() | known.keys()):
            yield f"the header has no {name}"


def main():
    headers = [Path(argument) for argument in sys.argv[1:]]
    found = [path for path in headers
             if path.exists() and table_version(header_version(path))]
    for path in headers:
        if path not in found:
            print(f"not run: {path} does not exist or is of a version that the "
                  "table does not have")
    errors = 0
    for path in found:
        messages = list(differences(path))
        errors += len(messages)
        print(f"{path} of RocksDB {header_version(path)}: "
              f"{len(messages)} differences")
        print("".join(f"  {message}\n" for message in messages), end="")
    return 1 if errors else 0 if found else 77


if __name__ == "__main__":
    sys.exit(main())
