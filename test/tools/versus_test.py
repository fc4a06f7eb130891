#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Goal: tools/versus reads what db_bench and RocksDB's tool print, adds up rows
of several benchmarks, and compares engines. Method: give it texts of both
tools, and run it on small databases.

Usage: versus_test.py DB_BENCH
"""

import importlib.machinery
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

VERSUS = Path(__file__).resolve().parents[2] / "tools" / "versus"
DB_BENCH = ""

OURS = """\
readseq      :   0.100 micros/op 10000000 ops/sec 0.100 seconds 1000000 \
operations; 1106.3 MB/s
readseq      : CPU 0.150 micros/op (user 0.140, system 0.010)
overwrite    :   4.000 micros/op 500000 ops/sec 2.000 seconds 1000000 \
operations;   55.3 MB/s
Microseconds per write:
Count: 1000000 Average: 4.0000
Min: 1.00 Median: 2.0000 Max: 123.45
Percentiles: P50: 2.00 P75: 3.00 P95: 4.00 P99: 9.50 P99.9: 17.00 P99.99: 44.00
overwrite    : CPU 5.000 micros/op (user 4.000, system 1.000)
waitforcompaction : 3000000.000 micros/op 0 ops/sec 3.000 seconds 1 operations;
waitforcompaction : CPU 2000000.000 micros/op (user 1500000.000, system \
500000.000)
Microseconds per op:
Count: 1 Average: 1.0
Min: 1.00 Median: 1.0 Max: 1.00
Percentiles: P50: 1.00 P75: 1.00 P95: 1.00 P99: 1.00 P99.9: 1.00 P99.99: 1.00
"""
THEIRS = """\
DB path: [/tmp/x]
waitforcompaction(/tmp/x): started
overwrite    :       2.500 micros/op 400000 ops/sec 2.500 seconds 1000000 \
operations;   44.3 MB/s
Microseconds per write:
Count: 1000000 Average: 2.5000  StdDev: 9.99
Min: 1  Median: 1.9  Max: 9000
Percentiles: P50: 1.90 P75: 2.90 P99: 7.93 P99.9: 13.20 P99.99: 40.00
------------------------------------------------------
"""

OPEN_LOOP = """\
openloop     :  10.000 micros/op 100000 ops/sec 1.000 seconds 100000 \
operations;   10.6 MB/s (49990 of 49990 found)
openloop puts : 50010 operations; 50009 ops/sec; P50: 1.250 P99: 3.500 \
P99.9: 17.250 P99.99: 1044.500 Max: 123456.750 micros
openloop gets : 49990 operations; 49989 ops/sec; P50: 0.750 P99: 2.500 \
P99.9: 12.250 P99.99: 944.500 Max: 123450.500 micros
openloop     : CPU 10.500 micros/op (user 9.000, system 1.500)
"""

# Prints what an adapter of tools/peers prints, and refuses what they refuse.
ADAPTER = """\
#!/usr/bin/env bash
case $* in
  --version)
    printf 'adapter 1\\nengine pebble 9.9 (a kill loses the last writes)\\n' ;;
  *--histogram* | *--engine*) exit 1 ;;
  *)
    for word in "$@"; do
      if [[ $word == --db=* ]]; then mkdir -p "${word#*=}"; fi
      [[ $word == --benchmarks=* ]] || continue
      for name in $(tr , ' ' <<<"${word#*=}"); do
        printf '%s : 2.000 micros/op 500000 ops/sec 1.000 seconds 500000 ' $name
        printf 'operations;\\n%s : CPU 2.500 micros/op (user 2.000, ' $name
        printf 'system 0.500)\\n'
        [[ $name == openloop ]] || continue
        [[ $* == *--rate=5000* && $* == *--duration=1* ]] || exit 1
        for kind in puts gets; do
          printf 'openloop %s : 250000 operations; 250000 ops/sec; ' $kind
          printf 'P50: 1.000 P99: 2.000 P99.9: 3.000 P99.99: 4.000 '
          printf 'Max: 5000.000 micros\\n'
        done
      done
    done ;;
esac
"""


def load_versus():
    loader = importlib.machinery.SourceFileLoader("versus", str(VERSUS))
    spec = importlib.util.spec_from_loader("versus", loader)
    module = importlib.util.module_from_spec(spec)
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


class SampleTest(unittest.TestCase):
    def setUp(self):
        self.versus = load_versus()

    def test_takes_speed_and_latency_of_one_benchmark(self):
        sample = self.versus.Sample(["overwrite"], OURS, 7)
        self.assertEqual((sample.micros, sample.speed), (4.0, 500000))
        self.assertEqual(sample.latency, (9.5, 17.0, 123.45))
        self.assertEqual(sample.rss_bytes, 7)

    def test_adds_up_the_time_of_several(self):
        sample = self.versus.Sample(["overwrite", "waitforcompaction"], OURS, 0)
        self.assertEqual((sample.micros, sample.speed), (5.0, 200000))
        self.assertEqual(sample.latency, (9.5, 17.0, 123.45))
        self.assertEqual(sample.skipped, [])

    def test_adds_up_cpu_time(self):
        def cpu(*names):
            return self.versus.Sample(list(names), OURS, 0).cpu_micros
        self.assertEqual(cpu("readseq"), .15)
        self.assertEqual(cpu("overwrite"), 5)
        self.assertEqual(cpu("overwrite", "waitforcompaction"), 7)
        sample = self.versus.Sample(["overwrite"], THEIRS, 0)
        self.assertIsNone(sample.cpu_micros)
        self.assertEqual(self.versus.format_cpu({}), "-")

    def test_takes_the_time_of_what_is_done_once(self):
        sample = self.versus.Sample(["waitforcompaction"], OURS, 0)
        self.assertAlmostEqual(sample.speed, 1 / 3)
        self.assertAlmostEqual(sample.micros, 3e6)
        self.assertEqual(self.versus.format_speed(
            {"median_ops_per_sec": 1 / 3, "min_ops_per_sec": .25,
             "max_ops_per_sec": 1}), "0.333 (0.250 to 1.000)")

    def test_counts_a_skipped_one_as_no_time(self):
        text = THEIRS + "waitforcompaction : skipped (has none)\n"
        sample = self.versus.Sample(["overwrite", "waitforcompaction"], text, 0)
        self.assertEqual(sample.speed, 400000)
        self.assertEqual(sample.skipped, ["waitforcompaction"])

    def test_reads_what_rocksdb_prints(self):
        sample = self.versus.Sample(["overwrite"], THEIRS, 0)
        self.assertEqual(sample.latency, (7.93, 13.2, 9000.0))

    def test_reads_the_latencies_of_an_open_loop(self):
        for text in (OPEN_LOOP, OURS + OPEN_LOOP + THEIRS):
            sample = self.versus.Sample(["openloop"], text, 0)
            self.assertEqual(sample.speed, 100000)
            self.assertEqual(sample.cpu_micros, 10.5)
            self.assertEqual(sample.open_loop, {
                "puts": {"ops_per_sec": 50009, "P50": 1.25, "P99": 3.5,
                         "P99.9": 17.25, "P99.99": 1044.5, "Max": 123456.75},
                "gets": {"ops_per_sec": 49989, "P50": .75, "P99": 2.5,
                         "P99.9": 12.25, "P99.99": 944.5, "Max": 123450.5}})
        self.assertEqual(
            self.versus.Sample(["overwrite"], OURS + OPEN_LOOP, 0).open_loop,
            {})

    def test_prints_medians_of_the_latencies(self):
        texts = [OPEN_LOOP.replace("1.250", micros)
                 for micros in ("1.250", "3.250", "1.750")]
        figures = self.versus.summarize_engine(
            [self.versus.Sample(["openloop"], text, 0) for text in texts])
        row = {"benchmark": "openloop", "threads": 1,
               "engines": {"varve": figures, "pebble": figures}}
        summary = {"config": {"rate": 100000}, "rows": [row]}
        text, table = self.versus.format_open_loop(summary)
        self.assertIn("at 100,000 operations a second", text)
        lines = table.splitlines()
        self.assertEqual([line[:17] for line in lines[2:]],
                         ["| 1 | puts | varv", "| 1 | puts | pebb",
                          "| 1 | gets | varv", "| 1 | gets | pebb"])
        self.assertIn("| 1.8 (1.2 to 3.2) | 3.5 (3.5 to 3.5) |", lines[2])
        self.assertIn("| 123,456.8 (123,456.8 to 123,456.8) |", lines[2])
        self.assertEqual({line.count("|") for line in lines}, {10})
        row["engines"] = {"varve": self.versus.summarize_engine(
            [self.versus.Sample(["overwrite"], OURS, 0)])}
        self.assertEqual(self.versus.format_open_loop(summary), [])

    def test_takes_the_last_of_the_same_name(self):
        text = OURS + OURS.replace("10000000 ops/sec", "20000000 ops/sec")
        sample = self.versus.Sample(["readseq"], text, 0)
        self.assertEqual(sample.speed, 20000000)
        self.assertIsNone(sample.latency)

    def test_refuses_what_gave_no_result(self):
        for names in (["readrandom"], ["overwrite", "compact"]):
            with self.assertRaises(LookupError):
                self.versus.Sample(names, OURS, 0)


class DirectoryTest(unittest.TestCase):
    def test_finds_the_file_system_of_a_directory(self):
        versus = load_versus()
        self.assertEqual(versus.file_system("/proc/self"), "proc")
        self.assertNotEqual(versus.file_system("/"), "unknown")

    def test_knows_the_file_system_that_no_mount_table_lists(self):
        versus = load_versus()
        with tempfile.NamedTemporaryFile("w") as mounts:
            versus.MOUNT_TABLE = Path(mounts.name)  # Empty, as in a chroot.
            self.assertEqual(versus.file_system("/proc/self"), "proc")
            self.assertNotEqual(versus.file_system("/"), "unknown")

    def test_puts_databases_on_a_disk_if_there_is_one(self):
        versus = load_versus()
        os.environ["TEST_TMPDIR"] = "/dev"
        versus.file_system = {"/dev": "tmpfs", "/tmp": "ramfs",
                              "/var/tmp": "ext4", ".": "ext4"}.get
        self.assertEqual(versus.default_directory(), "/var/tmp")
        versus.file_system = lambda path: "ext4"
        self.assertEqual(versus.default_directory(), "/dev")
        del os.environ["TEST_TMPDIR"]


class ProgramTest(unittest.TestCase):
    def run_versus(self, *arguments):
        return subprocess.run(
            [sys.executable, str(VERSUS), f"--db_bench={DB_BENCH}",
             "--num=2000", "--duration=1", *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            check=False)

    def test_compares_engines_row_by_row(self):
        version = subprocess.run([DB_BENCH, "--version"], capture_output=True,
                                 text=True, check=True).stdout
        engines = [name for name in ("varve", "leveldb")
                   if f"engine {name} " in version]
        rows = ["fillsync@8", "overwrite+waitforcompaction",
                "deleterandom+compact", "readseq@2"]
        with tempfile.TemporaryDirectory() as directory:
            report = f"{directory}/report.json"
            done = self.run_versus(
                "--rounds=2", f"--engines={','.join(engines)}",
                f"--peer=varve-again={DB_BENCH}",
                f"--benchmarks={','.join(rows)}", "--latency",
                f"--db_dir={directory}", f"--json={report}")
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertEqual(os.listdir(directory), ["report.json"])
            summary = json.loads(Path(report).read_text(encoding="utf-8"))
        self.assertEqual(list(summary["engines"]), engines + ["varve-again"])
        self.assertEqual(
            [f"{row['benchmark']}@{row['threads']}" for row in summary["rows"]],
            ["fillsync@8", "overwrite+waitforcompaction@1",
             "deleterandom+compact@1", "readseq@2"])
        for row in summary["rows"]:
            for figures in row["engines"].values():
                self.assertEqual(len(figures["ops_per_sec"]), 2)
                self.assertGreater(figures["peak_rss_bytes"], 1 << 20)
                self.assertGreater(figures["latency_micros"]["max"], 0)
                self.assertEqual(len(figures["cpu_micros_per_op"]), 2)
                self.assertGreater(figures["median_cpu_micros_per_op"], 0)
        self.assertEqual(done.stdout.count("| fillsync | 8 |"), 4)

    def test_takes_adapters_by_name(self):
        with tempfile.TemporaryDirectory() as directory:
            adapter = Path(directory) / "pebble"
            adapter.write_text(ADAPTER, encoding="utf-8")
            adapter.chmod(0o755)
            report = f"{directory}/report.json"
            done = self.run_versus(
                "--rounds=1", "--engines=varve", f"--peers_dir={directory}",
                "--peer=pebble", "--benchmarks=fillseq,readrandom,openloop",
                "--rate=5000", f"--db_dir={directory}", f"--json={report}",
                "--latency")
            self.assertEqual(done.returncode, 0, done.stdout)
            summary = json.loads(Path(report).read_text(encoding="utf-8"))
        self.assertEqual(list(summary["engines"]), ["varve", "pebble"])
        self.assertIn("loses the last", summary["engines"]["pebble"])
        for row in summary["rows"]:
            figures = row["engines"]["pebble"]
            self.assertEqual(figures["ops_per_sec"], [500000])
            self.assertEqual(figures["cpu_micros_per_op"], [2.5])
        self.assertIn("2.500 (2.500 to 2.500)", done.stdout)
        self.assertIn("| 1 | puts | pebble | 250,000 (250,000 to 250,000) | "
                      "1.0 (1.0 to 1.0) | 2.0 (2.0 to 2.0) | ", done.stdout)
        for kind in ("puts", "gets"):
            latency = summary["rows"][2]["engines"]["varve"]["open_loop"][kind]
            self.assertEqual(len(latency["P99.99"]), 1)
            self.assertGreater(latency["Max"][0], 0)

    def test_says_how_to_build_an_adapter(self):
        with tempfile.TemporaryDirectory() as directory:
            done = self.run_versus(f"--peers_dir={directory}",
                                   "--peer=redb,fjall")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("tools/peers/build redb", done.stdout)

    def test_refuses_an_engine_twice(self):
        done = self.run_versus(f"--peer=varve={DB_BENCH}")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("an engine varve already", done.stdout)

    def test_refuses_a_benchmark_without_result(self):
        done = self.run_versus("--rounds=1", "--engines=varve",
                               "--benchmarks=fillseq+stats")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("gave no result for 'stats'", done.stdout)

    def test_refuses_a_peer_whose_engine_is_unknown(self):
        done = self.run_versus(f"--peer=other={DB_BENCH}")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("must begin with one of", done.stdout)


if __name__ == "__main__":
    DB_BENCH = sys.argv.pop(1)
    unittest.main()
