#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Checks the rules of the project that a script can check.

Goal: the order of layers and folders, and the habits of CONTRIBUTING.md hold in every
file. Method: each check reads every file line by line and reports violations
as file:line; before that, each must find the fault in a small bad example, so
that a check which finds nothing is itself a failure.

Usage: tidy_test.py [ROOT]
"""

import re
import sys
from pathlib import Path

LICENCE = "Varve: a key-value storage engine. MIT licence, see LICENSE."
LAYERS = ["util", "env", "monitoring", "table", "db", "catalog", "capi",
          "tools"]
# Folders beside the layers, with the highest layer that they may include. Tests
# and tools include from them; the layers do not.
BESIDE = {"fault_injection": "env", "experimental": "catalog"}
# Libraries in the place of other engines' ones, on the public API alone.
COMPAT = "compat"
# The headers of what is in these folders, which the library does not include.
BESIDE_HEADERS = "varve/testing/"
# The folders of a layer from the bottom: a file includes from its own and from
# those before it. Every folder of a layer named here has its place.
FOLDERS = {
    "util": ["base", "threads", "bytes"],
    "table": ["block", "index", "cache", "reader", "build"],
    "db": ["options", "option_files", "merge", "filter", "memtable", "write",
           "directory", "wal", "space", "version", "reads", "prefix", "snapshot",
           "compaction", "dead_entries", "folding", "recovery", "family",
            "live_files", "jobs", "streams", "ingestion", "follower", "engine",
            "external_files", "ttl", "indexed_batch", "transaction",
            "backup"],
}
# Headers that C programs include, which have C's old comments only.
C_HEADERS = [f"include/varve/{name}.h" for name in (
    "c", "c_backups", "c_families", "c_merge", "c_reads", "c_extensions",
    "c_indexed_batches", "c_external_files", "c_live_files", "c_prefixes",
    "c_streams", "c_transactions", "export", "version")]
LIBRARY_LAYERS = LAYERS[:-1]
PEERS = ("rocksdb/", "leveldb/", "lmdb.h")
MAX_COLUMNS = 80
# A longer file is reported, and no failure: it may be one class.
LONG_FILE_LINES = 1000
MAX_UNITS = 25  # In a folder.
# The path of a public header belongs to programs, so no folder can split it.
MAX_PUBLIC_UNITS = 56
# The words by which a comment gives the reason for a memory order.
ORDER_REASON = re.compile(
    r"pairs with|relaxed|release|acquire|seq_cst", re.IGNORECASE)
# How far above the statement with the access the comment may end.
ORDER_COMMENT_LINES = 3


def split_comments(lines):
    """Returns (code, comments): per line, the code with the contents of string
    and character literals blanked, and the text of the comments."""
    token = re.compile(
        r'//|/\*|"(?:\\.|[^"\\])*"|(?<![0-9A-Za-z_])\'(?:\\.|[^\'\\])+\'')
    code, comments = [], []
    in_block = False
    for line in lines:
        kept, comment, position = "", "", 0
        while position < len(line):
            if in_block:
                end = line.find("*/", position)
                in_block = end < 0
                stop = len(line) if in_block else end
                comment += line[position:stop]
                position = stop + (0 if in_block else 2)
                continue
            match = token.search(line, position)
            if match is None:
                kept += line[position:]
                break
            kept += line[position:match.start()]
            position = match.end()
            if match.group() == "//":
                comment += line[position:]
                break
            if match.group() == "/*":
                in_block = True
            else:
                kept += match.group()[0] * 2
        code.append(kept)
        comments.append(comment)
    return code, comments


class SourceFile:
    """A file, `path` relative to the root with forward slashes."""

    def __init__(self, path, text):
        self.path = path
        self.lines = text.splitlines()
        self.is_c = (path.endswith(".c") or path in C_HEADERS or
                     path.startswith("test/c/") and path.endswith(".h"))
        self.is_cpp = path.endswith((".h", ".cc", ".c"))
        self.is_header = path.endswith(".h")
        parts = path.split("/")
        self.is_public = path.startswith("include/varve/")
        self.is_test = parts[0] == "test"
        self.layer = parts[0] if parts[0] in LAYERS else None
        # The highest layer that the file may include; None: none at all.
        self.highest = BESIDE.get(parts[0], self.layer)
        if self.is_test:
            folder = parts[1] if len(parts) > 2 else ""
            self.highest = BESIDE.get(
                folder, folder if folder in LIBRARY_LAYERS else "tools")
        self.is_library = (self.is_public or self.layer in LIBRARY_LAYERS or
                           parts[0] in BESIDE or parts[0] == COMPAT)
        self.code, self.comments = (
            split_comments(self.lines) if self.is_cpp else ([], []))


def check_includes(file):
    """Include edges lead to the own layer or down, by full path."""
    allowed = ["varve"]
    if file.highest is not None:
        allowed += LAYERS[:LAYERS.index(file.highest) + 1]
    if file.is_test:
        allowed.append("test")
    if file.path.startswith((f"{COMPAT}/", f"test/{COMPAT}/")):
        allowed.append(COMPAT)
    if file.is_test or file.path.split("/")[0] in ["tools", *BESIDE]:
        allowed += BESIDE
    for number, line in enumerate(file.lines, 1):
        match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
        if match is None:
            continue
        quoted, target = match.group(1) == '"', match.group(2)
        top = target.split("/")[0] if "/" in target else ""
        ours = top in LAYERS + ["varve", "test", COMPAT, *BESIDE]
        if quoted and target.startswith(PEERS) and file.layer == "tools":
            continue
        if quoted and not ours:
            yield number, f'"{target}": Varve\'s headers by their full path ' \
                          "from the root, all others in <>"
        elif ours and not quoted:
            yield number, f'<{target}>: Varve\'s headers are in ""'
        elif ours and top not in allowed:
            place = "a public header" if file.is_public else file.path
            yield number, f'"{target}" is above what {place} may include ' \
                          f"({', '.join(allowed)})"
        elif target.startswith(BESIDE_HEADERS) and file.layer in LIBRARY_LAYERS:
            yield number, f'"{target}" is for tests, not for the library'
        elif file.is_public and not quoted and not re.fullmatch(
                r"[a-z_0-9]+|(stdarg|stddef|stdint|stdbool)\.h", target):
            yield number, f"<{target}>: a public header includes only the " \
                          "standard library and varve/"


def check_baselines(file):
    """What an experiment puts in the place of a part is not in the library."""
    if not file.is_library or "/baseline/" in file.path or (
            file.path.split("/")[0] in BESIDE):
        return
    for number, line in enumerate(file.lines, 1):
        if re.match(r'\s*#\s*include\s*"[^"]*/baseline/', line):
            yield number, "only experimental/ includes a baseline"


def folder_of(path):
    """The (layer, folder) of a path in a layer whose folders have an order."""
    parts = path.split("/")
    if parts[0] not in FOLDERS:
        return None
    return parts[0], parts[1] if len(parts) > 2 else ""


def check_folders(file):
    """Inside a layer include edges lead to the own folder or down."""
    own = folder_of(file.path)
    if own is None or not file.is_cpp:
        return
    layer, folder = own
    if folder not in FOLDERS[layer]:
        yield 1, f"{layer}/{folder} is not in the order of {layer}'s folders"
        return
    allowed = FOLDERS[layer][:FOLDERS[layer].index(folder) + 1]
    for number, line in enumerate(file.lines, 1):
        match = re.match(r'\s*#\s*include\s*"([^"]+)"', line)
        target = folder_of(match.group(1)) if match else None
        if target and target[0] == layer and target[1] not in allowed:
            yield number, f'"{match.group(1)}" is above what {layer}/{folder} ' \
                          f"may include ({', '.join(allowed)})"


def crowded_folders(paths):
    """Yields (folder, units) of the folders with more units than a reader
    takes in at once. A unit is a header with its source."""
    units = {}
    for path in paths:
        folder, _, name = path.rpartition("/")
        units.setdefault(folder, set()).add(name.rpartition(".")[0])
    for folder, names in sorted(units.items()):
        most = MAX_PUBLIC_UNITS if folder == "include/varve" else MAX_UNITS
        if len(names) > most:
            yield folder, len(names)


def check_licence(file):
    """The licence line comes first, after a `#!` where there is one."""
    first = 1 if file.lines and file.lines[0].startswith("#!") else 0
    mark = "//" if file.is_cpp else "#"
    wanted = f"/* {LICENCE} */" if file.is_c else f"{mark} {LICENCE}"
    if file.lines[first:first + 1] != [wanted]:
        yield first + 1, f"should be: {wanted}"


def check_pragma_once(file):
    """A header has #pragma once right below the licence line."""
    if file.is_header and file.lines[1:2] != ["#pragma once"]:
        yield 2, "should be: #pragma once"


def check_size(file):
    """Lines stay short."""
    if not file.is_cpp:
        return
    for number, line in enumerate(file.lines, 1):
        if len(line) > MAX_COLUMNS:
            yield number, f"{len(line)} columns, at most {MAX_COLUMNS}"


def check_test_doors(file):
    """Functions named TEST_... are called by tests only."""
    if file.is_test:
        return
    # A declaration has a type before the name, a definition a class and `::`.
    call = re.compile(r"(?:^|\.|->|[(!,=;{?]|\breturn\b)\s*TEST_\w+\s*\(")
    for number, code in enumerate(file.code, 1):
        if call.search(code) and not code.lstrip().startswith("#"):
            yield number, "TEST_... called outside test/"


BANNED = [
    (re.compile(r"\bassert\s*\("), "no assert in a library: return a Status"),
    (re.compile(r"\bprintf\s*\("), "printf: a library does not print"),
    (re.compile(r"\bstd::(cout|cerr|clog)\b"), "a library does not print"),
    (re.compile(r"#\s*include\s*<iostream>"), "no iostream in a library"),
]


def check_banned(file):
    """The library neither prints nor asserts on its own."""
    if not file.is_library:
        return
    for number, code in enumerate(file.code, 1):
        for pattern, message in BANNED:
            if pattern.search(code):
                yield number, message


# Calls that have one place, for the reason that its header gives.
ONE_PLACE = [
    (re.compile(r"\bpthread_create\s*\(|\bstd::j?thread\b(?!::)"),
     "util/threads/background_thread"),
    (re.compile(r"\bpthread_key_create\s*\("), "util/threads/thread_exit"),
]


def check_one_place(file):
    """Threads, and calls at their ends, are made in one place each."""
    if not file.is_library or file.path.startswith(f"{COMPAT}/"):
        return  # compat uses the public API only, which has no threads.
    for number, code in enumerate(file.code, 1):
        for pattern, place in ONE_PLACE:
            if pattern.search(code) and not file.path.startswith(place):
                yield number, f"only {place}.h does that"


def check_unfinished(file):
    """Nothing is left to do."""
    for number, comment in enumerate(file.comments, 1):
        if re.search(r"\b(TODO|FIXME)\b", comment):
            yield number, "finish it, or open an issue"


def statement_start(file, index):
    """The line on which the statement of line `index` begins."""
    while index > 0:
        before = file.code[index - 1].rstrip()
        if not before or before.endswith((";", "{", "}", ":")):
            break
        index -= 1
    return index


def has_order_reason(file, index):
    """Whether a comment in the statement of line `index` or shortly above it
    gives a reason. A comment of several lines counts whole if it ends close
    enough."""
    start = statement_start(file, index)
    if any(map(ORDER_REASON.search, file.comments[start:index + 1])):
        return True
    above = start - 1
    while above >= 0 and start - above <= ORDER_COMMENT_LINES:
        block = above
        while block >= 0 and file.comments[block]:
            if ORDER_REASON.search(file.comments[block]):
                return True
            if file.code[block].strip():
                break  # A comment beside code is a block of one line.
            block -= 1
        above -= 1
    return False


def check_memory_orders(file):
    """Every explicit memory order has its reason in a comment. One comment
    serves a run of adjacent accesses."""
    if file.is_test:
        return
    last_good = -2
    for index, code in enumerate(file.code):
        if "memory_order" not in code:
            continue
        if has_order_reason(file, index) or last_good == index - 1:
            last_good = index
        else:
            yield index + 1, "no comment says why this memory order " \
                             "(pairs with ..., relaxed: ...)"


WALL_CLOCK = re.compile(r"\benv_?->NowMicros\(|Env::Default\(\)->NowMicros\(")


def check_wall_clock(file):
    """The library looks at the wall clock for dates only, and says so."""
    if not file.is_library:
        return
    for index, code in enumerate(file.code):
        near = file.comments[max(0, index - ORDER_COMMENT_LINES):index + 1]
        if WALL_CLOCK.search(code) and "date" not in " ".join(near).lower():
            yield index + 1, "NowMicros without a comment that says which " \
                             "date it is for; durations: env/stopwatch.h"


CHECKS = [
    check_includes, check_baselines, check_folders, check_licence, check_pragma_once, check_size,
    check_test_doors, check_banned, check_unfinished, check_memory_orders,
    check_wall_clock, check_one_place,
]

# (check, path, text, whether the check must complain)
EXAMPLES = [
    (check_includes, "util/a.cc", '#include "env/env.h"', True),
    (check_includes, "table/a.cc", '#include "env/env.h"', False),
    (check_includes, "util/a.cc", '#include "a.h"', True),
    (check_includes, "util/a.cc", "#include <xxhash.h>", False),
    (check_includes, "db/a.cc", "#include <varve/slice.h>", True),
    (check_includes, "include/varve/a.h", '#include "util/a.h"', True),
    (check_includes, "include/varve/a.h", "#include <zstd.h>", True),
    (check_includes, "include/varve/a.h", "#include <string>", False),
    (check_includes, "test/util/a_test.cc", '#include "db/a.h"', True),
    (check_includes, "test/interop/a_test.cc", '#include "db/a.h"', False),
    (check_includes, "tools/a.cc", '#include "rocksdb/db.h"', False),
    (check_includes, "db/engine/a.cc", '#include "catalog/a.h"', True),
    (check_includes, "env/a.cc", '#include "fault_injection/a.h"', True),
    (check_includes, "db/a.cc", '#include "varve/testing/a.h"', True),
    (check_includes, "fault_injection/a.cc", '#include "db/a.h"', True),
    (check_includes, "fault_injection/a.cc", '#include "env/a.h"', False),
    (check_includes, "test/env/a_test.cc", '#include "varve/testing/a.h"',
     False),
    (check_baselines, "db/wal/a.cc", '#include "db/wal/baseline/a.h"', True),
    (check_baselines, "db/wal/baseline/b.cc",
     '#include "db/wal/baseline/a.h"', False),
    (check_baselines, "experimental/a.cc", '#include "db/wal/baseline/a.h"',
     False),
    (check_folders, "db/wal/a.cc", '#include "db/engine/a.h"', True),
    (check_folders, "db/wal/a.cc", '#include "db/a.h"', True),
    (check_folders, "db/a.cc", '#include "db/wal/a.h"', True),
    (check_folders, "db/engine/a.cc", '#include "db/wal/a.h"', False),
    (check_folders, "db/wal/a.cc", '#include "table/build/a.h"', False),
    (check_licence, "util/a.cc", "#include <string>", True),
    (check_licence, "include/varve/c.h", f"// {LICENCE}", True),
    (check_licence, "test/c/a.c", f"/* {LICENCE} */", False),
    (check_licence, "tools/a", f"#!/bin/sh\n# {LICENCE}", False),
    (check_pragma_once, "util/a.h", f"// {LICENCE}\n\n#pragma once", True),
    (check_size, "util/a.cc", "/" * (MAX_COLUMNS + 1), True),
    (check_size, "util/a.cc", "\u00e9" * MAX_COLUMNS, False),
    (check_test_doors, "db/a.cc", "  db->TEST_Wait();", True),
    (check_test_doors, "db/a.cc", "  return TEST_Wait();", True),
    (check_test_doors, "db/a.h", "  Status TEST_Wait();", False),
    (check_test_doors, "db/a.cc", "Status Impl::TEST_Wait() {", False),
    (check_banned, "util/a.cc", "  assert(x);", True),
    (check_banned, "util/a.cc", "  static_assert(x);", False),
    (check_banned, "util/a.cc", "  // not assert(x)", False),
    (check_banned, "util/a.cc", '  Log("assert(x)");', False),
    (check_banned, "util/a.cc", "  printf(x);", True),
    (check_banned, "util/a.cc", "  snprintf(x);", False),
    (check_banned, "db/a.cc", "  std::cout << x;", True),
    (check_banned, "tools/a.cc", "  printf(x);", False),
    (check_unfinished, "db/a.cc", "// TODO: more", True),
    (check_one_place, "db/a.cc", "  pthread_create(&t, nullptr, f, 0);", True),
    (check_one_place, "util/threads/background_thread.cc", "pthread_create(", False),
    (check_one_place, "db/a.cc", "  std::thread t(f);", True),
    (check_one_place, "util/a.h", "std::thread::id id;", False),
    (check_one_place, "util/a.cc", "pthread_key_create(&key, f);", True),
    (check_wall_clock, "db/a.cc", "const uint64_t a = env_->NowMicros();",
     True),
    (check_wall_clock, "db/a.cc", "// A date.\na = env->NowMicros();", False),
    (check_wall_clock, "test/db/a.cc", "a = env->NowMicros();", False),
    (check_memory_orders, "util/a.cc", "x.load(std::memory_order_relaxed);",
     True),
    (check_memory_orders, "util/a.cc", "// Some text.\n\n\n\n"
     "x.load(std::memory_order_relaxed);", True),
    (check_memory_orders, "util/a.cc", "// relaxed: a\n// hint\n// only\n//.\n"
     "x.load(std::memory_order_relaxed);\ny.load(std::memory_order_relaxed);",
     False),
    (check_memory_orders, "util/a.cc", "// relaxed: a hint.\nint y = 0;\n"
     "while (y < z &&\n       !x.compare_exchange_weak(\n           y, z,\n"
     "           std::memory_order_relaxed)) {", False),
    (check_memory_orders, "util/a.cc",
     "x.store(1, std::memory_order_release);  // pairs with Read", False),
]


def blind_checks():
    """Yields the examples that are not judged as they should be."""
    for check, path, text, bad in EXAMPLES:
        found = list(check(SourceFile(path, text)))
        if bool(found) != bad:
            verdict = "finds nothing in" if bad else "rejects"
            yield f"{check.__name__} {verdict} {path}: {text!r}: {found}"
    folder = [f"db/wal/{i}.{end}" for i in range(MAX_UNITS)
              for end in ("h", "cc")]
    if list(crowded_folders(folder)):
        yield f"crowded_folders rejects {MAX_UNITS} units"
    if not list(crowded_folders(folder + ["db/wal/one_more.h"])):
        yield f"crowded_folders accepts {MAX_UNITS + 1} units"
    if not list(crowded_folders(f"include/varve/{i}.h"
                                for i in range(MAX_PUBLIC_UNITS + 1))):
        yield f"crowded_folders accepts {MAX_PUBLIC_UNITS + 1} public headers"


def is_checked(path, top):
    """Sources, build files and scripts: all that carries the licence line."""
    if path.suffix in (".h", ".cc", ".c"):
        return True
    if path.name == "CMakeLists.txt" or path.suffix == ".py":
        return True
    if path.suffix == "" and top in ("tools", ".ci"):
        return path.read_bytes()[:2] == b"#!"
    return False


def source_files(root):
    """Yields a SourceFile for each file that the rules are for."""
    for top in ["CMakeLists.txt", "include", *LAYERS, *BESIDE, COMPAT, "test",
                ".ci"]:
        for path in [root / top] + sorted((root / top).rglob("*")):
            relative = path.relative_to(root).as_posix()
            if relative.startswith("test/fixtures/") or not path.is_file():
                continue
            if is_checked(path, top):
                text = path.read_text(encoding="utf-8", errors="replace")
                yield SourceFile(relative, text)


def main():
    here = Path(__file__).resolve()
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else here.parents[2]
    failures = 0
    for message in blind_checks():
        failures += 1
        print(f"tidy_test.py: {message}")
    sources = 0
    cpp_paths = []
    for file in source_files(root):
        sources += file.is_library
        if file.is_cpp:
            cpp_paths.append(file.path)
        if file.is_cpp and len(file.lines) > LONG_FILE_LINES:
            print(f"warning: {file.path} has {len(file.lines)} lines; "
                  f"is it one class?")
        for check in CHECKS:
            for number, message in check(file):
                failures += 1
                print(f"{file.path}:{number}: {message}")
    for folder, units in crowded_folders(cpp_paths):
        failures += 1
        print(f"{folder}: {units} units are too many for a folder")
    if sources == 0:
        failures += 1
        print(f"{root}: no source of the library found; is this the root?")
    print(f"{sources} library sources checked, {failures} violations")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
