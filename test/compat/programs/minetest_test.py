#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Goal: Minetest's server keeps its worlds on the drop-in library. Method:
Debian's server generates an area of a world and changes it at random places. A
second process reads the area back. Both print a checksum of the nodes, which
must be equal on both libraries. A world that LevelDB wrote is then used with
the drop-in library.

Usage: minetest_test.py DROP_IN_LIBRARY
"""

import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

from programs import Cost, libraries, not_run, print_row, work_directory

SERVER = Path("/usr/lib/minetest/minetestserver")
WORLD = """\
gameid = devtest
backend = leveldb
player_backend = leveldb
auth_backend = leveldb
mod_storage_backend = files
load_mod_area = true
"""
SETTINGS = """\
fixed_map_seed = 42
mg_name = flat
mg_flags = nocaves,nodungeons,nodecorations,noores
server_map_save_interval = 0.2
num_emerge_threads = 1
server_announce = false
"""
# Emerges an area, which loads or generates it; changes it in the first run;
# reports what is there.
MOD = """\
local low, high = {x = -48, y = -32, z = -48}, {x = 47, y = 31, z = 47}
local first = minetest.settings:get_bool("area_first")
local function report()
  local manip = VoxelManip(low, high)
  local min, max = manip:read_from_map(low, high)
  local names = {}
  for index, id in ipairs(manip:get_data()) do
    names[index] = minetest.get_name_from_content_id(id)
  end
  minetest.log("action", "area " .. minetest.sha1(table.concat(names, ",")))
  minetest.request_shutdown("done")
end
local function change()
  local random = PcgRandom(7)
  for i = 1, 5000 do
    minetest.set_node({x = random:next(low.x, high.x),
      y = random:next(low.y, high.y), z = random:next(low.z, high.z)},
      {name = i % 2 == 0 and "basenodes:stone" or "basenodes:snowblock"})
  end
end
minetest.after(0, function()
  minetest.emerge_area(low, high, function(_, _, left)
    if left > 0 then return end
    if first then change() end
    minetest.after(0.5, report)
  end)
end)
"""


def free_port():
    """Returns a port that nobody uses now."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def make_world(place):
    mod = place / "worldmods" / "area"
    mod.mkdir(parents=True)
    (place / "world.mt").write_text(WORLD, "utf-8")
    (mod / "mod.conf").write_text("name = area\n", "utf-8")
    (mod / "init.lua").write_text(MOD, "utf-8")


def serve(library, world, first):
    """Runs the server once. Returns the checksum that the mod reports."""
    settings = world.with_suffix(".conf")
    settings.write_text(
        SETTINGS + f"area_first = {'true' if first else 'false'}\n"
        f"port = {free_port()}\nbind_address = 127.0.0.1\n", "utf-8")
    log = world.with_suffix(".log")
    log.unlink(missing_ok=True)
    with subprocess.Popen(
            [SERVER, "--config", settings, "--world", world, "--gameid",
             "devtest", "--logfile", log], stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=library.environment(HOME=world.parent)) as process:
        try:
            library.check_mapped(process.pid)
            process.wait(timeout=100)
        except BaseException:
            process.kill()  # Otherwise the `with` waits for its end.
            raise
    text = log.read_text("utf-8", errors="replace") if log.exists() else ""
    found = re.search(r"area ([0-9a-f]{40})", text)
    if process.returncode != 0 or found is None or "ERROR" in text:
        raise AssertionError(f"the server ended with {process.returncode} on "
                             f"{library.name}:\n{text[-4000:]}")
    return found.group(1)


def run_on(library, directory):
    """Returns (checksum, cost) of a new world."""
    library.check_linked(SERVER)
    world = directory / library.name
    make_world(world)
    with Cost() as cost:
        sums = [serve(library, world, first=True),
                serve(library, world, first=False)]
    if sums[0] != sums[1]:
        raise AssertionError(f"{library.name} read another area than was "
                             "written")
    print(f"  {library.name}: checksum of the area: {sums[0]}")
    return sums[0], cost


def main():
    if not SERVER.exists():
        not_run(f"{SERVER} is missing (Debian package minetest-server)")
    with work_directory("minetest") as directory:
        directory = Path(directory)
        found = libraries()
        results = [run_on(library, directory) for library in found]
        if len({checksum for checksum, _ in results}) != 1:
            raise AssertionError("the libraries' areas differ")
        for library in found[1:]:
            carried = directory / "carried"
            shutil.copytree(directory / "LevelDB", carried)
            if serve(library, carried, first=False) != results[0][0]:
                raise AssertionError("the world was not carried over")
    print_row("minetestserver, two runs: CPU seconds",
              [(library.name, f"{cost.cpu_s:.2f}")
               for library, (_, cost) in zip(found, results)])
    return 0


if __name__ == "__main__":
    sys.exit(main())
