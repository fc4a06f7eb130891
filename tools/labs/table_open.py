# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""What it costs to open a table, and how to see it.

A call of an open is a system call that makes a table ready for lookups: it
names the table or the device below it, and comes after the decision to open the
table and before the first lookup in it. Reads of data blocks are calls of
lookups. The close of a table makes space for another one, and is counted by
itself. docs/table_open.md has the same definition.
"""

import collections
import re
import tempfile
from pathlib import Path

import bench
import published
import report as pages

TITLE = "What it costs to open a table"
IDEA = ("A table opened by one call and one read",
        "No call of an open is for what is known already.",
        "table/reader/file_pool.h")
PUBLISHED = published.FIGURES["table-open"]
UNSIMULATED = ("the model of many cores does not know what system calls "
               "cost.")
FORMS = {"production": [], "uncached": ["--ablate=table_open=uncached"]}
CALL = re.compile(r"^(\d+) +[\d.]+ (\w+)\((.*)\) += (.*) <([\d.]+)>$")
# strace splits a call into two lines if another thread makes one before it
# returns.
UNFINISHED = re.compile(r"^(\d+) +[\d.]+ (.*) <unfinished \.\.\.>$")
RESUMED = re.compile(r"^(\d+) +[\d.]+ <\.\.\. \w+ resumed>(.*)$")
TABLE = re.compile(r"\d{6,}\.sst")
# A file of sysfs about a disk, or a part of the path to it. Other files of sysfs,
# about processors and clocks, are not read for an open.
DEVICE = re.compile(r"/sys/dev/block/|/sys/devices/\S*/block/|"
                    r"\"/sys(/dev|/dev/block|/devices)?\"|"
                    r"\"/sys/devices/(?!system/)[^\"]*\"")
FEW_READS = 2000  # So few that they stay cold, and can be traced.
TABLE_BYTES = 130_000  # A table's, so that a million entries make hundreds.

OPEN = "open the table"
FLAG = "set the close-on-exec flag"
FIND = "find size and device"
WALK = "walk the path to the device"
BLOCK_SIZE = "read the device's block size"
ADVISE = "advise the kernel"
METADATA = "read footer, properties, index and filter"
DATA = "read a data block"
CLOSE = "close a table, to make space"
# In the order of an open.
OF_AN_OPEN = [OPEN, FLAG, FIND, WALK, BLOCK_SIZE, ADVISE, METADATA]
NOT_OF_AN_OPEN = [DATA, CLOSE]
PURPOSES = {"openat": OPEN, "open": OPEN, "close": CLOSE, "fadvise64": ADVISE,
            "fcntl": FLAG, "fstat": FIND, "newfstatat": FIND, "statx": FIND}


def flags(lab, database, files, form, benchmarks):
    return [*lab.shape(database), "--use_existing_db",
            f"--cache_size={256 << 20}", f"--open_files={files}",
            f"--benchmarks={benchmarks}", *FORMS[form]]


def measure(lab, database, settings):
    """Spreads by form and setting: rate, opening the database in seconds, and
    micros of a first read."""
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
    return ({key: [pages.Spread(column) for column in zip(*values)]
             for key, values in samples.items()},
            len(next(iter(samples.values()))))


# ---- System calls ------------------------------------------------------------


def parse(lines):
    """[(thread, call, arguments, result, seconds)] of strace's output."""
    pending = {}
    calls = []
    for line in lines:
        match = UNFINISHED.match(line)
        if match:
            pending[match[1]] = match[2]
            continue
        match = RESUMED.match(line)
        if match and match[1] in pending:
            line = f"{match[1]} 0 {pending.pop(match[1])}{match[2]}"
        match = CALL.match(line)
        if match:
            calls.append((*match.groups()[:4], float(match[5])))
    return calls


def offset_of(pread_arguments):
    return int(pread_arguments.rsplit(",", 1)[1])


def purpose(name, arguments, result, first_metadata):
    """What a call about a table is for; None if it is about something else."""
    table = TABLE.search(arguments) or TABLE.search(result)
    if not table:
        if not DEVICE.search(arguments):
            return None
        return BLOCK_SIZE if "logical_block_size" in arguments else WALK
    if name == "pread64":
        return (DATA if offset_of(arguments) < first_metadata.get(table[0], 0)
                else METADATA)
    return PURPOSES.get(name, f"other: {name}")


class Calls:
    """Counts of calls by purpose, in first opens and in later ones."""

    def __init__(self):
        self.opens = [0, 0]
        self.counts = [collections.Counter(), collections.Counter()]
        self.seconds = collections.Counter()
        self.names = collections.defaultdict(set)
        self.sample = []

    def add(self, calls, first_metadata):
        """In the database's open each table is opened once."""
        opened = set()
        later = {}  # Of the table that a thread opened last.
        sequence = {}
        for thread, name, arguments, result, seconds in calls:
            what = purpose(name, arguments, result, first_metadata)
            if what is None:
                continue
            if what == OPEN:
                table = TABLE.search(arguments)[0]
                later[thread] = table in opened
                opened.add(table)
                self.opens[later[thread]] += 1
                self.sample = sequence.get(thread) or self.sample
                sequence[thread] = []
            elif thread not in later:
                continue  # The device of the database's directory.
            if what not in NOT_OF_AN_OPEN:
                sequence[thread].append(
                    (name, arguments, result, seconds, what))
            self.counts[later[thread]][what] += 1
            self.seconds[what] += seconds
            self.names[what].add(name)

    def each(self, what, later):
        return self.counts[later][what] / max(self.opens[later], 1)

    def of_an_open(self, later):
        """Calls of an open, as they are defined above."""
        return sum(self.each(what, later) for what in self.counts[later]
                   if what not in NOT_OF_AN_OPEN)


def trace(lab, database, files, form):
    """The calls of first opens, by a run without lookups, and of later ones."""
    def run_traced(benchmark, *more):
        with tempfile.NamedTemporaryFile("r") as output:
            lab.db_bench(
                [*flags(lab, database, files, form, benchmark), *more],
                ["strace", "-f", "-T", "-ttt", "-y", "-s", "0", "-o",
                 output.name])
            return parse(output.read().splitlines())

    first = run_traced("stats")
    first_metadata = {}
    for _, name, arguments, _, _ in first:
        table = TABLE.search(arguments)
        if name == "pread64" and table:
            offset = offset_of(arguments)
            first_metadata[table[0]] = min(
                offset, first_metadata.get(table[0], offset))
    calls = Calls()
    calls.add(run_traced("readrandom", f"--reads={FEW_READS}"), first_metadata)
    return calls


def describe(name, arguments, result, seconds, what):
    """One call of an open on a line that is not too long."""
    if name == "openat":
        path = re.search(r'"([^"]*)"', arguments)
        arguments = Path(path.group(1)).name if path else arguments
        result = result.split("<")[0]
    arguments = re.sub(r"<[^>]*/", "<", arguments)
    return (f"{name}({arguments[:56]}) = {result[:16]}  "
            f"{1e6 * seconds:.0f} us: {what}")


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
        f"{pages.rounds(rounds)}, medians. The page cache is empty "
        "when a run begins. See docs/table_open.md.")
    report.heading("Reads a second, when all has been read once")
    rate = {key: values[0] for key, values in medians.items()}
    report.table(
        ["open_files", "uncached", "production", "factor"],
        [[files, pages.figure(rate["uncached", files]),
          pages.figure(rate["production", files]),
          pages.ratio(rate["production", files], rate["uncached", files])]
         for files in settings])
    names = ["all" if files < 0 else files for files in settings]
    report.lines("Random reads a second against max_open_files", names,
                 {form: [rate[form, files] for files in settings]
                  for form in FORMS}, "max_open_files", "reads a second",
                 "more", log=True)
    few = settings[0]
    report.result(f"reads a second, max_open_files = {few}",
                  "table_open=uncached", pages.figure(rate["uncached", few]),
                  pages.figure(rate["production", few]),
                  pages.ratio(rate["production", few], rate["uncached", few]))
    report.heading("To open the database, and to read then")
    report.text(f"Cold reads are the first {FEW_READS:,} random ones after the "
                "database was opened.")
    report.table(
        ["open_files", "form", "open (ms)", "read, cold (us)"],
        [[files, form, pages.figure(medians[form, files][1].scaled(1e3)),
          pages.figure(medians[form, files][2])]
         for files in settings for form in FORMS])
    system_calls(lab, database, few)
    lab.profiles("Where random reads spend their time", {
        form: flags(lab, database, few, form, "readseq,readrandom")
        for form in FORMS})


def system_calls(lab, database, files):
    """Reports what strace sees."""
    report = lab.report
    report.heading(f"System calls of an open, --open_files={files}")
    calls = {}
    for form in FORMS:
        bench.say(f"strace: {form}, --open_files={files}")
        try:
            calls[form] = trace(lab, database, files, form)
        except bench.LabError as error:
            report.text("No trace: strace is not installed or not permitted "
                        f"here. It said: {str(error).splitlines()[-1]}")
            return
    report.text(
        "A call of an open makes a table ready for lookups. It names the table "
        "or the device below it. Reads of data blocks and closes of other "
        "tables are not among them; they are the last two lines. The first "
        "opens are those of the database's open, the later ones those of "
        f"{FEW_READS:,} random reads: " + ", ".join(
            f"{each.opens[0]:,} and {each.opens[1]:,} in {form}"
            for form, each in calls.items()) + ".")
    kinds = OF_AN_OPEN + sorted(
        {what for each in calls.values() for count in each.counts
         for what in count} - set(OF_AN_OPEN) - set(NOT_OF_AN_OPEN))
    columns = [(form, later) for later in (0, 1) for form in FORMS]

    def row(what, title):
        names = set().union(*(each.names[what] for each in calls.values()))
        return [title, ", ".join(sorted(names)),
                *(f"{calls[form].each(what, later):.1f}"
                  for form, later in columns)]

    report.table(
        ["what for", "calls", *(f"{'later' if later else 'first'}, {form}"
                                for form, later in columns)],
        [*(row(what, what) for what in kinds),
         ["all calls of an open", "", *(f"{calls[form].of_an_open(later):.1f}"
                                        for form, later in columns)],
         *(row(what, f"besides: {what}") for what in NOT_OF_AN_OPEN)])
    report.bars("System calls of a first open by what they are for", kinds,
                {form: [calls[form].each(what, 0) for what in kinds]
                 for form in FORMS}, "calls of an open", "less")
    for later, name in enumerate(("first", "later")):
        before, now = (calls[form].of_an_open(later)
                       for form in ("uncached", "production"))
        report.result(f"system calls of a table's {name} open",
                      "table_open=uncached", f"{before:.1f}", f"{now:.1f}",
                      pages.ratio(before, now))
    for form, each in calls.items():
        report.code("\n".join(describe(*call) for call in each.sample[:40]),
                    folded=f"One open, call by call: {form}")
