#!/usr/bin/env python3
"""Reports which tests a ctest run skipped and which failed: test_summary.py LOG [LOG OF THE FAILED TESTS' SECOND RUN]

`test_summary.py --self-test` checks this script.

Each skipped test is listed with its reason: GoogleTest prints "file:line: Skipped", the reason, and
"[  SKIPPED ] Suite.Name"; tests of other kinds print a line "SKIPPED name: reason".

Each failed test is listed with the relevant part of its output, so that it appears at the end of a run: the GoogleTest
cases that failed, or else the last lines.
"""
import re
import sys

MOST_LINES = 60  # of a failed test


def skipped(lines):
    reason, found_in = "", {}
    for i, line in enumerate(lines):
        if re.search(r": Skipped$", line) and i + 1 < len(lines):
            reason = lines[i + 1].strip()
        elif found := re.match(r"\[  SKIPPED \] ([\w/]+\.[\w/]+) \(", line):
            found_in[found[1]], reason = reason, ""
        elif found := re.match(r"SKIPPED ([^:]+): (.*)", line):
            found_in[found[1]] = found[2]
    return found_in


def telling(output):
    """The failed cases of a GoogleTest's output; without any, its end."""
    cases, case = [], None
    for line in output:
        if line.startswith("[ RUN      ]"):
            case = [line]
        elif case is not None:
            case.append(line)
            if line.startswith("[  FAILED  ]"):
                cases += case
            if re.match(r"\[(       OK|  FAILED  |  SKIPPED ) ?\]", line):
                case = None
    if case is not None:  # it ended amid a case
        cases += case
    if not cases:
        return output[-MOST_LINES:]
    if len(cases) > MOST_LINES:
        cases[MOST_LINES // 2:-MOST_LINES // 2] = ["..."]
    return cases


def failed(lines):
    """(name, explaining lines) of each failed test. Only ctest's own lines say how it ended."""
    name, output, inside, result = "", [], False, []
    for line in lines:
        if found := re.match(r"\d+/\d+ Testing: (.*)", line):
            name, output = found[1], []
        elif line == "Output:":
            inside = True
        elif line == "<end of output>":
            inside = False
        elif inside:
            output.append(line)
        elif line == "Test Failed.":
            result.append((name, telling(output[1:])))
    return result


def summary(lines, second_run=None):
    """`second_run`: the lines of the rerun of only the failed tests, if there was one."""
    found_in = skipped(lines)
    out = [f"skipped tests: {len(found_in)}"]
    out += [f"  {name}: {why or 'no reason given'}" for name, why in sorted(found_in.items())]
    failed_again = None if second_run is None else {name for name, _ in failed(second_run)}
    for name, told in failed(lines):
        end = "" if failed_again is None else ", again when alone" if name in failed_again else "; PASSED WHEN ALONE"
        out += [f"failed: {name}{end}"] + [f"  {line}" for line in told]
    return out


def self_test():
    log = """1/4 Testing: good
Output:
----------------------------------------------------------
[ RUN      ] A.Passes
[       OK ] A.Passes (0 ms)
[ RUN      ] A.Waits
a.cc:1: Skipped
no card
[  SKIPPED ] A.Waits (0 ms)
<end of output>
Test time =   0.26 sec
----------------------------------------------------------
Test Passed.
2/4 Testing: bad
Output:
----------------------------------------------------------
[ RUN      ] B.Passes
noise
[       OK ] B.Passes (0 ms)
[ RUN      ] B.Fails
b.cc:2: Failure
[  FAILED  ] B.Fails (0 ms)
[ RUN      ] B.PassesToo
[       OK ] B.PassesToo (0 ms)
[  FAILED  ] B.Fails
<end of output>
Test Failed.
3/4 Testing: dead
Output:
----------------------------------------------------------
[ RUN      ] C.Passes
[       OK ] C.Passes (0 ms)
[ RUN      ] C.Dies
terminate called
<end of output>
Test Failed.
4/4 Testing: script
Output:
----------------------------------------------------------
SKIPPED script: no server
line 1
<end of output>
Test Failed.
""".splitlines()
    expected = """skipped tests: 2
  A.Waits: no card
  script: no server
failed: bad
  [ RUN      ] B.Fails
  b.cc:2: Failure
  [  FAILED  ] B.Fails (0 ms)
failed: dead
  [ RUN      ] C.Dies
  terminate called
failed: script
  SKIPPED script: no server
  line 1""".splitlines()
    got = summary(log)
    if got != expected:
        sys.exit("test_summary: self-test failed; it prints\n" + "\n".join(got))
    second = [line for line in log if line != "1/4 Testing: good"]
    second[second.index("2/4 Testing: bad"):second.index("3/4 Testing: dead")] = []
    ends = [line for line in summary(log, second) if line.startswith("failed")]
    if ends != ["failed: bad; PASSED WHEN ALONE", "failed: dead, again when alone", "failed: script, again when alone"]:
        sys.exit(f"test_summary: self-test failed; of a second run it prints {ends}")
    print("test_summary: self-test passed")


if __name__ == "__main__":
    if sys.argv[1:] == ["--self-test"]:
        self_test()
    else:
        logs = [open(name, encoding="utf-8", errors="replace").read().splitlines() for name in sys.argv[1:3]]
        print("\n".join(summary(*logs)))
