#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Goal: a debugger and a profiler find the callers of the assembly of
restartable sequences (util/threads/per_cpu.h). Method: gdb stops at the
beginning of sequences and after each of their first instructions, and shows the
stack; perf records stacks while a program counts all the time.

The jump of an abort handler is in a section of its own without unwinding data,
so the one instruction there is not covered.

Usage: unwind_test.py DB_BENCH
Exit status: 77 if gdb cannot stop programs here.
"""

import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

DB_BENCH = ""
STOPS = 40
SCRIPT = """
set pagination off
set confirm off
set breakpoint pending on
start
python
import struct
import gdb
def place(name):
    return int(gdb.parse_and_eval('(unsigned long)&' + name))
begin, end = place('__start___rseq_cs'), place('__stop___rseq_cs')
memory = gdb.selected_inferior().read_memory(begin, end - begin).tobytes()
starts = [struct.unpack_from('<IIQQQ', memory, at)[2]
          for at in range(0, len(memory), 32)]
for start in starts:
    gdb.execute('break *%d' % start, to_string=True)
print('sequences', len(starts))
for stop in range(STOPS):
    gdb.execute('continue', to_string=True)
    for _ in range(3):
        names = []
        frame = gdb.newest_frame()
        while frame is not None:
            names.append(frame.name() or '?')
            frame = frame.older()
        print('stack', ' < '.join(names))
        gdb.execute('stepi', to_string=True)
end
kill
"""


def gdb_works():
    done = subprocess.run(["gdb", "-batch", "-ex", "run", "--args", "true"],
                          capture_output=True, text=True, check=False)
    return "exited normally" in done.stdout


class UnwindTest(unittest.TestCase):
    def test_gdb_finds_the_callers_of_a_sequence(self):
        with tempfile.TemporaryDirectory() as directory:
            script = Path(directory) / "script"
            script.write_text(SCRIPT.replace("STOPS", str(STOPS)),
                              encoding="utf-8")
            done = subprocess.run(
                ["gdb", "-batch", "-x", script, "--args", DB_BENCH,
                 f"--db={directory}/db", "--benchmarks=fillrandom",
                 "--num=1000"], capture_output=True, text=True, timeout=200,
                check=False)
        stacks = re.findall(r"^stack (.*)$", done.stdout, re.MULTILINE)
        self.assertEqual(len(stacks), 3 * STOPS, done.stdout + done.stderr)
        for stack in stacks:
            names = [name.strip() for name in stack.split(" < ")]
            # The C++ library may have no symbols.
            self.assertNotIn("?", names[:-3], stack)
            self.assertRegex(names[-1], "^(main|_*clone3?|start_thread) *$",
                             stack)
            self.assertIn("varve::", names[0], stack)

    def test_perf_finds_the_callers(self):
        with tempfile.TemporaryDirectory() as directory:
            data = Path(directory) / "data"
            done = subprocess.run(
                ["perf", "record", "-N", "-o", data, "-e", "cpu-clock",
                 "--call-graph", "dwarf,16384", DB_BENCH,
                 f"--db={directory}/db", "--benchmarks=fillrandom,readrandom",
                 "--num=500000"], capture_output=True, text=True, timeout=200,
                check=False)
            if done.returncode != 0:
                print("not run, perf may not record here:", done.stderr[-300:])
                return
            text = subprocess.run(
                ["perf", "script", "-i", data, "-F", "ip,sym"],
                capture_output=True, text=True, timeout=200, check=True).stdout
        stacks = [sample.split("\n") for sample in text.split("\n\n")
                  if "PerCpu" in sample or "StatisticsImpl" in sample]
        whole = [stack for stack in stacks
                 if re.search(r"\b(main|_start|__libc_start|clone3?|"
                              r"start_thread)", stack[-1] + stack[-2])]
        self.assertGreater(len(stacks), 0)
        self.assertGreaterEqual(len(whole), .9 * len(stacks))


if __name__ == "__main__":
    DB_BENCH = sys.argv.pop(1)
    if not gdb_works():
        print("not run: gdb cannot run programs here")
        sys.exit(77)
    unittest.main()
