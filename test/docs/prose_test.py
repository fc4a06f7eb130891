#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Goal: tools/check_prose refuses what it says it refuses. Method: checks planted
pages, each with one fault, and one page without a fault.

Usage: prose_test.py
"""

import importlib.machinery
import importlib.util
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "check_prose"
# 8 and 26 words, and one with a connective that has 14.
SHORT = "The cache keeps the blocks of all tables."
REASON = "You can raise the limit if the machine has memory that nothing else uses."
LONG = ("A compaction reads the tables of one level and of the next one, and it "
        "writes new tables without the entries that newer ones hide, which gives "
        "their space back.")


def page(short=12, reason=24, long=4, more=""):
    return "# Title\n\n" + "\n\n".join(
        [SHORT] * short + [REASON] * reason + [LONG] * long + [more]) + "\n"


def module():
    sys.dont_write_bytecode = True
    loader = importlib.machinery.SourceFileLoader("check_prose", str(TOOL))
    spec = importlib.util.spec_from_loader("check_prose", loader)
    loaded = importlib.util.module_from_spec(spec)
    loader.exec_module(loaded)
    return loaded


class ProseTest(unittest.TestCase):
    def check(self, text, name="page.md"):
        """(output, whether it was refused)"""
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            done = subprocess.run([sys.executable, TOOL, path],
                                  capture_output=True, text=True, check=False)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        return done.stdout, done.returncode == 1

    def expect_refused(self, text, *said):
        output, refused = self.check(text)
        self.assertTrue(refused, output)
        for each in said:
            self.assertIn(each, output)

    def expect_accepted(self, text, name="page.md"):
        output, refused = self.check(text, name)
        self.assertFalse(refused, output)

    def test_a_page_in_the_band_is_accepted(self):
        self.expect_accepted(page())

    def test_short_sentences(self):
        self.expect_refused(page(short=30, reason=8, long=4),
                            "OUTSIDE: words a sentence")

    def test_long_sentences(self):
        self.expect_refused(page(short=0, reason=20, long=20),
                            "OUTSIDE: words a sentence, % long")

    def test_no_long_sentence(self):
        self.expect_refused(page(short=4, reason=40, long=0),
                            "OUTSIDE: % long")

    def test_facts_without_reasons(self):
        fact = "\n\n".join(["You raise the limit on a machine with memory that "
                            "no other program needs."] * 22)
        self.expect_refused(page(reason=2, more=fact), "OUTSIDE: connectives")

    def test_pages_that_do_not_explain_are_exempt(self):
        short = page(short=40, reason=0, long=0)
        self.expect_refused(short, "OUTSIDE")
        self.expect_accepted(page(short=29, reason=0, long=0))
        self.expect_accepted(short, "results/page.md")
        self.expect_accepted(short, "CHANGELOG.md")
        self.expect_accepted("\n<!-- Written by a program. -->\n" + short)
        self.expect_accepted(short + "\n" + "| a cell of a table |\n" * 100)

    def test_items_that_are_no_sentences_do_not_count(self):
        self.expect_accepted(page(more="- one name\n" * 40))
        self.expect_refused(page(more="- This item is a sentence.\n" * 40),
                            "OUTSIDE")

    def test_private_words(self):
        for word, sentence in (
                ("place", "It finds a place."), ("look", "Readers look at it."),
                ("touch", "This is untouched, and touches nothing."),
                ("hold up", "A flush holds writers up."),
                ("bury", "A deletion buries it."),
                ("quiet", "It waits for a quiet database."),
                ("moment", "They show one moment."),
                ("part", "A part has a header."),
                ("walk", "It walks over deletions.")):
            with self.subTest(word):
                output, refused = self.check(page(more=sentence))
                self.assertTrue(refused, output)
                self.assertRegex(output, rf"(?m)^  {word} .*TOO MANY$")

    def test_terms_of_the_field_are_no_private_words(self):
        self.expect_accepted(page(more="A filter spares the look-up. You look "
                                  "up a key, look it up again, and update the "
                                  "entry in place with `look`."))

    def test_british_spellings(self):
        for word in ("behaviour", "Colours", "optimise", "optimisation",
                     "neighbouring", "serialised", "analysed", "cancelled",
                     "licence", "modelling"):
            with self.subTest(word):
                self.expect_refused(page(more=f"Some {word} here."),
                                    f"BRITISH SPELLING: {word}")
        self.expect_refused(page(more="## Behaviour"), "BRITISH SPELLING")
        self.expect_refused(page(more="| colour |"), "BRITISH SPELLING")
        self.expect_refused(page(more="<!-- Written by a tool -->\ncolour"),
                            "BRITISH SPELLING")
        self.expect_accepted(page(more="An `optimise` in code, an optimistic "
                                  "analysis, a promise otherwise precise."))

    def test_the_list_of_pages_outside_of_the_band_can_only_shrink(self):
        tool = module()
        with tempfile.TemporaryDirectory() as directory:
            good, bad = Path(directory) / "good.md", Path(directory) / "bad.md"
            good.write_text(page(), encoding="utf-8")
            bad.write_text(page(short=40), encoding="utf-8")

            def failed(paths, not_yet):
                return tool.check_band(paths, show=False,
                                       not_yet=[str(path) for path in not_yet])

            self.assertFalse(failed([good], []))
            self.assertTrue(failed([bad], []))
            self.assertFalse(failed([good, bad], [bad]))
            self.assertTrue(failed([good, bad], [good, bad]))
            self.assertTrue(failed([good], [bad]))


if __name__ == "__main__":
    unittest.main(buffer=True)
