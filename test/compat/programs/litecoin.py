#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Controls Debian's litecoind for the tests: offline, on the regression test
network, whose blocks need no work.

litecoind has four databases of LevelDB: the block index, the chain state, the
transaction index and the index of block filters.
"""

import base64
import hashlib
import json
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

from programs import need_program, run

# Blocks that generatetoaddress makes after height 431 would need a transaction
# that moves coins into an extension block.
NO_EXTENSION_BLOCKS = "-vbparams=mweb:9999999990:9999999999"
# The reward of a block may be spent when this many more are on top.
MATURITY = 100


def free_port():
    """Returns a port of this machine that nobody uses now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class RpcError(Exception):
    """litecoind answered with an error."""


class Node:
    """A litecoind process in a directory, on one library."""

    # A flush of the cache is many small batches, so that a kill meets one.
    # litecoind does not sync its settings, and does not start if they are
    # damaged.
    OPTIONS = ["-regtest", "-listen=0", "-dnsseed=0", "-networkactive=0",
               "-disablewallet", "-dbbatchsize=20000", "-persistmempool=0",
               "-nosettings", "-server", "-printtoconsole=0",
               NO_EXTENSION_BLOCKS]
    INDEXES = ["-txindex", "-blockfilterindex"]

    def __init__(self, library, directory, options=None):
        """`options` are the indexes by default."""
        self.program = need_program("litecoind", "litecoind")
        # /usr/bin/litecoind may be a script around the program.
        binary = Path("/usr/lib/litecoin/litecoind")
        if binary.exists():
            self.program = str(binary)
        self.library = library
        self.directory = Path(directory)
        self.directory.mkdir(exist_ok=True)
        self.options = self.INDEXES if options is None else options
        self.process = None
        self.cpu_s = 0.0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process is not None:
            self.kill()

    def start(self, *options):
        """Starts the process. Waits until it answers."""
        self.port = free_port()
        self.process = subprocess.Popen(
            [self.program, *self.OPTIONS, f"-datadir={self.directory}",
             f"-rpcport={self.port}", *self.options, *options],
            env=self.library.environment(HOME=self.directory),
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.wait_until_ready()

    def wait_until_ready(self, timeout_s=300):
        end = time.monotonic() + timeout_s
        while True:
            if self.process.poll() is not None:
                raise AssertionError(
                    f"litecoind ended with {self.process.returncode} on "
                    f"{self.library.name}: "
                    f"{self.process.stderr.read().decode(errors='replace')}"
                    f"\n{self.log()[-3000:]}")
            try:
                self.call("getblockcount")
                return
            except (OSError, RpcError):
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)

    def call(self, method, *parameters):
        return self.call_many([(method, parameters)])[0]

    def call_many(self, calls):
        """Returns the results of several calls, sent in one request."""
        cookie = (self.directory / "regtest" / ".cookie").read_bytes()
        requests = [{"id": number, "method": method,
                     "params": list(parameters)}
                    for number, (method, parameters) in enumerate(calls)]
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/",
            json.dumps(requests).encode(),
            {"Authorization": "Basic " + base64.b64encode(cookie).decode()})
        with urllib.request.urlopen(request, timeout=300) as answer:
            answers = json.load(answer)
        if isinstance(answers, dict):
            raise RpcError(str(answers))
        for one in answers:
            if one["error"] is not None:
                raise RpcError(f"{calls[one['id']]}: {one['error']}"[:1000])
        return [one["result"] for one in answers]

    def stop(self):
        """Stops the process in order. Its processor time is in cpu_s then."""
        self.call("stop")
        self._reap()
        if self.process.returncode != 0:
            raise AssertionError(f"litecoind ended with "
                                 f"{self.process.returncode} on "
                                 f"{self.library.name}:\n{self.log()[-3000:]}")
        self.process = None

    def kill(self):
        self.process.kill()
        self._reap()
        self.process = None

    def _reap(self):
        before = children_cpu_s()
        self.process.wait(timeout=300)
        self.process.stderr.close()
        self.cpu_s = children_cpu_s() - before

    def log(self):
        path = self.directory / "regtest" / "debug.log"
        return path.read_text("utf-8", "replace") if path.exists() else ""

    def databases(self):
        """Returns the directories of the databases."""
        base = self.directory / "regtest"
        return [base / "blocks/index", base / "chainstate",
                base / "indexes/txindex", base / "indexes/blockfilter/basic/db"]

    # ---- The chain ----------------------------------------------------------

    def state(self):
        """Returns (height, hash of all unspent outputs). litecoind writes its
        cache to the chain state before it answers."""
        info = self.call("gettxoutsetinfo")
        return info["height"], info["hash_serialized_2"]

    def wait_for_blocks(self, timeout_s=120):
        """Returns the height when all blocks of the index are connected. A
        process does this in the background after its start."""
        end = time.monotonic() + timeout_s
        while True:
            info = self.call("getblockchaininfo")
            if info["blocks"] == info["headers"]:
                return info["blocks"]
            if time.monotonic() > end:
                raise AssertionError(f"blocks are not connected: {info}")
            time.sleep(0.05)

    def verify(self):
        """Lets litecoind check all blocks against the databases."""
        if self.call("verifychain", 4, 0) is not True:
            raise AssertionError(f"verifychain failed on {self.library.name}:\n"
                                 f"{self.log()[-3000:]}")

    def wait_for_indexes(self, timeout_s=120):
        """Waits until both indexes have the last block."""
        end = time.monotonic() + timeout_s
        while True:
            height = self.call("getblockcount")
            indexes = self.call("getindexinfo")
            if len(indexes) == 2 and all(
                    one["synced"] and one["best_block_height"] == height
                    for one in indexes.values()):
                return
            if time.monotonic() > end:
                raise AssertionError(f"the indexes do not follow: {indexes}")
            time.sleep(0.05)

    def check_indexes(self):
        """Reads a transaction and a filter of each fiftieth block by the
        indexes."""
        height = self.call("getblockcount")
        hashes = self.call_many([("getblockhash", [number]) for number in
                                 range(1, height + 1, 50)])
        blocks = self.call_many([("getblock", [one]) for one in hashes])
        found = self.call_many([("getrawtransaction", [block["tx"][-1], True])
                                for block in blocks])
        filters = self.call_many([("getblockfilter", [one]) for one in hashes])
        for block, transaction, one in zip(blocks, found, filters):
            if transaction["blockhash"] != block["hash"] or not one["filter"]:
                raise AssertionError(f"an index misses block {block['hash']}")


def children_cpu_s():
    import resource
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def script_of(number):
    """Returns a script that anyone may spend, another one for each number."""
    return b"\x04" + number.to_bytes(4, "little") + b"\x75\x51"


def compact(number):
    """Returns a count as the network's messages encode it."""
    return (bytes([number]) if number < 253 else
            b"\xfd" + number.to_bytes(2, "little"))


def transaction(inputs, outputs):
    """Returns (the transaction in hexadecimal, its id). An input is (id,
    number of the output, script), an output (value, script). The scripts are
    committed to by their hashes, so that spending needs no signature."""
    core = compact(len(inputs))
    for txid, index, _ in inputs:
        core += bytes.fromhex(txid)[::-1] + index.to_bytes(4, "little")
        core += b"\x00" + b"\xff" * 4
    core += compact(len(outputs))
    for value, script in outputs:
        core += value.to_bytes(8, "little") + b"\x22\x00\x20"
        core += hashlib.sha256(script).digest()
    witness = b"".join(b"\x01" + compact(len(script)) + script
                       for _, _, script in inputs)
    version, lock_time = b"\x02\0\0\0", b"\0\0\0\0"
    name = hashlib.sha256(hashlib.sha256(
        version + core + lock_time).digest()).digest()
    return ((version + b"\x00\x01" + core + witness + lock_time).hex(),
            name[::-1].hex())


class Miner:
    """Generates blocks with transactions of many inputs and outputs."""

    # After so many blocks a part of a block's outputs is spent.
    SPEND_AFTER = 20

    def __init__(self, node, outputs=300):
        """`outputs`: of each block's transaction, at most 10,000. Must be the
        same for all blocks of a chain."""
        self.node = node
        self.outputs = outputs
        self.script = script_of(0)
        self.address = node.call("decodescript", self.script.hex())[
            "segwit"]["addresses"][0]

    def generate(self, count):
        """Generates blocks. Each has a transaction that splits an old block's
        reward into many parts, and one that spends half the parts of an
        older split. All transactions follow from the chain."""
        node = self.node
        height = node.call("getblockcount")
        plain = min(count, max(0, MATURITY - height))
        if plain > 0:
            node.call("generatetoaddress", plain, self.address)
        while plain < count:
            blocks = min(MATURITY, count - plain)
            node.call_many(self._blocks(height + plain + 1, blocks))
            plain += blocks

    def _blocks(self, first, count):
        """Returns the calls that generate the blocks from height `first`."""
        begin = max(1, first - MATURITY - self.SPEND_AFTER)
        hashes = self.node.call_many(
            [("getblockhash", [one])
             for one in range(begin, first + count - MATURITY)])
        rewards = [block["tx"][0] for block in self.node.call_many(
            [("getblock", [one, 2]) for one in hashes])]
        splits = {begin + number + MATURITY: self._split(reward)
                  for number, reward in enumerate(rewards)}
        calls = []
        for height in range(first, first + count):
            # Without the limit on fees.
            calls.append(("sendrawtransaction", [splits[height][0], 0]))
            older = splits.get(height - self.SPEND_AFTER)
            if older is not None:
                calls.append(("sendrawtransaction", [self._spend(*older), 0]))
            calls.append(("generatetoaddress", [1, self.address]))
        return calls

    def _split(self, reward):
        """Returns (transaction, its id, value of an output)."""
        each = int(round(reward["vout"][0]["value"] * 1e8)) * 98 // 100
        each //= self.outputs
        return *transaction([(reward["txid"], 0, self.script)],
                            [(each, script_of(number))
                             for number in range(1, self.outputs + 1)]), each

    def _spend(self, _, txid, each):
        """Returns a transaction of half the outputs of a split."""
        half = self.outputs // 2
        return transaction([(txid, number, script_of(number + 1))
                            for number in range(half)],
                           [(each * half * 9 // 10, self.script)])[0]


def run_version():
    """Returns the version line of litecoind."""
    return run([need_program("litecoind", "litecoind"),
                "-version"]).splitlines()[0]
