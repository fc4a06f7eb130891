#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Goal: the page on monitoring, the dashboard and the alerts name only metrics
that the engine has, and an alert and a panel are there for each of the five
numbers. Method: compare their names with the property varve.prometheus.

Usage: monitoring_test.py VARVE [TEST...]
"""

import json
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/monitoring.md"
DASHBOARD = ROOT / "packaging/monitoring/varve_dashboard.json"
ALERTS = ROOT / "packaging/monitoring/varve_alerts.yml"
VARVE = ""


def names_in(text):
    return set(re.findall(r"\bvarve_[a-z0-9_]+(?![a-z0-9_]*\.)", text))


class MonitoringTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as place:
            database = f"--db={place}/db"
            subprocess.run([VARVE, "put", database, "--create_if_missing", "a",
                            "b"], check=True, capture_output=True)
            page = subprocess.run(
                [VARVE, "stats", database, "--property=varve.prometheus"],
                check=True, capture_output=True, text=True).stdout
        cls.samples = names_in(re.sub(r"^#.*$", "", page, flags=re.M))
        cls.metrics = set(re.findall(r"^# TYPE (\S+)", page, re.M))

    def check_names(self, names):
        self.assertGreater(len(names), 5)
        for name in names:
            self.assertIn(name, self.samples | self.metrics)

    def test_page(self):
        self.check_names(names_in(PAGE.read_text()))

    def test_dashboard(self):
        dashboard = json.loads(DASHBOARD.read_text())
        names = set()
        for panel in dashboard["panels"]:
            self.assertTrue(panel["description"])
            for target in panel["targets"]:
                self.assertEqual(target["expr"].count("("),
                                 target["expr"].count(")"))
                used = names_in(target["expr"])
                self.assertTrue(used, target["expr"])
                names |= used
        self.check_names(names)
        titles = [panel["title"] for panel in dashboard["panels"]]
        for number in range(1, 6):
            self.assertTrue(titles[number - 1].startswith(f"{number}. "))
        for variable in dashboard["templating"]["list"]:
            for name in names_in(str(variable["query"])):
                self.assertIn(name, self.samples)

    def test_alerts(self):
        text = re.sub(r"^ *#.*$", "", ALERTS.read_text(), flags=re.M)
        rules = text.split("- alert: ")[1:]
        self.assertGreaterEqual(len(rules), 5)
        used = set()
        for rule in rules:
            for part in ("expr:", "severity:", "summary:", "description:"):
                self.assertIn(part, rule)
            names = names_in(rule)
            self.assertTrue(names, rule)
            used |= names
        self.check_names(used)
        # The five numbers of the page have rules.
        table = re.findall(r"^\| (\d)\. [^|]+\| ([^|]+) \|", PAGE.read_text(),
                           re.M)
        self.assertEqual([number for number, _ in table], list("12345"))
        for number, metrics in table:
            self.assertTrue(
                any(re.search(rf"\b{name}(_sum|_count)?\b", text)
                    for name in names_in(metrics)), number)


if __name__ == "__main__":
    VARVE = Path(sys.argv.pop(1)).resolve()
    unittest.main()
