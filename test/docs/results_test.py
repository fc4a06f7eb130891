#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Goal: no figure of a page is without a date or out of date unnoticed. Method:

- Each page of docs/results begins with a table of the form HEADER, one row for
  figures that were measured together: which, their date, the commits that they
  came with, the machine and its load ("not recorded" if nobody did). The line
  after it names the measured code, and says by OLDER if that code has changed
  since the oldest date.
- A table of README, or of a page in docs, takes its figures, which are in columns
  of the form ---:, from a source: from the results page that a row links to, or
  else the sentences before the table, or from a file that a marker above it names.
  A marker may give the source's name of a row:
    <!-- from results/peers.md: scans = readseq; ... -->
  The source may be any file, such as test/proof/instruction_counts.txt. In a
  sentence, `<!-- from FILE: row -->` follows the number. Each figure must be in
  that row, in the same order, possibly rounded. Only results pages, and those of
  COUNTED, may have tables of figures without a source.
- Numbers that the tree itself knows are counted (known()).
- Lists of folders, in README, docs/architecture.md and the layers' pages, name all.
- docs/published.md has each figure of tools/labs/published.py, in italics. Its other
  figures are in the results pages that their row links to.

Each check must first find the fault in a planted page.

Usage: results_test.py [--release | --mark]

--release: also fails if README quotes a page whose code has changed since. A
release must not, but each change of the code would otherwise need new results.
--mark: no test; writes OLDER into the pages that need it, and removes it from
those that do not.
"""

import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RELEASE = "--release" in sys.argv and not sys.argv.remove("--release")
HEADER = ("| figures | date | commit | machine | load |",
          "|---|---|---|---|---|")
CODE = re.compile(r"^Measured code: ((?:`[\w./]+`(?:, )?)+)\.(.*)$", re.M)
OLDER = "It has changed since."
# Pages with tables of what a test of test/proof counts: {page: the test}.
COUNTED = {"docs/table_open.md": "test/proof/table_open_test.cc"}
NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?")
WITH_UNIT = re.compile(NUMBER.pattern + r"(?: [kMG]\b)?")
RESULTS = re.compile(r"\]\(([\w/.-]*results/\w+\.md)")
MARKER = re.compile(r"<!-- from ([\w./-]+)(?:: ([^>]*?))? -->", re.S)


def read(path):
    return path.read_text(encoding="utf-8")


def git(*arguments):
    done = subprocess.run(["git", *arguments], cwd=ROOT, check=False,
                          capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def has_history():
    return git("rev-parse", "--is-shallow-repository") == "false"


def newest_change(folders):
    """The date of the newest commit that changed files other than pages."""
    return git("log", "-1", "--format=%as", "--", *folders,
               ":(exclude)*.md")


# ---- The header of a results page --------------------------------------------


def header(text):
    """([cells of a row], [folders], rest of the line of the folders) or None."""
    lines = text.split("\n")
    if tuple(lines[2:4]) != HEADER:
        return None
    rows = []
    for line in lines[4:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    code = CODE.match("\n".join(lines[len(rows) + 5:]))
    if not rows or code is None:
        return None
    return rows, re.findall(r"`([^`]+)`", code[1]), code[2].strip()


def header_faults(text, newest=lambda _: None,
                  is_commit=lambda _: True):
    found = header(text)
    if found is None:
        return ["no table of date, commit, machine and load, or no measured code"]
    rows, folders, said = found
    faults = []
    for row in rows:
        if len(row) != len(HEADER[0].strip("|").split("|")) or "" in row:
            faults.append(f"a row lacks a cell: {row}")
            continue
        _, date, commits, _, _ = row
        if not re.fullmatch(r"20\d\d-[01]\d-[0-3]\d", date):
            faults.append(f"no date: {date}")
        names = re.findall(r"`([0-9a-f]{8,40})`", commits)
        if not names:
            faults.append(f"no commit: {commits}")
        faults += [f"no commit of this tree: {name}" for name in names
                   if not is_commit(name)]
    faults += [f"no such code: {folder}" for folder in folders
               if not (ROOT / folder).exists()]
    if not faults:
        changed = newest(folders)
        if changed is not None:
            is_older = changed > min(row[1] for row in rows)
            if is_older and said != OLDER:
                faults.append(f"changed on {changed}: add \"{OLDER}\" (--mark)")
            elif not is_older and said:
                faults.append(f"the page is not older: remove \"{said}\"")
    return faults


def mark(text, newest=newest_change):
    """The text, with the sentence OLDER if it must have it."""
    found = header(text)
    if found is None:
        return text
    rows, folders, _ = found
    is_older = newest(folders) > min(row[1] for row in rows)
    return CODE.sub(lambda match: f"Measured code: {match[1]}." +
                    (f" {OLDER}" if is_older else ""), text, count=1)


# ---- Figures that are quoted -------------------------------------------------


def plain(text):
    """Of a row or label: its words, without marks."""
    text = re.sub(r"<!--.*?-->|\([^)]*\)|[`*|,:\[\]]", " ", text, flags=re.S)
    return " ".join(text.replace(" threads", "").replace(" thread", "").split())


def figure(text):
    return float(text.replace(",", ""))


def is_quote(quoted, source):
    """Whether the text of a number is another's, possibly rounded."""
    digits = len(quoted.partition(".")[2])
    half = .5 * 10 ** -digits
    if digits == 0 and abs(figure(quoted)) >= 1000:
        half = 0  # A large number is not rounded.
    return abs(figure(quoted) - figure(source)) <= half * (1 + 1e-9)


def in_order(quoted, source):
    """Whether each number is found after the one before."""
    numbers = iter(source)
    return all(any(is_quote(each, number) for number in numbers)
               for each in quoted)


def source_rows(text):
    """Lines that name figures: rows of tables, and other lines."""
    return [line for line in text.splitlines() if NUMBER.search(line)]


def split(row):
    return [cell.strip() for cell in row.strip().strip("|").split("|")]


def cells_of(row, form):
    """(label, [first number of each cell of a column of figures]). `form`: the
    second line of the table."""
    cells = split(row)
    # The 1 of a ratio's base is no measurement.
    return cells[0], [NUMBER.match(cell)[0] for cell, column in
                      zip(cells[1:], split(form)[1:], strict=False)
                      if column == "---:" and NUMBER.match(cell) and
                      cell != "1"]


def row_faults(label, figures, name, source, where):
    """A row of a table whose source has a row of that name, or of any name."""
    rows = [line for line in source_rows(source)
            if not name or f"{plain(line)} ".startswith(f"{name} ")]
    if not rows:
        return [f"{where} has no row {name}"]
    if not any(in_order(figures, NUMBER.findall(line)) for line in rows):
        return [f"{label}: {', '.join(figures)} differ from {where}: "
                f"{rows[0] if name else 'any row'}"]
    return []


def linked_faults(label, figures, sources, where):
    """A row that links to results pages."""
    numbers = {figure(number) for number in NUMBER.findall(" ".join(sources))}
    return [f"{label}: {each} is not in {', '.join(where)}" for each in figures
            if figure(each) not in numbers]


def tables(text):
    """[(paragraph before it, second line, [other rows])] of the tables."""
    lines, found, at = text.split("\n"), [], 0
    while at < len(lines):
        if not lines[at].startswith("|"):
            at += 1
            continue
        begin = at
        while at < len(lines) and lines[at].startswith("|"):
            at += 1
        if at - begin > 2:
            before = "\n".join(lines[:begin]).rstrip().rpartition("\n\n")[2]
            found.append((before, lines[begin + 1], lines[begin + 2:at]))
    return found


def quote_faults(path, text, needs_source=False):
    """What a page says of other files and they do not. The links are relative
    to the page's folder."""
    faults = []

    def source_of(name):
        file = path.parent / name
        if not file.is_file():
            faults.append(f"no source {name}")
            return ""
        return read(file)

    for before, form, rows in tables(text):
        marker = MARKER.search(before) if before.endswith("-->") else None
        names, linked = {}, []
        if marker is not None:
            names = {plain(label): plain(row) for label, _, row in
                     (each.partition("=") for each in
                      (marker[2] or "").split(";")) if row}
            labels = {plain(split(row)[0]) for row in rows}
            faults += [f"the table has no row {name}" for name in names
                       if name not in labels]
        above = RESULTS.findall(before)
        for row in rows:
            label, figures = cells_of(row, form)
            links = RESULTS.findall(row)
            linked = links or ([] if label else linked)
            if not figures:
                continue
            if marker is not None:
                faults += row_faults(
                    label, figures, names.get(plain(label), plain(label)),
                    source_of(marker[1]), marker[1])
            elif linked:
                faults += linked_faults(label, figures,
                                        map(source_of, linked), linked)
            elif above:
                faults += row_faults(label, figures, "", source_of(above[-1]),
                                     above[-1])
            elif needs_source:
                faults.append(f"{label}: a figure without a source")
    prose = "\n".join(line for line in text.split("\n")
                      if not line.startswith("|"))
    for match in re.finditer(
            r"(-?\d[\d,]*(?:\.\d+)?)(?:\s*[%\w/]+)?" + MARKER.pattern, prose):
        source = source_of(match[2])
        name = plain(match[3] or "")
        rows = [line for line in source_rows(source)
                if name and name in plain(line)]
        if not any(
                in_order([match[1]], NUMBER.findall(line)) for line in rows):
            faults.append(f"{match[1]} is not in {match[2]}: {name}")
    return faults


def quoted_results(text):
    """The results pages that a page has figures from, as it links to them."""
    found = {marker[1] for marker in MARKER.finditer(text)}
    for before, _, rows in tables(text):
        found.update(RESULTS.findall(before + " ".join(rows)))
    return sorted(name for name in found if "results/" in name)


# ---- Numbers that the tree knows ---------------------------------------------


def instructions(name):
    counts = read(ROOT / "test/proof/instruction_counts.txt")
    return int(re.search(rf"^{name}: (\d+)$", counts, re.M)[1])


def known():
    """[(what, pattern of a sentence with the number, the number)]"""
    functions = re.search(r"has the ([\d,]+) functions",
                          read(ROOT / "docs/rocksdb_c_functions.md"))[1]
    tidy = read(ROOT / "test/tidy/tidy_test.py")
    return [
        ("planted bugs",
         r"([\d,]+) (?:planted bugs|bugs apply|bugs are planted)",
         len(re.findall(r"^\[\[bug\]\]$",
                        read(ROOT / "test/planted_bugs/bugs.toml"), re.M))),
        ("fuzzers", r"([\d,]+) fuzzers",
         len(list((ROOT / "test/fuzz").glob("*_fuzz.cc")))),
        ("functions of RocksDB's C interface",
         r"([\d,]+) functions of (?:RocksDB|`rocksdb/c\.h`)",
         int(functions.replace(",", ""))),
        ("units of a folder", r"more than (\d+) units",
         int(re.search(r"^MAX_UNITS = (\d+)", tidy, re.M)[1])),
        ("programs of embedders.md", r"calls that ([\d,]+) programs make",
         len(re.findall(r"^\| \[[^|]+\]\(#[\w-]+\) \|",
                        read(ROOT / "docs/embedders.md"), re.M))),
        ("labs", r"([\d,]+) labs\b",
         len(re.findall(r"^  lab (?!all)[\w-]+ ",
                        read(ROOT / "tools/lab"), re.M))),
        ("instructions of a Get",
         r"`?Get`? (?:executes|takes) (?:about )?([\d,]+) instructions",
         instructions("Get into a string")),
        ("instructions of a Put",
         r"`?Put`? (?:executes|takes) (?:about )?([\d,]+) instructions",
         instructions("Put"))]


WORDS = ("zero one two three four five six seven eight nine ten eleven twelve "
         "thirteen fourteen fifteen sixteen seventeen eighteen nineteen "
         "twenty").split()


def known_faults(text, numbers):
    words = " ".join(text.split())
    faults = []
    for what, pattern, number in numbers:
        either = pattern.replace(r"([\d,]+)",
                                 rf"([\d,]+|(?:{'|'.join(WORDS)})\b)")
        for match in re.finditer(rf"(?i)\b{either}", words):
            said = match[1].lower()
            said = (WORDS.index(said) if said in WORDS
                    else int(said.replace(",", "")))
            if said != number:
                faults.append(f"{what}: {match[1]}, but the tree has {number}")
    return faults


def folders(directory):
    """The names of the folders that have files of the project."""
    return {path.name for path in directory.iterdir()
            if path.is_dir() and path.name[0] not in "._" and
            path.name != "build"}


def folder_faults(text, names, pattern):
    """Folders that a list lacks. The pattern matches the text of the list."""
    lists = re.findall(pattern, text, re.M | re.S)
    if not lists:
        return ["no list of folders"]
    words = set(re.findall(r"\w+", lists[0]))
    return [f"no folder {name}" for name in sorted(names - words)]


# {page: (the text of its list, the folder whose folders are in it)}
FOLDER_LISTS = {
    "README.md": (r"^```\n(include/varve +.*?)^```", "."),
    "docs/architecture.md": (r"[│|] db (.*?)[├+]", "db"),
    "db/README.md": (r"^\|(.*)", "db"),
    "table/README.md": (r"^\|(.*)", "table"),
    "util/README.md": (r"^\|(.*)", "util")}


def published_faults(text, figures):
    """What a page lacks of {lab: [(what, before, after, where)]}, and what it has
    besides."""
    wanted = {f"| {what} | *{before}* | *{after}* |"
              for rows in figures.values() for what, before, after, _ in rows}
    found = set(re.findall(r"^\| [^|]+ \| \*[^|]*\* \| \*[^|]*\* \|", text,
                           re.M))
    return sorted(wanted ^ found)


def own_figure_faults(text, pages_of_results):
    """Figures of a row, but for those in italics, that no results page which it
    links to has. {name of a page: its text}"""
    faults = []
    for row in re.findall(r"^\| .*\|$", text, re.M):
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        links = re.findall(r"\]\(results/(\w+)\.md\)", row)
        there = {number.rstrip(",") for name in links
                 for number in WITH_UNIT.findall(pages_of_results[name])}
        faults += [f"{cells[0]}: {number} is on no page that it links to"
                   for cell in cells[1:-1] if links and cell[:1] != "*"
                   for number in (found.rstrip(",")
                                  for found in WITH_UNIT.findall(cell))
                   if number not in there]
    return faults


def dated(path):
    """Pages of what was, not of what is."""
    return (path.parts[:2] in (("docs", "results"), ("docs", "decisions"))
            or path.name == "CHANGELOG.md")


def must_have_sources(path, text):
    return not dated(path) and not (
        str(path) in COUNTED and COUNTED[str(path)] in text)


def pages():
    """{path in the project: text}"""
    found = {path.relative_to(ROOT): read(path) for path in ROOT.rglob("*.md")
             if path.relative_to(ROOT).parts[0] not in
             {"build", ".git", ".cache"}}
    return dict(sorted(found.items()))


# ---- A planted page for each fault -------------------------------------------

GOOD = """# Results: x

| figures | date | commit | machine | load |
|---|---|---|---|---|
| all | 2026-11-25 | `0123abcd` | 2 processors | not recorded |

Measured code: `db/`, `table/`.

| reads | rate | other | ratio |
|---|---:|---:|---:|
| readrandom | 1 | 2,071,165 (1,849,265 to 2,123,654) | 6.52 |
| scan | 27.0 | 2.0 | |
"""


class PlantedTest(unittest.TestCase):
    def header(self, old, new, newest="2026-11-25", known_commit="0123abcd"):
        self.assertIn(old, GOOD)
        return header_faults(GOOD.replace(old, new), lambda _: newest,
                             lambda name: name == known_commit)

    def test_headers(self):
        self.assertEqual(self.header("", ""), [])
        for old, new, fault in (
                ("| 2026-11-25 |", "| in November |", "no date"),
                ("| 2026-11-25 |", "|  |", "lacks a cell"),
                ("| `0123abcd` ", "| ", "lacks a cell"),
                ("`0123abcd`", "not recorded", "no commit: "),
                ("`0123abcd`", "`4567cdef`", "no commit of this tree"),
                ("| not recorded |", "|  |", "lacks a cell"),
                ("| all | 2026-11-25 | `0123abcd` | 2 processors | not recorded "
                 "|\n", "", "no table of date"),
                ("| figures | date", "| date", "no table of date"),
                ("Measured code: `db/`, `table/`.", "", "no measured code"),
                ("`table/`", "`nowhere/`", "no such code"),
                ("`table/`.", "`table/`. Old.", "not older")):
            with self.subTest(new):
                faults = self.header(old, new)
                self.assertEqual(len(faults), 1, faults)
                self.assertIn(fault, faults[0])

    def test_an_older_page_says_so(self):
        marked = f"`table/`. {OLDER}"
        self.assertIn("add", self.header("", "", "2026-11-26")[0])
        self.assertEqual(self.header("`table/`.", marked, "2026-11-26"), [])
        self.assertIn("remove", self.header("`table/`.", marked)[0])
        older = GOOD.replace("`table/`.", marked)
        for text in (GOOD, older):
            self.assertEqual(mark(text, lambda _: "2026-11-26"), older)
            self.assertEqual(mark(text, lambda _: "2026-11-25"), GOOD)

    def quote(self, page, **more):
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "page.md"
            (path.parent / "results").mkdir()
            (path.parent / "results/x.md").write_text(GOOD, encoding="utf-8")
            return quote_faults(path, page, **more)

    def test_quotes_of_marked_tables(self):
        table = ("<!-- from results/x.md: random reads = readrandom -->\n"
                 "| a | b | c |\n|---|---:|---:|\n"
                 "| random reads | 1 | 6.5 |\n| `scan` | 27 | 2 |\n")
        self.assertEqual(self.quote(table), [])
        for old, new, fault in (
                ("6.5", "6.6", "differ"), ("| 27 |", "| 28 |", "differ"),
                ("| 27 | 2 |", "| 2 | 27 |", "differ"),
                ("`scan`", "`seek`", "no row seek"),
                ("readrandom -->", "readseq -->", "no row readseq"),
                ("random reads =", "reads =", "the table has no row reads"),
                ("results/x.md", "results/y.md", "no source")):
            with self.subTest(new):
                faults = self.quote(table.replace(old, new))
                self.assertTrue(any(fault in each for each in faults), faults)

    def test_quotes_of_linked_rows(self):
        table = ("| a | b | c |\n|---|---|---:|\n"
                 "| [reads](results/x.md) | db_bench | 2,071,165/s |\n"
                 "| | `scan` | 27 |\n")
        self.assertEqual(self.quote(table), [])
        self.assertEqual(len(self.quote(table.replace("| 27", "| 28"))), 1)
        self.assertEqual(len(self.quote(table.replace("71,165", "71,166"))), 1)

    def test_quotes_in_sentences(self):
        text = "It reads 2,071,165<!-- from results/x.md: readrandom --> a second."
        self.assertEqual(self.quote(text), [])
        self.assertEqual(len(self.quote(text.replace("2,071", "2,171"))), 1)
        self.assertEqual(len(self.quote(text.replace("readrandom", "readseq"))), 1)

    def test_figures_without_a_source(self):
        table = "| a | b |\n|---|---:|\n| reads | 7 times |\n"
        self.assertEqual(self.quote(table), [])
        self.assertEqual(len(self.quote(table, needs_source=True)), 1)
        words = table.replace("---:", "---")
        self.assertEqual(self.quote(words, needs_source=True), [])
        for name, test in COUNTED.items():
            self.assertTrue((ROOT / test).is_file())
            self.assertFalse(must_have_sources(Path(name), f"See `{test}`."))
            self.assertTrue(must_have_sources(Path(name), "Measured."))
        self.assertTrue(must_have_sources(Path("docs/x.md"), ""))
        self.assertFalse(must_have_sources(Path("docs/results/x.md"), ""))

    def test_quotes_of_tables_after_a_link(self):
        table = ("All are [here](results/x.md).\n\n"
                 "| a | b | c |\n|---|---:|---:|\n"
                 "| any row | 27 | 2 |\n| another | 2,071,165 | 6.5 |\n")
        self.assertEqual(self.quote(table, needs_source=True), [])
        for old, new in (("| 27 ", "| 28 "), ("| 27 | 2 |", "| 2 | 27 |"),
                         ("| 27 ", "| 2,071,165 "), ("x.md", "y.md")):
            with self.subTest(new):
                self.assertNotEqual(self.quote(table.replace(old, new)), [])

    def test_numbers_of_the_tree(self):
        numbers = known()
        right = {what: number for what, _, number in numbers}
        self.assertGreater(min(right.values()), 4)
        for what, sentence in (
                ("planted bugs", "The {} planted bugs are found."),
                ("fuzzers", "There are {} fuzzers."),
                ("functions of RocksDB's C interface",
                 "It has the {}\nfunctions of `rocksdb/c.h`."),
                ("units of a folder", "None has more than {} units."),
                ("programs of embedders.md", "the calls that {} programs make"),
                ("labs", "All {} labs run."),
                ("instructions of a Get", "A `Get` executes {} instructions."),
                ("instructions of a Put", "A Put takes {}\ninstructions.")):
            with self.subTest(what):
                good = sentence.format(f"{right.pop(what):,}")
                self.assertEqual(known_faults(good, numbers), [])
                self.assertEqual(
                    len(known_faults(sentence.format(3), numbers)), 1)
        self.assertEqual(right, {})
        self.assertEqual(len(known_faults("Of twelve planted bugs", numbers)), 1)


    def test_lists_of_folders(self):
        self.assertIn("compaction", folders(ROOT / "db"))
        pattern, _ = FOLDER_LISTS["README.md"]
        page = "```\ninclude/varve  x\ndb   y\n```\ntable\n"
        self.assertEqual(folder_faults(page, {"include", "db"}, pattern), [])
        self.assertEqual(folder_faults(page, {"table"}, pattern),
                         ["no folder table"])
        self.assertEqual(folder_faults("db", {"db"}, pattern),
                         ["no list of folders"])

    def test_published_figures(self):
        figures = {"lab": [("reads", "14", "300", "a study")]}
        page = "| reads | *14* | *300* | 7 |\n"
        self.assertEqual(published_faults(page, figures), [])
        for wrong in ("", page.replace("14", "15"),
                      page + "| writes | *1* | *2* | |\n"):
            self.assertNotEqual(published_faults(wrong, figures), [])
        row = "| reads | *14* | 2,561, 9 spans | [x](results/x.md) |\n"
        source = "| reads | 2,561 |\n9 spans\n"
        self.assertEqual(own_figure_faults(row, {"x": source}), [])
        self.assertEqual(own_figure_faults(row, {"x": "2,560 of 9"}),
                         ["reads: 2,561 is on no page that it links to"])


class ResultsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.pages = pages()

    def expect_none(self, faults):
        self.assertEqual(faults, [], "\n".join(faults))

    def test_each_results_page_says_when_and_where(self):
        check = has_history()
        faults = []
        for path, text in self.pages.items():
            if path.parts[:2] == ("docs", "results"):
                faults += [f"{path}: {fault}" for fault in header_faults(
                    text, newest_change if check else lambda _: None,
                    (lambda name: git("cat-file", "-e", f"{name}^{{commit}}")
                     is not None) if check else lambda _: True)]
        self.expect_none(faults)

    def test_quoted_figures_are_the_source_s(self):
        self.expect_none(
            [f"{path}: {fault}" for path, text in self.pages.items()
             for fault in quote_faults(ROOT / path, text,
                                       must_have_sources(path, text))])

    def test_lists_of_folders_are_whole(self):
        self.expect_none(
            [f"{path}: {fault}"
             for path, (pattern, directory) in FOLDER_LISTS.items()
             for fault in folder_faults(self.pages[Path(path)],
                                        folders(ROOT / directory), pattern)])

    def test_published_figures_are_the_documents(self):
        sys.dont_write_bytecode = True
        sys.path.insert(0, str(ROOT / "tools/labs"))
        import published  # pylint: disable=import-outside-toplevel
        self.assertGreater(sum(map(len, published.FIGURES.values())), 20)
        page = self.pages[Path("docs/published.md")]
        self.expect_none(published_faults(page, published.FIGURES))
        self.expect_none(own_figure_faults(page, {
            path.stem: text for path, text in self.pages.items()
            if path.parts[:2] == ("docs", "results")}))

    def test_numbers_of_the_tree(self):
        numbers = known()
        self.expect_none(
            [f"{path}: {fault}" for path, text in self.pages.items()
             if not dated(path) for fault in known_faults(text, numbers)])

    @unittest.skipUnless(RELEASE, "of a release")
    def test_readme_quotes_no_older_page(self):
        text = self.pages[Path("README.md")]
        self.expect_none(
            [f"README.md quotes {name}, which is older than its code"
             for name in quoted_results(text)
             if header(read(ROOT / name))[2]])


if __name__ == "__main__":
    if sys.argv[1:] == ["--mark"]:
        for page in (ROOT / "docs/results").glob("*.md"):
            page.write_text(mark(read(page)), encoding="utf-8")
    else:
        unittest.main()
