# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""What it costs to count: one counter for all threads, one for each thread,
one for each processor."""

import bench
import published
import report as pages

TITLE = "Counters of each processor"
IDEA = ("Counters of each processor",
        "To count costs next to nothing, and a query does not go through the "
        "threads.", "util/threads/per_cpu.h")
PUBLISHED = published.FIGURES["statistics"]
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
        form: [*lab.shape(path), "--use_existing_db", "--threads=32",
               "--benchmarks=readseq,readrandom,readrandom", *FORMS[form]]
        for form in ("production", "thread", "global")})


def updates(lab):
    report = lab.report
    threads = lab.threads if lab.quick else [1, 2, 8, 32]
    names = "|".join(map(str, threads))
    found = lab.micro_bench("statistics",
                            f"^(Update/.*|PrivateAtomic/)threads:({names})$|"
                            "^PrivateAtomic/|^RecordInHistogram/",
                            "--benchmark_min_time=0.15")
    if not found:
        return

    def ns(name):
        return bench.spread(found[name], "cpu_time")

    series = {name: [ns(f"Update/{form}/{count}") for count in threads]
              for form, name in NAMES.items()}
    series["atomic, on a private line"] = [
        ns(f"PrivateAtomic/{count}") for count in threads]
    report.heading("An update, in nanoseconds of processor time")
    report.table(["threads", *map(str, threads)],
                 [[name, *map(pages.figure, values)]
                  for name, values in series.items()])
    report.lines("Processor time of an update against threads", threads,
                 series, "threads", "nanoseconds", "less", log=True)
    report.table(["a value into a histogram", "nanoseconds"],
                 [[name, pages.figure(ns(f"RecordInHistogram/{form}"))]
                  for form, name in NAMES.items()])
    report.result(f"a count with {threads[-1]} threads, ns",
                  "statistics=global", pages.figure(series["global"][-1]),
                  pages.figure(series["production"][-1]),
                  pages.ratio(series["global"][-1], series["production"][-1]))


def queries(lab):
    report = lab.report
    threads = [1] if lab.quick else [1, 100, 1000, 4000]
    names = "|".join(map(str, threads))
    found = lab.micro_bench("statistics",
                            f"^QueryLatency/all_tickers_.*/({names})/")
    if not found:
        return
    rows = [(count, name, found[f"QueryLatency/all_tickers_{form}/{count}"])
            for count in threads
            for form, name in NAMES.items() if form != "global"]
    report.heading("A query of all counters, in microseconds")
    report.table(["threads that counted", "form", "min", "average", "P95",
                  "max"],
                 [[count, name, *(pages.figure(bench.spread(figures, field))
                                  for field in ("min", "avg", "p95", "max"))]
                  for count, name, figures in rows])
    series = {}
    for _, name, figures in rows:
        series.setdefault(name, []).append(bench.spread(figures, "avg"))
    report.lines("Time of a query against threads that counted", threads,
                 series, "threads", "microseconds", "less", log=True)
    report.result(f"a query after {threads[-1]} threads, us",
                  "statistics=thread", pages.figure(series["thread"][-1]),
                  pages.figure(series["production"][-1]),
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
    off = bench.spread(samples["off", threads], "user_seconds").median
    rows = []
    for form in FORMS:
        values = samples[form, threads]
        seconds = bench.spread(values, "user_seconds")
        rows.append([form, pages.figure(seconds),
                     f"{100 * (seconds.median / off - 1):+.1f} %" if off
                     else "-",
                     pages.figure(bench.spread(values, "ops_per_sec"))])
    report.heading(f"A program of {threads} readers that counts")
    report.text(f"{2 * threads * reads:,} reads, "
                f"{pages.rounds(len(samples['off', threads]))}, medians.")
    report.table(["form", "seconds of user code", "against off",
                  "reads a second"], rows)

    def part(form):
        """Of the user code, in each round."""
        return pages.Spread(
            100 * (1 - without["user_seconds"] / counted["user_seconds"])
            for without, counted in zip(samples["off", threads],
                                        samples[form, threads]))

    if not lab.quick:
        report.result(f"part of the user code of {threads} readers that "
                      "counts (%)", "statistics=global",
                      pages.figure(part("global")),
                      pages.figure(part("production")),
                      pages.ratio(part("global"), part("production"))
                      if part("production").median > 0 else "-")
