#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Other people's libraries that write LevelDB's format.

Each is taken from its registry and compiled with a program in writers/. A
machine may lack a toolchain or the network: a Missing says so.
"""

import os
import shutil
from pathlib import Path

from programs import try_run

SOURCES = Path(__file__).resolve().parent / "writers"

GOLEVELDB = "github.com/syndtr/goleveldb"
JAVA = {
    "iq80": ("org.iq80.leveldb", "leveldb", "0.12"),
    "pcmind": ("io.github.pcmind", "leveldb", "1.2"),
}
SNAPPY = ("org.iq80.snappy", "snappy", "0.4")
CRATES = {
    "rusty": 'rusty-leveldb = "=4.0.2"\nflate2 = "1"\n',
    "bedrock": 'bedrock-leveldb = "=0.3.1"\n',
}
NODE = {"classic-level": "3.0.0", "leveldb-zlib": "1.2.0"}
PYTHON = {"plyvel": ("plyvel", "1.5.1"), "amulet": ("amulet-leveldb", "1.0.7")}


class Missing(Exception):
    """The machine lacks something that a writer needs."""


def find(program, *places):
    """Returns the path of a program."""
    path = shutil.which(program,
                        path=os.pathsep.join([os.environ["PATH"], *places]))
    if path is None:
        raise Missing(f"there is no {program}")
    return path


def fetch(command, directory):
    """Runs a command that needs the network. Returns its output."""
    good, output = try_run(command, cwd=directory)
    if not good:
        raise Missing(" ".join(output.splitlines()[-1:]))
    return output


def go_program(source, directory):
    """Returns the command of a Go program in writers/."""
    go = find("go", "/usr/local/go/bin")
    place = directory / source
    place.mkdir()
    shutil.copy(SOURCES / f"{source}.go", place / "main.go")
    (place / "go.mod").write_text(
        f"module varve.example/writer\n\nrequire {GOLEVELDB} v1.0.0\n", "utf-8")
    fetch([go, "mod", "tidy"], place)
    fetch([go, "build", "-o", "program", "."], place)
    return [place / "program"]


def java_writer(name, directory):
    """Returns the command of Iq80Writer with a library."""
    maven, java, javac = find("mvn"), find("java"), find("javac")
    place = directory / name
    place.mkdir()
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}"
        f"</artifactId><version>{version}</version></dependency>"
        for group, artifact, version in (JAVA[name], SNAPPY))
    (place / "pom.xml").write_text(
        '<project xmlns="http://maven.apache.org/POM/4.0.0">'
        "<modelVersion>4.0.0</modelVersion><groupId>varve.example</groupId>"
        "<artifactId>writer</artifactId><version>1</version>"
        f"<dependencies>{dependencies}</dependencies></project>", "utf-8")
    fetch([maven, "-q", "-B", "dependency:copy-dependencies",
           f"-DoutputDirectory={place}/jars"], place)
    fetch([javac, "-cp", f"{place}/jars/*", "-d", place,
           SOURCES / "Iq80Writer.java"], place)
    return [java, "-cp", f"{place}/jars/*:{place}", "Iq80Writer"]


def rust_writer(name, directory):
    """Returns the command of a Rust program in writers/."""
    cargo = find("cargo", os.path.expanduser("~/.cargo/bin"))
    place = directory / name
    (place / "src").mkdir(parents=True)
    shutil.copy(SOURCES / f"{name}_writer.rs", place / "src/main.rs")
    (place / "Cargo.toml").write_text(
        '[package]\nname = "writer"\nversion = "0.0.0"\nedition = "2021"\n'
        f"[dependencies]\n{CRATES[name]}", "utf-8")
    fetch([cargo, "build", "-q", "--target-dir", place / "target"], place)
    return [place / "target/debug/writer"]


def node_writer(name, directory):
    """Returns the command of node_writer.js with a package."""
    node, npm = find("node"), find("npm")
    place = directory / name
    place.mkdir()
    (place / "package.json").write_text('{"name": "writer"}', "utf-8")
    # Both packages contain a compiled library.
    fetch([npm, "install", "--ignore-scripts", "--no-audit",
           f"{name}@{NODE[name]}"], place)
    # leveldb-zlib searches by the major version of the kernel it was built on.
    for built in place.glob("node_modules/*/prebuilds/linux-5-x64/*.node"):
        release = built.parents[2] / "build/Release"
        release.mkdir(parents=True)
        shutil.copy(built, release)
    fetch([node, "-e", f"require('{name}')"], place)
    shutil.copy(SOURCES / "node_writer.js", place)
    return [node, place / "node_writer.js", name]


def python_writer(name, directory):
    """Returns the command of python_writer.py with a package."""
    package, version = PYTHON[name]
    place = directory / name
    fetch([find("python3"), "-m", "venv", place], directory)
    fetch([place / "bin/pip", "install", "-q", "--prefer-binary",
           f"{package}=={version}"], directory)
    return [place / "bin/python3", SOURCES / "python_writer.py", name]


# For each: its name, the function that makes its command, the function's
# argument, and arguments after DIRECTORY COUNT.
WRITERS = (
    [(f"Java {name}", java_writer, name, more)
     for name in JAVA for more in ([], ["close"])] +
    [("goleveldb", go_program, "goleveldb_writer", more)
     for more in ([], ["close"])] +
    [("rusty-leveldb", rust_writer, "rusty", [kind]) for kind in "0124"] +
    [("bedrock-leveldb", rust_writer, "bedrock", [kind]) for kind in "012"] +
    [(name, node_writer, name, []) for name in NODE] +
    [(f"PyPI {name}", python_writer, name, []) for name in PYTHON])
