#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Goal: Rime, the input method engine, keeps its user dictionaries on the
drop-in library. Method: Debian's rime_dict_manager imports, exports, backs up
and restores a dictionary on both libraries. All texts must be equal. A
dictionary that LevelDB wrote is then used with the drop-in library.

Usage: rime_test.py DROP_IN_LIBRARY
"""

import shutil
import sys
from pathlib import Path

from programs import (Cost, libraries, need_program, print_row, run,
                      work_directory)

WORDS = 20000


def import_text(first):
    """Returns an import of WORDS words."""
    return "#@/db_name\tmine\n#@/db_type\tuserdb\n" + "".join(
        f"字{i}\tzi {i % 1000} {i}\t{i % 7 + 1}\n"
        for i in range(first, first + WORDS))


def entries(path):
    """Returns the sorted entries of an export or a backup, without the
    comments, of which one has a time."""
    lines = path.read_text("utf-8").splitlines()
    return sorted(line for line in lines if not line.startswith("#"))


class Rime:
    """A directory of Rime's, used with one library."""

    def __init__(self, program, library, place):
        self.program, self.library, self.place = program, library, place
        place.mkdir(exist_ok=True)
        (place / "installation.yaml").write_text(
            "distribution_code_name: test\ninstallation_id: here\n", "utf-8")

    def __call__(self, *arguments):
        return run([self.program, *arguments], cwd=self.place,
                   env=self.library.environment())

    def export(self, name):
        self("-e", "mine", name)
        return entries(self.place / name)


def run_on(program, library, directory):
    """Returns (exported entries, backed up entries, cost)."""
    library.check_linked(program)
    rime = Rime(program, library, directory / library.name)
    with Cost() as cost:
        for part in range(2):
            (rime.place / "in.txt").write_text(
                import_text(part * WORDS // 2), "utf-8")
            rime("-i", "mine", "in.txt")
        exported = rime.export("out.txt")
        rime("-b", "mine")
        backup = next((rime.place / "sync").rglob("mine.userdb.txt"))
        backed_up = entries(backup)
        if "mine" not in rime("-l"):
            raise AssertionError("the dictionary is not listed")
        # A restore adds the words to a dictionary that is empty again.
        shutil.move(rime.place / "mine.userdb", rime.place / "first")
        rime("-r", backup)
        if rime.export("restored.txt") != exported:
            raise AssertionError("the restored dictionary has other words")
        shutil.rmtree(rime.place / "mine.userdb")
        shutil.move(rime.place / "first", rime.place / "mine.userdb")
    return exported, backed_up, cost


def check_carried_over(program, library, reference, directory):
    """Uses a dictionary of LevelDB's with another library."""
    place = directory / "carried"
    shutil.copytree(directory / "LevelDB", place)
    rime = Rime(program, library, place)
    if rime.export("carried.txt") != reference:
        raise AssertionError("the dictionary was not carried over")
    (place / "in.txt").write_text(import_text(10 * WORDS), "utf-8")
    rime("-i", "mine", "in.txt")
    if len(rime.export("more.txt")) != len(reference) + WORDS:
        raise AssertionError("words are missing after a second import")


def main():
    program = need_program("rime_dict_manager", "librime-bin")
    with work_directory("rime") as directory:
        directory = Path(directory)
        found = libraries()
        results = [run_on(program, library, directory) for library in found]
        for exported, backed_up, _ in results:
            if len(exported) != WORDS * 3 // 2:
                raise AssertionError(f"{len(exported)} words were exported")
            if (exported, backed_up) != results[0][:2]:
                raise AssertionError("the libraries' words differ")
        for library in found[1:]:
            check_carried_over(program, library, results[0][0], directory)
    print_row(f"rime_dict_manager, {WORDS * 3 // 2} words: CPU seconds",
              [(library.name, f"{cost.cpu_s:.2f}")
               for library, (_, _, cost) in zip(found, results)])
    return 0


if __name__ == "__main__":
    sys.exit(main())
