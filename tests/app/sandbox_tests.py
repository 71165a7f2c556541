#!/usr/bin/env python3
"""Runs whose agents stand behind a wall: sandbox_tests.py BINARY SOURCE_DIR CASE.

Cases: rung, harbor. Exits with 0 if every check of the case holds, with 77 if this machine lacks what it needs.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from run_tests import SHORT, Ingot, check  # noqa: E402

SKIPPED = 77


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


def case_rung(ingot, folder):
    """A short run in the strongest rung: the agents reach the gateway, and the record names the wall."""
    settings = {**SHORT, "run.name": "walled", "scheduler.total_steps": 2, "sft.max_steps": 5,
                "scheduler.drop_zero_variance": "false", "agents.work_root": folder / "work", "sandbox.rung": "auto"}
    code, output = ingot.run("train", settings)
    check(code == 0, output)
    said = next(line for line in output.splitlines() if line.startswith("agents: rung "))
    rung = said.split()[2].rstrip(":")
    group = next(record["batch"]["groupIds"][0] for record in ingot.journal("walled") if "batch" in record)
    episode = json.loads(ingot.inspect("walled", f"{group}/0", "--json"))["episode"]
    check(json.loads(episode["metadataJson"])["sandbox"]["rung"] == rung, f"{said}: {episode['metadataJson']}")
    print(said)

    code, output = ingot.run("train", {**settings, "run.name": "refused", "sandbox.agent_uid": "shared",
                                       "sandbox.require": "namespaces"})
    check(code != 0 and "sandbox.require is namespaces" in output and "rung process" in output, output)
    check(not pathlib.Path(f"{ingot.folder}/refused/metrics.jsonl").exists() or ingot.rows("refused") == 0, "it trained")


DOCKERFILE = """FROM scratch
COPY busybox /bin/busybox
COPY root/ /
ENV PATH=/bin
WORKDIR /app
"""


def write_task(folder, name, test, solution, extra=""):
    """A Harbor task whose image has a static shell."""
    task = folder / name
    for part in ("environment/root/bin", "environment/root/app", "environment/root/tmp", "tests", "solution"):
        (task / part).mkdir(parents=True)
    shutil.copy("/bin/busybox", task / "environment/busybox")
    for tool in ("sh", "cat", "ls", "test", "grep", "mkdir"):
        (task / "environment/root/bin" / tool).symlink_to("busybox")
    (task / "environment/root/app/.keep").write_text("")
    (task / "environment/root/tmp/.keep").write_text("")
    (task / "environment/Dockerfile").write_text(DOCKERFILE)
    (task / "task.toml").write_text("version = \"1.0\"\n[agent]\ntimeout_sec = 60\n[verifier]\ntimeout_sec = 60\n" + extra)
    (task / "instruction.md").write_text("Write 'Hello' into /app/hello.txt.\n")
    (task / "tests/test.sh").write_text(test)
    (task / "solution/solve.sh").write_text(solution)


JUDGE = """#!/bin/sh
if grep -q Hello /app/hello.txt; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi
"""


def case_harbor(ingot, folder):
    """`ingot tasks check` tries the solution and nothing, and names what it cannot run."""
    if not (shutil.which("buildah") and shutil.which("umoci") and pathlib.Path("/bin/busybox").exists()):
        skip("needs buildah, skopeo, umoci and busybox-static")
    tasks = folder / "tasks"
    tasks.mkdir()
    write_task(tasks, "good", JUDGE, "#!/bin/sh\necho Hello > /app/hello.txt\n")
    write_task(tasks, "unsolved", JUDGE, "#!/bin/sh\necho Goodbye > /app/hello.txt\n")
    write_task(tasks, "free", "echo 1 > /logs/verifier/reward.txt\n", "#!/bin/sh\n:\n")
    write_task(tasks, "peeks", JUDGE, "#!/bin/sh\nls /tests/* && echo Hello > /app/hello.txt\n")
    write_task(tasks, "card", JUDGE, "#!/bin/sh\n", "[environment]\ngpus = 1\n")
    done = subprocess.run([ingot.binary, "tasks", "check", str(tasks), "--store", str(folder / "store")], cwd=ingot.source,
                          capture_output=True, text=True, timeout=400)
    if "sandbox.require is namespaces" in done.stderr:
        skip(done.stderr)
    lines = set(done.stdout.splitlines())
    print(done.stdout, done.stderr)
    for line in ("refused card: it asks for environment.gpus", "ok good", "wrong unsolved: its solution gives 0, not 1",
                 "wrong free: doing nothing gives 1", "wrong peeks: its solution gives 0, not 1", "1 of 5 tasks run here"):
        check(line in lines, f"no line '{line}'")
    check(done.returncode == 1, f"exit code {done.returncode}")


def main():
    binary, source, case = sys.argv[1:4]
    with tempfile.TemporaryDirectory(prefix="ingot-sandbox-") as name:
        folder = pathlib.Path(name)
        os.chmod(folder, 0o755)
        {"rung": case_rung, "harbor": case_harbor}[case](Ingot(binary, source, folder), folder)


if __name__ == "__main__":
    main()
