#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Goal: what the pages say can be done. Method: follow each link and anchor;
look for each file, test, option, flag, benchmark and ablation that is named;
compile each piece of C++; run each block of commands under `<!-- run -->`, and
each under `<!-- run small -->` with fewer entries and shorter. Each check must
first find the fault in a bad page.

Usage: docs_test.py BUILD_DIR
"""

import fnmatch
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT
LAYERS = ("util", "env", "monitoring", "table", "db", "catalog", "tools", "test",
          "docs", "include", "examples", "packaging")
FENCE = re.compile(r"^(<!-- run(?: small)? -->\n)?```(\w*)\n(.*?)^```$",
                   re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"(?<!`)`([^`]+)`(?!`)")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
INCLUDES = "".join(f"#include <{name}>\n" for name in (
    "cstdint", "iostream", "memory", "string", "vector"))


def pages():
    found = sorted(path for path in ROOT.rglob("*.md")
                   if path.relative_to(ROOT).parts[0] not in {
                       "build", ".git", ".cache"})
    return {path: path.read_text(encoding="utf-8") for path in found}


def without_code(text):
    return SPAN.sub("", FENCE.sub("", text))


def spans(text):
    """Code in the text, of which a line may have been broken."""
    return [re.sub(r"(?<=[/=,])\s+", "", span).replace("\n", " ")
            for span in SPAN.findall(FENCE.sub("", text))]


def blocks(text, *languages):
    """[(how it is run: "", "run" or "run small", body)]."""
    return [(run.strip("<!-> \n"), body)
            for run, language, body in FENCE.findall(text)
            if language in languages]


def anchors(text):
    """Those that a page's headings get, and those that it makes itself."""
    found = set(re.findall(r'<a id="([^"]+)"', text))
    for line in FENCE.sub("", text).splitlines():
        heading = re.match(r"#+ (.*)", line)
        if heading:
            words = re.sub(r"[`*]|\]\([^)]*\)|\[", "", heading[1]).lower()
            found.add(re.sub(r"[^\w\- ]", "", words).replace(" ", "-"))
    return found


def commands(text):
    """Commands of blocks, and of spans, that begin a db_bench or versus:
    [(program, words behind it)]."""
    bodies = [body for _, body in blocks(text, "", "sh", "bash")]
    bodies += re.findall(r"(?:^ {4}.*\n)+", FENCE.sub("", text), re.MULTILINE)
    lines = []
    for body in bodies:
        body = re.sub(r"\\\n|\n\s+(?=--|\[)", " ", body)
        lines += body.splitlines()
    lines += spans(text)
    for line in lines:
        for part in re.split(r"[|;&]| \$\(", line.replace("[", "").replace(
                "]", "")):
            words = part.split()
            for index, word in enumerate(words):
                name = word.rsplit("/", 1)[-1]
                if name in ("db_bench", "versus", "lab", "varve",
                            "varve-node"):
                    behind = words[index + 1:]
                    if "#" in behind:
                        behind = behind[:behind.index("#")]
                    yield name, behind
                    break


# ---- The checks: each returns what is wrong ---------------------------------


def check_links(path, text, texts):
    wrong = []
    for target in LINK.findall(without_code(text)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (path.parent / name).resolve() if name else path
        if not file.exists():
            wrong.append(f"link to {target}")
        elif anchor and anchor not in anchors(
                texts.get(file) or file.read_text(encoding="utf-8")):
            wrong.append(f"anchor of {target}")
    return wrong


def check_paths(path, text):
    """A path stands for itself, or for the files of that name."""
    wrong = []
    for span in spans(text):
        if not re.fullmatch(rf"({'|'.join(LAYERS)})/[\w./*<>-]+", span):
            continue
        pattern = re.sub(r"<\w+>", "*", span).rstrip("/")
        if not (any(ROOT.glob(pattern)) or any(ROOT.glob(pattern + ".*")) or
                any(path.parent.glob(pattern))):
            wrong.append(f"path {span}")
    return wrong


class Names:
    """What there is to be named."""

    def __init__(self):
        self.source = "".join(
            path.read_text(encoding="utf-8")
            for layer in ("include", *LAYERS[:7], "test")
            for path in sorted((ROOT / layer).rglob("*"))
            if path.suffix in (".h", ".cc", ".py", ".txt") and
            path != Path(__file__).resolve())
        cases = re.findall(r"^(?:TYPED_)?TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)",
                           self.source, re.MULTILINE)
        self.cases = {f"{suite}.{case}" for suite, case in cases}
        self.suites = {suite for suite, _ in cases}
        folders = {path.relative_to(ROOT / "test").parts[0]
                   for path in ROOT.glob("test/**/*_test.cc")}
        # Also those that CMake makes of lists.
        self.tests = ({f"{folder}.{case}" for case in self.cases
                       for folder in folders} |
                      {f"ablation.{name}" for name in re.findall(
                          r"\b\w+=\w+\b", self.source)} |
                      set(re.findall(
                          r'add_(?:python_test\(|test\(\s*NAME\s+)"?([\w.]+)',
                          self.source)))
        self.tests |= {f"fuzz.{path.stem}" for path in ROOT.glob(
            "test/fuzz/*_fuzz.cc")}
        text = self.help("db_bench")
        self.flags = {"db_bench": set(re.findall(r"^ +-(\w+) \(", text,
                                                 re.MULTILINE)) |
                      {"help", "version"}}
        self.benchmarks = set(re.findall(r"^  ([a-z][a-z0-9-]*) +[a-z0-9]",
                                         text, re.MULTILINE))
        text = self.help("varve")
        for command in re.findall(r"^  ([a-z-]+) +[a-z]", text, re.MULTILINE):
            text += self.help("varve", command)
        self.flags["varve"] = set(re.findall(r"--([\w-]+)", text)) | {
            "version"}
        self.flags["versus"] = set(re.findall(r"--([\w-]+)",
                                              self.help("versus")))
        self.flags["lab"] = {
            flag for name in ("bench", "scale") for flag in re.findall(
                r'"--([\w-]+)"',
                (ROOT / f"tools/labs/{name}.py").read_text("utf-8"))} | {"help"}
        self.flags["peers"] = set(re.findall(
            r'flag\.\w+\([^"]*"(\w+)"',
            (ROOT / "tools/peers/go/bench/bench.go").read_text("utf-8")))
        self.flags["varve-node"] = {
            flag for path in ROOT.glob("examples/replicated/cmd/varve-node/*.go")
            for flag in re.findall(r'flags?\.\w+\([^"]*"([\w-]+)"',
                                   path.read_text("utf-8"))} | {"help"}
        header = "".join(
            (ROOT / path).read_text("utf-8") for path in
            ("experimental/ablation.h", "util/base/experiment.h"))
        self.ablations = set()
        for enum, body in re.findall(r"enum class (\w+Mode)[^{]*\{([^}]*)\}",
                                     header):
            field = re.search(rf"^  {enum} (\w+) = \{{\}};$", header,
                              re.MULTILINE)[1]
            for value in re.findall(r"\bk([A-Z]\w*)", body):
                self.ablations.add(f"{field}={value.lower()}")

    @staticmethod
    def help(name, *command):
        program = (ROOT / "tools" / name if name == "versus"
                   else BUILD / name)
        done = subprocess.run([program, *command, "--help"],
                              capture_output=True, text=True, check=False)
        return done.stdout + done.stderr


def check_commands(text, names):
    wrong = []
    for program, words in commands(text):
        known = names.flags[program]
        for word in words:
            if word == "--":
                known = names.flags["db_bench"]  # versus hands them on.
                continue
            match = re.match(r"--?([A-Za-z][\w-]*)(?:=(.*))?$", word)
            if not match:
                if (program == "db_bench" and re.fullmatch(r"[a-z]{4,}", word)
                        and word not in names.benchmarks):
                    wrong.append(f"benchmark {word}")
                continue
            flag, value = match.groups()
            if flag not in known:
                wrong.append(f"flag --{flag} of {program}")
            if flag == "benchmarks" and value:
                for name in re.split(r"[,+]", value):
                    if name.split("@")[0] not in names.benchmarks:
                        wrong.append(f"benchmark {name}")
    return wrong


def check_ablations(text, names):
    wrong = []
    for name, values in re.findall(r"--ablate=(\w+)=([\w|]+)", text):
        if name == "NAME":
            continue
        wrong += [f"ablation {name}={value}" for value in values.split("|")
                  if f"{name}={value.replace('_', '')}" not in
                  names.ablations]
    return wrong


def check_flags_alone(text, names):
    """A flag that stands by itself is one of some tool's."""
    known = set().union(*names.flags.values())
    wrong = []
    for span in spans(text):
        for flag in re.findall(r"^--(\w[\w-]*)", span):
            # Up to a dash, flags of other programs are looked for in sources.
            name = flag.split("-")[0]
            if (not {flag, name} & known and
                    name + '"' not in names.source):
                wrong.append(f"flag --{flag}")
    return wrong


def check_tests(text, names):
    wrong = []
    code = spans(text) + [body for _, body in blocks(text, "", "sh")]
    for word in code:
        if re.fullmatch(r"[A-Z]\w*Test(\.[A-Z]\w+)?", word):
            if word not in names.cases and word not in names.suites:
                wrong.append(f"test {word}")
        for pattern in re.findall(r"--gtest_filter='?([^'\s]+)", word):
            for one in pattern.split(":"):
                if not fnmatch.filter(names.cases, one):
                    wrong.append(f"test {one}")
        for pattern in re.findall(r"ctest .*?-R +'?([^'\s]+)", word):
            for one in pattern.split("|"):
                if not any(re.search(one, test) for test in names.tests):
                    wrong.append(f"test {one}")
    return wrong


def check_names(text, names):
    """Functions and types, where a page walks through the code."""
    wrong = []
    for span in spans(text):
        match = re.fullmatch(r"(?:\w+::)*(~?[A-Z]\w+)(?:\(\))?", span)
        if match and not re.search(rf"\b{match[1]}\b", names.source):
            wrong.append(f"name {span}")
    return wrong


def check_cpp(texts):
    """Of all pages at once: a compiler takes its time for the headers."""
    source = INCLUDES + "".join(
        f'#include "{path.relative_to(ROOT / "include")}"\n'
        for path in sorted((ROOT / "include/varve").rglob("*.h"))
        if not path.name.startswith("c_"))
    for name, text in texts:
        for number, (_, body) in enumerate(blocks(text, "cpp")):
            lines = [line for line in body.splitlines()
                     if not line.startswith("#include")]
            source += ("namespace {\n[[maybe_unused]] void Example"
                       f"{len(source)}() {{\n"
                       f'#line 1 "{name}: C++ block {number + 1}"\n' +
                       "\n".join(lines) + "\n}\n}\n")
    done = subprocess.run(
        [os.environ.get("CXX", "g++"), "-std=c++20", "-fsyntax-only",
         f"-I{ROOT}/include", "-x", "c++", "-"], input=source,
        capture_output=True, text=True, check=False)
    return re.findall(r"^.*C\+\+ block.* error: .*$", done.stderr,
                      re.MULTILINE) or [done.stderr] * done.returncode


# What fio says where the kernel or a sandbox refuses io_uring, which it needs
# for the last command of a block.
NO_IO_URING = r"io_queue_init|io_uring.*not (permitted|implemented)"


def shortened(script):
    """The same commands, for a second or few entries."""
    for flag, value in (("num", 20000), ("duration", 1), ("runtime", 1)):
        script = re.sub(rf"--{flag}=\d+", f"--{flag}={value}", script)
    return script


def check_shell(text):
    wrong = []
    for run, body in blocks(text, "sh", "bash"):
        script = re.sub(r"<[\w ]+>|\[[^]]*\]", "x", body) if not run else body
        done = subprocess.run(["bash", "-n"], input=script, text=True,
                              capture_output=True, check=False)
        if done.returncode == 0 and run:
            if run == "run small":
                script = shortened(script)
            # Not in memory: direct reads are refused there.
            with tempfile.TemporaryDirectory(
                    dir=os.environ.get("TEST_TMPDIR", "/var/tmp")) as directory:
                path = f"{BUILD}:{ROOT}/tools:{os.environ['PATH']}"
                done = subprocess.run(
                    ["bash", "-euo", "pipefail"], input=script, text=True,
                    capture_output=True, cwd=directory, check=False,
                    env={**os.environ, "PATH": path})
        if done.returncode != 0 and not re.search(
                NO_IO_URING, done.stdout + done.stderr):
            wrong.append(f"commands: {body}{done.stdout[-2000:]}"
                         f"{done.stderr[:2000]}")
    return wrong


class DocsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.pages = pages()
        cls.names = Names()

    def each(self, check, *more):
        wrong = [f"{path.relative_to(ROOT)}: {each}"
                 for path, text in self.pages.items()
                 for each in check(path, text, *more)]
        self.assertEqual(wrong, [], "\n".join(wrong))

    def of_text(self, check):
        self.each(lambda _, text: check(text, self.names))

    def test_links_and_anchors(self):
        self.assertEqual(len(check_links(
            ROOT / "README.md", "[a](no.md) [b](#no) [c](README.md#no)",
            self.pages)), 3)
        self.each(check_links, self.pages)

    def test_paths(self):
        self.assertEqual(check_paths(ROOT / "README.md", "`db/no.cc`"),
                         ["path db/no.cc"])
        self.each(check_paths)

    def test_commands(self):
        bad = ("```sh\ndb_bench --no=1 --benchmarks=fillseq,no readno \\\n"
               "  --nono\ntools/versus --no -- --nonono\n```\n")
        self.assertEqual(len(check_commands(bad, self.names)), 6)
        self.of_text(check_commands)

    def test_ablations(self):
        bad = "`--ablate=no=way` `--ablate=superversion=no`"
        self.assertEqual(len(check_ablations(bad, self.names)), 2)
        self.of_text(check_ablations)

    def test_flags(self):
        self.assertEqual(check_flags_alone("`--no_such`", self.names),
                         ["flag --no_such"])
        self.of_text(check_flags_alone)

    def test_tests(self):
        bad = ("`NoTest` `BlockTest.No` `ctest -R ^no` "
               "`x --gtest_filter='*No:*Nono'`")
        self.assertEqual(len(check_tests(bad, self.names)), 5)
        self.of_text(check_tests)

    def test_names(self):
        self.assertEqual(check_names("`DBImpl::NoSuch` `NoneOfIt()`",
                                     self.names),
                         ["name DBImpl::NoSuch", "name NoneOfIt()"])
        for name in ("architecture.md", "tuning.md"):
            self.assertEqual(
                check_names(self.pages[ROOT / "docs" / name], self.names), [])

    def test_cpp(self):
        bad = [("x", "```cpp\nvarve::No no;\n```\n")]
        self.assertIn("x: C++ block 1", " ".join(check_cpp(bad)))
        texts = [(path.relative_to(ROOT), text)
                 for path, text in self.pages.items()]
        self.assertEqual(check_cpp(texts), [])

    def test_shell(self):
        self.assertEqual(len(check_shell("```sh\nif\n```\n")), 1)
        self.assertEqual(len(check_shell(
            "<!-- run -->\n```sh\nfalse\n```\n")), 1)
        self.assertEqual(len(check_shell(
            "<!-- run small -->\n```sh\ntest --num=20000 != --num=7\n```\n"
        )), 1)
        self.each(lambda _, text: check_shell(text))

    def test_commands_of_results_are_run(self):
        page = self.pages[ROOT / "docs/results/table_open.md"]
        found = [run for run, _ in blocks(page, "", "sh")]
        self.assertGreaterEqual(len(found), 3)
        self.assertEqual(set(found), {"run small"})

    def test_options_page_is_up_to_date(self):
        generate = ROOT / "tools" / "generate_options_doc"
        done = subprocess.run([sys.executable, generate, "--check"],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_page_of_rocksdb_functions_is_up_to_date(self):
        generate = ROOT / "compat" / "rocksdb" / "generate.py"
        done = subprocess.run([sys.executable, generate, "--page", "--check",
                               ROOT / "docs"],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    BUILD = Path(sys.argv.pop(1)).resolve()
    unittest.main()
