# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""What it costs to begin to read: snapshots and read transactions, iterators,
databases found by name, keys of any case, and to account for memory."""

import re

import bench
import published
import report as pages

TITLE = "Starting to read"
IDEA = ("Reads that begin without a lock",
        "Snapshots, iterators, names and accounts belong to their thread.",
        "db/snapshot/snapshot_registry.h, util/threads/thread_arena.h, "
        "catalog/")
PUBLISHED = published.FIGURES["transactions"]

def run(lab):
    lab.report.text("What comes before a read that takes less than a "
                    "microsecond, each beginning in both forms. See "
                    "docs/snapshots.md.")
    snapshots(lab)
    small_pieces(lab)
    for row in rows(lab):
        lab.row(row)


def snapshots(lab):
    report = lab.report
    threads = lab.threads if lab.quick else [1, 2, 8, 32]
    names = "|".join(map(str, threads))
    found = lab.micro_bench("snapshots",
                            f"^(Transaction|GetSnapshot)/.*threads:({names})$",
                            "--benchmark_min_time=0.05")
    if not found:
        return
    forms = {"ReadTransaction": "Transaction/per_thread",
             "ReadTransaction, snapshots=mutex": "Transaction/mutex",
             "GetSnapshot": "GetSnapshot/per_thread",
             "GetSnapshot, snapshots=mutex": "GetSnapshot/mutex"}
    peer = found.get(f"GetSnapshot/rocksdb/{threads[0]}")
    if peer is not None:
        forms[f"GetSnapshot of {peer[0]['label']}"] = "GetSnapshot/rocksdb"
    for field, title in (("real_time", "by the wall's clock, all threads "
                          "together"), ("cpu_time", "of processor time")):
        series = {name: [bench.spread(found[f"{key}/{count}"], field)
                         for count in threads] for name, key in forms.items()}
        report.heading(f"To begin and end, nanoseconds {title}")
        report.table(["threads", *map(str, threads)],
                     [[name, *map(pages.figure, values)]
                      for name, values in series.items()])
        report.lines(f"To begin and end, {title}", threads, series, "threads",
                     "nanoseconds", "less", log=True)
        if field == "real_time":
            before = series["ReadTransaction, snapshots=mutex"][-1]
            now = series["ReadTransaction"][-1]
            report.result(f"a read transaction of {threads[-1]} threads, ns",
                          "snapshots=mutex", pages.figure(before),
                          pages.figure(now), pages.ratio(before, now))


def rows(lab):
    num = min(lab.num, 20000)
    threads = lab.threads if lab.quick else [1, 8, 32]
    return [
        bench.Row(
            "To make an iterator, seek and destroy it", "arena=fresh",
            [*lab.shape(lab.database("small", num), num), "--use_existing_db",
             *lab.length(), "--benchmarks=seekrandom"],
            {f"{count} thread{'s' * (count > 1)}": [f"--threads={count}"]
             for count in lab.threads[:2]}, "iterators a second", .6, at=0,
            text=f"{num:,} entries: small enough that the seek itself does not "
            "hide the difference. arena=fresh makes each iterator of new "
            "memory."),
        bench.Row(
            "To find a database by its name", "catalog=folding",
            [f"--db={lab.directory / 'catalog'}", "--num=1000", *lab.length(),
             "--benchmarks=cataloglookup"],
            {count: [f"--threads={count}"] for count in threads},
            f"lookups of a name by {threads[-1]} threads, a second", .85,
            curve=("Lookups a second against threads", "lookups a second"))]


def small_pieces(lab):
    """Keys of any case, and the accounts of memory."""
    found = lab.micro_bench("key_fold memory",
                            "FoldAscii|FoldGreek|MemoryPair",
                            "--benchmark_min_time=0.02")
    if not found:
        return
    report = lab.report
    folds = {}
    for name, figures in found.items():
        match = re.search(r"FoldAscii/(\w+)/bytes:(\d+)", name)
        if match:
            folds[match[1], int(match[2])] = bench.spread(figures, "cpu_time")
    sizes = sorted({size for _, size in folds})
    report.heading("To fold a key's case, nanoseconds of processor time")
    report.table(
        ["bytes of ASCII", "key_case=unicode", "production"],
        [[size, pages.figure(folds["kUnicode", size]),
          pages.figure(folds["kAsciiFirst", size])] for size in sizes])
    if sizes:
        before, now = (folds[form, 16] for form in ("kUnicode", "kAsciiFirst"))
        report.result("to fold a key of 16 bytes, ns", "key_case=unicode",
                      pages.figure(before), pages.figure(now),
                      pages.ratio(before, now))
    pairs = {}
    for name, figures in found.items():
        match = re.search(r"MemoryPair/(\w+)/(\d+)", name)
        if match:
            pairs[match[1], int(match[2])] = bench.spread(figures, "cpu_time")
    counts = sorted({count for _, count in pairs})
    report.heading("To allocate and free 512 bytes, nanoseconds")
    report.table(
        ["threads", "nothing counted", "memory_accounting=atomic",
         "production"],
        [[count, *(pages.figure(pairs[form, count])
                   for form in ("kNone", "kAtomic", "kOwner"))]
         for count in counts])
