"""Supervises a visit to a machine with a GPU (gpu_visit.sh): runs each part as a process with a time limit, and stores
each result immediately. gpu_visit_parts.py has the parts."""
import argparse
import datetime
import json
import os
import pathlib
import signal
import subprocess
import sys
import tarfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
# (name, second of a visit of 12 minutes at which it must have ended). Time that a part leaves goes to the next.
SCHEDULE = (("device", 30), ("primitives", 60), ("checks", 190), ("sanitizer", 240), ("smoke", 430), ("figures", 580), ("model", 700))
WHOLE = 720
STANDIN_MINUTES = 180  # the stand-in's kernels are interpreted
GRACE = 5  # seconds between SIGTERM and SIGKILL


class Results:
    """Appends JSON lines to a file. A line is on disk before the next one is read, so a killed visit keeps it."""

    def __init__(self, path):
        self.file = open(path, "a", encoding="utf-8")
        self.rows = []

    def add(self, row):
        self.rows.append(row)
        self.file.write(json.dumps(row) + "\n")
        self.file.flush()
        os.fsync(self.file.fileno())


def as_row(line):
    """Returns a line of a part as a dict, or None if it is not a JSON object."""
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


class Visit:
    def __init__(self, args, out):
        self.args, self.out = args, out
        self.results = Results(out / "results.jsonl")
        self.process = None
        self.stopped = False
        self.start = time.monotonic()

    def stop(self, *_):
        """Handles SIGTERM and SIGINT: ends the current part, starts no other one, and still packs the results."""
        self.stopped = True
        self.signal_part(signal.SIGTERM)

    def signal_part(self, number):
        if self.process is None:
            return
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            pass  # it has ended

    def run(self):
        """Runs the parts. Returns the exit code."""
        failed = False
        for name, end in SCHEDULE:
            if self.stopped:
                break
            ok = self.run_part(name, self.start + end * self.args.minutes * 60 / WHOLE)
            failed |= not ok
            if name == "device" and not ok:
                return 2
        return 1 if failed or self.stopped else 0

    def run_part(self, name, deadline):
        started = time.monotonic()
        print(f"gpu_visit: {name}, at most {deadline - started:.0f} s", flush=True)
        command = [sys.executable, str(HERE / "gpu_visit_parts.py"), name, str(self.args.archive), str(self.out),
                   self.args.standin or ""]
        with open(self.out / f"{name}.log", "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, errors="replace",
                                            start_new_session=True)
            watch = threading.Thread(target=self.limit, args=(self.process, deadline), daemon=True)
            watch.start()
            said = self.read(name, self.process.stdout, log)
            self.process.stdout.close()
            code = self.process.wait()
            late = time.monotonic() >= deadline
            self.signal_part(signal.SIGKILL)  # what a part left running
            self.process = None
        return self.judge(name, code, late, said, time.monotonic() - started)

    def limit(self, process, deadline):
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
            return
        except subprocess.TimeoutExpired:
            self.signal_part(signal.SIGTERM)
        try:
            process.wait(GRACE)
        except subprocess.TimeoutExpired:
            self.signal_part(signal.SIGKILL)

    def read(self, name, lines, log):
        """Keeps each JSON line. Returns the last one with the key `ok`, which is the part's own judgment."""
        said = {}
        for line in lines:
            row = as_row(line)
            if row is None:
                log.write(line)
                log.flush()
                continue
            if "verdict" in row:
                said = row
            else:
                self.results.add({"part": name, **row})
        return said

    def judge(self, name, code, late, said, seconds):
        why = said.get("why", "")
        if self.stopped:
            ok, why = False, "the visit was stopped"
        elif late:
            ok, why = said.get("verdict") == "partial", f"stopped at its limit; {name}.log has its output"
        elif code != 0 or "verdict" not in said:
            ok, why = False, why or f"ended with exit code {code}; {name}.log has its output"
        else:
            ok = said["verdict"] in ("ok", "skipped", "partial")
        verdict = said.get("verdict", "ok") if ok else "failed"
        self.results.add({"part": name, "verdict": verdict, "seconds": round(seconds, 1), **({"why": why} if why else {})})
        return ok


def table(rows):
    """Returns a line per part: its verdict, its seconds, its number of results, and why."""
    counts = {}
    for row in rows:
        counts[row["part"]] = counts.get(row["part"], 0) + ("verdict" not in row)
    lines = [f"{'part':<10} {'verdict':<8} {'seconds':>8} {'results':>8}"]
    for row in rows:
        if "verdict" in row:
            lines.append(f"{row['part']:<10} {row['verdict']:<8} {row['seconds']:>8} {counts[row['part']]:>8}  "
                         f"{row.get('why', '')}".rstrip())
    return "\n".join(lines)


def pack(out):
    """Packs the results, logs, and dumps, without the runs' models and checkpoints."""
    archive = out / "gpu-visit.tar.gz"
    with tarfile.open(archive, "w:gz") as packed:
        for path in sorted([*out.glob("*.jsonl"), *out.glob("*.log"), *out.glob("*.txt")]):
            packed.add(path, arcname=f"gpu-visit/{path.name}")
        if (out / "dumps").is_dir():
            packed.add(out / "dumps", arcname="gpu-visit/dumps")
    return archive


def arguments():
    parser = argparse.ArgumentParser(prog="gpu_visit")
    parser.add_argument("archive", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--standin")
    args = parser.parse_args()
    if args.minutes is None:
        args.minutes = STANDIN_MINUTES if args.standin else WHOLE / 60
    if args.minutes <= 0:
        parser.error("--minutes must be positive")
    if not args.archive.exists():
        parser.error(f"{args.archive} does not exist: `make cuda bundle` creates build/ingot-bundle.tar.gz")
    args.archive = args.archive.resolve()
    return args


def main():
    args = arguments()
    out = args.out or pathlib.Path(f"gpu-visit-{datetime.datetime.now(datetime.timezone.utc):%Y%m%d-%H%M%S}")
    out = out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    if (out / "results.jsonl").exists():
        print(f"gpu_visit: {out} has the results of another visit: choose another folder with --out", file=sys.stderr)
        return 2
    if args.archive.is_file():
        with tarfile.open(args.archive) as packed:
            # Debian 12's Python 3.11.2 has no filters yet.
            packed.extractall(out / "unpacked", **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
        args.archive = out / "unpacked" / "ingot"
    visit = Visit(args, out)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, visit.stop)
    code = visit.run()
    (out / "table.txt").write_text(table(visit.results.rows) + "\n")
    print(table(visit.results.rows))
    print(f"gpu_visit: {pack(out)} has the results")
    return code


if __name__ == "__main__":
    sys.exit(main())
