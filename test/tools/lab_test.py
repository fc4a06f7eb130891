#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Goal: tools/lab measures what each lab is about, and its page loads nothing,
fits a phone, draws without an error, and says of each chart which direction is
better. Method: run all labs on a few entries; look through the page, and have a
browser without a screen lay it out; give the parts of a report known figures.

Usage: lab_test.py DB_BENCH [CLASS...]
"""

import html
import html.parser
import itertools
import json
import re
import subprocess
import sys
import tempfile
import unittest
import xml.dom.minidom
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LAB = ROOT / "tools" / "lab"
DB_BENCH = ""
NAMES = ["superversion", "read-path", "statistics", "table-open", "tracing",
         "transactions", "cores", "versus"]
# The labs that are about an idea, in the order of the page.
IDEAS = ["superversion", "statistics", "table-open", "tracing", "transactions",
         "cores"]
# What the page says of its own layout.
PROBE = """<script>
const root = document.documentElement;
const wide = [...document.querySelectorAll("figure svg, h1, h2, p, nav")]
    .filter(e => e.getBoundingClientRect().right > root.clientWidth + 1);
const tables = [...document.querySelectorAll(".wide, pre")];
// What is wider than its place can be scrolled by keys, and shows it.
const scrolled = tables.filter(e => e.scrollWidth > e.clientWidth);
const hidden = scrolled.filter(e => e.tabIndex !== 0 ||
    !getComputedStyle(e).backgroundAttachment.includes("local") ||
    !getComputedStyle(e).backgroundImage.includes("gradient"));
const flat = [...document.querySelectorAll("figure > svg")]
    .filter(e => e.getBoundingClientRect().height < 60);
// Columns that matter are on the screen before anything is scrolled.
const unseen = [...document.querySelectorAll(".matters")]
    .filter(e => e.getBoundingClientRect().right > root.clientWidth);
document.title = `scroll=${root.scrollWidth} client=${root.clientWidth} ` +
    `wide=${wide.length} flat=${flat.length} hidden=${hidden.length} ` +
    `scrolled=${scrolled.length} unseen=${unseen.length}`;
</script></body>"""


class Page(html.parser.HTMLParser):
    """Tags, ids and references of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags = []
        self.ids = set()
        self.references = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.add(value)
            if name in ("src", "href", "xlink:href", "srcset", "data"):
                self.references.append(value)


def run_lab(*arguments):
    return subprocess.run([str(LAB), *arguments], capture_output=True,
                          text=True, check=False)


def in_labs(code):
    """What a program with the labs' modules prints."""
    with LAB.open(encoding="utf-8") as script:
        python = script.readline().strip("#!\n")
    return subprocess.run(
        [python, "-c", "import sys; sys.dont_write_bytecode = True\n"
         f"sys.path.insert(0, {str(ROOT / 'tools' / 'labs')!r})\n{code}"],
        capture_output=True, text=True, check=True).stdout


def browse(directory, text, width):
    """The document after it was drawn, and what was said to the console."""
    path = Path(directory) / "probe.html"
    path.write_text(text, encoding="utf-8")
    done = subprocess.run(
        ["chromium-headless-shell", "--no-sandbox", "--disable-gpu",
         "--enable-logging=stderr", "--hide-scrollbars",
         f"--user-data-dir={directory}/profile",
         f"--window-size={width},900", "--dump-dom", f"file://{path}"],
        capture_output=True, text=True, check=True)
    return done.stdout, re.findall(r".*CONSOLE.*", done.stderr)


class LabTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.TemporaryDirectory()
        cls.done = run_lab("all", "--quick", f"--db_bench={DB_BENCH}",
                           f"--dir={cls.place.name}/db",
                           f"--out={cls.place.name}")
        path = Path(cls.place.name) / "report.html"
        cls.text = path.read_text(encoding="utf-8") if path.exists() else ""
        cls.page = Page(cls.text)

    @classmethod
    def tearDownClass(cls):
        cls.place.cleanup()

    def test_measures_all(self):
        self.assertEqual(self.done.returncode, 0, self.done.stderr)
        for name in NAMES:
            self.assertIn(name, self.page.ids)
            section = self.text.split(f'<section id="{name}">')[1]
            section = section.split("</section>")[0]
            self.assertIn("<td>", section, name)
            self.assertIn("commands of this section", section, name)
            self.assertRegex(section, "(db|cores)_bench", name)
        self.assertGreaterEqual(self.page.tags.count("figure"), 7)
        self.assertEqual(self.page.tags.count("figure"),
                         self.text.count("<svg role="))
        self.assertIn("|---", self.done.stdout)
        self.assertIn("round 1", self.done.stderr)

    def test_says_which_direction_is_better(self):
        figures = re.findall(r"<figure>.*?</figure>", self.text, re.DOTALL)
        self.assertGreater(len(figures), 7)
        for figure in figures:
            caption = re.search(r"<figcaption>(.*?)</figcaption>", figure)[1]
            # What takes which share of a whole is neither.
            directed = "Share of the processor" not in caption
            self.assertEqual(
                len(re.findall(r"\((?:more|less) is better\)</text>", figure)),
                int(directed), caption)

    def test_tells_of_each_idea_what_is_known(self):
        ideas = [part.split("</div>\n<h2>")[0] for part in
                 self.text.split('<div class="idea">')[1:]]
        self.assertEqual(len(ideas), len(IDEAS))
        for name, idea in zip(IDEAS, ideas):
            self.assertIn(f"<code>tools/quickstart lab {name}</code>", idea)
            self.assertIn(f'<a href="#{name}">', idea)
            for place in re.search("In the code: (.*?)All figures", idea,
                                   re.DOTALL)[1].split(", "):
                file = re.search("<code>(.*)</code>", place)[1]
                self.assertTrue((ROOT / file).exists(), file)
            self.assertEqual("published: " in idea, name != "cores", name)
            self.assertEqual("measured, " in idea, name != "cores", name)
            simulated = name != "table-open"
            self.assertEqual("simulated, " in idea, simulated, name)
            self.assertEqual("<figure>" in idea, simulated, name)
            self.assertEqual("Not simulated: " in idea, not simulated, name)

    def test_a_single_lab_tells_its_idea_too(self):
        printed = in_labs("""
from report import Report
report = Report("x")
report.section("a", "A", ("idea of a", "claim", "place"),
               [("a figure", "7", "8", "a document")])
report.result("what", "baseline", "1", "2", "2")
body = []
report.tell_story(body)
print("\\n".join(body))
""")
        self.assertIn("published: a document", printed)
        self.assertIn("measured, baseline", printed)

    def test_says_why_an_idea_is_not_simulated_only_where_it_cannot_be(self):
        printed = in_labs("""
from report import Report
report = Report("x")
report.section("a", "A", ("idea of a", "claim", "place"))
report.section("b", "B", ("idea of b", "claim", "place"), unsimulated="a cause")
body = []
report.tell_story(body)
print("\\n".join(body))
""")
        self.assertEqual(printed.count("Not simulated: "), 1)
        self.assertIn("<p>Not simulated: a cause</p>", printed)

    def test_limits_are_beside_each_simulated_chart(self):
        figures = re.findall(r"<figure>.*?</figure>", self.text, re.DOTALL)
        simulated = [each for each in figures if "(simulated)<" in each]
        self.assertGreater(len(simulated), 12)
        for figure in simulated:
            self.assertRegex(figure, '<p class="note">A simulation: .*</p>')
        page = (Path(self.place.name) / "cores.md").read_text("utf-8")
        for chart in re.findall(r"^!\[.*\n\n(.*)$", page, re.MULTILINE):
            self.assertTrue(chart.startswith("A simulation: "), chart)
        for name in re.findall(r"\((\w+\.svg)\)", page):
            self.assertTrue((Path(self.place.name) / name).exists(), name)

    def test_published_figures_have_one_place(self):
        texts = [path.read_text("utf-8") for path in
                 (ROOT / "tools" / "labs").glob("*.py")]
        for figure in ("30.17", "19.50", "27.91"):
            self.assertEqual(sum(text.count(figure) for text in texts), 1)

    def summary(self):
        """{(what, baseline): (before, now)} on top of the page."""
        table = next(part for part in self.text.split("<table>")
                     if ">measured, and its" in part).split("</table>")[0]
        found = {}
        for row in table.split("<tr>")[2:]:
            what, before, now = re.findall(r"<td[^>]*>(.*?)</td>", row)[:3]
            what, baseline = (html.unescape(re.sub("<.*?>", "", part))
                              for part in what.split("<br>"))
            found[what, baseline] = (before, now)
        return found

    def test_names_each_baseline(self):
        summary = self.summary()
        for what, baseline in summary:
            self.assertNotEqual(baseline, "", what)
        # One lab, two baselines.
        baselines = [baseline for _, baseline in summary]
        self.assertIn("statistics=global", baselines)
        self.assertIn("statistics=thread", baselines)
        self.assertEqual(baselines.count("table_open=uncached"), 3)

    def test_calls_of_an_open_are_those_of_readme(self):
        summary = self.summary()
        readme = re.search(r"\[system calls\]\S* of a table's first open "
                           r"\| `table_open=uncached` \| (\d+) \| (\d+) \|",
                           (ROOT / "README.md").read_text("utf-8"))
        before, now = summary["system calls of a table's first open",
                              "table_open=uncached"]
        self.assertEqual(float(now), float(readme[2]))
        # The path to the device has a call for each component.
        self.assertAlmostEqual(float(before), float(readme[1]), delta=10)
        _, now = summary["system calls of a table's later open",
                         "table_open=uncached"]
        self.assertEqual(float(now), 1)

    def test_loads_nothing(self):
        self.assertTrue(self.text.startswith("<!DOCTYPE html>"))
        for tag in ("script", "link", "img", "iframe", "object", "embed"):
            self.assertEqual(self.page.tags.count(tag),
                             1 if tag == "link" else 0, tag)
        for reference in self.page.references:
            if reference != "data:,":  # No icon is asked for.
                self.assertTrue(reference.startswith("#"), reference)
                self.assertIn(reference[1:], self.page.ids)
        self.assertNotIn("@import", self.text)
        for target in re.findall(r"url\(([^)]*)\)", self.text):
            self.assertTrue(target.startswith("#"), target)

    def test_fits_phone_and_desktop_without_an_error(self):
        probed = self.text.replace("</body>", PROBE)
        for width in (390, 1280):
            with tempfile.TemporaryDirectory() as directory:
                document, said = browse(directory, probed, width)
            self.assertEqual(said, [])
            match = re.search(r"<title>scroll=(\d+) client=(\d+) wide=(\d+) "
                              r"flat=(\d+) hidden=(\d+) scrolled=(\d+) "
                              r"unseen=(\d+)</title>", document)
            self.assertIsNotNone(match, document[:2000])
            scroll, client, wide, flat, hidden, scrolled, unseen = map(
                int, match.groups())
            self.assertGreater(self.text.count(' class="matters"'), 20)
            self.assertEqual(unseen, 0)
            self.assertEqual(client, width)
            self.assertLessEqual(scroll, client)
            self.assertEqual((wide, flat, hidden), (0, 0, 0))
            if width < 400:
                self.assertGreater(scrolled, 0)

    def test_console_is_heard(self):
        with tempfile.TemporaryDirectory() as directory:
            _, said = browse(directory, "<script>nothing.at.all()</script>",
                             390)
        self.assertNotEqual(said, [])


class ReportTest(unittest.TestCase):
    """Parts of a report."""

    def test_replaces_a_section_of_a_page(self):
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "a.md"
            path.write_text("# Results: a\n\n"
                            "| figures | date | commit | machine | load |\n"
                            "|---|---|---|---|---|\n| all | old row |\n\n"
                            "Measured code: `db/`.\n\nText.\n\n"
                            "## First (one)\n\nold one\n\n"
                            "## Second (two)\n\nold two\n", "utf-8")
            code = f"""
from pathlib import Path
import report
for text in ("a draft", "new text"):
    page = report.Results(report.Report("x"), "a", ["db/"])
    for name in ("one", "three"):
        page.heading(f"Heading ({{name}})")
        page.text(f"{{text}} of {{name}}")
        page.chart(f"{{name}}.svg", "caption", "<svg></svg>")
    for name in ("one", "three"):
        page.replace_section(Path({str(path)!r}), name, f"{{name}}, simulated")
"""
            in_labs(code)
            self.assertTrue((Path(directory) / "one.svg").exists())
            text = path.read_text("utf-8")
        text = re.sub(r"\| 20.*\|", "| date |", text)
        self.assertEqual(text, """# Results: a

| figures | date | commit | machine | load |
|---|---|---|---|---|
| all | old row |
| one, simulated | date |
| three, simulated | date |

Measured code: `db/`.

Text.

## Heading (one)

new text of one

![caption](one.svg)

## Second (two)

old two

## Heading (three)

new text of three

![caption](three.svg)
""")

    def test_figures_have_their_spread(self):
        printed = in_labs("""
from report import Spread, figure, ratio, is_text
for value in (Spread([3, 1, 2]), Spread([2_345_678]), 43_210.0,
              Spread([1_200_000, 900_000, 1_100_000]), Spread([.56, .55, .58]),
              Spread([12_345, 9_876, 13_000]), None, 0, 27.04):
    print(figure(value))
print(ratio(Spread([10, 30, 20]), Spread([5])))
print(ratio(Spread([10, 30]), Spread([5, 9])), "|",
      ratio(Spread([10, 30]), Spread([5, 11])))
print(is_text(["1.10 M (0.90 to 1.20)", "2.00 (1.00 to 3.00)", "-"]),
      is_text(["1 (0 to 2)", "mutex"]))
""").splitlines()
        self.assertEqual(printed, [
            "2.00 (1.00 to 3.00)", "2.35 M", "43.2 k", "1.10 M (0.90 to 1.20)",
            "0.56 (0.55 to 0.58)", "12.3 k (9.9 to 13.0)", "-", "0.000", "27.0",
            "4.00", "2.86 | no difference seen", "False True"])

    def test_what_matters_is_on_the_screen_of_a_phone(self):
        for column, unseen in (("factor", 0), ("last", 3)):
            document = in_labs(f"""
from pathlib import Path
from report import Report, Spread, figure
import tempfile
report = Report("x")
report.section("a", "A")
rate = figure(Spread([2_290_000, 2_200_000, 2_350_000]))
report.table(["", "memory_accounting=atomic, a second",
              "production, a second", "factor",
              *(f"figure {{index}}" for index in range(9)), "last"],
             [[f"get, {{threads}} threads", rate, rate, "no difference seen", *9 * [rate],
               "1"] for threads in (1, 32)], matters="{column}")
with tempfile.TemporaryDirectory() as place:
    print("page" + report.write(Path(place)).read_text())
""").split("page", 1)[1]
            with tempfile.TemporaryDirectory() as directory:
                drawn, _ = browse(directory,
                                  document.replace("</body>", PROBE), 390)
            self.assertIn(f"unseen={unseen}</title>", drawn)

    def test_production_is_not_hidden_by_other_lines(self):
        chart = in_labs("""
from report import Report
print(Report("x").lines("l", [1, 2], {"production": [5, 6], "other": [5, 6],
                                      "third": [5, 6]}, "x", "y", "more"))
""")
        strokes = re.findall(r'stroke="(#\w+)" stroke-width="(\d+)"', chart)
        self.assertEqual([width for _, width in strokes], ["4", "4", "2"])
        first = re.search(r'fill="(#\w+)"', chart)[1]
        self.assertEqual(strokes[-1][0], first)

    def test_charts_have_error_bars(self):
        code = """
from report import Report, Spread
report = Report("x")
values = [Spread([{}]), Spread([{}])]
print(report.bars("b", ["r", "s"], {{"now": values}}, "ns", "less"))
print("next")
report.lines("l", [1, 2], {{"now": values}}, "threads", "a second", "more")
print(report.preface[-1])
"""
        for rounds, count in ((("1, 2, 3", "4, 5, 6"), 2), (("2", "5"), 0)):
            for svg in in_labs(code.format(*rounds)).split("next\n"):
                places = re.findall('<path d="([^"]*)" class="errors"', svg)
                # Each goes to its end and has a cap at both.
                self.assertEqual("".join(places).count("M"), count)

    def test_legends_fit_into_charts(self):
        printed = in_labs("""
import re
from report import Report
report = Report("x")
for names in (["production", "no statistics", "statistics=thread",
               "statistics=global", "block_cache=hash", "superversion=mutex"],
              ["production", "memory_accounting=atomic"], ["varve"],
              ["GetSnapshot of 7.8.3 (built with assertions)", "a" * 44]):
    svg = report.lines("l", [1, 2], {name: [1, 2] for name in names},
                       "threads", "a second", "more")
    places = [(float(x), name) for x, name in re.findall(
        r'<text x="([-0-9.]+)"[^>]*>([^<]+)</text>', svg) if name in names]
    width = float(re.search(r'width="([0-9.]+)pt"', svg)[1])
    print(len(places) == len(names), all(
        x >= 0 and x + 5.2 * len(name) <= width for x, name in places))
""").splitlines()
        marks = [line for line in printed if line.startswith(("True", "False"))]
        self.assertEqual(marks, ["True True"] * 4)

    def test_colours_differ_for_all_and_are_legible(self):
        colours = in_labs("import report; print(*report.COLOURS)").split()
        self.assertEqual(len(colours), 6)
        for colour in colours:
            for page in ("#ffffff", "#14181d"):
                self.assertGreaterEqual(contrast(colour, page), 3, colour)
        for kind in DEFICIENCIES:
            for one, other in itertools.combinations(colours, 2):
                self.assertGreater(distance(one, other, kind), .085,
                                   f"{one} {other} {kind}")
        # A pair that is alike without green cones.
        self.assertLess(distance("#7f8f1b", "#b07a1f", "green"), .085)
        self.assertGreater(distance("#7f8f1b", "#b07a1f", "none"), .085)

    def test_calls_are_told_apart_by_what_they_are_for(self):
        printed = in_labs(f"lines = {STRACE!r}.splitlines()\n" + """
import table_open
calls = table_open.Calls()
calls.add(table_open.parse(lines), {"000007.sst": 900, "000008.sst": 900})
print(calls.opens, calls.of_an_open(0), calls.of_an_open(1))
for what, count in sorted(calls.counts[0].items()):
    print(count, what)
""").splitlines()
        self.assertEqual(printed, [
            "[2, 1] 2.5 1.0", "1 close a table, to make space",
            "2 open the table", "1 read a data block",
            "2 read footer, properties, index and filter",
            "1 walk the path to the device"])


# Two threads open tables; other files of sysfs have nothing to do with that.
STRACE = """\
1 1.0 openat(AT_FDCWD</>, "/sys/devices/system/cpu/online", 0) = 3</sys/x> <0.1>
1 1.0 read(3</sys/devices/system/cpu/online>, ""..., 1024) = 4 <0.1>
1 1.0 newfstatat(AT_FDCWD</>, "/sys/dev/block/1:0", {}, 0) = 0 <0.1>
1 1.0 openat(3</d>, "000007.sst", O_RDONLY) = 5</d/000007.sst> <0.1>
2 1.0 openat(3</d>, "000008.sst", O_RDONLY <unfinished ...>
1 1.0 newfstatat(AT_FDCWD</>, "/sys/devices/pci0/block/vda", {}, 0) = 0 <0.1>
2 1.0 <... openat resumed>) = 6</d/000008.sst> <0.1>
1 1.0 pread64(5</d/000007.sst>, ""..., 54, 900) = 53 <0.1>
2 1.0 pread64(6</d/000008.sst>, ""..., 54, 900) = 53 <0.1>
1 1.0 pread64(5</d/000007.sst>, ""..., 54, 100) = 53 <0.1>
1 1.0 read(7</sys/devices/system/clocksource/x>, ""..., 9) = 4 <0.1>
1 1.0 close(5</d/000007.sst>) = 0 <0.1>
1 1.0 openat(3</d>, "000007.sst", O_RDONLY) = 5</d/000007.sst> <0.1>
"""

# ---- Colours as people see them ---------------------------------------------

# Machado, Oliveira and Fernandes (2009), full strength, for linear sRGB; which
# cones are missing.
DEFICIENCIES = {
    "none": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "red": ((.152286, 1.052583, -.204868), (.114503, .786281, .099216),
            (-.003882, -.048116, 1.051998)),
    "green": ((.367322, .860646, -.227968), (.280085, .672501, .047413),
              (-.011820, .042940, .968881)),
    "blue": ((1.255528, -.076749, -.178779), (-.078411, .930809, .147602),
             (.004733, .691367, .303900)),
}


def linear(colour):
    values = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    return [v / 12.92 if v <= .04045 else ((v + .055) / 1.055) ** 2.4
            for v in values]


def contrast(one, other):
    """As WCAG has it."""
    luminances = [sum(a * b for a, b in zip((.2126, .7152, .0722),
                                            linear(colour)))
                  for colour in (one, other)]
    return (max(luminances) + .05) / (min(luminances) + .05)


def times(matrix, vector):
    return [sum(a * b for a, b in zip(row, vector)) for row in matrix]


def distance(one, other, kind):
    """In Oklab, for a deficiency."""
    def lab(colour):
        seen = [min(max(v, 0), 1) for v in times(DEFICIENCIES[kind],
                                                 linear(colour))]
        cones = times(((.4122, .5363, .0514), (.2119, .6807, .1074),
                       (.0883, .2817, .6300)), seen)
        return times(((.2105, .7936, -.0041), (1.9780, -2.4286, .4506),
                      (.0259, .7828, -.8087)),
                     [max(v, 0) ** (1 / 3) for v in cones])
    return sum((a - b) ** 2 for a, b in zip(lab(one), lab(other))) ** .5


class ScaleTest(unittest.TestCase):
    """`lab scale` on a few entries."""

    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = Path(place.name)
        self.state = self.place / "db" / "scale-state.json"

    def scale(self, *arguments):
        return run_lab("scale", "--quick", f"--db_bench={DB_BENCH}",
                       f"--dir={self.place}/db", f"--out={self.place}/out",
                       *arguments)

    def engines(self):
        version = subprocess.run([DB_BENCH, "--version"], capture_output=True,
                                 text=True, check=True).stdout
        return [name for name in ("varve", "rocksdb")
                if f"engine {name} " in version]

    def test_measures_each_step_and_writes_a_page(self):
        engines = self.engines()
        done = self.scale(f"--engines={','.join(engines)}")
        self.assertEqual(done.returncode, 0, done.stderr)
        steps = json.loads(self.state.read_text(encoding="utf-8"))["steps"]
        self.assertEqual(len(steps), 5 * len(engines))
        for name, step in steps.items():
            self.assertGreater(step["ops_per_sec"], 0, name)
            self.assertGreater(step["cpu_micros_per_op"], 0, name)
            self.assertGreater(step["peak_rss_bytes"], 1 << 20, name)
            self.assertGreater(step["space_bytes"], 0, name)
            self.assertGreater(step["open_seconds"], 0, name)
            self.assertIsNotNone(step["stall_seconds"], name)
        # One database at a time, and none at the end.
        self.assertEqual(list((self.place / "db").iterdir()), [self.state])
        page = (self.place / "out" / "scale.md").read_text(encoding="utf-8")
        for text in ("## Fill", "## Overwrite", "## Reads of random keys",
                     "write amplification", "tools/lab scale --num=3000",
                     *engines):
            self.assertIn(text, page)
        for name in re.findall(r"!\[[^]]*\]\((\S+)\)", page):
            chart = (self.place / "out" / name).read_text(encoding="utf-8")
            xml.dom.minidom.parseString(chart)
        self.assertEqual(page.count("!["), 3)
        report = (self.place / "out" / "report.html").read_text("utf-8")
        self.assertEqual(report.count("<figure>"), 3)

    def test_goes_on_after_the_last_finished_step(self):
        self.assertEqual(self.scale("--engines=varve").returncode, 0)
        content = json.loads(self.state.read_text(encoding="utf-8"))
        # As if the third step had been interrupted: its database is there.
        build = subprocess.run(
            [DB_BENCH, f"--db={self.place}/db/scale-varve", "--num=3000",
             "fillrandom"], capture_output=True, text=True, check=False)
        self.assertEqual(build.returncode, 0, build.stderr)
        kept = {name: content["steps"][name]
                for name in ("varve fill", "varve overwrite")}
        content["steps"] = kept
        self.state.write_text(json.dumps(content), encoding="utf-8")

        done = self.scale("--engines=varve")
        self.assertEqual(done.returncode, 1)
        self.assertIn("--resume goes on", done.stderr)
        done = self.scale("--engines=varve", "--fill=fillseq", "--resume")
        self.assertEqual(done.returncode, 1)
        self.assertIn("other settings: fill=filluniquerandom", done.stderr)

        done = self.scale("--engines=varve", "--resume")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr.count("done before"), 2)
        steps = json.loads(self.state.read_text(encoding="utf-8"))["steps"]
        self.assertEqual(len(steps), 5)
        for name, step in kept.items():
            self.assertEqual(steps[name], step)

    def test_says_what_space_it_needs(self):
        done = run_lab("scale", f"--db_bench={DB_BENCH}",
                       f"--dir={self.place}/db", f"--out={self.place}/out",
                       "--num=1000000000000")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"may need [\d.]+ GiB in")
        self.assertFalse(self.state.exists())

    def test_needs_a_directory_to_resume(self):
        done = run_lab("scale", "--quick", f"--db_bench={DB_BENCH}",
                       f"--out={self.place}/out", "--resume")
        self.assertEqual(done.returncode, 1)
        self.assertIn("--resume needs --dir", done.stderr)

    def test_ends_the_benchmark_when_it_is_ended(self):
        with subprocess.Popen(
                [str(LAB), "scale", f"--db_bench={DB_BENCH}",
                 f"--dir={self.place}/db", f"--out={self.place}/out",
                 "--num=100000", "--overwrite_seconds=600",
                 "--engines=varve"], stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE, text=True) as process:
            for line in process.stderr:
                if "varve, overwrite" in line:
                    break
            process.terminate()
            _, said = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1)
        self.assertIn("ended by SIGTERM", said)
        steps = json.loads(self.state.read_text(encoding="utf-8"))["steps"]
        self.assertEqual(list(steps), ["varve fill"])
        # The lock is free: no benchmark is left.
        done = subprocess.run(
            [DB_BENCH, f"--db={self.place}/db/scale-varve", "--num=1000",
             "--use_existing_db", "readrandom"], capture_output=True,
            text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)


class SeeksTest(unittest.TestCase):
    """`lab seeks` on a few keys."""

    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.out = Path(place.name) / "out"

    def seeks(self, *arguments):
        return run_lab("seeks", "--quick", f"--db_bench={DB_BENCH}",
                       f"--dir={self.out}/db", f"--out={self.out}",
                       *arguments)

    def test_measures_each_workload_and_writes_a_page(self):
        done = self.seeks("--forms=varve,rocksdb with options,leveldb,pebble")
        self.assertEqual(done.returncode, 0, done.stderr)
        entries = json.loads((self.out / "seeks.json").read_text("utf-8"))
        forms = {entry["form"] for entry in entries}
        self.assertIn("varve", forms)
        kinds = set()
        for entry in entries:
            name = f"{entry['form']} {entry['workload']}"
            result, = entry["rounds"]
            kinds.add(result["kind"])
            if result["kind"] == "seeks":
                for side in ("dead", "clean"):
                    for phase in ("at_once", "after_quiet", "under_load",
                                  "after_load"):
                        self.assertGreater(
                            result[side][phase]["p50_ns"], 0, name)
                self.assertGreater(result["dead"]["user_bytes"],
                                   result["clean"]["user_bytes"], name)
            elif result["kind"] == "queue":
                self.assertGreater(result["pops"], 0, name)
            elif result["kind"] == "space":
                for case in result["cases"]:
                    self.assertGreater(case["live_table_bytes"], 0, name)
                    self.assertEqual([sample["seconds"] for sample in
                                      case["samples"]], [0, 1], name)
                    # An engine may have compacted the tables already.
                    self.assertGreater(case["samples"][0]["table_bytes"], 0,
                                       name)
            else:
                self.assertGreater(result["user_bytes"], 0, name)
        self.assertEqual(kinds, {"seeks", "queue", "space", "worst"})
        # Databases are removed.
        self.assertEqual(list((self.out / "db").iterdir()), [])
        page = (self.out / "seeks.md").read_text(encoding="utf-8")
        for text in ("## Goals", "## Seeks", "## Queues", "## Space", "## Worst case",
                     "delete-memory", "queue-1000", "worst-snapshot",
                     "tools/lab seeks --num=3000", *forms):
            self.assertIn(text, page)
        charts = re.findall(r"!\[[^]]*\]\((\S+)\)", page)
        self.assertEqual(len(charts), 3)
        for name in charts:
            xml.dom.minidom.parseString(
                (self.out / name).read_text(encoding="utf-8"))

    def test_measures_what_is_asked_for(self):
        done = self.seeks("--forms=varve", "--workloads=hot,queue-1",
                          "--seek_flags=--value_size=50")
        self.assertEqual(done.returncode, 0, done.stderr)
        entries = json.loads((self.out / "seeks.json").read_text("utf-8"))
        self.assertEqual([(entry["form"], entry["workload"])
                          for entry in entries],
                         [("varve", "hot"), ("varve", "queue-1")])

    def test_says_what_there_is(self):
        done = self.seeks("--workloads=unheard-of")
        self.assertEqual(done.returncode, 1)
        self.assertIn("unknown workload 'unheard-of'", done.stderr)
        done = self.seeks("--forms=unheard-of")
        self.assertEqual(done.returncode, 1)
        self.assertIn("unknown form unheard-of", done.stderr)


class FailureTest(unittest.TestCase):
    def test_quickstart_builds_what_the_labs_run(self):
        run = {name for path in (ROOT / "tools" / "labs").glob("*.py")
               for name in re.findall(r'\.program\("(\w+)"\)',
                                      path.read_text(encoding="utf-8"))}
        self.assertIn("cores_bench", run)
        script = (ROOT / "tools" / "quickstart").read_text(encoding="utf-8")
        built = script.split("\n  lab)\n")[1].split(";;")[0]
        for name in run:
            self.assertRegex(built, rf"\b{name}(_tool)?\b")

    def test_says_what_it_lacks(self):
        with tempfile.TemporaryDirectory() as directory:
            done = run_lab("superversion", "--quick",
                           f"--db_bench={directory}/missing",
                           f"--dir={directory}/db", f"--out={directory}")
            text = (Path(directory) / "report.html").read_text("utf-8")
        self.assertEqual(done.returncode, 1)
        self.assertIn("tools/quickstart lab", done.stderr)
        self.assertIn("could not be measured", text)

    def test_lists_the_labs(self):
        done = run_lab("unheard-of")
        self.assertEqual(done.returncode, 2)
        for name in [*NAMES, "scale", "seeks"]:
            self.assertIn(f"lab {name} ", done.stdout)


if __name__ == "__main__":
    DB_BENCH = sys.argv.pop(1)
    unittest.main()
