#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Runs the tests that are tagged `variants` in one of several drawn variants of
the engine and of the system below it, and verifies by what the program reports
that the variants were used.

Each run has a variant of the system: a kernel that refuses io_uring or
membarrier, one that serves rings badly, a C library without restartable
sequences, or the usual one. It also has an ablation of each kind or none
(experimental/ablation.h). All runs together have each variant and each
ablation at least once. The draw depends on the seed alone: $VARVE_VARIANTS_SEED,
or by default the commit.

Usage: run_variants.py --run=N PROGRAM WITHOUT
WITHOUT is the program `without` (test/testing/env/without.cc).
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

# The production value of each is not named.
ABLATIONS = {
    "superversion": ["mutex"],
    "block_index": ["binary_search"],
    "block_cache": ["hash"],
    "memtable": ["skiplist"],
    "table_open": ["uncached"],
    "statistics": ["global", "thread"],
    "trace_clock": ["steady", "coarse"],
    "trace_collect": ["mutex", "channel"],
    "snapshots": ["mutex"],
    "arena": ["fresh"],
    "memory_accounting": ["atomic"],
    "key_case": ["unicode"],
    "catalog": ["folding"],
    "waste": ["ignored", "always"],
}

# Arguments of `without`, environment, and the line that the report must have.
SYSTEMS = [
    ([], {}, "io_uring=used"),
    (["io_uring", "EPERM"], {}, "io_uring=refused"),
    (["io_uring", "ENOSYS"], {}, "io_uring=refused"),
    (["membarrier", "ENOSYS"], {}, "membarrier=refused"),
    ([], {"VARVE_TEST_RING_FAULTS": "1"}, "ring_faults=on"),
    ([], {"GLIBC_TUNABLES": "glibc.pthread.rseq=0"}, "per_cpu=atomic"),
]
RUNS = len(SYSTEMS)


def seed_of_commit():
    """A number that each commit changes; 1 where there is no repository."""
    done = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True,
                          text=True, check=False, cwd=Path(__file__).parent)
    return int(done.stdout[:8], 16) if done.returncode == 0 else 1


def draw(seed):
    """The ablations of each run: a list of RUNS dictionaries."""
    rng = random.Random(seed)
    runs = [{} for _ in range(RUNS)]
    for name, values in ABLATIONS.items():
        # Each value at least once, and the production value at least once.
        drawn = values + [None]
        drawn += rng.choices(values + [None], k=RUNS - len(drawn))
        rng.shuffle(drawn)
        for run, value in zip(runs, drawn):
            if value is not None:
                run[name] = value
    return runs


def read_counts(path):
    """The report: a dictionary of NAME=VALUE to a count."""
    counts = {}
    for line in path.read_text().splitlines():
        name, count = line.rsplit(" ", 1)
        counts[name] = int(count)
    return counts


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--run", type=int, required=True, metavar="N",
                        help=f"1 to {RUNS}")
    parser.add_argument("program")
    parser.add_argument("without")
    args = parser.parse_args()
    if not 1 <= args.run <= RUNS:
        parser.error(f"--run is 1 to {RUNS}")
    seed = int(os.environ.get("VARVE_VARIANTS_SEED") or seed_of_commit())
    ablations = draw(seed)[args.run - 1]
    refused, environment, system = SYSTEMS[args.run - 1]
    text = ",".join(f"{name}={value}" for name, value in ablations.items())
    print(f"VARVE_VARIANTS_SEED={seed}\n{system}, {text or 'no ablation'}",
          flush=True)
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory) / "report"
        environment = {"VARVE_MODEL_SEEDS": "4", **os.environ, **environment,
                       "VARVE_TEST_ABLATION": text,
                       "VARVE_TEST_REPORT": str(report)}
        command = [args.program, "--gtest_brief=1"]
        if refused:
            command = [args.without, *refused, *command]
        status = subprocess.run(command, env=environment, check=False).returncode
        if status != 0:
            sys.exit(f"{args.program}: exit status {status}")
        counts = read_counts(report)
    wanted = [system, *(f"{name}={value}" for name, value in ablations.items())]
    unused = [name for name in wanted if counts.get(name, 0) == 0]
    if unused:
        sys.exit(f"not used in this run: {', '.join(unused)}; of {counts}")


if __name__ == "__main__":
    main()
