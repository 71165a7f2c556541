#!/usr/bin/env python3
"""A run folder of an earlier build still works, and one of another format is refused by name: format_tests.py BINARY SOURCE_DIR CASE.

Cases: kept (run_format_1.tar.xz.base64, next to this script), moved (a copy of a run, read from another folder), make (writes that
file anew, once a format has a new number).
"""
import base64
import io
import json
import os
import pathlib
import shutil
import subprocess
import tarfile

from ingot_runs import GROUPS, check, check_run, main

KEPT = pathlib.Path(__file__).with_name("run_format_1.tar.xz.base64")
LEFT_OUT = ("logs", "sockets", "tensorboard", "lock")  # a run needs none of them


def settings(steps):
    """Of a run whose folder takes 100 KB."""
    run = json.loads(json.dumps(GROUPS))
    run["run"]["name"] = "kept"
    run["model"].update(hidden_size=4, intermediate_size=4, heads=1, head_dim=4)
    run["scheduler"].update(total_steps=steps, groups_per_step=1, group_size=2, max_drops_per_batch=1)
    run["trainer"].update(checkpoint_every=2, keep_checkpoints=1)
    return run


def without_owner(entry):
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry


def case_make(ingot):
    ingot.configure("kept", settings(2))
    code, said = ingot.run("train", {})
    check(code == 0, said)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:xz") as tar:
        for path in sorted(pathlib.Path(ingot.folder, "kept").rglob("*")):
            inside = path.relative_to(ingot.folder)
            if path.is_file() and inside.parts[1] not in LEFT_OUT and not path.name.startswith(("OPTIONS-", "LOG")):
                tar.add(path, inside, filter=without_owner)
    KEPT.write_bytes(base64.encodebytes(packed.getvalue()))


def refused(ingot, command, *words):
    """A command that must fail with these words in its message."""
    done = ingot.call(*command)
    check(done.returncode != 0, f"{command} ran: {done.stdout}")
    check(all(word in done.stderr for word in words), f"{command}: {done.stderr}")


def case_kept(ingot):
    with tarfile.open(fileobj=io.BytesIO(base64.decodebytes(KEPT.read_bytes()))) as tar:
        tar.extractall(ingot.folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    run = pathlib.Path(ingot.folder, "kept")
    shutil.copytree(run, f"{ingot.folder}/other")
    check(ingot.inspect("kept").count("finished") >= 4, "inspect shows no episodes")
    check("no alternatives are recorded" in ingot.inspect("kept", "0/0", "--alternatives"), "a pool without alternatives has some")
    check(len(ingot.journal("kept")) > 0, "the journal is empty")
    ingot.configure("kept", settings(4))
    code, said = ingot.run("train", {}, ["--resume"])
    check(code == 0 and "4/4" in said, said)
    check_run(ingot, "kept", 4)

    other = pathlib.Path(ingot.folder, "other")
    resume = ["train", ingot.config, "--set", f"run.root={ingot.folder}", "--set", "run.name=other", "--resume"]
    (other / "format").write_text("2\n")
    for command in (["inspect", other], ["report", other, f"{ingot.folder}/report.html"], resume):
        refused(ingot, command, "run folder format 2", "format 1", "choose another run.name")
    (other / "format").write_text("1\n")
    state = next(other.glob("checkpoints/*/state.json"))
    state.write_text(state.read_text().replace("ingot-checkpoint-", "ingot-checkpoint-9"))
    refused(ingot, resume, "format ingot-checkpoint-9", "format ingot-checkpoint-4", "model.path")


def case_moved(ingot):
    """A run with a relative model path can be read from another directory, as a copy, and without the model."""
    ingot.configure("base", settings(1))
    code, said = ingot.run("train", {})
    check(code == 0, said)
    base = sorted(pathlib.Path(ingot.folder, "kept/checkpoints").glob("step-*"))[-1]
    moved = settings(1)
    moved["run"]["name"], moved["model"] = "moved", {"path": os.path.relpath(base, ingot.source)}
    ingot.configure("moved", moved)
    code, said = ingot.run("train", {})
    check(code == 0, said)
    copy = pathlib.Path(ingot.folder, "copy of it")
    pathlib.Path(ingot.folder, "moved").rename(copy)
    shutil.rmtree(base)

    def elsewhere(*words):
        done = subprocess.run([ingot.binary, *map(str, words)], cwd="/", capture_output=True, text=True, timeout=60)
        check(done.returncode == 0, f"{words}: {done.stderr}")
        return done.stdout
    episode = next(line for line in elsewhere("inspect", copy).splitlines() if "finished" in line).split()[0]
    elsewhere("inspect", copy, episode)
    elsewhere("report", copy, f"{ingot.folder}/report.html")
    elsewhere("export", copy, f"{ingot.folder}/atif.jsonl", "--as", "atif", "--above", "-1")
    with subprocess.Popen([ingot.binary, "view", copy, "--files"], cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True) as view:
        link = view.stdout.readline()
        view.terminate()
    check(link.startswith("http"), link)


if __name__ == "__main__":
    main(case_make, case_kept, case_moved)
