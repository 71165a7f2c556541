#!/usr/bin/env python3
"""Rehearses a visit to a machine with a GPU with the real programs on the stand-in: visit_rehearsal.py SOURCE_DIR BUILD LIBRARIES.

One visit runs to its end. In a second one each part is killed as soon as it has a result, and the visit keeps those results and continues.
A third one is itself killed in a part."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tarfile
import tempfile
import time

PARTS = ("device", "primitives", "checks", "sanitizer", "smoke", "figures", "model")
WITHOUT_RESULTS = ("sanitizer",)  # the stand-in checks memory itself


def check(condition, message):
    if not condition:
        print(f"FAILED: {message}")
        sys.exit(1)


class Visit:
    def __init__(self, out):
        source, build, libraries = sys.argv[1:4]
        self.out = pathlib.Path(out)
        command = [f"{source}/scripts/gpu_visit.sh", build, "--standin", libraries, "--out", out]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def rows(self):
        path = self.out / "results.jsonl"
        return [json.loads(line) for line in path.read_text().split("\n")[:-1]] if path.exists() else []

    def verdicts(self):
        return {row["part"]: row["verdict"] for row in self.rows() if "verdict" in row}

    def results(self, part):
        return [row for row in self.rows() if row["part"] == part and "verdict" not in row]

    def wait_for_result(self, part):
        """Returns whether the part has a result and has not ended."""
        while not self.results(part) and part not in self.verdicts():
            check(self.process.poll() is None, f"the visit ended before {part}")
            time.sleep(0.02)
        return part not in self.verdicts()

    def process_of_part(self, part):
        """The process id of the part, which leads its own process group."""
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return next((int(pid) for pid in children if part.encode() in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")), None)

    def packed(self):
        with tarfile.open(self.out / "gpu-visit.tar.gz") as archive:
            return archive.getnames()


def runs_to_the_end(folder):
    visit = Visit(f"{folder}/whole")
    output, _ = visit.process.communicate()
    check(visit.process.returncode == 0, output)
    check(visit.verdicts() == {**dict.fromkeys(PARTS, "ok"), "sanitizer": "skipped"}, output)
    check(any(name.startswith("gpu-visit/dumps/mma") for name in visit.packed()), f"no dumps in {visit.packed()}")
    for part in ("smoke", "model"):
        check(any("mismatch/logprob_abs_diff_max" in row for row in visit.results(part)), f"{part}: {visit.results(part)}")
    check(sum("decode" in row.get("figure", "") for row in visit.results("figures")) > 1, visit.results("figures"))


def survives_the_death_of_each_part(folder):
    visit = Visit(f"{folder}/parts")
    killed = []
    for part in PARTS[1:]:
        if part in WITHOUT_RESULTS or not visit.wait_for_result(part):
            continue
        if (process := visit.process_of_part(part)) is not None:
            os.killpg(process, signal.SIGKILL)
            killed.append(part)
    output, _ = visit.process.communicate()
    check(visit.process.returncode == 1, output)
    verdicts = visit.verdicts()
    check(list(verdicts) == list(PARTS), f"{verdicts}\n{output}")
    check({"checks", "smoke", "figures", "model"} <= set(killed), f"killed {killed}")
    check(all(verdicts[part] == "failed" and visit.results(part) for part in killed), f"{verdicts}\n{output}")
    check("gpu-visit/results.jsonl" in visit.packed(), visit.packed())


def survives_its_own_death(folder):
    visit = Visit(f"{folder}/itself")
    check(visit.wait_for_result("checks"), "the checks ended before they were seen")
    part = visit.process_of_part("checks")
    visit.process.kill()
    visit.process.communicate()
    os.killpg(part, signal.SIGKILL)  # nobody supervises it now
    check(visit.verdicts() == {"device": "ok", "primitives": "ok"}, visit.verdicts())
    check(visit.results("checks"), "the results of the killed part are lost")


def main():
    with tempfile.TemporaryDirectory(prefix="ingot-visit-") as folder:
        for case in (runs_to_the_end, survives_the_death_of_each_part, survives_its_own_death):
            case(folder)
            print(f"{case.__name__}: passed", flush=True)


main()
