#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Goal: what README says to type works as it stands there. Method: find every
command and piece of code in it; run each as it is written, but for those that
the table below shortens, sends elsewhere or knows to be run already. A command
that is not in the table is a failure, as is an entry of the table that README
does not have.

Runs after .ci/run has built the preset "check": the preset "release" then takes
its objects from ccache.

Usage: readme_commands.py [--quick]
--quick: only the commands that build, install and measure once, and without the
tests, which the preset "check" has built.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# What a span in backquotes begins with if it is a command.
PROGRAM = re.compile(r"(tools/(quickstart|install_deps|versus|lab)|cmake|cpack|"
                     r"doxygen|examples/replicated/demo)( |$)")
# The commands of --quick, in README's order.
QUICK = ("tools/quickstart bench", "tools/install_deps",
         "cmake --preset release && cmake --build --preset release",
         "cmake --install build/release")
# Exit code of a program that could not be tried here.
NOT_RUN = 77


def commands():
    found = []
    for language, body in FENCE.findall(README):
        if language == "sh":
            lines = [line.partition(" #")[0].strip()
                     for line in body.splitlines()]
            found += [line for line in lines if line]
    prose = FENCE.sub("", README)
    for span in re.findall(r"(?<!`)`([^`]+)`(?!`)", prose):
        span = span.replace("\n", " ")
        if PROGRAM.match(span) and "NAME" not in span:
            found.append(span)
    return list(dict.fromkeys(found))


def table(scratch, quick):
    """Command as in README: (directory, command to run), or why it is not."""
    tests = "-DVARVE_BUILD_TESTS=OFF" if quick else "-DVARVE_TESTS=check"
    small = "--num=20000 --rounds=1"
    return {
        "tools/quickstart bench": (ROOT, None),
        "tools/quickstart test": "a part of .ci/nightly is this command",
        "tools/quickstart lab": (
            ROOT, "tools/quickstart lab superversion --quick "
                  f"--dir={scratch}/lab --out={scratch}/report"),
        "tools/install_deps": (ROOT, None),
        "cmake --preset release && cmake --build --preset release": (
            ROOT, f"cmake --preset release {tests} && "
                  "cmake --build --preset release"),
        "cmake --install build/release": (
            ROOT, f"cmake --install build/release --prefix {scratch}/prefix"),
        "cpack": (ROOT / "build/release",
                  "VARVE_DPKG_DEB_OPTIONS='-Zgzip -z1' "
                  f"cpack -B {scratch}/packages"),
        "tools/versus": (
            ROOT, f"tools/versus {small} --duration=1 "
                  "--benchmarks=fillseq,readrandom"),
        "tools/lab versus": (
            ROOT, "tools/lab versus --quick "
                  f"--dir={scratch}/lab --out={scratch}/report"),
        "doxygen docs/Doxyfile": (ROOT, None),
        "examples/replicated/demo": (ROOT, None),
    }


def run(command, directory, env=None):
    print(f"$ {command}", flush=True)
    begin = time.monotonic()
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", command],
                          cwd=directory, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace", check=False,
                          env={**os.environ, **(env or {})})
    if done.returncode not in (0, NOT_RUN):
        sys.exit(f"{done.stdout[-4000:]}\nreadme_commands: exit code "
                 f"{done.returncode}: {command}")
    print(f"  {'not run' if done.returncode else 'ok'}, "
          f"{time.monotonic() - begin:.0f} s", flush=True)
    return done.stdout


def embed(scratch):
    """Builds README's C++ with README's CMake and an installed Varve."""
    code = next(body for language, body in FENCE.findall(README)
                if language == "cpp")
    lines = code.replace("/tmp/layers", f"{scratch}/layers").splitlines()
    includes = [line for line in lines if line.startswith("#include")]
    rest = [line for line in lines if line not in includes]
    project = Path(scratch) / "app"
    project.mkdir()
    (project / "main.cc").write_text("\n".join([
        "#include <iostream>", "#include <memory>", "#include <string>",
        *includes, "int main() {", *rest,
        'return status.ok() && value == "clay" ? 0 : 1;', "}"]) + "\n")
    cmake = next(body for language, body in FENCE.findall(README)
                 if language == "cmake")
    package = re.search(r"find_package\(.*?\)", cmake)[0]
    link = re.search(r"^target_link_libraries\(.*?\)", cmake, re.MULTILINE)[0]
    (project / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20)\nproject(app CXX)\n"
        f"set(CMAKE_CXX_STANDARD 20)\n{package}\n"
        f"add_executable(app main.cc)\n{link}\n")
    run(f"cmake -S . -B build -DCMAKE_PREFIX_PATH={scratch}/prefix && "
        "cmake --build build && build/app", project)
    if not (Path(scratch) / "layers/CURRENT").exists():
        sys.exit("readme_commands: README's program made no database")


def main():
    quick = sys.argv[1:] == ["--quick"]
    with tempfile.TemporaryDirectory() as scratch:
        known = table(scratch, quick)
        found = commands()
        for command in found:
            if command not in known:
                sys.exit(f"readme_commands: not known how to try: {command}")
        for command in known:
            if command not in found:
                sys.exit(f"readme_commands: README has no more: {command}")
        for command in found:
            how = known[command]
            if quick and command not in QUICK:
                continue
            if isinstance(how, str):
                print(f"$ {command}\n  {how}")
                continue
            directory, shortened = how
            output = run(shortened or command, directory)
            if command == "tools/quickstart bench" and not re.search(
                    r"^readrandom +:.* ops/sec ", output, re.MULTILINE):
                sys.exit("readme_commands: no figure of readrandom")
        embed(scratch)


if __name__ == "__main__":
    main()
