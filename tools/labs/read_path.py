# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Each part of the read path is switched back to the usual way of doing it, by
itself, and all of them together."""

import bench
import report as pages

TITLE = "The read path, part by part"
PARTS = ["superversion=mutex", "block_index=binary_search",
         "block_cache=hash"]
ALL = ",".join(PARTS)
FORMS = {"production": [], **{part: [f"--ablate={part}"] for part in PARTS},
         "all of these": [f"--ablate={ALL}"]}


def run(lab):
    report = lab.report
    path = lab.database()
    report.text(
        "A cached read should cost its chain of cache misses. Each row "
        "switches one part of the read path back: how many times as fast the "
        f"production choice is. Random reads of {lab.num:,} entries, all in "
        "the cache; medians. See docs/read_path.md.")
    settings = {f"{count} thread{'s' * (count > 1)}": [f"--threads={count}"]
                for count in (1, 2)}
    samples = lab.compare(FORMS, settings, "readseq,readrandom", path,
                          until=.5, flags=lab.length())
    rate = {key: bench.spread(values, "ops_per_sec")
            for key, values in samples.items()}

    def factor(form, setting):
        """Of each round, since the two runs of a round had the same load."""
        return pages.Spread(
            now["ops_per_sec"] / before["ops_per_sec"] for now, before in
            zip(samples["production", setting], samples[form, setting]))

    first = next(iter(settings))
    report.heading("Reads a second (" + pages.rounds(
        len(samples["production", first])) + ")")
    report.table(
        ["form", *(word for name in settings
                   for word in (name, "production / it"))],
        [[form, *(word for name in settings
                  for word in (pages.figure(rate[form, name]),
                               pages.figure(factor(form, name))))]
         for form in FORMS])
    ablations = [form for form in FORMS if form != "production"]
    report.bars("How many times as fast production is", ablations,
                {name: [factor(form, name) for form in ablations]
                 for name in settings}, "times, the line: no difference",
                "more", mark=1)
    for name in settings:
        report.result(f"reads a second by {name}", "all parts switched back",
                      pages.figure(rate["all of these", name]),
                      pages.figure(rate["production", name]),
                      f"{factor('all of these', name).median:.2f}")

    two = {form: FORMS[form] for form in ("production", "all of these")}
    times = lab.compare(two, settings, "readseq,readrandom", path, until=.65,
                        flags=[*lab.length(), "--histogram"])
    report.heading("Latency, in microseconds")
    report.table(
        ["form", "threads", "median", "P99", "P99.9"],
        [[form, name, *(pages.figure(bench.spread(values, field).scaled(1e-3))
                        for field in ("p50", "p99", "p99.9"))]
         for (form, name), values in times.items()])
    # The memtable's order is of writes.
    num = max(lab.num // 4, 1000)
    lab.row(bench.Row(
        "Random writes: what orders the memtable", "memtable=skiplist",
        [*lab.shape(lab.directory / "writes", num), "--benchmarks=fillrandom"],
        {"1 thread": []}, "random writes a second", .8))
    lab.profiles("Where one reader spends its time", {
        form: [*lab.shape(path), "--use_existing_db",
               "--benchmarks=readseq,readrandom", *flags]
        for form, flags in two.items()})
