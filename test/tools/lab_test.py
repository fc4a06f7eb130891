#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Goal: tools/lab measures what each lab is about, and its page loads nothing,
fits a phone and draws without an error. Method: run all labs on a few entries;
look through the page, and have a browser without a screen lay it out.

Usage: lab_test.py DB_BENCH
"""

import html.parser
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

LAB = Path(__file__).resolve().parents[2] / "tools" / "lab"
DB_BENCH = ""
NAMES = ["superversion", "read-path", "statistics", "table-open", "tracing",
         "transactions", "versus"]
# What the page says of its own layout.
PROBE = """<script>
const root = document.documentElement;
const wide = [...document.querySelectorAll("figure svg, h1, h2, p, nav")]
    .filter(e => e.getBoundingClientRect().right > root.clientWidth + 1);
const flat = [...document.querySelectorAll("figure svg")]
    .filter(e => e.getBoundingClientRect().height < 60);
document.title = `scroll=${root.scrollWidth} client=${root.clientWidth} ` +
    `wide=${wide.length} flat=${flat.length}`;
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
            self.assertIn("db_bench", section, name)
        self.assertGreaterEqual(self.page.tags.count("figure"), 7)
        self.assertEqual(self.page.tags.count("figure"),
                         self.page.tags.count("svg"))
        self.assertIn("|---", self.done.stdout)
        self.assertIn("round 1", self.done.stderr)

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
                              r"flat=(\d+)</title>", document)
            self.assertIsNotNone(match, document[:2000])
            scroll, client, wide, flat = map(int, match.groups())
            self.assertEqual(client, width)
            self.assertLessEqual(scroll, client)
            self.assertEqual((wide, flat), (0, 0))

    def test_console_is_heard(self):
        with tempfile.TemporaryDirectory() as directory:
            _, said = browse(directory, "<script>nothing.at.all()</script>",
                             390)
        self.assertNotEqual(said, [])


class FailureTest(unittest.TestCase):
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
        for name in NAMES:
            self.assertIn(f"lab {name} ", done.stdout)


if __name__ == "__main__":
    DB_BENCH = sys.argv.pop(1)
    unittest.main()
