# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""What it costs to open a table, and how to see it."""

import collections
import re
import statistics
import tempfile
from pathlib import Path

import bench
import report as pages

TITLE = "What it costs to open a table"
FORMS = {"production": [], "uncached": ["--ablate=table_open=uncached"]}
CALL = re.compile(r"^(?:\d+\s+)?[\d.]+ (\w+)\((.*)\)\s+= (.*) <([\d.]+)>$")
TABLE = re.compile(r"\d{6,}\.sst")
FEW_READS = 2000  # So few that they stay cold, and can be traced.
TABLE_BYTES = 130_000  # A table's, so that a million entries make hundreds.

EXPLAINED = {
    "openat": "opens the file",
    "pread64": "reads",
    "fcntl": "flags, one by one",
    "fstat": "asks for size and device",
    "newfstatat": "one component of the path to the device",
    "lstat": "one component of the path to the device",
    "readlink": "a symbolic link on that path",
    "read": "the device's block size, from sysfs",
    "fadvise64": "advice to the kernel",
    "close": "closes",
}


def flags(lab, database, files, form, benchmarks):
    return [*lab.shape(database), "--use_existing_db",
            f"--cache_size={256 << 20}", f"--open_files={files}",
            f"--benchmarks={benchmarks}", *FORMS[form]]


def measure(lab, database, settings):
    """Medians by form and setting: rate, first reads, and opening the DB."""
    samples = collections.defaultdict(list)
    for _ in lab.rounds(.5):
        for files in settings:
            for form in FORMS:
                bench.drop_from_page_cache(database)
                first, = lab.db_bench([*flags(lab, database, files, form,
                                              "readrandom"),
                                      f"--reads={FEW_READS}"])
                _, steady = lab.db_bench(
                    [*flags(lab, database, files, form, "readseq,readrandom"),
                     *lab.length()])
                bench.say(f"{form}, --open_files={files}: "
                          f"{steady['ops_per_sec']:,.0f} a second")
                samples[form, files].append(
                    (steady["ops_per_sec"], first["open_seconds"],
                     first["micros_per_op"]))
    return ({key: [statistics.median(column) for column in zip(*values)]
             for key, values in samples.items()},
            len(next(iter(samples.values()))))


def trace(lab, database, files, form):
    """Counts and times of the system calls about tables, after DB::Open has
    opened each once; and those of one open, in order."""
    with tempfile.NamedTemporaryFile("r") as output:
        lab.db_bench(
            [*flags(lab, database, files, form, "readrandom"),
             f"--reads={FEW_READS}"],
            ["strace", "-f", "-T", "-ttt", "-y", "-s", "0", "-o",
             output.name])
        calls = [CALL.match(line) for line in output.read().splitlines()]
    counts = collections.Counter()
    seconds = collections.Counter()
    opens = 0
    sequence = []
    sample = []
    about_table = False
    for call in calls:
        if call is None:
            continue
        name, arguments, result, time = call.groups()
        on_table = TABLE.search(arguments) or TABLE.search(result)
        if name == "openat":
            about_table = bool(on_table) or "/sys/" in arguments
            if on_table:
                opens += 1
                # The sequence of the second-last open is whole.
                if sequence:
                    sample = sequence
                sequence = []
        if not (on_table or "/sys/" in arguments or
                (about_table and name == "readlink")):
            continue
        counts[name] += 1
        seconds[name] += float(time)
        sequence.append((name, arguments, result, float(time)))
    return counts, seconds, opens, sample


def describe(name, arguments, result, seconds):
    """One call of an open on a line that is not too long."""
    if name == "openat":
        path = re.search(r'"([^"]*)"', arguments)
        arguments = Path(path.group(1)).name if path else arguments
        result = result.split("<")[0]
    arguments = re.sub(r"<[^>]*/", "<", arguments)
    return (f"{name}({arguments[:56]}) = {result[:16]}  "
            f"{1e6 * seconds:.0f} us: {EXPLAINED.get(name, '')}")


def run(lab):
    report = lab.report
    settings = [8, -1] if lab.quick else [16, 64, 256, -1]
    size = 65_536 if lab.quick else TABLE_BYTES
    if lab.quick:
        lab.num = 20_000  # Fewer tables would all be open.
    database = lab.database("tables",
                            flags=[f"--target_file_size_base={size}"])
    medians, rounds = measure(lab, database, settings)
    tables = len(list(database.glob("*.sst")))
    report.text(
        "table_open=uncached opens a table as if nothing were known of it: "
        "it asks for the device and its block size, sets flags one by one, "
        "and reads each part of the metadata by itself. "
        f"{tables} tables of {lab.num:,} entries; random reads by one thread, "
        f"{rounds} rounds, medians. The page cache is empty when a run "
        "begins. See docs/table_open.md.")
    report.heading("Reads a second, when all has been read once")
    rate = {key: values[0] for key, values in medians.items()}
    report.table(
        ["open_files", "uncached", "production", "factor"],
        [[files, f"{rate['uncached', files]:,.0f}",
          f"{rate['production', files]:,.0f}",
          pages.ratio(rate["production", files], rate["uncached", files])]
         for files in settings])
    names = ["all" if files < 0 else files for files in settings]
    report.lines("Random reads a second against max_open_files", names,
                 {form: [rate[form, files] for files in settings]
                  for form in FORMS}, "max_open_files", "reads a second",
                 log=True)
    few = settings[0]
    report.result(f"reads a second, max_open_files = {few}",
                  pages.human(rate["uncached", few]),
                  pages.human(rate["production", few]),
                  pages.ratio(rate["production", few], rate["uncached", few]))
    report.heading("To open the database, and to read then")
    report.text(f"Cold reads are the first {FEW_READS:,} random ones after the "
                "database was opened.")
    report.table(
        ["open_files", "form", "open (ms)", "read, cold (us)"],
        [[files, form, f"{1e3 * medians[form, files][1]:.0f}",
          f"{medians[form, files][2]:.2f}"]
         for files in settings for form in FORMS])
    calls = {form: system_calls(lab, database, few, form) for form in FORMS}
    kinds = sorted(set().union(*calls.values()),
                   key=lambda name: -calls["uncached"].get(name, 0))
    report.bars("Calls about tables, for each open of one", kinds,
                {form: [calls[form].get(name, 0) for name in kinds]
                 for form in FORMS}, "calls an open")
    sums = {form: sum(values.values()) for form, values in calls.items()}
    report.result("system calls about tables, an open",
                  f"{sums['uncached']:.1f}", f"{sums['production']:.1f}",
                  pages.ratio(sums["uncached"], sums["production"]))
    lab.profiles("Where random reads spend their time", {
        form: [*flags(lab, database, few, form, "readseq,readrandom"),
               *lab.length()] for form in FORMS})


def system_calls(lab, database, files, form):
    """Reports what strace sees, and returns {call: times an open}."""
    report = lab.report
    bench.say(f"strace: {form}, --open_files={files}")
    report.heading(f"System calls about tables: {form}, --open_files={files}")
    try:
        counts, seconds, opens, sample = trace(lab, database, files, form)
    except bench.LabError as error:
        report.text("No trace: strace is not installed or not permitted here. "
                    f"It said: {str(error).splitlines()[-1]}")
        return {}
    report.text(f"{opens} opens in {FEW_READS} reads and the opening of "
                f"the database: {opens / FEW_READS:.2f} opens a read.")
    report.table(
        ["call", "times", "an open", "us each, traced", "what for"],
        [[name, count, f"{count / max(opens, 1):.1f}",
          f"{1e6 * seconds[name] / count:.0f}", EXPLAINED.get(name, "")]
         for name, count in counts.most_common()])
    report.code("\n".join(describe(*call) for call in sample[:40]),
                folded="One open, call by call")
    return {name: count / max(opens, 1) for name, count in counts.items()}
