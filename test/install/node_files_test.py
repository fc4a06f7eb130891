#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Goal: the files by which the replicated store's node is packed name only what there
is. Method: the text of the Containerfile, which takes an engine and images of others
to build, and of the files for Debian, is compared with the project's. Each check of
the Containerfile must first find the fault in a bad one.
examples/replicated/packaging/test_package installs Debian's package.

usage: node_files_test.py"""

import json
import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STORE = ROOT / "examples/replicated"
INSTRUCTIONS = {"FROM", "WORKDIR", "COPY", "RUN", "USER", "VOLUME", "EXPOSE",
                "STOPSIGNAL", "ENTRYPOINT"}


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


def instructions(text):
    """(name, arguments) of each instruction; a backslash continues a line."""
    lines = [line for line in text.splitlines()
             if line.strip() and not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [tuple(line.split(None, 1)) for line in joined.splitlines()]


def targets():
    found = set()
    for path in ROOT.rglob("CMakeLists.txt"):
        if path.relative_to(ROOT).parts[0] != "build":
            found.update(re.findall(r"\b(?:varve_)?add_\w+\(\s*(\w+)",
                                    path.read_text(encoding="utf-8")))
    return found


def presets():
    return {preset["name"] for preset in
            json.loads(read("CMakePresets.json"))["configurePresets"]}


def node_options():
    found = set()
    for path in (STORE / "cmd/varve-node").glob("*.go"):
        found.update(re.findall(r'flags?\.\w+\([^"\n]*"([\w-]+)"',
                                path.read_text(encoding="utf-8")))
    return found


def faults(text):
    """What is wrong with a Containerfile."""
    found, stages, commands = [], [], ""
    parsed = instructions(text)
    if parsed[0][0] != "FROM":
        found.append("it does not begin with FROM")
    for name, words in parsed:
        if name not in INSTRUCTIONS:
            found.append(f"instruction {name}")
        if name == "FROM":
            stages.append(words.partition(" AS ")[2])
        if name == "RUN":
            commands += words + "\n"
        if name != "COPY":
            continue
        *sources, _ = [word for word in words.split() if word[:2] != "--"]
        stage = re.match(r"--from=(\S+)", words)
        if stage and stage[1] not in stages[:-1]:
            found.append(f"stage {stage[1]}")
        for source in () if stage else sources:
            if not (ROOT / source).exists():
                found.append(f"source {source}")
    for preset in re.findall(r"--preset (\S+)", commands):
        if preset not in presets():
            found.append(f"preset {preset}")
    for words in re.findall(r"--target ([\w ]+)", commands):
        found += [f"target {one}" for one in words.split()
                  if one not in targets()]
    installs = read("packaging/install.cmake")
    for component in re.findall(r"--component (\w+)", commands):
        if f"COMPONENT {component}" not in installs and \
                f"${{prefix}}{component}" not in installs:
            found.append(f"component {component}")
    for package in re.findall(r"\./cmd/[\w-]+", commands):
        if not (STORE / package).is_dir():
            found.append(f"program {package}")
    return found


class ContainerfileTest(unittest.TestCase):
    TEXT = read("examples/replicated/packaging/Containerfile")

    def test_it_names_what_there_is(self):
        bad = """RUN make
            COPY nothing/here tools/install_deps /x/
            FROM a AS one
            MAINTAINER me
            COPY --from=two /x /y
            RUN cmake --preset none && cmake --build --preset release \\
              --target nothing varve && cmake --install x --component bad
            RUN go build ./cmd/none"""
        self.assertEqual(faults(bad), [
            "it does not begin with FROM", "source nothing/here",
            "instruction MAINTAINER", "stage two", "preset none",
            "target nothing", "component bad", "program ./cmd/none"])
        self.assertEqual(faults(self.TEXT), [])

    def test_nothing_that_it_needs_is_ignored(self):
        ignored = read("examples/replicated/packaging/Containerfile.dockerignore")
        self.assertEqual(ignored.split(), ["build/"])

    def test_go_is_new_enough(self):
        least = re.search(r"^go (\d+)\.(\d+)", read("examples/replicated/go.mod"),
                          re.MULTILINE)
        image = re.search(r"golang:(\d+)\.(\d+)-", self.TEXT)
        self.assertGreaterEqual(tuple(map(int, image.groups())),
                                tuple(map(int, least.groups())))

    def test_it_has_every_library(self):
        """Their packages have the same names, but for an ABI's number."""
        libraries = re.search(r"^libraries=\(([^)]*)\)", read("tools/install_deps"),
                              re.MULTILINE)[1].split()
        commands = " ".join(words for name, words in instructions(self.TEXT)
                            if name == "RUN")
        installed = re.search(r"--no-install-recommends ([^&]*)&&",
                              commands)[1].split()
        for library in libraries:
            stem = re.sub(r"-dev$", "", library)
            self.assertTrue([name for name in installed if name.startswith(stem)],
                            library)

    def test_the_program_is_told_a_file_that_there_is(self):
        last = dict(instructions(self.TEXT))
        program, option, path = json.loads(last["ENTRYPOINT"])
        self.assertIn(option.lstrip("-"), node_options())
        self.assertRegex(self.TEXT, rf"-o /image/usr/local/bin/{program} ")
        self.assertRegex(self.TEXT, rf"(?m)^COPY \S+ {re.escape(path)}$")
        self.assertIn(f"-o {last['USER']} ", self.TEXT)
        self.assertIn(f" {last['VOLUME']}\n", self.TEXT)


class FilesTest(unittest.TestCase):
    def test_the_options_are_known(self):
        lines = re.findall(r"(?m)^#?([a-z-]+) +(\S+)$",
                           read("examples/replicated/packaging/node.conf"))
        self.assertGreaterEqual(len(lines), 7)
        self.assertIn(("dir", "/var/lib/varve"), lines)
        for name, _ in lines:
            self.assertIn(name, node_options())

    def test_the_package_has_what_its_rules_name(self):
        folder = STORE / "packaging/debian"
        for name in (folder / "varve-node.docs").read_text().split():
            self.assertTrue((STORE / name).exists(), name)
        rules = (folder / "rules").read_text()
        for path in re.findall(r"\$\(VARVE_NODE_SOURCE\)/([\w./-]+)", rules):
            self.assertTrue((STORE / path).exists(), path)
        unit = (STORE / "varve-node.service").read_text()
        self.assertIn("ExecStart=/usr/local/bin/varve-node --config "
                      "/etc/varve/node.conf\n", unit)
        self.assertIn("s,/usr/local/bin/,/usr/bin/,", rules)
        self.assertIn("User=varve\n", unit)

    def test_a_reload_too_early_does_not_end_the_service(self):
        """systemd takes the end by SIGHUP for a success, unless it is told."""
        unit = (STORE / "varve-node.service").read_text()
        self.assertIn("ExecReload=/bin/kill -HUP $MAINPID\n", unit)
        self.assertIn("Restart=on-failure\n", unit)
        self.assertIn("RestartForceExitStatus=SIGHUP\n", unit)


if __name__ == "__main__":
    unittest.main()
