#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Goal: the chain state of litecoind is whole after each power cut, with the
drop-in library. Method: litecoind generates blocks on a disk of its own, a file
with an ext4 file system. At random moments the file is cloned in one step. The
clone has the writes that had reached the disk, and nothing of the kernel's
cache: this is the disk after a power cut. litecoind then starts on each clone.
It must have all blocks that it had reported as written, and the chain must pass
the strictest check.

Usage: litecoin_power_cut_test.py DROP_IN_LIBRARY

The disk's file is in an XFS file system, which clones in one step. Needs root
and loop devices. VARVE_COMPAT_FULL=1 makes 20 cuts instead of 3, and 10 with
LevelDB.
"""

import os
import random
import sys
import threading
import time
from http.client import HTTPException
from pathlib import Path

from litecoin import Miner, Node, RpcError
from programs import FULL, libraries, need_program, not_run, run, try_run, \
    work_directory

SEED = int(os.environ.get("TEST_SEED", time.time_ns() % 10**6))
# Blocks are small, because a cut must meet many of them.
OUTPUTS = 100
CLONES_BYTES = 4 << 30
DISK_BYTES = 768 << 20


class Disk:
    """A file system of its own, of which clones can be made at any time."""

    def __init__(self, directory):
        self.mounted = []
        self.clones = directory / "clones"
        self.current = directory / "current"
        self.file = self.clones / "disk"
        self.image = directory / "image"

    def _make(self, file, size, command):
        with open(file, "wb") as one:
            one.truncate(size)
        run([*command, file])

    def mount(self, file, place):
        place.mkdir(exist_ok=True)
        run(["mount", "-o", "loop", file, place])
        self.mounted.append(place)

    def unmount(self, place):
        run(["umount", place])
        self.mounted.remove(place)

    def cut(self, name):
        """Returns a file that is the disk after a power cut at this moment."""
        clone = self.clones / name
        run(["cp", "--reflink=always", self.file, clone])
        return clone

    def __enter__(self):
        try:
            self._make(self.image, CLONES_BYTES, ["mkfs.xfs", "-q"])
            self.mount(self.image, self.clones)
            self._make(self.file, DISK_BYTES, ["mkfs.ext4", "-q"])
            self.mount(self.file, self.current)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for place in reversed(self.mounted[:]):
            self.unmount(place)


def check_disk():
    """Ends the test if the machine cannot have a disk of this kind."""
    if os.geteuid() != 0:
        not_run("mounting needs root")
    need_program("mkfs.xfs", "xfsprogs")
    need_program("mkfs.ext4", "e2fsprogs")
    with work_directory("disk") as directory:
        directory = Path(directory)
        (directory / "file").touch()
        os.truncate(directory / "file", 512 << 20)
        run(["mkfs.xfs", "-q", directory / "file"])
        (directory / "place").mkdir()
        good, output = try_run(["mount", "-o", "loop", directory / "file",
                                directory / "place"])
        if not good:
            not_run("no loop device can be mounted: " +
                    output.strip().splitlines()[-1])
        run(["umount", directory / "place"])


def check_method(disk):
    """A clone must have a synced file, and not one that is in the cache."""
    synced, lost = disk.current / "synced", disk.current / "lost"
    synced.write_text("1", "utf-8")
    run(["sync", synced, disk.current])
    lost.write_text("1", "utf-8")
    clone = disk.cut("method")
    place = disk.clones.parent / "method"
    disk.mount(clone, place)
    found = (place / synced.name).exists(), (place / lost.name).exists()
    disk.unmount(place)
    if found != (True, False):
        raise AssertionError(f"the clone is no disk after a cut: {found}")


def cut_while_generating(library, disk, count, randomness):
    """Returns (clone, height that was reported as written) of each cut."""
    written, ended = [0], threading.Event()
    failures, cuts = [], []

    def work(function):
        try:
            while not ended.is_set():
                function()
        except (OSError, ValueError, RpcError, HTTPException) as error:
            failures.append(error)

    def write():
        written[0] = node.state()[0]
        ended.wait(0.1)

    with Node(library, disk.current / "node", []) as node:
        node.start()
        library.check_mapped(node.process.pid)
        miner = Miner(node, OUTPUTS)
        miner.generate(130)
        threads = [threading.Thread(target=work, args=(function,))
                   for function in (lambda: miner.generate(10), write)]
        for thread in threads:
            thread.start()
        for number in range(count):
            before, end = written[0], time.monotonic() + 60
            while written[0] <= before and time.monotonic() < end:
                time.sleep(0.01)
            time.sleep(randomness.uniform(0, 1))
            height = written[0]
            cuts.append((disk.cut(f"cut{number}"), height))
        ended.set()
        for thread in threads:
            thread.join()
        if failures:
            raise AssertionError(f"litecoind failed: {failures}")
        node.stop()
    return cuts


def check_cut(library, disk, clone, height):
    """Starts litecoind on the disk after a cut."""
    place = disk.clones.parent / clone.name
    disk.mount(clone, place)
    with Node(library, place / "node", []) as node:
        node.start()
        found = node.wait_for_blocks()
        if found < height:
            raise AssertionError(
                f"{clone.name}: {found} blocks are left of {height}, on "
                f"{library.name}, seed {SEED}")
        node.verify()
        state = node.state()
        Miner(node, OUTPUTS).generate(2)
        node.stop()
        # The chain state as it was found must be the one that the blocks give.
        node.start("-reindex-chainstate")
        end = time.monotonic() + 300
        while (now := node.call("getblockcount")) < found + 2:
            if time.monotonic() > end:
                raise AssertionError(f"the chain ends at {now}")
            time.sleep(0.05)
        last = node.call("getblockhash", found + 1)
        node.call("invalidateblock", last)
        if node.state() != state:
            raise AssertionError(f"{clone.name}: {state} after the cut, and "
                                 f"{node.state()} by the blocks")
        node.stop()
    disk.unmount(place)
    clone.unlink()
    return found


def main():
    need_program("litecoind", "litecoind")
    check_disk()
    randomness = random.Random(SEED)
    found = libraries()
    counts = {library.name: 3 for library in found[-1:]}
    if FULL:
        counts = {library.name: 10 if library.name == "LevelDB" else 20
                  for library in found}
    for library in found:
        if library.name not in counts:
            continue
        with work_directory("power-cut") as directory, \
                Disk(Path(directory)) as disk:
            check_method(disk)
            cuts = cut_while_generating(library, disk, counts[library.name],
                                        randomness)
            heights = [check_cut(library, disk, *one) for one in cuts]
        print(f"  {library.name}: {len(heights)} power cuts at blocks "
              f"{heights[0]} to {heights[-1]}, seed {SEED}: nothing lost",
              flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
