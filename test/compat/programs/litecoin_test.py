#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Goal: Debian's litecoind runs on the drop-in library and loses nothing.
Method: on the regression test network it generates 400 blocks with both
indexes, restarts, verifies the chain, and is killed at random moments while it
generates. A data directory that LevelDB wrote is carried over. The chain state
is rebuilt. The hash of all unspent outputs must be the expected one each time.

Usage: litecoin_test.py DROP_IN_LIBRARY

VARVE_COMPAT_FULL=1 kills 20 times instead of 3, and rebuilds a large chain
state with both libraries in turn, for figures.
"""

import os
import random
import shutil
import statistics
import sys
import threading
import time
from http.client import HTTPException
from pathlib import Path

from litecoin import Miner, Node, RpcError, run_version
from programs import FULL, libraries, print_row, work_directory

BLOCKS = 400
KILLS = 20 if FULL else 3
SEED = int(os.environ.get("TEST_SEED", time.time_ns() % 10**6))


def check_same(what, found, expected):
    if found != expected:
        raise AssertionError(f"{what}: {found} instead of {expected}")


def make_chain(library, directory, blocks, outputs):
    """Generates a chain. Returns its (height, hash of the unspent outputs),
    which the restarted and the rebuilding process must report as well."""
    with Node(library, directory) as node:
        node.start()
        library.check_mapped(node.process.pid)
        Miner(node, outputs).generate(blocks)
        state = node.state()
        check_same("height", state[0], blocks)
        node.wait_for_indexes()
        node.stop()
        generate_cpu_s = node.cpu_s
        node.start()
        check_same("state after a restart", node.state(), state)
        node.verify()
        node.wait_for_indexes()
        node.check_indexes()
        node.stop()
    return state, generate_cpu_s


def rebuild(library, directory, option, state, dbcache_mb=4):
    """Rebuilds databases from the blocks. Returns the CPU seconds."""
    with Node(library, directory) as node:
        node.start(option, f"-dbcache={dbcache_mb}")
        end = time.monotonic() + 1800
        while node.call("getblockcount") < state[0]:
            if time.monotonic() > end:
                raise AssertionError("the blocks are not read again in time")
            time.sleep(0.1)
        if option == "-reindex":
            node.wait_for_indexes()
        check_same(f"state after {option}", node.state(), state)
        node.stop()
        return node.cpu_s


def kill_while_generating(library, directory, number, randomness):
    """Kills a process that generates blocks and writes its caches. The next
    one must have all blocks up to the last write that was acknowledged."""
    flushed = [0]
    killed = threading.Event()
    failures = []

    def generate(node):
        try:
            Miner(node).generate(60)
        except (OSError, ValueError, RpcError, HTTPException) as error:
            if not killed.is_set():
                failures.append(error)

    def flush(node):
        try:
            while not killed.wait(0.05):
                flushed[0] = node.state()[0]
        except (OSError, ValueError, RpcError, HTTPException) as error:
            if not killed.is_set():
                failures.append(error)

    with Node(library, directory) as node:
        node.start()
        begin = node.call("getblockcount")
        threads = [threading.Thread(target=work, args=(node,))
                   for work in (generate, flush)]
        for thread in threads:
            thread.start()
        # The time begins when a new block is written, because a busy machine
        # may take long until then.
        end = time.monotonic() + 60
        while flushed[0] <= begin and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(randomness.uniform(0, 1.5))
        killed.set()
        node.kill()
        for thread in threads:
            thread.join()
    if failures or flushed[0] <= begin:
        raise AssertionError(f"no block was generated: {failures}")
    with Node(library, directory) as node:
        node.start()
        height = node.wait_for_blocks()
        if height < flushed[0]:
            raise AssertionError(
                f"kill {number}: {height} blocks are left of {flushed[0]} that "
                f"were written, on {library.name}, seed {SEED}")
        node.verify()
        node.wait_for_indexes()
        node.check_indexes()
        node.stop()
    return height


def kill_many(library, directory, state):
    """Kills KILLS times. The state after all must be the one that the blocks
    give."""
    randomness = random.Random(SEED)
    for number in range(KILLS):
        height = kill_while_generating(library, directory, number, randomness)
    with Node(library, directory) as node:
        node.start()
        found = node.state()
        node.stop()
    rebuild(library, directory, "-reindex-chainstate", found)
    print(f"  {library.name}: {KILLS} kills while it generated blocks "
          f"{state[0]} to {found[0]}, seed {SEED}: nothing lost", flush=True)


def carry_over(library, source, directory, state):
    """Uses a directory of LevelDB's with another library."""
    shutil.copytree(source, directory)
    with Node(library, directory) as node:
        node.start()
        check_same("state of a directory of LevelDB's", node.state(), state)
        node.verify()
        node.wait_for_indexes()
        node.check_indexes()
        Miner(node).generate(5)
        more = node.state()
        check_same("height", more[0], state[0] + 5)
        node.stop()
        node.start()
        check_same("state after a restart", node.state(), more)
        node.stop()


def compare_rebuilds(found, directory):
    """Prints the CPU seconds of rebuilding, in turn with each library."""
    outputs, rounds = (2000, 3) if FULL else (300, 1)
    source = directory / "LevelDB"
    state = None
    if FULL:
        source = directory / "large"
        state, _ = make_chain(found[0], source, BLOCKS, outputs)
    else:
        with Node(found[0], source) as node:
            node.start()
            state = node.state()
            node.stop()
    for option in ("-reindex", "-reindex-chainstate"):
        seconds = {library.name: [] for library in found}
        for _ in range(rounds):
            for library in found:
                place = directory / "rebuilt"
                shutil.copytree(source, place)
                seconds[library.name].append(
                    rebuild(library, place, option, state))
                shutil.rmtree(place)
        print_row(f"litecoind {option}, {state[0]} blocks of {outputs} "
                  "outputs: CPU seconds",
                  [(name, f"{statistics.median(values):.2f}")
                   for name, values in seconds.items()])


def main():
    print(run_version())
    with work_directory("litecoin") as directory:
        directory = Path(directory)
        found = libraries()
        states, rows = {}, []
        for library in found:
            states[library.name], seconds = make_chain(
                library, directory / library.name, BLOCKS, 300)
            rows.append((library.name, f"{seconds:.2f}"))
        print_row(f"litecoind, {BLOCKS} blocks generated: CPU seconds", rows)
        for library in found[1:]:
            carry_over(library, directory / "LevelDB", directory / "carried",
                       states["LevelDB"])
        compare_rebuilds(found, directory)
        # Killing LevelDB as well shows that the test itself is sound.
        for library in found if FULL else found[-1:]:
            kill_many(library, directory / library.name, states[library.name])
    return 0


if __name__ == "__main__":
    sys.exit(main())
