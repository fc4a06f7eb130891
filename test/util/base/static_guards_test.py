#!/usr/bin/env python3
# Varve: a key-value storage engine. MIT licence, see LICENSE.
"""Checks that no function of a library guards a static variable by a lock.

Goal: a child created by fork() waits for no thread of its parent that was about
to create such a variable; see util/base/process_wide.h. Method: nm says whether
the library calls the compiler's guards.

Usage: static_guards_test.py LIBRARY...
"""

import subprocess
import sys


def main():
    failed = False
    for library in sys.argv[1:]:
        symbols = subprocess.run(["nm", "-D", "--undefined-only", library],
                                 check=True, capture_output=True,
                                 text=True).stdout
        if "malloc" not in symbols and "_Znwm" not in symbols:
            print(f"{library}: nm lists no symbols of the C++ library")
            failed = True
        if "__cxa_guard_acquire" in symbols:
            print(f"{library}: a function has a guarded static variable")
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
