# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""A read needs the memtables and tables of one moment, which are counted
references behind one mutex, unless each thread keeps one of its own."""

import bench
import published
import report as pages

TITLE = "A reference in each thread instead of a mutex"
IDEA = ("Each thread keeps a reference to what it reads from",
        "A Get takes no lock and writes to no shared line.",
        "db/snapshot/super_version_cache.h")
PUBLISHED = published.FIGURES["superversion"]
ENTRY_BYTES = 116
FORMS = {"production": [], "mutex": ["--ablate=superversion=mutex"]}


def run(lab):
    report = lab.report
    path = lab.database()
    settings = {count: [f"--threads={count}"] for count in lab.threads}
    report.text(
        "Before each read, superversion=mutex takes the DB mutex to count a "
        "reference on what is read from, and again to give it back. "
        "Production keeps a reference in each thread, which a flush or "
        f"compaction replaces. Random reads of {lab.num:,} entries, all in "
        "the cache; medians. See docs/read_path.md.")
    rates = lab.compare(FORMS, settings, "readseq,readrandom", path,
                        until=.3, flags=lab.length())
    times = lab.compare(FORMS, settings, "readseq,readrandom", path,
                        until=.5, flags=[*lab.length(), "--histogram"])
    rate = {key: bench.spread(samples, "ops_per_sec")
            for key, samples in rates.items()}
    p99 = {key: bench.spread(samples, "p99").scaled(1e-3)
           for key, samples in times.items()}
    report.heading("Throughput and the slowest of a hundred")
    report.table(
        ["threads", "mutex, reads/s", "production, reads/s", "factor",
         "mutex, P99 (us)", "production, P99 (us)"],
        [[count, pages.figure(rate["mutex", count]),
          pages.figure(rate["production", count]),
          pages.ratio(rate["production", count], rate["mutex", count]),
          pages.figure(p99["mutex", count]),
          pages.figure(p99["production", count])]
         for count in lab.threads])
    report.text(f"Rounds of the rate: {len(rates['mutex', lab.threads[0]])}; "
                f"of the latency: {len(times['mutex', lab.threads[0]])}, apart "
                "from the rate, since to read the clock costs time.")
    report.lines("Reads a second against threads", lab.threads,
                 {form: [rate[form, count] for count in lab.threads]
                  for form in FORMS}, "threads", "reads a second", "more")
    report.lines("P99 against threads", lab.threads,
                 {form: [p99[form, count] for count in lab.threads]
                  for form in FORMS}, "threads", "microseconds", "less",
                 log=True)
    most = lab.threads[-1]
    report.result(f"reads by {most} threads, a second", "superversion=mutex",
                  pages.figure(rate["mutex", most]),
                  pages.figure(rate["production", most]),
                  pages.ratio(rate["production", most], rate["mutex", most]))
    report.result(f"P99 of reads by {most} threads (us)",
                  "superversion=mutex", pages.figure(p99["mutex", most]),
                  pages.figure(p99["production", most]),
                  pages.ratio(p99["mutex", most], p99["production", most]))
    shares = lab.profiles(f"Where {most} readers spend their time", {
        form: [*lab.shape(path), "--use_existing_db",
               f"--threads={most}",
               "--benchmarks=readseq,readrandom,readrandom", *flags]
        for form, flags in FORMS.items()})
    if shares is not None:
        before, now = (shares[form][bench.KERNEL]
                       for form in ("mutex", "production"))
        report.result(f"time in the kernel, {most} readers (%)",
                      "superversion=mutex", pages.figure(before),
                      pages.figure(now), pages.ratio(before, now))
    beside_a_writer(lab, settings)


def beside_a_writer(lab, settings):
    """As published: a writer of 10,000 writes a second. Its write buffer is so
    small that a flush or compaction replaces what the readers refer to several
    times a second."""
    report = lab.report
    samples = lab.compare(
        FORMS, settings, "readseq,readwhilewriting",
        lab.database("beside_a_writer"),
        flags=[*lab.length(), "--histogram", "--write_buffer_size=262144",
               f"--benchmark_write_rate_limit={10_000 * ENTRY_BYTES}"])
    report.heading("Beside a writer of 10,000 writes a second")
    report.table(
        ["threads", "mutex, reads/s", "production, reads/s",
         "mutex, P99 (us)", "production, P99 (us)"],
        [[count,
          *(pages.figure(bench.spread(samples[form, count], "ops_per_sec"))
            for form in ("mutex", "production")),
          *(pages.figure(bench.spread(samples[form, count], "p99").scaled(
              1e-3)) for form in ("mutex", "production"))]
         for count in settings])
