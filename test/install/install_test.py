#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Goal: what `cmake --install` leaves behind can be built with. Method: installs
a built tree into an empty prefix, moves that elsewhere, and there builds and runs
the examples by CMake and by pkg-config, with the static and with the shared
library, with and without RTTI; compares the symbols of the shared library with
what the headers declare. packages_test.py is for the packages.

usage: install_test.py SOURCE_DIR BUILD_DIR WORK_DIR"""

import concurrent.futures
import itertools
import os
import re
import shutil
import subprocess
import sys
import unittest

from installed import (BUILD, CCACHE, FULL_VERSION, SONAME, SOURCE, VERSION,
                       WORK, ExampleCase, build_by_cmake, build_program,
                       needs_libvarve, run)

PREFIX = WORK / "moved"


def pkg_config(*arguments, prefix=PREFIX):
    path = os.pathsep.join(str(p) for p in prefix.rglob("pkgconfig"))
    return run("pkg-config", *arguments,
               env={**os.environ, "PKG_CONFIG_PATH": path}).split()


def library_dir():
    return next(PREFIX.rglob(SONAME)).parent


class Installed(ExampleCase):
    @classmethod
    def setUpClass(cls):
        shutil.rmtree(WORK, ignore_errors=True)
        run("cmake", "--install", BUILD, "--prefix", WORK / "first", "--strip")
        # Nothing in it may know where it was.
        (WORK / "first").rename(PREFIX)

    def test_cmake(self):
        for language, kind, rtti in (
                ("cpp", "static", "-frtti"), ("cpp", "shared", "-fno-rtti"),
                ("c", "static", ""), ("c", "shared", "")):
            name = f"cmake-{language}-{kind}{rtti}"
            with self.subTest(name):
                build = WORK / name
                build_by_cmake(
                    SOURCE / "examples" / language, build, PREFIX, kind,
                    "-DCMAKE_CXX_STANDARD=20",
                    f"-DCMAKE_CXX_FLAGS={rtti} -Wall -Wextra -Werror",
                    "-DCMAKE_C_FLAGS=-Wall -Wextra -Werror")
                self.check_example(build / "layers", kind == "shared",
                                   library_dir())
                if language == "cpp":
                    self.check_example(
                        build / "column_families", kind == "shared",
                        library_dir(), "lake 17: a shell\nlake 19: a leaf\n")

    def test_follow_builds(self):
        """The example of streams, which its own test runs."""
        build = WORK / "cmake-follow"
        build_by_cmake(SOURCE / "examples" / "follow", build, PREFIX, "shared",
                       "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror")
        self.assertTrue(needs_libvarve(build / "follow"))

    def test_other_cmakes(self):
        """Those that VARVE_TEST_CMAKES names, from 3.16 on."""
        for cmake in os.environ.get("VARVE_TEST_CMAKES", "").split():
            version = run(cmake, "--version").split()[2]
            for language, kind in itertools.product(("cpp", "c"),
                                                    ("static", "shared")):
                name = f"cmake-{version}-{language}-{kind}"
                with self.subTest(name):
                    build = WORK / name
                    build_by_cmake(SOURCE / "examples" / language, build,
                                   PREFIX, kind, cmake=cmake)
                    self.check_example(build / "layers", kind == "shared",
                                       library_dir())

    def test_targets_serve_old_cmakes(self):
        """CMake below 3.23 ignores file sets."""
        for kind in ("static", "shared", "testing"):
            text = next(PREFIX.rglob(f"varve-{kind}-targets.cmake")).read_text()
            self.assertNotIn("FILE_SET", text)
            self.assertIn("INTERFACE_INCLUDE_DIRECTORIES "
                          '"${_IMPORT_PREFIX}/include"', text)

    def test_cflags_are_what_programs_need(self):
        for module in ("varve", "varve-static"):
            flags = pkg_config("--cflags", module)
            self.assertEqual([f for f in flags if not f.startswith("-I")], [])

    def test_each_header_compiles_alone(self):
        """As C++17, without a warning. All together also as C++20, and without
        code that runs at the start or end of a program."""
        warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
        gcc = ["g++", *warnings]
        clang = ["clang++-16", *warnings, "-Wglobal-constructors",
                 "-Wexit-time-destructors"]
        include = PREFIX / "include"
        sources = WORK / "headers"
        sources.mkdir()
        headers = sorted(include.rglob("*.h"))
        self.assertGreater(len(headers), 25)
        cases = [(gcc, "c++17", [header]) for header in headers]
        cases.append((gcc, "c++20", headers))
        if shutil.which("clang++-16"):
            cases += [(clang, standard, headers)
                      for standard in ("c++17", "c++20")]

        def compile_headers(numbered):
            number, case = numbered
            compiler, standard, included = case
            source = sources / f"{number}.cc"
            source.write_text(
                "".join(f'#include "{header.relative_to(include)}"\n'
                        for header in included))
            return case, subprocess.run(
                [*CCACHE, *compiler, f"-std={standard}", f"-I{include}", "-c",
                 source, "-o", source.with_suffix(".o")], text=True,
                check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for case, done in pool.map(compile_headers, enumerate(cases)):
                with self.subTest(case):
                    self.assertEqual(done.returncode, 0, done.stdout)

    def test_other_containers_do_not_link(self):
        """Programs for whose containers the library was not compiled."""
        uses = {
            "db": "std::unique_ptr<varve::DB> db;"
                  'varve::DB::Open(varve::Options(), "d", &db).IgnoreError();',
            "env": "std::vector<std::string> names;"
                   'if (!varve::Env::Default()->GetChildren("/", &names).ok())'
                   "  return 1;",
            "batch": 'varve::WriteBatch batch; batch.Put("k", "v");',
            "filter": "varve::NewBloomFilterPolicy(10).reset();",
        }
        macros = (None, "_GLIBCXX_DEBUG", "_GLIBCXX_USE_CXX11_ABI=0")
        for (name, use), macro in itertools.product(uses.items(), macros):
            source = WORK / f"containers-{name}.cc"
            source.write_text('#include "varve/db.h"\n'
                              '#include "varve/filter_policy.h"\n'
                              f"int main() {{ {use} }}\n")
            compiled = source.with_suffix(".o")
            # The linker refuses, not the compiler.
            run(*CCACHE, "g++", "-std=c++17", "-c", source, "-o", compiled,
                *([f"-D{macro}"] if macro else []),
                *pkg_config("--cflags", "varve"))
            for module in ("varve", "varve-static"):
                with self.subTest(module=module, use=name, macro=macro):
                    done = subprocess.run(
                        ["g++", compiled, "-o", source.with_suffix(""),
                         *pkg_config("--libs", module)], text=True,
                        check=False, stdout=subprocess.PIPE,
                        stderr=subprocess.STDOUT)
                    if macro is None:
                        self.assertEqual(done.returncode, 0, done.stdout)
                        continue
                    self.assertNotEqual(done.returncode, 0)
                    self.assertIn("undefined reference", done.stdout)
                    self.assertIn(macro.replace("=", "_"), done.stdout)

    def test_unknown_components_are_named(self):
        for component, said in (
                ("python", "Varve has no component 'python': its components are"
                           " static and shared."),
                ("OPTIONAL_COMPONENTS python", None)):
            source = WORK / "unknown-component"
            shutil.rmtree(source, ignore_errors=True)
            source.mkdir()
            text = (SOURCE / "examples/cpp/CMakeLists.txt").read_text()
            component = (component if "OPTIONAL" in component
                         else f"COMPONENTS {component}")
            (source / "CMakeLists.txt").write_text(
                text.replace("REQUIRED", f"REQUIRED {component}"))
            for name in ("layers.cc", "column_families.cc"):
                shutil.copy(SOURCE / "examples/cpp" / name, source)
            done = subprocess.run(
                ["cmake", "-S", source, "-B", source / "build",
                 f"-DCMAKE_PREFIX_PATH={PREFIX}"], text=True,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            self.assertEqual(done.returncode == 0, said is None, done.stdout)
            self.assertIn(said or "", " ".join(done.stdout.split()))
            self.assertLessEqual(done.stdout.count("CMake Error"), 1)

    def test_varve_testing(self):
        """A program links it beside either library, by either way."""
        for kind in ("static", "shared"):
            environment = {**os.environ, "LD_LIBRARY_PATH": str(library_dir())}
            build = WORK / f"testing-{kind}"
            build_by_cmake(SOURCE / "test/install", build, PREFIX, kind,
                           "-DCMAKE_CXX_STANDARD=20")
            module = "varve" if kind == "shared" else "varve-static"
            build_program(
                ["c++", "-std=c++20"], SOURCE / "test/install/power_loss.cc",
                build / "by_pkg_config",
                pkg_config("--cflags", "--libs", "varve-testing", module))
            for program in ("power_loss", "by_pkg_config"):
                with self.subTest(kind + program):
                    self.assertEqual(needs_libvarve(build / program),
                                     kind == "shared")
                    out = run(build / program, env=environment)
                    self.assertEqual(out, "one key kept, one lost\n")

    def test_libraries_have_neither_tests_nor_baselines_in_them(self):
        tests = "FaultInjectionEnv|CrashModel"
        outside = f"{tests}|HashBlockCache|SkipList|NewExperiment"
        shared = next(PREFIX.rglob(SONAME))
        archive = next(PREFIX.rglob("libvarve.a"))
        # The strings too: the shared library is stripped. What is left to debug
        # the archive has the names of enumerators.
        for names in (run("strings", shared), run("nm", "-DC", shared),
                      run("nm", "-C", "--defined-only", archive)):
            self.assertNotRegex(names, outside)
        self.assertNotRegex(run("strings", archive), f"{tests}|/baseline/")

    def test_cmake_components(self):
        for kind in ("static", "shared"):
            source = WORK / f"component-{kind}"
            source.mkdir()
            text = (SOURCE / "examples/cpp/CMakeLists.txt").read_text()
            text = text.replace("REQUIRED", f"{VERSION} REQUIRED COMPONENTS {kind}")
            (source / "CMakeLists.txt").write_text(text)
            for name in ("layers.cc", "column_families.cc"):
                shutil.copy(SOURCE / "examples/cpp" / name, source)
            build_by_cmake(source, source / "build", PREFIX, None)
            self.check_example(source / "build/layers", kind == "shared",
                               library_dir())

    def test_pkg_config(self):
        for language, kind, rtti in (
                ("cpp", "static", "-fno-rtti"), ("cpp", "shared", "-frtti"),
                ("c", "static", ""), ("c", "shared", "")):
            name = f"pkgconfig-{language}-{kind}{rtti}"
            with self.subTest(name):
                module = "varve" if kind == "shared" else "varve-static"
                compiler, source = (
                    (["c++", "-std=c++20", rtti], "cpp/layers.cc")
                    if language == "cpp" else (["cc"], "c/layers.c"))
                build_program(compiler, SOURCE / "examples" / source,
                              WORK / name,
                              pkg_config("--cflags", "--libs", module))
                self.check_example(WORK / name, kind == "shared", library_dir())

    def test_pkg_config_static_where_there_is_no_shared_library(self):
        prefix = WORK / "static-only"
        shutil.copytree(PREFIX, prefix, symlinks=True)
        for file in prefix.rglob("libvarve.so*"):
            file.unlink()
        run("cc", SOURCE / "examples/c/layers.c", "-o", WORK / "static-only.c",
            *pkg_config("--static", "--cflags", "--libs", "varve",
                        prefix=prefix))
        self.check_example(WORK / "static-only.c", False, prefix)

    def test_nothing_says_where_it_was_built(self):
        for file in PREFIX.rglob("*"):
            if file.suffix in (".cmake", ".pc"):
                text = file.read_text()
                for path in (str(SOURCE), str(BUILD), str(WORK)):
                    self.assertNotIn(path, text, file)

    def test_shared_library_shows_the_interface_and_nothing_else(self):
        def symbols(*arguments, kinds="TVWBDR"):
            lines = [line.split(maxsplit=2)
                     for line in run("nm", *arguments).splitlines()]
            return {line[2].replace(f"@@VARVE_{VERSION}", "") for line in lines
                    if len(line) == 3 and line[1] in kinds}

        library = next(PREFIX.rglob(SONAME))
        shown = symbols("-DC", "--defined-only", library)
        for symbol in shown:
            self.assertRegex(symbol, r"^(varve_|.*\bvarve::)")
        self.assertIn(f"soname: [{SONAME}]", run("readelf", "-d", library))
        # Every function of C.
        header = (SOURCE / "include/varve/c.h").read_text()
        for name in re.findall(r"^VARVE_EXPORT[^;{]*?\b(varve_\w+)\(", header,
                               re.MULTILINE):
            self.assertIn(name, shown)
        # Every member of a public class that is not inline.
        classes = set()
        for path in (SOURCE / "include/varve").glob("*.h"):
            classes.update(re.findall(
                r"^(?:class|struct) (?:\[\[\w+\]\] )?VARVE_EXPORT (\w+)",
                path.read_text(), re.MULTILINE))
        self.assertIn("DB", classes)
        member = re.compile(
            r"^varve::(?:trace::)?(%s)::~?\w+\(" % "|".join(sorted(classes)))
        archive = next(PREFIX.rglob("libvarve.a"))
        members = [symbol for symbol in
                   symbols("-C", "--defined-only", archive, kinds="T")
                   if member.match(symbol)]
        self.assertGreater(len(members), 50)
        self.assertEqual([m for m in members if m not in shown], [])

    def test_all_tell_the_same_version(self):
        self.assertRegex(FULL_VERSION, r"^\d+\.\d+\.\d+$")
        for module in ("varve", "varve-static", "varve-testing"):
            self.assertEqual(pkg_config("--modversion", module), [FULL_VERSION])
        self.assertIn(f'set(PACKAGE_VERSION "{FULL_VERSION}")', next(
            PREFIX.rglob("varve-config-version.cmake")).read_text())
        self.assertEqual(run(PREFIX / "bin/varve", "--version"),
                         f"varve {FULL_VERSION}\n")
        self.assertIn(f"VARVE_{VERSION} {{",
                      (SOURCE / "varve.map").read_text().splitlines())
        heading = re.search(r"^## (\d+\.\d+\.\d+)", (
            SOURCE / "CHANGELOG.md").read_text(), re.MULTILINE)
        self.assertIn("## Unreleased", (SOURCE / "CHANGELOG.md").read_text())
        # The last release is not newer than the version that is being made.
        if heading:
            self.assertLessEqual([int(n) for n in heading[1].split(".")],
                                 [int(n) for n in FULL_VERSION.split(".")])
        # From an installed header and library.
        source = WORK / "version.cc"
        source.write_text("""
#include <cstdio>
#include "varve/c.h"
#include "varve/version.h"
int main() {
  printf("%d.%d.%d %s %s\\n", VARVE_VERSION_MAJOR, VARVE_VERSION_MINOR,
         VARVE_VERSION_PATCH, varve::VersionString(), varve_version());
}
""")
        for module in ("varve", "varve-static"):
            build_program(["c++", "-std=c++20"], source, WORK / module,
                          pkg_config("--cflags", "--libs", module))
            out = run(WORK / module, env={
                **os.environ, "LD_LIBRARY_PATH": str(library_dir())})
            self.assertEqual(out.split(), [FULL_VERSION] * 3)

    def test_every_header_stands_in_the_prefix(self):
        public = SOURCE / "include"
        for path in (public / "varve").rglob("*.h"):
            self.assertTrue((PREFIX / "include" / path.relative_to(public))
                            .exists(), path)

    def test_tools(self):
        self.assertIn("usage", run(PREFIX / "bin/varve", "--help"))
        self.assertIn("fillseq", run(
            PREFIX / "bin/varve-bench", "fillseq", "--num=10",
            f"--db={WORK / 'bench'}"))
        self.assertTrue((PREFIX / "share/man/man1/varve.1").exists())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
