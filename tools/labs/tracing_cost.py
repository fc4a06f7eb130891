# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""What a span costs: the clock that it reads, and where it is put."""

import subprocess

import bench
import published
import report as pages

TITLE = "A span for two readings of a clock"
IDEA = ("Spans timed by the time stamp counter",
        "A span costs two readings of a register.", "monitoring/span.h")
PUBLISHED = published.FIGURES["tracing"]
FORMS = {"Tsc": "production", "Steady": "trace_clock=steady",
         "Coarse": "trace_clock=coarse", "Mutex": "trace_collect=mutex",
         "Channel": "trace_collect=channel"}


def run(lab):
    report = lab.report
    report.text(
        "Production reads the processor's time stamp counter and leaves spans "
        "in memory of their thread. trace_clock=steady and =coarse call "
        "clock_gettime; trace_collect=mutex puts each span into a vector "
        "under a lock, =channel sends each through a lock-free channel. See "
        "docs/tracing.md.")
    micro(lab)
    whole(lab)
    sample(lab)


def micro(lab):
    report = lab.report
    spans = [1, 10] if lab.quick else [1, 10, 100, 1000]
    found = lab.micro_bench(
        "traces", "^(Clock|TwoReadings|Span|Push|Off)|"
        f"^(Request/.*|Root)/({'|'.join(map(str, spans))})$",
        "--benchmark_min_time=0.07")
    if not found:
        return

    def ns(name):
        # Not every processor has each of the clocks.
        return (bench.spread(found[name], "cpu_time") if name in found
                else pages.Spread([float("nan")]))

    def of_each(name, count):
        return ns(f"{name}/{count}").scaled(1 / count)

    rows = {"a reading, TSC": "Clock/Tsc",
            "a reading, clock_gettime": "Clock/Steady",
            "a reading, its coarse form": "Clock/Coarse",
            "two readings, TSC": "TwoReadings/Tsc",
            "two readings, clock_gettime": "TwoReadings/Steady",
            "a span, TSC": "Span/Tsc", "a span, clock_gettime": "Span/Steady",
            "a span, coarse": "Span/Coarse", "a span without a clock": "Push",
            "a request while nothing is traced": "Off"}
    report.heading("Nanoseconds of processor time")
    report.table(["", "ns"], [[name, pages.figure(ns(key))]
                              for name, key in rows.items()])
    report.bars("Nanoseconds of processor time", list(rows),
                {"ns": [ns(key) for key in rows.values()]}, "nanoseconds",
                "less")
    series = {name: [of_each(f"Request/{form}", count) for count in spans]
              for form, name in FORMS.items()}
    series["one request alone"] = [of_each("Root", count) for count in spans]
    report.heading("A span of a whole trace, collected, in nanoseconds")
    report.table(["spans in the trace", *map(str, spans)],
                 [[name, *map(pages.figure, values)]
                  for name, values in series.items()])
    report.lines("Cost per span against spans in a trace", spans, series,
                 "spans in the trace", "nanoseconds a span", "less", log=True)
    report.text("A channel that does not keep up drops spans and so looks "
                "cheap; one request alone is trace::Root and Collect.")
    report.result("a span, ns of processor time", "trace_clock=steady",
                  pages.figure(ns("Span/Steady")),
                  pages.figure(ns("Span/Tsc")),
                  pages.ratio(ns("Span/Steady"), ns("Span/Tsc")))


def whole(lab):
    """Everything traced and collected, against nothing."""
    file = lab.directory / "all.json"
    forms = {"not traced": [],
             "traced": [f"--trace={file}", "--trace_slower_than_us=1000000"]}
    caches = {"all in the cache": [f"--cache_size={1 << 30}"],
              "a cache of 1 %": [f"--cache_size={lab.num * 116 // 100}"]}
    samples = lab.compare(forms, {
        name: [*flags, "--threads=2"] for name, flags in caches.items()},
        "readseq,readrandom", lab.database(), until=.75, flags=lab.length())
    rate = {key: bench.spread(values, "ops_per_sec")
            for key, values in samples.items()}
    lab.report.heading("Reads a second by two threads, every one traced")
    lab.report.table(
        ["", "not traced", "traced", "traced / not"],
        [[name, pages.figure(rate["not traced", name]),
          pages.figure(rate["traced", name]),
          pages.ratio(rate["traced", name], rate["not traced", name])]
         for name in caches])
    name = next(iter(caches))
    lost = pages.Spread(
        100 * (1 - traced["ops_per_sec"] / bare["ops_per_sec"])
        for traced, bare in zip(samples["traced", name],
                                samples["not traced", name]))
    lab.report.result("throughput lost when every read is traced (%)",
                      "not traced", "0", pages.figure(lost), "-")


def sample(lab):
    """The slowest synced writes of a group commit, as `varve trace` shows
    them."""
    varve = lab.program("varve")
    if varve is None:
        return
    file = lab.directory / "group.json"
    lab.db_bench([*lab.shape(lab.directory / "group"), "--threads=8",
                  "--reads=2000", "--sync", "--trace_sampling=0.02",
                  f"--trace={file}", *(["--num=200"] if lab.quick else
                                       ["--num=2000"]),
                  "--benchmarks=fillrandom"])
    command = [str(varve), "trace", str(file), "--limit=3",
               f"--html={lab.directory / 'group.html'}"]
    lab.note(command)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lab.report.heading("What eight threads with synced writes waited for")
    lab.report.code("\n".join(line for line in done.stdout.splitlines()
                              if not line.startswith("Flame chart")))
