#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Goal: Rust crates that use RocksDB work on Varve's librocksdb.so. Method:
builds the own tests of a crate, its source unmodified, and runs each test
function in a process of its own, on Varve and on RocksDB. The failures must be
those that expected/ lists.

Usage: crates_test.py LIBRARY CRATE
"""

import json
import re
import shutil
import sys
from pathlib import Path

from parts import (cache, cargo, fetch, libraries, locked, run, run_tests,
                   rust_environment, try_run)

# For each: the version; the arguments of Cargo; replacements in the manifest.
# A published manifest lacks the tests' dependencies that have no version, and
# features that compile compressions would only take time: the library has them.
NO_FEATURES = (r"(\[dependencies\.rocksdb\]\nversion = .*\n)[^\[]*",
               r"\1default-features = false\n\n")
CRATES = {
    "rocksdb": ("0.25.0", (), ()),
    "kvdb-rocksdb": ("0.21.0", ("--lib",), (
        # The examples and benchmarks have many dependencies of their own.
        (r"\[\[(example|bench)\]\][^\[]*", ""),
        (r"\[dev-dependencies[^\[]*", ""),
        (r"\Z", '[dev-dependencies]\nkvdb-shared-tests = "0.11"\n'
                'tempfile = "3"\n'))),
    "openraft-rocksstore": ("0.9.21", (), (NO_FEATURES,)),
    "rockbound": ("0.1.0", ("--features", "test-utils"), (NO_FEATURES,)),
    "dumbo_rocks_db": ("0.2.3", (), (NO_FEATURES,)),
}


def get_source(name, version, changes):
    """Returns a directory with a copy of the crate's source, as Cargo unpacked
    and checked it."""
    place = cache("crates", name)
    source = place / "source"
    stamp = place / "stamp"
    wanted = repr((version, changes))
    if stamp.exists() and stamp.read_text("utf-8") == wanted:
        return source
    shutil.rmtree(place)
    place.mkdir()
    (place / "empty.rs").write_text("", "utf-8")
    (place / "Cargo.toml").write_text(
        '[package]\nname = "fetch"\nversion = "0.0.0"\nedition = "2021"\n'
        f'[lib]\npath = "empty.rs"\n[dependencies]\n{name} = "={version}"\n',
        "utf-8")
    fetch([cargo(), "fetch", "-q"], cwd=place)
    packages = json.loads(fetch([cargo(), "metadata", "--format-version=1",
                                 "-q"], cwd=place))["packages"]
    (manifest,) = [package["manifest_path"] for package in packages
                   if package["name"] == name]
    # The toolchain that the crate's authors use is not what is tested.
    shutil.copytree(Path(manifest).parent, source,
                    ignore=shutil.ignore_patterns("rust-toolchain*"))
    text = (source / "Cargo.toml").read_text("utf-8")
    for old, new in changes:
        text, count = re.subn(old, new, text)
        if count == 0:
            raise AssertionError(f"the manifest of {name} has no {old}")
    (source / "Cargo.toml").write_text(text + "\n[workspace]\n", "utf-8")
    fetch([cargo(), "fetch", "-q"], cwd=source)
    stamp.write_text(wanted, "utf-8")
    return source


def build(source, arguments, environment):
    """Builds the tests. Returns {target: program}."""
    good, output = try_run(
        [cargo(), "test", "--no-run", "-q",
         "--message-format=json-render-diagnostics", *arguments], cwd=source,
        timeout=3600, env=environment)
    if not good:
        raise AssertionError("\n".join(
            line for line in output.splitlines() if not line.startswith("{")))
    programs = {}
    for line in output.splitlines():
        message = json.loads(line) if line.startswith("{") else {}
        if message.get("executable") and message["profile"]["test"]:
            programs[message["target"]["name"]] = Path(message["executable"])
    return programs


def list_tests(programs, source, library):
    """Returns {name: (command, directory)} of the test functions."""
    tests = {}
    for target, program in programs.items():
        output = run([program, "--list", "--format=terse"],
                     env=library.environment())
        for line in output.splitlines():
            test, _, kind = line.rpartition(": ")
            if kind == "test":
                tests[f"{target}::{test}"] = (
                    [program, "--exact", test, "--test-threads=1"], source)
    return tests


def main():
    name = sys.argv[2]
    version, arguments, changes = CRATES[name]
    found = libraries()
    with locked():
        source = get_source(name, version, changes)
        environment = rust_environment(found[0])
        programs = build(source, arguments, environment)
    tests = list_tests(programs, source, found[0])
    good = bool(tests)
    for library in found:
        for program in programs.values():
            library.check_linked(program)
        # The tests that call Cargo are given what `cargo test` gives them, and
        # those on random input few cases.
        good &= run_tests(
            name, tests, library, CARGO=cargo(), CARGO_MANIFEST_DIR=source,
            CARGO_PKG_NAME=name, PROPTEST_CASES=20, **{
                key: environment[key] for key in
                ("ROCKSDB_LIB_DIR", "LIBCLANG_PATH", "CARGO_TARGET_DIR")})
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
