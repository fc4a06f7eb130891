#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Compares Varve with RocksDB under one program of the Rust crate rocksdb,
built once, in the release profile. RocksDB is the crate's own release build.
Each kind of work runs in turn on both libraries, each time in a process of its
own. Prints medians of the elapsed nanoseconds of an operation and of its
processor time, with all threads.

Usage: bench.py LIBRARY [ENTRIES [ROUNDS]]

Exit status: 1 if a ratio is less than is wanted, 77 if RocksDB is not built.
"""

import statistics
import sys
from pathlib import Path

from parts import (HERE, cache, cargo, fetch, libraries, locked, not_run,
                   print_row, run, rust_environment, work_directory)

VERSION = "0.25.0"
# The work; what it is called; how many times as fast Varve is to be.
WORKS = (
    ("get", "random reads of cached entries", 3),
    ("iterate_raw", "iteration, without copies", 2.5),
    ("iterate", "iteration, a copy of each entry", None),
    ("put", "single puts", 2.5),
    ("batch", "puts in batches of 100", 1.5),
)


def build(library):
    """Returns the program's path."""
    place = cache("bench")
    (place / "Cargo.toml").write_text(
        '[package]\nname = "bench"\nversion = "0.0.0"\nedition = "2021"\n'
        f'[[bin]]\nname = "bench"\npath = "{HERE}/bench.rs"\n'
        f'[dependencies]\nlibc = "0.2"\n[dependencies.rocksdb]\n'
        f'version = "={VERSION}"\ndefault-features = false\n'
        'features = ["bindgen-runtime"]\n', "utf-8")
    fetch([cargo(), "fetch", "-q"], cwd=place)
    environment = rust_environment(library)
    run([cargo(), "build", "-q", "--release"], cwd=place, env=environment,
        timeout=3600)
    return Path(environment["CARGO_TARGET_DIR"]) / "release/bench"


def measure(program, library, directory, work, entries):
    """Returns (elapsed, processor) nanoseconds of an operation."""
    output = run([program, directory, work, entries],
                 env=library.environment())
    library.check_maps("bench", output)
    elapsed, processor = output.splitlines()[0].split()
    return float(elapsed), float(processor)


def main():
    entries = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    found = libraries()
    if len(found) < 2:
        not_run("RocksDB itself is not built")
    varve, rocksdb = found
    with locked():
        program = build(varve)
    short = []
    print(f"{entries} entries, medians of {rounds}: nanoseconds of an "
          "operation (of processor time)")
    with work_directory("bench") as place:
        for library in found:
            measure(program, library, f"{place}/{library.name}", "fill",
                    entries)
        for work, name, wanted in WORKS:
            times = {varve: [], rocksdb: []}
            for number in range(rounds):
                for library in found if number % 2 else found[::-1]:
                    directory = f"{place}/{library.name}"
                    if work in ("put", "batch"):
                        directory += f"-{work}-{number}"
                    times[library].append(measure(program, library, directory,
                                                  work, entries))
            median = {library: [statistics.median(column)
                                for column in zip(*values)]
                      for library, values in times.items()}
            ratio, processor_ratio = (
                theirs / max(ours, 0.1)
                for ours, theirs in zip(median[varve], median[rocksdb]))
            print_row(name, [(library.name, f"{elapsed:.0f} ({cpu:.0f})")
                             for library, (elapsed, cpu) in median.items()]
                      + [("ratio", f"{ratio:.2f} ({processor_ratio:.2f})")])
            if wanted and ratio < wanted:
                short.append(f"{name}: {ratio:.2f} instead of {wanted}")
    for line in short:
        print(f"too slow: {line}")
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
