#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Runs other people's programs on RocksDB and on Varve's librocksdb.so.

A test imports this module; the first argument of each test is the path of
Varve's library. Programs are fetched and built by the package clients into a
cache, once: VARVE_COMPAT_CACHE, or ~/.cache/varve/compat_rocksdb. They are
linked dynamically, so a new library needs no new build.

RocksDB itself is the one that the Rust crate librocksdb-sys ships, as a shared
library in the cache. It takes half an hour to build: that is done only with
VARVE_COMPAT_FULL=1, by the first test or by this module as a program. Without
it a test runs on Varve alone, and says so.
"""

import concurrent.futures
import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "programs"))
# The tests use some of these by this module.
# pylint: disable=wrong-import-position,unused-import
from programs import (FULL, NOT_RUN, need_program, not_run, print_row, run,
                      try_run, work_directory)

HERE = Path(__file__).resolve().parent
ROCKSDB_SYS = "0.19.0"  # RocksDB 11.8.1
VARVE, ROCKSDB = "Varve", "RocksDB"
DEBIAN_SONAME = "librocksdb.so.7.8"


def cache(*words):
    """Returns a directory of the cache, made if it is not there."""
    root = os.environ.get("VARVE_COMPAT_CACHE")
    place = Path(root or Path.home() / ".cache/varve/compat_rocksdb").joinpath(
        *words)
    place.mkdir(parents=True, exist_ok=True)
    return place


def find(program, *places):
    """Returns the path of a program, or ends the test as not run."""
    path = shutil.which(program,
                        path=os.pathsep.join([os.environ["PATH"], *places]))
    if path is None:
        not_run(f"there is no {program}")
    return path


def cargo():
    return find("cargo", os.path.expanduser("~/.cargo/bin"))


def go():
    return find("go", "/usr/local/go/bin")


def fetch(command, **options):
    """Runs a command that needs the network, or ends the test as not run."""
    good, output = try_run(command, **options)
    if not good:
        not_run(" ".join(output.splitlines()[-3:]))
    return output


class Library:
    """A directory with a librocksdb.so, and the environment that selects it."""

    def __init__(self, name, file, soname=None, needs=None):
        """`soname` is the name by which programs ask for the library, if not
        the library's own; `needs` a Library of which it is a part."""
        self.name = name
        self.file = Path(file).resolve()
        self.needs = needs
        found = re.search(r"SONAME.*\[(.*)\]",
                          run(["readelf", "-d", self.file]))
        if not found:
            raise AssertionError(f"{self.file} has no soname")
        self.soname = soname or found.group(1)
        # Programs ask for the soname; the library's own directory may not have
        # that name, or have other libraries too. The cache may serve several
        # builds of the library at the same time.
        path = hashlib.sha256(f"{self.file} {needs and needs.file}".encode())
        self.directory = cache("run", self.soname, path.hexdigest()[:16])
        self._link_from(self.directory)

    def _link_from(self, directory):
        links = {self.soname: self.file, "librocksdb.so": self.file}
        if self.needs:
            links[self.needs.soname] = self.needs.file
        for link, target in links.items():
            path = directory / link
            if not path.is_symlink() or path.resolve() != target:
                temporary = directory / f"{link}.{os.getpid()}"
                temporary.symlink_to(target)
                temporary.replace(path)

    def link_directory(self):
        """Returns a directory to link programs with the library. It is the same
        for each library of the soname, so that programs are not linked again;
        call it while `locked`."""
        directory = cache("libraries", VARVE, self.soname)
        self._link_from(directory)
        return directory

    def environment(self, **more):
        """Returns the environment of a program that is to use the library."""
        values = {key: value for key, value in os.environ.items()
                  if key not in ("LD_LIBRARY_PATH", "LD_PRELOAD")}
        values["LD_LIBRARY_PATH"] = str(self.directory)
        values.update({key: str(value) for key, value in more.items()})
        return values

    def check_linked(self, program):
        """Fails unless the dynamic linker gives the library to the program."""
        output = run(["ldd", program], env=self.environment())
        found = re.search(re.escape(self.soname) + r" => (\S+)", output)
        if not found or Path(found.group(1)).resolve() != self.file:
            raise AssertionError(f"{program} does not run on {self.file}:\n"
                                 f"{output}")

    def check_mapped(self, program, process):
        """Fails unless the process has the library, and no other of that name,
        in its memory."""
        self.check_maps(program,
                        Path(f"/proc/{process}/maps").read_text("utf-8"))

    def check_maps(self, program, maps):
        """The same, by the text of /proc/self/maps."""
        files = {str(Path(path).resolve())
                 for path in re.findall(r"/\S*/librocksdb[^/\s]*$", maps,
                                        re.MULTILINE)}
        expected = {str(self.file)}
        if self.needs:
            expected.add(str(self.needs.file))
        if files != expected:
            raise AssertionError(f"{program} ran on {sorted(files)} instead of "
                                 f"{self.file}")


def rust_environment(link):
    """Returns the environment in which Cargo builds programs that use the
    library, without debug information."""
    values = {"ROCKSDB_LIB_DIR": str(link.link_directory()),
              "CARGO_TARGET_DIR": str(cache("target", link.soname)),
              "CARGO_PROFILE_DEV_DEBUG": "0"}
    if "LIBCLANG_PATH" not in os.environ:
        found = sorted(Path("/usr/lib").glob("llvm-*/lib/libclang*.so*"))
        found = [path for path in found if "cpp" not in path.name]
        if not found:
            not_run("bindgen needs libclang (Debian package libclang1-16)")
        # Some crates look for this name only, which the package lacks.
        link = cache("libclang") / "libclang.so"
        if not link.exists():
            link.symlink_to(found[-1])
        values["LIBCLANG_PATH"] = str(link.parent)
    return {**os.environ, **values}


@contextlib.contextmanager
def locked():
    """No other test fetches or builds in the cache during a `with` block."""
    with open(cache() / "lock", "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def build_rocksdb(file, soname):
    """Builds RocksDB as the crate does, and makes a shared library of it."""
    place = cache("rocksdb")
    (place / "empty.rs").write_text("", "utf-8")
    (place / "Cargo.toml").write_text(
        '[package]\nname = "build"\nversion = "0.0.0"\nedition = "2021"\n'
        '[lib]\npath = "empty.rs"\n[dependencies.librocksdb-sys]\n'
        f'version = "={ROCKSDB_SYS}"\n'
        'features = ["snappy", "lz4", "zstd", "zlib", "bzip2"]\n', "utf-8")
    fetch([cargo(), "fetch"], cwd=place)
    output = run([cargo(), "build", "--release", "--message-format=json",
                  "-q"], cwd=place, timeout=4 * 3600,
                 env={**os.environ, "CARGO_TARGET_DIR": str(place / "target")})
    archives = []
    for line in output.splitlines():
        message = json.loads(line) if line.startswith("{") else {}
        if message.get("reason") == "build-script-executed":
            # zlib and bzip2 are Debian's, as everything that Varve uses.
            archives += [path for path in Path(message["out_dir"]).rglob("*.a")
                         if path.stem in ("librocksdb", "libsnappy", "liblz4",
                                          "libzstd")]
    main = [path for path in archives if path.stem == "librocksdb"]
    others = [path for path in archives if path.stem != "librocksdb"]
    run(["g++", "-shared", "-o", file, f"-Wl,-soname,{soname}",
         "-Wl,--whole-archive", *main, "-Wl,--no-whole-archive", *others,
         "-lbz2", "-lz", "-pthread", "-Wl,-z,defs"])


def rocksdb(soname):
    """Returns RocksDB, or None if it is not built and FULL is not set, or has
    another version."""
    if soname != "librocksdb.so.11":
        print(f"not run on RocksDB itself, of which there is no {soname}")
        return None
    file = cache("rocksdb") / soname
    if not file.exists():
        if not FULL:
            print("not run on RocksDB itself, which VARVE_COMPAT_FULL=1 builds")
            return None
        with locked():
            if not file.exists():
                build_rocksdb(file, soname)
    return Library(ROCKSDB, file)


def libraries():
    """Returns Varve's library, and RocksDB's unless that is not to be had."""
    varve = Library(VARVE, sys.argv[1])
    other = rocksdb(varve.soname)
    return [varve, other] if other else [varve]


def debian_rocksdb(soname=DEBIAN_SONAME):
    """Returns RocksDB as Debian packages it."""
    found = re.search(re.escape(DEBIAN_SONAME) + r".* => (\S+)",
                      run(["/sbin/ldconfig", "-p"]))
    if not found:
        not_run(f"{DEBIAN_SONAME} is missing (Debian package librocksdb7.8)")
    return Library(ROCKSDB, found.group(1), soname)


def expected_failures(name, library):
    """Returns {test: reason} of expected/NAME.txt. A line there is the library
    (Varve, RocksDB, both, or the soname that a version has), the test's name,
    and the reason. A reason that begins with "sometimes" allows the test to
    pass as well."""
    reasons = {}
    for line in (HERE / f"expected/{name}.txt").read_text("utf-8").splitlines():
        if line and not line.startswith("#"):
            who, test, reason = line.split(maxsplit=2)
            if who not in (VARVE, ROCKSDB, "both") and ".so." not in who:
                raise AssertionError(f"expected/{name}.txt: {line}")
            if who in (library.name, library.soname, "both"):
                reasons[test] = reason
    return reasons


def run_one(command, cwd, library, timeout, **more):
    """Runs one test in a directory of its own for temporary files. Returns
    (how it ended, or None if well; its output)."""
    with tempfile.TemporaryDirectory(dir=more["TMPDIR"]) as place:
        with subprocess.Popen(
                [str(word) for word in command], cwd=cwd, text=True,
                errors="replace", start_new_session=True,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=library.environment(**{**more, "TMPDIR": place})) as child:
            try:
                output = child.communicate(timeout=timeout)[0]
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, 9)
                return f"ran more than {timeout} s", child.communicate()[0]
    if child.returncode < 0:
        return f"ended by signal {-child.returncode}", output
    return (f"ended with {child.returncode}" if child.returncode else None,
            output)


def run_tests(name, tests, library, timeout=120, **more):
    """Runs tests, a dictionary {name: (command, directory)}, each in a process
    of its own. Compares the failures with expected/NAME.txt, in both
    directions. Returns whether they are the same. The outputs of all failures
    go to failures/ beside the links to the library."""
    expected = expected_failures(name, library)
    unknown = sorted(set(expected) - set(tests))
    problems = [f"there is no test {test}" for test in unknown]
    with work_directory(name) as place:
        more = {"TMPDIR": place, **more}
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            ended = dict(zip(tests, pool.map(
                lambda test: run_one(*test, library, timeout, **more),
                tests.values())))
    failed = {test: end for test, end in ended.items() if end[0]}
    logs = library.directory / "failures" / name
    shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir(parents=True)
    for test, (how, output) in sorted(failed.items()):
        (logs / f"{test}.txt").write_text(output, "utf-8")
        if test not in expected:
            problems.append(f"{test} {how}")
            print(f"-- {library.name}: {test} {how}:\n{output[-2000:]}")
    for test in sorted(set(expected) & set(ended) - set(failed)):
        if not expected[test].startswith("sometimes"):
            problems.append(f"{test} passed, but is expected to fail: "
                            f"{expected[test]}")
    print(f"{name} on {library.name}: {len(tests) - len(failed)} of "
          f"{len(tests)} pass, {len(failed)} fail", flush=True)
    for problem in problems:
        print(f"   {library.name}: {problem}", flush=True)
    return not problems


if __name__ == "__main__":
    sys.exit(0 if len(libraries()) == 2 else NOT_RUN)
