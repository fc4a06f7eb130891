#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Writes the lists of RocksDB's C functions, and of objects of values, that
calls_test.cc includes.

Usage: make_calls.py VERSION DIRECTORY
"""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "compat/rocksdb"))
import generate  # noqa: E402


def value_objects(functions):
    """Yields the type, creation and destruction of objects of values only."""
    destroyed = {f.parameters[0].type: f.name for f in functions
                 if f.kind == "object" and f.result == "void"}
    for function in functions:
        if function.kind == "object" and function.result in destroyed \
                and function.name != "rocksdb_options_create":
            if all(re.fullmatch(r"size_t|const char\*", p.type)
                   for p in function.parameters):
                values = ", ".join("1" if p.type == "size_t" else '"x"'
                                   for p in function.parameters)
                yield (function.result.rstrip("*"),
                       f"{function.name}({values})",
                       destroyed[function.result])


def main():
    version, directory = sys.argv[1], Path(sys.argv[2])
    directory.mkdir(exist_ok=True)
    functions = generate.load().functions(version)
    objects = [f"HANDLE({name}, {create}, {destroy}(handle))\n"
               for name, create, destroy in value_objects(functions)]
    (directory / "calls_objects.inc").write_text("".join(objects))
    lines = ["const Function kFunctions[] = {"]
    for f in functions:
        names = " ".join(p.name for p in f.parameters)
        lines.append(f'    {{"{f.name}", "{f.kind}", "{f.feature}", "{names}",'
                     f" &Call<decltype(&{f.name})>, Plain(&{f.name})}},")
    (directory / "calls.inc").write_text("\n".join(lines + ["};", ""]))


if __name__ == "__main__":
    main()
