# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""What 1 to 128 cores would make of the engine's memory traffic: operations are
recorded instruction by instruction and simulated (tools/cores_bench)."""

import itertools
import json
import tempfile

import report as pages

TITLE = "Many cores, simulated"
IDEA = ("No line moves between cores",
        "what scales on two cores scales on 128 (simulated)",
        "tools/cores_bench/coherence_model.h")
LIMITS = ("A simulation: order and shape count, not the nanoseconds. It knows "
          "no overlap of misses, no prefetching, no instruction cache, no "
          "bandwidth, and nothing of the kernel.")
# What the kernels' traffic is by definition.
KNOWN = {
    ("kernel-counter", "core-local"): "0",
    ("kernel-counter", "neighbours"): "more than 0",
    ("kernel-counter", "shared"): "1",
    # Who has it may take it again before a sleeper runs.
    ("kernel-counter", "mutex"): "0 to 3",
    ("kernel-reader", "no lock"): "0",
    ("kernel-reader", "sharded lock"): "0",
    ("kernel-reader", "one lock"): "1 or more",
}
# Published for a database of this kind on 40 cores, before and after its
# counters were made core-local.
PUBLISHED = [["cycles in the function that counts (%)", "30.2", "2.96"],
             ["cache misses in it (%)", "19.5", "1.21"],
             ["a query of all counters (ms)", "27.9", "4.5"]]


def run(lab):
    report = lab.report
    program = lab.program("cores_bench")
    if program is None:
        report.text("cores_bench is not there: it needs x86-64, Zydis and "
                    "libdw. tools/quickstart lab builds it.")
        return
    with tempfile.NamedTemporaryFile(suffix=".json") as output:
        flags = (["--cores=4", "--rounds=2", "--operations=10", "--seeds=1",
                  "--seconds=0.01"] if lab.quick else [])
        lab.run([program, f"--db={made(lab.directory / 'cores')}", *flags,
                 f"--report_json={output.name}"])
        topics = json.load(output)["topics"]
    most = max(each["cores"]
               for each in topics[0]["variants"][0]["simulated"])
    at = min(32, most)
    report.text(
        "Each thread of the engine executes its operations one instruction at "
        "a time, as if it ran on a processor of its own. Their loads, stores "
        f"and locked instructions then go through a model of {most} cores with "
        "private caches, kept coherent by MESI. docs/cores.md has the model "
        f"and its limits. {LIMITS}")
    for topic in topics:
        if topic["topic"].startswith("kernel"):
            continue
        show(report, topic, at)
    validate(report, topics, at)


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


def show(report, topic, at):
    report.heading(f"{topic['operation'].capitalize()}: {topic['topic']}")
    rows = []
    for variant in topic["variants"]:
        one = simulated(variant, at)
        rows.append([
            variant["variant"], f"{variant['instructions']:,.0f}",
            f"{one['transfers']:.2f}", f"{one['invalidations']:.2f}",
            f"{one['coherence_misses']:.2f}", f"{one['cold_misses']:.2f}",
            f"{one['capacity_misses']:.2f}", f"{one['atomics']:.1f}",
            f"{one['sleeps']:.2f}", pages.human(one["operations_a_second"]),
            f"{one['p99_ns']:,.0f}",
            pages.human(one["serial_bound"]) if one["serial_bound"] else "none"])
    report.text(f"{at} cores of one socket, of one operation: lines that came "
                "from another core, copies in other cores that a write ended, "
                "misses by kind, locked instructions, and sleeps for a mutex. "
                "The bound is what the busiest line or mutex allows.")
    report.table(["form", "instructions", "lines moved", "invalidations",
                  "coherence misses", "cold", "capacity", "atomics", "sleeps",
                  "operations a second", "P99 (ns)", "bound"], rows)
    counts = [each["cores"] for each in topic["variants"][0]["simulated"]
              if each["sockets"] == 1]
    report.lines(f"{topic['topic']}: operations a second", counts,
                 {variant["variant"]: [rate(simulated(variant, count))
                                       for count in counts]
                  for variant in topic["variants"]},
                 "simulated cores of one socket", "operations a second",
                 "more", log=True)
    report.lines(f"{topic['topic']}: P99", counts,
                 {variant["variant"]: [simulated(variant, count)["p99_ns"]
                                       for count in counts]
                  for variant in topic["variants"]},
                 "simulated cores of one socket", "nanoseconds", "less",
                 log=True)
    report.text(LIMITS)
    busiest(report, topic, at)
    production = simulated(topic["variants"][0], at)
    slowest = min(topic["variants"], key=lambda variant: simulated(
        variant, at)["operations_a_second"])
    worst = simulated(slowest, at)
    report.result(
        f"{topic['topic']}, {at} simulated cores, a second",
        slowest["variant"], pages.human(worst["operations_a_second"]),
        pages.human(production["operations_a_second"]),
        pages.ratio(production["operations_a_second"],
                    worst["operations_a_second"]))
    if topic["topic"] == "get":
        counting(report, topic, at)


def busiest(report, topic, at):
    rows = []
    for variant in topic["variants"]:
        for line in simulated(variant, at)["hottest"]:
            owner = line["variable"] or f"heap, by {line['function']}"
            rows.append([variant["variant"], owner.replace("varve::", ""),
                         f"{line['transfers']:.2f}", f"{line['busy_ns']:.1f}"])
    if not rows:
        report.text("No line moves between cores in any form.")
        return
    report.table(["form", "the five busiest lines: variable, or function that "
                  "moves it", "moves an operation",
                  "busy (ns an operation)"], rows)


def counting(report, topic, at):
    """The part of a Get that its counters take."""
    by_name = {variant["variant"]: simulated(variant, at)
               for variant in topic["variants"]}
    off = by_name["no statistics"]["nanoseconds"]
    report.table(
        [f"statistics, {at} simulated cores", "part of a Get's time (%)"],
        [[name, f"{100 * (1 - off / by_name[name]['nanoseconds']):.1f}"]
         for name in ("statistics=global", "statistics=thread", "production")])
    report.text("Published measurements of another engine on 40 cores, before "
                "and after it counted in core-local memory:")
    report.table(["published", "before", "after"], PUBLISHED)


def validate(report, topics, at):
    report.heading("How far the model can be trusted")
    report.text("Kernels whose traffic is known without a model:")
    report.table(
        ["kernel", "lines moved, as is known", f"simulated, {at} cores"],
        [[f"{topic['topic']}, {variant['variant']}",
          KNOWN[topic["topic"], variant["variant"]],
          f"{simulated(variant, at)['transfers']:.2f}"]
         for topic in topics if topic["topic"].startswith("kernel")
         for variant in topic["variants"]])
    rows, agreed, compared = [], 0, 0
    for topic in topics:
        here, model = {}, {}
        for variant in topic["variants"]:
            by_threads = {each["threads"]: each["operations_a_second"]
                          for each in variant.get("measured", [])}
            if len(by_threads) < 2:
                continue
            name = variant["variant"]
            here[name] = by_threads[2] / by_threads[1]
            model[name] = (simulated(variant, 2)["operations_a_second"] /
                           simulated(variant, 1)["operations_a_second"])
            rows.append([f"{topic['topic']}, {name}", f"{here[name]:.2f}",
                         f"{model[name]:.2f}"])
        for a, b in itertools.combinations(here, 2):
            # Forms that are this close have no order.
            if max(here[a], here[b]) < 1.25 * min(here[a], here[b]):
                continue
            compared += 1
            agreed += (here[a] > here[b]) == (model[a] > model[b])
    if rows:
        report.text("How many times as much 2 threads do as 1, on this "
                    f"machine and in the model. Of {compared} pairs of forms "
                    f"that differ by 25 % or more here, the model puts {agreed} "
                    "in the same order.")
        report.table(["form", "measured here", "simulated"], rows)
