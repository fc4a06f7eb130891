#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Goal: Debian's balboa-rocksdb, a database of DNS answers, works unmodified on
Varve's librocksdb.so. Method: balboa, its client, sends answers to it and reads
them back. The program is restarted in turn on Debian's RocksDB 7.8 and on
Varve, on one directory, after it was killed or ended well. The counts, which
the program adds up by a merge operator, must be right each time.

Usage: balboa_test.py LIBRARY LIBRARY_FOR_7_8

The second has the functions of which RocksDB 7.8 had other parameters.
"""

import collections
import contextlib
import json
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from parts import (VARVE, Library, debian_rocksdb, need_program,
                   work_directory)

ANSWERS, NAMES = 300, 40
FEEDERS = """\
feeder:
    - name: Input
      type: socket
      path: {}
      input_format: suricata_dns
"""


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_until(condition, what, process):
    """Asks until the answer is true. Returns the answer."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            if answer := condition():
                return answer
        if process.poll() is not None:
            raise AssertionError(f"{process.args[0]} ended with "
                                 f"{process.returncode}, before: {what}")
        time.sleep(0.05)
    raise AssertionError(f"a minute was not enough: {what}")


class Balboa:
    """The programs, on a directory, during a `with` block."""

    def __init__(self, directory, library, end):
        self.directory, self.library, self.end = directory, library, end

    def start(self, name, command):
        with open(self.directory / f"{name}.txt", "a", encoding="utf-8") as log:
            return subprocess.Popen(command, stdout=log, stderr=log,
                                    cwd=self.directory,
                                    env=self.library.environment())

    def __enter__(self):
        port, self.port = free_port(), free_port()
        self.socket = self.directory / "socket"
        self.socket.unlink(missing_ok=True)
        feeders = self.directory / "feeders.yaml"
        feeders.write_text(FEEDERS.format(self.socket), "utf-8")
        self.store = self.start("store", [
            need_program("balboa-rocksdb", "balboa-backend-rocksdb"), "-d",
            str(self.directory / "db"), "-p", str(port)])
        try:
            wait_until(lambda: socket.create_connection(
                ("127.0.0.1", port)).close() or True, "it listens", self.store)
            self.library.check_mapped("balboa-rocksdb", self.store.pid)
            self.client = self.start("client", [
                need_program("balboa", "balboa"), "serve", "-f", str(feeders),
                "-H", f"127.0.0.1:{port}", "-p", str(self.port), "-l", ""])
        except BaseException:
            self.store.kill()
            self.store.wait()
            raise
        return self

    def __exit__(self, kind, *_):
        self.client.terminate()
        self.store.send_signal(self.end)
        try:
            self.client.wait(60)
            self.store.wait(60)
        finally:
            self.client.kill()
            self.store.kill()
            self.store.wait()
        if kind:
            for name in ("store", "client"):
                log = self.directory / f"{name}.txt"
                print(log.read_text("utf-8")[-2000:])

    def send(self, first):
        """Sends answers. Returns how many of each name."""
        sent = collections.Counter()
        with socket.socket(socket.AF_UNIX) as feed:
            wait_until(lambda: feed.connect(str(self.socket)) or True,
                       "it takes answers", self.client)
            for number in range(first, first + ANSWERS):
                name = f"n{number % NAMES}.example.org"
                sent[name] += 1
                feed.sendall(json.dumps({
                    "timestamp": f"2026-11-24T21:27:{number % 60:02}.5+0000",
                    "event_type": "dns", "src_ip": "10.0.0.1",
                    "dest_ip": "10.0.0.2", "proto": "UDP",
                    "dns": {"version": 2, "type": "answer", "id": number,
                            "rrname": name, "rrtype": "A", "rcode": "NOERROR",
                            "answers": [{"rrname": name, "rrtype": "A",
                                         "ttl": 60, "rdata": "10.1.0.1"}]},
                }).encode() + b"\n")
        return sent

    def ask(self, name):
        """Returns the count of a name, or None."""
        body = {"query": f'{{ entries(rrname: "{name}") {{ rrname count }} }}'}
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/query", json.dumps(body).encode(),
            {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            entries = json.load(answer)["data"]["entries"] or []
        if [entry["rrname"] for entry in entries] not in ([], [name]):
            raise AssertionError(f"asked for {name}: {entries}")
        return entries[0]["count"] if entries else None

    def check(self, expected):
        """Waits for the answers that are on their way, and checks them."""
        for name, count in expected.items():
            wait_until(lambda: self.ask(name) == count,  # pylint: disable=W0640
                       f"{name} has the count {count}", self.client)


def main():
    need_program("balboa", "balboa")
    found = [debian_rocksdb(), Library(VARVE, sys.argv[2],
                                       needs=Library(VARVE, sys.argv[1]))]
    with work_directory("balboa") as place:
        for order in (found, found[::-1], found[1:]):
            directory = Path(place) / "-".join(l.name for l in order)
            directory.mkdir()
            expected = collections.Counter()
            for session in range(4):
                library = order[session % len(order)]
                end = (signal.SIGKILL, signal.SIGINT)[session // 2 % 2]
                with Balboa(directory, library, end) as balboa:
                    balboa.check(expected)
                    expected += balboa.send(session * ANSWERS)
                    balboa.check(expected)
                print(f"{directory.name}: session {session} on {library.name} "
                      f"has {sum(expected.values())} answers", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
