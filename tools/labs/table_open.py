# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""What it costs to open a table, and how to see it."""

import collections
import re
import statistics
import subprocess
import tempfile
from pathlib import Path

import common

FORMS = {"production": [], "uncached": ["--ablate=table_open=uncached"]}
CALL = re.compile(r"^(?:\d+\s+)?[\d.]+ (\w+)\((.*)\)\s+= (.*) <([\d.]+)>$")
TABLE = re.compile(r"\d{6,}\.sst")
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


def flags(options, database, files, form, benchmarks):
    return [f"--db={database}", f"--num={options.num}", "--use_existing_db",
            "--compression_type=none", "--bloom_bits=10",
            f"--cache_size={options.cache_size}", f"--open_files={files}",
            f"--duration={options.duration}", f"--benchmarks={benchmarks}",
            *FORMS[form]]


def build(options, database):
    if not database.exists():
        common.say(f"building {options.num} entries in {database}")
        common.run_bench(options, [
            f"--db={database}", f"--num={options.num}",
            "--compression_type=none", "--bloom_bits=10",
            f"--target_file_size_base={TABLE_BYTES}",
            "--benchmarks=fillrandom,compact"])
    return len(list(database.glob("*.sst")))


def measure(options, database, settings):
    """Medians by form and setting: rate, first reads, and opening the DB."""
    samples = collections.defaultdict(list)
    for round_number in range(options.rounds):
        for files in settings:
            for form in FORMS:
                common.say(f"round {round_number + 1} of {options.rounds}: "
                           f"{form}, --open_files={files}")
                common.drop_from_page_cache(database)
                first, _, steady = common.run_bench(
                    options, flags(options, database, files, form,
                                   "readrandom,readseq,readrandom"))
                samples[form, files].append(
                    (steady["ops_per_sec"], first["open_seconds"],
                     first["micros_per_op"]))
    return {key: [statistics.median(column) for column in zip(*values)]
            for key, values in samples.items()}


def trace(options, database, files, form):
    """Counts and times of the system calls about tables, after DB::Open has
    opened each once; and those of one open, in order."""
    with tempfile.NamedTemporaryFile("r") as output:
        common.run_bench(
            options,
            [*flags(options, database, files, form, "readrandom"),
             f"--reads={options.traced_reads}", "--duration=0"],
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


def profile(options, database, files, form):
    """Where a profile by the clock puts the time: the largest shares."""
    with tempfile.NamedTemporaryFile() as data:
        record = ["perf", "record", "-q", "-e", "cpu-clock", "-o", data.name]
        try:
            common.run_bench(options, flags(options, database, files, form,
                                            "readseq,readrandom"), record)
        except FileNotFoundError:
            return None
        done = subprocess.run(
            ["perf", "report", "-i", data.name, "--stdio", "--no-children",
             "-F", "overhead,sym", "--percent-limit", "1.5"],
            capture_output=True, text=True, check=False)
    lines = [line.strip() for line in done.stdout.splitlines()
             if "%" in line and not line.startswith("#")]
    return "\n".join(lines[:14]) or None


def describe(name, arguments, result, seconds):
    """One call of an open on a line that is not too long."""
    if name == "openat":
        path = re.search(r'"([^"]*)"', arguments)
        arguments = Path(path.group(1)).name if path else arguments
        result = result.split("<")[0]
    arguments = re.sub(r"<[^>]*/", "<", arguments)
    return (f"{name}({arguments[:56]}) = {result[:16]}  "
            f"{1e6 * seconds:.0f} us: {EXPLAINED.get(name, '')}")


def main(arguments):
    parser = common.parser("table-open", __doc__)
    parser.add_argument("--num", type=int, default=1_000_000,
                        help="entries (default: %(default)s)")
    parser.add_argument("--cache_size", type=int, default=256 << 20,
                        help="bytes of block cache (default: %(default)s)")
    parser.add_argument("--open_files", default="16,64,256,-1",
                        help="values to try (default: %(default)s)")
    parser.add_argument("--traced_reads", type=int, default=2000)
    options = parser.parse_args(arguments)
    settings = [int(value) for value in options.open_files.split(",")]
    report = common.Report("What it costs to open a table")
    with common.Workplace(options.dir) as directory:
        database = directory / "tables"
        tables = build(options, database)
        report.text(
            f"{tables} tables of {options.num} entries on "
            f"{common.device_of(directory)}; {common.machine()}. Random reads "
            f"by one thread, {options.rounds} rounds, medians. The page cache "
            "is empty when a run begins.")

        medians = measure(options, database, settings)
        report.heading("Reads a second, when all has been read once")
        report.table(
            ["open_files", "production", "uncached", "ratio"],
            [[files, f"{medians['production', files][0]:,.0f}",
              f"{medians['uncached', files][0]:,.0f}",
              f"{medians['production', files][0] / medians['uncached', files][0]:.1f}"]
             for files in settings])
        report.heading("To open the database, and to read then")
        report.text("Cold reads are the random ones right after the database "
                    f"was opened, {options.duration} s of them.")
        report.table(
            ["open_files", "form", "open (ms)", "read, cold (us)"],
            [[files, form, f"{1e3 * medians[form, files][1]:.0f}",
              f"{medians[form, files][2]:.2f}"]
             for files in settings for form in FORMS])

        def draw(axes):
            names = ["all" if files < 0 else str(files) for files in settings]
            for form in FORMS:
                axes.plot(names, [medians[form, files][0]
                                  for files in settings], "o-", label=form)
            axes.set_yscale("log")
            axes.set_xlabel("max_open_files")
            axes.set_ylabel("reads a second")
            axes.grid(True, alpha=.3)
            axes.legend()
        report.chart("Random reads a second by the number of files that may "
                     "be open", draw)

        few = min((files for files in settings if files >= 0),
                  default=settings[0])
        for form in FORMS:
            common.say(f"tracing: {form}, --open_files={few}")
            counts, seconds, opens, sample = trace(options, database, few,
                                                   form)
            report.heading(f"System calls about tables: {form}, "
                           f"--open_files={few}")
            report.text(f"{opens} opens in {options.traced_reads} reads and "
                        f"the opening of the database: "
                        f"{opens / options.traced_reads:.2f} opens a read.")
            report.table(
                ["call", "times", "an open", "us each, traced", "what for"],
                [[name, count, f"{count / max(opens, 1):.1f}",
                  f"{1e6 * seconds[name] / count:.0f}",
                  EXPLAINED.get(name, "")]
                 for name, count in counts.most_common()])
            report.text("One open, in order:")
            report.code("\n".join(describe(*call) for call in sample[:40]))
            shares = profile(options, database, few, form)
            if shares is None:
                report.text("perf is not at hand: no profile.")
            else:
                report.text("Where a profile puts the time of random reads:")
                report.code(shares)
    report.write(options.out)
    return 0
