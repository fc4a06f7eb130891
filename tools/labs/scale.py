# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""A database of many entries, beside another engine: filled, then overwritten
for a time, then read with caches of 0.1, 1 and 10 % of the data.

Each step is a db_bench of its own. Shown are its rate in each second, stalls,
write amplification, memory, space and the time to open the database. A run of
100 million entries takes hours, so each finished step is noted in
scale-state.json of --dir, and --resume goes on after the last one. A step that
was interrupted starts again.

One database exists at a time. Before a step begins, the free space of --dir is
compared with what the largest database may need, and a step that comes to need
more, or leaves the disk nearly full, is ended.
"""

import json
import os
import re
import shlex
import shutil
import signal
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import bench
import report as pages

TITLE = "At scale: fill, overwrite, read"
STATE = "scale-state.json"
KEY_BYTES = 16
VALUE_BYTES = 100
ENTRY_BYTES = KEY_BYTES + VALUE_BYTES
CACHE_PERCENTS = (0.1, 1, 10)
MIN_CACHE_BYTES = 64 << 10
# Logs, write buffers and the inputs of compactions in progress.
FIXED_SPACE_BYTES = 2 << 30
# Uncompressed pages that are two thirds full, or levels in the middle of a
# compaction of all.
SPACE_FACTOR = 2.2
# Free space below which a step is ended.
RESERVE_BYTES = 512 << 20
SAMPLE_SECONDS = .5
# Not empty after SIGTERM. An exception from the handler could leave a program
# that has just been started.
ENDED = []
PROGRESS = re.compile(r"^\.\.\. (\w+): (\d+) seconds, (\d+) ops/sec now,",
                      re.MULTILINE)
CPU = re.compile(r"^(\w+)\s*: CPU ([0-9.]+) micros/op ", re.MULTILINE)
# What Varve and RocksDB say in `stats` of the time writes were held up.
VARVE_STALLS = re.compile(r"^Stalls: \d+ times, ([0-9.]+) seconds",
                          re.MULTILINE)
ROCKSDB_STALLS = re.compile(
    r"^Cumulative stall: (\d+):(\d+):([0-9.]+) H:M:S", re.MULTILINE)


def add_flags(parser):
    parser.add_argument("--engines", default="varve,rocksdb",
                        help="of db_bench, one after the other "
                        "(default: %(default)s)")
    parser.add_argument("--fill", default="filluniquerandom",
                        choices=["filluniquerandom", "fillrandom", "fillseq"],
                        help="(default: %(default)s, each key once in random "
                        "order)")
    parser.add_argument("--overwrite_seconds", type=int, default=60)
    parser.add_argument("--read_seconds", type=int, default=30,
                        help="of each size of the cache")
    parser.add_argument("--direct_reads", action="store_true",
                        help="read tables past the page cache")
    parser.add_argument("--resume", action="store_true",
                        help="go on with the run whose state is in --dir")


# ---- The state ---------------------------------------------------------------


class State:
    """The figures of finished steps, in a file that is replaced at once."""

    def __init__(self, path, settings, resume):
        self.path = path
        self.settings = settings
        self.steps = {}
        if not path.exists():
            return
        if not resume:
            raise bench.LabError(
                f"{path} has the state of an earlier run: --resume goes on "
                "with it; without the file a new run begins")
        with path.open(encoding="utf-8") as file:
            content = json.load(file)
        differ = [name for name, value in settings.items()
                  if content["settings"].get(name) != value]
        if differ:
            raise bench.LabError(
                f"--resume: {path} is of a run with other settings: " +
                ", ".join(f"{name}={content['settings'].get(name)}"
                          for name in differ))
        self.steps = content["steps"]

    def find(self, engine, step):
        return self.steps.get(f"{engine} {step}")

    def add(self, engine, step, figures):
        self.steps[f"{engine} {step}"] = figures
        temporary = self.path.with_suffix(".new")
        with temporary.open("w", encoding="utf-8") as file:
            json.dump({"settings": self.settings, "steps": self.steps}, file)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(self.path)


# ---- A step ------------------------------------------------------------------


def used_bytes(directory):
    """Allocated bytes of the files. A file may vanish meanwhile."""
    total = 0
    for parent, _, names in os.walk(directory):
        for name in names:
            try:
                total += os.stat(os.path.join(parent, name)).st_blocks * 512
            except FileNotFoundError:
                pass
    return total


def gib(count):
    return f"{count / (1 << 30):.1f} GiB"


def needed_bytes(num):
    """Space that the database of one engine may take at its largest."""
    return int(num * ENTRY_BYTES * SPACE_FACTOR) + FIXED_SPACE_BYTES


def check_space(directory, database, num):
    """Refuses to begin without the space that a run needs."""
    need = needed_bytes(num)
    free = shutil.disk_usage(directory).free + used_bytes(database)
    if free < need + RESERVE_BYTES:
        raise bench.LabError(
            f"{num:,} entries may need {gib(need)} in {directory}, and "
            f"{gib(RESERVE_BYTES)} are left free; there are only {gib(free)}. "
            "Choose another --dir or a smaller --num")


def resident_bytes(pid):
    match = re.search(r"^VmRSS:\s*(\d+)", Path(
        f"/proc/{pid}/status").read_text(encoding="utf-8"), re.MULTILINE)
    return int(match.group(1)) * 1024 if match else 0


def check_ended():
    if ENDED:
        raise bench.LabError("ended by SIGTERM; --resume goes on")


class Watched:
    """A program that runs, with its memory and its disk space sampled."""

    def __init__(self, command, database, most_bytes):
        self.command = [str(word) for word in command]
        self.database = database
        self.most_bytes = most_bytes
        self.rss = []
        self.peak_space = 0
        self.output = self.progress = ""
        self.usage = None

    def run(self):
        with tempfile.TemporaryFile("w+") as output, \
                tempfile.TemporaryFile("w+") as progress:
            try:
                process = subprocess.Popen(
                    self.command, stdin=subprocess.DEVNULL, stdout=output,
                    stderr=progress)
            except OSError as error:
                raise bench.LabError(
                    f"{error}; tools/quickstart lab builds it") from error
            try:
                self.watch(process)
            finally:
                if process.returncode is None:
                    process.kill()
                    process.wait()
            output.seek(0)
            progress.seek(0)
            self.output, self.progress = output.read(), progress.read()
        if process.returncode != 0:
            raise bench.LabError(f"{shlex.join(self.command)}\n{self.output}"
                                 f"{self.progress}")

    def watch(self, process):
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid != 0:
                process.returncode = os.waitstatus_to_exitcode(status)
                self.usage = usage
                return
            check_ended()
            self.rss.append(resident_bytes(process.pid))
            space = used_bytes(self.database)
            self.peak_space = max(self.peak_space, space)
            if space > self.most_bytes:
                raise bench.LabError(
                    f"the database needs more than {gib(self.most_bytes)}")
            if shutil.disk_usage(self.database.parent).free < RESERVE_BYTES:
                raise bench.LabError(
                    f"less than {gib(RESERVE_BYTES)} are free on the disk of "
                    f"{self.database}")
            time.sleep(SAMPLE_SECONDS)


def find_stalls(output):
    """Seconds that writes were held up, as the engine counts them."""
    match = VARVE_STALLS.search(output)
    if match:
        return float(match.group(1))
    match = ROCKSDB_STALLS.search(output)
    if match:
        hours, minutes, seconds = map(float, match.groups())
        return hours * 3600 + minutes * 60 + seconds
    return None


def run_step(lab, engine, database, benchmark, flags):
    """Runs a benchmark, then what is left of background work, and returns the
    figures of the step."""
    with tempfile.NamedTemporaryFile(suffix=".json") as json_file:
        command = [
            lab.options.db_bench, f"--engine={engine}", f"--db={database}",
            f"--num={lab.num}", f"--key_size={KEY_BYTES}",
            f"--value_size={VALUE_BYTES}", "--bloom_bits=10", "--seed=1",
            "--histogram", "--cpu_time", "--stats_interval_seconds=1",
            f"--benchmarks={benchmark},waitforcompaction,stats", *flags]
        if lab.options.direct_reads:
            command.append("--use_direct_reads")
        lab.note(command)
        watched = Watched([*command, f"--report_json={json_file.name}"],
                          database, needed_bytes(lab.num))
        load = os.getloadavg()[0]
        begin = time.monotonic()
        watched.run()
        seconds = time.monotonic() - begin
        results = {result["name"]: result
                   for result in json.load(json_file)["results"]}
    result = results[benchmark]
    settle = results.get("waitforcompaction", {"seconds": 0})
    series = [int(rate) for name, _, rate in PROGRESS.findall(watched.progress)
              if name == benchmark]
    later = watched.rss[len(watched.rss) // 2:]
    return {
        "date": time.strftime("%Y-%m-%d %H:%M"),
        "load": load,
        "operations": result["operations"],
        "seconds": result["seconds"],
        "ops_per_sec": result["ops_per_sec"],
        "cpu_micros_per_op": cpu_of(watched.output, benchmark,
                                    result["operations"]),
        # Few of them mean that others had the processors.
        "processors_used": (watched.usage.ru_utime +
                            watched.usage.ru_stime) / seconds,
        "series": series,
        "latency_ns": result["latency_ns"],
        "stall_seconds": find_stalls(watched.output),
        "settle_seconds": settle["seconds"],
        # Zero on a file system in memory.
        "written_bytes": watched.usage.ru_oublock * 512,
        "read_bytes": watched.usage.ru_inblock * 512,
        "peak_rss_bytes": max(each["peak_rss_bytes"]
                              for each in results.values()),
        "steady_rss_bytes": int(statistics.median(later)) if later else 0,
        "space_bytes": used_bytes(database),
        "peak_space_bytes": watched.peak_space,
        "open_seconds": result["open_seconds"],
    }


def cpu_of(output, benchmark, operations):
    """CPU time of an operation, with that of the background work after it."""
    used = dict(CPU.findall(output))
    return (float(used[benchmark]) +
            float(used.get("waitforcompaction", 0)) / max(operations, 1))


def steps_of(lab):
    """[(name, benchmark, flags)] in their order."""
    data_bytes = lab.num * ENTRY_BYTES

    def cache(percent):
        return "--cache_size=" + str(
            max(int(data_bytes * percent / 100), MIN_CACHE_BYTES))

    options = lab.options
    overwrite_seconds = 1 if lab.quick else options.overwrite_seconds
    read_seconds = 1 if lab.quick else options.read_seconds
    steps = [("fill", options.fill, [cache(1)]),
             ("overwrite", "overwrite",
              [cache(1), "--use_existing_db",
               f"--duration={overwrite_seconds}"])]
    for percent in CACHE_PERCENTS:
        steps.append((read_name(percent), "readrandom",
                      [cache(percent), "--use_existing_db",
                       f"--duration={read_seconds}"]))
    return steps


def read_name(percent):
    return f"read, cache of {percent} %"


# ---- The lab -----------------------------------------------------------------


def run(lab):
    options = lab.options
    if options.resume and options.dir is None:
        raise bench.LabError("--resume needs --dir")
    engines = list(filter(None, options.engines.split(",")))
    settings = {"num": lab.num, "fill": options.fill, "engines": engines,
                "overwrite_seconds": options.overwrite_seconds,
                "read_seconds": options.read_seconds,
                "direct_reads": options.direct_reads, "quick": lab.quick}
    state = State(lab.directory / STATE, settings, options.resume)
    signal.signal(signal.SIGTERM, lambda *_: ENDED.append(True))
    steps = steps_of(lab)
    for engine in engines:
        database = lab.directory / f"scale-{engine}"
        for name, benchmark, flags in steps:
            if state.find(engine, name):
                bench.say(f"{engine}, {name}: done before")
                continue
            check_ended()
            check_space(lab.directory, database, lab.num)
            bench.say(f"{engine}, {name}")
            figures = run_step(lab, engine, database, benchmark, flags)
            state.add(engine, name, figures)
            bench.say(f"{engine}, {name}: {figures['ops_per_sec']:,.0f} a "
                      f"second for {figures['seconds']:.0f} seconds")
        shutil.rmtree(database, ignore_errors=True)
    show(lab, state, engines, steps)


def show(lab, state, engines, steps):
    page = pages.Results(lab.report, "scale", ["db/", "table/"])
    figures = {engine: {name: state.find(engine, name) for name, _, _ in steps}
               for engine in engines}
    options = lab.options
    data_bytes = lab.num * ENTRY_BYTES
    loads = [step["load"] for by_step in figures.values()
             for step in by_step.values()]
    dates = [step["date"] for by_step in figures.values()
             for step in by_step.values()]
    versions = dict(re.findall(r"^engine (\S+) (.*)$", subprocess.run(
        [lab.options.db_bench, "--version"], capture_output=True, text=True,
        check=True).stdout, re.MULTILINE))
    page.text(
        f"{lab.num:,} entries of {KEY_BYTES} + {VALUE_BYTES} bytes "
        f"({pages.human(data_bytes)}B), {options.fill}, then overwrite of "
        f"random keys, then reads of random keys. Snappy, Bloom filters of 10 "
        f"bits, 1 thread, 2 background jobs. From {min(dates)} to {max(dates)} "
        f"on {os.cpu_count()} processors and {bench.device_of(lab.directory)}; "
        f"load when a step began: {min(loads):.1f} to {max(loads):.1f}.")
    page.table(["engine", "version"],
               [[engine, versions.get(engine, "")] for engine in engines])
    for name, _, _ in steps[:2]:
        show_writes(page, name, figures, engines)
    show_reads(page, figures, engines, steps[2:])
    page.heading("Memory, space and open")
    page.table(
        ["step", "engine", "peak RSS (MiB)", "steady RSS (MiB)",
         "space (MiB)", "peak space (MiB)", "bytes an entry", "open (ms)"],
        [[name, engine, mebibytes(step["peak_rss_bytes"]),
          mebibytes(step["steady_rss_bytes"]), mebibytes(step["space_bytes"]),
          mebibytes(step["peak_space_bytes"]),
          f"{step['space_bytes'] / lab.num:.1f}",
          f"{step['open_seconds'] * 1e3:.1f}"]
         for name, _, _ in steps for engine in engines
         for step in [figures[engine][name]]])
    if len(engines) > 1:
        first, second = engines[:2]
        for name, _, _ in steps:
            own, other = (figures[engine][name]["ops_per_sec"]
                          for engine in (first, second))
            lab.report.result(f"{name}, operations a second", second,
                              pages.figure(other), pages.figure(own),
                              pages.ratio(own, other))
    # Without the flags that only say where things are put.
    command = ["tools/lab", "scale", f"--num={lab.num}",
               f"--overwrite_seconds={options.overwrite_seconds}",
               f"--read_seconds={options.read_seconds}",
               f"--engines={options.engines}", f"--fill={options.fill}"]
    page.write(options.out, shlex.join(command))


def mebibytes(count):
    return f"{count / (1 << 20):,.0f}"


def slow_seconds(series):
    """Seconds after the first ten, if there are more, under half the median of
    all."""
    if not series:
        return 0
    least = statistics.median(series) / 2
    return sum(rate < least for rate in series[10:])


def show_writes(page, name, figures, engines):
    page.heading(name.capitalize())
    by_engine = {engine: figures[engine][name] for engine in engines}

    def row(label, value):
        return [label, *(value(step) for step in by_engine.values())]

    def latency(field, digits):
        return lambda step: f"{step['latency_ns'][field] / 1e3:,.{digits}f}"

    def amplification(step):
        user_bytes = step["operations"] * ENTRY_BYTES
        written = step["written_bytes"]
        return f"{written / max(user_bytes, 1):.2f}" if written else "-"

    page.table(["", *engines], [
        row("operations a second", lambda step: f"{step['ops_per_sec']:,.0f}"),
        row("CPU of an operation, background work included (us)",
            lambda step: f"{step['cpu_micros_per_op']:.3f}"),
        row("processors that the process got",
            lambda step: f"{step['processors_used']:.2f}"),
        row("median second", lambda step: f"{median_rate(step):,.0f}"),
        row("slowest second after the first ten",
            lambda step: f"{slowest_rate(step):,.0f}"),
        row("seconds after the first ten under half the median",
            lambda step: str(slow_seconds(step["series"]))),
        row("stalls that the engine counts (s)",
            lambda step: "-" if step["stall_seconds"] is None
            else f"{step['stall_seconds']:.1f}"),
        row("stalls, part of the time (%)",
            lambda step: "-" if step["stall_seconds"] is None
            else f"{100 * step['stall_seconds'] / step['seconds']:.1f}"),
        row("P99 (us)", latency("p99", 1)),
        row("P99.99 (us)", latency("p99.99", 1)),
        row("longest write (ms)",
            lambda step: f"{step['latency_ns']['max'] / 1e6:,.1f}"),
        row("write amplification, log and rest of compaction included",
            amplification),
        row("rest of the compactions after it (s)",
            lambda step: f"{step['settle_seconds']:.1f}"),
    ])
    caption = f"{name.capitalize()}: operations in each second"
    svg = page.report.series(
        caption, {engine: step["series"] for engine, step in by_engine.items()},
        "second", "operations a second", "more")
    page.chart(f"scale_{name}.svg", caption, svg)


def median_rate(step):
    series = step["series"]
    return statistics.median(series) if series else step["ops_per_sec"]


def slowest_rate(step):
    return min(step["series"][10:] or step["series"] or [step["ops_per_sec"]])


def show_reads(page, figures, engines, steps):
    page.heading("Reads of random keys")
    rows = []
    for name, _, _ in steps:
        for engine in engines:
            step = figures[engine][name]
            latency = step["latency_ns"]
            rows.append([
                name, engine, f"{step['ops_per_sec']:,.0f}",
                f"{step['cpu_micros_per_op']:.3f}",
                f"{step['processors_used']:.2f}",
                *(f"{latency[field] / 1e3:,.1f}"
                  for field in ("p50", "p99", "p99.9", "max")),
                f"{step['read_bytes'] / max(step['operations'], 1):,.0f}"])
    page.table(["step", "engine", "a second", "CPU (us)", "processors",
                "P50 (us)", "P99 (us)", "P99.9 (us)", "longest (us)",
                "bytes from the device a read"], rows)
    caption = "Reads a second by the size of the cache"
    svg = page.report.bars(
        caption, [name for name, _, _ in steps],
        {engine: [figures[engine][name]["ops_per_sec"] for name, _, _ in steps]
         for engine in engines}, "reads a second", "more")
    page.chart("scale_read.svg", caption, svg)
