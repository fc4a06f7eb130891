#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Goal: examples/follow keeps a second database equal through the ends of both
sides. Method: a server gets lines, and it, the copy or both are killed at random
moments. In the end both have the same entries, and all that were acknowledged.
VARVE_FOLLOW_KILLS sets how often something is killed.

Usage: follow_example_test.py FOLLOW VARVE
"""

import os
import random
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

KILLS = int(os.environ.get("VARVE_FOLLOW_KILLS", "12"))
LIMIT_SECONDS = 120
OWN_KEY = "follow: last update"
FOLLOW, VARVE = (Path(path).resolve() for path in sys.argv[1:3])


def kill(process):
    if process is None:
        return
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            try:
                stream.close()
            except BrokenPipeError:
                pass


def varve(*arguments):
    return subprocess.run([VARVE, *arguments], text=True, errors="replace",
                          capture_output=True, check=False)


class FollowExampleTest(unittest.TestCase):

    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        root = Path(self.directory.name)
        self.source, self.copy = root / "source", root / "copy"
        self.socket = root / "socket"
        self.server = self.follower = None
        self.addCleanup(lambda: (kill(self.server), kill(self.follower)))

    def start_server(self):
        self.server = subprocess.Popen(
            [FOLLOW, "serve", self.source, self.socket],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True)

    def start_follower(self):
        self.follower = subprocess.Popen(
            [FOLLOW, "copy", self.copy, self.socket],
            stderr=subprocess.DEVNULL)

    def put(self, key, value):
        self.server.stdin.write(f"{key} {value}\n")
        self.server.stdin.flush()
        self.assertEqual(self.server.stdout.readline(), f"{key}\n")

    def entries(self, directory):
        outcome = varve("scan", f"--db={directory}")
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        return [line for line in outcome.stdout.splitlines()
                if OWN_KEY not in line]

    def test_both_sides_are_killed(self):
        seed = random.randrange(1 << 32)
        print(f"seed {seed}", flush=True)
        self.rng = random.Random(seed)
        acknowledged = {}
        number = 0
        self.start_server()
        self.start_follower()
        for _ in range(KILLS):
            for _ in range(self.rng.randrange(1, 60)):
                number += 1
                key, value = f"k{self.rng.randrange(100)}", f"v{number}"
                self.put(key, value)
                acknowledged[key] = value
            victims = self.rng.choice(("server", "follower", "both"))
            if victims != "server":
                kill(self.follower)
                self.start_follower()
            if victims != "follower":
                # Perhaps in the middle of a write.
                if self.rng.random() < 0.5:
                    number += 1
                    self.server.stdin.write(f"last v{number}\n")
                    self.server.stdin.flush()
                kill(self.server)
                self.start_server()
        self.put("end", "reached")
        deadline = time.monotonic() + LIMIT_SECONDS
        while "reached" not in varve("get", f"--db={self.copy}", "end").stdout:
            self.assertLess(time.monotonic(), deadline, "the copy stays behind")
            time.sleep(0.05)
        kill(self.follower)
        kill(self.server)
        source = self.entries(self.source)
        self.assertEqual(source, self.entries(self.copy))
        found = dict(line.split(" : ") for line in source)
        for key, value in acknowledged.items():
            self.assertEqual(found.get(key), value)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
