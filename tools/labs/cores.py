# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""What 1 to 128 cores would make of the engine's memory traffic: operations are
recorded instruction by instruction and simulated (tools/cores_bench)."""

import itertools
import json
import os
import tempfile
import time
from pathlib import Path

import bench
import report as pages
import statistics_cost

TITLE = "Many cores, simulated"
IDEA = ("No line moves between cores",
        "What scales on two cores scales on 128.",
        "tools/cores_bench/coherence_model.h")
LIMITS = ("A simulation: order and shape count, not the nanoseconds. It knows "
          "no overlap of misses, no prefetching, no instruction cache, no "
          "bandwidth, and nothing of the kernel.")
# The labs whose ideas a topic is about, and the baseline that is theirs.
IDEAS = {"get": ("superversion", "superversion=mutex"),
         "counter": ("statistics", "statistics=global"),
         "span": ("tracing", "trace_collect=mutex"),
         "snapshot": ("transactions", "snapshots=mutex"),
         "catalog": ("transactions", "catalog=folding"),
         "accounting": ("transactions", "memory_accounting=atomic")}


# Below the heading of a topic.
NOTES = {
    "put": "Each core puts random keys of its own into a memtable that has "
    "100,000 entries. Groups overlap in production, as they do while writers "
    "meet, and come one after another if they do not. Each Put was recorded "
    "alone, so that no writer waited for another. In the model all cores do "
    "at once what the queue lets one leader do at a time: number the updates "
    "and append to the log. So the rates are too high. The model knows neither "
    "the order in which writers wait for each other nor the words by which "
    "they link and wake each other. It also lacks the misses of memory that "
    "each write is the first to use. The log is mapped, and its preparation "
    "for the next 64 KiB is not recorded."}


def add_flags(parser):
    parser.add_argument("--topics", default="",
                        help="of cores_bench, separated by commas; all without "
                        "any")
    parser.add_argument("--into", type=Path,
                        help="a folder of results, whose page cores.md gets the "
                        "sections of --topics in place of its own")


def run(lab):
    report = lab.report
    program = lab.program("cores_bench")
    if program is None:
        report.text("cores_bench is not there: it needs x86-64, Zydis and "
                    "libdw. tools/quickstart lab builds it.")
        return
    page = pages.Results(report, "cores", [
        "db/", "table/", "monitoring/", "catalog/", "env/", "util/bytes/",
        "util/threads/", "tools/cores_bench/"])
    load = os.getloadavg()[0]
    begin = time.monotonic()
    with tempfile.NamedTemporaryFile(suffix=".json") as output:
        flags = (["--cores=4", "--rounds=2", "--operations=10", "--seeds=1",
                  "--seconds=0.01"] if lab.quick else [])
        if lab.options.topics:
            flags.append(f"--topics={lab.options.topics}")
        lab.run([program, f"--db={made(lab.directory / 'cores')}", *flags,
                 f"--report_json={output.name}"])
        topics = json.load(output)["topics"]
    if not topics:
        raise bench.LabError(f"no topic is named {lab.options.topics}")
    most = max(each["cores"]
               for each in topics[0]["variants"][0]["simulated"])
    at = min(32, most)
    # Of so few operations as of --quick, those under way are many.
    if not lab.quick:
        check_known(topics, at)
    page.text(
        "Each thread of the engine executes its operations one instruction at "
        "a time, as if it ran on a processor of its own. Their loads, stores "
        f"and locked instructions then go through a model of {most} cores with "
        "private caches, kept coherent by MESI. docs/cores.md has the model "
        f"and its limits. {LIMITS}")
    page.text(
        f"{time.strftime('%Y-%m-%d %H:%M')}, {os.cpu_count()} processors, load "
        f"{load:.1f}. The recording, the simulations of 1 to {most} cores and "
        "the measurements with 1 and 2 threads took "
        f"{(time.monotonic() - begin) / 60:.1f} minutes.")
    page.text(f"In the tables are {at} cores of one socket, and figures of one "
              "operation. Lines moved came from another core. Invalidations "
              "are copies in other cores that a write ended. Misses are by "
              "kind, atomics are locked instructions, those that failed are "
              "compare-and-swaps, and sleeps wait for a mutex. "
              "The bound is what the busiest line or mutex allows, for any "
              "number of cores.")
    for topic in topics:
        if not topic["topic"].startswith("kernel"):
            show(page, topic, at)
    waiting = [topic for topic in topics
               if topic["topic"] in ("kernel-add", "kernel-lock")]
    if waiting:
        show_waiting(page, waiting, at)
    validate(page, topics, at)
    page.write(lab.options.out, "tools/lab cores")
    if lab.options.into is not None:
        for topic in topics:
            if not topic["topic"].startswith("kernel"):
                page.replace_section(lab.options.into / "cores.md",
                                     topic["topic"],
                                     f"{topic['topic']}, simulated")


def made(path):
    path.mkdir(parents=True, exist_ok=True)
    return path


def simulated(variant, cores, sockets=1):
    return next(each for each in variant["simulated"]
                if each["cores"] == cores and each["sockets"] == sockets)


def rate(figures):
    """Of all schedules, for the error bar."""
    return pages.Spread([figures["least"], figures["operations_a_second"],
                         figures["most"]])


def p99(figures):
    return pages.Spread([figures["p99_least_ns"], figures["p99_ns"],
                         figures["p99_most_ns"]])


def show(page, topic, at):
    name = topic["topic"]
    variants = {variant["variant"]: variant for variant in topic["variants"]}
    operation = topic["operation"]
    page.heading(f"{operation[0].upper()}{operation[1:]} ({name})")
    if name in NOTES:
        page.text(NOTES[name])
    counts = sorted({each["cores"] for each in topic["variants"][0]["simulated"]
                     if each["sockets"] == 1})
    most = max(each["cores"] for each in topic["variants"][0]["simulated"])
    rows = []
    for form, variant in variants.items():
        one = simulated(variant, at)
        rows.append([
            form, pages.human(one["operations_a_second"]),
            f"{one['transfers']:.2f}", f"{one['p99_ns']:,.0f}",
            pages.human(one["serial_bound"]) if one["serial_bound"] else "none",
            pages.human(simulated(variant, most, 2)["operations_a_second"]),
            f"{variant['instructions']:,.0f}", f"{one['invalidations']:.2f}",
            f"{one['coherence_misses']:.2f}", f"{one['cold_misses']:.2f}",
            f"{one['capacity_misses']:.2f}", f"{one['atomics']:.1f}",
            f"{one['failures']:.1f}", f"{one['sleeps']:.2f}"])
    # What matters is first, so that a phone shows it.
    page.table(["form", "operations a second", "lines moved", "P99 (ns)",
                "bound", f"a second, {most} cores of two sockets",
                "instructions", "invalidations", "coherence misses", "cold",
                "capacity", "atomics", "failed", "sleeps"], rows,
               matters="operations a second")

    def caption(what):
        return f"{name}: {what} (simulated)"

    def curve(what, draw, forms):
        """A chart of the rate or the P99 against cores, with its limits."""
        value, ylabel, better = {
            "operations a second": (rate, "a second", "more"),
            "P99": (p99, "nanoseconds", "less")}[what]
        return draw(caption(what), counts,
                    {form: [value(simulated(variants[form], count))
                            for count in counts] for form in forms},
                    "simulated cores of one socket", ylabel, better, log=True,
                    note=LIMITS)

    page.chart(f"cores_{name}.svg", caption("operations a second"),
               curve("operations a second", page.report.lines, variants),
               note=LIMITS)
    curve("P99", page.report.lines, variants)
    if simulated(variants["production"], at)["transfers"]:
        by_cores(page, variants, counts)
    busiest(page, topic, at)
    # Its forms are about no idea.
    if name not in IDEAS:
        return
    slowest = min(variants, key=lambda form: simulated(
        variants[form], at)["operations_a_second"])
    add_to_ideas(page.report, name, variants, slowest, at, curve)
    if name == "get":
        counting(page, variants, at)


def show_waiting(page, topics, at):
    """What cores do that wait for each other, over their number."""
    page.heading("Cores that wait for each other (kernel-add, kernel-lock)")
    page.text("These kernels are executed by the model itself, because what "
              "they do depends on the values that other cores stored: a "
              "compare-and-swap fails if another core was faster, and a lock "
              "is waited for.")
    variants = {f"{topic['topic'].removeprefix('kernel-')}, "
                f"{variant['variant']}": variant
                for topic in topics for variant in topic["variants"]}
    counts = sorted({each["cores"] for variant in variants.values()
                     for each in variant["simulated"] if each["sockets"] == 1})
    rows = []
    for name, variant in variants.items():
        one = simulated(variant, at)
        rows.append([
            name, pages.human(one["operations_a_second"]),
            f"{one['transfers']:.2f}", f"{one['atomics']:.2f}",
            f"{one['failures']:.2f}", f"{one['p99_ns']:,.0f}",
            *(pages.human(simulated(variant, count)["operations_a_second"])
              for count in (counts[0], counts[-1]))])
    page.table(["kernel", "operations a second", "lines moved", "atomics",
                "failed", "P99 (ns)", f"a second, {counts[0]} core",
                f"{counts[-1]} cores"], rows, matters="operations a second")
    caption = "kernels that wait: operations a second (simulated)"
    page.chart("cores_waiting.svg", caption, page.report.lines(
        caption, counts,
        {name: [rate(simulated(variant, count)) for count in counts]
         for name, variant in variants.items()},
        "simulated cores of one socket", "a second", "more", log=True,
        note=LIMITS), note=LIMITS)


def add_to_ideas(report, name, variants, slowest, at, curve):
    """The rows and curves of the page's first part."""
    def compared(what, baseline, field):
        before, now = (simulated(variants[form], at)[field]
                       for form in (baseline, "production"))
        show_one = (lambda value: f"{value:.2f}") if field == "transfers" \
            else pages.figure
        return [what, baseline, show_one(before), show_one(now),
                pages.ratio(now, before) if field == "operations_a_second"
                else pages.ratio(before, now)]

    rates = compared(f"{name}, {at} cores, a second", slowest,
                     "operations_a_second")
    report.result(*rates)
    moved = compared(f"{name}, {at} cores, lines moved by an operation",
                     slowest, "transfers")
    draw = report.lines_apart
    charts = ([curve("operations a second", draw, variants),
               curve("P99", draw, variants)] if name == "get" else [])
    report.simulation("cores", [rates, moved], charts)
    idea, baseline = IDEAS[name]
    # All forms of a counter are about one idea.
    forms = [form for form in variants
             if form in ("production", baseline) or name == "counter"]
    rows = [compared(f"{name}, {at} cores, a second", baseline,
                     "operations_a_second"),
            compared(f"{name}, {at} cores, lines moved by an operation",
                     baseline, "transfers")]
    charts = [curve("operations a second", draw, forms)]
    if name == "get":
        rows.append(compared(f"{name}, {at} cores, P99 (ns)", baseline,
                             "p99_ns"))
        charts.append(curve("P99", draw, forms))
    report.simulation(idea, rows, charts)


def by_cores(page, variants, counts):
    """The curve in figures, where there is more to see than a straight line."""
    rows = []
    for form, variant in variants.items():
        figures = [simulated(variant, count) for count in counts]
        rows.append([f"{form}, a second",
                     *(pages.human(each["operations_a_second"])
                       for each in figures)])
        rows.append([f"{form}, lines moved",
                     *(f"{each['transfers']:.2f}" for each in figures)])
    page.table(["cores of one socket", *map(str, counts)], rows)


def busiest(page, topic, at):
    rows = []
    for variant in topic["variants"]:
        for line in simulated(variant, at)["hottest"]:
            functions = [each["name"] for each in line["functions"][:2]]
            owner = line["variable"] or "heap, by " + " and ".join(
                functions or [line["function"]])
            rows.append([variant["variant"], owner.replace("varve::", ""),
                         f"{line['transfers']:.2f}", f"{line['busy_ns']:.1f}"])
    if not rows:
        page.text("No line moves between cores in any form.")
        return
    page.table(["form", "the five busiest lines: variable, or functions that "
                  "move it most", "moves an operation",
                  "busy (ns an operation)"], rows)


def counting(page, variants, at):
    """The part of a Get that its counters take."""
    by_name = {name: simulated(variant, at)
               for name, variant in variants.items()}
    off = by_name["no statistics"]["nanoseconds"]
    part = {name: f"{100 * (1 - off / by_name[name]['nanoseconds']):.1f}"
            for name in ("statistics=global", "statistics=thread",
                         "production")}
    page.table([f"statistics, {at} simulated cores",
                "part of a Get's time (%)"], list(part.items()))
    page.report.simulation("statistics", [
        [f"part of a Get's time that counts, {at} cores (%)",
         "statistics=global", part["statistics=global"], part["production"],
         pages.ratio(float(part["statistics=global"]),
                     float(part["production"]))]], [])
    page.text("Published measurements of another engine, before and after it "
              "changed how it counts:")
    page.table(["published", "before", "after", "where"],
               statistics_cost.PUBLISHED)


def differ_little(one, other):
    return max(one, other) < 1.25 * min(one, other)


def bounds(known, cores):
    """Of the lines that an operation moves: the least and the most."""
    return (known["least"] + known["least_each"] * cores,
            known["most"] + known["most_each"] * cores)


def is_known(variant, cores):
    """Whether the model gives what is known: just that if both bounds are
    equal, but for operations that were under way."""
    least, most = bounds(variant["known"], cores)
    moved = simulated(variant, cores)["transfers"]
    return least * .999 <= moved <= most * 1.001


def check_known(topics, at):
    wrong = [f"{topic['topic']}, {variant['variant']}" for topic in topics
             for variant in topic["variants"]
             if "known" in variant and not is_known(variant, at)]
    if wrong:
        raise bench.LabError(f"the model is wrong about {'; '.join(wrong)}")


def validate(page, topics, at):
    page.heading("How far the model can be trusted")
    known = [[f"{topic['topic']}, {variant['variant']}",
              f"{simulated(variant, at)['transfers']:.2f}",
              " to ".join(dict.fromkeys(
                  f"{bound:g}" for bound in bounds(variant["known"], at))),
              variant["known"]["why"]]
             for topic in topics for variant in topic["variants"]
             if "known" in variant]
    if known:
        page.text("Kernels whose traffic is known without a model. One number "
                  "is known exactly; the others depend on which core is first:")
        page.table(["kernel", f"simulated, {at} cores",
                    "lines moved, as is known", "why"], known,
                   matters=f"simulated, {at} cores")
    rows, noise, compared, alike, opposite = [], 0, 0, [], []
    for topic in topics:
        here, model = {}, {}
        for variant in topic["variants"]:
            if "gain" not in variant:
                continue
            name = variant["variant"]
            gain = (simulated(variant, 2)["operations_a_second"] /
                    simulated(variant, 1)["operations_a_second"])
            if variant["gain"] == "noise":
                noise += 1
                shown = "noise"
            else:
                here[name], model[name] = variant["gain"], gain
                shown = f"{variant['gain']:.2f}"
            rows.append([f"{topic['topic']}, {name}", shown, f"{gain:.2f}"])
        for a, b in itertools.combinations(here, 2):
            # Forms that are this close have no order.
            if differ_little(here[a], here[b]):
                continue
            compared += 1
            if (here[a] > here[b]) == (model[a] > model[b]):
                continue
            pair = f"{topic['topic']}, {a} and {b}"
            (alike if differ_little(model[a], model[b])
             else opposite).append(pair)
    if rows:
        page.text("How many times as much 2 threads do as 1, on this "
                  "machine and in the model." +
                  (f" Of {compared} pairs of forms that differ by 25 % or more "
                   "here, the model puts "
                   f"{compared - len(alike) - len(opposite)} in the same order."
                   if compared else " No two forms can be compared.")
                  + (f" It has less of a difference, and the opposite order, "
                     f"for {'; '.join(alike)}." if alike else "") +
                  (f" {noise} of {len(rows)} measurements are noise: two "
                   "threads did more than twice as much as one, rounds "
                   "differed by a factor of two, or others had the processor."
                   if noise else "") +
                  (f" It has the opposite order for {'; '.join(opposite)}."
                   if opposite else ""))
        page.table(["form", "measured here", "simulated"], rows,
                   matters="measured here")
