# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""The same work by every engine that db_bench was built with, by
tools/versus."""

import json
import subprocess
import sys
import tempfile

import bench
import report as pages

TITLE = "Beside other engines"
READS = ("readrandom@1,readrandom@2,readmissing,multireadrandom,seekrandom,"
         "readseq,fillrandom")


def versus(lab, rows, *flags):
    """The summary that tools/versus writes."""
    with tempfile.NamedTemporaryFile(suffix=".json") as output:
        command = [sys.executable, bench.ROOT / "tools" / "versus",
                   f"--db_bench={lab.options.db_bench}",
                   f"--benchmarks={rows}", f"--db_dir={lab.directory}",
                   f"--duration={lab.options.duration}", *flags]
        with_flags = ["--", "--compression_type=none", "--bloom_bits=10",
                      f"--cache_size={1 << 30}"]
        lab.note([*command, *with_flags])
        try:
            done = subprocess.run(
                [*map(str, command), f"--json={output.name}", *with_flags],
                stdout=subprocess.DEVNULL, timeout=60 + 120 * lab.options.minutes, check=False)
        except subprocess.TimeoutExpired:
            raise bench.LabError("tools/versus took too long here") from None
        if done.returncode != 0:
            raise bench.LabError("tools/versus failed; it says above why")
        return json.load(output)


def run(lab):
    report = lab.report
    num = lab.num if lab.quick else min(lab.num, 500_000)
    rounds = 1 if lab.quick else min(lab.options.rounds, 2)
    rows = "readseq,fillrandom" if lab.quick else READS
    summary = versus(lab, rows, f"--num={num}", f"--rounds={rounds}")
    names = list(summary["engines"])
    report.text(f"{num:,} entries, no compression, Bloom filters of 10 bits, "
                "everything in the cache and read once before; "
                f"{pages.rounds(rounds)}, medians. What db_bench "
                "does on each engine, and why: docs/performance.md.")
    report.table(["engine", "version"], list(summary["engines"].items()))
    labels = [f"{row['benchmark']} × {row['threads']}"
              for row in summary["rows"]]
    speed = {name: [pages.Spread(row["engines"][name]["ops_per_sec"])
                    for row in summary["rows"]] for name in names}
    report.heading("Operations a second")
    report.table(["benchmark × threads", *names],
                 [[label, *(pages.figure(speed[name][index]) for name in names)]
                  for index, label in enumerate(labels)])
    if len(names) > 1:
        # Of each round, since the engines of a round had the same load.
        times = {f"than {name}": [
            pages.Spread(mine / max(theirs, 1) for mine, theirs in
                         zip(own.values, other.values))
            for own, other in zip(speed[names[0]], speed[name])]
                 for name in names[1:]}
        report.bars(f"How many times as fast {names[0]} is", labels, times,
                    "times, the line: no difference", "more", mark=1)
        for name in names[1:]:
            report.result(f"{labels[0]} a second", name,
                          pages.figure(speed[name][0]),
                          pages.figure(speed[names[0]][0]),
                          pages.ratio(speed[names[0]][0], speed[name][0]))
    if not lab.quick:
        latency(lab, num)


def latency(lab, num):
    summary = versus(lab, "readrandom@2,readwhilewriting@2,seekrandom",
                     f"--num={num}", "--rounds=1", "--latency")
    lab.report.heading("Latency in microseconds (one round)")
    lab.report.table(
        ["benchmark × threads", "engine", "P99", "P99.9", "max"],
        [[f"{row['benchmark']} × {row['threads']}", name,
          *(f"{row['engines'][name]['latency_micros'][field]:,.1f}"
            for field in ("median_p99", "median_p99.9", "max"))]
         for row in summary["rows"] for name in summary["engines"]])
