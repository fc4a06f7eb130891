# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""What it costs to count: one counter for all threads, one for each thread,
one for each processor."""

import statistics

import bench
import report as pages

TITLE = "Counters of each processor"
NAMES = {"per_cpu": "production", "thread": "thread", "global": "global"}
FORMS = {"off": ["--stats_level=0"], "production": ["--stats_level=3"],
         "thread": ["--ablate=statistics=thread"],
         "global": ["--ablate=statistics=global"]}


def run(lab):
    report = lab.report
    report.text(
        "statistics=global adds atomically to one counter for all threads; "
        "statistics=thread has a counter for each thread, which a query goes "
        "through; production adds to the processor's own, without a locked "
        "instruction. See docs/statistics.md.")
    updates(lab)
    queries(lab)
    whole_reads(lab)
    path = lab.database()
    lab.profiles("Where 32 readers spend their time", {
        form: [*lab.shape(path), "--use_existing_db", *lab.length(),
               "--threads=32", "--benchmarks=readrandom,readrandom",
               *FORMS[form]] for form in ("production", "thread", "global")})


def updates(lab):
    report = lab.report
    threads = lab.threads if lab.quick else [1, 2, 8, 32]
    names = "|".join(map(str, threads))
    found = lab.google("statistics_bench",
                       f"^(Update/.*|PrivateAtomic/)threads:({names})$|"
                       "^PrivateAtomic/|^RecordInHistogram/")
    if not found:
        return
    series = {name: [found[f"Update/{form}/{count}"]["cpu_time"]
                     for count in threads] for form, name in NAMES.items()}
    series["atomic, on a private line"] = [
        found[f"PrivateAtomic/{count}"]["cpu_time"] for count in threads]
    report.heading("An update, in nanoseconds of processor time")
    report.table(["threads", *map(str, threads)],
                 [[name, *(f"{value:.2f}" for value in values)]
                  for name, values in series.items()])
    report.lines("Nanoseconds an update against threads", threads, series,
                 "threads", "nanoseconds", log=True)
    report.table(["a value into a histogram", "nanoseconds"],
                 [[name, f"{found[f'RecordInHistogram/{form}']['cpu_time']:.1f}"]
                  for form, name in NAMES.items()])
    report.result(f"a count with {threads[-1]} threads, ns",
                  f"{series['global'][-1]:.2f}",
                  f"{series['production'][-1]:.2f}",
                  pages.ratio(series["global"][-1], series["production"][-1]))


def queries(lab):
    report = lab.report
    threads = [1] if lab.quick else [1, 100, 1000, 4000]
    names = "|".join(map(str, threads))
    found = lab.google("statistics_bench",
                       f"^QueryLatency/all_tickers_.*/({names})/")
    if not found:
        return
    rows = [(count, name, found[f"QueryLatency/all_tickers_{form}/{count}"])
            for count in threads
            for form, name in NAMES.items() if form != "global"]
    report.heading("A query of all counters, in microseconds")
    report.table(["threads that counted", "form", "min", "average", "P95",
                  "max"],
                 [[count, name, *(f"{figures[field]:,.2f}" for field in
                                  ("min", "avg", "p95", "max"))]
                  for count, name, figures in rows])
    series = {}
    for _, name, figures in rows:
        series.setdefault(name, []).append(figures["avg"])
    report.lines("Microseconds a query against threads that counted", threads,
                 series, "threads", "microseconds", log=True)
    report.result(f"a query after {threads[-1]} threads, us",
                  f"{series['thread'][-1]:,.2f}",
                  f"{series['production'][-1]:,.2f}",
                  pages.ratio(series["thread"][-1], series["production"][-1]))


def whole_reads(lab):
    """Processor time of user code: other load moves the throughput by more
    than what is looked for."""
    report = lab.report
    threads = 2 if lab.quick else 32
    reads = 1000 if lab.quick else 60000
    samples = lab.compare(
        FORMS, {threads: [f"--threads={threads}", f"--reads={reads}"]},
        "readrandom,readrandom", lab.database(), until=.85)
    off = bench.median(samples["off", threads], "user_seconds")
    rows = []
    for form in FORMS:
        values = samples[form, threads]
        seconds = statistics.median(
            sample["user_seconds"] for sample in values)
        rows.append([form, f"{seconds:.3f}",
                     f"{100 * (seconds / off - 1):+.1f} %" if off else "-",
                     f"{bench.median(values, 'ops_per_sec'):,.0f}"])
    report.heading(f"A program of {threads} readers that counts")
    report.text(f"{2 * threads * reads:,} reads, "
                f"{len(samples['off', threads])} rounds, medians.")
    report.table(["form", "seconds of user code", "against off",
                  "reads a second"], rows)
