# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Seeks over deleted and overwritten entries, and the space that deletions give
back, by db_bench.

Each workload is also run on an equal database that never had the deleted keys,
so that a seek can be compared with what it would take there. Engines and forms
take turns, a process for each workload. Forms that the build does not have are
left out: `waste=ignored`, which is Varve with nothing done about reported
waste, and Pebble, which `tools/peers/build pebble_library` makes. The report is
report.html in --out; seeks.md with its charts is a page for docs/results, and
seeks.json has all figures of all rounds.
"""

import collections
import json
import os
import re
import shlex
import statistics
import tempfile
import time

import bench
import report as pages

TITLE = "Seeks over deleted entries"
BEFORE = "varve waste=ignored"
PEBBLE = bench.ROOT / "build" / "peers" / "libpebble_library.so"
FORMS = {
    "varve": ["--engine=varve"],
    BEFORE: ["--engine=varve", "--ablate=waste=ignored"],
    "rocksdb": ["--engine=rocksdb"],
    "rocksdb with options": ["--engine=rocksdb", "--deletion_options"],
    "leveldb": ["--engine=leveldb"],
    # Made by `tools/peers/build pebble_library`.
    "pebble": ["--engine=pebble", f"--pebble_library={PEBBLE}"],
}
# A seek may take so many times what it takes in the database without deleted
# keys.
SEEK_GOAL = 5
POPS_GOAL = 20_000
# A first walk over 200,000 deleted keys in memory.
WALK_GOAL_MS = 2
WALKS = ("delete-memory-1", "delete-memory-400")
# Tables against live data, a minute after the deletions.
SPACE_GOAL = 1.3
# Tables written in the worst case, against those with nothing done.
WORST_GOAL = 1.1


def add_flags(parser):
    parser.set_defaults(num=200_000)
    parser.add_argument("--forms", default=",".join(FORMS),
                        help="separated by commas (default: %(default)s)")
    parser.add_argument("--workloads", default="",
                        help="benchmarks of db_bench, separated by commas; "
                        "all of this kind without any")
    parser.add_argument("--seek_flags", default="",
                        help="more flags of db_bench")


# ---- Running -----------------------------------------------------------------


class Runner:
    """Runs the benchmarks in the forms that can be run."""

    def __init__(self, lab):
        self.lab = lab
        self.forms = []
        self.versions = {}
        # db_bench lists them after a line of their own.
        listed, _ = lab.run([lab.options.db_bench, "--help"])
        known = re.findall(r"^  (\S+) +\S", listed.partition(
            "\nSeeks over deleted entries")[2].split("\n\n")[0], re.MULTILINE)
        self.workloads = list(filter(
            None, lab.options.workloads.split(","))) or known
        for name in self.workloads:
            if name not in known:
                raise bench.LabError(f"unknown workload '{name}'; there are: " +
                                     ", ".join(known))
        engines, _ = lab.run([lab.options.db_bench, "--version"])
        for name in filter(None, lab.options.forms.split(",")):
            if name not in FORMS:
                raise bench.LabError(f"unknown form {name}; there are: " +
                                     ", ".join(FORMS))
            engine = name.split()[0]
            if f"\nengine {engine} " in engines or (
                    engine == "pebble" and PEBBLE.exists()):
                self.forms.append(name)
            else:
                lab.report.text(f"{name} is left out: this build has no "
                                f"{engine}.")
        lab.commands.clear()  # Questions, not measurements.
        if not self.forms:
            raise bench.LabError("no form can be run")

    def run(self, form, workload):
        """The result of one workload."""
        lab = self.lab
        with tempfile.NamedTemporaryFile(suffix=".json") as output:
            text, _ = lab.run([
                lab.options.db_bench, *FORMS[form],
                f"--db={lab.directory}/seeks", f"--benchmarks={workload}",
                f"--num={lab.num}", "--bloom_bits=10", "--seed=1",
                *(["--seek_scale=0.02"] if lab.quick else []),
                *shlex.split(lab.options.seek_flags),
                f"--report_json={output.name}"])
            content = json.load(output)
        bench.say(f"{form}: {text.strip().splitlines()[-1]}")
        self.versions[form] = content["engine_version"]
        return content["results"][0]


def run(lab):
    runner = Runner(lab)
    samples = collections.defaultdict(list)
    rounds = 0
    for _ in range(1 if lab.quick else lab.options.rounds):
        for workload in runner.workloads:
            for form in runner.forms:
                samples[form, workload].append(runner.run(form, workload))
        rounds += 1
    lab.options.out.mkdir(parents=True, exist_ok=True)
    (lab.options.out / "seeks.json").write_text(json.dumps(
        [{"form": form, "version": runner.versions[form], "workload": workload,
          "rounds": results} for (form, workload), results in samples.items()],
        indent=1), encoding="utf-8")
    show(lab, runner, samples, rounds)


# ---- Figures -----------------------------------------------------------------


def middle(results, *path):
    """The median of a figure, over the rounds."""
    def follow(result):
        for name in path:
            result = result[name]
        return result
    return statistics.median(follow(result) for result in results)


def micros(ns):
    """Microseconds, with as many digits as say something."""
    value = ns / 1e3
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def digits(value):
    """Three digits or more."""
    return f"{value:,.{0 if value >= 100 else 1 if value >= 10 else 2}f}"


def megabytes(count):
    return f"{count / 1e6:.1f}"


def of_kind(samples, kind):
    """{workload: {form: results}} of one kind, in the order of the runs."""
    found = {}
    for (form, workload), results in samples.items():
        if results[0]["kind"] == kind:
            found.setdefault(workload, {})[form] = results
    return found


# ---- The page ----------------------------------------------------------------


def show(lab, runner, samples, rounds):
    page = pages.Results(lab.report, "seeks", [
        "db/dead_entries/", "db/reads/", "db/compaction/", "table/reader/"])
    page.text(
        f"{lab.num:,} keys of 16 bytes with values of 100 bytes, Snappy, Bloom "
        "filters of 10 bits, write buffers of 64 MB, 2 background jobs; "
        f"medians of {pages.rounds(rounds)}, where there are parentheses with "
        "the least and the most of them. "
        f"{time.strftime('%Y-%m-%d %H:%M')}, {os.cpu_count()} processors, "
        f"{bench.device_of(lab.directory)}, load at the end "
        f"{os.getloadavg()[0]:.1f}.")
    page.table(["form", "version"], list(runner.versions.items()))
    show_goals(page, runner.forms, samples)
    for kind, show_kind in (("seeks", show_seeks), ("queue", show_queues),
                            ("space", show_space), ("worst", show_worst)):
        found = of_kind(samples, kind)
        if found:
            show_kind(page, runner.forms, found)
    options = lab.options
    command = ["tools/lab", "seeks", f"--num={lab.num}",
               f"--rounds={options.rounds}"]
    for name in ("forms", "workloads", "seek_flags"):
        if getattr(options, name) not in ("", ",".join(FORMS)):
            command.append(f"--{name}={getattr(options, name)}")
    page.write(options.out, shlex.join(command))


def against_clean(results, phase):
    """A seek as a multiple of that in the clean database, over the rounds."""
    return pages.Spread(
        result["dead"][phase]["p50_ns"] / result["clean"][phase]["p50_ns"]
        for result in results)


def last_space(results):
    """Tables against live data in the last sample of the worst case."""
    cases = range(len(results[0]["cases"]))
    return max(middle(results, "cases", case, "samples", -1, "tables_to_live")
               for case in cases)


def show_goals(page, forms, samples):
    """The worst figure of each form, and which workload has it."""
    rows = []

    def add(goal, kind, worst, figure):
        found = of_kind(samples, kind)
        row = [goal]
        for form in forms:
            values = [(figure(by_form[form], by_form), workload)
                      for workload, by_form in found.items()
                      if form in by_form]
            values = [each for each in values if each[0] is not None]
            row.append("{} ({})".format(digits(worst(values)[0]),
                                        worst(values)[1])
                       if values else "-")
        rows.append(row)

    def first_walk(results, _):
        if results[0]["workload"] not in WALKS:
            return None
        return middle(results, "dead", "at_once", "first_ns") / 1e6

    def written(results, by_form):
        if BEFORE not in by_form or by_form.get("varve") is not results:
            return None
        return (middle(results, "table_bytes") /
                max(middle(by_form[BEFORE], "table_bytes"), 1))

    add(f"seek after a second of quiet, at most {SEEK_GOAL} times clean",
        "seeks", max, lambda each, _: against_clean(each, "after_quiet").median)
    add("seek after 1,000 operations under load, at most "
        f"{SEEK_GOAL} times clean",
        "seeks", max, lambda each, _: against_clean(each, "after_load").median)
    add("first walk over all deleted keys in memory, at most "
        f"{WALK_GOAL_MS} ms", "seeks", max, first_walk)
    add(f"pops a second, in the last tenth too, at least {POPS_GOAL:,}", "queue", min,
        lambda each, _: min(middle(each, "pops_per_sec"),
                            middle(each, "last_tenth_pops_per_sec")))
    add(f"tables against live data, at most {SPACE_GOAL}", "space", max,
        lambda each, _: last_space(each))
    add("tables written in the worst case, at most "
        f"{WORST_GOAL} times waste=ignored", "worst", max, written)
    page.heading("Goals")
    page.text("The figure that is farthest from the goal, and its workload.")
    page.table(["goal", *forms], rows)


def show_seeks(page, forms, found):
    page.heading("Seeks")
    page.text(
        "Each seek has a new iterator, and its result is verified. `clean` is "
        "the median in an equal database that never had the deleted keys. `at "
        "once` is after the last deletion; `quiet` after one second without an "
        "operation; `load` after 1,000 operations, next to a thread that "
        "overwrites other keys. Figures are medians in microseconds.")
    page.table(["workload", "what it is"],
               [[workload, next(iter(by_form.values()))[0]["what"]]
                for workload, by_form in found.items()])
    rows = []
    tails = []
    times = {form: [] for form in forms}
    for workload, by_form in found.items():
        for form, results in by_form.items():
            def of(side, phase, field="p50_ns"):
                return middle(results, side, phase, field)
            quiet = against_clean(results, "after_quiet")
            load = against_clean(results, "after_load")
            times[form].append(quiet)
            rows.append([
                workload, form, micros(of("dead", "at_once", "first_ns")),
                micros(of("dead", "at_once")),
                micros(of("dead", "after_quiet")),
                micros(of("clean", "after_quiet")), pages.figure(quiet),
                micros(of("dead", "after_load")),
                micros(of("clean", "after_load")), pages.figure(load)])
            made, later, user = (middle(results, "dead", name) for name in (
                "make_table_bytes", "quiet_table_bytes", "user_bytes"))
            tails.append([
                workload, form,
                *(micros(of("dead", phase, "p99_ns")) for phase in
                  ("at_once", "after_quiet", "under_load", "after_load")),
                micros(of("clean", "after_quiet", "p99_ns")),
                micros(of("dead", "after_quiet", "cpu_mean_ns")),
                megabytes(later),
                megabytes(middle(results, "dead", "load_table_bytes")),
                f"{(made + later) / max(user, 1):.2f}"])
    page.table(["workload", "engine", "first", "at once", "quiet", "clean",
                "times", "load", "clean, load", "times, load"], rows)
    page.text(
        "P99 in microseconds, the CPU time of a seek after a second without "
        "operations (mean of the thread), and the tables written after the last deletion "
        "in MB. Write amplification is of tables only, since the first entry: "
        "the log adds 1.")
    page.table(["workload", "engine", "at once", "quiet", "under load", "load",
                "clean", "CPU, quiet", "MB, quiet", "MB, load",
                "write amplification"], tails)
    held = [[workload, form,
             micros(middle(results, "dead", "held", "p50_ns")),
             micros(middle(results, "clean", "held", "p50_ns"))]
            for workload, by_form in found.items()
            for form, results in by_form.items()
            if "held" in results[0]["dead"]]
    if held:
        page.text("Seeks while the snapshot is held, in microseconds:")
        page.table(["workload", "engine", "median", "clean"], held)
    complete = {form: values for form, values in times.items()
                if len(values) == len(found)}
    caption = "A seek after a second of quiet, against the clean database"
    page.chart("seeks_quiet.svg", caption, page.report.bars(
        caption, list(found), complete,
        f"times, logarithmic, the line: {SEEK_GOAL}", "less", mark=SEEK_GOAL,
        log=True))
    missed = sum(result[side]["missed_tables"]
                 for by_form in found.values()
                 for results in by_form.values()
                 for result in results for side in ("dead", "clean"))
    if missed:
        page.text(f"{missed} tables in all runs were removed before their size "
                  "was read, and are not counted.")
    if "varve" in complete and BEFORE in complete:
        for index, workload in enumerate(found):
            page.report.result(
                f"{workload}: seek after a second, times clean",
                "waste=ignored", pages.figure(complete[BEFORE][index]),
                pages.figure(complete["varve"][index]),
                pages.ratio(complete[BEFORE][index],
                            complete["varve"][index]))


def pops_of(results):
    return pages.Spread(result["pops_per_sec"] for result in results)


def show_queues(page, forms, found):
    page.heading("Queues")
    page.text(
        "Values are pushed, then each is popped: a new iterator seeks to the "
        "first key, which is deleted. The time for pops is limited, so a slow "
        "engine pops a part of them. In queue-producer another thread pushes "
        "at the same time, and at most 10,000 values wait. CPU time is of all "
        "threads. Write amplification is of tables only.")
    rows = []
    for workload, by_form in found.items():
        for form, results in by_form.items():
            amplification = (middle(results, "table_bytes") /
                             max(middle(results, "user_bytes"), 1))
            rows.append([
                workload, form, pages.figure(pops_of(results)),
                f"{middle(results, 'last_tenth_pops_per_sec'):,.0f}",
                f"{100 * middle(results, 'pops') / results[0]['num']:.0f}",
                micros(middle(results, "pop", "p50_ns")),
                micros(middle(results, "pop", "p99_ns")),
                f"{middle(results, 'cpu_micros_per_pop'):,.1f}",
                f"{amplification:.2f}"])
    page.table(["workload", "engine", "pops a second", "in the last tenth",
                "popped (%)", "P50 (us)", "P99 (us)", "CPU of a pop (us)",
                "write amplification"], rows)
    complete = {form: [pops_of(by_form[form]) for by_form in found.values()]
                for form in forms
                if all(form in by_form for by_form in found.values())}
    caption = "Pops a second"
    page.chart("seeks_queue.svg", caption, page.report.bars(
        caption, list(found), complete, "pops a second, logarithmic", "more",
        log=True))
    if "varve" in complete and BEFORE in complete:
        for index, workload in enumerate(found):
            before, now = complete[BEFORE][index], complete["varve"][index]
            page.report.result(f"{workload}: pops a second", "waste=ignored",
                               pages.figure(before), pages.figure(now),
                               pages.ratio(now, before))


def show_space(page, forms, found):
    page.heading("Space")
    page.text(
        "Random deletions of 9 in 10 keys, then nothing. Figures are the bytes "
        "of tables as a multiple of the tables of an equal database that never "
        "had the deleted keys.")
    for by_form in found.values():
        first = next(iter(by_form.values()))[0]
        cases = range(len(first["cases"]))
        seconds = [f"{sample['seconds']:.0f} s"
                   for sample in first["cases"][0]["samples"]]
        rows = []
        for case in cases:
            for form, results in by_form.items():
                each = results[0]["cases"][case]
                times = [middle(results, "cases", case, "samples", index,
                                "tables_to_live")
                         for index in range(len(seconds))]
                rows.append([
                    f"{each['keys']:,} keys, {each['case']}", form,
                    *(f"{value:.2f}" for value in times),
                    megabytes(middle(results, "cases", case,
                                     "later_table_bytes"))])
        page.table(["database", "engine", *seconds, "MB written"], rows)
        last = len(seconds) - 1
        caption = f"Tables after {seconds[last]}, against live data"
        page.chart("seeks_space.svg", caption, page.report.bars(
            caption, [f"{first['cases'][case]['keys']:,}, "
                      f"{first['cases'][case]['case'].split(',')[0]}"
                      for case in cases],
            {form: [pages.Spread(
                result["cases"][case]["samples"][last]["tables_to_live"]
                for result in results) for case in cases]
             for form, results in by_form.items()},
            f"times, the line: {SPACE_GOAL}", "less", mark=SPACE_GOAL))


def show_worst(page, forms, found):
    page.heading("Worst case")
    page.text(
        "Readers that provoke reports for little in return. Runs of 600 keys "
        "are deleted, walked over ten times and put again; the operations are "
        "the same in each form. In worst-snapshot a snapshot that is older "
        "than most of the deletions is always held. In worst-spread runs of "
        "300 keys stay deleted for 50 rounds, and all else is live.")
    rows = []
    for workload, by_form in found.items():
        before = by_form.get(BEFORE)
        for form, results in by_form.items():
            written = middle(results, "table_bytes")
            rows.append([
                workload, form, megabytes(written),
                pages.ratio(written, middle(before, "table_bytes"))
                if before and form == "varve" else "-",
                f"{written / max(middle(results, 'user_bytes'), 1):.2f}",
                micros(middle(results, "walk", "p50_ns")),
                micros(middle(results, "walk", "p99_ns")),
                f"{middle(results, 'cpu_seconds'):.2f}"])
    page.table(["workload", "engine", "MB of tables",
                "against waste=ignored", "write amplification", "walk P50 (us)",
                "walk P99 (us)", "CPU (s)"], rows)
