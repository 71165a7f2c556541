#!/usr/bin/env python3
"""Runs whose agents stand behind a wall: sandbox_tests.py BINARY SOURCE_DIR CASE.

Cases: isolation level, harbor, image, image_stop, registry, bench. Exits with 0 if every check of the case holds, with 77 if this machine lacks what it needs.
"""
import hashlib
import http.server
import io
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time

from ingot_runs import SHORT, Ingot, check, skip


def case_isolation(ingot, folder):
    """A short run in the strongest isolation level: the agents reach the gateway, and the record names the wall."""
    settings = {**SHORT, "run.name": "walled", "scheduler.total_steps": 2, "sft.max_steps": 5,
                "scheduler.drop_zero_variance": "false", "agents.work_root": folder / "work", "sandbox.isolation": "auto"}
    code, output = ingot.run("train", settings)
    check(code == 0, output)
    said = next(line for line in output.splitlines() if line.startswith("agents: isolation level "))
    isolation = said.split()[3].rstrip(":")
    group = next(record["batch"]["groupIds"][0] for record in ingot.journal("walled") if "batch" in record)
    episode = json.loads(ingot.inspect("walled", f"{group}/0", "--json"))["episode"]
    check(json.loads(episode["metadataJson"])["sandbox"]["isolation"] == isolation, f"{said}: {episode['metadataJson']}")
    print(said)

    code, output = ingot.run("train", {**settings, "run.name": "refused", "sandbox.agent_uid": "shared",
                                       "sandbox.require": "namespaces"})
    check(code != 0 and "sandbox.require is namespaces" in output and "isolation level process" in output, output)
    check(not pathlib.Path(f"{ingot.folder}/refused/metrics.jsonl").exists() or ingot.rows("refused") == 0, "it trained")

    # Its files lie at /app, which a weaker isolation level cannot show.
    ingot.config = "examples/harbor/run.yaml"
    code, output = ingot.run("train", {"run.name": "placeless", "sandbox.require": "any", "sandbox.isolation": "process", "http.port": 0,
                                       "agents.work_root": folder / "work"})
    check(code != 0 and "its work_at needs the isolation level namespaces" in output, output)


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
    # The store lies beside the runs, which sandboxes do not see.
    agents = {"image_store": str(folder / "store"), "concurrency": 2, "image_folders": [str(folder / "images")],
              "recipes": [{"name": "greeter", "command": ["sh", "-c", AGENT], "timeout_s": 60, **recipe}]}
    config.write_text(f"{CONFIG}agents: {json.dumps(agents)}\ndata: {{tasks: {tasks}}}\n")
    with tempfile.TemporaryDirectory(prefix="ingot-work-") as work:
        os.chmod(work, 0o755)
        done = ingot.call("collect", config, "--script", folder / "script.jsonl", "--samples", "1", "--set",
                          f"run.root={folder}", "--set", f"agents.work_root={work}", "--set", "run.if_exists=replace", timeout=300)
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
    (folder / "images").mkdir()
    layer, archive = folder / "layer.tar", folder / "images/image.tar"
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
    for sandbox in ("agent", "pristine"):
        output = collect(ingot, folder, tasks, {"image": "${task.image}", "verifier": verifier, "verifier_sandbox": sandbox})
        check("1 episodes, 0 failed, mean outcome 1.0" in output, output)

    def images(*words):
        done = subprocess.run([ingot.binary, "image", *map(str, words), "--store", folder / "store"], cwd=folder,
                              capture_output=True, text=True, timeout=120)
        return done.returncode, done.stdout + done.stderr

    code, output = images("--list")
    check(code == 0 and f"docker-archive:{archive}" in output and "1 images" in output, f"{code}: {output}")
    code, output = images("--prune", 1)
    check(code == 0 and "0 images removed" in output and "1 left" in output, f"{code}: {output}")
    code, output = images("--remove", "docker-archive:image.tar.gz")
    check(code == 1 and "there is no image" in output, f"{code}: {output}")
    code, output = images("--remove", "oci:")
    check(code == 1 and "there is no image" in output, f"{code}: {output}")
    code, output = images("--list", "--prune", 0)
    check(code == 2 and "give exactly one of" in output, f"{code}: {output}")
    code, output = images("--remove", f"docker-archive:./images/{archive.name}")
    check(code == 0 and "1 images removed" in output, f"{code}: {output}")
    check(not list((folder / "store").glob("sha256-*")), "a removed image stays")
    code, output = images("--list")
    check(code == 0 and output.startswith("0 images"), f"{code}: {output}")


def case_image_stop(ingot, folder):
    """SIGINT ends `ingot image` at once, and its tool; a kill ends the tool, and the next image sweeps what was left."""
    store, tools, archive, started = (folder / name for name in ("store", "tools", "archive", "started"))
    tools.mkdir()
    archive.write_text("an image")
    (tools / "skopeo").write_text(f"#!/bin/sh\necho $$ > {started}.new; mv {started}.new {started}\nexec sleep 1000\n")
    (tools / "skopeo").chmod(0o755)

    def runs(pid):
        """A zombie has no command line."""
        try:
            return b"sleep" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return False

    def await_that(condition, what):
        end = time.monotonic() + 120
        while not condition():
            check(time.monotonic() < end, what)
            time.sleep(0.02)

    def end_by(number):
        started.unlink(missing_ok=True)
        process = subprocess.Popen([ingot.binary, "image", f"oci-archive:{archive}", "--store", store], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"})
        await_that(started.exists, "the tool has not begun")
        tool = int(started.read_text())
        process.send_signal(number)
        out, err = process.communicate(timeout=120)
        await_that(lambda: not runs(tool), "the tool goes on")
        return process.returncode, out, err

    check(end_by(signal.SIGKILL)[0] == -signal.SIGKILL, "it was killed")
    check(len(list(store.glob("unpack-*"))) == 1, "nobody was left to remove the scratch folder")
    for number in (signal.SIGINT, signal.SIGTERM):
        code, out, err = end_by(number)
        check(code == 130 and not out, f"exit code {code}: {out}{err}")
        check(err == f"ingot image: stopped; nothing of 'oci-archive:{archive}' was kept\n", err)
        check(not list(store.glob("unpack-*")), "no scratch folder stays, of the killed one neither")


class Registry(http.server.ThreadingHTTPServer):
    """A registry of images of one file. Each tag names a list of manifests, as images for several platforms have it."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            kind, body = self.server.blobs.get(self.path.rsplit("/", 1)[-1], (None, b""))
            if self.path == "/v2/":
                kind = "application/json"
            self.send_response(200 if kind else 404)
            self.send_header("Content-Type", kind or "text/plain")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        do_HEAD = do_GET

        def log_message(self, *_):
            pass

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Registry.Handler)
        self.blobs = {}  # what the last part of a path names: media type and bytes
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def add(self, kind, body):
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        digest = "sha256:" + hashlib.sha256(body).hexdigest()
        self.blobs[digest] = (kind, body)
        return {"mediaType": kind, "digest": digest, "size": len(body)}

    def push(self, tag, text):
        """Returns the digest of the list."""
        layer = io.BytesIO()
        with tarfile.open(fileobj=layer, mode="w") as tar:
            info = tarfile.TarInfo("content")
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
        oci = "application/vnd.oci.image."
        layer = self.add(oci + "layer.v1.tar", layer.getvalue())
        config = self.add(oci + "config.v1+json", {"architecture": "amd64", "os": "linux", "config": {},
                                                   "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]}})
        manifest = self.add(oci + "manifest.v1+json", {"schemaVersion": 2, "mediaType": oci + "manifest.v1+json",
                                                       "config": config, "layers": [layer]})
        platforms = [{"architecture": name, "os": "linux"} for name in ("amd64", "arm64")]
        index = {"schemaVersion": 2, "mediaType": oci + "index.v1+json",
                 "manifests": [{**manifest, "platform": platform} for platform in platforms]}
        digest = self.add(oci + "index.v1+json", index)["digest"]
        self.blobs[tag] = self.blobs[digest]
        return digest


def case_registry(ingot, folder):
    """Images of a registry: two names are two images, a moved tag is pulled again, and the last copy serves without the registry."""
    needs("skopeo", "umoci")
    registry = Registry()
    host = f"127.0.0.1:{registry.server_port}"
    settings = folder / "home/.config/containers/registries.conf"
    settings.parent.mkdir(parents=True)
    settings.write_text(f'[[registry]]\nlocation = "{host}"\ninsecure = true\n')

    def image(name):
        done = subprocess.run([ingot.binary, "image", f"docker://{host}/{name}", "--store", folder / "store"], timeout=120,
                              capture_output=True, text=True, env={**os.environ, "HOME": str(folder / "home")})
        return done.returncode, json.loads(done.stdout or "{}"), done.stderr

    def content(name):
        code, found, errors = image(name)
        check(code == 0, errors)
        return pathlib.Path(found["rootfs"], "content").read_text(), found["digest"], errors

    lists = [registry.push("first", "one"), registry.push("second", "two")]
    one, two = content("a:first"), content("a:second")
    check((one[0], two[0]) == ("one", "two"), f"{one} {two}")
    check(one[1] not in lists, "an image's digest is its own, not the list's")
    time_of_one = (folder / "store" / one[1].replace(":", "-")).stat().st_mtime_ns
    moved = registry.push("first", "three")
    check(content("a:first")[0] == "three", "the tag was moved")
    check(content(f"a@{lists[0]}")[0] == "one", "a pinned name stays")
    check((folder / "store" / one[1].replace(":", "-")).stat().st_mtime_ns == time_of_one, "it was not unpacked again")
    registry.shutdown()
    registry.server_close()
    last = content("a:first")
    check(last[0] == "three" and "the most recently pulled copy" in last[2], last)
    check(content(f"a@{lists[0]}")[0] == "one", "a pinned name needs no registry")
    for name in ("a:third", f"a@{moved}"):
        code, _, errors = image(name)
        check(code == 1 and f"{host}/{name}" in errors and "refused" in errors, errors)


def case_bench(ingot, folder):
    """`ingot bench sandbox` measures every way that this machine has, and says it as JSON."""
    def bench(*words):
        done = subprocess.run([ingot.binary, "bench", "sandbox", *words], cwd=folder, capture_output=True, text=True, timeout=300)
        check(done.returncode == 0, done.stdout + done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]
    rows = bench("--starts", "6", "--repeat", "2", "--threads", "2")
    ways = [row["way"] for row in rows]
    check(set(ways) >= {"pool", "sandbox", "second", "spawn"} and len(ways) == len(set(ways)), ways)
    for row in rows:
        # crun is measured beside ours; a start of its own that fails on a busy machine is its own affair.
        check((row["failed"] == 0 or row["way"] == "crun") and row["threads"] == 2, row)
        check(0 < row["p50_ms"] <= row["p99_ms"] and row["starts_per_s"] > 0, row)
    (idle,) = bench("--idle", "3")
    check(idle["idle_sandboxes"] == 3, idle)


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
    for line in ("refused card: it requires environment.gpus", "ok good", "wrong unsolved: its solution gets reward 0, not 1",
                 "wrong free: doing nothing gets reward 1, not 0", "wrong peeks: its solution gets reward 0, not 1", "ok armed", "ok named",
                 "wrong installs: its tests check files that the solution changed outside the work folder: set "
                 "verifier_sandbox: changed in recipes", "wrong sick: healthcheck (exit 4) exited with 4, 2 times",
                 "note named: verifier.user: commands run as the sandbox's only user, which they see as root",
                 "ok strict", "4 of 12 tasks run here"):
        check(line in lines, f"no line '{line}'")
    for start in ("note strict: doing nothing counts as 0: test.sh exited with 2 and left no reward",
                  "wrong silent: its solution gets reward 0, not 1: test.sh exited with 3 and left no reward",
                  "wrong garbled: doing nothing gets no reward: test.sh exited with 0: reward.txt holds 'none'"):
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
        cases = {"isolation": case_isolation, "harbor": case_harbor, "image": case_image, "image_stop": case_image_stop,
                 "registry": case_registry, "bench": case_bench}
        cases[case](Ingot(binary, source, folder), folder)


if __name__ == "__main__":
    main()
