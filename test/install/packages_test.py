#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Goal: `cpack` makes packages that Debian would take. Method: makes them of a
built tree; lintian finds nothing in them; looks at their fields and files, and
builds the C example and a program of LevelDB against their contents alone.
packaging/test_packages installs them in whole systems.

usage: packages_test.py SOURCE_DIR BUILD_DIR WORK_DIR"""

import os
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

from installed import (BUILD, SONAME, SOURCE, VERSION, WORK, ExampleCase,
                       build_by_cmake, run)

PACKAGES = WORK / "packages"
LIBRARY = f"libvarve{VERSION}"
ENGINES = ("rocksdb", "leveldb", "lmdb")
# Which packages have programs or shared libraries, and so debugging information.
WITH_DEBUG = {LIBRARY, "varve", "varve-bench", "varve-leveldb",
              "varve-rocksdb"}


def root(package):
    """The directory with the package's files."""
    directory = WORK / "roots" / package
    if not directory.exists():
        directory.parent.mkdir(exist_ok=True)
        run("dpkg-deb", "--raw-extract", archive(package), directory)
    return directory


def archive(package):
    return next(PACKAGES.glob(f"{package}_*.deb"))


def fields(package):
    text = run("dpkg-deb", "--field", archive(package))
    return dict(re.findall(r"^([\w-]+): (.*(?:\n .*)*)", text, re.MULTILINE))


def names(depends):
    return {part.split()[0] for part in depends.split(",")}


class Packages(ExampleCase):
    @classmethod
    def setUpClass(cls):
        shutil.rmtree(WORK, ignore_errors=True)
        # Strong compression would take most of the test's time.
        run("cpack", "--config", BUILD / "CPackConfig.cmake", "-B", PACKAGES,
            env={**os.environ, "VARVE_DPKG_DEB_OPTIONS": "-Zgzip -z1"})
        multiarch = run("dpkg-architecture", "-qDEB_HOST_MULTIARCH").strip()
        cls.libdir = Path("usr/lib") / multiarch

    def test_names(self):
        self.assertEqual(
            {path.name.partition("_")[0] for path in PACKAGES.glob("*.deb")},
            WITH_DEBUG | {"libvarve-dev"} |
            {f"{name}-dbgsym" for name in WITH_DEBUG})

    def test_lintian_finds_nothing(self):
        # What is found fails the comparison, which shows it.
        found = run("lintian", "--allow-root", "--fail-on", "none",
                    *sorted(PACKAGES.glob("*.deb")))
        self.assertEqual(found, "")

    def test_fields(self):
        version = fields(LIBRARY)["Version"]
        self.assertRegex(version, rf"^{VERSION}\.\d+(~[\d.]+)?-[\w.]+$")
        maintainers = set()
        for package in WITH_DEBUG | {"libvarve-dev"}:
            found = fields(package)
            self.assertEqual(found["Version"], version)
            self.assertEqual(found["Priority"], "optional")
            self.assertGreater(len(found["Description"].splitlines()), 3)
            maintainers.add(found["Maintainer"])
        self.assertEqual(len(maintainers), 1)
        self.assertNotIn("localhost", maintainers.pop())
        self.assertEqual(fields(LIBRARY)["Section"], "libs")
        self.assertEqual(fields(LIBRARY)["Multi-Arch"], "same")
        self.assertEqual(fields("libvarve-dev")["Section"], "libdevel")
        self.assertEqual(fields("varve")["Section"], "database")

    def test_dependencies(self):
        development = fields("libvarve-dev")["Depends"]
        self.assertIn(f"{LIBRARY} (= {fields(LIBRARY)['Version']})", development)
        # A package for each library that linking the static library takes.
        libs = re.search(r"(?m)^Libs: (.*)$", next(
            root("libvarve-dev").rglob("varve-static.pc")).read_text())[1]
        for library in re.findall(r"-l(\S+)", libs):
            if library not in ("stdc++", "m"):
                file = f"/{self.libdir}/lib{library}.so"
                owner = run("dpkg", "-S", file).split(":")[0]
                self.assertIn(owner, names(development))
        tool = names(fields("varve")["Depends"])
        self.assertFalse([name for name in tool if re.match(
            r"lib(rocksdb|leveldb|lmdb|gflags)", name)], tool)
        bench = names(fields("varve-bench")["Depends"])
        for engine in ENGINES:
            self.assertTrue([name for name in bench
                             if name.startswith(f"lib{engine}")], engine)

    def test_control_files_of_the_library(self):
        control = root(LIBRARY) / "DEBIAN"
        self.assertIn("activate-noawait ldconfig",
                      (control / "triggers").read_text())
        self.assertRegex((control / "shlibs").read_text(),
                         rf"(?m)^libvarve {VERSION} {LIBRARY}\b")
        symbols = (control / "symbols").read_text()
        self.assertIn(f"{SONAME} {LIBRARY}", symbols)
        self.assertIn(f" varve_open@VARVE_{VERSION} ", symbols)
        self.assertFalse((control / "postinst").exists())
        # Their folders are not the dynamic linker's.
        for package in ("varve-leveldb", "varve-rocksdb"):
            self.assertFalse((root(package) / "DEBIAN/shlibs").exists())

    def test_each_has_its_documents(self):
        for package in WITH_DEBUG | {"libvarve-dev"}:
            documents = root(package) / "usr/share/doc" / package
            self.assertIn("License: Expat",
                          (documents / "copyright").read_text())
            log = run("zcat", documents / "changelog.Debian.gz")
            self.assertTrue(log.startswith(
                f"varve ({fields(package)['Version']}) "), log)
            self.assertIn("# Changes", run("zcat", documents / "changelog.gz"))
            for program in root(package).glob("usr/bin/*"):
                self.assertTrue((root(package) / "usr/share/man/man1" /
                                 f"{program.name}.1.gz").exists(), program)

    def test_debugging_information_is_apart(self):
        library = root(LIBRARY) / self.libdir / SONAME
        programs = {
            LIBRARY: library, "varve": root("varve") / "usr/bin/varve",
            "varve-bench": root("varve-bench") / "usr/bin/varve-bench",
            "varve-leveldb": root("varve-leveldb") / self.libdir /
                             "varve-leveldb/libleveldb.so.1d",
            "varve-rocksdb": root("varve-rocksdb") / self.libdir /
                             "varve-rocksdb/librocksdb.so"}
        for package, program in programs.items():
            self.assertLess(program.stat().st_size, 8 << 20, package)
            build_id = re.search(r"Build ID: (\w\w)(\w+)",
                                 run("readelf", "-n", program))
            self.assertTrue(
                (root(f"{package}-dbgsym") / "usr/lib/debug/.build-id" /
                 build_id[1] / f"{build_id[2]}.debug").exists(), package)
        static = root("libvarve-dev") / self.libdir / "libvarve.a"
        self.assertLess(static.stat().st_size, 16 << 20)
        self.assertNotIn(".debug_info", run("readelf", "-SW", static))

    def prefix(self):
        """The files of the library's two packages together."""
        directory = WORK / "prefix"
        if not directory.exists():
            for package in (LIBRARY, "libvarve-dev"):
                run("dpkg-deb", "--extract", archive(package), directory)
        return directory

    def test_examples_build_with_pkg_config(self):
        path = self.prefix() / self.libdir / "pkgconfig"
        source = self.prefix() / "usr/share/doc/libvarve-dev/examples/c/layers.c"
        for kind, module in (("shared", "varve"), ("static", "varve-static")):
            flags = run("pkg-config", "--cflags", "--libs", module,
                        env={**os.environ, "PKG_CONFIG_PATH": str(path)})
            run("cc", source, "-o", WORK / kind, *flags.split())
            self.check_example(WORK / kind, kind == "shared",
                               self.prefix() / self.libdir)

    def test_examples_build_with_cmake(self):
        source = self.prefix() / "usr/share/doc/libvarve-dev/examples/c"
        for kind in ("static", "shared"):
            build = WORK / f"cmake-{kind}"
            build_by_cmake(source, build, self.prefix() / "usr", kind)
            self.check_example(build / "layers", kind == "shared",
                               self.prefix() / self.libdir)

    def test_leveldb(self):
        """A program for LevelDB runs on the library of the package."""
        directory = root("varve-leveldb") / self.libdir / "varve-leveldb"
        self.assertTrue((directory / "libleveldb.so.1").is_symlink())
        source = WORK / "leveldb.c"
        source.write_text("""#include <leveldb/c.h>
            int main(int argc, char** argv) {
              char* error = 0;
              leveldb_options_t* options = leveldb_options_create();
              leveldb_options_set_create_if_missing(options, 1);
              leveldb_t* db = leveldb_open(options, argv[argc - 1], &error);
              return db == 0 || leveldb_property_value(db, "varve.stats") == 0;
            }""")
        program = WORK / "leveldb"
        run("cc", source, "-o", program, "-lleveldb")
        launcher = root("varve-leveldb") / "usr/bin/varve-leveldb"
        self.assertIn(str(directory), run(launcher, "--check", program))
        run(launcher, program, WORK / "leveldb-db")

    def test_rocksdb(self):
        """A program is compiled and runs with the package alone."""
        directory = root("varve-rocksdb") / self.libdir / "varve-rocksdb"
        source = WORK / "rocksdb.c"
        source.write_text("""#include <rocksdb/c.h>
            int main(int argc, char** argv) {
              char* error = 0;
              rocksdb_options_t* options = rocksdb_options_create();
              rocksdb_options_set_create_if_missing(options, 1);
              rocksdb_t* db = rocksdb_open(options, argv[argc - 1], &error);
              return db == 0 || rocksdb_property_value(db, "varve.stats") == 0;
            }""")
        program = WORK / "rocksdb"
        run("cc", source, "-o", program, f"-I{directory / 'include'}",
            f"-L{directory}", "-lrocksdb")
        launcher = root("varve-rocksdb") / "usr/bin/varve-rocksdb"
        self.assertIn(str(directory), run(launcher, "--check", program))
        run(launcher, program, WORK / "rocksdb-db")

    def test_varve_bench(self):
        program = root("varve-bench") / "usr/bin/varve-bench"
        version = run(program, "--version")
        for engine in ENGINES:
            self.assertIn(f"engine {engine} ", version)
        # Its man page names every benchmark and every flag.
        page = (SOURCE / "packaging/varve-bench.1").read_text()
        usage = run(f"{program} --help || true", shell=True)
        benchmarks = re.findall(r"^  ([\w-]+) +\S", usage, re.MULTILINE)
        flags = re.findall(r"^    -(\w+) \(", usage, re.MULTILINE)
        self.assertIn("fillseq", benchmarks)
        self.assertIn("ablate", flags)
        for benchmark in benchmarks:
            if benchmark not in ("db_bench", "Flags"):
                self.assertIn(f"\n.B {benchmark}\n", page)
        for flag in flags:
            self.assertRegex(page, rf"(?m)^\.BI? \\-\\-{flag}(= \w+)?$")

    def test_varve_lab(self):
        """It runs where it is installed, with the programs beside it."""
        launcher = root("varve-bench") / "usr/bin/varve-lab"
        out = run(launcher, "superversion", "--quick", f"--out={WORK / 'lab'}")
        self.assertIn("reads by 2 threads", out)
        self.assertTrue((WORK / "lab/report.html").exists())
        self.assertFalse(list(root("varve-bench").rglob("__pycache__")))
        # Each name that it knows is a lab, and is in its man page.
        known = re.search(r'(?m)^labs="(.*)"$', launcher.read_text())[1].split()
        page = (SOURCE / "packaging/varve-lab.1").read_text()
        all_labs = (SOURCE / "tools/lab").read_text()
        for name in known:
            self.assertIn(f"\n.B {name}\n", page)
            self.assertIn(f'"{name}": ', all_labs)
        refused = subprocess.run([launcher, "tracing"], text=True, check=False,
                                 stderr=subprocess.PIPE)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("usage", refused.stderr)

    def test_a_tree_without_an_engine_makes_no_packages(self):
        tree = WORK / "no-lmdb"
        run("cmake", "-S", SOURCE, "-B", tree, "-DVARVE_BUILD_TESTS=OFF",
            "-DVARVE_BENCH_ENGINES=rocksdb;leveldb")
        done = subprocess.run(["cpack"], cwd=tree, text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("varve-bench promises to compare with lmdb", done.stdout)
        self.assertEqual(list(tree.glob("*.deb")), [])

    def test_the_source_package_needs_what_the_packages_promise(self):
        control = (BUILD / "packaging/debian/control").read_text()
        depends = names(re.search(r"^Build-Depends: ((?:.*\n )*.*)$", control,
                                  re.MULTILINE)[1])
        self.assertLess({"libxxhash-dev", "zlib1g-dev", "librocksdb-dev",
                         "libleveldb-dev", "liblmdb-dev"}, depends)
        self.assertIn("benchmark of Varve, RocksDB, LevelDB and LMDB\n", control)
        rules = (BUILD / "packaging/debian/rules").read_text()
        self.assertEqual(len(re.findall(r"-DVARVE_WITH_\w+=ON", rules)), 8)
        self.assertNotIn("XXHASH", rules)
        tree = WORK / "one-engine"
        run("cmake", "-S", SOURCE, "-B", tree, "-DVARVE_BUILD_TESTS=OFF",
            "-DVARVE_BENCH_ENGINES=lmdb", "-DVARVE_PACKAGE_BENCH_ENGINES=lmdb")
        control = (tree / "packaging/debian/control").read_text()
        self.assertNotRegex(control, "librocksdb-dev|libleveldb-dev")
        self.assertIn("benchmark of Varve and LMDB\n", control)
        self.assertIn("refusal=\n",
                      (tree / "packaging/settings").read_text())

    def test_a_refusal_names_the_cause(self):
        for option, said in (
                ("-DVARVE_WITH_SNAPPY=OFF", "built without SNAPPY."),
                ("-DVARVE_SANITIZE=address", "built with sanitizers"),
                ("-DVARVE_BUILD_SHARED=OFF", "configure with VARVE_BUILD_SHARED")):
            with self.subTest(option):
                tree = WORK / f"refused{option}"
                run("cmake", "-S", SOURCE, "-B", tree, "-DVARVE_BUILD_TESTS=OFF",
                    option)
                self.assertIn(said, (tree / "packaging/settings").read_text())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
