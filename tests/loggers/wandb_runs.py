#!/usr/bin/env python3
"""Real runs with the package wandb of the Python that runs this: wandb_runs.py BINARY SOURCE_DIR

Each run writes offline files of W&B, which are read back: all numbers of the record, the configuration, a table for each
evaluation, and the same W&B run after a resume. examples/python/to_wandb.py then makes an offline run of the record. A run
whose helper process is killed, and one whose Python has no wandb, train to their end and say what happened.
"""
import json
import os
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS), str(TESTS / "app" / "runs")]
import ingot_runs  # noqa: E402
from ingot_runs import check  # noqa: E402

EVALUATED = 6  # held-out tasks of each evaluation


def records(path):
    """The records of a .wandb file: LevelDB's log format behind seven bytes of header."""
    from wandb.proto import wandb_internal_pb2
    data, at, whole = path.read_bytes(), 7, b""
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:  # no room for a head in this block
            at += 32768 - at % 32768
            continue
        _, size, kind = struct.unpack("<IHB", data[at:at + 7])
        whole, at = whole + data[at + 7:at + 7 + size], at + 7 + size
        if kind in (1, 4):  # a whole record, or the last part of one
            yield wandb_internal_pb2.Record.FromString(whole)
            whole = b""


def files(folder):
    return sorted(pathlib.Path(folder, "wandb").glob("offline-run-*/*.wandb"), key=lambda path: path.stat().st_mtime)


def rows_in(path):
    return [{item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
            for record in records(path) if record.HasField("history")]


def numbers(row):
    return {key: value for key, value in row.items() if isinstance(value, (int, float)) and key != "time"}


def check_rows(found, wanted, what):
    found = [row for row in found if "eval/samples" not in str(list(row))]
    lost = [key for ours, theirs in zip(wanted, found) for key, value in numbers(ours).items() if theirs.get(key) != value]
    check(len(found) == len(wanted) and not lost, f"{what} has {len(found)} of {len(wanted)} rows, and not {lost[:5]}")
    print(f"{what} has {sum(len(numbers(row)) for row in wanted)} numbers of {len(found)} rows")


def complaints(output):
    """What the run says of W&B, but for a late answer, which a busy machine causes: the data is sent later."""
    return [line for line in output.splitlines() if "wandb: " in line and "has not responded yet; the missing data will be sent later" not in line]


def logged(folder, source, **more):
    tasks = pathlib.Path(source, "examples/smoke/eval.jsonl").read_text(encoding="utf-8").splitlines()[:EVALUATED]
    pathlib.Path(folder, "eval.jsonl").write_text("\n".join(tasks) + "\n", encoding="utf-8")
    return {**ingot_runs.SHORT, "http.dashboard": "false", "loggers.wandb.project": "lab", "loggers.wandb.mode": "offline",
            "python": sys.executable, "eval.tasks": f"{folder}/eval.jsonl", "eval.every_versions": "4", **more}


def case_record(ingot, folder, source):
    """Two starts of one run are one run of W&B, with every number, the configuration, and tables."""
    settings = logged(folder, source, **{"run.name": "live", "scheduler.total_steps": 4})
    code, output = ingot.run("train", settings)
    check(code == 0 and not complaints(output), output)
    first = ingot.metrics("live")
    code, output = ingot.run("train", {**settings, "scheduler.total_steps": 8}, ["--resume"])
    check(code == 0 and not complaints(output), output)
    found = files(f"{folder}/live")
    ids = {record.run.run_id for path in found for record in records(path) if record.HasField("run")}
    check(len(found) == 2 and len(ids) == 1, f"{found} have the runs {ids}")
    steps = [row["_step"] for path in found for row in rows_in(path)]
    check(steps == sorted(set(steps)), f"W&B's own steps do not rise: {steps}")
    check_rows(rows_in(found[0]) + rows_in(found[1]), ingot.metrics("live"), "the live run of W&B")
    check(len(ingot.metrics("live")) > len(first), "the resumed run has no rows")
    config = {item.key: json.loads(item.value_json) for record in records(found[0]) for item in record.run.config.update}
    check(config["trainer"]["learning_rate"] == 3e-4 and config["scheduler"]["total_steps"] == 4, f"the configuration is {config}")
    tables = sorted(pathlib.Path(folder, "live", "wandb").glob("offline-run-*/files/media/table/**/*.json"))
    evaluations = sum("eval/reward_mean" in row for row in ingot.metrics("live"))
    table = json.loads(tables[0].read_text(encoding="utf-8"))
    check(len(tables) == evaluations and table["columns"][2:5] == ["task", "sample", "reward"] and len(table["data"]) == EVALUATED,
          f"{len(tables)} tables for {evaluations} evaluations: {table}")
    check(all(any(record.HasField("exit") and record.exit.exit_code == 0 for record in records(path)) for path in found), "no end")
    print(f"W&B has {len(tables)} tables of evaluations")
    subprocess.run([sys.executable, f"{source}/examples/python/to_wandb.py", f"{folder}/live"], check=True, capture_output=True, timeout=600)
    check_rows(rows_in(files(f"{folder}/live")[-1]), ingot.metrics("live"), "to_wandb.py's run of W&B")


def helpers():
    """The process ids of helpers."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if len(words) > 3 and words[0] == sys.executable.encode() and words[1] == b"-I" and b"import_wandb" in words[3]:
            found.append(int(path.parent.name))
    return found


def case_killed(ingot, folder, source):
    """The helper is killed once it runs. The run goes on, and says so."""
    killed = []

    def kill():
        while not killed:
            time.sleep(0.2)
            killed.extend(pid for pid in helpers() if files(f"{folder}/killed"))
        time.sleep(2)
        os.kill(killed[0], signal.SIGKILL)

    threading.Thread(target=kill, daemon=True).start()
    code, output = ingot.run("train", logged(folder, source, **{"run.name": "killed"}))
    check(code == 0 and killed and "the wandb process was killed by signal 9" in output, f"{killed}: {output}")
    check(len([row for row in ingot.metrics("killed") if "actor/loss" in row]) == 8, "steps are missing")
    print("a run whose helper was killed trained to its end")


def case_missing(ingot, folder, source):
    """A Python without wandb is named, with the command that installs it."""
    empty = f"{folder}/empty"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", empty], check=True)
    code, output = ingot.run("train", logged(folder, source, **{"run.name": "missing", "python": f"{empty}/bin/python"}))
    check(code == 0 and f"{empty}/bin/python cannot import wandb" in output and "-m pip install wandb" in output, output)
    print("a run whose Python has no wandb trained to its end")


def main():
    binary, source = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    for case in (case_record, case_killed, case_missing):
        with tempfile.TemporaryDirectory(prefix="ingot-wandb-") as folder:
            case(ingot_runs.Ingot(binary, source, folder), folder, source)
    print("passed")


if __name__ == "__main__":
    main()
