#!/usr/bin/env python3
"""Prints the ten slowest tests of the last `make test`, and the ten objects that took longest to compile: costs.py BUILD

Times are wall-clock times and include the effect of other jobs. For an object from a compiler cache, the time is that
of the cache hit.
"""
import pathlib
import re
import sys

MOST = 10


def slowest_tests(log):
    times = re.findall(r"^\d+/\d+ Test: (\S+)$.*?^Test time = +([\d.]+) sec$", log, re.M | re.S)
    return sorted(((float(seconds), name) for name, seconds in times), reverse=True)[:MOST]


def slowest_objects(log):
    last = {}
    for line in log.splitlines():
        if line.startswith("#"):
            continue
        start, end, _, output, _ = line.split("\t")
        if output.endswith((".o", ".gch")):
            last[output] = (int(end) - int(start)) / 1000
    return sorted(((seconds, output) for output, seconds in last.items()), reverse=True)[:MOST]


def main():
    build = pathlib.Path(sys.argv[1])
    for title, log, slowest in (("tests", "Testing/Temporary/FirstTest.log", slowest_tests),
                                ("objects", ".ninja_log", slowest_objects)):
        if (build / log).exists():
            print(f"slowest {title}:")
            for seconds, name in slowest((build / log).read_text(errors="replace")):
                print(f"  {seconds:6.1f} s  {name}")


main()
