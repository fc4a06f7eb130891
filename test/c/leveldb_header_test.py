#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Compares varve/c.h with the header of LevelDB that is installed.

Goal: a program for LevelDB's C interface needs nothing but other names. Method:
its header, with leveldb_ replaced by varve_, is compiled behind Varve's: a
function of another type is then an error of the compiler, one that is missing
an undeclared name. Then each function of Varve's own headers must be defined by
the library, and be called in one of the programs of this folder.

Usage: leveldb_header_test.py COMPILER INCLUDE_DIR WORK_DIR LIBRARY
"""

import re
import subprocess
import sys
from pathlib import Path

HEADERS = ["/usr/include/leveldb/c.h", "/usr/local/include/leveldb/c.h"]
# The number in LevelDB 1.23. If fewer are found, this test is broken.
FUNCTIONS = 68


def renamed_header():
    for path in map(Path, HEADERS):
        if path.exists():
            break
    else:
        sys.exit(f"none of {HEADERS} is installed: see tools/install_deps")
    text = re.sub(r"/\*.*?\*/", " ", path.read_text(), flags=re.DOTALL)
    text = re.sub(r"//[^\n]*", " ", text)
    text = re.sub(r'#\s*include\s*"[^"]*"', "", text)
    text = text.replace("LEVELDB_EXPORT", "")
    return text.replace("leveldb_", "varve_")


def program(header):
    """C code that refers to each function and constant, and has the renamed
    header behind that."""
    constants = re.findall(r"\b(varve_\w+)\s*=\s*(\d+)", header)
    header = re.sub(r"\benum\s*\{[^}]*\}\s*;", "", header)
    functions = sorted(set(re.findall(r"\b(varve_\w+)\s*\(", header)))
    types = sorted(set(re.findall(r"\b(varve_\w+_t|varve_t)\b", header)))
    lines = ['#include "varve/c.h"', "typedef void (*any_function)(void);",
             "any_function all[] = {"]
    lines += [f"  (any_function){name}," for name in functions]
    lines += ["};", "int main(void) { return all[0] == 0; }"]
    lines += [f"extern {name}* pointer_{name};" for name in types]
    lines += [f"_Static_assert({name} == {value}, \"{name}\");"
              for name, value in constants]
    return functions, constants, "\n".join(lines) + "\n" + header


def own_functions(include):
    text = "".join((Path(include) / "varve" / name).read_text()
                   for name in ("c.h", "c_extensions.h", "c_families.h",
                                "c_merge.h", "c_reads.h"))
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)
    return set(re.findall(r"VARVE_EXPORT[^;(]*?\b(varve_\w+)\s*\(", text))


def called_names():
    folder = Path(__file__).resolve().parent
    text = "".join(path.read_text() for path in [*folder.glob("*.[ch]")])
    return set(re.findall(r"\b(varve_\w+)\s*\(", text))


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(" ".join(map(str, command)) + "\n" + done.stderr)
    return done.stdout


def defined_names(library):
    """What it offers; of a shared one, what it shows."""
    dynamic = ["-D"] if ".so" in Path(library).name else []
    listing = run(["nm", "-g", "--defined-only", *dynamic, library])
    return {line.split()[-1] for line in listing.splitlines() if " T " in line}


def main():
    compiler, include, work, library = sys.argv[1:]
    Path(work).mkdir(parents=True, exist_ok=True)
    functions, constants, text = program(renamed_header())
    if len(functions) < FUNCTIONS or len(constants) < 2:
        sys.exit(f"found only {functions} and {constants}")
    source = Path(work) / "leveldb_header.c"
    source.write_text(text)
    strict = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{include}"]
    run([compiler, "-std=c11", *strict, "-Wno-cast-function-type",
         "-fsyntax-only", source])
    own = own_functions(include)
    missing = (own | set(functions)) - defined_names(library)
    if missing or not own.issuperset(functions):
        sys.exit(f"{library} does not define {sorted(missing)}")
    untested = own - called_names()
    if untested:
        sys.exit(f"no program in C calls {sorted(untested)}")

    # Varve's header itself asks for the oldest C only.
    alone = Path(work) / "alone.c"
    alone.write_text('#include "varve/c.h"\nint varve_here;\n')
    run([compiler, "-std=c90", "-pedantic-errors", *strict, "-fsyntax-only",
         alone])
    print(f"{len(functions)} functions of LevelDB, {len(own)} in all")


if __name__ == "__main__":
    main()
