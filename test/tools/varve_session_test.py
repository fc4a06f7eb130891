#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Goal: the program varve does at a shell what varve_session.txt says, with good,
odd, huge and binary input; it ends by a signal without leaving files; and it
ingests a dump in bounded memory. Method: run the session's commands by bash and
compare what they print; send signals at many moments; measure the memory.

Usage: varve_session_test.py VARVE [TEST...]
"""

import fcntl
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

SESSION = Path(__file__).with_name("varve_session.txt")
VARVE = Path()


def parse(text):
    """Yields (line number, command, lines of output, exit code). A command that
    begins with % is one of this script."""
    command, expected, start = None, [], 0
    for number, line in enumerate(text.splitlines() + ["$ :"], 1):
        if not re.match(r"[$%#] ", line):
            expected.append(line)
            continue
        if command is not None:
            while expected and not expected[-1]:
                expected.pop()
            code = re.fullmatch(r"\[(\d+)\]", expected[-1]) if expected else None
            yield (start, command, expected[:-1] if code else expected,
                   int(code[1]) if code else 0)
        command, expected, start = line, [], number
        if line.startswith("#"):
            command = None


class Place(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.root = Path(place.name)

    def varve(self, *arguments, **options):
        return subprocess.run([VARVE, *arguments], cwd=self.root, text=True,
                              capture_output=True, check=True, **options).stdout


class SessionTest(Place):
    def test_prints_what_the_session_says(self):
        environment = {**os.environ, "LC_ALL": "C.UTF-8",
                       "PATH": f"{VARVE.parent}:{os.environ['PATH']}"}
        lock = None
        commands = 0
        for number, command, expected, code in parse(
                SESSION.read_text(encoding="utf-8")):
            if command.startswith("% lock "):
                lock = open(self.root / command.split()[2] / "LOCK", "r+")
                fcntl.lockf(lock, fcntl.LOCK_EX)
                continue
            if command == "% unlock":
                lock.close()
                continue
            done = subprocess.run(
                ["bash", "-c", "set -o pipefail; " + command[2:]],
                cwd=self.root, env=environment, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, check=False, timeout=120)
            printed = done.stdout.decode("utf-8", "backslashreplace")
            pattern = re.escape("".join(line + "\n" for line in expected))
            pattern = pattern.replace(r"\.\.\.\n", ".*\n")
            pattern = pattern.replace(r"\.\.\.", ".*")
            pattern = pattern.replace("HOLDER", str(os.getpid()))
            with self.subTest(line=number, command=command):
                if printed and not printed.endswith("\n"):
                    printed += "\n"
                self.assertTrue(re.fullmatch(pattern, printed, re.DOTALL),
                                f"expected:\n{expected}\nprinted:\n{printed}")
                self.assertEqual(done.returncode, code, printed)
            commands += 1
        self.assertGreater(commands, 70)


class SignalTest(Place):
    def setUp(self):
        super().setUp()
        lines = "".join(f"key{i:06}\t{'v' * 1000}\n" for i in range(50000))
        self.varve("batchput", "--db=db", "--create_if_missing", input=lines)

    def end_at_many_moments(self, command, target, temporary):
        """Runs the command with each signal after growing delays. Either it is
        done, or the signal ended it and no temporary file is left."""
        ended = 0
        for attempt in range(40):
            number = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP][attempt % 3]
            process = subprocess.Popen([VARVE, *command], cwd=self.root,
                                       stdout=subprocess.DEVNULL)
            deadline = time.monotonic() + 10
            # The later ones while the temporary file is there.
            while (attempt % 2 and time.monotonic() < deadline and
                   process.poll() is None and
                   not list(self.root.glob(temporary))):
                pass
            time.sleep(attempt * 0.0005)
            process.send_signal(number)
            code = process.wait()
            self.assertIn(code, (0, -number))
            self.assertEqual(list(self.root.glob(temporary)), [])
            if (self.root / target).is_dir():  # Perhaps just before the signal.
                self.assertEqual(self.varve("count", f"--db={target}"),
                                 "50000\n")
            else:
                self.assertEqual((self.root / target).exists(), code == 0)
            ended += code != 0
            subprocess.run(["rm", "-rf", self.root / target], check=True)
            if ended >= 6 and attempt >= 12:
                break
        self.assertGreater(ended, 0)

    def test_export_leaves_no_temporary_file(self):
        self.end_at_many_moments(["export-to", "--db=db", "out"], "out",
                                 "out.tmp*")

    def test_checkpoint_leaves_no_temporary_directory(self):
        self.end_at_many_moments(["checkpoint", "--db=db", "copy"], "copy",
                                 "copy.tmp*")
        self.assertEqual(self.varve("count", "--db=db"), "50000\n")

    def test_ignored_signals_stay_ignored(self):
        process = subprocess.Popen(
            ["bash", "-c", 'trap "" INT; exec "$@"', "bash", VARVE, "export-to",
             "--db=db", "out"], cwd=self.root)
        while process.poll() is None:
            process.send_signal(signal.SIGINT)
            time.sleep(0.005)
            # Before bash has executed the trap, the signal ends it.
        if process.returncode != -signal.SIGINT:
            self.assertEqual(process.returncode, 0)
            self.assertTrue((self.root / "out").exists())


class ProgressTest(Place):
    def test_is_shown_on_a_terminal_only(self):
        self.varve("put", "--db=db", "--create_if_missing", "a", "b")
        reader, terminal = os.openpty()
        self.addCleanup(os.close, reader)
        for error, expected in ((terminal, True), (subprocess.PIPE, False)):
            done = subprocess.run([VARVE, "repair", "--db=db"], cwd=self.root,
                                  stdout=subprocess.PIPE, stderr=error,
                                  check=True)
            self.assertTrue(done.stdout.startswith(b"OK, "))
            if not expected:
                self.assertEqual(done.stderr, b"")
        os.close(terminal)
        shown = os.read(reader, 1 << 16)
        self.assertTrue(shown.startswith(b"\r\x1b[Krepairing db"), shown)
        self.assertTrue(shown.endswith(b"\r\x1b[K"), shown)  # Removed again.


class MemoryTest(Place):
    def test_ingests_in_bounded_memory(self):
        entries, value = 4000, "v" * 100000
        process = subprocess.Popen(
            [VARVE, "ingest-from", "--db=db", "--create_if_missing", "-"],
            cwd=self.root, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        with process.stdin as dump:
            for i in range(entries):
                dump.write(f"0x{i:06x} ==> 0x{'61' * len(value)}\n".encode())
            dump.write(f"Keys in range: {entries}\n".encode())
        self.assertEqual(process.stdout.read(), b"OK, 4000 entries\n")
        process.stdout.close()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = status
        self.assertEqual(status, 0)
        # Two memtables, the tables that are written of them, and buffers; the
        # dump has 800 MB.
        self.assertLess(usage.ru_maxrss, 300 << 10)
        self.assertEqual(self.varve("count", "--db=db"), f"{entries}\n")


if __name__ == "__main__":
    VARVE = Path(sys.argv.pop(1)).resolve()
    unittest.main()
