#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Runs other people's programs on LevelDB and on the drop-in library.

A test imports this module. The test gets the path of the drop-in library as its
first argument. The status NOT_RUN says that the machine lacks a program which
the test needs.
"""

import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

NOT_RUN = 77
SONAME = "libleveldb.so.1d"
# The machine has Debian's modules for this interpreter only.
DEBIAN_PYTHON = "/usr/bin/python3"
FULL = os.environ.get("VARVE_COMPAT_FULL", "") not in ("", "0")


def not_run(reason):
    """Ends the test with the status that means: not run."""
    print(f"not run: {reason}", flush=True)
    sys.exit(NOT_RUN)


def need_program(name, package):
    """Returns the path of a program that a Debian package installs."""
    path = shutil.which(name, path=os.environ["PATH"] + ":/usr/games:/usr/sbin")
    if path is None:
        not_run(f"{name} is missing (Debian package {package})")
    return path


def run(command, **options):
    """Returns the output of a command. A command that fails ends the test with
    an exception that shows the output."""
    options.setdefault("timeout", 600)
    done = subprocess.run([str(word) for word in command], text=True,
                          errors="replace", stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False, **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))} ended with "
                             f"{done.returncode}:\n{done.stdout[-8000:]}")
    return done.stdout


def try_run(command, **options):
    """Returns (whether the command succeeded, its output)."""
    try:
        return True, run(command, **options)
    except (AssertionError, OSError, subprocess.TimeoutExpired) as error:
        return False, str(error)


class Library:
    """A file that provides libleveldb.so.1d, and the environment that selects
    it for a program."""

    def __init__(self, name, file, selected_by_path):
        self.name = name
        self.file = Path(file).resolve()
        self.directory = Path(file).parent if selected_by_path else None

    def environment(self, **more):
        """Returns the environment of a program that is to use the library."""
        values = {key: value for key, value in os.environ.items()
                  if key not in ("LD_LIBRARY_PATH", "LD_PRELOAD")}
        if self.directory is not None:
            values["LD_LIBRARY_PATH"] = str(self.directory.resolve())
        values.update({key: str(value) for key, value in more.items()})
        return values

    def check_linked(self, program):
        """Fails unless the dynamic linker gives the library to the program."""
        found = re.search(re.escape(SONAME) + r" => (\S+)",
                          run(["ldd", program], env=self.environment()))
        self._check(program, {found.group(1)} if found else set())

    def check_mapped(self, process_id):
        """Fails unless the process has the library, and no other one of that
        name, in its memory. A process that just started gets ten seconds."""
        end = time.monotonic() + 10
        while not (paths := mapped_libraries(process_id)):
            if time.monotonic() > end:
                break
            time.sleep(0.005)
        self._check(f"process {process_id}", paths)

    def check_paths(self, program, paths):
        """Fails unless the program itself reported the library's path."""
        self._check(program, set(paths))

    def _check(self, program, paths):
        files = {str(Path(path).resolve()) for path in paths}
        if files != {str(self.file)}:
            raise AssertionError(
                f"{program} ran on {sorted(files)} instead of {self.file}")
        print(f"  {self.name}: {program} runs on {self.file}", flush=True)


def mapped_libraries(process_id="self"):
    """Returns the paths of the LevelDB libraries in a process's memory."""
    paths = set()
    for line in Path(f"/proc/{process_id}/maps").read_text("utf-8").splitlines():
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and "/libleveldb.so" in fields[5]:
            paths.add(fields[5])
    return paths


def debian_library():
    """Returns LevelDB as Debian packages it."""
    for line in run(["/sbin/ldconfig", "-p"]).splitlines():
        fields = line.split()
        if fields and fields[0] == SONAME:
            return Library("LevelDB", fields[-1], selected_by_path=False)
    not_run(f"{SONAME} is missing (Debian package libleveldb1d)")
    return None


def libraries():
    """Returns LevelDB and, if its path is the first argument, the drop-in."""
    found = [debian_library()]
    if len(sys.argv) > 1:
        if not Path(sys.argv[1]).exists():
            raise AssertionError(f"{sys.argv[1]} does not exist")
        found.append(Library("Varve", sys.argv[1], selected_by_path=True))
    return found


def work_directory(name):
    """Returns a new directory, removed when the object is. It is in memory if
    the machine has room there, because some suites sync thousands of times."""
    parent = os.environ.get("VARVE_COMPAT_DIR")
    shared = Path("/dev/shm")
    if parent is None and shared.is_dir() and os.access(shared, os.W_OK):
        if shutil.disk_usage(shared).free > 2 << 30:
            parent = shared
    return tempfile.TemporaryDirectory(prefix=f"varve-{name}-", dir=parent)


class Cost:
    """Measures the processor seconds, and the elapsed ones, of the children
    that ended within a `with` block."""

    def __enter__(self):
        self._usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        self._began = time.monotonic()
        return self

    def __exit__(self, *_):
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.user_s = usage.ru_utime - self._usage.ru_utime
        self.system_s = usage.ru_stime - self._usage.ru_stime
        self.cpu_s = self.user_s + self.system_s
        self.elapsed_s = time.monotonic() - self._began


def print_row(name, values):
    """Prints a row of figures: (library name, text) pairs."""
    print(f"| {name} | " +
          " | ".join(f"{library} {value}" for library, value in values) + " |",
          flush=True)
