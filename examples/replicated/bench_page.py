# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""For the script bench: tables of its results, and the section of a results page.

Each line of the results is a system, a load and a rate, with tabs between. A system
has a line for each round.
"""

import argparse
import re
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools/labs"))
import report as pages  # noqa: E402  pylint: disable=wrong-import-position

NAMES = {"varve": "Varve", "pebble": "Pebble", "redis": "Redis, one process",
         "before": "older node"}


def read(text):
    """{load: {system: Spread}}, in the order of the lines."""
    rates = {}
    for line in text.splitlines():
        system, load, rate = line.split("\t")
        rates.setdefault(load, {}).setdefault(system, []).append(float(rate))
    return {load: {system: pages.Spread(each) for system, each in of_load.items()}
            for load, of_load in rates.items()}


def rows(rates, others):
    """Of the loads that all of them have: Varve's rate, then the rate of each of
    the others and how many times as much Varve does."""
    found = []
    for load, of_load in rates.items():
        if all(system in of_load for system in ("varve", *others)):
            row = [re.sub(r"\d{4,}", lambda each: f"{int(each[0]):,}", load)
                   .replace("-P 1,000", "-P 1000"),
                   pages.figure(of_load["varve"])]
            for other in others:
                row += [pages.figure(of_load[other]),
                        pages.ratio(of_load["varve"], of_load[other])]
            found.append(row)
    return found


def header(others):
    columns = ["requests a second", "Varve"]
    for other in others:
        columns += [NAMES[other], f"Varve by {NAMES[other].split(',')[0]}"]
    return columns


def write(options, text):
    rates = read(text)
    systems = {system: len(spread.values) for of_load in rates.values()
               for system, spread in of_load.items()}
    others = [system for system in ("pebble", "redis") if system in systems]
    name = "comparison" + " with TLS" * (options.secure == "yes")
    page = pages.Results(pages.Report("The replicated example"), "replicated", [])
    page.load = f"{options.load} at the beginning"
    page.heading(f"Varve, Pebble and Redis ({name})")
    page.text(
        "The example's node with Varve and with Pebble, three nodes and 8 shards of "
        f"each, beside Redis {options.redis}. **Redis is one process here, without "
        "replicas.** It syncs its file before it answers (`redis-server --appendonly yes "
        "--appendfsync always`) and saves no snapshots. **The three nodes share the "
        "machine and its disk with the client**, so that three logs are synced for a "
        "write where Redis syncs one. To write and sync 4 KiB took "
        f"{options.sync_ms} ms before the rounds (`dd oflag=dsync`)." +
        (" Clients use TLS and a password, and nodes use TLS among each other."
         if options.secure == "yes" else ""))
    page.text(
        f"The figures are medians of {pages.rounds(max(systems.values()))} in turns, "
        "with the least and the most. A round begins with empty databases and sets "
        f"{options.keys:,} keys by `redis-cli --pipe`. The other loads come from "
        "redis-benchmark, where `-P` is the length of a pipeline and `-c` the number "
        f"of connections. Values have {options.bytes} bytes unless the row says "
        "otherwise, and repeat one byte. \"No difference seen\" means that the ranges "
        "overlap.")
    page.table(header(others), rows(rates, others))
    if options.before:
        page.text(
            "Some loads were also measured with the node of commit "
            f"`{options.before}`, built with the newer library, in the same turns and "
            "with a twenty-fifth of the requests:")
        page.table(header(["before"]), rows(rates, ["before"]))
    page.parts.append(f"```\n{options.command.strip()}\n```")
    if options.into:
        page.replace_section(Path(options.into) / "replicated.md", name, name)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("--keys", type=int)
    for name in ("load", "sync-ms", "redis", "bytes", "secure", "before", "into",
                 "command"):
        parser.add_argument(f"--{name}", default="")
    options = parser.parse_args()
    write(options, options.results.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
