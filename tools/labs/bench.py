# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""What all labs share: running the benchmarks, turn by turn, within a time."""

import argparse
import collections
import json
import os
import platform
import re
import select
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import typing
from pathlib import Path

import report as pages

ROOT = Path(__file__).resolve().parent.parent.parent
THREADS = [1, 2, 4, 8, 32]
KERNEL = "all of the kernel"


class Row(typing.NamedTuple):
    """A benchmark in production's form and with one ablation."""
    title: str
    baseline: str  # The ablation.
    flags: list  # Of db_bench, for both forms; the last benchmark counts.
    settings: dict  # {name: more flags}; each is a line of the table.
    what: str  # Of the summary, which has the setting `at`.
    until: float  # The part of the time after which no more rounds begin.
    at: int = -1
    text: str = ""
    curve: tuple = ()  # A chart's caption and label, for settings by number.


class LabError(Exception):
    """What was to be measured could not be; says why."""


def add_flags(parser, name):
    parser.add_argument("--db_bench", type=Path,
                        default=ROOT / "build" / "release" / "db_bench",
                        help="default: build/release; the other benchmarks "
                        "are looked for beside it")
    parser.add_argument("--dir", type=Path,
                        help="where to build databases, on a real disk "
                        "(default: a directory made below $TEST_TMPDIR or "
                        "/var/tmp, and removed)")
    parser.add_argument("--out", type=Path, default=Path(f"lab-{name}"),
                        help="directory of the report (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3,
                        help="at most; fewer if time runs out")
    parser.add_argument("--duration", type=int, default=1,
                        help="seconds of one measurement")
    parser.add_argument("--minutes", type=float, default=2.25,
                        help="that a lab may take, about")
    parser.add_argument("--num", type=int, default=1_000_000,
                        help="entries of the databases")
    parser.add_argument("--quick", action="store_true",
                        help="only show that it works: few entries and "
                        "operations, whose figures mean nothing")


def say(text):
    """Prints progress."""
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


class Lab:
    """One lab: where it works, until when, and what it ran."""

    def __init__(self, options, directory, report):
        self.options = options
        self.quick = options.quick
        self.directory = directory
        self.report = report
        self.num = 3000 if options.quick else options.num
        self.threads = [1, 2] if options.quick else THREADS
        self.begin = time.monotonic()
        self.commands = []

    # ---- Time ------------------------------------------------------------

    def rounds(self, until):
        """Numbers of rounds, at least one, while less than this part of the
        time is used up."""
        count = 1 if self.quick else self.options.rounds
        for number in range(count):
            spent = time.monotonic() - self.begin
            if number > 0 and spent > until * 60 * self.options.minutes:
                return
            say(f"round {number + 1} of at most {count}")
            yield number

    def length(self):
        """How long db_bench reads at random."""
        return (["--reads=2000"] if self.quick
                else [f"--duration={self.options.duration}"])

    # ---- Programs --------------------------------------------------------

    def program(self, name):
        """A benchmark beside db_bench; None if it was not built."""
        path = self.options.db_bench.parent / name
        return path if path.exists() else None

    def note(self, command):
        text = shlex.join(map(str, command))
        if text not in self.commands:
            self.commands.append(text)

    def run(self, command, heed=None, pass_fds=()):
        """Output and processor seconds (user code) of a command. heed(line) is
        called as soon as it has printed a line."""
        command = [str(word) for word in command]
        self.note(word for word in command
                  if not word.startswith(("--report_json", "--control")))
        try:
            process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                text=True, pass_fds=pass_fds)
        except OSError as error:
            raise LabError(f"{error}; tools/quickstart lab builds it"
                           ) from error
        lines = []
        for line in process.stdout:
            lines.append(line)
            if heed is not None:
                heed(line)
        process.stdout.close()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        text = "".join(lines)
        if process.returncode != 0:
            raise LabError(f"{shlex.join(command)}\n{text}")
        return text, usage.ru_utime

    def db_bench(self, flags, wrapper=(), **rest):
        """The results of db_bench's benchmarks, as its report has them, with
        the processor time of the whole run. `rest` is run()'s."""
        with tempfile.NamedTemporaryFile(suffix=".json") as report:
            _, user_seconds = self.run(
                [*wrapper, self.options.db_bench, *flags,
                 f"--report_json={report.name}"], **rest)
            results = json.load(report)["results"]
        for result in results:
            result["user_seconds"] = user_seconds
        return results

    def micro_bench(self, topics, pattern, *flags):
        """{name of benchmark: figures of each round} of topics of micro_bench,
        separated by spaces; empty if it was not built."""
        path = self.program("micro_bench")
        if path is None:
            self.report.text("micro_bench is not there: tools/quickstart lab "
                             "builds it.")
            return {}
        say(f"micro_bench {topics} {pattern}")
        with tempfile.NamedTemporaryFile(suffix=".json") as output:
            command = [path, *topics.split(),
                       f"--benchmark_filter={pattern}", *flags]
            if self.quick:
                command.append("--benchmark_min_time=0.001")
            else:
                command.append("--benchmark_repetitions="
                               f"{self.options.rounds}")
            self.note(command)
            done = subprocess.run(
                [*map(str, command), "--benchmark_out_format=json",
                 f"--benchmark_out={output.name}"], capture_output=True,
                text=True, check=False)
            if done.returncode != 0:
                raise LabError(f"micro_bench: {done.stderr}")
            benchmarks = json.load(output).get("benchmarks", [])
        found = collections.defaultdict(list)
        for entry in benchmarks:
            if entry.get("run_type") != "aggregate":
                found[re.sub(r"/(real_time|manual_time|iterations:\d+|"
                             r"repeats:\d+)|threads:", "",
                             entry["name"])].append(entry)
        return dict(found)

    # ---- Databases and comparisons ----------------------------------------

    def database(self, name="memory", num=None, flags=()):
        """A database that several labs may use: compacted, uncompressed."""
        path = self.directory / name
        if not path.exists():
            say(f"building {num or self.num} entries in {path}")
            self.db_bench([*self.shape(path, num), *flags,
                           "--benchmarks=fillrandom,compact"])
        return path

    def shape(self, path, num=None):
        return [f"--db={path}", f"--num={num or self.num}",
                "--compression_type=none", "--bloom_bits=10",
                f"--cache_size={1 << 30}"]

    def compare(self, forms, settings, benchmarks, path, num=None, until=.8,
                flags=()):
        """Runs each form in turn, in each setting, in rounds: {(form,
        setting): [result of the last benchmark]}. Forms and settings are
        {name: flags}."""
        samples = collections.defaultdict(list)
        for _ in self.rounds(until):
            for setting, with_setting in settings.items():
                for form, with_form in forms.items():
                    results = self.db_bench(
                        [*self.shape(path, num), "--use_existing_db", *flags,
                         f"--benchmarks={benchmarks}", *with_setting,
                         *with_form])
                    samples[form, setting].append(results[-1])
                    say(f"{form}, {setting}: "
                        f"{results[-1]['ops_per_sec']:,.0f} a second")
        return samples

    def row(self, row):
        """Measures a row, in rounds, and reports it."""
        forms = {"production": [], row.baseline: [f"--ablate={row.baseline}"]}
        samples = collections.defaultdict(list)
        for _ in self.rounds(row.until):
            for setting, with_setting in row.settings.items():
                for form, with_form in forms.items():
                    results = self.db_bench([*row.flags, *with_setting,
                                             *with_form])
                    samples[form, setting].append(results[-1])
                    say(f"{form}, {setting}: "
                        f"{results[-1]['ops_per_sec']:,.0f} a second")
        rate = {key: spread(values, "ops_per_sec")
                for key, values in samples.items()}

        def pair(setting):
            before, now = (rate[form, setting]
                           for form in (row.baseline, "production"))
            return [pages.figure(before), pages.figure(now),
                    pages.ratio(now, before)]

        self.report.heading(row.title)
        if row.text:
            self.report.text(row.text)
        self.report.table(
            ["", f"{row.baseline}, a second", "production, a second",
             "factor"], [[setting, *pair(setting)] for setting in row.settings],
            matters="factor")
        if row.curve:
            self.report.lines(
                row.curve[0], list(row.settings),
                {form: [rate[form, setting] for setting in row.settings]
                 for form in forms}, "threads", row.curve[1], "more", log=True)
        self.report.result(row.what, row.baseline,
                           *pair(list(row.settings)[row.at]))

    def profile(self, flags):
        """{function: percent} by the clock, of the last benchmark alone: those
        before it fill the caches. A string that says why not."""
        benchmarks = next(flag for flag in flags if flag.startswith(
            "--benchmarks=")).split("=")[1].split(",")
        ended = 0

        def heed(line):
            """db_bench prints a benchmark's line when that has ended."""
            nonlocal ended
            if ended == len(benchmarks) or not re.match(
                    rf"{benchmarks[ended]}\s*:", line):
                return
            ended += 1
            if ended == len(benchmarks) - 1:
                control.send("enable")
            elif ended == len(benchmarks):
                control.send("disable")

        with tempfile.NamedTemporaryFile() as data, PerfControl() as control:
            try:
                # -N: without it the program is copied to ~/.debug.
                self.db_bench([*flags, f"--duration={self.options.duration}"], [
                    "perf", "record", "-q", "-N", "-e", "cpu-clock",
                    "--delay=-1", control.flag(), "-o", data.name],
                    heed=heed, pass_fds=control.given)
            except LabError as error:
                return ("No profile: perf is not installed or not permitted "
                        "here (kernel.perf_event_paranoid). It said: " +
                        str(error).strip().splitlines()[-1])
            done = subprocess.run(
                ["perf", "report", "-i", data.name, "--stdio",
                 "--no-children", "-F", "overhead,sym"],
                capture_output=True, text=True, check=False)
        found = collections.Counter()
        for share, kind, name in re.findall(
                r"^\s*([\d.]+)%\s+\[(.)\]\s+(.*?)\s*$", done.stdout,
                re.MULTILINE):
            found[short_name(name)] += float(share)
            if kind == "k":
                found[KERNEL] += float(share)
        return found or "No profile: perf found no samples."

    def profiles(self, title, by_form, count=12):
        """Where the processor's time goes, function by function, in each of
        {form: flags of db_bench}. Returns {form: {function: percent}}, None if
        there is no profile."""
        if self.quick and self.report.profiles > 0:
            return None
        self.report.profiles += 1
        self.report.heading(title)
        shares = {}
        for form, flags in by_form.items():
            say(f"profile: {form}")
            shares[form] = self.profile(flags)
            if isinstance(shares[form], str):
                self.report.text(shares[form])
                return None
        # The largest of each form: time that is spread over many functions
        # would have none among the largest of all.
        names = []
        for row in zip(*(values.most_common(count)
                         for values in shares.values())):
            names += [name for name, _ in row]
        names = list(dict.fromkeys(names))[:count]
        self.report.table(
            ["function", *(f"{form} (%)" for form in shares)],
            [[name, *(f"{shares[form][name]:.1f}" for form in shares)]
             for name in names])
        self.report.bars(
            "Share of the processor's time by function (%)",
            [name if len(name) < 27 else name[:25] + "…" for name in names],
            {form: [shares[form][name] for name in names]
             for form in shares}, "percent of all samples", None)
        return shares

    def finish(self):
        """Returns the commands that were run, so that they can be repeated."""
        minutes = (time.monotonic() - self.begin) / 60
        self.report.code("\n".join(self.commands),
                         folded="The commands of this section: "
                         f"{len(self.commands)} in {minutes:.1f} minutes")


class PerfControl:
    """Begins and ends the recording of a `perf record` that runs."""

    def __enter__(self):
        commands, self.commands = os.pipe()
        self.answers, answers = os.pipe()
        self.given = (commands, answers)  # To perf.
        return self

    def flag(self):
        return f"--control=fd:{self.given[0]},{self.given[1]}"

    def send(self, command):
        """Returns once perf has done it, or seems to have ended."""
        os.write(self.commands, f"{command}\n".encode())
        if select.select([self.answers], [], [], 5)[0]:
            os.read(self.answers, len("ack\n"))

    def __exit__(self, *_):
        for each in (self.commands, self.answers, *self.given):
            os.close(each)


def short_name(function):
    """Without namespaces' and templates' noise."""
    function = re.sub(r"<[^<>]*>", "", function)
    function = re.sub(r"<[^<>]*>", "", function)
    return function.replace("varve::", "").replace("(anonymous namespace)::",
                                                   "").split("(")[0]


def spread(samples, field):
    """Of a field of results; "p99" and the like are of latency_ns."""
    if re.fullmatch(r"p[\d.]+", field) and "latency_ns" in samples[0]:
        samples = [sample["latency_ns"] for sample in samples]
    return pages.Spread(sample[field] for sample in samples)


# ---- The machine ----------------------------------------------------------


class Workplace:
    """The directory of the databases; removed at the end if it was made."""

    def __init__(self, directory):
        self.made = directory is None
        if self.made:
            base = os.environ.get("TEST_TMPDIR", "/var/tmp")
            directory = Path(tempfile.mkdtemp(prefix="varve-lab-", dir=base))
        directory.mkdir(parents=True, exist_ok=True)
        self.path = directory

    def __enter__(self):
        return self.path

    def __exit__(self, *_):
        if self.made:
            shutil.rmtree(self.path, ignore_errors=True)


def drop_from_page_cache(directory):
    """Writes back and evicts all files of a directory."""
    os.sync()
    for path in Path(directory).iterdir():
        if not path.is_file():
            continue
        descriptor = os.open(path, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def device_of(directory):
    """The file system and device of a directory, for the report."""
    done = subprocess.run(["df", "--output=source,fstype", str(directory)],
                          capture_output=True, text=True, check=False)
    found = " ".join(done.stdout.split()[2:])
    # "-" in a chroot, which does not see what is mounted.
    return found if found.strip("- ") else "unknown"


def first_match(path, pattern, default):
    try:
        match = re.search(pattern, Path(path).read_text(encoding="utf-8"),
                          re.MULTILINE)
    except OSError:
        return default
    return match.group(1).strip() if match else default


def is_busy():
    return os.getloadavg()[0] > os.cpu_count() / 2


def machine(directory):
    """Rows of a table about it."""
    memory = first_match("/proc/meminfo", r"^MemTotal:\s*(\d+)", "0")
    return [
        ["processors", f"{os.cpu_count()} × " + first_match(
            "/proc/cpuinfo", r"^model name\s*:(.*)", platform.machine())],
        ["memory", f"{int(memory) / (1 << 20):.1f} GiB"],
        ["kernel", f"Linux {platform.release()}"],
        ["clock", first_match("/sys/devices/system/clocksource/clocksource0/"
                              "current_clocksource", r"(.*)", "unknown")],
        ["databases on", device_of(directory)],
        ["load when it began", " ".join(
            f"{load:.2f}" for load in os.getloadavg())],
        ["date", time.strftime("%Y-%m-%d %H:%M %Z")],
    ]
