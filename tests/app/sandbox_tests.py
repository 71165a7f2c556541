#!/usr/bin/env python3
"""Runs whose agents stand behind a wall: sandbox_tests.py BINARY SOURCE_DIR CASE.

Cases: rung, harbor, image, bench. Exits with 0 if every check of the case holds, with 77 if this machine lacks what it needs.
"""
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile

from ingot_runs import SHORT, Ingot, check, skip


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

    # Its files lie at /app, which a weaker rung cannot show.
    ingot.config = "examples/harbor/run.yaml"
    code, output = ingot.run("train", {"run.name": "placeless", "sandbox.require": "any", "sandbox.rung": "process", "http.port": 0,
                                       "agents.work_root": folder / "work"})
    check(code != 0 and "its work_at needs the rung namespaces" in output, output)


TOOLS = ("sh", "cat", "ls", "test", "grep", "mkdir", "wget")
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
    for tool in TOOLS:
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


# Runs in an image with a static shell alone: it asks the model, and writes the answer.
AGENT = """wget -q -O reply --header "Authorization: Bearer $OPENAI_API_KEY" --header "Content-Type: application/json" \
  --post-data '{"model": "default", "messages": [{"role": "user", "content": "Greet."}]}' $OPENAI_BASE_URL/chat/completions
grep -o Hello reply > /app/hello.txt
cat /app/hello.txt
"""
CONFIG = """
run: {name: imaged}
model: {chat_format: hermes, hidden_size: 32, intermediate_size: 64, layers: 1, heads: 1, kv_heads: 1, head_dim: 32, context_length: 1024}
rollout: {max_running: 2, kv_cache_tokens: 8192}
scheduler: {groups_per_step: 1, group_size: 2}
http: {port: 0}
"""


def collect(ingot, folder, tasks, recipe):
    """Collects an episode of each task over an image. The scripted model greets."""
    (folder / "script.jsonl").write_text(json.dumps({"content": "Hello", "repeat": True}) + "\n")
    config = folder / "run.yaml"
    # The store lies beside the runs, which rooms do not see.
    agents = {"image_store": str(folder / "store"), "concurrency": 2,
              "recipes": [{"name": "greeter", "command": ["sh", "-c", AGENT], "timeout_s": 60, **recipe}]}
    config.write_text(f"{CONFIG}agents: {json.dumps(agents)}\ndata: {{tasks: {tasks}}}\n")
    with tempfile.TemporaryDirectory(prefix="ingot-work-") as work:
        os.chmod(work, 0o755)
        done = ingot.call("collect", config, "--script", folder / "script.jsonl", "--samples", "1", "--set",
                          f"run.root={folder}", "--set", f"agents.work_root={work}", timeout=300)
    output = done.stdout + done.stderr
    check(done.returncode == 0, output)
    return output


def needs(*programs):
    missing = [name for name in programs if shutil.which(name) is None]
    if missing or not pathlib.Path("/bin/busybox").exists():
        skip(f"needs busybox-static and {', '.join(programs)}")


def case_image(ingot, folder):
    """An episode runs on the image of an archive, and its verifier in the same image."""
    needs("skopeo", "umoci")
    layer, archive = folder / "layer.tar", folder / "image.tar"
    with tarfile.open(layer, "w") as tar:
        tar.add("/bin/busybox", "bin/busybox")
        for tool in TOOLS:
            link = tarfile.TarInfo(f"bin/{tool}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
        for name in ("app", "tmp", "etc"):
            made = tarfile.TarInfo(name)
            made.type, made.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(made)
    digest = hashlib.sha256(layer.read_bytes()).hexdigest()
    image = {"architecture": "amd64", "os": "linux", "config": {"Env": ["PATH=/bin"], "WorkingDir": "/app"},
             "rootfs": {"type": "layers", "diff_ids": ["sha256:" + digest]}}
    (folder / "config.json").write_text(json.dumps(image))
    (folder / "manifest.json").write_text(json.dumps([{"Config": "config.json", "RepoTags": ["t:1"], "Layers": ["layer.tar"]}]))
    with tarfile.open(archive, "w") as tar:
        for name in ("manifest.json", "config.json", "layer.tar"):
            tar.add(folder / name, name)
    tasks = folder / "tasks.jsonl"
    tasks.write_text(json.dumps({"task_id": "t", "image": f"docker-archive:{archive}"}) + "\n")
    verifier = {"kind": "command", "command": ["sh", "-c", "grep -q Hello /app/hello.txt && test ! -e /usr"]}
    for room in ("agent", "pristine"):
        output = collect(ingot, folder, tasks, {"image": "${task.image}", "verifier": verifier, "verifier_room": room})
        check("1 episodes, 0 failed, mean outcome 1.0" in output, output)


def case_bench(ingot, folder):
    """`ingot bench sandbox` measures every way that this machine has, and says it as JSON."""
    def bench(*words):
        done = subprocess.run([ingot.binary, "bench", "sandbox", *words], cwd=folder, capture_output=True, text=True, timeout=300)
        check(done.returncode == 0, done.stdout + done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]
    rows = bench("--starts", "6", "--repeat", "2", "--threads", "2")
    ways = [row["way"] for row in rows]
    check(set(ways) >= {"pool", "room", "second", "spawn"} and len(ways) == len(set(ways)), ways)
    for row in rows:
        check(row["failed"] == 0 and row["threads"] == 2, row)
        check(0 < row["p50_ms"] <= row["p99_ms"] and row["starts_per_s"] > 0, row)
    (idle,) = bench("--idle", "3")
    check(idle["idle_rooms"] == 3, idle)


def case_harbor(ingot, folder):
    """`ingot tasks check` tries the solution and nothing, and names what it cannot run."""
    needs("buildah", "skopeo", "umoci")
    tasks = folder / "tasks"
    tasks.mkdir()
    write_task(tasks, "good", JUDGE, "#!/bin/sh\necho Hello > /app/hello.txt\n")
    write_task(tasks, "unsolved", JUDGE, "#!/bin/sh\necho Goodbye > /app/hello.txt\n")
    write_task(tasks, "free", "echo 1 > /logs/verifier/reward.txt\n", "#!/bin/sh\n:\n")
    write_task(tasks, "peeks", JUDGE, "#!/bin/sh\nls /tests/* && echo Hello > /app/hello.txt\n")
    write_task(tasks, "card", JUDGE, "#!/bin/sh\n", "[environment]\ngpus = 1\n")
    write_task(tasks, "installs", "test -e /installed && R=1 || R=0\necho $R > /logs/verifier/reward.txt\n",
               "#!/bin/sh\necho > /installed\n")
    write_task(tasks, "armed", "test \"$A$B\" = ab && grep -q s /app/hello.txt && R=1 || R=0\necho $R > /logs/verifier/reward.txt\n",
               "#!/bin/sh\necho $S > /app/hello.txt\n",
               "[verifier.env]\nB = \"b\"\n[solution.env]\nS = \"s\"\n[environment]\nworkdir = \"/app\"\nenv = {A = \"a\"}\n"
               "memory_mb = 64\n")
    write_task(tasks, "sick", JUDGE, "#!/bin/sh\necho Hello > /app/hello.txt\n",
               "[environment.healthcheck]\ncommand = \"exit 4\"\ninterval_sec = 0\nretries = 2\n")
    write_task(tasks, "strict", "set -e\ngrep -q Hello /app/hello.txt\necho 1 > /logs/verifier/reward.txt\n",
               "#!/bin/sh\necho Hello > /app/hello.txt\n")
    write_task(tasks, "silent", "exit 3\n", "#!/bin/sh\necho Hello > /app/hello.txt\n")
    write_task(tasks, "garbled", "grep -q Hello /app/hello.txt && R=1 || R=none\necho $R > /logs/verifier/reward.txt\n",
               "#!/bin/sh\necho Hello > /app/hello.txt\n")
    write_task(tasks, "named", JUDGE, "#!/bin/sh\necho Hello > /app/hello.txt\n", "user = \"dev\"\n")
    done = ingot.call("tasks", "check", tasks, "--store", folder / "store", timeout=400)
    if "sandbox.require is namespaces" in done.stderr:
        skip(done.stderr)
    lines = set(done.stdout.splitlines())
    print(done.stdout, done.stderr)
    for line in ("refused card: it asks for environment.gpus", "ok good", "wrong unsolved: its solution gives 0, not 1",
                 "wrong free: doing nothing gives 1, not 0", "wrong peeks: its solution gives 0, not 1", "ok armed", "ok named",
                 "wrong installs: its tests look at what the solution changed outside of the work folder: recipes need "
                 "verifier_room: changed", "wrong sick: healthcheck (exit 4) exited with 4, 2 times",
                 "note named: verifier.user: commands run as the room's only user, which they see as root",
                 "ok strict", "4 of 12 tasks run here"):
        check(line in lines, f"no line '{line}'")
    for start in ("note strict: doing nothing counts as 0: test.sh exited with 2 and left no reward",
                  "wrong silent: its solution gives 0, not 1: test.sh exited with 3 and left no reward",
                  "wrong garbled: doing nothing gives no verdict: reward.txt holds 'none'"):
        check(any(line.startswith(start) for line in lines), f"no line '{start}..'")
    check(done.returncode == 1, f"exit code {done.returncode}")
    # The run judges as the check did.
    (folder / "run").mkdir()
    for name in ("good", "unsolved", "strict"):
        (tasks / name).rename(folder / "run" / name)
    output = collect(ingot, folder, folder / "run", {
        "image": "${task.image}", "verifier": {"kind": "harbor", "harbor": {"tests": "${task.tests_dir}"}}})
    check("3 episodes, 0 failed, mean outcome 1.0" in output, output)


def main():
    binary, source, case = sys.argv[1:4]
    with tempfile.TemporaryDirectory(prefix="ingot-sandbox-") as name:
        folder = pathlib.Path(name)
        os.chmod(folder, 0o755)
        cases = {"rung": case_rung, "harbor": case_harbor, "image": case_image, "bench": case_bench}
        cases[case](Ingot(binary, source, folder), folder)


if __name__ == "__main__":
    main()
