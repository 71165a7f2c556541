#!/usr/bin/env python3
"""What people type, as they type it: command_tests.py BINARY SOURCE_DIR [CASE ...].

schema      `ingot config schema` as an editor uses it: a valid JSON Schema that every configuration of the repository meets, and a wrong one does not
init        `ingot init` makes a folder that trains, and every command that its texts name works there
texts       the commands, options and make targets that AGENTS.md and the documents name exist
cluster     the YAML of docs/guide/cluster.md and configs/multi-node.yaml passes `ingot config check`, and can be launched as it says
progress    a command of seconds shows its progress on a terminal, and nowhere else
full        an answer that a full disk took is a failure
prepare     examples/smollm2/prepare.sh ends with a command that reads the folder that it was given
reports     two runs of one name: their answers on a full disk, a comparison, reports, the page for other machines
"""
import copy
import functools
import json
import os
import pathlib
import pty
import re
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import time

try:
    import jsonschema
    import yaml
except ImportError as missing:
    jsonschema, yaml = None, missing


def yaml12():
    """A loader that reads YAML as editors do: 1e-3 is a number, and `on` a word."""
    class Yaml12(yaml.SafeLoader):
        pass

    Yaml12.yaml_implicit_resolvers = {first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:bool"]
                                      for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()}
    Yaml12.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("^(?:true|false)$"), list("tf"))
    Yaml12.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"^[-+]?[0-9]+[eE][-+]?[0-9]+$"), list("-+0123456789"))
    return Yaml12


# Places in a configuration, and what must not stand there.
WRONG = [(("no_such_section",), {}), (("trainer", "learning_rat"), 0.1), (("trainer", "learning_rate"), "quick"), (("trainer",), 3),
         (("scheduler", "total_steps"), 1.5), (("scheduler", "total_steps"), "many"), (("scheduler", "group_size"), 0), (("numerics",), "approximate"), (("eval", "tasks"), []),
         (("http", "dashboard"), "maybe"), (("agents", "recipes"), {}), (("agents", "recipes", 0, "comand"), []),
         (("agents", "recipes", 0, "command"), "python3 agent.py"), (("agents", "recipes", 0, "timeout_s"), "soon")]


def put(config, place, value):
    changed = copy.deepcopy(config)
    at = changed
    for key, following in zip(place, place[1:]):
        if isinstance(at, dict):
            at = at.setdefault(key, [{}] if isinstance(following, int) else {})
        else:
            at = at[key]
    at[place[-1]] = value
    return changed


def run(argv, folder=None, accepted=(0,), **more):
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=200, stdin=subprocess.DEVNULL, **more)
    if done.returncode not in accepted:
        raise SystemExit(f"FAILED: {argv}: exit code {done.returncode}: {done.stdout[-1500:]} {done.stderr[-1500:]}")
    return done.stdout


def case_schema(binary, source, _):
    if jsonschema is None:
        return f"left out: {yaml}"
    schema = json.loads(run([binary, "config", "schema"]))
    jsonschema.Draft202012Validator.check_schema(schema)
    validator, loader = jsonschema.Draft202012Validator(schema), yaml12()
    faults, configs = [], [*source.glob("configs/**/*.yaml"), *source.glob("examples/**/run*.yaml"), source / "src/app/commands/run/templates/run.yaml"]
    for path in configs:
        config = yaml.load(path.read_text(encoding="utf-8").replace("@NAME@", "name").replace("@VERIFIER@", "{kind: exact}"), loader)
        faults += [f"{path}: {'.'.join(map(str, error.absolute_path))}: {error.message[:200]}" for error in validator.iter_errors(config)]
    smoke = yaml.load((source / "configs/smoke.yaml").read_text(encoding="utf-8"), loader)
    faults += [f"{'.'.join(map(str, place))}: {value!r} is accepted" for place, value in WRONG if validator.is_valid(put(smoke, place, value))]
    if faults or len(configs) < 10:
        raise SystemExit("\n".join(["FAILED:", *faults]))
    return f"{len(configs)} configurations meet the schema; {len(WRONG)} wrong ones do not"


def commands_in(text):
    """The commands that a text names: between backticks, and on indented lines."""
    return re.findall(r"`(ingot [^`]+)`", text) + re.findall(r"^    (ingot .+?)(?:\s+#.*)?$", text, re.M)


# Places of the texts, and what a reader would write there.
FILLED = {"RUN": "runs/trial", "runs/A": "runs/it-s-a-run", "runs/B": "runs/trial", "GROUP/SAMPLE": "0/0", "KEY": "trainer.learning_rate",
          "FILE": "run.yaml", "rewards.terms=[...]": "rewards.terms=[{kind: outcome}]"}
TINY = ["sft.max_steps=3", "scheduler.groups_per_step=2", "scheduler.group_size=2"]


def run_next(said, place):
    """Runs the commands that a run printed at its end, in a shell in its folder."""
    commands = re.findall(r"^  (\S.+)$", said.rsplit("\nnext:\n", 1)[-1], re.M)
    if [shlex.split(command)[1] for command in commands] != ["view", "report", "serve"]:
        raise SystemExit(f"FAILED: a run ends with {said[-1500:]}")
    run(["sh", "-c", commands[1]], place)
    for command, started in ((commands[0], "http://"), (f"{commands[2]} --port 0", "serving ")):
        with subprocess.Popen(["sh", "-c", f"exec {command}"], cwd=place, stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL) as server:
            line = server.stdout.readline()
            server.kill()
        if not line.startswith(started):
            raise SystemExit(f"FAILED: {command} prints {line}")


def case_init(binary, _, folder):
    pathlib.Path(folder, "bin").mkdir()
    pathlib.Path(folder, "bin", "ingot").symlink_to(binary)
    env = {**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}"}
    said = run([binary, "init", "it's a run"], folder)
    hint = said.strip().split(": ", 1)[1]
    if shlex.split(hint) != [binary, "train", "it's a run/run.yaml"]:
        raise SystemExit(f"FAILED: init says {said}")
    said = run(["sh", "-c", f"{hint} {' '.join(TINY)} scheduler.total_steps=1"], folder, env=env)
    place = pathlib.Path(folder, "it's a run")
    if pathlib.Path(folder, "runs").exists():
        raise SystemExit("FAILED: a run outside the folder of its configuration")
    run_next(said, folder)
    rows = [json.loads(line) for line in (place / "runs/it-s-a-run/metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    if sum("actor/loss" in row for row in rows) != 1 or not any("eval/reward_mean" in row for row in rows):
        raise SystemExit(f"FAILED: the folder's run has {len(rows)} rows")
    texts = "\n".join(path.read_text(encoding="utf-8") for path in sorted(place.rglob("*.md"), key=lambda one: "train.md" not in one.name))
    commands = list(dict.fromkeys(commands_in(texts)))
    (place / "script.jsonl").write_text('{"content": "seven", "repeat": true}\n', encoding="utf-8")
    for command in commands:
        words = [FILLED.get(word, word) for word in shlex.split(command)]
        if words[1] == "view":
            with subprocess.Popen([binary, *words[1:]], cwd=place, stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL) as served:
                link = served.stdout.readline()
                served.kill()
            if not link.startswith("http://"):
                raise SystemExit(f"FAILED: {command} prints {link}")
            continue
        tiny = [*TINY, *([] if "scheduler.total_steps" in command else ["scheduler.total_steps=1"])] if words[1] == "train" else []
        run([binary, *words[1:], *tiny], place, (0, 1) if words[1] == "doctor" else (0,))
    return f"{len(commands)} commands of the folder's texts work in it"


@functools.cache
def help_of(binary, *names):
    return run([binary, *names, "--help"])


def subcommands(text):
    """Those that a command's help lists."""
    return set(re.findall(r"^  ([a-z][a-z-]*)", text.partition("\nSubcommands:\n")[2], re.M))


def case_texts(binary, source, _):
    known = subcommands(help_of(binary))
    texts = [source / "AGENTS.md", source / "README.md", *source.glob("docs/**/*.md")]
    targets = set(re.findall(r"^([a-z-]+):", (source / "Makefile").read_text(encoding="utf-8"), re.M))
    faults, count = [], 0
    for path in texts:
        text = path.read_text(encoding="utf-8")
        faults += [f"{path.name}: make {target}" for target in re.findall(r"`make ([a-z-]+)", text) if target not in targets]
        for command in commands_in(text):
            words = command.split()[1:]
            if not re.fullmatch("[a-z-]+", words[0]) or words[0].startswith("-"):
                continue
            count += 1
            if words[0] not in known:
                faults.append(f"{path.name}: {command}: no such command")
                continue
            if len(words) == 1:
                continue
            names, own = [words[0]], help_of(binary, words[0])
            group = subcommands(own)
            first = words[1].split("|") if group else []
            if "[SUBCOMMAND]" in own and not set(first) <= group:  # it works without one of its subcommands
                first = []
            names += first[:1]
            missing = [f"{path.name}: {command}: no such command" for one in first if one not in group]
            faults += missing
            options = re.findall(r"(?<!\S)(--[a-z-]+)", command)
            if options and not missing:
                text_of_help = help_of(binary, *names)
                faults += [f"{path.name}: {command}: no option {option}" for option in options if not re.search(option + "(?![a-z-])", text_of_help)]
    if faults or count < 50:
        raise SystemExit("\n".join([f"FAILED: {count} commands", *faults]))
    return f"{count} commands of {len(texts)} texts exist"


def merged(config, part):
    """A configuration with the keys of a part of one."""
    if not (isinstance(config, dict) and isinstance(part, dict)):
        return part
    return {**config, **{key: merged(config.get(key), value) for key, value in part.items()}}


def rejected(argv, folder, *words):
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    if done.returncode != 2 or not all(word in done.stderr for word in words):
        raise SystemExit(f"FAILED: {argv}: {done.returncode}, and {words} are not in: {done.stderr[-1500:]}")


def case_cluster(binary, source, folder):
    if yaml is None or jsonschema is None:
        return f"left out: {yaml or jsonschema}"
    page, loader = (source / "docs/guide/cluster.md").read_text(encoding="utf-8"), yaml12()
    smoke = yaml.load((source / "configs/smoke.yaml").read_text(encoding="utf-8"), loader)
    parts = [yaml.load(part, loader) for part in re.findall(r"^```yaml\n(.*?)^```", page, re.M | re.S)]
    launched, of_slurm = 0, ["--set", "cluster.launcher=slurm", "--set", "cluster.host=auto"]
    for index, part in enumerate(parts):
        path = pathlib.Path(folder, f"part-{index}.yaml")
        path.write_text(json.dumps(merged(smoke, part)), encoding="utf-8")
        run([binary, "config", "check", path], source)
        nodes = "groups" in part["cluster"] and "launcher" not in part["cluster"]
        plan = run([binary, "launch", path, "--dry-run", *(of_slurm if nodes else [])], source)
        launched += "--group" in plan or "\nkind: " in plan
    if len(parts) < 3 or launched < 2:
        raise SystemExit(f"FAILED: {len(parts)} parts of configurations, of which {launched} are of several nodes")

    nodes = "configs/multi-node.yaml"
    groups = yaml.load((source / nodes).read_text(encoding="utf-8"), loader)["cluster"]["groups"]
    started = re.findall(rf"^ingot node {nodes} --group (\w+)(?: --node (\d+))?", page, re.M)
    wanted = [(group["name"], node) for group in groups for node in range(group.get("nodes", 1))]
    if sorted((name, int(node or 0)) for name, node in started) != sorted(wanted):
        raise SystemExit(f"FAILED: docs/guide/cluster.md starts {started}, and {nodes} has {wanted}")
    run([binary, "config", "check", nodes], source)
    rejected([binary, "launch", nodes, "--dry-run", "--set", "cluster.launcher=slurm"], source, "cluster.host is 127.0.0.1")
    rejected([binary, "launch", nodes, "--dry-run", *of_slurm], source, "cluster.registry.endpoints has 127.0.0.1:2379")
    of_slurm += ["--set", "cluster.registry.endpoints=['10.0.0.1:2379']"]
    run([binary, "launch", nodes, "--dry-run", *of_slurm], source)
    run([binary, "launch", nodes, "--dry-run", "--set", "cluster.groups=[]"], source)
    rejected([binary, "launch", nodes, "--dry-run"], source, "names 3 nodes", "ingot node")
    for wrong, words in (("cluster.token_file=", "cluster.token_file"), ("cluster.rollout_engines=3", "room for 2 of role rollout")):
        rejected([binary, "config", "check", nodes, wrong], source, words)
        rejected([binary, "launch", nodes, "--dry-run", *of_slurm, "--set", wrong], source, words)
    return f"{len(parts)} parts of configurations of docs/guide/cluster.md, and {nodes}, are checked and planned"


def start_on_a_terminal(argv, folder):
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execve(argv[0], argv, {**os.environ, "TERM": "xterm"})
    return pid, terminal


def seen_until(wanted, pid, terminal):
    """What a terminal has shown of a command when the pattern `wanted` comes; the command is ended."""
    seen, deadline = "", time.monotonic() + 120
    while not re.search(wanted, seen) and time.monotonic() < deadline:
        if select.select([terminal], [], [], 1)[0]:
            try:
                seen += os.read(terminal, 65536).decode(errors="replace")
            except OSError:  # it has ended
                break
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    os.close(terminal)
    return seen


def pause_after(wanted, pid, terminal):
    """Stops a command for three seconds, a moment after its terminal has shown `wanted`."""
    seen = ""
    while wanted not in seen:
        seen += os.read(terminal, 65536).decode(errors="replace")
    time.sleep(0.3)
    os.kill(pid, signal.SIGSTOP)
    time.sleep(3)
    os.kill(pid, signal.SIGCONT)


def case_progress(binary, _, folder):
    argv = [binary, "simulate", "--order", "windowed", "--workers", "10000", "--steps", "39000", "--groups-per-step", "64"]  # of a second and more
    # A pipe that nobody writes stands for a disk that does not answer. It has no name of its own: a named one is refused.
    unwritten = [open(end, mode) for end, mode in zip(os.pipe(), ("rb", "wb"))]
    for name in ("run/config.yaml", "other/config.yaml", "silent.jsonl"):
        pathlib.Path(folder, name).parent.mkdir(exist_ok=True)
        os.symlink(f"/proc/{os.getpid()}/fd/{unwritten[0].fileno()}", f"{folder}/{name}")
    run([binary, "init", "trial"], folder)
    waiting = {
        "simulate: windowed": argv, "report reading the run": [binary, "report", "run"], "view: reading run": [binary, "view", "run"],
        "compare ╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌ 0/2 reading run": [binary, "compare", "run", "other"],
        "import ╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌ 0/1 silent.jsonl": [binary, "import", "trial/run.yaml", "silent.jsonl"],
        "doctor: checking this machine": [binary, "doctor", "run/config.yaml"], "status: asking the roles": [binary, "status", "run/config.yaml"],
        "export reading the run": [binary, "export", "run", "out"], "regrade reading the run": [binary, "regrade", "run"],
        "tasks reading the run": [binary, "tasks", "rate", "run", "out"]}
    started = {line: start_on_a_terminal(command, folder) for line, command in waiting.items()}
    pause_after("episodes/h", *started["simulate: windowed"])  # three seconds pass, however quick the machine is
    # Drawn after two seconds, and again each second; a busy machine may draw later.
    seen = {line: seen_until(f"{line}  (?:[3-9]|\\d\\d) s", *of) for line, of in started.items()}
    faults = [f"{waiting[line][1:]}: {text!r}" for line, text in seen.items()
              if not re.search(f"\r\x1b\\[K{line}  (?:[3-9]|\\d\\d) s", text)]
    if faults:
        raise SystemExit("\n".join(["FAILED: terminals show", *faults]))
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as silent:
        time.sleep(3.5)
        silent.kill()
        said = silent.stderr.read()
    if said:
        raise SystemExit(f"FAILED: a pipe gets {said!r}")
    return f"the progress of {len(waiting)} commands is on the terminal alone"


def case_full(binary, _, folder):
    commands = [["config", "schema"], ["config", "explain"], ["completion", "bash"], ["--help"], ["--version"], ["simulate", "--steps", "3"]]
    rejected_on_a_full_disk(binary, commands, folder)
    with open("/dev/full", "w", encoding="utf-8") as full:
        wrong = subprocess.run([binary, "config", "explain", "no.such.key"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    if wrong.returncode != 2 or "cannot write" in wrong.stderr:
        raise SystemExit(f"FAILED: without an answer: {wrong.returncode}, {wrong.stderr}")
    return f"{len(commands)} commands end with 1"


def rejected_on_a_full_disk(binary, commands, folder):
    for command in commands:
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([binary, *command], cwd=folder, stdout=full, stderr=subprocess.PIPE, text=True, timeout=100, check=False)
        if done.returncode != 1 or "cannot write the output: " not in done.stderr:
            raise SystemExit(f"FAILED: {command} to a full disk: {done.returncode}, {done.stderr}")


def case_reports(binary, _, folder):
    run([binary, "init", "trial"], folder)
    for place, more in (("one", []), ("two", ["rewards.terms=[{kind: outcome}, {kind: length, weight: 0.1}]"])):
        root = f"run.root={place}/trial/runs"
        run([binary, "train", "trial/run.yaml", *TINY, "scheduler.total_steps=1", "http.dashboard=false", root, *more], folder)
    one, two = "one/trial/runs/trial", "two/trial/runs/trial"
    rejected_on_a_full_disk(binary, [["inspect", one, "--json"], ["inspect", one, "--journal"], ["inspect", one], ["compare", one, two]], folder)
    listed = {}
    for more in ((), ("--limit", "0"), ("--limit", "1")):
        done = subprocess.run([binary, "inspect", one, "--json", *more], cwd=folder, capture_output=True, text=True, check=True)
        listed[more] = ([json.loads(line)["episode"]["episodeId"] for line in done.stdout.splitlines()], done.stderr)
    (every, silent), (same, _), (cut, reported) = listed.values()
    if every != same or silent or not 0 < len(cut) < len(every) or "--limit 1 omits older episodes (train" not in reported:
        raise SystemExit(f"FAILED: records of a list: {listed}")
    compared = run([binary, "compare", one, two, "--html", "both.html"], folder)
    names = [line.split()[0] for line in compared.splitlines()]
    both = pathlib.Path(folder, "both.html").read_text(encoding="utf-8")
    if any(name not in names or name not in both for name in (one, two)):
        raise SystemExit(f"FAILED: compare names {names}")
    if not all(words in compared for words in (f"{two}: 1 key differs from {one}\n", "  rewards.terms: [{", f"the rewards of {two} and {one} have different terms")):
        raise SystemExit(f"FAILED: compare does not say how the runs differ: {compared}")
    intervals = re.findall(r"\((\S+) to (\S+)\)", next(line for line in compared.splitlines() if line.startswith(one)))
    if not intervals or any(not 0 <= float(low) <= float(high) <= 1 for low, high in intervals):
        raise SystemExit(f"FAILED: intervals of rewards in [0, 1]: {intervals} in {compared}")
    for _ in range(2):
        run([binary, "report", one], folder)
    first = pathlib.Path(folder, "trial.html").read_bytes()
    for page in (first.decode(), both):
        charts = re.findall(r"<svg.*?</svg>", page, re.S)
        if not charts or any(len(re.findall(r'<text class="axis"[^>]*>[-+.0-9e]+</text>', chart)) < 2 for chart in charts):
            raise SystemExit(f"FAILED: a chart without numbers on both axes, of {len(charts)}")
    done = subprocess.run([binary, "report", two], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 2 or "'trial.html' already exists" not in done.stderr or pathlib.Path(folder, "trial.html").read_bytes() != first:
        raise SystemExit(f"FAILED: the report of another run: {done.returncode}, {done.stderr}")
    run([binary, "report", two, "trial.html"], folder)
    done = subprocess.run([binary, "view", one, "--host", "0.0.0.0"], cwd=folder, capture_output=True, text=True, check=False)
    if "add --tls-certificate and --tls-key, or, on a private network, --allow-plaintext" not in done.stderr:
        raise SystemExit(f"FAILED: view for other machines: {done.stderr}")
    link = seen_until(r"\?token=", *start_on_a_terminal([binary, "view", one, "--host", "0.0.0.0", "--allow-plaintext"], folder))
    if "http://0.0.0.0:" not in link:
        raise SystemExit(f"FAILED: view --allow-plaintext: {link}")
    return "runs of one name are told apart"


def case_prepare(_, source, folder):
    stub = pathlib.Path(folder, "in got")
    stub.write_text("#!/bin/sh\npwd\nprintf '%s\\n' \"$@\"\n", encoding="utf-8")
    stub.chmod(0o755)
    mine = pathlib.Path(folder, "it's: mine")
    for made in ("python/installed", "model/config.json", "eval.jsonl"):  # existing files are not downloaded
        (mine / made).parent.mkdir(parents=True, exist_ok=True)
        (mine / made).touch()
    said = run([source / "examples/smollm2/prepare.sh", "./in got", "it's: mine"], folder)
    place, *words = run(["bash", "-c", said.strip().split("ready: ", 1)[1]], "/").splitlines()
    read = {word.split("=", 1)[0]: word.split("=", 1)[1].strip("'").replace("''", "'") for word in words if "=" in word}
    wanted = {"model.path": str(mine / "model"), "data.tasks": str(mine / "train.jsonl"), "eval.tasks": str(mine / "eval.jsonl")}
    if words[:2] != ["train", "examples/smollm2/run.yaml"] or pathlib.Path(place) != source or read != wanted:
        raise SystemExit(f"FAILED: prepare.sh says {said}: {place}, {read}")
    return "the command of prepare.sh reads the folder that it was given"


CASES = {"schema": case_schema, "init": case_init, "texts": case_texts, "cluster": case_cluster, "progress": case_progress, "full": case_full, "prepare": case_prepare, "reports": case_reports}


def main():
    binary, source = str(pathlib.Path(sys.argv[1]).resolve()), pathlib.Path(sys.argv[2]).resolve()
    for name in sys.argv[3:] or CASES:
        with tempfile.TemporaryDirectory(prefix="ingot-commands-") as folder:
            print(f"{name}: {CASES[name](binary, source, folder)}", flush=True)


if __name__ == "__main__":
    main()
